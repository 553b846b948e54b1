//! Reads processes and threads from /proc. Threads that end while they are read are left out.

use super::process_files::{mappings, numbers, open_files, BuildIds, CodeMapping, OpenFile};
use super::{ProcessState, ThreadStatus, WaitingCall, NAME_BYTES};
use crate::decide::filter::cgroup_id;
use crate::discover::syscalls::table;
use crate::read::pod_name::pod_of;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// The most threads that are read. A packet could hold more, but reading them takes long.
const THREADS_MAX: usize = 65_536;

/// `PF_KTHREAD` of the kernel's `linux/sched.h`, in the flags of /proc/PID/stat.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The parsed file /proc/PID/task/TID/stat.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) tid: i32,
    pub(super) name: [u8; NAME_BYTES],
    pub(super) status: ThreadStatus,
    pub(super) letter: u8,
    pub(super) ppid: i32,
    pub(super) is_kernel: bool,
    pub(super) start_ticks: u64,
    pub(super) cpu: u32,
}

/// The PID namespace of a process, and its number there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Namespace {
    inum: u32,
    level: i32,
    pub(super) vpid: i32,
}

/// The state of one process in /proc: its threads, its namespaces, its open files and mapped code.
#[derive(Clone, Debug, Default)]
pub struct DumpedProcess {
    pub(super) pid: i32,
    pub(super) namespace: Namespace,
    pub(super) threads: Vec<ProcessState>,
    /// Open files; empty if they were not requested.
    pub(super) files: Vec<OpenFile>,
    pub(super) maps: Vec<CodeMapping>,
    pub(super) group: Vec<u8>,
    /// Id of the control group, as in the context `cgroup_id`; 0 if the group cannot be seen from here.
    pub(super) group_id: u64,
    /// `NAMESPACE/NAME` of the Kubernetes pod to which the control group belongs; empty if it belongs to none, or the
    /// name is not found.
    pub(super) pod: String,
}

/// Returns the time since the boot, including suspend, in the clock ticks that /proc uses for the start times of
/// threads.
#[must_use]
pub fn ticks_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanoseconds) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    let per_second = rustix::param::clock_ticks_per_second();
    seconds * per_second + nanoseconds * per_second / 1_000_000_000
}

/// Returns the numbers of the processes in `root`/proc, sorted.
pub fn numbers_of_processes(root: &Path) -> Vec<u32> {
    let mut pids: Vec<u32> =
        numbers(&root.join("proc")).into_iter().filter_map(|pid| pid.try_into().ok()).collect();
    pids.sort_unstable();
    pids
}

/// Reads the state of a process; with `ids` also its open files and mapped code. Reading may block while the process is
/// in execve().
pub fn process(root: &Path, pid: u32, ids: Option<&BuildIds>) -> Option<DumpedProcess> {
    let proc = root.join("proc");
    let pid = i32::try_from(pid).ok()?;
    let folder = proc.join(pid.to_string());
    let namespace = namespace(&folder, pid, namespace_of(&proc.join("self")));
    let mut tids = numbers(&folder.join("task"));
    tids.sort_unstable();
    let mut threads = Vec::new();
    for tid in tids {
        let folder = folder.join("task").join(tid.to_string());
        let stat = fs::read(folder.join("stat")).ok().and_then(|text| parse(&text));
        let Some(stat) = stat else { continue };
        let vtid = match namespace.level {
            0 => tid,
            _ => numbers_inside(&folder, "NSpid:").last().copied().unwrap_or(0),
        };
        let mut state = state(&stat, pid, vtid, namespace);
        if matches!(stat.letter, b'S' | b'D') && !stat.is_kernel {
            let text = fs::read_to_string(folder.join("syscall")).unwrap_or_default();
            state.call = waiting_call(&text).unwrap_or_default();
        }
        threads.push(state);
    }
    let (mut files, mut maps, mut group) = (Vec::new(), Vec::new(), Vec::new());
    let (mut group_id, mut pod) = (0, String::new());
    if let Some(ids) = ids {
        (files, maps) = (open_files(&folder), mappings(&folder, ids));
        // Of version 2; there is at most one.
        let groups = fs::read(folder.join("cgroup")).unwrap_or_default();
        let path = groups.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"0::"));
        group = path.unwrap_or_default().to_vec();
        group_id = cgroup_id(&group, String::new).unwrap_or(0);
        pod = pod_of(root, &group);
    }
    Some(DumpedProcess { pid, namespace, threads, files, maps, group, group_id, pod })
}

impl DumpedProcess {
    /// Returns the process's number, and the code that it had mapped.
    #[must_use]
    pub fn code(&self) -> (i32, &[CodeMapping]) {
        (self.pid, &self.maps)
    }

    /// Removes the states of threads that began at `ticks` (as [`ticks_since_boot`] counts) or later. /proc was read
    /// after the time that the dump's records have, and recorded events may have changed these states meanwhile.
    pub fn forget_states_since(&mut self, ticks: u64) {
        for thread in self.threads.iter_mut().filter(|thread| thread.start_ticks >= ticks) {
            (thread.status, thread.letter) = (ThreadStatus::Unnamed, b'?');
            thread.call = WaitingCall::default();
        }
    }

    /// Keeps only the mapped code for which `is_said` returns true, and removes the rest.
    pub fn retain_code(&mut self, is_said: &dyn Fn(&CodeMapping) -> bool) {
        self.maps.retain(is_said);
    }

    #[cfg(test)]
    pub(crate) fn with_code(pid: i32, maps: Vec<CodeMapping>) -> DumpedProcess {
        DumpedProcess { pid, maps, ..DumpedProcess::default() }
    }

    /// Converts all process ids to those of the kernel's events. `None` if the process has ended.
    #[must_use]
    pub fn renumbered(
        mut self,
        level: u32,
        number: &dyn Fn(u32) -> Option<u32>,
    ) -> Option<DumpedProcess> {
        let number = |here: i32| i32::try_from(number(u32::try_from(here).ok()?)?).ok();
        self.pid = number(self.pid)?;
        for mut thread in std::mem::take(&mut self.threads) {
            let Some(tid) = number(thread.tid) else { continue };
            (thread.tid, thread.pid) = (tid, self.pid);
            // The parent of a namespace's first process is outside of it: nobody here knows of it.
            thread.ppid = number(thread.ppid).unwrap_or(0);
            thread.ns_level += i32::try_from(level).unwrap_or(0);
            self.threads.push(thread);
        }
        Some(self)
    }
}

/// Returns the states of all threads of these processes, in this order; at most 65,536.
pub fn states(processes: &[DumpedProcess]) -> Vec<ProcessState> {
    let namespaces: HashMap<i32, Namespace> =
        processes.iter().map(|process| (process.pid, process.namespace)).collect();
    let threads = processes.iter().flat_map(|process| &process.threads);
    let mut all: Vec<ProcessState> = threads.take(THREADS_MAX).cloned().collect();
    for state in &mut all {
        state.vppid = match namespaces.get(&state.ppid) {
            Some(parent) if parent.inum == state.ns_inum => parent.vpid,
            _ => 0,
        };
    }
    all
}

fn state(stat: &Stat, pid: i32, vtid: i32, namespace: Namespace) -> ProcessState {
    ProcessState {
        tid: stat.tid,
        vtid,
        pid,
        vpid: namespace.vpid,
        ppid: stat.ppid,
        vppid: 0,
        name: stat.name,
        is_kernel: stat.is_kernel,
        status: stat.status,
        letter: stat.letter,
        call: WaitingCall::default(),
        ns_level: namespace.level,
        ns_inum: namespace.inum,
        start_ticks: stat.start_ticks,
        cpu: stat.cpu,
    }
}

/// Reads a process' PID namespace. `here` is the namespace of most processes, for which fewer files need to be read.
fn namespace(folder: &Path, pid: i32, here: u32) -> Namespace {
    let inum = namespace_of(folder);
    if inum == here || inum == 0 {
        return Namespace { inum, level: 0, vpid: pid };
    }
    let inside = numbers_inside(folder, "NSpid:");
    let level = i32::try_from(inside.len().saturating_sub(1)).unwrap_or(0);
    Namespace { inum, level, vpid: inside.last().copied().unwrap_or(pid) }
}

/// Returns the number of the PID namespace of the process with this folder, which is in the link `pid:[4026531836]`; 0
/// if this process may not know it.
pub(crate) fn namespace_of(folder: &Path) -> u32 {
    let link = fs::read_link(folder.join("ns/pid")).ok();
    let number = link
        .as_deref()
        .and_then(Path::to_str)
        .and_then(|text| text.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok());
    number.unwrap_or(0)
}

/// Returns the numbers in the line `label` of the process's file `status`.
fn numbers_inside(folder: &Path, label: &str) -> Vec<i32> {
    // The name in it may be no text.
    let text = fs::read(folder.join("status")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find_map(|line| line.strip_prefix(label)).unwrap_or_default();
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Parses `TID (NAME) STATE PPID ...`. The name may contain spaces and brackets.
pub(super) fn parse(text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let tid = std::str::from_utf8(&text[..open]).ok()?.trim().parse().ok()?;
    let name = text.get(open + 1..close)?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    // Numbers of the manual's table, proc(5), minus 3.
    let flags: u64 = words.get(6)?.parse().ok()?;
    let is_kernel = flags & KERNEL_THREAD != 0;
    Some(Stat {
        tid,
        name: short(name, is_kernel),
        status: status(words.first()?),
        letter: words.first()?.bytes().next()?,
        ppid: words.get(1)?.parse().ok()?,
        is_kernel,
        start_ticks: words.get(19)?.parse().ok()?,
        cpu: words.get(36)?.parse().ok()?,
    })
}

/// Parses `NUMBER ARGUMENT... SP PC` of /proc/PID/task/TID/syscall: the call in which the thread sleeps. 32-bit
/// programs have other numbers, and only the address of the stack shows that a program is one.
pub(super) fn waiting_call(text: &str) -> Option<WaitingCall> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number: u64 = words.first()?.parse().ok()?;
    let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let stack = words.len().checked_sub(2).and_then(|at| hex(words.get(at)?))?;
    if u32::try_from(stack).is_ok() {
        return None;
    }
    let call = table().iter().find(|call| u64::from(call.number) == number)?;
    let first = call.args.first().map_or("", |argument| argument.name);
    let value = words.get(1).and_then(|word| hex(word)).filter(|_| words.len() > 3);
    let mut waiting = WaitingCall { name: call.name, ..WaitingCall::default() };
    match (first, value) {
        ("uaddr", Some(value)) => waiting.address = value,
        ("fd" | "fildes" | "epfd" | "ufd" | "mqdes" | "fd_in", Some(value)) => {
            // Registers have more bits than an int.
            waiting.descriptor = Some(value as u32 as i32).filter(|&number| number >= 0);
        }
        _ => {}
    }
    Some(waiting)
}

fn status(letter: &str) -> ThreadStatus {
    match letter {
        "R" => ThreadStatus::WaitCpu,
        "S" | "D" | "I" => ThreadStatus::Wait,
        "Z" => ThreadStatus::Zombie,
        "X" => ThreadStatus::Dead,
        _ => ThreadStatus::Unnamed,
    }
}

/// Shortens a name to the form that it has in events of the scheduler: /proc appends a worker's present work to its
/// name, as in "kworker/0:1-events".
fn short(name: &[u8], is_kernel: bool) -> [u8; NAME_BYTES] {
    let mut end = name.len().min(NAME_BYTES - 1);
    let colon = name.iter().position(|byte| *byte == b':');
    if let (true, true, Some(colon)) = (is_kernel, name.starts_with(b"kworker/"), colon) {
        let added = name[colon..].iter().position(|byte| matches!(byte, b'-' | b'+'));
        end = end.min(added.map_or(end, |at| colon + at));
    }
    let mut out = [0; NAME_BYTES];
    out[..end].copy_from_slice(&name[..end]);
    out
}
