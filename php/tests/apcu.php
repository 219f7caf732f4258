<?php
// Tier 1: what the workers of one master share, and how it follows what others write.

$first  = Suite::master( 2 );
$second = Suite::master( 1 );
$one    = array( 'master' => $first, 'table' => true );
$two    = array( 'master' => $second, 'table' => true );
$alone  = array( 'table' => true );
$guest  = array( 'constants' => array( 'TIDEMARK_CACHE_GUEST' => true ), 'table' => true );
$read   = 'return wp_cache_get( "a", "g" );';
$opened = 'return array( wp_cache_get( "a", "g" ), ( function () { return null !== $this->store; } )
	->call( Tidemark_Tiers::shared() ) );';

$site = Suite::site();
Suite::request( $site, 'wp_cache_set( "a", 1, "g" );', $one );
Suite::same( 'hit in APCu does not open the store',
	Suite::request( $site, $opened, $one ), array( 1, false ) );
Suite::same( 'memory of another master reads the store',
	Suite::request( $site, $opened, $two ), array( 1, true ) );
Suite::same( 'value read from the store is kept in APCu',
	Suite::request( $site, $opened, $two ), array( 1, false ) );
Suite::same( 'process without APCu reads the store',
	Suite::request( $site, $opened, $alone ), array( 1, true ) );
Suite::same( 'many at once are answered by APCu, too', Suite::request( $site,
	'wp_cache_set( "b", 2, "g" ); wp_cache_flush_runtime();
	$r = wp_cache_get_multiple( array( "b", "a", "x" ), "g" ); return $r;', $one ),
	array( 'b' => 2, 'a' => 1, 'x' => false ) );

$writes = array(
	'set'             => array( 'wp_cache_set( "a", 2, "g" );', 2 ),
	'delete'          => array( 'wp_cache_delete( "a", "g" );', false ),
	'incr'            => array( 'wp_cache_incr( "a", 4, "g" );', 5 ),
	'replace'         => array( 'wp_cache_replace( "a", 3, "g" );', 3 ),
	'flush_group'     => array( 'wp_cache_flush_group( "g" );', false ),
	'flush'           => array( 'wp_cache_flush();', false ),
	'value too large' => array( 'wp_cache_set( "a", str_repeat( "x", 16777216 ), "g" );', false ),
);
$writers = array( 'same master' => $one, 'another master' => $two, 'process without APCu' => $alone );
foreach ( $writers as $who => $writer ) {
	foreach ( $writes as $what => list( $code, $expected ) ) {
		Suite::request( $site, 'wp_cache_set( "a", 1, "g" );', $one );
		$seen = array( Suite::request( $site, $read, $one ), Suite::request( $site, $read, $two ) );
		Suite::request( $site, $code, $writer );
		$seen[] = Suite::request( $site, $read, $one );
		$seen[] = Suite::request( $site, $read, $two );
		Suite::same( "$what of the $who is seen by all",
			$seen, array( 1, 1, $expected, $expected ) );
	}
}
foreach ( array( 'wp_cache_set( "a", 2, "g" );', 'wp_cache_flush_group( "g" );' ) as $code ) {
	Suite::request( $site, 'wp_cache_set( "a", 1, "g" );', $one );
	Suite::request( $site, $read, $two );
	Suite::request( $site, $code, $guest );
	Suite::same( "guest's write is seen by each memory", array( Suite::request( $site, $read, $one ),
		Suite::request( $site, $read, $two ) ), array( false, false ) );
}

// What a process does not know of must not come back from the memory.
$state = '$n = "tidemark:" . Tidemark_Tiers::shared()->place->identity . ":"; ';
Suite::request( $site, 'wp_cache_set( "a", 1, "g" );', $one );
$db = new SQLite3( Suite::store( $site ) );
$db->exec( 'UPDATE segment SET seen = seen - 700' );
$db->close();
Suite::request( $site, 'wp_cache_get( "x" ); wp_cache_set( "a", 2, "g" );', $two );
Suite::request( $site, $state . '$s = apcu_fetch( $n . "s" ); $s[2] -= 700; apcu_store( $n . "s", $s );', $one );
Suite::same( 'memory that was idle for long joins again', Suite::request( $site, $read, $one ), 2 );

foreach ( array( 's', 'e', 'i' ) as $part ) {
	Suite::request( $site, 'wp_cache_set( "a", 1, "g" );', $one );
	Suite::request( $site, $state . "apcu_delete( \$n . '$part' );", $one );
	Suite::request( $site, 'wp_cache_set( "a", 2, "g" );', $two );
	Suite::same( "memory that lost its '$part' is filled from the store",
		Suite::request( $site, $read, $one ), 2 );
}
Suite::request( $site, 'wp_cache_set( "a", 1, "g" ); apcu_clear_cache();', $one );
Suite::same( 'memory that was emptied is filled from the store',
	array( Suite::request( $site, $read, $one ), Suite::request( $site, $opened, $one ) ),
	array( 1, array( 1, false ) ) );

$full = '":1:g:a"';
Suite::same( 'writer that died on the way keeps the memory out', Suite::request( $site,
	"\$m = new Tidemark_Apcu( Tidemark_Tiers::shared()->place->identity ); \$m->state();
	wp_cache_get( 'a', 'g' ); \$m->begin_write( $full ); wp_cache_flush_runtime();
	return array( wp_cache_get( 'a', 'g' ), \$m->get( $full, time() ), \$m->token( $full ) );", $one ),
	array( 1, null, 0 ) );
Suite::same( 'fill that is older than a write is not read', Suite::request( $site,
	"\$m = new Tidemark_Apcu( 'x' ); \$m->flush(); \$t = \$m->token( $full );
	\$m->end_write( $full, \$m->begin_write( $full ), 'new', 0 ); \$r = \$m->get( $full, 0 );
	\$m->fill( $full, \$t, 'old', 0 ); return array( \$r, \$m->get( $full, 0 ) );", $one ),
	array( array( 'new', 0, null ), null ) );
Suite::same( 'two writes of one slot at once leave nothing to read', Suite::request( $site,
	"\$m = new Tidemark_Apcu( 'x' ); \$m->flush(); \$b = \$m->begin_write( $full );
	\$c = \$m->begin_write( $full ); \$m->end_write( $full, \$c, 'second', 0 );
	\$m->end_write( $full, \$b, 'first', 0 ); return \$m->get( $full, 0 );", $one ), null );
Suite::same( 'entry that expires in APCu is missed', Suite::request( $site,
	"\$m = new Tidemark_Apcu( 'x' ); \$m->flush(); \$t = \$m->token( $full );
	\$m->fill( $full, \$t, 'v', time() + 100 );
	return array( \$m->get( $full, time() )[0], \$m->get( $full, time() + 100 ) );", $one ),
	array( 'v', null ) );
Suite::same( 'value above 1 MB is in the store only', Suite::request( $site,
	'wp_cache_set( "a", str_repeat( "x", 1100000 ), "g" ); return 1;', $one )
	. json_encode( array_map( 'is_string', (array) Suite::request( $site, $read, $one ) ) )
	. json_encode( Suite::request( $site, $opened, $one )[1] ), '1[true]true' );

// Faults of the store end the memory, too.
foreach ( array(
	'is gone'        => function ( $store ) {
		unlink( $store );
	},
	'was copied'     => function ( $store ) {
		copy( $store, "$store.copy" );
		rename( "$store.copy", $store );
	},
	'holds garbage'  => function ( $store ) {
		file_put_contents( "$store.new", random_bytes( 50000 ) );
		rename( "$store.new", $store );
	},
) as $name => $fault ) {
	$site = Suite::site();
	Suite::request( $site, 'wp_cache_set( "a", 1, "g" );', $one );
	Suite::request( $site, $read, $two );
	$fault( Suite::store( $site ) );
	Suite::same( "store that $name empties each memory", array( Suite::request( $site, $read, $one ),
		Suite::request( $site, $read, $two ) ), array( false, false ) );
}
$site = Suite::site();
Suite::request( $site, 'wp_cache_set( "a", 1, "g" );', $one );
file_put_contents( "$site/options-tidemark_cache_token", 'restored' );
Suite::request( $site, $state . '$s = apcu_fetch( $n . "s" ); $s[2] -= 61; apcu_store( $n . "s", $s );', $one );
$db = new SQLite3( Suite::store( $site ) );
$db->exec( 'UPDATE mark SET checked = checked - 61' );
$db->close();
Suite::same( 'restored database empties the memory', Suite::request( $site, $read, $one ), false );

$tiny = Suite::master( 1, array( '-d', 'apc.shm_size=1M' ) );
Suite::same( 'memory that is full answers nothing wrong', Suite::request( Suite::site(),
	'$wrong = 0; for ( $i = 0; $i < 3000; ++$i ) { $k = $i % 300;
		wp_cache_set( "k$k", array( $i, str_repeat( "x", 5000 ) ), "g" ); wp_cache_flush_runtime();
		$v = wp_cache_get( "k" . ( $i * 7 % 300 ), "g" );
		$wrong += $v && $v[0] % 300 !== $i * 7 % 300 ? 1 : 0;
		$w = wp_cache_get( "k$k", "g" ); $wrong += $i !== $w[0] ? 1 : 0; }
	return array( $wrong, Tidemark_Tiers::shared()->notices->counts );',
	array( 'master' => $tiny ) ), array( 0, array() ) );

Suite::end_master( $first );
$third = Suite::master( 1 );
Suite::request( $site, 'wp_cache_set( "a", 7, "g" );', $two );
Suite::same( 'restart of a master loses nothing',
	Suite::request( $site, $read, array( 'master' => $third ) ), 7 );
