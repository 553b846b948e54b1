#!/bin/busybox sh
# The guest's first process: does what the test in /etc/test wants, and writes all that came of it to the disk,
# as a tar archive. Where systemd is the first process, it is started by it again, as the last service. Each command's output is in /out/NAME.out and .err, its exit status in /out/NAME.status.
export PATH=/bin HOME=/ TERM=dumb NO_COLOR=1
if [ $$ = 1 ]; then
	/bin/busybox --install -s /bin
	mount -t devtmpfs nodev /dev
	mount -t proc nodev /proc
	# Which one needs which differs between kernels: after three rounds all are there.
	for round in 1 2 3; do
		for module in /modules/*.ko; do
			insmod "$module" 2>/dev/null
		done
	done
	if [ ! -b /dev/vda ]; then
		echo "guest: no disk"
		poweroff -f
	fi
	[ ! -x /lib/systemd/systemd ] || exec /lib/systemd/systemd
fi

# run NAME COMMAND...: bounded; the host bounds the whole.
run() {
	name=$1
	shift
	echo "guest: $(cut -d ' ' -f 1 /proc/uptime) s: $name"
	timeout -s KILL 200 "$@" >"/out/$name.out" 2>"/out/$name.err"
	echo $? >"/out/$name.status"
	# It detaches in the background; what comes next is to have the machine to itself.
	for round in $(seq 60); do
		grep -qs strata-detach /proc/[0-9]*/comm || break
		sleep 1 # Time: between two looks.
	done
}

# recording NAME FLAG...: the trace is brought out, too.
recording() {
	folder=/out/trace_$1
	one=$1
	shift
	run "$one" strata record -o "$folder" "$@"
}

# is TEST: which one it is.
is() { [ "$(cat /etc/test)" = "$1" ]; }

# bring_out: all of it to the disk, and the end.
bring_out() {
	echo "guest: bringing it out"
	tar cf /dev/vda -C / out
	sync
	poweroff -f
}

# until_said FILE: strata has said that it records.
until_said() {
	for round in $(seq 80); do
		grep -qs '^strata: recording' "$1" && return
		sleep 1 # Time: between two looks.
	done
	return 1
}

# ---- a session that systemd keeps: its program and calls before, while and after it is killed ----

# web_is FIELD VALUE: systemd says so, or will.
web_is() {
	for round in $(seq 300); do
		[ "$(systemctl show --value -p "$1" strata-session@web)" = "$2" ] && return
		sleep 0.2 # Time: between two looks.
	done
	echo "$1 is $(systemctl show --value -p "$1" strata-session@web), wanted $2" >&2
	return 1
}

# web_says TEXT: its status has it, or will.
web_says() {
	for round in $(seq 300); do
		strata status web --json 2>/dev/null | grep -q "$1" && return
		sleep 0.2 # Time: between two looks.
	done
	echo "status without $1: $(strata status web --json 2>&1)" >&2
	return 1
}

web() {
	web_is ActiveState active && web_says '"state":"recording"' && strata status web --json >/out/web_status || return 1
	# In no file of a plan.
	strata enable-event -s web -u 'million:*' || return 1
	/bin/served || return 1
	STRATA_TEST_COUNTS=/out/ticker.counts ticker run 20 >/dev/null &
	web_says '"processes":1' || return 1
	main=$(systemctl show --value -p MainPID strata-session@web)
	# What is recorded from here on is in the buffers when it is killed.
	kill -STOP "$main" && /bin/served || return 1
	kill -TERM $!
	wait $! || return 1
	kill -KILL "$main"
	web_is NRestarts 1 && web_is ActiveState active && web_says '"state":"recording"' || return 1
	/bin/served && million 10 || return 1
	strata status web --json >/out/web_again
	systemctl stop strata-session@web || return 1
	web_is ActiveState inactive || return 1
	systemctl show -p Result -p ExecMainStatus -p NRestarts strata-session@web >/out/web_show
	grep -l strata-fdstore /proc/[0-9]*/comm >/out/web_left
	ls -A /run/strata-sessions >>/out/web_left
	cp -r /var/lib/strata/strata-trace-* /out/web_traces
}

uname -r >/out/release
# ---- the ring in a kernel module ----
records=200000

# Both CPUs write, each 16th record is interrupted, timers interrupt, and each switch is a record.
module_load() {
	echo 'timer 200' >"$1" && echo 'events 1' >"$1" || return 1
	taskset 1 sh -c "echo load $records >$1" &
	taskset 2 sh -c "echo load $records >$1" &
	wait
	echo 'events 0' >"$1" && echo 'timer 0' >"$1"
}

# They begin when it reads, and it ends when they have.
module_read() {
	{
		until grep -qs ready "/out/read_$mode.out"; do
			sleep 0.1 # Time: between two looks.
		done
		module_load "$1"
	} | module "$1"
}

# It leaves, or writes nonsense to what it has mapped, while records are written.
module_hostile() {
	module_load "$1" &
	module "$1" wrong && scribble "$1" || return 1
	wait $!
	echo 'load 1000' >"$1"
}

if is module; then
	insmod /ring/strata_ring.ko subbuf_bytes=100 2>/out/refused.err
	echo $? >/out/refused.status
	insmod /ring/strata_ring.ko || poweroff -f
	ls -l /dev/strata-ring-* >/out/devices
	su plain -s /bin/sh -c 'cat /dev/strata-ring-discard' >/out/plain.out 2>/out/plain.err
	echo $? >/out/plain.status
	for mode in discard overwrite; do
		device=/dev/strata-ring-$mode
		module_read $device >"/out/read_$mode.out" 2>"/out/read_$mode.err"
		echo $? >"/out/read_$mode.status"
		cat $device >"/out/status_$mode"
	done
	for turn in 1 2 3 4 5; do
		echo 'bench 20000' >/dev/strata-ring-discard
		echo $? >/out/bench.status
		grep ^cost /dev/strata-ring-discard >>/out/costs
	done
	# The memory stays while it is mapped, or open.
	exec 3</dev/strata-ring-discard
	rmmod strata_ring 2>/out/busy.err
	echo $? >/out/busy.status
	exec 3<&-
	for mode in discard overwrite; do
		module_hostile /dev/strata-ring-$mode >"/out/hostile_$mode.out" 2>"/out/hostile_$mode.err"
		echo $? >"/out/hostile_$mode.status"
	done
	rmmod strata_ring 2>/out/unload.err
	echo $? >/out/unload.status
	grep -c strata_ring /proc/modules >/out/left
	bring_out
fi
# ---- AArch64: a program of Debian's and work.c, recorded in every way ----
if is arm64; then
	mount -t sysfs nodev /sys
	mount -t tracefs nodev /sys/kernel/tracing
	run doctor strata doctor
	# The linker's files are in memory, so that nothing is read at the exit only.
	run ls_before ls /etc
	run strace /usr/bin/strace -f -o /out/ls.strace ls /etc
	recording ls -k 'syscalls,sched_switch' -- ls /etc
	for mode in discard overwrite; do
		recording "work_$mode" -k 'sched_*,syscalls,irq_*' --mode "$mode" -- work
	done
	libc=/lib/aarch64-linux-gnu/libc.so.6
	recording probes -k sched_waking --stack --probe "opens=uprobe:$libc:open(path:str, flags:s32)" \
		--probe "opened=uretprobe:$libc:open(fd:s32)" -- work
	run background strata record --background always --snapshot -k getppid
	run some_work work
	run snapshot strata snapshot always -o /out/trace_snapshot
	run destroy strata destroy always
	run analyze strata analyze syscalls /out/trace_snapshot
	recording default -- work
	bring_out
fi
# ---- the boot, which systemd has done so far ----
if is boot; then
	until [ "$(grep -c getppid /out/spin.out)" = 12 ]; do
		sleep 0.2 # Time: between two looks.
	done
	run status strata status boot --json
	# That of the first process, which was strata.
	run early_destroy strata destroy early --json
	# A CPU goes and comes while the session records.
	echo 0 >/sys/devices/system/cpu/cpu1/online && run off taskset 1 /bin/work &&
		run status_off strata status boot --json &&
		echo 1 >/sys/devices/system/cpu/cpu1/online && run on taskset 2 /bin/work
	run destroy strata destroy boot --json
	mkdir /out/web_traces
	web >/out/web.out 2>/out/web.err
	echo $? >/out/web.status
	# Timers of CPUs that come: one that is offline at the begin, comes, goes, and comes again.
	echo 0 >/sys/devices/system/cpu/cpu1/online
	strata record -k getppid --sample 50 -o /out/trace_sample 2>/out/sample.err &
	until_said /out/sample.err
	for round in 1 2; do
		echo 1 >/sys/devices/system/cpu/cpu1/online
		sleep 2 # Time: longer than it is looked for CPUs that come, also where the machine stood still for half a second.
		# Time: what is sampled takes CPU time, of which an emulated machine gives any amount.
		taskset 2 timeout 1 sh -c 'while :; do :; done'
		run "sample_$round" taskset 2 /bin/work
		echo 0 >/sys/devices/system/cpu/cpu1/online
	done
	kill -TERM $!
	wait $!
	echo $? >/out/sample.status
	# A CPU that the machine did not have when the recording began: of the kernel and of an application.
	ls -d /sys/devices/system/cpu/cpu2 >/out/cpu2_before 2>&1
	strata record -k getppid -u 'million:*' --sample 50 -o /out/trace_added 2>/out/added.err &
	until_said /out/added.err
	echo "guest: wants a CPU"
	for round in $(seq 300); do
		[ ! -e /sys/devices/system/cpu/cpu2/online ] || break
		sleep 0.2 # Time: between two looks.
	done
	[ "$(cat /sys/devices/system/cpu/cpu2/online)" = 1 ] || echo 1 >/sys/devices/system/cpu/cpu2/online
	sleep 2 # Time: longer than it is looked for CPUs that come, also where the machine stood still for half a second.
	run added_million taskset 4 /bin/million 1000
	run added_work taskset 4 /bin/work
	# Time: as above.
	taskset 4 timeout 1 sh -c 'while :; do :; done'
	kill -TERM $!
	wait $!
	echo $? >/out/added.status
	cp -r /var/lib/strata/boot/* /out/trace_boot
	cp -r /var/lib/strata/early/* /out/trace_early
	dmesg >/out/dmesg
	bring_out
fi
# ---- handed over to the host's recorder ----
if is guests || is killed; then
	hostname "$(cat /etc/test)"
	mount -t sysfs nodev /sys
	mount -t tracefs nodev /sys/kernel/tracing
	for port in /sys/class/virtio-ports/*; do
		[ "$(cat "$port/name")" = strata ] && device=/dev/${port##*/}
		[ "$(cat "$port/name")" = second ] && second=/dev/${port##*/}
		[ "$(cat "$port/name")" = go ] && go=/dev/${port##*/}
	done
	# It is killed by its host.
	is killed && run killed strata record -k getppid -u 'panic:*' --flush 200ms --relay "$device" \
		-- /bin/panic "$go" 100 waits
	# Another recorder has a port of its own. What its own kernel calls its functions is known here only.
	strata record -k sched_process_exit --relay "$second" >/out/second.out 2>/out/second.err &
	until_said /out/second.err && run busy strata record -k getppid --relay "$second" -- true
	grep -E ' [tT] (__x64_sys_clock_nanosleep|do_syscall_64|__x64_sys_pwrite64)$' /proc/kallsyms >/out/kallsyms
	run relay strata record --stack -k getppid,pwrite64,sched_switch -u 'requests:*' --libc io --flush 200ms \
		--relay "$device" -- /bin/requests 200 /dev/vda
	kill -TERM %1
	wait %1
	echo $? >/out/second.status
	tar cf /dev/vda -C / out
	sync
	# It does not come back.
	run panic strata record -k getppid --flush 200ms --relay "$device" -- /bin/panic "$go" 100
	cat /out/panic.err
	poweroff -f
fi
# Not what the manual's way would be: doctor is to say what there is to do.
is kernel && run doctor_bare strata doctor
mount -t sysfs nodev /sys
mount -t tracefs nodev /sys/kernel/tracing
run doctor strata doctor
if is kernel; then
	run doctor_json strata doctor --json
	run list strata list -k --names
fi
# The other programs: hot ones, generic ones with and without texts, one for an instruction, and with a filter.
others='kmem:kmalloc,kmem:kfree,kmem:mm_page_alloc,kmem:rss_stat,timer:hrtimer_start,timer:timer_start'
others="$others,exceptions:*,signal:*,sched:sched_process_exec,getppid,openat"
# One of each test that is made early.
everybody='context.tid != 99999 && context.comm != "nobody" && cpu < 64 && context.cgroup != 99999'
# Texts of each kind, and more of them than a verifier can look at along each way through the others.
libc=/lib/x86_64-linux-gnu/libc.so.6
texts="texts=uprobe:$libc:waitpid(pid:str, status:u64, sized:str(status), four:str(4), a:str, b:str)"
for mode in discard overwrite; do
	run "stress_$mode" /stress/stress "/stress/$mode.o" "$mode" 4096 4 2
	recording "record_$mode" -k 'sched_*,syscalls,irq_*' --mode "$mode" -- /bin/work
	recording "others_$mode" -k "$others" \
		--probe "waits=uprobe:$libc:waitpid(pid:s32)" --probe "$texts" \
		--kernel-context perf:cpu:page-faults,perf:cpu:cpu-clock --filter "$everybody" --mode "$mode" -- /bin/work
done
recording default -- /bin/work

# ---- CPUs that come and go ----

# cpu 0|1: the second CPU is offline, online.
cpu() { echo "$1" >/sys/devices/system/cpu/cpu1/online; }

# Begins while there is one; then it comes, works, goes, and comes again.
cpus() {
	cpu 0 || return 1
	strata record -k 'sched_switch,getppid' --kernel-context perf:cpu:context-switches -o /out/trace_cpus &
	for round in $(seq 80); do
		grep -qs '^strata: recording' /out/cpus.err && break
		sleep 1 # Time: between two looks.
	done
	# What comes is counted some time later.
	cpu 1 && taskset 2 /bin/work && sleep 2 && # Time: longer than it is looked for CPUs that come.
		cpu 0 && taskset 1 /bin/work && cpu 1 && taskset 2 /bin/work && sleep 2 || # Time: as above.
		return 1
	kill -TERM $!
	wait $!
}

# ---- vsock: it is its own host and its own guest, with the number 1 ----

# No other machine is let in where one is waited for.
by_vsock() {
	strata record --no-kernel -u 'none:*' -o /out/trace_vsock --guest inner=vsock:1:9000 --guest other=vsock:3:9001 \
		>/out/vsock_host.out 2>/out/vsock_host.err &
	until_said /out/vsock_host.err || return 1
	# Time: it waits to be let in for as long as nobody ends it.
	timeout 10 strata record --no-kernel --relay vsock:1:9001 -- /bin/million 10 >/out/vsock_other.out 2>&1
	strata record -k getppid --relay vsock:1:9000 -- /bin/work || return 1
	kill -TERM %1
	wait %1
	echo $? >/out/vsock_host.status
}

# ---- what an administrator may have restricted ----

plain() {
	name=$1
	shift
	run "$name" su plain -s /bin/sh -c "$*"
}
kernel_record='strata record -k sched_switch,getppid,kmem:kfree'
user_record='strata record -- /bin/million 1000'

restricted() {
	cd /tmp && chmod 777 /tmp || return
	plain plain_doctor strata doctor
	plain plain_record "$kernel_record" -- /bin/work
	plain plain_user "$user_record"
	echo 3 >/proc/sys/kernel/perf_event_paranoid
	echo 1 >/proc/sys/kernel/unprivileged_bpf_disabled
	run paranoid_record $kernel_record -- /bin/work
	mkdir nothing
	mount -o bind nothing /sys/kernel/btf
	run no_btf_doctor strata doctor
	run no_btf_record $kernel_record -- /bin/work
	run no_btf_user $user_record
	umount /sys/kernel/btf
	umount /sys/kernel/tracing
	run no_tracefs_doctor strata doctor
	run no_tracefs_record $kernel_record -- /bin/work
	mount -t tracefs nodev /sys/kernel/tracing
	# From here on there is no way back.
	mount -t securityfs nodev /sys/kernel/security
	for mode in integrity confidentiality; do
		echo $mode >/sys/kernel/security/lockdown
		run "${mode}_doctor" strata doctor
		run "${mode}_record" $kernel_record -- /bin/work
		run "${mode}_user" $user_record
	done
	umount /sys/kernel/security
	run unmounted_doctor strata doctor
}

if is kernel; then
	cpus >/out/cpus.out 2>/out/cpus.err
	echo $? >/out/cpus.status
	by_vsock >/out/vsock.out 2>/out/vsock.err
	echo $? >/out/vsock.status
	restricted
fi
bring_out
