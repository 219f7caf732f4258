<?php
// The store's file is replaced by a process that is killed, before each name that it changes.

$library = sys_get_temp_dir() . '/tidemark-kill-at-' . bin2hex( random_bytes( 6 ) ) . '.so';
exec( 'cc -shared -fPIC -o ' . escapeshellarg( $library ) . ' ' . escapeshellarg( __DIR__ . '/kill_at.c' )
	. ' -ldl 2>&1', $said, $status );
Suite::same( 'library that kills is built', array( $said, $status ), array( array(), 0 ) );

/**
 * A site whose file holds an older value than its log, and a connection that keeps the log. The
 * file is of another format, so the process that opens it next replaces it.
 */
function older_file( &$site ) {
	$site = Suite::site();
	$db   = null;
	Suite::request( $site, 'wp_cache_set( "a", "older" );' );
	$db = new SQLite3( Suite::store( $site ) );
	$db->exec( 'PRAGMA wal_checkpoint(TRUNCATE)' );
	$db->querySingle( 'SELECT count(*) FROM mark' );
	Suite::request( $site, 'wp_cache_set( "a", "newest" );' );
	$db->exec( 'UPDATE mark SET format = 99' );
	return $db;
}

$found = array();
for ( $at = 1; $at < 30; ++$at ) {
	$kept    = older_file( $site );
	$request = Suite::start( $site, 'wp_cache_get( "a" ); return "whole";',
		array( 'before' => array( 'env', "LD_PRELOAD=$library", "KILL_AT=$at" ) ) );
	$is_whole = 'whole' === Suite::finish( $request );
	$read     = Suite::request( $site, 'return array( wp_cache_get( "a" ), wp_cache_set( "a", "next" ) );' );
	$found[]  = array( $read, Suite::request( $site, 'return wp_cache_get( "a" );' ) );
	$kept->close();
	$found[] = Suite::request( $site, 'return wp_cache_get( "a" );' );
	if ( $is_whole ) {
		break;
	}
}
unlink( $library );
Suite::same( 'replacement is killed before each name that it changes', $at > 4 && $at < 30, true );
Suite::same(
	'replacement that is killed shows no older value, and loses nothing later',
	array_values( array_unique( $found, SORT_REGULAR ) ),
	array( array( array( false, true ), 'next' ), 'next' )
);
