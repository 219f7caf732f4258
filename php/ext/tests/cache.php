<?php
// What each method of `Tidemark\Cache` says, alone and after another process.

$folder = Checks::folder();
$cases = array(
	'add, replace and delete say whether there was a value' => array(
		'var_dump( $cache->add( "a", 1 ), $cache->add( "a", 2 ), $cache->get( "a" ), $cache->replace( "a", 3 ), $cache->replace( "b", 3 ), $cache->delete( "a" ), $cache->delete( "a" ), $cache->get( "a", "d" ) );',
		array( true, false, 1, true, false, true, false, 'd' ) ),
	'null and false are values' => array(
		'$cache->set( "n", null ); $cache->set( "f", false ); var_dump( $cache->get( "n", "d" ), $cache->get( "f", "d" ), $cache->get( "none" ), $cache->add( "n", 1 ) );',
		array( null, false, null, false ) ),
	'counts go to 0 and no further, and need a value' => array(
		'$cache->set( "c", 5 ); $cache->set( "t", " 7 " ); $cache->set( "x", array( 1 ) ); var_dump( $cache->increment( "c", 3 ), $cache->decrement( "c", 100 ), $cache->increment( "t" ), $cache->increment( "x" ), $cache->increment( "none" ), $cache->get( "none" ), $cache->decrement( "c", PHP_INT_MIN ) );',
		array( 8, 0, 8, 1, false, null, PHP_INT_MAX ) ),
	'groups keep keys apart, and are emptied alone' => array(
		'$cache->set( "k", 1, 0, "a|b" ); $cache->set( "b|k", 2, 0, "a" ); $cache->set( "k", 3 ); $cache->flushGroup( "a" ); var_dump( $cache->get( "k", null, "a|b" ), $cache->get( "b|k", null, "a" ), $cache->get( "k" ) ); $cache->flush(); var_dump( $cache->get( "k" ) );',
		array( 1, null, 3, null ) ),
	'many at once keep their order and their names' => array(
		'var_dump( json_encode( $cache->setMultiple( array( "x" => 1, 7 => 2, "y" => null ) ) ), json_encode( $cache->getMultiple( array( "y", "none", 7, "x" ), "d" ) ), json_encode( $cache->deleteMultiple( array( "x", "none" ) ) ) );',
		array( '{"x":true,"7":true,"y":true}', '{"y":null,"none":"d","7":2,"x":1}', '{"x":true,"none":false}' ) ),
	'a key that was missed before too many others to know its deletions is deleted, not stored' => array(
		'$cache->get( "z" ); for ( $i = 0; $i <= 200000; ++$i ) { $cache->get( "m$i" ); } var_dump( $cache->set( "z", 2 ), $cache->get( "z", "gone" ), $cache->set( "z", 3 ), $cache->get( "z" ) );',
		array( false, 'gone', true, 3 ) ),
	'a key that was never missed is added and set after many others were' => array(
		// Of 200,000 keys that are forgotten, 2 % of the others share the bits.
		'for ( $i = 0; $i <= 200000; ++$i ) { $cache->get( "m$i" ); } $added = $set = 0; for ( $i = 0; $i < 100; ++$i ) { $added += $cache->add( "free$i", 1 ); $set += $cache->set( "new$i", 1 ); } var_dump( $added > 80, $set > 80 );',
		array( true, true ) ),
	'a key that was missed before many others is added' => array(
		'$cache->get( "early" ); for ( $i = 0; $i <= 100000; ++$i ) { $cache->get( "m$i" ); } var_dump( $cache->add( "early", 1 ), $cache->get( "early" ) );',
		array( true, 1 ) ),
	'a value without bytes, or with too many, is told from a fault' => array(
		'$t = tidemark_open( (string) $file, 16 << 20 ); tidemark_put( $t, "", "u", 1, 0, 0 ); var_dump( tidemark_put( $t, "", "u", function () {}, 0, 2 ), tidemark_put( $t, "", "u", str_repeat( "x", 8 << 20 ), 0, 0 ), tidemark_get( $t, "", "u" ) );',
		array( false, false, array( 1, 0 ) ) ),
	'a text is remembered under its name' => array(
		'tidemark_remember( "n", "text" ); tidemark_remember( "m", str_repeat( "x", 20000 ) ); for ( $i = 0; $i < 15; ++$i ) { tidemark_remember( "o$i", "t" ); } var_dump( tidemark_recall( "n" ), tidemark_recall( "m" ), tidemark_recall( "none" ) ); tidemark_remember( "p", "t" ); ini_set( "open_basedir", "/tmp" ); var_dump( tidemark_recall( "n" ), tidemark_recall( "p" ) );',
		array( 'text', null, null, null, null ) ),
	'keys are bytes and may be long' => array(
		'$keys = array( "7", "07", " 7", "7.0", "\0", "K", "k", str_repeat( "l", 4096 ), str_repeat( "l", 4095 ) . "m" ); foreach ( $keys as $at => $key ) { $cache->set( $key, $at ); } $found = array(); foreach ( $keys as $key ) { $found[] = $cache->get( $key ); } var_dump( implode( ",", $found ) );',
		array( '0,1,2,3,4,5,6,7,8' ) ),
	'a value above a quarter of a ring is not stored, and the older one is gone' => array(
		'$cache->set( "big", 1 ); var_dump( $cache->set( "big", str_repeat( "x", 8 << 20 ) ), $cache->get( "big" ) );',
		array( false, null ) ),
	'a path that is not absolute, or not allowed, is refused' => array(
		'ini_set( "open_basedir", sys_get_temp_dir() ); foreach ( array( "relative", "/nowhere/table" ) as $path ) { try { new Tidemark\Cache( $path ); } catch ( ValueError $error ) { var_dump( $error->getMessage() ); } }',
		array( 'Tidemark\Cache::__construct(): Argument #1 ($file) must be an absolute path within open_basedir, not used while preloading, and one of at most 16 files of a request', 'Tidemark\Cache::__construct(): Argument #1 ($file) must be an absolute path within open_basedir, not used while preloading, and one of at most 16 files of a request' ) ),
	'a size out of bounds names them' => array(
		'try { new Tidemark\Cache( "/tmp/x", 5 ); } catch ( ValueError $error ) { var_dump( $error->getMessage() ); }',
		array( 'Tidemark\Cache::__construct(): Argument #2 ($bytes) must be from 8 MiB to 64 GiB' ) ),
	'a file that cannot be used says why, and nothing is stored' => array(
		'file_put_contents( "/tmp/tidemark-ext-plain", "" ); $other = new Tidemark\Cache( "/tmp/tidemark-ext-plain/table" ); var_dump( "" !== $other->fault(), $other->set( "a", 1 ), $other->get( "a", "d" ), $other->flush() ); unlink( "/tmp/tidemark-ext-plain" );',
		array( true, false, 'd', false ) ),
	'the functions of the drop-in tell a fault from a miss' => array(
		'$t = tidemark_open( "/proc/none/table", 16 << 20 ); var_dump( tidemark_get( $t, "", "k" ), tidemark_put( $t, "", "k", 1, 0, 0 ), tidemark_delete( $t, "", "k" ), tidemark_raise( $t, "", "k", 1 ), tidemark_interface() );',
		array( null, null, null, null, 2 ) ),
);
foreach ( $cases as $name => list( $code, $expected ) ) {
	ob_start();
	var_dump( ...$expected );
	Checks::same( $name, Checks::run( $folder, $code ), ob_get_clean() );
}
Checks::same( 'a lifetime ends, also that of a counted number', Checks::run( $folder,
	'$t = tidemark_open( "' . $folder . '/table", 16 << 20 ); $now = time(); tidemark_put( $t, "", "e", 1, $now + 100, 0 ); $until = tidemark_get( $t, "", "e" )[1];'
	. '$raised = tidemark_raise( $t, "", "e", 1 ); tidemark_put( $t, "", "past", 1, $now - 5, 0 ); var_dump( abs( $until - $now - 100 ) < 2, $raised[0], abs( $raised[1] - $now - 100 ) < 2, tidemark_get( $t, "", "past" ) );' ),
	"bool(true)\nint(2)\nbool(true)\nbool(false)\n" );
$folder = Checks::folder();
Checks::same( 'what was missed before another process deleted it is not stored', Checks::run( $folder,
	'$cache->get( "lease" ); $command = array( PHP_BINARY, "-d", "extension=' . Checks::$library . '", "-r", "(new Tidemark\\\\Cache(\'' . $folder . '/table\', 16 << 20))->delete(\'lease\');" );'
	. 'proc_close( proc_open( $command, array(), $pipes ) ); $old = $cache->set( "lease", "old" ); $cache->get( "lease" ); var_dump( $old, $cache->set( "lease", "new" ), $cache->get( "lease" ), $cache->stats()["refused"] );' ),
	"bool(false)\nbool(true)\nstring(3) \"new\"\nint(1)\n" );
