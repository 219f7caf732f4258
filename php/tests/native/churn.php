<?php
/**
 * A day of a busy site in ten minutes, in some seconds by day: more entries than the file has room for,
 * which end after a 1,440th of what they would live for, some hot and many cold, deletes, flushes of groups.
 */
const DAY = '
	set_time_limit( 0 );
	touch( WP_CONTENT_DIR . "/waits-$number" );
	while ( ! file_exists( WP_CONTENT_DIR . "/go" ) ) { usleep( 1000 ); clearstatcache(); }
	$begun = hrtime( true ); $wrong = $hits = $late = 0; $times = array( array(), array() ); mt_srand( $number );
	$store = Tidemark_Tiers::shared()->place->file( Tidemark_Native::FILE ); $size = filesize( $store );
	for ( $i = 0; ( $passed = ( hrtime( true ) - $begun ) / 1e9 ) < $seconds; ++$i ) {
		$k = "k" . (int) ( 20000 * ( mt_rand() / mt_getrandmax() ) ** 3 ); $r = mt_rand( 0, 99 );
		if ( $r < 30 ) { $ends = mt_rand( 1, max( 2, (int) ( $seconds / 4 ) ) );
			wp_cache_set( $k, array( $k, time() + $ends, str_repeat( "x", mt_rand( 10, 6000 ) ) ), "g", $ends ); }
		elseif ( $r < 35 ) { wp_cache_delete( $k, "g" ); }
		elseif ( 35 === $r && 0 === mt_rand( 0, 99 ) ) { wp_cache_flush_group( "h" ); }
		else { wp_cache_flush_runtime(); $at = hrtime( true ); $v = wp_cache_get( $k, "g" );
			$times[ (int) ( $passed > $seconds / 2 ) ][] = hrtime( true ) - $at;
			if ( false !== $v ) { ++$hits; $wrong += $k !== $v[0]; $late += time() > $v[1] + 1; } }
		if ( 0 === $i % 500 ) { wp_cache_close(); clearstatcache(); $size = max( $size, filesize( $store ) ); }
	}
	$median = function ( array $some ) { sort( $some ); return $some ? $some[ intdiv( count( $some ), 2 ) ] / 1000 : 0; };
	// Where the disk holds up the owner of a lock, sets are dropped, and deletions are left to the next request of each process.
	$counts = Tidemark_Tiers::shared()->notices->counts; $slow = array( "dropped" => 0, "locked" => 0 );
	return array( array( $wrong, $late, $size, array_diff_key( $counts, $slow ), $hits > $i / 20 ), $i, $median( $times[0] ),
		$median( $times[1] ), array_intersect_key( $counts, $slow ) );';

$seconds  = 'night' === getenv( 'TIDEMARK_LANE' ) ? 600 : 5;
$site     = Suite::site();
$requests = array();
for ( $i = 0; $i < 2; ++$i ) {
	$requests[] = Suite::start( $site, "\$number = $i; \$seconds = $seconds;" . DAY,
		array( 'constants' => array( 'TIDEMARK_CACHE_MB' => 16 ) ) );
}
for ( $tries = 0; $tries < 10000 && count( glob( "$site/waits-*" ) ) < 2; ++$tries ) {
	usleep( 1000 );
}
touch( "$site/go" );
foreach ( array_map( array( 'Suite', 'finish' ), $requests ) as $found ) {
	list( $held, $done, $first, $last, $slow ) = is_array( $found ) ? $found : array( $found, 0, 0, 0, array() );
	printf( "a day in %d s: %d operations; get p50 %.1f us in the first half, %.1f us in the second%s\n", $seconds, $done, $first, $last,
		$slow ? '; held up by locks: ' . json_encode( $slow ) : '' );
	Suite::same( 'a day of churn gives no wrong and no late value, in a file of its size', $held, array( 0, 0, 16 << 20, array(), true ) );
}
