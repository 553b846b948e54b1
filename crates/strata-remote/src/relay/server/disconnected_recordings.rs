//! Recordings whose connection broke. Their folders stay locked for a while: who follows them waits for the recorder, which may
//! come again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use strata_model::Uuid;

/// Time for which the folders of a recording stay locked after its connection broke. A viewer notices a killed
/// recorder later by this time.
pub(super) const PARKED: Duration = Duration::from_secs(15);
/// The most descriptors of folders of all disconnected recordings.
const DESCRIPTORS_MAX: usize = 4096;

/// The identity of a recording: its host, and its UUID.
type Key = (String, Uuid);

#[derive(Debug)]
struct ParkedRecording<P> {
    since: Instant,
    descriptors: usize,
    held: P,
}

/// Recordings that wait for their recorders, by host and UUID.
#[derive(Debug)]
pub(super) struct DisconnectedRecordings<P> {
    all: HashMap<Key, ParkedRecording<P>>,
}

impl<P> Default for DisconnectedRecordings<P> {
    fn default() -> DisconnectedRecordings<P> {
        DisconnectedRecordings { all: HashMap::new() }
    }
}

impl<P> DisconnectedRecordings<P> {
    /// Keeps the folders of a recording, with their number of descriptors. Returns those of other recordings that
    /// exceed the limits, to be closed without locks: the oldest of this host above `host_max`, and of the hosts with
    /// most descriptors.
    #[must_use]
    pub(super) fn insert(
        &mut self,
        key: Key,
        (held, descriptors): (P, usize),
        host_max: u64,
    ) -> Vec<P> {
        let mut closed = Vec::new();
        let of_host = self.all.keys().filter(|(host, _)| *host == key.0).count() as u64;
        if of_host >= host_max {
            closed.extend(self.remove_oldest(&key.0.clone()));
        }
        let recording = ParkedRecording { since: Instant::now(), descriptors, held };
        closed.extend(self.all.insert(key, recording).map(|before| before.held));
        loop {
            let mut by_host: HashMap<&str, usize> = HashMap::new();
            for ((host, _), one) in &self.all {
                *by_host.entry(host).or_default() += one.descriptors;
            }
            if by_host.values().sum::<usize>() <= DESCRIPTORS_MAX {
                return closed;
            }
            // A host that breaks many connections costs no other host its locks.
            let most = by_host.into_iter().max_by_key(|(_, descriptors)| *descriptors);
            let Some(host) = most.map(|(host, _)| host.to_owned()) else { return closed };
            closed.extend(self.remove_oldest(&host));
        }
    }

    fn remove_oldest(&mut self, host: &str) -> Option<P> {
        let of_host = self.all.iter().filter(|((of, _), _)| of == host);
        let oldest = of_host.min_by_key(|(_, one)| one.since).map(|(key, _)| key.clone())?;
        self.remove(&oldest)
    }

    /// Removes and returns the folders of a recording whose recorder has connected again.
    pub(super) fn remove(&mut self, key: &Key) -> Option<P> {
        self.all.remove(key).map(|one| one.held)
    }

    /// Removes and returns the folders of recordings whose recorders have not connected again in time, to be closed
    /// without locks.
    #[must_use]
    pub(super) fn remove_old(&mut self, now: Instant) -> Vec<P> {
        let is_old = |one: &ParkedRecording<P>| now.saturating_duration_since(one.since) > PARKED;
        let old = self.all.iter().filter(|(_, one)| is_old(one)).map(|(key, _)| key.clone());
        let old: Vec<Key> = old.collect();
        old.iter().filter_map(|key| self.remove(key)).collect()
    }

    /// Returns true if this recording waits for its recorder.
    pub(super) fn contains(&self, key: &Key) -> bool {
        self.all.contains_key(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(host: &str, number: u8) -> Key {
        (host.to_owned(), Uuid([number; 16]))
    }

    #[test]
    fn host_with_most_descriptors_gives_up_its_oldest_recordings() {
        let mut parked = DisconnectedRecordings::default();
        assert!(parked.insert(key("quiet", 0), (1000, 65), 64).is_empty());
        let mut closed = Vec::new();
        for number in 0..80 {
            closed.extend(parked.insert(key("loud", number), (u32::from(number), 65), 200));
        }
        // 63 of 65 descriptors each, of which one is another host's.
        assert_eq!(closed, (0..18).collect::<Vec<u32>>());
        assert!(parked.contains(&key("quiet", 0)) && !parked.contains(&key("loud", 17)));
        assert_eq!(parked.insert(key("loud", 90), (90, 1), 10), [18]);
        assert_eq!(parked.remove(&key("quiet", 0)), Some(1000));
        // The same recording again.
        assert_eq!(parked.insert(key("loud", 90), (91, 1), 200), [90]);
        assert!(parked.remove_old(Instant::now()).is_empty());
        let rest = parked.remove_old(Instant::now() + PARKED + Duration::from_secs(1));
        assert_eq!((rest.len(), parked.all.len()), (62, 0));
    }
}
