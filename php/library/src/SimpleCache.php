<?php
namespace Tidemark;

/**
 * PSR-16 over one group of a `Tidemark\Cache`. A lifetime of 0 or less deletes, as PSR-16 has it; null is for ever.
 *
 * Where another process deletes a key after this request missed it, `set` of that key is false: what
 * was computed may be older than the deletion.
 */
final class SimpleCache implements \Psr\SimpleCache\CacheInterface {
	private const RESERVED = '{}()/\\@:';

	/** @param string $group `clear` empties it, and seldom another one. */
	public function __construct( private Cache $cache, private string $group = 'psr-16' ) {}

	public function get( string $key, mixed $default = null ): mixed {
		return $this->cache->get( self::checked( $key ), $default, $this->group );
	}

	public function set( string $key, mixed $value, null|int|\DateInterval $ttl = null ): bool {
		$seconds = self::seconds( $ttl );
		if ( null !== $seconds && $seconds <= 0 ) {
			return $this->delete( $key );
		}
		return $this->cache->set( self::checked( $key ), $value, $seconds ?? 0, $this->group );
	}

	/** True also where there was none; false where it may be found still. */
	public function delete( string $key ): bool {
		return null !== $this->cache->delete( self::checked( $key ), $this->group );
	}

	public function clear(): bool {
		return $this->cache->flushGroup( $this->group );
	}

	public function getMultiple( iterable $keys, mixed $default = null ): iterable {
		$found = array();
		foreach ( $keys as $key ) {
			$found[ $key ] = $this->get( self::text( $key ), $default );
		}
		return $found;
	}

	public function setMultiple( iterable $values, null|int|\DateInterval $ttl = null ): bool {
		$is_stored = true;
		foreach ( $values as $key => $value ) {
			$is_stored = $this->set( self::text( $key ), $value, $ttl ) && $is_stored;
		}
		return $is_stored;
	}

	public function deleteMultiple( iterable $keys ): bool {
		$is_deleted = true;
		foreach ( $keys as $key ) {
			$is_deleted = $this->delete( self::text( $key ) ) && $is_deleted;
		}
		return $is_deleted;
	}

	public function has( string $key ): bool {
		$missing = new \stdClass();
		return $this->get( $key, $missing ) !== $missing;
	}

	/** PHP makes an integer of a key of an array that looks like one. */
	private static function text( mixed $key ): string {
		if ( ! is_string( $key ) && ! is_int( $key ) ) {
			throw new InvalidKey( 'a key is a string, ' . get_debug_type( $key ) . ' given' );
		}
		return (string) $key;
	}

	private static function checked( string $key ): string {
		if ( '' === $key || strlen( $key ) !== strcspn( $key, self::RESERVED ) ) {
			throw new InvalidKey( 'a key has at least one character, and none of ' . self::RESERVED );
		}
		return $key;
	}

	private static function seconds( null|int|\DateInterval $ttl ): ?int {
		return $ttl instanceof \DateInterval
			? ( new \DateTimeImmutable( '@0' ) )->add( $ttl )->getTimestamp() : $ttl;
	}
}
