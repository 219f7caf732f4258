<?php
/**
 * The tiers below the array of the request. Nothing here raises or warns: where a tier cannot be used the
 * answer is null, and the request goes on with its array.
 */
class Tidemark_Tiers {
	use Tidemark_Notify;

	const STORED  = 1;
	const PRESENT = 0;
	/** Not stored: the key was deleted by another process since this one missed it. */
	const REFUSED = -1;
	const FULL_TRIES = 8;
	/**
	 * Limits of one commit of many entries: its lock must not be held for long, and it must need
	 * less room than a store has left when the upkeep begins to evict entries.
	 */
	const BATCH_KEYS  = 500;
	const BATCH_BYTES = 4194304;
	const BATCH_SHARE = 32;

	public $place;
	public $notices;
	private $limit;
	/** @var Tidemark_Store|null */
	private $store;
	private $is_off = false;
	/** Full key => lease of its last miss: stamp of the store, number of the key, and whether a value was stored since. */
	private $leases = array();
	private $writes = 0;
	/** @var Tidemark_Invalidation */
	private $invalidation;
	private $checked_at;
	/** @var Tidemark_Ahead */
	private $ahead;
	/** @var Tidemark_Apcu|null */
	private $apcu;
	private $apcu_refusal = '';
	/** When the shared memory was last seen to be current. */
	private $apcu_at;
	private static $shared;

	/** Those of the extension where it is loaded; one for all instances of the class of WordPress in a request. */
	public static function shared() {
		if ( ! self::$shared ) {
			global $table_prefix;
			$names = array(
				defined( 'DB_NAME' ) ? DB_NAME : '',
				(string) $table_prefix,
				defined( 'WP_CACHE_KEY_SALT' ) ? WP_CACHE_KEY_SALT : '',
			);
			self::$shared = self::of( Tidemark_Place::of_site( $names ) );
		}
		return self::$shared;
	}

	/** @return Tidemark_Tiers|Tidemark_Native */
	public static function of( Tidemark_Place $place ) {
		return Tidemark_Native::of( $place ) ?? new Tidemark_Tiers( $place );
	}

	/** What the store may take. */
	public static function limit_bytes() {
		$megabytes = defined( 'TIDEMARK_CACHE_MB' ) ? (int) TIDEMARK_CACHE_MB : 256;
		return min( 65536, max( 8, $megabytes ) ) * 1048576;
	}

	public function __construct( Tidemark_Place $place ) {
		$this->place   = $place;
		$this->notices = new Tidemark_Notices( $place->folder );
		$this->invalidation = new Tidemark_Invalidation(
			$place->file( 'invalidate' ),
			new Tidemark_Clean_Mark( $place->file( 'clean' ) )
		);
		$this->ahead        = new Tidemark_Ahead();

		$this->limit = self::limit_bytes();
		if ( '' !== $place->refusal ) {
			$this->is_off = true;
			$this->notices->note( 'off', $place->refusal );
		}
		$this->apcu_refusal = $this->is_off ? 'there is no tier 2' : Tidemark_Apcu::refusal();
		if ( '' === $this->apcu_refusal ) {
			$this->apcu = new Tidemark_Apcu( $place->identity );
		}
	}

	/** @return array|false|null Value and expiry; false for a miss; null where no tier is in use. */
	public function get( $prefix, $key, $force ) {
		$full  = $prefix . $key;
		$now   = time();
		$found = null;
		if ( $this->apcu && ( ( ! $force && $this->apcu_at === $now ) || $this->is_apcu_current( $force ) ) ) {
			$found = $this->apcu->get( $full, $now );
		} elseif ( ! $force && $this->checked_at === $now && ! $this->is_off ) {
			$found = $this->ahead->known( $prefix, $key, $now );
		}
		if ( $found && is_array( $value = $this->answer( $full, $found ) ) ) {
			return $value;
		}
		return $this->guarded( function ( $store ) use ( $prefix, $key, $full, $force ) {
			if ( $force ) {
				$this->need_current( $store );
				$store->end_reads();
				$store->follow();
				return $this->answer( $full, $store->get( $prefix, $key, time() ) );
			}
			return $this->answer( $full, $this->ahead->get( $store, $prefix, $key, time() ) );
		} );
	}

	public function get_multiple( $prefix, array $keys, $force ) {
		$answers = $this->apcu && $this->is_apcu_current( $force )
			? $this->get_apcu( $prefix, $keys ) : array();
		$missing = array();
		foreach ( $keys as $key ) {
			isset( $answers[ $key ] ) || $missing[] = $key;
		}
		if ( ! $missing ) {
			return $answers;
		}
		$below = $this->guarded( function ( $store ) use ( $prefix, $missing, $force ) {
			$answers = array();
			if ( $force ) {
				$this->need_current( $store );
				$store->end_reads();
				$store->follow();
				$found = $store->get_multiple( $prefix, $missing, time() );
			} else {
				$found = $this->ahead->get_multiple( $store, $prefix, $missing, time() );
			}
			foreach ( $found as $key => $one ) {
				$answers[ $key ] = $this->answer( $prefix . $key, $one );
			}
			return $answers;
		} );
		return null === $below && ! $answers ? null : $answers + (array) $below;
	}

	private function get_apcu( $prefix, array $keys ) {
		$fulls = array();
		foreach ( $keys as $key ) {
			$fulls[ $prefix . $key ] = $key;
		}
		$answers = array();
		foreach ( $this->apcu->get_multiple( array_keys( $fulls ), time() ) as $full => $found ) {
			$answer = $this->answer( $full, $found );
			if ( is_array( $answer ) ) {
				$answers[ $fulls[ $full ] ] = $answer;
			}
		}
		return $answers;
	}

	/** At the first use in a request, when a read is forced, and each minute of a long one. */
	private function is_apcu_current( $is_forced ) {
		$now = time();
		if ( ! $is_forced && null !== $this->apcu_at && abs( $now - $this->apcu_at ) < 60 ) {
			return true;
		}
		$file = $this->place->file( 'store.sqlite' );
		if ( ! $this->apcu->is_current( $file, $this->invalidation, $now ) ) {
			$is_joined = $this->guarded( function ( $store ) use ( $now ) {
				$store->follow();
				$store->check_token( $now );
				return $store->join( $now );
			} );
			if ( true !== $is_joined ) {
				$this->disable_apcu( 'its state cannot be kept' );
				return false;
			}
		}
		$this->apcu_at = $now;
		return true;
	}

	private function disable_apcu( $reason ) {
		$this->notices->note( 'shared', "APCu: $reason" );
		$this->apcu_refusal = $reason;
		$this->apcu         = null;
	}

	private function answer( $full, array $found ) {
		list( $bytes, $expires, $lease ) = $found;
		if ( null !== $bytes ) {
			try {
				$value = @unserialize( $bytes );
				if ( false !== $value || 'b:0;' === $bytes ) {
					return array( $value, $expires );
				}
			} catch ( Throwable $refused ) {
				$this->notices->note( 'unreadable', $refused->getMessage() );
			}
		}
		if ( count( $this->leases ) > 50000 ) {
			$this->leases = array_slice( $this->leases, 25000, null, true );
		}
		if ( $lease ) {
			$this->leases[ $full ] = $lease;
		}
		return false;
	}

	/** Stores each, or deletes what cannot be stored: an older copy must not stay. */
	public function set( $prefix, array $values, $expires ) {
		$rows = array();
		foreach ( $values as $key => $value ) {
			$rows[ $key ] = $this->encode( $value );
			if ( null === $rows[ $key ] ) {
				unset( $rows[ $key ] );
				$this->delete( $prefix, $key );
			}
		}
		foreach ( $this->write( $prefix, $rows, $expires, false ) as $key => $is_stored ) {
			$this->note_write( $prefix, $key, $is_stored );
		}
	}

	/**
	 * Remembers that a value was stored after a miss. A lease also ends by what deleted no value of
	 * its key, such as a purge of tombstones: where it refuses a later value, the one that this
	 * request had stored is older, and must not stay.
	 */
	private function note_write( $prefix, $key, $is_stored ) {
		$lease = $this->leases[ $prefix . $key ] ?? null;
		if ( $lease && $is_stored ) {
			$this->leases[ $prefix . $key ][2] = true;
		} elseif ( false === $is_stored && isset( $lease[2] ) ) {
			$this->delete( $prefix, $key );
			// The value that was refused may be of before a deletion, and so may the next one.
			$this->leases[ $prefix . $key ] = $lease;
		}
	}

	/** @return array Key => STORED, PRESENT or REFUSED. */
	public function add( $prefix, array $values, $expires ) {
		$rows  = array();
		$added = array();
		foreach ( $values as $key => $value ) {
			$bytes = $this->encode( $value );
			if ( null !== $bytes ) {
				$rows[ $key ] = $bytes;
				continue;
			}
			$found         = $this->get( $prefix, $key, true );
			$added[ $key ] = is_array( $found ) ? self::PRESENT : self::STORED;
		}
		foreach ( $this->write( $prefix, $rows, $expires, true ) as $key => $is_stored ) {
			$is_stored && $this->note_write( $prefix, $key, true );
			$added[ $key ] = false === $is_stored ? $this->why_not_added( $prefix, $key ) : self::STORED;
		}
		return $added;
	}

	private function why_not_added( $prefix, $key ) {
		$lease = $this->leases[ $prefix . $key ] ?? null;
		if ( ! $lease ) {
			return self::PRESENT;
		}
		$found = $this->get( $prefix, $key, true );
		// This read must not renew the lease: the caller's value is as old as before.
		$this->leases[ $prefix . $key ] = $lease;
		return false === $found ? self::REFUSED : self::PRESENT;
	}

	/** @return array Key => whether it was stored; null where the store failed. */
	private function write( $prefix, array $rows, $expires, $is_add ) {
		$stored = array();
		foreach ( $this->batches( $rows ) as $some ) {
			$leases = array();
			foreach ( array_keys( $some ) as $key ) {
				$leases[ $key ] = $this->leases[ $prefix . $key ] ?? null;
			}
			$stored += $this->written( $prefix, array_keys( $some ), function ( $store ) use (
				$prefix, $some, $expires, $leases, $is_add
			) {
				if ( count( $some ) > 1 ) {
					return $store->write_multiple( $prefix, $some, $expires, $leases, $is_add );
				}
				$key  = array_key_first( $some );
				$does = $is_add ? 'add' : 'set';
				return array( $key => $store->$does( $prefix, $key, $some[ $key ], $expires, $leases[ $key ] ) );
			} ) ?? array_fill_keys( array_keys( $some ), null );
		}
		return $stored;
	}

	private function batches( array $rows ) {
		$some  = array();
		$bytes = 0;
		$most  = min( self::BATCH_BYTES, intdiv( $this->limit, self::BATCH_SHARE ) );
		foreach ( $rows as $key => $row ) {
			if ( $some && ( count( $some ) >= self::BATCH_KEYS || $bytes + strlen( $row ) > $most ) ) {
				yield $some;
				$some  = array();
				$bytes = 0;
			}
			$some[ $key ] = $row;
			$bytes       += strlen( $row );
		}
		if ( $some ) {
			yield $some;
		}
	}

	public function replace( $prefix, $key, $value, $expires ) {
		$bytes = $this->encode( $value );
		if ( null === $bytes ) {
			$deleted = $this->delete( $prefix, $key );
			return true === $deleted;
		}
		return true === $this->written( $prefix, array( $key ), function ( $store ) use (
			$prefix, $key, $bytes, $expires
		) {
			return $store->replace( $prefix, $key, $bytes, $expires );
		} );
	}

	/** @return bool|null Whether it was there. */
	public function delete( $prefix, $key ) {
		$this->ahead->forget( $prefix . $key );
		$deleted = $this->guarded( function ( $store ) use ( $prefix, $key ) {
			list( $found, $lease ) = $store->delete( $prefix, $key );
			$this->leases[ $prefix . $key ] = $lease;
			if ( $store->is_replaced() ) {
				throw new RuntimeException( 'the store was replaced' );
			}
			++$this->writes;
			return $found;
		} );
		if ( null === $deleted ) {
			$this->give_up( Tidemark_Invalidation::KEY, $prefix . $key );
		}
		return $deleted;
	}

	/** @return array|false|null The new number and its expiry. */
	public function incr( $prefix, $key, $offset ) {
		$this->ahead->forget( $prefix . $key );
		$incremented = $this->guarded( function ( $store ) use ( $prefix, $key, $offset ) {
			$changed = $store->change( $prefix, $key, time(), function ( $bytes ) use ( $offset ) {
				$value = @unserialize( $bytes, array( 'allowed_classes' => false ) );
				return serialize( WP_Object_Cache::incremented( $value, $offset ) );
			} );
			++$this->writes;
			if ( $store->is_replaced() ) {
				throw new RuntimeException( 'the store was replaced' );
			}
			return $changed ? array( unserialize( $changed[0] ), $changed[1] ) : false;
		} );
		if ( null === $incremented ) {
			$this->delete( $prefix, $key );
		}
		return $incremented;
	}

	public function flush() {
		return $this->flush_by( null );
	}

	public function flush_group( $prefix ) {
		return $this->flush_by( $prefix );
	}

	private function flush_by( $prefix ) {
		$this->ahead->forget();
		$flushed = $this->guarded( function ( $store ) use ( $prefix ) {
			$store->flush( $prefix );
			if ( $store->is_replaced() ) {
				throw new RuntimeException( 'the store was replaced' );
			}
			return true;
		} );
		if ( null === $flushed ) {
			$kind = null === $prefix ? Tidemark_Invalidation::FLUSH : Tidemark_Invalidation::GROUP;
			$this->give_up( $kind, (string) $prefix );
		}
		return $flushed;
	}

	public function close() {
		$this->change_row( -1 );
		if ( ! $this->store || $this->is_off ) {
			return;
		}
		if ( $this->writes > 64 || ( $this->writes && 0 === random_int( 0, 7 ) ) ) {
			$this->sweep();
		}
		$this->guarded( function ( $store ) {
			$this->ahead->close( $store, time() );
			$store->end_reads();
			return true;
		} );
	}

	/** Closes the store at the end of a request; a later use opens it again. */
	public function close_store() {
		if ( $this->store ) {
			$this->store->close();
		}
		$this->store  = null;
		$this->checked_at = null;
	}

	private function sweep() {
		$this->writes = 0;
		$this->guarded( function ( $store ) {
			$store->sweep( $this->limit, 5, time() );
			return true;
		} );
	}

	/** A write that failed removes the keys: neither the old value nor half of the new stays. */
	private function written( $prefix, array $keys, $write ) {
		foreach ( $keys as $key ) {
			$this->ahead->forget( $prefix . $key );
		}
		$before        = $this->writes;
		$this->writes += count( $keys );
		if ( $this->writes >= 512 ) {
			$this->sweep();
		} elseif ( $before >> 5 !== $this->writes >> 5 ) {
			$this->guarded( function ( $store ) {
				$store->bound_log();
				return true;
			} );
		}
		$is_failed = false;
		$stored    = $this->guarded( function ( $store ) use ( $write, &$is_failed ) {
			$is_failed = true;
			$stored    = $write( $store );
			if ( $store->is_replaced() ) {
				throw new RuntimeException( 'the store was replaced' );
			}
			$is_failed = false;
			return $stored;
		} );
		if ( null === $stored ) {
			$this->is_off = $this->is_off && ! $is_failed;
			foreach ( $keys as $key ) {
				$this->delete( $prefix, $key );
			}
		}
		return $stored;
	}

	/** An old value cannot be removed here: the others are notified, else the store is emptied. */
	private function give_up( $kind, $text ) {
		if ( $this->apcu ) {
			$this->apcu->flush();
		}
		$this->notify( $kind, $text );
		$file = $this->place->file( 'store.sqlite' );
		if ( '' !== $this->place->refusal || ! is_file( $file ) ) {
			return;
		}
		// Without its name no process opens the file any more. Its log is removed by the process
		// that makes the next one: at this name there may already be that of a new file.
		@unlink( $file );
		$this->notices->note( 'emptied', 'a write failed, so the store was emptied' );
	}

	/** @return string|null The bytes of a value; null where it has none, or too many. */
	private function encode( $value ) {
		if ( is_resource( $value ) ) {
			return null;
		}
		try {
			$bytes = serialize( $value );
		} catch ( Throwable $refused ) {
			return null;
		}
		return strlen( $bytes ) > Tidemark_Store::LARGEST ? null : $bytes;
	}

	/**
	 * Runs one operation on the store. The first failure opens it again, the second turns it off. Where
	 * it is full there are more tries: another process may use up the room that was made.
	 */
	private function guarded( $use ) {
		$most = 2;
		for ( $tries = 0; $tries < $most && ! $this->is_off; ++$tries ) {
			try {
				$is_open = null !== $this->store;
				$is_open || $this->leave_to_native();
				$this->store = $this->store ?? new Tidemark_Store(
					$this->place->file( 'store.sqlite' ),
					$this->place->boot_id,
					$this->limit,
					$this->invalidation,
					$this->apcu
				);
				$is_open || $this->leave_to_native();
				if ( '' !== $this->store->why_replaced ) {
					$this->notices->note( 'replaced', $this->store->why_replaced );
					$this->store->why_replaced = '';
				}
				$this->check_store();
				$answer = $use( $this->store );
				if ( $this->store->notify_failed ) {
					$this->store->notify_failed = false;
					$this->notify_by_row();
				}
				return $answer;
			} catch ( Throwable $failed ) {
				if ( $this->store && false !== strpos( $failed->getMessage(), 'full' ) ) {
					$most = self::FULL_TRIES;
					$this->make_room();
				}
				if ( false !== strpos( $failed->getMessage(), 'locked' ) ) {
					$this->notices->note( 'locked', $failed->getMessage() );
				}
				if ( $this->store && preg_match( '/malformed|not a database/', $failed->getMessage() ) ) {
					$this->replace_store( $failed->getMessage() );
				}
				$this->store = null;
				$is_last     = $tries + 1 === $most;
				$this->notices->note( $is_last ? 'failed' : 'retried', $failed->getMessage() );
			}
		}
		$this->is_off = true;
		return null;
	}

	/** Also after the store has its name: the native form makes its own before it removes that name. */
	private function leave_to_native() {
		if ( Tidemark_Native::has_store( $this->place ) ) {
			$this->is_off = true;
			Tidemark_Native::refuse( $this->place, 'other PHP processes began to use the native store' );
			throw new RuntimeException( $this->place->refusal );
		}
	}

	/** @throws RuntimeException Where another file has the name: this one is not followed any more. */
	private function need_current( $store ) {
		if ( $store->is_replaced() ) {
			throw new RuntimeException( 'the store was replaced' );
		}
	}

	/** Some page of the file is damaged; opening it reads the first ones only. */
	private function replace_store( $damage ) {
		try {
			if ( $this->store->replace_file() ) {
				$this->notices->note( 'replaced', $damage );
			}
		} catch ( Throwable $failed ) {
			$this->notices->note( 'failed', $failed->getMessage() );
		}
	}

	/** At the first use in a request, and each minute of a long one. */
	private function check_store() {
		$now = time();
		if ( null !== $this->checked_at && abs( $now - $this->checked_at ) < 60 ) {
			return;
		}
		$this->checked_at = $now;
		if ( $this->store->is_replaced() ) {
			throw new RuntimeException( 'the store was replaced' );
		}
		$this->ahead->forget();
		$this->store->follow();
		if ( $this->store->check_token( $now ) && $this->place->site->is_of_another() ) {
			// The next request finds the store of that one.
			$this->is_off         = true;
			$this->place->refusal = 'the options table holds the id of another site';
			throw new RuntimeException( $this->place->refusal );
		}
		if ( $this->apcu && ! $this->store->join( $now ) ) {
			$this->disable_apcu( 'its state cannot be kept' );
		}
	}

	/** The file has its largest size: some entries are evicted before the write is tried again. */
	private function make_room() {
		try {
			$this->store->sweep( $this->limit, 5, time() );
		} catch ( Throwable $failed ) {
			$this->notices->note( 'full', $failed->getMessage() );
		}
	}

	/** Which tiers are in use, and why not the others: name => text. */
	public function status() {
		$reason = $this->place->refusal ? $this->place->refusal : 'the store cannot be used';
		$is_on  = null !== $this->counts();
		$shared = $this->apcu && $this->is_apcu_current( true );
		return array(
			'tier 0 (request)' => 'on',
			'tier 1 (APCu)'    => $shared ? 'on, shared by the processes of this PHP-FPM master'
				: "off, {$this->apcu_refusal}",
			'tier 2 (SQLite)'  => $is_on ? 'on, ' . $this->place->file( 'store.sqlite' ) : "off, $reason",
			'guest'            => $this->place->is_guest ? 'yes, the other processes are notified of its writes' : 'no',
		);
	}

	/** @return array|null Name => count of what the store holds. */
	public function counts() {
		return $this->guarded( function ( $store ) {
			return $store->counts();
		} );
	}

	/** @return bool|null Whether the store may outlive the machine now; null where there is none. */
	public function sync() {
		return $this->guarded( function ( $store ) {
			return $store->sync();
		} );
	}

	/** @return string|null What is wrong with the file; empty when sound. */
	public function damage() {
		return $this->guarded( function ( $store ) {
			return $store->damage();
		} );
	}
}
