//! A file of another tracer, rewritten as a trace, which can be read.

use std::fs;

use strata_ctf::read::{Message, Reader, TimeRange};
use strata_import::{convert, Origin};
use strata_model::Uuid;

use crate::files::root;

/// A trace has at most so many times the bytes of its file, beside what each has. What is compressed becomes up to so many more.
const GROWTH: u64 = 16;
const UNPACKED: u64 = 1 << 10;
const UNPACKED_EACH: u64 = 64 << 20;
/// The begin of a frame of Zstandard.
const FRAME: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const EACH: u64 = 64 << 10;

pub fn run(input: &[u8]) {
    let (file, folder) = (root().join("import.data"), root().join("import"));
    fs::write(&file, input).expect("a file");
    fs::create_dir(&folder).expect("a folder for the trace");
    if let Some(origin) = Origin::of(&file) {
        match convert(origin, &file, &folder, Uuid([1; 16]), &|| false) {
            Ok(imported) => {
                let files = fs::read_dir(&folder).expect("the trace").flatten();
                let bytes: u64 = files.map(|file| file.metadata().map_or(0, |it| it.len())).sum();
                let mut read = input.len() as u64;
                if input.windows(FRAME.len()).any(|bytes| bytes == FRAME) {
                    read = read * UNPACKED + UNPACKED_EACH;
                }
                assert!(bytes <= GROWTH * read + EACH, "{bytes} bytes");
                let reader = Reader::open(&[&folder]).expect("a trace");
                let (mut events, mut records) = (reader.events(TimeRange::ALL), 0);
                while let Some(message) = events.next() {
                    match message {
                        Message::Event(_) => records += 1,
                        Message::Damage(damage) => panic!("{damage}"),
                        _ => {}
                    }
                }
                assert!(records >= imported.samples, "{records} {}", imported.samples);
            }
            Err(error) => assert!(error.to_string().len() < 1000),
        }
    }
    fs::remove_dir_all(&folder).expect("the trace");
    fs::remove_file(&file).expect("the file");
}
