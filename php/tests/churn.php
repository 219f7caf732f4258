<?php
// More entries than the store may hold, and times that move by hours.

$site     = Suite::site();
$requests = array();
for ( $i = 0; $i < 2; ++$i ) {
	$requests[] = Suite::start( $site, 'mt_srand( ' . $i . ' ); $log = 0;
		for ( $i = 0; $i < 6000; ++$i ) { $k = "k" . mt_rand( 0, 20000 ); $r = mt_rand( 0, 9 );
		if ( $r < 6 ) wp_cache_set( $k, str_repeat( "x", mt_rand( 10, 6000 ) ), "g" );
		elseif ( $r < 8 ) wp_cache_delete( $k, "g" ); else wp_cache_get( $k, "g" );
		if ( 0 === $i % 100 ) { wp_cache_flush_runtime(); clearstatcache();
			$log = max( $log, @filesize( Tidemark_Tiers::shared()->place->file( "store.sqlite-wal" ) ) ); } }
		$counts = Tidemark_Tiers::shared()->notices->counts;
		return array( $log < 67108864, $counts["failed"] ?? 0,
		Tidemark_Tiers::shared()->counts()["entries"] > 500 );',
		array( 'constants' => array( 'TIDEMARK_CACHE_MB' => 8 ) ) );
}
Suite::same( 'churn beyond the size keeps serving, within file and log',
	array( Suite::finish( $requests[0] ), Suite::finish( $requests[1] ),
		filesize( Suite::store( $site ) ) <= 8388608 ),
	array( array( true, 0, true ), array( true, 0, true ), true ) );
