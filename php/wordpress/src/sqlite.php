<?php
/**
 * Tier 2: one SQLite file that all processes of a machine share. It survives the end of any
 * process, not of the machine: at another boot it is discarded, so nothing waits for a flush.
 *
 * Table `entry`: `id` hash of the key, `k` the key, `v` the value (null is a tombstone), `x`
 * Unix time of expiry or 0, `q` the stamp it was written at, `g` a number that a delete
 * changes (the lease), `c` a checksum. Table `mark`, one row: `stamp` rises with every event
 * that all processes must hear of; each write compares it. `flushed` is the stamp of the last
 * flush, `cleared` holds that of each flushed group. A row is seen if `q` is not below them.
 * Table `segment`: the shared memories (tier 1) of this store, and when each was last seen.
 */
class Tidemark_Store {
	const FORMAT  = 2;
	const LARGEST = 16777216;
	const LOG_MAX = 33554432;
	/** A shared memory that was not seen so long joins again before it is used. */
	const SEGMENT_SECONDS = 600;

	public $stamp = 0;
	/** Reads of one key each, by this process. */
	public $selects = 0;
	private $flushed = 0;
	private $cleared = array();
	private $path;
	private $inode;
	private $inode_text;
	/** @var SQLite3 */
	private $db;
	private $prepared = array();
	private $reads_since = null;
	/** Up to where the file of the guests was read. */
	private $told;
	/** A write that the other shared memories should hear of could not be told. */
	public $is_untold = false;
	private $invalidation;
	/** @var Tidemark_Apcu|null */
	private $apcu;
	private $segment = '';
	/** Whether there are shared memories that this process cannot write to. */
	private $has_others = false;
	private $origin;
	/** @var Tidemark_Clean_Mark */
	private $mark;
	/** Whether the mark must be taken away before the next write. */
	private $is_clean = false;

	const SELECT = 'SELECT k, v, x, q, g, c FROM entry WHERE id = ?1';
	const UPSERT = 'INSERT INTO entry (id, k, v, x, q, g, c)
		SELECT ?1, ?2, ?3, ?4, ?5, 0, ?6 WHERE (SELECT stamp FROM mark) = ?5
		ON CONFLICT (id) DO UPDATE SET k = excluded.k, v = excluded.v, x = excluded.x,
		q = excluded.q, c = excluded.c';
	/** As above; a row may only be taken over where the lease still holds. */
	const LEASED = self::UPSERT . ' WHERE entry.g = ?7';
	const ABSENT = '(v IS NULL OR (x > 0 AND x <= ?8) OR q < ?9 OR k <> ?2)';
	const ADD = self::UPSERT . ' WHERE ' . self::ABSENT;
	const ADD_LEASED = self::ADD . ' AND entry.g = ?7';
	const REPLACE = 'UPDATE entry SET v = ?3, x = ?4, q = ?5, c = ?6
		WHERE id = ?1 AND (SELECT stamp FROM mark) = ?5 AND NOT ' . self::ABSENT;
	const REMOVE = 'UPDATE entry SET v = NULL, c = NULL, g = ?7 WHERE id = ?1
		AND (SELECT stamp FROM mark) = ?5 AND NOT ' . self::ABSENT;
	const TOMBSTONE = 'INSERT INTO entry (id, k, v, x, q, g, c)
		SELECT ?1, ?2, NULL, 0, ?5, ?7, NULL WHERE (SELECT stamp FROM mark) = ?5
		ON CONFLICT (id) DO UPDATE SET k = excluded.k, v = NULL, x = 0, q = excluded.q,
		g = excluded.g, c = NULL';

	/** @throws Exception When the file cannot be opened, made or trusted. */
	public function __construct( $path, $boot_id, $limit, $invalidation, $shared ) {
		$this->path         = $path;
		$this->invalidation = $invalidation;
		$this->mark         = $invalidation->mark;
		$this->apcu         = $shared;
		clearstatcache( true, $path );
		if ( ! is_file( $path ) ) {
			self::make( $path, $boot_id );
		}
		try {
			$this->open( $boot_id, $limit );
		} catch ( Exception $damaged ) {
			// Another process may hold the old file: a new one takes its name, nothing is cut.
			if ( false !== strpos( $damaged->getMessage(), 'locked' ) ) {
				throw $damaged;
			}
			$this->replace_file( $boot_id );
			$this->open( $boot_id, $limit );
		}
	}

	private function open( $boot_id, $limit ) {
		clearstatcache( true, $this->path );
		$found = @stat( $this->path );
		if ( ! $found || is_link( $this->path ) || ( $found['mode'] & 0002 )
			|| Tidemark_Place::user() !== $found['uid'] ) {
			throw new RuntimeException( 'the store is no file of our own' );
		}
		$this->inode    = $found['ino'];
		$this->inode_text = $found['dev'] . ':' . $found['ino'];
		$this->prepared = array();
		$this->db       = self::connect( $this->path, SQLITE3_OPEN_READWRITE );
		$this->db->exec( 'PRAGMA max_page_count = ' . max( 256, (int) ( $limit / 4096 ) ) );
		$mark = $this->db->querySingle( 'SELECT * FROM mark', true );
		if ( self::FORMAT !== ( $mark['format'] ?? null ) || $mark['inode'] !== $this->inode_text ) {
			throw new RuntimeException( 'the store is of another place or format' );
		}
		if ( $mark['boot'] !== $boot_id ) {
			if ( ! $mark['clean'] || ! $this->mark->is_of( $mark['origin'] ) ) {
				throw new RuntimeException( 'the store is of another boot' );
			}
			$boot = $this->statement( 'UPDATE mark SET boot = ?1' );
			$boot->bindValue( 1, $boot_id, SQLITE3_TEXT );
			$boot->execute()->finalize();
		}
		$this->origin = $mark['origin'];
		$this->refresh( $mark );
	}

	private static function connect( $path, $flags ) {
		$db = new SQLite3( $path, $flags );
		$db->enableExceptions( true );
		$db->busyTimeout( 5000 );
		$db->exec( 'PRAGMA synchronous = OFF; PRAGMA trusted_schema = OFF;
			PRAGMA cell_size_check = ON; PRAGMA journal_size_limit = 16777216;
			PRAGMA cache_size = -4096; PRAGMA temp_store = MEMORY' );
		return $db;
	}

	/** Made whole under another name, so that nobody opens half of it. */
	private static function make( $path, $boot_id, $over = false ) {
		$temporary = $path . '.' . bin2hex( random_bytes( 8 ) );
		$mask      = umask( 0007 );
		try {
			$db = self::connect( $temporary, SQLITE3_OPEN_READWRITE | SQLITE3_OPEN_CREATE );
			$db->exec( 'PRAGMA page_size = 4096; PRAGMA journal_mode = WAL;
				CREATE TABLE entry (id INTEGER PRIMARY KEY, k BLOB NOT NULL, v BLOB,
					x INTEGER NOT NULL, q INTEGER NOT NULL, g INTEGER NOT NULL, c BLOB);
				CREATE TABLE cleared (id INTEGER PRIMARY KEY, stamp INTEGER NOT NULL);
				CREATE TABLE segment (id TEXT PRIMARY KEY, seen INTEGER NOT NULL);
				CREATE TABLE mark (format INTEGER, boot TEXT, inode TEXT, stamp INTEGER,
					flushed INTEGER, swept INTEGER, told TEXT, token TEXT, next TEXT,
					checked INTEGER, changed INTEGER, purged INTEGER, origin TEXT, clean INTEGER)' );
			$found = stat( $temporary );
			$entry = $db->prepare( 'INSERT INTO mark
				VALUES (?1, ?2, ?3, 1, 1, ?4, NULL, NULL, NULL, 0, 0, ?5, ?6, 0)' );
			$entry->bindValue( 1, self::FORMAT );
			$entry->bindValue( 2, $boot_id );
			$entry->bindValue( 3, $found['dev'] . ':' . $found['ino'] );
			$entry->bindValue( 4, PHP_INT_MIN );
			$entry->bindValue( 5, time() );
			$origin = bin2hex( random_bytes( Tidemark_Invalidation::ORIGIN ) );
			$entry->bindValue( 6, $origin );
			$entry->execute();
			$entry->close();
			$db->close();
			self::keep_origin( $path, $origin );
			if ( $over ) {
				// The log of the old file would be taken for one of the new.
				@unlink( "$path-wal" );
				@unlink( "$path-shm" );
				rename( $temporary, $path );
			} elseif ( ! @link( $temporary, $path ) ) {
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
	 * Beside the store, before it takes its name: who does not open the store sees that it is
	 * another. The inode does not tell, it may be that of a file that is gone.
	 */
	private static function keep_origin( $path, $origin ) {
		if ( @file_get_contents( "$path.origin", false, null, 0, 32 ) !== $origin ) {
			is_link( "$path.origin" ) || @file_put_contents( "$path.origin", $origin );
		}
	}

	/** For file systems without hard links; the first that comes gives its file the name. */
	private static function take_name( $temporary, $path ) {
		$lock = @fopen( "$path.lock", 'c' );
		if ( $lock && flock( $lock, LOCK_EX ) ) {
			clearstatcache( true, $path );
			is_file( $path ) || @rename( $temporary, $path );
		}
	}

	/** One process replaces it; the others find a sound one. */
	private function replace_file( $boot_id ) {
		$lock = @fopen( $this->path . '.lock', 'c' );
		if ( ! $lock || ! flock( $lock, LOCK_EX ) ) {
			throw new RuntimeException( 'the store cannot be replaced' );
		}
		clearstatcache( true, $this->path );
		if ( null === $this->inode || @fileinode( $this->path ) === $this->inode ) {
			try {
				$this->db && $this->db->exec( 'UPDATE mark SET stamp = -stamp - 1' );
			} catch ( Exception $unreadable ) {
				$this->prepared = array(); // Then nobody can read a stamp from it either.
			}
			$this->db = null;
			self::make( $this->path, $boot_id, true );
		}
		fclose( $lock );
	}

	/** Another file has taken the name: what was written to this one is lost. */
	public function is_replaced() {
		clearstatcache( true, $this->path );
		return @fileinode( $this->path ) !== $this->inode;
	}

	public static function id( $full ) {
		return unpack( 'q', hash( 'xxh3', $full, true ) )[1];
	}

	/** Value, expiry and lease; the value is null for a miss. @throws Exception */
	public function get( $prefix, $key, $now ) {
		if ( $this->reads_since !== $now ) {
			$this->begin_reads( $now );
		}
		$full  = $prefix . $key;
		$found = $this->select( $prefix, $full, $now );
		if ( null === $found[0] || ! $this->apcu ) {
			return $found;
		}
		// What is filled in above must be as new as the token, so it is read once more.
		$token = $this->apcu->token( $full );
		$this->begin_reads( $now );
		$found = $this->select( $prefix, $full, $now );
		if ( null !== $found[0] ) {
			$this->apcu->fill( $full, $token, $found[0], $found[1] );
		}
		return $found;
	}

	private function select( $prefix, $full, $now ) {
		++$this->selects;
		$select = $this->statement( self::SELECT );
		$select->bindValue( 1, self::id( $full ), SQLITE3_INTEGER );
		$row = $select->execute()->fetchArray( SQLITE3_NUM );
		$select->reset();
		return $this->judge( $row, $prefix, $full, $now );
	}

	/** Key => what `get` answers, by one query for each hundred. @throws Exception */
	public function get_multiple( $prefix, array $keys, $now ) {
		if ( $this->reads_since !== $now ) {
			$this->begin_reads( $now );
		}
		$answers = $this->select_all( $prefix, $keys, $now );
		$tokens  = array();
		foreach ( $this->apcu ? $answers : array() as $key => $found ) {
			if ( null !== $found[0] ) {
				$tokens[ $key ] = $this->apcu->token( $prefix . $key );
			}
		}
		if ( $tokens ) {
			$this->begin_reads( $now );
			$newer = $this->select_all( $prefix, array_keys( $tokens ), $now );
			foreach ( $newer as $key => list( $bytes, $expires ) ) {
				if ( null !== $bytes ) {
					$this->apcu->fill( $prefix . $key, $tokens[ $key ], $bytes, $expires );
				}
			}
			$answers = array_replace( $answers, $newer );
		}
		return $answers;
	}

	private function select_all( $prefix, array $keys, $now ) {
		$answers = array();
		foreach ( array_chunk( $keys, 100 ) as $some ) {
			$ids = array();
			foreach ( $some as $key ) {
				$ids[ self::id( $prefix . $key ) ] = $key;
			}
			// The ids are integers made here, so they can stand in the text.
			$rows = $this->db->query( 'SELECT k, v, x, q, g, c, id FROM entry WHERE id IN ('
				. implode( ',', array_keys( $ids ) ) . ')' );
			foreach ( $some as $key ) {
				$answers[ $key ] = array( null, 0, array( $this->stamp, 0 ) );
			}
			while ( $row = $rows->fetchArray( SQLITE3_NUM ) ) {
				$key             = $ids[ $row[6] ];
				$answers[ $key ] = $this->judge( $row, $prefix, $prefix . $key, $now );
			}
			$rows->finalize();
		}
		return $answers;
	}

	/** Full key => what `get` answers, for the pairs of prefix and key that are there. @throws Exception */
	public function get_pairs( array $pairs, $bytes_max, $now ) {
		$ids    = array();
		$tokens = array();
		foreach ( array_slice( $pairs, 0, Tidemark_Ahead::KEYS_MAX ) as $pair ) {
			if ( 2 === count( (array) $pair ) && is_string( $pair[0] ) && is_string( $pair[1] ) ) {
				$full                    = $pair[0] . $pair[1];
				$ids[ self::id( $full ) ] = array( $pair[0], $full );
				$tokens[ $full ]         = $this->apcu ? $this->apcu->token( $full ) : 0;
			}
		}
		$this->begin_reads( $now );
		$rows  = $this->db->query( 'SELECT k, v, x, q, g, c, id FROM entry WHERE id IN ('
			. implode( ',', array_keys( $ids ) ) . ') AND length(v) <= ' . (int) $bytes_max );
		$found = array();
		while ( $row = $rows->fetchArray( SQLITE3_NUM ) ) {
			list( $prefix, $full ) = $ids[ $row[6] ];
			$answer = $this->judge( $row, $prefix, $full, $now );
			if ( null !== $answer[0] ) {
				$found[ $full ] = $answer;
				$this->apcu && $this->apcu->fill( $full, $tokens[ $full ], $answer[0], $answer[1] );
			}
		}
		$rows->finalize();
		return $found;
	}

	private function judge( $row, $prefix, $full, $now ) {
		if ( ! $row ) {
			return array( null, 0, array( $this->stamp, 0 ) );
		}
		$lease = array( $this->stamp, $row[4] );
		$is_of = null !== $row[1] && $row[0] === $full
			&& ( 0 === $row[2] || $row[2] > $now ) && $row[3] >= $this->floor( $prefix );
		if ( ! $is_of || self::checksum( $row[2], $row[1] ) !== $row[5] ) {
			return array( null, 0, $lease );
		}
		return array( $row[1], $row[2], $lease );
	}

	private static function checksum( $expires, $bytes ) {
		return hash( 'xxh3', $expires . '|' . $bytes, true );
	}

	private function floor( $prefix ) {
		if ( ! $this->cleared ) {
			return $this->flushed;
		}
		return max( $this->flushed, $this->cleared[ self::id( $prefix ) ] ?? 0 );
	}

	/** True when stored, false when the lease no longer holds. @throws Exception */
	public function set( $prefix, $key, $bytes, $expires, $lease ) {
		$full = $prefix . $key;
		return $this->write(
			$lease ? self::LEASED : self::UPSERT,
			array( self::id( $full ), $full, $bytes, $expires, null, $this->sum( $bytes, $expires ) ),
			$lease,
			$prefix
		);
	}

	/** As `set`; false also when there is an entry. @throws Exception */
	public function add( $prefix, $key, $bytes, $expires, $lease ) {
		$full = $prefix . $key;
		return $this->write(
			$lease ? self::ADD_LEASED : self::ADD,
			array( self::id( $full ), $full, $bytes, $expires, null, $this->sum( $bytes, $expires ) ),
			$lease,
			$prefix
		);
	}

	/** True when there was an entry. @throws Exception */
	public function replace( $prefix, $key, $bytes, $expires ) {
		$full = $prefix . $key;
		return $this->write(
			self::REPLACE,
			array( self::id( $full ), $full, $bytes, $expires, null, $this->sum( $bytes, $expires ) ),
			null,
			$prefix
		);
	}

	/** Whether there was an entry, and the new lease. @throws Exception */
	public function delete( $prefix, $key ) {
		$full   = $prefix . $key;
		$number = random_int( 1, PHP_INT_MAX );
		$values = array( self::id( $full ), $full, null, 0, null, null, $number );
		$found  = $this->write( self::REMOVE, $values, null, $prefix );
		if ( ! $found ) {
			$this->write( self::TOMBSTONE, $values, null, $prefix );
		}
		return array( $found, array( $this->stamp, $number ) );
	}

	/** Changes a value under the write lock; `$change` gets bytes, answers bytes. @throws Exception */
	public function change( $prefix, $key, $now, $change ) {
		$full    = $prefix . $key;
		$changed = null;
		$busy    = $this->apcu ? $this->apcu->begin_write( $full ) : 0;
		try {
			$changed = $this->change_row( $prefix, $full, $now, $change );
		} finally {
			list( $bytes, $expires ) = $changed ?? array( null, 0 );
			$this->show( $full, $busy, null !== $changed, $bytes, $expires );
		}
		return $changed;
	}

	private function change_row( $prefix, $full, $now, $change ) {
		$this->end_reads();
		$this->db->exec( 'BEGIN IMMEDIATE' );
		try {
			$this->refresh();
			list( $bytes, $expires ) = $this->select( $prefix, $full, $now );
			if ( null !== $bytes ) {
				$this->take_mark_away();
				$bytes = $change( $bytes );
				$this->run( self::REPLACE, $prefix, array( self::id( $full ), $full, $bytes, $expires,
					$this->stamp, $this->sum( $bytes, $expires ) ) );
			}
			$this->db->exec( 'COMMIT' );
		} catch ( Throwable $failed ) {
			@$this->db->exec( 'ROLLBACK' );
			throw $failed;
		}
		return null === $bytes ? null : array( $bytes, $expires );
	}

	private function sum( $bytes, $expires ) {
		return self::checksum( $expires, $bytes );
	}

	private function write( $sql, array $values, $lease, $prefix ) {
		$busy    = $this->apcu ? $this->apcu->begin_write( $values[1] ) : 0;
		$is_done = false;
		try {
			$is_done = $this->write_row( $sql, $values, $lease, $prefix );
		} finally {
			$bytes = $is_done ? $values[2] : null;
			$this->show( $values[1], $busy, $is_done, $bytes, $values[3] );
		}
		return $is_done;
	}

	/** Brings a write that is committed, or was not, to the shared memories. */
	private function show( $full, $busy, $is_done, $bytes, $expires ) {
		if ( $this->apcu ) {
			$this->apcu->end_write( $full, $busy, $bytes, $expires );
		}
		if ( $is_done ) {
			$this->tell( Tidemark_Invalidation::KEY, $full );
		}
	}

	/** After the commit: who hears of it earlier would read the old row once more. */
	private function tell( $kind, $text ) {
		if ( $this->has_others && ! $this->invalidation->append( $kind, $text, $this->origin ) ) {
			$this->is_untold = true;
		}
	}

	/** One statement, one commit. A changed stamp is learned, then the write is tried again. */
	private function write_row( $sql, array $values, $lease, $prefix ) {
		$this->end_reads();
		for ( $tries = 0; $tries < 20; ++$tries ) {
			if ( $this->is_clean ) {
				$this->begin_dirty();
			}
			if ( $lease ) {
				if ( $lease[0] !== $this->stamp ) {
					return false;
				}
				$values[6] = $lease[1];
			}
			$values[4] = $this->stamp;
			if ( $this->run( $sql, $prefix, $values ) ) {
				return true;
			}
			$before = $this->stamp;
			$this->refresh();
			if ( $this->stamp === $before ) {
				return false;
			}
		}
		throw new RuntimeException( 'the stamp of the store changes without end' );
	}

	private function begin_dirty() {
		$this->db->exec( 'BEGIN IMMEDIATE' );
		try {
			$this->take_mark_away();
		} finally {
			$this->db->exec( 'COMMIT' );
		}
	}

	private function run( $sql, $prefix, array $values ) {
		static $kinds = array( SQLITE3_INTEGER, SQLITE3_BLOB, SQLITE3_BLOB, SQLITE3_INTEGER,
			SQLITE3_INTEGER, SQLITE3_BLOB, SQLITE3_INTEGER );
		$statement = $this->statement( $sql );
		$asked     = $statement->paramCount();
		foreach ( $values as $at => $value ) {
			if ( $at < $asked ) {
				$statement->bindValue( $at + 1, $value, null === $value ? SQLITE3_NULL : $kinds[ $at ] );
			}
		}
		if ( $asked > 7 ) {
			$statement->bindValue( 8, time(), SQLITE3_INTEGER );
			$statement->bindValue( 9, $this->floor( $prefix ), SQLITE3_INTEGER );
		}
		$statement->execute()->finalize();
		$statement->reset();
		return $this->db->changes() > 0;
	}

	private function statement( $sql ) {
		return $this->prepared[ $sql ] ?? ( $this->prepared[ $sql ] = $this->db->prepare( $sql ) );
	}

	/** Everything, or the group whose prefix is given; one small write, whatever is kept. */
	public function flush( $prefix = null ) {
		$this->end_reads();
		$this->db->exec( 'BEGIN IMMEDIATE' );
		$this->refresh();
		$this->take_mark_away();
		$next = $this->stamp + 1;
		$kind = Tidemark_Invalidation::FLUSH;
		if ( null === $prefix || count( $this->cleared ) >= 10000 ) {
			$this->db->exec( "UPDATE mark SET stamp = $next, flushed = $next; DELETE FROM cleared" );
		} else {
			$kind  = Tidemark_Invalidation::GROUP;
			$group = self::id( $prefix );
			$this->db->exec( "UPDATE mark SET stamp = $next;
				REPLACE INTO cleared VALUES ($group, $next)" );
		}
		$this->db->exec( 'COMMIT' );
		$this->refresh();
		if ( $this->apcu ) {
			// Of a group, too: what is asked again comes from here.
			$this->apcu->flush();
		}
		$this->tell( $kind, Tidemark_Invalidation::GROUP === $kind ? $prefix : '' );
	}

	/**
	 * Brings the shared memory up to what `follow` read, and lets all writers know it. False
	 * where it must not be used.
	 *
	 * @throws Exception
	 */
	public function join( $now ) {
		$this->end_reads();
		$segment = $this->apcu->segment();
		if ( '' === $segment ) {
			return false;
		}
		$state  = $this->apcu->state();
		$file   = "{$this->inode_text}:{$this->origin}";
		$is_old = $state && $state[0] === $file
			&& 1 === $this->db->querySingle( "SELECT count(*) FROM segment WHERE id = '$segment'" );
		$this->replay( $is_old ? $state[1] : null );
		$this->register( $segment, $is_old, $now );
		$checked = $this->db->querySingle( 'SELECT checked FROM mark' );
		self::keep_origin( $this->path, $this->origin );
		return $this->apcu->keep_state( array( $file, $this->told, $checked ) );
	}

	/** Does in the shared memory what was told since a position; null is for what is unknown. */
	private function replay( $from ) {
		// What was appended meanwhile may be read as well: it is read once more later.
		$records = null === $from ? null : $this->invalidation->since( $from )[0];
		foreach ( $records ?? array( array( Tidemark_Invalidation::FLUSH, 0 ) ) as $record ) {
			if ( Tidemark_Invalidation::KEY !== $record[0] ) {
				$this->apcu->flush();
				return;
			}
			$this->apcu->drop( pack( 'q', $record[1] ) );
		}
	}

	/** The stamp rises with a new one: from then on each write is told to it. */
	private function register( $segment, $is_old, $now ) {
		$this->segment = $segment;
		$late          = self::SEGMENT_SECONDS;
		$this->db->exec( 'BEGIN IMMEDIATE' );
		$this->db->exec( "REPLACE INTO segment VALUES ('$segment', $now);
			DELETE FROM segment WHERE abs($now - seen) > $late"
			. ( $is_old ? '' : '; UPDATE mark SET stamp = stamp + 1' ) );
		$this->db->exec( 'COMMIT' );
		$this->refresh();
		$this->has_others = $this->other_segments() > 0;
	}

	private function other_segments() {
		$query = "SELECT count(*) FROM segment WHERE id <> '{$this->segment}'";
		return $this->db->querySingle( $query );
	}
	/** Reads what all processes must hear of. @throws Exception When the file was given up. */
	private function refresh( $mark = null ) {
		$mark = $mark ? $mark : $this->db->querySingle( 'SELECT stamp, flushed, clean FROM mark', true );
		if ( ! isset( $mark['stamp'] ) || $mark['stamp'] < 0 ) {
			throw new RuntimeException( 'the store was replaced' );
		}
		if ( $this->stamp !== $mark['stamp'] ) {
			$this->cleared = array();
			$rows          = $this->db->query( 'SELECT id, stamp FROM cleared' );
			while ( $row = $rows->fetchArray( SQLITE3_NUM ) ) {
				$this->cleared[ $row[0] ] = $row[1];
			}
			$rows->finalize();
			$this->has_others = $this->other_segments() > 0;
		}
		$this->stamp   = $mark['stamp'];
		$this->flushed  = $mark['flushed'];
		$this->is_clean = 0 !== $mark['clean'];
	}

	/** Within a transaction that writes. @throws Exception */
	private function take_mark_away() {
		if ( $this->is_clean ) {
			if ( ! $this->mark->take_away() ) {
				throw new RuntimeException( 'the mark of a sync cannot be taken away' );
			}
			$this->db->exec( 'UPDATE mark SET clean = 0' );
			$this->is_clean = false;
		}
	}

	/**
	 * Brings all to the disk and sets the mark. It raises the stamp, so that each writer meets the mark.
	 * False where another process wrote or read meanwhile.
	 *
	 * @throws Exception
	 */
	public function sync() {
		$this->end_reads();
		$this->db->exec( 'PRAGMA synchronous = FULL; BEGIN IMMEDIATE;
			UPDATE mark SET stamp = stamp + 1, clean = 1; COMMIT' );
		$left = $this->db->querySingle( 'PRAGMA wal_checkpoint(TRUNCATE)', true );
		$this->db->exec( 'PRAGMA synchronous = OFF; BEGIN IMMEDIATE' );
		$is_done = 0 === $left['busy'] && 1 === $this->db->querySingle( 'SELECT clean FROM mark' )
			&& $this->invalidation->sync() && $this->mark->set( $this->origin );
		$this->db->exec( 'COMMIT' );
		$this->refresh();
		return $is_done;
	}

	/** Reads of one second share a snapshot: that spares each a lock. */
	private function begin_reads( $now ) {
		$this->end_reads();
		$this->db->exec( 'BEGIN' );
		$this->reads_since = $now;
		$this->refresh();
	}

	public function end_reads() {
		if ( null !== $this->reads_since ) {
			$this->reads_since = null;
			$this->db->exec( 'COMMIT' );
		}
	}

	/** Small steps of upkeep: what is expired or flushed goes, then what is left at random. */
	public function sweep( $limit, $milliseconds, $now ) {
		$this->end_reads();
		$ends     = hrtime( true ) + $milliseconds * 1000000;
		$used     = 4096 * ( $this->db->querySingle( 'PRAGMA page_count' )
			- $this->db->querySingle( 'PRAGMA freelist_count' ) );
		$is_full  = $used > $limit * 0.9;
		// Purged tombstones end all leases, so that is not done at each step.
		$last     = $this->db->querySingle( 'SELECT purged FROM mark' );
		$is_purge = $is_full || abs( $now - $last ) >= 10;
		do {
			$this->db->exec( 'BEGIN IMMEDIATE' );
			$is_done = $this->sweep_step( $is_full, $is_purge, $now );
			$this->db->exec( 'COMMIT' );
		} while ( ! $is_done && hrtime( true ) < $ends );
		clearstatcache( true, $this->path . '-wal' );
		if ( @filesize( $this->path . '-wal' ) > self::LOG_MAX ) {
			$this->db->busyTimeout( 50 );
			@$this->db->exec( 'PRAGMA wal_checkpoint(TRUNCATE)' );
			$this->db->busyTimeout( 5000 );
		}
	}

	/** Entries become tombstones: their leases go on. Old tombstones end all leases. */
	private function sweep_step( $is_full, $is_purge, $now ) {
		$this->refresh();
		$from = $this->db->querySingle( 'SELECT swept FROM mark' );
		$rows = $this->db->query( "SELECT id, v IS NULL, g, (x > 0 AND x <= $now)
			OR q < {$this->flushed} FROM entry WHERE id >= ($from) ORDER BY id LIMIT 200" );
		$ids  = array( 'gone' => array(), 'emptied' => array() );
		$seen = 0;
		while ( $row = $rows->fetchArray( SQLITE3_NUM ) ) {
			++$seen;
			$last = $row[0];
			if ( $row[1] ? $is_purge : ( $row[3] || ( $is_full && 0 === random_int( 0, 1 ) ) ) ) {
				$ids[ $row[1] || 0 === $row[2] ? 'gone' : 'emptied' ][] = $row[0];
				$raises = ! empty( $raises ) || $row[1];
			}
		}
		$rows->finalize();
		$this->db->exec( 'DELETE FROM entry WHERE id IN (' . implode( ',', $ids['gone'] ) . ');
			UPDATE entry SET v = NULL, c = NULL WHERE id IN ('
			. implode( ',', $ids['emptied'] ) . ')' );
		// The smallest integer has no literal of its own.
		$next = $seen < 200 || PHP_INT_MAX === $last ? '-9223372036854775807 - 1' : $last + 1;
		$this->db->exec( "UPDATE mark SET swept = $next" . ( empty( $raises ) ? ''
			: ", stamp = stamp + 1, purged = $now" ) );
		return $seen < 200;
	}

	/** Does what guests told since the last time. @throws Exception */
	public function follow() {
		$told = $this->invalidation;
		if ( $told->is_at( $this->told ) ) {
			return;
		}
		$this->end_reads();
		$position = $told->position();
		if ( $this->db->querySingle( 'SELECT told FROM mark' ) === $position ) {
			$this->told = $position;
			$this->refresh();
			return;
		}
		$this->db->exec( 'BEGIN IMMEDIATE' );
		try {
			$this->refresh();
			$known = $this->db->querySingle( 'SELECT told FROM mark' );
			// A store that was never told anything is as new as the file.
			list( $records, $position ) = null === $known
				? array( array(), $told->position() ) : $told->since( $known );
			$this->obey( $records );
			$this->db->exec( "UPDATE mark SET told = '$position'" );
			$this->db->exec( 'COMMIT' );
		} catch ( Throwable $failed ) {
			@$this->db->exec( 'ROLLBACK' );
			throw $failed;
		}
		$this->told = $position;
		$this->refresh();
	}

	private function obey( $records ) {
		if ( array() !== $records ) {
			$this->take_mark_away();
		}
		$next = $this->stamp + 1;
		foreach ( $records ?? array( array( Tidemark_Invalidation::FLUSH, 0, '' ) ) as $record ) {
			list( $kind, $id, $origin ) = $record;
			if ( $origin === $this->origin ) {
				continue; // It was written here already.
			}
			if ( Tidemark_Invalidation::KEY === $kind ) {
				$number = random_int( 1, PHP_INT_MAX );
				$this->db->exec( "INSERT INTO entry (id, k, v, x, q, g, c)
					VALUES (($id), x'', NULL, 0, $next, $number, NULL)
					ON CONFLICT (id) DO UPDATE SET v = NULL, c = NULL, g = excluded.g" );
			} elseif ( Tidemark_Invalidation::GROUP === $kind ) {
				$this->db->exec( "UPDATE mark SET stamp = $next;
					REPLACE INTO cleared VALUES (($id), $next)" );
			} else {
				$this->db->exec( "UPDATE mark SET stamp = $next, flushed = $next" );
			}
		}
	}

	/** Once a minute for all processes: compares the token of the options table with ours. */
	public function check_token( $now ) {
		$this->end_reads();
		$this->db->exec( "UPDATE mark SET checked = $now WHERE abs($now - checked) >= 60" );
		if ( 0 === $this->db->changes() ) {
			return;
		}
		$row = Tidemark_Site_Row::read();
		if ( false === $row ) {
			return;
		}
		$mark = $this->db->querySingle( 'SELECT token, next, changed FROM mark', true );
		if ( null === $row ) {
			$row = Tidemark_Site_Row::token();
			if ( ! Tidemark_Site_Row::write( $row ) ) {
				return;
			}
		}
		if ( $row !== $mark['token'] && ( null === $mark['next'] || $row !== $mark['next'] ) ) {
			$this->flush();
		}
		$this->keep_token( $row, null, $mark['changed'] );
		if ( abs( $now - $mark['changed'] ) >= 600 ) {
			// Kept as the next one first: a process that ends in between leaves both valid.
			$next = Tidemark_Site_Row::token();
			$this->keep_token( $row, $next, $mark['changed'] );
			if ( Tidemark_Site_Row::write( $next, $row ) ) {
				$this->keep_token( $next, null, $now );
			}
		}
	}

	private function keep_token( $token, $next, $changed ) {
		$statement = $this->statement( 'UPDATE mark SET token = ?1, next = ?2, changed = ?3' );
		$statement->bindValue( 1, substr( $token, 0, 64 ), SQLITE3_TEXT );
		$statement->bindValue( 2, $next, null === $next ? SQLITE3_NULL : SQLITE3_TEXT );
		$statement->bindValue( 3, $changed, SQLITE3_INTEGER );
		$statement->execute()->finalize();
		$statement->reset();
	}

	/** What the commands print. @throws Exception */
	public function counts() {
		$this->end_reads();
		return $this->db->querySingle( 'SELECT count(v) AS entries, sum(v IS NULL) AS tombstones,
			coalesce(sum(length(v)), 0) AS bytes FROM entry', true );
	}

	/** What SQLite finds wrong with the file; empty when it is sound. @throws Exception */
	public function damage() {
		$this->end_reads();
		$found = $this->db->querySingle( 'PRAGMA quick_check' );
		return 'ok' === $found ? '' : (string) $found;
	}

	public function close() {
		$this->end_reads();
		$this->prepared = array();
		$this->db->close();
	}
}
