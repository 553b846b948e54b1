//! The options of a session, their defaults and their limits.
//!
//! [`Options`] is the request of `strata record`, and the form to which each channel of a plan is lowered
//! (`Plan::options_of`); a layer is made from it. Values are checked in one place, [`Options::check`], with an
//! [`OptionsError`] for each mistake, whose message names the flag, the value, the limit and a value that works.
//!
//! - Sizes that the user gave are checked and kept. Sizes that nobody gave are reduced to what this machine can bear
//!   (`sizes.rs`), separately for programs and for the kernel: `Options::for_programs`, [`Options::for_kernel`].
//! - `rules: None` means every tracepoint, unless kernel events are named; then it means none.
//!   [`Options::records_applications`] decides this for all callers.
//! - Flags that exclude each other are refused here and not in the command line's parser, since plans also end up here.
//!
//! ```text
//! flags ── strata-cli/src/flags.rs ──┐
//!                                    ├─▶ Options ── check() ─▶ a layer
//! plan ── plan/lower.rs ─────────────┘
//! ```
//!
//! An `Options` is data, and may be copied. Nothing is opened while it is checked.
//!
//! To add an option: a field with its default, its limits in [`Options::check`] with an error that says what to
//! do, the flag in the command line, and if sessions can have it, the field of the plan and its way back in
//! `plan/lower.rs`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
pub(crate) use strata_abi::ring::NR_SUBBUFS_MAX;
use strata_abi::ring::{NR_SUBBUFS_MIN, PAGE, SUBBUF_BYTES_MAX};

pub use strata_ctf::metadata::Version;
use strata_filter::Filter;
pub use strata_kernel::cpu_samples::RATE_MAX;
use strata_kernel::event_rules::has_default;
use strata_kernel::CallStacks;
pub use strata_kernel::Contexts;
use strata_model::LossMode;
pub use strata_relay::{Place, PlaceProblem};
pub use strata_remote::Target;
use strata_user::{EventContexts, Rules};

use crate::output::retention::Retention;
use crate::record::preload::PreloadPart;
use crate::report::{KERNEL, USER};
use crate::session::disk::MinFree;
pub use crate::sizes::{flag_size, NR_SUBBUFS, SUBBUF_BYTES};
use crate::sizes::{BuffersOf, Hardware};

/// The options of the kernel's layer.
#[derive(Debug, Clone, Default)]
pub struct KernelOptions {
    /// Rules for events as they were written; one text may have several, separated by commas. Without any rule or
    /// probe, the default events are recorded.
    pub rules: Vec<String>,
    /// Uprobes and USDT probes of programs and libraries.
    pub probes: Vec<String>,
    /// The filter on the events; `None` for all records.
    pub filter: Option<Filter>,
    /// True to record system calls, page faults and similar events of every process, and not only of the selected ones.
    pub all_processes: bool,
    /// True if the trace's metadata claim that lttng-modules recorded it.
    pub as_lttng: bool,
    /// Contexts of the records in addition to the thread.
    pub contexts: Contexts,
    /// The call stacks that records get. Call stacks by frame pointers are also listed among `contexts`.
    pub stack: CallStacks,
    /// The least duration of recorded system calls \[ns\]; `None` for the bound that the rules set.
    pub slower: Option<u64>,
    /// Rate of samples, which are recorded in addition to the events \[Hz\].
    pub sample: Option<u32>,
    /// True to record samples alone, without the default events.
    pub samples_only: bool,
    /// Size of a sub-buffer of the kernel \[byte\]; `None` for the size of applications' sub-buffers.
    pub subbuf_bytes: Option<u64>,
    /// Number of sub-buffers for each CPU; `None` for the number of applications' sub-buffers.
    pub nr_subbufs: Option<u32>,
    /// The most bytes of a program's arguments that are recorded, NUL included \[byte\]; `None` for
    /// [`strata_kernel::ARGV_BYTES`].
    pub argv_bytes: Option<u32>,
}

impl KernelOptions {
    /// Returns true if the user named no events.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.rules.is_empty() && self.probes.is_empty() && !self.samples_only
    }

    /// Returns whether a failure to record the kernel is an error. It is not if the user did not request the kernel.
    #[must_use]
    pub fn is_required(&self) -> bool {
        !self.is_default()
            || self.all_processes
            || self.as_lttng
            || self.contexts != Contexts::default()
            || self.sample.is_some()
    }

    fn has_sizes(&self) -> bool {
        self.subbuf_bytes.is_some() || self.nr_subbufs.is_some()
    }

    /// Returns the flags of `strata record` that request the kernel, joined for a message: `--kernel and --probe`.
    pub fn flags(&self) -> String {
        let given = [
            (!self.rules.is_empty(), "--kernel"),
            (!self.probes.is_empty(), "--probe"),
            (self.all_processes, "--all-processes"),
            (self.as_lttng, "--lttng-env"),
            (self.contexts != Contexts::default(), "--kernel-context"),
            (self.sample.is_some(), "--sample"),
        ];
        let names: Vec<&str> =
            given.iter().filter(|(is_given, _)| *is_given).map(|(_, name)| *name).collect();
        names.join(" and ")
    }
}

/// A virtual machine that is recorded together with this one, by a recorder inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestOptions {
    /// The guest's name, which is also the folder of its traces.
    pub name: String,
    /// The channel to the guest's recorder.
    pub channel: Place,
    /// The process that runs the guest, if it is not the process that listens on the channel.
    pub pid: Option<u32>,
    /// QEMU's control socket, which reports which thread runs which virtual CPU.
    pub qmp: Option<PathBuf>,
    /// The guest's memory as a file of the host.
    pub memory: Option<PathBuf>,
    /// The most bytes that the guest's traces may take \[byte\].
    pub max_bytes: u64,
}

/// Conditions on which a trace is rotated automatically, and the number of chunks to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// Size of a chunk's packets at which the chunk is completed \[byte\].
    #[serde(default)]
    pub size: Option<u64>,
    /// Time after which a chunk is completed; a chunk without records is not \[ms\].
    #[serde(default)]
    pub time_ms: Option<u64>,
    /// Number of complete chunks to keep; `None` to keep all.
    #[serde(default)]
    pub count: Option<u64>,
}

impl Rotation {
    /// Returns true if nothing is rotated automatically.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Rotation::default()
    }

    /// Checks that all values are within their limits.
    ///
    /// # Errors
    /// The first value outside its limits.
    pub fn check(&self) -> Result<(), OptionsError> {
        let time_max = TIME_MAX.as_millis() as u64;
        for (which, found, low, high, unit) in [
            ("size", self.size, ROTATE_BYTES_MIN, u64::MAX, "bytes"),
            ("time", self.time_ms, ROTATE_MS_MIN, time_max, "milliseconds"),
            ("count", self.count, 1, ROTATE_COUNT_MAX, "parts"),
        ] {
            if let Some(found) = found.filter(|found| !(low..=high).contains(found)) {
                return Err(OptionsError::Rotation { which, found, low, high, unit });
            }
        }
        Ok(())
    }
}

/// The options of `strata record`.
#[derive(Debug, Clone)]
pub struct Options {
    /// Rules for tracepoints of applications. `None` selects all tracepoints, or none if `kernel` names events.
    pub rules: Option<Rules>,
    /// The filter on the events of applications; `None` to record all. The kernel's filter is in `kernel`.
    pub filter: Option<Filter>,
    /// The least duration of recorded spans of applications \[ns\]; 0 to record all. Other events are not affected.
    pub spans_slower: u64,
    /// The kernel's options; `None` to leave the kernel out.
    pub kernel: Option<KernelOptions>,
    /// The trace's folder; `None` for a new `strata-trace-YYYYMMDD-HHMMSS` in the current folder.
    pub output: Option<PathBuf>,
    /// The host's recorder to which the trace is sent, if this machine is a guest.
    pub relay: Option<Place>,
    /// The relay on another host, `strata relayd`, to which the trace is sent.
    pub remote: Option<Target>,
    /// Virtual machines that are recorded together with this machine.
    pub guests: Vec<GuestOptions>,
    /// CTF version of the metadata.
    pub version: Version,
    /// The loss mode: what happens when buffers are full.
    pub mode: LossMode,
    /// Size of one sub-buffer \[byte\], a power of two.
    pub subbuf_bytes: u64,
    /// Number of sub-buffers for each CPU of each process, a power of two.
    pub nr_subbufs: u32,
    /// True if each record of an application has the id of its thread.
    pub vtid: bool,
    /// Contexts of applications' records.
    pub contexts: EventContexts,
    /// True if the user set `subbuf_bytes` or `nr_subbufs`, which are then kept. Otherwise they may be reduced to suit
    /// this machine.
    pub is_size_given: bool,
    /// The period of writing sub-buffers that are not full; zero to write them only at the end.
    pub flush: Duration,
    /// True for a flight recorder, which keeps records in memory and writes only snapshots.
    pub hold: bool,
    /// The time after which to stop; `None` to stop when the command ends, or when asked to.
    pub duration: Option<Duration>,
    /// Size of the trace's files at which to stop \[byte\]; `None` for no limit.
    pub max_bytes: Option<u64>,
    /// The free space on the disk at which to stop.
    pub min_free: MinFree,
    /// True if the output folder belongs to a recording that was killed, which this recording continues in new
    /// chunks.
    pub goes_on: bool,
    /// True if the trace begins in a folder in memory and later moves to one on disk, as early in the boot.
    pub is_early: bool,
    /// Conditions on which the trace is rotated.
    pub rotation: Rotation,
    /// Limits on the data that the session keeps, chunks included.
    pub retention: Retention,
    /// Name of a persistent session; the folders that it creates are marked with it.
    pub session: Option<String>,
    /// The most memory for all buffers together \[byte\]; `None` if it is not limited.
    pub max_memory: Option<u64>,
    /// Running processes to record. If empty, all processes are recorded, unless there is a command.
    pub pids: Vec<u32>,
    /// True to record every process even if there is a command.
    pub everyone: bool,
    /// Parts of uninstrumented programs that are recorded by preloaded objects.
    pub libc: Vec<PreloadPart>,
    /// True to wait, after the end of the command, for the end of all its descendants.
    pub wait_descendants: bool,
    /// The command to run; it is recorded with all its descendants. Empty for no command.
    pub command: Vec<OsString>,
}

/// The default flush period.
pub const FLUSH: Duration = Duration::from_secs(1);
/// The longest duration or period that can be requested: ten years.
pub const TIME_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);
/// The least size of a chunk for automatic rotation \[byte\].
pub const ROTATE_BYTES_MIN: u64 = 64 << 10;
/// The default limit on the size of a guest's traces \[byte\].
pub const GUEST_BYTES_MAX: u64 = 4 << 30;
/// The most guests of one recording.
pub const GUESTS_MAX: usize = 64;
/// The largest sub-buffer whose packets can be relayed \[byte\].
pub const RELAY_SUBBUF_MAX: u64 = 16 << 20;
/// The shortest period of automatic rotation \[ms\].
pub const ROTATE_MS_MIN: u64 = 100;
/// The most complete chunks that can be kept when older ones are removed; each takes a file descriptor.
pub const ROTATE_COUNT_MAX: u64 = 500;
/// The most memory that the sub-buffers of one stream may take together \[byte\].
pub const STREAM_BYTES_MAX: u64 = 16 << 30;

impl Default for Options {
    fn default() -> Options {
        Options {
            rules: None,
            filter: None,
            spans_slower: 0,
            kernel: None,
            output: None,
            relay: None,
            remote: None,
            guests: Vec::new(),
            version: Version::default(),
            mode: LossMode::default(),
            subbuf_bytes: SUBBUF_BYTES,
            nr_subbufs: NR_SUBBUFS,
            vtid: true,
            contexts: EventContexts::default(),
            is_size_given: false,
            flush: FLUSH,
            hold: false,
            duration: None,
            max_bytes: None,
            min_free: MinFree::default(),
            goes_on: false,
            is_early: false,
            rotation: Rotation::default(),
            retention: Retention::default(),
            session: None,
            max_memory: None,
            pids: Vec::new(),
            everyone: false,
            libc: Vec::new(),
            wait_descendants: false,
            command: Vec::new(),
        }
    }
}

/// A mistake in the options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The size of a sub-buffer is outside its limits.
    #[error(
        "--{of}subbuf-size={bytes}: not a power of two from {least} to {most}. Use {suggestion}",
        bytes = flag_size(*bytes), least = flag_size(PAGE.into()), most = flag_size(SUBBUF_BYTES_MAX),
        suggestion = flag_size(*suggestion)
    )]
    SubbufSize {
        /// Prefix of the flag: `kernel-` for the kernel's buffers, otherwise empty.
        of: &'static str,
        /// The size in the request \[byte\].
        bytes: u64,
        /// The nearest allowed size \[byte\].
        suggestion: u64,
    },
    /// The number of sub-buffers is outside its limits.
    #[error(
        "--{of}num-subbuf={number}: not a power of two from {NR_SUBBUFS_MIN} to {NR_SUBBUFS_MAX}. \
         Use {suggestion}"
    )]
    Subbufs {
        /// Prefix of the flag: `kernel-` for the kernel's buffers, otherwise empty.
        of: &'static str,
        /// The requested number of sub-buffers.
        number: u32,
        /// The nearest allowed number.
        suggestion: u32,
    },
    /// Size and number of sub-buffers are each within their limits, but together take too much memory.
    #[error(
        "--num-subbuf={number} of --subbuf-size={subbuf_bytes}: {bytes} bytes for each CPU of each \
         process, at most {STREAM_BYTES_MAX}. Use fewer or smaller ones"
    )]
    StreamBytes {
        /// Number of sub-buffers in the request.
        number: u32,
        /// Size of each sub-buffer \[byte\].
        subbuf_bytes: u64,
        /// Total size of the sub-buffers \[byte\].
        bytes: u64,
    },
    /// A duration or period is longer than [`TIME_MAX`].
    #[error("--{which}: {} seconds, at most {}. Leave it out for no limit", time.as_secs(), TIME_MAX.as_secs())]
    Time {
        /// Name of the option, `duration` or `flush`.
        which: &'static str,
        /// The requested time.
        time: Duration,
    },
    /// The duration is zero, so that nothing would be recorded.
    #[error("--duration=0: nothing would be recorded. Use a time such as 10s, or leave it out")]
    NoTime,
    /// The request names both a command and process ids, which exclude each other.
    #[error(
        "--pid and a command: one of them is recorded at a time. Use either --pid or -- COMMAND; \
         two `strata record` may run at once"
    )]
    PidsAndCommand,
    /// The request names process ids and also asks for all processes.
    #[error("--all and --pid: use either --all for every process, or --pid for some")]
    AllAndPids,
    /// Waiting for descendants is requested without a command.
    #[error("--wait-descendants: needs a command, and there is none. Write `strata record --wait-descendants -- COMMAND`, or leave the flag out")]
    NoCommand,
    /// The size limit is zero, so that nothing would be recorded.
    #[error("--max-size=0: nothing would be recorded. Use a size such as 100M, or leave it out")]
    NoSize,
    /// A rotation value is outside its limits.
    #[error("--rotate-{which}: {found} {unit}, from {low} to {high} are possible")]
    Rotation {
        /// Name of the value: `size`, `time` or `count`.
        which: &'static str,
        /// The value in the request.
        found: u64,
        /// The least allowed value.
        low: u64,
        /// The greatest allowed value.
        high: u64,
        /// Unit of the numbers, such as bytes.
        unit: &'static str,
    },
    /// A retention limit is outside its range.
    #[error("--keep-{which}: {found} {unit}, from {low} to {high} are possible; --keep-count 0 keeps all")]
    Retention {
        /// Name of the option, `count` or `size`.
        which: &'static str,
        /// The value in the request.
        found: u64,
        /// The least allowed value.
        low: u64,
        /// The greatest allowed value.
        high: u64,
        /// Unit of the numbers, such as bytes.
        unit: &'static str,
    },
    /// A limit on the trace's size and the removal of old chunks exclude each other.
    #[error("--max-size and --rotate-count: parts of the trace are removed while it is recorded. Leave one of them out")]
    SizeOfParts,
    /// A flight recorder was requested, which writes snapshots only, together with a flag about a continuous
    /// trace, such as its size or folder.
    #[error("--snapshot and {which}: nothing is written but snapshots, each to a folder of its own. Leave one of them out")]
    Hold {
        /// The flag that contradicts the flight recorder.
        which: &'static str,
    },
    /// A trace that is sent to a relay was requested, together with a flag about a folder on this machine.
    #[error(
        "--to and {which}: the trace goes to the relay as it is recorded. Leave one of them out"
    )]
    Remote {
        /// Name of the other flag.
        which: &'static str,
    },
    /// A trace that is sent to the host's recorder was requested, together with a flag about a folder on this
    /// machine.
    #[error("--relay and {which}: the trace goes to the host's recorder. Leave one of them out")]
    Relay {
        /// The flag that contradicts sending the trace.
        which: &'static str,
    },
    /// Guests were requested, whose traces are written continuously, together with a flag that excludes that.
    #[error("--guest and {which}: what a guest hands over is written as it comes, in one piece. Leave one of them out")]
    Guest {
        /// The flag that contradicts guests.
        which: &'static str,
    },
    /// The name of a guest is invalid, reserved for a layer, or used by another guest.
    #[error(
        "--guest={name}: a guest's name is 1 to 64 letters, digits, '.', '_' and '-', begins with neither '.' nor '-', \
         is not 'user' or 'kernel', and no other guest's. Use another one"
    )]
    GuestName {
        /// The name, shortened.
        name: String,
    },
    /// Two guests have the same channel.
    #[error(
        "--guest={name}: its channel, {channel}, is that of guest {other}. Each recorder in a guest needs a channel of its own"
    )]
    GuestChannel {
        /// The guest's name.
        name: String,
        /// The channel of both guests.
        channel: String,
        /// Name of the other guest.
        other: String,
    },
    /// The request names more guests than [`GUESTS_MAX`].
    #[error("--guest: {found} guests, at most {GUESTS_MAX}. Use fewer")]
    Guests {
        /// Number of guests in the request.
        found: usize,
    },
    /// Contexts for records of applications were requested, and no application is recorded.
    #[error(
        "--context: of applications' records, and none are recorded, since the kernel's events are named and no \
         tracepoints. Name them with --user, such as -u '*:*', or leave it out"
    )]
    NoApplications,
    /// The rate of samples is too high.
    #[error("--sample={found}: so often in a second, from 1 to {RATE_MAX} are possible. 99 is usual: it keeps step with no other timer")]
    Rate {
        /// The rate in the request \[Hz\].
        found: u32,
    },
    /// The request names process 0, which does not exist.
    #[error(
        "--pid=0: no process has this number. See `strata list` for those that can be recorded"
    )]
    PidZero,
}

/// Checks that the retention limits are within their range.
///
/// # Errors
/// The first value outside its range.
fn check_retention(asked: &Retention) -> Result<(), OptionsError> {
    for (which, found, low, high, unit) in [
        ("count", asked.most(), 1, ROTATE_COUNT_MAX, "folders"),
        ("size", asked.size, ROTATE_BYTES_MIN, u64::MAX, "bytes"),
    ] {
        if let Some(found) = found.filter(|found| !(low..=high).contains(found)) {
            return Err(OptionsError::Retention { which, found, low, high, unit });
        }
    }
    Ok(())
}

impl Options {
    /// Returns whether applications are recorded.
    #[must_use]
    pub fn records_applications(&self) -> bool {
        let is_alone = |kernel: &KernelOptions| {
            !kernel.is_default() && !kernel.samples_only && !has_default(&kernel.rules)
        };
        self.rules.is_some() || !self.kernel.as_ref().is_some_and(is_alone)
    }

    /// Returns the memory of one stream's buffer \[byte\].
    pub(crate) fn stream_bytes(&self) -> u64 {
        let frames = u64::from(self.nr_subbufs) + u64::from(self.mode == LossMode::Overwrite);
        frames.saturating_mul(self.subbuf_bytes)
    }

    /// Returns whether an option of the buffers differs from that in `other`.
    pub(crate) fn is_other_buffer(&self, other: &Options) -> bool {
        let of = |one: &Options| (one.mode, one.subbuf_bytes, one.nr_subbufs, one.flush);
        of(self) != of(other)
    }

    /// Checks that all options are within their limits.
    ///
    /// # Errors
    /// The first mistake.
    pub fn check(&self) -> Result<(), OptionsError> {
        self.check_buffers("")?;
        if self.kernel.as_ref().is_some_and(KernelOptions::has_sizes) {
            self.for_kernel().check_buffers("kernel-")?;
        }
        for (which, time) in [("flush", Some(self.flush)), ("duration", self.duration)] {
            if let Some(time) = time.filter(|&time| time > TIME_MAX) {
                return Err(OptionsError::Time { which, time });
            }
        }
        if self.duration == Some(Duration::ZERO) {
            return Err(OptionsError::NoTime);
        }
        if !self.pids.is_empty() && !self.command.is_empty() {
            return Err(OptionsError::PidsAndCommand);
        }
        if self.everyone && !self.pids.is_empty() {
            return Err(OptionsError::AllAndPids);
        }
        if self.wait_descendants && self.command.is_empty() {
            return Err(OptionsError::NoCommand);
        }
        self.rotation.check()?;
        check_retention(&self.retention)?;
        if self.max_bytes.is_some() && self.rotation.count.is_some() {
            return Err(OptionsError::SizeOfParts);
        }
        let written = [
            ("--output", self.output.is_some()),
            ("--max-size", self.max_bytes.is_some()),
            ("--rotate-size, --rotate-time and --rotate-count", !self.rotation.is_none()),
        ];
        if let Some((which, _)) = written.into_iter().find(|(_, is_given)| self.hold && *is_given) {
            return Err(OptionsError::Hold { which });
        }
        self.check_guests()?;
        if self.max_bytes == Some(0) {
            return Err(OptionsError::NoSize);
        }
        if !self.contexts.is_empty() && !self.records_applications() {
            return Err(OptionsError::NoApplications);
        }
        if self.pids.contains(&0) {
            return Err(OptionsError::PidZero);
        }
        let rate = self.kernel.as_ref().and_then(|kernel| kernel.sample);
        if let Some(found) = rate.filter(|rate| !(1..=RATE_MAX).contains(rate)) {
            return Err(OptionsError::Rate { found });
        }
        Ok(())
    }
}

impl Options {
    /// Returns the options with the sizes that the kernel's buffers have on this machine.
    #[must_use]
    pub fn for_kernel(&self) -> Options {
        let mut options = self.clone();
        if let Some(kernel) = &self.kernel {
            options.subbuf_bytes = kernel.subbuf_bytes.unwrap_or(self.subbuf_bytes);
            options.nr_subbufs = kernel.nr_subbufs.unwrap_or(self.nr_subbufs);
            options.is_size_given |= kernel.has_sizes();
        }
        options.fitted(BuffersOf::Kernel)
    }

    /// Returns the options with the sizes that programs' buffers have on this machine.
    pub(crate) fn for_programs(&self) -> Options {
        let are_named = !self.pids.is_empty() || !self.command.is_empty();
        self.clone().fitted(match are_named && !self.everyone {
            true => BuffersOf::Program,
            false => BuffersOf::EveryProgram,
        })
    }

    /// Reduces the buffers to a size that suits this machine. Sizes that the user set are kept.
    pub(crate) fn fitted(mut self, of: BuffersOf) -> Options {
        if !self.is_size_given {
            let usual = (self.subbuf_bytes, self.nr_subbufs);
            (self.subbuf_bytes, self.nr_subbufs) = Hardware::here().fit(of, usual);
        }
        self
    }

    /// Checks the sizes of buffers. `of` is the prefix of the flags that set them.
    fn check_buffers(&self, of: &'static str) -> Result<(), OptionsError> {
        let (bytes, number) = (self.subbuf_bytes, self.nr_subbufs);
        if !bytes.is_power_of_two() || !(PAGE.into()..=SUBBUF_BYTES_MAX).contains(&bytes) {
            let suggestion = nearest_power_of_two(bytes, PAGE.into(), SUBBUF_BYTES_MAX);
            return Err(OptionsError::SubbufSize { of, bytes, suggestion });
        }
        if !number.is_power_of_two() || !(NR_SUBBUFS_MIN..=NR_SUBBUFS_MAX).contains(&number) {
            let (low, high) = (NR_SUBBUFS_MIN.into(), NR_SUBBUFS_MAX.into());
            let suggestion = nearest_power_of_two(number.into(), low, high);
            let suggestion = u32::try_from(suggestion).unwrap_or(NR_SUBBUFS_MAX);
            return Err(OptionsError::Subbufs { of, number, suggestion });
        }
        let together = bytes * u64::from(number);
        if together > STREAM_BYTES_MAX {
            return Err(OptionsError::StreamBytes { number, subbuf_bytes: bytes, bytes: together });
        }
        Ok(())
    }

    fn check_guests(&self) -> Result<(), OptionsError> {
        let parts = ("--rotate-size, --rotate-time and --rotate-count", !self.rotation.is_none());
        let held = ("--snapshot", self.hold);
        let relayed = [
            ("--output", self.output.is_some()),
            ("--guest", !self.guests.is_empty()),
            ("--max-size", self.max_bytes.is_some()),
            ("--ctf=2", self.version == Version::Two),
            ("--subbuf-size of more than 16M", self.subbuf_bytes > RELAY_SUBBUF_MAX),
            (
                "--kernel-subbuf-size of more than 16M",
                self.for_kernel().subbuf_bytes > RELAY_SUBBUF_MAX,
            ),
            parts,
            held,
        ];
        let is_given = |(_, is_given): &(&str, bool)| *is_given;
        if let Some((which, _)) =
            relayed.into_iter().find(|one| self.relay.is_some() && is_given(one))
        {
            return Err(OptionsError::Relay { which });
        }
        let here =
            [("--relay", self.relay.is_some()), ("--rotate-count", self.rotation.count.is_some())];
        let of_relay = relayed.into_iter().filter(|one| *one != parts);
        let remote = here.into_iter().chain(of_relay);
        if let Some((which, _)) =
            remote.into_iter().find(|one| self.remote.is_some() && is_given(one))
        {
            return Err(OptionsError::Remote { which });
        }
        let guests = !self.guests.is_empty();
        if let Some((which, _)) = [parts, held].into_iter().find(|one| guests && is_given(one)) {
            return Err(OptionsError::Guest { which });
        }
        if self.guests.len() > GUESTS_MAX {
            return Err(OptionsError::Guests { found: self.guests.len() });
        }
        for (at, guest) in self.guests.iter().enumerate() {
            let name = &guest.name;
            let is_other = self.guests.iter().take(at).all(|other| other.name != *name);
            if !is_other || !is_guest_name(name) {
                let name = name.escape_debug().take(100).collect();
                return Err(OptionsError::GuestName { name });
            }
            let mut before = self.guests.iter().take(at);
            if let Some(other) = before.find(|other| other.channel == guest.channel) {
                return Err(OptionsError::GuestChannel {
                    name: name.clone(),
                    channel: guest.channel.to_string().escape_debug().take(200).collect(),
                    other: other.name.clone(),
                });
            }
        }
        Ok(())
    }
}

/// Returns whether `name` is valid for a guest's folder, which is beside the folders of the layers.
fn is_guest_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=64).contains(&name.len())
        && name.bytes().all(is_allowed)
        && !name.starts_with(['.', '-'])
        && ![USER, KERNEL].contains(&name)
}

/// Returns the smallest power of two in `low..=high` that is at least `number`, or `high` if there is none. Both bounds
/// are powers of two.
fn nearest_power_of_two(number: u64, low: u64, high: u64) -> u64 {
    number.checked_next_power_of_two().unwrap_or(high).clamp(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(change: impl FnOnce(&mut Options)) -> String {
        let mut options = Options::default();
        change(&mut options);
        options.check().unwrap_err().to_string()
    }

    #[test]
    fn options_by_default_are_within_their_limits() {
        assert_eq!(Options::default().check(), Ok(()));
    }

    #[test]
    fn options_with_sizes_outside_the_limits_are_refused_with_the_nearest() {
        for (bytes, suggestion) in [
            (0, 4096),
            (100_000, 131_072),
            (3 << 20, 4 << 20),
            (u64::MAX, 1 << 30),
            (2 << 30, 1 << 30),
        ] {
            let text = message(|options| options.subbuf_bytes = bytes);
            let (asked, suggestion) = (flag_size(bytes), flag_size(suggestion));
            assert!(
                text.starts_with(&format!(
                    "--subbuf-size={asked}: not a power of two from 4K to 1G"
                )),
                "{text}"
            );
            assert!(text.ends_with(&format!("Use {suggestion}")), "{text}");
            let kernel = KernelOptions { subbuf_bytes: Some(bytes), ..KernelOptions::default() };
            let text = message(|options| options.kernel = Some(kernel));
            assert!(text.starts_with(&format!("--kernel-subbuf-size={asked}: not")), "{text}");
        }
        for (number, suggestion) in [(0, 2), (1, 2), (6, 8), (u32::MAX, 32_768)] {
            let text = message(|options| options.nr_subbufs = number);
            assert!(text.ends_with(&format!("Use {suggestion}")), "{text}");
        }
        let text =
            message(|options| (options.nr_subbufs, options.subbuf_bytes) = (32_768, 1 << 30));
        assert!(text.contains("35184372088832 bytes for each CPU"), "{text}");
    }

    #[test]
    fn options_with_times_that_make_no_sense_are_refused() {
        assert!(message(|options| options.duration = Some(Duration::MAX)).contains("--duration"));
        assert!(message(|options| options.flush = Duration::MAX).contains("--flush"));
        assert!(
            message(|options| options.duration = Some(Duration::ZERO)).contains("nothing would")
        );
    }

    #[test]
    fn options_with_kernel_rules_only_record_no_applications() {
        let rules = vec!["sched_*".to_owned()];
        let kernel = KernelOptions { rules, ..KernelOptions::default() };
        let mut options = Options { kernel: Some(kernel), ..Options::default() };
        assert!(Options::default().records_applications() && !options.records_applications());
        let by_default = Options { kernel: Some(KernelOptions::default()), ..Options::default() };
        assert!(by_default.records_applications());
        let rules = vec!["sched_*,default".to_owned()];
        let and_more = KernelOptions { rules, ..KernelOptions::default() };
        let and_more = Options { kernel: Some(and_more), ..Options::default() };
        assert!(and_more.records_applications());
        options.rules = Rules::parse(&["a:*"]).ok();
        assert!(options.records_applications());
    }

    #[test]
    fn options_with_contexts_of_nobody_are_refused() {
        let rules = vec!["sched_*".to_owned()];
        let kernel = KernelOptions { rules, ..KernelOptions::default() };
        let contexts = EventContexts::parse(&["vpid"]).unwrap();
        let mut options = Options { kernel: Some(kernel), contexts, ..Options::default() };
        assert_eq!(options.check(), Err(OptionsError::NoApplications));
        options.rules = Rules::parse(&["a:*"]).ok();
        assert_eq!(options.check(), Ok(()));
    }

    #[test]
    fn options_that_say_anything_of_the_kernel_require_it() {
        let default = KernelOptions::default;
        assert!(default().is_default() && !default().is_required());
        for (options, is_default) in [
            (KernelOptions { rules: vec!["a".into()], ..default() }, false),
            (KernelOptions { probes: vec!["a".into()], ..default() }, false),
            (KernelOptions { all_processes: true, ..default() }, true),
            (KernelOptions { as_lttng: true, ..default() }, true),
        ] {
            assert_eq!((options.is_default(), options.is_required()), (is_default, true));
        }
    }

    #[test]
    fn options_with_pids_and_a_command_are_refused() {
        let text = message(|options| (options.pids, options.command) = (vec![1], vec!["a".into()]));
        assert!(text.contains("either --pid or"), "{text}");
        assert!(message(|options| options.pids = vec![0]).contains("--pid=0"));
        let text = message(|options| (options.everyone, options.pids) = (true, vec![1]));
        assert!(text.contains("--all"), "{text}");
        assert!(message(|options| options.wait_descendants = true).contains("-- COMMAND"));
        assert!(message(|options| options.max_bytes = Some(0)).contains("--max-size=0"));
    }

    #[test]
    fn options_at_their_limits_are_accepted_and_one_step_beyond_is_refused() {
        let check = |change: &dyn Fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            options.check()
        };
        for (bytes, number, is_fine) in [
            (u64::from(PAGE), NR_SUBBUFS_MIN, true),
            (u64::from(PAGE) / 2, 8, false),
            (SUBBUF_BYTES_MAX, 16, true),
            // Each is within its limits; together they are not.
            (SUBBUF_BYTES_MAX, 32, false),
            (u64::from(PAGE), NR_SUBBUFS_MAX, true),
            (SUBBUF_BYTES_MAX, 2 * NR_SUBBUFS_MAX, false),
            (2 * SUBBUF_BYTES_MAX, 2, false),
            (u64::MAX, u32::MAX, false),
        ] {
            let found = check(&|options| {
                (options.subbuf_bytes, options.nr_subbufs) = (bytes, number);
            });
            assert_eq!(found.is_ok(), is_fine, "{bytes} {number}: {found:?}");
        }
        let nanosecond = Duration::from_nanos(1);
        for (flush, duration, is_fine) in [
            (TIME_MAX, Some(TIME_MAX), true),
            (TIME_MAX + nanosecond, None, false),
            (FLUSH, Some(TIME_MAX + nanosecond), false),
            (Duration::ZERO, Some(nanosecond), true),
            (FLUSH, Some(Duration::ZERO), false),
        ] {
            let found = check(&|options| (options.flush, options.duration) = (flush, duration));
            assert_eq!(found.is_ok(), is_fine, "{flush:?} {duration:?}: {found:?}");
        }
        assert_eq!(check(&|options| options.max_bytes = Some(1)), Ok(()));
    }

    #[test]
    fn sizes_that_were_asked_for_are_kept_to_and_others_are_no_burden() {
        let asked = Options {
            subbuf_bytes: SUBBUF_BYTES_MAX,
            nr_subbufs: 16,
            is_size_given: true,
            ..Options::default()
        };
        let sizes = |options: Options| (options.subbuf_bytes, options.nr_subbufs);
        assert_eq!(sizes(asked.for_programs()), (SUBBUF_BYTES_MAX, 16));
        assert_eq!(sizes(asked.for_kernel()), (SUBBUF_BYTES_MAX, 16));
        // 16 GiB for each CPU are one on any machine.
        let chosen = Options { is_size_given: false, ..asked };
        let every = chosen.for_programs().stream_bytes();
        let pids = vec![1];
        let named = Options { pids: pids.clone(), ..chosen.clone() }.for_programs().stream_bytes();
        let command = vec!["x".into()];
        let all = Options { command, everyone: true, ..chosen.clone() }.for_programs();
        assert!(every <= named && named < chosen.stream_bytes(), "{every} {named}");
        assert_eq!(all.stream_bytes(), every);
        assert!(chosen.for_kernel().stream_bytes() < chosen.stream_bytes());
        let own = KernelOptions { nr_subbufs: Some(32), ..KernelOptions::default() };
        let own = Options { kernel: Some(own), pids, ..chosen };
        assert_eq!(sizes(own.for_kernel()), (SUBBUF_BYTES_MAX, 32));
        assert_eq!(own.for_programs().stream_bytes(), named);
    }

    #[test]
    fn options_with_several_faults_are_refused_for_the_first_of_them() {
        let mut options = Options {
            subbuf_bytes: 3,
            nr_subbufs: 3,
            duration: Some(Duration::ZERO),
            flush: Duration::MAX,
            max_bytes: Some(0),
            pids: vec![0],
            command: vec!["x".into()],
            everyone: true,
            ..Options::default()
        };
        let mut found = Vec::new();
        let repairs: [fn(&mut Options); 9] = [
            |options| options.subbuf_bytes = SUBBUF_BYTES,
            |options| options.nr_subbufs = NR_SUBBUFS,
            |options| options.flush = FLUSH,
            |options| options.duration = None,
            |options| options.command.clear(),
            |options| options.everyone = false,
            |options| options.max_bytes = None,
            |options| options.pids = vec![7],
            |_| (),
        ];
        for repair in repairs {
            let text = options.check().err().map(|error| error.to_string()).unwrap_or_default();
            found.push(text.split([':', '=']).next().unwrap_or_default().to_owned());
            repair(&mut options);
        }
        let wanted = [
            "--subbuf-size",
            "--num-subbuf",
            "--flush",
            "--duration",
            "--pid and a command",
            "--all and --pid",
            "--max-size",
            "--pid",
            "",
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn flags_that_asked_for_the_kernel_are_named_in_their_order() {
        let all = KernelOptions {
            rules: vec!["a".into()],
            probes: vec!["b".into()],
            filter: Filter::parse("fd == 3").ok(),
            all_processes: true,
            as_lttng: true,
            contexts: Contexts::default(),
            ..KernelOptions::default()
        };
        let none = KernelOptions::default();
        for (options, flags) in [
            (none.clone(), ""),
            (KernelOptions { probes: all.probes.clone(), ..none.clone() }, "--probe"),
            (KernelOptions { filter: all.filter.clone(), ..none.clone() }, ""),
            (
                KernelOptions { rules: all.rules.clone(), all_processes: true, ..none },
                "--kernel and --all-processes",
            ),
            (all, "--kernel and --probe and --all-processes and --lttng-env"),
        ] {
            assert_eq!(options.flags(), flags);
        }
    }

    #[test]
    fn nearest_size_is_the_next_larger_one_within_the_limits() {
        for (number, wanted) in [
            (0, 16),
            (16, 16),
            (17, 32),
            (63, 64),
            (64, 64),
            (65, 64),
            (1 << 63, 64),
            (u64::MAX, 64),
        ] {
            assert_eq!(nearest_power_of_two(number, 16, 64), wanted, "{number}");
        }
    }
}
