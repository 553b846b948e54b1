//! A channel: made in mapped memory for another process to write, or found there.

use crate::description::{ChannelDescription, Publish};
use crate::error::Error;
use crate::ffi;
use crate::mapping::{Mapping, StreamLayout};
use crate::stream::Stream;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use strata_abi::ring;
use strata_model::LossMode;

/// What is chosen when a channel is made.
///
/// The format of record headers is not part of it: records are bytes to a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// When full.
    pub loss_mode: LossMode,
    /// How its producers write; only they know what they can.
    pub publish: Publish,
    /// A power of two \[byte\].
    pub subbuf_bytes: u64,
    /// A power of two, at least 2.
    pub nr_subbufs: u64,
    /// Streams: the largest CPU number that a producer can run on, plus 1. 0: possible CPUs here.
    pub nr_cpus: u32,
    /// Where positions begin; a multiple of the buffer's size. 0, but for tests near 2^64.
    pub start_position: u64,
}

impl Attr {
    fn to_ffi(self) -> ffi::Attr {
        ffi::Attr {
            subbuf_bytes: self.subbuf_bytes,
            nr_subbufs: self.nr_subbufs,
            start_position: self.start_position,
            loss_mode: match self.loss_mode {
                LossMode::Discard => ring::DISCARD,
                LossMode::Overwrite => ring::OVERWRITE,
            },
            publish: match self.publish {
                Publish::ByCommit => ring::BY_COMMIT,
                Publish::ByPosition => ring::BY_POSITION,
            },
            nr_cpus: self.nr_cpus,
            reserved: 0,
        }
    }
}

/// How much memory a channel needs \[byte\]; a multiple of 4096.
///
/// # Errors
/// [`Error::Attr`]: a value is outside its limits.
pub fn channel_bytes(attr: &Attr) -> Result<u64, Error> {
    let (mut bytes, mut text) = (0, ffi::Text::new());
    // SAFETY: reads the attributes, and writes to the two local variables.
    let code = unsafe { ffi::strata_shim_channel_bytes(&attr.to_ffi(), &mut bytes, &mut text) };
    match code {
        0 => Ok(bytes),
        _ => Err(Error::Attr(text.get())),
    }
}

/// How the streams of a channel with these attributes are laid out; see [`Mapping::of_streams`].
///
/// # Errors
/// [`Error::Attr`]: a value is outside its limits.
pub fn stream_layout(attr: &Attr) -> Result<StreamLayout, Error> {
    let (mut layout, mut text) = (ffi::Layout::default(), ffi::Text::new());
    // SAFETY: reads the attributes, and writes to the two local variables.
    let code = unsafe { ffi::strata_shim_layout_of(&attr.to_ffi(), &mut layout, &mut text) };
    match code {
        0 => Ok(StreamLayout {
            stride_bytes: layout.stride_bytes,
            frames_offset: layout.frames_offset,
            data_offset: layout.data_offset,
            // The C side has it as u32.
            nr_streams: layout.nr_streams as u32,
        }),
        _ => Err(Error::Attr(text.get())),
    }
}

/// The streams of one channel, and where their one consumer has got to.
#[derive(Debug)]
pub struct Channel {
    description: ChannelDescription,
    /// Which streams were looked at already.
    begun: Vec<bool>,
    /// Where the barrier of [`Channel::order_by`] is asked for.
    barrier: Option<OwnedFd>,
    /// Behind the others: unmapped last, when no view of it is left either.
    mapping: Arc<Mapping>,
}

impl Channel {
    /// Makes an empty channel in memory that holds zeros, for another process to write.
    ///
    /// # Errors
    /// [`Error::Attr`], [`Error::NoRoom`], [`Error::NoMemory`].
    pub fn format(mapping: Mapping, attr: &Attr) -> Result<Self, Error> {
        let (mut shim, mut text) = (std::ptr::null_mut(), ffi::Text::new());
        let (attr, memory, bytes) = (attr.to_ffi(), mapping.as_ptr(), mapping.bytes());
        // SAFETY: memory has so many bytes, and outlives the description made here.
        let code = unsafe { ffi::strata_shim_format(&attr, memory, bytes, &mut shim, &mut text) };
        Self::new(Arc::new(mapping), shim, code, &text, Error::Attr)
    }

    /// Goes on with a channel whose streams are there and whose header is not: that of [`Mapping::of_streams`] was
    /// memory of the process that made it, which has ended. The streams are as it has left them.
    ///
    /// # Errors
    /// As [`Channel::format`].
    pub fn adopt(mapping: Mapping, attr: &Attr) -> Result<Self, Error> {
        let (mut shim, mut text) = (std::ptr::null_mut(), ffi::Text::new());
        let (attr, memory, bytes) = (attr.to_ffi(), mapping.as_ptr(), mapping.bytes());
        // SAFETY: memory has so many bytes, and outlives the description made here.
        let code = unsafe { ffi::strata_shim_adopt(&attr, memory, bytes, &mut shim, &mut text) };
        Self::new(Arc::new(mapping), shim, code, &text, Error::Attr)
    }

    /// Reads a channel that is there; its header is copied, and the copy checked.
    ///
    /// # Errors
    /// [`Error::Header`], [`Error::NoRoom`], [`Error::NoMemory`].
    pub fn open(mapping: Mapping) -> Result<Self, Error> {
        let (mut shim, mut text) = (std::ptr::null_mut(), ffi::Text::new());
        let (memory, bytes) = (mapping.as_ptr(), mapping.bytes());
        // SAFETY: memory has so many bytes, and outlives the description made here.
        let code = unsafe { ffi::strata_shim_open(memory, bytes, &mut shim, &mut text) };
        Self::new(Arc::new(mapping), shim, code, &text, Error::Header)
    }

    /// The same memory, described as this copy of its header says.
    pub(crate) fn again(&self) -> Result<Self, Error> {
        let (mut shim, mut text) = (std::ptr::null_mut(), ffi::Text::new());
        // SAFETY: the description lives, and the new one keeps the mapping that it is of.
        let code = unsafe { ffi::strata_shim_again(self.shim(), &mut shim, &mut text) };
        Self::new(Arc::clone(&self.mapping), shim, code, &text, Error::Header)
    }

    fn new(
        mapping: Arc<Mapping>,
        shim: *mut ffi::Shim,
        code: i32,
        text: &ffi::Text,
        refused: fn(String) -> Error,
    ) -> Result<Self, Error> {
        let description = ChannelDescription::new(shim, code, text, refused)?;
        let begun = vec![false; description.header().nr_streams as usize];
        Ok(Self { description, begun, barrier: None, mapping })
    }

    /// For a channel whose producers order what they store for their own CPU only (`STRATA_RING_WRITERS_UNORDERED`):
    /// `ioctl(device, request, stream)` comes back when that stream's CPU has made a full memory barrier between two
    /// of its instructions. It is asked for once for each packet. Such a channel has no walks, prefixes only in
    /// discard mode, and is flushed by its own CPU.
    ///
    /// Before any [`Channel::stream`]; a stream that was looked at before is read from its begin again.
    pub fn order_by(&mut self, device: OwnedFd, request: u64) {
        // SAFETY: the descriptor is kept as long as the description that names it.
        unsafe {
            ffi::strata_shim_set_barrier(self.shim(), device.as_raw_fd(), request);
        }
        self.barrier = Some(device);
        self.begun.fill(false);
    }

    /// Streams of the channel.
    #[must_use]
    pub fn nr_streams(&self) -> u32 {
        self.description.header().nr_streams
    }

    /// Size of a sub-buffer \[byte\].
    #[must_use]
    pub fn subbuf_bytes(&self) -> u64 {
        self.description.header().subbuf_bytes
    }

    /// Sub-buffers of each stream.
    #[must_use]
    pub fn nr_subbufs(&self) -> u32 {
        self.description.header().nr_subbufs
    }

    /// What happens when all of them are full.
    #[must_use]
    pub fn loss_mode(&self) -> LossMode {
        match self.description.header().loss_mode {
            ring::DISCARD => LossMode::Discard,
            _ => LossMode::Overwrite,
        }
    }

    /// How its producers publish.
    #[must_use]
    pub fn publish(&self) -> Publish {
        self.description.publish()
    }

    /// Size of the memory it lies in \[byte\].
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        self.mapping.bytes()
    }

    /// Where it is mapped, for who looks up which memory of the machine that is: the first address.
    #[must_use]
    pub fn address(&self) -> usize {
        self.mapping.as_ptr() as usize
    }

    /// A copy of the channel's header, in a page of it.
    #[must_use]
    pub fn first_page(&self) -> Vec<u8> {
        let mut page = vec![0u8; ring::PAGE as usize];
        // SAFETY: a channel's memory begins with a page for its header, and the vector has as many bytes.
        unsafe {
            ffi::strata_shim_copy(
                page.as_mut_ptr(),
                self.mapping.as_ptr().cast(),
                page.len() as u64,
            );
        }
        page
    }

    /// The stream with this number: the CPU's, or 0 for a global channel.
    ///
    /// # Errors
    /// [`Error::NoStream`]; [`Error::Table`]: its memory is damaged.
    pub fn stream(&mut self, stream: u32) -> Result<Stream<'_>, Error> {
        let nr_streams = self.description.header().nr_streams;
        let begun = match self.begun.get_mut(stream as usize) {
            Some(begun) => begun,
            None => return Err(Error::NoStream { stream, nr_streams }),
        };
        if !*begun {
            // SAFETY: the stream is one of the channel's.
            if unsafe { ffi::strata_shim_begin(self.description.shim(), stream) } != 0 {
                return Err(Error::Table { stream });
            }
            *begun = true;
        }
        Ok(Stream::new(&mut self.description, stream))
    }

    pub(crate) fn shim(&self) -> *mut ffi::Shim {
        self.description.shim()
    }

    /// For a test that damages the memory, or that produces in it.
    #[cfg(any(test, feature = "producer"))]
    pub(crate) fn memory(&self) -> *mut std::ffi::c_void {
        self.mapping.as_ptr()
    }
}
