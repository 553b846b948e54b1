//! The destination of one trace: its metadata, its packets, its end. Files are a sink ([`crate::Files`]).
//!
//! [`Sink`] has what every destination can do. What only some can do is a capability, which a sink returns or does not:
//!
//! | capability | who has it | what for |
//! |---|---|---|
//! | [`Sink::directory`] | files | written files are read again: to check them, to go on with them |
//! | [`Sink::hidden_streams`] | files of a snapshot | a packet that its producer has overwritten meanwhile is taken back |
//! | [`Sink::memory_reader`] | the channel from a guest to its host | the host reads what the guest could not hand over |
//!
//! A sink that sends its trace elsewhere implements the required methods and none of these.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use strata_ctf::end_mark::{Ending, Losses};
use strata_ctf::packet::Header;
use strata_ctf::progress_mark::ProgressMark;
use strata_model::Counts;
use strata_ring::{Channel, Packet};

use crate::directory::Directory;
use crate::error::Error;

/// The records of a packet.
#[derive(Debug)]
pub enum Body<'b> {
    /// Bytes in private memory, which nobody else can change.
    Bytes(&'b [u8]),
    /// A packet of a ring, from this byte on. Its producer may change it at any time; it is written to a file straight
    /// from the ring.
    Packet(&'b Packet<'b>, u64),
}

impl Body<'_> {
    /// Returns the records in private memory; those of a ring are copied to `copied` first.
    ///
    /// # Errors
    /// The ring's memory cannot be read.
    pub fn in_memory<'c>(
        &'c self,
        copied: &'c mut Vec<u8>,
    ) -> Result<&'c [u8], strata_ring::Error> {
        match self {
            Body::Bytes(bytes) => Ok(bytes),
            Body::Packet(packet, from) => {
                packet.copy_to(*from, copied)?;
                Ok(copied)
            }
        }
    }

    /// Appends the records to `out`.
    ///
    /// # Errors
    /// The ring's memory cannot be read, or there is no memory for them.
    pub fn copy_to(&self, out: &mut Vec<u8>) -> Result<(), strata_ring::Error> {
        match self {
            Body::Bytes(bytes) => out.extend_from_slice(bytes),
            Body::Packet(packet, from) => packet.copy_to(*from, out)?,
        }
        Ok(())
    }

    /// Writes `header` and the records to `file` at offset `at`. Returns the number of written bytes.
    ///
    /// # Errors
    /// A system call failed; a part may be written then.
    pub fn write_to(&self, file: BorrowedFd<'_>, at: u64, header: &[u8]) -> io::Result<u64> {
        match self {
            Body::Bytes(bytes) => strata_ring::write_both(file, at, header, bytes),
            Body::Packet(packet, from) => packet.write_to(file, at, header, *from),
        }
    }
}

/// A complete trace and the counts of its records.
#[derive(Debug)]
pub struct WrittenTrace {
    /// Sink that still has to be ended.
    pub sink: Box<dyn Sink>,
    /// Counts of the trace without its discards, which are reported for all traces of a source together.
    pub counts: Counts,
}

/// Destination of one trace. Its streams are numbered by their CPU; the packets of each are appended in their order.
/// After an [`Error`] the trace is whole, without what failed, and the call may be tried again.
pub trait Sink: Debug + Send {
    /// Returns the name of the destination for messages.
    fn path(&self) -> &Path;

    /// Replaces the metadata, which must describe every packet that is appended afterwards.
    ///
    /// # Errors
    /// A system call failed.
    fn set_metadata(&mut self, text: &str) -> Result<(), Error>;

    /// Returns the size of the metadata \[byte\].
    fn metadata_bytes(&self) -> u64;

    /// Appends a packet, wholly or not at all; `header` has the size of its content.
    ///
    /// # Errors
    /// A system call failed.
    fn append(&mut self, cpu: u32, header: Header, body: &Body<'_>) -> Result<(), Error>;

    /// Appends a packet of so many event records, for a destination that counts what it does not take. `records` is 0 if
    /// it is not known.
    ///
    /// # Errors
    /// As [`Sink::append`].
    fn append_counted(
        &mut self,
        cpu: u32,
        header: Header,
        body: &Body<'_>,
        _records: u64,
    ) -> Result<(), Error> {
        self.append(cpu, header, body)
    }

    /// Changes the end time of the stream's last packet \[ns\].
    ///
    /// # Errors
    /// A system call failed.
    fn set_end(&mut self, cpu: u32, end: u64) -> Result<(), Error>;

    /// Returns the size of the stream in the destination so far \[byte\].
    fn stream_bytes(&self, cpu: u32) -> u64;

    /// Announces that no packets follow for now, so that files may be closed.
    fn pause(&mut self) {}

    /// Adds a stream with one packet and this name, wholly or not at all.
    ///
    /// # Errors
    /// A system call failed.
    fn set_stream(&mut self, name: &str, header: &[u8], body: &[u8]) -> Result<(), Error>;

    /// Adds the names of the functions to which addresses in records belong, wholly or not at all. `symbols` is the
    /// content of the file in which readers of the trace look for them.
    ///
    /// # Errors
    /// A system call failed.
    fn set_symbols(&mut self, symbols: &[u8]) -> Result<(), Error>;

    /// Notes that all records before `mark` are written, for readers that follow the trace.
    ///
    /// # Errors
    /// A system call failed.
    fn set_progress(&mut self, _mark: &ProgressMark) -> Result<(), Error> {
        Ok(())
    }

    /// Checks that the destination still exists.
    ///
    /// # Errors
    /// [`Error::Gone`] if it was removed; other errors if a system call failed.
    fn check(&self) -> Result<(), Error>;

    /// Writes how the recording ended, and what it has discarded.
    ///
    /// # Errors
    /// A system call failed.
    fn end(&mut self, ending: Ending, losses: Losses) -> Result<(), Error>;

    /// Returns the folder in which written files can be read again, if there is one.
    fn directory(&self) -> Option<&Directory> {
        None
    }

    /// Returns the additional abilities of a sink whose streams no reader sees before they are complete.
    fn hidden_streams(&mut self) -> Option<&mut dyn HiddenStreams> {
        None
    }

    /// Returns the additional abilities of a sink whose reader also reads the ring's own memory.
    fn memory_reader(&mut self) -> Option<&mut dyn MemoryReader> {
        None
    }
}

/// Capability of a sink whose streams no reader sees before they are shown, so that a packet can be taken back.
pub trait HiddenStreams {
    /// Removes the packet that was appended last, which was found to be invalid.
    fn take_back(&mut self, cpu: u32);

    /// Shows the complete stream to readers.
    ///
    /// # Errors
    /// A system call failed.
    fn show(&mut self, cpu: u32) -> Result<(), Error>;
}

/// Capability of a sink whose other end also reads the ring's memory: the host of a virtual machine does so after the
/// guest has panicked. The sink needs the metadata of every class before the first record of the class.
pub trait MemoryReader {
    /// Passes on where the memory of the channel is, before its first packet.
    ///
    /// # Errors
    /// A system call failed.
    fn lies_in(&mut self, channel: &Channel) -> Result<(), Error>;

    /// Notes that the next packet appended to this stream completes everything before `position` in its ring \[byte
    /// since stream creation\].
    fn goes_upto(&mut self, cpu: u32, position: u64);
}
