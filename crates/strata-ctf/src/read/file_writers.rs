//! Finds out whether a process has a file open for writing, as far as /proc shows it to this user.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The most open files that are examined.
const LOOKED_AT: usize = 1 << 17;

/// The mask of the access mode in an open file's flags, and the mode of reading only.
const ACCESS: u32 = 0o3;
const READ_ONLY: u32 = 0;

/// Returns whether a process has the file open for writing.
pub(crate) fn any(file: &Metadata) -> bool {
    let numbers = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let entries = entries.map(|entry| entry.file_name());
        entries.filter(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
    };
    let processes = numbers(Path::new("/proc")).map(|pid| Path::new("/proc").join(pid));
    let open = processes.flat_map(|process| {
        numbers(&process.join("fd"))
            .map(move |number| (process.clone(), number))
            .collect::<Vec<_>>()
    });
    open.take(LOOKED_AT).any(|(process, number)| {
        let found = fs::metadata(process.join("fd").join(&number));
        found.is_ok_and(|found| (found.dev(), found.ino()) == (file.dev(), file.ino()))
            && is_for_writing(&process.join("fdinfo").join(&number))
    })
}

/// Returns whether an open file may be written, from the `flags:` line (an octal number) of `/proc/PID/fdinfo`.
fn is_for_writing(info: &Path) -> bool {
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & ACCESS != READ_ONLY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn file_that_is_open_for_writing_has_a_writer() {
        let path = std::env::temp_dir().join(format!("strata-ctf-writers-{}", std::process::id()));
        let writer = File::create(&path).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        let while_open = any(&metadata);
        drop(writer);
        let reader = File::open(&path).unwrap();
        let behind = any(&metadata);
        drop(reader);
        fs::remove_file(&path).unwrap();
        assert!(while_open && !behind);
    }
}
