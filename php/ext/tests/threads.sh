#!/bin/sh
# The suites of the extension in a PHP with threads, which is built from Debian's source, and a
# server whose threads serve requests at the same time.
#
#     threads.sh FOLDER OBJECT-CACHE.PHP
#
# Needs the network, dpkg-dev, autoconf, make, gcc, pkg-config and libsqlite3-dev. FOLDER keeps the
# source and the PHP; target/dist/php is left with another library.
. "$(dirname "$0")/shared.sh"
. "$checkout/tests/debian-source.sh"
prefix=$folder/installed
php=$prefix/bin/php

make_php() {
	if [ -x "$php" ]; then
		return
	fi
	# The sources of 8.4 that the indexes name are missing as a rule.
	fetch_source php8.4 \
		php8.4=8.4.16-1=9f2172c07beb78b91fe6388c88343c82d38552f3955def7e0706eb09f6311840 php8.2
	rm -rf "$folder/php"
	dpkg-source --extract "$folder"/source/*.dsc "$folder/php"
	cd "$folder/php"
	# Debian's patches change what `configure` is made of.
	./buildconf --force
	# Without optimisation: it is the extension that is tested.
	./configure -q --prefix="$prefix" --enable-zts --enable-embed=static --disable-all \
		--disable-cgi --disable-phpdbg --enable-ctype --enable-pcntl --enable-posix \
		--with-sqlite3 CFLAGS=-O0
	# It prints each of its commands.
	{ make -j"$(nproc)" && make install; } > "$folder/make.log" 2>&1 || {
		tail -n 50 "$folder/make.log"
		exit 1
	}
	cd "$checkout"
}

make_php
config=$prefix/bin/php-config
PHP_CONFIG=$config cargo xtask php-ext
# Another build may take the place of the one in target.
cp "$target/dist/php/tidemark.so" "$folder/tidemark.so"
library=$folder/tidemark.so
"$php" -v
expect "PHP has threads" "$("$php" -r 'echo PHP_ZTS;')" 1
"$php" php/ext/tests/run.php "$library"
"$php" php/tests/run.php "$drop_in" "--extension=$library"

threads=8 requests=500 generations=5
# The extension finds the functions of PHP in the program.
cc -O1 -Wall -rdynamic -o "$folder/server" $("$config" --includes) \
	php/ext/tests/threads/server.c -Wl,--whole-archive "$prefix/lib/libphp.a" \
	-Wl,--no-whole-archive $("$config" --libs) -lpthread
made=$(mktemp -d)
trap 'rm -r "$made"' EXIT
# The folder of the table may have no other file that others can write to.
mkdir -m 700 "$made/own"
TABLE=$made/own/table
export TABLE
printf 'extension=%s\nmemory_limit=32M\ndisplay_errors=0\nlog_errors=0\n' "$library" \
	> "$made/php.ini"
printed=$(PHPRC=$made "$folder/server" php/ext/tests/threads/request.inc \
	$threads $requests $generations 2>&1) || printed="$printed; it ended with $?"
expect "requests of $threads threads at a time print nothing, and leave no map" "$printed" ""
sum=$(PHPRC=$made "$php" -r 'echo (new Tidemark\Cache(getenv("TABLE"), 16 << 20))->get("sum");')
expect "no count of a thread is lost" "$sum" "$((threads * requests * generations))"
