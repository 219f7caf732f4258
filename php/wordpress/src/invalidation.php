<?php
/**
 * The file `invalidate`: how a process that cannot use the store tells the others what it
 * wrote. The format is in docs/reference/wordpress-invalidate.md.
 */
class Tidemark_Invalidation {
	const MAGIC  = 'TDMKINV1';
	const HEADER = 32;
	const RECORD = 24;
	/** Bytes that name the store which has the write already; zero where none has. */
	const ORIGIN = 7;
	const LARGEST = 1048576;
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

	/** @return bool Whether it is on the disk. */
	public function sync() {
		$file = is_file( $this->path ) ? @fopen( $this->path, 'r+b' ) : null;
		return null === $file || ( $file && fsync( $file ) );
	}

	/** Inode and size; both 0 where there is no file. */
	public function position() {
		clearstatcache( true, $this->path );
		$found = @stat( $this->path );
		return $found && ! is_link( $this->path ) ? array( $found['ino'], $found['size'] ) : array( 0, 0 );
	}

	/** False where it cannot be written; then nobody has been told. */
	public function append( $kind, $text, $origin = '' ) {
		$origin = str_pad( (string) hex2bin( $origin ), self::ORIGIN, "\0" );
		$body   = $kind . $origin . hash( 'xxh3', $text, true );
		$record = $body . hash( 'xxh3', $body, true );
		for ( $tries = 0; $tries < 3 && $this->mark->take_away(); ++$tries ) {
			$file = is_link( $this->path ) ? false : @fopen( $this->path, 'c+b' );
			if ( ! $file || ! flock( $file, LOCK_EX ) ) {
				return false;
			}
			$size = fstat( $file )['size'];
			clearstatcache( true, $this->path );
			$is_ours = @fileinode( $this->path ) === fstat( $file )['ino'];
			if ( $is_ours && $size < self::LARGEST ) {
				$is_told = $this->write( $file, $size, $record );
				fclose( $file );
				return $is_told;
			}
			if ( $is_ours && ! $this->renew() ) {
				fclose( $file );
				return false;
			}
			fclose( $file );
		}
		return false;
	}

	private function write( $file, $size, $record ) {
		if ( 0 === $size ) {
			$record = self::MAGIC . random_bytes( self::HEADER - strlen( self::MAGIC ) ) . $record;
			$this->give_to_owner( $this->path );
		} else {
			// A writer that was killed left part of a record: readers take it as a flush.
			$extra  = ( $size - self::HEADER ) % self::RECORD;
			$record = str_repeat( "\0", $extra ? self::RECORD - $extra : 0 ) . $record;
		}
		fseek( $file, $size );
		return strlen( $record ) === @fwrite( $file, $record ) && fflush( $file );
	}

	/** A new file takes the name of one that is long enough: readers take that as a flush. */
	private function renew() {
		$temporary = $this->path . '.' . bin2hex( random_bytes( 8 ) );
		$header    = self::MAGIC . random_bytes( self::HEADER - strlen( self::MAGIC ) );
		if ( strlen( $header ) !== @file_put_contents( $temporary, $header ) ) {
			return false;
		}
		$this->give_to_owner( $temporary );
		return @rename( $temporary, $this->path );
	}

	/** What root makes must be writable for the others. */
	private function give_to_owner( $path ) {
		$folder = @stat( dirname( $path ) );
		@chmod( $path, 0660 );
		if ( $folder ) {
			@chown( $path, $folder['uid'] );
			@chgrp( $path, $folder['gid'] );
		}
	}

	/** Kind, hash and origin from an offset to an end; null where they say nothing sure. */
	public function since( $from, $to ) {
		$length = $to - $from;
		$bytes  = 0 === $length ? '' : @file_get_contents( $this->path, false, null, $from, $length );
		if ( ! is_string( $bytes ) || strlen( $bytes ) !== $length || $length % self::RECORD ) {
			return null;
		}
		$records = array();
		foreach ( 0 === $length ? array() : str_split( $bytes, self::RECORD ) as $record ) {
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
