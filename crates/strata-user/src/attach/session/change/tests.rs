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
    let place = crate::attach::shared_memory::session(0) + offset_of!(user::Session, rules);
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
    let flags = crate::attach::shared_memory::state(1) + offset_of!(user::State, flags);
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
    let generation =
        crate::attach::shared_memory::session(0) + offset_of!(user::Session, generation);
    let ours = fake.u64(generation);
    fake.put_u64(generation, 7);
    assert!(matches!(session.change(&nothing()), Err(Error::SlotTaken { .. })));
    assert_eq!(masks(&fake), [1, 1, 0]);
    fake.put_u64(generation, ours);
}

fn filtered(rules: &[&str], filter: &str) -> SessionSpec {
    let filter = strata_filter::Filter::parse(filter).unwrap();
    let Ok(crate::Compiled::Tests(program)) = Program::compile(&filter) else {
        panic!("{filter}");
    };
    SessionSpec { filter: Some(program), ..spec(rules) }
}

#[test]
fn successor_has_nothing_on_until_each_bit_changes_hands() {
    let fake = Fake::with_tracepoints();
    let mut session = start(&fake, &["app:*"]);
    let next = filtered(&["*:work", "other:*"], "value > 3");
    assert_eq!(session.differs(&next).unwrap(), Differs::Records);
    let mut second = session.successor(&next, &clock()).unwrap();
    let status = |slot| fake.session_u32(slot, offset_of!(user::Session, status));
    assert_eq!((masks(&fake), status(1)), ([1, 1, 0], user::SESSION_SETUP));
    let replaces = fake.session_u64(1, offset_of!(user::Session, replaces));
    assert_eq!((second.slot(), replaces), (1, session.generation()));
    // Loaded after the successor was made ready: switched on for the first one by the process.
    let late = fake.add(&Described::new("app", "work", 4), user::STATE_FLAG, &[]);
    fake.put_u32(crate::attach::shared_memory::state(late) + offset_of!(user::State, enabled), 1);
    session.hand_over(&mut second, &next).unwrap();
    assert_eq!((masks(&fake), fake.enabled(late)), ([0, 2, 2], 2));
    assert_eq!((status(0), status(1)), (user::SESSION_ENDING, user::SESSION_ACTIVE));
    assert_eq!(names(&second), ["0=app:work", "1=other:thing", "2=app:work"]);
    assert_eq!(second.differs(&next).unwrap(), Differs::Nothing);
    // What was recorded is still described.
    assert_eq!(names(&session), ["0=app:start", "1=app:work"]);
    session.stop().unwrap();
    assert_eq!(masks(&fake), [0, 2, 2]);
    session.release().unwrap();
    assert_eq!(masks(&fake), [0, 2, 2]);
    let third = second.successor(&spec(&["*"]), &clock()).unwrap();
    assert_eq!((third.slot(), status(0)), (0, user::SESSION_SETUP));
    drop(third);
    // It was given up: all is as before.
    assert_eq!((status(0), masks(&fake)), (user::SESSION_FREE, [0, 2, 2]));
}

#[test]
fn successor_while_somebody_holds_the_lock_is_for_later_and_leaves_all_as_it_was() {
    let fake = Fake::with_tracepoints();
    let session = start(&fake, &["app:*"]);
    let memory = fake.open();
    let held = memory.memory().try_lock();
    let next = filtered(&["app:*"], "value > 3");
    assert!(matches!(session.successor(&next, &clock()), Err(Error::Locked { .. })));
    drop(held);
    let large = SessionSpec { subbuf_bytes: 1 << 62, ..next };
    assert!(session.successor(&large, &clock()).is_err());
    assert_eq!(masks(&fake), [1, 1, 0]);
    assert_eq!(fake.session_u32(1, offset_of!(user::Session, status)), user::SESSION_FREE);
}

#[test]
fn hand_over_of_patched_sites_leaves_the_code_of_what_stays_on() {
    let (fake, text) = (Fake::new(), Text::new(3));
    for (name, site) in [("one", 0), ("two", 1), ("both", 2)] {
        fake.add(&Described::new("app", name, 4), 0, &text.sites[site..site + 1]);
    }
    let (on, off) = (user::SITE_ON, user::SITE_DORMANT);
    let mut session = start(&fake, &["app:one", "app:both"]);
    let next = filtered(&["app:two", "app:both"], "value > 3");
    let mut second = session.successor(&next, &clock()).unwrap();
    assert_eq!(text.opcodes(), [on, off, on]);
    session.hand_over(&mut second, &next).unwrap();
    second.finish_change();
    assert_eq!(text.opcodes(), [off, on, on]);
    session.release().unwrap();
    assert_eq!(text.opcodes(), [off, on, on]);
    second.release().unwrap();
    assert_eq!(text.opcodes(), [off; 3]);
}

#[test]
fn session_is_quiet_when_each_thread_sleeps_or_has_run() {
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let its = std::sync::Arc::clone(&stop);
    let (told, tells) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        told.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
        while !its.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    let id = tells.recv().unwrap();
    let pid = std::process::id();
    let mut writers = Writers::of(pid);
    assert!(writers.threads().contains(&id), "{writers:?}");
    while !writers.are_done() {
        std::thread::yield_now();
    }
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    while !Writers::of(child.id()).threads().is_empty() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(Writers::of(child.id()).are_done());
}
