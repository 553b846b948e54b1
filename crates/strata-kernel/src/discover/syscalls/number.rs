//! Types of numbers in registers and structures.

use strata_model::Base;

/// The way in which a register is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegisterNumber {
    pub(super) bytes: u8,
    pub(super) is_signed: bool,
    pub(super) base: Base,
}

pub(super) const fn number(bytes: u8, is_signed: bool, base: Base) -> RegisterNumber {
    RegisterNumber { bytes, is_signed, base }
}

pub(super) const POINTER: RegisterNumber = number(8, false, Base::Sixteen);
pub(super) const INT: RegisterNumber = number(4, true, Base::Ten);
pub(super) const UNSIGNED: RegisterNumber = number(4, false, Base::Ten);
pub(super) const LONG: RegisterNumber = number(8, true, Base::Ten);
pub(super) const UNSIGNED_LONG: RegisterNumber = number(8, false, Base::Ten);
pub(super) const FLAGS: RegisterNumber = number(4, false, Base::Sixteen);
pub(super) const FLAGS_LONG: RegisterNumber = number(8, false, Base::Sixteen);
