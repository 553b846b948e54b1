# Shared by the tests of the tools: sourced, with $0 the test. Gives $tree, an empty folder removed
# at the end, and the functions below. A test ends with "finish".
set -u
repo=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
failures=0
cases=0

# put PATH: standard input becomes that file of the tree.
put() {
	mkdir -p "$tree/$(dirname "$1")"
	cat >"$tree/$1"
}

# expect NAME STATUS TEXT COMMAND...: the command ends with STATUS and prints TEXT (a fixed string;
# empty for anything).
expect() {
	local name=$1 status=$2 text=$3 printed got
	shift 3
	printed=$("$@" 2>&1)
	got=$?
	((cases++))
	if [[ $got != "$status" ]]; then
		echo "FAIL $name: exit status $got, expected $status. It printed:"
	elif [[ -n $text && $printed != *"$text"* ]]; then
		echo "FAIL $name: expected the text '$text'. It printed:"
	else
		echo "ok $name"
		return
	fi
	((failures++))
	sed 's/^/  /' <<<"$printed"
}

finish() {
	echo "$((cases - failures)) of $cases cases passed"
	((cases > 0 && failures == 0))
	exit
}
