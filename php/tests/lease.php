<?php
// Orders that leave the cache wrong for ever: none with the lease, some without it.

/** The count of wrong orders and of all, in one request that plays all processes. */
function play( $processes, $row, $key, $group, $is_warm, $has_lease ) {
	$code = 'require "' . __DIR__ . '/interleavings.php"; return wrong_orders( '
		. "$processes, $row, '$key', '$group', " . var_export( $is_warm, true ) . ', '
		. var_export( $has_lease, true ) . ' );';
	return Suite::request( Suite::site(), $code );
}

$row = 'array( "a" => 0, "b" => 0 )';
foreach ( array( 'warm' => true, 'cold' => false ) as $name => $is_warm ) {
	$two  = 'array( steps_of( "", "a", 1 ), steps_of( "", "b", 2 ) )';
	$same = 'array( steps_of( "", "a", 1 ), steps_of( "", "a", 2 ) )';
	Suite::same(
		"two options, $name",
		play( $two, $row, 'alloptions', 'options', $is_warm, true ),
		array( 0, 252 )
	);
	Suite::same(
		"same option twice, $name",
		play( $same, $row, 'alloptions', 'options', $is_warm, true ),
		array( 0, 252 )
	);
}
$three = 'array( steps_of( "reader", "", 0 ), steps_of( "", "a", 1 ), steps_of( "", "a", 2 ) )';
Suite::same(
	'reader and two updaters',
	play( $three, $row, 'alloptions', 'options', false, true ),
	array( 0, 72072 )
);
$pair = 'array( steps_of_row( "reader" ), steps_of_row( "writer" ) )';
Suite::same( 'reader and writer', play( $pair, '"old"', 'row', 'default', false, true ), array( 0, 10 ) );
Suite::same(
	'reader and writer without the lease',
	play( $pair, '"old"', 'row', 'default', false, false ),
	array( 1, 10 )
);
if ( 'night' === getenv( 'TIDEMARK_LANE' ) ) {
	$wrong = play( $three, $row, 'alloptions', 'options', false, false );
	Suite::same( 'reader and two updaters without the lease', $wrong, array( 1318, 72072 ) );
}
