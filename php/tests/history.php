<?php
/**
 * Readers, writers, flushes and guests in several processes, each request with tiers of its
 * own: of two masters of PHP-FPM, without APCu, and guests. A file stands for the database; another holds
 * the newest version whose write returned. No request may see an older version than was there
 * when it started. At night 32 processes go on for ten minutes.
 */
const HISTORY = '
	set_time_limit( 0 );
	require_once "' . __DIR__ . '/interleavings.php";
	function version( $name, $change = null ) {
		$file = fopen( WP_CONTENT_DIR . "/$name", "c+" ); flock( $file, LOCK_EX );
		$found = (int) stream_get_contents( $file );
		if ( $change ) { $found = $change( $found ); rewind( $file ); fwrite( $file, $found ); }
		fclose( $file ); return $found; }
	mt_srand( $number ); $stale = array(); $hits = 0; $faults = array();
	for ( $i = 0; $until ? time() < $until : $i < 400; ++$i ) {
		$k = "k" . mt_rand( 0, 2 ); $cache = other_process(); forget_leases( $cache );
		if ( $is_guest ) { $cache->tidemark_tiers()->close(); $leave = function () {
			$this->is_off = true; isset( $this->apcu ) && $this->apcu = null;
			$this->place = clone $this->place; $this->place->refusal = "test"; };
			$leave->call( $cache->tidemark_tiers() ); }
		$kind = mt_rand( 0, 59 );
		if ( 0 === $kind ) { $cache->flush(); }
		elseif ( $kind < 3 ) { $cache->flush_group( "g" ); }
		elseif ( $kind < 12 || $is_guest ) {
			$v = version( "row-$k", function ( $v ) { return $v + 1; } );
			$cache->delete( $k, "g" );
			version( "done-$k", function ( $d ) use ( $v ) { return max( $d, $v ); } );
		} elseif ( $kind < 18 ) {
			// The cache is written while the row is locked.
			$v = version( "row-s$k", function ( $v ) use ( $cache, $k ) {
				$cache->set( "s$k", $v + 1, "g" ); return $v + 1; } );
			version( "done-s$k", function ( $d ) use ( $v ) { return max( $d, $v ); } );
		} else {
			$k = $kind % 2 ? $k : "s$k";
			$d = version( "done-$k" ); $v = $cache->get( $k, "g", false, $found );
			if ( 0 === $kind % 5 ) { $d = version( "done-$k" );
				$v = $cache->get( $k, "g", true, $found ); }
			$hits += $found;
			if ( ! $found ) { $v = version( "row-$k" ); $cache->add( $k, $v, "g" ); }
			if ( $v < $d ) $stale[] = array( $number, $i, $k, $v, $d, $found );
		}
		$cache->close();
		foreach ( $cache->tidemark_tiers()->notices->counts as $fault => $count ) {
			$faults[ $fault ] = ( $faults[ $fault ] ?? 0 ) + $count; }
	}
	return array( array_slice( $stale, 0, 3 ), $is_guest || $hits > 0, $is_guest ? array() : $faults );';
/**
 * A store whose log had its largest size was emptied: each process opens the next one. In the native
 * form a lock whose owner gets no processor for 200 ms is given up by a write, which is then appended to `invalidate`.
 */
define( 'ALLOWED', Suite::$extension ? array( 'locked' => 1 ) : array( 'retried' => 1 ) );

$is_night  = 'night' === getenv( 'TIDEMARK_LANE' );
$processes = $is_night ? 32 : 12;
$masters   = array( Suite::fpm_master( $processes ), Suite::fpm_master( $processes ), 0, 0 );
$until     = $is_night ? time() + 600 : 0;
$site      = Suite::site();
$requests  = array();
// Few writes are left until a new `invalidate` takes the place of this one.
Suite::fill_invalidation( $site, 100 );
$first = fileinode( Suite::store_folder( $site ) . '/invalidate' );
for ( $i = 0; $i < $processes; ++$i ) {
	$is_guest   = 3 === $i % 4 ? 'true' : 'false';
	$requests[] = Suite::start( $site,
		"\$number = $i; \$until = $until; \$is_guest = $is_guest;" . HISTORY,
		array( 'master' => $masters[ $i % 4 ] ) );
}
$ended = array();
$again = 0;
foreach ( array_map( array( 'Suite', 'finish' ), $requests ) as $found ) {
	if ( is_array( $found ) ) {
		$again   += $found[2]['retried'] ?? 0;
		$found[2] = array_diff_key( $found[2], ALLOWED );
	}
	$ended[] = $found;
}
Suite::same( 'request never misses a write that returned before it started', $ended,
	array_fill( 0, $processes, array( array(), true, array() ) ) );
// Ten minutes fill the log a few times at most; by day nothing does.
Suite::same( 'processes open the store again only where it was emptied', $again <= ( $is_night ? 3 * $processes : 0 ), true );
echo $again ? "$processes processes opened the store again $again times\n" : '';
clearstatcache();
Suite::same( 'requests met a roll-over', fileinode( Suite::store_folder( $site ) . '/invalidate' ) !== $first, true );
