//! Free space on the disk to which a persistent session writes. If there is none, packets stay in the buffers until
//! there is space again, since the session lasts until somebody ends it.
//!
//! ```text
//! no room   a failed write is no failure of the session; the pumps leave packets in the buffers, and do not rotate
//! waiting   programs and the kernel fill their buffers, and discard or overwrite records, which are counted as usual
//! room      once there is space for a few packets, the pumps repeat the failed writes
//! the end   a write that fails now is a failure, as in any recording
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::Serialize;
use strata_model::TimeSource;

use crate::session::disk::{LowSpace, MinFree};
use crate::session::lock::lock;

/// Free space at which writing resumes after the disk was full \[byte\]. On a small disk, an eighth of its size is
/// enough.
const ROOM_BYTES: u64 = 4 << 20;
/// The pause between attempts to write while the disk is full. The reported free space does not tell, since this user
/// may not be allowed to use it.
const RETRY: Duration = Duration::from_secs(1);

/// The state of the disk's free space: whether the disk is full, and since when.
#[derive(Debug, Default)]
pub(crate) struct Room {
    time: TimeSource,
    waits: AtomicBool,
    is_lacking: AtomicBool,
    state: Mutex<RoomState>,
}

#[derive(Debug, Default)]
struct RoomState {
    /// The space that must stay free. With less, the disk counts as full. `None` if writers do not wait for space.
    min_free: Option<MinFree>,
    why: String,
    /// Time since which the disk is full; `None` if it is not.
    since: Option<Instant>,
    is_told: bool,
    /// Number of times that the disk was full before.
    times: u64,
    seconds: f64,
}

/// The status of a full disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NoRoomStatus {
    /// The file that could not be written, and advice.
    pub why: String,
    /// Time since which the disk is full \[s\].
    pub seconds: f64,
}

impl Room {
    /// Creates the state of a disk that is not full.
    pub(crate) fn new(time: TimeSource) -> Room {
        Room { time, ..Room::default() }
    }

    /// Makes writers wait for free space from now on instead of failing. `min_free`: space to leave free.
    pub(crate) fn wait(&self, min_free: MinFree) {
        lock(&self.state).min_free = Some(min_free);
        self.waits.store(true, Ordering::Release);
    }

    /// Ends waiting for free space. All files are tried once more, and a file that cannot be written is a failure
    /// from now on.
    pub(crate) fn end(&self) {
        self.waits.store(false, Ordering::Release);
        self.is_there();
    }

    /// Notes that a write failed for lack of space. Returns whether the writer is to wait for space.
    pub(crate) fn lacks(&self, why: impl FnOnce() -> String) -> bool {
        // Checked under the lock, so that no lack of space is noted after `end` has had the lock.
        let mut state = lock(&self.state);
        if !self.waits.load(Ordering::Acquire) {
            return false;
        }
        if state.since.is_none() {
            (state.why, state.since) = (why(), Some(self.time.now()));
        }
        self.is_lacking.store(true, Ordering::Release);
        true
    }

    pub(crate) fn is_lacking(&self) -> bool {
        self.is_lacking.load(Ordering::Acquire)
    }

    /// Checks the free space and the size of the disk \[byte\]. Returns a message once per shortage, which says why the
    /// session waits.
    pub(crate) fn look(&self, space: Option<(u64, u64)>) -> Option<String> {
        let min_free = lock(&self.state).min_free.unwrap_or(MinFree::NONE);
        if let Some(low) = LowSpace::of(space, min_free) {
            self.lacks(|| format!("{low}. Make room; `--min-free 0` at its creation records until the disk is full"));
        }
        if !self.is_lacking() {
            return None;
        }
        let is_enough = space.is_none_or(|(free, all)| {
            let (reserve, enough) = (min_free.bytes_of(all), ROOM_BYTES.min(all / 8));
            free >= match reserve {
                0 => enough,
                _ => reserve.saturating_add(enough.min(reserve / 4)),
            }
        });
        let mut state = lock(&self.state);
        let told = (!std::mem::replace(&mut state.is_told, true)).then(|| state.why.clone());
        let is_over = state.since.is_none_or(|since| self.time.elapsed(since) >= RETRY);
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
            state.seconds += self.time.elapsed(since).as_secs_f64();
            state.is_told = false;
        }
        self.is_lacking.store(false, Ordering::Release);
    }

    /// Returns the status of the disk if it is full.
    pub(crate) fn now(&self) -> Option<NoRoomStatus> {
        let state = lock(&self.state);
        let seconds = self.time.elapsed(state.since?).as_secs_f64();
        Some(NoRoomStatus { why: state.why.clone(), seconds })
    }

    /// Returns the remark for the end, if the disk was full.
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
    fn room_is_waited_for_until_there_is_enough_and_reported_once() {
        let time = TimeSource::manual(0);
        let room = Room::new(time.clone());
        assert!(!room.lacks(|| unreachable!()) && !room.is_lacking() && room.now().is_none());
        room.wait(MinFree::NONE);
        assert!(room.lacks(|| "a: full".into()) && room.lacks(|| unreachable!()));
        assert!(room.is_lacking());
        assert_eq!(room.now().unwrap().why, "a: full");
        // Not at once, and not with too little.
        time.pause(RETRY - Duration::from_nanos(1));
        assert_eq!(room.look(Some((1 << 30, 1 << 40))).as_deref(), Some("a: full"));
        assert_eq!(room.look(Some((1 << 30, 1 << 40))), None);
        assert!(room.is_lacking());
        time.pause(Duration::from_nanos(1));
        assert_eq!(room.look(Some((ROOM_BYTES - 1, 1 << 40))), None);
        assert!(room.is_lacking());
        assert_eq!(room.look(Some((1 << 20, 8 << 20))), None);
        assert!(!room.is_lacking() && room.now().is_none());
        let remark = room.remark().unwrap();
        assert!(remark.contains("once") && remark.contains("for 1.0 s in all"), "{remark}");
        room.lacks(|| "b: full".into());
        time.pause(Duration::from_secs(3600));
        assert_eq!(room.now().unwrap().seconds, 3600.0);
        room.end();
        assert!(!room.is_lacking() && !room.lacks(|| unreachable!()));
        let remark = room.remark().unwrap();
        assert!(remark.contains("2 times, for 3601.0 s") && remark.contains("b: full"), "{remark}");
    }

    #[test]
    fn what_others_need_is_no_room() {
        let time = TimeSource::manual(0);
        let room = Room::new(time.clone());
        let space = |mib: u64| Some((mib << 20, 1000 << 20));
        // Who does not wait for room is told nothing.
        assert_eq!(room.look(space(0)), None);
        room.wait(MinFree::Percent(5));
        assert_eq!(room.look(space(50)), None);
        assert!(!room.is_lacking());
        let why = room.look(space(49)).unwrap();
        assert!(why.contains("4.9 %") && why.contains("--min-free=5%"), "{why}");
        assert!(room.is_lacking());
        // As much more as it needs to go on for a while.
        time.pause(RETRY);
        assert_eq!(room.look(space(53)), None);
        assert!(room.is_lacking());
        assert_eq!(room.look(space(54)), None);
        assert!(!room.is_lacking());
    }
}
