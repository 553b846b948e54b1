//! The kernel's type information (BTF), reduced to the structures that the programs read.
//!
//! ```text
//! /sys/kernel/btf/vmlinux ── all types ─┐
//! names in the objects' own BTF ────────┴─ needed structures, and all that they contain ── a file in memory ── libbpf
//! ```
//!
//! To fit a program to the running kernel, libbpf searches all types that it gets, again for each structure of
//! each object. A kernel has more than a hundred thousand types, and the programs read twenty. So a copy with the
//! needed types only is made once for this process, with new numbers, and given to libbpf by its path in
//! `/proc/self/fd`.
//!
//! A copied structure keeps its members' names, offsets and sizes, which is all that libbpf compares. All
//! pointers become one type, and members of structures that are not wanted keep their size only; so the copy ends
//! after some levels, even where types refer to each other in circles.
//!
//! The result is an optimisation: if anything is not as expected (another version, a damaged section, structures
//! nested too deep), there is no copy, and libbpf reads all types. `tests` compares what libbpf finds in the copy
//! and in the whole.
//!
//! The loader of a session's programs makes the copy, and holds it for as long as programs may be loaded.

use encoding::{essential, kind, u32_at, All, BtfType, HEADER_BYTES, MAGIC, VERSION};
use rustix::fs::{memfd_create, MemfdFlags};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::OnceLock;

const WHOLE: &str = "/sys/kernel/btf/vmlinux";
/// The names of kernel structures that the BPF objects use, one a line. The build script finds them in the objects'
/// BTF.
const STRUCTURES: &str = include_str!(concat!(env!("OUT_DIR"), "/structures"));
/// The most levels of nested structures; the kernel's have half as many.
const DEPTH_MAX: u32 = 32;

/// A file with the BTF types that the BPF programs need. The file exists as long as this value.
#[derive(Debug)]
pub(crate) struct Types(File);

impl Types {
    /// Returns the types of this kernel that the programs need; `None` if that fails, and libbpf then reads all types.
    pub(crate) fn of_this_kernel() -> Option<Types> {
        static NEEDED: OnceLock<Option<Vec<u8>>> = OnceLock::new();
        let needed = NEEDED.get_or_init(|| cut(&std::fs::read(WHOLE).ok()?, &structures()));
        let mut file: File = memfd_create("strata-types", MemfdFlags::CLOEXEC).ok()?.into();
        file.write_all(needed.as_ref()?).ok()?;
        let types = Types(file);
        File::open(types.path()).ok().map(|_| types)
    }

    /// Returns the path under which this process can open the types.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

/// Returns the names of all kernel structures that the BPF objects refer to.
fn structures() -> HashSet<&'static [u8]> {
    STRUCTURES.lines().map(str::as_bytes).collect()
}

/// Cuts out the structures with these names, and all types they are made of.
fn cut(whole: &[u8], names: &HashSet<&[u8]>) -> Option<Vec<u8>> {
    let all = All::read(whole)?;
    let mut cut =
        BtfCut { all: &all, names, ids: HashMap::new(), nr: 0, types: vec![], strings: vec![0] };
    for (at, of) in all.types.iter().enumerate() {
        if of.is_composite() && cut.is_wanted(of) {
            cut.take(u32::try_from(at).ok()? + 1, 0)?;
        }
    }
    cut.bytes()
}

/// A copy of those types from `all` that are needed, with new numbers.
struct BtfCut<'d> {
    all: &'d All<'d>,
    names: &'d HashSet<&'d [u8]>,
    /// New numbers of the copied types, by their old ones.
    ids: HashMap<u32, u32>,
    nr: u32,
    types: Vec<u8>,
    strings: Vec<u8>,
}

impl BtfCut<'_> {
    fn is_wanted(&self, of: &BtfType<'_>) -> bool {
        self.all.name(of).is_some_and(|name| self.names.contains(essential(name)))
    }

    /// Copies a type and the types that it consists of. Returns its new number. Programs do not need the targets of
    /// pointers, so all pointers become one type. Of structures that are not needed, only the size is kept.
    fn take(&mut self, id: u32, depth: u32) -> Option<u32> {
        if id == 0 {
            return Some(0);
        }
        if let Some(taken) = self.ids.get(&id) {
            return Some(*taken);
        }
        if depth == DEPTH_MAX {
            return None;
        }
        let all = self.all;
        let of = all.get(id)?;
        let taken = match of.kind() {
            kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                self.take(of.size_or_type, depth + 1)?
            }
            kind::PTR => self.push(0, kind::PTR << 24, 0, &[]),
            kind::INT | kind::FLOAT => {
                let name = self.string(of.name)?;
                self.push(name, of.info, of.size_or_type, of.behind)
            }
            kind::ENUM | kind::ENUM64 => {
                let name = self.string(of.name)?;
                self.push(name, of.kind() << 24, of.size_or_type, &[])
            }
            kind::ARRAY => {
                let mut array = of.behind.to_vec();
                for at in [0, 4] {
                    let part = self.take(u32_at(of.behind, at)?, depth + 1)?;
                    array[at..at + 4].copy_from_slice(&part.to_ne_bytes());
                }
                self.push(0, of.info, of.size_or_type, &array)
            }
            kind::STRUCT | kind::UNION => {
                let name = self.string(of.name)?;
                if name != 0 && !self.is_wanted(of) {
                    self.push(name, of.kind() << 24, of.size_or_type, &[])
                } else {
                    let mut members = of.behind.to_vec();
                    for (from, to) in of.behind.chunks(12).zip(members.chunks_mut(12)) {
                        let name = self.string(u32_at(from, 0)?)?;
                        let part = self.take(u32_at(from, 4)?, depth + 1)?;
                        to[..4].copy_from_slice(&name.to_ne_bytes());
                        to[4..8].copy_from_slice(&part.to_ne_bytes());
                    }
                    self.push(name, of.info, of.size_or_type, &members)
                }
            }
            _ => return None,
        };
        self.ids.insert(id, taken);
        Some(taken)
    }

    fn push(&mut self, name: u32, info: u32, size_or_type: u32, behind: &[u8]) -> u32 {
        for word in [name, info, size_or_type] {
            self.types.extend_from_slice(&word.to_ne_bytes());
        }
        self.types.extend_from_slice(behind);
        self.nr += 1;
        self.nr
    }

    fn string(&mut self, at: u32) -> Option<u32> {
        let text = self.all.string(at)?;
        if text.is_empty() {
            return Some(0);
        }
        let begin = u32::try_from(self.strings.len()).ok()?;
        self.strings.extend_from_slice(text);
        self.strings.push(0);
        Some(begin)
    }

    fn bytes(self) -> Option<Vec<u8>> {
        let (types, strings) =
            (u32::try_from(self.types.len()).ok()?, u32::try_from(self.strings.len()).ok()?);
        let mut all = Vec::from(MAGIC.to_ne_bytes());
        all.extend([VERSION, 0]);
        for word in [HEADER_BYTES as u32, 0, types, types, strings] {
            all.extend_from_slice(&word.to_ne_bytes());
        }
        all.extend(self.types);
        all.extend(self.strings);
        Some(all)
    }
}

mod encoding;
#[cfg(test)]
mod tests;
