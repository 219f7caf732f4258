# What the scripts of this folder share: their arguments, and checks. Each is started as
# `SCRIPT FOLDER OBJECT-CACHE.PHP`.
set -eu
if [ $# -ne 2 ]; then
	echo "usage: $(basename "$0") FOLDER OBJECT-CACHE.PHP" >&2
	exit 2
fi
checkout=$(cd "$(dirname "$0")/../../.." && pwd)
folder=$(mkdir -p "$1" && cd "$1" && pwd)
drop_in=$(realpath "$2")
cd "$checkout"
target=${CARGO_TARGET_DIR:-$checkout/target}

# Prints a closing line as the suites do.
expect() {
	if [ "$2" = "$3" ]; then
		echo "1 passed in 0.0s"
		return
	fi
	printf 'FAILED %s\n  expected %s\n  found    %s\n1 failed, 0 passed in 0.0s\n' "$1" "$3" "$2"
	exit 1
}
