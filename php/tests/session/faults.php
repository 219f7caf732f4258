<?php
// Faults on a real host: the page is, byte for byte, what it is without a cache.

$host->start_fpm( 'two' );
during( 'nothing wrong', function () {} );
during( 'garbage', function ( $store ) {
	file_put_contents( $store, random_bytes( 100000 ) );
} );
during( 'truncated', function ( $store ) {
	$file = fopen( $store, 'r+' );
	ftruncate( $file, 5000 );
} );
during( 'zero bytes', function ( $store ) {
	file_put_contents( $store, '' );
} );
during( 'read-only file', function ( $store ) {
	chmod( $store, 0400 );
} );
during( 'read-only folder', function ( $store ) {
	chmod( dirname( $store ), 0550 );
}, null, 'not writable' );
during( 'wrong owner of the folder', function ( $store ) {
	Host::shell( 'chown -R root: ' . dirname( $store ) );
}, null, 'owned by another user' );
during( 'wrong owner of the file', function ( $store ) {
	chown( $store, 'root' );
} );

$away = "{$host->folder}/away";
mkdir( $away );
during( 'read-only file system', function () use ( $host, $away ) {
	Host::shell( "mount -t tmpfs -o size=16m tmpfs $away && chown www-data $away" );
	$host->configure( array( 'TIDEMARK_CACHE_DIR' => $away ) );
	pages();
	$host->between_workers( function () use ( $away ) {
		Host::shell( "mount -o remount,ro $away" );
	} );
}, function () use ( $host, $away ) {
	Host::shell( "umount -l $away" );
	$host->configure( array() );
} );
during( 'full disk', function () use ( $host, $away ) {
	Host::shell( "mount -t tmpfs -o size=2m tmpfs $away && chown www-data $away" );
	$host->configure( array( 'TIDEMARK_CACHE_DIR' => $away ) );
	pages();
	// What is left of the disk goes to another file.
	exec( "dd if=/dev/zero of=$away/filler bs=4k 2>/dev/null" );
	command( 'flush' );
}, function () use ( $host, $away ) {
	Host::shell( "umount -l $away" );
	$host->configure( array() );
} );
during( 'no inode left', function () use ( $host, $away ) {
	Host::shell( "mount -t tmpfs -o size=16m,nr_inodes=4 tmpfs $away && chown www-data $away" );
	$host->configure( array( 'TIDEMARK_CACHE_DIR' => $away ) );
}, function () use ( $host, $away ) {
	Host::shell( "umount -l $away" );
	$host->configure( array() );
} );
during( 'file system of FUSE', function () use ( $host, $away ) {
	mkdir( "{$host->folder}/below" );
	chown( "{$host->folder}/below", 'www-data' );
	Host::shell( "bindfs {$host->folder}/below $away" );
	$host->configure( array( 'TIDEMARK_CACHE_DIR' => $away ) );
}, function () use ( $host, $away ) {
	Suite::same( 'nothing is stored on FUSE', glob( "$away/.ht-*/store*" ), array() );
	Host::shell( "umount -l $away" );
	$host->configure( array() );
}, 'TIDEMARK_CACHE_DIR names a local one' );

// No file system of NFS can be mounted here: what the system says of its mounts is replaced.
$system = "{$host->folder}/system";
Host::shell( "mkdir -p $system/self $system/sys/kernel/random" );
copy( '/proc/sys/kernel/random/boot_id', "$system/sys/kernel/random/boot_id" );
file_put_contents( "$system/self/mounts", "/dev/sda1 / ext4 rw 0 0\nnas:/www {$host->site} nfs4 rw 0 0\n" );
$masters = function ( array $before ) use ( $host ) {
	$host->restart_fpm( 'one', $before );
	$host->restart_fpm( 'two', $before );
};
during( 'folder on NFS, as the list of mounts says', function ( $store ) use ( $system, $masters ) {
	// Else it is remembered that the same folder was local.
	array_map( 'unlink', glob( dirname( $store, 2 ) . '/.ht-tidemark-site-*' ) );
	$masters( array( 'unshare', '--mount', 'sh', '-c', "mount --bind $system /proc && exec \"\$@\"", 'sh' ) );
}, function () use ( $masters ) {
	$masters( array() );
}, 'the folder is on nfs4' );

foreach ( array( '+3 days', '-3 days' ) as $step ) {
	during( "clock steps by $step", function () use ( $host, $step ) {
		$host->restart_fpm( 'one', array( Host::program( 'faketime' ), '-f', str_replace( ' days', 'd', $step ) ) );
	}, function () use ( $host ) {
		$host->restart_fpm( 'one' );
	} );
}

// An upgrade: processes of two versions, each with a format of its own, take turns.
$other = "{$host->folder}/other.php";
file_put_contents( $other, str_replace( 'const FORMAT  =', 'const FORMAT  = 90 +', file_get_contents( $drop_in ) ) );
install( $drop_in );
$seen = array();
foreach ( array( $other, $drop_in, $other, $drop_in ) as $version ) {
	install( $version );
	array_push( $seen, pages(), pages( 'two' ) );
}
Suite::same( 'pages are those without a cache: two versions take turns', $seen, array_fill( 0, 8, $plain ) );
Suite::same( 'store is sound after the turns', command( 'verify' ), array( 0, array( 'Success: The store is sound.' ) ) );

// What a person writes is on the next page, whichever user served it before.
foreach ( array( 'www-data', 'root' ) as $user ) {
	$title = "Changed by $user";
	$host->run_in_site( 'rename.php', array( $title ), $user );
	Suite::same( "post changed from the command line by $user is seen by each master", array(
		false !== strpos( $host->page( '/post-1/' )[1], $title ),
		false !== strpos( $host->page( '/post-1/', 'two' )[1], $title ),
	), array( true, true ) );
}
remove();
