//! Processes that have tracepoints and sent no memory with their announcement: because they could make none, or because
//! only one descriptor was free, by which they announced themselves before they made it.

use std::time::{Duration, Instant};

use strata_abi::user::Absence;
use strata_user::{find_of_sender, Error, Sender as Announcer};

use super::pending_memory::{Addition, ExpectedProcess};
use super::{Came, ProcessTarget, Registry};
use crate::plan::tracked::{admits, ProcessFacts};
use crate::report::NotReached;
use crate::session::lock::lock;

/// The longest time in which a process makes its memory after the announcement. It takes milliseconds, unless the process
/// gets no CPU.
const PATIENCE: Duration = Duration::from_secs(2);

impl Registry {
    /// Reports that a process was not reached, unless the same was reported before.
    pub(super) fn not_reached(&self, pid: u32, name: String, reason: String) {
        lock(&self.found.not_reached).add(NotReached { pid, name, reason });
    }

    /// Notes a process that announced itself before it had created its memory, if the process is to be recorded.
    pub(super) fn absent(&mut self, sender: Announcer, absence: &Absence, came: Came) {
        let pid = sender.pid();
        let tracked = &self.changing.tracked;
        let is_tracked = || {
            tracked.is_everybody()
                || (ProcessFacts::read(pid, tracked).is_ok_and(|facts| admits(tracked, &facts))
                    && sender.has_its_number())
        };
        // The number of a command's session is known only to processes that got it from us. That of an invitation stands
        // in a file that everybody can read.
        let now = self.time.now();
        let has_ours = self.is_of_command() && self.generations.contains(absence.generation);
        let came = if has_ours { Came::Invited } else { came };
        // Of somebody else, a few of a person's failing processes are looked at in each second, and the others are counted:
        // that costs no more than a connection without a message, and says nothing against the person.
        let is_error = absence.error != 0 && came != Came::Invited;
        if is_error && !self.expected.may_name_error(sender.person(), now) {
            lock(&self.found.not_reached).count_more();
            return;
        }
        let is_ours = match self.target {
            ProcessTarget::Everyone => is_tracked(),
            _ if came == Came::Invited => true,
            _ => self.is_descendant(pid) && sender.has_its_number(),
        };
        if !is_ours {
            return;
        }
        let came = match self.target {
            ProcessTarget::Everyone => Came::Invited,
            _ => came,
        };
        if came == Came::ByItself {
            self.family.add(pid);
        }
        let name = sender.comm().unwrap_or_default();
        if absence.error != 0 {
            let code = i32::try_from(absence.error).unwrap_or(i32::MAX);
            self.not_reached(pid, name, why_without_memory(code));
            return;
        }
        let one = ExpectedProcess::new(sender.clone(), name, came, now);
        match self.expected.add(one) {
            Addition::Added | Addition::Known | Addition::Full => {}
            Addition::OfPersonFull => self.blame(&sender),
        }
    }

    /// Counts a message as invalid because its sender's user has sent more than the limit.
    fn blame(&mut self, sender: &Announcer) {
        if let Some(listener) = &mut self.listener {
            listener.count_as_bad(sender);
        }
    }

    /// Returns when the registry looks next for memory that a process announced before creating it.
    pub(super) fn next_expected(&self) -> Option<Instant> {
        self.expected.next()
    }

    /// Looks for the memory of the next process that announced itself before creating it, if a look is due.
    pub(super) fn look_for_expected(&mut self) {
        if let Some(one) = self.expected.take_due(self.time.now()) {
            self.look_at_expected(one, false);
        }
    }

    /// Looks for the last time for the memory of all processes that announced themselves before creating it.
    pub(super) fn look_for_the_last_expected(&mut self) {
        while let Some((one, has_time)) = self.expected.take_last() {
            match has_time {
                true => self.look_at_expected(one, true),
                false => self.not_reached(one.sender.pid(), one.name, WHY_NO_TIME.to_owned()),
            }
        }
    }

    fn look_at_expected(&mut self, one: ExpectedProcess, last: bool) {
        let (pid, begin) = (one.sender.pid(), Instant::now());
        // It may take long, and others announce themselves meanwhile.
        let findings = find_of_sender(&one.sender, &mut || {
            self.look_after();
            if !last {
                self.receive_and_tell(1);
            }
        });
        let now = self.time.now();
        self.expected.took(one.sender.person(), begin.elapsed(), now, last);
        for application in &findings.applications {
            self.admit(application, one.came, true);
        }
        let is_over = last || now.saturating_duration_since(one.since) > PATIENCE;
        match findings.errors.first() {
            None => {}
            Some(error) if error.is_gone() => {
                self.not_reached(pid, one.name, WHY_GONE.to_owned());
            }
            Some(Error::NotInstrumented { .. } | Error::NotReady { .. }) if !is_over => {
                self.expected.retry(one, now);
            }
            Some(Error::NotInstrumented { .. }) => {
                self.not_reached(pid, one.name, why_without_memory(libc::EMFILE));
            }
            Some(error) => self.unreached(error),
        }
        self.finish_starts(0);
    }
}

const WHY_GONE: &str =
    "it has tracepoints, and one free descriptor, with which it announced itself; it had ended before its memory was \
     found, and its events are not recorded. Leave it two (ulimit -n)";

const WHY_NO_TIME: &str =
    "it has tracepoints, and one free descriptor, with which it announced itself; the recording ended before its memory \
     was looked for, since looking at other processes of its user took too long. Leave it two (ulimit -n)";

/// Returns why a process has tracepoints and no memory. `code`: the errno that the process reported.
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
    use super::super::pending_memory::{ERRORS_OF_PERSON, EXPECTED_OF_PERSON};
    use super::super::tests::{end, of_command, Bench};
    use super::*;
    use std::process::{Child, Command};
    use strata_abi::user;
    use strata_user::{Launch, Received};

    /// Starts a process without memory that announces itself beforehand with this generation.
    fn announced(generation: u64) -> (Child, Announcer, Absence) {
        let launch = Launch::new().unwrap();
        let theirs = launch.child_fd().try_clone_to_owned().unwrap();
        let mut bytes = user::ABSENCE_MAGIC.to_ne_bytes().to_vec();
        bytes.extend(user::VERSION.to_ne_bytes());
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend(generation.to_ne_bytes());
        let text: String = bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
        let script = format!("printf '{text}'; exec sleep 60 >/dev/null");
        let child = Command::new("sh").args(["-c", &script]).stdout(theirs).spawn().unwrap();
        let mut ours = launch.started();
        loop {
            match ours.receive().unwrap() {
                Received::Absent { sender, absence } => return (child, sender, absence),
                Received::Nothing => std::thread::yield_now(),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn absent_is_believed_its_generation_by_the_recorder_of_a_command_only() {
        let bench = Bench::new();
        let (child, sender, absence) = announced(77);
        let (mut registry, _orders) =
            bench.registry(ProcessTarget::Processes(vec![4_000_000_000]), false);
        registry.generations.insert(77, 0, |_| true);
        registry.absent(sender.clone(), &absence, Came::ByItself);
        assert_eq!(registry.expected.len(), 0, "the invitation's number proves nothing");
        assert!(!registry.family.contains(child.id()));
        let (mut registry, _orders) =
            bench.registry(ProcessTarget::Processes(vec![child.id()]), false);
        registry.absent(sender.clone(), &absence, Came::ByItself);
        let one = registry.expected.take_last().unwrap().0;
        assert_eq!((one.sender.pid(), one.came), (child.id(), Came::ByItself));
        let (mut registry, _orders) = bench.registry(of_command(4_000_000_000, None), false);
        let other = Absence { generation: 78, ..absence };
        registry.absent(sender.clone(), &other, Came::ByItself);
        assert_eq!(registry.expected.len(), 0);
        registry.absent(sender, &absence, Came::ByItself);
        assert_eq!(registry.expected.take_last().unwrap().0.came, Came::Invited);
        end(child);
    }

    #[test]
    fn malicious_absences_of_one_person_wait_up_to_its_limit_and_once_for_each_process() {
        let bench = Bench::new();
        let (mut registry, _orders) = bench.registry(ProcessTarget::Everyone, false);
        let all: Vec<_> = (0..=EXPECTED_OF_PERSON).map(|_| announced(0)).collect();
        for (number, (_, sender, absence)) in all.iter().enumerate() {
            for _ in 0..3 {
                registry.absent(sender.clone(), absence, Came::ByItself);
            }
            assert_eq!(registry.expected.len(), (number + 1).min(EXPECTED_OF_PERSON));
        }
        all.into_iter().for_each(|(child, ..)| end(child));
    }

    #[test]
    fn malicious_absences_with_an_error_are_named_up_to_the_limit_of_a_person_and_then_counted() {
        let (time, bench) = Bench::by_hand();
        let (mut registry, _orders) = bench.registry(ProcessTarget::Everyone, false);
        let (child, sender, absence) = announced(0);
        // Each another reason, which would be kept by itself.
        let failed = |registry: &mut Registry, numbers: std::ops::Range<u32>| {
            for error in numbers {
                registry.absent(sender.clone(), &Absence { error, ..absence }, Came::ByItself);
            }
        };
        failed(&mut registry, 1..200);
        let kept = |registry: &Registry| lock(&registry.found.not_reached).so_far().len();
        assert_eq!(kept(&registry), ERRORS_OF_PERSON as usize);
        // The others are counted.
        assert_eq!(bench.not_reached().len(), ERRORS_OF_PERSON as usize + 1);
        time.pause(Duration::from_secs(1));
        failed(&mut registry, 200..300);
        assert_eq!(kept(&registry), 10, "one each 100 ms");
        bench.not_reached();
        time.pause(Duration::from_secs(60));
        failed(&mut registry, 300..400);
        assert_eq!(kept(&registry), ERRORS_OF_PERSON as usize);
        end(child);
        // The processes of our own command are all named.
        let (child, sender, absence) = announced(77);
        let (mut registry, _orders) = bench.registry(of_command(4_000_000_000, None), false);
        registry.generations.insert(77, 0, |_| true);
        bench.not_reached();
        for error in 1..=2 * ERRORS_OF_PERSON {
            registry.absent(sender.clone(), &Absence { error, ..absence }, Came::ByItself);
        }
        assert_eq!(kept(&registry), 2 * ERRORS_OF_PERSON as usize);
        end(child);
    }

    #[test]
    fn look_for_expected_looks_at_one_after_the_other_with_pauses_and_says_who_makes_no_memory() {
        let (time, bench) = Bench::by_hand();
        let (mut registry, _orders) = bench.registry(ProcessTarget::Everyone, false);
        assert!(registry.next_expected().is_none());
        let all = [announced(0), announced(0)];
        for (_, sender, absence) in &all {
            registry.absent(sender.clone(), absence, Came::ByItself);
        }
        // Not before it is due; then one, after which its person has to wait.
        registry.look_for_expected();
        time.pause(Duration::from_millis(5));
        let now = time.now();
        registry.look_for_expected();
        assert!(registry.next_expected().unwrap() > now);
        assert_eq!((registry.expected.len(), bench.not_reached().len()), (2, 0));
        let mut said = Vec::new();
        for _ in 0..100 {
            time.pause(Duration::from_secs(3));
            registry.look_for_expected();
            said.extend(bench.not_reached());
        }
        assert_eq!((registry.expected.len(), said.len()), (0, 2), "{said:?}");
        assert!(said.iter().all(|(_, why)| why.contains("no descriptor was free")), "{said:?}");
        // Who has ended is named, and at the end nobody is left.
        let (child, sender, absence) = announced(0);
        registry.absent(sender, &absence, Came::ByItself);
        end(child);
        registry.look_for_the_last_expected();
        let said = bench.not_reached();
        assert!(matches!(&said[..], [(_, why)] if why == WHY_GONE), "{said:?}");
        all.into_iter().for_each(|(child, ..)| end(child));
    }

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
