//! The events that begin and end spans, by the user's rules and by the names of a program's events.

use std::collections::{HashMap, HashSet};

use strata_ctf::read::Reader;
use strata_model::schema::EventClass;

use crate::records::record_source::is_kernel;
use crate::span_rules::slice_pairs::{address_of, checks, keyed, PairRule, Pairs, SPAN_KEY};
use crate::spans::{SpanRole, SpanRoles};

/// The first number of pairs by name. Pairs by rule have lower numbers.
const BY_NAME: u32 = 1 << 31;

/// The first number of pairs of garbage collections.
const OF_COLLECTIONS: u32 = 1 << 30;

/// The USDT probes with which runtimes say that a garbage collection begins and ends, and the name of such spans. The
/// probes are the kernel's events, whose other begins and ends make spans only by rules.
const COLLECTIONS: [(&str, &str, &str); 6] = [
    ("usdt_python_gc__start", "usdt_python_gc__done", "python:gc"),
    ("usdt_hotspot_gc__begin", "usdt_hotspot_gc__end", "hotspot:gc"),
    ("usdt_hotspot_mem__pool__gc__begin", "usdt_hotspot_mem__pool__gc__end", "hotspot:gc_of_pool"),
    ("usdt_node_gc__start", "usdt_node_gc__done", "node:gc"),
    ("usdt_ruby_gc__mark__begin", "usdt_ruby_gc__mark__end", "ruby:gc_mark"),
    ("usdt_ruby_gc__sweep__begin", "usdt_ruby_gc__sweep__end", "ruby:gc_sweep"),
];

/// Returns the role of each event. Events of the kernel have roles only by rules, except probes of garbage collectors.
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
    let without = roles.iter().filter(|(_, role)| role.key.is_none());
    let keyed = keyed(without.map(|(name, role)| (name.as_str(), role.pair)), &classes);
    for role in roles.values_mut().filter(|role| keyed.contains(&role.pair)) {
        role.key = Some(SPAN_KEY.to_owned());
    }
    for (pair, (begin, end, name)) in (OF_COLLECTIONS..).zip(COLLECTIONS) {
        if !names.contains(begin) || !names.contains(end) {
            continue;
        }
        for (event, begins) in [(begin, true), (end, false)] {
            let (name, key, check) = (name.to_owned(), None, None);
            let (address, owner, result) = (None, None, None);
            let role = SpanRole { pair, name, begins, key, check, address, owner, result };
            roles.entry(event.to_owned()).or_insert(role);
        }
    }
    let checks = checks(roles.iter().map(|(name, role)| (name.as_str(), role.pair)), &classes);
    for role in roles.values_mut() {
        role.check = checks.get(&role.pair).cloned();
    }
    roles
}

/// Returns the rules that no two events of the traces fit.
#[must_use]
pub fn idle_rules<'p>(reader: &Reader, rules: &'p [PairRule]) -> Vec<&'p PairRule> {
    let streams = || reader.traces().iter().flat_map(|trace| &trace.schema().streams);
    let names = || streams().flat_map(|stream| &stream.events).map(|event| event.name.as_str());
    let is_idle = |rule: &&PairRule| {
        Pairs::new(names(), std::slice::from_ref(*rule), false).is_without_rules()
    };
    rules.iter().filter(is_idle).collect()
}
