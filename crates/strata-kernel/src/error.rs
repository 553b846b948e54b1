//! Errors of the kernel layer.

use std::path::PathBuf;
use thiserror::Error;

/// An error of the kernel layer. Each module adds its own block. Each module adds its own block.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    // ---- object, load, attach, session, follow ----
    /// The BPF programs do not support this kind of machine.
    #[error(
        "the kernel layer is for x86-64 and AArch64 so far, and this is {machine}. Record user space: leave -k out"
    )]
    Machine {
        /// The kind of this machine.
        machine: &'static str,
    },
    /// The process lacks the rights to load programs.
    #[error(
        "kernel events need the capabilities CAP_BPF and CAP_PERFMON (or root); missing: {missing}. Run as \
         root, or: setcap cap_bpf,cap_perfmon,cap_dac_read_search+ep \"$(command -v strata)\""
    )]
    Rights {
        /// The capabilities that are missing.
        missing: String,
    },
    /// The kernel has no BTF type information.
    #[error(
        "this kernel has no type information (/sys/kernel/btf/vmlinux), which programs are fitted to it by. \
         Boot a kernel with CONFIG_DEBUG_INFO_BTF=y"
    )]
    NoBtf,
    /// The kernel refuses a timer of this rate.
    #[error(
        "--sample {found}: this kernel lets a timer come {limit} times in a second at most. Use fewer, or write a larger \
         number to /proc/sys/kernel/perf_event_max_sample_rate"
    )]
    SampleRate {
        /// The requested rate \[Hz\].
        found: u32,
        /// The greatest possible rate \[Hz\].
        limit: u32,
    },
    /// A counter cannot be used.
    #[error("kernel context '{name}': {reason}")]
    Counter {
        /// The name of the counter, as it was written.
        name: String,
        /// The reason, and what helps.
        reason: Refusal,
    },
    /// There are more counters than records have room for.
    #[error(
        "{found} counters in the kernel's records of a session, limit {}. Ask for fewer, or record with a second session",
        strata_abi::kernel::COUNTERS
    )]
    TooManyCounters {
        /// The number of requested counters.
        found: usize,
    },
    /// The buffers do not fit into a map.
    #[error(
        "{found} bytes of buffers for each CPU, limit {limit}. Use less or smaller sub-buffers"
    )]
    TooLarge {
        /// The requested size \[byte\].
        found: u64,
        /// The greatest possible size \[byte\].
        limit: u64,
    },
    /// A program without which nothing can be recorded cannot be loaded.
    #[error("the kernel refuses the programs of {what}: {reason}. `strata doctor` says what this kernel can do")]
    Load {
        /// The thing that needs the program, such as "the session".
        what: &'static str,
        /// The reasons of the kernel and of libbpf.
        reason: Refusal,
    },
    /// The buffers cannot be created: there is no memory, or their sizes are not possible.
    #[error("kernel buffers: {0}")]
    Ring(#[from] strata_ring::Error),
    /// A filter cannot be compiled for an event.
    #[error(transparent)]
    Filter(#[from] crate::decide::filter::FilterError),
    /// The selected events cannot be counted as requested.
    #[error(transparent)]
    Count(#[from] crate::decide::count::CountError),
    /// More events are selected than a session can hold.
    #[error("{found} event record classes, limit {limit}. Select fewer events")]
    TooManyEvents {
        /// The number of selected events.
        found: usize,
        /// The greatest possible number.
        limit: usize,
    },

    /// The kernel refuses all events that a change was to add.
    #[error(
        "kernel event {event}: the kernel refuses it: {reason}. What is recorded is as it was"
    )]
    Refused {
        /// The first event that was refused.
        event: String,
        /// The reasons of the kernel and of libbpf.
        reason: String,
    },
    /// A tracked name has a pattern that programs in the kernel cannot check.
    #[error(
        "tracked name '{name}': for the kernel's events a '*' is possible at the end only, and no '?'. \
         Write a whole name, or its beginning and '*'"
    )]
    TrackedName {
        /// The name as it was written.
        name: String,
    },
    /// The path is not that of a control group of version 2.
    #[error(
        "tracked control group '{path}': no control group of version 2 has this path. Start what is in it \
         first; `systemd-cgls` lists all there are"
    )]
    TrackedGroup {
        /// The path as it was written.
        path: String,
    },
    /// More values are tracked than there is room for.
    #[error("{found} processes, users, groups and names to be tracked, limit {limit}. Track fewer: a control group, or the beginning of a name")]
    TrackedMany {
        /// The number of requested values.
        found: usize,
        /// The greatest possible number.
        limit: usize,
    },
    /// Records of an event cannot be described.
    #[error("kernel events: {0}. Please report this, with the output of `strata list -k`")]
    Classes(#[from] strata_model::TraceError),
    /// An object cannot be pinned in the kernel, or a pinned one cannot be used.
    #[error("{path}: {reason}")]
    Pins {
        /// The path in the file system of BPF.
        path: String,
        /// The operation that failed, and why.
        reason: Refusal,
    },
    /// The caller has asked to break off the operation.
    #[error("the change of kernel events was given up. What is recorded is as it was")]
    GivenUp,

    // ---- tracefs, format, catalog ----
    /// tracefs is mounted nowhere, and cannot be mounted.
    #[error("tracefs is mounted neither at {places}, and a mount of our own fails: {error}. Run as root, or \
             `mount -t tracefs nodev /sys/kernel/tracing` as root; if that fails, the kernel has no tracing \
             (CONFIG_FTRACE)")]
    NoTracefs {
        /// The places that were searched.
        places: String,
        /// The reason why tracefs cannot be mounted.
        error: std::io::Error,
    },
    /// This process may not read tracefs.
    #[error("{} cannot be read: {error}. Run as root, or give a group of yours the right: `mount -o \
             remount,mode=750,gid=GROUP /sys/kernel/tracing`", path.display())]
    TracefsRights { path: PathBuf, error: std::io::Error },
    /// Kernel lockdown keeps everybody from reading tracefs.
    #[error("{} cannot be read: {error}. A kernel in lockdown 'confidentiality' refuses it even to root: boot \
             with lockdown=integrity, or without lockdown", path.display())]
    TracefsLockdown { path: PathBuf, error: std::io::Error },
    /// A file of tracefs could not be read.
    #[error("{} cannot be read: {error}", path.display())]
    TracefsRead { path: PathBuf, error: std::io::Error },
    /// The kernel has no such event.
    #[error("kernel event {system}:{name}: there is none. `strata list -k` shows what there is")]
    NoEvent { system: String, name: String },
    /// The event's `format` file describes fields that cannot be recorded.
    #[error("kernel event {system}:{name}: {error}. This event cannot be recorded")]
    Format {
        system: String,
        name: String,
        #[source]
        error: crate::discover::format::FormatError,
    },
    // ---- system calls ----

    // ---- uprobe, usdt, elf ----

    // ---- capability, doctor, statedump ----
}

/// The reason why the kernel refuses an operation: its error, with the last messages of libbpf or the verifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub(crate) String);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
