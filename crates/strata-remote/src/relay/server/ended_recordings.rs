//! Recordings that have ended: each is handed to the command of `--on-part`, and the oldest are removed.
//!
//! ```text
//!  open ── end mark, or a day without a recorder ──▶ ended ── begin() ──▶ command runs ┬─ exit status 0 ──▶ delivered
//!                                                      ▲                               │                      │
//!                                                      └── pause, doubled each time ◀──┘ failed               │ too old, or too
//!                                                                                                             ▼ many bytes
//!    .strata-delivering  number and state of the last attempt                                             removed
//!    .strata-delivered   the command has taken the recording
//!    .strata-removed-NAME  beside recordings: one that is being removed
//! ```
//!
//! All state is in the recordings' folders, so a relay that is started again continues. With a command, a
//! recording is removed only after it is delivered. A recording that has just ended is left alone for a minute,
//! because its recorder may still wait for the last acknowledgement and send the last messages again.
//!
//! # One command for one recording
//! The command inherits a lock on `.strata-delivering`, and with it all that it starts. While anybody holds the
//! lock, no further attempt begins: a command that outlived a killed relay is waited for, and `tell_held` reports
//! so once. The command may still get a recording twice, if the relay is killed before it writes the mark, or if
//! a recorder continues meanwhile. The number of the attempt is passed to the command, and an attempt after one
//! whose end nobody knows is logged as such.
//!
//! A program that another thread starts at the same moment would inherit the lock as well. `STARTING` excludes
//! that: nothing else in the relay starts programs.
//!
//! # Thread
//! One thread, in [`Relayd::keep`], does all of it. Commands are looked at several times a second. Recordings are
//! scanned every other second, or less often if scanning takes long, so that it never uses more than a twentieth
//! of the time. The state shared with connections is only asked whether a recorder is connected, and receives
//! figures for monitors.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{flock, FlockOperation, OFlags};
use rustix::io::{fcntl_setfd, FdFlags};
use rustix::process::{kill_process_group, Pid, Signal};
use strata_ctf::end_mark::{self, EndMark, Ending};
use strata_ctf::read::Follow;

use super::shared_state::{EndedFigures, Shared};
use super::{bytes_below, Relayd};
use crate::recording_folder::folder_names;
use crate::recording_folder::recording_state;
use crate::recording_folder::recording_writer::DELIVERED;
use crate::relay::event::RelayEvent;

const REMOVED: &str = ".strata-removed-";
const DELIVERING: &str = ".strata-delivering";
/// The most bytes that are read of the file with the state of a recording's delivery \[byte\].
const DELIVERING_BYTES_MAX: u64 = 64;
/// The most commands at the same time.
const JOBS_MAX: usize = 4;
/// Longest time of a command.
const JOB: Duration = Duration::from_secs(6 * 3600);
/// Time that a command has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);
/// Pauses before a command is tried again for a recording: the first, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));
/// Period of checking running commands. Recordings are searched at least as seldom.
const JOB_PERIOD: Duration = Duration::from_millis(200);
const SCAN_PERIOD: Duration = Duration::from_secs(2);
/// The reciprocal of the share of time that searching for ended recordings may take.
const SCAN_SHARE: u32 = 20;
/// Age of a recording that has ended before it may be removed: its recorder may still wait for the last acknowledgement.
const SETTLED: Duration = Duration::from_secs(60);
/// Time without a recorder after which a recording without an end counts as ended.
const ABANDONED: Duration = Duration::from_secs(86_400);

/// The rules for recordings that have ended: a command that gets them, and limits for removing them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeepRules {
    /// Command for the shell that gets each recording; recordings that the command has not taken are not removed.
    pub on_part: Option<String>,
    /// Age after which a recording is removed.
    pub age: Option<Duration>,
    /// Size of all recordings together above which the oldest are removed \[byte\].
    pub size: Option<u64>,
}

/// A recording that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ended {
    host: String,
    path: PathBuf,
    when: SystemTime,
    is_delivered: bool,
}

/// A command that runs for a recording.
#[derive(Debug)]
struct Job {
    one: Ended,
    child: Child,
    since: Instant,
    attempt: u64,
}

/// A recording that the command has not taken.
#[derive(Clone, Copy, Debug)]
struct Retry {
    at: Instant,
    pause: Duration,
}

/// State of the thread that looks after recordings.
struct Archiver<'s> {
    shared: &'s Shared,
    rules: &'s KeepRules,
    /// Time at which the relay was started: no recorder could connect before that.
    begun: SystemTime,
    jobs: Vec<Job>,
    retries: HashMap<PathBuf, Retry>,
    /// Recordings of which a message has already reported that they wait for a program that an earlier attempt has
    /// started.
    held: HashSet<PathBuf>,
}

impl Relayd {
    /// Looks after recordings that have ended until `is_over` returns true. Commands that run then are ended.
    pub fn keep(&self, rules: &KeepRules, is_over: &dyn Fn() -> bool) {
        if *rules == KeepRules::default() {
            return;
        }
        let (jobs, retries) = (Vec::new(), HashMap::new());
        let begun = SystemTime::now();
        let held = HashSet::new();
        let mut archiver = Archiver { shared: &self.shared, rules, begun, jobs, retries, held };
        let mut next_scan = Instant::now();
        while !is_over() {
            let now = Instant::now();
            archiver.look_at_jobs(now);
            if now >= next_scan {
                archiver.scan(now, SystemTime::now());
                next_scan = Instant::now() + SCAN_PERIOD.max(now.elapsed() * SCAN_SHARE);
            }
            std::thread::sleep(JOB_PERIOD); // Time: a period of looks.
        }
        archiver.jobs.iter_mut().for_each(Job::end);
    }
}

impl Job {
    /// Ends the command with all processes that it has started.
    fn end(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // It may have ended by itself.
        let kill = |signal| pid.map(|pid| kill_process_group(pid, signal));
        kill(Signal::TERM);
        let until = Instant::now() + GRACE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(JOB_PERIOD / 10); // Time: a period of looks.
        }
        kill(Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Archiver<'_> {
    fn with_figures(&self, change: impl FnOnce(&mut EndedFigures)) {
        change(&mut self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Searches for ended recordings: starts commands for them, and removes the oldest.
    fn scan(&mut self, now: Instant, wall: SystemTime) {
        let mut all = ended_recordings(self.shared.root.path(), wall, self.begun);
        all.sort_by_key(|one| one.when);
        if let Some(command) = &self.rules.on_part {
            let waiting: Vec<&Ended> = all.iter().filter(|one| !one.is_delivered).collect();
            self.with_figures(|figures| figures.waiting = waiting.len() as u64);
            self.retries.retain(|path, _| waiting.iter().any(|one| one.path == *path));
            self.held.retain(|path| waiting.iter().any(|one| one.path == *path));
            for one in waiting {
                let is_running = self.jobs.iter().any(|job| job.one.path == one.path);
                let is_early = self.retries.get(&one.path).is_some_and(|retry| now < retry.at);
                if self.jobs.len() >= JOBS_MAX || is_running || is_early {
                    continue;
                }
                // Its recorder waits for the last acknowledgement, and may send the last messages once more.
                if !self.has_recorder(one) {
                    match begin(command, one) {
                        Ok(Some(Begun { child, attempt, is_unknown })) => {
                            self.held.remove(&one.path);
                            if is_unknown {
                                let folder = one.path.clone();
                                (self.shared.log)(RelayEvent::DeliversAgain { folder, attempt });
                            }
                            self.jobs.push(Job { one: one.clone(), child, since: now, attempt });
                        }
                        Ok(None) => self.tell_held(&one.path),
                        Err(error) => self.has_failed(one.path.clone(), error.to_string(), now),
                    }
                }
            }
        }
        self.remove_oldest(&all, wall);
    }

    fn has_recorder(&self, one: &Ended) -> bool {
        let recording = recording_state::recording_in(&one.path);
        self.shared.registry().has_recorder(&one.host, recording)
    }

    fn look_at_jobs(&mut self, now: Instant) {
        for mut job in std::mem::take(&mut self.jobs) {
            let is_late = now.saturating_duration_since(job.since) > JOB;
            match job.child.try_wait() {
                Ok(None) if is_late => {
                    job.end();
                    note(&job, FAILED);
                    let why = format!("it took more than {} s", JOB.as_secs());
                    self.has_failed(job.one.path, why, now);
                }
                Ok(None) => self.jobs.push(job),
                Ok(Some(status)) if status.success() => self.has_taken(job, now),
                Ok(Some(status)) => {
                    note(&job, FAILED);
                    self.has_failed(job.one.path, in_words(status), now);
                }
                Err(error) => self.has_failed(job.one.path, error.to_string(), now),
            }
        }
    }

    fn has_taken(&mut self, job: Job, now: Instant) {
        let marked = self.mark_delivered(&job.one, job.attempt);
        if !matches!(marked, Ok(true)) {
            note(&job, TAKEN);
        }
        let Job { one, since, .. } = job;
        let path = one.path;
        match marked {
            Ok(true) => {}
            // It is handed over again when it has ended.
            Ok(false) => return,
            Err(error) => {
                let why = format!("it was taken, and {DELIVERED}: {error}");
                return self.has_failed(path, why, now);
            }
        }
        self.retries.remove(&path);
        self.with_figures(|figures| {
            figures.delivered += 1;
            figures.waiting = figures.waiting.saturating_sub(1);
        });
        let took = now.saturating_duration_since(since);
        (self.shared.log)(RelayEvent::Delivered { folder: path, took });
    }

    /// Marks a recording that the command has taken. Returns false if the recorder has continued the recording
    /// meanwhile.
    fn mark_delivered(&self, one: &Ended, attempt: u64) -> io::Result<bool> {
        let recording = recording_state::recording_in(&one.path);
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // A recorder that comes removes the mark once it is registered.
        let registry = self.shared.registry();
        if registry.has_recorder(&one.host, recording)
            || changed_at(&one.path).ok() != Some(one.when)
        {
            return Ok(false);
        }
        let mark = format!("{}\nattempts {attempt}\n", wall.as_secs());
        std::fs::write(one.path.join(DELIVERED), mark)?;
        // Without the file it is as if there had been no attempt, and with the mark there will be no other.
        let _ = std::fs::remove_file(one.path.join(DELIVERING));
        Ok(true)
    }

    /// Reports once that a recording waits for a program that an earlier attempt has started, and that may never end.
    fn tell_held(&mut self, path: &Path) {
        if self.held.insert(path.to_owned()) {
            let why = format!(
                "--on-part: {} is handed over when what an earlier attempt has started has ended: a process has its \
                 {DELIVERING} open",
                path.display()
            );
            (self.shared.log)(RelayEvent::Trouble(why));
        }
    }

    fn has_failed(&mut self, path: PathBuf, why: String, now: Instant) {
        let before = self.retries.get(&path).map(|retry| retry.pause);
        let pause = before.map_or(PAUSE.0, |pause| (pause * 2).min(PAUSE.1));
        self.retries.insert(path.clone(), Retry { at: now + pause, pause });
        self.with_figures(|figures| figures.failed += 1);
        (self.shared.log)(RelayEvent::NotDelivered { folder: path, why, pause });
    }

    /// Removes recordings that are too old, and the oldest ones if all together are too large. `all`: the ended
    /// recordings, the oldest first.
    fn remove_oldest(&self, all: &[Ended], wall: SystemTime) {
        let KeepRules { on_part, age, size } = self.rules;
        if age.is_none() && size.is_none() {
            return;
        }
        let since = |one: &Ended| wall.duration_since(one.when).unwrap_or_default();
        let mut bytes = size.map_or(0, |_| bytes_below(self.shared.root.path(), 7));
        for one in all {
            let is_settled = since(one) > SETTLED && (on_part.is_none() || one.is_delivered);
            let is_old = age.is_some_and(|age| since(one) > age);
            let is_too_much = size.is_some_and(|size| bytes > size);
            if !is_settled || !(is_old || is_too_much) {
                continue;
            }
            match self.remove(one) {
                Ok(freed) => bytes = bytes.saturating_sub(freed),
                Err(error) => {
                    let why = format!("cannot remove {}: {error}", one.path.display());
                    (self.shared.log)(RelayEvent::Trouble(why));
                }
            }
        }
    }

    /// Removes a recording. Returns its size \[byte\].
    fn remove(&self, one: &Ended) -> io::Result<u64> {
        let hidden = one.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let hidden = one.path.with_file_name(format!("{REMOVED}{hidden}"));
        let bytes = bytes_below(&one.path, 6);
        let recording = recording_state::recording_in(&one.path);
        {
            let mut registry = self.shared.registry();
            // A recorder is registered before it opens the folder.
            if registry.has_recorder(&one.host, recording) {
                return Ok(0);
            }
            // A relay that ends meanwhile leaves no part of a recording under the recording's name.
            std::fs::rename(&one.path, &hidden)?;
            if let Some(host) = registry.hosts.get_mut(&one.host) {
                host.bytes = host.bytes.saturating_sub(bytes);
            }
        }
        std::fs::remove_dir_all(&hidden)?;
        self.with_figures(|figures| {
            figures.removed += 1;
            figures.removed_bytes = figures.removed_bytes.saturating_add(bytes);
        });
        (self.shared.log)(RelayEvent::Removed { folder: one.path.clone(), bytes });
        Ok(bytes)
    }
}

/// A command that was begun.
struct Begun {
    child: Child,
    /// Number of the attempt, from 1.
    attempt: u64,
    /// True if it is not known how the previous attempt ended.
    is_unknown: bool,
}

/// Begins the command for a recording. Returns `None` if something that an earlier attempt has started still runs.
fn begin(command: &str, one: &Ended) -> io::Result<Option<Begun>> {
    let name = one.path.file_name().unwrap_or_default();
    let path = std::path::absolute(&one.path)?;
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
    let options = File::options().read(true).write(true).create(true).truncate(false).to_owned();
    // A program that another thread starts at the same time would inherit the lock as well.
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut mark = options.clone().mode(0o640).custom_flags(flags).open(path.join(DELIVERING))?;
    // Not every file system has locks: there, what an earlier attempt has started is not waited for.
    let locked = flock(&mark, FlockOperation::NonBlockingLockExclusive);
    if locked == Err(rustix::io::Errno::WOULDBLOCK) {
        return Ok(None);
    }
    let mut before = String::new();
    // What is no text is as if there were nothing.
    let _ = (&mut mark).take(DELIVERING_BYTES_MAX).read_to_string(&mut before);
    let mut words = before.split_whitespace();
    let attempt: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let (attempt, is_unknown) = (attempt.saturating_add(1), words.next() == Some(RUNNING));
    write_attempt(&mut mark, attempt, RUNNING)?;
    // The command inherits the lock.
    fcntl_setfd(&mark, FdFlags::empty())?;
    let child = Command::new("/bin/sh")
        .args(["-c", command])
        .env("STRATA_PART", path)
        .env("STRATA_HOST", &one.host)
        .env("STRATA_RECORDING", name)
        .env("STRATA_ATTEMPT", attempt.to_string())
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()?;
    Ok(Some(Begun { child, attempt, is_unknown }))
}

/// Held while a command is started. Nothing else in the relay starts programs.
static STARTING: Mutex<()> = Mutex::new(());

/// The states of an attempt in its file: it has begun; it has failed; or the command has taken the recording, which
/// was then continued.
const RUNNING: &str = "running";
const FAILED: &str = "failed";
const TAKEN: &str = "taken";

fn write_attempt(mark: &mut File, attempt: u64, state: &str) -> io::Result<()> {
    mark.rewind()?;
    mark.set_len(0)?;
    writeln!(mark, "{attempt} {state}")
}

/// Notes how an attempt ended. If that cannot be written, the next attempt reports that the end is unknown.
fn note(job: &Job, state: &str) {
    let mark = File::options().write(true).open(job.one.path.join(DELIVERING));
    let _ = mark.and_then(|mut mark| write_attempt(&mut mark, job.attempt, state));
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, signal) => format!("ended by signal {}", signal.unwrap_or(0)),
    }
}

fn has_end(folder: &Path) -> bool {
    let bytes = std::fs::read(folder.join(end_mark::FILE)).unwrap_or_default();
    EndMark::decode(&bytes).is_ok_and(|mark| mark.ending != Ending::Recording)
}

/// Returns the time at which a recording ended or, without an end mark, the time of its last message.
fn changed_at(folder: &Path) -> io::Result<SystemTime> {
    let file = if has_end(folder) { end_mark::FILE } else { recording_state::NEXT_FILE };
    folder.join(file).symlink_metadata()?.modified()
}

/// Finds the recordings below the relay's folder that have ended, and removes the rest of those whose removal was
/// interrupted. `begun`: the time at which the relay was started.
fn ended_recordings(root: &Path, wall: SystemTime, begun: SystemTime) -> Vec<Ended> {
    let mut all = Vec::new();
    for (host, path) in folders_in(root).filter(|(name, _)| folder_names::is_host(name)) {
        for (name, path) in folders_in(&path) {
            if name.starts_with(REMOVED) {
                let _ = std::fs::remove_dir_all(&path);
            }
            // A second recording of one name may have a longer one than a recorder may give.
            if name.starts_with('.') || !recording_state::is_recording(&path) {
                continue;
            }
            let Ok(when) = changed_at(&path) else { continue };
            let is_abandoned = || {
                wall.duration_since(when.max(begun)).is_ok_and(|time| time > ABANDONED)
                    && !Follow::is_recorded(&path)
            };
            if has_end(&path) || is_abandoned() {
                let is_delivered = path.join(DELIVERED).symlink_metadata().is_ok();
                all.push(Ended { host: host.clone(), path, when, is_delivered });
            }
        }
    }
    all
}

fn folders_in(folder: &Path) -> impl Iterator<Item = (String, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::server::Limits;
    use crate::testing::Scratch;
    use rustix::fs::{mknodat, FileType, Mode, CWD};

    /// Makes the folder of a recording with 1,000 bytes.
    fn recording(root: &Path, name: &str, ending: Ending) -> PathBuf {
        let folder = root.join("box").join(name);
        std::fs::create_dir_all(folder.join("kernel")).unwrap();
        std::fs::write(folder.join("kernel/channel0_0"), [7; 1000]).unwrap();
        for file in [".strata-relay", recording_state::NEXT_FILE] {
            std::fs::write(folder.join(file), "").unwrap();
        }
        let mark = EndMark { ending, ..EndMark::default() };
        std::fs::write(folder.join(end_mark::FILE), mark.encode()).unwrap();
        folder
    }

    fn relay(scratch: &Scratch) -> Relayd {
        let (address, log) = (([127, 0, 0, 1], 0).into(), Box::new(|_| ()));
        let limits = Limits { sync: None, ..Limits::default() };
        Relayd::new(address, &scratch.0, None, limits, log).unwrap()
    }

    fn archiver<'s>(relayd: &'s Relayd, rules: &'s KeepRules) -> Archiver<'s> {
        let (begun, jobs, retries) = (SystemTime::now(), Vec::new(), HashMap::new());
        Archiver { shared: &relayd.shared, rules, begun, jobs, retries, held: HashSet::new() }
    }

    fn finish_jobs(archiver: &mut Archiver<'_>, now: Instant) {
        while !archiver.jobs.is_empty() {
            archiver.look_at_jobs(now);
            std::thread::yield_now();
        }
    }

    #[test]
    fn recording_that_has_ended_is_handed_over_until_the_command_takes_it() {
        let scratch = Scratch::new("archiver");
        let relayd = relay(&scratch);
        let ended = recording(&scratch.0, "ended", Ending::Ended);
        let failed = recording(&scratch.0, "failed", Ending::Failed);
        let goes_on = recording(&scratch.0, "goes-on", Ending::Recording);
        std::fs::create_dir(scratch.0.join("box/other")).unwrap();
        let command = "test -e \"$STRATA_PART/go\" && echo $STRATA_HOST $STRATA_RECORDING >>\"$STRATA_PART/../../log\"";
        let rules = KeepRules { on_part: Some(command.to_owned()), ..KeepRules::default() };
        let mut archiver = archiver(&relayd, &rules);
        let (now, wall) = (Instant::now(), SystemTime::now());
        archiver.scan(now, wall);
        assert_eq!(archiver.jobs.len(), 2);
        finish_jobs(&mut archiver, now);
        let figures = *relayd.shared.kept.lock().unwrap();
        assert_eq!((figures.waiting, figures.failed, figures.delivered), (2, 2, 0));
        for folder in [&ended, &failed, &goes_on] {
            std::fs::write(folder.join("go"), "").unwrap();
        }
        archiver.scan(now + PAUSE.0 - Duration::from_millis(1), wall);
        assert!(archiver.jobs.is_empty(), "it is tried again too early");
        archiver.scan(now + PAUSE.0, wall);
        finish_jobs(&mut archiver, now + PAUSE.0);
        assert!(ended.join(DELIVERED).exists() && failed.join(DELIVERED).exists());
        assert_eq!(relayd.shared.kept.lock().unwrap().waiting, 0);
        assert!(!goes_on.join(DELIVERED).exists());
        let log = std::fs::read_to_string(scratch.0.join("log")).unwrap();
        let mut lines: Vec<_> = log.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["box ended", "box failed"]);
        // Nothing twice; and the one without an end once nobody has recorded it for a day.
        archiver.scan(now + PAUSE.1, wall);
        assert!(archiver.jobs.is_empty() && archiver.retries.is_empty());
        archiver.scan(now + PAUSE.1, wall + ABANDONED + SETTLED);
        assert_eq!(archiver.jobs.len(), 1);
        finish_jobs(&mut archiver, now);
        assert!(goes_on.join(DELIVERED).exists());
    }

    #[test]
    fn recording_that_goes_on_is_neither_removed_nor_marked() {
        let scratch = Scratch::new("archiver-goes-on");
        let relayd = relay(&scratch);
        let folder = recording(&scratch.0, "failed", Ending::Failed);
        let uuid: strata_model::Uuid = "00000000-0000-4000-8000-000000000007".parse().unwrap();
        let lines = format!("strata relay 1\nrecording {uuid}\n");
        std::fs::write(folder.join(".strata-relay"), lines).unwrap();
        let rules = KeepRules { on_part: Some("true".to_owned()), ..KeepRules::default() };
        let mut archiver = archiver(&relayd, &rules);
        let (now, wall) = (Instant::now(), SystemTime::now());
        archiver.scan(now, wall);
        assert_eq!(archiver.jobs.len(), 1);
        let socket = std::net::TcpStream::connect(relayd.address().unwrap()).unwrap();
        let connected = crate::relay::server::Connected { socket, waiting_since: None };
        relayd.shared.registry().recorders.insert(("box".to_owned(), uuid), connected);
        finish_jobs(&mut archiver, now);
        let rules = KeepRules { size: Some(0), ..KeepRules::default() };
        let other =
            Archiver { rules: &rules, jobs: Vec::new(), retries: HashMap::new(), ..archiver };
        let later = wall + SETTLED * 2;
        other.remove_oldest(&ended_recordings(&scratch.0, later, wall), later);
        assert!(folder.exists() && !folder.join(DELIVERED).exists());
        relayd.shared.registry().recorders.clear();
        other.remove_oldest(&ended_recordings(&scratch.0, later, wall), later);
        assert!(!folder.exists());
    }

    #[test]
    fn recording_without_an_end_is_waited_for_from_the_start_of_the_relay() {
        let scratch = Scratch::new("archiver-start");
        recording(&scratch.0, "goes-on", Ending::Recording);
        let begun = SystemTime::now() + ABANDONED * 3;
        let ended = |wall| ended_recordings(&scratch.0, wall, begun).len();
        assert_eq!((ended(begun + ABANDONED), ended(begun + ABANDONED + SETTLED)), (0, 1));
    }

    #[test]
    fn pauses_grow_to_the_longest_one() {
        let scratch = Scratch::new("archiver-pauses");
        let (relayd, rules) = (relay(&scratch), KeepRules::default());
        let mut archiver = archiver(&relayd, &rules);
        for seconds in [10, 20, 40, 80, 160, 320, 600, 600] {
            archiver.has_failed("x".into(), "why".to_owned(), Instant::now());
            assert_eq!(archiver.retries[Path::new("x")].pause, Duration::from_secs(seconds));
        }
    }

    #[test]
    fn oldest_recordings_are_removed_by_age_and_size_and_never_undelivered() {
        let scratch = Scratch::new("archiver-removes");
        let relayd = relay(&scratch);
        let wall = SystemTime::now();
        let all: Vec<PathBuf> = ["a", "b", "c", "d"]
            .into_iter()
            .map(|name| recording(&scratch.0, name, Ending::Ended))
            .collect();
        let goes_on = recording(&scratch.0, "goes-on", Ending::Recording);
        for (at, folder) in all.iter().enumerate() {
            let mark = std::fs::File::options().write(true).open(folder.join(end_mark::FILE));
            mark.unwrap()
                .set_modified(wall - Duration::from_secs(4000 - at as u64 * 1000))
                .unwrap();
        }
        let there = || all.iter().map(|folder| u8::from(folder.exists())).collect::<Vec<_>>();
        let rules = KeepRules { age: Some(Duration::from_secs(3500)), ..KeepRules::default() };
        archiver(&relayd, &rules).scan(Instant::now(), wall);
        assert_eq!(there(), [0, 1, 1, 1]);
        let now = bytes_below(&scratch.0, 7);
        let rules = KeepRules { size: Some(now - 1), ..KeepRules::default() };
        archiver(&relayd, &rules).scan(Instant::now(), wall);
        assert_eq!(there(), [0, 0, 1, 1]);
        let figures = *relayd.shared.kept.lock().unwrap();
        assert!(figures.removed == 2 && figures.removed_bytes >= 2000, "{figures:?}");
        // Only what the command has taken, only what has ended, and nothing that ended just now.
        std::fs::write(all[3].join(DELIVERED), "").unwrap();
        let on_part = Some("false".to_owned());
        let rules = KeepRules { on_part, age: Some(Duration::ZERO), size: Some(0) };
        let last = archiver(&relayd, &rules);
        last.remove_oldest(&ended_recordings(&scratch.0, wall, wall), wall);
        assert_eq!((there(), goes_on.exists()), (vec![0, 0, 1, 0], true));
        let fresh = recording(&scratch.0, "fresh", Ending::Ended);
        let rules = KeepRules { size: Some(0), ..KeepRules::default() };
        archiver(&relayd, &rules).scan(Instant::now(), wall);
        assert!(fresh.exists() && !all[2].exists());
        // What a relay that was killed has left.
        let left = scratch.0.join("box").join(format!("{REMOVED}a"));
        std::fs::create_dir_all(left.join("kernel")).unwrap();
        assert!(!ended_recordings(&scratch.0, wall, wall).is_empty() && !left.exists());
    }

    #[test]
    fn command_that_runs_when_the_relay_ends_is_ended() {
        let scratch = Scratch::new("archiver-job");
        let one = Ended {
            host: "box".to_owned(),
            path: scratch.0.clone(),
            when: SystemTime::now(),
            is_delivered: false,
        };
        let Begun { child, attempt, .. } = begin("sleep 1000 & sleep 1000", &one).unwrap().unwrap();
        let mut job = Job { one, child, since: Instant::now(), attempt };
        job.end();
        assert!(matches!(job.child.try_wait(), Ok(Some(status)) if status.signal().is_some()));
    }

    #[test]
    fn command_of_a_killed_relay_is_waited_for_and_the_next_attempt_is_said_to_be_one() {
        let scratch = Scratch::new("archiver-killed");
        let relayd = relay(&scratch);
        let ended = recording(&scratch.0, "ended", Ending::Ended);
        // The command, and what it has started, outlive the relay: neither's end is noticed by it.
        let fifo = scratch.0.join("fifo");
        // A program that makes it would inherit the lock that another test has just taken.
        let (kind, mode) = (FileType::Fifo, Mode::RUSR | Mode::WUSR);
        mknodat(CWD, &fifo, kind, mode, 0).unwrap();
        let command = format!(
            "echo $STRATA_ATTEMPT >>{0}/attempts; [ $STRATA_ATTEMPT -gt 1 ] || {{ cat {0}/fifo & }}",
            scratch.0.display()
        );
        let rules = KeepRules { on_part: Some(command), ..KeepRules::default() };
        let (now, wall) = (Instant::now(), SystemTime::now());
        let mut killed = archiver(&relayd, &rules);
        killed.scan(now, wall);
        let mut job = killed.jobs.pop().unwrap();
        assert!(job.child.wait().unwrap().success());
        drop(killed);
        let mut next = archiver(&relayd, &rules);
        next.scan(now, wall);
        assert!(next.jobs.is_empty(), "two commands run for one recording");
        assert!(next.held.contains(&ended), "nobody is told why it is not handed over");
        // The last one of the first attempt ends.
        std::fs::write(&fifo, "").unwrap();
        while next.jobs.is_empty() {
            next.scan(now, wall);
        }
        assert!(next.held.is_empty());
        finish_jobs(&mut next, now);
        let attempts = std::fs::read_to_string(scratch.0.join("attempts")).unwrap();
        assert_eq!(attempts, "1\n2\n");
        let mark = std::fs::read_to_string(ended.join(DELIVERED)).unwrap();
        assert!(mark.ends_with("\nattempts 2\n"), "{mark}");
        assert!(!ended.join(DELIVERING).exists());
    }

    #[test]
    fn attempt_whose_end_is_known_is_none_that_nobody_knows_of() {
        let scratch = Scratch::new("archiver-known");
        let relayd = relay(&scratch);
        let ended = recording(&scratch.0, "ended", Ending::Ended);
        let one = Ended {
            host: "box".to_owned(),
            path: ended.clone(),
            when: changed_at(&ended).unwrap(),
            is_delivered: false,
        };
        let rules = KeepRules::default();
        let mut archiver = archiver(&relayd, &rules);
        let now = Instant::now();
        let mut attempt = |command: &str, since: Instant, wanted: &str| {
            let Begun { child, attempt, is_unknown } = begin(command, &one).unwrap().unwrap();
            assert!(!is_unknown, "before {wanted}");
            archiver.jobs.push(Job { one: one.clone(), child, since, attempt });
            finish_jobs(&mut archiver, now);
            let noted = std::fs::read_to_string(ended.join(DELIVERING)).unwrap();
            assert_eq!(noted.trim_end(), wanted);
        };
        attempt("exit 3", now, "1 failed");
        // It takes longer than it may.
        let long_ago = now.checked_sub(2 * JOB);
        if let Some(long_ago) = long_ago {
            attempt("exec sleep 1000", long_ago, "2 failed");
        }
        // The recording has gone on meanwhile, so that what was taken is not all of it.
        let mark = File::options().write(true).open(ended.join(end_mark::FILE)).unwrap();
        mark.set_modified(one.when + Duration::from_secs(1)).unwrap();
        attempt("true", now, if long_ago.is_some() { "3 taken" } else { "2 taken" });
        assert!(!ended.join(DELIVERED).exists());
    }
}
