//! A last look at what was written of a process: are its records such that a reader can decode them?
//!
//! Packets are moved without decoding, so a process that writes over its own buffers, by malice or by a wild
//! pointer, can leave bytes that are no records; babeltrace2 then refuses the whole trace, with all other
//! processes in it. What is found here is set aside before.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

use strata_collect::Directory;
use strata_ctf::packet;
use strata_ctf::walk::Walker;
use strata_model::{ByteOrder, StreamClass};

/// How much of each file is looked at: a second for a whole process at the most \[byte\].
const LOOKED_AT: u64 = 256 << 20;

/// The first record in `folder` that cannot be, in words. `None`: there is none in what was looked at.
pub(crate) fn impossible_record(folder: &Directory, class: &StreamClass) -> Option<String> {
    let walker = Walker::new(class, ByteOrder::NATIVE).ok()?;
    let mut names = folder.names().ok()?;
    names.sort();
    for name in names {
        if !name.as_bytes().starts_with(b"channel") {
            continue;
        }
        // What cannot be read is told by whoever wants to read it.
        let found = folder.read(&name).and_then(|file| look_through(&file, &walker));
        if let Ok(Some(text)) = found {
            return Some(format!("{}, {text}", name.to_string_lossy()));
        }
    }
    None
}

fn look_through(file: &File, walker: &Walker) -> io::Result<Option<String>> {
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
        if let Err(error) = walker.count(&body) {
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
            loglevel: None,
            emf_uri: None,
            fields: vec![field],
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
}
