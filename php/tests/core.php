<?php
/**
 * WordPress's own tests of its cache, over the drop-in:
 *
 *     php core.php target/dist/object-cache.php wordpress-develop/tests/phpunit/tests/cache.php [tidemark.so]
 *
 * That file belongs to WordPress and is not here: fetch the repository WordPress/wordpress-develop.
 * Each test is run on a single site and on multisite, with APCu where it is on, or with the extension that is named.
 */
error_reporting( E_ALL );
ini_set( 'display_errors', '1' );
if ( ! isset( $argv[2] ) || ! is_file( $argv[1] ) || ! is_file( $argv[2] ) ) {
	fwrite( STDERR, "usage: php core.php object-cache.php tests/phpunit/tests/cache.php [tidemark.so]\n" );
	exit( 2 );
}
$content = sys_get_temp_dir() . '/tidemark-core-' . bin2hex( random_bytes( 6 ) );
if ( ! isset( $argv[3] ) || is_file( $argv[3] ) ) {
	$failed    = 0;
	$extension = isset( $argv[3] ) ? array( '-d', 'extension=' . realpath( $argv[3] ) ) : array();
	foreach ( array( 'single', 'multisite' ) as $kind ) {
		$command = array_merge( array( PHP_BINARY, '-d', 'apc.enable_cli=1' ), $extension, array( __FILE__, $argv[1], $argv[2], $kind ) );
		passthru( implode( ' ', array_map( 'escapeshellarg', $command ) ), $code );
		$failed += $code;
	}
	exit( $failed ? 1 : 0 );
}
mkdir( $content, 0700 );
// Root would be a guest without a folder.
mkdir( $content . '/.ht-tidemark-' . substr( hash( 'sha256', serialize( array( 'core', 'wp_', '' ) ) ), 0, 16 ), 0770 );
define( 'ABSPATH', __DIR__ );
define( 'WP_CONTENT_DIR', $content );
define( 'DB_NAME', 'core' );
define( 'IS_MULTISITE', 'multisite' === $argv[3] );
$table_prefix = 'wp_';

$_wp_using_ext_object_cache = true;

function is_multisite() {
	return IS_MULTISITE;
}

function get_current_blog_id() {
	return 1;
}

function wp_suspend_cache_addition() {
	return false;
}

function wp_using_ext_object_cache() {
	return true;
}

function __( $text ) {
	return $text;
}

function _doing_it_wrong( $function ) {
	WP_UnitTestCase::$wrong[] = $function;
}

class Skipped extends Exception {}

/** What those tests use of PHPUnit, and of WordPress's class over it. */
abstract class WP_UnitTestCase {
	public static $wrong = array();
	public $expected     = array();

	public function setUp() {}

	public function tearDown() {}

	public function set_up() {}

	public function tear_down() {}

	public static function flush_cache() {
		wp_cache_flush_runtime();
		wp_cache_flush();
	}

	public function setExpectedIncorrectUsage( $function ) {
		$this->expected[] = $function;
	}

	public function markTestSkipped( $text = '' ) {
		throw new Skipped( $text );
	}

	public function assertSame( $expected, $found, $text = '' ) {
		if ( $expected !== $found ) {
			$shown = var_export( $expected, true ) . ' is not ' . var_export( $found, true );
			throw new RuntimeException( "$text $shown" );
		}
	}

	public function __call( $name, $given ) {
		$text  = end( $given );
		$holds = array(
			'assertTrue'        => fn() => true === $given[0],
			'assertFalse'       => fn() => false === $given[0],
			'assertNull'        => fn() => null === $given[0],
			'assertEquals'      => fn() => $given[0] == $given[1],
			'assertSameSets'    => fn() => ! array_diff( $given[0], $given[1] ) && ! array_diff( $given[1], $given[0] ),
			'assertInstanceOf'  => fn() => $given[1] instanceof $given[0],
			'assertArrayHasKey' => fn() => array_key_exists( $given[0], $given[1] ),
		);
		if ( ! isset( $holds[ $name ] ) ) {
			throw new BadMethodCallException( "$name is not known here" );
		}
		if ( ! $holds[ $name ]() ) {
			throw new RuntimeException( "$name fails: " . ( is_string( $text ) ? $text : '' ) );
		}
	}
}

require $argv[1];
wp_cache_init();
require $argv[2];

/** The rows that a test's provider names; one empty row where it names none. */
function rows( WP_UnitTestCase $case, ReflectionMethod $test ) {
	if ( preg_match( '/@dataProvider\s+(\w+)/', (string) $test->getDocComment(), $found ) ) {
		return $case->{$found[1]}();
	}
	return array( array() );
}

// Else the tests would be those of the array of the request.
$tiers = Tidemark_Tiers::shared();
if ( '' !== $tiers->place->refusal ) {
	echo "FAILED {$argv[3]}: there is no store: {$tiers->place->refusal}\n";
	exec( 'rm -rf ' . escapeshellarg( $content ) );
	exit( 1 );
}
$counts = array( 'passed' => 0, 'failed' => 0, 'skipped' => 0 );
foreach ( ( new ReflectionClass( 'Tests_Cache' ) )->getMethods() as $test ) {
	if ( 0 !== strpos( $test->name, 'test' ) ) {
		continue;
	}
	foreach ( rows( new Tests_Cache(), $test ) as $row ) {
		$case  = new Tests_Cache();
		$ended = 'passed';
		try {
			WP_UnitTestCase::$wrong = array();
			$case->setUp();
			$case->set_up();
			$test->invokeArgs( $case, array_values( $row ) );
			$case->assertSame( $case->expected, array_values( array_unique( WP_UnitTestCase::$wrong ) ) );
		} catch ( Skipped $skipped ) {
			$ended = 'skipped';
		} catch ( Throwable $failed ) {
			$ended = 'failed';
			echo "FAILED {$argv[3]}: {$test->name}: ", $failed->getMessage(), "\n";
		}
		$case->tearDown();
		$case->tear_down();
		++$counts[ $ended ];
	}
}
wp_cache_close();
exec( 'rm -rf ' . escapeshellarg( $content ) );
printf( "%s, PHP %s, %s: %d passed, %d failed, %d skipped\n", $argv[3], PHP_VERSION, get_class( $tiers ), ...array_values( $counts ) );
exit( $counts['failed'] ? 1 : 0 );
