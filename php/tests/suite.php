<?php
// What the tests share: requests, each a process of its own, and the count of what held.

require __DIR__ . '/fpm.php';

class Suite {
	public static $drop_in;
	public static $passed = 0;
	public static $failed = 0;
	/** The checks that were made, as keys. */
	public static $names = array();
	/** The library of the extension, where the native form is tested; empty for the pure form. */
	public static $extension = '';
	/** The port of the master that requests go to where their settings name none. */
	public static $master = 0;
	private static $folders = array();
	private static $masters = array();

	/** The id of each site that is made here. */
	const ID = '00112233445566778899aabbccddeeff';

	/** A folder that stands for the wp-content of a new site. */
	public static function site() {
		$folder = self::bare_site();
		file_put_contents( self::site_file( $folder ), self::ID );
		mkdir( self::store_folder( $folder ), 0770 );
		return $folder;
	}

	/** One where nothing of the drop-in is yet; root does not make it from the command line. */
	public static function bare_site() {
		$folder = sys_get_temp_dir() . '/tidemark-php-' . bin2hex( random_bytes( 6 ) );
		mkdir( $folder, 0700 );
		self::$folders[] = $folder;
		return $folder;
	}

	/** Where the requests of a site remember its id. */
	public static function site_file( $site, $base = null ) {
		$names = serialize( array( 'site', 'wp_', '', '', $site ) );
		return ( $base ?? $site ) . '/.ht-tidemark-site-' . substr( hash( 'sha256', $names ), 0, 16 );
	}

	public static function store_folder( $site ) {
		$names = serialize( array( 'site', 'wp_', '', self::ID ) );
		return $site . '/.ht-tidemark-' . substr( hash( 'sha256', $names ), 0, 16 );
	}

	public static function store( $site ) {
		return self::store_folder( $site ) . '/' . self::store_file();
	}

	public static function store_file() {
		return self::$extension ? 'values.table' : 'store.sqlite';
	}

	/** The settings of PHP that load the extension. */
	public static function php() {
		return self::$extension ? array( '-d', 'extension=' . self::$extension ) : array();
	}

	/** Code that gives when an entry of the group `default` expires, as the store has it. */
	public static function expiry( $key ) {
		return self::$extension ? "( function () { return tidemark_get( \$this->table, ':7:default:', '$key' )[1]; } )
			->call( Tidemark_Tiers::shared() )"
			: "( new SQLite3( Tidemark_Tiers::shared()->place->file( 'store.sqlite' ) ) )
			->querySingle( \"SELECT x FROM entry WHERE CAST(k AS TEXT) = ':7:default:$key'\" )";
	}

	/** Appends records of other keys to `invalidate` until there is room for so many more. */
	public static function fill_invalidation( $site, $room = 0 ) {
		$file = self::store_folder( $site ) . '/invalidate';
		if ( ! is_file( $file ) ) {
			file_put_contents( $file, 'TDMKINV1' . str_repeat( "\0", 8 ) . random_bytes( 16 ) );
			chmod( $file, 0660 );
		}
		clearstatcache();
		$body   = 'k' . str_repeat( "\0", 7 ) . random_bytes( 8 );
		$record = $body . hash( 'xxh3', $body, true );
		$count  = (int) ceil( ( 1048576 - filesize( $file ) ) / 24 ) - $room;
		file_put_contents( $file, str_repeat( $record, max( 0, $count ) ), FILE_APPEND );
	}

	/**
	 * Starts a request, `finish` waits for it: a process of its own, or one to the master that
	 * the settings name. Those of one master share APCu; a process of its own has none.
	 */
	public static function start( $site, $code, array $settings = array() ) {
		$request = array( 'drop_in' => self::$drop_in, 'content' => $site,
			'settings' => (object) $settings, 'code' => base64_encode( $code ) );
		$request = json_encode( $request );
		$master  = $settings['master'] ?? self::$master;
		if ( is_string( $master ) ) {
			return array( null, array( 1 => Fpm::send( $master, __DIR__ . '/request.php', $request ) ), true );
		}
		if ( $master ) {
			$socket = fsockopen( '127.0.0.1', $master, $number, $error, 10 );
			stream_set_timeout( $socket, 600 );
			fwrite( $socket, "POST / HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: "
				. strlen( $request ) . "\r\n\r\n" . $request );
			return array( null, array( 1 => $socket ) );
		}
		$command = array_merge( $settings['before'] ?? array(), array( PHP_BINARY, '-d', 'apc.enable_cli=0' ),
			empty( $settings['is_bare'] ) ? self::php() : array() );
		$command = array_merge( $command, $settings['php'] ?? array() );
		$process = proc_open(
			array_merge( $command, array( __DIR__ . '/request.php' ) ),
			array( array( 'pipe', 'r' ), array( 'pipe', 'w' ), array( 'pipe', 'w' ) ),
			$pipes
		);
		fwrite( $pipes[0], $request );
		fclose( $pipes[0] );
		return array( $process, $pipes );
	}

	/** What the code returned; a text with all output where it printed, warned or died. */
	public static function finish( array $request ) {
		list( $process, $pipes ) = $request;

		$out = stream_get_contents( $pipes[1] );
		$out = isset( $request[2] ) ? Fpm::printed( $out ) : $out;
		if ( $process ) {
			$out = stream_get_contents( $pipes[2] ) . $out;
			proc_close( $process );
		} else {
			$out = substr( $out, (int) strpos( $out, "\r\n\r\n" ) + 4 );
		}
		$parts = explode( "\nRESULT:", $out );
		if ( 2 !== count( $parts ) || '' !== $parts[0] ) {
			return 'PRINTED: ' . $out;
		}
		return unserialize( base64_decode( $parts[1] ) );
	}

	/** Starts PHP's own web server with so many workers, which share APCu; answers its port. */
	public static function master( $workers, array $php = array() ) {
		$listening = stream_socket_server( 'tcp://127.0.0.1:0' );
		$port      = (int) substr( strrchr( stream_socket_get_name( $listening, false ), ':' ), 1 );
		fclose( $listening );
		$command = array_merge( array( PHP_BINARY, '-d', 'apc.enabled=1' ), self::php(), $php );
		$command = array_merge( $command, array( '-S', "127.0.0.1:$port", __DIR__ . '/request.php' ) );
		$nothing = array( 'file', '/dev/null', 'a' );

		self::$masters[ $port ] = proc_open(
			$command,
			array( $nothing, $nothing, $nothing ),
			$pipes,
			null,
			array( 'PHP_CLI_SERVER_WORKERS' => (string) $workers ) + getenv()
		);
		for ( $tries = 0; $tries < 1000; ++$tries ) {
			$socket = @fsockopen( '127.0.0.1', $port );
			if ( $socket ) {
				fclose( $socket );
				return $port;
			}
			usleep( 10000 );
		}
		throw new RuntimeException( 'the server of PHP does not start' );
	}

	/** A master of PHP-FPM where there is one, named by its socket; else as `master`. */
	public static function fpm_master( $workers, array $php = array() ) {
		if ( ! Fpm::program() ) {
			return self::master( $workers, $php );
		}
		list( $process, $socket ) = Fpm::start( self::bare_site(), $workers, array_merge( self::php(), $php ) );

		self::$masters[ $socket ] = $process;
		return $socket;
	}

	/** As a restart does: all its workers end, and what they shared. */
	public static function end_master( $port ) {
		$children = @file_get_contents( '/proc/' . proc_get_status( self::$masters[ $port ] )['pid']
			. '/task/' . proc_get_status( self::$masters[ $port ] )['pid'] . '/children' );
		proc_terminate( self::$masters[ $port ], 9 );
		foreach ( array_filter( explode( ' ', (string) $children ) ) as $child ) {
			posix_kill( (int) $child, 9 );
		}
		proc_close( self::$masters[ $port ] );
		unset( self::$masters[ $port ] );
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
		self::$names[ $name ] = true;
		if ( serialize( $found ) === serialize( $expected ) ) {
			++self::$passed;
			return;
		}
		++self::$failed;
		echo 'FAILED ', self::$master ? "with APCu: $name\n" : "$name\n";
		$texts = array( var_export( $expected, true ), var_export( $found, true ) );
		// Of a long text, such as a page, what is around the first byte that differs.
		$from = max( 0, strspn( $texts[0] ^ $texts[1], "\0" ) - 1000 );
		echo '  expected ', substr( $texts[0], $from, 3000 );
		echo "\n  found    ", substr( $texts[1], $from, 3000 ), "\n";
	}

	/**
	 * Names that the page of the checks gives for these parts, and that no check here had. In the native form those of the
	 * 41 checks, but for the ones that need APCu.
	 */
	public static function not_made( array $parts ) {
		$page = file_get_contents( dirname( __DIR__, 2 ) . '/docs/reference/wordpress-checks.md' );
		$of   = self::$extension ? '\d+ ' : '[^|]+';
		preg_match_all( "/^\\| *{$of}\\|[^|]+\\| `(\\w+)` \\| (.+) \\|\$/m", $page, $rows, PREG_SET_ORDER );
		$absent = array();
		foreach ( $rows as list( , $part, $names ) ) {
			preg_match_all( '/`([^`]+)`/', $names, $found );
			if ( in_array( $part, $parts, true ) ) {
				$absent = array_merge( $absent, array_diff( $found[1], array_keys( self::$names ) ) );
			}
		}
		$absent = self::$extension ? preg_grep( '/an APCu each$/', $absent, PREG_GREP_INVERT ) : $absent;
		return $rows ? array_values( $absent ) : array( 'no row of the page is understood' );
	}

	public static function clean() {
		array_map( array( 'Suite', 'end_master' ), array_keys( self::$masters ) );
		array_map( array( 'Suite', 'remove' ), self::$folders );
		self::$folders = array();
	}

	public static function remove( $folder ) {
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
