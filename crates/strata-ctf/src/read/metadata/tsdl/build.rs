//! Builds the schema from the blocks of a TSDL text.
//!
//! ```text
//! text ── blocks::split ── parser::parse ── declare (types) ── resolve (references) ──▶ Schema
//!          blocks, with    statements of     TypeMaker          ClassWriter             Builder puts parts into
//!          broken ones     one block                                                    traces, streams and events
//! ```
//!
//! The order of work does not follow the text: the trace block comes first, since all types need its byte order.
//! Declarations, environment, clocks, streams and events follow, each kind in the order of the text.
//!
//! # Faulty blocks
//! A block that cannot be read is left out and noted as a problem, and all others are used: of truncated metadata, the
//! whole blocks remain. A block that was left out is not the same as a block that does not exist, though. [`Unread`]
//! keeps the kinds of blocks that could not be read, so that an event whose stream is missing is not attached to a
//! stream that merely seems to be the only one. Only a missing or unusable trace block is fatal; the error then also
//! shows the first fault of the text, which may be its cause.
//!
//! # Limits
//! `limits.rs` bounds text, blocks, fields, names and memory, and `scope.rs` counts them, so that even a text of 24 MB
//! is read within seconds.
//!
//! `roles.rs` recognizes header fields by their names (`id`, `timestamp`), as other readers do, and `clocks.rs`
//! determines which fields count which clock.

use super::blocks::{self, Block, BlockKind, Blocks, UnreadStreams};
use super::declare::TypeMaker;
use super::parser;
use super::resolve::{self, Roots};
use super::scope::{TypeNames, ENTRY};
use super::syntax::{Attribute, Statement, ValueKind};
use super::types::Type;
use super::values::{self, attributes, number, ranged, text, uuid, SeenNames, TsdlResult};
use crate::read::metadata::duplicate_classes::AmbiguousClasses;
use crate::read::metadata::error::{
    duplicate, unknown, Fault, Faults, LineFinder, MetadataError, MetadataProblem,
};
use crate::read::metadata::heap::heap;
use crate::read::metadata::Parsed;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use strata_model::schema::{EventClass, Schema, Scope, StreamClass, Structure};
use strata_model::{ByteOrder, ClockClass, EnvValue};

mod clocks;
mod roles;

/// Builds the schema of a whole text. `damage` is a fault that was found before the text was parsed.
pub(crate) fn build(text: &[u8], damage: Option<MetadataError>) -> Result<Parsed, MetadataError> {
    let mut faults = Faults::default();
    let Blocks { list: blocks, unread } = blocks::split(text, &mut faults);
    let mut traces = blocks.iter().filter(|block| block.kind == BlockKind::Trace);
    let words = |block: &Block| {
        let block = text.get(block.begin as usize..block.end as usize).unwrap_or_default();
        block.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect::<Vec<_>>()
    };
    let first = traces.next().map(words);
    for second in traces {
        let fault = duplicate(second.begin, "block", "trace");
        // Everything depends on the trace block's byte order and packet header, so that a different second block is
        // fatal.
        if first != Some(words(second)) {
            return Err(fatal(text, faults, fault));
        }
        faults.push(fault);
    }
    let mut builder = match Builder::new(text, &blocks) {
        Ok(builder) => builder,
        Err(fault) => {
            // An earlier block of the text may have the cause for the missing trace block.
            if blocks.iter().any(|block| block.kind == BlockKind::Trace) {
                for block in blocks.iter().filter(|block| block.begin < fault.at) {
                    // The fatal fault itself must not be listed twice.
                    let parsed = parser::parse(text, block).err();
                    parsed.into_iter().filter(|it| *it != fault).for_each(|it| faults.push(it));
                }
                return Err(fatal(text, faults, fault));
            }
            let first = faults.finish().0.into_iter().next();
            let error = LineFinder::new(text).locate(first.unwrap_or(fault));
            return Err(damage.unwrap_or(error));
        }
    };
    builder.faults = faults;
    builder.unread.streams = unread;
    // Types come before their users and streams before their events, whatever the text's order.
    for kind in [BlockKind::Clock, BlockKind::Declaration, BlockKind::Environment] {
        builder.blocks(&blocks, kind);
    }
    if let Err(fault) = builder.trace() {
        return Err(fatal(text, builder.faults, fault));
    }
    builder.blocks(&blocks, BlockKind::Stream);
    builder.blocks(&blocks, BlockKind::Event);
    let Builder { mut schema, faults, unread, ambiguous, .. } = builder;
    schema.is_stream_unread = unread.streams.is_certain;
    ambiguous.remove_from(&mut schema);
    Ok(Parsed { schema, problems: faults.into_problems(text, damage) })
}

/// Builds the error for a fault that makes all of the text unusable. It also has the first fault of the text, which may
/// be the cause.
fn fatal(text: &[u8], faults: Faults, fault: Fault) -> MetadataError {
    let mut lines = LineFinder::new(text);
    let first = faults.finish().0.into_iter().find(|first| first.at < fault.at);
    let Some(first) = first.map(|first| lines.locate(first)) else { return lines.locate(fault) };
    let MetadataError { line, column, what: fatal } = lines.locate(fault);
    let at = (first.line, first.column);
    let (first, fatal) = (Box::new(first.what), Box::new(fatal));
    let what = MetadataProblem::Fatal { first, line, column, fatal };
    MetadataError { line: at.0, column: at.1, what }
}

/// A stream class that is being built.
struct UnfinishedStream {
    roots: Roots,
    /// Ids of the stream's events.
    events: HashSet<u64>,
    clock: clocks::StreamClocks,
}

struct Builder<'t> {
    text: &'t [u8],
    schema: Schema,
    names: TypeNames,
    byte_order: ByteOrder,
    /// The statements of the trace block.
    trace: Vec<Statement<'t>>,
    trace_at: u32,
    /// The type of the packet header, for references to it.
    roots: Roots,
    packet_header_clock: clocks::StreamClocks,
    /// Streams that are being built, in the order of `schema.streams`.
    streams: Vec<UnfinishedStream>,
    stream_ids: HashMap<u64, usize>,
    /// Names of clocks that are described in two ways.
    ambiguous_clocks: HashSet<String>,
    /// Index of each entry of the environment.
    entries: HashMap<String, usize>,
    unread: Unread,
    ambiguous: AmbiguousClasses,
    faults: Faults,
}

/// Kinds of blocks that the text has, or may have, and that could not be read. Nothing may be inferred from their
/// absence.
#[derive(Clone, Copy, Debug)]
struct Unread {
    streams: UnreadStreams,
    clocks: bool,
}

impl<'t> Builder<'t> {
    /// Makes a builder whose schema has the byte order of the trace block, which all types need.
    fn new(text: &'t [u8], blocks: &[Block]) -> TsdlResult<Builder<'t>> {
        let block = blocks.iter().find(|block| block.kind == BlockKind::Trace);
        let missing = |what, of| MetadataProblem::Missing { what, of };
        let block = block.ok_or_else(|| Fault::new(0, missing("trace block", "the metadata")))?;
        let trace = parser::parse(text, block)?;
        let orders = attributes(&trace).filter(|attribute| attribute.name == "byte_order");
        let order = orders.last();
        let order = order
            .ok_or_else(|| Fault::new(block.begin, missing("byte_order", "the trace block")))?;
        let byte_order = values::byte_order(&order.value)?.ok_or_else(|| {
            Fault::value(order.value.at, "the trace's byte order", "native".into(), "le or be")
        })?;
        Ok(Builder {
            text,
            schema: Schema::default(),
            names: TypeNames::new(),
            byte_order,
            trace,
            trace_at: block.begin,
            roots: Roots::default(),
            packet_header_clock: clocks::StreamClocks::default(),
            streams: Vec::new(),
            stream_ids: HashMap::new(),
            ambiguous_clocks: HashSet::new(),
            entries: HashMap::new(),
            unread: Unread { streams: UnreadStreams::NONE, clocks: false },
            ambiguous: AmbiguousClasses::default(),
            faults: Faults::default(),
        })
    }

    /// Builds all blocks of one kind. Faulty blocks are left out.
    fn blocks(&mut self, blocks: &[Block], kind: BlockKind) {
        for block in blocks.iter().filter(|block| block.kind == kind) {
            let statements = parser::parse(self.text, block);
            let declared = self.names.declared();
            let result = statements.and_then(|statements| match kind {
                BlockKind::Clock => self.clock(block.begin, &statements),
                BlockKind::Declaration => self.declaration(&statements),
                BlockKind::Environment => self.environment(&statements),
                BlockKind::Stream => self.stream(block.begin, &statements),
                BlockKind::Event => self.event(block.begin, &statements),
                BlockKind::Trace | BlockKind::Callsite => Ok(()),
            });
            // The names of streams' blocks are kept for the references of their events.
            if kind == BlockKind::Event {
                self.names.forget(declared);
            }
            if let Err(fault) = result {
                self.faults.push(fault);
                let rest = self.text.get(block.begin as usize..).unwrap_or_default();
                self.unread.streams.note(kind, block.begin, rest);
                self.unread.clocks |= kind == BlockKind::Clock;
            }
        }
    }

    fn declaration(&mut self, statements: &[Statement<'_>]) -> TsdlResult<()> {
        let mut types = TypeMaker { names: &mut self.names, byte_order: self.byte_order };
        statements.iter().try_for_each(|statement| match statement {
            Statement::Declaration(declaration) => types.declare(declaration),
            _ => Ok(()),
        })
    }

    fn environment(&mut self, statements: &[Statement<'_>]) -> TsdlResult<()> {
        for Attribute { at, name, value } in attributes(statements) {
            let text = match &value.what {
                ValueKind::Text(text) => text.len(),
                _ => 0,
            };
            let size = 2 * size_of::<(String, EnvValue)>() + ENTRY;
            self.names.count(*at, size + 2 * heap(name.len()) + heap(text))?;
            let made = match &value.what {
                ValueKind::Number(number) => match i64::try_from(*number) {
                    Ok(number) => EnvValue::Integer(number),
                    // Other readers also take the number as these 64 bits.
                    Err(_) => EnvValue::Integer(*number as i64),
                },
                ValueKind::Text(text) => EnvValue::Text(text.clone().into_owned()),
                ValueKind::Word(word) => EnvValue::Text((*word).to_owned()),
                ValueKind::Path(path) => EnvValue::Text(path.show()),
            };
            let entries = &mut self.schema.environment;
            let index = *self.entries.entry(name.clone().into_owned()).or_insert(entries.len());
            // Of several entries with the same name, the last one counts.
            match entries.get_mut(index) {
                Some((_, value)) => *value = made,
                None => entries.push((name.clone().into_owned(), made)),
            }
        }
        Ok(())
    }

    fn clock(&mut self, at: u32, statements: &[Statement<'_>]) -> TsdlResult<()> {
        let clock = clocks::clock(at, statements)?;
        if let Some(&before) = self.names.clocks.get(&clock.name) {
            // babeltrace2's writer repeats the clock for each stream class.
            if self.schema.clocks.get(before) == Some(&clock) {
                return Ok(());
            }
            // Neither of the two descriptions is used.
            self.names.clocks.remove(&clock.name);
            self.ambiguous_clocks.insert(clock.name.clone());
            return Err(duplicate(at, "clock", clock.name));
        }
        if self.ambiguous_clocks.contains(&clock.name) {
            return Err(duplicate(at, "clock", clock.name));
        }
        let text = heap(clock.name.len()) + heap(clock.description.len());
        self.names.count(at, 2 * (size_of::<ClockClass>() + text) + ENTRY)?;
        self.names.clocks.insert(clock.name.clone(), self.schema.clocks.len());
        self.schema.clocks.push(clock);
        Ok(())
    }

    /// Builds the trace block, whose types may use all declarations of the top level.
    fn trace(&mut self) -> TsdlResult<()> {
        let statements = std::mem::take(&mut self.trace);
        let at = self.trace_at;
        let mut seen = SeenNames::default();
        let (mut major, mut minor, mut header) = (None, None, None);
        let (byte_order, schema) = (self.byte_order, &mut self.schema);
        self.names.scoped(|names| {
            let mut types = TypeMaker { names, byte_order };
            for statement in &statements {
                seen.check(statement)?;
                match statement {
                    Statement::Declaration(declaration) => types.declare(declaration)?,
                    Statement::Attribute(Attribute { name, value, .. }) => match name.as_ref() {
                        "major" => major = Some(ranged(value, "the major version", 1, 1, "1")?),
                        "minor" => minor = Some(ranged(value, "the minor version", 8, 8, "8")?),
                        "uuid" => schema.uuid = Some(uuid(value)?),
                        _ => (),
                    },
                    Statement::Definition { name, class, .. } if name == "packet.header" => {
                        header = Some((class.class.at, types.shaped(class)?));
                    }
                    Statement::Definition { name, class, .. } => {
                        return Err(unknown(class.class.at, "part of a trace", name.as_ref()));
                    }
                }
            }
            Ok(())
        })?;
        for (what, found) in [("major version", major), ("minor version", minor)] {
            if found.is_none() {
                return Err(Fault::new(
                    at,
                    MetadataProblem::Missing { what, of: "the trace block" },
                ));
            }
        }
        if let Some((at, class)) = header {
            let mut made = self.part(Scope::PacketHeader, &Roots::default(), &class, at)?;
            let mut clock = clocks::StreamClocks::default();
            roles::packet_header(&mut made, at)?;
            clock.look(&made);
            self.packet_header_clock = clock;
            self.schema.packet_uuid = roles::uuid(&made);
            self.schema.packet_header = Some(made);
            self.roots.set(Scope::PacketHeader, class);
        }
        Ok(())
    }

    /// Builds a part of packets or events.
    fn part(
        &mut self,
        scope: Scope,
        roots: &Roots,
        class: &Rc<Type>,
        at: u32,
    ) -> TsdlResult<Structure> {
        let (places, values) = (&self.entries, self.schema.environment.as_slice());
        let environment = resolve::Environment { places, values };
        resolve::structure(&mut self.names, environment, roots, scope, class, at)
    }

    /// Splits the block of a stream or an event into definitions and attributes.
    fn block<'s>(
        &mut self,
        statements: &'s [Statement<'t>],
        parts: &[&str],
    ) -> TsdlResult<Contents<'s, 't>> {
        let mut seen = SeenNames::default();
        let mut contents = Contents { attributes: Vec::new(), parts: vec![None; parts.len()] };
        let byte_order = self.byte_order;
        let mut others = Vec::new();
        self.names.scoped(|names| {
            let mut types = TypeMaker { names, byte_order };
            for statement in statements {
                seen.check(statement)?;
                match statement {
                    Statement::Declaration(declaration) => types.declare(declaration)?,
                    Statement::Attribute(attribute) => contents.attributes.push(attribute),
                    Statement::Definition { name, class, .. } => {
                        let place = parts.iter().position(|part| part == name);
                        let Some(place) = place.and_then(|place| contents.parts.get_mut(place))
                        else {
                            others.push((name, class.class.at));
                            continue;
                        };
                        *place = Some((class.class.at, types.shaped(class)?));
                    }
                }
            }
            // An unknown part that is ignored would shift all following parts. Events of later versions may have other
            // definitions; streams of no known writer have.
            let has_last = contents.parts.last().is_some_and(Option::is_some);
            let is_event = parts.contains(&"fields");
            for (name, at) in others {
                if !(is_event && has_last) || is_slip(name, parts) {
                    return Err(unknown(at, "part", name.as_ref()));
                }
            }
            Ok(contents)
        })
    }

    fn stream(&mut self, at: u32, statements: &[Statement<'t>]) -> TsdlResult<()> {
        let contents =
            self.block(statements, &["packet.context", "event.header", "event.context"])?;
        let mut made = StreamClass::default();
        for Attribute { name, value, .. } in &contents.attributes {
            if name == "id" {
                made.id = number(value, "a stream's id")?;
            }
        }
        let mut roots = self.roots.clone();
        let mut clock = self.packet_header_clock.clone();
        let scopes = [Scope::PacketContext, Scope::EventHeader, Scope::CommonContext];
        for (scope, part) in scopes.into_iter().zip(contents.parts) {
            let Some((at, class)) = part else { continue };
            let mut structure = self.part(scope, &roots, &class, at)?;
            roots.set(scope, class);
            match scope {
                Scope::PacketContext => roles::packet_context(&mut structure, at)?,
                Scope::EventHeader => roles::event_header(&mut structure, at)?,
                _ => (),
            }
            if scope != Scope::CommonContext {
                let clocks = &mut self.schema.clocks;
                clocks::map_timestamps(&mut structure, scope, clocks, self.unread.clocks, at)?;
            }
            clock.look(&structure);
            match scope {
                Scope::PacketContext => made.packet_context = Some(structure),
                Scope::EventHeader => made.event_header = Some(structure),
                _ => made.event_common_context = Some(structure),
            }
        }
        made.clock = clock.only(at, made.id, &self.schema.clocks)?;
        if let Some(&before) = self.stream_ids.get(&made.id) {
            self.ambiguous.note_stream(&self.schema, before, &made);
            return Err(duplicate(at, "stream", made.id.to_string()));
        }
        self.names
            .count(at, 2 * (size_of::<StreamClass>() + size_of::<UnfinishedStream>()) + ENTRY)?;
        self.add_stream(made, UnfinishedStream { roots, events: HashSet::new(), clock });
        Ok(())
    }

    fn add_stream(&mut self, made: StreamClass, stream: UnfinishedStream) -> usize {
        let index = self.streams.len();
        self.stream_ids.insert(made.id, index);
        self.schema.streams.push(made);
        self.streams.push(stream);
        index
    }

    /// Returns the index of an event's stream. In a text without stream blocks, events belong to an implicit stream
    /// without headers and contexts. If a stream block could not be read, such events are not shown, since the fields
    /// before theirs are unknown.
    fn stream_of(&mut self, at: u32, id: Option<u64>) -> TsdlResult<usize> {
        let is_hidden = self.unread.streams.is_certain || self.unread.streams.possible_from < at;
        let is_known = id.is_some_and(|id| self.stream_ids.contains_key(&id));
        // If the stream is known, a block of an unknown kind does not matter.
        let is_alone = self.streams.is_empty() || self.unread.streams.is_certain;
        if is_hidden && is_alone && !is_known {
            let what = "the stream of the event, whose block";
            return Err(Fault::new(at, MetadataProblem::NotRead { what }));
        }
        if self.streams.is_empty() && id.unwrap_or(0) == 0 {
            let clock = self.packet_header_clock.clone();
            let made = StreamClass {
                clock: clock.only(at, 0, &self.schema.clocks)?,
                ..Default::default()
            };
            let (roots, events) = (self.roots.clone(), HashSet::new());
            return Ok(self.add_stream(made, UnfinishedStream { roots, events, clock }));
        }
        match id {
            Some(id) => {
                let found = self.stream_ids.get(&id).copied();
                found.ok_or_else(|| unknown(at, "stream", id.to_string()))
            }
            None if self.streams.len() == 1 => Ok(0),
            None => {
                let (what, of) = ("stream_id, and there are several streams", "the event");
                Err(Fault::new(at, MetadataProblem::Missing { what, of }))
            }
        }
    }

    fn event(&mut self, at: u32, statements: &[Statement<'t>]) -> TsdlResult<()> {
        let contents = self.block(statements, &["context", "fields"])?;
        let mut made = EventClass::default();
        let mut stream_id = None;
        for Attribute { name, value, .. } in &contents.attributes {
            match name.as_ref() {
                "name" => made.name = text(value, "an event's name")?,
                "id" => made.id = number(value, "an event's id")?,
                "stream_id" => stream_id = Some(number(value, "a stream's id")?),
                "loglevel" => {
                    let (from, to) = (i64::MIN.into(), i64::MAX.into());
                    made.loglevel =
                        Some(ranged(value, "a log level", from, to, "an integer")? as i64);
                }
                "model.emf.uri" => made.emf_uri = Some(text(value, "a model's link")?),
                _ => (),
            }
        }
        let index = self.stream_of(at, stream_id)?;
        let Some(stream) = self.streams.get(index) else { return Ok(()) };
        let is_second = stream.events.contains(&made.id);
        let (mut roots, mut clock) = (stream.roots.clone(), stream.clock.clone());
        for (scope, part) in
            [Scope::SpecificContext, Scope::Payload].into_iter().zip(contents.parts)
        {
            let Some((at, class)) = part else { continue };
            let structure = self.part(scope, &roots, &class, at)?;
            roots.set(scope, class);
            clock.look(&structure);
            match scope {
                Scope::SpecificContext => made.specific_context = Some(structure),
                _ => made.payload = Some(structure),
            }
        }
        if is_second {
            self.ambiguous.note_event(&self.schema, index, &made);
            return Err(duplicate(at, "event", made.id.to_string()));
        }
        let text = heap(made.name.len()) + made.emf_uri.as_ref().map_or(0, |uri| heap(uri.len()));
        self.names.count(at, 2 * size_of::<EventClass>() + text + ENTRY / 2)?;
        self.keep_event(at, index, made, clock)
    }

    fn keep_event(
        &mut self,
        at: u32,
        index: usize,
        made: EventClass,
        clock: clocks::StreamClocks,
    ) -> TsdlResult<()> {
        let streams = self.schema.streams.get_mut(index).zip(self.streams.get_mut(index));
        let Some((class, stream)) = streams else { return Ok(()) };
        class.clock = clock.only(at, class.id, &self.schema.clocks)?;
        stream.clock = clock;
        stream.events.insert(made.id);
        class.events.push(made);
        Ok(())
    }
}

/// Returns whether a name begins or ends like that of a part, so that it is probably misspelled.
fn is_slip(name: &str, parts: &[&str]) -> bool {
    const SAME: usize = 3;
    let (name, count) = (name.as_bytes(), name.len().min(SAME));
    parts.iter().any(|part| {
        let part = part.as_bytes();
        part.get(..count) == name.get(..count)
            || part.get(part.len().saturating_sub(count)..) == name.get(name.len() - count..)
    })
}

/// The contents of a stream's or an event's block.
struct Contents<'s, 't> {
    attributes: Vec<&'s Attribute<'t>>,
    /// Position and type of each part, if the block has it.
    parts: Vec<Option<(u32, Rc<Type>)>>,
}
