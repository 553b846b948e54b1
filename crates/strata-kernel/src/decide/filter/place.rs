//! Finds the place from which a program reads a field, for code that needs the value itself and not a test of it.

use strata_abi::kernel::Test;
use strata_filter::Path;

use super::resolve::{self, FoundName};
use super::{Candidate, SyscallEnd, Unsupported};
use crate::decide::event::KernelEvent;

/// The place from which a program reads a field, or a fact about the thread or CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FieldPlace {
    /// The event has no field of this name.
    Absent,
    /// The place is readable: the value is the operand of this test, whose comparison is still to be set.
    Read(Test),
    /// Programs cannot read the field.
    Unsupported(Unsupported),
}

/// Returns the place of the field `path` in the event, or in the entry or exit (`end`) of a system call.
pub(crate) fn place_of(path: &Path, event: &KernelEvent, end: SyscallEnd) -> FieldPlace {
    match resolve::field(path, &Candidate { event, end }) {
        FoundName::Absent => FieldPlace::Absent,
        FoundName::Integer { integer, .. } | FoundName::Cgroup(integer) => {
            FieldPlace::Read(integer.test)
        }
        FoundName::Chars { test, .. } => FieldPlace::Read(test),
        FoundName::Number(why) => FieldPlace::Unsupported(why),
        FoundName::Text => FieldPlace::Unsupported(Unsupported::Text),
        FoundName::OfEvent | FoundName::Other => FieldPlace::Unsupported(Unsupported::Place),
        FoundName::NotYet => FieldPlace::Unsupported(Unsupported::NotYet),
    }
}

/// Returns whether one end of an event has a field, or a fact about the thread or CPU, of this name.
pub(crate) fn has_field(path: &Path, event: &KernelEvent, end: SyscallEnd) -> bool {
    place_of(path, event, end) != FieldPlace::Absent
}
