<?php
// What both sessions on a real host do: `$host` and `$content` are theirs.

const PAGES = array( '/', '/post-1/', '/tag/tag1/', '/none/' );

function pages( $master = 'one' ) {
	global $host;
	return array_combine( PAGES, array_map( function ( $path ) use ( $host, $master ) {
		return $host->page( $path, $master );
	}, PAGES ) );
}

/** As a user does it. */
function install( $file ) {
	global $content;
	Host::shell( 'cp ' . escapeshellarg( $file ) . " $content/object-cache.php.new" );
	Host::shell( "chown www-data: $content/object-cache.php.new" );
	rename( "$content/object-cache.php.new", "$content/object-cache.php" );
}

function remove() {
	global $content;
	Host::shell( "rm -rf $content/object-cache.php $content/.ht-tidemark-*" );
}

function store() {
	global $content;
	return ( glob( "$content/.ht-tidemark-*/" . Suite::store_file() ) ?: array( null ) )[0];
}

/** Hits of 10,000 look-ups over so many requests. */
function hit_ratio( $requests ) {
	global $host, $content;
	@unlink( "$content/counts" );
	for ( $i = 0; $i < $requests; ++$i ) {
		$host->page( '/post-' . ( 1 + $i % 40 ) . '/' );
	}
	$sums = array( 0, 0 );
	foreach ( file( "$content/counts" ) as $line ) {
		list( $hits, $misses ) = explode( ' ', trim( $line ) );
		$sums = array( $sums[0] + $hits, $sums[1] + $misses );
	}
	return 10000 * $sums[0] / max( 1, array_sum( $sums ) );
}

function command( ...$words ) {
	global $host;
	return $host->run( __DIR__ . '/wp-cli.php', array_merge( array( $host->site, 'tidemark' ), $words ), null, Suite::php() );
}
