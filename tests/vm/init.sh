#!/bin/busybox sh
# The guest's first process: does what the test wants, and writes all that came of it to the disk, as a tar
# archive. Each command's output is in /out/NAME.out and .err, its exit status in /out/NAME.status.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/ TERM=dumb NO_COLOR=1
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

# run NAME COMMAND...: bounded; the host bounds the whole.
run() {
	name=$1
	shift
	echo "guest: $(cut -d ' ' -f 1 /proc/uptime) s: $name"
	timeout -s KILL 40 "$@" >"/out/$name.out" 2>"/out/$name.err"
	echo $? >"/out/$name.status"
	# It detaches in the background; what comes next is to have the machine to itself.
	for round in 1 2 3 4 5 6 7 8 9 10; do
		pgrep strata-detach >/dev/null || break
		sleep 1
	done
}

uname -r >/out/release
# Not what the manual's way would be: doctor is to say what there is to do.
run doctor_bare strata doctor
mount -t sysfs nodev /sys
mount -t tracefs nodev /sys/kernel/tracing
run doctor strata doctor
run doctor_json strata doctor --json
run list strata list -k --names
# The other programs: hot ones, generic ones with and without texts, one for an instruction, and with a filter.
others='kmem:kmalloc,kmem:kfree,kmem:mm_page_alloc,kmem:rss_stat,timer:hrtimer_start,timer:timer_start'
others="$others,exceptions:*,signal:*,sched:sched_process_exec,getppid,openat"
for mode in discard overwrite; do
	run "stress_$mode" /stress/stress "/stress/$mode.o" "$mode" 4096 4 2
	run "record_$mode" strata record -k 'sched_*,syscalls,irq_*' --mode "$mode" \
		-o "/out/trace_$mode" -- /bin/work
	run "others_$mode" strata record -k "$others" \
		--probe 'waits=uprobe:/lib/x86_64-linux-gnu/libc.so.6:waitpid(pid:s32)' \
		--filter 'context.tid != 99999' --mode "$mode" \
		-o "/out/others_$mode" -- /bin/work
done
run default strata record -o /out/trace_default -- /bin/work
echo "guest: bringing it out"
tar cf /dev/vda -C / out
sync
poweroff -f
