//! What this process may do.

use std::fmt;
use std::fs;
use std::path::Path;

use rustix::thread::{capabilities, set_capabilities, CapabilitySets};

/// The capabilities that recording asks for, with the kernel's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Capability {
    /// Read what others may not: tracefs is root's.
    DacReadSearch = 2,
    /// Look into, and prepare, programs of other users that are running already.
    SysPtrace = 19,
    /// Everything, on kernels that do not know the two below.
    SysAdmin = 21,
    /// Raise the limit of open files.
    SysResource = 24,
    /// Attach programs to what the kernel and processes do, and read their memory from there.
    Perfmon = 38,
    /// Load programs and make maps.
    Bpf = 39,
}

impl Capability {
    /// Its name, as `setcap` and the manual have it, but in capitals.
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
    /// A user namespace other than the machine's: what is in effect there does not count for the kernel.
    namespaced: bool,
}

impl Capabilities {
    /// Those of this process; none if /proc does not tell.
    pub fn of_this_process() -> Capabilities {
        Capabilities::read(Path::new("/"))
    }

    /// As `root`/proc/self says.
    pub fn read(root: &Path) -> Capabilities {
        let text = |name| fs::read_to_string(root.join("proc/self").join(name)).unwrap_or_default();
        Capabilities {
            effective: effective(&text("status")).unwrap_or(0),
            namespaced: is_namespaced(&text("uid_map")),
        }
    }

    /// Whether it is in effect, or one that includes it.
    pub fn has(self, capability: Capability) -> bool {
        let set = |one: Capability| self.effective & (1 << (one as u32)) != 0;
        let included = matches!(capability, Capability::Bpf | Capability::Perfmon);
        !self.namespaced && (set(capability) || (included && set(Capability::SysAdmin)))
    }

    /// Whether this process is in a user namespace, where capabilities do not reach the kernel's own.
    pub fn is_namespaced(self) -> bool {
        self.namespaced
    }

    /// What is missing to record kernel events; empty: nothing.
    pub fn missing_to_record(self) -> Vec<Capability> {
        let needed = [Capability::Bpf, Capability::Perfmon];
        needed.into_iter().filter(|one| !self.has(*one)).collect()
    }
}

/// This thread has for good no more than what is in effect: what who made it keeps in reserve, it has no use for.
pub(crate) fn give_up_reserve() {
    let Ok(before) = capabilities(None) else { return };
    let kept = CapabilitySets { permitted: before.effective, ..before };
    // To have less is always allowed.
    let _ = set_capabilities(None, kept);
}

/// The line `CapEff:` of /proc/PID/status.
fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// The machine's own namespace maps all users to themselves. Without user namespaces there is no file.
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
