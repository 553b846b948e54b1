//! Room on the disk that a session that stays writes to. Where there is none, its packets stay in the buffers, and it goes
//! on when there is some: a session is there until somebody ends it.
//!
//! ```text
//! no room   what could not be written is no failure; the pumps leave packets where they are, and rotate nothing
//! meanwhile programs and the kernel fill their buffers, and discard or overwrite by the loss mode, counted as ever
//! room      as much as a few packets need: the pumps try again what they could not do
//! the end   what cannot be written then is a failure, as of any recording
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::session::lock::lock;

/// With so much, or an eighth of a small disk, it goes on \[byte\].
const ROOM_BYTES: u64 = 4 << 20;
/// After it was tried in vain, it is not tried again before this is over: there may be room that is not this user's.
const RETRY: Duration = Duration::from_secs(1);

/// See above.
#[derive(Debug, Default)]
pub(crate) struct Room {
    waits: AtomicBool,
    is_lacking: AtomicBool,
    state: Mutex<RoomState>,
}

#[derive(Debug, Default)]
struct RoomState {
    why: String,
    /// It is lacking since then.
    since: Option<Instant>,
    is_told: bool,
    /// Before.
    times: u64,
    seconds: f64,
}

/// There is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NoRoomLook {
    /// What could not be written, and what to do.
    pub why: String,
    /// For so long.
    pub seconds: f64,
}

impl Room {
    /// From now on it is waited for.
    pub(crate) fn wait(&self) {
        self.waits.store(true, Ordering::Release);
    }

    /// No more: what cannot be written from now on is a failure. All is tried again.
    pub(crate) fn end(&self) {
        self.waits.store(false, Ordering::Release);
        self.is_there();
    }

    /// This could not be written for want of room; `false`: nobody waits for it.
    pub(crate) fn lacks(&self, why: impl FnOnce() -> String) -> bool {
        // Behind the lock: once the end has had it, nothing is said to be lacking any more.
        let mut state = lock(&self.state);
        if !self.waits.load(Ordering::Acquire) {
            return false;
        }
        if state.since.is_none() {
            (state.why, state.since) = (why(), Some(Instant::now()));
        }
        self.is_lacking.store(true, Ordering::Release);
        true
    }

    pub(crate) fn is_lacking(&self) -> bool {
        self.is_lacking.load(Ordering::Acquire)
    }

    /// So much is free of so much \[byte\]. Returns what is to be said, once: why it waits.
    pub(crate) fn look(&self, free: Option<(u64, u64)>) -> Option<String> {
        if !self.is_lacking() {
            return None;
        }
        let is_enough = free.is_none_or(|(free, all)| free >= ROOM_BYTES.min(all / 8));
        let mut state = lock(&self.state);
        let told = (!std::mem::replace(&mut state.is_told, true)).then(|| state.why.clone());
        let is_over = state.since.is_none_or(|since| since.elapsed() >= RETRY);
        drop(state);
        if is_enough && is_over {
            self.is_there();
        }
        told
    }

    pub(crate) fn is_there(&self) {
        let mut state = lock(&self.state);
        if let Some(since) = state.since.take() {
            state.times += 1;
            state.seconds += since.elapsed().as_secs_f64();
            state.is_told = false;
        }
        self.is_lacking.store(false, Ordering::Release);
    }

    /// How it is, if there is none.
    pub(crate) fn now(&self) -> Option<NoRoomLook> {
        let state = lock(&self.state);
        let seconds = state.since?.elapsed().as_secs_f64();
        Some(NoRoomLook { why: state.why.clone(), seconds })
    }

    /// What is to be said of it at the end.
    pub(crate) fn remark(&self) -> Option<String> {
        let state = lock(&self.state);
        (state.times > 0).then(|| {
            let times = match state.times {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            };
            format!(
                "There was no room for the trace {times}, for {:.1} s in all: {}. What came meanwhile stayed in the \
                 buffers, and was discarded or overwritten once these were full.",
                state.seconds, state.why
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_waited_for_until_there_is_enough_and_said_once() {
        let room = Room::default();
        assert!(!room.lacks(|| unreachable!()) && !room.is_lacking() && room.now().is_none());
        room.wait();
        assert!(room.lacks(|| "a: full".into()) && room.lacks(|| unreachable!()));
        assert!(room.is_lacking());
        assert_eq!(room.now().unwrap().why, "a: full");
        // Not at once, however late it is by now, and not with too little.
        lock(&room.state).since = Some(Instant::now() + Duration::from_secs(3600));
        assert_eq!(room.look(Some((1 << 30, 1 << 40))).as_deref(), Some("a: full"));
        assert_eq!(room.look(Some((1 << 30, 1 << 40))), None);
        assert!(room.is_lacking());
        let long_ago = Instant::now().checked_sub(2 * RETRY);
        lock(&room.state).since = long_ago;
        assert_eq!(room.look(Some((ROOM_BYTES - 1, 1 << 40))), None);
        assert!(room.is_lacking());
        assert_eq!(room.look(Some((1 << 20, 8 << 20))), None);
        assert!(!room.is_lacking() && room.now().is_none());
        assert!(room.remark().unwrap().contains("once"), "{:?}", room.remark());
        room.lacks(|| "b: full".into());
        room.end();
        assert!(!room.is_lacking() && !room.lacks(|| unreachable!()));
        let remark = room.remark().unwrap();
        assert!(remark.contains("2 times") && remark.contains("b: full"), "{remark}");
    }
}
