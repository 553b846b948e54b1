//! Makes spans of the timeline's and of what their records say, and hands them over in requests of limited size.

use std::io;

use prost::Message as _;
use strata_ctf::read::{Discarded, Event, Reader, Stream, TimeRange};
use strata_text::json;
use strata_timeline::slice_pairs::SPAN_KEY;
use strata_timeline::{
    first_steps, span_roles, Observer, Sources, SpanRoles, StreamSource, ThreadId, Timeline,
    UnpairedReason, UnpairedSpan, World,
};

use super::attributes::{cut, Attributes};
use super::classes::{key, Class, Ids, Role};
use super::ids::IdMaker;
use super::open_spans::{Note, Notes};
use super::proto::{
    AnyValue, KeyValue, Resource, ResourceSpans, Scope, ScopeSpans, Span, SpanEvent, Status,
    TracesData, KIND_INTERNAL, STATUS_ERROR,
};
use super::waits::States;
use super::{Encoding, Options, Summary};

/// The most spans of one request, as in OpenTelemetry's own exporters.
const SPANS_MAX: usize = 512;
/// The size at which a request is sent \[byte\]. Its last span may exceed this a little.
const REQUEST_BYTES: usize = 1 << 20;
/// Fields that do not become attributes, since the span itself has their values.
const OF_SPAN: &[&str] = &[SPAN_KEY, "trace_id", "span_id", "parent_id", "name", "kind"];
/// The name of a service whose process is not known, by OpenTelemetry's conventions.
const UNKNOWN_SERVICE: &str = "unknown_service";

/// Exports the spans of the messages of a reader, which must be passed in the order of time. Each request is passed to
/// `send`.
pub struct Exporter<S> {
    timeline: Timeline,
    spans: Spans,
    encoding: Encoding,
    send: S,
}

impl<S: FnMut(&[u8]) -> io::Result<()>> Exporter<S> {
    /// Begins an export.
    pub fn new(reader: &Reader, options: Options, send: S) -> Exporter<S> {
        let Options { range, pairs, encoding, states } = options;
        let roles = span_roles(reader, &pairs);
        let mut timeline = Timeline::with_spans(reader, roles.clone());
        timeline.begin(&first_steps(reader, TimeRange::ALL, &|| false).unwrap_or_default());
        let spans = Spans::new(reader, roles, range, states);
        Exporter { timeline, spans, encoding, send }
    }

    /// Takes the next event record. `selected`: true if its span is to be exported.
    ///
    /// # Errors
    /// Returns the error of `send`.
    #[inline]
    pub fn event(&mut self, event: &Event<'_>, selected: bool) -> io::Result<()> {
        self.timeline.event(event, selected, &mut self.spans);
        match self.spans.request.is_full() {
            true => self.hand_over(),
            false => Ok(()),
        }
    }

    /// Handles a loss of event records, which may include the ends of open spans.
    pub fn discarded(&mut self, discarded: &Discarded<'_>) {
        self.timeline.discarded(discarded);
    }

    /// Handles a damaged place of a trace.
    pub fn damage(&mut self, stream: Option<&Stream>) {
        if let Some(stream) = stream {
            self.timeline.gap(stream.index(), None, None);
        }
    }

    /// Sends the remaining spans, and returns the summary.
    ///
    /// # Errors
    /// Returns the error of `send`.
    pub fn finish(mut self) -> io::Result<Summary> {
        self.timeline.finish(&mut self.spans);
        if self.spans.request.count > 0 {
            self.hand_over()?;
        }
        let world = self.timeline.world();
        let mut summary = self.spans.summary;
        summary.threads_left_out = world.threads.left_out();
        summary.names_left_out = world.names.left_out();
        Ok(summary)
    }

    #[inline(never)]
    fn hand_over(&mut self) -> io::Result<()> {
        let Request { data, count, .. } = std::mem::take(&mut self.spans.request);
        let bytes = match self.encoding {
            Encoding::Json => json::compact(&data).into_bytes(),
            Encoding::Protobuf => data.encode_to_vec(),
        };
        (self.send)(&bytes)?;
        let summary = &mut self.spans.summary;
        summary.spans += count as u64;
        summary.bytes = summary.bytes.saturating_add(bytes.len() as u64);
        summary.requests += 1;
        Ok(())
    }
}

/// A request that is being filled.
#[derive(Debug, Default)]
struct Request {
    data: TracesData,
    /// The process of each member of `data`.
    processes: Vec<ProcessKey>,
    count: usize,
    bytes: usize,
}

/// The process of a span: the process's first thread, or the trace if threads are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessKey {
    Thread(ThreadId),
    Stream(usize),
}

impl Request {
    fn is_full(&self) -> bool {
        self.count >= SPANS_MAX || self.bytes >= REQUEST_BYTES
    }

    fn add(&mut self, of: ProcessKey, span: Span, resource: impl FnOnce() -> Resource) {
        let place = self.processes.iter().rposition(|it| *it == of).unwrap_or_else(|| {
            let scope =
                Scope { name: "strata".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
            let scope_spans = vec![ScopeSpans { scope: Some(scope), spans: Vec::new() }];
            let resource = Some(resource());
            self.data.resource_spans.push(ResourceSpans { resource, scope_spans });
            self.processes.push(of);
            self.processes.len() - 1
        });
        self.count += 1;
        self.bytes = self.bytes.saturating_add(span.encoded_len());
        let of = self.data.resource_spans.get_mut(place);
        if let Some(scope) = of.and_then(|of| of.scope_spans.first_mut()) {
            scope.spans.push(span);
        }
    }
}

/// A span that has ended with the present record.
#[derive(Debug)]
struct EndedSpan {
    span: strata_timeline::Span,
    note: Option<Note>,
}

/// Collects spans.
pub(super) struct Spans {
    range: TimeRange,
    roles: SpanRoles,
    /// Classes by [`strata_ctf::read::EventClass::index`], each made at the class' first record.
    classes: Vec<Option<Class>>,
    /// The sources by [`strata_ctf::read::Stream::index`].
    sources: Vec<StreamSource>,
    states: Option<States>,
    notes: Notes,
    ended: Option<EndedSpan>,
    /// True if the present record began a span for which the timeline has no room.
    is_refused: bool,
    request: Request,
    pub(super) summary: Summary,
    /// True if spans are collected only if they have ids of OpenTelemetry, or are parts of such.
    is_of_requests: bool,
}

impl Spans {
    pub(super) fn new(
        reader: &Reader,
        roles: SpanRoles,
        range: TimeRange,
        states: Option<States>,
    ) -> Spans {
        let mut classes = Vec::new();
        classes.resize_with(reader.event_classes(), || None);
        Spans {
            range,
            roles,
            classes,
            sources: Sources::new(reader).streams,
            states,
            notes: Notes::default(),
            ended: None,
            is_refused: false,
            request: Request::default(),
            summary: Summary::default(),
            is_of_requests: false,
        }
    }

    /// Collects only spans that have ids of OpenTelemetry, or are parts of such.
    pub(super) fn of_requests(self) -> Spans {
        Spans { is_of_requests: true, ..self }
    }

    /// Returns whether so many spans are collected that the caller must take them.
    pub(super) fn is_full(&self) -> bool {
        self.request.is_full()
    }

    /// Removes and returns the collected spans.
    pub(super) fn take(&mut self) -> Vec<ResourceSpans> {
        std::mem::take(&mut self.request).data.resource_spans
    }

    /// Keeps the ids and fields in the record that begins a span.
    fn begin(&mut self, world: &World, event: &Event<'_>, class: &Class, who: Option<ThreadId>) {
        let Role::Begins { key: key_field, elapsed } = &class.role else { return };
        let name = event.class().name();
        let Some(of) = self.roles.get(name).map(|role| role.name.clone()) else { return };
        let elapsed = elapsed.as_ref().and_then(|field| event.integer(field)).unwrap_or(0);
        let time = event.time().unwrap_or(world.now);
        let begin = time.saturating_sub_unsigned(u64::try_from(elapsed).unwrap_or(0));
        let key = key_field.as_ref().and_then(|field| key(event, field));
        let told = class.ids(event);
        let around = who.filter(|_| told.is_none() && key.is_none());
        let around = around.and_then(|thread| self.notes.around(thread));
        let made = self.made(world, event, (who, begin));
        let ids = match (told, around) {
            (Some(told), _) => told,
            (None, Some((around, _))) => Ids { trace: around.trace, span: made.span },
            (None, None) => made,
        };
        let mut attributes = Attributes::default();
        let is_told = told.is_some();
        attributes.add_fields(event, &class.fields, "begin.", without(is_told));
        let note = Note {
            of,
            begin,
            thread: who,
            key,
            ids,
            is_told,
            is_of_request: is_told || around.is_some_and(|(_, is_of_request)| is_of_request),
            parent: match is_told {
                true => class.parent(event),
                false => around.map(|(around, _)| around.span),
            },
            name: class.name(event).filter(|_| is_told).map(cut),
            kind: if is_told { class.kind(event) } else { KIND_INTERNAL },
            attributes,
            events: Vec::new(),
            event_bytes: 0,
            omitted_events: 0,
            error: None,
        };
        if !self.notes.add(note) {
            self.summary.without_begin += 1;
        }
    }

    /// Computes ids for a span from the values that distinguish it from all others.
    fn made(&self, world: &World, event: &Event<'_>, (who, begin): (Option<ThreadId>, i64)) -> Ids {
        let source = self.sources.get(event.stream().index());
        let machine = source.and_then(|source| world.machines.get(usize::from(source.machine)));
        let process = source.and_then(|source| source.process).unwrap_or(0);
        let thread = who.and_then(|who| world.threads.get(who)).map_or(0, |thread| thread.tid);
        let (trace, span) = IdMaker::new()
            .add(machine.map_or("", String::as_str).as_bytes())
            .add(&process.to_le_bytes())
            .add(&thread.to_le_bytes())
            .add(event.class().name().as_bytes())
            .add(&begin.to_le_bytes())
            .add(&self.notes.at(begin).to_le_bytes())
            .finish();
        Ids { trace, span }
    }

    /// Adds a record to the open span whose ids it has.
    fn within(&mut self, world: &World, event: &Event<'_>, class: &Class, is_error: bool) {
        let Some(ids) = class.ids(event) else { return };
        if is_error {
            let why = class.description(event).map(cut).unwrap_or_default();
            return self.notes.fail(&ids, why);
        }
        self.notes.add_event(&ids, || {
            let mut attributes = Attributes::default();
            attributes.add_fields(event, &class.fields, "field.", OF_SPAN);
            SpanEvent {
                time_unix_nano: unix(event.time().unwrap_or(world.now)),
                name: event.class().name().to_owned(),
                dropped_attributes_count: attributes.omitted,
                attributes: attributes.all,
            }
        });
    }

    /// Exports a span.
    fn end(&mut self, world: &World, event: &Event<'_>, class: &Class, ended: EndedSpan) {
        let EndedSpan { span, note } = ended;
        let name = world.names.text(span.name);
        // Where there were too many names, the role of the event has it.
        let role = self.roles.get(event.class().name()).filter(|_| name.is_empty());
        let name = role.map_or(name, |role| role.name.clone());
        let note = note.unwrap_or_else(|| Note {
            of: name.clone(),
            begin: span.begin,
            thread: span.begun_by,
            key: span.key.clone(),
            ids: self.made(world, event, (span.begun_by, span.begin)),
            is_told: false,
            is_of_request: false,
            parent: None,
            name: None,
            kind: KIND_INTERNAL,
            attributes: Attributes::default(),
            events: Vec::new(),
            event_bytes: 0,
            omitted_events: 0,
            error: None,
        });
        if self.is_of_requests && !note.is_of_request {
            return;
        }
        let mut attributes = note.attributes;
        attributes.add_fields(event, &class.fields, "end.", without(note.is_told));
        let thread = span.thread.or(span.begun_by);
        if let Some(found) = thread.and_then(|thread| world.threads.get(thread)) {
            attributes.add("thread.id", AnyValue::integer(found.tid.into()));
            let name = thread.map(|thread| world.thread_name(thread)).unwrap_or_default();
            if !name.is_empty() {
                attributes.add("thread.name", AnyValue::text(name));
            }
        }
        if note.name.is_some() {
            attributes.add("strata.span", AnyValue::text(note.of));
        }
        if let (Some(states), Some(thread)) = (&mut self.states, thread) {
            if !states.add(&mut attributes, thread, (span.begin, span.end)) {
                self.summary.without_path += 1;
            }
        }
        let status = |message| Status { message, code: STATUS_ERROR };
        self.summary.before_1970 += u64::from(span.begin < 0);
        let made = Span {
            trace_id: note.ids.trace.to_vec(),
            span_id: note.ids.span.to_vec(),
            parent_span_id: note.parent.map(|parent| parent.to_vec()).unwrap_or_default(),
            name: note.name.unwrap_or(name),
            kind: note.kind,
            start_time_unix_nano: unix(span.begin),
            end_time_unix_nano: unix(span.end),
            dropped_attributes_count: attributes.omitted,
            attributes: attributes.all,
            events: note.events,
            dropped_events_count: note.omitted_events,
            status: note.error.map(status),
        };
        let stream = event.stream().index();
        let process = thread.map(|thread| world.process_of(thread));
        let of = process.map_or(ProcessKey::Stream(stream), ProcessKey::Thread);
        let source = self.sources.get(stream);
        self.request.add(of, made, || resource(world, process, source));
    }
}

/// Returns the names of the fields that do not become attributes, since the span itself has their values. `is_told`:
/// true if the span has ids of OpenTelemetry.
fn without(is_told: bool) -> &'static [&'static str] {
    match is_told {
        true => OF_SPAN,
        false => OF_SPAN.get(..1).unwrap_or_default(),
    }
}

/// Describes a process by the attributes that OpenTelemetry's conventions name.
fn resource(world: &World, process: Option<ThreadId>, source: Option<&StreamSource>) -> Resource {
    let found = process.and_then(|process| world.threads.get(process));
    let machine = found.map(|it| it.machine).or(source.map(|source| source.machine));
    let machine = machine.and_then(|machine| world.machines.get(usize::from(machine)));
    let name = process.map(|process| world.process_name(process)).filter(|name| !name.is_empty());
    let name = name.or_else(|| source.and_then(|source| source.process_name.clone()));
    let number = found.map(|it| i64::from(it.tid)).or(source.and_then(|source| source.process));
    let program = found.map(|it| world.names.text(it.program)).unwrap_or_default();
    let name = name.unwrap_or_else(|| UNKNOWN_SERVICE.to_owned());
    let mut attributes = vec![("service.name", AnyValue::text(name))];
    if let Some(machine) = machine.filter(|machine| !machine.is_empty()) {
        attributes.push(("host.name", AnyValue::text(machine.as_str())));
    }
    if let Some(number) = number {
        attributes.push(("process.pid", AnyValue::integer(number)));
    }
    if !program.is_empty() {
        attributes.push(("process.executable.name", AnyValue::text(program)));
    }
    let pair =
        |(key, value): (&str, AnyValue)| KeyValue { key: key.to_owned(), value: Some(value) };
    Resource { attributes: attributes.into_iter().map(pair).collect() }
}

/// Converts a time to the protocol's form. Times before 1970, which the protocol does not support, become 0.
fn unix(time: i64) -> u64 {
    u64::try_from(time).unwrap_or(0)
}

// All is observed that the pass for states observes, so that threads have the same numbers: see `States`.
impl Observer for Spans {
    const RECORDS: bool = true;

    fn record(&mut self, world: &World, event: &Event<'_>, who: Option<ThreadId>, _: bool) {
        let (ended, is_refused) = (self.ended.take(), std::mem::take(&mut self.is_refused));
        let Some(slot) = self.classes.get_mut(event.class().index()) else { return };
        // It is put back below: what follows changes other parts of this.
        let class = slot.take().unwrap_or_else(|| Class::new(event.class(), &self.roles));
        match class.role {
            Role::Begins { .. } if !is_refused => self.begin(world, event, &class, who),
            Role::Within { is_error } => self.within(world, event, &class, is_error),
            Role::Begins { .. } | Role::Ends | Role::None => {}
        }
        if let Some(ended) = ended {
            self.end(world, event, &class, ended);
        }
        if let Some(slot) = self.classes.get_mut(event.class().index()) {
            *slot = Some(class);
        }
    }

    fn span(&mut self, world: &World, span: &strata_timeline::Span) {
        let note = self.notes.take(span, &world.names.text(span.name));
        if span.selected && self.range.contains(span.end) {
            self.ended = Some(EndedSpan { span: span.clone(), note });
        }
    }

    fn unpaired_span(&mut self, world: &World, span: &UnpairedSpan) {
        match span.why {
            UnpairedReason::NoBegin => {}
            // It is reported before its record, of which there is no note yet.
            UnpairedReason::TooMany => self.is_refused = true,
            _ => self.notes.forget(span, &world.names.text(span.name)),
        }
        if span.selected && self.range.contains(span.time) {
            self.summary.unpaired += 1;
        }
    }
}
