//! Finds out whether this process is in a container, as far as the kernel shows that: its namespaces, and what is
//! missing there to record the kernel.

use crate::discover::capability::{Capabilities, Capability};
use crate::discover::tracefs::Tracefs;
use crate::processes::pid_namespace::is_first_namespace;

/// PROC_CGROUP_INIT_INO of the kernel's include/linux/proc_ns.h.
const FIRST_CGROUPS: u64 = 0xeffffffb;

/// The restrictions of this process's view of the machine, such as those of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inside {
    /// True if the process has a PID namespace of its own.
    pub has_pids: bool,
    /// True if the process has a control group namespace of its own.
    pub has_cgroups: bool,
    /// True if the process has a user namespace of its own, so that no capability counts for the kernel.
    pub has_users: bool,
    /// True if /proc shows another PID namespace than the one of this process.
    pub shows_others: bool,
    /// Capabilities that are missing to record the kernel.
    pub missing: Vec<Capability>,
    /// True if the kernel's descriptions of its events cannot be read.
    pub has_no_tracefs: bool,
}

impl Inside {
    /// Examines this process; `None` if there is no sign of a container.
    #[must_use]
    pub fn look() -> Option<Inside> {
        let rights = Capabilities::of_this_process();
        let cgroups = rustix::fs::stat("/proc/self/ns/cgroup").map(|found| found.st_ino);
        let numbered = std::fs::read_link("/proc/self").ok();
        let number = numbered.as_deref().and_then(|link| link.to_str()?.parse::<u32>().ok());
        let inside = Inside {
            has_pids: !is_first_namespace(),
            has_cgroups: cgroups.is_ok_and(|found| found != FIRST_CGROUPS),
            has_users: rights.is_namespaced(),
            shows_others: number.is_some_and(|number| number != std::process::id()),
            ..Inside::default()
        };
        if inside == Inside::default() {
            return None;
        }
        let has_no_tracefs = Tracefs::find().is_err();
        Some(Inside { missing: rights.missing_to_record(), has_no_tracefs, ..inside })
    }

    /// Returns a text for the user about what this process can see of the machine, what it cannot, and how to
    /// change that. `records`: true if the kernel is recorded; `wants`: true if the user wanted that.
    #[must_use]
    pub fn remark(&self, records: bool, wants: bool) -> String {
        let own =
            [(self.has_pids, "PID"), (self.has_cgroups, "control group"), (self.has_users, "user")];
        let own: Vec<&str> = own.into_iter().filter_map(|(is, name)| is.then_some(name)).collect();
        let mut text = match own.is_empty() {
            true => "recorded where /proc is another one's".to_owned(),
            false => format!("recorded in a container ({} namespace of its own)", own.join(", ")),
        };
        if self.has_pids {
            text.push_str(": programs outside of it are not seen");
        }
        if records && self.has_pids {
            text.push_str(
                ". Events of the kernel have the machine's numbers of processes; -p and this report those of \
                 here, which are vpid and vtid there",
            );
        }
        if self.shows_others {
            text.push_str(
                ". /proc shows another PID namespace, with other numbers: mount -t proc proc /proc, or start it \
                 with unshare --mount-proc",
            );
        }
        if !wants || records {
            return text;
        }
        text.push_str(match (self.has_users, self.missing.is_empty(), self.has_no_tracefs) {
            (true, ..) => {
                ". The kernel is not recorded: capabilities of a user namespace do not reach it. Record on the host"
            }
            (_, false, _) => {
                ". To record the kernel from here, the container needs --cap-add BPF --cap-add PERFMON --cap-add \
                 DAC_READ_SEARCH and -v /sys/kernel/tracing:/sys/kernel/tracing:ro; or record on the host"
            }
            (_, true, true) => {
                ". To record the kernel from here, the container needs -v \
                 /sys/kernel/tracing:/sys/kernel/tracing:ro"
            }
            (_, true, false) => "",
        });
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remark_says_what_is_seen_and_what_helps() {
        let inside = Inside { has_pids: true, has_cgroups: true, ..Inside::default() };
        let text = inside.remark(true, true);
        assert!(text.contains("(PID, control group namespace") && text.contains("vpid"), "{text}");
        assert!(!text.contains("cap-add"), "{text}");
        let without = Inside { missing: vec![Capability::Bpf], ..inside.clone() };
        assert!(without.remark(false, true).contains("--cap-add BPF"));
        // Who does not want the kernel is not told of it.
        assert!(!without.remark(false, false).contains("--cap-add BPF"));
        let rootless = Inside { has_users: true, ..without };
        let text = rootless.remark(false, true);
        assert!(text.contains("Record on the host") && !text.contains("--cap-add"), "{text}");
        let unmounted = Inside { has_no_tracefs: true, ..inside };
        let text = unmounted.remark(false, true);
        assert!(text.contains("-v /sys/kernel/tracing") && !text.contains("--cap-add"), "{text}");
        let other = Inside { shows_others: true, ..Inside::default() };
        assert!(other.remark(false, false).contains("mount -t proc"));
    }
}
