//! Remarks on a Perfetto trace that was written.

use std::time::Duration;

use strata_export::perfetto::Summary;

use crate::reading::limits;
use crate::units::{clean, counted, shell_word, size, time};

/// Size of a file beyond which a browser cannot show it \[byte\].
pub(super) const BROWSER_BYTES: u64 = 2 << 30;
/// Limit on the pairs whose overlapping slices are reported.
pub(super) const OVERLAPS_SHOWN: usize = 5;
/// Returns advice if a file is too large for a browser.
pub(super) fn too_large(bytes: u64) -> Option<String> {
    (bytes > BROWSER_BYTES).then(|| {
        format!(
            "{} is more than browsers hold (about {}). Export a part with --from, --until or --filter",
            size(bytes),
            size(BROWSER_BYTES)
        )
    })
}

/// Returns remarks on problems that the Perfetto trace has.
pub(super) fn remarks(summary: &Summary) -> Vec<String> {
    let mut texts = Vec::new();
    if summary.discarded > 0 {
        let what = counted(summary.discarded, "event record");
        texts.push(format!("{what} discarded by the tracer; marked where that happened"));
    }
    // Each recording of a command has some calls with one end only, since they begin or end a program.
    let without_begin = summary.ends_without_begin.saturating_sub(summary.ends_of_births);
    if without_begin > 0 {
        let what = counted(without_begin, "slice");
        texts.push(format!("{what} without begin in the trace: shown as instants"));
    }
    let without_end = summary.unfinished.saturating_sub(summary.exits);
    if without_end > 0 {
        let what = counted(without_end, "slice");
        texts.push(format!("{what} without end in the trace: marked 'unfinished'"));
    }
    if summary.unknown > 0 {
        let what = counted(summary.unknown, "slice");
        texts.push(format!(
            "{what} of CPUs without end in the trace: 'unknown' up to the next record there, as is what the \
             thread did. Records were discarded, a filter has left them out, or the kernel hides the thread: \
             `strata analyze cpu` names those"
        ));
    }
    if summary.guessed > 0 {
        let what = counted(summary.guessed, "slice");
        texts.push(format!(
            "{what} of threads that the trace does not tell apart (no vtid): the end of each was \
             guessed by its CPU. Record the context vtid, or name a key: --pair BEGIN=END:KEYFIELD"
        ));
    }
    for overlap in summary.overlaps.iter().take(OVERLAPS_SHOWN) {
        let name = clean(overlap.rule.split('=').next().unwrap_or_default());
        let rule = shell_word(&clean(&overlap.rule));
        texts.push(match overlap.disagree {
            0 => format!(
                "{} of {name} without a begin in its thread: if they end in another thread than they \
                 begin in, put them together by their id: --pair {rule}",
                counted(overlap.ends_alone, "end")
            ),
            wrong => format!(
                "{} of {name} with another id at the end than at the begin: their lengths are wrong. They \
                 overlap in a thread, or end in another one: put them together by their id: --pair {rule}",
                counted(wrong, "slice")
            ),
        });
    }
    if summary.overlaps.len() > OVERLAPS_SHOWN {
        let more = counted((summary.overlaps.len() - OVERLAPS_SHOWN) as u64, "other pair");
        texts.push(format!("{more} of events seem to overlap in a thread, too"));
    }
    if let Some(shift) = summary.shift {
        texts.push(format!(
            "the traces begin before 1970, where the format has no times: all times are {} later than in the traces",
            time(Duration::from_nanos(shift))
        ));
    }
    if summary.out_of_range > 0 {
        let what = counted(summary.out_of_range, "event");
        texts.push(format!(
            "{what} before the first one of the traces, or later than the format has times: shown at its first or last time"
        ));
    }
    if summary.too_many_open > 0 {
        let what = counted(summary.too_many_open, "event");
        texts.push(format!("{what} would begin more slices than can be open: shown as instants"));
    }
    texts.extend(limits::texts(summary.threads_left_out, summary.names_left_out));
    texts.extend(limits::counters(summary.counters_left_out));
    texts
}
