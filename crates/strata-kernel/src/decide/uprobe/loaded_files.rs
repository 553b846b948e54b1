//! Finds files that a running process has loaded under a name that leads to another file now.
//!
//! An upgrade replaces a library by a new file of the same name. A running process continues with the old file; a
//! process in another mount namespace may have another file as well. A probe in the file that has the name now is never
//! hit there.

use crate::read::statedump::{code_mapping, CodeMapping};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

/// The most bytes that are read of one process' mappings \[byte\].
const MAPS_BYTES: u64 = 16 << 20;

/// The time limit for reading one process' mappings, since the process' user may stall that.
const PATIENCE: Duration = Duration::from_secs(1);

/// The text that the kernel appends to the name of a deleted file.
const DELETED: &[u8] = b" (deleted)";

/// A file that a process has loaded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LoadedFile {
    pub(crate) pid: u32,
    /// The link below `/proc/PID/map_files` by which the file can be opened, even if it was deleted.
    pub(crate) path: PathBuf,
}

/// Returns files that these processes have loaded under the name `path` and that have been replaced by another file
/// since. Each file is returned once.
pub(crate) fn loaded_instead(path: &Path, pids: &[u32]) -> Vec<LoadedFile> {
    let present = fs::metadata(path).ok();
    let (name, asked) = (path.to_owned(), pids.to_vec());
    let (sender, receiver) = channel();
    let work = move || {
        for pid in asked {
            if sender.send((pid, mappings(pid, &name))).is_err() {
                return;
            }
        }
    };
    let mut all = Vec::new();
    let mut seen: HashSet<_> = present.as_ref().map(identity).into_iter().collect();
    if std::thread::Builder::new().name("strata-maps".into()).spawn(work).is_err() {
        return all;
    }
    while let Ok((pid, found)) = receiver.recv_timeout(PATIENCE) {
        for CodeMapping { start, end, path: name, .. } in found {
            let path = PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
            match fs::metadata(&path) {
                Ok(loaded) if !seen.insert(identity(&loaded)) => {}
                // An overlay shows the file itself under another number.
                Ok(loaded)
                    if !name.ends_with(DELETED)
                        && present.as_ref().is_some_and(|one| is_same_content(&loaded, one)) => {}
                Ok(_) => all.push(LoadedFile { pid, path }),
                // Without the right to follow it, the name alone tells.
                Err(_) if name.ends_with(DELETED) => all.push(LoadedFile { pid, path }),
                Err(_) => {}
            }
        }
    }
    all
}

fn identity(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn is_same_content(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    let stamp = |file: &fs::Metadata| (file.len(), file.mtime(), file.mtime_nsec());
    stamp(one) == stamp(other)
}

/// Returns the code that a process has mapped from files with this name.
fn mappings(pid: u32, name: &Path) -> Vec<CodeMapping> {
    let mut text = Vec::new();
    if let Ok(maps) = fs::File::open(format!("/proc/{pid}/maps")) {
        // What was read until an error is looked at.
        let _ = maps.take(MAPS_BYTES).read_to_end(&mut text);
    }
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter_map(code_mapping).filter(|mapping| is_named(&mapping.path, name)).collect()
}

fn is_named(mapped: &[u8], name: &Path) -> bool {
    let mapped = mapped.strip_suffix(DELETED).unwrap_or(mapped);
    Path::new(OsStr::from_bytes(mapped)) == name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::elf::tests::Folder;
    use std::process::{Child, Command, Stdio};

    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn loaded_instead_is_the_file_that_had_the_name() {
        let folder = Folder::new("loaded-instead");
        let program = fs::read("/bin/cat").unwrap();
        let path = folder.file("program", &program);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).unwrap();
        let child = Command::new(&path).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let child = Running(child.unwrap());
        let pids = [child.0.id()];
        // It has not executed the file at once.
        while fs::read_link(format!("/proc/{}/exe", pids[0])).unwrap() != path {
            std::thread::yield_now();
        }
        let path = fs::canonicalize(path).unwrap();
        assert_eq!(loaded_instead(&path, &pids), []);
        let other = folder.file("other", b"another one");
        fs::rename(other, &path).unwrap();
        let found = loaded_instead(&path, &[pids[0], pids[0], u32::MAX]);
        let [LoadedFile { pid, path: old }] = &found[..] else { panic!("{found:?}") };
        assert_eq!(*pid, pids[0]);
        match fs::read(old) {
            Ok(bytes) => assert_eq!(bytes, program),
            Err(error) => eprintln!("not compared: {error}"),
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(loaded_instead(&path, &pids), found);
        assert_eq!(loaded_instead(Path::new("/no/such"), &pids), []);
    }

    #[test]
    fn name_of_a_mapping_is_compared_as_a_whole() {
        let name = Path::new("/usr/lib/x.so");
        assert!(is_named(b"/usr/lib/x.so", name));
        assert!(is_named(b"/usr/lib/x.so (deleted)", name));
        assert!(!is_named(b"/usr/lib/x.so.1", name));
        assert!(!is_named(b"/usr/lib/x.so (deleted) (deleted)", name));
        assert!(!is_named(b"[vdso]", name));
    }
}
