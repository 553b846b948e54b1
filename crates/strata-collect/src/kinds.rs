//! Metadata that grow with what happens: a kind of event record is described when its first record is about to be
//! written. Of the hundreds of kinds that the kernel has, a recording meets a few, and their descriptions would
//! be larger than many a recording.
//!
//! To know the kinds, packets are gone through record by record before they are written. That is done of the
//! first packets only: a recording that has become so large that all descriptions are little beside it gets all
//! of them, and from then on no packet is looked at.

use std::fmt;
use strata_ctf::walk::Walker;
use strata_model::{ByteOrder, StreamClass, TraceError};

/// Packets are looked at until they have had so many bytes for each byte of all descriptions.
const SHARE: u64 = 16;

/// Appends the description of the class with this index in [`StreamClass::events`].
type Describe = Box<dyn Fn(&mut String, usize) + Send>;

/// See [`crate::Collector::describe_kinds`].
pub struct Kinds {
    text: String,
    walker: Walker,
    describe: Describe,
    described: Vec<bool>,
    /// So many bytes are looked at yet; 0: all kinds are described.
    left: u64,
    /// So much of the text is in the file \[byte\].
    written: usize,
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kinds").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Kinds {
    /// Behind `text`, which describes the trace and no kind of `class`; `describe` appends one, by its index.
    ///
    /// # Errors
    /// The class is nonsense.
    pub fn new(
        text: String,
        class: &StreamClass,
        describe: impl Fn(&mut String, usize) + Send + 'static,
    ) -> Result<Kinds, TraceError> {
        let mut all = String::new();
        (0..class.events.len()).for_each(|index| describe(&mut all, index));
        Ok(Kinds {
            text,
            walker: Walker::new(class, ByteOrder::NATIVE)?,
            describe: Box::new(describe),
            described: vec![false; class.events.len()],
            left: SHARE.saturating_mul(all.len() as u64),
            written: 0,
        })
    }

    /// Describes a kind before there is a record of it.
    pub fn add(&mut self, index: usize) {
        if let Some(described @ false) = self.described.get_mut(index) {
            *described = true;
            (self.describe)(&mut self.text, index);
        }
    }

    /// The metadata so far.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether packets need not be looked at any more.
    pub(crate) fn is_whole(&self) -> bool {
        self.left == 0 && self.written == self.text.len()
    }

    /// The text is in the file.
    pub(crate) fn set_written(&mut self) {
        self.written = self.text.len();
    }

    /// Looks at the records of a packet; whether the text is to be written before it.
    pub(crate) fn look(&mut self, records: &[u8]) -> bool {
        self.left = self.left.saturating_sub(records.len() as u64);
        let walk = self.walker.records(records, 0);
        let (mut found, mut is_followed) = (Vec::new(), true);
        for record in walk {
            match record {
                Ok(record) if self.described.get(record.class) == Some(&false) => {
                    if found.last() != Some(&record.class) {
                        found.push(record.class);
                    }
                }
                Ok(_) => {}
                Err(_) => is_followed = false,
            }
        }
        found.into_iter().for_each(|index| self.add(index));
        // What is behind it may be anything.
        if self.left == 0 || !is_followed {
            self.left = 0;
            (0..self.described.len()).for_each(|index| self.add(index));
        }
        self.text.len() > self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_model::{EventClass, Field, FieldClass, Integer, RecordHeader};

    fn class() -> StreamClass {
        let event = |id| EventClass {
            id,
            provider: String::new(),
            name: format!("e{id}"),
            loglevel: None,
            emf_uri: None,
            fields: vec![Field::new("x", FieldClass::Integer(Integer::unsigned(4)))],
        };
        let events = (0..10).map(event).collect();
        let (name, header) = ("s".into(), RecordHeader::Compact);
        StreamClass { id: 0, name, header, context: Vec::new(), events }
    }

    fn kinds() -> Kinds {
        Kinds::new("T".into(), &class(), |text, index| text.push_str(&format!(" {index}"))).unwrap()
    }

    /// Records of these kinds, at the time 0.
    fn records(ids: &[u32]) -> Vec<u8> {
        let word = |id: u32| if cfg!(target_endian = "big") { id << 27 } else { id };
        ids.iter().flat_map(|&id| [word(id).to_ne_bytes(), [7; 4]].concat()).collect()
    }

    #[test]
    fn kind_is_described_with_its_first_record() {
        let mut kinds = kinds();
        kinds.add(9);
        kinds.set_written();
        assert!(!kinds.look(&[]));
        assert!(kinds.look(&records(&[3, 3, 1, 3])));
        // Writing it has failed, and is tried again.
        assert!(kinds.look(&records(&[3, 3, 1, 3])));
        kinds.set_written();
        assert!(!kinds.look(&records(&[1, 3, 9])));
        assert_eq!(kinds.text(), "T 9 3 1");
    }

    #[test]
    fn all_kinds_are_described_once_packets_are_large_beside_their_descriptions() {
        let mut kinds = kinds();
        // Ten descriptions of two bytes each.
        let many = records(&[2; 20 * SHARE as usize / 8 - 1]);
        assert!(kinds.look(&many) && !kinds.is_whole());
        assert_eq!(kinds.text(), "T 2");
        assert!(kinds.look(&records(&[2])) && !kinds.is_whole());
        kinds.set_written();
        assert!(kinds.is_whole());
        assert_eq!(kinds.text(), "T 2 0 1 3 4 5 6 7 8 9");
    }

    #[test]
    fn packet_that_cannot_be_followed_has_all_kinds_described() {
        let mut kinds = kinds();
        assert!(kinds.look(&[&records(&[5])[..], &records(&[11])].concat()));
        assert_eq!(kinds.text(), "T 5 0 1 2 3 4 6 7 8 9");
    }
}
