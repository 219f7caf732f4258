<?php
/**
 * Own CPU of object-cache drop-ins for each operation, on the least of WordPress: no hooks, no
 * database. Values are built before the clock starts. Each pair is a new process and a new
 * store for each drop-in, in turn; printed are medians in microseconds for each operation.
 *
 *     php operations.php [--pairs=10] [--workers=1] [--out=FOLDER] NAME=object-cache.php [NAME:no-apcu=object-cache.php …]
 *
 * With more workers than one these are processes of one server, which share APCu. They do the same at once, each with keys
 * of its own; of each pair the mean of them counts. Stores are in the folder of TMPDIR, which may be of any file system.
 *
 * APCu is on, but for a name that ends in `:no-apcu`. `ours:native` has the extension whose library
 * TIDEMARK_EXTENSION names, `apcu:default` and `apcu:php` those serializers of APCu. The same file under two names shows what
 * the run can tell apart. `kept.php` says which names are compared.
 *
 * Drop-ins of others are fetched by the person who runs this.
 */
require __DIR__ . '/comparison.php';
require __DIR__ . '/kept.php';
/** Entries of each size that one process has, and that all of them have together: so many fit in 256 MB. */
const COUNT     = 5000;
const COUNT_ALL = 16000;

function compare( array $drop_ins, $pairs, $out, $workers ) {
	$all     = array();
	$machine = machine();
	for ( $pair = 0; $pair < $pairs; ++$pair ) {
		foreach ( turns_of( $drop_ins, $pair ) as $name => $path ) {
			$folder = sys_get_temp_dir() . '/bench-php-' . bin2hex( random_bytes( 6 ) );
			mkdir( $folder, 0700 );
			$times         = 1 === $workers ? times_of_process( $name, $path, $folder )
				: times_of_workers( $name, $path, $folder, $workers );
			$times['open'] = time_of_open( $name, $path, $folder );
			foreach ( $times as $operation => $time ) {
				$all[ $operation ][ $name ][] = $time;
			}
			remove( $folder );
		}
	}
	print_table( 'us', $all );
	keep( $out, "operations.php --pairs=$pairs --workers=$workers", $drop_ins, $machine, rows_of( $drop_ins, $all, 'us' ) );
}

function times_of_process( $name, $path, $folder ) {
	$command = array_merge( array( PHP_BINARY, '-d', 'apc.shm_size=256M', '-d', 'error_reporting=8191' ),
		settings_of( $name, 'apc.enable_cli' ), array( __FILE__, '--measure', $path ) );
	$process = proc_open( $command, array( 1 => array( 'pipe', 'w' ) ), $pipes, null,
		array( 'BENCH_CONTENT' => $folder ) );
	$printed = stream_get_contents( $pipes[1] );
	proc_close( $process );
	return times_of( $name, $printed );
}

/** A server of PHP's own over a store: the process and its address. */
function server_over( $name, $path, $folder, $workers, $script ) {
	$listening = stream_socket_server( 'tcp://127.0.0.1:0' );
	$address   = stream_socket_get_name( $listening, false );
	fclose( $listening );
	$command = array_merge( array( PHP_BINARY, '-d', 'apc.shm_size=256M', '-d', 'error_reporting=8191' ),
		settings_of( $name, 'apc.enabled' ), array( '-S', $address, __DIR__ . "/$script" ) );
	$nothing = array( 'file', '/dev/null', 'a' );
	// Of one worker there is no master.
	$many    = 1 === $workers ? array() : array( 'PHP_CLI_SERVER_WORKERS' => (string) $workers );
	$process = proc_open( $command, array( $nothing, $nothing, $nothing ), $pipes, null,
		array( 'BENCH_CONTENT' => $folder, 'BENCH_DROP_IN' => $path ) + $many );
	return array( $process, $address );
}

/** The mean of all workers. They wait for each other: a worker that serves a request takes no second one. */
function times_of_workers( $name, $path, $folder, $workers ) {
	list( $server, $address ) = server_over( $name, $path, $folder, $workers, 'worker.php' );

	$count   = min( COUNT, intdiv( COUNT_ALL, $workers ) );
	$sockets = array();
	for ( $tries = 0; $tries < 60000 && count( $sockets ) < $workers; ++$tries ) {
		$socket = @stream_socket_client( "tcp://$address", $number, $error, 10 );
		if ( ! $socket ) {
			usleep( 1000 );
			continue;
		}
		$worker = count( $sockets );
		fwrite( $socket, "GET /?worker=$worker&count=$count HTTP/1.0\r\n\r\n" );
		stream_set_timeout( $socket, 600 );
		$sockets[] = $socket;
		while ( ! file_exists( "$folder/runs-$worker" ) && $tries++ < 60000 ) {
			usleep( 1000 );
			clearstatcache();
		}
	}
	// The mean is over all: a worker that is missing would count as one that takes no time.
	for ( $worker = 0; $worker < $workers; ++$worker ) {
		if ( ! isset( $sockets[ $worker ] ) || ! file_exists( "$folder/runs-$worker" ) ) {
			end_server( $server );
			fwrite( STDERR, "$name failed: worker $worker of $workers did not begin\n" );
			exit( 1 );
		}
	}
	touch( "$folder/go" );
	$sums = array();
	foreach ( $sockets as $socket ) {
		$answer = (string) stream_get_contents( $socket );
		$times  = times_of( $name, substr( $answer, (int) strpos( $answer, "\r\n\r\n" ) + 4 ) );
		foreach ( $times as $operation => $time ) {
			$sums[ $operation ] = ( $sums[ $operation ] ?? 0 ) + $time / $workers;
		}
	}
	end_server( $server );
	return $sums;
}

/** With the workers of a master, which do not end by themselves. */
function end_server( $server ) {
	$pid      = proc_get_status( $server )['pid'];
	$children = (string) @file_get_contents( "/proc/$pid/task/$pid/children" );
	proc_terminate( $server, 9 );
	foreach ( array_filter( explode( ' ', $children ) ) as $child ) {
		posix_kill( (int) $child, 9 );
	}
	proc_close( $server );
}

/** The median of fifty requests of one worker of PHP's own server, over the store that is there. */
function time_of_open( $name, $path, $folder ) {
	list( $server, $address ) = server_over( $name, $path, $folder, 1, 'open.php' );

	$times   = array();
	for ( $tries = 0; $tries < 1000 && count( $times ) < 51; ++$tries ) {
		$printed = @file_get_contents( "http://$address/" );
		if ( false === $printed ) {
			usleep( 10000 );
		} else {
			$times[] = (float) $printed;
		}
	}
	end_server( $server );
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
list( $arguments, $workers ) = workers_of( array_slice( $argv, 1 ), 1 );
list( $drop_ins, $pairs, $out ) = drop_ins_of( $arguments, 'php operations.php [--pairs=10] [--workers=1] NAME=object-cache.php …' );
compare( $drop_ins, $pairs, $out, $workers );
