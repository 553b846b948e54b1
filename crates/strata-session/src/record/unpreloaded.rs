//! Finds programs of a command into which nothing was preloaded, or without effect, and the reason: their use of libc
//! is not recorded.
//!
//! A loader maps preloaded objects before libc. So a program that maps libc without any of the objects is examined at
//! that moment, while it is still being loaded: its environment, and whether its root folder has the objects.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use strata_kernel::executed_programs::{Started, StartedNews, StartedRecord};

use crate::record::command::changes_user;
use crate::record::own_functions::{is_go, OwnFunctions};
use crate::record::preload::{EMPTY, RUNTIME};
use crate::report::NotReached;

/// The most processes that are reported by name; further ones are counted.
const NAMED_MAX: usize = 1_000;
/// The most mapped files of a program that are examined. Preloaded objects are mapped before all other libraries.
const FILES_MAX: usize = 16;
/// The period of checking for the kernel's reports of started programs, while there are none.
const IDLE: Duration = Duration::from_millis(100);

/// The findings about preloading in a program, made while it was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// The program's environment does not name our objects.
    NoVariable,
    /// The program's environment names our objects, which are missing from its root folder.
    NoObjects,
    /// The program's environment names our objects, which exist.
    Both,
}

/// A running program, with the files that it has mapped, in order.
#[derive(Debug, Default)]
struct LoadedProgram {
    name: Vec<u8>,
    files: Vec<Vec<u8>>,
    seen: Option<Seen>,
    /// The finding about the program's parent; environment and root folder are inherited from it.
    inherited: Option<Seen>,
    /// The reason why the program calls no preloaded function; `Some(None)` if it calls some, `None` if it was not
    /// examined.
    own: Option<Option<String>>,
}

impl LoadedProgram {
    /// Returns the finding about this program, if it also holds for the programs that this program starts.
    fn passes_on(&self) -> Option<Seen> {
        let passed = |seen: &Seen| *seen != Seen::Both && !self.has(RUNTIME);
        self.seen.or(self.inherited).filter(passed)
    }

    fn has(&self, object: &str) -> bool {
        self.files.iter().any(|path| file_name(path) == object.as_bytes())
    }

    /// Returns why no object was preloaded; `None` if one was, or if the program ended before its loader could
    /// do so.
    fn reason(&self) -> Option<&'static str> {
        let program = self.files.first().map(|path| path_of(path));
        let Some(loader) = self.files.get(1).map(|path| file_name(path)) else {
            return Some(match self.files.is_empty() {
                // The kernel hides from this user what such a program does and starts.
                true => "it runs as another user (set-user-ID), and the loader preloads nothing for such programs, nor may one see what they start",
                false if program.is_some_and(is_go) => {
                    "it is a Go program, linked statically, and has no loader that preloads anything"
                }
                false => "it is linked statically, and has no loader that preloads anything",
            });
        };
        let is_musl = loader.starts_with(b"ld-musl") || loader == b"libc.so";
        let is_narrow = loader == b"ld-linux.so.2" || loader.starts_with(b"ld-linux-armhf");
        if self.has(RUNTIME) {
            return None;
        }
        if is_musl {
            return Some("its libc is musl, in which the objects for glibc do not work");
        }
        if is_narrow || self.has(EMPTY) {
            return Some("it is a 32-bit program, and the objects are for 64 bits");
        }
        // The program ended at its very beginning.
        if self.files.len() < 3 {
            return None;
        }
        let changes = || program.is_some_and(changes_user);
        Some(match self.seen.or(self.inherited) {
            Some(Seen::NoVariable) => {
                "its environment has no LD_PRELOAD of strata's: who started it took that away (env -i, sudo)"
            }
            Some(Seen::NoObjects) => {
                "it has another root folder, in which the objects are not: a container, or chroot"
            }
            _ if changes() => {
                "it runs as another user (set-user-ID), and the loader preloads nothing for such programs"
            }
            Some(Seen::Both) => "its loader has preloaded nothing, though it was told to",
            None => {
                "its loader has preloaded nothing, and it had ended before it could be looked at: the objects are not in its root \
                 folder (a container), or its environment has no LD_PRELOAD of strata's (env -i, sudo)"
            }
        })
    }
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// Returns whether the file is libc, which is mapped after all preloaded objects.
fn is_libc(path: &[u8]) -> bool {
    let name = file_name(path);
    name == b"libc.so.6" || name.starts_with(b"libc-2.")
}

/// A process whose program is being loaded: the program's file, and how far loading has come.
#[derive(Debug, Default)]
struct Loading {
    program: Option<PathBuf>,
    is_reached: bool,
}

/// All programs that the observed command has started, and those into which nothing was preloaded.
#[derive(Debug, Default)]
struct Programs {
    running: HashMap<u32, LoadedProgram>,
    /// State of loading of each process since its last exec.
    loading: HashMap<u32, Loading>,
    /// The findings when the kernel reported the start, by process and time.
    seen: HashMap<(u32, u64), Seen>,
    /// Reasons why programs call no preloaded function, by process and time; `None` if they do call some.
    own: HashMap<(u32, u64), Option<String>>,
    own_functions: OwnFunctions,
    /// The findings about the parents of processes that have not executed a program yet.
    forked: HashMap<u32, Seen>,
    found: Vec<NotReached>,
    nr_more: u64,
}

impl Programs {
    /// Examines the process that a record of the kernel reports, while the process exists.
    fn look(&mut self, record: &StartedRecord, object: &Path) {
        match &record.news {
            StartedNews::Executed(_) => {
                self.loading.insert(record.pid, Loading::default());
            }
            StartedNews::Ended => drop(self.loading.remove(&record.pid)),
            StartedNews::Forked(_) => {}
            StartedNews::Mapped(path) => {
                let Some(loading) = self.loading.get_mut(&record.pid) else { return };
                let program = loading.program.get_or_insert_with(|| path_of(path).to_owned());
                loading.is_reached |= file_name(path) == RUNTIME.as_bytes();
                let key = (record.pid, record.time);
                if is_libc(path) && !loading.is_reached {
                    self.seen.extend(look_at(record.pid, object).map(|seen| (key, seen)));
                } else if is_libc(path) {
                    let own = own_functions_of(record.pid, program, &mut self.own_functions);
                    self.own.extend(own.map(|own| (key, own)));
                }
            }
        }
    }

    fn note(&mut self, record: StartedRecord) {
        let seen = self.seen.remove(&(record.pid, record.time));
        let own = self.own.remove(&(record.pid, record.time));
        match record.news {
            StartedNews::Executed(name) => {
                let before = self.running.get(&record.pid).and_then(LoadedProgram::passes_on);
                let inherited = before.or(self.forked.remove(&record.pid));
                let begun = LoadedProgram { name, inherited, ..LoadedProgram::default() };
                let before = self.running.insert(record.pid, begun);
                self.judge(record.pid, before);
            }
            StartedNews::Forked(child) => {
                let parent = self.running.get(&record.pid).map(LoadedProgram::passes_on);
                let passed = parent.unwrap_or_else(|| self.forked.get(&record.pid).copied());
                self.forked.extend(passed.map(|seen| (child, seen)));
            }
            StartedNews::Mapped(path) => {
                let Some(program) = self.running.get_mut(&record.pid) else { return };
                program.seen = seen.or(program.seen);
                program.own = own.or(program.own.take());
                if program.files.len() < FILES_MAX && !program.files.contains(&path) {
                    program.files.push(path);
                }
            }
            StartedNews::Ended => {
                self.forked.remove(&record.pid);
                let ended = self.running.remove(&record.pid);
                self.judge(record.pid, ended);
            }
        }
    }

    fn judge(&mut self, pid: u32, program: Option<LoadedProgram>) {
        let Some(program) = program else { return };
        let Some(reason) = program.reason().map(str::to_owned).or_else(|| self.own(&program))
        else {
            return;
        };
        if self.found.len() >= NAMED_MAX {
            self.nr_more += 1;
            return;
        }
        let name = String::from_utf8_lossy(&program.name).into_owned();
        self.found.push(NotReached { pid, name, reason });
    }

    /// Returns why a program calls no function of the objects that were preloaded into it; `None` if it calls one.
    fn own(&mut self, program: &LoadedProgram) -> Option<String> {
        if !program.has(RUNTIME) {
            return None;
        }
        let by_name = || program.files.first().map(|path| self.own_functions.reason(path_of(path)));
        program.own.clone().or_else(by_name)?
    }

    fn finish(mut self) -> (Vec<NotReached>, u64) {
        let mut running: Vec<_> = std::mem::take(&mut self.running).into_iter().collect();
        running.sort_by_key(|(pid, _)| *pid);
        for (pid, program) in running {
            self.judge(pid, Some(program));
        }
        (self.found, self.nr_more)
    }
}

/// Returns why a process that is being loaded calls no preloaded function. The outer `None` means that it has ended
/// or now executes another program than `program`.
///
/// The file is held open while it is read, since a process can end at any moment, and an answer on what could no longer
/// be read would be kept as one on the file.
fn own_functions_of(
    pid: u32,
    program: &Path,
    own_functions: &mut OwnFunctions,
) -> Option<Option<String>> {
    let file = File::open(format!("/proc/{pid}/exe")).ok()?;
    let held = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let is_same = held.read_link().is_ok_and(|path| path == program);
    is_same.then(|| own_functions.reason(&held))
}

/// Examines whether the process `pid`, which is being loaded, gets the preloaded `object`. Returns `None` if it has
/// ended or may not be examined.
fn look_at(pid: u32, object: &Path) -> Option<Seen> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    // A process that has ended has neither an environment nor a program file.
    if environment.is_empty() && std::fs::read_link(format!("/proc/{pid}/exe")).is_err() {
        return None;
    }
    let wanted = object.file_name()?.as_bytes();
    let mut variables = environment.split(|&byte| byte == 0);
    let is_told = variables.any(|one| {
        one.starts_with(b"LD_PRELOAD=") && one.windows(wanted.len()).any(|part| part == wanted)
    });
    if !is_told {
        return Some(Seen::NoVariable);
    }
    let place = PathBuf::from(format!("/proc/{pid}/root")).join(object.strip_prefix("/").ok()?);
    Some(match place.symlink_metadata() {
        Ok(_) => Seen::Both,
        Err(why) if why.kind() == io::ErrorKind::NotFound => Seen::NoObjects,
        Err(_) => return None,
    })
}

/// A thread that follows the programs that the next command of this thread starts.
#[derive(Debug)]
pub(crate) struct Unpreloaded {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<(Programs, u64)>,
}

impl Unpreloaded {
    /// Starts the thread. `objects`: the files that the command preloads.
    ///
    /// # Errors
    /// The kernel does not report process events to this user.
    pub(crate) fn follow(objects: Vec<PathBuf>) -> io::Result<Unpreloaded> {
        let object = objects.first().cloned().unwrap_or_default();
        let mut started = Started::follow()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let work = move || {
            let own_functions = OwnFunctions::new(objects);
            let mut programs = Programs { own_functions, ..Programs::default() };
            loop {
                let is_last = told.load(Ordering::Relaxed);
                for record in started.read(is_last, |record| programs.look(record, &object)) {
                    programs.note(record);
                }
                if is_last {
                    return (programs, started.discarded());
                }
                started.wait(IDLE);
            }
        };
        let thread = std::thread::Builder::new().name("strata-started".into()).spawn(work)?;
        Ok(Unpreloaded { is_over, thread })
    }

    /// Returns the processes into which nothing was preloaded, and remarks.
    pub(crate) fn finish(self) -> (Vec<NotReached>, Vec<String>) {
        self.is_over.store(true, Ordering::Relaxed);
        let mut remarks = Vec::new();
        let Ok((programs, discarded)) = self.thread.join() else {
            return (Vec::new(), remarks);
        };
        let (found, nr_more) = programs.finish();
        if nr_more > 0 {
            remarks
                .push(format!("{nr_more} more programs, not named here, have preloaded nothing"));
        }
        if discarded > 0 {
            remarks.push(format!(
                "{discarded} of the kernel's records of programs that began found no room: there may be programs that preloaded \
                 nothing and are not named"
            ));
        }
        (found, remarks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
    const LIBC: &str = "/lib/libc.so.6";

    fn program(files: &[&str], seen: Option<Seen>) -> LoadedProgram {
        let files = files.iter().map(|path| path.as_bytes().to_vec()).collect();
        LoadedProgram { files, seen, ..LoadedProgram::default() }
    }

    #[test]
    fn reason_is_what_the_mapped_files_and_the_look_say() {
        let runtime = format!("/opt/lib/{RUNTIME}");
        for (files, seen, wanted) in [
            (vec!["/bin/a", LOADER, &runtime, LIBC], None, None),
            (vec!["/bin/a", LOADER], None, None),
            (vec!["/bin/a"], None, Some("linked statically")),
            (vec![], None, Some("set-user-ID")),
            (vec!["/bin/a", "/lib/ld-musl-x86_64.so.1"], None, Some("musl")),
            (vec!["/bin/a", "/lib/ld-linux.so.2", LIBC], Some(Seen::Both), Some("32-bit")),
            (vec!["/bin/a", LOADER, LIBC], Some(Seen::NoVariable), Some("has no LD_PRELOAD")),
            (vec!["/bin/a", LOADER, LIBC], Some(Seen::NoObjects), Some("another root")),
            (vec!["/bin/a", LOADER, LIBC], Some(Seen::Both), Some("though it was told to")),
            (vec!["/bin/a", LOADER, LIBC], None, Some("had ended before")),
        ] {
            let found = program(&files, seen).reason();
            let holds = found.unwrap_or_default().contains(wanted.unwrap_or_default());
            assert!(found.is_some() == wanted.is_some() && holds, "{files:?}: {found:?}");
        }
    }

    /// Returns the processes that are reported after these reports of the kernel, in order.
    fn noted(all: &[(u32, StartedNews)]) -> Vec<(u32, String)> {
        let mut programs = Programs::default();
        for (time, (pid, news)) in all.iter().enumerate() {
            programs.note(StartedRecord { time: time as u64, pid: *pid, news: news.clone() });
        }
        let (found, nr_more) = programs.finish();
        assert_eq!(nr_more, 0);
        found.into_iter().map(|one| (one.pid, one.reason)).collect()
    }

    #[test]
    fn what_was_seen_of_a_program_holds_of_what_it_starts_and_not_of_what_starts_it() {
        let executed = |name: &str| StartedNews::Executed(name.into());
        let mapped = |path: &str| StartedNews::Mapped(path.into());
        let dynamic = |pid| [(pid, mapped("/bin/a")), (pid, mapped(LOADER)), (pid, mapped(LIBC))];
        let mut all = vec![(1, executed("env")), (1, mapped("/bin/env"))];
        all.extend([
            (1, mapped(LOADER)),
            (1, mapped(&format!("/opt/{RUNTIME}"))),
            (1, mapped(LIBC)),
        ]);
        // The second program of 1 has no variable, nor has what it starts, directly or not.
        all.push((1, executed("sh")));
        all.extend(dynamic(1));
        let at = all.len() as u64 - 1;
        all.extend([(1, StartedNews::Forked(2)), (2, StartedNews::Forked(3))]);
        for pid in [2, 3] {
            all.push((pid, executed("cat")));
            all.extend(dynamic(pid));
            all.push((pid, StartedNews::Ended));
        }
        let mut programs = Programs::default();
        programs.seen.insert((1, at), Seen::NoVariable);
        for (time, (pid, news)) in all.iter().enumerate() {
            programs.note(StartedRecord { time: time as u64, pid: *pid, news: news.clone() });
        }
        let (found, _) = programs.finish();
        assert_eq!(found.iter().map(|one| one.pid).collect::<Vec<_>>(), [2, 3, 1]);
        assert!(found.iter().all(|one| one.reason.contains("has no LD_PRELOAD")), "{found:?}");
        // Without the look the same is said of none.
        let found = noted(&all);
        assert!(found.iter().all(|(_, reason)| reason.contains("had ended before")), "{found:?}");
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn so_many_are_named_and_the_others_counted() {
        let mut programs = Programs::default();
        for pid in 0..NAMED_MAX as u32 + 7 {
            for news in [
                StartedNews::Executed(b"a".to_vec()),
                StartedNews::Mapped(b"/a".to_vec()),
                StartedNews::Ended,
            ] {
                programs.note(StartedRecord { time: 0, pid, news });
            }
        }
        let (found, nr_more) = programs.finish();
        assert_eq!((found.len(), nr_more), (NAMED_MAX, 7));
    }

    #[test]
    fn functions_of_a_process_that_has_ended_are_not_known() {
        let mut own_functions = OwnFunctions::default();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let program = std::fs::read_link(format!("/proc/{}/exe", child.id())).unwrap();
        let mut found = |program: &Path| own_functions_of(child.id(), program, &mut own_functions);
        assert_eq!((found(&program), found(Path::new("/other"))), (Some(None), None));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(own_functions_of(child.id(), &program, &mut own_functions), None);
    }

    #[test]
    fn process_is_looked_at_by_its_environment_and_its_root() {
        let object = std::env::current_exe().unwrap();
        let name = object.file_name().unwrap().to_string_lossy().into_owned();
        let seen_of = |value: Option<&str>, object: &Path| {
            let mut command = std::process::Command::new("sleep");
            command.arg("60").env_clear();
            command.envs(value.map(|value| ("LD_PRELOAD_OF_NOBODY", value)));
            command.envs(value.map(|value| ("LD_PRELOAD", format!("/nowhere/{value}"))));
            let mut child = command.spawn().unwrap();
            // spawn() returns before the kernel has noted where the new program's environment is.
            let environment = format!("/proc/{}/environ", child.id());
            while value.is_some() && std::fs::read(&environment).unwrap().is_empty() {
                std::thread::yield_now();
            }
            let seen = look_at(child.id(), object);
            child.kill().unwrap();
            child.wait().unwrap();
            (seen, look_at(child.id(), object))
        };
        assert_eq!(seen_of(None, &object), (Some(Seen::NoVariable), None));
        assert_eq!(seen_of(Some("other.so"), &object), (Some(Seen::NoVariable), None));
        assert_eq!(seen_of(Some(&name), &object), (Some(Seen::Both), None));
        let elsewhere = Path::new("/nowhere").join(&name);
        assert_eq!(seen_of(Some(&name), &elsewhere), (Some(Seen::NoObjects), None));
    }
}
