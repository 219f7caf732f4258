<?php
/**
 * CPU of a whole page (PHP-FPM and MariaDB), and of what it reads from the cache, by object-cache drop-ins:
 * the tenth page of a list of 400 posts with fields and tags, 18 on each, all of it in the cache.
 *
 *     php pages.php [--pairs=60] [--out=FOLDER] NAME=object-cache.php [NAME:no-apcu=object-cache.php …]
 *
 * As `operations.php`. In each pair each drop-in serves five pages, and makes the reads of that page by
 * themselves three times, with the opening of its store, before a page is built: the row `store of a page`.
 * The name `none` is taken: it is WordPress without a drop-in.
 *
 * Drop-ins of others are fetched by the person who runs this.
 */
require __DIR__ . '/comparison.php';
require __DIR__ . '/kept.php';
require dirname( __DIR__, 2 ) . '/php/tests/session/host.php';
const PAGE  = '/page/10/';
const PAGES = 5;
const READS = 3;

/** The clock of the CPU of a process with all its threads, those that ended as well. */
class Cpu {
	private $libc;

	public function __construct() {
		$this->libc = FFI::cdef( 'struct timespec { long s; long ns; };
			int clock_gettime(int clock, struct timespec *time);', 'libc.so.6' );
	}

	/** Milliseconds of all of them. */
	public function of( array $processes ) {
		$sum  = 0;
		$time = $this->libc->new( 'struct timespec' );
		foreach ( $processes as $process ) {
			if ( 0 === $this->libc->clock_gettime( ( ~$process << 3 ) | 2, FFI::addr( $time ) ) ) {
				$sum += 1e3 * $time->s + $time->ns / 1e6;
			}
		}
		return $sum;
	}
}

/** A page, or the reads of it, with that drop-in. */
function served( Host $host, $name, array $headers = array() ) {
	$headers[] = "X-Drop-In: $name";
	list( $status, $body ) = $host->page( PAGE, has_apcu( $name ) ? 'one' : 'two', $headers );
	if ( '200' !== $status || ! $body ) {
		fwrite( STDERR, "$name failed with status $status: " . substr( $body, 0, 1000 ) . "\n" );
		exit( 1 );
	}
	return $body;
}

/** A host with a catalogue, and with APCu in the first of its masters only. */
function host_with( array $drop_ins ) {
	$host    = new Host();
	$content = $host->site . '/wp-content';
	$host->configure( array( 'WP_SQLITE_OBJECT_CACHE_APCU' => true, 'AUTH_SALT' => 'c', 'WP_DEBUG' => false ) );
	$host->run( __DIR__ . '/catalog.php', array( $host->site ) );
	mkdir( "{$host->folder}/drop-ins" );
	foreach ( $drop_ins as $name => $path ) {
		copy( $path, "{$host->folder}/drop-ins/" . str_replace( ':', '-', $name ) . '.php' );
	}
	copy( __DIR__ . '/chosen.php', "$content/object-cache.php" );
	copy( __DIR__ . '/recorder.php', "$content/mu-plugins/recorder.php" );
	$host->restart_fpm( 'one', array(), array( '-d', 'apc.enabled=1', '-d', 'apc.shm_size=256M' ) );
	$host->start_fpm( 'two', array(), array( '-d', 'apc.enabled=0' ) );
	return $host;
}

list( $drop_ins, $pairs, $out ) = drop_ins_of( array_slice( $argv, 1 ), 'php pages.php [--pairs=60] NAME=object-cache.php …',
	'pairs', 60 );
if ( $missing = Host::missing() ) {
	fwrite( STDERR, 'needed: apt-get install -y ' . implode( ' ', $missing ) . "\n" );
	exit( 2 );
}
$machine = machine();
$cpu     = new Cpu();
$host    = host_with( $drop_ins );
$names   = $drop_ins + array( 'none' => null );
// Each worker of each master has compiled all, and each store holds what the page needs.
foreach ( array_keys( $names ) as $name ) {
	for ( $i = 0; $i < 16; ++$i ) {
		served( $host, $name );
	}
}
served( $host, array_key_first( $drop_ins ), array( 'X-Record: 1' ) );
$all     = array();
$selects = array();
for ( $pair = 0; $pair < $pairs; ++$pair ) {
	foreach ( array_keys( turns_of( $names, $pair ) ) as $name ) {
		$php    = $host->processes( has_apcu( $name ) ? 'one' : 'two' );
		$before = array( $cpu->of( $php ), $cpu->of( $host->processes( 'database' ) ) );
		for ( $i = 0; $i < PAGES; ++$i ) {
			served( $host, $name );
		}
		$of_php      = ( $cpu->of( $php ) - $before[0] ) / PAGES;
		$of_database = ( $cpu->of( $host->processes( 'database' ) ) - $before[1] ) / PAGES;

		$all['whole page'][ $name ][]   = $of_php + $of_database;
		$all['database share'][ $name ][] = $of_database;
		$reads = array();
		for ( $i = 0; $i < READS && 'none' !== $name; ++$i ) {
			list( $reads[], $selects[ $name ][] ) = times_of( $name, served( $host, $name, array( 'X-Reads: 1' ) ) );
		}
		$reads && $all['store of a page'][ $name ][] = median( $reads );
	}
}
$store = array( 'store of a page' => $all['store of a page'] );
unset( $all['store of a page'] );
print_table( 'ms', $all );
print_table( 'us', $store );
$notes = array( 'Queries for one key each, of a page: ' . implode( ', ', array_map( function ( $name, $counts ) {
	return "`$name` " . ( null === $counts[0] ? 'not counted' : median( $counts ) );
}, array_keys( $selects ), $selects ) ) . '.', 'Without a drop-in: a page of ' . sprintf( '%.1f ms, %.1f of them the database.',
	median( $all['whole page']['none'] ), median( $all['database share']['none'] ) ) );
echo implode( "\n", $notes ), "\n";
keep( $out, "pages.php --pairs=$pairs", $drop_ins, $machine, array_merge( rows_of( $names, $all, 'ms' ),
	rows_of( $names, $store, 'us' ) ), $notes );
