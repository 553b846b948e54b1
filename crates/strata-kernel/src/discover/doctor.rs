//! Finds out what this machine can record of the kernel, and why it cannot record the rest, one requirement at a time.
//!
//! Facts that are in files are read below a root folder, so that tests can replace them. Other facts are found by
//! trying: the smallest program is loaded, and the smallest map created.

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
