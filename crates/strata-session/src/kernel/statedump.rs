//! What runs on the machine when the kernel's layer begins, as a stream of its own in its trace: readers name
//! threads by it that did not begin while it was recorded. And, as another one, what of it changes: code that is mapped.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use strata_collect::{Body, Error, Sink};
use strata_ctf::packet::{Header, HEADER_BYTES};
use strata_kernel::mapped::{map_records, mapped_before, Change, Mapped, Place};
use strata_kernel::statedump::{
    event_classes, numbers_of_processes, process, records, BuildIds, Machine, Mapping, Process,
    Stamp,
};
use strata_kernel::{number_of, Contexts, Numbers, Whom};
use strata_model::{StreamClass, Uuid};
use strata_user::ask_each;

use crate::report::Counts;
use crate::session::lock::lock;

/// The stream's file.
pub(crate) const FILE: &str = "statedump_0";
/// That of a second one in the same trace, where more is said than at its begin; in a snapshot, of what was before.
const AGAIN_FILE: &str = "statedump_2";
/// That of what changes, where it is written as a whole: in a snapshot.
const CHANGES_FILE: &str = "statedump_1";

/// Adds the kinds of records of the dump; their ids.
pub(crate) fn describe(class: &mut StreamClass) -> Range<u32> {
    let first_id = class.events.iter().map(|event| event.id + 1).max().unwrap_or(0);
    let kinds = event_classes(first_id);
    let ids = first_id..first_id + kinds.len() as u32;
    class.events.extend(kinds);
    ids
}

/// Which trace, and how its stream is told from others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DumpPlace {
    pub(crate) uuid: Uuid,
    pub(crate) stream_id: u32,
    pub(crate) stream_instance: u64,
    pub(crate) first_id: u32,
    pub(crate) contexts: Contexts,
}

/// What is wanted of a dump besides the threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    /// Of whom is said what he holds.
    pub(crate) whom: Whom,
    /// Build ids that are known.
    pub(crate) ids: BuildIds,
    /// What the kernel calls those whom /proc names.
    pub(crate) numbers: Option<Arc<Numbers>>,
    /// Names of the kernel's functions, as a file has them.
    pub(crate) symbols: Option<Arc<Vec<u8>>>,
    /// It is asked what addresses of code mean.
    pub(crate) has_code: bool,
}

/// What is said of those who are recorded; more of it once records have call stacks.
#[derive(Debug, Default)]
pub(crate) struct Around {
    pub(crate) wish: Wish,
    /// What of it changes, if that is said.
    pub(crate) watched: Option<Watched>,
    /// More is said than a trace has begun with.
    pub(crate) is_new: bool,
}

/// What was written.
#[derive(Debug, Default)]
pub(crate) struct Dump {
    header: Header,
    body: Vec<u8>,
    pub(crate) counts: Counts,
}

/// A record's time has 32 bits, and is at most so much later than its packet's begin \[ns\].
const EARLIER_MAX: u64 = 1 << 31;

/// Looks at all threads, and writes them.
///
/// # Errors
/// What the system says of the file.
pub(crate) fn write(sink: &mut dyn Sink, place: &DumpPlace, wish: &Wish) -> Result<Dump, Error> {
    write_found(sink, place, wish).map(|(dump, _)| dump)
}

/// The same, with what was found.
///
/// # Errors
/// What the system says of the file.
pub(crate) fn write_found(
    sink: &mut dyn Sink,
    place: &DumpPlace,
    wish: &Wish,
) -> Result<(Dump, Vec<Process>), Error> {
    write_to(FILE, sink, place, wish)
}

/// The same, in a trace that has one.
///
/// # Errors
/// What the system says of the file.
pub(crate) fn write_again(
    sink: &mut dyn Sink,
    place: &DumpPlace,
    wish: &Wish,
) -> Result<Counts, Error> {
    // Behind what changes.
    write_to(AGAIN_FILE, sink, &place.again(), wish).map(|(dump, _)| dump.counts)
}

fn write_to(
    file: &str,
    sink: &mut dyn Sink,
    place: &DumpPlace,
    wish: &Wish,
) -> Result<(Dump, Vec<Process>), Error> {
    if let Some(symbols) = &wish.symbols {
        sink.set_symbols(symbols)?;
    }
    // Before /proc is read: what happens meanwhile comes behind it.
    let now_ns = strata_user::Clock::monotonic_ns();
    let root = Path::new("/");
    // Who is held in execve() is not in it: the kernel does not say more than its name.
    let (ids, whom) = (Arc::clone(&wish.ids), wish.whom.look());
    let (numbers, numbers_there) = (wish.numbers.as_deref(), wish.numbers.clone());
    if let Some(numbers) = numbers {
        numbers.walk();
    }
    let found = ask_each(&numbers_of_processes(root), move |pid| {
        let numbers = numbers_there.as_deref();
        let is_recorded = whom.is(number_of(numbers, pid));
        let found = process(root, pid, is_recorded.then_some(&ids))?;
        match numbers {
            Some(numbers) => found.renumbered(numbers.level(), &|here| numbers.of(here)),
            None => Some(found),
        }
    });
    let found: Vec<_> = found.into_iter().map(|(_, found)| found).collect();
    let contexts = &place.contexts.of_this_process(&|pid| number_of(numbers, pid));
    let tid = number_of(numbers, std::process::id());
    let stamp = Stamp { now_ns, tid, contexts, first_id: place.first_id, is_later: false };
    let (body, count) = records(&found, Some(&Machine::read(root)), &stamp);
    let header = Header {
        uuid: place.uuid,
        stream_id: place.stream_id,
        stream_instance: place.stream_instance,
        timestamp_begin: now_ns,
        timestamp_end: now_ns,
        ..Header::default()
    };
    let header = header.with_content_bytes(body.len() as u64);
    sink.set_stream(file, &header.encode(), &body)?;
    let counts = Counts {
        records: count,
        packets: 1,
        bytes: (HEADER_BYTES + body.len()) as u64,
        span: Some((now_ns, now_ns)),
        ..Counts::default()
    };
    Ok((Dump { header, body, counts }, found))
}

impl DumpPlace {
    /// That of a second dump.
    fn again(&self) -> DumpPlace {
        DumpPlace { stream_instance: self.stream_instance + 2, ..*self }
    }

    /// The header of a packet with records of these times.
    fn header(&self, times: (u64, u64), bytes: u64) -> Header {
        let header = Header {
            uuid: self.uuid,
            stream_id: self.stream_id,
            stream_instance: self.stream_instance + 1,
            timestamp_begin: times.0,
            timestamp_end: times.1,
            ..Header::default()
        };
        header.with_content_bytes(bytes)
    }
}

/// Of what changes so much is kept for a snapshot \[byte\].
const KEPT_BYTES: usize = 4 << 20;
/// So often it is looked for, if no ring is full before.
const LOOK: Duration = Duration::from_millis(200);

/// What has changed and is not written yet; of a flight recorder, the last of it.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    records: VecDeque<Change>,
    bytes: usize,
    packets: u64,
    /// Since then all of them are there \[ns\].
    known_from: u64,
}

/// Reads what changes, in a thread of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    pub(crate) changes: Arc<Mutex<Changes>>,
    /// Locked before `changes`: who has it sees each change in one of them.
    mapped: Arc<Mutex<Option<Mapped>>>,
    has_ended: Arc<AtomicBool>,
}

impl Watched {
    /// Until [`Watched::end`]. `holds`: nothing is written but snapshots. Returns how many changes found no room.
    pub(crate) fn watch(&self, mapped: Mapped, place: Place, holds: bool) -> u64 {
        let mut waiter = mapped.waiter();
        *lock(&self.mapped) = Some(mapped);
        loop {
            let last = self.has_ended.load(Ordering::Acquire);
            if !last {
                waiter.wait(LOOK);
            }
            let mut held = lock(&self.mapped);
            let Some(mapped) = &mut *held else { return 0 };
            let new = mapped.take(place, last);
            let mut changes = lock(&self.changes);
            changes.add(new, mapped);
            while holds && changes.bytes > KEPT_BYTES {
                let Some(gone) = changes.records.pop_front() else { break };
                changes.bytes -= gone.record.len();
                changes.known_from = changes.known_from.max(gone.time);
            }
            drop(changes);
            if last {
                return held.take().map_or(0, |mapped| mapped.discarded());
            }
            waiter = mapped.waiter();
        }
    }

    /// Nothing more is recorded.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Appends what has changed since the last time. What was written.
    ///
    /// # Errors
    /// What the system says of the file.
    pub(crate) fn append(&self, sink: &mut dyn Sink, place: &DumpPlace) -> Result<Counts, Error> {
        let mut changes = lock(&self.changes);
        let Some((times, body, count)) = changes.body() else { return Ok(Counts::default()) };
        let bytes = body.len() as u64;
        let sequence = changes.packets;
        let header = Header { sequence, ..place.header(times, bytes) };
        // Behind the streams of the CPUs and the dump's.
        let stream = u32::try_from(place.stream_instance + 1).unwrap_or(u32::MAX);
        sink.append(stream, header, &Body::Bytes(&body))?;
        changes.records.clear();
        changes.bytes = 0;
        changes.known_from = changes.known_from.max(times.1);
        changes.packets += 1;
        let bytes = HEADER_BYTES as u64 + bytes;
        Ok(Counts { records: count, packets: 1, bytes, span: Some(times), ..Counts::default() })
    }

    /// The trace is complete: its next one has packets of its own.
    pub(crate) fn cut(&self) {
        lock(&self.changes).packets = 0;
    }

    /// All that is kept, for a snapshot in which there is this dump, of what was found then; and what was before.
    ///
    /// # Errors
    /// What the system says of the file.
    pub(crate) fn save(
        &self,
        sink: &mut dyn Sink,
        place: &DumpPlace,
        found: &[Process],
        dump: &Dump,
    ) -> Result<Before, Error> {
        let mut held = lock(&self.mapped);
        let number = |pid| number_of(held.as_ref().and_then(Mapped::numbers), pid);
        let contexts = place.contexts.of_this_process(&number);
        let tid = number(std::process::id());
        let of_changes = Place { first_id: place.first_id, contexts: place.contexts };
        // What the thread has not looked at yet, too: or a program that has just begun is taken for what was there before.
        let new = held.as_mut().map(|mapped| (mapped.so_far(of_changes), &*mapped));
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
        Ok(Before {
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

/// What processes had mapped before all changes that are in a snapshot: what its dump says is of its end.
#[derive(Debug)]
pub(crate) struct Before {
    maps: Vec<(i32, Mapping)>,
    place: DumpPlace,
    contexts: Vec<u8>,
    tid: u32,
    /// Since then all changes are there \[ns\].
    known_from: u64,
    /// Of the first change.
    first: u64,
    /// When they were looked at.
    dumped: u64,
}

impl Before {
    /// Says it at the begin of a trace whose packets begin `from` then, as far as it is known.
    ///
    /// # Errors
    /// What the system says of the file.
    pub(crate) fn write(&self, sink: &mut dyn Sink, from: u64) -> Result<(), Error> {
        let at = from.min(self.first).max(self.known_from);
        if self.maps.is_empty() || at >= self.dumped {
            return Ok(());
        }
        let Before { contexts, tid, .. } = self;
        let first_id = self.place.first_id;
        let stamp = Stamp { now_ns: at, tid: *tid, contexts, first_id, is_later: false };
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
    fn add(&mut self, new: Vec<Change>, mapped: &Mapped) {
        self.known_from = self.known_from.max(mapped.known_from());
        self.bytes += new.iter().map(|change| change.record.len()).sum::<usize>();
        self.records.extend(new);
    }

    fn copy(&self) -> Changes {
        Changes { records: self.records.clone(), ..*self }
    }

    /// Times, records, and how many.
    fn body(&self) -> Option<((u64, u64), Vec<u8>, u64)> {
        let (first, last) = (self.records.front()?.time, self.records.back()?.time);
        let mut body = Vec::with_capacity(self.bytes);
        self.records.iter().for_each(|change| body.extend_from_slice(&change.record));
        Some(((first, last), body, self.records.len() as u64))
    }
}

impl Dump {
    /// Its stream spans this, as the others do.
    ///
    /// # Errors
    /// What the system says of the file.
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
    use crate::output::describe::{new_uuid, of_kernel, stream_class, Machine};
    use strata_collect::{Directory, Files};
    use strata_ctf::environment::Whole;
    use strata_ctf::kernel_symbols;
    use strata_ctf::metadata::Version;
    use strata_ctf::read::{Message, Reader, TimeRange, Value};
    use strata_model::{Field, FieldClass, Integer, LossMode};

    #[test]
    fn statedump_is_read_as_part_of_the_trace_and_has_this_process() {
        let path = std::env::temp_dir().join(format!("strata-statedump-{}", std::process::id()));
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
        let ids = BuildIds::default();
        let symbols = Some(Arc::new(vec![1, 2, 3]));
        let wish = Wish { whom: Whom::Everyone, ids, symbols, has_code: true, ..Wish::default() };
        let dump = write(&mut files, &place, &wish).unwrap();
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
    fn what_was_mapped_before_is_said_at_the_begin_as_far_as_it_is_known() {
        let path = std::env::temp_dir().join(format!("strata-dump-before-{}", std::process::id()));
        let mut files = Files::new(Directory::create(&path).unwrap(), "channel0");
        let map = Mapping {
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
            let before =
                Before { maps, place, contexts: Vec::new(), tid: 1, known_from, first, dumped };
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
