<?php
/**
 * Tier 1: APCu, the memory that all workers of one PHP-FPM master share.
 *
 * An entry is valid while it carries the epoch of this memory, which a flush changes, and the
 * token of its key's slot, which each write of a key in that slot changes. Both are random, so
 * one that was evicted never returns. A reader takes the token before it reads the row below.
 * While a write is under way the token is negative: then nothing may be filled in. Such a token
 * ends after some seconds, should its writer be killed.
 */
class Tidemark_Apcu {
	const LARGEST      = 1048576;
	const BUSY_SECONDS = 10;
	private $name;
	private $epoch = '';

	public function __construct( $name ) {
		$this->name = "tidemark:$name:";
	}

	/** Why there is none for this process; empty where there is one. */
	public static function refusal() {
		if ( ! function_exists( 'apcu_enabled' ) ) {
			return 'PHP has no APCu extension';
		}
		$setting = 'cli' === PHP_SAPI ? 'apc.enable_cli' : 'apc.enabled';
		return apcu_enabled() ? '' : "$setting is off";
	}

	/**
	 * What this memory is up to date with: the store's file, the position in `invalidate`, and when
	 * the token was checked. Null where that is unknown; then none of its entries is valid.
	 */
	public function state() {
		$state       = apcu_fetch( $this->name . 's' );
		$this->epoch = (string) apcu_fetch( $this->name . 'e' );
		return is_array( $state ) && 3 === count( $state ) && '' !== $this->epoch ? $state : null;
	}

	/** Whether it is up to date with every earlier write; cheap, the store is not opened. */
	public function is_current( $file, $invalidation, $now ) {
		$state = $this->state();
		if ( ! $state || ! $invalidation->is_at( $state[1] ) || abs( $now - $state[2] ) >= 60 ) {
			return false;
		}
		clearstatcache( true, $file );
		$found  = @stat( $file );
		$origin = (string) @file_get_contents( "$file.origin", false, null, 0, 32 );
		return $found && $state[0] === "{$found['dev']}:{$found['ino']}:$origin";
	}

	/** False where it cannot be kept; then this memory must not be used. */
	public function keep_state( array $state ) {
		if ( '' !== $this->epoch && apcu_store( $this->name . 's', $state ) ) {
			return true;
		}
		apcu_delete( $this->name . 's' );
		return false;
	}

	/** The id of this memory in table `segment` of the store; empty where it cannot be kept. */
	public function segment() {
		$new   = bin2hex( random_bytes( 8 ) );
		$found = apcu_add( $this->name . 'i', $new ) ? $new : apcu_fetch( $this->name . 'i' );
		return is_string( $found ) && ctype_xdigit( $found ) ? $found : '';
	}

	/** Ends every entry. */
	public function flush() {
		$this->epoch = bin2hex( random_bytes( 8 ) );
		if ( ! apcu_store( $this->name . 'e', $this->epoch ) ) {
			apcu_delete( $this->name . 'e' );
			apcu_delete( $this->name . 's' );
			$this->epoch = '';
		}
	}

	/** @return array|null Bytes, expiry, and null for a lease; null where the tier below must be read. */
	public function get( $full, $now ) {
		$entry = apcu_fetch( $this->name . 'k' . $full );
		if ( ! is_string( $entry ) ) {
			return null;
		}
		$hash = hash( 'xxh3', $full, true );
		return $this->validate( $entry, apcu_fetch( $this->name . 't' . $hash[6] . $hash[7] ), $now );
	}

	/** Full key => what `get` answers, where that is not null. */
	public function get_multiple( array $fulls, $now ) {
		$names = array();
		foreach ( $fulls as $full ) {
			$names[ $this->name . 'k' . $full ] = $full;
		}
		$slots = array();
		$found = apcu_fetch( array_keys( $names ) );
		foreach ( (array) $found as $name => $entry ) {
			$slots[ $name ] = $this->slot( self::hash( $names[ $name ] ) );
		}
		$tokens  = $slots ? (array) apcu_fetch( array_values( array_unique( $slots ) ) ) : array();
		$answers = array();
		foreach ( $slots as $name => $slot ) {
			$entry  = $found[ $name ];
			$answer = is_string( $entry ) ? $this->validate( $entry, $tokens[ $slot ] ?? 0, $now ) : null;
			if ( $answer ) {
				$answers[ $names[ $name ] ] = $answer;
			}
		}
		return $answers;
	}

	private function validate( $entry, $token, $now ) {
		$head = "{$this->epoch}:$token:";
		$from = strlen( $head );
		if ( ! is_int( $token ) || $token <= 0 || 0 !== strncmp( $entry, $head, $from ) ) {
			return null;
		}
		$ends    = strpos( $entry, ':', $from );
		$expires = (int) substr( $entry, $from, $ends - $from );
		return 0 === $expires || $expires > $now ? array( substr( $entry, $ends + 1 ), $expires, null ) : null;
	}

	/** To be called before the row is read that `fill` keeps; 0 where nothing may be filled in. */
	public function token( $full ) {
		$slot  = $this->slot( self::hash( $full ) );
		$token = apcu_fetch( $slot );
		if ( false === $token ) {
			$token = random_int( 1, PHP_INT_MAX );
			$token = apcu_add( $slot, $token ) ? $token : apcu_fetch( $slot );
		}
		return is_int( $token ) && $token > 0 ? $token : 0;
	}

	public function fill( $full, $token, $bytes, $expires ) {
		if ( $token <= 0 || strlen( $bytes ) > self::LARGEST ) {
			return;
		}
		$rest = $expires > 0 ? max( 1, $expires - time() ) : 0;
		@apcu_store( $this->name . 'k' . $full, "{$this->epoch}:$token:$expires:$bytes", $rest );
	}

	/** Before a write of the row; `end_write` takes the answer, whose negative is the token after it. */
	public function begin_write( $full ) {
		$slot = $this->slot( self::hash( $full ) );
		$busy = -random_int( 1, PHP_INT_MAX );
		if ( ! apcu_store( $slot, $busy, self::BUSY_SECONDS ) ) {
			apcu_delete( $slot );
		}
		return $busy;
	}

	/** After the row is written, or not; the bytes are null where there are none to keep. */
	public function end_write( $full, $busy, $bytes, $expires ) {
		$token = -$busy;
		if ( null !== $bytes ) {
			$this->fill( $full, $token, $bytes, $expires );
		}
		$slot = $this->slot( self::hash( $full ) );
		if ( ! apcu_cas( $slot, $busy, $token ) ) {
			// Another write of the slot is under way, or the token was evicted meanwhile.
			apcu_delete( $slot );
		}
	}

	/** Ends the entries of the slot of a hash, as `invalidate` has it. */
	public function drop( $hash ) {
		apcu_delete( $this->slot( $hash ) );
	}

	private static function hash( $full ) {
		return hash( 'xxh3', $full, true );
	}

	/** One of 65,536, by the last two bytes of the hash. */
	private function slot( $hash ) {
		return $this->name . 't' . $hash[6] . $hash[7];
	}
}
