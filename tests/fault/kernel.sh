# Shared by the tests of the kernel's layer under hostile conditions: sourced, behind lib.sh.
layers=()
is_root || skip "only root, or who has CAP_BPF and CAP_PERFMON, can record the kernel"
[[ -e /sys/kernel/btf/vmlinux ]] || skip "this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)"
[[ -e /sys/kernel/tracing/events ]] || mount -t tracefs nodev /sys/kernel/tracing 2>/dev/null
[[ -e /sys/kernel/tracing/events ]] || skip "tracefs is not mounted, and cannot be"
need setpriv taskset
# 450 events and more of Linux 6.18, not too many of type tp: those take 40 ms each to detach.
many='syscalls,sched_*,irq_*,timer_*,hrtimer_*,net*'

now_ms() { echo $((${EPOCHREALTIME/[^0-9]/} / 1000)); }

# ---- what recorders have in the kernel ----
# note_objects: what the recorder $tracer has there now, which stands still meanwhile; nothing if it has ended.
note_objects() {
	kill -s STOP "$tracer" 2>/dev/null || return
	python3 tests/kernel_objects.py "$tracer" 2>/dev/null | sed '/^$/d' >>"$scratch/objects"
}
# check_left WHAT NUMBER: so many objects that were noted, and more, have gone.
check_left() {
	(($(wc -l <"$scratch/objects") >= $2)) || fail "$1: only $(wc -l <"$scratch/objects") objects in the kernel"
	wait_for 60 nothing_left || fail "$1 leaves in the kernel: $(left | head -n 9)"
	ok "$1: of $(wc -l <"$scratch/objects") objects nothing stays in the kernel"
	: >"$scratch/objects"
}
left() { python3 tests/kernel_objects.py <"$scratch/objects" || echo "it is not known what"; }
nothing_left() { [[ -z $(left) ]]; }
