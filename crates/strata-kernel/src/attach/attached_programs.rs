//! Programs that are attached, and those that are being detached.

use crate::attach::program::Attached;
use crate::attach::sample_counts::SampleCounts;
use crate::attach::shared_control::{LiveTable, SharedControl, Switch, SyscallTable};
use crate::decide::program_key::ProgramKey;
use crate::decide::program_plan::PairAbilities;
use crate::discover::capability::give_up_reserve;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// The attached programs of one event, or of system calls with the same filters. The fields are released in their
/// order.
#[derive(Debug)]
pub(crate) struct RunningPrograms {
    pub(crate) attached: Vec<Attached>,
    pub(crate) switch: Switch,
    /// The key of the programs that were requested; a fallback may run instead if the kernel refused these.
    pub(crate) key: ProgramKey,
    /// Names of the recorded events.
    pub(crate) events: Vec<String>,
    /// Counts of the events that are left out of a sample; `None` if all are recorded.
    pub(crate) sampled: Option<Arc<SampleCounts>>,
    /// The tables of a pair of programs for system calls; `None` for other programs.
    pub(crate) calls: Option<RunningCalls>,
    /// The kernel's reason for refusing the programs, so that none is attached; `None` if it accepted them.
    pub(crate) refused: Option<String>,
    /// The value of [`RunningPrograms::not_run`] when recording was last started.
    pub(crate) not_run_before: u64,
}

/// The tables of a running pair of programs for system calls.
#[derive(Debug)]
pub(crate) struct RunningCalls {
    pub(crate) memory: LiveTable,
    pub(crate) table: Box<SyscallTable>,
    pub(crate) held: Box<PairAbilities>,
}

impl RunningPrograms {
    /// Returns the number of events for which the programs were not run, since they were loaded.
    pub(crate) fn not_run(&self) -> u64 {
        self.attached.iter().map(Attached::nested).sum()
    }
}

/// Detaches programs in the background, since the kernel needs a grace period for each, some 50 ms.
#[derive(Debug, Default)]
pub(crate) struct Detacher {
    thread: Option<(Sender<GonePrograms>, JoinHandle<()>)>,
    left: Arc<AtomicUsize>,
}

/// Programs to detach, and the change in which other programs replaced them; `None` if none did.
type GonePrograms = (Vec<RunningPrograms>, Option<Turns>);

/// The number of a change in which new programs replace old ones. It ends when the old ones are
/// detached; see [`SharedControl::end_turns`].
#[derive(Clone, Debug)]
pub(crate) struct Turns(pub(crate) Arc<SharedControl>, pub(crate) u64);

/// Time after which no task can still be preempted between a detached program and the one that follows it. Only the
/// detaching thread waits for that long.
const SETTLED: Duration = Duration::from_secs(1);

impl Detacher {
    /// Detaches programs, which must be switched off already, in a thread of its own.
    pub(crate) fn detach(&mut self, all: Vec<RunningPrograms>, turns: Option<Turns>) {
        if all.is_empty() && turns.is_none() {
            return;
        }
        let programs = all.iter().map(|one| one.attached.len()).sum();
        self.left.fetch_add(programs, Ordering::Relaxed);
        if self.thread.is_none() {
            let (sender, receiver) = channel::<GonePrograms>();
            let left = Arc::clone(&self.left);
            let work = move || {
                give_up_reserve();
                let mut next = receiver.recv().ok();
                while let Some((all, turns)) = next {
                    for one in all {
                        let programs = one.attached.len();
                        drop(one);
                        left.fetch_sub(programs, Ordering::Release);
                    }
                    next = match turns {
                        None => receiver.recv().ok(),
                        Some(Turns(shared, number)) => {
                            let next = receiver.recv_timeout(SETTLED);
                            shared.end_turns(number);
                            match next {
                                Err(RecvTimeoutError::Timeout) => receiver.recv().ok(),
                                next => next.ok(),
                            }
                        }
                    };
                }
            };
            let thread = std::thread::Builder::new().name("strata-detach".into()).spawn(work);
            self.thread = thread.ok().map(|thread| (sender, thread));
        }
        match &self.thread {
            // Without the thread they go here, which takes its time.
            Some((sender, _)) => drop(sender.send((all, turns))),
            None => {
                drop(all);
                self.left.fetch_sub(programs, Ordering::Relaxed);
                if let Some(Turns(shared, number)) = turns {
                    shared.end_turns(number);
                }
            }
        }
    }

    /// Returns the number of programs that are still attached.
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    /// Waits until all programs are detached.
    pub(crate) fn finish(&mut self) {
        if let Some((sender, thread)) = self.thread.take() {
            drop(sender);
            // One that panicked has nothing left.
            let _ = thread.join();
        }
    }
}
