//! A lane of the timeline at every level, as a mip-map: made in one pass, and readable at any width of a cell.

use std::io;
use std::ops::ControlFlow;

use crate::model::item::{Item, Merger, KINDS};
use crate::model::item_coding::{put_item, put_varint, Items};
use crate::model::item_store::{check_of, BlockPlace, BlockStore};
use crate::model::stored_bytes::{put_bytes, put_signed, StoredBytes};

/// Levels that are stored in addition to the slices; a cell at a level is 2^level ns wide. Levels between them are made
/// from the next finer one on request.
pub const LEVELS: [u8; 9] = [10, 14, 18, 22, 26, 30, 34, 38, 42];
/// Number of items in a block.
const BLOCK: u32 = 1024;
/// The most bytes of a block that is read from a file: an item has at most some 150.
const BLOCK_BYTES_MAX: u32 = 1 << 20;

/// Place of a complete block, and its range of time.
#[derive(Clone, Copy, Debug)]
struct Block {
    from: i64,
    to: i64,
    place: BlockPlace,
}

/// Items of one level.
#[derive(Clone, Debug, Default)]
struct Level {
    blocks: Vec<Block>,
    /// Encoded items of the block that is not complete yet.
    bytes: Vec<u8>,
    count: u32,
    from: i64,
    to: i64,
}

impl Level {
    fn push(&mut self, item: &Item, store: &mut BlockStore) -> io::Result<()> {
        if self.count == 0 {
            (self.from, self.to) = (item.from, item.from);
        }
        put_item(&mut self.bytes, item, self.to);
        (self.to, self.count) = (item.to, self.count + 1);
        if self.count < BLOCK {
            return Ok(());
        }
        self.store(store)
    }

    /// Stores the block, complete or not.
    fn store(&mut self, store: &mut BlockStore) -> io::Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let place = store.put(&self.bytes)?;
        self.blocks.push(Block { from: self.from, to: self.to, place });
        self.bytes.clear();
        self.count = 0;
        Ok(())
    }

    /// Appends the places of all blocks, which are complete, and passes their bytes to `keep`, which returns their offset.
    fn keep(
        &self,
        store: &BlockStore,
        out: &mut Vec<u8>,
        keep: &mut dyn FnMut(&[u8]) -> io::Result<u64>,
    ) -> io::Result<()> {
        put_varint(out, self.blocks.len() as u64);
        for block in &self.blocks {
            let bytes = store.get(block.place)?;
            put_signed(out, block.from);
            put_signed(out, block.to);
            put_varint(out, keep(&bytes)?);
            put_varint(out, bytes.len() as u64);
            put_varint(out, check_of(&bytes).into());
        }
        Ok(())
    }

    /// Reads a level that [`Level::keep`] has appended; `None` if the bytes are not valid.
    fn kept(bytes: &mut StoredBytes<'_>) -> Option<Level> {
        let blocks = bytes.list(|bytes| {
            let (from, to) = (bytes.signed()?, bytes.signed()?);
            let (offset, len) = (bytes.number()?, bytes.small()?);
            let place = BlockPlace { offset, len, check: Some(bytes.small()?) };
            (len <= BLOCK_BYTES_MAX).then_some(Block { from, to, place })
        })?;
        Some(Level { blocks, ..Level::default() })
    }

    /// Passes the items that overlap a range of time to `tell`, in the order of time.
    fn each(
        &self,
        store: &BlockStore,
        (from, to): (i64, i64),
        tell: &mut dyn FnMut(Item),
    ) -> io::Result<()> {
        let mut in_block = |bytes: &[u8], begin: i64| {
            let items = Items::new(bytes, begin).skip_while(|item| item.to < from);
            items.take_while(|item| item.from < to).for_each(&mut *tell);
        };
        let first = self.blocks.partition_point(|block| block.to < from);
        for block in self.blocks.iter().skip(first).take_while(|block| block.from < to) {
            in_block(&store.get(block.place)?, block.from);
        }
        if self.count > 0 {
            in_block(&self.bytes, self.from);
        }
        Ok(())
    }

    /// Passes the items that overlap a range of time to `tell`, the last one first, until `tell` breaks. Reads at most
    /// one block too many.
    fn back(
        &self,
        store: &BlockStore,
        (from, to): (i64, i64),
        tell: &mut dyn FnMut(Item) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let mut in_block = |bytes: &[u8], begin: i64| {
            let items = Items::new(bytes, begin).skip_while(|item| item.to < from);
            let items: Vec<Item> = items.take_while(|item| item.from < to).collect();
            items.into_iter().rev().try_for_each(&mut *tell)
        };
        if self.count > 0 && in_block(&self.bytes, self.from).is_break() {
            return Ok(());
        }
        let end = self.blocks.partition_point(|block| block.from < to);
        let blocks = self.blocks.iter().take(end).rev();
        for block in blocks.take_while(|block| block.to >= from) {
            if in_block(&store.get(block.place)?, block.from).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// The storage of all lanes' blocks.
#[derive(Debug, Default)]
pub struct LaneStore {
    blocks: BlockStore,
}

impl LaneStore {
    /// Makes a store with these blocks.
    #[must_use]
    pub fn of(blocks: BlockStore) -> LaneStore {
        LaneStore { blocks }
    }
}

/// Slices of one track, which do not overlap, in the order of time.
#[derive(Clone, Debug)]
pub struct Lane {
    slices: Level,
    /// Coarser levels, by their index in [`LEVELS`]; a level exists once the next finer one has completed an item.
    coarse: Vec<(Merger, Level)>,
    /// Total time of all slices, by kind \[ns\].
    pub sums: [u64; KINDS],
    /// Number of slices.
    pub count: u64,
    /// Begin of the first slice; meaningless if there is none \[ns since 1970\].
    pub from: i64,
    /// End of the last slice \[ns since 1970\].
    pub to: i64,
    /// True if the slices are values of a counter.
    pub is_counter: bool,
    /// Number of slices when [`Lane::rest`] was called last.
    rested: u64,
}

impl Default for Lane {
    fn default() -> Lane {
        Lane {
            slices: Level::default(),
            coarse: Vec::new(),
            sums: [0; KINDS],
            count: 0,
            from: 0,
            to: i64::MIN,
            is_counter: false,
            rested: 0,
        }
    }
}

impl Lane {
    /// Makes a lane for the values of a counter.
    #[must_use]
    pub fn of_counter() -> Lane {
        Lane { is_counter: true, ..Lane::default() }
    }

    fn merger(&self, level: u8) -> Merger {
        if self.is_counter {
            Merger::of_counter(level)
        } else {
            Merger::new(level)
        }
    }

    /// Adds an item to a coarser level, and the items that this completes to the next one. An item that a level adds
    /// to its open cell is not copied, and most are added to that of the first or second level.
    fn give(&mut self, at: usize, item: &Item, blocks: &mut BlockStore) -> io::Result<()> {
        let Some(&number) = LEVELS.get(at) else { return Ok(()) };
        if self.coarse.len() == at {
            self.coarse.push((self.merger(number), Level::default()));
        }
        let Some((merger, level)) = self.coarse.get_mut(at) else { return Ok(()) };
        let (before, stays) = merger.add(item);
        if let Some(before) = &before {
            level.push(before, blocks)?;
        }
        if stays {
            level.push(item, blocks)?;
        }
        if let Some(before) = &before {
            self.give(at + 1, before, blocks)?;
        }
        if stays {
            self.give(at + 1, item, blocks)?;
        }
        Ok(())
    }

    /// Adds the next slice. If the slice begins before the end of its predecessor, its begin is moved to that end.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn push(&mut self, mut slice: Item, store: &mut LaneStore) -> io::Result<()> {
        if slice.from < self.to {
            let to = slice.to.max(self.to);
            slice = Item::slice(self.to, to, slice.kind, slice.name, slice.extra);
        }
        if self.count == 0 {
            self.from = slice.from;
        }
        (self.to, self.count) = (slice.to, self.count + 1);
        self.sums.iter_mut().zip(&slice.sums).for_each(|(sum, more)| *sum += more);
        self.slices.push(&slice, &mut store.blocks)?;
        self.give(0, &slice, &mut store.blocks)
    }

    /// Stores the blocks that are not complete if no slice was added since the last call: those of threads that have
    /// ended would fill the memory.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn rest(&mut self, store: &mut LaneStore) -> io::Result<()> {
        if self.rested == self.count {
            let coarse = self.coarse.iter_mut().map(|(_, level)| level);
            for level in std::iter::once(&mut self.slices).chain(coarse) {
                level.store(&mut store.blocks)?;
                level.bytes = Vec::new();
            }
        }
        self.rested = self.count;
        Ok(())
    }

    /// Stores the blocks that are not complete, after the last slice.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn settle(&mut self, store: &mut LaneStore) -> io::Result<()> {
        self.rested = self.count;
        self.rest(store)
    }

    /// Appends the lane, which is settled, to be read by [`Lane::kept`]. Passes its blocks to `keep`, which returns the
    /// offset that each has in a file.
    ///
    /// # Errors
    /// The store cannot be read, or a block not be kept.
    pub fn keep(
        &self,
        store: &LaneStore,
        out: &mut Vec<u8>,
        keep: &mut dyn FnMut(&[u8]) -> io::Result<u64>,
    ) -> io::Result<()> {
        out.push(self.is_counter.into());
        put_varint(out, self.count);
        put_signed(out, self.from);
        put_signed(out, self.to);
        self.sums.iter().for_each(|&sum| put_varint(out, sum));
        self.slices.keep(&store.blocks, out, keep)?;
        put_varint(out, self.coarse.len() as u64);
        for (merger, level) in &self.coarse {
            level.keep(&store.blocks, out, keep)?;
            let mut open = Vec::new();
            if let Some(item) = merger.open() {
                put_item(&mut open, item, 0);
            }
            put_bytes(out, &open);
        }
        Ok(())
    }

    /// Reads a lane; `None` if the bytes are none.
    pub fn kept(bytes: &mut StoredBytes<'_>) -> Option<Lane> {
        let mut lane = Lane { is_counter: bytes.byte()? != 0, ..Lane::default() };
        lane.count = bytes.number()?;
        (lane.from, lane.to) = (bytes.signed()?, bytes.signed()?);
        for sum in &mut lane.sums {
            *sum = bytes.number()?;
        }
        lane.slices = Level::kept(bytes)?;
        let count: usize = bytes.small()?;
        for &number in LEVELS.get(..count)? {
            let level = Level::kept(bytes)?;
            let mut merger = lane.merger(number);
            if let Some(item) = Items::new(bytes.bytes()?, 0).next() {
                merger.resume(item);
            }
            lane.coarse.push((merger, level));
        }
        Some(lane)
    }

    /// Returns the items of a level that overlap a range of time: at most two for each cell of 2^level ns.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn items(&self, store: &LaneStore, level: u8, range: (i64, i64)) -> io::Result<Vec<Item>> {
        let mut merger = self.merger(level);
        let mut found = Vec::new();
        let mut tell = |item: Item| {
            let (first, second) = merger.push(&item);
            found.extend(first);
            found.extend(second);
        };
        let kept = LEVELS.iter().take(self.coarse.len()).take_while(|&&kept| kept <= level).count();
        match kept.checked_sub(1).and_then(|at| self.coarse.get(at)) {
            None => self.slices.each(&store.blocks, range, &mut tell)?,
            Some((_, coarse)) => coarse.each(&store.blocks, range, &mut tell)?,
        }
        // Incomplete items of a level are later than its complete ones, and those of a finer level are later still.
        let open = self.coarse.iter().take(kept).rev().filter_map(|(merger, _)| merger.open());
        open.filter(|it| it.from < range.1 && it.to >= range.0).for_each(|item| tell(item.clone()));
        found.extend(merger.finish());
        Ok(found)
    }

    /// Sums up the time of the slices within a range of time, by kind.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn sums_in(&self, store: &LaneStore, (from, to): (i64, i64)) -> io::Result<[u64; KINDS]> {
        const CELLS: u32 = 8;
        let mut sums = [0u64; KINDS];
        if from >= to || self.count == 0 {
            return Ok(sums);
        }
        if from <= self.from && self.to <= to {
            return Ok(self.sums);
        }
        // Some hundred cells: cells that overlap an end of the range are summed up slice by slice.
        let bits = 64 - to.abs_diff(from).leading_zeros();
        let level = u8::try_from(bits.saturating_sub(CELLS)).unwrap_or(0);
        for item in self.items(store, level, (from, to))? {
            if from <= item.from && item.to <= to {
                let all = sums.iter_mut().zip(&item.sums);
                all.for_each(|(sum, more)| *sum = sum.saturating_add(*more));
                continue;
            }
            let mut tell = |slice: Item| {
                let part = slice.to.min(to).saturating_sub(slice.from.max(from)).max(0);
                if let Some(sum) = sums.get_mut(slice.kind.number()) {
                    *sum = sum.saturating_add(part.unsigned_abs());
                }
            };
            match item.is_slice() {
                true => tell(item),
                false => {
                    let of = (item.from, item.to.min(to));
                    let mut tell = |slice: Item| {
                        // The slice before the cell may end where the cell begins.
                        if slice.from >= item.from {
                            tell(slice);
                        }
                    };
                    self.slices.each(&store.blocks, of, &mut tell)?;
                }
            }
        }
        Ok(sums)
    }

    /// Passes the slices that overlap a range of time to `tell`, the last one first, until `tell` breaks.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn back(
        &self,
        store: &LaneStore,
        range: (i64, i64),
        tell: &mut dyn FnMut(Item) -> ControlFlow<()>,
    ) -> io::Result<()> {
        self.slices.back(&store.blocks, range, tell)
    }

    /// Returns the slice at a time, or the last one that began before it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn slice_at(&self, store: &LaneStore, time: i64) -> io::Result<Option<Item>> {
        let mut found = None;
        let mut tell = |item: Item| found = Some(item);
        self.slices.each(&store.blocks, (time, time.saturating_add(1)), &mut tell)?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::item::Kind;
    use crate::testing::{merge, slices};
    use strata_random::Random;

    impl Lane {
        fn items_of(&self, store: &LaneStore, range: (i64, i64)) -> Vec<Item> {
            let mut found = Vec::new();
            self.slices.each(&store.blocks, range, &mut |item| found.push(item)).unwrap();
            found
        }
    }

    fn lane(slices: &[Item]) -> (Lane, LaneStore) {
        let (mut lane, mut store) = (Lane::default(), LaneStore::default());
        for slice in slices {
            lane.push(slice.clone(), &mut store).unwrap();
        }
        (lane, store)
    }

    #[test]
    fn lane_has_at_any_moment_of_the_pass_what_a_slow_model_makes_of_its_slices() {
        let mut random = Random::from_seed(1);
        for count in [0, 1, 2, 3, 100, 1023, 1024, 1025, 9000] {
            let slices = slices(&mut random, count);
            let (lane, store) = lane(&slices);
            for level in [0, 1, 7, 10, 11, 14, 15, 18, 21, 22, 30, 43, 60] {
                let found = lane.items(&store, level, (i64::MIN, i64::MAX)).unwrap();
                assert_eq!(found, merge(&slices, level), "{count} slices, level {level}");
            }
        }
    }

    #[test]
    fn lane_that_rests_again_and_again_has_the_same_items_and_no_memory() {
        let mut random = Random::from_seed(7);
        let slices = slices(&mut random, 5000);
        let (mut lane, mut store) = (Lane::default(), LaneStore::default());
        for slice in &slices {
            lane.push(slice.clone(), &mut store).unwrap();
            if random.below(50) == 0 {
                lane.rest(&mut store).unwrap();
                lane.rest(&mut store).unwrap();
                assert_eq!(lane.slices.bytes.capacity(), 0);
                assert!(lane.coarse.iter().all(|(_, level)| level.bytes.capacity() == 0));
            }
        }
        for level in [0, 1, 10, 11, 14, 18, 22, 30, 43] {
            let found = lane.items(&store, level, (i64::MIN, i64::MAX)).unwrap();
            assert_eq!(found, merge(&slices, level), "level {level}");
        }
        let mut found = Vec::new();
        let mut tell = |item| {
            found.push(item);
            ControlFlow::Continue(())
        };
        lane.back(&store, (i64::MIN, i64::MAX), &mut tell).unwrap();
        found.reverse();
        assert_eq!(found, lane.items_of(&store, (i64::MIN, i64::MAX)));
        assert_eq!(found.len(), slices.len());
    }

    #[test]
    fn cells_that_begin_in_a_time_are_whole_and_add_up_over_all_tiles() {
        let mut random = Random::from_seed(2);
        let slices = slices(&mut random, 6000);
        let (lane, store) = lane(&slices);
        let (begin, end) = (slices[0].from, slices[slices.len() - 1].to);
        for level in [9u8, 10, 12, 14, 17] {
            let width = 512i64 << level;
            let wanted = merge(&slices, level);
            let (mut sums, mut count, mut found) = ([0; KINDS], 0, Vec::new());
            let mut tile = begin.div_euclid(width) * width;
            while tile <= end {
                let items = lane.items(&store, level, (tile, tile + width)).unwrap();
                assert!(items.len() <= 2 * 512 + 2, "{} items", items.len());
                for item in items {
                    assert!(item.to >= tile && item.from < tile + width);
                    if item.from >= tile {
                        sums.iter_mut().zip(&item.sums).for_each(|(sum, more)| *sum += more);
                        count += item.count;
                        found.push(item);
                    }
                }
                tile += width;
            }
            assert_eq!((sums, count), (lane.sums, lane.count), "level {level}");
            assert_eq!(found, wanted, "level {level}");
        }
    }

    #[test]
    fn sums_of_any_time_are_those_of_the_slices_cut_at_its_ends() {
        let mut random = Random::from_seed(6);
        let slices = slices(&mut random, 5000);
        let (lane, store) = lane(&slices);
        let end = u64::try_from(slices[slices.len() - 1].to).unwrap();
        for _ in 0..200 {
            let mut moment = || i64::try_from(random.below(end)).unwrap() - 3000;
            let (one, other) = (moment(), moment());
            let (from, to) = (one.min(other), one.max(other));
            let mut wanted = [0; KINDS];
            for slice in &slices {
                let part = slice.to.min(to) - slice.from.max(from);
                wanted[slice.kind.number()] += u64::try_from(part.max(0)).unwrap();
            }
            assert_eq!(lane.sums_in(&store, (from, to)).unwrap(), wanted, "{from} to {to}");
        }
    }

    #[test]
    fn slice_of_a_moment_is_the_one_that_has_it() {
        let slices = slices(&mut Random::from_seed(4), 3000);
        let (lane, store) = lane(&slices);
        for slice in slices.iter().filter(|slice| slice.extent() > 1) {
            let found = lane.slice_at(&store, slice.to - 1).unwrap();
            assert_eq!(found.as_ref(), Some(slice));
        }
        assert_eq!(lane.slice_at(&store, i64::MIN).unwrap(), None);
    }

    #[test]
    fn slice_that_is_over_another_one_begins_behind_it() {
        let slice = |from, to| Item::slice(from, to, Kind::Busy, 0, 0);
        let (lane, store) = lane(&[slice(0, 10), slice(5, 20), slice(6, 7)]);
        let found = lane.items(&store, 0, (i64::MIN, i64::MAX)).unwrap();
        assert_eq!(found, [slice(0, 10), slice(10, 20), slice(20, 20)]);
        assert_eq!(lane.sums[Kind::Busy.number()], 20);
    }

    #[test]
    fn slices_of_a_time_are_the_same_backwards_and_reading_ends_where_it_is_asked_to() {
        let slices = slices(&mut Random::from_seed(8), 5000);
        let (lane, store) = lane(&slices);
        let (begin, end) = (slices[700].from, slices[4200].to);
        let wanted = lane.items_of(&store, (begin, end));
        let mut found = Vec::new();
        let mut tell = |item| {
            found.push(item);
            ControlFlow::Continue(())
        };
        lane.back(&store, (begin, end), &mut tell).unwrap();
        found.reverse();
        assert_eq!(found, wanted);
        assert!(found.len() > 3000);
        let mut count = 0;
        let mut tell = |_| {
            count += 1;
            if count < 5 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        lane.back(&store, (begin, end), &mut tell).unwrap();
        assert_eq!(count, 5);
    }
}
