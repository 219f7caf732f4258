#!/bin/sh
# The suites of the extension where a program sees each access to memory: AddressSanitizer, which
# the extension is built with, and Valgrind, which also knows bytes that were never written.
#
#     memory-errors.sh FOLDER OBJECT-CACHE.PHP
#
# Needs valgrind, gcc with libasan, and nightly Rust. FOLDER keeps the build and what was found.
# PHP is that of the machine. Nothing is suppressed.
. "$(dirname "$0")/shared.sh"
if [ -n "${TIDEMARK_LANE:-}" ]; then
	echo "its sizes are those of the day" >&2
	exit 2
fi
parts="values changed cache library jumps processes"

# Machine code that PHP writes while it runs would be seen as PHP's, and no more of it is known.
mkdir -p "$folder/ini"
printf 'pcre.jit=0\nopcache.jit=0\n' > "$folder/ini/plain.ini"
export PHP_INI_SCAN_DIR=":$folder/ini"
# Each block of Zend's own allocator is one of malloc, whose end is seen; the limit still holds.
malloc="env USE_ZEND_ALLOC=0 USE_TRACKED_ALLOC=1"

# A suite that fails says so, and the next one starts all the same.
failed=0
suite() {
	"$@" || failed=1
}

# A copy beyond a block of malloc, which must be found: else nothing is watched.
planted='$c = FFI::cdef( "void *malloc( size_t ); void *memcpy( void *, const char *, size_t );" );
	$c->memcpy( $c->malloc( 8 ), str_repeat( "x", 64 ), 64 );'
see_planted() {
	$under php -d ffi.enable=1 -r "$planted" > "$folder/planted.log" 2>&1 || true
	expect "a planted fault is found" "$(cat "$folder/$1".* | grep -m1 -cE "$2")" 1
	rm "$folder/$1".*
}

build() {
	machine=$(rustc +nightly -vV | sed -n 's/^host: //p')
	library=$folder/build/$machine/release/libtidemark.so
	(
		cd php/ext
		export CARGO_TARGET_DIR="$folder/build" CARGO_PROFILE_RELEASE_LTO=off
		export CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_DEBUG=line-tables-only
		export CFLAGS="-fsanitize=address -fno-omit-frame-pointer" RUSTFLAGS=-Zsanitizer=address
		cargo +nightly build --release --target "$machine"
	)
	cc -O1 -shared -fPIC -o "$folder/dlopen.so" php/ext/tests/dlopen.c
}

sanitizer() {
	build
	rm -f "$folder"/sanitizer.*
	# What is freed is kept for a while; a test bounds the memory of its process.
	options=verify_asan_link_order=0:detect_leaks=0:quarantine_size_mb=16
	options=$options:log_path=$folder/sanitizer
	# PHP itself does not have the library of the sanitizer.
	under="env LD_PRELOAD=$folder/dlopen.so:$(gcc -print-file-name=libasan.so)"
	under="$under ASAN_OPTIONS=$options"
	calls=$(nm -D --undefined-only "$library" | grep -c __asan_report_) || calls=0
	expect "the library calls the sanitizer" "$((calls > 0))" 1
	see_planted sanitizer 'ERROR: AddressSanitizer: heap-buffer-overflow'
	for part in $parts; do
		suite $under php php/ext/tests/run.php "$library" "$part"
		suite $under $malloc php php/ext/tests/run.php "$library" "$part"
	done
	suite $under php php/tests/run.php "$drop_in" "--extension=$library"
	expect "AddressSanitizer finds nothing" "$(cat "$folder"/sanitizer.* 2>/dev/null)" ""
}

# Valgrind reads each library of PHP anew in each process: only those that the suites use.
few_libraries() {
	mkdir -p "$folder/few"
	echo 'pcre.jit=0' > "$folder/few/few.ini"
	for name in ctype ffi posix sqlite3; do
		php -n -m | grep -qix "$name" || echo "extension=$name" >> "$folder/few/few.ini"
	done
	export PHP_INI_SCAN_DIR="$folder/few"
}

valgrind_suites() {
	cargo xtask php-ext
	few_libraries
	library=$folder/tidemark.so
	cp "$target/dist/php/tidemark.so" "$library"
	rm -f "$folder"/valgrind.*
	under="$malloc valgrind -q --trace-children=yes --leak-check=no --error-exitcode=9"
	# A read goes on after the handler of a missing page, and needs all of its registers.
	under="$under --vex-iropt-register-updates=allregs-at-mem-access"
	under="$under --log-file=$folder/valgrind.%p"
	see_planted valgrind 'Address 0x.* is 0 bytes after a block of size 8 alloc'
	for part in $parts; do
		suite $under php php/ext/tests/run.php "$library" "$part"
	done
	suite $under php php/tests/run.php "$drop_in" "--extension=$library" contract
	expect "Valgrind finds nothing" "$(cat "$folder"/valgrind.* 2>/dev/null)" ""
}

sanitizer
valgrind_suites
exit $failed
