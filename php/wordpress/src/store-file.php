<?php
/** The file of the store: how it is opened, made whole, and replaced by a sound one. */
trait Tidemark_Store_File {
	private function open( $limit ) {
		clearstatcache( true, $this->path );
		$found = @stat( $this->path );
		if ( ! $found || is_link( $this->path ) || ( $found['mode'] & 0002 )
			|| Tidemark_Place::user() !== $found['uid'] ) {
			throw new RuntimeException( 'the store is no file of our own' );
		}
		$this->inode    = $found['ino'];
		$this->inode_text = $found['dev'] . ':' . $found['ino'];
		$this->prepared    = array();
		$this->reads_since = null;
		$this->db          = self::connect( $this->path, SQLITE3_OPEN_READWRITE );
		$this->db->exec( 'PRAGMA max_page_count = ' . max( 256, (int) ( $limit / 4096 ) ) );
		// The first reads share the snapshot of this one.
		$this->db->exec( 'BEGIN' );
		$this->reads_since = time();
		$mark = $this->db->querySingle( 'SELECT *, (SELECT count(*) FROM cleared) AS clears,
			(SELECT count(*) FROM segment) AS segments FROM mark', true );
		// A log is opened by the first read; that of a file whose name was taken is gone.
		if ( $this->is_replaced() ) {
			throw new RuntimeException( 'the store was replaced' );
		}
		if ( self::FORMAT !== ( $mark['format'] ?? null ) || $mark['inode'] !== $this->inode_text ) {
			throw new RuntimeException( 'the store is of another place or format' );
		}
		if ( $mark['boot'] !== $this->boot_id ) {
			if ( ! $mark['clean'] || ! $this->mark->is_of( $mark['origin'] ) ) {
				throw new RuntimeException( 'the store is of another boot' );
			}
			$this->end_reads();
			$boot = $this->statement( 'UPDATE mark SET boot = ?1' );
			$boot->bindValue( 1, $this->boot_id, SQLITE3_TEXT );
			$boot->execute()->finalize();
		}
		$this->origin = $mark['origin'];
		// Where `invalidate` has not changed since, it is not read.
		$this->position = $mark['position'];
		$this->checked  = $mark['checked'];
		$this->refresh( $mark );
	}

	private static function connect( $path, $flags ) {
		$db = new SQLite3( $path, $flags );
		$db->enableExceptions( true );
		$db->busyTimeout( self::WAIT_SECONDS * 1000 );
		$db->exec( 'PRAGMA synchronous = OFF; PRAGMA trusted_schema = OFF;
			PRAGMA cell_size_check = ON; PRAGMA journal_size_limit = 16777216;
			PRAGMA cache_size = -4096; PRAGMA temp_store = MEMORY' );
		return $db;
	}

	/** Made whole under another name, so that no process opens half of it. */
	private static function make( $path, $boot_id, $over = false ) {
		$temporary = $path . '.' . bin2hex( random_bytes( 8 ) );
		$mask      = umask( 0007 );
		try {
			$db = self::connect( $temporary, SQLITE3_OPEN_READWRITE | SQLITE3_OPEN_CREATE );
			$db->exec( 'PRAGMA page_size = 4096; PRAGMA journal_mode = WAL;
				CREATE TABLE entry (n INTEGER PRIMARY KEY, id INTEGER NOT NULL UNIQUE, k BLOB NOT NULL, v BLOB,
					x INTEGER NOT NULL, q INTEGER NOT NULL, g INTEGER NOT NULL, c BLOB);
				CREATE TABLE cleared (id INTEGER PRIMARY KEY, stamp INTEGER NOT NULL);
				CREATE TABLE segment (id TEXT PRIMARY KEY, seen INTEGER NOT NULL);
				CREATE TABLE mark (format INTEGER, boot TEXT, inode TEXT, stamp INTEGER,
					flushed INTEGER, swept INTEGER, position TEXT, token TEXT, next TEXT,
					checked INTEGER, changed INTEGER, purged INTEGER, origin TEXT, clean INTEGER)' );
			$found = stat( $temporary );
			$entry = $db->prepare( 'INSERT INTO mark
				VALUES (?1, ?2, ?3, ?7, ?7, ?4, NULL, NULL, NULL, 0, 0, ?5, ?6, 0)' );
			$entry->bindValue( 1, self::FORMAT );
			$entry->bindValue( 2, $boot_id );
			$entry->bindValue( 3, $found['dev'] . ':' . $found['ino'] );
			$entry->bindValue( 4, 0 );
			$entry->bindValue( 5, time() );
			$origin = bin2hex( random_bytes( Tidemark_Invalidation::ORIGIN ) );
			$entry->bindValue( 6, $origin );
			// What a process missed in an earlier file is no lease in this one.
			$entry->bindValue( 7, random_int( 1, PHP_INT_MAX >> 2 ) );
			$entry->execute();
			$entry->close();
			$db->close();
			self::keep_origin( $path, $origin );
			if ( $over ) {
				self::remove( $path );
				rename( $temporary, $path );
			} else {
				self::take_name( $temporary, $path );
			}
		} finally {
			umask( $mask );
			foreach ( array( '', '-wal', '-shm' ) as $end ) {
				is_file( $temporary . $end ) && @unlink( $temporary . $end );
			}
		}
	}

	/**
	 * Beside the store, before it takes its name: a process that does not open the store sees that
	 * it is another one. The inode is no proof, it may be that of a file that is gone.
	 */
	private static function keep_origin( $path, $origin ) {
		if ( @file_get_contents( "$path.origin", false, null, 0, 32 ) !== $origin ) {
			is_link( "$path.origin" ) || @file_put_contents( "$path.origin", $origin );
		}
	}

	/**
	 * Removes a file with its log. The file goes first: without its log it would show older values,
	 * and a log without its file would be taken for one of the next. The caller has the lock of
	 * `lock_name`, so that no log of a new file is removed.
	 */
	private static function remove( $path ) {
		@unlink( $path );
		@unlink( "$path-wal" );
		@unlink( "$path-shm" );
	}

	/** The first process gives its file the name. */
	private static function take_name( $temporary, $path ) {
		$lock = self::lock_name( $path );
		clearstatcache( true, $path );
		if ( $lock && ! is_file( $path ) ) {
			self::remove( $path );
			@rename( $temporary, $path );
		}
	}

	/** The right to give the name to another file; null where another process keeps it too long. */
	private static function lock_name( $path ) {
		// A folder is there where the native form kept a store, which is gone.
		is_dir( "$path.lock" ) && @rmdir( "$path.lock" );
		$lock = @fopen( "$path.lock", 'c' );
		$ends = hrtime( true ) + self::WAIT_SECONDS * 1e9;
		while ( $lock && ! flock( $lock, LOCK_EX | LOCK_NB ) ) {
			if ( hrtime( true ) > $ends ) {
				return null;
			}
			usleep( 2000 );
		}
		return $lock ? $lock : null;
	}

	/** One process replaces it, and answers true; the others find a sound one. @throws Exception */
	public function replace_file() {
		$lock = self::lock_name( $this->path );
		if ( ! $lock ) {
			throw new RuntimeException( 'the store cannot be replaced' );
		}
		clearstatcache( true, $this->path );
		$is_ours = null === $this->inode || @fileinode( $this->path ) === $this->inode;
		if ( $is_ours ) {
			try {
				$this->end_reads();
				$this->db && $this->db->exec( 'UPDATE mark SET stamp = -stamp - 1' );
			} catch ( Exception $unreadable ) {
				$this->prepared = array(); // Then no process can read a stamp from it either.
			}
			// As long as it is open here, no process that closes it is the last one, which removes a log
			// by its name.
			self::make( $this->path, $this->boot_id, true );
			$this->prepared = array();
			$this->db       = null;
		}
		fclose( $lock );
		return $is_ours;
	}

	/** Another file has taken the name: what was written to this one is lost. */
	public function is_replaced() {
		clearstatcache( true, $this->path );
		return @fileinode( $this->path ) !== $this->inode;
	}

	/**
	 * PHP does not close a database whose statements it frees later, at the end of a request: the
	 * worker would keep it, with its files and memory, for good.
	 */
	public function close() {
		try {
			$this->prepared = array();
			$this->db && $this->db->close();
		} catch ( Exception $kept ) {
			// Then it ends with the process.
			unset( $kept );
		} finally {
			$this->db          = null;
			$this->reads_since = null;
		}
	}

	public function __destruct() {
		$this->close();
	}
}
