//! The critical path of a thread over the tracks: the parts of a range of time in their order, each on the track of the
//! thread that spent it. The lengths of the parts add up to the whole.
//!
//! The path is found from the end back to the begin, as in `strata analyze wait`. Where the thread was blocked until
//! another thread woke it, the path continues with what *that* thread did during the wait, and so on. The path is made
//! from the slices of the tracks, so it needs no further pass over the trace. Interrupts of a running thread count as
//! its running.

use std::io;
use std::ops::ControlFlow;

use strata_timeline::{ThreadId, World};

use crate::model::item::{Item, Kind};
use crate::model::lane_builder::{Maker, TrackKind};

/// Limit on the length of a chain of threads that wait for each other.
const DEPTH_MAX: u32 = 32;
/// Limit on the parts of a path: more could not be shown.
const STEPS_MAX: usize = 20_000;

/// Limit on the slices that are read for one path, including those without a length.
const SLICES_MAX: usize = 1 << 21;

/// A part of a path: a slice of a thread's track, or the part of it that is on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of the track; `None` if nothing is known of the thread.
    pub track: Option<u32>,
    /// Begin of the part \[ns since 1970\].
    pub from: i64,
    /// End of the part \[ns since 1970\].
    pub to: i64,
    /// State of the thread.
    pub kind: Kind,
    /// Number of the slice's name.
    pub name: u32,
    /// Number of threads in the chain that waits for this one.
    pub depth: u32,
}

/// The critical path of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Parts of the path, in the order of time.
    pub steps: Vec<Step>,
    /// True if earlier parts were left out.
    pub is_cut: bool,
}

/// Finds the critical path of a thread between two times.
///
/// # Errors
/// The stored slices cannot be read.
pub fn path(
    maker: &Maker,
    world: &World,
    thread: ThreadId,
    (from, to): (i64, i64),
) -> io::Result<Path> {
    let threads = std::iter::once(ThreadId::IDLE).chain(world.threads.iter().map(|(id, _)| id));
    let mut walk =
        Walk { maker, world, threads: threads.collect(), path: Path::default(), seen: 0 };
    walk.back(thread, from, to, 0)?;
    walk.path.steps.reverse();
    Ok(walk.path)
}

struct Walk<'m> {
    maker: &'m Maker,
    world: &'m World,
    /// Threads by their [`ThreadId::index`].
    threads: Vec<ThreadId>,
    /// The path so far, the latest step first.
    path: Path,
    /// Number of slices that were read.
    seen: usize,
}

impl Walk<'_> {
    fn add(&mut self, step: Step) {
        if step.to <= step.from {
            return;
        }
        match self.path.steps.len() < STEPS_MAX {
            true => self.path.steps.push(step),
            false => self.path.is_cut = true,
        }
    }

    /// Returns the thread that ended a wait; `None` if none did.
    fn waker(&self, thread: ThreadId, slice: &Item) -> Option<ThreadId> {
        let is_wait = matches!(slice.kind, Kind::Blocked | Kind::Uninterruptible);
        let is_by_thread = matches!(slice.extra & 7, 1 | 2);
        if !is_wait || !is_by_thread || self.maker.has_timed_out(thread, slice.from) {
            return None;
        }
        let number = usize::try_from(slice.extra >> 3).ok()?;
        self.threads.get(number).copied().filter(|&by| by != thread)
    }

    /// Adds the parts of the path that one thread contributes between two times, from the end back to the begin.
    fn back(&mut self, thread: ThreadId, from: i64, to: i64, depth: u32) -> io::Result<()> {
        let maker = self.maker;
        let track = maker.find(TrackKind::States(thread));
        let lane = track.and_then(|track| maker.tracks.get(usize::try_from(track).ok()?));
        let unknown = |from, to| Step { track, from, to, kind: Kind::Unknown, name: 0, depth };
        let mut end = to;
        let mut result = Ok(());
        let mut tell = |slice: Item| {
            if end <= from || self.path.is_cut {
                return ControlFlow::Break(());
            }
            self.seen += 1;
            if self.seen > SLICES_MAX {
                self.path.is_cut = true;
                return ControlFlow::Break(());
            }
            // A slice without a length is no part, and nobody waited for its waker.
            if slice.from >= end || slice.to <= slice.from {
                return ControlFlow::Continue(());
            }
            // Records were discarded between the known slices.
            let known = slice.to.clamp(from, end);
            self.add(unknown(known, end));
            end = known;
            let begin = slice.from.clamp(from, end);
            // A wait that continues after the end had no waker yet.
            let waker = self.waker(thread, &slice).filter(|_| end == slice.to && depth < DEPTH_MAX);
            match waker {
                Some(by) => result = self.back(by, begin, end, depth + 1),
                None => {
                    let (kind, name) = (slice.kind, slice.name);
                    self.add(Step { track, from: begin, to: end, kind, name, depth });
                }
            }
            end = begin;
            match result {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        };
        if let Some(lane) = lane {
            lane.lane.back(&maker.store, (from, to), &mut tell)?;
        }
        result?;
        if end <= from || self.path.is_cut {
            return Ok(());
        }
        // Before its begin, the thread waited for its creator.
        let born = self.world.threads.get(thread).filter(|it| it.born == Some(end));
        match born.and_then(|it| it.parent).filter(|_| depth < DEPTH_MAX) {
            Some(parent) => self.back(parent, from, end, depth + 1),
            None => {
                self.add(unknown(from, end));
                Ok(())
            }
        }
    }
}
