# Sourced by the tests of what a user may do to root's recorder: a program that attacks, and an honest one.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
program attack_user ticker-static
install -m 755 "$built/attack_user" "$scratch/attack_user"
install -m 755 "$built/ticker-static" "$scratch/ticker"

# attack WAY...: the attacker in the background, as process $begun, which has done it; what it said is in $hello.
attack() {
	begin "${as_mallory[@]}" "$scratch/attack_user" "$@"
	hello=${hellos[$begun]}
}

# stop_tracer: it does nothing more, until it gets SIGCONT.
is_stopped() { [[ $(sed 's/.*) //' "/proc/$1/stat" | cut -c 1) == T ]]; }
stop_tracer() {
	kill -s STOP "$tracer"
	wait_for 60 is_stopped "$tracer" || fail "strata does not stop"
}

# is_recorded NAME PID: records of this process are in the trace.
is_recorded() { [[ -s $trace/user/$1-$2/metadata ]]; }

# honest: a program of another user that begins now is recorded within the time of the test.
honest() {
	begin "${as_alice[@]}" "$scratch/ticker" wait 100
	wait_for "$1" is_recorded ticker "$begun" || fail "$2: an honest program of another user is not recorded"
}

# now_ms: milliseconds in which others got the CPU as well (tests/programs/beat.c). It ends with this namespace.
program beat
"$built/beat" >"$scratch/beats" &
disown
now_ms() { echo $(($(stat -c %s "$scratch/beats") * 10)); }
