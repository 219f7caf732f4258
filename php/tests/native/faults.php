<?php
// Each fault of the native form ends in a miss or in the array of the request.

/** One site with two entries, damaged by a function, then two requests. */
function after_native_fault( $name, $fault, array $expected, array $settings = array() ) {
	$site = Suite::site();
	Suite::request( $site, 'wp_cache_set( "a", "old" ); wp_cache_set( "b", str_repeat( "b", 9000 ) );' );
	$fault( Suite::store( $site ), $site );
	$results = array();
	foreach ( array( 'wp_cache_get( "b" ); $r = array( wp_cache_get( "a" ), wp_cache_set( "a", "new" ) );
		return array_merge( $r, array( wp_cache_get( "a" ) ) );', 'return wp_cache_get( "a" );' ) as $code ) {
		$results[] = Suite::request( $site, $code, $settings );
	}
	Suite::same( $name, $results, $expected );
}

/** Writes bytes over those of a file. */
function write_over( $path, $at, $bytes ) {
	$file = fopen( $path, 'r+b' );
	fseek( $file, $at );
	fwrite( $file, $bytes );
	fclose( $file );
}

$emptied  = array( array( false, true, 'new' ), 'new' );
$kept     = array( array( 'old', true, 'new' ), 'new' );
$not_used = array( array( false, true, 'new' ), false );

after_native_fault( 'nothing wrong', function () {}, $kept );
after_native_fault( 'garbage file', function ( $store ) {
	file_put_contents( $store, random_bytes( 50000 ) );
}, $emptied );
after_native_fault( 'zero bytes', function ( $store ) {
	file_put_contents( $store, '' );
}, $emptied );
after_native_fault( 'file cut in the middle of a page', function ( $store ) {
	$file = fopen( $store, 'r+' );
	ftruncate( $file, 5000 );
}, $emptied );
after_native_fault( 'file cut behind its index', function ( $store ) {
	$file = fopen( $store, 'r+' );
	ftruncate( $file, filesize( $store ) - 4096 );
}, $emptied );
after_native_fault( 'no file', function ( $store ) {
	unlink( $store );
}, $emptied );
after_native_fault( 'store of the pure form in its place', function ( $store ) {
	unlink( $store );
	$db = new SQLite3( $store );
	$db->exec( 'CREATE TABLE mark (a); INSERT INTO mark VALUES (1)' );
}, $emptied );
after_native_fault( 'copied store', function ( $store ) {
	copy( $store, "$store.copy" );
	rename( "$store.copy", $store );
}, $emptied );
after_native_fault( 'older format', function ( $store ) {
	write_over( $store, 8, pack( 'V', 1 ) );
}, $emptied );
after_native_fault( 'newer format', function ( $store ) {
	write_over( $store, 8, pack( 'V', 99 ) );
}, $not_used );
after_native_fault( 'folder is a file', function ( $store ) {
	Suite::remove( dirname( $store ) );
	touch( dirname( $store ) );
}, $not_used );
after_native_fault( 'folder writable by everybody', function ( $store ) {
	chmod( dirname( $store ), 0777 );
}, $not_used );
after_native_fault( 'folder and store writable by the group', function ( $store ) {
	chmod( dirname( $store ), 0770 );
	chmod( $store, 0660 );
}, $kept );
after_native_fault( 'store writable by everybody', function ( $store ) {
	chmod( $store, 0666 );
}, $not_used );
after_native_fault( 'store is a symbolic link', function ( $store ) {
	rename( $store, "$store.away" );
	symlink( "$store.away", $store );
}, $not_used );
after_native_fault( 'folder is a symbolic link', function ( $store ) {
	rename( dirname( $store ), dirname( $store ) . '.away' );
	symlink( dirname( $store ) . '.away', dirname( $store ) );
}, $not_used );
after_native_fault( 'folder that cannot be made', function () {}, $not_used,
	array( 'constants' => array( 'TIDEMARK_CACHE_DIR' => '/proc/none' ) ) );
after_native_fault( 'boot id out of reach', function () {}, $not_used,
	array( 'php' => array( '-d', 'open_basedir=/tmp:' . dirname( __DIR__, 3 ) . ':' . dirname( Suite::$drop_in ) ) ) );

// Damage at any place of the records is a miss, never another value.
$site = Suite::site();
$fill = 'for ( $i = 0; $i < 200; ++$i ) { wp_cache_set( "k$i", str_repeat( "v$i ", 50 ), "g" ); }';
Suite::request( $site, $fill, array( 'constants' => array( 'TIDEMARK_CACHE_MB' => 8 ) ) );
$bytes = file_get_contents( Suite::store( $site ) );
$file  = fopen( Suite::store( $site ), 'r+b' );
for ( $at = 65536; $at < strlen( $bytes ); $at += 1024 ) {
	if ( "\0" !== $bytes[ $at ] ) {
		fseek( $file, $at );
		fwrite( $file, chr( ord( $bytes[ $at ] ) ^ 0x55 ) );
	}
}
fclose( $file );
Suite::same( 'value with a wrong byte', Suite::request( $site, '$wrong = $found = 0; for ( $i = 0; $i < 200; ++$i ) {
	$v = wp_cache_get( "k$i", "g" ); $found += false !== $v; $wrong += false !== $v && str_repeat( "v$i ", 50 ) !== $v; }
	return array( $wrong, $found < 200 );' ), array( 0, true ) );

// A file that is cut or replaced in the middle of a request.
foreach ( array( 'cut' => 'ftruncate( fopen( $store, "r+" ), 8192 );', 'gone' => 'unlink( $store );',
	'garbage' => 'file_put_contents( $store, random_bytes( 9000 ) );' ) as $name => $act ) {
	$site = Suite::site();
	Suite::same( "file that is $name within a request", array( Suite::request( $site, 'wp_cache_set( "a", 1 ); wp_cache_set( "b", 1 );
		$store = Tidemark_Tiers::shared()->place->file( Tidemark_Native::FILE ); ' . $act . ' wp_cache_flush_runtime();
		$v = wp_cache_get( "a" ); wp_cache_delete( "b" ); wp_cache_set( "c", 1 ); return 1 === $v || false === $v;' ),
		Suite::request( $site, 'return array( wp_cache_get( "b" ), wp_cache_set( "d", 4 ) );' ),
		Suite::request( $site, 'return wp_cache_get( "d" );' ) ), array( true, array( false, true ), 4 ) );
}

// A process without the extension, or with another version of it, is a guest.
$bare = array( 'is_bare' => true );
$site = Suite::site();
Suite::request( $site, 'foreach ( array( "a", "b", "c" ) as $k ) { wp_cache_set( $k, 1 ); }' );
Suite::same( 'process without the extension is a guest beside a native store', Suite::request( $site,
	'wp_cache_delete( "a" ); wp_cache_set( "b", 2 ); return array( wp_cache_get( "b" ), wp_cache_get( "c" ),
	Tidemark_Tiers::shared()->place->is_guest );', $bare ), array( 2, false, true ) );
Suite::same( 'what such a guest wrote is gone from the native store', Suite::request( $site,
	'return array( wp_cache_get( "a" ), wp_cache_get( "b" ), wp_cache_get( "c" ) );' ), array( false, false, 1 ) );
Suite::same( 'a forced read sees what a guest wrote meanwhile', Suite::request( $site, '
	$r = array( wp_cache_get( "c" ) ); wp_cache_flush_runtime();
	$place = Tidemark_Tiers::shared()->place;
	$o = new Tidemark_Invalidation( $place->file( "invalidate" ), new Tidemark_Clean_Mark( $place->file( "clean" ) ) );
	$o->append( "k", ":7:default:c" ); $r[] = wp_cache_get( "c" ); $r[] = wp_cache_get( "c", "", true ); return $r;' ),
	array( 1, 1, false ) );
$drop_in = Suite::$drop_in;
Suite::request( $site, 'wp_cache_set( "a", 1 );' );
Suite::$drop_in = "$site/older.php";
file_put_contents( Suite::$drop_in, preg_replace( '/(const INTERFACE +=) \d+;/', '$1 99;', file_get_contents( $drop_in ) ) );
Suite::same( 'extension and drop-in of different versions: a guest', Suite::request( $site,
	'return array( wp_cache_get( "a" ), Tidemark_Tiers::shared()->place->is_guest );' ), array( false, true ) );
Suite::$drop_in = $drop_in;

// A process of the pure form that runs while the first with the extension comes.
$site = Suite::site();
$pure = Suite::start( $site, 'wp_cache_set( "a", 1 ); touch( WP_CONTENT_DIR . "/runs" );
	for ( $tries = 0; $tries < 60000 && ! file_exists( WP_CONTENT_DIR . "/go" ); ++$tries ) { usleep( 1000 ); clearstatcache(); }
	wp_cache_delete( "b" ); return Tidemark_Tiers::shared()->place->is_guest;', $bare );
for ( $tries = 0; $tries < 60000 && ! file_exists( "$site/runs" ); ++$tries ) {
	usleep( 1000 );
	clearstatcache();
}
$first = Suite::request( $site, 'wp_cache_set( "b", "old" ); return wp_cache_get( "a" );' );
touch( "$site/go" );
Suite::same( 'process of the pure form that runs on becomes a guest', array( $first, Suite::finish( $pure ),
	Suite::request( $site, 'return wp_cache_get( "b" );' ),
	is_file( Suite::store_folder( $site ) . '/store.sqlite' ) ), array( false, true, false, false ) );

// A worker that runs a drop-in of before there was this form knows nothing of it.
$site = Suite::site();
Suite::$drop_in = "$site/older.php";
$older = preg_replace( '/(function (?:has_store|is_loaded)\([^)]*\) \{)/', '$1 return false;', file_get_contents( $drop_in ) );
$older = str_replace( '@rmdir( "$path.lock" )', 'false', $older );
file_put_contents( Suite::$drop_in, $older );
Suite::request( $site, 'wp_cache_set( "a", "before" ); wp_cache_set( "b", "before" );', $bare );
$had = is_file( Suite::store_folder( $site ) . '/store.sqlite' );
Suite::$drop_in = $drop_in;
Suite::request( $site, 'wp_cache_set( "a", "now" ); wp_cache_set( "b", "now" ); wp_cache_set( "c", "now" );' );
Suite::$drop_in = "$site/older.php";
$found = Suite::request( $site, '$r = array( wp_cache_get( "a" ), wp_cache_set( "a", "late" ), wp_cache_get( "a" ) ); wp_cache_delete( "b" ); return $r;', $bare );
Suite::$drop_in = $drop_in;
clearstatcache();
Suite::same( 'a drop-in of before there was a native form makes no second store, and notifies of what it writes', array( $had, $found,
	Suite::request( $site, 'return array( wp_cache_get( "a" ), wp_cache_get( "b" ), wp_cache_get( "c" ) );' ),
	is_file( Suite::store_folder( $site ) . '/store.sqlite' ) ),
	array( true, array( false, true, 'late' ), array( false, false, 'now' ), false ) );
array_map( 'unlink', glob( Suite::store_folder( $site ) . '/values.table*' ) );
Suite::same( 'where the native store is deleted the pure form has a store again', array(
	Suite::request( $site, 'wp_cache_set( "a", 5 ); return Tidemark_Tiers::shared()->place->refusal;', $bare ),
	Suite::request( $site, 'return wp_cache_get( "a" );', $bare ) ), array( '', 5 ) );

// The owner of every lock is stopped: reads go on, what cannot be deleted is deleted by the next request.
$site  = Suite::site();
$owner = Suite::start( $site, 'wp_cache_set( "a", "old" ); wp_cache_set( "b", 1 );
	touch( WP_CONTENT_DIR . "/runs" ); for ( $i = 0;; ++$i ) { wp_cache_set( "x" . $i % 64, str_repeat( "x", 200000 ) ); }' );
for ( $tries = 0; $tries < 60000 && ! file_exists( "$site/runs" ); ++$tries ) {
	usleep( 1000 );
	clearstatcache();
}
// It is stopped again until it is within a write.
$pid = proc_get_status( $owner[0] )['pid'];
$is_locked = false;
for ( $tries = 0; $tries < 500 && ! $is_locked; ++$tries ) {
	posix_kill( $pid, SIGSTOP );
	$is_locked = (bool) preg_match( '/OFDLCK +ADVISORY +WRITE/', file_get_contents( '/proc/locks' ) )
		&& null === Suite::request( $site, 'for ( $i = 0; $i < 64; ++$i ) {
			$r = tidemark_put( tidemark_open( Tidemark_Tiers::shared()->place->file( Tidemark_Native::FILE ), 8 << 20 ), "t", "t$i", 1, 0, 0 );
			if ( Tidemark_Native::BUSY === $r ) { return null; } } return 1;' );
	if ( ! $is_locked ) {
		posix_kill( $pid, SIGCONT );
		usleep( 500 + 37 * $tries % 3000 );
	}
}
$found = Suite::request( $site, '$r = array( wp_cache_get( "a" ) );
	for ( $i = 0; $i < 24; ++$i ) { wp_cache_add( "s$i", 1 ); } $c = Tidemark_Tiers::shared()->notices->counts; $r[] = isset( $c["dropped"] );
	for ( $i = 0; $i < 64; ++$i ) { wp_cache_delete( "d$i" ); }
	wp_cache_delete( "a" );
	$r[] = array_intersect( array( "locked", "failed" ), array_keys( Tidemark_Tiers::shared()->notices->counts ) ); return $r;' );
posix_kill( $pid, SIGKILL );
proc_close( $owner[0] );
Suite::same( 'a stopped owner of a lock holds up no read, no deletion is lost, and what it held up is counted', array( $is_locked, $found,
	Suite::request( $site, 'return wp_cache_get( "a" );' ) ), array( true, array( 'old', true, array( 'locked' ) ), false ) );

// A worker goes on after a request that ended in the middle of a read or of a write.
$worker = array( 'master' => Suite::master( 1 ) );
$class  = 'class Ends { public $how; function __construct( $how ) { $this->how = $how; }
	function __sleep() { "write" === $this->how && exit; return array( "how" ); }
	function __wakeup() { "exit" === $this->how && exit;
	if ( "memory" === $this->how ) { ini_set( "memory_limit", "8M" ); str_repeat( "x", 100000000 ); }
	if ( "enter" === $this->how ) { wp_cache_set( "e", wp_cache_get( "d" ) . "x" ); wp_cache_delete( "gone" ); } } }
	ini_set( "display_errors", "0" ); ';
foreach ( array( 'exit', 'memory', 'enter', 'write' ) as $how ) {
	$site = Suite::site();
	Suite::request( $site, $class . 'wp_cache_set( "d", 1 ); wp_cache_set( "e", 1 ); wp_cache_set( "gone", 1 );
		wp_cache_set( "o", new Ends( "' . $how . '" ) );', $worker );
	Suite::request( $site, $class . 'wp_cache_get( "o" );', $worker );
	Suite::request( $site, $class . 'wp_cache_get_multiple( array( "d", "o" ) );', $worker );
	Suite::same( "worker goes on after a value that did '$how'", Suite::request( $site,
		'$r = array( wp_cache_get( "d" ), wp_cache_set( "d", 2 ), wp_cache_get( "e" ), wp_cache_get( "gone" ) );
		return array_merge( $r, array( Tidemark_Tiers::shared()->notices->counts ) );', $worker ),
		'enter' === $how ? array( 1, true, '1x', false, array() ) : array( 1, true, 1, 1, array() ) );
}

// The command line and the workers share the file, which outlives a restart of them.
$site   = Suite::site();
$master = Suite::fpm_master( 2 );
Suite::request( $site, 'for ( $i = 0; $i < 1000; ++$i ) { wp_cache_set( "k$i", $i ); }', array( 'master' => $master ) );
Suite::end_master( $master );
$master = array( 'master' => Suite::fpm_master( 2 ) );
$count  = '$n = 0; for ( $i = 0; $i < 1000; ++$i ) { $n += $i === wp_cache_get( "k$i" ); } return $n;';
Suite::same( 'every value outlives a restart of PHP-FPM', Suite::request( $site, $count, $master ), 1000 );
Suite::same( 'a flush from the command line is seen by the next request of a worker', array(
	Suite::request( $site, 'return wp_cache_flush();' ), Suite::request( $site, $count, $master ) ), array( true, 0 ) );

$site = Suite::site();
Suite::same( 'full store takes new entries and keeps its size', array(
	Suite::request( $site, 'for ( $i = 0; $i < 5000; ++$i ) wp_cache_set( "k$i", str_repeat( "x", 4000 ) . $i );
		$f = 0; for ( $i = 4990; $i < 5000; ++$i ) { wp_cache_flush_runtime(); $f += false !== wp_cache_get( "k$i" ); } return $f;',
	array( 'constants' => array( 'TIDEMARK_CACHE_MB' => 8 ) ) ),
	filesize( Suite::store( $site ) ),
), array( 10, 8 * 1048576 ) );
$site = Suite::site();
Suite::same( 'ten thousand transients all stay', Suite::request( $site, 'for ( $i = 0; $i < 10000; ++$i ) {
	wp_cache_set( "t$i", str_repeat( "x", $i ), "transient" ); } wp_cache_flush_runtime(); $n = 0;
	for ( $i = 0; $i < 10000; ++$i ) { $n += strlen( (string) wp_cache_get( "t$i", "transient" ) ) === $i; wp_cache_flush_runtime(); }
	return $n;', array( 'php' => array( '-d', 'memory_limit=512M' ), 'constants' => array( 'TIDEMARK_CACHE_MB' => 128 ) ) ), 10000 );
