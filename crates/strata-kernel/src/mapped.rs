//! Code that programs map, and processes that begin, while it is recorded: what addresses in their stacks mean.
//!
//! The kernel says it to perf events that count nothing (`mmap2`, `comm` and `task` of PERF_COUNT_SW_DUMMY), a ring of
//! records for each CPU, with the time of the trace's clock; and with the build id, where the file's begin is in memory.
//! What it says comes from the kernel alone: no file of anybody is opened here.

use crate::build_id::hex;
use crate::contexts::Contexts;
use crate::cpus::{self, OfCpus};
use crate::numbers::Numbers;
use crate::statedump::{CodeMapping, DumpRecord, DumpRecordKind, DumpStamp, DumpedProcess};
use crate::whom::Whom;
use libbpf_sys::{
    perf_event_attr, PERF_COUNT_SW_DUMMY, PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_SAMPLE_TID,
    PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE,
};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Of each CPU's ring \[byte\]; a power of two.
const RING_BYTES: usize = 256 << 10;
/// Who waits is woken when so much is in one \[byte\].
const WAKE_BYTES: u32 = 64 << 10;
/// Within this a record of another CPU may still come that is earlier \[ns\].
const LATE_NS: u64 = 10_000_000;

/// `struct perf_event_mmap_page`: where its words lie \[byte\].
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;
const DATA_AT: usize = 1040;

const DISCARDED: u32 = 2;
const COMM: u32 = 3;
const FORK: u32 = 7;
const MMAP2: u32 = 10;
const COMM_EXEC: u16 = 1 << 13;
const MMAP_BUILD_ID: u16 = 1 << 14;
/// Bytes of a record's header, and of what `sample_type` puts at its end: u32 pid, tid, u64 time.
const HEADER: usize = 8;
const TRAILER: usize = 16;

/// What happened to whose code.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CodeNews {
    Map { pid: i32, map: CodeMapping },
    Fork { parent: [i32; 2], child: [i32; 2] },
    Exec { name: Vec<u8> },
}

/// What was said, as a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedChange {
    /// When it happened \[ns\].
    pub time: u64,
    /// With the ids and contexts of [`ChangePlace`].
    pub record: Vec<u8>,
    /// What was not there before.
    pub new: New,
}

/// Where records of changes are: in the kernel's stream class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangePlace {
    /// Of [`crate::statedump::event_classes`].
    pub first_id: u32,
    /// What its records have behind their thread. Of these records it is what the kernel tells: the process; all else is 0
    /// or empty.
    pub contexts: Contexts,
}

/// What was not there before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum New {
    /// A thread, of which nothing here depends.
    Thread,
    /// All code of a process: it began, or another program did in it.
    Process {
        /// Its number.
        pid: i32,
    },
    /// What a process has mapped there.
    Code {
        /// Its number.
        pid: i32,
        /// First address.
        start: u64,
        /// Behind the last address.
        end: u64,
    },
}

/// Of one process, more changes than this are not compared with what it has mapped.
const CHANGES_MAX: usize = 1024;

/// Of what these processes have mapped, what they had mapped before the first of the changes; all changes since then are
/// there.
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

/// Records that say so, of one time, that of the stamp; and how many.
pub fn map_records(maps: &[(i32, &CodeMapping)], stamp: &DumpStamp<'_>) -> (Vec<u8>, u64) {
    let mut out = Vec::new();
    for (pid, map) in maps {
        DumpRecord::begin(&mut out, stamp, DumpRecordKind::VmMap).map(*pid, map);
    }
    (out, maps.len() as u64)
}

/// Waits for what is said.
#[derive(Debug)]
pub struct Waiter(Vec<libc::pollfd>);

impl Waiter {
    /// Until a ring is rather full, or for so long.
    pub fn wait(mut self, most: Duration) {
        let most = i32::try_from(most.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: so many structures, which live longer than the call. To wait less is no harm.
        unsafe { libc::poll(self.0.as_mut_ptr(), self.0.len() as libc::nfds_t, most) };
    }
}

/// At a time \[ns\], of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TimedNews {
    time: u64,
    pid: i32,
    tid: i32,
    news: CodeNews,
}

/// One CPU's records.
#[derive(Debug)]
struct Ring {
    event: OwnedFd,
    memory: NonNull<u8>,
    data_at: usize,
    bytes: usize,
}

// SAFETY: a mapping is any thread's; there is one reader, who has it for itself.
unsafe impl Send for Ring {}

/// What the kernel says of all processes, and of whom it is kept.
#[derive(Debug)]
pub struct Mapped {
    rings: OfCpus<Ring>,
    whom: Whom,
    numbers: Option<Arc<Numbers>>,
    /// Read, and not handed over yet.
    told: Vec<TimedNews>,
    /// Up to when it was handed over \[ns\].
    handed: u64,
    discarded: u64,
    known_from: u64,
}

impl Mapped {
    /// From now on. `numbers`: what the kernel's events call those whom it names here by the numbers of this process' PID
    /// namespace.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(whom: Whom, numbers: Option<Arc<Numbers>>) -> io::Result<Mapped> {
        let rings = OfCpus::make(Ring::open)?;
        let known_from = now_ns();
        let told = Vec::new();
        Ok(Mapped { rings, whom, numbers, told, handed: 0, discarded: 0, known_from })
    }

    /// What the kernel's events call those whom it names.
    pub fn numbers(&self) -> Option<&Numbers> {
        self.numbers.as_deref()
    }

    /// To be waited for before the next [`Mapped::take`], which may close what it looks at.
    pub fn waiter(&self) -> Waiter {
        let event = |ring: &Ring| libc::pollfd {
            fd: ring.event.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        Waiter(self.rings.all().map(event).collect())
    }

    /// What was said of those who are recorded, as records; in the order of time. Unless it is the `last` time, the newest
    /// is kept for the next one.
    pub fn take(&mut self, place: &ChangePlace, last: bool) -> Vec<MappedChange> {
        let now = now_ns();
        self.read();
        // To one that has stopped nothing comes any more.
        self.rings.look(Ring::open);
        let until = if last { u64::MAX } else { now.saturating_sub(LATE_NS) };
        let count = self.told.partition_point(|told| told.time < until);
        self.handed = self.told[..count].last().map_or(self.handed, |told| told.time);
        self.told.drain(..count).map(|told| told.change(place)).collect()
    }

    /// What the next [`Mapped::take`] will hand over of what was said until now.
    pub fn so_far(&mut self, place: &ChangePlace) -> Vec<MappedChange> {
        self.read();
        self.told.iter().map(|told| told.change(place)).collect()
    }

    fn read(&mut self) {
        let mut new = Vec::new();
        let before = self.discarded;
        for ring in self.rings.all_mut() {
            self.discarded += ring.read(&mut new);
        }
        if self.discarded > before {
            self.known_from = now_ns();
        }
        if let Some(numbers) = self.numbers.as_deref().filter(|_| !new.is_empty()) {
            let is_known =
                |told: &TimedNews| told.clone().renumber(&|here| numbers.of(here)).is_some();
            if !new.iter().all(is_known) {
                numbers.walk();
            }
            // Who is outside of the namespace has no number in it, and is not recorded by one.
            new.retain_mut(|told| told.renumber(&|here| numbers.of(here)).is_some());
        }
        if !new.is_empty() {
            let whom = self.whom.look();
            new.retain(|told| whom.is(told.task()));
            self.told.append(&mut new);
            in_order(&mut self.told, self.handed);
        }
    }

    /// All that happened since then was said, and found room \[ns\].
    #[must_use]
    pub fn known_from(&self) -> u64 {
        self.known_from
    }

    /// Records that found no room: somebody's code is not known.
    #[must_use]
    pub fn discarded(&self) -> u64 {
        self.discarded
    }
}

/// In the order of time, none before what was handed over: a virtual CPU that its host did not run may have kept one
/// back for longer than [`LATE_NS`].
fn in_order(told: &mut [TimedNews], handed: u64) {
    told.iter_mut().for_each(|told| told.time = told.time.max(handed));
    told.sort_by_key(|told| told.time);
}

fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

impl TimedNews {
    /// Whose recording decides.
    fn task(&self) -> u32 {
        match &self.news {
            CodeNews::Fork { child, .. } => child[1] as u32,
            _ => self.tid as u32,
        }
    }

    /// `None`: not all of them have one.
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
        MappedChange { time: self.time, record: self.record(place), new }
    }

    /// Its thread and process are those that did it, not who writes it down.
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

    /// What a perf record says, header and all; `None`: nothing that matters.
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
                // "//anon" is code that a program has made.
                if path.starts_with(b"//") {
                    return None;
                }
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
                    news: CodeNews::Fork {
                        parent: [parent, parent_tid],
                        child: [child, child_tid],
                    },
                });
            }
            _ => return None,
        };
        Some(TimedNews { time: u64_at(record, end + 8)?, pid, tid, news })
    }
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl Ring {
    fn open(cpu: u32) -> io::Result<Ring> {
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
        let event = cpus::open_event(&attr, cpu)?;
        let page = rustix::param::page_size();
        let bytes = page + RING_BYTES;
        // SAFETY: a new mapping, of an object that is ours.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut ring = Ring { event, memory, data_at: page, bytes };
        // Where the data begin; of all kernels that are recorded, behind the first page.
        let at = ring.word(DATA_AT).load(Ordering::Relaxed) as usize;
        if at != 0 && at + RING_BYTES <= bytes {
            ring.data_at = at;
        }
        Ok(ring)
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: within the mapping's first page.
        let word = unsafe { self.memory.as_ptr().add(at) };
        // SAFETY: aligned, and lives as long as this; the kernel writes it at once.
        unsafe { AtomicU64::from_ptr(word.cast()) }
    }

    /// All that is in it. Returns how many records found no room.
    fn read(&mut self, out: &mut Vec<TimedNews>) -> u64 {
        // Acquire pairs with the kernel's barrier in front of its store: what is before `head` is written.
        let head = self.word(HEAD_AT).load(Ordering::Acquire);
        let mut tail = self.word(TAIL_AT).load(Ordering::Relaxed);
        let mut discarded = 0;
        let mut record = Vec::new();
        while head.wrapping_sub(tail) >= HEADER as u64 {
            let mut header = [0; HEADER];
            self.copy(tail, &mut header);
            let size = usize::from(u16_at(&header, 6).unwrap_or(0));
            // The kernel writes no such thing.
            if size < HEADER || size as u64 > head.wrapping_sub(tail) {
                tail = head;
                break;
            }
            record.resize(size, 0);
            self.copy(tail, &mut record);
            if u32_at(&record, 0) == Some(DISCARDED) {
                discarded += u64_at(&record, HEADER + 8).unwrap_or(0);
            }
            out.extend(TimedNews::parse(&record));
            tail = tail.wrapping_add(size as u64);
        }
        // Release: the kernel writes there only when all was read.
        self.word(TAIL_AT).store(tail, Ordering::Release);
        discarded
    }

    fn copy(&self, from: u64, to: &mut [u8]) {
        let begin = from as usize & (RING_BYTES - 1);
        let first = to.len().min(RING_BYTES - begin);
        let (one, other) = to.split_at_mut(first);
        // SAFETY: the data begin within the mapping.
        let data = unsafe { self.memory.as_ptr().add(self.data_at) };
        // SAFETY: `begin` is less than their size.
        let at = unsafe { data.add(begin) };
        // SAFETY: up to their end at most, and the kernel does not write between tail and head.
        unsafe { std::ptr::copy_nonoverlapping(at, one.as_mut_ptr(), one.len()) };
        // SAFETY: likewise, the rest from their begin.
        unsafe { std::ptr::copy_nonoverlapping(data, other.as_mut_ptr(), other.len()) };
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: made by open(), and nothing leads into it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
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
        let wanted = TimedNews { time: 9, pid: 7, tid: 8, news: CodeNews::Map { pid: 7, map } };
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
        assert_eq!(TimedNews::parse(&record(MMAP2, 0, &map_body(b"//anon\0\0"), 5)), None);
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
        let mut told = TimedNews { time: 0, pid: 1, tid: 4, news };
        assert_eq!(told.task(), 5);
        // In another namespace: all of them, or it is nobody's.
        assert_eq!(told.clone().renumber(&|here| (here != 4).then_some(here + 10)), None);
        told.renumber(&|here| Some(here + 10)).unwrap();
        let news = CodeNews::Fork { parent: [11, 14], child: [15, 15] };
        assert_eq!(told, TimedNews { time: 0, pid: 11, tid: 14, news });
    }

    #[test]
    fn record_of_a_change_is_of_the_thread_and_process_that_did_it() {
        let contexts = Contexts::parse(&["pid", "vpid", "procname"]).unwrap();
        let of = |pid, tid, news| {
            let record = TimedNews { time: 3, pid, tid, news }
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
        let at =
            |time| TimedNews { time, pid: 1, tid: 1, news: CodeNews::Exec { name: Vec::new() } };
        let mut told = [at(70), at(90), at(20), at(60)];
        in_order(&mut told, 50);
        assert_eq!(told.map(|told| told.time), [50, 60, 70, 90]);
    }

    #[test]
    fn mapped_of_this_process_is_told_with_its_file() {
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
            let mut mapped = match Mapped::open(Whom::Everyone, None) {
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
        let told = |news| TimedNews { time: 3, pid: 1, tid: 1, news }.change(&place()).new;
        assert_eq!(told(CodeNews::Fork { parent: [1, 1], child: [1, 2] }), New::Thread);
        assert_eq!(told(CodeNews::Fork { parent: [1, 1], child: [2, 2] }), New::Process { pid: 2 });
        assert_eq!(told(CodeNews::Exec { name: Vec::new() }), New::Process { pid: 1 });
    }
}
