//! The queue of chunks between the workers that render them and the thread that writes them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::chunk::{
    Chunk, ChunkEnd, SliceFindings, CHUNKS_WAITING, REMARKS, SHARE_WAITING, WAITING,
};

/// A worker's task: a slice of the trace, or a share of it. The shares of a slice take turns in the output, block by
/// block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    pub slice: u64,
    pub share: usize,
    pub shares: usize,
}

/// The chunks that wait to be written.
pub struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
    end: AtomicBool,
    /// The number of slices after the one being written that may be rendered.
    ahead: u64,
}

#[derive(Default)]
struct QueueState {
    /// The number of the slice that is being written.
    now: u64,
    turn: usize,
    /// The waiting chunks of each slice and share, from slice `now` on.
    chunks: BTreeMap<(u64, usize), WaitingChunks>,
    /// For each slice that not all its workers have finished: the number of those that have, and the first one's
    /// findings.
    seen: BTreeMap<u64, (usize, SliceFindings)>,
    /// The findings of workers that differ from those of a slice's first worker, up to a limit.
    unlike: Vec<SliceFindings>,
    /// The number of workers that have ended.
    left: usize,
}

#[derive(Default)]
struct WaitingChunks {
    chunks: VecDeque<Chunk>,
    /// The size of text in all chunks \[byte\].
    text: usize,
}

impl WaitingChunks {
    /// Returns whether another chunk may wait. `most`: limit on the text of all waiting chunks \[byte\]. Their
    /// number is limited too, since small chunks also take buffers.
    fn has_room(&self, most: usize) -> bool {
        self.text < most && self.chunks.len() < CHUNKS_WAITING
    }
}

/// A guard that counts a worker as ended when it goes out of scope, also after a panic.
pub struct Leave<'q>(&'q Queue);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).left += 1;
        if thread::panicking() {
            self.0.end.store(true, Ordering::Relaxed);
        }
        self.0.changed.notify_all();
    }
}

impl Queue {
    /// Returns a queue in which `ahead` slices after the one being written may wait.
    pub fn new(ahead: u64) -> Queue {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Queue { state, changed, end: AtomicBool::new(false), ahead }
    }

    /// Returns a guard that counts a worker as ended when it goes out of scope.
    pub fn leave_later(&self) -> Leave<'_> {
        Leave(self)
    }

    /// Ends the queue, because the reader wants no more or the output will not be complete.
    pub fn end(&self) {
        // Under the lock, so that no worker is between its look at this and its wait.
        let _state = lock(&self.state);
        self.end.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Waits until there is room for a chunk, and adds it. Returns `Break` if the queue has ended.
    pub fn hand_over(&self, task: Task, chunk: Chunk) -> ControlFlow<()> {
        let place = (task.slice, task.share);
        let most = if task.shares > 1 { SHARE_WAITING } else { WAITING };
        let mut state = lock(&self.state);
        loop {
            if self.end.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            let has_room = state.chunks.get(&place).is_none_or(|waiting| waiting.has_room(most));
            if task.slice < state.now
                || has_room && task.slice <= state.now.saturating_add(self.ahead)
            {
                break;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let ChunkEnd::Slice(seen) = &chunk.end {
            state.compare(task, seen);
        }
        // Behind a slice's end there is only what other shares should not have found.
        if task.slice >= state.now {
            let is_wanted = place == (state.now, state.turn);
            let waiting = state.chunks.entry(place).or_default();
            waiting.text += chunk.text.len();
            waiting.chunks.push_back(chunk);
            if !is_wanted {
                return ControlFlow::Continue(());
            }
        }
        drop(state);
        self.changed.notify_all();
        ControlFlow::Continue(())
    }

    /// Passes all chunks to `write`, in order, until there are no more.
    pub fn deliver(&self, workers: usize, write: &mut dyn FnMut(Chunk) -> ControlFlow<()>) {
        loop {
            let mut state = lock(&self.state);
            let chunk = loop {
                if let Some(chunk) = state.next() {
                    break chunk;
                }
                if state.left == workers {
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            drop(state);
            self.changed.notify_all();
            if write(chunk).is_break() {
                return self.end();
            }
        }
    }

    /// Returns and removes the findings of workers that should have been equal and were not.
    pub fn unlike(&self) -> Vec<SliceFindings> {
        std::mem::take(&mut lock(&self.state).unlike)
    }
}

impl QueueState {
    /// Returns the chunk to be written next, if it has arrived.
    fn next(&mut self) -> Option<Chunk> {
        let waiting = self.chunks.get_mut(&(self.now, self.turn))?;
        let chunk = waiting.chunks.pop_front()?;
        waiting.text -= chunk.text.len();
        match &chunk.end {
            ChunkEnd::Nothing => {}
            ChunkEnd::Block { next } => self.turn = *next,
            ChunkEnd::Slice(_) => {
                self.chunks.retain(|&(slice, _), _| slice > self.now);
                self.now += 1;
                self.turn = 0;
            }
        }
        Some(chunk)
    }

    /// Compares the findings of one share of a slice with the others'.
    fn compare(&mut self, task: Task, seen: &SliceFindings) {
        if task.shares == 1 {
            return;
        }
        let (count, first) = self.seen.entry(task.slice).or_insert_with(|| (0, seen.clone()));
        *count += 1;
        if !seen.is_like(first) && self.unlike.len() < REMARKS {
            self.unlike.push(seen.clone());
            self.unlike.push(first.clone());
        }
        if *count == task.shares {
            self.seen.remove(&task.slice);
        }
    }
}

/// Locks a mutex, even if its holder has panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
