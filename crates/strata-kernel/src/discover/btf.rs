//! The kernel's type information (BTF), reduced to the structures that the programs read.
//!
//! ```text
//! /sys/kernel/btf/vmlinux ── all types ─┐
//! names in the objects' own BTF ────────┴─ needed structures, and all that they contain ── a file in memory ── libbpf
//! ```
//!
//! To fit a program to the running kernel, libbpf searches all types that it gets, again for each structure of each
//! object. A kernel has more than a hundred thousand types, and the programs read twenty. So a copy with the needed
//! types only is made once for this process, with new numbers, and given to libbpf by its path in `/proc/self/fd`.
//!
//! The result is an optimisation: if anything is not as expected (another version, a damaged section, structures
//! nested too deep), there is no copy, and libbpf reads all types.

use crate::attach::bpf_objects::Object;
use object::{Object as _, ObjectSection};
use rustix::fs::{memfd_create, MemfdFlags};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::OnceLock;
use strata_ring::LossMode;

const WHOLE: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 24;
const TYPE_BYTES: usize = 12;
/// The most levels of nested structures; the kernel's have half as many.
const DEPTH_MAX: u32 = 32;

/// Numbers of kinds, as in the kernel's `include/uapi/linux/btf.h`.
mod kind {
    pub const INT: u32 = 1;
    pub const PTR: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const FWD: u32 = 7;
    pub const TYPEDEF: u32 = 8;
    pub const VOLATILE: u32 = 9;
    pub const CONST: u32 = 10;
    pub const RESTRICT: u32 = 11;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const FLOAT: u32 = 16;
    pub const DECL_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM64: u32 = 19;
}

/// A file with the types that the kernel's programs need, which exists as long as this value.
#[derive(Debug)]
pub(crate) struct Types(File);

impl Types {
    /// Returns the types of this kernel that the programs need; `None` if that fails, and libbpf then reads all types.
    pub(crate) fn of_this_kernel() -> Option<Types> {
        static NEEDED: OnceLock<Option<Vec<u8>>> = OnceLock::new();
        let needed = NEEDED.get_or_init(|| {
            let names: Vec<Vec<u8>> = Object::ALL.into_iter().flat_map(structures).collect();
            let whole = std::fs::read(WHOLE).ok()?;
            cut(&whole, &names.iter().map(Vec::as_slice).collect())
        });
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

/// Returns the names of the structures that an object refers to.
fn structures(object: Object) -> Vec<Vec<u8>> {
    let of_file = || {
        let file = object::File::parse(object.bytes(LossMode::Discard)).ok()?;
        let bytes = file.section_by_name(".BTF")?.data().ok()?;
        let all = All::read(bytes)?;
        let named = all.types.iter().filter(|of| of.is_composite()).filter_map(|of| all.name(of));
        Some(named.map(|name| essential(name).to_vec()).filter(|name| !name.is_empty()).collect())
    };
    of_file().unwrap_or_default()
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

/// Returns a name without the part after `___`, by which libbpf tells versions of a structure apart.
fn essential(name: &[u8]) -> &[u8] {
    let is_there = |at: &usize| {
        let around = &name[*at..*at + 5];
        around[0] != b'_' && &around[1..4] == b"___" && around[4] != b'_'
    };
    match (0..name.len().saturating_sub(4)).rev().find(is_there) {
        Some(at) => &name[..=at],
        None => name,
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// A type as it is encoded in the file: three integers, then data that depend on its kind.
struct BtfType<'d> {
    name: u32,
    info: u32,
    size_or_type: u32,
    behind: &'d [u8],
}

impl BtfType<'_> {
    fn kind(&self) -> u32 {
        (self.info >> 24) & 0x1f
    }

    fn is_composite(&self) -> bool {
        matches!(self.kind(), kind::STRUCT | kind::UNION)
    }
}

/// Returns the size of the data after a type's integers \[byte\]; `None` for an unknown kind.
fn behind_bytes(of: u32, length: usize) -> Option<usize> {
    Some(match of {
        kind::INT | kind::VAR | kind::DECL_TAG => 4,
        kind::ARRAY => 12,
        kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12 * length,
        kind::ENUM | kind::FUNC_PROTO => 8 * length,
        kind::PTR | kind::FWD | kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT => 0,
        kind::FUNC | kind::FLOAT | kind::TYPE_TAG => 0,
        _ => return None,
    })
}

/// All type information. The first type has the number 1, and 0 is void.
struct All<'d> {
    types: Vec<BtfType<'d>>,
    strings: &'d [u8],
}

impl<'d> All<'d> {
    fn read(bytes: &'d [u8]) -> Option<All<'d>> {
        let magic = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
        if magic != MAGIC || *bytes.get(2)? != VERSION {
            return None;
        }
        let word = |at| u32_at(bytes, at).map(|word| word as usize);
        let behind_header = bytes.get(word(4)?..)?;
        let part = |at, length| {
            let begin = word(at)?;
            behind_header.get(begin..begin.checked_add(word(length)?)?)
        };
        let (mut left, strings) = (part(8, 12)?, part(16, 20)?);
        let mut types = Vec::with_capacity(left.len() / 30);
        while !left.is_empty() {
            let info = u32_at(left, 4)?;
            let behind = behind_bytes((info >> 24) & 0x1f, info as usize & 0xffff)?;
            let end = TYPE_BYTES + behind;
            types.push(BtfType {
                name: u32_at(left, 0)?,
                info,
                size_or_type: u32_at(left, 8)?,
                behind: left.get(TYPE_BYTES..end)?,
            });
            left = &left[end..];
        }
        Some(All { types, strings })
    }

    fn get(&self, id: u32) -> Option<&BtfType<'d>> {
        self.types.get((id as usize).checked_sub(1)?)
    }

    fn string(&self, at: u32) -> Option<&'d [u8]> {
        let from = self.strings.get(at as usize..)?;
        Some(&from[..from.iter().position(|byte| *byte == 0)?])
    }

    fn name(&self, of: &BtfType<'_>) -> Option<&'d [u8]> {
        self.string(of.name)
    }
}

/// The types that are copied from `all`, with new numbers.
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

    /// Copies a type and the types that it consists of. Returns its new number. Programs find fields by name, and do
    /// not need the target of a pointer: all pointers become one type, and structures that are not wanted keep their
    /// size only.
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

#[cfg(test)]
mod tests;
