//! Tests of the queue alone: which share has its turn, which workers wait and until when, and how the end reaches them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::chunk::{REMARKS, SHARE_WAITING};
use super::*;
use crate::render::TextSink as _;

/// Returns a chunk with this text.
fn chunk(text: &str, end: ChunkEnd) -> Chunk {
    let mut chunk = Chunk { end, ..Chunk::default() };
    chunk.text.extend_from_slice(text.as_bytes());
    chunk
}

fn task(slice: u64, share: usize, shares: usize) -> Task {
    Task { slice, share, shares }
}

fn last() -> ChunkEnd {
    ChunkEnd::Slice(SliceFindings::default())
}

/// Returns the text of all chunks that are written, if no worker is left.
fn delivered(queue: &Queue) -> String {
    let mut text = String::new();
    queue.deliver(0, &mut |chunk| {
        text += std::str::from_utf8(chunk.text.as_bytes()).unwrap();
        ControlFlow::Continue(())
    });
    text
}

#[test]
fn chunks_of_shares_are_written_by_the_turns_that_blocks_say_and_slices_in_their_order() {
    let queue = Queue::new(9);
    for (task, text, end) in [
        (task(1, 0, 1), "f", last()),
        // The share that is not next is handed over first.
        (task(0, 1, 3), "c", ChunkEnd::Block { next: 2 }),
        (task(0, 1, 3), "-", last()),
        (task(0, 2, 3), "d", ChunkEnd::Nothing),
        (task(0, 2, 3), "e", last()),
        (task(0, 0, 3), "a", ChunkEnd::Nothing),
        (task(0, 0, 3), "b", ChunkEnd::Block { next: 1 }),
        (task(0, 0, 3), "-", last()),
        (task(3, 0, 1), "not before slice 2", last()),
    ] {
        assert!(queue.hand_over(task, chunk(text, end)).is_continue());
    }
    // Whoever's turn it is ends a slice; what others have of it is the end that they found, too.
    assert_eq!(delivered(&queue), "abcdef");
    assert!(queue.hand_over(task(2, 0, 1), chunk("g", last())).is_continue());
    assert_eq!(delivered(&queue), "gnot before slice 2");
}

#[test]
fn chunk_of_a_slice_that_has_been_written_is_let_in_and_not_shown() {
    let queue = Queue::new(0);
    assert!(queue.hand_over(task(0, 0, 2), chunk("a", last())).is_continue());
    assert_eq!(delivered(&queue), "a");
    // The other share comes late, with what it should not have found.
    let late =
        chunk("late", ChunkEnd::Slice(SliceFindings { blocks: 9, ..SliceFindings::default() }));
    assert!(queue.hand_over(task(0, 1, 2), late).is_continue());
    assert_eq!(queue.unlike().len(), 2);
    assert!(queue.unlike().is_empty(), "it is told once");
    assert!(queue.hand_over(task(1, 0, 1), chunk("b", last())).is_continue());
    assert_eq!(delivered(&queue), "b");
}

/// Returns true if a chunk that another thread adds waits before `release`, and has been added after it.
fn waits_for(queue: &Queue, task: Task, text: &str, release: impl FnOnce()) {
    let is_in = AtomicBool::new(false);
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let went = queue.hand_over(task, chunk(text, last()));
            is_in.store(true, Ordering::SeqCst);
            went
        });
        // One that does not wait is in by now, mostly; none that waits ever is.
        for _ in 0..1000 {
            assert!(!is_in.load(Ordering::SeqCst), "{task:?} does not wait");
            thread::yield_now();
        }
        release();
        assert!(worker.join().unwrap().is_continue());
    });
}

#[test]
fn chunk_of_a_slice_too_far_ahead_waits_until_enough_are_written() {
    let queue = Queue::new(2);
    assert!(queue.hand_over(task(2, 0, 1), chunk("c", last())).is_continue());
    waits_for(&queue, task(3, 0, 1), "d", || {
        assert!(queue.hand_over(task(0, 0, 1), chunk("a", last())).is_continue());
        assert_eq!(delivered(&queue), "a");
    });
    assert!(queue.hand_over(task(1, 0, 1), chunk("b", last())).is_continue());
    assert_eq!(delivered(&queue), "bcd");
}

#[test]
fn share_whose_text_waits_has_less_room_than_a_slice_of_its_own() {
    let text = "x".repeat(SHARE_WAITING);
    let queue = Queue::new(1);
    assert!(queue.hand_over(task(0, 1, 2), chunk(&text, ChunkEnd::Nothing)).is_continue());
    assert!(queue.hand_over(task(1, 0, 1), chunk(&text, ChunkEnd::Nothing)).is_continue());
    assert!(queue.hand_over(task(1, 0, 1), chunk("more", ChunkEnd::Nothing)).is_continue());
    let mut written = String::new();
    waits_for(&queue, task(0, 1, 2), "y", || {
        let block = chunk("", ChunkEnd::Block { next: 1 });
        assert!(queue.hand_over(task(0, 0, 2), block).is_continue());
        // Perhaps with what waited.
        written = delivered(&queue);
    });
    written += &delivered(&queue);
    assert!(written == format!("{text}y{text}more"), "{} bytes", written.len());
}

#[test]
fn worker_that_panics_ends_all_others_and_the_writer_goes_when_all_have_left() {
    let queue = Queue::new(1);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let _leave = queue.leave_later();
            queue.hand_over(task(7, 0, 1), Chunk::default())
        });
        let panicking = scope.spawn(|| {
            let _leave = queue.leave_later();
            // Without its text on stderr.
            std::panic::resume_unwind(Box::new("as a mistake would"));
        });
        let mut written = 0;
        queue.deliver(2, &mut |_| {
            written += 1;
            ControlFlow::Continue(())
        });
        assert_eq!(written, 0);
        assert!(panicking.join().is_err());
        assert!(waiting.join().unwrap().is_break());
    });
}

#[test]
fn writer_that_wants_no_more_gets_no_more_and_nobody_may_hand_over() {
    let queue = Queue::new(1);
    for slice in 0..2 {
        assert!(queue.hand_over(task(slice, 0, 1), chunk("a", last())).is_continue());
    }
    let mut written = 0;
    queue.deliver(0, &mut |_| {
        written += 1;
        ControlFlow::Break(())
    });
    assert_eq!(written, 1);
    assert!(queue.hand_over(task(1, 0, 1), Chunk::default()).is_break());
}

#[test]
fn malicious_number_of_slices_that_are_unlike_is_kept_up_to_the_limit() {
    let queue = Queue::new(u64::MAX);
    for slice in 0..100 {
        for share in 0..2 {
            let seen = SliceFindings { left: share, ..SliceFindings::default() };
            let task = task(slice, share as usize, 2);
            assert!(queue.hand_over(task, chunk("", ChunkEnd::Slice(seen))).is_continue());
        }
    }
    assert_eq!(queue.unlike().len(), REMARKS);
}
