//! Blocks to the schema.

use super::blocks::{self, Block, BlockKind};
use super::declare::TypeMaker;
use super::error::{duplicate, unknown, Fault, Faults, LineFinder, MetadataError, MetadataProblem};
use super::resolve::{self, Roots};
use super::scope::{heap, TypeNames, ENTRY};
use super::syntax::{Attribute, Statement, ValueKind};
use super::types::Type;
use super::values::{self, attributes, number, ranged, text, uuid, SeenNames, TsdlResult};
use super::{parser, Parsed};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use strata_model::schema::{EventClass, Schema, Scope, StreamClass, Structure};
use strata_model::{ByteOrder, ClockClass, EnvValue};

mod clocks;
mod roles;

/// The schema of a whole text; `damage` is what was found on the way to it.
pub(super) fn build(text: &[u8], damage: Option<MetadataError>) -> Result<Parsed, MetadataError> {
    let mut faults = Faults::default();
    let blocks = blocks::split(text, &mut faults);
    for second in blocks.iter().filter(|block| block.kind == BlockKind::Trace).skip(1) {
        faults.push(duplicate(second.begin, "block", "trace"));
    }
    let mut builder = match Builder::new(text, &blocks) {
        Ok(builder) => builder,
        Err(fault) => {
            // Why there is no trace block may be found already.
            if blocks.iter().any(|block| block.kind == BlockKind::Trace) {
                for block in blocks.iter().filter(|block| block.begin < fault.at) {
                    // The block that is fatal is there once.
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
    // Types before what uses them, streams before their events, whatever the text's order.
    for kind in [BlockKind::Clock, BlockKind::Declaration, BlockKind::Environment] {
        builder.blocks(&blocks, kind);
    }
    if let Err(fault) = builder.trace() {
        return Err(fatal(text, builder.faults, fault));
    }
    builder.blocks(&blocks, BlockKind::Stream);
    builder.blocks(&blocks, BlockKind::Event);
    let Builder { schema, faults, .. } = builder;
    Ok(Parsed { schema, problems: faults.into_problems(text, damage) })
}

/// What keeps all of the text from being used; and in front of it the first thing that is wrong with the
/// text, which may be the reason.
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

/// A stream class that is being made.
struct UnfinishedStream {
    roots: Roots,
    /// Ids of its events.
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
    /// What the packet header is, for references to it.
    roots: Roots,
    packet_header_clock: clocks::StreamClocks,
    /// As `schema.streams`.
    streams: Vec<UnfinishedStream>,
    stream_ids: HashMap<u64, usize>,
    /// Index of each entry of the environment.
    entries: HashMap<String, usize>,
    faults: Faults,
}

impl<'t> Builder<'t> {
    /// With the byte order of the trace block, that all types need.
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
            entries: HashMap::new(),
            faults: Faults::default(),
        })
    }

    /// All blocks of a kind. One that is faulty is left out.
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
            // Those of streams are kept for the references of their events.
            if kind == BlockKind::Event {
                self.names.forget(declared);
            }
            if let Err(fault) = result {
                self.faults.push(fault);
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
                    // What other readers make of it: the same 64 bits.
                    Err(_) => EnvValue::Integer(*number as i64),
                },
                ValueKind::Text(text) => EnvValue::Text(text.clone().into_owned()),
                ValueKind::Word(word) => EnvValue::Text((*word).to_owned()),
                ValueKind::Path(path) => EnvValue::Text(path.show()),
            };
            let entries = &mut self.schema.environment;
            let index = *self.entries.entry(name.clone().into_owned()).or_insert(entries.len());
            // Of several with one name the last counts.
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
            // babeltrace2's writer says the same once for each stream class.
            if self.schema.clocks.get(before) == Some(&clock) {
                return Ok(());
            }
            return Err(duplicate(at, "clock", clock.name));
        }
        let text = heap(clock.name.len()) + heap(clock.description.len());
        self.names.count(at, 2 * (size_of::<ClockClass>() + text) + ENTRY)?;
        self.names.clocks.insert(clock.name.clone(), self.schema.clocks.len());
        self.schema.clocks.push(clock);
        Ok(())
    }

    /// The trace block, whose types may use all that is declared on the top level.
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
                    Statement::Definition { .. } => (),
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

    /// A part of packets or events.
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

    /// The definitions and attributes of a stream's or an event's block.
    fn block<'s>(
        &mut self,
        statements: &'s [Statement<'t>],
        parts: &[&str],
    ) -> TsdlResult<Contents<'s, 't>> {
        let mut seen = SeenNames::default();
        let mut contents = Contents { attributes: Vec::new(), parts: vec![None; parts.len()] };
        let byte_order = self.byte_order;
        self.names.scoped(|names| {
            let mut types = TypeMaker { names, byte_order };
            for statement in statements {
                seen.check(statement)?;
                match statement {
                    Statement::Declaration(declaration) => types.declare(declaration)?,
                    Statement::Attribute(attribute) => contents.attributes.push(attribute),
                    Statement::Definition { name, class, .. } => {
                        let place = parts.iter().position(|part| part == name);
                        if let Some(place) = place.and_then(|place| contents.parts.get_mut(place)) {
                            *place = Some((class.class.at, types.shaped(class)?));
                        }
                    }
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
        if self.stream_ids.contains_key(&made.id) {
            return Err(duplicate(at, "stream", made.id.to_string()));
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
                clocks::map_timestamps(&mut structure, scope, &mut self.schema.clocks, at)?;
            }
            clock.look(&structure);
            match scope {
                Scope::PacketContext => made.packet_context = Some(structure),
                Scope::EventHeader => made.event_header = Some(structure),
                _ => made.event_common_context = Some(structure),
            }
        }
        made.clock = clock.only(at, made.id, &self.schema.clocks)?;
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

    /// Without a stream's block, events are of a stream that has nothing but them.
    fn stream_of(&mut self, at: u32, id: Option<u64>) -> TsdlResult<usize> {
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
        if stream.events.contains(&made.id) {
            return Err(duplicate(at, "event", made.id.to_string()));
        }
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

/// What a stream's or an event's block says.
struct Contents<'s, 't> {
    attributes: Vec<&'s Attribute<'t>>,
    /// Position, and the type.
    parts: Vec<Option<(u32, Rc<Type>)>>,
}
