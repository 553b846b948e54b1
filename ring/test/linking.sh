#!/bin/bash
# linking.sh - the headers in programs of more than one file, with each compiler at each optimisation:
# a C++ template that records from two translation units, whose copies and critical sections the
# linker merges; and a library that is loaded, records, is unloaded, and leaves nothing behind.
set -u
cd "$(dirname "$0")/../.." || exit 2
tree=$(mktemp -d) || exit 2
trap 'rm -rf "$tree"' EXIT
warnings=(-Wall -Wextra -Wconversion -Wshadow -Werror)
include=(-D_GNU_SOURCE -Iabi/include -Iring/include)
source=ring/test/cxx

status=0 count=0
# must WHAT COMMAND...
must() {
	local what=$1 output
	shift
	((count++))
	if ! output=$(timeout 100 "$@" 2>&1); then
		printf 'FAIL  %s (exit status of %s)\n%s\n' "$what" "${1##*/}" "$output"
		status=1
		return 1
	fi
	[[ -z $output ]] || printf 'pass  %s: %s\n' "$what" "$output"
}

for pair in 'gcc g++' 'clang clang++'; do
	read -r cc cxx <<<"$pair"
	if ! command -v "$cxx" >/dev/null; then
		echo "without $cxx: not there"
		continue
	fi
	for optimise in '-O0' '-O2' '-O3 -flto' '-O2 -ffunction-sections -Wl,--gc-sections'; do
		read -r -a flags <<<"$optimise"
		name="$cxx $optimise"
		# Link-time optimisation needs the compiler's own plug-in, which may not be installed.
		if [[ $optimise == *flto* ]] && ! echo 'int main() { return 0; }' |
			"$cxx" -x c++ - "${flags[@]}" -o "$tree/probe" 2>/dev/null; then
			echo "without $name: does not link"
			continue
		fi
		must "template_in_two_units_compiles, $name" "$cxx" -std=c++17 "${flags[@]}" "${warnings[@]}" \
			"${include[@]}" "$source/main.cpp" "$source/other.cpp" -o "$tree/main" -pthread &&
			must "template_in_two_units_records, $name" "$tree/main" &&
			must "template_in_two_units_records, $name, no rseq" "$tree/main" commit
		name="$cc $optimise"
		must "library_compiles, $name" "$cc" -std=c11 "${flags[@]}" "${warnings[@]}" "${include[@]}" \
			-fPIC -shared "$source/library.c" -o "$tree/library.so" -pthread &&
			must "loader_compiles, $name" "$cc" -std=c11 "${flags[@]}" "${warnings[@]}" "${include[@]}" \
				"$source/loader.c" -o "$tree/loader" -pthread -ldl &&
			must "library_unloaded_leaves_nothing_behind, $name" "$tree/loader" "$tree/library.so" &&
			must "library_unloaded_leaves_nothing_behind, $name, no rseq" \
				"$tree/loader" "$tree/library.so" commit
	done
done
((count)) || status=1
exit $status
