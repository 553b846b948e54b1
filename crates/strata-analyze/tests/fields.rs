//! Fields that are asked for by their path, of a trace by hand.

use std::fs;
use std::path::PathBuf;

use strata_analyze::render::{FieldList, Format, Options, Renderer};
use strata_ctf::read::{Message, Reader, TimeRange};

const METADATA: &str = "/* CTF 1.8 */
    typealias integer { size = 8; align = 8; signed = false; } := u8;
    trace { major = 1; minor = 8; byte_order = le; };
    stream { };
    event { name = \"e\"; fields := struct {
        u8 n;
        struct { u8 x; struct { u8 a[2]; struct { u8 p; u8 q; } pair; u8 z; } in; string t; } s;
    }; };";

/// A trace of one record, which goes with the test.
struct Trace(PathBuf);

impl Trace {
    fn new(name: &str) -> Trace {
        let folder = std::env::temp_dir().join(format!("strata-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("metadata"), METADATA).unwrap();
        fs::write(folder.join("stream"), b"\x01\x02\x03\x04\x05\x06\x07\x1b[2J\0").unwrap();
        Trace(folder)
    }

    fn shown(&self, format: Format, fields: &[&str], tame: bool) -> String {
        let fields = (!fields.is_empty()).then(|| FieldList::new(fields));
        let options = Options { format, fields, tame, ..Options::default() };
        let reader = Reader::open(&[&self.0]).unwrap();
        let mut renderer = Renderer::new(&options);
        let mut text = Vec::new();
        let mut events = reader.events(TimeRange::ALL);
        while let Some(message) = events.next() {
            match message {
                Message::Event(event) => renderer.event(&event, &mut text),
                Message::Damage(damage) => panic!("{damage}"),
                _ => {}
            }
        }
        String::from_utf8(text).unwrap()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn csv_column_of_a_compound_within_structures_is_its_json() {
    let trace = Trace::new("csv-column");
    for (field, cell) in [
        ("n", "1"),
        ("s.x", "2"),
        ("payload.s.in.z", "7"),
        ("s.in.a", "\"[3,4]\""),
        ("payload.s.in.a", "\"[3,4]\""),
        ("s.in.pair", r#""{""p"":5,""q"":6}""#),
        ("s.in", r#""{""a"":[3,4],""pair"":{""p"":5,""q"":6},""z"":7}""#),
        ("s.no", ""),
        ("n.x", ""),
        ("s.in.a.b", ""),
    ] {
        let row = trace.shown(Format::Csv, &[field], false);
        assert_eq!(row, format!(",,,,,e,{cell}\r\n"), "{field}");
    }
}

#[test]
fn member_of_a_structure_that_is_asked_for_is_shown_alone() {
    let trace = Trace::new("member");
    let text = |fields: &[&str]| trace.shown(Format::Text, fields, false);
    assert_eq!(text(&["s.x"]), "e: { s = { x = 2 } }\n");
    let pair = "e: { n = 1, s = { in = { pair = { p = 5, q = 6 } } } }\n";
    assert_eq!(text(&["payload.s.in.pair", "n"]), pair);
    assert_eq!(text(&["s.no"]), "e: \n");
    assert_eq!(text(&["payload"]), text(&[]));
    let json = trace.shown(Format::Json, &["s.in.z"], false);
    assert_eq!(json, "{\"name\":\"e\",\"payload\":{\"s\":{\"in\":{\"z\":7}}}}\n");
}

#[test]
fn field_that_no_event_has_is_unknown() {
    let trace = Trace::new("unknown");
    let reader = Reader::open(&[&trace.0]).unwrap();
    let list =
        FieldList::new(&["n", "s.in.pair.q", "payload.s", "context", "m", "s.m", "common.n"]);
    assert_eq!(list.unknown(&reader), ["m", "s.m", "common.n"]);
}

#[test]
fn malicious_text_in_a_csv_column_commands_no_terminal() {
    let trace = Trace::new("tame");
    assert_eq!(trace.shown(Format::Csv, &["s.t"], false), ",,,,,e,\x1b[2J\r\n");
    assert_eq!(trace.shown(Format::Csv, &["s.t"], true), ",,,,,e,\\x1b[2J\r\n");
}
