//! Threads by their numbers.

use super::*;

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
fn malicious_number_of_threads_ends_at_the_limit_and_is_said() {
    let mut threads = Threads::default();
    for tid in 1..=THREADS_MAX as i32 + 2 {
        threads.add(Thread::new(0, tid, 0, 0));
    }
    // The idle one is one of them.
    assert_eq!(threads.left_out(), 3);
    assert!(threads.find(0, THREADS_MAX as i64 - 1).is_some());
    assert_eq!(threads.find(0, THREADS_MAX as i64), None);
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
