//! Makes one pass over all records, in the order of time.

use std::ops::ControlFlow;

use strata_ctf::read::{Damage, Events, Message, Reader, Selection, TimeRange};

use crate::descriptors::first_steps::first_steps;
use crate::observer::Observer;
use crate::timeline::Timeline;

/// The number of messages after which a pass asks whether to go on.
const CHUNK: u32 = 1 << 16;

/// The selection of records for a report.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The time range of the results. Earlier records are read as well, since they determine the state at its begin.
    pub range: TimeRange,
    /// The filter: only results whose begin or end it accepts; `None` accepts all.
    pub selection: Option<Selection>,
}

impl Default for Asked {
    fn default() -> Asked {
        Asked { range: TimeRange::ALL, selection: None }
    }
}

/// The results of a pass that do not belong to one report.
#[derive(Clone, Debug)]
pub struct Passed {
    /// The timeline at the end.
    pub timeline: Timeline,
    /// The number of event records that were read.
    pub records: u64,
    /// The number of event records that were discarded, and of packets that are missing.
    pub discarded: u64,
    /// The number of places that could not be read.
    pub damage: u64,
}

/// Tells a timeline, before its first record, which descriptors existed already, as read from the first records.
pub fn begin(timeline: &mut Timeline, reader: &Reader) {
    begin_unless(timeline, reader, &|| false);
}

fn begin_unless(timeline: &mut Timeline, reader: &Reader, stop: &dyn Fn() -> bool) {
    timeline.begin(&first_steps(reader, TimeRange::ALL, stop).unwrap_or_default());
}

/// Passes all records to `seen`. `go_on` gets the number of bytes read so far and returns false to stop; in that case
/// the result is `None`. `damage` gets places that cannot be read, including those found when the traces were opened.
pub fn pass<O: Observer>(
    reader: &Reader,
    asked: &Asked,
    seen: &mut O,
    go_on: &dyn Fn(u64) -> bool,
    damage: &mut dyn FnMut(&Damage),
) -> Option<Passed> {
    pass_on(Timeline::new(reader), reader, asked, seen, go_on, damage)
}

/// Makes a pass with a timeline that was made for these traces.
pub fn pass_on<O: Observer>(
    timeline: Timeline,
    reader: &Reader,
    asked: &Asked,
    seen: &mut O,
    go_on: &dyn Fn(u64) -> bool,
    damage: &mut dyn FnMut(&Damage),
) -> Option<Passed> {
    let mut selection = asked.selection.clone();
    let mut passed = Passed::begin(timeline, asked.range.from);
    begin_unless(&mut passed.timeline, reader, &|| !go_on(0));
    reader.damage().iter().for_each(|found| passed.damaged(found, damage));
    let mut events = reader.events(TimeRange { from: i64::MIN, to: asked.range.to });
    if !passed.go_on(reader, &mut events, selection.as_mut(), seen, go_on, damage) {
        return None;
    }
    if asked.range.to < i64::MAX {
        passed.timeline.cut(reader, asked.range.to);
    }
    passed.timeline.finish(seen);
    Some(passed)
}

impl Passed {
    /// Begins a pass with a timeline, whose results count from the time `from` on.
    #[must_use]
    pub fn begin(mut timeline: Timeline, from: i64) -> Passed {
        timeline.count_hidden_from(from);
        Passed { timeline, records: 0, discarded: 0, damage: 0 }
    }

    fn damaged(&mut self, found: &Damage, damage: &mut dyn FnMut(&Damage)) {
        self.damage += u64::from(!found.is_note() && !found.is_remark());
        damage(found);
    }

    /// Passes further records of the traces to `seen`, in the order of time. Returns false if `go_on` has returned false.
    pub fn go_on<O: Observer>(
        &mut self,
        reader: &Reader,
        events: &mut Events<'_>,
        mut selection: Option<&mut Selection>,
        seen: &mut O,
        go_on: &dyn Fn(u64) -> bool,
        damage: &mut dyn FnMut(&Damage),
    ) -> bool {
        loop {
            let mut left = CHUNK;
            let end = events.run(|message| {
                match message {
                    Message::Event(event) => {
                        let selected = match &mut selection {
                            None => true,
                            Some(selection) => selection.accepts(&event),
                        };
                        self.records += 1;
                        self.timeline.event(&event, selected, seen);
                    }
                    Message::Discarded(discarded) => {
                        self.discarded = self.discarded.saturating_add(discarded.count);
                        self.timeline.discarded(&discarded);
                    }
                    Message::Damage(found) => {
                        self.damaged(found, damage);
                        // What threads did since then is not known.
                        if let Some(stream) = reader.stream_of(found).filter(|_| !found.is_note()) {
                            self.timeline.gap(stream.index(), None, None);
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
                return false;
            }
            if end.is_continue() {
                return true;
            }
        }
    }
}
