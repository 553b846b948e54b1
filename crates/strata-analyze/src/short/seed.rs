//! What threads are called before the time from which records are shown.

use std::collections::HashMap;

use strata_ctf::read::{Message, Reader, TimeRange};

use super::call::{number, text, told, Told};
use super::key::Key;
use super::who::Comm;

/// Records that are looked at: what was there when recording began is said by the first ones.
const RECORDS_MAX: usize = 1 << 17;

/// Names of threads.
#[derive(Debug, Default)]
pub struct Seed {
    names: HashMap<(usize, i64), Comm>,
}

impl Seed {
    /// What the first records of the traces say, of those in front of a time. Nothing is said of what is damaged.
    pub fn read(reader: &Reader, range: TimeRange, stop: &(dyn Fn() -> bool + Sync)) -> Seed {
        let mut seed = Seed::default();
        let Some(to) = range.from.checked_sub(1) else { return seed };
        let mut classes: Vec<Option<Vec<Told>>> = Vec::new();
        classes.resize_with(reader.event_classes(), || None);
        let mut events = reader.events(TimeRange { from: i64::MIN, to });
        for _ in 0..RECORDS_MAX {
            let Some(message) = events.next() else { break };
            let event = match message {
                Message::Event(event) => event,
                Message::Packet(_) if stop() => break,
                _ => continue,
            };
            let Some(known) = classes.get_mut(event.class().index()) else { continue };
            for told in known.get_or_insert_with(|| told(event.class())).iter() {
                let (tid, name) = (number(&event, &told.tid), text(&event, &told.name));
                let name = name.and_then(|name| match told.is_program {
                    true => Comm::of_program(name),
                    false => Comm::new(name),
                });
                if let (Some(tid), Some(name)) = (tid, name) {
                    seed.names.insert((event.stream().trace().index(), tid), name);
                }
            }
        }
        seed
    }

    pub(super) fn names(&self) -> impl Iterator<Item = (Key, Comm)> + '_ {
        self.names.iter().map(|(&(trace, tid), &name)| (Key::thread(trace, tid), name))
    }
}
