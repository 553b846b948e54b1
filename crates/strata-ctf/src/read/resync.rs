//! Where the next packet may begin in bytes that are none.

use super::files::StoredFiles;
use crate::model::schema::{FieldClass, Role, Schema, Structure, Width};
use crate::model::ByteOrder;
use memchr::memmem::Finder;
use std::ops::Range;

/// The number that a packet begins with.
pub(crate) const MAGIC: u64 = 0xc1fc_1fc1;

/// A sign has at most so many bytes: magic number and UUID.
pub(crate) const SIGN: usize = 20;

/// So much of a file is looked at in one go \[byte\].
const STEP: usize = 256 << 10;

/// So much of it at most, holes not counted \[byte\]: a fraction of a second. Nothing that happens to a trace
/// puts more between two packets, but a file that is no stream may have any size.
const MOST: u64 = 256 << 20;

/// So many places may look like a packet, and be none.
const TRIES: u32 = 1 << 16;

/// Where a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResyncEnd {
    /// A packet begins there.
    Packet(u64),
    /// There is none.
    Nothing,
    /// There is none in this many bytes; the rest was not looked at.
    GivenUp(u64),
}

impl ResyncEnd {
    pub(crate) fn packet(self) -> Option<u64> {
        match self {
            ResyncEnd::Packet(offset) => Some(offset),
            ResyncEnd::Nothing | ResyncEnd::GivenUp(_) => None,
        }
    }
}

/// The bytes that each packet of the trace begins with, where its header has a magic number in front and
/// perhaps the UUID right behind it, unless that may be any.
pub(crate) fn sign(schema: &Schema, any_uuid: bool) -> Option<Vec<u8>> {
    let header = schema.packet_header.as_ref()?;
    let FieldClass::Integer(integer) = &header.members.first()?.class else { return None };
    if integer.role != Some(Role::PacketMagic) || integer.width != Width::Bits(32) {
        return None;
    }
    let magic = MAGIC as u32;
    let mut sign = match integer.byte_order {
        ByteOrder::Little => magic.to_le_bytes().to_vec(),
        ByteOrder::Big => magic.to_be_bytes().to_vec(),
    };
    if let Some(uuid) = schema.uuid.filter(|_| !any_uuid && has_uuid(header)) {
        sign.extend(uuid.0);
    }
    Some(sign)
}

/// Whether the second member is `uuid`, byte after byte and right behind the magic number.
fn has_uuid(header: &Structure) -> bool {
    let Some(member) = header.members.get(1).filter(|member| member.name == "uuid") else {
        return false;
    };
    let FieldClass::Array(array) = &member.class else { return false };
    let is_byte = match array.element.as_ref() {
        FieldClass::Integer(integer) => integer.width == Width::Bits(8) && integer.align <= 8,
        _ => false,
    };
    is_byte && array.length == crate::model::schema::Length::Static(16) && array.align <= 32
}

/// The first byte of the file in this range where the sign is, and a packet. Holes are passed over: in a file of
/// terabytes there may be next to nothing else.
pub(crate) fn find(
    files: &StoredFiles,
    file: usize,
    sign: &[u8],
    within: Range<u64>,
    mut is_packet: impl FnMut(u64) -> bool,
) -> ResyncEnd {
    let Range { start: from, end: to } = within;
    let finder = Finder::new(sign);
    let mut bytes = vec![0; STEP + SIGN];
    let (mut at, mut tries) = (files.data(file, from), 0);
    let mut left = MOST;
    while at < to {
        // A sign that begins in front of `to` may end behind it.
        let want = usize::try_from(to - at).unwrap_or(usize::MAX).min(STEP);
        let reach = want.saturating_add(sign.len() - 1);
        let place = bytes.get_mut(..reach).unwrap_or(&mut []);
        let read = files.read(file, at, place).unwrap_or(0);
        let mut part = place.get(..read).unwrap_or(&[]);
        let mut base = at;
        while let Some(found) = finder.find(part) {
            let offset = base.saturating_add(found as u64);
            if is_packet(offset) {
                return ResyncEnd::Packet(offset);
            }
            tries += 1;
            if tries >= TRIES {
                return ResyncEnd::GivenUp(offset.saturating_sub(from));
            }
            base = offset.saturating_add(1);
            part = part.get(found + 1..).unwrap_or(&[]);
        }
        if read < reach {
            return ResyncEnd::Nothing;
        }
        at += want as u64;
        left = left.saturating_sub(want as u64);
        if left == 0 && at < to {
            return ResyncEnd::GivenUp(at.saturating_sub(from));
        }
        at = files.data(file, at);
    }
    ResyncEnd::Nothing
}
