<?php
// Many processes of every kind with one native store, and what they meet.

/** Waits until a file is there. */
const WAITS = 'for ( $tries = 0; $tries < 60000 && ! file_exists( WP_CONTENT_DIR . "/go" ); ++$tries ) { usleep( 1000 ); clearstatcache(); }';

/** Until so many files of this pattern are there. */
function wait_for_files( $pattern, $count ) {
	for ( $tries = 0; $tries < 60000 && count( glob( $pattern ) ) < $count; ++$tries ) {
		usleep( 1000 );
	}
}

// A hundred workers at once. A lock may be held for more than 50 ms: then a write is dropped, and says so. A worker that
// does without the store from then on, which it says as well, has the array of its request alone: what it adds is not compared.
$site   = Suite::site();
$master = array( 'master' => Suite::fpm_master( 100 ) );
Suite::request( $site, 'wp_cache_set( "n", 0 );' );
$work = 'touch( WP_CONTENT_DIR . "/runs-$number" ); ' . WAITS . ' $counted = $wrong = 0; $won = array();
	for ( $i = 0; $i < 30; ++$i ) {
		$counted += false !== wp_cache_incr( "n", 1, "" );
		wp_cache_set( "own$number", array( $number, $i ) ); wp_cache_flush_runtime();
		$found  = wp_cache_get( "own$number" );
		$wrong += false !== $found && $found !== array( $number, $i ) && $found !== array( $number, $i - 1 );
		if ( wp_cache_add( "lock$i", $number, "locks" ) ) { $won[] = $i; }
	}
	$tiers = Tidemark_Tiers::shared();
	return array( $counted, $wrong, "" === $tiers->place->refusal ? $won : array(), $tiers->notices->counts["dropped"] ?? 0 );';
$started = array();
for ( $number = 0; $number < 100; ++$number ) {
	$started[] = Suite::start( $site, "\$number = $number; $work", $master );
}
wait_for_files( "$site/runs-*", 100 );
$running = count( glob( "$site/runs-*" ) );
touch( "$site/go" );
$ended = array_map( array( 'Suite', 'finish' ), $started );
$won   = array_merge( ...array_column( $ended, 2 ) );
Suite::same( 'a hundred workers at once see no wrong value', array( $running, array_sum( array_column( $ended, 1 ) ) ),
	Fpm::program() ? array( 100, 0 ) : array( $running, 0 ) );
// A count that is dropped takes the number along: without its own one it would be an older one.
$dropped = array_sum( array_column( $ended, 3 ) );
$sum     = Suite::request( $site, 'return wp_cache_get( "n" );' );
Suite::same( 'a hundred workers at once lose no count that was said to be counted', $sum,
	$dropped && false === $sum ? false : array_sum( array_column( $ended, 0 ) ) );
Suite::same( 'of a hundred workers at once no two add a key', array( count( $won ), count( $won ) > 20 ),
	array( count( array_unique( $won ) ), true ) );

// Owners of locks that have one process number, each in a namespace of its own.
if ( 0 === posix_geteuid() && is_executable( '/usr/bin/unshare' ) ) {
	$site  = Suite::site();
	$alone = array( 'before' => array( 'unshare', '--pid', '--fork', '--kill-child' ) );
	Suite::request( $site, 'wp_cache_set( "n", 0 );' );
	$endless = Suite::start( $site, 'touch( WP_CONTENT_DIR . "/runs-" . getmypid() ); for ( $i = 0;; ++$i ) { wp_cache_set( "x" . $i % 64, str_repeat( "x", 200000 ) ); }', $alone );
	wait_for_files( "$site/runs-1", 1 );
	$counts = Suite::start( $site, 'touch( WP_CONTENT_DIR . "/counts" ); $value = str_repeat( "y", 5000 ); $wrong = 0;
		for ( $i = 0; $i < 3000; ++$i ) { wp_cache_set( "y" . $i % 64, $i . $value ); wp_cache_flush_runtime();
			$wrong += ! in_array( wp_cache_get( "y" . $i % 64 ), array( $i . $value, false ), true ); }
		return array( getmypid(), $wrong, Tidemark_Tiers::shared()->place->refusal );', $alone );
	wait_for_files( "$site/counts", 1 );
	proc_terminate( $endless[0], 9 );
	proc_close( $endless[0] );
	Suite::same( 'a process of the same number in another namespace, which is killed, takes no lock along', array(
		is_file( "$site/runs-1" ), Suite::finish( $counts ) ), array( true, array( 1, 0, '' ) ) );

	// A disk in memory that is full: the file has its room already.
	$disk = function ( $size ) {
		$site = Suite::bare_site();
		exec( 'mount -t tmpfs -o size=' . $size . ' tmpfs ' . escapeshellarg( $site ), $lines, $status );
		file_put_contents( Suite::site_file( $site ), Suite::ID );
		mkdir( Suite::store_folder( $site ), 0770 );
		return array( $site, $status );
	};
	list( $site, $status ) = $disk( '24m' );
	Suite::request( $site, 'wp_cache_set( "first", 1 );' );
	$size = filesize( Suite::store( $site ) );
	@file_put_contents( "$site/rest", str_repeat( 'x', 24 << 20 ) );
	$refused = @file_put_contents( "$site/more", str_repeat( 'x', 65536 ) );
	Suite::same( 'a file on a full disk in memory keeps its values, and takes others', array( $status, $size, 65536 === $refused,
		Suite::request( $site, 'for ( $i = 0; $i < 5000; ++$i ) { wp_cache_set( "k$i", array( $i, str_repeat( "x", 6000 ) ) ); }
			wp_cache_flush_runtime(); $wrong = $found = 0;
			for ( $i = 0; $i < 5000; ++$i ) { $v = wp_cache_get( "k$i" ); $found += false !== $v; $wrong += false !== $v && $i !== $v[0]; }
			return array( $wrong, $found > 1000, wp_cache_delete( "k4999" ), Tidemark_Tiers::shared()->notices->counts );' ) ),
		array( 0, 16 << 20, false, array( 0, true, true, array() ) ) );
	exec( 'umount ' . escapeshellarg( $site ) );
	list( $site, $status ) = $disk( '4m' );
	Suite::same( 'a disk in memory without room for any file leaves the array of the request', array( $status,
		Suite::request( $site, 'wp_cache_set( "a", 1 ); return wp_cache_get( "a" );' ),
		is_file( Suite::store( $site ) ) ), array( 0, 1, false ) );
	exec( 'umount ' . escapeshellarg( $site ) );
}

// A master that preloads may open no file: its children would share the map and the locks.
if ( Fpm::program() ) {
	$site = Suite::site();
	file_put_contents( "$site/preload.php", '<?php try { new Tidemark\Cache( ' . var_export( Suite::store( $site ), true ) . ' ); $said = "opened"; }
		catch ( ValueError $refused ) { $said = "refused"; } file_put_contents( ' . var_export( "$site/preloaded", true ) . ', $said );' );
	$master = array( 'master' => Suite::fpm_master( 2, array( '-d', 'opcache.enable=1', '-d', "opcache.preload=$site/preload.php",
		'-d', 'opcache.preload_user=' . posix_getpwuid( posix_geteuid() )['name'] ) ) );
	Suite::same( 'a master that preloads is refused, and its workers are not', array(
		Suite::request( $site, 'return array( wp_cache_set( "a", 1 ), Tidemark_Tiers::shared()->place->refusal );', $master ),
		Suite::request( $site, 'return wp_cache_get( "a" );' ), @file_get_contents( "$site/preloaded" ) ),
		array( array( true, '' ), 1, 'refused' ) );
}

// What a process read of the state of the file may be void when it stores it, again and again. Between two flushes the lock is
// free for a moment: no one gets one that another takes again at once.
$site  = Suite::site();
$flush = '$table = tidemark_open( Tidemark_Tiers::shared()->place->file( Tidemark_Native::FILE ), 8 << 20 );
	touch( WP_CONTENT_DIR . "/runs" ); while ( ! file_exists( WP_CONTENT_DIR . "/go" ) ) { for ( $i = 0; $i < 1000; ++$i ) { tidemark_flush( $table ); usleep( 1 ); } clearstatcache(); }';
Suite::request( $site, 'wp_cache_set( "a", 1 );' );
$flusher = Suite::start( $site, $flush );
wait_for_files( "$site/runs", 1 );
$begun = Suite::request( $site, 'return ( function () { for ( $i = $begun = 0; $i < 100; ++$i ) { $begun += $this->begin(); } return $begun; } )
	->call( Tidemark_Tiers::shared() );' );
touch( "$site/go" );
Suite::finish( $flusher );
Suite::same( 'a store begins while another process flushes it again and again', $begun, 100 );

// Between a miss of the state and its store another process may begin, and keep its own.
$site   = Suite::site();
$begins = 'return ( function () { return $this->begin(); } )->call( Tidemark_Tiers::shared() );';
Suite::request( $site, $begins );
$keeper = Suite::start( $site, 'return ( function () {
	$missed = $this->state( "position" ) && tidemark_flush( $this->table ) && false === $this->state( "position" );
	touch( WP_CONTENT_DIR . "/missed" );
	while ( ! file_exists( WP_CONTENT_DIR . "/begun" ) ) { usleep( 1000 ); clearstatcache(); }
	return array( $missed, $this->keep( "position", array( "boot", "own", "0" ) ), $this->state( "position" )[1] ?? null );
} )->call( Tidemark_Tiers::shared() );' );
wait_for_files( "$site/missed", 1 );
$begun = Suite::request( $site, $begins );
touch( "$site/begun" );
Suite::same( 'a state is kept over that of a process that began meanwhile', array( $begun, Suite::finish( $keeper ) ),
	array( true, array( true, true, 'own' ) ) );

// As on a slow machine: all at once on one processor, where an owner of a lock may wait for its turn.
$one = is_executable( '/usr/bin/taskset' ) ? array( 'before' => array( 'taskset', '-c', '0' ) ) : array();
for ( $round = 0; $round < ( 'night' === getenv( 'TIDEMARK_LANE' ) ? 50 : 3 ); ++$round ) {
	$site    = Suite::site();
	$started = array();
	for ( $number = 0; $number < 8; ++$number ) {
		$started[] = Suite::start( $site, "\$number = $number;" . WAITS . ' wp_cache_set( "k$number", 1 );
			$tiers = Tidemark_Tiers::shared(); return array( array_diff_key( $tiers->notices->counts, array( "dropped" => 0 ) ), $tiers->place->refusal );', $one );
	}
	touch( "$site/go" );
	Suite::same( 'a store is made by many at once on one processor', array_unique( array_map( array( 'Suite', 'finish' ), $started ), SORT_REGULAR ),
		array( array( array(), '' ) ) );
}
