//! Findings on clock, memory, processors and limits, which both layers need.

use super::files::{text, version};
use super::finding::{ExaminedMachine, Finding};
use rustix::fs::{fcntl_add_seals, memfd_create, MemfdFlags, SealFlags};
use rustix::process::{getrlimit, Resource};

/// The first kernel version that does not count memory of BPF as locked.
const NO_MEMLOCK: (u32, u32) = (5, 11);

/// Number of descriptors of an event with a program of its own: the program, its link, the perf event.
const FDS_PER_EVENT: u64 = 3;

pub(super) fn findings(machine: &ExaminedMachine<'_>) -> Vec<Finding> {
    let mut all = vec![clock(machine), rseq(), memory_files(), cpus(machine)];
    all.extend(locked(machine, getrlimit(Resource::Memlock).maximum));
    all.push(open_files(getrlimit(Resource::Nofile).maximum));
    all
}

pub(super) fn clock(machine: &ExaminedMachine<'_>) -> Finding {
    const WHAT: &str = "clock";
    const PATH: &str = "sys/devices/system/clocksource/clocksource0";
    match text(machine.root, &format!("{PATH}/current_clocksource")).as_deref() {
        // Those that user space reads without a system call.
        Some(name @ ("tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page" | "arch_sys_counter")) => {
            Finding::good(WHAT, format!("{name}, read without a system call"))
        }
        Some(name) => Finding::limited(
            WHAT,
            format!("{name}: each event record costs about a microsecond more"),
            remedy_for_clock(
                &text(machine.root, &format!("{PATH}/available_clocksource")).unwrap_or_default(),
            ),
        ),
        None => Finding::limited(
            WHAT,
            "the kernel does not say which one it uses",
            "mount -t sysfs nodev /sys",
        ),
    }
}

fn remedy_for_clock(available: &str) -> String {
    match available.split_whitespace().any(|name| name == "tsc") {
        true => "echo tsc >/sys/devices/system/clocksource/clocksource0/current_clocksource".into(),
        false => "Boot with tsc=reliable, if the processors' counters are known to agree".into(),
    }
}

/// Checks whether restartable sequences exist: with them, the user-space layer writes without atomic operations.
fn rseq() -> Finding {
    const WHAT: &str = "restartable sequences";
    // SAFETY: without memory to register, the kernel refuses; ENOSYS: it does not know the call.
    let refused = unsafe { libc::syscall(libc::SYS_rseq, 0usize, 0u32, 0i32, 0u32) };
    let error = std::io::Error::last_os_error();
    if refused < 0 && error.raw_os_error() == Some(libc::ENOSYS) {
        return Finding::limited(
            WHAT,
            "not in this kernel, or forbidden: user-space event records cost a few nanoseconds more",
            "Boot a kernel built with CONFIG_RSEQ=y, or allow rseq() in the container's seccomp profile",
        );
    }
    Finding::good(WHAT, "available")
}

/// Checks whether the kernel supports sealed memory files (memfd), which hold the buffers of programs.
fn memory_files() -> Finding {
    const WHAT: &str = "files in memory";
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let sealed = memfd_create("strata-doctor", flags)
        .and_then(|fd| fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW));
    match sealed {
        Ok(()) => Finding::good(WHAT, "can be made and sealed"),
        Err(error) => Finding::missing(
            WHAT,
            format!("memfd_create and seals: {error}; user space cannot be recorded"),
            "Boot a kernel built with CONFIG_MEMFD_CREATE=y, or allow it in the seccomp profile",
        ),
    }
}

/// Returns the number of CPUs in a list such as "0-3,8".
pub(super) fn count(list: &str) -> Option<u64> {
    let mut sum = 0;
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        sum += last.checked_sub(first)? + 1;
    }
    Some(sum)
}

pub(super) fn cpus(machine: &ExaminedMachine<'_>) -> Finding {
    const WHAT: &str = "CPUs";
    let list = |which| text(machine.root, &format!("sys/devices/system/cpu/{which}"));
    let (possible, online) = (list("possible"), list("online"));
    let numbers = possible.as_deref().and_then(count).zip(online.as_deref().and_then(count));
    match numbers {
        Some((possible, online)) if possible > online.saturating_mul(4) => Finding::limited(
            WHAT,
            format!(
                "{online} online, {possible} possible: each possible one has buffers of its own"
            ),
            format!("Use smaller buffers (--subbuf-size), or boot with possible_cpus={online}"),
        ),
        Some((possible, online)) => {
            Finding::good(WHAT, format!("{online} online, {possible} possible"))
        }
        None => Finding::limited(
            WHAT,
            "the kernel does not say which it has",
            "mount -t sysfs nodev /sys",
        ),
    }
}

/// Checks the limit on locked memory, which matters on old kernels only.
pub(super) fn locked(machine: &ExaminedMachine<'_>, limit: Option<u64>) -> Option<Finding> {
    const WHAT: &str = "locked memory";
    if version(&machine.release).is_none_or(|version| version >= NO_MEMLOCK) {
        return None;
    }
    Some(match limit {
        None => Finding::good(WHAT, "not limited"),
        Some(bytes) => Finding::limited(
            WHAT,
            format!("at most {} KiB, and this kernel counts the buffers", bytes / 1024),
            "ulimit -l unlimited",
        ),
    })
}

pub(super) fn open_files(limit: Option<u64>) -> Finding {
    const WHAT: &str = "open files";
    const EVENTS: u64 = 1000;
    match limit.map(|limit| limit / FDS_PER_EVENT) {
        None => Finding::good(WHAT, "not limited"),
        Some(events) if events >= EVENTS => {
            Finding::good(WHAT, format!("enough for about {events} kinds of events at once"))
        }
        Some(events) => Finding::limited(
            WHAT,
            format!("enough for about {events} kinds of events at once"),
            "ulimit -Hn 1048576, as root",
        ),
    }
}
