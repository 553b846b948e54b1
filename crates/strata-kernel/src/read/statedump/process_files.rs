//! Reads the open files and the mapped code of a process from /proc.

use crate::arch;
use crate::discover::build_id::{self, Which};
use rustix::fs::readlink;
use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The most open files of one process that are read.
const FILES_MAX: usize = 4096;
/// The most mappings of one process that are read.
const MAPS_MAX: usize = 4096;
/// The most build ids that are remembered.
const IDS_MAX: usize = 1 << 16;

/// The most names in one folder that are read.
const NUMBERS_MAX: usize = 65_536;

/// Returns the names in a folder that are numbers.
pub(super) fn numbers(folder: &Path) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number >= 0)
        .take(NUMBERS_MAX)
        .collect()
}

/// An open file of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// The descriptor's number; -100 (AT_FDCWD) for the working folder.
    pub fd: i32,
    /// Flags of open().
    pub flags: u32,
    /// The file of the descriptor as the kernel names it: a path, or `socket:[4711]`.
    pub name: Vec<u8>,
}

/// A mapping of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeMapping {
    /// The first address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// Offset of the mapping in the file \[byte\].
    pub offset: u64,
    /// Inode number of the file.
    pub inode: u64,
    /// Path of the file, or the kernel's name for code without a file: `[vdso]`.
    pub path: Vec<u8>,
    /// The build id in hexadecimal digits; empty if it is not known.
    pub build_id: String,
}

impl CodeMapping {
    /// Returns true if the code belongs to no file, so that the program has generated it: memory without a name, or a
    /// file in memory, as .NET uses it.
    #[must_use]
    pub fn is_generated(&self) -> bool {
        const BEGINS: [&[u8]; 4] = [ANONYMOUS, b"/memfd:", b"/dev/zero", b"[anon"];
        BEGINS.iter().any(|begin| self.path.starts_with(begin)) || self.path == b"[heap]"
    }
}

/// Build ids of the files of all processes, by device and inode number.
pub type BuildIds = Arc<Mutex<HashMap<(String, u64), String>>>;

/// The number by which system calls name the working folder (AT_FDCWD).
const WORKING_FOLDER: i32 = -100;

/// Returns a process' open files. The first one is its working folder, as a descriptor of its own.
pub(super) fn open_files(folder: &Path) -> Vec<OpenFile> {
    let mut all = Vec::new();
    if let Ok(name) = readlink(folder.join("cwd"), Vec::new()) {
        let (fd, flags) = (WORKING_FOLDER, arch::here_or_any().o_directory);
        all.push(OpenFile { fd, flags, name: name.into_bytes() });
    }
    for fd in numbers(&folder.join("fd")).into_iter().take(FILES_MAX) {
        let Ok(name) = readlink(folder.join(format!("fd/{fd}")), Vec::new()) else { continue };
        let info = fs::read_to_string(folder.join(format!("fdinfo/{fd}"))).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(0);
        all.push(OpenFile { fd, flags, name: name.into_bytes() });
    }
    all.sort_unstable_by_key(|file| file.fd);
    all
}

/// Returns the mappings of code in the process whose /proc folder is `folder`.
pub(super) fn mappings(folder: &Path, ids: &BuildIds) -> Vec<CodeMapping> {
    let text = fs::read(folder.join("maps")).unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n').filter_map(mapping).take(MAPS_MAX);
    lines
        .map(|(device, mut found)| {
            if found.inode != 0 {
                let key = (device, found.inode);
                let lock = || ids.lock().unwrap_or_else(PoisonError::into_inner);
                let known = lock().get(&key).cloned();
                found.build_id = known.unwrap_or_else(|| {
                    let id = build_id_of(folder, &key.0, &found).unwrap_or_default();
                    let mut ids = lock();
                    if ids.len() < IDS_MAX {
                        ids.insert(key, id.clone());
                    }
                    id
                });
            }
            found
        })
        .collect()
}

/// Returns the build id of mapped code. The file is opened by the kernel's link to it if this process has the
/// right to, otherwise by its name in the process's view.
fn build_id_of(folder: &Path, device: &str, found: &CodeMapping) -> Option<String> {
    let exact = folder.join(format!("map_files/{:x}-{:x}", found.start, found.end));
    let which = Which { device: None, inode: found.inode };
    build_id::of_mapped(&exact, which).or_else(|| {
        let (major, minor) = device.split_once(':')?;
        let number = |text| u32::from_str_radix(text, 16).ok();
        let which = Which { device: Some((number(major)?, number(minor)?)), ..which };
        let path = Path::new(std::ffi::OsStr::from_bytes(&found.path));
        let within: PathBuf = folder.join("root").join(path.strip_prefix("/").ok()?);
        build_id::of_mapped(&within, which)
    })
}

/// Parses a line of /proc/PID/maps; `None` if it is no code.
pub(crate) fn code_mapping(line: &[u8]) -> Option<CodeMapping> {
    mapping(line).map(|(_, found)| found)
}

/// The kernel's name, in its reports of new mappings, for code that belongs to no file because the program has
/// generated it.
const ANONYMOUS: &[u8] = b"//anon";

/// Parses a line such as `55d0-55e0 r-xp 00001000 fd:01 1234   /usr/bin/true`. Returns the device and the mapping;
/// `None` if it is no code.
pub(super) fn mapping(line: &[u8]) -> Option<(String, CodeMapping)> {
    let mut rest = line;
    let mut word = || {
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind.trim_ascii_start();
        std::str::from_utf8(word).ok()
    };
    let (start, end) = word()?.split_once('-')?;
    let rights = word()?;
    let offset = word()?;
    let device = word()?.to_owned();
    let inode = word()?.parse().ok()?;
    if rights.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let path = if rest.is_empty() { ANONYMOUS } else { rest }.to_vec();
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (start, end, offset) = (hex(start)?, hex(end)?, hex(offset)?);
    Some((device, CodeMapping { start, end, offset, inode, path, build_id: String::new() }))
}
