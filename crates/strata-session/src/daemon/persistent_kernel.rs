//! Notes the kernel programs that continue to record for a killed session (`--keep`), in files outside of the session's
//! process, and the data that were written when it was killed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use strata_collect::LastPacket;
use strata_kernel::session::Keeping;
use strata_kernel::{AdoptionRecord, ChannelPins};
use strata_ring::Channel;

use crate::kernel::samples::LeftOutBefore;
use crate::output::folder::stream_file;
use crate::output::retention::WriteNotes;
use crate::session::lock::lock;
use strata_text::json;

/// The notes on one channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Noted {
    pub(crate) kernel: AdoptionRecord,
    /// The folder into which the channel's packets are written.
    folder: Option<PathBuf>,
    /// For each stream, the number of discarded records that earlier traces report.
    told: Vec<u64>,
    /// For each event, the number that was left out of samples, as earlier traces report.
    #[serde(default)]
    pub(crate) left_out: LeftOutBefore,
}

/// The notes on the kernel's part of a session, for each channel.
pub struct PersistentKernel {
    session: String,
    write: WriteNotes,
    all: Mutex<BTreeMap<String, Noted>>,
}

/// The notes of one channel.
#[derive(Clone)]
pub(crate) struct PersistentChannel {
    pub(crate) all: Arc<PersistentKernel>,
    pub(crate) channel: String,
}

impl PersistentKernel {
    /// Creates the notes of the session with this name, from those of the killed session before it. Unreadable notes
    /// count as none, and the pinned objects are then removed.
    #[must_use]
    pub fn new(session: &str, before: &str, write: WriteNotes) -> PersistentKernel {
        let all = Mutex::new(serde_json::from_str(before).unwrap_or_default());
        PersistentKernel { session: session.to_owned(), write, all }
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Noted>)) -> io::Result<()> {
        let mut all = lock(&self.all);
        change(&mut all);
        (self.write)(&json::compact(&*all))
    }

    /// Removes all pinned objects, so that no later session adopts them.
    pub(crate) fn remove(&self) -> Result<usize, strata_kernel::Error> {
        strata_kernel::remove_pinned(&self.session)
    }
}

impl PersistentChannel {
    /// Returns the notes of the killed session, if they are from the present boot of the machine.
    pub(crate) fn before(&self) -> Option<Noted> {
        lock(&self.all.all).get(&self.channel).filter(|one| one.kernel.is_of_this_boot()).cloned()
    }

    /// # Errors
    /// The kernel's objects cannot be pinned.
    pub(crate) fn keeping(&self) -> Result<Keeping, strata_kernel::Error> {
        let pins = Arc::new(ChannelPins::open(&self.all.session, &self.channel)?);
        let (all, channel) = (Arc::clone(&self.all), self.channel.clone());
        let note = move |kernel: &AdoptionRecord| {
            all.change(|all| match all.get_mut(&channel) {
                Some(noted) => noted.kernel.clone_from(kernel),
                None => {
                    let (kernel, left_out) = (kernel.clone(), LeftOutBefore::new());
                    let noted = Noted { kernel, folder: None, told: Vec::new(), left_out };
                    all.insert(channel.clone(), noted);
                }
            })
        };
        Ok(Keeping { pins, note: Box::new(note) })
    }

    /// Notes the folder into which packets are written from now on; `None` if there is none yet. `told`: for each
    /// stream, the number of discarded records that earlier traces report; `left_out`: what they report of samples.
    pub(crate) fn note_folder(
        &self,
        folder: Option<&Path>,
        told: &[u64],
        left_out: &LeftOutBefore,
    ) {
        // Without the note, packets that are held now would be in two traces after a kill.
        let _ = self.all.change(|all| {
            if let Some(noted) = all.get_mut(&self.channel) {
                let absolute = |folder: &Path| {
                    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
                };
                (noted.folder, noted.told) = (folder.map(absolute), told.to_vec());
                noted.left_out.clone_from(left_out);
            }
        });
    }
}

impl Noted {
    /// Skips packets that were already written: a session that was killed after writing a packet and before releasing
    /// it leaves the packet in both places. Returns, for each stream, the number of discarded records that the trace
    /// reports.
    pub(crate) fn pass_written(&self, channel: &mut Channel) -> Vec<u64> {
        let mut told = Vec::new();
        for number in 0..channel.nr_streams() {
            let before = self.told.get(number as usize).copied().unwrap_or(0);
            let limit = channel.subbuf_bytes();
            let file = self.folder.as_ref().and_then(|folder| {
                LastPacket::read(&folder.join(stream_file(number)), limit).ok().flatten()
            });
            let Some(LastPacket { records: written, discarded, .. }) = file else {
                told.push(before);
                continue;
            };
            told.push(before.saturating_add(discarded));
            let Ok(mut stream) = channel.stream(number) else { continue };
            let Ok(Some(packet)) = stream.next() else { continue };
            let mut held = Vec::new();
            let from = packet.info().header_bytes;
            if packet.copy_to(from, &mut held).is_ok() && !held.is_empty() && held == written {
                packet.put();
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_found_again_and_nonsense_is_nothing() {
        let written = Arc::new(Mutex::new(String::new()));
        let of = |before: &str| {
            let written = Arc::clone(&written);
            let write = Box::new(move |text: &str| {
                *lock(&written) = text.to_owned();
                Ok(())
            });
            let all = Arc::new(PersistentKernel::new("s", before, write));
            PersistentChannel { all, channel: "c".to_owned() }
        };
        for text in ["", "{", "[]", r#"{"c": 3}"#] {
            assert!(of(text).before().is_none(), "{text}");
        }
        // Of an older version, without what was added since: it is there, and can be refused.
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let old = serde_json::json!({"c": {
            "kernel": {
                "version": 2, "boot": boot.trim(), "overwrites": false, "subbuf_bytes": 4096, "nr_subbufs": 2,
                "contexts": 0, "maps": [], "classes": [], "units": [], "nested": 0,
            },
            "folder": null, "told": [],
        }});
        assert!(of(&old.to_string()).before().is_some());
        of("").note_folder(Some(Path::new("/t")), &[1], &LeftOutBefore::new());
        assert_eq!(*lock(&written), "{}");
        let left_out: LeftOutBefore = [("read".to_owned(), 9)].into();
        of(&old.to_string()).note_folder(None, &[1], &left_out);
        let noted = of(&lock(&written).clone()).before().unwrap();
        assert_eq!((noted.told, noted.left_out), (vec![1], left_out));
    }
}
