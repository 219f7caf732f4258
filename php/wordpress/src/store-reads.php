<?php
/** Reads of the store: one key or many, in snapshots of one second. */
trait Tidemark_Store_Reads {
	public static function id( $full ) {
		return unpack( 'q', hash( 'xxh3', $full, true ) )[1];
	}

	/** Value, expiry and lease; the value is null for a miss. @throws Exception */
	public function get( $prefix, $key, $now ) {
		if ( $this->reads_since !== $now ) {
			$this->begin_reads( $now );
		}
		$full  = $prefix . $key;
		$found = $this->select( $prefix, $full, $now );
		if ( null === $found[0] || ! $this->apcu ) {
			return $found;
		}
		// What is filled in above must be as new as the token, so it is read once more.
		$token = $this->apcu->token( $full );
		$this->begin_reads( $now );
		$found = $this->select( $prefix, $full, $now );
		if ( null !== $found[0] ) {
			$this->apcu->fill( $full, $token, $found[0], $found[1] );
		}
		return $found;
	}

	private function select( $prefix, $full, $now ) {
		++$this->selects;
		$select = $this->statement( self::SELECT );
		$select->bindValue( 1, self::id( $full ), SQLITE3_INTEGER );
		$row = $select->execute()->fetchArray( SQLITE3_NUM );
		$select->reset();
		return $this->validate( $row, $prefix, $full, $now );
	}

	/** Key => what `get` answers, by one query for each hundred. @throws Exception */
	public function get_multiple( $prefix, array $keys, $now ) {
		if ( $this->reads_since !== $now ) {
			$this->begin_reads( $now );
		}
		$answers = $this->select_all( $prefix, $keys, $now );
		$tokens  = array();
		foreach ( $this->apcu ? $answers : array() as $key => $found ) {
			if ( null !== $found[0] ) {
				$tokens[ $key ] = $this->apcu->token( $prefix . $key );
			}
		}
		if ( $tokens ) {
			$this->begin_reads( $now );
			$newer = $this->select_all( $prefix, array_keys( $tokens ), $now );
			foreach ( $newer as $key => list( $bytes, $expires ) ) {
				if ( null !== $bytes ) {
					$this->apcu->fill( $prefix . $key, $tokens[ $key ], $bytes, $expires );
				}
			}
			$answers = array_replace( $answers, $newer );
		}
		return $answers;
	}

	private function select_all( $prefix, array $keys, $now ) {
		$answers = array();
		foreach ( array_chunk( $keys, 100 ) as $some ) {
			$ids = array();
			foreach ( $some as $key ) {
				$ids[ self::id( $prefix . $key ) ] = $key;
			}
			// The ids are integers made here, so they can stand in the text.
			$rows = $this->db->query( 'SELECT k, v, x, q, g, c, id FROM entry WHERE id IN ('
				. implode( ',', array_keys( $ids ) ) . ')' );
			foreach ( $some as $key ) {
				$answers[ $key ] = array( null, 0, array( $this->stamp, 0 ) );
			}
			while ( $row = $rows->fetchArray( SQLITE3_NUM ) ) {
				$key             = $ids[ $row[6] ];
				$answers[ $key ] = $this->validate( $row, $prefix, $prefix . $key, $now );
			}
			$rows->finalize();
		}
		return $answers;
	}

	/**
	 * Full key => what `get` answers, of prefix => id => key, for those that are there. The ids spare a hash
	 * for each: a row counts only where its key is the one of the list.
	 *
	 * @throws Exception
	 */
	public function get_listed( array $lists, $bytes_max, $now ) {
		$ids    = array();
		$tokens = array();
		foreach ( $lists as $prefix => $keys ) {
			foreach ( is_array( $keys ) ? $keys : array() as $id => $key ) {
				if ( is_int( $id ) && is_string( $key ) && count( $ids ) < Tidemark_Ahead::KEYS_MAX ) {
					$full       = $prefix . $key;
					$ids[ $id ] = array( $prefix, $full );
					$this->apcu && $tokens[ $full ] = $this->apcu->token( $full );
				}
			}
		}
		$this->begin_reads( $now );
		$rows  = $this->db->query( 'SELECT k, v, x, q, g, c, id FROM entry WHERE id IN ('
			. implode( ',', array_keys( $ids ) ) . ') AND length(v) <= ' . (int) $bytes_max );
		$found = array();
		while ( $row = $rows->fetchArray( SQLITE3_NUM ) ) {
			list( $prefix, $full ) = $ids[ $row[6] ];
			$answer = $this->validate( $row, $prefix, $full, $now );
			if ( null !== $answer[0] ) {
				$found[ $full ] = $answer;
				$this->apcu && $this->apcu->fill( $full, $tokens[ $full ], $answer[0], $answer[1] );
			}
		}
		$rows->finalize();
		return $found;
	}

	private function validate( $row, $prefix, $full, $now ) {
		if ( ! $row ) {
			return array( null, 0, array( $this->stamp, 0 ) );
		}
		$lease = array( $this->stamp, $row[4] );
		$is_of = null !== $row[1] && $row[0] === $full
			&& ( 0 === $row[2] || $row[2] > $now )
			&& $row[3] >= ( $this->cleared ? $this->floor( $prefix ) : $this->flushed );
		// As `checksum`, without a call for each row.
		if ( ! $is_of || hash( 'xxh3', $row[1], true, array( 'seed' => $row[2] ) ) !== $row[5] ) {
			return array( null, 0, $lease );
		}
		return array( $row[1], $row[2], $lease );
	}

	private static function checksum( $expires, $bytes ) {
		// The time as a seed: to join the two would copy the value.
		return hash( 'xxh3', $bytes, true, array( 'seed' => $expires ) );
	}

	private function floor( $prefix ) {
		if ( ! $this->cleared ) {
			return $this->flushed;
		}
		return max( $this->flushed, $this->cleared[ self::id( $prefix ) ] ?? 0 );
	}

	/** Reads of one second share a snapshot: that spares each a lock. */
	private function begin_reads( $now ) {
		$this->end_reads();
		$this->db->exec( 'BEGIN' );
		$this->reads_since = $now;
		$this->refresh();
	}

	public function end_reads() {
		if ( null !== $this->reads_since ) {
			$this->reads_since = null;
			$this->db->exec( 'COMMIT' );
		}
	}
}
