<?php
/** How a process notifies the others of a write that is not in their store. */
trait Tidemark_Notify {
	private $is_row_due = false;
	private $row_changed;

	private function notify( $kind, $text ) {
		if ( $this->place->has_no_store() ) {
			return;
		}
		if ( ! is_dir( $this->place->folder ) || ! $this->invalidation->append( $kind, $text ) ) {
			$this->notify_by_row();
		}
	}

	private function notify_by_row() {
		$this->notices->note( 'unnotified', 'the other processes could not be notified of a write' );
		$this->is_row_due = true;
		$this->change_row( time() );
	}

	/** The last resort: all flush within a minute. Once a second at most, and when a request ends. */
	private function change_row( $now ) {
		if ( $this->is_row_due && $now !== $this->row_changed ) {
			$this->row_changed = $now;
			$this->is_row_due  = false;
			Tidemark_Site_Row::write( Tidemark_Site_Row::token() );
		}
	}
}
