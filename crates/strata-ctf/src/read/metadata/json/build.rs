//! Builds the schema from the fragments.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use super::error::{AtPart, JsonFault, JsonResult};
use super::fields::{Aliases, FieldClassMaker};
use super::locate::{locate, DescribedParts};
use super::object::JsonObject;
use super::scalars::uuid;
use super::split::{split, FragmentText};
use super::value::{parse, Json, MemoryBudget, FRAGMENT};
use super::{attributes, draft_spellings, name_text};
use crate::read::metadata::duplicate_classes::AmbiguousClasses;
use crate::read::metadata::error::{Fault as Located, Faults, LineFinder};
use crate::read::metadata::heap::heap;
use crate::read::metadata::limits;
use crate::read::metadata::{MetadataError, MetadataProblem, Parsed};
use strata_model::schema::{EventClass, Schema, Scope, StreamClass, Structure};
use strata_model::{ClockClass, EnvValue};

/// Kinds of fragments that must be known before any packet can be read.
const NEEDED: [&str; 2] = ["preamble", "trace-class"];

/// The types of fragments.
const KINDS: [&str; 6] = [
    "preamble",
    "field-class-alias",
    "trace-class",
    "clock-class",
    "data-stream-class",
    "event-record-class",
];

/// The properties that describe a part of packets or of event records.
const PARTS: [&str; 6] = [
    "packet-header-field-class",
    "packet-context-field-class",
    "event-record-header-field-class",
    "event-record-common-context-field-class",
    "specific-context-field-class",
    "payload-field-class",
];

/// Refuses a fragment that has a field class under another name than those of [`PARTS`]: a part that is ignored would
/// shift all following parts.
fn no_unknown_part(object: &JsonObject<'_>) -> JsonResult<()> {
    let known = ["field-class", "environment", "attributes", "extensions", "origin"];
    for (name, value) in object.0 {
        let name = name.as_str();
        if PARTS.contains(&name) || known.contains(&name) {
            continue;
        }
        let is_class = match value {
            Json::Object(members) => JsonObject(members).get("type").is_some(),
            _ => false,
        };
        if is_class || name.contains("field-class") {
            return Err(unknown("part", name));
        }
    }
    Ok(())
}

/// Builds the schema of a whole text. `damage` is a fault that was found before the text was parsed.
pub(crate) fn build(text: &[u8], damage: Option<MetadataError>) -> Result<Parsed, MetadataError> {
    let (mut builder, mut faults) = (SchemaBuilder::default(), Faults::default());
    for (number, piece) in (0u64..).zip(split(text)) {
        if number >= limits::BLOCKS {
            let what = "fragments";
            let (found, limit) = (number + 1, limits::BLOCKS);
            let what = MetadataProblem::TooMany { what, found, limit };
            faults.push(Located::new(place(piece.begin), what));
            break;
        }
        let (fault, is_needed) = match builder.piece(number, piece) {
            Ok(()) => continue,
            Err(fault) => fault,
        };
        if is_needed || number == 0 {
            return Err(LineFinder::new(text).locate(fault));
        }
        builder.unread();
        faults.push(fault);
    }
    if !builder.has_preamble {
        let (what, of) = ("preamble", "the metadata");
        let missing = Located::new(0, MetadataProblem::Missing { what, of });
        return Err(damage.unwrap_or_else(|| LineFinder::new(text).locate(missing)));
    }
    builder.schema.is_packet_header_unread &= !builder.has_trace;
    builder.ambiguous.remove_from(&mut builder.schema);
    let problems = faults.into_problems(text, damage);
    Ok(Parsed { schema: builder.schema, problems })
}

fn place(byte: usize) -> u32 {
    u32::try_from(byte).unwrap_or(u32::MAX) // of at most TEXT_BYTES
}

/// Converts an error of the JSON parser to a problem with its position.
fn syntax(piece: FragmentText<'_>, error: &serde_json::Error, is_spent: bool) -> Located {
    let line = error.line().saturating_sub(1);
    let lines = piece.text.split_inclusive(|&byte| byte == b'\n');
    let before: usize = lines.take(line).map(<[u8]>::len).sum();
    let at = piece.begin + (before + error.column().saturating_sub(1)).min(piece.text.len());
    let text = error.to_string();
    let what = match is_spent {
        true => {
            let what = "bytes of memory for one fragment";
            MetadataProblem::TooMany { what, found: FRAGMENT + 1, limit: FRAGMENT }
        }
        false => {
            let end = text.rfind(" at line ").unwrap_or(text.len());
            MetadataProblem::Syntax(text.get(..end).unwrap_or_default().to_owned())
        }
    };
    Located::new(place(at), what)
}

struct SchemaBuilder {
    schema: Schema,
    aliases: Aliases,
    clocks: HashMap<String, usize>,
    streams: HashMap<u64, usize>,
    /// Events that are described so far, by index of the stream class and id.
    events: HashSet<(usize, u64)>,
    ambiguous: AmbiguousClasses,
    has_preamble: bool,
    has_trace: bool,
    /// Kind of the last fragment, if it is known.
    kind: Option<&'static str>,
    /// Memory for everything that the schema keeps.
    budget: MemoryBudget,
    lookups: Cell<u64>,
}

impl Default for SchemaBuilder {
    fn default() -> SchemaBuilder {
        SchemaBuilder {
            schema: Schema::default(),
            aliases: Aliases::default(),
            clocks: HashMap::new(),
            streams: HashMap::new(),
            events: HashSet::new(),
            ambiguous: AmbiguousClasses::default(),
            has_preamble: false,
            has_trace: false,
            kind: None,
            budget: MemoryBudget::new(limits::MEMORY),
            lookups: Cell::new(0),
        }
    }
}

fn duplicate(what: &'static str, name: impl ToString) -> Box<JsonFault> {
    JsonFault::new(MetadataProblem::Duplicate { what, name: name.to_string() })
}

fn unknown(what: &'static str, name: impl ToString) -> Box<JsonFault> {
    JsonFault::new(MetadataProblem::Unknown { what, name: name.to_string() })
}

/// Returns what a fragment describes, for messages.
fn kind(json: &Json) -> String {
    let Json::Object(members) = json else { return String::new() };
    let object = JsonObject(members);
    let text = |name| match object.get(name) {
        Some(Json::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let Some(kind) = text("type") else { return String::new() };
    let shown: String = name_text::shown(kind).chars().take(80).collect();
    match (text("name"), object.get("id")) {
        (Some(name), _) => format!(" ({shown} {})", strata_model::printable(name)),
        (None, Some(id)) => format!(" ({shown} {})", id.shown()),
        (None, None) => format!(" ({shown})"),
    }
}

impl SchemaBuilder {
    /// Records that the last fragment could not be read. A fragment of unknown kind may be a stream class, or, before
    /// all stream classes, the trace class.
    fn unread(&mut self) {
        let schema = &mut self.schema;
        schema.is_packet_header_unread |= self.kind.is_none() && schema.streams.is_empty();
        schema.is_stream_unread |= self.kind.is_none_or(|kind| kind == "data-stream-class");
    }

    /// Parses one fragment and adds its description to the schema. On an error also returns whether packets cannot be
    /// read without the fragment.
    fn piece(&mut self, number: u64, piece: FragmentText<'_>) -> Result<(), (Located, bool)> {
        let budget = MemoryBudget::new(FRAGMENT);
        self.kind = None;
        let mut json = parse(piece.text, &budget)
            .map_err(|error| (syntax(piece, &error, budget.is_spent()), false))?;
        let kind = kind(&json);
        let done = draft_spellings::translate(&mut json, &budget)
            .and_then(|()| json.object())
            .and_then(|object| self.fragment(number, &object, &budget));
        done.map_err(|fault| {
            let white = piece.text.len() - piece.text.trim_ascii_start().len();
            let is_needed = match &json {
                Json::Object(members) => match JsonObject(members).get("type") {
                    Some(Json::Text(kind)) => NEEDED.contains(&kind.as_str()),
                    _ => false,
                },
                _ => false,
            };
            let what = fault.of_fragment(number, kind);
            (Located::new(place(piece.begin + white), what), is_needed)
        })
    }

    fn fragment(
        &mut self,
        number: u64,
        object: &JsonObject<'_>,
        used: &MemoryBudget,
    ) -> JsonResult<()> {
        let kind = object.required("type", Json::text)?;
        if (kind == "preamble") != (number == 0) {
            let expected = "one preamble, in front of all other fragments";
            return Err(JsonFault::value("it", kind, expected)).at("type");
        }
        self.kind = KINDS.into_iter().find(|known| *known == kind);
        no_unknown_part(object)?;
        match kind {
            "preamble" => self.preamble(object),
            "field-class-alias" => self.alias(object, used),
            "trace-class" => self.trace(object),
            "clock-class" => self.clock(object),
            "data-stream-class" => self.stream(object),
            "event-record-class" => self.event(object),
            _ => Err(JsonFault::value("it", kind, "a type of fragments of CTF 2")).at("type"),
        }
    }

    fn preamble(&mut self, object: &JsonObject<'_>) -> JsonResult<()> {
        let version = object.required("version", Json::unsigned)?;
        if version != 2 {
            return Err(JsonFault::value("it", version, "2")).at("version");
        }
        if let Some(extensions) = object.optional("extensions", Json::object)? {
            for (space, names) in extensions.0 {
                let names = names.object().at(space).at("extensions")?;
                if let Some((name, _)) = names.0.first() {
                    let name = format!("{space}: {name}");
                    return Err(JsonFault::new(MetadataProblem::Extension(name))).at("extensions");
                }
            }
        }
        self.schema.uuid = object.optional("uuid", uuid)?;
        self.has_preamble = true;
        Ok(())
    }

    fn alias(&mut self, object: &JsonObject<'_>, used: &MemoryBudget) -> JsonResult<()> {
        let name = object.required("name", Json::text)?;
        let class = object.required("field-class", |class| Ok(class.clone()))?;
        self.budget.keep(usize::try_from(used.taken(FRAGMENT)).unwrap_or(usize::MAX))?;
        match self.aliases.add(name, class.clone()) {
            true => Ok(()),
            false => {
                self.aliases.forget_other(name, class);
                Err(duplicate("field class alias", name))
            }
        }
    }

    fn environment(&mut self, object: &JsonObject<'_>) -> JsonResult<()> {
        let entries = object.optional("environment", Json::object)?;
        for (name, value) in entries.map(|entries| entries.0).unwrap_or_default() {
            let (made, bytes) = match value {
                Json::Text(text) => (EnvValue::Text(text.clone()), text.len()),
                value => (EnvValue::Integer(value.signed().at(name).at("environment")?), 0),
            };
            self.budget
                .keep(2 * size_of::<(String, EnvValue)>() + heap(name.len()) + heap(bytes))?;
            self.schema.environment.push((name_text::shown(name), made));
        }
        Ok(())
    }

    fn trace(&mut self, object: &JsonObject<'_>) -> JsonResult<()> {
        if std::mem::replace(&mut self.has_trace, true) {
            return Err(duplicate("trace class", object.text("name")?.unwrap_or_default()));
        }
        if !self.schema.streams.is_empty() {
            let expected = "in front of all data stream classes";
            return Err(JsonFault::value("the trace class", "behind one", expected));
        }
        self.environment(object)?;
        self.schema.namespace = object.text("namespace")?.map(str::to_owned);
        self.schema.name = object.text("name")?.map(str::to_owned);
        self.schema.uid = object.text("uid")?.map(str::to_owned);
        self.schema.packet_header = object.optional("packet-header-field-class", |json| {
            let mut maker =
                FieldClassMaker::new(&self.aliases, &self.budget, Scope::PacketHeader, None);
            let mut part = maker.part(json)?;
            let (scope, roots) = (Scope::PacketHeader, DescribedParts::default());
            locate(&mut part, &maker.pending, scope, roots, &self.lookups)?;
            self.schema.packet_uuid = maker.uuid;
            Ok(part)
        })?;
        Ok(())
    }

    fn clock(&mut self, object: &JsonObject<'_>) -> JsonResult<()> {
        let id = object.required("id", Json::text)?;
        let clock = clock(id, object)?;
        if let Some(index) = self.clocks.get(id) {
            // babeltrace2 2.1 repeats the clock for each data stream class.
            return match self.schema.clocks.get(*index) == Some(&clock) {
                true => Ok(()),
                false => {
                    self.ambiguous.note_clock(*index);
                    Err(duplicate("clock class", id))
                }
            };
        }
        let text = heap(clock.name.len()) + heap(clock.description.len()) + heap(id.len());
        self.budget.keep(2 * size_of::<ClockClass>() + text)?;
        self.clocks.insert(id.to_owned(), self.schema.clocks.len());
        self.schema.clocks.push(clock);
        Ok(())
    }

    /// Builds a part, whose lengths and selectors may be in the parts of `roots`.
    fn part(
        &self,
        object: &JsonObject<'_>,
        name: &'static str,
        scope: Scope,
        roots: DescribedParts<'_>,
        clock: Option<usize>,
    ) -> JsonResult<Option<Structure>> {
        object.optional(name, |json| {
            let mut maker = FieldClassMaker::new(&self.aliases, &self.budget, scope, clock);
            let mut part = maker.part(json)?;
            locate(&mut part, &maker.pending, scope, roots, &self.lookups)?;
            Ok(part)
        })
    }

    fn stream(&mut self, object: &JsonObject<'_>) -> JsonResult<()> {
        let id = object.optional("id", Json::unsigned)?.unwrap_or(0);
        let clock = object.optional("default-clock-class-id", |json| {
            let id = json.text()?;
            self.clocks.get(id).copied().ok_or_else(|| unknown("clock class", id))
        })?;
        let header = self.schema.packet_header.as_ref();
        let roots = DescribedParts::default().with(Scope::PacketHeader, header);
        let scope = Scope::PacketContext;
        let context = self.part(object, "packet-context-field-class", scope, roots, clock)?;
        let roots = roots.with(scope, context.as_ref());
        let scope = Scope::EventHeader;
        let name = "event-record-header-field-class";
        let event_header = self.part(object, name, scope, roots, clock)?;
        let roots = roots.with(scope, event_header.as_ref());
        let name = "event-record-common-context-field-class";
        let common = self.part(object, name, Scope::CommonContext, roots, clock)?;
        self.budget.keep(2 * size_of::<StreamClass>())?;
        let stream = StreamClass {
            id,
            name: object.text("name")?.map(str::to_owned),
            clock,
            packet_context: context,
            event_header,
            event_common_context: common,
            events: Vec::new(),
        };
        if let Some(before) = self.streams.get(&id) {
            self.ambiguous.note_stream(&self.schema, *before, &stream);
            return Err(duplicate("data stream class", id));
        }
        self.streams.insert(id, self.schema.streams.len());
        self.schema.streams.push(stream);
        Ok(())
    }

    fn event(&mut self, object: &JsonObject<'_>) -> JsonResult<()> {
        let id = object.optional("id", Json::unsigned)?.unwrap_or(0);
        let stream_id = object.optional("data-stream-class-id", Json::unsigned)?.unwrap_or(0);
        let index = self.streams.get(&stream_id).copied();
        let index = index.ok_or_else(|| unknown("data stream class", stream_id))?;
        let Some(stream) = self.schema.streams.get(index) else { return Ok(()) };
        let roots = DescribedParts([
            self.schema.packet_header.as_ref(),
            stream.packet_context.as_ref(),
            stream.event_header.as_ref(),
            stream.event_common_context.as_ref(),
            None,
            None,
        ]);
        let scope = Scope::SpecificContext;
        let name = "specific-context-field-class";
        let specific = self.part(object, name, scope, roots, stream.clock)?;
        let roots = roots.with(scope, specific.as_ref());
        let name = "payload-field-class";
        let payload = self.part(object, name, Scope::Payload, roots, stream.clock)?;
        let (loglevel, emf_uri) = attributes::of_event(object);
        let name = object.text("name")?.unwrap_or_default().to_owned();
        let text = heap(name.len()) + emf_uri.as_ref().map_or(0, |uri| heap(uri.len()));
        self.budget.keep(2 * size_of::<EventClass>() + text)?;
        let class = EventClass { id, name, loglevel, emf_uri, specific_context: specific, payload };
        if !self.events.insert((index, id)) {
            self.ambiguous.note_event(&self.schema, index, &class);
            return Err(duplicate("event record class", id));
        }
        if let Some(stream) = self.schema.streams.get_mut(index) {
            stream.events.push(class);
        }
        Ok(())
    }
}

fn clock(id: &str, object: &JsonObject<'_>) -> JsonResult<ClockClass> {
    let frequency = object.required("frequency", Json::unsigned)?;
    if frequency == 0 {
        return Err(JsonFault::value("it", 0, "1 to 18446744073709551615 Hz")).at("frequency");
    }
    let name = "offset-from-origin";
    let offset = object.optional(name, Json::object)?.unwrap_or(JsonObject(&[]));
    let offset_s = offset.optional("seconds", Json::signed).at(name)?.unwrap_or(0);
    let offset_cycles = offset.optional("cycles", Json::unsigned).at(name)?.unwrap_or(0);
    if offset_cycles >= frequency {
        let expected = "less than the frequency";
        return Err(JsonFault::value("it", offset_cycles, expected)).at("cycles").at(name);
    }
    object.optional("accuracy", Json::unsigned)?;
    let (absolute, identity) = origin(object)?;
    Ok(ClockClass {
        name: name_text::shown(object.text("name")?.unwrap_or(id)),
        // Clocks with the same origin, or the same identity, can be compared.
        uuid: identity.and_then(|uid| uid.parse().ok()),
        description: object.text("description")?.unwrap_or_default().to_owned(),
        frequency,
        precision: object.optional("precision", Json::unsigned)?.unwrap_or(0),
        offset_s,
        offset_cycles,
        absolute,
    })
}

/// Returns whether a clock counts from 1970, and the origin that it shares with other clocks.
fn origin<'j>(object: &JsonObject<'j>) -> JsonResult<(bool, Option<&'j str>)> {
    let uid = object.text("uid")?;
    let origin = object.optional("origin", |json| match json {
        Json::Text(name) if name == "unix-epoch" => Ok(None),
        Json::Object(_) => {
            let origin = json.object()?;
            origin.required("name", Json::text)?;
            origin.required("uid", Json::text).map(Some)
        }
        other => {
            let expected = "'unix-epoch' or an object with 'name' and 'uid'";
            Err(JsonFault::value("it", other.shown(), expected))
        }
    })?;
    Ok(match origin {
        Some(None) => (true, uid),
        Some(origin) => (false, origin),
        None => (false, uid),
    })
}
