//! Default sizes of buffers, derived from the CPUs and the memory of this machine.
//!
//! Each CPU has 8 sub-buffers of 1 MiB for each program and for the kernel, unless the buffers of several programs
//! together would take too much memory. A program takes memory only for the parts to which it has written.

use std::path::{Component, Path};
use std::sync::OnceLock;

use rustix::process::{getrlimit, Resource};
use strata_kernel::listed_cpus;
use strata_user::possible_cpus;

/// The default size of a sub-buffer on most machines \[byte\].
pub const SUBBUF_BYTES: u64 = 1 << 20;
/// The default number of sub-buffers of a stream on most machines.
pub const NR_SUBBUFS: u32 = 8;

/// The least number of programs whose full buffers must fit into this machine's memory. If all programs are
/// recorded, it is the number of CPUs if that is greater.
const PROGRAMS: u64 = 16;
/// The least number of programs whose full buffers must fit if buffers may take less than [`LITTLE_MEMORY`]. A small
/// container has as many programs as a large one, and the OOM killer ends them if their buffers take too much.
const PROGRAMS_OF_LITTLE: u64 = 32;
/// If buffers may take less memory than this, the other shared memory of each program counts, too \[byte\].
const LITTLE_MEMORY: u64 = 128 << 20;
/// Size of the memory that a program shares in addition to its buffers and has written to: sessions, states,
/// descriptions \[byte\].
const OWN_BYTES: u64 = 512 << 10;
/// The most memory of all programs' buffers together \[byte\]: 128 MiB for each of [`PROGRAMS`], which the default
/// sizes take on 16 CPUs.
const PROGRAMS_BYTES_MAX: u64 = 2 << 30;
/// The most memory of the kernel's buffers \[byte\].
const KERNEL_BYTES_MAX: u64 = 256 << 20;
/// The order in which a program's buffers are reduced: each step first halves the size down to its first value, then
/// the number down to its second value. A record must fit into a sub-buffer, so their number is reduced before they
/// become too small for most records.
const PROGRAM_STEPS: &[(u64, u32)] =
    &[(64 << 10, NR_SUBBUFS), (64 << 10, 4), (16 << 10, 4), (8 << 10, 4)];
/// The order in which the kernel's buffers are reduced; see [`PROGRAM_STEPS`].
const KERNEL_STEPS: &[(u64, u32)] = &[(64 << 10, NR_SUBBUFS)];
/// The most nested control groups that are examined.
const DEPTH_MAX: usize = 64;

/// The owner of buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuffersOf {
    /// A program that the user named, or that descends from the command.
    Program,
    /// Any program of the machine.
    EveryProgram,
    /// The kernel's layer.
    Kernel,
}

/// The properties of the machine that sizes depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hardware {
    /// Number of CPUs that are online; other CPUs write to no buffers.
    cpus: u64,
    /// Number of CPUs that the machine can have; the kernel's buffers exist for all of them from the beginning.
    possible_cpus: u64,
    /// Memory of the machine, or the limit of our control group if that is lower \[byte\].
    memory: u64,
}

impl Hardware {
    /// Returns the properties of this machine at the first call. They are kept, since the sizes of a session do not
    /// change.
    pub(crate) fn here() -> &'static Hardware {
        static HERE: OnceLock<Hardware> = OnceLock::new();
        HERE.get_or_init(|| {
            let found = Hardware::of(Path::new("/"), possible_cpus().into());
            // The recorder maps the buffers of all programs, so the limit on its address space counts as well.
            let mapped = getrlimit(Resource::As).current.unwrap_or(u64::MAX);
            Hardware { memory: found.memory.min(mapped), ..found }
        })
    }

    /// Returns the most memory that all buffers may take together \[byte\]: two thirds, since the programs themselves
    /// need memory too.
    fn for_buffers(&self) -> u64 {
        self.memory - self.memory / 3
    }

    /// Reads the properties from files below `root`. A missing file means that there is no limit.
    fn of(root: &Path, possible_cpus: u64) -> Hardware {
        let online = read(&root.join("sys/devices/system/cpu/online"));
        let total = kib(&read(&root.join("proc/meminfo")), "MemTotal:").unwrap_or(u64::MAX);
        Hardware {
            cpus: listed_cpus(&online).count().max(1) as u64,
            possible_cpus: possible_cpus.max(1),
            memory: total.min(limit_of_groups(root).unwrap_or(u64::MAX)),
        }
    }

    /// Returns the most memory that all streams of one channel may take together \[byte\], and the number of streams.
    fn limit(&self, of: BuffersOf) -> (u64, u64) {
        let memory = self.for_buffers();
        let each = |programs: u64| match memory < LITTLE_MEMORY {
            true => (memory / programs.max(PROGRAMS_OF_LITTLE)).saturating_sub(OWN_BYTES),
            false => PROGRAMS_BYTES_MAX.min(memory) / programs,
        };
        match of {
            BuffersOf::Program => (each(PROGRAMS), self.cpus),
            BuffersOf::EveryProgram => (each(PROGRAMS.max(self.cpus)), self.cpus),
            BuffersOf::Kernel => (KERNEL_BYTES_MAX.min(memory / PROGRAMS), self.possible_cpus),
        }
    }

    /// Returns `sizes` (the size of a sub-buffer \[byte\] and the number of sub-buffers), reduced if this machine
    /// has too little memory for them.
    pub(crate) fn fit(&self, of: BuffersOf, mut sizes: (u64, u32)) -> (u64, u32) {
        let (limit, streams) = self.limit(of);
        let bytes =
            |(size, number): (u64, u32)| size.saturating_mul(number.into()).saturating_mul(streams);
        while bytes(sizes) > limit {
            let Some(smaller) = smaller(of, sizes) else { break };
            sizes = smaller;
        }
        sizes
    }

    /// Returns the number of streams that a channel has for each of its programs: one for each CPU.
    pub(crate) fn streams(&self, of: BuffersOf) -> u64 {
        match of {
            BuffersOf::Program | BuffersOf::EveryProgram => self.cpus,
            BuffersOf::Kernel => self.possible_cpus,
        }
    }

    /// Returns, for each channel, the size to which its buffers may grow so that all buffers together stay within
    /// the limit for buffers. Each channel is given by the bytes of a stream and the number of streams.
    pub(crate) fn room(&self, channels: &[(u64, u64)]) -> Vec<Room> {
        let bytes = |&(stream, number): &(u64, u64)| stream.saturating_mul(number);
        let taken = channels.iter().map(bytes).fold(0, u64::saturating_add);
        let known = channels.iter().filter(|(_, number)| *number > 0).count() as u64;
        let each = self.for_buffers().saturating_sub(taken) / known.max(1);
        let room = |&(stream, number): &(u64, u64)| Room {
            stream_bytes: match number {
                0 => u64::MAX,
                number => stream.saturating_add(each / number),
            },
            for_buffers: self.for_buffers(),
            memory: self.memory,
        };
        channels.iter().map(room).collect()
    }
}

/// The room into which a channel's buffers may grow, next to those of other channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// The most that one stream may take \[byte\].
    pub stream_bytes: u64,
    /// The most that all buffers together may take \[byte\].
    pub for_buffers: u64,
    /// Available memory: that of the machine, or the lowest limit of a control group or of `ulimit -v` \[byte\].
    pub memory: u64,
}

/// Returns the next smaller sizes in the order of the steps; `None` if they are as small as allowed.
fn smaller(of: BuffersOf, (size, number): (u64, u32)) -> Option<(u64, u32)> {
    let steps = match of {
        BuffersOf::Kernel => KERNEL_STEPS,
        BuffersOf::Program | BuffersOf::EveryProgram => PROGRAM_STEPS,
    };
    steps.iter().find_map(|&(least_size, least_number)| match () {
        () if size > least_size => Some((size / 2, number)),
        () if number > least_number => Some((size, number / 2)),
        () => None,
    })
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Returns the value of a line of /proc/meminfo \[byte\].
pub(crate) fn kib(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the lowest memory limit of our control group and the groups around it \[byte\], for cgroup version 2 or 1.
/// Swap does not count. `None` if there is no limit.
fn limit_of_groups(root: &Path) -> Option<u64> {
    let groups = read(&root.join("proc/self/cgroup"));
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, Path::new(parts.next()?));
        let (folders, files): (&[&str], &[&str]) = match controllers {
            // Above `memory.high`, no process is killed, but the whole group is slowed down.
            "" => (&["sys/fs/cgroup", "sys/fs/cgroup/unified"], &["memory.max", "memory.high"]),
            _ if controllers.split(',').any(|one| one == "memory") => {
                (&["sys/fs/cgroup/memory"], &["memory.limit_in_bytes", "memory.stat"])
            }
            _ => return None,
        };
        // The group is outside of the mounted hierarchy.
        if path.components().any(|one| one == Component::ParentDir) {
            return None;
        }
        let inside = path.ancestors().take(DEPTH_MAX).filter_map(|one| one.strip_prefix("/").ok());
        let limit = |group: &Path| {
            let all = folders.iter().flat_map(|folder| {
                files.iter().map(move |file| read(&root.join(folder).join(group).join(file)))
            });
            all.filter_map(|text| limit_in(&text)).min()
        };
        inside.filter_map(limit).min()
    });
    limits.min()
}

/// Returns the memory limit in the text of a control group's file. Version 2 has a plain number; for version 1, it is
/// the limit with those of all groups above, which a container cannot see otherwise.
fn limit_in(text: &str) -> Option<u64> {
    let above = text.lines().find_map(|line| line.strip_prefix("hierarchical_memory_limit "));
    above.unwrap_or(text).trim().parse().ok()
}

/// Formats a size in the form of a flag: `1048576` as `1M`. A number that is no multiple of a unit is given in bytes.
#[must_use]
pub fn flag_size(bytes: u64) -> String {
    for (shift, unit) in [(30, 'G'), (20, 'M'), (10, 'K')] {
        if bytes != 0 && bytes % (1 << shift) == 0 {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch_tests::Scratch;
    use std::fs;

    const USUAL: (u64, u32) = (SUBBUF_BYTES, NR_SUBBUFS);
    const GIB: u64 = 1 << 30;
    const ALL: [BuffersOf; 3] = [BuffersOf::Program, BuffersOf::EveryProgram, BuffersOf::Kernel];

    fn hardware(cpus: u64, memory: u64) -> Hardware {
        Hardware { cpus, possible_cpus: cpus, memory }
    }

    #[test]
    fn sizes_are_the_usual_ones_on_ordinary_machines() {
        for cpus in 1..=16 {
            // 4 GB, as firmware and kernel leave them.
            for memory in [3_500_000_000, 16 * GIB, u64::MAX] {
                for of in ALL {
                    assert_eq!(
                        hardware(cpus, memory).fit(of, USUAL),
                        USUAL,
                        "{cpus} {memory} {of:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn sizes_of_many_cpus_and_little_memory_are_smaller() {
        use BuffersOf::{EveryProgram, Kernel, Program};
        for (cpus, memory, of, kib, number) in [
            (32, 64 * GIB, Program, 512, 8),
            (256, 512 * GIB, Program, 64, 8),
            (32, 64 * GIB, EveryProgram, 256, 8),
            (64, 256 * GIB, EveryProgram, 64, 8),
            (100, 512 * GIB, EveryProgram, 32, 4),
            (128, 512 * GIB, EveryProgram, 32, 4),
            (256, 512 * GIB, EveryProgram, 8, 4),
            (8192, u64::MAX, EveryProgram, 8, 4),
            (32, 64 * GIB, Kernel, 1024, 8),
            (33, 64 * GIB, Kernel, 512, 8),
            (8192, u64::MAX, Kernel, 64, 8),
            (2, GIB, Program, 1024, 8),
            (2, GIB / 4, Program, 512, 8),
            (2, GIB / 4, EveryProgram, 512, 8),
            (2, GIB / 4, Kernel, 512, 8),
            // A container with little memory on a large machine.
            (64, GIB / 2, Program, 64, 4),
            (64, GIB / 2, EveryProgram, 16, 4),
            (2, GIB / 64, Kernel, 64, 8),
            (2, GIB / 16, Program, 64, 4),
            (2, GIB / 16, EveryProgram, 64, 4),
            (1, GIB / 16, Program, 64, 8),
            (2, 0, Program, 8, 4),
            (2, 0, Kernel, 64, 8),
        ] {
            let found = hardware(cpus, memory).fit(of, USUAL);
            assert_eq!(found, (kib << 10, number), "{cpus} {memory} {of:?}");
        }
    }

    #[test]
    fn two_hundred_programs_on_256_cpus_take_less_than_two_gibibytes() {
        let (size, number) = hardware(256, 512 * GIB).fit(BuffersOf::EveryProgram, USUAL);
        assert!(200 * 256 * size * u64::from(number) < 2 * GIB, "{size} {number}");
        // Of the programs for which the sizes are chosen, all together.
        for cpus in 1..=256 {
            for memory in [GIB / 2, GIB, 4 * GIB, 1024 * GIB] {
                let hardware = hardware(cpus, memory);
                let (size, number) = hardware.fit(BuffersOf::Program, USUAL);
                let all = PROGRAMS * cpus * size * u64::from(number);
                assert!(all <= (2 * GIB).min(memory), "{cpus} {memory}: {all}");
            }
        }
    }

    #[test]
    fn thirty_two_programs_in_a_small_container_leave_it_a_third() {
        for mebibytes in [48, 64, 100, 128, 190] {
            for cpus in [1, 2, 4] {
                let hardware = hardware(cpus, mebibytes << 20);
                let (size, number) = hardware.fit(BuffersOf::Program, USUAL);
                let each = cpus * size * u64::from(number) + OWN_BYTES;
                assert!(32 * each <= hardware.for_buffers(), "{mebibytes} MiB, {cpus}: {each}");
            }
        }
    }

    #[test]
    fn sizes_never_grow_stay_powers_of_two_and_are_chosen_once() {
        for cpus in [1, 7, 100, 5000, u64::MAX] {
            for memory in [0, 1, 1 << 20, GIB, u64::MAX] {
                for sizes in [USUAL, (4096, 2), (4096, 8), (1 << 30, 32768)] {
                    for of in ALL {
                        let hardware = hardware(cpus, memory);
                        let (size, number) = hardware.fit(of, sizes);
                        assert!(size <= sizes.0 && number <= sizes.1);
                        assert!(size.is_power_of_two() && number.is_power_of_two());
                        assert_eq!(hardware.fit(of, (size, number)), (size, number));
                    }
                }
            }
        }
    }

    #[test]
    fn hardware_is_what_the_kernel_says_and_the_least_limit_of_a_group() {
        let scratch = Scratch::new("hardware");
        let put = |path: &str, text: &str| {
            let path = scratch.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let found = || Hardware::of(&scratch.0, 8);
        // Nothing is said.
        assert_eq!(found(), Hardware { cpus: 1, possible_cpus: 8, memory: u64::MAX });
        put("sys/devices/system/cpu/online", "0-2,5\n");
        put("proc/meminfo", "MemFree: 1 kB\nMemTotal:       4194304 kB\n");
        assert_eq!(found(), Hardware { cpus: 4, possible_cpus: 8, memory: 4 * GIB });
        // Version 2: that of a group above counts, too.
        put("proc/self/cgroup", "0::/a/b\n");
        put("sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(found().memory, 4 * GIB);
        put("sys/fs/cgroup/a/memory.max", "2147483648\n");
        assert_eq!(found().memory, 2 * GIB);
        // In a container the own group is at the root.
        put("sys/fs/cgroup/memory.max", "1073741824\n");
        assert_eq!(found().memory, GIB);
        // What holds the group up is a limit, too.
        put("sys/fs/cgroup/a/b/memory.high", "536870912\n");
        assert_eq!(found().memory, GIB / 2);
        // Version 1, with others beside it; more than there is is no limit.
        put(
            "proc/self/cgroup",
            "5:cpu,cpuacct:/x\n4:hugetlb,memory:/m\n1:name=systemd:/x\n0::/../a\n",
        );
        put("sys/fs/cgroup/memory/m/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(found().memory, 4 * GIB);
        put("sys/fs/cgroup/memory/m/memory.limit_in_bytes", "536870912\n");
        assert_eq!(found().memory, GIB / 2);
        // Of a group above that is not mounted here.
        let stat = "cache 5\nhierarchical_memory_limit 67108864\nhierarchical_memsw_limit 1\n";
        put("sys/fs/cgroup/memory/m/memory.stat", stat);
        assert_eq!(found().memory, GIB / 16);
        for nothing in ["", "\n", "4\n", "4:memory\n", "::\n", "x:y:z\n"] {
            put("proc/self/cgroup", nothing);
            assert!(found().memory >= GIB, "{nothing:?}");
        }
    }

    #[test]
    fn channels_may_grow_so_far_that_all_of_them_together_fit() {
        for memory in [GIB / 16, GIB, 64 * GIB] {
            let hardware = hardware(2, memory);
            let rooms = hardware.room(&[(1 << 20, 48), (8 << 20, 2), (1 << 20, 0)]);
            let sum = rooms[0].stream_bytes * 48 + rooms[1].stream_bytes * 2;
            // What was there already is not taken away.
            assert!(sum <= hardware.for_buffers().max((48 << 20) + (16 << 20)), "{memory}: {sum}");
            assert!(rooms[0].stream_bytes >= 1 << 20 && rooms[1].stream_bytes >= 8 << 20);
            assert_eq!(rooms[2].stream_bytes, u64::MAX);
        }
    }
}
