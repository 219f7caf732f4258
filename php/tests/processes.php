<?php
// Many processes at once: no process loses a count, one wins, an acknowledged write outlives a kill.

$masters = array( Suite::fpm_master( 16 ), Suite::fpm_master( 16 ), 0 );

/** Starts the same code at once under two masters and without APCu, and answers what each returned. */
function at_once( $site, $count, $code ) {
	global $masters;
	$requests = array();
	for ( $i = 0; $i < $count; ++$i ) {
		$master     = $masters[ $i % 3 ];
		$requests[] = Suite::start( $site, "\$number = $i; $code", array( 'master' => $master ) );
	}
	return array_map( array( 'Suite', 'finish' ), $requests );
}

$site = Suite::site();
Suite::request( $site, 'wp_cache_set( "n", 0 );' );
at_once( $site, 6, 'for ( $i = 0; $i < 300; ++$i ) wp_cache_incr( "n" );' );
foreach ( $masters as $master ) {
	Suite::same( 'incr of six processes loses nothing', Suite::request( $site,
		'return wp_cache_get( "n" );', array( 'master' => $master ) ), 1800 );
}

$won = at_once( $site, 8, '$won = array(); for ( $i = 0; $i < 100; ++$i )
	if ( wp_cache_add( "lock$i", $number, "locks" ) ) $won[] = $i; return $won;' );
$all = array_merge( ...$won );
sort( $all );
Suite::same( 'add has one winner', $all, range( 0, 99 ) );

$errors = at_once( $site, 16, '
	for ( $i = 0; $i < 200; ++$i ) { wp_cache_set( "w$i", array( $number, $i ), "g" );
		wp_cache_flush_runtime(); $v = wp_cache_get( "w$i", "g" );
		if ( false !== $v && $i !== $v[1] ) return "wrong value"; wp_cache_delete( "w" . ( $i - 1 ), "g" ); }
	// The native form drops a set whose lock is held for 50 ms, as by an owner that got no processor for so long.
	return array_diff_key( Tidemark_Tiers::shared()->notices->counts, array( "dropped" => 0 ) );' );
Suite::same( 'sixteen writers see no error', $errors, array_fill( 0, 16, array() ) );

$made = at_once( Suite::site(), 8, 'wp_cache_set( "k$number", 1 );
	$tiers = Tidemark_Tiers::shared();
	return array( $tiers->notices->counts, $tiers->place->refusal );' );
Suite::same( 'store is made by many at once', $made, array_fill( 0, 8, array( array(), '' ) ) );

/** The stamp of the last flush; null where there is no store. */
function flushed( $site ) {
	if ( ! is_file( Suite::store( $site ) ) ) {
		return null;
	}
	if ( Suite::$extension ) {
		return Suite::request( $site, 'return ( function () { return $this->state( "position" )[1] ?? null; } )
			->call( Tidemark_Tiers::shared() );' );
	}
	$db = new SQLite3( Suite::store( $site ) );
	$db->busyTimeout( 5000 );
	$flushed = $db->querySingle( 'SELECT flushed FROM mark' );
	$db->close();
	return $flushed;
}

/**
 * Two writers log each acknowledged number to a file, and are killed at some instant.
 *
 * Numbers in a row go to different keys: the write that is cut off may take the value of its own key
 * away, which is a miss and no lost write. So is a flush, which a record of `invalidate` asks for that
 * was cut off where it goes over the end of a page.
 */
function crash_round( $site, $round ) {
	$writers = array();
	$flushed = flushed( $site );
	foreach ( array( 'a', 'b' ) as $key ) {
		$writers[ $key ] = Suite::start( $site, '$log = fopen( WP_CONTENT_DIR . "/acked-' . $key . '", "w" );
			for ( $i = ' . $round * 1000000 . ';; ++$i ) { wp_cache_set( "' . $key . '" . ( $i % 8 ), $i );
				fwrite( $log, "$i\n" ); wp_cache_delete( "d" ); }' );
	}
	$end = hrtime( true ) + random_int( 60, 140 ) * 1000000;
	while ( hrtime( true ) < $end ) {
		usleep( 500 );
	}
	$lost = array();
	foreach ( $writers as $key => list( $process, $pipes ) ) {
		proc_terminate( $process, 9 );
		proc_close( $process );
		$acked = array_filter( explode( "\n", (string) @file_get_contents( "$site/acked-$key" ) ) );
		foreach ( $GLOBALS['masters'] as $master ) {
			$last  = (int) end( $acked ) % 8;
			$found = Suite::request( $site, "return wp_cache_get( '$key$last' );",
				array( 'master' => $master ) );
			$is_kept = is_int( $found ) ? $found >= (int) end( $acked ) : flushed( $site ) !== $flushed;
			if ( $acked && ! $is_kept ) {
				$lost[] = array( $round, $key, end( $acked ), $found, $master );
			}
		}
		@unlink( "$site/acked-$key" );
	}
	return array( $lost, $acked ? 1 : 0 );
}

$site   = Suite::site();
$rounds = 'night' === getenv( 'TIDEMARK_LANE' ) ? 300 : 60;
$lost   = array();
$worked = 0;
for ( $round = 1; $round <= $rounds; ++$round ) {
	if ( 0 === $round % 10 ) {
		Suite::fill_invalidation( $site, 20 ); // Writers are killed around a roll-over, too.
	}
	list( $gone, $did ) = crash_round( $site, $round );
	$lost   = array_merge( $lost, $gone );
	$worked += $did;
}
Suite::same( 'kill of writers loses no acknowledged write', $lost, array() );
Suite::same( 'writers had written before they were killed', $worked > $rounds / 2, true );
