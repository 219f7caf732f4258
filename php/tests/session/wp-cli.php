<?php
/**
 * What WP-CLI does with a command: `php wp-cli.php SITE tidemark status`. WP-CLI itself is in none of
 * the registries that packages come from here, so this follows what its `Runner`, `CommandFactory` and
 * `Subcommand` do. WordPress is loaded within a function: `wp-config.php` without its last line, whose
 * variables become global, then `wp-settings.php`. Each public method that is not static and does not
 * begin with `__` is a subcommand, by its tag `@subcommand` or its name. Words that its comment names
 * under `## OPTIONS` are needed.
 */
define( 'WP_CLI', true );

class WP_CLI {
	public static $commands = array();

	public static function load_wordpress( $site ) {
		global $wpdb;
		$before = array();
		$before = get_defined_vars();
		$lines  = preg_grep( '/^\s*require.+wp-settings\.php/', file( "$site/wp-config.php" ), PREG_GREP_INVERT );
		$code   = str_replace( '__DIR__', var_export( $site, true ), implode( '', $lines ) );
		eval( preg_replace( '/^<\?php\s*/', '', $code ) );
		foreach ( array_diff_key( get_defined_vars(), $before, array( 'lines' => 1, 'code' => 1 ) ) as $name => $value ) {
			global ${$name};
			${$name} = $value;
		}
		require ABSPATH . 'wp-settings.php';
	}

	public static function add_command( $name, $command ) {
		self::$commands[ $name ] = $command;
	}

	/** What runs a subcommand; null where there is none of that name. */
	public static function find( $command, $name ) {
		foreach ( ( new ReflectionClass( $command ) )->getMethods() as $method ) {
			$comment = (string) $method->getDocComment();
			$own     = preg_match( '/@subcommand\s+([a-z-]+)/', $comment, $tag ) ? $tag[1] : $method->name;
			if ( $own === $name && $method->isPublic() && ! $method->isStatic() && 0 !== strpos( $method->name, '__' ) ) {
				return $method;
			}
		}
		return null;
	}

	/** Ends with an error where the words are not those of the comment; without any, all are taken. */
	public static function check_words( $method, array $words ) {
		if ( ! preg_match( '/## OPTIONS(.*?)(?:## |@|\*\/)/s', (string) $method->getDocComment(), $options ) ) {
			return;
		}
		$needed = preg_match_all( '/^\s*\*\s*<([a-z-]+)>/m', $options[1] );
		if ( count( $words ) < $needed ) {
			self::error( 'usage: see the words that are needed' );
		} elseif ( count( $words ) > $needed ) {
			self::error( 'Too many positional arguments: ' . $words[ $needed ] );
		}
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
WP_CLI::load_wordpress( $argv[1] );
$command = WP_CLI::$commands[ $argv[2] ] ?? null;
if ( ! $command ) {
	WP_CLI::error( "'{$argv[2]}' is not a registered wp command." );
}
$method = WP_CLI::find( $command, $argv[3] );
if ( ! $method ) {
	WP_CLI::error( "'{$argv[3]}' is not a registered subcommand of '{$argv[2]}'." );
}
WP_CLI::check_words( $method, array_slice( $argv, 4 ) );
$method->invoke( $command, array_slice( $argv, 4 ), array() );
