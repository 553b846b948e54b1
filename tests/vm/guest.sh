# Sourced by the tests that boot a kernel in a virtual machine, with $kernel its folder (fetch.sh): what the guest
# is made of, running it, and checking what came out.
#
# The machine is emulated (QEMU's TCG): nothing of the host's rights or devices is needed. What is done in it
# is in init.sh, by the name of the test.
release=$(cat "$kernel/release")
STARTED=()

# Seconds until QEMU is ended. On a busy machine it needs some times as long as on a quiet one.
readonly LIMIT=${STRATA_VM_LIMIT:-800}
parts=$root/build/tests/vm
guest=$scratch/guest
out=$scratch/out
mkdir -p "$parts" "$guest"/{bin,dev,proc,sys,tmp,etc,run,out,stress,modules}

# ---- what runs in it ----

# for_guest FILE PLACE: with the libraries that it needs, at their places.
for_guest() {
	strip -o "$guest/$2" "$1" || fail "cannot copy $1"
	ldd "$1" 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
		[[ -e $guest$library ]] || (cd / && cp -L --parents "${library#/}" "$guest") || exit 1
	done || fail "cannot copy the libraries of $1"
}

compile() {
	local include=(-Iring/include -Iabi/include) mode plain=(-std=gnu11 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE)
	for mode in discard overwrite; do
		clang -O2 -g -target bpf -D__TARGET_ARCH_x86 -mcpu=v3 -ffreestanding "${include[@]}" \
			-I"/usr/include/$(gcc -print-multiarch)" "-DSTRESS_LOSS_MODE=STRATA_RING_${mode^^}" \
			-c ring/check/bpf/stress.bpf.c -o "$parts/$mode.o" || return 1
	done
	gcc "${plain[@]}" "${include[@]}" ring/check/bpf/stress.c -o "$parts/stress" -lbpf -pthread || return 1
	gcc "${plain[@]}" tests/vm/work.c -o "$parts/work" && gcc "${plain[@]}" tests/vm/tsc.c -o "$parts/tsc"
}

# base_guest: what each of them has.
base_guest() {
	cp tests/vm/init.sh "$guest/init" && chmod 755 "$guest/init"
	echo "$name" >"$guest/etc/test"
	cp "$kernel"/modules/*.ko "$guest/modules" 2>/dev/null
	for_guest "$(command -v busybox)" bin/busybox
}

pack_guest() {
	(cd "$guest" && find . | busybox cpio -o -H newc 2>/dev/null) >"$scratch/initrd" ||
		fail "the guest's files cannot be put into one"
}

# make_guest: everything for it, as $scratch/initrd: not packed, which the emulated kernel would take seconds to undo.
make_guest() {
	# Two tests may build at the same time.
	(flock 9 && compile) 9>"$parts/.lock" || fail "what runs in the guest cannot be built"
	program million-static
	base_guest
	cp "$parts"/{discard,overwrite}.o "$guest/stress"
	for_guest "$parts/stress" stress/stress
	for_guest "$parts/work" bin/work
	for_guest "$built/million-static" bin/million
	# One file, if it is built.
	local one=$strata
	[[ ! $one-static -nt $one ]] || one=$one-static
	for_guest "$one" bin/strata
	echo work >"$guest/etc/workload"
	printf '%s\n' 'root:x:0:0::/:/bin/sh' 'plain:x:1000:1000::/tmp:/bin/sh' >"$guest/etc/passwd"
	if declare -F make_more >/dev/null; then
		make_more
	fi
	pack_guest
}

# ---- run it ----

# thread=single: with a thread for each CPU, QEMU 7.2 on a busy host can go on executing its translation of an int3
# that a CPU has since overwritten (tracepoints are switched on so), and the guest never leaves that instruction.
# The CPUs still interrupt each other anywhere. -cx16: Debian's 6.1 fails under QEMU 7.2 with it. tsc=reliable:
# else two CPUs fall back to a slow clock. loglevel: where a CPU stands still is said.
# tsc_early_khz: the guest's counter is the host's. Left to measure it by emulated timers, on a busy host a guest
# finds it much too slow, its clock runs ahead, and it takes its CPUs for locked up.
# no5lvl init_on_alloc=0: together a tenth of the emulator's work. Page tables of five levels, and memory that the kernel
# clears when it is given out, are not tested so.
arguments() { echo "console=ttyS0 panic=-1 loglevel=5 no_timer_check tsc=reliable tsc_early_khz=$("$parts/tsc") no5lvl init_on_alloc=0"; }

# FLAG...: of QEMU, besides. STARTED: what starts it. APPEND: of the kernel's command line, besides.
machine() {
	truncate -s 0 "$scratch/disk" && truncate -s 256M "$scratch/disk"
	"${STARTED[@]}" timeout -k 5 "$LIMIT" qemu-system-x86_64 -nodefaults -display none -no-reboot -M q35 -m 768 -smp 2 \
		-accel tcg,thread=single -cpu max,-cx16 -kernel "$kernel/vmlinuz" -initrd "$scratch/initrd" \
		-drive "file=$scratch/disk,format=raw,if=virtio" -serial stdio \
		-append "$(arguments) ${APPEND-}" \
		"$@" </dev/null >"$scratch/console" 2>&1
	status=$?
}
console() { tail -n 60 "$scratch/console" | tr -d '\r' | cut -c 1-300; }

# run_guest: what it wrote is in $out.
run_guest() {
	local begin_s=$SECONDS
	machine "$@"
	# An emulated CPU that the host does not run for 20 s looks locked up to the guest, or to its RCU stalled; once more, then.
	if ((status == 124 || status == 137)) || grep -qE 'soft lockup|rcu: INFO: .*detected .*stall' "$scratch/console"; then
		echo "the first machine did not end in $LIMIT s, or one of its CPUs stood still: $(tail -n 3 "$scratch/console" | tr -d '\r' | cut -c 1-200)"
		machine "$@"
	fi
	((status != 124 && status != 137)) || fail "the guest has not ended after $LIMIT s: $(console)"
	((status == 0)) || fail "QEMU: exit status $status: $(console)"
	tar xf "$scratch/disk" -C "$scratch" 2>"$scratch/tar.err" && [[ -e $out/release ]] ||
		fail "nothing came out of the guest: $(cat "$scratch/tar.err"; console)"
	echo "kernel $(cat "$out/release") ran for $((SECONDS - begin_s)) s"
	same "the guest's kernel" "$(cat "$out/release")" "$release"
	# As the test wants it to end.
	[[ -z ${PANICS-} ]] || sed -i '/sysrq: Trigger a crash/,$d' "$scratch/console"
	! grep -qE 'BUG:|WARNING:|Oops|Call Trace|Kernel panic' "$scratch/console" ||
		fail "the guest's kernel complains: $(grep -A 12 -E 'BUG:|WARNING:|Oops|Call Trace|panic' "$scratch/console" | head -n 20)"
}

# exits NAME STATUS: the guest's command NAME ended so.
exits() {
	local found
	found=$(cat "$out/$1.status" 2>/dev/null)
	[[ $found == "$2" ]] || fail "$1 in the guest: exit status '$found', wanted $2:
$(head -c 1500 "$out/$1.err" "$out/$1.out" 2>/dev/null)"
}

# finds NAME TEXT: the guest's command NAME said it.
finds() {
	grep -qF -- "$2" "$out/$1.out" "$out/$1.err" ||
		fail "$1 in the guest does not say '$2': $(head -c 1500 "$out/$1.out" "$out/$1.err")"
}

# the_trace NAME: of the guest's command NAME, read; as many event records as it said.
the_trace() {
	new_trace
	trace=$out/trace_$1 talk=$out/$1.err
	read_trace '^WARNING: Tracer discarded [0-9]+ events? '
	only_within_programs
	check_packets
	same "$1: event records" "$(events)" "$(recorded)"
}

# has NUMBER PATTERN: so many lines of the trace match.
has() {
	local found
	found=$(grep -cE -- "$2" "$text")
	[[ $found == "$1" ]] || fail "$trace: found $found of $2, wanted $1"
}
some() { grep -qE -- "$1" "$text" || fail "$trace: none of $1: $(head -n 5 "$text")"; }

# ---- the ring's headers on this kernel's verifier, under interrupts ----
check_stress() {
	local mode made
	for mode in discard overwrite; do
		exits "stress_$mode" 0
		cat "$out/stress_$mode.out"
		grep -q ' 0 wrong, 0 back in time' "$out/stress_$mode.out" || fail "stress: damaged records"
		made=$(sed -n 's/.*: *\([0-9]*\) calls = .*/\1/p' "$out/stress_$mode.out")
		((made > 1000)) || fail "stress, $mode: only '$made' calls"
	done
	ok "stress in BPF, both modes"
}

# ---- recordings: what work.c says that it did, and what each kind of program records ----
check_recordings() {
	local mode call amount event
	for mode in discard overwrite; do
		exits "record_$mode" 0
		the_trace "record_$mode"
		same "$mode: discarded" "$(discarded)" 0
		same "$mode: overwritten" "$(overwritten)" 0
		# What work.c says that it did, at entry and at exit.
		while read -r call amount; do
			case $call in
			getppid) has "$amount" ' syscall_entry_getppid: ' && has "$amount" ' syscall_exit_getppid: ' ;;
			open) has "$amount" ' syscall_entry_openat: .*filename = "/etc/workload"' ;;
			sleep) has "$amount" ' syscall_exit_clock_nanosleep: .* ret = 0' ;;
			fork) has "$((amount + 1))" ' syscall_entry_exit_group: ' && some ' sched_process_fork: .*child_comm = "work"' ;;
			esac
		done <"$out/record_$mode.out"
		has 1 ' syscall_entry_openat: .*filename = "/etc/not-there"'
		has 0 ' syscall_entry_unknown: '
		some ' syscall_exit_openat: .* ret = -2'
		some ' sched_switch: .*next_comm = "work"'
		some ' irq_softirq_entry: .* vec = '
		timeout 60 "$strata" stats "$trace" >"$scratch/stats" 2>"$scratch/stats.err" ||
			fail "stats: $(cat "$scratch/stats.err")"
		grep -q sched_switch "$scratch/stats" || fail "stats shows no sched_switch: $(head "$scratch/stats")"
		[[ ! -s $scratch/stats.err ]] || fail "stats: $(cat "$scratch/stats.err")"
		ok "$mode: $(events) event records, as many as there should be"

		# The other programs. What the kernel refuses would be said.
		exits "others_$mode" 0
		! grep -qF ': not recorded: ' "$out/"{record,others}_"$mode.err" ||
			fail "$mode: refused programs: $(cat "$out/"{record,others}_"$mode.err")"
		the_trace "others_$mode"
		has 5 ' waits: .* pid = [1-9]'
		has 5 ' texts: .*four = "0x[0-9a-f]+"'
		has "$(sed -n 's/^getppid //p' "$out/others_$mode.out")" ' syscall_exit_getppid: '
		some ' sched_process_exec: .*filename = "/bin/work"'
		some ' kmem_kmalloc: .*perf_cpu_page_faults = [1-9][0-9]*, perf_cpu_cpu_clock = [1-9]'
		! grep -qF 'could not be read and recorded as 0' "$out/others_$mode.err" ||
			fail "$mode: counters: $(cat "$out/others_$mode.err")"
		for event in kmem_kmalloc kmem_kfree kmem_mm_page_alloc timer_hrtimer_start timer_start \
			x86_exceptions_page_fault_user; do
			some " $event: "
		done
		ok "$mode: generic, hot and user-space programs, each with a filter"
	done

	exits default 0
	! grep -qF 'not recorded' "$out/default.err" || fail "default: $(cat "$out/default.err")"
	the_trace default
	has "$(sed -n 's/^getppid //p' "$out/default.out")" ' syscall_exit_getppid: '
	for event in sched_switch sched_waking sched_wakeup sched_process_fork sched_process_exit signal_generate \
		irq_softirq_entry x86_exceptions_page_fault_user; do
		some " $event: "
	done
	ok "default: $(events) event records of the kernel"
}
