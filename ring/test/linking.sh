#!/bin/bash
# linking.sh - the headers in programs of more than one file, with each compiler at each optimisation:
# a C++ template that records from two translation units, whose copies and critical sections the
# linker merges; and a library that is loaded, records, is unloaded, and leaves nothing behind. Of clients
# (client.h): what is one's does not compile with another one, even without warnings asked for, and the same
# record by hand is the same instructions.
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

# refused WHAT COMMAND...: the compiler must say so, and because of the types.
refused() {
	local what=$1 output
	shift
	((count++))
	if output=$("$@" 2>&1) || ! grep -qE 'incompatible pointer|cannot convert|no matching function' <<<"$output"; then
		printf 'FAIL  %s: it compiles, or fails for another reason\n%s\n' "$what" "$output"
		status=1
	fi
}

# clients COMPILER LANGUAGE STANDARD
clients() {
	local command=("$1" -x "$2" "-std=$3" -O2 "${include[@]}") mistake way
	must "clients_beside_each_other_compile, $1 $3" "${command[@]}" "${warnings[@]}" -fsyntax-only "$source/mistake.c"
	for mistake in 1 2 3 4 5 6 7; do
		refused "mistake_${mistake}_with_another_client, $1 $3" "${command[@]}" "-DMISTAKE=$mistake" \
			-fsyntax-only "$source/mistake.c"
	done
	for way in '' -DBY_HAND; do
		must "cost_compiles, $1 $3" "${command[@]}" "${warnings[@]}" ${way:+"$way"} -c "$source/cost.c" -o "$tree/cost.o"
		# Where the linker puts what is cold is not the question.
		{ objdump -d --no-addresses --no-show-raw-insn --disassemble=record "$tree/cost.o" &&
			objdump -d --no-addresses --no-show-raw-insn --disassemble=slot "$tree/cost.o"; } |
			sed 's/ *#.*//; s/<[^>]*>$//; /file format/d' >"$tree/cost${way:+.hand}"
	done
	must "record_by_a_client_is_the_same_instructions, $1 $3" cmp "$tree/cost" "$tree/cost.hand"
	must "cost_has_both_functions, $1 $3" test "$(grep -c ret "$tree/cost")" -ge 2
}

for pair in 'gcc g++' 'clang clang++'; do
	read -r cc cxx <<<"$pair"
	if ! command -v "$cxx" >/dev/null; then
		echo "without $cxx: not there"
		continue
	fi
	clients "$cc" c c11
	clients "$cxx" c++ c++17
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
