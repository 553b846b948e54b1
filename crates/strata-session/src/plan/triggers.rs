//! Triggers of a plan: what a session does by itself when something happens. When one fires is told by
//! `trigger.rs`.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_user::Outcome;

use super::names::near;
use super::{at_most, Channel, EventRule, LayerOf, Loss, Plan, PlanError, CHANNEL, TEXT_BYTES_MAX};

/// Triggers of a session.
pub const TRIGGERS_MAX: usize = 16;
/// Not again before this time, unless it is said otherwise.
pub const PAUSE: Duration = Duration::from_secs(10);
/// Words of a command.
pub const WORDS_MAX: usize = 64;
/// Shortest silence: whether there were events is looked at some ten times a second.
pub const SILENCE_MIN: Duration = Duration::from_millis(500);
/// Longest time of a trigger.
const TIME_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// What its buffers have for each CPU; the records in them are only counted.
const SUBBUF_BYTES: u64 = 4096;
const NR_SUBBUFS: u32 = 2;

/// What is done by itself, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trigger {
    /// Of its session, no other one has it.
    pub name: String,
    /// What makes it fire.
    pub when: Condition,
    /// What is done, in this order; what fails keeps nothing else from being done.
    pub actions: Vec<Action>,
    /// After it has fired, it does not for so long \[ms\].
    #[serde(default = "pause_ms")]
    pub pause_ms: u64,
    /// It fires so often; `None`: always.
    #[serde(default)]
    pub times: Option<u64>,
}

fn pause_ms() -> u64 {
    PAUSE.as_millis() as u64
}

/// When a trigger fires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Condition {
    /// An event happens that this selects, whether the session records it or not.
    Event {
        /// The events that make it fire.
        selection: Selection,
    },
    /// None has happened for so long; once for each silence.
    Silence {
        /// Of these.
        selection: Selection,
        /// \[ms\]
        ms: u64,
    },
    /// A program that is recorded ends.
    Ended {
        /// Which ends make it fire.
        how: How,
    },
    /// The session's process gets SIGUSR1.
    Signal,
}

/// Events, as an event rule selects them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// The layer that it is of.
    pub layer: LayerOf,
    /// As `strata enable-event` takes it.
    pub rule: String,
    /// Which of its events; `None`: all.
    #[serde(default)]
    pub filter: Option<String>,
}

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// By a signal.
    Signal,
    /// By a signal, or with a status that is not 0.
    Failure,
    /// However.
    Any,
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// What is held is saved, in a new folder in `folder`.
    Snapshot {
        /// `None`: where the session was made.
        #[serde(default)]
        folder: Option<PathBuf>,
    },
    /// Recording goes on.
    Start,
    /// A new part of the trace begins.
    Rotate,
    /// Recording pauses.
    Stop,
    /// A command is started, by whom the session belongs to.
    Run {
        /// Its words.
        command: Vec<String>,
    },
}

impl How {
    /// Does an end like this one count? `None`: nobody says how it was.
    pub(crate) fn admits(self, outcome: Option<Outcome>) -> bool {
        match self {
            How::Any => true,
            How::Failure => outcome.is_some_and(Outcome::is_failure),
            How::Signal => matches!(outcome, Some(Outcome::Killed(_))),
        }
    }
}

impl Condition {
    /// The events that are looked for, if there are any.
    pub(crate) fn selection(&self) -> Option<&Selection> {
        match self {
            Condition::Event { selection } | Condition::Silence { selection, .. } => {
                Some(selection)
            }
            Condition::Ended { .. } | Condition::Signal => None,
        }
    }
}

impl Plan {
    /// What looks for the events of a trigger: a flight recorder whose records are only counted, with very small
    /// buffers. `None`: it does not wait for events.
    pub(crate) fn watching(&self, trigger: &Trigger) -> Option<Plan> {
        let Selection { layer, rule, filter } = trigger.when.selection()?.clone();
        let events = vec![EventRule {
            rule,
            filter,
            exclude: Vec::new(),
            stack: false,
            sample: None,
            probe: false,
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
    /// There is none of this name.
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
