//! What a guest's recorder says, as traces in the folder of the host's recording: each message is checked, and what it
//! would cost beyond a limit ends the guest's part, and nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use strata_collect::tail::{self, Found, Tail};
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

/// Traces of one guest: its kernel, and each process that it has recorded.
const TRACES_MAX: usize = 4096;
/// Streams of all of them.
const STREAMS_MAX: u64 = 1 << 14;
/// Metadata of all of them \[byte\].
const TEXT_BYTES_MAX: usize = 64 << 20;
/// Metadata that are written and read in all, as they grow \[byte\].
const DESCRIBED_MAX: u64 = 2 << 30;
/// A stream's file takes that at least \[byte\].
const FILE_BYTES: u64 = 4096;
/// No event record is smaller than its header \[byte\].
const RECORD_BYTES_MIN: u64 = 4;

/// Why nothing more is taken of a guest.
pub(crate) type Problem = String;

/// Where the traces of a guest go, and in what time.
pub(crate) struct Place {
    /// The guest's name, which is that of its folder.
    pub(crate) name: String,
    pub(crate) output: Arc<Mutex<dyn Output>>,
    /// The clock of the host's traces, but for its number, which is the guest's.
    pub(crate) clock: ClockClass,
    /// Since 1970, when that was 0 \[ns\].
    pub(crate) wall_ns: i64,
    /// What the guest's traces may take \[byte\].
    pub(crate) max_bytes: u64,
    /// The guest's memory, if it can be read here.
    pub(crate) memory: Option<PathBuf>,
}

impl Place {
    /// Whether its traces may have so many bytes.
    fn check(&self, bytes: u64) -> Result<(), Problem> {
        match bytes <= self.max_bytes {
            true => Ok(()),
            false => Err(format!(
                "its traces have as many bytes as they may have, {}. Allow it more: --guest \
                 NAME=CHANNEL,max-size=SIZE",
                self.max_bytes
            )),
        }
    }
}

/// One guest, as far as it has said anything.
pub(crate) struct Receiver {
    place: Place,
    pub(crate) hello: Option<Hello>,
    clock: Arc<Mutex<GuestClock>>,
    /// What the host knows of it now, for the environment of its traces.
    pub(crate) entries: Vec<Entry>,
    traces: BTreeMap<u32, GuestTrace>,
    bytes: u64,
    text_bytes: usize,
    /// All metadata that were written, as often as they were \[byte\].
    described: u64,
    /// All of it came.
    pub(crate) is_complete: bool,
    memory: Option<GuestMemory>,
}

/// One trace of a guest: a folder, or one for each time in which its clock did not jump.
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
    /// Where its buffers lie in the guest's memory.
    told: Option<Told>,
    /// How far the ring of each stream was handed over \[byte since its creation\].
    upto: BTreeMap<u32, u64>,
    /// Names of the kernel's functions.
    symbols: Option<Vec<u8>>,
}

/// Where a packet of a guest goes.
#[derive(Clone, Copy)]
enum Of<'n> {
    /// Behind the others of the stream of this number.
    Stream(u32),
    /// Into a stream by itself, by the name of its file.
    File(&'n str),
}

/// What a guest says that it has recorded.
struct Counted {
    records: u64,
    discarded: u64,
    overwritten: u64,
}

/// A folder of a trace.
struct Part {
    epoch: usize,
    uuid: Uuid,
    /// What the host knew of the guest when it began, for its environment.
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

    /// Whether the guest's memory can be read here.
    pub(crate) fn has_memory(&self) -> bool {
        self.place.memory.is_some()
    }

    /// The guest's.
    pub(crate) fn name(&self) -> &str {
        &self.place.name
    }

    /// Its clock is that of the machine that it says it is, which may be recorded by another channel, too. Before it has said
    /// anything else.
    pub(crate) fn meet(&mut self, machines: &Machines, peer: Option<Peer>) {
        let Some(hello) = &self.hello else { return };
        self.clock = machines.clock(peer, hello.boot, &self.place.name, &self.clock);
        self.place.clock.uuid = lock(&self.clock).uuid();
    }

    /// Another process runs its machine from now on.
    ///
    /// # Errors
    /// Why its memory cannot be read any more.
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
                // Nor is it opened for what begins later.
                self.place.memory = None;
                Err(problem)
            }
        }
    }

    fn recording(&self) -> Uuid {
        self.hello.as_ref().map_or(Uuid([0; 16]), |hello| hello.recording)
    }

    /// Is it known which threads its virtual CPUs are?
    pub(crate) fn has_cpus(&self) -> bool {
        self.entries.iter().any(|(name, _)| name.starts_with("virtual_cpu_"))
    }

    /// What is known of its clock.
    pub(crate) fn clock(&self) -> MutexGuard<'_, GuestClock> {
        lock(&self.clock)
    }

    /// Does what a guest says, but for what is about clocks.
    ///
    /// # Errors
    /// Why nothing more is taken.
    pub(crate) fn take(&mut self, said: FromGuest<'_>) -> Result<(), Problem> {
        if self.hello.is_none() && !matches!(said, FromGuest::Hello(_)) {
            // Of a recorder that was there before.
            return Ok(());
        }
        match said {
            FromGuest::Hello(hello) => self.greet(hello),
            FromGuest::Trace { id, of } => self.begin(id, of),
            FromGuest::Metadata { id, keep, text } => self.describe(id, keep, text),
            FromGuest::Symbols { id, bytes } => self.symbols(id, bytes),
            FromGuest::Packet { id, stream, upto, packet } => {
                self.packet(id, Of::Stream(stream), &packet)?;
                // A packet of a stream that cannot be was not taken.
                self.trace(id)?.upto.insert(stream, upto);
                Ok(())
            }
            FromGuest::Stream { id, name, packet } => self.packet(id, Of::File(name), &packet),
            FromGuest::SetEnd { id, stream, end_ns } => self.set_end(id, stream, end_ns),
            FromGuest::Ended { id, ending, losses } => {
                let trace = self.trace(id)?;
                trace.ended = Some((ending, losses));
                // Its buffers are given back.
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
            // It says so again and again until it is answered.
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

    /// They are in each folder of the trace, of which there may be none yet.
    fn symbols(&mut self, id: u32, symbols: &[u8]) -> Result<(), Problem> {
        let Receiver { place, traces, bytes, .. } = self;
        let trace = traces.get_mut(&id).ok_or_else(|| unknown(id))?;
        if trace.of != TraceOf::Kernel {
            return Err("it names functions of a kernel in a trace of a process".to_owned());
        }
        // What was there before is said once more where more is said of it.
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

    /// Takes what the guest has not handed over and will not any more, of records until then by its clock \[ns\].
    /// `None`: where that lies was not told.
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
        let of = tail::Of {
            uuid,
            text: &trace.text,
            until,
            last: &|cpu| trace.streams.last(cpu),
            upto: &|cpu| trace.upto.get(&cpu).copied().unwrap_or(0),
        };
        let (packets, tail) = tail::packets(&mut channel, &of);
        for Found { header, body, mend } in packets {
            // Rings are of CPUs.
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

    /// Takes note of an exchange. Returns whether the guest's clock has jumped.
    pub(crate) fn learn(&mut self, exchange: &Exchange) -> bool {
        lock(&self.clock).learn(exchange)
    }

    /// No file is held open for what comes later.
    pub(crate) fn pause(&mut self) {
        for part in self.traces.values_mut().flat_map(|trace| &mut trace.parts) {
            part.sink.pause();
        }
    }

    /// What was recorded until now.
    pub(crate) fn counts(&self) -> Counts {
        let mut all = Counts::default();
        self.traces.values().for_each(|trace| all.add(&trace.counts()));
        all
    }

    /// How far off the times of its traces are, at most, of all times in which its clock did not jump \[ns\].
    pub(crate) fn uncertainty_ns(&self) -> Option<u64> {
        let parts = self.traces.values().flat_map(|trace| &trace.parts);
        let clock = self.clock();
        let lines = parts.filter_map(|part| clock.line(part.epoch));
        lines.map(|line| line.uncertainty_ns).max()
    }

    /// All that is to come has come: `ending` is how it ends of traces whose end was not told. What became of them, and
    /// what of that could not be written.
    pub(crate) fn finish(&mut self, ending: Ending) -> (Vec<ProcessReport>, Option<Problem>) {
        let (mut reports, mut problem) = (Vec::new(), None);
        for trace in self.traces.values_mut() {
            let written = write_metadata(&self.place, &self.clock, trace);
            problem = problem.or(written.err());
            let (ending, losses) = trace.ended.unwrap_or((ending, Losses::default()));
            let ending = if ending == Ending::Recording { Ending::Failed } else { ending };
            let last = trace.parts.len().saturating_sub(1);
            for (at, part) in trace.parts.iter_mut().enumerate() {
                // Told once.
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

    /// Traces of its kernel are as far as they will be: its clock may become better known by them.
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

    /// What follows for its clock from when its virtual CPUs ran, once the host's trace is complete. Returns how much that was,
    /// and what could not be written.
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
    /// Its recorder has not said how many records there are: as many as can be read.
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
            // The guest's word, as far as it can be.
            Some(said) => (said.records.min(most), said.discarded, said.overwritten),
            None => (0, told, 0),
        };
        Counts {
            records,
            packets: self.packets,
            bytes: self.bytes,
            metadata_bytes: self.text.len() as u64,
            span: self.streams.span(),
            // Why is in the guest's own report.
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
    format!("it speaks of trace {id}, which there is not")
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

/// Describes all folders of a trace, in the host's time as it is known now.
fn write_metadata(
    place: &Place,
    clock: &Mutex<GuestClock>,
    trace: &mut GuestTrace,
) -> Result<(), Problem> {
    for part in &mut trace.parts {
        // Others who have this clock do not wait for the disk.
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
