<?php
/**
 * The session of a user on a real host, and each fault of the store while pages are served:
 * `php run.php object-cache.php`, as root, because it mounts file systems and changes owners.
 */
require dirname( __DIR__ ) . '/suite.php';
require __DIR__ . '/host.php';
if ( ! isset( $argv[1] ) || ! is_file( $argv[1] ) ) {
	fwrite( STDERR, "usage: php run.php target/dist/object-cache.php\n" );
	exit( 2 );
}
$missing = Host::missing();
foreach ( array( 'bindfs', 'faketime', 'setpriv', 'mount', 'unshare' ) as $program ) {
	Host::program( $program ) || $missing[] = $program;
}
if ( $missing || 0 !== posix_geteuid() ) {
	fwrite( STDERR, 'needed: root, and: apt-get install -y ' . implode( ' ', $missing ) . "\n" );
	exit( 2 );
}
pcntl_async_signals( true );
pcntl_signal( SIGTERM, function () {
	exit( 143 ); // Which ends what the host started.
} );
$start   = hrtime( true );
$drop_in = realpath( $argv[1] );
$host    = new Host();
$content = $host->site . '/wp-content';
require __DIR__ . '/steps.php';

pages(); // The first ones fill caches of WordPress that lie in its database.
$plain = pages();
Suite::same( 'site serves pages before', array_column( $plain, 0 ),
	array( '200', '200', '200', '404' ) );
$requests = 'night' === getenv( 'TIDEMARK_LANE' ) ? 1000 : 100;

install( $drop_in );
Suite::same( 'first pages with the drop-in are those without', pages(), $plain );
Suite::same( 'next pages with the drop-in are those without', pages(), $plain );
list( $code, $lines ) = command( 'status' );
printf( "status: %s\n", implode( '; ', $lines ) );
Suite::same( 'status names the tiers and why one is off', array( $code, $lines ), array( 0, array(
	'tier 0 (request): on',
	'tier 1 (APCu): off, apc.enable_cli is off',
	'tier 2 (SQLite): on, ' . store(),
	'guest: no',
) ) );
$page = $host->page( '/wp-admin/site-health.php?tab=debug', 'one', $host->run_in_site( 'login.php' )[1] );
Suite::same( 'Site Health names the tiers of PHP-FPM', array( $page[0], array_map( function ( $text ) use ( $page ) {
	return false !== strpos( $page[1], $text );
}, array( 'Tidemark object cache', 'on, shared by the processes of this PHP-FPM master', 'on, ' . store() ) ) ),
	array( '200', array( true, true, true ) ) );
$codes = array();
foreach ( array( 'status', 'stats', 'verify', 'flush-group posts', 'flush', 'sync', 'flush-group', 'flush-group a b',
	'register', '__construct', 'none' ) as $words ) {
	$codes[ $words ] = command( ...explode( ' ', $words ) )[0];
}
Suite::same( 'commands end with their exit codes', $codes, array( 'status' => 0, 'stats' => 0, 'verify' => 0,
	'flush-group posts' => 0, 'flush' => 0, 'sync' => 0, 'flush-group' => 1, 'flush-group a b' => 1,
	'register' => 1, '__construct' => 1, 'none' => 1 ) );
pages();
$before = hit_ratio( $requests );
$host->restart_fpm( 'one' );
$after = hit_ratio( $requests );
printf( "hit ratio of %d requests: %.2f %% before, %.2f %% after the restart\n",
	$requests, $before / 100, $after / 100 );
Suite::same( 'hit ratio after a restart is within 1 %', abs( $after - $before ) <= 100, true );
remove();
$without = hit_ratio( 20 );
printf( "hit ratio without the drop-in: %.2f %%\n", $without / 100 );
Suite::same( 'misses without the drop-in are more than twice those with it',
	10000 - $without > 2 * ( 10000 - $before ), true );
Suite::same( 'site without the drop-in is as it was', pages(), $plain );

/** Pages of both masters while the store has a fault, and what the log says of it. */
function during( $name, $fault, $repair = null, $log = null ) {
	global $plain, $host, $drop_in;
	install( $drop_in );
	pages();
	file_put_contents( "{$host->folder}/php.log", '' );
	$fault( store() );
	$seen = array( pages(), pages( 'two' ) );
	Suite::same( "pages are those without a cache: $name", $seen, array( $plain, $plain ) );
	$logged = (string) file_get_contents( "{$host->folder}/php.log" );
	if ( null !== $log ) {
		Suite::same( "log names the fault: $name", false !== strpos( $logged, $log ) ? $log : $logged, $log );
	}
	Suite::same( "log is not flooded: $name", substr_count( $logged, 'Tidemark' ) <= 6, true );
	Suite::same( "no warning of PHP: $name", preg_match( '/PHP (Warning|Notice|Fatal|Deprecated)/', $logged ), 0 );
	$repair && $repair();
	remove();
	array_map( 'unlink', glob( '/tmp/tidemark-*-33' ) );
}

require __DIR__ . '/faults.php';
Suite::same( 'each check of docs/reference/wordpress-checks.md is made', Suite::not_made( array( 'session' ) ),
	array() );
printf( "%s%d passed in %.1fs\n", Suite::$failed ? Suite::$failed . ' failed, ' : '',
	Suite::$passed, ( hrtime( true ) - $start ) / 1e9 );
exit( Suite::$failed ? 1 : 0 );
