<?php
/**
 * Keeps a run: `NAME.json` with each pair's ratio beside its target and the machine, and `SUMMARY.md`
 * of all runs that lie in the same folder. The shape is that of bench/python.
 *
 * Drop-ins are compared by their names: `ours` and `ours:no-apcu` with `sqlite` (SQLite Object Cache),
 * `sqlite:no-apcu` and `apcu` (a drop-in over APCu), and with a second name of the same file; `ours:native`,
 * the same file with the extension, with all of them.
 */

/** Operation => rival => the largest ratio that is wanted. */
const TARGETS = array(
	'get 5 KB'       => array( 'sqlite:no-apcu' => 0.6, 'sqlite' => 1.1 ),
	'get 1 KB'       => array( 'sqlite:no-apcu' => 0.9, 'sqlite' => 1.1 ),
	'get again'      => array( 'apcu' => 0.6 ),
	'miss'           => array( 'sqlite:no-apcu' => 0.5, 'sqlite' => 0.5 ),
	'set 5 KB'       => array( 'sqlite:no-apcu' => 1.1, 'sqlite' => 1.1 ),
	'delete'         => array( 'sqlite:no-apcu' => 0.95, 'sqlite' => 0.95 ),
	'open'           => array( 'sqlite:no-apcu' => 0.6 ),
	'p99 of a set'   => array( 'sqlite:no-apcu' => 1.0 ),
	'store of a page' => array( 'sqlite:no-apcu' => 0.8 ),
	'whole page'     => array( 'sqlite:no-apcu' => 1.03, 'sqlite' => 1.03 ),
);

/** The same of `ours:native`; those of `apcu` are also for each serializer of it. */
const NATIVE_TARGETS = array(
	'get 5 KB'     => array( 'apcu' => 1.0 ),
	'get 1 KB'     => array( 'apcu' => 1.0 ),
	'get again'    => array( 'apcu' => 0.6 ),
	'miss'         => array( 'apcu' => 0.8 ),
	'set 5 KB'     => array( 'sqlite:no-apcu' => 0.5 ),
	'delete'       => array( 'sqlite:no-apcu' => 0.2 ),
	'open'         => array( 'sqlite:no-apcu' => 0.05 ),
	'p99 of a set' => array( 'sqlite:no-apcu' => 0.1 ),
);

function target_of( $own, $operation, $name ) {
	if ( is_native( $own ) ) {
		return NATIVE_TARGETS[ $operation ][ $name ] ?? NATIVE_TARGETS[ $operation ][ preg_replace( '/^apcu:.*/', 'apcu', $name ) ] ?? null;
	}
	return TARGETS[ $operation ][ $name ] ?? null;
}

/** Rows of operation => name => a value for each pair. */
function rows_of( array $drop_ins, array $all, $unit, $where = '' ) {
	$rows = array();
	foreach ( $all as $operation => $names ) {
		foreach ( array( 'ours', 'ours:no-apcu', 'ours:native' ) as $own ) {
			foreach ( array_diff_key( $names, array( $own => 1 ) ) as $name => $theirs ) {
				$is_other = is_native( $own ) ? false : is_native( $name ) || has_apcu( $own ) !== has_apcu( $name );
				if ( ! isset( $names[ $own ] ) || $is_other ) {
					continue;
				}
				$is_twin = $drop_ins[ $name ] === $drop_ins[ $own ] && is_native( $name ) === is_native( $own );
				$rows[]  = array( 'what' => trim( "$operation $where" ) . ( is_native( $own ) ? ', native' : ( has_apcu( $own ) ? '' : ', no APCu' ) ),
					'beside' => $is_twin ? 'itself' : $name )
					+ row_of( $names[ $own ], $theirs, target_of( $own, $operation, $name ) ) + array( 'unit' => $unit );
			}
		}
	}
	return $rows;
}

/** The median ratio, and where the mean of all lies with 95 % of certainty. */
function row_of( array $ours, array $theirs, $target ) {
	$ratios = array_map( function ( $own, $other ) {
		return $other > 0 && $own > 0 ? $own / $other : NAN;
	}, $ours, $theirs );
	$ratios = array_values( array_filter( $ratios, 'is_finite' ) ) ?: array( 1e9 );
	$logs   = array_map( 'log', $ratios );
	$count  = count( $logs );
	$mean   = array_sum( $logs ) / $count;
	$square = array_sum( array_map( function ( $log ) use ( $mean ) {
		return ( $log - $mean ) ** 2;
	}, $logs ) );
	// Student's t for 10, 30 and more pairs.
	$wide  = ( $count <= 10 ? 2.26 : ( $count <= 30 ? 2.05 : 2.0 ) ) * sqrt( $square / max( 1, $count - 1 ) / $count );
	$ratio = median( $ratios );
	return array( 'target' => $target, 'met' => null === $target ? null : $ratio <= $target, 'ratio' => $ratio,
		'interval' => 1 === $count ? null : array( exp( $mean - $wide ), exp( $mean + $wide ) ), 'ratios' => $ratios,
		'ours' => median( $ours ), 'theirs' => median( $theirs ) );
}

/** Lines of Markdown that say how a run ended, and where. */
function lines_of( array $run ) {
	$machine = $run['machine'];
	$lines   = array( '', "## {$run['command']}", '', "PHP {$machine['php']}, APCu {$machine['apcu']} ("
		. "{$machine['serializer']}), SQLite {$machine['sqlite']}; {$machine['processor']}, {$machine['cores']} cores; load "
		. number_format( $machine['load'][0], 1 ) . ' before; stores on ' . ( $machine['files'] ?? 'a disk' ) . '. '
		. implode( ', ', array_map( function ( $name, $version ) {
			return "`$name`: $version";
		}, array_keys( $run['drop_ins'] ), $run['drop_ins'] ) ) . '.', '',
		'| what | beside | ratio | 95 % of the mean | lowest–highest | target | met | ours | theirs | |',
		'|---|---|---:|---|---|---|---|---:|---:|---|' );
	foreach ( $run['rows'] as $row ) {
		$lines[] = sprintf( '| %s | %s | %.2f | %s | %.2f–%.2f | %s | %s | %.2f | %.2f | %s |', $row['what'], $row['beside'],
			$row['ratio'], $row['interval'] ? vsprintf( '%.3f–%.3f', $row['interval'] ) : '', min( $row['ratios'] ),
			max( $row['ratios'] ), null === $row['target'] ? '' : "≤ {$row['target']}",
			null === $row['met'] ? '' : ( $row['met'] ? 'yes' : 'NO' ), $row['ours'], $row['theirs'], $row['unit'] );
	}
	foreach ( $run['notes'] as $note ) {
		array_push( $lines, '', $note );
	}
	return $lines;
}

function machine() {
	preg_match( '/model name\s*:\s*(.+)/', (string) @file_get_contents( '/proc/cpuinfo' ), $processor );
	preg_match_all( '/^processor/m', (string) @file_get_contents( '/proc/cpuinfo' ), $cores );
	return array( 'php' => PHP_VERSION, 'apcu' => phpversion( 'apcu' ) ?: 'not there', 'sqlite' => SQLite3::version()['versionString'],
		'serializer' => ini_get( 'apc.serializer' ) ?: 'none', 'igbinary' => phpversion( 'igbinary' ) ?: 'not there',
		'processor' => $processor[1] ?? 'unknown', 'cores' => count( $cores[0] ), 'load' => sys_getloadavg(),
		'files' => trim( (string) shell_exec( 'stat -f -c %T ' . escapeshellarg( sys_get_temp_dir() ) ) ) );
}

/** The version that the head of a drop-in names, and a digest of the file. */
function version_of( $path ) {
	$text = file_get_contents( $path );
	preg_match( '/Plugin Name:\s*(.+)/', $text, $name );
	preg_match( '/Version:\s*(\S+)/', $text, $version );
	return trim( ( $name[1] ?? basename( $path ) ) . ' ' . ( $version[1] ?? '' ) ) . ', sha256 ' . substr( hash( 'sha256', $text ), 0, 12 );
}

/** Writes the run beside those that are there; nothing without a folder. */
function keep( $out, $command, array $drop_ins, array $machine, array $rows, array $notes = array() ) {
	if ( null === $out ) {
		return;
	}
	$run = array( 'command' => $command, 'date' => gmdate( 'Y-m-d H:i' ), 'machine' => $machine,
		'drop_ins' => array_map( 'version_of', $drop_ins ), 'rows' => $rows, 'notes' => $notes );
	$json = json_encode( $run, JSON_PRETTY_PRINT | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES );
	file_put_contents( "$out/" . strtok( $command, ' .' ) . '.json', $json . "\n" );
	$lines = array( '# The WordPress cache beside other drop-ins' );
	foreach ( array( 'operations', 'site', 'pages', 'writers' ) as $name ) {
		if ( is_file( "$out/$name.json" ) ) {
			$lines = array_merge( $lines, lines_of( json_decode( file_get_contents( "$out/$name.json" ), true ) ) );
		}
	}
	file_put_contents( "$out/SUMMARY.md", implode( "\n", $lines ) . "\n" );
}
