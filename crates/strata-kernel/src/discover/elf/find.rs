//! Finds programs and libraries by their name alone.

use crate::arch;
use crate::discover::elf::ElfError;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const CACHE: &str = "/etc/ld.so.cache";
/// Folders of libraries that are searched besides the linker's cache.
const FOLDERS: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// Returns the path of the file: `name` itself if there is a `/` in it, else a program in PATH, else a library, which
/// may be named `libc.so.6`, `libc.so`, `libc` or `c`.
///
/// # Errors
/// [`ElfError::NotFound`], [`ElfError::SeveralLibraries`]; for a path, that there is no such file.
pub fn find(name: &str) -> Result<PathBuf, ElfError> {
    let name = name.trim();
    if name.contains('/') {
        return by_path(name).map_err(|error| ElfError::Open { path: name.into(), error });
    }
    let found = if is_library(name) { None } else { program(name) };
    match found {
        Some(path) => Ok(path),
        None => library(name, &cached().unwrap_or_default()),
    }
}

/// Returns the absolute path without symbolic links. A path through links of /proc such as /proc/PID/exe,
/// /proc/PID/root and /proc/PID/map_files/A-B is kept: these links lead to a file, while their text may name another
/// file or none.
fn by_path(name: &str) -> io::Result<PathBuf> {
    let identity = |path: &Path| path.metadata().map(|file| (file.dev(), file.ino()));
    let meant = identity(Path::new(name))?;
    match std::fs::canonicalize(name) {
        Ok(path) if identity(&path).is_ok_and(|found| found == meant) => Ok(path),
        _ => std::path::absolute(name),
    }
}

/// Returns the absolute path of a file that need not exist any more; `None` for a name without a path.
pub fn find_name(name: &str) -> Option<PathBuf> {
    let path = std::path::absolute(name.trim()).ok().filter(|_| name.contains('/'))?;
    let folder = std::fs::canonicalize(path.parent()?).ok()?;
    Some(folder.join(path.file_name()?))
}

/// Returns whether the name is a library's, such as `libc.so.6` or `libc.so`.
fn is_library(name: &str) -> bool {
    name.ends_with(".so") || name.contains(".so.")
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let is_program = |path: &PathBuf| {
        let found = std::fs::metadata(path);
        !name.is_empty()
            && found.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(is_program);
    std::fs::canonicalize(found?).ok()
}

fn library(name: &str, cached: &[(String, PathBuf)]) -> Result<PathBuf, ElfError> {
    if name.is_empty() {
        return Err(ElfError::NotFound { name: name.into() });
    }
    let not_found = || ElfError::NotFound { name: name.into() };
    let (whole, stem) = if is_library(name) {
        (name.to_owned(), format!("{name}."))
    } else if name.starts_with("lib") {
        (format!("{name}.so"), format!("{name}.so."))
    } else {
        (format!("lib{name}.so"), format!("lib{name}.so."))
    };
    if let Some(path) = one(cached, |key| key == whole) {
        return path.ok_or_else(not_found);
    }
    let found: BTreeSet<PathBuf> = cached
        .iter()
        .filter(|(key, _)| key.starts_with(&stem))
        .filter_map(|(_, path)| std::fs::canonicalize(path).ok())
        .collect();
    match found.len() {
        0 => in_folders(&whole).ok_or_else(not_found),
        1 => found.into_iter().next().ok_or_else(not_found),
        _ => {
            let paths = found.iter().map(|path| path.display().to_string()).collect();
            Err(ElfError::SeveralLibraries { name: name.into(), paths })
        }
    }
}

/// Returns the first existing library in the linker's cache for whose name `is_it` is true.
fn one(cached: &[(String, PathBuf)], is_it: impl Fn(&str) -> bool) -> Option<Option<PathBuf>> {
    let (_, path) = cached.iter().find(|(key, path)| is_it(key) && path.exists())?;
    Some(std::fs::canonicalize(path).ok())
}

fn in_folders(name: &str) -> Option<PathBuf> {
    let folders = arch::here_or_any().library_folders.into_iter().chain(FOLDERS);
    let found = folders.map(|folder| Path::new(folder).join(name)).find(|path| path.is_file());
    std::fs::canonicalize(found?).ok()
}

/// Reads the linker's cache of libraries, which `ldconfig -p` prints, if it has this machine's format.
fn cached() -> Option<Vec<(String, PathBuf)>> {
    Some(parse_cache(&std::fs::read(CACHE).ok()?))
}

/// Parses the linker's cache in the format of glibc's `sysdeps/generic/dl-cache.h`: a header of 48 bytes, then
/// entries of 24 bytes each: flags, name, path, 4 bytes, u64 of the CPU's abilities. Names and paths are positions
/// counted from the header.
fn parse_cache(bytes: &[u8]) -> Vec<(String, PathBuf)> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const HEADER: usize = 48;
    const ENTRY: usize = 24;
    // An older format may come in front of it.
    let Some(begin) = bytes.windows(MAGIC.len()).position(|window| window == MAGIC) else {
        return vec![];
    };
    let bytes = bytes.get(begin..).unwrap_or_default();
    let word = |at: usize| {
        let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
        word.map(u32::from_le_bytes)
    };
    let text =
        |at: u32| bytes.get(at as usize..).and_then(|text| text.split(|byte| *byte == 0).next());
    let count = word(MAGIC.len()).unwrap_or(0) as usize;
    let entries = bytes.get(HEADER..).unwrap_or_default().chunks_exact(ENTRY).take(count);
    let mut all: Vec<(bool, String, PathBuf)> = Vec::new();
    for index in 0..entries.len() {
        let at = HEADER + index * ENTRY;
        let (Some(flags), Some(key), Some(path)) = (word(at), word(at + 4), word(at + 8)) else {
            break;
        };
        let is_special = word(at + 16) != Some(0) || word(at + 20) != Some(0);
        if flags & 0xff00 == arch::here_or_any().library_flags {
            if let (Some(key), Some(path)) = (text(key), text(path)) {
                let key = String::from_utf8_lossy(key).into_owned();
                all.push((is_special, key, OsStr::from_bytes(path).into()));
            }
        }
    }
    // Those for any CPU first.
    all.sort_by_key(|(is_special, ..)| *is_special);
    all.into_iter().map(|(_, key, path)| (key, path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::elf::tests::Folder;

    #[test]
    fn find_of_the_c_library_by_any_of_its_names_gives_the_same_file() {
        let wanted = match std::fs::canonicalize("/lib/x86_64-linux-gnu/libc.so.6") {
            Ok(path) => path,
            Err(error) => return eprintln!("skip: libc.so.6 is elsewhere: {error}"),
        };
        for name in ["libc.so.6", "libc.so", "libc", "c", "/lib/x86_64-linux-gnu/libc.so.6"] {
            assert_eq!(find(name).unwrap(), wanted, "{name}");
        }
    }

    #[test]
    fn find_of_a_link_of_proc_is_the_file_and_not_the_text() {
        let folder = Folder::new("find-proc");
        let path = folder.file("one", b"first");
        let file = std::fs::File::open(&path).unwrap();
        let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        assert_eq!(find(&link).unwrap(), path.canonicalize().unwrap());
        // The link's text is "... (deleted)", and then that of another file.
        std::fs::rename(folder.file("two", b"other"), &path).unwrap();
        assert_eq!(std::fs::read(find(&link).unwrap()).unwrap(), b"first");
        folder.file("one (deleted)", b"third");
        assert_eq!(std::fs::read(find(&link).unwrap()).unwrap(), b"first");
        let own = find("/proc/self/exe").unwrap();
        assert_eq!(own, std::env::current_exe().unwrap().canonicalize().unwrap());
    }

    #[test]
    fn find_of_a_program_looks_in_path() {
        let found = find("sh").unwrap();
        assert_eq!(found, std::fs::canonicalize("/bin/sh").unwrap());
    }

    #[test]
    fn find_of_nothing_says_so() {
        let message = find("no-such-thing").unwrap_err().to_string();
        assert!(message.starts_with("there is no program 'no-such-thing' in PATH"), "{message}");
        assert!(matches!(find(""), Err(ElfError::NotFound { .. })));
        let message = find("./no-such-thing").unwrap_err().to_string();
        assert!(message.starts_with("./no-such-thing: No such file"), "{message}");
    }

    #[test]
    fn library_of_two_versions_asks_which() {
        let cached =
            [("libx.so.1".into(), "/bin/sh".into()), ("libx.so.2".into(), "/bin/true".into())];
        assert!(matches!(library("x", &cached), Err(ElfError::SeveralLibraries { .. })));
        assert!(library("libx.so.2", &cached).unwrap().ends_with("true"));
    }

    #[test]
    fn malicious_cache_is_cut() {
        assert!(parse_cache(b"glibc-ld.so.cache1.1").is_empty());
        let mut bytes = b"glibc-ld.so.cache1.1".to_vec();
        bytes.extend([0xff; 100]);
        assert!(parse_cache(&bytes).is_empty());
        let real = std::fs::read(CACHE).unwrap_or_default();
        for cut in (0..real.len()).step_by(97) {
            let _ = parse_cache(&real[..cut]);
        }
    }
}
