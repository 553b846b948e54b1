//! A stream class whose records have an event context: what was written is what is read back, by this
//! crate and by babeltrace2.

use crate::support::*;
use std::path::Path;
use strata_ctf::packet_records::RecordScanner;
use strata_ctf::read::{Message, Reader, Scope, TimeRange, Value};
use strata_model::{Element, Field, FieldClass, Integer, RecordHeader, Trace};

const HEADERS: [RecordHeader; 2] = [RecordHeader::Compact, RecordHeader::Large];

/// Describes a trace like the kernel's, whose context is only the thread's id.
fn kernel(header: RecordHeader) -> Trace {
    let mut described = trace(
        header,
        vec![
            event(0, "switch", vec![u64_field("next_tid"), Field::new("comm", FieldClass::String)]),
            event(7, "empty", vec![]),
            // The same name in the payload: they are told apart.
            event(300, "tid", vec![integer("tid", Integer::signed(4))]),
        ],
    );
    described.streams[0].context = vec![integer("tid", Integer::unsigned(4))];
    described
}

/// Returns each record's class, context and payload; the timestamps are 1000, 1001, ...
fn kernel_records() -> Vec<(u32, u32, Vec<u8>)> {
    let switch = |next: u64, comm: &[u8]| [&next.to_ne_bytes()[..], comm, b"\0"].concat();
    vec![
        (0, 17, switch(18, b"bash")),
        (7, 18, vec![]),
        (300, 4_000_000_000, (-5i32).to_ne_bytes().to_vec()),
        (0, 0, switch(u64::MAX, b"")),
    ]
}

/// A folder with the trace, whose records are these.
fn written(described: &Trace, records: &[Vec<u8>]) -> Folder {
    let mut packets = Packets::default();
    let (first, second) = records.split_at(records.len() / 2);
    packets.add(span(1000, 1100), first, 3);
    packets.add(span(1100, 1200), second, 0);
    let folder = Folder::new();
    write_trace(folder.path(), described, &[("channel0_0", &packets)]);
    folder
}

fn bytes(header: RecordHeader) -> Vec<Vec<u8>> {
    let times = (1000..1002).chain(1100..);
    kernel_records()
        .iter()
        .zip(times)
        .map(|((id, tid, payload), time)| {
            let body = [&tid.to_ne_bytes()[..], payload].concat();
            record(header, *id, time, time % 2 == 1, &body)
        })
        .collect()
}

/// Reads a trace and returns each record as `NAME: CONTEXT / PAYLOAD`.
fn read(folder: &Path) -> Vec<String> {
    let reader = Reader::open(&[folder]).unwrap();
    assert!(reader.damage().is_empty());
    let mut found = Vec::new();
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        let event = match message {
            Message::Event(event) => event,
            Message::Packet(_) => continue,
            other => panic!("{other:?}"),
        };
        let part = |scope| {
            let class = event.class();
            let fields = class.fields(scope).map(|field| {
                let name = field.name.clone();
                let found = class.find_in(scope, &name).unwrap();
                let value = event.value(&found).unwrap();
                let wanted = match value {
                    Value::Unsigned(number) => Some(number as i64),
                    Value::Signed(number) => Some(number),
                    _ => None,
                };
                assert_eq!(event.integer(&found), wanted, "{name}");
                match value {
                    Value::Unsigned(number) => format!("{name}={number}"),
                    Value::Signed(number) => format!("{name}={number}"),
                    Value::Text(text) => format!("{name}={}", String::from_utf8_lossy(text)),
                    other => panic!("{name}: {other:?}"),
                }
            });
            fields.collect::<Vec<_>>().join(" ")
        };
        let time = event.time().unwrap();
        let (context, payload) = (part(Scope::CommonContext), part(Scope::Payload));
        found.push(format!("{time} {}: {context} / {payload}", event.class().name()));
    }
    found
}

#[test]
fn context_of_every_record_is_read_back_by_both_readers() {
    for header in HEADERS {
        let folder = written(&kernel(header), &bytes(header));
        assert_eq!(
            read(folder.path()),
            [
                "1000 p:switch: tid=17 / next_tid=18 comm=bash",
                "1001 p:empty: tid=18 / ",
                "1100 p:tid: tid=4000000000 / tid=-5",
                "1101 p:switch: tid=0 / next_tid=18446744073709551615 comm=",
            ]
        );
        let Some(lines) = pretty(folder.path()) else { return };
        let expected = [
            "[00000000000000001000] p:switch: { cpu_id = 0 }, { tid = 17 }, \
             { next_tid = 18, comm = \"bash\" }",
            "[00000000000000001001] p:empty: { cpu_id = 0 }, { tid = 18 }, { }",
            "[00000000000000001100] p:tid: { cpu_id = 0 }, { tid = 4000000000 }, { tid = -5 }",
            "[00000000000000001101] p:switch: { cpu_id = 0 }, { tid = 0 }, \
             { next_tid = 18446744073709551615, comm = \"\" }",
        ];
        assert_eq!(lines, expected);
    }
}

#[test]
fn context_with_texts_and_odd_names_is_read_back_by_both_readers() {
    let header = RecordHeader::Large;
    // `string` is a word of TSDL, and so is `_x_length` a name that is taken.
    let mut described = trace(header, vec![event(0, "e", vec![sequence("x", Element::Text, 2)])]);
    described.streams[0].context = vec![
        sequence("x", Element::Text, 1),
        Field::new("string", FieldClass::String),
        array("comm", Element::Text, 4),
    ];
    let texts = |context: &[u8], string: &[u8], comm: &[u8; 4], payload: &[u8]| {
        let length = (payload.len() as u16).to_ne_bytes();
        let body = [&[context.len() as u8][..], context, string, b"\0", comm, &length, payload];
        record(header, 0, 1000, false, &body.concat())
    };
    let records = [texts(b"ab", b"cd", b"init", b"efg"), texts(b"", b"", b"a\0\0\0", &[b'z'; 300])];
    let scanner = RecordScanner::new(&described.streams[0], described.byte_order).unwrap();
    assert_eq!(scanner.count(&records.concat()), Ok(2));
    let mut packets = Packets::default();
    packets.add(span(1000, 1100), &records, 0);
    let folder = Folder::new();
    write_trace(folder.path(), &described, &[("channel0_0", &packets)]);
    let long = "z".repeat(300);
    let found: Vec<_> = read(folder.path());
    let texts: Vec<_> = found.iter().map(|line| line.replace(&long, "LONG")).collect();
    assert_eq!(
        texts,
        [
            "1000 p:e: _x_length=2 x=ab string=cd comm=init / _x_length=3 x=efg",
            "1000 p:e: _x_length=0 x= string= comm=a / _x_length=300 x=LONG",
        ]
    );
    let Some(lines) = pretty(folder.path()) else { return };
    assert!(lines[0].contains("x = \"ab\", string = \"cd\", comm = \"init\" }"), "{}", lines[0]);
    assert!(lines[0].ends_with("x = \"efg\" }"), "{}", lines[0]);
    assert!(lines[1].ends_with(&format!("x = \"{long}\" }}")), "{}", lines[1]);
}

#[test]
fn walker_tells_context_and_payload_apart() {
    for header in HEADERS {
        let described = kernel(header);
        let scanner = RecordScanner::new(&described.streams[0], described.byte_order).unwrap();
        let packet = bytes(header).concat();
        assert_eq!(scanner.count(&packet), Ok(4));
        let found: Vec<_> = scanner.records(&packet, 1000).map(|record| record.unwrap()).collect();
        for ((id, tid, payload), found) in kernel_records().iter().zip(&found) {
            assert_eq!((found.id, found.context), (*id, &tid.to_ne_bytes()[..]));
            assert_eq!(found.payload, payload);
        }
        // Cut anywhere, what is whole is counted, and no more.
        let ends: Vec<usize> = bytes(header)
            .iter()
            .scan(0, |at, bytes| {
                *at += bytes.len();
                Some(*at)
            })
            .collect();
        for cut in 0..packet.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let begin = whole.checked_sub(1).map_or(0, |last| ends[last]);
            match scanner.count(&packet[..cut]) {
                Ok(count) => assert_eq!((count, begin), (whole as u64, cut)),
                Err(error) => assert_eq!(error.offset(), begin as u64, "{cut}: {error}"),
            }
        }
    }
}
