//! What a session asks of a layer: of those who are recorded in one way. Each layer has its own files; a session
//! knows of none what it records.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use strata_collect::{Keep, Output};
use strata_filter::Filter;
use strata_user::Outcome;

use crate::error::SessionError;
use crate::output::describe::Machine;
use crate::plan::tracked::Tracked;
use crate::record::command::Running;
use crate::report::gaps::Late;
use crate::report::{Buffers, FilterReport, LayerReport, NotReached, Notice, Report, RuleReport};
use crate::session::detaching::Detaching;
use crate::session::privileges::Work;
use crate::session::shared::{Figured, LayerLosses, Shared};
use crate::session::threads::{Ask, Cut};
use crate::standing::kept::ChannelKept;
use crate::standing::slots::ChannelSlots;

/// What the layers of a session have in common.
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) machine: Machine,
    /// When the recording was begun, as traces say it.
    pub(crate) created: String,
    pub(crate) output: Arc<Mutex<dyn Output>>,
    /// What becomes of packets.
    pub(crate) keep: Keep,
    /// Where programs hold it, for who makes this session again; `None`: nobody does.
    pub(crate) slots: Option<ChannelSlots>,
    /// What goes on being recorded when this session is killed; `None`: nothing.
    pub(crate) kept: Option<ChannelKept>,
    /// The session was killed, and is made again from its plan: where all has gone that a layer is to record, the others
    /// are recorded all the same.
    pub(crate) is_again: bool,
    /// Folders where that has written this channel, and sessions of its name that were killed before it, the last one first.
    pub(crate) before: Vec<PathBuf>,
}

/// Hears how far it is, and says whether to go on.
pub(crate) type Tell<'t> = dyn FnMut(Notice) -> ControlFlow<()> + 't;

/// One event rule of a session, and which of its events; a rule that excludes has no filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LayerRule {
    /// As it is written for the layer: `shop:*`, `!shop:debug_*`, `sched_*`.
    pub(crate) text: String,
    /// `None`: all of them.
    pub(crate) filter: Option<Filter>,
    /// Its records have call stacks, whatever others have.
    pub(crate) stack: bool,
    /// It asks what CPUs do, so many times in a second.
    pub(crate) sample: Option<u32>,
    /// It is a probe of a program or library.
    pub(crate) probe: bool,
}

/// What a layer is to record. An event that several rules select is recorded once, if one of their filters selects it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) rules: Vec<LayerRule>,
    /// What each record has besides its fields, by name.
    pub(crate) contexts: Vec<String>,
    /// Whose events.
    pub(crate) tracked: Tracked,
}

impl Wanted {
    /// What it is besides rules, in words for people.
    pub(crate) fn besides_rules(&self) -> Vec<String> {
        let Tracked { pids, uids, gids, names, cgroups } = &self.tracked;
        // Every record has it.
        let contexts = self.contexts.iter().filter(|name| *name != "vtid");
        let tracked = [
            ("numbers", pids.is_some()),
            ("users", uids.is_some()),
            ("groups", gids.is_some()),
            ("names", names.is_some()),
            ("cgroups", cgroups.is_some()),
        ];
        let tracked = tracked.into_iter().filter(|(_, is)| *is);
        let tracked = tracked.map(|(kind, _)| format!("processes by {kind}"));
        contexts.map(|name| format!("context '{name}'")).chain(tracked).collect()
    }
}

/// What a command inherits, so that it can be recorded from its first instruction on.
#[derive(Debug, Default)]
pub(crate) struct Inheritance<'l> {
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) keep_open: Vec<BorrowedFd<'l>>,
}

/// One layer: made ready, started, run in threads of its own, stopped, joined, ended; each once, in this order.
pub(crate) trait Layer {
    /// What it asks the system for while it runs.
    fn rights(&self) -> Work;

    /// With which rights other processes are asked what they have open.
    fn asks_with(&self) -> Work {
        self.rights()
    }

    /// Records from now on; on the thread that starts the command.
    fn start(&mut self);

    /// What the command is to inherit, if there will be one.
    fn inheritance(&self) -> Inheritance<'_> {
        Inheritance::default()
    }

    /// The command was started; `None`: there is none.
    fn begun(&mut self, _command: Option<&Running>) {}

    /// Moves what is recorded, in a thread of its own.
    fn run(&mut self);

    /// Lets in who is there already, unless `tell` breaks.
    fn admit(&mut self, _tell: &mut Tell<'_>) {}

    /// How many events it records, where that is known before they happen.
    fn events(&self) -> Option<u64> {
        None
    }

    /// Whether it knows when all have ended who were asked for by number ([`Shared::is_nobody_left`]).
    fn knows_processes(&self) -> bool {
        false
    }

    /// Has a thread of it ended?
    fn is_broken(&self) -> bool;

    /// Asks for what it holds, while it goes on recording; where nothing is written but snapshots.
    fn snapshot(&self) -> Ask;

    /// Has it write what it holds, and complete its traces of before, while it goes on recording; where its records are
    /// written as they come.
    fn rotate(&self) -> Cut;

    /// Records what `wanted` says, from now on and instead of what it did. Each record is there, and none
    /// twice, of an event that is selected before and after. What could not be changed is as it was.
    /// While it is paused, this counts from [`Layer::resume`] on.
    ///
    /// # Errors
    /// What the system says, or what is wrong with a rule.
    fn change(&mut self, wanted: &Wanted) -> Result<(), SessionError>;

    /// These are the rules that it was made with, as they were written; what is said of their filters names them.
    fn note_rules(&mut self, _rules: &[LayerRule]) {}

    /// What of this it has no way to record, in words for people: it is refused before anything is changed. A layer
    /// that can do more than rules says so here.
    fn lacks(&self, wanted: &Wanted) -> Vec<String> {
        wanted.besides_rules()
    }

    /// Records nothing until [`Layer::resume`]; what was recorded stays, and goes on being moved.
    fn pause(&mut self);

    /// Records again.
    fn resume(&mut self);

    /// Programs that it recorded, and that have ended since this was last asked.
    fn take_ends(&mut self) -> Vec<EndedProgram> {
        Vec::new()
    }

    /// How it is meanwhile.
    fn look(&self) -> LayerLook {
        LayerLook::default()
    }

    /// Records no more; what was recorded goes on being moved.
    fn stop(&mut self);

    /// Until all is moved; after the session was told to stop.
    fn join(&mut self);

    /// What became of it.
    fn end(self: Box<Self>) -> LayerEnd;
}

/// A program that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedProgram {
    pub(crate) pid: u32,
    /// `CLOCK_MONOTONIC` \[ns\]: with its number it is known by that.
    pub(crate) started_ns: u64,
    /// `None`: nobody says.
    pub(crate) outcome: Option<Outcome>,
}

/// What a layer has to say meanwhile.
#[derive(Debug, Default)]
pub(crate) struct LayerLook {
    /// What its rules have matched so far.
    pub(crate) rules: Vec<RuleReport>,
    /// Their filters with something that no event has passed so far.
    pub(crate) filters: Vec<FilterReport>,
    pub(crate) not_reached: Vec<NotReached>,
    pub(crate) figures: Figured,
    /// How full its fullest buffer was when it was last looked at \[%\].
    pub(crate) fill: u8,
    pub(crate) losses: LayerLosses,
    pub(crate) buffers: Buffers,
    /// Programs that were reached late.
    pub(crate) late: Vec<Late>,
    /// Programs that are recorded now.
    pub(crate) processes: u64,
    /// What is less than was asked for, whole sentences.
    pub(crate) remarks: Vec<String>,
}

/// What a layer has to say at its end.
#[derive(Debug, Default)]
pub(crate) struct LayerEnd {
    pub(crate) report: LayerReport,
    pub(crate) remarks: Vec<String>,
    /// What became of its rules.
    pub(crate) rules: Vec<RuleReport>,
    /// Their filters with something that no event has passed.
    pub(crate) filters: Vec<FilterReport>,
    pub(crate) not_reached: Vec<NotReached>,
    /// Of those it cannot be said whether they belong to the recording.
    pub(crate) hidden: Vec<NotReached>,
    /// Who outlived the command, and is recorded no more.
    pub(crate) holders: Vec<String>,
    /// See [`crate::report::Report::of_lttng`].
    pub(crate) of_lttng: Vec<String>,
    /// What no other layer has to say; nothing else is in it.
    pub(crate) own: Report,
    pub(crate) detaching: Detaching,
}

#[cfg(test)]
mod tests;
