//! Where the buffers of a guest's recorder lie in the guest's memory, for the host's: when the kernel has panicked, nobody
//! is there who hands over what is in them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use strata_model::Uuid;
use strata_relay::{FRAME_BYTES_MAX, PAGE_BYTES};
use strata_ring::{Channel, Pin, Pins};

/// Pages that may be the marker: the one at the highest address shows best where memory lies.
const MARKERS: usize = 64;
/// Of an entry of pagemap: the page is there.
const PRESENT: u64 = 1 << 63;
/// And its number.
const NUMBER: u64 = (1 << 55) - 1;

/// This process' memory, as the machine has it.
#[derive(Debug)]
pub(crate) struct Memory {
    pagemap: File,
    /// Stays where it is as long as this lives.
    marker: Vec<u8>,
    /// `None`: this kernel has none.
    pins: Option<Pins>,
}

impl Memory {
    /// `None`: who is not root does not see it, and it is not told.
    pub(crate) fn open(recording: Uuid) -> Option<Memory> {
        let pagemap = File::open("/proc/self/pagemap").ok()?;
        let marker = recording.0.repeat((MARKERS + 1) * PAGE_BYTES / recording.0.len());
        let memory = Memory { pagemap, marker, pins: Pins::new().ok() };
        memory.marker().is_some().then_some(memory)
    }

    /// The physical address of a page that holds nothing but the recording's number. Each page begins with it.
    pub(crate) fn marker(&self) -> Option<u64> {
        let first = (self.marker.as_ptr() as usize).next_multiple_of(PAGE_BYTES);
        self.addresses(first, MARKERS).ok()?.into_iter().max()
    }

    /// Keeps a channel's pages where they are, as long as that lives. `None`: they may move.
    pub(crate) fn pin(&self, channel: &Channel) -> Option<Pin> {
        self.pins.as_ref()?.pin(channel).ok()
    }

    /// The physical addresses of so many pages.
    pub(crate) fn addresses(&self, first: usize, pages: usize) -> io::Result<Vec<u64>> {
        if pages * 8 + 2 * PAGE_BYTES > FRAME_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut entries = vec![0; pages * 8];
        self.pagemap.read_exact_at(&mut entries, (first / PAGE_BYTES * 8) as u64)?;
        let address = |entry: &[u8]| {
            let entry = entry.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
            // Who may not see it gets 0.
            let number = entry & NUMBER;
            (entry & PRESENT != 0 && number != 0).then_some(number * PAGE_BYTES as u64)
        };
        let all: Option<Vec<u64>> = entries.chunks_exact(8).map(address).collect();
        all.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_this_process_have_addresses_of_their_own() {
        let Some(memory) = Memory::open(Uuid([7; 16])) else {
            return eprintln!("skip: not root: pagemap shows no addresses");
        };
        let first = (memory.marker.as_ptr() as usize).next_multiple_of(PAGE_BYTES);
        let mut found = memory.addresses(first, MARKERS).unwrap();
        assert!(found.contains(&memory.marker().unwrap()));
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), MARKERS);
        // Nothing is there.
        assert!(memory.addresses(0, 1).is_err());
        assert!(memory.addresses(first, FRAME_BYTES_MAX).is_err());
    }
}
