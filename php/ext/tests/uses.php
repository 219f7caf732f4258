<?php
// Each call of the extension with values of every kind, for a run under Valgrind; prints only what is wrong.

require __DIR__ . '/classes.php';

class Thrower {
	public function __serialize(): array {
		throw new Exception( 'no' );
	}
}

$file   = $argv[1] . '/table';
$cache  = new Tidemark\Cache( $file, 8 << 20 );
$number = 5;
$plain  = new Plain();

$plain->self = $plain;
$plain->late = 'dynamic';

$values = array( null, true, 1, 1.5, 'text', range( 1, 50 ), array( 'a' => &$number, 'b' => &$number ), $plain,
	new Stateful( array( $plain ) ), Suit::Hearts, new ArrayObject( array( 1 ) ), array( str_repeat( 'key', 40 ) => 1 ), str_repeat( 'x', 70000 ) );
for ( $round = 0; $round < 30; ++$round ) {
	foreach ( $values as $at => $value ) {
		$cache->set( "v$at", $value, $round % 3 ? 60 : 0, "g$round" );
		if ( serialize( $cache->get( "v$at", null, "g$round" ) ) !== serialize( $value ) ) {
			echo "value $at is another one\n";
		}
		$cache->get( "none$at" );
		$cache->add( "a$at", $value );
		$cache->replace( "a$at", $round );
		$cache->increment( "a$at" );
		$at % 3 || $cache->delete( "a$at" );
	}
	$cache->flushGroup( "g$round" );
}
$cache->set( 'closure', function () {} );
$acts = array(
	function () use ( $cache ) {
		$cache->set( 'thrower', array( 1, new Thrower() ) );
	},
	function () use ( $cache ) {
		$cache->get( 'stateful' );
	},
);
$cache->set( 'stateful', new Stateful( 1 ) );
Stateful::$on_read = function () {
	throw new Exception( 'no' );
};
foreach ( $acts as $act ) {
	try {
		$act();
		echo "no exception\n";
	} catch ( Exception $thrown ) {
		'no' === $thrown->getMessage() || print $thrown;
	}
}
$cache->setMultiple( array( 'a' => 1, 7 => 2 ) );
$cache->getMultiple( array( 'a', '7' ) );
$cache->deleteMultiple( array( 'a' ) );
$table = tidemark_open( $file, 8 << 20 );
$found = array( tidemark_counts( $table )['damaged'], tidemark_forget( $table, hash( 'xxh3', '7', true ), false ), $cache->get( '7' ),
	$cache->sync(), $cache->fault() );
array( 0, true, null, true, '' ) === $found || var_dump( $found );
tidemark_end( $table );
