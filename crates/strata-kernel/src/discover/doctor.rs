//! Finds out what this machine can record of the kernel, and why it cannot record the rest, one requirement at a
//! time.
//!
//! ```text
//! files    version, configuration, BTF, tracefs, switches of /proc/sys      files below a root, which tests replace
//! rights   capabilities, user namespaces, locked memory
//! bpf      the smallest program is loaded, the smallest map is created      what is found by trying only
//! host     clock, memory, processors, limits: what both layers need
//!    └──▶ Finding: what, good or limited or missing, the observation, advice
//! ```
//!
//! Nothing is changed, no right is needed, and a machine on which nothing works gets a list and no error. `strata
//! doctor` prints it, with the findings of the other layers that `strata_session::doctor` adds.
//!
//! A finding is an observation and no guess: "bpf() failed with EPERM, and kernel.unprivileged_bpf_disabled is 2"
//! comes from both having been looked at. Where the kernel can be asked by trying, it is tried, since a
//! configuration may say one thing and a security module another. A new requirement is a function that returns a
//! [`Finding`] in one of the files. Its advice is a command to type, where there is one.
//!
//! [`examine`] calls all of them, in the order in which people read the list, within 0.3 s.

mod bpf;
mod files;
mod finding;
mod host;
mod rights;
#[cfg(test)]
mod tests;

use std::path::Path;

use crate::discover::capability::Capabilities;
use finding::ExaminedMachine;

pub use finding::{Finding, Readiness};

/// Looks at this machine, as this process may use it. Changes nothing; needs no rights. Below 0.3 s.
pub fn examine() -> Vec<Finding> {
    let names = rustix::system::uname();
    let root = Path::new("/");
    let machine = ExaminedMachine {
        root,
        release: names.release().to_string_lossy().into_owned(),
        machine: names.machine().to_string_lossy().into_owned(),
        capabilities: Capabilities::read(root),
    };
    let mut all = files::kernel(&machine);
    all.extend(rights::findings(&machine));
    all.extend(files::tracing(&machine));
    all.extend(bpf::findings(&machine));
    all.extend(files::switches(&machine));
    all.extend(host::findings(&machine));
    all
}
