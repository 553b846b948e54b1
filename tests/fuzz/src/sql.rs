//! A trace as a database.

use crate::files::{metadata_and_more, root, Files};
use std::fs;
use strata_analyze::debug_info::SourceOptions;
use strata_ctf::read::{Message, Reader, TimeRange};
use strata_export::sql::{Exporter, Options, Summary};

/// Metadata, a zero byte, two bytes of flags, bytes of one or two streams.
pub fn run(input: &[u8]) {
    let Some((metadata, [files_flag, flags, bytes @ ..])) = metadata_and_more(input) else {
        return;
    };
    let mut files = Files::new();
    files.add_streams(metadata, usize::from(files_flag & 1) + 1, bytes);
    let Ok(reader) = Reader::open(&[files.folder()]) else { return };
    // Hidden: it is no stream of the next trace.
    let path = root().join(".database");
    let _ = fs::remove_file(&path);
    let span = reader.span().unwrap_or(TimeRange::ALL);
    let middle = span.from / 2 + span.to / 2;
    let options = Options {
        range: match flags & 1 {
            0 => TimeRange::ALL,
            _ => TimeRange { from: middle, ..TimeRange::ALL },
        },
        events: flags & 2 == 0,
        pairs: vec!["*a=*b:id".parse().expect("a pair")],
        counters: vec!["*".parse().expect("a counter")],
        // A trace of any bytes names any file: none is opened.
        names: SourceOptions { no_symbols: true, ..SourceOptions::default() },
    };
    let mut exporter = Exporter::new(&reader, &path, &options, || false).expect("a thread");
    let mut events = reader.events(TimeRange::ALL);
    let (mut number, mut wanted) = (0u64, 0u64);
    while let Some(message) = events.next() {
        // What a table does not allow, SQLite says: that is a mistake of ours, whatever the trace has.
        match message {
            Message::Event(event) => {
                number += 1;
                let selected = flags & 4 == 0 || number % 3 != 0;
                let is_in = event.time().is_none_or(|time| options.range.contains(time));
                wanted += u64::from(selected && is_in);
                exporter.event(&event, selected)
            }
            Message::Packet(_) => Ok(()),
            Message::Discarded(it) => exporter.discarded(&it),
            Message::Damage(damage) => exporter.damage(damage, reader.stream_of(damage)),
        }
        .expect("a row that the table allows");
    }
    let Summary { events, bytes, .. } = exporter.finish(false).expect("a database");
    assert_eq!(events, wanted);
    assert_eq!(bytes, fs::metadata(&path).expect("the database").len());
}
