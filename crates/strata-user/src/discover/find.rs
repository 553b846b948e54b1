//! Processes that can be traced, found in `/proc`.

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufRead};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::process::geteuid;
use strata_abi::user;

use crate::attach::application::{is_own, Application};
use crate::discover::announcement::Sender;
use crate::discover::lttng::{lttng_of_process, Lttng};
use crate::discover::memory_link::{target, LinkTarget};
use crate::error::{Denial, Error};
use crate::processes::blocking_queries::{
    ask_all, ask_each_for, Answers, Door, DISK_PATIENCE, PATIENCE,
};
use crate::processes::identity::{shown, Identity};
use crate::processes::memory_map::Maps;
use crate::processes::process::{failed, refused, Process, Status};

/// Selection of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// All processes of the machine.
    Everyone,
    /// Processes with this real, effective or saved user.
    User(u32),
    /// Processes with these ids.
    Processes(Vec<u32>),
}

/// A process that has published the reason why it cannot be traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedProcess {
    pub pid: u32,
    pub name: String,
    /// Reason that the process gave.
    pub reason: String,
}

/// Result of a search.
#[derive(Debug, Default)]
pub struct Findings {
    /// Processes that can be traced, in order of their process ids.
    pub applications: Vec<Application>,
    /// Processes that have refused to be traced.
    pub refused: Vec<RefusedProcess>,
    /// Processes that could not be looked into, or whose memory was refused.
    pub errors: Vec<Error>,
    /// Processes in `refused` or `errors` that were started with the requested session.
    pub of_session: HashSet<u32>,
    /// Processes that were examined completely, so that `applications` has all their memory that can be traced.
    pub looked: HashSet<u32>,
    /// Time spent waiting for processes about which the kernel did not answer.
    pub waited: Duration,
}

/// Looks for processes that can be traced. Skips this process, and others that run this program unless they are named
/// by id.
///
/// A process that ends during the search is reported only if it is named by id.
///
/// # Errors
/// [`Error::Proc`]: the list of processes cannot be read.
pub fn find(who: &Who) -> Result<Findings, Error> {
    find_of_session(who, None, &mut |_, _| ControlFlow::Continue(()))
}

/// Finds processes as [`find()`] does, and fills [`Findings::of_session`] for the session of generation `session`.
/// Calls `each` every few milliseconds with the number of processes examined and of all; when `each` breaks, returns
/// what was found by then.
///
/// # Errors
/// As [`find()`].
pub fn find_of_session(
    who: &Who,
    session: Option<u64>,
    each: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<Findings, Error> {
    let questions: Vec<(u32, u32)> = pids(who)?.into_iter().map(|pid| (pid, pid)).collect();
    let total = questions.len();
    let (who, by_number) = (who.clone(), matches!(who, Who::Processes(_)));
    let look = move |pid, door: &Door<'_>| {
        let mut findings = Findings::default();
        look_for(pid, &who, door, &mut findings)?;
        let in_vain = !(findings.errors.is_empty() && findings.refused.is_empty());
        if in_vain && session.is_some_and(|session| was_started_with(pid, session)) {
            findings.of_session.insert(pid);
        }
        Ok(findings)
    };
    let patience = match by_number {
        true => DISK_PATIENCE,
        false => PATIENCE,
    };
    let answers = ask_all(questions, patience, look, &mut |looked| each(looked, total));
    let mut findings = gathered(answers);
    tell_lttng(&mut findings.errors);
    Ok(findings)
}

/// Looks into the process that has sent a message, as [`find()`] does by number; what is found is the sender's, and
/// nothing is if another process has its number by now. Calls `each` every few milliseconds. Waits for a process of
/// another user only as long as a search of all processes does, since the user of this program did not choose it.
pub fn find_of_sender(sender: &Sender, each: &mut dyn FnMut()) -> Findings {
    let (pid, sender) = (sender.pid(), sender.clone());
    let look = move |(), door: &Door<'_>| {
        let mut findings = Findings::default();
        look_for(pid, &Who::Processes(vec![pid]), door, &mut findings)?;
        // The sender had its number all the while, or what was found may be another's.
        match sender.process()?.has_its_number() {
            true => Ok(findings),
            false => Err(Error::Gone { pid }),
        }
    };
    gathered(ask_all(vec![(pid, ())], PATIENCE, look, &mut |_| {
        each();
        ControlFlow::Continue(())
    }))
}

/// Returns what was found in all processes together.
fn gathered(answers: Answers<Findings>) -> Findings {
    let mut findings = Findings { waited: answers.waited, ..Findings::default() };
    let mut inodes = HashSet::new();
    for found in answers.all {
        match found {
            Ok(mut found) => {
                found.applications.retain(|app| inodes.insert(app.inode()));
                findings.applications.append(&mut found.applications);
                findings.refused.append(&mut found.refused);
                findings.errors.append(&mut found.errors);
                findings.of_session.extend(found.of_session);
                findings.looked.extend(found.looked);
            }
            Err(error) => findings.errors.push(error),
        }
    }
    findings
}

/// Adds to the errors about uninstrumented processes whether they are instrumented for LTTng.
fn tell_lttng(errors: &mut [Error]) {
    let plain = |error: &Error| match error {
        Error::NotInstrumented { pid, .. } => Some(*pid),
        _ => None,
    };
    let found = lttng_of_processes(&errors.iter().filter_map(plain).collect::<Vec<u32>>());
    for error in errors {
        let Error::NotInstrumented { pid, lttng, .. } = error else { continue };
        let of_it = found.iter().find(|(of, _)| of == pid);
        *lttng = of_it.map(|(_, lttng)| lttng.clone());
    }
}

/// Returns the processes that have LTTng's library in their mappings, with the files of theirs that need it.
#[must_use]
pub fn lttng_of_processes(pids: &[u32]) -> Vec<(u32, Lttng)> {
    ask_each_for(DISK_PATIENCE, pids, lttng_of_process)
}

/// Examines one process, and adds the result to `findings`.
///
/// # Errors
/// Those of the [`Door`].
fn look_for(pid: u32, who: &Who, door: &Door<'_>, findings: &mut Findings) -> Result<(), Error> {
    let name = |status: &Status| shown(&status.name);
    let by_number = matches!(who, Who::Processes(_));
    // Held first: what is read by number from here on is about this process, if it still has the number at the end.
    let process = match Process::hold(pid) {
        Ok(process) => process,
        Err(error) => {
            findings.errors.push(error);
            return Ok(());
        }
    };
    let status = match Status::read(pid) {
        Ok(Some(status)) => status,
        Ok(None) => {
            if by_number {
                findings.errors.push(Error::Gone { pid });
            }
            return Ok(());
        }
        Err(source) => {
            findings.errors.push(failed(pid, "looking at it", source));
            return Ok(());
        }
    };
    if matches!(who, Who::User(uid) if !status.uids.contains(uid)) {
        return Ok(());
    }
    door.enter(status.uids[0])?;
    if !by_number && runs_this_program(pid) {
        return Ok(());
    }
    let looked = look(&process, &status, findings);
    let looked = match process.has_its_number() {
        true => looked,
        false => Err(Error::Gone { pid }),
    };
    if looked.is_ok() {
        findings.looked.insert(pid);
    }
    match looked {
        Err(error) if error.is_gone() && !by_number => (),
        Err(error) => findings.errors.push(error),
        Ok(Some(reason)) => {
            let name = name(&status);
            if by_number {
                findings.errors.push(Error::Refused { pid, name, reason });
            } else {
                findings.refused.push(RefusedProcess { pid, name, reason });
            }
        }
        Ok(None) if by_number && findings.applications.is_empty() => {
            let name = name(&status);
            findings.errors.push(Error::NotInstrumented { pid, name, lttng: None });
        }
        Ok(None) => (),
    }
    Ok(())
}

/// Returns true if the process is another recorder. Each recorder holds the memory of all processes that it records, so
/// 50 recorders that search each other's descriptors would take all CPU time.
fn runs_this_program(pid: u32) -> bool {
    // The name first, so that no file is opened that another user could make wait.
    let link = |pid: &str| fs::read_link(format!("/proc/{pid}/exe"));
    let file = |pid: &str| {
        let path = format!("/proc/{pid}/exe");
        let flags = StatxFlags::INO;
        let file = rustix::fs::statx(rustix::fs::CWD, path, AtFlags::STATX_DONT_SYNC, flags)?;
        Ok::<_, rustix::io::Errno>((file.stx_dev_major, file.stx_dev_minor, file.stx_ino))
    };
    let pid = pid.to_string();
    match (link(&pid), link("self")) {
        (Ok(theirs), Ok(ours)) if theirs == ours => {
            matches!((file(&pid), file("self")), (Ok(theirs), Ok(ours)) if theirs == ours)
        }
        _ => false,
    }
}

/// Returns true if the process was started with the session of generation `session` in its environment.
fn was_started_with(pid: u32, session: u64) -> bool {
    let wanted = format!("generation={session};");
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
        environment.split(|&byte| byte == 0).any(|entry| {
            entry.starts_with(user::ENVIRONMENT.as_bytes())
                && entry.windows(wanted.len()).any(|part| part == wanted.as_bytes())
        })
    })
}

/// Returns the ids of the processes to examine, without this process. For a user, returns all processes: the kernel
/// decides later which may be read.
///
/// # Errors
/// As [`find()`].
pub fn pids(who: &Who) -> Result<Vec<u32>, Error> {
    if let Who::Processes(pids) = who {
        return Ok(pids.clone());
    }
    let ourselves = std::process::id();
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc").map_err(|source| Error::Proc { source })? {
        let entry = entry.map_err(|source| Error::Proc { source })?;
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        pids.extend(pid.filter(|pid| *pid != ourselves));
    }
    pids.sort_unstable();
    Ok(pids)
}

/// Searches a process' descriptors and mappings for its memory. Returns the reason that the process gives if it refuses
/// to be traced.
fn look(
    process: &Process,
    status: &Status,
    findings: &mut Findings,
) -> Result<Option<String>, Error> {
    let pid = process.pid;
    let mut reason = None;
    let mut owns_one = false;
    let mut has_memory = false;
    let descriptors = descriptors(pid)?;
    for (path, found) in descriptors {
        match found {
            LinkTarget::Refused(text) => reason = Some(text),
            LinkTarget::Memory => {
                has_memory = true;
                owns_one |= take(process, status, &path, findings)?;
            }
        }
    }
    // A descriptor of another process' memory proves nothing; the process may have closed its own.
    if !owns_one && !status.is_zombie {
        for path in mappings(pid)? {
            owns_one |= take(process, status, &path, findings).map_err(|error| match error {
                Error::Denied { pid, .. } if geteuid().as_raw() != 0 && !has_memory => {
                    Error::Denied { pid, what: "opening its shared memory", denial: Denial::Closed }
                }
                other => other,
            })?;
        }
    }
    Ok(reason.filter(|_| !owns_one))
}

/// Opens the memory at `path`. Returns true if it is the process' own, which is then added to `findings`.
fn take(
    process: &Process,
    status: &Status,
    path: &Path,
    findings: &mut Findings,
) -> Result<bool, Error> {
    let pid = process.pid;
    // Opened as a name only: what the file is, and whether it may be touched, is checked first.
    let fd: OwnedFd = match rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::NOENT) => return Ok(false),
        Err(code) => return Err(refused(pid, "opening its shared memory", code.into())),
    };
    let identity = Identity::of(process, status);
    let app = match Application::of_process(fd.as_fd(), process.clone(), identity) {
        Ok(app) => app,
        // The file only has the name of a memfd.
        Err(Error::NotMemory { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    // Before the check for its end: a process that has inherited its memory is younger than the memory says, and counts
    // as ended.
    if app.inner_pid() != status.inner_pid || !is_own(app.memory().owner.uid, status) {
        return Ok(false);
    }
    if !app.is_alive() {
        return Err(Error::Gone { pid });
    }
    if findings.applications.iter().all(|known| known.inode() != app.inode()) {
        findings.applications.push(app);
    }
    Ok(true)
}

/// Returns the process' descriptors whose names show that they may be Strata's.
fn descriptors(pid: u32) -> Result<Vec<(PathBuf, LinkTarget)>, Error> {
    let folder = PathBuf::from(format!("/proc/{pid}/fd"));
    let error = |source: io::Error| refused(pid, "looking at its descriptors", source);
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).map_err(error)? {
        let path = match entry {
            Ok(entry) => entry.path(),
            Err(source) => return Err(error(source)),
        };
        // The descriptor has been closed.
        let Ok(link) = fs::read_link(&path) else { continue };
        if let Some(target) = target(link.as_os_str().as_bytes()) {
            found.push((path, target));
        }
    }
    Ok(found)
}

/// Returns the paths of the process' mappings of Strata's memory, for a process that has closed the descriptor.
fn mappings(pid: u32) -> Result<Vec<PathBuf>, Error> {
    let maps = match fs::File::open(format!("/proc/{pid}/maps")) {
        Ok(maps) => maps,
        Err(source) => match refused(pid, "looking at its mappings", source) {
            // Its descriptors were readable, so it is a kernel thread or just ending.
            Error::Denied { .. } | Error::System { .. } => return Ok(Vec::new()),
            error => return Err(error),
        },
    };
    let folder = PathBuf::from(format!("/proc/{pid}/map_files"));
    // A process that ends while it is read has no mappings.
    Ok(mapped_names(Maps::of(maps), &folder).unwrap_or_default())
}

/// Returns the names in `map_files` of the mappings of Strata's memory, one for each memory file.
fn mapped_names(mut maps: Maps<impl BufRead>, folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut inodes = HashSet::new();
    let mut names = Vec::new();
    while let Some(mapping) = maps.next()? {
        if target(mapping.name) == Some(LinkTarget::Memory) && inodes.insert(mapping.inode) {
            names.push(folder.join(format!("{:x}-{:x}", mapping.begin, mapping.end)));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run_alone, Fake};
    use std::mem::offset_of;
    use std::process::Command;

    /// Retries the search, since a thread without CPU for a second looks like a process that does not answer.
    fn answered(pid: u32) -> Findings {
        let is_held = |error: &Error| matches!(error, Error::Held { .. } | Error::UserHeld { .. });
        let mut all = (0..20).map(|_| found(&Who::Processes(vec![pid])));
        all.find(|all| !all.errors.iter().any(is_held)).expect("an answer")
    }

    fn found(who: &Who) -> Findings {
        find(who).unwrap()
    }

    fn pids_of(findings: &Findings) -> Vec<u32> {
        findings.applications.iter().map(Application::pid).collect()
    }

    #[test]
    fn find_gives_the_owner_and_not_others_who_hold_its_memory() {
        let parent = Fake::spawned();
        // A child that has inherited its parent's descriptor.
        let mut child = Command::new("sleep");
        child.arg("1000");
        let fd = parent.fd.try_clone().unwrap();
        // SAFETY: one system call.
        unsafe {
            use std::os::unix::process::CommandExt;
            child.pre_exec(move || Ok(rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::empty())?));
        }
        let mut child = child.spawn().unwrap();
        let all = found(&Who::Everyone);
        let count = |pid| pids_of(&all).iter().filter(|found| **found == pid).count();
        assert_eq!((count(parent.pid), count(child.id())), (1, 0));
        // That it has no memory of its own is known as well.
        assert!(all.looked.contains(&parent.pid) && all.looked.contains(&child.id()));
        assert_eq!(count(std::process::id()), 0);
        let uid = geteuid().as_raw();
        assert!(pids_of(&found(&Who::User(uid))).contains(&parent.pid));
        assert!(!pids_of(&found(&Who::User(uid ^ 0x5555))).contains(&parent.pid));
        let none = found(&Who::Processes(vec![child.id()]));
        assert!(
            matches!(none.errors[..], [Error::NotInstrumented { pid, .. }] if pid == child.id())
        );
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn find_passes_by_who_runs_this_program_unless_asked_for_by_number() {
        let fake = Fake::forked_seen();
        assert!(!pids_of(&found(&Who::Everyone)).contains(&fake.pid));
        let all = answered(fake.pid);
        assert_eq!(pids_of(&all), [fake.pid], "{:?}", all.errors);
    }

    #[test]
    fn find_passes_by_inherited_memory_that_is_older_than_its_heir() {
        let parents = Fake::named(user::MEMFD);
        parents.put(offset_of!(user::Control, started_ns), &1u64.to_ne_bytes());
        let heir = Fake::forked_seen();
        let all = answered(heir.pid);
        assert!(all.errors.is_empty(), "{:?}", all.errors);
        assert_eq!(pids_of(&all), [heir.pid]);
    }

    #[test]
    fn find_by_number_says_what_is_wrong_with_each() {
        let fake = Fake::spawned();
        let mut gone = Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let damaged = Fake::spawned();
        damaged.put_u32(8, 9);
        let numbers = vec![fake.pid, gone.id(), 1, damaged.pid];
        let findings = found(&Who::Processes(numbers));
        assert_eq!(pids_of(&findings), [fake.pid]);
        let errors = &findings.errors[..];
        assert!(matches!(errors[0], Error::Gone { pid } if pid == gone.id()));
        assert!(matches!(errors[1], Error::NotInstrumented { pid: 1, .. } | Error::Denied { .. }));
        assert!(matches!(errors[2], Error::Version { found: 9, .. }), "{errors:?}");
    }

    #[test]
    fn find_of_sender_gives_nothing_of_a_process_that_has_its_number_now() {
        let fake = Fake::spawned();
        assert_eq!(pids_of(&answered(fake.pid)), [fake.pid]);
        let findings = find_of_sender(&Sender::ended(fake.pid), &mut || ());
        assert!(findings.applications.is_empty() && findings.refused.is_empty());
        assert!(matches!(findings.errors[..], [Error::Gone { pid }] if pid == fake.pid));
    }

    #[test]
    fn find_of_a_process_that_refuses_gives_its_reason() {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let fd = rustix::fs::memfd_create("strata-refused:no \u{1b}room", flags).unwrap();
        let mut child = Command::new("sleep");
        child.arg("1000");
        // In this child, and in none of a test beside this one.
        // SAFETY: one system call.
        unsafe {
            use std::os::unix::process::CommandExt;
            child.pre_exec(move || Ok(rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::empty())?));
        }
        let mut child = child.spawn().unwrap();
        // The new program runs before the kernel has given the process its name.
        let comm = format!("/proc/{}/comm", child.id());
        while std::fs::read_to_string(&comm).unwrap() != "sleep\n" {
            std::thread::yield_now();
        }
        let all = found(&Who::Everyone);
        let refused = all.refused.iter().find(|refused| refused.pid == child.id()).unwrap();
        assert_eq!((refused.name.as_str(), refused.reason.as_str()), ("sleep", "no ?room"));
        let one = found(&Who::Processes(vec![child.id()]));
        assert!(matches!(&one.errors[..], [Error::Refused { reason, .. }] if reason == "no ?room"));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn refusal_that_is_announced_gives_its_reason() {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let memfd = |name| rustix::fs::memfd_create(name, flags).unwrap();
        let error = Application::open(memfd("strata-refused:no \u{1b}room"), 1).unwrap_err();
        let Error::Refused { pid: 1, name, reason } = &error else { panic!("{error:?}") };
        assert_eq!((name.is_empty(), reason.as_str()), (false, "no ?room"));
        let ended = Application::open(memfd("strata-refused:x"), u32::MAX).unwrap_err();
        assert_eq!(ended.to_string(), "process 4294967295: cannot be traced: x");
        let other = Application::open(memfd("strata-other"), 1).unwrap_err();
        assert!(matches!(other, Error::NotSealed { .. }), "{other:?}");
    }

    #[test]
    fn malicious_memory_of_another_user_is_nobodys() {
        // Says that it is this process, which it can reach only through a descriptor.
        if !geteuid().is_root() {
            return;
        }
        let fake = Fake::spawned();
        let nobody = rustix::fs::Uid::from_raw(65534);
        rustix::fs::fchown(&fake.fd, Some(nobody), None).unwrap();
        assert!(!pids_of(&found(&Who::Everyone)).contains(&fake.pid));
    }

    #[test]
    #[ignore = "run by find_as_another_user_says_whose_it_is"]
    fn alone_find_of_a_process_of_root() {
        let findings = found(&Who::Processes(vec![1]));
        let [Error::Denied { pid: 1, denial, .. }] = &findings.errors[..] else {
            panic!("{:?}", findings.errors);
        };
        assert_eq!(*denial, Denial::OtherUser { theirs: 0, ours: 65534 });
        assert!(findings.errors[0].to_string().contains("Run as root"));
    }

    #[test]
    fn find_as_another_user_says_whose_it_is() {
        if !geteuid().is_root() {
            return;
        }
        run_alone(
            "discover::find::tests::alone_find_of_a_process_of_root",
            crate::testing::become_nobody,
        );
    }

    #[test]
    fn lttng_of_processes_without_it_is_nothing() {
        assert_eq!(lttng_of_processes(&[std::process::id(), u32::MAX]), []);
    }

    #[test]
    fn mapped_names_are_those_of_map_files_once_for_each_memory() {
        let maps = b"00400000-00401000 r-xp 00000000 fe:00 12 /bin/x\n\
            7f0000000000-7f0000400000 rw-s 00000000 00:01 77 /memfd:strata (deleted)\n\
            7f0000800000-7f0000c00000 rw-s 00400000 00:01 77 /memfd:strata (deleted)\n\
            00010000-00020000 rw-s 00000000 00:01 78    /memfd:strata (deleted)\n\
            7f1000000000-7f1000400000 rw-s 00000000 00:01 79 /memfd:other (deleted)\n\
            garbage /memfd:strata (deleted)\n";
        let names = mapped_names(Maps::new(&maps[..]), Path::new("/m")).unwrap();
        assert_eq!(names, ["/m/7f0000000000-7f0000400000", "/m/10000-20000"].map(PathBuf::from));
    }
}
