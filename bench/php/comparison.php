<?php
// What the two benchmarks of operations share: their arguments, and the table that they print.

/** Drop-ins by name, and the number of pairs, from arguments such as `--pairs=10 NAME=FILE`. */
function drop_ins_of( array $arguments, $usage ) {
	$drop_ins = array();
	$pairs    = 10;
	foreach ( $arguments as $argument ) {
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
		fwrite( STDERR, "usage: $usage\n" );
		exit( 2 );
	}
	return array( $drop_ins, $pairs );
}

function has_apcu( $name ) {
	return ':no-apcu' !== substr( $name, -8 );
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
			sort( $times );
			$last = count( $times ) - 1;
			printf( '%10.2f (%6.2f-%6.2f)', $times[ intdiv( $last, 2 ) ], $times[0], $times[ $last ] );
		}
		echo "\n";
	}
}
