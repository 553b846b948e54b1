//! Writes the state dump: a stream with the state of the machine when the kernel's layer begins. From it, readers learn
//! the names of threads that began before the recording. Changes of the state, such as mapped code, are another stream.
//!
//! ```text
//! statedump_0   once, at the beginning: threads, open files, mapped code, interrupts, disks, mounts  write()
//! statedump_1   changes during the recording: code that is mapped                                    WatchedChanges
//! statedump_2   a second dump, if more is wanted than at the beginning, such as code                 write_again()
//! the next      names of code that programs generate                                                 WatchedNames
//! ```
//!
//! The records are LTTng's (`lttng_statedump_process_state` and others), so that its readers recognise them.
//! `strata_kernel::statedump` reads /proc and encodes them; this module decides what to dump ([`Wish`], [`DumpScope`]),
//! writes packets, and keeps the changes.
//!
//! A dump takes a while, and the machine runs in the meantime. So changes are watched from before the dump: a mapping
//! that the dump contains and a later change reports is removed from the dump (`retain_before`), and readers see each
//! mapping begin once. A flight recorder has no beginning at which to dump: it keeps the latest changes, dumps when a
//! snapshot is saved, and computes from both what was mapped before ([`MappedBefore`]). In a snapshot, `statedump_0` is
//! therefore the state at its end, and `statedump_2` the state before its changes.
//!
//! A thread of its own reads the changes, since the kernel's rings for them are small; all else happens in the thread
//! of the kernel's pump. docs/design/kernel.md describes what readers may rely on.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use strata_collect::{Body, Error, Sink};
use strata_ctf::packet::{Header, HEADER_BYTES};
use strata_ctf::state_dump::{
    AGAIN_BEHIND, AGAIN_FILE, CHANGES_BEHIND, CHANGES_FILE, FILE, NAMES_BEHIND,
};
use strata_kernel::mapped_code::{
    map_records, mapped_before, ChangePlace, Mapped, MappedChange, New,
};
use strata_kernel::statedump::{
    command_records, event_classes, numbers_of_processes, process, records, ticks_since_boot,
    BuildIds, CodeMapping, CommandState, DumpStamp, DumpedProcess, MachineState,
};
use strata_kernel::{number_of, Contexts, Numbers, RecordedProcesses};
use strata_model::{StreamClass, Uuid};
use strata_user::ask_each;

use super::jit_names::{NamesPlace, WatchedNames};
use crate::report::Counts;
use crate::session::lock::lock;

/// Adds the event classes of the state dump to `class`. Returns their ids.
pub(crate) fn describe(class: &mut StreamClass) -> Range<u32> {
    let first_id = class.events.iter().map(|event| event.id + 1).max().unwrap_or(0);
    let kinds = event_classes(first_id);
    let ids = first_id..first_id + kinds.len() as u32;
    class.events.extend(kinds);
    ids
}

/// Identity of a dump's trace and stream, with the id of its first event class.
#[derive(Clone, Debug)]
pub(crate) struct DumpPlace {
    pub(crate) uuid: Uuid,
    pub(crate) stream_id: u32,
    pub(crate) stream_instance: u64,
    pub(crate) first_id: u32,
    pub(crate) contexts: Contexts,
}

/// The contents of a state dump in addition to the threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    /// Processes whose open files and code are dumped.
    pub(crate) recorded: RecordedProcesses,
    /// Cache of the build ids of files.
    pub(crate) ids: BuildIds,
    /// Conversion from process ids in /proc to the kernel's process ids.
    pub(crate) numbers: Option<Arc<Numbers>>,
    /// Names of the kernel's functions, as the contents of a symbol file.
    pub(crate) symbols: Option<Arc<Vec<u8>>>,
    /// True if the dump describes mapped code, so that addresses get names.
    pub(crate) has_code: bool,
    /// The state at the start of the command, until it is written.
    pub(crate) command: Option<Arc<CommandState>>,
    /// True if only the command and its descendants are recorded; the dump then has only these.
    pub(crate) of_command: bool,
}

/// The contents of state dumps, to which more is added once records have call stacks.
#[derive(Debug, Default)]
pub(crate) struct DumpScope {
    pub(crate) wish: Wish,
    /// The source of changes of the dumped state; `None` if changes are not written.
    pub(crate) watched: Option<WatchedChanges>,
    /// True if contents were added after the present trace began.
    pub(crate) is_new: bool,
    /// True if the kernel's symbols were added after the beginning of the present trace.
    pub(crate) has_new_symbols: bool,
}

/// A dump that was written.
#[derive(Debug, Default)]
pub(crate) struct Dump {
    header: Header,
    body: Vec<u8>,
    pub(crate) counts: Counts,
}

/// The greatest time from the beginning of a packet to a record in it, since records' times have 32 bits \[ns\].
const EARLIER_MAX: u64 = 1 << 31;

/// Dumps all threads into a new trace.
///
/// # Errors
/// The system's error on writing the file.
pub(crate) fn write(
    sink: &mut dyn Sink,
    place: &DumpPlace,
    wish: &Wish,
    watched: Option<&WatchedChanges>,
) -> Result<Dump, Error> {
    write_found(sink, place, wish, watched).map(|(dump, _)| dump)
}

/// Dumps all threads as [`write`] does, and also returns the dumped processes.
///
/// # Errors
/// The system's error on writing the file.
pub(crate) fn write_found(
    sink: &mut dyn Sink,
    place: &DumpPlace,
    wish: &Wish,
    watched: Option<&WatchedChanges>,
) -> Result<(Dump, Vec<DumpedProcess>), Error> {
    write_to(FILE, sink, place, (wish, watched))
}

/// Dumps the state once more, in a trace that has a dump already.
///
/// # Errors
/// The system's error on writing the file.
pub(crate) fn write_again(
    sink: &mut dyn Sink,
    place: &DumpPlace,
    wish: &Wish,
    watched: &WatchedChanges,
) -> Result<Counts, Error> {
    // The stream number follows that of the changes.
    write_to(AGAIN_FILE, sink, &place.again(), (wish, Some(watched))).map(|(dump, _)| dump.counts)
}

fn write_to(
    file: &str,
    sink: &mut dyn Sink,
    place: &DumpPlace,
    (wish, watched): (&Wish, Option<&WatchedChanges>),
) -> Result<(Dump, Vec<DumpedProcess>), Error> {
    if let Some(symbols) = &wish.symbols {
        sink.set_symbols(symbols)?;
    }
    // The time is taken before /proc is read, so that events during the dump have later times.
    let (now_ticks, now_ns) = (ticks_since_boot(), strata_user::Clock::monotonic_ns());
    let root = Path::new("/");
    // A process that is held in execve() is left out: the kernel reveals nothing but its name.
    let (ids, recorded) = (Arc::clone(&wish.ids), wish.recorded.snapshot());
    let (numbers, numbers_there) = (wish.numbers.as_deref(), wish.numbers.clone());
    if let Some(numbers) = numbers {
        numbers.scan();
    }
    let (of_command, is_begin) = (wish.of_command, wish.command.is_some());
    let is_wanted =
        |pid: &u32| !of_command || !is_begin && recorded.contains(number_of(numbers, *pid));
    let processes: Vec<u32> = match of_command && is_begin {
        true => Vec::new(),
        false => numbers_of_processes(root).into_iter().filter(is_wanted).collect(),
    };
    let recorded = recorded.clone();
    let found = ask_each(&processes, move |pid| {
        let numbers = numbers_there.as_deref();
        let is_recorded = recorded.contains(number_of(numbers, pid));
        let found = process(root, pid, is_recorded.then_some(&ids))?;
        match numbers {
            Some(numbers) => found.renumbered(numbers.level(), &|here| numbers.of(here)),
            None => Some(found),
        }
    });
    if let Some(watched) = watched {
        for (here, process) in &found {
            let (pid, maps) = process.code();
            if maps.iter().any(CodeMapping::is_generated) {
                watched.names.generates(*here, pid);
            }
        }
    }
    let mut found: Vec<_> = found.into_iter().map(|(_, found)| found).collect();
    found.iter_mut().for_each(|process| process.forget_states_since(now_ticks));
    if let Some(watched) = watched {
        retain_before(&mut found, &watched.since(now_ns, place));
    }
    let contexts = &place.contexts.of_this_process(&|pid| number_of(numbers, pid));
    let tid = number_of(numbers, std::process::id());
    let first_id = place.first_id;
    let command = command(wish, &DumpStamp { now_ns, tid, contexts, first_id, is_later: false });
    let (begin_ns, mut body, mut count) = command.unwrap_or((now_ns, Vec::new(), 0));
    if !(of_command && is_begin) {
        let stamp = DumpStamp { now_ns, tid, contexts, first_id, is_later: begin_ns < now_ns };
        let machine = (!of_command).then(|| MachineState::read(root));
        let (others, n) = records(&found, machine.as_ref(), &stamp);
        body.extend(others);
        count += n;
    }
    let header = Header {
        uuid: place.uuid,
        stream_id: place.stream_id,
        stream_instance: place.stream_instance,
        timestamp_begin: begin_ns,
        timestamp_end: now_ns,
        ..Header::default()
    };
    let header = header.with_content_bytes(body.len() as u64);
    sink.set_stream(file, &header.encode(), &body)?;
    let counts = Counts {
        // The number of records is left out for a recording of a command, which is judged by the events in it.
        records: if of_command { 0 } else { count },
        packets: 1,
        bytes: (HEADER_BYTES + body.len()) as u64,
        span: Some((begin_ns, now_ns)),
        ..Counts::default()
    };
    Ok((Dump { header, body, counts }, found))
}

/// Returns the start time of the command, the records of its initial state, and their number; `None` if that state is
/// unknown. `stamp`: the times that the whole dump uses.
fn command(wish: &Wish, stamp: &DumpStamp<'_>) -> Option<(u64, Vec<u8>, u64)> {
    let command = wish.command.as_ref()?;
    let process = command.process().clone();
    let process = match wish.numbers.as_deref() {
        Some(numbers) => process.renumbered(numbers.level(), &|here| numbers.of(here))?,
        None => process,
    };
    let begin_ns = command.at_ns().min(stamp.now_ns);
    let (body, count) = command_records(&process, &DumpStamp { now_ns: begin_ns, ..*stamp });
    Some((begin_ns, body, count))
}

/// Removes mappings that the changes describe, so that the dump only has those that existed before.
fn retain_before(found: &mut [DumpedProcess], changes: &[New]) {
    let before = mapped_before(found, changes.iter().copied());
    let before: HashSet<(i32, u64)> = before.iter().map(|(pid, map)| (*pid, map.start)).collect();
    for process in found {
        let (pid, _) = process.code();
        process.retain_code(&|map| before.contains(&(pid, map.start)));
    }
}

impl DumpPlace {
    /// Returns the stream for a second dump in the same trace.
    fn again(&self) -> DumpPlace {
        DumpPlace { stream_instance: self.stream_instance + AGAIN_BEHIND, ..self.clone() }
    }

    /// Returns the id of the first event class, and the contexts, of records about state changes.
    fn of_changes(&self) -> ChangePlace {
        ChangePlace { first_id: self.first_id, contexts: self.contexts.clone() }
    }

    /// Returns the stream for the names of generated code.
    pub(super) fn of_names(&self) -> NamesPlace {
        NamesPlace {
            uuid: self.uuid,
            stream_id: self.stream_id,
            stream_instance: self.stream_instance + NAMES_BEHIND,
            first_id: self.first_id,
            contexts: self.contexts.clone(),
        }
    }

    /// Returns the header of a packet of changes in the time span `times`, with a body of `bytes`.
    fn header(&self, times: (u64, u64), bytes: u64) -> Header {
        let header = Header {
            uuid: self.uuid,
            stream_id: self.stream_id,
            stream_instance: self.stream_instance + CHANGES_BEHIND,
            timestamp_begin: times.0,
            timestamp_end: times.1,
            ..Header::default()
        };
        header.with_content_bytes(bytes)
    }
}

/// The most bytes of changes that are kept for a snapshot \[byte\].
const KEPT_BYTES: usize = 4 << 20;
/// The period of reading changes, unless a ring is full earlier.
const LOOK: Duration = Duration::from_millis(200);

/// Changes of the dumped state that are not written yet. In a flight recorder, the latest changes.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    records: VecDeque<MappedChange>,
    bytes: usize,
    packets: u64,
    /// Time from which all changes are known \[ns\].
    known_from: u64,
    /// Time at which the next packet begins \[ns\].
    from: u64,
    /// Number of changes that found no room: until now, and until the beginning of the present trace.
    discarded: u64,
    discarded_before: u64,
    /// Number of discarded changes that the last packet reported.
    told: u64,
}

/// The watcher of state changes, which reads them in a thread of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedChanges {
    pub(crate) changes: Arc<Mutex<Changes>>,
    /// The source of changes. It is locked before `changes`, so that the holder of the lock finds each change in
    /// exactly one of them.
    mapped: Arc<Mutex<Option<Mapped>>>,
    has_ended: Arc<AtomicBool>,
    /// Names of the code that processes generate at run time.
    pub(crate) names: Arc<WatchedNames>,
}

impl WatchedChanges {
    /// Creates the queue for the changes that `mapped` reports.
    pub(crate) fn new(mapped: Mapped) -> WatchedChanges {
        let known_from = mapped.known_from();
        let changes = Changes { known_from, from: known_from, ..Changes::default() };
        WatchedChanges {
            changes: Arc::new(Mutex::new(changes)),
            mapped: Arc::new(Mutex::new(Some(mapped))),
            has_ended: Arc::default(),
            names: Arc::default(),
        }
    }

    /// Sets the time at which the recording begins \[ns\].
    pub(crate) fn begin(&self, time: u64) {
        let mut changes = lock(&self.changes);
        changes.from = changes.from.max(time);
    }

    /// Reads changes until [`WatchedChanges::end`] is called. `holds`: true if only snapshots are written. Returns the
    /// number of changes that found no room.
    pub(crate) fn watch(&self, place: &ChangePlace, holds: bool) -> u64 {
        loop {
            let last = self.has_ended.load(Ordering::Acquire);
            let waiter = lock(&self.mapped).as_ref().map(Mapped::waiter);
            if let Some(waiter) = waiter.filter(|_| !last) {
                waiter.wait(LOOK);
            }
            self.look(place, holds, last);
            if last {
                return lock(&self.mapped).take().map_or(0, |mapped| mapped.discarded());
            }
        }
    }

    /// Takes the reported changes into the queue. `holds`: true to drop the oldest changes above a limit. `last`:
    /// true at the end of reading.
    pub(crate) fn look(&self, place: &ChangePlace, holds: bool, last: bool) {
        let mut held = lock(&self.mapped);
        let Some(mapped) = &mut *held else { return };
        let new = mapped.take(place, last);
        for change in &new {
            match (change.new, change.generated_by) {
                (New::Code { pid, .. }, Some(here)) => self.names.generates(here, pid),
                (New::Process { pid }, _) => self.names.replaced(pid),
                _ => {}
            }
        }
        let mut changes = lock(&self.changes);
        changes.add(new, mapped);
        while holds && changes.bytes > KEPT_BYTES {
            let Some(gone) = changes.records.pop_front() else { break };
            changes.bytes -= gone.record.len();
            changes.known_from = changes.known_from.max(gone.time);
            changes.from = changes.from.max(gone.time);
        }
    }

    /// Returns the changes since `time` \[ns\] that are not written yet.
    fn since(&self, time: u64, place: &DumpPlace) -> Vec<New> {
        let mut held = lock(&self.mapped);
        let new = held.as_mut().map(|mapped| mapped.so_far(&place.of_changes()));
        let new = new.unwrap_or_default();
        let changes = lock(&self.changes);
        let all = changes.records.iter().chain(&new);
        all.filter(|change| change.time >= time).map(|change| change.new).collect()
    }

    /// Ends the reading of changes.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Appends a packet with the changes since the last call. Returns the counts of what was written.
    ///
    /// # Errors
    /// The system's error on writing the file.
    pub(crate) fn append(&self, sink: &mut dyn Sink, place: &DumpPlace) -> Result<Counts, Error> {
        let mut changes = lock(&self.changes);
        let (from, discarded) = (changes.from, changes.discarded - changes.discarded_before);
        let (times, body, count) = match changes.body() {
            Some(((first, last), body, count)) => ((from.min(first), last), body, count),
            // An empty packet reports that nothing has changed, or that a change found no room.
            None if changes.packets == 0 || discarded > changes.told => {
                ((from, from), Vec::new(), 0)
            }
            None => return Ok(Counts::default()),
        };
        let bytes = body.len() as u64;
        let sequence = changes.packets;
        let header = Header { sequence, discarded, ..place.header(times, bytes) };
        // The stream number follows those of the CPUs and of the dump.
        let stream = u32::try_from(place.stream_instance + CHANGES_BEHIND).unwrap_or(u32::MAX);
        sink.append_counted(stream, header, &Body::Bytes(&body), count)?;
        changes.records.clear();
        changes.bytes = 0;
        changes.known_from = changes.known_from.max(times.1);
        changes.from = times.1;
        changes.told = discarded;
        changes.packets += 1;
        let bytes = HEADER_BYTES as u64 + bytes;
        Ok(Counts { records: count, packets: 1, bytes, span: Some(times), ..Counts::default() })
    }

    /// Completes the trace: packets and losses of the next trace are counted anew.
    pub(crate) fn cut(&self) {
        self.names.cut();
        let mut changes = lock(&self.changes);
        (changes.packets, changes.told) = (0, 0);
        changes.discarded_before = changes.discarded;
    }

    /// Writes all kept changes into a snapshot, which has the dump `place`. Returns the mappings before
    /// these changes.
    ///
    /// # Errors
    /// The system's error on writing the file.
    pub(crate) fn save(
        &self,
        sink: &mut dyn Sink,
        place: &DumpPlace,
        found: &[DumpedProcess],
        dump: &Dump,
    ) -> Result<MappedBefore, Error> {
        let mut held = lock(&self.mapped);
        let number = |pid| number_of(held.as_ref().and_then(Mapped::numbers), pid);
        let contexts = place.contexts.of_this_process(&number);
        let tid = number(std::process::id());
        // Changes that the thread has not read yet are included. Otherwise a program that has just begun would seem to
        // be older.
        let new = held.as_mut().map(|mapped| (mapped.so_far(&place.of_changes()), &*mapped));
        let mut kept = lock(&self.changes).copy();
        if let Some((new, mapped)) = new {
            kept.add(new, mapped);
        }
        drop(held);
        if let Some((times, body, _)) = kept.body() {
            let header = place.header(times, body.len() as u64);
            sink.set_stream(CHANGES_FILE, &header.encode(), &body)?;
        }
        let maps = mapped_before(found, kept.records.iter().map(|change| change.new));
        Ok(MappedBefore {
            maps: maps.into_iter().map(|(pid, map)| (pid, map.clone())).collect(),
            place: place.again(),
            contexts,
            tid,
            known_from: kept.known_from,
            first: kept.records.front().map_or(u64::MAX, |change| change.time),
            dumped: dump.header.timestamp_begin,
        })
    }
}

/// The mappings at the begin of a snapshot, before its changes. The dump in the snapshot has the mappings at the end.
#[derive(Debug)]
pub(crate) struct MappedBefore {
    maps: Vec<(i32, CodeMapping)>,
    place: DumpPlace,
    contexts: Vec<u8>,
    tid: u32,
    /// Time from which all changes are known \[ns\].
    known_from: u64,
    /// Time of the first change \[ns\].
    first: u64,
    /// Time of the dump in the snapshot \[ns\].
    dumped: u64,
}

impl MappedBefore {
    /// Writes the mappings as the state at the begin of the trace, whose packets begin at `from`. If the mappings are
    /// known only later, that later time is used.
    ///
    /// # Errors
    /// The system's error on writing the file.
    pub(crate) fn write(&self, sink: &mut dyn Sink, from: u64) -> Result<(), Error> {
        let at = from.min(self.first).max(self.known_from);
        if self.maps.is_empty() || at >= self.dumped {
            return Ok(());
        }
        let MappedBefore { contexts, tid, .. } = self;
        let first_id = self.place.first_id;
        let stamp = DumpStamp { now_ns: at, tid: *tid, contexts, first_id, is_later: false };
        let maps: Vec<_> = self.maps.iter().map(|(pid, map)| (*pid, map)).collect();
        let (body, _) = map_records(&maps, &stamp);
        let header = Header {
            uuid: self.place.uuid,
            stream_id: self.place.stream_id,
            stream_instance: self.place.stream_instance,
            timestamp_begin: at,
            timestamp_end: at,
            ..Header::default()
        };
        let header = header.with_content_bytes(body.len() as u64);
        sink.set_stream(AGAIN_FILE, &header.encode(), &body)
    }
}

impl Changes {
    fn add(&mut self, new: Vec<MappedChange>, mapped: &Mapped) {
        self.known_from = self.known_from.max(mapped.known_from());
        self.discarded = mapped.discarded();
        self.bytes += new.iter().map(|change| change.record.len()).sum::<usize>();
        self.records.extend(new);
    }

    fn copy(&self) -> Changes {
        Changes { records: self.records.clone(), ..*self }
    }

    /// Returns the times of the first and last change, their records, and their number; `None` if there is no change.
    fn body(&self) -> Option<((u64, u64), Vec<u8>, u64)> {
        let (first, last) = (self.records.front()?.time, self.records.back()?.time);
        let mut body = Vec::with_capacity(self.bytes);
        self.records.iter().for_each(|change| body.extend_from_slice(&change.record));
        Some(((first, last), body, self.records.len() as u64))
    }
}

impl Dump {
    /// Extends the time span of the dump's stream to that of the other streams.
    ///
    /// # Errors
    /// The system's error on writing the file.
    pub(crate) fn span(&self, sink: &mut dyn Sink, (begin, end): (u64, u64)) -> Result<(), Error> {
        if self.body.is_empty() {
            return Ok(());
        }
        let at = self.header.timestamp_begin;
        let begin = begin.clamp(at.saturating_sub(EARLIER_MAX), at);
        let header = Header { timestamp_begin: begin, timestamp_end: end.max(at), ..self.header };
        sink.set_stream(FILE, &header.encode(), &self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    use crate::output::describe::{new_uuid, of_kernel, stream_class, Machine};
    use strata_collect::{Directory, Files};
    use strata_ctf::environment::Whole;
    use strata_ctf::kernel_symbols;
    use strata_ctf::metadata::Version;
    use strata_ctf::read::{Message, Reader, TimeRange, Value};
    use strata_model::{Field, FieldClass, Integer, LossMode};

    /// Creates a trace of this name with the event classes of the dump. Returns its path, its output, and the identity
    /// of the dump.
    fn trace(name: &str) -> (PathBuf, Files, DumpPlace) {
        let path = std::env::temp_dir().join(format!("strata-{name}-{}", std::process::id()));
        let mut files = Files::new(Directory::create(&path).unwrap(), "channel0");
        let mut class = stream_class(of_kernel(), Vec::new());
        class.context = vec![Field::new("tid", FieldClass::Integer(Integer::unsigned(4)))];
        let first_id = describe(&mut class);
        let uuid = new_uuid().unwrap();
        let trace = Machine::new(LossMode::Discard, Version::One).kernel_trace(
            uuid,
            "",
            false,
            Whole::default(),
            class,
        );
        files.set_metadata(&strata_ctf::metadata::write(&trace)).unwrap();
        let place = DumpPlace {
            uuid,
            stream_id: 0,
            stream_instance: 2,
            first_id: first_id.start,
            contexts: Contexts::default(),
        };
        (path, files, place)
    }

    #[test]
    fn statedump_is_read_as_part_of_the_trace_and_has_this_process() {
        let (path, mut files, place) = trace("statedump");
        let ids = BuildIds::default();
        let symbols = Some(Arc::new(vec![1, 2, 3]));
        let wish = Wish {
            recorded: RecordedProcesses::Everyone,
            ids,
            symbols,
            has_code: true,
            ..Wish::default()
        };
        let dump = write(&mut files, &place, &wish, None).unwrap();
        assert_eq!(std::fs::read(path.join(kernel_symbols::FILE)).unwrap(), [1, 2, 3]);
        let (at, counts) = (dump.header.timestamp_begin, &dump.counts);
        // As it is where its stream is as long as the others: times stay what they are.
        dump.span(&mut files, (at - 2_000_000_000, at + 6_000_000_000)).unwrap();

        let reader = Reader::open(&[&path]).unwrap();
        let mut events = reader.events(TimeRange::ALL);
        let (mut found, mut me) = (0, false);
        while let Some(message) = events.next() {
            match message {
                Message::Event(event) => {
                    found += 1;
                    let pid = event.class().find("pid").and_then(|field| event.value(&field));
                    me |= pid == Some(Value::Signed(std::process::id().into()));
                }
                Message::Packet(_) => {}
                other => panic!("{other:?}"),
            }
        }
        std::fs::remove_dir_all(&path).unwrap();
        assert_eq!((found, me), (counts.records, true));
    }

    #[test]
    fn dump_says_nothing_of_code_that_has_changed_since_it_began() {
        let me = std::process::id();
        let maps = |new: Option<New>| {
            let (path, mut files, place) = trace("statedump-changed");
            let watched = WatchedChanges::default();
            // While /proc is read.
            let change = new.map(|new| MappedChange {
                time: u64::MAX,
                record: Vec::new(),
                new,
                generated_by: None,
            });
            lock(&watched.changes).records.extend(change);
            let wish =
                Wish { recorded: RecordedProcesses::Everyone, has_code: true, ..Wish::default() };
            write(&mut files, &place, &wish, Some(&watched)).unwrap();
            let reader = Reader::open(&[&path]).unwrap();
            let mut events = reader.events(TimeRange::ALL);
            let mut starts = Vec::new();
            while let Some(message) = events.next() {
                let Message::Event(event) = message else { continue };
                let of = |name| event.integer(&event.class().find(name)?);
                if event.class().name() == "lttng_statedump_vm_map" && of("pid") == Some(me.into())
                {
                    starts.extend(of("start").map(|start| start as u64));
                }
            }
            std::fs::remove_dir_all(&path).unwrap();
            starts
        };
        let pid = me as i32;
        let all = maps(None);
        let of_other = maps(Some(New::Process { pid: pid.wrapping_add(1) }));
        assert!(all.len() > 1 && of_other == all, "{all:?} {of_other:?}");
        assert_eq!(maps(Some(New::Process { pid })), [0; 0]);
        let (start, end) = (all[0], all[0] + 1);
        assert_eq!(maps(Some(New::Code { pid, start, end })), all[1..]);
    }

    #[test]
    fn stream_of_changes_says_since_when_it_is_complete_and_what_found_no_room() {
        let (path, mut files, place) = trace("statedump-watched");
        let watched = WatchedChanges::default();
        let add = |time, discarded| {
            let mut changes = lock(&watched.changes);
            let new = New::Process { pid: 7 };
            let record = vec![0; 8];
            changes.records.extend((time > 0).then_some(MappedChange {
                time,
                record,
                new,
                generated_by: None,
            }));
            changes.discarded = discarded;
        };
        lock(&watched.changes).from = 30;
        // It is watched from before recording begins.
        watched.begin(50);
        let mut written = Vec::new();
        for (time, discarded) in [(0, 0), (0, 0), (70, 0), (0, 0), (0, 2), (90, 2)] {
            add(time, discarded);
            written.push(watched.append(&mut files, &place).unwrap().packets);
        }
        assert_eq!(written, [1, 0, 1, 0, 1, 1]);
        let bytes = std::fs::read(path.join("channel0_3")).unwrap();
        let (mut at, mut packets) = (0, Vec::new());
        while at < bytes.len() {
            let word = |offset: usize| {
                let word = bytes[at + offset..at + offset + 8].try_into();
                u64::from_ne_bytes(word.unwrap())
            };
            // Begin, end, number and discarded ones.
            packets.push([32, 40, 64, 72].map(word));
            at += word(56) as usize / 8;
        }
        assert_eq!(packets, [[50, 50, 0, 0], [50, 70, 1, 0], [70, 70, 2, 2], [70, 90, 3, 2]]);
        // The next part says by itself that nothing has changed, and what found no room in it.
        watched.cut();
        assert_eq!(watched.append(&mut files, &place).unwrap().span, Some((90, 90)));
        assert_eq!(lock(&watched.changes).told, 0);
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn statedump_spans_what_the_others_do_as_far_as_its_times_reach() {
        let path = std::env::temp_dir().join(format!("strata-dump-span-{}", std::process::id()));
        let mut files = Files::new(Directory::create(&path).unwrap(), "channel0");
        let at = 10_000_000_000;
        let header = Header { timestamp_begin: at, timestamp_end: at, ..Header::default() };
        let dump = Dump {
            header: header.with_content_bytes(4),
            body: vec![1, 2, 3, 4],
            ..Dump::default()
        };
        for ((begin, end), wanted) in [
            ((at - 5, at + 7), (at - 5, at + 7)),
            // A record's time has 32 bits: no begin is earlier than they can say.
            ((0, at), (at - EARLIER_MAX, at)),
            // Others began and ended elsewhere: what is in the dump is in its span.
            ((at + 1, at + 2), (at, at + 2)),
            ((1, 2), (at - EARLIER_MAX, at)),
            ((u64::MAX, u64::MAX), (at, u64::MAX)),
        ] {
            dump.span(&mut files, (begin, end)).unwrap();
            let bytes = std::fs::read(path.join(FILE)).unwrap();
            let header = dump.header;
            let (timestamp_begin, timestamp_end) = wanted;
            let wanted = Header { timestamp_begin, timestamp_end, ..header };
            assert_eq!(bytes, [&wanted.encode()[..], &[1, 2, 3, 4]].concat(), "{begin} {end}");
        }
        // Without a dump there is no file.
        std::fs::remove_file(path.join(FILE)).unwrap();
        Dump::default().span(&mut files, (1, 2)).unwrap();
        assert!(!path.join(FILE).exists());
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn what_was_mapped_before_is_reported_at_the_begin_as_far_as_it_is_known() {
        let path = std::env::temp_dir().join(format!("strata-dump-before-{}", std::process::id()));
        let mut files = Files::new(Directory::create(&path).unwrap(), "channel0");
        let map = CodeMapping {
            start: 0x1000,
            end: 0x2000,
            offset: 0,
            inode: 1,
            path: b"/a".to_vec(),
            build_id: String::new(),
        };
        let place = DumpPlace {
            uuid: new_uuid().unwrap(),
            stream_id: 0,
            stream_instance: 4,
            first_id: 10,
            contexts: Contexts::default(),
        };
        // The begin, the first change, since when all are known, the dump.
        for (times, wanted) in [
            ([50, 70, 10, 90], Some(50)),
            ([50, u64::MAX, 10, 90], Some(50)),
            // A change before the first packet may be a fork of who is said here.
            ([50, 40, 10, 90], Some(40)),
            ([50, 70, 60, 90], Some(60)),
            // Changes were discarded: nothing is known of what was before the dump.
            ([50, 70, 90, 90], None),
            ([50, 70, 95, 90], None),
        ] {
            let [from, first, known_from, dumped] = times;
            let maps = vec![(7, map.clone())];
            let before = MappedBefore {
                maps,
                place: place.clone(),
                contexts: Vec::new(),
                tid: 1,
                known_from,
                first,
                dumped,
            };
            before.write(&mut files, from).unwrap();
            let file = path.join(AGAIN_FILE);
            let found = std::fs::read(&file).ok();
            assert_eq!(found.is_some(), wanted.is_some(), "{from} {first} {known_from}");
            if let (Some(found), Some(at)) = (found, wanted) {
                let header = Header {
                    uuid: place.uuid,
                    stream_instance: 4,
                    timestamp_begin: at,
                    timestamp_end: at,
                    ..Header::default()
                };
                let bytes = (found.len() - HEADER_BYTES) as u64;
                assert!(found.starts_with(&header.with_content_bytes(bytes).encode()));
                assert!(found.windows(3).any(|it| it == b"/a\0"));
                std::fs::remove_file(&file).unwrap();
            }
        }
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn kinds_of_the_dump_have_ids_behind_all_others() {
        let mut class = stream_class(of_kernel(), Vec::new());
        assert_eq!(describe(&mut class).start, 0);
        let of_dump = class.events.len();
        // A second time: behind those.
        assert_eq!(describe(&mut class), of_dump as u32..2 * of_dump as u32);
        let mut ids: Vec<u32> = class.events.iter().map(|event| event.id).collect();
        ids.dedup();
        assert_eq!(ids, (0..2 * of_dump as u32).collect::<Vec<_>>());
    }
}
