//! Metadata that grow: a kind of event record is described when its first record is about to be written. A recording
//! has only a few of the hundreds of kinds that the kernel knows, and the descriptions of all would be larger than many
//! a recording.
//!
//! To find new kinds, packets are scanned record by record before they are written. Only the first packets are scanned:
//! once a recording is so large that all descriptions are small beside it, it gets all of them.

use std::fmt;
use strata_ctf::packet_records::RecordScanner;
use strata_model::{ByteOrder, EventClass, StreamClass, TraceError};

/// Number of bytes of records that are scanned for each byte of all descriptions.
const SHARE: u64 = 16;

/// Function that appends the description of a class to the metadata.
type Describe = Box<dyn Fn(&mut String, &EventClass) + Send>;

/// Function that returns the classes after the first so many, since classes may be added during the recording.
pub type Since = Box<dyn FnMut(usize) -> Vec<EventClass> + Send>;

/// Metadata that grow with the kinds of event records; see [`crate::Collector::describe_kinds`].
pub struct Kinds {
    text: String,
    /// Size of the text before the first kind \[byte\].
    head: usize,
    class: StreamClass,
    scanner: RecordScanner,
    describe: Describe,
    since: Since,
    described: Vec<bool>,
    /// Number of bytes of records that are still to be scanned; 0 if all kinds are described \[byte\].
    left: u64,
    /// Size of the text that is already in the file \[byte\].
    written: usize,
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kinds").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Kinds {
    /// Makes metadata that begin with `text`, which describes the trace and none of the kinds of `class`. `describe`
    /// appends the description of one kind. `since` returns the kinds that were added since; it must return every kind
    /// of which there may be a record.
    ///
    /// # Errors
    /// The class is invalid.
    pub fn new(
        text: String,
        class: StreamClass,
        describe: impl Fn(&mut String, &EventClass) + Send + 'static,
        since: impl FnMut(usize) -> Vec<EventClass> + Send + 'static,
    ) -> Result<Kinds, TraceError> {
        let mut kinds = Kinds {
            head: text.len(),
            text,
            scanner: RecordScanner::new(&class, ByteOrder::NATIVE)?,
            describe: Box::new(describe),
            since: Box::new(since),
            described: Vec::new(),
            left: 0,
            written: 0,
            class,
        };
        kinds.count();
        Ok(kinds)
    }

    /// Computes how many bytes of records have to be scanned, from the size of all descriptions.
    fn count(&mut self) {
        let mut all = String::new();
        let new = self.class.events.iter().skip(self.described.len());
        new.for_each(|event| (self.describe)(&mut all, event));
        self.described.resize(self.class.events.len(), false);
        self.left = self.left.saturating_add(SHARE.saturating_mul(all.len() as u64));
    }

    /// Adds the kinds that are new since the last call. If one of them is invalid, all new ones are left out.
    fn grow(&mut self) {
        let known = self.class.events.len();
        let new = (self.since)(known);
        if new.is_empty() {
            return;
        }
        self.class.events.extend(new);
        match RecordScanner::new(&self.class, ByteOrder::NATIVE) {
            Ok(scanner) => {
                self.scanner = scanner;
                self.count();
            }
            Err(_) => self.class.events.truncate(known),
        }
    }

    /// Adds the description of the kind `index`, before the first record of it is written.
    pub fn add(&mut self, index: usize) {
        if let Some(described @ false) = self.described.get_mut(index) {
            *described = true;
            if let Some(event) = self.class.events.get(index) {
                (self.describe)(&mut self.text, event);
            }
        }
    }

    /// Adds the descriptions of all kinds.
    pub(crate) fn add_all(&mut self) {
        self.grow();
        (0..self.described.len()).for_each(|index| self.add(index));
    }

    /// Replaces the text before the first kind.
    pub(crate) fn set_head(&mut self, head: &str) {
        self.text.replace_range(..self.head, head);
        self.head = head.len();
        // Whatever was written is not this.
        self.written = 0;
    }

    /// Returns the metadata so far.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether a packet needs no scan for new kinds, because all kinds are described.
    pub(crate) fn is_whole(&mut self) -> bool {
        self.grow();
        self.left == 0 && self.written == self.text.len()
    }

    /// Notes that the text is in the file.
    pub(crate) fn set_written(&mut self) {
        self.written = self.text.len();
    }

    /// Scans the records of a packet for new kinds. Returns whether the text has to be written before the packet.
    pub(crate) fn look(&mut self, records: &[u8]) -> bool {
        self.left = self.left.saturating_sub(records.len() as u64);
        let walk = self.scanner.records(records, 0);
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

    fn event(id: u32) -> EventClass {
        EventClass {
            id,
            provider: String::new(),
            name: format!("e{id}"),
            loglevel: None,
            emf_uri: None,
            context: Vec::new(),
            fields: vec![Field::new("x", FieldClass::Integer(Integer::unsigned(4)))],
        }
    }

    fn class() -> StreamClass {
        let events = (0..10).map(event).collect();
        let (name, header) = ("s".into(), RecordHeader::Compact);
        StreamClass { id: 0, name, header, context: Vec::new(), events }
    }

    fn kinds() -> Kinds {
        growing(|_| Vec::new())
    }

    fn growing(since: impl FnMut(usize) -> Vec<EventClass> + Send + 'static) -> Kinds {
        let describe = |text: &mut String, event: &EventClass| *text += &format!(" {}", event.id);
        Kinds::new("T".into(), class(), describe, since).unwrap()
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
    fn head_is_replaced_in_front_of_the_kinds() {
        let mut kinds = kinds();
        kinds.add(9);
        kinds.set_written();
        kinds.set_head("HEAD");
        assert_eq!(kinds.text(), "HEAD 9");
        assert!(!kinds.is_whole() && kinds.look(&[]));
        kinds.set_head("");
        kinds.add(3);
        assert_eq!(kinds.text(), " 9 3");
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

    #[test]
    fn kind_that_comes_later_is_described_with_its_first_record_even_if_all_others_are() {
        let (sender, receiver) = std::sync::mpsc::channel::<EventClass>();
        let mut kinds = growing(move |known| {
            let mut new: Vec<_> = receiver.try_iter().collect();
            assert!(new.iter().all(|event| event.id as usize >= known));
            new.extend((!new.is_empty()).then(|| event(11)));
            new
        });
        assert!(kinds.look(&records(&[2; 20 * SHARE as usize / 8])));
        kinds.set_written();
        assert!(kinds.is_whole());
        sender.send(event(10)).unwrap();
        assert!(!kinds.is_whole());
        assert!(kinds.look(&records(&[3, 11])));
        assert!(kinds.text().ends_with(" 9 11"), "{}", kinds.text());
        kinds.set_written();
        assert!(!kinds.look(&records(&[11, 4])) && !kinds.is_whole());
        // And in the end all of them.
        assert!(kinds.look(&records(&[2; SHARE as usize])));
        assert!(kinds.text().ends_with(" 9 11 10"), "{}", kinds.text());
    }
}
