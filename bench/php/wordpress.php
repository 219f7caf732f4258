<?php
// The least of WordPress that drop-ins call when they are measured.

define( 'ABSPATH', __DIR__ . '/' );
define( 'WP_CONTENT_DIR', getenv( 'BENCH_CONTENT' ) );
define( 'WPINC', 'wp-includes' );
foreach ( array( 'DB_NAME', 'DB_HOST', 'DB_USER', 'AUTH_KEY', 'AUTH_SALT' ) as $name ) {
	define( $name, 'bench' );
}
define( 'DAY_IN_SECONDS', 86400 );
// What a rival needs to use APCu.
define( 'WP_SQLITE_OBJECT_CACHE_APCU', true );
global $table_prefix, $blog_id;
$table_prefix = 'wp_';
$blog_id      = 1;
$folder       = WP_CONTENT_DIR . '/.ht-tidemark-' . substr( hash( 'sha256',
	serialize( array( 'bench', 'wp_', '' ) ) ), 0, 16 );
is_dir( $folder ) || @mkdir( $folder, 0770 );

function wp_suspend_cache_addition() {
	return false;
}

function is_admin() {
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

function get_option( $name, $default = false ) {
	return array();
}

function esc_html( $text ) {
	return htmlspecialchars( $text );
}

function wp_die( $text ) {
	exit( $text );
}

function wp_is_writable( $path ) {
	return is_writable( $path );
}

function maybe_serialize( $value ) {
	return is_array( $value ) || is_object( $value ) ? serialize( $value ) : $value;
}

function maybe_unserialize( $text ) {
	return is_string( $text ) && preg_match( '/^(?:[aOsE]:\d+:|[bid]:[\d.E+-]+;|N;)/', $text ) ? @unserialize( $text ) : $text;
}

function wp_installing() {
	return false;
}
