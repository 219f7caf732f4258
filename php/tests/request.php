<?php
/**
 * One request: the drop-in on the least of WordPress that it calls, then the code of a test.
 * It comes as JSON: the path of the drop-in, the folder that stands for wp-content, settings
 * and code; on standard input, or as the body of a request to a master (see Suite). What the
 * code returns leaves serialized, after all that was printed. A warning of PHP is printed too,
 * so that no test passes with one.
 */
error_reporting( E_ALL );
ini_set( 'display_errors', '1' );
ini_set( 'log_errors', '1' );
ini_set( 'html_errors', '0' );
$asked    = json_decode( file_get_contents( 'cli' === PHP_SAPI ? 'php://stdin' : 'php://input' ), true );
$settings = $asked['settings'];
ini_set( 'error_log', $asked['content'] . '/error.log' );
define( 'ABSPATH', __DIR__ );
define( 'WP_CONTENT_DIR', $asked['content'] );
define( 'DB_NAME', $settings['database'] ?? 'site' );
foreach ( $settings['constants'] ?? array() as $name => $value ) {
	define( $name, $value );
}
$table_prefix = 'wp_';
$suspended    = false;
$wrong        = 0;

function wp_suspend_cache_addition() {
	return $GLOBALS['suspended'];
}

function is_multisite() {
	return ! empty( $GLOBALS['settings']['multisite'] );
}

function get_current_blog_id() {
	return 1;
}

function __( $text ) {
	return $text;
}

function _doing_it_wrong( $function, $message, $version ) {
	++$GLOBALS['wrong'];
}

/** The options table, as a file; it knows the queries of the drop-in only. */
class Table {
	public $base_prefix = 'wp_';
	public $last_error = '';

	public function suppress_errors( $is_silent ) {
		return false;
	}

	public function prepare( $query, ...$values ) {
		return array( $query, $values );
	}

	public function get_var( $query ) {
		$text = @file_get_contents( WP_CONTENT_DIR . '/options' );
		return false === $text ? null : $text;
	}

	public function query( $query ) {
		list( $text, $values ) = $query;
		if ( 0 === strpos( $text, 'UPDATE' ) && $values[2] !== $this->get_var( null ) ) {
			return 0;
		}
		$value = 0 === strpos( $text, 'UPDATE' ) ? $values[0] : $values[1];
		return file_put_contents( WP_CONTENT_DIR . '/options', $value ) ? 1 : 0;
	}
}

if ( ! empty( $settings['table'] ) ) {
	$wpdb = new Table();
}
require $asked['drop_in'];
wp_cache_init();
$result = eval( base64_decode( $asked['code'] ) );
wp_cache_close();
echo "\nRESULT:", base64_encode( serialize( $result ) );
