//! Memory for messages that are being received, of all connections together.
//!
//! A message is read from a connection only once there is memory for all of it. So every message that has begun can be
//! completed, and what is not read waits at its sender.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Period at which a connection that waits for memory sends a sign of life to its peer.
const ALIVE: Duration = Duration::from_secs(1);

/// The memory for messages that all connections of a relay share.
#[derive(Debug)]
pub(crate) struct Memory {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    free: u64,
    /// Numbers of the waiting connections, in the order of their requests.
    waiting: VecDeque<u64>,
    next: u64,
}

/// A part of the shared memory, which is given back when this value goes out of scope.
#[derive(Debug)]
pub(crate) struct Part {
    of: Arc<Memory>,
    bytes: u64,
    since: Instant,
}

impl Memory {
    pub(crate) fn new(bytes: u64) -> Arc<Memory> {
        let state = State { free: bytes, waiting: VecDeque::new(), next: 0 };
        Arc::new(Memory { state: Mutex::new(state), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the size of the free memory \[byte\], and the number of waiting connections.
    pub(crate) fn look(&self) -> (u64, usize) {
        let state = self.lock();
        (state.free, state.waiting.len())
    }

    /// Waits until `bytes` bytes are free, and takes them. Calls `alive` about once a second.
    ///
    /// # Errors
    /// `alive` returned an error.
    pub(crate) fn take(
        self: &Arc<Memory>,
        bytes: u64,
        alive: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<Part> {
        let mut state = self.lock();
        let (own, mut told) = (state.next, Instant::now());
        state.next += 1;
        state.waiting.push_back(own);
        let taken = loop {
            if state.waiting.front() == Some(&own) && state.free >= bytes {
                state.free -= bytes;
                break Ok(Part { of: Arc::clone(self), bytes, since: Instant::now() });
            }
            let waited = self.changed.wait_timeout(state, ALIVE);
            state = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
            if told.elapsed() >= ALIVE {
                told = Instant::now();
                drop(state);
                let said = alive();
                state = self.lock();
                if let Err(error) = said {
                    break Err(error);
                }
            }
        };
        state.waiting.retain(|one| *one != own);
        drop(state);
        self.changed.notify_all();
        taken
    }
}

impl Part {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Restarts the time limit for receiving a message into this part.
    pub(crate) fn begin(&mut self) {
        self.since = Instant::now();
    }

    /// Returns whether other connections wait for memory and this part was taken longer than `time` ago.
    pub(crate) fn is_kept_from_others(&self, time: Duration) -> bool {
        self.since.elapsed() > time && self.of.look().1 > 0
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.of.lock().free += self.bytes;
        self.of.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_in_the_order_in_which_it_was_asked_for() {
        let memory = Memory::new(100);
        let most = memory.take(90, &mut || Ok(())).unwrap();
        assert_eq!((most.bytes(), memory.look()), (90, (10, 0)));
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            for bytes in [50, 10] {
                let (memory, sender) = (&memory, sender.clone());
                let waiting = memory.look().1;
                scope.spawn(move || {
                    let part = memory.take(bytes, &mut || Ok(())).unwrap();
                    sender.send(part.bytes()).unwrap();
                });
                while memory.look().1 == waiting {
                    std::thread::yield_now();
                }
            }
            // What would fit does not pass what came before it.
            assert!(most.is_kept_from_others(Duration::ZERO));
            assert!(receiver.try_recv().is_err());
            drop(most);
        });
        drop(sender);
        assert_eq!(receiver.iter().sum::<u64>(), 60);
        assert_eq!(memory.look(), (100, 0));
    }
}
