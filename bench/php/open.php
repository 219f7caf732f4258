<?php
// One request of a warm worker: the CPU of making the cache and of its first read, in microseconds.

require __DIR__ . '/measure.php';
require __DIR__ . '/wordpress.php';
require getenv( 'BENCH_DROP_IN' );
$before = cpu();
wp_cache_init();
wp_cache_get( 'p1', 'posts' );
echo cpu() - $before;
