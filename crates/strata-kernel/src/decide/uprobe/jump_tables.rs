//! Reads the tables by which a `switch` jumps, for the code that only a table leads to.
//!
//! A compiler may put a rarely executed case elsewhere (`f.cold`). If the case is the whole of that code, the table leads
//! there directly, and no jump of the function does.
//!
//! ```text
//! lea table(%rip),%rcx; movslq (%rcx,%rdx,4),%rdx; add %rcx,%rdx; jmp *%rdx     offsets from the table
//! jmp *table(,%rdx,8)                                                           addresses
//! ```
//!
//! The number of entries is that of the comparison before the jump (`cmp $8,%eax; ja`), if there is one.

use crate::discover::code_map::CodeMap;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// The most entries of a table that are read.
pub(crate) const ENTRIES_MAX: u64 = 1 << 12;
/// The cost of an entry in the budget of code that is decoded \[byte\].
pub(crate) const ENTRY_COST: u64 = 8;
/// The most instructions before a jump in which the comparison with the number of entries is searched.
const BEFORE_MAX: usize = 24;

/// A table of jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JumpTable {
    address: u64,
    /// True if the entries are addresses, and false if they are offsets from the table.
    has_addresses: bool,
}

impl JumpTable {
    /// Returns the jump table whose address the instruction computes; `None` if it computes none.
    pub(crate) fn of(instruction: &Instruction) -> Option<JumpTable> {
        if instruction.mnemonic() == Mnemonic::Lea && instruction.is_ip_rel_memory_operand() {
            let address = instruction.ip_rel_memory_address();
            return Some(JumpTable { address, has_addresses: false });
        }
        let is_memory = [instruction.op0_kind(), instruction.op1_kind()].contains(&OpKind::Memory);
        let is_table = is_memory
            && instruction.memory_base() == Register::None
            && instruction.memory_index() != Register::None
            && instruction.memory_index_scale() == 8;
        let address = instruction.memory_displacement64();
        is_table.then_some(JumpTable { address, has_addresses: true })
    }

    /// Returns the target of the entry with this number, if the file has it.
    pub(crate) fn target(self, map: &CodeMap<'_>, number: u64) -> Option<u64> {
        let bytes = if self.has_addresses { 8 } else { 4 };
        let found = map.data(self.address.checked_add(number.checked_mul(bytes)?)?, bytes)?;
        if self.has_addresses {
            return Some(u64::from_le_bytes(found.try_into().ok()?));
        }
        let offset = i32::from_le_bytes(found.try_into().ok()?);
        Some(self.address.wrapping_add_signed(offset.into()))
    }
}

/// Returns the number of entries in the table of a jump, from the instructions before it, the last one first.
pub(crate) fn entries<'i>(before: impl Iterator<Item = &'i Instruction>) -> Option<u64> {
    let mut condition = None;
    for instruction in before.take(BEFORE_MAX) {
        let is_constant = matches!(
            instruction.op1_kind(),
            OpKind::Immediate8
                | OpKind::Immediate32
                | OpKind::Immediate8to32
                | OpKind::Immediate8to64
                | OpKind::Immediate32to64
                | OpKind::Immediate8to16
                | OpKind::Immediate16
        );
        match (instruction.mnemonic(), condition) {
            (Mnemonic::Ja | Mnemonic::Jbe, _) => condition = Some(1),
            (Mnemonic::Jae | Mnemonic::Jb, _) => condition = Some(0),
            (Mnemonic::Cmp, Some(more)) if is_constant => {
                return instruction.immediate(1).checked_add(more);
            }
            (Mnemonic::Cmp, _) => return None,
            _ => {}
        }
    }
    None
}
