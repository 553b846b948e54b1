//! The maps of sampled.bpf.h, in which a program that records samples counts what it leaves out.

use crate::decide::sampling::Sampling;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use strata_abi::kernel::{Event, Sampled};

/// Name of the map that counts, for each event of the program, what sampling has left out.
pub(crate) const SAMPLED: &str = "sampled";

/// Name of the map that has, for each event, the present second and the number of events recorded in it.
pub(crate) const SECONDS: &str = "sampled_seconds";

/// The counts of what a running program, or pair of programs, has left out by sampling.
#[derive(Debug)]
pub(crate) struct SampleCounts {
    map: MapHandle,
    sampling: Sampling,
}

impl SampleCounts {
    pub(crate) fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// Returns the counts of a program with these constants, in its map; `None` if it records all events.
    pub(crate) fn new(event: &Event, map: Option<MapHandle>) -> Option<SampleCounts> {
        let sampling = sampling_of(event);
        map.filter(|_| !sampling.is_all()).map(|map| SampleCounts { map, sampling })
    }

    /// Returns the number of events that sampling has left out on all CPUs; 0 if the map cannot be read. `place`:
    /// index of the event.
    pub(crate) fn left_out(&self, place: u32) -> u64 {
        let value = self.map.lookup_percpu(&place.to_ne_bytes(), MapFlags::ANY);
        let of_cpus = value.ok().flatten().unwrap_or_default();
        let left_out = |value: &Vec<u8>| {
            let at = std::mem::offset_of!(Sampled, left_out);
            let bytes = value.get(at..).and_then(<[u8]>::first_chunk::<8>);
            bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
        };
        of_cpus.iter().map(left_out).fold(0, u64::saturating_add)
    }
}

/// Returns the sampling that is set in a program's constants.
pub(crate) fn sampling_of(event: &Event) -> Sampling {
    Sampling { every: event.every.max(1), at_most: event.at_most }
}
