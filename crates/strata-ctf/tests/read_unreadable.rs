//! Descriptions of which a part is there and cannot be read: no record may be invented in its place.

use crate::read_support::texts_of;
use crate::support::Folder;
use std::collections::HashSet;
use std::fs;

const TSDL: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 16; align = 8; } := u16;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u8 STREAM_ID; }; };
env { host = "h"; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := tst;
stream { ID
 packet.context := struct { u64 packet_size; u64 content_size; tst timestamp_begin; tst timestamp_end; };
 event.header := struct { tst timestamp; u16 id; }; event.context := struct { u8 level; }; };
event { name = "a"; id = 0; OF fields := struct { u32 x; }; };
event { name = "b"; id = 1; OF fields := struct { u16 n; u8 list[n]; }; };
"#;

const JSON: &str = "\u{1e}{\"type\":\"preamble\",\"version\":2}
\u{1e}{\"type\":\"trace-class\",\"packet-header-field-class\":{\"type\":\"structure\",\"member-classes\":[{\"name\":\"m\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":32,\"byte-order\":\"little-endian\",\"alignment\":8,\"roles\":[\"packet-magic-number\"]}},{\"name\":\"s\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":8,\"byte-order\":\"little-endian\",\"alignment\":8,\"roles\":[\"data-stream-class-id\"]}}]}}
\u{1e}{\"type\":\"field-class-alias\",\"name\":\"u64\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":64,\"byte-order\":\"little-endian\",\"alignment\":8}}
\u{1e}{\"type\":\"clock-class\",\"id\":\"c\",\"frequency\":1000000000}
\u{1e}{\"type\":\"data-stream-class\",\"id\":0,\"default-clock-class-id\":\"c\",\"packet-context-field-class\":{\"type\":\"structure\",\"member-classes\":[{\"name\":\"p\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":64,\"byte-order\":\"little-endian\",\"alignment\":8,\"roles\":[\"packet-total-length\"]}},{\"name\":\"q\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":64,\"byte-order\":\"little-endian\",\"alignment\":8,\"roles\":[\"packet-content-length\"]}},{\"name\":\"b\",\"field-class\":\"u64\"},{\"name\":\"e\",\"field-class\":\"u64\"}]},\"event-record-header-field-class\":{\"type\":\"structure\",\"member-classes\":[{\"name\":\"t\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":64,\"byte-order\":\"little-endian\",\"alignment\":8,\"roles\":[\"default-clock-timestamp\"]}},{\"name\":\"i\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":16,\"byte-order\":\"little-endian\",\"alignment\":8,\"roles\":[\"event-record-class-id\"]}}]},\"event-record-common-context-field-class\":{\"type\":\"structure\",\"member-classes\":[{\"name\":\"level\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":8,\"byte-order\":\"little-endian\",\"alignment\":8}}]}}
\u{1e}{\"type\":\"event-record-class\",\"data-stream-class-id\":0,\"id\":0,\"name\":\"a\",\"payload-field-class\":{\"type\":\"structure\",\"member-classes\":[{\"name\":\"x\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":32,\"byte-order\":\"little-endian\",\"alignment\":8}}]}}
\u{1e}{\"type\":\"event-record-class\",\"data-stream-class-id\":0,\"id\":1,\"name\":\"b\",\"payload-field-class\":{\"type\":\"structure\",\"member-classes\":[{\"name\":\"n\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":16,\"byte-order\":\"little-endian\",\"alignment\":8}},{\"name\":\"list\",\"field-class\":{\"type\":\"dynamic-length-array\",\"length-field-location\":{\"path\":[\"n\"]},\"element-field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":8,\"byte-order\":\"little-endian\",\"alignment\":8}}}]}}
";

/// Two packets with two records each, of both events.
fn stream() -> Vec<u8> {
    let mut all = Vec::new();
    for packet in 0..2_u64 {
        let begin = 1000 + packet * 1000;
        let mut records = Vec::new();
        records.extend((begin + 1).to_le_bytes());
        records.extend([0, 0, 6]);
        records.extend((packet as u32 * 10 + 7).to_le_bytes());
        records.extend((begin + 2).to_le_bytes());
        records.extend([1, 0, 5, 3, 0, 21, 22, 23]);
        let bits = (4 + 1 + 4 * 8 + records.len() as u64) * 8;
        all.extend(0xc1fc_1fc1_u32.to_le_bytes());
        all.push(0);
        for word in [bits, bits, begin, begin + 900] {
            all.extend(word.to_le_bytes());
        }
        all.extend(records);
    }
    all
}

fn shown(metadata: &str) -> Vec<String> {
    let folder = Folder::new();
    fs::write(folder.path().join("metadata"), metadata).unwrap();
    fs::write(folder.path().join("s"), stream()).unwrap();
    texts_of(folder.path())
}

/// Words, numbers and marks of a text, each with its place.
fn tokens(text: &str) -> Vec<(usize, usize)> {
    let (mut found, mut begin) = (Vec::new(), None);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        if is_word(c) {
            begin.get_or_insert(at);
            continue;
        }
        if let Some(begin) = begin.take() {
            found.push((begin, at));
        }
        if !c.is_whitespace() && c != '\u{1e}' {
            found.push((at, at + c.len_utf8()));
        }
    }
    found
}

/// Damages each word of the description so that it cannot be what it was: what is shown is of the true records.
fn check(text: &str, first: usize, is_legal: impl Fn(&str, &str) -> bool) {
    let whole = shown(text);
    assert_eq!(whole.len(), 4, "{whole:?}");
    let known: HashSet<&String> = whole.iter().collect();
    let mut seen = 0;
    for (begin, end) in tokens(text) {
        let token = &text[begin..end];
        let is_number = token.bytes().all(|byte| byte.is_ascii_digit());
        let slips: &[&str] =
            if is_number { &["x", "99999999999999999999999"] } else { &["", "zork"] };
        for slip in slips {
            if begin < first || is_legal(&text[..begin], token) {
                continue;
            }
            seen += 1;
            let slipped = format!("{}{slip}{}", &text[..begin], &text[end..]);
            for record in shown(&slipped) {
                let at = text[..begin].lines().count();
                assert!(
                    known.contains(&record),
                    "line {at}, '{token}' as '{slip}': invented {record}"
                );
            }
        }
    }
    assert!(seen > 100, "only {seen} slips were tried");
}

#[test]
fn unreadable_parts_of_tsdl_invent_no_record() {
    for (id, of, stream_id) in [("id = 0;", "stream_id = 0;", "stream_id"), ("", "", "unused")] {
        let text = TSDL.replace("STREAM_ID", stream_id).replace("ID", id).replace("OF", of);
        // Names of fields, of events and of a clock are anything that a text says; so is what is optional.
        let is_legal = |before: &str, token: &str| {
            let free = [
                "magic",
                "stream_id",
                "unused",
                "packet_size",
                "content_size",
                "timestamp_begin",
                "timestamp_end",
                "timestamp",
                "id",
                "level",
                "x",
                "n",
                "list",
                "a",
                "b",
                "h",
                "host",
                "\"",
                "env",
                "align",
                "map",
                "clock",
                "value",
                "c",
                "freq",
                "name",
                ";",
                "1.8",
                "CTF",
                "*",
                "/",
            ];
            let line = before.rsplit('\n').next().unwrap_or_default();
            free.contains(&token) || line.contains("map = ") || token.contains("clock.")
        };
        check(&text, 0, is_legal);
    }
}

#[test]
fn unreadable_parts_of_json_invent_no_record() {
    let is_legal = |before: &str, token: &str| {
        let value = before.ends_with(":\"") || before.ends_with("[\"");
        let key = !value && before.ends_with('"');
        // Names are free, and what has a default is absent under another name.
        let optional =
            ["id", "name", "data-stream-class-id", "alignment", "roles", "default-clock-class-id"];
        let named = before.ends_with("\"name\":\"") || before.ends_with("\"roles\":[\"");
        named || key && optional.contains(&token) || before.ends_with("\"path\":[\"")
    };
    check(JSON, JSON.find("trace-class").unwrap(), is_legal);
}

#[test]
fn text_without_a_streams_block_has_records_and_with_a_broken_one_has_none() {
    let bare = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
        typealias integer { size = 8; align = 8; } := u8;\nSTREAM\nevent { name = e; fields := struct { u8 x; }; };";
    let show = |stream: &str| {
        let folder = Folder::new();
        fs::write(folder.path().join("metadata"), bare.replace("STREAM", stream)).unwrap();
        fs::write(folder.path().join("s"), [1, 2, 3]).unwrap();
        texts_of(folder.path()).len()
    };
    assert_eq!(show(""), 3);
    for broken in [
        "stream { event.header := struct { none id; }; };",
        "stream { event.header := struct { u8 id; };",
        "stream { event.header := struct { u8 id } };",
        "strem { event.header := struct { u8 id; }; };",
        "stream { event.heder := struct { u8 id; }; };",
        "stream { id = x; event.header := struct { u8 id; }; };",
        "stream event.header := struct { u8 id; }; };",
    ] {
        assert_eq!(show(broken), 0, "{broken}");
    }
}
