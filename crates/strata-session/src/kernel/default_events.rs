//! The kernel's events for a request that does not mention the kernel: a set of events with little cost. If they cannot be
//! recorded, that does not end a session.

use std::path::Path;

use strata_kernel::event_rules::EventSelection;
pub use strata_kernel::event_rules::DEFAULT_RULES as RULES;
use strata_kernel::session::check;
use strata_kernel::Error as KernelError;
use strata_ring::{stream_layout, Attr, LossMode, Publish};

use crate::error::SessionError;
use crate::options::Options;
use crate::report::NoKernel;
use crate::session::memory_check;

/// Memory for loading programs that must be free in addition to the buffers \[byte\]. A generous estimate.
const MEMORY_BYTES: u64 = 128 << 20;

/// Returns the default rules of a persistent session: those of [`RULES`] that select an event of this kernel.
///
/// # Errors
/// [`NoKernel`]: the kernel cannot be recorded, or not by this user.
pub fn of_plan(options: &Options) -> Result<Vec<String>, NoKernel> {
    check().map_err(|error| reason_of(&error))?;
    if !is_there_memory(&options.for_kernel()) {
        return Err(no_memory());
    }
    let catalog = super::catalog().map_err(|error| reason_of(&error))?;
    let selection = EventSelection::parse(&RULES).map_err(|error| reason(&error.into()))?;
    let matched = selection.apply(&catalog).matched;
    let rules: Vec<String> =
        matched.into_iter().filter(|(_, number)| *number > 0).map(|(rule, _)| rule).collect();
    match rules.is_empty() {
        true => Err(reason(&SessionError::NothingSelected(Vec::new()))),
        false => Ok(rules),
    }
}

fn no_memory() -> NoKernel {
    let why = "there is too little memory for it (ulimit -v)".to_owned();
    NoKernel { why, is_failure: true }
}

/// Returns whether one of the processes exists. If all requested processes have ended, other processes must not be
/// recorded instead.
pub fn is_wanted(pids: &[u32]) -> bool {
    pids.is_empty() || pids.iter().any(is_there)
}

/// Returns those processes that exist according to `is_there`, or all if none does: an empty list would mean every
/// process.
pub(crate) fn still(pids: &[u32], is_there: impl Fn(&u32) -> bool) -> Vec<u32> {
    let some: Vec<u32> = pids.iter().copied().filter(is_there).collect();
    if some.is_empty() {
        pids.to_vec()
    } else {
        some
    }
}

pub(crate) fn is_there(pid: &u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn rights() -> NoKernel {
    let why = "only root may, or who has CAP_BPF and CAP_PERFMON".to_owned();
    NoKernel { why, is_failure: false }
}

/// Converts an error to the reason for which the kernel is not recorded: a failure, or a restriction of this machine.
pub(crate) fn reason(error: &SessionError) -> NoKernel {
    match error {
        SessionError::Kernel { cause, .. } => reason_of(cause),
        SessionError::NothingSelected(_) => {
            NoKernel { why: "it has none of the events".to_owned(), is_failure: true }
        }
        SessionError::KernelFilter(slips) => {
            let none = "the filter can select none of the events that are recorded of it";
            let why = slips.asks_for_duration().unwrap_or_else(|| none.to_owned());
            NoKernel { why, is_failure: false }
        }
        SessionError::NothingAttached { why } => NoKernel { why: why.clone(), is_failure: true },
        _ => NoKernel { why: error.to_string(), is_failure: true },
    }
}

fn reason_of(cause: &KernelError) -> NoKernel {
    let is_failure = match cause {
        KernelError::Rights { .. } => return rights(),
        KernelError::Machine { .. }
        | KernelError::NoBtf
        | KernelError::NoTracefs { .. }
        | KernelError::TracefsLockdown { .. }
        | KernelError::TracefsRights { .. } => false,
        _ => true,
    };
    NoKernel { why: cause.to_string(), is_failure }
}

/// Returns the number of CPUs that the machine can have.
fn nr_cpus(options: &Options) -> u64 {
    let attr = Attr {
        loss_mode: LossMode::Discard,
        publish: Publish::ByCommit,
        subbuf_bytes: options.subbuf_bytes,
        nr_subbufs: u64::from(options.nr_subbufs),
        nr_cpus: 0,
        start_position: 0,
    };
    stream_layout(&attr).map_or(1, |layout| layout.nr_streams.into())
}

fn buffer_bytes(options: &Options, nr_cpus: u64) -> u64 {
    (options.subbuf_bytes * u64::from(options.nr_subbufs)).saturating_mul(nr_cpus)
}

fn is_there_memory(options: &Options) -> bool {
    let bytes = buffer_bytes(options, nr_cpus(options)).saturating_add(MEMORY_BYTES);
    usize::try_from(bytes).is_ok_and(|bytes| memory_check::reserve(bytes).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_kernel::event_rules::EventSelection;

    #[test]
    fn default_rules_are_well_formed() {
        let selection = EventSelection::parse(&RULES).unwrap();
        assert!(selection.rules().count() >= RULES.len());
    }

    #[test]
    fn default_rules_each_select_something_of_this_kernel() {
        let catalog = match crate::kernel::catalog() {
            Ok(catalog) => catalog,
            Err(error) => return eprintln!("skip: {error}"),
        };
        let selected = EventSelection::parse(&RULES).unwrap().apply(&catalog);
        assert!(selected.matched.len() > RULES.len(), "{:?}", selected.matched);
        for (rule, matched) in &selected.matched {
            assert!(*matched > 0, "{rule}");
        }
    }

    #[test]
    fn default_layer_of_processes_that_have_all_ended_meanwhile_is_of_nobody_else() {
        assert_eq!(still(&[1, 2, 3], |pid| *pid != 2), [1, 3]);
        assert_eq!(still(&[1, 2], |_| false), [1, 2]);
        assert_eq!(still(&[], |_| true), [0; 0]);
    }

    #[test]
    fn default_layer_is_wanted_where_one_of_the_processes_is_there() {
        let own = std::process::id();
        for (pids, wanted) in [(&[][..], true), (&[u32::MAX, own], true), (&[u32::MAX], false)] {
            assert_eq!(is_wanted(pids), wanted, "{pids:?}");
        }
    }

    #[test]
    fn default_layer_that_cannot_be_says_whether_it_is_the_machine_or_a_failure() {
        let kernel =
            |error| reason(&SessionError::Kernel { cause: Box::new(error), asked: String::new() });
        let rights = kernel(KernelError::Rights { missing: "CAP_BPF".into() });
        assert!(rights.why.contains("CAP_PERFMON") && !rights.is_failure, "{rights:?}");
        assert!(!kernel(KernelError::NoBtf).is_failure);
        let error = std::io::Error::from_raw_os_error(libc::EPERM);
        let lockdown = kernel(KernelError::TracefsLockdown { path: "/sys/x".into(), error });
        assert!(lockdown.why.contains("lockdown=integrity") && !lockdown.is_failure);
        assert!(kernel(KernelError::TooLarge { found: 2, limit: 1 }).is_failure);
        let other = reason(&SessionError::System { what: "x", source: std::io::Error::other("y") });
        assert!(other.is_failure && other.why.contains('y'), "{other:?}");
    }

    #[test]
    fn reasons_of_the_machine_are_no_failures_and_all_others_are() {
        let io = || std::io::Error::from_raw_os_error(libc::EACCES);
        for (error, is_failure) in [
            (KernelError::Machine { machine: "riscv64" }, false),
            (KernelError::NoBtf, false),
            (KernelError::NoTracefs { places: "/a nor /b".into(), error: io() }, false),
            (KernelError::TracefsRights { path: "/t".into(), error: io() }, false),
            (KernelError::TracefsRead { path: "/t".into(), error: io() }, true),
            (KernelError::TooManyEvents { found: 2, limit: 1 }, true),
            (KernelError::NoEvent { system: "a".into(), name: "b".into() }, true),
        ] {
            let why = error.to_string();
            assert_eq!(reason_of(&error), NoKernel { why, is_failure });
        }
        let none = reason(&SessionError::NothingSelected(Vec::new()));
        let why = "it has none of the events".to_owned();
        assert_eq!(none, NoKernel { why, is_failure: true });
    }
}
