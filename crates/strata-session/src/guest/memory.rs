//! The memory of a guest, as a file on the host (QEMU: `memory-backend-file` with `share=on`). It can still be read
//! after the guest has crashed or the hypervisor has ended.
//!
//! The file is read and never mapped, since other processes may truncate it. The data are copied and checked.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{memfd_create, MemfdFlags, OFlags};
use strata_model::Uuid;
use strata_relay::PAGE_BYTES;
use strata_ring::Mapping;

/// Address at which the guest's memory continues above the hole that is left for devices \[byte\].
const ABOVE: u64 = 1 << 32;
/// Sizes of the memory below the hole for devices are multiples of this step \[byte\].
const BELOW_STEP: u64 = 256 << 20;
/// The most pages of all buffers of one guest, which are 4 GiB.
const PAGES_MAX: usize = 1 << 20;

/// The memory of a guest that was identified by a page in it.
#[derive(Debug)]
pub(crate) struct GuestMemory {
    /// Address of the page that identifies the memory.
    pub(crate) marker: u64,
    file: File,
    bytes: u64,
    /// Size of the memory below the hole for devices \[byte\]; `None` if it is not known.
    below: Option<u64>,
}

/// The place of one trace's buffers in the guest's memory, as the guest has described it.
#[derive(Debug)]
pub(crate) struct Told {
    first: Vec<u8>,
    pages: Vec<u64>,
}

impl Told {
    /// Parses the guest's message about its buffers. `others`: number of pages that the buffers of
    /// other traces have.
    ///
    /// # Errors
    /// There are too many pages.
    pub(crate) fn new(first: &[u8], pages: &[u8], others: usize) -> Result<Told, String> {
        let count = pages.len() / 8;
        if others + count > PAGES_MAX {
            return Err(format!("its buffers have more than {PAGES_MAX} pages"));
        }
        let addresses = pages.chunks_exact(8);
        let address = |bytes: &[u8]| bytes.first_chunk().map_or(0, |one| u64::from_le_bytes(*one));
        Ok(Told { first: first.to_vec(), pages: addresses.map(address).collect() })
    }

    pub(crate) fn count(&self) -> usize {
        self.pages.len()
    }
}

impl GuestMemory {
    /// Opens the file, if the page at the address `marker` identifies it as the memory of the guest with this
    /// recording.
    ///
    /// # Errors
    /// The error of the system, or that the file is not this memory.
    pub(crate) fn open(path: &Path, marker: u64, recording: Uuid) -> io::Result<GuestMemory> {
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let mut memory = GuestMemory { marker, file, bytes: about.len(), below: None };
        let wanted = recording.0.repeat(PAGE_BYTES / recording.0.len());
        let is_there = |memory: &GuestMemory| {
            let mut page = [0; PAGE_BYTES];
            memory.read(marker, &mut page).is_ok() && page[..] == wanted[..]
        };
        let steps = (1..=ABOVE / BELOW_STEP).map(|step| Some(step * BELOW_STEP));
        let tried = if marker < ABOVE { vec![None] } else { steps.collect() };
        for below in tried {
            memory.below = below;
            if is_there(&memory) {
                return Ok(memory);
            }
        }
        Err(io::Error::other("it is not the memory of this guest. Is it share=on?"))
    }

    fn read(&self, address: u64, to: &mut [u8]) -> io::Result<()> {
        let outside = || io::Error::other(format!("address {address:#x} is not in it"));
        let at = match (address.checked_sub(ABOVE), self.below) {
            (None, Some(below)) if address >= below => None,
            (None, _) => Some(address),
            (Some(behind), Some(below)) => behind.checked_add(below),
            (Some(_), None) => None,
        };
        let length = to.len() as u64;
        let is_inside = |at: &u64| at.checked_add(length).is_some_and(|end| end <= self.bytes);
        let at = at.filter(is_inside).ok_or_else(outside)?;
        self.file.read_exact_at(to, at)
    }

    /// Copies the buffers at the place `told` out of the guest's memory, as they are now.
    ///
    /// # Errors
    /// The error of the system, or the address of a page that does not exist.
    pub(crate) fn copy(&self, told: &Told) -> io::Result<Mapping> {
        let copy = File::from(memfd_create("strata-guest", MemfdFlags::CLOEXEC)?);
        let bytes = (told.pages.len() as u64 + 1) * PAGE_BYTES as u64;
        copy.set_len(bytes)?;
        copy.write_all_at(&told.first, 0)?;
        let mut page = [0; PAGE_BYTES];
        for (at, address) in (1..).zip(&told.pages) {
            self.read(*address, &mut page)?;
            // Parts that are not written are zero.
            if page.iter().any(|byte| *byte != 0) {
                copy.write_all_at(&page, at * PAGE_BYTES as u64)?;
            }
        }
        Mapping::new(copy.as_fd(), 0, bytes).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch_tests::Scratch;

    const RECORDING: Uuid = Uuid(*b"0123456789abcdef");

    #[test]
    fn memory_is_found_below_and_above_the_devices_by_its_marker() {
        let scratch = Scratch::new("memory");
        let path = scratch.0.join("ram");
        let file = File::create(&path).unwrap();
        // 3 GiB, of which 2 are below.
        file.set_len(3 << 30).unwrap();
        let marker = RECORDING.0.repeat(PAGE_BYTES / 16);
        file.write_all_at(&marker, (2 << 30) + 8192).unwrap();
        file.write_all_at(&[7; PAGE_BYTES], 4096).unwrap();
        file.write_all_at(&[8; PAGE_BYTES], 2 << 30).unwrap();
        let memory = GuestMemory::open(&path, ABOVE + 8192, RECORDING).unwrap();
        assert_eq!(memory.below, Some(2 << 30));
        let first = vec![1; PAGE_BYTES];
        let pages: Vec<u8> = [ABOVE, 4096, 0].into_iter().flat_map(u64::to_le_bytes).collect();
        let told = Told::new(&first, &pages, 0).unwrap();
        let copy = memory.copy(&told).unwrap();
        assert_eq!(copy.bytes(), 4 * 4096);
        // Where devices are, behind its end, and nowhere.
        for bad in [3 << 30, ABOVE + (1 << 30), u64::MAX, u64::MAX - 4095] {
            let told = Told::new(&first, &bad.to_le_bytes(), 0).unwrap();
            assert!(memory.copy(&told).is_err(), "{bad:#x}");
        }
        let below = GuestMemory::open(&path, (2 << 30) + 8192, RECORDING).unwrap();
        assert_eq!(below.below, None);
        for bad in [ABOVE, 4096, ABOVE + 4096, 1 << 40, u64::MAX] {
            assert!(GuestMemory::open(&path, bad, RECORDING).is_err(), "{bad:#x}");
        }
        assert!(GuestMemory::open(&path, ABOVE + 8192, Uuid([1; 16])).is_err());
        assert!(GuestMemory::open(Path::new("/dev/zero"), 0, Uuid([0; 16])).is_err());
        assert!(Told::new(&first, &pages, PAGES_MAX - 2).is_err());
        drop(file);
    }
}
