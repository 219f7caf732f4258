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
after_fault( 'no file', function ( $store ) {
	unlink( $store );
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
	array( 'php' => array( '-d', 'open_basedir=/tmp:' . dirname( __DIR__, 2 ) ) ) );

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
