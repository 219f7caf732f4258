<?php
// What is measured of a drop-in, in a process that has it: microseconds of CPU for each operation.

/** Operation => CPU; `$count` entries of 5 KB and as many of 1 KB, built before the clock starts. Keys begin with `$own`. */
function measure( $count, $own = '' ) {
	$large = $small = array();
	for ( $i = 0; $i < $count; ++$i ) {
		$large[ "_transient_{$own}t$i" ] = str_repeat( md5( "t$i" ), 160 );

		$post          = new stdClass();
		$post->ID      = $i;
		$post->content = str_repeat( md5( "p$i" ), 28 );
		$post->title   = "Post $i";

		$small[ "{$own}p$i" ] = $post;
	}
	$times = array(
		'set 5 KB' => clock( $large, function ( $key, $value ) {
			wp_cache_set( $key, $value, 'transient', 3600 );
		} ),
		'set 1 KB' => clock( $small, function ( $key, $value ) {
			wp_cache_set( $key, $value, 'posts' );
		} ),
	);
	wp_cache_flush_runtime();
	$times['get 5 KB'] = clock( $large, function ( $key ) {
		wp_cache_get( $key, 'transient' );
	} );
	$times['get 1 KB'] = clock( $small, function ( $key ) {
		wp_cache_get( $key, 'posts' );
	} );
	$times['get again'] = clock( $small, function ( $key ) {
		wp_cache_get( $key, 'posts' );
	} );
	$times['miss'] = clock( $small, function ( $key ) {
		wp_cache_get( $key, 'none' );
	} );
	$times['delete'] = clock( $large, function ( $key ) {
		wp_cache_delete( $key, 'transient' );
	} );
	return $times + lists( $count, $own ) + many_at_once( $small ) + transients( $large );
}

/** Small lists, such as the ids of the terms of a post. */
function lists( $count, $own ) {
	$lists = array();
	for ( $i = 0; $i < $count; ++$i ) {
		$lists[ "{$own}l$i" ] = range( $i, $i + 9 );
	}
	$times = array( 'set list' => clock( $lists, function ( $key, $value ) {
		wp_cache_set( $key, $value, 'lists' );
	} ) );
	wp_cache_flush_runtime();
	$times['get list'] = clock( $lists, function ( $key ) {
		wp_cache_get( $key, 'lists' );
	} );
	return $times;
}

/** For each entry, where a hundred are written by one call. */
function many_at_once( array $values ) {
	$hundreds = array_chunk( $values, 100, true );
	$time     = clock( $hundreds, function ( $number, $some ) {
		wp_cache_set_multiple( $some, "many-$number" );
	} );
	return array( 'set of 100' => $time / 100 );
}

/** By WordPress's own functions, where it is there: what is above the drop-in is its share. */
function transients( array $values ) {
	if ( ! function_exists( 'set_transient' ) ) {
		return array();
	}
	$times = array( 'transient set' => clock( $values, function ( $key, $value ) {
		set_transient( $key, $value, 3600 );
	} ) );
	wp_cache_flush_runtime();
	$times['transient get'] = clock( $values, function ( $key ) {
		get_transient( $key );
	} );
	$times['transient delete'] = clock( $values, function ( $key ) {
		delete_transient( $key );
	} );
	return $times;
}

/** CPU of the process, user and system, without that of the loop itself. */
function clock( array $values, $operation ) {
	$nothing = function ( $key, $value ) {};
	$spent   = array();
	foreach ( array( $nothing, $operation ) as $act ) {
		$before = cpu();
		foreach ( $values as $key => $value ) {
			$act( $key, $value );
		}
		$spent[] = cpu() - $before;
	}
	return ( $spent[1] - $spent[0] ) / count( $values );
}

function cpu() {
	$used = getrusage();
	return 1e6 * ( $used['ru_utime.tv_sec'] + $used['ru_stime.tv_sec'] )
		+ $used['ru_utime.tv_usec'] + $used['ru_stime.tv_usec'];
}
