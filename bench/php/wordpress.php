<?php
// The least of WordPress that drop-ins call when they are measured.

define( 'ABSPATH', __DIR__ . '/' );
define( 'WP_CONTENT_DIR', getenv( 'BENCH_CONTENT' ) );
define( 'WPINC', 'wp-includes' );
define( 'DB_NAME', 'bench' );
global $table_prefix, $blog_id;
$table_prefix = 'wp_';
$blog_id      = 1;
$folder       = WP_CONTENT_DIR . '/.ht-tidemark-' . substr( hash( 'sha256',
	serialize( array( 'bench', 'wp_', '' ) ) ), 0, 16 );
is_dir( $folder ) || @mkdir( $folder, 0770 );

function wp_suspend_cache_addition() {
	return false;
}

function is_multisite() {
	return false;
}

function get_current_blog_id() {
	return 1;
}

function add_action() {
	return true;
}

function apply_filters( $name, $value ) {
	return $value;
}

function wp_installing() {
	return false;
}
