<?php
// PHP leaves a function by a jump or by an exception wherever it allocates or runs what a class
// says. After each, the next request of the same worker finds everything unharmed.

$folder = Checks::folder();
$port   = Checks::server( array( 'memory_limit=24M', 'display_errors=0', 'opcache.enable=0' ) );
$big    = 'str_repeat( "x", 64 << 20 );';
$reuse  = '$again = new Tidemark\Cache( ' . var_export( "$folder/table", true ) . ', 16 << 20 ); for ( $i = 0; $i < 40; ++$i ) { $again->set( "inner$i", new Stateful( array( $i ) ) ); } $again->get( "inner3" );';
$acts   = array(
	'memory'    => $big,
	'exit'      => 'exit;',
	'exception' => 'throw new Exception( "thrown" );',
	'error'     => 'undefined_function();',
	'fatal'     => 'trigger_error( "fatal", E_USER_ERROR );',
	're-entry'  => $reuse,
	'deep'      => 'Stateful::$on_write = Stateful::$on_read = null; $f = function ( $f, $n ) use ( $cache ) { $n && Stateful::$on_write = function () use ( $f, $n ) { $f( $f, $n - 1 ); }; $cache->set( "deep$n", new Stateful( $n ) ); }; $f( $f, 12 );',
);
$next = 'var_dump( $cache->get( "kept" ), $cache->set( "next", array( 1, "a" => new Stateful( 2 ) ) ), $cache->get( "next" )["a"]->data, $cache->delete( "next" ), $cache->increment( "count" ) > 0 );';
$good = "string(4) \"safe\"\nbool(true)\nint(2)\nbool(true)\nbool(true)\n";
Checks::ask( $port, $folder, '$cache->set( "kept", "safe" ); $cache->set( "count", 0 ); $cache->set( "value", array( new Stateful( 1 ), new Stateful( 2 ) ) );' );
// Of 14 kinds: 100,800 rounds at night.
$rounds = Checks::$is_night ? 7200 : 3;
foreach ( $acts as $name => $act ) {
	foreach ( array( 'write', 'read' ) as $way ) {
		$use  = 'write' === $way ? '$cache->set( "written", array( "before", new Stateful( 1 ), new Plain ) );' : '$cache->get( "value" );';
		$code = "Stateful::\$on_$way = function () use ( \$cache ) { $act }; $use";
		for ( $round = 0; $round < $rounds; ++$round ) {
			Checks::ask( $port, $folder, $code );
			$found = Checks::ask( $port, $folder, $next );
			if ( $good !== $found ) {
				break;
			}
		}
		Checks::same( "$name in a class at $way: the next request is unharmed", $found, $good );
	}
}
// The limit is reached within each call of Zend that builds a value, not only in user code.
Checks::ask( $port, $folder, 'ini_set( "memory_limit", -1 ); $rows = array(); for ( $i = 0; $i < 20000; ++$i ) { $rows["k$i"] = array( "n$i", $i ); } $cache->set( "wide", $rows ); $cache->set( "text", str_repeat( "x", 900000 ) ); $o = array(); for ( $i = 0; $i < 500; ++$i ) { $o[] = array( "x" => "text $i" ); } $cache->set( "small", $o );' );
foreach ( array( 'wide', 'text', 'small' ) as $key ) {
	$died = 0;
	for ( $room = 40; $room <= ( Checks::$is_night ? 4000 : 400 ); $room += 40 ) {
		$answer = Checks::ask( $port, $folder, "register_shutdown_function( function () { echo 'end'; } ); ini_set( 'memory_limit', memory_get_usage( true ) + $room * 1024 ); \$v = \$cache->get( '$key' ); echo 'read';" );
		$died  += 'end' === $answer ? 1 : 0;
		$found  = Checks::ask( $port, $folder, $next );
		if ( $good !== $found ) {
			break;
		}
	}
	Checks::same( "an exhausted limit while $key is read: the next request is unharmed", array( $found, 'small' === $key || $died > 0 ), array( $good, true ) );
}
