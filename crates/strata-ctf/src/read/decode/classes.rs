//! Finds a record's class by the id in its header, together with the end of such a record.

use std::collections::HashMap;

use super::state::RecordShape;

/// Offsets of a record's parts from the end of its header \[bit\], for a class whose records all have the same
/// offsets; only the record's end may differ. Headers of such records end at a whole byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordLayout {
    pub specific: u32,
    pub payload: u32,
    /// End of the record; `u32::MAX` if it depends on texts in the payload.
    pub end: u32,
}

impl RecordLayout {
    /// Computes the shape of a record whose header has `header` bits.
    #[inline]
    pub fn shape(&self, header: u64, class: u32) -> RecordShape {
        let behind = |bits: u32| header.wrapping_add(u64::from(bits));
        let (specific, payload) = (behind(self.specific), behind(self.payload));
        RecordShape { common: header, specific, payload, class }
    }
}

/// The layout for a class whose records have different offsets.
const UNKNOWN: RecordLayout = RecordLayout { specific: 0, payload: u32::MAX, end: u32::MAX };

/// The entry of an event class in [`ClassIds`]. It is small, because it is read for each record.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassEntry {
    /// Index of the class plus 1; 0 if no class has the id.
    class: u32,
    /// Layout of the records; unknown without a class, and for a class whose records differ in their offsets.
    layout: RecordLayout,
}

const NONE: ClassEntry = ClassEntry { class: 0, layout: UNKNOWN };

impl ClassEntry {
    /// Returns the layout if all records of the class have the same size.
    #[inline]
    pub fn layout(&self) -> Option<RecordLayout> {
        (self.layout.end != u32::MAX).then_some(self.layout)
    }

    #[inline]
    pub fn class(&self) -> u32 {
        self.class.wrapping_sub(1)
    }
}

/// The entry of an event class for the fast path, which moves from record to record by their sizes. Records on that
/// path, and their parts, begin at whole bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alike {
    pub shape: RecordShape,
    /// Size of each record \[byte\]; [`u32::MAX`], which exceeds any window, if it is unknown or varies.
    pub bytes: u32,
    /// True if the size varies only because of texts.
    pub has_texts: bool,
}

impl Alike {
    /// Entry without a class, or of a class whose records differ in their offsets.
    const UNKNOWN: Alike = Alike {
        shape: RecordShape { common: 0, specific: 0, payload: 0, class: u32::MAX },
        bytes: u32::MAX,
        has_texts: false,
    };

    /// Creates the entry for the fast path of a class whose records have headers of `header` bits.
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
            // The record's end is not where the next record begins.
            _ => Alike::UNKNOWN,
        }
    }
}

/// Finds classes by id.
#[derive(Debug, Default)]
pub(super) struct ClassIds {
    low: Vec<ClassEntry>,
    /// Entries of all other ids.
    high: HashMap<u64, ClassEntry>,
}

impl ClassIds {
    /// Makes the table of classes with these ids and layouts. If two have the same id, the first is found.
    pub fn new(classes: impl ExactSizeIterator<Item = (u64, Option<RecordLayout>)>) -> ClassIds {
        // Ids are usually consecutive, so that all of them are in the table.
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

    /// Returns the entries for headers of `bits` bits, for ids less than `ids`.
    pub fn alike(&self, bits: u64, ids: u64) -> Vec<Alike> {
        let ids = usize::try_from(ids).unwrap_or(usize::MAX);
        self.low.iter().take(ids).map(|entry| Alike::of(entry, bits)).collect()
    }

    /// Returns the class with this id, if the id is in the table of low ids.
    #[inline]
    pub fn low(&self, id: u64) -> Option<ClassEntry> {
        let entry = self.low.get(usize::try_from(id).ok()?)?;
        (entry.class != 0).then_some(*entry)
    }

    /// Returns the class with this id.
    pub fn get(&self, id: u64) -> Option<ClassEntry> {
        self.low(id).or_else(|| self.high.get(&id).copied())
    }
}
