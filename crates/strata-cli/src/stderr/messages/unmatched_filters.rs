//! Messages on filters that no event passes, and on triggers that could not fire.

use strata_session::report::{FilterReport, FilterSlip, Report, TriggerReport};

use super::kernel::similar_names;
use super::message::{sentence, talk, warning, Message};
use crate::units::clean;

/// Limit on the rules that one sentence names.
const RULES_SHOWN: usize = 5;

/// Returns messages on filters with parts that no event passes.
pub(super) fn filters(report: &Report) -> Vec<Message> {
    let of_filter = |one: &FilterReport| {
        let weighed = |text| match one.is_never {
            true => warning(text),
            false => talk(text),
        };
        // The single filter of a recording.
        if one.rules.is_empty() && !one.slips.is_empty() {
            let text = |slip: &FilterSlip| {
                format!("applications: filter, column {}: {}", slip.column, clean(&slip.text))
            };
            return one.slips.iter().map(|slip| weighed(text(slip))).collect();
        }
        let mut rules: Vec<String> =
            one.rules.iter().take(RULES_SHOWN).map(|rule| format!("'{}'", clean(rule))).collect();
        rules.extend((one.rules.len() > RULES_SHOWN).then(|| "others".to_owned()));
        let of = match rules.len() {
            0 => String::new(),
            1 => format!(" of event rule {}", rules[0]),
            _ => format!(" of event rules {}", rules.join(", ")),
        };
        vec![weighed(sentence(&never(one, &format!("the filter '{}'{of}", one.filter))))]
    };
    report.filters.iter().flat_map(of_filter).collect()
}

/// Returns the message that no event passes the filter, and why.
fn never(one: &FilterReport, what: &str) -> String {
    let part = if one.is_never { "" } else { "a part of " };
    let slips = one.slips.iter().map(|slip| format!(": column {}: {}", slip.column, slip.text));
    format!("no event passes {part}{what}{}", slips.collect::<String>())
}

/// Returns messages on triggers that could not fire.
pub(super) fn triggers(report: &Report) -> Vec<Message> {
    report.triggers.iter().map(trigger).collect()
}

fn trigger(one: &TriggerReport) -> Message {
    let why = match (&one.filter, &one.lacks, &one.rule) {
        (Some(filter), ..) => sentence(&never(filter, &format!("its filter '{}'", filter.filter))),
        (None, Some(lacks), _) => sentence(lacks),
        (None, None, rule) => {
            let rule = clean(rule.as_deref().unwrap_or_default());
            let near = match one.similar.as_slice() {
                [] => String::new(),
                similar => format!(" {}", similar_names(similar)),
            };
            format!("its rule '{rule}' matched no tracepoint.{near}")
        }
    };
    warning(format!("trigger '{}' could not fire: {why}", clean(&one.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(rules: &[&str], is_never: bool) -> FilterReport {
        let slip = |(column, text): &(usize, &str)| FilterSlip {
            column: *column,
            text: (*text).to_owned(),
        };
        FilterReport {
            rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
            filter: "numbr > 3 || \u{1b}".into(),
            slips: [(1, "no field 'numbr'"), (14, "none")].iter().map(slip).collect(),
            is_never,
        }
    }

    fn said(messages: Vec<Message>) -> Vec<String> {
        messages.into_iter().map(|one| format!("{:?} {}", one.weight, one.text)).collect()
    }

    #[test]
    fn filters_that_nothing_passes_are_reported_with_their_rules_and_places() {
        let filters =
            |all: Vec<FilterReport>| said(filters(&Report { filters: all, ..Report::default() }));
        assert_eq!(
            filters(vec![filter(&["a:*"], true), filter(&["b", "c"], false)]),
            [
                "Warning no event passes the filter 'numbr > 3 || \\u{1b}' of event rule 'a:*': column 1: no field \
                 'numbr': column 14: none.",
                "Talk no event passes a part of the filter 'numbr > 3 || \\u{1b}' of event rules 'b', 'c': column 1: no \
                 field 'numbr': column 14: none.",
            ]
        );
        assert_eq!(
            filters(vec![filter(&[], true)]),
            [
                "Warning applications: filter, column 1: no field 'numbr'",
                "Warning applications: filter, column 14: none",
            ]
        );
        let mut bare = filter(&[], true);
        bare.slips.clear();
        assert_eq!(
            filters(vec![bare]),
            ["Warning no event passes the filter 'numbr > 3 || \\u{1b}'."]
        );
    }

    #[test]
    fn triggers_that_could_not_fire_are_reported_with_why() {
        let trigger = TriggerReport {
            name: "t".into(),
            rule: Some("tickr:tick".into()),
            similar: vec!["ticker:tick".into()],
            ..TriggerReport::default()
        };
        let by_filter = TriggerReport { filter: Some(filter(&[], true)), ..trigger.clone() };
        let lacking = TriggerReport {
            lacks: Some("no program".into()),
            rule: None,
            ..TriggerReport::default()
        };
        let report = Report { triggers: vec![trigger, by_filter, lacking], ..Report::default() };
        assert_eq!(
            said(triggers(&report)),
            [
                "Warning trigger 't' could not fire: its rule 'tickr:tick' matched no tracepoint. Similar: 'ticker:tick'.",
                "Warning trigger 't' could not fire: no event passes its filter 'numbr > 3 || \\u{1b}': column 1: no field \
                 'numbr': column 14: none.",
                "Warning trigger '' could not fire: no program.",
            ]
        );
    }
}
