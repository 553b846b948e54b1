//! The kernel's rings, which the fdstore holds for a session whose rings are not pinned (`--keep`). If the session is
//! killed, the next one counts the unread records in them. The programs in the kernel end with the session.

use std::os::fd::{AsFd, BorrowedFd};

use strata_kernel::RingsShape;

use crate::daemon::fdstore::{FdStore, OtherMemory};
use crate::daemon::slot_file::ChannelSlots;
use strata_text::json;

/// Bit that is set in the numbers of kernel maps, so that they differ from all inode numbers.
const OF_MAPS: u64 = 1 << 63;

/// The rings of a channel, which the fdstore holds as long as this value lives.
#[derive(Debug)]
pub(crate) struct FdstoreRings {
    number: u64,
    slots: ChannelSlots,
}

impl ChannelSlots {
    /// Hands the rings' memory to the fdstore; `None` if there is no fdstore.
    pub(crate) fn hold_rings(
        &self,
        map: BorrowedFd<'_>,
        rings: RingsShape,
    ) -> Option<FdstoreRings> {
        let fdstore = self.all.fdstore()?;
        let facts = json::compact(&rings).into_bytes();
        let number = OF_MAPS | u64::from(RingsShape::number(map).ok()?);
        fdstore.hold_other(OtherMemory { number, facts, fd: map.try_clone_to_owned().ok()? });
        Some(FdstoreRings { number, slots: self.clone() })
    }
}

impl Drop for FdstoreRings {
    fn drop(&mut self) {
        if let Some(fdstore) = self.slots.all.fdstore() {
            fdstore.let_go_other(self.number);
        }
    }
}

/// Counts the unread records in the kernel's rings of the killed session. Returns remarks on them. The rings are
/// released, so that their records are counted only once. `holds`: true if the session was a flight recorder.
pub(super) fn count_left(fdstore: &FdStore, holds: bool) -> Vec<String> {
    let (mut records, mut refused) = (0u64, None);
    for held in fdstore.take_others() {
        let rings = serde_json::from_slice::<RingsShape>(&held.facts).ok();
        let unread = match (rings, held.fds.first()) {
            (Some(rings), Some(map)) => {
                rings.take_unread(map.as_fd()).map_err(|error| error.to_string())
            }
            _ => Err("they are of another version of Strata".to_owned()),
        };
        match unread {
            Ok(unread) => records = records.saturating_add(unread),
            Err(why) => refused = Some(why),
        }
    }
    let left = (records > 0).then(|| {
        let snapshots = if holds { " but snapshots that were written before" } else { "" };
        let noun = if records == 1 { "record" } else { "records" };
        format!(
            "the session before this one was killed: its kernel buffers still held {records} {noun}, in no trace{snapshots}. \
             Of the kernel nothing was recorded from then until now; `strata create --keep`, as root, makes a session whose \
             kernel part goes on"
        )
    });
    let refused = refused.map(|why| {
        format!(
            "the session before this one was killed: what its kernel buffers still held is in no trace, and cannot be \
             counted: {why}"
        )
    });
    left.into_iter().chain(refused).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use strata_control::HeldMemory;

    #[test]
    fn what_is_no_map_of_rings_is_reported_and_not_held_any_longer() {
        let shape = br#"{"overwrites": true, "subbuf_bytes": 4096, "nr_subbufs": 2}"#;
        for (facts, why) in [
            (&b"{\"rings\": 1}"[..], "of another version"),
            (shape, "cannot be counted: "),
            (br#"{"overwrites": true, "subbuf_bytes": 3, "nr_subbufs": 2}"#, "cannot be counted: "),
        ] {
            let fd = OwnedFd::from(std::fs::File::open("/proc/self/exe").unwrap());
            let held = HeldMemory { number: OF_MAPS | 7, facts: facts.to_vec(), fds: vec![fd] };
            let fdstore = FdStore::holding_other(held);
            let said = count_left(&fdstore, true);
            assert!(said.len() == 1 && said[0].contains(why), "{said:?}");
            assert!(count_left(&fdstore, true).is_empty());
        }
        assert!(serde_json::from_slice::<RingsShape>(shape).is_ok());
    }
}
