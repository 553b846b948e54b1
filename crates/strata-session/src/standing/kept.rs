//! What the kernel goes on recording for a session that was killed (`--keep`): what is noted of it outside of the session,
//! and what the session had written when it was killed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use strata_collect::LastPacket;
use strata_kernel::session::Keeping;
use strata_kernel::{ChannelPins, Kept};
use strata_ring::Channel;

use crate::output::folder::stream_file;
use crate::session::lock::lock;

/// Keeps a text outside of the session, in the place of the one before.
pub type WriteKept = Box<dyn Fn(&str) -> io::Result<()> + Send + Sync>;

/// Of one channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Noted {
    pub(crate) kernel: Kept,
    /// Where its packets are written.
    folder: Option<PathBuf>,
    /// Of each stream, how many discarded records traces before that one tell of.
    told: Vec<u64>,
}

/// Of a session: what its channels have in the kernel.
pub struct KernelKept {
    session: String,
    write: WriteKept,
    all: Mutex<BTreeMap<String, Noted>>,
}

/// Of one of its channels.
#[derive(Clone)]
pub(crate) struct ChannelKept {
    pub(crate) all: Arc<KernelKept>,
    pub(crate) channel: String,
}

impl KernelKept {
    /// What the session of this name has, and has noted before it was killed. What cannot be read is nothing: what is
    /// pinned then is removed.
    #[must_use]
    pub fn new(session: &str, before: &str, write: WriteKept) -> KernelKept {
        let all = Mutex::new(serde_json::from_str(before).unwrap_or_default());
        KernelKept { session: session.to_owned(), write, all }
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Noted>)) -> io::Result<()> {
        let mut all = lock(&self.all);
        change(&mut all);
        (self.write)(&serde_json::to_string(&*all).map_err(io::Error::other)?)
    }

    /// Nothing of it is to be taken up any more.
    pub(crate) fn remove(&self) -> Result<usize, strata_kernel::Error> {
        strata_kernel::remove_pinned(&self.session)
    }
}

impl ChannelKept {
    /// What the session has noted that was killed, in this boot of the machine.
    pub(crate) fn before(&self) -> Option<Noted> {
        lock(&self.all.all).get(&self.channel).filter(|one| one.kernel.is_of_this_boot()).cloned()
    }

    /// # Errors
    /// There is no place to pin it.
    pub(crate) fn keeping(&self) -> Result<Keeping, strata_kernel::Error> {
        let pins = Arc::new(ChannelPins::open(&self.all.session, &self.channel)?);
        let (all, channel) = (Arc::clone(&self.all), self.channel.clone());
        let note = move |kernel: &Kept| {
            all.change(|all| match all.get_mut(&channel) {
                Some(noted) => noted.kernel.clone_from(kernel),
                None => {
                    let noted = Noted { kernel: kernel.clone(), folder: None, told: Vec::new() };
                    all.insert(channel.clone(), noted);
                }
            })
        };
        Ok(Keeping { pins, note: Box::new(note) })
    }

    /// Packets are written there from now on, `None`: not yet; so many discarded records were told before.
    pub(crate) fn note_folder(&self, folder: Option<&Path>, told: &[u64]) {
        // Not noted, what is held now would be in two traces after a kill.
        let _ = self.all.change(|all| {
            if let Some(noted) = all.get_mut(&self.channel) {
                let absolute = |folder: &Path| {
                    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
                };
                (noted.folder, noted.told) = (folder.map(absolute), told.to_vec());
            }
        });
    }
}

impl Noted {
    /// What was written is not written again: who was killed between the end of a packet in its file and the moment
    /// when it gives the packet back has left it in both. Returns, of each stream, how many discarded records were told.
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
            let all = Arc::new(KernelKept::new("s", before, write));
            ChannelKept { all, channel: "c".to_owned() }
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
        of("").note_folder(Some(Path::new("/t")), &[1]);
        assert_eq!(*lock(&written), "{}");
    }
}
