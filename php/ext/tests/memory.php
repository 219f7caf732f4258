<?php
// No byte is used that is not there or was never written, as Valgrind sees it, where it is installed.

$valgrind = trim( (string) shell_exec( 'command -v valgrind' ) );
if ( '' !== $valgrind ) {
	$command = array( $valgrind, '-q', '--error-exitcode=9', '--leak-check=no', PHP_BINARY, '-d', 'opcache.enable=0',
		'-d', 'extension=' . Checks::$library, __DIR__ . '/uses.php', Checks::folder() );
	// The allocator of Zend would hide the end of each block.
	$process = proc_open( $command, array( 1 => array( 'pipe', 'w' ), 2 => array( 'redirect', 1 ) ), $pipes, null,
		array( 'USE_ZEND_ALLOC' => '0' ) );
	$printed = stream_get_contents( $pipes[1] );
	Checks::same( 'Valgrind finds nothing', array( $printed, proc_close( $process ) ), array( '', 0 ) );
}
