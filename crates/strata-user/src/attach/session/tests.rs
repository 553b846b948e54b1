use super::*;
use crate::testing::{run_alone, spec, Described, Fake, Text};
use std::os::fd::AsFd;
use strata_model::TimeSource;
use strata_random::Random;

fn clock() -> Clock {
    Clock::new()
}

/// Time that moves by hand, and a clock of it.
fn by_hand() -> (TimeSource, Clock) {
    let time = TimeSource::manual(Clock::monotonic_ns());
    (time.clone(), Clock::by_hand(time))
}

fn start(fake: &Fake, rules: &[&str]) -> AppSession {
    AppSession::start(&fake.open(), &spec(rules), &clock()).unwrap()
}

fn names(session: &AppSession) -> Vec<String> {
    session.events().map(|e| format!("{}={}", e.id, e.full_name())).collect()
}

fn status(fake: &Fake, slot: u32) -> u32 {
    fake.session_u32(slot, offset_of!(user::Session, status))
}

#[test]
fn start_switches_on_what_the_rules_select_with_dense_ids() {
    let fake = Fake::with_tracepoints();
    let mut session = start(&fake, &["*:*@7", "!app:start"]);
    assert_eq!(names(&session), ["0=app:work", "1=other:thing"]);
    assert_eq!([0, 1, 2].map(|index| fake.enabled(index)), [0, 1, 1]);
    assert_eq!([0, 1, 2].map(|index| fake.id(index, 0)), [user::NO_ID, 0, 1]);
    assert_eq!((session.slot(), status(&fake, 0)), (0, user::SESSION_ACTIVE));
    assert_eq!(fake.session_u64(0, offset_of!(user::Session, generation)), session.generation());
    let flags = user::SESSION_INHERIT | user::SESSION_VTID;
    assert_eq!(fake.session_u32(0, offset_of!(user::Session, flags)), flags);
    let rules: [u8; 17] = fake.get(session_rules(0));
    assert_eq!(&rules, b"*:*@7,!app:start\0");
    assert_eq!(fake.session_u32(0, offset_of!(user::Session, rules_bytes)), 16);
    let offset = fake.session_u64(0, offset_of!(user::Session, channel_offset));
    assert_eq!(offset, u64::from(user::CHANNELS_OFFSET));
    let channel = session.take_channel().unwrap();
    assert_eq!((channel.nr_streams(), channel.subbuf_bytes(), channel.nr_subbufs()), (1, 4096, 2));
    assert!(session.take_channel().is_none());
    let copy = fake.u64(user::CHANNELS_OFFSET as usize + offset_of!(ring::Channel, start_position));
    assert!(copy % 8192 == 0 && copy < 1 << 62);
    assert!(!session.update().unwrap());
}

fn session_rules(slot: u32) -> usize {
    crate::attach::shared_memory::session(slot) + offset_of!(user::Session, rules)
}

#[test]
fn start_with_threads_has_their_names_whatever_the_rules_select() {
    let fake = Fake::new();
    for (provider, name) in [("app", "work"), ("strata", "thread_name"), ("strata", "other")] {
        fake.add(&Described::new(provider, name, 6), user::STATE_FLAG, &[]);
    }
    let session = start(&fake, &["app:*"]);
    assert_eq!(names(&session), ["0=app:work", "1=strata:thread_name"]);
    assert_eq!(session.format(), RecordFormat { vtid: true, ..RecordFormat::default() });
    let without = SessionSpec { vtid: false, ..spec(&["*"]) };
    let session = AppSession::start(&fake.open(), &without, &clock()).unwrap();
    assert_eq!(names(&session), ["0=app:work", "1=strata:other"]);
    assert!(!session.format().vtid && session.named_threads().is_empty());
    assert_eq!(fake.session_u32(1, offset_of!(user::Session, flags)), user::SESSION_INHERIT);
}

#[test]
fn start_with_more_than_31_tracepoints_takes_large_headers() {
    let fake = Fake::new();
    for number in 0..32 {
        let name = format!("event{number}");
        fake.add(&Described::new("app", &name, 4), user::STATE_FLAG, &[]);
    }
    assert!(start(&fake, &["*"]).large_header());
    assert!(!start(&fake, &["*", "!app:event7"]).large_header());
    let compact = SessionSpec { header: HeaderChoice::Compact, ..spec(&["*"]) };
    assert!(!AppSession::start(&fake.open(), &compact, &clock()).unwrap().large_header());
    let large = SessionSpec { header: HeaderChoice::Large, ..spec(&["app:event1"]) };
    assert!(AppSession::start(&fake.open(), &large, &clock()).unwrap().large_header());
}

#[test]
fn start_of_patched_sites_writes_opcodes_and_stop_takes_them_back() {
    let (fake, text) = (Fake::new(), Text::new(3));
    fake.add(&Described::new("app", "one", 4), 0, &text.sites[..2]);
    fake.add(&Described::new("app", "two", 4), 0, &text.sites[2..]);
    let on = user::SITE_ON;
    let off = user::SITE_DORMANT;
    let mut one = start(&fake, &["app:one"]);
    assert_eq!(text.opcodes(), [on, on, off]);
    let mut both = start(&fake, &["*"]);
    assert_eq!((both.slot(), text.opcodes()), (1, vec![on; 3]));
    assert_eq!([fake.enabled(0), fake.enabled(1)], [0b11, 0b10]);
    both.stop().unwrap();
    both.stop().unwrap();
    assert_eq!((text.opcodes(), fake.enabled(0)), (vec![on, on, off], 0b01));
    assert_eq!(status(&fake, 1), user::SESSION_ENDING);
    one.stop().unwrap();
    assert_eq!(text.opcodes(), [off; 3]);
    assert!(one.problems().is_empty() && both.problems().is_empty());
}

#[test]
fn complete_switches_on_what_a_fork_during_start_has_inherited_in_part() {
    let (fake, text) = (Fake::new(), Text::new(3));
    for (name, site) in [("all", 0), ("bit", 1), ("none", 2)] {
        fake.add(&Described::new("app", name, 4), 0, &text.sites[site..site + 1]);
    }
    let (on, off) = (user::SITE_ON, user::SITE_DORMANT);
    let mut session = start(&fake, &["*"]);
    let before = session.nr_selected();
    // One is on in its state only, one nowhere, and has no id.
    text.set(1, 0, off);
    text.set(2, 0, off);
    fake.put_u32(crate::attach::shared_memory::state(2) + offset_of!(user::State, enabled), 0);
    assert_eq!(text.opcodes(), [on, off, off]);
    session.complete(&spec(&["*"])).unwrap();
    assert_eq!((text.opcodes(), fake.enabled(2)), (vec![on; 3], 1));
    assert_eq!((session.nr_selected(), session.problems().len()), (before, 0));

    let mut ended = Fake::spawned_unseen().described();
    let mut session = start(&ended, &["*"]);
    ended.kill();
    assert!(session.complete(&spec(&["*"])).unwrap_err().is_gone());
}

#[test]
fn start_of_a_site_that_differs_reports_it_and_goes_on() {
    let (fake, text) = (Fake::new(), Text::new(2));
    fake.add(&Described::new("app", "bad", 4), 0, &text.sites[..1]);
    fake.add(&Described::new("app", "good", 4), 0, &text.sites[1..]);
    let gone = user::Site { address: 8, displacement: 0, reserved: 0 };
    fake.add(&Described::new("app", "gone", 4), 0, &[gone]);
    text.set(0, 2, 0xcc);
    let mut session = start(&fake, &["*"]);
    assert_eq!(text.opcodes(), [user::SITE_DORMANT, user::SITE_ON]);
    let problems = session.problems();
    let [Error::Site { tracepoint, .. }, Error::Code { address: 8, .. }] = &problems[..] else {
        panic!("{problems:?}");
    };
    assert_eq!(tracepoint, "app:bad");
    assert!(session.problems().is_empty());
}

#[test]
fn start_with_a_site_table_outside_is_refused_and_leaves_nothing() {
    let (fake, text) = (Fake::new(), Text::new(1));
    fake.add(&Described::new("app", "bad", 4), 0, &text.sites);
    fake.put_u32(crate::attach::shared_memory::state(0) + offset_of!(user::State, sites), 1 << 31);
    let error = AppSession::start(&fake.open(), &spec(&["*"]), &clock()).unwrap_err();
    assert!(matches!(error, Error::Value { found: 0x8000_0000, .. }), "{error}");
    assert_eq!((status(&fake, 0), fake.enabled(0)), (user::SESSION_FREE, 0));
}

#[test]
fn release_gives_slot_ids_and_memory_back() {
    let fake = Fake::with_tracepoints();
    let mut session = start(&fake, &["*"]);
    assert_eq!(fake.u64(user::CHANNELS_OFFSET as usize), ring::MAGIC);
    session.stop().unwrap();
    assert_eq!(fake.id(0, 0), 0);
    session.release().unwrap();
    assert_eq!((status(&fake, 0), fake.id(0, 0)), (user::SESSION_FREE, user::NO_ID));
    assert_eq!(fake.u64(user::CHANNELS_OFFSET as usize), 0);
    let stat = rustix::fs::fstat(&fake.fd).unwrap();
    drop(start(&fake, &["*"]));
    assert_eq!(rustix::fs::fstat(&fake.fd).unwrap().st_size, stat.st_size, "the same place");
    assert_eq!((status(&fake, 0), fake.enabled(1)), (user::SESSION_FREE, 0));
}

#[test]
fn start_places_channels_without_overlap_and_fills_gaps() {
    let fake = Fake::with_tracepoints();
    let mut sessions: Vec<AppSession> = (0..4).map(|_| start(&fake, &["*"])).collect();
    let place = |slot| {
        let begin = fake.session_u64(slot, offset_of!(user::Session, channel_offset));
        (begin, begin + fake.session_u64(slot, offset_of!(user::Session, channel_bytes)))
    };
    for slot in 1..4 {
        assert_eq!(place(slot).0, place(slot - 1).1);
    }
    let gap = place(1);
    sessions.remove(1);
    let again = start(&fake, &["*"]);
    assert_eq!((again.slot(), place(1)), (1, gap));
    let generations: std::collections::HashSet<u64> =
        sessions.iter().chain([&again]).map(AppSession::generation).collect();
    assert_eq!(generations.len(), 4);
    assert_eq!(fake.open().session_generations().len(), 4);
}

#[test]
fn first_fit_takes_the_first_gap_that_is_large_enough() {
    let begin = u64::from(user::CHANNELS_OFFSET);
    assert_eq!(first_fit(vec![], 4096), begin);
    let taken = vec![(begin + 8192, begin + 12288), (begin, begin + 4096)];
    assert_eq!(first_fit(taken.clone(), 4096), begin + 4096);
    assert_eq!(first_fit(taken.clone(), 8192), begin + 12288);
    let overlapping = vec![(begin, begin + 65536), (begin + 4096, begin + 8192)];
    assert_eq!(first_fit(overlapping, 4096), begin + 65536);
}

#[test]
fn start_beyond_32_sessions_says_that_no_slot_is_free() {
    let fake = Fake::with_tracepoints();
    let clock = clock();
    let app = fake.open();
    let sessions: Vec<AppSession> =
        (0..32).map(|_| AppSession::start(&app, &spec(&["app"]), &clock).unwrap()).collect();
    assert_eq!(fake.enabled(0), u32::MAX);
    let error = AppSession::start(&app, &spec(&["app"]), &clock).unwrap_err();
    assert!(matches!(error, Error::NoSlot { .. }));
    drop(sessions);
    assert_eq!(fake.enabled(0), 0);
}

#[test]
fn start_frees_the_slot_of_a_dead_tracer() {
    let (fake, text) = (Fake::new(), Text::new(1));
    fake.add(&Described::new("app", "one", 4), 0, &text.sites);
    fake.add(&Described::new("app", "two", 4), user::STATE_FLAG, &[]);
    let (time, clock) = by_hand();
    let start = |rules| AppSession::start(&fake.open(), &spec(rules), &clock).unwrap();
    let mut dead = start(&["*"]);
    let dead_after = Duration::from_nanos(crate::attach::shared_memory::DEAD_NS);
    // As long as it may only be slow, its slot is its own.
    time.pause(dead_after);
    assert_eq!(start(&["app:two"]).slot(), 1);
    time.pause(Duration::from_nanos(1));
    let session = start(&["app:two"]);
    assert_eq!(session.slot(), 0);
    assert_eq!([fake.enabled(0), fake.enabled(1)], [0, 1]);
    assert_eq!([fake.id(0, 0), fake.id(1, 0)], [user::NO_ID, 0]);
    assert_eq!(text.opcodes(), [user::SITE_DORMANT]);
    // It only slept, and finds out; what is there now stays.
    let taken = |result| matches!(result, Err(Error::SlotTaken { slot: 0, .. }));
    assert!(taken(dead.update().map(|_| ())));
    assert!(taken(dead.stop()));
    drop(dead);
    assert_eq!([fake.enabled(0), fake.enabled(1)], [0, 1]);
    assert_eq!(status(&fake, 0), user::SESSION_ACTIVE);
}

#[test]
fn start_while_somebody_holds_the_lock_says_so() {
    let fake = Fake::with_tracepoints();
    let app = fake.open();
    let other = fake.open();
    let held = other.memory().try_lock().unwrap();
    let error = AppSession::start(&app, &spec(&["*"]), &clock()).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    drop(held);
    let mut session = start(&fake, &["*"]);
    let _held = other.memory().try_lock().unwrap();
    // Switching off works nevertheless.
    session.stop().unwrap();
    assert_eq!(fake.enabled(0), 0);
}

#[test]
fn start_with_sizes_that_are_no_channel_says_which() {
    let fake = Fake::with_tracepoints();
    let bad = SessionSpec { subbuf_bytes: 5000, ..spec(&["*"]) };
    let error = AppSession::start(&fake.open(), &bad, &clock()).unwrap_err();
    assert!(
        matches!(error, Error::Channel { .. }) && error.to_string().contains("5000"),
        "{error}"
    );
    assert_eq!(status(&fake, 0), user::SESSION_FREE);
}

#[test]
fn start_of_memory_that_cannot_grow_says_so() {
    let fake = Fake::with_tracepoints();
    rustix::fs::fcntl_add_seals(&fake.fd, rustix::fs::SealFlags::GROW).unwrap();
    let error = AppSession::start(&fake.open(), &spec(&["*"]), &clock()).unwrap_err();
    assert!(matches!(error, Error::System { .. }), "{error}");
    assert_eq!(status(&fake, 0), user::SESSION_FREE);
}

#[test]
#[ignore = "run by start_beyond_our_file_size_limit_says_so"]
fn alone_start_beyond_our_file_size_limit() {
    let error = AppSession::start(&Fake::with_tracepoints().open(), &spec(&["*"]), &clock());
    let limit = u64::from(user::CHANNELS_OFFSET);
    assert!(matches!(error, Err(Error::FileSizeLimit { limit: l, needed, .. })
        if l == limit && needed > limit));
}

#[test]
fn start_beyond_our_file_size_limit_says_so() {
    run_alone("attach::session::tests::alone_start_beyond_our_file_size_limit", || {
        let limit = rustix::process::Rlimit {
            current: Some(user::CHANNELS_OFFSET.into()),
            maximum: Some(user::CHANNELS_OFFSET.into()),
        };
        Ok(rustix::process::setrlimit(rustix::process::Resource::Fsize, limit)?)
    });
}

#[test]
fn update_learns_what_the_process_switches_on_itself() {
    let fake = Fake::with_tracepoints();
    let mut session = start(&fake, &["*"]);
    let index = fake.add(&Described::new("late", "one", 4), user::STATE_FLAG, &[]);
    fake.put(Fake::id_at(index, 0), &3u16.to_ne_bytes());
    assert!(session.update().unwrap());
    assert!(!session.update().unwrap());
    assert_eq!(names(&session)[3], "3=late:one");
    // Just killed, before it could say that it has changed.
    session.stop().unwrap();
    fake.put(Fake::id_at(index, 0), &4u16.to_ne_bytes());
    assert!(session.update().unwrap());
    assert_eq!(names(&session)[4], "4=late:one");
}

#[test]
fn update_patches_for_a_process_that_cannot() {
    let (fake, text) = (Fake::with_tracepoints(), Text::new(1));
    let mut session = start(&fake, &["*"]);
    let index = fake.add(&Described::new("late", "one", 4), 0, &text.sites);
    fake.put_u32(crate::attach::shared_memory::state(index) + offset_of!(user::State, enabled), 1);
    session.update().unwrap();
    assert_eq!(text.opcodes(), [user::SITE_DORMANT]);
    fake.put_u32(offset_of!(user::Control, patch_errno), libc::EACCES as u32);
    session.update().unwrap();
    session.settle(true).unwrap();
    assert_eq!(text.opcodes(), [user::SITE_ON]);
    // Once is enough: what it says of it afterwards has nobody look at its code again.
    text.set(0, 0, user::SITE_DORMANT);
    for code in [libc::EPERM, 0, libc::EACCES] {
        fake.put_u32(offset_of!(user::Control, patch_errno), code as u32);
        session.update().unwrap();
        assert!(session.patching.is_none());
    }
    // It has loaded something.
    let generation = offset_of!(user::Control, generation);
    fake.put_u64(generation, 99);
    session.learn().unwrap();
    assert!(session.patching.is_none(), "who only learns switches nothing on");
    session.update().unwrap();
    session.settle(true).unwrap();
    assert_eq!(text.opcodes(), [user::SITE_ON]);
}

#[test]
#[ignore = "run by malicious_code_that_does_not_answer_is_tried_again"]
fn alone_code_that_does_not_answer() {
    let (fake, text) = (Fake::with_tracepoints(), Text::new(1));
    let index = fake.add(&Described::new("late", "one", 4), 0, &text.sites);
    let app = fake.open();
    // A thread waits for this process, for all that is known for ever.
    let (pid, user) = app.pid_and_user();
    let left = crate::processes::blocking_queries::LeftBehind::new(Some(pid), user);
    let mut session = AppSession::start(&app, &spec(&["*"]), &clock()).unwrap();
    session.update().unwrap();
    assert_eq!((fake.enabled(index), text.opcodes()), (1, vec![user::SITE_DORMANT]));
    drop(left);
    session.update().unwrap();
    session.settle(true).unwrap();
    assert_eq!(text.opcodes(), [user::SITE_ON]);
    assert!(session.problems().is_empty());
    // At the end it is said.
    let mut session = AppSession::start(&app, &spec(&["*"]), &clock()).unwrap();
    let _left = crate::processes::blocking_queries::LeftBehind::new(Some(pid), user);
    let stopped = session.stop();
    assert!(matches!(stopped, Ok(())), "the other session has it on: {stopped:?}");
    fake.put_u64(offset_of!(user::Control, generation), 99);
    let mut late = AppSession::start(&app, &spec(&["*"]), &clock()).unwrap();
    late.stop().unwrap();
    assert!(matches!(late.problems()[..], [Error::Held { .. }]));
}

#[test]
fn malicious_code_that_does_not_answer_is_tried_again() {
    run_alone("attach::session::tests::alone_code_that_does_not_answer", || Ok(()));
}

#[test]
fn update_does_not_believe_ids_that_cannot_be() {
    let fake = Fake::with_tracepoints();
    let mut session = start(&fake, &["app"]);
    let mut set = |index: u32, id: u16| {
        fake.put(Fake::id_at(index, 0), &id.to_ne_bytes());
        fake.put_u64(offset_of!(user::Control, generation), u64::from(id) << 8 | u64::from(index));
        session.update().map(|_| session.nr_selected())
    };
    // More than there can be; another's.
    for id in [u16::MAX - 1, 60_000, 32_768, 0, 1] {
        assert_eq!(set(2, id).unwrap(), 2);
    }
    // The process and its tracer have given one at the same moment.
    assert_eq!(set(2, 32_767).unwrap(), 3);
    assert_eq!(set(2, 5).unwrap(), 4);
    assert_eq!(set(2, 32_767).unwrap(), 4);
    let error = set(2, 6).unwrap_err();
    let source = crate::DescriptionError::TooManyIds { id: 6, limit: 2 };
    assert!(matches!(&error, Error::Description { index: 2, source: s, .. } if *s == source));
    assert_eq!(session.nr_selected(), 4);
}

/// The heartbeat of the session in slot 0 \[ns\].
fn heartbeat(fake: &Fake) -> u64 {
    fake.session_u64(0, offset_of!(user::Session, heartbeat_ns))
}

#[test]
fn tick_keeps_the_heartbeat_going_and_asks_for_no_more_than_that() {
    let fake = Fake::with_tracepoints();
    let (time, clock) = by_hand();
    let mut session = AppSession::start(&fake.open(), &spec(&["*"]), &clock).unwrap();
    let (begin, mut ticks) = (time.now(), 0);
    while time.elapsed(begin) < Duration::from_secs(3600) {
        let before = heartbeat(&fake);
        let wait = session.tick(&clock).unwrap().saturating_duration_since(time.now());
        assert!(heartbeat(&fake) - before <= HEARTBEAT.as_nanos() as u64);
        assert!(!wait.is_zero() && wait <= HEARTBEAT, "{wait:?}");
        time.pause(wait);
        ticks += 1;
    }
    assert!((4 * 3600..=2 * 4 * 3600).contains(&ticks), "{ticks} looks in an hour");
    assert!(time.manual_ns().unwrap() - heartbeat(&fake) <= 250_000_000);
    assert_eq!(fake.u32(offset_of!(user::Control, clock_kind)), user::CLOCK_VDSO);
}

#[test]
fn tick_of_a_session_whose_slot_was_taken_says_for_how_long_it_had_not_moved() {
    let fake = Fake::with_tracepoints();
    let (time, clock) = by_hand();
    let mut session = AppSession::start(&fake.open(), &spec(&["*"]), &clock).unwrap();
    fake.put_u64(
        crate::attach::shared_memory::session(0) + offset_of!(user::Session, generation),
        1,
    );
    // It looks at its slot when its heartbeat is due, and not before.
    assert!(session.tick(&clock).is_ok());
    time.pause(Duration::from_secs(7));
    let error = session.tick(&clock).unwrap_err();
    assert!(matches!(error, Error::SlotTaken { found: 1, silent_ms: 7000, .. }), "{error:?}");
}

#[test]
fn tick_publishes_a_counter_s_conversion_in_intervals_that_double() {
    let fake = Fake::with_tracepoints();
    let clock = clock();
    if *clock.kind() != crate::ClockKind::Tsc {
        return;
    }
    let mut session = AppSession::start(&fake.open(), &spec(&["*"]), &clock).unwrap();
    let index = fake.u64(offset_of!(user::Control, clock_index));
    let clocks = || fake.u64(offset_of!(user::Control, clock_index)) - index;
    let (limit, mut waits) = (Instant::now() + Duration::from_secs(60), Duration::ZERO);
    while clocks() < 4 {
        assert!(Instant::now() < limit, "{} clocks", clocks());
        let wait = session.tick(&clock).unwrap().saturating_duration_since(Instant::now());
        std::thread::sleep(wait);
        waits += wait;
    }
    // 10, 20, 40 ... ms: what it asks for, not what a busy machine makes of it.
    assert!(waits < Duration::from_secs(2), "{waits:?}");
    assert_eq!(fake.u32(offset_of!(user::Control, clock_kind)), user::CLOCK_TSC);
}

#[test]
fn tick_tells_a_process_in_which_group_it_is_if_its_records_have_it() {
    let (fake, clock) = (Fake::with_tracepoints(), clock());
    let told = || fake.session_u64(0, offset_of!(user::Session, cgroup_id));
    drop(AppSession::start(&fake.open(), &spec(&["*"]), &clock).unwrap());
    assert_eq!(told(), 0);
    let contexts = crate::EventContexts::parse(&["vpid,cgroup_id"]).unwrap();
    let with = SessionSpec { contexts, ..spec(&["*"]) };
    let mut session = AppSession::start(&fake.open(), &with, &clock).unwrap();
    // 0: there are none of version 2.
    let group = crate::processes::cgroup::of(std::process::id()).unwrap_or(0);
    assert_eq!(told(), group);
    // As if it had been moved meanwhile. What is not seen does not change what was said.
    fake.put_u64(
        crate::attach::shared_memory::session(0) + offset_of!(user::Session, cgroup_id),
        1,
    );
    session.heartbeat = Due::after(Instant::now(), Duration::ZERO);
    session.tick(&clock).unwrap();
    assert_eq!(told(), group.max(1));
    // The next one in this place does not have it.
    drop(session);
    let _session = AppSession::start(&fake.open(), &spec(&["*"]), &clock).unwrap();
    assert_eq!(told(), 0);
}

#[test]
fn start_in_a_process_that_has_ended_says_gone_and_adopt_reads_the_rest() {
    let mut fake = Fake::spawned_unseen().described();
    fake.kill();
    let app = fake.open();
    assert!(AppSession::start(&app, &spec(&["*"]), &clock()).unwrap_err().is_gone());
    let mut fake = self_enabled(9);
    fake.pid = u32::MAX;
    let mut session = AppSession::adopt(&fake.open(), 9, &spec(&["*"]), &clock()).unwrap();
    assert_eq!(session.nr_selected(), 2);
    session.stop().unwrap();
    session.release().unwrap();
}

#[test]
fn adopt_of_one_that_has_ended_and_could_not_write_its_code_reads_the_rest() {
    let (mut fake, text) = (self_enabled(9), Text::new(1));
    let index = fake.add(&Described::new("late", "one", 4), 0, &text.sites);
    fake.put_u32(crate::attach::shared_memory::state(index) + offset_of!(user::State, enabled), 1);
    fake.put_u32(offset_of!(user::Control, patch_errno), libc::EACCES as u32);
    fake.pid = u32::MAX;
    let mut session = AppSession::adopt(&fake.open(), 9, &spec(&["*"]), &clock()).unwrap();
    assert!(session.take_channel().is_some() && session.nr_selected() == 2);
    session.update().unwrap();
    session.release().unwrap();
}

#[test]
fn adopt_that_fails_leaves_what_a_process_has_recorded_that_has_ended() {
    for (has_ended, left) in [(true, (user::SESSION_ACTIVE, 9)), (false, (user::SESSION_FREE, 0))] {
        let mut fake = self_enabled(9);
        if has_ended {
            fake.pid = u32::MAX;
        }
        let nr = crate::attach::shared_memory::session(0) + offset_of!(user::Session, nr_contexts);
        fake.put_u32(nr, user::CONTEXTS_MAX + 1);
        let app = fake.open();
        let error = AppSession::adopt(&app, 9, &spec(&["*"]), &clock()).unwrap_err();
        assert!(matches!(error, Error::Value { .. }) && !error.may_pass(), "{error}");
        let found = (status(&fake, 0), fake.session_u64(0, offset_of!(user::Session, generation)));
        assert_eq!(found, left);
        fake.put_u32(nr, 0);
        if has_ended {
            let session = AppSession::adopt(&app, 9, &spec(&["*"]), &clock()).unwrap();
            assert!(session.channel_bytes() > 0);
            session.leave();
            assert_eq!(app.session_generations(), [9]);
        }
    }
}

#[test]
fn adopt_of_what_a_killed_tracer_was_about_to_end_is_for_processes_that_have_ended() {
    let mut fake = self_enabled(9);
    fake.put_u32(
        crate::attach::shared_memory::session(0) + offset_of!(user::Session, status),
        user::SESSION_ENDING,
    );
    assert!(fake.open().session_generations().is_empty());
    let error = AppSession::adopt(&fake.open(), 9, &spec(&["*"]), &clock()).unwrap_err();
    assert!(matches!(error, Error::NotEnabled { .. }), "{error}");
    fake.pid = u32::MAX;
    // What is active is in front of it.
    let slot = crate::attach::shared_memory::session(1);
    fake.put_u64(slot + offset_of!(user::Session, generation), 10);
    fake.put_u32(slot + offset_of!(user::Session, status), user::SESSION_ACTIVE);
    assert_eq!(fake.open().session_generations(), [10, 9]);
    let mut session = AppSession::adopt(&fake.open(), 9, &spec(&["*"]), &clock()).unwrap();
    assert_eq!((session.nr_selected(), session.slot()), (2, 0));
    session.stop().unwrap();
    session.release().unwrap();
    assert_eq!(status(&fake, 0), user::SESSION_FREE);
}

#[test]
fn counters_are_those_of_the_slot() {
    let fake = Fake::with_tracepoints();
    let session = start(&fake, &["*"]);
    assert_eq!(session.counters(), SessionCounters::default());
    let slot = crate::attach::shared_memory::session(0);
    fake.put_u64(slot + offset_of!(user::Session, discarded_unmapped), 3);
    fake.put_u64(slot + offset_of!(user::Session, discarded_unstaged), 4);
    fake.put_u64(slot + offset_of!(user::Session, discarded_no_clock), 5);
    fake.put_u64(slot + offset_of!(user::Session, self_stopped), 1);
    let wanted = SessionCounters {
        discarded_unmapped: 3,
        discarded_unstaged: 4,
        discarded_no_clock: 5,
        self_stopped: true,
    };
    assert_eq!(session.counters(), wanted);
}

/// A session that the process has made itself, as a command does that a tracer starts.
fn self_enabled(generation: u64) -> Fake {
    let fake = Fake::with_tracepoints();
    let mut donor = start(&fake, &["app"]);
    donor.stopped = true;
    donor.released = true;
    drop(donor);
    let slot = crate::attach::shared_memory::session(0);
    fake.put_u64(slot + offset_of!(user::Session, generation), generation);
    fake.put_u64(slot + offset_of!(user::Session, heartbeat_ns), 0);
    fake
}

#[test]
fn adopt_takes_over_what_the_process_has_made() {
    let fake = self_enabled(77);
    let mut session = AppSession::adopt(&fake.open(), 77, &spec(&["*"]), &clock()).unwrap();
    assert_eq!(names(&session), ["0=app:start", "1=app:work"]);
    assert_eq!((session.slot(), session.large_header()), (0, false));
    assert!(fake.session_u64(0, offset_of!(user::Session, heartbeat_ns)) > 0);
    assert_eq!(session.take_channel().unwrap().nr_streams(), 1);
    session.release().unwrap();
    assert_eq!((status(&fake, 0), fake.enabled(0)), (user::SESSION_FREE, 0));
}

#[test]
fn adopt_of_another_generation_says_that_there_is_none() {
    let fake = self_enabled(77);
    let error = AppSession::adopt(&fake.open(), 78, &spec(&["*"]), &clock()).unwrap_err();
    assert!(matches!(error, Error::NotEnabled { generation: 78, .. }));
    // The process has left why.
    let slot = crate::attach::shared_memory::session(3);
    fake.put(slot + offset_of!(user::Session, generation), &78u64.to_ne_bytes());
    fake.put_u32(slot + offset_of!(user::Session, create_errno), libc::EFBIG as u32);
    let error = AppSession::adopt(&fake.open(), 78, &spec(&["*"]), &clock()).unwrap_err();
    assert!(matches!(error, Error::NoBuffers { .. }), "{error}");
    assert!(error.to_string().contains("began: File too large"), "{error}");
    assert_eq!((status(&fake, 0), fake.enabled(0)), (user::SESSION_ACTIVE, 1));
}

#[test]
fn malicious_slot_whose_channel_lies_elsewhere_is_not_adopted() {
    for (offset, bytes) in [
        (0, 4096),
        (u64::from(user::CHANNELS_OFFSET) - 4096, 8192),
        (u64::from(user::CHANNELS_OFFSET), 1 << 50),
        (u64::from(user::CHANNELS_OFFSET), 0),
        (u64::from(user::CHANNELS_OFFSET) + 8, 4096),
        (u64::MAX - 4095, 8192),
    ] {
        let fake = self_enabled(5);
        let slot = crate::attach::shared_memory::session(0);
        fake.put_u64(slot + offset_of!(user::Session, channel_offset), offset);
        fake.put_u64(slot + offset_of!(user::Session, channel_bytes), bytes);
        let error = AppSession::adopt(&fake.open(), 5, &spec(&["*"]), &clock()).unwrap_err();
        assert!(matches!(error, Error::Value { .. }), "{error}");
    }
    let fake = self_enabled(5);
    fake.put_u64(user::CHANNELS_OFFSET as usize, 0);
    let error = AppSession::adopt(&fake.open(), 5, &spec(&["*"]), &clock()).unwrap_err();
    assert!(matches!(error, Error::Channel { .. }), "{error}");
}

#[test]
fn malicious_channel_with_larger_sub_buffers_than_asked_for_is_not_adopted() {
    for (what, asked) in [
        ("its channel's sub-buffer size", SessionSpec { subbuf_bytes: 2048, ..spec(&["*"]) }),
        ("its channel's number of sub-buffers", SessionSpec { nr_subbufs: 1, ..spec(&["*"]) }),
    ] {
        let error = AppSession::adopt(&self_enabled(5).open(), 5, &asked, &clock()).unwrap_err();
        // Smaller than a sub-buffer can be, or more bytes than all CPUs need: that is seen first.
        let is_first = matches!(
            error,
            Error::Channel { .. } | Error::Value { what: "its channel's size", .. }
        );
        let is_it = matches!(error, Error::Value { what: found, .. } if found == what);
        assert!(is_first || is_it, "{error}");
    }
}

#[test]
fn malicious_channel_in_sparse_memory_takes_no_more_addresses_than_was_asked_for() {
    let fake = self_enabled(5);
    let bytes = 1u64 << 40;
    rustix::fs::ftruncate(&fake.fd, u64::from(user::CHANNELS_OFFSET) + bytes).unwrap();
    let slot = crate::attach::shared_memory::session(0);
    fake.put_u64(slot + offset_of!(user::Session, channel_bytes), bytes);
    let error = AppSession::adopt(&fake.open(), 5, &spec(&["*"]), &clock()).unwrap_err();
    let is_it = |what: &str| what == "its channel's size";
    assert!(
        matches!(error, Error::Value { what, found, .. } if is_it(what) && found == bytes),
        "{error}"
    );
}

#[test]
fn malicious_slots_that_claim_everything_do_not_keep_us_out() {
    let fake = Fake::with_tracepoints();
    let now = Clock::monotonic_ns();
    for (slot, (offset, bytes)) in
        [(0, u64::MAX), (u64::MAX - 4095, 4096), (4096, 1 << 60), (7, 9)].into_iter().enumerate()
    {
        let at = crate::attach::shared_memory::session(slot as u32);
        fake.put_u32(at + offset_of!(user::Session, status), user::SESSION_ACTIVE);
        fake.put_u64(at + offset_of!(user::Session, heartbeat_ns), now);
        fake.put_u64(at + offset_of!(user::Session, channel_offset), offset);
        fake.put_u64(at + offset_of!(user::Session, channel_bytes), bytes);
    }
    let session = start(&fake, &["*"]);
    assert_eq!((session.slot(), session.place.0), (4, user::CHANNELS_OFFSET.into()));
}

#[test]
fn two_tracers_at_once_leave_sites_as_the_masks_say() {
    let (fake, text) = (Fake::new(), Text::new(4));
    for (number, site) in text.sites.iter().enumerate() {
        fake.add(&Described::new("app", &format!("e{number}"), 4), 0, &[*site]);
    }
    let clock = clock();
    let app = fake.open();
    let mut standing = AppSession::start(&app, &spec(&["app:e0"]), &clock).unwrap();
    // However long the others take.
    let beat = crate::attach::shared_memory::session(standing.slot())
        + offset_of!(user::Session, heartbeat_ns);
    fake.put_u64(beat, u64::MAX);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (fake, clock) = (&fake, &clock);
            scope.spawn(move || {
                let app = fake.open();
                for _ in 0..200 {
                    let rule = format!("app:e{}", thread + 1);
                    let session = loop {
                        match AppSession::start(&app, &spec(&["app:e0", &rule]), clock) {
                            Err(Error::Locked { .. }) => std::thread::yield_now(),
                            other => break other.unwrap(),
                        }
                    };
                    // Still looked at by the process, whoever came and went meanwhile.
                    let claimed = fake.u32(offset_of!(user::Control, claimed_sessions));
                    assert_ne!(claimed & 1 << session.slot(), 0);
                    drop(session);
                }
            });
        }
    });
    let (on, off) = (user::SITE_ON, user::SITE_DORMANT);
    assert_eq!(text.opcodes(), [on, off, off, off]);
    assert_eq!(fake.enabled(0), 1 << standing.slot());
    standing.stop().unwrap();
    assert_eq!(text.opcodes(), [off; 4]);
}

/// CPU time of this thread: other threads may have the CPU, and waiting is measured by tests/fault/thousand.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.try_into().expect("a time")
}

#[test]
fn start_in_a_thousand_processes_takes_less_than_a_second_of_cpu() {
    let nofile = rustix::process::Resource::Nofile;
    let limit = rustix::process::getrlimit(nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(nofile, raised).unwrap();
    let fakes: Vec<Fake> = (0..1000).map(|_| Fake::spawned().described()).collect();
    let clock = clock();
    let begun = cpu_time();
    let found = crate::find(&crate::Who::Everyone).unwrap();
    let after_find = cpu_time() - begun;
    let ours: std::collections::HashSet<u32> = fakes.iter().map(|fake| fake.pid).collect();
    let spec = spec(&["*"]);
    let sessions: Vec<AppSession> = found
        .applications
        .iter()
        .filter(|app| ours.contains(&app.pid()))
        .map(|app| loop {
            match AppSession::start(app, &spec, &clock) {
                // Whoever records all processes of the machine has come upon it, too.
                Err(Error::Locked { .. }) => std::thread::yield_now(),
                other => break other.unwrap(),
            }
        })
        .collect();
    let took = cpu_time() - begun;
    eprintln!("found in {after_find:?}, switched on in {took:?}");
    assert_eq!(sessions.len(), 1000);
    // Not optimised: more room than the second.
    let limit = Duration::from_secs(if cfg!(debug_assertions) { 5 } else { 1 });
    assert!(took < limit, "found in {after_find:?}, switched on in {took:?}");
}

/// Areas that a process can write to and that we read.
const AREAS: [(usize, usize); 4] = [
    (0, size_of::<user::Control>()),
    (user::SESSIONS_OFFSET as usize, 3 * size_of::<user::Session>()),
    (user::STATES_OFFSET as usize, 5 * size_of::<user::State>()),
    (user::DESCRIPTIONS_OFFSET as usize, 512),
];

/// Scribbles over everything that a process can write to, while every function is called.
#[test]
fn malicious_scribbling_over_the_memory_never_stops_the_tracer() {
    let mut random = Random::new();
    let clock = clock();
    let mut outcomes = std::collections::BTreeMap::<&str, u32>::new();
    let fake = Fake::forked().described();
    let site = user::Site { address: 4096, displacement: 7, reserved: 0 };
    fake.add(&Described::new("app", "patched", 3), 0, &[site; 3]);
    let whole: Vec<Vec<u8>> =
        AREAS.iter().map(|(begin, bytes)| fake.copy(*begin, *bytes)).collect();
    for round in 0..1200 {
        for ((begin, _), bytes) in AREAS.iter().zip(&whole) {
            fake.put(*begin, bytes);
        }
        let done = std::sync::atomic::AtomicBool::new(false);
        let (seed, pause) = (random.next(), 1 << (4 + round % 14));
        std::thread::scope(|scope| {
            scope.spawn(|| scribble(&fake, Random::from_seed(seed), pause, &done));
            let outcome = std::panic::catch_unwind(|| use_everything(&fake, &clock));
            done.store(true, Ordering::Relaxed);
            *outcomes.entry(outcome.unwrap()).or_default() += 1;
        });
    }
    eprintln!("{outcomes:?}");
    // Not all at the first look: each stage is reached, and each is disturbed.
    assert!(outcomes.len() >= 4 && outcomes["none"] > 10, "{outcomes:?}");
}

fn scribble(fake: &Fake, mut random: Random, pause: usize, done: &std::sync::atomic::AtomicBool) {
    let channel = (user::CHANNELS_OFFSET as usize, 16384);
    while !done.load(Ordering::Relaxed) {
        for _ in 0..random.below(pause) {
            std::hint::spin_loop();
        }
        let (begin, bytes) = *AREAS.get(random.below(AREAS.len() + 1)).unwrap_or(&channel);
        let at = begin + random.below(bytes / 8) * 8;
        // Small numbers, all ones, bits, or anything.
        let value = match random.below(4) {
            0 => random.next() % 40,
            1 => u64::MAX,
            2 => 1 << random.below(64),
            _ => random.next(),
        };
        fake.put_u64(at, value);
    }
}

/// Calls everything; gives the name of the first failure.
fn use_everything(fake: &Fake, clock: &Clock) -> &'static str {
    let name = |error: Error| match error {
        Error::Magic { .. } | Error::NotReady { .. } | Error::Version { .. } => "not ours",
        Error::Value { .. } => "value",
        Error::Description { .. } => "description",
        Error::Channel { .. } => "channel",
        Error::NoSlot { .. } => "no slot",
        Error::SlotTaken { .. } => "slot taken",
        Error::NotEnabled { .. } | Error::NoBuffers { .. } => "not enabled",
        Error::Locked { .. } => "locked",
        // Its start was scribbled over.
        Error::Gone { .. } => "gone",
        Error::NoPlace { .. } | Error::System { .. } => "system",
        // On a busy machine a thread may sleep for long.
        Error::Stuck { .. } | Error::UserHeld { .. } => "busy",
        other => panic!("{other}"),
    };
    let all = || -> Result<(), Error> {
        let app = Application::open(fake.fd.as_fd().try_clone_to_owned().unwrap(), fake.pid)?;
        let _ = (app.name(), app.is_alive(), app.generation(), app.sites_by_flag());
        let _ = app.tracepoints();
        let generation = app.session_generations().first().copied().unwrap_or(1);
        let adopted = AppSession::adopt(&app, generation, &spec(&["*"]), clock);
        let mut session = AppSession::start(&app, &spec(&["*"]), clock)?;
        session.clock = Due::after(Instant::now(), Duration::ZERO);
        session.tick(clock)?;
        session.update()?;
        let _ = (session.problems(), session.counters(), session.nr_selected());
        for event in session.events() {
            assert_eq!(event.validate(), Ok(()));
        }
        drop(adopted);
        if let Some(mut channel) = session.take_channel() {
            for stream in 0..channel.nr_streams() {
                let _ = channel.stream(stream);
            }
        }
        session.stop()?;
        session.update()?;
        session.release()
    };
    all().map_or_else(name, |()| "none")
}
