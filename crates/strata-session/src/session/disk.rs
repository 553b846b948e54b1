//! Measures how much of the disk a recording has taken, for `record --max-size`, and how much is free, for
//! `--min-free`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use strata_model::TimeSource;

use crate::output::folder::bytes_at;

/// The shortest period of measuring the files.
const LOOK_PERIOD: Duration = Duration::from_millis(500);
/// Bound on the time for measuring: the pause is this many times as long as a measurement.
const LOOK_SHARE: u32 = 50;
/// The most nested folders that are measured: a trace has folders in its folder, and these contain files.
const DEPTH_MAX: u32 = 4;

/// The space of a file system that must stay free. Recording stops when less is left.
///
/// The text form, also in plans, is `5%` or a number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum MinFree {
    /// A share of the file system's size, 0 to 99.
    Percent(u8),
    /// A number of bytes.
    Bytes(u64),
}

/// The greatest share that can be kept free \[%\].
const PERCENT_MAX: u8 = 99;

impl MinFree {
    /// No space is kept free: recording goes on until the file system is full.
    pub const NONE: MinFree = MinFree::Bytes(0);

    /// Returns the space in bytes, for a file system of `all` bytes.
    #[must_use]
    pub fn bytes_of(self, all: u64) -> u64 {
        match self {
            MinFree::Percent(percent) => all / 100 * u64::from(percent),
            MinFree::Bytes(bytes) => bytes,
        }
    }
}

/// Keeps 5 % free by default.
impl Default for MinFree {
    fn default() -> MinFree {
        MinFree::Percent(5)
    }
}

impl fmt::Display for MinFree {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MinFree::Percent(percent) => write!(to, "{percent}%"),
            MinFree::Bytes(bytes) => write!(to, "{bytes}"),
        }
    }
}

impl FromStr for MinFree {
    type Err = String;

    fn from_str(text: &str) -> Result<MinFree, String> {
        let bytes = || text.parse().map(MinFree::Bytes).ok();
        let percent = |text: &str| text.parse().ok().filter(|&percent| percent <= PERCENT_MAX);
        let found = match text.strip_suffix('%') {
            Some(number) => percent(number).map(MinFree::Percent),
            None => bytes(),
        };
        found.ok_or_else(|| {
            format!("'{text}' is neither bytes nor a share of 0% to {PERCENT_MAX}%, such as 5%")
        })
    }
}

impl TryFrom<String> for MinFree {
    type Error = String;

    fn try_from(text: String) -> Result<MinFree, String> {
        text.parse()
    }
}

impl From<MinFree> for String {
    fn from(free: MinFree) -> String {
        free.to_string()
    }
}

/// The error that a file system has less free space than must stay free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowSpace {
    /// Free space that this user may use \[byte\].
    pub free: u64,
    /// Size of the file system \[byte\].
    pub all: u64,
    /// The space that must stay free.
    pub min_free: MinFree,
}

impl LowSpace {
    /// Checks the free space and the size of a file system. Returns `None` if there is enough space, or if they are not
    /// known.
    pub(crate) fn of(space: Option<(u64, u64)>, min_free: MinFree) -> Option<LowSpace> {
        let (free, all) = space?;
        (free < min_free.bytes_of(all)).then_some(LowSpace { free, all, min_free })
    }
}

impl fmt::Display for LowSpace {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Computed in tenths of a percent, without floating point.
        let tenths = (u128::from(self.free) * 1000).checked_div(self.all.into()).unwrap_or(0);
        write!(
            to,
            "the trace's file system has {}.{} % ({} MiB) free, less than --min-free={}",
            tenths / 10,
            tenths % 10,
            self.free >> 20,
            self.min_free
        )
    }
}

/// A limit on the size of a trace's files. Their size is measured from time to time.
#[derive(Debug)]
pub(crate) struct DiskLimit {
    max: u64,
    folder: PathBuf,
    /// Size of the folder's files at the last measurement, without packets \[byte\].
    besides: u64,
    next_look: Instant,
    time: TimeSource,
}

impl DiskLimit {
    /// Creates a limit of `max` bytes on the files in `folder`.
    pub(crate) fn new(max: u64, folder: &Path, time: &TimeSource) -> DiskLimit {
        let (next_look, time) = (time.now(), time.clone());
        DiskLimit { max, folder: folder.to_owned(), besides: 0, next_look, time }
    }

    /// Returns whether the limit is reached. `packets`: size of all packets written so far \[byte\].
    pub(crate) fn is_reached(&mut self, packets: u64) -> bool {
        let begin = self.time.now();
        if begin >= self.next_look {
            self.besides = bytes_at(&self.folder, DEPTH_MAX).saturating_sub(packets);
            let now = self.time.now();
            self.next_look = now + LOOK_PERIOD.max((now - begin) * LOOK_SHARE);
        }
        packets.saturating_add(self.besides) >= self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn share_that_stays_free_is_read_written_and_compared() {
        for (text, free, of_a_gigabyte) in [
            ("5%", MinFree::Percent(5), 50_000_000),
            ("0%", MinFree::Percent(0), 0),
            ("99%", MinFree::Percent(99), 990_000_000),
            ("0", MinFree::NONE, 0),
            ("4096", MinFree::Bytes(4096), 4096),
        ] {
            assert_eq!(text.parse(), Ok(free));
            assert_eq!(
                (free.to_string().as_str(), free.bytes_of(1_000_000_000)),
                (text, of_a_gigabyte)
            );
            let json = strata_text::json::compact(&free);
            assert_eq!(serde_json::from_str::<MinFree>(&json).unwrap(), free);
        }
        for text in ["", "%", "100%", "-1%", "5 %", "1e3", "five"] {
            assert!(text.parse::<MinFree>().unwrap_err().contains(&format!("'{text}'")));
        }
        assert_eq!(MinFree::Percent(99).bytes_of(u64::MAX), u64::MAX / 100 * 99);
        let five = MinFree::default();
        assert_eq!(LowSpace::of(None, five), None);
        assert_eq!(LowSpace::of(Some((50 << 20, 1000 << 20)), five), None);
        let low = LowSpace::of(Some((49 << 20, 1000 << 20)), five).unwrap();
        assert_eq!(
            low.to_string(),
            "the trace's file system has 4.9 % (49 MiB) free, less than --min-free=5%"
        );
        assert_eq!(LowSpace::of(Some((0, 0)), five), None);
    }

    #[test]
    fn limit_counts_packets_at_once_and_other_files_when_they_are_looked_at() {
        let folder = std::env::temp_dir().join(format!("strata-disk-{}", std::process::id()));
        fs::create_dir_all(folder.join("a/b")).unwrap();
        fs::write(folder.join("a/b/metadata"), [0; 1000]).unwrap();
        fs::write(folder.join("a/b/stream"), [0; 500]).unwrap();
        std::os::unix::fs::symlink("/", folder.join("a/root")).unwrap();
        assert_eq!(bytes_at(&folder, DEPTH_MAX), 1500);
        let time = TimeSource::manual(0);
        let mut limit = DiskLimit::new(2000, &folder, &time);
        assert!(!limit.is_reached(500) && limit.besides == 1000);
        // They are not looked at again before their time.
        fs::write(folder.join("a/more"), [0; 400]).unwrap();
        time.pause(LOOK_PERIOD - Duration::from_nanos(1));
        assert!(!limit.is_reached(999) && limit.is_reached(1000) && limit.is_reached(u64::MAX));
        time.pause(Duration::from_nanos(1));
        assert!(!limit.is_reached(500) && limit.besides == 1400);
        assert!(!limit.is_reached(599) && limit.is_reached(600));
        fs::remove_dir_all(&folder).unwrap();
        assert!(!DiskLimit::new(1, &folder, &TimeSource::manual(0)).is_reached(0));
    }

    #[test]
    fn limit_of_folders_in_each_other_ends_somewhere_and_files_that_go_are_no_bytes() {
        let folder = std::env::temp_dir().join(format!("strata-disk-deep-{}", std::process::id()));
        let deep = (0..8).fold(folder.clone(), |path, level| path.join(level.to_string()));
        fs::create_dir_all(&deep).unwrap();
        fs::write(folder.join("0/1/2/3/x"), [0; 7]).unwrap();
        fs::write(folder.join("0/1/2/3/4/x"), [0; 70]).unwrap();
        assert_eq!((bytes_at(&folder, DEPTH_MAX), bytes_at(&folder, DEPTH_MAX + 1)), (7, 77));
        assert_eq!((bytes_at(&folder, 0), bytes_at(&folder.join("0/1/2/3/x"), 1)), (0, 0));
        // More packets than the files have: others have been removed.
        let mut limit = DiskLimit::new(u64::MAX, &folder, &TimeSource::manual(0));
        assert!(!limit.is_reached(u64::MAX - 1) && limit.besides == 0);
        fs::remove_dir_all(&folder).unwrap();
    }
}
