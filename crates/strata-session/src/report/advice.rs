//! Advice on buffers that would have prevented a loss. It is an estimate, derived from the contents of full streams and
//! the delay with which they were read.

use serde::{Deserialize, Serialize};
use strata_abi::ring::NR_SUBBUFS_MIN;

use crate::options::NR_SUBBUFS_MAX;
use crate::report::{Buffers, Counts, Demand};

/// The largest sub-buffer that is recommended \[byte\]. For more memory, a greater number is recommended.
const SUBBUF_BYTES_ADVISED_MAX: u64 = 64 << 20;
/// The most memory that is recommended for one stream \[byte\]. Losses that need more have other causes, which no
/// buffer size removes.
const STREAM_BYTES_ADVISED_MAX: u64 = 1 << 30;
/// The factor by which a sub-buffer should grow after records did not fit into it. The size of these records is not
/// known.
const TOO_BIG_FACTOR: u64 = 4;

/// The sizes of a channel's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// Size of a sub-buffer \[byte\].
    pub subbuf_size: u64,
    /// Number of sub-buffers of each stream.
    pub num_subbuf: u32,
}

/// Advice on buffer sizes that would have prevented a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The recommended sizes; `None` if no allowed sizes would have held the records.
    #[serde(flatten)]
    pub sizes: Option<Sizes>,
    /// Size of the records that arrived while the stream was not read \[byte\]; 0 if the advice is not based on that
    /// size.
    pub bytes: u64,
    /// Time in which these records arrived \[ns\].
    pub late_ns: u64,
    /// Set if the buffers would take more memory than this machine has.
    #[serde(flatten)]
    pub too_much: Option<TooMuch>,
}

/// Buffers that would have been large enough, and the memory that this machine or control group has for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TooMuch {
    /// Memory that all programs recorded at the same time would need \[byte\].
    pub needed_bytes: u64,
    /// Memory that buffers may take here \[byte\].
    pub room_bytes: u64,
    /// The limit: memory of the machine, of a control group, or of `ulimit -v` \[byte\].
    pub memory_bytes: u64,
}

/// Returns advice for a channel with these buffers and counts; `None` if no other sizes would have helped.
#[must_use]
pub fn advise(counts: &Counts, buffers: &Buffers) -> Option<Advice> {
    let now =
        Sizes { subbuf_size: buffers.subbuf_bytes.max(1), num_subbuf: buffers.nr_subbufs.max(1) };
    let (losses, Demand { bytes, late_ns }) = (&counts.discarded, counts.demand);
    if losses.full == 0 && losses.too_big == 0 && losses.nested == 0 {
        return None;
    }
    if buffers.are_largest {
        return Some(Advice { sizes: None, bytes, late_ns, too_much: None });
    }
    let mut least = now;
    if losses.too_big > 0 {
        let larger = now.subbuf_size.saturating_mul(TOO_BIG_FACTOR);
        least.subbuf_size = larger.min(SUBBUF_BYTES_ADVISED_MAX).max(now.subbuf_size);
    }
    let room = buffers.room.map_or(u64::MAX, |room| room.stream_bytes);
    let capacity = now.subbuf_size.saturating_mul(now.num_subbuf.into());
    let needed = match (losses.full > 0, losses.nested > 0) {
        // A quarter is added, since the next time will not be quite the same.
        (true, _) if bytes > 0 => bytes.saturating_add(bytes / 4).max(capacity.saturating_mul(2)),
        (true, _) | (_, true) => capacity.saturating_mul(2),
        (false, false) => 0,
    };
    // Fewer and larger sub-buffers hold larger records in the same memory.
    while least.bytes() > room && least.num_subbuf > NR_SUBBUFS_MIN && least != now {
        least.num_subbuf /= 2;
    }
    let enough = enlarged(least, needed);
    let too_much = enough.zip(buffers.room).filter(|(sizes, _)| sizes.bytes() > room);
    Some(Advice {
        sizes: enough.filter(|sizes| sizes.bytes() <= room),
        bytes,
        late_ns,
        too_much: too_much.map(|(sizes, room)| TooMuch {
            needed_bytes: sizes.bytes().saturating_mul(buffers.streams),
            room_bytes: room.for_buffers,
            memory_bytes: room.memory,
        }),
    })
}

impl Sizes {
    /// Returns the size of a stream's buffer \[byte\].
    fn bytes(self) -> u64 {
        self.subbuf_size.saturating_mul(self.num_subbuf.into())
    }
}

/// Returns sizes that are not below `least` and whose buffer holds `needed` bytes; `None` if the limits allow no such
/// sizes.
fn enlarged(least: Sizes, needed: u64) -> Option<Sizes> {
    let mut sizes = least;
    while sizes.bytes() < needed && sizes.subbuf_size.saturating_mul(2) <= SUBBUF_BYTES_ADVISED_MAX
    {
        sizes.subbuf_size *= 2;
    }
    while sizes.bytes() < needed && sizes.num_subbuf.saturating_mul(2) <= NR_SUBBUFS_MAX {
        sizes.num_subbuf *= 2;
    }
    let bytes = sizes.bytes();
    let is_enough = bytes >= needed && bytes <= STREAM_BYTES_ADVISED_MAX.max(least.bytes());
    is_enough.then_some(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Discarded, LossMode, Room};

    const MIB: u64 = 1 << 20;

    fn buffers(subbuf_bytes: u64, nr_subbufs: u32) -> Buffers {
        Buffers { subbuf_bytes, nr_subbufs, mode: LossMode::Discard, ..Buffers::default() }
    }

    fn full(bytes: u64) -> Counts {
        let discarded = Discarded { full: 7, ..Discarded::default() };
        Counts { discarded, demand: Demand { bytes, late_ns: 5 }, ..Counts::default() }
    }

    fn sizes(counts: &Counts, buffers: &Buffers) -> Option<(u64, u32)> {
        let advice = advise(counts, buffers).unwrap();
        advice.sizes.map(|sizes| (sizes.subbuf_size, sizes.num_subbuf))
    }

    #[test]
    fn advice_holds_a_quarter_more_than_what_came() {
        // 8 MiB were full of 10: 12.5 are needed, and 16 the next size.
        assert_eq!(sizes(&full(10 * MIB), &buffers(MIB, 8)), Some((2 * MIB, 8)));
        assert_eq!(sizes(&full(13 * MIB), &buffers(MIB, 8)), Some((4 * MIB, 8)));
        // Ever larger: first the size, then the number.
        assert_eq!(sizes(&full(500 * MIB), &buffers(64 * MIB, 8)), Some((64 * MIB, 16)));
        // What nobody has measured: twice as much.
        assert_eq!(sizes(&full(0), &buffers(4096, 2)), Some((8192, 2)));
        let found = advise(&full(10 * MIB), &buffers(MIB, 8)).unwrap();
        assert_eq!((found.bytes, found.late_ns), (10 * MIB, 5));
    }

    #[test]
    fn advice_of_what_no_buffer_holds_has_no_sizes() {
        for bytes in [900 * MIB, 1 << 40, u64::MAX] {
            assert_eq!(sizes(&full(bytes), &buffers(MIB, 8)), None, "{bytes}");
        }
        let largest = Buffers { are_largest: true, ..buffers(MIB, 8) };
        assert_eq!(sizes(&full(10 * MIB), &largest), None);
        // Nonsense stays nonsense.
        assert_eq!(
            sizes(&full(u64::MAX), &buffers(u64::MAX, u32::MAX)),
            Some((u64::MAX, u32::MAX))
        );
    }

    #[test]
    fn advice_for_records_that_are_too_big_is_a_larger_sub_buffer() {
        let losses = |discarded| Counts { discarded, ..Counts::default() };
        let too_big = losses(Discarded { too_big: 1, ..Discarded::default() });
        assert_eq!(sizes(&too_big, &buffers(4096, 8)), Some((16_384, 8)));
        let nested = losses(Discarded { nested: 1, ..Discarded::default() });
        assert_eq!(sizes(&nested, &buffers(4096, 8)), Some((8192, 8)));
        // Larger buffers do not help here.
        for discarded in [
            Discarded::default(),
            Discarded { unmapped: 1, ..Discarded::default() },
            Discarded { not_run: 1, ..Discarded::default() },
        ] {
            assert_eq!(advise(&losses(discarded), &buffers(4096, 8)), None);
        }
    }

    #[test]
    fn advice_beyond_the_memory_of_all_programs_says_how_much_they_would_need() {
        let room =
            |stream_bytes| Some(Room { stream_bytes, for_buffers: 40 * MIB, memory: 64 * MIB });
        let small = Buffers { streams: 48, room: room(2 * MIB), ..buffers(128 << 10, 8) };
        let found = advise(&full(10 * MIB), &small).unwrap();
        let too_much =
            TooMuch { needed_bytes: 16 * MIB * 48, room_bytes: 40 * MIB, memory_bytes: 64 * MIB };
        assert_eq!((found.sizes, found.too_much), (None, Some(too_much)));
        // What fits is advised as ever.
        let large = Buffers { room: room(16 * MIB), ..small };
        assert_eq!(sizes(&full(10 * MIB), &large), Some((2 * MIB, 8)));
        // A record that is too big fits a larger sub-buffer, of which there are fewer.
        let discarded = Discarded { too_big: 1, ..Discarded::default() };
        let too_big = Counts { discarded, ..Counts::default() };
        assert_eq!(sizes(&too_big, &small), Some((512 << 10, 4)));
        assert_eq!(sizes(&too_big, &Buffers { room: room(MIB / 2), ..small }), None);
    }
}
