//! Objects that are preloaded into a command (LD_PRELOAD), so that its use of libc is recorded without
//! instrumentation: `strata record --libc`.
//!
//! ```text
//! --libc malloc,io ── PreloadPart ─┬─ rules(): which events of these objects are recorded
//!                                  └─ environment(): LD_PRELOAD=.../libstrata-libc-malloc.so:...:.../libstrata.so.0
//!                                       in ../lib/strata, ../lib or the build folder of this program; each file is checked
//! ```
//!
//! A part is an object of `probe/libc` and the providers of its events. Two parts may share one object, such as
//! `malloc` and its counted form; then rules exclude what was not asked for ([`left_out`]).
//!
//! Preloaded code runs as the command. So it is taken only from the installation of this program, and only if nobody
//! except root and this user can change it or a folder above it ([`PreloadError`] says who could). If another program
//! starts the command ([`Starter`]), perhaps with more rights, only checked objects are named for it.
//!
//! Paths have `$PLATFORM`, if the installation has the folders for it. Only glibc's loader expands it: a program with
//! another loader does not find the objects and runs without them, and a 32-bit program finds an empty object. A
//! static program loads nothing; [`hint`] says so before it starts.
//!
//! # Order
//! [`rules`] and `environment` are called before the command starts, in the main thread; they read the
//! installation and change nothing. The rules are part of the plan like those that a user writes, so that a
//! session's status shows them. While the command runs, `unpreloaded.rs` reports programs that it executed and
//! that loaded none of the objects, with the reason.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};
use strata_user::Rules;

use crate::record::command::{changes_user, resolved};
use crate::record::own_functions::{is_go, OwnFunctions};

/// The environment variable that makes the dynamic loader preload objects.
const VARIABLE: &str = "LD_PRELOAD";
/// The library that all objects need. It is loaded before libc, whose functions it replaces, just as in a program that
/// is linked with it.
pub(crate) const RUNTIME: &str = "libstrata.so.0";
/// Folders of the objects, relative to this program's folder: as a distribution's package has them, as `make install`
/// has them, and as built.
const FOLDERS: [&str; 3] = ["../lib/strata", "../lib", "../../build/probe/libc"];
/// Folder with one subfolder of objects for each platform that a loader of glibc names. Only glibc's loader expands
/// `$PLATFORM`. Other loaders, for which the objects are not made, find no such path and load nothing.
const PLATFORMS: &str = "strata-preload";
/// An empty object for 32-bit programs, which cannot load the real objects.
pub(crate) const EMPTY: &str = "empty32.so";
/// The placeholder in paths that glibc's loaders expand to the platform.
const PLATFORM: &str = "$PLATFORM";
/// The most segments of a program that are examined.
const SEGMENTS_MAX: u16 = 64;

/// A part of a program that preloaded objects record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreloadPart {
    /// Each call of malloc() and its family.
    Malloc,
    /// The same calls, counted by call site and size instead of being recorded one by one.
    MallocSum,
    /// Waiting for locks and condition variables.
    Pthread,
    /// Every call to functions for locks and condition variables.
    PthreadAll,
    /// Files and streams: open, read, write, close.
    Io,
    /// Files and streams as in `Io`, and calls for single characters.
    IoAll,
    /// Loading of shared objects.
    Dl,
    /// Entry and exit of functions that were compiled with -finstrument-functions.
    Functions,
}

impl PreloadPart {
    /// All parts that can be requested.
    pub const ALL: [PreloadPart; 8] = [
        PreloadPart::Malloc,
        PreloadPart::MallocSum,
        PreloadPart::Pthread,
        PreloadPart::PthreadAll,
        PreloadPart::Io,
        PreloadPart::IoAll,
        PreloadPart::Dl,
        PreloadPart::Functions,
    ];

    /// Returns the name of the part in command-line flags.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PreloadPart::Malloc => "malloc",
            PreloadPart::MallocSum => "malloc:sum",
            PreloadPart::Pthread => "pthread",
            PreloadPart::PthreadAll => "pthread-all",
            PreloadPart::Io => "io",
            PreloadPart::IoAll => "io-all",
            PreloadPart::Dl => "dl",
            PreloadPart::Functions => "functions",
        }
    }

    /// Returns the part with this name.
    ///
    /// # Errors
    /// There is no such part; the text lists the names.
    pub fn parse(name: &str) -> Result<PreloadPart, String> {
        PreloadPart::ALL.into_iter().find(|part| part.name() == name).ok_or_else(|| {
            let names = PreloadPart::ALL.map(PreloadPart::name).join(", ");
            format!("'{name}' is none of {names}")
        })
    }

    fn object(self) -> &'static str {
        match self {
            PreloadPart::Malloc | PreloadPart::MallocSum => "libstrata-libc-malloc.so",
            PreloadPart::Pthread | PreloadPart::PthreadAll => "libstrata-libc-pthread.so",
            PreloadPart::Io | PreloadPart::IoAll => "libstrata-libc-io.so",
            PreloadPart::Dl => "libstrata-libc-dl.so",
            PreloadPart::Functions => "libstrata-functions.so",
        }
    }

    /// Returns the providers of the events that this library records, as they are called in `PROVIDER:EVENT`.
    fn providers(self) -> &'static [&'static str] {
        match self {
            PreloadPart::Malloc => &["libc"],
            PreloadPart::MallocSum => &["libc_sum"],
            PreloadPart::Pthread => &["pthread"],
            PreloadPart::PthreadAll => &["pthread", "pthread_all"],
            PreloadPart::Io => &["io"],
            PreloadPart::IoAll => &["io", "io_all"],
            PreloadPart::Dl => &["dl"],
            PreloadPart::Functions => &["functions"],
        }
    }
}

/// Groups of providers that one object contains. Of a group, only the requested providers are recorded, so that calls
/// are not both counted and recorded one by one.
const SIBLINGS: [&[&str]; 3] =
    [&["libc", "libc_sum"], &["pthread", "pthread_all"], &["io", "io_all"]];

fn providers(parts: &[PreloadPart]) -> Vec<&'static str> {
    let mut providers: Vec<&str> = Vec::new();
    for provider in parts.iter().flat_map(|part| part.providers()) {
        if !providers.contains(provider) {
            providers.push(provider);
        }
    }
    providers
}

/// Returns the rules that record these parts.
#[must_use]
pub fn selecting(parts: &[PreloadPart]) -> Vec<String> {
    providers(parts).iter().map(|provider| format!("{provider}:*")).collect()
}

/// Returns whether [`selecting`] could have made this rule.
#[must_use]
pub fn is_selecting(rule: &str) -> bool {
    let provider = rule.strip_suffix(":*").unwrap_or_default();
    PreloadPart::ALL.iter().any(|part| part.providers().contains(&provider))
}

/// Returns rules that exclude providers of the preloaded objects that were not requested, and that a pattern of the
/// user such as `*:*` would select.
#[must_use]
pub fn left_out(parts: &[PreloadPart], user: &[String]) -> Vec<String> {
    let providers = providers(parts);
    let is_named = |provider: &&&str| {
        let prefix = format!("{provider}:");
        let mut all = user.iter().flat_map(|rule| rule.split(','));
        all.any(|rule| rule.trim().trim_start_matches('!').starts_with(&prefix))
    };
    let others = SIBLINGS.into_iter().filter(|all| all.iter().any(|one| providers.contains(one)));
    let others = others.flatten().filter(|one| !providers.contains(*one) && !is_named(one));
    let others = others.filter(|one| may_select(user, one));
    others.map(|provider| format!("{provider}:*")).collect()
}

/// Returns whether one of these rules can select an event of this provider.
fn may_select(user: &[String], provider: &str) -> bool {
    // Invalid rules are refused elsewhere.
    let Ok(rules) = Rules::parse(user) else { return false };
    let mut selecting = rules.rules().iter().filter(|rule| !rule.is_exclusion());
    selecting.any(|rule| {
        let pattern = rule.parts().0.split(':').next().unwrap_or_default();
        Rules::parse(&[format!("{pattern}:*")]).map_or(true, |all| {
            all.rules().iter().any(|one| one.matches(provider.as_bytes(), b"x", 0))
        })
    })
}

/// Returns the rules that record these parts, with the exclusions that the user's rules need. `strata record` adds
/// all of them to the user's rules.
#[must_use]
pub fn rules(parts: &[PreloadPart], user: &[String]) -> Vec<String> {
    let excluded = left_out(parts, user).into_iter().map(|rule| format!("!{rule}"));
    selecting(parts).into_iter().chain(excluded).collect()
}

/// Why the objects cannot be preloaded.
#[derive(Debug, thiserror::Error)]
pub enum PreloadError {
    /// An object is missing from the installation.
    #[error(
        "--libc: {object} is not beside this program: not in {}. Install strata with `make install`, \
         or build all of it with `make build`",
        folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", nor in ")
    )]
    NotFound {
        /// The file's name, without a folder.
        object: &'static str,
        /// The folders that were searched.
        folders: Vec<PathBuf>,
    },
    /// Another user could replace the object.
    #[error(
        "--libc: {}: {why}, who could let the command run anything. Install strata where only root \
         and you can write",
        path.display()
    )]
    NotOurs {
        /// Path of the file, or of a folder above it.
        path: PathBuf,
        /// A description of who can change it, for the message.
        why: String,
    },
    /// LD_PRELOAD cannot express the path.
    #[error(
        "--libc: the path {:?} has one of ':', '$' and white space in it, which LD_PRELOAD cannot name. \
         Install strata elsewhere",
        path
    )]
    Unnameable { path: PathBuf },
    /// A call of the system failed.
    #[error("--libc: cannot look at {}: {source}", path.display())]
    System {
        path: PathBuf,
        /// The error code of the system.
        source: io::Error,
    },
}

/// The process that starts recorded programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starter {
    /// This program, which passes its environment on. Objects that its `LD_PRELOAD` names already are kept, after
    /// ours.
    Own,
    /// Another program, perhaps with more rights. Its `LD_PRELOAD` only names objects that no other user can replace.
    Others,
}

impl Starter {
    fn stays(self, before: Option<OsString>) -> Option<OsString> {
        before.filter(|_| self == Starter::Own)
    }
}

/// Returns the environment variable, with its value, that makes a program record these parts; `None`
/// without parts.
///
/// # Errors
/// [`PreloadError`].
pub fn environment(
    parts: &[PreloadPart],
    starter: Starter,
) -> Result<Option<(OsString, OsString)>, PreloadError> {
    if parts.is_empty() {
        return Ok(None);
    }
    let program = std::env::current_exe()
        .map_err(|source| PreloadError::System { path: "/proc/self/exe".into(), source })?;
    let stays = starter.stays(std::env::var_os(VARIABLE));
    Ok(Some((VARIABLE.into(), value(parts, &program, stays.as_deref())?)))
}

/// Returns the file of libstrata that belongs to this program's installation.
///
/// # Errors
/// [`PreloadError`]: it is not there, or others may change it.
pub fn runtime() -> Result<PathBuf, PreloadError> {
    let program = std::env::current_exe()
        .map_err(|source| PreloadError::System { path: "/proc/self/exe".into(), source })?;
    let path = folder(&program, &[RUNTIME])?.join(RUNTIME);
    let real = path.canonicalize().map_err(|source| PreloadError::System { path, source })?;
    check_ours(&real)?;
    Ok(real)
}

/// Returns the objects of Strata in a value of `LD_PRELOAD`, without those of the user.
pub(crate) fn objects(value: &OsStr) -> Vec<PathBuf> {
    let text = value.to_string_lossy();
    let all =
        text.split(':').map(|one| PathBuf::from(one.replace(PLATFORM, std::env::consts::ARCH)));
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name == RUNTIME || PreloadPart::ALL.iter().any(|part| name == part.object())
    };
    all.filter(is_ours).collect()
}

fn value(
    parts: &[PreloadPart],
    program: &Path,
    before: Option<&OsStr>,
) -> Result<OsString, PreloadError> {
    let mut objects: Vec<&'static str> = Vec::new();
    for object in parts.iter().map(|part| part.object()).chain([RUNTIME]) {
        if !objects.contains(&object) {
            objects.push(object);
        }
    }
    let folder = folder(program, &objects)?;
    if folder
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|&byte| matches!(byte, b':' | b'$') || byte.is_ascii_whitespace())
    {
        return Err(PreloadError::Unnameable { path: folder });
    }
    let by_platform = by_platform(&folder, &objects);
    let mut value = OsString::new();
    for object in objects {
        let path = folder.join(object);
        check_ours(&path)?;
        // The folder of a link is checked as well as the file that the link leads to.
        let real = path.canonicalize();
        check_ours(&real.map_err(|source| PreloadError::System { path: path.clone(), source })?)?;
        if !value.is_empty() {
            value.push(":");
        }
        match &by_platform {
            Some(own) => {
                check_ours(&own.join(object))?;
                value.push(folder.join(PLATFORMS).join(PLATFORM).join(object));
            }
            None => value.push(path),
        }
    }
    if let Some(before) = before.filter(|text| !text.is_empty()) {
        value.push(":");
        value.push(before);
    }
    Ok(value)
}

/// Returns the folder that contains the objects, by its real path.
fn folder(program: &Path, objects: &[&'static str]) -> Result<PathBuf, PreloadError> {
    let of_program = program.parent().unwrap_or(Path::new("/"));
    let folders = FOLDERS.map(|folder| of_program.join(folder));
    let missing = |folder: &Path| objects.iter().find(|object| !folder.join(object).exists());
    match folders.iter().find(|folder| missing(folder).is_none()) {
        Some(found) => found
            .canonicalize()
            .map_err(|source| PreloadError::System { path: found.clone(), source }),
        None => {
            let object = missing(&folders[1]).copied().unwrap_or(RUNTIME);
            Err(PreloadError::NotFound { object, folders: folders.to_vec() })
        }
    }
}

/// Returns the subfolder for this machine's platform; `None` if it lacks one of the objects, as in an
/// incomplete copy of an installation.
fn by_platform(folder: &Path, objects: &[&'static str]) -> Option<PathBuf> {
    let own = folder.join(PLATFORMS).join(std::env::consts::ARCH);
    let is_same = |object: &&str| {
        own.join(object).canonicalize().ok() == folder.join(object).canonicalize().ok()
    };
    (own.is_dir() && objects.iter().all(is_same)).then_some(own)
}

/// Checks that no other user can change `path`, which is absolute, or replace it.
fn check_ours(path: &Path) -> Result<(), PreloadError> {
    for part in path.ancestors() {
        let found = part
            .symlink_metadata()
            .map_err(|source| PreloadError::System { path: part.to_owned(), source })?;
        if let Some(why) = stranger(found.uid(), found.gid(), found.mode()) {
            return Err(PreloadError::NotOurs { path: part.to_owned(), why });
        }
    }
    Ok(())
}

/// Returns a description of the other users who can change a file or folder of this owner, group and mode; `None` if
/// there are none.
fn stranger(uid: u32, gid: u32, mode: u32) -> Option<String> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    // Only the owner of a symbolic link decides where it leads.
    let is_link = mode & libc::S_IFMT == libc::S_IFLNK;
    // In a sticky folder only a file's owner can rename it, and the owner of the file is checked.
    let is_sticky = mode & libc::S_IFMT == libc::S_IFDIR && mode & libc::S_ISVTX != 0;
    match () {
        () if uid != 0 && uid != user => Some(format!("belongs to user {uid}")),
        () if is_link || is_sticky => None,
        () if mode & libc::S_IWOTH != 0 => Some("can be changed by everybody".to_owned()),
        // Root's group and the user's own group are trusted.
        () if mode & libc::S_IWGRP != 0 && gid != 0 && (gid != group || user == 0) => {
            Some(format!("can be changed by group {gid}"))
        }
        () => None,
    }
}

/// Returns why preloaded objects will record the command incompletely or not at all, as far as its program file
/// shows; otherwise `None`.
#[must_use]
pub fn hint(command: &[OsString], parts: &[PreloadPart]) -> Option<String> {
    let path = resolved(command.first()?)?;
    if changes_user(&path) {
        return Some(
            "the command runs as another user (set-user-ID), and the loader preloads nothing for such programs: \
             nothing of it is recorded by --libc"
                .to_owned(),
        );
    }
    if is_static(&path).unwrap_or(false) {
        let kind = if is_go(&path) { "a Go program, " } else { "" };
        return Some(format!(
            "the command is {kind}linked statically, and has no loader that preloads anything: nothing of it is \
             recorded by --libc, only of programs that it starts",
        ));
    }
    let (_, value) = environment(parts, Starter::Own).ok()??;
    let reason = OwnFunctions::new(objects(&value)).reason(&path)?;
    Some(format!("the command: {reason}"))
}

/// Returns whether the file is a statically linked ELF program, which has no dynamic loader.
fn is_static(path: &Path) -> io::Result<bool> {
    const PT_INTERP: u32 = 3;
    // Opening a FIFO would block otherwise.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    let header: [u8; 64] = read_at(&file, 0)?;
    if &header[..4] != b"\x7fELF" || header[4] != 2 || header[5] != 1 {
        return Ok(false);
    }
    let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let offset = u64::from_le_bytes(std::array::from_fn(|i| header[32 + i]));
    let (entry_bytes, nr) = (u64::from(u16_at(54)), u16_at(56).min(SEGMENTS_MAX));
    for i in 0..u64::from(nr) {
        let at = offset.checked_add(i * entry_bytes).ok_or(io::ErrorKind::InvalidData)?;
        if u32::from_le_bytes(read_at(&file, at)?) == PT_INTERP {
            return Ok(false);
        }
    }
    Ok(nr > 0)
}

fn read_at<const N: usize>(file: &File, at: u64) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{symlink, PermissionsExt};

    use super::*;
    use crate::scratch_tests::Scratch;

    /// Creates a folder tree as after an installation, with all objects.
    fn installed(name: &str) -> (Scratch, PathBuf) {
        let scratch = Scratch::new(name);
        let root = scratch.0.canonicalize().unwrap();
        fs::create_dir(root.join("bin")).unwrap();
        fs::create_dir(root.join("lib")).unwrap();
        for object in PreloadPart::ALL.map(PreloadPart::object).into_iter().chain([RUNTIME]) {
            fs::write(root.join("lib").join(object), "").unwrap();
        }
        let program = root.join("bin/strata");
        (scratch, program)
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn part_of_each_name_is_found_and_others_are_refused_with_the_names() {
        for part in PreloadPart::ALL {
            assert_eq!(PreloadPart::parse(part.name()), Ok(part));
        }
        let text = PreloadPart::parse("mallocs").unwrap_err();
        assert!(text.contains("'mallocs' is none of malloc, malloc:sum"), "{text}");
    }

    #[test]
    fn rules_name_what_was_asked_for_and_exclude_its_siblings_from_those_of_the_user() {
        let parts = [PreloadPart::Malloc, PreloadPart::PthreadAll, PreloadPart::Malloc];
        assert_eq!(rules(&parts, &[]), ["libc:*", "pthread:*", "pthread_all:*"]);
        let all = ["*:*".to_owned()];
        let wanted = ["libc:*", "pthread:*", "pthread_all:*", "!libc_sum:*"];
        assert_eq!(rules(&parts, &all), wanted);
        let named = ["libc_sum:*".to_owned()];
        assert_eq!(rules(&[PreloadPart::Malloc], &named), ["libc:*"]);
        assert_eq!(rules(&[PreloadPart::MallocSum], &all), ["libc_sum:*", "!libc:*"]);
        assert_eq!(rules(&[PreloadPart::Io], &all), ["io:*", "!io_all:*"]);
        assert_eq!(rules(&[PreloadPart::IoAll], &all), ["io:*", "io_all:*"]);
        // Only what one of them could select.
        for (user, wanted) in [
            (&[][..], false),
            (&["shop:*"], false),
            (&["shop:*,!*:*"], false),
            (&["shop:*,lib?:f*"], true),
            (&["l*"], true),
            (&["*:*@warning"], true),
            (&["*:*,libc:malloc"], false),
            (&["*:*", "!libc:free"], false),
        ] {
            let user: Vec<String> = user.iter().map(|&rule| rule.to_owned()).collect();
            let found = left_out(&[PreloadPart::MallocSum], &user);
            assert_eq!(found == ["libc:*"], wanted, "{user:?}: {found:?}");
            assert_eq!(found.is_empty(), !wanted, "{user:?}: {found:?}");
        }
    }

    #[test]
    fn value_names_each_object_once_the_runtime_last_and_keeps_what_was_there() {
        let (_scratch, program) = installed("preload-value");
        let lib = program.parent().unwrap().join("../lib").canonicalize().unwrap();
        let lib = lib.display();
        let parts = [PreloadPart::Malloc, PreloadPart::MallocSum, PreloadPart::Dl];
        let wanted =
            format!("{lib}/libstrata-libc-malloc.so:{lib}/libstrata-libc-dl.so:{lib}/{RUNTIME}");
        assert_eq!(value(&parts, &program, None).unwrap(), *wanted);
        assert_eq!(value(&parts, &program, Some(OsStr::new(""))).unwrap(), *wanted);
        let both = value(&parts, &program, Some(OsStr::new("/a.so b.so"))).unwrap();
        assert_eq!(both, *format!("{wanted}:/a.so b.so"));
        // To others nothing is named that was not checked.
        let of = |starter: Starter| {
            let stays = starter.stays(Some("/a.so b.so".into()));
            value(&parts, &program, stays.as_deref()).unwrap()
        };
        assert_eq!((of(Starter::Own), of(Starter::Others)), (both, wanted.into()));
        fs::remove_file(program.parent().unwrap().join("../lib").join(RUNTIME)).unwrap();
        let text = value(&parts, &program, None).unwrap_err().to_string();
        assert!(
            text.contains("libstrata.so.0 is not beside") && text.contains("make install"),
            "{text}"
        );
    }

    #[test]
    fn value_has_the_platform_of_the_loader_where_the_objects_are_there_by_it() {
        let (_scratch, program) = installed("preload-platform");
        let lib = program.parent().unwrap().join("../lib").canonicalize().unwrap();
        let own = lib.join(PLATFORMS).join(std::env::consts::ARCH);
        fs::create_dir(lib.join(PLATFORMS)).unwrap();
        symlink("..", &own).unwrap();
        let gate = lib.join(PLATFORMS);
        let wanted =
            format!("{0}/$PLATFORM/libstrata-libc-dl.so:{0}/$PLATFORM/{RUNTIME}", gate.display());
        assert_eq!(value(&[PreloadPart::Dl], &program, None).unwrap(), *wanted);
        mode(&gate, 0o777);
        let refused = value(&[PreloadPart::Dl], &program, None).unwrap_err().to_string();
        assert!(refused.contains("can be changed by everybody"), "{refused}");
        mode(&gate, 0o755);
        // Another installation's are not these.
        fs::remove_file(&own).unwrap();
        fs::create_dir(&own).unwrap();
        for object in [RUNTIME, PreloadPart::Dl.object()] {
            fs::write(own.join(object), "").unwrap();
        }
        let plain = value(&[PreloadPart::Dl], &program, None).unwrap();
        assert!(!plain.to_string_lossy().contains('$'), "{plain:?}");
    }

    #[test]
    fn object_that_others_can_change_is_refused_wherever_they_can() {
        let (scratch, program) = installed("preload-others");
        let lib = program.parent().unwrap().join("../lib").canonicalize().unwrap();
        let refused =
            || value(&[PreloadPart::Io], &program, None).err().map(|error| error.to_string());
        assert_eq!(refused(), None);
        for path in
            [lib.join(RUNTIME), lib.join(PreloadPart::Io.object()), lib.clone(), scratch.0.clone()]
        {
            let before = fs::metadata(&path).unwrap().permissions().mode();
            mode(&path, 0o777);
            let text = refused().unwrap_or_default();
            assert!(text.contains("can be changed by everybody"), "{path:?}: {text}");
            mode(&path, before);
        }
        assert_eq!(refused(), None);
        // A link leads elsewhere: what counts is there, too.
        let open = scratch.0.canonicalize().unwrap().join("open");
        fs::create_dir(&open).unwrap();
        fs::rename(lib.join(RUNTIME), open.join(RUNTIME)).unwrap();
        symlink(open.join(RUNTIME), lib.join(RUNTIME)).unwrap();
        assert_eq!(refused(), None);
        mode(&open, 0o777);
        assert!(refused().unwrap_or_default().contains("can be changed by everybody"));
    }

    #[test]
    fn stranger_is_who_is_neither_root_nor_this_user() {
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        let (file, folder) = (libc::S_IFREG, libc::S_IFDIR);
        assert_eq!(stranger(user, group, file | 0o644), None);
        assert_eq!(stranger(0, 0, folder | 0o755), None);
        assert_eq!(stranger(0, 0, folder | 0o775), None);
        assert_eq!(stranger(0, 0, folder | 0o1777), None);
        for (uid, gid, mode) in [
            (user + 1, group, file | 0o644),
            (user + 1, group, folder | 0o1755),
            (0, 0, folder | 0o777),
            (0, group + 1, folder | 0o775),
            (0, 0, file | 0o1666),
        ] {
            assert!(stranger(uid, gid, mode).is_some(), "{uid} {gid} {mode:o}");
        }
    }

    #[test]
    fn path_that_the_variable_cannot_name_is_refused() {
        for (nr, bad) in ["a b", "a:b", "a$LIB"].into_iter().enumerate() {
            let (scratch, _) = installed(&format!("preload-name-{nr}"));
            let root = scratch.0.canonicalize().unwrap();
            fs::create_dir(root.join(bad)).unwrap();
            fs::rename(root.join("lib"), root.join(bad).join("lib")).unwrap();
            let error = value(&[PreloadPart::Dl], &root.join(bad).join("bin/strata"), None);
            // "bin" need not be there for "../lib" to be asked of it.
            fs::create_dir(root.join(bad).join("bin")).unwrap();
            assert!(error.is_err());
            let error = value(&[PreloadPart::Dl], &root.join(bad).join("bin/strata"), None);
            assert!(matches!(error, Err(PreloadError::Unnameable { .. })), "{error:?}");
        }
    }

    #[test]
    fn hint_is_given_for_programs_without_a_loader_only() {
        let scratch = Scratch::new("preload-static");
        let file = |name: &str, bytes: &[u8]| {
            fs::write(scratch.0.join(name), bytes).unwrap();
            hint(&[scratch.0.join(name).into()], &[]).is_some()
        };
        let mut elf = [0u8; 64 + 56];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (elf[32], elf[54], elf[56]) = (64, 56, 1);
        elf[64] = 1;
        assert!(file("static", &elf));
        elf[64] = 3;
        assert!(!file("dynamic", &elf));
        elf[56] = 2;
        elf[64] = 1;
        assert!(!file("cut", &elf), "a segment behind its end says nothing");
        elf[32..40].fill(0xff);
        assert!(!file("far", &elf));
        assert!(!file("script", b"#!/bin/sh\n"));
        assert!(!file("empty", b""));
        assert!(hint(&["/".into()], &[]).is_none() && hint(&[], &[]).is_none());
        assert!(hint(&["sh".into()], &[]).is_none());
    }
}
