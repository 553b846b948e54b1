//! Finds the instructions by which a function of AArch64 is left, as `exits` does for x86-64, whose comment says why.
//!
//! Every instruction has 4 bytes, and a function's return address is in a register and not on the stack, so that there is
//! less to follow: a `ret` leaves the function, a `b` to the begin of another function is a tail call, and a `br` may be
//! either that or a `switch`, which the probe's program tells by its target (a `Guard`).

use crate::decide::jump_guard::{Guard, JumpTarget};
use crate::decide::uprobe::function_pieces::{Destination, ExitProblem, Exits, Pieces};
use crate::discover::code_map::CodeMap;
use std::collections::BTreeSet;
use std::ops::Range;

/// Size of an instruction \[byte\].
const STEP: u64 = 4;
/// The register with the return address.
const LINK: u32 = 30;

/// The place at which execution continues after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// At the next instruction, also after a call.
    Next,
    /// At this address.
    Jump(u64),
    /// At this address or at the next instruction. Has the condition if that depends on the flags only.
    Branch(u64, Option<u8>),
    /// At the address in this register.
    Register(u32),
    /// In the caller, at the return address in this register.
    Return(u32),
    /// In the caller or in another function, at an address that the instruction authenticates. No kernel can probe
    /// this instruction.
    Authenticated,
    /// Nowhere: the instruction is a breakpoint or invalid.
    Stop,
}

/// Returns a signed number of instructions, encoded in `bits` bits of an instruction from bit `from` on, as a number
/// of bytes.
fn distance(word: u32, from: u32, bits: u32) -> i64 {
    let shifted = (word >> from) << (32 - bits);
    i64::from(shifted as i32 >> (32 - bits)) * 4
}

/// Decodes at which place execution continues after the instruction at `address`. See "Branches" in the index of A64
/// instructions of Arm's manual.
fn flow(word: u32, address: u64) -> Flow {
    let to = |from, bits| address.wrapping_add_signed(distance(word, from, bits));
    let register = word >> 5 & 31;
    if word & 0xfc00_0000 == 0x1400_0000 {
        return Flow::Jump(to(0, 26));
    }
    if word & 0xff00_0000 == 0x5400_0000 {
        // AL and NV are always taken.
        let code = (word & 15) as u8;
        return match code {
            14 | 15 => Flow::Jump(to(5, 19)),
            _ => Flow::Branch(to(5, 19), Some(code)),
        };
    }
    if word & 0x7e00_0000 == 0x3400_0000 {
        return Flow::Branch(to(5, 19), None);
    }
    if word & 0x7e00_0000 == 0x3600_0000 {
        return Flow::Branch(to(5, 14), None);
    }
    match word & 0xffff_fc1f {
        0xd61f_0000 => return Flow::Register(register),
        0xd65f_0000 => return Flow::Return(register),
        _ => {}
    }
    // BRAA, BRAB, BRAAZ, BRABZ, RETAA, RETAB.
    if word & 0xfeff_f800 == 0xd61f_0800 || word & 0xffff_fbff == 0xd65f_0bff {
        return Flow::Authenticated;
    }
    // UDF, BRK, HLT.
    if word & 0xffff_0000 == 0
        || word & 0xffe0_001f == 0xd420_0000
        || word & 0xffe0_001f == 0xd440_0000
    {
        return Flow::Stop;
    }
    Flow::Next
}

struct Explorer<'m, 'data> {
    pieces: Pieces<'m, 'data>,
    seen: BTreeSet<u64>,
    work: Vec<u64>,
    leaving: BTreeSet<u64>,
}

/// Finds the exits of the function that begins at `start`.
///
/// # Errors
/// Some exit is not known.
pub(crate) fn find(map: &CodeMap<'_>, start: u64) -> Result<Exits, ExitProblem> {
    let mut explorer = Explorer {
        pieces: Pieces::new(map, start),
        seen: BTreeSet::new(),
        work: vec![start],
        leaving: BTreeSet::new(),
    };
    explorer.pieces.add(explorer.pieces.whole()?)?;
    explorer.explore()?;
    let mut swept = 0;
    while explorer.pieces.is_partial && swept < explorer.pieces.ranges.len() {
        explorer.sweep(swept);
        swept += 1;
        explorer.explore()?;
    }
    explorer.exits()
}

/// Returns the address of the instruction in whose middle `address` is; `None` if an instruction begins there.
pub(crate) fn instruction_around(address: u64) -> Option<u64> {
    (address % STEP != 0).then_some(address - address % STEP)
}

/// Returns the address after the check for the end of the stack, with which most Go functions begin; `None` if there
/// is no such check.
pub(crate) fn behind_stack_check(map: &CodeMap<'_>, start: u64) -> Option<u64> {
    const LOOKED_AT: u64 = 8;
    const LOAD_LIMIT: u32 = 0xf940_0b90; // ldr x16, [x28, #16]
    const LOWER_OR_SAME: u8 = 9;
    let range = map.extent(start)?;
    if word_at(map, &range, start)? != LOAD_LIMIT {
        return None;
    }
    for address in (1..LOOKED_AT).map(|number| start + number * STEP) {
        match flow(word_at(map, &range, address)?, address) {
            Flow::Next | Flow::Branch(_, Some(3)) => {}
            Flow::Branch(to, Some(LOWER_OR_SAME)) if range.contains(&to) => {
                return Some(address + STEP).filter(|next| range.contains(next));
            }
            _ => return None,
        }
    }
    None
}

fn word_at(map: &CodeMap<'_>, piece: &Range<u64>, address: u64) -> Option<u32> {
    let at = usize::try_from(address.checked_sub(piece.start)?).ok()?;
    let bytes = map.bytes(piece)?.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

impl Explorer<'_, '_> {
    fn flow(&self, address: u64) -> Result<Flow, ExitProblem> {
        let piece = self.pieces.containing(address).filter(|_| address % STEP == 0);
        let word = piece.and_then(|piece| word_at(self.pieces.map, piece, address));
        word.map(|word| flow(word, address))
            .ok_or_else(|| ExitProblem::Data(self.pieces.place(address)))
    }

    fn explore(&mut self) -> Result<(), ExitProblem> {
        while let Some(address) = self.work.pop() {
            if !self.seen.insert(address) {
                continue;
            }
            match self.flow(address)? {
                Flow::Next => self.go_on(address)?,
                Flow::Jump(to) => self.jump(address, to)?,
                Flow::Branch(to, _) => {
                    self.jump(address, to)?;
                    self.go_on(address)?;
                }
                Flow::Register(_) => self.pieces.is_partial = true,
                Flow::Return(_) | Flow::Authenticated | Flow::Stop => {}
            }
        }
        Ok(())
    }

    fn go_on(&mut self, address: u64) -> Result<(), ExitProblem> {
        let next = address.wrapping_add(STEP);
        if self.pieces.containing(next).is_some() {
            self.work.push(next);
            return Ok(());
        }
        let piece = self.pieces.containing(address);
        let word =
            piece.and_then(|piece| word_at(self.pieces.map, piece, address)).unwrap_or_default();
        // Behind the call of a function that does not return may be anything, and compilers fill up with NOP.
        let is_call = word & 0xfc00_0000 == 0x9400_0000 || word & 0xffff_fc1f == 0xd63f_0000;
        match is_call || word == 0xd503_201f {
            true => Ok(()),
            false => Err(ExitProblem::RunsOn),
        }
    }

    fn jump(&mut self, at: u64, to: u64) -> Result<(), ExitProblem> {
        if self.pieces.containing(to).is_none() {
            match self.destination(to) {
                Some(Destination::Piece(piece)) => self.pieces.add(piece)?,
                Some(Destination::Other) => {
                    self.leaving.insert(at);
                    return Ok(());
                }
                Some(Destination::End) => return Ok(()),
                None => return Err(ExitProblem::Unclear { at: self.pieces.place(at), to }),
            }
        }
        self.work.push(to);
        Ok(())
    }

    fn destination(&self, to: u64) -> Option<Destination> {
        if self.pieces.map.is_stub(to) {
            return Some(Destination::Other);
        }
        let is_cold = |name: &[u8]| name.windows(5).any(|part| part == b".cold");
        if let Some(named) = self.pieces.map.function_of(to) {
            if is_cold(named.name) {
                return Some(Destination::Piece(named.start..named.end));
            }
            return (named.start == to).then_some(Destination::Other);
        }
        if !self.pieces.map.beginning_at(to).is_empty() {
            return Some(Destination::Other);
        }
        // A file without symbols: what the code there does tells what it is.
        let range = self.pieces.map.frame_of(to)?.range.clone();
        let mut leaves = false;
        for address in addresses(&range) {
            match flow(word_at(self.pieces.map, &range, address)?, address) {
                Flow::Jump(to) | Flow::Branch(to, _)
                    if to != self.pieces.start && self.pieces.containing(to).is_some() =>
                {
                    return Some(Destination::Piece(range));
                }
                Flow::Return(_) | Flow::Register(_) | Flow::Authenticated => leaves = true,
                Flow::Jump(to) if !range.contains(&to) => leaves = true,
                _ => {}
            }
        }
        Some(if leaves { Destination::Other } else { Destination::End })
    }

    /// Examines all instructions of the function's piece `number` that no jump reached. They may be data.
    fn sweep(&mut self, number: usize) {
        let Some(piece) = self.pieces.ranges.get(number).cloned() else { return };
        let is_code = |address: &u64| {
            let word = word_at(self.pieces.map, &piece, *address).unwrap_or_default();
            let flow = flow(word, *address);
            let is_inside = |to: &u64| self.pieces.containing(*to).is_some();
            match flow {
                Flow::Return(register) => register == LINK,
                Flow::Jump(to) | Flow::Branch(to, _) => {
                    is_inside(&to)
                        || self.pieces.map.is_stub(to)
                        || !self.pieces.map.beginning_at(to).is_empty()
                }
                Flow::Register(_) => true,
                _ => false,
            }
        };
        let found: Vec<u64> =
            addresses(&piece).filter(|at| !self.seen.contains(at)).filter(is_code).collect();
        self.work.extend(found);
    }

    fn exits(&self) -> Result<Exits, ExitProblem> {
        let mut exits = Exits::default();
        for at in self.seen.iter().copied() {
            match self.flow(at)? {
                Flow::Return(LINK) => exits.returns.push(at),
                Flow::Return(_) => return Err(ExitProblem::Stack(self.pieces.place(at))),
                Flow::Authenticated => return Err(ExitProblem::Prefix(self.pieces.place(at))),
                Flow::Jump(_) if self.leaving.contains(&at) => exits.tail_calls.push(at),
                Flow::Branch(_, Some(code)) if self.leaving.contains(&at) => {
                    exits.guarded.push((at, Guard::Condition(code)));
                }
                Flow::Branch(to, None) if self.leaving.contains(&at) => {
                    return Err(ExitProblem::Unclear { at: self.pieces.place(at), to });
                }
                Flow::Register(number) => {
                    let ranges = self.pieces.relative_to(at);
                    // x0 to x30 are at the begin of `struct pt_regs`.
                    let target = JumpTarget::Register(number as u16 * 8);
                    exits.guarded.push((at, Guard::Target { target, ranges }));
                }
                _ => {}
            }
        }
        exits.checked()
    }
}

fn addresses(range: &Range<u64>) -> impl Iterator<Item = u64> {
    (range.start.next_multiple_of(STEP)..range.end).step_by(STEP as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_of_every_branch_is_where_the_assembler_has_put_it() {
        let at = 0x1_0000;
        // What aarch64-linux-gnu-as makes of these at that address.
        for (word, wanted) in [
            (0x1400_0004, Flow::Jump(0x1_0010)),            // b .+16
            (0x17ff_ffff, Flow::Jump(0xfffc)),              // b .-4
            (0x9400_0004, Flow::Next),                      // bl .+16
            (0x5400_0080, Flow::Branch(0x1_0010, Some(0))), // b.eq .+16
            (0x54ff_ffed, Flow::Branch(0xfffc, Some(13))),  // b.le .-4
            (0x5400_008e, Flow::Jump(0x1_0010)),            // b.al .+16
            (0xb400_0080, Flow::Branch(0x1_0010, None)),    // cbz x0, .+16
            (0x35ff_ffe1, Flow::Branch(0xfffc, None)),      // cbnz w1, .-4
            (0x3618_0080, Flow::Branch(0x1_0010, None)),    // tbz w0, #3, .+16
            (0xb7ff_ffe0, Flow::Branch(0xfffc, None)),      // tbnz x0, #63, .-4
            (0xd61f_0200, Flow::Register(16)),              // br x16
            (0xd63f_0000, Flow::Next),                      // blr x0
            (0xd65f_03c0, Flow::Return(30)),                // ret
            (0xd65f_0220, Flow::Return(17)),                // ret x17
            (0xd65f_0bff, Flow::Authenticated),             // retaa
            (0xd65f_0fff, Flow::Authenticated),             // retab
            (0xd71f_0a11, Flow::Authenticated),             // braa x16, x17
            (0xd61f_0a1f, Flow::Authenticated),             // braaz x16
            (0xd420_0000, Flow::Stop),                      // brk #0
            (0x0000_0000, Flow::Stop),                      // udf #0
            (0xd400_0001, Flow::Next),                      // svc #0
            (0xd503_201f, Flow::Next),                      // nop
            (0xa9bf_7bfd, Flow::Next),                      // stp x29, x30, [sp, #-16]!
        ] {
            assert_eq!(flow(word, at), wanted, "{word:#x}");
        }
    }
}
