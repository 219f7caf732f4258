# Sources of Debian's. Read (`.`) by a script that has set `folder`.
#
# Needs the network and apt.

# fetch_older NAME VERSION SHA256: the source whose `.dsc` has this checksum, which no index names
# any more.
fetch_older() (
	pool=http://deb.debian.org/debian/pool/main/$(echo "$1" | cut -c1)/$1
	get=/usr/lib/apt/apt-helper
	cd "$folder/source"
	$get download-file "$pool/$1_$2.dsc" "$1_$2.dsc" "SHA256:$3" || exit 1
	sed -n '/^Checksums-Sha256:/,/^[^ ]/s/^ //p' "$1_$2.dsc" | while read -r sum size file; do
		$get download-file "$pool/$file" "$file" "SHA256:$sum" || exit 1
	done
)

# fetch_source NAME[=VERSION=SHA256]...: leaves the first of these that Debian has in
# $folder/source, of a name alone the newest source. Its indexes also name sources that its servers
# lack, while those have some that the indexes do not.
fetch_source() {
	rm -rf "$folder/apt"
	mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
	from='deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org'
	for suite in trixie sid bookworm; do
		echo "$from/debian $suite main"
	done > "$folder/apt/sources.list"
	for suite in trixie bookworm; do
		echo "$from/debian-security $suite-security main"
	done >> "$folder/apt/sources.list"
	# Lists of its own: those of this machine stay as they are.
	options="-q -o Dir::Etc::SourceList=$folder/apt/sources.list -o Dir::Etc::SourceParts=/dev/null
		-o Dir::State::Lists=$folder/apt/lists -o Dir::Cache=$folder/apt/cache"
	apt-get $options update
	for name; do
		case $name in *=*)
			rm -rf "$folder/source"
			mkdir "$folder/source"
			# shellcheck disable=SC2046 # the parts are words
			if fetch_older $(echo "$name" | tr = ' '); then
				return
			fi
			continue ;;
		esac
		versions=$(apt-cache $options showsrc "$name" | sed -n 's/^Version: //p' | sort -Vru)
		for version in $versions; do
			rm -rf "$folder/source"
			mkdir "$folder/source"
			if (cd "$folder/source" && apt-get $options source --download-only "$name=$version"); then
				return
			fi
		done
	done
	echo "Debian has no source of $*" >&2
	exit 1
}
