//! What a trace says about events of which only a sample is recorded, and what users are told.

use std::collections::HashMap;
use std::fmt::Write as _;

use strata_ctf::environment::{LEFT_OUT, SAMPLED};
use strata_kernel::{SampledEvent, Sampling};
use strata_model::{limits, EnvValue};

/// Space in the trace's environment entry for the number of events that the entry does not name \[byte\].
const REST_BYTES: usize = 32;

/// For each event, by name, the number of records that sampling had left out when a trace began.
pub(crate) type LeftOutBefore = HashMap<String, u64>;

/// Returns, for each event, the number of records that sampling has left out so far.
pub(crate) fn before(all: &[SampledEvent]) -> LeftOutBefore {
    all.iter().map(|one| (one.event.clone(), one.left_out)).collect()
}

/// Returns the environment entries about sampled events, one for each way of sampling. `before`: the numbers of
/// records left out before the trace began; `None` while the trace is incomplete, so that its numbers are unknown.
pub(crate) fn environment(
    all: &[SampledEvent],
    before: Option<&LeftOutBefore>,
) -> Vec<(String, EnvValue)> {
    let counted: Vec<(&SampledEvent, Option<u64>)> = all
        .iter()
        .map(|one| (one, before.map(|before| since(one, before))))
        // One that is no longer sampled is of no trace that has begun since.
        .filter(|(one, count)| !one.sampling.is_all() || count.is_some_and(|count| count > 0))
        .collect();
    if counted.is_empty() {
        return Vec::new();
    }
    let mut text = String::new();
    for (index, (one, count)) in counted.iter().enumerate() {
        let mut part = one.event.clone();
        // Writing to a string cannot fail.
        if one.sampling.every > 1 {
            let _ = write!(part, " every={}", one.sampling.every);
        }
        if one.sampling.at_most > 0 {
            let _ = write!(part, " at_most={}", one.sampling.at_most);
        }
        if let Some(count) = count {
            let _ = write!(part, " left_out={count}");
        }
        let separator = if index == 0 { "" } else { "; " };
        if text.len() + separator.len() + part.len() + REST_BYTES > limits::TEXT_BYTES {
            let _ = write!(text, "; {} more", counted.len() - index);
            break;
        }
        let _ = write!(text, "{separator}{part}");
    }
    let mut entries = vec![(SAMPLED.to_owned(), text.into())];
    if before.is_some() {
        let counts = counted.iter().map(|(_, count)| count.unwrap_or(0));
        let sum = counts.fold(0, u64::saturating_add);
        entries.push((LEFT_OUT.to_owned(), i64::try_from(sum).unwrap_or(i64::MAX).into()));
    }
    entries
}

fn since(one: &SampledEvent, before: &LeftOutBefore) -> u64 {
    one.left_out.saturating_sub(before.get(&one.event).copied().unwrap_or(0))
}

/// Number of events that a remark names. Others are only counted.
const NAMES_SHOWN: usize = 8;

/// Returns remarks on the records that sampling has left out, one for each way of sampling.
pub(crate) fn remarks(all: &[SampledEvent]) -> Vec<String> {
    let mut ways: Vec<(Sampling, Vec<&SampledEvent>)> = Vec::new();
    for one in all.iter().filter(|one| !one.sampling.is_all() || one.left_out > 0) {
        match ways.iter_mut().find(|(sampling, _)| *sampling == one.sampling) {
            Some((_, events)) => events.push(one),
            None => ways.push((one.sampling, vec![one])),
        }
    }
    ways.iter().map(|(sampling, events)| remark(*sampling, events)).collect()
}

fn remark(sampling: Sampling, events: &[&SampledEvent]) -> String {
    let mut most: Vec<&&SampledEvent> = events.iter().filter(|one| one.left_out > 0).collect();
    if most.is_empty() {
        return format!("nothing was left out by {} so far", flags(sampling));
    }
    most.sort_by(|one, other| other.left_out.cmp(&one.left_out).then(one.event.cmp(&other.event)));
    let names = most.iter().take(NAMES_SHOWN);
    let mut names: Vec<String> =
        names.map(|one| format!("{} {}", one.left_out, one.event)).collect();
    if most.len() > NAMES_SHOWN {
        let rest = most.iter().skip(NAMES_SHOWN).map(|one| one.left_out);
        let rest = rest.fold(0, u64::saturating_add);
        names.push(format!("{rest} of {} others", most.len() - NAMES_SHOWN));
    }
    format!("left out, as asked for by {}: {}", flags(sampling), names.join(", "))
}

/// Returns the flags by which a user requests this sampling.
fn flags(sampling: Sampling) -> String {
    let every = (sampling.every > 1).then(|| format!("--every {}", sampling.every));
    let at_most = (sampling.at_most > 0).then(|| format!("--at-most {}/s", sampling.at_most));
    let flags: Vec<String> = every.into_iter().chain(at_most).collect();
    match flags.is_empty() {
        true => "an earlier rule".to_owned(),
        false => flags.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(event: &str, every: u32, at_most: u32, left_out: u64) -> SampledEvent {
        SampledEvent { event: event.to_owned(), sampling: Sampling { every, at_most }, left_out }
    }

    fn text(entries: &[(String, EnvValue)]) -> &str {
        match &entries[0] {
            (name, EnvValue::Text(text)) if name == SAMPLED => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn environment_of_a_complete_trace_counts_what_was_left_out_since_its_begin() {
        let all = [sampled("read", 10, 0, 95), sampled("sched_switch", 1, 100, 7)];
        let begun = environment(&all, None);
        assert_eq!((text(&begun), begun.len()), ("read every=10; sched_switch at_most=100", 1));
        let before = before(&[sampled("read", 10, 0, 5)]);
        let complete = environment(&all, Some(&before));
        let wanted = "read every=10 left_out=90; sched_switch at_most=100 left_out=7";
        assert_eq!(text(&complete), wanted);
        assert_eq!(complete[1], (LEFT_OUT.to_owned(), 97.into()));
    }

    #[test]
    fn environment_without_samples_has_no_entry_and_a_long_one_ends_within_the_limit() {
        assert!(environment(&[], Some(&LeftOutBefore::new())).is_empty());
        // A rule of before, of which nothing was left out in this trace.
        let gone = [sampled("read", 1, 0, 5)];
        assert!(environment(&gone, None).is_empty());
        assert!(environment(&gone, Some(&before(&gone))).is_empty());
        assert_eq!(text(&environment(&gone, Some(&LeftOutBefore::new()))), "read left_out=5");
        let many: Vec<_> =
            (0..1000).map(|at| sampled(&format!("event_{at}"), 10, 0, u64::MAX)).collect();
        let entries = environment(&many, Some(&LeftOutBefore::new()));
        assert!(text(&entries).len() <= limits::TEXT_BYTES && text(&entries).ends_with(" more"));
        assert_eq!(entries[1].1, i64::MAX.into());
    }

    #[test]
    fn remarks_name_the_most_of_each_way_of_sampling() {
        let mut all = vec![sampled("sched_switch", 2, 9, 3)];
        all.push(sampled("compat_read", 2, 9, 0));
        all.extend((0..11).map(|at| sampled(&format!("e{at}"), 10, 0, at)));
        all.push(sampled("read", 1, 0, 4));
        let remarks = remarks(&all);
        assert_eq!(remarks.len(), 3);
        assert_eq!(remarks[0], "left out, as asked for by --every 2 --at-most 9/s: 3 sched_switch");
        assert_eq!(
            remarks[1],
            "left out, as asked for by --every 10: 10 e10, 9 e9, 8 e8, 7 e7, 6 e6, 5 e5, 4 e4, 3 e3, 3 of 2 others"
        );
        assert_eq!(remarks[2], "left out, as asked for by an earlier rule: 4 read");
    }
}
