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
		$file = is_link( $this->path ) ? false : @fopen( $this->path, 'cb' );
		return $file && ftruncate( $file, 0 ) && strlen( $origin ) === fwrite( $file, $origin )
			&& fsync( $file ) && Tidemark_Place::call( 'chmod', $this->path, 0660 );
	}

	/** @return bool False where it stays. */
	public function take_away() {
		clearstatcache( true, $this->path );
		if ( ! @filesize( $this->path ) ) {
			return true;
		}
		$file = @fopen( $this->path, 'r+b' );
		return $file && ftruncate( $file, 0 ) && fsync( $file );
	}
}
