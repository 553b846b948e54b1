//! Stalls of virtual CPUs. A guest's thread runs on a virtual CPU, which is a thread of the host and may have to wait
//! itself.
//!
//! A guest cannot see this: for its kernel a thread runs, or waits for its turn, while its virtual CPU does nothing.
//! The guest's traces say which thread of the host runs which virtual CPU (`virtual_cpu_N`), and the host's trace says
//! which thread had the CPU instead. The overlap of the two is computed as the intervals of both arrive, in the order
//! of their ends.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use strata_ctf::read::{Reader, TimeRange};
use strata_model::schema::Schema;
use strata_model::EnvValue;
use strata_timeline::{CallId, Interval, Reason, Sources, State, ThreadId, World};

use strata_report::Label;

/// The most intervals of each virtual CPU and side that wait for the other side's intervals.
const HELD_MAX: usize = 1 << 16;
/// The most causes that are kept for all threads together. Further stalls are counted without one.
const CAUSES_MAX: usize = 1 << 16;
/// The most virtual CPUs of a trace that are followed.
const CPUS_MAX: usize = 4096;

/// The reason for which a virtual CPU did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The virtual CPU waited for a CPU of the host that this thread had; `None`: no thread, or an unknown one.
    Preempted(Option<Label>),
    /// The virtual CPU's thread was blocked, in this system call, if the host's trace has it.
    Waited(Option<String>),
}

/// A stall: the time for which a guest's thread had, or waited for, a virtual CPU that did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The thread of the guest.
    pub label: Label,
    /// The reason for which the virtual CPU did not run.
    pub why: Why,
    /// The thread of the host that runs the virtual CPU.
    pub virtual_cpu: Label,
    /// The number of stalls.
    pub count: u64,
    /// The total length \[ns\].
    pub total: u64,
    /// The length of the longest stall \[ns\].
    pub max: u64,
    /// The begin of the longest stall \[ns since 1970\].
    pub at: i64,
}

/// The reason for which a virtual CPU did not run, with ids instead of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum OffCause {
    Preempted(Option<ThreadId>),
    Waited(Option<Reason>),
}

/// The reason without the object of its system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum BriefCause {
    Preempted(Option<ThreadId>),
    Waited(Option<CallId>),
}

/// A period in which a thread of the host did not run: begin, end, thread and reason.
type Off = (i64, i64, ThreadId, OffCause);

/// A virtual CPU of a guest.
#[derive(Clone, Debug, Default)]
struct VirtualCpu {
    /// The times in which a thread of the guest had the virtual CPU, or waited for its turn: begin, end and thread.
    wanted: VecDeque<(i64, i64, ThreadId)>,
    off: VecDeque<Off>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OffSum {
    count: u64,
    total: u64,
    max: u64,
    at: i64,
}

/// Finds the times in which virtual CPUs did not run.
#[derive(Clone, Debug)]
pub(super) struct VirtualCpus {
    range: TimeRange,
    /// The machine of the host; `None` without a trace of the host's kernel.
    host: Option<u8>,
    /// The virtual CPUs that each thread of the host runs, by the thread's number; each with machine and CPU number.
    threads: HashMap<i32, Vec<(u8, u32)>>,
    cpus: HashMap<(u8, u32), VirtualCpu>,
    sums: HashMap<(ThreadId, ThreadId, OffCause), OffSum>,
    /// The greatest error of times in guests' traces \[ns\].
    uncertainty: u64,
}

impl VirtualCpus {
    /// Finds out from the traces' metadata which threads of the host run virtual CPUs.
    pub(super) fn new(reader: &Reader, range: TimeRange) -> VirtualCpus {
        let sources = Sources::new(reader);
        let mut all = VirtualCpus {
            range,
            host: None,
            threads: HashMap::new(),
            cpus: HashMap::new(),
            sums: HashMap::new(),
            uncertainty: 0,
        };
        for (stream, source) in reader.streams().iter().zip(&sources.streams) {
            let schema = stream.trace().schema();
            let uncertainty = match schema.environment("clock_uncertainty") {
                Some(&EnvValue::Integer(uncertainty)) => u64::try_from(uncertainty).ok(),
                _ => None,
            };
            // Who has no other clock than the host's is the host.
            match uncertainty {
                None if source.is_kernel => all.host = all.host.or(Some(source.machine)),
                None => {}
                Some(uncertainty) => {
                    all.uncertainty = all.uncertainty.max(uncertainty);
                    all.add(source.machine, schema);
                }
            }
        }
        all
    }

    fn add(&mut self, machine: u8, schema: &Schema) {
        for (name, value) in &schema.environment {
            let cpu = name.strip_prefix("virtual_cpu_").and_then(|cpu| cpu.parse().ok());
            let tid = match value {
                EnvValue::Integer(tid) => i32::try_from(*tid).ok(),
                EnvValue::Text(_) => None,
            };
            let (Some(cpu), Some(tid)) = (cpu, tid) else { continue };
            let key = (machine, cpu);
            if self.cpus.len() < CPUS_MAX && !self.cpus.contains_key(&key) {
                self.cpus.insert(key, VirtualCpu::default());
                self.threads.entry(tid).or_default().push(key);
            }
        }
    }

    /// Returns the greatest error of times in guests' traces \[ns\].
    pub(super) fn uncertainty(&self) -> u64 {
        self.uncertainty
    }

    /// Returns the virtual CPUs that a thread of the host runs; empty for all other threads.
    fn run_by(&self, world: &World, thread: ThreadId) -> Vec<(u8, u32)> {
        let found = world.threads.get(thread).filter(|it| Some(it.machine) == self.host);
        found.and_then(|it| self.threads.get(&it.tid)).cloned().unwrap_or_default()
    }

    /// Handles an interval of any thread. `rivals`: function that returns the threads that had the CPU while this
    /// thread wanted it.
    pub(super) fn state(
        &mut self,
        world: &World,
        thread: ThreadId,
        interval: &Interval,
        rivals: &dyn Fn() -> Vec<(i64, i64, Option<ThreadId>)>,
    ) {
        if self.cpus.is_empty() {
            return;
        }
        for key in self.run_by(world, thread) {
            let off: Vec<Off> = match interval.state {
                State::Runnable { .. } => {
                    let all = rivals().into_iter();
                    all.map(|(from, to, who)| (from, to, thread, OffCause::Preempted(who)))
                        .collect()
                }
                State::Blocked(reason) => {
                    vec![(interval.from, interval.to, thread, OffCause::Waited(Some(reason)))]
                }
                _ => Vec::new(),
            };
            let Some(cpu) = self.cpus.get_mut(&key) else { continue };
            // What was before this has been told of both.
            cpu.wanted.retain(|(_, to, _)| *to > interval.from);
            for one in off {
                let of = &cpu.wanted;
                of.iter().for_each(|wanted| add(&mut self.sums, self.range, *wanted, one));
                hold(&mut cpu.off, one);
            }
        }
        let machine = world.threads.get(thread).map_or(u8::MAX, |it| it.machine);
        let cpu = match interval.state {
            State::Running { cpu } => Some(cpu),
            State::Runnable { .. } => interval.cpu,
            _ => None,
        };
        let Some(cpu) = cpu.and_then(|cpu| self.cpus.get_mut(&(machine, cpu))) else { return };
        let wanted = (interval.from, interval.to, thread);
        for off in cpu.off.iter().rev().take_while(|off| off.1 > interval.from) {
            add(&mut self.sums, self.range, wanted, *off);
        }
        hold(&mut cpu.wanted, wanted);
    }

    /// Returns all stalls by falling time.
    pub(super) fn finish(self, world: &World) -> Vec<Stall> {
        // Of several objects of one system call.
        let mut merged: HashMap<(ThreadId, ThreadId, BriefCause), OffSum> = HashMap::new();
        for ((thread, virtual_cpu, cause), one) in self.sums {
            let why = match cause {
                OffCause::Preempted(who) => BriefCause::Preempted(who),
                OffCause::Waited(reason) => {
                    BriefCause::Waited(reason.and_then(|reason| reason.call))
                }
            };
            let known = merged.entry((thread, virtual_cpu, why)).or_default();
            known.count += one.count;
            known.total = known.total.saturating_add(one.total);
            if (one.max, Reverse(one.at)) > (known.max, Reverse(known.at)) {
                (known.max, known.at) = (one.max, one.at);
            }
        }
        let mut merged: Vec<((ThreadId, ThreadId, BriefCause), OffSum)> =
            merged.into_iter().collect();
        merged.sort_by_key(|&(key, sum)| (Reverse(sum.total), key));
        let stall =
            |((thread, virtual_cpu, why), sum): ((ThreadId, ThreadId, BriefCause), OffSum)| Stall {
                label: Label::thread(world, thread),
                why: match why {
                    BriefCause::Preempted(who) => {
                        Why::Preempted(who.map(|who| Label::thread(world, who)))
                    }
                    BriefCause::Waited(call) => {
                        Why::Waited(call.map(|call| world.calls.name(call).to_owned()))
                    }
                },
                virtual_cpu: Label::thread(world, virtual_cpu),
                count: sum.count,
                total: sum.total,
                max: sum.max,
                at: sum.at,
            };
        merged.into_iter().map(stall).collect()
    }
}

fn hold<T>(all: &mut VecDeque<T>, one: T) {
    if all.len() >= HELD_MAX {
        all.pop_front();
    }
    all.push_back(one);
}

/// Adds to the sums the overlap of two intervals within the time of the report.
fn add(
    sums: &mut HashMap<(ThreadId, ThreadId, OffCause), OffSum>,
    range: TimeRange,
    (from, to, thread): (i64, i64, ThreadId),
    (begin, end, virtual_cpu, cause): Off,
) {
    let (from, to) = (from.max(begin).max(range.from), to.min(end).min(range.to));
    if from >= to {
        return;
    }
    let mut key = (thread, virtual_cpu, cause);
    if sums.len() >= CAUSES_MAX && !sums.contains_key(&key) {
        key.2 = match cause {
            OffCause::Preempted(_) => OffCause::Preempted(None),
            OffCause::Waited(_) => OffCause::Waited(None),
        };
    }
    let sum = sums.entry(key).or_default();
    let nanos = to.abs_diff(from);
    sum.count += 1;
    sum.total = sum.total.saturating_add(nanos);
    if nanos > sum.max {
        (sum.max, sum.at) = (nanos, from);
    }
}
