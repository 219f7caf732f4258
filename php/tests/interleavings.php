<?php
/**
 * Every order of the steps of readers and writers of one row of a database, over the real
 * tiers: each process is a set of tiers of its own. After each order a new reader asks; where
 * it gets a value that is not the row's, the cache is wrong for ever.
 */

/** Orders of processes with so many steps each, as lists of their numbers. */
function orders( array $left ) {
	if ( 0 === array_sum( $left ) ) {
		yield array();
		return;
	}
	foreach ( $left as $process => $steps ) {
		if ( $steps > 0 ) {
			$rest = $left;
			--$rest[ $process ];
			foreach ( orders( $rest ) as $order ) {
				yield array_merge( array( $process ), $order );
			}
		}
	}
}

/** The steps of a process: each a closure over the database and the process's own memory. */
function steps_of( $kind, $option, $value ) {
	$load = array(
		function ( &$row, $cache, &$own ) {
			$own = $cache->get( 'alloptions', 'options' );
		},
		function ( &$row, $cache, &$own ) {
			$own = false === $own ? array( 'query' => $row ) : $own;
		},
		function ( &$row, $cache, &$own ) {
			if ( isset( $own['query'] ) ) {
				$own = $own['query'];
				$cache->add( 'alloptions', $own, 'options' );
			}
		},
	);
	if ( 'reader' === $kind ) {
		return $load;
	}
	// Core's order: the database, a forced read (which queries and adds on a miss), the cache.
	return array(
		function ( &$row ) use ( $option, $value ) {
			$row[ $option ] = $value;
		},
		function ( &$row, $cache, &$own ) {
			$own = $cache->get( 'alloptions', 'options', true );
		},
		$load[1],
		$load[2],
		function ( &$row, $cache, &$own ) use ( $option, $value ) {
			$own[ $option ] = $value;
			$cache->set( 'alloptions', $own, 'options' );
		},
	);
}

/** A reader that misses, queries and adds; a writer that updates and deletes. */
function steps_of_row( $kind ) {
	if ( 'writer' === $kind ) {
		return array(
			function ( &$row ) {
				$row = 'new';
			},
			function ( &$row, $cache ) {
				$cache->delete( 'row' );
			},
		);
	}
	return array(
		function ( &$row, $cache, &$own ) {
			$own = $cache->get( 'row' );
		},
		function ( &$row, $cache, &$own ) {
			$own = $row;
		},
		function ( &$row, $cache, &$own ) {
			$cache->add( 'row', $own );
		},
	);
}

/** A cache of its own over tiers of its own, as another process has them; or another master. */
function other_process( $master = null, $number = 0 ) {
	$cache = new WP_Object_Cache();
	$tiers = other_tiers( $number );
	if ( null !== $master ) {
		$change = function () use ( $master ) {
			$this->apcu = new Tidemark_Apcu( $this->place->identity . "-$master" );
		};
		$change->call( $tiers );
	}
	$enter = function () use ( $tiers ) {
		$this->tiers = $tiers;
	};
	$enter->call( $cache );
	return $cache;
}

/** As at the end of a request: the next one looks around again, which is needed with APCu only. */
function end_request( $cache ) {
	$cache->flush_runtime();
	forget_leases( $cache );
	$cache->tidemark_tiers()->close();
	$end = function () {
		if ( isset( $this->apcu ) ) {
			$this->checked_at = null;
			$this->apcu_at    = null;
		}
	};
	$end->call( $cache->tidemark_tiers() );
}

function forget_leases( $cache ) {
	$forget = function () {
		if ( isset( $this->table ) ) {
			tidemark_end( $this->table );
		} else {
			$this->leases = array();
		}
	};
	$forget->call( $cache->tidemark_tiers() );
}

/** How many orders leave a wrong value behind, of how many; each process of its own master. */
function wrong_orders( array $processes, $row, $key, $group, $is_warm, $has_lease, $masters ) {
	$numbers = $masters ? range( 0, count( $processes ) )
		: array_fill( 0, count( $processes ) + 1, null );
	$caches  = array_map( 'other_process', $numbers, array_keys( $numbers ) );
	$last    = array_pop( $caches );
	$counts = array( 0, 0 );
	foreach ( orders( array_map( 'count', $processes ) ) as $order ) {
		$database = $row;
		$last->flush();
		if ( $is_warm ) {
			$last->add( $key, $row, $group );
		}
		$own = $next = array_fill( 0, count( $processes ), 0 );
		foreach ( $order as $at ) {
			$processes[ $at ][ $next[ $at ]++ ]( $database, $caches[ $at ], $own[ $at ] );
			if ( ! $has_lease ) {
				forget_leases( $caches[ $at ] );
			}
		}
		array_map( 'end_request', $caches );
		end_request( $last );
		$seen = $last->get( $key, $group, true, $found );
		++$counts[1];
		$counts[0] += $found && $seen !== $database ? 1 : 0;
	}
	return $counts;
}
