<?php
// Several processes with one table.

$folder  = Checks::folder();
$rounds  = Checks::$is_night ? 20000 : 1000;
$started = array();
Checks::run( $folder, '$cache->set( "sum", 0 );' );
for ( $process = 0; $process < 4; ++$process ) {
	$started[] = Checks::start( $folder, "for ( \$i = 0; \$i < $rounds; ) { \$i += false !== \$cache->increment( 'sum' ); }" );
}
Checks::same( 'no count of four processes is lost', implode( '', array_map( array( 'Checks', 'finish' ), $started ) )
	. Checks::run( $folder, 'echo $cache->get( "sum" );' ), (string) ( 4 * $rounds ) );

// Where a lock is held for 50 ms no process has added it yet.
$started = array();
for ( $process = 0; $process < 4; ++$process ) {
	$started[] = Checks::start( $folder, 'for ( $i = 0; $i < 200; ++$i ) { do { $is = $cache->add( "once$i", 1 ); } while ( ! $is && null === $cache->get( "once$i" ) ); $is && print "$i\n"; }' );
}
$won = array_filter( explode( "\n", implode( '', array_map( array( 'Checks', 'finish' ), $started ) ) ), 'strlen' );
Checks::same( 'of four processes one adds a key', array( count( $won ), count( array_unique( $won ) ) ), array( 200, 200 ) );

// Values that say what they are, written over one another in rings too small for them.
$value   = '$value = function ( $n ) { $part = array_fill( 0, 30 + $n % 50, "t$n" ); return array( "n" => $n, "parts" => $part, "last" => $n ); };';
$rounds  = Checks::$is_night ? 2500000 : 15000;
$started = array();
for ( $writer = 0; $writer < 2; ++$writer ) {
	$started[] = Checks::start( $folder, $value . "for ( \$i = 0; \$i < $rounds; ++\$i ) { \$n = random_int( 0, 1 << 30 ); \$cache->set( 'r' . \$n % 97, array( \$value( \$n ), \$n % 9 ? 0 : new Stateful( \$n ) ) ); }" );
}
for ( $reader = 0; $reader < 2; ++$reader ) {
	$started[] = Checks::start( $folder, $value . "for ( \$i = 0; \$i < $rounds * 2; ++\$i ) { \$v = \$cache->get( 'r' . \$i % 97 ); if ( null !== \$v && ( \$v[0] !== \$value( \$v[0]['n'] ) || ( \$v[1] && \$v[1]->data !== \$v[0]['n'] ) ) ) { echo 'wrong'; } }" );
}
Checks::same( 'readers of what two writers write over see no wrong value', implode( '', array_map( array( 'Checks', 'finish' ), $started ) ), '' );

$code = '$cache->set( "before", 1 ); $child = pcntl_fork(); if ( ! $child ) { $cache->set( "child", $cache->get( "before" ) + 1 ); exit; } pcntl_waitpid( $child, $status ); var_dump( $status, $cache->get( "child" ), $cache->set( "after", 1 ) );';
if ( function_exists( 'pcntl_fork' ) ) {
	Checks::same( 'a child that was forked opens the file for itself', Checks::run( $folder, $code ), "int(0)\nint(2)\nbool(true)\n" );
}
Checks::same( 'a file that is cut short within a request is a miss, and then another file', Checks::run( $folder,
	'$cache->set( "cut", 1 ); truncate(); var_dump( $cache->get( "cut" ) ); sleep( 2 ); var_dump( $cache->set( "new", 1 ), $cache->get( "new" ) );'
	. 'function truncate() { $file = fopen( "' . $folder . '/table", "r+" ); ftruncate( $file, 0 ); }' ), "NULL\nbool(true)\nint(1)\n" );
