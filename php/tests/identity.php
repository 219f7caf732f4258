<?php
// What names the store of a site: its database, the prefix of its tables, and its random id.

// From the command line root makes nothing.
$host  = array( 'master' => Suite::master( 4 ), 'table' => true );
$write = 'return wp_cache_set( "a", %s );';
$read  = 'return wp_cache_get( "a" );';
$where = 'return basename( Tidemark_Tiers::shared()->place->folder );';

function row( $site ) {
	return "$site/options-tidemark_cache_site";
}

/** Two sites whose stores are made in one folder. */
function neighbours() {
	$base = Suite::bare_site();
	return array( $base, Suite::bare_site(), Suite::bare_site(), array( 'TIDEMARK_CACHE_DIR' => $base ) );
}

list( $base, $left, $right, $constants ) = neighbours();
$shared = $host + array( 'constants' => $constants );
Suite::request( $left, sprintf( $write, 1 ), $shared );
Suite::request( $right, sprintf( $write, 2 ), $shared );
Suite::same( 'sites of equal names in one folder share nothing', array( Suite::request( $left, $read, $shared ),
	Suite::request( $right, $read, $shared ), count( glob( "$base/.ht-tidemark-*/" . Suite::store_file() ) ) ), array( 1, 2, 2 ) );
Suite::same( 'site is found by another path', Suite::request( Suite::bare_site(), $read,
	array( 'table' => $left ) + $shared ), 1 );

$site = Suite::bare_site();
$ran  = array();
for ( $i = 0; $i < 8; ++$i ) {
	$ran[] = Suite::start( $site, $where, $host );
}
$ran = array_unique( array_map( array( 'Suite', 'finish' ), $ran ) );
Suite::same( 'id is made once by many at once', array( count( $ran ), count( glob( "$site/.ht-tidemark-*", GLOB_ONLYDIR ) ) ),
	array( 1, 1 ) );

$site = Suite::bare_site();
$file = Suite::site_file( $site );
Suite::request( $site, sprintf( $write, 1 ), $host );
$id     = file_get_contents( row( $site ) );
$faults = array(
	'is gone'         => function () use ( $file ) {
		unlink( $file );
	},
	'holds garbage'   => function () use ( $file ) {
		file_put_contents( $file, random_bytes( 500 ) );
	},
	'is empty'        => function () use ( $file ) {
		file_put_contents( $file, '' );
	},
	'is a link'       => function () use ( $file, $left ) {
		unlink( $file );
		symlink( Suite::site_file( $left ), $file );
	},
);
foreach ( $faults as $name => $fault ) {
	$fault();
	Suite::same( "site whose file $name reads the table", array( Suite::request( $site, $read, $host ),
		substr( file_get_contents( $file ), 0, 32 ) === $id, is_link( $file ) ), array( 1, true, false ) );
}
Suite::same( 'site whose table cannot be read has its file',
	Suite::request( $site, $read, $host + array( 'broken' => true ) ), 1 );
unlink( $file );
mkdir( $file );
Suite::same( 'site whose file cannot be made reads the table', Suite::request( $site, $read, $host ), 1 );
rmdir( $file );
Suite::same( 'site without file and table has the array of the request', Suite::request( $site,
	'wp_cache_set( "a", 5 ); return array( wp_cache_get( "a" ), Tidemark_Tiers::shared()->place->refusal );',
	$host + array( 'broken' => true ) ), array( 5, 'the options table cannot be read' ) );
Suite::same( 'site without file and table wrote nothing', array( Suite::request( $site, $read, $host ),
	count( glob( "$site/.ht-tidemark-*", GLOB_ONLYDIR ) ) ), array( 1, 1 ) );

/** The minute of the check is moved instead of waited for; it is kept in the shared memory, too. */
function age_check( $site ) {
	if ( Suite::$extension ) {
		return '( function () { tidemark_delete( $this->table, "tidemark", "checked" ); } )->call( Tidemark_Tiers::shared() ); ';
	}
	foreach ( glob( "$site/.ht-tidemark-*/store.sqlite" ) as $store ) {
		$db = new SQLite3( $store );
		$db->exec( 'UPDATE mark SET checked = checked - 61' );
		$db->close();
	}
	return 'apcu_clear_cache(); ';
}

unlink( row( $site ) );
Suite::request( $site, age_check( $site ) . $read, $host );
Suite::same( 'row of the id that is gone is put back', array( file_get_contents( row( $site ) ) === $id,
	Suite::request( $site, sprintf( $write, 3 ), $host ), Suite::request( $site, $read, $host ) ), array( true, true, 3 ) );
file_put_contents( row( $site ), str_repeat( 'ab', 16 ) );
Suite::same( 'site that gets the database of another one leaves its store', array(
	Suite::request( $site, age_check( $site ) . 'return array( wp_cache_get( "a" ), wp_cache_set( "a", 4 ) );', $host ),
	Suite::request( $site, $read, $host ),
	count( glob( "$site/.ht-tidemark-*", GLOB_ONLYDIR ) ),
), array( array( false, true ), false, 2 ) );
file_put_contents( row( $site ), $id );
Suite::request( $site, age_check( $site ) . $read, $host );
Suite::same( 'store that was left is not read as if nothing had been written', Suite::request( $site, $read, $host ), false );

// By one process: what it has found before must not hide that the database is another one's.
$site = Suite::bare_site();
$one  = array( 'master' => Suite::master( 1 ) ) + $host;
mkdir( Suite::site_file( $site ) );
Suite::request( $site, sprintf( $write, 1 ), $one );
Suite::same( 'site without a file is found by the table', Suite::request( $site, $read, $one ), 1 );
file_put_contents( row( $site ), str_repeat( 'cd', 16 ) );
Suite::same( 'site without a file sees another database at once', Suite::request( $site, $read, $one ), false );

// The folder is looked up in the list of mounts once, not by each request.
$site   = Suite::site();
$mounts = 'return array( Tidemark_Tiers::shared()->place->site->is_local( ...( function () {
	return array( $this->boot_id, $this->identity ); } )->call( Tidemark_Tiers::shared()->place ) ),
	Tidemark_Tiers::shared()->place->refusal );';
Suite::request( $site, $read, $host );
Suite::same( 'folder that is local is remembered', Suite::request( $site, $mounts, $host ), array( true, '' ) );
rename( Suite::store_folder( $site ), "$site/away" );
mkdir( Suite::store_folder( $site ), 0770 );
Suite::same( 'folder that another one took the place of is looked up again', array(
	Suite::request( $site, 'wp_cache_set( "a", 1 );' . $mounts, $host ), substr_count( file_get_contents(
	Suite::site_file( $site ) ), (string) fileinode( Suite::store_folder( $site ) ) ) ), array( array( true, '' ), 1 ) );

// Stores of two salts in one database have a token each: none empties the other.
$site   = Suite::bare_site();
// With APCu a read would not open the store, nor look at the token.
$plain  = array( 'master' => Suite::master( 1, array( '-d', 'apc.enabled=0' ) ), 'table' => true );
$salted = function ( $salt ) use ( $plain ) {
	return $plain + array( 'constants' => array( 'WP_CACHE_KEY_SALT' => $salt ) );
};
Suite::request( $site, sprintf( $write, 1 ), $salted( 'one' ) );
Suite::request( $site, sprintf( $write, 2 ), $salted( 'two' ) );
$kept = array();
for ( $i = 0; $i < 4; ++$i ) {
	foreach ( Suite::$extension ? array( 'one', 'two' ) : array() as $salt ) {
		Suite::request( $site, '( function () { tidemark_delete( $this->table, "tidemark", "checked" ); $token = $this->state( "token" );
			$token[2] -= 601; $this->keep( "token", $token ); } )->call( Tidemark_Tiers::shared() );', $salted( $salt ) );
	}
	foreach ( glob( "$site/.ht-tidemark-*/store.sqlite" ) as $store ) {
		$db = new SQLite3( $store );
		$db->exec( 'UPDATE mark SET checked = checked - 61, changed = changed - 601' );
		$db->close();
	}
	$kept[] = Suite::request( $site, $read, $salted( 0 === $i % 2 ? 'one' : 'two' ) );
}
Suite::same( 'salts of one database have a token each', $kept, array( 1, 2, 1, 2 ) );
