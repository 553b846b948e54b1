//! What the C side keeps of a channel.

use crate::error::Error;
use crate::ffi;
use std::ptr::NonNull;
use strata_abi::ring;

/// Which position says that a record is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publish {
    /// Each sub-buffer's commit count: any thread on any CPU writes, with atomic operations.
    ByCommit,
    /// The stream's write position: restartable sequences, one CPU for each stream.
    ByPosition,
}

/// A copy of a channel's header, which was checked, and where the consumer of each stream has got to. Whoever has it
/// keeps the memory that it describes mapped for longer.
#[derive(Debug)]
pub(crate) struct ChannelDescription {
    shim: NonNull<ffi::Shim>,
    header: ring::Channel,
}

// SAFETY: the C side has no thread of its own and keeps nothing that belongs to a thread.
unsafe impl Send for ChannelDescription {}

impl ChannelDescription {
    /// The one that a call has made, which has returned `code` and `text`.
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

    /// The channel's header, as it was when it was copied.
    pub fn header(&self) -> &ring::Channel {
        &self.header
    }

    /// How its producers publish.
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
