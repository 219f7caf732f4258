<?php
/** Upkeep of the store: sweeps, the clean mark of a sync, and the numbers for the commands. */
trait Tidemark_Store_Upkeep {
	/** Within a transaction that writes. @throws Exception */
	private function remove_mark() {
		if ( $this->is_clean ) {
			if ( ! $this->mark->remove() ) {
				throw new RuntimeException( 'the mark of a sync cannot be removed' );
			}
			$this->db->exec( 'UPDATE mark SET clean = 0' );
			$this->is_clean = false;
		}
	}

	/**
	 * Brings all to the disk and sets the mark. It raises the stamp, so that each writer meets the mark.
	 * False where another process wrote or read meanwhile.
	 *
	 * @throws Exception
	 */
	public function sync() {
		$this->end_reads();
		$this->db->exec( 'PRAGMA synchronous = FULL' );
		$this->begin();
		$this->db->exec( 'UPDATE mark SET stamp = stamp + 1, clean = 1; COMMIT' );
		$left = $this->db->querySingle( 'PRAGMA wal_checkpoint(TRUNCATE)', true );
		$this->db->exec( 'PRAGMA synchronous = OFF' );
		$this->begin();
		$is_done = 0 === $left['busy'] && 1 === $this->db->querySingle( 'SELECT clean FROM mark' )
			&& $this->invalidation->sync() && $this->mark->set( $this->origin );
		$this->db->exec( 'COMMIT' );
		$this->refresh();
		return $is_done;
	}

	/** Small steps of upkeep: what is expired or flushed goes first, then random entries of a full store. */
	public function sweep( $limit, $milliseconds, $now ) {
		$this->end_reads();
		$ends     = hrtime( true ) + $milliseconds * 1000000;
		$used     = 4096 * ( $this->db->querySingle( 'PRAGMA page_count' )
			- $this->db->querySingle( 'PRAGMA freelist_count' ) );
		$is_full  = $used > $limit * 0.9;
		// Purged tombstones end all leases, so that is not done at each step.
		$last     = $this->db->querySingle( 'SELECT purged FROM mark' );
		$is_purge = $is_full || abs( $now - $last ) >= 10;
		do {
			$this->begin();
			$is_done = $this->sweep_step( $is_full, $is_purge, $now );
			$this->db->exec( 'COMMIT' );
		} while ( ! $is_done && hrtime( true ) < $ends );
		$this->bound_log();
	}

	/**
	 * A request that reads and then waits for something else keeps the log from being reset.
	 * Before it grows without bound the store gets a new file, which is empty.
	 *
	 * @throws Exception When the file was given up: then it is opened again.
	 */
	public function bound_log() {
		if ( $this->log_size() <= self::LOG_MAX ) {
			return;
		}
		$this->end_reads();
		$this->db->busyTimeout( 50 );
		$left = @$this->db->querySingle( 'PRAGMA wal_checkpoint(TRUNCATE)', true );
		$this->db->busyTimeout( self::WAIT_SECONDS * 1000 );
		if ( ! empty( $left['busy'] ) && $this->log_size() > self::LOG_LAST ) {
			$this->replace_file();
			throw new RuntimeException( 'the log of the store had its largest size, so the store was emptied' );
		}
	}

	private function log_size() {
		clearstatcache( true, $this->path . '-wal' );
		return (int) @filesize( $this->path . '-wal' );
	}

	/** Entries become tombstones: their leases go on. Old tombstones end all leases. */
	private function sweep_step( $is_full, $is_purge, $now ) {
		$this->refresh();
		$from = $this->db->querySingle( 'SELECT swept FROM mark' );
		$found = $this->db->query( "SELECT n, v IS NULL, g, (x > 0 AND x <= $now)
			OR q < {$this->flushed} FROM entry WHERE n >= $from ORDER BY n LIMIT 200" );
		$rows = array( 'gone' => array(), 'emptied' => array() );
		$seen = 0;
		while ( $row = $found->fetchArray( SQLITE3_NUM ) ) {
			++$seen;
			$last = $row[0];
			if ( $row[1] ? $is_purge : ( $row[3] || ( $is_full && 0 === random_int( 0, 1 ) ) ) ) {
				$rows[ $row[1] || 0 === $row[2] ? 'gone' : 'emptied' ][] = $row[0];
				$raises = ! empty( $raises ) || $row[1];
			}
		}
		$found->finalize();
		$this->db->exec( 'DELETE FROM entry WHERE n IN (' . implode( ',', $rows['gone'] ) . ');
			UPDATE entry SET v = NULL, c = NULL WHERE n IN ('
			. implode( ',', $rows['emptied'] ) . ')' );
		$next = $seen < 200 ? 0 : $last + 1;
		$this->db->exec( "UPDATE mark SET swept = $next" . ( empty( $raises ) ? ''
			: ", stamp = stamp + 1, purged = $now" ) );
		return $seen < 200;
	}

	/** What the commands print. @throws Exception */
	public function counts() {
		$this->end_reads();
		return $this->db->querySingle( 'SELECT count(v) AS entries, sum(v IS NULL) AS tombstones,
			coalesce(sum(length(v)), 0) AS bytes FROM entry', true );
	}

	/** What SQLite finds wrong with the file; empty when it is sound. @throws Exception */
	public function damage() {
		$this->end_reads();
		$found = $this->db->querySingle( 'PRAGMA quick_check' );
		return 'ok' === $found ? '' : (string) $found;
	}
}
