<?php
// What `wp tidemark sync` promises: the store outlives the machine if nothing was written after.

$read = 'return wp_cache_get( "a" );';
$sync = 'return Tidemark_Tiers::shared()->sync();';

/** As after a restart of the machine: the header names another boot. */
function restart_machine( $site ) {
	$db = new SQLite3( Suite::store( $site ) );
	$db->exec( "UPDATE mark SET boot = 'the last'" );
	$db->close();
}

foreach ( array(
	'nothing'     => array( '', array(), 1 ),
	'a read'      => array( $read, array(), 1 ),
	'a set'       => array( 'wp_cache_set( "b", 1 );', array(), false ),
	'a delete'    => array( 'wp_cache_delete( "x" );', array(), false ),
	'an incr'     => array( 'wp_cache_incr( "n" );', array(), false ),
	'a flush'     => array( 'wp_cache_flush_group( "g" );', array(), false ),
	"a guest's write" => array( 'wp_cache_delete( "x" );',
		array( 'constants' => array( 'TIDEMARK_CACHE_GUEST' => true ) ), false ),
) as $name => list( $code, $settings, $expected ) ) {
	$site = Suite::site();
	Suite::request( $site, 'wp_cache_set( "a", 1 ); wp_cache_set( "n", 1 );' );
	$done = Suite::request( $site, $sync );
	Suite::request( $site, $code, $settings );
	restart_machine( $site );
	Suite::same( "store after a sync, $name and a restart of the machine",
		array( $done, Suite::request( $site, $read ) ), array( true, $expected ) );
}
$site = Suite::site();
Suite::request( $site, 'wp_cache_set( "a", 1 );' . $sync );
restart_machine( $site );
Suite::request( $site, $read );
restart_machine( $site );
Suite::same( 'mark holds over two restarts', Suite::request( $site, $read ), 1 );
Suite::request( $site, 'wp_cache_set( "a", 2 );' );
restart_machine( $site );
Suite::same( 'mark does not outlive the first write', Suite::request( $site, $read ), false );
Suite::same( 'sync while another process reads says no', Suite::request( $site,
	'wp_cache_set( "a", 1 ); $other = new SQLite3( Tidemark_Tiers::shared()->place->file( "store.sqlite" ) );
	$other->exec( "BEGIN" ); $other->querySingle( "SELECT count(*) FROM entry" );
	wp_cache_set( "a", 2 ); $tiers = Tidemark_Tiers::shared(); $tiers->counts();
	( function () { ( function () { $this->db->busyTimeout( 1 ); } )->call( $this->store ); } )->call( $tiers );
	return $tiers->sync();' ), false );
Suite::same( 'store without a sync is emptied by a restart', ( function () use ( $read ) {
	$site = Suite::site();
	Suite::request( $site, 'wp_cache_set( "a", 1 );' );
	restart_machine( $site );
	return Suite::request( $site, $read );
} )(), false );
