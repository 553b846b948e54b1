//! Which event records begin and end spans: what the user says, and what the names of a program's events say.

use std::collections::{HashMap, HashSet};

use strata_ctf::read::Reader;
use strata_model::schema::EventClass;
use strata_timeline::{is_kernel, SpanRole, SpanRoles};

use crate::perfetto::{address_of, checks, PairRule, Pairs};

/// Pairs by rule have numbers below.
const BY_NAME: u32 = 1 << 31;

/// What the events of the traces do to spans. Those of the kernel do so by rule only.
#[must_use]
pub fn span_roles(reader: &Reader, rules: &[PairRule]) -> SpanRoles {
    let (mut names, mut of_programs) = (HashSet::new(), HashSet::new());
    let mut classes: HashMap<&str, &EventClass> = HashMap::new();
    for trace in reader.traces() {
        let is_kernel = is_kernel(trace.schema());
        for event in trace.schema().streams.iter().flat_map(|stream| &stream.events) {
            names.insert(event.name.as_str());
            classes.insert(event.name.as_str(), event);
            if !is_kernel {
                of_programs.insert(event.name.as_str());
            }
        }
    }
    let by_rule = Pairs::new(names.iter().copied(), rules, false);
    let by_name = Pairs::new(of_programs.iter().copied(), &[], true);
    let mut roles = SpanRoles::new();
    for name in &names {
        let rule = by_rule.role(name).filter(|role| !role.syscall);
        let found = rule.map(|role| (role, 0)).or_else(|| {
            let role = by_name.role(name).filter(|role| !role.syscall)?;
            Some((role, BY_NAME))
        });
        let Some((role, offset)) = found else { continue };
        let role = SpanRole {
            pair: role.pair | offset,
            name: role.name.clone(),
            begins: role.begins,
            key: role.key.clone(),
            check: None,
            address: address_of(name).map(str::to_owned),
            owner: None,
            result: None,
        };
        roles.insert((*name).to_owned(), role);
    }
    let checks = checks(roles.iter().map(|(name, role)| (name.as_str(), role.pair)), &classes);
    for role in roles.values_mut() {
        role.check = checks.get(&role.pair).cloned();
    }
    roles
}

/// Rules that no two events of the traces fit.
#[must_use]
pub fn idle_rules<'p>(reader: &Reader, rules: &'p [PairRule]) -> Vec<&'p PairRule> {
    let streams = || reader.traces().iter().flat_map(|trace| &trace.schema().streams);
    let names = || streams().flat_map(|stream| &stream.events).map(|event| event.name.as_str());
    let is_idle = |rule: &&PairRule| {
        Pairs::new(names(), std::slice::from_ref(*rule), false).is_without_rules()
    };
    rules.iter().filter(is_idle).collect()
}
