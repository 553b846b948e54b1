//! Reports which programs a command and its children execute, and which files of code each process maps. They show
//! which processes have loaded the preloaded libraries.
//!
//! The kernel reports this through perf events that count nothing and are inherited by children. Users may open them
//! for their own programs if `kernel.perf_event_paranoid` is 2 or less.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use libbpf_sys::{
    perf_event_attr, PERF_COUNT_SW_DUMMY, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE,
};

use crate::discover::cpus;
use crate::read::perf_ring::{u16_at, u32_at, u64_at, until_nul, PerfRing, HEADER};

/// Size of each CPU's ring, a power of two \[byte\].
const RING_BYTES: usize = 64 << 10;
/// Time for which records are held back, since an earlier record of another CPU may still arrive \[ns\].
const LATE_NS: u64 = 1_000_000;

const MMAP: u32 = 1;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const COMM_EXEC: u16 = 1 << 13;
/// Size of the fields that `sample_type` adds at a record's end: u32 pid, tid, u64 time \[byte\].
const TRAILER: usize = 16;

/// A report of the kernel on a process that is being started or loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartedNews {
    /// The process has executed another program; this is its name.
    Executed(Vec<u8>),
    /// The process has mapped code of this file. Mappings without a file are not reported.
    Mapped(Vec<u8>),
    /// The process has created another one with this number.
    Forked(u32),
    /// The first thread of the process has ended.
    Ended,
}

/// A report of the kernel with its time and process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedRecord {
    /// Time of the change \[ns\].
    pub time: u64,
    /// Number of the process in this PID namespace.
    pub pid: u32,
    /// The reported action of the process.
    pub news: StartedNews,
}

/// The kernel's reports on programs that this thread starts, from one ring for each CPU.
#[derive(Debug)]
pub struct Started {
    rings: Vec<PerfRing>,
    held: Vec<StartedRecord>,
    discarded: u64,
}

impl Started {
    /// Follows each program that this thread starts from now on, from its execve on, and all its children.
    ///
    /// # Errors
    /// The error of the kernel: EACCES and EPERM if only root may open such events.
    pub fn follow() -> io::Result<Started> {
        let mut attr = perf_event_attr {
            type_: PERF_TYPE_SOFTWARE,
            size: size_of::<perf_event_attr>() as u32,
            config: PERF_COUNT_SW_DUMMY.into(),
            sample_type: u64::from(PERF_SAMPLE_TID | PERF_SAMPLE_TIME),
            clockid: libc::CLOCK_MONOTONIC,
            ..Default::default()
        };
        // At each record: who reads it looks at the process while that is there.
        attr.__bindgen_anon_2.wakeup_watermark = 1;
        attr.set_watermark(1);
        attr.set_disabled(1);
        attr.set_enable_on_exec(1);
        attr.set_inherit(1);
        attr.set_exclude_kernel(1);
        attr.set_exclude_hv(1);
        attr.set_mmap(1);
        attr.set_comm(1);
        attr.set_comm_exec(1);
        attr.set_task(1);
        attr.set_sample_id_all(1);
        attr.set_use_clockid(1);
        let open = |cpu| PerfRing::map(cpus::open_event_of(&attr, 0, cpu)?, RING_BYTES);
        let rings = cpus::online()?.into_iter().map(open).collect::<io::Result<_>>()?;
        Ok(Started { rings, held: Vec::new(), discarded: 0 })
    }

    /// Waits for a report, at most for `most`.
    pub fn wait(&self, most: Duration) {
        let event = |ring: &PerfRing| libc::pollfd {
            fd: ring.as_fd().as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut all: Vec<libc::pollfd> = self.rings.iter().map(event).collect();
        let most = i32::try_from(most.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the kernel reads and writes the list, which is as long as it is told.
        unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, most) };
    }

    /// Passes each new record to `as_it_comes`, then returns the records whose order in time is certain. With `is_last`
    /// it returns all records without waiting.
    pub fn read(
        &mut self,
        is_last: bool,
        mut as_it_comes: impl FnMut(&StartedRecord),
    ) -> Vec<StartedRecord> {
        let now = monotonic_ns();
        let Started { rings, held, discarded } = self;
        for ring in rings {
            *discarded += ring.read(|record| {
                if let Some(record) = parse(record) {
                    as_it_comes(&record);
                    held.push(record);
                }
            });
        }
        held.sort_by_key(|record| record.time);
        let is_certain = |record: &StartedRecord| is_last || record.time + LATE_NS < now;
        let certain = held.iter().take_while(|record| is_certain(record)).count();
        held.drain(..certain).collect()
    }

    /// Returns the number of reports that found no room in a ring.
    #[must_use]
    pub fn discarded(&self) -> u64 {
        self.discarded
    }
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Parses a perf record with its header; `None` if the record is of no interest.
fn parse(record: &[u8]) -> Option<StartedRecord> {
    let (kind, misc) = (u32_at(record, 0)?, u16_at(record, 4)?);
    let end = record.len().checked_sub(TRAILER)?;
    let body = record.get(HEADER..end)?;
    let mut pid = u32_at(body, 0)?;
    let news = match kind {
        MMAP => {
            let path = until_nul(body.get(32..)?);
            let is_file = path.starts_with(b"/") && !path.starts_with(b"//");
            // Code that a program has written itself.
            if !is_file || path.starts_with(b"/memfd:") || path.starts_with(b"/dev/zero") {
                return None;
            }
            StartedNews::Mapped(path.to_vec())
        }
        COMM if misc & COMM_EXEC != 0 => StartedNews::Executed(until_nul(body.get(8..)?).to_vec()),
        // pid, ppid, tid, ptid
        FORK if u32_at(body, 4)? != pid => {
            let child = std::mem::replace(&mut pid, u32_at(body, 4)?);
            StartedNews::Forked(child)
        }
        EXIT if u32_at(body, 8)? == pid => StartedNews::Ended,
        _ => return None,
    };
    Some(StartedRecord { time: u64_at(record, end + 8)?, pid, news })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, misc: u16, body: &[u8], time: u64) -> Vec<u8> {
        let mut all = kind.to_ne_bytes().to_vec();
        all.extend(misc.to_ne_bytes());
        all.extend(((HEADER + body.len() + TRAILER) as u16).to_ne_bytes());
        all.extend(body);
        all.extend([0; 8]);
        all.extend(time.to_ne_bytes());
        all
    }

    #[test]
    fn records_are_parsed_and_cut_ones_are_none() {
        let words = |words: &[u32]| words.iter().flat_map(|one| one.to_ne_bytes()).collect();
        let said = |pid, news| Some(StartedRecord { time: 5, pid, news });
        let mut map: Vec<u8> = words(&[7, 8, 0, 0, 0, 0, 0, 0]);
        map.extend(b"/lib/x.so\0\0\0\0\0\0\0");
        let mut name: Vec<u8> = words(&[7, 8]);
        name.extend(b"sh\0\0\0\0\0\0");
        let mapped = record(MMAP, 2, &map, 5);
        assert_eq!(parse(&mapped), said(7, StartedNews::Mapped(b"/lib/x.so".to_vec())));
        let executed = StartedNews::Executed(b"sh".to_vec());
        assert_eq!(parse(&record(COMM, COMM_EXEC, &name, 5)), said(7, executed));
        assert_eq!(parse(&record(COMM, 0, &name, 5)), None, "a thread's new name");
        let exit = |pid, tid| record(EXIT, 0, &words(&[pid, 1, tid, 1, 0, 0]), 5);
        assert_eq!(parse(&exit(7, 7)), said(7, StartedNews::Ended));
        assert_eq!(parse(&exit(7, 8)), None, "a thread's end");
        let fork = |pid, parent| record(FORK, 0, &words(&[pid, parent, 9, 9, 0, 0]), 5);
        assert_eq!(parse(&fork(9, 7)), said(7, StartedNews::Forked(9)));
        assert_eq!(parse(&fork(7, 7)), None, "a new thread");
        for at in ["[vdso]", "//anon", "/memfd:x (deleted)", "/dev/zero (deleted)"] {
            map.truncate(32);
            map.extend(at.bytes());
            map.push(0);
            assert_eq!(parse(&record(MMAP, 2, &map, 5)), None, "{at}");
        }
        for length in 0..mapped.len() {
            let found = parse(&mapped[..length]);
            assert!(found.is_none_or(|one| one.time != 5), "{length}");
        }
    }

    #[test]
    fn command_and_what_it_starts_are_reported_with_their_files_in_order() {
        let mut started = match Started::follow() {
            Ok(started) => started,
            Err(why) => {
                let told = why.kind() == io::ErrorKind::PermissionDenied;
                assert!(told, "{why}");
                return;
            }
        };
        let script = "/bin/true; /bin/true; exit 0";
        let mut shell = std::process::Command::new("/bin/sh").args(["-c", script]).spawn().unwrap();
        let pid = shell.id();
        shell.wait().unwrap();
        let mut seen = 0;
        let all = started.read(true, |_| seen += 1);
        assert_eq!((all.len(), started.discarded()), (seen, 0));
        assert!(all.is_sorted_by_key(|record| record.time));
        let executed: Vec<_> = all
            .iter()
            .filter_map(|record| match &record.news {
                StartedNews::Executed(name) => Some((record.pid == pid, name.as_slice())),
                _ => None,
            })
            .collect();
        assert_eq!(executed, [(true, &b"sh"[..]), (false, b"true"), (false, b"true")]);
        let mapped = |of: &StartedRecord| matches!(&of.news, StartedNews::Mapped(path) if path.ends_with(b"/true"));
        assert_eq!(all.iter().filter(|record| mapped(record)).count(), 2);
        assert_eq!(all.iter().filter(|record| record.news == StartedNews::Ended).count(), 3);
    }
}
