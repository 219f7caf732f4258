<?php
/**
 * Counts faults in the folder of the store, and logs each kind at most once a minute. Never raises
 * anything.
 */
class Tidemark_Notices {
	/** A file has a byte for each request that met its kind of fault; there it is full. */
	const COUNT_MAX = 1000000;

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
		// No user can touch the mark of another one.
		$name = preg_replace( '/[^a-z]/', '', $kind ) . '-' . Tidemark_Place::user();
		if ( $is_own ) {
			self::count_request( "{$this->folder}/count-$name" );
		}
		$mark = $is_own ? "{$this->folder}/noted-$name"
			: sys_get_temp_dir() . '/tidemark-' . substr( hash( 'sha256', $this->folder ), 0, 16 ) . "-$name";
		clearstatcache( true, $mark );
		$last = @is_link( $mark ) ? time() : @filemtime( $mark );
		// Where the time cannot be kept nothing is logged: it would be at each request.
		if ( ( ! $last || abs( time() - $last ) >= 60 ) && @touch( $mark ) ) {
			Tidemark_Place::call( 'error_log', "Tidemark object cache: $kind: " . substr( $text, 0, 300 ) );
		}
	}

	private static function count_request( $path ) {
		clearstatcache( true, $path );
		if ( ! is_link( $path ) && (int) @filesize( $path ) < self::COUNT_MAX ) {
			@file_put_contents( $path, '.', FILE_APPEND );
		}
	}

	/** Kind => how many requests met it since the folder was made, and when the last did, as text. */
	public function totals() {
		$totals = array();
		foreach ( is_readable( $this->folder ) ? (array) @scandir( $this->folder ) : array() as $name ) {
			$path = "{$this->folder}/$name";
			if ( preg_match( '/^count-([a-z]+)-[0-9-]+$/', (string) $name, $found ) && ! is_link( $path ) ) {
				clearstatcache( true, $path );
				$totals[ $found[1] ][0] = ( $totals[ $found[1] ][0] ?? 0 ) + (int) @filesize( $path );
				$totals[ $found[1] ][1] = max( $totals[ $found[1] ][1] ?? 0, (int) @filemtime( $path ) );
			}
		}
		return array_map( function ( $total ) {
			$last = gmdate( 'Y-m-d H:i:s', $total[1] );
			return 1 === $total[0] ? "1 request, at $last UTC" : "$total[0] requests, the last at $last UTC";
		}, $totals );
	}
}
