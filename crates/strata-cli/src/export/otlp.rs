//! Spans for OpenTelemetry, and remarks on them.

use std::io;

use strata_analyze::reports::wait::PathPart;
use strata_ctf::read::{Damage, Discarded, Event, Reader, Stream, TimeRange};
use strata_export::otlp::{Exporter, States, Summary};
use strata_session::stop::Stop;
use strata_timeline::{is_kernel, pass_on, Asked, PairRule};

use super::sink::{EventSink, WrittenExport};
use crate::analyze::wait::part_text;
use crate::reading::limits;
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::stderr::progress::ReadingLine;
use crate::units::{count, counted};

/// Reads the states of threads, so that spans can have what they waited for; empty if no trace is a kernel's.
/// Returns `None` if the user stopped the reading.
pub fn states(
    reader: &Reader,
    pairs: &[PairRule],
    range: TimeRange,
    stop: &Stop,
) -> Option<Option<States>> {
    if !reader.traces().iter().any(|trace| is_kernel(trace.schema())) {
        return Some(None);
    }
    // A span that ends in the range may have begun before.
    let range = TimeRange { from: i64::MIN, ..range };
    let mut seen = States::pass(range);
    let line = ReadingLine::new("reading states", reader, range.to == i64::MAX);
    let go_on = |bytes| {
        line.set(bytes);
        stop.requests() == 0
    };
    let asked = Asked { range, selection: None };
    let timeline = States::timeline(reader, pairs);
    let passed = pass_on(timeline, reader, &asked, &mut seen, &go_on, &mut |_| {});
    line.clear();
    let (history, _) = seen;
    let world = passed?.timeline.world().clone();
    if history.left_out() > 0 {
        let text = format!(
            "threads changed their states too often to keep all of it ({} times more): spans do not say what they \
             waited for. Export a part with --from, --until or --last",
            count(history.left_out())
        );
        stderr::message(&Message { weight: Weight::Warning, text });
        return Some(None);
    }
    let has_states = world.threads.iter().any(|(_, thread)| thread.has_states());
    Some(has_states.then(|| States::new(history, world, text_of)))
}

fn text_of(part: &PathPart) -> String {
    // Below the whole, where it says whose it was.
    part_text(part, 1)
}

impl<S: FnMut(&[u8]) -> io::Result<()>> EventSink for Exporter<S> {
    const BEFORE: bool = true;

    fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        Exporter::event(self, event, true)
    }

    fn skip(&mut self, event: &Event<'_>, is_selected: bool) -> io::Result<()> {
        Exporter::event(self, event, is_selected)
    }

    fn discarded(&mut self, discarded: &Discarded<'_>) -> io::Result<()> {
        Exporter::discarded(self, discarded);
        Ok(())
    }

    fn damage(&mut self, _: &Damage, stream: Option<&Stream>) -> io::Result<()> {
        Exporter::damage(self, stream);
        Ok(())
    }

    fn finish(self) -> io::Result<WrittenExport> {
        let summary = Exporter::finish(self)?;
        let Summary { spans: events, bytes, .. } = summary;
        Ok(WrittenExport { events, bytes, otlp: Some(summary), ..WrittenExport::default() })
    }
}

/// Returns remarks on what is missing.
pub(super) fn remarks(summary: &Summary) -> Vec<String> {
    let mut texts = Vec::new();
    if summary.unpaired > 0 {
        let what = counted(summary.unpaired, "begin or end");
        texts.push(format!(
            "{what} of spans without the other in the traces: not exported. `strata analyze spans` says why"
        ));
    }
    if summary.without_begin > 0 {
        let what = counted(summary.without_begin, "span");
        texts.push(format!("{what} without the fields of their begin: too many, or too large ones, are open at once"));
    }
    if summary.without_path > 0 {
        let what = counted(summary.without_path, "span");
        texts.push(format!(
            "{what} without what they waited for: so many spans around each other would take too long. Export fewer \
             (--filter, --of, --from, --until)"
        ));
    }
    if summary.before_1970 > 0 {
        let what = counted(summary.before_1970, "span");
        texts.push(format!(
            "{what} from before 1970, where the protocol has no times: shown in 1970"
        ));
    }
    texts.extend(limits::texts(summary.threads_left_out, summary.names_left_out));
    texts
}
