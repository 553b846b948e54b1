//! Writes the traces that a guest's recorder sends into the folder of the host's recording. Each message is checked; a
//! message that would exceed a limit ends this guest's part and nothing else.
//!
//! ```text
//! Hello          the guest, its machine and version    ─▶ greet()
//! Trace, Metadata, Symbols   a trace begins, and is described    ─▶ begin(), describe()
//! Packet         bytes of a stream, checked            ─▶ packet() ─▶ a Sink of the host's output
//! Memory         place of the guest's buffers          ─▶ lies_in(), for take_tail() after a panic
//! Counted, SetEnd, Gone, End                           ─▶ counts, the last time, and the end of a trace
//! ```
//!
//! A guest is hostile: it may send anything, as much as it likes, and in any order. So every message is decoded into a
//! type that cannot be malformed ([`strata_relay`]), each number is compared with the limits at the top of this file,
//! and a [`Problem`] ends this guest's part. Files of packets only have names that the host allows.
//!
//! Times stay the guest's own. The metadata that the host writes have the offset and the uncertainty of the guest's
//! clock. Exchanges measure both ([`Receiver::learn`]), and later exchanges may improve them: so each folder holds one
//! epoch of the clock, and its metadata are rewritten when they improve ([`Receiver::refine`]).
//!
//! One [`Receiver`] belongs to one guest and its thread; the clock is shared with other channels of the same machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use strata_collect::ring_recovery::{self, Found, Tail};
use strata_collect::{Body, Output, Sink};
use strata_ctf::end_mark::{Ending, Losses};
use strata_ctf::packet::HEADER_BYTES;
use strata_ctf::read::{Message, Reader, TimeRange};
use strata_model::{ClockClass, Counts, Discarded, Uuid};
use strata_relay::{
    in_host_time, uuid_of, Entry, Exchange, FromGuest, Hello, Line, PacketBytes, Streams, TraceOf,
    DRIFT_PPM, METADATA_BYTES_MAX, VERSION,
};
use strata_ring::Channel;

use super::machine::{GuestClock, KernelTrace, Machines, Peer};
use super::memory::{GuestMemory, Told};
use crate::output::describe::new_uuid;
use crate::output::folder::below;
use crate::report::{ProcessReport, KERNEL, USER};
use crate::session::failure::failure_text;
use crate::session::lock::lock;

/// The most traces of one guest: that of its kernel, and one for each process that it has recorded.
const TRACES_MAX: usize = 4096;
/// The most streams over all traces.
const STREAMS_MAX: u64 = 1 << 14;
/// The most metadata of all traces together \[byte\].
const TEXT_BYTES_MAX: usize = 64 << 20;
/// The most metadata that are written over the whole recording, counting each rewrite \[byte\].
const DESCRIBED_MAX: u64 = 2 << 30;
/// The least size that is charged for a stream's file \[byte\].
const FILE_BYTES: u64 = 4096;
/// The size of the smallest event record, which is only a header \[byte\].
const RECORD_BYTES_MIN: u64 = 4;

/// The reason why nothing more is accepted from a guest.
pub(crate) type Problem = String;

/// The folder and the limits for a guest's traces.
pub(crate) struct Place {
    /// The guest's name, which is also the name of its folder.
    pub(crate) name: String,
    pub(crate) output: Arc<Mutex<dyn Output>>,
    /// The clock of the host's traces. Its UUID is replaced by that of the guest's clock.
    pub(crate) clock: ClockClass,
    /// Wall-clock time of the host at which the clock was 0 \[ns since 1970\].
    pub(crate) wall_ns: i64,
    /// The most bytes that the guest's traces may take \[byte\].
    pub(crate) max_bytes: u64,
    /// The file with the guest's memory, if it can be read on this machine.
    pub(crate) memory: Option<PathBuf>,
}

impl Place {
    /// Checks that the guest's traces may grow to `bytes` without exceeding their limit.
    fn check(&self, bytes: u64) -> Result<(), Problem> {
        match bytes <= self.max_bytes {
            true => Ok(()),
            false => Err(format!(
                "its traces have reached their limit of {}. Raise it: --guest \
                 NAME=CHANNEL,max-size=SIZE",
                self.max_bytes
            )),
        }
    }
}

/// The receiver of one guest's messages, which writes the guest's traces.
pub(crate) struct Receiver {
    place: Place,
    pub(crate) hello: Option<Hello>,
    clock: Arc<Mutex<GuestClock>>,
    /// The environment entries that the host adds to the metadata of the guest's traces.
    pub(crate) entries: Vec<Entry>,
    traces: BTreeMap<u32, GuestTrace>,
    bytes: u64,
    text_bytes: usize,
    /// Size of all metadata written so far, counting each rewrite \[byte\].
    described: u64,
    /// True if the guest has sent all of its trace.
    pub(crate) is_complete: bool,
    memory: Option<GuestMemory>,
}

/// A trace of a guest, with one folder for each epoch of the guest's clock.
struct GuestTrace {
    of: TraceOf,
    text: String,
    uuid: Option<Uuid>,
    streams: Streams,
    parts: Vec<Part>,
    packets: u64,
    bytes: u64,
    counted: Option<Counted>,
    ended: Option<(Ending, Losses)>,
    /// Place of the trace's buffers in the guest's memory, if the guest has sent it.
    told: Option<Told>,
    /// For each stream, the position in its ring up to which packets were received \[byte since its creation\].
    upto: BTreeMap<u32, u64>,
    /// The names of the kernel's functions, as the guest has sent them.
    symbols: Option<Vec<u8>>,
}

/// The destination of a packet.
#[derive(Clone, Copy)]
enum Of<'n> {
    /// The stream with this number, to which the packet is appended.
    Stream(u32),
    /// A stream of its own, in the file of this name.
    File(&'n str),
}

/// Counts of records and losses that a guest reports.
struct Counted {
    records: u64,
    discarded: u64,
    overwritten: u64,
}

/// A folder of a trace: the part within one epoch of the guest's clock.
struct Part {
    epoch: usize,
    uuid: Uuid,
    /// Environment entries that the host added to the metadata when the part began.
    entries: Vec<Entry>,
    sink: Box<dyn Sink>,
}

impl Receiver {
    pub(crate) fn new(place: Place) -> Receiver {
        let clock = Arc::new(Mutex::new(GuestClock::new(place.clock.uuid)));
        Receiver {
            place,
            hello: None,
            clock,
            entries: Vec::new(),
            traces: BTreeMap::new(),
            bytes: 0,
            text_bytes: 0,
            described: 0,
            is_complete: false,
            memory: None,
        }
    }

    /// Returns whether this machine can read the guest's memory.
    pub(crate) fn has_memory(&self) -> bool {
        self.place.memory.is_some()
    }

    /// Returns the guest's name.
    pub(crate) fn name(&self) -> &str {
        &self.place.name
    }

    /// Finds the clock of the guest's machine, which may also be recorded over another channel. Call this before
    /// other messages of the guest are handled.
    pub(crate) fn meet(&mut self, machines: &Machines, peer: Option<Peer>) {
        let Some(hello) = &self.hello else { return };
        self.clock = machines.clock(peer, hello.boot, &self.place.name, &self.clock);
        self.place.clock.uuid = lock(&self.clock).uuid();
    }

    /// Notes that the process `peer` runs the guest's machine from now on.
    ///
    /// # Errors
    /// Why the guest's memory cannot be read any longer.
    pub(crate) fn moves(&mut self, machines: &Machines, peer: Option<Peer>) -> Result<(), Problem> {
        machines.moves(&self.clock, peer);
        let (Some(known), Some(path)) = (self.memory.take(), &self.place.memory) else {
            return Ok(());
        };
        match GuestMemory::open(path, known.marker, self.recording()) {
            Ok(memory) => {
                self.memory = Some(memory);
                Ok(())
            }
            Err(error) => {
                let problem = format!("{}: {error}", path.display());
                // The memory is not opened for later traces either.
                self.place.memory = None;
                Err(problem)
            }
        }
    }

    fn recording(&self) -> Uuid {
        self.hello.as_ref().map_or(Uuid([0; 16]), |hello| hello.recording)
    }

    /// Returns whether the threads of the guest's virtual CPUs are known.
    pub(crate) fn has_cpus(&self) -> bool {
        self.entries.iter().any(|(name, _)| name.starts_with("virtual_cpu_"))
    }

    /// Locks the guest's clock.
    pub(crate) fn clock(&self) -> MutexGuard<'_, GuestClock> {
        lock(&self.clock)
    }

    /// Handles a message of the guest, except for messages about clocks.
    ///
    /// # Errors
    /// The reason to accept nothing more from the guest.
    pub(crate) fn take(&mut self, said: FromGuest<'_>) -> Result<(), Problem> {
        if self.hello.is_none() && !matches!(said, FromGuest::Hello(_)) {
            // The message is from an earlier recorder.
            return Ok(());
        }
        match said {
            FromGuest::Hello(hello) => self.greet(hello),
            FromGuest::Trace { id, of } => self.begin(id, of),
            FromGuest::Metadata { id, keep, text } => self.describe(id, keep, text),
            FromGuest::Symbols { id, bytes } => self.symbols(id, bytes),
            FromGuest::Packet { id, stream, upto, packet } => {
                self.packet(id, Of::Stream(stream), &packet)?;
                // A packet of an impossible stream was not accepted.
                self.trace(id)?.upto.insert(stream, upto);
                Ok(())
            }
            FromGuest::Stream { id, name, packet } => self.packet(id, Of::File(name), &packet),
            FromGuest::SetEnd { id, stream, end_ns } => self.set_end(id, stream, end_ns),
            FromGuest::Ended { id, ending, losses } => {
                let trace = self.trace(id)?;
                trace.ended = Some((ending, losses));
                // The guest has freed its buffers.
                trace.told = None;
                Ok(())
            }
            FromGuest::Counted { id, records, discarded, overwritten } => {
                self.trace(id)?.counted = Some(Counted { records, discarded, overwritten });
                Ok(())
            }
            FromGuest::Gone { id } => {
                self.trace(id)?.told = None;
                Ok(())
            }
            FromGuest::Memory { id, marker, first, pages } => {
                self.lies_in(id, marker, first, pages)
            }
            FromGuest::End => {
                self.is_complete = true;
                Ok(())
            }
            FromGuest::Pong { .. } => Ok(()),
        }
    }

    fn greet(&mut self, hello: Hello) -> Result<(), Problem> {
        match &self.hello {
            // The guest repeats this message until it is answered.
            Some(known) if known.recording == hello.recording => return Ok(()),
            Some(_) => {
                return Err("another recorder has begun in it, or it was started again".to_owned())
            }
            None => {}
        }
        if hello.version != VERSION {
            return Err(format!(
                "its recorder speaks version {} of the protocol, this one {VERSION}. Use the same strata in both",
                hello.version
            ));
        }
        if !hello.is_of_our_order {
            return Err("its byte order is not this machine's".to_owned());
        }
        self.hello = Some(hello);
        Ok(())
    }

    fn trace(&mut self, id: u32) -> Result<&mut GuestTrace, Problem> {
        self.traces.get_mut(&id).ok_or_else(|| unknown(id))
    }

    fn begin(&mut self, id: u32, of: TraceOf) -> Result<(), Problem> {
        if self.traces.len() >= TRACES_MAX {
            return Err(format!("it has more than {TRACES_MAX} traces"));
        }
        if self.traces.contains_key(&id) {
            return Err(format!("it begins trace {id} twice"));
        }
        if of == TraceOf::Kernel && self.traces.values().any(|one| one.of == TraceOf::Kernel) {
            return Err("it has two traces of its kernel".to_owned());
        }
        let trace = GuestTrace {
            of,
            text: String::new(),
            uuid: None,
            streams: Streams::default(),
            parts: Vec::new(),
            packets: 0,
            bytes: 0,
            counted: None,
            ended: None,
            told: None,
            upto: BTreeMap::new(),
            symbols: None,
        };
        self.traces.insert(id, trace);
        Ok(())
    }

    fn describe(&mut self, id: u32, keep: u64, text: &str) -> Result<(), Problem> {
        let Receiver { place, clock, traces, text_bytes, described, .. } = self;
        let trace = traces.get_mut(&id).ok_or_else(|| unknown(id))?;
        let keep = usize::try_from(keep).ok().filter(|keep| trace.text.is_char_boundary(*keep));
        let keep = keep.ok_or("its metadata go on behind their end")?;
        if keep + text.len() > METADATA_BYTES_MAX {
            return Err(format!(
                "the metadata of a trace have more than {METADATA_BYTES_MAX} bytes"
            ));
        }
        let before = trace.text.len();
        trace.text.truncate(keep);
        trace.text.push_str(text);
        let uuid = uuid_of(&trace.text).map_err(|problem| problem.to_string())?;
        if trace.uuid.is_some_and(|known| known != uuid) {
            return Err("a trace has another number than before".to_owned());
        }
        trace.uuid = Some(uuid);
        *text_bytes = *text_bytes - before + trace.text.len();
        if *text_bytes > TEXT_BYTES_MAX {
            return Err(format!("its metadata have more than {TEXT_BYTES_MAX} bytes"));
        }
        *described = described.saturating_add((trace.text.len() * trace.parts.len()) as u64);
        if *described > DESCRIBED_MAX {
            return Err("it describes its traces again and again".to_owned());
        }
        write_metadata(place, clock, trace)
    }

    /// Stores the symbols of the guest's kernel in all folders of its trace, and for folders that are created later.
    fn symbols(&mut self, id: u32, symbols: &[u8]) -> Result<(), Problem> {
        let Receiver { place, traces, bytes, .. } = self;
        let trace = traces.get_mut(&id).ok_or_else(|| unknown(id))?;
        if trace.of != TraceOf::Kernel {
            return Err("it names functions of a kernel in a trace of a process".to_owned());
        }
        // These symbols are written already.
        if trace.symbols.as_deref() == Some(symbols) {
            return Ok(());
        }
        *bytes = bytes.saturating_add((symbols.len() * trace.parts.len()) as u64);
        place.check(*bytes)?;
        for part in &mut trace.parts {
            part.sink.set_symbols(symbols).map_err(|error| failure_text(&error))?;
        }
        trace.symbols = Some(symbols.to_vec());
        Ok(())
    }

    fn packet(&mut self, id: u32, of: Of<'_>, packet: &PacketBytes<'_>) -> Result<(), Problem> {
        let streams: u64 = self.traces.values().map(|one| one.streams.count()).sum();
        let Receiver { place, clock, entries, traces, bytes, .. } = self;
        let trace = traces.get_mut(&id).ok_or_else(|| unknown(id))?;
        let uuid = trace.uuid.ok_or("a packet came before the metadata of its trace")?;
        let (mut header, body) = (packet.header, packet.body);
        let before = trace.streams.count();
        match of {
            Of::Stream(stream) => trace.streams.take(uuid, stream, &header, body.len() as u64),
            Of::File(_) => trace.streams.take_other(uuid, &header, body.len() as u64),
        }
        .map_err(|problem| problem.to_string())?;
        let added = trace.streams.count() - before;
        if streams + added > STREAMS_MAX {
            return Err(format!("its traces have more than {STREAMS_MAX} streams"));
        }
        let packet_bytes = (HEADER_BYTES + body.len()) as u64;
        let span = (header.timestamp_begin, header.timestamp_end);
        let epoch = lock(clock).epoch_of(span.0);
        let place_of = trace.parts.iter().position(|part| part.epoch == epoch);
        let symbols = trace.symbols.as_ref().filter(|_| place_of.is_none());
        let symbols = symbols.map_or(0, |symbols| symbols.len() as u64);
        *bytes = bytes.saturating_add(packet_bytes + added * FILE_BYTES + symbols);
        place.check(*bytes)?;
        let at = match place_of {
            Some(at) => at,
            None => {
                let mut part = open(place, trace, epoch, entries)?;
                if let Some(symbols) = &trace.symbols {
                    part.sink.set_symbols(symbols).map_err(|error| failure_text(&error))?;
                }
                trace.parts.push(part);
                write_metadata(place, clock, trace)?;
                trace.parts.len() - 1
            }
        };
        let Some(part) = trace.parts.get_mut(at) else { return Ok(()) };
        header.uuid = part.uuid;
        let written = match of {
            Of::Stream(stream) => part.sink.append(stream, header, &Body::Bytes(body)),
            Of::File(name) => part.sink.set_stream(name, &header.encode(), body),
        };
        written.map_err(|error| failure_text(&error))?;
        lock(clock).record(epoch, span);
        trace.packets += 1;
        trace.bytes = trace.bytes.saturating_add(packet_bytes);
        Ok(())
    }

    fn lies_in(&mut self, id: u32, marker: u64, first: &[u8], pages: &[u8]) -> Result<(), Problem> {
        let Some(path) = &self.place.memory else { return self.trace(id).map(drop) };
        if self.memory.is_none() {
            let memory = GuestMemory::open(path, marker, self.recording());
            let failed = |error| format!("its memory: {}: {error}", path.display());
            self.memory = Some(memory.map_err(failed)?);
        }
        let others = self.traces.iter().filter(|(other, _)| **other != id);
        let others = others.filter_map(|(_, trace)| trace.told.as_ref()).map(Told::count).sum();
        self.trace(id)?.told = Some(Told::new(first, pages, others)?);
        Ok(())
    }

    /// Reads from the guest's memory the records that it can no longer send, up to the time `until` of its clock
    /// \[ns\]. Returns `None` if the place of its buffers is not known.
    pub(crate) fn take_tail(&mut self, until: u64) -> Option<Tail> {
        let memory = self.memory.take()?;
        let told = self.traces.iter_mut().map(|(id, trace)| (*id, trace.told.take()));
        let told: Vec<_> = told.filter_map(|(id, told)| Some((id, told?))).collect();
        let mut all = Tail::default();
        for (id, told) in told {
            match self.tail_of(id, &memory, &told, until) {
                Ok(tail) => {
                    all.records += tail.records;
                    all.last_ns = all.last_ns.max(tail.last_ns);
                    all.damage = all.damage.or(tail.damage);
                }
                Err(problem) => all.damage = all.damage.or(Some(problem)),
            }
        }
        Some(all)
    }

    fn tail_of(
        &mut self,
        id: u32,
        memory: &GuestMemory,
        told: &Told,
        until: u64,
    ) -> Result<Tail, Problem> {
        let copy = memory.copy(told).map_err(|error| error.to_string())?;
        let mut channel = Channel::open(copy).map_err(|error| error.to_string())?;
        let trace = self.trace(id)?;
        let uuid = trace.uuid.ok_or("its trace is not described")?;
        let of = ring_recovery::Of {
            uuid,
            text: &trace.text,
            until,
            last: &|cpu| trace.streams.last(cpu),
            upto: &|cpu| trace.upto.get(&cpu).copied().unwrap_or(0),
        };
        let (packets, tail) = ring_recovery::packets(&mut channel, &of);
        for Found { header, body, mend } in packets {
            // There is one ring for each CPU.
            let stream = header.cpu_id;
            if let Some(end) = mend {
                self.set_end(id, stream, end)?;
            }
            self.packet(id, Of::Stream(stream), &PacketBytes { header, body: &body })?;
        }
        Ok(tail)
    }

    fn set_end(&mut self, id: u32, stream: u32, end_ns: u64) -> Result<(), Problem> {
        let trace = self.trace(id)?;
        trace.streams.set_end(stream, end_ns).map_err(|problem| problem.to_string())?;
        let Some(part) = trace.parts.last_mut().filter(|part| part.sink.stream_bytes(stream) > 0)
        else {
            return Ok(());
        };
        part.sink.set_end(stream, end_ns).map_err(|error| failure_text(&error))?;
        let epoch = part.epoch;
        lock(&self.clock).extend(epoch, end_ns);
        Ok(())
    }

    /// Learns from a question for the guest's time and its answer. Returns whether the guest's clock has jumped.
    pub(crate) fn learn(&mut self, exchange: &Exchange) -> bool {
        lock(&self.clock).learn(exchange)
    }

    /// Closes the files of the guest's traces. They are opened again when more packets arrive.
    pub(crate) fn pause(&mut self) {
        for part in self.traces.values_mut().flat_map(|trace| &mut trace.parts) {
            part.sink.pause();
        }
    }

    /// Returns the counts of records and losses of all traces of the guest so far.
    pub(crate) fn counts(&self) -> Counts {
        let mut all = Counts::default();
        self.traces.values().for_each(|trace| all.add(&trace.counts()));
        all
    }

    /// Returns the greatest uncertainty of the traces' times, over all epochs of the clock \[ns\]; `None` if there are
    /// no traces.
    pub(crate) fn uncertainty_ns(&self) -> Option<u64> {
        let parts = self.traces.values().flat_map(|trace| &trace.parts);
        let clock = self.clock();
        let lines = parts.filter_map(|part| clock.line(part.epoch));
        lines.map(|line| line.uncertainty_ns).max()
    }

    /// Completes all traces; `ending` is for traces whose end was not announced. Returns the reports, and the first
    /// write error.
    pub(crate) fn finish(&mut self, ending: Ending) -> (Vec<ProcessReport>, Option<Problem>) {
        let (mut reports, mut problem) = (Vec::new(), None);
        for trace in self.traces.values_mut() {
            let written = write_metadata(&self.place, &self.clock, trace);
            problem = problem.or(written.err());
            let (ending, losses) = trace.ended.unwrap_or((ending, Losses::default()));
            let ending = if ending == Ending::Recording { Ending::Failed } else { ending };
            let last = trace.parts.len().saturating_sub(1);
            for (at, part) in trace.parts.iter_mut().enumerate() {
                // Losses are written once, to the last part.
                let losses = if at == last { losses } else { Losses::default() };
                let ended = part.sink.end(ending, losses).map_err(|error| failure_text(&error));
                problem = problem.or(ended.err());
            }
            if trace.counted.is_none() {
                trace.count();
            }
            if !trace.parts.is_empty() {
                reports.push(trace.report());
            }
        }
        self.tell_kernels();
        (reports, problem)
    }

    /// Registers the finished traces of the guest's kernel, from which its clock may be refined.
    fn tell_kernels(&self) {
        let number = |(name, tid): &Entry| {
            let cpu = name.strip_prefix("virtual_cpu_")?.parse().ok()?;
            Some((cpu, *tid))
        };
        let kernels = self.traces.values().filter(|trace| trace.of == TraceOf::Kernel);
        for part in kernels.flat_map(|trace| &trace.parts) {
            let guest = part.sink.path().to_owned();
            let host = guest.parent().and_then(Path::parent).map(|all| all.join(KERNEL));
            let Some(host) = host else { continue };
            let cpus = part.entries.iter().filter_map(number).collect();
            self.clock().add_kernel(KernelTrace { epoch: part.epoch, guest, host, cpus });
        }
    }

    /// Refines the clock by the times when virtual CPUs ran, after the host's trace is complete. Returns the number of
    /// bounds used, and the first write error.
    pub(crate) fn refine(&mut self) -> (usize, Option<Problem>) {
        let (taken, is_changed) = self.clock().refine();
        if !is_changed {
            return (taken, None);
        }
        let Receiver { place, clock, traces, .. } = self;
        let written = traces.values_mut().map(|trace| write_metadata(place, clock, trace));
        (taken, written.filter_map(Result::err).next())
    }
}

impl GuestTrace {
    /// Counts the readable records of a trace whose recorder has not sent their number.
    fn count(&mut self) {
        let folders: Vec<_> = self.parts.iter().map(|part| part.sink.path().to_owned()).collect();
        let Ok(reader) = Reader::open(&folders) else { return };
        let mut records = 0;
        let mut events = reader.events(TimeRange::ALL);
        while let Some(message) = events.next() {
            records += u64::from(matches!(message, Message::Event(_)));
        }
        let discarded = self.streams.discarded();
        self.counted = Some(Counted { records, discarded, overwritten: 0 });
    }

    fn counts(&self) -> Counts {
        let most = self.bytes / RECORD_BYTES_MIN;
        let told = self.streams.discarded();
        let (records, discarded, overwritten) = match &self.counted {
            // The guest's own count is believed as far as it is possible.
            Some(said) => (said.records.min(most), said.discarded, said.overwritten),
            None => (0, told, 0),
        };
        Counts {
            records,
            packets: self.packets,
            bytes: self.bytes,
            metadata_bytes: self.text.len() as u64,
            span: self.streams.span(),
            // The guest's own report has the reasons.
            discarded: Discarded { full: discarded, ..Discarded::default() },
            overwritten,
            told,
            streams: u32::try_from(self.streams.count()).unwrap_or(u32::MAX),
            ..Counts::default()
        }
    }

    fn report(&self) -> ProcessReport {
        let (name, pid) = match &self.of {
            TraceOf::Kernel => (KERNEL.to_owned(), 0),
            TraceOf::Process { pid, name } => (name.clone(), *pid),
        };
        let folder: Option<PathBuf> = self.parts.first().map(|part| part.sink.path().to_owned());
        ProcessReport { pid, name, folder, counts: self.counts(), ..ProcessReport::default() }
    }
}

fn unknown(id: u32) -> Problem {
    format!("it names trace {id}, which does not exist")
}

fn open(
    place: &Place,
    trace: &GuestTrace,
    epoch: usize,
    entries: &[Entry],
) -> Result<Part, Problem> {
    let name = match epoch {
        0 => place.name.clone(),
        _ => format!("{}-epoch{}", place.name, epoch + 1),
    };
    let output = below(Some(&name), &place.output);
    let sink = match &trace.of {
        TraceOf::Kernel => lock(&output).trace(KERNEL, None),
        TraceOf::Process { pid, name } => lock(&output).trace(USER, Some((name.as_bytes(), *pid))),
    };
    let sink = sink.map_err(|error| failure_text(&error))?;
    let uuid = new_uuid().map_err(|error| format!("a number for its trace: {error}"))?;
    Ok(Part { epoch, uuid, entries: entries.to_vec(), sink })
}

/// Writes the metadata of all folders of a trace, with the present knowledge of the guest's clock.
fn write_metadata(
    place: &Place,
    clock: &Mutex<GuestClock>,
    trace: &mut GuestTrace,
) -> Result<(), Problem> {
    for part in &mut trace.parts {
        // Other users of the clock must not wait for the disk.
        let (line, exchanges) = {
            let clock = lock(clock);
            (clock.line(part.epoch), clock.exchanges(part.epoch))
        };
        let line: Line = line.ok_or("its clock is not known")?;
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let mut all = vec![
            ("clock_uncertainty".to_owned(), number(line.uncertainty_ns)),
            ("clock_drift_ppm".to_owned(), number(DRIFT_PPM)),
            ("clock_exchanges".to_owned(), number(exchanges)),
            ("clock_epoch".to_owned(), number(part.epoch as u64 + 1)),
        ];
        all.extend(part.entries.iter().cloned());
        let clock = line.clock(&place.clock, place.wall_ns);
        let text = in_host_time(&trace.text, part.uuid, &clock, &all);
        let text = text.map_err(|problem| problem.to_string())?;
        part.sink.set_metadata(&text).map_err(|error| failure_text(&error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
