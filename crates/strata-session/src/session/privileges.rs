//! What a recorder that is root, or has capabilities, still may do after its start: no thread holds more than
//! its work needs.

use rustix::thread::{
    capabilities, set_capabilities, set_no_new_privs, CapabilitySet, CapabilitySets,
};

/// What a thread does while this records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// All of it: who makes the other threads.
    Everything,
    /// Waits for the command and for signals, ends the kernel's layer.
    Watch,
    /// Looks into processes and switches their tracepoints on and off.
    Applications,
    /// Takes packets and writes them to files.
    Files,
    /// Takes the kernel's packets and writes them.
    Kernel,
    /// Hears what processes map, also on CPUs that come later.
    Code,
    /// Talks to whoever started this.
    Talk,
}

/// Files: the trace may lie in a folder of another user.
const FILES: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);

/// Processes: their descriptors, their code, and for that the rights of their users.
const PROCESSES: CapabilitySet =
    CapabilitySet::SYS_PTRACE.union(CapabilitySet::SETUID).union(CapabilitySet::SETGID);

/// The kernel's programs and maps.
const PROGRAMS: CapabilitySet = CapabilitySet::BPF.union(CapabilitySet::PERFMON);

impl Work {
    /// What it needs. `is_old`: of a kernel that knows fewer capabilities, where one stood for many.
    fn needs(self, is_old: bool) -> CapabilitySet {
        let admin = if is_old { CapabilitySet::SYS_ADMIN } else { CapabilitySet::empty() };
        // /proc/PID/map_files
        let mapped = admin | CapabilitySet::CHECKPOINT_RESTORE;
        let programs = admin | PROGRAMS;
        match self {
            Work::Everything => FILES | PROCESSES | mapped | programs | CapabilitySet::KILL,
            Work::Watch => FILES | programs | CapabilitySet::KILL,
            Work::Applications => FILES | PROCESSES | mapped,
            Work::Files => FILES,
            Work::Kernel => FILES | programs,
            Work::Code => programs,
            Work::Talk => CapabilitySet::empty(),
        }
    }
}

/// Does this kernel ask for CAP_SYS_ADMIN where others ask for CAP_PERFMON? Debian's does, as it is.
fn is_paranoid() -> bool {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    text.ok().and_then(|text| text.trim().parse::<i32>().ok()).is_some_and(|level| level > 2)
}

/// This thread, and those that it makes from now on, give up for good what this work does not need. Does
/// nothing where there is nothing to give up.
pub(crate) fn keep_for(work: Work) {
    keep(work, CapabilitySet::empty());
}

/// The same of a session that stays: it makes layers whenever it is asked to, and what probes of programs need is in
/// reserve, in effect only while one is attached.
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
    // To have less is always allowed; who cannot, goes on as it was.
    let _ = set_capabilities(None, kept);
    let _ = set_no_new_privs(true);
}

/// This thread gives up all of them: it talks, and does nothing else.
pub fn give_up_rights() {
    keep_for(Work::Talk);
}

/// Linux 5.9, which knows it, knows those for programs, too.
fn knows_checkpoint_restore() -> bool {
    const CAP_CHECKPOINT_RESTORE: u32 = 40;
    let last = std::fs::read_to_string("/proc/sys/kernel/cap_last_cap").unwrap_or_default();
    last.trim().parse::<u32>().is_ok_and(|last| last >= CAP_CHECKPOINT_RESTORE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Work; 7] = [
        Work::Everything,
        Work::Watch,
        Work::Applications,
        Work::Files,
        Work::Kernel,
        Work::Code,
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
            (Work::Watch, false, Set::KILL | Set::BPF, Set::SYS_PTRACE | Set::SETGID),
            (Work::Talk, true, Set::empty(), Set::all()),
        ] {
            let needs = work.needs(is_old);
            assert!(needs.contains(has), "{work:?} {is_old}: {needs:?}");
            assert!(!needs.intersects(has_not), "{work:?} {is_old}: {needs:?}");
        }
    }
}
