//! Unpacks packetised metadata: text in pieces, each after a header of 37 bytes.

use super::error::{MetadataError, MetadataProblem};
use super::limits;
use std::borrow::Cow;

const MAGIC: u32 = 0x75D1_1D57;
/// Size of a packet's header \[byte\]: magic u32, UUID, checksum u32, content size u32 \[bit\], packet size u32
/// \[bit\], and five bytes: schemes of compression, encryption and checksum, major and minor version.
const HEADER_BYTES: usize = 37;
const CONTENT_SIZE: usize = 24;
const PACKET_SIZE: usize = 28;
const COMPRESSION: usize = 32;
const ENCRYPTION: usize = 33;
const MAJOR: usize = 35;

/// Returns the text of the metadata, and the fault that ends it early, if there is one.
pub(super) fn text(
    metadata: &[u8],
) -> Result<(Cow<'_, [u8]>, Option<MetadataError>), MetadataError> {
    let found = metadata.len() as u64;
    if found > limits::TEXT_BYTES {
        let limit = limits::TEXT_BYTES;
        let what = MetadataProblem::TooMany { what: "bytes of metadata", found, limit };
        return Err(MetadataError { line: 0, column: 0, what });
    }
    let big_endian = match metadata.first_chunk::<4>() {
        Some(magic) if u32::from_le_bytes(*magic) == MAGIC => false,
        Some(magic) if u32::from_be_bytes(*magic) == MAGIC => true,
        _ => return Ok((Cow::Borrowed(plain(metadata)), None)),
    };
    let mut text = Vec::with_capacity(metadata.len());
    let damage = collect(metadata, big_endian, &mut text).err();
    if text.is_empty() {
        if let Some(damage) = damage {
            return Err(damage);
        }
    }
    Ok((Cow::Owned(text), damage))
}

/// Strips the UTF-8 byte order mark, and the NULs of a file that was made larger than its text.
fn plain(metadata: &[u8]) -> &[u8] {
    let metadata = metadata.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(metadata);
    let nuls = metadata.iter().rev().take_while(|&&byte| byte == 0).count();
    metadata.get(..metadata.len() - nuls).unwrap_or_default()
}

/// Collects the text of packet after packet, up to the first one that is damaged.
fn collect(metadata: &[u8], big_endian: bool, text: &mut Vec<u8>) -> Result<(), MetadataError> {
    let mut offset = 0;
    let mut number = 0;
    while let Some(rest) = metadata.get(offset..).filter(|rest| !rest.is_empty()) {
        let packet = MetadataPacket { rest, big_endian, number, offset: offset as u64 };
        let (content, bytes) = packet.content()?;
        text.extend_from_slice(content);
        if bytes > rest.len() {
            return Err(packet.bad("bytes left in the file", rest.len(), bytes));
        }
        offset += bytes;
        number += 1;
    }
    Ok(())
}

struct MetadataPacket<'m> {
    /// The file's bytes from the packet's header on.
    rest: &'m [u8],
    big_endian: bool,
    number: u64,
    offset: u64,
}

impl<'m> MetadataPacket<'m> {
    fn bad(
        &self,
        what: &'static str,
        found: impl ToString,
        expected: impl ToString,
    ) -> MetadataError {
        let (packet, offset) = (self.number, self.offset);
        let (found, expected) = (found.to_string(), expected.to_string());
        let what = MetadataProblem::Packet { packet, offset, what, found, expected };
        MetadataError { line: 0, column: 0, what }
    }

    fn u32(&self, header: &[u8; HEADER_BYTES], at: usize) -> u32 {
        let bytes = header.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        let bytes = bytes.unwrap_or_default();
        if self.big_endian {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        }
    }

    /// Returns the packet's text, as far as the file has it, and the packet's size with its padding \[byte\].
    fn content(&self) -> Result<(&'m [u8], usize), MetadataError> {
        let Some(header) = self.rest.first_chunk::<HEADER_BYTES>() else {
            return Err(self.bad("bytes left in the file", self.rest.len(), HEADER_BYTES));
        };
        let magic = self.u32(header, 0);
        if magic != MAGIC {
            return Err(self.bad(
                "magic number",
                format!("{magic:#010x}"),
                format!("{MAGIC:#010x}"),
            ));
        }
        let schemes = [
            ("compression", COMPRESSION, 0..=0, "0"),
            ("encryption", ENCRYPTION, 0..=0, "0"),
            ("major version", MAJOR, 1..=2, "1 or 2"),
        ];
        for (what, at, possible, expected) in schemes {
            let found = header.get(at).copied().unwrap_or_default();
            if !possible.contains(&found) {
                return Err(self.bad(what, found, expected));
            }
        }
        let content_bits = self.u32(header, CONTENT_SIZE);
        let packet_bits = self.u32(header, PACKET_SIZE);
        let least = HEADER_BYTES as u32 * 8;
        if content_bits < least || content_bits % 8 != 0 {
            let expected = format!("whole bytes, at least {least} bits");
            return Err(self.bad("content size", content_bits, expected));
        }
        if packet_bits < content_bits || packet_bits % 8 != 0 {
            let expected = format!("whole bytes, at least the content's {content_bits} bits");
            return Err(self.bad("packet size", packet_bits, expected));
        }
        let end = (content_bits as usize / 8).min(self.rest.len());
        let content = self.rest.get(HEADER_BYTES..end).unwrap_or_default();
        Ok((content, packet_bits as usize / 8))
    }
}
