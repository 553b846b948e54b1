# Fetches babeltrace2 2.1, which reads and writes CTF 2, from Debian 13: unpacked beside the system with all
# that it needs, down to the C library, and never installed. ./setup --tests runs it, so that the tests need no
# network. Quick when it is there.
#
#   bash tests/interop/fetch-babeltrace.sh [--check]
#
#   --check   only say whether it is there
#
# Prints the path of the command.
# Exit: 0 it is there; 1 it could not be fetched; 3 this system has nothing to fetch it with.
#
#   STRATA_INTEROP_CACHE=DIR   where it is kept; default: build/interop
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
export LC_ALL=C
cache=${STRATA_INTEROP_CACHE:-$PWD/build/interop}
command=$cache/babeltrace2-2.1/babeltrace2
if [[ -e $command ]]; then
	echo "$command"
	exit 0
fi
[[ ${1-} != --check ]] || exit 1

say() { echo "fetch: $*" >&2; }

readonly SUITE=trixie HOST=http://deb.debian.org/debian KEYS=/usr/share/keyrings/debian-archive-keyring.gpg
command -v apt-get dpkg >/dev/null || { say "no apt-get here, which would fetch it"; exit 3; }
[[ -e $KEYS ]] || { say "no $KEYS here, with which Debian's packages are checked"; exit 3; }
mkdir -p "$cache" || exit 1
folder=$(mktemp -d "$cache/new.XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT

# ---- an apt of its own, which knows nothing of the system's packages and has installed none ----

apt=$folder/apt
mkdir -p "$apt"/{lists/partial,cache/archives/partial,etc/sources.list.d,etc/preferences.d,etc/apt.conf.d} || exit 1
: >"$apt/status"
cat >"$apt/etc/sources.list.d/debian.sources" <<END
Types: deb
URIs: $HOST
Suites: $SUITE
Components: main
Signed-By: $KEYS
END
cat >"$apt/conf" <<END
Dir::Etc "$apt/etc";
Dir::State "$apt";
Dir::State::Lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Dir::Log "$apt";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
END
export APT_CONFIG=$apt/conf

# get STEP COMMAND...: in time, or say why not
get() {
	local log
	log=$(timeout 300 "${@:2}" 2>&1) && return
	say "$1: $(grep -m 1 '^E:' <<<"$log" || tail -n 1 <<<"$log")"
	exit 1
}
get "the lists of Debian's packages cannot be fetched" apt-get update -q --error-on=any
get "babeltrace2 of Debian 13 cannot be downloaded" \
	apt-get install -y -q --no-install-recommends --download-only babeltrace2
mkdir -p "$folder/made/root" || exit 1
for package in "$apt"/cache/archives/*.deb; do
	dpkg -x "$package" "$folder/made/root" || { say "$(basename "$package") cannot be unpacked"; exit 1; }
done

# ---- with the loader and the libraries that it was made for ----

cat >"$folder/made/babeltrace2" <<'END'
#!/bin/bash
root=$(dirname "$(readlink -f "$0")")/root
libraries=$(dirname "$(compgen -G "$root/usr/lib/*/ld-linux*" | head -n 1)")
loader=$(compgen -G "$libraries/ld-linux*" | head -n 1)
export BABELTRACE_PLUGIN_PATH=$libraries/babeltrace2/plugins
export LIBBABELTRACE2_PLUGIN_PROVIDER_DIR=$libraries/babeltrace2/plugin-providers
exec "$loader" --library-path "$libraries" "$root/usr/bin/babeltrace2" "$@"
END
chmod +x "$folder/made/babeltrace2" || exit 1
found=$("$folder/made/babeltrace2" --version 2>&1 | head -n 1)
[[ $found == 'Babeltrace 2.'[1-9]* ]] || { say "what was fetched is no babeltrace2 2.1 that runs: $found"; exit 1; }
# Another that fetches at the same time has the same one.
mv -T "$folder/made" "$cache/babeltrace2-2.1" 2>/dev/null || [[ -e $command ]] || exit 1
echo "$command"
