//! Finds the physical addresses of a guest recorder's buffers, for the host. When the guest's kernel has panicked, no
//! process can hand their contents over.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use strata_model::Uuid;
use strata_relay::{FRAME_BYTES_MAX, PAGE_BYTES};
use strata_ring::{Channel, Pin, Pins};

/// The number of marker pages, of which the one at the highest address is announced: it shows best where memory is.
const MARKERS: usize = 64;
/// Bit of a pagemap entry that is set if the page is present.
const PRESENT: u64 = 1 << 63;
/// Bits of a pagemap entry that hold the page's number.
const NUMBER: u64 = (1 << 55) - 1;

/// Physical addresses of this process' memory.
#[derive(Debug)]
pub(crate) struct Memory {
    pagemap: File,
    /// Marker pages, which keep their addresses as long as this lives.
    marker: Vec<u8>,
    /// The pins that keep pages in place; `None` if this kernel cannot pin pages.
    pins: Option<Pins>,
}

impl Memory {
    /// Opens the page tables; `None` without root, since only root sees physical addresses.
    pub(crate) fn open(recording: Uuid) -> Option<Memory> {
        let pagemap = File::open("/proc/self/pagemap").ok()?;
        let marker = recording.0.repeat((MARKERS + 1) * PAGE_BYTES / recording.0.len());
        let memory = Memory { pagemap, marker, pins: Pins::new().ok() };
        memory.marker().is_some().then_some(memory)
    }

    /// Returns the physical address of a page that holds nothing but copies of the recording's UUID; it begins with
    /// one.
    pub(crate) fn marker(&self) -> Option<u64> {
        let first = (self.marker.as_ptr() as usize).next_multiple_of(PAGE_BYTES);
        self.addresses(first, MARKERS).ok()?.into_iter().max()
    }

    /// Pins a channel's pages as long as the returned pin lives; `None` if they may move.
    pub(crate) fn pin(&self, channel: &Channel) -> Option<Pin> {
        self.pins.as_ref()?.pin(channel).ok()
    }

    /// Returns the physical addresses of `pages` pages from address `first` on.
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
