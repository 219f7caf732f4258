<?php
/** Counts what went wrong, and logs each kind at most once a minute. Never raises anything. */
class Tidemark_Notices {
	/** Kind => how often in this process. */
	public $counts = array();
	private $folder;

	public function __construct( $folder ) {
		$this->folder = $folder;
	}

	public function note( $kind, $text ) {
		$this->counts[ $kind ] = ( $this->counts[ $kind ] ?? 0 ) + 1;
		if ( $this->counts[ $kind ] > 1 ) {
			return;
		}
		$mark = $this->folder . '/noted-' . preg_replace( '/[^a-z]/', '', $kind );
		clearstatcache( true, $mark );
		$last = @filemtime( $mark );
		if ( $last && abs( time() - $last ) < 60 ) {
			return;
		}
		if ( @touch( $mark ) || ! is_dir( $this->folder ) ) {
			@error_log( "Tidemark object cache: $kind: " . substr( $text, 0, 300 ) );
		}
	}
}
