<?php
// The keys that a page read from tier 2 last time are read by one query at its next request.

$page   = '$_SERVER["REQUEST_METHOD"] = "GET"; $_SERVER["REQUEST_URI"] = "/shop/?a=%s"; ';
$ask    = 'for ( $i = 0; $i < 60; ++$i ) { $r[] = wp_cache_get( "k$i", "g" ); } ';
$count  = '$n = ( function () { return $this->store->selects; } )->call( Tidemark_Tiers::shared() ); ';
$return = 'return array( $n, array_sum( $r ) );';
$site   = Suite::site();
Suite::request( $site, 'for ( $i = 0; $i < 60; ++$i ) wp_cache_set( "k$i", $i, "g" );' );
$first  = Suite::request( $site, sprintf( $page, 1 ) . $ask . $count . $return );
$second = Suite::request( $site, sprintf( $page, 2 ) . $ask . $count . $return );
Suite::same( 'page reads each key once, then all at once',
	array( $first, $second ), array( array( 61, 1770 ), array( 1, 1770 ) ) );
Suite::same( 'another page has a list of its own', Suite::request( $site,
	'$_SERVER["REQUEST_METHOD"] = "GET"; $_SERVER["REQUEST_URI"] = "/other/"; ' . $ask . $count . $return ),
	array( 61, 1770 ) );
Suite::same( 'request that is none of a page keeps no list', Suite::request( $site, $ask . $count . $return ),
	array( 60, 1770 ) );
Suite::request( $site, 'wp_cache_set( "k1", 1001, "g" ); wp_cache_delete( "k2", "g" );' );
Suite::same( 'page sees what was written before it began', Suite::request( $site,
	sprintf( $page, 3 ) . 'return array( wp_cache_get( "k1", "g" ), wp_cache_get( "k2", "g" ) );' ),
	array( 1001, false ) );
$again = 'wp_cache_flush_runtime(); return array( wp_cache_get( "k3", "g" ), wp_cache_get( "k4", "g" ) );';
Suite::same( 'page reads its own writes', array(
	Suite::request( $site, sprintf( $page, 4 ) . 'wp_cache_get( "k5", "g" );
		wp_cache_set( "k3", "own", "g" ); wp_cache_delete( "k4", "g" ); ' . $again ),
	Suite::request( $site, sprintf( $page, 5 ) . 'wp_cache_get( "k5", "g" ); wp_cache_flush(); ' . $again ),
), array( array( 'own', false ), array( false, false ) ) );
Suite::same( 'force does not read what was read ahead', Suite::request( $site,
	'wp_cache_set( "k9", 9, "g" ); wp_cache_set( "k8", 8, "g" ); ' . sprintf( $page, 6 )
	. '$o = new Tidemark_Tiers( Tidemark_Tiers::shared()->place ); wp_cache_flush_runtime();
	wp_cache_get( "k9", "g" ); $o->set( ":1:g:", array( "k8" => "new" ), 0 );
	return wp_cache_get( "k8", "g", true );' ), 'new' );

// Keys that a page asks for by one call are read ahead, too; those that are never there are no news.
$site = Suite::site();
$page = '$_SERVER["REQUEST_METHOD"] = "GET"; $_SERVER["REQUEST_URI"] = "/bulk/"; ';
$bulk = 'for ( $i = 0; $i < 60; ++$i ) { $k[] = "k$i"; } $r = wp_cache_get_multiple( $k, "g" );
	for ( $i = 0; $i < 9; ++$i ) { wp_cache_get( "never$i", "g" ); } return array_sum( $r );';
Suite::request( $site, 'for ( $i = 0; $i < 60; ++$i ) wp_cache_set( "k$i", $i, "g" );' );
Suite::request( $site, $page . $bulk );
Suite::same( 'keys of one call are read ahead', Suite::request( $site, $page . 'wp_cache_get( "k0", "g" );
	return ( function () { return ( function () { return count( $this->rows ); } )->call( $this->ahead ); } )
	->call( Tidemark_Tiers::shared() );' ), 59 );
Suite::request( $site, $page . $bulk );
$db     = new SQLite3( Suite::store( $site ) );
$before = $db->querySingle( 'PRAGMA data_version' );
Suite::same( 'page that misses what is never there writes nothing', array( Suite::request( $site, $page . $bulk ),
	$db->querySingle( 'PRAGMA data_version' ) === $before ), array( 1770, true ) );
$db->close();
Suite::same( 'one call of a page sees what it wrote itself', Suite::request( $site, $page . 'wp_cache_get( "k0", "g" );
	wp_cache_set( "k1", "own", "g" ); wp_cache_delete( "k2", "g" ); wp_cache_flush_runtime();
	return wp_cache_get_multiple( array( "k1", "k2", "k3" ), "g" );' ), array( 'k1' => 'own', 'k2' => false, 'k3' => 3 ) );

// Paths that a stranger makes up share the lists that there are.
Suite::request( $site, 'for ( $n = 0; $n < 3000; ++$n ) { $_SERVER["REQUEST_METHOD"] = "GET";
	$_SERVER["REQUEST_URI"] = "/made-up-$n/";
	$o = new Tidemark_Tiers( Tidemark_Tiers::shared()->place );
	for ( $i = 0; $i < 6; ++$i ) { $o->get( ":1:g:", "k$i", false ); } $o->close(); }' );
$db    = new SQLite3( Suite::store( $site ) );
$lists = $db->querySingle( "SELECT count(v) FROM entry WHERE CAST(k AS TEXT) LIKE 'ahead:%'" );
$db->close();
Suite::same( 'paths made up by a stranger add no more lists', $lists > 500 && $lists <= 1024, true );
Suite::same( 'list that is damaged is no list', Suite::request( $site,
	'$o = Tidemark_Tiers::shared(); for ( $i = 0; $i < 1024; ++$i ) {
	$o->set( "ahead:", array( $i => array( 5, array( 1 ), array( "a", array() ), ":1:g:" => array( 7 => "k1", "b" => "k2" ),
	":1:h:" => "x" ) ), 0 ); }
	wp_cache_set( "k1", 1, "g" ); wp_cache_flush_runtime();' . $page . 'return wp_cache_get( "k1", "g" );' ), 1 );
