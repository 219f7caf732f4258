<?php
/**
 * The least of WP-CLI that registers a command and runs it: `php wp-cli.php SITE tidemark status`.
 * WP-CLI itself is in no package registry that Debian, npm or PyPI keep.
 */
define( 'WP_CLI', true );

class WP_CLI {
	public static $commands = array();

	public static function add_command( $name, $command ) {
		self::$commands[ $name ] = $command;
	}

	public static function line( $text ) {
		echo "$text\n";
	}

	public static function success( $text ) {
		echo "Success: $text\n";
	}

	public static function error( $text ) {
		fwrite( STDERR, "Error: $text\n" );
		exit( 1 );
	}

	public static function halt( $code ) {
		exit( $code );
	}
}

$_SERVER['HTTP_HOST'] = '127.0.0.1';
require $argv[1] . '/wp-load.php';
$command = WP_CLI::$commands[ $argv[2] ] ?? null;
if ( ! $command ) {
	WP_CLI::error( "'{$argv[2]}' is not a registered wp command." );
}
$method = str_replace( '-', '_', $argv[3] );
$command->$method( array_slice( $argv, 4 ), array() );
