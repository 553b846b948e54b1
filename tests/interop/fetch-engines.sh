#!/bin/bash
# fetch-engines: a virtual environment with engines that read Parquet, in build/engines; prints its folder. Exit 1: they cannot be
# had, and the last line on stderr says why.
set -u
cd "$(dirname "$0")/../.." || exit 2
folder=$PWD/build/engines
wanted='duckdb==2.0.1 pyarrow==26.0.1'
mkdir -p build
exec 9>build/engines.lock
flock 9
# Python itself is elsewhere, and may have been in a folder that is gone.
if [[ $(cat "$folder/complete" 2>/dev/null) != "$wanted" ]] || ! "$folder/bin/python3" -c '' 2>/dev/null; then
	rm -rf "$folder"
	/usr/bin/python3 -m venv "$folder" >&2 || exit 1
	# shellcheck disable=SC2086
	"$folder/bin/pip" install --quiet --only-binary :all: $wanted >&2 || exit 1
	echo "$wanted" >"$folder/complete"
fi
echo "$folder"
