# Sources of Debian's. Read (`.`) by a script that has set `folder`.
#
# Needs the network and apt.

# fetch_source NAME...: leaves the newest source that Debian has of the first of these packages of
# which there is one, in $folder/source. Its indexes also name sources that its servers lack.
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
