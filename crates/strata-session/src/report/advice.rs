//! Which buffers would have prevented a loss: an estimate, from what streams were full of and how late they were read.

use serde::{Deserialize, Serialize};

use crate::options::NR_SUBBUFS_MAX;
use crate::report::{Buffers, Counts, Demand};

/// Largest sub-buffer that is recommended \[byte\]: beyond, there are more of them.
const SUBBUF_BYTES_ADVISED_MAX: u64 = 64 << 20;
/// Most that is recommended for one stream \[byte\]: where that does not help, larger buffers do not.
pub const STREAM_BYTES_ADVISED_MAX: u64 = 1 << 30;
/// So many records that are too big for a sub-buffer fit one that is so many times as large: nobody says how big they are.
const TOO_BIG_FACTOR: u64 = 4;

/// The sizes of a channel's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// Of a sub-buffer \[byte\].
    pub subbuf_size: u64,
    /// Sub-buffers of each stream.
    pub num_subbuf: u32,
}

/// What would have prevented a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// These sizes; `None`: no buffer that can be recommended would have held it.
    #[serde(flatten)]
    pub sizes: Option<Sizes>,
    /// What came \[byte\]; 0: it is not by this that the sizes were found.
    pub bytes: u64,
    /// In so much time \[ns\].
    pub late_ns: u64,
}

/// For a channel with these buffers, of which this was recorded; `None`: no other sizes would have helped.
#[must_use]
pub fn advise(counts: &Counts, buffers: &Buffers) -> Option<Advice> {
    let now =
        Sizes { subbuf_size: buffers.subbuf_bytes.max(1), num_subbuf: buffers.nr_subbufs.max(1) };
    let (losses, Demand { bytes, late_ns }) = (&counts.discarded, counts.demand);
    if losses.full == 0 && losses.too_big == 0 && losses.nested == 0 {
        return None;
    }
    if buffers.are_largest {
        return Some(Advice { sizes: None, bytes, late_ns });
    }
    let mut least = now;
    if losses.too_big > 0 {
        let larger = now.subbuf_size.saturating_mul(TOO_BIG_FACTOR);
        least.subbuf_size = larger.min(SUBBUF_BYTES_ADVISED_MAX).max(now.subbuf_size);
    }
    let capacity = now.subbuf_size.saturating_mul(now.num_subbuf.into());
    let needed = match (losses.full > 0, losses.nested > 0) {
        // A quarter more: the next time is not quite the same.
        (true, _) if bytes > 0 => bytes.saturating_add(bytes / 4).max(capacity.saturating_mul(2)),
        (true, _) | (_, true) => capacity.saturating_mul(2),
        (false, false) => 0,
    };
    Some(Advice { sizes: enlarged(least, needed), bytes, late_ns })
}

/// These sizes, or larger ones that hold so much.
fn enlarged(least: Sizes, needed: u64) -> Option<Sizes> {
    let mut sizes = least;
    let of = |sizes: &Sizes| sizes.subbuf_size.saturating_mul(sizes.num_subbuf.into());
    while of(&sizes) < needed && sizes.subbuf_size.saturating_mul(2) <= SUBBUF_BYTES_ADVISED_MAX {
        sizes.subbuf_size *= 2;
    }
    while of(&sizes) < needed && sizes.num_subbuf.saturating_mul(2) <= NR_SUBBUFS_MAX {
        sizes.num_subbuf *= 2;
    }
    let is_enough = of(&sizes) >= needed && of(&sizes) <= STREAM_BYTES_ADVISED_MAX.max(of(&least));
    is_enough.then_some(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Discarded, LossMode};

    const MIB: u64 = 1 << 20;

    fn buffers(subbuf_bytes: u64, nr_subbufs: u32) -> Buffers {
        Buffers { subbuf_bytes, nr_subbufs, mode: LossMode::Discard, are_largest: false }
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
}
