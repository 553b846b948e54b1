//! What the threads of a session tell each other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustix::event::{eventfd, EventfdFlags};
use serde::Serialize;
use strata_collect::Monitor;
use strata_ctf::end_mark::Ending;

use crate::report::{Counts, Demand, Discarded, EndReason, StreamLoss};
use crate::session::budget::Budget;
use crate::session::failure::{advice, failure_text};
use crate::session::lock::lock;
use crate::session::room::Room;

/// Flags and figures; each is written by one thread.
#[derive(Debug)]
pub(crate) struct Shared {
    wake: OwnedFd,
    began: Instant,
    lagged: AtomicBool,
    stopping: AtomicBool,
    failure: Mutex<Option<String>>,
    failed: AtomicBool,
    /// Of each layer.
    layers: Mutex<Vec<Arc<Writing>>>,
    /// Why it stops, if nothing failed.
    ending: Mutex<Ending>,
    nobody_left: AtomicBool,
    moved: AtomicBool,
    came: AtomicU64,
    went: AtomicU64,
    /// Of all layers; it wraps around.
    events: AtomicU64,
    memory: Arc<Budget>,
    /// What holds the trace has no room for more packets.
    must_wait: AtomicBool,
    room: Room,
}

/// How one layer gets on: whether it can write what it records, and what it has recorded.
#[derive(Debug)]
struct Writing {
    name: &'static str,
    failed: AtomicBool,
    /// It failed for want of room.
    is_full: AtomicBool,
    figures: LayerFigures,
    /// Of its fullest buffer \[%\].
    fill: AtomicU8,
    losses: Mutex<LayerLosses>,
}

/// What one layer has not recorded until now.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerLosses {
    pub(crate) discarded: Discarded,
    pub(crate) demand: Demand,
    /// By CPU.
    pub(crate) streams: Vec<StreamLoss>,
}

/// What one layer tells the session; its pump's [`Monitor`].
#[derive(Clone, Debug)]
pub(crate) struct Voice {
    shared: Arc<Shared>,
    writing: Arc<Writing>,
}

/// What a layer, or all of them, have recorded until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figured {
    /// Event records.
    pub records: u64,
    /// Bytes of the trace.
    pub bytes: u64,
    /// Records that were never written.
    pub discarded: u64,
    /// Records that were overwritten before they were read.
    pub overwritten: u64,
}

impl Figured {
    /// Both together.
    pub(crate) fn add(&mut self, other: &Figured) {
        self.records = self.records.saturating_add(other.records);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.discarded = self.discarded.saturating_add(other.discarded);
        self.overwritten = self.overwritten.saturating_add(other.overwritten);
    }
}

/// What one layer has recorded until now.
#[derive(Debug, Default)]
struct LayerFigures {
    records: AtomicU64,
    bytes: AtomicU64,
    discarded: AtomicU64,
    overwritten: AtomicU64,
}

impl LayerFigures {
    fn all(&self) -> [&AtomicU64; 4] {
        [&self.records, &self.bytes, &self.discarded, &self.overwritten]
    }

    fn set(&self, counts: &Counts) {
        let values = [counts.records, counts.bytes, counts.discarded.total(), counts.overwritten];
        for (figure, value) in self.all().into_iter().zip(values) {
            figure.store(value, Ordering::Relaxed);
        }
    }
}

impl Shared {
    /// # Errors
    /// What the system said.
    #[cfg(test)]
    pub(crate) fn new() -> io::Result<Arc<Shared>> {
        Shared::within(Arc::default())
    }

    /// With buffers that are of this memory.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn within(memory: Arc<Budget>) -> io::Result<Arc<Shared>> {
        Ok(Arc::new(Shared {
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            began: Instant::now(),
            lagged: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            failure: Mutex::new(None),
            failed: AtomicBool::new(false),
            layers: Mutex::default(),
            ending: Mutex::new(Ending::Ended),
            nobody_left: AtomicBool::new(false),
            moved: AtomicBool::new(false),
            came: AtomicU64::new(0),
            went: AtomicU64::new(0),
            events: AtomicU64::new(0),
            memory,
            must_wait: AtomicBool::new(false),
            room: Room::default(),
        }))
    }

    /// Readable once the session stops.
    pub(crate) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The session is to stop, for this reason.
    pub(crate) fn stop(&self, why: EndReason) {
        *lock(&self.ending) = match why {
            EndReason::Command | EndReason::Processes => Ending::Ended,
            EndReason::Duration => Ending::Duration,
            EndReason::Asked(_) => Ending::Stopped,
            EndReason::Size { .. } => Ending::Size,
            EndReason::Failure => Ending::Failed,
        };
        self.stopping.store(true, Ordering::Release);
        // It is full only if it was written to before.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// This program has stood still for so long that processes may have taken it for dead.
    pub(crate) fn set_lagged(&self) {
        self.lagged.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_lagged(&self) -> bool {
        self.lagged.load(Ordering::Relaxed)
    }

    /// More records than this cannot have been written by a process with so many streams: one each
    /// nanosecond on every CPU since the session began.
    pub(crate) fn possible_records(&self, streams: u32) -> u64 {
        let each = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        each.saturating_mul(streams.max(1).into())
    }

    /// It cannot go on, for this reason. The first one counts.
    pub(crate) fn fail(&self, why: String) {
        lock(&self.failure).get_or_insert(why);
        self.failed.store(true, Ordering::Release);
    }

    /// A layer of this name is recorded.
    pub(crate) fn add_layer(self: &Arc<Shared>, name: &'static str) -> Voice {
        let writing = Arc::new(Writing {
            name,
            failed: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            figures: LayerFigures::default(),
            fill: AtomicU8::new(0),
            losses: Mutex::default(),
        });
        lock(&self.layers).push(Arc::clone(&writing));
        Voice { shared: Arc::clone(self), writing }
    }

    /// This cannot be written, whatever the layer.
    pub(crate) fn fail_to_write(&self, error: &strata_collect::Error) {
        lock(&self.failure).get_or_insert(format!("{}{}", failure_text(error), advice(error)));
        self.failed.store(true, Ordering::Release);
    }

    /// How the recording ends: as the layer does that ends worst.
    pub(crate) fn ending_of_all(&self) -> Ending {
        let worst =
            lock(&self.layers).iter().map(|one| self.ending(one)).find(|one| one.is_failure());
        let failed = self.has_failed().then_some(Ending::Failed);
        worst.or(failed).unwrap_or(*lock(&self.ending))
    }

    /// How this layer's recording ends of what is recorded until now: as of a process, as long as nothing stops.
    fn ending(&self, layer: &Writing) -> Ending {
        let failed = self.has_failed() || layer.failed.load(Ordering::Acquire);
        match (failed, layer.is_full.load(Ordering::Relaxed)) {
            (false, _) => *lock(&self.ending),
            (true, true) => Ending::NoSpace,
            (true, false) => Ending::Failed,
        }
    }

    /// A layer that cannot write, while another one goes on.
    pub(crate) fn layer_that_failed(&self) -> Option<&'static str> {
        let layers = lock(&self.layers);
        let failed = layers.iter().find(|one| one.failed.load(Ordering::Acquire));
        failed.filter(|_| !self.has_failed()).map(|one| one.name)
    }

    /// The session cannot go on.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    pub(crate) fn set_nobody_left(&self, nobody: bool) {
        self.nobody_left.store(nobody, Ordering::Relaxed);
    }

    pub(crate) fn is_nobody_left(&self) -> bool {
        self.nobody_left.load(Ordering::Relaxed)
    }

    /// The mover has ended: nothing is read any more.
    pub(crate) fn set_moved(&self) {
        self.moved.store(true, Ordering::Release);
    }

    pub(crate) fn is_moved(&self) -> bool {
        self.moved.load(Ordering::Acquire)
    }

    /// The memory of all buffers.
    pub(crate) fn memory(&self) -> &Arc<Budget> {
        &self.memory
    }

    /// Packets stay in the buffers, or are written again.
    pub(crate) fn set_must_wait(&self, must: bool) {
        self.must_wait.store(must, Ordering::Release);
    }

    pub(crate) fn must_wait(&self) -> bool {
        self.must_wait.load(Ordering::Acquire)
    }

    /// On the disk.
    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    pub(crate) fn process_came(&self) {
        self.came.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn process_went(&self) {
        self.went.fetch_add(1, Ordering::Relaxed);
    }

    /// Processes that are being recorded.
    pub(crate) fn processes(&self) -> u64 {
        self.came.load(Ordering::Relaxed).saturating_sub(self.went.load(Ordering::Relaxed))
    }

    /// Events of all layers that have happened, recorded or not. It wraps around: differences count. Each source adds what
    /// it can have; nothing that one of them says hides what others do.
    pub(crate) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Records, bytes, discarded, overwritten of all layers.
    pub(crate) fn counts(&self) -> (u64, u64, u64, u64) {
        let mut sums = [0u64; 4];
        for layer in lock(&self.layers).iter() {
            for (sum, figure) in sums.iter_mut().zip(layer.figures.all()) {
                *sum = sum.saturating_add(figure.load(Ordering::Relaxed));
            }
        }
        (sums[0], sums[1], sums[2], sums[3])
    }
}

impl Voice {
    /// How this layer's recording ends.
    pub(crate) fn ending(&self) -> Ending {
        self.shared.ending(&self.writing)
    }

    /// What it has recorded until now.
    pub(crate) fn figures(&self) -> Figured {
        let [records, bytes, discarded, overwritten] =
            self.writing.figures.all().map(|one| one.load(Ordering::Relaxed));
        Figured { records, bytes, discarded, overwritten }
    }

    /// How full its fullest buffer was when it was last looked at \[%\].
    pub(crate) fn fill(&self) -> u8 {
        self.writing.fill.load(Ordering::Relaxed)
    }

    /// What it has not recorded until now.
    pub(crate) fn losses(&self) -> LayerLosses {
        lock(&self.writing.losses).clone()
    }

    /// What all layers have in common.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Monitor for Voice {
    fn wants_memory(&self) -> bool {
        self.shared.memory.is_short()
    }

    fn must_wait(&self) -> bool {
        self.shared.must_wait() || self.lacks_room()
    }

    fn lacks_room(&self) -> bool {
        self.shared.room.is_lacking()
    }

    fn has_failed(&self) -> bool {
        self.shared.has_failed() || self.writing.failed.load(Ordering::Acquire)
    }

    /// As long as another layer's trace can be written, that one is recorded.
    fn fail(&self, error: &strata_collect::Error) {
        let why = || format!("{}{}", failure_text(error), advice(error));
        let is_full = matches!(error, strata_collect::Error::NoSpace { .. });
        if is_full && !self.has_failed() && self.shared.room.lacks(why) {
            return;
        }
        if is_full && !self.has_failed() {
            self.writing.is_full.store(true, Ordering::Relaxed);
        }
        lock(&self.shared.failure).get_or_insert_with(why);
        self.writing.failed.store(true, Ordering::Release);
        if lock(&self.shared.layers).iter().all(|one| one.failed.load(Ordering::Acquire)) {
            self.shared.failed.store(true, Ordering::Release);
        }
    }

    fn set_counts(&self, counts: &Counts) {
        self.writing.figures.set(counts);
        let mut losses = lock(&self.writing.losses);
        (losses.discarded, losses.demand) = (counts.discarded, counts.demand);
    }

    fn set_losses(&self, losses: Vec<StreamLoss>) {
        lock(&self.writing.losses).streams = losses;
    }

    fn set_fill(&self, percent: u8) {
        self.writing.fill.store(percent, Ordering::Relaxed);
    }

    fn add_events(&self, events: u64) {
        self.shared.events.fetch_add(events, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Discarded, KERNEL, USER};
    use rustix::event::{poll, PollFd, PollFlags, Timespec};

    /// Of two layers.
    fn layers(shared: &Arc<Shared>) -> (Voice, Voice) {
        (shared.add_layer(USER), shared.add_layer(KERNEL))
    }

    fn is_readable(shared: &Shared) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(shared.wake(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn stop_wakes_who_waits() {
        let shared = Shared::new().unwrap();
        assert!(!shared.is_stopping() && !is_readable(&shared));
        shared.stop(EndReason::Duration);
        shared.stop(EndReason::Duration);
        assert!(shared.is_stopping() && is_readable(&shared));
    }

    #[test]
    fn failure_that_came_first_is_the_one_that_is_told() {
        let shared = Shared::new().unwrap();
        assert_eq!((shared.has_failed(), shared.failure()), (false, None));
        shared.fail("one".into());
        shared.fail("two".into());
        assert_eq!((shared.has_failed(), shared.failure()), (true, Some("one".into())));
    }

    #[test]
    fn ending_is_why_it_stops_unless_it_failed() {
        let shared = Shared::new().unwrap();
        let user = shared.add_layer(USER);
        assert_eq!(user.ending(), Ending::Ended);
        shared.stop(EndReason::Asked(None));
        assert_eq!(user.ending(), Ending::Stopped);
        user.fail(&no_space());
        assert_eq!((user.ending(), shared.has_failed()), (Ending::NoSpace, true));
        assert!(shared.failure().unwrap().contains("Make room"));
        let shared = Shared::new().unwrap();
        let user = shared.add_layer(USER);
        shared.fail("x".into());
        assert_eq!((user.ending(), shared.ending_of_all()), (Ending::Failed, Ending::Failed));
    }

    fn no_space() -> strata_collect::Error {
        let source = std::io::Error::from_raw_os_error(libc::ENOSPC);
        strata_collect::Error::NoSpace { path: "x".into(), source }
    }

    #[test]
    fn layer_that_cannot_write_stops_no_other_one() {
        let shared = Shared::new().unwrap();
        let (user, kernel) = layers(&shared);
        kernel.fail(&no_space());
        assert_eq!((shared.has_failed(), shared.layer_that_failed()), (false, Some(KERNEL)));
        assert!(kernel.has_failed() && !user.has_failed());
        assert_eq!((kernel.ending(), user.ending()), (Ending::NoSpace, Ending::Ended));
        assert_eq!(shared.ending_of_all(), Ending::NoSpace);
        assert!(shared.failure().is_some());
        user.fail(&no_space());
        assert_eq!((shared.has_failed(), shared.layer_that_failed()), (true, None));
    }

    #[test]
    fn counts_and_processes_are_those_that_were_told() {
        let shared = Shared::new().unwrap();
        let discarded = Discarded { full: 3, nested: 1, ..Discarded::default() };
        let counts =
            Counts { records: 1, bytes: 2, discarded, overwritten: 5, ..Counts::default() };
        let (user, kernel) = layers(&shared);
        user.set_counts(&counts);
        assert_eq!(shared.counts(), (1, 2, 4, 5));
        kernel.set_counts(&Counts { records: 10, overwritten: u64::MAX, ..counts });
        assert_eq!(shared.counts(), (11, 4, 8, u64::MAX));
        shared.process_came();
        shared.process_came();
        shared.process_went();
        assert_eq!(shared.processes(), 1);
    }

    #[test]
    fn events_wrap_around_and_losses_are_the_layer_s() {
        let shared = Shared::new().unwrap();
        let (user, kernel) = layers(&shared);
        user.add_events(u64::MAX);
        kernel.add_events(3);
        assert_eq!(shared.events(), 2);
        let discarded = Discarded { full: 3, ..Discarded::default() };
        kernel.set_counts(&Counts { discarded, ..Counts::default() });
        kernel.set_losses(vec![StreamLoss { cpu: 2, discarded, ..StreamLoss::default() }]);
        let losses = kernel.losses();
        assert_eq!((losses.discarded, losses.streams.len()), (discarded, 1));
        assert!(user.losses().streams.is_empty());
    }

    #[test]
    fn possible_records_are_bounded_by_time_and_cpus() {
        let shared = Shared::new().unwrap();
        // Time: it is what is counted; more is right, too.
        std::thread::sleep(std::time::Duration::from_millis(2));
        let one = shared.possible_records(1);
        assert!((2_000_000..60_000_000_000).contains(&one), "{one}");
        assert!(shared.possible_records(64) > 30 * one);
        assert!(shared.possible_records(0) >= one);
    }

    #[test]
    fn ending_of_each_reason_is_what_the_mark_says() {
        for (why, ending) in [
            (EndReason::Command, Ending::Ended),
            (EndReason::Processes, Ending::Ended),
            (EndReason::Duration, Ending::Duration),
            (EndReason::Size { max_bytes: 7 }, Ending::Size),
            (EndReason::Asked(Some(libc::SIGINT)), Ending::Stopped),
            (EndReason::Failure, Ending::Failed),
        ] {
            let shared = Shared::new().unwrap();
            let (user, _) = layers(&shared);
            shared.stop(why);
            let endings = (user.ending(), shared.ending_of_all());
            assert_eq!(endings, (ending, ending), "{why:?}");
        }
    }

    #[test]
    fn layer_that_failed_for_another_reason_than_room_is_failed_and_stays_so() {
        let gone = || {
            let source = std::io::Error::from_raw_os_error(libc::ENOENT);
            strata_collect::Error::Gone { path: "x".into(), source }
        };
        let shared = Shared::new().unwrap();
        let (user, kernel) = layers(&shared);
        user.fail(&gone());
        // That there is no room either is no news, and not why it ended.
        user.fail(&no_space());
        assert_eq!(user.ending(), Ending::Failed);
        assert_eq!((kernel.ending(), shared.has_failed()), (Ending::Ended, false));
        assert!(shared.failure().unwrap().contains("was removed"), "{:?}", shared.failure());
        // And the other way round.
        kernel.fail(&no_space());
        kernel.fail(&gone());
        assert_eq!((kernel.ending(), shared.has_failed()), (Ending::NoSpace, true));
        // The first layer that failed is told first.
        assert_eq!(shared.ending_of_all(), Ending::Failed);
    }

    #[test]
    fn layer_that_is_alone_and_fails_ends_the_session() {
        for (recorded, failed, goes_on) in [
            (&[USER][..], 0, false),
            (&[KERNEL], 0, false),
            (&[USER, KERNEL], 0, true),
            (&[USER, KERNEL], 1, true),
        ] {
            let shared = Shared::new().unwrap();
            let voices: Vec<Voice> = recorded.iter().map(|name| shared.add_layer(name)).collect();
            voices[failed].fail(&no_space());
            assert_eq!(shared.has_failed(), !goes_on, "{recorded:?} {failed}");
            assert_eq!(shared.layer_that_failed(), goes_on.then_some(recorded[failed]));
        }
    }

    #[test]
    fn processes_that_went_and_never_came_are_none() {
        let shared = Shared::new().unwrap();
        shared.process_went();
        assert_eq!(shared.processes(), 0);
        shared.process_came();
        shared.process_came();
        assert_eq!(shared.processes(), 1);
        assert!(!shared.is_moved() && !shared.is_nobody_left() && !shared.has_lagged());
        shared.set_moved();
        shared.set_nobody_left(true);
        shared.set_lagged();
        assert!(shared.is_moved() && shared.is_nobody_left() && shared.has_lagged());
        shared.set_nobody_left(false);
        assert!(!shared.is_nobody_left());
    }
}
