//! `strata analyze summary --follow`: the summary of traces that are being recorded, again and again.
//!
//! Each record is read once. To show the summary, a copy of the state so far is ended and made into a report.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::Result;
use strata_ctf::read::{Damage, Follow, TimeRange};
use strata_report::{csv, members};
use strata_session::stop::Stop;
use strata_text::json::compact;
use strata_timeline::{begin, span_roles, Passed, Timeline};

use super::process_selection::Whose;
use super::report_command::{Format, Made};
use super::report_text;
use super::summary::{Empty, SummaryCounters, SummaryFlags};
use crate::count::screen::draw;
use crate::reading::followed_traces::FollowedTraces;
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::stdout;
use crate::units::clean;

/// Period of looks at the files.
const LOOK_PERIOD: Duration = Duration::from_millis(50);
/// The pause between two summaries is at least as many times as long as it takes to make one.
const SHARE: u32 = 4;
/// The most damages that are reported one by one.
const DAMAGE_MAX: usize = 20;

/// Shows the summary until the recording ends or the user stops it. Returns the exit status.
pub fn run(flags: &SummaryFlags, stop: &Stop) -> Result<u8> {
    flags.refuse_filter()?;
    let stopped = || crate::exit_status::stopped(stop);
    let Some(traces) = FollowedTraces::open("analyze summary", &flags.common.traces, stop)? else {
        return Ok(stopped());
    };
    let selection = &flags.common.selection;
    let Some(mut follow) = traces.follow(selection, stop, &stdout::is_closed_within)? else {
        return Ok(stopped());
    };
    let range = selection.range(follow.reader())?;
    follow.set_range(range);
    let whose = flags.whose(follow.reader(), stop)?;
    let mut timeline = Timeline::with_spans(follow.reader(), span_roles(follow.reader(), &[]));
    begin(&mut timeline, follow.reader());
    let mut state = FollowedState {
        flags,
        counters: flags.counters(&whose, range),
        whose,
        passed: Passed::begin(timeline, range.from),
        range,
        noted: HashSet::new(),
        is_drawn: stdout::is_terminal() && flags.common.format() == Format::Text,
        is_first: true,
    };
    let mut due = Instant::now() + flags.period;
    let is_over = loop {
        traces.look(&mut follow)?;
        state.take(&follow, stop);
        let is_over = follow.has_ended() || follow.upto().is_some_and(|upto| upto > range.to);
        if is_over || stop.requests() > 0 {
            break is_over;
        }
        let now = Instant::now();
        if now >= due && state.passed.records > 0 {
            let (_, text, _) = state.report(&follow, false);
            state.show(&text)?;
            due = now + flags.period.max(now.elapsed() * SHARE);
        }
        if stdout::is_closed_within(LOOK_PERIOD) {
            break false;
        }
    };
    let (made, text, empty) = state.report(&follow, true);
    state.show(&text)?;
    let status = flags.say_empty(&made, empty);
    Ok(if is_over { status } else { stopped() })
}

/// The state of a summary that is repeated while traces are recorded.
struct FollowedState<'f> {
    flags: &'f SummaryFlags,
    whose: Whose<'f>,
    counters: SummaryCounters,
    passed: Passed,
    range: TimeRange,
    /// Damages that were reported.
    noted: HashSet<String>,
    /// True if a summary on the terminal takes the place of the one before.
    is_drawn: bool,
    is_first: bool,
}

impl FollowedState<'_> {
    /// Reads the records that are new.
    fn take(&mut self, follow: &Follow, stop: &Stop) {
        let reader = follow.reader();
        self.passed.timeline.grow(reader, || span_roles(reader, &[]));
        let noted = &mut self.noted;
        let mut damage = |found: &Damage| {
            let text = found.to_string();
            if noted.len() < DAMAGE_MAX && noted.insert(text.clone()) {
                let is_note = found.is_note() || found.is_remark();
                let weight = if is_note { Weight::Warning } else { Weight::Failure };
                stderr::message(&Message { weight, text: clean(&text) });
            }
        };
        let go_on = |_| stop.requests() == 0;
        let (events, seen) = (&mut follow.events(), &mut self.counters);
        self.passed.go_on(reader, events, None, seen, &go_on, &mut damage);
    }

    /// Creates the summary of the records so far. `is_last`: true to print messages on what it lacks.
    fn report(&self, follow: &Follow, is_last: bool) -> (Made, String, Empty) {
        let (mut passed, mut counters) = (self.passed.clone(), self.counters.clone());
        if let Some(upto) = follow.upto().filter(|upto| *upto > i64::MIN) {
            passed.timeline.until(upto.min(self.range.to));
        }
        passed.timeline.finish(&mut counters);
        let made = Made::new(passed, self.range, follow.reader());
        let (document, empty) =
            self.flags.finish(follow.reader(), &self.whose, &made, counters, is_last);
        let text = match self.flags.common.format() {
            Format::Json => {
                let mut object = made.object("summary");
                object.extend(members(&document));
                compact(&object) + "\n"
            }
            Format::Csv => csv(&document) + "\n",
            Format::Text => {
                let text = report_text::text(&document, self.flags.common.selection.zone());
                if self.is_drawn {
                    text
                } else {
                    text + "\n"
                }
            }
        };
        (made, text, empty)
    }

    fn show(&mut self, text: &str) -> Result<()> {
        match self.is_drawn {
            true => Ok(draw(text, std::mem::replace(&mut self.is_first, false))?),
            false => stdout::text("analyze", text),
        }
    }
}
