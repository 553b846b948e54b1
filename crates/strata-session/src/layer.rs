//! What a session asks of a layer: of those who are recorded in one way. Each layer has its own files; a session
//! knows of none what it records.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use strata_collect::{Keep, Output};
use strata_filter::Filter;

use crate::command::Running;
use crate::describe::Machine;
use crate::detach::Detaching;
use crate::error::SessionError;
use crate::privileges::Work;
use crate::report::{KernelReport, LayerReport, NotReached, Notice, RuleReport};
use crate::shared::Shared;
use crate::threads::Ask;

/// What the layers of a session have in common.
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) machine: Machine,
    /// When the recording was begun, as traces say it.
    pub(crate) created: String,
    pub(crate) output: Arc<Mutex<dyn Output>>,
    /// What becomes of packets.
    pub(crate) keep: Keep,
}

/// Hears how far it is, and says whether to go on.
pub(crate) type Tell<'t> = dyn FnMut(Notice) -> ControlFlow<()> + 't;

/// One event rule of a session, and which of its events; a rule that excludes has no filter.
#[expect(dead_code, reason = "no session is changed yet")]
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// As it is written for the layer: `shop:*`, `!shop:debug_*`, `sched_*`.
    pub(crate) text: String,
    /// `None`: all of them.
    pub(crate) filter: Option<Filter>,
}

/// What a layer is to record. An event that several rules select is recorded once, if one of their filters selects it.
#[expect(dead_code, reason = "no session is changed yet")]
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) rules: Vec<Rule>,
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

    /// Records what `wanted` says, from now on and instead of what it did. No record is lost, and none is there
    /// twice, of an event that is selected before and after. What could not be changed is as it was.
    ///
    /// # Errors
    /// What the system says, or what is wrong with a rule.
    #[expect(dead_code, reason = "no session is changed yet")]
    fn change(&mut self, wanted: &Wanted) -> Result<(), SessionError>;

    /// Records nothing until [`Layer::resume`]; what was recorded stays, and goes on being moved.
    #[expect(dead_code, reason = "no session is changed yet")]
    fn pause(&mut self);

    /// Records again.
    #[expect(dead_code, reason = "no session is changed yet")]
    fn resume(&mut self);

    /// Records no more; what was recorded goes on being moved.
    fn stop(&mut self);

    /// Until all is moved; after the session was told to stop.
    fn join(&mut self);

    /// What became of it.
    fn end(self: Box<Self>) -> LayerEnd;
}

/// What a layer has to say at its end.
#[derive(Debug, Default)]
pub(crate) struct LayerEnd {
    pub(crate) report: LayerReport,
    pub(crate) remarks: Vec<String>,
    /// What became of its rules.
    pub(crate) rules: Vec<RuleReport>,
    pub(crate) not_reached: Vec<NotReached>,
    /// Of those it cannot be said whether they belong to the recording.
    pub(crate) hidden: Vec<NotReached>,
    /// Who outlived the command, and is recorded no more.
    pub(crate) holders: Vec<String>,
    /// See [`crate::report::Report::of_lttng`].
    pub(crate) of_lttng: Vec<String>,
    /// Of the kernel.
    pub(crate) kernel: Option<KernelReport>,
    pub(crate) detaching: Detaching,
}
