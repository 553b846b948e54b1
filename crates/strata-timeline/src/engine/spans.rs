//! Finds the thread of a span's record, and the begin to which an end belongs.

use super::Engine;
use crate::ids::thread_id::ThreadId;
use crate::observer::Observer;
use crate::records::facts::{SpanMark, Spot};
use crate::spans::{
    end, OpenSpan, Paired, Span, SpanKey, Spent, UnpairedReason, UnpairedSpan, DEPTH_MAX,
};

impl Engine {
    pub(super) fn span<O: Observer>(&mut self, spot: &Spot, mark: SpanMark<'_>, seen: &mut O) {
        let who = self.of(spot, seen);
        match mark.begins {
            true => self.begin(spot, mark, who, seen),
            false => self.end(spot, mark, who, seen),
        }
    }

    /// Returns the thread of a record. Unlike [`Engine::who`], applies nothing to the CPU: records of applications do
    /// not prove which thread runs.
    pub(crate) fn of<O: Observer>(&mut self, spot: &Spot, seen: &mut O) -> Option<ThreadId> {
        let who = match spot.tid {
            Some(tid) => self.thread(spot.machine, tid, seen),
            None => spot.cpu.and_then(|cpu| self.cpu(spot.machine, cpu)?.thread),
        };
        let who = who.filter(|&who| who != ThreadId::IDLE && self.may_be(who, spot))?;
        if let (Some(pid), Some(_)) = (spot.pid, spot.tid) {
            if self.world.threads.get(who).is_some_and(|thread| thread.main.is_none()) {
                self.belongs(who, spot.machine, pid, seen);
            }
        }
        Some(who)
    }

    /// Names a process, unless it has a name from another record.
    pub(crate) fn name_process<O: Observer>(
        &mut self,
        machine: u8,
        pid: i64,
        name: &str,
        seen: &mut O,
    ) {
        let Some(process) = self.thread(machine, pid, seen) else { return };
        let name = self.world.names.of(name.as_bytes());
        let thread = self.world.threads.get_mut(process).filter(|it| !it.name.is_some());
        if let Some(thread) = thread.filter(|_| process != ThreadId::IDLE) {
            thread.name = name;
        }
    }

    /// Returns whether the CPU's thread may have made a record, judging by the process that the trace has for the
    /// record.
    fn may_be(&self, who: ThreadId, spot: &Spot) -> bool {
        let main = self.world.threads.get(who).and_then(|thread| thread.main);
        let main = main.and_then(|main| self.world.threads.get(main));
        let is_other = main.zip(spot.pid).is_some_and(|(main, pid)| i64::from(main.tid) != pid);
        spot.tid.is_some() || !is_other
    }

    fn spent(&self, who: Option<ThreadId>, now: i64) -> Option<Spent> {
        who.and_then(|who| self.world.threads.get(who)).map(|thread| thread.spent(now))
    }

    fn begin<O: Observer>(
        &mut self,
        spot: &Spot,
        mark: SpanMark<'_>,
        who: Option<ThreadId>,
        seen: &mut O,
    ) {
        let owner = mark.owner.filter(|_| spot.tid.is_some());
        let owner = owner.and_then(|owner| self.thread(spot.machine, owner, seen));
        let span = OpenSpan {
            pair: mark.pair,
            name: mark.name,
            event: mark.event,
            begin: spot.time.saturating_sub_unsigned(mark.elapsed),
            thread: who,
            cpu: spot.cpu,
            home: spot.home,
            gaps: self.span_gaps(spot.home.trace),
            check: mark.check,
            address: mark.address,
            owner,
            spent: match mark.elapsed {
                0 => Some(self.spent(who, spot.time).unwrap_or_default()),
                _ => None,
            },
            selected: spot.selected,
        };
        let world = &self.world;
        let mut unpaired = |unpaired: UnpairedSpan| seen.unpaired_span(world, &unpaired);
        match (mark.key, who, spot.own_tid) {
            (Some(key), _, _) => self.spans.begin_key(key, span, &mut unpaired),
            (None, Some(who), _) => {
                let Some(thread) = self.world.threads.get_mut(who) else { return };
                if thread.spans.len() < DEPTH_MAX {
                    return thread.spans.push(span);
                }
                seen.unpaired_span(&self.world, &span.unpaired(UnpairedReason::TooMany));
            }
            (None, None, Some(own)) => {
                self.spans.begin_thread(spot.home, own, span, &mut unpaired);
            }
            (None, None, None) => self.spans.begin_process(span, &mut unpaired),
        }
    }

    fn end<O: Observer>(
        &mut self,
        spot: &Spot,
        mark: SpanMark<'_>,
        who: Option<ThreadId>,
        seen: &mut O,
    ) {
        let mut left = Vec::new();
        let mut unpaired = |unpaired: UnpairedSpan| left.push(unpaired);
        let of = (mark.pair, mark.address);
        let by_thread = if mark.is_keyed { Paired::NoKey } else { Paired::Thread };
        let (found, key, paired): (_, Option<SpanKey>, _) = match (mark.key, who, spot.own_tid) {
            (Some(key), _, _) => match self.spans.end_key(mark.pair, key, spot.home) {
                Some((open, key)) => (Some(open), Some(key), Paired::Key),
                None => (None, None, Paired::Key),
            },
            (None, Some(who), _) => {
                let stack = self.world.threads.get_mut(who).map(|thread| &mut thread.spans);
                (stack.and_then(|stack| end(stack, of, &mut unpaired)), None, by_thread)
            }
            (None, None, Some(own)) => {
                let open = self.spans.end_thread(spot.home, own, of, &mut unpaired);
                (open, None, by_thread)
            }
            (None, None, None) => {
                (self.spans.end_process(spot.home, mark.pair, spot.cpu), None, Paired::Guess)
            }
        };
        left.iter().for_each(|unpaired| seen.unpaired_span(&self.world, unpaired));
        let Some(open) = found else {
            let (name, thread, time) = (mark.name, who, spot.time);
            let selected = spot.selected;
            let unpaired =
                UnpairedSpan { name, thread, time, why: UnpairedReason::NoBegin, selected };
            return seen.unpaired_span(&self.world, &unpaired);
        };
        if open.gaps != self.span_gaps(open.home.trace) {
            return seen.unpaired_span(&self.world, &open.unpaired(UnpairedReason::Gap));
        }
        let done = spot.time.max(open.begin);
        let is_one = who.is_some() && who == open.thread;
        let spent = self.spent(who.filter(|_| is_one), done);
        let span = Span {
            name: open.name,
            event: open.event,
            begun_by: open.thread,
            thread: who,
            begin: open.begin,
            end: done,
            key,
            address: open.address,
            owner: open.owner,
            result: mark.result,
            paired,
            disagrees: open.check.zip(mark.check).is_some_and(|(begin, end)| begin != end),
            spent: spent
                .zip(open.spent)
                .map(|(spent, before)| spent.since(before, done.abs_diff(open.begin))),
            selected: open.selected || spot.selected,
        };
        seen.span(&self.world, &span);
    }

    fn span_gaps(&self, trace: u32) -> u32 {
        let at = usize::try_from(trace).ok();
        at.and_then(|at| self.span_gaps.get(at)).copied().unwrap_or(0)
    }

    /// Notes that records of a trace were discarded, so that its open spans may have ended meanwhile.
    pub(crate) fn span_gap(&mut self, trace: u32) {
        let Ok(at) = usize::try_from(trace) else { return };
        if self.span_gaps.len() <= at {
            self.span_gaps.resize(at + 1, 0);
        }
        if let Some(gaps) = self.span_gaps.get_mut(at) {
            *gaps = gaps.wrapping_add(1);
        }
    }

    /// Reports all open spans as unpaired, at the end of the trace.
    pub(super) fn finish_spans<O: Observer>(&mut self, seen: &mut O) {
        let all: Vec<ThreadId> = self.world.threads.iter().map(|(id, _)| id).collect();
        let mut left = Vec::new();
        for id in all {
            let thread = self.world.threads.get_mut(id);
            let activity = thread.and_then(|thread| thread.activity_mut());
            left.extend(activity.into_iter().flat_map(|it| std::mem::take(&mut it.spans)));
        }
        left.extend(self.spans.finish());
        for open in left {
            let is_gap = open.gaps != self.span_gaps(open.home.trace);
            let why = if is_gap { UnpairedReason::Gap } else { UnpairedReason::NoEnd };
            seen.unpaired_span(&self.world, &open.unpaired(why));
        }
    }
}
