//! The waits that records of wakers have ended.

use std::collections::HashMap;

use strata_ctf::read::{Event, Scope};
use strata_timeline::{Interval, ThreadId, Waker, World};

use super::frames::{is_of_kernel, FrameId, Frames};

/// Returns whether an event reports that a thread is woken. The first such record for a wait is made by the waker.
pub fn is_waking(name: &str) -> bool {
    let name = name.rsplit(':').next().unwrap_or(name);
    matches!(name, "sched_waking" | "sched_wakeup" | "sched_wakeup_new")
}

/// Begins of the names of the kernel's functions with which an interrupt begins: on x86-64 and on AArch64.
const ENTRIES: [&str; 8] = [
    "asm_sysvec_",
    "asm_common_interrupt",
    "apic_timer_interrupt",
    "ret_from_intr",
    "el1h_64_irq",
    "el0t_64_irq",
    "el1_irq",
    "el0_irq",
];
/// Begins of the names of functions that run when a timer expires, a packet arrives or a disk is done, each with that
/// cause.
const CAUSES: [(&str, Waker); 6] = [
    ("hrtimer_", Waker::Timer),
    ("call_timer_fn", Waker::Timer),
    ("process_timeout", Waker::Timer),
    ("net_rx_action", Waker::Softirq(3)),
    ("net_tx_action", Waker::Softirq(2)),
    ("blk_done_softirq", Waker::Softirq(4)),
];

/// Finds the interrupt in whose frames a stack ends; `names` are those of the stack, the outermost first. Returns the
/// index of its first frame, and what it was. The frames before it belong to the interrupted code, which has woken no
/// thread.
pub fn interrupt_in<'n>(names: impl Iterator<Item = &'n str>) -> Option<(usize, Waker)> {
    let mut found = None;
    for (at, name) in names.enumerate() {
        if ENTRIES.iter().any(|entry| name.starts_with(entry)) && is_of_kernel(name) {
            found = Some((at, Waker::Interrupt));
        } else if let Some((_, waker)) = &mut found {
            // The innermost cause: softirqs run behind the interrupt of a timer, too.
            let cause = CAUSES.iter().find(|(begin, _)| name.starts_with(begin));
            *waker = cause.map_or(*waker, |(_, cause)| *cause);
        }
    }
    found
}

/// A wait that has ended.
#[derive(Debug)]
pub struct EndedWait<W> {
    pub what: W,
    pub waker: Waker,
    /// Begin of the wait \[ns since 1970\].
    pub from: i64,
}

impl<W> EndedWait<W> {
    /// Returns the frames of the waker alone, the outermost first, of the stack of the record that ended the wait. If
    /// the stack shows an interrupt, that becomes the waker, unless records have shown it more exactly.
    pub fn of_waker<'s>(&mut self, frames: &Frames, stack: &'s [FrameId]) -> &'s [FrameId] {
        let Some((at, waker)) = interrupt_in(stack.iter().map(|frame| frames.name(*frame))) else {
            return stack;
        };
        if matches!(self.waker, Waker::Thread { .. } | Waker::Unknown | Waker::Interrupt) {
            self.waker = waker;
        }
        stack.get(at..).unwrap_or(stack)
    }
}

/// Waits that have ended. Each is kept until its thread's next wait, when it is certain that no timeout has ended it.
#[derive(Debug)]
pub struct EndedWaits<W> {
    waits: HashMap<ThreadId, EndedWait<W>>,
    /// The threads whose waits have ended since the last record.
    fresh: Vec<ThreadId>,
}

impl<W> Default for EndedWaits<W> {
    fn default() -> EndedWaits<W> {
        EndedWaits { waits: HashMap::new(), fresh: Vec::new() }
    }
}

impl<W> EndedWaits<W> {
    /// Keeps a wait, and returns the previous wait of its thread.
    pub fn put(&mut self, thread: ThreadId, of: &Interval, what: W) -> Option<EndedWait<W>> {
        self.fresh.push(thread);
        self.waits.insert(thread, EndedWait { what, waker: of.waker, from: of.from })
    }

    /// Returns the wait that a record has ended. Call this for each record, since each ends another wait.
    pub fn ended_by(&mut self, world: &World, event: &Event<'_>) -> Option<&mut EndedWait<W>> {
        let mut fresh = std::mem::take(&mut self.fresh);
        let found = || {
            let class = event.class();
            if fresh.is_empty() || !is_waking(class.name()) {
                return None;
            }
            let field = ["tid", "pid"].iter().find_map(|it| class.find_in(Scope::Payload, it))?;
            let tid = event.integer(&field)?;
            let is_woken = |id: &&ThreadId| {
                world.threads.get(**id).is_some_and(|thread| i64::from(thread.tid) == tid)
            };
            fresh.iter().find(is_woken).copied()
        };
        let found = found();
        fresh.clear();
        self.fresh = fresh;
        self.waits.get_mut(&found?)
    }

    /// Corrects the waker of a wait that a timeout has ended.
    pub fn timed_out(&mut self, thread: ThreadId, of: &Interval) {
        if let Some(wait) = self.waits.get_mut(&thread).filter(|wait| wait.from == of.from) {
            wait.waker = Waker::Timer;
        }
    }

    /// Returns the number of waits that are kept.
    pub fn count(&self) -> usize {
        self.waits.len()
    }

    /// Returns true if a wait of the thread is kept.
    pub fn has(&self, thread: ThreadId) -> bool {
        self.waits.contains_key(&thread)
    }

    /// Removes and returns all waits that are still kept.
    pub fn rest(&mut self) -> Vec<(ThreadId, EndedWait<W>)> {
        let mut rest: Vec<_> = std::mem::take(&mut self.waits).into_iter().collect();
        rest.sort_by_key(|(thread, _)| *thread);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_found_by_their_first_function_and_what_they_have_called() {
        for (stack, wanted) in [
            ("main do_syscall_64_[k] try_to_wake_up_[k]", None),
            ("main asm_sysvec_apic_timer_interrupt_[k] hrtimer_wakeup_[k]", Some((1, Waker::Timer))),
            (
                "main asm_sysvec_apic_timer_interrupt_[k] __irq_exit_rcu_[k] net_rx_action_[k] x_[k]",
                Some((1, Waker::Softirq(3))),
            ),
            ("a_[k] asm_common_interrupt_[k] handle_[k]", Some((1, Waker::Interrupt))),
            // One in another, and a program's own function of that name.
            (
                "asm_common_interrupt_[k] asm_sysvec_x_[k] call_timer_fn_[k]",
                Some((1, Waker::Timer)),
            ),
            ("asm_sysvec_mine hrtimer_mine write", None),
            ("", None),
        ] {
            assert_eq!(interrupt_in(stack.split_whitespace()), wanted, "{stack}");
        }
    }
}
