//! Plans that say how the records of each class are exported, made once from the names of its fields.

use std::collections::HashSet;
use std::io::Write;

use strata_ctf::read::{DeferredClass, EventClass, FieldRef, Scope};
use strata_model::schema::{FieldClass, Schema, Structure};
use strata_model::LEVEL_NAMES;
use strata_timeline::slice_pairs::{address_of, PairRole, Pairs};
use strata_timeline::{elapsed_field, elapsed_of_span, CallEnd, NumberedEnd, Whose};

use super::encode;
use super::kernel::{has_lttng_priorities, Kernel};
use super::proto::{track_event, EventType};
use super::writer::PacketWriter;
use strata_analyze::render::line::{Lines, TextPiece};

/// The name of the annotation that has the CPU of a record.
pub(super) const CPU: &str = "cpu";

/// The most members of one class whose names get numbers.
const MEMBERS_MAX: usize = 4096;
/// The greatest depth of nested fields that are exported.
const DEPTH_MAX: usize = 32;

/// The fields of a record that gives a thread of its process a new name.
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

/// The fields that pair the begin and the end of a slice.
#[derive(Debug)]
pub(super) struct SlicePlan {
    pub role: PairRole,
    /// The encoded type and name of the begin.
    pub begin: TextPiece,
    pub key: Option<FieldRef>,
    /// The field that should have the same value at both ends, if there is no key.
    pub check: Option<FieldRef>,
    /// The field with the address of the slice's object, such as a function.
    pub address: Option<FieldRef>,
    /// The field with the number of a system call, if records have no name of it.
    pub call: Option<FieldRef>,
    /// The field with the time since the begin, if both ends are recorded at the end \[ns\].
    pub elapsed: Option<FieldRef>,
    /// The numbers of the names of fields that the begin also has, sorted.
    pub shared: Vec<u64>,
    /// True for a begin that never has an end, or an end that may be the first of its thread: exit(), fork(), execve().
    pub is_alone: bool,
}

/// The plan for the records of one class.
#[derive(Debug)]
pub(super) struct EventPlan {
    /// The encoded type and name of an instant.
    pub instant: TextPiece,
    pub categories: TextPiece,
    pub whose: Whose,
    pub named: Option<NameFields>,
    pub kernel: Option<Kernel>,
    pub slice: Option<SlicePlan>,
    /// The fields of deferred arguments, if the class' records hold arguments of a system call that has begun.
    pub deferred: Option<DeferredClass>,
    pub twice: Twice,
}

/// Contexts and other values that have the same names as fields.
#[derive(Debug)]
pub(super) struct Twice {
    /// The numbers of the names of such contexts, sorted.
    pub contexts: Vec<u64>,
    pub cpu: bool,
}

/// The properties of all traces that plans depend on.
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
            deferred: DeferredClass::new(class).filter(|_| is_kernel),
            twice: twice(class, schema, writer),
        }
    }

    /// Returns the encoded categories of a class, which are its provider and its log level, so that readers can filter
    /// by them.
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
        let is_alone = is_alone(class.name());
        let elapsed = elapsed_field(class).or_else(|| elapsed_of_span(class));
        Some(SlicePlan { begin, role, key, check, address, call, elapsed, shared, is_alone })
    }
}

/// Returns true for the begin of a call that does not return, and for the end of a call that returns in a thread or a
/// program which did not make it.
fn is_alone(name: &str) -> bool {
    const EXITS: [&str; 2] = ["exit", "exit_group"];
    const BIRTHS: [&str; 6] = ["fork", "vfork", "clone", "clone3", "execve", "execveat"];
    CallEnd::of(name).is_some_and(|end| match end.begins {
        true => EXITS.contains(&end.name),
        false => BIRTHS.contains(&end.name),
    })
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

/// Gives numbers to the names of a class' fields, so that all shares use the same numbers.
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

/// Returns the encoded type of an event on a track and the number of its name.
pub(super) fn of_name(kind: EventType, name: u64) -> TextPiece {
    let mut fields = Lines::default();
    encode::number(&mut fields, track_event::TYPE, kind as u64);
    encode::number(&mut fields, track_event::NAME, name);
    TextPiece::new(fields.as_bytes())
}

/// Returns LTTng's name of a log level: those of syslog, and eight kinds of debugging.
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

    #[test]
    fn ends_that_are_alone_by_nature_are_those_of_births_and_begins_those_of_exits() {
        for (name, wanted) in [
            ("syscall_entry_exit_group", true),
            ("sys_enter_exit", true),
            ("compat_syscall_exit_clone", true),
            ("syscall_exit_execve", true),
            ("syscall_entry_execve", false),
            ("syscall_exit_exit", false),
            ("syscall_exit_read", false),
            ("app:exit", false),
        ] {
            assert_eq!(is_alone(name), wanted, "{name}");
        }
    }
}
