<?php
// What the tests share: requests, each a process of its own, and the count of what held.

class Suite {
	public static $drop_in;
	public static $passed = 0;
	public static $failed = 0;
	private static $folders = array();

	/** A folder that stands for the wp-content of a new site. */
	public static function site() {
		$folder = sys_get_temp_dir() . '/tidemark-php-' . bin2hex( random_bytes( 6 ) );
		mkdir( $folder, 0700 );
		mkdir( self::store_folder( $folder ), 0770 );
		self::$folders[] = $folder;
		return $folder;
	}

	public static function store_folder( $site, $database = 'site' ) {
		$names = serialize( array( $database, 'wp_', '' ) );
		return $site . '/.ht-tidemark-' . substr( hash( 'sha256', $names ), 0, 16 );
	}

	public static function store( $site ) {
		return self::store_folder( $site ) . '/store.sqlite';
	}

	/** Starts a request; `finish` waits for it. */
	public static function start( $site, $code, array $settings = array() ) {
		$command = array_merge( array( PHP_BINARY ), $settings['php'] ?? array() );
		$command = array_merge( $command, array( __DIR__ . '/request.php', self::$drop_in, $site ) );

		$command[] = json_encode( (object) $settings );
		$process   = proc_open(
			$command,
			array( array( 'pipe', 'r' ), array( 'pipe', 'w' ), array( 'pipe', 'w' ) ),
			$pipes
		);
		fwrite( $pipes[0], $code );
		fclose( $pipes[0] );
		return array( $process, $pipes );
	}

	/** What the code returned; a text with all output where it printed, warned or died. */
	public static function finish( array $request ) {
		list( $process, $pipes ) = $request;

		$out = stream_get_contents( $pipes[1] );
		$out = stream_get_contents( $pipes[2] ) . $out;
		proc_close( $process );
		$parts = explode( "\nRESULT:", $out );
		if ( 2 !== count( $parts ) || '' !== $parts[0] ) {
			return 'PRINTED: ' . $out;
		}
		return unserialize( base64_decode( $parts[1] ) );
	}

	public static function request( $site, $code, array $settings = array() ) {
		return self::finish( self::start( $site, $code, $settings ) );
	}

	/** Each code is a request on one new site; together they must return what is expected. */
	public static function check( $name, array $codes, array $expected, array $settings = array() ) {
		$site    = self::site();
		$results = array();
		foreach ( $codes as $code ) {
			$results[] = self::request( $site, $code, $settings );
		}
		self::same( $name, $results, $expected );
	}

	public static function same( $name, $found, $expected ) {
		if ( serialize( $found ) === serialize( $expected ) ) {
			++self::$passed;
			return;
		}
		++self::$failed;
		echo "FAILED $name\n  expected ", var_export( $expected, true );
		echo "\n  found    ", substr( var_export( $found, true ), 0, 3000 ), "\n";
	}

	public static function clean() {
		foreach ( self::$folders as $folder ) {
			$files = new RecursiveIteratorIterator(
				new RecursiveDirectoryIterator( $folder, FilesystemIterator::SKIP_DOTS ),
				RecursiveIteratorIterator::CHILD_FIRST
			);
			foreach ( $files as $file ) {
				$file->isDir() && ! $file->isLink() ? rmdir( $file ) : unlink( $file );
			}
			rmdir( $folder );
		}
	}
}
