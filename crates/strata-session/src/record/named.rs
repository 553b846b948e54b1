//! Finds processes by name, for `record -p NAME`.

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{geteuid, test_kill_process, Pid};
use strata_user::{pids, Who};

use crate::machine::process_names::ProcessNames;

/// Why no process with a requested name or number is recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No process has this name.
    #[error(
        "--pid={name}: no running process has this name, nor has a thread, a program's file or a script of one. \
         See `ps -e` for names; a number is a process, too"
    )]
    Nobody {
        /// The name in the request.
        name: String,
    },
    /// Only processes of other users have this name.
    #[error("--pid={name}: {count} of other users, which you may not record. Run as root", count = counted(*others))]
    OfOthers {
        /// The name in the request.
        name: String,
        /// Number of processes with this name that belong to other users.
        others: usize,
    },
    /// None of the processes given by number exists.
    #[error("--pid={numbers}: no such process. See `ps -e` for numbers and names")]
    NoSuchProcess {
        /// The numbers in the request.
        numbers: String,
    },
    /// The running processes cannot be listed.
    #[error("--pid={name}: {why}")]
    Unknown {
        /// The name in the request.
        name: String,
        /// The error of the system, as text.
        why: String,
    },
}

fn counted(number: usize) -> String {
    match number {
        1 => "the one process of this name is".to_owned(),
        number => format!("all {number} processes of this name are"),
    }
}

/// The owner of a process: this user or another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessOwner {
    Ours,
    Others,
}

/// Returns the running processes with this name that this user may record, sorted by process id. The name may be that
/// of the process or a thread (comm), or of the file of its program or script. Kernel threads are left out.
///
/// # Errors
/// There is no such process.
pub fn processes_of(name: &str) -> Result<Vec<u32>, NameError> {
    let unknown = |why: String| NameError::Unknown { name: name.to_owned(), why };
    let own = geteuid().as_raw();
    let (mut found, mut others) = (Vec::new(), 0);
    for pid in pids(&Who::Everyone).map_err(|error| unknown(error.to_string()))? {
        match whose(&Path::new("/proc").join(pid.to_string()), name, own) {
            Some(ProcessOwner::Ours) => found.push(pid),
            Some(ProcessOwner::Others) => others += 1,
            None => {}
        }
    }
    match (found.is_empty(), others) {
        (false, _) => Ok(found),
        (true, 0) => Err(NameError::Nobody { name: name.to_owned() }),
        (true, others) => Err(NameError::OfOthers { name: name.to_owned(), others }),
    }
}

/// Checks that at least one of the processes `pids` exists.
///
/// # Errors
/// `pids` is not empty, and none of them exists.
pub fn some_are_there(pids: &[u32]) -> Result<(), NameError> {
    let is_there = |pid: &u32| {
        let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
        pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
    };
    if pids.is_empty() || pids.iter().any(is_there) {
        return Ok(());
    }
    let numbers: Vec<String> = pids.iter().map(u32::to_string).collect();
    Err(NameError::NoSuchProcess { numbers: numbers.join(",") })
}

/// Returns the owner of the process whose `/proc` folder is `process`; `None` if it has another name, is a kernel
/// thread, or has ended.
fn whose(process: &Path, name: &str, own: u32) -> Option<ProcessOwner> {
    let is_program = match fs::read_link(process.join("exe")) {
        Ok(_) => true,
        // The link is hidden for processes of other users. Kernel threads and ended processes have none.
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    };
    if !is_program || !ProcessNames::read(process).ok()?.include(name) {
        return None;
    }
    let status = fs::read_to_string(process.join("status")).ok()?;
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut uids = uids.split_ascii_whitespace().filter_map(|uid| uid.parse::<u32>().ok());
    let is_ours = own == 0 || uids.any(|uid| uid == own);
    Some(if is_ours { ProcessOwner::Ours } else { ProcessOwner::Others })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    /// Starts `sleep` under a name that no other process has. Returns the path of its file, and the process.
    fn sleeper(name: &str) -> (std::path::PathBuf, Child) {
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_file(&path);
        fs::copy("/bin/sleep", &path).unwrap();
        let child = loop {
            match Command::new(&path).arg("1000").spawn() {
                // A process that another test is just starting has it open for writing until its execve.
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                    std::thread::yield_now();
                }
                child => break child.unwrap(),
            }
        };
        (path, child)
    }

    #[test]
    fn processes_are_found_by_the_name_of_their_file_and_by_what_they_call_themselves() {
        // Longer than a comm, of which nobody else has the first bytes either.
        let name = format!("{}-strata-sleeper", std::process::id());
        let (path, mut one) = sleeper(&name);
        let mut two = Command::new(&path).arg("1000").spawn().unwrap();
        let mut wanted = [one.id(), two.id()];
        wanted.sort_unstable();
        assert_eq!(processes_of(&name).unwrap(), wanted);
        // The file is gone, they run on.
        fs::remove_file(&path).unwrap();
        assert_eq!(processes_of(&name).unwrap(), wanted);
        assert_eq!(processes_of(&name[..15]).unwrap(), wanted);
        for child in [&mut one, &mut two] {
            child.kill().unwrap();
        }
        // What has ended, and is not waited for, is no process to record.
        let ended = || matches!(processes_of(&name), Err(NameError::Nobody { .. }));
        while !ended() {
            std::thread::yield_now();
        }
        one.wait().unwrap();
        two.wait().unwrap();
        let error = processes_of(&name).unwrap_err().to_string();
        assert!(error.starts_with(&format!("--pid={name}: no running process")), "{error}");
    }

    #[test]
    fn processes_of_others_and_threads_of_the_kernel_are_not_ours() {
        let folder = std::env::temp_dir().join(format!("strata-named-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("comm"), "worker\n").unwrap();
        fs::write(folder.join("status"), "Name:\tworker\nUid:\t7\t8\t9\t8\n").unwrap();
        assert_eq!(whose(&folder, "worker", 0), None);
        std::os::unix::fs::symlink("/opt/a thing/tool (deleted)", folder.join("exe")).unwrap();
        for (name, own, wanted) in [
            ("worker", 0, Some(ProcessOwner::Ours)),
            ("tool", 8, Some(ProcessOwner::Ours)),
            ("tool", 1000, Some(ProcessOwner::Others)),
            ("thing", 0, None),
            ("worke", 0, None),
        ] {
            assert_eq!(whose(&folder, name, own), wanted, "{name} {own}");
        }
        fs::remove_dir_all(&folder).unwrap();
        let error = NameError::OfOthers { name: "x".into(), others: 3 }.to_string();
        assert!(error.contains("all 3 processes of this name are of other users"), "{error}");
    }

    #[test]
    fn numbers_of_which_none_is_a_process_are_refused() {
        let own = std::process::id();
        // Nobody has the largest number that fits.
        let absent = i32::MAX as u32;
        for pids in [&[][..], &[own], &[absent, own], &[1]] {
            assert_eq!(some_are_there(pids), Ok(()), "{pids:?}");
        }
        for (pids, numbers) in [
            (&[absent][..], "2147483647"),
            (&[absent - 1, absent, u32::MAX], "2147483646,2147483647,4294967295"),
        ] {
            let text = some_are_there(pids).unwrap_err().to_string();
            assert!(text.starts_with(&format!("--pid={numbers}: no such process")), "{text}");
        }
    }

    #[test]
    fn name_that_is_cut_by_the_kernel_is_found_by_its_first_bytes() {
        let folder = std::env::temp_dir().join(format!("strata-cut-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("comm"), "fifteen-letters\n").unwrap();
        fs::write(folder.join("status"), "Uid:\t7\t7\t7\t7\n").unwrap();
        std::os::unix::fs::symlink("/opt/other", folder.join("exe")).unwrap();
        for (name, wanted) in [
            ("fifteen-letters", Some(ProcessOwner::Ours)),
            ("fifteen-letters-and-more", Some(ProcessOwner::Ours)),
            ("fifteen-letter", None),
            ("other", Some(ProcessOwner::Ours)),
            ("othe", None),
            ("", None),
        ] {
            assert_eq!(whose(&folder, name, 7), wanted, "{name}");
        }
        // What says nothing of its user, or has gone meanwhile, is nobody's.
        for status in ["", "Uid:\n", "Uid:\tx\n"] {
            fs::write(folder.join("status"), status).unwrap();
            assert_ne!(whose(&folder, "other", 7), Some(ProcessOwner::Ours), "{status:?}");
        }
        fs::remove_file(folder.join("status")).unwrap();
        assert_eq!(whose(&folder, "other", 0), None);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(whose(&folder, "other", 0), None);
    }

    #[test]
    fn processes_of_others_are_counted_in_words() {
        let text = |others| NameError::OfOthers { name: "x".into(), others }.to_string();
        assert!(text(1).contains("the one process of this name is of other users"), "{}", text(1));
        assert!(text(2).contains("all 2 processes of this name are of other users"), "{}", text(2));
    }
}
