#!/bin/sh
# The suites of the extension in PHP 8.4, and our package for it: in Debian 13, which is made in a
# folder.
#
#     debian-13.sh FOLDER OBJECT-CACHE.PHP
#
# Needs root, the network, debootstrap and gcc. FOLDER keeps Debian 13; target/dist/php is left with
# another library.
set -eu
if [ $# -ne 2 ]; then
	echo "usage: debian-13.sh FOLDER OBJECT-CACHE.PHP" >&2
	exit 2
fi

checkout=$(cd "$(dirname "$0")/../../.." && pwd)
folder=$(mkdir -p "$1" && cd "$1" && pwd)
drop_in=$(realpath "$2")
cd "$checkout"
target=${CARGO_TARGET_DIR:-$checkout/target}
root=$folder/debian-13

. "$checkout/tests/debian.sh"

# Prints a closing line as the suites do.
expect() {
	if [ "$2" = "$3" ]; then
		echo "1 passed in 0.0s"
		return
	fi
	printf 'FAILED %s\n  expected %s\n  found    %s\n1 failed, 0 passed in 0.0s\n' "$1" "$3" "$2"
	exit 1
}

make_root trixie php8.4-cli php8.4-fpm php8.4-sqlite3
# The headers alone: the compiler is that of this machine.
inside sh -c 'cd /srv && rm -f php8.4-dev_*.deb && apt-get download php8.4-dev &&
	dpkg -x php8.4-dev_*.deb /'
inside php8.4 -v
config=$folder/php-config
printf '#!/bin/sh\nchroot "%s" php-config8.4 "$@" | sed "s# *-I/# -I%s/#g"\n' \
	"$root" "$root" > "$config"
chmod +x "$config"
# One of another version would be taken for what is built here.
rm -f "$target"/dist/php/php8.4-tidemark_*.deb
PHP_CONFIG=$config cargo xtask php-ext --deb
# Inside, only the checkout is bound: the target folder may stand elsewhere.
cp "$target"/dist/php/php8.4-tidemark_*.deb "$root/srv/tidemark.deb"
cp "$target/dist/php/tidemark.so" "$root/srv/tidemark.so"
cp "$drop_in" "$root/srv/object-cache.php"
inside apt-get install -q -y /srv/tidemark.deb
code='$c = new Tidemark\Cache( "/srv/table/values" ); echo $c->get( "k" ); $c->set( "k", 7 );'
inside sh -c 'rm -rf /srv/table; mkdir -m 700 /srv/table'
inside php8.4 -r "$code"
expect "the package of PHP 8.4 works, and its values stay" "$(inside php8.4 -r "$code")" 7
expect "PHP-FPM 8.4 loads it" "$(inside php-fpm8.4 -m | grep -c tidemark)" 1
inside apt-get purge -q -y php8.4-tidemark
expect "a package that is removed leaves nothing" "$(inside php8.4 -m | grep tidemark)" ""
inside php8.4 "$checkout/php/ext/tests/run.php" /srv/tidemark.so
inside php8.4 "$checkout/php/tests/run.php" /srv/object-cache.php --extension=/srv/tidemark.so
