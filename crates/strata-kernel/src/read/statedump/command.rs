//! Predicts the state with which a command begins, from the process that starts it.

use super::proc::{process, DumpedProcess};
use super::process_files::open_files;
use super::NAME_BYTES;
use std::ffi::OsStr;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// O_CLOEXEC of open(), which the kernel shows among the flags of a descriptor.
const CLOSE_ON_EXEC: u32 = 0o2_000_000;

/// State of a command when its program begins: its name, working folder and descriptors. It is predicted, since the
/// first records are written before its state can be read from /proc.
#[derive(Debug, Default)]
pub struct CommandState {
    at_ns: u64,
    process: DumpedProcess,
}

impl CommandState {
    /// Predicts the state of a child of this process that executes `program` and is started after `now_ns`
    /// (CLOCK_MONOTONIC). The child inherits descriptors without close-on-exec, and those in `keep_open`. `None` if
    /// there is no /proc.
    #[must_use]
    pub fn of_child(program: &OsStr, keep_open: &[RawFd], now_ns: u64) -> Option<CommandState> {
        let own = std::process::id();
        let mut process = process(Path::new("/"), own, None)?;
        process.threads.retain(|thread| u32::try_from(thread.tid) == Ok(own));
        let parent = process.threads.first().map(|thread| (thread.pid, thread.vpid))?;
        for thread in &mut process.threads {
            (thread.ppid, thread.vppid) = parent;
            thread.name = name_of(program);
        }
        let is_inherited =
            |fd: i32, flags: u32| flags & CLOSE_ON_EXEC == 0 || keep_open.contains(&fd);
        process.files = open_files(Path::new("/proc/self"))
            .into_iter()
            .filter(|file| is_inherited(file.fd, file.flags))
            .collect();
        for file in &mut process.files {
            file.flags &= !CLOSE_ON_EXEC;
        }
        Some(CommandState { at_ns: now_ns, process })
    }

    /// Returns the state with the number of the started child.
    #[must_use]
    pub fn started(mut self, pid: u32) -> CommandState {
        let pid = i32::try_from(pid).unwrap_or(0);
        self.process.pid = pid;
        self.process.namespace.vpid = pid;
        for thread in &mut self.process.threads {
            (thread.tid, thread.vtid, thread.pid, thread.vpid) = (pid, pid, pid, pid);
        }
        self
    }

    /// Returns the time of the state \[CLOCK_MONOTONIC, ns\].
    #[must_use]
    pub fn at_ns(&self) -> u64 {
        self.at_ns
    }

    /// Returns the state in the form that processes have in a state dump.
    #[must_use]
    pub fn process(&self) -> &DumpedProcess {
        &self.process
    }
}

/// Returns the name that the kernel gives a thread that executes this program.
fn name_of(program: &OsStr) -> [u8; NAME_BYTES] {
    let bytes = program.as_bytes();
    let name = bytes.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let mut out = [0; NAME_BYTES];
    for (to, from) in out.iter_mut().zip(name.iter().take(NAME_BYTES - 1)) {
        *to = *from;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn command_has_its_name_folder_and_what_it_inherits() {
        let closed = std::fs::File::open("/dev/null").unwrap();
        let kept = std::fs::File::open("/dev/zero").unwrap();
        let program = OsStr::new("./a/very-long-program-name");
        let state = CommandState::of_child(program, &[kept.as_raw_fd()], 5).unwrap().started(77);
        let DumpedProcess { pid, threads, files, .. } = state.process();
        assert_eq!((state.at_ns(), *pid, threads.len()), (5, 77, 1));
        let thread = &threads[0];
        assert_eq!((thread.tid, thread.pid, thread.ppid), (77, 77, std::process::id() as i32));
        assert_eq!(&thread.name, b"very-long-progr\0");
        let of = |fd: i32| files.iter().find(|file| file.fd == fd);
        let folder = std::env::current_dir().unwrap();
        assert_eq!(of(-100).unwrap().name, folder.as_os_str().as_bytes());
        assert_eq!(of(kept.as_raw_fd()).unwrap().name, b"/dev/zero");
        assert_eq!(of(kept.as_raw_fd()).unwrap().flags & CLOSE_ON_EXEC, 0);
        assert_eq!(of(closed.as_raw_fd()), None);
    }
}
