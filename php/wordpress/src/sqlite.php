<?php
/**
 * Tier 2: one SQLite file that all processes of a machine share. It survives the end of any
 * process, not of the machine: at another boot it is discarded, so nothing waits for a flush.
 *
 * Table `entry`: `n` rises with each new key, so that new ones are appended to the last page (by
 * their hashes each would split a page somewhere, which costs a third more), `id` hash of the
 * key, `k` the key, `v` the value (null is a tombstone), `x` Unix time of expiry or 0, `q` the
 * stamp it was written at, `g` a number that a delete changes (the lease), `c` a checksum. Table `mark`, one row: `stamp` rises with every event
 * that all processes must follow; each write compares it. `flushed` is the stamp of the last
 * flush, `cleared` holds that of each flushed group. A row is seen if `q` is not below them.
 * Table `segment`: the shared memories (tier 1) of this store, and when each was last seen.
 */
class Tidemark_Store {
	use Tidemark_Store_File;
	use Tidemark_Store_Reads;
	use Tidemark_Store_Writes;
	use Tidemark_Store_Follow;
	use Tidemark_Store_Upkeep;
	use Tidemark_Store_Token;

	const FORMAT  = 4;
	const LARGEST = 16777216;
	/** The log is brought into the file above the first; above the second its file is given up. */
	const LOG_MAX  = 33554432;
	const LOG_LAST = 41943040;
	/** How long a process waits for a lock while no process writes; and while others do. */
	const WAIT_SECONDS = 5;
	const WAIT_LONGEST = 30;
	/** Microseconds between two tries for a lock. */
	const PAUSE_FIRST   = 1000;
	const PAUSE_LONGEST = 50000;
	/** SQLite's code for a lock that another process has. */
	const BUSY = 5;
	/** A shared memory that was not seen for so long joins again before it is used. */
	const SEGMENT_SECONDS = 600;

	public $stamp = 0;
	/** Reads of one key each, by this process. */
	public $selects = 0;
	private $flushed = 0;
	private $cleared = array();
	private $path;
	private $boot_id;
	private $inode;
	private $inode_text;
	/** @var SQLite3 */
	private $db;
	private $prepared = array();
	private $reads_since = null;
	/** The position in `invalidate` up to which it was read. */
	private $position;
	/** When the token was last compared, as this process knows. */
	private $checked = 0;
	/** The other shared memories could not be notified of a write. */
	public $notify_failed = false;
	/** Why this process replaced the file when it opened it; empty where it did not. */
	public $why_replaced = '';
	private $invalidation;
	/** @var Tidemark_Apcu|null */
	private $apcu;
	private $segment = '';
	/** Whether there are shared memories that this process cannot write to. */
	private $has_others = false;
	private $origin;
	/** @var Tidemark_Clean_Mark */
	private $mark;
	/** Whether the clean mark must be removed before the next write. */
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
		$this->boot_id      = $boot_id;
		$this->invalidation = $invalidation;
		$this->mark         = $invalidation->mark;
		$this->apcu         = $shared;
		clearstatcache( true, $path );
		if ( ! is_file( $path ) ) {
			self::make( $path, $boot_id );
		}
		try {
			$this->open( $limit );
		} catch ( Exception $damaged ) {
			// Another process may hold the old file: a new one takes its name, nothing is cut.
			if ( false !== strpos( $damaged->getMessage(), 'locked' ) ) {
				throw $damaged;
			}
			if ( $this->replace_file() ) {
				$this->why_replaced = $damaged->getMessage();
			}
			$this->open( $limit );
		}
	}

	/**
	 * Does what takes the lock of writers. SQLite itself waits 1, 2, 5 ms and so on: of many writers
	 * that meet again and again, many wait. Here one that met another twice leaves the lock to the
	 * others for long, so that few meet, and no two keep in step. A process that was stopped while it
	 * has the lock writes nothing: that is known by the time of the log's last change.
	 *
	 * @throws Exception When it has waited too long, and at any other failure.
	 */
	private function with_retries( $act ) {
		$this->db->busyTimeout( 0 );
		$since = null;
		$most  = self::PAUSE_FIRST;
		try {
			for ( ;; ) {
				try {
					return $act();
				} catch ( Exception $failed ) {
					$since = $since ?? hrtime( true );
					if ( self::BUSY !== ( $this->db->lastErrorCode() & 255 ) || $this->has_waited( $since ) ) {
						throw $failed;
					}
					usleep( random_int( $most >> 1, $most ) );
					$most = min( self::PAUSE_LONGEST, 8 * $most );
				}
			}
		} finally {
			$this->db->busyTimeout( self::WAIT_SECONDS * 1000 );
		}
	}

	private function has_waited( $since ) {
		$waited = ( hrtime( true ) - $since ) / 1e9;
		if ( $waited < self::WAIT_SECONDS ) {
			return false;
		}
		clearstatcache( true, $this->path . '-wal' );
		$last = (int) @filemtime( $this->path . '-wal' );
		return $waited > self::WAIT_LONGEST || abs( time() - $last ) > self::WAIT_SECONDS;
	}

	/** Begins a transaction that holds the lock of writers. @throws Exception */
	private function begin() {
		$this->with_retries( function () {
			return $this->db->exec( 'BEGIN IMMEDIATE' );
		} );
	}

	private function statement( $sql ) {
		return $this->prepared[ $sql ] ?? ( $this->prepared[ $sql ] = $this->db->prepare( $sql ) );
	}

	private function read_cleared() {
		$cleared = array();
		$rows    = $this->db->query( 'SELECT id, stamp FROM cleared' );
		while ( $row = $rows->fetchArray( SQLITE3_NUM ) ) {
			$cleared[ $row[0] ] = $row[1];
		}
		$rows->finalize();
		return $cleared;
	}

	/** Reads the row that all processes must follow. @throws Exception When the file was given up. */
	private function refresh( $mark = null ) {
		$mark = $mark ? $mark : $this->db->querySingle( 'SELECT stamp, flushed, clean FROM mark', true );
		if ( ! isset( $mark['stamp'] ) || $mark['stamp'] < 0 ) {
			throw new RuntimeException( 'the store was replaced' );
		}
		if ( $this->stamp !== $mark['stamp'] ) {
			$this->cleared    = 0 === ( $mark['clears'] ?? null ) ? array() : $this->read_cleared();
			$this->has_others = ( $mark['segments'] ?? null ) !== 0 && $this->other_segments() > 0;
		}
		$this->stamp   = $mark['stamp'];
		$this->flushed  = $mark['flushed'];
		$this->is_clean = 0 !== $mark['clean'];
	}
}
