//! Event records of a range of time that a filter selects, as `strata view` shows them.

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
}

/// Returns the first records of a range of time that a filter selects, at most `limit`.
///
/// With `code`, the frames of call stacks have names of functions.
///
/// # Errors
/// The filter is not valid.
pub fn records(
    reader: &Reader,
    range: TimeRange,
    filter: &str,
    limit: u64,
    code: Option<SourceOptions>,
) -> Result<Records, String> {
    let end = Instant::now() + PATIENCE;
    let stop = || Instant::now() > end;
    let selection = match filter.trim() {
        "" => None,
        text => {
            let filter =
                Filter::parse(text).map_err(|error| format!("{error}\n{}", error.caret()))?;
            let mut selection = Selection::of_time(&filter, reader, range, &stop);
            let asked = selection.asked_words(reader);
            Some(match asked.is_empty() {
                true => selection,
                false => {
                    let facts = DerivedFacts::read(reader, &asked, None, range, &stop);
                    selection.with_derived(Arc::new(facts.unwrap_or_default()), false)
                }
            })
        }
    };
    let options = Options { format: Format::Json, source: code, ..Options::default() };
    let job = Job {
        reader,
        range,
        options,
        filter: selection.as_ref(),
        mine: None,
        limit,
        threads: 1,
        stop: &stop,
    };
    let mut records = Records::default();
    let summary = pipeline::run(&job, &mut |output| {
        if let PipelineOutput::Text(text) = output {
            if records.lines.len() + text.len() > BYTES_MAX {
                records.is_cut = true;
                return ControlFlow::Break(());
            }
            records.lines.extend_from_slice(text);
        }
        ControlFlow::Continue(())
    });
    // Keep whole lines only, since the last one may be cut.
    let whole = records.lines.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    records.lines.truncate(whole);
    records.is_cut |= summary.stopped || summary.events >= limit;
    Ok(records)
}
