//! The capabilities of this process.

use std::fmt;
use std::fs;
use std::path::Path;

use rustix::thread::{capabilities, set_capabilities, CapabilitySets};

/// The capabilities that matter for recording, with the kernel's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Capability {
    /// Reading files that other users may not read: tracefs belongs to root.
    DacReadSearch = 2,
    /// Examining and preparing running programs of other users.
    SysPtrace = 19,
    /// All rights, on kernels that do not have the two below.
    SysAdmin = 21,
    /// Raising the limit of open files.
    SysResource = 24,
    /// Attaching programs to events of the kernel and of processes, and reading memory in such programs.
    Perfmon = 38,
    /// Loading programs and creating maps.
    Bpf = 39,
}

impl Capability {
    /// Returns the capability's name, in capitals, as the manual has it.
    pub fn name(self) -> &'static str {
        match self {
            Capability::DacReadSearch => "CAP_DAC_READ_SEARCH",
            Capability::SysPtrace => "CAP_SYS_PTRACE",
            Capability::SysAdmin => "CAP_SYS_ADMIN",
            Capability::SysResource => "CAP_SYS_RESOURCE",
            Capability::Perfmon => "CAP_PERFMON",
            Capability::Bpf => "CAP_BPF",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The capabilities that are in effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    effective: u64,
    /// True if this process is in a user namespace of its own. Capabilities there do not allow recording the kernel.
    namespaced: bool,
}

impl Capabilities {
    /// Reads the capabilities of this process; there are none if /proc cannot be read.
    pub fn of_this_process() -> Capabilities {
        Capabilities::read(Path::new("/"))
    }

    /// Reads the capabilities from `root`/proc/self.
    pub fn read(root: &Path) -> Capabilities {
        let text = |name| fs::read_to_string(root.join("proc/self").join(name)).unwrap_or_default();
        Capabilities {
            effective: effective(&text("status")).unwrap_or(0),
            namespaced: is_namespaced(&text("uid_map")),
        }
    }

    /// Returns whether the capability, or one that includes it, is in effect.
    pub fn has(self, capability: Capability) -> bool {
        let set = |one: Capability| self.effective & (1 << (one as u32)) != 0;
        let included = matches!(capability, Capability::Bpf | Capability::Perfmon);
        !self.namespaced && (set(capability) || (included && set(Capability::SysAdmin)))
    }

    /// Returns whether this process is in a user namespace, whose capabilities do not allow recording the kernel.
    pub fn is_namespaced(self) -> bool {
        self.namespaced
    }

    /// Returns the capabilities that are missing to record kernel events.
    pub fn missing_to_record(self) -> Vec<Capability> {
        let needed = [Capability::Bpf, Capability::Perfmon];
        needed.into_iter().filter(|one| !self.has(*one)).collect()
    }
}

/// Permanently gives up this thread's capabilities that are permitted but not in effect.
pub(crate) fn give_up_reserve() {
    let Ok(before) = capabilities(None) else { return };
    let kept = CapabilitySets { permitted: before.effective, ..before };
    // To have less is always allowed.
    let _ = set_capabilities(None, kept);
}

/// Parses the line `CapEff:` of /proc/PID/status.
fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Returns whether the mapping of users is that of a user namespace. The machine's first namespace maps all users to
/// themselves; a kernel without user namespaces has no such file, so the text is empty.
fn is_namespaced(uid_map: &str) -> bool {
    !uid_map.is_empty() && uid_map.split_whitespace().ne(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use rustix::thread::CapabilitySet;

    use super::*;

    const WHOLE: &str = "         0          0 4294967295\n";

    fn with(effective: u64) -> Capabilities {
        Capabilities { effective, namespaced: false }
    }

    #[test]
    fn effective_of_a_status_file_is_its_hexadecimal_line() {
        let status =
            "Name:\tx\nCapPrm:\t0000000000000001\nCapEff:\t000000c000000004\nSeccomp:\t0\n";
        assert_eq!(effective(status), Some(0xc0_0000_0004));
        assert_eq!(effective("CapEff:\tnonsense\n"), None);
        assert_eq!(effective(""), None);
    }

    #[test]
    fn missing_with_bpf_and_perfmon_or_with_sys_admin_is_nothing() {
        assert!(with(1 << 39 | 1 << 38).missing_to_record().is_empty());
        assert!(with(1 << 21).missing_to_record().is_empty());
        assert_eq!(with(1 << 39).missing_to_record(), [Capability::Perfmon]);
        assert_eq!(with(0).missing_to_record(), [Capability::Bpf, Capability::Perfmon]);
    }

    #[test]
    fn sys_admin_includes_no_other_than_bpf_and_perfmon() {
        assert!(!with(1 << 21).has(Capability::SysPtrace));
        assert!(with(1 << 19).has(Capability::SysPtrace));
    }

    #[test]
    fn all_capabilities_in_a_user_namespace_are_none() {
        assert!(!is_namespaced(WHOLE));
        assert!(!is_namespaced(""));
        assert!(is_namespaced("         0       1000          1\n"));
        let here = Capabilities { effective: u64::MAX, namespaced: true };
        assert_eq!(here.missing_to_record().len(), 2);
    }

    #[test]
    fn what_is_in_reserve_is_given_up_and_what_is_in_effect_stays() {
        let (before, kept) = std::thread::spawn(|| {
            let all = capabilities(None).unwrap();
            // All but one is in reserve.
            let one = all.effective & CapabilitySet::KILL;
            set_capabilities(None, CapabilitySets { effective: one, ..all }).unwrap();
            let before = capabilities(None).unwrap();
            give_up_reserve();
            (before, capabilities(None).unwrap())
        })
        .join()
        .unwrap();
        assert_eq!((kept.effective, kept.permitted), (before.effective, before.effective));
        assert_eq!(kept.inheritable, before.inheritable);
    }

    #[test]
    fn read_where_there_is_no_proc_gives_none() {
        assert_eq!(Capabilities::read(Path::new("/nowhere")), Capabilities::default());
    }
}
