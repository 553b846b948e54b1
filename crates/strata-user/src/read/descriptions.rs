//! Descriptions that a process has given of its tracepoints over its whole life.
//!
//! Only the texts are kept, as they were first read; fields and labels are parsed when they are needed. A description
//! never changes, and no two tracepoints share bytes, so a process' texts never take more than `DESCRIPTIONS_BYTES`,
//! however often it describes anew.

use std::collections::BTreeMap;

use strata_abi::user;

use crate::error::Error;
use crate::read::description_parser::{Description, DescriptionError, Heading};
use crate::read::tracepoint_states::Snapshot;
use crate::users::quotas::Share;

/// Memory that a tracepoint takes in this program in addition to its description's text \[byte\].
const OVERHEAD_BYTES: u64 = 64;

/// A tracepoint whose description was read.
#[derive(Debug)]
struct KnownTracepoint {
    /// Offset of the text from the begin of the descriptions \[byte\].
    begin: u32,
    text: Box<[u8]>,
}

/// All tracepoints that a process has described.
#[derive(Debug)]
pub(crate) struct Described {
    known: Vec<KnownTracepoint>,
    /// Ranges of bytes that belong to tracepoints: the end of each range, by its begin.
    owned: BTreeMap<u32, u32>,
    /// The part of its user's quota of this program's memory that the process takes.
    share: Share,
}

impl Described {
    /// Makes an empty record of a process whose memory belongs to user `uid`.
    pub fn new(uid: u32) -> Described {
        Described { known: Vec::new(), owned: BTreeMap::new(), share: Share::new(uid) }
    }

    /// Number of tracepoints whose descriptions were read.
    pub fn len(&self) -> u32 {
        self.known.len() as u32
    }

    /// Adds the new tracepoints of a snapshot, and compares the others with what was read before. `nr_now` is the
    /// number of tracepoints in the memory at a moment after the snapshot: another thread may have added tracepoints
    /// of a later snapshot.
    ///
    /// # Errors
    /// [`Error::Description`], [`Error::Value`]: the descriptions contradict each other, or have changed.
    /// [`Error::Crowded`].
    pub fn learn(&mut self, pid: u32, snapshot: &Snapshot, nr_now: u32) -> Result<(), Error> {
        let error = |index: u32, source| Error::Description { pid, index, source };
        for (index, known) in (0u32..).zip(&self.known) {
            let Some(state) = snapshot.states.get(index as usize) else {
                if nr_now >= self.len() {
                    break;
                }
                return Err(error(index, DescriptionError::Missing));
            };
            if state.description != known.begin || snapshot.text(pid, index)? != &*known.text {
                return Err(error(index, DescriptionError::Changed));
            }
        }
        for index in self.len()..snapshot.states.len() as u32 {
            let text = snapshot.text(pid, index)?;
            Description::parse(text).map_err(|source| error(index, source))?;
            let begin = snapshot.states.get(index as usize).map_or(0, |state| state.description);
            // Within the descriptions, as the text is, so the sum cannot overflow.
            let end = begin + text.len() as u32;
            if let Some((&begin, &end)) =
                self.owned.range(..end).next_back().filter(|(_, other)| **other > begin)
            {
                let shared = DescriptionError::Shared { begin: begin.into(), end: end.into() };
                return Err(error(index, shared));
            }
            self.share.take_bytes(pid, text.len() as u64 + OVERHEAD_BYTES)?;
            self.owned.insert(begin, end);
            self.known.push(KnownTracepoint { begin, text: text.into() });
        }
        debug_assert!(self.bytes() <= u64::from(user::DESCRIPTIONS_BYTES));
        Ok(())
    }

    /// Size of all texts \[byte\].
    pub fn bytes(&self) -> u64 {
        self.known.iter().map(|known| known.text.len() as u64).sum()
    }

    /// Returns provider, name and level of a tracepoint.
    pub fn heading(&self, index: u32) -> Option<Heading<'_>> {
        Heading::parse(&self.known.get(index as usize)?.text).ok()
    }

    /// Parses the description of a tracepoint again.
    pub fn description(&self, index: u32) -> Option<Description> {
        Description::parse(&self.known.get(index as usize)?.text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::shared_memory::state;
    use crate::testing::{field, string, Described as Text, Fake};
    use std::mem::offset_of;

    fn error_of(fake: &Fake, app: &crate::Application) -> (u32, DescriptionError) {
        match app.learn(&app.snapshot().unwrap()) {
            Err(Error::Description { index, source, .. }) => {
                assert_eq!(fake.pid, app.pid());
                (index, source)
            }
            other => panic!("{other:?}"),
        }
    }

    fn put_state(fake: &Fake, index: u32, field: usize, value: u32) {
        fake.put_u32(state(index) + field, value);
    }

    const BEGIN: usize = offset_of!(user::State, description);
    const BYTES: usize = offset_of!(user::State, description_bytes);

    #[test]
    fn malicious_description_that_changes_after_it_was_read_is_found() {
        let fake = Fake::with_tracepoints();
        let app = fake.open();
        let learn = || app.learn(&app.snapshot().unwrap());
        learn().unwrap();
        learn().unwrap();
        let (begin, bytes) = (fake.u32(state(1) + BEGIN), fake.u32(state(1) + BYTES));
        // A letter of its name; then elsewhere, the same bytes; then shorter; then none.
        let letter = (user::DESCRIPTIONS_OFFSET + begin) as usize + 8 + 2 + 3 + 2;
        fake.put(letter, b"W");
        assert_eq!(error_of(&fake, &app), (1, DescriptionError::Changed));
        fake.put(letter, b"w");
        learn().unwrap();
        let copy = fake.copy((user::DESCRIPTIONS_OFFSET + begin) as usize, bytes as usize);
        let used = fake.u32(offset_of!(user::Control, descriptions_bytes));
        fake.put((user::DESCRIPTIONS_OFFSET + used) as usize, &copy);
        fake.put_u32(offset_of!(user::Control, descriptions_bytes), used + bytes);
        put_state(&fake, 1, BEGIN, used);
        assert_eq!(error_of(&fake, &app), (1, DescriptionError::Changed));
        put_state(&fake, 1, BEGIN, begin);
        put_state(&fake, 1, BYTES, 0);
        assert_eq!(error_of(&fake, &app), (1, DescriptionError::Changed));
        put_state(&fake, 1, BYTES, bytes);
        fake.put_u32(offset_of!(user::Control, nr_states), 2);
        assert_eq!(error_of(&fake, &app), (2, DescriptionError::Missing));
    }

    #[test]
    fn snapshot_before_the_last_one_that_was_learned_is_no_damage() {
        let fake = Fake::with_tracepoints();
        let app = fake.open();
        let earlier = app.snapshot().unwrap();
        fake.add(&Text::new("app", "later", 4), user::STATE_FLAG, &[]);
        app.learn(&app.snapshot().unwrap()).unwrap();
        assert!(earlier.states.len() < app.described().len() as usize);
        app.learn(&earlier).unwrap();
        assert_eq!(app.described().len(), 4);
    }

    #[test]
    fn malicious_tracepoints_that_own_the_same_bytes_are_found() {
        for (begin, bytes) in [(0i32, 0i32), (1, -1), (-4, 4)] {
            let fake = Fake::with_tracepoints();
            let app = fake.open();
            app.learn(&app.snapshot().unwrap()).unwrap();
            let [at, size] = [BEGIN, BYTES].map(|field| fake.u32(state(1) + field));
            // Bytes that make sense wherever they begin: one description, seen by two.
            let index = fake.add(&Text::new("app", "again", 4), user::STATE_FLAG, &[]);
            put_state(&fake, index, BEGIN, at.wrapping_add_signed(begin));
            put_state(&fake, index, BYTES, size.wrapping_add_signed(bytes));
            let (found, source) = error_of(&fake, &app);
            assert_eq!(found, index);
            match begin {
                0 => {
                    let (begin, end) = (at.into(), (at + size).into());
                    assert_eq!(source, DescriptionError::Shared { begin, end });
                }
                _ => assert_ne!(source, DescriptionError::Changed),
            }
        }
    }

    /// Makes a description with 48 enumerations that fills the descriptions.
    fn largest() -> Vec<u8> {
        let labels = (user::DESCRIPTIONS_BYTES - 8192) / 48 / 18;
        let fields = (0..48).map(|number| {
            let mut bytes = field([user::INTEGER, 0, 4, 0, 10, 0], 0, &format!("f{number}"));
            bytes[6..8].copy_from_slice(&(labels as u16).to_ne_bytes());
            string(&mut bytes, "");
            for value in 0..i64::from(labels) {
                bytes.extend(value.to_ne_bytes());
                bytes.extend(value.to_ne_bytes());
                string(&mut bytes, "");
            }
            bytes
        });
        Text { fields: fields.collect(), ..Text::new("app", "large", 4) }.bytes()
    }

    #[test]
    fn malicious_process_that_describes_anew_has_no_more_to_keep_than_it_has_room_for() {
        let fake = Fake::new();
        let app = fake.open();
        let large = largest();
        assert!(large.len() as u32 > user::DESCRIPTIONS_BYTES - 16384, "{}", large.len());
        fake.add_bytes(&large, user::STATE_FLAG, &[]);
        app.learn(&app.snapshot().unwrap()).unwrap();
        assert_eq!(app.described().bytes(), large.len() as u64);
        // The next one owns its bytes, and it owns none; and so on.
        for index in 1..200u32 {
            put_state(&fake, index - 1, BYTES, 0);
            put_state(&fake, index, BEGIN, 0);
            put_state(&fake, index, BYTES, large.len() as u32);
            fake.put_u32(offset_of!(user::Control, nr_states), index + 1);
            assert_eq!(error_of(&fake, &app), (0, DescriptionError::Changed));
        }
        assert_eq!(app.described().bytes(), large.len() as u64);
    }

    #[test]
    fn described_to_the_last_byte_is_kept_and_read_again() {
        let fake = Fake::new();
        let one = Text::new("app", "e", 4).bytes();
        let mut names = 0;
        while fake.u32(offset_of!(user::Control, descriptions_bytes)) as usize + one.len() + 16
            < user::DESCRIPTIONS_BYTES as usize
            && names < user::NR_STATES
        {
            fake.add_bytes(&one, user::STATE_FLAG, &[]);
            names += 1;
        }
        assert_eq!(names, user::NR_STATES);
        let app = fake.open();
        let found = app.tracepoints().unwrap();
        assert_eq!(found.len() as u32, user::NR_STATES);
        assert_eq!(app.described().len(), user::NR_STATES);
        let heading = app.described().heading(4095).map(|h| (h.provider.to_vec(), h.level));
        assert_eq!(heading, Some((b"app".to_vec(), 4)));
    }
}
