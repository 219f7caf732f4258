<?php
/**
 * The contract of WordPress, and tier 0: a PHP array that lives as long as the request.
 *
 * The tiers below (APCu, SQLite) are behind Tidemark_Tiers. Its answer is null where none is in
 * use; then this class does what WordPress does without a drop-in.
 */
#[AllowDynamicProperties]
class WP_Object_Cache {
	/** Group => id => value. The id is the key, with the blog's number before it on multisite. */
	public $cache = array();
	public $cache_hits = 0;
	public $cache_misses = 0;
	protected $global_groups = array();
	protected $non_persistent_groups = array();
	/** Empty on a single site. Public for `wp_cache_get`, as the next one. */
	public $blog_prefix = '';
	/** Group => id => Unix time; of entries that expire. */
	public $expires = array();
	/** Group => prefix of its keys in the tiers below. */
	private $prefixes = array();
	private $multisite;
	/** @var Tidemark_Tiers|Tidemark_Native|null */
	private $tiers;

	public function __construct() {
		$this->multisite = function_exists( 'is_multisite' ) && is_multisite();
		if ( $this->multisite ) {
			$this->blog_prefix = get_current_blog_id() . ':';
		}
		$this->tiers = Tidemark_Tiers::shared();
	}

	public function __get( $name ) {
		return $this->$name;
	}

	public function __set( $name, $value ) {
		$this->$name = $value;
	}

	public function __isset( $name ) {
		return isset( $this->$name );
	}

	public function __unset( $name ) {
		unset( $this->$name );
	}

	public function get( $key, $group = 'default', $force = false, &$found = null ) {
		if ( ! is_int( $key ) && ! is_string( $key ) ) {
			$found = false;
			return $this->refuse_key( $key, __METHOD__ );
		}
		$group = $group ? $group : 'default';
		$id    = '' === $this->blog_prefix || isset( $this->global_groups[ $group ] )
			? $key : $this->blog_prefix . $key;
		if ( ! $force && isset( $this->cache[ $group ][ $id ] )
			&& ! isset( $this->expires[ $group ][ $id ] ) ) {
			$found = true;
			++$this->cache_hits;
			$value = $this->cache[ $group ][ $id ];
			try {
				return is_object( $value ) ? clone $value : $value; // `copy`, inlined.
			} catch ( Throwable $refused ) {
				return $value;
			}
		}
		return $this->get_from_tiers( $key, $group, $id, $force, $found );
	}

	/** What the fast path of `get` does not answer. */
	private function get_from_tiers( $key, $group, $id, $force, &$found ) {
		$found = false;
		// A key that begins with a letter needs no look at all of it.
		if ( is_string( $key ) && ( $key[0] ?? '' ) <= ' ' && '' === trim( $key ) ) {
			return $this->refuse_key( $key, __METHOD__ );
		}
		// Few calls: a page comes here some hundred times.
		$is_persistent = $this->tiers && ! isset( $this->non_persistent_groups[ $group ] );
		if ( ( ! $force || ! $is_persistent ) && isset( $this->cache[ $group ] ) && $this->has( $group, $id ) ) {
			$found = true;
		} elseif ( $is_persistent ) {
			$prefix = $this->prefixes[ $group ] ?? $this->prefix( $group );
			$below  = $this->tiers->get( $prefix, $key, $force );
			if ( $below ) {
				$found = true; // `take`, inlined.
				$this->cache[ $group ][ $id ] = $below[0];
				if ( $below[1] > 0 ) {
					$this->expires[ $group ][ $id ] = $below[1];
				} elseif ( isset( $this->expires[ $group ][ $id ] ) ) {
					unset( $this->expires[ $group ][ $id ] );
				}
			} elseif ( false !== $below || $force ) {
				$found = $this->take( $group, $id, $below );
			}
		}
		if ( ! $found ) {
			++$this->cache_misses;
			return false;
		}
		++$this->cache_hits;
		$value = $this->cache[ $group ][ $id ];
		return is_object( $value ) ? $this->copy( $value ) : $value;
	}

	public function get_multiple( $keys, $group = 'default', $force = false ) {
		$group         = $group ? $group : 'default';
		$is_persistent = $this->is_persistent( $group );
		$missing       = array();
		foreach ( (array) $keys as $key ) {
			if ( $is_persistent && self::is_key( $key )
				&& ( $force || ! $this->has( $group, $this->id( $key, $group ) ) ) ) {
				$missing[] = $key;
			}
		}
		if ( count( $missing ) > 1 ) {
			$prefix = $this->prefix( $group );
			$below  = $this->tiers->get_multiple( $prefix, $missing, $force );
			foreach ( $missing as $key ) {
				$this->take( $group, $this->id( $key, $group ), $below[ $key ] ?? null );
			}
		}
		$queried = array_flip( $missing );
		$values  = array();
		foreach ( (array) $keys as $key ) {
			$is_queried = count( $missing ) > 1 && self::is_key( $key ) && isset( $queried[ $key ] );
			$id         = $is_queried ? $this->id( $key, $group ) : null;
			if ( $is_queried && ! $this->has( $group, $id ) ) {
				++$this->cache_misses;
				$values[ $key ] = false;
			} elseif ( $is_queried ) {
				++$this->cache_hits;
				$values[ $key ] = $this->copy( $this->cache[ $group ][ $id ] );
			} elseif ( is_scalar( $key ) || null === $key ) {
				$values[ $key ] = $this->get( $key, $group, $force );
			} else {
				$this->refuse_key( $key, __METHOD__ );
			}
		}
		return $values;
	}

	public function set( $key, $data, $group = 'default', $expire = 0 ) {
		if ( ! self::is_key( $key ) ) {
			return $this->refuse_key( $key, __METHOD__ );
		}
		$group = $group ? $group : 'default';
		$at    = self::expires_at( $expire );
		$this->keep( $group, $this->id( $key, $group ), $data, $at );
		if ( $this->is_persistent( $group ) ) {
			// The value that one request merged would hide what another one wrote meanwhile.
			if ( 'alloptions' === $key && 'options' === $group ) {
				$this->tiers->delete( $this->prefix( $group ), $key );
			} else {
				$this->tiers->set( $this->prefix( $group ), array( $key => $data ), $at );
			}
		}
		return true;
	}

	public function set_multiple( array $data, $group = '', $expire = 0 ) {
		$group  = $group ? $group : 'default';
		$at     = self::expires_at( $expire );
		$stored = array();
		$below  = array();
		foreach ( $data as $key => $value ) {
			if ( ! self::is_key( $key ) || ( 'alloptions' === $key && 'options' === $group ) ) {
				$stored[ $key ] = $this->set( $key, $value, $group, $expire );
				continue;
			}
			$this->keep( $group, $this->id( $key, $group ), $value, $at );
			$below[ $key ]  = $value;
			$stored[ $key ] = true;
		}
		if ( $below && $this->is_persistent( $group ) ) {
			$this->tiers->set( $this->prefix( $group ), $below, $at );
		}
		return $stored;
	}

	public function add( $key, $data, $group = 'default', $expire = 0 ) {
		if ( wp_suspend_cache_addition() ) {
			return false;
		}
		if ( ! self::is_key( $key ) ) {
			return $this->refuse_key( $key, __METHOD__ );
		}
		$group = $group ? $group : 'default';
		$id    = $this->id( $key, $group );
		if ( $this->has( $group, $id ) ) {
			return false;
		}
		$at    = self::expires_at( $expire );
		$ended = Tidemark_Tiers::STORED;
		if ( $this->is_persistent( $group ) ) {
			$ended = $this->tiers->add( $this->prefix( $group ), array( $key => $data ), $at )[ $key ];
		}
		if ( Tidemark_Tiers::PRESENT === $ended ) {
			return false;
		}
		$this->keep( $group, $id, $data, $at );
		return Tidemark_Tiers::STORED === $ended;
	}

	public function add_multiple( array $data, $group = '', $expire = 0 ) {
		$group         = $group ? $group : 'default';
		$added         = array();
		$below         = array();
		$is_persistent = $this->is_persistent( $group ) && ! wp_suspend_cache_addition();
		foreach ( $data as $key => $value ) {
			$added[ $key ] = false;
			if ( ! $is_persistent || ! self::is_key( $key ) ) {
				$added[ $key ] = $this->add( $key, $value, $group, $expire );
			} elseif ( ! $this->has( $group, $this->id( $key, $group ) ) ) {
				$below[ $key ] = $value;
			}
		}
		$at = self::expires_at( $expire );
		foreach ( $below ? $this->tiers->add( $this->prefix( $group ), $below, $at ) : array() as $key => $ended ) {
			if ( Tidemark_Tiers::PRESENT !== $ended ) {
				$this->keep( $group, $this->id( $key, $group ), $below[ $key ], $at );
				$added[ $key ] = Tidemark_Tiers::STORED === $ended;
			}
		}
		return $added;
	}

	public function replace( $key, $data, $group = 'default', $expire = 0 ) {
		if ( ! self::is_key( $key ) ) {
			return $this->refuse_key( $key, __METHOD__ );
		}
		$group = $group ? $group : 'default';
		$id    = $this->id( $key, $group );
		$at    = self::expires_at( $expire );
		if ( ! $this->is_persistent( $group ) ) {
			if ( ! $this->has( $group, $id ) ) {
				return false;
			}
		} elseif ( $this->has( $group, $id ) ) {
			return $this->set( $key, $data, $group, $expire );
		} elseif ( 'alloptions' === $key && 'options' === $group ) {
			if ( true !== $this->tiers->delete( $this->prefix( $group ), $key ) ) {
				return false;
			}
		} elseif ( ! $this->tiers->replace( $this->prefix( $group ), $key, $data, $at ) ) {
			return false;
		}
		$this->keep( $group, $id, $data, $at );
		return true;
	}

	public function delete( $key, $group = 'default', $deprecated = false ) {
		if ( ! self::is_key( $key ) ) {
			return $this->refuse_key( $key, __METHOD__ );
		}
		$deleted = $this->delete_multiple( array( $key ), $group );
		return $deleted[ $key ];
	}

	public function delete_multiple( array $keys, $group = '' ) {
		$group   = $group ? $group : 'default';
		$deleted = array();
		$below   = array();
		foreach ( $keys as $key ) {
			if ( ! self::is_key( $key ) ) {
				$this->refuse_key( $key, __METHOD__ );
				if ( is_scalar( $key ) || null === $key ) {
					$deleted[ $key ] = false;
				}
				continue;
			}
			$id              = $this->id( $key, $group );
			$deleted[ $key ] = ! empty( $deleted[ $key ] ) || $this->has( $group, $id );
			$below[ $key ]   = $key;
			unset( $this->cache[ $group ][ $id ], $this->expires[ $group ][ $id ] );
		}
		if ( $below && $this->is_persistent( $group ) ) {
			foreach ( $below as $key ) {
				$was_there       = $this->tiers->delete( $this->prefix( $group ), $key );
				$deleted[ $key ] = $deleted[ $key ] || true === $was_there;
			}
		}
		return $deleted;
	}

	public function incr( $key, $offset = 1, $group = 'default' ) {
		if ( ! self::is_key( $key ) ) {
			return $this->refuse_key( $key, __METHOD__ );
		}
		$group  = $group ? $group : 'default';
		$id     = $this->id( $key, $group );
		$offset = (int) $offset;
		if ( $this->is_persistent( $group ) ) {
			$below = $this->tiers->incr( $this->prefix( $group ), $key, $offset );
			if ( is_array( $below ) ) {
				$this->keep( $group, $id, $below[0], $below[1] );
				return $below[0];
			}
		}
		if ( ! $this->has( $group, $id ) ) {
			return false;
		}
		$value = self::incremented( $this->cache[ $group ][ $id ], $offset );
		return $this->cache[ $group ][ $id ] = $value;
	}

	public function decr( $key, $offset = 1, $group = 'default' ) {
		// The smallest integer has no opposite.
		return $this->incr( $key, -max( -PHP_INT_MAX, (int) $offset ), $group );
	}

	/** The number that `incr` stores; a sum beyond the range of integers is the largest one. */
	public static function incremented( $value, $offset ) {
		$sum = ( is_numeric( $value ) ? $value : 0 ) + $offset;
		if ( is_float( $sum ) ) {
			$sum = $sum >= (float) PHP_INT_MAX ? PHP_INT_MAX : ( $sum > 0 ? (int) $sum : 0 );
		}
		return max( 0, $sum );
	}

	public function flush() {
		$this->flush_runtime();
		if ( $this->tiers ) {
			$this->tiers->flush();
		}
		return true;
	}

	public function flush_runtime() {
		$this->cache   = array();
		$this->expires = array();
		return true;
	}

	public function flush_group( $group ) {
		$group = $group ? $group : 'default';
		if ( '' === $this->blog_prefix || isset( $this->global_groups[ $group ] ) ) {
			unset( $this->cache[ $group ], $this->expires[ $group ] );
		} else {
			foreach ( array_keys( $this->cache[ $group ] ?? array() ) as $id ) {
				if ( 0 === strpos( $id, $this->blog_prefix ) ) {
					unset( $this->cache[ $group ][ $id ], $this->expires[ $group ][ $id ] );
				}
			}
		}
		if ( $this->is_persistent( $group ) ) {
			$this->tiers->flush_group( $this->prefix( $group ) );
		}
		return true;
	}

	public function add_global_groups( $groups ) {
		foreach ( (array) $groups as $group ) {
			if ( ! isset( $this->global_groups[ $group ] ) && '' !== $this->blog_prefix ) {
				// The ids of entries written before begin with the number of a blog.
				unset( $this->cache[ $group ], $this->expires[ $group ] );
			}
			$this->global_groups[ $group ] = true;
			unset( $this->prefixes[ $group ] );
		}
	}

	public function add_non_persistent_groups( $groups ) {
		foreach ( (array) $groups as $group ) {
			$this->non_persistent_groups[ $group ] = true;
		}
	}

	public function switch_to_blog( $blog_id ) {
		if ( $this->multisite ) {
			$this->blog_prefix = (int) $blog_id . ':';
			$this->prefixes    = array();
		}
	}

	public function close() {
		if ( $this->tiers ) {
			$this->tiers->close();
			$this->tiers->close_store();
		}
		return true;
	}

	public function reset() {
		foreach ( array_keys( $this->cache ) as $group ) {
			if ( ! isset( $this->global_groups[ $group ] ) ) {
				unset( $this->cache[ $group ], $this->expires[ $group ] );
			}
		}
	}

	public function stats() {
		printf(
			'<p><strong>Cache Hits:</strong> %d<br /><strong>Cache Misses:</strong> %d</p><ul>',
			$this->cache_hits,
			$this->cache_misses
		);
		foreach ( $this->cache as $group => $entries ) {
			$name = htmlspecialchars( (string) $group, ENT_QUOTES | ENT_SUBSTITUTE );
			printf( '<li><strong>Group:</strong> %s - ( %d entries )</li>', $name, count( $entries ) );
		}
		echo '</ul>';
	}

	/** The tiers below, for the commands; null where there are none. */
	public function tidemark_tiers() {
		return $this->tiers;
	}

	private static function is_key( $key ) {
		return is_int( $key ) || ( is_string( $key ) && '' !== trim( $key ) );
	}

	private function refuse_key( $key, $method ) {
		$kind = is_string( $key ) ? 'a blank string' : gettype( $key );
		if ( function_exists( '_doing_it_wrong' ) && function_exists( '__' ) ) {
			$text = 'Cache key must be an integer or a non-blank string, %s given.';
			_doing_it_wrong( $method, sprintf( __( $text ), $kind ), '6.1.0' );
		}
		return false;
	}

	private function id( $key, $group ) {
		return '' === $this->blog_prefix || isset( $this->global_groups[ $group ] )
			? $key : $this->blog_prefix . $key;
	}

	/** Begins with the length of the group, so that no two pairs of group and key are the same bytes. */
	private function prefix( $group ) {
		if ( ! isset( $this->prefixes[ $group ] ) ) {
			$blog = isset( $this->global_groups[ $group ] ) ? ':' : $this->blog_prefix;
			$blog = '' === $blog ? ':' : $blog;

			$this->prefixes[ $group ] = $blog . strlen( $group ) . ':' . $group . ':';
		}
		return $this->prefixes[ $group ];
	}

	private function is_persistent( $group ) {
		return $this->tiers && ! isset( $this->non_persistent_groups[ $group ] );
	}

	private function has( $group, $id ) {
		if ( isset( $this->expires[ $group ][ $id ] )
			&& $this->expires[ $group ][ $id ] <= time() ) {
			unset( $this->cache[ $group ][ $id ], $this->expires[ $group ][ $id ] );
			return false;
		}
		return isset( $this->cache[ $group ][ $id ] )
			|| ( isset( $this->cache[ $group ] )
				&& array_key_exists( $id, $this->cache[ $group ] ) );
	}

	private function keep( $group, $id, $value, $at ) {
		$this->cache[ $group ][ $id ] = $this->copy( $value );
		if ( $at > 0 ) {
			$this->expires[ $group ][ $id ] = $at;
		} else {
			unset( $this->expires[ $group ][ $id ] );
		}
	}

	/** Keeps the answer of the tiers: value and expiry, false for a miss, null where none is in use. */
	private function take( $group, $id, $below ) {
		if ( null === $below ) {
			return $this->has( $group, $id );
		}
		if ( false === $below ) {
			unset( $this->cache[ $group ][ $id ], $this->expires[ $group ][ $id ] );
			return false;
		}
		$this->cache[ $group ][ $id ] = $below[0];
		if ( $below[1] > 0 ) {
			$this->expires[ $group ][ $id ] = $below[1];
		} else {
			unset( $this->expires[ $group ][ $id ] );
		}
		return true;
	}

	private function copy( $value ) {
		try {
			return is_object( $value ) ? clone $value : $value;
		} catch ( Throwable $refused ) {
			return $value; // Cases of an enumeration, generators and the like have one instance.
		}
	}

	/** The clock is read at each call: a command may run for hours. */
	private static function expires_at( $expire ) {
		$expire = (int) $expire;
		return $expire > 0 ? ( $expire > PHP_INT_MAX / 2 ? 0 : time() + $expire ) : 0;
	}
}
