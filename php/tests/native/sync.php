<?php
// What `wp tidemark sync` promises of the native store: it outlives the machine if nothing was written after.

$read = 'return wp_cache_get( "a" );';
$sync = 'return Tidemark_Tiers::shared()->sync();';
/** As if the state were of another start of the machine, with the mark of the file set again. */
$age = '( function () { $state = $this->state( "position" ); $this->keep( "position", array_replace( $state, array( "the last" ) ) );
	tidemark_sync( $this->table ); } )->call( Tidemark_Tiers::shared() );';

/** As after a restart of the machine: the header names another start. */
function restart_machine( $site ) {
	$file  = fopen( Suite::store( $site ), 'r+b' );
	$bytes = substr_replace( fread( $file, 80 ), str_repeat( "\x11", 16 ), 16, 16 );
	fseek( $file, 0 );
	fwrite( $file, $bytes . strrev( hash( 'xxh3', $bytes, true ) ) );
	fclose( $file );
}

foreach ( array(
	'nothing'     => array( '', array(), 1 ),
	'a read'      => array( $read, array(), 1 ),
	'a set'       => array( 'wp_cache_set( "b", 1 );', array(), false ),
	'a delete'    => array( 'wp_cache_delete( "x" );', array(), false ),
	'an incr'     => array( 'wp_cache_incr( "n" );', array(), false ),
	'a flush'     => array( 'wp_cache_flush_group( "g" );', array(), false ),
	"a guest's write" => array( 'wp_cache_delete( "x" );', array( 'is_bare' => true ), false ),
) as $name => list( $code, $settings, $expected ) ) {
	$site = Suite::site();
	Suite::request( $site, 'wp_cache_set( "a", 1 ); wp_cache_set( "n", 1 );' );
	$done = Suite::request( $site, $sync );
	Suite::request( $site, $age );
	Suite::request( $site, $code, $settings );
	restart_machine( $site );
	Suite::same( "store after a sync, $name and a restart of the machine",
		array( $done, Suite::request( $site, $read ) ), array( true, $expected ) );
}
$site = Suite::site();
Suite::request( $site, 'wp_cache_set( "a", 1 );' . $sync );
Suite::request( $site, $age );
restart_machine( $site );
Suite::request( $site, $read );
restart_machine( $site );
Suite::same( 'mark holds over two restarts', Suite::request( $site, $read ), 1 );
Suite::request( $site, 'wp_cache_set( "a", 2 );' );
restart_machine( $site );
Suite::same( 'mark does not outlive the first write', Suite::request( $site, $read ), false );
Suite::same( 'store without a sync is emptied by a restart', ( function () use ( $read ) {
	$site = Suite::site();
	Suite::request( $site, 'wp_cache_set( "a", 1 );' );
	restart_machine( $site );
	return Suite::request( $site, $read );
} )(), false );
