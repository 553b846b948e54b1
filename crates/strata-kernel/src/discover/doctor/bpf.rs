//! Finds out what the kernel supports by trying: loads the smallest program of each type, and creates the smallest map.

use super::finding::{ExaminedMachine, Finding};
use crate::arch;
use crate::attach::resource_limits::try_value;
use libbpf_sys as sys;
use std::ffi::CStr;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// A BPF program that does nothing: `r0 = 0; exit`.
const NOTHING: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];

/// One attempt to use a feature of the kernel.
struct Attempt {
    what: &'static str,
    /// Purpose of the feature, and what works without it.
    needed: &'static str,
    /// True if nothing can be recorded without the feature.
    is_vital: bool,
    remedy: &'static str,
    attempt: fn() -> io::Result<()>,
}

/// Size that a map's value could not have before Linux 6.0 \[byte\].
const LARGE: u32 = (4 << 20) + 4096;

const ATTEMPTS: [Attempt; 6] = [
    Attempt {
        what: "BPF: tp_btf",
        needed: "system calls, scheduling, interrupts",
        is_vital: true,
        remedy: "Boot a kernel built with CONFIG_BPF_EVENTS=y and CONFIG_DEBUG_INFO_BTF=y",
        attempt: || load_tracing(c"sched_switch", sys::BPF_TRACE_RAW_TP),
    },
    Attempt {
        what: "BPF: tracepoint",
        needed: "all tracepoints but the most frequent ones",
        is_vital: false,
        remedy: "Boot a kernel built with CONFIG_BPF_EVENTS=y",
        attempt: || load(sys::BPF_PROG_TYPE_TRACEPOINT, Default::default()),
    },
    Attempt {
        what: "BPF: kprobe",
        needed: "uprobes and USDT probes",
        is_vital: false,
        remedy: "Boot a kernel built with CONFIG_BPF_EVENTS=y and CONFIG_UPROBE_EVENTS=y",
        attempt: || load(sys::BPF_PROG_TYPE_KPROBE, Default::default()),
    },
    Attempt {
        what: "BPF: shared rings",
        needed: "the buffers",
        is_vital: true,
        remedy: "Boot 5.15 or later, built with CONFIG_BPF_SYSCALL=y",
        attempt: || try_value(4096),
    },
    Attempt {
        what: "BPF: large rings",
        needed: "buffers of more than 2 MiB for each CPU; smaller ones are made instead",
        is_vital: false,
        remedy: "Boot 6.0 or later, or ask for less: --subbuf-size=256K",
        attempt: || try_value(LARGE),
    },
    Attempt {
        what: "BPF: task storage",
        needed: "what a system call reads, if it is not in memory when it begins",
        is_vital: true,
        remedy: "Boot 5.15 or later, built with CONFIG_BPF_EVENTS=y",
        attempt: || {
            // SAFETY: no memory of ours is passed.
            let answer = unsafe {
                sys::libbpf_probe_bpf_map_type(sys::BPF_MAP_TYPE_TASK_STORAGE, std::ptr::null())
            };
            answer_of(answer)
        },
    },
];

pub(super) fn findings(machine: &ExaminedMachine<'_>) -> Vec<Finding> {
    let is_known = arch::here().is_some_and(|here| here.name == machine.machine);
    if !is_known || !machine.capabilities.missing_to_record().is_empty() {
        return vec![Finding::limited(
            "BPF programs",
            "not tried: that needs the rights, and a machine with kernel events",
            "Run `strata doctor` as root",
        )];
    }
    crate::attach::loader::quiet();
    ATTEMPTS.iter().map(finding).collect()
}

fn finding(attempt: &Attempt) -> Finding {
    let Attempt { what, needed, is_vital, remedy, .. } = attempt;
    match (attempt.attempt)() {
        Ok(()) => Finding::good(what, format!("works; for {needed}")),
        Err(error) if *is_vital => {
            Finding::missing(what, format!("{error}; needed for {needed}"), *remedy)
        }
        Err(error) => Finding::limited(what, format!("{error}; needed for {needed}"), *remedy),
    }
}

/// Converts an answer of libbpf about a feature to a result: 1 means that the feature exists, 0 that it does not,
/// negative values are errors.
fn answer_of(answer: i32) -> io::Result<()> {
    match answer {
        1.. => Ok(()),
        0 => Err(io::Error::new(io::ErrorKind::Unsupported, "not in this kernel")),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// Converts a result of libbpf: closes the new descriptor `fd`; for a negative number, returns the error.
fn closed(fd: i32) -> io::Result<()> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: it was made just now, and nobody else knows it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}

fn load_tracing(target: &CStr, attach: sys::bpf_attach_type) -> io::Result<()> {
    // SAFETY: the name lives longer than the call.
    let id = unsafe { sys::libbpf_find_vmlinux_btf_id(target.as_ptr(), attach) };
    let id = u32::try_from(id).map_err(|_| match id.wrapping_neg() {
        libc::ESRCH => io::Error::new(io::ErrorKind::NotFound, "no type information to load it by"),
        error => io::Error::from_raw_os_error(error),
    })?;
    let options = sys::bpf_prog_load_opts {
        expected_attach_type: attach,
        attach_btf_id: id,
        ..Default::default()
    };
    load(sys::BPF_PROG_TYPE_TRACING, options)
}

fn load(kind: sys::bpf_prog_type, options: sys::bpf_prog_load_opts) -> io::Result<()> {
    let mut options = options;
    options.sz = size_of::<sys::bpf_prog_load_opts>() as sys::size_t;
    // SAFETY: instructions are 8 bytes, that is how the kernel reads them; all lives longer than the call.
    let fd = unsafe {
        sys::bpf_prog_load(
            kind,
            c"strata_doctor".as_ptr(),
            c"GPL".as_ptr(),
            NOTHING.as_ptr().cast(),
            NOTHING.len() as sys::size_t,
            &mut options,
        )
    };
    closed(fd)
}
