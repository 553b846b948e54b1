//! Classes that are described twice in different ways.

use std::collections::HashSet;
use strata_model::schema::{EventClass, Schema, StreamClass};

/// Stream classes, clocks and event record classes that are described in two different ways. It is unknown which
/// description is right, so neither is used. A second description that equals the first one does no harm.
#[derive(Debug, Default)]
pub(crate) struct AmbiguousClasses {
    streams: HashSet<usize>,
    clocks: HashSet<usize>,
    events: HashSet<(usize, u64)>,
}

impl AmbiguousClasses {
    /// Records that the stream class at `index` is described again, as `again`.
    pub fn note_stream(&mut self, schema: &Schema, index: usize, again: &StreamClass) {
        let is_same = |class: &StreamClass| {
            let parts = |class: &StreamClass| {
                let StreamClass { packet_context, event_header, event_common_context, .. } = class;
                (packet_context.clone(), event_header.clone(), event_common_context.clone())
            };
            (class.clock, &class.name, parts(class)) == (again.clock, &again.name, parts(again))
        };
        if !schema.streams.get(index).is_some_and(is_same) {
            self.streams.insert(index);
        }
    }

    /// Records that the clock at `index` is described again in another way.
    pub fn note_clock(&mut self, index: usize) {
        self.clocks.insert(index);
    }

    /// Records that an event record class of the stream class at `index` is described again, as `again`.
    pub fn note_event(&mut self, schema: &Schema, index: usize, again: &EventClass) {
        let stream = schema.streams.get(index);
        let before = stream.and_then(|stream| stream.events.iter().find(|it| it.id == again.id));
        if before != Some(again) {
            self.events.insert((index, again.id));
        }
    }

    /// Removes the ambiguous classes from the schema, and the stream classes whose clock is ambiguous.
    pub fn remove_from(self, schema: &mut Schema) {
        for (index, id) in &self.events {
            if let Some(stream) = schema.streams.get_mut(*index) {
                stream.events.retain(|event| event.id != *id);
            }
        }
        let count = schema.streams.len();
        let mut index = 0;
        schema.streams.retain(|stream| {
            let is_kept = !self.streams.contains(&index)
                && stream.clock.is_none_or(|clock| !self.clocks.contains(&clock));
            index += 1;
            is_kept
        });
        // A packet without a class id may belong to one of the removed stream classes.
        schema.is_stream_unread |= schema.streams.len() < count;
    }
}
