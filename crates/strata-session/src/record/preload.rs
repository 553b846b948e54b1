//! Objects that a command is started with, by LD_PRELOAD, so that what it does in libc is recorded without its having
//! been instrumented: `strata record --libc`.
//!
//! What is preloaded runs as the command. So it is taken from beside this program only, and only if nobody but root and
//! this user can change it or a folder above it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};
use strata_user::Rules;

use crate::record::command::{changes_user, resolved};

/// What the dynamic loader takes from there.
const VARIABLE: &str = "LD_PRELOAD";
/// All of them need it; before libc, whose functions it replaces as in a program that is linked with it.
const RUNTIME: &str = "libstrata.so.0";
/// From this program's folder: as installed, and as built.
const FOLDERS: [&str; 2] = ["../lib", "../../build/probe/libc"];
/// Segments of a program are looked at, so many at most.
const SEGMENTS_MAX: u16 = 64;

/// What of a program is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreloadPart {
    /// malloc() and its family, each call.
    Malloc,
    /// The same, counted by call site and size.
    MallocSum,
    /// Locks and conditions that are waited for.
    Pthread,
    /// And each call of them.
    PthreadAll,
    /// Files and streams: open, read, write, close.
    Io,
    /// And each character that a stream is given or gives.
    IoAll,
    /// Objects that are loaded.
    Dl,
    /// What -finstrument-functions compiles in.
    Functions,
}

impl PreloadPart {
    /// All of them.
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

    /// As it is asked for.
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

    /// The part of this name.
    ///
    /// # Errors
    /// There is none; the text says which there are.
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

    /// The providers of its events.
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

/// What there is of an object that was not asked for: each call, where they were to be counted.
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

/// The rules that record these parts.
#[must_use]
pub fn selecting(parts: &[PreloadPart]) -> Vec<String> {
    providers(parts).iter().map(|provider| format!("{provider}:*")).collect()
}

/// What rules of the user beside these parts leave out: of the objects that are there, what they select by a pattern, as
/// `*:*` does, and do not name.
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

/// Can one of these rules select anything of this provider?
fn may_select(user: &[String], provider: &str) -> bool {
    // What is none is refused elsewhere.
    let Ok(rules) = Rules::parse(user) else { return false };
    let mut selecting = rules.rules().iter().filter(|rule| !rule.is_exclusion());
    selecting.any(|rule| {
        let pattern = rule.parts().0.split(':').next().unwrap_or_default();
        Rules::parse(&[format!("{pattern}:*")]).map_or(true, |all| {
            all.rules().iter().any(|one| one.matches(provider.as_bytes(), b"x", 0))
        })
    })
}

/// The rules that record these parts, for those of the user, as `strata record` has them for all that it records.
#[must_use]
pub fn rules(parts: &[PreloadPart], user: &[String]) -> Vec<String> {
    let excluded = left_out(parts, user).into_iter().map(|rule| format!("!{rule}"));
    selecting(parts).into_iter().chain(excluded).collect()
}

/// Why nothing can be preloaded.
#[derive(Debug, thiserror::Error)]
pub enum PreloadError {
    /// They are not where they belong.
    #[error(
        "--libc: {object} is not beside this program: not in {}. Install strata with `make install`, \
         or build all of it with `make build`",
        folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", nor in ")
    )]
    NotFound {
        /// The file's name, without a folder.
        object: &'static str,
        /// Where it was looked for.
        folders: Vec<PathBuf>,
    },
    /// Somebody else could give the command another object.
    #[error(
        "--libc: {}: {why}, who could let the command run anything. Install strata where only root \
         and you can write",
        path.display()
    )]
    NotOurs {
        /// The file, or a folder above it.
        path: PathBuf,
        /// Who can change it.
        why: String,
    },
    /// LD_PRELOAD has no way to say it.
    #[error(
        "--libc: the path {:?} has one of ':', '$' and white space in it, which LD_PRELOAD cannot name. \
         Install strata elsewhere",
        path
    )]
    Unnameable {
        /// The folder.
        path: PathBuf,
    },
    /// The system says so.
    #[error("--libc: cannot look at {}: {source}", path.display())]
    System {
        /// The object's path.
        path: PathBuf,
        /// What the kernel answered.
        source: io::Error,
    },
}

/// Who starts what is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starter {
    /// This program, which gives its own environment away: what it preloads already stays, behind the objects.
    Own,
    /// Somebody else, perhaps with more rights, to whom nothing is named but what was checked.
    Others,
}

impl Starter {
    fn stays(self, before: Option<OsString>) -> Option<OsString> {
        before.filter(|_| self == Starter::Own)
    }
}

/// What the environment of a program gets that is recorded by these parts. `None`: there is no part.
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
    let mut value = OsString::new();
    for object in objects {
        let path = folder.join(object);
        check_ours(&path)?;
        // The link's own folder is checked, too: what it leads to is checked by its true name.
        let real = path.canonicalize();
        check_ours(&real.map_err(|source| PreloadError::System { path: path.clone(), source })?)?;
        if !value.is_empty() {
            value.push(":");
        }
        value.push(path);
    }
    if let Some(before) = before.filter(|text| !text.is_empty()) {
        value.push(":");
        value.push(before);
    }
    Ok(value)
}

/// The folder that has them, by its true name.
fn folder(program: &Path, objects: &[&'static str]) -> Result<PathBuf, PreloadError> {
    let of_program = program.parent().unwrap_or(Path::new("/"));
    let folders = FOLDERS.map(|folder| of_program.join(folder));
    let missing = |folder: &Path| objects.iter().find(|object| !folder.join(object).exists());
    match folders.iter().find(|folder| missing(folder).is_none()) {
        Some(found) => found
            .canonicalize()
            .map_err(|source| PreloadError::System { path: found.clone(), source }),
        None => {
            let object = missing(&folders[0]).copied().unwrap_or(RUNTIME);
            Err(PreloadError::NotFound { object, folders: folders.to_vec() })
        }
    }
}

/// Nobody else can change `path`, an absolute one, or give its name to something else.
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

/// Who else can change a file or folder of this owner, group and mode.
fn stranger(uid: u32, gid: u32, mode: u32) -> Option<String> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    // What a link says is its owner's.
    let is_link = mode & libc::S_IFMT == libc::S_IFLNK;
    // In such a folder names are their owners', who are asked of what has the name.
    let is_sticky = mode & libc::S_IFMT == libc::S_IFDIR && mode & libc::S_ISVTX != 0;
    match () {
        () if uid != 0 && uid != user => Some(format!("belongs to user {uid}")),
        () if is_link || is_sticky => None,
        () if mode & libc::S_IWOTH != 0 => Some("can be changed by everybody".to_owned()),
        // That of root, or the user's own.
        () if mode & libc::S_IWGRP != 0 && gid != 0 && (gid != group || user == 0) => {
            Some(format!("can be changed by group {gid}"))
        }
        () => None,
    }
}

/// Why nothing, or not all, will be recorded of this command, if its file says so.
#[must_use]
pub fn hint(command: &[OsString]) -> Option<&'static str> {
    let path = resolved(command.first()?)?;
    if changes_user(&path) {
        return Some(
            "the command runs as another user (set-user-ID), and the loader preloads nothing for such programs: \
             nothing of it is recorded by --libc",
        );
    }
    is_static(&path).unwrap_or(false).then_some(
        "the command is linked statically, and has no loader that preloads anything: nothing of it is \
         recorded by --libc, only of programs that it starts",
    )
}

/// Is it an ELF program without an interpreter?
fn is_static(path: &Path) -> io::Result<bool> {
    const PT_INTERP: u32 = 3;
    // A fifo would be waited for.
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

    /// A tree as installed, with all objects.
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
            hint(&[scratch.0.join(name).into()]).is_some()
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
        assert!(hint(&["/".into()]).is_none() && hint(&[]).is_none());
        assert!(hint(&["sh".into()]).is_none());
    }
}
