//! Chooses the instruction at which a Go function is probed.

use crate::discover::code_map::CodeMap;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic, Register};

/// Returns whether a Go function begins with loading R14. Go's own calls have R14 loaded already, so such a function is
/// called in another way, with its arguments on the stack.
pub(crate) fn has_stack_arguments(map: &CodeMap<'_>, start: u64) -> bool {
    const LOOKED_AT: usize = 4;
    let bytes = map.extent(start).and_then(|range| map.bytes(&range)).unwrap_or_default();
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    decoder.iter().take(LOOKED_AT).any(|instruction| {
        instruction.mnemonic() == Mnemonic::Mov && instruction.op0_register() == Register::R14
    })
}

/// Returns the instruction after the check for the stack's end, with which most Go functions begin; `None` if there
/// is no such check. The check may run twice, so a probe is better placed after it. Until then, arguments stay where
/// they were.
pub(crate) fn behind_stack_check(map: &CodeMap<'_>, start: u64) -> Option<u64> {
    const LOOKED_AT: usize = 8;
    let range = map.extent(start)?;
    let bytes = map.bytes(&range)?;
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    let mut is_compared = false;
    for instruction in decoder.iter().take(LOOKED_AT) {
        if instruction.is_invalid() {
            return None;
        }
        if instruction.flow_control() == FlowControl::ConditionalBranch {
            let is_check = is_compared
                && instruction.mnemonic() == Mnemonic::Jbe
                && range.contains(&instruction.near_branch_target());
            if is_check {
                return Some(instruction.next_ip()).filter(|next| range.contains(next));
            }
            // A large frame: the subtraction may have wrapped.
            if instruction.mnemonic() == Mnemonic::Jb && !is_compared {
                continue;
            }
            return None;
        }
        is_compared = instruction.mnemonic() == Mnemonic::Cmp
            && [Register::RSP, Register::R12].contains(&instruction.op0_register())
            && instruction.memory_base() == Register::R14
            && instruction.memory_displacement64() == 0x10;
        // One that is called as C calls has the goroutine's structure not in R14, and loads it there first.
        let is_own = is_compared
            || matches!(
                (instruction.op0_register(), instruction.mnemonic()),
                (Register::R12, Mnemonic::Lea | Mnemonic::Mov | Mnemonic::Sub)
                    | (Register::R14, Mnemonic::Mov)
            );
        if !is_own {
            return None;
        }
    }
    None
}
