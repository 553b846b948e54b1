# Fetches lttng-analyses, which tests/interop/analyses runs, with Debian's babeltrace 1 that it reads traces by:
# unpacked, and never installed. ./setup --tests runs it, so that the test needs no network. Quick when it is there.
#
#   bash tests/interop/fetch-analyses.sh [--check]
#
#   --check   only say whether it is there
#
# Prints its folder: usr/, what the packages have; python/, the modules of PyPI.
# Exit: 0 it is there; 1 it could not be fetched; 3 this system has none to offer.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
export LC_ALL=C
at=$PWD/build/analyses
if [[ -e $at/python/lttnganalyses ]]; then
	echo "$at"
	exit 0
fi
[[ ${1-} != --check ]] || exit 1

say() { echo "fetch-analyses: $*" >&2; }

# The binding is for the distribution's own Python.
[[ -x /usr/bin/python3 ]] || { say "no /usr/bin/python3 here"; exit 3; }
command -v apt-get dpkg >/dev/null || { say "no apt-get here, which would fetch babeltrace 1"; exit 3; }
packages=(babeltrace python3-babeltrace libbabeltrace1)
for package in "${packages[@]}"; do
	apt-cache show "$package" >/dev/null 2>&1 || { say "apt knows no $package, which Debian has"; exit 3; }
done
for pip in "/usr/bin/python3 -m pip" "python3 -m pip" ''; do
	[[ -n $pip ]] || { say "no pip here, which would fetch it from PyPI"; exit 3; }
	$pip --version >/dev/null 2>&1 && break
done
mkdir -p build || exit 1
folder=$(mktemp -d "$at.XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT

log=$(cd "$folder" && timeout 300 apt-get download -q "${packages[@]}" 2>&1) ||
	{ say "${packages[*]} cannot be downloaded: $(tail -n 1 <<<"$log")"; exit 1; }
for package in "$folder"/*.deb; do
	dpkg -x "$package" "$folder/all" || { say "$(basename "$package") cannot be unpacked"; exit 1; }
done

# As they were released: neither changes any more.
cat >"$folder/wanted" <<'END'
lttnganalyses==0.6.1 --hash=sha256:bca867b09e492fe4cc37b0919337ca40ba8e86c69588e296c4c095e23ff394be
pyparsing==3.3.3 --hash=sha256:ece8c00a69cf01b45d0b1dedabb469c90d8caf996d4fda40f147627a122849a4
END
log=$(timeout 300 $pip download -q --no-deps --no-build-isolation --require-hashes -r "$folder/wanted" -d "$folder" 2>&1) ||
	log=$(timeout 300 $pip download -q --no-deps --require-hashes -r "$folder/wanted" -d "$folder" 2>&1) ||
	{ say "lttnganalyses cannot be downloaded: $(tail -n 1 <<<"$log")"; exit 1; }
mkdir "$folder/python" && tar -xzf "$folder"/lttnganalyses-*.tar.gz -C "$folder" &&
	mv "$folder"/lttnganalyses-*/lttnganalyses "$folder/python" &&
	python3 -m zipfile -e "$folder"/pyparsing-*.whl "$folder/python" &&
	mv "$folder/all/usr" "$folder/usr" || { say "what came cannot be unpacked"; exit 1; }
rm -rf "$folder"/*.deb "$folder"/*.whl "$folder"/*.tar.gz "$folder"/lttnganalyses-* "$folder/all" "$folder/wanted"
# Another that fetches at the same time has the same one.
mv -T "$folder" "$at" 2>/dev/null || [[ -e $at/python/lttnganalyses ]] || exit 1
echo "$at"
