<?php
/**
 * The native form of the tiers: one file that the extension `tidemark` maps into each PHP process of
 * the machine. As with Tidemark_Tiers nothing raises or warns, and null means that it cannot be used.
 *
 * A group of its own in the file holds its state: how much of `invalidate` it has followed, the
 * token of the options table, and whether that was compared within the last minute.
 */
class Tidemark_Native {
	use Tidemark_Notify;

	/** What the functions of the extension must mean. */
	const INTERFACE = 2;
	const FILE      = 'values.table';
	const STATE     = 'tidemark';
	/** When a value is stored, as `tidemark_put` takes it. */
	const ALWAYS  = 0;
	const ABSENT  = 1;
	const PRESENT = 2;
	/** What `tidemark_put` answers where a lock was not to be had, or the disk refused. */
	const BUSY = -2;
	/** How often a lock is waited for, 50 ms each time, without which this request has no store. */
	const TRIES = 4;

	public $place;
	public $notices;
	private $table;
	private $invalidation;
	private $is_off = false;
	/** When the state was last compared. */
	private $checked_at;
	/** The second in which no comparison is due. */
	private $ready_at;

	/** The native form of a site; null where it cannot be used. Where others use it, the process is a guest then. */
	public static function of( Tidemark_Place $place ) {
		if ( '' !== $place->refusal ) {
			return null;
		}
		$fault = 'other PHP processes use the native store, and this one has no extension for it';
		if ( self::is_loaded() ) {
			$table = tidemark_open( $place->file( self::FILE ), Tidemark_Tiers::limit_bytes() );
			$fault = $table < 0 ? 'the native store cannot be opened' : tidemark_fault( $table );
			if ( '' === $fault ) {
				return new Tidemark_Native( $place, $table );
			}
		}
		if ( self::has_store( $place ) ) {
			self::refuse( $place, $fault );
		} elseif ( ! class_exists( 'SQLite3' ) ) {
			self::refuse( $place, "PHP has no SQLite3 extension; $fault" );
		}
		return null;
	}

	public static function is_loaded() {
		return function_exists( 'tidemark_interface' ) && self::INTERFACE === tidemark_interface();
	}

	/** Whether processes with the extension keep a file here: then the others are guests. */
	public static function has_store( Tidemark_Place $place ) {
		$path = $place->file( self::FILE );
		clearstatcache( true, $path );
		return @file_exists( $path );
	}

	public static function refuse( Tidemark_Place $place, $reason ) {
		$place->is_guest = true;
		$place->refusal  = $reason;
	}

	private function __construct( Tidemark_Place $place, $table ) {
		$this->place        = $place;
		$this->table        = $table;
		$this->notices      = new Tidemark_Notices( $place->folder );
		$this->invalidation = new Tidemark_Invalidation(
			$place->file( 'invalidate' ),
			new Tidemark_Clean_Mark( $place->file( 'clean' ) )
		);
	}

	/** @return array|false|null Value and expiry; false for a miss; null where the file cannot be used. */
	public function get( $prefix, $key, $force ) {
		if ( ( $force || time() !== $this->ready_at ) && ! $this->is_ready( $force ) ) {
			return null;
		}
		try {
			$found = tidemark_get( $this->table, $prefix, $key );
		} catch ( Throwable $refused ) {
			$this->notices->note( 'unreadable', $refused->getMessage() );
			$this->delete( $prefix, $key );
			return false;
		}
		if ( null === $found ) {
			$this->note_fault( tidemark_fault( $this->table ) );
		}
		return $found;
	}

	public function get_multiple( $prefix, array $keys, $force ) {
		$answers = array();
		foreach ( $keys as $key ) {
			$answers[ $key ] = $this->get( $prefix, $key, $force );
			$force           = false;
		}
		return $answers;
	}

	/** Stores each, or deletes what cannot be stored: an older copy must not stay. */
	public function set( $prefix, array $values, $expires ) {
		foreach ( $values as $key => $value ) {
			if ( self::is_unstored( $this->put( $prefix, $key, $value, $expires, self::ALWAYS ) ) ) {
				$this->delete( $prefix, $key );
			}
		}
	}

	/** @return array Key => STORED, PRESENT or REFUSED of Tidemark_Tiers, which are those of `tidemark_put`. */
	public function add( $prefix, array $values, $expires ) {
		$added = array();
		foreach ( $values as $key => $value ) {
			$stored = $this->put( $prefix, $key, $value, $expires, self::ABSENT );
			if ( self::BUSY === $stored ) {
				// Whether it is there is not known: no caller may take itself for the first.
				$stored = Tidemark_Tiers::REFUSED;
			} elseif ( ! is_int( $stored ) ) {
				$stored = (int) ! is_array( $this->get( $prefix, $key, false ) );
			}
			$added[ $key ] = $stored;
		}
		return $added;
	}

	public function replace( $prefix, $key, $value, $expires ) {
		$stored = $this->put( $prefix, $key, $value, $expires, self::PRESENT );
		return self::is_unstored( $stored ) ? true === $this->delete( $prefix, $key ) : 1 === $stored;
	}

	/** Whether an older value may be there still, which must not stay. */
	private static function is_unstored( $stored ) {
		return ! is_int( $stored ) || self::BUSY === $stored;
	}

	/** @return int|false|null As `tidemark_put`. */
	private function put( $prefix, $key, $value, $expires, $when ) {
		if ( time() !== $this->ready_at && ! $this->is_ready( false ) ) {
			return null;
		}
		try {
			$stored = tidemark_put( $this->table, $prefix, $key, $value, $expires, $when );
		} catch ( Throwable $refused ) {
			return false;
		}
		if ( null === $stored || self::BUSY === $stored ) {
			$this->notices->note( 'dropped', tidemark_fault( $this->table ) );
		}
		return $stored;
	}

	/** @return bool|null Whether it was there. */
	public function delete( $prefix, $key ) {
		$delete  = function () use ( $prefix, $key ) {
			return tidemark_delete( $this->table, $prefix, $key );
		};
		$deleted = $this->is_ready( false ) ? self::patiently( $delete ) : null;
		if ( null === $deleted ) {
			$this->give_up( Tidemark_Invalidation::KEY, $prefix . $key );
		}
		return $deleted;
	}

	/** @return array|false|null The new number and its expiry. */
	public function incr( $prefix, $key, $offset ) {
		$is_ready = $this->is_ready( false );
		$number   = $is_ready ? tidemark_raise( $this->table, $prefix, $key, $offset ) : null;
		if ( null === $number ) {
			$is_ready && $this->notices->note( 'dropped', tidemark_fault( $this->table ) );
			$this->delete( $prefix, $key );
		}
		return $number;
	}

	public function flush() {
		if ( $this->is_ready( false ) && $this->begin() ) {
			return true;
		}
		$this->give_up( Tidemark_Invalidation::FLUSH, '' );
		return null;
	}

	public function flush_group( $prefix ) {
		$flush = function () use ( $prefix ) {
			return tidemark_flush( $this->table, $prefix );
		};
		if ( $this->is_ready( false ) && $this->keeping_state( $flush ) ) {
			return true;
		}
		$this->give_up( Tidemark_Invalidation::GROUP, $prefix );
		return null;
	}

	public function close() {
		$this->change_row( -1 );
	}

	/** As Tidemark_Tiers at the end of a request; what comes later compares the state again. */
	public function close_store() {
		$this->checked_at = null;
		$this->ready_at   = null;
	}

	/** An old value cannot be removed here: all processes do so at their next request. */
	private function give_up( $kind, $text ) {
		$this->note_fault( tidemark_fault( $this->table ) );
		$this->notify( $kind, $text );
		$this->close_store();
	}

	/** A lock that others hold for long is no failure of the file: their disk or their processor is slow. */
	private function note_fault( $text ) {
		$this->notices->note( false !== strpos( $text, 'was locked for' ) ? 'locked' : 'failed', $text );
	}

	/** Whether the file is as new as `invalidate` and the token were at the first use in this request, or when a read was forced. */
	private function is_ready( $is_forced ) {
		$now = time();
		if ( $this->is_off || ( $now === $this->ready_at && ! $is_forced ) ) {
			return ! $this->is_off;
		}
		$is_due = null === $this->checked_at || abs( $now - $this->checked_at ) >= 60;
		if ( ( $is_due || $is_forced ) && ! $this->follow() ) {
			return $this->turn_off( tidemark_fault( $this->table ) );
		}
		if ( $is_due ) {
			$this->checked_at = $now;
			if ( $this->check_token( $now ) && $this->place->site->is_of_another() ) {
				// The next request finds the store of that one.
				return $this->turn_off( 'the options table holds the id of another site' );
			}
		}
		$this->ready_at = $now;
		return true;
	}

	/** For the rest of this request; its writes are notified to the others. */
	private function turn_off( $reason ) {
		$this->is_off         = true;
		$this->ready_at       = null;
		$this->place->refusal = '' === $reason ? 'the native store cannot be used' : $reason;
		$this->note_fault( $this->place->refusal );
		return false;
	}

	/** Does what guests appended since the last time. False where the file cannot be used. */
	private function follow() {
		$state = $this->state( 'position' );
		if ( null === $state ) {
			return false;
		}
		list( $boot, $origin, $position ) = $state ? $state : array( '', '', '' );
		// After a start of the machine the file is there only by its own mark. Guests remove the other one.
		$is_of_boot = $boot === $this->place->boot_id || $this->invalidation->mark->is_of( $origin );
		if ( ! $state || ! $is_of_boot ) {
			return $this->begin();
		}
		if ( $this->invalidation->is_at( $position ) ) {
			return true;
		}
		list( $records, $next ) = $this->invalidation->since( $position );
		if ( null === $records || in_array( Tidemark_Invalidation::FLUSH, array_column( $records, 0 ), true ) ) {
			return $this->begin();
		}
		$obey = function () use ( $records ) {
			foreach ( $records as list( $kind, $hash ) ) {
				$is_gone = self::patiently( function () use ( $kind, $hash ) {
					return tidemark_forget( $this->table, pack( 'q', $hash ), Tidemark_Invalidation::GROUP === $kind );
				} );
				if ( ! $is_gone ) {
					return false;
				}
			}
			return true;
		};
		return $this->keeping_state( $obey )
			&& $this->keep( 'position', array( $this->place->boot_id, $origin, $next ) );
	}

	/**
	 * Empties the file where it is not known what it has followed. What is appended from now on is
	 * followed, so the position is read first.
	 */
	private function begin() {
		$this->end_other_form();
		$position = $this->invalidation->position();
		$token    = $this->state( 'token' );
		$flushed  = self::patiently( function () {
			return tidemark_flush( $this->table );
		} );
		if ( ! $flushed || ( $token && ! $this->keep( 'token', $token ) ) ) {
			return false;
		}
		$origin = bin2hex( random_bytes( Tidemark_Invalidation::ORIGIN ) );
		return $this->keep( 'position', array( $this->place->boot_id, $origin, $position ) );
	}

	/**
	 * A process that still writes to the store of the pure form finds its name gone, and is a guest.
	 * One that runs a drop-in of before there was this form does not know of it. While its lock is a
	 * folder it can make no store, and notifies the others of what it writes.
	 */
	private function end_other_form() {
		$lock = $this->place->file( 'store.sqlite.lock' );
		if ( ! is_dir( $lock ) ) {
			@unlink( $lock );
			@mkdir( $lock, 0700 );
		}
		foreach ( array( '', '-wal', '-shm', '.origin' ) as $end ) {
			$path = $this->place->file( "store.sqlite$end" );
			is_file( $path ) && @unlink( $path );
		}
	}

	/** What an act says that is tried again while it says null, as where others hold a lock. */
	private static function patiently( $act ) {
		$said = null;
		for ( $tries = 0; null === $said && $tries < self::TRIES; ++$tries ) {
			$said = $act();
		}
		return $said;
	}

	/** @return mixed False where there is none, null where the file cannot be used. */
	private function state( $name ) {
		$found = tidemark_get( $this->table, self::STATE, $name );
		return $found ? $found[0] : $found;
	}

	/**
	 * Other processes may overtake it again and again while they begin, each once. What is there is
	 * replaced in its place: where it was gone for a moment, another process would empty the file.
	 */
	private function keep( $name, array $value ) {
		$when = self::PRESENT;
		$ends = hrtime( true ) + self::TRIES * 50000000;
		for ( $tries = 0; $tries < 1000; ++$tries ) {
			$stored = tidemark_put( $this->table, self::STATE, $name, $value, 0, $when );
			if ( Tidemark_Tiers::STORED === $stored ) {
				return true;
			}
			if ( self::BUSY === $stored && hrtime( true ) < $ends ) {
				continue;
			}
			$is_gone = self::PRESENT === $when && Tidemark_Tiers::PRESENT === $stored;
			if ( Tidemark_Tiers::REFUSED !== $stored && ! $is_gone ) {
				return false;
			}
			// A miss renews the lease of an earlier one: this value was not computed before that. What
			// another process has kept renews none, and needs none to be replaced.
			$found = $this->state( $name );
			if ( null === $found ) {
				return false;
			}
			$when = false === $found ? self::ALWAYS : self::PRESENT;
		}
		return false;
	}

	/** Groups share generations: a flush of one may flush the group of the state. */
	private function keeping_state( $flush ) {
		$kept = array();
		foreach ( array( 'position', 'token' ) as $name ) {
			$kept[ $name ] = $this->state( $name );
		}
		$is_done = $flush();
		foreach ( $kept as $name => $value ) {
			if ( $value && false === $this->state( $name ) ) {
				$is_done = $this->keep( $name, $value ) && $is_done;
			}
		}
		return true === $is_done;
	}

	/** Once a minute for all processes: true for the one that compared the token of the options table. */
	private function check_token( $now ) {
		if ( false !== $this->state( 'checked' )
			|| 1 !== tidemark_put( $this->table, self::STATE, 'checked', 1, $now + 60, self::ABSENT ) ) {
			return false;
		}
		// A process that took its lock before that was a folder may have made a store since.
		$this->end_other_form();
		$row = Tidemark_Site_Row::read();
		if ( false !== $row ) {
			$this->compare_token( $row, $now );
		}
		// As an entry it would be evicted in time, and without it everything is emptied. One that goes
		// back has records followed once more.
		$position = $this->state( 'position' );
		if ( is_array( $position ) ) {
			$this->keep( 'position', $position );
		}
		return true;
	}

	private function compare_token( $row, $now ) {
		$state = $this->state( 'token' );
		list( $token, $next, $changed ) = $state ? $state : array( null, null, 0 );
		if ( null === $row ) {
			$row = Tidemark_Site_Row::token();
			if ( ! Tidemark_Site_Row::write( $row ) ) {
				return;
			}
		}
		if ( $row !== $token && ( null === $next || $row !== $next ) ) {
			if ( ! $this->begin() ) {
				// Nothing was emptied: the row stays another one, and the next minute tries again.
				return;
			}
		}
		$row = substr( $row, 0, 64 );
		$this->keep( 'token', array( $row, null, $changed ) );
		if ( abs( $now - $changed ) >= 600 ) {
			// Kept as the next one first: a process that ends in between leaves both valid.
			$next = Tidemark_Site_Row::token();
			$this->keep( 'token', array( $row, $next, $changed ) );
			if ( Tidemark_Site_Row::write( $next, $row ) ) {
				$this->keep( 'token', array( $next, null, $now ) );
			}
		}
	}

	/** Which tiers serve, and why: name => text. */
	public function status() {
		$is_on = $this->is_ready( true );
		return array(
			'tier 0 (request)' => 'on',
			'tier 1 (APCu)'    => 'off, the native store is in shared memory',
			'tier 2 (native)'  => $is_on ? 'on, ' . $this->place->file( self::FILE ) : "off, {$this->place->refusal}",
			'guest'            => 'no',
		);
	}

	/** @return array|null Name => count of what the file holds. */
	public function counts() {
		$counts = $this->is_ready( true ) ? tidemark_counts( $this->table ) : null;
		return $counts ? array_diff_key( $counts, array( 'damaged' => 0 ) ) : null;
	}

	/** @return string|null What is wrong with the file; empty when sound. */
	public function damage() {
		$counts = $this->is_ready( true ) ? tidemark_counts( $this->table ) : null;
		if ( null === $counts ) {
			return null;
		}
		return 0 === $counts['damaged'] ? '' : "{$counts['damaged']} entries are damaged";
	}

	/** @return bool|null Whether the file may outlive the machine now; null where it cannot be used. */
	public function sync() {
		$state = $this->is_ready( true ) ? $this->state( 'position' ) : null;
		if ( ! $state || ! tidemark_sync( $this->table ) ) {
			return null;
		}
		list( , $origin, $position ) = $state;
		$mark = $this->invalidation->mark;
		if ( ! $this->invalidation->sync() || ! $mark->set( $origin ) ) {
			return false;
		}
		if ( $this->invalidation->is_at( $position ) ) {
			return true;
		}
		$mark->remove();
		return false;
	}
}
