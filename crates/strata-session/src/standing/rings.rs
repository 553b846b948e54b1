//! The kernel's rings, held by the trustee of a session whose rings are not pinned (`--keep`): should the session be
//! killed, the next one counts what was in them and nobody had read. Programs in the kernel end with the session.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};

use serde::{Deserialize, Serialize};
use strata_kernel::RingsShape;

use crate::standing::slots::ChannelSlots;
use crate::standing::trust::{OtherMemory, Trusted};

/// Numbers of maps of the kernel, so that none is an inode number.
const OF_MAPS: u64 = 1 << 63;

/// What is said of a channel's rings, beside the map that has them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RingsFacts {
    channel: String,
    rings: RingsShape,
}

/// A channel's rings, which are held as long as this is there.
#[derive(Debug)]
pub(crate) struct HeldRings {
    number: u64,
    slots: ChannelSlots,
}

impl ChannelSlots {
    /// `None`: there is nobody who holds them.
    pub(crate) fn hold_rings(&self, map: BorrowedFd<'_>, rings: RingsShape) -> Option<HeldRings> {
        let trusted = self.all.trusted()?;
        let facts = RingsFacts { channel: self.channel.clone(), rings };
        let facts = serde_json::to_vec(&facts).ok()?;
        let number = OF_MAPS | u64::from(RingsShape::number(map).ok()?);
        trusted.hold_other(OtherMemory { number, facts, fd: map.try_clone_to_owned().ok()? });
        Some(HeldRings { number, slots: self.clone() })
    }
}

impl Drop for HeldRings {
    fn drop(&mut self) {
        if let Some(trusted) = self.slots.all.trusted() {
            trusted.let_go_other(self.number);
        }
    }
}

/// What was in the kernel's rings of the session that was killed and nobody had read, by channel: whole sentences. It is
/// counted once; nobody holds it any more.
pub(super) fn count_left(trusted: &Trusted) -> Vec<String> {
    let mut records: BTreeMap<String, u64> = BTreeMap::new();
    let mut remarks = Vec::new();
    for held in trusted.take_others() {
        // Of another version.
        let Ok(RingsFacts { channel, rings }) = serde_json::from_slice(&held.facts) else {
            continue;
        };
        let Some(map) = held.fds.first() else { continue };
        match rings.take_unread(map.as_fd()) {
            Ok(unread) => *records.entry(channel).or_default() += unread,
            Err(error) => remarks.push(format!(
                "the session before this one was killed: how many records its kernel buffers of channel '{channel}' still held, \
                 which are in no trace, cannot be counted: {error}"
            )),
        }
    }
    let left = records.into_iter().filter(|(_, records)| *records > 0);
    remarks.extend(left.map(|(channel, records)| {
        format!(
            "the session before this one was killed: {} that its kernel buffers of channel '{channel}' still held are in no \
             trace, and nothing was recorded until this one began. `strata create --keep` makes a session whose kernel \
             buffers stay, and are recorded into meanwhile",
            of_records(records)
        )
    }));
    remarks
}

fn of_records(records: u64) -> String {
    match records {
        1 => "1 record".to_owned(),
        _ => format!("{records} records"),
    }
}
