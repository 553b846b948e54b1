//! Tests of packetised metadata.

use super::*;

const TEXT: &str = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };\n\
                    env { a = \"ä\"; };\nevent { name = e; id = 1; };\nevent { name = f; id = 2; };\n";

fn packet(content: &[u8], padding: usize, big: bool) -> Vec<u8> {
    let number = |number: u32| if big { number.to_be_bytes() } else { number.to_le_bytes() };
    let content_bits = (37 + content.len() as u32) * 8;
    let mut out = number(0x75D1_1D57).to_vec();
    out.extend([7; 16]);
    out.extend(number(0));
    out.extend(number(content_bits));
    out.extend(number(content_bits + padding as u32 * 8));
    out.extend([0, 0, 0, 1, 8]);
    out.extend(content);
    out.extend(vec![0; padding]);
    out
}

fn packets(size: usize, padding: usize, big: bool) -> Vec<u8> {
    TEXT.as_bytes().chunks(size).flat_map(|content| packet(content, padding, big)).collect()
}

fn names(schema: &Schema) -> String {
    schema
        .streams
        .iter()
        .flat_map(|stream| &stream.events)
        .map(|event| event.name.as_str())
        .collect()
}

#[test]
fn packets_of_any_size_and_order_are_the_text() {
    let plain = parse(TEXT.as_bytes()).unwrap();
    for big in [false, true] {
        for size in [1, 2, 7, 60, 1000] {
            for padding in [0, 1, 100] {
                let found = parse(&packets(size, padding, big));
                assert_eq!(found.as_ref(), Ok(&plain), "{size} {padding} {big}");
            }
        }
    }
}

#[test]
fn packets_that_break_off_give_their_text_and_a_problem() {
    let whole = packets(60, 3, false);
    let size = 60 + 37 + 3;
    for length in 37..whole.len() {
        let Ok(parsed) = parse_tolerant(&whole[..length]) else {
            let head = TEXT.find("};").unwrap() + 2;
            assert!(length < size + 37 + head - 60, "{length}");
            continue;
        };
        // If the text ends between packets, only a broken block shows that packets are missing.
        if length % size != 0 {
            assert!(!parsed.problems.is_empty(), "{length}");
        }
        assert!(["", "e", "ef"].contains(&names(&parsed.schema).as_str()));
    }
    let parsed = parse_tolerant(&whole[..whole.len() - 1]).unwrap();
    assert_eq!(names(&parsed.schema), "ef");
    let last = whole.len() / size;
    let tail = whole.len() - last * size;
    let expected = format!(
        "metadata: packet {last} (offset {:#x}): bytes left in the file is {}, expected {tail}",
        last * size,
        tail - 1
    );
    assert_eq!(parsed.problems[0].to_string(), expected);
}

#[test]
fn packets_that_cannot_be_say_what_is_wrong() {
    let cases: [(usize, &[u8], &str); 8] = [
        (97 + 3, &[0x76], "packet 1 (offset 0x61): magic number is 0x76d11d57, expected 0x75d11d57"),
        (97 + 24, &[0, 0, 0, 0], "packet 1 (offset 0x61): content size is 0, expected whole bytes, at least 296 bits"),
        (97 + 24, &[0x29, 1, 0, 0], "packet 1 (offset 0x61): content size is 297, expected whole bytes, at least 296 bits"),
        (97 + 28, &[0, 1, 0, 0], "packet 1 (offset 0x61): packet size is 256, expected whole bytes, at least the content's 776 bits"),
        (97 + 28, &[0xff; 4], "packet 1 (offset 0x61): packet size is 4294967295, expected whole bytes, at least the content's 776 bits"),
        (97 + 32, &[1], "packet 1 (offset 0x61): compression is 1, expected 0"),
        (97 + 33, &[2], "packet 1 (offset 0x61): encryption is 2, expected 0"),
        (97 + 35, &[3], "packet 1 (offset 0x61): major version is 3, expected 1 or 2"),
    ];
    for (offset, bytes, expected) in cases {
        let mut metadata = packets(60, 0, false);
        metadata[offset..offset + bytes.len()].copy_from_slice(bytes);
        // The first packet has only a part of the trace block.
        let error = parse_tolerant(&metadata).unwrap_err();
        assert_eq!(error.to_string(), format!("metadata: {expected}"));
        assert_eq!((error.line, error.column), (0, 0));
    }
    let error = parse_tolerant(&packet(b"", 0, false)[..20]).unwrap_err();
    let expected = "metadata: packet 0 (offset 0x0): bytes left in the file is 20, expected 37";
    assert_eq!(error.to_string(), expected);
}
