//! What runs on the machine when the kernel's layer begins, as a stream of its own in its trace: readers name
//! threads by it that did not begin while it was recorded.

use std::ops::Range;
use std::path::Path;

use strata_collect::{Error, Sink};
use strata_ctf::packet::{Header, HEADER_BYTES};
use strata_kernel::statedump::{
    event_classes, numbers_of_processes, process, records, states, Stamp,
};
use strata_kernel::Contexts;
use strata_model::{StreamClass, Uuid};
use strata_user::ask_each;

use crate::report::Counts;

/// The stream's file.
pub(crate) const FILE: &str = "statedump_0";

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
pub(crate) struct Place {
    pub(crate) uuid: Uuid,
    pub(crate) stream_id: u32,
    pub(crate) stream_instance: u64,
    pub(crate) first_id: u32,
    pub(crate) contexts: Contexts,
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
pub(crate) fn write(sink: &mut dyn Sink, place: &Place) -> Result<Dump, Error> {
    // Before /proc is read: what happens meanwhile comes behind it.
    let now_ns = strata_user::Clock::monotonic_ns();
    let root = Path::new("/");
    // Who is held in execve() is not in it: the kernel does not say more than its name.
    let found = ask_each(&numbers_of_processes(root), move |pid| process(root, pid));
    let states = states(found.into_iter().map(|(_, found)| found).collect());
    let contexts = &place.contexts.of_this_process();
    let stamp = Stamp { now_ns, tid: std::process::id(), contexts, first_id: place.first_id };
    let body = records(&states, &stamp);
    let header = Header {
        uuid: place.uuid,
        stream_id: place.stream_id,
        stream_instance: place.stream_instance,
        timestamp_begin: now_ns,
        timestamp_end: now_ns,
        ..Header::default()
    };
    let header = header.with_content_bytes(body.len() as u64);
    sink.set_stream(FILE, &header.encode(), &body)?;
    let counts = Counts {
        records: states.len() as u64 + 2,
        packets: 1,
        bytes: (HEADER_BYTES + body.len()) as u64,
        span: Some((now_ns, now_ns)),
        ..Counts::default()
    };
    Ok(Dump { header, body, counts })
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
    use crate::describe::{new_uuid, of_kernel, stream_class, Machine};
    use strata_collect::{Directory, Files};
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
        let trace =
            Machine::new(LossMode::Discard, Version::One).kernel_trace(uuid, "", false, class);
        files.set_metadata(&strata_ctf::metadata::write(&trace)).unwrap();
        let place = Place {
            uuid,
            stream_id: 0,
            stream_instance: 2,
            first_id: first_id.start,
            contexts: Contexts::default(),
        };
        let dump = write(&mut files, &place).unwrap();
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
