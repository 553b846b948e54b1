//! From the id in a record's header to its class, and at once to where such a record ends.

use std::collections::HashMap;

use super::state::RecordShape;

/// Where the parts of a record are, in bits from the end of its header on, if that is a whole byte and
/// they are the same for all records of the class, but for its end perhaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordLayout {
    pub specific: u32,
    pub payload: u32,
    /// `u32::MAX`: it depends on texts in the payload.
    pub end: u32,
}

impl RecordLayout {
    /// Of a record whose header has so many bits.
    #[inline]
    pub fn shape(&self, header: u64, class: u32) -> RecordShape {
        let behind = |bits: u32| header.wrapping_add(u64::from(bits));
        let (specific, payload) = (behind(self.specific), behind(self.payload));
        RecordShape { common: header, specific, payload, class }
    }
}

/// Of a class whose records do not begin alike.
const UNKNOWN: RecordLayout = RecordLayout { specific: 0, payload: u32::MAX, end: u32::MAX };

/// A class. Small: that of the next record is on the way from one record to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassEntry {
    /// Its index, plus 1; 0: there is none.
    class: u32,
    /// Of no class, and of one whose records do not begin alike: that of both is unknown.
    layout: RecordLayout,
}

const NONE: ClassEntry = ClassEntry { class: 0, layout: UNKNOWN };

impl ClassEntry {
    /// `None` where its records are not all alike.
    #[inline]
    pub fn layout(&self) -> Option<RecordLayout> {
        (self.layout.end != u32::MAX).then_some(self.layout)
    }

    #[inline]
    pub fn class(&self) -> u32 {
        self.class.wrapping_sub(1)
    }
}

/// A class for the way from one record to the next, where a record's begin is all that is known of it. Such
/// a record begins with a whole byte, and so do its parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alike {
    pub shape: RecordShape,
    /// Of each of its records; [`u32::MAX`], which no window has: they are not known, or not the same.
    pub bytes: u32,
    /// They are not the same because of texts, and nothing else.
    pub has_texts: bool,
}

impl Alike {
    /// Of no class, and of one with records that are not alike.
    const UNKNOWN: Alike = Alike {
        shape: RecordShape { common: 0, specific: 0, payload: 0, class: u32::MAX },
        bytes: u32::MAX,
        has_texts: false,
    };

    /// Of a class whose records have headers of so many bits.
    fn of(entry: &ClassEntry, header: u64) -> Alike {
        let layout = entry.layout;
        if layout == UNKNOWN {
            return Alike::UNKNOWN;
        }
        let shape = layout.shape(header, entry.class());
        if layout.end == u32::MAX {
            return Alike { shape, bytes: u32::MAX, has_texts: true };
        }
        let end = header.saturating_add(u64::from(layout.end));
        match u32::try_from(end / 8) {
            Ok(bytes) if end % 8 == 0 => Alike { shape, bytes, has_texts: false },
            // Its end is not where the next record begins.
            _ => Alike::UNKNOWN,
        }
    }
}

/// Finds classes by id.
#[derive(Debug, Default)]
pub(super) struct ClassIds {
    low: Vec<ClassEntry>,
    /// For all other ids.
    high: HashMap<u64, ClassEntry>,
}

impl ClassIds {
    /// For classes with these ids and layouts. Of two with one id, the first is found.
    pub fn new(classes: impl ExactSizeIterator<Item = (u64, Option<RecordLayout>)>) -> ClassIds {
        // As a rule ids are given one after the other, so all of them are below.
        let dense = (classes.len() as u64).saturating_mul(4).max(64);
        let mut found = ClassIds::default();
        for (class, (id, layout)) in (1u32..).zip(classes) {
            let entry = ClassEntry { class, layout: layout.unwrap_or(UNKNOWN) };
            if id >= dense {
                found.high.entry(id).or_insert(entry);
                continue;
            }
            let id = id as usize;
            if found.low.len() <= id {
                found.low.resize(id + 1, NONE);
            }
            if let Some(place @ ClassEntry { class: 0, .. }) = found.low.get_mut(id) {
                *place = entry;
            }
        }
        found
    }

    /// The same for headers of so many bits whose ids are less than `ids`.
    pub fn alike(&self, bits: u64, ids: u64) -> Vec<Alike> {
        let ids = usize::try_from(ids).unwrap_or(usize::MAX);
        self.low.iter().take(ids).map(|entry| Alike::of(entry, bits)).collect()
    }

    /// The class with this id, if it is one of the low ones.
    #[inline]
    pub fn low(&self, id: u64) -> Option<ClassEntry> {
        let entry = self.low.get(usize::try_from(id).ok()?)?;
        (entry.class != 0).then_some(*entry)
    }

    /// The class with this id.
    pub fn get(&self, id: u64) -> Option<ClassEntry> {
        self.low(id).or_else(|| self.high.get(&id).copied())
    }
}
