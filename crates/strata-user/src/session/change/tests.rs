//! Tests of change.rs.

use super::*;
use crate::testing::{spec, Described, Fake, Text};
use crate::Rules;

fn clock() -> Clock {
    Clock::new()
}

fn start(fake: &Fake, rules: &[&str]) -> AppSession {
    AppSession::start(&fake.open(), &spec(rules), &clock()).unwrap()
}

fn nothing() -> SessionSpec {
    SessionSpec { rules: Rules::none(), ..spec(&["*"]) }
}

fn names(session: &AppSession) -> Vec<String> {
    session.events().map(|e| format!("{}={}", e.id, e.full_name())).collect()
}

fn masks(fake: &Fake) -> [u32; 3] {
    [0, 1, 2].map(|index| fake.enabled(index))
}

#[test]
fn change_of_rules_switches_in_place_and_ids_keep_their_meaning() {
    let fake = Fake::with_tracepoints();
    let mut session = start(&fake, &["app:work"]);
    assert_eq!((masks(&fake), names(&session)), ([0, 1, 0], vec!["0=app:work".to_owned()]));
    session.change(&spec(&["app:*"])).unwrap();
    assert_eq!((masks(&fake), fake.id(0, 0), fake.id(1, 0)), ([1, 1, 0], 1, 0));
    session.change(&spec(&["other:*"])).unwrap();
    assert_eq!(masks(&fake), [0, 0, 1]);
    session.change(&spec(&["*"])).unwrap();
    assert_eq!(masks(&fake), [1, 1, 1]);
    assert_eq!(names(&session), ["0=app:work", "1=app:start", "2=other:thing"]);
    assert_eq!(session.slot(), 0);
    session.release().unwrap();
    assert_eq!(masks(&fake), [0, 0, 0]);
}

#[test]
fn change_puts_the_rules_where_none_hold_and_then_says_which_do() {
    let fake = Fake::with_tracepoints();
    let mut session = start(&fake, &["app:work"]);
    let version = || fake.session_u32(0, offset_of!(user::Session, rules_version));
    let first: [u8; 8] = b"app:work".to_owned();
    assert_eq!(version(), 0);
    session.change(&spec(&["other:*"])).unwrap();
    assert_eq!(version(), 1);
    // Who reads the text that held until now still finds it.
    let place = crate::memory::session(0) + offset_of!(user::Session, rules);
    assert_eq!(fake.get::<8>(place), first);
    assert_eq!(&fake.get::<7>(user::RULES_OFFSET as usize), b"other:*");
    assert_eq!(fake.session_u32(0, offset_of!(user::Session, other_rules_bytes)), 7);
    assert_eq!(session.differs(&spec(&["other:*"])).unwrap(), Differs::Nothing);
    assert_eq!(session.differs(&spec(&["other:?"])).unwrap(), Differs::Rules);
    session.change(&spec(&["app:*"])).unwrap();
    assert_eq!((version(), &fake.get::<5>(place)), (2, b"app:*"));
    assert_eq!(session.differs(&spec(&["app:*"])).unwrap(), Differs::Nothing);
    let without = SessionSpec { vtid: false, ..spec(&["app:*"]) };
    assert_eq!(session.differs(&without).unwrap(), Differs::Records);
}

#[test]
fn change_to_no_rule_records_nothing_not_even_names_of_threads() {
    let fake = Fake::with_tracepoints();
    let name = Described::new("strata", "thread_name", 6);
    let index = fake.add(&name, user::STATE_FLAG, &[]);
    let mut session = start(&fake, &["app:*"]);
    assert_eq!(fake.enabled(index), 1);
    session.change(&nothing()).unwrap();
    assert_eq!((masks(&fake), fake.enabled(index)), ([0; 3], 0));
    session.change(&spec(&["app:*"])).unwrap();
    assert_eq!((masks(&fake), fake.enabled(index)), ([1, 1, 0], 1));
}

#[test]
fn change_of_patched_sites_writes_their_opcodes_and_leaves_those_of_others() {
    let (fake, text) = (Fake::new(), Text::new(3));
    for (name, site) in [("one", 0), ("two", 1), ("both", 2)] {
        fake.add(&Described::new("app", name, 4), 0, &text.sites[site..site + 1]);
    }
    let (on, off) = (user::SITE_ON, user::SITE_DORMANT);
    let mut session = start(&fake, &["app:one", "app:both"]);
    let other = start(&fake, &["app:one"]);
    assert_eq!(text.opcodes(), [on, off, on]);
    session.change(&spec(&["app:two", "app:both"])).unwrap();
    session.finish_change();
    // The other session's stays on.
    assert_eq!((text.opcodes(), fake.enabled(0)), (vec![on, on, on], 0b10));
    drop(other);
    session.change(&nothing()).unwrap();
    session.finish_change();
    assert_eq!(text.opcodes(), [off; 3]);
    session.change(&spec(&["*"])).unwrap();
    session.finish_change();
    assert_eq!(text.opcodes(), [on; 3]);
    session.stop().unwrap();
    assert_eq!((text.opcodes(), session.problems().len()), (vec![off; 3], 0));
}

#[test]
fn change_needs_no_lock_and_leaves_what_is_unloaded_to_the_process() {
    let fake = Fake::with_tracepoints();
    let mut session = start(&fake, &["app:*"]);
    let memory = fake.open();
    let held = memory.memory().try_lock();
    assert!(held.is_some());
    let flags = crate::memory::state(1) + offset_of!(user::State, flags);
    fake.put_u32(flags, user::STATE_FLAG);
    session.change(&spec(&["*:*"])).unwrap();
    assert_eq!(masks(&fake), [1, 1, 1]);
    // What is not selected any more does not come back on by a bit that was left.
    session.change(&spec(&["other:*"])).unwrap();
    assert_eq!(masks(&fake), [0, 0, 1]);
    session.change(&spec(&["*:*"])).unwrap();
    assert_eq!(masks(&fake), [1, 0, 1]);
}

#[test]
fn malicious_slot_of_another_generation_is_not_changed() {
    let fake = Fake::with_tracepoints();
    let mut session = start(&fake, &["app:*"]);
    let generation = crate::memory::session(0) + offset_of!(user::Session, generation);
    let ours = fake.u64(generation);
    fake.put_u64(generation, 7);
    assert!(matches!(session.change(&nothing()), Err(Error::SlotTaken { .. })));
    assert_eq!(masks(&fake), [1, 1, 0]);
    fake.put_u64(generation, ours);
}
