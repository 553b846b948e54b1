//! Finds processes that are instrumented for LTTng-UST, among the selected ones, for `record`'s remarks. A command is
//! examined before it runs, and its descendants while they run, since a shell, a script or a plugin may decide late
//! what is loaded. A thread that nobody waits for does this, since mapped files may be on a file system that never
//! answers.

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use strata_user::{descendants, lttng_of_processes, lttng_of_program, Lttng};

use crate::record::command::resolved;
use crate::session::lock::lock;
use crate::session::privileges::{keep_for, Work};

/// Delay before the command is examined for the first time. Each later delay is as long as the command has run, so
/// that a process which lives for half of that time is seen.
const FIRST: Duration = Duration::from_millis(2);
/// The longest period of examining processes.
const PERIOD: Duration = Duration::from_secs(1);
/// Bound on the time for examining: the pause is this many times as long as an examination.
const SHARE: u32 = 50;
/// The most processes that are examined each time.
const PROCESSES_MAX: usize = 256;
/// The most different findings that are reported.
const TOLD_MAX: usize = 16;

/// Returns remarks on the processes among `pids` that have loaded LTTng's library.
pub(crate) fn of_processes(pids: &[u32]) -> Vec<String> {
    lttng_of_processes(pids).iter().map(|(pid, lttng)| told(*pid, lttng)).collect()
}

fn told(pid: u32, lttng: &Lttng) -> String {
    let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(name.trim_ascii_end()).replace(char::is_control, "?");
    format!("process {pid} ({name}): {lttng}")
}

/// The search for LTTng's library in a command that was just started. The command's file and its libraries are
/// searched first, then its processes.
pub(crate) struct OfCommand {
    state: Arc<SearchState>,
    thread: Option<Thread>,
}

#[derive(Default)]
struct SearchState {
    is_over: AtomicBool,
    found: Mutex<LttngFindings>,
}

#[derive(Default)]
struct LttngFindings {
    told: Vec<String>,
    /// The files that need LTTng's library, kept so that each of them is reported once.
    known: Vec<Vec<String>>,
}

impl LttngFindings {
    /// Returns whether `lttng` was not reported yet.
    fn is_new(&mut self, lttng: &Lttng) -> bool {
        let name = |path: &String| path.rsplit('/').next().unwrap_or_default().to_owned();
        let mut names: Vec<String> = lttng.needed_by.iter().map(name).collect();
        names.sort();
        if self.told.len() >= TOLD_MAX || self.known.contains(&names) {
            return false;
        }
        self.known.push(names);
        true
    }
}

impl OfCommand {
    /// Begins to examine `command`, which runs as process `pid`, until [`OfCommand::end`].
    pub(crate) fn begin(command: &[OsString], pid: u32) -> OfCommand {
        let state = Arc::new(SearchState::default());
        if let Some(lttng) = of_program(command) {
            let mut found = lock(&state.found);
            found.is_new(&lttng);
            found.told.push(format!("the command: {lttng}"));
        }
        let shared = state.clone();
        let look = move || {
            keep_for(Work::Applications);
            shared.look(pid);
        };
        // Without the thread, only the remarks are missing.
        let made = thread::Builder::new().name("strata-lttng".to_owned()).spawn(look);
        OfCommand { state, thread: made.ok().map(|made| made.thread().clone()) }
    }

    /// Ends the search, and returns the remarks.
    pub(crate) fn end(self) -> Vec<String> {
        self.state.is_over.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
        std::mem::take(&mut lock(&self.state.found).told)
    }
}

/// Returns the time until the next search. `age`: time since the first search; the older the command, the longer the
/// pause. `took`: duration of the last search, which may take only its share of the time.
fn next_pause(age: Duration, took: Duration) -> Duration {
    age.clamp(FIRST, PERIOD).max(took * SHARE)
}

impl SearchState {
    fn look(&self, command: u32) {
        let begin = Instant::now();
        let mut done: Vec<u32> = Vec::new();
        let mut pause = FIRST;
        loop {
            thread::park_timeout(pause);
            if self.is_over.load(Ordering::Acquire) {
                return;
            }
            let now = Instant::now();
            let mut others = descendants(command, PROCESSES_MAX);
            others.retain(|pid| !done.contains(pid));
            for (pid, lttng) in lttng_of_processes(&others) {
                done.push(pid);
                let text = told(pid, &lttng);
                let mut found = lock(&self.found);
                if found.is_new(&lttng) {
                    found.told.push(text);
                }
            }
            pause = next_pause(now - begin, now.elapsed());
        }
    }
}

/// Examines the command's program file. Libraries that it will load later are not known.
fn of_program(command: &[OsString]) -> Option<Lttng> {
    let program = resolved(command.first()?)?;
    let of_environment = |name| std::env::var_os(name).unwrap_or_default();
    let (preload, path) = (of_environment("LD_PRELOAD"), of_environment("LD_LIBRARY_PATH"));
    lttng_of_program(&program, &preload, &path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lttng(files: &[&str]) -> Lttng {
        let needed_by = files.iter().map(|file| (*file).to_owned()).collect();
        Lttng { library: "liblttng-ust.so.1".to_owned(), needed_by }
    }

    #[test]
    fn found_names_a_file_once_and_not_without_end() {
        let mut found = LttngFindings::default();
        assert!(found.is_new(&lttng(&["./app"])));
        assert!(!found.is_new(&lttng(&["/a/app"])), "the same by another path");
        assert!(found.is_new(&lttng(&["/a/app", "/a/liba.so"])));
        assert!(!found.is_new(&lttng(&["/x/liba.so", "/x/app"])));
        found.told = vec![String::new(); TOLD_MAX];
        assert!(!found.is_new(&lttng(&["another"])));
    }

    #[test]
    fn pause_when_the_command_is_older_is_longer_and_a_search_takes_its_share_at_most() {
        let ms = Duration::from_millis;
        assert_eq!(next_pause(ms(0), ms(0)), FIRST);
        assert_eq!(next_pause(ms(300), ms(1)), ms(300));
        assert_eq!(next_pause(ms(3_600_000), ms(1)), PERIOD);
        assert_eq!(next_pause(ms(3_600_000), ms(200)), ms(200) * SHARE);
    }

    #[test]
    fn of_command_that_has_no_library_of_lttng_says_nothing_and_ends() {
        let looked = OfCommand::begin(&["sh".into()], std::process::id());
        assert_eq!(looked.end(), Vec::<String>::new());
    }

    #[test]
    fn process_of_lttng_is_reported_with_its_name_and_its_files() {
        let own = std::process::id();
        let text = told(own, &lttng(&["./app", "./b.so"]));
        assert!(text.starts_with(&format!("process {own} (")), "{text}");
        assert!(text.contains("): instrumented for LTTng-UST: ./app, ./b.so are linked"), "{text}");
        // One that has ended has no name any more.
        let text = told(4_000_000_000, &lttng(&[]));
        assert!(text.starts_with("process 4000000000 (): instrumented"), "{text}");
        assert!(of_processes(&[]).is_empty() && of_processes(&[own, 4_000_000_000]).is_empty());
    }

    #[test]
    fn malicious_name_of_a_process_commands_no_terminal() {
        let named = std::thread::Builder::new().spawn(|| {
            rustix::thread::set_name(c"a\x1b[2Jb\x07").unwrap();
            let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
            told(tid, &lttng(&["x"]))
        });
        let text = named.unwrap().join().unwrap();
        assert!(text.contains("(a?[2Jb?): "), "{text:?}");
    }

    #[test]
    fn program_that_is_not_there_has_no_library() {
        assert!(of_program(&[]).is_none());
        assert!(of_program(&["/no/such/program".into()]).is_none());
        assert!(of_program(&["".into()]).is_none());
    }
}
