//! Names of code that programs generate while they run, from the files that runtimes write for perf.
//!
//! ```text
//! /tmp/perf-PID.map of each recorded process ── CodeNames::read(), every now and then ── new lines ── names, with the time of
//! jit-PID.dump, where the process has it        └─ a thread for each reading, left behind if it hangs    this reading and the last
//! ```
//!
//! Java, Node, Python, .NET and others append a line to `/tmp/perf-PID.map` for each piece of code that they
//! generate: `START SIZE NAME`, both numbers hexadecimal. PID is the process' number in its own PID namespace, and
//! `/tmp` is that of its own mount namespace. The file has no times, so it is read repeatedly, and each name has the
//! time of the reading that found it.
//!
//! Others, and these by another flag, write `jit-PID.dump` (`read::jit_dump`), whose records have times and the code itself, which is
//! skipped. It is `/tmp/jit-PID.dump`, or the file of this name that the process has mapped as code: runtimes map it for
//! perf to see where it is.
//!
//! Each file is written by a process that is not trusted. It is used if it is a regular file with one name that
//! belongs to the process' user, and was written since the process began. A reading can be held up for ever by a file
//! system of the process' own (FUSE). So each reading has a thread to itself, which is waited for during a limited
//! time. Until it ends, that process has no other reading, and while there are [`STUCK_MAX`] such threads nothing is
//! read.
//!
//! The size of a file, the memory for names of a process and of all, and the time and bytes of one call of `read` are
//! limited.

use crate::decide::contexts::Contexts;
use crate::read::jit_dump::{
    header, record, DumpError, DumpHeader, DumpedCode, HEADER_BYTES, RECORD_BYTES_MAX,
};
use crate::read::statedump::{ticks_since_boot, DumpRecord, DumpRecordKind, DumpStamp};
use rustix::fs::{fstat, openat2, FileType, Mode, OFlags, ResolveFlags, Stat};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{
    channel, sync_channel, Receiver, RecvTimeoutError, SyncSender, TryRecvError,
};
use std::time::{Duration, Instant, SystemTime};

/// The most processes whose files are read at one time.
const PROCESSES_MAX: usize = 256;
/// The most bytes of one process' file that are read.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// The most bytes that are read from one file before it is the next file's turn.
const AT_ONCE: u64 = 4 << 20;
/// The number of bytes, over all files, after which a call of [`CodeNames::read`] begins with no further file.
const PASS_BYTES: u64 = 16 << 20;
/// Longest duration of one call of [`CodeNames::read`].
const PASS: Duration = Duration::from_secs(1);
/// The most memory for the names of one process, and of all processes \[byte\].
const PROCESS_BYTES_MAX: usize = 8 << 20;
const BYTES_MAX: usize = 32 << 20;
/// The memory of a name in addition to its text \[byte\].
const NAME_BYTES: usize = 64;
/// The greatest length of a line that is read, and of a name that is kept \[byte\].
const LINE_MAX: usize = 8192;
const NAME_MAX: usize = 512;
/// The end of the addresses that a program can have.
const USER_END: u64 = 1 << 56;
/// The most bytes of a process' mappings that are read to find its jitdump file.
const MAPS_BYTES_MAX: u64 = 4 << 20;
/// Number of first readings that look for a jitdump file among the process's mappings. Of later readings, each of
/// this number looks once.
const DUMP_LOOKS: u32 = 8;
const DUMP_LOOKS_LATER: u32 = 16;
/// The most threads that may hang in reading a file.
const STUCK_MAX: usize = 4;
/// The tolerance for a file that seems older than its process, since clocks have ticks \[s\].
const OLDER_MAX: i64 = 1;

/// The name of a piece of generated code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeName {
    /// Number of the process, as in all records of the kernel's trace.
    pub pid: i32,
    /// The first address.
    pub start: u64,
    /// Size of the code \[byte\].
    pub bytes: u64,
    /// Time since which the code has had the name \[ns\]: the file's own, or that of the reading before the one that
    /// found the name. `None` if there was no reading before.
    pub since: Option<u64>,
    /// The name, without control characters.
    pub name: Box<[u8]>,
}

/// Numbers of names, and of processes, whose generated code has no name in the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Names for which there was no space.
    pub names: u64,
    /// Processes beyond the limit on their number.
    pub processes: u64,
    /// Processes whose file does not belong to their user, or is no regular file.
    pub foreign: u64,
    /// Processes whose file the last call had no time to read to its end.
    pub unread: u64,
    /// Processes whose reading takes too long, and has not ended yet.
    pub stuck: u64,
}

/// Reads the names of the code that processes generate.
#[derive(Debug, Default)]
pub struct CodeNames {
    /// The processes whose files are read, in the order in which it is their turn.
    processes: VecDeque<Process>,
    worker: Option<Worker>,
    /// Readings of files that did not end in time.
    late: Vec<LateReading>,
    left_out: LeftOut,
    /// Memory that all names take \[byte\].
    bytes: usize,
}

/// A reading of a process's file that did not end in time, and may never end.
#[derive(Debug)]
struct LateReading {
    worker: Worker,
    pid: i32,
    /// True if the process has executed another program since, or another process has its number.
    is_replaced: bool,
    /// Memory that the process' names took before \[byte\].
    bytes: usize,
    /// Time at which the reading began \[ns\].
    begun: u64,
}

impl CodeNames {
    /// Adds a process that has generated code. `here`: its number in this program's PID namespace; `pid`: its number
    /// in records. Returns true if the process was not known yet.
    pub fn add(&mut self, here: u32, pid: i32) -> bool {
        if self.processes.iter().any(|known| known.pid == pid && !known.is_replaced)
            || self.late.iter().any(|late| late.pid == pid && !late.is_replaced)
        {
            return false;
        }
        if self.processes.len() >= PROCESSES_MAX {
            self.processes.retain(|known| !known.has_ended());
        }
        let has_room = self.processes.len() < PROCESSES_MAX;
        match has_room {
            true => self.processes.push_back(Process::new(here, pid)),
            false => self.left_out.processes += 1,
        }
        has_room
    }

    /// Notes that a process has begun, or executes another program: files that were found belong to the former
    /// program. Returns true if the process was known.
    pub fn replaced(&mut self, pid: i32) -> bool {
        for late in self.late.iter_mut().filter(|late| late.pid == pid) {
            late.is_replaced = true;
        }
        let mut known = self.processes.iter_mut().filter(|known| known.pid == pid).peekable();
        let is_known = known.peek().is_some();
        known.for_each(|known| known.is_replaced = true);
        is_known
    }

    /// Returns true if there is a process whose file is to be read.
    #[must_use]
    pub fn has_processes(&self) -> bool {
        !self.processes.is_empty() || !self.late.is_empty()
    }

    /// Returns the numbers of names and processes that were left out so far.
    #[must_use]
    pub fn left_out(&self) -> LeftOut {
        LeftOut { stuck: self.late.len() as u64, ..self.left_out }
    }

    /// Reads for at most [`PASS`] what was added to the files since the last call, and returns the new names. The
    /// next call begins with the processes that had no turn. Processes that have ended, or were replaced, are
    /// forgotten once their file was read. `now_ns`: the present time.
    pub fn read(&mut self, now_ns: u64) -> Vec<CodeName> {
        let end = Instant::now() + PASS;
        let mut found = Vec::new();
        let mut read = 0;
        let mut turn = std::mem::take(&mut self.processes);
        self.take_late(&mut turn, &mut found);
        let mut done = VecDeque::new();
        while read < PASS_BYTES && self.late.len() < STUCK_MAX && Instant::now() < end {
            let Some(mut process) = turn.pop_front() else { break };
            process.left = PROCESS_BYTES_MAX.saturating_sub(process.bytes);
            process.left = process.left.min(BYTES_MAX.saturating_sub(self.bytes));
            let before = process.bytes;
            let is_last = process.is_replaced || process.has_ended();
            let Some(mut process) = self.step(process, now_ns, end) else { continue };
            read += std::mem::take(&mut process.read);
            self.take(&mut process, before, now_ns, &mut found);
            if process.is_behind {
                turn.push_back(process);
            } else if !is_last {
                done.push_back(process);
            }
        }
        self.left_out.unread = turn.len() as u64;
        turn.append(&mut done);
        self.processes = turn;
        found
    }

    /// Takes the names that a reading has found which began at the time `begun`. `before`: memory that the process'
    /// names took before.
    fn take(
        &mut self,
        process: &mut Process,
        before: usize,
        begun: u64,
        found: &mut Vec<CodeName>,
    ) {
        self.bytes += process.bytes.saturating_sub(before);
        self.left_out.names += std::mem::take(&mut process.left_out);
        self.left_out.foreign += u64::from(std::mem::take(&mut process.is_foreign));
        found.append(&mut process.found);
        // A reading that is not at the end of the file does not tell which names were not there yet.
        if !process.is_behind {
            process.looked = Some(begun);
        }
    }

    /// Takes the processes, and the names, of late readings that have ended by now.
    fn take_late(&mut self, turn: &mut VecDeque<Process>, found: &mut Vec<CodeName>) {
        for late in std::mem::take(&mut self.late) {
            match late.worker.done.try_recv() {
                Ok(mut process) => {
                    process.is_replaced |= late.is_replaced;
                    self.take(&mut process, late.bytes, late.begun, found);
                    turn.push_back(process);
                }
                Err(TryRecvError::Empty) => self.late.push(late),
                Err(TryRecvError::Disconnected) => {}
            }
        }
    }

    /// Makes a thread read one process's file. Returns the process, or `None` if that takes too long and counts as a
    /// late reading.
    fn step(&mut self, process: Process, now_ns: u64, end: Instant) -> Option<Process> {
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => Worker::begin()?,
        };
        let (pid, is_replaced, bytes) = (process.pid, process.is_replaced, process.bytes);
        worker.jobs.send(process).ok()?;
        let most = end.saturating_duration_since(Instant::now());
        match worker.done.recv_timeout(most) {
            Ok(process) => {
                self.worker = Some(worker);
                Some(process)
            }
            Err(RecvTimeoutError::Timeout) => {
                self.late.push(LateReading { worker, pid, is_replaced, bytes, begun: now_ns });
                None
            }
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }
}

/// A thread that reads the file of one process at a time.
#[derive(Debug)]
struct Worker {
    jobs: SyncSender<Process>,
    done: Receiver<Process>,
}

impl Worker {
    fn begin() -> Option<Worker> {
        let (jobs, orders) = sync_channel::<Process>(1);
        let (to_return, done) = channel();
        let run = move || {
            for mut process in orders {
                process.read();
                if to_return.send(process).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("strata-map-file".to_owned()).spawn(run).ok()?;
        Some(Worker { jobs, done })
    }
}

/// A process that generates code.
#[derive(Debug)]
struct Process {
    here: u32,
    pid: i32,
    /// The process' root folder, which outlives the process; that of this program, if the process ended before it was
    /// examined.
    root: Option<OwnedFd>,
    /// The users who may own the process's file.
    users: Vec<u32>,
    /// The process id in the file's name.
    number: u32,
    /// Time at which the process began \[s since 1970\]; `None` if it ended before it was examined.
    began: Option<i64>,
    file: Option<MapFile>,
    dump: Option<DumpFile>,
    /// Number of readings so far that found no jitdump file.
    without_dump: u32,
    is_replaced: bool,
    is_foreign: bool,
    /// Time of the last reading \[ns\].
    looked: Option<u64>,
    /// For each address, the piece of code that was found last, as a hash of its size and name.
    known: HashMap<u64, u64>,
    found: Vec<CodeName>,
    bytes: usize,
    /// Memory that further names of the process may take \[byte\].
    left: usize,
    left_out: u64,
    /// Number of bytes that the last reading has read from files.
    read: u64,
    read_in_all: u64,
    /// True if the last reading did not come to the end of the file.
    is_behind: bool,
}

/// An open perf map file, which has a line for each piece of generated code.
#[derive(Debug)]
struct MapFile {
    file: File,
    identity: (u64, u64),
    /// The number of bytes that were read from the file.
    at: u64,
    /// The begin of a line whose end was not read yet.
    rest: Vec<u8>,
}

/// An open jitdump file, which has a record for each piece of generated code.
#[derive(Debug)]
struct DumpFile {
    file: File,
    identity: (u64, u64),
    header: Option<DumpHeader>,
    /// Position of the next record \[byte\].
    at: u64,
    /// Names of the pieces of code, by their numbers. A piece that is moved keeps its name.
    names: HashMap<u64, Box<[u8]>>,
    /// True if the rest of the file is damaged and will not be read.
    is_over: bool,
}

/// The users and the process id of a process, from /proc/PID/status.
struct Status {
    users: Vec<u32>,
    number: u32,
}

impl Status {
    fn read(here: u32) -> Option<Status> {
        // The name in it can be any bytes.
        let text = std::fs::read(format!("/proc/{here}/status")).ok()?;
        let text = String::from_utf8_lossy(&text);
        let words = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect())
        };
        let numbers: Vec<u32> = words("NSpid:").unwrap_or_default();
        let number = numbers.last().copied().unwrap_or(here);
        Some(Status { users: words("Uid:")?, number })
    }
}

impl Process {
    fn new(here: u32, pid: i32) -> Process {
        let mut process = Process {
            here,
            pid,
            root: None,
            users: Vec::new(),
            number: here,
            file: None,
            dump: None,
            without_dump: 0,
            is_replaced: false,
            is_foreign: false,
            looked: None,
            known: HashMap::new(),
            found: Vec::new(),
            bytes: 0,
            left: 0,
            left_out: 0,
            began: began(here),
            read: 0,
            read_in_all: 0,
            is_behind: false,
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match Status::read(here) {
            Some(status) => {
                (process.users, process.number) = (status.users, status.number);
                process.root =
                    rustix::fs::open(format!("/proc/{here}/root"), flags, Mode::empty()).ok();
            }
            // It lived for a moment. Only its number is known, so a file of another user than this program's is not
            // accepted.
            None => {
                process.users = vec![rustix::process::geteuid().as_raw()];
                process.root = rustix::fs::open("/", flags, Mode::empty()).ok();
            }
        }
        process
    }

    fn has_ended(&self) -> bool {
        !std::path::Path::new(&format!("/proc/{}", self.here)).exists()
    }

    /// Reads what is new in the files. A file that was replaced, or became shorter, is read again from its begin.
    fn read(&mut self) {
        self.is_behind = false;
        self.read_map();
        self.read_dump();
    }

    fn read_map(&mut self) {
        if let Some(path) = self.find(&format!("tmp/perf-{}.map", self.number)) {
            let is_same = |known: &MapFile| known.identity == identity(&path.1);
            if !self.file.as_ref().is_some_and(is_same) {
                // What the former file got last is read, too.
                self.read_file();
                self.file = open(&path.0).map(|file| MapFile {
                    file,
                    identity: identity(&path.1),
                    at: 0,
                    rest: Vec::new(),
                });
            }
        }
        self.read_file();
    }

    /// Finds a file in the process' root; `None` if it does not exist or may not be used.
    fn find(&mut self, path: &str) -> Option<(OwnedFd, Stat)> {
        if self.is_replaced {
            return None;
        }
        // A service may have changed its user since.
        if let Some(status) = Status::read(self.here) {
            self.users = status.users;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let found = openat2(self.root.as_ref()?, path, flags, Mode::empty(), within).ok()?;
        let stat = fstat(&found).ok()?;
        let is_usable = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && self.users.contains(&stat.st_uid)
            && stat.st_nlink == 1;
        if !is_usable {
            self.is_foreign = true;
            self.root = None;
            return None;
        }
        // An older file is that of a process that had the same number.
        let is_older = |began: i64| stat.st_mtime.saturating_add(OLDER_MAX) < began;
        (!self.began.is_some_and(is_older)).then_some((found, stat))
    }

    fn read_file(&mut self) {
        let Some(mut map) = self.file.take() else { return };
        let bytes =
            fstat(map.file.as_fd()).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
        if bytes < map.at {
            (map.at, map.rest) = (0, Vec::new());
        }
        let end = bytes.min(map.at.saturating_add(AT_ONCE)).min(FILE_BYTES_MAX);
        let mut part = vec![0; 64 << 10];
        while map.at < end {
            let most = usize::try_from(end - map.at).unwrap_or(part.len()).min(part.len());
            let Some(part) = part.get_mut(..most) else { break };
            let Ok(read @ 1..) = map.file.read_at(part, map.at) else { break };
            map.at += read as u64;
            self.read += read as u64;
            self.read_in_all = self.read_in_all.saturating_add(read as u64);
            self.lines(&mut map.rest, part.get(..read).unwrap_or_default());
        }
        // A file can be made shorter and longer for ever.
        let has_more = map.at >= end && end < bytes.min(FILE_BYTES_MAX);
        self.is_behind = has_more && self.read_in_all < FILE_BYTES_MAX;
        self.file = Some(map);
    }

    fn read_dump(&mut self) {
        if let Some((found, stat)) = self.find_dump() {
            let is_same = |known: &DumpFile| known.identity == identity(&stat);
            if !self.dump.as_ref().is_some_and(is_same) {
                self.read_records();
                self.dump = open(&found).map(|file| DumpFile {
                    file,
                    identity: identity(&stat),
                    header: None,
                    at: 0,
                    names: HashMap::new(),
                    is_over: false,
                });
            }
        }
        self.read_records();
    }

    /// Finds the process's jitdump file: in `/tmp`, or at the path in its mappings.
    fn find_dump(&mut self) -> Option<(OwnedFd, Stat)> {
        let name = format!("jit-{}.dump", self.number);
        if let Some(found) = self.find(&format!("tmp/{name}")) {
            return Some(found);
        }
        // One that was found elsewhere is open, and does not move.
        if self.dump.is_some() || self.is_replaced {
            return None;
        }
        self.without_dump = self.without_dump.saturating_add(1);
        let is_due = self.without_dump <= DUMP_LOOKS || self.without_dump % DUMP_LOOKS_LATER == 0;
        let maps = File::open(format!("/proc/{}/maps", self.here)).ok().filter(|_| is_due)?;
        let path = mapped_dump(maps, &name)?;
        self.find(&path)
    }

    /// Reads the new records of the jitdump file.
    fn read_records(&mut self) {
        let Some(mut dump) = self.dump.take() else { return };
        let size =
            fstat(dump.file.as_fd()).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
        if size < dump.at {
            (dump.at, dump.header, dump.is_over) = (0, None, false);
            dump.names.clear();
        }
        let mut part = vec![0; 64 << 10];
        let mut read_now = 0;
        // The position in the file of what is in `part`.
        let (mut from, mut filled) = (0, 0);
        while !dump.is_over && dump.at < size {
            let needed = if dump.header.is_some() { RECORD_BYTES_MAX } else { HEADER_BYTES };
            let inside = dump.at.checked_sub(from).and_then(|at| usize::try_from(at).ok());
            let inside = inside.filter(|at| *at < filled);
            let is_enough = |at: usize| at + needed <= filled || from + filled as u64 >= size;
            let at = match inside.filter(|at| is_enough(*at)) {
                Some(at) => at,
                None if read_now >= AT_ONCE || self.read_in_all >= FILE_BYTES_MAX => break,
                None => {
                    let Ok(read @ 1..) = dump.file.read_at(&mut part, dump.at) else { break };
                    (from, filled) = (dump.at, read);
                    read_now += read as u64;
                    self.read += read as u64;
                    self.read_in_all = self.read_in_all.saturating_add(read as u64);
                    0
                }
            };
            let bytes = part.get(at..filled).unwrap_or_default();
            match self.dumped(&mut dump, bytes) {
                // A record that is not whole yet is read when it is. Its code is skipped.
                Ok(end) if end <= size => dump.at = end,
                Err(DumpError::Wrong) => dump.is_over = true,
                Ok(_) | Err(DumpError::Short) => break,
            }
        }
        let has_more = !dump.is_over && dump.at < size && read_now >= AT_ONCE;
        self.is_behind |= has_more && self.read_in_all < FILE_BYTES_MAX;
        self.dump = Some(dump);
    }

    /// Uses the header or record of a jitdump file that is at the begin of `bytes`. Returns the position of the next
    /// one.
    fn dumped(&mut self, dump: &mut DumpFile, bytes: &[u8]) -> Result<u64, DumpError> {
        let Some(known) = dump.header else {
            let found = header(bytes)?;
            dump.header = Some(found);
            return Ok(found.first);
        };
        let found = record(bytes)?;
        let end = dump.at.checked_add(found.bytes).ok_or(DumpError::Wrong)?;
        let since = known.has_times.then_some(found.time);
        match found.code {
            DumpedCode::Made { start, bytes, index, name } => {
                let name = name.get(..NAME_MAX).unwrap_or(name);
                // What is not whole yet comes again.
                if !name.is_empty() && is_whole(dump, end) && self.code(start, bytes, name, since) {
                    let memory = NAME_BYTES + name.len();
                    if memory <= self.left {
                        self.left -= memory;
                        self.bytes += memory;
                        dump.names.insert(index, name.into());
                    }
                }
            }
            DumpedCode::Moved { start, bytes, index } => {
                if let Some(name) = dump.names.get(&index).cloned() {
                    self.code(start, bytes, &name, since);
                }
            }
            DumpedCode::Other => {}
        }
        Ok(end)
    }

    /// Uses the lines of a perf map file that end in `part`. The begin of the first line may be in `rest`.
    fn lines(&mut self, rest: &mut Vec<u8>, part: &[u8]) {
        for piece in part.split_inclusive(|byte| *byte == b'\n') {
            let room = (LINE_MAX + 1).saturating_sub(rest.len());
            rest.extend(piece.iter().take(room));
            if piece.ends_with(b"\n") {
                // A line that is too long has no end here, and is no line.
                if let Some(line) = rest.strip_suffix(b"\n") {
                    self.line(line);
                }
                rest.clear();
            }
        }
    }

    fn line(&mut self, line: &[u8]) {
        if let Some((start, bytes, name)) = parse(line) {
            self.code(start, bytes, name, None);
        }
    }

    /// Adds the name of a piece of code, unless it is known already. `since`: time since which the code has the name
    /// \[ns\], or `None` for the last reading. Returns false if there is no room for the name, or the addresses are
    /// impossible.
    fn code(&mut self, start: u64, bytes: u64, name: &[u8], since: Option<u64>) -> bool {
        if bytes == 0 || start.checked_add(bytes).is_none_or(|end| end > USER_END) {
            return false;
        }
        let mut hasher = DefaultHasher::new();
        (bytes, name).hash(&mut hasher);
        let hash = hasher.finish();
        if self.known.get(&start) == Some(&hash) {
            return true;
        }
        let memory = NAME_BYTES + name.len();
        if memory > self.left {
            self.left_out += 1;
            return false;
        }
        self.left -= memory;
        self.bytes += memory;
        self.known.insert(start, hash);
        self.found.push(CodeName {
            pid: self.pid,
            start,
            bytes,
            since: since.or(self.looked),
            name: clean(name),
        });
        true
    }
}

/// Returns whether the file has all of the record that ends at `end`.
fn is_whole(dump: &DumpFile, end: u64) -> bool {
    fstat(dump.file.as_fd())
        .is_ok_and(|stat| u64::try_from(stat.st_size).is_ok_and(|size| end <= size))
}

/// Finds in the text of `/proc/PID/maps` the path of a file with this name that the process has mapped as code.
fn mapped_dump(maps: impl Read, name: &str) -> Option<String> {
    let lines = BufReader::new(maps.take(MAPS_BYTES_MAX)).split(b'\n').map_while(Result::ok);
    let path = |line: Vec<u8>| {
        let line = String::from_utf8(line).ok()?;
        let is_code = line.split_ascii_whitespace().nth(1)?.contains('x');
        let path = line.get(line.find('/')?..)?;
        let is_it = is_code && path.rsplit('/').next() == Some(name);
        is_it.then(|| path.trim_start_matches('/').to_owned())
    };
    lines.into_iter().find_map(path)
}

/// Returns the time at which a process began \[s since 1970\], computed with the present wall clock.
fn began(here: u32) -> Option<i64> {
    let stat = std::fs::read(format!("/proc/{here}/stat")).ok()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    // The name before it can have spaces and parentheses.
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    let start: u64 = rest.split_ascii_whitespace().nth(19)?.parse().ok()?;
    let ticks = ticks_since_boot().saturating_sub(start);
    let age = ticks / rustix::param::clock_ticks_per_second().max(1);
    i64::try_from(now.as_secs().checked_sub(age)?).ok()
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Opens for reading the file that was found and checked before, and no other one.
fn open(found: &OwnedFd) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    rustix::fs::open(path, flags, Mode::empty()).ok().map(File::from)
}

/// Parses a line `START SIZE NAME`; `None` if it is no such line.
fn parse(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    fn word(line: &[u8]) -> Option<(&[u8], &[u8])> {
        let line = line.trim_ascii_start();
        let end = line.iter().position(|byte| *byte == b' ')?;
        Some((line.get(..end)?, line.get(end..)?))
    }
    fn number(word: &[u8]) -> Option<u64> {
        let text = std::str::from_utf8(word).ok()?;
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        u64::from_str_radix(digits, 16).ok()
    }
    let (start, rest) = word(line)?;
    let (bytes, name) = word(rest)?;
    let (start, bytes, name) = (number(start)?, number(bytes)?, name.trim_ascii());
    let is_code = bytes > 0 && start.checked_add(bytes).is_some_and(|end| end <= USER_END);
    (is_code && !name.is_empty()).then_some((start, bytes, name.get(..NAME_MAX).unwrap_or(name)))
}

/// Replaces control characters in a name.
fn clean(name: &[u8]) -> Box<[u8]> {
    let text = String::from_utf8_lossy(name);
    let shown = text.chars().map(|one| if one.is_control() { '?' } else { one });
    shown.collect::<String>().into_bytes().into()
}

/// Encodes names of generated code as records. `first_id`: the id of the first of
/// [`crate::read::statedump::event_classes`]. Returns the bytes and the number of records.
#[must_use]
pub fn code_name_records(
    names: &[CodeName],
    now_ns: u64,
    (first_id, contexts): (u32, &Contexts),
) -> (Vec<u8>, u64) {
    let mut out = Vec::new();
    for one in names {
        let pid = one.pid as u32;
        let contexts = &contexts.of_process(pid);
        let stamp = DumpStamp { now_ns, tid: pid, contexts, first_id, is_later: true };
        let record = DumpRecord::begin(&mut out, &stamp, DumpRecordKind::CodeName);
        let most = one.since.map_or(u64::MAX, |since| now_ns.saturating_sub(since));
        record.u32s(&[pid]).u64s(&[one.start, one.bytes, most]).text(&one.name);
    }
    (out, names.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    /// A folder that is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path =
                std::env::temp_dir().join(format!("strata-names-{name}-{}", std::process::id()));
            std::fs::create_dir_all(path.join("tmp")).unwrap();
            Folder(path)
        }

        /// A process of this user that has the folder as its root.
        fn process(&self) -> Process {
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            let root = rustix::fs::open(&self.0, flags, Mode::empty()).unwrap();
            let own = std::process::id();
            Process { root: Some(root), number: 7, left: 1 << 20, ..Process::new(own, 70) }
        }

        fn map(&self) -> PathBuf {
            self.0.join("tmp/perf-7.map")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn names(process: &mut Process) -> Vec<(u64, u64, String)> {
        process.read();
        let text =
            |one: CodeName| (one.start, one.bytes, String::from_utf8(one.name.into()).unwrap());
        std::mem::take(&mut process.found).into_iter().map(text).collect()
    }

    #[test]
    fn parse_of_lines_of_node_java_and_python_has_their_numbers_and_names() {
        let of = |line: &'static str| parse(line.as_bytes());
        assert_eq!(
            of("7f10 1c JS:*f /a b.js:1:2"),
            Some((0x7f10, 0x1c, &b"JS:*f /a b.js:1:2"[..]))
        );
        assert_eq!(of("0x00007f10 0x1c LA;::b"), Some((0x7f10, 0x1c, &b"LA;::b"[..])));
        assert_eq!(of("7f10 b py::f:/a.py"), Some((0x7f10, 0xb, &b"py::f:/a.py"[..])));
        for bad in [
            "",
            "7f10",
            "7f10 1c",
            "7f10 1c ",
            "7f10 0 a",
            "x 1 a",
            "ffffffffffffffff 1 a",
            "-1 1 a",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn lines_that_come_in_pieces_are_read_once_each_and_a_new_file_from_its_begin() {
        let folder = Folder::new("pieces");
        let mut process = folder.process();
        assert_eq!(names(&mut process), []);
        std::fs::write(folder.map(), "1000 10 a\n2000 10 b").unwrap();
        assert_eq!(names(&mut process), [(0x1000, 0x10, "a".to_owned())]);
        std::fs::write(folder.map(), "1000 10 a\n2000 10 b\u{1b}c\n1000 10 a\n1000 20 d\n")
            .unwrap();
        let more = [(0x2000, 0x10, "b?c".to_owned()), (0x1000, 0x20, "d".to_owned())];
        assert_eq!(names(&mut process), more);
        std::fs::remove_file(folder.map()).unwrap();
        std::fs::write(folder.map(), "3000 10 e\n").unwrap();
        assert_eq!(names(&mut process), [(0x3000, 0x10, "e".to_owned())]);
        // Removed, while it is still written.
        let mut file = std::fs::OpenOptions::new().append(true).open(folder.map()).unwrap();
        std::fs::remove_file(folder.map()).unwrap();
        std::io::Write::write_all(&mut file, b"4000 10 f\n").unwrap();
        assert_eq!(names(&mut process), [(0x4000, 0x10, "f".to_owned())]);
    }

    #[test]
    fn file_from_before_the_process_is_not_read() {
        let folder = Folder::new("older");
        let mut process = folder.process();
        let mut file = File::create(folder.map()).unwrap();
        std::io::Write::write_all(&mut file, b"1000 10 a\n").unwrap();
        let began = process.began.unwrap();
        let time = |second: i64| SystemTime::UNIX_EPOCH + Duration::from_secs(second as u64);
        file.set_modified(time(began - 10)).unwrap();
        assert_eq!((names(&mut process), process.is_foreign), (vec![], false));
        file.set_modified(time(began + 1)).unwrap();
        assert_eq!(names(&mut process).len(), 1);
    }

    #[test]
    fn names_of_a_long_file_are_as_old_as_the_last_reading_that_came_to_its_end() {
        let folder = Folder::new("long");
        let mut all = CodeNames::default();
        all.processes.push_back(Process { looked: Some(5), ..folder.process() });
        let filler = format!("2000 10 {}\n", "b".repeat(8000)).repeat(700);
        std::fs::write(folder.map(), format!("1000 10 a\n{filler}3000 10 c\n")).unwrap();
        // More than one call, where the machine is slow.
        let mut found = Vec::new();
        let mut calls = 0;
        while found.len() < 3 {
            found.extend(all.read(10));
            calls += 1;
            assert!(calls < 1000, "{found:?}");
        }
        assert!(found.iter().all(|one| one.since == Some(5)), "{found:?}");
        assert_eq!(all.left_out().names, 0);
    }

    #[test]
    fn process_whose_reading_is_late_is_known_until_it_is_replaced_and_comes_back() {
        let mut all = CodeNames::default();
        let own = std::process::id();
        let (jobs, orders) = sync_channel(1);
        let (to_return, done) = channel();
        let worker = Worker { jobs, done };
        all.late.push(LateReading { worker, pid: 70, is_replaced: false, bytes: 0, begun: 5 });
        assert!(!all.add(own, 70) && all.has_processes());
        assert_eq!((all.read(10), all.left_out().stuck), (vec![], 1));
        assert!(!all.replaced(70) && all.add(own, 70));
        let mut process = Process::new(own, 70);
        let name = CodeName { pid: 70, start: 1, bytes: 1, since: None, name: (*b"a").into() };
        process.found.push(name.clone());
        to_return.send(process).unwrap();
        assert_eq!(all.read(20), [name]);
        drop(orders);
        // The one that was replaced is forgotten.
        while all.left_out().unread > 0 || !all.late.is_empty() {
            all.read(30);
        }
        assert_eq!(all.processes.len(), 1);
    }

    #[test]
    fn dump_has_names_from_their_own_times_on_and_goes_on_where_it_ended() {
        use crate::read::jit_dump::written::{header, made, moved, other};
        let folder = Folder::new("dump");
        let mut process = Process { looked: Some(5), ..folder.process() };
        let path = folder.0.join("tmp/jit-7.dump");
        let mut read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            process.read();
            let found = std::mem::take(&mut process.found).into_iter();
            let found = found.map(|one| (one.start, one.bytes, one.since, one.name.to_vec()));
            (found.collect::<Vec<_>>(), process.is_behind)
        };
        let first = [header(0), made(100, 0x1000, &[0xc3; 100_000], 1, "f"), other(2, 5000)];
        let mut bytes = first.concat();
        let begun = bytes.len() + 70;
        bytes.extend(made(200, 0x90000, &[0xc3; 64], 2, "g"));
        assert_eq!(read(&bytes[..begun]).0, [(0x1000, 100_000, Some(100), b"f".to_vec())]);
        bytes.extend(moved(300, 0x1000, 0x50000, 100_000, 1));
        // A size that leads nowhere ends the file.
        bytes.extend([0; 100]);
        bytes.extend(made(400, 0x70000, &[0xc3], 3, "h"));
        let more =
            [(0x90000, 64, Some(200), b"g".to_vec()), (0x50000, 100_000, Some(300), b"f".to_vec())];
        assert_eq!(read(&bytes), (more.to_vec(), false));
        assert_eq!(read(&bytes).0, []);
        // Times of a counter say nothing.
        let counted = [header(1), made(100, 0x2000, &[0xc3], 1, "i")].concat();
        assert_eq!(read(&counted).0, [(0x2000, 1, Some(5), b"i".to_vec())]);
    }

    #[test]
    fn dump_elsewhere_is_found_by_its_mapping_as_code() {
        let maps = "7f00-7f01 r--p 0 08:01 5 /srv/a b/jit-7.dump\n\
                    7f02-7f03 r-xp 0 08:01 5 /srv/a b/jit-71.dump\n\
                    7f04-7f05 r-xp 0 08:01 5 /srv/a b/jit-7.dump\n";
        assert_eq!(mapped_dump(maps.as_bytes(), "jit-7.dump").unwrap(), "srv/a b/jit-7.dump");
        assert_eq!(mapped_dump(maps.as_bytes(), "jit-8.dump"), None);
    }

    #[test]
    fn malicious_files_are_not_read() {
        let folder = Folder::new("malicious");
        let target = folder.0.join("secret");
        std::fs::write(&target, "1000 10 a\n").unwrap();
        let refused = |what: &str| {
            let mut process = folder.process();
            assert_eq!(names(&mut process), [], "{what}");
            process.is_foreign
        };
        symlink(&target, folder.map()).unwrap();
        refused("link");
        std::fs::remove_file(folder.map()).unwrap();
        std::fs::hard_link(&target, folder.map()).unwrap();
        assert!(refused("second name"));
        std::fs::remove_file(folder.map()).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, folder.map(), FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert!(refused("pipe"));
        std::fs::remove_file(folder.map()).unwrap();
        // A way out of the process' root leads back into it.
        std::fs::remove_dir(folder.0.join("tmp")).unwrap();
        let outside = Folder::new("outside");
        std::fs::write(outside.map(), "1000 10 a\n").unwrap();
        symlink(outside.0.join("tmp"), folder.0.join("tmp")).unwrap();
        refused("folder elsewhere");
        std::fs::remove_file(folder.0.join("tmp")).unwrap();
        std::fs::create_dir(folder.0.join("tmp")).unwrap();
        if rustix::process::geteuid().is_root() {
            std::fs::write(folder.map(), "1000 10 a\n").unwrap();
            std::os::unix::fs::chown(folder.map(), Some(12345), None).unwrap();
            assert!(refused("of another user"));
        }
    }

    #[test]
    fn names_above_the_limit_are_counted_and_lines_without_end_take_no_memory() {
        let folder = Folder::new("limits");
        let mut process = Process { left: 3 * (NAME_BYTES + 1), ..folder.process() };
        let lines: String = (1..=5).map(|at| format!("{at}000 10 a\n")).collect();
        std::fs::write(folder.map(), lines).unwrap();
        assert_eq!((names(&mut process).len(), process.left_out), (3, 2));
        let mut rest = Vec::new();
        process.left = 1 << 20;
        for _ in 0..100 {
            process.lines(&mut rest, &[b'1'; 4096]);
        }
        assert_eq!((rest.len(), process.found.len()), (LINE_MAX + 1, 0));
        process.lines(&mut rest, b"\n9000 10 z\n");
        assert_eq!((rest.len(), process.found.len()), (0, 1));
    }

    #[test]
    fn file_of_a_process_that_ends_is_read_to_its_end_and_then_forgotten() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let path = format!("/tmp/perf-{}.map", child.id());
        let mut all = CodeNames::default();
        all.add(child.id(), 70);
        all.add(child.id(), 70);
        assert!(all.read(10).is_empty());
        std::fs::write(&path, "1000 10 a\n").unwrap();
        assert_eq!(all.read(20).first().and_then(|one| one.since), Some(10));
        std::fs::write(&path, "1000 10 a\n2000 10 b\n").unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let found = all.read(30);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            found.iter().map(|one| (one.pid, one.start)).collect::<Vec<_>>(),
            [(70, 0x2000)]
        );
        assert!(!all.has_processes() && all.left_out() == LeftOut::default());
    }
}
