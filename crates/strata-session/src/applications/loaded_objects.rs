//! Writes which objects a process has loaded, as a separate stream, from which readers can name addresses of code. It
//! is written if records have such addresses, and consists of LTTng's events, which babeltrace2 understands.

use strata_collect::{Counts, Error, Sink};
use strata_ctf::packet::{Header, HEADER_BYTES};
use strata_model::{
    Base, Element, EventClass, Field, FieldClass, Integer, RecordHeader, Sequence, StreamClass,
    Uuid,
};
use strata_user::{LoadedObject, RecordFormat};

/// Name of the file of the stream that describes loaded objects.
pub(crate) const FILE: &str = "objects_0";
/// Id of the class of the stream that describes loaded objects. The class of the program's own stream has the id 0.
const STREAM: u32 = 1;

/// Names of contexts that contain addresses of code.
const CONTEXTS: [&str; 2] = ["ip", "callstack_user"];
const FIELDS: [&str; 2] = ["caller", "call_site"];

/// Id in a record's header which means that the full id and time follow.
const EXTENDED: u16 = u16::MAX;

/// Returns whether records have addresses of code.
pub(crate) fn has_code(format: &RecordFormat, events: impl Iterator<Item = EventClass>) -> bool {
    let is_one = |field: &Field| match field.class {
        FieldClass::Integer(Integer { base: Base::Sixteen, bytes: 8, .. }) => {
            FIELDS.contains(&&*field.name)
        }
        _ => false,
    };
    format.contexts.iter().any(|context| CONTEXTS.contains(&context.name))
        || events.flat_map(|event| event.fields).any(|field| is_one(&field))
}

/// The kind of a record. Its discriminant is the id of the event class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum ObjectRecordKind {
    Start,
    BinInfo,
    BuildId,
    End,
    Load,
    LoadBuildId,
    Unload,
}

/// Returns the class of the stream that describes loaded objects.
pub(crate) fn stream_class() -> StreamClass {
    let number =
        |name: &str, bytes| Field::new(name, FieldClass::Integer(Integer::unsigned(bytes)));
    let word = Integer { base: Base::Sixteen, ..Integer::unsigned(8) };
    let address = || Field::new("baddr", FieldClass::Integer(word));
    let build_id = || {
        let byte = Integer { base: Base::Sixteen, ..Integer::unsigned(1) };
        let bytes = Sequence { element: Element::Integer(byte), length_bytes: 1 };
        Field::new("build_id", FieldClass::Sequence(bytes))
    };
    let path = || Field::new("path", FieldClass::String);
    let has = || [number("has_build_id", 1), number("has_debug_link", 1)];
    let bin_info = [address(), number("memsz", 8), path(), number("is_pic", 1)];
    let load = [address(), number("memsz", 8), path()];
    // The order is that of `ObjectRecordKind`.
    let kinds: [(&str, &str, Vec<Field>); 7] = [
        ("lttng_ust_statedump", "start", Vec::new()),
        ("lttng_ust_statedump", "bin_info", bin_info.into_iter().chain(has()).collect()),
        ("lttng_ust_statedump", "build_id", vec![address(), build_id()]),
        ("lttng_ust_statedump", "end", Vec::new()),
        ("lttng_ust_lib", "load", load.into_iter().chain(has()).collect()),
        ("lttng_ust_lib", "build_id", vec![address(), build_id()]),
        ("lttng_ust_lib", "unload", vec![address()]),
    ];
    let event = |(id, (provider, name, fields)): (u32, (&str, &str, Vec<Field>))| EventClass {
        id,
        provider: provider.to_owned(),
        name: name.to_owned(),
        fields,
        ..EventClass::default()
    };
    StreamClass {
        id: STREAM,
        name: "objects".to_owned(),
        header: RecordHeader::Large,
        // babeltrace2 accepts only records with both fields, although the address is not needed.
        context: vec![
            Field::new("vpid", FieldClass::Integer(Integer::signed(4))),
            Field::new("ip", FieldClass::Integer(word)),
        ],
        events: (0..).zip(kinds).map(event).collect(),
    }
}

/// Identity of the trace to which the records belong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectTrace {
    pub(crate) uuid: Uuid,
    pub(crate) vpid: u32,
}

/// Writes the objects that were loaded at the time `begin`, and the changes until `now`. Replaces the objects that
/// were written before.
///
/// # Errors
/// The system's error on writing the file.
pub(crate) fn write(
    sink: &mut dyn Sink,
    place: ObjectTrace,
    objects: &[LoadedObject],
    (begin, now): (u64, u64),
) -> Result<Counts, Error> {
    let ObjectRecords { body, count, last } = records(place.vpid, objects, (begin, now));
    let header = Header {
        uuid: place.uuid,
        stream_id: STREAM,
        timestamp_begin: begin,
        timestamp_end: last,
        ..Header::default()
    };
    let header = header.with_content_bytes(body.len() as u64);
    sink.set_stream(FILE, &header.encode(), &body)?;
    Ok(Counts {
        records: count,
        packets: 1,
        bytes: (HEADER_BYTES + body.len()) as u64,
        span: Some((begin, last)),
        ..Counts::default()
    })
}

struct ObjectRecords {
    body: Vec<u8>,
    count: u64,
    /// The time of the last record.
    last: u64,
}

fn records(vpid: u32, objects: &[LoadedObject], (begin, now): (u64, u64)) -> ObjectRecords {
    let mut out = ObjectWriter { body: Vec::new(), count: 0, vpid };
    out.record(ObjectRecordKind::Start, begin);
    let is_first = |object: &LoadedObject| {
        object.loaded_ns <= begin && object.unloaded_ns.is_none_or(|gone| gone > begin)
    };
    for object in objects.iter().filter(|object| is_first(object)) {
        out.loaded(ObjectRecordKind::BinInfo, begin, object);
    }
    out.record(ObjectRecordKind::End, begin);
    // At equal times, unloaded objects come first, to make room for loaded ones.
    let came = objects.iter().filter(|object| object.loaded_ns > begin);
    let went = objects.iter().filter_map(|object| Some((object.unloaded_ns?, object)));
    let went = went.filter(|(gone, object)| *gone > begin && object.loaded_ns < *gone);
    let mut changes: Vec<_> = came.map(|object| (object.loaded_ns, true, object)).collect();
    changes.extend(went.map(|(gone, object)| (gone, false, object)));
    changes.retain(|(time, ..)| *time <= now);
    changes.sort_by_key(|(time, is_load, _)| (*time, *is_load));
    for (time, is_load, object) in &changes {
        match is_load {
            true => out.loaded(ObjectRecordKind::Load, *time, object),
            false => {
                out.record(ObjectRecordKind::Unload, *time);
                out.body.extend(object.address.to_ne_bytes());
            }
        }
    }
    let last = changes.last().map_or(begin, |(time, ..)| *time);
    ObjectRecords { body: out.body, count: out.count, last }
}

struct ObjectWriter {
    body: Vec<u8>,
    count: u64,
    vpid: u32,
}

impl ObjectWriter {
    /// Appends a record header in the "large" form of CTF, and the context of the record.
    fn record(&mut self, kind: ObjectRecordKind, time: u64) {
        self.body.extend(EXTENDED.to_ne_bytes());
        self.body.extend((kind as u32).to_ne_bytes());
        self.body.extend(time.to_ne_bytes());
        self.body.extend(self.vpid.to_ne_bytes());
        self.body.extend(0u64.to_ne_bytes());
        self.count += 1;
    }

    fn loaded(&mut self, kind: ObjectRecordKind, time: u64, object: &LoadedObject) {
        self.record(kind, time);
        self.body.extend(object.address.to_ne_bytes());
        self.body.extend(object.bytes.to_ne_bytes());
        self.body.extend(&object.path);
        self.body.push(0);
        if kind == ObjectRecordKind::BinInfo {
            self.body.push(object.is_pic.into());
        }
        let build_id = object.build_id.get(..255).unwrap_or(&object.build_id);
        // The file itself names the place of separate debug information.
        self.body.extend([u8::from(!build_id.is_empty()), 0]);
        if build_id.is_empty() {
            return;
        }
        let of = match kind {
            ObjectRecordKind::BinInfo => ObjectRecordKind::BuildId,
            _ => ObjectRecordKind::LoadBuildId,
        };
        self.record(of, time);
        self.body.extend(object.address.to_ne_bytes());
        self.body.push(build_id.len() as u8);
        self.body.extend(build_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_ctf::packet_records::RecordScanner;
    use strata_model::ByteOrder;

    fn object(address: u64, loaded_ns: u64, unloaded_ns: Option<u64>) -> LoadedObject {
        LoadedObject {
            address,
            bytes: 0x1000,
            is_pic: true,
            loaded_ns,
            unloaded_ns,
            path: b"/lib/a".to_vec(),
            build_id: vec![7; 20],
        }
    }

    /// Returns the time and the class of each record, as a reader sees them.
    fn told(objects: &[LoadedObject], span: (u64, u64)) -> Vec<(u64, u32)> {
        let ObjectRecords { body, count, last } = records(9, objects, span);
        let scanner = RecordScanner::new(&stream_class(), ByteOrder::NATIVE).unwrap();
        let found: Vec<_> = scanner.records(&body, span.0).map(Result::unwrap).collect();
        let found: Vec<_> = found.iter().map(|record| (record.timestamp, record.id)).collect();
        assert_eq!(found.len() as u64, count);
        assert_eq!(found.last().unwrap().0, last);
        found
    }

    #[test]
    fn objects_are_those_of_the_begin_and_then_what_comes_and_goes_in_order() {
        let objects = [
            object(0x1000, 5, None),
            // Gone before, gone later, come later, come and gone, and what cannot be.
            object(0x2000, 5, Some(9)),
            object(0x3000, 5, Some(12)),
            object(0x3000, 12, None),
            object(0x5000, 14, Some(16)),
            object(0x6000, 99, None),
            object(0x7000, 15, Some(13)),
        ];
        let [start, bin_info, build_id, end] = [0, 1, 2, 3].map(|id| (10, id));
        let expected = [
            vec![start, bin_info, build_id, bin_info, build_id, end],
            vec![(12, 6), (12, 4), (12, 5), (14, 4), (14, 5), (15, 4), (15, 5), (16, 6)],
        ];
        assert_eq!(told(&objects, (10, 20)), expected.concat());
        assert_eq!(told(&[], (10, 20)), [start, end]);
    }

    #[test]
    fn objects_are_reported_where_records_have_addresses_of_code() {
        let format = |contexts: &[&str]| RecordFormat {
            contexts: strata_user::EventContexts::parse(contexts).unwrap(),
            ..RecordFormat::default()
        };
        let event = |field: Field| EventClass {
            provider: "p".into(),
            name: "e".into(),
            fields: vec![field],
            ..EventClass::default()
        };
        let none = || std::iter::empty();
        assert!(!has_code(&format(&["vpid"]), none()));
        assert!(has_code(&format(&["vpid", "ip"]), none()));
        assert!(has_code(&format(&["callstack_user"]), none()));
        let address = Integer { base: Base::Sixteen, ..Integer::unsigned(8) };
        let caller = |integer| event(Field::new("caller", FieldClass::Integer(integer)));
        assert!(has_code(&format(&[]), [caller(address)].into_iter()));
        assert!(!has_code(&format(&[]), [caller(Integer::unsigned(8))].into_iter()));
    }
}
