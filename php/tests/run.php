<?php
// Runs every test of the drop-in whose path is given, and closes with the numbers.

require __DIR__ . '/suite.php';
if ( isset( $argv[2] ) && 0 === strpos( $argv[2], '--extension=' ) ) {
	// The native form: the same tests, and those of `native` in the place of some that look into SQLite.
	Suite::$extension = (string) realpath( substr( $argv[2], strlen( '--extension=' ) ) );
	array_splice( $argv, 2, 1 );
}
if ( ! isset( $argv[1] ) || ! is_file( $argv[1] ) ) {
	fwrite( STDERR, "usage: php run.php target/dist/object-cache.php [--extension=tidemark.so] [part]\n" );
	exit( 2 );
}
Suite::$drop_in = realpath( $argv[1] );
$start          = hrtime( true );
register_shutdown_function( array( 'Suite', 'clean' ) );
$parts = array( 'contract', 'multisite', 'lease', 'faults', 'guests', 'replaced', 'rollover', 'command',
	'identity' );
$parts = array_merge( $parts, array( 'apcu', 'sync', 'ahead', 'processes', 'writers', 'churn',
	'history' ) );
if ( Suite::$extension ) {
	$parts = array( 'contract', 'multisite', 'lease', 'faults', 'guests', 'command', 'identity', 'sync', 'processes',
		'writers', 'many', 'churn', 'history' );
}
if ( Suite::$extension ) {
	// Where the disk has no room the drop-in goes on in its pure form, and most checks would pass in that.
	Suite::same( 'the native form can be used', Suite::request( Suite::site(),
		'$place = Tidemark_Tiers::shared()->place;
		return Tidemark_Native::is_loaded()
			? tidemark_fault( tidemark_open( $place->file( "values.table" ), Tidemark_Tiers::limit_bytes() ) )
			: "the extension is of another interface";' ), '' );
}
/** These also hold where tier 1 is. */
$with_apcu = array( 'contract', 'multisite' );
foreach ( $parts as $part ) {
	if ( isset( $argv[2] ) && $argv[2] !== $part ) {
		continue;
	}
	$file = __DIR__ . ( Suite::$extension && is_file( __DIR__ . "/native/$part.php" ) ? '/native' : '' ) . "/$part.php";
	require $file;
	// A site of the native form takes the whole size of its file.
	Suite::clean();
	if ( in_array( $part, $with_apcu, true ) ) {
		Suite::$master = Suite::master( 1 );
		require $file;
		Suite::$master = 0;
		Suite::clean();
	}
}
if ( ! isset( $argv[2] ) ) {
	Suite::same( 'each check of docs/reference/wordpress-checks.md is made', Suite::not_made( $parts ), array() );
}
$seconds = ( hrtime( true ) - $start ) / 1e9;
$failed  = Suite::$failed ? Suite::$failed . ' failed, ' : '';
printf( "%s%d passed in %.1fs\n", $failed, Suite::$passed, $seconds );
exit( Suite::$failed ? 1 : 0 );
