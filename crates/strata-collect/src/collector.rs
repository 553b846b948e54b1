//! Collects the packets of one channel of one process.
//!
//! A [`Collector`] has a channel's streams on one side and a [`Sink`] on the other. It moves whole packets, and the
//! published begin of the packet that is being filled, without decoding records:
//!
//! ```text
//! poll()      packets that producers have delivered                  each time that something may be ready
//! flush()     also the published part of the present packets          once a flush period
//! complete()  all of it, while producers go on; then into_parts()     rotation: the streams go on in another trace
//! finish()    all of it, and the final counts of losses               the channel is closed
//! give_up()   nothing more: the sink or the memory failed for good
//! ```
//!
//! # What a reader of the files may rely on
//! The list is in the crate's comment (`lib.rs`). `stream_file.rs` keeps these promises with one state for each stream, and
//! this module consults that state before each write. The contents of the records are not checked: a producer may write
//! anything there.
//!
//! # Losses
//! Each packet has the count of discarded records so far. Records that were discarded after the last packet get an
//! empty packet with that count, so that every loss has a time range. Losses that no stream counts
//! ([`Collector::add_discarded`]) are in the end mark.
//!
//! # Full disks
//! Of a packet that does not fit, as many whole records as fit are written. If the session waits for space, writing is
//! tried again later. Metadata that could not be written are kept ([`Collector::tell`]), since their source gives them
//! only once.
//!
//! A collector belongs to the pump's thread and never blocks on a producer: at the end of a session it waits some
//! milliseconds for a slot that stays reserved, and then skips it.

use crate::error::Error;
use crate::growing_metadata::Kinds;
use crate::sink::{Body, Sink, WrittenTrace};
use crate::stats::StreamStats;
use crate::stream_file::{PacketWriting, StreamTrack};
use crate::streams::Streams;
use std::time::Duration;
use std::{fmt, thread};
use strata_ctf::packet::Header;
use strata_ctf::packet_records::RecordScanner;
use strata_ctf::progress_mark::ProgressMark;
use strata_model::{ByteOrder, LossMode, StreamClass, Uuid};
use strata_ring::{Channel, Counters, Info, Packet, Poll, Publish, SeenPacket, Stream};

/// The trace that a channel's packets belong to.
#[derive(Clone, Debug)]
pub struct TraceIdentity {
    /// UUID of the trace.
    pub uuid: Uuid,
    /// Id of the stream class in the metadata.
    pub stream_id: u32,
}

/// State of the producers of a channel when it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProducerState {
    /// The producer lives; its tracepoints were disabled.
    Alive,
    /// The producer has ended, and so have all other processes that wrote to the channel.
    Dead,
}

/// Number of attempts to read a slot that is not committed at the end of a session, and the time between two attempts.
const PATIENCE: (u32, Duration) = (20, Duration::from_millis(1));

/// Size of the smallest piece of a packet that is written if the whole packet does not fit on the disk \[byte\].
const PIECE_BYTES_MIN: usize = 512;

/// Time after its timestamp within which a record is almost always published \[ns\].
const IN_FLIGHT_NS: u64 = 5_000_000;

/// Returns whether a write failed for lack of space, so that a shorter piece may still fit.
fn is_full(error: &Error) -> bool {
    matches!(error, Error::NoSpace { .. } | Error::TooLarge { .. })
}

/// Supplies the event record classes; see [`Collector::set_classes`].
pub(crate) struct ClassTeller(pub(crate) Box<dyn FnMut() -> Option<StreamClass> + Send>);

impl fmt::Debug for ClassTeller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Classes")
    }
}

/// Moves the packets of one channel into its trace.
///
/// After an [`Error`] the packet that could not be written is still unread and the trace is whole: the same call may be
/// tried again.
#[derive(Debug)]
pub struct Collector {
    sink: Box<dyn Sink>,
    identity: TraceIdentity,
    streams: Streams,
    described: bool,
    /// Metadata that are not written yet, because the disk was full.
    untold: Option<String>,
    classes: Option<ClassTeller>,
    kinds: Option<Kinds>,
    /// The begin and end that all streams must cover; see [`Collector::span_from`] \[ns\].
    span: Option<(u64, u64)>,
    /// Time of the last call of [`Collector::late_ns`] \[ns\].
    looked_ns: u64,
}

pub(crate) fn now_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // Not negative, and 2^64 ns are 584 years. Records have the machine's time, whatever namespace we are in.
    let ns = t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64;
    ns.saturating_add_signed(strata_model::time_namespace_adds_ns().0.saturating_neg())
}

impl Collector {
    /// Makes a collector that moves packets from `channel` to `sink`. Nothing is read or written yet.
    #[must_use]
    pub fn new(sink: Box<dyn Sink>, channel: Channel, identity: TraceIdentity) -> Self {
        Self::of(sink, Streams::new(channel), identity)
    }

    /// Makes a collector that continues `streams` at the positions up to which they were read.
    #[must_use]
    pub fn of(sink: Box<dyn Sink>, streams: Streams, identity: TraceIdentity) -> Self {
        Self {
            sink,
            identity,
            streams,
            described: false,
            untold: None,
            classes: None,
            kinds: None,
            span: None,
            looked_ns: now_ns(),
        }
    }

    /// Returns the sink of the trace.
    pub fn sink(&mut self) -> &mut dyn Sink {
        &mut *self.sink
    }

    /// Returns the trace, to which nothing more is written, and the streams, whose further records can go to another
    /// trace.
    #[must_use]
    pub fn into_parts(self) -> (WrittenTrace, Streams) {
        let Self { sink, mut streams, .. } = self;
        let mut counts = streams.counts_of_trace();
        counts.metadata_bytes = sink.metadata_bytes();
        streams.cut();
        (WrittenTrace { sink, counts }, streams)
    }

    /// Extends every stream that gets a packet to the whole recording, from `begin` to [`Collector::finish`]: an empty
    /// packet is put before the first one, and the last one ends later. Some readers show only the time that all
    /// streams cover. Must be called before the first packet is written.
    pub fn span_from(&mut self, begin: u64) {
        self.span = Some((begin, begin));
        self.streams.tracks.iter_mut().for_each(|track| track.span_from(begin));
    }

    /// Continues streams whose records until now are in another trace. `told`: for each stream, the number of
    /// discarded records that the other trace reports. Must be called before the first packet is written.
    pub fn go_on(&mut self, told: &[u64]) {
        let Streams { channel, tracks, .. } = &mut self.streams;
        for (track, told) in tracks.iter_mut().zip(told) {
            let stream = channel.stream(track.stats.cpu);
            let counters = stream.map(|stream| stream.counters()).unwrap_or_default();
            track.go_on(*told, &counters);
        }
    }

    /// Returns two counts of discarded records for each stream: those that earlier traces report, and those that
    /// earlier traces and this one report together.
    #[must_use]
    pub fn told(&self) -> (Vec<u64>, Vec<u64>) {
        self.streams.tracks.iter().map(|track| (track.before(), track.discarded())).unzip()
    }

    /// Returns the time range that all streams cover, once the collector has finished \[ns\]; `None` without
    /// [`Collector::span_from`].
    #[must_use]
    pub fn span(&self) -> Option<(u64, u64)> {
        self.span
    }

    /// Replaces the trace's metadata. Must be called before the first packet is written.
    ///
    /// # Errors
    /// A system call failed; [`Collector::tell`] tries again.
    pub fn set_metadata(&mut self, text: &str) -> Result<(), Error> {
        self.untold = Some(text.to_owned());
        self.tell()
    }

    /// Writes metadata that could not be written before because the disk was full, if there are any.
    ///
    /// # Errors
    /// As [`Collector::set_metadata`].
    pub(crate) fn tell(&mut self) -> Result<(), Error> {
        tell(&mut self.untold, &mut self.described, &mut *self.sink)
    }

    /// Makes the metadata grow with the kinds of event records that happen, in place of [`Collector::set_metadata`].
    /// Must be called before the first packet is written.
    ///
    /// # Errors
    /// A system call failed.
    pub fn describe_kinds(&mut self, mut kinds: Kinds) -> Result<(), Error> {
        if self.sink.memory_reader().is_some() {
            kinds.add_all();
        }
        let kinds = self.kinds.insert(kinds);
        self.untold = Some(kinds.text().to_owned());
        tell(&mut self.untold, &mut self.described, &mut *self.sink)?;
        kinds.set_written();
        Ok(())
    }

    /// Replaces the part of growing metadata that precedes the kinds of event records. Does nothing if the metadata do
    /// not grow ([`Collector::describe_kinds`]).
    ///
    /// # Errors
    /// A system call failed.
    pub fn set_head(&mut self, head: &str) -> Result<(), Error> {
        let Some(kinds) = &mut self.kinds else { return Ok(()) };
        kinds.set_head(head);
        self.untold = Some(kinds.text().to_owned());
        tell(&mut self.untold, &mut self.described, &mut *self.sink)?;
        kinds.set_written();
        Ok(())
    }

    /// Sets the source of the stream's event record classes, which are needed if a producer was killed before it could
    /// count a packet's records: the collector then counts them one by one.
    ///
    /// `classes` is called for each such packet, after `describe`, and must return every class of which the packet may
    /// have records. From the first record on that has no class or is incomplete, the packet is left out of the file,
    /// and counts as damaged.
    pub fn set_classes(&mut self, classes: impl FnMut() -> Option<StreamClass> + Send + 'static) {
        self.classes = Some(ClassTeller(Box::new(classes)));
    }

    /// Passes the place of the channel's memory to the sink, if the receiver behind the sink can
    /// read that memory.
    ///
    /// # Errors
    /// A system call failed.
    pub(crate) fn show(&mut self) -> Result<(), Error> {
        match self.sink.memory_reader() {
            Some(reader) => reader.lies_in(&self.streams.channel),
            None => Ok(()),
        }
    }

    /// Adds `n` discarded records that no stream counts; see [`Streams::add_discarded`]. [`Collector::finish`] adds
    /// them to the first stream's file.
    pub fn add_discarded(&mut self, n: u64) {
        self.streams.add_discarded(n);
    }

    /// Returns the streams that the collector reads.
    pub fn streams(&mut self) -> &mut Streams {
        &mut self.streams
    }

    /// Returns whether a stream has a whole packet to read.
    #[must_use]
    pub fn readable(&mut self) -> bool {
        let ready = |poll| matches!(poll, Poll::Readable | Poll::Urgent);
        let channel = &mut self.streams.channel;
        (0..channel.nr_streams())
            .any(|i| channel.stream(i).is_ok_and(|stream| ready(stream.poll())))
    }

    /// Writes packets that the streams have delivered. From each stream at most twice as many packets are taken as it
    /// has sub-buffers, so that no producer keeps the others waiting. Returns the number of written packets.
    ///
    /// `describe` is called after a packet was taken and before it is written. It returns new metadata if the packet
    /// may have records of event record classes that the last metadata lack.
    ///
    /// # Errors
    /// The error of the first stream that failed; the streams after it are not tried.
    pub fn poll(&mut self, describe: &mut dyn FnMut() -> Option<String>) -> Result<u64, Error> {
        let mut packets = 0;
        let late_ns = self.late_ns();
        for stream in 0..self.streams.channel.nr_streams() {
            packets += self.poll_stream(stream, late_ns, describe)?;
        }
        Ok(packets)
    }

    /// Returns the time since the last call \[ns\]: the time by which the thread may be late in reading its channels.
    fn late_ns(&mut self) -> u64 {
        let now = now_ns();
        now.saturating_sub(std::mem::replace(&mut self.looked_ns, now))
    }

    /// Calls `act`, which reads one stream and writes its file. Returns the number of packets that `act` wrote. A
    /// stream that cannot be read at all is skipped, and reported as damaged once.
    fn on_stream(
        &mut self,
        number: u32,
        describe: &mut dyn FnMut() -> Option<String>,
        act: impl FnOnce(&mut Stream<'_>, &mut StreamWriting<'_>) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let track = &mut self.streams.tracks[number as usize];
        let mut stream = match self.streams.channel.stream(number) {
            Ok(stream) => stream,
            Err(e) => {
                if track.all().damaged == 0 {
                    track.damaged(e.to_string());
                }
                return Ok(0);
            }
        };
        let mut writer = StreamWriting {
            sink: &mut *self.sink,
            identity: &self.identity,
            described: &mut self.described,
            untold: &mut self.untold,
            describe,
            classes: self.classes.as_mut(),
            kinds: self.kinds.as_mut(),
            track,
            packets: 0,
        };
        let done = act(&mut stream, &mut writer);
        let packets = writer.packets;
        self.sink.pause();
        done.map(|()| packets)
    }

    fn poll_stream(
        &mut self,
        number: u32,
        late_ns: u64,
        describe: &mut dyn FnMut() -> Option<String>,
    ) -> Result<u64, Error> {
        let nr_subbufs = u64::from(self.streams.channel.nr_subbufs());
        let capacity = nr_subbufs.saturating_mul(self.streams.channel.subbuf_bytes());
        self.on_stream(number, describe, |stream, writer| {
            let mut is_taken = false;
            for _ in 0..nr_subbufs * 2 {
                match stream.next() {
                    Ok(None) => break,
                    Err(e) => writer.track.damaged(e.to_string()),
                    Ok(Some(packet)) => {
                        writer.packet(&packet)?;
                        packet.put();
                        is_taken = true;
                    }
                }
            }
            // A buffer that was full has given some.
            if is_taken {
                writer.track.taken(stream.counters().discarded_full, capacity, late_ns);
            }
            Ok(())
        })
    }

    /// Writes everything that was published, the sub-buffers being filled included.
    ///
    /// # Errors
    /// As [`Collector::poll`].
    pub fn flush(&mut self, describe: &mut dyn FnMut() -> Option<String>) -> Result<u64, Error> {
        let mut packets = 0;
        match self.streams.channel.publish() {
            Publish::ByCommit => {
                self.flush_outside();
                packets += self.poll(describe)?;
            }
            Publish::ByPosition => {
                let mut buffer = Vec::new();
                let late_ns = self.late_ns();
                for stream in 0..self.streams.channel.nr_streams() {
                    packets += self.poll_stream(stream, late_ns, describe)?;
                    packets += self.cut(stream, &mut buffer, describe)?;
                }
            }
        }
        Ok(packets)
    }

    /// Flushes as [`Collector::flush`] does, and notes in the trace's progress mark up to which time it is written.
    ///
    /// # Errors
    /// As [`Collector::poll`].
    pub fn flush_and_tell(
        &mut self,
        flush: Duration,
        describe: &mut dyn FnMut() -> Option<String>,
    ) -> Result<u64, Error> {
        let upto = now_ns().saturating_sub(IN_FLIGHT_NS);
        let packets = self.flush(describe)?;
        let flush_ns = u64::try_from(flush.as_nanos()).unwrap_or(u64::MAX);
        // Whoever follows the trace waits until the next time; that there is no room is said by packets.
        let _ = self.sink.set_progress(&ProgressMark { upto, flush_ns });
        Ok(packets)
    }

    /// Flushes the sub-buffers being filled, for channels that publish by commit.
    fn flush_outside(&mut self) {
        for i in 0..self.streams.channel.nr_streams() {
            if let Ok(mut stream) = self.streams.channel.stream(i) {
                if stream.backlog() > 0 {
                    // Its producer was quicker: the next flush will do.
                    let _ = stream.flush();
                }
            }
        }
    }

    /// Writes the published beginning of the packet being filled, for channels that publish by position.
    fn cut(
        &mut self,
        number: u32,
        buffer: &mut Vec<u8>,
        describe: &mut dyn FnMut() -> Option<String>,
    ) -> Result<u64, Error> {
        self.on_stream(number, describe, |stream, writer| {
            if stream.backlog() == 0 {
                return Ok(());
            }
            let info = match stream.partial(buffer) {
                Ok(Some(info)) => info,
                Ok(None) => return Ok(()),
                Err(source) => {
                    let path = writer.sink.path().to_owned();
                    return Err(Error::Ring { path, source });
                }
            };
            let written = writer.copied(&info, buffer, false, || stream.counters());
            written.inspect_err(|error| {
                if is_full(error) {
                    writer.write_some(&info, buffer, stream.counters());
                }
            })
        })
    }

    /// Writes all remaining records, and into each file how many records were discarded in all. Afterwards the
    /// collector has nothing more to do.
    ///
    /// # Errors
    /// As [`Collector::poll`]; [`Error::Gone`]: the folder was removed.
    pub fn finish(
        &mut self,
        producer: ProducerState,
        describe: &mut dyn FnMut() -> Option<String>,
    ) -> Result<(), Error> {
        self.poll(describe)?;
        if producer == ProducerState::Alive {
            self.finish_alive(describe)?;
        }
        for stream in 0..self.streams.channel.nr_streams() {
            if producer == ProducerState::Dead || self.streams.backlog(stream) > 0 {
                self.rest(stream, describe)?;
            }
            self.sign_off(stream, describe)?;
        }
        self.span_to_end(describe)?;
        self.sink.check()
    }

    /// Completes the trace while producers continue: writes everything that was published, and notes in each file how
    /// many records were discarded until now. Later records go to another trace; see [`Collector::into_parts`].
    ///
    /// # Errors
    /// As [`Collector::poll`].
    pub fn complete(&mut self, describe: &mut dyn FnMut() -> Option<String>) -> Result<(), Error> {
        self.flush(describe)?;
        // What says that the files end now has no record: of one that was begun before, the rest is still to come.
        let times: Vec<_> = self.streams.tracks.iter().map(StreamTrack::last_times).collect();
        let done = (0..self.streams.channel.nr_streams())
            .try_for_each(|stream| self.sign_off(stream, describe))
            .and_then(|()| self.span_to_end(describe));
        let tracks = self.streams.tracks.iter_mut();
        tracks.zip(times).for_each(|(track, times)| track.set_last_times(times));
        done
    }

    /// Extends the last packet of each stream to the end of the recording, if [`Collector::span_from`] was called.
    fn span_to_end(&mut self, describe: &mut dyn FnMut() -> Option<String>) -> Result<(), Error> {
        let Some((begin, _)) = self.span else { return Ok(()) };
        let end = self.streams.tracks.iter().map(StreamTrack::end).fold(now_ns(), u64::max);
        self.span = Some((begin, end));
        for stream in 0..self.streams.channel.nr_streams() {
            self.on_stream(stream, describe, |_, writer| writer.end_at(end))?;
        }
        Ok(())
    }

    fn finish_alive(&mut self, describe: &mut dyn FnMut() -> Option<String>) -> Result<(), Error> {
        for _ in 0..PATIENCE.0 {
            self.flush(describe)?;
            if (0..self.streams.channel.nr_streams()).all(|i| self.streams.backlog(i) == 0) {
                break;
            }
            thread::sleep(PATIENCE.1);
        }
        Ok(())
    }

    /// Writes the remaining records of a stream to which producers no longer write.
    fn rest(
        &mut self,
        number: u32,
        describe: &mut dyn FnMut() -> Option<String>,
    ) -> Result<(), Error> {
        let limit = self.streams.channel.nr_subbufs() + 1;
        let rest = |stream: &mut Stream<'_>, writer: &mut StreamWriting<'_>| {
            let mut unpublished_bytes = 0u64;
            for _ in 0..limit {
                match stream.rest() {
                    Ok(None) => break,
                    Err(e) => writer.track.damaged(e.to_string()),
                    Ok(Some(packet)) => {
                        let info = packet.info();
                        unpublished_bytes =
                            unpublished_bytes.saturating_add(info.unpublished_bytes);
                        if info.content_bytes > info.header_bytes
                            && !writer.track.has(info.position)
                        {
                            writer.packet(&packet)?;
                        }
                    }
                }
            }
            // Not added: should something fail, all of it is gone through again.
            writer.track.stats.unpublished_bytes = unpublished_bytes;
            Ok(())
        };
        self.on_stream(number, describe, |stream, writer| {
            rest(stream, writer).inspect_err(|_| {
                // Nothing was consumed; what is in the file is passed over next time.
                let _ = stream.rest_again();
            })
        })
        .map(|_| ())
    }

    /// Writes an empty packet that counts the records discarded after the last packet was closed, if there are any.
    fn sign_off(
        &mut self,
        number: u32,
        describe: &mut dyn FnMut() -> Option<String>,
    ) -> Result<(), Error> {
        let not_run = self.streams.not_run(number);
        self.on_stream(number, describe, |stream, writer| {
            let counters = stream.counters();
            writer.track.finished(&counters);
            writer.track.losses_until(&counters, now_ns());
            let overwritten = writer.track.overwritten(&counters);
            let discarded = counters.discarded().saturating_add(overwritten);
            let discarded = discarded.saturating_add(not_run);
            if discarded <= writer.track.discarded() {
                return Ok(());
            }
            let end = writer.track.end().max(now_ns());
            let first = writer.track.stats.packets == 0;
            let begin = if first { end } else { writer.track.end() };
            writer.open(begin, discarded)?;
            writer.empty(begin, end, discarded)
        })
        .map(|_| ())
    }

    /// Counts the records that the streams still hold as discarded. Replaces [`Collector::finish`] if writing
    /// has failed for good; producers must write no more.
    pub fn give_up(&mut self) {
        self.streams.give_up();
    }

    /// Returns the counts of each stream's records so far, without streams that were never used.
    #[must_use]
    pub fn stats(&mut self) -> Vec<StreamStats> {
        self.streams.stats()
    }

    /// Returns the begin of the trace's first packet and the end of its last one so far \[ns\].
    #[must_use]
    pub fn span_of_trace(&self) -> Option<(u64, u64)> {
        self.streams.counts_of_trace().span
    }

    /// Returns whether the oldest packets are overwritten when all sub-buffers are full.
    #[must_use]
    pub fn overwrites(&self) -> bool {
        self.streams.channel.loss_mode() == LossMode::Overwrite
    }
}

/// Writes the metadata in `untold`. If that fails, they stay there, since their source does not return them again.
fn tell(
    untold: &mut Option<String>,
    described: &mut bool,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    if let Some(text) = untold {
        sink.set_metadata(text)?;
        *described = true;
        *untold = None;
    }
    Ok(())
}

/// State needed to write the packets of one stream.
pub(crate) struct StreamWriting<'w> {
    pub(crate) sink: &'w mut dyn Sink,
    pub(crate) identity: &'w TraceIdentity,
    pub(crate) described: &'w mut bool,
    pub(crate) untold: &'w mut Option<String>,
    pub(crate) describe: &'w mut dyn FnMut() -> Option<String>,
    pub(crate) classes: Option<&'w mut ClassTeller>,
    pub(crate) kinds: Option<&'w mut Kinds>,
    pub(crate) track: &'w mut StreamTrack,
    pub(crate) packets: u64,
}

impl StreamWriting<'_> {
    /// Writes the part of a copied packet that is not in the file yet. `bytes`: the copy of the packet. `whole`: true
    /// if no more of the packet follows.
    pub(crate) fn copied(
        &mut self,
        info: &Info,
        bytes: &[u8],
        whole: bool,
        counters: impl FnOnce() -> Counters,
    ) -> Result<(), Error> {
        let mut plan = match self.track.plan(info, whole, counters, now_ns) {
            Ok(plan) => plan,
            Err(what) => {
                self.track.damaged(what);
                return Ok(());
            }
        };
        self.describe(&plan)?;
        let body = bytes.get(plan.from as usize..).unwrap_or(&[]);
        self.look(body)?;
        match self.count(&mut plan, info, |of| {
            of.extend_from_slice(body);
            true
        }) {
            Some(body) => self.write(plan, &Body::Bytes(&body)),
            None => self.write(plan, &Body::Bytes(body)),
        }
    }

    /// Writes a packet straight from shared memory while its producer may overwrite it. Returns `false` and writes
    /// nothing if the packet must be copied first or was overwritten.
    pub(crate) fn seen(&mut self, seen: &SeenPacket<'_>) -> Result<bool, Error> {
        let packet = seen.packet();
        let plan = self.track.plan(packet.info(), true, || packet.counters(), now_ns);
        // What is wrong with it is said of the copy.
        let Ok(plan) = plan else { return Ok(false) };
        if self.kinds.is_some() || plan.is_uncounted() || plan.mend.is_some() {
            return Ok(false);
        }
        let cpu = self.track.stats.cpu;
        self.track.begin(&plan);
        self.open(plan.begin, plan.discarded)?;
        let header = self.header(plan.begin, plan.end, plan.discarded, plan.body_bytes);
        let body = Body::Packet(packet, plan.from);
        self.sink.append_counted(cpu, header, &body, plan.records())?;
        if !seen.is_there() {
            if let Some(hidden) = self.sink.hidden_streams() {
                hidden.take_back(cpu);
            }
            return Ok(false);
        }
        self.track.written(plan, true, self.sink.stream_bytes(cpu));
        self.packets += 1;
        Ok(true)
    }

    /// Writes the part of a complete packet that is not in the file yet, straight from shared memory.
    fn packet(&mut self, packet: &Packet<'_>) -> Result<(), Error> {
        let mut plan = match self.track.plan(packet.info(), true, || packet.counters(), now_ns) {
            Ok(plan) => plan,
            Err(what) => {
                self.track.damaged(what);
                return Ok(());
            }
        };
        self.describe(&plan)?;
        if plan.body_bytes > 0 && self.kinds.as_mut().is_some_and(|kinds| !kinds.is_whole()) {
            let mut body = Vec::new();
            packet.copy_to(plan.from, &mut body).map_err(|source| {
                let path = self.sink.path().to_owned();
                Error::Ring { path, source }
            })?;
            self.look(&body)?;
        }
        let from = plan.from;
        let copy = |body: &mut Vec<u8>| packet.copy_to(from, body).is_ok();
        let written = match self.count(&mut plan, packet.info(), copy) {
            Some(body) => self.write(plan, &Body::Bytes(&body)),
            None => self.write(plan, &Body::Packet(packet, from)),
        };
        written.inspect_err(|error| {
            let mut body = Vec::new();
            if is_full(error) && packet.copy_to(0, &mut body).is_ok() {
                self.write_some(packet.info(), &body, packet.counters());
            }
        })
    }

    /// Writes as many of a packet's first records as fit, after the whole packet did not. `body` is the packet from the
    /// begin of its sub-buffer on. Writes nothing if there is no memory or the classes are invalid.
    fn write_some(&mut self, info: &Info, body: &[u8], counters: Counters) {
        let class = self.classes.as_mut().and_then(|classes| (classes.0)());
        let scanner = class.and_then(|class| RecordScanner::new(&class, ByteOrder::NATIVE).ok());
        let Some(scanner) = scanner else { return };
        let mut most = body.len() / 2;
        while most >= PIECE_BYTES_MIN {
            // Of a file whose first packet did not fit nothing is left.
            self.sink.pause();
            // What was written of it until now is passed over.
            let Ok(mut plan) = self.track.plan(info, false, || counters, now_ns) else {
                return;
            };
            let Some(left) = body.get(plan.from as usize..) else { return };
            let (mut records, mut bytes, mut last, mut time) = (0, 0, plan.begin, plan.begin);
            for record in scanner.records(left, plan.begin) {
                let Ok(record) = record else { break };
                if record.offset > most as u64 {
                    break;
                }
                // The one before it ends where it begins.
                (records, bytes, last, time) = (records + 1, record.offset, time, record.timestamp);
            }
            let records = u64::saturating_sub(records, 1);
            if records == 0 {
                most /= 2;
                continue;
            }
            plan.cut(records, bytes, last);
            let piece = left.get(..bytes as usize).unwrap_or(&[]);
            let written = self.write(plan, &Body::Bytes(piece));
            if written.is_err() {
                most /= 2;
            }
        }
    }

    /// Writes new metadata, if `describe` has any and the plan has records to write.
    fn describe(&mut self, plan: &PacketWriting) -> Result<(), Error> {
        if plan.body_bytes > 0 {
            if let Some(text) = (self.describe)() {
                *self.untold = Some(text);
            }
            tell(self.untold, self.described, self.sink)?;
        }
        Ok(())
    }

    /// Adds the descriptions of the kinds of `records` to growing metadata.
    fn look(&mut self, records: &[u8]) -> Result<(), Error> {
        if let Some(kinds) = &mut self.kinds {
            if !kinds.is_whole() && kinds.look(records) {
                self.sink.set_metadata(kinds.text())?;
                kinds.set_written();
            }
        }
        Ok(())
    }

    /// Counts the packet's records, if the producer has not counted them and there are classes. Returns a copy of the
    /// whole records, so that exactly the counted records are written.
    fn count(
        &mut self,
        plan: &mut PacketWriting,
        info: &Info,
        copy: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> Option<Vec<u8>> {
        if !plan.is_uncounted() {
            return None;
        }
        let class = (self.classes.as_mut()?.0)()?;
        let mut body = Vec::new();
        // Without memory for a copy, or with classes that are nonsense, the packet stays uncounted.
        copy(&mut body).then_some(())?;
        let scanner = RecordScanner::new(&class, ByteOrder::NATIVE).ok()?;
        let mut why = None;
        let records = scanner.count(&body).or_else(|error| {
            why = Some(format!(
                "stream {}, packet at position {}: {error}. Left out from there on",
                self.track.stats.cpu, info.position
            ));
            body.truncate(usize::try_from(error.offset()).unwrap_or(0));
            scanner.count(&body)
        });
        plan.count(records.ok()?, body.len() as u64, why);
        Some(body)
    }

    /// Writes what `plan` describes; `body` has the records.
    fn write(&mut self, plan: PacketWriting, body: &Body<'_>) -> Result<(), Error> {
        let cpu = self.track.stats.cpu;
        if plan.body_bytes == 0 {
            self.track.written(plan, false, self.sink.stream_bytes(cpu));
            return Ok(());
        }
        self.track.begin(&plan);
        self.open(plan.begin, plan.discarded)?;
        if let Some(end) = plan.mend {
            self.sink.set_end(cpu, end)?;
        }
        let header = self.header(plan.begin, plan.end, plan.discarded, plan.body_bytes);
        if let Some(reader) = self.sink.memory_reader() {
            reader.goes_upto(cpu, plan.end_position());
        }
        self.sink.append_counted(cpu, header, body, plan.records())?;
        self.track.written(plan, true, self.sink.stream_bytes(cpu));
        self.packets += 1;
        Ok(())
    }

    /// Prepares the file for a packet that begins at `begin` and counts `discarded`. Readers compare that count with
    /// the one of the packet before, so the first packet is preceded by an empty one that counts 0. An empty packet
    /// also fills the time before the first one if the stream has to begin earlier: the packet itself may not, because
    /// its records have shortened times.
    fn open(&mut self, begin: u64, discarded: u64) -> Result<(), Error> {
        if !*self.described {
            return Err(Error::NoMetadata { path: self.sink.path().to_owned() });
        }
        let from = self.track.spans_from();
        let discarded = self.track.counted(discarded);
        if self.track.stats.packets == 0 && (discarded > 0 || from.is_some()) {
            let before = self.track.before();
            self.empty(from.map_or(begin, |from| from.min(begin)), begin, before)?;
        }
        Ok(())
    }

    /// Sets the end time of the last packet in the file, if there is one.
    fn end_at(&mut self, end: u64) -> Result<(), Error> {
        if self.track.stats.packets == 0 {
            return Ok(());
        }
        self.sink.set_end(self.track.stats.cpu, end)?;
        self.track.ended(end);
        Ok(())
    }

    /// Writes a packet without records.
    fn empty(&mut self, begin: u64, end: u64, discarded: u64) -> Result<(), Error> {
        let header = self.header(begin, end, discarded, 0);
        let cpu = self.track.stats.cpu;
        self.sink.append(cpu, header, &Body::Bytes(&[]))?;
        self.track.written_empty(begin, end, discarded, self.sink.stream_bytes(cpu));
        self.packets += 1;
        Ok(())
    }

    fn header(
        &self,
        timestamp_begin: u64,
        timestamp_end: u64,
        discarded: u64,
        body_bytes: u64,
    ) -> Header {
        let header = Header {
            uuid: self.identity.uuid,
            stream_id: self.identity.stream_id,
            stream_instance: u64::from(self.track.stats.cpu),
            timestamp_begin,
            timestamp_end,
            // No gaps: what was overwritten is among the discarded, and would be told twice.
            sequence: self.track.stats.packets,
            discarded: self.track.counted(discarded),
            cpu_id: self.track.stats.cpu,
            ..Header::default()
        };
        header.with_content_bytes(body_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::Collector;

    #[test]
    fn collector_can_be_used_by_another_thread() {
        fn send<T: Send>() {}
        send::<Collector>();
    }
}
