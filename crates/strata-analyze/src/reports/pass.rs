//! One pass over all records, in the order of time.

use std::ops::ControlFlow;

use strata_ctf::read::{Damage, Message, Reader, Selection, TimeRange};
use strata_timeline::{Observer, Timeline};

use crate::ahead::first_steps;

/// Messages between two looks whether to go on.
const CHUNK: u32 = 1 << 16;

/// What a report is about.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What ends in this time; all before is read, too, since it says how things stand then.
    pub range: TimeRange,
    /// Only what begins or ends with a record that this accepts.
    pub selection: Option<Selection>,
}

impl Default for Asked {
    fn default() -> Asked {
        Asked { range: TimeRange::ALL, selection: None }
    }
}

/// What the pass has come by.
#[derive(Debug)]
pub struct Passed {
    /// What is known at the end.
    pub timeline: Timeline,
    /// Event records that were read.
    pub records: u64,
    /// Event records that were discarded, and packets that are not there.
    pub discarded: u64,
    /// What could not be read.
    pub damage: u64,
}

/// Tell `seen` all of it. `go_on` is told how many bytes were read so far, and says whether to go on; if not, there is
/// no result. `damage` is told what cannot be read, also what was found when the traces were opened.
pub fn pass<O: Observer>(
    reader: &Reader,
    asked: &Asked,
    seen: &mut O,
    go_on: &dyn Fn(u64) -> bool,
    damage: &mut dyn FnMut(&Damage),
) -> Option<Passed> {
    pass_on(Timeline::new(reader), reader, asked, seen, go_on, damage)
}

/// The same by a timeline that is made for these traces.
pub fn pass_on<O: Observer>(
    timeline: Timeline,
    reader: &Reader,
    asked: &Asked,
    seen: &mut O,
    go_on: &dyn Fn(u64) -> bool,
    damage: &mut dyn FnMut(&Damage),
) -> Option<Passed> {
    let mut selection = asked.selection.clone();
    let mut passed = Passed { timeline, records: 0, discarded: 0, damage: 0 };
    passed.timeline.count_hidden_from(asked.range.from);
    let first = first_steps(reader, TimeRange::ALL, &|| !go_on(0));
    passed.timeline.begin(&first.unwrap_or_default());
    let mut found = |found: &Damage, passed: &mut Passed| {
        passed.damage += u64::from(!found.is_note() && !found.is_remark());
        damage(found);
    };
    reader.damage().iter().for_each(|damage| found(damage, &mut passed));
    let mut events = reader.events(TimeRange { from: i64::MIN, to: asked.range.to });
    loop {
        let mut left = CHUNK;
        let end = events.run(|message| {
            match message {
                Message::Event(event) => {
                    let selected = match &mut selection {
                        None => true,
                        Some(selection) => selection.accepts(&event),
                    };
                    passed.records += 1;
                    passed.timeline.event(&event, selected, seen);
                }
                Message::Discarded(discarded) => {
                    passed.discarded = passed.discarded.saturating_add(discarded.count);
                    passed.timeline.discarded(&discarded);
                }
                Message::Damage(damage) => {
                    found(damage, &mut passed);
                    // What threads did since then is not known.
                    if let Some(stream) = reader.stream_of(damage).filter(|_| !damage.is_note()) {
                        passed.timeline.gap(stream.index(), None, None);
                    }
                }
                Message::Packet(_) => {}
            }
            left -= 1;
            if left == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        if !go_on(events.bytes_read()) {
            return None;
        }
        if end.is_continue() {
            break;
        }
    }
    // What was so at the last record still is, up to the end of the time.
    if let Some(span) = reader.span().filter(|_| asked.range.to < i64::MAX) {
        passed.timeline.until(span.to.min(asked.range.to));
    }
    passed.timeline.finish(seen);
    Some(passed)
}
