//! A part of a trace as a trace: what was chosen is what it has.

use std::fs;

use crate::files::root;
use strata_ctf::cut::{CutError, Cutter};
use strata_ctf::read::{Event, Message, Reader, TimeRange};

/// One of so many event records.
pub fn check(reader: &Reader, one_in: usize) {
    let folder = root().join("cut");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).expect("a folder for the part");
    let kept = cut(reader, &folder, one_in);
    if let Some(mut kept) = kept.filter(|kept| !kept.is_empty()) {
        let reader = Reader::open(&[&folder]).expect("a trace");
        let mut found = Vec::new();
        let mut events = reader.events(TimeRange::ALL);
        while let Some(message) = events.next() {
            if let Message::Event(event) = message {
                found.push(told(&event));
            }
        }
        kept.sort();
        found.sort();
        assert!(found == kept, "one in {one_in}: {found:#?}\nwanted {kept:#?}");
    }
    let _ = fs::remove_dir_all(&folder);
}

/// What was chosen; `None`: the description cannot say it.
fn cut(
    reader: &Reader,
    folder: &std::path::Path,
    one_in: usize,
) -> Option<Vec<(String, Option<u64>)>> {
    let mut cutter = Cutter::new(reader, folder, TimeRange::ALL).expect("a part");
    let mut kept = Vec::new();
    let mut events = reader.events(TimeRange::ALL);
    let mut number = 0;
    while let Some(message) = events.next() {
        let done = match message {
            Message::Event(event) => {
                number += 1;
                if number % one_in != 0 {
                    continue;
                }
                kept.push(told(&event));
                cutter.event(&event)
            }
            Message::Discarded(discarded) => cutter.discarded(&discarded),
            _ => Ok(()),
        };
        match done {
            Ok(()) => {}
            Err(error) => return refused(&error),
        }
    }
    match cutter.finish() {
        Ok(_) => Some(kept),
        Err(error) => refused(&error),
    }
}

fn told(event: &Event<'_>) -> (String, Option<u64>) {
    (event.class().name().to_owned(), event.cycles())
}

fn refused<T>(error: &CutError) -> Option<T> {
    let text = error.to_string();
    let is_refused = matches!(error, CutError::Refused { .. });
    // Nobody has changed it.
    assert!(is_refused && !text.contains("was changed"), "{text}");
    None
}
