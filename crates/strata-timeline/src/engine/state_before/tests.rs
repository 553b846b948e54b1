//! Tests of how the first records limit what a state dump says about earlier times.

use super::*;
use crate::records::facts::CopiedFields;

const DATA: i64 = 3;

fn opened(process: i64) -> StepKind {
    let opened = OpenDescriptor { descriptor: DATA, flags: None, path: b"/data".to_vec() };
    StepKind::Opened { process, opened }
}

fn enter(call: &str, object: Object) -> StepKind {
    StepKind::Enter { call: call.into(), object, more: Box::default() }
}

fn leave(call: &str, result: i64, numbers: &[(Part, i64)]) -> StepKind {
    let more = Box::new(CopiedFields::new(More::Is("", numbers)));
    StepKind::Leave { call: call.into(), result: Some(result), more }
}

/// How many descriptors process 5 had before these, of threads by number, and a dump of the threads 5 and 6 of it, and of 7.
fn left(first: &[(Option<i64>, StepKind)]) -> usize {
    let there = |tid, process| (None, StepKind::There { tid, process, parent: None });
    let dump = [there(5, 5), there(6, 5), there(7, 7), (None, opened(5))];
    let all = first.iter().chain(&dump);
    let all: Vec<_> = all.map(|(tid, what)| (0, *tid, Step(what.clone()))).collect();
    let mut before = FactsBefore::new(|_| 0, &all);
    before.take(0, 5, false).len()
}

#[test]
fn working_folder_was_there_before_unless_a_record_goes_to_another_one() {
    let folder = OpenDescriptor { descriptor: -100, flags: None, path: b"/srv".to_vec() };
    let dump = (0, None, Step(StepKind::Opened { process: 5, opened: folder }));
    let there = (0, None, Step(StepKind::There { tid: 5, process: 5, parent: None }));
    let chdir = |tid| (0, Some(tid), Step(enter("chdir", Object::None)));
    let left = |all: &[_]| FactsBefore::new(|_| 0, all).take(0, 5, false).len();
    assert_eq!(left(&[there.clone(), dump.clone()]), 1);
    assert_eq!(left(&[chdir(5), there.clone(), dump.clone()]), 0);
    assert_eq!(left(&[chdir(6), there, dump]), 0);
}

#[test]
fn what_no_record_gives_or_takes_away_in_front_of_the_dump_was_there_before() {
    assert_eq!(left(&[]), 1);
    let close = |number| enter("close", Object::Descriptor(number));
    for (tid, what, wanted) in [
        (Some(5), close(3), 0),
        // Another one, or another process'.
        (Some(5), close(4), 1),
        (Some(7), close(3), 1),
        // A thread of the process, by what the dump says behind it; one of nobody knows whom.
        (Some(6), close(3), 0),
        (Some(9), close(3), 0),
        (None, close(3), 0),
        (None, close(4), 1),
        // All of them, or nobody knows which.
        (Some(5), enter("close", Object::None), 0),
        (Some(5), enter("close_range", Object::Descriptor(9)), 0),
        (Some(7), enter("close_range", Object::Descriptor(9)), 1),
        (None, enter("unshare", Object::None), 0),
        (Some(5), leave("openat", 3, &[]), 0),
        (Some(5), leave("openat", -3, &[]), 1),
        (Some(5), leave("dup", 3, &[]), 0),
        (Some(5), leave("read", 3, &[]), 1),
        (Some(5), leave("pipe2", 0, &[(Part::First, 8), (Part::Second, 3)]), 0),
        (Some(5), leave("pipe2", 0, &[(Part::First, 8), (Part::Second, 9)]), 1),
    ] {
        assert_eq!(left(&[(tid, what.clone())]), wanted, "{tid:?} {what:?}");
    }
}

#[test]
fn each_is_asked_for_once_and_none_behind_a_loss() {
    let fork = StepKind::Fork { parent: Some(5), child: 7, process: Some(7) };
    let thread = StepKind::Fork { parent: Some(5), child: 8, process: Some(5) };
    let all = [fork, thread, opened(5), opened(7)].map(|what| (0, None, Step(what)));
    let mut before = FactsBefore::new(|_| 2, &all);
    assert_eq!(before.there(), [(2, 5)]);
    // One that begins in these has them from then on.
    assert_eq!((before.take(2, 7, false).len(), before.take(2, 5, true).len()), (0, 0));
    assert_eq!((before.take(2, 7, true).len(), before.take(2, 7, true).len()), (1, 0));
    before.forget(1);
    assert_eq!((before.take(1, 5, false).len(), before.take(2, 5, false).len()), (0, 1));
    assert_eq!((before.take_process(2, 8), before.take_process(2, 8)), (Some(5), None));
    let mut before = FactsBefore::new(|_| 2, &all);
    before.forget(2);
    assert!(before.is_empty() && before.take(2, 5, false).is_empty());
}

#[test]
fn processes_that_are_reported_to_be_of_each_other_are_in_no_chain() {
    let there = |tid, process| (0, None, Step(StepKind::There { tid, process, parent: None }));
    let mut before = FactsBefore::new(|_| 0, &[there(5, 6), there(6, 7), there(7, 5), there(8, 5)]);
    let all = [5, 6, 7, 8].map(|tid| before.take_process(0, tid));
    assert_eq!(all, [None, None, None, Some(5)]);
}
