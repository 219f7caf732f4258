<?php
/** Where the store of a site is, and whether that place may be trusted. */
class Tidemark_Place {
	/** Empty where no folder may be used. */
	public $folder = '';
	/** Why there is no store; empty where there may be one. */
	public $refusal = '';
	public $boot_id = '';
	/** Device and inode of the folder, whatever path led to it. */
	public $identity = '';
	/** @var Tidemark_Site_File */
	public $site;
	/** What this site is called in the memory of the thread; empty where none is used. */
	private $name = '';
	/** True where this process must not use the store, and only notifies the others of its writes. */
	public $is_guest = false;

	/** File systems that are not local, or that several machines share: locks are not reliable there. */
	const REMOTE = array( 'nfs', 'nfs4', 'cifs', 'smb3', 'smbfs', '9p', 'afs', 'ceph', 'fuse', 'fuseblk',
		'lustre', 'gpfs', 'beegfs', 'gfs2', 'ocfs2', 'orangefs', 'virtiofs', 'vboxsf', 'vmhgfs' );

	/** @param array $names What names the site, but for its id. */
	public static function of_site( array $names ) {
		$place = new Tidemark_Place();
		$base  = defined( 'TIDEMARK_CACHE_DIR' ) ? TIDEMARK_CACHE_DIR
			: ( defined( 'WP_CONTENT_DIR' ) ? WP_CONTENT_DIR : '' );
		$base  = rtrim( (string) $base, '/' );

		if ( $place->recall( $base, $names ) ) {
			return $place;
		}
		if ( '' !== (string) ini_get( 'open_basedir' ) && ! @is_dir( $base ) ) {
			// PHP would print a warning for each look at a file there.
			$place->refusal = 'the folder is outside of open_basedir';
			return $place;
		}
		$place->boot_id = self::boot_id();
		$place->refusal = '' === $base ? 'no folder is known' : $place->check_process();
		$place->site    = new Tidemark_Site_File( $base, $names );
		$id             = $place->site->id( $place->may_create() );
		if ( '' !== $id ) {
			$names[] = (string) $id;
		}
		// A name of its own for each site, and one that web servers do not serve.
		$place->folder = $base . '/.ht-tidemark-' . substr( hash( 'sha256', serialize( $names ) ), 0, 16 );
		if ( '' === $place->refusal ) {
			$is_known       = null !== $id || ! $place->may_create();
			$place->refusal = $is_known ? $place->check() : 'the options table cannot be read';
		}
		$place->remember();
		return $place;
	}

	/** What an earlier request of this thread found, where the folder and the file of the site are still as they were. */
	private function recall( $base, array $names ) {
		if ( ! Tidemark_Native::is_loaded() || ( defined( 'TIDEMARK_CACHE_GUEST' ) && TIDEMARK_CACHE_GUEST ) ) {
			return false;
		}
		$names[]    = defined( 'DB_HOST' ) ? DB_HOST : '';
		$names[]    = defined( 'WP_CONTENT_DIR' ) ? WP_CONTENT_DIR : '';
		$this->name = $base . "\0" . implode( "\0", $names );
		$known      = explode( "\0", (string) tidemark_recall( $this->name ) );
		if ( 5 !== count( $known ) ) {
			return false;
		}
		list( $shape, $folder, $boot_id, $identity, $site ) = $known;
		$this->folder  = $folder;
		$this->site    = new Tidemark_Site_File( $base, array(), $site );
		if ( $shape !== $this->shape() ) {
			$this->folder = '';
			return false;
		}
		$this->boot_id  = $boot_id;
		$this->identity = $identity;
		return true;
	}

	/** Not where the site has no file: nothing would show that the options table holds another id. */
	private function remember() {
		if ( '' !== $this->name && '' === $this->refusal && '' !== $this->site->shape() ) {
			$known = array( $this->shape(), $this->folder, $this->boot_id, $this->identity, $this->site->known() );
			tidemark_remember( $this->name, implode( "\0", $known ) );
		}
	}

	/** Changes where another folder or file takes the place of one, or other users get rights. */
	private function shape() {
		clearstatcache( true, $this->folder );
		$found = is_link( $this->folder ) ? false : @stat( $this->folder );
		if ( ! $found || 0040000 !== ( $found['mode'] & 0170000 ) ) {
			return '';
		}
		return "{$found['dev']}:{$found['ino']}:{$found['mode']}:{$found['uid']}:" . $this->site->shape();
	}

	/** Whether this process may create what does not exist yet. */
	private function may_create() {
		return '' === $this->refusal && ! ( 0 === self::user() && self::is_command() );
	}

	public function file( $name ) {
		return $this->folder . '/' . $name;
	}

	/** Whether certainly no process has a store here: there is no folder, where one would be visible. */
	public function has_no_store() {
		clearstatcache();
		$above = dirname( $this->folder );
		return is_dir( $above ) && is_executable( $above ) && ! file_exists( $this->folder );
	}

	private function check_process() {
		if ( ! class_exists( 'SQLite3' ) && ! Tidemark_Native::is_loaded() ) {
			$this->is_guest = true;
			return 'PHP has no SQLite3 extension';
		}
		if ( '' === $this->boot_id ) {
			return 'the boot id cannot be read (TIDEMARK_CACHE_ACCEPT_NO_BOOT_ID accepts it)';
		}
		if ( defined( 'TIDEMARK_CACHE_GUEST' ) && TIDEMARK_CACHE_GUEST ) {
			$this->is_guest = true;
			return 'TIDEMARK_CACHE_GUEST leaves the store to others';
		}
		return '';
	}

	private function check() {
		clearstatcache();
		if ( is_link( $this->folder ) ) {
			return 'the folder is a symbolic link';
		}
		$user = self::user();
		if ( ! is_dir( $this->folder ) ) {
			if ( ! $this->may_create() ) {
				$this->is_guest = true;
				return 'no store yet, and root must not make one';
			}
			if ( ! @mkdir( $this->folder, 0770 ) && ! is_dir( $this->folder ) ) {
				return 'the folder cannot be made';
			}
			clearstatcache();
		}
		return $this->check_folder( $user );
	}

	private function check_folder( $user ) {
		$found = @stat( $this->folder );
		if ( ! $found ) {
			return 'the folder cannot be read';
		}
		if ( $found['mode'] & 0002 ) {
			return 'the folder is writable by everybody';
		}
		if ( $found['uid'] !== $user ) {
			$this->is_guest = true;
			return 'the folder is owned by another user';
		}
		if ( ! is_writable( $this->folder ) ) {
			$this->is_guest = true;
			return 'the folder is not writable';
		}
		$this->identity = $found['dev'] . '-' . $found['ino'];

		if ( $this->site->is_local( $this->boot_id, $this->identity ) ) {
			return '';
		}
		$mounts = (string) @file_get_contents( '/proc/self/mounts' );
		$kind   = self::file_system( (string) realpath( $this->folder ), $mounts );
		if ( self::is_remote( $kind ) ) {
			return "the folder is on $kind; TIDEMARK_CACHE_DIR names a local one";
		}
		$this->site->keep_local( $this->boot_id, $this->identity, $this->may_create() );
		return '';
	}

	public static function is_remote( $kind ) {
		return in_array( $kind, self::REMOTE, true ) || 0 === strpos( $kind, 'fuse.' );
	}

	/**
	 * The kind that the system's list of mounts has for the longest mount point above a path; empty
	 * where it has none. PHP has no `statfs`.
	 */
	public static function file_system( $real, $mounts ) {
		$kind  = '';
		$depth = -1;
		foreach ( explode( "\n", $mounts ) as $line ) {
			$parts = explode( ' ', $line );
			if ( count( $parts ) < 3 ) {
				continue;
			}
			$point = rtrim( stripcslashes( $parts[1] ), '/' );
			if ( strlen( $point ) >= $depth && 0 === strpos( "$real/", "$point/" ) ) {
				$depth = strlen( $point );
				$kind  = $parts[2];
			}
		}
		return $kind;
	}

	/** The user of the process, who need not be the owner of the script. */
	public static function user() {
		if ( function_exists( 'posix_geteuid' ) ) {
			return posix_geteuid();
		}
		$file = self::call( 'tmpfile' );
		return $file ? fstat( $file )['uid'] : -1;
	}

	/** Calls a function of PHP that hosts switch off by `disable_functions`; false where it is not there. */
	public static function call( $function, ...$given ) {
		return function_exists( $function ) ? @$function( ...$given ) : false;
	}

	private static function is_command() {
		return defined( 'WP_CLI' ) || 'cli' === PHP_SAPI;
	}

	private static function boot_id() {
		$id = @file_get_contents( '/proc/sys/kernel/random/boot_id' );
		if ( is_string( $id ) && '' !== trim( $id ) ) {
			return trim( $id );
		}
		return defined( 'TIDEMARK_CACHE_ACCEPT_NO_BOOT_ID' ) ? 'unknown' : '';
	}
}
