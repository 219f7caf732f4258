<?php
// Orders that leave the cache wrong for ever: none with the lease, some without it.

/** The count of wrong orders and of all, in one request that plays all processes. */
function play( $processes, $row, $key, $group, $is_warm, $has_lease, $masters = false ) {
	$code = 'set_time_limit( 0 ); require_once "' . __DIR__ . '/interleavings.php";
		return wrong_orders( ' . "$processes, $row, '$key', '$group', "
		. var_export( $is_warm, true ) . ', ' . var_export( $has_lease, true ) . ', '
		. var_export( $masters, true ) . ' );';
	return Suite::request( Suite::site(), $code );
}

// What a reader missed in one file is no lease in the file that took its place meanwhile.
foreach ( array( 'add', 'set' ) as $write ) {
	Suite::check( "$write of what was missed in an earlier file", array(
		'$r = array( wp_cache_get( "a", "g" ) );
			$store = Tidemark_Tiers::shared()->place->file( "' . basename( Suite::store( '' ) ) . '" );
			unlink( $store ); other_tiers( 1 )->delete( ":1:g:", "a" );
			unlink( $store ); other_tiers( 2 )->get( ":1:g:", "b", false );
			wp_cache_' . $write . '( "a", "old", "g" ); return $r;',
		'return wp_cache_get( "a", "g" );',
	), array( array( false ), false ) );
}

// A purge of tombstones ends all leases; in the mapped file, keys of one bucket have one count of deletions.
$ends = Suite::$extension ? 'for ( $i = 0; $i < 300000; ++$i ) { $other->delete( ":1:g:", "d$i" ); }'
	: '( new SQLite3( $other->place->file( "store.sqlite" ) ) )->exec( "UPDATE mark SET stamp = stamp + 1" );';
Suite::check( 'value that is refused by no deletion of its key leaves none that is older', array(
	'$r = array( wp_cache_get( "a", "g" ), wp_cache_set( "a", 1, "g" ) ); $other = other_tiers(); ' . $ends . '
		wp_cache_set( "a", 2, "g" ); $r[] = wp_cache_get( "a", "g" ); return $r;',
	'return array( wp_cache_get( "a", "g" ), wp_cache_set( "a", 3, "g" ) );',
	'return wp_cache_get( "a", "g" );',
), array( array( false, true, 2 ), array( false, true ), 3 ) );

$row   = 'array( "a" => 0, "b" => 0 )';
$two   = 'array( steps_of( "", "a", 1 ), steps_of( "", "b", 2 ) )';
$same  = 'array( steps_of( "", "a", 1 ), steps_of( "", "a", 2 ) )';
$three = 'array( steps_of( "reader", "", 0 ), steps_of( "", "a", 1 ), steps_of( "", "a", 2 ) )';
$pair  = 'array( steps_of_row( "reader" ), steps_of_row( "writer" ) )';
$night = 'night' === getenv( 'TIDEMARK_LANE' );
foreach ( Suite::$extension ? array( 'no APCu' ) : array( 'no APCu', 'one APCu', 'an APCu each' ) as $tier ) {
	Suite::$master = 'no APCu' === $tier ? 0 : Suite::master( 1 );

	$apart = 'an APCu each' === $tier;
	foreach ( array( 'warm' => true, 'cold' => false ) as $name => $is_warm ) {
		Suite::same( "two options, $name, $tier",
			play( $two, $row, 'alloptions', 'options', $is_warm, true, $apart ), array( 0, 252 ) );
		Suite::same( "same option twice, $name, $tier",
			play( $same, $row, 'alloptions', 'options', $is_warm, true, $apart ), array( 0, 252 ) );
	}
	Suite::same( "reader and writer, $tier",
		play( $pair, '"old"', 'row', 'default', false, true, $apart ), array( 0, 10 ) );
	Suite::same( "reader and writer without the lease, $tier",
		play( $pair, '"old"', 'row', 'default', false, false, $apart ), array( 1, 10 ) );
	if ( $night || 'no APCu' === $tier ) {
		Suite::same( "reader and two updaters, $tier",
			play( $three, $row, 'alloptions', 'options', false, true, $apart ), array( 0, 72072 ) );
	}
	if ( $night ) {
		Suite::same( "reader and two updaters without the lease, $tier",
			play( $three, $row, 'alloptions', 'options', false, false, $apart ), array( 1318, 72072 ) );
	}
	Suite::$master = 0;
}
