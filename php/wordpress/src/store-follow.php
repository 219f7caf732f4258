<?php
/** How the store and the shared memory of this process follow what others wrote. */
trait Tidemark_Store_Follow {
	/**
	 * Brings the shared memory up to date with `follow`, and registers it with all writers. False
	 * where it must not be used.
	 *
	 * @throws Exception
	 */
	public function join( $now ) {
		$this->end_reads();
		$segment = $this->apcu->segment();
		if ( '' === $segment ) {
			return false;
		}
		$state  = $this->apcu->state();
		$file   = "{$this->inode_text}:{$this->origin}";
		$is_old = $state && $state[0] === $file
			&& 1 === $this->db->querySingle( "SELECT count(*) FROM segment WHERE id = '$segment'" );
		$this->replay( $is_old ? $state[1] : null );
		$this->register( $segment, $is_old, $now );
		$checked = $this->db->querySingle( 'SELECT checked FROM mark' );
		self::keep_origin( $this->path, $this->origin );
		return $this->apcu->keep_state( array( $file, $this->position, $checked ) );
	}

	/** Applies to the shared memory what was appended since a position; null where that is unknown. */
	private function replay( $from ) {
		// What was appended meanwhile may be read as well: it is read once more later.
		$records = null === $from ? null : $this->invalidation->since( $from )[0];
		foreach ( $records ?? array( array( Tidemark_Invalidation::FLUSH, 0 ) ) as $record ) {
			if ( Tidemark_Invalidation::KEY !== $record[0] ) {
				$this->apcu->flush();
				return;
			}
			$this->apcu->drop( pack( 'q', $record[1] ) );
		}
	}

	/** The stamp rises with a new one: from then on it is notified of each write. */
	private function register( $segment, $is_old, $now ) {
		$this->segment = $segment;
		$late          = self::SEGMENT_SECONDS;
		$this->begin();
		$this->db->exec( "REPLACE INTO segment VALUES ('$segment', $now);
			DELETE FROM segment WHERE abs($now - seen) > $late"
			. ( $is_old ? '' : '; UPDATE mark SET stamp = stamp + 1' ) );
		$this->db->exec( 'COMMIT' );
		$this->refresh();
		$this->has_others = $this->other_segments() > 0;
	}

	private function other_segments() {
		$query = "SELECT count(*) FROM segment WHERE id <> '{$this->segment}'";
		return $this->db->querySingle( $query );
	}

	/** Applies what other processes appended since the last time. @throws Exception */
	public function follow() {
		$file = $this->invalidation;
		if ( $file->is_at( $this->position ) ) {
			return;
		}
		$this->end_reads();
		$position = $file->position();
		if ( $this->db->querySingle( 'SELECT position FROM mark' ) === $position ) {
			$this->position = $position;
			$this->refresh();
			return;
		}
		$this->begin();
		try {
			$this->refresh();
			$known = $this->db->querySingle( 'SELECT position FROM mark' );
			// A store that has never read the file is as new as the file.
			list( $records, $position ) = null === $known
				? array( array(), $file->position() ) : $file->since( $known );
			$this->apply( $records );
			$this->db->exec( "UPDATE mark SET position = '$position'" );
			$this->db->exec( 'COMMIT' );
		} catch ( Throwable $failed ) {
			@$this->db->exec( 'ROLLBACK' );
			throw $failed;
		}
		$this->position = $position;
		$this->refresh();
	}

	private function apply( $records ) {
		if ( array() !== $records ) {
			$this->remove_mark();
		}
		$next = $this->stamp + 1;
		foreach ( $records ?? array( array( Tidemark_Invalidation::FLUSH, 0, '' ) ) as $record ) {
			list( $kind, $id, $origin ) = $record;
			if ( $origin === $this->origin ) {
				continue; // This store has the write already.
			}
			if ( Tidemark_Invalidation::KEY === $kind ) {
				$number = random_int( 1, PHP_INT_MAX );
				$this->db->exec( "INSERT INTO entry (id, k, v, x, q, g, c)
					VALUES (($id), x'', NULL, 0, $next, $number, NULL)
					ON CONFLICT (id) DO UPDATE SET v = NULL, c = NULL, g = excluded.g" );
			} elseif ( Tidemark_Invalidation::GROUP === $kind ) {
				$this->db->exec( "UPDATE mark SET stamp = $next;
					REPLACE INTO cleared VALUES (($id), $next)" );
			} else {
				$this->db->exec( "UPDATE mark SET stamp = $next, flushed = $next" );
			}
		}
	}
}
