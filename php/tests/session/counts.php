<?php
// Must-use plugin of the test: appends the hits and misses of each request to a file.

// The port of the test is in the address; WordPress would send visitors there again.
add_filter( 'redirect_canonical', '__return_false' );
register_shutdown_function( function () {
	global $wp_object_cache;
	if ( 'cli' === PHP_SAPI || ! is_object( $wp_object_cache ) ) {
		return;
	}
	$line = $wp_object_cache->cache_hits . ' ' . $wp_object_cache->cache_misses . "\n";
	file_put_contents( WP_CONTENT_DIR . '/counts', $line, FILE_APPEND | LOCK_EX );
} );
