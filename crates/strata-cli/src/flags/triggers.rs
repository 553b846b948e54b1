//! The command line of triggers: actions of a session, and their conditions.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::{ArgGroup, Args, ValueEnum, ValueHint};
use strata_analyze::duration_text::parse_duration;
use strata_session::plan::{Action, Condition, How, LayerOf, Selection, Trigger, PAUSE};

use super::sessions::{checked_filter, split, OfSession};
use crate::stderr::messages::lttng;
use crate::units::{parse_size, parse_slower};

/// `strata add-trigger`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("condition").required(true).args(["event", "silence", "ended", "signal", "fill", "written", "part"])))]
#[command(group(ArgGroup::new("rule").args(["user", "kernel"])))]
#[command(override_usage = "strata add-trigger [-s SESSION] CONDITION [ACTION]...")]
#[command(after_help = ACTIONS)]
pub struct AddTriggerFlags {
    #[command(flatten)]
    pub of: OfSession,

    /// Name of the trigger [default: trigger0 and so on]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// When an event happens that -u or -k selects, whether the session records it or not
    #[arg(long, requires = "rule", help_heading = "Conditions")]
    event: bool,

    /// When no such event has happened for TIME, such as 5s; once for each silence
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "rule", help_heading = "Conditions")]
    silence: Option<Duration>,

    /// When a program that the session records ends
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        conflicts_with = "rule",
        help_heading = "Conditions"
    )]
    ended: Option<HowFlag>,

    /// When the session's process gets SIGUSR1
    #[arg(long, conflicts_with = "rule", help_heading = "Conditions")]
    signal: bool,

    /// When the fullest buffer is filled to PERCENT or more, such as 80; once until it is below that again
    #[arg(long, value_name = "PERCENT", conflicts_with = "rule", help_heading = "Conditions",
        value_parser = clap::value_parser!(u8).range(1..=100))]
    fill: Option<u8>,

    /// Whenever another SIZE was written, such as 1G
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "rule", help_heading = "Conditions")]
    written: Option<u64>,

    /// When a part of the trace is complete; with --pause 0 for each
    #[arg(long, conflicts_with = "rule", help_heading = "Conditions")]
    part: bool,

    /// An event of programs, as enable-event -u takes it
    #[arg(short, long, alias = "userspace", value_name = "RULE", help_heading = "Conditions")]
    user: Option<String>,

    /// An event of the kernel, as enable-event -k takes it
    #[arg(short, long, value_name = "RULE", help_heading = "Conditions")]
    kernel: Option<String>,

    /// Only those that EXPRESSION selects, such as 'price > 100'
    #[arg(short, long, value_name = "EXPRESSION", value_parser = checked_filter, requires = "rule",
        help_heading = "Conditions")]
    filter: Option<String>,

    /// Only system calls (-k) or spans (-u) that took at least TIME, such as 50ms: as the filter 'duration >= TIME'
    #[arg(long, value_name = "TIME", value_parser = parse_slower, requires = "rule", help_heading = "Conditions")]
    slower: Option<u64>,

    /// Start the session
    #[arg(long, conflicts_with = "stop", help_heading = "Actions")]
    start: bool,

    /// Save what the buffers hold, in a new folder in DIR [default: where the session was made]
    #[arg(long, value_name = "DIR", num_args = 0..=1, value_hint = ValueHint::DirPath, help_heading = "Actions")]
    snapshot: Option<Option<PathBuf>>,

    /// Start a new part of the session's trace
    #[arg(long, help_heading = "Actions")]
    rotate: bool,

    /// Stop the session
    #[arg(long, help_heading = "Actions")]
    stop: bool,

    /// Start a command, with the session's rights; all words after --run belong to it
    #[arg(long, value_name = "COMMAND", num_args = 1.., allow_hyphen_values = true, help_heading = "Actions",
        value_hint = ValueHint::CommandName)]
    run: Vec<String>,

    /// Do not fire again within this time; suppressed events are counted [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "How often")]
    pause: Option<Duration>,

    /// Fire at most N times
    #[arg(long, value_name = "N", help_heading = "How often")]
    times: Option<u64>,
}

const ACTIONS: &str = "Actions are done in this order: --start, --snapshot, --rotate, --stop, --run; without any it is \
    --snapshot. The\ncommand has STRATA_SESSION_NAME, STRATA_TRIGGER and, behind --snapshot, STRATA_SNAPSHOT, behind \
    --rotate, STRATA_PART in its\nenvironment, and reads from its stdin a line of JSON that says why it runs, with the event of --event.";

/// The value of `--ended HOW`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum HowFlag {
    /// By any signal
    Signal,
    /// By a signal, or with an exit status other than 0
    Failure,
    /// In any way
    Any,
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Options of this command; after `--run` they are arguments of the command to run.
const OPTIONS: [&str; 17] = [
    "--name",
    "--event",
    "--silence",
    "--ended",
    "--signal",
    "--fill",
    "--written",
    "--part",
    "--filter",
    "--slower",
    "--start",
    "--snapshot",
    "--rotate",
    "--stop",
    "--pause",
    "--times",
    "--session",
];

impl AddTriggerFlags {
    /// Returns the command after `--run` if options of this command are among its words, since they may have been meant
    /// for the trigger.
    pub fn swallowed(&self) -> Option<String> {
        let name = |word: &String| word.split('=').next().unwrap_or_default().to_owned();
        let is_ours = |word: &String| OPTIONS.contains(&name(word).as_str());
        self.run.iter().any(is_ours).then(|| self.run.join(" "))
    }

    /// Makes the trigger `name` from the flags.
    ///
    /// # Errors
    /// A rule or a path is not valid.
    pub fn trigger(&self, name: String) -> anyhow::Result<Trigger> {
        let mut actions = Vec::new();
        if self.start {
            actions.push(Action::Start);
        }
        let is_default = !self.start && !self.rotate && !self.stop && self.run.is_empty();
        if let Some(folder) = self.snapshot.clone().or(is_default.then_some(None)) {
            let folder = folder.map(std::path::absolute).transpose()?;
            actions.push(Action::Snapshot { folder });
        }
        if self.rotate {
            actions.push(Action::Rotate);
        }
        if self.stop {
            actions.push(Action::Stop);
        }
        if let Some(text) = lttng::of_run(&self.run) {
            bail!(text);
        }
        if !self.run.is_empty() {
            actions.push(Action::Run { command: self.run.clone() });
        }
        let pause_ms = ms(self.pause.unwrap_or(PAUSE));
        Ok(Trigger { name, when: self.condition()?, actions, pause_ms, times: self.times })
    }

    fn condition(&self) -> anyhow::Result<Condition> {
        if let Some(how) = self.ended {
            let how = match how {
                HowFlag::Signal => How::Signal,
                HowFlag::Failure => How::Failure,
                HowFlag::Any => How::Any,
            };
            return Ok(Condition::Ended { how });
        }
        match (self.fill, self.written) {
            (Some(percent), _) => return Ok(Condition::Fill { percent }),
            (None, Some(bytes)) => return Ok(Condition::Written { bytes }),
            (None, None) if self.part => return Ok(Condition::Part),
            (None, None) => {}
        }
        let (layer, rule) = match (&self.user, &self.kernel) {
            (Some(rule), _) => (LayerOf::User, rule),
            (None, Some(rule)) => (LayerOf::Kernel, rule),
            (None, None) => return Ok(Condition::Signal),
        };
        if split(layer, std::slice::from_ref(rule))?.len() != 1 {
            bail!("event rule '{rule}' names several rules. A trigger has one; make a trigger for each");
        }
        let bound = self.slower.map(|nanos| format!("duration >= {nanos}ns"));
        let filter = match (&self.filter, bound) {
            (Some(filter), Some(bound)) => Some(format!("({filter}) && {bound}")),
            (filter, bound) => bound.or_else(|| filter.clone()),
        };
        let selection = Selection { layer, rule: rule.clone(), filter };
        Ok(match self.silence {
            Some(time) => Condition::Silence { selection, ms: ms(time) },
            None => Condition::Event { selection },
        })
    }
}

/// `strata remove-trigger`.
#[derive(Debug, Args)]
pub struct RemoveTriggerFlags {
    /// Name of the trigger
    #[arg(value_name = "NAME")]
    pub name: String,

    #[command(flatten)]
    pub of: OfSession,
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::flags::{Action as Verb, Flags};

    use super::*;

    /// Parses the words of a `strata add-trigger`.
    fn added(words: &[&str]) -> Result<Trigger, String> {
        let words = ["strata", "add-trigger"].iter().chain(words);
        let flags = Flags::try_parse_from(words).map_err(|error| error.to_string())?;
        let Verb::AddTrigger(flags) = flags.action else { return Err("another one".into()) };
        flags.trigger("t".into()).map_err(|error| error.to_string())
    }

    #[test]
    fn trigger_has_one_condition_and_a_snapshot_unless_it_says_otherwise() {
        let selection = |layer, rule: &str, filter: Option<&str>| Selection {
            layer,
            rule: rule.into(),
            filter: filter.map(str::to_owned),
        };
        let user = selection(LayerOf::User, "a:*", Some("n > 3"));
        let of = |words| added(words).map(|one| (one.when, one.actions)).unwrap();
        let save = Action::Snapshot { folder: None };
        let event = Condition::Event { selection: user.clone() };
        assert_eq!(of(&["--event", "-u", "a:*", "-f", "n > 3"]), (event, vec![save.clone()]));
        let silence = Condition::Silence { selection: user, ms: 1500 };
        assert_eq!(
            of(&["--silence", "1500ms", "-u", "a:*", "-f", "n > 3", "--stop"]),
            (silence, vec![Action::Stop])
        );
        let kernel =
            Condition::Event { selection: selection(LayerOf::Kernel, "sched_switch", None) };
        let folder = Action::Snapshot { folder: Some("/x".into()) };
        assert_eq!(
            of(&[
                "--event",
                "-k",
                "sched_switch",
                "--stop",
                "--rotate",
                "--snapshot",
                "/x",
                "--run",
                "a",
                "-b",
                "--stop"
            ]),
            (
                kernel,
                vec![
                    folder,
                    Action::Rotate,
                    Action::Stop,
                    Action::Run { command: vec!["a".into(), "-b".into(), "--stop".into()] }
                ]
            )
        );
        assert_eq!(
            of(&["--ended", "failure", "--snapshot", "--start"]),
            (Condition::Ended { how: How::Failure }, vec![Action::Start, save])
        );
        assert_eq!(of(&["--fill", "80", "--rotate"]).0, Condition::Fill { percent: 80 });
        assert_eq!(of(&["--written=1G", "--rotate"]).0, Condition::Written { bytes: 1 << 30 });
        assert_eq!(of(&["--part", "--run", "true"]).0, Condition::Part);
        let signal = added(&["--signal", "--pause", "0", "--times", "3"]).unwrap();
        assert_eq!((signal.when, signal.pause_ms, signal.times), (Condition::Signal, 0, Some(3)));
        assert_eq!(added(&["--signal"]).unwrap().pause_ms, 10_000);
    }

    #[test]
    fn triggers_that_make_no_sense_are_refused() {
        for (words, said) in [
            (&[][..], "required"),
            (&["--event"], "required"),
            (&["-u", "a:*"], "required"),
            (&["--signal", "-u", "a:*"], "cannot be used with"),
            (&["--signal", "--ended", "any"], "cannot be used with"),
            (&["--event", "-u", "a:*", "-k", "b"], "cannot be used with"),
            (&["--event", "-u", "a:*", "-f", "n >"], "--filter"),
            (&["--event", "-u", "a:*,b:*"], "names several rules"),
            (&["--event", "-u", "a:"], "no event behind"),
            (&["--signal", "--start", "--stop"], "cannot be used with"),
            (&["--signal", "--run"], "--run"),
            (&["--part", "-u", "a:*"], "cannot be used with"),
            (&["--part", "--fill", "3"], "cannot be used with"),
            (&["--fill", "101"], "--fill"),
            (&["--written", "much"], "--written"),
        ] {
            let text = added(words).unwrap_err();
            assert!(text.contains(said), "{words:?}: {text}");
        }
    }
}
