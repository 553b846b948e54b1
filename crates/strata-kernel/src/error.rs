//! What can go wrong.

use std::path::PathBuf;
use thiserror::Error;

/// What can go wrong. Each module adds its own block.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    // ---- object, load, attach, session, follow ----
    /// The programs are for another kind of machine.
    #[error(
        "the kernel layer is for x86-64 only so far, and this is {machine}. Record user space: leave -k out"
    )]
    Machine {
        /// This one.
        machine: &'static str,
    },
    /// No right to load programs.
    #[error(
        "kernel events need the capabilities CAP_BPF and CAP_PERFMON (or root); missing: {missing}. Run as \
         root, or: setcap cap_bpf,cap_perfmon,cap_dac_read_search+ep \"$(command -v strata)\""
    )]
    Rights {
        /// Those that this process has not.
        missing: String,
    },
    /// The kernel does not describe its types.
    #[error(
        "this kernel has no type information (/sys/kernel/btf/vmlinux), which programs are fitted to it by. \
         Boot a kernel with CONFIG_DEBUG_INFO_BTF=y"
    )]
    NoBtf,
    /// The kernel lets no timer come so often.
    #[error(
        "--sample {found}: this kernel lets a timer come {limit} times in a second at most. Use fewer, or write a larger \
         number to /proc/sys/kernel/perf_event_max_sample_rate"
    )]
    SampleRate {
        /// Asked for \[Hz\].
        found: u32,
        /// Possible \[Hz\].
        limit: u32,
    },
    /// A counter cannot be had.
    #[error("kernel context '{name}': {reason}")]
    Counter {
        /// As it was asked for.
        name: String,
        /// Why, and what helps.
        reason: Refusal,
    },
    /// More than records have room for.
    #[error(
        "{found} counters in the kernel's records of a session, limit {}. Ask for fewer, or record with a second session",
        strata_abi::kernel::COUNTERS
    )]
    TooManyCounters {
        /// Asked for.
        found: usize,
    },
    /// The buffers do not fit into a map.
    #[error(
        "{found} bytes of buffers for each CPU, limit {limit}. Use less or smaller sub-buffers"
    )]
    TooLarge {
        /// Asked for \[byte\].
        found: u64,
        /// Possible \[byte\].
        limit: u64,
    },
    /// The part without which nothing is recorded cannot be loaded.
    #[error("the kernel refuses the programs of {what}: {reason}. `strata doctor` says what this kernel can do")]
    Load {
        /// Whose programs: "the session" and such.
        what: &'static str,
        /// The kernel's reason, and libbpf's.
        reason: Refusal,
    },
    /// No memory for the buffers, or no buffers that fit.
    #[error("kernel buffers: {0}")]
    Ring(#[from] strata_ring::Error),
    /// A filter cannot be compiled for an event.
    #[error(transparent)]
    Filter(#[from] crate::filter::FilterError),
    /// More events than a session can hold.
    #[error("{found} event record classes, limit {limit}. Select fewer events")]
    TooManyEvents {
        /// Selected.
        found: usize,
        /// Possible.
        limit: usize,
    },

    /// The kernel takes none of the events that were to be recorded from now on.
    #[error(
        "kernel event {event}: the kernel refuses it: {reason}. What is recorded is as it was"
    )]
    Refused {
        /// The first one.
        event: String,
        /// The kernel's reason, and libbpf's.
        reason: String,
    },
    /// Names of which the kernel's programs cannot ask.
    #[error(
        "tracked name '{name}': for the kernel's events a '*' is possible at the end only, and no '?'. \
         Write a whole name, or its beginning and '*'"
    )]
    TrackedName {
        /// As it was written.
        name: String,
    },
    /// No such control group.
    #[error(
        "tracked control group '{path}': there is none of version 2 with this path. Start what is in it \
         first; `systemd-cgls` lists all there are"
    )]
    TrackedGroup {
        /// As it was written.
        path: String,
    },
    /// More than there is room for.
    #[error("{found} processes, users, groups and names to be tracked, limit {limit}. Track fewer: a control group, or the beginning of a name")]
    TrackedMany {
        /// Asked for.
        found: usize,
        /// Possible.
        limit: usize,
    },
    /// Records of an event cannot be described.
    #[error("kernel events: {0}. Please report this, with the output of `strata list -k`")]
    Classes(#[from] strata_model::TraceError),
    /// What is pinned in the kernel, or is to be.
    #[error("{path}: {reason}")]
    Pins {
        /// Where, in the file system of BPF.
        path: String,
        /// What cannot be done with it, and why.
        reason: Refusal,
    },
    /// Somebody did not want to wait for it.
    #[error("the change of kernel events was given up. What is recorded is as it was")]
    GivenUp,

    // ---- tracefs, format, catalog ----
    /// It is mounted nowhere, and cannot be.
    #[error("tracefs is mounted neither at {places}, and a mount of our own fails: {error}. Run as root, or \
             `mount -t tracefs nodev /sys/kernel/tracing` as root; if that fails, the kernel has no tracing \
             (CONFIG_FTRACE)")]
    NoTracefs {
        /// Where it was looked for.
        places: String,
        /// Why it cannot be mounted.
        error: std::io::Error,
    },
    /// It may not be read.
    #[error("{} cannot be read: {error}. Run as root, or give a group of yours the right: `mount -o \
             remount,mode=750,gid=GROUP /sys/kernel/tracing`", path.display())]
    TracefsRights {
        /// What was to be read.
        path: PathBuf,
        /// The kernel's answer.
        error: std::io::Error,
    },
    /// Nobody may read it.
    #[error("{} cannot be read: {error}. A kernel in lockdown 'confidentiality' refuses it even to root: boot \
             with lockdown=integrity, or without lockdown", path.display())]
    TracefsLockdown {
        /// What was to be read.
        path: PathBuf,
        /// The kernel's answer.
        error: std::io::Error,
    },
    /// It could not be read.
    #[error("{} cannot be read: {error}", path.display())]
    TracefsRead {
        /// What was to be read.
        path: PathBuf,
        /// The kernel's answer.
        error: std::io::Error,
    },
    /// The kernel has no such event.
    #[error("kernel event {system}:{name}: there is none. `strata list -k` shows what there is")]
    NoEvent {
        /// Its system.
        system: String,
        /// Its name.
        name: String,
    },
    /// What the kernel says of an event's fields cannot be recorded.
    #[error("kernel event {system}:{name}: {error}. This event cannot be recorded")]
    Format {
        /// Its system.
        system: String,
        /// Its name.
        name: String,
        /// What is wrong.
        #[source]
        error: crate::format::FormatError,
    },
    // ---- system calls ----

    // ---- uprobe, usdt, elf ----

    // ---- capability, doctor, statedump ----
}

/// Why the kernel does not take something: its error, and what libbpf or the verifier said last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub(crate) String);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
