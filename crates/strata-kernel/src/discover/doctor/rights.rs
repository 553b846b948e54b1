//! Findings on the rights of this process.

use super::files::number;
use super::finding::{ExaminedMachine, Finding};
use crate::discover::capability::Capability;
use crate::processes::pid_namespace::is_first_namespace_of;

pub(super) fn findings(machine: &ExaminedMachine<'_>) -> Vec<Finding> {
    let mut all = vec![to_record(machine)];
    all.push(tracefs_rights(machine));
    all.push(yama(machine));
    all
}

/// Checks this process's rights to load and attach BPF programs.
fn to_record(machine: &ExaminedMachine<'_>) -> Finding {
    const WHAT: &str = "rights";
    let missing = machine.capabilities.missing_to_record();
    if missing.is_empty() {
        let how = match machine.capabilities.has(Capability::SysAdmin) {
            true => "CAP_SYS_ADMIN, or root",
            false => "CAP_BPF and CAP_PERFMON",
        };
        return Finding::good(WHAT, how);
    }
    if machine.capabilities.is_namespaced() {
        return Finding::missing(
            WHAT,
            "in a user namespace, whose capabilities do not reach the kernel",
            "Run outside of it (a container: with --privileged and without a user namespace)",
        );
    }
    let names: Vec<&str> = missing.into_iter().map(Capability::name).collect();
    Finding::missing(
        WHAT,
        format!("no {}: no kernel events, no uprobes; user space can be recorded", names.join(", no ")),
        match is_first_namespace_of(machine.root) {
            true => "Run as root, or: setcap cap_bpf,cap_perfmon,cap_dac_read_search+ep \"$(command -v strata)\"",
            false => {
                "Start the container with --cap-add BPF --cap-add PERFMON --cap-add DAC_READ_SEARCH and -v \
                 /sys/kernel/tracing:/sys/kernel/tracing:ro, or record on the host"
            }
        },
    )
}

/// Checks the right to read files of root: tracefs, and some files of /proc.
fn tracefs_rights(machine: &ExaminedMachine<'_>) -> Finding {
    const WHAT: &str = "files of root";
    match machine.capabilities.has(Capability::DacReadSearch) {
        true => Finding::good(WHAT, "readable (CAP_DAC_READ_SEARCH)"),
        false => Finding::limited(
            WHAT,
            "no CAP_DAC_READ_SEARCH: tracefs is readable only if a mount option says so",
            match is_first_namespace_of(machine.root) {
                true => "Run as root, or add cap_dac_read_search with setcap",
                false => "Start the container with --cap-add DAC_READ_SEARCH",
            },
        ),
    }
}

/// Checks the right to use ptrace, by which running programs are prepared.
fn yama(machine: &ExaminedMachine<'_>) -> Finding {
    const WHAT: &str = "running programs";
    if machine.capabilities.has(Capability::SysPtrace) {
        // At 3 nobody may, whatever the capabilities.
        return match number(machine.root, "proc/sys/kernel/yama/ptrace_scope") {
            Some(3) => nobody(WHAT),
            _ => Finding::good(WHAT, "of every user can be recorded (CAP_SYS_PTRACE)"),
        };
    }
    match number(machine.root, "proc/sys/kernel/yama/ptrace_scope") {
        None | Some(0) => Finding::good(WHAT, "your own can be recorded"),
        Some(3) => nobody(WHAT),
        Some(scope) => Finding::limited(
            WHAT,
            format!("ptrace_scope {scope}: only programs that strata starts can be recorded"),
            "sysctl kernel.yama.ptrace_scope=0, or run as root",
        ),
    }
}

fn nobody(what: &str) -> Finding {
    Finding::limited(
        what,
        "ptrace_scope 3: nobody may look into one; only programs that strata starts can be recorded",
        "Set kernel.yama.ptrace_scope=0 in /etc/sysctl.d, and boot: 3 cannot be taken back",
    )
}
