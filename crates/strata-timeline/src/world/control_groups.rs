//! The control groups of processes over time, and what each group is for.
//!
//! ```text
//! state dump ──┐                     ┌── of a group's number, which a record may have as a context
//!              ├── ControlGroups ────┼── of a process at a time: filters ask so for each record
//! move ────────┘                     └── of a process at the end: reports have rows by container
//! ```
//!
//! A state dump says where a process is, and that it was there from the begin. A move says where it is from then on. A
//! process without such a record is where its nearest ancestor was when the one began that descends from it: a parent
//! may move later, and alone. [`World::control_group`](crate::World::control_group) walks the ancestors, since only the
//! world knows them.
//!
//! A group is known by its path on its machine. A dump says the container for which it is; a move does not, and a group
//! of that path may be known from a dump.

use std::collections::HashMap;

use crate::ids::names::Name;
use crate::ids::thread_id::ThreadId;

/// The most control groups that are kept.
const GROUPS_MAX: usize = 1 << 16;
/// The most bytes of a path that are kept.
const PATH_BYTES_MAX: usize = 4096;
/// The most bytes that the paths and containers of all groups take.
const BYTES_MAX: usize = 1 << 25;
/// The most statements about processes that are kept.
const CHANGES_MAX: usize = 1 << 20;

/// A control group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlGroup {
    /// Its path, as the kernel shows it.
    pub path: Box<[u8]>,
    /// The container for which it is; empty if it is for none, or no record says it.
    pub container: Box<[u8]>,
    /// What people know it by: the container, the systemd unit, or the last folder of the path.
    pub shown: Name,
    /// The pod of Kubernetes for which it is: its name, or its number. `None` if it is for none.
    pub pod: Option<Name>,
}

/// The index of a group in [`ControlGroups::all`].
pub type GroupIndex = u32;

/// What a record says of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statement<'r> {
    pub(crate) machine: u8,
    pub(crate) path: &'r [u8],
    pub(crate) container: &'r [u8],
    /// The name of the pod of Kubernetes; empty if it is in none, or the record does not say.
    pub(crate) pod: &'r [u8],
    /// The number of the group, if the record has it.
    pub(crate) number: Option<i64>,
    /// From when on the process is there \[ns since 1970\]; [`i64::MIN`] in a state dump.
    pub(crate) from: i64,
}

/// The control groups of all machines.
#[derive(Clone, Debug, Default)]
pub struct ControlGroups {
    all: Vec<ControlGroup>,
    /// The latest group of a machine and path.
    by_path: HashMap<(u8, Box<[u8]>), GroupIndex>,
    by_number: HashMap<(u8, i64), GroupIndex>,
    /// Where a process is from a time on, in the order of time.
    of_processes: HashMap<ThreadId, Vec<(i64, GroupIndex)>>,
    nr_changes: usize,
    /// Bytes of the paths and containers of all groups.
    bytes: usize,
    left_out: u64,
}

impl ControlGroups {
    /// Returns all groups, in the order of their indexes.
    #[must_use]
    pub fn all(&self) -> &[ControlGroup] {
        &self.all
    }

    /// Returns the indexes of groups by their machine and number.
    #[must_use]
    pub fn by_number(&self) -> &HashMap<(u8, i64), GroupIndex> {
        &self.by_number
    }

    /// Returns the number of statements for which there was no room.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Notes where a process is. `name` gives what a group is shown by its number.
    pub(crate) fn note(
        &mut self,
        process: ThreadId,
        said: &Statement<'_>,
        name: &mut dyn FnMut(&[u8]) -> Name,
    ) {
        let group = self.group(said, name).filter(|_| self.nr_changes < CHANGES_MAX);
        let Some(group) = group else {
            self.left_out += 1;
            return;
        };
        self.nr_changes += 1;
        if let Some(number) = said.number {
            self.by_number.entry((said.machine, number)).or_insert(group);
        }
        let own = self.of_processes.entry(process).or_default();
        let last = own.last().map_or(i64::MIN, |(last, _)| *last);
        match (said.from, own.first_mut()) {
            (i64::MIN, Some((i64::MIN, first))) => *first = group,
            (i64::MIN, _) => own.insert(0, (i64::MIN, group)),
            // Times of a damaged trace may go back. Statements are kept in their order, so that none is inserted.
            (from, _) => own.push((from.max(last), group)),
        }
    }

    fn group(
        &mut self,
        said: &Statement<'_>,
        name: &mut dyn FnMut(&[u8]) -> Name,
    ) -> Option<GroupIndex> {
        let path = said.path.get(..PATH_BYTES_MAX).unwrap_or(said.path);
        let key = (said.machine, Box::from(path));
        if let Some(known) = self.by_path.get(&key) {
            let group = self.all.get(*known as usize)?;
            if said.container.is_empty() || *group.container == *said.container {
                return Some(*known);
            }
        }
        // The path is there twice.
        let texts = said.container.len().saturating_add(said.pod.len());
        let bytes = self.bytes.saturating_add(2 * path.len()).saturating_add(texts);
        if self.all.len() >= GROUPS_MAX || bytes > BYTES_MAX {
            return None;
        }
        let index = u32::try_from(self.all.len()).ok()?;
        self.bytes = bytes;
        let shown = if said.container.is_empty() { unit_of(path) } else { said.container };
        let shown = name(shown);
        let pod = match (said.pod.is_empty(), pod_in(path)) {
            (true, None) => None,
            (true, Some(number)) => Some(name(&number)),
            (false, _) => Some(name(said.pod)),
        };
        let (path_kept, container) = (path.into(), said.container.into());
        self.all.push(ControlGroup { path: path_kept, container, shown, pod });
        self.by_path.insert(key, index);
        Some(index)
    }

    /// Returns what records say of the process itself: groups, and from when on it is there, in the order of time.
    pub(crate) fn own(&self, process: ThreadId) -> &[(i64, GroupIndex)] {
        self.of_processes.get(&process).map_or(&[], Vec::as_slice)
    }

    /// Returns the group in which the process itself is said to be at a time.
    pub(crate) fn at(&self, process: ThreadId, time: i64) -> Option<GroupIndex> {
        let own = self.own(process);
        let next = own.partition_point(|(from, _)| *from <= time);
        own.get(next.checked_sub(1)?).map(|(_, group)| *group)
    }
}

/// Returns the part of a control group's path by which people know it: its innermost unit (`ssh.service`, `session-3.scope`), else the
/// last folder; `/` of the root.
fn unit_of(path: &[u8]) -> &[u8] {
    let mut parts = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
    let is_unit = |part: &&[u8]| part.ends_with(b".service") || part.ends_with(b".scope");
    let unit = parts.clone().rfind(is_unit).or_else(|| parts.next_back());
    unit.unwrap_or(b"/")
}

/// Returns the number of the pod of Kubernetes in a control group's path: `pod-` and its UID. The folder is called so with one driver of the
/// kubelet (`/kubepods/burstable/podUID`), and with the other it is a slice of systemd, whose UID has `_` for `-`
/// (`kubepods-burstable-podUID.slice`).
fn pod_in(path: &[u8]) -> Option<Vec<u8>> {
    let mut is_within = false;
    let mut found = None;
    for part in path.split(|&byte| byte == b'/') {
        is_within |= part.windows(8).any(|text| text == b"kubepods");
        let name = part.strip_suffix(b".slice").unwrap_or(part);
        let at = name.windows(3).rposition(|text| text == b"pod");
        let uid = at.and_then(|at| name.get(at + 3..)).unwrap_or_default();
        // Of pods that the kubelet has from a file it is a hash without `-`.
        let is_uid = matches!(uid.len(), 32 | 36)
            && uid.iter().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_'));
        if is_within && is_uid {
            let uid = uid.iter().map(|&byte| if byte == b'_' { b'-' } else { byte });
            found = Some(b"pod-".iter().copied().chain(uid).collect());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::threads::Thread;
    use crate::World;

    fn said<'r>(path: &'r str, container: &'r str, from: i64) -> Statement<'r> {
        let (path, container) = (path.as_bytes(), container.as_bytes());
        Statement { machine: 0, path, container, pod: b"", number: None, from }
    }

    fn process(world: &mut World, tid: i32, parent: Option<ThreadId>, born: i64) -> ThreadId {
        let mut thread = Thread::new(0, tid, 0, 0);
        (thread.parent, thread.born) = (parent, parent.map(|_| born));
        let id = world.threads.add(thread).expect("room for a thread");
        world.threads.get_mut(id).expect("the thread").main = Some(id);
        id
    }

    fn shown(world: &World, process: ThreadId, time: i64) -> String {
        let group = world.control_group(process, time);
        let group = group.map(|group| world.control_groups.all()[group as usize].shown);
        group.map_or_else(|| "nowhere".to_owned(), |name| world.names.text(name))
    }

    #[test]
    fn pod_in_a_path_is_that_of_either_driver_of_the_kubelet_and_of_nothing_else() {
        let uid = "0f1e2d3c-0123-4567-89ab-cdef01234567";
        let slice = uid.replace('-', "_");
        for path in [
            format!("/kubepods/burstable/pod{uid}/{}", "a".repeat(64)),
            format!("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{slice}.slice/crio-a.scope"),
            format!("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{slice}.slice"),
        ] {
            assert_eq!(pod_in(path.as_bytes()).unwrap(), format!("pod-{uid}").into_bytes(), "{path}");
        }
        let of_a_file = format!("/kubepods/pod{}", "ab".repeat(16));
        assert_eq!(pod_in(of_a_file.as_bytes()).unwrap().len(), 4 + 32);
        for path in [
            format!("/user.slice/pod{uid}"),
            format!("/kubepods/pod{uid}0"),
            "/kubepods.slice".to_owned(),
            "/kubepods/podx".to_owned(),
            String::new(),
        ] {
            assert_eq!(pod_in(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn group_when_a_process_moves_is_that_of_the_time() {
        let mut world = World::default();
        let one = process(&mut world, 5, None, 0);
        world.group(one, &said("/b.service", "", 40));
        // The dump comes later, and says where it was from the begin.
        world.group(one, &said("/pods/a", "web", i64::MIN));
        world.group(one, &said("/pods/a", "", 60));
        let all = [0, 39, 40, 59, 60, i64::MAX].map(|time| shown(&world, one, time));
        assert_eq!(all, ["web", "web", "b.service", "b.service", "web", "web"]);
        assert_eq!(world.control_groups_of(one).len(), 3);
        assert_eq!(world.control_groups.all().len(), 2, "a move to a known path adds none");
    }

    #[test]
    fn statements_when_they_come_again_or_times_go_back_are_kept_in_their_order() {
        let mut world = World::default();
        let one = process(&mut world, 5, None, 0);
        for name in ["/a.service", "/b.service"] {
            world.group(one, &said(name, "", i64::MIN));
        }
        assert_eq!(world.control_groups.own(one).len(), 1);
        world.group(one, &said("/c.service", "", 50));
        world.group(one, &said("/d.service", "", 40));
        world.group(one, &said("/e.service", "", i64::MIN));
        let all = [0, 49, 50, 60].map(|time| shown(&world, one, time));
        assert_eq!(all, ["e.service", "e.service", "d.service", "d.service"]);
        assert_eq!(world.control_groups.own(one).len(), 3);
    }

    #[test]
    fn group_when_only_an_ancestor_has_one_is_that_at_the_birth() {
        let mut world = World::default();
        let parent = process(&mut world, 5, None, 0);
        let child = process(&mut world, 6, Some(parent), 30);
        let grandchild = process(&mut world, 7, Some(child), 70);
        world.group(parent, &said("/a.service", "", i64::MIN));
        world.group(parent, &said("/b.service", "", 50));
        assert_eq!(shown(&world, child, 90), "a.service");
        // The child has not moved, whatever its parent did before the grandchild began.
        assert_eq!(shown(&world, grandchild, 90), "a.service");
        world.group(child, &said("/c.service", "", 80));
        assert_eq!(shown(&world, child, 90), "c.service");
        assert_eq!(shown(&world, grandchild, 90), "a.service");
        let alone = process(&mut world, 8, None, 0);
        assert_eq!(shown(&world, alone, 90), "nowhere");
    }

    #[test]
    fn statements_when_there_are_more_groups_than_room_are_counted() {
        let mut world = World::default();
        let one = process(&mut world, 5, None, 0);
        for number in 0..GROUPS_MAX + 3 {
            world.group(one, &said(&format!("/{number}"), "", number as i64));
        }
        assert_eq!(world.control_groups.left_out(), 3);
        assert_eq!(world.control_groups.all().len(), GROUPS_MAX);
    }

    #[test]
    fn malicious_names_that_are_long_take_bounded_room_and_are_counted() {
        let mut world = World::default();
        let one = process(&mut world, 5, None, 0);
        let long = "x".repeat(PATH_BYTES_MAX - 8);
        for number in 0..5000 {
            world.group(one, &said(&format!("/{number}{long}"), "", number));
        }
        world.group(one, &said("/short", &"y".repeat(BYTES_MAX), 5000));
        let groups = &world.control_groups;
        let bytes = groups.all.iter().map(|group| 2 * group.path.len() + group.container.len());
        assert!(bytes.sum::<usize>() <= BYTES_MAX);
        assert_eq!(groups.all.len() as u64 + groups.left_out(), 5001);
    }
}
