//! A scan of event records: a thread reads packets, and passes rows in batches.
//!
//! Only the columns that a query uses are decoded. At most a few batches wait to be taken.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread;

use strata_analyze::debug_info::{functions_json, KernelFunctions};
use strata_analyze::derived_facts::DerivedFacts;
use strata_ctf::read::{
    DerivedValue, DerivedValues as _, DerivedWord, Event, Message, Scope, Stream, TimeRange, Value,
};
use strata_export::sql::{field_json, record_json};

use crate::catalog::{ColumnField, EventTable, Source};
use crate::shared_data::Shared;

/// Number of rows in the first batch, which is small so that the first row arrives at once, and in the largest.
const ROWS: (usize, usize) = (16, 4096);
/// Size of the texts of a batch beyond which it is passed on \[byte\].
const TEXT_BYTES: usize = 1 << 20;
/// The longest text of a column; a longer one is NULL \[byte\].
const VALUE_BYTES: usize = 16 << 20;
/// The most batches that wait between the thread and the query.
const WAITING: usize = 3;
/// Number of messages between two checks for a request to stop.
const LOOK_INTERVAL: u32 = 4096;

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ScanCell {
    Null,
    Integer(i64),
    Real(f64),
    /// Name of the event class with this number.
    Class(u32),
    /// Part of [`RowBatch::bytes`], which is UTF-8.
    Text {
        from: u32,
        to: u32,
    },
    Blob {
        from: u32,
        to: u32,
    },
}

/// Rows, one after the other, each with as many cells as the scan has columns.
#[derive(Debug, Default)]
pub(crate) struct RowBatch {
    pub rows: usize,
    /// Number of each row's record, which is the same in every scan.
    pub ids: Vec<i64>,
    pub cells: Vec<ScanCell>,
    pub bytes: Vec<u8>,
}

impl RowBatch {
    fn clear(&mut self) {
        self.rows = 0;
        self.ids.clear();
        self.cells.clear();
        self.bytes.clear();
    }

    /// Makes a cell of the text that `write` appends to the bytes; NULL if `write` returns false or the text is too
    /// long.
    fn written(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) -> ScanCell {
        let from = self.bytes.len();
        let is_there = write(&mut self.bytes);
        let to = self.bytes.len();
        match (u32::try_from(from), u32::try_from(to)) {
            (Ok(from), Ok(to)) if is_there && (to - from) as usize <= VALUE_BYTES => {
                ScanCell::Text { from, to }
            }
            _ => {
                self.bytes.truncate(from);
                ScanCell::Null
            }
        }
    }

    /// Makes a cell of a text of the trace; bytes that are no UTF-8, and NUL, become U+FFFD.
    fn text(&mut self, text: &[u8]) -> ScanCell {
        self.written(|out| {
            match std::str::from_utf8(text) {
                Ok(_) if !text.contains(&0) => out.extend_from_slice(text),
                _ => {
                    let text = String::from_utf8_lossy(text).replace('\0', "\u{fffd}");
                    out.extend_from_slice(text.as_bytes());
                }
            }
            true
        })
    }
}

/// Rows and columns of a table that a query needs.
#[derive(Clone, Debug)]
pub(crate) struct ScanRequest {
    /// Index of the table.
    pub table: usize,
    pub columns: Vec<Source>,
    pub range: TimeRange,
    /// Event classes whose records are rows; `None` for all.
    pub classes: Option<Vec<bool>>,
    /// True if the query relies on rows in the order of time.
    pub is_sorted: bool,
}

/// A running scan. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct EventScan {
    batches: Receiver<RowBatch>,
    used: SyncSender<RowBatch>,
    ended: Arc<AtomicBool>,
    /// True if the thread has ended without a fault.
    is_whole: Arc<AtomicBool>,
    /// Text of the error that has ended the thread.
    fault: Arc<OnceLock<String>>,
}

impl Drop for EventScan {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl EventScan {
    /// Starts the thread that reads.
    ///
    /// # Errors
    /// The system can make no thread.
    pub(crate) fn begin(shared: &Arc<Shared>, request: ScanRequest) -> std::io::Result<EventScan> {
        let (to_send, batches) = sync_channel(WAITING);
        let (used, to_use) = sync_channel(WAITING + 2);
        let ended = Arc::new(AtomicBool::new(false));
        let is_whole = Arc::new(AtomicBool::new(false));
        let ended_well = Arc::clone(&is_whole);
        let fault = Arc::new(OnceLock::new());
        let said = Arc::clone(&fault);
        let scan = EventScan { batches, used, ended: Arc::clone(&ended), is_whole, fault };
        let shared = Arc::clone(shared);
        let run = move || {
            let worker =
                ScanWorker { shared: &shared, request: &request, ended: &ended, fault: &said };
            worker.run(&to_send, &to_use);
            // Set before the sender is given up, which is how the query notices the end.
            ended_well.store(true, Ordering::Release);
            drop(to_send);
        };
        thread::Builder::new().name("scan".to_owned()).spawn(run)?;
        Ok(scan)
    }

    /// Waits for the next rows; `None` after the last ones. The scan fills `used` again.
    pub(crate) fn next(&self, used: RowBatch) -> Option<RowBatch> {
        // Without room, the batch is freed.
        let _ = self.used.try_send(used);
        self.batches.recv().ok()
    }

    /// Returns why rows are missing, after the last batch; `None` if none are.
    pub(crate) fn fault(&self) -> Option<String> {
        self.fault.get().cloned()
    }

    /// Returns true if no rows are missing, after the last batch.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Acquire)
    }
}

struct ScanWorker<'w> {
    shared: &'w Shared,
    request: &'w ScanRequest,
    ended: &'w AtomicBool,
    fault: &'w OnceLock<String>,
}

impl ScanWorker<'_> {
    fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed) || (self.shared.stop)()
    }

    /// Returns true if a stream can have a record that the query needs.
    fn is_wanted(&self, stream: &Stream) -> bool {
        let Some(classes) = &self.request.classes else { return true };
        let streams = &stream.trace().schema().streams;
        let is_its = |class: usize| {
            streams.get(class).is_some_and(|class| std::ptr::eq(class, stream.class()))
        };
        let of_trace = stream.trace().event_classes();
        of_trace
            .filter(|class| is_its(class.stream_class()))
            .any(|class| classes.get(class.index()).copied().unwrap_or_default())
    }

    fn run(&self, to_send: &SyncSender<RowBatch>, to_use: &Receiver<RowBatch>) {
        let Some(table) = self.shared.catalog.tables.get(self.request.table) else { return };
        let needs_facts = self.request.columns.iter().any(|column| column.is_of_facts());
        let facts = match needs_facts.then(|| self.shared.facts()) {
            Some(None) => return,
            facts => facts.flatten(),
        };
        let needs_functions = self.request.columns.iter().any(|column| column.is_of_functions());
        let mut functions = match needs_functions {
            true => KernelFunctions::of(&self.shared.reader, &self.shared.names),
            false => None,
        };
        let mut batch = RowBatch::default();
        let mut rows = ROWS.0;
        let mut events = self
            .shared
            .reader
            .events_of_streams(self.request.range, &|stream| self.is_wanted(stream));
        let mut left = LOOK_INTERVAL;
        let classes = self.request.classes.as_deref();
        let mut last = None;
        // A break means that the query has enough rows.
        let _ = events.run(|message| {
            left -= 1;
            if left == 0 {
                left = LOOK_INTERVAL;
                if self.is_ended() {
                    return ControlFlow::Break(());
                }
            }
            match message {
                Message::Event(event) => {
                    let class = event.class().index();
                    if classes
                        .is_some_and(|classes| !classes.get(class).copied().unwrap_or_default())
                    {
                        return ControlFlow::Continue(());
                    }
                    if self.request.is_sorted {
                        let time = event.time();
                        if time < last {
                            let text = "a trace is damaged: its times go back, so that its records are not in order. \
                                        Write ORDER BY time_ns + 0, which sorts them";
                            let _ = self.fault.set(text.to_owned());
                            return ControlFlow::Break(());
                        }
                        last = time;
                    }
                    self.row(table, (facts.as_deref(), functions.as_mut()), &event, &mut batch);
                    if batch.rows < rows && batch.bytes.len() < TEXT_BYTES {
                        return ControlFlow::Continue(());
                    }
                    rows = (rows * 4).min(ROWS.1);
                    let mut next = to_use.try_recv().unwrap_or_default();
                    next.clear();
                    match to_send.send(std::mem::replace(&mut batch, next)) {
                        Ok(()) => ControlFlow::Continue(()),
                        Err(_) => ControlFlow::Break(()),
                    }
                }
                Message::Packet(_) => ControlFlow::Continue(()),
                Message::Discarded(discarded) => {
                    self.shared.findings.discarded(&discarded);
                    ControlFlow::Continue(())
                }
                Message::Damage(damage) => {
                    self.shared.findings.damage(damage);
                    ControlFlow::Continue(())
                }
            }
        });
        if batch.rows > 0 {
            let _ = to_send.send(batch);
        }
    }

    #[inline]
    fn row(
        &self,
        table: &EventTable,
        (facts, mut functions): (Option<&DerivedFacts>, Option<&mut KernelFunctions>),
        event: &Event<'_>,
        batch: &mut RowBatch,
    ) {
        for &source in &self.request.columns {
            let cell = match source {
                Source::Time => event.time().map_or(ScanCell::Null, ScanCell::Integer),
                Source::Name => ScanCell::Class(event.class().index() as u32),
                Source::Trace => ScanCell::Integer(event.stream().trace().index() as i64),
                Source::Cpu => match event.packet().cpu {
                    Some(cpu) => unsigned(batch, cpu),
                    None => ScanCell::Null,
                },
                Source::Field(number) => match table.fields_of(event.class().index()).get(number) {
                    Some(Some(field)) => field_cell(batch, event, field),
                    _ => ScanCell::Null,
                },
                Source::Fields => batch.written(|out| record_json(out, event, &[Scope::Payload])),
                Source::Context => {
                    let contexts = [Scope::CommonContext, Scope::SpecificContext];
                    batch.written(|out| record_json(out, event, &contexts))
                }
                Source::Functions => match functions.as_mut().map(|known| known.named(event)) {
                    Some(named) if !named.is_empty() => batch.written(|out| {
                        functions_json(&named, out);
                        true
                    }),
                    _ => ScanCell::Null,
                },
                Source::FunctionAt(number) => {
                    let field = table.fields_of(event.class().index()).get(number);
                    let field = field.and_then(|field| Some(&field.as_ref()?.field));
                    let known = functions.as_mut().zip(field);
                    match known.and_then(|(known, field)| known.at(event, field)) {
                        Some(name) => batch.text(&name),
                        None => ScanCell::Null,
                    }
                }
                Source::Pid => derived(batch, facts, event, DerivedWord::Pid),
                Source::Tid => derived(batch, facts, event, DerivedWord::Tid),
                Source::Thread => derived(batch, facts, event, DerivedWord::Comm),
                Source::Process => match facts.and_then(|facts| facts.process_name(event)) {
                    Some(name) => batch.text(name),
                    None => ScanCell::Null,
                },
            };
            batch.cells.push(cell);
        }
        batch.ids.push(self.shared.id(event));
        batch.rows += 1;
    }
}

/// Makes a cell of an unsigned integer. SQLite has no integer above 2^63 - 1: a higher one becomes a text of its
/// digits.
fn unsigned(batch: &mut RowBatch, value: u64) -> ScanCell {
    match i64::try_from(value) {
        Ok(value) => ScanCell::Integer(value),
        Err(_) => batch.text(value.to_string().as_bytes()),
    }
}

fn derived(
    batch: &mut RowBatch,
    facts: Option<&DerivedFacts>,
    event: &Event<'_>,
    word: DerivedWord,
) -> ScanCell {
    match facts.and_then(|facts| facts.value(word, event)) {
        Some(DerivedValue::Integer(value)) => ScanCell::Integer(value),
        Some(DerivedValue::Text(text)) => batch.text(text),
        None => ScanCell::Null,
    }
}

#[inline]
fn field_cell(batch: &mut RowBatch, event: &Event<'_>, field: &ColumnField) -> ScanCell {
    match event.value(&field.field) {
        None => ScanCell::Null,
        Some(Value::Signed(value)) => ScanCell::Integer(value),
        Some(Value::Unsigned(value)) => unsigned(batch, value),
        // SQLite would make it NULL.
        Some(Value::Real(value)) if value.is_nan() => batch.text(b"NaN"),
        Some(Value::Real(value)) => ScanCell::Real(value),
        Some(Value::Text(text)) => batch.text(text),
        Some(Value::Wide(text)) => batch.text(text.to_text().as_bytes()),
        Some(Value::Blob(bytes)) => {
            let cell = batch.written(|out| {
                out.extend_from_slice(bytes);
                true
            });
            match cell {
                ScanCell::Text { from, to } => ScanCell::Blob { from, to },
                cell => cell,
            }
        }
        Some(Value::Compound) => {
            batch.written(|out| field_json(out, event, field.scope, &field.name))
        }
    }
}
