//! Processes by name, as pidof(8) finds them: who `record -p NAME` means.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::geteuid;
use strata_user::{pids, Who};

/// The kernel keeps so much of a name \[byte\].
const COMM_BYTES: usize = 15;

/// Why no process of a name is recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is none.
    #[error(
        "--pid={name}: no running process has this name, and no program that runs is a file of this name. \
         See `ps -e` for names; a number is a process, too"
    )]
    Nobody {
        /// As it was asked for.
        name: String,
    },
    /// Others have some.
    #[error("--pid={name}: {count} of other users, which you may not record. Run as root", count = counted(*others))]
    OfOthers {
        /// As it was asked for.
        name: String,
        /// Processes of this name that belong to other users.
        others: usize,
    },
    /// They cannot be looked for.
    #[error("--pid={name}: {why}")]
    Unknown {
        /// As it was asked for.
        name: String,
        /// What the system said.
        why: String,
    },
}

fn counted(number: usize) -> String {
    match number {
        1 => "the one process of this name is".to_owned(),
        number => format!("all {number} processes of this name are"),
    }
}

/// Whose a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessOwner {
    Ours,
    Others,
}

/// The running processes of this name, by what they call themselves (comm) or by their program's file, that this
/// user may record; in order of their numbers. Threads of the kernel are none.
///
/// # Errors
/// There is none.
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

/// `None`: it has another name, is no program, or has ended meanwhile.
fn whose(process: &Path, name: &str, own: u32) -> Option<ProcessOwner> {
    let comm = fs::read(process.join("comm")).ok()?;
    let comm = comm.strip_suffix(b"\n").unwrap_or(&comm);
    let cut = name.as_bytes().get(..COMM_BYTES).unwrap_or(name.as_bytes());
    let file = fs::read_link(process.join("exe"));
    let is_program = match &file {
        Ok(_) => true,
        // Of others, one may not be told. Threads of the kernel, and who has ended, have none.
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    };
    let is_file = file.is_ok_and(|path| file_name(&path) == Some(OsStr::new(name)));
    if !is_program || (comm != cut && !is_file) {
        return None;
    }
    let status = fs::read_to_string(process.join("status")).ok()?;
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut uids = uids.split_ascii_whitespace().filter_map(|uid| uid.parse::<u32>().ok());
    let is_ours = own == 0 || uids.any(|uid| uid == own);
    Some(if is_ours { ProcessOwner::Ours } else { ProcessOwner::Others })
}

/// Without what the kernel writes behind the path of a file that was replaced.
fn file_name(path: &Path) -> Option<&OsStr> {
    let name = path.file_name()?.as_bytes();
    Some(OsStr::from_bytes(name.strip_suffix(b" (deleted)").unwrap_or(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    /// `sleep` under a name that nobody else has.
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
        assert_eq!(processes_of(&name[..COMM_BYTES]).unwrap(), wanted);
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
        assert_eq!(file_name(Path::new("/a/b (deleted)")), Some(OsStr::new("b")));
        assert_eq!(file_name(Path::new("/a/..")), None);
    }
}
