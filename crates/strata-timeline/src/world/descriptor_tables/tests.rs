//! Tests of tables of descriptors: their users, and when they are freed.

use super::*;

const FILE: OpenedFor = OpenedFor { name: Name::NONE, by_exec: None };

fn opened(names: &mut crate::ids::names::Names, name: &str) -> OpenedFor {
    OpenedFor { name: names.of(name.as_bytes()), by_exec: Some(false) }
}

/// Returns the descriptors from 0 to 9 that the table knows.
fn known(all: &Descriptors, id: TableId) -> Vec<i32> {
    (0..10).filter(|&number| all.get(id, number).is_some()).collect()
}

#[test]
fn copy_has_what_was_there_and_each_goes_its_way_from_there_on() {
    let mut names = crate::ids::names::Names::default();
    let (a, b) = (opened(&mut names, "a"), opened(&mut names, "b"));
    let mut all = Descriptors::default();
    let one = all.add().unwrap();
    all.set(one, 3, a);
    all.set(one, 4, b);
    let copy = all.copy(one).unwrap();
    all.close(one, 3);
    all.set(copy, 4, a);
    assert_eq!((known(&all, one), known(&all, copy)), (vec![4], vec![3, 4]));
    assert_eq!((all.get(one, 4), all.get(copy, 4), all.kept), (Some(b), Some(a), 3));
    all.retain(copy, |number, opened| {
        opened.by_exec = Some(true);
        number == 4
    });
    assert_eq!(all.get(copy, 4).unwrap().by_exec, Some(true));
    assert_eq!((known(&all, copy), all.kept), (vec![4], 2));
}

#[test]
fn table_is_free_when_the_last_of_its_users_has_left() {
    let mut names = crate::ids::names::Names::default();
    let mut all = Descriptors::default();
    let one = all.add().unwrap();
    all.set(one, 3, opened(&mut names, "a"));
    all.share(one);
    assert!(all.is_shared(one));
    all.leave(one);
    assert!(!all.is_shared(one) && known(&all, one) == [3]);
    all.leave(one);
    assert_eq!((known(&all, one), all.kept), (vec![], 0));
    // Once more is no user less, and no table twice.
    all.leave(one);
    let (next, another) = (all.add().unwrap(), all.add().unwrap());
    assert_eq!(next, one);
    assert_ne!(another, one);
    assert!(known(&all, next).is_empty(), "nothing of before");
}

#[test]
fn what_has_no_name_no_number_or_no_table_is_not_kept() {
    let mut names = crate::ids::names::Names::default();
    let file = opened(&mut names, "a");
    let mut all = Descriptors::default();
    let one = all.add().unwrap();
    all.set(one, -1, file);
    all.set(one, 3, file);
    // Nobody knows for what it is now.
    all.set(one, 3, FILE);
    assert_eq!((known(&all, one), all.kept), (vec![], 0));
    let none = TableId(99);
    all.set(none, 3, file);
    all.close(none, 3);
    all.share(none);
    all.leave(none);
    assert_eq!((all.get(none, 3), all.copy(none), all.is_shared(none)), (None, None, false));
    all.set(one, 3, file);
    all.clear();
    assert_eq!((known(&all, one), all.kept), (vec![], 0));
}

#[test]
fn epoll_returns_a_number_for_the_descriptor_that_was_added_last_with_it() {
    let mut names = crate::ids::names::Names::default();
    let [epoll, a, b] = ["epoll", "a", "b"].map(|name| opened(&mut names, name));
    let mut all = Descriptors::default();
    let one = all.add().unwrap();
    for (number, file) in [(2, epoll), (3, a), (4, b)] {
        all.set(one, number, file);
    }
    all.watch(one, 2, 30, 3);
    all.watch(one, 2, u64::MAX, 4);
    assert_eq!((all.watched(one, 2, 30), all.watched(one, 2, u64::MAX)), (Some(a), Some(b)));
    assert_eq!((all.watched(one, 2, 31), all.watched(one, 3, 30)), (None, None));
    // A copy is of another process, which may add others.
    let copy = all.copy(one).unwrap();
    assert_eq!(all.watched(copy, 2, 30), None);
    // Both have one number now.
    all.watch(one, 2, 30, 4);
    all.watch(one, 2, 30, 3);
    assert_eq!(all.watched(one, 2, 30), None);
    // What is closed is not watched.
    all.close(one, 4);
    assert_eq!(all.watched(one, 2, u64::MAX), None);
    all.watch(one, 2, u64::MAX, 3);
    assert_eq!((all.watched(one, 2, u64::MAX), all.watches), (Some(a), 2));
    all.close(one, 2);
    assert_eq!((all.watched(one, 2, u64::MAX), all.watches), (None, 0));
    all.watch(one, 3, 1, 3);
    all.retain(one, |number, _| number != 3);
    assert_eq!(all.watches, 0);
    all.watch(one, 4, 1, 3);
    all.leave(one);
    assert_eq!(all.watches, 0);
}

#[test]
fn malicious_epolls_that_watch_ever_more_have_a_limit_that_makes_room_for_what_is_open() {
    let mut names = crate::ids::names::Names::default();
    let file = opened(&mut names, "a");
    let mut all = Descriptors::default();
    let one = all.add().unwrap();
    all.set(one, 3, file);
    for data in 0..WATCHES_MAX as u64 + 9 {
        all.watch(one, 2, data, 3);
    }
    assert_eq!((all.watches, all.kept), (WATCHES_MAX, 1));
    // The first one that found no room has searched for some; the next ones do not, however many they are.
    assert_eq!(all.until_search, WATCHES_PER_SEARCH - 8);
    all.close(one, 3);
    all.set(one, 4, file);
    for _ in 0..WATCHES_PER_SEARCH - 8 {
        all.watch(one, 2, 1 << 40, 4);
    }
    assert_eq!((all.watches, all.watched(one, 2, 1 << 40)), (WATCHES_MAX, None));
    all.watch(one, 2, 1 << 40, 4);
    assert_eq!((all.watches, all.watched(one, 2, 1 << 40)), (1, Some(file)));
}
