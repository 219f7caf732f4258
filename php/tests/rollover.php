<?php
// The file `invalidate` is full and a new one takes its name: readers lose what was written, no more.

$host   = array( 'table' => true );
$guest  = array( 'constants' => array( 'TIDEMARK_CACHE_GUEST' => true ), 'table' => true );
$shared = array( 'master' => Suite::master( 1 ), 'table' => true );
$set    = 'foreach ( array( "a", "b", "c" ) as $k ) { wp_cache_set( $k, 1 ); }';
$read   = 'return array( wp_cache_get( "a" ), wp_cache_get( "b" ), wp_cache_get( "c" ) );';
$file   = function ( $site ) {
	return Suite::store_folder( $site ) . '/invalidate';
};

/** A site with three entries, whose readers know a full `invalidate`. */
function site_at_end( $readers ) {
	global $guest, $set, $read;
	$site = Suite::site();
	Suite::request( $site, 'wp_cache_delete( "x" );', $guest );
	Suite::fill_invalidation( $site );
	Suite::request( $site, $set, $readers );
	Suite::request( $site, $read, $readers );
	clearstatcache();
	return $site;
}

/** So that the next one need not wait for the seconds that are between two files. */
function age_full( $site ) {
	touch( Suite::store_folder( $site ) . '/invalidate.1', time() - 60 );
}

foreach ( array( 'store' => $host, 'shared memory' => $shared ) as $name => $readers ) {
	$site   = site_at_end( $readers );
	$before = fileinode( $file( $site ) );
	Suite::request( $site, 'wp_cache_delete( "b" );', $guest );
	clearstatcache();
	Suite::same( "$name that is up to date keeps its entries over a roll-over", array(
		fileinode( $file( $site ) ) !== $before, filesize( $file( $site ) ),
		Suite::request( $site, $read, $readers ) ), array( true, 56, array( 1, false, 1 ) ) );

	$site = site_at_end( $readers );
	$size = filesize( $file( $site ) );
	$cut  = fopen( $file( $site ), 'r+' );
	ftruncate( $cut, $size - 48 );
	fclose( $cut );
	Suite::request( $site, $read, $readers );
	Suite::request( $site, $set, $readers );
	Suite::request( $site, $read, $readers );
	Suite::request( $site, 'foreach ( array( "a", "x", "y", "b" ) as $k ) wp_cache_delete( $k );', $guest );
	clearstatcache();
	Suite::same( "$name that is behind reads the rest of the full file, then the new one", array(
		filesize( $file( $site ) ) < $size, Suite::request( $site, $read, $readers ) ),
		array( true, array( false, false, 1 ) ) );

	$site = site_at_end( $readers );
	for ( $i = 0; $i < 2; ++$i ) {
		Suite::request( $site, 'wp_cache_delete( "x" );', $guest );
		age_full( $site );
		Suite::fill_invalidation( $site );
	}
	Suite::same( "$name that is two files behind is emptied",
		Suite::request( $site, $read, $readers ), array( false, false, false ) );

	$site   = site_at_end( $readers );
	$reused = fopen( $file( $site ), 'r+' );
	fseek( $reused, 16 );
	fwrite( $reused, random_bytes( 16 ) );
	fclose( $reused );
	touch( $file( $site ), time() + 5 );
	Suite::same( "$name is emptied by another file of the same inode and size",
		Suite::request( $site, $read, $readers ), array( false, false, false ) );
}

// What a process leaves that was killed at each step of a roll-over.
foreach ( array(
	'before the new file is whole' => function ( $path ) {
		file_put_contents( "$path.next", 'TDMK' );
	},
	'before the second name'       => function ( $path ) {
		file_put_contents( "$path.next", random_bytes( 32 ) );
		link( $path, "$path.link" );
	},
	'after the second name'        => function ( $path ) {
		file_put_contents( "$path.next", random_bytes( 32 ) );
		link( $path, "$path.1" );
	},
) as $step => $kill ) {
	$site = site_at_end( $host );
	$kill( $file( $site ) );
	Suite::same( "reader after a kill $step keeps its entries",
		Suite::request( $site, $read, $host ), array( 1, 1, 1 ) );
	Suite::request( $site, 'wp_cache_delete( "b" );', $guest );
	clearstatcache();
	Suite::same( "roll-over after a kill $step", array( filesize( $file( $site ) ),
		Suite::request( $site, $read, $host ), array_map( 'basename', glob( $file( $site ) . '*' ) ) ),
		array( 56, array( 1, false, 1 ), array( 'invalidate', 'invalidate.1' ) ) );
}

$site = site_at_end( $host );
Suite::request( $site, 'wp_cache_delete( "x" );', $guest );
is_file( $file( $site ) . '.1' ) && unlink( $file( $site ) . '.1' );
Suite::same( 'reader that finds no full file is emptied', Suite::request( $site, $read, $host ),
	array( false, false, false ) );

$site = site_at_end( $host );
file_put_contents( $file( $site ) . '.new', 'TDMKINV1' . random_bytes( 24 ) );
rename( $file( $site ) . '.new', $file( $site ) );
Suite::same( 'reader is emptied by the roll-over of an earlier version',
	Suite::request( $site, $read, $host ), array( false, false, false ) );

$site = site_at_end( $host );
Suite::request( $site, 'wp_cache_delete( "x" );', $guest );
Suite::fill_invalidation( $site );
$inode = fileinode( $file( $site ) );
touch( $file( $site ) . '.1' );
Suite::request( $site, 'wp_cache_delete( "x" );', $guest );
clearstatcache();
Suite::same( 'two roll-overs are seconds apart', fileinode( $file( $site ) ), $inode );
