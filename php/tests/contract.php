<?php
// The contract of WordPress, each step in a request of its own.

Suite::check( 'set is read by the next request', array(
	'return wp_cache_set( "a", "one" );',
	'$v = wp_cache_get( "a", "", false, $f ); return array( $v, $f );',
), array( true, array( 'one', true ) ) );

foreach ( array( 'null' => null, 'false' => false, 'zero' => 0, 'empty text' => '', 'text 0' => '0',
	'empty list' => array(), 'float' => 1.5, 'minus zero' => -0.0, 'true' => true,
	'nested' => array( 'a' => array( 1, array( null, false ) ) ),
	'bytes' => "\x00\xff'\"%" ) as $name => $value ) {
	$text = base64_encode( serialize( $value ) );
	Suite::check( "value $name keeps its type", array(
		"return wp_cache_set( 'v', unserialize( base64_decode( '$text' ) ), 'g' );",
		'$v = wp_cache_get( "v", "g", false, $f ); return array( $v, $f );',
		'$v = wp_cache_get_multiple( array( "v", "w" ), "g" ); return $v;',
	), array( true, array( $value, true ), array( 'v' => $value, 'w' => false ) ) );
}

Suite::check( 'get of the same key again reads no lower tier', array(
	'wp_cache_set( "a", 1 ); wp_cache_set( "n", null, "g" );',
	'wp_cache_get( "a" ); wp_cache_get_multiple( array( "n", "a" ), "g" );
		( function () { $this->tiers = null; } )->call( $GLOBALS["wp_object_cache"] );
		return array( wp_cache_get( "a" ), wp_cache_get( "n", "g", false, $f ), $f );',
), array( null, array( 1, null, true ) ) );

Suite::check( 'key 7 is key "7", and no other', array(
	'foreach ( array( 7, "07", "7.0", " 7", "1e3", "A", "a" ) as $i => $k )
		wp_cache_set( $k, $i );',
	'return array_map( "wp_cache_get", array( "7", "07", "7.0", " 7", "1e3", "A", "a", 1000 ) );',
), array( null, array( 0, 1, 2, 3, 4, 5, 6, false ) ) );

Suite::check( 'key of any bytes and of 4 KB', array(
	'foreach ( array( "a\0b", "a\0c", "\'\"%_", "l\nm", "\xff\xfe", str_repeat( "k", 4096 ) . "1",
		str_repeat( "k", 4096 ) . "2" ) as $i => $k ) wp_cache_set( $k, $i, "g" );',
	'$r = array(); foreach ( array( "a\0b", "a\0c", "\'\"%_", "l\nm", "\xff\xfe",
		str_repeat( "k", 4096 ) . "1", str_repeat( "k", 4096 ) . "2" ) as $k )
		$r[] = wp_cache_get( $k, "g" ); return $r;',
), array( null, array( 0, 1, 2, 3, 4, 5, 6 ) ) );

Suite::check( 'group and key cannot be forged', array(
	'wp_cache_set( "c", 1, "a|b" ); wp_cache_set( "c", 2, "a:b" ); wp_cache_set( "x", 3, "1:a" );',
	'return array( wp_cache_get( "b|c", "a" ), wp_cache_get( "b:c", "a" ),
		wp_cache_get( "a:x", "1" ), wp_cache_get( "c", "a|b" ) );',
), array( null, array( false, false, false, 1 ) ) );

Suite::check( 'invalid key is refused', array(
	'$r = array(); foreach ( array( null, "", "  ", 1.5, true, array() ) as $k ) {
		$r[] = wp_cache_set( $k, 1 ); $f = true; $r[] = wp_cache_get( $k, "", false, $f ); $r[] = $f;
		$r[] = wp_cache_add( $k, 1 ); $r[] = wp_cache_delete( $k ); $r[] = wp_cache_incr( $k ); }
	return array( array_filter( $r ), $wrong );',
), array( array( array(), 30 ) ) );

Suite::check( 'empty group is default', array(
	'wp_cache_set( "a", 1, null );',
	'return array( wp_cache_get( "a" ), wp_cache_get( "a", "default" ) );',
), array( null, array( 1, 1 ) ) );

Suite::check( 'add stores what is missing only', array(
	'return array( wp_cache_add( "a", 1 ), wp_cache_add( "a", 2 ) );',
	'return array( wp_cache_add( "a", 3 ), wp_cache_get( "a" ) );',
	'wp_cache_delete( "a" ); return array( wp_cache_add( "a", 4 ), wp_cache_get( "a" ) );',
	'$suspended = true; return wp_cache_add( "b", 1 );',
), array( array( true, false ), array( false, 1 ), array( true, 4 ), false ) );

Suite::check( 'replace needs an entry', array(
	'return array( wp_cache_replace( "a", 1 ), wp_cache_get( "a" ), wp_cache_set( "b", 1 ) );',
	'return wp_cache_replace( "b", 2 );',
	'return array( wp_cache_get( "a" ), wp_cache_get( "b" ) );',
), array( array( false, false, true ), true, array( false, 2 ) ) );

Suite::check( 'delete says whether it was there', array(
	'return array( wp_cache_delete( "a" ), wp_cache_set( "a", false ) );',
	'return array( wp_cache_delete( "a" ), wp_cache_delete( "a" ) );',
	'wp_cache_get( "a", "", false, $f ); return $f;',
	'wp_cache_set( "a", 1 ); return wp_cache_delete_multiple( array( "a", "b" ) );',
), array( array( false, true ), array( true, false ), false, array( 'a' => true, 'b' => false ) ) );

Suite::check( 'get_multiple keeps the order of the keys', array(
	'return wp_cache_set_multiple( array( "a" => 1, "b" => 2, "c" => null ), "g" );',
	'wp_cache_get( "b", "g" ); return wp_cache_get_multiple( array( "c", "x", "b", "a" ), "g" );',
	'return wp_cache_add_multiple( array( "a" => 9, "d" => 4 ), "g" );',
), array(
	array( 'a' => true, 'b' => true, 'c' => true ),
	array( 'c' => null, 'x' => false, 'b' => 2, 'a' => 1 ),
	array( 'a' => false, 'd' => true ),
) );

// A commit is the last frame of its pages in the log: that one names the size of the file.
$commits = '$commits = function () { $n = 0;
	$log = file_get_contents( Tidemark_Tiers::shared()->place->file( "store.sqlite-wal" ) );
	for ( $at = 32; $at < strlen( $log ); $at += 24 + 4096 ) { $n += "\0\0\0\0" !== substr( $log, $at + 4, 4 ); }
	return $n; };
	$many = array(); for ( $i = 0; $i < 20; ++$i ) { $many["k$i"] = $i; }
	wp_cache_set( "first", 1, "g" ); $before = $commits(); ';
Suite::$extension || Suite::check( 'many at once are stored by one commit', array(
	$commits . '$r = wp_cache_set_multiple( $many, "g" ); return array( count( array_filter( $r ) ), $commits() - $before );',
	$commits . '$many["new"] = 1; $r = wp_cache_add_multiple( $many, "g" );
		return array( array_filter( $r ), wp_cache_get( "new", "g" ), $commits() - $before );',
	'return array_sum( wp_cache_get_multiple( array( "k0", "k7", "k19", "new" ), "g" ) );',
), array( array( 20, 1 ), array( array( 'new' => true ), 1, 1 ), 27 ) );

Suite::check( 'many at once of any value and key', array(
	'wp_cache_set( "c", "old" ); wp_cache_set( 7, "old" );
		return wp_cache_set_multiple( array( "c" => function () {}, 7 => "seven", "n" => null, " " => 1 ) );',
	'return array( wp_cache_get( "c" ), wp_cache_get( "7" ), wp_cache_get_multiple( array( "n", 7 ) ) );',
	'return array( wp_cache_add_multiple( array( "c" => fopen( "php://memory", "r" ), 7 => 1, "n" => 1, " " => 1 ) ),
		is_resource( wp_cache_get( "c" ) ) );',
	'$suspended = true; return wp_cache_add_multiple( array( "x" => 1, "y" => 2 ) );',
), array(
	array( 'c' => true, 7 => true, 'n' => true, ' ' => false ),
	array( false, 'seven', array( 'n' => null, 7 => 'seven' ) ),
	array( array( 'c' => true, 7 => false, 'n' => false, ' ' => false ), true ),
	array( 'x' => false, 'y' => false ),
) );

Suite::check( 'many at once heed a delete since they were missed', array(
	'wp_cache_get_multiple( array( "k", "l" ), "g" );
		$o = other_tiers(); $o->delete( ":1:g:", "k" );
		return wp_cache_add_multiple( array( "k" => "old", "l" => "new" ), "g" );',
	'return wp_cache_get_multiple( array( "k", "l" ), "g" );',
	'wp_cache_get_multiple( array( "a", "b" ), "g" );
		$o = other_tiers(); $o->delete( ":1:g:", "a" );
		return wp_cache_set_multiple( array( "a" => "old", "b" => "new" ), "g" );',
	'return wp_cache_get_multiple( array( "a", "b" ), "g" );',
), array( array( 'k' => false, 'l' => true ), array( 'k' => false, 'l' => 'new' ),
	array( 'a' => true, 'b' => true ), array( 'a' => false, 'b' => 'new' ) ) );

Suite::check( 'incr counts what is there', array(
	'return array( wp_cache_incr( "a" ), wp_cache_decr( "a" ), wp_cache_get( "a" ) );',
	'wp_cache_set( "a", 5 ); wp_cache_set( "t", "text" );',
	'return array( wp_cache_incr( "a", 3 ), wp_cache_decr( "a", 100 ), wp_cache_incr( "t", 2 ) );',
	'return array( wp_cache_get( "a" ), wp_cache_get( "t" ) );',
), array( array( false, false, false ), null, array( 8, 0, 2 ), array( 0, 2 ) ) );

Suite::check( 'incr stops at the largest integer', array(
	'wp_cache_set( "a", PHP_INT_MAX ); return wp_cache_incr( "a", PHP_INT_MAX );',
	'wp_cache_set( "b", "1e400" ); return wp_cache_incr( "b" );',
	'wp_cache_set( "c", 5 ); return wp_cache_decr( "c", PHP_INT_MIN );',
), array( PHP_INT_MAX, PHP_INT_MAX, PHP_INT_MAX ) );

// Another way of saying "later" than to wait: the row's own time is moved.
$site = Suite::site();
Suite::request( $site, 'wp_cache_set( "a", 5, "", 100 ); wp_cache_incr( "a" );
	wp_cache_set( "b", 1 ); wp_cache_set( "c", 1, "", -5 ); wp_cache_set( "d", 1, "", "x" );' );
Suite::same( 'expiry is kept by incr, none is never', Suite::request( $site,
	'return array( abs( ' . Suite::expiry( 'a' ) . ' - time() - 100 ) < 20, ' . Suite::expiry( 'b' ) . ' + '
	. Suite::expiry( 'c' ) . ' + ' . Suite::expiry( 'd' ) . ' );'
), array( true, 0 ) );

Suite::check( 'expired entry is missed, also within a request', array(
	'wp_cache_set( "a", 1, "", 1 ); wp_cache_set( "b", 1, "", 1 );
		$end = time() + 2; while ( time() < $end ) usleep( 20000 );
		$v = wp_cache_get( "a", "", false, $f ); return array( $v, $f, wp_cache_add( "a", 2 ) );',
	'return array( wp_cache_get( "a" ), wp_cache_get( "b" ), wp_cache_delete( "b" ) );',
), array( array( false, false, true ), array( 2, false, false ) ) );

$site = Suite::site();
Suite::same( 'time of expiry counts from the write, not from the start of the request', Suite::request( $site,
	'while ( time() <= $_SERVER["REQUEST_TIME"] ) usleep( 20000 );
	$at = time(); wp_cache_set( "late", 1, "", 60 ); wp_cache_close();
	return ' . Suite::expiry( 'late' ) . ' >= $at + 60;'
), true );

Suite::check( 'object is copied in and out', array(
	'$o = new stdClass; $o->a = 1; wp_cache_set( "o", $o ); $o->a = 2;
		$p = wp_cache_get( "o" ); $p->a = 3; return wp_cache_get( "o" )->a;',
	'$p = wp_cache_get( "o" ); $p->a = 4; return wp_cache_get( "o" )->a;',
	'wp_cache_set( "e", new ArrayObject( array( 1 ) ) );',
	'return get_class( wp_cache_get( "e" ) );',
), array( 1, 1, null, 'ArrayObject' ) );

Suite::check( 'replace by a value that cannot be serialized says whether there was one', array(
	'wp_cache_set( "a", 1 );',
	'return array( wp_cache_replace( "a", function () {} ), wp_cache_replace( "b", function () {} ), is_object( wp_cache_get( "a" ) ) );',
	'return wp_cache_get( "a" );',
), array( null, array( true, false, true ), false ) );

Suite::check( 'value that cannot be serialized stays in the request', array(
	'wp_cache_set( "c", "old" ); wp_cache_set( "r", "old" );',
	'$a = wp_cache_set( "c", function () { return 5; } ); $b = wp_cache_set( "r", $m = fopen( "php://memory", "r" ) );
		$f = wp_cache_get( "c" ); return array( $a, $b, $f(), wp_cache_get( "r" ) === $m );',
	'return array( wp_cache_get( "c" ), wp_cache_get( "r" ) );',
), array( null, array( true, true, 5, true ), array( false, false ) ) );

Suite::check( 'value above 16 MB stays in the request', array(
	'wp_cache_set( "a", "old" ); wp_cache_set( "b", str_repeat( "x", 5000000 ) );',
	'$a = wp_cache_set( "a", str_repeat( "x", 16777216 ) );
		return array( $a, strlen( wp_cache_get( "a" ) ) );',
	'return array( wp_cache_get( "a" ), strlen( wp_cache_get( "b" ) ) );',
), array( null, array( true, 16777216 ), array( false, 5000000 ) ), array( 'constants' => array( 'TIDEMARK_CACHE_MB' => 128 ) ) );

Suite::check( 'class that does not exist, or throws, is no fatal error', array(
	'class Gone { public $a = 1; } class Angry { function __wakeup() { throw new Error( "no" ); } }
		wp_cache_set( "g", new Gone ); wp_cache_set( "a", new Angry );',
	'return get_class( wp_cache_get( "g" ) );',
	'class Angry { function __wakeup() { throw new Error( "no" ); } }
		$v = wp_cache_get( "a", "", false, $f ); return array( $v, $f );',
), array( null, '__PHP_Incomplete_Class', array( false, false ) ) );

Suite::check( 'non-persistent group stays in the request', array(
	'wp_cache_set( "late", 1, "n" ); wp_cache_add_non_persistent_groups( array( "n", "m" ) );
		return array( wp_cache_set( "a", 1, "n" ), wp_cache_get( "a", "n" ) );',
	'return array( wp_cache_get( "a", "n" ), wp_cache_get( "late", "n" ) );',
	'wp_cache_add_non_persistent_groups( "n" ); return wp_cache_get( "late", "n" );',
), array( array( true, 1 ), array( false, 1 ), false ) );

Suite::check( 'flush empties all tiers', array(
	'wp_cache_set( "a", 1 ); wp_cache_set( "b", 1, "g" );',
	'return array( wp_cache_get( "a" ), wp_cache_flush(), wp_cache_get( "a" ) );',
	'$r = array( wp_cache_get( "a" ), wp_cache_get( "b", "g" ) ); wp_cache_set( "a", 2 ); return $r;',
	'return wp_cache_get( "a" );',
), array( null, array( 1, true, false ), array( false, false ), 2 ) );

Suite::check( 'flush_group takes that group only, literally', array(
	'foreach ( array( "g", "g%", "gx", "*" ) as $g ) wp_cache_set( "a", $g, $g );',
	'return array( wp_cache_flush_group( "g%" ), wp_cache_flush_group( "*" ) );',
	'$r = array(); foreach ( array( "g", "g%", "gx", "*" ) as $g ) $r[] = wp_cache_get( "a", $g );
		wp_cache_set( "a", 2, "*" ); return $r;',
	'return wp_cache_get( "a", "*" );',
), array( null, array( true, true ), array( 'g', false, 'gx', false ), 2 ) );

Suite::check( 'flush_runtime leaves what is below', array(
	'wp_cache_set( "a", 1 ); wp_cache_flush_runtime(); return wp_cache_get( "a" );',
), array( 1 ) );

Suite::check( 'force reads what another process wrote', array(
	'wp_cache_set( "a", 1 );
		$o = other_tiers();
		$o->set( ":7:default:", array( "a" => 2 ), 0 );
		return array( wp_cache_get( "a" ), wp_cache_get( "a", "", true ), wp_cache_get( "a" ) );',
), array( array( 1, 2, 2 ) ) );

Suite::check( 'supports names the features', array(
	'return array( wp_cache_supports( "flush_group" ), wp_cache_supports( "get_multiple" ),
		wp_cache_supports( "x" ), wp_cache_supports( null ) );',
), array( array( true, true, false, false ) ) );

Suite::check( 'second instance reads the same tiers', array(
	'$c = new WP_Object_Cache(); $c->set( "a", 1 ); $c->decr( "a", 5 );
		ob_start(); $c->stats(); $s = ob_get_clean();
		return array( wp_cache_get( "a" ), isset( $c->blog_prefix ), strpos( $s, "Hits" ) > 0 );',
), array( array( 0, true, true ) ) );

Suite::check( 'database of another name shares nothing', array(
	'wp_cache_set( "a", 1 );',
	'return Tidemark_Tiers::of( Tidemark_Place::of_site( array( "other" ) ) )
		->get( ":7:default:", "a", false );',
), array( null, 0 === posix_geteuid() && ! Suite::$master ? null : false ) );
