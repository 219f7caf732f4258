<?php
/**
 * Two rows in the options table of the main site. One is a token, which the store keeps too: a
 * database that was restored from a backup holds an older one, then what is cached is of another
 * time. The other is the id of the site.
 */
class Tidemark_Site_Row {
	const NAME = 'tidemark_cache_token';
	const SITE = 'tidemark_cache_site';

	/** The row of the token: stores of another salt in one database have one each. */
	private static function token_row() {
		$salt = defined( 'WP_CACHE_KEY_SALT' ) ? (string) WP_CACHE_KEY_SALT : '';
		return self::NAME . ( '' === $salt ? '' : '_' . substr( hash( 'sha256', $salt ), 0, 8 ) );
	}

	/** False where the database cannot be read, null where there is no row. */
	public static function read( $name = null ) {
		$name = $name ?? self::token_row();
		$wpdb = self::database( $name );
		if ( ! $wpdb ) {
			return false;
		}
		$before = $wpdb->suppress_errors( true );
		$found  = $wpdb->get_var( $wpdb->prepare(
			"SELECT option_value FROM {$wpdb->base_prefix}options WHERE option_name = %s",
			$name
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
				self::token_row(),
				$token
			);
		} else {
			$query = $wpdb->prepare(
				"UPDATE $table SET option_value = %s WHERE option_name = %s AND option_value = %s",
				$token,
				self::token_row(),
				$expected
			);
		}
		$changed = $wpdb->query( $query );
		$wpdb->suppress_errors( $before );
		return is_int( $changed ) && $changed > 0;
	}

	/** Adds a row where there is none of that name. */
	public static function add( $name, $value ) {
		$wpdb = self::database( $name );
		if ( ! $wpdb ) {
			return;
		}
		$before = $wpdb->suppress_errors( true );
		$wpdb->query( $wpdb->prepare(
			"INSERT IGNORE INTO {$wpdb->base_prefix}options (option_name, option_value, autoload)
				VALUES (%s, %s, 'no')",
			$name,
			$value
		) );
		$wpdb->suppress_errors( $before );
	}

	public static function has_database() {
		return null !== self::database( self::SITE );
	}

	public static function token() {
		return bin2hex( random_bytes( 16 ) );
	}

	/** While WordPress is installed there is no token yet; the id is needed by an upgrade, too. */
	private static function database( $name = null ) {
		global $wpdb;
		$is_there = is_object( $wpdb ) && method_exists( $wpdb, 'suppress_errors' );
		$is_early = self::SITE !== $name && function_exists( 'wp_installing' ) && wp_installing();
		return $is_there && ! $is_early ? $wpdb : null;
	}
}
