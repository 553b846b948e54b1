//! The tracer's side against the real runtime: `tests/application.c`, linked with `probe/user/runtime`.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::mem::offset_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use strata_abi::user;
use strata_user::{
    find, new_generation, AppSession, Application, Clock, Error, HeaderChoice, Launch, LossMode,
    Received, Rules, SessionSpec, Who, ENVIRONMENT,
};

/// The application, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("application");
        let mut command = Command::new("cc");
        command.args(["-std=c11", "-O2", "-D_GNU_SOURCE", "-pthread"]);
        for folder in ["abi/include", "ring/include", "probe/user/include", "probe/user/runtime"] {
            command.arg("-I").arg(root.join(folder));
        }
        command.arg(root.join("crates/strata-user/tests/application.c"));
        for entry in std::fs::read_dir(root.join("probe/user/runtime")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "c") {
                command.arg(path);
            }
        }
        assert!(command.arg("-o").arg(&program).status().unwrap().success());
        program
    })
}

/// The application, running.
struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Running {
    fn start(environment: &[(&str, &str)], keep: Option<BorrowedFd<'_>>) -> Running {
        let mut command = Command::new(program());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.envs(environment.iter().copied());
        if let Some(number) = keep.map(|fd| fd.as_raw_fd()) {
            let keep_open = move || {
                // SAFETY: the descriptor is open until the command has started.
                let fd = unsafe { BorrowedFd::borrow_raw(number) };
                Ok(rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?)
            };
            // SAFETY: it makes one system call.
            unsafe { command.pre_exec(keep_open) };
        }
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut running = Running { child, input, output };
        assert_eq!(running.answer(), "ready\n");
        running
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    fn tell(&mut self, what: &str) {
        writeln!(self.input, "{what}").unwrap();
        assert_eq!(self.answer(), "done\n");
    }

    fn find(&self) -> Application {
        let mut found = find(&Who::Processes(vec![self.child.id()])).unwrap();
        assert!(found.errors.is_empty(), "{:?}", found.errors);
        assert_eq!(found.applications.len(), 1);
        found.applications.remove(0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spec(rules: &[&str]) -> SessionSpec {
    SessionSpec {
        rules: Rules::parse(rules).unwrap(),
        filter: None,
        loss_mode: LossMode::Discard,
        subbuf_bytes: 4096,
        nr_subbufs: 4,
        header: HeaderChoice::Auto,
        vtid: true,
        contexts: Default::default(),
        inherit: true,
    }
}

/// A session that has all switched on: another recorder of the machine may hold the process' memory for a moment, and the
/// thread that writes its code is waited for by `start` for two seconds only.
fn started(app: &Application, spec: &SessionSpec, clock: &Clock) -> AppSession {
    let mut session = loop {
        match AppSession::start(app, spec, clock) {
            Err(Error::Locked { .. }) => std::thread::yield_now(),
            other => break other.unwrap(),
        }
    };
    for _ in 0..30 {
        session.finish_start();
    }
    session
}

/// Records in the channel.
fn records(session: &mut AppSession) -> u64 {
    let mut channel = session.take_channel().unwrap();
    let mut records = 0;
    for stream in 0..channel.nr_streams() {
        let mut stream = channel.stream(stream).unwrap();
        if session.application().by_position() {
            records += stream.counters().written;
        } else {
            // Counted when their sub-buffer is delivered.
            stream.flush().unwrap();
            while let Some(packet) = stream.next().unwrap() {
                records += packet.info().records.unwrap();
                packet.put();
            }
        }
    }
    records
}

/// The four ways in which the runtime can work.
const WAYS: [&[(&str, &str)]; 4] = [
    &[("STRATA_ARM", "patch")],
    &[("STRATA_ARM", "flag")],
    &[("STRATA_ARM", "patch"), ("STRATA_PUBLISH", "commit")],
    &[("STRATA_ARM", "flag"), ("STRATA_PUBLISH", "commit")],
];

fn event_names(session: &AppSession) -> Vec<String> {
    let mut names: Vec<String> = session.events().map(|e| e.full_name()).collect();
    names.sort();
    names
}

#[test]
fn running_application_is_found_switched_on_and_off_in_every_way() {
    let clock = Clock::new();
    for way in WAYS {
        let mut running = Running::start(way, None);
        let app = running.find();
        assert_eq!(app.name(), "application");
        let mut tracepoints = app.tracepoints().unwrap();
        tracepoints.sort_by_key(|t| t.event.full_name());
        let [detail, tick] = &tracepoints[..] else { panic!("{tracepoints:?}") };
        assert_eq!((detail.event.full_name().as_str(), detail.level()), ("real:detail", 14));
        assert_eq!((tick.event.full_name().as_str(), tick.level()), ("real:tick", 6));
        assert!(tick.file.ends_with("application.c") && tick.line > 0 && tick.present);
        assert_eq!(tick.by_flag, way[0].1 == "flag");
        assert_eq!(app.by_position(), way.len() == 1);

        let mut all = started(&app, &spec(&["real"]), &clock);
        // A sign of life, if that took long: who has given none for 10 s is dead to who starts another one.
        all.tick(&clock).unwrap();
        let mut some = started(&app, &spec(&["*:*@info"]), &clock);
        assert!(all.problems().is_empty() && some.problems().is_empty());
        assert_eq!(event_names(&all), ["real:detail", "real:tick"]);
        assert_eq!(event_names(&some), ["real:tick"]);
        for _ in 0..5 {
            running.tell("e");
        }
        some.stop().unwrap();
        running.tell("e");
        all.stop().unwrap();
        running.tell("e");
        assert_eq!(all.counters(), Default::default());
        assert!(!all.update().unwrap());
        assert_eq!((records(&mut all), records(&mut some)), (12, 5), "{way:?}");
        all.release().unwrap();
        some.release().unwrap();
        // Once more, in the same slot and place (unless another tracer of the machine is there too).
        let mut again = started(&app, &spec(&["real:tick"]), &clock);
        running.tell("e");
        assert_eq!(records(&mut again), 1);
    }
}

/// Writes to a session's slot what no tracer writes: so many contexts, of these numbers.
fn put_contexts(session: &AppSession, nr: u32, numbers: &[u8]) {
    let folder = format!("/proc/{}/fd", session.application().pid());
    let is_memory = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|to| to.starts_with("/memfd:strata (deleted)"))
    };
    let mut paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let memory = File::options().write(true).open(paths.find(is_memory).unwrap()).unwrap();
    let slot =
        user::SESSIONS_OFFSET as usize + session.slot() as usize * size_of::<user::Session>();
    let at = |field: usize| (slot + field) as u64;
    memory.write_all_at(numbers, at(offset_of!(user::Session, contexts))).unwrap();
    memory.write_all_at(&nr.to_ne_bytes(), at(offset_of!(user::Session, nr_contexts))).unwrap();
}

#[test]
fn application_refuses_contexts_that_it_cannot_write_and_counts_their_records() {
    let clock = Clock::new();
    let mut running = Running::start(&[], None);
    let app = running.find();
    let vpid = user::CTX_VPID as u8;
    let every: Vec<u8> = (1..=user::CTX_CGROUP as u8).collect();
    for (nr, numbers, is_fine) in [
        (1, &[vpid][..], true),
        (every.len() as u32, &every[..], true),
        (1, &[0], false),
        (1, &[user::CTX_CGROUP as u8 + 1], false),
        (1, &[255], false),
        (2, &[vpid, vpid], false),
        (user::CONTEXTS_MAX + 1, &every[..], false),
        (u32::MAX, &every[..], false),
    ] {
        let mut session = started(&app, &spec(&["real"]), &clock);
        put_contexts(&session, nr, numbers);
        running.tell("e");
        session.stop().unwrap();
        let expected = if is_fine { (2, 0) } else { (0, 2) };
        let discarded = session.counters().discarded_unmapped;
        assert_eq!((records(&mut session), discarded), expected, "{nr} {numbers:?}");
        session.release().unwrap();
    }
}

#[test]
fn running_application_that_has_closed_its_descriptors_is_found() {
    let mut running = Running::start(&[], None);
    running.tell("c");
    let clock = Clock::new();
    let mut session = started(&running.find(), &spec(&["*"]), &clock);
    running.tell("e");
    assert_eq!(records(&mut session), 2);
}

#[test]
fn launched_application_and_its_child_are_recorded_from_their_first_event() {
    let clock = Clock::new();
    for way in WAYS {
        let launch = Launch::new().unwrap();
        let generation = new_generation();
        let text = launch.environment(generation, &spec(&["real:tick"]), &clock, None);
        let mut environment = way.to_vec();
        environment.push((ENVIRONMENT, &text));
        let mut running = Running::start(&environment, Some(launch.child_fd()));
        let mut announcements = launch.started();
        let mut receive = || match announcements.receive().unwrap() {
            Received::Process { fd, sender, announcement } => {
                assert_eq!(announcement.pid, sender.pid());
                // SAFETY: no arguments, no memory.
                assert_eq!(sender.uid(), unsafe { libc::getuid() });
                let app = Application::announced(fd, &sender).unwrap();
                assert_eq!((app.name(), app.vpid()), ("application", sender.pid()));
                AppSession::adopt(&app, generation, &spec(&["real:tick"]), &clock).unwrap()
            }
            other => panic!("{other:?}"),
        };
        let mut parent = receive();
        assert_eq!(parent.application().pid(), running.child.id());
        assert_eq!(event_names(&parent), ["real:tick"]);
        running.tell("e");
        running.tell("f");
        let mut child = receive_ended(&mut announcements, generation, &clock);
        parent.stop().unwrap();
        running.tell("e");
        assert_eq!((records(&mut parent), records(&mut child)), (2, 1), "{way:?}");
        assert!(matches!(announcements.receive().unwrap(), Received::Nothing));
        drop(running);
        // A process that another test is just starting has our descriptors until its execve.
        let give_up = Instant::now() + Duration::from_secs(60);
        while !matches!(announcements.receive().unwrap(), Received::End) {
            assert!(Instant::now() < give_up, "{way:?}: the end is not seen");
            sleep(Duration::from_millis(1));
        }
        assert_eq!(announcements.counters().received, 2);
    }
}

/// The session of a child that has ended already.
fn receive_ended(
    announcements: &mut strata_user::Announcements,
    generation: u64,
    clock: &Clock,
) -> AppSession {
    match announcements.receive().unwrap() {
        Received::Process { fd, sender, .. } => {
            let app = Application::announced(fd, &sender).unwrap();
            assert!(!app.is_alive());
            AppSession::adopt(&app, generation, &spec(&["real:tick"]), clock).unwrap()
        }
        other => panic!("{other:?}"),
    }
}
