//! Slices: finds the begin that each end belongs to.
//!
//! On one track, slices must be nested. The slices of one thread are, unless records are missing. If some are, open
//! slices are closed and marked, so that the track stays readable. Slices that overlap by their nature (requests with a
//! key, or threads that a trace does not distinguish) are put on lanes: as many tracks of one name as slices are open
//! at one time.

use std::collections::HashMap;

use strata_timeline::slice_pairs::PairIndex;
use strata_timeline::SpanKey;

/// The most nested slices on one track. Readers stop at 512.
const DEPTH_MAX: usize = 256;
/// The most slices that are open on lanes at one time, in the whole export.
const ASYNC_MAX: usize = 1 << 16;

/// Open slices on one track.
#[derive(Debug, Default)]
pub(super) struct OpenSlices {
    open: Vec<OpenSlice>,
}

#[derive(Clone, Copy, Debug)]
struct OpenSlice {
    pair: PairIndex,
    syscall: bool,
    of: PairMatch,
}

/// The values by which a begin is paired with its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PairMatch {
    /// The hash of the field that should have the same value at both ends.
    pub check: Option<u64>,
    /// The address of the slice's object, or the number of a system call. A begin and an end that both have such a
    /// value belong together only if both values are equal.
    pub address: Option<u64>,
}

/// The result of beginning a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begin {
    /// The number of slices that must be closed first, since their end is not in the trace.
    pub closed: usize,
    /// True if the slice was begun; false if too many slices are open.
    pub begun: bool,
}

impl OpenSlices {
    /// Begins a slice. A thread is in at most one system call, so if another one is still open, its exit is missing and
    /// it is closed.
    pub(super) fn begin(&mut self, pair: PairIndex, syscall: bool, of: PairMatch) -> Begin {
        let outer = if syscall { self.open.iter().position(|open| open.syscall) } else { None };
        let closed = outer.map_or(0, |outer| self.cut(outer));
        let begun = self.open.len() < DEPTH_MAX;
        if begun {
            self.open.push(OpenSlice { pair, syscall, of });
        }
        Begin { closed, begun }
    }

    /// Ends a slice. Returns the number of slices within it that must be closed first, and the check value of its
    /// begin; `None` if there is no begin.
    pub(super) fn end(&mut self, pair: PairIndex, of: PairMatch) -> Option<(usize, Option<u64>)> {
        let is_same = |open: &OpenSlice| {
            let addresses = open.of.address.zip(of.address);
            open.pair == pair && addresses.is_none_or(|(begin, end)| begin == end)
        };
        let at = self.open.iter().rposition(is_same)?;
        let check = self.open.get(at)?.of.check;
        Some((self.cut(at) - 1, check))
    }

    /// Closes all slices, and returns their number.
    pub(super) fn close(&mut self) -> usize {
        self.cut(0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    fn cut(&mut self, at: usize) -> usize {
        let count = self.open.len() - at;
        self.open.truncate(at);
        count
    }
}

/// The key that distinguishes overlapping slices; `None` if there is none.
pub(super) type SliceKey = Option<SpanKey>;

/// The track and CPU of a begin or an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SliceOrigin {
    /// The parent track of the lanes, in general that of a process.
    pub parent: u64,
    /// The CPU, if that is known.
    pub cpu: Option<u64>,
}

/// A lane: the track of a slice that may overlap others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SliceLane {
    /// The parent track of the lane.
    pub parent: u64,
    /// The number of the lane among all lanes, from 0.
    pub number: u32,
    /// True if the lane is used for the first time.
    pub new: bool,
}

#[derive(Debug)]
struct Flying {
    origin: SliceOrigin,
    lane: SliceLane,
}

/// All slices that are open on lanes, and the free lanes.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    open: HashMap<(PairIndex, SliceKey), Vec<Flying>>,
    count: usize,
    free: HashMap<(PairIndex, u64), Vec<u32>>,
    lanes: u32,
}

/// The result of beginning a slice on a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AsyncBegin {
    /// The lane of a slice with the same key that was still open. It must be closed first, since its end is not in the
    /// trace.
    pub closed: Option<SliceLane>,
    /// The lane of the new slice; `None` if too many slices are open.
    pub lane: Option<SliceLane>,
}

impl Lanes {
    pub(super) fn begin(
        &mut self,
        pair: PairIndex,
        key: SliceKey,
        origin: SliceOrigin,
    ) -> AsyncBegin {
        let closed = match key {
            // Threads that cannot be told apart may each have one.
            None => None,
            _ => self.take(pair, &key, |open| open.origin.parent == origin.parent),
        };
        if self.count >= ASYNC_MAX {
            return AsyncBegin { closed, lane: None };
        }
        let free = self.free.get_mut(&(pair, origin.parent)).and_then(Vec::pop);
        let lane = match free {
            Some(number) => SliceLane { parent: origin.parent, number, new: false },
            None => {
                let number = self.lanes;
                self.lanes = self.lanes.saturating_add(1);
                SliceLane { parent: origin.parent, number, new: true }
            }
        };
        self.open.entry((pair, key)).or_default().push(Flying { origin, lane });
        self.count += 1;
        AsyncBegin { closed, lane: Some(lane) }
    }

    /// Ends a slice and returns its lane; `None` if it has no begin. A slice of the same process and CPU is preferred
    /// to one of the same process only; with a key, a slice of any other process is the last choice.
    pub(super) fn end(
        &mut self,
        pair: PairIndex,
        key: &SliceKey,
        origin: SliceOrigin,
    ) -> Option<SliceLane> {
        self.take(pair, key, |open| open.origin == origin)
            .or_else(|| self.take(pair, key, |open| open.origin.parent == origin.parent))
            .or_else(|| match key {
                None => None,
                _ => self.take(pair, key, |_| true),
            })
    }

    /// Closes all slices, and returns their lanes.
    pub(super) fn close(&mut self) -> Vec<SliceLane> {
        self.count = 0;
        let open = std::mem::take(&mut self.open);
        let mut lanes: Vec<SliceLane> =
            open.into_values().flatten().map(|open| open.lane).collect();
        lanes.sort_by_key(|lane| lane.number);
        lanes
    }

    /// Removes and returns the latest open slice that is wanted.
    fn take(
        &mut self,
        pair: PairIndex,
        key: &SliceKey,
        wanted: impl Fn(&Flying) -> bool,
    ) -> Option<SliceLane> {
        // The key is cloned because a map of pairs cannot be asked with a pair of references.
        let id = (pair, key.clone());
        let open = self.open.get_mut(&id)?;
        let at = open.iter().rposition(wanted)?;
        let Flying { lane, .. } = open.remove(at);
        if open.is_empty() {
            self.open.remove(&id);
        }
        self.count -= 1;
        self.free.entry((pair, lane.parent)).or_default().push(lane.number);
        Some(SliceLane { new: false, ..lane })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_ctf::read::Value;

    fn number(key: i128) -> SliceKey {
        Some(SpanKey::Number(key))
    }

    fn text(key: &[u8]) -> SliceKey {
        SpanKey::of(Value::Text(key))
    }

    const NONE: PairMatch = PairMatch { check: None, address: None };

    fn check(value: u64) -> PairMatch {
        PairMatch { check: Some(value), ..NONE }
    }

    const HERE: SliceOrigin = SliceOrigin { parent: 7, cpu: Some(0) };

    #[test]
    fn stack_of_nested_slices_closes_them_in_turn() {
        let mut stack = OpenSlices::default();
        assert_eq!(stack.begin(1, false, NONE), Begin { closed: 0, begun: true });
        assert_eq!(stack.begin(2, false, NONE), Begin { closed: 0, begun: true });
        assert_eq!(stack.end(2, NONE), Some((0, None)));
        assert_eq!(stack.end(1, NONE), Some((0, None)));
        assert!(stack.is_empty());
    }

    #[test]
    fn stack_with_an_end_that_is_absent_closes_what_is_inside() {
        let mut stack = OpenSlices::default();
        stack.begin(1, false, NONE);
        stack.begin(2, false, NONE);
        stack.begin(3, false, NONE);
        assert_eq!(stack.end(1, NONE), Some((2, None)));
        assert_eq!(stack.end(3, NONE), None, "closed before");
        assert_eq!(stack.close(), 0);
    }

    #[test]
    fn stack_with_an_end_without_begin_says_so() {
        let mut stack = OpenSlices::default();
        stack.begin(1, false, NONE);
        assert_eq!(stack.end(2, NONE), None);
        assert_eq!(stack.close(), 1, "what was open is still open");
    }

    #[test]
    fn stack_with_the_same_pair_twice_closes_the_inner_one() {
        let mut stack = OpenSlices::default();
        stack.begin(1, false, check(7));
        stack.begin(1, false, check(8));
        assert_eq!(stack.end(1, NONE), Some((0, Some(8))));
        assert_eq!(stack.end(1, NONE), Some((0, Some(7))));
        assert_eq!(stack.end(1, NONE), None);
    }

    #[test]
    fn stack_of_functions_ends_that_of_the_same_address_and_what_is_left_in_it() {
        let at = |address| PairMatch { address: Some(address), ..NONE };
        let mut stack = OpenSlices::default();
        for address in [0x10, 0x20, 0x30] {
            stack.begin(1, false, at(address));
        }
        // 0x20 and 0x30 were left by a jump.
        assert_eq!(stack.end(1, at(0x40)), None);
        assert_eq!(stack.end(1, at(0x10)), Some((2, None)));
        assert!(stack.is_empty());
        // One that does not say which ends the latest.
        stack.begin(1, false, at(0x10));
        assert_eq!(stack.end(1, NONE), Some((0, None)));
    }

    #[test]
    fn stack_with_a_system_call_in_another_closes_the_outer_one() {
        let mut stack = OpenSlices::default();
        stack.begin(1, false, NONE);
        stack.begin(2, true, NONE);
        stack.begin(3, false, NONE);
        assert_eq!(stack.begin(4, true, NONE), Begin { closed: 2, begun: true });
        assert_eq!(stack.close(), 2, "pair 1 and system call 4");
    }

    #[test]
    fn malicious_stack_of_begins_only_stays_small() {
        let mut stack = OpenSlices::default();
        let begun = (0..100_000).filter(|_| stack.begin(1, false, NONE).begun).count();
        assert_eq!(begun, DEPTH_MAX);
        assert_eq!(stack.close(), DEPTH_MAX);
    }

    #[test]
    fn lanes_of_overlapping_slices_are_used_again() {
        let mut lanes = Lanes::default();
        let begin = |lanes: &mut Lanes, key| lanes.begin(1, number(key), HERE).lane.unwrap();
        assert_eq!(begin(&mut lanes, 1), SliceLane { parent: 7, number: 0, new: true });
        assert_eq!(begin(&mut lanes, 2), SliceLane { parent: 7, number: 1, new: true });
        assert_eq!(lanes.end(1, &number(1), HERE).unwrap().number, 0);
        assert_eq!(begin(&mut lanes, 3), SliceLane { parent: 7, number: 0, new: false });
        assert_eq!(lanes.end(1, &number(1), HERE), None, "ended before");
        assert_eq!(lanes.close().iter().map(|lane| lane.number).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn lane_of_another_pair_or_process_is_not_used() {
        let mut lanes = Lanes::default();
        let there = SliceOrigin { parent: 8, cpu: None };
        let first = lanes.begin(1, number(1), HERE).lane.unwrap();
        lanes.end(1, &number(1), HERE).unwrap();
        assert_ne!(lanes.begin(2, number(1), HERE).lane.unwrap().number, first.number);
        assert_ne!(lanes.begin(1, number(1), there).lane.unwrap().number, first.number);
    }

    #[test]
    fn lanes_with_a_key_that_begins_twice_close_the_first() {
        let mut lanes = Lanes::default();
        let first = lanes.begin(1, text(b"a"), HERE).lane.unwrap();
        let second = lanes.begin(1, text(b"a"), HERE);
        assert_eq!(second.closed.unwrap().number, first.number);
        assert!(lanes.end(1, &text(b"a"), HERE).is_some());
        assert!(lanes.end(1, &text(b"a"), HERE).is_none());
    }

    #[test]
    fn lanes_with_a_key_in_two_processes_end_their_own_first() {
        let mut lanes = Lanes::default();
        let there = SliceOrigin { parent: 8, cpu: None };
        let own = lanes.begin(1, number(5), HERE).lane.unwrap();
        let other = lanes.begin(1, number(5), there).lane.unwrap();
        assert_eq!(lanes.end(1, &number(5), HERE).unwrap().number, own.number);
        // A request that ends in another process than it began in.
        assert_eq!(lanes.end(1, &number(5), HERE).unwrap().number, other.number);
    }

    #[test]
    fn lanes_without_a_key_end_that_of_the_same_cpu() {
        let mut lanes = Lanes::default();
        let other = SliceOrigin { cpu: Some(1), ..HERE };
        let here = lanes.begin(1, None, HERE).lane.unwrap();
        let there = lanes.begin(1, None, other).lane.unwrap();
        assert_eq!(lanes.end(1, &None, HERE).unwrap().number, here.number);
        // It has moved to another CPU.
        assert_eq!(lanes.end(1, &None, HERE).unwrap().number, there.number);
        let elsewhere = SliceOrigin { parent: 9, cpu: Some(0) };
        lanes.begin(1, None, HERE);
        assert_eq!(lanes.end(1, &None, elsewhere), None, "another process");
    }

    #[test]
    fn malicious_lanes_of_begins_only_stay_few() {
        let mut lanes = Lanes::default();
        let begun = (0..200_000).filter(|&key| lanes.begin(1, number(key), HERE).lane.is_some());
        assert_eq!(begun.count(), ASYNC_MAX);
        assert_eq!(lanes.close().len(), ASYNC_MAX);
    }

    #[test]
    fn key_of_long_texts_tells_them_apart() {
        let (mut a, mut b) = (vec![b'x'; 5000], vec![b'x'; 5000]);
        a.push(b'a');
        b.push(b'b');
        assert_ne!(text(&a), text(&b));
        assert_eq!(text(&a), text(&a));
    }
}
