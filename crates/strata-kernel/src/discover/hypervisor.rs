//! Ready-made rules for recording what a hypervisor does for its guest: KVM's tracepoints, and functions of QEMU whose
//! names and first arguments have not changed since version 5.0. The symbols of a QEMU show which of these functions it
//! has.

use crate::decide::uprobe;
use crate::discover::elf::ElfError;
use crate::discover::tracefs::Tracefs;

/// Functions of QEMU: the probe's name, its kind, the function, and its arguments.
const PROBES: [(&str, &str, &str, &str); 14] = [
    // TCG: the emulated CPU runs, or stops.
    ("qemu_tcg_enter", "uprobe", "cpu_exec", "(cpu:u64)"),
    ("qemu_tcg_exit", "uretprobe", "cpu_exec", ""),
    ("qemu_interrupt", "uprobe", "do_interrupt_x86_hardirq", "(cpu:u64, vector:s32)"),
    // KVM: the virtual CPU runs, or stops.
    ("qemu_kvm_enter", "uprobe", "kvm_cpu_exec", "(cpu:u64)"),
    ("qemu_kvm_exit", "uretprobe", "kvm_cpu_exec", ""),
    // The virtual CPU has nothing to do.
    ("qemu_idle_enter", "uprobe", "qemu_wait_io_event", "(cpu:u64)"),
    ("qemu_idle_exit", "uretprobe", "qemu_wait_io_event", ""),
    // The guest touches a device's memory or ports, and the device answers.
    ("qemu_device_read", "uprobe", "memory_region_dispatch_read", "(region:u64, address:u64)"),
    (
        "qemu_device_write",
        "uprobe",
        "memory_region_dispatch_write",
        "(region:u64, address:u64, value:u64)",
    ),
    ("qemu_virtio_notify", "uprobe", "virtio_queue_notify", "(device:u64, queue:s32)"),
    ("qemu_virtio_interrupt", "uprobe", "virtio_notify", "(device:u64, queue:u64)"),
    ("qemu_disk_read", "uprobe", "blk_aio_preadv", "(disk:u64, offset:s64)"),
    ("qemu_disk_write", "uprobe", "blk_aio_pwritev", "(disk:u64, offset:s64)"),
    // Paused, and gone on.
    ("qemu_state", "uprobe", "vm_state_notify", "(is_running:u8, state:u32)"),
];

/// The provider of KVM's tracepoints in the kernel.
const KVM: &str = "kvm";

/// Rules that record a hypervisor: events of the kernel, and functions of one QEMU program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HypervisorRules {
    /// Tracepoints of the kernel, as arguments of `-k`.
    pub kernel: Vec<String>,
    /// Functions of QEMU, as arguments of `--probe`.
    pub probes: Vec<String>,
    /// Functions that this QEMU does not have.
    pub missing: Vec<&'static str>,
}

/// Returns the rules for this QEMU, given as a path or as a name in the form of `--probe`.
///
/// # Errors
/// The file does not exist, or is not ELF for x86-64.
pub fn rules(qemu: &str) -> Result<HypervisorRules, ElfError> {
    let listing = uprobe::list(qemu)?;
    let mut rules = of(qemu, &listing.functions);
    // Who may not look gets what can be had; what cannot is said where it is asked for.
    let events = Tracefs::find().and_then(|tracefs| tracefs.events()).unwrap_or_default();
    if events.iter().any(|(system, _)| system == KVM) {
        rules.kernel.push(format!("{KVM}:*"));
    }
    Ok(rules)
}

/// Returns the rules for a file with these functions, which are sorted.
fn of(qemu: &str, functions: &[String]) -> HypervisorRules {
    let mut rules = HypervisorRules::default();
    for (name, kind, function, arguments) in PROBES {
        match functions.binary_search_by(|known| known.as_str().cmp(function)) {
            Ok(_) => rules.probes.push(format!("{name}={kind}:{qemu}:{function}{arguments}")),
            Err(_) if rules.missing.contains(&function) => {}
            Err(_) => rules.missing.push(function),
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn functions_that_there_are_become_probes_and_the_others_are_named() {
        let functions = ["cpu_exec", "virtio_notify"].map(str::to_owned);
        let rules = of("/bin/q", &functions);
        assert_eq!(
            rules.probes,
            [
                "qemu_tcg_enter=uprobe:/bin/q:cpu_exec(cpu:u64)",
                "qemu_tcg_exit=uretprobe:/bin/q:cpu_exec",
                "qemu_virtio_interrupt=uprobe:/bin/q:virtio_notify(device:u64, queue:u64)",
            ]
        );
        assert_eq!(rules.missing.len(), 9);
        assert!(rules.kernel.is_empty() && rules.missing.contains(&"kvm_cpu_exec"));
    }

    #[test]
    fn probes_of_an_installed_qemu_can_be_made() {
        let Ok(rules) = rules("qemu-system-x86_64") else {
            return eprintln!("skip: missing tool qemu-system-x86_64");
        };
        assert!(rules.probes.iter().any(|probe| probe.contains(":cpu_exec")), "{rules:?}");
        let probes = uprobe::parse_all(&rules.probes).unwrap();
        // A function may be left by several kinds of jumps: one event in several places.
        let names: HashSet<&str> = probes.events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!((names.len(), probes.remarks), (rules.probes.len(), Vec::new()));
    }
}
