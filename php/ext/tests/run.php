<?php
// Runs every test of the extension whose path is given, and closes with the numbers. Each test is
// a process of its own, or a worker of PHP's own server that outlives what its requests do.

require __DIR__ . '/checks.php';
if ( ! isset( $argv[1] ) || ! is_file( $argv[1] ) ) {
	fwrite( STDERR, "usage: php run.php target/dist/php/tidemark.so [part]\n" );
	exit( 2 );
}
Checks::$library = realpath( $argv[1] );
Checks::$is_night = 'night' === getenv( 'TIDEMARK_LANE' );
$start = hrtime( true );
register_shutdown_function( array( 'Checks', 'clean' ) );
foreach ( array( 'values', 'changed', 'cache', 'library', 'jumps', 'processes', 'memory' ) as $part ) {
	if ( ! isset( $argv[2] ) || $argv[2] === $part ) {
		require __DIR__ . "/$part.php";
	}
}
$failed = Checks::$failed ? Checks::$failed . ' failed, ' : '';
printf( "%s%d passed in %.1fs\n", $failed, Checks::$passed, ( hrtime( true ) - $start ) / 1e9 );
exit( Checks::$failed ? 1 : 0 );
