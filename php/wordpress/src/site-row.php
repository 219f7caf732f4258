<?php
/**
 * A token in the options table of the main site, which the store keeps too. A database that was
 * restored from a backup holds an older one: then what is cached is of another time.
 */
class Tidemark_Site_Row {
	const NAME = 'tidemark_cache_token';

	/** False where the database cannot be read, null where there is no row. */
	public static function read() {
		$wpdb = self::database();
		if ( ! $wpdb ) {
			return false;
		}
		$before = $wpdb->suppress_errors( true );
		$found  = $wpdb->get_var( $wpdb->prepare(
			"SELECT option_value FROM {$wpdb->base_prefix}options WHERE option_name = %s",
			self::NAME
		) );
		$failed = '' !== (string) $wpdb->last_error;
		$wpdb->suppress_errors( $before );
		return $failed ? false : $found;
	}

	/** True when the row changed; with an expected token only from that one. */
	public static function write( $token, $expected = null ) {
		$wpdb = self::database();
		if ( ! $wpdb ) {
			return false;
		}
		$table  = "{$wpdb->base_prefix}options";
		$before = $wpdb->suppress_errors( true );
		if ( null === $expected ) {
			$query = $wpdb->prepare(
				"INSERT INTO $table (option_name, option_value, autoload) VALUES (%s, %s, 'no')
					ON DUPLICATE KEY UPDATE option_value = VALUES(option_value)",
				self::NAME,
				$token
			);
		} else {
			$query = $wpdb->prepare(
				"UPDATE $table SET option_value = %s WHERE option_name = %s AND option_value = %s",
				$token,
				self::NAME,
				$expected
			);
		}
		$changed = $wpdb->query( $query );
		$wpdb->suppress_errors( $before );
		return is_int( $changed ) && $changed > 0;
	}

	public static function token() {
		return bin2hex( random_bytes( 16 ) );
	}

	private static function database() {
		global $wpdb;
		return is_object( $wpdb ) && method_exists( $wpdb, 'suppress_errors' )
			&& ! ( function_exists( 'wp_installing' ) && wp_installing() ) ? $wpdb : null;
	}
}
