//! What is to be done with each kind of event records: found once, by the names of its fields.

use std::collections::HashSet;
use std::io::Write;

use strata_ctf::read::{EventClass, FieldRef, Scope};
use strata_model::schema::{FieldClass, Schema, Structure};
use strata_model::LEVEL_NAMES;
use strata_timeline::{NumberedEnd, Whose};

use super::encode;
use super::kernel::{has_lttng_priorities, Kernel};
use super::pairs::{address_of, PairRole, Pairs};
use super::proto::{track_event, EventType};
use super::writer::PacketWriter;
use crate::render::line::{Lines, TextPiece};

/// Where a record was made, which is said of each besides its fields.
pub(super) const CPU: &str = "cpu";

/// Members that get numbers for their names, of one kind of records.
const MEMBERS_MAX: usize = 4096;
/// Fields in each other that get them.
const DEPTH_MAX: usize = 32;

/// The fields of a record that says what a thread of its process is called from now on.
#[derive(Debug)]
pub(super) struct NameFields {
    pub tid: FieldRef,
    pub name: FieldRef,
}

impl NameFields {
    fn new(class: &EventClass) -> Option<NameFields> {
        let find = |name: &str| class.find_in(Scope::Payload, name);
        let is_one = class.name() == "strata:thread_name";
        Some(NameFields { tid: find("tid")?, name: find("name")? }).filter(|_| is_one)
    }
}

/// What an end has to know of its begin, and a begin of itself.
#[derive(Debug)]
pub(super) struct SlicePlan {
    pub role: PairRole,
    /// Of a begin: its type and its name.
    pub begin: TextPiece,
    pub key: Option<FieldRef>,
    /// What should be the same at both ends, if there is no key.
    pub check: Option<FieldRef>,
    /// The address of what it is of.
    pub address: Option<FieldRef>,
    /// The number of a system call that has no other name.
    pub call: Option<FieldRef>,
    /// Numbers of the names of fields that the begin has too, in order.
    pub shared: Vec<u64>,
}

/// What is to be done with a kind of event records.
#[derive(Debug)]
pub(super) struct EventPlan {
    /// Of an instant: its type and its name.
    pub instant: TextPiece,
    pub categories: TextPiece,
    pub whose: Whose,
    pub named: Option<NameFields>,
    pub kernel: Option<Kernel>,
    pub slice: Option<SlicePlan>,
    pub twice: Twice,
}

/// What besides its fields is called as one of these.
#[derive(Debug)]
pub(super) struct Twice {
    /// Contexts: the numbers of their names, in order.
    pub contexts: Vec<u64>,
    /// The CPU.
    pub cpu: bool,
}

/// What plans are made of.
#[derive(Debug)]
pub(super) struct EventPlanner<'p> {
    pub pairs: &'p Pairs,
}

impl EventPlanner<'_> {
    pub(super) fn plan<W: Write>(
        &self,
        class: &EventClass,
        is_kernel: bool,
        schema: &Schema,
        writer: &mut PacketWriter<W>,
    ) -> EventPlan {
        let kernel = Kernel::new(class, has_lttng_priorities(schema));
        number_names(class, schema, writer);
        EventPlan {
            instant: of_name(EventType::Instant, writer.name(class.name())),
            categories: self.categories(class, is_kernel, writer),
            whose: Whose::new(class, is_kernel),
            named: NameFields::new(class),
            slice: self.slice(class, schema, writer),
            kernel,
            twice: twice(class, schema, writer),
        }
    }

    /// The provider and the level, so that readers can choose by them.
    fn categories<W: Write>(
        &self,
        class: &EventClass,
        is_kernel: bool,
        writer: &mut PacketWriter<W>,
    ) -> TextPiece {
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
        TextPiece::new(categories.as_bytes())
    }

    fn slice<W: Write>(
        &self,
        class: &EventClass,
        schema: &Schema,
        writer: &mut PacketWriter<W>,
    ) -> Option<SlicePlan> {
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
        let call = NumberedEnd::of(class).filter(|_| role.syscall).map(|end| end.number);
        Some(SlicePlan { begin, role, key, check, address, call, shared })
    }
}

fn twice<W: Write>(class: &EventClass, schema: &Schema, writer: &mut PacketWriter<W>) -> Twice {
    let (stream, event) = (schema.streams.get(class.stream_class()), class.schema());
    let names = |part: &Structure| {
        let members = part.members.iter().take(MEMBERS_MAX);
        members.map(|member| member.name.clone()).collect::<Vec<String>>()
    };
    let payload: HashSet<String> = event.payload.iter().flat_map(names).collect();
    let common = stream.and_then(|stream| stream.event_common_context.as_ref());
    let contexts = common.into_iter().chain(&event.specific_context).flat_map(names);
    let twice = contexts.filter(|name| payload.contains(name));
    let mut contexts: Vec<u64> = twice.map(|name| writer.annotation(&name)).collect();
    contexts.sort_unstable();
    contexts.dedup();
    Twice { contexts, cpu: payload.contains(CPU) }
}

/// Give numbers to the names of a class' fields, so that each share gives the same.
fn number_names<W: Write>(class: &EventClass, schema: &Schema, writer: &mut PacketWriter<W>) {
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
    writer: &mut PacketWriter<W>,
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
    writer: &mut PacketWriter<W>,
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
pub(super) fn of_name(kind: EventType, name: u64) -> TextPiece {
    let mut fields = Lines::default();
    encode::number(&mut fields, track_event::TYPE, kind as u64);
    encode::number(&mut fields, track_event::NAME, name);
    TextPiece::new(fields.as_bytes())
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
    fn level_without_a_name_is_its_number() {
        assert_eq!(level_name(6), "info");
        assert_eq!(level_name(-1), "level -1");
        assert_eq!(level_name(99), "level 99");
    }
}
