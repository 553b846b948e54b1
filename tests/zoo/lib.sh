# Sourced by programs of the zoo that are shell scripts; they run in an empty folder of their own.
set -u

# truth WORD...: what the program knows of itself, see the comment of tests/zoo/run.
truth() { echo "$*" >>"$ZOO_TRUTH"; }

# free_port: a number of a TCP port of 127.0.0.1 that nobody listens on.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# until_true COMMAND...: tries it again until it succeeds, for 30 s at most.
until_true() {
	local i
	for ((i = 0; i < 600; i++)); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.05
	done
	echo "not within 30 s: $*"
	exit 1
}

# listens PORT: somebody listens on this TCP port of 127.0.0.1.
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# built NAME COMMAND...: what the command makes of sources of the zoo is made once, into $ZOO_ROOT/build/zoo/NAME, before
# it is recorded; COMMAND finds its place in $to.
built() {
	export to=$ZOO_ROOT/build/zoo/$1
	[[ -e $to ]] || { mkdir -p "$ZOO_ROOT/build/zoo" && "${@:2}" >&2; } || exit 1
}
