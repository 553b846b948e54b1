//! Reads KVM's folder in debugfs, which has a folder for each machine, with a folder for each of its virtual CPUs.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder in debugfs where KVM describes its machines.
pub(super) const DEBUGFS: &str = "/sys/kernel/debug/kvm";
/// The most machines that are searched.
const MACHINES_MAX: usize = 1 << 12;
/// The most virtual CPUs of one machine.
const CPUS_MAX: usize = 1 << 12;

/// Returns KVM's folder of the machine that this process runs; `None` if there is no folder, or if there are several.
pub(super) fn machine(debugfs: &Path, pid: u32) -> Option<PathBuf> {
    // The folder's name is PID-DESCRIPTOR.
    let prefix = format!("{pid}-");
    let all = fs::read_dir(debugfs).ok()?.flatten().take(MACHINES_MAX);
    let mut of =
        all.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()));
    let folder = of.next()?.path();
    of.next().is_none().then_some(folder)
}

/// Returns the machine's virtual CPUs by KVM's numbers, each with its folder, in no particular order.
pub(super) fn virtual_cpus(machine: &Path) -> Vec<(u32, PathBuf)> {
    let all = fs::read_dir(machine).into_iter().flatten().flatten().take(CPUS_MAX);
    let cpu = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix("vcpu")?.parse().ok()?;
        Some((number, entry.path()))
    };
    all.filter_map(cpu).collect()
}

/// Reads a number from a file in a virtual CPU's folder.
pub(super) fn number(cpu: &Path, name: &str) -> Option<i64> {
    fs::read_to_string(cpu.join(name)).ok()?.trim().parse().ok()
}
