use super::socket_holders::HOLDERS_MAX;
use super::*;
use crate::applications::filter_check::Filtered;
use crate::daemon::slot_file::Slots;
use crate::options::Options;
use crate::plan::tracked::Tracked;
use crate::report::USER;
use crate::scratch_tests::{context, program, Nowhere};
use rustix::net::{sendmsg, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Mutex;
use strata_abi::user;

/// Announces this process, with this memory, on the socket.
fn announce(socket: &OwnedFd, memory: &OwnedFd) {
    let mut text = user::MAGIC.to_ne_bytes().to_vec();
    text.extend(user::VERSION.to_ne_bytes());
    text.extend(std::process::id().to_ne_bytes());
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [memory.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    let text = [std::io::IoSlice::new(&text)];
    sendmsg(socket, &text, &mut control, SendFlags::empty()).unwrap();
}

#[test]
fn who_is_not_tracked_and_has_no_session_of_ours_is_passed_over() {
    let launch = strata_user::Launch::new().unwrap();
    let theirs = launch.child_fd().try_clone_to_owned().unwrap();
    let memory = rustix::fs::memfd_create("strata", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&memory, u64::from(user::CHANNELS_OFFSET)).unwrap();
    announce(&theirs, &memory);
    let Received::Process { fd, sender, .. } = launch.started().receive().unwrap() else {
        panic!("no process");
    };
    let bench = Bench::new();
    let (mut registry, _orders) = bench.registry(ProcessTarget::Everyone, false);
    let pid = std::process::id();
    assert!(!registry.is_passed_over(&fd, &sender), "everybody is tracked");
    let only = |pid| Arc::new(Tracked { pids: Some(vec![pid]), ..Tracked::default() });
    registry.changing.tracked = only(pid);
    assert!(!registry.is_passed_over(&fd, &sender), "it is tracked");
    registry.changing.tracked = only(pid + 1);
    assert!(registry.is_passed_over(&fd, &sender));
    // It has sessions, and then one of ours.
    registry.generations.insert(41, 0, |_| true);
    for (slot, generation, passed_over) in [(2, 40, true), (user::NR_SESSIONS - 1, 41, false)] {
        let slot = user::SESSIONS_OFFSET as usize + slot as usize * size_of::<user::Session>();
        let at = slot + offset_of!(user::Session, generation);
        rustix::io::pwrite(&memory, &u64::to_ne_bytes(generation), at as u64).unwrap();
        assert_eq!(registry.is_passed_over(&fd, &sender), passed_over, "{generation}");
    }
    registry.target = of_command(pid + 1, None);
    assert!(!registry.is_passed_over(&fd, &sender), "a command's are found by their parents");
}

#[test]
fn malicious_holders_of_the_socket_that_send_on_are_looked_at_so_often_and_no_more() {
    let launch = strata_user::Launch::new().unwrap();
    let theirs = launch.child_fd().try_clone_to_owned().unwrap();
    let mut ours = launch.started();
    let memory = rustix::fs::memfd_create("none", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    (0..HOLDERS_MAX + 10).for_each(|_| announce(&theirs, &memory));
    assert!(holders_of(&mut ours).is_empty());
    let left = (0..HOLDERS_MAX).map(|_| ours.receive().unwrap());
    assert_eq!(left.filter(|one| matches!(one, Received::Process { .. })).count(), 10);
    // Nobody has said who it is.
    assert_eq!(holders_of(&mut ours), ["a descendant of the command"]);
    drop(theirs);
    // Children of other tests have it until they execute something.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !holders_of(&mut ours).is_empty() {
        assert!(std::time::Instant::now() < until, "somebody has it still");
        std::thread::yield_now();
    }
}

/// The parts of a registry for tests, with its findings.
pub(super) struct Bench {
    spec: Arc<SessionSpec>,
    clock: Arc<Clock>,
    sources: Arc<ProgramSources>,
    found: Arc<RegistryFindings>,
}

impl Bench {
    pub(super) fn new() -> Bench {
        Bench::with(None, TimeSource::machine())
    }

    /// Returns a registry whose time is set by the test.
    pub(super) fn by_hand() -> (TimeSource, Bench) {
        let time = TimeSource::manual(Clock::monotonic_ns());
        (time.clone(), Bench::with(None, time))
    }

    /// Returns the state after a session was killed that had these generations in the program, one in each slot.
    fn after(program: &Application, generations: &[u64]) -> Bench {
        let (pid, inode) = (program.pid(), program.inode());
        let line = |one: &u64| format!("big {one:016x} {pid} {inode}\n");
        let before: String = generations.iter().map(line).collect();
        let write = |_: &str| std::fs::File::options().write(true).open("/dev/null");
        let all = Arc::new(Slots::new(Box::new(write), &before).unwrap());
        Bench::with(Some(ChannelSlots { all, channel: "big".to_owned() }), TimeSource::machine())
    }

    fn with(slots: Option<ChannelSlots>, time: TimeSource) -> Bench {
        let rules = strata_user::Rules::parse(&["*:*"]).unwrap();
        let filtered = Filtered::new(&Options::default(), &strata_user::Rules::none());
        let book = Mutex::new(crate::applications::rule_history::RuleBook::new(&rules));
        let mut context = context(Nowhere);
        let clock = match time.manual_ns() {
            Some(_) => Clock::by_hand(time.clone()),
            None => Clock::new(),
        };
        let of_context = Arc::get_mut(&mut context).unwrap();
        (of_context.slots, of_context.shared) = (slots, Shared::by_time(time).unwrap());
        let voice = context.shared.add_layer(USER);
        Bench {
            spec: Arc::new(SessionSpec {
                rules: rules.clone(),
                filter: None,
                loss_mode: strata_user::LossMode::Discard,
                subbuf_bytes: 4096,
                nr_subbufs: 2,
                header: strata_user::HeaderChoice::Auto,
                contexts: Default::default(),
                vtid: true,
                inherit: true,
            }),
            clock: Arc::new(clock),
            sources: Arc::new(ProgramSources {
                context,
                voice,
                book,
                filtered,
                ended: Mutex::default(),
            }),
            found: Arc::default(),
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        self.sources.voice.shared()
    }

    pub(super) fn registry(
        &self,
        target: ProcessTarget,
        plain_too: bool,
    ) -> (Registry, Receiver<PumpOrder<ProcessSource>>) {
        let (orders, arriving) = channel();
        let registry = Registry::new(RegistryParts {
            target,
            listener: None,
            spec: Arc::clone(&self.spec),
            clock: Arc::clone(&self.clock),
            begun_ns: 0,
            sources: Arc::clone(&self.sources),
            orders,
            found: Arc::clone(&self.found),
            plain_too,
            hearing: asking().unwrap().1,
        });
        (registry, arriving)
    }

    pub(super) fn not_reached(&self) -> Vec<(u32, String)> {
        let all = lock(&self.found.not_reached).take();
        all.into_iter().map(|one| (one.pid, one.reason)).collect()
    }
}

pub(super) fn of_command(pid: u32, announcements: Option<Announcements>) -> ProcessTarget {
    ProcessTarget::Command { generation: 77, pid, announcements }
}

/// Starts a process without tracepoints.
fn child() -> std::process::Child {
    std::process::Command::new("sleep").arg("60").spawn().unwrap()
}

pub(super) fn end(mut child: std::process::Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn begin_says_of_each_process_that_was_asked_for_why_it_is_not_recorded() {
    let bench = Bench::new();
    let child = child();
    let (mut registry, arriving) =
        bench.registry(ProcessTarget::Processes(vec![child.id(), 4_000_000_000]), false);
    let mut told = Vec::new();
    registry.begin(&mut |notice| {
        told.push(notice);
        ControlFlow::Continue(())
    });
    let mut reasons = bench.not_reached();
    reasons.sort_unstable();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert_eq!(reasons[0].0, child.id());
    assert!(reasons[0].1.contains("no tracepoints"), "{reasons:?}");
    assert!(reasons[1].1.ends_with("is not there"), "{reasons:?}");
    // How far it is, is told only where it takes time.
    let searching = |notice: &Notice| matches!(notice, Notice::Searching { total: 2, .. });
    assert!(told.iter().all(searching), "{told:?}");
    // It may start a program that has some.
    assert!(!registry.nobody_left() && arriving.try_recv().is_err());
    end(child);
    assert!(registry.nobody_left());
}

#[test]
fn begin_of_a_command_looks_for_nobody() {
    let bench = Bench::new();
    let (mut registry, _arriving) = bench.registry(of_command(1, None), false);
    registry.begin(&mut |notice| panic!("{notice:?}"));
    // The command may come yet: that nobody is there is no end.
    assert!(!registry.nobody_left());
    assert_eq!(bench.not_reached(), []);
}

#[test]
fn process_without_tracepoints_is_no_news_where_the_kernel_records_it() {
    for (plain_too, said) in [(false, 1), (true, 0)] {
        let bench = Bench::new();
        let child = child();
        let (mut registry, _arriving) =
            bench.registry(ProcessTarget::Processes(vec![child.id()]), plain_too);
        registry.begin(&mut |_| ControlFlow::Continue(()));
        assert_eq!(bench.not_reached().len(), said, "{plain_too}");
        end(child);
    }
}

#[test]
fn errors_of_processes_are_reported_as_people_look_for_them_and_once() {
    let bench = Bench::new();
    let (mut registry, _arriving) = bench.registry(ProcessTarget::Everyone, false);
    let refused = Error::Refused { pid: 5, name: "app".into(), reason: "is a stranger".into() };
    for error in [
        &refused,
        &refused,
        // Of all processes of the user together.
        &Error::UserHeld { pid: 6, uid: 1000 },
        &Error::UserHeld { pid: 7, uid: 1000 },
        &Error::UserHeld { pid: 7, uid: 1001 },
        &Error::Strict { pid: 8, found: 2, known: 1 },
        // Of none.
        &Error::Proc { source: std::io::Error::other("gone") },
    ] {
        registry.unreached(error);
    }
    let all = lock(&bench.found.not_reached).take();
    let told: Vec<(u32, &str)> = all.iter().map(|one| (one.pid, one.name.as_str())).collect();
    let users = ["processes of user 1000", "processes of user 1001"];
    assert_eq!(told, [(5, "app"), (0, users[0]), (0, users[1]), (8, ""), (0, "")]);
    assert_eq!(all[0].reason, "is a stranger");
    assert_eq!(all[1].reason, held_of_user(1000));
    assert!(all[3].reason.starts_with("process 8: "), "{all:?}");
    assert!(all[4].reason.starts_with("/proc: "), "{all:?}");
}

#[test]
fn descendants_are_of_the_command_or_of_who_was_asked_for_and_a_process_is_its_own() {
    let bench = Bench::new();
    let child = child();
    let own = std::process::id();
    let (registry, _arriving) = bench.registry(of_command(own, None), false);
    assert!(registry.is_of_command() && registry.is_one_of_ours(own));
    assert!(registry.is_descendant(own) && registry.is_descendant(child.id()));
    assert!(!registry.is_one_of_ours(child.id()) && !registry.is_descendant(1));
    let (registry, _arriving) = bench.registry(ProcessTarget::Processes(vec![own]), false);
    assert!(!registry.is_of_command() && registry.is_one_of_ours(own));
    assert!(registry.is_descendant(child.id()) && !registry.is_descendant(1));
    // Where everybody is asked for, nobody is a descendant.
    let (registry, _arriving) = bench.registry(ProcessTarget::Everyone, false);
    assert!(!registry.is_one_of_ours(own) && !registry.is_descendant(child.id()));
    end(child);
}

#[test]
fn process_that_may_be_one_of_ours_is_hidden_with_its_first_reason() {
    let bench = Bench::new();
    let (registry, _arriving) = bench.registry(of_command(1, None), false);
    registry.hide(7, "first".into());
    registry.hide(7, "second".into());
    registry.hide(8, "first".into());
    let hidden = lock(&bench.found.hidden).take();
    let told: Vec<(u32, &str)> = hidden.iter().map(|one| (one.pid, &one.reason[..])).collect();
    assert_eq!(told, [(7, "first"), (8, "first")]);
    assert_eq!(bench.not_reached(), []);
}

#[test]
fn generations_of_the_command_are_known_from_the_begin_and_never_forgotten() {
    let bench = Bench::new();
    let (mut registry, _arriving) = bench.registry(of_command(1, None), false);
    assert_eq!(registry.generations.until(77), Some(0));
    for generation in 1000..70_000 {
        registry.remember(generation, generation);
    }
    // Those that no process has go, the oldest first.
    assert!(registry.generations.contains(77) && registry.generations.contains(69_999));
    assert!(!registry.generations.contains(1000));
    let (registry, _arriving) = bench.registry(ProcessTarget::Everyone, false);
    assert!(!registry.generations.contains(77));
}

#[test]
fn malicious_messages_on_the_command_s_socket_are_passed_over_and_its_end_is_seen() {
    let bench = Bench::new();
    let launch = strata_user::Launch::new().unwrap();
    let theirs = launch.child_fd().try_clone_to_owned().unwrap();
    let own = std::process::id();
    let (mut registry, arriving) = bench.registry(of_command(own, Some(launch.started())), false);
    let send = |bytes: &[u8]| {
        rustix::net::send(&theirs, bytes, SendFlags::empty()).unwrap();
    };
    send(b"none of ours");
    send(&[0xff; 64]);
    registry.receive(LAST_ROUNDS);
    let has_socket = |registry: &Registry| match &registry.target {
        ProcessTarget::Command { announcements, .. } => announcements.is_some(),
        _ => false,
    };
    assert!(has_socket(&registry));
    assert!(arriving.try_recv().is_err() && registry.held.is_empty());
    drop(theirs);
    // Children of other tests have it until they execute something.
    let until = Instant::now() + Duration::from_secs(60);
    while has_socket(&registry) {
        assert!(Instant::now() < until, "somebody has it still");
        registry.receive(LAST_ROUNDS);
    }
    // Who has the other end at the last has nobody here.
    registry.find_holders();
    assert_eq!(*lock(&bench.found.holders), Vec::<String>::new());
}

#[test]
fn run_ends_with_the_session_lets_the_mover_end_and_waits_for_it() {
    let bench = Bench::new();
    let launch = strata_user::Launch::new().unwrap();
    let theirs = launch.child_fd().try_clone_to_owned().unwrap();
    // Nobody: the search at the end finds nothing of it.
    let (mut registry, arriving) =
        bench.registry(of_command(4_000_000_000, Some(launch.started())), false);
    bench.shared().stop(crate::report::EndReason::Command);
    std::thread::scope(|scope| {
        let running = scope.spawn(move || registry.run());
        // The mover: nobody comes any more. Else this waits for ever.
        assert!(arriving.recv().is_err());
        assert!(!running.is_finished());
        assert!(lock(&bench.found.holders).is_empty());
        bench.shared().set_moved();
        running.join().unwrap();
    });
    assert_eq!(*lock(&bench.found.holders), ["a descendant of the command"]);
    drop(theirs);
}

#[test]
fn search_that_is_broken_off_lets_nobody_in_and_the_next_one_is_later_the_longer_it_took() {
    let (time, bench) = Bench::by_hand();
    let (mut registry, arriving) = bench.registry(ProcessTarget::Everyone, false);
    registry.begin(&mut |_| ControlFlow::Break(()));
    assert!(registry.processes.is_empty() && arriving.try_recv().is_err());
    assert_eq!(registry.next_search - time.now(), SEARCH_PERIOD);
    assert_eq!(pause_after(Duration::from_millis(25)), Duration::from_secs(5));
    assert_eq!(pause_after(Duration::from_secs(60)), SEARCH_PERIOD_MAX);
}

#[test]
fn registry_that_had_no_cpu_for_half_of_the_limit_says_so_and_one_that_was_a_little_late_does_not()
{
    let (time, bench) = Bench::by_hand();
    let (mut registry, _arriving) = bench.registry(ProcessTarget::Everyone, false);
    registry.look_after();
    time.pause(TICK_PERIOD + LAG);
    registry.look_after();
    assert!(!bench.shared().has_lagged());
    time.pause(TICK_PERIOD + LAG + Duration::from_nanos(1));
    registry.look_after();
    assert!(bench.shared().has_lagged());
    assert!(registry.next_tick > time.now() && registry.next_update > time.now());
}

/// Locks the program's memory through another open file, as long as the returned file lives.
fn held_by_another(memory: &OwnedFd) -> std::fs::File {
    let another = std::fs::File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(memory)))
        .unwrap();
    rustix::fs::flock(&another, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    another
}

#[test]
fn program_whose_memory_is_locked_is_tried_again_for_a_moment_and_then_given_up() {
    let (time, bench) = Bench::by_hand();
    let (mut registry, arriving) = bench.registry(ProcessTarget::Everyone, false);
    for is_freed in [true, false] {
        let (program, memory) = program();
        let another = held_by_another(&memory);
        registry.admit(&program, Came::Invited, true);
        let begin = time.now();
        // It is not tried before its time, however often somebody looks.
        time.pause(LOCK_PERIOD - Duration::from_nanos(1));
        registry.try_locked(false);
        assert_eq!((registry.locked.len(), bench.not_reached().len()), (1, 0));
        while time.elapsed(begin) + LOCK_PERIOD < LOCK_PATIENCE {
            time.pause(LOCK_PERIOD);
            registry.try_locked(false);
            assert_eq!((registry.locked.len(), bench.not_reached().len()), (1, 0));
        }
        if is_freed {
            drop(another);
        }
        time.pause(LOCK_PERIOD * 2);
        registry.try_locked(false);
        assert_eq!(registry.locked.len(), 0);
        match is_freed {
            true => assert!(matches!(arriving.try_recv(), Ok(PumpOrder::Take(_)))),
            false => {
                let all = bench.not_reached();
                assert!(all.len() == 1 && all[0].0 == program.pid(), "{all:?}");
                assert!(arriving.try_recv().is_err());
            }
        }
    }
}

#[test]
fn program_that_is_recorded_has_a_heartbeat_for_as_long_as_the_registry_waits_for_nothing() {
    let (time, bench) = Bench::by_hand();
    let (mut registry, _arriving) = bench.registry(ProcessTarget::Everyone, false);
    let (program, memory) = program();
    registry.admit(&program, Came::Invited, true);
    registry.finish_starts(0);
    assert_eq!(registry.processes.len(), 1, "{:?}", bench.not_reached());
    let beat_at = user::SESSIONS_OFFSET as u64 + offset_of!(user::Session, heartbeat_ns) as u64;
    let (begin, mut rounds) = (time.now(), 0);
    while time.elapsed(begin) < Duration::from_secs(600) {
        // The search is of another time.
        registry.next_search = time.now() + SEARCH_PERIOD;
        registry.wait();
        registry.look_after();
        let mut beat = [0; 8];
        rustix::io::pread(&memory, &mut beat, beat_at).unwrap();
        let silent_ns = time.manual_ns().unwrap() - u64::from_ne_bytes(beat);
        assert!(silent_ns <= TICK_PERIOD.as_nanos() as u64, "{silent_ns} ns");
        rounds += 1;
    }
    assert!((6_000..=12_000).contains(&rounds), "{rounds} rounds in ten minutes");
    assert!(!bench.shared().has_lagged());
}

/// Leaves a session of a killed tracer in the program. Returns its generation.
fn left_in(program: &Application) -> u64 {
    let bench = Bench::new();
    let session = AppSession::start(program, &bench.spec, &bench.clock).unwrap();
    let generation = session.generation();
    session.leave();
    generation
}

#[test]
fn program_that_lives_is_waited_for_until_it_has_become_another_one_or_the_session_ends() {
    for last in [false, true] {
        let (program, _memory) = program();
        let bench = Bench::after(&program, &[left_in(&program)]);
        let (mut registry, arriving) = bench.registry(ProcessTarget::Everyone, false);
        registry.stored_programs = vec![StoredProgram::of_program(&program)];
        let looked = HashSet::from([program.pid()]);
        let applications = vec![program.clone()];
        for findings in [
            Findings::default(),
            // It is about to be let in.
            Findings { looked: looked.clone(), applications, ..Findings::default() },
        ] {
            registry.look_who_has_left(&findings);
            registry.take_stored(false);
            assert!(registry.processes.is_empty() && registry.stored_programs.len() == 1);
        }
        if !last {
            registry.look_who_has_left(&Findings { looked, ..Findings::default() });
        }
        registry.take_stored(last);
        assert!(registry.processes.len() == 1 && registry.stored_programs.is_empty(), "{last}");
        assert!(matches!(arriving.try_recv(), Ok(PumpOrder::Take(_))), "{last}");
        assert_eq!(bench.not_reached(), []);
    }
}

#[test]
fn program_whose_buffers_find_no_memory_stays_held_as_it_is_until_there_is_some() {
    let (program, _memory) = program();
    let generation = left_in(&program);
    let bench = Bench::after(&program, &[generation]);
    let (mut registry, arriving) = bench.registry(ProcessTarget::Everyone, false);
    registry.stored_programs = vec![StoredProgram::of_program(&program)];
    registry.stored_programs[0].leave();
    bench.shared().memory().limit(1);
    registry.take_stored(false);
    assert!(registry.processes.is_empty() && registry.stored_programs.len() == 1);
    assert!(program.session_generations() == [generation] && arriving.try_recv().is_err());
    assert_eq!(bench.not_reached(), []);
    bench.shared().memory().limit(u64::MAX);
    registry.take_stored(false);
    assert!(registry.processes.len() == 1 && registry.stored_programs.is_empty());
    assert!(matches!(arriving.try_recv(), Ok(PumpOrder::Take(_))));
}

#[test]
fn program_whose_buffers_were_being_replaced_has_both_sets() {
    let (program, memory) = program();
    let (first, second) = (left_in(&program), left_in(&program));
    let status = user::SESSIONS_OFFSET as usize + offset_of!(user::Session, status);
    let ending = user::SESSION_ENDING.to_ne_bytes();
    assert_eq!(rustix::io::pwrite(&memory, &ending, status as u64), Ok(ending.len()));
    let bench = Bench::after(&program, &[first, second]);
    let (mut registry, arriving) = bench.registry(ProcessTarget::Everyone, false);
    registry.stored_programs = vec![StoredProgram::of_program(&program)];
    registry.take_stored(true);
    let all: Vec<(u64, bool)> =
        registry.processes.iter().map(|one| (one.generation(), one.is_replaced())).collect();
    assert_eq!(all, [(second, false), (first, true)]);
    assert_eq!(arriving.try_iter().count(), 2);
    assert_eq!(bench.not_reached(), []);
}
