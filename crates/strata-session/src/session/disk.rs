//! How much of the disk a recording has taken, and when that is enough: `record --max-size`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often the files themselves are looked at, at most.
const LOOK_PERIOD: Duration = Duration::from_millis(500);
/// Looking at them may take this part of the time.
const LOOK_SHARE: u32 = 50;
/// A trace has folders in its folder, and these have files.
const DEPTH_MAX: u32 = 4;

/// Watches the size of a trace.
#[derive(Debug)]
pub(crate) struct DiskLimit {
    max: u64,
    folder: PathBuf,
    /// What is on disk besides packets, when it was looked at last: metadata.
    besides: u64,
    next_look: Instant,
}

impl DiskLimit {
    /// At most so many bytes in this folder.
    pub(crate) fn new(max: u64, folder: &Path) -> DiskLimit {
        DiskLimit { max, folder: folder.to_owned(), besides: 0, next_look: Instant::now() }
    }

    /// Is it enough? `packets`: bytes of all packets that are written.
    pub(crate) fn is_reached(&mut self, packets: u64) -> bool {
        let begin = Instant::now();
        if begin >= self.next_look {
            self.besides = bytes(&self.folder, DEPTH_MAX).saturating_sub(packets);
            let now = Instant::now();
            self.next_look = now + LOOK_PERIOD.max((now - begin) * LOOK_SHARE);
        }
        packets.saturating_add(self.besides) >= self.max
    }
}

/// All files below a folder; no link is followed, and what cannot be looked at is nothing.
fn bytes(folder: &Path, depth: u32) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() && depth > 0 => bytes(&entry.path(), depth - 1),
        Ok(found) if found.is_file() => found.len(),
        _ => 0,
    };
    entries.flatten().map(size).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_counts_packets_at_once_and_other_files_when_they_are_looked_at() {
        let folder = std::env::temp_dir().join(format!("strata-disk-{}", std::process::id()));
        fs::create_dir_all(folder.join("a/b")).unwrap();
        fs::write(folder.join("a/b/metadata"), [0; 1000]).unwrap();
        fs::write(folder.join("a/b/stream"), [0; 500]).unwrap();
        std::os::unix::fs::symlink("/", folder.join("a/root")).unwrap();
        assert_eq!(bytes(&folder, DEPTH_MAX), 1500);
        let mut limit = DiskLimit::new(2000, &folder);
        assert!(!limit.is_reached(500) && limit.besides == 1000);
        // They are not looked at again, however late it is by now.
        limit.next_look += Duration::from_secs(3600);
        assert!(!limit.is_reached(999) && limit.is_reached(1000) && limit.is_reached(u64::MAX));
        fs::remove_dir_all(&folder).unwrap();
        assert!(!DiskLimit::new(1, &folder).is_reached(0));
    }

    #[test]
    fn limit_of_folders_in_each_other_ends_somewhere_and_files_that_go_are_no_bytes() {
        let folder = std::env::temp_dir().join(format!("strata-disk-deep-{}", std::process::id()));
        let deep = (0..8).fold(folder.clone(), |path, level| path.join(level.to_string()));
        fs::create_dir_all(&deep).unwrap();
        fs::write(folder.join("0/1/2/3/x"), [0; 7]).unwrap();
        fs::write(folder.join("0/1/2/3/4/x"), [0; 70]).unwrap();
        assert_eq!((bytes(&folder, DEPTH_MAX), bytes(&folder, DEPTH_MAX + 1)), (7, 77));
        assert_eq!((bytes(&folder, 0), bytes(&folder.join("0/1/2/3/x"), 1)), (0, 0));
        // More packets than the files have: others have been removed.
        let mut limit = DiskLimit::new(u64::MAX, &folder);
        assert!(!limit.is_reached(u64::MAX - 1) && limit.besides == 0);
        fs::remove_dir_all(&folder).unwrap();
    }
}
