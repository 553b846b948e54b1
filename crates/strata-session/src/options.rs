//! What a session is asked to do, its defaults and its limits.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
pub(crate) use strata_abi::ring::NR_SUBBUFS_MAX;
use strata_abi::ring::{NR_SUBBUFS_MIN, PAGE, SUBBUF_BYTES_MAX};

pub use strata_ctf::metadata::Version;
use strata_filter::Filter;
pub use strata_kernel::sample::RATE_MAX;
pub use strata_kernel::Contexts;
use strata_model::LossMode;
pub use strata_relay::{Place, PlaceProblem};
use strata_user::{EventContexts, Rules};

use crate::record::preload::PreloadPart;
use crate::report::{KERNEL, USER};
use crate::sizes::{BuffersOf, Hardware};
pub use crate::sizes::{NR_SUBBUFS, SUBBUF_BYTES};

/// What is recorded of the kernel.
#[derive(Debug, Clone, Default)]
pub struct KernelOptions {
    /// Which events, each as it was written; separated by commas where one text has several. If there is no
    /// probe either: those that are recorded by default.
    pub rules: Vec<String>,
    /// Uprobes and USDT probes of programs and libraries.
    pub probes: Vec<String>,
    /// Which records of them; `None`: all.
    pub filter: Option<Filter>,
    /// System calls, page faults and such of every process, and not only of those asked for.
    pub all_processes: bool,
    /// The trace says that lttng-modules recorded it.
    pub as_lttng: bool,
    /// What records say beside the thread.
    pub contexts: Contexts,
    /// What CPUs do is asked so often, besides the events \[Hz\].
    pub sample: Option<u32>,
    /// No event is recorded by default: samples alone.
    pub samples_only: bool,
    /// Size of one of its sub-buffers \[byte\]; `None`: as those of applications.
    pub subbuf_bytes: Option<u64>,
    /// Its sub-buffers for each CPU; `None`: as many as applications have.
    pub nr_subbufs: Option<u32>,
}

impl KernelOptions {
    /// Did nobody say which events?
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.rules.is_empty() && self.probes.is_empty() && !self.samples_only
    }

    /// Is it an error if the kernel cannot be recorded? It is none where nothing was said of it.
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

    /// The flags of `strata record` that ask for it: `--kernel and --filter`.
    pub(crate) fn flags(&self) -> String {
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

/// A virtual machine that is recorded beside this one, by a recorder of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestOptions {
    /// What it is called, and the folder of its traces.
    pub name: String,
    /// Where its recorder is.
    pub channel: Place,
    /// The process that runs it, where it is not the one that listens at the channel.
    pub pid: Option<u32>,
    /// QEMU's control socket, which says which of its threads runs which virtual CPU.
    pub qmp: Option<PathBuf>,
    /// Its memory, as a file of the host.
    pub memory: Option<PathBuf>,
    /// What its traces may take \[byte\].
    pub max_bytes: u64,
}

/// When a trace is rotated by itself, and how many of its parts stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// As soon as the packets of the present part have so many bytes.
    #[serde(default)]
    pub size: Option<u64>,
    /// After so much time, if anything was recorded \[ms\].
    #[serde(default)]
    pub time_ms: Option<u64>,
    /// Complete parts that stay; `None`: all.
    #[serde(default)]
    pub count: Option<u64>,
}

impl Rotation {
    /// Nothing is done by itself.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Rotation::default()
    }

    /// Is everything within its limits?
    ///
    /// # Errors
    /// The first thing that is not.
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

/// What `strata record` is asked to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which tracepoints of applications are recorded. `None`: none if `kernel` names events, else all.
    pub rules: Option<Rules>,
    /// Which of their events are recorded; `None`: all. The kernel's filter is in `kernel`.
    pub filter: Option<Filter>,
    /// What is recorded of the kernel; `None`: nothing.
    pub kernel: Option<KernelOptions>,
    /// The trace's folder; `None`: a new `strata-trace-YYYYMMDD-HHMMSS` in the current folder.
    pub output: Option<PathBuf>,
    /// The trace goes to the recorder of the host that this machine is a guest of.
    pub relay: Option<Place>,
    /// Virtual machines that are recorded, too.
    pub guests: Vec<GuestOptions>,
    /// Which version of CTF the traces' metadata is.
    pub version: Version,
    /// What happens when the buffers are full.
    pub mode: LossMode,
    /// Size of one sub-buffer \[byte\], a power of two.
    pub subbuf_bytes: u64,
    /// Sub-buffers for each CPU of each process, a power of two.
    pub nr_subbufs: u32,
    /// Each record of an application says its thread.
    pub vtid: bool,
    /// What it says of its moment besides.
    pub contexts: EventContexts,
    /// The user said one of these two, or both: they are kept to. Else they may be too large for this machine.
    pub is_size_given: bool,
    /// How often what is not yet a whole sub-buffer is written; zero: only at the end.
    pub flush: Duration,
    /// Nothing is written but snapshots, which are asked for: a flight recorder.
    pub hold: bool,
    /// When to stop; `None`: when the command ends, or when told to.
    pub duration: Option<Duration>,
    /// When to stop: as soon as the trace's files have so many bytes; `None`: whatever they have.
    pub max_bytes: Option<u64>,
    /// The folder is that of a recording that was killed, which goes on in further parts.
    pub goes_on: bool,
    /// The folder is in memory, until there is another one to go on in.
    pub is_early: bool,
    /// When it is cut into parts.
    pub rotation: Rotation,
    /// What the buffers of all processes and the kernel may take together \[byte\]; `None`: whatever they need.
    pub max_memory: Option<u64>,
    /// Running processes to record; empty: every process, unless there is a command.
    pub pids: Vec<u32>,
    /// Every process, also where there is a command.
    pub everyone: bool,
    /// What of the command is recorded that nobody has instrumented, by objects that are preloaded.
    pub libc: Vec<PreloadPart>,
    /// The command has not ended before all have that it and its descendants have started.
    pub wait_descendants: bool,
    /// The command to run and record with all its descendants; empty: none.
    pub command: Vec<OsString>,
}

/// Flush period unless told otherwise.
pub const FLUSH: Duration = Duration::from_secs(1);
/// Longest time that can be asked for: ten years.
pub const TIME_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);
/// A part of a trace is not smaller \[byte\].
pub const ROTATE_BYTES_MIN: u64 = 64 << 10;
/// What a guest's traces may take unless told otherwise \[byte\].
pub const GUEST_BYTES_MAX: u64 = 4 << 30;
/// Guests of one recording.
pub const GUESTS_MAX: usize = 64;
/// Largest sub-buffer whose packets can be relayed \[byte\].
pub const RELAY_SUBBUF_MAX: u64 = 16 << 20;
/// A trace is not rotated more often by itself \[ms\].
pub const ROTATE_MS_MIN: u64 = 100;
/// Complete parts that are kept where others are removed: each takes a descriptor.
pub const ROTATE_COUNT_MAX: u64 = 500;
/// Most memory that one stream's sub-buffers may take together \[byte\].
pub const STREAM_BYTES_MAX: u64 = 16 << 30;

impl Default for Options {
    fn default() -> Options {
        Options {
            rules: None,
            filter: None,
            kernel: None,
            output: None,
            relay: None,
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
            goes_on: false,
            is_early: false,
            rotation: Rotation::default(),
            max_memory: None,
            pids: Vec::new(),
            everyone: false,
            libc: Vec::new(),
            wait_descendants: false,
            command: Vec::new(),
        }
    }
}

/// Why the options cannot be met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The size of a sub-buffer is outside its limits.
    #[error(
        "--{of}subbuf-size={bytes}: not a power of two from {PAGE} to {SUBBUF_BYTES_MAX} bytes. \
         Use {suggestion}"
    )]
    SubbufSize {
        /// `kernel-`, of its own buffers, or nothing.
        of: &'static str,
        /// What was asked for.
        bytes: u64,
        /// The nearest size that is allowed \[byte\].
        suggestion: u64,
    },
    /// The number of sub-buffers is outside its limits.
    #[error(
        "--{of}num-subbuf={number}: not a power of two from {NR_SUBBUFS_MIN} to {NR_SUBBUFS_MAX}. \
         Use {suggestion}"
    )]
    Subbufs {
        /// `kernel-`, of its own buffers, or nothing.
        of: &'static str,
        /// What was asked for.
        number: u32,
        /// The nearest number that is allowed.
        suggestion: u32,
    },
    /// Both are within their limits, and too much together.
    #[error(
        "--num-subbuf={number} of --subbuf-size={subbuf_bytes}: {bytes} bytes for each CPU of each \
         process, at most {STREAM_BYTES_MAX}. Use fewer or smaller ones"
    )]
    StreamBytes {
        /// Sub-buffers asked for.
        number: u32,
        /// Size of each \[byte\].
        subbuf_bytes: u64,
        /// Together \[byte\].
        bytes: u64,
    },
    /// A time is longer than any recording.
    #[error("--{which}: {} seconds, at most {}. Leave it out for no limit", time.as_secs(), TIME_MAX.as_secs())]
    Time {
        /// `duration` or `flush`.
        which: &'static str,
        /// What was asked for.
        time: Duration,
    },
    /// A duration of nothing records nothing.
    #[error("--duration=0: nothing would be recorded. Use a time such as 10s, or leave it out")]
    NoTime,
    /// A command and running processes exclude each other.
    #[error(
        "--pid and a command: one of them is recorded at a time. Use either --pid or -- COMMAND; \
         two `strata record` may run at once"
    )]
    PidsAndCommand,
    /// All and some exclude each other.
    #[error("--all and --pid: use either --all for every process, or --pid for some")]
    AllAndPids,
    /// There is no descendant without a command.
    #[error("--wait-descendants: of a command, and there is none. Write `strata record --wait-descendants -- COMMAND`, or leave it out")]
    NoCommand,
    /// A trace of nothing.
    #[error("--max-size=0: nothing would be recorded. Use a size such as 100M, or leave it out")]
    NoSize,
    /// Parts of a trace that are none.
    #[error("--rotate-{which}: {found} {unit}, from {low} to {high} are possible")]
    Rotation {
        /// `size`, `time` or `count`.
        which: &'static str,
        /// What was asked for.
        found: u64,
        /// At least.
        low: u64,
        /// At most.
        high: u64,
        /// In what the numbers are counted, such as bytes.
        unit: &'static str,
    },
    /// What is removed meanwhile has no size at the end.
    #[error("--max-size and --rotate-count: parts of the trace are removed while it is recorded. Leave one of them out")]
    SizeOfParts,
    /// What is never written has no size and no folder.
    #[error("--snapshot and {which}: nothing is written but snapshots, each to a folder of its own. Leave one of them out")]
    Hold {
        /// The flag.
        which: &'static str,
    },
    /// What goes to another machine is not in a folder here.
    #[error("--relay and {which}: the trace goes to the host's recorder. Leave one of them out")]
    Relay {
        /// The flag.
        which: &'static str,
    },
    /// What a guest's recorder hands over is written as it comes.
    #[error("--guest and {which}: what a guest hands over is written as it comes, in one piece. Leave one of them out")]
    Guest {
        /// The flag.
        which: &'static str,
    },
    /// A folder of this name is somebody else's, or none.
    #[error(
        "--guest={name}: a guest's name is 1 to 64 letters, digits, '.', '_' and '-', begins with neither '.' nor '-', \
         is not 'user' or 'kernel', and no other guest's. Use another one"
    )]
    GuestName {
        /// As it was written, in part.
        name: String,
    },
    /// Two guests at one channel.
    #[error(
        "--guest={name}: its channel, {channel}, is that of guest {other}. Each recorder in a guest needs a channel of its own"
    )]
    GuestChannel {
        /// Its name.
        name: String,
        /// Where both are.
        channel: String,
        /// The other one's name.
        other: String,
    },
    /// More than anybody has.
    #[error("--guest: {found} guests, at most {GUESTS_MAX}. Use fewer")]
    Guests {
        /// How many were asked for.
        found: usize,
    },
    /// Contexts of nobody.
    #[error(
        "--context: of applications' records, and none are recorded, since the kernel's events are named and no \
         tracepoints. Name them with --user, such as -u '*:*', or leave it out"
    )]
    NoApplications,
    /// Too many samples.
    #[error("--sample={found}: so often in a second, from 1 to {RATE_MAX} are possible. 99 is usual: it keeps step with no other timer")]
    Rate {
        /// What was asked for.
        found: u32,
    },
    /// 0 is no process.
    #[error(
        "--pid=0: no process has this number. See `strata list` for those that can be recorded"
    )]
    PidZero,
}

impl Options {
    /// Are applications recorded?
    #[must_use]
    pub fn records_applications(&self) -> bool {
        let is_alone = |kernel: &KernelOptions| !kernel.is_default() && !kernel.samples_only;
        self.rules.is_some() || !self.kernel.as_ref().is_some_and(is_alone)
    }

    /// What one stream's buffer takes \[byte\].
    pub(crate) fn stream_bytes(&self) -> u64 {
        let frames = u64::from(self.nr_subbufs) + u64::from(self.mode == LossMode::Overwrite);
        frames.saturating_mul(self.subbuf_bytes)
    }

    /// Are the buffers others than those of `other`?
    pub(crate) fn is_other_buffer(&self, other: &Options) -> bool {
        let of = |one: &Options| (one.mode, one.subbuf_bytes, one.nr_subbufs, one.flush);
        of(self) != of(other)
    }

    /// Is everything within its limits?
    ///
    /// # Errors
    /// The first thing that is not.
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
    /// The same with the sizes of the kernel's buffers, on this machine.
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

    /// The same with the sizes of programs' buffers, on this machine.
    pub(crate) fn for_programs(&self) -> Options {
        let are_named = !self.pids.is_empty() || !self.command.is_empty();
        self.clone().fitted(match are_named && !self.everyone {
            true => BuffersOf::Program,
            false => BuffersOf::EveryProgram,
        })
    }

    /// With smaller buffers, where these would be a burden on this machine and nobody asked for them.
    pub(crate) fn fitted(mut self, of: BuffersOf) -> Options {
        if !self.is_size_given {
            let usual = (self.subbuf_bytes, self.nr_subbufs);
            (self.subbuf_bytes, self.nr_subbufs) = Hardware::here().fit(of, usual);
        }
        self
    }

    /// `of`: how the flags begin that said the sizes.
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

/// Whether a folder beside those of the layers may be called so.
fn is_guest_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=64).contains(&name.len())
        && name.bytes().all(is_allowed)
        && !name.starts_with(['.', '-'])
        && ![USER, KERNEL].contains(&name)
}

/// The power of two from `low` to `high`, both powers of two, that holds at least `number` if one does.
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
        for (bytes, suggestion) in
            [(0, 4096), (100_000, 131_072), (u64::MAX, 1 << 30), (2 << 30, 1 << 30)]
        {
            let text = message(|options| options.subbuf_bytes = bytes);
            assert!(text.starts_with(&format!("--subbuf-size={bytes}: not a power")), "{text}");
            assert!(text.ends_with(&format!("Use {suggestion}")), "{text}");
            let kernel = KernelOptions { subbuf_bytes: Some(bytes), ..KernelOptions::default() };
            let text = message(|options| options.kernel = Some(kernel));
            assert!(text.starts_with(&format!("--kernel-subbuf-size={bytes}: not")), "{text}");
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
