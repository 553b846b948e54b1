//! Renders the event records of traces that still grow, as they arrive, with the knowledge of earlier records.

use std::ops::ControlFlow;
use std::time::Duration;

use strata_ctf::read::{Events, Message, Reader, Selection, TimeRange};

use super::chunk::{Chunk, PipelineOutput, PipelineSummary, SliceFindings, CHUNK};
use crate::render::{Format, Options, Renderer};
use crate::short::{Joiner, Seed, Short, WantedRecord};

/// A sink that receives the output, and returns `Break` if it wants no more.
type Sink<'s> = &'s mut dyn FnMut(PipelineOutput<'_>) -> ControlFlow<()>;

/// Renders the records that are found each time a growing trace is read further.
pub struct FollowRenderer {
    renderer: Renderer,
    filter: Option<Selection>,
    short: Option<(Short, Joiner)>,
    chunk: Chunk,
    seen: SliceFindings,
    summary: PipelineSummary,
    late: u64,
    left: u64,
}

impl FollowRenderer {
    /// Makes a renderer for traces whose first content `reader` has. It shows at most `limit` event records.
    pub fn new(
        options: &Options,
        reader: &Reader,
        filter: Option<Selection>,
        limit: u64,
    ) -> FollowRenderer {
        let seed = || Seed::read(reader, TimeRange::ALL, &|| false);
        let short = (options.format == Format::Short)
            .then(|| (Short::new(options, false), Joiner::new(options, seed())));
        FollowRenderer {
            renderer: Renderer::with_places(options, reader),
            filter,
            short,
            chunk: Chunk::default(),
            seen: SliceFindings::default(),
            summary: PipelineSummary::default(),
            late: 0,
            left: limit,
        }
    }

    /// Writes the text before the first event record, such as the head of a table.
    pub fn head(&self, sink: Sink<'_>) -> ControlFlow<()> {
        let mut head = Vec::new();
        self.renderer.head(&mut head);
        match head.is_empty() {
            true => ControlFlow::Continue(()),
            false => sink(PipelineOutput::Text(&head)),
        }
    }

    /// Returns the sums of everything that was rendered so far.
    pub fn summary(&self) -> &PipelineSummary {
        &self.summary
    }

    /// Returns the number of event records that appeared after others with a later time, because they were written
    /// late.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The period of reading a growing trace further. The output is late by this time.
    pub const PERIOD: Duration = Duration::from_millis(20);

    /// Renders new messages of the trace. Records with times up to `lent` count as late. All records up to the time
    /// `upto` have arrived (`None`: not known): a call that began a period before that and has not ended is shown
    /// without its end.
    pub fn look(
        &mut self,
        events: &mut Events<'_>,
        lent: i64,
        upto: Option<i64>,
        stop: &dyn Fn() -> bool,
        sink: Sink<'_>,
    ) -> ControlFlow<()> {
        while let Some(message) = events.next() {
            match message {
                Message::Event(event) => {
                    let filter = &mut self.filter;
                    let is_asked = filter.as_mut().is_none_or(|filter| filter.accepts(&event));
                    if is_asked && event.time().is_some_and(|time| time <= lent) {
                        self.late += 1;
                    }
                    let shown = match &mut self.short {
                        None if is_asked => {
                            self.renderer.event_of_many(&event, &mut self.chunk.text);
                            1
                        }
                        None => {
                            self.renderer.skip(&event);
                            0
                        }
                        Some((short, _)) => {
                            if self.renderer.names_code() {
                                self.renderer.skip(&event);
                                short.set_stacks(self.renderer.stacks(&event));
                            }
                            let wanted = match is_asked {
                                true => WantedRecord::Yes,
                                false => WantedRecord::WithItsCall,
                            };
                            short.event(&event, wanted, &mut |class| {
                                filter.as_mut().is_none_or(|filter| filter.may_accept(class))
                            })
                        }
                    };
                    self.chunk.summary.events += shown;
                    self.left = self.left.saturating_sub(shown);
                    if self.left == 0 {
                        self.hand_over(sink)?;
                        return ControlFlow::Break(());
                    }
                    if self.is_full() {
                        self.hand_over(sink)?;
                        if stop() {
                            return ControlFlow::Break(());
                        }
                    }
                }
                Message::Packet(_) if stop() => return ControlFlow::Break(()),
                Message::Packet(_) => {}
                Message::Damage(damage) => {
                    self.seen.damage(damage, true, &mut self.chunk);
                    if let Some((short, _)) = self.short.as_mut().filter(|_| !damage.is_remark()) {
                        short.gap(None, |_| ());
                    }
                }
                Message::Discarded(discarded) => {
                    self.chunk.discarded(&discarded);
                    let renderer = &mut self.renderer;
                    match &mut self.short {
                        None => renderer.discarded(&discarded, &mut self.chunk.text),
                        Some((short, _)) => {
                            let trace = discarded.stream.trace().index();
                            short.gap(Some(trace), |out| renderer.discarded(&discarded, out));
                        }
                    }
                }
            }
        }
        self.hand_over(sink)?;
        if let Some(((_, joiner), upto)) = self.short.as_mut().zip(upto) {
            let hold = upto.saturating_sub(Self::PERIOD.as_nanos() as i64);
            give(joiner.end_older(hold), sink)?;
        }
        ControlFlow::Continue(())
    }

    /// Writes the calls that still wait for their ends.
    pub fn end(&mut self, sink: Sink<'_>) -> ControlFlow<()> {
        let Some((_, joiner)) = &mut self.short else { return ControlFlow::Continue(()) };
        self.summary.hidden = joiner.hidden();
        give(joiner.end(), sink)
    }

    fn is_full(&self) -> bool {
        match &self.short {
            Some((short, _)) => short.is_full(CHUNK),
            None => self.chunk.text.len() >= CHUNK,
        }
    }

    fn hand_over(&mut self, sink: Sink<'_>) -> ControlFlow<()> {
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.summary.unsure += self.renderer.take_unsure();
        let mut done = ControlFlow::Continue(());
        for remark in &chunk.remarks {
            if done.is_continue() {
                done = sink(PipelineOutput::Remark(remark));
            }
        }
        if done.is_continue() {
            done = match &mut self.short {
                None => give(chunk.text.as_bytes(), sink),
                Some((short, joiner)) => {
                    let unit = short.finish(&mut chunk.text);
                    chunk.summary.unsure += short.take_unsure();
                    give(joiner.add(chunk.text.as_bytes(), unit), sink)
                }
            };
        }
        self.summary.add(&chunk.summary);
        chunk.text.clear();
        self.chunk.text = chunk.text;
        done
    }
}

fn give(text: &[u8], sink: Sink<'_>) -> ControlFlow<()> {
    match text.is_empty() {
        true => ControlFlow::Continue(()),
        false => sink(PipelineOutput::Text(text)),
    }
}
