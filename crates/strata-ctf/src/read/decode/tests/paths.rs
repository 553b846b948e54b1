//! Tests of finding fields by name.

use super::*;
use crate::read::decode::RecordView;
use crate::read::value::Value;

const HERE: Scope = Scope::Payload;

/// Returns the value of a field of the record that was decoded last.
fn get<'p>(packet: &'p Packet<'_>, name: &str) -> Option<Value<'p>> {
    let class = packet.stream().class(packet.state.record.shape.class).expect("class");
    let field = class.find(name).unwrap_or_else(|| panic!("there is no {name}"));
    let view = RecordView {
        state: &packet.state,
        begin: packet.state.record.begin,
        shape: &packet.state.record.shape,
        bytes: packet.bytes,
        origin: 0,
    };
    view.value(class.plans(), &field.path)
}

fn fields() -> Schema {
    let pair =
        || FieldClass::Structure(structure(1, vec![("x", unsigned(8)), ("y", unsigned(16))]));
    let options = vec![("small", range(0, 1), unsigned(8)), ("pair", range(2, 2), pair())];
    payload(vec![
        ("fixed", array(Length::Static(3), pair())),
        ("n", unsigned(8)),
        ("seq", array(of(HERE, &[1]), pair())),
        ("v", variant(at(HERE, &[1]), options)),
        ("o", optional(at(HERE, &[1]), range(1, 1), pair())),
        ("s", FieldClass::String),
        ("last", unsigned(8)),
    ])
}

#[test]
fn names_lead_into_structures_elements_options_and_optional_fields() {
    let two = [1, 2, 0, 3, 4, 0, 5, 6, 0, 2, 7, 8, 0, 9, 10, 0, 11, 12, 0, b'h', b'i', 0, 99];
    let one = [1, 2, 0, 3, 4, 0, 5, 6, 0, 1, 7, 8, 0, 13, 14, 15, 0, b'x', 0, 98];
    let bytes = [&two[..], &one[..]].concat();
    let mut packet = Packet::open(fields(), &bytes);
    assert!(packet.next().expect("a record"));
    let number = |value| Some(Value::Unsigned(value));
    assert_eq!(get(&packet, "fixed[2].y"), number(6));
    assert_eq!(get(&packet, "fixed[0].x"), number(1));
    assert_eq!(get(&packet, "fixed[3].x"), None, "an element that is not there");
    assert_eq!(get(&packet, "seq[1].x"), number(9));
    assert_eq!(get(&packet, "seq[2].x"), None);
    assert_eq!(get(&packet, "v.pair.y"), number(12));
    assert_eq!(get(&packet, "v.small"), None, "the other option");
    assert_eq!(get(&packet, "o.x"), None, "absent");
    assert_eq!(get(&packet, "s"), Some(Value::Text(b"hi")));
    assert_eq!(get(&packet, "last"), number(99));
    for compound in ["fixed", "fixed[1]", "seq", "seq[0]", "v", "v.pair"] {
        assert_eq!(get(&packet, compound), Some(Value::Compound), "{compound}");
    }
    assert!(packet.next().expect("a record"));
    assert_eq!(get(&packet, "v.small"), number(13));
    assert_eq!(get(&packet, "v.pair"), None);
    assert_eq!(get(&packet, "o.y"), number(15));
    assert_eq!(get(&packet, "last"), number(98));
}

#[test]
fn names_that_lead_nowhere_find_nothing() {
    let decoder = Decoder::new(Arc::new(fields()), 0);
    let class = &decoder.stream(0).expect("stream").events()[0];
    for name in [
        "",
        ".",
        "x",
        "fixed.x",
        "fixed[",
        "fixed[]",
        "fixed[1",
        "fixed[a]",
        "fixed[1]x",
        "fixed[-1]",
        "fixed[1].z",
        "n.x",
        "n[0]",
        "v.x",
        "v.pair.z",
        "s.s",
        "fixed[0][0]",
        "fixed[99999999999999999999]",
        "o[0]",
    ] {
        assert!(class.find(name).is_none(), "{name}");
    }
    assert!(class.find_in(Scope::EventHeader, "n").is_none());
}

#[test]
fn name_is_looked_for_from_the_payload_outwards() {
    let one = |value| Some(structure(1, vec![("same", unsigned(8)), (value, unsigned(8))]));
    let mut schema = payload(vec![("same", unsigned(8))]);
    schema.packet_header = one("a");
    schema.streams[0].packet_context = one("b");
    schema.streams[0].event_common_context = one("c");
    schema.streams[0].events[0].specific_context = one("d");
    let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    let mut packet = Packet::open(schema, &bytes);
    assert!(packet.next().expect("a record"));
    for (name, value) in [("same", 9), ("a", 2), ("b", 4), ("c", 6), ("d", 8)] {
        assert_eq!(get(&packet, name), Some(Value::Unsigned(value)), "{name}");
    }
}

#[test]
fn information_of_a_field_is_that_of_its_class() {
    let decoder = Decoder::new(Arc::new(fields()), 0);
    let class = &decoder.stream(0).expect("stream").events()[0];
    let y = class.find("fixed[1].y").expect("a field");
    assert_eq!((y.info().name(), y.info().bits, y.info().is_element), ("y", 16, false));
    assert!(class.find("fixed[1]").expect("an element").info().is_element());
    let names: Vec<&str> = class.fields(Scope::Payload).map(|field| field.name()).collect();
    assert_eq!(names, ["fixed", "n", "seq", "v", "o", "s", "last"]);
}
