//! Shows the events of `strata view --follow` as they are recorded.

use std::ops::ControlFlow;

use anyhow::{bail, Context as _, Result};
use strata_analyze::pipeline::{FollowRenderer, PipelineOutput};
use strata_analyze::render::Options;
use strata_ctf::read::Selection;
use strata_session::stop::Stop;

use super::text_output::ViewOutput;
use super::view_messages::Speaker;
use crate::reading::followed_traces::FollowedTraces;
use crate::reading::selection::SelectionFlags;
use crate::stderr::messages::Weight;
use crate::stderr::progress::ReadingLine;
use crate::stdout;
use crate::units::counted;

/// Which events are followed, and how they are shown.
pub struct Followed<'f> {
    /// The traces.
    pub traces: FollowedTraces,
    /// Flags that select events.
    pub selection: &'f SelectionFlags,
    /// Format of the output, and style of times and names.
    pub options: Options,
    /// The most events that are shown.
    pub limit: u64,
}

/// Shows events until the recording ends or the user stops it. Returns the exit status.
pub fn run(followed: Followed<'_>, mut target: ViewOutput, stop: &Stop) -> Result<u8> {
    let Followed { traces, selection, options, limit } = followed;
    let stopped = || stop.requests() > 0;
    let Some(mut follow) = traces.follow(selection, stop, &stdout::is_closed_within)? else {
        return Ok(crate::exit_status::stopped(stop));
    };
    let range = selection.range(follow.reader())?;
    follow.set_range(range);
    let filter = selection.filter().map(Selection::new);
    if filter.clone().is_some_and(|mut it| !it.asked_words(follow.reader()).is_empty()) {
        bail!(
            "--follow: the filter asks for what records do not say themselves (comm, pid, tid, duration and the like), \
             which is known once the whole trace is read. Use names of fields, or leave out --follow"
        );
    }
    let mut speaker = Speaker::new(&options, false, ReadingLine::none());
    let mut renderer = FollowRenderer::new(&options, follow.reader(), filter, limit);
    let mut written = Ok(());
    let mut sink = |output: PipelineOutput<'_>| {
        match output {
            PipelineOutput::Text(text) => {
                if let Err(error) = target.write(text) {
                    written = Err(error);
                    return ControlFlow::Break(());
                }
            }
            PipelineOutput::Remark(remark) => speaker.remark(remark),
            PipelineOutput::Read(_) => {}
        }
        ControlFlow::Continue(())
    };
    let mut done = renderer.head(&mut sink);
    while done.is_continue() && !stopped() {
        traces.look(&mut follow)?;
        done =
            renderer.look(&mut follow.events(), follow.lent(), follow.upto(), &stopped, &mut sink);
        let is_over = follow.upto().is_some_and(|upto| upto > range.to);
        if follow.has_ended()
            || is_over
            || done.is_break()
            || stdout::is_closed_within(FollowRenderer::PERIOD)
        {
            break;
        }
    }
    if done.is_continue() {
        // An error means that nobody reads the output any more.
        let _ = renderer.end(&mut sink);
    }
    target.close();
    written.context("view: cannot write to stdout")?;
    let summary = *renderer.summary();
    if renderer.late() > 0 {
        let text = format!(
            "{} written later than the recorder's flush period, behind others with a later time: `strata view` without \
             --follow has the order",
            counted(renderer.late(), "event")
        );
        speaker.say(Weight::Warning, text);
    }
    if stopped() {
        speaker.end(&summary);
        return Ok(crate::exit_status::stopped(stop));
    }
    let mut is_damaged = summary.damage > 0;
    if follow.has_ended() {
        // The end marks that exist now have the outcome of the recording.
        let reader = selection.open(&traces.paths)?;
        speaker.opened(&reader, selection, options.fields.as_ref(), false);
        is_damaged |= reader.damage().iter().any(|found| !found.is_remark());
    }
    speaker.end(&summary);
    if summary.events == 0 {
        speaker.say(Weight::Warning, selection.nothing().to_owned());
    }
    let unmatched = summary.events == 0 && selection.is_any();
    Ok(if is_damaged { 2 } else { u8::from(unmatched) })
}
