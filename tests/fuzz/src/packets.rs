//! A trace's packets, read wholly, in slices, in parts and by seeking.

use crate::cut;
use crate::files::{metadata_and_more, Files};
use crate::seen::{all, all_by_run, Seen};
use crate::shapes::{Shape, COUNT, SHAPES};
use std::sync::OnceLock;
use strata_ctf::read::{Reader, TimeRange};

/// What an input says beside its bytes: how they become files, and how these are read.
struct Flags(u8);

impl Flags {
    /// The bytes are in so many files.
    fn files(&self) -> usize {
        1 + usize::from(self.0 & 1)
    }

    /// The last part of the bytes is an index of the first file.
    fn has_index(&self) -> bool {
        self.0 & 2 != 0
    }

    /// In front of the bytes there are intact packets.
    fn is_behind_intact(&self) -> bool {
        self.0 & 4 != 0
    }

    /// Bytes of a slice.
    fn slice(&self) -> u64 {
        [1, 40, 300, u64::MAX][usize::from(self.0 >> 3 & 3)]
    }

    /// The part of the trace's time that is read on its own.
    fn range(&self, span: TimeRange) -> TimeRange {
        let length = span.to.saturating_sub(span.from);
        let from = span.from.saturating_add(length / 8 * i64::from(self.0 >> 5));
        TimeRange { from, to: from.saturating_add(length / 4) }
    }
}

/// An index into the shapes, flags, bytes.
pub fn run(input: &[u8]) {
    let [shape, flags, bytes @ ..] = input else { return };
    let index = usize::from(*shape) % SHAPES.len();
    let (shape, flags) = (&SHAPES[index], Flags(*flags));
    if !flags.is_behind_intact() || shape.stream.is_empty() {
        drop(check(shape.metadata, &flags, bytes));
        return;
    }
    let expected = intact(index);
    let found = check(shape.metadata, &flags, &[shape.stream, bytes].concat());
    // V2: what is intact is shown, whatever comes behind it.
    if flags.files() == 1 && !flags.has_index() {
        let found = events(&found.unwrap_or_default());
        let all_there = found.starts_with(expected);
        assert!(all_there, "intact: {expected:#?}\nwith more behind it: {found:#?}");
    }
}

/// The events of a shape's own stream.
fn intact(index: usize) -> &'static [Seen] {
    static INTACT: [OnceLock<Vec<Seen>>; COUNT] = [const { OnceLock::new() }; COUNT];
    INTACT[index].get_or_init(|| {
        let Shape { metadata, stream } = &SHAPES[index];
        events(&check(metadata, &Flags(0), stream).expect("an intact trace can be opened"))
    })
}

/// Metadata, a zero byte, flags, bytes.
pub fn run_with_metadata(input: &[u8]) {
    let Some((metadata, rest)) = metadata_and_more(input) else { return };
    if let Some((flags, bytes)) = rest.split_first() {
        check(metadata, &Flags(*flags), bytes);
    }
}

/// All messages, the same in all ways of reading. `None`: the trace cannot be opened.
fn check(metadata: &[u8], flags: &Flags, bytes: &[u8]) -> Option<Vec<Seen>> {
    let mut files = Files::new();
    files.add("metadata", metadata);
    let parts = flags.files() + usize::from(flags.has_index());
    let size = bytes.len().div_ceil(parts).max(1);
    let part = |number: usize| bytes.chunks(size).nth(number).unwrap_or_default();
    files.add("a", part(0));
    if flags.files() > 1 {
        files.add("b", part(1));
    }
    if flags.has_index() {
        files.add("index/a.idx", part(parts - 1));
    }
    let reader = match Reader::open(&[files.folder()]) {
        Ok(reader) => reader,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    let whole = all(reader.events(TimeRange::ALL));
    same("run", &all_by_run(reader.events(TimeRange::ALL)), &whole);
    pieces(&reader, &whole, flags);
    // It makes files, so not of each input.
    if flags.0 & 0x18 == 0 {
        cut::check(&reader, 1 + usize::from(flags.0 >> 5));
    }
    Some(whole)
}

fn events(all: &[Seen]) -> Vec<Seen> {
    all.iter().filter(|seen| seen.kind == "event").cloned().collect()
}

/// V8: slices one behind the other are the whole, and so are parts.
fn pieces(reader: &Reader, whole: &[Seen], flags: &Flags) {
    let slices = reader.slices(TimeRange::ALL, flags.slice());
    let found: Vec<_> = slices.flat_map(|slice| all(reader.events_of(&slice))).collect();
    same("slices", &found, whole);
    let parts = reader.parts(flags.slice());
    let found: Vec<_> = parts.flat_map(|part| all(reader.events_of_part(&part))).collect();
    let mut sorted = [found, whole.to_vec()];
    sorted.iter_mut().for_each(|all| all.sort());
    same("parts", &sorted[0], &sorted[1]);
    let Some(span) = reader.span() else { return };
    let range = flags.range(span);
    let found = all(reader.events(range));
    let slices = reader.slices(range, flags.slice());
    let sliced: Vec<_> = slices.flat_map(|slice| all(reader.events_of(&slice))).collect();
    same("slices of a range", &sliced, &found);
    // Each event of the range is one of the whole, in their order.
    let mut rest = whole.iter();
    for event in events(&found) {
        assert!(rest.any(|other| *other == event), "{event:?} of {range:?} is not in the whole");
    }
}

fn same(what: &str, found: &[Seen], expected: &[Seen]) {
    if found != expected {
        let at = found.iter().zip(expected).take_while(|(one, other)| one == other).count();
        let near = |all: &[Seen]| format!("{:#?}", all.iter().skip(at).take(3).collect::<Vec<_>>());
        let (found_near, expected_near) = (near(found), near(expected));
        let (found, expected) = (found.len(), expected.len());
        panic!(
            "{what}: {found} messages of {expected}; from {at} on {found_near} not {expected_near}"
        );
    }
}
