//! The command that a session starts, records and waits for.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{
    getegid, geteuid, getpid, getrlimit, kill_process, pidfd_open, pidfd_send_signal,
    set_child_subreaper, setrlimit, waitpid, Pid, PidfdFlags, Resource, Rlimit, Signal,
    WaitOptions,
};

use strata_kernel::statedump::CommandState;

use crate::report::CommandEnd;
use crate::session::stop::{is_ignored, set_ignored};

/// Why the command could not be started.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// No program with this name was found.
    #[error("command '{name}': not found. {}", advice_if_not_found(name))]
    NotFound {
        /// The name in the request.
        name: String,
    },
    /// The file exists, but the interpreter that it needs does not.
    #[error(
        "command '{name}': is there, but the interpreter or loader that its first line or ELF \
         header names is not. Install that, or name another one"
    )]
    NoInterpreter {
        /// The name in the request.
        name: String,
    },
    /// The file exists but cannot be executed.
    #[error("command '{name}': cannot be run: {source}. Check that it is a program for this machine and that you may execute it")]
    NotExecutable {
        /// The name in the request.
        name: String,
        source: io::Error,
    },
    /// The system cannot create another process.
    #[error("command '{name}': cannot make a process: {source}. Try again when fewer run, or raise the limit (ulimit -u)")]
    NoProcess {
        /// The name in the request.
        name: String,
        source: io::Error,
    },
}

impl CommandError {
    /// Returns the exit status that shells use: 127 if the program does not exist, otherwise 126.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            CommandError::NotFound { .. } => 127,
            _ => 126,
        }
    }
}

fn advice_if_not_found(name: &str) -> String {
    if name.contains('/') {
        "Check the path".to_owned()
    } else if Path::new(name).exists() {
        format!("There is one in this folder: write './{name}'")
    } else {
        "Check the name and PATH".to_owned()
    }
}

/// This process's original limits and signal dispositions, which a child process must get back.
#[derive(Debug, Clone)]
pub struct Inherited {
    nofile: Rlimit,
    file_size_signal_ignored: bool,
}

impl Inherited {
    /// Prepares this program for its work: raises the limit on file descriptors, and ignores SIGXFSZ, so that writing
    /// beyond a file size limit is an error. Returns the original settings, for the command.
    ///
    /// # Errors
    /// The system's error on changing the signal's disposition. A limit that cannot be raised is left as it is.
    pub fn prepare() -> io::Result<Inherited> {
        let nofile = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: nofile.maximum, maximum: nofile.maximum };
        let _ = setrlimit(Resource::Nofile, raised);
        let file_size_signal_ignored = is_ignored(libc::SIGXFSZ)?;
        set_ignored(libc::SIGXFSZ, true)?;
        Ok(Inherited { nofile, file_size_signal_ignored })
    }

    /// Makes `command` start with the original limits and signals, and with the descriptors `keep_open`, which must
    /// stay open until then.
    pub(crate) fn restore_for(&self, command: &mut Command, keep_open: Vec<RawFd>) {
        let inherited = self.clone();
        // SAFETY: restore() makes system calls only; it allocates nothing and takes no lock.
        unsafe { command.pre_exec(move || inherited.restore(&keep_open)) };
    }

    /// Restores the settings in the child between fork and exec, where only async-signal-safe calls are allowed.
    fn restore(&self, keep_open: &[RawFd]) -> io::Result<()> {
        setrlimit(Resource::Nofile, self.nofile)?;
        set_ignored(libc::SIGXFSZ, self.file_size_signal_ignored)?;
        for &fd in keep_open {
            // SAFETY: the parent keeps the descriptor open until spawn() has returned.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
        }
        Ok(())
    }
}

/// The command, running or ended. It is never killed, and dropping this value leaves it alone.
#[derive(Debug)]
pub struct Running {
    child: Child,
    pidfd: Option<OwnedFd>,
    ended: Option<ExitStatus>,
    protection: Option<String>,
    /// True to wait for descendants as well.
    with_descendants: bool,
    /// State of the command's process at its start, for the state dump.
    state: Option<Arc<CommandState>>,
}

impl Running {
    /// Starts `command` with `environment` added, and `keep_open` inherited under the same numbers.
    ///
    /// # Errors
    /// [`CommandError`].
    pub fn start(
        command: &[OsString],
        environment: &[(OsString, OsString)],
        keep_open: &[BorrowedFd<'_>],
        inherited: &Inherited,
    ) -> Result<Running, CommandError> {
        let empty = OsString::new();
        let (program, arguments) = command.split_first().unwrap_or((&empty, &[]));
        let fds: Vec<RawFd> = keep_open.iter().map(AsRawFd::as_raw_fd).collect();
        let mut prepared = Command::new(program);

        prepared.args(arguments);
        prepared.envs(environment.iter().map(|(name, value)| (name, value)));
        inherited.restore_for(&mut prepared, fds.clone());
        let state = CommandState::of_child(program, &fds, strata_user::Clock::monotonic_ns());
        let child = prepared.spawn().map_err(|error| start_error(program, error))?;
        let state = state.map(|state| Arc::new(state.started(child.id())));
        // Without a pidfd (kernels before 5.3), wait() polls every few milliseconds.
        let pidfd = Pid::from_child(&child);
        let pidfd = pidfd_open(pidfd, PidfdFlags::empty()).ok();
        let protection = protection(program, child.id());
        Ok(Running { child, pidfd, ended: None, protection, with_descendants: false, state })
    }

    /// Returns the command's state at its start, if it is known.
    pub(crate) fn state(&self) -> Option<&Arc<CommandState>> {
        self.state.as_ref()
    }

    /// Returns why the kernel protects the command from tracing, so that it cannot be examined; `None` if it does
    /// not.
    #[must_use]
    pub fn protection(&self) -> Option<&str> {
        self.protection.as_deref()
    }

    /// Makes this program the parent of the command's descendants whose own parents end. Call this before starting the
    /// command.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn adopt_descendants() -> io::Result<()> {
        Ok(set_child_subreaper(Some(getpid()))?)
    }

    /// Sets whether to wait for descendants too. After [`Running::adopt_descendants`], these become children of this
    /// program.
    #[must_use]
    pub fn with_descendants(mut self, yes: bool) -> Running {
        self.with_descendants = yes;
        self
    }

    /// Returns the command's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the command, and its descendants if requested, have ended; at most for `timeout`, or until a signal
    /// arrives. Returns whether they have ended.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        let is_left = |child: &Child| self.with_descendants && is_any_child_left(child.id());
        if self.ended.is_some() {
            if is_left(&self.child) {
                std::thread::sleep(timeout);
            }
            return Ok(!is_left(&self.child));
        }
        match &self.pidfd {
            Some(pidfd) => {
                let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
                let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
                match poll(&mut fds, Some(&timeout)) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            None => std::thread::sleep(timeout.min(Duration::from_millis(5))),
        }
        self.ended = self.child.try_wait()?;
        // The check also reaps other children that have ended while the command runs. The command's end is noticed at
        // once even if others go on.
        let others = self.with_descendants && is_any_child_left(self.child.id());
        Ok(self.ended.is_some() && !others)
    }

    /// Returns whether the command itself has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Asks the command to end, with SIGTERM.
    ///
    /// # Errors
    /// The error of the system call; the command may run as another user by now.
    pub fn terminate(&self) -> io::Result<()> {
        match &self.pidfd {
            _ if self.ended.is_some() => Ok(()),
            Some(pidfd) => Ok(pidfd_send_signal(pidfd, Signal::TERM)?),
            // The process id cannot be reused before the process is waited for.
            None => Ok(kill_process(Pid::from_child(&self.child), Signal::TERM)?),
        }
    }

    /// Returns how the command ended, or that it still runs.
    #[must_use]
    pub fn end(&self) -> CommandEnd {
        match self.ended {
            None => CommandEnd::Running { pid: self.pid() },
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => CommandEnd::Exited(code),
                (None, Some(signal)) => CommandEnd::Signalled(signal),
                (None, None) => CommandEnd::Exited(-1),
            },
        }
    }
}

/// Returns whether this program has a child process. Reaps all children that have ended, except the process
/// `command`.
fn is_any_child_left(command: u32) -> bool {
    loop {
        // SAFETY: all bytes 0 is a valid value of this plain C structure.
        let mut child: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: the call only fills in `child`, which lives through it.
        if unsafe { libc::waitid(libc::P_ALL, 0, &mut child, flags) } != 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return false;
        }
        // SAFETY: waitid() has written it, or it is 0.
        let pid = unsafe { child.si_pid() };
        let Some(ended) = Pid::from_raw(pid).filter(|_| u32::try_from(pid) != Ok(command)) else {
            return true;
        };
        // The exit status of other children is not needed.
        let _ = waitpid(Some(ended), WaitOptions::NOHANG);
    }
}

/// Returns why a program is protected from tracing: it runs as another user than its starter (set-user-ID,
/// capabilities).
fn protection(program: &OsStr, pid: u32) -> Option<String> {
    // The process may have changed its user already, or not yet.
    let denial = strata_user::protection(pid);
    let changes = || resolved(program).is_some_and(|path| changes_user(&path));
    (denial.is_some() || (!geteuid().is_root() && changes())).then(|| {
        "a set-user-ID program, or one with capabilities, does not heed its user's environment, and \
         may not be looked into. Run `strata record` as root"
            .to_owned()
    })
}

/// Returns whether executing the file changes the user or group of the process.
pub(crate) fn changes_user(path: &Path) -> bool {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    std::fs::metadata(path).is_ok_and(|file| {
        let mode = file.mode();
        mode & libc::S_ISUID != 0 && file.uid() != user
            || mode & libc::S_ISGID != 0 && file.gid() != group
    })
}

/// Converts a system error on starting `program`.
fn start_error(program: &OsStr, source: io::Error) -> CommandError {
    let name = program.to_string_lossy().escape_debug().to_string();
    match source.raw_os_error() {
        // The error is about a folder in PATH that may not be searched.
        Some(libc::EACCES) if !is_path(program) && resolved(program).is_none() => {
            CommandError::NotFound { name }
        }
        Some(libc::ENOENT) if resolved(program).is_some() => CommandError::NoInterpreter { name },
        Some(libc::ENOENT) => CommandError::NotFound { name },
        Some(libc::EAGAIN | libc::ENOMEM) => CommandError::NoProcess { name, source },
        _ => CommandError::NotExecutable { name, source },
    }
}

fn is_path(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/')
}

/// Returns the file that `program` refers to, found in the same way as by execvp(3).
pub(crate) fn resolved(program: &OsStr) -> Option<PathBuf> {
    if program.is_empty() {
        return None;
    }
    if is_path(program) {
        return Some(PathBuf::from(program)).filter(|path| path.exists());
    }
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(program));
    files.find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{pipe_with, PipeFlags};

    fn start(command: &[&str]) -> Result<Running, CommandError> {
        let command: Vec<OsString> = command.iter().map(Into::into).collect();
        Running::start(&command, &[], &[], &Inherited::prepare().unwrap())
    }

    fn end(command: &[&str]) -> CommandEnd {
        let mut running = start(command).unwrap();
        while !running.wait(Duration::from_secs(5)).unwrap() {}
        running.end()
    }

    #[test]
    fn command_that_ended_gives_its_status_or_signal() {
        assert_eq!(end(&["true"]), CommandEnd::Exited(0));
        assert_eq!(end(&["sh", "-c", "exit 42"]), CommandEnd::Exited(42));
        assert_eq!(end(&["sh", "-c", "kill -TERM $$"]), CommandEnd::Signalled(libc::SIGTERM));
    }

    #[test]
    fn command_that_runs_on_says_so() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        // By its name: shells know numbers of one digit only.
        let script = format!("read line </dev/fd/{}; exit 0", read.as_raw_fd());
        let command: Vec<OsString> = ["sh", "-c", &script].iter().map(Into::into).collect();
        let (fds, inherited) = ([std::os::fd::AsFd::as_fd(&read)], Inherited::prepare().unwrap());
        let mut running = Running::start(&command, &[], &fds, &inherited).unwrap();
        assert!(!running.wait(Duration::from_millis(1)).unwrap());
        assert_eq!(running.end(), CommandEnd::Running { pid: running.pid() });
        // What it waits for.
        drop(write);
        while !running.wait(Duration::from_secs(5)).unwrap() {}
        assert_eq!(running.end(), CommandEnd::Exited(0));
    }

    #[test]
    fn command_that_is_asked_to_end_gets_sigterm() {
        for has_pidfd in [true, false] {
            let mut running = start(&["sleep", "60"]).unwrap();
            running.pidfd = running.pidfd.filter(|_| has_pidfd);
            running.terminate().unwrap();
            while !running.wait(Duration::from_secs(5)).unwrap() {}
            assert_eq!(running.end(), CommandEnd::Signalled(libc::SIGTERM));
            running.terminate().unwrap();
        }
    }

    #[test]
    fn command_that_is_not_there_is_127_with_advice() {
        let error = start(&["no-such-command-at-all"]).unwrap_err();
        assert_eq!(error.exit_status(), 127);
        assert!(error.to_string().ends_with("not found. Check the name and PATH"), "{error}");
        let error = start(&["/no/such/command"]).unwrap_err();
        assert!(error.to_string().ends_with("Check the path"), "{error}");
        // Cargo runs tests in the crate's folder.
        let error = start(&["Cargo.toml"]).unwrap_err();
        assert!(error.to_string().ends_with("write './Cargo.toml'"), "{error}");
        let error = start(&[""]).unwrap_err();
        assert_eq!(error.exit_status(), 127);
    }

    #[test]
    fn command_that_cannot_be_run_is_126() {
        let error = start(&["./Cargo.toml"]).unwrap_err();
        assert_eq!(error.exit_status(), 126);
        assert!(error.to_string().contains("Permission denied"), "{error}");
        let source = io::Error::from_raw_os_error(libc::EAGAIN);
        let error = start_error(OsStr::new("x"), source);
        assert!(matches!(error, CommandError::NoProcess { .. }));
        assert!(error.to_string().contains("cannot make a process"));
    }

    #[test]
    fn command_whose_interpreter_is_not_there_is_126() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("strata-interpreter-{}", std::process::id()));
        std::fs::write(&path, "#!/no/such/interpreter\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let result = loop {
            match start(&[path.to_str().unwrap()]) {
                // A process that another test is just starting has it open for writing until its execve.
                Err(CommandError::NotExecutable { source, .. })
                    if source.kind() == io::ErrorKind::ExecutableFileBusy =>
                {
                    std::thread::yield_now();
                }
                result => break result,
            }
        };
        std::fs::remove_file(&path).unwrap();
        let error = result.unwrap_err();
        assert!(matches!(error, CommandError::NoInterpreter { .. }), "{error}");
        assert_eq!(error.exit_status(), 126);
        assert!(error.to_string().contains("interpreter"), "{error}");
    }

    #[test]
    fn command_gets_the_limits_signals_and_descriptors_that_it_would_have_had() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let inherited = Inherited::prepare().unwrap();
        let before = inherited.nofile.current.unwrap_or(0);
        let script = format!(
            "exec >/proc/self/fd/{fd}; ulimit -Sn; grep SigIgn /proc/self/status; echo $WORD",
            fd = write.as_raw_fd()
        );
        let command: Vec<OsString> = ["sh", "-c", &script].iter().map(Into::into).collect();
        let environment = [("WORD".into(), "kept".into())];
        let fds = [std::os::fd::AsFd::as_fd(&write)];
        let mut running = Running::start(&command, &environment, &fds, &inherited).unwrap();
        drop(write);
        let text = io::read_to_string(std::fs::File::from(read)).unwrap();
        while !running.wait(Duration::from_secs(5)).unwrap() {}
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], before.to_string());
        let ignored = u64::from_str_radix(lines[1].rsplit('\t').next().unwrap(), 16).unwrap();
        let file_size_bit = 1 << (libc::SIGXFSZ - 1);
        assert_eq!(ignored & file_size_bit != 0, inherited.file_size_signal_ignored);
        assert_eq!(ignored & 1 << (libc::SIGPIPE - 1), 0);
        assert_eq!(lines[2], "kept");
    }
}
