//! The command line of sessions that stay: their verbs are LTTng's, and so are their main options.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum, ValueHint};
use strata_analyze::length::parse_duration;
use strata_kernel::selection::Selection;
use strata_session::options::Rotation;
use strata_session::plan::{
    Change, ChannelChange, ChannelOf, ContextChange, DisableEvents, EnableEvents, Kind, LayerOf,
    Loss,
};
use strata_session::preload::{self, Part};
use strata_session::{Rules, Tracked};

use super::accounts;
use super::answer::AnswerFlags;
use super::probes::{as_enabled, for_session, of_lttng};
use crate::reading::selection::parse_filter;
use crate::talk::units::parse_size;

/// When a trace is cut into parts, of `create` and `record`.
#[derive(Debug, Default, Args)]
pub struct RotateFlags {
    /// Go on in a new part of the trace, DIR/NNNN-DATE-TIME, when the present one has so many bytes of packets, such
    /// as 500M
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub rotate_size: Option<u64>,

    /// Go on in a new part after this time, such as 1h, if anything was recorded
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub rotate_time: Option<Duration>,

    /// Keep only the last N complete parts, and remove those before
    #[arg(long, value_name = "N")]
    pub rotate_count: Option<u64>,
}

impl RotateFlags {
    /// What the session is asked for.
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

/// `strata create`.
#[derive(Debug, Args)]
pub struct CreateFlags {
    /// What the session is called
    pub name: String,

    /// Write the traces to DIR, which must be new or empty [default: strata-trace-DATE-TIME]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,

    /// Write nothing but keep the last records in the buffers, until `strata snapshot NAME` saves them: a
    /// flight recorder
    #[arg(long, conflicts_with_all = ["output", "rotate_size", "rotate_time", "rotate_count"])]
    pub snapshot: bool,

    /// Record with each event who called whom, in programs and the kernel
    #[arg(long)]
    pub stack: bool,

    /// Ask what each CPU does so many times in a second, such as 99, and with which call stacks: as `strata enable-event
    /// -k --sample` does
    #[arg(long, value_name = "RATE")]
    pub sample: Option<u32>,

    /// Have the kernel go on recording when the session's process is killed, until `strata start NAME` makes it again or
    /// `strata destroy NAME` ends it; root only
    #[arg(long)]
    pub keep: bool,

    /// Size of a sub-buffer of channels that say nothing else, a power of two such as 512K or 2M [default: 1M, less with
    /// many CPUs or little memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub subbuf_size: Option<u64>,

    /// Sub-buffers for each CPU of each process, a power of two [default: 8, fewer with very many CPUs]
    #[arg(long, value_name = "N")]
    pub num_subbuf: Option<u32>,

    #[command(flatten)]
    pub rotate: RotateFlags,

    /// Let the buffers of all channels, of programs and the kernel, take no more memory than this together, such as 2G: a
    /// program whose buffers do not fit waits until they do, and a channel that cannot fit is refused
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_memory: Option<u64>,

    /// Use the sizes that would have prevented the losses of the last session of this name, as its report has estimated
    /// them, for channels that say nothing else
    #[arg(long, conflicts_with_all = ["subbuf_size", "num_subbuf"])]
    pub auto: bool,

    /// Members of GROUP may ask for the status of this session of root's, by its name
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,

    /// This is the process of its own
    #[arg(long, hide = true)]
    pub of_session: bool,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// `strata start`.
#[derive(Debug, Args)]
pub struct StartFlags {
    /// The session [default: the only one there is]. One that was killed is made again from its plan
    pub name: Option<String>,

    /// At its first start: use the sizes that the report of the last session of this name has asked for
    #[arg(long)]
    pub auto: bool,

    /// This is the process of its own
    #[arg(long, hide = true)]
    pub of_session: bool,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// `strata rotate`.
#[derive(Debug, Args)]
pub struct OneFlags {
    /// The session [default: the only one there is]
    pub name: Option<String>,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// `strata stop`.
#[derive(Debug, Args)]
pub struct StopFlags {
    /// The session [default: the only one there is]
    pub name: Option<String>,

    /// Exit with 1 if anything is missing, as `strata status` says it
    #[arg(long)]
    pub strict: bool,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// `strata destroy`.
#[derive(Debug, Args)]
pub struct DestroyFlags {
    /// The session [default: the only one there is]
    pub name: Option<String>,

    /// End all sessions of this user
    #[arg(short, long, conflicts_with = "name")]
    pub all: bool,

    /// Exit with 1 if anything is missing, as it says at its end
    #[arg(long)]
    pub strict: bool,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// Which session.
#[derive(Debug, Args)]
pub struct OfSession {
    /// The session [default: the only one there is]
    #[arg(short, long, value_name = "SESSION")]
    pub session: Option<String>,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// Which layer.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct OfLayer {
    /// Of the kernel
    #[arg(short, long)]
    kernel: bool,

    /// Of applications
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
    /// The channel
    #[arg(value_name = "NAME")]
    channel: String,

    #[command(flatten)]
    layer: OfLayer,

    #[command(flatten)]
    pub of: OfSession,

    /// Discard the new record when the buffers are full, and count it [default but with create --snapshot]
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
    /// What the session is asked for.
    pub fn change(&self) -> Change {
        Change::EnableChannel(ChannelChange {
            layer: self.layer.layer(),
            channel: self.channel.clone(),
            mode: match (self.discard, self.overwrite) {
                (true, _) => Some(Loss::Discard),
                (_, true) => Some(Loss::Overwrite),
                _ => None,
            },
            subbuf_size: self.subbuf_size,
            num_subbuf: self.num_subbuf,
            flush_ms: self.flush.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        })
    }
}

/// `strata disable-channel`.
#[derive(Debug, Args)]
pub struct DisableChannelFlags {
    /// The channel
    #[arg(value_name = "NAME")]
    channel: String,

    #[command(flatten)]
    layer: OfLayer,

    #[command(flatten)]
    pub of: OfSession,
}

impl DisableChannelFlags {
    /// What the session is asked for.
    pub fn change(&self) -> Change {
        Change::DisableChannel(ChannelOf {
            layer: self.layer.layer(),
            channel: self.channel.clone(),
        })
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

    /// The channel [default: the layer's only one, or channel0, which is made if there is none]
    #[arg(short, long, value_name = "CHANNEL")]
    channel: Option<String>,

    /// All events
    #[arg(short, long, conflicts_with = "rules")]
    all: bool,

    /// RULE are system calls (-k)
    #[arg(long, conflicts_with = "user")]
    syscall: bool,

    /// RULE are tracepoints, as they are without it
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

    /// But not these, of the same provider where they name none; separated by ','
    #[arg(short = 'x', long, value_name = "RULE", value_delimiter = ',', conflicts_with_all = ["probe", "userspace_probe"])]
    exclude: Vec<String>,

    /// Record with these events who called whom (-k); for programs, use `strata add-context -u -t callstack_user`
    #[arg(long, conflicts_with = "user")]
    stack: bool,

    /// Ask what each CPU does so many times in a second, such as 99, besides RULE, and with which call stacks (-k); as
    /// an event it is cpu_clock
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
    #[arg(long, value_name = "PARTS", value_delimiter = ',', conflicts_with = "kernel", value_parser = Part::parse)]
    pub libc: Vec<Part>,
}

/// What CPUs do is recorded, too.
pub fn sampling(rate: u32, channel: Option<String>) -> Change {
    Change::EnableEvent(EnableEvents {
        layer: LayerOf::Kernel,
        channel,
        rules: vec![strata_kernel::sample::NAME.to_owned()],
        filter: None,
        exclude: Vec::new(),
        stack: false,
        sample: Some(rate),
        probe: false,
    })
}

pub(super) fn checked_filter(text: &str) -> Result<String, String> {
    parse_filter(text).map(|_| text.to_owned())
}

/// One by one.
///
/// # Errors
/// One is not well formed.
pub(super) fn split(layer: LayerOf, texts: &[String]) -> anyhow::Result<Vec<String>> {
    Ok(match layer {
        LayerOf::User => {
            Rules::parse(texts)?.rules().iter().map(|rule| rule.text().to_owned()).collect()
        }
        LayerOf::Kernel => Selection::parse(texts)?.rules().map(str::to_owned).collect(),
    })
}

impl EnableEventFlags {
    /// What the session is asked for: rules that exclude others are of their own.
    ///
    /// # Errors
    /// A rule or level is not well formed.
    pub fn changes(&self) -> anyhow::Result<Vec<Change>> {
        let layer = self.layer.layer();
        let all = [match layer {
            LayerOf::User => "*:*",
            LayerOf::Kernel if self.syscall => "syscalls",
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
            for rule in &mut rules {
                let (sign, name) = match rule.strip_prefix('!') {
                    Some(name) => ("!", name),
                    None => ("", rule.as_str()),
                };
                *rule = format!("{sign}syscalls:{name}");
            }
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
        let mut changes = Vec::new();
        let events = |rules, filter, exclude| {
            let (channel, stack, sample) = (self.channel.clone(), self.stack, None);
            let probe = false;
            EnableEvents { layer, channel, rules, filter, exclude, stack, sample, probe }
        };
        let change = |rules, filter, exclude| Change::EnableEvent(events(rules, filter, exclude));
        if let Some(rate) = self.sample {
            changes.push(sampling(rate, self.channel.clone()));
        }
        if !excluding.is_empty() {
            changes.push(change(excluding, None, Vec::new()));
        }
        match self.exclude.is_empty() {
            true if selecting.is_empty() => {}
            // All of them leave out the same: where there are no others, no filter is needed for it.
            true => changes.push(change(selecting, self.filter.clone(), left_out)),
            false => {
                for rule in selecting {
                    let exclude = [self.excluded(&rule), left_out.clone()].concat();
                    changes.push(change(vec![rule], self.filter.clone(), exclude));
                }
            }
        }
        if !probes.is_empty() {
            let probes = events(probes, self.filter.clone(), Vec::new());
            changes.push(Change::EnableEvent(EnableEvents { probe: true, ..probes }));
        }
        Ok(changes)
    }

    /// What a rule leaves out.
    fn excluded(&self, rule: &str) -> Vec<String> {
        let provider = rule.split_once(':').map_or(rule, |(provider, _)| provider);
        let of_rule = |name: &String| match self.layer.kernel || name.contains(':') {
            true => name.clone(),
            false => format!("{provider}:{name}"),
        };
        self.exclude.iter().map(of_rule).collect()
    }
}

/// `TRACE_WARNING`, as LTTng has it, is `warning`.
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

    /// The channel [default: the layer's only one, or channel0]
    #[arg(short, long, value_name = "CHANNEL")]
    channel: Option<String>,

    /// All rules of the channel
    #[arg(short, long, visible_alias = "all-events", conflicts_with = "rules")]
    all: bool,
}

impl DisableEventFlags {
    /// What the session is asked for.
    ///
    /// # Errors
    /// A rule is not well formed.
    pub fn change(&self) -> anyhow::Result<Change> {
        let layer = self.layer.layer();
        let mut rules = match self.all || self.rules.is_empty() {
            true => Vec::new(),
            false => split(layer, &self.rules)?,
        };
        rules.extend(as_enabled(&self.probe));
        Ok(Change::DisableEvent(DisableEvents { layer, channel: self.channel.clone(), rules }))
    }
}

/// `strata add-context`.
#[derive(Debug, Args)]
pub struct AddContextFlags {
    #[command(flatten)]
    layer: OfLayer,

    #[command(flatten)]
    pub of: OfSession,

    /// The channel [default: all of the layer]
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

    /// Show what TYPE may be
    #[arg(short, long, conflicts_with_all = ["types", "channel", "session"])]
    pub list: bool,
}

impl AddContextFlags {
    /// Of which layer.
    pub fn layer(&self) -> LayerOf {
        self.layer.layer()
    }

    /// What the session is asked for.
    pub fn change(&self) -> Change {
        Change::AddContext(ContextChange {
            layer: self.layer.layer(),
            channel: self.channel.clone(),
            contexts: self.types.clone(),
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

    /// Processes
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = accounts::process)]
    pid: Vec<u32>,

    /// Processes of these users, by number or name
    #[arg(long, value_name = "UID", value_delimiter = ',', value_parser = accounts::user)]
    uid: Vec<u32>,

    /// Processes of these groups, by number or name
    #[arg(long, value_name = "GID", value_delimiter = ',', value_parser = accounts::group)]
    gid: Vec<u32>,

    /// Processes of these names, with '*' and '?'
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    name: Vec<String>,

    /// Processes in these cgroups and below: paths as in /proc/PID/cgroup, names such as shop.service, or containers by
    /// name or id
    #[arg(long, value_name = "CGROUP")]
    pub cgroup: Vec<String>,

    /// Of this kind all, or with untrack none
    #[arg(short, long, value_enum, value_name = "KIND", value_delimiter = ',')]
    all: Vec<KindFlag>,
}

/// `--all KIND`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum KindFlag {
    /// Processes
    Pid,
    /// Users
    Uid,
    /// Groups
    Gid,
    /// Names
    Name,
    /// Cgroups
    Cgroup,
}

impl TrackFlags {
    /// What the session is asked for. `cgroups`: those that were named, as the session knows them.
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
    /// The session [default: the only one there is]
    pub name: Option<String>,

    /// Write to FILE, '-' is stdout [default: $XDG_CONFIG_HOME/strata/sessions/NAME.json]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Write over a file that is there
    #[arg(short, long)]
    pub force: bool,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

/// `strata load`.
#[derive(Debug, Args)]
pub struct LoadFlags {
    /// What the session is called, which is made; and the file's name without --input
    pub name: String,

    /// Read FILE [default: $XDG_CONFIG_HOME/strata/sessions/NAME.json]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub input: Option<PathBuf>,

    /// Write the traces to DIR, and not where the file says
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,

    /// Start it at once, in this process, which ends with it: for a manager of services
    #[arg(long, conflicts_with_all = ["json", "format"])]
    pub foreground: bool,

    /// This is the process of its own
    #[arg(long, hide = true)]
    pub of_session: bool,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use strata_session::plan::{EventRule, Plan};

    use super::*;
    use crate::flags::{Action, Flags};

    /// What `strata enable-event` with these words asks for.
    fn enabled(words: &[&str]) -> Result<Vec<Change>, String> {
        let words = ["strata", "enable-event"].iter().chain(words);
        let flags = Flags::try_parse_from(words).map_err(|error| error.to_string())?;
        let Action::EnableEvent(flags) = flags.action else { return Err("another one".into()) };
        flags.changes().map_err(|error| error.to_string())
    }

    /// Of one change: rules, and what they leave out.
    fn of_one(words: &[&str]) -> (Vec<String>, Vec<String>) {
        let changes = enabled(words).unwrap();
        let [Change::EnableEvent(one)] = &changes[..] else { panic!("{changes:?}") };
        (one.rules.clone(), one.exclude.clone())
    }

    #[test]
    fn events_are_named_as_lttng_names_them() {
        for (words, rules) in [
            (&["-u", "shop:*,bank:*"][..], &["shop:*", "bank:*"][..]),
            (&["shop:*", "-u"], &["shop:*"]),
            (&["--userspace", "--all", "-s", "fr"], &["*:*"]),
            (&["-k", "--all"], &["*"]),
            (&["-k", "--syscall", "--all"], &["syscalls"]),
            (&["-k", "--syscall", "openat,close"], &["syscalls:openat", "syscalls:close"]),
            (&["-k", "--tracepoint", "sched_switch"], &["sched_switch"]),
            (&["-u", "a:*", "--loglevel", "TRACE_WARNING"], &["a:*@warning"]),
            (&["-u", "a:*", "--loglevel-only=info"], &["a:*@=info"]),
        ] {
            assert_eq!(of_one(words).0, rules, "{words:?}");
        }
        let (rules, exclude) = of_one(&["-u", "a:*", "-x", "x,b:y"]);
        assert_eq!((rules, exclude), (vec!["a:*".into()], vec!["a:x".into(), "b:y".into()]));
        // What excludes from the whole channel has no filter.
        let changes = enabled(&["-u", "a:*,!a:x", "-f", "n > 3"]).unwrap();
        let filters: Vec<bool> = changes
            .iter()
            .map(|one| matches!(one, Change::EnableEvent(one) if one.filter.is_some()))
            .collect();
        assert_eq!(filters, [false, true]);
    }

    #[test]
    fn probes_are_rules_of_their_own_and_are_disabled_as_they_were_enabled() {
        let probe = "uprobe:/a:f(x:u8, y:str)";
        let changes =
            enabled(&["-k", "sched_*,!sched_stat*", "--probe", probe, "-f", "x > 3"]).unwrap();
        let found: Vec<_> = changes
            .iter()
            .map(|one| match one {
                Change::EnableEvent(one) => (one.rules.join(" "), one.filter.is_some(), one.probe),
                other => panic!("{other:?}"),
            })
            .collect();
        let wanted =
            [("!sched_stat*", false, false), ("sched_*", true, false), (probe, true, true)];
        assert_eq!(found, wanted.map(|(rule, has, is)| (rule.to_owned(), has, is)));
        let lttng = ["-k", "--userspace-probe=sdt:/a:shop:sold", "sold"];
        assert_eq!(of_one(&lttng).0, ["sold=usdt:/a:shop:sold"]);
        let words =
            ["strata", "disable-event", "-k", "--probe", probe, "--probe", "sold", "sched_*"];
        let flags = Flags::try_parse_from(words).unwrap();
        let Action::DisableEvent(flags) = flags.action else { panic!("another one") };
        let Change::DisableEvent(change) = flags.change().unwrap() else { panic!("another one") };
        assert_eq!(change.rules, ["sched_*", probe, "sold"]);
    }

    #[test]
    fn what_programs_do_in_libc_is_a_rule_of_programs() {
        assert_eq!(of_one(&["-u", "--libc", "malloc:sum,io"]).0, ["libc_sum:*", "io:*"]);
        let (rules, exclude) = of_one(&["-u", "--all", "--libc", "malloc:sum"]);
        assert_eq!(
            (&rules[..], &exclude[..]),
            (&["*:*".to_owned(), "libc_sum:*".to_owned()][..], &["libc:*".to_owned()][..])
        );
        let (rules, exclude) = of_one(&["-u", "shop:*", "--libc", "malloc:sum"]);
        assert_eq!((rules.len(), exclude.len()), (2, 0));
        let changes = enabled(&["-u", "*:*", "--libc", "io", "-x", "x"]).unwrap();
        let excluded = changes.iter().flat_map(|one| match one {
            Change::EnableEvent(one) => one.exclude.clone(),
            other => panic!("{other:?}"),
        });
        assert_eq!(excluded.collect::<Vec<_>>(), ["*:x", "io_all:*", "io:x", "io_all:*"]);
    }

    /// What commands enable one after the other is what each of them has asked for: none excludes what another one enables.
    #[test]
    fn what_a_part_of_libc_leaves_out_is_left_out_of_the_rules_of_its_command_only() {
        let after = |commands: &[&[&str]]| {
            let mut plan = Plan::new(true, None);
            for words in commands {
                let all = enabled(&[&["-u"], *words].concat()).unwrap();
                plan = plan.changed(&Change::Several(all)).unwrap();
            }
            let [channel] = &plan.channels[..] else { panic!("{plan:?}") };
            channel.events.clone()
        };
        let everything = [&["*:*", "--libc", "malloc:sum"][..], &["--libc", "malloc"]];
        let of_sum = [&["--libc", "malloc"][..], &["shop:*", "--libc", "malloc:sum"]];
        let of_io = [&["--libc", "io-all"][..], &["*:*", "--libc", "io"]];
        let of_pthread = [&["-a", "--libc", "pthread"][..], &["--libc", "pthread-all"]];
        for (commands, rule) in [
            (&everything[..], "libc:*"),
            (&of_sum, "libc:*"),
            (&of_io, "io_all:*"),
            (&of_pthread, "pthread_all:*"),
        ] {
            let events = after(commands);
            let is_it = |event: &&EventRule| event.rule == rule && event.exclude.is_empty();
            assert_eq!(events.iter().filter(is_it).count(), 1, "{events:?}");
            assert!(events.iter().all(|event| !event.rule.starts_with('!')), "{events:?}");
        }
    }

    #[test]
    fn events_that_make_no_sense_are_refused() {
        for (words, said) in [
            (&["a:*"][..], "--kernel|--user"),
            (&["-u", "-k", "a:*"], "cannot be used with"),
            (&["-u"], "required"),
            (&["-k", "a", "--loglevel", "3"], "cannot be used with"),
            (&["-u", "a", "--syscall"], "cannot be used with"),
            (&["-u", "a:*@info", "--loglevel", "3"], "it says a log level"),
            (&["-u", "a:*", "-f", "n >"], "--filter"),
            (&["-u", "a:"], "no event behind"),
            (&["-u", "--probe", "uprobe:/a:f"], "cannot be used with"),
            (&["-k", "--probe", "uprobe:/a"], "the function is missing"),
            (&["-k", "--probe", "uprobe:/a:f", "-x", "f"], "cannot be used with"),
            (&["-k", "--userspace-probe=/a:f", "--all"], "cannot be used with"),
            (&["-k", "--userspace-probe=/a"], "write elf:PATH:SYMBOL"),
            (&["-k", "--libc", "malloc"], "cannot be used with"),
            (&["-u", "--libc", "mallocs"], "'mallocs' is none of"),
        ] {
            let text = enabled(words).unwrap_err();
            assert!(text.contains(said), "{words:?}: {text}");
        }
    }

    #[test]
    fn tracked_are_of_several_kinds_and_all_of_one() {
        let flags = |words: &[&str]| {
            let words = ["strata", "track"].iter().chain(words);
            match Flags::try_parse_from(words).map(|flags| flags.action) {
                Ok(Action::Track(flags)) => Ok(flags),
                Ok(_) => panic!("another one"),
                Err(error) => Err(error.to_string()),
            }
        };
        let changes = flags(&["--pid", "1,2", "--name", "sh*"]).unwrap().changes(&[], false);
        let tracked = Tracked {
            pids: Some(vec![1, 2]),
            names: Some(vec!["sh*".into()]),
            ..Tracked::default()
        };
        assert_eq!(changes, [Change::Track(tracked)]);
        let changes = flags(&["--all", "pid,uid"]).unwrap().changes(&[], true);
        assert_eq!(changes, [Change::UntrackAll(vec![Kind::Pids, Kind::Uids])]);
        assert!(flags(&[]).unwrap_err().contains("--pid"));
        assert!(flags(&["--pid", "x"]).is_err());
    }
}
