//! A session in a process: its slot, its channel, and the tracepoints that are enabled for it.
//!
//! A process shares a memfd with tracers (`abi/include/strata/abi/user.h`). The memfd has a fixed number of session slots, so that
//! several tracers can record the same process at once. An [`AppSession`] owns one slot on behalf of this tracer.
//!
//! ```text
//!        start(), adopt()                              stop()      release()
//! FREE ───────────────────▶ SETUP ── channel, rules, ids ──▶ ACTIVE ────────▶ ENDING ─────────▶ FREE
//!                                                            │    ▲
//!                                                            └────┘ update(), tick()
//! ```
//!
//! # Two ways to begin
//! - [`AppSession::start`] is for a process that runs already: it takes a slot, formats the channel, writes rules, contexts and
//!   filter, and enables the selected tracepoints.
//! - [`AppSession::adopt`] is for a process that prepared the session itself before `main()`, from a request that a listener
//!   published. The process records already; its slot is checked and completed by the tracer's clock and event ids.
//!
//! # Afterwards
//! [`AppSession::tick`] is called periodically: it writes the heartbeat, without which the process leaves the session of a dead
//! tracer, and the conversion of the clock. [`AppSession::update`] enables tracepoints of objects that were loaded since. Changes of
//! rules are in `session/change.rs`.
//!
//! Enabling a tracepoint means three stores in this order: the event's id for the slot and the slot's bit, both in the
//! tracepoint's state, and then the opcode of each site in the process' code, unless its sites test a flag. Disabling clears the
//! bit first. A process patches its own code if it can; otherwise this tracer does (`enable.rs`).
//!
//! # Hostile processes
//! Everything in the memfd may be changed by the process at any time. Values are copied and then checked; what the process can gain
//! is nonsense in its own trace. Nothing here waits for the process: questions to /proc that may block go through `blocking_queries.rs`.
//! Dropping a session disables its tracepoints and gives the slot back.

use std::mem::offset_of;
use std::sync::atomic::{fence, Ordering};
use std::time::{Duration, Instant};

use strata_abi::{ring, user};
use strata_model::{EventClass, Field, FieldClass, Integer};
use strata_ring::{channel_bytes, Attr, Channel, LossMode, Mapping, Publish};

use crate::attach::application::{possible_cpus, Application};
use crate::attach::clock::{Clock, Publisher, SessionTime};
use crate::attach::shared_memory::{session, state, to_pages, Lock};
use crate::attach::tracepoint_sites::{set_opcodes, Cause, Code, Failure};
use crate::decide::contexts::EventContexts;
use crate::decide::filter::Program;
use crate::decide::session_spec::{HeaderChoice, RecordFormat, SessionCounters, SessionSpec};
use crate::error::Error;
use crate::processes::blocking_queries::{may_ask, Errand};
use crate::processes::cgroup;
use crate::processes::process::{failed, is_ending, named_threads, strict_threads, Writers};
use crate::read::record_ids::Ids;
use crate::read::tracepoint_states::Snapshot;
use crate::users::quotas::Share;

mod change;
mod enable;
mod schedule;
mod slots;

pub use change::Differs;

use enable::{enabled, patches, restore, switch_off};
use schedule::Due;
use slots::{claim, first_fit, free, start_position, SlotCopy};

/// The most tracepoints that fit compact record headers: with more, some ids would need a longer header.
const COMPACT_MAX: usize = 31;

/// Provider and name of the tracepoint in libstrata that records when a thread gets a new name.
const THREAD_NAME: (&[u8], &[u8]) = (b"strata", b"thread_name");

/// Period of the heartbeat, by which a process sees that its tracer is still running.
const HEARTBEAT: Duration = Duration::from_millis(250);

/// Returns the context field of a span's begin that is recorded at the span's end: how long ago it began \[ns\].
fn elapsed() -> Field {
    let class = FieldClass::Integer(Integer::unsigned(8));
    Field { name: "elapsed".to_owned(), class }
}

/// Returns a new random generation, different from that of any earlier session.
#[must_use]
pub fn new_generation() -> u64 {
    let mut bytes = [0; 8];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    match (filled, u64::from_ne_bytes(bytes)) {
        (Ok(8), generation) if generation != 0 => generation,
        // A kernel without getrandom(): the time differs from session to session as well, if not as safely.
        _ => Clock::monotonic_ns() | 1,
    }
}

/// A session in a process. Dropping it disables its tracepoints and frees its memory in the process.
#[derive(Debug)]
pub struct AppSession {
    app: Application,
    slot: u32,
    generation: u64,
    format: RecordFormat,
    named_threads: Vec<(u32, String)>,
    channel: Option<Channel>,
    place: (u64, u64),
    ids: Ids,
    /// The part of the quota of the process's user that this session takes.
    _share: Share,
    seen: Option<ChangeMarks>,
    /// Work of patching the process' code, if it is in progress.
    patching: Option<Errand<Vec<Failure>>>,
    /// Why the process' code could not be patched at the last attempt.
    unpatched: Option<Error>,
    /// True once the process has reported that it cannot patch its own code, so that this tracer must.
    needs_us: bool,
    /// State of the tracepoints when the code was last patched.
    patched: Option<ChangeMarks>,
    /// Work of restoring the process' code, if it is in progress.
    restoring: Option<Errand<()>>,
    /// Tracepoints that are disabled while their code sites are still patched.
    left_enabled: Vec<u32>,
    /// Threads that may still be writing to this session after another session has replaced it.
    writers: Option<Writers>,
    publisher: Publisher,
    time: SessionTime,
    clock: Due,
    heartbeat: Due,
    /// True if this tracer writes the process's control group to its slot, because records or the filter use it.
    tells_group: bool,
    problems: Vec<Error>,
    stopped: bool,
    released: bool,
}

/// Values that change whenever tracepoints are added or get ids, so that equal marks mean no change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChangeMarks {
    generation: u64,
    nr_states: u32,
    next_id: u32,
}

impl AppSession {
    /// Starts a session in a process: takes a slot, makes the channel, writes the rules, and enables the tracepoints
    /// that the rules select.
    ///
    /// The process itself enables tracepoints of objects that are loaded later.
    ///
    /// # Errors
    /// The session could not be started; the process is unchanged. [`Error::Locked`]: another process, perhaps another
    /// tracer, holds the lock of the memory at this moment; try again soon.
    pub fn start(
        app: &Application,
        spec: &SessionSpec,
        clock: &Clock,
    ) -> Result<AppSession, Error> {
        let mut session = AppSession::start_soon(app, spec, clock)?;
        session.settle(true)?;
        session.update()?;
        Ok(session)
    }

    /// Starts the session without waiting until the process' code is patched, so that sessions in other processes can
    /// be started meanwhile. Call [`finish_start`](Self::finish_start) soon.
    ///
    /// # Errors
    /// As of [`start`](Self::start).
    pub fn start_soon(
        app: &Application,
        spec: &SessionSpec,
        clock: &Clock,
    ) -> Result<AppSession, Error> {
        let (mut session, lock) = AppSession::prepared(app, spec, clock, 0)?;
        // Sequentially consistent, as is the process' check for sessions after it has described an object: either the
        // process sees the session, or we see the object.
        session
            .u32(offset_of!(user::Session, status))
            .store(user::SESSION_ACTIVE, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        drop(lock);
        session.switch_on(spec)?;
        session.learn()?;
        // A name that a thread gets from here on is recorded.
        if spec.vtid {
            session.name_threads();
        }
        Ok(session)
    }

    /// Makes a session with slot, channel, rules and ids in which no tracepoint is enabled. `replaces` is the
    /// generation of the session that it replaces, or 0.
    fn prepared<'a>(
        app: &'a Application,
        spec: &SessionSpec,
        clock: &Clock,
        replaces: u64,
    ) -> Result<(AppSession, Lock<'a>), Error> {
        let memory = app.memory();
        if !app.is_alive() {
            return Err(Error::Gone { pid: app.pid() });
        }
        refuse_strict(app)?;
        let lock = memory.try_lock().ok_or(Error::Locked { pid: app.pid(), waited_ms: 0 })?;
        let snapshot = app.snapshot()?;
        app.learn(&snapshot)?;
        let share = share(app)?;
        let generation = new_generation();
        let time = clock.time();
        let slot = claim(app, generation, time.now_ns(), &lock)?;
        let mut session = AppSession::new(app, slot, generation, share, time);
        (session.format.vtid, session.format.contexts) = (spec.vtid, spec.contexts);
        session.format.spans = spec.filter.as_ref().is_some_and(Program::asks_duration);
        // From here on, dropping the session frees the slot.
        let selected = session.selected(&snapshot, spec);
        session.format.large_header = match spec.header {
            HeaderChoice::Auto => selected.len() > COMPACT_MAX,
            HeaderChoice::Compact => false,
            HeaderChoice::Large => true,
        };
        session.tells_group =
            spec.contexts.has_group() || spec.filter.as_ref().is_some_and(Program::asks_group);
        session.write_slot(spec)?;
        session.tell_group();
        session.u64(offset_of!(user::Session, replaces)).store(replaces, Ordering::Relaxed);
        session.make_channel(spec)?;
        session.publish(clock);
        for index in selected {
            session.give_id(index);
        }
        Ok((session, lock))
    }

    /// Waits a limited time until the code is patched that [`start_soon`](Self::start_soon) began to patch.
    /// Tracepoints that could not be enabled are reported by [`problems`](Self::problems).
    pub fn finish_start(&mut self) {
        if let Err(error) = self.settle(true) {
            self.problems.push(error);
        }
    }

    /// Takes over the session `generation` that the process has made itself, because it was started with
    /// [`Launch::environment`](crate::Launch::environment), or is a child of such a process.
    ///
    /// # Errors
    /// [`Error::NotEnabled`]: the process has no such session. [`Error::NoBuffers`]: the process could not make the
    /// session. [`Error::Channel`], [`Error::Value`]: its memory is damaged.
    pub fn adopt(
        app: &Application,
        generation: u64,
        spec: &SessionSpec,
        clock: &Clock,
    ) -> Result<AppSession, Error> {
        let pid = app.pid();
        let memory = app.memory();
        let slots = SlotCopy::read_all(memory)?;
        let found = (0..)
            .zip(&slots)
            .find(|(_, slot)| slot.generation == generation && app.has_records(slot.status));
        let Some((slot, copy)) = found else {
            let failed = |slot: &&SlotCopy| slot.generation == generation && slot.create_errno != 0;
            return Err(match slots.iter().find(failed) {
                Some(slot) => Error::NoBuffers { pid, code: slot.create_errno },
                None => Error::NotEnabled { pid, generation },
            });
        };
        let size = memory.size()?;
        let place = copy.place(size).ok_or(Error::Value {
            pid,
            what: "the place of a session's channel",
            found: copy.offset,
            limit: size,
        })?;
        // Map no more address space than the channel of this spec can need.
        let (found, limit) = (place.1 - place.0, channel_limit(app, spec)?);
        if found > limit {
            let what = "its channel's size";
            return Err(Error::Value { pid, what, found, limit });
        }
        let channel = Mapping::new(memory.fd(), place.0, place.1 - place.0)
            .and_then(Channel::open)
            .map_err(|source| Error::Channel { pid, source })?;
        // Within what the spec asks for: packets are copied, and those of one process must not cost more than those of
        // others.
        for (what, found, limit) in [
            (
                "its channel's number of streams",
                channel.nr_streams().into(),
                possible_cpus().into(),
            ),
            ("its channel's sub-buffer size", channel.subbuf_bytes(), spec.subbuf_bytes),
            ("its channel's number of sub-buffers", channel.nr_subbufs().into(), spec.nr_subbufs),
        ] {
            if found > limit {
                return Err(Error::Value { pid, what, found, limit });
            }
        }
        let mut session = AppSession::new(app, slot, generation, share(app)?, clock.time());
        session.format.large_header = copy.flags & user::SESSION_LARGE_HEADER != 0;
        session.format.spans = copy.flags & user::SESSION_SPANS != 0;
        // Taken from the spec: a process that writes another format only makes its own records unreadable.
        session.format.vtid = spec.vtid;
        session.place = place;
        session.channel = Some(channel);
        match session.take_over(clock) {
            // The records stay in the memory, so that adopting can be tried again.
            Err(error) if !app.is_alive() => {
                session.leave();
                Err(error)
            }
            taken => taken.map(|()| session),
        }
    }

    fn take_over(&mut self, clock: &Clock) -> Result<(), Error> {
        // The contexts that were asked for when the slot was made: they may differ from those of the spec.
        self.format.contexts = self.slot_contexts()?;
        // Any filter may need the control group; its program is not examined here.
        let filter_bytes = self.u32(offset_of!(user::Session, filter_bytes));
        self.tells_group =
            self.format.contexts.has_group() || filter_bytes.load(Ordering::Relaxed) > 0;
        self.beat()?;
        self.publish(clock);
        match self.update().and_then(|_| self.settle(true)) {
            // Nothing more can be enabled in the process, but its records can be read.
            Err(error) if error.is_gone() && self.seen.is_some() => Ok(()),
            done => done,
        }
    }

    /// Returns the contexts of records, as the session's slot lists them.
    fn slot_contexts(&self) -> Result<EventContexts, Error> {
        let nr = self.u32(offset_of!(user::Session, nr_contexts)).load(Ordering::Relaxed);
        let at = session(self.slot) + offset_of!(user::Session, contexts);
        let numbers = self.app.memory().read(at as u64, user::CONTEXTS_MAX as usize)?;
        EventContexts::of_slot(nr, &numbers).ok_or(Error::Value {
            pid: self.app.pid(),
            what: "the contexts of a session in the control page",
            found: nr.into(),
            limit: user::CONTEXTS_MAX.into(),
        })
    }

    /// Enables the selected tracepoints in a process that was forked while [`start`](Self::start) was in progress in
    /// its parent: the inherited session may be enabled in part only, or not at all.
    ///
    /// # Errors
    /// As of [`start`](Self::start); the session stays as it is.
    pub fn complete(&mut self, spec: &SessionSpec) -> Result<(), Error> {
        if !self.app.is_alive() {
            return Err(Error::Gone { pid: self.app.pid() });
        }
        self.switch_on(spec)?;
        self.settle(true)?;
        self.update().map(drop)
    }

    fn new(
        app: &Application,
        slot: u32,
        generation: u64,
        share: Share,
        time: SessionTime,
    ) -> AppSession {
        let now = time.now();
        AppSession {
            app: app.clone(),
            slot,
            generation,
            format: RecordFormat::default(),
            named_threads: Vec::new(),
            channel: None,
            place: (0, 0),
            ids: Ids::default(),
            _share: share,
            seen: None,
            patching: None,
            unpatched: None,
            needs_us: false,
            patched: None,
            restoring: None,
            left_enabled: Vec::new(),
            writers: None,
            publisher: Publisher::new(slot),
            time,
            clock: Due::after(now, Duration::ZERO),
            heartbeat: Due::after(now, HEARTBEAT),
            tells_group: false,
            problems: Vec::new(),
            stopped: false,
            released: false,
        }
    }

    /// The process of this session.
    #[must_use]
    pub fn application(&self) -> &Application {
        &self.app
    }

    /// Number of the session's slot in the process.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// Generation of the session, a number that no earlier session has.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns whether record headers are large; else they are compact.
    #[must_use]
    pub fn large_header(&self) -> bool {
        self.format.large_header
    }

    /// Format of the record before its payload.
    #[must_use]
    pub fn format(&self) -> RecordFormat {
        self.format
    }

    /// The threads, by their ids in their PID namespace, that had a name of their own when the session began.
    #[must_use]
    pub fn named_threads(&self) -> &[(u32, String)] {
        &self.named_threads
    }

    /// Returns the channel the first time, then `None`. Its reader may use it until [`release`](Self::release).
    pub fn take_channel(&mut self) -> Option<Channel> {
        self.channel.take()
    }

    /// Size of the channel while it has not been [taken](Self::take_channel) \[byte\].
    #[must_use]
    pub fn channel_bytes(&self) -> u64 {
        self.channel.as_ref().map_or(0, Channel::mapped_bytes)
    }

    /// Returns the event record classes so far, in order of their ids; each is made when the iterator reaches it.
    pub fn events(&self) -> impl Iterator<Item = EventClass> + '_ {
        self.ids.iter().filter_map(|(id, index)| {
            let description = self.app.described().description(index)?;
            let mut event = EventClass { id: id.into(), ..description.event };
            if self.format.spans && description.begins_span {
                event.context.push(elapsed());
            }
            Some(event)
        })
    }

    /// Number of tracepoints that were enabled in this session at any time, which equals the number of its event
    /// record classes.
    #[must_use]
    pub fn nr_selected(&self) -> usize {
        self.ids.len()
    }

    /// Counters that the process keeps for this session in addition to those of the channel.
    #[must_use]
    pub fn counters(&self) -> SessionCounters {
        let load = |offset| self.u64(offset).load(Ordering::Relaxed);
        SessionCounters {
            discarded_unmapped: load(offset_of!(user::Session, discarded_unmapped)),
            discarded_unstaged: load(offset_of!(user::Session, discarded_unstaged)),
            discarded_no_clock: load(offset_of!(user::Session, discarded_no_clock)),
            self_stopped: load(offset_of!(user::Session, self_stopped)) != 0,
        }
    }

    /// Returns, and forgets, why tracepoints could not be enabled; the session continues without them.
    pub fn problems(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.problems)
    }

    fn u32(&self, field: usize) -> &std::sync::atomic::AtomicU32 {
        self.app.memory().u32(session(self.slot) + field)
    }

    fn u64(&self, field: usize) -> &std::sync::atomic::AtomicU64 {
        self.app.memory().u64(session(self.slot) + field)
    }

    fn bit(&self) -> u32 {
        1 << self.slot
    }

    /// Checks that the slot is still ours.
    fn check_slot(&self) -> Result<(), Error> {
        let found = self.u64(offset_of!(user::Session, generation)).load(Ordering::Acquire);
        if found == self.generation {
            return Ok(());
        }
        let (pid, slot) = (self.app.pid(), self.slot);
        let silent_ms =
            u64::try_from(self.heartbeat.elapsed(self.time.now()).as_millis()).unwrap_or(u64::MAX);
        Err(Error::SlotTaken { pid, slot, found, wanted: self.generation, silent_ms })
    }

    fn beat(&mut self) -> Result<(), Error> {
        self.check_slot()?;
        let now = self.time.now_ns();
        self.u64(offset_of!(user::Session, heartbeat_ns)).store(now, Ordering::Relaxed);
        self.tell_group();
        self.heartbeat = Due::after(self.time.now(), HEARTBEAT);
        Ok(())
    }

    /// Writes the conversion of the process' clock, and notes when to do so again.
    fn publish(&mut self, clock: &Clock) {
        let pause = self.publisher.publish(self.app.memory(), clock);
        self.clock = Due::after(self.time.now(), pause);
    }

    /// Writes the id of the process' current control group to its slot, if its records or its filter use it: the
    /// process itself does not notice when it is moved. If this program cannot see the group, the slot keeps the one
    /// that the process wrote when it began to record.
    fn tell_group(&self) {
        if !self.tells_group {
            return;
        }
        let found = cgroup::of(self.app.pid());
        // The group was that of this process if the process still lives.
        if let Some(found) = found.filter(|_| self.app.is_alive()) {
            self.u64(offset_of!(user::Session, cgroup_id)).store(found, Ordering::Relaxed);
        }
    }

    /// Returns the indices of the present tracepoints that the rules select.
    fn selected(&self, snapshot: &Snapshot, spec: &SessionSpec) -> Vec<u32> {
        let states = (0..).zip(&snapshot.states).filter(|(_, state)| state.is_present());
        let selects = |index: &u32| self.selects(*index, spec) == Some(true);
        states.map(|(index, _)| index).filter(selects).collect()
    }

    /// Assigns a tracepoint an id in this session, unless it has an id already; the process may have assigned one.
    fn give_id(&self, index: u32) {
        let ids = state(index) + offset_of!(user::State, ids) + 2 * self.slot as usize;
        let id = self.app.memory().u16(ids);
        if id.load(Ordering::Acquire) != user::NO_ID {
            return;
        }
        let next = self.u32(offset_of!(user::Session, next_id)).fetch_add(1, Ordering::Relaxed);
        if let Ok(next) = u16::try_from(next) {
            // RELEASE pairs with the process' ACQUIRE. If the process was quicker, `next` stays unused.
            let _ = id.compare_exchange(user::NO_ID, next, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Writes everything in the slot but the channel's place and the status.
    fn write_slot(&self, spec: &SessionSpec) -> Result<(), Error> {
        let mut flags = 0;
        for (flag, set) in [
            (user::SESSION_INHERIT, spec.inherit),
            (user::SESSION_LARGE_HEADER, self.format.large_header),
            (user::SESSION_VTID, self.format.vtid),
            (user::SESSION_OVERWRITE, spec.loss_mode == LossMode::Overwrite),
            (user::SESSION_SPANS, self.format.spans),
        ] {
            flags |= if set { flag } else { 0 };
        }
        let rules = spec.rules.as_str().as_bytes();
        let rules_at = session(self.slot) + offset_of!(user::Session, rules);
        self.app.memory().write(rules_at as u64, rules)?;
        let filter = spec.filter.as_ref().map_or(&[][..], Program::bytes);
        let filter_at = user::FILTERS_OFFSET + self.slot * strata_abi::filter::BYTES;
        self.app.memory().write(filter_at.into(), filter)?;
        let contexts_at = session(self.slot) + offset_of!(user::Session, contexts);
        self.app.memory().write(contexts_at as u64, spec.contexts.all_bytes())?;
        for (field, value) in [
            (offset_of!(user::Session, flags), flags),
            (offset_of!(user::Session, nr_subbufs), u32::try_from(spec.nr_subbufs).unwrap_or(0)),
            (offset_of!(user::Session, next_id), 0),
            (offset_of!(user::Session, rules_bytes), rules.len() as u32),
            (offset_of!(user::Session, rules_version), 0),
            (offset_of!(user::Session, other_rules_bytes), 0),
            (offset_of!(user::Session, create_errno), 0),
            (offset_of!(user::Session, filter_bytes), filter.len() as u32),
            (offset_of!(user::Session, nr_contexts), spec.contexts.bytes().len() as u32),
        ] {
            self.u32(field).store(value, Ordering::Relaxed);
        }
        for (field, value) in [
            (offset_of!(user::Session, subbuf_bytes), spec.subbuf_bytes),
            (offset_of!(user::Session, discarded_unmapped), 0),
            (offset_of!(user::Session, discarded_unstaged), 0),
            (offset_of!(user::Session, discarded_no_clock), 0),
            (offset_of!(user::Session, self_stopped), 0),
            (offset_of!(user::Session, replaces), 0),
            (offset_of!(user::Session, cgroup_id), 0),
            (offset_of!(user::Session, heartbeat_ns), self.time.now_ns()),
        ] {
            self.u64(field).store(value, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Finds room for a channel among the others and formats an empty channel there. The caller holds the lock.
    fn make_channel(&mut self, spec: &SessionSpec) -> Result<(), Error> {
        let pid = self.app.pid();
        let memory = self.app.memory();
        let error = |source| Error::Channel { pid, source };
        let mut attr = Attr {
            loss_mode: spec.loss_mode,
            publish: match self.app.publish() {
                ring::BY_COMMIT => Publish::ByCommit,
                _ => Publish::ByPosition,
            },
            subbuf_bytes: spec.subbuf_bytes,
            nr_subbufs: spec.nr_subbufs,
            nr_cpus: self.app.nr_cpus(),
            start_position: 0,
        };
        let needed = channel_bytes(&attr).map_err(error)?;
        attr.start_position = start_position(self.generation, &attr);
        let size = memory.size()?;
        let others = SlotCopy::read_all(memory)?;
        let taken = others
            .iter()
            .enumerate()
            .filter(|(slot, copy)| *slot != self.slot as usize && copy.status != user::SESSION_FREE)
            .filter_map(|(_, copy)| copy.place(size))
            .collect();
        let place = to_pages(needed).and_then(|bytes| {
            let begin = first_fit(taken, bytes);
            begin.checked_add(bytes).filter(|end| *end <= i64::MAX as u64).map(|end| (begin, end))
        });
        let Some((begin, end)) = place else {
            return Err(Error::NoPlace { pid, bytes: needed, offset: size });
        };
        memory.grow(end)?;
        // A channel must begin as zeros, and a former session may have left other bytes.
        memory.punch(begin, end - begin)?;
        self.place = (begin, end);
        let mapping = Mapping::new(memory.fd(), begin, end - begin).map_err(error)?;
        self.channel = Some(Channel::format(mapping, &attr).map_err(error)?);
        self.u64(offset_of!(user::Session, channel_offset)).store(begin, Ordering::Relaxed);
        self.u64(offset_of!(user::Session, channel_bytes)).store(end - begin, Ordering::Relaxed);
        Ok(())
    }

    /// Enables the tracepoints that the rules select, including those that were loaded since the first look.
    fn switch_on(&mut self, spec: &SessionSpec) -> Result<(), Error> {
        let snapshot = self.app.snapshot()?;
        self.app.learn(&snapshot)?;
        let selected = self.selected(&snapshot, spec);
        for index in &selected {
            self.give_id(*index);
            // RELEASE: a process that sees the bit also sees the id.
            enabled(&self.app, *index).fetch_or(self.bit(), Ordering::Release);
        }
        self.patch(&snapshot, selected)
    }

    /// Begins to patch the sites of the tracepoints `indices` as far as the process does not patch them itself.
    /// [`settle`](Self::settle) returns the result.
    fn patch(
        &mut self,
        snapshot: &Snapshot,
        indices: impl IntoIterator<Item = u32>,
    ) -> Result<(), Error> {
        let mut patches = patches(&self.app, snapshot, indices)?;
        if patches.is_empty() {
            return Ok(());
        }
        let (app, code) = (self.app.clone(), self.app.code());
        let work = move || {
            code.open()?;
            // This may run much later, when the tracepoint is disabled again.
            patches.retain(|patch| enabled(&app, patch.index).load(Ordering::SeqCst) != 0);
            Ok(set_opcodes(&*code, &patches, user::SITE_ON))
        };
        match Errand::new(self.app.pid_and_user(), work) {
            Ok(errand) => self.patching = Some(errand),
            Err(error) if error.is_held() => self.unpatched = Some(error),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Takes the result of the last [`patch`](Self::patch), if that has ended. With `wait`, waits for it for a
    /// limited time.
    fn settle(&mut self, wait: bool) -> Result<(), Error> {
        let Some(errand) = &self.patching else { return Ok(()) };
        let Some(answer) = (if wait { errand.wait() } else { errand.answer() }) else {
            errand.leave();
            return Ok(());
        };
        self.patching = None;
        let (pid, failures) = (self.app.pid(), answer?);
        if !failures.is_empty() && (!self.app.is_alive() || is_ending(pid)) {
            return Err(Error::Gone { pid });
        }
        for failure in failures {
            let problem = self.site_error(failure);
            self.problems.push(problem);
        }
        Ok(())
    }

    /// Patches sites that are not patched yet: those that the process cannot patch itself, or that this tracer failed
    /// to patch before.
    fn patch_again(&mut self) -> Result<(), Error> {
        match self.settle(false) {
            Err(error) if !error.is_gone() => self.problems.push(error),
            settled => settled?,
        }
        self.needs_us |= self.app.patch_errno() != 0;
        let is_new = self.needs_us && self.patched != self.seen;
        if !is_new && self.unpatched.is_none() || self.patching.is_some() {
            return Ok(());
        }
        let (pid, user) = self.app.pid_and_user();
        if let Err(error) = may_ask(pid, user) {
            self.unpatched = Some(error);
            return Ok(());
        }
        (self.patched, self.unpatched) = (self.seen, None);
        let snapshot = self.app.snapshot()?;
        self.app.learn(&snapshot)?;
        let bit = self.bit();
        let on = (0..).zip(&snapshot.states).filter(|(_, state)| state.enabled & bit != 0);
        let on: Vec<u32> = on.map(|(index, _)| index).collect();
        self.patch(&snapshot, on)?;
        self.settle(false)
    }

    fn site_error(&self, failure: Failure) -> Error {
        let pid = self.app.pid();
        let tracepoint = self.app.described().description(failure.index);
        let tracepoint = tracepoint.map_or_else(String::new, |d| d.event.full_name());
        let user::Site { address, displacement, .. } = failure.site;
        match failure.cause {
            Cause::Differs(found) => Error::Site { pid, tracepoint, address, found, displacement },
            Cause::System(source) => Error::Code { pid, tracepoint, address, source },
        }
    }

    /// Looks for tracepoints that were loaded or enabled since the last call, and patches the sites that the process
    /// cannot patch itself. Returns true if there are more [`events`](Self::events). Costs next to nothing if the
    ///
    ///
    /// # Errors
    /// The process' memory is damaged; nothing more can be read from it.
    pub fn update(&mut self) -> Result<bool, Error> {
        let grown = self.learn()?;
        if !self.stopped {
            self.patch_again()?;
        }
        Ok(grown)
    }

    /// Looks for new and removed tracepoints, as [`update`](Self::update) does, without enabling any.
    ///
    /// # Errors
    /// As of [`update`](Self::update).
    pub fn learn(&mut self) -> Result<bool, Error> {
        self.check_slot()?;
        let seen = ChangeMarks {
            generation: self.app.generation(),
            nr_states: self.app.nr_states()?,
            next_id: self.u32(offset_of!(user::Session, next_id)).load(Ordering::Acquire),
        };
        // The last look after the stop is a complete one: a process may be killed just before it writes that it has
        // changed.
        if self.seen == Some(seen) && !self.stopped {
            return Ok(false);
        }
        let snapshot = self.app.snapshot()?;
        self.app.learn(&snapshot)?;
        let grown = self.ids.learn(self.app.pid(), self.slot, &snapshot.states)?;
        self.seen = Some(seen);
        Ok(grown)
    }

    /// Writes the heartbeat, the process' control group and the conversion of its clock when they are due. Returns when
    /// to call this again.
    ///
    /// # Errors
    /// [`Error::SlotTaken`]: the heartbeat was late, and the process gave the slot to another session.
    pub fn tick(&mut self, clock: &Clock) -> Result<Instant, Error> {
        if self.heartbeat.is_near(self.time.now()) {
            self.beat()?;
        }
        if self.clock.is_near(self.time.now()) {
            self.check_slot()?;
            self.publish(clock);
        }
        Ok(self.heartbeat.at().min(self.clock.at()))
    }

    /// Disables the tracepoints. Recorded data stay in the channel. A second call does nothing.
    ///
    /// # Errors
    /// [`Error::SlotTaken`], or an error after which no tracepoint of this session is enabled either. If the code of
    /// the process is not restored soon, [`release`](Self::release) returns the result.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.stop_and(true)
    }

    fn stop_and(&mut self, wait: bool) -> Result<(), Error> {
        if std::mem::replace(&mut self.stopped, true) {
            return Ok(());
        }
        self.check_slot()?;
        let settled = self.settle(wait);
        let late = self.patching.take().map(|_| Error::Stuck { pid: self.app.pid() });
        self.problems.extend(settled.err().into_iter().chain(late).chain(self.unpatched.take()));
        let memory = self.app.memory();
        // The store is right without the lock as well: see switch_off(). Do not wait for the lock, since the process
        // may hold it for ever, and so may a thousand others.
        let lock = memory.try_lock();
        self.u32(offset_of!(user::Session, status)).store(user::SESSION_ENDING, Ordering::SeqCst);
        let left = std::mem::take(&mut self.left_enabled);
        let restoring = switch_off(&self.app, self.slot, left);
        drop(lock);
        self.restoring = restoring?;
        self.restored(wait).unwrap_or(Ok(()))
    }

    /// Returns the result of restoring the code, `None` while that is in progress. With `wait`, waits a short time for
    /// the end.
    fn restored(&mut self, wait: bool) -> Option<Result<(), Error>> {
        let Some(errand) = &self.restoring else { return Some(Ok(())) };
        let Some(answer) = (if wait { errand.wait() } else { errand.answer() }) else {
            errand.leave();
            return None;
        };
        self.restoring = None;
        Some(match answer {
            // The process enabled its own sites, and we may not undo that: its sites find no session, at some cost.
            Err(error) if error.is_denied() => Ok(()),
            answer => answer,
        })
    }

    /// Frees slot and channel. Call this after the last packet was read.
    ///
    /// # Errors
    /// As [`stop`](Self::stop); [`Error::Stuck`], [`Error::System`].
    pub fn release(self) -> Result<(), Error> {
        self.release_and(true)
    }

    /// Releases the session without waiting until the code of the process is restored.
    ///
    /// # Errors
    /// As of [`release`](Self::release).
    pub fn release_at_once(self) -> Result<(), Error> {
        self.release_and(false)
    }

    fn release_and(mut self, wait: bool) -> Result<(), Error> {
        let was_stopped = self.stopped;
        let stopped = self.stop_and(wait);
        let released = self.give_back();
        let restored = match self.restored(wait) {
            None if was_stopped || wait => Err(Error::Stuck { pid: self.app.pid() }),
            // The caller did not want to wait.
            None => Ok(()),
            Some(restored) => restored,
        };
        stopped.and(released).and(restored)
    }

    /// Drops the session and leaves it as it is in the process, so that another tracer can take over all of it.
    pub fn leave(mut self) {
        (self.stopped, self.released) = (true, true);
    }

    fn give_back(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.released, true) {
            return Ok(());
        }
        self.channel = None;
        self.check_slot()?;
        let memory = self.app.memory();
        let _lock = memory.try_lock();
        free(&self.app, self.slot, (self.place.1 > self.place.0).then_some(self.place))
    }
}

impl Drop for AppSession {
    fn drop(&mut self) {
        // There is nobody to report errors to; a process that has ended needs neither.
        let _ = self.stop();
        let _ = self.give_back();
    }
}

/// Returns an error if a thread that libstrata has not counted is in seccomp's strict mode: its first record would kill
/// it.
fn refuse_strict(app: &Application) -> Result<(), Error> {
    let pid = app.pid();
    let found = strict_threads(pid)
        .map_err(|source| failed(pid, "looking at its threads' modes", source))?;
    let known = app.threads_without_clock();
    match found > known && app.is_alive() {
        true => Err(Error::Strict { pid, found, known }),
        false => Ok(()),
    }
}

/// Returns the largest size of a channel of this session, with streams for all possible CPUs \[byte\].
fn channel_limit(app: &Application, spec: &SessionSpec) -> Result<u64, Error> {
    let attr = Attr {
        loss_mode: spec.loss_mode,
        publish: match app.publish() {
            ring::BY_COMMIT => Publish::ByCommit,
            _ => Publish::ByPosition,
        },
        subbuf_bytes: spec.subbuf_bytes,
        nr_subbufs: spec.nr_subbufs,
        nr_cpus: possible_cpus(),
        start_position: 0,
    };
    let bytes = channel_bytes(&attr);
    let bytes = bytes.map_err(|source| Error::Channel { pid: app.pid(), source })?;
    Ok(to_pages(bytes).unwrap_or(bytes))
}

/// Counts the process towards the quota of its user.
fn share(app: &Application) -> Result<Share, Error> {
    let mut share = Share::new(app.memory().owner.uid);
    share.take_process(app.pid()).map(|()| share)
}

#[cfg(test)]
mod tests;
