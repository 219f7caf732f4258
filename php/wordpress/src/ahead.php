<?php
/**
 * The keys that a page read from tier 2, one by one or some at once: at its next request one query
 * reads them all.
 * Pages share 1,024 lists by the hash of their path, so that no caller can make more.
 */
class Tidemark_Ahead {
	const PREFIX    = 'ahead:';
	const LISTS     = 1024;
	const KEYS_MAX  = 500;
	const BYTES_MAX = 16384;
	const SECONDS   = 86400;
	/** Fewer new keys are not worth a write. */
	const NEW_MIN = 5;

	/** The key of the page's list; empty where the request is not one for a page. */
	private $list = '';
	private $is_read = false;
	/** Full key => what the store answered. */
	private $rows = array();
	/** Full key => prefix and key, of each read in this request. */
	private $queried = array();
	/** Prefix => id => key, as the list has it. */
	private $listed = array();
	/** Reads of keys that are not in the list. */
	private $missed = 0;

	private static function list_of_page() {
		if ( 'GET' !== ( $_SERVER['REQUEST_METHOD'] ?? '' ) || ! isset( $_SERVER['REQUEST_URI'] ) ) {
			return '';
		}
		$path = strtok( $_SERVER['REQUEST_URI'], '?' );
		$page = ( $_SERVER['HTTP_HOST'] ?? '' ) . ' ' . $path;
		return (string) ( crc32( $page ) % self::LISTS );
	}

	/** @return array What the store would answer. @throws Exception */
	public function get( Tidemark_Store $store, $prefix, $key, $now ) {
		if ( ! $this->is_page( $store, $now ) ) {
			return $store->get( $prefix, $key, $now );
		}
		return $this->take( $prefix, $key, $now ) ?? $store->get( $prefix, $key, $now );
	}

	/** @return array Key => what the store would answer. @throws Exception */
	public function get_multiple( Tidemark_Store $store, $prefix, array $keys, $now ) {
		if ( ! $this->is_page( $store, $now ) ) {
			return $store->get_multiple( $prefix, $keys, $now );
		}
		$answers = array();
		$rest    = array();
		foreach ( $keys as $key ) {
			$found = $this->take( $prefix, $key, $now );
			if ( $found ) {
				$answers[ $key ] = $found;
			} else {
				$rest[] = $key;
			}
		}
		return $rest ? $answers + $store->get_multiple( $prefix, $rest, $now ) : $answers;
	}

	/** What was read ahead for that key, once; null where there is nothing. */
	public function known( $prefix, $key, $now ) {
		return isset( $this->rows[ $prefix . $key ] ) ? $this->take( $prefix, $key, $now ) : null;
	}

	/** Whether the request is one for a page; then its list was read. */
	private function is_page( Tidemark_Store $store, $now ) {
		if ( ! $this->is_read ) {
			$this->is_read = true;
			$this->list    = self::list_of_page();
			'' === $this->list || $this->read( $store, $now );
		}
		return '' !== $this->list;
	}

	/** What was read ahead, once; null where the store must be read. */
	private function take( $prefix, $key, $now ) {
		$full = $prefix . $key;
		if ( count( $this->queried ) < self::KEYS_MAX ) {
			$this->queried[ $full ] = array( $prefix, (string) $key );
		}
		$found = $this->rows[ $full ] ?? null;
		if ( $found ) {
			unset( $this->rows[ $full ] );
			if ( 0 === $found[1] || $found[1] > $now ) {
				return $found;
			}
		}
		// Some keys that a page queries are never there: they are not new.
		isset( $this->listed[ $prefix ][ Tidemark_Store::id( $full ) ] ) || ++$this->missed;
		return null;
	}

	private function read( Tidemark_Store $store, $now ) {
		$bytes = $store->get( self::PREFIX, $this->list, $now )[0];
		$keys  = null === $bytes ? false : @unserialize( $bytes, array( 'allowed_classes' => false ) );
		if ( is_array( $keys ) ) {
			$this->listed = $keys;
			$this->rows   = $store->get_listed( $keys, self::BYTES_MAX, $now );
		}
	}

	/** Drops what was read ahead for a key, or for all: it is no longer the newest. */
	public function forget( $full = null ) {
		if ( null === $full ) {
			$this->rows = array();
		} else {
			unset( $this->rows[ $full ] );
		}
	}

	/** At the end of a request: keeps the keys it read, if they differ from the list. */
	public function close( Tidemark_Store $store, $now ) {
		$is_other = $this->missed >= self::NEW_MIN || count( $this->rows ) > count( $this->queried ) / 2;
		if ( '' !== $this->list && $is_other && $this->queried ) {
			$keys = array();
			foreach ( $this->queried as $full => list( $prefix, $key ) ) {
				$keys[ $prefix ][ Tidemark_Store::id( $full ) ] = $key;
			}
			$bytes = serialize( $keys );
			if ( strlen( $bytes ) <= 4 * self::BYTES_MAX ) {
				$store->set( self::PREFIX, $this->list, $bytes, $now + self::SECONDS, null );
			}
		}
		$this->rows  = array();
		$this->queried = array();
	}
}
