<?php
// The contract in versions of PHP that Debian 12 does not package, each as WebAssembly: `php run.php object-cache.php`.

require dirname( __DIR__ ) . '/suite.php';
if ( ! isset( $argv[1] ) || ! is_file( $argv[1] ) || ! is_dir( __DIR__ . '/node_modules' ) ) {
	fwrite( STDERR, "usage: npm ci; php run.php target/dist/object-cache.php\n" );
	exit( 2 );
}
$start = hrtime( true );
foreach ( array( '8.1', '8.3', '8.4', '8.5' ) as $version ) {
	// Where PHP is WebAssembly no mounted file has a lasting inode, so all lies in its memory.
	Suite::$drop_in = '/drop-in/object-cache.php';

	$command = array( 'node', __DIR__ . '/server.mjs', $version, realpath( $argv[1] ), Suite::$drop_in );
	$server  = proc_open( $command, array( 1 => array( 'pipe', 'w' ) ), $pipes );
	Suite::$master = (int) fgets( $pipes[1] );
	$found = (string) Suite::request( Suite::site(), 'return PHP_VERSION;' );
	Suite::same( "server runs PHP $version", substr( $found, 0, 3 ), $version );
	foreach ( array( 'contract', 'multisite' ) as $part ) {
		require dirname( __DIR__ ) . "/$part.php";
	}
	echo "PHP $found: ", Suite::$passed, ' passed, ', Suite::$failed, " failed so far\n";
	proc_terminate( $server, 9 );
	proc_close( $server );
}
Suite::clean();
printf( "%s%d passed in %.1fs\n", Suite::$failed ? Suite::$failed . ' failed, ' : '',
	Suite::$passed, ( hrtime( true ) - $start ) / 1e9 );
exit( Suite::$failed ? 1 : 0 );
