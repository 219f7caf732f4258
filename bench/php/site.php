<?php
/**
 * Own CPU of object-cache drop-ins for each operation in a real WordPress, from the command line and
 * from PHP-FPM: that of Debian's packages, with nginx and MariaDB, started here and ended.
 *
 *     php site.php [--pairs=10] [--out=FOLDER] NAME=object-cache.php [NAME:no-apcu=object-cache.php …]
 *
 * As `operations.php`; APCu has its default size, so there are fewer entries. Rows that begin with
 * `transient` go through WordPress: what they cost more is its share.
 *
 * Drop-ins of others are fetched by the person who runs this.
 */
require __DIR__ . '/comparison.php';
require __DIR__ . '/kept.php';
require dirname( __DIR__, 2 ) . '/php/tests/session/host.php';

/** The page that measures, in the folder of the site. */
const PAGE = '<?php
	set_time_limit( 0 );
	$_SERVER["HTTP_HOST"] = "127.0.0.1";
	require __DIR__ . "/wp-load.php";
	require %s;
	echo json_encode( measure( 2000 ) );';

list( $drop_ins, $pairs, $out ) = drop_ins_of( array_slice( $argv, 1 ), 'php site.php [--pairs=10] NAME=object-cache.php …' );
if ( $missing = Host::missing() ) {
	fwrite( STDERR, 'needed: apt-get install -y ' . implode( ' ', $missing ) . "\n" );
	exit( 2 );
}
$machine = machine();
$host    = new Host();
$content = $host->site . '/wp-content';
file_put_contents( $host->site . '/measure.php', sprintf( PAGE, var_export( __DIR__ . '/measure.php', true ) ) );
// No store but its own, and no list of pages that it served before.
$host->configure( array( 'WP_SQLITE_OBJECT_CACHE_APCU' => true, 'AUTH_SALT' => 'c' ) );
$all = array();
for ( $pair = 0; $pair < $pairs; ++$pair ) {
	foreach ( turns_of( $drop_ins, $pair ) as $name => $path ) {
		foreach ( array( 'CLI', 'FPM' ) as $kind ) {
			Host::shell( "rm -rf $content/.ht*" );
			Host::shell( "install -o www-data " . escapeshellarg( $path ) . " $content/object-cache.php" );
			$apcu = (int) has_apcu( $name );
			if ( 'CLI' === $kind ) {
				$php     = array( '-d', "apc.enable_cli=$apcu" );
				$printed = implode( "\n", $host->run( "{$host->site}/measure.php", array(), null, $php )[1] );
			} else {
				$host->restart_fpm( 'one', array(), array( '-d', "apc.enabled=$apcu" ) );
				$host->page( '/post-1/' ); // Compiles WordPress.
				$printed = $host->page( '/measure.php' )[1];
			}
			foreach ( times_of( "$name from $kind", $printed ) as $operation => $time ) {
				$all[ $kind ][ $operation ][ $name ][] = $time;
			}
		}
	}
}
$rows = array();
foreach ( $all as $kind => $operations ) {
	print_table( "us, $kind", $operations );
	$rows = array_merge( $rows, rows_of( $drop_ins, $operations, 'us', "by $kind" ) );
}
keep( $out, "site.php --pairs=$pairs", $drop_ins, $machine, $rows );
