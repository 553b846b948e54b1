//! What a process needs to record events of this kernel at all: the architecture, rights, and type information. `discover::doctor`
//! explains each requirement to people; this is the check before a recording.

use crate::arch;
use crate::discover::capability::{Capabilities, Capability};
use crate::error::Error;

/// Checks whether this process can record events of this kernel at all.
///
/// # Errors
/// [`Error::Machine`], [`Error::Rights`], [`Error::NoBtf`].
pub fn check() -> Result<(), Error> {
    check_machine()?;
    check_rights()
}

fn check_machine() -> Result<(), Error> {
    if arch::here().is_some() {
        Ok(())
    } else {
        Err(Error::Machine { machine: std::env::consts::ARCH })
    }
}

/// Checks the right to load programs, and the type information by which they are fitted to the kernel.
fn check_rights() -> Result<(), Error> {
    let missing: Vec<&str> = Capabilities::of_this_process()
        .missing_to_record()
        .into_iter()
        .map(Capability::name)
        .collect();
    if !missing.is_empty() {
        return Err(Error::Rights { missing: missing.join(", ") });
    }
    if std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        Ok(())
    } else {
        Err(Error::NoBtf)
    }
}
