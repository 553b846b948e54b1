//! Messages for all commands that read traces, on recordings that were not completed, that discarded records which no
//! packet counts, or that recorded only slow calls or spans. Traces with the same problem share a line.

use strata_analyze::reports::{
    has_slow_calls_only, has_slow_spans_only, sampled_kinds, SampledKinds,
};
use strata_ctf::end_mark::{EndMark, Ending};
use strata_ctf::read::{FolderEnd, Reader, RecordingEnd};

use crate::stderr::messages::{Message, Weight};
use crate::units::{clean, count, counted, size, typed};

/// Limit on the traces that are named in one line.
const NAMES_SHOWN: usize = 3;

/// Message on traces that have slow calls only.
const SLOW_CALLS: &str = "only slow system calls were recorded (--slower, or -k always): counts and sums are those of these; \
                          slower_than in `strata view` says from which time on";

/// Message on traces that have slow spans only.
const SLOW_SPANS: &str = "only spans of some duration were recorded (--slower, or a filter): counts and sums are those of these";

/// Returns all messages on what is missing in the traces. Complete traces, and those of other tracers, need none.
pub fn messages(reader: &Reader) -> Vec<Message> {
    let slow =
        [(has_slow_calls_only(reader), SLOW_CALLS), (has_slow_spans_only(reader), SLOW_SPANS)];
    let slow = slow.into_iter().filter(|(is_so, _)| *is_so);
    let slow = slow.map(|(_, text)| Message { weight: Weight::Warning, text: text.to_owned() });
    let sampled = sampled_kinds(reader).map(|sampled| of_samples(&sampled));
    of(reader.ends()).into_iter().chain(slow).chain(sampled).collect()
}

/// Limit on the text that says which events are sampled \[character\].
const SAMPLED_CHARS: usize = 200;

/// Returns the message on samples: what was left out on request is not discarded, but missing in counts and sums.
fn of_samples(sampled: &SampledKinds) -> Message {
    let left_out = match sampled.left_out {
        Some(number) => format!("{} left out", counted(number, "event")),
        None => {
            "how many events were left out is not known, since the recording did not end".to_owned()
        }
    };
    let all = clean(&sampled.events.join("; "));
    let mut events: String = all.chars().take(SAMPLED_CHARS).collect();
    if events.len() < all.len() {
        events.push('…');
    }
    let text = format!(
        "of some events only a sample was recorded (--every, --at-most), {left_out}: {events}. Counts and sums are those of the \
         records that are there"
    );
    Message { weight: Weight::Warning, text }
}

fn of(ends: &[FolderEnd]) -> Vec<Message> {
    let mut groups: Vec<(EndingKind, Vec<&FolderEnd>)> = Vec::new();
    for end in ends {
        let in_no_trace = end.trace.is_none() && end.losses().total() > 0;
        let kinds = kinds(end).filter(|kind| end.trace.is_some() || is_news(end, kind, ends));
        for kind in kinds.chain(in_no_trace.then_some(EndingKind::InNoTrace)) {
            match groups.iter_mut().find(|(other, _)| *other == kind) {
                Some((_, group)) => group.push(end),
                None => groups.push((kind, vec![end])),
            }
        }
    }
    groups.iter().map(|(kind, group)| kind.message(group)).collect()
}

/// The problem of a recording, according to its end mark.
#[derive(Clone, Debug, PartialEq, Eq)]
enum EndingKind {
    Running,
    Killed {
        is_sure: bool,
    },
    Absent,
    Unusable(String),
    Failed(Ending),
    Untold,
    /// The end mark of the whole recording counts losses that belong to no trace.
    InNoTrace,
    Missing,
}

fn kinds(end: &FolderEnd) -> impl Iterator<Item = EndingKind> {
    let how = match &end.end {
        RecordingEnd::Running => Some(EndingKind::Running),
        RecordingEnd::Killed { is_sure, .. } => Some(EndingKind::Killed { is_sure: *is_sure }),
        RecordingEnd::Absent => Some(EndingKind::Absent),
        RecordingEnd::Unusable { error } => Some(EndingKind::Unusable(error.to_string())),
        RecordingEnd::Marked(EndMark { ending, .. }) if ending.is_failure() => {
            Some(EndingKind::Failed(*ending))
        }
        RecordingEnd::Marked(_) if end.losses().total() > 0 => Some(EndingKind::Untold),
        RecordingEnd::Marked(_) => None,
    };
    how.into_iter().chain(end.missing.map(|_| EndingKind::Missing))
}

/// Returns whether the problem of a whole recording is reported by none of its traces. Usually one of them has the
/// same problem.
fn is_news(recording: &FolderEnd, kind: &EndingKind, ends: &[FolderEnd]) -> bool {
    let mut of_traces = ends
        .iter()
        .filter(|end| end.trace.is_some() && end.path.starts_with(&recording.path))
        .flat_map(kinds);
    *kind != EndingKind::Untold
        && !of_traces.any(|other| other == *kind || other == EndingKind::Running)
}

impl EndingKind {
    fn message(&self, group: &[&FolderEnd]) -> Message {
        let (who, is_one) = (names(group), group.len() == 1);
        let (was, its) = if is_one { ("was", "its") } else { ("were", "their") };
        let weight = if *self == EndingKind::Running { Weight::Talk } else { Weight::Warning };
        let text = match self {
            EndingKind::Running if is_one => {
                format!("{who} is still being recorded: this is what there was a moment ago")
            }
            EndingKind::Running => {
                format!("{who} are still being recorded: this is what there was a moment ago")
            }
            EndingKind::Killed { is_sure } => {
                let or = if *is_sure { "" } else { ", or it runs still on another machine" };
                format!(
                    "{who} {was} not recorded to the end: the recorder was killed, or the machine's \
                     power failed{or}. What is there is complete to the last whole packet; how much came \
                     behind it is not known"
                )
            }
            EndingKind::Absent => format!(
                "{who} should have the file .strata-end, and it is not there: removed, or left out by a \
                 copy. Whether the recording came to {its} end is not known"
            ),
            EndingKind::Unusable(error) => format!(
                "{who}: the file .strata-end cannot be read: {}. Whether the recording came to {its} end \
                 is not known",
                clean(error)
            ),
            EndingKind::Failed(ending) => {
                let why = match ending {
                    Ending::NoSpace => "the disk was full",
                    _ => "the recorder could not go on",
                };
                format!("{who} {was} not recorded to the end: {why}. {}", rest(group))
            }
            EndingKind::Untold => format!("{who}: {}", rest(group)),
            EndingKind::InNoTrace => format!("{who}: in none of its traces are {}", parts_of(group).join(", ")),
            EndingKind::Missing => format!("{who}: {}", missing(group)),
        };
        Message { weight, text }
    }
}

/// Formats the names of traces: `trace 'a/kernel'`, `traces 'a', 'b', 'c' and 4 more`.
fn names(group: &[&FolderEnd]) -> String {
    let name = |end: &&FolderEnd| typed(&end.path);
    let what = match group {
        [one] if one.trace.is_none() => "recording",
        [_] => "trace",
        _ => "traces",
    };
    let mut text: Vec<String> = group.iter().take(NAMES_SHOWN).map(name).collect();
    if group.len() > NAMES_SHOWN {
        text.push(format!("{} more", count((group.len() - NAMES_SHOWN) as u64)));
    }
    let last = text.pop().unwrap_or_default();
    match text.is_empty() {
        true => format!("{what} {last}"),
        false => format!("{what} {} and {last}", text.join(", ")),
    }
}

/// Lists the numbers of missing records by reason.
fn parts_of(group: &[&FolderEnd]) -> Vec<String> {
    let sum =
        |of: fn(&FolderEnd) -> u64| group.iter().fold(0u64, |sum, end| sum.saturating_add(of(end)));
    let parts = [
        (sum(|end| end.losses().unwritten.saturating_sub(end.quota())), "not written"),
        (
            sum(FolderEnd::quota),
            "discarded by the relay, where the host had as many bytes as it may have (quota)",
        ),
        (sum(|end| end.losses().discarded), "discarded, and no packet says when"),
        (sum(|end| end.losses().unread), "behind one that was never finished, and not readable"),
    ];
    let parts = parts.iter().filter(|(number, _)| *number > 0);
    parts.map(|(number, why)| format!("{} {why}", counted(*number, "event record"))).collect()
}

fn rest(group: &[&FolderEnd]) -> String {
    let parts = parts_of(group);
    match parts.is_empty() {
        true => "What is there is complete; what came later is not known".to_owned(),
        false => format!("Not in the trace: {}", parts.join(", ")),
    }
}

/// Formats which files, or ends of files, are missing.
fn missing(group: &[&FolderEnd]) -> String {
    let all = group.iter().filter_map(|end| end.missing);
    let (mut files, mut bytes) = ((0u64, 0u64), (0u64, 0u64));
    for one in all {
        files = (files.0.saturating_add(one.files_found), files.1.saturating_add(one.files));
        bytes = (bytes.0.saturating_add(one.bytes_found), bytes.1.saturating_add(one.bytes));
    }
    format!(
        "{} of {} with {} of {} are there: the copy is not whole, or the machine's power failed before all was \
         on the disk",
        count(files.0),
        counted(files.1, "stream file"),
        size(bytes.0),
        size(bytes.1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use strata_ctf::end_mark::Losses;
    use strata_ctf::read::Missing;

    fn end(path: &str, trace: Option<usize>, end: RecordingEnd) -> FolderEnd {
        FolderEnd { path: Path::new(path).into(), trace, end, missing: None }
    }

    fn marked(ending: Ending, unwritten: u64) -> RecordingEnd {
        let losses = Losses { unwritten, ..Losses::default() };
        RecordingEnd::Marked(EndMark { ending, losses, ..EndMark::RECORDING })
    }

    fn said(ends: &[FolderEnd]) -> Vec<String> {
        of(ends).into_iter().map(|message| message.text).collect()
    }

    #[test]
    fn ends_that_are_as_they_should_be_are_not_spoken_of() {
        for ending in [Ending::Ended, Ending::Stopped, Ending::Duration, Ending::Size] {
            let ends = [end("t", None, marked(ending, 0)), end("t/k", Some(0), marked(ending, 0))];
            assert_eq!(said(&ends), [""; 0]);
        }
    }

    #[test]
    fn full_disk_is_one_line_for_all_traces_with_what_is_unreported() {
        let ends = [
            end("t", None, marked(Ending::NoSpace, 0)),
            end("t/kernel", Some(0), marked(Ending::NoSpace, 43_839)),
            end("t/user/pool-7", Some(1), marked(Ending::NoSpace, 10_199)),
        ];
        let [text] = &said(&ends)[..] else { panic!("{:?}", said(&ends)) };
        assert_eq!(
            text,
            "traces t/kernel and t/user/pool-7 were not recorded to the end: the disk was full. Not in the trace: \
             54,038 event records not written"
        );
        // What is in no trace is the recording's to say.
        let ends = [end("t", None, marked(Ending::NoSpace, 9)), ends[1].clone()];
        let text = "recording t: in none of its traces are 9 event records not written";
        assert_eq!(said(&ends)[0], text);
        assert!(said(&ends)[1].contains("43,839"));
    }

    #[test]
    fn killed_recorder_is_reported_once_and_of_the_recording_only_if_no_trace_says_it() {
        let killed =
            |path, trace| end(path, trace, RecordingEnd::Killed { is_sure: true, quota: 0 });
        let ends = [killed("t", None), killed("t/kernel", Some(0))];
        let [text] = &said(&ends)[..] else { panic!("{:?}", said(&ends)) };
        assert!(
            text.starts_with("trace t/kernel was not recorded to the end: the recorder was killed")
        );
        let ends = [killed("t", None), end("t/kernel", Some(0), marked(Ending::Ended, 0))];
        let [text] = &said(&ends)[..] else { panic!("{:?}", said(&ends)) };
        assert!(text.starts_with("recording t was not"), "{text}");
        // What the relay has discarded is known nevertheless.
        let full = end("t", None, RecordingEnd::Killed { is_sure: true, quota: 1234 });
        let text = said(&[full, killed("t/kernel", Some(0))]).concat();
        assert!(
            text.contains("in none of its traces are 1,234 event records discarded by the relay"),
            "{text}"
        );
        let many: Vec<_> = (0..2000).map(|at| killed("t/user/x", Some(at))).collect();
        let [text] = &said(&many)[..] else { panic!("{:?}", said(&many).len()) };
        assert!(
            text.starts_with("traces t/user/x, t/user/x, t/user/x and 1,997 more were"),
            "{text}"
        );
    }

    #[test]
    fn trace_that_is_being_recorded_is_no_warning() {
        let ends =
            [end("t", None, RecordingEnd::Running), end("t/k", Some(0), RecordingEnd::Running)];
        let [message] = &of(&ends)[..] else { panic!() };
        assert_eq!(message.weight, Weight::Talk);
        assert!(message.text.contains("still being recorded"));
    }

    #[test]
    fn files_that_are_not_there_and_marks_that_are_none_are_reported() {
        let missing = Missing { files: 2, files_found: 1, bytes: 8192, bytes_found: 4096 };
        let whole = end("t", Some(0), marked(Ending::Ended, 0));
        let text = said(&[FolderEnd { missing: Some(missing), ..whole }]).concat();
        assert!(
            text.starts_with("trace t: 1 of 2 stream files with 4.0 KiB of 8.0 KiB are"),
            "{text}"
        );
        let text =
            said(&[end("t", Some(0), RecordingEnd::Unusable { error: "a\x1bb".into() })]).concat();
        assert!(text.contains("cannot be read") && !text.contains('\x1b'), "{text}");
        assert!(said(&[end("t", Some(0), RecordingEnd::Absent)]).concat().contains("is not there"));
    }
}
