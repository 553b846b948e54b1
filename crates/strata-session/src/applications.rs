//! The layer of applications: those that have tracepoints of Strata.
//!
//! ```text
//! strata-keeper   finds processes, heartbeat, clock, new events    keeper.rs
//! strata-mover    packets from all channels to the output          source.rs, strata_collect::Pump
//! lttng           looks for descendants that LTTng instruments     lttng.rs
//! ```
//!
//! The keeper hands each process' channel to the pump, and lives until the pump has taken everything: while a
//! slow disk is written to, no process takes its tracer for dead.

use std::ffi::OsString;
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use strata_collect::{Counts, Order, Pump};
use strata_user::{
    new_generation, Clock, ClockKind, HeaderChoice, Launch, Listener, Program, Rules, SessionSpec,
    ENVIRONMENT,
};

use crate::command::Running;
use crate::error::SessionError;
use crate::filtered::Filtered;
use crate::keeper::{Found, Keeper, KeeperParts, Target};
use crate::known::Reasons;
use crate::layer::{Context, Inheritance, Layer, LayerEnd, Tell, Wanted};
use crate::lock::lock;
use crate::lttng::{self, OfCommand};
use crate::options::Options;
use crate::privileges::Work;
use crate::report::{LayerReport, NotReached, RuleReport, USER};
use crate::source::{Ended, ProcessSource, Sources};
use crate::threads::{ask, joined, spawn, Ask};

/// Who is recorded.
enum Who {
    /// The command and its descendants, which inherit this.
    Command { launch: Launch, generation: u64, command: Vec<OsString> },
    /// These, and what they fork.
    Processes(Vec<u32>),
    /// All that this user can trace.
    Everyone,
}

/// The layer.
pub(crate) struct Applications {
    who: Option<Who>,
    listener: Option<Listener>,
    spec: Arc<SessionSpec>,
    clock: Arc<Clock>,
    sources: Arc<Sources>,
    found: Arc<Found>,
    /// Who was asked for, and has no tracepoints, is recorded by another layer.
    plain_too: bool,
    /// Before the command was started, `CLOCK_MONOTONIC` \[ns\].
    begun_ns: u64,
    target: Option<Target>,
    of_lttng: Vec<String>,
    command_of_lttng: Option<OfCommand>,
    keeper: Option<Keeper>,
    orders: Option<Sender<Order<ProcessSource>>>,
    moving: Option<JoinHandle<Counts>>,
    keeping: Option<JoinHandle<()>>,
}

impl Applications {
    /// Ready to record whom `options` name; `clock` has run for a while, and `filter` is that of
    /// the options. `plain_too`: who has no tracepoints is recorded by another layer.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn new(
        options: &Options,
        context: &Arc<Context>,
        clock: Arc<Clock>,
        filter: Option<Program>,
        plain_too: bool,
    ) -> Result<Applications, SessionError> {
        let rules = match &options.rules {
            Some(rules) => rules.clone(),
            None => Rules::parse(&["*:*"]).map_err(strata_user::Error::from)?,
        };
        let mut remarks = Vec::new();
        if let ClockKind::Vdso(why) = clock.kind() {
            remarks.push(format!(
                "time stamps come from clock_gettime() and cost more than usual: {why}"
            ));
        }
        let is_of_command = !options.command.is_empty() && !options.everyone;
        let listener = Listener::new();
        let who = match (is_of_command, options.pids.is_empty()) {
            // The listener is for those who close all descriptors, or whose environment is cleared.
            (true, _) => Who::Command {
                launch: Launch::new()?,
                generation: new_generation(),
                command: options.command.clone(),
            },
            (false, false) => Who::Processes(options.pids.clone()),
            (false, true) => Who::Everyone,
        };
        if let (false, Err(error)) = (is_of_command, &listener) {
            // Processes are then found by searching only: a second later, and not from their begin.
            remarks.push(error.to_string());
        }
        let ended = Ended { matched: vec![0; rules.rules().len()], ..Ended::default() };
        let spec = spec(options, rules.clone(), filter);
        Ok(Applications {
            who: Some(who),
            listener: listener.ok(),
            spec: Arc::new(spec),
            clock,
            sources: Arc::new(Sources {
                context: Arc::clone(context),
                voice: context.shared.add_layer(USER),
                rules,
                filtered: Filtered::new(options),
                ended: Mutex::new(ended),
            }),
            found: Arc::new(Found { remarks: Mutex::new(remarks), ..Found::default() }),
            plain_too,
            begun_ns: 0,
            target: None,
            of_lttng: Vec::new(),
            command_of_lttng: None,
            keeper: None,
            orders: None,
            moving: None,
            keeping: None,
        })
    }
}

/// What the session wants of each process.
fn spec(options: &Options, rules: Rules, filter: Option<Program>) -> SessionSpec {
    SessionSpec {
        rules,
        filter,
        loss_mode: options.mode,
        subbuf_bytes: options.subbuf_bytes,
        nr_subbufs: u64::from(options.nr_subbufs),
        header: HeaderChoice::Auto,
        vtid: options.vtid,
        inherit: true,
    }
}

impl Layer for Applications {
    fn rights(&self) -> Work {
        Work::Applications
    }

    fn inheritance(&self) -> Inheritance<'_> {
        let Some(Who::Command { launch, generation, .. }) = &self.who else {
            return Inheritance::default();
        };
        let environment = launch.environment(*generation, &self.spec, &self.clock);
        Inheritance {
            environment: vec![(ENVIRONMENT.into(), environment.into())],
            keep_open: vec![launch.child_fd()],
        }
    }

    fn start(&mut self) {
        self.begun_ns = Clock::monotonic_ns();
    }

    fn begun(&mut self, running: Option<&Running>) {
        self.target = match (self.who.take(), running) {
            (Some(Who::Command { launch, generation, command }), Some(running)) => {
                let pid = running.pid();
                let hidden = running.protection().map(|reason| NotReached {
                    pid,
                    name: String::new(),
                    reason: format!("process {pid}: {reason}"),
                });
                *lock(&self.found.hidden) = hidden.into_iter().collect::<Vec<_>>().into();
                self.command_of_lttng = Some(OfCommand::begin(&command, pid));
                Some(Target::Command { generation, pid, announcements: Some(launch.started()) })
            }
            (Some(Who::Processes(pids)), _) => {
                self.of_lttng = lttng::of_processes(&pids);
                Some(Target::Processes(pids))
            }
            (Some(Who::Everyone), _) => Some(Target::Everyone),
            (Some(Who::Command { .. }) | None, _) => None,
        };
    }

    fn run(&mut self) {
        let Some(target) = self.target.take() else { return };
        let (orders, receiver) = channel();
        self.orders = Some(orders.clone());
        self.keeper = Some(Keeper::new(KeeperParts {
            target,
            listener: self.listener.take(),
            spec: Arc::clone(&self.spec),
            clock: Arc::clone(&self.clock),
            begun_ns: self.begun_ns,
            sources: Arc::clone(&self.sources),
            orders,
            found: Arc::clone(&self.found),
            plain_too: self.plain_too,
        }));
        let (voice, keep) = (self.sources.voice.clone(), self.sources.context.keep);
        let shared = Arc::clone(voice.shared());
        self.moving = spawn("strata-mover", Work::Files, &shared, move || {
            Pump::new(receiver, &voice, keep).run()
        });
    }

    fn admit(&mut self, tell: &mut Tell<'_>) {
        let Some(mut keeper) = self.keeper.take() else { return };
        keeper.begin(tell);
        let shared = self.sources.voice.shared();
        // Not made, it is freed here, and the pump ends.
        self.keeping = spawn("strata-keeper", Work::Applications, shared, move || keeper.run());
    }

    fn knows_processes(&self) -> bool {
        true
    }

    fn is_broken(&self) -> bool {
        self.moving.as_ref().is_some_and(JoinHandle::is_finished)
            || self.keeping.as_ref().is_some_and(JoinHandle::is_finished)
    }

    fn snapshot(&self) -> Ask {
        ask(self.orders.as_ref())
    }

    fn change(&mut self, _wanted: &Wanted) -> Result<(), SessionError> {
        Err(SessionError::Unchangeable { layer: USER })
    }

    fn pause(&mut self) {}

    fn resume(&mut self) {}

    /// The keeper switches everything off, as soon as the session is told to stop, and then says so to the pump.
    fn stop(&mut self) {
        self.orders = None;
    }

    fn join(&mut self) {
        let shared = self.sources.voice.shared();
        joined(self.moving.take(), shared);
        // The keeper keeps the processes alive until then.
        shared.set_moved();
        joined(self.keeping.take(), shared);
    }

    fn end(self: Box<Self>) -> LayerEnd {
        let ended = std::mem::take(&mut *lock(&self.sources.ended));
        let taken = |list: &Mutex<Reasons>| lock(list).take();
        let mut remarks = std::mem::take(&mut *lock(&self.found.remarks));
        remarks.extend(self.sources.filtered.remarks());
        LayerEnd {
            report: LayerReport { layer: USER, processes: ended.reports.into_all() },
            remarks,
            rules: rule_reports(&self.sources.rules, &ended.matched),
            not_reached: taken(&self.found.not_reached),
            hidden: taken(&self.found.hidden),
            holders: std::mem::take(&mut lock(&self.found.holders)),
            of_lttng: match self.command_of_lttng {
                Some(of_command) => of_command.end(),
                None => self.of_lttng,
            },
            ..LayerEnd::default()
        }
    }
}

fn rule_reports(rules: &Rules, matched: &[u64]) -> Vec<RuleReport> {
    let matched = matched.iter().copied().chain(std::iter::repeat(0));
    let report = |(rule, matched): (&strata_user::Rule, u64)| RuleReport {
        rule: rule.text().to_owned(),
        matched,
    };
    rules.rules().iter().zip(matched).map(report).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_model::LossMode;

    #[test]
    fn spec_of_a_process_is_what_the_options_say() {
        for mode in [LossMode::Discard, LossMode::Overwrite] {
            let options = Options {
                mode,
                subbuf_bytes: 8192,
                nr_subbufs: 4,
                vtid: false,
                ..Options::default()
            };
            let spec = spec(&options, Rules::parse(&["a:b"]).unwrap(), None);
            assert_eq!(spec.loss_mode, mode);
            assert_eq!((spec.subbuf_bytes, spec.nr_subbufs), (8192, 4));
            assert!(!spec.vtid && spec.inherit);
            assert_eq!(spec.rules.rules().len(), 1);
        }
    }

    #[test]
    fn rule_of_which_nobody_has_counted_anything_matched_nothing() {
        let rules = Rules::parse(&["a:*", "!a:b"]).unwrap();
        let reports = rule_reports(&rules, &[3]);
        let matched: Vec<(&str, u64)> =
            reports.iter().map(|rule| (rule.rule.as_str(), rule.matched)).collect();
        assert_eq!(matched, [("a:*", 3), ("!a:b", 0)]);
    }
}
