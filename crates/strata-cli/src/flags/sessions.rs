//! The command line of persistent sessions; commands and main options have LTTng's names.
//!
//! ```text
//! create NAME ─▶ enable-channel, enable-event, track, add-context ─▶ start ⇄ stop ─▶ destroy
//!                              (also between start and stop)            └ rotate, snapshot
//! ```
//!
//! Each command becomes either a request to the session's process or a list of plan changes (`strata_session::plan`):
//! The structs only translate. The session checks a change as a whole against its
//! present plan, so nothing here knows what a session has already.
//!
//! - `OfSession` is the flag `-s NAME` of all commands that change one session. Without it, the only session is taken;
//!   if there are several, the command fails and names them.
//! - `OfLayer` is `-u` or `-k`: rules, channels and contexts belong to programs or to the kernel.
//! - `KindFlag` and the lists of `track` select processes by id, user, group, name or control group.
//! - Flags that `record` shares with `create` (rotation, retention, memory limits) are structs that both flatten.
//!
//! LTTng's flags that have no meaning here are accepted only where scripts depend on them (`--no-wait`). All others are
//! refused with the command that does the same.
//!
//! Parsing opens no file and no socket. So `strata enable-event --help`, and a mistake in a rule, need no
//! session.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::{ArgAction, Args, ValueEnum, ValueHint};
use strata_analyze::duration_text::parse_duration;
use strata_kernel::event_rules::EventSelection;
use strata_kernel::CallStacks;
use strata_remote::Destination;
use strata_session::options::Rotation;
use strata_session::plan::{
    Change, ChannelChange, ChannelOf, ContextChange, DisableEvents, EnableEvents, Kind, LayerOf,
    Loss,
};
use strata_session::preload::{self, PreloadPart};
use strata_session::Retention;
use strata_session::{MinFree, Rules, Tracked};

use super::auto::AutoFlags;
use super::output_format::AnswerFlags;
use super::probes::{as_enabled, for_session, of_lttng};
use super::relay::SpoolFlag;
use super::sampling::SamplingFlags;
use super::users_and_groups;
use crate::reading::selection::parse_filter;
use crate::units::{parse_argv_bytes, parse_min_free, parse_size, parse_slower};

/// Rule that selects all system calls.
const SYSTEM_CALLS: &str = "syscalls";

/// Flags of `create` and `record` that cut a trace into parts.
#[derive(Debug, Default, Args)]
pub struct RotateFlags {
    /// Start a new part of the trace, DIR/NNNN-DATE-TIME, when the present part has SIZE bytes, such as 500M
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub rotate_size: Option<u64>,

    /// Start a new part after this time, such as 1h, if anything was recorded
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub rotate_time: Option<Duration>,

    /// Keep only the last N complete parts; remove others
    #[arg(long, value_name = "N")]
    pub rotate_count: Option<u64>,
}

impl RotateFlags {
    /// Returns the rotation that the flags ask for.
    pub fn rotation(&self) -> Rotation {
        Rotation {
            size: self.rotate_size,
            time_ms: self
                .rotate_time
                .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            count: self.rotate_count,
        }
    }
}

/// Flags that limit how much a session leaves behind.
#[derive(Debug, Default, Args)]
pub struct RetentionFlags {
    /// Keep the newest N of all that the session leaves: parts of the trace, snapshots, traces from before it was killed;
    /// 0: all [default: all, but 32 snapshots of triggers]
    #[arg(long, value_name = "N")]
    pub keep_count: Option<u64>,

    /// Keep the newest of all that the session leaves, at most SIZE together, such as 2G
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub keep_size: Option<u64>,
}

impl RetentionFlags {
    /// Returns the retention that the flags ask for.
    pub fn retention(&self) -> Retention {
        Retention { count: self.keep_count, size: self.keep_size }
    }
}

/// `strata create`.
#[derive(Debug, Args)]
pub struct CreateFlags {
    /// Name of the session
    pub name: String,

    /// Write the traces to DIR, which must be new or empty [default: strata-trace-DATE-TIME]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,

    /// Send the traces to `strata relayd` on HOST, as record --to does; with --snapshot, the snapshots
    #[arg(long, value_name = "HOST[:PORT][,certificates=DIR]", value_parser = Destination::parse,
        conflicts_with_all = ["output", "keep", "rotate_count"])]
    pub to: Option<Destination>,

    #[command(flatten)]
    pub spool: SpoolFlag,

    /// Make a flight recorder: keep the last records in the buffers, and write nothing until `strata snapshot NAME`
    /// saves them
    #[arg(long, conflicts_with_all = ["output", "rotate_size", "rotate_time", "rotate_count"])]
    pub snapshot: bool,

    /// Record the call stack with each event, in programs and the kernel; 'dwarf' also of programs without frame
    /// pointers, as record --stack does
    #[arg(long, value_name = "fp|dwarf[,BYTES]", value_parser = CallStacks::parse, num_args = 0..=1,
        require_equals = true, default_missing_value = "fp")]
    pub stack: Option<CallStacks>,

    /// Sample the call stack of each CPU RATE times per second, such as 99, as `strata enable-event -k --sample` does
    #[arg(long, value_name = "RATE")]
    pub sample: Option<u32>,

    /// Record up to BYTES bytes of each executed program's arguments, up to 8191 [default: 1023]
    #[arg(long, value_name = "BYTES", value_parser = parse_argv_bytes)]
    pub argv_bytes: Option<u32>,

    /// Keep recording the kernel when the session's process is killed, until `strata start NAME` makes the session again
    /// or `strata destroy NAME` ends it; root only
    #[arg(long)]
    pub keep: bool,

    /// Size of a sub-buffer of channels without their own size, a power of two such as 512K or 2M [default: 1M, less
    /// with many CPUs or little memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub subbuf_size: Option<u64>,

    /// Sub-buffers for each CPU of each process, a power of two [default: 8, fewer with very many CPUs]
    #[arg(long, value_name = "N")]
    pub num_subbuf: Option<u32>,

    #[command(flatten)]
    pub rotate: RotateFlags,

    #[command(flatten)]
    pub keep_last: RetentionFlags,

    /// Limit the memory of the buffers of all channels, of programs and the kernel, such as 2G. A program whose buffers do
    /// not fit waits until they do, and a channel that cannot fit is refused
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_memory: Option<u64>,

    /// Write no trace and no snapshot while less than this is free on the file system, such as 2G; 0: write until it is
    /// full [default: 5%]
    #[arg(long, value_name = "SIZE|PERCENT", value_parser = parse_min_free, env = "STRATA_MIN_FREE", hide_env_values = true)]
    pub min_free: Option<MinFree>,

    /// Let members of GROUP see the status of this session of root's, by its name
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,

    /// Let members of the group save snapshots in DIR, and nowhere else. DIR belongs to root, is readable by the group,
    /// and is made if it does not exist
    #[arg(long, value_name = "DIR", requires_all = ["group", "snapshot"], value_hint = ValueHint::DirPath)]
    pub group_snapshots: Option<PathBuf>,

    /// Run the session in this process
    #[arg(long, hide = true)]
    pub of_session: bool,

    #[command(flatten)]
    pub auto: AutoFlags,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// `strata start`.
#[derive(Debug, Args)]
pub struct StartFlags {
    /// Name of the session [default: the only one there is]. One that was killed is made again from its plan
    pub name: Option<String>,

    /// Start all sessions of this user
    #[arg(short, long, conflicts_with = "name")]
    pub all: bool,

    /// NAME is a pattern with '*' and '?': start all sessions of this user that it fits
    #[arg(short, long, requires = "name")]
    pub glob: bool,

    /// Run the session in this process
    #[arg(long, hide = true)]
    pub of_session: bool,

    #[command(flatten)]
    pub auto: AutoFlags,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// Accepts LTTng's `--no-wait`. It has no effect: the answer comes soon and tells what the session did.
#[derive(Debug, Args)]
pub struct NoWaitFlags {
    /// Accepted without effect
    #[arg(short, long, hide = true)]
    no_wait: bool,
}

/// `strata rotate`.
#[derive(Debug, Args)]
pub struct OneFlags {
    /// Name of the session [default: the only one there is]
    pub name: Option<String>,

    #[command(flatten)]
    pub wait: NoWaitFlags,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// `strata stop`.
#[derive(Debug, Args)]
pub struct StopFlags {
    /// Name of the session [default: the only one there is]
    pub name: Option<String>,

    /// Stop all sessions of this user
    #[arg(short, long, conflicts_with = "name")]
    pub all: bool,

    /// NAME is a pattern with '*' and '?': stop all sessions of this user that it fits
    #[arg(short, long, requires = "name")]
    pub glob: bool,

    /// Exit with 1 if anything is missing, as `strata status` says it
    #[arg(long)]
    pub strict: bool,

    #[command(flatten)]
    pub wait: NoWaitFlags,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// `strata destroy`.
#[derive(Debug, Args)]
pub struct DestroyFlags {
    /// Name of the session [default: the only one there is]
    pub name: Option<String>,

    /// End all sessions of this user
    #[arg(short, long, conflicts_with = "name")]
    pub all: bool,

    /// NAME is a pattern with '*' and '?': end all sessions of this user that it fits
    #[arg(short, long, requires = "name")]
    pub glob: bool,

    /// Exit with 1 if anything is missing, as it says at its end
    #[arg(long)]
    pub strict: bool,

    #[command(flatten)]
    pub wait: NoWaitFlags,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// The flag `--session`, for commands that change a session.
#[derive(Debug, Args)]
pub struct OfSession {
    /// Name of the session [default: the only one there is]
    #[arg(short, long, value_name = "SESSION")]
    pub session: Option<String>,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// Flags that choose a layer.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct OfLayer {
    /// Events of the kernel
    #[arg(short, long)]
    kernel: bool,

    /// Events of applications
    #[arg(short, long, alias = "userspace")]
    user: bool,
}

impl OfLayer {
    fn layer(&self) -> LayerOf {
        match self.kernel {
            true => LayerOf::Kernel,
            false => LayerOf::User,
        }
    }
}

/// `strata enable-channel`.
#[derive(Debug, Args)]
pub struct EnableChannelFlags {
    /// The channel, or several: NAME,NAME
    #[arg(value_name = "NAME", value_delimiter = ',', required = true, num_args = 1, action = ArgAction::Set)]
    channels: Vec<String>,

    #[command(flatten)]
    layer: OfLayer,

    #[command(flatten)]
    pub of: OfSession,

    /// Discard the new record when the buffers are full, and count it [default, except with create --snapshot]
    #[arg(long, conflicts_with = "overwrite")]
    discard: bool,

    /// Overwrite the oldest packet when the buffers are full
    #[arg(long)]
    overwrite: bool,

    /// Size of a sub-buffer, a power of two such as 512K or 2M [default: the session's]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    subbuf_size: Option<u64>,

    /// Sub-buffers for each CPU of each process, a power of two [default: the session's]
    #[arg(long, value_name = "N")]
    num_subbuf: Option<u32>,

    /// Write what is in the buffers at least this often, such as 100ms; 0: only when a sub-buffer is full
    /// [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    flush: Option<Duration>,
}

impl EnableChannelFlags {
    /// Returns the changes that the flags ask for.
    pub fn changes(&self) -> Vec<Change> {
        let one = |channel: &String| {
            Change::EnableChannel(ChannelChange {
                layer: self.layer.layer(),
                channel: channel.clone(),
                mode: match (self.discard, self.overwrite) {
                    (true, _) => Some(Loss::Discard),
                    (_, true) => Some(Loss::Overwrite),
                    _ => None,
                },
                subbuf_size: self.subbuf_size,
                num_subbuf: self.num_subbuf,
                flush_ms: self
                    .flush
                    .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            })
        };
        self.channels.iter().map(one).collect()
    }
}

/// `strata disable-channel`.
#[derive(Debug, Args)]
pub struct DisableChannelFlags {
    /// The channel, or several: NAME,NAME
    #[arg(value_name = "NAME", value_delimiter = ',', required = true, num_args = 1, action = ArgAction::Set)]
    channels: Vec<String>,

    #[command(flatten)]
    layer: OfLayer,

    #[command(flatten)]
    pub of: OfSession,
}

impl DisableChannelFlags {
    /// Returns the changes that the flags ask for.
    pub fn changes(&self) -> Vec<Change> {
        let layer = self.layer.layer();
        let one = |channel: &String| {
            Change::DisableChannel(ChannelOf { layer, channel: channel.clone() })
        };
        self.channels.iter().map(one).collect()
    }
}

/// `strata enable-event`.
#[derive(Debug, Args)]
pub struct EnableEventFlags {
    /// Rules as `strata record -u` and `-k` take them, such as 'shop:*' or 'sched_*,openat'
    #[arg(value_name = "RULE", required_unless_present_any = ["all", "sample", "probe", "userspace_probe", "libc"])]
    rules: Vec<String>,

    #[command(flatten)]
    layer: OfLayer,

    #[command(flatten)]
    pub of: OfSession,

    /// Name of the channel [default: the layer's only one, or channel0, which is made if there is none]
    #[arg(short, long, value_name = "CHANNEL")]
    channel: Option<String>,

    /// All events of the layer
    #[arg(short, long, conflicts_with = "rules")]
    all: bool,

    /// RULE are system calls (-k)
    #[arg(long, conflicts_with = "user")]
    syscall: bool,

    /// RULE are tracepoints (the default)
    #[arg(long, hide = true)]
    tracepoint: bool,

    /// Only events of this log level and worse ones (-u)
    #[arg(long, value_name = "LEVEL", conflicts_with_all = ["kernel", "loglevel_only"])]
    loglevel: Option<String>,

    /// Only events of this log level (-u)
    #[arg(long, value_name = "LEVEL", conflicts_with = "kernel")]
    loglevel_only: Option<String>,

    /// Only those that EXPRESSION selects
    #[arg(short, long, value_name = "EXPRESSION", value_parser = checked_filter)]
    filter: Option<String>,

    /// Record a system call (-k) or a span (-u) only if it takes at least TIME, such as 1ms; both ends are recorded at its
    /// end, and nothing of faster ones
    #[arg(long, value_name = "TIME", value_parser = parse_slower)]
    slower: Option<u64>,

    #[command(flatten)]
    sampling: SamplingFlags,

    /// Leave out these events, of RULE's provider if they name none; separated by ','
    #[arg(short = 'x', long, value_name = "RULE", value_delimiter = ',', conflicts_with_all = ["probe", "userspace_probe"])]
    exclude: Vec<String>,

    /// Record the call stack with these events (-k), with 'dwarf' also of programs without frame pointers; for programs'
    /// events, use `strata add-context -u -t callstack_user`
    #[arg(long, value_name = "fp|dwarf[,BYTES]", value_parser = CallStacks::parse, num_args = 0..=1,
        require_equals = true, default_missing_value = "fp", conflicts_with = "user")]
    stack: Option<CallStacks>,

    /// Also sample the call stack of each CPU RATE times per second, such as 99 (-k); the event is cpu_clock
    #[arg(long, value_name = "RATE", conflicts_with = "user")]
    sample: Option<u32>,

    /// Record a function or USDT probe of a program or library, as `strata record --probe` does (-k), such as
    /// 'uprobe:./server:handle(request:u64)' or 'usdt:libc.so.6:libc:*'; may be repeated
    #[arg(long, value_name = "PROBE", conflicts_with = "user")]
    probe: Vec<String>,

    /// The same as LTTng writes it: elf:PATH:SYMBOL or sdt:PATH:PROVIDER:NAME; RULE is the name of its event
    #[arg(long, value_name = "LOCATION", conflicts_with_all = ["user", "probe", "all", "syscall"])]
    userspace_probe: Option<String>,

    /// Record what programs do in libc, by the objects of `strata record --libc` (-u): programs that are started with them,
    /// as `strata list --libc PARTS` says
    #[arg(long, value_name = "PARTS", value_delimiter = ',', conflicts_with = "kernel",
        value_parser = PreloadPart::parse)]
    pub libc: Vec<PreloadPart>,
}

/// Makes the change that samples the call stacks of CPUs `rate` times per second.
pub fn sampling(
    rate: u32,
    channel: Option<String>,
    stack: CallStacks,
    filter: Option<String>,
) -> Change {
    Change::EnableEvent(EnableEvents {
        layer: LayerOf::Kernel,
        channel,
        rules: vec![strata_kernel::cpu_samples::NAME.to_owned()],
        filter,
        exclude: Vec::new(),
        stack,
        sample: Some(rate),
        probe: false,
        slower_ns: None,
        every: None,
        at_most: None,
    })
}

pub(super) fn checked_filter(text: &str) -> Result<String, String> {
    parse_filter(text).map(|_| text.to_owned())
}

/// Splits texts into single rules.
///
/// # Errors
/// A rule is not well formed.
pub(super) fn split(layer: LayerOf, texts: &[String]) -> anyhow::Result<Vec<String>> {
    Ok(match layer {
        LayerOf::User => {
            Rules::parse(texts)?.rules().iter().map(|rule| rule.text().to_owned()).collect()
        }
        LayerOf::Kernel => EventSelection::parse(texts)?.rules().map(str::to_owned).collect(),
    })
}

/// Makes the rule for a system call from a rule that was given with `--syscall`.
fn of_system_call(rule: &str) -> String {
    let (sign, name) = match rule.strip_prefix('!') {
        Some(name) => ("!", name),
        None => ("", rule),
    };
    format!("{sign}syscalls:{name}")
}

impl EnableEventFlags {
    /// Returns the changes that the flags ask for. Rules with different exclusions become separate changes.
    ///
    /// # Errors
    /// A rule or level is not well formed.
    pub fn changes(&self) -> anyhow::Result<Vec<Change>> {
        let layer = self.layer.layer();
        let all = [match layer {
            LayerOf::User => "*:*",
            LayerOf::Kernel if self.syscall => SYSTEM_CALLS,
            LayerOf::Kernel => "*",
        }
        .to_owned()];
        let (mut probes, mut texts) = (for_session(&self.probe)?, self.rules.clone());
        if let Some(location) = &self.userspace_probe {
            probes.push(of_lttng(location, &std::mem::take(&mut texts))?);
        }
        if self.all {
            texts = all.to_vec();
        }
        let left_out = preload::left_out(&self.libc, &texts);
        texts.extend(preload::selecting(&self.libc));
        let mut rules = if texts.is_empty() { Vec::new() } else { split(layer, &texts)? };
        if self.syscall && !self.all {
            rules.iter_mut().for_each(|rule| *rule = of_system_call(rule));
        }
        let level = match (&self.loglevel, &self.loglevel_only) {
            (Some(level), _) => Some(format!("@{}", level_of(level))),
            (None, Some(level)) => Some(format!("@={}", level_of(level))),
            (None, None) => None,
        };
        if let Some(level) = level {
            for rule in rules.iter_mut().filter(|rule| !rule.starts_with('!')) {
                if rule.contains('@') {
                    bail!("event rule '{rule}': it says a log level. Leave out --loglevel");
                }
                rule.push_str(&level);
            }
        }
        let (excluding, selecting): (Vec<String>, Vec<String>) =
            rules.into_iter().partition(|rule| rule.starts_with('!'));
        if let (Some(flag), true, true) =
            (self.sampling.first(), selecting.is_empty(), probes.is_empty())
        {
            bail!("{flag}: what excludes has neither --every nor --at-most. Name what is recorded");
        }
        let mut changes = Vec::new();
        let events = |rules, filter, exclude| {
            let (channel, sample) = (self.channel.clone(), None);
            let stack = self.stack.unwrap_or_default();
            EnableEvents {
                layer,
                channel,
                rules,
                filter,
                exclude,
                stack,
                sample,
                probe: false,
                slower_ns: None,
                every: None,
                at_most: None,
            }
        };
        let change = |rules, filter, exclude| Change::EnableEvent(events(rules, filter, exclude));
        let selecting_change = |rules, filter, exclude| {
            let slower_ns = self.slower;
            Change::EnableEvent(EnableEvents {
                slower_ns,
                ..self.sampling.of(events(rules, filter, exclude))
            })
        };
        if let Some(rate) = self.sample {
            let stack = self.stack.unwrap_or_default();
            changes.push(sampling(rate, self.channel.clone(), stack, None));
        }
        if !excluding.is_empty() {
            changes.push(change(excluding, None, Vec::new()));
        }
        match self.exclude.is_empty() {
            true if selecting.is_empty() => {}
            // All rules have the same exclusions: without further ones, a single change without a filter suffices.
            true => changes.push(selecting_change(selecting, self.filter.clone(), left_out)),
            false => {
                for rule in selecting {
                    let exclude = [self.excluded(&rule), left_out.clone()].concat();
                    changes.push(selecting_change(vec![rule], self.filter.clone(), exclude));
                }
            }
        }
        if !probes.is_empty() {
            let probes = self.sampling.of(events(probes, self.filter.clone(), Vec::new()));
            changes.push(Change::EnableEvent(EnableEvents { probe: true, ..probes }));
        }
        Ok(changes)
    }

    /// Returns the exclusions that apply to a rule.
    fn excluded(&self, rule: &str) -> Vec<String> {
        let provider = rule.split_once(':').map_or(rule, |(provider, _)| provider);
        let of_rule = |name: &String| match self.layer.kernel || name.contains(':') {
            true => name.clone(),
            false => format!("{provider}:{name}"),
        };
        self.exclude.iter().map(of_rule).collect()
    }
}

/// Converts LTTng's names `callstack-user` and `callstack-kernel` to ours, which have a '_'. Returns other names
/// unchanged.
fn context_of(text: &str) -> String {
    match text.strip_prefix("callstack-") {
        Some(whose) => format!("callstack_{whose}"),
        None => text.to_owned(),
    }
}

/// Converts LTTng's names of log levels, such as `TRACE_WARNING`, to ours.
fn level_of(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    lower.strip_prefix("trace_").unwrap_or(&lower).to_owned()
}

/// `strata disable-event`.
#[derive(Debug, Args)]
pub struct DisableEventFlags {
    /// Rules as they were enabled
    #[arg(value_name = "RULE", required_unless_present_any = ["all", "probe"])]
    rules: Vec<String>,

    /// Probes as they were enabled, or by the names of their events (-k); may be repeated
    #[arg(long, value_name = "PROBE", conflicts_with_all = ["user", "all"])]
    probe: Vec<String>,

    #[command(flatten)]
    layer: OfLayer,

    #[command(flatten)]
    pub of: OfSession,

    /// Name of the channel [default: the layer's only one, or channel0]
    #[arg(short, long, value_name = "CHANNEL")]
    channel: Option<String>,

    /// All rules of the channel; with --syscall the one for all system calls
    #[arg(short, long, visible_alias = "all-events", conflicts_with = "rules")]
    all: bool,

    /// RULE are system calls that were enabled with --syscall (-k)
    #[arg(long, conflicts_with_all = ["user", "probe"])]
    syscall: bool,

    /// RULE are tracepoints (the default)
    #[arg(long, hide = true)]
    tracepoint: bool,
}

impl DisableEventFlags {
    /// Returns the change that the flags ask for.
    ///
    /// # Errors
    /// A rule is not well formed.
    pub fn change(&self) -> anyhow::Result<Change> {
        let layer = self.layer.layer();
        let mut rules = match self.all || self.rules.is_empty() {
            true => Vec::new(),
            false => split(layer, &self.rules)?,
        };
        match (self.syscall, self.all) {
            (true, true) => rules.push(SYSTEM_CALLS.to_owned()),
            (true, false) => rules.iter_mut().for_each(|rule| *rule = of_system_call(rule)),
            (false, _) => {}
        }
        rules.extend(as_enabled(&self.probe));
        Ok(Change::DisableEvent(DisableEvents { layer, channel: self.channel.clone(), rules }))
    }
}

/// `strata add-context`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("whose").required(true).multiple(true).args(["kernel", "user", "list"])))]
pub struct AddContextFlags {
    /// Add it to events of the kernel
    #[arg(short, long, conflicts_with = "user")]
    kernel: bool,

    /// Add it to events of applications
    #[arg(short, long, alias = "userspace")]
    user: bool,

    #[command(flatten)]
    pub of: OfSession,

    /// Name of the channel [default: all of the layer]
    #[arg(short, long, value_name = "CHANNEL")]
    channel: Option<String>,

    /// What each record has besides, such as vpid or procname; may be repeated
    #[arg(
        short,
        long = "type",
        value_name = "TYPE",
        required_unless_present = "list",
        value_delimiter = ','
    )]
    types: Vec<String>,

    /// Show what TYPE may be, of -u, -k or both
    #[arg(short, long, conflicts_with_all = ["types", "channel", "session"])]
    pub list: bool,
}

impl AddContextFlags {
    /// Returns the layers that the command applies to: one, or both with --list.
    pub fn layers(&self) -> Vec<LayerOf> {
        match (self.kernel, self.user) {
            (true, _) => vec![LayerOf::Kernel],
            (false, true) => vec![LayerOf::User],
            (false, false) => vec![LayerOf::User, LayerOf::Kernel],
        }
    }

    /// Returns the change that the flags ask for.
    pub fn change(&self) -> Change {
        Change::AddContext(ContextChange {
            layer: if self.kernel { LayerOf::Kernel } else { LayerOf::User },
            channel: self.channel.clone(),
            contexts: self.types.iter().map(|name| context_of(name)).collect(),
        })
    }
}

/// `strata track`, `strata untrack`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("whom").required(true).multiple(true)
    .args(["pid", "uid", "gid", "name", "cgroup", "all"])))]
pub struct TrackFlags {
    #[command(flatten)]
    pub of: OfSession,

    /// Processes, by their numbers
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = users_and_groups::process)]
    pid: Vec<u32>,

    /// Processes of these users, by number or name
    #[arg(long, value_name = "UID", value_delimiter = ',', value_parser = users_and_groups::user)]
    uid: Vec<u32>,

    /// Processes of these groups, by number or name
    #[arg(long, value_name = "GID", value_delimiter = ',', value_parser = users_and_groups::group)]
    gid: Vec<u32>,

    /// Processes of these names, with '*' and '?'
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    name: Vec<String>,

    /// Processes in these cgroups and below: paths as in /proc/PID/cgroup, names such as shop.service, or containers by
    /// name or id
    #[arg(long, value_name = "CGROUP")]
    pub cgroup: Vec<String>,

    /// All of this kind, or with untrack none
    #[arg(short, long, value_enum, value_name = "KIND", value_delimiter = ',')]
    all: Vec<KindFlag>,
}

/// The value of `--all KIND`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum KindFlag {
    /// Processes by number
    Pid,
    /// Users by name or number
    Uid,
    /// Groups by name or number
    Gid,
    /// Processes by name
    Name,
    /// Processes by cgroup
    Cgroup,
}

impl TrackFlags {
    /// Returns the changes that the flags ask for; with `less`, those of `untrack`. `cgroups` are the paths of the
    /// control groups that were given.
    pub fn changes(&self, cgroups: &[String], less: bool) -> Vec<Change> {
        fn some<T: Clone>(all: &[T]) -> Option<Vec<T>> {
            (!all.is_empty()).then(|| all.to_vec())
        }
        let kinds: Vec<Kind> = self
            .all
            .iter()
            .map(|kind| match kind {
                KindFlag::Pid => Kind::Pids,
                KindFlag::Uid => Kind::Uids,
                KindFlag::Gid => Kind::Gids,
                KindFlag::Name => Kind::Names,
                KindFlag::Cgroup => Kind::Cgroups,
            })
            .collect();
        let tracked = Tracked {
            pids: some(&self.pid),
            uids: some(&self.uid),
            gids: some(&self.gid),
            names: some(&self.name),
            cgroups: some(cgroups),
            with_machine: false,
        };
        let mut changes = Vec::new();
        if !kinds.is_empty() {
            changes.push(if less { Change::UntrackAll(kinds) } else { Change::TrackAll(kinds) });
        }
        if tracked != Tracked::default() {
            changes.push(if less { Change::Untrack(tracked) } else { Change::Track(tracked) });
        }
        changes
    }
}

/// `strata save`.
#[derive(Debug, Args)]
pub struct SaveFlags {
    /// Name of the session [default: the only one there is]
    pub name: Option<String>,

    /// Save all sessions of this user, each to its own file
    #[arg(short, long, conflicts_with_all = ["name", "output"])]
    pub all: bool,

    /// Write to FILE, '-' is stdout [default: $XDG_CONFIG_HOME/strata/sessions/NAME.json]
    #[arg(short, long, alias = "output-path", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Write over an existing file
    #[arg(short, long)]
    pub force: bool,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// `strata load`.
#[derive(Debug, Args)]
pub struct LoadFlags {
    /// Name of the session to make, and of its file without --input
    #[arg(required_unless_present = "all")]
    pub name: Option<String>,

    /// Make all sessions that `strata save` has saved in $XDG_CONFIG_HOME/strata/sessions
    #[arg(short, long, conflicts_with_all = ["name", "input", "output", "foreground"])]
    pub all: bool,

    /// Destroy a session of this name first, if there is one
    #[arg(short, long, conflicts_with = "foreground")]
    pub force: bool,

    /// Read FILE [default: $XDG_CONFIG_HOME/strata/sessions/NAME.json]
    #[arg(short, long, alias = "input-path", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub input: Option<PathBuf>,

    /// Write the traces to DIR, and not where the file says
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,

    /// Start it at once, in this process, which ends with it: for a manager of services
    #[arg(long, conflicts_with_all = ["json", "format"])]
    pub foreground: bool,

    /// Run the session in this process
    #[arg(long, hide = true)]
    pub of_session: bool,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

#[cfg(test)]
mod tests;
