//! The status of one rule of a channel.

use crate::plan::EventRule;
use crate::report::{FilterReport, RuleReport};
use crate::session::layer::LayerStatus;
use crate::session::status::EventStatus;

/// Returns the status of a rule, from that of its channel's layer.
pub(super) fn event_status(event: &EventRule, status: Option<&LayerStatus>) -> EventStatus {
    let report = report_of(status, &event.rule);
    let is_of = |one: &&FilterReport| event.enabled && one.rules.contains(&event.rule);
    let filter = status.and_then(|status| status.filters.iter().find(is_of)).map(FilterReport::cut);
    EventStatus {
        rule: event.rule.clone(),
        filter: event.filter.clone(),
        exclude: event.exclude.clone(),
        probe: event.probe,
        slower_ns: event.slower_ns,
        every: event.every,
        at_most: event.at_most,
        enabled: event.enabled,
        matched: report.map(|one| one.matched),
        similar: report.map(|one| one.similar.clone()).unwrap_or_default(),
        is_never: filter.as_ref().is_some_and(|one| one.is_never),
        slips: filter.map(|one| one.slips).unwrap_or_default(),
    }
}

/// Returns the report on a rule, if the layer has one.
fn report_of<'l>(status: Option<&'l LayerStatus>, rule: &str) -> Option<&'l RuleReport> {
    status?.rules.iter().find(|one| one.rule == rule)
}
