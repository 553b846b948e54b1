//! Findings from files in which the kernel describes itself.

use super::finding::{ExaminedMachine, Finding};
use crate::arch;
use crate::discover::syscalls;
use crate::discover::tracefs::{is_name, Tracefs};
use crate::processes::pid_namespace::is_first_namespace_of;
use crate::Error;
use std::fs;
use std::io;
use std::path::Path;

/// Oldest kernel on which the BPF programs run: major and minor version.
const OLDEST: (u32, u32) = (5, 15);

const WITHOUT: &str = "user space can be recorded without it";

/// Reads a file below `root`, and returns its text without surrounding whitespace.
pub(super) fn text(root: &Path, path: &str) -> Option<String> {
    fs::read_to_string(root.join(path)).ok().map(|text| text.trim().to_owned())
}

/// Reads a file below `root` that has one number.
pub(super) fn number(root: &Path, path: &str) -> Option<i64> {
    text(root, path)?.parse().ok()
}

/// Parses major and minor number: "6.1.0-56-cloud-amd64" is (6, 1).
pub(super) fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Checks whether this kernel can be recorded at all.
pub(super) fn kernel(machine: &ExaminedMachine<'_>) -> Vec<Finding> {
    vec![architecture(machine), release(machine), btf(machine)]
}

fn architecture(machine: &ExaminedMachine<'_>) -> Finding {
    const WHAT: &str = "machine";
    let found = &machine.machine;
    if arch::ALL.iter().any(|known| known.name == found) {
        return Finding::good(WHAT, found.as_str());
    }
    Finding::missing(
        WHAT,
        format!("{found}; kernel events are recorded on x86_64 and aarch64 only so far"),
        format!("Leave --kernel out: {WITHOUT}"),
    )
}

fn release(machine: &ExaminedMachine<'_>) -> Finding {
    const WHAT: &str = "kernel";
    let found = &machine.release;
    match version(found) {
        Some(version) if version >= OLDEST => Finding::good(WHAT, found.as_str()),
        Some(_) => Finding::missing(
            WHAT,
            format!(
                "{found} is older than {}.{}, the oldest with kernel events",
                OLDEST.0, OLDEST.1
            ),
            format!("Boot a newer kernel; {WITHOUT}"),
        ),
        None => Finding::limited(
            WHAT,
            format!("'{found}' does not begin with a version"),
            format!("Make sure that it is {}.{} or later", OLDEST.0, OLDEST.1),
        ),
    }
}

fn btf(machine: &ExaminedMachine<'_>) -> Finding {
    const WHAT: &str = "type information";
    const PATH: &str = "sys/kernel/btf/vmlinux";
    match fs::metadata(machine.root.join(PATH)) {
        Ok(found) => Finding::good(WHAT, format!("/{PATH}, {} KiB", found.len() / 1024)),
        Err(error) => Finding::missing(
            WHAT,
            format!("/{PATH}: {error}; programs are fitted to the kernel by it"),
            match machine.root.join("sys/kernel").exists() {
                true => "Boot a kernel built with CONFIG_DEBUG_INFO_BTF=y",
                false => "mount -t sysfs nodev /sys",
            },
        ),
    }
}

/// Checks whether tracefs, in which the kernel describes its events, can be read.
pub(super) fn tracing(machine: &ExaminedMachine<'_>) -> Vec<Finding> {
    const WHAT: &str = "tracefs";
    let (place, error) = match find_tracefs(machine.root) {
        Ok(tracefs) => {
            let place = match tracefs.root() {
                Some(root) => root.display().to_string(),
                None => "mounted nowhere here; strata mounts it for itself alone".to_owned(),
            };
            let mut all = vec![Finding::good(WHAT, place)];
            all.extend(events(&tracefs));
            return all;
        }
        Err(refused) => refused,
    };
    let finding = match error.raw_os_error() {
        Some(libc::ENOENT) => Finding::missing(
            WHAT,
            "mounted neither at /sys/kernel/tracing nor at /sys/kernel/debug/tracing; only root can mount it",
            match is_first_namespace_of(machine.root) {
                true => "Run as root, or: mount -t tracefs nodev /sys/kernel/tracing",
                false => "Start the container with -v /sys/kernel/tracing:/sys/kernel/tracing:ro",
            },
        ),
        Some(libc::EPERM) => Finding::missing(
            WHAT,
            format!("{place}/available_events: {error}; lockdown 'confidentiality' refuses it"),
            "Boot with lockdown=integrity on the kernel's command line, or without lockdown",
        ),
        _ => Finding::missing(
            WHAT,
            format!("{place}/available_events: {error}"),
            "Run as root, or let a group of yours in: mount -o remount,mode=750,gid=GROUP \
             /sys/kernel/tracing",
        ),
    };
    vec![finding]
}

/// Returns the first tracefs that can be read, or a private one. If there is none, returns the place and error that
/// explain the most.
fn find_tracefs(root: &Path) -> Result<Tracefs, (String, io::Error)> {
    let mut worst = (String::new(), io::Error::from_raw_os_error(libc::ENOENT));
    for place in ["sys/kernel/tracing", "sys/kernel/debug/tracing"] {
        match fs::File::open(root.join(place).join("available_events")) {
            Ok(_) => return Ok(Tracefs::at(root.join(place))),
            Err(error) if error.kind() != io::ErrorKind::NotFound && worst.0.is_empty() => {
                worst = (format!("/{place}"), error);
            }
            Err(_) => {}
        }
    }
    if worst.0.is_empty() && root == Path::new("/") {
        match Tracefs::detached() {
            Ok(tracefs) => return Ok(tracefs),
            Err(Error::TracefsRights { path, error } | Error::TracefsLockdown { path, error }) => {
                let place = path.parent().unwrap_or(&path);
                worst = (place.display().to_string(), error);
            }
            Err(_) => {}
        }
    }
    Err(worst)
}

/// Checks how many events can be recorded.
fn events(tracefs: &Tracefs) -> Vec<Finding> {
    const TRACEPOINTS: &str = "tracepoints";
    let events = match tracefs.events() {
        Ok(events) => events,
        Err(error) => {
            return vec![Finding::missing(TRACEPOINTS, error.to_string(), "Run as root")];
        }
    };
    let of_calls = |system: &str| matches!(system, "syscalls" | "raw_syscalls");
    let found = events.iter().filter(|(system, _)| !of_calls(system) && system != "ftrace").count();
    let tracepoints = match found {
        0 => Finding::missing(TRACEPOINTS, "none", "Boot a kernel built with CONFIG_FTRACE=y"),
        _ => Finding::good(TRACEPOINTS, format!("{found}")),
    };
    vec![tracepoints, system_calls(&events)]
}

fn system_calls(events: &[(String, String)]) -> Finding {
    const WHAT: &str = "system calls";
    let names: Vec<&str> = events
        .iter()
        .filter(|(system, _)| system == "syscalls")
        .filter_map(|(_, name)| name.strip_prefix("sys_enter_"))
        .filter(|name| is_name(name))
        .collect();
    let raw =
        |name: &str| events.iter().any(|(system, one)| system == "raw_syscalls" && one == name);
    if !raw("sys_enter") || !raw("sys_exit") {
        return Finding::limited(
            WHAT,
            "the kernel has no tracepoints for them",
            "Boot a kernel built with CONFIG_FTRACE_SYSCALLS=y",
        );
    }
    let new = syscalls::not_in_table(names.iter().copied());
    let known = names.len() - new.len();
    match new.len() {
        0 => Finding::good(WHAT, format!("{} kinds", names.len())),
        more => Finding::limited(
            WHAT,
            format!("{known} kinds; {more} new ones are recorded as 'unknown': {}", some(&new)),
            "A newer version of strata may know them",
        ),
    }
}

fn some(names: &[&str]) -> String {
    let shown = names.iter().take(4).copied().collect::<Vec<_>>().join(", ");
    if names.len() > 4 {
        shown + ", ..."
    } else {
        shown
    }
}

/// Checks sysctl settings that decide what can be recorded, such as `perf_event_paranoid`.
pub(super) fn switches(machine: &ExaminedMachine<'_>) -> Vec<Finding> {
    vec![
        lockdown(machine),
        unprivileged(machine),
        paranoid(machine),
        jit(machine),
        uprobes(machine),
    ]
}

fn lockdown(machine: &ExaminedMachine<'_>) -> Finding {
    const WHAT: &str = "lockdown";
    let Some(text) = text(machine.root, "sys/kernel/security/lockdown") else {
        return Finding::good(WHAT, "not in this kernel, or not mounted");
    };
    // "none [integrity] confidentiality": what is in force has the brackets.
    let mode = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match mode {
        Some("confidentiality") => Finding::missing(
            WHAT,
            "confidentiality: programs may not read the kernel's memory, nor anybody tracefs",
            "Boot with lockdown=integrity on the kernel's command line, or without lockdown",
        ),
        Some(mode) => Finding::good(WHAT, mode),
        None => Finding::limited(
            WHAT,
            format!("/sys/kernel/security/lockdown says '{text}', which is not understood"),
            "Make sure that it is not 'confidentiality'",
        ),
    }
}

fn unprivileged(machine: &ExaminedMachine<'_>) -> Finding {
    const WHAT: &str = "unprivileged BPF";
    // Whatever is allowed to everybody, reading memory and tracepoints is not.
    match number(machine.root, "proc/sys/kernel/unprivileged_bpf_disabled") {
        Some(0) => Finding::good(WHAT, "allowed; recording needs the capabilities all the same"),
        Some(_) => Finding::good(WHAT, "off; recording uses the capabilities, not that"),
        None => Finding::missing(
            WHAT,
            "/proc/sys/kernel/unprivileged_bpf_disabled is not there: no bpf() system call, or no /proc",
            "Boot a kernel built with CONFIG_BPF_SYSCALL=y; mount -t proc nodev /proc",
        ),
    }
}

fn paranoid(machine: &ExaminedMachine<'_>) -> Finding {
    use crate::discover::capability::Capability::{Perfmon, SysAdmin};
    const WHAT: &str = "perf events";
    const PATH: &str = "proc/sys/kernel/perf_event_paranoid";
    let Some(level) = number(machine.root, PATH) else {
        return Finding::missing(
            WHAT,
            format!(
                "/{PATH} is not there; tracepoints and uprobes are attached through perf events"
            ),
            "Boot a kernel built with CONFIG_PERF_EVENTS=y",
        );
    };
    let remedy = "sysctl kernel.perf_event_paranoid=2, or give CAP_SYS_ADMIN";
    match level {
        // Levels above 2 are distributions'; some ask for more than CAP_PERFMON then.
        3.. if machine.capabilities.has(Perfmon) && !machine.capabilities.has(SysAdmin) => {
            Finding::limited(WHAT, format!("perf_event_paranoid {level} may ask for more"), remedy)
        }
        _ => Finding::good(WHAT, format!("perf_event_paranoid {level}")),
    }
}

fn jit(machine: &ExaminedMachine<'_>) -> Finding {
    const WHAT: &str = "BPF compiler";
    match number(machine.root, "proc/sys/net/core/bpf_jit_enable") {
        Some(0) => Finding::limited(
            WHAT,
            "off: programs are interpreted, an event record costs several times as much",
            "sysctl net.core.bpf_jit_enable=1",
        ),
        Some(2) => Finding::limited(
            WHAT,
            "on, and writes each program into the kernel's log",
            "sysctl net.core.bpf_jit_enable=1",
        ),
        Some(_) => Finding::good(WHAT, "on"),
        // Only root sees it where it is hardened; kernels without an interpreter have no choice.
        None => Finding::good(WHAT, "bpf_jit_enable cannot be read; on as a rule"),
    }
}

fn uprobes(machine: &ExaminedMachine<'_>) -> Finding {
    const WHAT: &str = "uprobes";
    match number(machine.root, "sys/bus/event_source/devices/uprobe/type") {
        Some(_) => Finding::good(WHAT, "functions of programs and USDT probes can be recorded"),
        None if machine.root.join("sys/bus").exists() => Finding::limited(
            WHAT,
            "not in this kernel: no --probe; everything else works",
            "Boot a kernel built with CONFIG_UPROBE_EVENTS=y",
        ),
        None => Finding::limited(
            WHAT,
            "the kernel does not say whether it has them",
            "mount -t sysfs nodev /sys",
        ),
    }
}
