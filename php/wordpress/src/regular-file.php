<?php
/**
 * Regular files in a folder that another user may own, such as that of a web server when root runs
 * WP-CLI: the owner of the folder can put a link in the place of any file, also during a write.
 */
class Tidemark_Regular_File {
	const TYPE    = 0170000;
	const REGULAR = 0100000;

	/** Opens a regular file, no link; else false. What was opened is what has the name. */
	public static function open( $path ) {
		$file = @fopen( $path, 'r+b' );
		if ( ! $file ) {
			return false;
		}
		clearstatcache( true, $path );
		$named  = @lstat( $path );
		$opened = fstat( $file );
		if ( $named && self::is_regular( $named ) && array( $named['dev'], $named['ino'] )
			=== array( $opened['dev'], $opened['ino'] ) ) {
			return $file;
		}
		fclose( $file );
		return false;
	}

	/**
	 * Makes a file where nothing is, not even a link, and gives it to the owner of the folder: what root
	 * makes must be writable for the others. False also where another process made it meanwhile.
	 */
	public static function make( $path ) {
		if ( PHP_ZTS && ! self::is_free( $path ) ) {
			return false;
		}
		// PHP follows a link itself before it makes a file, so a new one has a random name at first.
		$temporary = $path . '.' . bin2hex( random_bytes( 8 ) );
		$file      = self::make_at( $temporary );
		$is_made   = $file && Tidemark_Place::call( 'link', $temporary, $path );
		clearstatcache( true, $path );
		if ( $file && ! $is_made && ! @lstat( $path ) ) {
			// There are no hard links here.
			$is_made = @rename( $temporary, $path );
		}
		@unlink( $temporary );
		return $is_made ? $file : false;
	}

	/**
	 * Whether nothing is there, in a folder of this user's: a PHP with threads follows a link in `link`, too, so
	 * root makes nothing where another user may put one. Users of the folder's group could; they may write to the
	 * store in any case.
	 */
	private static function is_free( $path ) {
		$folder = @stat( dirname( $path ) );
		clearstatcache( true, $path );
		return $folder && Tidemark_Place::user() === $folder['uid'] && ! @lstat( $path );
	}

	private static function make_at( $path ) {
		$mask = umask( 0117 );
		$file = @fopen( $path, 'x+b' );
		umask( $mask );
		$folder = $file ? @stat( dirname( $path ) ) : false;
		if ( $folder ) {
			Tidemark_Place::call( 'lchown', $path, $folder['uid'] );
			Tidemark_Place::call( 'lchgrp', $path, $folder['gid'] );
		}
		return $file;
	}

	public static function is_regular( array $found ) {
		return self::REGULAR === ( $found['mode'] & self::TYPE );
	}
}
