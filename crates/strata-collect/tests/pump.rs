//! What the pump does after which time, on time that moves by hand: minutes pass in milliseconds, whatever else the machine does.

use crate::support::{attr, memfd, pin, trace, Folder, UUID};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel as queue, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use strata_collect::{
    Arrival, Counts, Directory, Error, Files, Finish, Keep, Monitor, OpenedTrace, Output,
    ProducerState, Pump, PumpOrder, Sink, Source, TraceIdentity, WrittenTrace,
};
use strata_model::{StreamLoss, TimeSource};
use strata_ring::producer::{HeaderFormat, Producer};
use strata_ring::{channel_bytes, Channel, LossMode, Mapping, Publish};

const MS: Duration = Duration::from_millis(1);
const MINUTE_MS: u32 = 60_000;
const MINUTE: Duration = Duration::from_secs(60);
/// The longest pause of the pump and the period of its counts, by which anything may be late.
const LATE: Duration = Duration::from_millis(120);

/// What happens at which time, and what was seen.
struct Stage {
    time: TimeSource,
    begin: Instant,
    acts: Mutex<Vec<(Duration, Act)>>,
    seen: Mutex<Vec<(Duration, Seen)>>,
    is_full: AtomicBool,
    has_ended: AtomicBool,
    orders: Mutex<Option<Sender<PumpOrder<Played>>>>,
    rounds: Mutex<Vec<Duration>>,
    finished: Mutex<Option<Receiver<Vec<Finish>>>>,
}

type Act = Box<dyn FnOnce(&Stage) + Send>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// So many packets, as the pump has told its monitor.
    Packets(u64),
    Cut,
    Closed(u64),
}

impl Stage {
    fn new() -> Arc<Stage> {
        let time = TimeSource::manual(1_000_000_000);
        Arc::new(Stage {
            begin: time.now(),
            time,
            acts: Mutex::default(),
            seen: Mutex::default(),
            is_full: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            orders: Mutex::default(),
            rounds: Mutex::default(),
            finished: Mutex::default(),
        })
    }

    fn at(&self, ms: u32, act: impl FnOnce(&Stage) + Send + 'static) {
        self.acts.lock().unwrap().push((MS * ms, Box::new(act)));
    }

    fn see(&self, what: Seen) {
        self.seen.lock().unwrap().push((self.time.elapsed(self.begin), what));
    }

    /// Whether that was seen first at this moment, or as much later as the pump may be.
    fn saw_first(&self, what: Seen, ms: u32) -> bool {
        let seen = self.seen.lock().unwrap();
        let first = seen.iter().find(|(_, one)| *one == what);
        first.is_some_and(|(at, _)| (MS * ms..=MS * ms + LATE).contains(at))
    }

    fn act(&self) {
        let now = self.time.elapsed(self.begin);
        loop {
            let mut acts = self.acts.lock().unwrap();
            let Some(due) = acts.iter().position(|(at, _)| *at <= now) else { return };
            let (_, act) = acts.remove(due);
            drop(acts);
            act(self);
        }
    }
}

impl Monitor for Stage {
    fn has_failed(&self) -> bool {
        false
    }

    fn fail(&self, error: &Error) {
        panic!("{error}");
    }

    fn lacks_room(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// The pump asks this once in each round, before it takes packets, and behind it, when it closes sources.
    fn must_wait(&self) -> bool {
        let mut rounds = self.rounds.lock().unwrap();
        let now = self.time.elapsed(self.begin);
        if rounds.last() != Some(&now) {
            rounds.push(now);
        }
        drop(rounds);
        self.act();
        self.lacks_room()
    }

    fn set_counts(&self, counts: &Counts) {
        self.see(Seen::Packets(counts.packets));
    }
}

/// A channel of this process, recorded to one folder after the other.
struct Played {
    stage: Arc<Stage>,
    folder: PathBuf,
    number: u32,
    metadata: Option<String>,
}

impl Source for Played {
    fn open(&mut self) -> Result<OpenedTrace, Error> {
        self.number += 1;
        let trace = trace(HeaderFormat::Compact);
        self.metadata = Some(strata_ctf::metadata::write(&trace));
        let directory = Directory::create(&self.folder.join(self.number.to_string())).unwrap();
        Ok(OpenedTrace {
            sink: Box::new(Files::new(directory, "channel0")),
            identity: TraceIdentity { uuid: UUID, stream_id: 0 },
            classes: Box::new(move || trace.streams.first().cloned()),
            metadata: String::new(),
            kinds: None,
            span_from: None,
            grown: None,
        })
    }

    fn open_snapshot(&mut self, _output: &mut dyn Output) -> Result<OpenedTrace, Error> {
        panic!("no snapshot is asked for");
    }

    fn describe(&mut self) -> Option<String> {
        self.metadata.take()
    }

    fn has_ended(&self) -> bool {
        self.stage.has_ended.load(Ordering::Relaxed)
    }

    fn producer(&self) -> ProducerState {
        ProducerState::Dead
    }

    fn give_up(&mut self, error: &Error) {
        panic!("{error}");
    }

    fn cut(&mut self, _trace: WrittenTrace) -> Finish {
        self.stage.see(Seen::Cut);
        Box::new(|| ())
    }

    fn close(self, counts: Counts, _: &[StreamLoss], _: Option<WrittenTrace>) -> Counts {
        self.stage.see(Seen::Closed(counts.records));
        counts
    }
}

/// An output that is always written to anew.
struct Next;

impl Output for Next {
    fn trace(
        &mut self,
        _layer: &str,
        _process: Option<(&[u8], u32)>,
    ) -> Result<Box<dyn Sink>, Error> {
        panic!("the source opens its traces");
    }

    fn remove(&mut self, _layer: &str, _sink: Box<dyn Sink>) {}

    fn is_present(&self, _sink: &dyn Sink) -> bool {
        false
    }
}

/// A channel, and who writes to it: sub-buffers of 4096 bytes for records of 8.
fn recorded() -> (Arc<Producer>, Channel) {
    pin();
    let attr = attr(Publish::ByCommit, LossMode::Discard);
    let bytes = channel_bytes(&attr).unwrap();
    let channel = Channel::format(Mapping::new(memfd(bytes).as_fd(), 0, bytes).unwrap(), &attr);
    let channel = channel.unwrap();
    (Arc::new(Producer::new(&channel, HeaderFormat::Compact).unwrap()), channel)
}

/// Has a pump move packets of `channel` for so long, while all acts take place.
fn play(stage: &Arc<Stage>, channel: Channel, flush: Duration, ms: u32) {
    let folder = Folder::new();
    let (orders, receiver) = queue();
    let source = Played {
        stage: Arc::clone(stage),
        folder: folder.path().to_owned(),
        number: 0,
        metadata: None,
    };
    assert!(orders.send(PumpOrder::Take(Arrival { source, channel })).is_ok());
    *stage.orders.lock().unwrap() = Some(orders);
    stage.at(ms, |stage| drop(stage.orders.lock().unwrap().take()));
    Pump::new(receiver, &**stage, Keep::Write { flush }, stage.time.clone()).run();
}

#[test]
fn what_is_published_of_a_packet_is_written_at_the_flush_period() {
    let (stage, (producer, channel)) = (Stage::new(), recorded());
    let record = move |_: &Stage| assert!(producer.record(0, &[1; 8]));
    stage.at(1_000, record.clone());
    stage.at(120_500, record);
    play(&stage, channel, MINUTE, 4 * MINUTE_MS);
    // Counts are told each 100 ms, after what a round has written.
    assert!(stage.saw_first(Seen::Packets(1), MINUTE_MS), "{:?}", stage.seen);
    assert!(stage.saw_first(Seen::Packets(2), 3 * MINUTE_MS), "{:?}", stage.seen);
    assert!(stage.saw_first(Seen::Closed(2), 4 * MINUTE_MS), "{:?}", stage.seen);
}

#[test]
fn without_a_flush_period_packets_that_are_not_full_are_written_at_the_end() {
    let (stage, (producer, channel)) = (Stage::new(), recorded());
    stage.at(1_000, move |_| assert!(producer.record(0, &[1; 8])));
    play(&stage, channel, Duration::ZERO, 2 * MINUTE_MS);
    let before = |at: &Duration| *at < MINUTE * 2;
    let seen = stage.seen.lock().unwrap();
    assert!(seen.iter().all(|(at, one)| !before(at) || *one == Seen::Packets(0)), "{seen:?}");
    assert_eq!(seen.last().map(|(_, one)| *one), Some(Seen::Packets(1)));
}

#[test]
fn rounds_are_far_apart_while_nothing_comes_and_near_while_something_does() {
    let (stage, (producer, channel)) = (Stage::new(), recorded());
    // From the tenth second on, two packets of records each millisecond, for a second. The pump finds the first
    // ones after its pause: there is no room for all of them.
    for ms in 10_000..11_000 {
        let producer = Arc::clone(&producer);
        stage.at(ms, move |_| {
            (0..700).for_each(|_| assert!(producer.record(0, &[1; 8]) || ms < 10_020));
        });
    }
    drop(producer);
    play(&stage, channel, MINUTE, 20_000);
    let rounds = stage.rounds.lock().unwrap();
    let between = |from, to| rounds.iter().filter(|at| (MS * from..MS * to).contains(at)).count();
    assert!((50..60).contains(&between(1_000, 2_000)), "{}", between(1_000, 2_000));
    assert!((900..=1_001).contains(&between(10_000, 11_000)), "{}", between(10_000, 11_000));
    assert!((50..60).contains(&between(12_000, 13_000)), "{}", between(12_000, 13_000));
}

#[test]
fn a_trace_that_could_not_be_completed_for_want_of_room_is_when_there_is_some() {
    let (stage, (producer, channel)) = (Stage::new(), recorded());
    stage.at(1_000, move |_| assert!(producer.record(0, &[1; 8])));
    stage.at(5_000, |stage| stage.is_full.store(true, Ordering::Relaxed));
    stage.at(6_000, |stage| {
        let (reply, finished) = queue();
        let order = PumpOrder::Rotate(Arc::new(Mutex::new(Next)), reply);
        assert!(stage.orders.lock().unwrap().as_ref().unwrap().send(order).is_ok());
        *stage.finished.lock().unwrap() = Some(finished);
    });
    stage.at(MINUTE_MS, |stage| stage.is_full.store(false, Ordering::Relaxed));
    play(&stage, channel, MS * 100, 2 * MINUTE_MS);
    assert!(stage.saw_first(Seen::Cut, MINUTE_MS), "{:?}", stage.seen);
    // Who asked heard at once that nothing was completed.
    let finished = stage.finished.lock().unwrap().take().unwrap();
    assert_eq!(finished.try_recv().map(|all| all.len()), Ok(0));
}

#[test]
fn a_source_that_has_ended_stays_until_there_is_room_for_its_rest() {
    let (stage, (producer, channel)) = (Stage::new(), recorded());
    stage.at(1_000, |stage| stage.is_full.store(true, Ordering::Relaxed));
    stage.at(2_000, move |_| assert!(producer.record(0, &[1; 8])));
    stage.at(3_000, |stage| stage.has_ended.store(true, Ordering::Relaxed));
    stage.at(MINUTE_MS, |stage| stage.is_full.store(false, Ordering::Relaxed));
    play(&stage, channel, MS * 100, 2 * MINUTE_MS);
    assert!(stage.saw_first(Seen::Closed(1), MINUTE_MS), "{:?}", stage.seen);
}
