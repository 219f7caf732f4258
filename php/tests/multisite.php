<?php
// Groups and blogs on multisite.

$settings = array( 'multisite' => true );
Suite::check( 'group of a blog is that blog\'s, a global one is everybody\'s', array(
	'wp_cache_add_global_groups( "users" ); wp_cache_set( "a", 1, "posts" );
		wp_cache_set( "a", 1, "users" ); wp_cache_switch_to_blog( 2 );
		return array( wp_cache_get( "a", "posts" ), wp_cache_get( "a", "users" ) );',
	'wp_cache_add_global_groups( array( "users" ) ); wp_cache_switch_to_blog( 2 );
		wp_cache_set( "a", 2, "posts" ); wp_cache_switch_to_blog( 1 );
		return array( wp_cache_get( "a", "posts" ), wp_cache_get( "a", "users" ) );',
	'wp_cache_switch_to_blog( 2 ); wp_cache_flush_group( "posts" );',
	'$r = wp_cache_get( "a", "posts" ); wp_cache_switch_to_blog( 2 );
		return array( $r, wp_cache_get( "a", "posts" ) );',
), array( array( false, 1 ), array( 1, 1 ), null, array( 1, false ) ), $settings );

Suite::check( 'group declared global late has no old entries', array(
	'wp_cache_set( "x", 1, "late" ); wp_cache_add_global_groups( "late" );
		return array( wp_cache_get( "x", "late" ), wp_cache_get( "1:x", "late" ) );',
), array( array( false, false ) ), $settings );

Suite::check( 'switch_to_blog means nothing on a single site', array(
	'wp_cache_set( "a", 1 ); wp_cache_switch_to_blog( 2 ); return wp_cache_get( "a" );',
), array( 1 ) );
