//! From the id in a record's header to its class, and at once to where such a record ends.

use std::collections::HashMap;

/// Where the parts of a record are, in bits from the end of its header on, if that is a whole byte and
/// they are the same for all records of the class, but for its end perhaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub specific: u32,
    pub payload: u32,
    /// `u32::MAX`: it depends on texts in the payload.
    pub end: u32,
}

impl Layout {
    /// Where the parts are of a record whose header begins at `begin` and ends at `from`.
    #[inline]
    pub fn parts(&self, begin: u64, from: u64) -> [u64; 4] {
        let behind = |bits: u32| from.wrapping_add(u64::from(bits));
        [begin, from, behind(self.specific), behind(self.payload)]
    }
}

/// Of a class whose records do not begin alike.
const UNKNOWN: Layout = Layout { specific: 0, payload: u32::MAX, end: u32::MAX };

/// A class. Small: that of the next record is on the way from one record to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Its index, plus 1; 0: there is none.
    class: u32,
    /// Of no class, and of one whose records do not begin alike: that of both is unknown.
    pub layout: Layout,
}

const NONE: Entry = Entry { class: 0, layout: UNKNOWN };

impl Entry {
    /// The payload is always at the same place, and its texts say where a record ends.
    #[inline]
    pub fn ends_by_texts(&self) -> bool {
        self.layout.payload != u32::MAX && self.layout.end == u32::MAX
    }

    /// `None` where its records are not all alike.
    #[inline]
    pub fn layout(&self) -> Option<Layout> {
        (self.layout.end != u32::MAX).then_some(self.layout)
    }

    #[inline]
    pub fn class(&self) -> u32 {
        self.class.wrapping_sub(1)
    }
}

/// Finds classes by id.
#[derive(Debug, Default)]
pub(super) struct Ids {
    low: Vec<Entry>,
    /// For all other ids.
    high: HashMap<u64, Entry>,
}

impl Ids {
    /// For classes with these ids and layouts. Of two with one id, the first is found.
    pub fn new(classes: impl ExactSizeIterator<Item = (u64, Option<Layout>)>) -> Ids {
        // As a rule ids are given one after the other, so all of them are below.
        let dense = (classes.len() as u64).saturating_mul(4).max(64);
        let mut found = Ids::default();
        for (class, (id, layout)) in (1u32..).zip(classes) {
            let entry = Entry { class, layout: layout.unwrap_or(UNKNOWN) };
            if id >= dense {
                found.high.entry(id).or_insert(entry);
                continue;
            }
            let id = id as usize;
            if found.low.len() <= id {
                found.low.resize(id + 1, NONE);
            }
            if let Some(place @ Entry { class: 0, .. }) = found.low.get_mut(id) {
                *place = entry;
            }
        }
        found
    }

    /// What there is for this id, if it is one of the low ones: a class or none.
    #[inline]
    pub fn entry(&self, id: u64) -> Option<&Entry> {
        self.low.get(id as usize)
    }

    /// The class with this id, if it is one of the low ones.
    #[inline]
    pub fn low(&self, id: u64) -> Option<Entry> {
        let entry = self.low.get(usize::try_from(id).ok()?)?;
        (entry.class != 0).then_some(*entry)
    }

    /// The class with this id.
    pub fn get(&self, id: u64) -> Option<Entry> {
        self.low(id).or_else(|| self.high.get(&id).copied())
    }
}
