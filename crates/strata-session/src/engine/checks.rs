//! Checks of a change to a session's plan, before any layer applies the change.

use strata_filter::Filter;
use strata_kernel::event_rules::EventSelection;

use crate::error::SessionError;
use crate::kernel;
use crate::plan::{LayerOf, Plan, PlanError};

/// Checks that rules for the kernel select events that can pass the filter.
///
/// # Errors
/// A rule selects no event of this kernel, or none of its events passes the filter. If the kernel's events cannot be
/// read, this is reported at the start instead.
pub(super) fn check_kernel_rules(
    rules: &[String],
    filter: Option<&str>,
) -> Result<(), SessionError> {
    let selecting: Vec<&String> = rules.iter().filter(|rule| !rule.starts_with('!')).collect();
    let Ok(catalog) = kernel::catalog() else { return Ok(()) };
    if selecting.is_empty() {
        return Ok(());
    }
    let found = EventSelection::parse(&selecting)?.apply(&catalog);
    let reports = kernel::rule_reports(found.matched, &catalog);
    let without: Vec<_> = reports.into_iter().filter(|one| one.matched == 0).collect();
    if !without.is_empty() {
        return Err(SessionError::NothingSelected(without));
    }
    match filter {
        Some(filter) => {
            let filter = Filter::parse(filter).map_err(PlanError::from)?;
            kernel::check_new(&selecting, &filter, &catalog)
        }
        None => Ok(()),
    }
}

/// Checks that new probes can be created.
///
/// # Errors
/// One of these probes, which the plan already contains, cannot be created next to the others of its channel.
pub(super) fn check_probes(plan: &Plan, new: &[String]) -> Result<(), SessionError> {
    for channel in plan.channels.iter().filter(|channel| channel.layer == LayerOf::Kernel) {
        let mut probes = plan.wanted(channel)?.rules;
        probes.retain(|rule| rule.probe);
        if probes.iter().any(|rule| new.contains(&rule.text)) {
            kernel::check_new_probes(&probes, new, plan.transient.known_probes())?;
        }
    }
    Ok(())
}
