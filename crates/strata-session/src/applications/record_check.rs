//! Verifies the written records of a process, so that readers can decode them.
//!
//! Packets are moved without decoding. So a process that overwrites its own buffers, on purpose or through a wild
//! pointer, can leave bytes that are no records; babeltrace2 then refuses the whole trace, with all other processes in
//! it. A trace that is found to have such bytes is set aside before.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

use strata_collect::Directory;
use strata_ctf::packet;
use strata_ctf::packet_records::RecordScanner;
use strata_model::{ByteOrder, StreamClass};

/// The most bytes of each file that are checked. A whole process takes up to a second \[byte\].
const LOOKED_AT: u64 = 256 << 20;

/// Returns a description of the first record in `folder` that cannot be right; `None` if the checked part of the
/// files has no such record.
pub(crate) fn impossible_record(folder: &Directory, class: &StreamClass) -> Option<String> {
    let scanner = RecordScanner::new(class, ByteOrder::NATIVE).ok()?;
    let mut names = folder.names().ok()?;
    names.sort();
    for name in names {
        if !name.as_bytes().starts_with(b"channel") {
            continue;
        }
        // Errors on reading are reported where the file is needed.
        let found = folder.read(&name).and_then(|file| look_through(&file, &scanner));
        if let Ok(Some(text)) = found {
            return Some(format!("{}, {text}", name.to_string_lossy()));
        }
    }
    None
}

fn look_through(file: &File, scanner: &RecordScanner) -> io::Result<Option<String>> {
    let size = file.metadata()?.len();
    let (mut at, mut number, mut body) = (0, 0u64, Vec::new());
    while at < size.min(LOOKED_AT) {
        let mut header = [0; packet::HEADER_BYTES];
        file.read_exact_at(&mut header, at)?;
        let [content, whole] = [packet::CONTENT_BITS_OFFSET, packet::PACKET_BITS_OFFSET]
            .map(|offset| bits_at(&header, offset) / 8);
        let Some(bytes) = content.checked_sub(packet::HEADER_BYTES as u64) else { return Ok(None) };
        if whole < content || whole > size - at {
            return Ok(None);
        }
        body.resize(bytes as usize, 0);
        file.read_exact_at(&mut body, at + packet::HEADER_BYTES as u64)?;
        if let Err(error) = scanner.count(&body) {
            return Ok(Some(format!("packet {number}: {error}")));
        }
        at += whole;
        number += 1;
    }
    Ok(None)
}

fn bits_at(header: &[u8; packet::HEADER_BYTES], offset: u64) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&header[offset as usize..][..8]);
    u64::from_ne_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch_tests::Scratch;
    use strata_model::{EventClass, Field, FieldClass, Integer, RecordHeader};

    fn written(name: &str, bodies: &[&[u8]]) -> Directory {
        let folder = std::env::temp_dir().join(format!("strata-{name}-{}", std::process::id()));
        let directory = Directory::create(&folder).unwrap();
        let mut bytes = Vec::new();
        for body in bodies {
            let header = packet::Header::default().with_content_bytes(body.len() as u64);
            bytes.extend_from_slice(&header.encode());
            bytes.extend_from_slice(body);
        }
        std::fs::write(folder.join("channel0_0"), bytes).unwrap();
        directory
    }

    fn class() -> StreamClass {
        let field = Field::new("x", FieldClass::Integer(Integer::unsigned(8)));
        let event = EventClass {
            id: 1,
            provider: "p".into(),
            name: "e".into(),
            fields: vec![field],
            ..EventClass::default()
        };
        let (name, header) = ("channel0".into(), RecordHeader::Compact);
        StreamClass { id: 0, name, header, context: Vec::new(), events: vec![event] }
    }

    /// Event record 1 with 8 bytes, as it lies in memory on this machine.
    fn record(id: u32) -> Vec<u8> {
        let word = if cfg!(target_endian = "big") { id << 27 } else { id };
        [&word.to_ne_bytes()[..], &[7; 8]].concat()
    }

    #[test]
    fn records_that_can_be_are_found_possible() {
        let folder = written("verify-good", &[&[record(1), record(1)].concat(), &[], &record(1)]);
        let found = impossible_record(&folder, &class());
        std::fs::remove_dir_all(folder.path()).unwrap();
        assert_eq!(found, None);
    }

    #[test]
    fn malicious_record_is_found_with_file_and_packet() {
        let cut = &record(1)[..9];
        for (what, bad) in [("verify-id", &record(5)[..]), ("verify-cut", cut)] {
            let folder = written(what, &[&record(1), bad]);
            let found = impossible_record(&folder, &class());
            std::fs::remove_dir_all(folder.path()).unwrap();
            assert!(found.unwrap().starts_with("channel0_0, packet 1: "), "{what}");
        }
    }

    /// Creates a folder with one file of these bytes.
    fn raw(scratch: &Scratch, name: &str, bytes: &[u8]) -> Directory {
        let path = scratch.0.join(name);
        let directory = Directory::create(&path).unwrap();
        std::fs::write(path.join("channel0_0"), bytes).unwrap();
        directory
    }

    /// Returns a packet with this body, whose header has these sizes of content and packet.
    fn packet(body: &[u8], content: Option<u64>, whole: Option<u64>) -> Vec<u8> {
        let header = packet::Header::default().with_content_bytes(body.len() as u64);
        let mut bytes = header.encode().to_vec();
        for (offset, bits) in
            [(packet::CONTENT_BITS_OFFSET, content), (packet::PACKET_BITS_OFFSET, whole)]
        {
            if let Some(bits) = bits {
                bytes[offset as usize..][..8].copy_from_slice(&bits.to_ne_bytes());
            }
        }
        [&bytes, body].concat()
    }

    #[test]
    fn malicious_sizes_in_a_packet_s_header_are_the_reader_s_to_tell_and_hang_nothing() {
        let scratch = Scratch::new("verify-sizes");
        let bad = record(5);
        let good = packet(&record(1), None, None);
        for (name, content, whole) in [
            ("zero", Some(0), Some(0)),
            ("below-header", Some(8), None),
            ("beyond-file", None, Some(1 << 40)),
            ("largest", Some(u64::MAX), Some(u64::MAX)),
            ("content-beyond-packet", Some(1 << 20), Some(1 << 10)),
        ] {
            let bytes = [good.clone(), packet(&bad, content, whole)].concat();
            assert_eq!(impossible_record(&raw(&scratch, name, &bytes), &class()), None, "{name}");
        }
        // A header that is cut off.
        let cut = &[good.clone(), good.clone()].concat()[..good.len() + 10];
        assert_eq!(impossible_record(&raw(&scratch, "cut", cut), &class()), None);
        assert_eq!(impossible_record(&raw(&scratch, "empty", b""), &class()), None);
        // The same bytes with sizes that are right are found.
        let bytes = [good, packet(&bad, None, None)].concat();
        assert!(impossible_record(&raw(&scratch, "right", &bytes), &class()).is_some());
    }

    #[test]
    fn first_file_with_a_record_that_cannot_be_is_named_and_other_files_are_not_looked_at() {
        let scratch = Scratch::new("verify-files");
        let path = scratch.0.join("t");
        let directory = Directory::create(&path).unwrap();
        let (good, bad) = (packet(&record(1), None, None), packet(&record(5), None, None));
        for (name, bytes) in [
            ("metadata", &bad),
            ("statedump_0", &bad),
            ("channel0_0", &good),
            ("channel0_3", &bad),
            ("channel0_2", &bad),
        ] {
            std::fs::write(path.join(name), bytes).unwrap();
        }
        // What is no file is passed over.
        std::fs::create_dir(path.join("channel0_1")).unwrap();
        let found = impossible_record(&directory, &class()).unwrap();
        assert!(found.starts_with("channel0_2, packet 0: "), "{found}");
    }
}
