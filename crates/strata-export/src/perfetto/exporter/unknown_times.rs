//! Fills times for which no record says what a CPU ran, by switches to a stand-in thread.
//!
//! A reader draws a thread as running until its CPU gets another thread. If no record says when that was (the kernel
//! hides the thread, or records were discarded), a stand-in thread named `unknown` is drawn instead, and the thread
//! itself without a state.

use std::io::{self, Write};

use strata_ctf::read::Event;
use strata_timeline::{ThreadId, Unfollowed};

use super::{EventSpot, Exporter};
use crate::perfetto::classes::EventPlan;
use crate::perfetto::cpu_occupancy::{unknown, GivenCpu, NAME, NO_STATE, UNKNOWN_PROCESS};
use crate::perfetto::kernel::{put_switch, Kernel};
use crate::perfetto::proto::{PacketData, ProcessTree, TreeProcess, TreeThread};
use crate::perfetto::tracks::MachineNumber;
use strata_analyze::render::line::Lines;

/// The state, "asleep", with which a placeholder thread leaves its CPU.
const SLEEPS: i64 = 1;

impl<W: Write> Exporter<W> {
    /// Notes the thread that a switch gives a CPU to. If the switch was not exported, the CPU's thread is unknown.
    pub(super) fn gives(
        &mut self,
        event: &Event<'_>,
        kernel: &Kernel,
        (spot, cpu): (EventSpot, u32),
        is_exported: bool,
    ) {
        let Some(next) = kernel.next(event) else { return };
        let place = (spot.machine, spot.cpu.unwrap_or(cpu));
        let pid = self.tracks.id(spot.machine, next).unwrap_or(0);
        let given = is_exported.then_some(GivenCpu { place, pid, since: spot.time });
        // Who gives itself such a number is nobody.
        self.runs.set(cpu, given.filter(|it| it.pid != unknown(cpu)));
    }

    /// Handles a switch about to be exported that does not follow from the previous switch of its CPU.
    pub(super) fn unfollowed(&mut self, machine: MachineNumber, of: &Unfollowed) -> io::Result<()> {
        let Some(cpu) = self.tracks.cpu(machine, of.cpu) else { return Ok(()) };
        let Some(given) = self.runs.get(cpu) else { return Ok(()) };
        if self.pid_of(of.thread) != given.pid {
            return Ok(());
        }
        self.leaves(cpu, given, given.since)?;
        let Some(next) = of.next else { return Ok(()) };
        let to = self.timebase.time(next.time).max(given.since);
        let since = self.timebase.time(next.since).max(given.since);
        let pid = self.pid_of(next.thread);
        // As far as is known, it has wanted a CPU, or was blocked, up to then.
        if pid != 0 && pid != given.pid && since < to {
            self.switches(cpu, since, (unknown(cpu), SLEEPS), pid)?;
            self.switches(cpu, since, (pid, NO_STATE), unknown(cpu))?;
        }
        self.is_found(cpu, pid, to)
    }

    /// Handles a time from which on records of a CPU are missing.
    pub(super) fn loses(
        &mut self,
        (machine, at): (MachineNumber, u32),
        time: u64,
    ) -> io::Result<()> {
        let Some(cpu) = self.tracks.cpu(machine, at) else { return Ok(()) };
        let Some(given) = self.runs.get(cpu) else { return Ok(()) };
        let from = if self.is_hidden(given) { given.since } else { time };
        self.leaves(cpu, given, from)
    }

    /// Ends the runs of all hidden threads at the end of the trace.
    pub(super) fn ends(&mut self) -> io::Result<()> {
        for (cpu, given) in self.runs.all() {
            if self.is_hidden(given) {
                self.leaves(cpu, given, given.since)?;
            }
        }
        Ok(())
    }

    /// Learns from a record which thread has a CPU, if that was unknown.
    #[cold]
    pub(super) fn finds(
        &mut self,
        event: &Event<'_>,
        plan: &EventPlan,
        spot: EventSpot,
    ) -> io::Result<()> {
        let Some(cpu) = spot.cpu.and_then(|cpu| self.tracks.cpu(spot.machine, cpu)) else {
            return Ok(());
        };
        let Some(given) = self.runs.get(cpu).filter(|it| it.pid == unknown(cpu)) else {
            return Ok(());
        };
        // What a program has recorded meanwhile says nothing of the switches that are not there.
        if !self.is_kernel(event) {
            return Ok(());
        }
        let tracks = &self.tracks;
        let id = |tid| tracks.id(spot.machine, tid).filter(|&pid| pid != unknown(cpu));
        // A switch is exported as from nobody if it is from such a number as no thread has.
        let prev = plan.kernel.as_ref().and_then(|kernel| kernel.prev(event));
        let prev = prev.map(|prev| id(prev).unwrap_or(0));
        let own = || match event.integer(plan.whose.tid.as_ref()?)? {
            0 => Some(0),
            tid => id(tid),
        };
        match prev.or_else(own) {
            Some(pid) => self.is_found(cpu, pid, spot.time.max(given.since)),
            None => Ok(()),
        }
    }

    fn is_hidden(&self, given: GivenCpu) -> bool {
        let (machine, cpu) = given.place;
        let thread = self.timeline.runs_on(machine, cpu);
        thread.is_some_and(|thread| {
            self.timeline.world().hides(thread) && self.pid_of(thread) == given.pid
        })
    }

    /// Returns the exported number of a thread; 0 for the idle thread, and if there is none.
    fn pid_of(&self, thread: ThreadId) -> i32 {
        let thread = self.timeline.world().threads.get(thread);
        thread.and_then(|it| self.tracks.id(it.machine, it.tid.into())).unwrap_or(0)
    }

    /// Notes that the thread to which the CPU was given may have left it.
    fn leaves(&mut self, cpu: u32, given: GivenCpu, time: u64) -> io::Result<()> {
        let stand_in = unknown(cpu);
        if given.pid == stand_in {
            return Ok(());
        }
        let since = time.max(given.since);
        if self.runs.describe(cpu) {
            let (pid, name) = (UNKNOWN_PROCESS, NAME.to_owned());
            let process = TreeProcess { pid: Some(pid), ppid: None, cmdline: vec![name.clone()] };
            let thread = TreeThread { tid: Some(stand_in), tgid: Some(pid), name: Some(name) };
            let tree = ProcessTree { processes: vec![process], threads: vec![thread] };
            self.writer.system(Some(since), PacketData::ProcessTree(tree))?;
        }
        self.summary.unknown += 1;
        self.switches(cpu, since, (given.pid, NO_STATE), stand_in)?;
        self.runs.set(cpu, Some(GivenCpu { pid: stand_in, since, ..given }));
        Ok(())
    }

    /// Handles a thread that a record finds on the CPU without a switch to it.
    fn is_found(&mut self, cpu: u32, pid: i32, time: u64) -> io::Result<()> {
        let Some(given) = self.runs.get(cpu) else { return Ok(()) };
        self.switches(cpu, time, (unknown(cpu), SLEEPS), pid)?;
        self.runs.set(cpu, Some(GivenCpu { pid, since: time, ..given }));
        Ok(())
    }

    /// Writes a switch that is not recorded, but follows from other records.
    fn switches(
        &mut self,
        cpu: u32,
        time: u64,
        (prev, state): (i32, i64),
        next: i32,
    ) -> io::Result<()> {
        self.summary.unknown_switches += 1;
        if self.writer.is_muted() {
            return Ok(());
        }
        let name = if next == unknown(cpu) { NAME } else { "" };
        let put = |out: &mut Lines| {
            put_switch(out, (prev, state), (next, name));
            true
        };
        self.sched.insert(&mut self.writer, cpu, (time, prev), put).map(drop)
    }
}
