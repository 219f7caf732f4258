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
$request  = json_decode( file_get_contents( 'cli' === PHP_SAPI ? 'php://stdin' : 'php://input' ), true );
$settings = $request['settings'];
ini_set( 'error_log', $request['content'] . '/error.log' );
define( 'ABSPATH', __DIR__ );
define( 'WP_CONTENT_DIR', $request['content'] );
define( 'DB_NAME', $settings['database'] ?? 'site' );
foreach ( $settings['constants'] ?? array() as $name => $value ) {
	define( $name, $value );
}
// The file of the native form takes its whole size at once, and a part of the suite has some forty sites.
extension_loaded( 'tidemark' ) && ! defined( 'TIDEMARK_CACHE_MB' ) && define( 'TIDEMARK_CACHE_MB', 16 );
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

$filters = array();

function add_filter( $name, $function ) {
	$GLOBALS['filters'][ $name ] = $function;
}

function _doing_it_wrong( $function, $message, $version ) {
	++$GLOBALS['wrong'];
}

/** Tiers as another process has them; where they are of the extension, with a map and leases of their own. */
function other_tiers( $number = 1 ) {
	$place          = clone Tidemark_Tiers::shared()->place;
	$place->folder .= Tidemark_Native::is_loaded() ? str_repeat( '/.', $number ) : '';
	return Tidemark_Tiers::of( $place );
}

/** The options table, each row a file; it knows the queries of the drop-in only. */
class Table {
	public $base_prefix = 'wp_';
	public $last_error = '';

	public function suppress_errors( $is_silent ) {
		return false;
	}

	public function prepare( $query, ...$values ) {
		return array( $query, $values );
	}

	private function file( $name ) {
		$folder = $GLOBALS['settings']['table'];
		return ( is_string( $folder ) ? $folder : WP_CONTENT_DIR ) . "/options-$name";
	}

	public function get_var( $query ) {
		$this->last_error = empty( $GLOBALS['settings']['broken'] ) ? '' : 'no such table';
		$text             = @file_get_contents( $this->file( $query[1][0] ) );
		return false === $text || '' !== $this->last_error ? null : $text;
	}

	public function query( $query ) {
		list( $text, $values ) = $query;
		if ( 0 === strpos( $text, 'UPDATE' ) ) {
			list( $value, $name, $expected ) = $values;
			$is_met = @file_get_contents( $this->file( $name ) ) === $expected;
			return $is_met && file_put_contents( $this->file( $name ), $value ) ? 1 : 0;
		}
		list( $name, $value ) = $values;
		if ( 0 === strpos( $text, 'INSERT IGNORE' ) ) {
			// Written whole before it has its name, as a row is.
			$whole = $this->file( $name ) . bin2hex( random_bytes( 8 ) );
			file_put_contents( $whole, $value );
			$is_first = @link( $whole, $this->file( $name ) );
			unlink( $whole );
			return $is_first ? 1 : 0;
		}
		return file_put_contents( $this->file( $name ), $value ) ? 1 : 0;
	}
}

if ( ! empty( $settings['table'] ) ) {
	$wpdb = new Table();
}
require $request['drop_in'];
wp_cache_init();
$result = eval( base64_decode( $request['code'] ) );
wp_cache_close();
echo "\nRESULT:", base64_encode( serialize( $result ) );
