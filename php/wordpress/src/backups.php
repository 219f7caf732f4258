<?php
/**
 * Excludes the store from backups that a plugin makes inside PHP. A process that opens and closes a
 * file of a SQLite database drops its own locks on that file.
 */
class Tidemark_Backups {
	/** What the name of each folder and file of the drop-in begins with. */
	const NAME = '.ht-tidemark-';

	public static function register() {
		if ( function_exists( 'add_filter' ) ) {
			add_filter( 'updraftplus_exclude_directory', array( __CLASS__, 'for_updraftplus' ), 10, 2 );
			add_filter( 'ai1wm_exclude_content_from_export', array( __CLASS__, 'for_all_in_one_migration' ) );
			add_filter( 'backwpup_file_exclude', array( __CLASS__, 'for_backwpup' ) );
		}
	}

	/** Called for each folder. */
	public static function for_updraftplus( $is_excluded, $folder ) {
		return $is_excluded || 0 === strpos( basename( (string) $folder ), self::NAME );
	}

	/** A list of exact paths below wp-content. */
	public static function for_all_in_one_migration( $paths ) {
		$paths   = (array) $paths;
		$paths[] = basename( Tidemark_Tiers::shared()->place->folder );
		return $paths;
	}

	/** A list of parts of paths, with commas between. */
	public static function for_backwpup( $parts ) {
		return '' === (string) $parts ? self::NAME : "$parts," . self::NAME;
	}
}

Tidemark_Backups::register();
