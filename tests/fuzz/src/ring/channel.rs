//! A channel in memory, and who writes to it.

use super::Input;
use rustix::fs::{ftruncate, memfd_create, MemfdFlags};
use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use strata_abi::ring;
use strata_ring::producer::{has_rseq, HeaderFormat, Producer};
use strata_ring::{channel_bytes, stream_layout, Attr, Channel, LossMode, Mapping, Publish};

/// Sub-buffers, small enough for an input to fill them: bytes of one, and their number.
const SIZES: [(u64, u64); 4] = [(64, 2), (128, 4), (256, 2), (4096, 2)];

/// Records are written by one CPU, always the same: each has a stream of its own.
fn cpu() -> u32 {
    static CPU: OnceLock<u32> = OnceLock::new();
    *CPU.get_or_init(|| {
        let allowed = sched_getaffinity(None).expect("the CPUs that this may run on");
        let cpu = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).expect("a CPU");
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one).expect("to stay on a CPU");
        cpu as u32
    })
}

/// Where something is written.
#[derive(Clone, Copy)]
pub struct Place {
    is_data: bool,
    /// The one that records go to, or the one behind it.
    other: bool,
    /// Of what describes packets, or of their bytes.
    index: u64,
}

impl Place {
    /// A word of what describes packets.
    pub fn word(input: &mut Input<'_>, more: u8) -> Place {
        let index = input.byte().unwrap_or(0).into();
        Place { is_data: false, other: more & 1 != 0, index }
    }

    /// Bytes of packets.
    pub fn data(input: &mut Input<'_>, more: u8) -> Place {
        let index = u64::from(input.byte().unwrap_or(0)) * 4;
        Place { is_data: true, other: more & 1 != 0, index }
    }
}

/// The producer first: it must not outlive the channel that it was made of.
pub struct Memory {
    pub producer: Producer,
    /// The channel that the producer was made of, unless somebody reads it.
    made: Option<Channel>,
    fd: OwnedFd,
    attr: Attr,
    pub is_large: bool,
    pub knows_classes: bool,
    /// It was found, and not made by who reads it.
    pub is_opened: bool,
    /// What is written when the collector asks for something, the last one first.
    pub later: Vec<(Place, u64)>,
}

impl Memory {
    pub fn new(setup: u8) -> Memory {
        let (subbuf_bytes, nr_subbufs) = SIZES[usize::from(setup >> 6)];
        let attr = Attr {
            publish: match setup & 1 != 0 && has_rseq() {
                true => Publish::ByPosition,
                false => Publish::ByCommit,
            },
            loss_mode: match setup & 2 != 0 {
                true => LossMode::Overwrite,
                false => LossMode::Discard,
            },
            subbuf_bytes,
            nr_subbufs,
            nr_cpus: cpu() + 2,
            start_position: match setup & 32 != 0 {
                true => 0u64.wrapping_sub(2 * subbuf_bytes * nr_subbufs),
                false => 0,
            },
        };
        let bytes = channel_bytes(&attr).expect("valid attributes");
        let fd = memfd_create("strata-fuzz", MemfdFlags::CLOEXEC).expect("memory to share");
        ftruncate(&fd, bytes).expect("memory to share");
        let mapping = Mapping::new(fd.as_fd(), 0, bytes).expect("memory to share");
        let channel = Channel::format(mapping, &attr).expect("a channel");
        let is_large = setup & 4 != 0;
        let header = if is_large { HeaderFormat::Large } else { HeaderFormat::Compact };
        Memory {
            producer: Producer::new(&channel, header).expect("memory"),
            made: Some(channel),
            fd,
            attr,
            is_large,
            knows_classes: setup & 8 != 0,
            is_opened: setup & 16 != 0,
            later: Vec::new(),
        }
    }

    /// The channel for who reads it: the one that was made, or what it is taken for after the application has
    /// written to its header.
    pub fn opened(&mut self, input: &mut Input<'_>) -> Option<Channel> {
        if !self.is_opened {
            return self.made.take();
        }
        for _ in 0..input.byte().unwrap_or(0) % 4 {
            let word = u64::from(input.byte().unwrap_or(0) % 9);
            self.producer.scribble(word * 8, &input.u64().to_ne_bytes());
        }
        let bytes = channel_bytes(&self.attr).expect("valid attributes");
        let mapping = Mapping::new(self.fd.as_fd(), 0, bytes).expect("memory to share");
        match Channel::open(mapping) {
            Ok(channel) => Some(channel),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                None
            }
        }
    }

    /// Reserves room that is never committed, where that can be; false: there was none.
    pub fn abandon(&self, bytes: u32) -> Option<bool> {
        let can = self.attr.publish == Publish::ByCommit;
        can.then(|| self.producer.abandon(bytes))
    }

    pub fn write(&self, place: Place, bytes: &[u8]) {
        let layout = stream_layout(&self.attr).expect("valid attributes");
        let stream = cpu() + u32::from(place.other);
        let begin = u64::from(ring::PAGE) + u64::from(stream) * layout.stride_bytes;
        let frames = self.attr.nr_subbufs + 1;
        let (from, size) = match place.is_data {
            true => (layout.data_offset, frames * self.attr.subbuf_bytes),
            false => (0, layout.frames_offset + frames * size_of::<ring::Frame>() as u64),
        };
        let at = match place.is_data {
            true => place.index % size,
            false => place.index % (size / 8) * 8,
        };
        let bytes = &bytes[..bytes.len().min((size - at) as usize)];
        self.producer.scribble(begin + from + at, bytes);
    }

    /// Any, or one that means something: positions above all.
    pub fn value(&self, input: &mut Input<'_>, more: u8) -> u64 {
        let Attr { subbuf_bytes, start_position, .. } = self.attr;
        match more >> 1 & 7 {
            0..=2 => {
                let subbufs = u64::from(input.byte().unwrap_or(0)) * subbuf_bytes;
                start_position.wrapping_add(subbufs)
            }
            3 => start_position.wrapping_add(input.byte().unwrap_or(0).into()),
            4 => input.byte().unwrap_or(0).into(),
            5 => u64::MAX - u64::from(input.byte().unwrap_or(0)),
            6 => {
                let (records, bytes) = (input.byte().unwrap_or(0), input.byte().unwrap_or(0));
                u64::from(records) << 32 | u64::from(bytes)
            }
            _ => input.u64(),
        }
    }
}
