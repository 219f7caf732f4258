<?php
/**
 * Sixteen processes set 5 KB values at once, under two masters and without APCu, for some
 * seconds, at night for a minute: none is refused, and none does without the store.
 */
const WRITER = '
	set_time_limit( 0 );
	ini_set( "memory_limit", "-1" );
	$value = str_repeat( md5( (string) $number ), 160 ); $times = array(); $refused = 0;
	touch( WP_CONTENT_DIR . "/waits-$number" );
	while ( ! file_exists( WP_CONTENT_DIR . "/go" ) ) { usleep( 1000 ); clearstatcache(); }
	$ends  = hrtime( true ) + $seconds * 1e9;
	for ( $i = 0; hrtime( true ) < $ends; ++$i ) {
		$start = hrtime( true );
		$refused += wp_cache_set( "k" . $i % 500 . "-$number", $value, "transient" ) ? 0 : 1;
		$times[] = intdiv( hrtime( true ) - $start, 1000 );
	}
	return array( $times, $refused, Tidemark_Tiers::shared()->notices->counts );';

$seconds  = 'night' === getenv( 'TIDEMARK_LANE' ) ? 60 : 5;
$masters  = array( Suite::fpm_master( 6 ), Suite::fpm_master( 6 ), 0 );
$site     = Suite::site();
$requests = array();
for ( $i = 0; $i < 16; ++$i ) {
	$requests[] = Suite::start( $site, "\$number = $i; \$seconds = $seconds;" . WRITER,
		array( 'master' => $masters[ $i % 3 ], 'constants' => array( 'TIDEMARK_CACHE_MB' => 128 ) ) );
	// Else one worker may take two of them, which would then run one after the other.
	for ( $tries = 0; $tries < 10000 && ! file_exists( "$site/waits-$i" ); ++$tries ) {
		usleep( 1000 );
		clearstatcache();
	}
}
Suite::same( 'sixteen writers are there at once', count( glob( "$site/waits-*" ) ), 16 );
touch( "$site/go" );
$times   = array();
$ended   = array();
$dropped = 0;
foreach ( array_map( array( 'Suite', 'finish' ), $requests ) as $found ) {
	list( $own, $refused, $faults ) = is_array( $found ) ? $found : array( array(), $found, null );
	array_push( $times, ...$own );
	// The native form drops a set after 50 ms, and gives a lock up after 250 ms: where its owner got no processor for so
	// long. All that wait for that owner do so once; a writer that did without the store from then on would do so always.
	if ( Suite::$extension && is_array( $faults ) ) {
		$dropped += $faults['dropped'] ?? 0;
		$faults   = array_diff_key( $faults, array( 'dropped' => 0 ), ( $faults['locked'] ?? 0 ) <= 2 ? array( 'locked' => 0 ) : array() );
	}
	$ended[] = array( count( $own ) > 0, $refused, $faults );
}
Suite::same( 'sixteen writers meet no refusal and no lock that is given up', $ended,
	array_fill( 0, 16, array( true, 0, array() ) ) );
if ( Suite::$extension ) {
	Suite::same( 'sixteen writers drop one set of ten at most', 10 * $dropped <= count( $times ), true );
}
sort( $times );
$at = function ( $part ) use ( $times ) {
	return $times ? $times[ (int) ( $part * ( count( $times ) - 1 ) ) ] : -1;
};
printf( "16 writers for %d s: %d sets of 5 KB; p50 %d, p99 %d, longest %d us\n", $seconds,
	count( $times ), $at( 0.5 ), $at( 0.99 ), $at( 1 ) );
echo $dropped ? "$dropped sets were dropped\n" : '';
