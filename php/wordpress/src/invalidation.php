<?php
/**
 * The file `invalidate`: how a process that cannot use the store notifies the others of what
 * it wrote. The format is in docs/reference/wordpress-invalidate.md.
 */
class Tidemark_Invalidation {
	const MAGIC  = 'TDMKINV1';
	const HEADER = 32;
	const RECORD = 24;
	/** Bytes that name the store which has the write already; zero where none has. */
	const ORIGIN = 7;
	const LARGEST = 1048576;
	/** Where the name of the file begins in its header; before it, that of the file before. */
	const NAME = 16;
	/** What is after the name of the full file. */
	const BEFORE = '.1';
	/** Between two files, so that no two of one inode have one time of change. */
	const SECONDS = 2;
	/** Before a file that follows none. */
	const FIRST = "\0\0\0\0\0\0\0\0";
	const KEY   = 'k';
	const GROUP = 'g';
	const FLUSH = 'f';

	/** @var Tidemark_Clean_Mark What is appended ends it. */
	public $mark;
	private $path;

	public function __construct( $path, Tidemark_Clean_Mark $mark ) {
		$this->path = $path;
		$this->mark = $mark;
	}

	/** @return bool Whether it is on the disk, and the full one before it. */
	public function sync() {
		$is_done = true;
		foreach ( array( $this->path, $this->path . self::BEFORE ) as $path ) {
			$file    = is_file( $path ) ? @fopen( $path, 'r+b' ) : null;
			$is_done = $is_done && ( null === $file || ( $file && fsync( $file ) ) );
		}
		return $is_done;
	}

	/**
	 * Inode, size and time of change, by one look; all 0 where there is no file. The time tells
	 * a file from one whose inode it got: `renew` lets seconds pass between them.
	 */
	public function look() {
		clearstatcache( true, $this->path );
		// As a rule there is none, and a failed `stat` would make a warning, if a silent one.
		$found = is_file( $this->path ) && ! is_link( $this->path ) ? @stat( $this->path ) : false;
		return $found ? self::shape( $found ) : '0:0:0';
	}

	private static function shape( array $found ) {
		return "{$found['ino']}:{$found['size']}:{$found['mtime']}";
	}

	/** Whether a position is still the end of the file. */
	public function is_at( $position ) {
		return is_string( $position ) && 0 === strpos( $position, $this->look() . ':' );
	}

	/** What a reader keeps: what `look` says, and the name of the file. */
	public function position() {
		$file = $this->open( $this->path );
		// One that is being made is none yet.
		return $file && $file['size'] > 0 ? $file['position'] : '0:0:0:';
	}

	private function open( $path ) {
		clearstatcache( true, $path );
		if ( is_link( $path ) || ! is_file( $path ) ) {
			return null;
		}
		$file  = @fopen( $path, 'rb' );
		$found = $file ? fstat( $file ) : @stat( $path );
		if ( ! $found ) {
			return null;
		}
		// One that cannot be read changes as well, and then says nothing.
		$head = $file ? (string) fread( $file, self::HEADER ) : '';
		$head = self::HEADER === strlen( $head ) && 0 === strpos( $head, self::MAGIC ) ? $head : '';
		$name = bin2hex( substr( $head, self::NAME ) );
		return array(
			'file'     => $file,
			'inode'    => (string) $found['ino'],
			'size'     => $found['size'],
			'name'     => $name,
			'before'   => bin2hex( substr( $head, strlen( self::MAGIC ), strlen( self::FIRST ) ) ),
			'position' => self::shape( $found ) . ":$name",
		);
	}

	/** False where it cannot be written; then no process has been notified. */
	public function append( $kind, $text, $origin = '' ) {
		$origin = str_pad( (string) hex2bin( $origin ), self::ORIGIN, "\0" );
		$body   = $kind . $origin . hash( 'xxh3', $text, true );
		$record = $body . hash( 'xxh3', $body, true );
		for ( $tries = 0; $tries < 5 && $this->mark->remove(); ++$tries ) {
			$file = Tidemark_Regular_File::open( $this->path );
			$file = $file ? $file : Tidemark_Regular_File::make( $this->path );
			if ( ! $file ) {
				continue;
			}
			if ( ! flock( $file, LOCK_EX ) ) {
				return false;
			}
			$found = fstat( $file );
			$size  = $found['size'];
			clearstatcache( true, $this->path );
			$is_ours = @fileinode( $this->path ) === $found['ino'];
			if ( $is_ours && ( $size < self::LARGEST || $this->is_too_soon( $found['ino'] ) ) ) {
				$is_written = $this->write( $file, $size, $record );
				fclose( $file );
				return $is_written;
			}
			if ( $is_ours && ! $this->renew( $file ) ) {
				fclose( $file );
				return false;
			}
			fclose( $file );
		}
		return false;
	}

	private function write( $file, $size, $record ) {
		if ( 0 === $size ) {
			$record = self::header( self::FIRST ) . $record;
		} else {
			// A writer that was killed left part of a record: readers take it as a flush.
			$extra  = ( $size - self::HEADER ) % self::RECORD;
			$record = str_repeat( "\0", $extra ? self::RECORD - $extra : 0 ) . $record;
		}
		fseek( $file, $size );
		return strlen( $record ) === @fwrite( $file, $record ) && fflush( $file );
	}

	private static function header( $before ) {
		return self::MAGIC . $before . random_bytes( self::HEADER - self::NAME );
	}

	private function is_too_soon( $inode ) {
		clearstatcache( true, $this->path . self::BEFORE );
		$before = @stat( $this->path . self::BEFORE );
		// Where both are one file, a writer was killed on the way: the seconds had passed.
		return $before && $before['ino'] !== $inode
			&& abs( time() - $before['mtime'] ) < self::SECONDS;
	}

	/**
	 * A new file takes the name of one that is long enough, under the lock of that one. The full
	 * one has a second name before, where readers find its rest; the new one says which it was.
	 * A process that is killed between the steps leaves the full file in its place.
	 */
	private function renew( $full ) {
		rewind( $full );
		$head   = (string) fread( $full, self::HEADER );
		$before = substr( $head, self::NAME, strlen( self::FIRST ) );
		if ( self::HEADER !== strlen( $head ) || 0 !== strpos( $head, self::MAGIC ) ) {
			$before = random_bytes( strlen( self::FIRST ) );
		}
		$next = $this->path . '.next';
		$link = $this->path . '.link';
		@unlink( $next );
		@unlink( $link );
		$file = Tidemark_Regular_File::make( $next );
		if ( ! $file || self::HEADER !== fwrite( $file, self::header( $before ) ) || ! fclose( $file ) ) {
			return false;
		}
		// Where there are no hard links, readers find no file of that name, and flush.
		if ( Tidemark_Place::call( 'link', $this->path, $link ) ) {
			@rename( $link, $this->path . self::BEFORE );
			// Two names of one file stay as they are: its last writer was killed here.
			@unlink( $link );
		}
		return @rename( $next, $this->path );
	}

	/**
	 * Kind, hash and origin of what was appended after a position, or null where that is not
	 * sure; and the position that this leads to.
	 */
	public function since( $known ) {
		for ( $tries = 0; $tries < 3; ++$tries ) {
			$file = $this->open( $this->path );
			if ( ! $file || 0 === $file['size'] ) {
				return array( '0:0:0:' === $known ? array() : null, '0:0:0:' );
			}
			$bytes = $this->bytes_since( $known, $file );
			// Another file took the name while the two were opened.
			if ( null !== $bytes || $this->is_at( $file['position'] ) ) {
				break;
			}
		}
		return array( null === $bytes ? null : self::records( $bytes ), $file['position'] );
	}

	private function bytes_since( $known, array $file ) {
		list( $inode, $from, , $name ) = explode( ':', $known ) + array( 0, 0, 0, '' );
		if ( '0' === $inode && bin2hex( self::FIRST ) === $file['before'] ) {
			return self::bytes( $file, self::HEADER );
		}
		if ( '' === $name ) {
			return null;
		}
		if ( $name === $file['name'] ) {
			return $inode === $file['inode'] ? self::bytes( $file, (int) $from ) : null;
		}
		$full = 0 === strpos( $name, $file['before'] ) ? $this->open( $this->path . self::BEFORE ) : null;
		if ( '' === $file['before'] || ! $full || $name !== $full['name']
			|| $inode !== $full['inode'] ) {
			return null;
		}
		$rest = self::bytes( $full, (int) $from );
		$more = self::bytes( $file, self::HEADER );
		return null === $rest || null === $more ? null : $rest . $more;
	}

	/** From an offset to the end; null where they are no whole records, or very many. */
	private static function bytes( array $file, $from ) {
		$length = $file['size'] - $from;
		if ( $length < 0 || $length > self::LARGEST || $length % self::RECORD ) {
			return null;
		}
		$bytes = 0 === $length ? '' : stream_get_contents( $file['file'], $length, $from );
		return is_string( $bytes ) && strlen( $bytes ) === $length ? $bytes : null;
	}

	private static function records( $bytes ) {
		$records = array();
		foreach ( '' === $bytes ? array() : str_split( $bytes, self::RECORD ) as $record ) {
			$body = substr( $record, 0, 16 );
			if ( hash( 'xxh3', $body, true ) !== substr( $record, 16 )
				|| false === strpos( 'kgf', $body[0] ) ) {
				return null;
			}
			$hash      = unpack( 'q', substr( $body, 8 ) )[1];
			$records[] = array( $body[0], $hash, bin2hex( substr( $body, 1, self::ORIGIN ) ) );
		}
		return $records;
	}
}
