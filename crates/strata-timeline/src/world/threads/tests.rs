//! Tests of finding threads by their numbers.

use super::*;
use crate::world::descriptor_tables::Descriptors;

#[test]
fn number_is_that_of_the_last_thread_that_got_it_on_its_machine() {
    let mut threads = Threads::default();
    let mut add = |machine, tid| threads.add(Thread::new(machine, tid, 0, 0));
    let one = add(0, 5).unwrap();
    let other = add(1, 5).unwrap();
    let again = add(0, 5).unwrap();
    let far = add(0, (1 << 22) - 1).unwrap();
    // Nobody has these.
    for tid in [0, -1, i32::MIN, 1 << 22, i32::MAX] {
        assert_eq!(add(0, tid), None, "{tid}");
    }
    assert_eq!((threads.find(0, 5), threads.find(1, 5)), (Some(again), Some(other)));
    assert_eq!(threads.find(0, (1 << 22) - 1), Some(far));
    for (machine, tid) in [(0, 6), (0, 0), (0, -5), (2, 5), (0, i64::MAX), (0, 1 << 22)] {
        assert_eq!(threads.find(machine, tid), None, "{machine} {tid}");
    }
    // The one before is still known by what was told of it.
    let all: Vec<_> = threads.iter().map(|(id, thread)| (id, thread.machine, thread.tid)).collect();
    assert_eq!(all, [(one, 0, 5), (other, 1, 5), (again, 0, 5), (far, 0, (1 << 22) - 1)]);
    assert_eq!((threads.changes(), threads.left_out()), (4, 0));
    assert_eq!(threads.get(ThreadId::IDLE).map(|idle| idle.tid), Some(0));
}

#[test]
fn malicious_number_of_threads_ends_at_the_limit_and_is_reported() {
    const MOST: usize = 1000;
    let mut threads = Threads::within(Bounds { all: MOST, active: MOST, sweep: 10 });
    for tid in 1..=MOST as i32 + 2 {
        threads.add(Thread::new(0, tid, 0, 0));
    }
    // The idle one is one of them.
    assert_eq!(threads.left_out(), 3);
    assert!(threads.find(0, MOST as i64 - 1).is_some());
    assert_eq!(threads.find(0, MOST as i64), None);
    // A later owner of a number that was given before is one too many, and not the thread that had it.
    let (first, changes) = (threads.find(0, 5), threads.changes());
    assert_eq!(threads.add(Thread::new(0, 5, 9, 0)), None);
    assert_eq!((threads.find(0, 5), threads.left_out()), (None, 4));
    assert!(first.and_then(|first| threads.get(first)).is_some_and(|thread| thread.since == 0));
    assert!(threads.changes() > changes && threads.find(0, 6).is_some());
}

#[test]
fn threads_that_have_ended_make_room_for_the_activity_of_others() {
    const MOST: usize = 100_000;
    let mut threads = Threads::within(Bounds { all: MOST, active: 100, sweep: 20 });
    for at in 1..MOST {
        let id = threads.add(Thread::new(0, at as i32, 0, 0)).unwrap();
        let thread = threads.get_mut(id).unwrap();
        (thread.fault, thread.name, thread.state) = (7, Name::NONE, State::Running { cpu: 0 });
        // As many as have room go on, the others end: half of them before a record says that they have left their CPU.
        match at > 50 {
            false => {}
            true if at % 2 == 0 => thread.is_exiting = true,
            true => thread.state = State::Gone,
        }
    }
    assert_eq!((threads.left_out(), threads.iter().count()), (0, MOST - 1));
    let active = threads.all.iter().filter(|thread| thread.activity.is_some()).count();
    assert!((50..=70).contains(&active), "{active}");
    let faults = |tid| threads.get(threads.find(0, tid).unwrap()).unwrap().fault;
    assert_eq!((faults(50), faults(51), faults(60_000)), (7, NEVER, NEVER));
}

#[test]
fn malicious_threads_that_do_not_end_have_no_room_and_are_searched_for_seldom() {
    let mut threads = Threads::within(Bounds { all: 10_000, active: 100, sweep: 20 });
    let table = Descriptors::default().add();
    for tid in 1..=1000 {
        if let Some(id) = threads.add(Thread::new(0, tid, 0, 0)) {
            let thread = threads.get_mut(id).unwrap();
            (thread.state, thread.files) = (State::Gone, table);
        }
    }
    assert_eq!((threads.left_out(), threads.iter().count()), (900, 100));
    // Once they have nothing open, others are let in, after at most so many as between two searches.
    threads.all.iter_mut().filter_map(Thread::activity_mut).for_each(|it| it.files = None);
    let refused = (1001..).take_while(|&tid| threads.add(Thread::new(0, tid, 0, 0)).is_none());
    assert!(refused.count() < 20);
}

#[test]
fn malicious_threads_that_never_end_leave_room_for_others_without_a_search_for_each() {
    let mut threads = Threads::within(Bounds { all: 100_000, active: 1000, sweep: 500 });
    let mut searches = 0;
    for tid in 1..50_000 {
        let asked = threads.asked;
        let id = threads.add(Thread::new(0, tid, 0, 0)).unwrap();
        searches += u32::from(threads.asked < asked);
        threads.get_mut(id).unwrap().fault = 7;
        // All but one of the rooms are taken for ever.
        if tid > 999 {
            threads.get_mut(id).unwrap().is_exiting = true;
            threads.has_ended(id);
            threads.get_mut(id).unwrap().state = State::Gone;
            threads.has_ended(id);
        }
    }
    assert_eq!(threads.left_out(), 0);
    assert!(searches <= 50_000 / 500, "{searches}");
    let active = threads.all.iter().filter(|thread| thread.activity.is_some()).count();
    assert!((999..=1000).contains(&active), "{active}");
}

#[test]
fn malicious_thread_that_ends_again_and_again_is_held_once() {
    let mut threads = Threads::within(Bounds { all: 100, active: 100, sweep: 2 });
    let id = threads.add(Thread::new(0, 5, 0, 0)).unwrap();
    let end = |threads: &mut Threads| (0..1000).for_each(|_| threads.has_ended(id));
    end(&mut threads);
    assert_eq!(threads.ended, [id]);
    // It was not over at the search, so that its end is wanted once more.
    assert_eq!(threads.count_out(), 0);
    end(&mut threads);
    assert_eq!(threads.ended, [id]);
    threads.get_mut(id).unwrap().state = State::Gone;
    assert_eq!((threads.count_out(), threads.count_out()), (1, 0));
    end(&mut threads);
    assert!(threads.ended.is_empty());
}

#[test]
fn spent_time_counts_the_state_that_goes_on_and_never_less_than_none() {
    let mut thread = Thread::new(0, 5, 100, 0);
    assert_eq!(thread.spent(150).unknown, 50);
    assert!(!thread.has_states());
    thread.state = State::Running { cpu: 0 };
    assert_eq!((thread.spent(150).running, thread.spent(99).running), (50, 0));
    thread.spent.blocked = 7;
    let spent = thread.spent(101);
    assert_eq!((spent.running, spent.blocked, thread.has_states()), (1, 7, true));
}
