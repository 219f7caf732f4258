<?php
// Adds a catalogue to the site: posts with eight fields and three tags each. Argument: the folder of the site.

$_SERVER['HTTP_HOST'] = '127.0.0.1';
require $argv[1] . '/wp-load.php';
update_option( 'posts_per_page', 18 );
for ( $i = 1; $i <= 360; ++$i ) {
	$fields = array();
	for ( $field = 1; $field <= 8; ++$field ) {
		$fields[ "field_$field" ] = str_repeat( md5( "$i-$field" ), 1 + $field % 3 );
	}
	wp_insert_post( array(
		'post_title'   => "Product $i",
		'post_name'    => "product-$i",
		'post_content' => str_repeat( "Text of product $i. ", 60 ),
		'post_status'  => 'publish',
		'post_date'    => gmdate( 'Y-m-d H:i:s', 1760000000 + 60 * $i ),
		'tags_input'   => array( 'tag' . $i % 5, 'kind' . $i % 40, 'maker' . $i % 90 ),
		'meta_input'   => $fields,
	) );
}
