//! Chunks on their way from those who render them to the one who writes them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::chunk::{
    Chunk, ChunkEnd, SliceFindings, CHUNKS_WAITING, REMARKS, SHARE_WAITING, WAITING,
};

/// A slice, or a share of it: block by block, the shares take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    pub slice: u64,
    pub share: usize,
    pub shares: usize,
}

/// All that waits.
pub struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
    end: AtomicBool,
    /// Slices that may be rendered behind the one that is written.
    ahead: u64,
}

#[derive(Default)]
struct QueueState {
    /// The slice that is written now, and the share of it whose turn it is.
    now: u64,
    turn: usize,
    /// Chunks by slice and share, from `now` on.
    chunks: BTreeMap<(u64, usize), WaitingChunks>,
    /// By slices that have not been gone through by all: by how many, and what the first found.
    seen: BTreeMap<u64, (usize, SliceFindings)>,
    /// What was found in a slice by one of two who did not find the same, of the first such slices.
    unlike: Vec<SliceFindings>,
    /// Workers that have ended.
    left: usize,
}

#[derive(Default)]
struct WaitingChunks {
    chunks: VecDeque<Chunk>,
    /// Of all of them.
    text: usize,
}

impl WaitingChunks {
    /// Whether one more chunk may wait, where so many bytes may. Chunks of little text have buffers, too.
    fn has_room(&self, most: usize) -> bool {
        self.text < most && self.chunks.len() < CHUNKS_WAITING
    }
}

/// Says that a worker has ended, however it did.
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
    /// For so many slices behind the one that is written.
    pub fn new(ahead: u64) -> Queue {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Queue { state, changed, end: AtomicBool::new(false), ahead }
    }

    /// For a worker, who ends with it.
    pub fn leave_later(&self) -> Leave<'_> {
        Leave(self)
    }

    /// Nobody wants more, or there will not be all of it.
    pub fn end(&self) {
        // Under the lock, so that no worker is between its look at this and its wait.
        let _state = lock(&self.state);
        self.end.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Hand a chunk over when it may be; `Break`: nobody wants more.
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

    /// Give all chunks to `write`, in order, until there are no more.
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

    /// What was found by one of two who should have found the same and did not.
    pub fn unlike(&self) -> Vec<SliceFindings> {
        std::mem::take(&mut lock(&self.state).unlike)
    }
}

impl QueueState {
    /// The chunk that is to be written next, if it is there.
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

    /// One has gone through the slice.
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

/// Also where who held it has panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
