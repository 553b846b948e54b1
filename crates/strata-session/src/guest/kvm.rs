//! What KVM says in debugfs of the machines that it runs: a folder for each, and in it one for each virtual CPU.

use std::fs;
use std::path::{Path, PathBuf};

/// Where it says it.
pub(super) const DEBUGFS: &str = "/sys/kernel/debug/kvm";
/// Machines that are looked through, and virtual CPUs of one.
const MACHINES_MAX: usize = 1 << 12;
const CPUS_MAX: usize = 1 << 12;

/// The machine that this process runs. `None`: there is none, or there are several, and nobody says which one is meant.
pub(super) fn machine(debugfs: &Path, pid: u32) -> Option<PathBuf> {
    // PID-DESCRIPTOR.
    let prefix = format!("{pid}-");
    let all = fs::read_dir(debugfs).ok()?.flatten().take(MACHINES_MAX);
    let mut of =
        all.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()));
    let folder = of.next()?.path();
    of.next().is_none().then_some(folder)
}

/// Its virtual CPUs by KVM's numbers, and the folder of each; in no order.
pub(super) fn virtual_cpus(machine: &Path) -> Vec<(u32, PathBuf)> {
    let all = fs::read_dir(machine).into_iter().flatten().flatten().take(CPUS_MAX);
    let cpu = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix("vcpu")?.parse().ok()?;
        Some((number, entry.path()))
    };
    all.filter_map(cpu).collect()
}

/// What a file of a virtual CPU says.
pub(super) fn number(cpu: &Path, name: &str) -> Option<i64> {
    fs::read_to_string(cpu.join(name)).ok()?.trim().parse().ok()
}
