# Shared by the tests of the whole system: sourced, with $0 the test, which runs in the repository's root.
#
# A test records programs of tests/programs, which say how many events they emitted (count.h), reads each
# trace with babeltrace2, and compares the three numbers: what was emitted, what `strata record` reports,
# what is in the trace.
#
#   STRATA=PATH   the command to test; default: target/debug/strata, which `make build` makes
#   KEEP=1        leave the traces and logs where they are, and say where
set -u
# Who is started in the background without job control, or by nohup, ignores these, and so does all that it starts.
if [[ -n $(trap -p INT QUIT) && -z ${STRATA_TEST_HEARS-} ]]; then
	STRATA_TEST_HEARS=1 exec env --default-signal=INT,QUIT "$0" "$@"
fi
unset STRATA_TEST_HEARS
# The same surroundings wherever a test runs. What is open besides is not its own, but takes of its limits.
for open in "/proc/$$/fd"/*; do
	[[ ${open##*/} == [012] || ! -e $open || $open -ef $0 ]] || eval "exec ${open##*/}>&-"
done
umask 022
export LC_ALL=C
# On a terminal reports would wait in a pager for somebody who types.
export PAGER=cat
unset STRATA_PAGER
# A disk that is nearly full is no reason for a test to fail.
export STRATA_MIN_FREE=0
unset STRATA_SESSION CDPATH
self=$(realpath "$0")
cd -P "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
name=$(basename "$0")
root=$PWD
strata=${STRATA:-$root/target/debug/strata}
built=$root/build/tests
library=$root/build/probe/user
scratch=$(mktemp -d "${TMPDIR:-/tmp}/strata-test-$name.XXXXXX") || exit 2
# What reports ask for, and what a page keeps of traces, is not kept on the machine; what Go has compiled of its own library is.
export GOCACHE=${GOCACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/go-build}
export XDG_STATE_HOME=$scratch XDG_CACHE_HOME=$scratch/cache-home
number=0
# What every recording of a test is told: most are of applications alone. A test of the kernel's events says
# layers=().
layers=(--no-kernel)

clean_up() {
	local pids
	pids=$(jobs -p)
	# shellcheck disable=SC2086
	[[ -z $pids ]] || kill -KILL $pids 2>/dev/null
	if [[ -n ${KEEP-} ]]; then
		echo "kept: $scratch"
	else
		rm -rf "$scratch"
	fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# ---- verdicts ----

skip() {
	echo "skip: $*"
	exit 77
}

# fail TEXT...: say what, and what the recording said.
fail() {
	echo "FAIL $*"
	if [[ -s ${talk-} ]]; then
		echo "what strata said:"
		tail -n 30 "$talk" | sed 's/^/  /'
	fi
	exit 1
}

ok() { echo "ok $*"; }

# same WHAT FOUND WANTED
same() { [[ $2 == "$3" ]] || fail "$1: found '$2', wanted '$3'"; }

# only_within_programs: what $talk says was discarded, if anything, came while a program of the same event was running on its
# CPU, for which the kernel runs none: so rare, and so much by chance, that a test of what interrupts do has to bear it.
only_within_programs() {
	! grep ' discarded (' "$talk" | grep -vF '(program already running)' || fail 'event records were discarded'
}

# said TEXT: strata said it, on stderr.
said() { grep -qF -- "$1" "$talk" || fail "strata did not say '$1'"; }

# need TOOL...
need() {
	local tool
	for tool; do
		command -v "$tool" >/dev/null || skip "missing tool $tool"
	done
}

# isolate [ARGUMENT...]: begin the test anew, with its arguments, where no other process can be seen, nor a socket
# in /run, nor what others pin; or not, where that is not allowed. $STRATA_TEST_ALONE: 1, it is so.
isolate() {
	local alone=(unshare --mount --pid --fork --mount-proc --kill-child=KILL)
	is_root || alone+=(--user --map-root-user)
	[[ -z ${STRATA_TEST_ALONE-} ]] && "${alone[@]}" mount -t tmpfs none /run 2>/dev/null || return 0
	rm -rf "$scratch"
	# shellcheck disable=SC2016
	STRATA_TEST_ALONE=1 exec "${alone[@]}" bash -c 'mount -t tmpfs none /run
		mount -t bpf bpf /sys/fs/bpf 2>/dev/null
		exec "$0" "$@"' "$self" "$@"
}

# own_run ARGUMENT...: begins the test again with a /run of its own, so that no programs of other tests announce themselves
# to its recorders; or not, where that is not allowed. Processes keep the machine's numbers.
own_run() {
	[[ -z ${STRATA_TEST_RUN-} ]] && is_root && unshare --mount mount -t tmpfs none /run 2>/dev/null || return 0
	rm -rf "$scratch"
	# shellcheck disable=SC2016
	STRATA_TEST_RUN=1 exec unshare --mount bash -c 'mount -t tmpfs none /run && exec "$0" "$@"' "$self" "$@"
}

is_root() { [[ $(id -u) == 0 ]]; }

# first_namespace: processes have the numbers by which the kernel's events know them.
first_namespace() {
	local inode
	inode=$(stat -L -c %i /proc/self/ns/pid 2>/dev/null)
	# PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h
	[[ -z $inode || $inode == $((0xeffffffc)) ]] ||
		skip "processes have other numbers here than in the kernel's events: this is another PID namespace than the first"
}

# ---- programs ----

# program NAME...: $built/NAME is there, made of what tests/programs/LIST says, as `make build` makes all. After an edit
# it is made now.
declare -A listed=()
program() {
	local one line stale=()
	if ((${#listed[@]} == 0)); then
		while read -r one _ line; do
			[[ $one != program.* ]] || listed[${one#program.}]=$line
		done <tests/programs/LIST
	fi
	for one; do
		[[ -n ${listed[$one]-} ]] || fail "tests/programs/LIST has no program '$one'. Its line there: program.$one = SOURCE FLAG..."
		as_listed "$one" || stale+=("build/tests/$one")
	done
	((${#stale[@]} > 0)) || return 0
	mkdir -p "$built"
	(
		flock 9
		make -s -f tests/programs/Makefile "${stale[@]}" >/dev/null
	) 9>"$built/.lock" || fail "cannot be built: ${stale[*]}"
}

# as_listed NAME: nothing that it is made of is newer, and it was made of that (build/tests/NAME.d, by the Makefile).
as_listed() {
	local out=$built/$1 line words word
	[[ -x $out && -e $out.d && ! tests/programs/Makefile -nt $out ]] || return 1
	case " ${listed[$1]} " in
	*' alone '*) ;;
	*' archive '* | *' -static '* | *' -static-pie '*) [[ ! $library/libstrata.a -nt $out ]] || return 1 ;;
	esac
	{
		read -r line
		[[ $line == "was.$1 = $root ${listed[$1]}" ]] || return 1
		while read -r line; do
			read -r -a words <<<"${line%\\}"
			for word in "${words[@]}"; do
				[[ $word == *: || -e $word && ! $word -nt $out ]] || return 1
			done
			[[ $line == *\\ ]] || return 0
		done
	} <"$out.d"
}

# ---- recording ----

# slowness: sets $slowness, how many times longer than on a quiet machine anything may take: as many want to run for
# each CPU. A limit is that much later, so that it says of a hang that it is one, and of a busy machine nothing.
cpus=$(nproc)
slowness() {
	local load=0
	read -r load _ </proc/loadavg
	slowness=$((1 + ${load%%.*} / cpus))
}

# A new trace: $trace is its folder, $talk what strata said, $output what the command printed, $counts where
# the programs note how many events they emitted, $text the trace as text.
new_trace() {
	number=$((number + 1))
	# A subshell has its own.
	local own=$BASHPID-$number
	trace=$scratch/trace-$own
	talk=$scratch/talk-$own
	output=$scratch/output-$own
	text=$scratch/text-$own
	counts=$scratch/counts-$own
	: >"$talk" >"$output" >"$counts"
	export STRATA_TEST_COUNTS=$counts
}

# record FLAG... [-- COMMAND...]: its exit status is in $status.
record() {
	new_trace
	slowness
	timeout -k 5 "$((${record_limit:-300} * slowness))" "$strata" record "${layers[@]}" -o "$trace" "$@" >"$output" 2>"$talk"
	status=$?
}

# record_for SECONDS FLAG...: of what runs already, for so long; on a busy machine, where nothing happened in it that
# is recorded, longer.
record_for() {
	local seconds
	for seconds in "$1" 4 40; do
		record --duration "$seconds" "${@:2}"
		[[ $status == 1 ]] && grep -qE 'reached none of them|that the filter selects' "$talk" || return 0
	done
}

# in_files: something is in the trace's files.
in_files() { [[ -n $(find "$trace" -name 'channel*' -size +0 -print -quit 2>/dev/null) ]]; }

# record_begin FLAG... [-- COMMAND...]: in the background, as process $tracer, in a process group of its own;
# returns when it records.
record_begin() {
	new_trace
	set -m
	"$strata" record "${layers[@]}" -o "$trace" "$@" >"$output" 2>"$talk" &
	tracer=$!
	set +m
	wait_for 60 grep -q '^strata: recording' "$talk" || fail "strata does not begin to record"
}

# record_end: stop that one; its exit status is in $status.
record_end() {
	kill -s INT "$tracer" || fail "strata has gone"
	record_join
}

record_join() {
	wait "$tracer"
	status=$?
}

# begin PROGRAM ARGUMENT...: tests/programs/ticker.c or the like in the background, as process $begun; returns
# when it says that it is ready.
declare -A hellos=()
begin() {
	local hello
	hello=$(mktemp "$scratch/hello.XXXXXX")
	"$@" >"$hello" &
	begun=$!
	hellos[$begun]=$hello
	wait_for 60 grep -q ready "$hello" || fail "$* does not begin"
}

# is_on PID TIMES: a "ticker wait" has so often emitted all of its events; before, a recording that ends has a part of
# them. is_off: it has seen so often that it is no longer recorded; before, it takes the next recording for the same one.
is_on() { (($(grep -c '^on$' "${hellos[$1]}") >= $2)); }
is_off() { (($(grep -c '^off$' "${hellos[$1]}") >= $2)); }

# end PID...: they have emitted enough.
end() {
	kill -s TERM "$@"
	wait "$@"
}

# wait_for SECONDS COMMAND...: until it succeeds. The seconds are those of a quiet machine, see slowness().
wait_for() {
	local begin=$SECONDS seconds=$1
	shift
	until "$@"; do
		if ((SECONDS >= begin + seconds)); then
			slowness
			((SECONDS < begin + seconds * slowness)) || return 1
		fi
		sleep 0.02
	done
}

gone() { ! kill -0 "$1" 2>/dev/null; }

# make_group: a new control group that can have a limit of memory; its folder is in $group, the file that says the limit
# in $limit_file, and "${in_group[@]}" COMMAND... is in it.
make_group() {
	local place
	group=
	for place in $(findmnt -n -r -t cgroup -O memory -o TARGET) $(findmnt -n -r -t cgroup2 -o TARGET); do
		group=$place/${scratch##*/}
		if mkdir "$group" 2>/dev/null; then
			# shellcheck disable=SC2016,SC2034
			in_group=(bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group")
			for limit_file in memory.limit_in_bytes memory.max; do
				[[ ! -w $group/$limit_file ]] || return 0
			done
			rmdir "$group"
		fi
		group=
	done
	return 1
}

remove_group() {
	[[ -z ${group-} ]] || wait_for 60 rmdir "$group" 2>/dev/null
}

# set_limit MIB: of that group.
set_limit() {
	# Nor more by swapping; that limit is never the smaller one.
	local with_swap=$group/memory.memsw.limit_in_bytes
	[[ ! -w $with_swap ]] || echo -1 >"$with_swap"
	echo $(($1 << 20)) >"$group/$limit_file" || fail "a limit of $1 MiB cannot be set"
	[[ ! -w $with_swap ]] || echo $(($1 << 20)) >"$with_swap"
	[[ ! -w $group/memory.swap.max ]] || echo 0 >"$group/memory.swap.max"
}

# lines FILE NUMBER: has it so many lines?
lines() { (($(wc -l <"$1") >= $2)); }

# ---- numbers ----

# What the programs say that they emitted: lines "PROGRAM PID NUMBER".
emitted() { awk '{ sum += $3 } END { printf "%d\n", sum }' "$counts"; }

# sizes EVENT: bytes of its smallest record, with header and contexts, and of all in the mean, by `strata stats`. Where the
# program had no CPU for a while the header is longer.
sizes() {
	"$strata" stats --json "$trace" 2>/dev/null | python3 -c 'import json, sys
one, = [event for event in json.load(sys.stdin)["events"] if event["name"] == sys.argv[1]]
print(one["bytes_min"], one["bytes"] // one["records"])' "$1"
}

# What strata says that it recorded, discarded, and overwrote.
recorded() { sed -n 's/^strata: \([0-9,]*\) event records\? of .*/\1/p' "$talk" | tr -d ,; }
discarded() { sum_said 's/^strata: \(.* ([0-9]*)\|kernel\): \([0-9,]*\) event records\? discarded .*/\2/p'; }
discarded_of_programs() { sum_said 's/^strata: .* ([0-9]*): \([0-9,]*\) event records\? discarded .*/\1/p'; }
overwritten() { sum_said 's/^strata: \(.* ([0-9]*)\|kernel\): \([0-9,]*\) event records\? overwritten .*/\2/p'; }
sum_said() { sed -n "$1" "$talk" | tr -d , | awk '{ sum += $1 } END { printf "%d\n", sum }'; }

# read_trace [LINE]: babeltrace2 reads the trace and complains of nothing; but for lines that match LINE.
# Each line of $text: [CLOCK_MONOTONIC ns] HOST:PROGRAM:(PID) PROVIDER:EVENT: { cpu_id = N }, { vtid = N }, { FIELDS }
read_trace() {
	[[ -d $trace ]] || fail "there is no trace"
	babeltrace2 --clock-cycles --no-delta "$trace" >"$text" 2>"$text.err" ||
		fail "babeltrace2 cannot read the trace: $(head -c 2000 "$text.err")"
	if grep -vE "${1:-^$}" "$text.err" >"$text.complaints"; then
		fail "babeltrace2 complains: $(head -c 2000 "$text.complaints")"
	fi
}

# events: how many records there are; but for what is said of a command alone before it begins, which reports do not count.
events() {
	if (($(grep -c ' lttng_statedump_process_state: ' "$text") > 1)); then
		wc -l <"$text" | tr -d ' '
	else
		grep -vc ' lttng_statedump_' "$text"
	fi
}

# check_packets: the files are as readers want them.
check_packets() {
	python3 tests/packets.py "$trace" >"$text.packets" 2>&1 || fail "packets: $(cat "$text.packets")"
}

# complete WHAT: readers say of the trace that it was recorded to its end, by saying nothing.
complete() {
	"$strata" stats --strict "$trace" >/dev/null 2>"$scratch/later" ||
		fail "$1: strata stats --strict: $(cat "$scratch/later")"
	[[ ! -s $scratch/later ]] || fail "$1: strata stats says: $(cat "$scratch/later")"
}

# unended WHAT TEXT: whoever opens the trace later is told, and --strict is not content. $untold: how many
# records no packet counts, as the end marks say.
unended() {
	local reader rc
	for reader in "stats --strict --json" view "export --to json -o -"; do
		# shellcheck disable=SC2086
		"$strata" $reader "$trace" >"$scratch/said" 2>"$scratch/later"
		rc=$?
		[[ $reader != stats* ]] || cp "$scratch/said" "$scratch/json"
		[[ $reader != stats* || $rc == 1 ]] || fail "$1: strata $reader: exit status $rc"
		grep -qE -- "$2" "$scratch/later" ||
			fail "$1: strata $reader does not say '$2': $(cat "$scratch/later")"
	done
	untold=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["untold_records"])' <"$scratch/json")
}

# check_trace [EMITTED]: nothing was discarded, and the three numbers are one.
check_trace() {
	local wanted=${1:-$(emitted)}
	read_trace
	check_packets
	same "event records that strata reports" "$(recorded)" "$wanted"
	same "events that babeltrace2 reads" "$(events)" "$wanted"
	same "discarded" "$(discarded)" 0
	complete "check_trace"
}

# done_well: strata and the command succeeded.
done_well() { same "exit status" "$status" 0; }

need babeltrace2 python3
[[ -x $strata ]] || fail "$strata is not there. Type: make build"
