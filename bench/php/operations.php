<?php
/**
 * Own CPU of object-cache drop-ins for each operation, on the least of WordPress: no hooks, no
 * database. Values are built before the clock starts. Each pair is a new process and a new
 * store for each drop-in, in turn; printed are medians in microseconds for each operation.
 *
 *     php operations.php [--pairs=10] [--out=FOLDER] NAME=object-cache.php [NAME:no-apcu=object-cache.php …]
 *
 * APCu is on, but for a name that ends in `:no-apcu`. `ours:native` has the extension whose library
 * TIDEMARK_EXTENSION names, `apcu:default` and `apcu:php` those serializers of APCu. The same file under two names shows what
 * the run can tell apart. `kept.php` says which names are compared.
 *
 * Drop-ins of others are fetched by the person who runs this.
 */
require __DIR__ . '/comparison.php';
require __DIR__ . '/kept.php';
const COUNT = 5000;

function compare( array $drop_ins, $pairs, $out ) {
	$all     = array();
	$machine = machine();
	for ( $pair = 0; $pair < $pairs; ++$pair ) {
		foreach ( turns_of( $drop_ins, $pair ) as $name => $path ) {
			$folder = sys_get_temp_dir() . '/bench-php-' . bin2hex( random_bytes( 6 ) );
			mkdir( $folder, 0700 );
			$command = array_merge( array( PHP_BINARY, '-d', 'apc.shm_size=256M', '-d', 'error_reporting=8191' ),
				settings_of( $name, 'apc.enable_cli' ), array( __FILE__, '--measure', $path ) );
			$process = proc_open( $command, array( 1 => array( 'pipe', 'w' ) ), $pipes, null,
				array( 'BENCH_CONTENT' => $folder ) );
			$printed = stream_get_contents( $pipes[1] );
			proc_close( $process );
			$times         = times_of( $name, $printed );
			$times['open'] = time_of_open( $name, $path, $folder );
			foreach ( $times as $operation => $time ) {
				$all[ $operation ][ $name ][] = $time;
			}
			remove( $folder );
		}
	}
	print_table( 'us', $all );
	keep( $out, "operations.php --pairs=$pairs", $drop_ins, $machine, rows_of( $drop_ins, $all, 'us' ) );
}

/** The median of fifty requests of one worker of PHP's own server, over the store that is there. */
function time_of_open( $name, $path, $folder ) {
	$listening = stream_socket_server( 'tcp://127.0.0.1:0' );
	$address   = stream_socket_get_name( $listening, false );
	fclose( $listening );
	$command = array_merge( array( PHP_BINARY, '-d', 'error_reporting=8191' ), settings_of( $name, 'apc.enabled' ),
		array( '-S', $address, __DIR__ . '/open.php' ) );
	$nothing = array( 'file', '/dev/null', 'a' );
	$server  = proc_open( $command, array( $nothing, $nothing, $nothing ), $pipes, null,
		array( 'BENCH_CONTENT' => $folder, 'BENCH_DROP_IN' => $path ) );
	$times   = array();
	for ( $tries = 0; $tries < 1000 && count( $times ) < 51; ++$tries ) {
		$printed = @file_get_contents( "http://$address/" );
		if ( false === $printed ) {
			usleep( 10000 );
		} else {
			$times[] = (float) $printed;
		}
	}
	proc_terminate( $server, 9 );
	proc_close( $server );
	$times = array_slice( $times, 1 ) ?: array( NAN ); // The first fills the worker's own caches.
	sort( $times );
	return $times[ intdiv( count( $times ), 2 ) ];
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
