<?php
// Each fault ends in a miss or in the array of the request: no fatal, no warning, a served page.

/** One site with an entry, damaged by a function, then two requests. */
function after_fault( $name, $fault, array $expected, array $settings = array() ) {
	$site = Suite::site();
	Suite::request( $site, 'wp_cache_set( "a", "old" ); wp_cache_set( "b", str_repeat( "b", 9000 ) );' );
	$fault( Suite::store( $site ), $site );
	$results = array();
	foreach ( array( 'wp_cache_get( "b" ); $r = array( wp_cache_get( "a" ), wp_cache_set( "a", "new" ) );
		return array_merge( $r, array( wp_cache_get( "a" ) ) );', 'return wp_cache_get( "a" );' ) as $code ) {
		$results[] = Suite::request( $site, $code, $settings );
	}
	Suite::same( $name, $results, $expected );
	return $site;
}

function close_log( $store ) {
	$db = new SQLite3( $store );
	$db->exec( 'PRAGMA wal_checkpoint(TRUNCATE)' );
	$db->close();
}

$emptied = array( array( false, true, 'new' ), 'new' );
$kept    = array( array( 'old', true, 'new' ), 'new' );

after_fault( 'nothing wrong', function () {}, $kept );
after_fault( 'garbage file', function ( $store ) {
	file_put_contents( $store, random_bytes( 50000 ) );
}, $emptied );
after_fault( 'garbage log', function ( $store ) {
	close_log( $store );
	file_put_contents( "$store-wal", random_bytes( 50000 ) );
	file_put_contents( "$store-shm", random_bytes( 32768 ) );
}, $kept );
after_fault( 'zero bytes', function ( $store ) {
	file_put_contents( $store, '' );
}, $emptied );
after_fault( 'file cut in the middle of a page', function ( $store ) {
	close_log( $store );
	$file = fopen( $store, 'r+' );
	ftruncate( $file, 5000 );
}, $emptied );
after_fault( 'all pages of entries are garbage', function ( $store ) {
	close_log( $store );
	$db   = new SQLite3( $store );
	$root = $db->querySingle( "SELECT rootpage FROM sqlite_master WHERE name = 'entry'" );
	$end  = $db->querySingle( "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_entry_1'" );
	$db->close();
	$file = fopen( $store, 'r+' );
	foreach ( array( $root, $end ) as $page ) {
		fseek( $file, 4096 * ( $page - 1 ) );
		fwrite( $file, random_bytes( 4096 ) );
	}
}, $emptied );
after_fault( 'no file', function ( $store ) {
	unlink( $store );
}, $emptied );
after_fault( 'no file, but its log', function ( $store ) {
	$db = new SQLite3( $store );
	$db->exec( 'UPDATE mark SET checked = checked' );
	copy( "$store-wal", "$store-kept" );
	$db->close();
	unlink( $store );
	rename( "$store-kept", "$store-wal" );
}, $emptied );
after_fault( 'another database in its place', function ( $store ) {
	unlink( $store );
	$db = new SQLite3( $store );
	$db->exec( 'CREATE TABLE mark (a); INSERT INTO mark VALUES (1)' );
}, $emptied );
foreach ( array( 'boot' => "'another'", 'inode' => "'1:1'", 'format' => '99' ) as $column => $value ) {
	after_fault( "another $column in the header", function ( $store ) use ( $column, $value ) {
		$db = new SQLite3( $store );
		$db->exec( "UPDATE mark SET $column = $value" );
		$db->close();
	}, $emptied );
}
after_fault( 'copied store', function ( $store ) {
	close_log( $store );
	copy( $store, "$store.copy" );
	rename( "$store.copy", $store );
}, $emptied );
after_fault( 'value with a wrong byte', function ( $store ) {
	$db = new SQLite3( $store );
	$db->exec( 'UPDATE entry SET v = CAST(replace(CAST(v AS TEXT), "old", "bad") AS BLOB)' );
	$db->close();
}, $emptied );
after_fault( 'folder is a file', function ( $store ) {
	array_map( 'unlink', glob( dirname( $store ) . '/*' ) );
	rmdir( dirname( $store ) );
	touch( dirname( $store ) );
}, array( array( false, true, 'new' ), false ) );
after_fault( 'folder writable by everybody', function ( $store ) {
	chmod( dirname( $store ), 0777 );
}, array( array( false, true, 'new' ), false ) );
after_fault( 'store writable by everybody', function ( $store ) {
	chmod( $store, 0666 );
}, $emptied );
after_fault( 'store is a symbolic link', function ( $store ) {
	close_log( $store );
	rename( $store, "$store.away" );
	symlink( "$store.away", $store );
}, $emptied );
after_fault( 'folder is a symbolic link', function ( $store ) {
	rename( dirname( $store ), dirname( $store ) . '.away' );
	symlink( dirname( $store ) . '.away', dirname( $store ) );
}, array( array( false, true, 'new' ), false ) );
after_fault( 'folder that cannot be made', function () {}, array( array( false, true, 'new' ), false ),
	array( 'constants' => array( 'TIDEMARK_CACHE_DIR' => '/proc/none' ) ) );
after_fault( 'boot id out of reach', function () {}, array( array( false, true, 'new' ), false ),
	array( 'php' => array( '-d', 'open_basedir=/tmp:' . dirname( __DIR__, 2 ) . ':' . dirname( Suite::$drop_in ) ) ) );

// A file that cannot grow, as on a full disk: the value before the failed write must not stay.
$limited = function ( $blocks ) {
	return array( 'before' => array( 'sh', '-c', "trap '' XFSZ; ulimit -f $blocks; exec \"\$@\"", 'sh' ) );
};
foreach ( array( 'some' => array( 128, 3000000, array( false, 'other', 1 ) ), 'any' => array( 0, 10, array( false, false, false ) ) )
	as $name => list( $blocks, $bytes, $left ) ) {
	$site = Suite::site();
	Suite::request( $site, 'wp_cache_set( "a", "old" ); wp_cache_set( "b", "other" ); wp_cache_set( "n", 1 );' );
	Suite::same( "write keeps its value in the request where the disk refuses $name bytes", Suite::request( $site,
		'$r = wp_cache_set( "a", str_repeat( "x", ' . $bytes . ' ) ); return array( $r, strlen( wp_cache_get( "a" ) ) );',
		$limited( $blocks ) ), array( true, $bytes ) );
	Suite::same( "write leaves no older value where the disk refuses $name bytes", Suite::request( $site,
		'return array( wp_cache_get( "a" ), wp_cache_get( "b" ), wp_cache_get( "n" ) );' ), $left );
	Suite::same( "store works again after the disk refused $name bytes", array(
		Suite::request( $site, 'return wp_cache_set( "a", "new" );' ), Suite::request( $site, 'return wp_cache_get( "a" );' ),
	), array( true, 'new' ) );
}

// Another program cuts the file while a request has it open; PHP itself would drop SQLite's locks.
$site = Suite::site();
Suite::request( $site, 'wp_cache_set( "a", "old" ); for ( $i = 0; $i < 200; ++$i ) { wp_cache_set( "k$i", str_repeat( "k", 900 ) ); }' );
Suite::same( 'file cut while a request has it open', array(
	Suite::request( $site, '$r = array( wp_cache_get( "a" ) );
		exec( "truncate -s 5000 " . escapeshellarg( Tidemark_Tiers::shared()->place->file( "store.sqlite" ) ) );
		for ( $i = 0; $i < 200; ++$i ) { $k = wp_cache_get( "k$i" ); $r[] = false === $k || 900 === strlen( $k ) ? 1 : $k; }
		wp_cache_set( "a", "new" ); return array_unique( $r );' ),
	in_array( Suite::request( $site, 'return wp_cache_get( "a" );' ), array( 'new', false ), true ),
	Suite::request( $site, 'return wp_cache_set( "a", "newer" );' ),
	Suite::request( $site, 'return wp_cache_get( "a" );' ),
), array( array( 'old', 1 ), true, true, 'newer' ) );

// A lock that is given up is counted by that name; the key is gone for all. The patience is set to none.
$site    = Suite::site();
$drop_in = Suite::$drop_in;
Suite::request( $site, 'wp_cache_set( "a", 1 );' );
Suite::$drop_in = "$site/impatient.php";
file_put_contents( Suite::$drop_in, preg_replace( '/(const WAIT_(SECONDS|LONGEST) *=) \d+;/', '$1 0;', file_get_contents( $drop_in ) ) );
Suite::same( 'lock that is given up is counted', Suite::request( $site, '
	$other = new SQLite3( Tidemark_Tiers::shared()->place->file( "store.sqlite" ) ); $other->exec( "BEGIN IMMEDIATE" );
	$r = wp_cache_set( "a", 2 ); $other->exec( "ROLLBACK" );
	return array( $r, ( Tidemark_Tiers::shared()->notices->counts["locked"] ?? 0 ) > 0 );' ), array( true, true ) );
Suite::$drop_in = $drop_in;
Suite::same( 'lock that is given up leaves no older value', Suite::request( $site, 'return wp_cache_get( "a" );' ), false );

// Hosts switch functions off; nothing that is called may be missing.
$off   = 'link,symlink,readlink,chown,chgrp,chmod,error_log,posix_geteuid,posix_getpwuid';
$guest = array( 'constants' => array( 'TIDEMARK_CACHE_GUEST' => true ) );
foreach ( array( $off, "$off,tmpfile" ) as $functions ) {
	$php  = array( 'php' => array( '-d', "disable_functions=$functions" ) );
	$site = Suite::site();
	$seen = array( Suite::request( $site, 'wp_cache_set( "a", 1 ); wp_cache_set( "b", 1 );
		return wp_cache_get( "a" );', $php ) );
	// A new file takes the place of a full one; without hard links that empties the store.
	Suite::fill_invalidation( $site );
	$seen[] = Suite::request( $site, 'wp_cache_delete( "a" ); return wp_cache_get( "a" );', $php + $guest );
	$seen[] = Suite::request( $site, 'return array( wp_cache_get( "a" ), wp_cache_get( "b" ) );', $php );
	file_put_contents( Suite::store( $site ), 'garbage' );
	$seen[] = Suite::request( $site, 'return wp_cache_set( "b", 2 );', $php );
	// The user of the process is not known where none of the two ways is there.
	$kept   = $functions === $off ? 2 : false;
	$seen[] = Suite::request( $site, 'return wp_cache_get( "b" );', $php ) === $kept;
	Suite::same( 'functions that are switched off are not missed: ' . ( $kept ? 'some' : 'more' ), $seen,
		array( 1, false, array( false, false ), true, true ) );
}

// What PHP may not look at prints no warning, wherever it is.
$tests = __DIR__ . ':' . dirname( Suite::$drop_in );
$away  = Suite::bare_site();
foreach ( array( 'system and the temporary folder' => array( '%s', array() ), 'folder of the store' => array( '%s:/proc',
	array( 'TIDEMARK_CACHE_DIR' => $away ) ) ) as $name => list( $allowed, $constants ) ) {
	$site     = Suite::site();
	$settings = array( 'table' => true, 'constants' => $constants,
		'php' => array( '-d', 'open_basedir=' . sprintf( $allowed, $site ) . ":$tests" ) );
	Suite::same( "$name outside of open_basedir", Suite::request( $site, 'wp_cache_set( "a", 1 ); wp_cache_flush();
		wp_cache_set( "a", 2 ); return array( wp_cache_get( "a" ), wp_cache_incr( "a" ), wp_cache_delete( "a" ),
		substr( Tidemark_Tiers::shared()->status()["tier 2 (SQLite)"], 0, 3 ) );', $settings ),
		array( 2, 3, true, 'off' ) );
}

$site = Suite::site();
$text = str_repeat( 'x', 4000 );
Suite::same( 'full store takes new entries and stays within its size', array(
	Suite::request( $site, 'for ( $i = 0; $i < 5000; ++$i ) wp_cache_set( "k$i", "' . $text . '" . $i );
		$f = 0; for ( $i = 4990; $i < 5000; ++$i ) {
		wp_cache_flush_runtime(); $f += false !== wp_cache_get( "k$i" ); } return $f > 0;',
	array( 'constants' => array( 'TIDEMARK_CACHE_MB' => 8 ) ) ),
	filesize( Suite::store( $site ) ) <= 8 * 1048576,
), array( true, true ) );

$site = Suite::site();
Suite::same( 'full store takes many entries at once', Suite::request( $site, '$many = array();
	for ( $i = 0; $i < 4000; ++$i ) { $many["k$i"] = str_repeat( "x", 4000 ) . $i; }
	$r = wp_cache_set_multiple( $many ); wp_cache_flush_runtime(); $f = 0;
	for ( $i = 3990; $i < 4000; ++$i ) { $f += false !== wp_cache_get( "k$i" ); }
	return array( count( array_filter( $r ) ), $f > 0,
		array_intersect( array( "failed", "emptied" ), array_keys( Tidemark_Tiers::shared()->notices->counts ) ) );',
	array( 'constants' => array( 'TIDEMARK_CACHE_MB' => 8 ) ) ), array( 4000, true, array() ) );

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
	Suite::request( $site, $class . 'apcu_clear_cache(); wp_cache_get( "o" );', $worker );
	Suite::request( $site, $class . 'wp_cache_get_multiple( array( "d", "o" ) );', $worker );
	Suite::same( "worker goes on after a value that did '$how'", Suite::request( $site,
		'$r = array( wp_cache_get( "d" ), wp_cache_set( "d", 2 ), wp_cache_get( "e" ), wp_cache_get( "gone" ) );
		return array_merge( $r, array( Tidemark_Tiers::shared()->notices->counts ) );', $worker ),
		'enter' === $how ? array( 1, true, '1x', false, array() ) : array( 1, true, 1, 1, array() ) );
}

// PHP keeps a database open over the end of a request unless it is closed; with a worker's files end its pages.
$uses = array( 'wp_cache_get( "a" );', 'wp_cache_delete( "a" );', 'wp_cache_get_multiple( array( "a", "b" ) ); wp_cache_set( "a", 1 );',
	'wp_cache_get( "a" ); wp_cache_set( "a", 1 ); wp_cache_delete( "a" ); wp_cache_get( "a" );',
	'register_shutdown_function( function () { wp_cache_get( "late" ); } ); wp_cache_flush_group( "g" );' );
$bare = array( 'master' => Suite::master( 1, array( '-d', 'apc.enabled=0' ) ) );
foreach ( array( 'with APCu' => $worker, 'without APCu' => $bare ) as $name => $settings ) {
	$site = Suite::site();
	for ( $i = 0; $i < 50; ++$i ) {
		Suite::request( $site, $uses[ $i % count( $uses ) ], $settings );
	}
	Suite::same( "worker $name keeps no file of the store", Suite::request( $site, 'return array_values( array_filter( array_map(
		function ( $file ) { return (string) @readlink( $file ); }, glob( "/proc/self/fd/*" ) ),
		function ( $file ) { return false !== strpos( $file, "store.sqlite" ); } ) );', $settings ), array() );
}

// Without SQLite3 there is no store, whether APCu is there or not.
$bare = array( '-n', '-d', 'extension=posix' );
foreach ( array( 'without SQLite3' => array( 'php' => $bare ), 'with APCu, without SQLite3' => array(
	'master' => Suite::master( 1, array_merge( $bare, array( '-d', 'extension=apcu' ) ) ) ) ) as $name => $settings ) {
	$settings['table'] = true;

	$site = Suite::bare_site();
	Suite::same( "request $name has its array", array(
		Suite::request( $site, 'wp_cache_set( "a", 1 ); wp_cache_set_multiple( array( "b" => 2 ) );
			return array( wp_cache_get( "a" ), wp_cache_incr( "b" ), wp_cache_add( "a", 2 ), wp_cache_delete( "a" ) );', $settings ),
		Suite::request( $site, 'return array( wp_cache_get( "a" ), wp_cache_get( "b" ),
			Tidemark_Tiers::shared()->status() );', $settings ),
	), array( array( 1, 3, false, true ), array( false, false, array(
		'tier 0 (request)' => 'on',
		'tier 1 (APCu)'    => 'off, there is no tier 2',
		'tier 2 (SQLite)'  => 'off, PHP has no SQLite3 extension',
		'guest'            => 'yes, the other processes are notified of its writes',
	) ) ) );
	Suite::same( "request $name leaves nothing behind, in no file and no table",
		array( glob( "$site/options*" ), glob( "$site/.ht*" ) ), array( array(), array() ) );
	file_put_contents( "$site/options-tidemark_cache_site", Suite::ID );
	mkdir( Suite::store_folder( $site ), 0770 );
	Suite::request( $site, 'wp_cache_set( "a", 1 );', array( 'table' => true ) );
	Suite::request( $site, 'wp_cache_delete( "a" );', $settings );
	Suite::same( "delete of a request $name is seen by those with it",
		Suite::request( $site, 'return wp_cache_get( "a" );', array( 'table' => true ) ), false );
}

// A list of mounts as the system prints it; the last of one point is on top.
$mounts = "/dev/sda1 / ext4 rw 0 0\nnas:/www /srv/www nfs4 rw,hard 0 0\n/dev/sdb1 /srv/www/local ext4 rw 0 0\n"
	. "//nas/x /srv/with\\040space cifs rw 0 0\n/dev/sdc1 /mnt/a ext4 rw 0 0\nnas:/a /mnt/a nfs rw 0 0\n"
	. "bucket /mnt/s3 fuse.s3fs rw 0 0\nhost /shared virtiofs rw 0 0\nbroken\n";
$kinds  = array( '/var/www' => 'ext4', '/srv/www' => 'nfs4', '/srv/www/site/wp-content' => 'nfs4', '/srv/www2' => 'ext4',
	'/srv/www/local/x' => 'ext4', '/srv/with space/x' => 'cifs', '/mnt/a/x' => 'nfs', '/mnt/s3/x' => 'fuse.s3fs',
	'/shared/x' => 'virtiofs' );
Suite::same( 'folder on NFS, SMB or FUSE is refused by the list of mounts', Suite::request( Suite::site(),
	'$r = array(); foreach ( ' . var_export( array_keys( $kinds ), true ) . ' as $path ) {
	$kind = Tidemark_Place::file_system( $path, ' . var_export( $mounts, true ) . ' );
	$r[ $path ] = array( $kind, Tidemark_Place::is_remote( $kind ) ); } return $r;' ),
	array_map( function ( $kind ) {
		return array( $kind, 'ext4' !== $kind );
	}, $kinds ) );

$site = Suite::site();
rmdir( Suite::store_folder( $site ) );
touch( Suite::store_folder( $site ) );
for ( $i = 0; $i < 3; ++$i ) {
	Suite::request( $site, 'wp_cache_set( "a", 1 );' );
}
Suite::same(
	'fault that the folder cannot remember is not logged for each key',
	substr_count( (string) @file_get_contents( "$site/error.log" ), 'Tidemark' ) <= 3,
	true
);
