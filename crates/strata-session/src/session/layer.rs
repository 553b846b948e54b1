//! The interface between a session and its layers. Each layer has its own files; a session does not depend on what they
//! record.
//!
//! A [`Layer`] is made ready by its own constructor and then driven by the session, in this order:
//!
//! ```text
//! made ready ── start ── begun ── run ── admit ──┬── stop ── join ── end
//!  (nothing is   │        │        │      │      │    │       │       └ returns the report; a drop undoes all instead
//!   recorded)    │        │        │      │      │    │       └ waits until all packets are moved
//!                │        │        │      │      │    └ stops recording
//!                │        │        │      │      └ any number of: change, set_paused, snapshot, rotate, look_around
//!                │        │        │      └ admits processes that exist already
//!                │        │        └ starts the threads that move packets
//!                │        └ called after the start of the command, if there is one
//!                └ starts to record
//! ```
//!
//! All methods are called by the session's own thread, and none may wait for a disk or a hostile process: slow work is
//! done by the layer's threads. `snapshot` and `rotate` therefore return a request that another thread runs. A `change`
//! happens completely or not at all. Write errors do not pass through this interface: a layer's pump notes them in the
//! session's shared state, where [`crate::session::wait_for_end`] finds them.
//!
//! The implementations are [`crate::applications`], [`crate::kernel`] and [`crate::guest`]. A new layer needs a folder of
//! its own, and a line where [`crate::engine`] makes layers from a plan.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use strata_collect::{Keep, Output};
use strata_filter::{DurationError, DurationSplit, Filter};
use strata_kernel::{CallStacks, Sampling};
use strata_user::Outcome;

use crate::daemon::persistent_kernel::PersistentChannel;
use crate::daemon::slot_file::ChannelSlots;
use crate::error::SessionError;
use crate::output::describe::Machine;
use crate::plan::tracked::Tracked;
use crate::record::command::Running;
use crate::report::gaps::Late;
use crate::report::{Buffers, FilterReport, LayerReport, NotReached, Notice, Report, RuleReport};
use crate::session::detach_later::Detaching;
use crate::session::privileges::Work;
use crate::session::shared_state::{Figured, LayerLosses, Shared};
use crate::session::threads::{Ask, Cut};

/// State shared by the layers of a session.
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) machine: Machine,
    /// Time when the recording began, as text for the traces.
    pub(crate) created: String,
    pub(crate) output: Arc<Mutex<dyn Output>>,
    /// The destination of packets: the output, or the buffers until a snapshot is taken.
    pub(crate) keep: Keep,
    /// Notes about this channel's slots in programs, with which a session is restored after a kill; `None` if none
    /// are kept.
    pub(crate) slots: Option<ChannelSlots>,
    /// Notes about this channel's objects in the kernel, which record on after a kill; `None` if none are kept.
    pub(crate) kept: Option<PersistentChannel>,
    /// True if the session was killed and is restored from its plan. Events and programs that no longer exist are then
    /// no error, and the rest is recorded.
    pub(crate) is_again: bool,
    /// Folders into which killed sessions of this name wrote this channel, the latest first.
    pub(crate) before: Vec<PathBuf>,
}

/// Callback that receives notices of the progress, and returns `Break` to stop early.
pub(crate) type Tell<'t> = dyn FnMut(Notice) -> ControlFlow<()> + 't;

/// An event rule of a session with its filter. Exclusions have no filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LayerRule {
    /// The rule's text as the layer reads it, such as `shop:*`, `!shop:debug_*`, `sched_*`.
    pub(crate) text: String,
    /// The filter on the rule's events; `None` to record all.
    pub(crate) filter: Option<Filter>,
    /// The call stacks that the rule's records have, independently of other rules.
    pub(crate) stack: CallStacks,
    /// Rate of samples \[Hz\], for a rule that samples CPUs.
    pub(crate) sample: Option<u32>,
    /// True if the rule is a probe of a program or library.
    pub(crate) probe: bool,
    /// The least duration of recorded system calls \[ns\]; `None` for the bound that the rule's word implies.
    pub(crate) slower: Option<u64>,
    /// The share of the rule's records that is written. Kernel rules only.
    pub(crate) sampling: Sampling,
    /// True if the rule's filter tests the duration. Then only system calls are recorded, since other kernel events
    /// have no duration.
    pub(crate) is_of_calls: bool,
}

impl LayerRule {
    /// Moves the filter's condition on the duration to `slower`, so that the kernel checks it at the end of a call.
    ///
    /// # Errors
    /// The filter uses the duration in a way that the kernel does not support.
    pub(crate) fn with_duration_of_calls(self) -> Result<LayerRule, DurationError> {
        let Some(filter) = &self.filter else { return Ok(self) };
        Ok(match filter.split_duration()? {
            DurationSplit { at_least: 0, .. } => self,
            DurationSplit { at_least, rest } => LayerRule {
                filter: rest,
                slower: Some(at_least.max(self.slower.unwrap_or(0))),
                is_of_calls: true,
                ..self
            },
        })
    }
}

/// The request for a layer: what to record. An event that several rules select is recorded once, if it passes the
/// filter of one of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) rules: Vec<LayerRule>,
    /// Names of the contexts that are added to each record.
    pub(crate) contexts: Vec<String>,
    /// The tracked processes.
    pub(crate) tracked: Tracked,
}

impl Wanted {
    /// Returns the rules that select events, without those that exclude some.
    pub(crate) fn selecting(&self) -> impl Iterator<Item = &LayerRule> {
        self.rules.iter().filter(|rule| !rule.text.starts_with('!'))
    }

    /// Returns whether all rules have the same filter. A part of that filter is then correct if an event of any rule
    /// can pass it.
    pub(crate) fn has_one_filter(&self) -> bool {
        let of = |rule: &LayerRule| (rule.filter.clone(), rule.is_of_calls);
        let Some(first) = self.selecting().next().map(of) else { return false };
        (first.0.is_some() || first.1) && self.selecting().all(|rule| of(rule) == first)
    }

    /// Returns the filter and the bound on durations \[ns\] that all rules share; `None` if they differ.
    pub(crate) fn common_filter(&self) -> Option<(Option<Filter>, u64)> {
        let of = |rule: &LayerRule| (rule.filter.clone(), rule.slower.unwrap_or(0));
        let first = self.selecting().next().map(of)?;
        self.selecting().all(|rule| of(rule) == first).then_some(first)
    }

    /// Returns whether the request has more than rules: tracked processes, or contexts in addition to the one that
    /// every record has.
    pub(crate) fn is_more_than_rules(&self) -> bool {
        self.contexts.iter().any(|name| name != "vtid") || self.tracked != Tracked::default()
    }
}

/// The environment variables and descriptors that a command must inherit to be recorded from its first instruction
/// on.
#[derive(Debug, Default)]
pub(crate) struct Inheritance<'l> {
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) keep_open: Vec<BorrowedFd<'l>>,
}

/// A layer of a session, such as that of programs or that of the kernel. It is prepared, started, run in threads of
/// its own, stopped, joined and ended; each once, in this order. Abilities that only some layers have are in
/// [`ProcessLayer`].
pub(crate) trait Layer {
    /// Returns the rights that the layer's threads need while they run.
    fn rights(&self) -> Work;

    /// Returns the rights with which the layer reads other processes' open files.
    fn asks_with(&self) -> Work {
        self.rights()
    }

    /// Starts to record. Called on the thread that starts the command.
    fn start(&mut self);

    /// Returns the additional abilities of a layer that knows each process it records; `None` for other layers.
    fn processes(&mut self) -> Option<&mut dyn ProcessLayer> {
        None
    }

    /// Notifies the layer that the command was started, or with `None` that there is no command.
    fn begun(&mut self, _command: Option<&Running>) {}

    /// Starts the thread that moves recorded packets from the buffers to the output.
    fn run(&mut self);

    /// Returns whether one of the layer's threads has ended unexpectedly.
    fn is_broken(&self) -> bool;

    /// Returns a request for the packets that the layer holds, for a snapshot; recording goes on. Only for sessions
    /// that write nothing but snapshots.
    fn snapshot(&self) -> Ask;

    /// Returns a request to write what the layer holds and to complete its present traces; recording goes on. Only for
    /// sessions that write continuously.
    fn rotate(&self) -> Cut;

    /// Records what `wanted` requests, from now on and instead of the former request. Events that both requests
    /// select are recorded without gap or duplicate. If the change fails, the former request stays. If the layer is
    /// paused, the change takes effect when it resumes.
    ///
    /// # Errors
    /// The error of the system, or a mistake in a rule.
    fn change(&mut self, wanted: &Wanted) -> Result<(), SessionError>;

    /// Pauses or resumes recording. Packets that were recorded before are still written.
    fn set_paused(&mut self, _is_paused: bool) {}

    /// Does periodic work: updates which processes are tracked by name. Returns recorded programs that have ended since
    /// the last call.
    fn look_around(&mut self) -> Vec<EndedProgram> {
        Vec::new()
    }

    /// Returns the status of the layer.
    fn status(&self) -> LayerStatus {
        LayerStatus::default()
    }

    /// Stops recording. Recorded packets are still being moved.
    fn stop(&mut self);

    /// Waits until all packets are taken from the buffers. Called after the session was told to stop.
    fn join(&mut self);

    /// Ends the layer and returns its report.
    fn end(self: Box<Self>) -> LayerEnd;
}

/// The abilities of a layer that knows each process it records. Such a layer notices when all processes that the user
/// named by process id have ended ([`Shared::is_nobody_left`]).
pub(crate) trait ProcessLayer {
    /// Returns what the command must inherit, if there is a command.
    fn inheritance(&self) -> Inheritance<'_>;

    /// Begins to record processes that exist already, until `tell` returns `Break`.
    fn admit(&mut self, tell: &mut Tell<'_>);
}

/// A program that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedProgram {
    pub(crate) pid: u32,
    /// Time of the program's start \[ns of `CLOCK_MONOTONIC`\]; together with the process id it identifies the program.
    pub(crate) started_ns: u64,
    /// The program's end; `None` if it is not known.
    pub(crate) outcome: Option<Outcome>,
}

/// The status of a layer.
#[derive(Debug, Default)]
pub(crate) struct LayerStatus {
    /// Matches of the layer's rules so far.
    pub(crate) rules: Vec<RuleReport>,
    /// Filters with a part that no event has passed so far.
    pub(crate) filters: Vec<FilterReport>,
    pub(crate) not_reached: Vec<NotReached>,
    pub(crate) figures: Figured,
    /// Fill of the layer's fullest buffer at the last check \[%\].
    pub(crate) fill: u8,
    /// The time that the layer's buffers cover at the present rate \[s\], if only snapshots are written.
    pub(crate) history_seconds: Option<f64>,
    pub(crate) losses: LayerLosses,
    pub(crate) buffers: Buffers,
    /// Programs that were attached late.
    pub(crate) late: Vec<Late>,
    /// Number of programs that are recorded now.
    pub(crate) processes: u64,
    /// Number of events that the layer records, if that is known in advance.
    pub(crate) events: Option<u64>,
    /// Remarks on parts of the request that were not met.
    pub(crate) remarks: Vec<String>,
}

/// The result of a layer at its end.
#[derive(Debug, Default)]
pub(crate) struct LayerEnd {
    pub(crate) report: LayerReport,
    pub(crate) remarks: Vec<String>,
    /// The final reports on the layer's rules.
    pub(crate) rules: Vec<RuleReport>,
    /// Filters with a part that no event has passed.
    pub(crate) filters: Vec<FilterReport>,
    pub(crate) not_reached: Vec<NotReached>,
    /// Processes for which it is not known whether they belong to the recording.
    pub(crate) hidden: Vec<NotReached>,
    /// Processes that still held the command's socket at the end: they have outlived the command and are no longer
    /// recorded.
    pub(crate) holders: Vec<String>,
    /// See [`crate::report::Report::of_lttng`].
    pub(crate) of_lttng: Vec<String>,
    /// The part of the report that only this layer can fill; the rest is empty.
    pub(crate) own: Report,
    pub(crate) detaching: Detaching,
}

#[cfg(test)]
mod tests;
