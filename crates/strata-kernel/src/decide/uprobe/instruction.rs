//! Analyses instructions of x86-64.

use crate::decide::uprobe::register;
use crate::discover::code_map::CodeMap;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};
use std::ops::Range;

/// Decodes the instruction at `address`, which must lie completely within `piece`. Returns `None` if the bytes are
/// no instruction of ordinary programs.
pub(crate) fn decode(map: &CodeMap<'_>, piece: &Range<u64>, address: u64) -> Option<Instruction> {
    let bytes = map.bytes(piece)?;
    let bytes = bytes.get(usize::try_from(address.checked_sub(piece.start)?).ok()?..)?;
    let instruction = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
    let is_known = !instruction.is_invalid() && !is_foreign(&instruction);
    is_known.then_some(instruction)
}

/// Returns whether the instruction is `jmp *pointer(%rip)`. Compilers use that form to call functions of other files,
/// never for a `switch`.
pub(crate) fn is_by_pointer(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Memory
        && instruction.memory_base() == Register::RIP
        && instruction.memory_index() == Register::None
}

pub(crate) fn has_segment(instruction: &Instruction) -> bool {
    instruction.segment_prefix() != Register::None
}

/// Returns whether no program executes this instruction, so that the bytes are rather data; zeroes are such bytes.
pub(crate) fn is_foreign(instruction: &Instruction) -> bool {
    if instruction.code() == Code::Add_rm8_r8
        && instruction.memory_base() == Register::RAX
        && instruction.op1_register() == Register::AL
        && instruction.len() == 2
    {
        return true;
    }
    if instruction.flow_control() == FlowControl::Return {
        return instruction.mnemonic() != Mnemonic::Ret;
    }
    let is_far = instruction.is_jmp_far()
        || instruction.is_call_far()
        || instruction.is_jmp_far_indirect()
        || instruction.is_call_far_indirect();
    is_far
        || matches!(
            instruction.mnemonic(),
            Mnemonic::In
                | Mnemonic::Out
                | Mnemonic::Insb
                | Mnemonic::Insd
                | Mnemonic::Insw
                | Mnemonic::Outsb
                | Mnemonic::Outsd
                | Mnemonic::Outsw
                | Mnemonic::Cli
                | Mnemonic::Sti
        )
}

pub(crate) fn is_padding(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3 | Mnemonic::Ud2)
        || instruction.code() == Code::Xchg_rm16_r16
}

/// Returns the lowest 4 bits of a conditional jump's code; `None` for any other instruction.
pub(crate) fn condition(instruction: &Instruction) -> Option<u8> {
    if !instruction.is_jcc_short_or_near() {
        return None;
    }
    (instruction.condition_code() as u8).checked_sub(1).filter(|code| *code < 16)
}

/// Returns the offset of a register of 8 bytes in `struct pt_regs`.
pub(crate) fn offset_of(register: Register) -> Option<u16> {
    let name = match register {
        Register::RAX => "rax",
        Register::RBX => "rbx",
        Register::RCX => "rcx",
        Register::RDX => "rdx",
        Register::RSI => "rsi",
        Register::RDI => "rdi",
        Register::RBP => "rbp",
        Register::RSP => "rsp",
        Register::R8 => "r8",
        Register::R9 => "r9",
        Register::R10 => "r10",
        Register::R11 => "r11",
        Register::R12 => "r12",
        Register::R13 => "r13",
        Register::R14 => "r14",
        Register::R15 => "r15",
        _ => return None,
    };
    register::find(name).map(|found| found.offset)
}
