//! A packet whose content ends within a record: no event comes of the bytes behind it.

use crate::read_support::{all, all_by_run, all_in_turns};
use crate::support::Folder;
use std::fs;
use std::path::Path;
use strata_ctf::read::{DamageKind, Message, Reader, TimeRange};

const BYTE: &str = r#"{"type":"fixed-length-unsigned-integer","length":8,"alignment":8,"byte-order":"little-endian"}"#;

fn unsigned(bits: u32, align: u32, role: &str) -> String {
    let roles = if role.is_empty() { String::new() } else { format!(r#","roles":["{role}"]"#) };
    format!(
        r#"{{"type":"fixed-length-unsigned-integer","length":{bits},"alignment":{align},"byte-order":"little-endian"{roles}}}"#
    )
}

fn structure(align: u32, members: &[(&str, &str)]) -> String {
    let member =
        |(name, class): &(&str, &str)| format!(r#"{{"name":"{name}","field-class":{class}}}"#);
    let members: Vec<String> = members.iter().map(member).collect();
    format!(
        r#"{{"type":"structure","minimum-alignment":{align},"member-classes":[{}]}}"#,
        members.join(",")
    )
}

/// Returns each way in which a record can exceed its packet: a field's class, and its bytes with those before it that
/// it needs, after one byte of the record.
fn fields() -> Vec<(&'static str, String, Vec<u8>)> {
    let at = |name: &str| format!(r#"{{"path":["{name}"]}}"#);
    let dynamic = |kind: &str, more: &str| {
        format!(r#"{{"type":"dynamic-length-{kind}","length-field-location":{}{more}}}"#, at("n"))
    };
    let option =
        format!(r#"{{"selector-field-ranges":[[4,4]],"field-class":{}}}"#, unsigned(64, 8, ""));
    let wide =
        |kind: &str, more: &str| format!(r#"{{"type":"{kind}","encoding":"utf-16le"{more}}}"#);
    let element = format!(r#","element-field-class":{BYTE}"#);
    let texts = r#","element-field-class":{"type":"null-terminated-string"}"#;
    let real = r#"{"type":"fixed-length-floating-point-number","length":64,"alignment":8,"byte-order":"little-endian"}"#;
    vec![
        ("integer", unsigned(64, 8, ""), b"\x0dhostile".to_vec()),
        ("bits", unsigned(29, 1, ""), b"abcd".to_vec()),
        ("real", real.into(), b"\x0dhostile".to_vec()),
        (
            "leb",
            r#"{"type":"variable-length-unsigned-integer"}"#.into(),
            vec![0x81, 0x90, 0xa0, 0xb0, 3],
        ),
        ("text", r#"{"type":"null-terminated-string"}"#.into(), b"techno!\0".to_vec()),
        ("wide", wide("null-terminated-string", ""), b"t\0e\0\0\0".to_vec()),
        (
            "static text",
            r#"{"type":"static-length-string","length":9}"#.into(),
            b"z techno!".to_vec(),
        ),
        ("dynamic text", dynamic("string", ""), b"four".to_vec()),
        (
            "wide dynamic text",
            wide("dynamic-length-string", &format!(r#","length-field-location":{}"#, at("n"))),
            b"f\0o\0".to_vec(),
        ),
        (
            "static array",
            format!(r#"{{"type":"static-length-array","length":5{element}}}"#),
            b"array".to_vec(),
        ),
        ("sequence", dynamic("array", &element), b"four".to_vec()),
        ("sequence of texts", dynamic("array", texts), b"a\0b\0c\0d\0".to_vec()),
        (
            "static blob",
            r#"{"type":"static-length-blob","length":6}"#.into(),
            b"\x01\x02\x03\x04\x05\x06".to_vec(),
        ),
        ("blob", dynamic("blob", ""), b"\x21\x00\x40\x00".to_vec()),
        (
            "structure",
            structure(1, &[("a", BYTE), ("b", &unsigned(32, 8, ""))]),
            b"\x18\x00\x18\x00\x18".to_vec(),
        ),
        (
            "variant",
            format!(
                r#"{{"type":"variant","selector-field-location":{},"options":[{option}]}}"#,
                at("n")
            ),
            b"\x0dhostile".to_vec(),
        ),
        (
            "optional",
            format!(
                r#"{{"type":"optional","selector-field-location":{},"selector-field-ranges":[[4,4]],"field-class":{}}}"#,
                at("n"),
                unsigned(64, 8, "")
            ),
            b"\x0dhostile".to_vec(),
        ),
        // Behind padding of seven bytes.
        ("padding", structure(64, &[("a", BYTE)]), vec![7]),
    ]
}

/// Size of a packet's head without the magic number, and where its first record begins \[byte\].
const HEAD: usize = 4;

struct Case {
    class: String,
    record: Vec<u8>,
    magic: bool,
}

impl Case {
    fn metadata(&self) -> String {
        let magic = structure(1, &[("magic", &unsigned(32, 8, "packet-magic-number"))]);
        let header = if self.magic {
            format!(r#","packet-header-field-class":{magic}"#)
        } else {
            String::new()
        };
        let context = structure(
            1,
            &[
                ("content", &unsigned(16, 8, "packet-content-length")),
                ("total", &unsigned(16, 8, "packet-total-length")),
            ],
        );
        let payload = structure(1, &[("n", BYTE), ("f", &self.class), ("last", BYTE)]);
        let fragments = [
            r#"{"type":"preamble","version":2}"#.to_owned(),
            format!(r#"{{"type":"trace-class"{header}}}"#),
            format!(r#"{{"type":"data-stream-class","packet-context-field-class":{context}}}"#),
            format!(
                r#"{{"type":"event-record-class","name":"e","payload-field-class":{payload}}}"#
            ),
        ];
        fragments.iter().map(|fragment| format!("\x1e{fragment}\n")).collect()
    }

    /// Makes a packet with these bytes of records, of which so many bits count.
    fn packet(&self, records: &[u8], bits: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.magic {
            bytes.extend(0xc1fc_1fc1_u32.to_le_bytes());
        }
        let head = bytes.len() + HEAD;
        bytes.extend(((head * 8 + bits) as u16).to_le_bytes());
        bytes.extend((((head + bits.div_ceil(8).max(records.len())) * 8) as u16).to_le_bytes());
        bytes.extend(records);
        bytes
    }

    /// Writes the trace, reads it, and returns the number of events and the damage.
    fn read(&self, folder: &Path, stream: &[u8]) -> (usize, Vec<DamageKind>) {
        fs::write(folder.join("metadata"), self.metadata()).unwrap();
        fs::write(folder.join("stream"), stream).unwrap();
        let reader = Reader::open(&[folder]).unwrap();
        let (mut count, mut damage) = (0, Vec::new());
        let mut events = reader.events(TimeRange::ALL);
        while let Some(message) = events.next() {
            match message {
                Message::Event(_) => count += 1,
                Message::Damage(it) => damage.push(it.what.clone()),
                _ => {}
            }
        }
        if stream.len() % 5 > 0 {
            return (count, damage);
        }
        // However it is gone through, and in however many slices, it is the same.
        let whole = all(reader.events(TimeRange::ALL));
        assert_eq!(all_by_run(reader.events(TimeRange::ALL)), whole);
        assert_eq!(all_in_turns(reader.events(TimeRange::ALL)), whole);
        (count, damage)
    }
}

/// Checks all fields, with and without a magic number, and with the record cut at each byte and within it.
fn each(check: impl Fn(&str, &Case, &Path, usize)) {
    let folder = Folder::new();
    for (name, class, field) in fields() {
        for magic in [false, true] {
            // One byte of the record is in front of the field, and one behind it.
            let mut record = vec![4];
            if name == "padding" {
                // The record begins with the packet's byte 8, and the field with byte 16.
                record = vec![0xaa; if magic { 0 } else { 4 }];
                record.extend([4, 1, 1, 1, 1, 1, 1, 1]);
            }
            record.extend(&field);
            record.push(9);
            let case = Case { class: class.clone(), record, magic };
            // At each byte and within it.
            for bits in (1..case.record.len() * 8).filter(|bits| matches!(bits % 8, 0 | 3)) {
                check(name, &case, folder.path(), bits);
            }
        }
    }
}

#[test]
fn malicious_field_beyond_the_content_makes_no_event_of_what_is_behind() {
    each(|name, case, folder, bits| {
        // The packet says that it ends in the record, and the record goes on; then come bytes of any kind.
        for tail in [
            &b""[..],
            b"z techno! restez",
            &[0x28, 0, 0x28, 0, 4, 4, 4],
            &[0x40, 0, 0x50, 0, 4, 0, 0, 0, 0],
        ] {
            let cut = bits.div_ceil(8);
            let mut stream = case.packet(&case.record[..cut], bits);
            stream.extend(&case.record[cut..]);
            stream.extend(tail);
            let (count, damage) = case.read(folder, &stream);
            assert_eq!(count, 0, "{name}, {bits} bits, {tail:?}: {damage:?}");
            assert!(!damage.is_empty(), "{name}, {bits} bits");
        }
    });
}

#[test]
fn field_beyond_the_content_leaves_the_packets_that_can_be_distinguished() {
    each(|name, case, folder, bits| {
        // The padding has the rest of the record, so that the size is right, and an intact packet is behind it.
        let mut stream = case.packet(&case.record, bits);
        let intact = case.packet(&case.record, case.record.len() * 8);
        stream.extend(&intact);
        let (count, damage) = case.read(folder, &stream);
        assert_eq!((count, damage.len()), (1, 1), "{name}, {bits} bits: {damage:?}");
        assert!(matches!(damage[0], DamageKind::Record { .. }), "{name}: {damage:?}");
        // With a magic number also where the file ends too early.
        stream.pop();
        let (count, damage) = case.read(folder, &stream);
        assert_eq!(count, 0, "{name}, {bits} bits: {damage:?}");
        let is_unframed = damage.iter().any(|what| matches!(what, DamageKind::NoFraming { .. }));
        assert_eq!(is_unframed, !case.magic, "{name}, {bits} bits: {damage:?}");
    });
}

#[test]
fn packets_without_magic_numbers_of_a_file_that_ends_early_are_shown() {
    let case = Case { class: BYTE.into(), record: vec![1, 2, 3], magic: false };
    let folder = Folder::new();
    let packet = case.packet(&[1, 2, 3, 1, 2, 3], 48);
    let mut stream = [&packet[..], &packet, &packet].concat();
    stream.pop();
    let (count, damage) = case.read(folder.path(), &stream);
    assert_eq!(count, 5);
    assert!(matches!(damage[..], [DamageKind::Truncated { .. }]), "{damage:?}");
}
