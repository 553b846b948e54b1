//! Restricts recording to tracked processes. Programs in the kernel check this first; the set can change while
//! recording.

use crate::attach::loader::{bytes_of, reason};
use crate::attach::shared_control::SharedControl;
use crate::decide::filter::cgroup_id;
use crate::error::Error;
use crate::processes::pid_namespace::{number_of, Numbers};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;
use strata_abi::kernel::{
    Track, TRACK_CGROUP, TRACK_FOLLOWED, TRACK_GENERATION, TRACK_GID, TRACK_MAX, TRACK_NAME,
    TRACK_NAMED, TRACK_PID, TRACK_PREFIXES, TRACK_UID,
};

/// Conditions on recorded processes, by kind; `None` for a kind without a condition. A process is recorded if it meets
/// the conditions of all kinds. Plans of sessions have this as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tracked {
    /// Ids of processes.
    pub pids: Option<Vec<u32>>,
    /// Real user ids.
    pub uids: Option<Vec<u32>>,
    /// Real group ids.
    pub gids: Option<Vec<u32>>,
    /// Patterns with `*` and `?` for the names of threads, of which the kernel keeps 15 bytes, and of the program's
    /// file. Programs in the kernel can check a `*` at the end only.
    pub names: Option<Vec<String>>,
    /// Paths of control groups from the root of the hierarchy, as in `/proc/PID/cgroup`; groups below them are
    /// included.
    pub cgroups: Option<Vec<String>>,
    /// True to record events that belong to no single process, such as those of the scheduler, whichever process
    /// runs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub with_machine: bool,
}

/// The most bytes of a thread's name that the kernel keeps.
const NAME_BYTES: usize = 15;

impl Tracked {
    /// Returns whether no process is excluded.
    #[must_use]
    pub fn is_everybody(&self) -> bool {
        *self == Tracked::default()
    }

    /// Returns the bits of the conditions that BPF programs have to check, and the keys for the map of tracked
    /// values. `named` lists processes whose names match only in a way that programs cannot check.
    fn keys(
        &self,
        named: &[u32],
        generation: u8,
        numbers: Option<&Numbers>,
    ) -> Result<(u32, Vec<Track>), Error> {
        let (mut what, mut keys) = (0, Vec::new());
        let mut add = |kind: u16, bytes: u8, value: [u64; 2]| {
            keys.push(Track { kind, generation, bytes, reserved: 0, value });
        };
        let of_kinds = [(TRACK_PID, &self.pids), (TRACK_UID, &self.uids), (TRACK_GID, &self.gids)];
        for (kind, all) in of_kinds {
            let Some(all) = all else { continue };
            what |= 1 << kind;
            for &number in all {
                let number = if kind == TRACK_PID { number_of(numbers, number) } else { number };
                add(kind, 0, [number.into(), 0]);
            }
        }
        if let Some(names) = &self.names {
            what |= 1 << TRACK_NAME;
            for name in names {
                let text = name.strip_suffix('*').unwrap_or(name);
                if text.contains(['*', '?']) {
                    return Err(Error::TrackedName { name: name.clone() });
                }
                let bytes = text.as_bytes();
                let is_prefix = text != name && bytes.len() <= NAME_BYTES;
                let length = bytes.len().min(NAME_BYTES);
                let mut kept = [0; 16];
                kept[..length].copy_from_slice(&bytes[..length]);
                let kept = u128::from_le_bytes(kept);
                if is_prefix && length == 0 {
                    // Anything.
                    what &= !(1 << TRACK_NAME);
                    break;
                }
                if is_prefix {
                    what |= 1 << (TRACK_PREFIXES + length as u32);
                }
                add(
                    TRACK_NAME,
                    if is_prefix { length as u8 } else { 0 },
                    [kept as u64, (kept >> 64) as u64],
                );
            }
        }
        if what & 1 << TRACK_NAME != 0 && !named.is_empty() {
            what |= 1 << TRACK_NAMED;
            named.iter().for_each(|pid| add(TRACK_NAMED, 0, [number_of(numbers, *pid).into(), 0]));
        }
        if let Some(paths) = &self.cgroups {
            what |= 1 << TRACK_CGROUP;
            for path in paths {
                let id = cgroup_id(path.as_bytes(), || path.clone())
                    .map_err(|_| Error::TrackedGroup { path: path.clone() })?;
                add(TRACK_CGROUP, 0, [id, 0]);
            }
        }
        if what != 0 && self.with_machine {
            what |= 1 << TRACK_FOLLOWED;
        }
        match keys.len() {
            found if found > TRACK_MAX => Err(Error::TrackedMany { found, limit: TRACK_MAX }),
            _ => Ok((what, keys)),
        }
    }
}

/// Records only tracked processes from now on, and the processes in `named` as if their names matched. The change
/// takes effect at once in all programs; after an error nothing has changed.
pub(crate) fn track(
    map: &MapHandle,
    shared: &SharedControl,
    (tracked, named): (&Tracked, &[u32]),
    numbers: Option<&Numbers>,
) -> Result<(), Error> {
    let control = &shared.get().tracked;
    let before = control.load(Ordering::Relaxed);
    let generation = 1 - (before >> TRACK_GENERATION);
    // What a change that failed has left.
    clear(map, generation as u8);
    let (what, keys) = tracked.keys(named, generation as u8, numbers)?;
    for key in &keys {
        // SAFETY: integers without padding.
        let key = unsafe { bytes_of(key) };
        let put = map.update(key, &1u32.to_ne_bytes(), MapFlags::ANY);
        put.map_err(|error| Error::Load { what: "tracking processes", reason: reason(&error) })?;
    }
    if what == 0 {
        shared.set_tracking(false);
    }
    control.store(what | generation << TRACK_GENERATION, Ordering::SeqCst);
    if what != 0 {
        shared.set_tracking(true);
    }
    Ok(())
}

/// Removes the entries of a generation from the map. The other generation's entries stay until the next change: a
/// running program may still look for an old entry, and would not find a process that is tracked before and after the
/// change.
fn clear(map: &MapHandle, generation: u8) {
    let old: Vec<Vec<u8>> =
        map.keys().filter(|key| key.get(2).is_some_and(|found| *found == generation)).collect();
    old.iter().for_each(|key| drop(map.delete(key)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> Tracked {
        Tracked {
            names: Some(all.iter().map(|name| (*name).to_owned()).collect()),
            ..Tracked::default()
        }
    }

    #[test]
    fn keys_are_what_programs_look_for() {
        assert_eq!(Tracked::default().keys(&[], 1, None).unwrap(), (0, vec![]));
        let (what, keys) =
            Tracked { pids: Some(vec![7]), uids: Some(vec![]), ..Tracked::default() }
                .keys(&[9], 1, None)
                .unwrap();
        assert_eq!(what, 1 << TRACK_PID | 1 << TRACK_UID);
        let key = Track { kind: TRACK_PID, generation: 1, value: [7, 0], ..Track::default() };
        assert_eq!(keys, [key]);
        let word = |text: &[u8; 8]| u64::from_le_bytes(*text);
        let (what, keys) =
            names(&["sh", "shop-*", "a-name-longer-than-that"]).keys(&[9], 0, None).unwrap();
        assert_eq!(what, 1 << TRACK_NAME | 1 << TRACK_NAMED | 1 << (TRACK_PREFIXES + 5));
        let found: Vec<_> = keys.iter().map(|key| (key.bytes, key.value)).collect();
        let wanted = [
            (0, [word(b"sh\0\0\0\0\0\0"), 0]),
            (5, [word(b"shop-\0\0\0"), 0]),
            (0, [word(b"a-name-l"), word(b"onger-t\0")]),
            (0, [9, 0]),
        ];
        assert_eq!(found, wanted);
        let machine = Tracked { pids: Some(vec![7]), with_machine: true, ..Tracked::default() };
        assert_eq!(machine.keys(&[], 1, None).unwrap().0, 1 << TRACK_PID | 1 << TRACK_FOLLOWED);
        // Anything, whatever else is said.
        assert_eq!(names(&["sh", "*"]).keys(&[9], 0, None).unwrap().0, 0);
    }

    #[test]
    fn what_the_kernel_cannot_ask_is_refused_with_its_name() {
        for (tracked, part) in [
            (names(&["*shop"]), "*shop"),
            (names(&["sh?p"]), "sh?p"),
            (
                Tracked { cgroups: Some(vec!["/no/such/group".into()]), ..Tracked::default() },
                "/no/such/group",
            ),
            (Tracked { pids: Some((0..2000).collect()), ..Tracked::default() }, "2000"),
        ] {
            let error = tracked.keys(&[], 0, None).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
