#!/bin/sh
# The tests of the cache for Python, and the stress of threads, on interpreters that Debian's
# unstable suite has: with the wheel for 3.12 and later, in that Debian, which is made in a folder.
#
#     debian-sid.sh FOLDER WHEEL [VERSION]...
#
# Needs root, the network and debootstrap. FOLDER keeps that Debian. The versions are 3.14 and 3.15
# if none is named.
set -eu
if [ $# -lt 2 ]; then
	echo "usage: debian-sid.sh FOLDER WHEEL [VERSION]..." >&2
	exit 2
fi

checkout=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mkdir -p "$1" && cd "$1" && pwd)
wheel=$(realpath -e "$2")
shift 2
[ $# -gt 0 ] || set -- 3.14 3.15
cd "$checkout"
root=$folder/debian-sid
. "$checkout/tests/debian.sh"

environments=$(printf 'python%s-venv\n' "$@")
# Each line is a package.
# shellcheck disable=SC2086
make_root sid redis-server memcached $environments
# pip trusts there whom it trusts here.
mkdir -p "$root/etc/ssl/certs"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
rm -f "$root"/srv/*.whl
cp "$wheel" "$root/srv/"
ended=0
for version; do
	inside "python$version" "$checkout/python/threads/suite.py" \
		--wheel "/srv/$(basename "$wheel")" "python$version" || ended=1
done
exit $ended
