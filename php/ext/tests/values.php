<?php
// What goes through a table and back: each value is written by one process and compared in another.

$make = <<<'CODE'
	$plain = new Plain;
	$plain->self = $plain;
	$plain->late = 'dynamic';
	$sleeper = new Sleeper;
	$sleeper->kept = array( 1 );
	$number = 5;
	$shared = array( 'a' => &$number, 'b' => &$number );
	$inner = new stdClass;
	$values = array( null, false, true, 0, -1, PHP_INT_MIN, PHP_INT_MAX, '', '0', 'a', "\0'%", 1.5, -0.0, INF,
		array(), array( 1, 2 ), array( 7 => 'x', 'k' => array( '' => null, '07' => 1 ) ), $shared,
		array( $inner, $inner ), $plain, new Stateful( array( $plain, $plain ) ), Suit::Hearts, array( Suit::Spades, Suit::Spades ),
		new ArrayObject( array( 1, 'x' => 2 ) ), new DateTimeImmutable( '2020-01-01 12:00 UTC' ), (object) array( '7' => 1 ),
		str_repeat( 'long', 50000 ), range( 1, 3000 ), array( str_repeat( 'key', 40 ) => 1 ), unserialize( 'O:4:"None":1:{s:1:"a";i:1;}' ) );
CODE;
$folder = Checks::folder();
$count  = Checks::run( $folder, $make . 'foreach ( $values as $at => $value ) { $cache->set( "$at", $value ) || print "$at "; } echo count( $values );' );
Checks::same( 'every value is stored', $count, '30' );
Checks::same( 'every value is the same in another process', Checks::run( $folder, $make
	. 'foreach ( $values as $at => $value ) { $found = $cache->get( "$at", "missing" );'
	. 'if ( serialize( $found ) !== serialize( $value ) ) { echo "$at: "; var_dump( $found ); } }' ), '' );
Checks::same( 'identity of references and objects is kept', Checks::run( $folder,
	'$a = $cache->get( "17" ); $a["a"] = 9; $b = $cache->get( "18" ); $c = $cache->get( "19" ); $d = $cache->get( "20" );'
	. 'var_dump( $a["b"] === 9, $b[0] === $b[1], $c->self === $c, $d->data[0] === $d->data[1] );' ), str_repeat( "bool(true)\n", 4 ) );
Checks::same( 'a class says what it keeps, and wakes', Checks::run( $folder,
	'$sleeper = new Sleeper; $sleeper->kept = 3; $cache->set( "s", $sleeper ); var_dump( $cache->get( "s" )->lost, (array) $cache->get( "s" ) === array( "kept" => 3, "\0Sleeper\0inner" => "i", "lost" => "woken" ) );' ),
	"string(5) \"woken\"\nbool(true)\n" );
$refused = array( 'function () {}', 'fopen( "php://memory", "r" )', '$deep', 'new SplFileObject( "/dev/null" )' );
foreach ( $refused as $value ) {
	Checks::same( "$value has no bytes and leaves no older value", Checks::run( $folder,
		'$deep = 1; for ( $i = 0; $i < 300; ++$i ) { $deep = array( $deep ); } $cache->set( "r", 1 );'
		. "\$is = \$cache->set( 'r', $value ); var_dump( \$is, \$cache->get( 'r' ) );" ), "bool(false)\nNULL\n" );
}
Checks::same( 'a class that is gone is incomplete, an enumeration a miss', Checks::run( $folder,
	'class_alias( "Plain", "Gone" ); eval( "class Lost { public \$a = 1; } enum Past { case A; }" );'
	. '$cache->set( "l", new Lost ); $cache->set( "p", Past::A );' ) . Checks::run( $folder,
	'echo get_class( $cache->get( "l" ) ); var_dump( $cache->get( "p", "missing" ) );' ),
	"__PHP_Incomplete_Classstring(7) \"missing\"\n" );
Checks::same( 'a property of another type is a miss, and its object has no destructor', Checks::run( $folder,
	'eval( "class Typed { public \$a = \"text\"; }" ); $cache->set( "t", new Typed );' ) . Checks::run( $folder,
	'eval( "class Typed { public int \$a = 1; function __destruct() { echo \"destructor\"; } }" ); var_dump( $cache->get( "t", "missing" ) );' ),
	"string(7) \"missing\"\n" );
Checks::same( 'a value that is read and dropped leaves nothing', Checks::run( $folder, $make
	. '$cache->set( "all", array_slice( $values, 0, 24 ) ); $round = function () use ( $cache ) { $v = $cache->get( "all" ); $cache->set( "again", $v ); };'
	. 'for ( $i = 0; $i < 50; ++$i ) { $round(); } unset( $values ); gc_collect_cycles(); $before = memory_get_usage();'
	. 'for ( $i = 0; $i < ' . ( Checks::$is_night ? 100000 : 500 ) . '; ++$i ) { $round(); } gc_collect_cycles(); var_dump( memory_get_usage() - $before < 4096 );' ),
	"bool(true)\n" );
