//! The part of a plan that ends with the session's process: whom it records by number, the command that it runs, and the
//! machines that it is connected to.

use std::ffi::OsString;
use std::time::Duration;

use strata_kernel::uprobe::KnownProbes;
use strata_relay::Place;

use crate::options::{GuestOptions, Options};
use crate::record::preload::PreloadPart;
use crate::report::NoKernel;

/// The parts of a request that hold for one run only, so that no file and no message has them: processes by number, a
/// command, a connection to a guest. A session that has one is not restored after its recorder was killed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transient {
    /// True for `strata record` without `--background`: no other command reaches the session, so that nothing changes it.
    pub is_foreground: bool,
    /// The command to run; it is recorded with all its descendants. Empty for no command.
    pub command: Vec<OsString>,
    /// The exact time after which the session ends; a file has whole milliseconds.
    pub duration: Option<Duration>,
    /// Running processes to record. If empty, all are recorded, unless there is a command.
    pub pids: Vec<u32>,
    /// True to record every process even if there is a command.
    pub everyone: bool,
    /// True to record system calls, page faults and similar events of every process.
    pub all_processes: bool,
    /// Parts of uninstrumented programs that are recorded by objects preloaded into the command.
    pub libc: Vec<PreloadPart>,
    /// True to wait, after the end of the command, for the end of all its descendants.
    pub wait_descendants: bool,
    /// True if nobody has named an event of the kernel: its default events are recorded, or samples next to all
    /// tracepoints. Processes without tracepoints are recorded then, and rules of the kernel are not reported.
    pub kernel_by_default: bool,
    /// The flags that ask for the kernel, for messages; empty if they are rules of a session.
    pub kernel_flags: String,
    /// Why the kernel is not recorded, if it would have been by default.
    pub no_kernel: Option<NoKernel>,
    /// Probes that were resolved when the plan was made, of a session in the same process: the files are opened once, so
    /// that a name which leads to another file meanwhile changes nothing. Elsewhere the session resolves them itself.
    pub probes: Option<KnownProbes>,
    /// True if a probe is at a place within a function, which is right for the present file only.
    pub has_places: bool,
    /// Virtual machines that are recorded together with this machine.
    pub guests: Vec<GuestOptions>,
    /// The host's recorder to which the trace is sent, if this machine is a guest.
    pub relay: Option<Place>,
}

impl Transient {
    /// Returns whether nothing of the session ends with its process, so that the session can be restored from its plan.
    #[must_use]
    pub fn is_none(&self) -> bool {
        !self.is_foreground
            && self.is_of_any_process()
            && !self.has_places
            && self.guests.is_empty()
            && self.relay.is_none()
    }

    /// Returns whether neither a command nor processes are named.
    fn is_of_any_process(&self) -> bool {
        self.command.is_empty() && self.pids.is_empty()
    }

    /// Returns the probes that are resolved already, for the session's processes.
    pub(crate) fn known_probes(&self) -> KnownProbes {
        self.probes.clone().unwrap_or_else(|| KnownProbes::of_processes(&self.pids))
    }

    /// Returns whether every process is recorded.
    pub(crate) fn is_everyone(&self) -> bool {
        self.everyone || self.is_of_any_process()
    }

    /// Returns the options for the processes and machines that are named here.
    pub(crate) fn of_whom(&self, options: Options) -> Options {
        Options {
            command: self.command.clone(),
            pids: self.pids.clone(),
            everyone: self.is_everyone(),
            guests: self.guests.clone(),
            relay: self.relay.clone(),
            ..options
        }
    }
}
