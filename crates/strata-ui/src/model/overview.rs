//! Number of event records over time, in as many columns as a screen has, and times at which some are missing.

use crate::model::item_coding::put_varint;
use crate::model::stored_bytes::{put_option, put_signed, StoredBytes};

/// The most columns of an overview: twice as many as are shown.
const COLUMNS: usize = 4096;
/// The shortest time without records that is stored as such \[ns\].
const STRETCH: i64 = 1_000_000_000;
const STRETCHES_MAX: usize = 256;
/// The most gaps that are stored separately; later ones extend the last.
pub const GAPS_MAX: usize = 1 << 16;

/// Number of records over time. Columns become twice as wide whenever there are too many.
#[derive(Debug, Default)]
pub struct Overview {
    /// A column is 2^level ns wide, and the first begins at a multiple of that.
    level: u8,
    first: i64,
    counts: Vec<u64>,
    /// Time of the last record.
    last: i64,
    stretches: Vec<(i64, i64)>,
}

impl Overview {
    /// Counts a record at this time, which must not be before that of the first record.
    #[inline]
    pub fn add(&mut self, time: i64) {
        if self.counts.is_empty() {
            (self.first, self.last) = (time, time);
            self.counts.push(0);
        }
        if time.saturating_sub(self.last) >= STRETCH {
            self.add_stretch(time);
        }
        self.last = self.last.max(time);
        loop {
            let column = (time >> self.level).saturating_sub(self.first >> self.level).max(0);
            let column = usize::try_from(column).unwrap_or(usize::MAX);
            if column < COLUMNS {
                if self.counts.len() <= column {
                    self.counts.resize(column + 1, 0);
                }
                if let Some(count) = self.counts.get_mut(column) {
                    *count += 1;
                }
                return;
            }
            self.widen();
        }
    }

    #[cold]
    fn add_stretch(&mut self, to: i64) {
        self.stretches.push((self.last, to));
        if self.stretches.len() > STRETCHES_MAX {
            let length = |&(_, &(from, to)): &(usize, &(i64, i64))| to.saturating_sub(from);
            if let Some((shortest, _)) = self.stretches.iter().enumerate().min_by_key(length) {
                self.stretches.remove(shortest);
            }
        }
    }

    /// Returns the longest times without a record: begin and end \[ns since 1970\], in the order of time.
    #[must_use]
    pub fn stretches(&self) -> &[(i64, i64)] {
        &self.stretches
    }

    /// Appends the overview, to be read by [`Overview::kept`].
    pub fn keep(&self, out: &mut Vec<u8>) {
        out.push(self.level);
        put_signed(out, self.first);
        put_signed(out, self.last);
        put_varint(out, self.counts.len() as u64);
        self.counts.iter().for_each(|&count| put_varint(out, count));
        put_varint(out, self.stretches.len() as u64);
        for &(from, to) in &self.stretches {
            put_signed(out, from);
            put_signed(out, to);
        }
    }

    /// Reads an overview; `None` if the bytes are none.
    pub fn kept(bytes: &mut StoredBytes<'_>) -> Option<Overview> {
        let level = bytes.byte().filter(|&level| level < 63)?;
        let (first, last) = (bytes.signed()?, bytes.signed()?);
        let counts = bytes.list(StoredBytes::number)?;
        let stretches = bytes.list(|bytes| Some((bytes.signed()?, bytes.signed()?)))?;
        let is_bounded = counts.len() <= COLUMNS && stretches.len() <= STRETCHES_MAX;
        is_bounded.then_some(Overview { level, first, counts, last, stretches })
    }

    fn widen(&mut self) {
        let is_odd = (self.first >> self.level) & 1 == 1;
        let mut wider = Vec::with_capacity(self.counts.len() / 2 + 1);
        let mut counts = self.counts.iter();
        if is_odd {
            wider.extend(counts.next());
        }
        while let Some(one) = counts.next() {
            wider.push(one + counts.next().copied().unwrap_or(0));
        }
        self.counts = wider;
        self.level += 1;
    }

    /// Returns the begin of the first column \[ns since 1970\], the width of each column \[ns\], and the counts.
    #[must_use]
    pub fn columns(&self) -> (i64, i64, &[u64]) {
        (self.first >> self.level << self.level, 1 << self.level, &self.counts)
    }
}

/// A range of time in which records or packets of a stream are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Begin of the gap, as far as it is known \[ns since 1970\].
    pub from: i64,
    /// End of the gap \[ns since 1970\].
    pub to: i64,
    /// Number of missing records or packets.
    pub count: u64,
    /// True if packets are missing, whose number of records is unknown.
    pub is_packets: bool,
    /// Index of the stream, as [`strata_ctf::read::Stream::index`].
    pub stream: usize,
    /// CPU of the stream, if it is known.
    pub cpu: Option<u32>,
}

/// All gaps of the trace.
#[derive(Debug, Default)]
pub struct Gaps {
    all: Vec<Gap>,
    /// Latest end of all gaps.
    end: Option<i64>,
}

impl Gaps {
    /// Adds a gap. Beyond the limit, it extends the last one.
    pub fn add(&mut self, gap: Gap) {
        self.end = self.end.max(Some(gap.to));
        let is_full = self.all.len() >= GAPS_MAX;
        match self.all.last_mut() {
            Some(last) if is_full => {
                last.to = last.to.max(gap.to);
                last.count = last.count.saturating_add(gap.count);
                last.cpu = None;
            }
            _ => self.all.push(gap),
        }
    }

    /// Appends the gaps, to be read by [`Gaps::kept`].
    pub fn keep(&self, out: &mut Vec<u8>) {
        put_varint(out, self.all.len() as u64);
        for gap in &self.all {
            put_signed(out, gap.from);
            put_signed(out, gap.to);
            put_varint(out, gap.count);
            out.push(gap.is_packets.into());
            put_varint(out, gap.stream as u64);
            put_option(out, gap.cpu);
        }
    }

    /// Reads gaps; `None` if the bytes are none.
    pub fn kept(bytes: &mut StoredBytes<'_>) -> Option<Gaps> {
        let all = bytes.list(|bytes| {
            let (from, to, count) = (bytes.signed()?, bytes.signed()?, bytes.number()?);
            let (is_packets, stream) = (bytes.byte()? != 0, bytes.small()?);
            Some(Gap { from, to, count, is_packets, stream, cpu: bytes.option()? })
        })?;
        let end = all.iter().map(|gap| gap.to).max();
        (all.len() <= GAPS_MAX).then_some(Gaps { all, end })
    }

    /// Returns all gaps in the order in which they were found.
    #[must_use]
    pub fn all(&self) -> &[Gap] {
        &self.all
    }

    /// Latest end of all gaps; `None` if there is none.
    #[must_use]
    pub fn end(&self) -> Option<i64> {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_random::Random;

    #[test]
    fn columns_have_each_record_where_it_was() {
        let mut random = Random::from_seed(5);
        for first in [-1_000_003, 0, 77, 1 << 50] {
            let (mut overview, mut times, mut time) = (Overview::default(), Vec::new(), first);
            for _ in 0..20_000 {
                time += random.below(5000_i64);
                times.push(time);
                overview.add(time);
            }
            let (from, width, counts) = overview.columns();
            assert!(from <= times[0] && times[0] < from + width && counts.len() <= COLUMNS);
            assert!(counts.len() > COLUMNS / 4, "{}", counts.len());
            let mut wanted = vec![0; counts.len()];
            for time in times {
                wanted[usize::try_from((time - from) / width).unwrap()] += 1;
            }
            assert_eq!(counts, wanted);
        }
    }

    #[test]
    fn longest_times_without_records_are_stored_and_shorter_ones_make_room() {
        let mut overview = Overview::default();
        let mut time = 1_000;
        for n in 0..1000_i64 {
            overview.add(time);
            // Some 500 are long enough, and those later on are the longest.
            time += if n % 2 == 0 { STRETCH - 1 } else { STRETCH + n };
        }
        let found = overview.stretches();
        assert_eq!(found.len(), STRETCHES_MAX);
        assert!(found.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        assert!(found.iter().all(|&(from, to)| to - from >= STRETCH + 480), "{found:?}");
    }

    #[test]
    fn gaps_beyond_those_that_are_kept_widen_the_last_one() {
        let mut gaps = Gaps::default();
        for at in 0..=i64::try_from(GAPS_MAX).unwrap() {
            gaps.add(Gap {
                from: at,
                to: at + 1,
                count: 2,
                is_packets: false,
                stream: 0,
                cpu: Some(1),
            });
        }
        assert_eq!(gaps.all().len(), GAPS_MAX);
        assert_eq!(gaps.all().iter().map(|gap| gap.count).sum::<u64>(), 2 * (GAPS_MAX as u64 + 1));
    }
}
