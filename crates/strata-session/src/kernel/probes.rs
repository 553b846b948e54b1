//! Probes of programs among the rules of a persistent session: the events that they stand for, with their filters.

use std::collections::HashMap;

use strata_kernel::uprobe::{KnownProbes, ProbeError, Probes};
use strata_kernel::{CallStacks, Contexts, KernelEvent, Sampling, SelectedEvent};

use super::record_options::EndRecords;
use crate::error::SessionError;
use crate::report::KernelRuleReport;
use crate::session::layer::LayerRule;

/// Resolves the probes of a request, for these running processes if there are any. `texts`: the probes in the form of
/// a plan. `typed`: the same as the user wrote them. Returns the probes, and remarks on parts of them that are not
/// recorded.
///
/// # Errors
/// One of the texts is no probe, or its file has no such place.
pub fn resolve(
    texts: &[String],
    typed: &[String],
    pids: &[u32],
) -> Result<(KnownProbes, Vec<String>), SessionError> {
    let mut known = KnownProbes::of_processes(pids);
    let mut remarks = Vec::new();
    for (text, typed_text) in texts.iter().zip(typed) {
        let probes = known.ask_as(text, typed_text).map_err(|error| {
            let rule = error.spec().to_owned();
            let cause = Box::new(SessionError::Probe(Box::new(error)));
            // A column says where the mistake is only if there is one probe.
            match typed {
                [_] => *cause,
                _ => SessionError::OfRule { rule, cause },
            }
        })?;
        add_remarks(&mut remarks, &probes);
    }
    Ok((known, remarks))
}

fn add_remarks(remarks: &mut Vec<String>, probes: &Probes) {
    for remark in &probes.remarks {
        if !remarks.contains(remark) {
            remarks.push(remark.clone());
        }
    }
}

/// The events of rules that are probes, with reports on the rules.
#[derive(Default)]
pub(super) struct Probed {
    pub(super) events: Vec<SelectedEvent>,
    pub(super) reports: Vec<KernelRuleReport>,
    /// Remarks on parts of the probes that are not recorded, without repetition.
    pub(super) remarks: Vec<String>,
    /// Rules whose probes cannot be created, with the reason.
    pub(super) failed: Vec<(String, ProbeError)>,
}

/// An event of a probe that at least one rule requests.
struct AskedProbe {
    event: KernelEvent,
    records: EndRecords,
    stack: CallStacks,
    sampling: Sampling,
}

/// Returns the events of the probes that these rules request, each once. Afterwards `known` has
/// these probes and no others.
///
/// # Errors
/// The filters are too large when combined.
pub(super) fn probed(
    rules: &[LayerRule],
    known: &mut KnownProbes,
    contexts: &Contexts,
) -> Result<Probed, SessionError> {
    let texts: Vec<&str> = rules.iter().map(|rule| rule.text.as_str()).collect();
    known.keep(&texts);
    let mut all: Vec<AskedProbe> = Vec::new();
    // Positions in `all`, by the events' names.
    let mut places: HashMap<String, Vec<usize>> = HashMap::new();
    let mut probed = Probed::default();
    for rule in rules {
        let probes = match known.ask(&rule.text) {
            Ok(probes) => probes,
            Err(error) => {
                probed.failed.push((rule.text.clone(), error));
                continue;
            }
        };
        add_remarks(&mut probed.remarks, &probes);
        for event in &probes.events {
            let of_name = places.entry(event.name.clone()).or_default();
            let found = of_name.iter().copied().find(|place| all[*place].event == *event);
            let place = found.unwrap_or_else(|| {
                of_name.push(all.len());
                all.push(AskedProbe {
                    event: event.clone(),
                    records: EndRecords::default(),
                    stack: CallStacks::None,
                    sampling: rule.sampling,
                });
                all.len() - 1
            });
            all[place].records.add(rule.filter.as_ref());
            all[place].stack = all[place].stack.max(rule.stack);
            all[place].sampling = all[place].sampling.of_either(rule.sampling);
        }
        probed.reports.push(KernelRuleReport {
            rule: rule.text.clone(),
            matched: probes.events.len() as u64,
            ..KernelRuleReport::default()
        });
    }
    for AskedProbe { event, records, stack, sampling } in all {
        probed.events.push(SelectedEvent {
            filter: records.filter()?,
            sampling,
            contexts: stack.added_to(contexts),
            ..SelectedEvent::all_records(event)
        });
    }
    Ok(probed)
}

/// Returns the events of the probe `text`, without its filter.
pub(super) fn of(known: &KnownProbes, text: &str) -> Vec<SelectedEvent> {
    let probes = known.get(text);
    let events = probes.iter().flat_map(|probes| &probes.events);
    events.map(|event| SelectedEvent::all_records(event.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_filter::Filter;

    fn rule(text: &str, filter: Option<&str>) -> LayerRule {
        let filter = filter.map(|text| Filter::parse(text).unwrap());
        LayerRule { text: text.to_owned(), filter, probe: true, ..LayerRule::default() }
    }

    #[test]
    fn event_of_several_probes_is_recorded_once_if_one_of_them_selects_it() {
        let (one, pattern) = ("uprobe:c:malloc(size:u64)", "uprobe:c:mallo?(size:u64)");
        let many = "uprobe:c:mal*oc(size:u64)";
        let rules = [
            rule(one, Some("size > 4")),
            LayerRule { stack: CallStacks::FramePointers, ..rule(one, Some("size < 2")) },
            rule(many, Some("size == 3")),
            rule(pattern, None),
        ];
        let mut known = KnownProbes::default();
        let found = probed(&rules, &mut known, &Contexts::default()).unwrap();
        let is_it = |event: &&SelectedEvent| event.event.name == "uprobe_malloc";
        assert_eq!(found.events.iter().filter(is_it).count(), 1);
        let event = found.events.iter().find(is_it).unwrap();
        let filter = event.filter.as_ref().unwrap();
        assert_eq!(filter.text(), "(size > 4) || (size < 2) || (size == 3)");
        assert!(event.contexts.has_stack());
        let matched: Vec<_> = found.reports.iter().map(|one| (&*one.rule, one.matched)).collect();
        assert_eq!(matched, [(one, 1), (one, 1), (many, found.events.len() as u64)]);
        // '?' is a letter of a function's name, and no function has it.
        let [(text, error)] = &found.failed[..] else { panic!("{:?}", found.failed) };
        assert_eq!(text, pattern);
        assert!(error.to_string().contains("has no function"), "{error}");
        // One that asks nothing is enough.
        let rules = [rule(one, Some("size > 4")), rule(many, None)];
        let found = probed(&rules, &mut known, &Contexts::default()).unwrap();
        let event = found.events.iter().find(is_it).unwrap();
        assert!(event.filter.is_none() && !event.contexts.has_stack());
        assert_eq!(of(&known, one).len(), 1);
        assert!(of(&known, pattern).is_empty());
    }

    #[test]
    fn what_is_left_out_of_a_pattern_is_reported_once_for_all_rules() {
        let rules = [rule("uprobe:c:mem*", None)];
        let mut known = KnownProbes::default();
        let first = probed(&rules, &mut known, &Contexts::default()).unwrap();
        assert_eq!((first.remarks.len(), first.reports[0].matched > 1), (1, true));
        assert_eq!(first.reports[0].matched, first.events.len() as u64);
        let again = probed(&rules, &mut known, &Contexts::default()).unwrap();
        assert!(again.remarks == first.remarks && again.events.len() == first.events.len());
    }
}
