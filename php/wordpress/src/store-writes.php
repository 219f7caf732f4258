<?php
/** Writes to the store: a commit for each call, then the shared memories are notified. */
trait Tidemark_Store_Writes {
	/** True when stored, false when the lease no longer holds. @throws Exception */
	public function set( $prefix, $key, $bytes, $expires, $lease ) {
		$full = $prefix . $key;
		return $this->write(
			$lease ? self::LEASED : self::UPSERT,
			array( self::id( $full ), $full, $bytes, $expires, null, $this->sum( $bytes, $expires ) ),
			$lease,
			$prefix
		);
	}

	/** As `set`; false also when there is an entry. @throws Exception */
	public function add( $prefix, $key, $bytes, $expires, $lease ) {
		$full = $prefix . $key;
		return $this->write(
			$lease ? self::ADD_LEASED : self::ADD,
			array( self::id( $full ), $full, $bytes, $expires, null, $this->sum( $bytes, $expires ) ),
			$lease,
			$prefix
		);
	}

	/**
	 * Many by one commit: key => what `set` answers, or `add` where only the absent are stored.
	 *
	 * @throws Exception Then none is stored.
	 */
	public function write_multiple( $prefix, array $rows, $expires, array $leases, $is_add ) {
		$busy   = array();
		$stored = array();
		foreach ( $this->apcu ? array_keys( $rows ) : array() as $key ) {
			$busy[ $key ] = $this->apcu->begin_write( $prefix . $key );
		}
		try {
			$stored = $this->write_rows( $prefix, $rows, $expires, $leases, $is_add );
		} finally {
			foreach ( $rows as $key => $bytes ) {
				$is_done = $stored[ $key ] ?? false;
				$this->publish( $prefix . $key, $busy[ $key ] ?? 0, $is_done, $is_done ? $bytes : null, $expires );
			}
		}
		return $stored;
	}

	private function write_rows( $prefix, array $rows, $expires, array $leases, $is_add ) {
		$stored = array();
		$this->end_reads();
		$this->begin();
		try {
			$this->refresh();
			$this->remove_mark();
			foreach ( $rows as $key => $bytes ) {
				$full  = $prefix . $key;
				$lease = $leases[ $key ] ?? null;
				$sql   = $is_add ? ( $lease ? self::ADD_LEASED : self::ADD )
					: ( $lease ? self::LEASED : self::UPSERT );

				$stored[ $key ] = ( ! $lease || $lease[0] === $this->stamp ) && $this->run( $sql, $prefix,
					array( self::id( $full ), $full, $bytes, $expires, $this->stamp,
						$this->sum( $bytes, $expires ), $lease[1] ?? 0 ) );
			}
			$this->db->exec( 'COMMIT' );
		} catch ( Throwable $failed ) {
			@$this->db->exec( 'ROLLBACK' );
			throw $failed;
		}
		return $stored;
	}

	/** True when there was an entry. @throws Exception */
	public function replace( $prefix, $key, $bytes, $expires ) {
		$full = $prefix . $key;
		return $this->write(
			self::REPLACE,
			array( self::id( $full ), $full, $bytes, $expires, null, $this->sum( $bytes, $expires ) ),
			null,
			$prefix
		);
	}

	/** Whether there was an entry, and the new lease. @throws Exception */
	public function delete( $prefix, $key ) {
		$full   = $prefix . $key;
		$number = random_int( 1, PHP_INT_MAX );
		$values = array( self::id( $full ), $full, null, 0, null, null, $number );
		$found  = $this->write( self::REMOVE, $values, null, $prefix );
		if ( ! $found ) {
			$this->write( self::TOMBSTONE, $values, null, $prefix );
		}
		return array( $found, array( $this->stamp, $number ) );
	}

	/** Changes a value under the write lock; `$change` gets bytes, answers bytes. @throws Exception */
	public function change( $prefix, $key, $now, $change ) {
		$full    = $prefix . $key;
		$changed = null;
		$busy    = $this->apcu ? $this->apcu->begin_write( $full ) : 0;
		try {
			$changed = $this->change_row( $prefix, $full, $now, $change );
		} finally {
			list( $bytes, $expires ) = $changed ?? array( null, 0 );
			$this->publish( $full, $busy, null !== $changed, $bytes, $expires );
		}
		return $changed;
	}

	private function change_row( $prefix, $full, $now, $change ) {
		$this->end_reads();
		$this->begin();
		try {
			$this->refresh();
			list( $bytes, $expires ) = $this->select( $prefix, $full, $now );
			if ( null !== $bytes ) {
				$this->remove_mark();
				$bytes = $change( $bytes );
				$this->run( self::REPLACE, $prefix, array( self::id( $full ), $full, $bytes, $expires,
					$this->stamp, $this->sum( $bytes, $expires ) ) );
			}
			$this->db->exec( 'COMMIT' );
		} catch ( Throwable $failed ) {
			@$this->db->exec( 'ROLLBACK' );
			throw $failed;
		}
		return null === $bytes ? null : array( $bytes, $expires );
	}

	private function sum( $bytes, $expires ) {
		return self::checksum( $expires, $bytes );
	}

	private function write( $sql, array $values, $lease, $prefix ) {
		$busy    = $this->apcu ? $this->apcu->begin_write( $values[1] ) : 0;
		$is_done = false;
		try {
			$is_done = $this->write_row( $sql, $values, $lease, $prefix );
		} finally {
			$bytes = $is_done ? $values[2] : null;
			$this->publish( $values[1], $busy, $is_done, $bytes, $values[3] );
		}
		return $is_done;
	}

	/** Passes a write on to the shared memories after its commit, or after it failed. */
	private function publish( $full, $busy, $is_done, $bytes, $expires ) {
		if ( $this->apcu ) {
			$this->apcu->end_write( $full, $busy, $bytes, $expires );
		}
		if ( $is_done ) {
			$this->notify( Tidemark_Invalidation::KEY, $full );
		}
	}

	/** After the commit: a process notified earlier would read the old row once more. */
	private function notify( $kind, $text ) {
		if ( $this->has_others && ! $this->invalidation->append( $kind, $text, $this->origin ) ) {
			$this->notify_failed = true;
		}
	}

	/** One statement, one commit. A changed stamp is learned, then the write is tried again. */
	private function write_row( $sql, array $values, $lease, $prefix ) {
		$this->end_reads();
		for ( $tries = 0; $tries < 20; ++$tries ) {
			if ( $this->is_clean ) {
				$this->begin_dirty();
			}
			if ( $lease ) {
				if ( $lease[0] !== $this->stamp ) {
					return false;
				}
				$values[6] = $lease[1];
			}
			$values[4] = $this->stamp;
			if ( $this->run( $sql, $prefix, $values ) ) {
				return true;
			}
			$before = $this->stamp;
			$this->refresh();
			if ( $this->stamp === $before ) {
				return false;
			}
		}
		throw new RuntimeException( 'the stamp of the store changes without end' );
	}

	private function begin_dirty() {
		$this->begin();
		try {
			$this->remove_mark();
		} finally {
			$this->db->exec( 'COMMIT' );
		}
	}

	private function run( $sql, $prefix, array $values ) {
		static $kinds = array( SQLITE3_INTEGER, SQLITE3_BLOB, SQLITE3_BLOB, SQLITE3_INTEGER,
			SQLITE3_INTEGER, SQLITE3_BLOB, SQLITE3_INTEGER );
		$statement = $this->statement( $sql );
		$count     = $statement->paramCount();
		foreach ( $values as $at => $value ) {
			if ( $at < $count ) {
				$statement->bindValue( $at + 1, $value, null === $value ? SQLITE3_NULL : $kinds[ $at ] );
			}
		}
		if ( $count > 7 ) {
			$statement->bindValue( 8, time(), SQLITE3_INTEGER );
			$statement->bindValue( 9, $this->floor( $prefix ), SQLITE3_INTEGER );
		}
		$this->with_retries( function () use ( $statement ) {
			try {
				$statement->execute()->finalize();
			} finally {
				$this->reset( $statement );
			}
		} );
		return $this->db->changes() > 0;
	}

	/** After a failure it says the same failure once more. */
	private function reset( $statement ) {
		try {
			$statement->reset();
		} catch ( Exception $same ) {
			return;
		}
	}

	/** Everything, or the group whose prefix is given; one small write, whatever is kept. */
	public function flush( $prefix = null ) {
		$this->end_reads();
		$this->begin();
		$this->refresh();
		$this->remove_mark();
		$next = $this->stamp + 1;
		$kind = Tidemark_Invalidation::FLUSH;
		if ( null === $prefix || count( $this->cleared ) >= 10000 ) {
			$this->db->exec( "UPDATE mark SET stamp = $next, flushed = $next; DELETE FROM cleared" );
		} else {
			$kind  = Tidemark_Invalidation::GROUP;
			$group = self::id( $prefix );
			$this->db->exec( "UPDATE mark SET stamp = $next;
				REPLACE INTO cleared VALUES ($group, $next)" );
		}
		$this->db->exec( 'COMMIT' );
		$this->refresh();
		if ( $this->apcu ) {
			// Of a group, too: what is read again comes from here.
			$this->apcu->flush();
		}
		$this->notify( $kind, Tidemark_Invalidation::GROUP === $kind ? $prefix : '' );
	}
}
