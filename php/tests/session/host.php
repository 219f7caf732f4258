<?php
/**
 * A real host in a folder of its own: MariaDB, PHP-FPM, nginx and Debian's WordPress, each
 * started here and ended with the test. As root the site belongs to www-data, as Debian has it.
 */
class Host {
	public $folder;
	public $site;
	public $port;
	private $running = array();
	private $user;

	const NEEDED = array(
		'mariadbd' => 'mariadb-server', 'mariadb-install-db' => 'mariadb-server',
		'nginx' => 'nginx-light',
	);

	/** Debian's WordPress, or the one that the environment names. */
	private static function wordpress() {
		return getenv( 'TIDEMARK_WORDPRESS' ) ?: '/usr/share/wordpress';
	}

	/** Debian packages that are not there. */
	public static function missing() {
		$missing = array();
		foreach ( self::NEEDED as $program => $package ) {
			self::program( $program ) || $missing[] = $package;
		}
		self::fpm() || $missing[] = 'php-fpm';
		extension_loaded( 'mysqli' ) || $missing[] = 'php-mysql';
		is_file( self::wordpress() . '/wp-load.php' ) || $missing[] = 'wordpress';
		self::theme() || $missing[] = 'wordpress-theme-twentytwentythree';
		return array_unique( $missing );
	}

	public static function program( $name ) {
		foreach ( array( '/usr/bin', '/usr/sbin', '/usr/local/bin' ) as $folder ) {
			if ( is_executable( "$folder/$name" ) ) {
				return "$folder/$name";
			}
		}
		return null;
	}

	private static function fpm() {
		return self::program( 'php-fpm' . PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION );
	}

	private static function theme() {
		return array_merge( glob( self::wordpress() . '/wp-content/themes/twenty*' ),
			glob( '/usr/share/wordpress/wp-content/themes/twenty*' ) )[0] ?? null;
	}

	public function __construct() {
		$this->folder = sys_get_temp_dir() . '/tidemark-host-' . bin2hex( random_bytes( 6 ) );
		$this->site   = $this->folder . '/site';
		$this->user   = 0 === posix_geteuid() ? 'www-data' : posix_getpwuid( posix_geteuid() )['name'];
		mkdir( $this->folder, 0755 );
		register_shutdown_function( array( $this, 'end' ) );
		$this->start_database();
		$this->copy_wordpress();
		$this->start_fpm( 'one' );
		$this->start_nginx();
		list( $code, $lines ) = $this->run_in_site( 'install.php' );
		if ( 0 !== $code ) {
			throw new RuntimeException( 'WordPress is not installed: ' . implode( "\n", $lines ) );
		}
	}

	private function start_database() {
		$data = $this->folder . '/database';
		mkdir( $data );
		$as   = 0 === posix_geteuid() ? '--user=root' : '--user=' . $this->user;
		$make = escapeshellarg( self::program( 'mariadb-install-db' ) );
		self::shell( "$make --no-defaults $as --auth-root-authentication-method=normal --skip-test-db"
			. " --datadir=$data" );
		$this->start( 'database', array( self::program( 'mariadbd' ), '--no-defaults', $as,
			"--datadir=$data", '--skip-networking', "--socket={$this->folder}/sql",
			'--skip-grant-tables', '--innodb-flush-log-at-trx-commit=0' ) );
		self::wait( 'MariaDB', function () {
			return is_object( $database = $this->database() )
				&& $database->query( 'CREATE DATABASE IF NOT EXISTS wp' );
		} );
		@chmod( "{$this->folder}/sql", 0777 );
	}

	public function database() {
		mysqli_report( MYSQLI_REPORT_OFF );
		$database = mysqli_init();
		return @$database->real_connect( 'localhost', 'wp', '', null, 0, "{$this->folder}/sql" )
			? $database : null;
	}

	private function copy_wordpress() {
		mkdir( $this->site );
		self::shell( 'cp -rL ' . escapeshellarg( self::wordpress() ) . "/. {$this->site}/ 2>/dev/null || true" );
		$theme = self::theme();
		self::shell( "mkdir -p {$this->site}/wp-content/themes {$this->site}/wp-content/mu-plugins" );
		self::shell( 'cp -rL ' . escapeshellarg( $theme ) . " {$this->site}/wp-content/themes/" );
		copy( __DIR__ . '/counts.php', "{$this->site}/wp-content/mu-plugins/counts.php" );
		$this->configure( array() );
		self::shell( "chown -R {$this->user} {$this->site}" );
	}

	/** Writes wp-config.php, with more constants. */
	public function configure( array $constants ) {
		$lines = '';
		foreach ( $constants + array( 'DB_NAME' => 'wp', 'DB_USER' => 'wp', 'DB_PASSWORD' => '',
			'DB_HOST' => "localhost:{$this->folder}/sql", 'DB_CHARSET' => 'utf8mb4', 'DB_COLLATE' => '',
			'WP_HTTP_BLOCK_EXTERNAL' => true, 'DISABLE_WP_CRON' => true, 'WP_DEBUG' => true,
			'WP_DEBUG_DISPLAY' => true, 'WP_HOME' => "http://127.0.0.1:{$this->port()}",
			'WP_SITEURL' => "http://127.0.0.1:{$this->port()}",
			'AUTH_KEY' => 'a', 'NONCE_SALT' => 'b' ) as $name => $value ) {
			$lines .= "define( '$name', " . var_export( $value, true ) . " );\n";
		}
		file_put_contents( "{$this->site}/wp-config.php", "<?php\n$lines\$table_prefix = 'wp_';\n"
			. "defined( 'ABSPATH' ) || define( 'ABSPATH', __DIR__ . '/' );\n"
			. "require_once ABSPATH . 'wp-settings.php';\n" );
	}

	private function port() {
		if ( ! $this->port ) {
			$listening  = stream_socket_server( 'tcp://127.0.0.1:0' );
			$this->port = (int) substr( strrchr( stream_socket_get_name( $listening, false ), ':' ), 1 );
		}
		return $this->port;
	}

	/** A master of PHP-FPM; each has an APCu of its own. */
	public function start_fpm( $name, array $before = array(), array $php = array() ) {
		$rights = 0 === posix_geteuid() ? "user = {$this->user}\ngroup = {$this->user}\n" : '';
		file_put_contents( "{$this->folder}/$name.conf", "[global]\nerror_log = {$this->folder}/$name.log\n"
			. "daemonize = no\n[www]\n{$rights}listen = {$this->folder}/$name.socket\nlisten.mode = 0666\n"
			. "pm = static\npm.max_children = 4\nphp_admin_value[error_log] = {$this->folder}/php.log\n"
			. "php_admin_flag[opcache.validate_timestamps] = on\nphp_admin_value[opcache.revalidate_freq] = 0\n"
			. "catch_workers_output = yes\n" );
		touch( "{$this->folder}/php.log" );
		chmod( "{$this->folder}/php.log", 0666 );
		@unlink( "{$this->folder}/$name.socket" );
		$command = array_merge( array( self::fpm(), '-y', "{$this->folder}/$name.conf" ), $php );
		$this->start( $name, array_merge( $before, $command ) );
		self::wait( 'PHP-FPM', function () use ( $name ) {
			return file_exists( "{$this->folder}/$name.socket" );
		} );
	}

	public function restart_fpm( $name, array $before = array(), array $php = array() ) {
		$this->stop( $name );
		$this->start_fpm( $name, $before, $php );
	}

	private function start_nginx() {
		$port = $this->port();
		foreach ( array( 'client', 'fastcgi', 'proxy', 'scgi', 'uwsgi' ) as $kind ) {
			$kinds[] = "{$kind}" . ( 'client' === $kind ? '_body' : '' ) . "_temp_path {$this->folder}/$kind;";
		}
		$kinds = implode( "\n", $kinds );
		$user  = 0 === posix_geteuid() ? "user {$this->user};" : '';
		file_put_contents( "{$this->folder}/nginx.conf", "$user daemon off; pid {$this->folder}/nginx.pid;
			error_log {$this->folder}/nginx.log; events {} http { access_log off; $kinds
			map \$http_x_master \$master { default one; two two; }
			server { listen 127.0.0.1:$port; root {$this->site}; index index.php;
			location ~ /\\.ht { deny all; }
			location / { try_files \$uri \$uri/ /index.php?\$args; }
			location ~ \\.php\$ { include /etc/nginx/fastcgi_params;
			fastcgi_param SCRIPT_FILENAME \$document_root\$fastcgi_script_name;
			fastcgi_pass unix:{$this->folder}/\$master.socket; } } }" );
		self::shell( "chmod 755 {$this->folder}" );
		$this->start( 'nginx', array( self::program( 'nginx' ), '-c', "{$this->folder}/nginx.conf" ) );
		self::wait( 'nginx', function () use ( $port ) {
			return (bool) @fsockopen( '127.0.0.1', $port );
		} );
	}

	/** A page as a visitor gets it: status and body. */
	public function page( $path, $master = 'one', array $headers = array() ) {
		array_push( $headers, "X-Master: $master", 'Connection: close' );
		$context = stream_context_create( array( 'http' => array( 'ignore_errors' => true,
			'timeout' => 120, 'header' => $headers ) ) );
		$body    = file_get_contents( "http://127.0.0.1:{$this->port}$path", false, $context );
		$status  = isset( $http_response_header ) ? explode( ' ', $http_response_header[0] )[1] : '';
		return array( $status, $body );
	}

	/** Runs a script of this folder in WordPress from the command line, as the user of the site. */
	public function run_in_site( $script, array $arguments = array(), $user = null ) {
		return $this->run( __DIR__ . "/$script", array_merge( array( $this->site ), $arguments ), $user );
	}

	/** Exit code and lines of a script. */
	public function run( $script, array $arguments = array(), $user = null, array $php = array() ) {
		$user    = $user ?? $this->user;
		$as      = 0 === posix_geteuid() && 'root' !== $user ? "setpriv --reuid=$user --clear-groups -- " : '';
		$command = array_merge( array( PHP_BINARY ), $php );
		$command = array_merge( $command, array( $script ), $arguments );
		exec( $as . implode( ' ', array_map( 'escapeshellarg', $command ) ) . ' 2>&1', $lines, $code );
		return array( $code, $lines );
	}

	private function start( $name, array $command ) {
		$log   = array( 'file', "{$this->folder}/$name.out", 'a' );
		$pipes = array( array( 'file', '/dev/null', 'r' ), $log, $log );

		$this->running[ $name ] = proc_open( $command, $pipes, $open );
	}

	/** Numbers of a process that was started here and of its children, such as a master's workers. */
	public function processes( $name ) {
		$own = proc_get_status( $this->running[ $name ] )['pid'];
		$children = trim( (string) @file_get_contents( "/proc/$own/task/$own/children" ) );
		return array_map( 'intval', array_merge( array( $own ), $children ? explode( ' ', $children ) : array() ) );
	}

	/** Its children end, too: `faketime` does not pass the signal on to the master that it runs. */
	public function stop( $name ) {
		foreach ( $this->processes( $name ) as $process ) {
			posix_kill( $process, 15 );
		}
		proc_close( $this->running[ $name ] );
		unset( $this->running[ $name ] );
	}

	public static function shell( $command ) {
		exec( "$command 2>&1", $lines, $code );
		if ( 0 !== $code ) {
			throw new RuntimeException( "$command: " . implode( "\n", $lines ) );
		}
		return $lines;
	}

	private static function wait( $what, $is_ready ) {
		for ( $tries = 0; $tries < 1200; ++$tries ) {
			if ( $is_ready() ) {
				return;
			}
			usleep( 50000 );
		}
		throw new RuntimeException( "$what does not start" );
	}

	/** Runs a step while no worker of PHP holds a file of the store. */
	public function between_workers( $step ) {
		$this->stop( 'one' );
		$this->stop( 'two' );
		$step();
		$this->start_fpm( 'one' );
		$this->start_fpm( 'two' );
	}

	public function end() {
		array_map( array( $this, 'stop' ), array_reverse( array_keys( $this->running ) ) );
		foreach ( file( '/proc/self/mounts' ) as $line ) {
			$point = explode( ' ', $line )[1];
			0 === strpos( $point, "{$this->folder}/" ) && self::shell( "umount -l $point" );
		}
		self::shell( "rm -rf {$this->folder}" );
	}
}
