//! Finds programs that do not call preloaded functions, because they define these functions themselves or are Go
//! programs.
//!
//! A loader looks for a function in the program first, then in preloaded objects. So a program that exports malloc()
//! never calls the recording one.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use strata_kernel::elf::Elf;

/// Functions of libc that the preloaded objects replace for their own purposes and do not record.
const HELPERS: [&str; 13] = [
    "_exit", "_Exit", "execl", "execle", "execlp", "execv", "execve", "execvp", "execvpe",
    "fexecve", "dlopen", "dlclose", "dlsym",
];
/// The preloaded object that records dlopen(), dlclose() and dlsym().
const OF_LOADING: &str = "libstrata-libc-dl.so";
/// The most program files whose results are remembered.
const PROGRAMS_MAX: usize = 10_000;
/// The most functions that are listed by name.
const NAMES_SHOWN: usize = 3;

/// The functions of libc that preloaded objects record, and results for programs that do not call them.
#[derive(Debug, Default)]
pub(crate) struct OwnFunctions {
    objects: Vec<PathBuf>,
    recorded: Option<BTreeSet<String>>,
    /// Results by the program file's device, inode and time of the last change \[ns\].
    programs: HashMap<(u64, u64, i64), Option<String>>,
}

impl OwnFunctions {
    /// Creates the state for the preloaded `objects`.
    pub(crate) fn new(objects: Vec<PathBuf>) -> OwnFunctions {
        OwnFunctions { objects, ..OwnFunctions::default() }
    }

    /// Returns why the program at `path` does not call the preloaded functions, such as static linking; `None` if it
    /// calls them, or cannot be read.
    pub(crate) fn reason(&mut self, path: &Path) -> Option<String> {
        let found = path.metadata().ok()?;
        let key = (found.dev(), found.ino(), found.ctime_nsec() ^ (found.ctime() << 30));
        if let Some(known) = self.programs.get(&key) {
            return known.clone();
        }
        let objects = &self.objects;
        let recorded = self.recorded.get_or_insert_with(|| {
            objects.iter().flat_map(|object| recorded_functions(object)).collect()
        });
        let reason = look_at(path, recorded);
        if self.programs.len() < PROGRAMS_MAX {
            self.programs.insert(key, reason.clone());
        }
        reason
    }
}

/// Returns the functions that an object records.
fn recorded_functions(object: &Path) -> BTreeSet<String> {
    let exported = Elf::open(object).and_then(|elf| elf.exported_functions());
    let mut names = exported.unwrap_or_default();
    let is_of_loading = object.file_name().is_some_and(|name| name == OF_LOADING);
    names.retain(|name| {
        !HELPERS.contains(&name.as_str()) || (is_of_loading && name.starts_with("dl"))
    });
    names
}

fn look_at(program: &Path, recorded: &BTreeSet<String>) -> Option<String> {
    let elf = Elf::open(program).ok()?;
    if elf.is_go() {
        return Some(
            "it is a Go program, whose own code allocates, locks and calls the kernel without libc: only what its code in C \
             does is recorded"
                .to_owned(),
        );
    }
    let exported = elf.exported_functions().ok()?;
    // The best known names come first.
    let known = ["malloc", "free", "read", "write", "pthread_mutex_lock", "printf"];
    let mut own: Vec<&str> = exported.intersection(recorded).map(String::as_str).collect();
    own.sort_by_key(|name| known.iter().position(|one| one == name).unwrap_or(known.len()));
    let shown = own.iter().take(NAMES_SHOWN).map(|name| format!("{name}()"));
    let mut shown: Vec<String> = shown.collect();
    let more = own.len().saturating_sub(NAMES_SHOWN);
    let last = match more {
        0 => shown.pop()?,
        1 => "1 more function".to_owned(),
        more => format!("{more} more functions"),
    };
    let list = match shown.as_slice() {
        [] => last,
        shown => format!("{} and {last}", shown.join(", ")),
    };
    Some(format!(
        "it has {list} of its own, and calls those in place of libc's, which are recorded"
    ))
}

/// Returns whether the program was made by the Go compiler, at least in part.
pub(crate) fn is_go(program: &Path) -> bool {
    Elf::open(program).is_ok_and(|elf| elf.is_go())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Returns the path of a shared object with many functions: this machine's libc.
    fn libc() -> PathBuf {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let found = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
        found.into_iter().find(|path| path.contains("/libc")).unwrap().into()
    }

    #[test]
    fn functions_that_a_file_exports_are_named_and_the_rest_counted() {
        for (recorded, wanted) in [
            (names(&["calloc"]), "it has calloc() of its own"),
            (names(&["calloc", "malloc"]), "it has malloc() and calloc() of its own"),
            (
                names(&["aligned_alloc", "calloc", "free", "malloc", "no_such"]),
                "it has malloc(), free(), aligned_alloc() and 1 more function of its own",
            ),
            (
                names(&["calloc", "free", "malloc", "read", "write"]),
                "it has malloc(), free(), read() and 2 more functions of its own",
            ),
        ] {
            let text = look_at(&libc(), &recorded).unwrap();
            assert!(text.starts_with(wanted), "{text}");
        }
        assert_eq!(look_at(&libc(), &names(&["no_such"])), None);
        assert_eq!(look_at(Path::new("/"), &names(&["malloc"])), None);
    }

    #[test]
    fn helpers_are_recorded_by_the_object_of_loading_alone() {
        let scratch = crate::scratch_tests::Scratch::new("own-functions");
        let (loading, other) = (scratch.0.join(OF_LOADING), scratch.0.join("other.so"));
        std::os::unix::fs::symlink(libc(), &loading).unwrap();
        std::os::unix::fs::symlink(libc(), &other).unwrap();
        let (loading, other) = (recorded_functions(&loading), recorded_functions(&other));
        assert!(loading.contains("dlopen") && !loading.contains("execve"));
        assert!(other.contains("malloc") && !other.contains("dlopen") && !other.contains("_exit"));
    }

    #[test]
    fn program_is_looked_at_once_and_again_when_it_has_changed() {
        let scratch = crate::scratch_tests::Scratch::new("own-functions-twice");
        let program = scratch.0.join("program");
        let mut own = OwnFunctions::new(vec![libc()]);
        std::fs::write(&program, "no program").unwrap();
        assert_eq!(own.reason(&program), None);
        std::fs::remove_file(&program).unwrap();
        assert_eq!((own.reason(&program), own.programs.len()), (None, 1));
        std::fs::copy(libc(), &program).unwrap();
        assert!(own.reason(&program).is_some() && own.reason(&program).is_some());
        assert_eq!(own.programs.len(), 2);
    }
}
