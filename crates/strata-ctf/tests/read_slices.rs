//! Slices of traces with many packets: what is kept of them does not grow with their number.

mod read_support;
mod support;

use read_support::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use strata_ctf::read::{Reader, TimeRange};

/// Counts what a thread has of memory, and the most it ever had.
struct Counting;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    let _ = NOW.try_with(|now| {
        now.set(now.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(now.get())));
    });
}

// SAFETY: all is the system's allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const PACKETS: u64 = 20_000;
const NONE: [u8; 8] = [0; 8];

/// Small packets whose times are of a kind, a record in every hundredth.
fn small(times: impl Fn(u64) -> (u64, u64)) -> Vec<u8> {
    let packet = |number| {
        let (begin, end) = times(number);
        let records = [(begin.min(end), number as u8)];
        let records = if number % 100 == 0 { &records[..] } else { &[] };
        tiny_packet(begin, end, &NONE, records)
    };
    (0..PACKETS).flat_map(packet).collect()
}

/// A packet of all the time, as long as all small ones.
fn long() -> Vec<u8> {
    let records: Vec<_> = (0..100_000).map(|number| (2 * number, 0)).collect();
    tiny_packet(0, 10 * PACKETS + 5, &NONE, &records)
}

fn behind(number: u64) -> (u64, u64) {
    (10 * number, 10 * number + 5)
}

/// Returns the most memory that finding all slices takes \[byte\], and the number of slices.
fn taken(reader: &Reader, bytes: u64) -> (isize, usize) {
    let before = NOW.with(Cell::get);
    MOST.with(|most| most.set(before));
    let count = reader.slices(TimeRange::ALL, bytes).count();
    (MOST.with(Cell::get) - before, count)
}

#[test]
fn memory_for_slices_does_not_grow_with_the_number_of_packets() {
    let kinds = [
        ("in order", vec![("one", small(behind))]),
        ("at one time", vec![("one", small(|_| (5, 5)))]),
        ("no end", vec![("one", small(|number| (10 * number, 0)))]),
        ("below a long one", {
            vec![("one", small(|n| (10 * n, 10 * n + if n == 0 { 1 << 40 } else { 5 })))]
        }),
        ("beside a long one", vec![("one", small(behind)), ("two", long())]),
    ];
    for (name, files) in kinds {
        let folder = tiny(&files);
        let reader = Reader::open(&[folder.path()]).unwrap();
        for bytes in [256 << 10, 64 << 20] {
            let (most, _) = taken(&reader, bytes);
            assert!(most < 2 << 20, "{name}: {most} bytes for slices of {bytes}");
        }
    }
}

#[test]
fn slices_that_begin_within_many_packets_have_all_messages_once() {
    let folder = tiny(&[("one", small(behind)), ("two", long())]);
    let reader = Reader::open(&[folder.path()]).unwrap();
    let expected = all(reader.events(TimeRange::ALL));
    let slices: Vec<_> = reader.slices(TimeRange::ALL, 64 << 10).collect();
    assert!(slices.len() > 1, "{}", slices.len());
    let found: Vec<_> = slices.iter().flat_map(|slice| all(reader.events_of(slice))).collect();
    assert!(found == expected, "{} messages, not {}", found.len(), expected.len());
}

/// The packets do not say when they end, so the rest is one slice, which is not read to find its end.
#[test]
fn slice_of_packets_without_end_is_the_rest_of_the_trace() {
    let mut bytes: Vec<u8> =
        (0..50).flat_map(|n| tiny_packet(10 * n, 10 * n + 5, &NONE, &[(10 * n, 1)])).collect();
    let timed = bytes.len() as u64;
    let later = (50..5000_u64).flat_map(|n| tiny_packet(10 * n, 0, &NONE, &[(10 * n, 2)]));
    bytes.extend(later);
    let whole = bytes.len() as u64;
    let folder = tiny(&[("one", bytes), ("two", small(behind))]);
    let reader = Reader::open(&[folder.path()]).unwrap();
    for bytes in [1, 300, timed] {
        let slices: Vec<_> = reader.slices(TimeRange::ALL, bytes).collect();
        let last = slices.last().unwrap();
        assert!(last.bytes() > whole / 2, "{} of {whole}", last.bytes());
        let found: Vec<_> = slices.iter().flat_map(|slice| all(reader.events_of(slice))).collect();
        assert!(found == all(reader.events(TimeRange::ALL)), "slices of {bytes} bytes");
    }
}
