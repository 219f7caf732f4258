<?php
// What stands on the extension in PHP: PSR-16, and values with tags.

$library = var_export( dirname( __DIR__, 2 ) . '/library/src/', true );
// The interfaces of psr/simple-cache 3.0, which a program has from Composer.
$psr = <<<'CODE'
eval( 'namespace Psr\SimpleCache; interface CacheException extends \Throwable {}
	interface InvalidArgumentException extends CacheException {}
	interface CacheInterface {
		public function get( string $key, mixed $default = null ): mixed;
		public function set( string $key, mixed $value, null|int|\DateInterval $ttl = null ): bool;
		public function delete( string $key ): bool;
		public function clear(): bool;
		public function getMultiple( iterable $keys, mixed $default = null ): iterable;
		public function setMultiple( iterable $values, null|int|\DateInterval $ttl = null ): bool;
		public function deleteMultiple( iterable $keys ): bool;
		public function has( string $key ): bool; }' );
CODE;
$begin  = "$psr spl_autoload_register( function ( \$class ) { require $library . substr( strrchr( \$class, '\\\\' ), 1 ) . '.php'; } );";
$folder = Checks::folder();
foreach ( array(
	'is set and found'                    => array( '$simple->set( "a", null ); $simple->set( "b", 1, 60 ); return array( $simple->get( "a", 5 ), $simple->get( "b" ), $simple->get( "c", 6 ), $simple->has( "a" ), $simple->has( "c" ) );', array( null, 1, 6, true, false ) ),
	'of no lifetime is deleted'           => array( '$simple->set( "b", 1 ); return array( $simple->set( "b", 2, 0 ), $simple->has( "b" ), $simple->set( "b", 2, new DateInterval( "PT1H" ) ), $simple->get( "b" ) );', array( true, false, true, 2 ) ),
	'is deleted once and again'           => array( '$simple->set( "b", 1 ); return array( $simple->delete( "b" ), $simple->delete( "b" ), $simple->has( "b" ) );', array( true, true, false ) ),
	'is one of many'                      => array( '$simple->setMultiple( array( 7 => "x", "y" => "z" ) ); $simple->deleteMultiple( array( "y" ) ); return $simple->getMultiple( new ArrayIterator( array( "7", "y" ) ), 0 );', array( 7 => 'x', 'y' => 0 ) ),
	'of another group stays after a clear' => array( '$cache->set( "k", 1 ); $simple->set( "k", 2 ); return array( $simple->clear(), $simple->get( "k" ), $cache->get( "k" ) );', array( true, null, 1 ) ),
	'has no reserved character'           => array( '$r = array(); foreach ( array( "", "a{b", "a}", "(", ")", "a/b", "\\\\", "@", ":" ) as $key ) { try { $simple->get( $key ); $r[] = $key; } catch ( Psr\SimpleCache\InvalidArgumentException $refused ) { $r[] = get_class( $refused ); } } return array_unique( $r );', array( 'Tidemark\InvalidKey' ) ),
) as $name => list( $code, $expected ) ) {
	$printed = Checks::run( $folder, "$begin \$simple = new Tidemark\SimpleCache( \$cache ); \$act = function () use ( \$simple, \$cache ) { $code }; echo serialize( \$act() );" );
	Checks::same( "PSR-16: a key $name", @unserialize( $printed ) ?: $printed, $expected );
}
$tagged = $begin . '$tagged = new Tidemark\TaggedCache( $cache ); $made = 0; $get = function ( $key, $tags ) use ( $tagged, &$made ) { return $tagged->remember( $key, $tags, 60, function () use ( &$made ) { return ++$made; } ); };';
foreach ( array(
	'one is made once'                             => array( '$r = array( $get( "a", array( "x", "y" ) ), $get( "a", array( "y", "x" ) ) ); return $r;', array( 1, 1 ) ),
	'one ends with each of its tags, and no other' => array( '$r = array( $get( "b", array( "x", "y" ) ), $get( "c", array( "z" ) ) ); $r[] = $tagged->invalidate( "y", "none" ); return array_merge( $r, array( $get( "b", array( "x", "y" ) ), $get( "c", array( "z" ) ) ) );', array( 1, 2, true, 3, 2 ) ),
	'one with other tags is another'               => array( '$r = array( $get( "d", array( "x" ) ), $get( "d", array() ), $get( "d", array() ) ); return $r;', array( 1, 2, 2 ) ),
	'one that is made during an invalidation is not kept' => array( '$r = array( $tagged->remember( "e", array( "x" ), 60, function () use ( $tagged ) { $tagged->invalidate( "x" ); return "old"; } ), $get( "e", array( "x" ) ) ); return $r;', array( 'old', 1 ) ),
	'an exception is thrown and nothing kept'      => array( 'try { $tagged->remember( "f", array( "x" ), 60, function () { throw new Exception( "no" ); } ); } catch ( Exception $thrown ) { $r[] = $thrown->getMessage(); } $r[] = $get( "f", array( "x" ) ); return $r;', array( 'no', 1 ) ),
) as $name => list( $code, $expected ) ) {
	$printed = Checks::run( $folder, "$tagged \$act = function () use ( \$tagged, \$get ) { $code }; echo serialize( \$act() );" );
	Checks::same( "of values with tags $name", @unserialize( $printed ) ?: $printed, $expected );
}
