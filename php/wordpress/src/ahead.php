<?php
/**
 * The keys that a page read from tier 2 one by one: at its next request one query reads them all.
 * Pages share 1,024 lists by the hash of their path, so that no caller can make more.
 */
class Tidemark_Ahead {
	const PREFIX    = 'ahead:';
	const LISTS     = 1024;
	const KEYS_MAX  = 200;
	const BYTES_MAX = 16384;
	const SECONDS   = 86400;
	/** Fewer new keys are not worth a write. */
	const NEWS = 5;

	/** The key of the page's list; empty where the request is none of a page, null at first. */
	private $list;
	private $is_read = false;
	/** Full key => what the store answered. */
	private $rows = array();
	/** Full key => prefix and key, of each read in this request. */
	private $asked = array();
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
		$this->list = $this->list ?? self::list_of_page();
		if ( '' === $this->list ) {
			return $store->get( $prefix, $key, $now );
		}
		if ( ! $this->is_read ) {
			$this->is_read = true;
			$this->read( $store, $now );
		}
		$full = $prefix . $key;
		if ( count( $this->asked ) < self::KEYS_MAX ) {
			$this->asked[ $full ] = array( $prefix, (string) $key );
		}
		$found = $this->rows[ $full ] ?? null;
		unset( $this->rows[ $full ] );
		$is_fit = $found && ( 0 === $found[1] || $found[1] > $now );
		if ( $is_fit ) {
			return $found;
		}
		++$this->missed;
		return $store->get( $prefix, $key, $now );
	}

	private function read( Tidemark_Store $store, $now ) {
		$bytes = $store->get( self::PREFIX, $this->list, $now )[0];
		$keys  = null === $bytes ? false : @unserialize( $bytes, array( 'allowed_classes' => false ) );
		if ( is_array( $keys ) ) {
			$this->rows = $store->get_pairs( $keys, self::BYTES_MAX, $now );
		}
	}

	/** What was read ahead of these is no longer the newest. */
	public function forget( $full = null ) {
		if ( null === $full ) {
			$this->rows = array();
		} else {
			unset( $this->rows[ $full ] );
		}
	}

	/** At the end of a request: keeps the keys it read, if they differ from the list. */
	public function close( Tidemark_Store $store, $now ) {
		$is_other = $this->missed >= self::NEWS || count( $this->rows ) > count( $this->asked ) / 2;
		if ( $this->is_read && $is_other && $this->asked ) {
			$bytes = serialize( array_values( $this->asked ) );
			if ( strlen( $bytes ) <= 4 * self::BYTES_MAX ) {
				$store->set( self::PREFIX, $this->list, $bytes, $now + self::SECONDS, null );
			}
		}
		$this->rows  = array();
		$this->asked = array();
	}
}
