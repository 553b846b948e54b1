//! Triggers of a plan: what a session does automatically when something happens. `trigger.rs` decides when one fires.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_filter::Filter;
use strata_kernel::CallStacks;
use strata_user::Outcome;

use super::names::near;
use super::{at_most, Channel, EventRule, LayerOf, Loss, Plan, PlanError, CHANNEL, TEXT_BYTES_MAX};

/// The most triggers of a session.
pub const TRIGGERS_MAX: usize = 16;
/// The default pause of a trigger after it has fired.
pub const PAUSE: Duration = Duration::from_secs(10);
/// The most words of a command.
pub const WORDS_MAX: usize = 64;
/// The shortest silence that can be requested: events are counted about ten times a second.
pub const SILENCE_MIN: Duration = Duration::from_millis(500);
/// The least size of written packets that a condition can have \[byte\].
pub const WRITTEN_MIN: u64 = 4096;
/// The longest pause or silence that a trigger can have.
const TIME_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// Size of a watcher's sub-buffer; its records are only counted \[byte\].
const SUBBUF_BYTES: u64 = 4096;
const NR_SUBBUFS: u32 = 2;

/// A trigger: a condition, the actions to perform, and limits on how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trigger {
    /// The trigger's name, which is unique in its session.
    pub name: String,
    /// The condition under which it fires.
    pub when: Condition,
    /// The actions, in order. If an action fails, the following ones are still performed.
    pub actions: Vec<Action>,
    /// Time after firing during which the trigger does not fire again \[ms\].
    #[serde(default = "pause_ms")]
    pub pause_ms: u64,
    /// The most times that the trigger fires; `None` for no limit.
    #[serde(default)]
    pub times: Option<u64>,
}

fn pause_ms() -> u64 {
    PAUSE.as_millis() as u64
}

/// The condition on which a trigger fires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Condition {
    /// A selected event happens. The session need not record that event.
    Event {
        /// The events that fire the trigger.
        selection: Selection,
    },
    /// None of the selected events has happened for some time. Fires once for each silence.
    Silence {
        /// The selected events.
        selection: Selection,
        /// Length of the silence \[ms\].
        ms: u64,
    },
    /// A recorded program ends.
    Ended {
        /// The kind of end that fires the trigger.
        how: How,
    },
    /// The session's process receives SIGUSR1.
    Signal,
    /// The fullest buffer is filled to this degree or more. Fires again only after all buffers were below the degree.
    Fill {
        /// The degree \[%\].
        percent: u8,
    },
    /// The session has written packets of this size in total since the trigger was added, or since the condition was
    /// last met.
    Written {
        /// The size of the packets \[byte\].
        bytes: u64,
    },
    /// A chunk of the trace is complete.
    Part,
}

/// A selection of events, similar to an event rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// The layer of the events.
    pub layer: LayerOf,
    /// The rule, in the form of `strata enable-event`.
    pub rule: String,
    /// The filter on the rule's events; `None` for all.
    #[serde(default)]
    pub filter: Option<String>,
}

/// The kind of end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// The program was ended by a signal.
    Signal,
    /// The program was ended by a signal, or exited with a status that is not 0.
    Failure,
    /// The program ended in any way.
    Any,
}

/// An action of a trigger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// Saves a snapshot in a new folder in `folder`.
    Snapshot {
        /// The parent folder; `None` for the folder in which the session was created.
        #[serde(default)]
        folder: Option<PathBuf>,
    },
    /// Resumes recording.
    Start,
    /// Starts a new chunk of the trace.
    Rotate,
    /// Pauses recording.
    Stop,
    /// Starts a command as the session's user.
    Run {
        /// The words of the command.
        command: Vec<String>,
    },
}

impl How {
    /// Returns whether a program with this end fires the trigger. `outcome`: `None` for an unknown end.
    pub(crate) fn admits(self, outcome: Option<Outcome>) -> bool {
        match self {
            How::Any => true,
            How::Failure => outcome.is_some_and(Outcome::is_failure),
            How::Signal => matches!(outcome, Some(Outcome::Killed(_))),
        }
    }
}

impl Selection {
    /// Returns whether the selection has a bound on the duration of system calls or spans, so that their entries and
    /// exits must be recorded.
    pub(crate) fn is_of_both_ends(&self) -> bool {
        let filter = self.filter.as_deref().and_then(|text| Filter::parse(text).ok());
        let split = filter.and_then(|filter| filter.split_duration().ok());
        split.is_some_and(|split| split.at_least > 0)
    }
}

impl Condition {
    /// Returns the events that the condition is about; `None` if it is about something else.
    pub(crate) fn selection(&self) -> Option<&Selection> {
        match self {
            Condition::Event { selection } | Condition::Silence { selection, .. } => {
                Some(selection)
            }
            Condition::Ended { .. }
            | Condition::Signal
            | Condition::Fill { .. }
            | Condition::Written { .. }
            | Condition::Part => None,
        }
    }
}

impl Plan {
    /// Returns the absolute paths of the folders in which the plan's triggers save snapshots.
    pub(crate) fn snapshot_folders(&self) -> Vec<PathBuf> {
        let actions = self.triggers.iter().flat_map(|trigger| &trigger.actions);
        let folders = actions.filter_map(|action| match action {
            Action::Snapshot { folder } => Some(folder.as_deref().unwrap_or(Path::new("."))),
            _ => None,
        });
        let folders = folders.chain(self.group_snapshots.as_deref());
        folders.filter_map(|folder| std::path::absolute(folder).ok()).collect()
    }

    /// Returns the plan of a watcher for a trigger's events: a flight recorder with very small buffers, whose records
    /// are only counted. `None` if the trigger does not wait for events.
    pub(crate) fn watching(&self, trigger: &Trigger) -> Option<Plan> {
        let Selection { layer, rule, filter } = trigger.when.selection()?.clone();
        let events = vec![EventRule {
            rule,
            filter,
            exclude: Vec::new(),
            stack: CallStacks::None,
            sample: None,
            probe: false,
            slower_ns: None,
            every: None,
            at_most: None,
            enabled: true,
        }];
        let channel = Channel {
            name: CHANNEL.to_owned(),
            layer,
            enabled: true,
            mode: Some(Loss::Overwrite),
            subbuf_size: Some(SUBBUF_BYTES),
            num_subbuf: Some(NR_SUBBUFS),
            flush_ms: None,
            contexts: Vec::new(),
            events,
        };
        let tracked = self.tracked.clone();
        Some(Plan { channels: vec![channel], tracked, ..Plan::new(true, None) })
    }

    pub(super) fn check_triggers(&self) -> Result<(), PlanError> {
        at_most("triggers of a session", self.triggers.len(), TRIGGERS_MAX)?;
        for (index, trigger) in self.triggers.iter().enumerate() {
            let name: String = trigger.name.escape_debug().take(100).collect();
            let wrong = |why: String| Err(PlanError::Trigger { name: name.clone(), why });
            if !super::is_name(&trigger.name) {
                let why = "not a name. Use 1 to 64 of A-Z a-z 0-9 . _ -, and none of . and - first";
                return wrong(why.to_owned());
            }
            if self.triggers[..index].iter().any(|one| one.name == trigger.name) {
                return wrong("there is one of this name. Use another --name".to_owned());
            }
            if let Err(why) = self.check_trigger(trigger) {
                return wrong(why);
            }
        }
        Ok(())
    }

    fn check_trigger(&self, trigger: &Trigger) -> Result<(), String> {
        let most = TIME_MAX.as_millis() as u64;
        if trigger.pause_ms > most {
            return Err(format!("a pause of {} ms, at most {most}", trigger.pause_ms));
        }
        if trigger.times == Some(0) {
            return Err("0 times: it would never fire".to_owned());
        }
        if let Condition::Silence { ms, .. } = trigger.when {
            let least = SILENCE_MIN.as_millis() as u64;
            if !(least..=most).contains(&ms) {
                return Err(format!("a silence of {ms} ms: from {least} to {most} are possible"));
            }
        }
        self.check_condition(&trigger.when)?;
        if let Some(watching) = self.watching(trigger) {
            let channel = &watching.channels[0];
            if channel.events[0].is_exclusion() {
                return Err(format!(
                    "rule '{}' selects nothing: it excludes",
                    channel.events[0].rule
                ));
            }
            watching.check_channel(channel).map_err(|error| error.to_string())?;
        }
        if !(1..=8).contains(&trigger.actions.len()) {
            return Err(format!("{} actions, from 1 to 8 are possible", trigger.actions.len()));
        }
        trigger.actions.iter().try_for_each(|action| self.check_action(action))
    }

    fn check_condition(&self, condition: &Condition) -> Result<(), String> {
        let is_of_trace = matches!(
            condition,
            Condition::Fill { .. } | Condition::Written { .. } | Condition::Part
        );
        match condition {
            _ if is_of_trace && self.snapshot => {
                Err("a flight recorder writes nothing by itself, and its buffers are \
                always full. --fill, --written and --part are of sessions without --snapshot"
                    .to_owned())
            }
            Condition::Fill { percent } if !(1..=100).contains(percent) => {
                Err(format!("a fill of {percent} %: from 1 to 100 are possible"))
            }
            Condition::Written { bytes } if *bytes < WRITTEN_MIN => {
                Err(format!("a size of {bytes} bytes, at least {WRITTEN_MIN} are possible"))
            }
            _ => Ok(()),
        }
    }

    fn check_action(&self, action: &Action) -> Result<(), String> {
        let is_text = |text: &str| text.len() <= TEXT_BYTES_MAX && !text.contains('\0');
        match action {
            Action::Snapshot { .. } if !self.snapshot => {
                Err("the session writes its records to files as they come, and snapshots are of sessions that were \
                     made with --snapshot. Use --rotate, --run, --start or --stop"
                    .to_owned())
            }
            Action::Rotate if self.snapshot => {
                Err("a flight recorder writes nothing but snapshots, and nothing is rotated. Use --snapshot".to_owned())
            }
            Action::Snapshot { folder: Some(folder) }
                if !folder.is_absolute() || !folder.to_str().is_some_and(is_text) =>
            {
                let shown: String = folder.to_string_lossy().escape_debug().take(100).collect();
                Err(format!("folder '{shown}': not a path from '/'"))
            }
            Action::Run { command } => {
                let is_named = command.first().is_some_and(|word| !word.is_empty());
                match is_named && command.iter().all(|word| is_text(word)) {
                    false => Err("its command is none".to_owned()),
                    true => at_most("words of a command", command.len(), WORDS_MAX)
                        .map_err(|error| error.to_string()),
                }
            }
            Action::Snapshot { .. } | Action::Start | Action::Rotate | Action::Stop => Ok(()),
        }
    }

    /// # Errors
    /// There is no trigger of this name.
    pub(super) fn remove_trigger(&mut self, name: &str) -> Result<(), PlanError> {
        let Some(index) = self.triggers.iter().position(|one| one.name == name) else {
            let names = self.triggers.iter().map(|one| one.name.as_str());
            return Err(PlanError::Trigger {
                name: name.escape_debug().take(100).collect(),
                why: format!("there is none of this name{}", near(name, names)),
            });
        };
        self.triggers.remove(index);
        Ok(())
    }
}

impl Plan {
    /// # Errors
    /// A trigger runs a command in a session that has one: the recorder is the parent of both, and could not tell which
    /// one to record and to wait for.
    pub(crate) fn check_triggers_of_command(&self) -> Result<(), PlanError> {
        let runs = |one: &Trigger| one.actions.iter().any(|it| matches!(it, Action::Run { .. }));
        if self.transient.command.is_empty() || !self.triggers.iter().any(runs) {
            return Ok(());
        }
        let why = "the session has a COMMAND, and would record what a trigger runs as a part of it. Use a session without one";
        Err(PlanError::Nothing { what: "--run", why })
    }
}
