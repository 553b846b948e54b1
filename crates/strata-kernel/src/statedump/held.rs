//! What a process holds, as /proc shows it: open files, and the code that it has mapped.

use crate::build_id::{self, Which};
use rustix::fs::readlink;
use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Open files of one process that are looked at.
const FILES_MAX: usize = 4096;
/// Mappings of one process that are looked at.
const MAPS_MAX: usize = 4096;
/// Build ids that are remembered.
const IDS_MAX: usize = 1 << 16;

/// Numbers in one folder that are looked at.
const NUMBERS_MAX: usize = 65_536;

/// The names in a folder that are numbers.
pub(super) fn numbers(folder: &Path) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number >= 0)
        .take(NUMBERS_MAX)
        .collect()
}

/// A descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// Its number.
    pub fd: i32,
    /// As open() has them.
    pub flags: u32,
    /// What it leads to, as the kernel says it: a path, or `socket:[4711]`.
    pub name: Vec<u8>,
}

/// Code that is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeMapping {
    /// First address.
    pub start: u64,
    /// Behind the last address.
    pub end: u64,
    /// Where it begins in the file \[byte\].
    pub offset: u64,
    /// The file's number in its file system.
    pub inode: u64,
    /// The file, or what the kernel has in front of it: `[vdso]`.
    pub path: Vec<u8>,
    /// In hexadecimal digits; empty: not known.
    pub build_id: String,
}

/// Build ids by device and number of their files, of all processes.
pub type BuildIds = Arc<Mutex<HashMap<(String, u64), String>>>;

/// Its descriptors.
pub(super) fn open_files(folder: &Path) -> Vec<OpenFile> {
    let mut all = Vec::new();
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

/// The code that it has mapped.
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

/// The kernel leads to the file itself, where it may be asked; else it has that name for the process.
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

/// `55d0-55e0 r-xp 00001000 fd:01 1234   /usr/bin/true`: of code only, with its device.
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
    let path = rest.to_vec();
    if rights.as_bytes().get(2) != Some(&b'x') || path.is_empty() {
        return None;
    }
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (start, end, offset) = (hex(start)?, hex(end)?, hex(offset)?);
    Some((device, CodeMapping { start, end, offset, inode, path, build_id: String::new() }))
}
