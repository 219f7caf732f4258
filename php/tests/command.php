<?php
// The commands of WP-CLI, over the few of its functions that they call.

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

$site  = Suite::site();
$guest = array( 'constants' => array( 'TIDEMARK_CACHE_GUEST' => true ) );
Suite::request( $site, 'wp_cache_set( "a", 1 ); wp_cache_set( "a", 1, "g" ); wp_cache_delete( "x" );' );
Suite::same( 'status names the tiers', command( $site, 'status()' ), array( array(
	'tier 0 (request): on',
	'tier 1 (APCu): off, apc.enable_cli is off',
	'tier 2 (SQLite): on, ' . Suite::store( $site ),
	'guest: no',
), 0 ) );
$info = Suite::request( $site, 'return $filters["debug_information"]( array( "wp-core" => 1 ) );' );
Suite::same( 'Site Health shows the status', array( array_keys( $info ), array_column( $info['tidemark']['fields'], 'value', 'label' ) ),
	array( array( 'wp-core', 'tidemark' ), array(
		'tier 0 (request)' => 'on',
		'tier 1 (APCu)'    => 'off, apc.enable_cli is off',
		'tier 2 (SQLite)'  => 'on, ' . Suite::store( $site ),
		'guest'            => 'no',
	) ) );
Suite::same( 'Site Health shows the reason, and the faults of its request', Suite::request( $site,
	'$f = array_column( $filters["debug_information"]( array() )["tidemark"]["fields"], "value", "label" );
	return preg_replace( "/at .* UTC/", "at TIME", $f );', $guest ), array(
		'tier 0 (request)' => 'on',
		'tier 1 (APCu)'    => 'off, there is no tier 2',
		'tier 2 (SQLite)'  => 'off, TIDEMARK_CACHE_GUEST leaves the store to others',
		'guest'            => 'yes, the other processes are notified of its writes',
		'off'              => '1 request, at TIME',
	) );
preg_match_all( "/(?:return|refusal +=|refusal :|base \?|check\(\) :|is_off \?|disable_apcu\() '([^']{10,})'/",
	file_get_contents( Suite::$drop_in ), $reasons );
$guide = file_get_contents( dirname( __DIR__, 2 ) . '/docs/guides/wordpress.md' );
Suite::same( 'each reason of the status is in the guide', array_values( array_filter( $reasons[1], function ( $reason ) use ( $guide ) {
	return false === strpos( $guide, preg_replace( '/ \(.*/', '', $reason ) );
} ) ), array() );
Suite::same( 'reasons of the status are found in the file', count( $reasons[1] ) > 15, true );
$faulty = Suite::site();
for ( $i = 0; $i < 3; ++$i ) {
	Suite::request( $faulty, 'wp_cache_set( "a", 1 );' );
	file_put_contents( Suite::store( $faulty ), 'garbage' );
}
Suite::request( $faulty, 'for ( $i = 0; $i < 5; ++$i ) { Tidemark_Tiers::shared()->notices->note( "locked", "test" ); }' );
file_put_contents( Suite::store_folder( $faulty ) . '/count-full-0', str_repeat( '.', 1000000 ) );
symlink( Suite::store( $faulty ), Suite::store_folder( $faulty ) . '/count-linked-0' );
Suite::request( $faulty, 'Tidemark_Tiers::shared()->notices->note( "full", "test" );' );
$totals = preg_replace( '/20\d\d-\d\d-\d\d \d\d:\d\d:\d\d/', 'DATE', array_slice( command( $faulty, 'stats()' )[0], 3 ) );
sort( $totals );
Suite::same( 'stats count the requests that met a fault, within a bound', $totals,
	array( 'full: 1000000 requests, the last at DATE UTC', 'locked: 1 request, at DATE UTC',
		'replaced: 3 requests, the last at DATE UTC' ) );
$folder = basename( Suite::store_folder( $site ) );
Suite::same( 'backup plugins exclude the store', Suite::request( $site, '$directory = $filters["updraftplus_exclude_directory"];
	return array( $directory( false, "/site/wp-content/' . $folder . '" ), $directory( false, "' . $folder . '" ),
		$directory( false, "/site/wp-content/uploads" ), $directory( true, "cache" ),
		$filters["ai1wm_exclude_content_from_export"]( array( "cache" ) ),
		$filters["backwpup_file_exclude"]( "" ), $filters["backwpup_file_exclude"]( ".tmp" ) );' ),
	array( true, true, false, true, array( 'cache', $folder ), '.ht-tidemark-', '.tmp,.ht-tidemark-' ) );
$master = array( 'master' => Suite::master( 1 ) );
Suite::same( 'status names tier 1 where APCu is', command( $site, 'status()', $master )[0][1],
	'tier 1 (APCu): on, shared by the processes of this PHP-FPM master' );
Suite::same( 'status of a guest gives the reason', command( $site, 'status()', $guest ), array( array(
	'tier 0 (request): on',
	'tier 1 (APCu): off, there is no tier 2',
	'tier 2 (SQLite): off, TIDEMARK_CACHE_GUEST leaves the store to others',
	'guest: yes, the other processes are notified of its writes',
), 1 ) );
// In one request: the upkeep at the end of some requests takes tombstones away.
$set = 'wp_cache_set( "a", 1 ); wp_cache_set( "a", 1, "g" ); wp_cache_delete( "x" ); ';
Suite::same( 'stats count the store', command( Suite::site(), 'stats()', array(), $set ),
	array( array( 'entries: 2', 'tombstones: 1', 'bytes: 8' ), 0 ) );
// Above 64 writes a request ends with the upkeep.
$young = Suite::site();
Suite::request( $young, 'for ( $n = 0; $n < 70; $n++ ) { wp_cache_set( $n, 1 ); } wp_cache_delete( "x" );' );
Suite::same( 'the first upkeep of a store keeps young tombstones',
	command( $young, 'stats()' )[0][1], 'tombstones: 1' );
Suite::same( 'verify finds a sound store', command( $site, 'verify()' ),
	array( array( 'The store is sound.' ), 0 ) );
Suite::same( 'verify of a guest fails', command( $site, 'verify()', $guest )[1], 1 );
Suite::same( 'flush-group needs a name', command( $site, 'flush_group( array() )' )[1], 1 );
Suite::same( 'flush-group empties that group', array( command( $site, 'flush_group( array( "g" ) )' )[1],
	Suite::request( $site, 'return array( wp_cache_get( "a" ), wp_cache_get( "a", "g" ) );' ) ),
	array( 0, array( 1, false ) ) );
Suite::same( 'flush empties all', array( command( $site, 'flush()' )[1],
	Suite::request( $site, 'return wp_cache_get( "a" );' ) ), array( 0, false ) );
