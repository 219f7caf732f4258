<?php
/**
 * Own CPU of object-cache drop-ins for each operation, on the least of WordPress: no hooks, no
 * database. Values are built before the clock starts. Each pair is a new process and a new
 * store for each drop-in, in turn; printed are medians in microseconds for each operation.
 *
 *     php operations.php [--pairs=10] NAME=object-cache.php [NAME:no-apcu=object-cache.php …]
 *
 * APCu is on, but for a name that ends in `:no-apcu`. The same file under two names shows what
 * the run can tell apart.
 *
 * Drop-ins of others are fetched by the person who runs this.
 */
require __DIR__ . '/comparison.php';
const COUNT = 5000;

function compare( array $drop_ins, $pairs ) {
	$all = array();
	for ( $pair = 0; $pair < $pairs; ++$pair ) {
		foreach ( $drop_ins as $name => $path ) {
			$folder = sys_get_temp_dir() . '/bench-php-' . bin2hex( random_bytes( 6 ) );
			mkdir( $folder, 0700 );
			$command = array( PHP_BINARY, '-d', 'apc.enable_cli=' . (int) has_apcu( $name ), '-d', 'apc.shm_size=256M',
				'-d', 'error_reporting=8191', __FILE__, '--measure', $path );
			$process = proc_open( $command, array( 1 => array( 'pipe', 'w' ) ), $pipes, null,
				array( 'BENCH_CONTENT' => $folder ) );
			$printed = stream_get_contents( $pipes[1] );
			proc_close( $process );
			foreach ( times_of( $name, $printed ) as $operation => $time ) {
				$all[ $operation ][ $name ][] = $time;
			}
			remove( $folder );
		}
	}
	print_table( 'us', $all );
}

function remove( $folder ) {
	foreach ( array_diff( scandir( $folder ), array( '.', '..' ) ) as $name ) {
		is_dir( "$folder/$name" ) ? remove( "$folder/$name" ) : unlink( "$folder/$name" );
	}
	rmdir( $folder );
}

if ( isset( $argv[2] ) && '--measure' === $argv[1] ) {
	require __DIR__ . '/measure.php';
	require __DIR__ . '/wordpress.php';
	require $argv[2];
	wp_cache_init();
	echo json_encode( measure( COUNT ) );
	exit( 0 );
}
compare( ...drop_ins_of( array_slice( $argv, 1 ), 'php operations.php [--pairs=10] NAME=object-cache.php …' ) );
