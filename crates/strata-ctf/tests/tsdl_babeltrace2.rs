//! Compares the meaning of metadata with that of babeltrace2.

use crate::support::*;
use std::fmt::Write;
use strata_ctf::read::metadata::parse;
use strata_model::schema::*;
use strata_model::{Base, ClockClass};

const HEAD: &str = "/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = le; };
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 64; align = 8; } := u64;
typealias integer { size = 32; align = 8; signed = true; } := int;
";

/// Makes a stream with one packet without events.
fn stream(rest: &str) -> String {
    format!(
        "stream {{ packet.context := struct {{ u64 packet_size; u64 content_size; }}; {rest} }};\n"
    )
}

/// Compares both descriptions of the trace's classes.
fn compare(text: &str) {
    let folder = Folder::new();
    std::fs::write(folder.path().join("metadata"), text).unwrap();
    std::fs::write(
        folder.path().join("stream"),
        [128u64.to_le_bytes(), 128u64.to_le_bytes()].concat(),
    )
    .unwrap();
    let arguments = ["--component=sink.text.details"];
    let Some((said, _)) = babeltrace_with_talk(&arguments, &[folder.path()]) else { return };
    let lines = said.lines().skip_while(|line| !line.starts_with("Trace class:")).skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let skipped = ["Supports", "Packets have"];
    let lines =
        lines.filter(|line| !skipped.iter().any(|start| line.trim_start().starts_with(start)));
    let theirs: Vec<_> = sorted(lines.map(str::to_owned).collect());
    let ours = sorted(shown(&parse(text.as_bytes()).unwrap()).lines().map(str::to_owned).collect());
    assert_eq!(ours, theirs, "{text}\n{said}");
}

/// babeltrace2 shows labels in no order.
fn sorted(mut lines: Vec<String>) -> Vec<String> {
    let is_label = |line: &String| line.trim_end().ends_with(']') && line.contains(": [");
    let mut begin = 0;
    while begin < lines.len() {
        let end = begin + lines[begin..].iter().take_while(|line| is_label(line)).count();
        lines[begin..end].sort();
        begin = end + 1;
    }
    lines
}

fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a schema as babeltrace2's sink.text.details does.
fn shown(schema: &Schema) -> String {
    let mut out = String::new();
    for stream in &schema.streams {
        writeln!(out, "  Stream class (ID {}):", stream.id).unwrap();
        if let Some(clock) = stream.clock {
            show_clock(&mut out, &schema.clocks[clock]);
        }
        if let Some(context) = &stream.event_common_context {
            show_structure(&mut out, "    Event common context field class: ", context, 6);
        }
        let mut events: Vec<_> = stream.events.iter().collect();
        events.sort_by_key(|event| event.id);
        for event in events {
            writeln!(out, "    Event class `{}` (ID {}):", event.name, event.id).unwrap();
            if let Some(level) = event.loglevel {
                let name = ["Emergency", "Alert", "Critical", "Error", "Warning", "Notice", "Info"]
                    [level as usize];
                writeln!(out, "      Log level: {name}").unwrap();
            }
            if let Some(uri) = &event.emf_uri {
                writeln!(out, "      EMF URI: {uri}").unwrap();
            }
            if let Some(context) = &event.specific_context {
                show_structure(&mut out, "      Specific context field class: ", context, 8);
            }
            if let Some(payload) = &event.payload {
                show_structure(&mut out, "      Payload field class: ", payload, 8);
            }
        }
    }
    out
}

fn show_clock(out: &mut String, clock: &ClockClass) {
    writeln!(out, "    Default clock class:\n      Name: {}", clock.name).unwrap();
    if !clock.description.is_empty() {
        writeln!(out, "      Description: {}", clock.description).unwrap();
    }
    writeln!(out, "      Frequency (Hz): {}", with_commas(clock.frequency)).unwrap();
    writeln!(out, "      Precision (cycles): {}", with_commas(clock.precision)).unwrap();
    let sign = if clock.offset_s < 0 { "-" } else { "" };
    writeln!(out, "      Offset (s): {sign}{}", with_commas(clock.offset_s.unsigned_abs()))
        .unwrap();
    writeln!(out, "      Offset (cycles): {}", with_commas(clock.offset_cycles)).unwrap();
    let origin = if clock.absolute { "Yes" } else { "No" };
    writeln!(out, "      Origin is Unix epoch: {origin}").unwrap();
    if let Some(uuid) = clock.uuid {
        writeln!(out, "      UUID: {uuid}").unwrap();
    }
}

fn plural(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

fn show_structure(out: &mut String, name: &str, structure: &Structure, indent: usize) {
    // It shows no field that counts a clock.
    let is_time = |class: &FieldClass| matches!(class, FieldClass::Integer(integer) if integer.clock.is_some());
    let members: Vec<_> =
        structure.members.iter().filter(|member| !is_time(&member.class)).collect();
    let count = members.len();
    let colon = if count == 0 { "" } else { ":" };
    writeln!(out, "{name}Structure ({}){colon}", plural(count, "member")).unwrap();
    for member in members {
        show(out, &format!("{:indent$}{}: ", "", member.name), &member.class, indent + 2);
    }
}

fn path(location: &Location) -> String {
    let scope = match location.scope {
        Scope::PacketContext => "Packet context",
        Scope::CommonContext => "Event common context",
        Scope::SpecificContext => "Event specific context",
        Scope::Payload => "Event payload",
        other => panic!("{other:?} is not shown"),
    };
    let indexes: Vec<_> = location.path.iter().map(u32::to_string).collect();
    format!("[{scope}: {}]", indexes.join(", "))
}

fn ranges(ranges: &[Range]) -> String {
    let number = |number: i128| {
        let digits = with_commas(number.unsigned_abs() as u64);
        if number < 0 {
            format!("-{digits}")
        } else {
            digits
        }
    };
    let range = |range: &Range| match range.from == range.to {
        true => format!("[{}]", number(range.from)),
        false => format!("[{}, {}]", number(range.from), number(range.to)),
    };
    let mut ranges = ranges.to_vec();
    ranges.sort_by_key(|range| range.from);
    ranges.iter().map(range).collect::<Vec<_>>().join(" ")
}

fn show(out: &mut String, name: &str, class: &FieldClass, indent: usize) {
    match class {
        FieldClass::Integer(integer) => show_integer(out, name, integer, indent),
        FieldClass::Real(real) => {
            let precision = if real.bits == 32 { "Single" } else { "Double" };
            writeln!(out, "{name}{precision}-precision real").unwrap();
        }
        FieldClass::String | FieldClass::Text { .. } => writeln!(out, "{name}String").unwrap(),
        FieldClass::Structure(structure) => show_structure(out, name, structure, indent),
        FieldClass::Array(array) => {
            match &array.length {
                Length::Static(length) => {
                    writeln!(out, "{name}Static array (Length {}):", with_commas(*length)).unwrap();
                }
                Length::Dynamic(length) => {
                    let path = path(length);
                    writeln!(
                        out,
                        "{name}Dynamic array (with length field) (Length field path {path}):"
                    )
                    .unwrap();
                }
            }
            show(out, &format!("{:indent$}Element: ", ""), &array.element, indent + 2);
        }
        FieldClass::Variant(variant) => {
            let sign = variant
                .options
                .iter()
                .any(|option| option.ranges.iter().any(|range| range.from < 0));
            let sign = if sign { "signed" } else { "unsigned" };
            let count = plural(variant.options.len(), "option");
            let path = path(&variant.selector);
            writeln!(
                out,
                "{name}Variant ({sign} integer selector) ({count}, Selector field path {path}):"
            )
            .unwrap();
            for option in &variant.options {
                let name = format!("{:indent$}{}: {}: ", "", option.name, ranges(&option.ranges));
                show(out, &name, &option.class, indent + 2);
            }
        }
        FieldClass::Wide { .. } | FieldClass::Blob { .. } | FieldClass::Optional(_) => {
            panic!("not of CTF 1.8")
        }
    }
}

fn show_integer(out: &mut String, name: &str, integer: &Integer, indent: usize) {
    let Width::Bits(bits) = integer.width else { panic!("not of CTF 1.8") };
    let sign = if integer.signed { "Signed" } else { "Unsigned" };
    let base = match integer.base {
        Base::Two => 2,
        Base::Eight => 8,
        Base::Ten => 10,
        Base::Sixteen => 16,
    };
    let Some(labels) = &integer.labels else {
        writeln!(out, "{name}{sign} integer ({bits}-bit, Base {base})").unwrap();
        return;
    };
    let count = plural(labels.len(), "mapping");
    writeln!(out, "{name}{sign} enumeration ({bits}-bit, Base {base}, {count}):").unwrap();
    for label in labels.iter() {
        writeln!(out, "{:indent$}{}: {}", "", label.name, ranges(&label.ranges)).unwrap();
    }
}

/// An event with these fields.
fn compare_fields(fields: &str) {
    compare(&format!(
        "{HEAD}{}event {{ name = e; fields := struct {{ {fields} }}; }};",
        stream("")
    ));
}

#[test]
fn integers_and_numbers_mean_the_same() {
    compare_fields(
        "integer { size = 1; } a; integer { size = 64; signed = true; base = octal; } b; \
         integer { size = 13; base = \"hex\"; align = 4; } c; integer { size = 3; base = b; signed = 1; } d; \
         floating_point { exp_dig = 8; mant_dig = 24; } e; floating_point { exp_dig = 11; mant_dig = 53; } f; \
         integer { size = 8; base = p; } g; integer { size = 8; base = u; signed = FALSE; } h; u8 i, j[3], k;",
    );
}

#[test]
fn names_mean_the_same() {
    compare_fields(
        "u8 _x; u8 __y; u8 z; enum : u8 { _a = 0, \"_b\" = 1, __c, c } tag; \
         variant <tag> { u8 _a; u8 _b; u8 __c; u8 c; } _v;",
    );
}

#[test]
fn texts_and_arrays_mean_the_same() {
    compare_fields(
        "typealias integer { size = 8; align = 8; encoding = UTF8; signed = true; } := ch; \
         typealias integer { size = 8; align = 4; encoding = ASCII; } := ch4; \
         typealias integer { size = 8; align = 16; encoding = ascii; } := ch16; \
         typealias integer { size = 16; encoding = UTF8; } := wide; \
         u8 n; ch a[3]; ch b[n]; ch c[2][3]; ch4 d[2]; ch16 e[2]; wide f[2]; u8 g[2]; ch h; enum : ch { A } i[2]; \
         string j; string { encoding = ASCII; } k; u8 l[2][n][4]; u8 m[(3)]; u8 o[0x10]; u8 p[0]; string q[n];",
    );
}

#[test]
fn enumerations_mean_the_same() {
    compare_fields(
        "enum { a = -2 ... 5, \"b c\", d = 300 } x; enum : u8 { A = 0 ... 1, B, A = 7 ... 9, C = 0x20, } y; \
         enum foo : u8 { P, Q } e; enum foo f; enum : integer { size = 64; } { top = 9223372036854775807 } g;",
    );
}

#[test]
fn variants_mean_the_same() {
    compare_fields(
        "enum : u8 { a, b, c, b = 7 ... 9 } t; enum : int { b = -5 ... -1, a } u; \
         variant <t> { u8 a; struct { u8 x; string y; } b; } v; variant <u> { string a; u8 b; } w;",
    );
    let declared = "variant V { u8 a; u8 b; };";
    let fields = "enum : u8 { a, b } t; enum : u8 { b, a } s; variant V <t> v; variant V <s> w;";
    compare(&format!(
        "{HEAD}{declared}{}event {{ name = e; fields := struct {{ {fields} }}; }};",
        stream("")
    ));
}

#[test]
fn references_mean_the_same() {
    compare_fields(
        "u8 n; struct { u8 m; u8 a[n]; u8 b[m]; struct { u8 n; u8 c[n]; u8 d[m]; } y; } x; u8 e[x.y.n]; u8 f[x.m];",
    );
    compare_fields("u8 n; struct { u8 a[n]; u8 n; u8 b[n]; } x;");
    compare_fields("struct { u8 n; } x; struct { u8 x; u8 a[x.n]; } y; u8 _l; u8 z[_l]; u8 w[event.fields._l];");
    compare_fields("u8 q; struct { u8 l; u8 z[n.l]; } n;");
    compare_fields(
        "enum : u8 { a, b } t; variant <t> { struct { u8 n; u8 k[n]; } a; u8 b; } v; u8 x[v.b]; u8 y[v.a.n];",
    );
    let contexts = stream("event.context := struct { u8 c; u8 d[c]; };");
    compare(&format!(
        "{HEAD}{contexts}event {{ name = e; context := struct {{ u8 f; u8 g; }}; \
         fields := struct {{ u8 x; u8 y[event.context.f]; u8 z[event.fields.x]; u8 w[stream.event.context.c]; }}; }};"
    ));
}

#[test]
fn named_types_mean_the_same() {
    let declared = "typealias integer { size = 8; base = x; } := unsigned long long;
        typealias integer { size = 8; base = \"hex\"; } := char *; typedef u8 mac[6]; typealias u8 [4] := ip;
        typealias integer { size = 16; } := const thing; struct s { u8 a; } align(8); typealias integer { size = 16; } := t;";
    compare(&format!(
        "{HEAD}{declared}{}event {{ name = e; fields := struct {{ typealias integer {{ size = 24; }} := t; t o; \
         unsigned long long c; char *d; mac m; ip i; const thing j; struct s k; struct {{ t l; }} p; }}; }};",
        stream("")
    ));
}

#[test]
fn clocks_mean_the_same() {
    let clock = "clock { name = \"a b\"; uuid = \"00112233-4455-6677-8899-aabbccddeeff\"; description = \"x\\ty\\\"z\\\\ \\x41\\101\"; \
                 freq = 7; precision = 3; offset_s = -3; offset = 20; absolute = 1; };";
    let text = format!(
        "{HEAD}{clock}stream {{ packet.context := struct {{ u64 packet_size; u64 content_size; }}; \
         event.header := struct {{ u8 timestamp; }}; }};event {{ name = e; }};"
    );
    compare(&text);
    let mapped = "clock { name = c; freq = 1000000; offset = 1700000000123456; }; \
                  typealias integer { size = 64; map = clock.c.value; } := time;";
    let event = "event { name = e; fields := struct { time t; u8 x; }; };";
    compare(&format!("{HEAD}{mapped}{}{event}", stream("")));
    compare(&format!(
        "{HEAD}{}event {{ name = e; }};",
        stream("event.header := struct { u8 timestamp; };")
    ));
}

#[test]
fn events_mean_the_same() {
    compare(&format!(
        "{HEAD}{}event {{ name = \"b c\"; id = 2; loglevel = 4; model.emf.uri = \"http://m\"; }}; \
         event {{ name = a.b; id = 0x1; loglevel = 0; fields := struct {{ }}; context := struct {{ u8 x; }}; }};",
        stream("event.header := struct { u8 id; }; event.context := struct { int c; };")
    ));
}
