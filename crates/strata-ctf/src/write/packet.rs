//! Headers and contexts of packets that Strata writes.

use strata_model::Uuid;

/// First bytes of each packet.
pub const MAGIC: u32 = 0xc1fc_1fc1;

/// Size of an encoded [`Header`] \[byte\].
pub const HEADER_BYTES: usize = 84;

/// Offset of [`Header::timestamp_end`] in an encoded header \[byte\].
pub const TIMESTAMP_END_OFFSET: u64 = 40;

/// Offset of [`Header::packet_bits`] in an encoded header \[byte\].
pub const PACKET_BITS_OFFSET: u64 = 56;

/// Offset of [`Header::content_bits`] in an encoded header \[byte\].
pub const CONTENT_BITS_OFFSET: u64 = 48;

/// Offset of [`Header::discarded`] in an encoded header \[byte\].
pub const DISCARDED_OFFSET: u64 = 72;

/// A packet's header and context.
///
/// Fields are packed by bytes, in the byte order of the machine. Records follow immediately, packed in the same way:
///
/// ```text
/// offset  size  field            unit
///      0     4  MAGIC
///      4    16  uuid                     the trace's
///     20     4  stream_id                the stream class
///     24     8  stream_instance          which stream of that class
///     32     8  timestamp_begin  cycle   of the clock; not later than the first record
///     40     8  timestamp_end    cycle   not earlier than the last record
///     48     8  content_bits     bit     this header and the records
///     56     8  packet_bits      bit     content and padding
///     64     8  sequence                 packets of the stream before this one
///     72     8  discarded                event records of the stream so far, never reduced
///     80     4  cpu_id
/// ```
///
/// Readers extend a short timestamp to the next time that ends with its bits, beginning with `timestamp_begin`: the
/// first record has its whole timestamp, or is less than 2^27 (compact) or 2^32 (large) cycles later. Readers report
/// increases of `discarded` and gaps in `sequence` as discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// UUID of the trace.
    pub uuid: Uuid,
    /// Id of the stream class.
    pub stream_id: u32,
    /// Number of the stream within its class.
    pub stream_instance: u64,
    /// Time before all records, or that of the first one \[cycle of the clock\].
    pub timestamp_begin: u64,
    /// Time after all records, or that of the last one \[cycle of the clock\].
    pub timestamp_end: u64,
    /// Size of this header and the records \[bit\].
    pub content_bits: u64,
    /// Size of content and padding \[bit\]; a multiple of 8.
    pub packet_bits: u64,
    /// Number of the stream's packets before this one, including overwritten ones.
    pub sequence: u64,
    /// Number of the stream's event records that were discarded so far.
    pub discarded: u64,
    /// Number of the CPU that wrote the records.
    pub cpu_id: u32,
}

impl Header {
    /// Sets both sizes for this many bytes of records, without padding.
    #[must_use]
    pub fn with_content_bytes(mut self, bytes: u64) -> Header {
        // The sum saturates far beyond the size of any file.
        self.content_bits = bytes.saturating_add(HEADER_BYTES as u64).saturating_mul(8);
        self.packet_bits = self.content_bits;
        self
    }

    /// Encodes the first bytes of a packet.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0..4].copy_from_slice(&MAGIC.to_ne_bytes());
        out[4..20].copy_from_slice(&self.uuid.0);
        out[20..24].copy_from_slice(&self.stream_id.to_ne_bytes());
        let words = [
            self.stream_instance,
            self.timestamp_begin,
            self.timestamp_end,
            self.content_bits,
            self.packet_bits,
            self.sequence,
            self.discarded,
        ];
        for (place, word) in out[24..80].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        out[80..84].copy_from_slice(&self.cpu_id.to_ne_bytes());
        out
    }

    /// Decodes bytes that [`Header::encode`] has written, or others. Returns `None` if they do not begin with the magic
    /// number. Nothing else is checked.
    #[must_use]
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(word)
        };
        let half = |at: usize| {
            let mut half = [0; 4];
            half.copy_from_slice(&bytes[at..at + 4]);
            u32::from_ne_bytes(half)
        };
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&bytes[4..20]);
        (half(0) == MAGIC).then(|| Header {
            uuid: Uuid(uuid),
            stream_id: half(20),
            stream_instance: word(24),
            timestamp_begin: word(32),
            timestamp_end: word(40),
            content_bits: word(48),
            packet_bits: word(56),
            sequence: word(64),
            discarded: word(72),
            cpu_id: half(80),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            uuid: Uuid(*b"0123456789abcdef"),
            stream_id: 0x0102_0304,
            stream_instance: 0x1111_1111_1111_1112,
            timestamp_begin: 0x2222_2222_2222_2223,
            timestamp_end: 0x3333_3333_3333_3334,
            content_bits: 0x4444_4444_4444_4445,
            packet_bits: 0x5555_5555_5555_5556,
            sequence: 0x6666_6666_6666_6667,
            discarded: 0x7777_7777_7777_7778,
            cpu_id: 0x0a0b_0c0d,
        }
    }

    #[test]
    fn encode_puts_each_field_at_its_offset() {
        let bytes = header().encode();
        let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(u32_at(0), 0xc1fc1fc1);
        assert_eq!(&bytes[4..20], b"0123456789abcdef");
        assert_eq!(u32_at(20), 0x0102_0304);
        assert_eq!(u64_at(24), 0x1111_1111_1111_1112);
        assert_eq!(u64_at(32), 0x2222_2222_2222_2223);
        assert_eq!(u64_at(TIMESTAMP_END_OFFSET as usize), 0x3333_3333_3333_3334);
        assert_eq!(u64_at(CONTENT_BITS_OFFSET as usize), 0x4444_4444_4444_4445);
        assert_eq!(u64_at(PACKET_BITS_OFFSET as usize), 0x5555_5555_5555_5556);
        assert_eq!(u64_at(64), 0x6666_6666_6666_6667);
        assert_eq!(u64_at(DISCARDED_OFFSET as usize), 0x7777_7777_7777_7778);
        assert_eq!(u32_at(80), 0x0a0b_0c0d);
    }

    #[test]
    fn decode_reads_what_encode_wrote_and_nothing_else() {
        let mut bytes = header().encode();
        assert_eq!(Header::decode(&bytes), Some(header()));
        bytes[0] ^= 1;
        assert_eq!(Header::decode(&bytes), None);
    }

    #[test]
    fn with_content_bytes_counts_the_header_too() {
        let sized = header().with_content_bytes(16);
        assert_eq!((sized.content_bits, sized.packet_bits), (800, 800));
        assert_eq!(sized.sequence, header().sequence);
    }

    #[test]
    fn with_content_bytes_of_nonsense_does_not_wrap() {
        assert_eq!(header().with_content_bytes(u64::MAX).content_bits, u64::MAX);
    }
}
