<?php
// What the extension gives to PHP, for editors. Never loaded.

namespace Tidemark {
	/**
	 * Values that all PHP processes of a machine share, in one file that outlives them.
	 *
	 * The file is opened at the first use. It must belong to the user of the process. Where it cannot
	 * be used nothing is stored and nothing found, and `fault` says why.
	 */
	final class Cache {
		/**
		 * @param string $file  An absolute path within `open_basedir`.
		 * @param int    $bytes Size of a new file, 8 MiB to 64 GiB. One that is there keeps its own.
		 * @throws \ValueError For another path or size, and for a seventeenth file in one request.
		 */
		public function __construct( string $file, int $bytes = 268435456 ) {}

		/** The value, or `$default` where there is none. Throws what `__unserialize`, `__wakeup` or a class loader throws. */
		public function get( string $key, mixed $default = null, string $group = '' ): mixed {}

		/**
		 * Stores a value for `$ttl` seconds, for ever if that is 0 or less. False where it was not:
		 * it has no bytes (a closure), is above about 1/16 of the file or 64 MiB, or its key was
		 * deleted since this request missed it. One that cannot be stored deletes the older one.
		 * Throws what `__serialize` or `__sleep` throws.
		 */
		public function set( string $key, mixed $value, int $ttl = 0, string $group = '' ): bool {}

		/** As `set`, only where there is no value: of many processes one gets true. */
		public function add( string $key, mixed $value, int $ttl = 0, string $group = '' ): bool {}

		/** As `set`, only where there is a value. */
		public function replace( string $key, mixed $value, int $ttl = 0, string $group = '' ): bool {}

		/** Whether there was a value; null if it could not be deleted, and may be found still. */
		public function delete( string $key, string $group = '' ): ?bool {}

		/** The new number, never below 0; false where there is no value. What is no number counts as 0. */
		public function increment( string $key, int $offset = 1, string $group = '' ): int|false {}

		public function decrement( string $key, int $offset = 1, string $group = '' ): int|false {}

		/** @return array Each key with its value or `$default`, in the order of `$keys`. */
		public function getMultiple( array $keys, mixed $default = null, string $group = '' ): array {}

		/** @return array Each key with whether it was stored. */
		public function setMultiple( array $values, int $ttl = 0, string $group = '' ): array {}

		/** @return array Each key with what `delete` says. */
		public function deleteMultiple( array $keys, string $group = '' ): array {}

		/** Deletes everything. */
		public function flush(): bool {}

		/** Deletes a group, and seldom another one's values too. */
		public function flushGroup( string $group ): bool {}

		/** Brings everything to the disk: the file outlives a start of the machine if no write follows. */
		public function sync(): bool {}

		/** @return array{hits: int, misses: int, stored: int, refused: int, faults: int, bytes: int} Of this thread. */
		public function stats(): array {}

		/** Why the file cannot be used, or the last call that failed did so; empty if neither. */
		public function fault(): string {}
	}
}

namespace {
	// For the drop-in of WordPress. Null is a fault, which `tidemark_fault` explains.

	/** Raised when one of these changes its meaning. */
	function tidemark_interface(): int {}

	/** The number of the table of a file in this thread; -1 where PHP may not use it. */
	function tidemark_open( string $file, int $bytes ): int {}

	function tidemark_fault( int $table ): string {}

	/** @return array{mixed, int}|false|null The value, and the Unix time at which it expires, 0 for never; false for a miss. */
	function tidemark_get( int $table, string $group, string $key ): array|false|null {}

	/**
	 * Leaves the older value where it does not store this one.
	 *
	 * @param int $when 0 always, 1 if there is no value, 2 if there is one.
	 * @return int|false|null 1 stored, 0 not by `$when`, -1 the key was deleted since it was missed,
	 *     -2 a lock was not to be had or the disk refused; false for a value without bytes or with too many.
	 */
	function tidemark_put( int $table, string $group, string $key, mixed $value, int $expires, int $when ): int|false|null {}

	function tidemark_delete( int $table, string $group, string $key ): ?bool {}

	/** @return array{int, int}|false|null The new number and when it expires; false where there is no value. */
	function tidemark_raise( int $table, string $group, string $key, int $offset ): array|false|null {}

	function tidemark_flush( int $table, ?string $group = null ): ?bool {}

	/**
	 * Deletes the key whose group and name, one after the other, have this hash; or flushes the group
	 * of this hash. For what a process without access to the file wrote.
	 *
	 * @param string $hash `hash( 'xxh3', $group . $key, true )`, or that of the group alone.
	 */
	function tidemark_forget( int $table, string $hash, bool $is_group ): ?bool {}

	/** Forgets what was missed, as PHP does at the end of each request: for one that serves several. */
	function tidemark_end( int $table ): void {}

	/** A text that this thread keeps from one request to the next, for programs of the same `open_basedir`: the last 16. */
	function tidemark_recall( string $name ): ?string {}

	function tidemark_remember( string $name, string $text ): void {}

	/** @return array{entries: int, bytes: int, damaged: int, file: int}|null Of the whole file, which it reads. */
	function tidemark_counts( int $table ): ?array {}

	function tidemark_sync( int $table ): ?bool {}

	function tidemark_stats( int $table ): array {}
}
