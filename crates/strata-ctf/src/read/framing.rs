//! Checks whether a packet's records fit into it.

use super::decode::{DecodeState, NoRecord, StreamDecoder, Window};
use super::files::StoredFiles;
use super::window::{Buffer, LONGEST};

/// The place and the extent of a packet's records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketRecords {
    /// The packet's file, as an index into [`StoredFiles`].
    pub file: usize,
    /// Begin of the packet \[byte of the file\].
    pub offset: u64,
    /// Begin of the first record, and end of the last one \[bit of the packet\].
    pub from: u64,
    pub to: u64,
}

/// Decodes all records of a packet. Returns false if a record exceeds the packet or cannot be decoded.
pub(crate) fn records_fit(
    files: &StoredFiles,
    plan: &StreamDecoder,
    mut state: DecodeState,
    records: PacketRecords,
) -> bool {
    let PacketRecords { file, offset, from: mut at, to } = records;
    let mut buffer = Buffer::new(super::window::FIRST);
    while at < to {
        // The window begins with the record's first byte.
        let begin = offset.saturating_add(at / 8);
        let have = match begin.checked_sub(buffer.origin()) {
            Some(skip) if buffer.has(file, begin, begin) => {
                buffer.from(usize::try_from(skip).unwrap_or(usize::MAX))
            }
            _ => &[],
        };
        let until = match plan.record(&Window::new(have, at / 8, to), at, &mut state) {
            Ok(()) => {
                at = state.record.end;
                continue;
            }
            Err(NoRecord::Bad(_)) => return false,
            Err(NoRecord::Short { until }) => until.max((at / 8 + have.len() as u64 + 1) * 8),
        };
        let twice = begin.saturating_add((have.len() as u64).saturating_mul(2).min(LONGEST));
        let end = offset.saturating_add(to.div_ceil(8));
        let need = offset.saturating_add(until.div_ceil(8));
        if need > end || need.saturating_sub(begin) > LONGEST {
            return false;
        }
        match buffer.fill(files, file, begin, twice.min(end).max(need)) {
            Ok(_) if buffer.has(file, begin, need) => {}
            _ => return false,
        }
    }
    true
}
