//! Random fields of any width and alignment in both byte orders, compared with what babeltrace2 shows.

use crate::support::*;
use std::fmt::Write;
use strata_ctf::read::{FieldInfo, Message, Reader, Scope, TimeRange, Visit};
use strata_random::Random;

/// Writes the declaration of a random field. All names are different.
fn field(random: &mut Random, names: &mut u32, depth: u32, text: &mut String) {
    *names += 1;
    let name = format!("_f{names}");
    let integer = |random: &mut Random| {
        let (width, align) =
            (1 + random.below(64), [1, 1, 1, 8, 16, 32, 64][random.below(7) as usize]);
        let signed = random.below(2) == 1;
        format!("integer {{ size = {width}; align = {align}; signed = {signed}; }}")
    };
    let kinds = if depth > 2 { 3 } else { 8 };
    match random.below(kinds) {
        0..=2 => write!(text, "{} {name};", integer(random)).unwrap(),
        3 => write!(text, "{} {name}[{}];", integer(random), random.below(4)).unwrap(),
        4 => {
            let small = "integer { size = 2; align = 1; }";
            write!(text, "{small} {name}_n; {} {name}[{name}_n];", integer(random)).unwrap();
        }
        5 => {
            text.push_str("struct {");
            (0..1 + random.below(3)).for_each(|_| field(random, names, depth + 1, text));
            let align = [1, 8, 16, 32][random.below(4) as usize];
            write!(text, "}} align({align}) {name};").unwrap();
        }
        6 => {
            let tag = "enum : integer { size = 2; align = 1; } { _a = 0 ... 1, _b = 2 ... 3 }";
            write!(text, "{tag} {name}_t; variant <{name}_t> {{ {} _a;", integer(random)).unwrap();
            write!(text, "struct {{ {} _x; }} _b; }} {name};", integer(random)).unwrap();
        }
        _ => {
            text.push_str("integer { size = 2; align = 1; } ");
            write!(text, "{name}_n; struct {{").unwrap();
            (0..1 + random.below(2)).for_each(|_| field(random, names, depth + 1, text));
            write!(text, "}} {name}[{name}_n];").unwrap();
        }
    }
}

/// Collects fields in the format of babeltrace2.
#[derive(Default)]
struct Text {
    text: String,
    /// The number of fields so far in each open structure.
    open: Vec<u64>,
    /// The next field is a variant's, whose name is not shown.
    is_option: bool,
}

impl Text {
    fn name(&mut self, field: &FieldInfo) {
        if let Some(count) = self.open.last_mut() {
            self.text.push_str(if *count == 0 { " " } else { ", " });
            *count += 1;
        }
        if std::mem::take(&mut self.is_option) {
            return;
        }
        match (field.is_element(), self.open.last()) {
            (true, Some(count)) => write!(self.text, "[{}] = ", count - 1).unwrap(),
            _ => write!(self.text, "{} = ", field.name()).unwrap(),
        }
    }

    fn number(&mut self, field: &FieldInfo, value: i128) {
        self.name(field);
        match field.labels_of(value).next() {
            Some(label) => write!(self.text, "( \"{label}\" : container = {value} )").unwrap(),
            None => write!(self.text, "{value}").unwrap(),
        }
    }

    fn begin(&mut self, field: &FieldInfo, bracket: char) {
        self.name(field);
        self.text.push(bracket);
        self.open.push(0);
    }

    fn end(&mut self, bracket: char) {
        self.open.pop();
        self.text.push(' ');
        self.text.push(bracket);
    }
}

impl Visit for Text {
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        self.number(field, i128::from(value));
    }
    fn signed(&mut self, field: &FieldInfo, value: i64) {
        self.number(field, i128::from(value));
    }
    fn real(&mut self, _: &FieldInfo, _: f64) {
        unreachable!("there are only integers");
    }
    fn text(&mut self, _: &FieldInfo, _: &[u8]) {
        unreachable!("there are only integers");
    }
    fn begin_structure(&mut self, field: &FieldInfo) {
        self.begin(field, '{');
    }
    fn end_structure(&mut self, _: &FieldInfo) {
        self.end('}');
    }
    fn begin_array(&mut self, field: &FieldInfo, _: u64) {
        self.begin(field, '[');
    }
    fn end_array(&mut self, _: &FieldInfo) {
        self.end(']');
    }
    fn begin_variant(&mut self, field: &FieldInfo, _: &str) {
        self.begin(field, '{');
        self.is_option = true;
    }
    fn end_variant(&mut self, _: &FieldInfo) {
        self.end('}');
    }
}

fn write(folder: &Folder, order: &str, fields: &str, payload: &[u8]) {
    let metadata = format!(
        "/* CTF 1.8 */
trace {{ major = 1; minor = 8; byte_order = {order}; }};
stream {{ packet.context := struct {{ integer {{ size = 64; align = 8; }} content_size; }}; }};
event {{ name = \"e\"; fields := struct {{ {fields} integer {{ size = 8; align = 8; }} _last; }}; }};
"
    );
    std::fs::write(folder.path().join("metadata"), metadata).unwrap();
    let bits = (payload.len() as u64 + 8) * 8;
    let size = if order == "be" { bits.to_be_bytes() } else { bits.to_le_bytes() };
    std::fs::write(folder.path().join("stream"), [&size[..], payload].concat()).unwrap();
}

/// The records' fields, and how many bytes of the payload they are.
fn read(folder: &Folder) -> (Vec<String>, usize) {
    let reader = Reader::open(&[folder.path()]).unwrap();
    let mut events = reader.events(TimeRange::ALL);
    let (mut lines, mut end) = (Vec::new(), 8);
    while let Some(message) = events.next() {
        if let Message::Event(event) = message {
            let mut text = Text { text: "{".into(), open: vec![0], ..Text::default() };
            assert!(event.visit(Scope::Payload, &mut text));
            lines.push(text.text + " }");
            end = event.offset() + event.bytes();
        }
    }
    (lines, end as usize - 8)
}

#[test]
fn random_bit_fields_arrays_and_variants_are_what_babeltrace2_shows() {
    let seed = strata_random::seed();
    let mut records = 0;
    for round in 0..24 {
        let mut random = Random::from_seed(seed.wrapping_add(round));
        let (mut fields, mut names) = (String::new(), 0);
        (0..1 + random.below(6)).for_each(|_| field(&mut random, &mut names, 0, &mut fields));
        let order = if round % 2 == 0 { "le" } else { "be" };
        let payload: Vec<u8> = (0..600).map(|_| random.below(256) as u8).collect();
        let folder = Folder::new();
        write(&folder, order, &fields, &payload);
        // As many bytes as whole records have, or babeltrace2 stops.
        let end = read(&folder).1;
        write(&folder, order, &fields, &payload[..end]);
        let (ours, _) = read(&folder);
        let Some(theirs) = pretty(folder.path()) else { return };
        let theirs: Vec<&str> =
            theirs.iter().filter_map(|line| Some(&line[line.find("{ ")?..])).collect();
        assert_eq!(ours, theirs, "round {round}, byte order {order}: {fields}");
        records += ours.len();
    }
    assert!(records > 100, "only {records} records: the test tests little");
}
