//! Where a trace goes: its folder, and one folder in it for each process.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Longest part of a process' name that its folder has \[byte\].
const NAME_BYTES_MAX: usize = 64;
/// How many folders of the same second are tried.
const TRIES: u32 = 1000;

/// Why there is no folder for the trace.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It has something in it already.
    #[error(
        "output folder '{}': is not empty, and nothing is overwritten. Use another folder, or \
         remove this one",
        path.display()
    )]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// It is a file or something else.
    #[error("output folder '{}': is there and is not a folder. Use another name", path.display())]
    NotFolder {
        /// The path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("output folder '{}': cannot {what}: {source}. Use -o with a folder that can be written to", path.display())]
    System {
        /// The folder.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// All names of this second are taken.
    #[error("output folder '{}' and {TRIES} more: are there already. Use -o with another name", path.display())]
    AllTaken {
        /// The first one.
        path: PathBuf,
    },
}

/// The folder of one trace, made by this session.
#[derive(Debug)]
pub struct TraceFolder {
    path: PathBuf,
    created: bool,
    names: HashSet<Vec<u8>>,
}

impl TraceFolder {
    /// Make the folder `path`, or use it if it is there and empty.
    ///
    /// Others cannot read it: a trace may tell of any process that this user can trace.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn create(path: &Path) -> Result<TraceFolder, FolderError> {
        let system =
            |what| move |source| FolderError::System { path: path.to_owned(), what, source };
        let folder =
            |created| TraceFolder { path: path.to_owned(), created, names: HashSet::new() };

        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).map_err(system("make the folder that it is to be in"))?;
        }
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => return Ok(folder(true)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(system("make it")(error)),
        }
        match fs::read_dir(path) {
            Ok(mut entries) => match entries.next() {
                None => {}
                Some(_) => return Err(FolderError::NotEmpty { path: path.to_owned() }),
            },
            Err(error) if error.raw_os_error() == Some(libc::ENOTDIR) => {
                return Err(FolderError::NotFolder { path: path.to_owned() })
            }
            Err(error) => return Err(system("read it")(error)),
        }
        rustix::fs::access(path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
            .map_err(io::Error::from)
            .map_err(system("write to it"))?;
        Ok(folder(false))
    }

    /// Make a new folder below `parent`, called by the time: `strata-trace-20260131-235959`, with `-2`
    /// and so on if there is one.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn create_by_time(parent: &Path, stamp: &str) -> Result<TraceFolder, FolderError> {
        let first = parent.join(format!("strata-trace-{stamp}"));

        for number in 1..=TRIES {
            let path = match number {
                1 => first.clone(),
                _ => parent.join(format!("strata-trace-{stamp}-{number}")),
            };
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(TraceFolder { path, created: true, names: HashSet::new() }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => {
                    return Err(FolderError::System { path, what: "make it", source });
                }
            }
        }
        Err(FolderError::AllTaken { path: first })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path of its own for the trace of the process `name` with the number `pid`, in the folder of
    /// its layer. It is not made yet.
    pub fn process(&mut self, layer: &str, name: &[u8], pid: u32) -> PathBuf {
        let mut base = sanitised(name);
        base.extend_from_slice(format!("-{pid}").as_bytes());
        let mut unique = base.clone();
        let mut number = 2;
        while !self.names.insert([layer.as_bytes(), b"/", &unique].concat()) {
            unique = [&base[..], format!("-{number}").as_bytes()].concat();
            number += 1;
        }
        self.path.join(layer).join(OsStr::from_bytes(&unique))
    }

    /// Remove the folder if this session made it and nothing is in it.
    pub fn remove_if_empty(&self) -> bool {
        self.created && fs::remove_dir(&self.path).is_ok()
    }
}

/// A file name made of `name`: letters, digits, `.`, `_`, `+` and `-`, the rest `_`; no `.` in front.
fn sanitised(name: &[u8]) -> Vec<u8> {
    let mut clean: Vec<u8> = name
        .iter()
        .take(NAME_BYTES_MAX)
        .map(|&byte| match byte {
            b'.' | b'_' | b'+' | b'-' => byte,
            _ if byte.is_ascii_alphanumeric() => byte,
            _ => b'_',
        })
        .collect();
    match clean.first_mut() {
        None => b"unnamed".to_vec(),
        Some(first) => {
            if *first == b'.' || *first == b'-' {
                *first = b'_';
            }
            clean
        }
    }
}

/// Now, in this machine's time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimeStamp {
    /// For a folder's name: `20260131-235959`.
    pub(crate) name: String,
    /// ISO 8601: `20260131T235959+0100`.
    pub(crate) iso: String,
}

impl TimeStamp {
    /// Now.
    ///
    /// # Errors
    /// What the system said of a time that its calendar does not have.
    pub(crate) fn now() -> io::Result<TimeStamp> {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
        // SAFETY: all bytes 0 is a valid value of this plain C structure.
        let mut parts: libc::tm = unsafe { std::mem::zeroed() };
        // SAFETY: both point to values that live through the call, which keeps neither.
        let converted = unsafe { libc::localtime_r(&now, &mut parts) };
        if converted.is_null() {
            return Err(io::Error::last_os_error());
        }
        let date = format!(
            "{:04}{:02}{:02}",
            i64::from(parts.tm_year) + 1900,
            parts.tm_mon + 1,
            parts.tm_mday
        );
        let time = format!("{:02}{:02}{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
        let minutes = parts.tm_gmtoff / 60;
        let sign = if minutes < 0 { '-' } else { '+' };
        let zone = format!("{sign}{:02}{:02}", minutes.abs() / 60, minutes.abs() % 60);
        Ok(TimeStamp { name: format!("{date}-{time}"), iso: format!("{date}T{time}{zone}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A folder for one test, removed with what the test put there.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir()
                .join(format!("strata-session-test-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn folder_that_is_not_there_is_made_for_its_owner_only() {
        let scratch = Scratch::new("made");
        let path = scratch.0.join("a/b");
        let folder = TraceFolder::create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(folder.remove_if_empty());
        assert!(!path.exists());
    }

    #[test]
    fn folder_that_is_empty_is_used_and_kept() {
        let scratch = Scratch::new("empty");
        let folder = TraceFolder::create(&scratch.0).unwrap();
        assert!(!folder.remove_if_empty());
        assert!(scratch.0.exists());
    }

    #[test]
    fn folder_with_something_in_it_is_refused() {
        let scratch = Scratch::new("full");
        fs::write(scratch.0.join("x"), "y").unwrap();
        let error = TraceFolder::create(&scratch.0).unwrap_err();
        assert!(matches!(error, FolderError::NotEmpty { .. }));
        assert!(error.to_string().contains("is not empty, and nothing is overwritten"));
    }

    #[test]
    fn folder_that_is_a_file_is_refused() {
        let scratch = Scratch::new("file");
        let path = scratch.0.join("x");
        fs::write(&path, "y").unwrap();
        let error = TraceFolder::create(&path).unwrap_err();
        assert!(matches!(error, FolderError::NotFolder { .. }), "{error}");
        let error = TraceFolder::create(&path.join("y")).unwrap_err();
        assert!(matches!(error, FolderError::System { .. }), "{error}");
        assert!(error.to_string().contains("cannot make"), "{error}");
    }

    #[test]
    fn folder_by_time_that_is_there_gets_a_number() {
        let scratch = Scratch::new("time");
        let first = TraceFolder::create_by_time(&scratch.0, "20260131-235959").unwrap();
        let second = TraceFolder::create_by_time(&scratch.0, "20260131-235959").unwrap();
        assert_eq!(first.path(), scratch.0.join("strata-trace-20260131-235959"));
        assert_eq!(second.path(), scratch.0.join("strata-trace-20260131-235959-2"));
        let error = TraceFolder::create_by_time(&scratch.0.join("gone"), "x").unwrap_err();
        assert!(matches!(error, FolderError::System { .. }));
    }

    #[test]
    fn folder_by_time_when_all_are_taken_is_refused() {
        let scratch = Scratch::new("taken");
        for _ in 0..TRIES {
            TraceFolder::create_by_time(&scratch.0, "x").unwrap();
        }
        let error = TraceFolder::create_by_time(&scratch.0, "x").unwrap_err();
        assert!(matches!(error, FolderError::AllTaken { .. }));
    }

    #[test]
    fn folder_of_a_process_has_a_clean_and_unique_name() {
        let scratch = Scratch::new("names");
        let mut folder = TraceFolder::create(&scratch.0).unwrap();
        let user = scratch.0.join("user");
        assert_eq!(folder.process("user", b"my app/../x\x1b", 7), user.join("my_app_.._x_-7"));
        assert_eq!(folder.process("user", b"../../etc", 8), user.join("_._.._etc-8"));
        assert_eq!(folder.process("user", b"", 9), user.join("unnamed-9"));
        assert_eq!(folder.process("user", b"a", 1), user.join("a-1"));
        assert_eq!(folder.process("user", b"a", 1), user.join("a-1-2"));
        assert_eq!(folder.process("user", b"a", 1), user.join("a-1-3"));
        assert_eq!(folder.process("user", b"a-1", 2), user.join("a-1-2-2"));
        assert_eq!(folder.process("user", &[b'n'; 300], 1).file_name().unwrap().len(), 66);
    }

    #[test]
    fn time_stamp_is_a_file_name_and_iso_8601() {
        let stamp = TimeStamp::now().unwrap();
        assert_eq!((stamp.name.len(), stamp.iso.len()), (15, 20), "{stamp:?}");
        assert!(stamp.name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'), "{stamp:?}");
        assert_eq!(stamp.name.replace('-', "T"), stamp.iso[..15]);
    }
}
