<?php
// Classes that are others when a value is read, bytes that are, and callers in odd orders.

$folder = Checks::folder();

/** What `$read` prints of what `$write` stored as `v`, each in a process of its own. */
$passed_on = function ( $name, $write, $read, $expected ) use ( $folder ) {
	Checks::same( $name, Checks::run( $folder, $write ) . Checks::run( $folder, $read ), $expected );
};

$five = '$o = new Held; $v = 5; foreach ( array( "a", "b", "c", "d", "s" ) as $n ) { $o->$n = &$v; } $cache->set( "v", $o );';
$passed_on( 'a reference that one of five typed properties refuses is a miss',
	'class Held { public $a; public $b; public $c; public $d; public $s; }' . $five,
	'class Held { public int $a; public int $b; public int $c; public int $d; public string $s; }'
	. 'for ( $i = 0; $i < 50; ++$i ) { $found = $cache->get( "v", "missing" ); } var_dump( $found );', "string(7) \"missing\"\n" );
$passed_on( 'a class that has learned to take its state is given its properties',
	'class Taught { public $x = 1; private $y = 2; } $cache->set( "v", new Taught );',
	'class Taught { public $x; public function __unserialize( array $given ): void { $this->x = $given; } }'
	. 'var_dump( $cache->get( "v" )->x === array( "x" => 1, "\0Taught\0y" => 2 ) );', "bool(true)\n" );
$gives = 'class Gives { public $x = 1; public function __serialize(): array { return array( "x" => 7 ); } }';
$passed_on( 'a class that gives its state and takes none has it as properties',
	$gives . '$cache->set( "v", new Gives );', $gives . 'var_dump( $cache->get( "v" )->x );', "int(7)\n" );
$passed_on( 'a property of another visibility keeps its value',
	'class Seen { private $x = 9; } $cache->set( "v", new Seen );',
	'class Seen { protected $x = 1; public function x() { return $this->x; } } var_dump( $cache->get( "v" )->x(), count( (array) $cache->get( "v" ) ) );',
	"int(9)\nint(1)\n" );
$late = 'class Late { public $x = "old"; public function __sleep() { $this->x = "new"; return array( "x" ); } }';
$passed_on( 'what `__sleep` changes is stored as it is then',
	$late . '$cache->set( "v", new Late );', $late . 'var_dump( $cache->get( "v" )->x );', "string(3) \"new\"\n" );
Checks::same( 'an object with one property twice is a miss', Checks::run( $folder,
	'$cache->set( "v", (object) array( "pa0" => 1, "pb0" => 2 ) ); $cache->get( "v" );'
	. '$file = "' . $folder . '/table"; $bytes = file_get_contents( $file ); $to = fopen( $file, "r+" );'
	. 'fseek( $to, strrpos( $bytes, "pb0" ) ); fwrite( $to, "pa0" ); $found = $cache->get( "v", "missing" );'
	. 'var_dump( $found, isset( $found->q0 ) );' ), "string(7) \"missing\"\nbool(false)\n" );
Checks::same( 'a class that is lost leaves nothing', Checks::run( $folder,
	'$cache->set( "v", unserialize( "O:4:\"None\":0:{}" ) ); $cache->get( "v" ); $before = memory_get_usage();'
	. 'for ( $i = 0; $i < 1000; ++$i ) { $cache->get( "v" ); } var_dump( memory_get_usage() - $before < 4096 );' ), "bool(true)\n" );

$waits = 'class Waits { public $n; public function __construct( $n ) { $this->n = $n; }'
	. ' public function __serialize(): array { Fiber::suspend(); return array( "n" => $this->n ); }'
	. ' public function __unserialize( array $given ): void { $this->n = $given["n"]; } }';
Checks::same( 'values of fibers that end in another order are their own', Checks::run( $folder, $waits
	. '$set = function ( $n ) use ( $cache ) { $fiber = new Fiber( function () use ( $cache, $n ) { $cache->set( "f$n", new Waits( $n ) ); } ); $fiber->start(); return $fiber; };'
	. '$one = $set( 1 ); $two = $set( 2 ); $one->resume(); $three = $set( 3 ); $two->resume(); $three->resume();'
	. 'foreach ( array( 1, 2, 3 ) as $n ) { echo $cache->get( "f$n" )->n; }' ), '123' );

/** Code that runs other code in a process of its own. */
$other = function ( $code ) use ( $folder ) {
	return '$command = array( PHP_BINARY, "-d", "extension=' . Checks::$library . '", "-r", ' . var_export( "\$c = new Tidemark\\Cache( '$folder/table', 16 << 20 ); $code", true ) . ' );'
		. 'proc_close( proc_open( $command, array(), $pipes ) );';
};
Checks::same( 'a lock that others have held since can be had again', Checks::run( $folder,
	'var_dump( $cache->add( "lock", 1 ), $cache->delete( "lock" ) );' . $other( '$c->add( "lock", 2 ); $c->delete( "lock" );' )
	. '$tries = 0; while ( ! $cache->add( "lock", 3 ) && ++$tries < 5 ); var_dump( $tries < 2 );' ), str_repeat( "bool(true)\n", 3 ) );
Checks::same( 'a value that a deletion of another key refuses leaves none that is older', Checks::run( $folder,
	'$cache->delete( "v" ); $cache->get( "v" ); var_dump( $cache->set( "v", 1 ) );' . $other( 'for ( $i = 0; $i < 300000; ++$i ) { $c->delete( "d$i" ); }' )
	. 'var_dump( $cache->set( "v", 2 ), $cache->get( "v" ), $cache->set( "v", 3 ), $cache->get( "v" ) );' ),
	"bool(true)\nbool(false)\nNULL\nbool(true)\nint(3)\n" );
Checks::same( 'a lock of another process stays where much was missed', Checks::run( $folder,
	$other( '$c->set( "held", "theirs" );' ) . 'for ( $i = 0; $i <= 200000; ++$i ) { $cache->get( "m$i" ); } $cache->add( "held", "ours" ); var_dump( $cache->add( "held", "ours" ), $cache->get( "held" ) );' ),
	"bool(false)\nstring(6) \"theirs\"\n" );
Checks::same( 'missed keys take no memory without bound', Checks::run( $folder,
	'$held = function () { preg_match( "/VmRSS:\s+(\d+)/", file_get_contents( "/proc/self/status" ), $found ); return (int) $found[1]; };'
	. '$before = $held(); for ( $i = 0; $i < 4000; ++$i ) { $cache->get( str_repeat( "k", 16000 ) . $i ); } var_dump( $held() - $before < 40000 );' ), "bool(true)\n" );
Checks::same( 'a lifetime is never shorter than said, and a time that has passed is no lifetime', Checks::run( $folder,
	'$table = tidemark_open( "' . $folder . '/table", 16 << 20 ); $from = microtime( true ); $cache->set( "e", 1, 1 ); $until = tidemark_get( $table, "", "e" )[1];'
	. 'tidemark_put( $table, "", "n", 1, -5, 0 ); var_dump( $until >= $from + 1, tidemark_get( $table, "", "n" ) );' ), "bool(true)\nbool(false)\n" );
Checks::same( 'a value that is too large is a fault that says so', Checks::run( $folder,
	'$cache->set( "big", str_repeat( "x", 8 << 20 ) ); echo substr( $cache->fault(), 0, 18 );' ), 'key and value have' );

$port = Checks::server();
$secret = Checks::folder();
Checks::same( 'a table that a request has not opened is none of its', Checks::ask( $port, $folder,
	'$secret = new Tidemark\Cache( "' . $secret . '/table", 16 << 20 ); $secret->set( "s", "secret" ); $t = tidemark_open( "' . $secret . '/table", 16 << 20 );'
	. 'var_dump( tidemark_get( $t, "", "s" )[0], tidemark_get( $t + ( 1 << 32 ), "", "s" ) );' )
	. Checks::ask( $port, $folder, 'foreach ( range( 0, 15 ) as $t ) { echo json_encode( tidemark_get( $t, "", "s" ) ), "" === tidemark_fault( $t ) ? "+" : "-"; }' ),
	"string(6) \"secret\"\nNULL\nfalse+" . str_repeat( 'null-', 15 ) );
Checks::same( 'files of one request leave the next one its own', Checks::ask( $port, $folder,
	'try { for ( $i = 0; $i < 20; ++$i ) { new Tidemark\Cache( "' . $secret . '/many$i", 16 << 20 ); } } catch ( ValueError $error ) { echo "refused "; }' )
	. Checks::ask( $port, $folder, '$new = new Tidemark\Cache( "' . $secret . '/next", 16 << 20 ); var_dump( $new->set( "a", 1 ), $new->get( "a" ) );' ),
	"refused bool(true)\nint(1)\n" );
