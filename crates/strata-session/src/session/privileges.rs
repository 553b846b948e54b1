//! Limits the capabilities of a recorder after its start: no thread keeps more capabilities than its work needs.

use rustix::thread::{
    capabilities, set_capabilities, set_no_new_privs, CapabilitySet, CapabilitySets,
};

/// The work of a thread while the session records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// All work, for the thread that creates the other threads.
    Everything,
    /// Waiting for the command and for signals, and ending the kernel's layer.
    Watch,
    /// Examining processes, and enabling or disabling their tracepoints.
    Applications,
    /// Taking packets from buffers and writing them to files.
    Files,
    /// Taking the kernel's packets and writing them.
    Kernel,
    /// Receiving reports of mapped code, also for CPUs that come online later.
    Code,
    /// Reading the names of code that processes generate, from files that they write.
    Names,
    /// Writing messages for the user.
    Talk,
}

/// Capabilities for files, since the trace may be in a folder of another user.
const FILES: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);

/// Capabilities for access to processes: their descriptors, their code, and the rights of their users.
const PROCESSES: CapabilitySet =
    CapabilitySet::SYS_PTRACE.union(CapabilitySet::SETUID).union(CapabilitySet::SETGID);

/// Capabilities for programs and maps in the kernel.
const PROGRAMS: CapabilitySet = CapabilitySet::BPF.union(CapabilitySet::PERFMON);

impl Work {
    /// Returns the capabilities that the work needs. `is_old`: true for kernels that demand CAP_SYS_ADMIN for
    /// BPF and for perf events.
    fn needs(self, is_old: bool) -> CapabilitySet {
        let admin = if is_old { CapabilitySet::SYS_ADMIN } else { CapabilitySet::empty() };
        // /proc/PID/map_files
        let mapped = admin | CapabilitySet::CHECKPOINT_RESTORE;
        let programs = admin | PROGRAMS;
        match self {
            // A persistent session may later need the names of the kernel's functions (/proc/kallsyms).
            Work::Everything => {
                FILES | PROCESSES | mapped | programs | CapabilitySet::KILL | CapabilitySet::SYSLOG
            }
            Work::Watch => FILES | programs | CapabilitySet::KILL,
            Work::Applications => FILES | PROCESSES | mapped,
            Work::Files => FILES,
            Work::Kernel => FILES | programs,
            Work::Code => programs,
            Work::Names => CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH,
            Work::Talk => CapabilitySet::empty(),
        }
    }
}

/// Returns whether this kernel demands CAP_SYS_ADMIN where others demand CAP_PERFMON, as Debian's does by default.
fn is_paranoid() -> bool {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    text.ok().and_then(|text| text.trim().parse::<i32>().ok()).is_some_and(|level| level > 2)
}

/// Permanently gives up all capabilities that this work does not need, in this thread and those that it will create.
/// Does nothing if there are none.
pub(crate) fn keep_for(work: Work) {
    keep(work, CapabilitySet::empty());
}

/// Gives up capabilities like [`keep_for`], for a persistent session: which creates layers later. Capabilities for
/// attaching probes to programs stay in reserve.
pub(crate) fn keep_for_later() {
    keep(Work::Everything, CapabilitySet::SYS_ADMIN);
}

fn keep(work: Work, in_reserve: CapabilitySet) {
    let Ok(before) = capabilities(None) else { return };
    let mut needed = work.needs(!knows_checkpoint_restore());
    if matches!(work, Work::Everything | Work::Code) && is_paranoid() {
        needed |= CapabilitySet::SYS_ADMIN;
    }
    let kept = CapabilitySets {
        effective: before.effective & needed,
        permitted: before.permitted & (needed | in_reserve),
        inheritable: CapabilitySet::empty(),
    };
    // Giving up capabilities is always allowed; on a failure the thread keeps what it had.
    let _ = set_capabilities(None, kept);
    let _ = set_no_new_privs(true);
}

/// Gives up all capabilities of this thread, which only writes messages.
pub fn give_up_rights() {
    keep_for(Work::Talk);
}

/// Returns whether the kernel has CAP_CHECKPOINT_RESTORE. Such kernels (Linux 5.9) also have the capabilities for
/// programs.
fn knows_checkpoint_restore() -> bool {
    const CAP_CHECKPOINT_RESTORE: u32 = 40;
    let last = std::fs::read_to_string("/proc/sys/kernel/cap_last_cap").unwrap_or_default();
    last.trim().parse::<u32>().is_ok_and(|last| last >= CAP_CHECKPOINT_RESTORE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Work; 8] = [
        Work::Everything,
        Work::Watch,
        Work::Applications,
        Work::Files,
        Work::Kernel,
        Work::Code,
        Work::Names,
        Work::Talk,
    ];

    #[test]
    fn who_makes_the_threads_has_what_each_of_them_needs() {
        for is_old in [false, true] {
            let everything = Work::Everything.needs(is_old);
            for work in ALL {
                assert!(everything.contains(work.needs(is_old)), "{work:?}");
            }
            assert_eq!(everything.contains(CapabilitySet::SYS_ADMIN), is_old);
        }
        assert!(!Work::Files.needs(true).contains(CapabilitySet::SYS_PTRACE));
    }

    #[test]
    fn keep_for_is_of_the_thread_and_for_good() {
        let before = capabilities(None).unwrap();
        let kept = std::thread::spawn(|| {
            keep_for(Work::Applications);
            keep_for(Work::Everything);
            capabilities(None).unwrap()
        });
        let kept = kept.join().unwrap();
        let needed = Work::Applications.needs(!knows_checkpoint_restore());
        assert_eq!(kept.permitted, before.permitted & needed);
        assert_eq!(kept.effective, before.effective & needed);
        assert_eq!(capabilities(None).unwrap(), before);
    }

    #[test]
    fn what_is_in_reserve_is_not_in_effect_and_no_other_thread_s() {
        let before = capabilities(None).unwrap();
        let (own, other) = std::thread::spawn(|| {
            keep_for_later();
            let other = std::thread::spawn(|| {
                keep_for(Work::Everything);
                capabilities(None).unwrap()
            });
            (capabilities(None).unwrap(), other.join().unwrap())
        })
        .join()
        .unwrap();
        let admin = CapabilitySet::SYS_ADMIN;
        assert_eq!(own.permitted.contains(admin), before.permitted.contains(admin));
        assert_eq!(own.effective, other.effective);
        if !is_paranoid() && knows_checkpoint_restore() {
            assert!(!own.effective.contains(admin) && !other.permitted.contains(admin));
        }
    }

    #[test]
    fn each_work_has_what_it_needs_and_not_what_the_others_do() {
        use CapabilitySet as Set;
        for (work, is_old, has, has_not) in [
            (Work::Files, false, Set::DAC_OVERRIDE, Set::BPF | Set::SYS_PTRACE | Set::KILL),
            (Work::Applications, false, Set::SYS_PTRACE | Set::SETUID, Set::BPF | Set::PERFMON),
            (Work::Applications, false, Set::CHECKPOINT_RESTORE, Set::SYS_ADMIN),
            (Work::Applications, true, Set::SYS_ADMIN, Set::KILL),
            (Work::Kernel, false, Set::BPF | Set::PERFMON, Set::SYS_PTRACE | Set::SETUID),
            (Work::Kernel, true, Set::SYS_ADMIN, Set::SYS_PTRACE | Set::KILL),
            (Work::Code, false, Set::BPF | Set::PERFMON, Set::DAC_OVERRIDE | Set::SYS_ADMIN),
            (Work::Names, true, Set::SYS_PTRACE, Set::DAC_OVERRIDE | Set::SETUID | Set::SYS_ADMIN),
            (Work::Watch, false, Set::KILL | Set::BPF, Set::SYS_PTRACE | Set::SETGID),
            (Work::Talk, true, Set::empty(), Set::all()),
        ] {
            let needs = work.needs(is_old);
            assert!(needs.contains(has), "{work:?} {is_old}: {needs:?}");
            assert!(!needs.intersects(has_not), "{work:?} {is_old}: {needs:?}");
        }
    }
}
