//! The kernel's own list of its tracepoints.

use crate::Error;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Where it is mounted, as a rule.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// `TRACEFS_MAGIC` of `linux/magic.h`.
const MAGIC: u64 = 0x7472_6163;

/// A mounted tracefs. Only read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracefs {
    root: PathBuf,
}

impl Tracefs {
    /// The one at `/sys/kernel/tracing` or `/sys/kernel/debug/tracing`. Mounts nothing.
    ///
    /// # Errors
    /// [`Error::NoTracefs`] if it is at neither, [`Error::TracefsRights`] and [`Error::TracefsLockdown`] if it
    /// may not be read.
    pub fn find() -> Result<Tracefs, Error> {
        let mut denied = None;
        for place in PLACES {
            let tracefs = Tracefs::at(place);
            match tracefs.probe() {
                Ok(true) => return Ok(tracefs),
                Ok(false) => (),
                Err(error @ (Error::TracefsRights { .. } | Error::TracefsLockdown { .. })) => {
                    denied = denied.or(Some(error));
                }
                Err(error) => return Err(error),
            }
        }
        Err(denied.unwrap_or(Error::NoTracefs { places: PLACES.join(" nor at ") }))
    }

    /// The one at `root`, or a copy of its files there. Whether it is there is not looked at.
    pub fn at(root: impl Into<PathBuf>) -> Tracefs {
        Tracefs { root: root.into() }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether it is mounted here and can be read.
    fn probe(&self) -> Result<bool, Error> {
        let found = match rustix::fs::statfs(&self.root) {
            Ok(found) => found,
            Err(error) => return self.unless_absent(error.into()).map(|()| false),
        };
        if u64::try_from(found.f_type) != Ok(MAGIC) {
            return Ok(false);
        }
        let events = self.root.join("available_events");
        match File::open(&events) {
            Ok(_) => Ok(true),
            Err(error) => Err(self.refused(&events, error)),
        }
    }

    /// An error if it is another than that nothing is there.
    fn unless_absent(&self, error: io::Error) -> Result<(), Error> {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(()),
            _ => Err(self.refused(&self.root, error)),
        }
    }

    fn refused(&self, path: &Path, error: io::Error) -> Error {
        let path = path.to_owned();
        match error.raw_os_error() {
            Some(libc::EACCES) => Error::TracefsRights { path, error },
            Some(libc::EPERM) => Error::TracefsLockdown { path, error },
            _ => Error::TracefsRead { path, error },
        }
    }

    /// The text of the file at `path` in it; what is not UTF-8 is replaced.
    ///
    /// # Errors
    /// [`Error::TracefsRights`], [`Error::TracefsRead`].
    pub fn read(&self, path: impl AsRef<Path>) -> Result<String, Error> {
        let path = self.root.join(path);
        let bytes = std::fs::read(&path).map_err(|error| self.refused(&path, error))?;
        Ok(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    /// System and name of all its events, in its order, but for those that somebody has defined while
    /// the kernel ran (`dynamic_events`): these are no tracepoints, or not the kernel's.
    ///
    /// # Errors
    /// [`Error::TracefsRights`], [`Error::TracefsRead`].
    pub fn events(&self) -> Result<Vec<(String, String)>, Error> {
        let text = self.read("available_events")?;
        // Kernels without such events do not have the file.
        let dynamic = self.read("dynamic_events").unwrap_or_default();
        let dynamic: HashSet<(&str, &str)> = dynamic.lines().filter_map(dynamic_event).collect();
        let pairs = text.lines().filter_map(|line| line.trim().split_once(':'));
        Ok(pairs
            .filter(|(system, name)| is_name(system) && is_name(name))
            .filter(|pair| !dynamic.contains(pair))
            .map(|(system, name)| (system.to_owned(), name.to_owned()))
            .collect())
    }

    /// What the kernel says about the fields of an event.
    ///
    /// # Errors
    /// [`Error::NoEvent`] if there is no such event (any more), and as [`Tracefs::read`].
    pub fn format(&self, system: &str, name: &str) -> Result<String, Error> {
        let unknown = || Error::NoEvent { system: system.to_owned(), name: name.to_owned() };
        if !is_name(system) || !is_name(name) {
            return Err(unknown());
        }
        let path: PathBuf = ["events", system, name, "format"].iter().collect();
        match self.read(path) {
            Err(Error::TracefsRead { error, .. })
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Err(unknown())
            }
            other => other,
        }
    }
}

/// Group and name of a line such as `p:kprobes/myprobe vfs_read` or `r16:uprobes/other /bin/sh:0x1`.
fn dynamic_event(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once(':')?;
    let full = rest.split([' ', '\t']).next()?;
    // A synthetic event has no group in some kernels: `s:latency u64 time`.
    Some(full.split_once('/').unwrap_or(("synthetic", full)))
}

/// What a system or an event can be called, and a folder in tracefs safely be.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_name_char)
}

/// Occurs in names of systems and events.
pub(crate) fn is_name_char(found: char) -> bool {
    found.is_ascii_alphanumeric() || matches!(found, '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamic_event_of_every_kind_gives_group_and_name() {
        assert_eq!(dynamic_event("p:kprobes/mine vfs_read"), Some(("kprobes", "mine")));
        assert_eq!(dynamic_event("r16:uprobes/other /bin/sh:0x1"), Some(("uprobes", "other")));
        assert_eq!(
            dynamic_event("e:eprobes/eopen syscalls.sys_enter_openat"),
            Some(("eprobes", "eopen"))
        );
        assert_eq!(dynamic_event("s:synthetic/latency u64 time"), Some(("synthetic", "latency")));
        assert_eq!(dynamic_event("s:latency u64 time"), Some(("synthetic", "latency")));
        assert_eq!(dynamic_event("nonsense"), None);
    }

    #[test]
    fn format_when_the_name_leads_elsewhere_is_refused() {
        let tracefs = Tracefs::at("/");
        for name in ["..", "a/b", "", "a\0b"] {
            let error = tracefs.format("sched", name).expect_err(name);
            assert!(matches!(error, Error::NoEvent { .. } | Error::TracefsRead { .. }), "{error}");
        }
    }

    #[test]
    fn probe_where_no_tracefs_is_mounted_says_no() {
        assert!(matches!(Tracefs::at("/proc").probe(), Ok(false)));
        assert!(matches!(Tracefs::at("/nowhere/at/all").probe(), Ok(false)));
    }

    #[test]
    fn refused_by_rights_and_by_lockdown_are_told_apart() {
        let refused =
            |errno| Tracefs::at("/x").refused(Path::new("/x"), io::Error::from_raw_os_error(errno));
        assert!(refused(libc::EACCES).to_string().contains("Run as root"));
        assert!(refused(libc::EPERM).to_string().contains("lockdown=integrity"));
        assert!(matches!(refused(libc::EIO), Error::TracefsRead { .. }));
    }

    #[test]
    fn read_of_a_file_that_is_absent_names_it() {
        let error = Tracefs::at("/nowhere").read("available_events").expect_err("absent");
        assert!(error.to_string().contains("/nowhere/available_events"), "{error}");
    }
}
