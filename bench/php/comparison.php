<?php
// What the benchmarks share: their arguments, whose turn it is, and the table that they print.

/**
 * Drop-ins by name, how many pairs or seconds, and the folder to keep the run in, from arguments such
 * as `--pairs=10 --out=FOLDER NAME=FILE`.
 */
function drop_ins_of( array $arguments, $usage, $option = 'pairs', $count = 10 ) {
	$drop_ins = array();
	$out      = null;
	foreach ( $arguments as $argument ) {
		$parts = explode( '=', $argument, 2 );
		if ( "--$option" === $parts[0] ) {
			$count = max( 1, (int) ( $parts[1] ?? 0 ) );
		} elseif ( '--out' === $parts[0] && isset( $parts[1] ) ) {
			$out = $parts[1];
			is_dir( $out ) || mkdir( $out, 0777, true );
		} elseif ( 2 === count( $parts ) && is_file( $parts[1] ) ) {
			$drop_ins[ $parts[0] ] = realpath( $parts[1] );
		} else {
			fwrite( STDERR, "$argument is not NAME=FILE with a file that is there\n" );
			exit( 2 );
		}
	}
	if ( ! $drop_ins ) {
		fwrite( STDERR, "usage: $usage\n" );
		exit( 2 );
	}
	return array( $drop_ins, $count, $out );
}

/** The arguments without `--workers=N`, and that number. */
function workers_of( array $arguments, $workers ) {
	foreach ( $arguments as $at => $argument ) {
		if ( 0 === strpos( $argument, '--workers=' ) ) {
			$workers = (int) substr( $argument, strlen( '--workers=' ) );
			if ( $workers < 1 || $workers > 256 || "--workers=$workers" !== $argument ) {
				fwrite( STDERR, "$argument: a number of workers from 1 to 256 is needed\n" );
				exit( 2 );
			}
			unset( $arguments[ $at ] );
		}
	}
	return array( $arguments, $workers );
}

function has_apcu( $name ) {
	return ':no-apcu' !== substr( $name, -8 ) && ! is_native( $name );
}

/** Whether the extension of TIDEMARK_EXTENSION is loaded, which then serves in the place of all else. */
function is_native( $name ) {
	return ':native' === substr( $name, -7 );
}

/** The settings of PHP for a name, of which `$enabled` is that of APCu. A name may end in a serializer of APCu. */
function settings_of( $name, $enabled ) {
	$settings = array( "$enabled=" . (int) has_apcu( $name ) );
	if ( is_native( $name ) ) {
		$settings[] = 'extension=' . getenv( 'TIDEMARK_EXTENSION' );
	} elseif ( preg_match( '/:(default|php|igbinary)$/', $name, $serializer ) ) {
		$settings[] = "apc.serializer={$serializer[1]}";
	}
	$arguments = array();
	foreach ( $settings as $setting ) {
		array_push( $arguments, '-d', $setting );
	}
	return $arguments;
}

/** The drop-ins in the order of one pair: another one is the first each time. */
function turns_of( array $drop_ins, $pair ) {
	$first = $pair % count( $drop_ins );
	return array_slice( $drop_ins, $first, null, true ) + $drop_ins;
}

/** The JSON that a measured process printed; ends the benchmark where it is none. */
function times_of( $name, $printed ) {
	$times = json_decode( $printed, true );
	if ( ! is_array( $times ) ) {
		fwrite( STDERR, "$name failed: " . substr( $printed, 0, 1000 ) . "\n" );
		exit( 1 );
	}
	return $times;
}

/** Median, smallest and largest of each operation, of operation => name => times. */
function print_table( $title, array $all ) {
	printf( "%-18s%s\n", $title, implode( '', array_map( function ( $name ) {
		return sprintf( '%26s', $name );
	}, array_keys( current( $all ) ) ) ) );
	foreach ( $all as $operation => $names ) {
		printf( '%-18s', $operation );
		foreach ( $names as $times ) {
			printf( '%10.2f (%6.2f-%6.2f)', median( $times ), min( $times ), max( $times ) );
		}
		echo "\n";
	}
}

function median( array $times ) {
	sort( $times );
	return $times[ intdiv( count( $times ) - 1, 2 ) ];
}
