<?php
/** Shows and empties the object cache. */
class Tidemark_Command {
	private $tiers;

	/** @param Tidemark_Tiers|Tidemark_Native $tiers */
	public function __construct( $tiers ) {
		$this->tiers = $tiers;
	}

	public static function register() {
		if ( defined( 'WP_CLI' ) && WP_CLI && class_exists( 'WP_CLI' ) ) {
			WP_CLI::add_command( 'tidemark', new Tidemark_Command( Tidemark_Tiers::shared() ) );
		}
	}

	/** Shows which tiers this process uses, and why not the others. */
	public function status() {
		foreach ( $this->tiers->status() as $name => $text ) {
			WP_CLI::line( "$name: $text" );
		}
		if ( '' !== $this->tiers->place->refusal ) {
			WP_CLI::halt( 1 );
		}
	}

	/** Prints entries, tombstones and bytes of the store, and how many requests met a fault. */
	public function stats() {
		$counts = $this->tiers->counts();
		if ( null === $counts ) {
			WP_CLI::error( 'the store cannot be used: ' . $this->tiers->place->refusal );
		}
		foreach ( $counts + $this->tiers->notices->totals() as $name => $count ) {
			WP_CLI::line( "$name: $count" );
		}
	}

	/** Empties the cache of all processes. */
	public function flush() {
		wp_cache_flush();
		WP_CLI::success( 'The cache is empty.' );
	}

	/**
	 * Empties one group.
	 *
	 * ## OPTIONS
	 *
	 * <group>
	 * : The name of the group.
	 *
	 * @subcommand flush-group
	 */
	public function flush_group( $arguments ) {
		if ( ! isset( $arguments[0] ) || '' === $arguments[0] ) {
			WP_CLI::error( 'the name of a group is missing: wp tidemark flush-group NAME' );
		}
		wp_cache_flush_group( $arguments[0] );
		WP_CLI::success( "The group {$arguments[0]} is empty." );
	}

	/** Brings the store to the disk: it outlives a restart of the machine if no write follows. */
	public function sync() {
		$is_done = $this->tiers->sync();
		if ( null === $is_done ) {
			WP_CLI::error( 'the store cannot be used: ' . $this->tiers->place->refusal );
		} elseif ( ! $is_done ) {
			WP_CLI::error( 'other processes use the store; stop PHP-FPM before' );
		}
		WP_CLI::success( 'The store is on the disk.' );
	}

	/** Reads the whole store and says whether it is sound. */
	public function verify() {
		$damage = $this->tiers->damage();
		if ( null === $damage ) {
			WP_CLI::error( 'the store cannot be used: ' . $this->tiers->place->refusal );
		} elseif ( '' !== $damage ) {
			WP_CLI::error( "the store is damaged: $damage" );
		}
		WP_CLI::success( 'The store is sound.' );
	}
}

Tidemark_Command::register();
