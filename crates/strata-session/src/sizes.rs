//! How large buffers are where nobody says it: by the CPUs and the memory of this machine.
//!
//! Each CPU has 8 sub-buffers of 1 MiB, of each program and of the kernel, unless the buffers of several programs together
//! would be a burden. A program takes memory only where it has written.

use std::path::{Component, Path};
use std::sync::OnceLock;

use strata_kernel::listed_cpus;
use strata_user::possible_cpus;

/// Size of a sub-buffer unless told otherwise, on most machines \[byte\].
pub const SUBBUF_BYTES: u64 = 1 << 20;
/// Sub-buffers of a stream unless told otherwise, on most machines.
pub const NR_SUBBUFS: u32 = 8;

/// So many programs with full buffers are no burden; where all are recorded, as many as there are CPUs if that is more.
const PROGRAMS: u64 = 16;
/// What they take together at most \[byte\]: 128 MiB each, which is what the sizes above take on 16 CPUs.
const PROGRAMS_BYTES_MAX: u64 = 2 << 30;
/// What the kernel takes at most \[byte\].
const KERNEL_BYTES_MAX: u64 = 256 << 20;
/// In which order a program's buffers become smaller: down to this size, then down to this number. A record has to fit in a
/// sub-buffer, so that they become fewer before they are too small for most.
const PROGRAM_STEPS: &[(u64, u32)] =
    &[(64 << 10, NR_SUBBUFS), (64 << 10, 4), (16 << 10, 4), (8 << 10, 4)];
/// Likewise of the kernel, of which there is one.
const KERNEL_STEPS: &[(u64, u32)] = &[(64 << 10, NR_SUBBUFS)];
/// Control groups in each other are looked at so deep.
const DEPTH_MAX: usize = 64;

/// Whose buffers they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuffersOf {
    /// Those of a program that was named, or that is the command's descendant.
    Program,
    /// Those of each program of the machine.
    EveryProgram,
    /// The kernel's.
    Kernel,
}

/// What sizes are chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hardware {
    /// CPUs that are online: nobody writes to the buffers of others.
    cpus: u64,
    /// CPUs that can be in the machine: the kernel's buffers are there from the begin.
    possible_cpus: u64,
    /// That of the machine, or what our control group may take of it, if that is less \[byte\].
    memory: u64,
}

impl Hardware {
    /// This machine, as it was when this was first asked: the sizes of a session do not change.
    pub(crate) fn here() -> &'static Hardware {
        static HERE: OnceLock<Hardware> = OnceLock::new();
        HERE.get_or_init(|| Hardware::of(Path::new("/"), possible_cpus().into()))
    }

    /// As the files below `root` say; what they do not say is no limit.
    fn of(root: &Path, possible_cpus: u64) -> Hardware {
        let online = read(&root.join("sys/devices/system/cpu/online"));
        let total = kib(&read(&root.join("proc/meminfo")), "MemTotal:").unwrap_or(u64::MAX);
        Hardware {
            cpus: listed_cpus(&online).count().max(1) as u64,
            possible_cpus: possible_cpus.max(1),
            memory: total.min(limit_of_groups(root).unwrap_or(u64::MAX)),
        }
    }

    /// What all streams of one channel may take together \[byte\], and how many they are.
    fn limit(&self, of: BuffersOf) -> (u64, u64) {
        // Two thirds: the programs themselves need some, too.
        let memory = self.memory - self.memory / 3;
        let each = |programs: u64| PROGRAMS_BYTES_MAX.min(memory) / programs;
        match of {
            BuffersOf::Program => (each(PROGRAMS), self.cpus),
            BuffersOf::EveryProgram => (each(PROGRAMS.max(self.cpus)), self.cpus),
            BuffersOf::Kernel => (KERNEL_BYTES_MAX.min(memory / PROGRAMS), self.possible_cpus),
        }
    }

    /// These sizes, of a sub-buffer \[byte\] and the number of them, or smaller ones that are no burden here.
    pub(crate) fn fit(&self, of: BuffersOf, (size, number): (u64, u32)) -> (u64, u32) {
        let (mut size, mut number) = (size, number);
        let (limit, streams) = self.limit(of);
        let is_over = |size: u64, number: u32| {
            size.saturating_mul(number.into()).saturating_mul(streams) > limit
        };
        let steps = match of {
            BuffersOf::Kernel => KERNEL_STEPS,
            BuffersOf::Program | BuffersOf::EveryProgram => PROGRAM_STEPS,
        };
        for &(least_size, least_number) in steps {
            while size > least_size && is_over(size, number) {
                size /= 2;
            }
            while number > least_number && is_over(size, number) {
                number /= 2;
            }
        }
        (size, number)
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// A line of /proc/meminfo \[byte\].
pub(crate) fn kib(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The least that our control group, and those that it is in, may take of the memory \[byte\]; of version 2 or 1.
fn limit_of_groups(root: &Path) -> Option<u64> {
    let groups = read(&root.join("proc/self/cgroup"));
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, Path::new(parts.next()?));
        let (folders, file): (&[&str], _) = match controllers {
            "" => (&["sys/fs/cgroup", "sys/fs/cgroup/unified"], "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => {
                (&["sys/fs/cgroup/memory"], "memory.limit_in_bytes")
            }
            _ => return None,
        };
        // Outside of what is mounted here.
        if path.components().any(|one| one == Component::ParentDir) {
            return None;
        }
        let inside = path.ancestors().take(DEPTH_MAX).filter_map(|one| one.strip_prefix("/").ok());
        let limit = |group: &Path| {
            let all = folders.iter().map(|folder| read(&root.join(folder).join(group).join(file)));
            all.filter_map(|text| text.trim().parse::<u64>().ok()).min()
        };
        inside.filter_map(limit).min()
    });
    limits.min()
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
        // Version 1, with others beside it; more than there is is no limit.
        put(
            "proc/self/cgroup",
            "5:cpu,cpuacct:/x\n4:hugetlb,memory:/m\n1:name=systemd:/x\n0::/../a\n",
        );
        put("sys/fs/cgroup/memory/m/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(found().memory, 4 * GIB);
        put("sys/fs/cgroup/memory/m/memory.limit_in_bytes", "536870912\n");
        assert_eq!(found().memory, GIB / 2);
        for nothing in ["", "\n", "4\n", "4:memory\n", "::\n", "x:y:z\n"] {
            put("proc/self/cgroup", nothing);
            assert!(found().memory >= GIB, "{nothing:?}");
        }
    }
}
