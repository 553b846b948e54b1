//! Converts a channel of a plan for its layer: to options when the layer is created, and later to requests for changes.

use strata_filter::Filter;
use strata_kernel::{CallStacks, Contexts};
use strata_user::{EventContexts, Rules};

use super::{Channel, EventRule, LayerOf, Plan, PlanError};
use crate::applications::combined_rules::{asked, lowered};
use crate::applications::filter_check;
use crate::options::{KernelOptions, Options};
use crate::session::layer::{LayerRule, Wanted};

impl Plan {
    /// Returns what the channel's layer is to record.
    ///
    /// # Errors
    /// A filter is invalid.
    pub(crate) fn wanted(&self, channel: &Channel) -> Result<Wanted, PlanError> {
        Ok(Wanted {
            rules: self.rules(channel)?,
            contexts: self.contexts(channel),
            tracked: self.tracked.clone(),
        })
    }

    /// Returns the enabled rules of a channel, without repetition. The list is empty if all of them only exclude
    /// events.
    fn rules(&self, channel: &Channel) -> Result<Vec<LayerRule>, PlanError> {
        let mut rules = rules(channel)?;
        if channel.layer == LayerOf::Kernel {
            // Stacks of all records are contexts of the channel, but for the copies, which an event has for itself.
            let of_all = Some(self.stack).filter(|stack| *stack > CallStacks::FramePointers);
            rules
                .iter_mut()
                .for_each(|rule| rule.stack = rule.stack.max(of_all.unwrap_or_default()));
        }
        Ok(rules)
    }

    /// Returns the contexts that are added to each record of a channel.
    pub(crate) fn contexts(&self, channel: &Channel) -> Vec<String> {
        let stacks: &[&str] = match (self.stack.is_any(), channel.layer) {
            (false, _) => &[],
            (true, LayerOf::User) => &["callstack_user"],
            (true, LayerOf::Kernel) => &["pid", "callstack_kernel", "callstack_user"],
        };
        let more = stacks.iter().filter(|name| channel.contexts.iter().all(|one| one != *name));
        channel.contexts.iter().cloned().chain(more.map(|name| (*name).to_owned())).collect()
    }

    /// Returns the options of a channel for a layer that does not exist yet, with the channel's sizes.
    ///
    /// # Errors
    /// A rule or filter is invalid.
    pub(crate) fn options_of(&self, channel: &Channel) -> Result<Options, PlanError> {
        let sized = self.fixed(channel);
        let rules = self.rules(channel)?;
        if rules.is_empty() {
            return Ok(sized);
        }
        let no_context = |error: &dyn std::fmt::Display| PlanError::NoContext(error.to_string());
        Ok(match channel.layer {
            LayerOf::User => {
                let wanted = self.wanted(channel)?;
                let (rules, filter) = lowered(&wanted)?;
                // A filter and a bound that all rules share are checked and reported by themselves.
                let common = wanted.common_filter();
                let (filter, spans_slower) = common.unwrap_or((filter, 0));
                // A filter that no event of applications passes may be meant for the kernel's. That this one cannot be
                // recorded by default is said at the end, and keeps no command from running.
                let is_of_kernel =
                    self.records(LayerOf::Kernel) || self.transient.no_kernel.is_some();
                let kernel = is_of_kernel.then(KernelOptions::default);
                let options = Options {
                    rules: Some(rules),
                    filter,
                    spans_slower,
                    kernel: kernel.filter(|_| self.transient.is_foreground),
                    contexts: EventContexts::parse(&self.contexts(channel))
                        .map_err(|error| no_context(&error))?,
                    ..sized
                };
                filter_check::program(&options).map_err(|error| match error {
                    crate::SessionError::Filter(error) => PlanError::Program(error),
                    _ => PlanError::NothingPasses(
                        options.filter.as_ref().map_or_else(String::new, |one| one.text().into()),
                    ),
                })?;
                options
            }
            LayerOf::Kernel => {
                let selecting = rules.iter().filter(|rule| !rule.probe);
                let texts: Vec<&str> = selecting.map(|rule| rule.text.as_str()).collect();
                if !texts.is_empty() {
                    strata_kernel::event_rules::EventSelection::parse(&texts)?;
                }
                let contexts =
                    Contexts::parse(&self.contexts(channel)).map_err(|error| no_context(&error))?;
                // The rules for the kernel's layer follow in a change.
                let kernel = KernelOptions {
                    contexts,
                    argv_bytes: self.argv_bytes,
                    as_lttng: self.lttng_env,
                    all_processes: self.transient.all_processes,
                    ..KernelOptions::default()
                };
                Options { kernel: Some(kernel), ..sized }
            }
        })
    }
}

/// Returns the enabled rules of a channel, without repetition. The list is empty if all of them only exclude events.
fn rules(channel: &Channel) -> Result<Vec<LayerRule>, PlanError> {
    let on = || channel.events.iter().filter(|event| event.enabled);
    let selecting = || on().filter(|event| !event.is_exclusion());
    if selecting().next().is_none() {
        return Ok(Vec::new());
    }
    // Exclusions that all rules share become exclusions of the channel. Nothing can be excluded from probes and
    // samples.
    let mut named = selecting().filter(|event| event.is_selection());
    let first = named.next();
    let is_of_all = named.all(|event| first.is_some_and(|first| event.exclude == first.exclude));
    let mut all: Vec<LayerRule> = Vec::new();
    let mut excluded: Vec<&str> = Vec::new();
    // Without a rule that selects by name, exclusions are left out: for a layer, exclusions alone select everything
    // else.
    let is_of_use = |event: &&EventRule| first.is_some() || !event.is_exclusion();
    for event in on().filter(is_of_use) {
        let filter = match is_of_all {
            true => event.filter.as_deref().map(Filter::parse).transpose()?,
            false => narrowed(channel.layer, event)?,
        };
        let rule = LayerRule {
            text: event.rule.clone(),
            filter,
            stack: event.stack,
            sample: event.sample,
            probe: event.probe,
            slower: event.slower_ns,
            sampling: event.sampling(),
            is_of_calls: false,
        };
        all.push(match channel.layer == LayerOf::Kernel && event.is_selection() {
            true => rule.with_duration_of_calls()?,
            false => rule,
        });
        if is_of_all {
            excluded.extend(event.exclude.iter().map(String::as_str));
        }
    }
    excluded.sort_unstable();
    excluded.dedup();
    let excluding = |text| LayerRule { text: format!("!{text}"), ..LayerRule::default() };
    all.extend(excluded.into_iter().map(excluding));
    Ok(all)
}

/// Returns the filter of the rule, combined with its exclusions.
fn narrowed(layer: LayerOf, event: &EventRule) -> Result<Option<Filter>, PlanError> {
    if event.exclude.is_empty() {
        return Ok(event.filter.as_deref().map(Filter::parse).transpose()?);
    }
    if layer == LayerOf::Kernel {
        return Err(PlanError::NoRule {
            rule: event.rule.clone(),
            what: "another rule of this channel of the kernel excludes something else. Use a channel for each, or \
                   rules with '!' in front, which exclude from the whole channel",
            near: String::new(),
        });
    }
    let mut parts: Vec<String> = Vec::new();
    for rule in Rules::parse(&event.exclude)?.rules() {
        parts.push(format!("!{}", asked(rule, None)));
    }
    parts.extend(event.filter.iter().map(|text| format!("({text})")));
    Ok(Some(Filter::parse(&parts.join(" && "))?))
}
