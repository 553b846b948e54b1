use super::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use strata_ctf::packet::Header;
use strata_model::{
    ByteOrder, ClockClass, Field, FieldClass, Integer, RecordHeader, StreamClass, Trace, Uuid,
};

const UUID: Uuid = Uuid(*b"0123456789abcdef");
const NOW: u64 = 0x0123_4567_89ab_cdef;

/// A folder of its own, taken away at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("strata-dump-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, path: &str, to: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, path).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A line of /proc/PID/stat.
fn stat(tid: i32, name: &str, state: char, ppid: i32, flags: u32, cpu: u32) -> String {
    let zeros = "0 ".repeat(29);
    format!("{tid} ({name}) {state} {ppid} 1 1 0 -1 {flags} {zeros}{cpu} 0 0 0\n")
}

fn name(text: &str) -> [u8; NAME_BYTES] {
    let mut out = [0; NAME_BYTES];
    out[..text.len()].copy_from_slice(text.as_bytes());
    out
}

fn found(root: &Path) -> Vec<DumpedProcess> {
    numbers_of_processes(root).into_iter().filter_map(|pid| process(root, pid, None)).collect()
}

fn processes(root: &Path) -> Vec<ProcessState> {
    states(&found(root))
}

fn stamp(first_id: u32) -> DumpStamp<'static> {
    DumpStamp { now_ns: NOW, tid: 9, contexts: &[], first_id, is_later: false }
}

#[test]
fn parse_of_a_name_with_brackets_and_spaces_takes_all_of_it() {
    let found = proc::parse(stat(7, "a) R 5 (b", 'S', 3, 0x40_0100, 6).as_bytes()).unwrap();
    assert_eq!(found.name, name("a) R 5 (b"));
    assert_eq!((found.tid, found.ppid, found.cpu), (7, 3, 6));
    assert_eq!((found.status, found.is_kernel), (ThreadStatus::Wait, false));
}

#[test]
fn parse_of_each_state_gives_its_status() {
    let status = |state| proc::parse(stat(1, "x", state, 0, 0, 0).as_bytes()).unwrap().status;
    assert_eq!(status('R'), ThreadStatus::WaitCpu);
    assert_eq!(status('D'), ThreadStatus::Wait);
    assert_eq!(status('I'), ThreadStatus::Wait);
    assert_eq!(status('Z'), ThreadStatus::Zombie);
    assert_eq!(status('X'), ThreadStatus::Dead);
    assert_eq!(status('T'), ThreadStatus::Unnamed);
}

#[test]
fn parse_of_a_worker_gives_the_name_that_the_scheduler_has() {
    let worker =
        |text: &str, flags| proc::parse(stat(1, text, 'I', 2, flags, 0).as_bytes()).unwrap().name;
    const KTHREAD: u32 = 0x0420_8060;
    assert_eq!(worker("kworker/0:1-events", KTHREAD), name("kworker/0:1"));
    assert_eq!(worker("kworker/u4:1+flush", KTHREAD), name("kworker/u4:1"));
    assert_eq!(worker("kworker/R-rcu_gp", KTHREAD), name("kworker/R-rcu_g"));
    assert_eq!(worker("kworker/0:1-mine", 0), name("kworker/0:1-min"));
}

#[test]
fn parse_of_nonsense_is_nothing() {
    for text in
        ["", "1", "1 (x", ")1(", "1 (x) S", "x (x) S 1 1 1 0 -1 0", "1 (x) S 1 1 1 0 -1 0 0 0"]
    {
        assert_eq!(proc::parse(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn processes_of_two_namespaces_have_the_numbers_of_both() {
    let folder = Folder::new("namespaces");
    folder.link("proc/self/ns/pid", "pid:[100]");
    for (pid, ppid, inum) in [(10, 1, 100), (20, 10, 200), (21, 20, 200)] {
        let tid = pid;
        folder.link(&format!("proc/{pid}/ns/pid"), &format!("pid:[{inum}]"));
        folder.put(&format!("proc/{pid}/task/{tid}/stat"), stat(tid, "x", 'S', ppid, 0, 1));
        let status = format!("Name:\t\nNSpid:\t{tid}\t{}\n", tid - 19);
        folder.put(&format!("proc/{pid}/status"), &status);
        folder.put(&format!("proc/{pid}/task/{tid}/status"), &status);
    }
    // It ends while we look, and something that is no process.
    folder.put("proc/30/task/30/none", "");
    folder.put("proc/sys/stat", "");
    let found = processes(&folder.0);
    let numbers = |at: usize| {
        let one: &ProcessState = &found[at];
        ([one.tid, one.vtid, one.pid, one.vpid, one.ppid, one.vppid], one.ns_level, one.ns_inum)
    };
    assert_eq!(found.len(), 3);
    assert_eq!(numbers(0), ([10, 10, 10, 10, 1, 0], 0, 100));
    assert_eq!(numbers(1), ([20, 1, 20, 1, 10, 0], 1, 200));
    assert_eq!(numbers(2), ([21, 2, 21, 2, 20, 1], 1, 200));
}

#[test]
fn processes_renumbered_have_the_numbers_of_the_kernel_and_keep_their_own() {
    let folder = Folder::new("renumbered");
    folder.link("proc/self/ns/pid", "pid:[200]");
    for pid in [1, 2, 9] {
        folder.link(&format!("proc/{pid}/ns/pid"), "pid:[200]");
    }
    for (pid, tid, ppid) in [(1, 1, 0), (2, 2, 1), (2, 3, 1), (9, 9, 1)] {
        folder.put(&format!("proc/{pid}/task/{tid}/stat"), stat(tid, "x", 'S', ppid, 0, 1));
    }
    // The last one has gone.
    let number = |here| (1..9).contains(&here).then_some(here + 400);
    let renumbered = |one: DumpedProcess| one.renumbered(2, &number);
    let found: Vec<DumpedProcess> = found(&folder.0).into_iter().filter_map(renumbered).collect();
    let all: Vec<_> = states(&found)
        .iter()
        .map(|it| ([it.tid, it.vtid, it.pid, it.vpid, it.ppid, it.vppid], it.ns_level))
        .collect();
    assert_eq!(
        all,
        [([401, 1, 401, 1, 0, 0], 2), ([402, 2, 402, 2, 401, 1], 2), ([403, 3, 402, 2, 401, 1], 2)]
    );
}

#[test]
fn processes_of_this_machine_have_this_thread_among_them() {
    let found = processes(Path::new("/"));
    let (pid, tid) = (std::process::id() as i32, rustix::thread::gettid().as_raw_nonzero().get());
    let own = found.iter().find(|one| one.tid == tid).unwrap();
    assert_eq!((own.pid, own.is_kernel), (pid, false));
    assert!(found.iter().any(|one| one.tid == own.ppid), "{own:?}");
}

#[test]
fn event_class_of_a_process_has_as_many_bytes_as_its_record() {
    let classes = event_classes(40);
    assert_eq!(classes.len(), NR_CLASSES as usize);
    assert!(classes.iter().all(|class| class.validate().is_ok()));
    let (none, _) = records(&[], None, &stamp(40));
    let (one, count) = records(&[a_process()], None, &stamp(40));
    let texts = "Sread".len() as u64;
    assert_eq!((one.len() - none.len()) as u64, 10 + classes[1].min_bytes() + texts);
    assert_eq!(count, 3);
}

/// Writes a trace of one packet, as a session does, and has babeltrace2 print it. Each test has an id of its own, by which
/// the folder is called.
fn read_back(
    first_id: u32,
    processes: &[DumpedProcess],
    machine: Option<&MachineState>,
) -> Option<String> {
    let folder = Folder::new(&format!("read-{first_id}"));
    let stream = StreamClass {
        id: 0,
        name: "channel0".into(),
        header: RecordHeader::Large,
        context: vec![Field::new("tid", FieldClass::Integer(Integer::unsigned(4)))],
        events: event_classes(first_id),
    };
    let trace = Trace {
        uuid: UUID,
        byte_order: ByteOrder::NATIVE,
        environment: Vec::new(),
        clock: ClockClass::monotonic(None, 0),
        streams: vec![stream],
    };
    folder.put("metadata", strata_ctf::metadata::write(&trace));
    let (records, _) = records(processes, machine, &stamp(first_id));
    let header = Header {
        uuid: UUID,
        stream_instance: 2,
        timestamp_begin: NOW,
        timestamp_end: NOW,
        ..Header::default()
    };
    let header = header.with_content_bytes(records.len() as u64).encode();
    folder.put("statedump_0", [&header[..], &records].concat());
    let output = match Command::new("babeltrace2").arg("--clock-cycles").arg(&folder.0).output() {
        Ok(output) => output,
        Err(error) => {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "babeltrace2: {error}");
            eprintln!("skip: missing tool: babeltrace2: {error}");
            return None;
        }
    };
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && talk.is_empty(), "{talk}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

const READS: &str = "0 0xffffffff00000003 0x7ffe0 0x1 0x0 0x0 0x0 0x7ffe41a0b2c8 0x7f12a3b4c5d6\n";

#[test]
fn waiting_call_has_the_name_and_the_first_argument_that_says_what_for() {
    let of = |text: &str| {
        proc::waiting_call(text).map(|call| (call.name, call.descriptor, call.address))
    };
    assert_eq!(of(READS), Some(("read", Some(3), 0)));
    let with = |number: u32, first: &str| {
        of(&format!("{number} {first} 0x0 0x0 0x0 0x0 0x0 0x7ffe41a0b2c8 0x7f12a3b4c5d6"))
    };
    #[cfg(target_arch = "x86_64")]
    {
        assert_eq!(with(202, "0x7f0012"), Some(("futex", None, 0x7f0012)));
        assert_eq!(with(232, "0x9"), Some(("epoll_wait", Some(9), 0)));
        assert_eq!(with(230, "0x1"), Some(("clock_nanosleep", None, 0)));
    }
    assert_eq!(with(60_000, "0x1"), None);
    for text in ["", "running", "-1 0x7ffe41a0b2c8 0x7f12a3b4c5d6", "0", "0 0x3", "x y z"] {
        assert_eq!(of(text), None, "{text}");
    }
    // A program of 32 bits: its calls have other numbers.
    assert_eq!(of("3 0x0 0x1 0x2 0x0 0x0 0x0 0xffb2c8a0 0xf7f12a3b"), None);
}

fn a_process() -> DumpedProcess {
    let state = ProcessState {
        tid: 21,
        vtid: 2,
        pid: 20,
        vpid: 1,
        ppid: 10,
        vppid: 0,
        name: name("fifteen letters"),
        is_kernel: true,
        status: ThreadStatus::Wait,
        letter: b'S',
        call: proc::waiting_call(READS).unwrap(),
        ns_level: 1,
        ns_inum: u32::MAX,
        start_ticks: 100,
        cpu: 3,
    };
    // Its parent is outside of its namespace.
    DumpedProcess { pid: 20, threads: vec![state], ..DumpedProcess::default() }
}

#[test]
fn states_of_threads_that_began_behind_the_dump_s_time_are_not_reported() {
    let mut process = a_process();
    process.forget_states_since(101);
    assert_eq!(process.threads, a_process().threads);
    process.forget_states_since(100);
    let thread = &process.threads[0];
    assert_eq!((thread.status, thread.letter), (ThreadStatus::Unnamed, b'?'));
    assert_eq!(thread.call, WaitingCall::default());
    assert_eq!((thread.tid, thread.name), (21, name("fifteen letters")));
}

#[test]
fn ticks_since_boot_of_a_new_thread_are_those_that_proc_says() {
    let before = ticks_since_boot();
    let (tid, text) = std::thread::spawn(|| {
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        (tid, std::fs::read(format!("/proc/self/task/{tid}/stat")).unwrap())
    })
    .join()
    .unwrap();
    let found = proc::parse(&text).unwrap();
    assert_eq!(found.tid, tid);
    assert!((before..=ticks_since_boot()).contains(&found.start_ticks), "{before} {found:?}");
}

#[test]
fn records_read_by_babeltrace2_say_what_was_dumped() {
    // The second: ids that do not fit into a short header.
    for first_id in [40, 65_534] {
        let Some(text) = read_back(first_id, &[a_process()], None) else { return };
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].contains("lttng_statedump_start: "), "{text}");
        assert!(lines[2].contains("lttng_statedump_end: "), "{text}");
        assert!(lines.iter().all(|line| line.contains(&format!("{NOW:020}"))), "{text}");
        assert!(lines.iter().all(|line| line.contains("{ tid = 9 }")), "{text}");
        let said = "lttng_statedump_process_state: { cpu_id = 0 }, { tid = 9 }, { tid = 21, vtid = 2, \
                    pid = 20, vpid = 1, ppid = 10, vppid = 0, name = \"fifteen letters\", type = 1, \
                    mode = 5, submode = 1, status = 5, ns_level = 1, ns_inum = 4294967295, cpu = 3, \
                    state = \"S\", call = \"read\", fd = 3, address = 0x0 }";
        assert!(lines[1].ends_with(said), "{}", lines[1]);
    }
}

#[test]
fn records_of_the_whole_machine_read_by_babeltrace2_are_one_for_each_thread() {
    let found = found(Path::new("/"));
    let Some(text) = read_back(7, &found, None) else { return };
    assert_eq!(text.lines().count(), states(&found).len() + 2);
}

#[test]
fn records_of_what_is_held_and_of_the_machine_read_by_babeltrace2_are_whole() {
    let id = std::process::id();
    let own = process(Path::new("/"), id, Some(&BuildIds::default())).unwrap();
    let machine = MachineState::read(Path::new("/"));
    let Some(text) = read_back(8, &[own], Some(&machine)) else { return };
    let exe = std::env::current_exe().unwrap();
    let has = |name: &str, what: &str| {
        let name = format!(" lttng_statedump_{name}: ");
        text.lines().any(|line| line.contains(&name) && line.contains(what))
    };
    assert!(has("vm_map", &format!("path = \"{}\", build_id = ", exe.display())), "{text}");
    assert!(has("vm_map", &format!("{{ pid = {id}, start = 0x")), "{text}");
    assert!(has("file_descriptor", &format!("pid = {id}, fd = 0, flags = 0x")), "{text}");
    assert!(has("cpu_topology", "cpu_id = 0, vendor = "), "{text}");
    assert!(has("mount", "path = \"/\""), "{text}");
    assert!(text.lines().last().unwrap().contains("lttng_statedump_end"), "{text}");
}

#[test]
fn mapping_of_a_line_is_of_code_with_a_name_that_may_have_spaces_or_none() {
    let line = b"55d0c000-55d0e000 r-xp 00001000 fd:01 1234      /a b/c (deleted)";
    let (device, found) = process_files::mapping(line).unwrap();
    assert_eq!((device.as_str(), found.start, found.end), ("fd:01", 0x55d0_c000, 0x55d0_e000));
    assert_eq!((found.offset, found.inode), (0x1000, 1234));
    assert_eq!(found.path, b"/a b/c (deleted)");
    // Code that a program has made itself has no name.
    let (_, found) = process_files::mapping(b"1-2 r-xp 0 0:0 0").unwrap();
    assert_eq!((found.inode, &found.path[..]), (0, &b"//anon"[..]));
    for line in ["", "1-2", "1-2 r--p 0 0:0 1 /a", "1-2 rw-p 0 0:0 0", "x-2 r-xp 0 0:0 1 /a"] {
        assert_eq!(process_files::mapping(line.as_bytes()), None, "{line}");
    }
}
