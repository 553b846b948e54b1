//! Counts the unread records that a killed session left in its rings, as long as somebody holds their map.

use crate::attach::loader::{are_rings, value_bytes};
use crate::persist::pins::info;
use libbpf_sys as sys;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::BorrowedFd;
use strata_ring::{stream_layout, Attr, Channel, Error, LossMode, Mapping, Publish, Stream};

/// The sizes of the rings in a map, for a process that has only the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RingsShape {
    overwrites: bool,
    subbuf_bytes: u64,
    nr_subbufs: u64,
}

impl RingsShape {
    pub(crate) fn new(loss_mode: LossMode, subbuf_bytes: u64, nr_subbufs: u64) -> RingsShape {
        RingsShape { overwrites: loss_mode == LossMode::Overwrite, subbuf_bytes, nr_subbufs }
    }

    pub(crate) fn of(attr: &Attr) -> RingsShape {
        RingsShape::new(attr.loss_mode, attr.subbuf_bytes, attr.nr_subbufs)
    }

    /// Returns the attributes by which the rings were made.
    pub(crate) fn attr(self) -> Attr {
        Attr {
            loss_mode: if self.overwrites { LossMode::Overwrite } else { LossMode::Discard },
            publish: Publish::ByCommit,
            subbuf_bytes: self.subbuf_bytes,
            nr_subbufs: self.nr_subbufs,
            nr_cpus: 0,
            start_position: 0,
        }
    }

    /// Returns the kernel's id of a map of rings, which no other map has as long as this one
    /// exists.
    ///
    /// # Errors
    /// The kernel does not describe the map.
    pub fn number(map: BorrowedFd<'_>) -> io::Result<u32> {
        let found: sys::bpf_map_info = info(map)?;
        Ok(found.id)
    }

    /// Takes all unread records out of the rings, and returns their number. To be called once in the same boot, when
    /// the reading process and the writing programs are gone.
    ///
    /// # Errors
    /// The map has no such rings, or cannot be mapped.
    pub fn take_unread(self, map: BorrowedFd<'_>) -> io::Result<u64> {
        let attr = self.attr();
        let layout = stream_layout(&attr).map_err(io::Error::other)?;
        let found: sys::bpf_map_info = info(map)?;
        let bytes = value_bytes(&layout);
        if !are_rings(&found, layout.nr_streams, bytes) {
            return Err(io::Error::other(format!(
                "the map has {} values of {} bytes, and rings have {} of {bytes}",
                found.max_entries, found.value_size, layout.nr_streams
            )));
        }
        let mapping = Mapping::of_streams(map, &layout, bytes).map_err(io::Error::other)?;
        let mut channel = Channel::adopt(mapping, &attr).map_err(io::Error::other)?;
        let mut all = 0u64;
        for number in 0..channel.nr_streams() {
            let mut stream = channel.stream(number).map_err(io::Error::other)?;
            all = all.saturating_add(take_all(&mut stream, self.nr_subbufs));
        }
        Ok(all)
    }
}

fn take_all(stream: &mut Stream<'_>, nr_subbufs: u64) -> u64 {
    // The one being filled has its number of records once it is delivered.
    let _ = stream.flush();
    let mut all = 0u64;
    for _ in 0..=nr_subbufs {
        match stream.next() {
            Ok(Some(packet)) => {
                all = all.saturating_add(packet.info().records.unwrap_or(0));
                packet.put();
            }
            // It is skipped.
            Err(Error::Packet { .. }) => {}
            Ok(None) | Err(_) => break,
        }
    }
    all
}
