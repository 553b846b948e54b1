//! Processes that have tracepoints and sent no memory with their announcement: because they could make none, or because
//! only one descriptor was free, by which they announced themselves before they made it.

use std::time::{Duration, Instant};

use strata_abi::user::Absence;
use strata_user::{find, Error, Sender as Announcer, Who};

use super::expected::ExpectedProcess;
use super::{Came, ProcessTarget, Registry};
use crate::plan::tracked::{admits, ProcessFacts};
use crate::report::NotReached;
use crate::session::lock::lock;

/// The longest time in which a process makes its memory after the announcement. It takes milliseconds, unless the process
/// gets no CPU.
const PATIENCE: Duration = Duration::from_secs(2);
/// The period of looking for memory that was announced.
const LOOK_PERIOD: Duration = Duration::from_millis(5);
/// The most processes whose memory is looked for. A process beyond that is found by a search.
const EXPECTED_MAX: usize = 256;

impl Registry {
    /// Reports once that a process was not reached.
    pub(super) fn not_reached(&self, pid: u32, name: String, reason: String) {
        lock(&self.found.not_reached).add(NotReached { pid, name, reason });
    }

    /// Notes a process that has announced itself without memory, if it is to be recorded.
    pub(super) fn absent(&mut self, sender: Announcer, absence: &Absence, came: Came) {
        let pid = sender.pid();
        let tracked = &self.changing.tracked;
        let is_tracked = || {
            tracked.is_everybody()
                || ProcessFacts::read(pid, tracked).is_ok_and(|facts| admits(tracked, &facts))
        };
        let is_ours = match self.target {
            ProcessTarget::Everyone => is_tracked(),
            // The number of our session is known only to processes that got it from us.
            _ if came == Came::Invited || self.generations.contains(absence.generation) => true,
            _ => self.is_descendant(pid) && sender.has_its_number(),
        };
        if !is_ours {
            return;
        }
        let name = sender.comm().unwrap_or_default();
        if absence.error != 0 {
            let code = i32::try_from(absence.error).unwrap_or(i32::MAX);
            self.not_reached(pid, name, why_without_memory(code));
        } else if self.expected.len() < EXPECTED_MAX {
            self.expected.push(ExpectedProcess { sender, name, since: self.time.now() });
        }
    }

    /// Returns when the memory that was announced is looked for next.
    pub(super) fn next_expected(&self) -> Option<Instant> {
        (!self.expected.is_empty()).then(|| self.time.now() + LOOK_PERIOD)
    }

    /// Looks for the memory of processes that announced it beforehand. `last`: for the last time.
    pub(super) fn look_for_expected(&mut self, last: bool) {
        for one in std::mem::take(&mut self.expected) {
            self.look_after();
            let pid = one.sender.pid();
            let Ok(findings) = find(&Who::Processes(vec![pid])) else { continue };
            for application in &findings.applications {
                self.admit(application, Came::Invited, true);
            }
            for refused in &findings.refused {
                self.not_reached(pid, refused.name.clone(), refused.reason.clone());
            }
            let is_over = last || self.time.elapsed(one.since) > PATIENCE;
            match findings.errors.first() {
                _ if !one.sender.has_its_number() && findings.applications.is_empty() => {
                    self.not_reached(pid, one.name, WHY_GONE.to_owned());
                }
                None => {}
                Some(error) if error.is_gone() => {
                    self.not_reached(pid, one.name, WHY_GONE.to_owned());
                }
                Some(Error::NotInstrumented { .. } | Error::NotReady { .. }) if !is_over => {
                    self.expected.push(one);
                }
                Some(Error::NotInstrumented { .. }) => {
                    self.not_reached(pid, one.name, why_without_memory(libc::EMFILE));
                }
                Some(error) => self.unreached(error),
            }
        }
        self.finish_starts(0);
    }
}

const WHY_GONE: &str =
    "it has tracepoints, and one free descriptor, with which it announced itself; it had ended before its memory was \
     found, and its events are not recorded. Leave it two (ulimit -n)";

/// Returns why a process has tracepoints and no memory. `code`: the errno that it says.
fn why_without_memory(code: i32) -> String {
    let why = match code {
        libc::EMFILE => "no descriptor was free. Raise its limit of open files (ulimit -n)".to_owned(),
        libc::ENFILE => {
            "the system had no descriptor free. Raise the limit of all processes (sysctl fs.file-max)"
                .to_owned()
        }
        libc::EPERM | libc::EACCES | libc::ENOSYS => {
            let said = std::io::Error::from_raw_os_error(code);
            format!(
                "its sandbox (seccomp) refuses memfd_create() ({said}). Allow it that call, or begin the sandbox after \
                 the program's start"
            )
        }
        libc::ENOMEM => "there was no memory left (ulimit -v, or the limit of its control group)".to_owned(),
        libc::EFBIG => "the file size limit (ulimit -f) is too low. Raise it".to_owned(),
        code => std::io::Error::from_raw_os_error(code).to_string(),
    };
    format!(
        "it has tracepoints, and could not make the memory that it shares, so that its events are not recorded: {why}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_without_memory_names_the_limit_that_was_met() {
        for (code, word) in [
            (libc::EMFILE, "ulimit -n"),
            (libc::ENFILE, "fs.file-max"),
            (libc::EPERM, "seccomp"),
            (libc::ENOSYS, "seccomp"),
            (libc::ENOMEM, "ulimit -v"),
            (libc::EFBIG, "ulimit -f"),
            (libc::EIO, "os error 5"),
        ] {
            let text = why_without_memory(code);
            assert!(text.contains(word) && text.starts_with("it has tracepoints"), "{text}");
        }
    }
}
