<?php
// Logs the administrator in, and prints the header of the cookies. Argument: the folder of the site.

$_SERVER['HTTP_HOST'] = '127.0.0.1';
require $argv[1] . '/wp-load.php';
$until = time() + 3600;
$token = WP_Session_Tokens::get_instance( 1 )->create( $until );
echo 'Cookie: ', AUTH_COOKIE, '=', rawurlencode( wp_generate_auth_cookie( 1, $until, 'auth', $token ) ),
	'; ', LOGGED_IN_COOKIE, '=', rawurlencode( wp_generate_auth_cookie( 1, $until, 'logged_in', $token ) ), "\n";
