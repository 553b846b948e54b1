//! The kernel's events recorded for real: counted, and looked at. Needs root, or CAP_BPF and CAP_PERFMON.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strata_ctf::packet_records::{Record, RecordScanner};
use strata_kernel::catalog::Catalog;
use strata_kernel::tracefs::Tracefs;
use strata_kernel::{
    syscalls, AdoptionRecord, ChannelPins, Contexts, Error, Follow, Keeping, KernelSession,
    RecordingSpec, SelectedEvent, Tracked, UnrecordedEvent,
};
use strata_model::{ByteOrder, StreamClass};
use strata_ring::{Channel, LossMode};

mod sessions;

use sessions::begin;

const CALLS: usize = 10_000;
const CHILD: &str = "STRATA_TEST_CHILD";
const FILE: &str = "/etc/hostname";

/// The recorded process of the tests below.
#[test]
#[ignore = "is the process that the other tests record"]
fn child() {
    let Ok(file) = std::env::var(CHILD) else { return };
    for _ in 0..CALLS {
        // SAFETY: it takes nothing and changes nothing.
        unsafe { libc::syscall(libc::SYS_getppid) };
    }
    let _ = std::fs::read(file);
}

fn child_process() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", "child", "--ignored"]).env(CHILD, FILE);
    command.stdout(std::process::Stdio::null());
    command
}

/// Makes system calls until its input ends, and prints the number of each.
#[test]
#[ignore = "is the process that a test records"]
fn steady_child() {
    if std::env::var(CHILD).is_err() {
        return;
    }
    let mut calls = 0u64;
    let mut input = libc::pollfd { fd: 0, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, which is there.
    while unsafe { libc::poll(&mut input, 1, 0) } == 0 {
        for _ in 0..20 {
            // SAFETY: they take nothing and change nothing.
            unsafe { libc::syscall(libc::SYS_getppid) };
            // SAFETY: as above.
            unsafe { libc::syscall(libc::SYS_getuid) };
            calls += 1;
        }
        // Time: while nobody reads, the buffers have room for this much for half a minute.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    println!("calls {calls}");
}

/// Two threads make numbered calls, and give themselves numbered names, until its input ends; says how many.
#[test]
#[ignore = "is the process that a test records"]
fn numbered_child() {
    if std::env::var(CHILD).is_err() {
        return;
    }
    let is_over = AtomicBool::new(false);
    let emit = |thread: i32| {
        let mut number = 0;
        while !is_over.load(Ordering::Relaxed) {
            // SAFETY: it takes a number and changes nothing.
            unsafe { libc::syscall(libc::SYS_getpgid, thread << 24 | number) };
            let name = std::ffi::CString::new(format!("n{thread}-{number}")).unwrap();
            // SAFETY: a text with its NUL.
            unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
            number += 1;
            if number == 1 {
                println!("begun");
            }
            if number % 10 == 0 {
                // Time: whoever reads it is slower than this.
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
        println!("numbers {thread} {number}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| emit(1));
        scope.spawn(|| emit(2));
        let mut input = libc::pollfd { fd: 0, events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, which is there.
        unsafe { libc::poll(&mut input, 1, -1) };
        is_over.store(true, Ordering::Relaxed);
    });
}

fn call(name: &str) -> SelectedEvent {
    SelectedEvent::all_records(syscalls::event(syscalls::find(name).unwrap()))
}

fn tracepoint(system: &str, name: &str) -> SelectedEvent {
    let catalog = Catalog::load(&Tracefs::find().unwrap()).unwrap();
    SelectedEvent::all_records(catalog.describe(catalog.find(system, name).unwrap()).unwrap())
}

fn spec(events: Vec<SelectedEvent>, follow: Follow) -> RecordingSpec {
    RecordingSpec {
        argv_bytes: strata_kernel::ARGV_BYTES,
        loss_mode: LossMode::Discard,
        subbuf_bytes: 1 << 20,
        nr_subbufs: 8,
        events,
        follow,
        contexts: strata_kernel::Contexts::default(),
    }
}

/// Enlarges the buffers to hold what a CPU records while this process does not run for some seconds.
fn large(spec: RecordingSpec) -> RecordingSpec {
    RecordingSpec { subbuf_bytes: 4 << 20, nr_subbufs: 16, ..spec }
}

/// A BPF program may still be at its end on another CPU: until all have left what RCU protects.
fn let_programs_end() {
    // MEMBARRIER_CMD_GLOBAL
    // SAFETY: no memory is involved.
    assert_eq!(unsafe { libc::syscall(libc::SYS_membarrier, 1, 0, 0) }, 0);
}

/// Records by name: thread and payload.
type Records = HashMap<String, Vec<(u32, Vec<u8>)>>;

fn read(channel: &mut Channel, class: &StreamClass) -> Records {
    let scanner = RecordScanner::new(class, ByteOrder::NATIVE).unwrap();
    let mut all = Records::new();
    let mut add = |record: Record<'_>| {
        let (tid, others) = record.context.split_first_chunk().unwrap();
        let name = class.events[record.class].name.clone();
        // What further contexts there are stands in front.
        let payload = [others, record.payload].concat();
        all.entry(name).or_default().push((u32::from_ne_bytes(*tid), payload));
    };
    for cpu in 0..channel.nr_streams() {
        let mut stream = channel.stream(cpu).unwrap();
        stream.flush().unwrap();
        let (mut last, mut bytes) = (0, Vec::new());
        while let Some(packet) = stream.next().unwrap() {
            bytes.clear();
            packet.copy_to(0, &mut bytes).unwrap();
            for record in scanner.records(&bytes, packet.info().timestamp_begin) {
                let record = record.unwrap();
                assert!(record.timestamp >= last, "time goes back");
                last = record.timestamp;
                add(record);
            }
            packet.put();
        }
        assert_eq!(stream.counters().discarded(), 0);
    }
    all
}

/// Locks out other tests: a session follows all that this process starts.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records what the child does.
fn record(events: Vec<SelectedEvent>) -> Option<(Records, u32, KernelSession)> {
    let _alone = alone();
    let mut session = begin(large(spec(events, Follow::Children)))?;
    let mut channel = session.take_channel().unwrap();
    session.start();
    let mut process = child_process().spawn().unwrap();
    let pid = process.id();
    assert!(process.wait().unwrap().success());
    session.stop();
    let_programs_end();
    let records = read(&mut channel, &session.classes().stream_class());
    Some((records, pid, session))
}

/// A shell that waits, and goes on when it is recorded.
#[test]
fn processes_that_run_already_are_followed_with_their_descendants() {
    let _alone = alone();
    let mut process = Command::new("/bin/sh")
        .args(["-c", "read line; (exec /bin/true) & wait; exec /bin/true"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let follow = Follow::Processes(vec![process.id()]);
    let Some(mut session) = begin(spec(vec![call("execve"), call("getpid")], follow)) else {
        process.kill().unwrap();
        process.wait().unwrap();
        return;
    };
    let mut channel = session.take_channel().unwrap();
    session.start();
    Command::new("/bin/true").status().unwrap();
    process.stdin.take().unwrap().write_all(b"line\n").unwrap();
    process.wait().unwrap();
    session.stop();
    let_programs_end();
    let records = read(&mut channel, &session.classes().stream_class());
    // Its own, and its new child's; not that of this process' other child.
    let pid = process.id();
    let entries = &records["syscall_entry_execve"];
    assert_eq!(entries.iter().filter(|(tid, _)| *tid == pid).count(), 1);
    assert_eq!(entries.len(), 2);
}

fn number(payload: &[u8], at: usize) -> i64 {
    i64::from_ne_bytes(payload[at..at + 8].try_into().unwrap())
}

#[test]
fn system_calls_of_a_child_are_all_there_and_nobody_elses() {
    let events = vec![call("getppid"), call("openat"), call("execve"), call("clock_nanosleep")];
    let Some((records, _, session)) = record(events) else { return };
    let me = i64::from(std::process::id());
    let exits = &records["syscall_exit_getppid"];
    assert_eq!(records["syscall_entry_getppid"].len(), CALLS);
    assert_eq!(exits.len(), CALLS);
    assert!(exits.iter().all(|(_, payload)| payload.len() == 8 && number(payload, 0) == me));
    // One thread made them: that of the test.
    assert!(exits.iter().all(|(tid, _)| *tid == exits[0].0));
    let path = [FILE.as_bytes(), b"\0"].concat();
    let opened = records["syscall_entry_openat"]
        .iter()
        .filter(|(_, payload)| payload.windows(path.len()).any(|bytes| bytes == path))
        .count();
    assert_eq!(opened, 1);
    // Recorded from the execve on, whose exit is the first of it.
    assert_eq!(records["syscall_exit_execve"].len(), 1);
    assert!(!records.contains_key("syscall_entry_execve"));
    assert_eq!(session.nested(), 0);
}

#[test]
fn sched_switch_and_a_generic_event_have_their_values() {
    let events = vec![
        tracepoint("sched", "sched_switch"),
        tracepoint("sched", "sched_process_exec"),
        tracepoint("sched", "sched_process_exit"),
    ];
    let Some((records, pid, _)) = record(events) else { return };
    let switches = &records["sched_switch"];
    assert!(switches.len() > 2);
    for (tid, payload) in switches {
        assert_eq!(payload.len(), 56);
        assert_eq!(payload[16..20], tid.to_ne_bytes(), "who is switched from is the current task");
    }
    let exit = |(_, payload): &&(u32, Vec<u8>)| payload[16..20] == pid.to_ne_bytes();
    assert_eq!(records["sched_process_exit"].iter().filter(exit).count(), 1);
    let name = b"/proc/self/exe";
    let exec = |(tid, payload): &&(u32, Vec<u8>)| {
        *tid == pid && payload.windows(name.len()).any(|bytes| bytes == name)
    };
    assert_eq!(records["sched_process_exec"].iter().filter(exec).count(), 1);
}

fn add(all: &mut Records, some: Records) {
    some.into_iter().for_each(|(name, records)| all.entry(name).or_default().extend(records));
}

/// Reads until there are many records of one kind, made by a steady child. Returns the number of each kind.
fn take(
    all: &mut Records,
    channel: &mut Channel,
    session: &KernelSession,
    until: &str,
) -> HashMap<String, usize> {
    add(all, read(channel, &session.classes().stream_class()));
    let mut some = Records::new();
    for _ in 0..60_000 {
        add(&mut some, read(channel, &session.classes().stream_class()));
        if some.get(until).is_some_and(|records| records.len() > 400) {
            break;
        }
        // Time: until more is there; two minutes in all.
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let counts = some.iter().map(|(name, records)| (name.clone(), records.len())).collect();
    add(all, some);
    counts
}

/// A session that is changed while it records must not lose records of a process that goes on with its work.
#[test]
fn change_while_recording_adds_and_removes_and_loses_nothing_of_the_others() {
    let _alone = alone();
    let go_on = &mut |_| std::ops::ControlFlow::Continue(());
    // From no event at all.
    let none = large(spec(Vec::new(), Follow::Children));
    let Some(mut session) = begin(none) else { return };
    let mut channel = session.take_channel().unwrap();
    session.start();
    session.change(vec![call("getppid")], false, go_on).unwrap();
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", "steady_child", "--ignored", "--nocapture"]).env(CHILD, FILE);
    let mut process = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut all = Records::new();
    let getppid = "syscall_exit_getppid";
    let first = take(&mut all, &mut channel, &session, getppid);
    let ids = session.classes().stream_class().events.len();
    let mut names: Vec<_> = first.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["syscall_entry_getppid", "syscall_exit_getppid"]);
    // A system call in the table that is there, and a tracepoint with a program of its own.
    session
        .change(
            vec![call("getppid"), call("getuid"), tracepoint("sched", "sched_switch")],
            false,
            go_on,
        )
        .unwrap();
    let programs = session.programs();
    let second = take(&mut all, &mut channel, &session, "syscall_exit_getuid");
    for name in ["syscall_entry_getuid", "syscall_exit_getuid", "sched_switch"] {
        assert!(second.contains_key(name), "{name}: {second:?}");
    }
    // One is there no more, one has a filter: the other one's records are all there.
    let mut switch = tracepoint("sched", "sched_switch");
    let tid = all["syscall_entry_getppid"][0].0;
    let filter = format!("next_tid == {tid}");
    switch.filter = Some(strata_filter::Filter::parse(&filter).unwrap());
    session.change(vec![call("getppid"), switch.clone()], false, go_on).unwrap();
    let_programs_end();
    let class = session.classes().stream_class();
    let third = take(&mut all, &mut channel, &session, getppid);
    assert!(!third.contains_key("syscall_entry_getuid"), "{third:?}");
    assert!(third.contains_key("sched_switch"), "{third:?}");
    // What is known keeps its number.
    assert_eq!(session.classes().stream_class().events[..ids], class.events[..ids]);
    // A refused change is none: a filter that cannot be asked, and somebody who does not wait.
    let mut wrong = switch.clone();
    wrong.filter = Some(strata_filter::Filter::parse("prev_tid == next_tid").unwrap());
    let error = session.change(vec![wrong], false, go_on).unwrap_err().to_string();
    assert!(error.contains("sched_switch"), "{error}");
    let other = vec![call("getppid"), tracepoint("sched", "sched_wakeup")];
    let given_up = session.change(other, false, &mut |_| std::ops::ControlFlow::Break(()));
    assert!(matches!(given_up, Err(Error::GivenUp)), "{given_up:?}");
    drop(process.stdin.take());
    let output = process.wait_with_output().unwrap();
    session.stop();
    let_programs_end();
    add(&mut all, read(&mut channel, &session.classes().stream_class()));
    let text = String::from_utf8(output.stdout).unwrap();
    let calls = text.split("calls ").nth(1).and_then(|rest| rest.lines().next());
    let calls: usize = calls.and_then(|calls| calls.parse().ok()).expect(&text);
    assert_eq!(all["syscall_entry_getppid"].len(), calls);
    assert_eq!(all["syscall_exit_getppid"].len(), calls);
    let (some, filtered) = (all["syscall_entry_getuid"].len(), &all["sched_switch"]);
    assert!(some > 0 && some < calls, "{some} of {calls}");
    // The last ones are those that the filter lets through.
    let (_, last) = filtered.last().unwrap();
    assert_eq!(last[48..52], tid.to_ne_bytes());
    assert!(session.programs() <= programs + 1);
    assert_eq!(session.problems(), [] as [UnrecordedEvent; 0]);
}

/// Paused and resumed, several times: nothing of the pauses, all of the rest.
#[test]
fn session_that_is_stopped_and_started_again_records_what_is_between() {
    let _alone = alone();
    let Some(mut session) = begin(spec(vec![call("getppid")], Follow::Children)) else { return };
    let mut channel = session.take_channel().unwrap();
    for records in [true, false, true, true, false] {
        if records {
            session.start();
        }
        assert!(child_process().status().unwrap().success());
        session.stop();
    }
    let_programs_end();
    let records = read(&mut channel, &session.classes().stream_class());
    assert_eq!(records["syscall_entry_getppid"].len(), 3 * CALLS);
    assert_eq!(records["syscall_exit_getppid"].len(), 3 * CALLS);
    assert_eq!(session.nested(), 0);
}

/// A folder and a control group for one test, removed with their content.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(at: &str) -> Option<Folder> {
        let path =
            std::path::Path::new(at).join(format!("strata-test-track-{}", std::process::id()));
        std::fs::create_dir(&path).ok().map(|()| Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let _ = std::fs::remove_file(entry.path());
        }
        // The kernel lets go of a group's processes a little after they have ended.
        for _ in 0..1000 {
            if std::fs::remove_dir(&self.0).is_ok() {
                break;
            }
            // Time: the kernel lets go of who was in it.
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

/// Tracking is changed in all its forms while two processes go on with the same work, and filters are changed while
/// events happen, so that one program replaces another. Each event must be recorded once, for system calls and a
/// tracepoint, with early tests and without.
#[test]
fn filter_that_changes_while_events_happen_has_each_of_them_once() {
    let _alone = alone();
    let filter = |text: &str| Some(strata_filter::Filter::parse(text).unwrap());
    let several = |text: &str| {
        let all: Vec<String> = (1..8).map(|number| format!("{text} != {}", -number)).collect();
        all.join(" && ")
    };
    let calls = [filter("pid != -7"), None, filter("pid != -8"), filter(&several("pid"))];
    let names =
        [None, filter("cpu >= 0"), filter("pid != 0 && pid < 0x7fffffff"), filter("comm != \"x\"")];
    let events = |round: usize| {
        let (mut call, mut rename) = (call("getpgid"), tracepoint("task", "task_rename"));
        call.filter.clone_from(&calls[round % calls.len()]);
        call.exit = false;
        rename.filter.clone_from(&names[round % names.len()]);
        vec![call, rename]
    };
    let first = large(spec(events(0), Follow::Everyone));
    let Some(mut session) = begin(first) else { return };
    let mut channel = session.take_channel().unwrap();
    session.start();
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", "numbered_child", "--ignored", "--nocapture"]).env(CHILD, "");
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (classes, is_over) = (session.classes().clone(), Arc::new(AtomicBool::new(false)));
    let over = Arc::clone(&is_over);
    let reader = std::thread::spawn(move || {
        let mut records = Records::new();
        while !over.load(Ordering::Relaxed) {
            add(&mut records, read(&mut channel, &classes.stream_class()));
            // Time: between two looks at what was recorded.
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        (records, channel)
    });
    // Nothing changes before both threads are on their way.
    let (mut output, mut said) = (BufReader::new(child.stdout.take().unwrap()), String::new());
    while said.matches("begun").count() < 2 {
        assert!(output.read_line(&mut said).unwrap() > 0, "{said}");
    }
    for round in 1..=12 {
        session.change(events(round), false, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    }
    drop(child.stdin.take());
    output.read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success());
    session.stop();
    let_programs_end();
    is_over.store(true, Ordering::Relaxed);
    let (mut records, mut channel) = reader.join().unwrap();
    add(&mut records, read(&mut channel, &session.classes().stream_class()));
    let threads = said.lines().filter_map(|line| {
        let mut words = line.split(' ').skip_while(|word| !word.ends_with("numbers")).skip(1);
        Some((words.next()?.parse::<u32>().ok()?, words.next()?.parse::<u32>().ok()?))
    });
    let threads: Vec<(u32, u32)> = threads.collect();
    assert_eq!(threads.len(), 2, "{said}");
    for (thread, numbers) in threads {
        let (mut by_call, mut by_name) = (vec![0; numbers as usize], vec![0; numbers as usize]);
        for (_, payload) in &records["syscall_entry_getpgid"] {
            let number = u32::from_ne_bytes(payload[..4].try_into().unwrap());
            if number >> 24 == thread {
                by_call[(number & 0xff_ffff) as usize] += 1;
            }
        }
        for (_, payload) in &records["task_rename"] {
            let text = String::from_utf8_lossy(&payload[20..36]).into_owned();
            let own = format!("n{thread}-");
            let number =
                text.split('\0').next().and_then(|text| text.strip_prefix(&own)).map(str::to_owned);
            if let Some(number) = number.and_then(|number| number.parse::<usize>().ok()) {
                by_name[number] += 1;
            }
        }
        for (what, found) in [("calls", by_call), ("names", by_name)] {
            let wrong: Vec<_> =
                found.iter().enumerate().filter(|(_, times)| **times != 1).collect();
            assert!(
                wrong.is_empty(),
                "{what} of thread {thread}: {} of {numbers}: {:?}",
                wrong.len(),
                &wrong[..wrong.len().min(9)]
            );
        }
    }
}

/// Gives this thread a tree of mounts of its own, which ends with it.
fn mount_for_itself() -> bool {
    use rustix::mount::{mount_change, MountPropagationFlags};
    // SAFETY: nobody else uses this thread's working folder.
    let alone = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) };
    alone.is_ok()
        && mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).is_ok()
}

/// A session that ends without cleaning up records on, and another one that adopts it has all records once.
#[test]
fn session_that_is_gone_records_on_and_is_taken_up_as_it_was_and_no_other_way() {
    let _alone = alone();
    let events = || vec![call("getppid"), tracepoint("sched", "sched_process_exit")];
    let noted: Arc<Mutex<Option<AdoptionRecord>>> = Arc::default();
    let name = format!("test.record.{}", std::process::id());
    let keeping = || {
        let noted = Arc::clone(&noted);
        let note = move |kept: &AdoptionRecord| {
            *noted.lock().unwrap() = Some(kept.clone());
            Ok(())
        };
        let pins = ChannelPins::open(&name, "c").map(Arc::new);
        pins.map(|pins| Keeping { pins, note: Box::new(note) })
    };
    if !mount_for_itself() {
        return eprintln!("skip: only root may mount");
    }
    let keeping_first = match keeping() {
        Ok(keeping) => keeping,
        Err(error) => return eprintln!("skip: {error}"),
    };
    let run = || spec(events(), Follow::Everyone);
    let begun = KernelSession::begin(run(), Some(keeping_first), &mut |_| {
        std::ops::ControlFlow::Continue(())
    });
    let mut session = match begun {
        Ok(session) => session,
        Err(error @ (Error::Rights { .. } | Error::NoBtf)) => return eprintln!("skip: {error}"),
        Err(error) => panic!("{error}"),
    };
    session.start();
    let calls = |child: &mut std::process::Child| assert!(child.wait().unwrap().success());
    calls(&mut child_process().spawn().unwrap());
    // As of a process that was killed: nothing of it is undone.
    std::mem::forget(session);
    let mut while_gone = child_process().spawn().unwrap();
    calls(&mut while_gone);
    let kept = || noted.lock().unwrap().clone().unwrap();
    let other = RecordingSpec { nr_subbufs: 4, ..run() };
    let error = KernelSession::adopt(&other, kept(), keeping().unwrap()).unwrap_err();
    assert!(error.to_string().contains("it was made with"), "{error}");
    let mut session = KernelSession::adopt(&run(), kept(), keeping().unwrap()).unwrap();
    assert_eq!(session.attached(), 3);
    let mut channel = session.take_channel().unwrap();
    // The same events are wanted: their programs stay.
    let programs = session.programs();
    session.change(events(), false, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    assert_eq!(session.programs(), programs);
    calls(&mut child_process().spawn().unwrap());
    // And no more.
    session
        .change(vec![call("getppid")], false, &mut |_| std::ops::ControlFlow::Continue(()))
        .unwrap();
    session.stop();
    let_programs_end();
    let records = read(&mut channel, &session.classes().stream_class());
    let of = |name: &str, tid: u32| records[name].iter().filter(|one| one.0 == tid).count();
    let mut tids: Vec<u32> = records["syscall_entry_getppid"].iter().map(|one| one.0).collect();
    tids.sort_unstable();
    tids.dedup();
    // Other processes of the machine may call it, too.
    let whole = tids.iter().filter(|tid| {
        ["syscall_entry_getppid", "syscall_exit_getppid"]
            .iter()
            .all(|name| of(name, **tid) == CALLS)
    });
    assert!(whole.count() >= 3, "children with all of their calls, each once");
    assert!(of("sched_process_exit", while_gone.id()) == 1);
    session.teardown();
    assert!(!strata_kernel::pinned().unwrap().contains(&name));
}

#[test]
fn only_who_is_tracked_is_recorded() {
    use std::os::unix::process::CommandExt;
    let _alone = alone();
    let getppid = large(spec(vec![call("getppid")], Follow::Everyone));
    let Some(mut session) = begin(getppid) else { return };
    let mut channel = session.take_channel().unwrap();
    session.start();
    let group = Folder::new("/sys/fs/cgroup/unified").or_else(|| Folder::new("/sys/fs/cgroup"));
    let folder = Folder::new(std::env::temp_dir().to_str().unwrap()).unwrap();
    let exe = std::fs::read_link("/proc/self/exe").unwrap();
    let start = |name: &str, gid: u32| {
        let link = folder.0.join(name);
        std::os::unix::fs::symlink(&exe, &link).unwrap();
        let mut command = Command::new(link);
        command.args(["--exact", "steady_child", "--ignored", "--nocapture"]).env(CHILD, FILE);
        command.gid(gid).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        command.spawn().unwrap()
    };
    let gid = 12345;
    // SAFETY: it has no arguments.
    let (mut shop, mut bank) = (start("shop-child", unsafe { libc::getgid() }), start("bank", gid));
    let in_group = group.as_ref().is_some_and(|group| {
        std::fs::write(group.0.join("cgroup.procs"), shop.id().to_string()).is_ok()
    });
    // By the process, whose threads have numbers of their own.
    let of =
        |pid: u32, tid: &u32| std::path::Path::new(&format!("/proc/{pid}/task/{tid}")).exists();
    let some = |numbers: &[u32]| Some(numbers.to_vec());
    let names = |all: &[&str]| Some(all.iter().map(|name| (*name).to_owned()).collect());
    let all = Tracked::default;
    let mut cases = vec![
        (Tracked { pids: some(&[shop.id(), 1]), ..all() }, (true, false)),
        (Tracked { pids: some(&[bank.id()]), ..all() }, (false, true)),
        (Tracked { names: names(&["shop-child"]), ..all() }, (true, false)),
        (Tracked { names: names(&["shop-*", "xyz"]), ..all() }, (true, false)),
        (Tracked { names: names(&["shop-chil", "bank"]), ..all() }, (false, true)),
        (Tracked { names: names(&["*"]), gids: some(&[gid]), ..all() }, (false, true)),
        (Tracked { uids: some(&[0]), gids: some(&[gid]), ..all() }, (false, true)),
        (Tracked { pids: some(&[shop.id(), bank.id()]), uids: some(&[0]), ..all() }, (true, true)),
        (all(), (true, true)),
    ];
    if in_group {
        let path =
            group.as_ref().and_then(|group| group.0.file_name()?.to_str().map(str::to_owned));
        let cgroups = Some(vec![format!("/{}", path.unwrap())]);
        cases.push((Tracked { cgroups, ..all() }, (true, false)));
        // The whole hierarchy.
        let cgroups = Some(vec!["/".to_owned()]);
        cases.push((Tracked { cgroups, names: names(&["bank"]), ..all() }, (false, true)));
    }
    for (tracked, wanted) in cases {
        session.track(&tracked, &[]).unwrap();
        let_programs_end();
        read(&mut channel, &session.classes().stream_class());
        let (mut found, mut rounds) = ((false, false), 0);
        let mut many = 0;
        // Until many came, so that who is not wanted would be there, and all who are wanted: one may get no CPU for long.
        let lacks = |found: (bool, bool)| wanted.0 && !found.0 || wanted.1 && !found.1;
        while (many < 400 || lacks(found)) && rounds < 60_000 {
            let records = read(&mut channel, &session.classes().stream_class());
            let tids = records.get("syscall_entry_getppid").into_iter().flatten().map(|one| one.0);
            let mut tids: Vec<u32> = tids.collect();
            many += tids.len();
            tids.sort_unstable();
            tids.dedup();
            found.0 |= tids.iter().any(|tid| of(shop.id(), tid));
            found.1 |= tids.iter().any(|tid| of(bank.id(), tid));
            let is_restricted = tracked != Tracked::default();
            let strangers = tids.iter().find(|tid| !of(shop.id(), tid) && !of(bank.id(), tid));
            assert!(!is_restricted || strangers.is_none(), "{tracked:?}: {strangers:?}");
            // Time: between two looks at what was recorded.
            std::thread::sleep(std::time::Duration::from_millis(2));
            rounds += 1;
        }
        assert_eq!(found, wanted, "{tracked:?}");
    }
    // What cannot be asked changes nothing.
    let before = Tracked { pids: some(&[shop.id()]), ..all() };
    session.track(&before, &[]).unwrap();
    let error = session.track(&Tracked { names: names(&["*nk"]), ..all() }, &[]).unwrap_err();
    assert!(error.to_string().contains("'*nk'"), "{error}");
    let_programs_end();
    read(&mut channel, &session.classes().stream_class());
    let mut tids = Vec::new();
    while tids.len() < 400 {
        let mut records = read(&mut channel, &session.classes().stream_class());
        tids.extend(records.remove("syscall_entry_getppid").into_iter().flatten().map(|one| one.0));
    }
    assert!(tids.iter().all(|tid| of(shop.id(), tid)));
    for child in [&mut shop, &mut bank] {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
    session.stop();
}

/// Each event has its own counters, in any order; added ones work at once, and missing ones change nothing.
#[test]
fn counters_are_those_of_each_event_and_one_that_there_is_not_changes_nothing() {
    let _alone = alone();
    let asked = |event: SelectedEvent, names: &str| SelectedEvent {
        contexts: Contexts::parse(&[names]).unwrap(),
        ..event
    };
    let first = || asked(call("getppid"), "perf:cpu:cpu-clock");
    let exec = || {
        let exec = tracepoint("sched", "sched_process_exec");
        asked(exec, "perf:cpu:page-faults,perf:cpu:cpu-clock,perf:cpu:task-clock")
    };
    let Some(mut session) = begin(spec(vec![first()], Follow::Children)) else { return };
    let mut channel = session.take_channel().unwrap();
    session.start();
    // No cache of instructions is written to.
    let none = asked(tracepoint("sched", "sched_process_exit"), "pid,perf:cpu:L1-icache-stores");
    for _ in 0..9 {
        let events = vec![first(), none.clone()];
        let changed = session.change(events, false, &mut |_| std::ops::ControlFlow::Continue(()));
        let error = changed.unwrap_err();
        assert!(matches!(error, Error::Counter { .. }), "{error}");
        assert!(error.to_string().contains("'perf:cpu:L1-icache-stores': CPU 0 "), "{error}");
    }
    let events = vec![exec(), first()];
    session.change(events, false, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    let mut process = child_process().spawn().unwrap();
    assert!(process.wait().unwrap().success());
    session.stop();
    let_programs_end();
    let class = session.classes().stream_class();
    let names = |event: &str| {
        let class = class.events.iter().rfind(|one| one.name == event).unwrap();
        class.context.iter().map(|field| field.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names("syscall_entry_getppid"), ["perf_cpu_cpu_clock"]);
    let of_exec = ["perf_cpu_cpu_clock", "perf_cpu_page_faults", "perf_cpu_task_clock"];
    assert_eq!(names("sched_process_exec"), of_exec);
    assert_eq!(class.context.len(), 1);
    assert_eq!(session.counts().uncounted, 0);
    let records = read(&mut channel, &class);
    let word = |bytes: &[u8], at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    assert!(records["sched_process_exec"]
        .iter()
        .all(|(_, bytes)| word(bytes, 0) > word(bytes, 16)));
    assert!(records["sched_process_exec"].iter().all(|(_, bytes)| word(bytes, 16) > 0));
    let clocks: Vec<u64> =
        records["syscall_entry_getppid"].iter().map(|(_, bytes)| word(bytes, 0)).collect();
    assert!(!clocks.is_empty() && clocks.iter().all(|clock| *clock > 0), "{clocks:?}");
}

/// Of all kinds of programs, in both ways in which each can write: what records say of the thread is what it is.
#[test]
fn contexts_are_what_proc_says_and_stacks_lead_through_the_kernel() {
    // Behind all that have a fixed size.
    const STACKS_AT: usize = 88;
    let _alone = alone();
    let names: Vec<&str> = Contexts::all().map(|(name, _)| name).collect();
    let contexts = Contexts::parse(&names).unwrap();
    let events = vec![
        call("getppid"),
        call("openat"),
        tracepoint("sched", "sched_process_exit"),
        tracepoint("sched", "sched_process_exec"),
        tracepoint("sched", "sched_switch"),
    ];
    let spec = RecordingSpec { contexts, ..large(spec(events, Follow::Children)) };
    let Some(mut session) = begin(spec) else { return };
    let mut channel = session.take_channel().unwrap();
    session.start();
    let mut process = child_process().spawn().unwrap();
    let pid = process.id();
    assert!(process.wait().unwrap().success());
    session.stop();
    let_programs_end();
    let class = session.classes().stream_class();
    let records = read(&mut channel, &class);
    let word = |bytes: &[u8], at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    let address =
        |bytes: &[u8], at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    // SAFETY: it has no pointers. The child's is inherited.
    let priority = (20 + unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }) as u32;
    let namespaces = ["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"].map(|name| {
        let text = std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        let number = text.to_str().and_then(|text| text.split(['[', ']']).nth(1));
        number.unwrap().parse::<u32>().unwrap()
    });
    let mut checked = 0;
    for name in ["syscall_entry_getppid", "syscall_exit_getppid", "syscall_entry_openat"] {
        assert!(!records[name].is_empty(), "{name}");
        for (tid, bytes) in &records[name] {
            assert_eq!((word(bytes, 0), word(bytes, 4)), (pid, std::process::id()), "{name}");
            assert_eq!((word(bytes, 24), word(bytes, 28)), (uid, gid), "{name}");
            assert_eq!(word(bytes, 32), priority, "{name}");
            let inside = (word(bytes, 44), word(bytes, 48), word(bytes, 52));
            assert_eq!(inside, (pid, *tid, std::process::id()), "{name}");
            let own: [u32; 8] = std::array::from_fn(|i| word(bytes, 56 + i * 4));
            assert_eq!(own, namespaces, "{name}");
            let frames = word(bytes, STACKS_AT) as usize;
            assert!((1..=64).contains(&frames), "{name}: {frames}");
            let of_kernel = |at| address(bytes, STACKS_AT + 4 + at * 8) >> 63 == 1;
            assert!((0..frames).all(of_kernel), "{name}");
            let at = STACKS_AT + 4 + frames * 8;
            let of_user = word(bytes, at) as usize;
            assert!((1..=64).contains(&of_user), "{name}: {of_user}");
            assert!(address(bytes, at + 4) >> 47 == 0, "{name}");
            checked += 1;
        }
    }
    assert!(checked > 2 * CALLS);
    let named =
        |bytes: &[u8]| bytes[8..24].starts_with(b"exe\0") || bytes[8..24].starts_with(b"child\0");
    assert!(records["syscall_entry_getppid"].iter().all(|(_, bytes)| named(bytes)));
    // Payloads are behind all of it, as they are without.
    let (_, bytes) = &records["syscall_exit_getppid"][0];
    assert_eq!(number(bytes, bytes.len() - 8), i64::from(std::process::id()));
    assert!(records["sched_process_exit"]
        .iter()
        .any(|(tid, bytes)| *tid == pid && word(bytes, 0) == pid));
    assert!(records["sched_switch"].len() > 2);
    // The idle task of the kernel has no program's stack.
    let idle = records["sched_switch"].iter().find(|(tid, _)| *tid == 0);
    if let Some((_, bytes)) = idle {
        let frames = word(bytes, STACKS_AT) as usize;
        assert_eq!(word(bytes, STACKS_AT + 4 + frames * 8), 0);
    }
    // The kernel's own table says where the innermost ones are.
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let mut symbols: Vec<(u64, &str)> = symbols
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let at = u64::from_str_radix(words.next()?, 16).ok().filter(|at| *at != 0)?;
            Some((at, words.nth(1)?))
        })
        .collect();
    symbols.sort_unstable();
    if symbols.is_empty() {
        return eprintln!("skip: /proc/kallsyms may not be read");
    }
    let (_, bytes) = &records["syscall_entry_getppid"][0];
    let path: Vec<&str> = (0..word(bytes, STACKS_AT) as usize)
        .filter_map(|at| {
            let address = address(bytes, STACKS_AT + 4 + at * 8);
            Some(symbols[..symbols.partition_point(|(from, _)| *from <= address)].last()?.1)
        })
        .collect();
    assert!(path.iter().any(|name| name.contains("syscall")), "{path:?}");
}
