//! trace.dat, the file of `trace-cmd record`: ftrace's events, by CPU, as the kernel's ring buffer has them.
//!
//! ```text
//! head.rs     what is recorded, and where the pages of each CPU are
//! pages.rs    pages, and the events in them
//! ```
//!
//! Each CPU has a stream of its own, in which events are in the order of time, so that one CPU is read after the other. A CPU
//! with pages in several buffers (`trace-cmd record -B`) has their events merged.

mod head;
mod pages;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io;
use std::path::Path;

use strata_ctf::kernel_symbols;
use strata_model::{
    Array, ByteOrder, ClockClass, Element, EnvValue, Field, FieldClass, Integer, RecordHeader,
    StreamClass, Trace, Uuid,
};

use crate::error::{ImportError, Problem};
use crate::imported::Imported;
use crate::trace_writer::TraceWriter;
use crate::tracepoints::Tracepoint;
use head::TraceDat;
use pages::{PageEvents, PageReader};

/// Size of a thread's name \[byte\].
const NAME_BYTES: usize = 16;
/// The latest time that a record may have \[ns of the clock\]: with the wall clock's time at 0 it is still a date.
const TIME_MAX: u64 = i64::MAX as u64 / 2;

/// Returns whether the first bytes of a file are those of trace-cmd.
pub(crate) fn is_one(begin: &[u8; 8]) -> bool {
    head::MAGIC.starts_with(begin)
}

/// Converts a file of trace-cmd to a trace in `folder`.
pub(crate) fn convert(
    path: &Path,
    folder: &Path,
    uuid: Uuid,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Imported, ImportError> {
    let of_file = |problem: Problem| problem.of(path);
    let of_trace = |source: io::Error| Problem::System(source).of(folder);
    let mut file = File::open(path).map_err(|error| of_file(error.into()))?;
    let mut about = TraceDat::read(&mut file).map_err(of_file)?;
    let (trace, tracepoints) = describe(&about, uuid);
    trace.validate().map_err(|error| of_file(error.to_string().into()))?;
    let writer = TraceWriter::begin(folder, &trace, true).map_err(of_trace)?;
    let kallsyms = std::mem::take(&mut about.kallsyms);
    if let Some(functions) = kernel_symbols::of_kallsyms(&String::from_utf8_lossy(&kallsyms)) {
        fs::write(folder.join(kernel_symbols::FILE), functions).map_err(of_trace)?;
    }
    let mut conversion = Conversion::new(&about, tracepoints, writer);
    let mut cpus: BTreeMap<u32, Vec<PageReader>> = BTreeMap::new();
    for pages in &about.pages {
        cpus.entry(pages.cpu).or_default().push(PageReader::new(*pages));
    }
    for (cpu, readers) in cpus {
        let mut buffers: Vec<_> = readers.into_iter().map(Buffer::new).collect();
        loop {
            if is_stopped() {
                return Err(ImportError::Stopped);
            }
            for buffer in &mut buffers {
                buffer.fill(&mut file, about.page_head).map_err(of_file)?;
            }
            let first = |buffer: &&mut Buffer| buffer.events.front().map(|event| event.0);
            let with_some = buffers.iter_mut().filter(|buffer| !buffer.events.is_empty());
            let Some(buffer) = with_some.min_by_key(first) else { break };
            conversion.take(cpu, buffer).map_err(of_trace)?;
        }
        let damage = buffers.into_iter().filter_map(|buffer| buffer.damage);
        conversion.damage.extend(damage.map(|why| format!("CPU {cpu}: {why}")));
        conversion.end_cpu(cpu, about.overruns.get(&cpu).copied()).map_err(of_trace)?;
    }
    conversion.finish().map_err(of_trace)
}

/// Returns the description of the trace, and for each number of a tracepoint its id in the trace, and how its records are made.
fn describe(about: &TraceDat, uuid: Uuid) -> (Trace, HashMap<u64, (u32, Tracepoint)>) {
    let (mut events, mut tracepoints) = (Vec::new(), HashMap::new());
    for (id, format) in (0..).zip(&about.formats) {
        let (class, tracepoint) = Tracepoint::new(format);
        events.push(strata_model::EventClass { id, ..class });
        tracepoints.insert(format.id, (id, tracepoint));
    }
    let name = Array { element: Element::Text, count: NAME_BYTES as u32 };
    let context = vec![
        Field::new("tid", FieldClass::Integer(Integer::signed(4))),
        Field::new("procname", FieldClass::Array(name)),
    ];
    let mut environment = vec![
        ("domain".to_owned(), EnvValue::from("kernel")),
        ("tracer_name".to_owned(), EnvValue::from("trace-cmd")),
    ];
    // As in "Linux host 6.1.0 x86_64".
    let known = [("hostname", about.uname.get(1)), ("kernel_release", about.uname.get(2))];
    let machine = ("machine", about.uname.get(3..).and_then(<[String]>::last));
    for (name, value) in known.into_iter().chain([machine]) {
        if let Some(value) = value {
            environment.push((name.to_owned(), EnvValue::from(value.as_str())));
        }
    }
    let offset = about.date_ns.unwrap_or(0).saturating_add(about.offset_ns);
    let (name, description) = match &*about.clock {
        "mono" => ("monotonic", "CLOCK_MONOTONIC".to_owned()),
        other => ("ftrace", format!("the clock '{other}' of ftrace")),
    };
    let clock = ClockClass {
        name: name.into(),
        description,
        absolute: about.date_ns.is_some() || about.clock == "tai",
        ..ClockClass::monotonic(None, offset)
    };
    let header = RecordHeader::Large;
    let stream = StreamClass { id: 0, name: String::new(), header, context, events };
    let byte_order = ByteOrder::NATIVE;
    (Trace { uuid, byte_order, environment, clock, streams: vec![stream] }, tracepoints)
}

/// The pages of a CPU in one buffer, with the events of the present page.
struct Buffer {
    pages: PageReader,
    /// Time and bytes of the events that were not taken, and the number of events that are missing before the first one.
    events: std::collections::VecDeque<(u64, Vec<u8>)>,
    missing: u64,
    /// What ended the reading, if the file is damaged.
    damage: Option<String>,
}

impl Buffer {
    fn new(pages: PageReader) -> Buffer {
        Buffer { pages, events: std::collections::VecDeque::new(), missing: 0, damage: None }
    }

    /// Reads pages until there is an event, unless there is one.
    fn fill(&mut self, file: &mut File, head: usize) -> Result<(), Problem> {
        while self.events.is_empty() && self.damage.is_none() {
            let page = match self.pages.next(file) {
                Ok(Some(page)) => page,
                Ok(None) => return Ok(()),
                Err(Problem::Bad(why)) => {
                    self.damage = Some(why);
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            let Some(mut events) = PageEvents::new(page, head) else {
                self.damage = Some("a page is cut off".to_owned());
                return Ok(());
            };
            self.missing = self.missing.saturating_add(events.missing);
            loop {
                match events.next() {
                    Ok(Some(event)) => self.events.push_back((event.time, event.data.to_vec())),
                    Ok(None) => break,
                    Err(()) => {
                        self.damage = Some("a page has an event that is none".to_owned());
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The conversion of events to records.
struct Conversion<'a> {
    about: &'a TraceDat,
    tracepoints: HashMap<u64, (u32, Tracepoint)>,
    writer: TraceWriter,
    done: Imported,
    /// Events of tracepoints that the file does not describe; events that are too short, or at no possible time.
    unknown: u64,
    unread: u64,
    damage: Vec<String>,
    /// Of the present CPU: the time of its last record, and the events that its pages say are missing.
    time: u64,
    missing: u64,
}

impl<'a> Conversion<'a> {
    fn new(
        about: &'a TraceDat,
        tracepoints: HashMap<u64, (u32, Tracepoint)>,
        writer: TraceWriter,
    ) -> Conversion<'a> {
        let release = about.uname.get(2).cloned();
        let done = Imported { kernel_release: release, ..Imported::default() };
        let damage = Vec::new();
        let (unknown, unread, time, missing) = (0, 0, 0, 0);
        Conversion { about, tracepoints, writer, done, unknown, unread, damage, time, missing }
    }

    /// Writes the first event of a buffer.
    fn take(&mut self, cpu: u32, buffer: &mut Buffer) -> io::Result<()> {
        let Some((time, data)) = buffer.events.pop_front() else { return Ok(()) };
        let time = self.ns(time);
        let missing = std::mem::take(&mut buffer.missing);
        if missing > 0 {
            self.missing = self.missing.saturating_add(missing);
            self.done.discarded = self.done.discarded.saturating_add(missing);
            self.writer.discard(cpu, time.min(TIME_MAX), missing)?;
        }
        // Fields that all events have: number, flags, count of preemptions, thread.
        let common = data.first_chunk::<8>().filter(|_| time <= TIME_MAX);
        let Some([a, b, _, _, c, d, e, f]) = common.copied() else {
            return self.leave_out(cpu, time);
        };
        let (number, tid) = (u16::from_ne_bytes([a, b]), i32::from_ne_bytes([c, d, e, f]));
        let Some((id, tracepoint)) = self.tracepoints.get(&u64::from(number)) else {
            self.unknown += 1;
            return Ok(());
        };
        let mut record = Vec::with_capacity(data.len() + 32);
        record.extend(tid.to_ne_bytes());
        let mut name = [0; NAME_BYTES];
        let known: &[u8] = match tid {
            0 => b"swapper",
            _ => self.about.names.get(&tid).map_or(&[], Vec::as_slice),
        };
        // The last byte stays a NUL.
        name.iter_mut().take(NAME_BYTES - 1).zip(known).for_each(|(to, from)| *to = *from);
        record.extend(name);
        if !tracepoint.put(&mut record, &data) {
            return self.leave_out(cpu, time);
        }
        self.time = self.time.max(time);
        self.done.samples += 1;
        self.writer.write(cpu, time, *id, &[&record]).map(drop)
    }

    /// Counts an event that cannot be read as discarded.
    fn leave_out(&mut self, cpu: u32, time: u64) -> io::Result<()> {
        self.unread += 1;
        self.done.discarded = self.done.discarded.saturating_add(1);
        self.writer.discard(cpu, time.min(TIME_MAX).max(self.time), 1)
    }

    /// Returns the time in nanoseconds of a time of the file's clock.
    fn ns(&self, time: u64) -> u64 {
        let Some(of) = self.about.cycles else { return time };
        let ns = (u128::from(time) * u128::from(of.multiplier)) >> of.shift;
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Ends a CPU, of which the kernel has overwritten or discarded `overruns` events in all.
    fn end_cpu(&mut self, cpu: u32, overruns: Option<u64>) -> io::Result<()> {
        let others = overruns.unwrap_or(0).saturating_sub(self.missing);
        if others > 0 {
            self.done.discarded = self.done.discarded.saturating_add(others);
            self.writer.discard(cpu, self.time, others)?;
        }
        (self.time, self.missing) = (0, 0);
        Ok(())
    }

    fn finish(mut self) -> Result<Imported, io::Error> {
        self.writer.finish()?;
        let remarks = &mut self.done.remarks;
        for why in self.damage {
            remarks.push(format!("damaged: {why}. What is in front of that is shown"));
        }
        if self.unknown > 0 {
            remarks.push(format!(
                "{} events are not of tracepoints that the file describes, such as those of function tracers and trace_printk(), and are left out",
                self.unknown
            ));
        }
        if self.unread > 0 {
            remarks.push(format!(
                "{} events are damaged (too short, or at no possible time) and count as discarded",
                self.unread
            ));
        }
        let is_cycles = self.about.clock == "x86-tsc" && self.about.cycles.is_none();
        if is_cycles || matches!(&*self.about.clock, "counter" | "uptime") {
            remarks.push(format!(
                "its clock, '{}', counts no nanoseconds: times are shown as if it did",
                self.about.clock
            ));
        }
        Ok(self.done)
    }
}

#[cfg(test)]
mod tests;
