//! Channels, which are created in mapped memory for another process to write, or opened there.

use crate::description::{ChannelDescription, Publish};
use crate::error::Error;
use crate::ffi;
use crate::mapping::{Mapping, StreamLayout};
use crate::stream::Stream;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use strata_abi::ring;
use strata_model::LossMode;

/// Attributes of a new channel.
///
/// The format of record headers is not among them: for a consumer, records are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Loss mode: what producers do when all sub-buffers are full.
    pub loss_mode: LossMode,
    /// Publication mode of the producers, which must support it.
    pub publish: Publish,
    /// Size of a sub-buffer, a power of two \[byte\].
    pub subbuf_bytes: u64,
    /// Number of sub-buffers of each stream, a power of two, at least 2.
    pub nr_subbufs: u64,
    /// The number of streams, which is the largest CPU number on which a producer can run, plus 1. 0 stands for all
    /// CPUs that are possible on this machine.
    pub nr_cpus: u32,
    /// First write position, a multiple of the buffer's size. It is 0 except in tests near 2^64.
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

/// Returns the size of the memory that a channel needs, a multiple of 4096 \[byte\].
///
/// # Errors
/// [`Error::Attr`] if a value is outside its limits.
pub fn channel_bytes(attr: &Attr) -> Result<u64, Error> {
    let (mut bytes, mut text) = (0, ffi::Text::new());
    // SAFETY: reads the attributes, and writes to the two local variables.
    let code = unsafe { ffi::strata_shim_channel_bytes(&attr.to_ffi(), &mut bytes, &mut text) };
    match code {
        0 => Ok(bytes),
        _ => Err(Error::Attr(text.get())),
    }
}

/// Returns the layout of the streams of a channel with these attributes; see [`Mapping::of_streams`].
///
/// # Errors
/// [`Error::Attr`] if a value is outside its limits.
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

/// The streams of one channel, with the read position of their one consumer.
#[derive(Debug)]
pub struct Channel {
    description: ChannelDescription,
    /// For each stream, whether its reader has begun.
    begun: Vec<bool>,
    /// Device from which [`Channel::order_by`] requests barriers.
    barrier: Option<OwnedFd>,
    /// The memory of the channel. It is the last field, so that it is unmapped after every use of it.
    mapping: Arc<Mapping>,
}

impl Channel {
    /// Creates an empty channel in memory that is all zeros, for another process to write.
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

    /// Adopts a channel whose streams exist and whose header does not: the header of [`Mapping::of_streams`] was memory
    /// of the process that created the channel and has ended. The streams stay as that process has left them.
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

    /// Opens an existing channel; its header is copied, and the copy is checked.
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

    /// Makes another description of the same memory, from the copy of its header.
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

    /// Requests a memory barrier for each packet, for producers whose stores are ordered for their own CPU only
    /// (`STRATA_RING_WRITERS_UNORDERED`): `ioctl(device, request, stream)` returns when that stream's CPU has made a
    /// full memory barrier between two of its instructions. It is called once for each packet. Such a channel has no
    /// scans, has prefixes in discard mode only, and is flushed by its own CPU.
    ///
    /// To be called before any [`Channel::stream`]; a stream that was used before is read from its begin again.
    pub fn order_by(&mut self, device: OwnedFd, request: u64) {
        // SAFETY: the descriptor is kept as long as the description that names it.
        unsafe {
            ffi::strata_shim_set_barrier(self.shim(), device.as_raw_fd(), request);
        }
        self.barrier = Some(device);
        self.begun.fill(false);
    }

    /// Returns the number of streams.
    #[must_use]
    pub fn nr_streams(&self) -> u32 {
        self.description.header().nr_streams
    }

    /// Returns the size of a sub-buffer \[byte\].
    #[must_use]
    pub fn subbuf_bytes(&self) -> u64 {
        self.description.header().subbuf_bytes
    }

    /// Returns the number of sub-buffers of each stream.
    #[must_use]
    pub fn nr_subbufs(&self) -> u32 {
        self.description.header().nr_subbufs
    }

    /// Returns what producers do when all sub-buffers are full.
    #[must_use]
    pub fn loss_mode(&self) -> LossMode {
        match self.description.header().loss_mode {
            ring::DISCARD => LossMode::Discard,
            _ => LossMode::Overwrite,
        }
    }

    /// Returns the publication mode of the channel's producers.
    #[must_use]
    pub fn publish(&self) -> Publish {
        self.description.publish()
    }

    /// Returns the size of the channel's memory \[byte\].
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        self.mapping.bytes()
    }

    /// Returns the address of the mapping, from which the physical addresses of its pages can be found.
    #[must_use]
    pub fn address(&self) -> usize {
        self.mapping.as_ptr() as usize
    }

    /// Returns a copy of the channel's first page, which has the header.
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

    /// Returns the stream with this number: the CPU's, or 0 in a global channel.
    ///
    /// # Errors
    /// [`Error::NoStream`]; [`Error::Table`] if the stream's memory is damaged.
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

    /// Returns the raw memory, for a test that damages it or produces in it.
    pub(crate) fn memory(&self) -> *mut std::ffi::c_void {
        self.mapping.as_ptr()
    }
}
