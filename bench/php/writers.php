<?php
/**
 * Sixteen processes, or another number, that write at once: how long a set of 5 KB takes, and what fails.
 *
 *     php writers.php [--seconds=60] [--workers=16] [--sync] [--out=FOLDER] NAME=object-cache.php [NAME=object-cache.php …]
 *
 * These processes have no APCu: name them `ours:no-apcu`, `ours:native` and `sqlite:no-apcu`.
 *
 * Stores are in the folder of TMPDIR. The kernel writes their pages to a disk some 30 s after they have changed, and not those
 * of a tmpfs: where the longest sets differ between the two, that is what it costs. With --sync they are written twice a
 * second, so that a short run has many of these writes.
 *
 * Drop-ins of others are fetched by the person who runs this. Wall time in microseconds: it
 * says something where nothing else runs, and only beside the others of the same run.
 */
require __DIR__ . '/comparison.php';
require __DIR__ . '/kept.php';

/** Runs in a process of its own: prints JSON of the times of its sets. */
function write_for( $drop_in, $seconds, $number ) {
	require __DIR__ . '/wordpress.php';
	require $drop_in;
	wp_cache_init();
	$value  = str_repeat( md5( (string) $number ), 160 );
	$ends   = hrtime( true ) + $seconds * 1e9;
	$times  = array();
	$failed = 0;
	for ( $i = 0; hrtime( true ) < $ends; ++$i ) {
		$start   = hrtime( true );
		$failed += wp_cache_set( 'k' . $i % 500 . "-$number", $value, 'transient' ) ? 0 : 1;
		$times[] = ( hrtime( true ) - $start ) / 1000;
	}
	$tiers = method_exists( $GLOBALS['wp_object_cache'], 'tidemark_tiers' )
		? $GLOBALS['wp_object_cache']->tidemark_tiers() : null;
	echo json_encode( array( $times, $failed, $tiers ? $tiers->notices->counts : array() ) );
}

/** How many of these times, which are in order, are no longer than that. */
function count_up_to( array $times, $limit ) {
	$from = 0;
	$to   = count( $times );
	while ( $from < $to ) {
		$middle = intdiv( $from + $to, 2 );
		$times[ $middle ] <= $limit ? $from = $middle + 1 : $to = $middle;
	}
	return $from;
}

/** What is compared, and the line that says all. */
function measure_writers( $name, $drop_in, $seconds, $writers, $is_synced ) {
	$folder = sys_get_temp_dir() . '/bench-php-' . bin2hex( random_bytes( 6 ) );
	mkdir( $folder, 0700 );
	// It ends where the folder is gone.
	$sync = $is_synced ? proc_open( array( 'sh', '-c', 'while sync -f "$0" 2>/dev/null; do sleep 0.5; done', $folder ), array(), $pipes ) : null;

	$running = array();
	for ( $i = 0; $i < $writers; ++$i ) {
		$command   = array_merge( array( PHP_BINARY, '-d', 'memory_limit=-1' ), settings_of( $name, 'apc.enable_cli' ),
			array( __FILE__, '--write', $drop_in, $seconds, $i ) );
		$process   = proc_open( array_map( 'strval', $command ), array( 1 => array( 'pipe', 'w' ) ), $pipes,
			null, array( 'BENCH_CONTENT' => $folder ) );
		$running[] = array( $process, $pipes[1] );
	}
	$times  = array();
	$counts = array();
	$faults = array();
	$failed = 0;
	foreach ( $running as list( $process, $pipe ) ) {
		$printed = stream_get_contents( $pipe );
		proc_close( $process );
		$found = json_decode( $printed, true );
		if ( ! is_array( $found ) ) {
			$faults[] = substr( $printed, 0, 200 );
			continue;
		}
		$counts[] = count( $found[0] );
		array_push( $times, ...$found[0] );
		$failed += $found[1];
		$faults  = array_merge( $faults, array_keys( $found[2] ) );
	}
	sort( $times );
	$at = function ( $part ) use ( $times ) {
		return $times ? $times[ (int) ( $part * ( count( $times ) - 1 ) ) ] : NAN;
	};
	exec( 'rm -rf ' . escapeshellarg( $folder ) );
	$sync && proc_close( $sync );
	$long = count( $times ) - count_up_to( $times, 10000 );
	// A process that never gets its turn makes few sets, and so counts little in the parts of all.
	$fair = $counts ? max( $counts ) / max( 1, min( $counts ) ) : NAN;
	return array( array( 'p50 of a set' => $at( 0.5 ), 'p99 of a set' => $at( 0.99 ), 'p99.9 of a set' => $at( 0.999 ),
		'longest set' => $at( 1 ) ),
		sprintf( '%-24s%10d sets%10.0f p50%10.0f p99%10.0f p99.9%10.0f longest%8d over 10 ms%8.1f most to fewest%8d refused   %s', $name, count( $times ),
			$at( 0.5 ), $at( 0.99 ), $at( 0.999 ), $at( 1 ), $long, $fair, $failed, $faults ? implode( ', ', $faults ) : 'no fault' ) );
}

if ( isset( $argv[4] ) && '--write' === $argv[1] ) {
	write_for( $argv[2], (int) $argv[3], (int) $argv[4] );
	exit( 0 );
}
$is_synced = in_array( '--sync', $argv, true );
list( $arguments, $writers ) = workers_of( array_diff( array_slice( $argv, 1 ), array( '--sync' ) ), 16 );
list( $drop_ins, $seconds, $out ) = drop_ins_of( $arguments,
	'php writers.php [--seconds=60] [--workers=16] [--sync] NAME=object-cache.php …', 'seconds', 60 );
$machine = machine();
$all     = array();
$notes   = array();
foreach ( $drop_ins as $name => $path ) {
	list( $values, $line ) = measure_writers( $name, $path, $seconds, $writers, $is_synced );

	echo "$line\n";
	$notes[] = "    $line";
	foreach ( $values as $what => $value ) {
		$all[ $what ][ $name ][] = $value;
	}
}
keep( $out, "writers.php --seconds=$seconds --workers=$writers" . ( $is_synced ? ' --sync' : '' ), $drop_ins, $machine, rows_of( $drop_ins, $all, 'us' ),
	array( implode( "\n", $notes ) ) );
