//! Where one trace goes: its metadata, its packets, its end. Files are a sink ([`crate::Files`]).

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use strata_ctf::end_mark::{Ending, Losses};
use strata_ctf::packet::Header;
use strata_model::Counts;
use strata_ring::{Channel, Packet};

use crate::directory::Directory;
use crate::error::Error;

/// The records of a packet.
#[derive(Debug)]
pub enum Body<'b> {
    /// Private memory.
    Bytes(&'b [u8]),
    /// A packet of a ring, from this byte on, which its producer may change at any time: it goes to a file
    /// straight from there.
    Packet(&'b Packet<'b>, u64),
}

impl Body<'_> {
    /// Writes `header` and the records to `file` at offset `at`. Returns how many bytes that were.
    ///
    /// # Errors
    /// What the system said; a part may be written then.
    pub fn write_to(&self, file: BorrowedFd<'_>, at: u64, header: &[u8]) -> io::Result<u64> {
        match self {
            Body::Bytes(bytes) => strata_ring::write_both(file, at, header, bytes),
            Body::Packet(packet, from) => packet.write_to(file, at, header, *from),
        }
    }
}

/// A trace to which nothing comes any more, and what is in it.
#[derive(Debug)]
pub struct WrittenTrace {
    /// To be ended.
    pub sink: Box<dyn Sink>,
    /// What was discarded is not in it: that is told of a source's traces together.
    pub counts: Counts,
}

/// Takes one trace. Streams are told apart by the number of their CPU; the packets of one are appended in their
/// order. After an [`Error`] the trace is whole, without what failed, and the call may be tried again.
pub trait Sink: Debug + Send {
    /// What messages call it.
    fn path(&self) -> &Path;

    /// Replaces the metadata, which must describe what is appended behind it.
    ///
    /// # Errors
    /// What the system says.
    fn set_metadata(&mut self, text: &str) -> Result<(), Error>;

    /// The size of the metadata \[byte\].
    fn metadata_bytes(&self) -> u64;

    /// Appends a packet, whose header says its content size. All of it or nothing.
    ///
    /// # Errors
    /// What the system says.
    fn append(&mut self, cpu: u32, header: Header, body: &Body<'_>) -> Result<(), Error>;

    /// With the packet that is appended next to this stream, all that is before `position` in its ring is written
    /// \[byte since stream creation\].
    fn goes_upto(&mut self, _cpu: u32, _position: u64) {}

    /// Whether [`Sink::take_back`] can be called: no reader sees a stream before [`Sink::show`].
    fn takes_back(&self) -> bool {
        false
    }

    /// Takes away the packet that was appended last, which was found to be none.
    fn take_back(&mut self, _cpu: u32) {}

    /// All of the stream is there: readers are to see it.
    ///
    /// # Errors
    /// What the system says.
    fn show(&mut self, _cpu: u32) -> Result<(), Error> {
        Ok(())
    }

    /// Has the stream's last packet end at another time \[ns\].
    ///
    /// # Errors
    /// What the system says.
    fn set_end(&mut self, cpu: u32, end: u64) -> Result<(), Error>;

    /// Whether what describes the trace is to be there before the records are: they may be read where they lie.
    fn wants_memory(&self) -> bool {
        false
    }

    /// The packets of this channel will come.
    ///
    /// # Errors
    /// What the system says.
    fn lies_in(&mut self, _channel: &Channel) -> Result<(), Error> {
        Ok(())
    }

    /// What the stream takes there until now \[byte\].
    fn stream_bytes(&self, cpu: u32) -> u64;

    /// For now no packets of the last stream come: what is held open for it may be closed.
    fn pause(&mut self);

    /// Adds a stream of one packet, by name: as a whole or not at all.
    ///
    /// # Errors
    /// What the system says.
    fn set_stream(&mut self, name: &str, header: &[u8], body: &[u8]) -> Result<(), Error>;

    /// Adds the names of functions that addresses in records lie in, as bytes of the file that readers of the trace look
    /// for: as a whole or not at all.
    ///
    /// # Errors
    /// What the system says.
    fn set_symbols(&mut self, symbols: &[u8]) -> Result<(), Error>;

    /// Whether all of it is still there.
    ///
    /// # Errors
    /// [`Error::Gone`], and what else the system says.
    fn check(&self) -> Result<(), Error>;

    /// Says how the recording ended, and what of it is not in the trace.
    ///
    /// # Errors
    /// What the system says.
    fn end(&mut self, ending: Ending, losses: Losses) -> Result<(), Error>;

    /// The folder in which what was written can be read again, if there is one.
    fn directory(&self) -> Option<&Directory>;
}
