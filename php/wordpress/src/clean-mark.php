<?php
/**
 * The mark of a store that may outlive the machine: a file that `wp tidemark sync` writes when
 * all else is on the disk. The next write, of a guest too, takes it away first, and waits until
 * that is on the disk: no lost write can be behind a mark.
 */
class Tidemark_Clean_Mark {
	private $path;

	public function __construct( $path ) {
		$this->path = $path;
	}

	public function is_of( $origin ) {
		return ! is_link( $this->path )
			&& @file_get_contents( $this->path, false, null, 0, 64 ) === $origin;
	}

	/** @return bool Whether it is on the disk. */
	public function set( $origin ) {
		$file = Tidemark_Plain_File::open( $this->path );
		$file = $file ? $file : Tidemark_Plain_File::make( $this->path );
		return $file && ftruncate( $file, 0 ) && strlen( $origin ) === fwrite( $file, $origin )
			&& fsync( $file );
	}

	/** @return bool False where it stays. */
	public function take_away() {
		clearstatcache( true, $this->path );
		$found = @lstat( $this->path );
		// What is no file is no mark either.
		if ( ! $found || ! $found['size'] || ! Tidemark_Plain_File::is_plain( $found ) ) {
			return true;
		}
		$file = Tidemark_Plain_File::open( $this->path );
		return $file && ftruncate( $file, 0 ) && fsync( $file );
	}
}
