<?php
/**
 * Readers, writers, flushes and guests in several processes, each request with tiers of its
 * own. A file stands for the database; another holds the newest version whose write returned.
 * No request may see an older version than was there when it started.
 */
const HISTORY = '
	require "' . __DIR__ . '/interleavings.php";
	function version( $name, $change = null ) {
		$file = fopen( WP_CONTENT_DIR . "/$name", "c+" ); flock( $file, LOCK_EX );
		$found = (int) stream_get_contents( $file );
		if ( $change ) { $found = $change( $found ); rewind( $file ); fwrite( $file, $found ); }
		fclose( $file ); return $found; }
	mt_srand( $number ); $stale = array(); $hits = 0;
	for ( $i = 0; $i < 400; ++$i ) {
		$k = "k" . mt_rand( 0, 2 ); $cache = other_process();
		if ( $is_guest ) { $cache->tidemark_tiers()->close(); $leave = function () {
			$this->is_off = true; $this->place = clone $this->place; $this->place->refusal = "test"; };
			$leave->call( $cache->tidemark_tiers() ); }
		$kind = mt_rand( 0, 19 );
		if ( 0 === $kind ) { $cache->flush(); }
		elseif ( 1 === $kind ) { $cache->flush_group( "g" ); }
		elseif ( $kind < 6 || $is_guest ) {
			$v = version( "row-$k", function ( $v ) { return $v + 1; } );
			$cache->delete( $k, "g" );
			version( "done-$k", function ( $d ) use ( $v ) { return max( $d, $v ); } );
		} else {
			$d = version( "done-$k" ); $v = $cache->get( $k, "g", false, $found ); $hits += $found;
			if ( ! $found ) { $v = version( "row-$k" ); $cache->add( $k, $v, "g" ); }
			if ( $v < $d ) $stale[] = array( $number, $i, $k, $v, $d, $found );
		}
		$cache->close();
	}
	return array( $stale, $is_guest || $hits > 0, $is_guest || ! isset(
		Tidemark_Tiers::shared()->notices->counts["failed"] ) );';

$site     = Suite::site();
$requests = array();
for ( $i = 0; $i < 8; ++$i ) {
	$requests[] = Suite::start( $site, "\$number = $i; \$is_guest = " . ( $i < 2 ? 'true;' : 'false;' )
		. HISTORY );
}
Suite::same( 'request never misses a write that returned before it started',
	array_map( array( 'Suite', 'finish' ), $requests ),
	array_fill( 0, 8, array( array(), true, true ) ) );
