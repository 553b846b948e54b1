//! Texts of system calls that are not in memory yet when the call is entered, texts of the largest sizes,
//! and numbers that the kernel changes. Needs root, or CAP_BPF and CAP_PERFMON.

use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use strata_ctf::packet_records::{Record, RecordScanner};
use strata_filter::Filter;
use strata_kernel::{syscalls, FlawCounts, Follow, KernelSession, RecordingSpec, SelectedEvent};
use strata_model::{ByteOrder, StreamClass};
use strata_ring::{Channel, LossMode};

mod sessions;

use sessions::begin;

const MODES: [LossMode; 2] = [LossMode::Discard, LossMode::Overwrite];
const CHILD: &str = "STRATA_TEST_SYSTEXT";
const FIFO: &str = "STRATA_TEST_SYSTEXT_FIFO";
const PAGE: usize = 4096;
/// Offset of each text in its page, by which its address is recognized.
const AT: usize = 0x123;
const FILE: &CStr = c"/etc/hostname";
const PROGRAM: &CStr = c"/bin/true";
const NO_PROGRAM: &CStr = c"/nowhere/there/is/such/a/program";
/// An address that nothing is mapped at.
const NOWHERE: usize = 0x1230;

/// The number by which a program calls getpid through the x32 interface, whether the kernel has that or not.
const X32_GETPID: u32 = 0x4000_0027;

// ---- what is recorded ----

/// Texts in the pages of a file, one in each, that nobody has touched.
struct Untouched {
    begin: *mut libc::c_void,
    _file: std::fs::File,
}

impl Untouched {
    fn new(texts: &[&[u8]]) -> Untouched {
        let mut bytes = vec![0; texts.len() * PAGE];
        for (page, text) in texts.iter().enumerate() {
            bytes[page * PAGE + AT..][..text.len()].copy_from_slice(text);
        }
        let path = std::env::temp_dir().join(format!("strata-systext-{}", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (prot, flags, fd) = (libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd());
        // SAFETY: at an address that the kernel chooses; the file stays as long as it is.
        let begin = unsafe { libc::mmap(std::ptr::null_mut(), bytes.len(), prot, flags, fd, 0) };
        assert_ne!(begin, libc::MAP_FAILED);
        Untouched { begin, _file: file }
    }

    fn text(&self, page: usize) -> *const libc::c_char {
        self.begin.cast::<libc::c_char>().wrapping_add(page * PAGE + AT)
    }
}

fn open(path: *const libc::c_char) {
    // SAFETY: the kernel looks at the path only as far as it may; nothing uses the descriptor.
    unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, libc::O_RDONLY, 0) };
}

/// In a child of its own.
fn execute(number: libc::c_long, path: &CStr) {
    let all = Untouched::new(&[path.to_bytes(), b"one", b"two"]);
    let argv = [all.text(1), all.text(2), std::ptr::null()];
    let envp = [c"A=1".as_ptr(), std::ptr::null()];
    // SAFETY: the child makes system calls only.
    let pid = unsafe { libc::fork() };
    if pid > 0 {
        // SAFETY: it is our child, and nothing is written.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
        return;
    }
    let (path, argv, envp) = (all.text(0), argv.as_ptr(), envp.as_ptr());
    if number == libc::SYS_execve {
        // SAFETY: both arrays end with NULL.
        unsafe { libc::syscall(number, path, argv, envp) };
    } else {
        // SAFETY: as above.
        unsafe { libc::syscall(number, libc::AT_FDCWD, path, argv, envp, 0) };
    }
    // SAFETY: runs nothing of this process, whose copy this is.
    unsafe { libc::_exit(0) };
}

/// Connects with the length of the whole structure, as programs do.
fn connect(path: &[u8]) {
    // SAFETY: all zeroes is one.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as u16;
    for (to, byte) in address.sun_path.iter_mut().zip(path) {
        *to = *byte as libc::c_char;
    }
    let bytes = size_of_val(&address) as u32;
    // SAFETY: three numbers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) };
    // SAFETY: the address is as long as it says.
    unsafe { libc::connect(fd, std::ptr::from_ref(&address).cast(), bytes) };
    // SAFETY: it is ours.
    unsafe { libc::close(fd) };
}

extern "C" fn handler(_: libc::c_int) {}

/// The recorded process of the tests below.
#[test]
#[ignore = "is the process that the other tests record"]
fn child() {
    let Ok(what) = std::env::var(CHILD) else { return };
    match what.as_str() {
        "open" => {
            let untouched = Untouched::new(&[FILE.to_bytes()]);
            open(untouched.text(0));
            open(untouched.text(0));
            open(NOWHERE as *const libc::c_char);
            open(std::ptr::null());
        }
        "wait" => {
            let fifo = std::env::var_os(FIFO).unwrap();
            let untouched = Untouched::new(&[fifo.as_encoded_bytes()]);
            let other = CString::new("/").unwrap();
            // Until somebody opens it to write.
            open(untouched.text(0));
            // SAFETY: stops this process until it is told to go on.
            unsafe { libc::raise(libc::SIGSTOP) };
            open(other.as_ptr());
        }
        "execute" => {
            execute(libc::SYS_execve, PROGRAM);
            execute(libc::SYS_execveat, PROGRAM);
            execute(libc::SYS_execve, NO_PROGRAM);
        }
        "long" => {
            for bytes in [1022, 1023, 1024, 2000] {
                open(CString::new(vec![b'/'; bytes]).unwrap().as_ptr());
            }
        }
        "connect" => {
            connect(b"/nowhere/socket");
            connect(b"\0abstract");
            connect(&[b'x'; 108]);
        }
        "numbers" => {
            let function: extern "C" fn(libc::c_int) = handler;
            // SAFETY: the handler does nothing.
            unsafe { libc::signal(libc::SIGUSR1, function as libc::sighandler_t) };
            // SAFETY: for the handler.
            unsafe { libc::raise(libc::SIGUSR1) };
            // SAFETY: there is no such call.
            unsafe { libc::syscall(-1) };
            // SAFETY: it takes nothing and changes nothing.
            unsafe { libc::syscall(X32_GETPID.into()) };
        }
        other => panic!("{other}"),
    }
}

// ---- recording ----

/// A record: name, thread, payload.
type Seen = (String, u32, Vec<u8>);

fn read(channel: &mut Channel, class: &StreamClass) -> Vec<Seen> {
    let scanner = RecordScanner::new(class, ByteOrder::NATIVE).unwrap();
    let mut all = Vec::new();
    let mut add = |record: Record<'_>| {
        let tid = u32::from_ne_bytes(record.context.try_into().unwrap());
        let name = class.events[record.class].name.clone();
        all.push((record.timestamp, (name, tid, record.payload.to_vec())));
    };
    for cpu in 0..channel.nr_streams() {
        let mut stream = channel.stream(cpu).unwrap();
        stream.flush().unwrap();
        let mut bytes = Vec::new();
        while let Some(packet) = stream.next().unwrap() {
            bytes.clear();
            packet.copy_to(0, &mut bytes).unwrap();
            for record in scanner.records(&bytes, packet.info().timestamp_begin) {
                add(record.unwrap());
            }
            packet.put();
        }
        assert_eq!(stream.counters().discarded(), 0);
    }
    all.sort_by_key(|(timestamp, _)| *timestamp);
    all.into_iter().map(|(_, seen)| seen).collect()
}

/// Locks out other tests: a session follows all that this process starts.
static ALONE: Mutex<()> = Mutex::new(());

/// `None`, and says why, where the kernel cannot be recorded.
fn begin_calls(
    loss_mode: LossMode,
    calls: &[&str],
    exit: bool,
    filter: Option<&str>,
) -> Option<KernelSession> {
    let one = |name: &&str| {
        let event = match *name {
            "unknown" => syscalls::unknown(),
            name => syscalls::event(syscalls::find(name).unwrap()),
        };
        let filter = filter.map(|text| Filter::parse(text).unwrap());
        let exit_filter = filter.clone();
        SelectedEvent { exit, filter, exit_filter, ..SelectedEvent::all_records(event) }
    };
    let events = calls.iter().map(one).collect();
    let follow = Follow::Children;
    let spec = RecordingSpec {
        argv_bytes: strata_kernel::ARGV_BYTES,
        loss_mode,
        subbuf_bytes: 1 << 18,
        nr_subbufs: 4,
        events,
        follow,
        contexts: strata_kernel::Contexts::default(),
    };
    begin(spec)
}

/// The child that does `what`.
fn command(what: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", "child", "--ignored"]).env(CHILD, what);
    command.stdout(std::process::Stdio::null());
    command
}

/// Records the child's calls without a filter.
fn record(
    what: &str,
    loss_mode: LossMode,
    calls: &[&str],
    exit: bool,
) -> Option<(Vec<Seen>, FlawCounts)> {
    record_filtered(what, loss_mode, calls, exit, None)
}

fn record_filtered(
    what: &str,
    loss_mode: LossMode,
    calls: &[&str],
    exit: bool,
    filter: Option<&str>,
) -> Option<(Vec<Seen>, FlawCounts)> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut session = begin_calls(loss_mode, calls, exit, filter)?;
    let mut channel = session.take_channel().unwrap();
    session.start();
    assert!(command(what).status().unwrap().success());
    session.stop();
    let_programs_end();
    let seen = read(&mut channel, &session.classes().stream_class());
    Some((seen, session.counts()))
}

fn text(bytes: &[u8]) -> String {
    CStr::from_bytes_until_nul(bytes).unwrap().to_str().unwrap().to_owned()
}

fn number(bytes: &[u8]) -> i64 {
    i64::from_ne_bytes(bytes[..8].try_into().unwrap())
}

/// Returns whether the text is the address of a text of [`Untouched`], in strace's form.
fn is_address(text: &str) -> bool {
    let address = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    address.is_some_and(|address| {
        address as usize % PAGE == AT && text == format!("{address:#x}") && address != 0
    })
}

/// Decodes a `syscall_text` record: number, argument, text.
fn text_record((name, _, payload): &Seen) -> Option<(u32, u8, String)> {
    let number = u32::from_ne_bytes(payload[..4].try_into().unwrap());
    (name == syscalls::TEXT).then(|| (number, payload[4], text(&payload[5..])))
}

/// The records of one thread around the n-th that is a `syscall_text` with this text: two before, two behind.
fn around(seen: &[Seen], text: &str, nth: usize) -> Vec<Seen> {
    let is_it = |seen: &&Seen| text_record(seen).is_some_and(|(_, _, found)| found == text);
    let it = seen.iter().filter(is_it).nth(nth);
    let it = it.unwrap_or_else(|| panic!("no {nth}. syscall_text '{text}' in {seen:?}"));
    let of_thread: Vec<&Seen> = seen.iter().filter(|(_, tid, _)| *tid == it.1).collect();
    let at = of_thread.iter().position(|seen| std::ptr::eq(*seen, it)).unwrap();
    let end = of_thread.len().min(at + 3);
    of_thread[at - 1..end].iter().map(|seen| (*seen).clone()).collect()
}

// ---- tests ----

#[test]
fn open_of_an_untouched_page_has_the_address_at_entry_and_the_text_at_exit() {
    for mode in MODES {
        let Some((seen, counts)) = record("open", mode, &["openat"], true) else { return };
        let name = FILE.to_str().unwrap();
        let found = around(&seen, name, 0);
        assert_eq!(found[0].0, "syscall_entry_openat");
        let address = text(&found[0].2[4..]);
        assert!(is_address(&address), "{address}");
        let record = text_record(&found[1]).unwrap();
        assert_eq!(record, (libc::SYS_openat as u32, 1, name.to_owned()));
        assert_eq!(found[2].0, "syscall_exit_openat");
        assert!(number(&found[2].2) >= 0, "opened");
        // The same name again is there: at entry, and nowhere else.
        let entries = seen.iter().filter(|(name, ..)| name == "syscall_entry_openat");
        let entries: Vec<String> = entries.map(|(_, _, payload)| text(&payload[4..])).collect();
        assert_eq!(entries.iter().filter(|path| *path == name).count(), 1);
        let texts = seen.iter().filter_map(text_record).filter(|(_, _, text)| text == name);
        assert_eq!(texts.count(), 1);
        // What nobody can read is its address, what is NULL is nothing.
        let nowhere = format!("{NOWHERE:#x}");
        let at = entries.iter().position(|path| *path == nowhere).unwrap();
        assert_eq!(entries[at + 1], "");
        assert!(!seen.iter().filter_map(text_record).any(|(_, _, text)| text == nowhere));
        assert_eq!(counts, FlawCounts { unreadable: 1, ..FlawCounts::default() });
    }
}

/// A BPF program may still be at its end on another CPU: until all have left what RCU protects.
fn let_programs_end() {
    // MEMBARRIER_CMD_GLOBAL
    // SAFETY: no memory is involved.
    assert_eq!(unsafe { libc::syscall(libc::SYS_membarrier, 1, 0, 0) }, 0);
}

/// Waits until a thread of the process is in this system call, or stopped, as /proc has it.
fn wait_for_thread(pid: u32, wanted: &dyn Fn(&str, &str) -> bool) {
    for _ in 0..6000 {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        for thread in threads.map(|thread| thread.unwrap().path()) {
            let file = |name| std::fs::read_to_string(thread.join(name)).unwrap_or_default();
            let stat = file("stat");
            let state = stat.rsplit_once(") ").map_or("", |(_, rest)| &rest[..1]).to_owned();
            if wanted(&state, &file("syscall")) {
                return;
            }
        }
        // Time: between two looks; a minute in all.
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("process {pid} does not come so far");
}

/// The text of a call whose exit was not seen is not read, but counted, and no other call gets it.
#[test]
fn text_of_a_call_whose_exit_is_not_seen_is_counted_and_not_taken_by_the_next() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for mode in MODES {
        let Some(mut session) = begin_calls(mode, &["openat"], true, None) else { return };
        let fifo = std::env::temp_dir().join(format!("strata-fifo-{}", std::process::id()));
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let mut channel = session.take_channel().unwrap();
        session.start();
        let mut child = command("wait").env(FIFO, &fifo).spawn().unwrap();
        let call = format!("{} ", libc::SYS_openat);
        wait_for_thread(child.id(), &|state, syscall| state == "S" && syscall.starts_with(&call));
        // What is not over cannot be said to have failed.
        assert_eq!(session.counts(), FlawCounts::default());
        session.stop();
        assert_eq!(session.counts(), FlawCounts { unreadable: 1, ..FlawCounts::default() });
        drop(std::fs::File::options().write(true).open(&fifo).unwrap());
        wait_for_thread(child.id(), &|state, _| state == "T");
        session.start();
        // SAFETY: it is our child.
        assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGCONT) }, 0);
        assert!(child.wait().unwrap().success());
        session.stop();
        std::fs::remove_file(&fifo).unwrap();
        let_programs_end();
        let seen = read(&mut channel, &session.classes().stream_class());
        let path = fifo.to_str().unwrap();
        assert!(!seen.iter().filter_map(text_record).any(|(_, _, text)| text == path));
        let entries = seen.iter().filter(|(name, ..)| name == "syscall_entry_openat");
        let opened: Vec<String> = entries.map(|(_, _, payload)| text(&payload[4..])).collect();
        assert!(opened.iter().any(|path| is_address(path)), "{opened:?}");
        assert!(opened.iter().any(|path| path == "/"), "{opened:?}");
        assert_eq!(session.counts(), FlawCounts { unreadable: 1, ..FlawCounts::default() });
    }
}

#[test]
fn text_is_there_without_the_exit() {
    let Some((seen, _)) = record("open", LossMode::Discard, &["openat"], false) else { return };
    let found = around(&seen, FILE.to_str().unwrap(), 0);
    assert!(is_address(&text(&found[0].2[4..])));
    assert!(!seen.iter().any(|(name, ..)| name == "syscall_exit_openat"));
}

#[test]
fn text_is_there_if_a_filter_rejects_the_exit() {
    for mode in MODES {
        let filter = Some("name == \"syscall_entry_*\" || ret == 123456789");
        let Some((seen, counts)) = record_filtered("open", mode, &["openat"], true, filter) else {
            return;
        };
        let found = around(&seen, FILE.to_str().unwrap(), 0);
        assert!(is_address(&text(&found[0].2[4..])));
        assert!(!seen.iter().any(|(name, ..)| name == "syscall_exit_openat"));
        assert_eq!(counts, FlawCounts { unreadable: 1, ..FlawCounts::default() });
    }
}

#[test]
fn entry_is_recorded_only_if_all_parts_of_a_filter_hold() {
    // More than can be tested early.
    let all = (0..5).map(|at| format!("dfd != {at}")).collect::<Vec<_>>().join(" && ");
    for (filter, is_there) in [
        ("dfd == -100".to_owned(), true),
        ("dfd == -101".to_owned(), false),
        (format!("dfd == -100 && {all}"), true),
        (format!("dfd == -101 && {all}"), false),
        ("dfd in {-100, 7, 9, 11, 13}".to_owned(), true),
        ("dfd in {-99, 7, 9, 11, 13}".to_owned(), false),
        ("dfd == -100 && (dfd == 7 || comm == \"no such\")".to_owned(), false),
    ] {
        let recorded =
            record_filtered("long", LossMode::Discard, &["openat"], false, Some(&filter));
        let Some((seen, _)) = recorded else { return };
        let entries = seen.iter().filter(|(name, ..)| name == "syscall_entry_openat").count();
        assert_eq!(entries >= 4, is_there, "{filter}: {entries}");
        assert!(is_there || entries == 0, "{filter}: {entries}");
    }
}

#[test]
fn open_of_a_text_in_memory_is_as_it_was() {
    let Some((seen, counts)) = record("long", LossMode::Discard, &["openat"], true) else { return };
    let entries = seen.iter().filter(|(name, ..)| name == "syscall_entry_openat");
    let long = entries.map(|(_, _, payload)| text(&payload[4..])).filter(|path| path.len() > 1000);
    assert_eq!(long.map(|path| path.len()).collect::<Vec<_>>(), [1022, 1023, 1023, 1023]);
    assert_eq!(counts, FlawCounts { cut: 2, ..FlawCounts::default() });
}

#[test]
fn execution_has_its_texts_from_the_new_program() {
    let calls = ["execve", "execveat"];
    for mode in MODES {
        let Some((seen, counts)) = record("execute", mode, &calls, true) else { return };
        for (nth, (call, argument)) in [("execve", 0), ("execveat", 1)].into_iter().enumerate() {
            let number_of = syscalls::find(call).unwrap().number;
            let path = PROGRAM.to_str().unwrap();
            let found = around(&seen, path, nth);
            assert_eq!(found[0].0, format!("syscall_entry_{call}"));
            let payload = &found[0].2[usize::from(argument) * 4..];
            let address = text(payload);
            assert!(is_address(&address), "{address}");
            let argv = String::from_utf8_lossy(&payload[address.len() + 3..][..29]).into_owned();
            assert_eq!(argv.split(' ').filter(|text| is_address(text)).count(), 2, "{argv}");
            let text = text_record(&found[1]).unwrap();
            assert_eq!(text, (number_of, argument, path.to_owned()));
            let argv = text_record(&found[2]).unwrap();
            assert_eq!(argv, (number_of, argument + 1, "one two".to_owned()));
            // The kernel has it return as execve.
            assert_eq!(found[3].0, "syscall_exit_execve");
            assert_eq!(number(&found[3].2), 0);
        }
        // The call that fails, behind these two, may leave one.
        assert!(counts.unreadable <= 1, "{counts:?}");
        assert_eq!(counts, FlawCounts { unreadable: counts.unreadable, ..FlawCounts::default() });
    }
}

#[test]
fn execution_that_fails_has_its_texts_from_the_caller() {
    let Some((seen, counts)) = record("execute", LossMode::Discard, &["execve"], true) else {
        return;
    };
    let found = around(&seen, NO_PROGRAM.to_str().unwrap(), 0);
    assert_eq!(text_record(&found[1]).unwrap().1, 0);
    // The kernel looks for the program first: it may not have touched the arguments at all.
    let argv = text_record(&found[2]);
    if let Some(argv) = &argv {
        assert_eq!((argv.1, argv.2.as_str()), (1, "one two"));
    }
    let exit = &found[2 + usize::from(argv.is_some())];
    assert_eq!(exit.0, "syscall_exit_execve");
    assert_eq!(number(&exit.2), -i64::from(libc::ENOENT));
    let unreadable = u64::from(argv.is_none());
    assert_eq!(counts, FlawCounts { unreadable, ..FlawCounts::default() });
}

#[test]
fn unix_address_ends_at_its_nul() {
    let Some((seen, _)) = record("connect", LossMode::Discard, &["connect"], true) else { return };
    let entries = seen.iter().filter(|(name, ..)| name == "syscall_entry_connect");
    // fd, family, port, length, bytes.
    let addresses: Vec<&[u8]> =
        entries.map(|(_, _, payload)| &payload[9..][..usize::from(payload[8])]).collect();
    assert_eq!(addresses[0], b"/nowhere/socket");
    assert_eq!(addresses[1].len(), 108);
    assert_eq!(&addresses[1][..9], b"\0abstract");
    assert_eq!(addresses[2], [b'x'; 108]);
}

#[test]
fn numbers_that_the_kernel_changes_are_what_they_were() {
    let calls = ["rt_sigreturn", "unknown"];
    for mode in MODES {
        let Some((seen, _)) = record("numbers", mode, &calls, true) else { return };
        let count = |wanted: &str| seen.iter().filter(|(name, ..)| name == wanted).count();
        assert_eq!(count("syscall_entry_rt_sigreturn"), 1);
        assert_eq!(count("syscall_exit_rt_sigreturn"), 1);
        let of = |wanted: &str, at: usize| -> Vec<(u32, u32)> {
            let word = |payload: &[u8], at: usize| {
                u32::from_ne_bytes(payload[at..at + 4].try_into().unwrap())
            };
            let all = seen.iter().filter(|(name, ..)| name == wanted);
            all.map(|(_, _, payload)| (word(payload, at), word(payload, at + 4))).collect()
        };
        assert_eq!(of("syscall_entry_unknown", 0), [(u32::MAX, 0), (X32_GETPID, 2)]);
        assert_eq!(of("syscall_exit_unknown", 8), [(u32::MAX, 0), (X32_GETPID, 2)]);
    }
}
