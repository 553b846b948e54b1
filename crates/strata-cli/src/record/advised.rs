//! The sizes that the last report of a session's name, or of a command, has asked for: kept in a small file of this user's
//! state folder, for `--auto`.
//!
//! ```text
//! $XDG_STATE_HOME/strata/advice/session-NAME.json     or ~/.local/state/…; root's in /var/lib/…,
//!                               command-NAME.json         unless its own folder is named
//! ```
//!
//! No link is followed below the state folder, and nothing is believed that somebody else could have written.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;
use serde_json::{json, Map, Value};
use strata_session::plan::{Advised, LayerOf, CHANNEL};
use strata_session::report::advice::STREAM_BYTES_ADVISED_MAX;
use strata_session::report::Report;

use crate::talk;
use crate::talk::messages::{Message, Weight};
use crate::talk::units::flag_size;

/// A file is not larger \[byte\].
const TEXT_BYTES_MAX: u64 = 64 << 10;
/// Of a command's name, what is kept as it is \[byte\].
const NAME_BYTES_MAX: usize = 64;

/// Whose report it is.
#[derive(Clone, Copy, Debug)]
pub enum AdviceKey<'k> {
    /// A session with a name.
    Session(&'k str),
    /// What `strata record` records: a command by the name of its file; empty: no command.
    Command(&'k OsStr),
}

impl AdviceKey<'_> {
    /// A name that leads nowhere else, whatever the command is called.
    fn file(self) -> String {
        match self {
            AdviceKey::Session(name) => format!("session-{}.json", plain(name.as_bytes())),
            AdviceKey::Command(path) => {
                let name = Path::new(path).file_name().unwrap_or_default();
                format!("command-{}.json", plain(name.as_bytes()))
            }
        }
    }
}

/// What is neither a letter nor a digit as its number, so that two names stay two; a long one is cut and numbered.
fn plain(name: &[u8]) -> String {
    let mut text = String::new();
    for &byte in name.iter().take(NAME_BYTES_MAX) {
        match byte.is_ascii_alphanumeric() || b"-._".contains(&byte) {
            true => text.push(char::from(byte)),
            false => text.push_str(&format!("%{byte:02x}")),
        }
    }
    if name.len() > NAME_BYTES_MAX {
        // FNV-1a: of who calls a program so, nobody needs to be protected from himself.
        let number = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |number, byte| {
            (number ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        text.push_str(&format!("%{number:016x}"));
    }
    text
}

/// The state folder of this user; of root one that nobody else's environment leads away from.
fn state() -> Option<PathBuf> {
    let set = |key| std::env::var_os(key).map(PathBuf::from).filter(|path| path.is_absolute());
    if geteuid().is_root() {
        let own = set("XDG_STATE_HOME").filter(|path| is_root_s(path));
        return Some(own.unwrap_or_else(|| PathBuf::from("/var/lib")));
    }
    set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")))
}

/// The environment may be of who has become root.
fn is_root_s(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|status| status.is_dir() && status.uid() == 0 && status.mode() & 0o022 == 0)
}

/// The folder of these files below `state`, held; made if `is_made`. `None`: there is none.
fn folder(state: &Path, is_made: bool) -> io::Result<Option<OwnedFd>> {
    if is_made {
        std::fs::create_dir_all(state)?;
    }
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let mut at = match fs::open(state, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    for name in ["strata", "advice"] {
        if is_made {
            match fs::mkdirat(&at, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        at = match fs::openat(&at, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened?,
        };
        let status = fs::fstat(&at)?;
        if status.st_uid != geteuid().as_raw() || status.st_mode & 0o022 != 0 {
            return Err(io::Error::other(format!("'{name}' may be changed by others")));
        }
    }
    Ok(Some(at))
}

fn read(folder: &OwnedFd, file: &str) -> io::Result<Option<String>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = match fs::openat(folder, file, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    let status = fs::fstat(&opened)?;
    let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
    if !is_file || status.st_uid != geteuid().as_raw() {
        return Err(io::Error::other("it is no file of this user"));
    }
    let mut text = String::new();
    File::from(opened).take(TEXT_BYTES_MAX).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// As a whole, or not at all.
fn write(folder: &OwnedFd, file: &str, text: &str) -> io::Result<()> {
    let new = format!("{file}.{}", std::process::id());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let _ = fs::unlinkat(folder, &*new, AtFlags::empty());
    let opened = fs::openat(folder, &*new, flags, Mode::RUSR | Mode::WUSR)?;
    let written = File::from(opened).write_all(text.as_bytes());
    let done = written.and_then(|()| Ok(fs::renameat(folder, &*new, folder, file)?));
    if done.is_err() {
        let _ = fs::unlinkat(folder, &*new, AtFlags::empty());
    }
    done
}

fn parse(text: &str) -> Result<Vec<Advised>> {
    let mut all: Map<String, Value> = serde_json::from_str(text)?;
    let sizes = all.remove("sizes").unwrap_or_default();
    let mut sizes: Vec<Advised> = serde_json::from_value(sizes)?;
    // What nobody would recommend was not written here.
    sizes.retain(|one| {
        one.subbuf_size.saturating_mul(one.num_subbuf.into()) <= STREAM_BYTES_ADVISED_MAX
    });
    Ok(sizes)
}

/// What the last report has asked for; none, if it asked for nothing.
///
/// # Errors
/// The file cannot be used.
pub fn of(key: AdviceKey<'_>) -> Result<Vec<Advised>> {
    let Some(state) = state() else { return Ok(Vec::new()) };
    of_state(&state, key)
}

fn of_state(state: &Path, key: AdviceKey<'_>) -> Result<Vec<Advised>> {
    let file = key.file();
    let text = folder(state, false)
        .and_then(|folder| folder.map_or(Ok(None), |folder| read(&folder, &file)));
    let shown = || format!("--auto: '{}/strata/advice/{file}'", state.display());
    match text.with_context(shown)? {
        None => Ok(Vec::new()),
        Some(text) => parse(&text).with_context(shown),
    }
}

/// Keeps what this report asks for, if it asks for anything: what was kept before, and was enough, stays.
pub fn keep(key: AdviceKey<'_>, report: &Report) {
    let Some(state) = state() else { return };
    if let Err(error) = keep_in(&state, key, report) {
        talk::message(&Message {
            weight: Weight::Talk,
            text: format!("--auto will not know of these sizes: {error:#}"),
        });
    }
}

fn keep_in(state: &Path, key: AdviceKey<'_>, report: &Report) -> Result<()> {
    let new: Vec<Advised> = report
        .advised()
        .map(|(layer, channel, sizes)| Advised {
            layer: match layer {
                strata_session::report::KERNEL => LayerOf::Kernel,
                _ => LayerOf::User,
            },
            channel: if channel.is_empty() { CHANNEL } else { channel }.to_owned(),
            subbuf_size: sizes.subbuf_size,
            num_subbuf: sizes.num_subbuf,
        })
        .collect();
    if new.is_empty() {
        return Ok(());
    }
    // What cannot be used is written over.
    let mut all = of_state(state, key).unwrap_or_default();
    all.retain(|one| new.iter().all(|new| (new.layer, &new.channel) != (one.layer, &one.channel)));
    all.extend(new);
    let text = format!("{:#}\n", json!({ "version": 1, "sizes": all }));
    let shown = || format!("'{}/strata/advice'", state.display());
    let folder = folder(state, true).with_context(shown)?.with_context(shown)?;
    write(&folder, &key.file(), &text).with_context(shown)
}

/// What is said when sizes are used, or there are none.
pub fn used<'a>(all: impl IntoIterator<Item = &'a Advised>) -> String {
    match text(all) {
        none if none.is_empty() => {
            "--auto: no report has asked for other sizes; they are those of the default".to_owned()
        }
        some => format!("--auto: sizes that the last report has asked for: {some}"),
    }
}

/// `user channel0 --subbuf-size=4M --num-subbuf=8`; for people.
fn text<'a>(all: impl IntoIterator<Item = &'a Advised>) -> String {
    let one = |one: &Advised| {
        format!(
            "{} {} --subbuf-size={} --num-subbuf={}",
            one.layer.name(),
            one.channel,
            flag_size(one.subbuf_size),
            one.num_subbuf
        )
    };
    all.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{symlink, PermissionsExt as _};
    use strata_session::report::{Buffers, Counts, Demand, Discarded, LayerReport, ProcessReport};

    /// Whose user channel would have needed so much.
    fn report(bytes: u64) -> Report {
        let discarded = Discarded { full: u64::from(bytes > 0), ..Discarded::default() };
        let demand = Demand { bytes, late_ns: 1 };
        let counts = Counts { discarded, demand, ..Counts::default() };
        let process = ProcessReport { counts, ..ProcessReport::default() };
        let buffers = Buffers { subbuf_bytes: 4096, nr_subbufs: 2, ..Buffers::default() };
        let layer = LayerReport {
            layer: "user",
            buffers,
            processes: vec![process],
            ..LayerReport::default()
        };
        Report { layers: vec![layer], ..Report::default() }
    }

    struct State(PathBuf);

    impl State {
        fn new(name: &str) -> State {
            let name = format!("strata-advised-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir(&path).unwrap();
            State(path)
        }

        fn sizes(&self, key: AdviceKey<'_>) -> Vec<(u64, u32)> {
            let all = of_state(&self.0, key).unwrap();
            all.iter().map(|one| (one.subbuf_size, one.num_subbuf)).collect()
        }
    }

    impl Drop for State {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn sizes_are_those_of_the_last_report_that_asked_for_some() {
        let state = State::new("last");
        let (key, other) =
            (AdviceKey::Session("web"), AdviceKey::Command(OsStr::new("/usr/bin/web")));
        assert_eq!(state.sizes(key), []);
        keep_in(&state.0, key, &report(0)).unwrap();
        assert_eq!(std::fs::read_dir(&state.0).unwrap().count(), 0);
        keep_in(&state.0, key, &report(20_000)).unwrap();
        assert_eq!(state.sizes(key), [(16_384, 2)]);
        assert_eq!(state.sizes(other), []);
        keep_in(&state.0, other, &report(100_000)).unwrap();
        keep_in(&state.0, key, &report(0)).unwrap();
        assert_eq!((state.sizes(key), state.sizes(other)), (vec![(16_384, 2)], vec![(65_536, 2)]));
        let all = of_state(&state.0, key).unwrap();
        assert_eq!(text(&all), "user channel0 --subbuf-size=16K --num-subbuf=2");
    }

    #[test]
    fn file_or_folder_that_somebody_else_can_change_or_that_leads_away_is_not_used() {
        let state = State::new("links");
        let key = AdviceKey::Session("web");
        keep_in(&state.0, key, &report(20_000)).unwrap();
        let (above, inner) = (state.0.join("strata"), state.0.join("strata/advice"));
        let file = inner.join("session-web.json");
        let secret = state.0.join("secret");
        std::fs::write(&secret, "x").unwrap();
        std::fs::remove_file(&file).unwrap();
        symlink(&secret, &file).unwrap();
        assert!(of_state(&state.0, key).is_err());
        // The link is replaced, and what it led to is as it was.
        keep_in(&state.0, key, &report(20_000)).unwrap();
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "x");
        assert_eq!(state.sizes(key), [(16_384, 2)]);
        for text in ["", "[]", "{\"sizes\": [1]}"] {
            std::fs::write(&file, text).unwrap();
            assert!(of_state(&state.0, key).is_err(), "{text}");
        }
        std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o770)).unwrap();
        let error = keep_in(&state.0, key, &report(20_000)).unwrap_err();
        assert!(format!("{error:#}").contains("changed by others"), "{error:#}");
        std::fs::rename(&above, state.0.join("away")).unwrap();
        symlink("away", &above).unwrap();
        assert!(keep_in(&state.0, key, &report(20_000)).is_err());
    }

    #[test]
    fn name_of_a_command_leads_nowhere_and_two_stay_two() {
        let file = |name: &[u8]| AdviceKey::Command(OsStr::from_bytes(name)).file();
        assert_eq!(file(b"/bin/../usr/sh"), "command-sh.json");
        assert_eq!(file(b".."), "command-.json");
        assert_eq!(file(b"a b\xff"), "command-a%20b%ff.json");
        let (long, other) = ([b'x'; 300], [[b'x'; 299].as_slice(), b"y"].concat());
        assert_ne!(file(&long), file(&other));
        assert!(file(&[0xff; 5000]).len() < 255);
    }
}
