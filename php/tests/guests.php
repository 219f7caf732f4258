<?php
// Processes that cannot use the store, and a database that was restored.

$guest = array( 'constants' => array( 'TIDEMARK_CACHE_GUEST' => true ), 'table' => true );
$host  = array( 'table' => true );

/** What the others see of four entries after a guest's request. */
function seen_after( $site, $code ) {
	global $guest, $host;
	$set = 'foreach ( array( "a", "b" ) as $k ) { wp_cache_set( $k, 1 ); wp_cache_set( $k, 1, "g" ); }';
	Suite::request( $site, $set, $host );
	$printed = Suite::request( $site, $code, $guest );
	$seen    = Suite::request( $site, 'return array( wp_cache_get( "a" ), wp_cache_get( "b" ),
		wp_cache_get( "a", "g" ), wp_cache_get( "b", "g" ) );', $host );
	return is_string( $printed ) ? $printed : $seen;
}

$writes = array(
	'nothing'      => array( '', array( 1, 1, 1, 1 ) ),
	'set'          => array( 'wp_cache_set( "a", 2 );', array( false, 1, 1, 1 ) ),
	'add'          => array( 'wp_cache_add( "a", 2 );', array( false, 1, 1, 1 ) ),
	'incr'         => array( 'wp_cache_incr( "b" );', array( 1, false, 1, 1 ) ),
	'delete'       => array( 'wp_cache_delete( "b", "g" );', array( 1, 1, 1, false ) ),
	'flush_group'  => array( 'wp_cache_flush_group( "g" );', array( 1, 1, false, false ) ),
	'flush'        => array( 'wp_cache_flush();', array( false, false, false, false ) ),
	'many deletes' => array( 'for ( $i = 0; $i < 900; ++$i ) wp_cache_delete( "x$i" );
		wp_cache_delete( "a" );', array( false, 1, 1, 1 ) ),
);
$site = Suite::site();
foreach ( $writes as $name => list( $code, $expected ) ) {
	Suite::same( "guest's $name is seen by the others", seen_after( $site, $code ), $expected );
}
Suite::same( 'guest reads its own writes', Suite::request( $site,
	'wp_cache_set( "a", 5 ); $r = wp_cache_get( "a" ); wp_cache_delete( "a" );
	return array( $r, wp_cache_get( "a" ) );', $guest ), array( 5, false ) );

$file = Suite::store_folder( $site ) . '/invalidate';
foreach ( array(
	'is cut'            => function () use ( $file ) {
		$handle = fopen( $file, 'r+' );
		ftruncate( $handle, 56 );
	},
	'is replaced'       => function () use ( $file ) {
		copy( $file, "$file.new" );
		rename( "$file.new", $file );
	},
	'holds garbage'     => function () use ( $file ) {
		file_put_contents( $file, random_bytes( 24 ), FILE_APPEND );
	},
	'holds half a record' => function () use ( $file ) {
		file_put_contents( $file, 'k', FILE_APPEND );
	},
	'is gone'           => function () use ( $file ) {
		unlink( $file );
	},
) as $name => $change ) {
	Suite::request( $site, 'wp_cache_set( "a", 1 );', $host );
	Suite::request( $site, 'wp_cache_delete( "x" );', $guest );
	Suite::request( $site, 'wp_cache_set( "a", 1 );', $host );
	$change();
	Suite::same( "invalidate that $name empties the store", Suite::request( $site,
		'return wp_cache_get( "a" );', $host ), false );
}
Suite::request( $site, 'for ( $i = 0; $i < 45000; ++$i ) wp_cache_delete( "x$i" );', $guest );
Suite::same( 'invalidate of 1 MB is replaced by a new one', filesize( $file ) < 1048576, true );

// The minute of the check is moved instead of waited for.
function age_store( $site, $column, $seconds ) {
	if ( Suite::$extension ) {
		$acts = array(
			'checked' => 'tidemark_delete( $this->table, "tidemark", "checked" );',
			'changed' => '$token = $this->state( "token" ); $token[2] -= ' . $seconds . '; $this->keep( "token", $token );',
		);
		Suite::request( $site, '( function () { ' . $acts[ $column ] . ' } )->call( Tidemark_Tiers::shared() );' );
		return;
	}
	$db = new SQLite3( Suite::store( $site ) );
	$db->exec( "UPDATE mark SET $column = $column - $seconds" );
	$db->close();
}

$site = Suite::site();
$read = 'return wp_cache_get( "a" );';
Suite::request( $site, 'wp_cache_set( "a", 1 );', $host );
$first = file_get_contents( "$site/options-tidemark_cache_token" );
age_store( $site, 'checked', 61 );
Suite::same( 'token that is equal keeps the store', Suite::request( $site, $read, $host ), 1 );
age_store( $site, 'checked', 61 );
age_store( $site, 'changed', 601 );
Suite::same( 'token changes and keeps the store', array( Suite::request( $site, $read, $host ),
	file_get_contents( "$site/options-tidemark_cache_token" ) !== $first ), array( 1, true ) );
age_store( $site, 'checked', 61 );
Suite::same( 'token that was changed is known', Suite::request( $site, $read, $host ), 1 );
file_put_contents( "$site/options-tidemark_cache_token", $first );
age_store( $site, 'checked', 61 );
Suite::same( 'restored database empties the store', Suite::request( $site, $read, $host ), false );

Suite::request( $site, 'wp_cache_set( "a", 1 );', $host );
mkdir( Suite::store_folder( $site ) . '/invalidate' );
Suite::request( $site, 'wp_cache_delete( "x" );', $guest );
age_store( $site, 'checked', 61 );
Suite::same( 'guest that cannot append changes the row', Suite::request( $site, $read, $host ), false );

// Who owns the folder may put a link where root, as a guest, writes: nothing is written through one.
foreach ( array( 'invalidate', 'clean', 'invalidate.next', 'invalidate.link' ) as $name ) {
	foreach ( array( 'a file', 'nothing' ) as $target ) {
		$site   = Suite::site();
		$victim = Suite::bare_site() . '/victim';
		'a file' === $target && file_put_contents( $victim, 'kept' );
		Suite::request( $site, 'wp_cache_set( "a", 1 );', $host );
		Suite::fill_invalidation( $site );
		@unlink( Suite::store_folder( $site ) . "/$name" );
		symlink( $victim, Suite::store_folder( $site ) . "/$name" );
		$rights = @stat( $victim )['mode'] ?? null;
		Suite::request( $site, 'wp_cache_delete( "a" );', $guest );
		clearstatcache();
		Suite::same( "guest that meets a link to $target as $name writes nothing there",
			array( @file_get_contents( $victim ), @stat( $victim )['mode'] ?? null ),
			'a file' === $target ? array( 'kept', $rights ) : array( false, null ) );
		age_store( $site, 'checked', 61 );
		Suite::same( "guest that meets a link to $target as $name is noticed",
			Suite::request( $site, $read, $host ), false );
	}
}
$site = Suite::site();
Suite::request( $site, 'wp_cache_delete( "a" );', $guest );
Suite::same( 'invalidate is made for the owner and group alone',
	fileperms( Suite::store_folder( $site ) . '/invalidate' ) & 0777, 0660 );
