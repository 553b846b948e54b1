//! A process that can be traced, through the memory that it shares.
//!
//! An [`Application`] is a held process identity ([`Process`]) and a mapping of the memfd that the process made
//! (`abi/include/strata/abi/user.h`). There are three ways to get one, all of which check that the memory is the process'
//! own before it is believed:
//!
//! ```text
//! open()            a number, and a descriptor got from /proc/PID/fd          a search, `find.rs`
//! all_announced()   a message with the memfd, and its sender by the kernel    `announcement.rs`
//! all_stored()   memory that somebody held for a process that has ended    a session that is made again
//! ```
//!
//! # What is believed
//! Two things are known about a process: what the kernel says (pid, user, name, whether it lives: [`Identity`]) and what
//! it claims in its memory (its inner pid, its parent, its start, its tracepoints). A comment that says "claims" marks
//! the second kind. Claims select what is recorded of the process itself; they never decide for another process, and
//! never lead to memory outside of the mapping. Bytes are copied and then checked ([`ProgramMemory`]); descriptions are
//! parsed from the copy (`descriptions.rs`).
//!
//! # Cost and blocking
//! Questions by number may block for as long as the process' user likes, so lists of them are asked in other threads
//! (`blocking_queries.rs`), and `meanwhile` is called so that a caller can keep other processes alive. An application is cheap to
//! clone; the mapping and the pidfd are released with the last clone.
//!
//! docs/design/user.md has the invariants, docs/design/threats.md who may do what.

use std::mem::offset_of;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strata_abi::{ring, user};
use strata_model::{text_from_bytes, EventClass};

use crate::attach::clock::Clock;
use crate::attach::process_code::ProcessCode;
use crate::attach::shared_memory::{u32_in, u64_in, ProgramMemory};
use crate::decide::event_rules::{Rule, Rules};
use crate::discover::announcement::Sender;
use crate::discover::memory_link::refusal;
use crate::error::Error;
use crate::processes::blocking_queries::{ask_all, Door, PATIENCE};
use crate::processes::exit_status::{outcome, Outcome};
use crate::processes::identity::{shown, Identity};
use crate::processes::process::{failed, Process, Status};
use crate::read::descriptions::Described;
use crate::read::tracepoint_states::{nr_states, Snapshot, TracepointState};

/// A process that can be traced. Clones refer to the same one.
#[derive(Clone, Debug)]
pub struct Application {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    memory: ProgramMemory,
    process: Process,
    code: Arc<ProcessCode>,
    identity: Identity,
    described: Mutex<Described>,
    name: String,
    said_name: String,
    inner_pid: u32,
    parent_pid: u32,
    publish: u32,
    nr_cpus: u32,
    started_ns: u64,
}

/// The contents of a process's announcement.
#[derive(Clone, Debug)]
pub struct Announced {
    /// Memory file that the process shares.
    pub fd: Arc<OwnedFd>,
    /// Sender of the announcement.
    pub sender: Sender,
}

/// The memory of a process that has ended, as another program has kept it since.
#[derive(Clone, Debug)]
pub struct StoredMemory {
    /// Memory file that the process shared.
    pub fd: Arc<OwnedFd>,
    /// Process id that the process had.
    pub pid: u32,
    /// Identity that the kernel reported when the memory was stored.
    pub identity: Identity,
}

/// A tracepoint, as its process describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracepoint {
    /// Number of the tracepoint in the process.
    pub index: u32,
    /// Provider, name, level and fields; `id` is the number in the process.
    pub event: EventClass,
    /// Source file that defines the tracepoint.
    pub file: String,
    /// Line in the source file.
    pub line: u32,
    /// Number of sites in the code; 0 if there is nothing to patch.
    pub sites: u32,
    /// Bit s is set while the tracepoint is enabled for the session in slot s.
    pub enabled: u32,
    /// True if the object with the tracepoint is loaded.
    pub present: bool,
    /// True if the sites test a flag in memory. Such sites are never patched from outside.
    pub by_flag: bool,
}

impl Tracepoint {
    /// Log level of the tracepoint, 0 (most severe) to 14.
    #[must_use]
    pub fn level(&self) -> u8 {
        self.event.loglevel.unwrap_or(0)
    }
}

/// Returns the status of a session, from a copy of its slot.
fn status_in(slot: &[u8]) -> u32 {
    u32_in(slot, offset_of!(user::Session, status))
}

/// Number of CPUs that this machine can have, which is the most streams that a channel may have.
#[must_use]
pub fn possible_cpus() -> u32 {
    use std::sync::OnceLock;
    static CPUS: OnceLock<u32> = OnceLock::new();
    *CPUS.get_or_init(|| {
        let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
        let last = text.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<u32>().ok());
        last.map_or(ring::NR_STREAMS_MAX, |last| last.saturating_add(1).min(ring::NR_STREAMS_MAX))
    })
}

/// Queries the kernel about a held process. The result is empty if the process no longer has its number.
fn look_at(process: &Process) -> Result<(Status, Identity), Error> {
    let status = Status::read(process.pid)
        .map_err(|source| failed(process.pid, "looking at it", source))?
        .unwrap_or_default();
    let identity = Identity::of(process, &status);
    Ok((status, identity))
}

/// Returns whether a process with this status can have created memory that belongs to the user `owner`. Memory of
/// root is accepted, since the process may have been root before.
pub(crate) fn is_own(owner: u32, status: &Status) -> bool {
    owner == 0 || status.uids.contains(&owner)
}

impl Application {
    /// Takes over the memory that process `pid` (in our namespace) shares through `fd`. The caller must have got `fd`
    /// in a way that makes sure that it belongs to this process. For processes that have announced themselves, use
    /// [`announced`](Self::announced).
    ///
    /// The process may have ended; its records remain. The memory is hostile: it is mapped only if nobody can shorten
    /// it, and every value is copied, then checked.
    ///
    /// # Errors
    /// The process cannot be traced; [`Error::Refused`] if the process has written that to `fd` itself.
    pub fn open(fd: OwnedFd, pid: u32) -> Result<Application, Error> {
        let process = Process::hold(pid)?;
        let (_, identity) = look_at(&process)?;
        match refusal(fd.as_fd(), &process) {
            Some(error) => Err(error),
            None => Application::of_process(fd.as_fd(), process, identity),
        }
    }

    /// Takes over the memory that came with an announcement, if the kernel confirms that the memory belongs to the
    /// sender. For a sender that has ended since, there is no confirmation, and its process id is not used.
    ///
    /// # Errors
    /// [`Error::NotItsOwn`], [`Error::Held`], and as [`open`](Self::open).
    pub fn announced(fd: OwnedFd, sender: &Sender) -> Result<Application, Error> {
        let one = Announced { fd: Arc::new(fd), sender: sender.clone() };
        let pid = sender.pid();
        Application::all_announced(vec![one], &mut || ()).pop().unwrap_or(Err(Error::Gone { pid }))
    }

    /// Examines many announcements, each like [`announced`](Self::announced). `meanwhile` is called every few
    /// milliseconds until all are examined.
    ///
    /// # Errors
    /// For each announcement, those of [`announced`](Self::announced).
    pub fn all_announced(
        all: Vec<Announced>,
        meanwhile: &mut dyn FnMut(),
    ) -> Vec<Result<Application, Error>> {
        let questions = all.into_iter().map(|one| (one.sender.pid(), one)).collect();
        let look = |Announced { fd, sender }: Announced, door: &Door<'_>| {
            door.enter(sender.uid())?;
            Application::announced_here(fd.as_fd(), &sender)
        };
        let meanwhile = &mut |_| {
            meanwhile();
            ControlFlow::Continue(())
        };
        ask_all(questions, PATIENCE, look, meanwhile).all
    }

    /// Takes over the memory of each of these processes, without using their process ids. `meanwhile` is called every
    /// few milliseconds until that is done.
    ///
    /// # Errors
    /// For each process, those of [`open`](Self::open).
    pub fn all_stored(
        all: Vec<StoredMemory>,
        meanwhile: &mut dyn FnMut(),
    ) -> Vec<Result<Application, Error>> {
        let questions = all.into_iter().map(|one| (one.pid, one)).collect();
        let look = |StoredMemory { fd, pid, identity }: StoredMemory, door: &Door<'_>| {
            let owner = || rustix::fs::fstat(&fd).map(|status| status.st_uid);
            let uid = identity.uid.map_or_else(owner, Ok);
            door.enter(
                uid.map_err(|code| failed(pid, "looking at its shared memory", code.into()))?,
            )?;
            Application::of_process(fd.as_fd(), Process::ended(pid), identity)
        };
        let meanwhile = &mut |_| {
            meanwhile();
            ControlFlow::Continue(())
        };
        ask_all(questions, PATIENCE, look, meanwhile).all
    }

    fn announced_here(fd: BorrowedFd<'_>, sender: &Sender) -> Result<Application, Error> {
        let process = sender.process()?;
        let (pid, (status, identity)) = (sender.pid(), look_at(&process)?);
        if let Some(error) = refusal(fd, &process) {
            return Err(error);
        }
        let seen = identity.inner_pid;
        // Its identity at the time when it sent the message.
        let identity = Identity { uid: Some(sender.uid()), gid: Some(sender.gid()), ..identity };
        let app = Application::of_process(fd, process, identity)?;
        if let Some(inner) = seen {
            let (said, owner) = (app.inner_pid(), app.memory().owner.uid);
            if said != inner || !(owner == sender.uid() || is_own(owner, &status)) {
                return Err(Error::NotItsOwn { pid, inner, said, owner, uid: sender.uid() });
            }
        }
        Ok(app)
    }

    /// Creates the application for a process. `process` was held before its identity was examined.
    pub(crate) fn of_process(
        fd: BorrowedFd<'_>,
        process: Process,
        identity: Identity,
    ) -> Result<Application, Error> {
        let pid = process.pid;
        let memory = ProgramMemory::open(fd, pid)?;
        let u32_at = |offset| memory.u32(offset).load(Ordering::Relaxed);
        // ACQUIRE pairs with the process' RELEASE: the values below are complete.
        match memory.u64(offset_of!(user::Control, magic)).load(Ordering::Acquire) {
            user::MAGIC => (),
            0 => return Err(Error::NotReady { pid }),
            found => return Err(Error::Magic { pid, found }),
        }
        match u32_at(offset_of!(user::Control, version)) {
            user::VERSION => (),
            found => return Err(Error::Version { pid, found }),
        }
        let checked = |what, offset, range: std::ops::RangeInclusive<u32>| {
            let found = u32_at(offset);
            if range.contains(&found) {
                return Ok(found);
            }
            let (found, limit) = (found.into(), (*range.end()).into());
            Err(Error::Value { pid, what, found, limit })
        };
        let publish = checked(
            "its way of publishing",
            offset_of!(user::Control, publish),
            0..=ring::BY_POSITION,
        )?;
        let nr_cpus =
            checked("its number of CPUs", offset_of!(user::Control, nr_cpus), 1..=possible_cpus())?;
        let name =
            memory.read(offset_of!(user::Control, name) as u64, user::NAME_BYTES as usize)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let said = match shown(&text_from_bytes(name)) {
            empty if empty.is_empty() => "?".to_owned(),
            name => name,
        };
        let started_ns = memory.u64(offset_of!(user::Control, started_ns)).load(Ordering::Relaxed);
        let limit = Clock::monotonic_ns();
        if process.begins_in_the_future(started_ns, limit) {
            let what = "the time of its start";
            return Err(Error::Value { pid, what, found: started_ns, limit });
        }
        // Before the process was held, its number may have been that of another process, which made this memory.
        let process = process.unless_younger(started_ns)?;
        let code = ProcessCode::new(process.clone(), memory.shared_file());
        let inner = Inner {
            name: match (identity.confirms(&said), &identity.comm) {
                // The kernel's name is that of another program: only the process itself knows the name of the one that
                // it was.
                (Some(false), Some(comm)) if !code.has_gone() => comm.clone(),
                _ => said.clone(),
            },
            said_name: said,
            identity,
            inner_pid: u32_at(offset_of!(user::Control, pid)),
            parent_pid: u32_at(offset_of!(user::Control, parent_pid)),
            publish,
            nr_cpus,
            started_ns,
            code: Arc::new(code),
            described: Mutex::new(Described::new(memory.owner.uid)),
            memory,
            process,
        };
        Ok(Application { inner: Arc::new(inner) })
    }

    /// Process id in our namespace.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.inner.process.pid
    }

    /// Short name of the process, without control characters and never empty. It is the name that the process
    /// claims, unless the kernel's names of the process and its program contradict that; otherwise the kernel's
    /// name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Short name that the process itself claims, without control characters and never empty.
    #[must_use]
    pub fn said_name(&self) -> &str {
        &self.inner.said_name
    }

    /// Identity of the process, as the kernel reports it.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    /// Process id in its own namespace, as the kernel reports it; the id in ours if the process ended before that was
    /// read.
    #[must_use]
    pub fn vpid(&self) -> u32 {
        self.inner.identity.inner_pid.unwrap_or_else(|| self.pid())
    }

    /// Inode number of the memory: no other memory has it as long as this value lives.
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.inner.memory.inode
    }

    /// Why the process has not made the session that its environment asks for, as it claims: one of `NO_SESSION_*` in
    /// `strata/abi/announce.h`, and an `errno`. 0 if it has made the session or gives no reason.
    #[must_use]
    pub fn no_session(&self) -> (u32, i32) {
        let load = |offset| self.memory().u32(offset).load(Ordering::Relaxed);
        let code = load(offset_of!(user::Control, no_session_errno));
        (load(offset_of!(user::Control, no_session)), i32::try_from(code).unwrap_or(0))
    }

    /// Process id that the process claims to have in its own namespace.
    #[must_use]
    pub fn inner_pid(&self) -> u32 {
        self.inner.inner_pid
    }

    /// Process id of the parent, if the process claims to be a fork, in its own namespace; otherwise 0.
    #[must_use]
    pub fn parent_pid(&self) -> u32 {
        self.inner.parent_pid
    }

    /// Time at which the process claims to have begun, `CLOCK_MONOTONIC` \[ns\].
    #[must_use]
    pub fn started_ns(&self) -> u64 {
        self.inner.started_ns
    }

    /// Number of streams that a channel of this process needs.
    #[must_use]
    pub fn nr_cpus(&self) -> u32 {
        self.inner.nr_cpus
    }

    /// Returns true if the process publishes records by write position (restartable sequences), false if by commit
    /// counter.
    #[must_use]
    pub fn by_position(&self) -> bool {
        self.inner.publish == ring::BY_POSITION
    }

    /// Number that changes whenever the process loads or unloads an object, such as a library.
    #[must_use]
    pub fn generation(&self) -> u64 {
        // ACQUIRE pairs with the process' RELEASE after it has described the object.
        self.memory().u64(offset_of!(user::Control, generation)).load(Ordering::Acquire)
    }

    /// Number of tracepoints that cannot be recorded, because the process's shared memory had no room
    /// for them.
    ///
    /// # Errors
    /// [`Error::Value`]: more than any program has.
    pub fn refused_tracepoints(&self) -> Result<u32, Error> {
        /// The limit on refused tracepoints. Each takes some 100 bytes of the program's file; the limit is 100 times
        /// the number that fits into its shared memory.
        const LIMIT: u32 = 100 * user::NR_STATES;
        let found = self.memory().u32(offset_of!(user::Control, refused)).load(Ordering::Relaxed);
        if found <= LIMIT {
            return Ok(found);
        }
        let what = "its number of tracepoints without room";
        Err(Error::Value { pid: self.pid(), what, found: found.into(), limit: LIMIT.into() })
    }

    /// `errno` with which the process failed to patch its own sites; 0 if it did not fail.
    #[must_use]
    pub fn patch_errno(&self) -> u32 {
        self.memory().u32(offset_of!(user::Control, patch_errno)).load(Ordering::Relaxed)
    }

    /// Number of threads that have reported to libstrata that they may not read the CPU's counter.
    pub(crate) fn threads_without_clock(&self) -> u32 {
        self.memory().u32(offset_of!(user::Control, without_clock)).load(Ordering::SeqCst)
    }

    /// Descriptor that becomes readable when the process has ended; `None` on kernels before 5.3.
    #[must_use]
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.process.pidfd()
    }

    /// Returns whether the process has not ended.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !self.inner.process.has_ended()
    }

    /// Outcome of the process; `None` while it runs, or if the outcome is unknown: see [`Outcome`].
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        outcome(&self.inner.process)
    }

    /// Generations of the process' active sessions. If the process has ended, sessions follow that their tracers
    /// were about to end.
    #[must_use]
    pub fn session_generations(&self) -> Vec<u64> {
        let mut slots = self.memory().used_slots().unwrap_or_default();
        slots.retain(|(_, slot)| self.has_records(status_in(slot)));
        slots.sort_by_key(|(_, slot)| status_in(slot) != user::SESSION_ACTIVE);
        let generation =
            |(_, slot): (u32, Vec<u8>)| u64_in(&slot, offset_of!(user::Session, generation));
        slots.into_iter().map(generation).filter(|one| *one != 0).collect()
    }

    /// Returns whether a slot with this status may have records that no tracer has read. A living tracer reads
    /// the records of sessions that it ends, but a killed one does not.
    pub(crate) fn has_records(&self, status: u32) -> bool {
        status == user::SESSION_ACTIVE || (status == user::SESSION_ENDING && !self.is_alive())
    }

    /// Generations of sessions that the process was asked to make and could not make, each with the `errno`.
    #[must_use]
    pub fn failed_sessions(&self) -> Vec<(u64, u32)> {
        let failed = |(_, slot): (u32, Vec<u8>)| {
            let code = u32_in(&slot, offset_of!(user::Session, create_errno));
            (status_in(&slot) == user::SESSION_FREE && code != 0)
                .then(|| (u64_in(&slot, offset_of!(user::Session, generation)), code))
        };
        let slots = self.memory().used_slots().unwrap_or_default();
        slots.into_iter().filter_map(failed).collect()
    }

    /// Lists the tracepoints of the process, also those whose object was unloaded.
    ///
    /// # Errors
    /// [`Error::Value`], [`Error::Description`]: its memory is damaged. [`Error::System`].
    pub fn tracepoints(&self) -> Result<Vec<Tracepoint>, Error> {
        let snapshot = self.snapshot()?;
        self.learn(&snapshot)?;
        let described = self.described();
        let tracepoint = |(index, state): (u32, &TracepointState)| {
            let description = described.description(index)?;
            Some(Tracepoint {
                index,
                event: EventClass { id: index, ..description.event },
                file: description.file,
                line: description.line,
                sites: state.nr_sites,
                enabled: state.enabled,
                present: state.is_present(),
                by_flag: state.flags & user::STATE_FLAG != 0,
            })
        };
        Ok((0..).zip(&snapshot.states).filter_map(tracepoint).collect())
    }

    /// Counts the tracepoints of the process, also those of unloaded objects, and adds to `matched`, for each rule,
    /// the number of tracepoints that the rule matches.
    ///
    /// # Errors
    /// As [`tracepoints`](Self::tracepoints).
    pub fn count_matches(&self, rules: &[&Rule], matched: &mut [u64]) -> Result<u64, Error> {
        self.learn(&self.snapshot()?)?;
        let described = self.described();
        for heading in (0..described.len()).filter_map(|index| described.heading(index)) {
            for (rule, matched) in rules.iter().zip(&mut *matched) {
                let is_one = rule.matches(heading.provider, heading.name, heading.level);
                *matched = matched.saturating_add(is_one.into());
            }
        }
        Ok(described.len().into())
    }

    /// Returns true if the rules select a tracepoint of the process, including those of unloaded objects.
    ///
    /// # Errors
    /// As [`tracepoints`](Self::tracepoints).
    pub fn is_selected_by(&self, rules: &Rules) -> Result<bool, Error> {
        self.learn(&self.snapshot()?)?;
        let described = self.described();
        let mut headings = (0..described.len()).filter_map(|index| described.heading(index));
        Ok(headings.any(|one| rules.select(one.provider, one.name, one.level)))
    }

    /// Returns true if one of the process' tracepoints tests a flag in memory instead of being patched.
    ///
    /// # Errors
    /// As [`tracepoints`](Self::tracepoints).
    pub fn sites_by_flag(&self) -> Result<bool, Error> {
        Ok(self.snapshot()?.states.iter().any(|state| state.flags & user::STATE_FLAG != 0))
    }

    /// Descriptor of the process's memory, which another process can keep after this program has ended.
    #[must_use]
    pub fn shared_memory(&self) -> BorrowedFd<'_> {
        self.memory().fd()
    }

    pub(crate) fn memory(&self) -> &ProgramMemory {
        &self.inner.memory
    }

    /// Descriptions that the process has given so far.
    pub(crate) fn described(&self) -> MutexGuard<'_, Described> {
        self.inner.described.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the tracepoint descriptions of a snapshot to those that were read before.
    ///
    /// # Errors
    /// See [`Described::learn`].
    pub(crate) fn learn(&self, snapshot: &Snapshot) -> Result<(), Error> {
        let mut described = self.described();
        described.learn(self.pid(), snapshot, self.nr_states()?)
    }

    pub(crate) fn publish(&self) -> u32 {
        self.inner.publish
    }

    /// Returns the process id and the user id. The user is the real user of the process when it was found or,
    /// if it had ended by then, the owner of its shared memory.
    pub(crate) fn pid_and_user(&self) -> (u32, u32) {
        (self.pid(), self.identity().uid.unwrap_or(self.memory().owner.uid))
    }

    /// The process' code, for reading and writing. It is opened at the first access.
    pub(crate) fn code(&self) -> Arc<ProcessCode> {
        Arc::clone(&self.inner.code)
    }

    /// Number of tracepoint states in the memory so far.
    pub(crate) fn nr_states(&self) -> Result<u32, Error> {
        nr_states(self.memory(), self.pid())
    }

    /// Copies all states, their descriptions and their sites.
    ///
    /// # Errors
    /// See [`Snapshot::read`].
    pub(crate) fn snapshot(&self) -> Result<Snapshot, Error> {
        Snapshot::read(self.memory(), self.pid())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::shared_memory::{may_have_session, session, state};
    use crate::read::description_parser::DescriptionError;
    use crate::testing::{Described, Fake};
    use std::fs::File;

    use rustix::fs::{ftruncate, memfd_create, MemfdFlags};

    fn open(fd: impl Into<OwnedFd>) -> Result<Application, Error> {
        Application::open(fd.into(), std::process::id())
    }

    fn open_fake(fake: &Fake) -> Result<Application, Error> {
        Application::open(fake.fd.try_clone().unwrap(), fake.pid)
    }

    #[test]
    fn open_of_what_is_no_memory_is_refused() {
        let file = File::open("/proc/self/exe").unwrap();
        assert!(matches!(open(file), Err(Error::NotMemory { .. })));
        let (pipe, _writer) = rustix::pipe::pipe().unwrap();
        assert!(matches!(open(pipe), Err(Error::NotMemory { .. })));
        let huge = memfd_create("strata", MemfdFlags::HUGETLB | MemfdFlags::ALLOW_SEALING);
        if let Ok(huge) = huge {
            assert!(matches!(open(huge), Err(Error::NotMemory { .. })));
        }
    }

    #[test]
    fn open_of_memory_that_can_shrink_is_refused() {
        let fd = memfd_create("strata", MemfdFlags::ALLOW_SEALING).unwrap();
        // A process that has only begun is as far.
        assert!(matches!(open(fd.try_clone().unwrap()), Err(Error::NotReady { .. })));
        ftruncate(&fd, user::CHANNELS_OFFSET.into()).unwrap();
        assert!(matches!(open(fd.try_clone().unwrap()), Err(Error::NotReady { .. })));
        rustix::io::pwrite(&fd, &user::MAGIC.to_ne_bytes(), 0).unwrap();
        assert!(matches!(open(fd), Err(Error::NotSealed { found: 0, needed: 2, .. })));
    }

    #[test]
    fn open_of_memory_that_is_too_small_is_refused() {
        let fd = memfd_create("strata", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, u64::from(user::CHANNELS_OFFSET) - 1).unwrap();
        rustix::fs::fcntl_add_seals(&fd, rustix::fs::SealFlags::SHRINK).unwrap();
        let limit = u64::from(user::CHANNELS_OFFSET);
        let found = open(fd);
        assert!(
            matches!(found, Err(Error::TooSmall { found, limit: l, .. }) if found + 1 == limit && l == limit)
        );
    }

    #[test]
    fn open_of_memory_sealed_against_writing_is_refused() {
        let fake = Fake::new();
        let seal = rustix::fs::SealFlags::FUTURE_WRITE;
        rustix::fs::fcntl_add_seals(&fake.fd, seal).unwrap();
        assert!(open_fake(&fake).unwrap_err().is_denied());
    }

    #[test]
    fn open_checks_each_value_of_the_control_page() {
        let refused = |offset, value: u64| {
            let fake = Fake::new();
            match offset == offset_of!(user::Control, magic) {
                true => fake.put_u64(offset, value),
                false => fake.put_u32(offset, value as u32),
            }
            open_fake(&fake).unwrap_err()
        };
        assert!(matches!(refused(offset_of!(user::Control, magic), 0), Error::NotReady { .. }));
        let magic = refused(offset_of!(user::Control, magic), 7);
        assert!(matches!(magic, Error::Magic { found: 7, .. }));
        let version = refused(offset_of!(user::Control, version), (user::VERSION + 1).into());
        assert!(matches!(version, Error::Version { found, .. } if found == user::VERSION + 1));
        assert!(
            version.to_string().contains(&format!("version {}", user::VERSION + 1)),
            "{version}"
        );
        for (offset, value) in [
            (offset_of!(user::Control, publish), 2),
            (offset_of!(user::Control, nr_cpus), 0),
            (offset_of!(user::Control, nr_cpus), u64::from(possible_cpus()) + 1),
        ] {
            let error = refused(offset, value);
            assert!(matches!(error, Error::Value { found, .. } if found == value), "{error}");
        }
    }

    #[test]
    fn open_of_a_process_that_has_ended_gives_what_is_left() {
        let mut fake = Fake::spawned_unseen().described();
        fake.kill();
        let app = fake.open();
        assert!(!app.is_alive());
        assert_eq!(app.tracepoints().unwrap().len(), 3);
        assert_eq!(*app.identity(), Identity::default());
        assert_eq!((app.name(), app.vpid()), ("fake?", fake.pid));
    }

    #[test]
    fn stored_process_is_what_it_was_whoever_has_its_number_now() {
        let fake = Fake::new();
        let fd = Arc::new(fake.fd.try_clone().unwrap());
        let identity = Identity { comm: Some("fake?".to_owned()), ..Identity::default() };
        // This process has the number, and lives.
        let one = StoredMemory { fd, pid: fake.pid, identity: identity.clone() };
        let other = StoredMemory {
            fd: Arc::new(File::open("/proc/self/exe").unwrap().into()),
            ..one.clone()
        };
        let mut found = Application::all_stored(vec![one, other], &mut || ());
        assert!(matches!(found.pop(), Some(Err(Error::NotMemory { .. }))));
        let app = found.pop().unwrap().unwrap();
        assert!(!app.is_alive() && app.outcome().is_none());
        assert_eq!((app.pid(), app.name(), app.identity()), (fake.pid, "fake?", &identity));
        assert_eq!(app.inode(), fake.open().inode());
    }

    #[test]
    fn malicious_time_of_a_start_in_the_future_is_refused() {
        let fake = Fake::new();
        // In an hour, which is the future however late it is looked at.
        for said in [u64::MAX, Clock::monotonic_ns() + 3_600_000_000_000] {
            fake.put_u64(offset_of!(user::Control, started_ns), said);
            let error = open_fake(&fake).unwrap_err();
            assert!(
                matches!(error, Error::Value { what: "the time of its start", found, .. }
                    if found == said),
                "{error}"
            );
        }
    }

    #[test]
    fn application_tells_what_its_process_says() {
        let fake = Fake::new();
        let app = fake.open();
        assert_eq!((app.pid(), app.inner_pid()), (fake.pid, fake.pid));
        // The kernel knows this process by another name.
        assert_eq!((app.said_name(), app.vpid()), ("fake?", fake.pid));
        assert_eq!(Some(app.name()), app.identity().comm.as_deref());
        assert!(!app.by_position() && app.is_alive() && app.pidfd().is_some());
        assert_eq!((app.nr_cpus(), app.parent_pid()), (1, 0));
        assert_eq!(app.refused_tracepoints().unwrap(), 0);
        fake.put_u32(offset_of!(user::Control, refused), u32::MAX);
        let error = app.refused_tracepoints().unwrap_err();
        assert!(matches!(error, Error::Value { found: 0xffff_ffff, .. }), "{error}");
        assert!(app.started_ns() > 0);
        assert_eq!(app.generation(), 0);
        assert!(app.session_generations().is_empty());
    }

    #[test]
    fn name_of_a_process_that_does_another_program_is_the_one_that_it_reported_before() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        // The kernel lets who has started it go on before it has its new name.
        let comm = format!("/proc/{}/comm", child.id());
        while std::fs::read_to_string(&comm).unwrap() != "sleep\n" {
            std::thread::yield_now();
        }
        let fake = Fake::new();
        // As who shared this memory, and has executed another program before anybody looked.
        let app = Application::open(fake.fd.try_clone().unwrap(), child.id()).unwrap();
        assert_eq!((app.name(), app.said_name()), ("fake?", "fake?"));
        assert_eq!(app.identity().comm.as_deref(), Some("sleep"));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn sessions_are_those_of_slots_that_were_written_to_and_looking_takes_no_memory() {
        let fake = Fake::new();
        let app = fake.open();
        let blocks = || rustix::fs::fstat(&fake.fd).unwrap().st_blocks;
        let before = blocks();
        assert!(app.session_generations().is_empty() && app.failed_sessions().is_empty());
        assert_eq!(blocks(), before);
        let put = |slot: u32, status: u32, generation: u32, code: u32| {
            fake.put_u32(session(slot) + offset_of!(user::Session, generation), generation);
            fake.put_u32(session(slot) + offset_of!(user::Session, create_errno), code);
            fake.put_u32(session(slot) + offset_of!(user::Session, status), status);
        };
        put(0, user::SESSION_ACTIVE, 10, 0);
        put(6, user::SESSION_ENDING, 16, 0);
        put(7, user::SESSION_FREE, 17, 28);
        put(user::NR_SESSIONS - 1, user::SESSION_ACTIVE, 41, 0);
        assert_eq!(app.session_generations(), [10, 41]);
        assert_eq!(app.failed_sessions(), [(17, 28)]);
        let may_have =
            |wanted| may_have_session(fake.fd.as_fd(), |generation| generation == wanted);
        assert!([10, 16, 17, 41].into_iter().all(may_have) && !may_have(11));
        // In small pages, each slot has one of its own.
        if blocks() - before == 4 * 8 {
            let slots = app.memory().used_slots().unwrap();
            let numbers: Vec<u32> = slots.iter().map(|(slot, _)| *slot).collect();
            assert_eq!(numbers, [0, 6, 7, user::NR_SESSIONS - 1]);
        }
    }

    #[test]
    fn tracepoints_are_listed_with_what_describes_them() {
        let fake = Fake::with_tracepoints();
        let site = user::Site { address: 16, displacement: 1, reserved: 0 };
        fake.add(&Described::new("app", "patched", 0), 0, &[site, site]);
        let found = fake.open().tracepoints().unwrap();
        let names: Vec<String> = found.iter().map(|t| t.event.full_name()).collect();
        assert_eq!(names, ["app:start", "app:work", "other:thing", "app:patched"]);
        assert_eq!((found[0].level(), found[0].sites, found[0].by_flag), (4, 0, true));
        assert_eq!((found[0].file.as_str(), found[0].line), ("fake.c", 42));
        assert_eq!((found[3].level(), found[3].sites, found[3].by_flag), (0, 2, false));
        assert!(found.iter().all(|t| t.present && t.enabled == 0 && t.event.id == t.index));
        assert!(fake.open().sites_by_flag().unwrap());
    }

    #[test]
    fn tracepoints_outside_of_their_memory_are_refused() {
        let state_field = |field, value| {
            let fake = Fake::with_tracepoints();
            fake.put_u32(state(1) + field, value);
            fake.open().tracepoints().unwrap_err()
        };
        let outside = state_field(offset_of!(user::State, description), u32::MAX);
        assert!(
            matches!(
                outside,
                Error::Description { index: 1, source: DescriptionError::Outside { .. }, .. }
            ),
            "{outside}"
        );
        let short = state_field(offset_of!(user::State, description_bytes), 9);
        assert!(matches!(short, Error::Description { source: DescriptionError::Short { .. }, .. }));
        let sum = state_field(offset_of!(user::State, description_bytes), u32::MAX);
        assert!(matches!(sum, Error::Value { what: "the sum of its descriptions' sizes", .. }));
        let sites = state_field(offset_of!(user::State, nr_sites), u32::MAX);
        assert!(matches!(sites, Error::Value { what: "the number of its sites", .. }));
        let control_field = |field, value| {
            let fake = Fake::with_tracepoints();
            fake.put_u32(field, value);
            fake.open().tracepoints().unwrap_err()
        };
        let many = control_field(offset_of!(user::Control, nr_states), user::NR_STATES + 1);
        assert!(matches!(many, Error::Value { found: 16_385, limit: 16_384, .. }), "{many}");
        let bytes = user::DESCRIPTIONS_BYTES + 1;
        let large = control_field(offset_of!(user::Control, descriptions_bytes), bytes);
        assert!(matches!(large, Error::Value { what: "the size of its descriptions", .. }));
    }
}
