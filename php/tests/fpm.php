<?php
/**
 * Masters of PHP-FPM for the tests, each with an APCu of its own, and the least of FastCGI to send
 * them requests without a web server between.
 */
class Fpm {
	const BEGIN  = 1;
	const PARAMS = 4;
	const STDIN  = 5;
	/** Standard output and standard error: both are what a request printed. */
	const PRINTED = array( 6, 7 );

	/** That of the PHP that runs the tests: another one would not load the same extension. */
	public static function program() {
		$folder = dirname( PHP_BINDIR ) . '/sbin';
		foreach ( array( 'php-fpm' . PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION, 'php-fpm' ) as $name ) {
			if ( is_executable( "$folder/$name" ) ) {
				return "$folder/$name";
			}
		}
		return null;
	}

	/** Starts a master with so many workers, in a folder: the process, and the path of its socket. */
	public static function start( $folder, $workers, array $php = array() ) {
		$name = $folder . '/fpm-' . bin2hex( random_bytes( 4 ) );
		$user = posix_getpwuid( posix_geteuid() )['name'];
		$as   = 0 === posix_geteuid() ? "user = $user\ngroup = $user\n" : '';
		file_put_contents( "$name.conf", "[global]\nerror_log = $name.log\ndaemonize = no\n[www]\n$as"
			. "listen = $name.socket\npm = static\npm.max_children = $workers\n"
			. "php_admin_value[apc.enabled] = 1\nphp_admin_value[memory_limit] = -1\n" );
		$command = array_merge( array( self::program(), '-y', "$name.conf" ), $php );
		$command = 0 === posix_geteuid() ? array_merge( $command, array( '-R' ) ) : $command;
		$nothing = array( 'file', '/dev/null', 'a' );
		$process = proc_open( $command, array( $nothing, $nothing, $nothing ), $pipes );
		for ( $tries = 0; $tries < 1000 && ! file_exists( "$name.socket" ); ++$tries ) {
			usleep( 10000 );
			clearstatcache();
		}
		return array( $process, "$name.socket" );
	}

	/** Sends a request; what it answers is read from the socket, see `printed`. */
	public static function send( $path, $script, $body ) {
		$socket = stream_socket_client( "unix://$path", $number, $error, 60 );
		$params = '';
		foreach ( array( 'SCRIPT_FILENAME' => $script, 'REQUEST_METHOD' => 'POST', 'CONTENT_TYPE' => 'application/json',
			'CONTENT_LENGTH' => (string) strlen( $body ) ) as $name => $value ) {
			$params .= pack( 'NN', strlen( $name ) | 1 << 31, strlen( $value ) | 1 << 31 ) . $name . $value;
		}
		stream_set_timeout( $socket, 1200 );
		fwrite( $socket, self::record( self::BEGIN, pack( 'nCx5', 1, 0 ) ) . self::record( self::PARAMS, $params )
			. self::record( self::PARAMS, '' ) );
		foreach ( str_split( $body, 32768 ) as $some ) {
			fwrite( $socket, self::record( self::STDIN, $some ) );
		}
		fwrite( $socket, self::record( self::STDIN, '' ) );
		return $socket;
	}

	private static function record( $kind, $content ) {
		return pack( 'CCnnCx', 1, $kind, 1, strlen( $content ), 0 ) . $content;
	}

	/** What a request printed, with its headers, of all that came from its socket. */
	public static function printed( $records ) {
		$printed = '';
		for ( $at = 0; $at + 8 <= strlen( $records ); $at += 8 + $head['length'] + $head['padding'] ) {
			$head = unpack( 'Cversion/Ckind/nid/nlength/Cpadding', substr( $records, $at, 8 ) );
			if ( in_array( $head['kind'], self::PRINTED, true ) ) {
				$printed .= substr( $records, $at + 8, $head['length'] );
			}
		}
		return $printed;
	}
}
