//! Fields of a system call's entry that may be recorded later, in a record of their own.

use std::ops::Range;
use std::sync::Arc;

use strata_ctf::read::FieldInfo;
use strata_model::syscalls::ArgumentKind;

/// An argument that was not recorded at the call's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unread {
    /// The field's name in the entry.
    pub(super) name: Arc<str>,
    /// The place of the value that is shown instead: the address of a text, 0, or an empty list \[byte\].
    pub(super) place: Range<usize>,
    /// True if the address of a text is shown instead. It cannot be mistaken for the text.
    pub(super) is_text: bool,
}

/// A field of an entry that may be recorded later.
#[derive(Clone, Debug)]
pub(super) struct DeferrableField {
    pub(super) info: FieldInfo,
    /// The index of the call's argument, from 0.
    pub(super) argument: u8,
    pub(super) kind: ArgumentKind,
}
