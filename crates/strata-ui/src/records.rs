//! Event records of a range of time that a filter selects, as `strata view` shows them: the first ones, or the last ones.
//!
//! A list that is scrolled asks for the records behind its last one, or in front of its first one. Records may have one
//! time, so a place in the list is a time and a number among the records of that time.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use strata_analyze::debug_info::SourceOptions;
use strata_analyze::derived_facts::DerivedFacts;
use strata_analyze::pipeline::{self, Job, PipelineOutput};
use strata_analyze::render::{Format, Options};
use strata_ctf::read::{Reader, Selection, TimeRange};
use strata_filter::Filter;

/// Limit on the time for one answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Limit on the size of one answer \[byte\].
const BYTES_MAX: usize = 1 << 20;

/// Records of one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Records as JSON, each on a line.
    pub lines: Vec<u8>,
    /// True if there may be more records in this range: a limit on number, time or size was reached.
    pub is_cut: bool,
    /// Number of selected records before the first one of this answer that have the same time.
    pub nth: u64,
}

/// Which records of a range of time are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted<'q> {
    /// The range of time, both ends included.
    pub range: TimeRange,
    /// The filter, as text; empty for all records.
    pub filter: &'q str,
    /// The most records.
    pub limit: u64,
}

/// The first window of time before a moment in which records are searched \[ns\], and its growth.
const WINDOW: i64 = 100_000;
const WINDOW_GROWTH: i64 = 8;

/// Returns the first records of a range of time that a filter selects, at most `limit`, without the first `skip` of them.
///
/// With `code`, the frames of call stacks have names of functions.
///
/// # Errors
/// The filter is not valid.
pub fn records(
    reader: &Reader,
    wanted: Wanted<'_>,
    skip: u64,
    code: Option<SourceOptions>,
) -> Result<Records, String> {
    let end = Instant::now() + PATIENCE;
    let selection = selection(reader, wanted, end)?;
    let mut records = Records::default();
    let mut left = skip;
    let limit = wanted.limit.saturating_add(skip);
    let (is_stopped, count) =
        run(reader, Wanted { limit, ..wanted }, selection.as_ref(), code, end, &mut |text| {
            let mut text = text;
            while left > 0 {
                let Some(line) = text.iter().position(|&byte| byte == b'\n') else {
                    return ControlFlow::Continue(());
                };
                (text, left) = (text.get(line + 1..).unwrap_or_default(), left - 1);
            }
            if records.lines.len() + text.len() > BYTES_MAX {
                records.is_cut = true;
                return ControlFlow::Break(());
            }
            records.lines.extend_from_slice(text);
            ControlFlow::Continue(())
        });
    // Keep whole lines only, since the last one may be cut.
    let whole = records.lines.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    records.lines.truncate(whole);
    records.is_cut |= is_stopped || count >= limit;
    Ok(records)
}

/// Returns the last records of a range of time that a filter selects, at most `limit`. Of the records at the end of the
/// range, only the first `nth` are in the range.
///
/// # Errors
/// The filter is not valid.
pub fn last_records(reader: &Reader, wanted: Wanted<'_>, nth: u64) -> Result<Records, String> {
    let end = Instant::now() + PATIENCE;
    let Wanted { range, limit, .. } = wanted;
    // What a filter asks of a call or a thread may be known from records in front of a window.
    let selection = selection(reader, wanted, end)?;
    let selection = selection.as_ref();
    let mut found = Records::default();
    let mut window = WINDOW;
    // A window has all records of each of its times, so the number of the first one among those of its time is known.
    loop {
        let mut last = LastLines::new(limit);
        let mut add = |text: &[u8]| {
            last.add(text);
            ControlFlow::Continue(())
        };
        let from = range.to.saturating_sub(window).max(range.from);
        let before = TimeRange { from, to: range.to.saturating_sub(1) };
        let mut is_stopped = false;
        if before.from <= before.to {
            let all = Wanted { range: before, limit: u64::MAX, ..wanted };
            is_stopped |= run(reader, all, selection, None, end, &mut add).0;
        }
        if nth > 0 && !is_stopped {
            let at_end = TimeRange { from: range.to, to: range.to };
            let of = Wanted { range: at_end, limit: nth, ..wanted };
            is_stopped |= run(reader, of, selection, None, end, &mut add).0;
        }
        if is_stopped {
            // What a shorter window had are the last ones, too.
            found.is_cut = true;
            return Ok(found);
        }
        let is_all = from == range.from;
        let is_full = last.is_full();
        found = last.into_records();
        found.is_cut |= !is_all;
        if is_all || is_full {
            return Ok(found);
        }
        window = window.saturating_mul(WINDOW_GROWTH);
    }
}

/// The last lines of a text that comes in pieces, with a limit on their number and size.
#[derive(Debug, Default)]
struct LastLines {
    lines: VecDeque<Vec<u8>>,
    /// The line that is not complete yet.
    part: Vec<u8>,
    bytes: usize,
    limit: usize,
    /// Number of lines before the first one of this answer that have the same time.
    nth: u64,
    has_removed: bool,
}

impl LastLines {
    fn new(limit: u64) -> LastLines {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        LastLines { limit, ..LastLines::default() }
    }

    fn add(&mut self, text: &[u8]) {
        for piece in text.split_inclusive(|&byte| byte == b'\n') {
            self.part.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.part);
                self.bytes += line.len();
                self.lines.push_back(line);
                while self.lines.len() > self.limit || self.bytes > BYTES_MAX {
                    self.drop_first();
                }
            }
        }
    }

    fn drop_first(&mut self) {
        let Some(first) = self.lines.pop_front() else { return };
        self.bytes -= first.len();
        self.has_removed = true;
        let has_its_time = self.lines.front().is_some_and(|next| time_of(next) == time_of(&first));
        self.nth = if has_its_time { self.nth + 1 } else { 0 };
    }

    /// Returns true if a longer text would have the same last lines.
    fn is_full(&self) -> bool {
        self.has_removed || self.lines.len() >= self.limit
    }

    fn into_records(self) -> Records {
        let is_cut = self.has_removed;
        Records { lines: self.lines.into_iter().flatten().collect(), is_cut, nth: self.nth }
    }
}

/// Returns the part of a record's line that has its time: it comes first.
fn time_of(line: &[u8]) -> &[u8] {
    line.split(|&byte| byte == b',').next().unwrap_or_default()
}

/// Returns the records that a filter selects; `None` if that is all of them.
fn selection(
    reader: &Reader,
    Wanted { range, filter, .. }: Wanted<'_>,
    end: Instant,
) -> Result<Option<Selection>, String> {
    let stop = || Instant::now() > end;
    let text = filter.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let filter = Filter::parse(text).map_err(|error| format!("{error}\n{}", error.caret()))?;
    let mut selection = Selection::of_time(&filter, reader, range, &stop);
    let asked = selection.asked_words(reader);
    if asked.is_empty() {
        return Ok(Some(selection));
    }
    let facts = DerivedFacts::read(reader, &asked, None, range, &stop);
    Ok(Some(selection.with_derived(Arc::new(facts.unwrap_or_default()), false)))
}

/// Renders records, and passes their lines to `tell` in pieces. Returns true if time ran out, and the number of records.
fn run(
    reader: &Reader,
    Wanted { range, limit, .. }: Wanted<'_>,
    filter: Option<&Selection>,
    code: Option<SourceOptions>,
    end: Instant,
    tell: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> (bool, u64) {
    let stop = || Instant::now() > end;
    let options = Options { format: Format::Json, source: code, ..Options::default() };
    let job = Job { reader, range, options, filter, mine: None, limit, threads: 1, stop: &stop };
    let summary = pipeline::run(&job, &mut |output| match output {
        PipelineOutput::Text(text) => tell(text),
        _ => ControlFlow::Continue(()),
    });
    (summary.stopped, summary.events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_are_the_same_however_their_text_is_cut_and_the_first_one_knows_its_place() {
        let line = |time: u64, n: u64| format!("{{\"time\":{time},\"n\":{n}}}\n");
        let all: Vec<String> = (0..100).map(|n| line(n / 7, n)).collect();
        let text = all.concat();
        for limit in [1, 3, 7, 50, 99, 100, 1000] {
            for piece in [1, 13, 5000] {
                let mut last = LastLines::new(limit);
                text.as_bytes().chunks(piece).for_each(|part| last.add(part));
                let first = all.len().saturating_sub(limit as usize);
                assert_eq!(last.is_full(), limit <= 100);
                let found = last.into_records();
                assert_eq!(String::from_utf8_lossy(&found.lines), all[first..].concat());
                assert_eq!((found.nth, found.is_cut), (first as u64 % 7, first > 0), "{limit}");
            }
        }
    }

    #[test]
    fn lines_are_as_many_as_an_answer_holds_and_one_that_is_longer_is_left_out() {
        let mut last = LastLines::new(10);
        let long = |n: usize| format!("{{\"time\":{n},{}}}\n", "x".repeat(BYTES_MAX / 3));
        (0..4).for_each(|n| last.add(long(n).as_bytes()));
        assert!(last.is_full() && last.lines.len() == 2);
        last.add(format!("{{\"time\":9,{}}}\n", "x".repeat(BYTES_MAX)).as_bytes());
        let found = last.into_records();
        assert!(found.is_cut && found.lines.is_empty());
    }
}
