//! One session in one process: its slot, its channel, and which tracepoints are on.

use std::mem::offset_of;
use std::sync::atomic::{fence, Ordering};
use std::time::{Duration, Instant};

use strata_abi::{ring, user};
use strata_model::EventClass;
use strata_ring::{channel_bytes, Attr, Channel, LossMode, Mapping, Publish};

use crate::application::{possible_cpus, Application};
use crate::asking::{may_ask, Errand};
use crate::clock::{Clock, Publisher};
use crate::context::EventContexts;
use crate::error::Error;
use crate::filter::Program;
use crate::group;
use crate::ids::Ids;
use crate::ledger::Share;
use crate::memory::{session, state, to_pages, Lock};
use crate::process::{failed, is_ending, named_threads, strict_threads, Writers};
use crate::sites::{set_opcodes, Cause, Code, Failure};
use crate::spec::{HeaderChoice, RecordFormat, SessionCounters, SessionSpec};
use crate::states::Snapshot;

mod change;
mod due;
mod slots;
mod switching;

pub use change::Differs;

use due::Due;
use slots::{claim, first_fit, free, start_position, SlotCopy};
use switching::{enabled, patches, restore, switch_off};

/// Record headers are compact up to this many tracepoints: then no id needs the extended form.
const COMPACT_MAX: usize = 31;

/// The provider and the name of libstrata's own tracepoint: a thread has a new name.
const THREAD_NAME: (&[u8], &[u8]) = (b"strata", b"thread_name");

/// How often a process learns that its tracer lives.
const HEARTBEAT: Duration = Duration::from_millis(250);

/// A generation that no session had before.
#[must_use]
pub fn new_generation() -> u64 {
    let mut bytes = [0; 8];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    match (filled, u64::from_ne_bytes(bytes)) {
        (Ok(8), generation) if generation != 0 => generation,
        // A kernel without it: the time differs as well, if not as safely.
        _ => Clock::monotonic_ns() | 1,
    }
}

/// A session in a process. Dropping it switches it off and gives the memory back.
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
    /// Its place among its user's processes.
    _share: Share,
    seen: Option<ChangeMarks>,
    /// Its code is being written.
    patching: Option<Errand<Vec<Failure>>>,
    /// Its code could not be written for now, for this reason.
    unpatched: Option<Error>,
    /// It has said that it cannot write to its code itself. What it says afterwards changes nothing.
    needs_us: bool,
    /// What was there when its code was last written.
    patched: Option<ChangeMarks>,
    /// Its code is being written as it was.
    restoring: Option<Errand<()>>,
    /// Tracepoints that are off, and whose code is still as if they were on.
    left_armed: Vec<u32>,
    /// Threads that may still be writing to it, after another session has taken its place.
    writers: Option<Writers>,
    publisher: Publisher,
    clock: Due,
    heartbeat: Due,
    problems: Vec<Error>,
    stopped: bool,
    released: bool,
}

/// What tells that nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChangeMarks {
    generation: u64,
    nr_states: u32,
    next_id: u32,
}

impl AppSession {
    /// Starts a session in a process: slot, channel, rules, then the tracepoints that these select.
    ///
    /// Tracepoints of objects that are loaded later are switched on by the process itself.
    ///
    /// # Errors
    /// Why it cannot be; the process is then as it was. [`Error::Locked`]: somebody holds the memory at this
    /// moment, perhaps another tracer: try again soon.
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

    /// The same, without waiting until the process' code is written: others can be started meanwhile. Call
    /// [`finish_start`](Self::finish_start) soon.
    ///
    /// # Errors
    /// As of [`start`](Self::start).
    pub fn start_soon(
        app: &Application,
        spec: &SessionSpec,
        clock: &Clock,
    ) -> Result<AppSession, Error> {
        let (mut session, lock) = AppSession::prepared(app, spec, clock, 0)?;
        // Sequentially consistent, as the process' look at it after it has described an object: either it
        // sees the session, or we see the object.
        session
            .u32(offset_of!(user::Session, status))
            .store(user::SESSION_ACTIVE, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        drop(lock);
        session.switch_on(spec)?;
        session.learn()?;
        // A name that is given from here on is a record.
        if spec.vtid {
            session.name_threads();
        }
        Ok(session)
    }

    /// A session with slot, channel, rules and ids, in which nothing is on; `replaces`: in the place of this one.
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
        let slot = claim(app, generation, &lock)?;
        let mut session = AppSession::new(app, slot, generation, share);
        (session.format.vtid, session.format.contexts) = (spec.vtid, spec.contexts);
        // From here on dropping it gives the slot back.
        let selected = session.selected(&snapshot, spec);
        session.format.large_header = match spec.header {
            HeaderChoice::Auto => selected.len() > COMPACT_MAX,
            HeaderChoice::Compact => false,
            HeaderChoice::Large => true,
        };
        session.write_slot(spec)?;
        session.tell_group();
        session.u64(offset_of!(user::Session, replaces)).store(replaces, Ordering::Relaxed);
        session.make_channel(spec)?;
        session.clock = Due::after(session.publisher.publish(memory, clock));
        for index in selected {
            session.give_id(index);
        }
        Ok((session, lock))
    }

    /// Waits for the code that [`start_soon`](Self::start_soon) has had written, if that takes no longer than it may.
    /// What could not be switched on is one of the [`problems`](Self::problems).
    pub fn finish_start(&mut self) {
        if let Err(error) = self.settle(true) {
            self.problems.push(error);
        }
    }

    /// Takes over the session of this generation that the process has made itself: it was started with
    /// [`Launch::environment`](crate::Launch::environment), or is a child of such a process.
    ///
    /// # Errors
    /// [`Error::NotArmed`]: there is none; [`Error::NoBuffers`]: since it could not make it. [`Error::Channel`], [`Error::Value`]: its memory is damaged.
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
                None => Error::NotArmed { pid, generation },
            });
        };
        let size = memory.size()?;
        let place = copy.place(size).ok_or(Error::Value {
            pid,
            what: "the place of a session's channel",
            found: copy.offset,
            limit: size,
        })?;
        // Not more of our address space than what was asked for takes.
        let (found, limit) = (place.1 - place.0, channel_limit(app, spec)?);
        if found > limit {
            let what = "its channel's size";
            return Err(Error::Value { pid, what, found, limit });
        }
        let channel = Mapping::new(memory.fd(), place.0, place.1 - place.0)
            .and_then(Channel::open)
            .map_err(|source| Error::Channel { pid, source })?;
        // As we have asked for it: packets are copied, and shall take no more of us than those of others.
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
        let mut session = AppSession::new(app, slot, generation, share(app)?);
        session.format.large_header = copy.flags & user::SESSION_LARGE_HEADER != 0;
        // As we have asked for it: a process that writes otherwise makes its own records unreadable.
        session.format.vtid = spec.vtid;
        session.place = place;
        session.channel = Some(channel);
        match session.take_up(clock) {
            // What it has recorded stays: it may be tried again.
            Err(error) if !app.is_alive() => {
                session.leave();
                Err(error)
            }
            taken => taken.map(|()| session),
        }
    }

    fn take_up(&mut self, clock: &Clock) -> Result<(), Error> {
        // What was asked for when the slot was made: it may have been something else.
        self.format.contexts = self.slot_contexts()?;
        self.beat()?;
        self.clock = Due::after(self.publisher.publish(self.app.memory(), clock));
        match self.update().and_then(|_| self.settle(true)) {
            // Nothing can be switched on in it any more, but what it has recorded can be read.
            Err(error) if error.is_gone() && self.seen.is_some() => Ok(()),
            done => done,
        }
    }

    /// The contexts that the slot says its records have.
    fn slot_contexts(&self) -> Result<EventContexts, Error> {
        let nr = self.u32(offset_of!(user::Session, nr_contexts)).load(Ordering::Relaxed);
        let at = session(self.slot) + offset_of!(user::Session, contexts);
        let numbers = self.app.memory().read(at as u64, user::CONTEXTS_MAX as usize)?;
        EventContexts::of_slot(nr, &numbers).ok_or(Error::Value {
            pid: self.app.pid(),
            what: "the number of a session's contexts, or one of them",
            found: nr.into(),
            limit: user::CONTEXTS_MAX.into(),
        })
    }

    /// Switches on in a process that was forked while [`start`](Self::start) was at work in its parent:
    /// the session it has inherited may be on in part only, or not at all.
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

    fn new(app: &Application, slot: u32, generation: u64, share: Share) -> AppSession {
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
            left_armed: Vec::new(),
            writers: None,
            publisher: Publisher::new(slot),
            clock: Due::after(Duration::ZERO),
            heartbeat: Due::after(HEARTBEAT),
            problems: Vec::new(),
            stopped: false,
            released: false,
        }
    }

    /// The process.
    #[must_use]
    pub fn application(&self) -> &Application {
        &self.app
    }

    /// Its place among the sessions of the process.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// Unlike that of any session before.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Record headers are large, else compact.
    #[must_use]
    pub fn large_header(&self) -> bool {
        self.format.large_header
    }

    /// What is in front of each record's payload.
    #[must_use]
    pub fn format(&self) -> RecordFormat {
        self.format
    }

    /// The threads, by their ids in their PID namespace, that had a name of their own when the session began.
    #[must_use]
    pub fn named_threads(&self) -> &[(u32, String)] {
        &self.named_threads
    }

    /// The channel, once: for whoever reads it. It may be used until [`release`](Self::release).
    pub fn take_channel(&mut self) -> Option<Channel> {
        self.channel.take()
    }

    /// What its channel takes, until somebody has [taken](Self::take_channel) that \[byte\].
    #[must_use]
    pub fn channel_bytes(&self) -> u64 {
        self.channel.as_ref().map_or(0, Channel::mapped_bytes)
    }

    /// The kinds of event records so far, in order of their ids; each is made when it is asked for.
    pub fn events(&self) -> impl Iterator<Item = EventClass> + '_ {
        self.ids.iter().filter_map(|(id, index)| {
            let description = self.app.described().description(index)?;
            Some(EventClass { id: id.into(), ..description.event })
        })
    }

    /// Tracepoints that were ever on in this session: so many kinds of event records there are.
    #[must_use]
    pub fn nr_selected(&self) -> usize {
        self.ids.len()
    }

    /// What the process counts beside the channel.
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

    /// Tracepoints that could not be switched on since this was last asked; the session goes on without.
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

    /// The slot is still ours.
    fn check_slot(&self) -> Result<(), Error> {
        let found = self.u64(offset_of!(user::Session, generation)).load(Ordering::Acquire);
        if found == self.generation {
            return Ok(());
        }
        let (pid, slot) = (self.app.pid(), self.slot);
        let silent_ms = u64::try_from(self.heartbeat.elapsed().as_millis()).unwrap_or(u64::MAX);
        Err(Error::SlotTaken { pid, slot, found, wanted: self.generation, silent_ms })
    }

    fn beat(&mut self) -> Result<(), Error> {
        self.check_slot()?;
        let now = Clock::monotonic_ns();
        self.u64(offset_of!(user::Session, heartbeat_ns)).store(now, Ordering::Relaxed);
        self.tell_group();
        self.heartbeat = Due::after(HEARTBEAT);
        Ok(())
    }

    /// Tells a process whose records have it in which control group it is now: nobody else follows where it is moved to.
    /// One that is not seen from here says it itself, as it was when it began to record.
    fn tell_group(&self) {
        if !self.format.contexts.has_group() {
            return;
        }
        let found = group::of(self.app.pid());
        // The number was its own if it still is.
        if let Some(found) = found.filter(|_| self.app.is_alive()) {
            self.u64(offset_of!(user::Session, cgroup_id)).store(found, Ordering::Relaxed);
        }
    }

    /// Which tracepoints that are there now the rules select.
    fn selected(&self, snapshot: &Snapshot, spec: &SessionSpec) -> Vec<u32> {
        let states = (0..).zip(&snapshot.states).filter(|(_, state)| state.is_present());
        let selects = |index: &u32| self.selects(*index, spec) == Some(true);
        states.map(|(index, _)| index).filter(selects).collect()
    }

    /// Gives a tracepoint an id in this session, unless the process has just done so.
    fn give_id(&self, index: u32) {
        let ids = state(index) + offset_of!(user::State, ids) + 2 * self.slot as usize;
        let id = self.app.memory().u16(ids);
        if id.load(Ordering::Acquire) != user::NO_ID {
            return;
        }
        let next = self.u32(offset_of!(user::Session, next_id)).fetch_add(1, Ordering::Relaxed);
        if let Ok(next) = u16::try_from(next) {
            // RELEASE pairs with the process' ACQUIRE. If it was quicker, the number stays unused.
            let _ = id.compare_exchange(user::NO_ID, next, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Everything in the slot but the channel's place and the status.
    fn write_slot(&self, spec: &SessionSpec) -> Result<(), Error> {
        let mut flags = 0;
        for (flag, set) in [
            (user::SESSION_INHERIT, spec.inherit),
            (user::SESSION_LARGE_HEADER, self.format.large_header),
            (user::SESSION_VTID, self.format.vtid),
            (user::SESSION_OVERWRITE, spec.loss_mode == LossMode::Overwrite),
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
            (offset_of!(user::Session, heartbeat_ns), Clock::monotonic_ns()),
        ] {
            self.u64(field).store(value, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes room for a channel between the others, and an empty channel in it. Under the lock.
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
        // Only zeros are a channel's beginning, and what a former session left is none.
        memory.punch(begin, end - begin)?;
        self.place = (begin, end);
        let mapping = Mapping::new(memory.fd(), begin, end - begin).map_err(error)?;
        self.channel = Some(Channel::format(mapping, &attr).map_err(error)?);
        self.u64(offset_of!(user::Session, channel_offset)).store(begin, Ordering::Relaxed);
        self.u64(offset_of!(user::Session, channel_bytes)).store(end - begin, Ordering::Relaxed);
        Ok(())
    }

    /// Switches on what the rules select, and what has been loaded since we first looked.
    fn switch_on(&mut self, spec: &SessionSpec) -> Result<(), Error> {
        let snapshot = self.app.snapshot()?;
        self.app.learn(&snapshot)?;
        let selected = self.selected(&snapshot, spec);
        for index in &selected {
            self.give_id(*index);
            // RELEASE: who sees the bit sees the id.
            enabled(&self.app, *index).fetch_or(self.bit(), Ordering::Release);
        }
        self.patch(&snapshot, selected)
    }

    /// Has the sites of these tracepoints switched on, where that is ours to do. What becomes of it,
    /// [`settle`](Self::settle) says.
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
            // It may have taken long.
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

    /// Hears what became of the last [`patch`](Self::patch); `wait`: if it is soon done, after that.
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

    /// Has sites switched on that are not so yet: where the process cannot do it itself, or we could not before.
    fn patch_again(&mut self) -> Result<(), Error> {
        match self.settle(false) {
            Err(error) if !error.is_gone() => self.problems.push(error),
            settled => settled?,
        }
        self.needs_us |= self.app.arm_errno() != 0;
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

    /// Looks for tracepoints that were loaded or switched on since the last time, and has those switched on that
    /// the process cannot switch on itself. True: there are more [`events`](Self::events). Costs next to nothing
    /// if the process has not changed, and never waits for it.
    ///
    /// # Errors
    /// The process' memory is damaged: nothing more can be learnt of it.
    pub fn update(&mut self) -> Result<bool, Error> {
        let grown = self.learn()?;
        if !self.stopped {
            self.patch_again()?;
        }
        Ok(grown)
    }

    /// The same without switching on.
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
        // The last look is a whole one: a process may be killed just before it says that it has changed.
        if self.seen == Some(seen) && !self.stopped {
            return Ok(false);
        }
        let snapshot = self.app.snapshot()?;
        self.app.learn(&snapshot)?;
        let grown = self.ids.learn(self.app.pid(), self.slot, &snapshot.states)?;
        self.seen = Some(seen);
        Ok(grown)
    }

    /// Says that we live, in which control group the process is, and keeps its clock right. Returns when to call this again.
    ///
    /// # Errors
    /// [`Error::SlotTaken`]: we had not moved for too long.
    pub fn tick(&mut self, clock: &Clock) -> Result<Instant, Error> {
        if self.heartbeat.is_near() {
            self.beat()?;
        }
        if self.clock.is_near() {
            self.check_slot()?;
            self.clock = Due::after(self.publisher.publish(self.app.memory(), clock));
        }
        Ok(self.heartbeat.at().min(self.clock.at()))
    }

    /// Switches off. What was recorded is still in the channel. Does nothing the second time.
    ///
    /// # Errors
    /// [`Error::SlotTaken`], or what else makes sure that nothing of ours is on any more. Of code that does not
    /// answer soon, [`release`](Self::release) says what became of it.
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
        // Without the lock, should somebody hold it, it is right too: see switch_off(). Nobody waits for it
        // here, since the process may hold it for ever, and so may a thousand others.
        let lock = memory.try_lock();
        self.u32(offset_of!(user::Session, status)).store(user::SESSION_ENDING, Ordering::SeqCst);
        let left = std::mem::take(&mut self.left_armed);
        let restoring = switch_off(&self.app, self.slot, left);
        drop(lock);
        self.restoring = restoring?;
        self.restored(wait).unwrap_or(Ok(()))
    }

    /// What became of the code, if that is known. `wait`: if it is known soon, then.
    fn restored(&mut self, wait: bool) -> Option<Result<(), Error>> {
        let Some(errand) = &self.restoring else { return Some(Ok(())) };
        let Some(answer) = (if wait { errand.wait() } else { errand.answer() }) else {
            errand.leave();
            return None;
        };
        self.restoring = None;
        Some(match answer {
            // It armed itself, and we may not undo it: the sites find nothing to do, at some cost.
            Err(error) if error.is_denied() => Ok(()),
            answer => answer,
        })
    }

    /// Gives slot and channel back, after the last packet was read.
    ///
    /// # Errors
    /// As [`stop`](Self::stop); [`Error::Stuck`], [`Error::System`].
    pub fn release(self) -> Result<(), Error> {
        self.release_and(true)
    }

    /// The same, without waiting until the code of one that is not stopped is as it was.
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
            // It was not waited for.
            None => Ok(()),
            Some(restored) => restored,
        };
        stopped.and(released).and(restored)
    }

    /// Leaves it as it is in the process: whoever takes it over next finds all of it.
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
        // Nobody is there to tell; a process that has ended needs neither.
        let _ = self.stop();
        let _ = self.give_back();
    }
}

/// A thread in seccomp's strict mode that libstrata does not know of would die of its first record.
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

/// What a channel of this session takes at most, with streams for all CPUs that can be. \[byte\]
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

/// A place among the processes of its user.
fn share(app: &Application) -> Result<Share, Error> {
    let mut share = Share::new(app.memory().owner.uid);
    share.take_process(app.pid()).map(|()| share)
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
