//! Classification of names in `/proc` by the file that they refer to: Strata's memory, or a reason why a process has
//! none.

use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use strata_abi::user;
use strata_model::text_from_bytes;

use crate::error::Error;
use crate::processes::process::{shown, Process, Status};

/// File that a name in `/proc` refers to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LinkTarget {
    Memory,
    /// A memfd without content, whose name says why the process cannot be traced.
    Refused(String),
}

/// Parses the name of a memfd as the kernel shows it; `None` if it is not Strata's.
pub(crate) fn target(link: &[u8]) -> Option<LinkTarget> {
    let name = link.strip_prefix(b"/memfd:")?.strip_suffix(b" (deleted)")?;
    if name == user::MEMFD.as_bytes() {
        return Some(LinkTarget::Memory);
    }
    let reason = text_from_bytes(name.strip_prefix(user::MEMFD_REFUSED.as_bytes())?);
    Some(LinkTarget::Refused(shown(&reason)))
}

/// Returns the error of a process that has passed a reason why it cannot be traced instead of memory.
pub(crate) fn refusal(fd: BorrowedFd<'_>, process: &Process) -> Option<Error> {
    let pid = process.pid;
    let link = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()?;
    let LinkTarget::Refused(reason) = target(link.as_os_str().as_bytes())? else { return None };
    let status = Status::read(pid).ok().flatten().filter(|_| process.has_its_number());
    let name = status.map_or_else(String::new, |status| shown(&status.name));
    Some(Error::Refused { pid, name, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_of_other_names_is_nothing() {
        for link in ["/memfd:strata", "/memfd:stratum (deleted)", "/tmp/memfd:strata (deleted)", ""]
        {
            assert_eq!(target(link.as_bytes()), None, "{link}");
        }
        assert_eq!(target(b"/memfd:strata (deleted)"), Some(LinkTarget::Memory));
    }
}
