//! What is to be done with each kind of event records: found once, by the names of its fields.

use std::collections::HashSet;
use std::io::Write;

use strata_ctf::read::{EventClass, FieldKind, FieldRef, Scope};
use strata_filter::Pattern;
use strata_model::schema::{FieldClass, Schema, Structure};
use strata_model::LEVEL_NAMES;
use strata_timeline::Whose;

use super::encode;
use super::kernel::{has_lttng_priorities, Kernel};
use super::pairs::{address_of, PairRole, Pairs};
use super::proto::{track_event, EventType};
use super::writer::Writer;
use crate::render::line::{Lines, Piece};

/// Members that are looked at for counters, of one kind of records.
const MEMBERS_MAX: usize = 4096;
/// Structures in each other that are looked at for counters.
const DEPTH_MAX: usize = 32;

/// A numeric field that the user wants to see as a counter: `EVENT.FIELD`, or `FIELD` of any event, with
/// `*` for any text and `?` for one character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterRule {
    text: String,
    pattern: Pattern,
}

impl std::str::FromStr for CounterRule {
    type Err = CounterRuleError;

    fn from_str(text: &str) -> Result<CounterRule, CounterRuleError> {
        if text.is_empty() {
            return Err(CounterRuleError);
        }
        Ok(CounterRule { text: text.to_owned(), pattern: Pattern::glob(text) })
    }
}

impl CounterRule {
    /// `name` is the event's; `path` the field's, `a.b` in a structure.
    fn matches(&self, name: &str, path: &str) -> bool {
        let short = name.rsplit(':').next().unwrap_or(name);
        self.pattern.matches(path.as_bytes())
            || self.pattern.matches(format!("{name}.{path}").as_bytes())
            || self.pattern.matches(format!("{short}.{path}").as_bytes())
    }
}

impl std::fmt::Display for CounterRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Text that is no counter.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("'' is no counter; write EVENT.FIELD or FIELD, as in 'myapp:queue.length'")]
pub struct CounterRuleError;

/// The fields of a record that says what a thread of its process is called from now on.
#[derive(Debug)]
pub(super) struct Named {
    pub tid: FieldRef,
    pub name: FieldRef,
}

impl Named {
    fn new(class: &EventClass) -> Option<Named> {
        let find = |name: &str| class.find_in(Scope::Payload, name);
        let is_one = class.name() == "strata:thread_name";
        Some(Named { tid: find("tid")?, name: find("name")? }).filter(|_| is_one)
    }
}

/// A field that is shown as a counter.
#[derive(Debug)]
pub(super) struct Counter {
    pub field: FieldRef,
    /// `event.field`.
    pub name: String,
}

/// What an end has to know of its begin, and a begin of itself.
#[derive(Debug)]
pub(super) struct Slice {
    pub role: PairRole,
    /// Of a begin: its type and its name.
    pub begin: Piece,
    pub key: Option<FieldRef>,
    /// What should be the same at both ends, if there is no key.
    pub check: Option<FieldRef>,
    /// The address of what it is of.
    pub address: Option<FieldRef>,
    /// Numbers of the names of fields that the begin has too, in order.
    pub shared: Vec<u64>,
}

/// What is to be done with a kind of event records.
#[derive(Debug)]
pub(super) struct Plan {
    /// Of an instant: its type and its name.
    pub instant: Piece,
    pub categories: Piece,
    pub whose: Whose,
    pub named: Option<Named>,
    pub kernel: Option<Kernel>,
    pub slice: Option<Slice>,
    pub counters: Vec<Counter>,
}

/// What plans are made of.
#[derive(Debug)]
pub(super) struct Plans<'p> {
    pub pairs: &'p Pairs,
    pub counters: &'p [CounterRule],
}

impl Plans<'_> {
    pub(super) fn plan<W: Write>(
        &self,
        class: &EventClass,
        is_kernel: bool,
        schema: &Schema,
        writer: &mut Writer<W>,
    ) -> Plan {
        let kernel = Kernel::new(class, has_lttng_priorities(schema));
        number_names(class, schema, writer);
        Plan {
            instant: of_name(EventType::Instant, writer.name(class.name())),
            categories: self.categories(class, is_kernel, writer),
            whose: Whose::new(class, is_kernel),
            named: Named::new(class),
            slice: self.slice(class, schema, writer),
            kernel,
            counters: self.counters(class),
        }
    }

    /// The provider and the level, so that readers can choose by them.
    fn categories<W: Write>(
        &self,
        class: &EventClass,
        is_kernel: bool,
        writer: &mut Writer<W>,
    ) -> Piece {
        let provider = match class.name().split_once(':') {
            Some((provider, _)) => provider,
            None if self.pairs.role(class.name()).is_some_and(|role| role.syscall) => "syscall",
            None if is_kernel => "kernel",
            None => "",
        };
        let mut categories = Lines::default();
        let mut add = |name: &str| {
            encode::number(&mut categories, track_event::CATEGORY, writer.category(name));
        };
        if !provider.is_empty() {
            add(provider);
        }
        if let Some(level) = class.loglevel() {
            add(&level_name(level));
        }
        Piece::new(categories.as_bytes())
    }

    fn slice<W: Write>(
        &self,
        class: &EventClass,
        schema: &Schema,
        writer: &mut Writer<W>,
    ) -> Option<Slice> {
        let role = self.pairs.role(class.name())?.clone();
        let mut shared = Vec::new();
        if !role.begins {
            let begins: HashSet<&str> = self.pairs.events_of(role.pair, true).collect();
            let events = schema.streams.iter().flat_map(|stream| &stream.events);
            let begins = events.filter(|event| begins.contains(event.name.as_str()));
            let members = begins.filter_map(|event| event.payload.as_ref());
            for member in members.flat_map(|payload| &payload.members) {
                shared.push(writer.annotation(&member.name));
            }
            shared.sort_unstable();
            shared.dedup();
        }
        let key = role.key.as_deref().and_then(|key| class.find(key));
        let begin = of_name(EventType::SliceBegin, writer.name(&role.name));
        let check =
            self.pairs.check(role.pair).and_then(|check| class.find_in(Scope::Payload, check));
        let address = address_of(class.name()).and_then(|address| class.find(address));
        Some(Slice { begin, role, key, check, address, shared })
    }

    fn counters(&self, class: &EventClass) -> Vec<Counter> {
        if self.counters.is_empty() {
            return Vec::new();
        }
        let event = class.schema();
        let mut found = Vec::new();
        let scopes = [
            (Scope::Payload, event.payload.as_ref()),
            (Scope::SpecificContext, event.specific_context.as_ref()),
        ];
        for (scope, structure) in scopes {
            let mut paths = Vec::new();
            numbers(structure, "", 0, &mut paths);
            for path in paths {
                if !self.counters.iter().any(|rule| rule.matches(class.name(), &path)) {
                    continue;
                }
                let Some(field) = class.find_in(scope, &path) else { continue };
                if matches!(field.info().kind, FieldKind::Integer | FieldKind::Real) {
                    found.push(Counter { field, name: format!("{}.{path}", class.name()) });
                }
            }
        }
        found
    }
}

/// Give numbers to the names of a class' fields, so that each share gives the same.
fn number_names<W: Write>(class: &EventClass, schema: &Schema, writer: &mut Writer<W>) {
    let stream = schema.streams.get(class.stream_class());
    let event = class.schema();
    let parts = [
        stream.and_then(|stream| stream.event_common_context.as_ref()),
        event.payload.as_ref(),
        event.specific_context.as_ref(),
    ];
    let mut left = MEMBERS_MAX;
    for part in parts.into_iter().flatten() {
        number_members(part, DEPTH_MAX, &mut left, writer);
    }
}

fn number_members<W: Write>(
    structure: &Structure,
    depth: usize,
    left: &mut usize,
    writer: &mut Writer<W>,
) {
    for member in &structure.members {
        number_name(&member.name, &member.class, depth, left, writer);
    }
}

fn number_name<W: Write>(
    name: &str,
    class: &FieldClass,
    depth: usize,
    left: &mut usize,
    writer: &mut Writer<W>,
) {
    let (Some(depth), Some(rest)) = (depth.checked_sub(1), left.checked_sub(1)) else { return };
    *left = rest;
    // Elements have none.
    if !name.is_empty() {
        writer.annotation(name);
    }
    match class {
        FieldClass::Structure(inner) => number_members(inner, depth, left, writer),
        FieldClass::Array(array) => number_name("", &array.element, depth, left, writer),
        FieldClass::Optional(inner) => number_name("", &inner.class, depth, left, writer),
        FieldClass::Variant(variant) => {
            for option in &variant.options {
                number_name(&option.name, &option.class, depth, left, writer);
            }
        }
        _ => {}
    }
}

/// The type of an event on a track, and the number of its name.
fn of_name(kind: EventType, name: u64) -> Piece {
    let mut fields = Lines::default();
    encode::number(&mut fields, track_event::TYPE, kind as u64);
    encode::number(&mut fields, track_event::NAME, name);
    Piece::new(fields.as_bytes())
}

/// Rules that select no field in any of the traces.
pub(super) fn counters_without_field<'r>(
    schemas: &[&Schema],
    rules: &'r [CounterRule],
) -> Vec<&'r CounterRule> {
    let mut idle: Vec<&CounterRule> = rules.iter().collect();
    let streams = schemas.iter().flat_map(|schema| &schema.streams);
    for event in streams.flat_map(|stream| &stream.events) {
        if idle.is_empty() {
            break;
        }
        let mut paths = Vec::new();
        numbers(event.payload.as_ref(), "", 0, &mut paths);
        numbers(event.specific_context.as_ref(), "", 0, &mut paths);
        idle.retain(|rule| !paths.iter().any(|path| rule.matches(&event.name, path)));
    }
    idle
}

/// The paths of all numbers in a structure, and in those in it.
fn numbers(structure: Option<&Structure>, prefix: &str, depth: usize, paths: &mut Vec<String>) {
    let members = structure.map_or(&[][..], |structure| &structure.members);
    for member in members {
        if paths.len() >= MEMBERS_MAX || depth >= DEPTH_MAX {
            return;
        }
        let path = format!("{prefix}{}", member.name);
        match &member.class {
            FieldClass::Integer(_) | FieldClass::Real(_) => paths.push(path),
            FieldClass::Structure(inner) => {
                numbers(Some(inner), &format!("{path}."), depth + 1, paths);
            }
            _ => {}
        }
    }
}

/// LTTng's names of its log levels, which are those of syslog and eight kinds of debugging.
fn level_name(level: i64) -> String {
    let known = usize::try_from(level).ok().and_then(|level| LEVEL_NAMES.get(level));
    known.map_or_else(|| format!("level {level}"), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_rule_names_a_field_of_one_event_or_of_any() {
        for (rule, event, path, wanted) in [
            ("len", "a:b", "len", true),
            ("a:b.len", "a:b", "len", true),
            ("b.len", "a:b", "len", true),
            ("a:*.len", "a:b", "len", true),
            ("*", "a:b", "x.y", true),
            ("x.y", "a:b", "x.y", true),
            ("c.len", "a:b", "len", false),
            ("le", "a:b", "len", false),
        ] {
            let found = rule.parse::<CounterRule>().unwrap();
            assert_eq!(found.matches(event, path), wanted, "{rule}");
        }
        let error = "".parse::<CounterRule>().unwrap_err();
        assert!(error.to_string().contains("EVENT.FIELD"));
    }

    #[test]
    fn level_without_a_name_is_its_number() {
        assert_eq!(level_name(6), "info");
        assert_eq!(level_name(-1), "level -1");
        assert_eq!(level_name(99), "level 99");
    }
}
