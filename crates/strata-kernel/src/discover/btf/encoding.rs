//! How type information (BTF) is encoded. The build script reads with it, too, what the compiled programs refer to.

pub(super) const MAGIC: u16 = 0xeb9f;
pub(super) const VERSION: u8 = 1;
pub(super) const HEADER_BYTES: usize = 24;
const TYPE_BYTES: usize = 12;

/// Numbers of kinds, as in the kernel's `include/uapi/linux/btf.h`.
pub(super) mod kind {
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

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// A type as it is encoded in the file: three integers, then data that depend on its kind.
pub(super) struct BtfType<'d> {
    pub(super) name: u32,
    pub(super) info: u32,
    pub(super) size_or_type: u32,
    pub(super) behind: &'d [u8],
}

impl BtfType<'_> {
    pub(super) fn kind(&self) -> u32 {
        (self.info >> 24) & 0x1f
    }

    pub(super) fn is_composite(&self) -> bool {
        matches!(self.kind(), kind::STRUCT | kind::UNION)
    }
}

/// Returns the size of the data that follow a type's three integers \[byte\]; `None` for an unknown kind.
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
pub(super) struct All<'d> {
    pub(super) types: Vec<BtfType<'d>>,
    strings: &'d [u8],
}

impl<'d> All<'d> {
    pub(super) fn read(bytes: &'d [u8]) -> Option<All<'d>> {
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

    pub(super) fn get(&self, id: u32) -> Option<&BtfType<'d>> {
        self.types.get((id as usize).checked_sub(1)?)
    }

    pub(super) fn string(&self, at: u32) -> Option<&'d [u8]> {
        let from = self.strings.get(at as usize..)?;
        Some(&from[..from.iter().position(|byte| *byte == 0)?])
    }

    pub(super) fn name(&self, of: &BtfType<'_>) -> Option<&'d [u8]> {
        self.string(of.name)
    }
}

/// Returns a name without the part after `___`, by which libbpf tells versions of a structure apart.
pub(super) fn essential(name: &[u8]) -> &[u8] {
    let is_there = |at: &usize| {
        let around = &name[*at..*at + 5];
        around[0] != b'_' && &around[1..4] == b"___" && around[4] != b'_'
    };
    match (0..name.len().saturating_sub(4)).rev().find(is_there) {
        Some(at) => &name[..=at],
        None => name,
    }
}
