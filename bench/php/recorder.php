<?php
/**
 * Must-use plugin of the measured site: writes down what a page asks the cache for and is not yet in the
 * request's own array, each key once. What WordPress asks before it loads such plugins (the options) is
 * not in it.
 */
if ( isset( $_SERVER['HTTP_X_RECORD'] ) ) {
	$GLOBALS['wp_object_cache'] = new Bench_Recorder( $GLOBALS['wp_object_cache'] );
	register_shutdown_function( function () {
		file_put_contents( WP_CONTENT_DIR . '/calls', serialize( Bench_Recorder::$calls ) );
	} );
}

class Bench_Recorder {
	public static $calls = array();
	private $cache;
	private $seen = array();

	public function __construct( $cache ) {
		$this->cache = $cache;
	}

	public function get( $key, $group = 'default', $force = false, &$found = null ) {
		if ( $this->is_new( $key, $group ) ) {
			self::$calls[] = array( $key, $group );
		}
		return $this->cache->get( $key, $group, $force, $found );
	}

	public function get_multiple( $keys, $group = 'default', $force = false ) {
		$new = array_values( array_filter( $keys, function ( $key ) use ( $group ) {
			return $this->is_new( $key, $group );
		} ) );
		if ( $new ) {
			self::$calls[] = array( $new, $group );
		}
		return $this->cache->get_multiple( $keys, $group, $force );
	}

	private function is_new( $key, $group ) {
		$is_new = ! isset( $this->seen[ $group ][ $key ] );

		$this->seen[ $group ][ $key ] = true;
		return $is_new;
	}

	public function __call( $name, $arguments ) {
		return $this->cache->$name( ...$arguments );
	}

	public function __get( $name ) {
		return $this->cache->$name;
	}

	public function __set( $name, $value ) {
		$this->cache->$name = $value;
	}

	public function __isset( $name ) {
		return isset( $this->cache->$name );
	}
}
