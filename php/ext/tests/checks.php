<?php
// What the tests share: code that runs in a process or in a worker with the extension, and the
// count of what held.

class Checks {
	public static $library;
	public static $is_night = false;
	public static $passed = 0;
	public static $failed = 0;
	private static $folders = array();
	private static $servers = array();

	/** A folder for a table of its own. */
	public static function folder() {
		$folder = sys_get_temp_dir() . '/tidemark-ext-' . bin2hex( random_bytes( 6 ) );
		mkdir( $folder, 0700 );
		self::$folders[] = $folder;
		return $folder;
	}

	private static function command( array $settings ) {
		$command = array( PHP_BINARY, '-d', 'extension=' . self::$library );
		foreach ( $settings as $setting ) {
			array_push( $command, '-d', $setting );
		}
		return $command;
	}

	/** The code with `$cache`, a table in the folder, before it. */
	private static function whole( $folder, $code ) {
		return 'require ' . var_export( __DIR__ . '/classes.php', true ) . ';'
			. '$cache = new Tidemark\Cache( $file = ' . var_export( "$folder/table", true ) . ', 16 << 20);' . $code;
	}

	/** Starts code in a process; `finish` gives what it prints. */
	public static function start( $folder, $code, array $settings = array() ) {
		$command = array_merge( self::command( $settings ), array( '-r', self::whole( $folder, $code ) ) );
		$process = proc_open( $command, array( 1 => array( 'pipe', 'w' ), 2 => array( 'redirect', 1 ) ), $pipes );
		return array( $process, $pipes[1] );
	}

	public static function finish( array $started ) {
		$printed = stream_get_contents( $started[1] );
		$status  = proc_close( $started[0] );
		return 0 === $status || 255 === $status ? $printed : "$printed\nended with $status";
	}

	public static function run( $folder, $code, array $settings = array() ) {
		return self::finish( self::start( $folder, $code, $settings ) );
	}

	/** One worker, which runs the code that each request brings; answers its port. */
	public static function server( array $settings = array() ) {
		$listening = stream_socket_server( 'tcp://127.0.0.1:0' );
		$port      = (int) substr( strrchr( stream_socket_get_name( $listening, false ), ':' ), 1 );
		fclose( $listening );
		$command = array_merge( self::command( $settings ), array( '-S', "127.0.0.1:$port", __DIR__ . '/request.php' ) );
		$nothing = array( 'file', '/dev/null', 'a' );

		self::$servers[ $port ] = proc_open( $command, array( $nothing, $nothing, $nothing ), $pipes );
		// Under Valgrind it takes seconds.
		for ( $tries = 0; $tries < 6000; ++$tries ) {
			$socket = @fsockopen( '127.0.0.1', $port );
			if ( $socket ) {
				fclose( $socket );
				return $port;
			}
			usleep( 10000 );
		}
		throw new RuntimeException( 'the server of PHP does not start' );
	}

	/** What the code prints in the worker. */
	public static function ask( $port, $folder, $code ) {
		$socket = fsockopen( '127.0.0.1', $port, $number, $error, 10 );
		stream_set_timeout( $socket, 600 );
		$code = self::whole( $folder, $code );
		fwrite( $socket, "POST / HTTP/1.0\r\nContent-Type: text/plain\r\nContent-Length: " . strlen( $code ) . "\r\n\r\n$code" );
		$answer = (string) stream_get_contents( $socket );
		return substr( $answer, (int) strpos( $answer, "\r\n\r\n" ) + 4 );
	}

	public static function same( $name, $found, $expected ) {
		if ( $found === $expected ) {
			++self::$passed;
			return;
		}
		++self::$failed;
		echo "FAILED $name\n  expected ", var_export( $expected, true ), "\n  found    ", var_export( $found, true ), "\n";
	}

	public static function clean() {
		foreach ( self::$servers as $server ) {
			proc_terminate( $server, 9 );
			proc_close( $server );
		}
		foreach ( self::$folders as $folder ) {
			array_map( 'unlink', glob( "$folder/*" ) );
			rmdir( $folder );
		}
	}
}
