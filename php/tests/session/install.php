<?php
// Installs WordPress and writes some content. Argument: the folder of the site.

define( 'WP_INSTALLING', true );
$_SERVER['HTTP_HOST'] = '127.0.0.1';
require $argv[1] . '/wp-load.php';
require_once ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install( 'Site', 'admin', 'admin@example.org', true, '', 'secret' );
switch_theme( basename( glob( WP_CONTENT_DIR . '/themes/*' )[0] ) );
update_option( 'permalink_structure', '/%postname%/' );
for ( $i = 1; $i <= 40; ++$i ) {
	$post = wp_insert_post( array(
		'post_title'   => "Post $i",
		'post_name'    => "post-$i",
		'post_content' => str_repeat( "Text of post $i. ", 50 ),
		'post_status'  => 'publish',
		// No two of one time: MariaDB gives those in any order.
		'post_date'    => sprintf( '2026-01-%02d 12:%02d:00', 1 + $i % 28, $i ),
	) );
	wp_set_post_tags( $post, array( 'tag' . $i % 5, 'tag' . $i % 7 ) );
}
