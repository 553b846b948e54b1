//! Limits log lines about refused connections: whoever connects again and again does not fill the journal.
//!
//! ```text
//! RelayEvent ─▶ take() ─┬▶ logged: the first one of an address for a reason, and all that is no refusal
//!                       └▶ counted ─▶ due(): once a minute, how many more there were
//! ```
//!
//! Reasons are texts that a peer can choose, so there are limits on them, for each address and in total. What is beyond a limit is
//! counted together.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::relay::event::RelayEvent;

/// Period of the counts of repeated events.
const PERIOD: Duration = Duration::from_secs(60);
/// The most lines about one address in a period.
const LINES_OF_ONE_MAX: usize = 64;
const LINES_MAX: usize = 256;

/// Limits the log: the events that were logged in the present period, and counts of those that were not.
#[derive(Debug, Default)]
pub struct LogLimit {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The begin of the period in which events are counted now: the time of its first event.
    since: Option<Instant>,
    /// Events that were logged, by address and reason, each with the number of its repetitions.
    logged: HashMap<(Option<IpAddr>, String), (RelayEvent, u64)>,
    /// Number of refusals beyond the limits.
    others: u64,
}

impl LogLimit {
    /// Returns the event if it is to be logged now; `None` if it is only counted.
    pub fn take(&self, event: RelayEvent, now: Instant) -> Option<RelayEvent> {
        let key = match &event {
            RelayEvent::Refused { peer, why } => (Some(peer.ip()), why.clone()),
            // Such as want of descriptors, at each connection.
            RelayEvent::Trouble(why) => (None, why.clone()),
            _ => return Some(event),
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.since.get_or_insert(now);
        if let Some((_, more)) = state.logged.get_mut(&key) {
            *more += 1;
            return None;
        }
        let of_one = state.logged.keys().filter(|(address, _)| *address == key.0).count();
        // The relay's own troubles have few reasons, and none is left out.
        if key.0.is_some() && (of_one >= LINES_OF_ONE_MAX || state.logged.len() >= LINES_MAX) {
            state.others += 1;
            return None;
        }
        state.logged.insert(key, (event.clone(), 0));
        Some(event)
    }

    /// Ends the period if it is over, or if `is_last` is true. Returns the counts to log.
    pub fn due(&self, now: Instant, is_last: bool) -> Vec<RelayEvent> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let within =
            state.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        if within < PERIOD && !is_last {
            return Vec::new();
        }
        let State { logged, others, .. } = std::mem::take(&mut *state);
        drop(state);
        let repeated = logged.into_values().filter(|(_, more)| *more > 0);
        let repeated = repeated.map(|(event, times)| RelayEvent::Repeated {
            event: Box::new(event),
            times,
            within,
        });
        let others = (others > 0).then_some(RelayEvent::RefusedOthers { times: others, within });
        repeated.chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: u8, port: u16, why: &str) -> RelayEvent {
        RelayEvent::Refused { peer: ([10, 0, 0, address], port).into(), why: why.to_owned() }
    }

    #[test]
    fn refusal_is_logged_once_in_a_period_and_then_counted() {
        let (limit, begin) = (LogLimit::default(), Instant::now());
        let first = refused(1, 1000, "it is full");
        assert_eq!(limit.take(first.clone(), begin), Some(first.clone()));
        for port in 1001..1030 {
            assert_eq!(limit.take(refused(1, port, "it is full"), begin), None);
        }
        // Another reason, another address, and what is no refusal.
        assert!(limit.take(refused(1, 1, "it is late"), begin).is_some());
        assert!(limit.take(refused(2, 1, "it is full"), begin).is_some());
        let removed = RelayEvent::Removed { folder: "x".into(), bytes: 1 };
        for _ in 0..2 {
            assert_eq!(limit.take(removed.clone(), begin), Some(removed.clone()));
        }
        assert_eq!(limit.due(begin + PERIOD / 2, false), []);
        let (event, within) = (Box::new(first.clone()), PERIOD);
        let wanted = [RelayEvent::Repeated { event, times: 29, within }];
        assert_eq!(limit.due(begin + PERIOD, false), wanted);
        // The next period begins with the next one.
        assert_eq!(limit.due(begin + 9 * PERIOD, true), []);
        assert_eq!(limit.take(first.clone(), begin + 9 * PERIOD), Some(first));
        assert_eq!(limit.due(begin + 9 * PERIOD, true), []);
    }

    #[test]
    fn trouble_that_lasts_is_logged_once_in_a_period() {
        let (limit, begin) = (LogLimit::default(), Instant::now());
        let trouble = RelayEvent::Trouble("no descriptors".to_owned());
        assert!(limit.take(trouble.clone(), begin).is_some());
        assert!(limit.take(trouble.clone(), begin).is_none());
        let due = limit.due(begin + Duration::from_secs(1), true);
        let within = Duration::from_secs(1);
        assert_eq!(due, [RelayEvent::Repeated { event: Box::new(trouble), times: 1, within }]);
    }

    #[test]
    fn malicious_reasons_and_addresses_have_a_bounded_number_of_lines() {
        let (limit, begin) = (LogLimit::default(), Instant::now());
        let mut logged = 0;
        for address in 0..100 {
            for number in 0..100 {
                let refused = refused(address, 1, &format!("no host: {number}"));
                logged += usize::from(limit.take(refused, begin).is_some());
            }
        }
        assert_eq!(logged, LINES_MAX);
        let own = RelayEvent::Trouble("no descriptors".to_owned());
        assert!(limit.take(own, begin).is_some());
        let due = limit.due(begin + PERIOD, false);
        let times = 10_000 - LINES_MAX as u64;
        assert_eq!(due, [RelayEvent::RefusedOthers { times, within: PERIOD }]);
    }
}
