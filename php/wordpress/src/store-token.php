<?php
/** The token that the store and the options table both keep: a restored database is noticed. */
trait Tidemark_Store_Token {
	/**
	 * Once a minute for all processes: compares the token of the options table with ours. True for the
	 * process that did.
	 */
	public function check_token( $now ) {
		// The write that makes one process the one that compares takes the lock of writers.
		if ( abs( $now - $this->checked ) < 60 ) {
			return false;
		}
		$this->end_reads();
		$this->checked = $now;
		$this->db->exec( "UPDATE mark SET checked = $now WHERE abs($now - checked) >= 60" );
		if ( 0 === $this->db->changes() ) {
			return false;
		}
		$row = Tidemark_Site_Row::read();
		if ( false !== $row ) {
			$this->compare_token( $row, $now );
		}
		return true;
	}

	private function compare_token( $row, $now ) {
		$mark = $this->db->querySingle( 'SELECT token, next, changed FROM mark', true );
		if ( null === $row ) {
			$row = Tidemark_Site_Row::token();
			if ( ! Tidemark_Site_Row::write( $row ) ) {
				return;
			}
		}
		if ( $row !== $mark['token'] && ( null === $mark['next'] || $row !== $mark['next'] ) ) {
			$this->flush();
		}
		$this->keep_token( $row, null, $mark['changed'] );
		if ( abs( $now - $mark['changed'] ) >= 600 ) {
			// Kept as the next one first: a process that ends in between leaves both valid.
			$next = Tidemark_Site_Row::token();
			$this->keep_token( $row, $next, $mark['changed'] );
			if ( Tidemark_Site_Row::write( $next, $row ) ) {
				$this->keep_token( $next, null, $now );
			}
		}
	}

	private function keep_token( $token, $next, $changed ) {
		$statement = $this->statement( 'UPDATE mark SET token = ?1, next = ?2, changed = ?3' );
		$statement->bindValue( 1, substr( $token, 0, 64 ), SQLITE3_TEXT );
		$statement->bindValue( 2, $next, null === $next ? SQLITE3_NULL : SQLITE3_TEXT );
		$statement->bindValue( 3, $changed, SQLITE3_INTEGER );
		$statement->execute()->finalize();
		$statement->reset();
	}
}
