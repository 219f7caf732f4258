<?php
// More entries than the store may hold, and times that move by hours.

$site     = Suite::site();
$requests = array();
for ( $i = 0; $i < 2; ++$i ) {
	$requests[] = Suite::start( $site, 'mt_srand( ' . $i . ' ); $log = 0;
		for ( $i = 0; $i < 6000; ++$i ) { $k = "k" . mt_rand( 0, 20000 ); $r = mt_rand( 0, 9 );
		if ( $r < 6 ) wp_cache_set( $k, str_repeat( "x", mt_rand( 10, 6000 ) ), "g" );
		elseif ( $r < 8 ) wp_cache_delete( $k, "g" ); else wp_cache_get( $k, "g" );
		if ( 0 === $i % 100 ) { wp_cache_flush_runtime(); clearstatcache();
			$log = max( $log, @filesize( Tidemark_Tiers::shared()->place->file( "store.sqlite-wal" ) ) ); } }
		$counts = Tidemark_Tiers::shared()->notices->counts;
		return array( $log < 67108864, $counts["failed"] ?? 0,
		Tidemark_Tiers::shared()->counts()["entries"] > 500 );',
		array( 'constants' => array( 'TIDEMARK_CACHE_MB' => 8 ) ) );
}
Suite::same( 'churn beyond the size keeps serving, within file and log',
	array( Suite::finish( $requests[0] ), Suite::finish( $requests[1] ),
		filesize( Suite::store( $site ) ) <= 8388608 ),
	array( array( true, 0, true ), array( true, 0, true ), true ) );

// A request that has read, and then waits for something else, while others write much. Its snapshot
// lasts for one second of the clock, so it waits for the next. Where the store was emptied once more
// after the last write, the reader misses it.
$site   = Suite::site();
Suite::request( $site, 'wp_cache_set( "a", 1 ); wp_cache_set( "b", 1 );' );
$reader = Suite::start( $site, 'wp_cache_get( "a" ); touch( WP_CONTENT_DIR . "/reads" );
	for ( $tries = 0; $tries < 60000 && ! file_exists( WP_CONTENT_DIR . "/written" ); ++$tries ) { usleep( 1000 ); clearstatcache(); }
	for ( $second = time(); time() === $second; ) { usleep( 1000 ); }
	return array( $tries < 60000, 1 !== wp_cache_get( "b" ) );' );
for ( $tries = 0; $tries < 10000 && ! file_exists( "$site/reads" ); ++$tries ) {
	usleep( 1000 );
	clearstatcache();
}
$log = Suite::request( $site, '$most = 0; $log = Tidemark_Tiers::shared()->place->file( "store.sqlite-wal" );
	for ( $i = 0; $i < 4000; ++$i ) { wp_cache_set( "k" . $i % 50, str_repeat( md5( $i ), 940 ) ); clearstatcache();
		$most = max( $most, (int) @filesize( $log ) ); }
	wp_cache_set( "b", 2 ); $c = Tidemark_Tiers::shared()->notices->counts;
	return array( $most < 67108864, array_keys( $c ), wp_cache_get( "k7" ) !== false );' );
touch( "$site/written" );
Suite::same( 'log stays within its size beside a request that reads for long', array( $log, Suite::finish( $reader ) ),
	array( array( true, array( 'retried' ), true ), array( true, true ) ) );

/** The clock of all later requests steps: what the store holds moves the other way. */
function step_clock( $site, $seconds ) {
	$db = new SQLite3( Suite::store( $site ) );
	$db->exec( "UPDATE entry SET x = x - $seconds WHERE x > 0;
		UPDATE mark SET checked = checked - $seconds, changed = changed - $seconds,
		purged = purged - $seconds; UPDATE segment SET seen = seen - $seconds" );
	$db->close();
}

foreach ( array( 'forward' => 86400, 'back' => -86400 ) as $way => $seconds ) {
	$site = Suite::site();
	$use  = array( 'table' => true );
	Suite::request( $site, 'wp_cache_set( "never", 1 ); wp_cache_set( "b", 1, "", 3600 );
		wp_cache_delete( "gone" );', $use );
	// The checksum covers the time, so that one is written once more with its own.
	step_clock( $site, $seconds );
	Suite::same( "clock that steps $way loses nothing that does not expire", Suite::request( $site,
		'return array( wp_cache_get( "never" ), wp_cache_get( "b" ), wp_cache_get( "gone" ),
		wp_cache_set( "b", 2, "", 60 ), wp_cache_delete( "never" ), wp_cache_add( "never", 3 ),
		Tidemark_Tiers::shared()->notices->counts );', $use ),
		array( 1, false, false, true, true, true, array() ) );
	Suite::same( "clock that stepped $way lets later requests go on", Suite::request( $site,
		'return array( wp_cache_get( "never" ), wp_cache_get( "b" ) );', $use ), array( 3, 2 ) );
}

/**
 * A day of a busy site, in ten minutes: entries that expire after a minute to six hours, some
 * hot and many cold, deletes, flushes of groups. The clock of these processes runs 144 times as
 * fast; that of their own upkeep does not.
 */
const DAY = '
	set_time_limit( 0 );
	$ends = time() + 86400; $log = 0; $file = 0; $times = array(); mt_srand( $number );
	$store = Tidemark_Tiers::shared()->place->file( "store.sqlite" );
	for ( $i = 0; time() < $ends; ++$i ) {
		$k = "k" . (int) ( 20000 * ( mt_rand() / mt_getrandmax() ) ** 3 ); $r = mt_rand( 0, 99 );
		if ( $r < 30 ) { wp_cache_set( $k, str_repeat( "x", mt_rand( 10, 6000 ) ), "g",
			mt_rand( 60, 21600 ) ); }
		elseif ( $r < 35 ) { wp_cache_delete( $k, "g" ); }
		elseif ( 35 === $r && 0 === mt_rand( 0, 99 ) ) { wp_cache_flush_group( "h" ); }
		else { $at = hrtime( true ); wp_cache_get( $k, "g" );
			$times[ (int) ( ( $ends - time() ) / 8640 ) ][] = hrtime( true ) - $at; }
		if ( 0 === $i % 50 ) { wp_cache_flush_runtime(); clearstatcache();
			$log  = max( $log, @filesize( "$store-wal" ) ); $file = max( $file, filesize( $store ) );
			wp_cache_close(); usleep( 2000 ); }
	}
	$median = function ( $part ) use ( $times ) { sort( $times[ $part ] );
		return $times[ $part ][ intdiv( count( $times[ $part ] ), 2 ) ] / 1000; };
	$counts = Tidemark_Tiers::shared()->notices->counts;
	return array( $log, $file, $counts["failed"] ?? 0, $i, $median( 9 ), $median( 0 ) );';

if ( 'night' === getenv( 'TIDEMARK_LANE' ) ) {
	$site     = Suite::site();
	$speed    = (int) ( getenv( 'TIDEMARK_CLOCK' ) ?: 144 );
	$requests = array();
	for ( $i = 0; $i < 2; ++$i ) {
		$requests[] = Suite::start( $site, "\$number = $i;" . DAY, array(
			'constants' => array( 'TIDEMARK_CACHE_MB' => 16 ),
			'before'    => array( 'env', 'DONT_FAKE_MONOTONIC=1', 'faketime', '-f', "+0 x$speed" ),
		) );
	}
	foreach ( array_map( array( 'Suite', 'finish' ), $requests ) as $found ) {
		list( $log, $file, $failed, $done, $first, $last ) = is_array( $found ) ? $found : array_fill( 0, 6, $found );
		echo "a day: $done operations, file $file, log $log bytes; get p50 $first us at first, $last us at last\n";
		Suite::same( 'day of churn stays within file and log',
			array( $file <= 16777216, $log <= 67108864, $failed ), array( true, true, 0 ) );
	}
}
