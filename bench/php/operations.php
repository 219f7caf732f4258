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
const COUNT = 5000;

/** Runs in a process of its own: prints JSON of microseconds for each operation. */
function measure( $drop_in ) {
	require __DIR__ . '/wordpress.php';
	require $drop_in;
	wp_cache_init();
	$large = $small = array();
	for ( $i = 0; $i < COUNT; ++$i ) {
		$large[ "_transient_t$i" ] = str_repeat( md5( "t$i" ), 160 );

		$post             = new stdClass();
		$post->ID         = $i;
		$post->content    = str_repeat( md5( "p$i" ), 28 );
		$post->title      = "Post $i";
		$small[ "p$i" ]   = $post;
	}
	$times = array(
		'set 5 KB'     => clock( $large, function ( $key, $value ) {
			wp_cache_set( $key, $value, 'transient', 3600 );
		} ),
		'set 1 KB'     => clock( $small, function ( $key, $value ) {
			wp_cache_set( $key, $value, 'posts' );
		} ),
	);
	wp_cache_flush_runtime();
	$times['get 5 KB'] = clock( $large, function ( $key ) {
		wp_cache_get( $key, 'transient' );
	} );
	$times['get 1 KB'] = clock( $small, function ( $key ) {
		wp_cache_get( $key, 'posts' );
	} );
	$times['get again'] = clock( $small, function ( $key ) {
		wp_cache_get( $key, 'posts' );
	} );
	$times['miss']   = clock( $small, function ( $key ) {
		wp_cache_get( $key, 'none' );
	} );
	$times['delete'] = clock( $large, function ( $key ) {
		wp_cache_delete( $key, 'transient' );
	} );
	echo json_encode( $times );
}

/** CPU of the process, user and system, without that of the loop itself. */
function clock( array $values, $operation ) {
	$nothing = function ( $key, $value ) {};
	$spent   = array();
	foreach ( array( $nothing, $operation ) as $act ) {
		$before = cpu();
		foreach ( $values as $key => $value ) {
			$act( $key, $value );
		}
		$spent[] = cpu() - $before;
	}
	return ( $spent[1] - $spent[0] ) / count( $values );
}

function cpu() {
	$used = getrusage();
	return 1e6 * ( $used['ru_utime.tv_sec'] + $used['ru_stime.tv_sec'] )
		+ $used['ru_utime.tv_usec'] + $used['ru_stime.tv_usec'];
}

function compare( array $drop_ins, $pairs ) {
	$all = array();
	for ( $pair = 0; $pair < $pairs; ++$pair ) {
		foreach ( $drop_ins as $name => $path ) {
			$folder = sys_get_temp_dir() . '/bench-php-' . bin2hex( random_bytes( 6 ) );
			mkdir( $folder, 0700 );
			$has_apcu = ':no-apcu' === substr( $name, -8 ) ? '0' : '1';
			$command  = array( PHP_BINARY, '-d', "apc.enable_cli=$has_apcu", '-d', 'apc.shm_size=256M',
				'-d', 'error_reporting=8191', __FILE__, '--measure', $path );
			$process = proc_open( $command, array( 1 => array( 'pipe', 'w' ) ), $pipes, null,
				array( 'BENCH_CONTENT' => $folder ) );
			$printed = stream_get_contents( $pipes[1] );
			proc_close( $process );
			$times = json_decode( $printed, true );
			if ( ! is_array( $times ) ) {
				fwrite( STDERR, "$name failed: " . substr( $printed, 0, 1000 ) . "\n" );
				exit( 1 );
			}
			foreach ( $times as $operation => $time ) {
				$all[ $operation ][ $name ][] = $time;
			}
			remove( $folder );
		}
	}
	printf( "%-12s%s\n", 'us', implode( '', array_map( function ( $name ) {
		return sprintf( '%24s', $name );
	}, array_keys( $drop_ins ) ) ) );
	foreach ( $all as $operation => $names ) {
		printf( '%-12s', $operation );
		foreach ( $names as $times ) {
			sort( $times );
			$last = count( $times ) - 1;
			printf( '%10.2f (%5.2f-%5.2f)', $times[ intdiv( $last, 2 ) ], $times[0], $times[ $last ] );
		}
		echo "\n";
	}
}

function remove( $folder ) {
	foreach ( array_diff( scandir( $folder ), array( '.', '..' ) ) as $name ) {
		is_dir( "$folder/$name" ) ? remove( "$folder/$name" ) : unlink( "$folder/$name" );
	}
	rmdir( $folder );
}

if ( isset( $argv[2] ) && '--measure' === $argv[1] ) {
	measure( $argv[2] );
	exit( 0 );
}
$drop_ins = array();
$pairs    = 10;
foreach ( array_slice( $argv, 1 ) as $argument ) {
	$parts = explode( '=', $argument, 2 );
	if ( '--pairs' === $parts[0] ) {
		$pairs = max( 1, (int) ( $parts[1] ?? 0 ) );
	} elseif ( 2 === count( $parts ) && is_file( $parts[1] ) ) {
		$drop_ins[ $parts[0] ] = realpath( $parts[1] );
	} else {
		fwrite( STDERR, "$argument is not NAME=FILE with a file that is there\n" );
		exit( 2 );
	}
}
if ( ! $drop_ins ) {
	fwrite( STDERR, "usage: php operations.php [--pairs=10] NAME=object-cache.php …\n" );
	exit( 2 );
}
compare( $drop_ins, $pairs );
