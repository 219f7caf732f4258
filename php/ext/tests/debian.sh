#!/bin/sh
# Our packages of the extension in Debian 12 and 13, and its suites in the PHP 8.4 of the latter.
#
#     debian.sh FOLDER OBJECT-CACHE.PHP
#
# Needs root, the network, debootstrap and gcc. FOLDER keeps both Debians; target/dist/php is left
# with another library.
. "$(dirname "$0")/shared.sh"
. "$checkout/tests/debian.sh"

# Builds the package for the PHP of a release, installs it there, uses it and removes it.
package() {
	root=$folder/$1 version=$2
	make_root "$1" "php$version-cli" "php$version-fpm" "php$version-sqlite3"
	# The headers alone: the compiler is that of this machine.
	inside sh -c 'cd /srv && rm -f php*-dev_*.deb && apt-get download "$1" &&
		dpkg -x php*-dev_*.deb /' headers "php$version-dev"
	inside "php$version" -v
	config=$folder/php-config$version
	printf '#!/bin/sh\nchroot "%s" php-config%s "$@" | sed "s# *-I/# -I%s/#g"\n' \
		"$root" "$version" "$root" > "$config"
	chmod +x "$config"
	# One of another version would be taken for what is built here.
	rm -f "$target"/dist/php/php*-tidemark_*.deb
	PHP_CONFIG=$config cargo xtask php-ext --deb
	# Inside, only the checkout is bound: the target folder may stand elsewhere.
	cp "$target/dist/php/php$version"-tidemark_*.deb "$root/srv/tidemark.deb"
	cp "$target/dist/php/tidemark.so" "$root/srv/tidemark.so"
	cp "$drop_in" "$root/srv/object-cache.php"
	inside apt-get install -q -y /srv/tidemark.deb
	code='$c = new Tidemark\Cache( "/srv/table/values" ); echo $c->get( "k" ); $c->set( "k", 7 );'
	inside sh -c 'rm -rf /srv/table; mkdir -m 700 /srv/table'
	inside "php$version" -r "$code"
	expect "the package of PHP $version works, and its values stay" \
		"$(inside "php$version" -r "$code")" 7
	expect "PHP-FPM $version loads it" "$(inside "php-fpm$version" -m | grep -c tidemark)" 1
	inside apt-get purge -q -y "php$version-tidemark"
	expect "a package that is removed leaves nothing" \
		"$(inside "php$version" -m | grep tidemark)" ""
}

package bookworm 8.2
package trixie 8.4
inside php8.4 "$checkout/php/ext/tests/run.php" /srv/tidemark.so
inside php8.4 "$checkout/php/tests/run.php" /srv/object-cache.php --extension=/srv/tidemark.so
