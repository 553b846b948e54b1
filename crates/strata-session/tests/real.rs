//! Sessions with real programs: those of `tests/programs`, with the runtime of `probe/user` in them.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{kill_process, setrlimit, Pid, Resource, Rlimit, Signal};
use strata_kernel::CallStacks;
use strata_session::plan::{Change, EnableEvents, LayerOf, Plan, Transient};
use strata_session::report::{CommandEnd, EndReason, Notice, Progress, Report, EVERY_TRACEPOINT};
use strata_session::stop::Stop;
use strata_session::{record, SessionError};

const PROGRAMS: [&str; 3] = ["ender", "family", "ticker"];

/// In the environment of a test that runs alone: the programs are compiled.
const COMPILED: &str = "STRATA_REAL_COMPILED";

/// The programs, compiled once.
fn program(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
        if std::env::var_os(COMPILED).is_some() {
            return folder;
        }
        std::fs::create_dir_all(&folder).unwrap();
        let compiler = || {
            let mut command = Command::new("cc");
            command.args(["-std=gnu11", "-O2", "-D_GNU_SOURCE", "-pthread"]).current_dir(&folder);
            for folder in
                ["abi/include", "ring/include", "probe/user/include", "probe/user/runtime"]
            {
                command.arg("-I").arg(root.join(folder));
            }
            command
        };
        let (mut runtime, mut objects) = (compiler(), Vec::new());
        runtime.arg("-c");
        for entry in std::fs::read_dir(root.join("probe/user/runtime")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "c") {
                objects.push(Path::new(path.file_stem().unwrap()).with_extension("o"));
                runtime.arg(path);
            }
        }
        assert!(runtime.status().unwrap().success());
        for name in PROGRAMS {
            let mut command = compiler();
            command.arg(root.join(format!("tests/programs/{name}.c"))).args(&objects);
            assert!(command.arg("-o").arg(name).status().unwrap().success());
        }
        folder
    });
    folder.join(name)
}

fn words(program: &Path, arguments: &[&str]) -> Vec<OsString> {
    let arguments = arguments.iter().map(OsString::from);
    std::iter::once(program.into()).chain(arguments).collect()
}

/// `sh -c SCRIPT PROGRAM`: the program is "$0".
fn shell(script: &str, name: &str) -> Vec<OsString> {
    let mut command = words(Path::new("sh"), &["-c", script]);
    command.push(program(name).into());
    command
}

/// Returns the plan of a recording of all tracepoints of this command, or of these processes.
fn plan(command: Vec<OsString>, pids: Vec<u32>) -> Plan {
    let mut plan = Plan::new(false, None);
    plan.transient = Transient { command, pids, ..Transient::default() };
    let all = EnableEvents {
        layer: LayerOf::User,
        channel: None,
        rules: vec![EVERY_TRACEPOINT.to_owned()],
        filter: None,
        exclude: Vec::new(),
        stack: CallStacks::None,
        sample: None,
        probe: false,
        slower_ns: None,
        every: None,
        at_most: None,
    };
    plan.changed(&Change::EnableEvent(all)).unwrap()
}

/// A recording into a folder of its own, which is removed.
fn recorded(name: &str, mut plan: Plan) -> (Report, Vec<Notice>) {
    plan.output = Some(output(name));
    let mut notices = Vec::new();
    let notify = &mut |notice| notices.push(notice);
    let recording = record(plan, false, &Stop::new(), notify).unwrap();
    let _ = std::fs::remove_dir_all(output(name));
    (recording.report, notices)
}

/// Records until `is_enough` is true of the progress, which is checked about four times a second.
fn recorded_until(
    name: &str,
    mut plan: Plan,
    is_enough: &mut dyn FnMut(&Progress) -> bool,
) -> Report {
    (plan.output, plan.until.duration_ms) = (Some(output(name)), Some(90_000));
    let stop = Stop::new();
    let recording = record(plan, false, &stop, &mut |notice| match notice {
        Notice::Progress(progress) if is_enough(&progress) => {
            // At once: the first one only asks the command to end.
            (0..2).for_each(|_| stop.request(0));
        }
        _ => (),
    });
    let _ = std::fs::remove_dir_all(output(name));
    recording.unwrap().report
}

/// In a command's script: until this file is there, which a test makes.
fn until(file: &Path) -> String {
    let _ = std::fs::remove_file(file);
    format!("until [ -e '{}' ]; do sleep 0.02; done", file.display())
}

fn output(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("strata-real-{name}-{}", std::process::id()))
}

fn of_command(name: &str, command: Vec<OsString>) -> Report {
    recorded(name, plan(command, Vec::new())).0
}

/// Ends a process that a test has left behind.
fn end(pid: u32) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
}

#[test]
fn record_of_a_command_says_which_descendants_run_on() {
    let enough = output("enough");
    let script = format!(r#""$0" run 2 >/dev/null & {}"#, until(&enough));
    let plan = plan(shell(&script, "ticker"), Vec::new());
    let report = recorded_until("daemon", plan, &mut |progress| {
        (progress.records > 10).then(|| std::fs::write(&enough, "").unwrap());
        false
    });
    std::fs::remove_file(&enough).unwrap();
    assert_eq!((report.end, report.command), (EndReason::Command, Some(CommandEnd::Exited(0))));
    let [pid] = report.left_running[..] else { panic!("{report:?}") };
    let process = report.processes().find(|process| process.pid == pid).unwrap();
    assert!(process.is_alive && process.counts.records > 10, "{process:?}");
    end(pid);
    // One without tracepoints is known by the socket that it has inherited.
    let report = of_command("holder", shell("sleep 60 >/dev/null 2>&1 &", "ender"));
    assert!(report.left_running.is_empty(), "{report:?}");
    assert!(report.remarks.iter().any(|text| text.contains("a descendant of the command runs on")));
    run_alone("alone_record_of_a_command_whose_descendants_have_ended");
}

/// A process with the command's socket at the end is reported as still running. Processes that a test beside this one
/// starts have it, too, until they execute a program.
#[test]
#[ignore = "run by record_of_a_command_says_which_descendants_run_on"]
fn alone_record_of_a_command_whose_descendants_have_ended() {
    // Who has ended before the command does not run on, nor does the command itself.
    let report = of_command("ended", shell(r#""$0" & wait"#, "ender"));
    assert_eq!((report.counts().records, report.left_running.len()), (10, 0));
    assert!(!report.remarks.iter().any(|text| text.contains("runs on")), "{report:?}");
}

#[test]
fn record_of_a_process_that_closed_everything_has_its_short_lived_child_too() {
    let report = of_command("close", words(&program("family"), &["close"]));
    assert_eq!(report.counts().records, 250, "{report:?}");
    assert_eq!((report.processes().count(), report.not_reached.len()), (2, 0));
}

#[test]
fn record_of_a_descendant_without_our_environment_begins_when_it_is_found() {
    let mut command = words(Path::new("env"), &["-i"]);
    command.extend(words(&program("ticker"), &["run", "2"]));
    let plan = plan(command, Vec::new());
    let report = recorded_until("cleared", plan, &mut |progress| progress.records > 20);
    let Some(CommandEnd::Running { pid }) = report.command else { panic!("{report:?}") };
    end(pid);
    let process = report.processes().next().unwrap();
    assert!(process.pid == pid && process.counts.records > 20, "{process:?}");
    assert!(process.warnings[0].contains("STRATA_SESSION"), "{process:?}");
    assert!(report.left_running.is_empty(), "it is the command");

    // One that ends at once is reached, or said not to be.
    for _ in 0..5 {
        let report = of_command("short", shell(r#"env -i "$0""#, "ender"));
        let warned: Vec<&String> =
            report.processes().flat_map(|process| &process.warnings).collect();
        let reasons: Vec<&String> = report.not_reached.iter().map(|one| &one.reason).collect();
        let said = |text: &&String| text.contains("env -i") && text.contains("Let it keep");
        let remarks = report.remarks.iter().collect();
        assert!([warned, reasons, remarks].concat().iter().any(said), "{report:?}");
    }
}

#[test]
fn record_of_a_program_that_refuses_says_why_once() {
    let script = r#"ulimit -f 100; exec "$0""#;
    let report = of_command("refused", shell(script, "ender"));
    // Its name is known only until it has ended.
    assert_eq!(refused(&report).len(), 1, "{report:?}");
    // Announced, and found in /proc.
    let said = output("said");
    let script = format!(r#"ulimit -f 100; exec "$0" run 2 >'{}'"#, said.display());
    let plan = plan(shell(&script, "ticker"), Vec::new());
    let mut looks = 0;
    let report = recorded_until("stays", plan, &mut |_| {
        // It runs; /proc is looked at several times.
        looks += usize::from(std::fs::read_to_string(&said).is_ok_and(|text| text == "ready\n"));
        looks > 8
    });
    std::fs::remove_file(&said).unwrap();
    let Some(CommandEnd::Running { pid }) = report.command else { panic!("{report:?}") };
    end(pid);
    assert_eq!(refused(&report), ["ticker"], "{report:?}");
}

/// Other tests have processes, too, which may be unknown to this one's session.
fn refused(report: &Report) -> Vec<&str> {
    let refused = report.not_reached.iter().filter(|one| one.reason.starts_with("file size limit"));
    refused.map(|one| one.name.as_str()).collect()
}

/// A child that is killed when the test ends.
struct Ticker(Child);

impl Drop for Ticker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn record_of_a_running_process_for_a_time_leaves_it_running() {
    let mut command = Command::new(program("ticker"));
    command.args(["run", "2"]).stdout(Stdio::piped());
    let mut ticker = Ticker(command.spawn().unwrap());
    let mut said = String::new();
    BufReader::new(ticker.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "ready\n");
    // On a busy machine a longer time.
    for seconds in [0.5, 4.0, 30.0] {
        let mut plan = plan(Vec::new(), vec![ticker.0.id()]);
        plan.until.duration_ms = Some((seconds * 1000.0) as u64);
        let (report, _) = recorded("time", plan);
        assert_eq!(report.end, EndReason::Duration, "{report:?}");
        assert!(report.left_running.is_empty(), "nobody expects it to end");
        if report.counts().records > 20 {
            assert!(report.not_reached.iter().all(|one| one.pid != ticker.0.id()), "{report:?}");
            break;
        }
        assert!(seconds < 30.0, "{report:?}");
    }
    assert!(ticker.0.try_wait().unwrap().is_none());
}

#[test]
fn process_that_becomes_one_with_tracepoints_is_not_said_to_have_none() {
    let become_it = output("becomes-it");
    let script = format!(r#"{}; exec "$0" run 2"#, until(&become_it));
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(program("ticker")).stdout(Stdio::null());
    let shell = Ticker(command.spawn().unwrap());
    let plan = plan(Vec::new(), vec![shell.0.id()]);
    let report = recorded_until("becomes", plan, &mut |progress| {
        // The first progress is reported after the first search.
        std::fs::write(&become_it, "").unwrap();
        progress.records > 10
    });
    std::fs::remove_file(&become_it).unwrap();
    assert!(report.counts().records > 10 && report.not_reached.is_empty(), "{report:?}");
}

#[test]
fn record_that_fails_waits_for_its_command() {
    let (folder, begun, failed) = (output("fails"), output("fails-begun"), output("fails-failed"));
    let script = format!(
        // Again, where a stream's first file was made while it was removed.
        r#""$0" run 1 >/dev/null & {}; until rm -rf '{}'; do :; done; {}; sleep 1; kill $!; exit 7"#,
        until(&begun),
        folder.display(),
        until(&failed)
    );
    let begin = Instant::now();
    let mut plan = plan(shell(&script, "ticker"), Vec::new());
    plan.output = Some(folder);
    plan.channels[0].flush_ms = Some(50);
    let mut notices = Vec::new();
    let recording = record(plan, false, &Stop::new(), &mut |notice| {
        match notice {
            Notice::Progress(Progress { records: 1.., .. }) => std::fs::write(&begun, "").unwrap(),
            Notice::Failed { .. } => std::fs::write(&failed, "").unwrap(),
            _ => (),
        }
        notices.push(notice);
    });
    let report = recording.unwrap().report;
    let whole = begin.elapsed();
    [begun, failed].iter().for_each(|file| std::fs::remove_file(file).unwrap());
    assert_eq!((report.end, report.command), (EndReason::Failure, Some(CommandEnd::Exited(7))));
    // The command goes on for a second behind the failure.
    assert!(report.elapsed + Duration::from_millis(500) < whole, "{:?} {whole:?}", report.elapsed);
    let failed =
        |notice: &&Notice| matches!(notice, Notice::Failed { why, .. } if why.contains("fails"));
    assert_eq!(notices.iter().filter(failed).count(), 1, "{notices:?}");
}

#[test]
#[ignore = "run by record_without_descriptors_says_what_it_could_not_do"]
fn alone_record_without_descriptors() {
    // Numbers that are free: with one of them as the limit, as many are as there are before it.
    let is_open = |number: &u64| Path::new(&format!("/proc/self/fd/{number}")).exists();
    let free: Vec<u64> = (0..).filter(|number| !is_open(number)).take(24).collect();
    let (mut system, mut user, mut done) = (0, 0, 0);
    // Downwards: what may be is raised by nobody.
    for more in (0..24).rev() {
        let limit = Some(free[more]);
        setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit }).unwrap();
        let mut plan = plan(vec!["true".into()], Vec::new());
        plan.output = Some(output("few"));
        match record(plan, false, &Stop::new(), &mut |_| ()) {
            Ok(_) => done += 1,
            Err(SessionError::System { what, source }) => {
                assert_eq!(source.raw_os_error(), Some(libc::EMFILE), "{what}");
                system += 1;
            }
            Err(SessionError::User(error)) => {
                assert!(matches!(error, strata_user::Error::Socket { .. }), "{error}");
                user += 1;
            }
            Err(error) => eprintln!("{more}: {error}"),
        }
        assert!(!output("few").exists(), "{more}: a folder is left behind");
    }
    assert!(system > 0 && user > 0 && done > 0, "{system} {user} {done}");
}

#[test]
fn record_without_descriptors_says_what_it_could_not_do() {
    run_alone("alone_record_without_descriptors");
}

/// In a process of its own: what it changes of that is nobody else's.
fn run_alone(test: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(COMPILED, program(""));
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
}
