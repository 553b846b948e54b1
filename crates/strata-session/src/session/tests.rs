//! Tests of sessions with a layer that records neither applications nor a kernel: a channel of this process.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel as queue, Sender};
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;
use strata_random::Random;

use rustix::thread::{sched_getcpu, sched_setaffinity, CpuSet};
use strata_collect::{
    Arrival, Body, Counts, Directory, Error, Finish, Keep, Monitor, OpenedTrace, Output,
    ProducerState, Pump, PumpOrder, Sink, SnapshotSpan, Source, TraceIdentity, WrittenTrace,
};
use strata_ctf::end_mark::{Ending, Losses};
use strata_ctf::metadata;
use strata_ctf::packet::Header as PacketHeader;
use strata_ctf::read::{Message, Reader, TimeRange, Value};
use strata_model::{
    ByteOrder, ClockClass, EventClass, Field, FieldClass, Integer, LossMode, RecordHeader,
    StreamClass, StreamLoss, Trace,
};
use strata_ring::producer::{HeaderFormat, Producer};
use strata_ring::Channel;

use super::*;
use crate::error::SessionError;
use crate::options::Rotation;
use crate::output::chunks::ChunksOutput;
use crate::output::describe::new_uuid;
use crate::output::folder::TraceFolder;
use crate::output::retention::Retention;
use crate::scratch_tests::{channel_of, context, context_of, Nowhere, Scratch};
use crate::session::disk::MinFree;
use crate::session::layer::{Layer, Wanted};
use crate::session::rotation::{Rotated, RotatedOutput, Rotations};
use crate::session::shared_state::Voice;
use crate::session::snapshot::write as save;
use crate::session::threads::{ask, cut, joined, spawn, Ask, Cut};

/// Returns the class of records that contain one number.
fn class() -> StreamClass {
    let event = EventClass {
        id: 0,
        provider: "test".into(),
        name: "number".into(),
        loglevel: None,
        emf_uri: None,
        context: Vec::new(),
        fields: vec![Field::new("n", FieldClass::Integer(Integer::unsigned(8)))],
    };
    let (name, header) = ("channel0".into(), RecordHeader::Compact);
    StreamClass { id: 0, name, header, context: Vec::new(), events: vec![event] }
}

/// A source whose records are numbered in order.
struct Numbers {
    name: &'static str,
    context: Arc<Context>,
    voice: Voice,
}

impl Numbers {
    fn opened(sink: Box<dyn Sink>) -> OpenedTrace {
        let uuid = new_uuid().unwrap();
        let trace = Trace {
            uuid,
            byte_order: ByteOrder::NATIVE,
            environment: Vec::new(),
            clock: ClockClass::monotonic(None, 0),
            streams: vec![class()],
        };
        OpenedTrace {
            sink,
            identity: TraceIdentity { uuid, stream_id: 0 },
            classes: Box::new(|| Some(class())),
            metadata: metadata::write(&trace),
            kinds: None,
            span_from: None,
            grown: None,
        }
    }
}

/// The source with its metadata, which an opened trace of a recording does not have yet.
struct Described(Numbers, Option<String>);

impl Source for Described {
    fn open(&mut self) -> Result<OpenedTrace, Error> {
        let sink = self.0.context.output.lock().unwrap().trace(self.0.name, None)?;
        let opened = Numbers::opened(sink);
        self.1 = Some(opened.metadata.clone());
        Ok(opened)
    }

    fn open_snapshot(&mut self, output: &mut dyn Output) -> Result<OpenedTrace, Error> {
        Ok(Numbers::opened(output.trace(self.0.name, None)?))
    }

    fn describe(&mut self) -> Option<String> {
        self.1.take()
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn producer(&self) -> ProducerState {
        ProducerState::Alive
    }

    fn give_up(&mut self, error: &Error) {
        self.0.voice.fail(error);
    }

    fn cut(&mut self, WrittenTrace { mut sink, counts }: WrittenTrace) -> Finish {
        let output = Arc::clone(&self.0.context.output);
        Box::new(move || {
            sink.end(Ending::Ended, Losses::default()).unwrap();
            output.lock().unwrap().ended(&*sink, &counts, &Counts::default());
        })
    }

    fn close(self, counts: Counts, _: &[StreamLoss], trace: Option<WrittenTrace>) -> Counts {
        if let Some(WrittenTrace { mut sink, counts: of_trace }) = trace {
            sink.end(self.0.voice.ending(), Losses::of(&counts)).unwrap();
            let mut output = self.0.context.output.lock().unwrap();
            output.ended(&*sink, &of_trace, &Counts::default());
        }
        counts
    }
}

/// A layer of numbered records; the holder of its producer writes them.
struct NumberLayer {
    context: Arc<Context>,
    arrival: Option<Arrival<Described>>,
    voice: Voice,
    orders: Option<Sender<PumpOrder<Described>>>,
    moving: Option<JoinHandle<Counts>>,
}

impl Layer for NumberLayer {
    fn rights(&self) -> Work {
        Work::Everything
    }

    fn start(&mut self) {}

    fn run(&mut self) {
        let (orders, receiver) = queue();
        assert!(orders.send(PumpOrder::Take(self.arrival.take().unwrap())).is_ok());
        self.orders = Some(orders);
        let (voice, keep) = (self.voice.clone(), self.context.keep);
        let time = self.context.shared.time().clone();
        let pump = move || Pump::new(receiver, &voice, keep, time).run();
        self.moving = spawn("test", Work::Everything, &self.context.shared, pump);
    }

    fn is_broken(&self) -> bool {
        self.moving.as_ref().is_some_and(JoinHandle::is_finished)
    }

    fn snapshot(&self) -> Ask {
        ask(self.orders.as_ref())
    }

    fn rotate(&self) -> Cut {
        cut(self.orders.as_ref())
    }

    fn change(&mut self, _wanted: &Wanted) -> Result<(), SessionError> {
        Err(SessionError::Unchangeable { layer: "numbers" })
    }

    fn stop(&mut self) {
        self.orders = None;
    }

    fn join(&mut self) {
        joined(self.moving.take(), &self.context.shared);
    }

    fn end(self: Box<Self>) -> LayerEnd {
        LayerEnd::default()
    }
}

/// A running session, with a producer that writes to it.
struct Bench {
    producer: Producer,
    session: Session,
    context: Arc<Context>,
}

fn layer(context: &Arc<Context>, name: &'static str, channel: Channel) -> Box<dyn Layer> {
    let voice = context.shared.add_layer(name);
    let numbers = Numbers { name, context: Arc::clone(context), voice: voice.clone() };
    Box::new(NumberLayer {
        context: Arc::clone(context),
        arrival: Some(Arrival { source: Described(numbers, None), channel }),
        voice,
        orders: None,
        moving: None,
    })
}

fn begun(context: &Arc<Context>, layers: Vec<Box<dyn Layer>>) -> Session {
    let mut session = Session::create(Arc::clone(context));
    let layers = layers.into_iter().map(|layer| (layer, None)).collect();
    let tell: &mut Tell<'_> = &mut |_| std::ops::ControlFlow::Continue(());
    session.add(layers, &mut |_| Ok(None), tell).unwrap();
    session
}

fn bench(context: Arc<Context>, mode: LossMode) -> Bench {
    let channel = channel_of(1024, mode);
    let producer = Producer::new(&channel, HeaderFormat::Compact).unwrap();
    let session = begun(&context, vec![layer(&context, "numbers", channel)]);
    Bench { producer, session, context }
}

/// Writes records with these numbers. Returns how often there was no room.
fn write(producer: &Producer, numbers: Range<u64>) -> u64 {
    let mut refused = 0;
    for n in numbers {
        // Where the buffers are full, the pump comes.
        while !producer.record(0, &n.to_ne_bytes()) {
            refused += 1;
            std::thread::yield_now();
        }
    }
    refused
}

impl Bench {
    fn write(&self, numbers: Range<u64>) {
        write(&self.producer, numbers);
    }

    fn snapshot(&self, output: &Arc<Mutex<dyn Output>>) -> Result<Counts, Error> {
        save(output, || SnapshotSpan::until_now(None), self.session.snapshot())
    }

    fn end(mut self) {
        self.session.stop(EndReason::Asked(None));
        assert_eq!(self.session.destroy().len(), 1);
        assert_eq!(self.context.shared.failure(), None);
    }
}

/// Returns the numbers in the trace, in the order of their times.
fn read(folder: &Path) -> Vec<u64> {
    read_layer(folder, "numbers")
}

fn read_layer(folder: &Path, name: &str) -> Vec<u64> {
    let reader = Reader::open(&[&folder.join(name)]).unwrap();
    let mut events = reader.events(TimeRange::ALL);
    let mut numbers = Vec::new();
    while let Some(message) = events.next() {
        match message {
            Message::Event(event) => {
                let n = event.class().find("n").and_then(|field| event.value(&field));
                let Some(Value::Unsigned(n)) = n else { panic!("{n:?}") };
                numbers.push(n);
            }
            Message::Packet(_) => {}
            // Of who tried again; what was before a snapshot is none of its losses.
            Message::Discarded(discarded) => assert!(!discarded.at_begin),
            _ => panic!("damage"),
        }
    }
    numbers
}

fn output(path: &Path) -> Arc<Mutex<dyn Output>> {
    Arc::new(Mutex::new(TraceFolder::create(path).unwrap().of_snapshot()))
}

/// Keeps this thread on its present CPU, so that all of its records are in one stream.
fn stay_on_one_cpu() {
    let mut one = CpuSet::new();
    one.set(sched_getcpu());
    sched_setaffinity(None, &one).unwrap();
}

#[test]
fn two_sessions_in_one_process_record_each_its_own() {
    let scratch = Scratch::new("two-sessions");
    let [one, other] = ["one", "other"].map(|name| scratch.0.join(name));
    let first = bench(context(TraceFolder::create(&one).unwrap()), LossMode::Discard);
    first.write(0..500);
    let second = bench(context(TraceFolder::create(&other).unwrap()), LossMode::Discard);
    std::thread::scope(|scope| {
        let producer = &first.producer;
        scope.spawn(move || write(producer, 500..3000));
        second.write(10_000..13_000);
    });
    // The first one's end is none of the second one's business.
    first.end();
    second.write(13_000..14_000);
    assert!(!second.session.is_broken());
    second.end();
    assert_eq!(read(&one), (0..3000).collect::<Vec<_>>());
    assert_eq!(read(&other), (10_000..14_000).collect::<Vec<_>>());
}

/// Rotates again and again while another thread writes: each chunk is a complete trace, and each record is in exactly
/// one.
#[test]
fn rotated_trace_has_each_record_in_one_part() {
    let scratch = Scratch::new("rotated");
    let path = scratch.0.join("t");
    let folder = TraceFolder::create(&path).unwrap();
    let parts = Arc::new(Mutex::new(ChunksOutput::new(folder, "20260131-120000")));
    parts.lock().unwrap().begin((Rotation::default(), Retention::default()), None).unwrap();
    let mut context = context_of(Nowhere, Keep::Write { flush: Duration::from_millis(1) });
    Arc::get_mut(&mut context).unwrap().output = Arc::clone(&parts) as Arc<_>;
    let bench = bench(context, LossMode::Discard);
    let mut rotations = Rotations::new(
        RotatedOutput::Folder(Arc::clone(&parts)),
        Rotation::default(),
        bench.context.shared.time(),
    );
    let [is_over, written, refused] = [(); 3].map(|()| AtomicU64::new(0));
    let (is_over, written, refused) = (&is_over, &written, &refused);
    let mut folders = Vec::new();
    std::thread::scope(|scope| {
        let producer = &bench.producer;
        scope.spawn(move || {
            for n in 0u64.. {
                if is_over.load(Ordering::Relaxed) > 0 {
                    return;
                }
                refused.fetch_add(write(producer, n..n + 1), Ordering::Relaxed);
                written.store(n + 1, Ordering::Relaxed);
            }
        });
        let _over = Raised(is_over);
        for _ in 0..20 {
            let now = written.load(Ordering::Relaxed);
            while written.load(Ordering::Relaxed) < now + 100 {
                std::thread::yield_now();
            }
            let (reply, answer) = queue();
            rotations.ask(reply);
            let rotated: Rotated = loop {
                rotations.look(&bench.session, &bench.context.shared, &mut |_| ());
                // Time: between two looks.
                if let Ok(rotated) = answer.recv_timeout(Duration::from_millis(1)) {
                    break rotated.unwrap();
                }
            };
            let part = rotated.chunk.unwrap();
            // It is complete already.
            let numbers = read(&part.folder);
            assert_eq!(part.records, Some(numbers.len() as u64));
            folders.push(part.folder);
        }
        folders.push(parts.lock().unwrap().present());
    });
    let shared = Arc::clone(&bench.context.shared);
    bench.end();
    // Those who wait for events are told of each once, whichever part it is in.
    let events = written.load(Ordering::Relaxed) + refused.load(Ordering::Relaxed);
    assert_eq!(shared.events(), events);
    let of_parts: Vec<Vec<u64>> = folders.iter().map(|folder| read(folder)).collect();
    assert!(of_parts.iter().all(|numbers| numbers.is_sorted()));
    // Streams are cut one after the other: of a writer that changes the CPU meanwhile, what it writes there may be in the
    // part before that of what it has written here.
    let mut all = of_parts.concat();
    all.sort_unstable();
    assert_eq!(all, (0..written.load(Ordering::Relaxed)).collect::<Vec<_>>());
    let status = parts.lock().unwrap().status(all.len() as u64, 0).unwrap();
    assert_eq!((status.complete, status.removed, status.present.unwrap().number), (20, 0, 21));
}

/// Ends the thread that reads the value, even if the test fails.
struct Raised<'o>(&'o AtomicU64);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(1, Ordering::Relaxed);
    }
}

#[test]
fn snapshots_have_the_last_records_and_consume_none() {
    let scratch = Scratch::new("snapshots");
    let bench = bench(context_of(Nowhere, Keep::Hold), LossMode::Overwrite);
    let [empty, one, same, later] =
        ["empty", "one", "same", "later"].map(|name| scratch.0.join(name));
    assert_eq!(bench.snapshot(&output(&empty)).unwrap().records, 0);
    assert!(!empty.join("numbers").exists());
    bench.write(0..1_000_000);
    let counts = bench.snapshot(&output(&one)).unwrap();
    let numbers = read(&one);
    assert_eq!(counts.records, numbers.len() as u64);
    // As many as the buffers of one CPU hold, up to the last one. The thread may have been moved to another CPU.
    assert!((64..200_000).contains(&numbers.len()), "{}", numbers.len());
    assert_eq!(numbers.last(), Some(&999_999));
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted, numbers);
    bench.snapshot(&output(&same)).unwrap();
    assert_eq!(read(&same), numbers);
    bench.write(1_000_000..1_000_010);
    bench.snapshot(&output(&later)).unwrap();
    assert_eq!(read(&later).last(), Some(&1_000_009));
    bench.end();
}

/// Ends the thread that reads the value, even if the test fails.
struct Over<'o>(&'o AtomicU64);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[test]
fn layers_of_a_snapshot_end_at_one_moment_and_several_are_written_at_once() {
    let scratch = Scratch::new("one-moment");
    let context = context_of(Nowhere, Keep::Hold);
    let channels = [channel_of(1024, LossMode::Overwrite), channel_of(1024, LossMode::Overwrite)];
    let producers =
        channels.each_ref().map(|one| Producer::new(one, HeaderFormat::Compact).unwrap());
    let [first, second] = channels;
    let layers = vec![layer(&context, "first", first), layer(&context, "second", second)];
    let mut session = begun(&context, layers);
    // The writer stops there, and ends where that is 0: the buffers are small, and nothing is to be overwritten.
    let (limit, written) = (&AtomicU64::new(1), &AtomicU64::new(0));
    let wait_for = &|n: u64| {
        while written.load(Ordering::Relaxed) < n {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        let _over = Over(limit);
        scope.spawn(|| {
            // One after the other, as one thread does that has tracepoints and calls the kernel.
            for n in 1u64.. {
                while n > limit.load(Ordering::Relaxed) {
                    if limit.load(Ordering::Relaxed) == 0 {
                        return;
                    }
                    std::thread::yield_now();
                }
                producers.iter().for_each(|one| assert!(one.record(0, &n.to_ne_bytes())));
                written.store(n, Ordering::Relaxed);
            }
        });
        for round in 0..10u64 {
            let first = limit.fetch_add(100, Ordering::Relaxed);
            wait_for(first + 20);
            let (session, scratch) = (&session, &scratch);
            let saving = ["a", "b", "c"].map(|which| {
                let asks = session.snapshot();
                let path = scratch.0.join(format!("{round}{which}"));
                let output = output(&path);
                let later = move || {
                    let now = AtomicU64::new(0);
                    let is_early = std::cell::Cell::new(true);
                    let moment = || {
                        let span = SnapshotSpan::until_now(None);
                        if !is_early.replace(false) {
                            now.store(written.load(Ordering::Relaxed), Ordering::Relaxed);
                            // What comes meanwhile is after the moment.
                            wait_for(limit.fetch_add(30, Ordering::Relaxed) + 30);
                        }
                        span
                    };
                    save(&output, moment, asks).unwrap();
                    now.into_inner()
                };
                (scope.spawn(later), path)
            });
            for (saving, path) in saving {
                let now = saving.join().unwrap();
                let [one, other] =
                    ["first", "second"].map(|name| *read_layer(&path, name).last().unwrap());
                assert!(other <= one && one - other <= 1 && one <= now + 1, "{one} {other} {now}");
            }
        }
    });
    session.stop(EndReason::Asked(None));
    session.destroy();
    assert_eq!(context.shared.failure(), None);
}

/// A sub-buffer of 4 KiB holds about 300 records, and two are held.
#[test]
fn snapshot_of_the_last_time_leaves_out_packets_that_ended_before() {
    let scratch = Scratch::new("last");
    let bench = bench(context_of(Nowhere, Keep::Hold), LossMode::Overwrite);
    stay_on_one_cpu();
    bench.write(0..100);
    // This packet ends before the time that is asked for, and the one that is being filled then does not.
    bench.producer.flush();
    bench.write(100..150);
    let [none, all] = ["none", "all"].map(|name| scratch.0.join(name));
    let snapshot =
        |path: &Path, span| save(&output(path), || span, bench.session.snapshot()).unwrap();
    let now = SnapshotSpan::until_now(None).until;
    bench.write(150..300);
    let whole = SnapshotSpan::until_now(None);
    assert_eq!(snapshot(&all, whole).records, 300);
    let last = snapshot(&scratch.0.join("last"), SnapshotSpan { from: now, ..whole });
    assert_eq!((last.records, read(&scratch.0.join("last"))), (200, (100..300).collect()));
    let before = snapshot(&scratch.0.join("before"), SnapshotSpan { until: now, ..whole });
    assert_eq!((before.records, read(&scratch.0.join("before"))), (150, (0..150).collect()));
    // What came before a moment within a packet is left out record by record.
    let since = snapshot(&scratch.0.join("since"), whole.without_before(now));
    assert_eq!((since.records, read(&scratch.0.join("since"))), (150, (150..300).collect()));
    // Nothing is so late.
    let later = scratch.0.join("later");
    assert_eq!(snapshot(&later, whole.without_before(u64::MAX)).records, 0);
    assert_eq!(
        snapshot(&none, SnapshotSpan { from: u64::MAX, until: u64::MAX, ..whole }).records,
        0
    );
    bench.end();
}

#[test]
fn snapshot_that_cannot_be_written_is_an_error_of_its_own_and_ends_nothing() {
    let scratch = Scratch::new("snapshot-fails");
    let bench = bench(context_of(Nowhere, Keep::Hold), LossMode::Overwrite);
    bench.write(0..10);
    let full: Arc<Mutex<dyn Output>> = Arc::new(Mutex::new(Nowhere));
    let error = bench.snapshot(&full).unwrap_err();
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    assert!(!bench.session.is_broken());
    let path = scratch.0.join("t");
    bench.snapshot(&output(&path)).unwrap();
    assert_eq!(read(&path), (0..10).collect::<Vec<_>>());
    bench.end();
}

#[test]
fn snapshot_of_a_session_that_writes_is_empty() {
    let scratch = Scratch::new("snapshot-writes");
    let keep = Keep::Write { flush: Duration::from_millis(1) };
    let bench = bench(
        context_of(TraceFolder::create(&scratch.0.join("t")).unwrap(), keep),
        LossMode::Discard,
    );
    bench.write(0..10);
    while !scratch.0.join("t/numbers").exists() {
        std::thread::yield_now();
    }
    let path = scratch.0.join("s");
    assert_eq!(bench.snapshot(&output(&path)).unwrap(), Counts::default());
    assert!(!path.join("numbers").exists());
    bench.end();
    assert_eq!(read(&scratch.0.join("t")), (0..10).collect::<Vec<_>>());
}

#[test]
fn layer_that_is_added_records_at_once_and_its_snapshots_are_in_its_folder() {
    let scratch = Scratch::new("added");
    let mut bench = bench(context_of(Nowhere, Keep::Hold), LossMode::Overwrite);
    bench.write(0..5);
    let channel = channel_of(1024, LossMode::Overwrite);
    let producer = Producer::new(&channel, HeaderFormat::Compact).unwrap();
    let more = layer(&bench.context, "numbers", channel);
    let goes_on = &mut |_| std::ops::ControlFlow::Continue(());
    let none = &mut |_: &Inheritance<'_>| Ok(None);
    assert!(bench.session.add(vec![(more, Some("big".to_owned()))], none, goes_on).is_ok());
    write(&producer, 100..103);
    let path = scratch.0.join("t");
    assert_eq!(bench.snapshot(&output(&path)).unwrap().records, 8);
    assert_eq!(read(&path), (0..5).collect::<Vec<_>>());
    assert_eq!(read(&path.join("big")), (100..103).collect::<Vec<_>>());
    assert_eq!(bench.session.statuses().len(), 2);
    bench.session.stop(EndReason::Asked(None));
    assert_eq!(bench.session.destroy().len(), 2);
}

/// An output whose disk is full now and then: a third of all writes fails.
struct Scarce {
    folder: TraceFolder,
    seed: u64,
}

#[derive(Debug)]
struct ScarceSink {
    sink: Box<dyn Sink>,
    random: Random,
}

impl Output for Scarce {
    fn trace(
        &mut self,
        layer: &str,
        process: Option<(&[u8], u32)>,
    ) -> Result<Box<dyn Sink>, Error> {
        let sink = self.folder.trace(layer, process)?;
        Ok(Box::new(ScarceSink { sink, random: Random::from_seed(self.seed) }))
    }

    fn remove(&mut self, layer: &str, sink: Box<dyn Sink>) {
        self.folder.remove(layer, sink);
    }
}

impl ScarceSink {
    fn may(&mut self) -> Result<&mut dyn Sink, Error> {
        match self.random.below(3) {
            0 => Err(Error::NoSpace {
                path: self.sink.path().to_owned(),
                source: std::io::Error::from_raw_os_error(libc::ENOSPC),
            }),
            _ => Ok(&mut *self.sink),
        }
    }
}

impl Sink for ScarceSink {
    fn path(&self) -> &Path {
        self.sink.path()
    }

    fn set_metadata(&mut self, text: &str) -> Result<(), Error> {
        self.may()?.set_metadata(text)
    }

    fn metadata_bytes(&self) -> u64 {
        self.sink.metadata_bytes()
    }

    fn append(&mut self, cpu: u32, header: PacketHeader, body: &Body<'_>) -> Result<(), Error> {
        self.may()?.append(cpu, header, body)
    }

    fn set_end(&mut self, cpu: u32, end: u64) -> Result<(), Error> {
        self.may()?.set_end(cpu, end)
    }

    fn stream_bytes(&self, cpu: u32) -> u64 {
        self.sink.stream_bytes(cpu)
    }

    fn pause(&mut self) {
        self.sink.pause();
    }

    fn set_stream(&mut self, name: &str, header: &[u8], body: &[u8]) -> Result<(), Error> {
        self.may()?.set_stream(name, header, body)
    }

    fn set_symbols(&mut self, symbols: &[u8]) -> Result<(), Error> {
        self.may()?.set_symbols(symbols)
    }

    fn check(&self) -> Result<(), Error> {
        self.sink.check()
    }

    fn end(&mut self, ending: Ending, losses: Losses) -> Result<(), Error> {
        self.sink.end(ending, losses)
    }

    fn directory(&self) -> Option<&Directory> {
        self.sink.directory()
    }
}

/// Writes that fail are repeated later: of metadata, of packets, and of the end.
#[test]
fn disk_that_is_full_now_and_then_costs_no_record() {
    for seed in 1..=8 {
        let scratch = Scratch::new(&format!("scarce-{seed}"));
        let path = scratch.0.join("t");
        let folder = TraceFolder::create(&path).unwrap();
        let bench = bench(context(Scarce { folder, seed }), LossMode::Discard);
        let room = bench.context.shared.room();
        room.wait(MinFree::NONE);
        let is_over = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let is_over = &is_over;
            let _over = Raised(is_over);
            scope.spawn(move || {
                while is_over.load(Ordering::Relaxed) == 0 {
                    room.is_there();
                    std::thread::yield_now();
                }
            });
            // On one CPU: of two, it may be the older records for which there is no room at the end.
            stay_on_one_cpu();
            bench.write(0..20_000);
            // What is not taken yet may find no room at the end, when nobody waits for it any more.
            while bench.context.shared.counts().0 < 20_000 - 1024 / 8 * 8 {
                std::thread::yield_now();
            }
        });
        assert!(room.remark().is_some(), "there was always room");
        let shared = Arc::clone(&bench.context.shared);
        let Bench { mut session, .. } = bench;
        shared.room().end();
        session.stop(EndReason::Asked(None));
        session.destroy();
        let numbers = read(&path);
        // In order, none twice, and but for those at the end none absent.
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "seed {seed}");
        assert!(shared.failure().is_some() || numbers.len() == 20_000, "seed {seed}");
    }
}
