<?php
/** Counts faults, and logs each kind at most once a minute. Never raises anything. */
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
		// Root touches nothing where another user may have put a link.
		$is_own = is_dir( $this->folder ) && is_writable( $this->folder )
			&& @fileowner( $this->folder ) === Tidemark_Place::user();
		$mark   = $is_own ? $this->folder . '/noted-'
			: sys_get_temp_dir() . '/tidemark-' . substr( hash( 'sha256', $this->folder ), 0, 16 ) . '-';
		// No user can touch the mark of another one.
		$mark = $mark . preg_replace( '/[^a-z]/', '', $kind ) . '-' . Tidemark_Place::user();
		clearstatcache( true, $mark );
		$last = @is_link( $mark ) ? time() : @filemtime( $mark );
		// Where the time cannot be kept nothing is logged: it would be at each request.
		if ( ( ! $last || abs( time() - $last ) >= 60 ) && @touch( $mark ) ) {
			Tidemark_Place::call( 'error_log', "Tidemark object cache: $kind: " . substr( $text, 0, 300 ) );
		}
	}
}
