<?php
// One of several workers that do the same at once: waits until all are there, and prints as `--measure` does.

require __DIR__ . '/measure.php';
require __DIR__ . '/wordpress.php';
require getenv( 'BENCH_DROP_IN' );
set_time_limit( 0 );
ini_set( 'memory_limit', '-1' );
wp_cache_init();
touch( WP_CONTENT_DIR . '/runs-' . (int) $_GET['worker'] );
for ( $tries = 0; $tries < 60000 && ! file_exists( WP_CONTENT_DIR . '/go' ); ++$tries ) {
	usleep( 1000 );
	clearstatcache();
}
echo json_encode( measure( (int) $_GET['count'], (int) $_GET['worker'] . '-' ) );
