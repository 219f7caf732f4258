<?php
/**
 * The mark of a store that may outlive the machine: a file that `wp tidemark sync` writes when
 * all else is on the disk. The next write, of a guest too, removes it first, and waits until
 * that is on the disk: a mark proves that no write was lost.
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
		$file = Tidemark_Regular_File::open( $this->path );
		$file = $file ? $file : Tidemark_Regular_File::make( $this->path );
		return $file && ftruncate( $file, 0 ) && strlen( $origin ) === fwrite( $file, $origin )
			&& fsync( $file );
	}

	/** @return bool False where it stays. */
	public function remove() {
		clearstatcache( true, $this->path );
		$found = @lstat( $this->path );
		// What is no file is no mark either.
		if ( ! $found || ! $found['size'] || ! Tidemark_Regular_File::is_regular( $found ) ) {
			return true;
		}
		$file = Tidemark_Regular_File::open( $this->path );
		return $file && ftruncate( $file, 0 ) && fsync( $file );
	}
}
