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
$kinds = array();
foreach ( $acts as $name => $act ) {
	foreach ( array( 'write', 'read' ) as $way ) {
		$use = 'write' === $way ? '$cache->set( "written", array( "before", new Stateful( 1 ), new Plain ) );' : '$cache->get( "value" );';

		$kinds[ "$name in a class at $way" ] = "Stateful::\$on_$way = function () use ( \$cache ) { $act }; $use";
	}
}
/** KiB of memory that the worker alone has, its open files, and its maps of the table. */
$held = function () use ( $port, $folder ) {
	return json_decode( Checks::ask( $port, $folder, 'gc_mem_caches(); preg_match( "/RssAnon:\s+(\d+)/", file_get_contents( "/proc/self/status" ), $memory );'
		. 'echo json_encode( array( (int) $memory[1], count( scandir( "/proc/self/fd" ) ), substr_count( file_get_contents( "/proc/self/maps" ), $file ) ) );' ), true );
};
foreach ( $kinds as $code ) {
	Checks::ask( $port, $folder, $code );
}
$before = $held();
// Of 14 kinds: 100,800 rounds at night.
$rounds = Checks::$is_night ? 7200 : 3;
foreach ( $kinds as $name => $code ) {
	for ( $round = 1; $round <= $rounds; ++$round ) {
		Checks::ask( $port, $folder, $code );
		// The next request of the same worker would have the lock that it left.
		$others = $round < $rounds ? '' : Checks::run( $folder, 'for ( $i = 0; $i < 64; ++$i ) { $cache->set( "other$i", 1 ) || print "locked "; }' );
		$found  = $others . Checks::ask( $port, $folder, $next );
		if ( $good !== $found ) {
			break;
		}
	}
	Checks::same( "$name: the next request is unharmed, and another process finds no lock", $found, $good );
}
$after = $held();
Checks::same( 'requests that ended early leave no open file and no map', array_slice( $after, 1 ), array_slice( $before, 1 ) );
if ( Checks::$is_night ) {
	// Twenty bytes of each round.
	printf( "%d rounds: %d KiB before, %d KiB after\n", $rounds * count( $kinds ), $before[0], $after[0] );
	Checks::same( 'requests that ended early leave no memory', $after[0] - $before[0] < 2048, true );
}
// The limit is reached within each call of Zend that builds a value, not only in user code. Debian's PHP 8.2 ends the
// process at twice the limit: of a request that has so much already no value reaches that.
Checks::ask( $port, $folder, 'ini_set( "memory_limit", -1 ); $rows = array(); for ( $i = 0; $i < 20000; ++$i ) { $rows["k$i"] = array( "n$i", $i ); } $cache->set( "wide", $rows ); $cache->set( "text", str_repeat( "x", 900000 ) ); $o = array(); for ( $i = 0; $i < 500; ++$i ) { $o[] = array( "x" => "text $i" ); } $cache->set( "small", $o );' );
foreach ( array( 'wide', 'text', 'small' ) as $key ) {
	$died = 0;
	for ( $room = 40; $room <= ( Checks::$is_night ? 4000 : 400 ); $room += 40 ) {
		$answer = Checks::ask( $port, $folder, "register_shutdown_function( function () { echo 'end'; } ); \$ballast = str_repeat( 'b', 8 << 20 ); ini_set( 'memory_limit', memory_get_usage( true ) + $room * 1024 ); \$v = \$cache->get( '$key' ); echo 'read';" );
		$died  += 'end' === $answer ? 1 : 0;
		$found  = Checks::ask( $port, $folder, $next );
		if ( $good !== $found ) {
			break;
		}
	}
	Checks::same( "an exhausted limit while $key is read: the next request is unharmed", array( $found, 'small' === $key || $died > 0 ), array( $good, true ) );
}
