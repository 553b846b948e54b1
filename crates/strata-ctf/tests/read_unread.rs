//! Records with numbers that a probe could not read: they have no value, in whichever way they are asked for.

use crate::support::*;
use strata_ctf::read::{FieldInfo, Message, Reader, Scope, Selection, TimeRange, Value, Visit};
use strata_model::{Element, Integer, RecordHeader, UNREAD_FIELD};

/// What is told of a record.
#[derive(Default)]
struct Told(Vec<String>);

impl Visit for Told {
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        self.0.push(format!("{}={value}", field.name()));
    }

    fn signed(&mut self, field: &FieldInfo, value: i64) {
        self.0.push(format!("{}={value}", field.name()));
    }

    fn real(&mut self, _: &FieldInfo, _: f64) {}

    fn text(&mut self, field: &FieldInfo, bytes: &[u8]) {
        self.0.push(format!("{}={}", field.name(), String::from_utf8_lossy(bytes)));
    }

    fn begin_array(&mut self, field: &FieldInfo, length: u64) {
        self.0.push(format!("{}[{length}]", field.name()));
    }

    fn unread(&mut self, field: &FieldInfo) {
        self.0.push(format!("{}=?", field.name()));
    }
}

/// Records whose last member has these bits.
fn written(last: &str, bits: &[u32]) -> Folder {
    let fields = vec![
        u64_field("ip"),
        sequence("text", Element::Text, 2),
        integer("n", Integer::signed(4)),
        array("two", Element::Integer(Integer::unsigned(1)), 2),
        integer(last, Integer::unsigned(4)),
    ];
    let described = trace(RecordHeader::Compact, vec![event(0, "hit", fields)]);
    let record = |(bits, time): (&u32, u64)| {
        let body = [
            &7u64.to_ne_bytes()[..],
            &3u16.to_ne_bytes(),
            b"abc",
            &(-5i32).to_ne_bytes(),
            &[8, 9],
            &bits.to_ne_bytes(),
        ];
        record(RecordHeader::Compact, 0, time, false, &body.concat())
    };
    let records: Vec<Vec<u8>> = bits.iter().zip(1000..).map(record).collect();
    let mut packets = Packets::default();
    packets.add(span(1000, 1100), &records, 0);
    let folder = Folder::new();
    write_trace(folder.path(), &described, &[("channel0_0", &packets)]);
    folder
}

/// What each record tells, `n` asked for by its name, and the second one of `two`.
fn read(folder: &Folder) -> Vec<(String, Option<i64>, Option<Value<'static>>)> {
    let reader = Reader::open(&[folder.path()]).unwrap();
    let mut events = reader.events(TimeRange::ALL);
    let mut found = Vec::new();
    while let Some(message) = events.next() {
        let Message::Event(event) = message else { continue };
        let mut told = Told::default();
        assert!(event.visit(Scope::Payload, &mut told));
        let field = |name| event.class().find(name).unwrap();
        let second = match event.value(&field("two[1]")) {
            Some(Value::Unsigned(value)) => Some(Value::Unsigned(value)),
            None => None,
            other => panic!("{other:?}"),
        };
        found.push((told.0.join(" "), event.integer(&field("n")), second));
    }
    found
}

#[test]
fn visit_of_numbers_that_could_not_be_read_tells_no_value_and_not_the_bits() {
    let nine = Some(Value::Unsigned(9));
    let rest = "_text_length=3 text=abc";
    let wanted = [
        (0, format!("ip=7 {rest} n=-5 two[2] =8 =9"), Some(-5), nine),
        (1, format!("ip=? {rest} n=-5 two[2] =8 =9"), Some(-5), nine),
        (4, format!("ip=7 {rest} n=? two[2] =8 =9"), None, nine),
        (8, format!("ip=7 {rest} n=-5 two=?"), Some(-5), None),
        // A bit of no field says nothing.
        (0x8000_0010, format!("ip=7 {rest} n=-5 two[2] =8 =9"), Some(-5), nine),
    ];
    let folder = written(UNREAD_FIELD, &wanted.each_ref().map(|(bits, ..)| *bits));
    let wanted = wanted.map(|(_, told, n, two)| (told, n, two));
    assert_eq!(read(&folder), wanted);
}

#[test]
fn last_member_of_another_name_is_a_field() {
    let folder = written("strata_read", &[4]);
    let told = "ip=7 _text_length=3 text=abc n=-5 two[2] =8 =9 strata_read=4";
    assert_eq!(read(&folder), [(told.to_owned(), Some(-5), Some(Value::Unsigned(9)))]);
}

#[test]
fn filter_for_a_number_that_could_not_be_read_passes_no_record() {
    let folder = written(UNREAD_FIELD, &[0, 4]);
    let reader = Reader::open(&[folder.path()]).unwrap();
    for (text, passing) in [
        ("n == -5", 1),
        ("n != 0", 1),
        ("n < 0", 1),
        ("n == 0", 0),
        ("n in {-5, 0}", 1),
        ("ip == 7", 2),
        ("strata_unread == 4", 1),
    ] {
        let mut selection = Selection::new(&strata_filter::Filter::parse(text).unwrap());
        let mut events = reader.events(TimeRange::ALL);
        let mut found = 0;
        while let Some(message) = events.next() {
            let Message::Event(event) = message else { continue };
            found += u32::from(selection.accepts(&event));
        }
        assert_eq!(found, passing, "{text}");
    }
}
