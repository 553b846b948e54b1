//! Pins a channel's memory to its physical addresses, so that a host that got these addresses once finds the channel
//! there later.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::channel::Channel;
use crate::ffi;

/// The most channels that are pinned at once; the kernel's limit is 16,384.
const SLOTS: u32 = 8192;

#[derive(Debug)]
struct PinTable {
    fd: i32,
    /// Number of the first slot that was never used, and the slots that were freed.
    slots: Mutex<(u32, Vec<u32>)>,
}

impl Drop for PinTable {
    fn drop(&mut self) {
        // SAFETY: nobody else has the descriptor.
        unsafe { ffi::strata_shim_pins_close(self.fd) }
    }
}

impl PinTable {
    fn slots(&self) -> MutexGuard<'_, (u32, Vec<u32>)> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pins the memory of channels.
#[derive(Debug)]
pub struct Pins(Arc<PinTable>);

/// Keeps the memory of one channel at its physical addresses as long as this value lives.
#[derive(Debug)]
pub struct Pin {
    table: Arc<PinTable>,
    slot: u32,
}

impl Pins {
    /// Creates the table of pins. If this process has the right to lock memory (`CAP_IPC_LOCK`), the limit on locked
    /// memory (`ulimit -l`) does not apply to pins.
    ///
    /// # Errors
    /// A system call failed: before Linux 5.19 there are no such pins, and an administrator may have disabled
    /// `io_uring`.
    pub fn new() -> io::Result<Pins> {
        // SAFETY: makes a descriptor, and reads and writes no memory of this program.
        let fd = unsafe { ffi::strata_shim_pins(SLOTS) };
        match fd >= 0 {
            true => Ok(Pins(Arc::new(PinTable { fd, slots: Mutex::new((0, Vec::new())) }))),
            false => Err(io::Error::from_raw_os_error(-fd)),
        }
    }

    /// Pins the channel's memory: it is resident from now on and keeps its addresses, whichever other processes map it.
    ///
    /// # Errors
    /// A system call failed: the memory is no file in memory, it is too large, or too many channels are pinned.
    pub fn pin(&self, channel: &Channel) -> io::Result<Pin> {
        let table = Arc::clone(&self.0);
        let mut slots = table.slots();
        let slot = match slots.1.pop() {
            Some(slot) => slot,
            None if slots.0 < SLOTS => {
                slots.0 += 1;
                slots.0 - 1
            }
            None => return Err(io::ErrorKind::OutOfMemory.into()),
        };
        let (address, bytes) = (channel.address(), channel.mapped_bytes());
        // SAFETY: the mapping lives as long as the channel. No operation is ever begun that would use the buffer, and the
        // kernel itself holds the pages if the mapping goes.
        let code = unsafe { ffi::strata_shim_pin(table.fd, slot, address as *mut _, bytes) };
        if code != 0 {
            slots.1.push(slot);
            return Err(io::Error::from_raw_os_error(-code));
        }
        drop(slots);
        Ok(Pin { table, slot })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // SAFETY: an empty buffer: no memory is named.
        let code =
            unsafe { ffi::strata_shim_pin(self.table.fd, self.slot, std::ptr::null_mut(), 0) };
        // Else it is held until the table goes.
        if code == 0 {
            self.table.slots().1.push(self.slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::{channel_bytes, Attr, LossMode, Mapping, Publish};

    #[test]
    fn pinned_channel_is_all_there_and_its_slot_is_used_again() {
        let pins = match Pins::new() {
            Ok(pins) => pins,
            Err(error) => return eprintln!("skip: memory cannot be kept where it is: {error}"),
        };
        let attr = Attr {
            loss_mode: LossMode::Discard,
            publish: Publish::ByCommit,
            subbuf_bytes: 4096,
            nr_subbufs: 4,
            nr_cpus: 2,
            start_position: 0,
        };
        let bytes = channel_bytes(&attr).unwrap();
        let path = format!("/dev/shm/strata-ring-{}", std::process::id());
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let Ok(file) = file else { return eprintln!("skip: no files in memory: {path}") };
        std::fs::remove_file(&path).unwrap();
        file.set_len(bytes).unwrap();
        let mapping = Mapping::new(file.as_fd(), 0, bytes).unwrap();
        let channel = Channel::format(mapping, &attr).unwrap();
        assert!(file.metadata().unwrap().blocks() * 512 < bytes);
        let pin = pins.pin(&channel).unwrap();
        // What a file in memory takes is what is there of it.
        assert_eq!(file.metadata().unwrap().blocks() * 512, bytes);
        assert_eq!(pin.slot, 0);
        drop(pin);
        let again = pins.pin(&channel).unwrap();
        assert_eq!(again.slot, 0);
        // It needs neither the channel nor the others.
        drop((pins, channel));
        assert!(again.table.slots().1.is_empty());
        drop(again);
    }
}
