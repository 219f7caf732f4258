<?php
/**
 * The drop-in of the site while pages are measured: each request names the one that it has, so that
 * PHP keeps all of them compiled and each keeps its own store. A request may also ask for what the page
 * reads, again, by itself: that prints the CPU in microseconds, and the reads of one key each.
 */
$bench_name = $_SERVER['HTTP_X_DROP_IN'] ?? '';
$bench_file = dirname( WP_CONTENT_DIR, 2 ) . '/drop-ins/' . str_replace( ':', '-', $bench_name ) . '.php';
if ( preg_match( '/^[a-z0-9:-]+$/', $bench_name ) && is_file( $bench_file ) ) {
	define( 'WP_CACHE_KEY_SALT', strtr( $bench_name, ':', '-' ) );
	require $bench_file;
	if ( isset( $_SERVER['HTTP_X_READS'] ) ) {
		bench_reads();
	}
}

function bench_reads() {
	$calls  = unserialize( file_get_contents( WP_CONTENT_DIR . '/calls' ) );
	$before = bench_cpu();
	wp_cache_init();
	wp_cache_add_non_persistent_groups( array( 'counts', 'plugins', 'theme_json' ) );
	foreach ( $calls as list( $keys, $group ) ) {
		is_array( $keys ) ? wp_cache_get_multiple( $keys, $group ) : wp_cache_get( $keys, $group );
	}
	$spent = bench_cpu() - $before;
	echo json_encode( array( $spent, bench_selects() ) );
	exit;
}

function bench_cpu() {
	$used = getrusage();
	return 1e6 * ( $used['ru_utime.tv_sec'] + $used['ru_stime.tv_sec'] )
		+ $used['ru_utime.tv_usec'] + $used['ru_stime.tv_usec'];
}

/** Queries of this request for one key each; null where the drop-in does not count them. */
function bench_selects() {
	global $wp_object_cache;
	if ( method_exists( $wp_object_cache, 'tidemark_tiers' ) ) {
		return ( function () {
			return $this->store ? $this->store->selects : 0;
		} )->call( $wp_object_cache->tidemark_tiers() );
	}
	return isset( $wp_object_cache->select_times ) ? count( $wp_object_cache->select_times ) : null;
}
