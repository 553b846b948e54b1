#!/bin/bash
# fetch-postgresql: the programs of a PostgreSQL, with the libraries that they need, in build/postgresql; prints their folder, and
# nothing of the machine is changed. Debian's package would start a server of its own. Exit 1: it cannot be had, and the last line
# on stderr says why.
set -u
cd "$(dirname "$0")/../.." || exit 2
folder=$PWD/build/postgresql
wanted='pgserver==0.1.4'
mkdir -p build
exec 9>build/postgresql.lock
flock 9
if [[ $(cat "$folder/complete" 2>/dev/null) != "$wanted" ]]; then
	rm -rf "$folder"
	/usr/bin/python3 -m venv "$folder.tools" >&2 || exit 1
	# Its programs need no Python, so that it may be for another one than this machine has.
	"$folder.tools/bin/pip" install --quiet --only-binary :all: --no-deps --target "$folder" --platform manylinux2014_x86_64 \
		--implementation cp --python-version 3.12 --abi cp312 "$wanted" >&2 || exit 1
	rm -rf "$folder.tools"
	echo "$wanted" >"$folder/complete"
fi
echo "$folder/pgserver/pginstall/bin"
