//! The part of a plan that ends with the session's process: whom it records by number, the command that it runs, and the
//! machines that it is connected to.

use std::ffi::OsString;
use std::time::Duration;

use strata_kernel::uprobe::KnownProbes;
use strata_relay::Place;

use crate::options::{GuestOptions, Options};
use crate::record::preload::PreloadPart;
use crate::report::NoKernel;

/// The parts of a request that are valid for one run only: process ids, a command, a connection to a guest. They are
/// in no file and no message. A session that has one is not restored after its recorder was killed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transient {
    /// True for `strata record` without `--background`. No other command reaches or changes such a session.
    pub is_foreground: bool,
    /// The command to run; it is recorded with all its descendants. Empty for no command.
    pub command: Vec<OsString>,
    /// The time after which the session ends. In files it is rounded to milliseconds.
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
    /// True if the user named no kernel event. Then the default events are recorded, or samples in addition to
    /// all tracepoints. Processes without tracepoints are recorded then, and rules of the kernel are not
    /// reported.
    pub kernel_by_default: bool,
    /// The flags that request the kernel, for messages. Empty if rules of a session request it.
    pub kernel_flags: String,
    /// Why the kernel is not recorded, if it would have been by default.
    pub no_kernel: Option<NoKernel>,
    /// Probes whose target files are open already, since the session is in the process that made the plan. `None` in
    /// other sessions, which open the files by name.
    pub probes: Option<KnownProbes>,
    /// True if a probe is at an offset within a function, which is valid only for the present version of the file.
    pub has_places: bool,
    /// Virtual machines that are recorded together with this machine.
    pub guests: Vec<GuestOptions>,
    /// The host's recorder to which the trace is sent, if this machine is a guest.
    pub relay: Option<Place>,
}

impl Transient {
    /// Returns whether the request has no such parts, so that the session can be restored from its plan.
    #[must_use]
    pub fn is_none(&self) -> bool {
        !self.is_foreground
            && self.is_of_any_process()
            && !self.has_places
            && self.guests.is_empty()
            && self.relay.is_none()
    }

    /// Returns whether neither a command nor process ids are named.
    fn is_of_any_process(&self) -> bool {
        self.command.is_empty() && self.pids.is_empty()
    }

    /// Returns the probes whose target files are open already, for the processes of the session.
    pub(crate) fn known_probes(&self) -> KnownProbes {
        self.probes.clone().unwrap_or_else(|| KnownProbes::of_processes(&self.pids))
    }

    /// Returns whether every process of the machine is recorded.
    pub(crate) fn is_everyone(&self) -> bool {
        self.everyone || self.is_of_any_process()
    }

    /// Adds the processes and machines named here to the options.
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
