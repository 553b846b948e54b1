//! Identity of a process as the kernel reports it, which confirms or contradicts the claims of the process.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use strata_model::text_from_bytes;

pub(crate) use crate::processes::process::shown;
use crate::processes::process::{Process, Status};

/// The most bytes of a thread's name in the kernel \[byte\].
const COMM_BYTES: usize = 15;

/// Identity of a process, as the kernel reports it. Fields are `None` if the process had ended before they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Real user id.
    pub uid: Option<u32>,
    /// Real group id.
    pub gid: Option<u32>,
    /// Process id in its own PID namespace.
    pub inner_pid: Option<u32>,
    /// Name of the first thread: at most 15 bytes, without control characters.
    pub comm: Option<String>,
    /// Path of the program's file, without control characters.
    pub exe: Option<String>,
}

impl Identity {
    /// Reads the identity of a process. `status` must have been read after the process was held.
    pub(crate) fn of(process: &Process, status: &Status) -> Identity {
        let exe = fs::read_link(format!("/proc/{}/exe", process.pid)).ok();
        if !process.has_its_number() {
            return Identity::default();
        }
        Identity {
            uid: Some(status.uids[0]),
            gid: Some(status.gids[0]),
            inner_pid: Some(status.inner_pid),
            comm: Some(shown(&status.name)).filter(|comm| !comm.is_empty()),
            exe: exe.map(|path| shown(&text_from_bytes(path.as_os_str().as_bytes()))),
        }
    }

    /// Returns whether the kernel confirms that the process has the name `said`; `None` if that could not be
    /// checked.
    #[must_use]
    pub fn confirms(&self, said: &str) -> Option<bool> {
        let comm = self.comm.as_deref()?;
        // The name of a login shell begins with '-'.
        let said = said.strip_prefix('-').unwrap_or(said);
        // The kernel may have cut the name within a character.
        let begin = comm.trim_end_matches('\u{fffd}').trim_end_matches('?');
        let is_comm = said == comm
            || (comm.len() >= COMM_BYTES && !begin.is_empty() && said.starts_with(begin));
        Some(is_comm || self.program() == Some(said))
    }

    /// Returns the file name of the program.
    fn program(&self) -> Option<&str> {
        let path = self.exe.as_deref()?;
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        path.rsplit('/').next().filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(comm: &str, exe: &str) -> Identity {
        let exe = Some(exe.to_owned());
        Identity { comm: Some(comm.to_owned()), exe, ..Identity::default() }
    }

    #[test]
    fn identity_confirms_the_names_that_honest_programs_have() {
        for (said, comm, exe) in [
            ("app", "app", "/usr/bin/app"),
            ("a-very-long-program-name", "a-very-long-pro", "/opt/x"),
            ("firefox", "MainThread", "/usr/lib/firefox"),
            ("server", "server: idle", "/usr/sbin/server (deleted)"),
            ("-bash", "bash", "/bin/bash"),
            ("ls", "ls", "/bin/busybox"),
        ] {
            assert_eq!(identity(comm, exe).confirms(said), Some(true), "{said}");
        }
    }

    #[test]
    fn identity_does_not_confirm_the_name_of_another_program() {
        for (said, comm, exe) in [
            ("sshd", "evil", "/srv/evil"),
            ("sshd", "ssh", "/srv/ssh"),
            ("evil", "evil-and-more-o", "/srv/evil-and-more-of-it"),
            ("sshd", "", "/"),
            ("sshd", "???????????????", "/srv/x"),
        ] {
            assert_eq!(identity(comm, exe).confirms(said), Some(false), "{said}");
        }
        assert_eq!(Identity::default().confirms("sshd"), None);
    }

    #[test]
    fn identity_of_a_process_is_what_proc_says() {
        use std::os::unix::process::CommandExt;
        let mut child =
            std::process::Command::new("sleep").arg0("sshd").arg("100").spawn().unwrap();
        let comm = format!("/proc/{}/comm", child.id());
        while std::fs::read_to_string(&comm).unwrap() != "sleep\n" {
            std::thread::yield_now();
        }
        let process = Process::hold(child.id()).unwrap();
        let status = Status::read(child.id()).unwrap().unwrap();
        let identity = Identity::of(&process, &status);
        assert_eq!(identity.uid, Some(rustix::process::getuid().as_raw()));
        assert_eq!(identity.gid, Some(rustix::process::getgid().as_raw()));
        assert_eq!(identity.inner_pid, Some(child.id()));
        assert_eq!(identity.comm.as_deref(), Some("sleep"));
        let exe = std::fs::read_link(format!("/proc/{}/exe", child.id())).unwrap();
        assert_eq!(identity.exe.as_deref(), exe.to_str());
        assert_eq!(identity.confirms("sshd"), Some(false));
        child.kill().unwrap();
        // It has ended, and still has its number; then it has not, and what was read says nothing.
        while !process.has_ended() {
            std::thread::yield_now();
        }
        assert!(process.has_its_number());
        assert_eq!(Identity::of(&process, &status).comm.as_deref(), Some("sleep"));
        child.wait().unwrap();
        assert!(!process.has_its_number());
        assert_eq!(Identity::of(&process, &status), Identity::default());
    }
}
