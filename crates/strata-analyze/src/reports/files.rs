//! The report on files, sockets and pipes: bytes read and written, times, errors, and requests to disks.

use std::collections::HashMap;

use strata_ctf::read::TimeRange;
use strata_timeline::{
    Call, CallId, CallKind, DiskRequest, Moves, Name, NameKind, Object, Observer, RequestKind,
    ThreadId, World,
};

use crate::fast_hash::Mix;

use super::longest::{Longest, LongestLimit};
use super::program_groups::{Common, Programs};
use strata_report::Label;
use strata_report::Times;

/// The most rows that are kept; each takes some 1 KiB.
const ROWS_MAX: usize = 1 << 15;

/// [`Row::kind`] of requests to a disk.
pub const DISK: &str = "disk";
/// [`Row::kind`] of objects whose device is not known.
pub const UNKNOWN: &str = "unknown";

/// The choice of what one row of the report stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// A row has one file of one process.
    #[default]
    File,
    /// A row has all files of a process.
    Process,
    /// A row has all files of all processes that have this in common.
    Together(Common),
    /// A row has one file of all processes.
    Path,
    /// A row has all objects of one kind over all processes, or all requests to a disk.
    Device,
}

/// A row: system calls on one file or on several.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The process; empty if rows are about all processes.
    pub label: Label,
    /// The file's path or the socket's address; empty where rows are by process.
    pub name: String,
    /// The kind of object: `file`, `socket`, `pipe`, `nameless`, or `descriptor` if it is not known what the
    /// descriptor was opened for. By device: `disk`, `socket`, `pipe`, `nameless`, `unknown`.
    pub kind: &'static str,
    /// Calls that returned an error.
    pub errors: u64,
    /// The number of descriptors that were opened for the file.
    pub opens: u64,
    /// Bytes read from the file.
    pub read: u64,
    /// Bytes written to the file.
    pub written: u64,
    /// The number of calls of which it is not known how many bytes they read or wrote.
    pub unsaid: u64,
    /// The number and lengths of all calls.
    pub times: Times,
}

impl Row {
    fn merge(&mut self, other: &Row) {
        self.errors += other.errors;
        self.opens += other.opens;
        self.read = self.read.saturating_add(other.read);
        self.written = self.written.saturating_add(other.written);
        self.unsaid += other.unsaid;
        self.times.merge(&other.times);
    }
}

/// One of the slowest calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    /// The thread that called.
    pub label: Label,
    pub call: String,
    pub name: String,
    /// The begin of the call \[ns since 1970\].
    pub begin: i64,
    /// The length of the call \[ns\].
    pub nanos: u64,
    /// The call's return value.
    pub result: Option<i64>,
}

/// The requests of one kind to one disk.
#[derive(Clone, Debug)]
pub struct Disk {
    /// The name of the machine, if the traces are of several.
    pub machine: Option<String>,
    /// The disk's name, or its number.
    pub name: String,
    /// The kind of request: `read`, `write`, `discard`, `flush` or `other`.
    pub kind: &'static str,
    /// The number of bytes that were to be transferred.
    pub bytes: u64,
    /// The number of requests that failed.
    pub errors: u64,
    /// The times from request to completion.
    pub times: Times,
}

#[derive(Clone, Debug, Default)]
pub struct FilesReport {
    /// The rows, by falling time, then by name.
    pub rows: Vec<Row>,
    /// The sum of all calls. A call that copies from one file to another is in two rows, and is counted here once.
    pub all: Row,
    /// The slowest calls, by falling time.
    pub slowest: Vec<Slow>,
    /// The requests to disks, by disk and kind.
    pub disks: Vec<Disk>,
    /// The number of calls for whose row there was no room.
    pub left_out: u64,
}

/// The direction in which a call moves bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallSide {
    Reads,
    Writes,
    Unsaid,
    Nothing,
}

/// Returns the name of a kind of request in reports.
#[must_use]
pub fn kind_name(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::Read => "read",
        RequestKind::Write => "write",
        RequestKind::Discard => "discard",
        RequestKind::Flush => "flush",
        RequestKind::Other => "other",
    }
}

/// Counts calls on files, and requests to disks.
#[derive(Debug)]
pub struct FileCounter {
    range: TimeRange,
    rows: HashMap<(ThreadId, Object), Row, Mix>,
    /// The sums of each process, in which each call is counted once.
    processes: HashMap<ThreadId, Row, Mix>,
    slowest: Longest<(ThreadId, CallId, Object, Option<i64>)>,
    disks: HashMap<(u8, u32, RequestKind), (Times, u64, u64), Mix>,
    left_out: u64,
}

/// Returns the object of a call: its file, or the path in its arguments.
pub fn object_of(world: &World, call: &Call) -> Object {
    let by_path = matches!(world.calls.kind(call.call), CallKind::Address | CallKind::Open);
    match call.object {
        Object::File(_) if !by_path || call.path == Name::NONE => call.object,
        _ if call.path.is_some() => Object::File(call.path),
        Object::Descriptor(number) if number >= 0 => call.object,
        _ => Object::None,
    }
}

impl FileCounter {
    /// Makes a counter for calls that end within `range`, which keeps the `slowest` slowest ones.
    #[must_use]
    pub fn new(range: TimeRange, slowest: impl Into<LongestLimit>) -> FileCounter {
        FileCounter {
            range,
            rows: HashMap::default(),
            processes: HashMap::default(),
            slowest: Longest::new(slowest.into()),
            disks: HashMap::default(),
            left_out: 0,
        }
    }

    fn add(&mut self, world: &World, call: &Call, object: Object, side: CallSide) {
        let key = (world.process_of(call.thread), object);
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let row = self.rows.entry(key).or_default();
        count(row, world, call, &[side]);
    }

    /// Returns the report, with rows of processes that `is_wanted` accepts.
    #[must_use]
    pub fn finish(self, world: &World, by: By, is_wanted: &dyn Fn(&Label) -> bool) -> FilesReport {
        let mut rows: HashMap<(Option<ThreadId>, Option<Object>), Row> = HashMap::new();
        let mut devices: HashMap<(Option<String>, &'static str, String), Row> = HashMap::new();
        let (mut all, mut programs) = (Row::default(), Programs::default());
        for (thread, counted) in self.processes {
            let label = Label::process(world, thread);
            if !is_wanted(&label) {
                continue;
            }
            all.merge(&counted);
            let process = match by {
                By::Process => world.process_of(thread),
                By::Together(common) => programs.of(world, common, thread),
                _ => continue,
            };
            let row = rows.entry((Some(process), None)).or_default();
            row.merge(&counted);
            row.label = label;
        }
        for ((thread, object), counted) in self.rows {
            let object = of_address(world, object);
            let label = Label::process(world, thread);
            if matches!(by, By::Process | By::Together(_)) || !is_wanted(&label) {
                continue;
            }
            if by == By::Device {
                let (kind, name) = device_of(world, object);
                devices.entry((label.machine, kind, name)).or_default().merge(&counted);
                continue;
            }
            let process = Some(world.process_of(thread));
            let process = match (by, object) {
                // Numbers of different processes have nothing to do with each other.
                (By::Path, Object::File(_)) => None,
                _ => process,
            };
            let row = rows.entry((process, Some(object))).or_default();
            row.merge(&counted);
            (row.kind, row.name) = name_of(world, object);
            if process.is_some() {
                row.label = label;
            }
        }
        if let By::Together(common) = by {
            for ((first, _), row) in &mut rows {
                let label = first.map(|first| programs.label(world, common, first));
                row.label = label.unwrap_or_default();
            }
        }
        let many = world.machines.len() > 1;
        let machine_name =
            |machine: u8| world.machines.get(usize::from(machine)).filter(|_| many).cloned();
        if by == By::Device {
            for (&(machine, device, kind), (times, bytes, errors)) in &self.disks {
                let name = world.disk_name(machine, device);
                let row = devices.entry((machine_name(machine), DISK, name)).or_default();
                row.times.merge(times);
                row.errors += errors;
                match kind {
                    RequestKind::Read => row.read = row.read.saturating_add(*bytes),
                    RequestKind::Write => row.written = row.written.saturating_add(*bytes),
                    RequestKind::Discard | RequestKind::Flush | RequestKind::Other => {}
                }
            }
        }
        let devices = devices.into_iter().map(|((machine, kind, name), row)| {
            let label = Label { machine, ..Label::default() };
            Row { label, kind, name, ..row }
        });
        let mut rows: Vec<Row> = rows.into_values().chain(devices).collect();
        rows.sort_by(|one, other| {
            let by_total = other.times.total.cmp(&one.times.total);
            let key = |row: &Row| (row.name.clone(), row.kind, row.label.clone());
            by_total.then_with(|| key(one).cmp(&key(other)))
        });
        let slowest =
            self.slowest.finish().map(|(nanos, begin, (thread, call, object, result))| {
                let (_, name) = name_of(world, object);
                let call = world.calls.name(call).to_owned();
                Slow { label: Label::thread(world, thread), call, name, begin, nanos, result }
            });
        let slowest = slowest.filter(|slow| is_wanted(&slow.label)).collect();
        let mut disks: Vec<_> = self.disks.into_iter().collect();
        disks.sort_by_key(|&(key, _)| key);
        let disks =
            disks.into_iter().map(|((machine, device, kind), (times, bytes, errors))| Disk {
                machine: machine_name(machine),
                name: world.disk_name(machine, device),
                kind: kind_name(kind),
                bytes,
                errors,
                times,
            });
        FilesReport { rows, all, slowest, disks: disks.collect(), left_out: self.left_out }
    }
}

fn count(row: &mut Row, world: &World, call: &Call, sides: &[CallSide]) {
    row.times.add(call.nanos());
    row.errors += u64::from(call.error().is_some());
    let bytes = call.result.and_then(|result| u64::try_from(result).ok()).unwrap_or(0);
    let kind = world.calls.kind(call.call);
    let opens = matches!(kind, CallKind::Open | CallKind::Make);
    row.opens += u64::from(opens && call.result.is_some_and(|result| result >= 0));
    for side in sides {
        match side {
            CallSide::Reads => row.read = row.read.saturating_add(bytes),
            CallSide::Writes => row.written = row.written.saturating_add(bytes),
            CallSide::Unsaid => row.unsaid += 1,
            CallSide::Nothing => {}
        }
    }
}

/// Returns the kind and the name of an object; both are empty if the object is none of those to which descriptors
/// refer.
pub fn name_of(world: &World, object: Object) -> (&'static str, String) {
    match object {
        Object::File(name) => {
            let kind = match world.names.kind(name) {
                NameKind::Given => "file",
                NameKind::Socket | NameKind::Connected => "socket",
                NameKind::Pipe => "pipe",
                NameKind::Nameless => "nameless",
            };
            (kind, world.names.text(name))
        }
        Object::Descriptor(number) => ("descriptor", format!("descriptor {number}")),
        _ => ("", String::new()),
    }
}

/// Returns the listening socket with the address of a connection, so that both ends of a connection are in one row; any
/// other object is returned as it is.
fn of_address(world: &World, object: Object) -> Object {
    match object {
        Object::File(name) if world.names.kind(name) == NameKind::Connected => {
            let listens = world.names.find(NameKind::Socket, world.names.bytes(name));
            Object::File(listens.unwrap_or(name))
        }
        object => object,
    }
}

/// Returns the kind and the device of a file, as far as the trace has them. The disk of a file stays unknown, since
/// it does not follow from the path.
fn device_of(world: &World, object: Object) -> (&'static str, String) {
    let (kind, name) = name_of(world, object);
    match kind {
        // Without its address, or what else tells one from another.
        "socket" | "pipe" | "nameless" => {
            let end = name.find([' ', ':']).unwrap_or(name.len());
            (kind, name.get(..end).unwrap_or(&name).to_owned())
        }
        _ => (UNKNOWN, UNKNOWN.to_owned()),
    }
}

impl Observer for FileCounter {
    const STATES: bool = false;
    const INTERRUPTS: bool = false;
    const FILES: bool = true;

    fn call(&mut self, world: &World, call: &Call) {
        if !call.selected || !self.range.contains(call.end) {
            return;
        }
        let object = object_of(world, call);
        let (own, target): (&[CallSide], _) = match world.calls.moves(call.call) {
            Moves::Nothing => (&[CallSide::Nothing], CallSide::Nothing),
            Moves::Reads => (&[CallSide::Reads], CallSide::Nothing),
            Moves::Writes => (&[CallSide::Writes], CallSide::Nothing),
            Moves::Copies => (&[CallSide::Reads, CallSide::Writes], CallSide::Writes),
            Moves::Unsaid => (&[CallSide::Unsaid], CallSide::Nothing),
        };
        let has_target = target == CallSide::Writes && call.target != Object::None;
        if object == Object::None && !has_target {
            return;
        }
        let process = world.process_of(call.thread);
        let is_new = !self.processes.contains_key(&process);
        let process = match is_new && self.processes.len() >= ROWS_MAX {
            true => ThreadId::IDLE,
            false => process,
        };
        count(self.processes.entry(process).or_default(), world, call, own);
        let first = own.first().copied().unwrap_or(CallSide::Nothing);
        if object != Object::None {
            self.add(world, call, object, first);
        }
        if has_target {
            self.add(world, call, call.target, target);
        }
        let what = (call.thread, call.call, object, call.result);
        self.slowest.add(call.nanos(), call.begin, Some(call.thread), what);
    }

    fn request(&mut self, world: &World, request: &DiskRequest) {
        if !request.selected || !self.range.contains(request.end) {
            return;
        }
        let key = (world.told.machine, request.device, request.kind);
        let (times, bytes, errors) = self.disks.entry(key).or_default();
        times.add(request.end.abs_diff(request.begin));
        *bytes = bytes.saturating_add(request.bytes);
        *errors += u64::from(request.is_error);
    }
}
