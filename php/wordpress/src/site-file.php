<?php
/**
 * What the requests of a site remember in a file beside the folder of its store: the random id of
 * the site, which the options table holds, and where the folder was last found to be local. So a
 * request need ask neither the database nor the system.
 *
 * With the names of the database and of the tables the id names the store, by whatever path it is
 * reached: no two sites share one. A program that uses the drop-in without a database has none.
 */
class Tidemark_Site_File {
	const NAME = '/.ht-tidemark-site-';
	const ID   = '/^[0-9a-f]{32}$/';
	private $path;
	private $id;
	private $local;

	/** @param string|null $known What `known` said in an earlier request. */
	public function __construct( $base, array $names, $known = null ) {
		if ( null !== $known ) {
			list( $this->path, $this->id, $this->local ) = explode( "\n", $known );
			return;
		}
		// The path only tells files apart: sites whose names are equal may share the folder.
		$names[]    = defined( 'DB_HOST' ) ? DB_HOST : '';
		$names[]    = defined( 'WP_CONTENT_DIR' ) ? WP_CONTENT_DIR : '';
		$this->path = $base . self::NAME . substr( hash( 'sha256', serialize( $names ) ), 0, 16 );
		$text       = is_link( $this->path ) ? '' : @file_get_contents( $this->path, false, null, 0, 200 );
		$lines      = explode( "\n", (string) $text );
		$this->id    = preg_match( self::ID, $lines[0] ) ? $lines[0] : '';
		$this->local = $lines[1] ?? '';
	}

	public function known() {
		return "{$this->path}\n{$this->id}\n{$this->local}";
	}

	/** Changes where another file takes its place. Empty where there is none. */
	public function shape() {
		clearstatcache( true, $this->path );
		return is_file( $this->path ) && ! is_link( $this->path )
			? fileinode( $this->path ) . ':' . filesize( $this->path ) . ':' . filemtime( $this->path ) : '';
	}

	/**
	 * The id of the site; empty where there is no database, null where it cannot be read. One that
	 * is not there yet is made only by a process that may make a store.
	 */
	public function id( $may_create ) {
		if ( '' !== $this->id || ! Tidemark_Site_Row::has_database() ) {
			return $this->id;
		}
		$found = Tidemark_Site_Row::read( Tidemark_Site_Row::SITE );
		if ( null === $found && $may_create ) {
			Tidemark_Site_Row::add( Tidemark_Site_Row::SITE, Tidemark_Site_Row::token() );
			$found = Tidemark_Site_Row::read( Tidemark_Site_Row::SITE );
		}
		if ( ! is_string( $found ) || ! preg_match( self::ID, $found ) ) {
			return null;
		}
		$this->id = $found;
		$this->write( $may_create );
		return $found;
	}

	/**
	 * Whether the options table holds the id of another site, as after another one's database took
	 * the place of this one's. A row that is gone is put back.
	 */
	public function is_of_another() {
		$found = '' === $this->id ? false : Tidemark_Site_Row::read( Tidemark_Site_Row::SITE );
		if ( null === $found ) {
			Tidemark_Site_Row::add( Tidemark_Site_Row::SITE, $this->id );
		}
		if ( ! is_string( $found ) || $found === $this->id ) {
			return false;
		}
		is_link( $this->path ) || @unlink( $this->path );
		return true;
	}

	/** Whether the folder that these texts name was found to be local. */
	public function is_local( $boot_id, $folder ) {
		return "$boot_id $folder" === $this->local;
	}

	public function keep_local( $boot_id, $folder, $may_create ) {
		$this->local = "$boot_id $folder";
		$this->write( $may_create );
	}

	/** What root writes the others could not write again. */
	private function write( $may_create ) {
		$temporary = $this->path . '.' . bin2hex( random_bytes( 8 ) );
		if ( $may_create && @file_put_contents( $temporary, "{$this->id}\n{$this->local}" ) ) {
			Tidemark_Place::call( 'chmod', $temporary, 0640 );
			@rename( $temporary, $this->path ) || @unlink( $temporary );
		}
	}
}
