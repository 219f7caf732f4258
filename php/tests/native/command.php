<?php
// The commands of WP-CLI in the native form, over the few of its functions that they call.

const CLI = 'class WP_CLI { public static $out = array(); public static $code = 0;
	static function add_command( $n, $c ) {} static function line( $t ) { self::$out[] = $t; }
	static function success( $t ) { self::$out[] = $t; } static function halt( $c ) { self::$code = $c; }
	static function error( $t ) { self::$code = 1; throw new Exception( $t ); } }
	$command = new Tidemark_Command( Tidemark_Tiers::shared() );
	try { %s } catch ( Exception $e ) { return array( $e->getMessage(), WP_CLI::$code ); }
	return array( WP_CLI::$out, WP_CLI::$code );';

function command( $site, $call, array $settings = array(), $before = '' ) {
	return Suite::request( $site, $before . sprintf( CLI, "\$command->$call;" ), $settings );
}

$site = Suite::site();
$bare = array( 'is_bare' => true );
$set  = 'wp_cache_set( "a", 1 ); wp_cache_set( "a", 1, "g" ); wp_cache_delete( "x" ); ';
Suite::request( $site, $set );
Suite::same( 'status names the tiers', command( $site, 'status()' ), array( array(
	'tier 0 (request): on',
	'tier 1 (APCu): off, the native store is in shared memory',
	'tier 2 (native): on, ' . Suite::store( $site ),
	'guest: no',
), 0 ) );
$status = command( $site, 'status()', $bare );
Suite::same( 'status of a process without the extension gives the reason', array( $status[1], $status[0][2], $status[0][3] ),
	array( 1, 'tier 2 (SQLite): off, other PHP processes use the native store, and this one has no extension for it',
		'guest: yes, the other processes are notified of its writes' ) );
// Two of the site, and two of the state of the store.
$stats = command( Suite::site(), 'stats()', array( 'constants' => array( 'TIDEMARK_CACHE_MB' => 8 ) ), $set );
Suite::same( 'stats count the store', array( $stats[1], $stats[0][0], strpos( $stats[0][1], 'bytes: ' ), $stats[0][2] ),
	array( 0, 'entries: 4', 0, 'file: 8388608' ) );
Suite::same( 'verify finds a sound store', command( $site, 'verify()' ), array( array( 'The store is sound.' ), 0 ) );
$bytes = file_get_contents( Suite::store( $site ) );
$file  = fopen( Suite::store( $site ), 'r+b' );
fseek( $file, strpos( $bytes, ':1:g:' ) );
fwrite( $file, 'XXXX' );
fclose( $file );
Suite::same( 'verify finds a damaged entry', command( $site, 'verify()' ), array( 'the store is damaged: 1 entries are damaged', 1 ) );
Suite::same( 'verify of a guest fails', command( $site, 'verify()', $bare )[1], 1 );
Suite::same( 'sync of the store', command( $site, 'sync()' ), array( array( 'The store is on the disk.' ), 0 ) );
Suite::request( $site, $set );
Suite::same( 'flush-group empties that group', array( command( $site, 'flush_group( array( "g" ) )' )[1],
	Suite::request( $site, 'return array( wp_cache_get( "a" ), wp_cache_get( "a", "g" ) );' ) ), array( 0, array( 1, false ) ) );
Suite::same( 'flush empties all', array( command( $site, 'flush()' )[1],
	Suite::request( $site, 'return wp_cache_get( "a" );' ) ), array( 0, false ) );
