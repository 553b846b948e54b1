//! The layer of one guest: a virtual machine with a recorder of its own, which sends its traces over a byte channel.
//!
//! ```text
//! strata-guest    asks the guest for its time, receives its messages       here
//!                 reads the offset of its clock from KVM                   guest/kvm_offset.rs
//!                 notices that another hypervisor has its machine          guest/migration.rs
//! at the end      bounds the clock by the times of its virtual CPUs        guest/causality.rs
//!                 rewrites the metadata of its traces                      guest/receive.rs
//!                 reads records of a crashed guest from its memory         guest/memory.rs, strata_collect::ring_recovery
//! ```
//!
//! A guest decides itself what it records, and when it begins. The host notifies it when the recording ends. Another
//! hypervisor may take over its machine during the recording (a migration on this host, or a machine that is saved and
//! restored). The guest's recorder does not notice that: its bytes continue at the new hypervisor's socket where they
//! ended at the old one's.
//!
//! One thread has the whole conversation, [`Talk::run`]. The guest's messages wait until its clock is known:
//!
//! ```text
//! open ── first message ── ASKED_FIRST questions for the time ── welcome ── messages; a question each ASK_PERIOD ── stop, end
//!          └ something else: NOTHING_MAX bytes are skipped, then there is no recorder    └ another hypervisor: the same
//! ```
//!
//! A guest is hostile, as an application is: what it sends is bounded and copied, it is waited for during [`PATIENCE`], and it
//! writes into no trace but its own.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use strata_collect::Monitor;
use strata_ctf::end_mark::Ending;
use strata_relay::{
    CounterPair, Exchange, Frames, FromGuest, Line, Place as Channel, ToGuest, Waiting, Wire,
    DRIFT_PPM, VERSION,
};

use crate::error::SessionError;
use crate::guest::guest_recorder::counter_pair;
use crate::options::GuestOptions;
use crate::output::describe::{new_uuid, Machine};
use crate::report::{LayerReport, NotReached, ProcessReport, GUEST};
use crate::session::layer::{Context, Layer, LayerEnd, Wanted};
use crate::session::privileges::Work;
use crate::session::shared_state::Voice;
use crate::session::threads::{joined, spawn, Ask, Cut};
use kvm_offset::Exact;
use machine::{Machines, Peer};
use migration::Elsewhere;
use receive::{Place, Receiver};

mod causality;
mod cpus;
pub mod guest_recorder;
mod kvm;
mod kvm_offset;
mod machine;
mod memory;
mod migration;
mod receive;

/// The period of asking the guest for its time.
const ASK_PERIOD: Duration = Duration::from_millis(50);
/// The number of questions for the time that are sent without a pause, before the guest begins to record.
const ASKED_FIRST: u64 = 20;
/// The longest wait for the answer to a question for the guest's time.
const ANSWER: Duration = Duration::from_secs(1);
/// The period of checking whether the recording has ended.
const LOOK_PERIOD: Duration = Duration::from_millis(20);
/// Margin by which the guest's clock may be ahead of the estimate \[ns\].
const AHEAD_NS: i128 = 1_000_000_000;
/// The period of checking whether somebody is connected to the channel.
const OPEN_PERIOD: Duration = Duration::from_millis(100);
/// The longest silence of a guest after it was told to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// The longest time for which messages of a guest are accepted after it was told to end.
const PATIENCE_AT_ALL: Duration = Duration::from_secs(60);
/// The longest silence of a guest after another hypervisor connected to its channel.
const UNHEARD: Duration = Duration::from_secs(2);
/// The problem reported for a guest whose traffic ended without its end message.
const ENDED: &str = "it has ended, or its recorder has, before all came";
/// The most bytes that are skipped before the first message of the guest's recorder: the rest of a message to an
/// earlier recorder \[byte\].
const NOTHING_MAX: usize = 64 << 20;
/// The size of a single read \[byte\].
const READ_BYTES: usize = 64 << 10;

/// The session layer that records one guest, a virtual machine.
pub(crate) struct GuestLayer {
    options: GuestOptions,
    context: Arc<Context>,
    /// The machines of all guests of the recording.
    machines: Arc<Machines>,
    voice: Option<Voice>,
    is_stopping: Arc<AtomicBool>,
    taking: Option<JoinHandle<Option<Outcome>>>,
    outcome: Option<Outcome>,
}

/// The result of recording one guest.
struct Outcome {
    reports: Vec<ProcessReport>,
    /// The conversation, with the state of the clock.
    talk: Talk,
    problem: Option<String>,
    /// True if no valid message arrived.
    is_absent: bool,
}

impl GuestLayer {
    pub(crate) fn new(
        options: &GuestOptions,
        context: &Arc<Context>,
        machines: &Arc<Machines>,
    ) -> GuestLayer {
        GuestLayer {
            options: options.clone(),
            context: Arc::clone(context),
            machines: Arc::clone(machines),
            voice: None,
            is_stopping: Arc::default(),
            taking: None,
            outcome: None,
        }
    }
}

impl Layer for GuestLayer {
    fn rights(&self) -> Work {
        Work::Files
    }

    fn start(&mut self) {
        self.voice = Some(self.context.shared.add_layer(GUEST));
    }

    fn run(&mut self) {
        let Some(voice) = self.voice.clone() else { return };
        let (options, context) = (self.options.clone(), Arc::clone(&self.context));
        let (is_stopping, machines) = (Arc::clone(&self.is_stopping), Arc::clone(&self.machines));
        let shared = Arc::clone(&self.context.shared);
        self.taking = spawn("strata-guest", Work::Files, &shared, move || {
            Some(Talk::new(&options, &context, machines, voice, is_stopping)?.run(&options))
        });
    }

    /// Returns whether the recording of the guest has failed. A guest that ends before the recording is no failure.
    fn is_broken(&self) -> bool {
        false
    }

    /// Returns an empty answer at once: packets are written as they arrive, and none are held here.
    fn snapshot(&self) -> Ask {
        Box::new(|_, _| {
            let (reply, answer) = channel();
            // The requester may have gone.
            let _ = reply.send(Ok(Vec::new()));
            answer
        })
    }

    /// Returns an empty answer; rotation with guests is refused before this point.
    fn rotate(&self) -> Cut {
        Box::new(|_| {
            let (reply, answer) = channel();
            let _ = reply.send(Vec::new());
            answer
        })
    }

    fn change(&mut self, _wanted: &Wanted) -> Result<(), SessionError> {
        Err(SessionError::Unchangeable { layer: GUEST })
    }

    fn stop(&mut self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    fn join(&mut self) {
        self.outcome = joined(self.taking.take(), &self.context.shared);
    }

    fn end(self: Box<Self>) -> LayerEnd {
        let name = self.options.name.clone();
        let Some(outcome) = self.outcome else { return LayerEnd::default() };
        let mut end = LayerEnd {
            report: LayerReport {
                layer: GUEST,
                channel: name.clone(),
                processes: outcome.reports,
                ..LayerReport::default()
            },
            ..LayerEnd::default()
        };
        let mut talk = outcome.talk;
        // All layers have written their traces by now, the kernel's included.
        let shared = &self.context.shared;
        let refining = spawn("strata-guest", Work::Files, shared, move || {
            let problem = talk.refine();
            Some((talk, problem))
        });
        if let Some((talk, problem)) = joined(refining, shared) {
            end.remarks.extend(talk.remark());
            end.remarks.extend(talk.without_cpus);
            end.remarks.extend(talk.without_memory);
            problem.into_iter().for_each(|problem| shared.fail(problem));
        }
        let problem = outcome.problem.map(|reason| (format!("guest {name}"), reason));
        match problem {
            Some((name, reason)) if outcome.is_absent => {
                end.not_reached.push(NotReached { pid: 0, name, reason });
            }
            Some((name, reason)) => end.report.processes.push(ProcessReport {
                name,
                problem: Some(reason),
                ..ProcessReport::default()
            }),
            None => {}
        }
        end
    }
}

/// The conversation of the host's recorder with the recorder in one guest.
struct Talk {
    receiver: Receiver,
    machines: Arc<Machines>,
    channel: Channel,
    voice: Voice,
    is_stopping: Arc<AtomicBool>,
    /// The process that runs the guest: set by the user, or the process that listens at the channel.
    peer: Option<u32>,
    /// The unanswered question for the guest's time: its number, the time on this machine's clock, and the instant
    /// for the timeout.
    asked: Option<(u64, u64, Instant)>,
    questions: u64,
    answers: u64,
    next: Instant,
    is_welcome: bool,
    told_to_stop: Option<Instant>,
    /// True once this recorder has asked the guest's recorder to stop.
    is_stop_said: bool,
    /// Number of bytes that arrived before the first message of the guest's recorder. More than `NOTHING_MAX`
    /// mean that the other end is no recorder.
    nothing: usize,
    /// Time when the last bytes arrived.
    heard: Instant,
    /// True if the guest ended without sending its end message.
    is_silent: bool,
    /// The guest's migration to another hypervisor.
    elsewhere: Elsewhere,
    /// Set once a part of the guest's memory can no longer be read, with the reason.
    without_memory: Option<String>,
    /// Reader of the exact clock offset from KVM.
    exact: Option<Exact>,
    /// Number of bounds on the guest's clock that were derived from the times when its virtual CPUs ran.
    refined: usize,
    /// The reason why the threads of the virtual CPUs are not known from QMP; `None` if they are.
    without_cpus: Option<String>,
}

impl Talk {
    fn new(
        options: &GuestOptions,
        context: &Arc<Context>,
        machines: Arc<Machines>,
        voice: Voice,
        is_stopping: Arc<AtomicBool>,
    ) -> Option<Talk> {
        let (clock, wall_ns) = context.machine.clock_of_guests(new_uuid().ok()?);
        let place = Place {
            name: options.name.clone(),
            output: Arc::clone(&context.output),
            clock,
            wall_ns,
            max_bytes: options.max_bytes,
            memory: options.memory.clone(),
        };
        Some(Talk {
            receiver: Receiver::new(place),
            machines,
            channel: options.channel.clone(),
            voice,
            is_stopping,
            peer: None,
            asked: None,
            questions: 0,
            answers: 0,
            next: Instant::now(),
            is_welcome: false,
            told_to_stop: None,
            is_stop_said: false,
            nothing: 0,
            heard: Instant::now(),
            is_silent: false,
            elsewhere: Elsewhere::new(),
            without_memory: None,
            exact: None,
            refined: 0,
            without_cpus: None,
        })
    }

    fn run(mut self, options: &GuestOptions) -> Outcome {
        let waiting = Waiting::at(&options.channel);
        let opened =
            waiting.and_then(|waiting| Ok(self.open(&waiting)?.map(|wire| (waiting, wire))));
        let problem = match opened {
            Ok(Some((waiting, mut wire))) => {
                let ended = self.talk(&mut wire, &waiting, options);
                let ended = ended.and(self.release());
                if ended.is_err() {
                    // A guest that does not read gets no refusal.
                    let _ = wire.write_all(&ToGuest::Refused.encode(), &mut || true);
                }
                ended.err()
            }
            Ok(None) => Some(format!("nobody is at its channel, {}", options.channel)),
            Err(error) => Some(format!("its channel, {}: {error}", options.channel)),
        };
        self.outcome(problem)
    }

    fn outcome(mut self, mut problem: Option<String>) -> Outcome {
        let is_absent = self.receiver.hello.is_none();
        if let (Some(problem), true) = (&mut problem, self.is_silent) {
            *problem += &self.tail();
        }
        let ending = match (&problem, self.voice.ending()) {
            (None, ending) => ending,
            (Some(_), _) => Ending::Failed,
        };
        let (reports, unwritten) = self.receiver.finish(ending);
        let mut counts = strata_model::Counts::default();
        reports.iter().for_each(|one| counts.add(&one.counts));
        self.voice.set_counts(&counts);
        Outcome { reports, talk: self, problem: problem.or(unwritten), is_absent }
    }

    /// Refines the guest's clock by the times when its virtual CPUs ran. Returns a message if that failed.
    fn refine(&mut self) -> Option<String> {
        let (refined, problem) = self.receiver.refine();
        self.refined = refined;
        problem.map(|problem| format!("guest {}: its clock: {problem}", self.receiver.name()))
    }

    /// Reads from the guest's memory those records that the guest has not sent. Returns a remark, which may be empty.
    fn tail(&mut self) -> String {
        let Some(until) = self.guest_now() else { return String::new() };
        let Some(tail) = self.receiver.take_tail(until) else { return String::new() };
        let damage = match tail.damage {
            Some(damage) => format!("; of its memory not all can be read: {damage}"),
            None => String::new(),
        };
        match tail.records {
            0 => format!("; nothing more is in its memory{damage}"),
            records => format!("; its last {records} event records are from its memory{damage}"),
        }
    }

    /// Returns the latest possible present time of the guest's clock \[ns\].
    fn guest_now(&self) -> Option<u64> {
        let line = Line::through(self.receiver.clock().epochs().last()?, None)?;
        let passed = i128::from(strata_user::Clock::monotonic_ns()) - i128::from(line.offset_ns);
        // The rate is within 100 ppm of the host's.
        let now = passed + passed.abs() / 1_000_000 * i128::from(DRIFT_PPM);
        u64::try_from(now + i128::from(line.uncertainty_ns) + AHEAD_NS).ok()
    }

    /// Returns a remark for the user about the uncertainty of the guest's clock and about its hypervisor; `None` if
    /// there is nothing to report.
    fn remark(&self) -> Option<String> {
        let hello = self.receiver.hello.as_ref()?;
        let uncertainty = self.receiver.uncertainty_ns()?;
        let clock = self.receiver.clock();
        let epochs = match clock.epochs().len() {
            0 | 1 => String::new(),
            many => format!(
                "; it stood still or was moved {} times, and what follows is a trace of its own",
                many - 1
            ),
        };
        let impossible = match clock.impossible() {
            0 => String::new(),
            number => format!("; {number} answers cannot be true"),
        };
        let cpus: Vec<String> = self
            .receiver
            .entries
            .iter()
            .filter_map(|(name, tid)| {
                let cpu = name.strip_prefix("virtual_cpu_")?;
                Some(format!("{cpu} is thread {tid}"))
            })
            .collect();
        let exact = match self.exact.as_ref().map_or(0, |exact| exact.taken) {
            0 => "",
            _ => " and the offset that KVM tells",
        };
        let refined = match self.refined {
            0 => "",
            _ => " and by when its virtual CPUs ran",
        };
        let cpus = match cpus.is_empty() {
            true => String::new(),
            false => format!("; virtual CPU {}", cpus.join(", ")),
        };
        let moves = match self.elsewhere.moves() {
            0 => String::new(),
            moves => format!("; {moves} times another process took its machine over"),
        };
        let name = self.receiver.name();
        let same = match clock.same_as(name) {
            None => String::new(),
            Some(other) => format!("; it is the machine of guest {other}, and has its clock"),
        };
        Some(format!(
            "guest {name} ({}): its clock is known to {} us, by {} questions{exact}{refined}{epochs}{moves}{impossible}{cpus}{same}",
            hello.hostname,
            uncertainty.div_ceil(1000),
            self.answers,
        ))
    }

    /// Waits until the guest connects to the channel. Returns `None` if the recording stops before that.
    fn open(&mut self, waiting: &Waiting) -> io::Result<Option<Wire>> {
        loop {
            if let Some(wire) = waiting.opened()? {
                return Ok(Some(wire));
            }
            if self.is_stopping.load(Ordering::Acquire) {
                return Ok(None);
            }
            std::thread::sleep(OPEN_PERIOD); // Time: between two looks.
        }
    }

    /// Receives messages until the guest has sent everything or cannot send more.
    fn talk(
        &mut self,
        wire: &mut Wire,
        waiting: &Waiting,
        options: &GuestOptions,
    ) -> Result<(), String> {
        self.peer = options.pid.or_else(|| wire.peer());
        self.exact = self.peer.and_then(|pid| Exact::of(pid, counter_pair()));
        let (mut frames, mut buffer) = (Frames::default(), vec![0; READ_BYTES]);
        loop {
            if self.is_stopping.load(Ordering::Acquire) && self.is_over(wire)? {
                return Ok(());
            }
            self.elsewhere.look(waiting, wire, &mut buffer);
            self.ask(wire)?;
            let read = match wire.read(&mut buffer, LOOK_PERIOD) {
                // The hypervisor was killed and has not read our last message.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(Some(0)),
                read => read,
            };
            let now_ns = strata_user::Clock::monotonic_ns();
            self.is_silent = read.is_err();
            let mut read = read.map_err(|error| format!("its channel: {error}"))?;
            if matches!(read, None | Some(0)) && !wire.is_device() {
                if let Some((next, said)) = self.elsewhere.spoken() {
                    self.change_wire(wire, next);
                    buffer.get_mut(..said.len()).unwrap_or_default().copy_from_slice(&said);
                    read = Some(said.len());
                }
            }
            match read {
                None => {
                    self.tell();
                    self.receiver.pause();
                    continue;
                }
                Some(0) if wire.is_device() => std::thread::sleep(LOOK_PERIOD), // Time: between two looks.
                Some(0) => {
                    if let Some(next) = self.next_wire(wire, waiting) {
                        self.change_wire(wire, next);
                        continue;
                    }
                    if self.receiver.hello.is_none() {
                        return Err("it has ended before its recorder said anything".to_owned());
                    }
                    self.is_silent = true;
                    return Err(ENDED.to_owned());
                }
                Some(bytes) => {
                    // Only now: a hypervisor that ends may still accept a connection.
                    if self.elsewhere.hear() {
                        match begins_with_hello(buffer.get(..bytes).unwrap_or_default()) {
                            // The machine was restarted, so that the rest of the previous message never arrives.
                            true => frames = Frames::default(),
                            false => self.go_on(wire, options),
                        }
                    }
                    self.heard = Instant::now();
                    if self.receiver.hello.is_none() {
                        self.nothing += bytes;
                    }
                    if self.nothing > NOTHING_MAX {
                        return Err("it does not send what a recorder sends".to_owned());
                    }
                    frames.push(buffer.get(..bytes).unwrap_or_default());
                }
            }
            while self.take(wire, &mut frames, now_ns, options)? {
                if self.receiver.is_complete {
                    self.tell();
                    // The guest waits for this message; whether it reads it is its own affair.
                    let _ = wire.write_all(&ToGuest::Stop.encode(), &mut || true);
                    return Ok(());
                }
            }
        }
    }

    /// Returns the channel by which the guest continues, after the present one has ended. In a live migration, the
    /// new hypervisor has connected by then. A hypervisor that restores a saved machine connects later, and is waited
    /// for unless the guest's memory must be read before others change it.
    fn next_wire(&mut self, wire: &Wire, waiting: &Waiting) -> Option<Wire> {
        if let Some(next) = self.elsewhere.take() {
            return Some(next);
        }
        if !self.is_welcome || self.receiver.has_memory() {
            return None;
        }
        self.tell();
        self.receiver.pause();
        let is_stopping = Arc::clone(&self.is_stopping);
        self.elsewhere.wait(waiting, wire, &|| is_stopping.load(Ordering::Acquire))
    }

    /// Continues the conversation over another channel.
    fn change_wire(&mut self, wire: &mut Wire, next: Wire) {
        *wire = next;
        self.elsewhere.begin();
        (self.asked, self.next, self.is_stop_said) = (None, Instant::now(), false);
    }

    /// Notes that another process runs the guest's machine from now on, and forgets what was known of the former
    /// process.
    fn go_on(&mut self, wire: &Wire, options: &GuestOptions) {
        self.elsewhere.moved();
        // The process id that the user set was that of the old process.
        self.peer = wire.peer();
        self.exact = self.peer.and_then(|pid| Exact::of(pid, counter_pair()));
        self.find_cpus(options);
        let peer = self.machine_at();
        if let Err(problem) = self.receiver.moves(&self.machines, peer) {
            let name = self.receiver.name();
            self.without_memory = Some(format!(
                "guest {name}: its memory: {problem}. It was taken over by another process; what is in its memory at the end cannot be read"
            ));
        }
    }

    /// Returns what identifies the guest's machine: its process or context id. `None` if neither is known.
    fn machine_at(&self) -> Option<Peer> {
        match self.channel {
            Channel::Vsock { cid, .. } => Some(Peer::Guest(cid)),
            _ => self.peer.filter(|pid| self.is_machine(*pid)).map(Peer::Process),
        }
    }

    /// Handles the next message. Returns false if it has not arrived completely.
    fn take(
        &mut self,
        wire: &Wire,
        frames: &mut Frames,
        now_ns: u64,
        options: &GuestOptions,
    ) -> Result<bool, String> {
        let is_unknown = self.receiver.hello.is_none();
        let (kind, payload) = match frames.next_frame() {
            Ok(None) => return Ok(false),
            Ok(Some(frame)) => frame,
            // These bytes are left over from an earlier recorder.
            Err(_) if is_unknown => {
                frames.pass();
                return Ok(true);
            }
            Err(problem) => return Err(problem.to_string()),
        };
        match FromGuest::decode(kind, payload) {
            Ok(FromGuest::Pong { number, received_ns, sent_ns, pair }) => {
                if self.answered(number, (received_ns, sent_ns), now_ns, pair) {
                    self.release()?;
                }
                self.welcome(wire)?;
            }
            // Nothing follows this message, not even an answer.
            Ok(FromGuest::End) => {
                self.release()?;
                self.receiver.take(FromGuest::End)?;
            }
            Ok(_) if self.elsewhere.hold(kind, payload) => {}
            Ok(said) => {
                self.release()?;
                self.receiver.take(said)?;
            }
            Err(_) if is_unknown => {}
            Err(problem) => return Err(problem.to_string()),
        }
        if is_unknown && self.receiver.hello.is_some() {
            self.find_cpus(options);
            self.receiver.meet(&self.machines, self.machine_at());
            self.next = Instant::now();
        }
        Ok(true)
    }

    /// Returns whether the process runs exactly one virtual machine. A process that only listens at the channel may
    /// serve several machines, and a guest could then claim to be another one.
    fn is_machine(&self, pid: u32) -> bool {
        self.receiver.has_cpus()
            || cpus::has_names(pid)
            || kvm::machine(Path::new(kvm::DEBUGFS), pid).is_some()
    }

    /// Finds the threads of the guest's virtual CPUs. The guest is also recorded if they are not found.
    fn find_cpus(&mut self, options: &GuestOptions) {
        let asked =
            options.qmp.as_ref().map(|path| cpus::by_qmp(path).map_err(|error| (path, error)));
        let unasked = |pid: Option<u32>| {
            let Some(pid) = pid else { return Vec::new() };
            let named = cpus::by_names(pid);
            if named.is_empty() {
                cpus::by_kvm(pid)
            } else {
                named
            }
        };
        let cpus = match asked {
            None => unasked(self.peer),
            Some(Ok(cpus)) => cpus,
            Some(Err((path, error))) => {
                let cpus = unasked(self.peer);
                let instead = match cpus.is_empty() {
                    true => "Which threads they are is not known",
                    false => "They are known by their names, or by KVM",
                };
                let (name, path) = (self.receiver.name(), path.display());
                self.without_cpus =
                    Some(format!("guest {name}: its virtual CPUs: {path}: {error}. {instead}"));
                cpus
            }
        };
        if let (true, None, Some(pid)) = (cpus.is_empty(), &options.qmp, self.peer) {
            self.without_cpus =
                Some(format!("guest {}: its virtual CPUs: {}", self.receiver.name(), none_of(pid)));
        }
        let of_cpus = cpus.iter().map(|(cpu, tid)| (format!("virtual_cpu_{cpu}"), i64::from(*tid)));
        self.receiver.entries = of_cpus.collect();
        let hypervisor = self.peer.map(|pid| ("hypervisor_pid".to_owned(), i64::from(pid)));
        self.receiver.entries.extend(hypervisor);
    }

    /// Asks the guest for its time, if a question is due.
    fn ask(&mut self, wire: &Wire) -> Result<(), String> {
        let is_waiting = self.asked.is_some_and(|(_, _, since)| since.elapsed() < ANSWER);
        if self.receiver.hello.is_none() || is_waiting || Instant::now() < self.next {
            return Ok(());
        }
        self.questions += 1;
        let message = ToGuest::Ping { number: self.questions }.encode();
        let now = Instant::now();
        self.asked = Some((self.questions, strata_user::Clock::monotonic_ns(), now));
        self.say(wire, &message)
    }

    /// Uses an answer about the guest's time if it belongs to the last question. Returns whether it does.
    fn answered(
        &mut self,
        number: u64,
        (received, sent): (u64, u64),
        answered: u64,
        pair: CounterPair,
    ) -> bool {
        let Some((_, asked, _)) = self.asked.filter(|(asked, ..)| *asked == number) else {
            return false;
        };
        self.asked = None;
        self.answers += 1;
        let exchange = Exchange { asked, received, sent, answered };
        self.receiver.learn(&exchange);
        if let Some(exact) = &mut self.exact {
            if let Some(exact) = exact.exchange(&exchange, pair, counter_pair()) {
                self.receiver.learn(&exact);
            }
        }
        let wait = if self.answers < ASKED_FIRST { Duration::ZERO } else { ASK_PERIOD };
        self.next = Instant::now() + wait;
        true
    }

    /// Handles the messages that were kept until the guest's clock was known.
    fn release(&mut self) -> Result<(), String> {
        for (kind, payload) in self.elsewhere.release() {
            let said = FromGuest::decode(kind, &payload).map_err(|problem| problem.to_string())?;
            self.receiver.take(said)?;
        }
        Ok(())
    }

    /// Welcomes the guest once its clock is known. The guest records from then on.
    fn welcome(&mut self, wire: &Wire) -> Result<(), String> {
        let Some(hello) = &self.receiver.hello else { return Ok(()) };
        if self.is_welcome || self.answers < ASKED_FIRST {
            return Ok(());
        }
        if self.receiver.clock().epochs().is_empty() {
            return Err("its answers about its clock contradict each other".to_owned());
        }
        self.is_welcome = true;
        let (recording, reads_memory) = (hello.recording, self.receiver.has_memory());
        let message = ToGuest::Welcome { version: VERSION, recording, reads_memory };
        self.say(wire, &message.encode())
    }

    fn say(&mut self, wire: &Wire, message: &[u8]) -> Result<(), String> {
        let since = Instant::now();
        let is_stopping = Arc::clone(&self.is_stopping);
        let mut is_over = || since.elapsed() > PATIENCE && is_stopping.load(Ordering::Acquire);
        let said = wire.write_all(message, &mut is_over);
        if let Err(error) = &said {
            // The next read returns what was sent before the end, and then the end.
            if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
                return Ok(());
            }
        }
        self.is_silent = said.is_err();
        said.map_err(|error| format!("its channel: {error}"))
    }

    /// Returns whether the guest has nothing more to send, so that the recording of the guest can end.
    fn is_over(&mut self, wire: &Wire) -> Result<bool, String> {
        if !self.is_welcome {
            return match self.receiver.hello {
                None => Err("its recorder has not said anything".to_owned()),
                Some(_) => Err("its recorder has not told what time it is".to_owned()),
            };
        }
        // The time counts over all channels together, so that a machine that moves again and again is not waited for
        // any longer.
        let told = *self.told_to_stop.get_or_insert_with(Instant::now);
        if !std::mem::replace(&mut self.is_stop_said, true) {
            self.heard = Instant::now();
            return self.say(wire, &ToGuest::Stop.encode()).map(|()| false);
        }
        if self.elsewhere.unheard().is_some_and(|silent| silent > UNHEARD) {
            self.is_silent = true;
            return Err(ENDED.to_owned());
        }
        let (what, limit) = match told.elapsed() > PATIENCE_AT_ALL {
            true => ("goes on to say something after", PATIENCE_AT_ALL),
            false if self.heard.elapsed() > PATIENCE => ("has said nothing for", PATIENCE),
            false => return Ok(false),
        };
        self.is_silent = true;
        let seconds = limit.as_secs();
        Err(format!("its recorder was told that the recording ends, and {what} {seconds} s"))
    }

    fn tell(&self) {
        self.voice.set_counts(&self.receiver.counts());
    }
}

/// Returns whether the bytes begin with a recorder's first message.
fn begins_with_hello(bytes: &[u8]) -> bool {
    let mut frames = Frames::default();
    frames.push(bytes);
    let first = frames.next_frame();
    matches!(first, Ok(Some((kind, payload))) if matches!(FromGuest::decode(kind, payload), Ok(FromGuest::Hello(_))))
}

/// Returns a message that says why the virtual CPUs of the process `pid` are not known.
fn none_of(pid: u32) -> String {
    let why = match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Err(error) => error.to_string(),
        Ok(name) => format!(
            "{}: none of its threads is called as QEMU calls them (CPU 0/KVM, with debug-threads=on), and {} says nothing of it",
            name.trim_end(),
            kvm::DEBUGFS,
        ),
    };
    format!(
        "process {pid}: {why}. The threads of its virtual CPUs are not known. After the channel, give pid=PID, the \
         process that runs the machine, or qmp=PATH, QEMU's control socket"
    )
}

/// Identification of the machine that all guests' traces need.
impl Machine {
    fn clock_of_guests(&self, uuid: strata_model::Uuid) -> (strata_model::ClockClass, i64) {
        let clock = self.clock();
        let wall = i128::from(clock.offset_s) * 1_000_000_000 + i128::from(clock.offset_cycles);
        let of_guests = strata_model::ClockClass { uuid: Some(uuid), ..clock.clone() };
        (of_guests, i64::try_from(wall).unwrap_or(0))
    }
}
