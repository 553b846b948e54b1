//! Recognizes programs that are instrumented for LTTng-UST and were not rebuilt, by the libraries that they are linked
//! with.
//!
//! Files and names may be anybody's: they are read in bounded pieces and never trusted, and what cannot be read is
//! ignored.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use strata_model::text_from_bytes;

use crate::processes::memory_map::Maps;

/// Prefix of the file names of LTTng's library; versions 2.0 to 2.12 have the number 0, later ones 1.
const LIBRARY: &[u8] = b"liblttng-ust.so";
/// The most files of a process or a command that are examined.
const FILES_MAX: usize = 512;
const SEGMENTS_MAX: u16 = 256;
const DYNAMIC_MAX: u64 = 64 << 10;
/// The most bytes of a name in a file, with its NUL \[byte\].
const NAME_MAX: usize = 4096;

/// Files that are linked with LTTng's library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lttng {
    /// File name of the library, such as `liblttng-ust.so.1`.
    pub library: String,
    /// Files that need the library; empty if they cannot be found out.
    pub needed_by: Vec<String>,
}

impl std::fmt::Display for Lttng {
    /// Formats a description and a remedy. The text follows the process's name and a colon.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let by = match self.needed_by.as_slice() {
            [] => "it has loaded".to_owned(),
            [one] => format!("{one} is linked with"),
            many => format!("{} are linked with", many.join(", ")),
        };
        write!(
            f,
            "instrumented for LTTng-UST: {by} {}, which is LTTng's, and Strata does not see its tracepoints. \
             Compile and link {} again with `pkg-config --cflags --libs strata-lttng`; the sources stay as they \
             are",
            self.library,
            if self.needed_by.len() == 1 { "that file" } else { "these files" }
        )
    }
}

/// Finds LTTng's library in the mappings of a process, and the files that need it. May block, since the files may be on
/// any file system.
pub(crate) fn lttng_of_process(pid: u32) -> Option<Lttng> {
    let mut maps = Maps::of(File::open(format!("/proc/{pid}/maps")).ok()?);
    let mut library = None;
    let mut files = BTreeSet::new();
    while let Some(mapping) = maps.next().ok()? {
        let path = mapping.name;
        if !path.starts_with(b"/") {
            continue;
        }
        if is_library(path) {
            library = Some(file_name(path));
        } else if files.len() < FILES_MAX && !files.contains(path) {
            files.insert(path.to_vec());
        }
    }
    let library = library?;
    // The path in the process' own view of files, which may be that of a container.
    let needs = |path: &&Vec<u8>| {
        let place = [format!("/proc/{pid}/root").as_bytes(), path].concat();
        needed(Path::new(OsStr::from_bytes(&place))).names.iter().any(|name| is_library(name))
    };
    let needed_by = files.iter().filter(needs).map(|path| shown(path)).collect();
    Some(Lttng { library, needed_by })
}

/// Finds out whether a program that is about to run, or one of its libraries, is linked with LTTng's library.
///
/// Libraries that the program loads later are not found. `preload` and `path` are LD_PRELOAD and LD_LIBRARY_PATH of its
/// environment.
#[must_use]
pub fn lttng_of_program(program: &Path, preload: &OsStr, path: &OsStr) -> Option<Lttng> {
    let mut files = vec![program.to_owned()];
    let split = |text: &OsStr| -> Vec<PathBuf> {
        let separator = |byte: &u8| matches!(byte, b' ' | b':');
        let parts = text.as_bytes().split(separator).filter(|part| !part.is_empty());
        parts.map(|part| PathBuf::from(OsStr::from_bytes(part))).collect()
    };
    files.extend(split(preload));
    let folders = split(path);
    let mut found: Option<Lttng> = None;
    let mut next = 0;
    while next < files.len().min(FILES_MAX) {
        let file = files[next].clone();
        next += 1;
        let needed = needed(&file);
        for name in &needed.names {
            if is_library(name) {
                let library = file_name(name);
                let found = found.get_or_insert_with(|| Lttng { library, needed_by: Vec::new() });
                found.needed_by.push(shown(file.as_os_str().as_bytes()));
            } else if let Some(place) = placed(name, &file, &needed.folders, &folders) {
                if !files.contains(&place) {
                    files.push(place);
                }
            }
        }
    }
    found
}

fn is_library(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    name.strip_prefix(LIBRARY).is_some_and(|rest| rest.is_empty() || rest[0] == b'.')
}

fn file_name(path: &[u8]) -> String {
    shown(path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))
}

fn shown(bytes: &[u8]) -> String {
    text_from_bytes(bytes).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Returns the path at which the dynamic loader will most likely find a library that the file `user` needs. Returns
/// `None` for system libraries except LTTng's, since they are no providers.
fn placed(name: &[u8], user: &Path, own: &[Vec<u8>], folders: &[PathBuf]) -> Option<PathBuf> {
    let name = OsStr::from_bytes(name);
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let origin = user.parent().unwrap_or(Path::new("")).as_os_str().as_bytes();
    let of_user = own.iter().flat_map(|list| list.split(|byte| *byte == b':')).map(|folder| {
        let rest = folder.strip_prefix(b"$ORIGIN").or(folder.strip_prefix(b"${ORIGIN}"));
        let folder = rest.map_or_else(|| folder.to_vec(), |rest| [origin, rest].concat());
        PathBuf::from(OsStr::from_bytes(&folder))
    });
    let usual = ["/usr/local/lib".into(), "/usr/lib".into(), "/lib".into()];
    let mut places = of_user.chain(folders.iter().cloned()).chain(usual).map(|at| at.join(name));
    places.find(|place| place.is_file())
}

/// The names of libraries that an ELF file needs, and where they are searched.
#[derive(Default)]
struct Needed {
    names: Vec<Vec<u8>>,
    /// Folders of DT_RUNPATH and DT_RPATH.
    folders: Vec<Vec<u8>>,
}

fn needed(path: &Path) -> Needed {
    read_needed(path).unwrap_or_default()
}

/// Reads which libraries a 64-bit program or library of this machine needs; other files cannot be recorded.
fn read_needed(path: &Path) -> Option<Needed> {
    // Opening a named pipe must not wait for its other end.
    let options = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = options.ok().filter(|file| file.metadata().is_ok_and(|meta| meta.is_file()))?;
    let header: [u8; 64] = piece(&file, 0)?;
    let order = if cfg!(target_endian = "little") { 1 } else { 2 };
    if header[..4] != *b"\x7fELF" || header[4..6] != [2, order] {
        return None;
    }
    let segments = u64_at(&header, 32)?;
    let number = u16::from_ne_bytes(header[56..58].try_into().ok()?).min(SEGMENTS_MAX);
    let (mut loads, mut dynamic) = (Vec::new(), None);
    for n in 0..u64::from(number) {
        let segment: [u8; 56] = piece(&file, segments.checked_add(n * 56)?)?;
        let place = (u64_at(&segment, 8)?, u64_at(&segment, 16)?, u64_at(&segment, 32)?);
        match u32::from_ne_bytes(segment[..4].try_into().ok()?) {
            libc::PT_LOAD => loads.push(place),
            libc::PT_DYNAMIC => dynamic = Some(place),
            _ => {}
        }
    }
    let (at, _, bytes) = dynamic?;
    let mut entries = Vec::new();
    for n in 0..bytes.min(DYNAMIC_MAX) / 16 {
        let entry: [u8; 16] = piece(&file, at.checked_add(n * 16)?)?;
        match (u64_at(&entry, 0)?, u64_at(&entry, 8)?) {
            (0, _) => break,
            entry => entries.push(entry),
        }
    }
    let (_, address) = entries.iter().find(|(tag, _)| *tag == DT_STRTAB)?;
    let texts = loads.iter().find_map(|(offset, from, bytes)| {
        let inside = address.checked_sub(*from).filter(|inside| inside < bytes)?;
        offset.checked_add(inside)
    })?;
    let mut needed = Needed::default();
    for (tag, value) in entries {
        let list = match tag {
            DT_NEEDED => &mut needed.names,
            DT_RPATH | DT_RUNPATH => &mut needed.folders,
            _ => continue,
        };
        if list.len() < FILES_MAX {
            list.extend(texts.checked_add(value).and_then(|at| text(&file, at)));
        }
    }
    Some(needed)
}

const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

fn piece<const BYTES: usize>(file: &File, at: u64) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn text(file: &File, at: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; NAME_MAX];
    let read = file.read_at(&mut bytes, at).ok()?;
    bytes.truncate(bytes[..read].iter().position(|byte| *byte == 0)?);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_of_this_program_has_the_c_library() {
        let own = needed(Path::new("/proc/self/exe"));
        assert!(own.names.iter().any(|name| name.starts_with(b"libc.so")), "{:?}", own.names);
        assert_eq!([std::process::id(), u32::MAX].map(lttng_of_process), [None, None]);
    }

    #[test]
    fn malicious_needed_of_damaged_files_is_read_to_its_end() {
        let path = std::env::temp_dir().join(format!("strata-lttng-{}", std::process::id()));
        let whole = std::fs::read("/proc/self/exe").unwrap();
        let head = &whole[..whole.len().min(4096)];
        for at in 0..1024 {
            for byte in [0, 0x7f, 0xff] {
                let mut bytes = head.to_vec();
                bytes[at % head.len()] = byte;
                std::fs::write(&path, &bytes).unwrap();
                let _ = needed(&path);
            }
        }
        for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n"] {
            std::fs::write(&path, bytes).unwrap();
            assert!(needed(&path).names.is_empty());
        }
        std::fs::remove_file(&path).unwrap();
        assert!(needed(Path::new("/dev/zero")).names.is_empty());
    }

    #[test]
    fn library_is_known_by_its_file_name_alone() {
        for name in ["liblttng-ust.so", "/usr/lib/liblttng-ust.so.1", "a/liblttng-ust.so.0.0.0"] {
            assert!(is_library(name.as_bytes()), "{name}");
        }
        for name in ["liblttng-ust-ctl.so.5", "/liblttng-ust.so.1/x", "xliblttng-ust.so.1", ""] {
            assert!(!is_library(name.as_bytes()), "{name}");
        }
    }
}
