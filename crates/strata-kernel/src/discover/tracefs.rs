//! Reads the kernel's own list of its tracepoints.

use crate::Error;
use rustix::fs::{open, openat, statfs, Mode, OFlags};
use rustix::mount::{fsconfig_create, fsmount, fsopen, FsMountFlags, FsOpenFlags, MountAttrFlags};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Usual mount points of tracefs.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// `TRACEFS_MAGIC` of `linux/magic.h`.
const MAGIC: u64 = 0x7472_6163;

/// Name that messages use for a tracefs that is mounted nowhere.
const DETACHED: &str = "tracefs";

static OWN: OnceLock<Tracefs> = OnceLock::new();

/// The kernel's tracefs, which is only read.
#[derive(Clone, Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// A mount that is part of no file tree: the kernel removes it when the last copy of this descriptor is closed.
    mount: Option<Arc<OwnedFd>>,
}

impl Tracefs {
    /// Finds the tracefs at `/sys/kernel/tracing` or `/sys/kernel/debug/tracing`; if there is none, mounts a private
    /// one ([`Tracefs::detached`]).
    ///
    /// # Errors
    /// [`Error::NoTracefs`] if there is no tracefs and it cannot be mounted; [`Error::TracefsRights`] and
    /// [`Error::TracefsLockdown`] if it may not be read.
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
        match denied {
            Some(denied) => Err(denied),
            None => OWN.get().cloned().map_or_else(Tracefs::detached, Ok),
        }
    }

    /// Mounts a private tracefs if none is mounted. [`Tracefs::find`] can then use it when this process has no right to
    /// mount any more: at boot, a session begins before the system mounts tracefs.
    pub fn prepare() {
        if let Some(own) = Tracefs::find().ok().filter(|found| found.mount.is_some()) {
            // Another thread has found the same.
            let _ = OWN.set(own);
        }
    }

    /// Mounts a private tracefs, which appears in no file tree. This process needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// [`Error::NoTracefs`] if it cannot be mounted, [`Error::TracefsRights`] and [`Error::TracefsLockdown`] if it
    /// may not be read.
    pub fn detached() -> Result<Tracefs, Error> {
        let mount = mount_detached()
            .map_err(|error| Error::NoTracefs { places: PLACES.join(" nor at "), error })?;
        let tracefs = Tracefs { root: DETACHED.into(), mount: Some(Arc::new(mount)) };
        let path = tracefs.root.join("available_events");
        match tracefs.open("available_events".as_ref()) {
            Ok(_) => Ok(tracefs),
            Err(error) => Err(refused(&path, error)),
        }
    }

    /// Returns the tracefs at `root`, or a copy of its files there. Its existence is not checked.
    pub fn at(root: impl Into<PathBuf>) -> Tracefs {
        Tracefs { root: root.into(), mount: None }
    }

    /// Returns the mount point; `None` if the mount is [`Tracefs::detached`].
    pub fn root(&self) -> Option<&Path> {
        self.mount.is_none().then_some(&self.root)
    }

    /// Returns whether tracefs is mounted at this place and can be read.
    fn probe(&self) -> Result<bool, Error> {
        let found = match statfs(&self.root) {
            Ok(found) => found,
            Err(error) => return self.unless_absent(error.into()).map(|()| false),
        };
        if u64::try_from(found.f_type) != Ok(MAGIC) {
            return Ok(false);
        }
        let events = self.root.join("available_events");
        match File::open(&events) {
            Ok(_) => Ok(true),
            Err(error) => Err(refused(&events, error)),
        }
    }

    /// Returns `error`, unless it says that the file or folder does not exist.
    fn unless_absent(&self, error: io::Error) -> Result<(), Error> {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(()),
            _ => Err(refused(&self.root, error)),
        }
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = match &self.mount {
            Some(mount) => openat(mount, path, flags, Mode::empty())?,
            None => open(self.root.join(path), flags, Mode::empty())?,
        };
        Ok(file.into())
    }

    /// Returns the text of the file at `path` in tracefs, with bytes replaced that are not UTF-8.
    ///
    /// # Errors
    /// [`Error::TracefsRights`], [`Error::TracefsRead`].
    pub fn read(&self, path: impl AsRef<Path>) -> Result<String, Error> {
        let path = path.as_ref();
        let mut bytes = Vec::new();
        let read = self.open(path).and_then(|mut file| file.read_to_end(&mut bytes));
        read.map_err(|error| refused(&self.root.join(path), error))?;
        Ok(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    /// Returns system and name of all events, in the order of tracefs. Events that users have defined at run time
    /// (`dynamic_events`) are left out, since they are no tracepoints of the kernel.
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

    /// Reads the description of an event's fields.
    ///
    /// # Errors
    /// [`Error::NoEvent`] if the event does not exist (any more), and errors as of [`Tracefs::read`].
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

fn mount_detached() -> io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    // Of this mount alone: what others have of the same file system stays as it is.
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

fn refused(path: &Path, error: io::Error) -> Error {
    let path = path.to_owned();
    match error.raw_os_error() {
        Some(libc::EACCES) => Error::TracefsRights { path, error },
        Some(libc::EPERM) => Error::TracefsLockdown { path, error },
        _ => Error::TracefsRead { path, error },
    }
}

/// Parses group and name from a line such as `p:kprobes/myprobe vfs_read` or `r16:uprobes/other /bin/sh:0x1`.
fn dynamic_event(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once(':')?;
    let full = rest.split([' ', '\t']).next()?;
    // A synthetic event has no group in some kernels: `s:latency u64 time`.
    Some(full.split_once('/').unwrap_or(("synthetic", full)))
}

/// Returns whether the name can be that of a system or event, and so is safe as a folder's name in tracefs.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_name_char)
}

/// Returns whether the character can be in names of systems and events.
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
    fn refused_by_rights_and_by_lockdown_are_distinguished() {
        let refused = |errno| refused(Path::new("/x"), io::Error::from_raw_os_error(errno));
        assert!(refused(libc::EACCES).to_string().contains("Run as root"));
        assert!(refused(libc::EPERM).to_string().contains("lockdown=integrity"));
        assert!(matches!(refused(libc::EIO), Error::TracefsRead { .. }));
    }

    #[test]
    fn detached_is_what_is_mounted_and_shows_in_no_tree_of_files() {
        let tree = || std::fs::read_to_string("/proc/self/mountinfo").expect("the mounts");
        let own = match Tracefs::detached() {
            Ok(own) => own,
            Err(error @ Error::NoTracefs { .. }) => return eprintln!("skip: {error}"),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(own.root(), None);
        let mount = own.mount.as_ref().expect("it has a mount");
        let found = rustix::fs::fstatfs(mount).expect("a file system");
        assert_eq!(u64::try_from(found.f_type), Ok(MAGIC));
        // A process may mount it meanwhile: in the tree it would have a number of its own.
        let link = format!("/proc/self/fdinfo/{}", std::os::fd::AsRawFd::as_raw_fd(&**mount));
        let info = std::fs::read_to_string(link).expect("what the kernel says of the descriptor");
        let number = info.lines().find_map(|line| line.strip_prefix("mnt_id:")).expect("a number");
        let is_it = |line: &&str| line.split(' ').next() == Some(number.trim());
        assert_eq!(tree().lines().find(is_it), None);
        assert!(own.events().expect("its events").len() > 10);
        let denied = openat(mount, "trace_marker", OFlags::WRONLY, Mode::empty());
        assert!(
            matches!(denied.map_err(io::Error::from), Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem)
        );
        let absent = own.read("nothing").expect_err("there is no such file");
        assert!(absent.to_string().starts_with("tracefs/nothing cannot be read"), "{absent}");
    }

    #[test]
    fn read_of_a_file_that_is_absent_names_it() {
        let error = Tracefs::at("/nowhere").read("available_events").expect_err("absent");
        assert!(error.to_string().contains("/nowhere/available_events"), "{error}");
    }
}
