//! A scan of event records: a thread reads packets, and passes rows in batches.
//!
//! Only the columns that a query uses are decoded. At most a few batches wait to be taken.
//!
//! A query that wants the latest records first gets the slices of the traces from the last one to the first, each with its
//! rows in the opposite order: with a limit, it reads the end of the traces alone.

use std::mem;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use strata_analyze::debug_info::{functions_json, KernelFunctions};
use strata_analyze::derived_facts::{DerivedFacts, RecordThread};
use strata_ctf::read::{Event, Events, Message, Scope, Selection, Slice, Stream, TimeRange, Value};
use strata_export::sql::{field_json, record_json};

use crate::catalog::{ColumnField, EventTable, Source};
use crate::last_rows::LastRows;
use crate::row_batch::{RowBatch, ScanCell};
use crate::shared_data::Shared;

/// Number of rows in the first batch, which is small so that the first row arrives at once, and in the largest.
const ROWS: (usize, usize) = (16, 4096);
/// Size of the texts of a batch beyond which it is passed on \[byte\].
const TEXT_BYTES: usize = 1 << 20;
/// The most batches that wait between the thread and the query.
const WAITING: usize = 3;
/// The most rows that a batch counts, which has no cells.
const COUNTED_ROWS: usize = 1 << 20;
/// The most passes in which records are counted: each is over some of the streams.
const COUNT_PASSES: usize = 256;
/// Number of messages between two checks for a request to stop.
const LOOK_INTERVAL: u32 = 4096;

/// The most memory for rows of a slice that are passed on in the opposite order \[byte\].
const REVERSED_BYTES: usize = if cfg!(test) { 64 << 10 } else { 64 << 20 };

/// Order of rows that a query relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowOrder {
    Any,
    /// By time, the first record first.
    Ascending,
    /// By time, the last record first.
    Descending,
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
    pub order: RowOrder,
    /// True if the query reads the rows' numbers.
    pub has_numbers: bool,
}

impl ScanRequest {
    /// Returns whether the query only needs the number of rows.
    pub(crate) fn is_count(&self) -> bool {
        self.columns.is_empty() && !self.has_numbers && self.order == RowOrder::Any
    }
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
    ///
    /// # Errors
    /// Returns why rows are missing.
    pub(crate) fn next(
        &self,
        used: RowBatch,
        shared: &Shared,
    ) -> Result<Option<RowBatch>, ScanEnd> {
        // Without room, the batch is freed.
        let _ = self.used.try_send(used);
        match self.batches.recv() {
            Ok(batch) => Ok(Some(batch)),
            Err(_) => self.end(shared).map(|()| None),
        }
    }

    /// Waits for the next rows as [`next`](Self::next) does, and no longer than until a time.
    ///
    /// # Errors
    /// Those of `next`, and [`ScanEnd::Late`].
    pub(crate) fn next_until(
        &self,
        used: RowBatch,
        shared: &Shared,
        until: Instant,
    ) -> Result<Option<RowBatch>, ScanEnd> {
        let _ = self.used.try_send(used);
        let wait = until.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return Err(ScanEnd::Late);
        }
        match self.batches.recv_timeout(wait) {
            Ok(batch) => Ok(Some(batch)),
            Err(RecvTimeoutError::Timeout) => Err(ScanEnd::Late),
            Err(RecvTimeoutError::Disconnected) => self.end(shared).map(|()| None),
        }
    }

    /// Returns why there are no more rows.
    fn end(&self, shared: &Shared) -> Result<(), ScanEnd> {
        if let Some(fault) = self.fault.get() {
            return Err(ScanEnd::Failed(fault.clone()));
        }
        if (shared.stop)() {
            return Err(ScanEnd::Stopped);
        }
        match self.is_whole.load(Ordering::Acquire) {
            true => Ok(()),
            false => Err(ScanEnd::Failed("a scan has ended by a fault of strata".to_owned())),
        }
    }
}

/// Why a scan has ended before its last row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScanEnd {
    Stopped,
    /// There was no more time for it.
    Late,
    /// It has failed, for the reason in the text.
    Failed(String),
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
        let Some(mut maker) = RowMaker::new(self.shared, self.request) else { return };
        // Only this order is worth reading the headers of all packets.
        let slices = match self.request.order {
            RowOrder::Descending => self.shared.slices(),
            RowOrder::Any | RowOrder::Ascending => None,
        };
        match slices {
            Some(slices) => self.backward(&mut maker, slices, to_send),
            None if self.request.is_count() => self.count(&mut maker, to_send),
            None => self.forward(&mut maker, to_send, to_use),
        }
    }

    /// Sends the rows of a query that only counts them, in batches without cells. One stream is read after the
    /// other, since rows without cells are in any order.
    fn count(&self, maker: &mut RowMaker<'_>, to_send: &SyncSender<RowBatch>) {
        let range = self.request.range.and(&self.shared.choice.range);
        let (mut rows, mut most) = (0, ROWS.0);
        let send = |rows| to_send.send(RowBatch { rows, ..RowBatch::default() }).is_ok();
        let streams = self.shared.reader.streams();
        for some in streams.chunks(streams.len().div_ceil(COUNT_PASSES).max(1)) {
            let is_one_of = |stream: &Stream| {
                some.iter().any(|other| other.index() == stream.index()) && self.is_wanted(stream)
            };
            let events = self.shared.reader.events_of_streams(range, &is_one_of);
            let ended = self.pass(events, maker, |_, _| {
                rows += 1;
                if rows < most {
                    return ControlFlow::Continue(());
                }
                most = (most * 4).min(COUNTED_ROWS);
                match send(mem::take(&mut rows)) {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            });
            if ended.is_break() {
                return;
            }
        }
        if rows > 0 {
            send(rows);
        }
    }

    /// Passes the records of `events` that are rows to `each`. A break means that no more rows are needed or can be
    /// had.
    #[inline]
    fn pass(
        &self,
        mut events: Events<'_>,
        maker: &mut RowMaker<'_>,
        mut each: impl FnMut(&mut RowMaker<'_>, &Event<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut left = LOOK_INTERVAL;
        let is_sorted = self.request.order != RowOrder::Any;
        let mut last = None;
        events.run(|message| {
            left -= 1;
            if left == 0 {
                left = LOOK_INTERVAL;
                if self.is_ended() {
                    return ControlFlow::Break(());
                }
            }
            match message {
                Message::Event(event) => {
                    if !maker.is_row(&event) {
                        return ControlFlow::Continue(());
                    }
                    if is_sorted {
                        let time = event.time();
                        if time < last {
                            return self.out_of_order();
                        }
                        last = time;
                    }
                    each(maker, &event)
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
        })
    }

    /// Ends the scan, as rows are not in the order on which the query relies.
    #[cold]
    fn out_of_order(&self) -> ControlFlow<()> {
        let direction = if self.request.order == RowOrder::Descending { " DESC" } else { "" };
        let text = format!(
            "a trace is damaged: its times go back, so that its records are not in order. Write ORDER BY \
             time_ns + 0{direction}, which sorts them"
        );
        let _ = self.fault.set(text);
        ControlFlow::Break(())
    }

    fn forward(
        &self,
        maker: &mut RowMaker<'_>,
        to_send: &SyncSender<RowBatch>,
        to_use: &Receiver<RowBatch>,
    ) {
        let mut batch = RowBatch::default();
        let mut rows = ROWS.0;
        let range = self.request.range.and(&self.shared.choice.range);
        let events = self.shared.reader.events_of_streams(range, &|stream| self.is_wanted(stream));
        // A break means that the query has enough rows.
        let _ = self.pass(events, maker, |maker, event| {
            maker.row(event, &mut batch);
            if batch.rows < rows && batch.bytes.len() < TEXT_BYTES {
                return ControlFlow::Continue(());
            }
            rows = (rows * 4).min(ROWS.1);
            let mut next = to_use.try_recv().unwrap_or_default();
            next.clear();
            match to_send.send(mem::replace(&mut batch, next)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        if batch.rows > 0 {
            let _ = to_send.send(batch);
        }
    }

    fn backward(&self, maker: &mut RowMaker<'_>, slices: &[Slice], to_send: &SyncSender<RowBatch>) {
        let range = self.request.range.and(&self.shared.choice.range);
        // Time of the first row of the later slices.
        let mut later: Option<Option<i64>> = None;
        for slice in slices.iter().rev().filter(|slice| slice.meets(&range)) {
            // Number of the slice's rows that were not sent yet, of those from its begin.
            let mut wanted = u64::MAX;
            loop {
                let mut kept = LastRows::new(REVERSED_BYTES);
                let (mut batch, mut count) = (RowBatch::default(), 0);
                let (mut first, mut last) = (None, None);
                let mut is_complete = false;
                let events = self
                    .shared
                    .reader
                    .events_of_slice_and_streams(slice, &|stream| self.is_wanted(stream));
                let ended = self.pass(events, maker, |maker, event| {
                    if event.time().is_some_and(|time| !range.contains(time)) {
                        return ControlFlow::Continue(());
                    }
                    if count == wanted {
                        is_complete = true;
                        return ControlFlow::Break(());
                    }
                    count += 1;
                    first = first.or(Some(event.time()));
                    last = Some(event.time());
                    maker.row(event, &mut batch);
                    if batch.rows >= ROWS.1 || batch.bytes.len() >= TEXT_BYTES {
                        let full = mem::take(&mut batch);
                        batch = kept.push(full);
                    }
                    ControlFlow::Continue(())
                });
                if ended.is_break() && !is_complete {
                    return;
                }
                if last.zip(later).is_some_and(|(last, later)| last > later) {
                    let _ = self.out_of_order();
                    return;
                }
                if batch.rows > 0 {
                    kept.push(batch);
                }
                wanted = kept.left_out();
                for batch in kept.reversed() {
                    if to_send.send(batch).is_err() || self.is_ended() {
                        return;
                    }
                }
                if wanted == 0 {
                    later = first.or(later);
                    break;
                }
            }
        }
    }
}

/// What makes rows of records.
struct RowMaker<'w> {
    shared: &'w Shared,
    request: &'w ScanRequest,
    table: &'w EventTable,
    facts: Option<Arc<DerivedFacts>>,
    functions: Option<KernelFunctions>,
    selection: Option<Selection>,
    names: LastNames,
}

/// The last text of a column in a batch, whose bytes the next row shares if it has the same.
#[derive(Debug, Default)]
struct LastText {
    /// The address of the text in memory, by which it is recognized.
    address: usize,
    length: usize,
    cell: Option<ScanCell>,
}

impl LastText {
    #[inline]
    fn cell(&mut self, text: Option<&[u8]>, batch: &mut RowBatch) -> ScanCell {
        let Some(text) = text else { return ScanCell::Null };
        let (address, length) = (text.as_ptr().addr(), text.len());
        match self.cell {
            // Texts of facts do not change while they are read.
            Some(cell) if self.address == address && self.length == length => cell,
            _ => {
                let cell = batch.text(text);
                *self = LastText { address, length, cell: Some(cell) };
                cell
            }
        }
    }
}

/// The last names of threads and processes in a batch.
#[derive(Debug, Default)]
struct LastNames {
    thread: LastText,
    process: LastText,
}

impl<'w> RowMaker<'w> {
    /// Reads the facts that the columns need in addition to the records. Returns `None` if the user has stopped it.
    fn new(shared: &'w Shared, request: &'w ScanRequest) -> Option<RowMaker<'w>> {
        let table = shared.catalog.tables.get(request.table)?;
        let needs_facts = request.columns.iter().any(|column| column.is_of_facts());
        let facts = match needs_facts {
            true => Some(shared.facts()?),
            false => None,
        };
        let needs_functions = request.columns.iter().any(|column| column.is_of_functions());
        let functions = match needs_functions {
            true => KernelFunctions::of(&shared.reader, &shared.names),
            false => None,
        };
        let selection = shared.choice.selection.clone();
        let names = LastNames::default();
        Some(RowMaker { shared, request, table, facts, functions, selection, names })
    }

    /// Returns whether the query and the database have this record.
    #[inline(always)]
    fn is_row(&mut self, event: &Event<'_>) -> bool {
        let class = event.class().index();
        let classes = self.request.classes.as_deref();
        classes.is_none_or(|classes| classes.get(class).copied().unwrap_or_default())
            && self.selection.as_mut().is_none_or(|selection| selection.accepts(event))
    }

    #[inline]
    fn row(&mut self, event: &Event<'_>, batch: &mut RowBatch) {
        let RowMaker { table, functions, names, .. } = self;
        let thread = match &self.facts {
            Some(facts) => facts.thread_of(event),
            None => RecordThread::Unknown,
        };
        if batch.rows == 0 {
            *names = LastNames::default();
        }
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
                Source::Pid => thread.pid().map_or(ScanCell::Null, ScanCell::Integer),
                Source::Tid => thread.tid().map_or(ScanCell::Null, ScanCell::Integer),
                Source::Thread => names.thread.cell(thread.name(), batch),
                Source::Process => names.process.cell(thread.process_name(), batch),
            };
            batch.cells.push(cell);
        }
        if self.request.has_numbers {
            batch.ids.push(self.shared.id(event));
        }
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
