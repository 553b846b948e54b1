//! Event records as text, JSON and CSV.
//!
//! A [`Renderer`] appends one event record after the other to a buffer:
//!
//! ```no_run
//! use strata_analyze::render::{Options, Renderer};
//! use strata_ctf::read::{Message, Reader, TimeRange};
//!
//! let reader = Reader::open(&["my-trace"])?;
//! let mut renderer = Renderer::new(&Options::default());
//! let mut text = Vec::new();
//! let mut events = reader.events(TimeRange::ALL);
//! while let Some(message) = events.next() {
//!     if let Message::Event(event) = message {
//!         renderer.event(&event, &mut text);
//!     }
//! }
//! # Ok::<(), strata_ctf::read::OpenError>(())
//! ```
//!
//! The text is that of babeltrace2 2.0.4, byte for byte, with these exceptions. Every time before 1970 is in negative
//! seconds, not only the first. A step back in time has a negative delta and is no error. `~` follows the time of a
//! record of uncertain order: it may have been before a record of another machine that precedes it.

pub(crate) mod clock;
mod csv;
#[cfg(test)]
mod csv_tests;
mod discarded_lines;
pub(crate) mod escape;
pub(crate) mod field_selection;
mod format;
pub mod json;
pub mod line;
mod line_head;
pub mod number;
mod options;
mod part_json;
pub(crate) mod plan;
#[cfg(test)]
mod record_tests;
#[cfg(test)]
mod tests;
mod threads;
mod time_parser;
pub(crate) mod uncertain_order;
mod value;

pub use clock::{ClockStyle, Stamp};
pub use escape::csv_quote;
pub use field_selection::{FieldList, RecordPart};
pub use format::Format;
pub use jiff::tz::TimeZone;
pub use line::Lines;
pub use line_head::{Head, HeadItem};
pub use options::Options;
pub use threads::ThreadNames;
pub use time_parser::{When, WhenError};
pub use uncertain_order::Clocks;

use strata_ctf::read::{Discarded, Event, Reader};
use strata_text::json::quoted;

use crate::debug_info::{
    functions_json, InlinedFunction, KernelFunctions, NamedFunction, ResolvedPlace, Source,
    StackFrame, Stacks,
};

use clock::ClockText;
use csv::CsvColumns;
use field_selection::{Masked, ShownPart};
use line::TextPiece;
pub(crate) use line::TextSink;
use part_json::part_fields;
use plan::{ClassPlan, LazyTable, PacketPlan, PartPlan};
use uncertain_order::TimeOrder;
use value::ValueWriter;

/// A place in the text for the time since the previous event record, which was not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaGap {
    /// The byte of the text at which the time belongs.
    pub at: usize,
    /// The time of the event record at that place.
    pub stamp: Stamp,
}

/// Writes event records in one of the formats.
#[derive(Debug)]
pub struct Renderer {
    options: Options,
    clock: ClockText,
    iso: ClockText,
    classes: LazyTable<ClassPlan>,
    packets: LazyTable<PacketPlan>,
    columns: CsvColumns,
    source: Option<Source>,
    /// The kernel's functions; `None` with `source`, which knows them, too.
    functions: Option<KernelFunctions>,
    order: Option<TimeOrder>,
    elements: Vec<u64>,
    /// A buffer that is empty, but keeps the text of the last time.
    lines: Lines,
    line: Vec<u8>,
    last: Option<Stamp>,
    knows_last: bool,
    gap: Option<DeltaGap>,
}

impl Renderer {
    /// Returns a renderer that does not show places in the source code.
    pub fn new(options: &Options) -> Renderer {
        let style = options.clock.unwrap_or(match options.format {
            Format::Text | Format::Short => ClockStyle::Time,
            Format::Json => ClockStyle::Iso,
            Format::Csv => ClockStyle::Seconds,
        });
        let around: (&[u8], &[u8]) = match (options.format, options.colours) {
            (Format::Text, false) => (b"[", b"] "),
            (Format::Text, true) => (b"[\x1b[1;33m", b"\x1b[0m] "),
            _ => (b"", b""),
        };
        Renderer {
            clock: ClockText::around(style, options.zone.clone(), around),
            iso: ClockText::new(ClockStyle::Iso, options.zone.clone()),
            classes: LazyTable::default(),
            packets: LazyTable::default(),
            columns: CsvColumns::new(options.fields.as_ref(), &options.head),
            source: None,
            functions: options.functions.clone().filter(|_| options.source.is_none()),
            order: options.clocks.as_ref().map(TimeOrder::new),
            elements: Vec::new(),
            lines: Lines::default(),
            line: Vec::new(),
            last: None,
            knows_last: true,
            gap: None,
            options: options.clone(),
        }
    }

    /// Returns a renderer for the records of this reader that shows places in the source code if `options` ask for
    /// them.
    pub fn with_places(options: &Options, reader: &Reader) -> Renderer {
        let source = options.source.as_ref().map(|options| Source::new(reader, options));
        Renderer { source, ..Renderer::new(options) }
    }

    /// Writes the text before the first event record.
    pub fn head(&self, out: &mut Vec<u8>) {
        if self.options.format == Format::Csv {
            self.columns.head(out, self.clock.style());
        }
    }

    /// Begins a slice. The time of the previous record is unknown; [`Renderer::take_gap`] returns its place in the
    /// text.
    pub fn begin_slice(&mut self) {
        self.knows_last = false;
        self.last = None;
        self.gap = None;
    }

    /// Returns the place of the first delta since [`Renderer::begin_slice`], if it is in the text that was just
    /// written.
    pub fn take_gap(&mut self) -> Option<DeltaGap> {
        self.gap.take()
    }

    /// Returns the time of the last event record that had one.
    pub fn last(&self) -> Option<Stamp> {
        self.last
    }

    /// Returns the number of records of uncertain order since the last call.
    pub fn take_unsure(&mut self) -> u64 {
        self.order.as_mut().map_or(0, TimeOrder::take_unsure)
    }

    /// Writes the delta that belongs into a gap. `before` is the time of the record before the gap.
    pub fn fill(&self, gap: &DeltaGap, before: Option<Stamp>, out: &mut Vec<u8>) {
        clock::delta(out, self.clock.style(), before, gap.stamp);
    }

    /// Returns true if the renderer must see all records, in the order of time.
    pub fn wants_all(&self) -> bool {
        self.source.is_some()
    }

    /// Returns true if [`Renderer::stacks`] may find names.
    pub fn names_code(&self) -> bool {
        self.source.is_some() || self.functions.is_some()
    }

    /// Takes an event record that is not written, for what it says about later ones.
    #[inline]
    pub fn skip(&mut self, event: &Event<'_>) {
        if let Some(source) = &mut self.source {
            source.learn(event);
        }
    }

    /// Returns the functions in fields of the last event record, and its call stacks, on one line: `{function: tick;
    /// kernel: a+0x1 < b+0x2; user: main+0x3 (a.c:1)}`.
    pub fn stacks(&mut self, event: &Event<'_>) -> Option<Vec<u8>> {
        let functions = functions_of(&mut self.source, &mut self.functions, event);
        let stacks = self.source.as_mut().and_then(|source| source.stacks(event));
        let stacks = stacks.unwrap_or_default();
        let mut line = Vec::new();
        for (name, text) in functions {
            line.extend_from_slice(if line.is_empty() { b"{" } else { b"; " });
            line.extend_from_slice(name.as_bytes());
            line.extend_from_slice(b": ");
            line.extend_from_slice(&text);
        }
        for (what, frames) in [(&b"kernel: "[..], stacks.kernel), (b"user: ", stacks.user)] {
            let Some(frames) = frames.filter(|frames| !frames.is_empty()) else { continue };
            line.extend_from_slice(if line.is_empty() { b"{" } else { b"; " });
            line.extend_from_slice(what);
            let all = frames.iter().flat_map(StackFrame::expanded);
            let texts: Vec<Vec<u8>> = all.map(|frame| frame.text()).collect();
            line.extend_from_slice(&texts.join(&b" < "[..]));
        }
        if line.is_empty() {
            return None;
        }
        line.push(b'}');
        let mut tame = Vec::new();
        escape::tame_text(&mut tame, &line);
        Some(tame)
    }

    /// Writes an event record.
    pub fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let begin = out.len();
        match self.options.format {
            Format::Text | Format::Short => {
                let mut lines = std::mem::take(&mut self.lines);
                let has_gap = self.gap.is_some();
                self.text_line(event, &mut lines);
                self.move_gap(has_gap, begin);
                out.extend_from_slice(lines.as_bytes());
                lines.clear();
                self.lines = lines;
            }
            Format::Json => self.json(event, out),
            Format::Csv => self.csv(event, out),
        }
        if self.options.tame {
            escape::tame_line(out, begin, self.options.format);
        }
    }

    /// Writes an event record as one of many, which is faster.
    #[inline]
    pub fn event_of_many(&mut self, event: &Event<'_>, out: &mut Lines) {
        if self.options.format == Format::Text && !self.options.tame {
            return self.text_line(event, out);
        }
        let mut line = std::mem::take(&mut self.line);
        let has_gap = self.gap.is_some();
        self.event(event, &mut line);
        self.move_gap(has_gap, out.len());
        out.extend_from_slice(&line);
        line.clear();
        self.line = line;
    }

    /// Writes a line for discarded event records or packets, if such lines are wanted.
    pub fn discarded(&mut self, discarded: &Discarded<'_>, out: &mut Lines) {
        if !self.options.losses || !matches!(self.options.format, Format::Text | Format::Short) {
            return;
        }
        let style = match self.clock.style() {
            ClockStyle::None | ClockStyle::Cycles => ClockStyle::Time,
            style => style,
        };
        let mut line = Vec::new();
        discarded_lines::write(&mut line, discarded, &|ns| {
            time_text(style, &self.options.zone, ns)
        });
        match self.options.colours {
            true => {
                out.extend_from_slice(b"\x1b[1;31m");
                out.extend_from_slice(&line);
                out.extend_from_slice(b"\x1b[0m\n");
            }
            false => {
                out.extend_from_slice(&line);
                out.push(b'\n');
            }
        }
    }

    #[inline]
    fn text_line(&mut self, event: &Event<'_>, out: &mut Lines) {
        match self.options.colours {
            true => self.text::<true>(event, out),
            false => self.text::<false>(event, out),
        }
    }

    /// Moves the gap of the record just written by the length of text inserted before it. `was_before` says that the
    /// gap is older.
    fn move_gap(&mut self, was_before: bool, by: usize) {
        if let Some(gap) = self.gap.as_mut().filter(|_| !was_before) {
            gap.at += by;
        }
    }

    /// Returns the time of a record for display, if it has one in this style.
    #[inline]
    fn stamp(&self, event: &Event<'_>) -> Option<Stamp> {
        match event.date() {
            Some(ns) => Some(Stamp { ns, cycles: event.cycles().unwrap_or(0) }),
            None if self.clock.style() != ClockStyle::Cycles => None,
            None => Some(Stamp { ns: event.time().unwrap_or(0), cycles: event.cycles()? }),
        }
    }

    /// Writes the time of an event record that has no date, in cycles. Writes nothing if there is no time.
    #[cold]
    fn undated(&self, event: &Event<'_>, out: &mut impl TextSink) {
        if self.clock.style() == ClockStyle::None {
            return;
        }
        let Some(cycles) = event.cycles() else { return };
        self.clock.write_cycles(out, cycles);
        if self.options.delta && self.options.format == Format::Text {
            let stamp = Stamp { ns: 0, cycles };
            clock::delta(out, ClockStyle::Cycles, None, stamp);
        }
    }

    fn text<const COLOUR: bool>(&mut self, event: &Event<'_>, out: &mut Lines) {
        match self.stamp(event) {
            Some(_) if self.clock.style() == ClockStyle::None => {}
            Some(stamp) => self.time(stamp, out),
            None => self.undated(event, out),
        }
        if self.order.as_mut().is_some_and(|order| order.is_unsure(event)) {
            out.put(b"~ ", 2);
        }
        let Renderer { options, classes, packets, elements, source, .. } = self;
        let place = source.as_mut().and_then(|source| source.place(event));
        let stacks = source.as_mut().and_then(|source| source.stacks(event));
        let functions = functions_of(source, &mut None, event);
        let class = classes.get(event.class().index(), || ClassPlan::new(event, options));
        class.head.add_to(out);
        let stream = event.stream();
        let packet = packets.get(stream.index(), || PacketPlan::new(stream, options));
        if !packet.is_of(event) {
            packet.text.clear();
            if packet.part.shown != ShownPart::Nothing {
                part_text::<COLOUR>(
                    event,
                    RecordPart::Packet,
                    &packet.part,
                    elements,
                    &mut packet.text,
                );
            }
            packet.piece = TextPiece::new(packet.text.as_bytes());
        }
        packet.piece.add_to(out);
        let mut any = !packet.piece.is_empty();
        for (part, plan) in &class.parts {
            let place = place.as_deref().filter(|_| *part == RecordPart::Common);
            if plan.shown == ShownPart::Nothing && place.is_none() {
                continue;
            }
            if std::mem::replace(&mut any, true) {
                out.put(b", ", 2);
            }
            match plan.shown {
                ShownPart::Nothing => out.put(b"{ }", 3),
                _ => {
                    part_text::<COLOUR>(event, *part, plan, elements, out);
                    if let Some(name) = class.thread_name(event, *part, options) {
                        name_text(name, out);
                    }
                }
            }
            if let Some(place) = place {
                place_text(place, out);
            }
        }
        functions_text(&functions, out);
        if let Some(stacks) = stacks {
            stacks_text(&stacks, out);
        }
        out.push(b'\n');
    }

    #[inline]
    fn time(&mut self, stamp: Stamp, out: &mut Lines) {
        if !self.options.delta {
            return self.clock.write(out, stamp);
        }
        if self.knows_last {
            self.clock.write_with_delta(out, self.last, stamp);
        } else {
            self.clock.write(out, stamp);
            self.gap = Some(DeltaGap { at: out.len(), stamp });
            self.knows_last = true;
        }
        self.last = Some(stamp);
    }

    fn json(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        out.push(b'{');
        let style = self.clock.style();
        let date = event.date().filter(|_| style != ClockStyle::None);
        if let Some(ns) = date {
            out.extend_from_slice(b"\"time\":");
            number::signed(out, ns);
            out.extend_from_slice(b",\"date\":\"");
            self.iso.write(out, Stamp { ns, cycles: 0 });
            out.extend_from_slice(b"\",");
        }
        let wanted = style == ClockStyle::Cycles || (date.is_none() && style != ClockStyle::None);
        if let Some(cycles) = event.cycles().filter(|_| wanted) {
            out.extend_from_slice(b"\"cycles\":");
            number::unsigned(out, cycles);
            out.push(b',');
        }
        if self.order.as_mut().is_some_and(|order| order.is_unsure(event)) {
            out.extend_from_slice(b"\"order_unknown\":true,");
        }
        let Renderer { options, classes, packets, source, functions, .. } = self;
        let place = source.as_mut().and_then(|source| source.place(event));
        let stacks = source.as_mut().and_then(|source| source.stacks(event));
        let functions = functions_of(source, functions, event);
        let class = classes.get(event.class().index(), || ClassPlan::new(event, options));
        class.head.add_to(out);
        if let Some(cpu) = event.packet().cpu {
            out.extend_from_slice(b"\"cpu\":");
            number::unsigned(out, cpu);
            out.push(b',');
        }
        out.extend_from_slice(&class.name);
        let stream = event.stream();
        let packet = packets.get(stream.index(), || PacketPlan::new(stream, options));
        if !packet.is_of(event) {
            packet.json.clear();
            part_json(event, RecordPart::Packet, &packet.part.shown, &mut packet.json);
        }
        out.extend_from_slice(&packet.json);
        for (part, plan) in &class.parts {
            part_json(event, *part, &plan.shown, out);
            name_json(class, event, (*part, plan), options, out);
        }
        code_json(place.as_deref(), &functions, stacks.as_ref(), out);
        out.extend_from_slice(b"}\n");
    }

    fn csv(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if self.clock.style() != ClockStyle::None {
            match self.stamp(event) {
                Some(stamp) => self.clock.write(out, stamp),
                None => self.undated(event, out),
            }
            out.push(b',');
        }
        let Renderer { options, classes, packets, source, functions, .. } = self;
        let class = classes.get(event.class().index(), || ClassPlan::new(event, options));
        class.head.add_to(out);
        if let Some(cpu) = event.packet().cpu {
            number::unsigned(out, cpu);
        }
        out.extend_from_slice(&class.name);
        if options.fields.is_some() {
            let name = class.thread_name(event, class.thread_part(), options);
            self.columns.row(event, name, out);
            return;
        }
        let place = source.as_mut().and_then(|source| source.place(event));
        let stacks = source.as_mut().and_then(|source| source.stacks(event));
        let functions = functions_of(source, functions, event);
        let stream = event.stream();
        let packet = packets.get(stream.index(), || PacketPlan::new(stream, options));
        out.push(b',');
        let begin = out.len();
        part_json(event, RecordPart::Packet, &packet.part.shown, out);
        for (part, plan) in &class.parts {
            part_json(event, *part, &plan.shown, out);
            name_json(class, event, (*part, plan), options, out);
        }
        code_json(place.as_deref(), &functions, stacks.as_ref(), out);
        // The first part has a comma in front.
        if let Some(first) = out.get_mut(begin) {
            *first = b'{';
        } else {
            out.push(b'{');
        }
        out.push(b'}');
        escape::csv_quote(out, begin);
        out.extend_from_slice(b"\r\n");
    }
}

/// Returns a time \[ns since 1970\] as text, in the given style.
pub fn time_text(style: ClockStyle, zone: &TimeZone, ns: i64) -> String {
    let mut out = Vec::new();
    ClockText::new(style, zone.clone()).write(&mut out, Stamp { ns, cycles: 0 });
    String::from_utf8_lossy(&out).into_owned()
}

/// Writes a part of a record, as `{ a = 1, b = 2 }`.
#[inline]
fn part_text<const COLOUR: bool>(
    event: &Event<'_>,
    part: RecordPart,
    plan: &PartPlan,
    elements: &mut Vec<u64>,
    out: &mut Lines,
) {
    let mut values = ValueWriter::<COLOUR>::new(out, &plan.leads, elements);
    match &plan.shown {
        ShownPart::Some(node) => {
            event.visit(field_selection::scope(part), &mut Masked::new(node, &mut values))
        }
        _ => event.visit(field_selection::scope(part), &mut values),
    };
    values.finish();
}

/// Adds `, thread_name = "worker"` before the end of a part.
fn name_text(name: &[u8], out: &mut Lines) {
    out.drop_last(2);
    out.put(b", thread_name = ", 16);
    escape::c_quoted(out, name);
    out.put(b" }", 2);
}

/// Adds `,"thread_name":"worker"` to JSON.
fn name_json(
    class: &ClassPlan,
    event: &Event<'_>,
    (part, plan): (RecordPart, &PartPlan),
    options: &Options,
    out: &mut Vec<u8>,
) {
    if plan.shown == ShownPart::Nothing {
        return;
    }
    if let Some(name) = class.thread_name(event, part, options) {
        out.pop();
        out.extend_from_slice(b",\"thread_name\":");
        quoted(out, name);
        out.push(b'}');
    }
}

/// Adds `, debug_info = { bin = "a+0x1", func = "main+0x2", src = "a.c:3" }` before the end of a part.
fn place_text(place: &ResolvedPlace, out: &mut Lines) {
    out.drop_last(2);
    let begin: &[u8] = if out.as_bytes().ends_with(b"{") { b" " } else { b", " };
    out.extend_from_slice(begin);
    let fields = [
        (&b"debug_info = { bin = "[..], &place.binary),
        (b", func = ", &place.function),
        (b", src = ", &place.source),
    ];
    for (name, text) in fields {
        out.extend_from_slice(name);
        escape::c_quoted(out, text);
    }
    out.put(b" } }", 4);
}

/// Returns the kernel's functions whose addresses are in a record's fields.
fn functions_of(
    source: &mut Option<Source>,
    functions: &mut Option<KernelFunctions>,
    event: &Event<'_>,
) -> Vec<NamedFunction> {
    let of_source = source.as_mut().map(|source| source.functions(event));
    let of_kernel = || functions.as_mut().map(|functions| functions.named(event));
    of_source.or_else(of_kernel).unwrap_or_default()
}

/// Adds `, { debug_info = { function = "process_one_work" } }` after the last part.
fn functions_text(functions: &[NamedFunction], out: &mut Lines) {
    for (index, (name, text)) in functions.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b", { debug_info = { " } else { b", " });
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b" = ");
        escape::c_quoted(out, text);
    }
    if !functions.is_empty() {
        out.put(b" } }", 4);
    }
}

/// Returns the stacks of a record that are not empty, with their names.
fn named(stacks: &Stacks) -> impl Iterator<Item = (&'static str, &[StackFrame])> {
    let kernel = stacks.kernel.as_deref().map(|stack| ("callstack_kernel", stack));
    let user = stacks.user.as_deref().map(|stack| ("callstack_user", stack));
    kernel.into_iter().chain(user)
}

/// Adds `, { callstack_user = [ "burn+0x1a (a.c:3)", "main+0x20 (a.c:9)" ] }` after the last part.
fn stacks_text(stacks: &Stacks, out: &mut Lines) {
    for (index, (name, frames)) in named(stacks).enumerate() {
        out.extend_from_slice(if index == 0 { b", { " } else { b", " });
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b" = [");
        for (index, frame) in frames.iter().flat_map(StackFrame::expanded).enumerate() {
            out.extend_from_slice(if index == 0 { b" " } else { b", " });
            escape::c_quoted(out, &frame.text());
        }
        out.extend_from_slice(b" ]");
    }
    out.extend_from_slice(b" }");
}

/// Adds `,"callstack_user":[{"address":4198704,"bin":"a+0x1","func":"main+0x2","src":"a.c:3"}]`.
fn stacks_json(stacks: &Stacks, out: &mut Vec<u8>) {
    for (name, frames) in named(stacks) {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":[");
        for (index, frame) in frames.iter().enumerate() {
            out.extend_from_slice(if index == 0 { b"{\"address\":" } else { b",{\"address\":" });
            number::unsigned(out, frame.address);
            let ResolvedPlace { binary, function, source, inlined } = &*frame.place;
            for (name, text) in [("bin", binary), ("func", function), ("src", source)] {
                if !text.is_empty() {
                    out.extend_from_slice(format!(",\"{name}\":").as_bytes());
                    quoted(out, text);
                }
            }
            inlined_json(inlined, out);
            out.push(b'}');
        }
        out.push(b']');
    }
}

/// Adds `,"inlined":[{"func":"inner","src":"a.c:1"}]`, the innermost function first.
fn inlined_json(inlined: &[InlinedFunction], out: &mut Vec<u8>) {
    for (index, one) in inlined.iter().enumerate() {
        out.extend_from_slice(if index == 0 {
            b",\"inlined\":[{\"func\":"
        } else {
            b",{\"func\":"
        });
        quoted(out, &one.function);
        if !one.source.is_empty() {
            out.extend_from_slice(b",\"src\":");
            quoted(out, &one.source);
        }
        out.push(b'}');
    }
    if !inlined.is_empty() {
        out.push(b']');
    }
}

/// Adds `,"debug_info":{"bin":"a+0x1","func":"main+0x2","src":"a.c:3"}`.
fn place_json(place: &ResolvedPlace, out: &mut Vec<u8>) {
    let fields = [
        (&b",\"debug_info\":{\"bin\":"[..], &place.binary),
        (b",\"func\":", &place.function),
        (b",\"src\":", &place.source),
    ];
    for (name, text) in fields {
        out.extend_from_slice(name);
        quoted(out, text);
    }
    out.push(b'}');
}

/// Adds the names of a record's code: of its place in the program, or else of functions in its fields, and of its call
/// stacks.
fn code_json(
    place: Option<&ResolvedPlace>,
    functions: &[NamedFunction],
    stacks: Option<&Stacks>,
    out: &mut Vec<u8>,
) {
    match place {
        Some(place) => place_json(place, out),
        None if functions.is_empty() => {}
        None => {
            out.extend_from_slice(b",\"debug_info\":");
            functions_json(functions, out);
        }
    }
    if let Some(stacks) = stacks {
        stacks_json(stacks, out);
    }
}

/// Adds a part of the record, as `,"payload":{"a":1}`.
fn part_json(event: &Event<'_>, part: RecordPart, shown: &ShownPart, out: &mut Vec<u8>) {
    if *shown == ShownPart::Nothing {
        return;
    }
    out.extend_from_slice(b",\"");
    out.extend_from_slice(part.name().as_bytes());
    out.extend_from_slice(b"\":{");
    part_fields(event, part, shown, out);
    out.push(b'}');
}
