//! Types of numbers in registers and structures.

use strata_model::Base;

/// The type as which a register's value is read: size, sign and base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegisterNumber {
    pub(crate) bytes: u8,
    pub(crate) is_signed: bool,
    pub(crate) base: Base,
}

pub(crate) const fn number(bytes: u8, is_signed: bool, base: Base) -> RegisterNumber {
    RegisterNumber { bytes, is_signed, base }
}

pub(crate) const POINTER: RegisterNumber = number(8, false, Base::Sixteen);
pub(crate) const INT: RegisterNumber = number(4, true, Base::Ten);
pub(crate) const UNSIGNED: RegisterNumber = number(4, false, Base::Ten);
pub(crate) const LONG: RegisterNumber = number(8, true, Base::Ten);
pub(crate) const UNSIGNED_LONG: RegisterNumber = number(8, false, Base::Ten);
pub(crate) const FLAGS: RegisterNumber = number(4, false, Base::Sixteen);
pub(crate) const FLAGS_LONG: RegisterNumber = number(8, false, Base::Sixteen);
