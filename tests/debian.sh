# Another Debian, made in a folder, for what this machine's packages are too old for. Read (`.`) by
# a script that has set `checkout`, and `root`, where that Debian is to stand.
#
# Needs root, the network and debootstrap.

# Runs a command there. The checkout is found under its own name. What is mounted for it is gone
# when it ends.
inside() {
	unshare --mount sh -c 'set -e; root=$1 checkout=$2; shift 2
		mkdir -p "$root$checkout"
		mount --bind "$checkout" "$root$checkout"
		mount -t proc proc "$root/proc"
		mount --rbind /dev "$root/dev"
		exec chroot "$root" env LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"' \
		inside "$root" "$checkout" "$@"
}

# make_root SUITE PACKAGE...: one that is kept gets the packages of today as a new one does.
make_root() {
	if ! [ -e "$root/made" ]; then
		rm -rf "$root"
		unshare --mount debootstrap --variant=minbase "$1" "$root" http://deb.debian.org/debian
		printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
		chmod +x "$root/usr/sbin/policy-rc.d"
		# A mirror may be weeks behind. What it holds is signed all the same.
		echo 'Acquire::Check-Valid-Until "false";' > "$root/etc/apt/apt.conf.d/99-old-mirror"
		touch "$root/made"
	fi
	shift
	inside apt-get update -q
	inside apt-get upgrade -q -y
	inside apt-get install -q -y --no-install-recommends "$@"
}
