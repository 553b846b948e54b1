//! Searches for the next packet after bytes that are not a packet.

use super::files::StoredFiles;
use crate::model::schema::{FieldClass, Role, Schema, Structure, Width};
use crate::model::ByteOrder;
use memchr::memmem::Finder;
use std::ops::Range;

/// The magic number at the begin of a packet.
pub(crate) const MAGIC: u64 = 0xc1fc_1fc1;

/// The greatest size of a sign, with magic number and UUID \[byte\].
pub(crate) const SIGN: usize = 20;

/// Number of bytes of a file that are read at once.
const STEP: usize = 256 << 10;

/// The most bytes that are searched, not counting holes. This takes a fraction of a second. Damage between two packets
/// is smaller, but a file that is not a stream may have any size.
const MOST: u64 = 256 << 20;

/// The most places with the sign of a packet that turn out not to be packets.
const TRIES: u32 = 1 << 16;

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResyncEnd {
    /// A packet begins at this byte.
    Packet(u64),
    /// The range has no packet.
    Nothing,
    /// The search ended without a packet after this many bytes; the rest was not searched.
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

/// Returns the bytes with which each packet of the trace begins: the magic number, and the UUID if it directly follows,
/// unless packets may have any UUID. Returns `None` if headers do not begin with a magic number.
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

/// Returns whether the second member is a `uuid` of bytes, right after the magic number.
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

/// Searches the range for the first place that has the sign and is a packet. Holes are skipped: a file of terabytes may
/// have little else.
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
        // A sign that begins before `to` may end after it.
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
