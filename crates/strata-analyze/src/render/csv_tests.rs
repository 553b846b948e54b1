//! Tests of CSV columns: how fields of each kind are shown, and which field a name stands for.

use strata_ctf::read::{Message, TimeRange};

use super::{ClockStyle, FieldList, Format, Options, Renderer};
use crate::hand_tests::V::{Text, F64, I64, U32, U8};
use crate::hand_tests::{metadata, Hand, Packets};

const FIELDS: &str = "
    enum : u8 { zero = 0, low = 0 ... 3, two = 2, last = 255 } tag;
    enum flags2_mode : u8 { RD = 0, WR = 1, A = 4, B = 8 } mode;
    i64 i; f64 r; u32 vtid; string t;";

/// Returns the rows of these columns: one for an event with these values, and one for an event without fields.
fn rows(columns: &[&str], values: [u8; 2], text: &'static str) -> Vec<String> {
    let [tag, mode] = values;
    let text = Text(text);
    let record = [U32(8), U8(tag), U8(mode), I64(-5), F64(0.1), U32(9), text];
    let hand = Hand::new();
    let all = metadata("hostname = \"box\";", "u32 vtid;", &[("e", FIELDS), ("none", "")]);
    hand.trace("t", &all, &[Packets::new(3).packet(&[(0, 1, &record), (1, 2, &[U32(7)])])]);
    let fields = Some(FieldList::new(columns));
    let options = Options {
        format: Format::Csv,
        fields,
        clock: Some(ClockStyle::None),
        ..Options::default()
    };
    let mut renderer = Renderer::new(&options);
    let mut out = Vec::new();
    renderer.head(&mut out);
    let reader = hand.reader();
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        match message {
            Message::Event(event) => renderer.event(&event, &mut out),
            Message::Damage(damage) => panic!("{damage}"),
            _ => {}
        }
    }
    let text = String::from_utf8(out).unwrap();
    assert!(text.ends_with("\r\n") && text.matches("\r\n").count() == 3, "{text:?}");
    text.split_terminator("\r\n").map(str::to_owned).collect()
}

/// Returns the cell of a column for the first event.
fn cell(column: &str, values: [u8; 2]) -> String {
    let rows = rows(&[column], values, "t");
    let cell = rows.get(1).and_then(|row| row.strip_prefix("box,,,3,e,"));
    cell.unwrap_or_else(|| panic!("{rows:?}")).to_owned()
}

#[test]
fn csv_of_an_enumeration_has_all_labels_of_the_value_or_the_number() {
    for (tag, expected) in [(0, "zero|low"), (1, "low"), (2, "low|two"), (4, "4"), (255, "last")] {
        assert_eq!(cell("tag", [tag, 0]), expected, "{tag}");
    }
}

#[test]
fn csv_of_flags_has_those_that_are_set_and_the_rest_as_a_number() {
    for (mode, expected) in
        [(0, "RD"), (1, "WR"), (5, "WR|A"), (13, "WR|A|B"), (0x41, "WR|0x40"), (0xF0, "RD|0xF0")]
    {
        let found = cell("mode", [0, mode]);
        assert_eq!(found, expected, "{mode:#x}");
    }
}

#[test]
fn csv_of_numbers_is_read_back_as_they_are() {
    assert_eq!(cell("i", [0; 2]), "-5");
    assert_eq!(cell("r", [0; 2]).parse::<f64>(), Ok(0.1));
}

#[test]
fn name_that_two_parts_have_is_the_payload_s_and_with_its_part_the_part_s() {
    for (column, expected) in [
        ("vtid", "9"),
        ("payload.vtid", "9"),
        ("common.vtid", "8"),
        ("packet.cpu_id", "3"),
        ("context.vtid", ""),
        ("common.tag", ""),
        ("packet", "{\"\"cpu_id\"\":3}"),
        ("common", "{\"\"vtid\"\":8}"),
    ] {
        let found = cell(column, [0; 2]);
        assert_eq!(found.trim_matches('"'), expected, "{column}");
    }
}

#[test]
fn csv_of_a_text_that_has_commas_quotes_and_lines_is_one_column() {
    let columns = ["t", "vtid"];
    for (text, expected) in [
        ("plain", "plain"),
        ("", ""),
        ("a,b", "\"a,b\""),
        ("\"", "\"\"\"\""),
        ("a\nb", "\"a\nb\""),
        ("a\rb", "\"a\rb\""),
    ] {
        let rows = rows(&columns, [0; 2], text);
        assert_eq!(rows.get(1), Some(&format!("box,,,3,e,{expected},9")), "{text:?}");
    }
}

#[test]
fn event_without_a_field_has_an_empty_column_and_the_names_are_quoted_in_the_head() {
    let rows = rows(&["vtid", "tag", "a,b"], [2, 0], "t");
    assert_eq!(
        rows.first().map(String::as_str),
        Some("host,process,vpid,cpu,name,vtid,tag,\"a,b\"")
    );
    assert_eq!(rows.get(1).map(String::as_str), Some("box,,,3,e,9,low|two,"));
    // Of the other event the name means the context's.
    assert_eq!(rows.get(2).map(String::as_str), Some("box,,,3,none,7,,"));
}
