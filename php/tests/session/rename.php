<?php
// Gives the first post another title. Arguments: the folder of the site, the title.

$_SERVER['HTTP_HOST'] = '127.0.0.1';
require $argv[1] . '/wp-load.php';
$post = get_page_by_path( 'post-1', OBJECT, 'post' );
wp_update_post( array( 'ID' => $post->ID, 'post_title' => $argv[2] ) );
