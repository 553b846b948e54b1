//! Tests of tables of descriptors: their users, and when they are freed.

use super::*;

const FILE: OpenedFor = OpenedFor { name: Name::NONE, by_exec: None };

fn opened(names: &mut crate::names::Names, name: &str) -> OpenedFor {
    OpenedFor { name: names.of(name.as_bytes()), by_exec: Some(false) }
}

/// Returns the descriptors from 0 to 9 that the table knows.
fn known(all: &Descriptors, id: TableId) -> Vec<i32> {
    (0..10).filter(|&number| all.get(id, number).is_some()).collect()
}

#[test]
fn copy_has_what_was_there_and_each_goes_its_way_from_there_on() {
    let mut names = crate::names::Names::default();
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
    let mut names = crate::names::Names::default();
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
    let mut names = crate::names::Names::default();
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
