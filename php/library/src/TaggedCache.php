<?php
namespace Tidemark;

/**
 * Values with tags: `invalidate` of a tag ends every value that was made under it.
 *
 * Each tag has a random token in the cache, and a value is kept with those of its tags. They are read
 * before the value is made, so that no value made before an invalidation is found after it.
 */
final class TaggedCache {
	private const TRIES = 3;

	public function __construct( private Cache $cache, private string $group = 'tagged' ) {}

	/**
	 * The value of a key if it was made under the same tags; else what `$make` returns, which is kept
	 * for `$ttl` seconds, for ever if that is 0 or less. Throws what `$make` throws.
	 *
	 * @param string[] $tags In any order.
	 */
	public function remember( string $key, array $tags, int $ttl, callable $make ): mixed {
		$tokens = $this->tokens( $tags );
		$found  = null === $tokens ? null : $this->cache->get( $key, null, $this->group );
		if ( is_array( $found ) && $found[0] === $tokens ) {
			return $found[1];
		}
		if ( null !== $found ) {
			// From here on a deletion of the key by another process is noticed, as after a miss.
			$this->cache->delete( $key, $this->group );
		}
		$value = $make();
		null === $tokens || $this->cache->set( $key, array( $tokens, $value ), $ttl, $this->group );
		return $value;
	}

	/** Whether there is nothing left that was made under one of these tags. */
	public function invalidate( string ...$tags ): bool {
		$is_done = true;
		foreach ( $tags as $tag ) {
			$is_done = null !== $this->cache->delete( $tag, "{$this->group}:tags" ) && $is_done;
		}
		return $is_done;
	}

	/** @return bool False where the value may be found still. */
	public function delete( string $key ): bool {
		return null !== $this->cache->delete( $key, $this->group );
	}

	/** @return array|null Tag => token; null where one cannot be kept, and nothing made under it. */
	private function tokens( array $tags ): ?array {
		$tokens = array();
		foreach ( $tags as $tag ) {
			$tokens[ $tag ] = $this->token( (string) $tag );
			if ( null === $tokens[ $tag ] ) {
				return null;
			}
		}
		ksort( $tokens );
		return $tokens;
	}

	private function token( string $tag ): ?string {
		for ( $tries = 0; $tries < self::TRIES; ++$tries ) {
			$found = $this->cache->get( $tag, null, "{$this->group}:tags" );
			if ( is_string( $found ) ) {
				return $found;
			}
			$token = random_bytes( 16 );
			if ( $this->cache->add( $tag, $token, 0, "{$this->group}:tags" ) ) {
				return $token;
			}
		}
		return null;
	}
}
