//! Maps virtual CPUs of a guest to threads of the host: by QEMU's answers (QMP), by the names of the hypervisor's
//! threads, or by KVM.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::kvm;

/// The most virtual CPUs of a guest whose threads are looked for.
const CPUS_MAX: usize = 1024;
/// The most threads of a hypervisor that are examined.
const THREADS_MAX: usize = 1 << 16;
/// The time limit for all answers of QEMU's control socket (QMP) together.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest line of QMP \[byte\].
const LINE_BYTES_MAX: u64 = 1 << 20;
/// The most lines before an answer, which are reports of events.
const LINES_MAX: usize = 100;

/// Virtual CPUs by their number, each with the id of its thread.
pub(crate) type Cpus = Vec<(u32, u32)>;

/// Asks QEMU at its QMP socket for the threads of its virtual CPUs.
///
/// # Errors
/// The error of the system, or that the socket does not speak QMP.
pub(crate) fn by_qmp(path: &Path) -> io::Result<Cpus> {
    ask(path, PATIENCE)
}

fn ask(path: &Path, patience: Duration) -> io::Result<Cpus> {
    let socket = UnixStream::from(strata_relay::connect(path)?);
    socket.set_nonblocking(false)?;
    socket.set_write_timeout(Some(patience))?;
    let until = Instant::now() + patience;
    let mut from = BufReader::new(Impatient { socket: socket.try_clone()?, until });
    let mut to = socket;
    let greeting = line(&mut from)?;
    if greeting.get("QMP").is_none() {
        return Err(io::Error::other("it does not speak QMP"));
    }
    for command in ["qmp_capabilities", "query-cpus-fast"] {
        to.write_all(format!("{{\"execute\":\"{command}\"}}\r\n").as_bytes())?;
        let answer = answer(&mut from)?;
        if command == "query-cpus-fast" {
            return Ok(cpus_of(&answer));
        }
    }
    Ok(Vec::new())
}

/// A socket whose reads end at a fixed time, however slowly bytes arrive.
struct Impatient {
    socket: UnixStream,
    until: Instant,
}

impl Read for Impatient {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let late = || io::Error::other("QMP says nothing: another program may be using it");
        let rest = self.until.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Err(late());
        }
        self.socket.set_read_timeout(Some(rest))?;
        self.socket.read(to).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => late(),
            _ => error,
        })
    }
}

fn line(from: &mut impl BufRead) -> io::Result<Value> {
    let mut text = String::new();
    from.by_ref().take(LINE_BYTES_MAX).read_line(&mut text)?;
    serde_json::from_str(&text).map_err(|_| io::Error::other("it does not speak QMP"))
}

/// Returns the next answer, skipping events.
fn answer(from: &mut impl BufRead) -> io::Result<Value> {
    for _ in 0..LINES_MAX {
        let said = line(from)?;
        if let Some(answer) = said.get("return") {
            return Ok(answer.clone());
        }
        if said.get("error").is_some() {
            return Err(io::Error::other("QMP refuses: another program may be using it"));
        }
    }
    Err(io::Error::other("QMP does not answer"))
}

fn cpus_of(answer: &Value) -> Cpus {
    let number = |one: &Value, name: &str| {
        one.get(name).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok())
    };
    let all = answer.as_array().map(Vec::as_slice).unwrap_or_default();
    let cpus =
        all.iter().filter_map(|one| Some((number(one, "cpu-index")?, number(one, "thread-id")?)));
    cpus.take(CPUS_MAX).collect()
}

/// Returns the virtual CPUs that the names of a process's threads show: `CPU 3/KVM`, `CPU 3/TCG`. The result is
/// empty if one thread runs all CPUs. QEMU names its threads with `-name NAME,debug-threads=on`.
pub(crate) fn by_names(pid: u32) -> Cpus {
    let of_cpus = threads(pid).filter_map(|(tid, name)| Some((cpu_of(&name)?, tid)));
    let mut found: Cpus = of_cpus.take(CPUS_MAX).collect();
    found.sort_unstable();
    found
}

/// Returns whether the names of the process's threads mention virtual CPUs, even if one thread runs all of them (`ALL
/// CPUs/TCG`).
pub(crate) fn has_names(pid: u32) -> bool {
    threads(pid).any(|(_, name)| cpu_of(&name).is_some() || name.starts_with("ALL CPUs/"))
}

/// Lists the ids and names of a process's threads.
fn threads(pid: u32) -> impl Iterator<Item = (u32, String)> {
    let thread = |task: fs::DirEntry| {
        let tid = task.file_name().to_str()?.parse().ok()?;
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        Some((tid, name.trim_end().to_owned()))
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.take(THREADS_MAX).filter_map(thread)
}

/// Returns the virtual CPUs and threads of the process from KVM's files, on kernels that list the threads there.
/// Needs neither thread names nor an answer of the hypervisor.
pub(crate) fn by_kvm(pid: u32) -> Cpus {
    in_debugfs(Path::new(kvm::DEBUGFS), pid).unwrap_or_default()
}

/// Reads the virtual CPUs from KVM's folder in debugfs; `None` if the thread of any CPU is missing.
fn in_debugfs(debugfs: &Path, pid: u32) -> Option<Cpus> {
    let mut found = Vec::new();
    for (number, cpu) in kvm::virtual_cpus(&kvm::machine(debugfs, pid)?) {
        let tid = u32::try_from(kvm::number(&cpu, "pid")?).ok()?;
        // KVM has the kernel's thread ids, which differ within a PID namespace.
        if !Path::new(&format!("/proc/{pid}/task/{tid}")).exists() {
            return None;
        }
        found.push((number, tid));
    }
    // KVM's numbers are those of interrupt controllers, which may have gaps. The guest's kernel numbers its CPUs in the
    // same order.
    found.sort_unstable();
    let counted = (0..).zip(found).map(|(at, (_, tid))| (at, tid));
    Some(counted.take(CPUS_MAX).collect())
}

fn cpu_of(name: &str) -> Option<u32> {
    let (number, kind) = name.strip_prefix("CPU ")?.split_once('/')?;
    (!kind.is_empty()).then(|| number.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn threads_of_virtual_cpus_are_known_by_their_names() {
        assert_eq!((cpu_of("CPU 3/KVM"), cpu_of("CPU 12/TCG")), (Some(3), Some(12)));
        for other in ["ALL CPUs/TCG", "CPU x/KVM", "CPU 3/", "CPU 3", "worker", "CPU -1/KVM"] {
            assert_eq!(cpu_of(other), None, "{other}");
        }
        assert_eq!(by_names(u32::MAX), []);
    }

    #[test]
    fn threads_of_virtual_cpus_are_what_kvm_says_if_it_says_it_of_all() {
        let scratch = crate::scratch_tests::Scratch::new("kvm");
        let pid = std::process::id();
        let cpu = |number: u32, pid_file: &str| {
            let folder = scratch.0.join(format!("{pid}-11/vcpu{number}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("pid"), pid_file).unwrap();
        };
        assert_eq!(in_debugfs(&scratch.0, pid), None);
        // The second core of the second socket: the number between is nobody's.
        cpu(5, &format!("{pid}\n"));
        cpu(0, &format!("{pid}\n"));
        assert_eq!(in_debugfs(&scratch.0, pid), Some(vec![(0, pid), (1, pid)]));
        // It has never run; what it says is no thread of this process; a kernel that does not say it.
        for odd in ["0\n", "1\n", "-7\n", "x", ""] {
            cpu(2, odd);
            assert_eq!(in_debugfs(&scratch.0, pid), None, "{odd:?}");
        }
        fs::remove_file(scratch.0.join(format!("{pid}-11/vcpu2/pid"))).unwrap();
        assert_eq!(in_debugfs(&scratch.0, pid), None);
    }

    /// Runs a QMP socket that sends these lines. Returns the result of a question to it.
    fn qmp(test: &str, patience: Duration, lines: &'static [&'static str]) -> io::Result<Cpus> {
        let path = std::env::temp_dir().join(format!("strata-qmp-{test}-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let peer = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            for said in lines {
                // Who has heard enough goes.
                let _ = socket.write_all(said.as_bytes());
            }
            // Until the other end is closed: closed before, it would break what is still being said here.
            while socket.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {}
        });
        let found = ask(&path, patience);
        peer.join().unwrap();
        fs::remove_file(&path).unwrap();
        found
    }

    #[test]
    fn threads_of_virtual_cpus_are_what_qmp_says() {
        let found = qmp(
            "good",
            Duration::from_secs(60),
            &[
                "{\"QMP\":{\"version\":{}}}\r\n",
                "{\"return\":{}}\r\n{\"event\":\"RESUME\"}\r\n",
                "{\"return\":[{\"cpu-index\":0,\"thread-id\":77},{\"cpu-index\":1,\"thread-id\":78}]}\r\n",
            ],
        );
        assert_eq!(found.unwrap(), [(0, 77), (1, 78)]);
    }

    #[test]
    fn qmp_that_says_nothing_may_be_in_use() {
        for lines in [&[][..], &["{\"QMP\":{}}\n"]] {
            let found = qmp("silent", Duration::from_millis(20), lines).unwrap_err().to_string();
            assert!(found.contains("another program may be using it"), "{found}");
        }
    }

    #[test]
    fn malicious_qmp_is_no_qmp() {
        for lines in [
            &["hello\n"][..],
            &["{\"QMP\":{}}\n{\"error\":{}}\n"],
            &["{\"QMP\":{}}\n{\"return\":{}}\n{\"return\":"],
        ] {
            assert!(qmp("bad", PATIENCE, lines).is_err(), "{lines:?}");
        }
        let odd = "[{\"cpu-index\":-1,\"thread-id\":7},{\"cpu-index\":1},7,{\"cpu-index\":1,\"thread-id\":5e99}]";
        assert_eq!(cpus_of(&serde_json::from_str(odd).unwrap()), []);
    }
}
