//! Recorded members of large structures that a call fills.

use super::number::RegisterNumber;
use strata_model::Base;

/// A recorded member of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelMember {
    /// The suffix of the field's name, which follows the argument's name.
    pub(crate) name: &'static str,
    /// Offset in the structure \[byte\].
    pub(crate) at: u16,
    pub(crate) item: MemberItem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberItem {
    Number(RegisterNumber),
    /// A text of this size \[byte\].
    Text(u8),
}

pub(crate) const fn number(name: &'static str, at: u16, number: RegisterNumber) -> KernelMember {
    KernelMember { name, at, item: MemberItem::Number(number) }
}

pub(crate) const fn text(name: &'static str, at: u16) -> KernelMember {
    KernelMember { name, at, item: MemberItem::Text(65) }
}

/// The mode of a file.
pub(crate) const MODE: RegisterNumber =
    RegisterNumber { bytes: 4, is_signed: false, base: Base::Eight };

impl MemberItem {
    pub(crate) fn bytes(self) -> u8 {
        match self {
            MemberItem::Number(number) => number.bytes,
            MemberItem::Text(bytes) => bytes,
        }
    }
}
