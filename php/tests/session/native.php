<?php
/**
 * The native form on a real host: `php native.php object-cache.php tidemark.so`, as root, because the site
 * belongs to another user.
 */
require dirname( __DIR__ ) . '/suite.php';
require __DIR__ . '/host.php';
if ( ! isset( $argv[2] ) || ! is_file( $argv[1] ) || ! is_file( $argv[2] ) ) {
	fwrite( STDERR, "usage: php native.php target/dist/object-cache.php target/dist/php/tidemark.so\n" );
	exit( 2 );
}
if ( Host::missing() || 0 !== posix_geteuid() ) {
	fwrite( STDERR, 'needed: root, and: apt-get install -y ' . implode( ' ', Host::missing() ) . "\n" );
	exit( 2 );
}
$start   = hrtime( true );
$drop_in = realpath( $argv[1] );
$host    = new Host();
$content = $host->site . '/wp-content';
require __DIR__ . '/steps.php';

// Where the user of the site can read it.
copy( $argv[2], "{$host->folder}/tidemark.so" );
Suite::$extension = "{$host->folder}/tidemark.so";
$host->restart_fpm( 'one', array(), Suite::php() );
pages(); // The first ones fill caches of WordPress that lie in its database.
$plain    = pages();
$requests = 'night' === getenv( 'TIDEMARK_LANE' ) ? 1000 : 100;
$without  = hit_ratio( 20 );
Suite::same( 'site serves pages before', array_column( $plain, 0 ), array( '200', '200', '200', '404' ) );

install( $drop_in );
Suite::same( 'first pages with the drop-in are those without', pages(), $plain );
Suite::same( 'next pages with the drop-in are those without', pages(), $plain );
list( $code, $lines ) = command( 'status' );
Suite::same( 'status names the native tier', array( $code, $lines ), array( 0, array(
	'tier 0 (request): on',
	'tier 1 (APCu): off, the native store is in shared memory',
	'tier 2 (native): on, ' . store(),
	'guest: no',
) ) );
$codes = array();
foreach ( array( 'status', 'stats', 'verify', 'flush-group posts', 'flush', 'sync', 'flush-group' ) as $words ) {
	$codes[ $words ] = command( ...explode( ' ', $words ) )[0];
}
Suite::same( 'commands end with their exit codes', $codes, array( 'status' => 0, 'stats' => 0, 'verify' => 0,
	'flush-group posts' => 0, 'flush' => 0, 'sync' => 0, 'flush-group' => 1 ) );

pages();
$before = hit_ratio( $requests );
$host->restart_fpm( 'one', array(), Suite::php() );
$after = hit_ratio( $requests );
printf( "hit ratio of %d requests: %.2f %% before, %.2f %% after the restart, %.2f %% without the drop-in\n",
	$requests, $before / 100, $after / 100, $without / 100 );
Suite::same( 'hit ratio after a restart is within 1 %', abs( $after - $before ) <= 100, true );
Suite::same( 'misses without the drop-in are more than twice those with it', 10000 - $without > 2 * ( 10000 - $before ), true );

// A second page makes no misses but those of keys that are never there; a flush makes more of them.
$warm = hit_ratio( 1 );
command( 'flush' );
$flushed = hit_ratio( 1 );
Suite::same( 'a flush from the command line is seen by the next page', $flushed < $warm, true );
Suite::same( 'pages after a flush are those without a cache', pages(), $plain );

// A PHP without the extension beside it is a guest: pages are right in both.
$host->start_fpm( 'two' );
Suite::same( 'pages of a master without the extension are those without a cache', array( pages( 'two' ), pages() ), array( $plain, $plain ) );
$log = (string) file_get_contents( "{$host->folder}/php.log" );
Suite::same( 'no warning of PHP', preg_match( '/PHP (Warning|Notice|Fatal|Deprecated)/', $log ), 0 );
remove();
Suite::same( 'site without the drop-in is as it was', pages(), $plain );
printf( "%s%d passed in %.1fs\n", Suite::$failed ? Suite::$failed . ' failed, ' : '',
	Suite::$passed, ( hrtime( true ) - $start ) / 1e9 );
exit( Suite::$failed ? 1 : 0 );
