//! The recorded command and its descendants: which threads belong to them, and from when to when.
//!
//! ```text
//! Mine::read(reader)                     once, on several threads
//!   recorder ── its child is the command ── forks, exits, execve: descendants ── ThreadOwnership over time
//! Mine::ask() ── MineLookup::accepts(event)     for each record, one lookup a worker     view --mine
//! Mine::processes(world)                        at the end of a pass                     analyze --mine
//! ```
//!
//! A trace of Strata's says which process was the recorder, and whether it recorded a command. The process that
//! the recorder started is the command. Its descendants are known from forks. For processes that existed when a
//! trace began, the state dump says the parents, so this also works for a later part of a rotated trace. System
//! calls are recorded of the command's threads only, so they identify threads whose fork is not in the trace. The
//! trace of a single process belongs to the command if nothing else was recorded, or if that process is one of
//! the command's.
//!
//! Numbers of threads are used again, so that ownership has times: a number may be the command's for a while, and
//! then that of another program. A record is also the command's if it is *about* one of its threads, such as the
//! switch that gives it a CPU.
//!
//! The statements of all parts of all streams are collected first and then sorted by time: they come from workers
//! in any order, and a child's first record may be in another stream than its fork. A forged trace can name
//! itself its own ancestor, so the search for ancestors ends after `PARENTS_MAX` steps, and more than `FACTS_MAX`
//! statements are an error ([`MineError::TooMany`]).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use strata_ctf::environment::{RECORDED, RECORDED_COMMAND, RECORDER};
use strata_ctf::read::{
    Event, EventClass, FieldRef, Message, Reader, Scope, Stream, StreamPart, Trace,
};
use strata_model::schema::Schema;
use strata_model::EnvValue;
use strata_timeline::{kernel_name, CallEnd, Sources, ThreadId, World};
use thiserror::Error;

/// Size of the part of a stream that one worker reads at once \[byte\].
const PART_BYTES: u64 = 4 << 20;
/// The most facts about threads that are kept; each takes some 40 bytes.
const FACTS_MAX: usize = 1 << 22;

/// The most ancestors of a process that are searched. The limit protects against forged traces.
const PARENTS_MAX: usize = 256;

/// The kernel's own event for a fork, and the event that replaces it where loaded code is tracked for call stacks.
const FORKS: [&str; 2] = ["sched_process_fork", "lttng_statedump_vm_fork"];

/// The reason why the records of the recorded command cannot be found.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MineError {
    /// No trace says which command was recorded.
    #[error(
        "--mine: none of these traces says which command was recorded. Traces of `strata record -- COMMAND` do, \
         since this version; of others, select by -f"
    )]
    NotSaid,
    /// The start of the command is not in the trace.
    #[error(
        "--mine: the command's start is not in the trace: whoever recorded was process {0}, and no record says of whom it \
         is the parent. Record with -k sched_process_fork, too; of a part of a rotated trace, show all parts together"
    )]
    NoStart(i64),
    /// The traces have more facts about threads than can be kept.
    #[error("--mine: there are more than {FACTS_MAX} starts of threads, as many as are kept. Take less time, by --from and --until")]
    TooMany,
}

/// A statement about threads in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadFact {
    /// A thread has created another one.
    Fork { parent: i64, parent_tid: i64, child: i64, child_tid: i64 },
    /// The thread existed when the trace began. Has its process, and the parent of that process.
    There { tid: i64, process: i64, parent: i64 },
    /// The thread is one of those whose system calls are recorded.
    Calls { tid: i64 },
}

/// The kind of statements that the records of an event class make about threads, with the fields that hold them.
#[derive(Debug)]
enum Teller {
    Nothing,
    Fork([FieldRef; 4]),
    There([FieldRef; 3]),
    Calls(FieldRef),
}

/// The fields that name the thread which made a record, and the threads that the record is about.
#[derive(Clone, Debug, Default)]
struct Concerned {
    is_known: bool,
    fields: Vec<FieldRef>,
}

/// The kinds of statements about threads that a trace has.
#[derive(Clone, Copy, Debug)]
struct Tells {
    /// True if system calls were recorded of the command's threads only.
    is_restricted: bool,
    /// The event that is read for forks. A trace may have two, whose times differ for the same fork.
    fork: &'static str,
}

/// The relation of a trace to the recorded command.
#[derive(Debug, Default)]
enum TraceOwnership {
    /// The trace is of other processes.
    #[default]
    Others,
    /// The trace is of one of the command's processes.
    Whole,
    /// The trace is a kernel's. For each of its threads, it has the times at which the thread begins or ceases to
    /// belong to the command.
    Threads(Arc<ThreadOwnership>),
}

/// Statements about threads, each with its time.
type TimedFacts = Vec<(i64, ThreadFact)>;

/// The identity of the recording that a kernel's trace belongs to: machine, recorder and begin.
type RecordingId = (u8, i64, Option<String>);

/// For each thread id, the times at which its thread begins (true) or ceases (false) to belong to the command.
type ThreadOwnership = HashMap<i64, Vec<(i64, bool)>>;

/// The records that belong to the recorded command.
#[derive(Debug)]
pub struct Mine {
    /// The relation of each trace to the command, by [`strata_ctf::read::Trace::index`].
    traces: Vec<TraceOwnership>,
    /// For each trace, the number that timelines give its machine, and the process if the whole trace is of one
    /// process.
    homes: Vec<(u8, Option<i64>)>,
    /// The number of traces that do not say whether a command was recorded.
    unknown: usize,
}

/// The command's processes in a timeline, each given by its first thread.
#[derive(Clone, Debug, Default)]
pub struct Processes(HashSet<ThreadId>);

/// A lookup that one worker uses for many records.
#[derive(Clone, Debug)]
pub struct MineLookup<'m> {
    mine: &'m Mine,
    classes: Vec<Concerned>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn teller(class: &EventClass, tells: Tells) -> Teller {
    let find = |name| class.find_in(Scope::Payload, name);
    let tid = || class.find_in(Scope::CommonContext, "tid");
    let fork =
        || Some([find("parent_pid")?, find("parent_tid")?, find("child_pid")?, find("child_tid")?]);
    let found = match kernel_name(class.name()) {
        name if name == tells.fork => fork().map(Teller::Fork),
        "lttng_statedump_process_state" => {
            let there = || Some([find("tid")?, find("pid")?, find("ppid")?]);
            there().map(Teller::There)
        }
        name if tells.is_restricted && CallEnd::of(name).is_some() => tid().map(Teller::Calls),
        _ => None,
    };
    found.unwrap_or(Teller::Nothing)
}

/// Reads the statements in a part of a stream.
fn facts_of(
    reader: &Reader,
    part: &StreamPart,
    tells: Tells,
    tellers: &mut [Option<Teller>],
) -> TimedFacts {
    let mut facts = Vec::new();
    let mut last = None;
    let mut events = reader.events_of_part(part);
    while let Some(message) = events.next() {
        let Message::Event(event) = message else { continue };
        let Some(known) = tellers.get_mut(event.class().index()) else { continue };
        let ask = |field: &FieldRef| event.integer(field);
        let fact = match known.get_or_insert_with(|| teller(event.class(), tells)) {
            Teller::Nothing => None,
            Teller::Fork([parent, parent_tid, child, child_tid]) => {
                let fork = || {
                    Some(ThreadFact::Fork {
                        parent: ask(parent)?,
                        parent_tid: ask(parent_tid)?,
                        child: ask(child)?,
                        child_tid: ask(child_tid)?,
                    })
                };
                fork()
            }
            Teller::There([tid, process, parent]) => {
                let there = || {
                    let (tid, process) = (ask(tid)?, ask(process)?);
                    Some(ThreadFact::There { tid, process, parent: ask(parent)? })
                };
                there()
            }
            Teller::Calls(tid) => ask(tid).map(|tid| ThreadFact::Calls { tid }),
        };
        // A thread's calls follow each other.
        if let Some(fact) =
            fact.filter(|fact| last != Some(*fact) || !matches!(fact, ThreadFact::Calls { .. }))
        {
            last = Some(fact);
            if facts.len() < FACTS_MAX {
                facts.push((event.time().unwrap_or(i64::MIN), fact));
            }
        }
    }
    facts
}

/// Returns whether a process that existed when a trace began belongs to the command. Follows its ancestors to one
/// that is known, or to the recorder.
fn is_mine_by_parents(
    all: &ThreadOwnership,
    parents: &HashMap<i64, i64>,
    process: i64,
    recorder: i64,
) -> bool {
    let mut now = process;
    for _ in 0..PARENTS_MAX {
        if now == recorder {
            return process != recorder;
        }
        if let Some((_, is_mine)) = all.get(&now).and_then(|known| known.last()) {
            return *is_mine;
        }
        match parents.get(&now) {
            Some(parent) => now = *parent,
            None => return false,
        }
    }
    false
}

/// Returns the threads that belong to the command, from the statements of one machine's kernel traces. The statements
/// of a trace about parents are used for that trace only.
fn threads_of(traces: Vec<TimedFacts>, recorder: i64) -> ThreadOwnership {
    let parents = |facts: &TimedFacts| -> HashMap<i64, i64> {
        let parents = facts.iter().filter_map(|(_, fact)| match fact {
            ThreadFact::There { process, parent, .. } => Some((*process, *parent)),
            _ => None,
        });
        parents.collect()
    };
    let parents: Vec<HashMap<i64, i64>> = traces.iter().map(parents).collect();
    let facts = traces.into_iter().zip(&parents);
    let facts = facts.flat_map(|(of, parents)| of.into_iter().map(move |fact| (fact, parents)));
    let mut facts: Vec<_> = facts.collect();
    facts.sort_by_key(|((time, _), _)| *time);
    let mut all = ThreadOwnership::new();
    let set = |all: &mut ThreadOwnership, tid, from, is_mine| {
        let known = all.entry(tid).or_default();
        if known.last().map_or(is_mine, |(_, was)| *was != is_mine) {
            known.push((from, is_mine));
        }
    };
    for ((time, fact), parents) in facts {
        match fact {
            // It was its own before that record, too.
            ThreadFact::There { tid, process, .. } => {
                if !all.contains_key(&tid) && is_mine_by_parents(&all, parents, process, recorder) {
                    set(&mut all, tid, i64::MIN, true);
                }
            }
            // That its number's last owner has ended changes nothing: his last records are still his own.
            ThreadFact::Fork { parent, parent_tid, child, child_tid } => {
                let of_mine = |tid: i64| {
                    all.get(&tid).and_then(|known| known.last()).is_some_and(|(_, is)| *is)
                };
                let is_mine = of_mine(parent_tid) || parent == recorder && child != recorder;
                set(&mut all, child_tid, time, is_mine);
            }
            ThreadFact::Calls { tid } => set(&mut all, tid, time, true),
        }
    }
    all
}

impl Mine {
    /// Finds the command's records, on `threads` threads.
    ///
    /// # Errors
    /// Returns [`MineError`] if it is not known which records are the command's.
    pub fn read(
        reader: &Reader,
        threads: usize,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Mine, MineError> {
        let all: Vec<_> = reader.traces().iter().map(|trace| said(trace.schema())).collect();
        let count = all.len();
        if all.iter().all(Option::is_none) {
            return Err(MineError::NotSaid);
        }
        let is_kernel = |index: usize| matches!(all.get(index), Some(Some((_, _, None))));
        let forks: Vec<&str> =
            reader.traces().iter().map(|trace| fork_of(trace.schema())).collect();
        let parts = Mutex::new(reader.parts(PART_BYTES));
        let found: Mutex<Vec<TimedFacts>> = Mutex::new(vec![Vec::new(); count]);
        let trace_of =
            |part: &StreamPart| Some(reader.streams().get(part.stream())?.trace().index());
        let work = || {
            let mut tellers: Vec<Option<Teller>> = Vec::new();
            tellers.resize_with(reader.event_classes(), || None);
            loop {
                let part = lock(&parts).next();
                let Some(part) = part else { return };
                if stop() {
                    return;
                }
                let Some(trace) = trace_of(&part).filter(|trace| is_kernel(*trace)) else {
                    continue;
                };
                let is_restricted = matches!(all.get(trace), Some(Some((true, ..))));
                let fork = forks.get(trace).copied().unwrap_or(FORKS[0]);
                let facts = facts_of(reader, &part, Tells { is_restricted, fork }, &mut tellers);
                if let Some(of_trace) = lock(&found).get_mut(trace) {
                    if of_trace.len() <= FACTS_MAX {
                        of_trace.extend(facts);
                    }
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        if found.iter().any(|facts| facts.len() > FACTS_MAX) {
            return Err(MineError::TooMany);
        }
        let mut traces: Vec<TraceOwnership> = Vec::new();
        let mut processes: Vec<i64> = Vec::new();
        let mut without_start = None;
        let homes = homes(reader);
        // What one part of a rotated trace says of a thread is so in the next.
        let mut by_recording: BTreeMap<RecordingId, Vec<TimedFacts>> = BTreeMap::new();
        let recording = |trace: &Trace, home: &(u8, _), recorder| -> RecordingId {
            (home.0, recorder, created(trace.schema()))
        };
        for (((facts, said), trace), home) in
            found.into_iter().zip(&all).zip(reader.traces()).zip(&homes)
        {
            if let Some((_, recorder, None)) = said {
                by_recording.entry(recording(trace, home, *recorder)).or_default().push(facts);
            }
        }
        let mut known: BTreeMap<RecordingId, Arc<ThreadOwnership>> = BTreeMap::new();
        for (of, facts) in by_recording {
            let threads = threads_of(facts, of.1);
            let is_any = threads.values().flatten().any(|(_, is_mine)| *is_mine);
            without_start = Some(of.1).filter(|_| !is_any).or(without_start);
            let mine = threads.iter().filter(|(_, known)| known.iter().any(|(_, is)| *is));
            processes.extend(mine.map(|(tid, _)| *tid));
            known.insert(of, Arc::new(threads));
        }
        for ((said, trace), home) in all.iter().zip(reader.traces()).zip(&homes) {
            traces.push(match said {
                Some((_, recorder, None)) => {
                    let threads = known.get(&recording(trace, home, *recorder));
                    TraceOwnership::Threads(threads.cloned().unwrap_or_default())
                }
                Some((true, _, Some(_))) => TraceOwnership::Whole,
                _ => TraceOwnership::Others,
            });
        }
        for (of, said) in traces.iter_mut().zip(&all) {
            if let Some((false, _, Some(pid))) = said {
                if processes.contains(pid) {
                    *of = TraceOwnership::Whole;
                }
            }
        }
        if let Some(recorder) = without_start {
            if !traces.iter().any(|of| matches!(of, TraceOwnership::Whole)) {
                return Err(MineError::NoStart(recorder));
            }
        }
        let unknown = all.iter().filter(|said| said.is_none()).count();
        Ok(Mine { traces, homes, unknown })
    }

    /// Returns the command's processes in a timeline that has seen all records of these traces.
    #[must_use]
    pub fn processes(&self, world: &World) -> Processes {
        // A number's next owner ends what the one before had.
        let mut births: HashMap<(u8, i32), Vec<i64>> = HashMap::new();
        for (_, thread) in world.threads.iter() {
            if let Some(born) = thread.born {
                births.entry((thread.machine, thread.tid)).or_default().push(born);
            }
        }
        births.values_mut().for_each(|births| births.sort_unstable());
        let end_of = |machine: u8, tid: i32, born: Option<i64>| {
            let births = births.get(&(machine, tid)).map_or(&[][..], |births| births);
            let behind = born.map_or(0, |born| births.partition_point(|it| *it <= born));
            births.get(behind).copied().unwrap_or(i64::MAX)
        };
        let mut found = HashSet::new();
        for (id, thread) in world.threads.iter() {
            let (machine, tid) = (thread.machine, thread.tid);
            let is_mine = self.traces.iter().zip(&self.homes).any(|(of, home)| match of {
                TraceOwnership::Threads(threads) if home.0 == machine => {
                    let known = threads.get(&tid.into()).map_or(&[][..], |known| known);
                    is_mine_in(known, thread.born, end_of(machine, tid, thread.born))
                }
                // The first one of its number: whom the kernel knows to have begun later is another one.
                TraceOwnership::Whole => {
                    *home == (machine, Some(tid.into())) && !self.denies(machine, tid)
                }
                _ => false,
            });
            if is_mine {
                found.insert(world.process_of(id));
            }
        }
        Processes(found)
    }

    /// Returns whether the thread id `tid` also belonged to a thread outside of the command, according to a
    /// kernel's trace of the machine.
    fn denies(&self, machine: u8, tid: i32) -> bool {
        self.traces.iter().zip(&self.homes).any(|(of, home)| match of {
            TraceOwnership::Threads(threads) if home.0 == machine => {
                threads.get(&tid.into()).is_some_and(|known| known.iter().any(|(_, is)| !*is))
            }
            _ => false,
        })
    }

    /// Returns the number of traces that do not say whether a command was recorded. Their records are not shown.
    #[must_use]
    pub fn unknown(&self) -> usize {
        self.unknown
    }

    /// Returns a lookup for one worker.
    #[must_use]
    pub fn ask(&self) -> MineLookup<'_> {
        MineLookup { mine: self, classes: Vec::new() }
    }

    fn of(&self, stream: &Stream) -> Option<&TraceOwnership> {
        self.traces.get(stream.trace().index())
    }
}

/// Returns whether a thread that lived from `born` to `end` belonged to the command. `known`: the changes for its
/// thread id.
fn is_mine_in(known: &[(i64, bool)], born: Option<i64>, end: i64) -> bool {
    let begin = born.map_or(0, |born| known.partition_point(|(from, _)| *from <= born));
    let at_begin = begin.checked_sub(1).and_then(|at| known.get(at));
    let later = known.get(begin..).unwrap_or_default();
    let later = later.iter().take_while(|(from, _)| *from < end);
    at_begin.into_iter().chain(later).any(|(_, is_mine)| *is_mine)
}

/// Returns what a trace says about its recording: whether only a command was recorded, the recorder, and the process
/// that the trace is of.
fn said(schema: &Schema) -> Option<(bool, i64, Option<i64>)> {
    let is_command = match schema.environment(RECORDED)? {
        EnvValue::Text(whom) => whom == RECORDED_COMMAND,
        EnvValue::Integer(_) => false,
    };
    let number = |name| match schema.environment(name) {
        Some(&EnvValue::Integer(number)) => Some(number),
        _ => None,
    };
    Some((is_command, number(RECORDER)?, number("pid").or_else(|| number("vpid"))))
}

/// Returns, for each trace of a recorded command, its index and the number of the process that recorded it.
#[must_use]
pub fn recorders(reader: &Reader) -> Vec<(usize, i64)> {
    let of_command = |trace: &Trace| match said(trace.schema()) {
        Some((true, recorder, None)) => Some((trace.index(), recorder)),
        _ => None,
    };
    reader.traces().iter().filter_map(|trace| of_command(trace)).collect()
}

/// Returns the time at which recording began, which is the same in all parts of a rotated trace.
fn created(schema: &Schema) -> Option<String> {
    match schema.environment("trace_creation_datetime")? {
        EnvValue::Text(text) => Some(text.clone()),
        EnvValue::Integer(_) => None,
    }
}

/// Returns whether any of the traces states that a command was recorded.
#[must_use]
pub fn has_command(reader: &Reader) -> bool {
    reader.traces().iter().any(|trace| said(trace.schema()).is_some())
}

/// Returns the event that is read for forks in a trace.
fn fork_of(schema: &Schema) -> &'static str {
    let mut events = schema.streams.iter().flat_map(|stream| &stream.events);
    let [own, followed] = FORKS;
    match events.any(|event| kernel_name(&event.name) == own) {
        true => own,
        false => followed,
    }
}

/// Returns the machine and the process of each trace.
fn homes(reader: &Reader) -> Vec<(u8, Option<i64>)> {
    let mut homes = vec![(u8::MAX, None); reader.traces().len()];
    for (stream, source) in reader.streams().iter().zip(Sources::new(reader).streams) {
        if let Some(home) = homes.get_mut(stream.trace().index()) {
            *home = (source.machine, source.process);
        }
    }
    homes
}

impl Processes {
    /// Returns true if a process, given by its first thread, belongs to the command.
    #[must_use]
    pub fn has(&self, process: ThreadId) -> bool {
        self.0.contains(&process)
    }
}

impl MineLookup<'_> {
    /// Returns true if a record belongs to the command: one of the command's threads made it, or it is about one.
    pub fn accepts(&mut self, event: &Event<'_>) -> bool {
        let threads = match self.mine.of(event.stream()) {
            None | Some(TraceOwnership::Others) => return false,
            Some(TraceOwnership::Whole) => return true,
            Some(TraceOwnership::Threads(threads)) => threads,
        };
        let index = event.class().index();
        if self.classes.len() <= index {
            self.classes.resize(index + 1, Concerned::default());
        }
        let Some(concerned) = self.classes.get_mut(index) else { return false };
        if !concerned.is_known {
            *concerned = concerned_of(event.class());
        }
        let time = event.time().unwrap_or(i64::MAX);
        let mut tids = concerned.fields.iter().filter_map(|field| event.integer(field));
        tids.any(|tid| {
            let known = threads.get(&tid).map_or(&[][..], |known| known);
            let before = known.partition_point(|(from, _)| *from <= time);
            match before.checked_sub(1).and_then(|at| known.get(at)) {
                Some((_, is_mine)) => *is_mine,
                // What is recorded of it only later was its own before: nothing says that it was another's.
                None => false,
            }
        })
    }
}

/// Returns the fields with the threads that a record is about, for records of the scheduler and of the state dump; no
/// field for other records.
pub(crate) fn threads_told_of(class: &EventClass) -> impl Iterator<Item = FieldRef> + '_ {
    let payload: &[&str] = match kernel_name(class.name()) {
        "sched_switch" => &["prev_tid", "next_tid"],
        "sched_process_fork" => &["parent_tid", "child_tid"],
        name if name.starts_with("sched_") || name.starts_with("lttng_statedump_") => &["tid"],
        _ => &[],
    };
    payload.iter().filter_map(|name| class.find_in(Scope::Payload, name))
}

/// Returns the fields that name the thread which made a record, and the threads which it is about.
fn concerned_of(class: &EventClass) -> Concerned {
    let context = ["tid", "vtid"].iter().find_map(|name| {
        let scopes = [Scope::SpecificContext, Scope::CommonContext];
        scopes.iter().find_map(|&scope| class.find_in(scope, name))
    });
    let payload = threads_told_of(class);
    // A state dump is by whoever records, a wakeup by anybody.
    Concerned { is_known: true, fields: context.into_iter().chain(payload).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_is_the_command_s_by_what_its_number_was_while_it_lived() {
        let known = [(5, true), (7, false), (9, true)];
        for (born, end, wanted) in [
            // Whose number the command had later.
            (None, 5, false),
            (Some(5), 7, true),
            (Some(7), 9, false),
            (Some(9), i64::MAX, true),
            // Nothing says when it began, and nobody else had the number.
            (None, i64::MAX, true),
            (Some(8), 9, false),
        ] {
            assert_eq!(is_mine_in(&known, born, end), wanted, "{born:?} {end}");
        }
        assert!(!is_mine_in(&[], None, i64::MAX));
    }

    #[test]
    fn threads_of_a_command_are_those_that_forks_lead_to() {
        let fork = |time, parent, child, child_tid| {
            (time, ThreadFact::Fork { parent, parent_tid: parent, child, child_tid })
        };
        let facts = vec![
            // Threads of who records, and a process of another one.
            fork(1, 10, 10, 11),
            fork(2, 5, 20, 20),
            // The command, a thread and a child of it.
            fork(3, 10, 30, 30),
            fork(5, 30, 40, 40),
            fork(4, 30, 30, 31),
            // The number of a child is another's later.
            fork(7, 5, 40, 40),
            (8, ThreadFact::Calls { tid: 50 }),
        ];
        let threads = threads_of(vec![facts], 10);
        let mut mine: Vec<_> =
            threads.iter().filter(|(_, known)| known.iter().any(|(_, is)| *is)).collect();
        mine.sort();
        let wanted = [
            (30, vec![(3, true)]),
            (31, vec![(4, true)]),
            (40, vec![(5, true), (7, false)]),
            (50, vec![(8, true)]),
        ];
        assert_eq!(mine, wanted.iter().map(|(tid, known)| (tid, known)).collect::<Vec<_>>());
    }

    #[test]
    fn threads_that_were_there_are_the_command_s_by_their_parents() {
        let there = |time, tid, process, parent| (time, ThreadFact::There { tid, process, parent });
        let fork = |time, parent, child| {
            (time, ThreadFact::Fork { parent, parent_tid: parent, child, child_tid: child })
        };
        // In no order: the command 20 with its thread 21, its child 30 and its child 40; 10 records, in a shell 5.
        let part = vec![
            there(100, 40, 40, 30),
            there(100, 21, 20, 10),
            there(100, 20, 20, 10),
            there(101, 30, 30, 20),
            there(101, 10, 10, 5),
            there(101, 11, 10, 5),
            there(101, 5, 5, 1),
            // Whose parent has ended is nobody's, and one that is its own parent comes to an end.
            there(101, 50, 50, 1),
            there(101, 60, 60, 60),
            // The command's go on.
            fork(110, 40, 41),
            fork(120, 5, 6),
        ];
        let mine = |threads: &ThreadOwnership| {
            let mut mine: Vec<_> =
                threads.iter().map(|(tid, known)| (*tid, known.clone())).collect();
            mine.retain(|(_, known)| known.iter().any(|(_, is)| *is));
            mine.sort();
            mine
        };
        let from = |from: i64| vec![(from, true)];
        let begin = i64::MIN;
        let later = [(20, from(begin)), (21, from(begin)), (30, from(begin)), (40, from(begin))];
        let wanted = [&later[..], &[(41, from(110))]].concat();
        assert_eq!(mine(&threads_of(vec![part.clone()], 10)), wanted);
        // Who is known from the part before is so from its fork on; 50 was made by the command, and its parent ended.
        let before = vec![
            fork(1, 10, 20),
            fork(2, 20, 21),
            fork(3, 20, 30),
            fork(4, 30, 40),
            fork(5, 30, 50),
        ];
        let wanted: Vec<_> = [(20, 1), (21, 2), (30, 3), (40, 4), (41, 110), (50, 5)]
            .map(|(tid, time)| (tid, from(time)))
            .into();
        assert_eq!(mine(&threads_of(vec![part, before], 10)), wanted);
    }
}
