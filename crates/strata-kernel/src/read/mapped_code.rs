//! Reports of code that programs map and of processes that begin during a recording. They give addresses in call
//! stacks a meaning.
//!
//! The kernel reports these changes through perf events that count nothing (`mmap2`, `comm` and `task` of
//! PERF_COUNT_SW_DUMMY), in a ring of records for each CPU. Records have the time of the trace's clock, and the
//! file's build id if its begin is in memory. All information comes from the kernel: no file of a user is opened
//! here.
//!
//! ```text
//! kernel ── mmap2, comm, fork ──▶ perf rings of each CPU ── take() ──▶ TimedNews, sorted ──▶ MappedChange: records
//!                                         ▲
//!                  Waiter: poll() ────────┘   a reader sleeps until a ring is filled to WAKE_BYTES
//! ```
//!
//! Rings of different CPUs are not ordered among each other. A record is therefore handed out only when it is
//! older than `LATE_NS`, by which time every CPU has written what happened before; what comes later still is
//! handed out with its own time. Changes of processes that are not recorded are left out. If a ring overflows,
//! the kernel reports how many records had no room, and [`Mapped::discarded`] counts them: addresses of that time
//! may have no name.
//!
//! # Callers
//! The kernel's state dump in `strata-session` has the one [`Mapped`], behind a lock. A thread sleeps in a
//! [`Waiter`], which holds no lock and is used once: the next [`Mapped::take`] may close descriptors that it
//! polls, when a CPU goes offline. A snapshot uses [`Mapped::so_far`], which leaves the records to the next
//! `take`. The last call hands out everything, since nothing earlier can follow.

use crate::decide::contexts::Contexts;
use crate::discover::build_id::hex;
use crate::discover::cpus::{self, OfCpus};
use crate::processes::pid_namespace::Numbers;
use crate::processes::recorded::RecordedProcesses;
use crate::read::perf_ring::{u16_at, u32_at, u64_at, until_nul, PerfRing, HEADER};
use crate::read::statedump::{CodeMapping, DumpRecord, DumpRecordKind, DumpStamp, DumpedProcess};
use libbpf_sys::{
    perf_event_attr, PERF_COUNT_SW_DUMMY, PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_SAMPLE_TID,
    PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE,
};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

/// Size of each CPU's ring, a power of two \[byte\].
const RING_BYTES: usize = 256 << 10;
/// Fill of a ring at which a waiting reader is woken \[byte\].
const WAKE_BYTES: u32 = 64 << 10;
/// Time within which an earlier record of another CPU may still arrive \[ns\].
const LATE_NS: u64 = 10_000_000;

const COMM: u32 = 3;
const FORK: u32 = 7;
const MMAP2: u32 = 10;
const COMM_EXEC: u16 = 1 << 13;
const MMAP_BUILD_ID: u16 = 1 << 14;
/// Size of the fields that `sample_type` adds at a record's end: u32 pid, tid, u64 time \[byte\].
const TRAILER: usize = 16;

/// A change of a process' code that the kernel reported.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CodeNews {
    Map { pid: i32, map: CodeMapping },
    Fork { parent: [i32; 2], child: [i32; 2] },
    Exec { name: Vec<u8> },
}

/// A change that the kernel reported, as a trace record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedChange {
    /// Time of the change \[ns\].
    pub time: u64,
    /// The record, with the ids and contexts of [`ChangePlace`].
    pub record: Vec<u8>,
    /// The thread or code that appeared with the change.
    pub new: New,
    /// Process id, in this program's PID namespace, of the process that has generated the code; `None` for code of a
    /// file.
    pub generated_by: Option<u32>,
}

/// The ids and contexts that records of changes get in the kernel's stream class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangePlace {
    /// Id of the first of [`crate::read::statedump::event_classes`].
    pub first_id: u32,
    /// Contexts of records after the thread. In these records only the process is known; all other contexts are 0 or
    /// empty.
    pub contexts: Contexts,
}

/// A thread or code that did not exist before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum New {
    /// A new thread, which changes no code.
    Thread,
    /// A process that began or executed another program, so that all its code is new.
    Process {
        /// The process's number.
        pid: i32,
    },
    /// Code that a process has mapped.
    Code {
        /// The process's number.
        pid: i32,
        /// The first address.
        start: u64,
        /// The address after the last.
        end: u64,
    },
}

/// The most changes of one process that are compared with its mappings.
const CHANGES_MAX: usize = 1024;

/// Returns the mappings that these processes already had before the first of `changes`, which must be all changes since
/// then.
pub fn mapped_before<'p>(
    processes: &'p [DumpedProcess],
    changes: impl Iterator<Item = New>,
) -> Vec<(i32, &'p CodeMapping)> {
    // Nothing is known of a process without a list.
    let mut of: HashMap<i32, Option<Vec<(u64, u64)>>> = HashMap::new();
    for new in changes {
        match new {
            New::Thread => {}
            New::Process { pid } => drop(of.insert(pid, None)),
            New::Code { pid, start, end } => {
                let known = of.entry(pid).or_insert_with(|| Some(Vec::new()));
                match known {
                    Some(list) if list.len() < CHANGES_MAX => list.push((start, end)),
                    _ => *known = None,
                }
            }
        }
    }
    let held = |process: &'p DumpedProcess| {
        let (pid, maps) = process.code();
        let changed = of.get(&pid);
        let was_there = move |map: &&CodeMapping| match changed {
            None => true,
            Some(None) => false,
            Some(Some(list)) => {
                list.iter().all(|(start, end)| map.end <= *start || *end <= map.start)
            }
        };
        maps.iter().filter(was_there).map(move |map| (pid, map))
    };
    processes.iter().flat_map(held).collect()
}

/// Encodes mappings as records that all have the time of `stamp`. Returns the bytes and the number of records.
pub fn map_records(maps: &[(i32, &CodeMapping)], stamp: &DumpStamp<'_>) -> (Vec<u8>, u64) {
    let mut out = Vec::new();
    for (pid, map) in maps {
        DumpRecord::begin(&mut out, stamp, DumpRecordKind::VmMap).map(*pid, map);
    }
    (out, maps.len() as u64)
}

/// A waiter for reports of the kernel, which polls all rings.
#[derive(Debug)]
pub struct Waiter(Vec<libc::pollfd>);

impl Waiter {
    /// Waits until a ring is filled to a quarter, for at most `most`.
    pub fn wait(mut self, most: Duration) {
        let most = i32::try_from(most.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: so many structures, which live longer than the call. To wait less is no harm.
        unsafe { libc::poll(self.0.as_mut_ptr(), self.0.len() as libc::nfds_t, most) };
    }
}

/// A report of the kernel, with its time \[ns\] and its thread.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TimedNews {
    time: u64,
    pid: i32,
    tid: i32,
    /// The process id in this program's PID namespace.
    here: i32,
    news: CodeNews,
}

/// The kernel's reports on all processes' code, of which only those on recorded processes are kept.
#[derive(Debug)]
pub struct Mapped {
    rings: OfCpus<PerfRing>,
    recorded: RecordedProcesses,
    numbers: Option<Arc<Numbers>>,
    /// Changes that were read and not yet returned by [`Mapped::take`].
    told: Vec<TimedNews>,
    /// Time of the latest change that [`Mapped::take`] returned \[ns\].
    handed: u64,
    discarded: u64,
    known_from: u64,
}

impl Mapped {
    /// Opens the rings of all CPUs. `numbers` converts process numbers of this PID namespace to those of the kernel's
    /// events.
    ///
    /// # Errors
    /// The kernel refuses a perf event or its ring.
    pub fn open(recorded: RecordedProcesses, numbers: Option<Arc<Numbers>>) -> io::Result<Mapped> {
        let rings = OfCpus::make(open)?;
        let known_from = now_ns();
        let told = Vec::new();
        Ok(Mapped { rings, recorded, numbers, told, handed: 0, discarded: 0, known_from })
    }

    /// Returns the conversion of process numbers to those of the kernel's events; `None` if both are the same.
    pub fn numbers(&self) -> Option<&Numbers> {
        self.numbers.as_deref()
    }

    /// Returns a waiter to be used before the next [`Mapped::take`], which may close the files that the waiter polls.
    pub fn waiter(&self) -> Waiter {
        let event = |ring: &PerfRing| libc::pollfd {
            fd: ring.as_fd().as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        Waiter(self.rings.all().map(event).collect())
    }

    /// Returns the records of recorded processes, ordered by time. The newest records are kept for the next call,
    /// unless `last` is true.
    pub fn take(&mut self, place: &ChangePlace, last: bool) -> Vec<MappedChange> {
        let now = now_ns();
        self.read();
        // To one that has stopped nothing comes any more.
        self.rings.look(open);
        let until = if last { u64::MAX } else { now.saturating_sub(LATE_NS) };
        let count = self.told.partition_point(|told| told.time < until);
        self.handed = self.told[..count].last().map_or(self.handed, |told| told.time);
        self.told.drain(..count).map(|told| told.change(place)).collect()
    }

    /// Returns the records that the next [`Mapped::take`] will return and that have arrived already.
    pub fn so_far(&mut self, place: &ChangePlace) -> Vec<MappedChange> {
        self.read();
        self.told.iter().map(|told| told.change(place)).collect()
    }

    fn read(&mut self) {
        let mut new = Vec::new();
        let before = self.discarded;
        for ring in self.rings.all_mut() {
            self.discarded += ring.read(|record| new.extend(TimedNews::parse(record)));
        }
        if self.discarded > before {
            self.known_from = now_ns();
        }
        if let Some(numbers) = self.numbers.as_deref().filter(|_| !new.is_empty()) {
            let is_known =
                |told: &TimedNews| told.clone().renumber(&|here| numbers.of(here)).is_some();
            if !new.iter().all(is_known) {
                numbers.scan();
            }
            // Who is outside of the namespace has no number in it, and is not recorded by one.
            new.retain_mut(|told| told.renumber(&|here| numbers.of(here)).is_some());
        }
        if !new.is_empty() {
            let recorded = self.recorded.snapshot();
            new.retain(|told| recorded.contains(told.task()));
            self.told.append(&mut new);
            in_order(&mut self.told, self.handed);
        }
    }

    /// Returns the time from which no report was discarded \[ns\].
    #[must_use]
    pub fn known_from(&self) -> u64 {
        self.known_from
    }

    /// Returns the number of records that found no room in a ring: the code of some process is then not known.
    #[must_use]
    pub fn discarded(&self) -> u64 {
        self.discarded
    }
}

/// Sorts changes by time. Changes from before the time `handed` get that time, since a virtual CPU without a host CPU
/// may deliver a record later than [`LATE_NS`].
fn in_order(told: &mut [TimedNews], handed: u64) {
    told.iter_mut().for_each(|told| told.time = told.time.max(handed));
    told.sort_by_key(|told| told.time);
}

fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    let ns = (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64);
    // What our time namespace adds, the kernel's times do not have.
    ns.saturating_add_signed(strata_model::time_namespace_adds_ns().0.saturating_neg())
}

impl TimedNews {
    /// Returns the id of the task that decides whether the change is recorded.
    fn task(&self) -> u32 {
        match &self.news {
            CodeNews::Fork { child, .. } => child[1] as u32,
            _ => self.tid as u32,
        }
    }

    /// Converts all process numbers of the change; `None` if one of them is not known.
    fn renumber(&mut self, number: &dyn Fn(u32) -> Option<u32>) -> Option<()> {
        let number = |at: &mut i32| {
            *at = number(u32::try_from(*at).ok()?)? as i32;
            Some(())
        };
        number(&mut self.pid)?;
        number(&mut self.tid)?;
        match &mut self.news {
            CodeNews::Map { pid, .. } => number(pid)?,
            CodeNews::Fork { parent, child } => {
                parent.iter_mut().chain(child).try_for_each(number)?
            }
            CodeNews::Exec { .. } => {}
        }
        Some(())
    }

    fn change(&self, place: &ChangePlace) -> MappedChange {
        let new = match &self.news {
            CodeNews::Map { pid, map } => New::Code { pid: *pid, start: map.start, end: map.end },
            CodeNews::Fork { parent, child } if parent[0] == child[0] => New::Thread,
            CodeNews::Fork { child, .. } => New::Process { pid: child[0] },
            CodeNews::Exec { .. } => New::Process { pid: self.pid },
        };
        let generated_by = match &self.news {
            CodeNews::Map { map, .. } if map.is_generated() => u32::try_from(self.here).ok(),
            _ => None,
        };
        MappedChange { time: self.time, record: self.record(place), new, generated_by }
    }

    /// Encodes the change as a record. Its thread and process are those that made the change, not those of the tracer.
    fn record(&self, place: &ChangePlace) -> Vec<u8> {
        let mut out = Vec::new();
        let contexts = &place.contexts.of_process(self.pid as u32);
        let (now_ns, tid, first_id) = (self.time, self.tid as u32, place.first_id);
        let stamp = DumpStamp { now_ns, tid, contexts, first_id, is_later: true };
        match &self.news {
            CodeNews::Map { pid, map } => {
                DumpRecord::begin(&mut out, &stamp, DumpRecordKind::VmMap).map(*pid, map);
            }
            CodeNews::Fork { parent, child } => {
                let numbers = [parent[0], parent[1], child[0], child[1]].map(|id| id as u32);
                DumpRecord::begin(&mut out, &stamp, DumpRecordKind::VmFork).u32s(&numbers);
            }
            CodeNews::Exec { name } => {
                let ids = [self.pid as u32, self.tid as u32];
                DumpRecord::begin(&mut out, &stamp, DumpRecordKind::VmExec).u32s(&ids).text(name);
            }
        }
        out
    }

    /// Parses a perf record with its header; `None` if the record is of no interest.
    fn parse(record: &[u8]) -> Option<TimedNews> {
        let (kind, misc) = (u32_at(record, 0)?, u16_at(record, 4)?);
        let end = record.len().checked_sub(TRAILER)?;
        let body = record.get(HEADER..end)?;
        let ids = |at| Some([u32_at(body, at)? as i32, u32_at(body, at + 4)? as i32]);
        let [pid, tid] = ids(0)?;
        let news = match kind {
            MMAP2 => {
                let (start, bytes) = (u64_at(body, 8)?, u64_at(body, 16)?);
                let (mut build_id, mut inode) = (String::new(), 0);
                if misc & MMAP_BUILD_ID != 0 {
                    let size = usize::from(*body.get(32)?).min(20);
                    build_id = hex(body.get(36..36 + size)?);
                } else {
                    inode = u64_at(body, 40)?;
                }
                let path = until_nul(body.get(64..)?).to_vec();
                let (end, offset) = (start.checked_add(bytes)?, u64_at(body, 24)?);
                CodeNews::Map {
                    pid,
                    map: CodeMapping { start, end, offset, inode, path, build_id },
                }
            }
            COMM if misc & COMM_EXEC != 0 => {
                CodeNews::Exec { name: until_nul(body.get(8..)?).to_vec() }
            }
            FORK => {
                // pid, ppid, tid, ptid
                let [child, parent] = [pid, tid];
                let [child_tid, parent_tid] = ids(8)?;
                let time = u64_at(record, end + 8)?;
                return Some(TimedNews {
                    time,
                    pid: parent,
                    tid: parent_tid,
                    here: parent,
                    news: CodeNews::Fork {
                        parent: [parent, parent_tid],
                        child: [child, child_tid],
                    },
                });
            }
            _ => return None,
        };
        Some(TimedNews { time: u64_at(record, end + 8)?, pid, tid, here: pid, news })
    }
}

/// Opens the ring for the events of a CPU.
fn open(cpu: u32) -> io::Result<PerfRing> {
    let mut attr = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        size: size_of::<perf_event_attr>() as u32,
        config: PERF_COUNT_SW_DUMMY.into(),
        sample_type: u64::from(PERF_SAMPLE_TID | PERF_SAMPLE_TIME),
        // It counts nothing: whether it runs, its time says.
        read_format: PERF_FORMAT_TOTAL_TIME_ENABLED.into(),
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    attr.__bindgen_anon_2.wakeup_watermark = WAKE_BYTES;
    attr.set_watermark(1);
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr.set_build_id(1);
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr.set_task(1);
    attr.set_sample_id_all(1);
    attr.set_use_clockid(1);
    PerfRing::map(cpus::open_event(&attr, cpu)?, RING_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> ChangePlace {
        ChangePlace { first_id: 10, contexts: Contexts::default() }
    }

    fn record(kind: u32, misc: u16, body: &[u8], time: u64) -> Vec<u8> {
        let size = (HEADER + body.len() + TRAILER) as u16;
        let mut all = kind.to_ne_bytes().to_vec();
        all.extend(misc.to_ne_bytes());
        all.extend(size.to_ne_bytes());
        all.extend(body);
        all.extend([0; 8]);
        all.extend(time.to_ne_bytes());
        all
    }

    fn map_body(path: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend([7u32, 8].into_iter().flat_map(u32::to_ne_bytes));
        body.extend([0x1000u64, 0x2000, 0x3000].into_iter().flat_map(u64::to_ne_bytes));
        body.extend([4, 0, 0, 0, 0xde, 0xad, 0xbe, 0xef]);
        body.extend([0; 24]);
        body.extend(path);
        body
    }

    #[test]
    fn records_of_maps_forks_and_execs_say_whose_and_what() {
        let body = map_body(b"/bin/a\0\0");
        let found = TimedNews::parse(&record(MMAP2, MMAP_BUILD_ID, &body, 9)).unwrap();
        let map = CodeMapping {
            start: 0x1000,
            end: 0x3000,
            offset: 0x3000,
            inode: 0,
            path: b"/bin/a".to_vec(),
            build_id: "deadbeef".into(),
        };
        let wanted =
            TimedNews { time: 9, pid: 7, tid: 8, here: 7, news: CodeNews::Map { pid: 7, map } };
        assert_eq!(found, wanted);
        let body: Vec<u8> =
            [20u32, 10, 21, 11, 0, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
        let fork = TimedNews::parse(&record(FORK, 0, &body, 5)).unwrap();
        assert_eq!(fork.news, CodeNews::Fork { parent: [10, 11], child: [20, 21] });
        let body = [&7u32.to_ne_bytes()[..], &7u32.to_ne_bytes(), b"name\0\0\0\0"].concat();
        let exec = TimedNews::parse(&record(COMM, COMM_EXEC, &body, 5)).unwrap();
        assert_eq!(exec.news, CodeNews::Exec { name: b"name".to_vec() });
        // Another name only.
        assert_eq!(TimedNews::parse(&record(COMM, 0, &body, 5)), None);
        // Code that a program has made itself.
        let found = TimedNews::parse(&record(MMAP2, 0, &map_body(b"//anon\0\0"), 5)).unwrap();
        let is_it = |map: &CodeMapping| map.path == b"//anon" && map.build_id.is_empty();
        assert!(matches!(found.news, CodeNews::Map { pid: 7, ref map } if is_it(map)), "{found:?}");
    }

    #[test]
    fn records_cut_anywhere_are_nothing() {
        for (kind, misc) in [(MMAP2, MMAP_BUILD_ID), (MMAP2, 0), (COMM, COMM_EXEC), (FORK, 0)] {
            let whole = record(kind, misc, &map_body(b"/a\0"), 1);
            for end in 0..whole.len() {
                let _ = TimedNews::parse(&whole[..end]);
            }
        }
    }

    #[test]
    fn news_of_a_fork_are_of_the_child_and_all_its_numbers_are_the_kernel_s() {
        let news = CodeNews::Fork { parent: [1, 4], child: [5, 5] };
        let mut told = TimedNews { time: 0, pid: 1, tid: 4, here: 1, news };
        assert_eq!(told.task(), 5);
        // In another namespace: all of them, or it is nobody's.
        assert_eq!(told.clone().renumber(&|here| (here != 4).then_some(here + 10)), None);
        told.renumber(&|here| Some(here + 10)).unwrap();
        let news = CodeNews::Fork { parent: [11, 14], child: [15, 15] };
        assert_eq!(told, TimedNews { time: 0, pid: 11, tid: 14, here: 1, news });
    }

    #[test]
    fn record_of_a_change_is_of_the_thread_and_process_that_did_it() {
        let contexts = Contexts::parse(&["pid", "vpid", "procname"]).unwrap();
        let of = |pid, tid, news| {
            let record = TimedNews { time: 3, pid, tid, here: pid, news }
                .record(&ChangePlace { contexts: contexts.clone(), ..place() });
            // Behind the header of the extended kind: u16, u32 id, u64 time.
            let number = |at| u32_at(&record, at).unwrap();
            let others = record[14 + 8..14 + 12 + 16].iter().filter(|byte| **byte != 0).count();
            (number(14), number(18), others)
        };
        assert_eq!(of(20, 21, CodeNews::Exec { name: b"ls".to_vec() }), (21, 20, 0));
        let news = CodeNews::Fork { parent: [30, 31], child: [40, 40] };
        assert_eq!(of(30, 31, news), (31, 30, 0));
    }

    #[test]
    fn news_that_come_late_are_not_before_what_was_handed_over() {
        let at = |time| TimedNews {
            time,
            pid: 1,
            tid: 1,
            here: 1,
            news: CodeNews::Exec { name: Vec::new() },
        };
        let mut told = [at(70), at(90), at(20), at(60)];
        in_order(&mut told, 50);
        assert_eq!(told.map(|told| told.time), [50, 60, 70, 90]);
    }

    #[test]
    fn mapped_of_this_process_is_reported_with_its_file() {
        use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};
        // On one CPU: there what found no room is told with what finds some next.
        let (all, mut one) = (sched_getaffinity(None).unwrap(), CpuSet::new());
        one.set((0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap());
        sched_setaffinity(None, &one).unwrap();
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let map = || {
            let (rights, private) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE);
            let (anywhere, fd) = (std::ptr::null_mut(), file.as_raw_fd());
            // SAFETY: a new mapping that nobody uses.
            let at = unsafe { libc::mmap(anywhere, 4096, rights, private, fd, 0) };
            assert_ne!(at, libc::MAP_FAILED);
            at
        };
        // Until the rings had room for what all others did in the meantime: this thread may have waited for the CPU.
        let (at, so_far, records) = loop {
            let mut mapped = match Mapped::open(RecordedProcesses::Everyone, None) {
                Ok(mapped) => mapped,
                Err(error) => return eprintln!("skip: {error}"),
            };
            let at = map();
            let so_far = mapped.so_far(&place());
            map();
            let records = mapped.take(&place(), true);
            if mapped.discarded() == 0 {
                break (at, so_far, records);
            }
        };
        // It stays, in its order; of what another CPU says late some may come between.
        let mut later = records.iter();
        assert!(so_far.iter().all(|one| later.any(|other| other == one)), "it stays");
        let bytes = (at as u64).to_ne_bytes();
        let path = std::env::current_exe().unwrap();
        let path = path.as_os_str().as_encoded_bytes();
        let has = |record: &[u8], what: &[u8]| record.windows(what.len()).any(|it| it == what);
        let (start, end) = (at as u64, at as u64 + 4096);
        let new = New::Code { pid: std::process::id() as i32, start, end };
        let is_it =
            |it: &MappedChange| has(&it.record, &bytes) && has(&it.record, path) && it.new == new;
        assert!(so_far.iter().any(is_it), "{records:?}");
    }

    #[test]
    fn mapped_before_the_changes_is_what_none_of_them_made() {
        let process = |pid: i32, starts: &[u64]| {
            let map = |start: &u64| CodeMapping {
                start: *start,
                end: start + 0x1000,
                offset: 0,
                inode: 1,
                path: b"/a".to_vec(),
                build_id: String::new(),
            };
            DumpedProcess::with_code(pid, starts.iter().map(map).collect())
        };
        let all = [1, 2, 3, 4].map(|pid| process(pid, &[0x1000, 0x2000, 0x3000]));
        let changes = [
            New::Process { pid: 2 },
            // Less than a mapping, and what touches none.
            New::Code { pid: 1, start: 0x2800, end: 0x2801 },
            New::Code { pid: 1, start: 0, end: 0x1000 },
            New::Code { pid: 2, start: 0, end: 1 },
            New::Thread,
        ];
        let many = (0..=CHANGES_MAX).map(|_| New::Code { pid: 3, start: 0, end: 1 });
        let found = mapped_before(&all, changes.into_iter().chain(many));
        let found: Vec<_> = found.iter().map(|(pid, map)| (*pid, map.start)).collect();
        assert_eq!(found, [(1, 0x1000), (1, 0x3000), (4, 0x1000), (4, 0x2000), (4, 0x3000)]);
    }

    #[test]
    fn change_of_a_fork_is_a_new_process_or_a_thread_and_of_an_exec_the_whole_process() {
        let told = |news| TimedNews { time: 3, pid: 1, tid: 1, here: 1, news }.change(&place()).new;
        assert_eq!(told(CodeNews::Fork { parent: [1, 1], child: [1, 2] }), New::Thread);
        assert_eq!(told(CodeNews::Fork { parent: [1, 1], child: [2, 2] }), New::Process { pid: 2 });
        assert_eq!(told(CodeNews::Exec { name: Vec::new() }), New::Process { pid: 1 });
    }
}
