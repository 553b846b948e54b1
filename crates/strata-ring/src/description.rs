//! The C side's description of a channel.

use crate::error::Error;
use crate::ffi;
use std::ptr::NonNull;
use strata_abi::ring;

/// How a producer publishes records, that is, shows a reader that a record is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publish {
    /// Records are published by each sub-buffer's commit counter: any thread on any CPU writes, with atomic operations.
    ByCommit,
    /// Records are published by the stream's write position: with restartable sequences, and one CPU for each stream.
    ByPosition,
}

/// A checked copy of a channel's header, and the read position of each stream's consumer. The owner of this value must
/// keep the described memory mapped for longer.
#[derive(Debug)]
pub(crate) struct ChannelDescription {
    shim: NonNull<ffi::Shim>,
    header: ring::Channel,
}

// SAFETY: the C side has no thread of its own and keeps nothing that belongs to a thread.
unsafe impl Send for ChannelDescription {}

impl ChannelDescription {
    /// Takes the description that a call of the C code has made. `code` and `text` are the call's result.
    pub fn new(
        shim: *mut ffi::Shim,
        code: i32,
        text: &ffi::Text,
        refused: fn(String) -> Error,
    ) -> Result<Self, Error> {
        let shim = match (NonNull::new(shim), -code) {
            (Some(shim), 0) => shim,
            (_, ffi::ENOSPC) => return Err(Error::NoRoom(text.get())),
            (_, ffi::ENOMEM) => return Err(Error::NoMemory(text.get())),
            _ => return Err(refused(text.get())),
        };
        let mut header = ring::Channel::default();
        // SAFETY: a description that was just made, and a local variable.
        unsafe { ffi::strata_shim_header(shim.as_ptr(), &mut header) };
        Ok(Self { shim, header })
    }

    pub fn shim(&self) -> *mut ffi::Shim {
        self.shim.as_ptr()
    }

    /// Returns the checked copy of the channel's header.
    pub fn header(&self) -> &ring::Channel {
        &self.header
    }

    /// Returns the publication mode of the channel's producers.
    pub fn publish(&self) -> Publish {
        match self.header.publish {
            ring::BY_COMMIT => Publish::ByCommit,
            _ => Publish::ByPosition,
        }
    }
}

impl Drop for ChannelDescription {
    fn drop(&mut self) {
        // SAFETY: made by a call of the C side, and freed here only.
        unsafe { ffi::strata_shim_close(self.shim.as_ptr()) }
    }
}
