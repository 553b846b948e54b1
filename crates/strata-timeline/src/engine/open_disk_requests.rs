//! Requests to disks, from the time at which the disk gets them to their completion.
//!
//! The kernel identifies a request by its disk and first sector. A disk may complete a request in several parts; the
//! rest is then identified by the first sector that is not completed. Requests that are merged while they wait in the
//! queue never begin, so the table of waiting requests is emptied when it is full.

use std::collections::HashMap;

use crate::ids::thread_id::ThreadId;
use crate::observer::{DiskRequest, RequestKind};
use crate::records::facts::DiskPlace;

/// The most requests that have begun and not ended. A disk has some thousands.
const OPEN_MAX: usize = 1 << 16;
const SECTOR_BYTES: u64 = 512;

#[derive(Clone, Copy, Debug)]
struct OpenRequest {
    kind: RequestKind,
    thread: Option<ThreadId>,
    queued: Option<i64>,
    begin: i64,
    sector: i64,
    sectors: i64,
    /// The number of the request's sectors that are completed.
    done: i64,
    selected: bool,
}

/// The machine, the disk, and the first sector that is not completed.
type RequestKey = (u8, i64, i64);

/// The requests of all disks that are queued or begun.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    /// The requests that a disk works on.
    open: HashMap<RequestKey, OpenRequest>,
    /// The requests that wait in a queue, each with the time at which it was queued and its number of sectors.
    queued: HashMap<RequestKey, (i64, i64)>,
}

/// Decodes the kind from the bits that LTTng records.
fn kind_of_bits(bits: i64) -> RequestKind {
    match bits {
        _ if bits & 2 != 0 => RequestKind::Discard,
        _ if bits & 1 != 0 => RequestKind::Write,
        _ if bits & 4 != 0 => RequestKind::Read,
        _ if bits & (1 << 8 | 1 << 10) != 0 => RequestKind::Flush,
        _ => RequestKind::Other,
    }
}

/// Decodes the kind from the kernel's letters, such as `WS`, `RA` and `FF`. An F before other letters is a flush before
/// the request.
pub(crate) fn kind_of(text: Option<[u8; 16]>, bits: Option<i64>) -> RequestKind {
    let Some(text) = text else { return bits.map_or(RequestKind::Other, kind_of_bits) };
    let has = |letter| text.contains(&letter);
    match text {
        _ if has(b'D') => RequestKind::Discard,
        _ if has(b'W') => RequestKind::Write,
        _ if has(b'R') => RequestKind::Read,
        _ if has(b'F') => RequestKind::Flush,
        _ => RequestKind::Other,
    }
}

impl Requests {
    /// Notes that a request waits in the queue of its disk.
    pub(crate) fn queue(&mut self, (machine, place): (u8, DiskPlace), time: i64) {
        // Some become parts of others, and never begin.
        if self.queued.len() >= OPEN_MAX {
            self.queued.clear();
        }
        self.queued.insert((machine, place.device, place.sector), (time, place.sectors));
    }

    pub(crate) fn begin(
        &mut self,
        (machine, place): (u8, DiskPlace),
        kind: RequestKind,
        thread: Option<ThreadId>,
        (begin, selected): (i64, bool),
    ) {
        let key = (machine, place.device, place.sector);
        let queued = self.queued.remove(&key);
        if self.open.len() < OPEN_MAX || self.open.contains_key(&key) {
            let DiskPlace { sector, sectors, .. } = place;
            // What was joined with another one meanwhile is not what was put there.
            let queued = queued.filter(|&(time, whole)| whole == sectors && time <= begin);
            let queued = queued.map(|(time, _)| time);
            let done = 0;
            self.open.insert(
                key,
                OpenRequest { kind, thread, queued, begin, sector, sectors, done, selected },
            );
        }
    }

    /// Completes a part of a request. Returns the whole request if that was the last part.
    pub(crate) fn end(
        &mut self,
        machine: u8,
        place: DiskPlace,
        error: i64,
        end: i64,
        selected: bool,
    ) -> Option<DiskRequest> {
        let mut open = self.open.remove(&(machine, place.device, place.sector))?;
        let done = open.done.saturating_add(place.sectors.max(0));
        if done < open.sectors && place.sectors > 0 && error == 0 {
            open.done = done;
            open.selected |= selected;
            let next = place.sector.saturating_add(place.sectors);
            self.open.insert((machine, place.device, next), open);
            return None;
        }
        Some(DiskRequest {
            device: u32::try_from(place.device).ok()?,
            sector: open.sector as u64,
            kind: open.kind,
            bytes: u64::try_from(open.sectors).unwrap_or(0).saturating_mul(SECTOR_BYTES),
            thread: open.thread,
            queued: open.queued,
            begin: open.begin,
            end: end.max(open.begin),
            is_error: error != 0,
            selected: open.selected || selected,
        })
    }

    /// Forgets all requests, since records of their completion may have been discarded.
    pub(crate) fn clear(&mut self) {
        self.open.clear();
        self.queued.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sector: i64, sectors: i64) -> DiskPlace {
        DiskPlace { device: 254 << 20, sector, sectors }
    }

    #[test]
    fn request_that_is_done_in_parts_is_one_that_ends_with_the_last() {
        let mut requests = Requests::default();
        let kind = kind_of(Some(*b"FWS\0\0\0\0\0\0\0\0\0\0\0\0\0"), None);
        requests.begin((0, at(100, 24)), kind, None, (10, false));
        requests.begin((1, at(100, 8)), RequestKind::Read, None, (11, false));
        assert_eq!(requests.end(0, at(100, 8), 0, 20, true), None);
        let done = requests.end(0, at(108, 16), 0, 30, false).unwrap();
        assert_eq!(
            (done.kind, done.bytes, done.begin, done.end),
            (RequestKind::Write, 12_288, 10, 30)
        );
        assert!(done.selected && !done.is_error);
        assert_eq!(requests.end(0, at(108, 16), 0, 31, false), None);
        let other = requests.end(1, at(100, 8), -5, 40, false).unwrap();
        assert_eq!((other.kind, other.is_error, other.selected), (RequestKind::Read, true, false));
    }

    #[test]
    fn kinds_are_those_of_the_kernel_s_letters_and_of_lttng_s_bits() {
        for (text, bits, kind) in [
            (b"RA", 12, RequestKind::Read),
            (b"WS", 33, RequestKind::Write),
            (b"DS", 34, RequestKind::Discard),
            (b"FF", 256, RequestKind::Flush),
            (b"N\0", 0, RequestKind::Other),
        ] {
            let mut letters = [0; 16];
            letters[..2].copy_from_slice(text);
            assert_eq!((kind_of(Some(letters), None), kind_of(None, Some(bits))), (kind, kind));
        }
    }

    #[test]
    fn request_that_fails_or_says_nothing_of_its_length_is_over_at_once() {
        for (place, error, is_error) in
            [(at(100, 8), -5, true), (at(100, 0), 0, false), (at(100, -8), 0, false)]
        {
            let mut requests = Requests::default();
            requests.begin((0, at(100, 24)), RequestKind::Read, None, (10, true));
            let done = requests.end(0, place, error, 20, false).unwrap();
            assert_eq!(
                (done.bytes, done.is_error, done.selected),
                (12_288, is_error, true),
                "{place:?}"
            );
            assert!(requests.open.is_empty(), "{place:?}");
        }
    }

    #[test]
    fn malicious_requests_overflow_nothing_and_are_not_kept_beyond_the_limit() {
        let mut requests = Requests::default();
        let far = DiskPlace { device: -1, sector: i64::MAX, sectors: i64::MAX };
        requests.begin((0, far), RequestKind::Write, None, (50, false));
        let part = DiskPlace { sectors: i64::MAX - 1, ..far };
        assert_eq!(requests.end(0, part, 0, 40, false), None);
        // No disk has such a number.
        assert_eq!(requests.end(0, far, 0, 40, false), None);
        requests.begin((0, at(1, i64::MAX)), RequestKind::Write, None, (50, false));
        let done = requests.end(0, at(1, i64::MAX), 0, 40, false).unwrap();
        // Its end is not in front of its begin.
        assert_eq!((done.bytes, done.begin, done.end), (u64::MAX, 50, 50));
        requests.begin((0, at(2, -1)), RequestKind::Write, None, (50, false));
        assert_eq!(requests.end(0, at(2, -1), 0, 60, false).unwrap().bytes, 0);
        for sector in 0..OPEN_MAX as i64 + 9 {
            requests.begin((0, at(sector, 1)), RequestKind::Read, None, (sector, false));
        }
        assert_eq!(requests.open.len(), OPEN_MAX);
        // One of a place that is known is another one there.
        requests.begin((0, at(5, 2)), RequestKind::Flush, None, (7, false));
        assert_eq!(requests.end(0, at(5, 2), 0, 8, false).unwrap().kind, RequestKind::Flush);
        assert_eq!(requests.end(0, at(OPEN_MAX as i64 + 5, 1), 0, 8, false), None);
        requests.clear();
        assert_eq!(requests.end(0, at(6, 1), 0, 8, false), None);
    }

    #[test]
    fn time_in_the_queue_is_that_of_the_request_that_was_put_there() {
        let mut requests = Requests::default();
        let queued = |requests: &mut Requests, machine, place: DiskPlace, end| {
            requests.begin((machine, place), RequestKind::Read, None, (20, false));
            let done = requests.end(machine, place, 0, end, false).unwrap();
            (done.queued, done.sector, done.begin, done.end)
        };
        requests.queue((0, at(100, 8)), 5);
        assert_eq!(queued(&mut requests, 1, at(100, 8), 30), (None, 100, 20, 30));
        assert_eq!(queued(&mut requests, 0, at(100, 8), 30), (Some(5), 100, 20, 30));
        // Once; not of another length, and not from the time behind.
        assert_eq!(queued(&mut requests, 0, at(100, 8), 30), (None, 100, 20, 30));
        for (place, time) in [(at(100, 16), 5), (at(100, 8), 21)] {
            requests.queue((0, place), time);
            assert_eq!(queued(&mut requests, 0, at(100, 8), 30).0, None);
        }
        for sector in 0..OPEN_MAX as i64 + 9 {
            requests.queue((0, at(sector, 1)), 5);
        }
        assert!(requests.queued.len() <= OPEN_MAX);
        requests.clear();
        assert!(requests.queued.is_empty());
    }

    #[test]
    fn kind_that_nobody_says_is_another_one() {
        assert_eq!(kind_of(None, None), RequestKind::Other);
        assert_eq!(kind_of(Some([0; 16]), Some(1)), RequestKind::Other, "what is said counts");
        assert_eq!(kind_of(None, Some(-1)), RequestKind::Discard);
    }
}
