//! Finds the instructions by which a function is left.
//!
//! The kernel's own return probe replaces the return address on the stack. Exceptions, Go's runtime and everything else
//! that reads stacks takes the stack for a broken one, and ends the program. So returns are probed where they are: at
//! each `ret` of the function, and at each jump to another function, which returns in its place (a tail call). A probe
//! at an instruction changes nothing that a program can see in its stack.
//!
//! The function's code is found by following jumps from its begin on. Code that is reached only through a table
//! (`switch`, handlers of exceptions, Go's recovery) is found by decoding the whole function, one instruction after the
//! other, and by reading the table for what is elsewhere. If anything in it contradicts itself, the function is refused.
//!
//! ```text
//! begin ─▶ Explorer: (address, stack) to visit ──▶ decode one instruction
//!              ▲                                     ├─ falls through, jumps inside ─▶ visit that, too
//!              └─────────────────────────────────────┘
//!                                                    ├─ ret ────────────────────────▶ an exit
//!                                                    └─ jump out of the function ───▶ an exit, if no frame is left
//! ```
//!
//! A conditional jump out of the function is an exit only when it is taken: it gets a `Guard`, which the probe's
//! program tests with the registers of the hit. The state of the stack is followed along each path, since a jump with a
//! frame still in place is no tail call, but a part of the same function that the compiler has put elsewhere
//! (`foo.cold`).
//!
//! Everything is bounded, because files may be anybody's: the bytes of one function, the visits, and the code of all
//! functions of a file. Beyond a bound, the function is refused with an `ExitProblem` that names it; it is never probed
//! in part.

use crate::decide::jump_guard::{Guard, JumpTarget};
use crate::decide::uprobe::function_pieces::{Destination, ExitProblem, Exits, Pieces};
use crate::decide::uprobe::instruction::{
    condition, decode, has_segment, is_by_pointer, is_padding, offset_of,
};
use crate::decide::uprobe::jump_tables::{self, JumpTable};
use crate::decide::uprobe::tail_jumps::{self, OutsideCode, OwnCode};
use crate::discover::code_map::CodeMap;
use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// The most indirect jumps, and the most addresses of data, of one function that are examined for jump tables.
const TABLES_MAX: usize = 1 << 8;
/// The most instructions before a jump in which the address of its table is searched.
const TABLE_BEFORE_MAX: usize = 1 << 12;

/// The positions of the stack pointer and of a frame pointer at an instruction, in bytes below the return address;
/// `None` if a position is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    stack: Option<i64>,
    base: Option<i64>,
}

/// The frame at the function's begin.
const AT_BEGIN: Frame = Frame { stack: Some(0), base: None };
/// A frame whose positions are not known.
const ANYWHERE: Frame = Frame { stack: None, base: None };

impl Frame {
    /// Returns a frame with the positions that are the same in both frames.
    fn meet(self, other: Frame) -> Frame {
        let same = |one: Option<i64>, two| one.filter(|_| one == two);
        Frame { stack: same(self.stack, other.stack), base: same(self.base, other.base) }
    }
}

struct Explorer<'m, 'data> {
    pieces: Pieces<'m, 'data>,
    code: BTreeMap<u64, (Instruction, Frame)>,
    work: Vec<(u64, Frame)>,
    /// Direct jumps to other functions.
    leaving: HashMap<u64, Instruction>,
    /// Targets of calls within the function, whose `ret` does not leave the function.
    inner_calls: Vec<u64>,
    /// Code without a name that is reached by jumps, by its first address.
    outside: HashMap<u64, OutsideCode>,
    info: InstructionInfoFactory,
    /// True if a jump table leads to code without a name that does not jump back, and so may or may not belong to the
    /// function.
    leaves_by_table: bool,
}

/// Finds the exits of the function that begins at `start`. Functions that it calls are not examined.
///
/// # Errors
/// Some exit is not known.
pub(crate) fn find(map: &CodeMap<'_>, start: u64) -> Result<Exits, ExitProblem> {
    let mut explorer = Explorer::new(map, start);
    explorer.add_piece(explorer.pieces.whole()?)?;
    explorer.explore()?;
    explorer.sweep_all()?;
    explorer.exits()
}

/// Returns the address of the instruction in whose middle `address` is; `None` if an instruction begins there, or if
/// that is not known.
pub(crate) fn instruction_around(map: &CodeMap<'_>, address: u64) -> Option<u64> {
    let start = map.begin_of(address)?;
    let mut explorer = Explorer::new(map, start);
    explorer.add_piece(map.extent(start)?).ok()?;
    // What jumps lead to is code, whatever becomes of the rest.
    let is_whole = explorer.explore().is_ok();
    let found = explorer.around(address);
    if found.is_some() || !is_whole || explorer.sweep_all().is_err() || explorer.exits().is_err() {
        return found;
    }
    explorer.around(address)
}

impl<'m, 'data> Explorer<'m, 'data> {
    fn new(map: &'m CodeMap<'data>, start: u64) -> Explorer<'m, 'data> {
        Explorer {
            pieces: Pieces::new(map, start),
            code: BTreeMap::new(),
            work: vec![(start, AT_BEGIN)],
            leaving: HashMap::new(),
            inner_calls: vec![],
            outside: HashMap::new(),
            info: InstructionInfoFactory::new(),
            leaves_by_table: false,
        }
    }

    /// Returns the decoded instruction that contains `address` and begins before it.
    fn around(&self, address: u64) -> Option<u64> {
        let (at, (instruction, _)) = self.code.range(..=address).next_back()?;
        (*at < address && address < instruction.next_ip()).then_some(*at)
    }

    fn sweep_all(&mut self) -> Result<(), ExitProblem> {
        let mut swept = 0;
        loop {
            while self.pieces.is_partial && swept < self.pieces.ranges.len() {
                self.sweep(swept)?;
                swept += 1;
                self.explore()?;
            }
            if !self.add_part_of_tables()? {
                return Ok(());
            }
            self.explore()?;
        }
    }

    /// Adds a part of the function that is reached by a jump table only. Returns false if there is no further such
    /// part.
    fn add_part_of_tables(&mut self) -> Result<bool, ExitProblem> {
        let is_jump = |one: &Instruction| {
            one.flow_control() == FlowControl::IndirectBranch && !is_by_pointer(one)
        };
        let jumps = self.code.values().filter(|(one, _)| is_jump(one));
        let jumps: Vec<(Instruction, Frame)> = jumps.copied().take(TABLES_MAX).collect();
        let Some(frame) = jumps.iter().map(|(_, frame)| *frame).reduce(Frame::meet) else {
            return Ok(false);
        };
        for (jump, _) in &jumps {
            // The nearest address before a jump is that of its table. It may also have been taken long before.
            let before = || self.code.range(..jump.ip()).rev().map(|(_, (one, _))| one);
            let Some(entries) = jump_tables::entries(before()) else { continue };
            let mut near = std::iter::once(jump).chain(before().take(TABLE_BEFORE_MAX));
            if let Some(table) = near.find_map(JumpTable::of) {
                if self.add_part(table, Some(entries), frame)? {
                    return Ok(true);
                }
            }
        }
        let all = self.code.values().filter_map(|(one, _)| JumpTable::of(one));
        let all: Vec<JumpTable> = all.take(TABLES_MAX).collect();
        for table in all {
            if self.add_part(table, None, frame)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds the first unknown part to which the jump table leads. If the number of its entries is unknown, only parts
    /// with a name are accepted.
    fn add_part(
        &mut self,
        table: JumpTable,
        entries: Option<u64>,
        frame: Frame,
    ) -> Result<bool, ExitProblem> {
        let most = jump_tables::ENTRIES_MAX;
        for number in 0..entries.unwrap_or(most).min(most) {
            // An entry costs as much as code does: hostile tables of many functions may be one.
            if !self.pieces.map.take_budget(jump_tables::ENTRY_COST) {
                return Err(ExitProblem::Budget);
            }
            let Some(to) = table.target(self.pieces.map, number) else { break };
            if self.pieces.containing(to).is_some() {
                continue;
            }
            let named = self.pieces.map.function_of(to);
            if let Some(named) = named.filter(|named| self.is_cold_part(named.name)) {
                self.add_piece(named.start..named.end)?;
                self.work.push((to, frame));
                return Ok(true);
            }
            let frame_of =
                self.pieces.map.frame_of(to).filter(|_| named.is_none() && entries.is_some());
            let Some(range) = frame_of.map(|frame| frame.range.clone()) else { break };
            match self.outside_code(&range, to) {
                OutsideCode::ComesBack => {
                    self.add_piece(range)?;
                    self.work.push((to, frame));
                    return Ok(true);
                }
                OutsideCode::Leaves => self.leaves_by_table = true,
                OutsideCode::Ends => {}
            }
        }
        Ok(false)
    }

    fn add_piece(&mut self, piece: Range<u64>) -> Result<(), ExitProblem> {
        self.pieces.add(piece.clone())?;
        // What was taken for another function may turn out to be a part of this one.
        let is_into = |instruction: &Instruction| piece.contains(&instruction.near_branch_target());
        self.leaving.retain(|_, instruction| {
            let is_out = !is_into(instruction);
            if !is_out {
                self.work.push((instruction.near_branch_target(), ANYWHERE));
            }
            is_out
        });
        Ok(())
    }

    fn decode(&self, address: u64) -> Result<Instruction, ExitProblem> {
        let piece = self.pieces.containing(address);
        let found = piece.and_then(|piece| decode(self.pieces.map, piece, address));
        found.ok_or_else(|| ExitProblem::Data(self.pieces.place(address)))
    }

    /// Follows all jumps from `work` on.
    fn explore(&mut self) -> Result<(), ExitProblem> {
        while let Some((address, frame)) = self.work.pop() {
            let (instruction, frame) = match self.code.get(&address) {
                Some((instruction, known)) => {
                    let both = known.meet(frame);
                    if both == *known {
                        continue;
                    }
                    (*instruction, both)
                }
                None => (self.decode(address)?, frame),
            };
            self.code.insert(address, (instruction, frame));
            self.follow(&instruction, frame)?;
        }
        Ok(())
    }

    fn follow(&mut self, instruction: &Instruction, frame: Frame) -> Result<(), ExitProblem> {
        let next = instruction.next_ip();
        let behind = self.behind(instruction, frame);
        // The address of an instruction is taken for who comes back there in another way than by a jump.
        self.pieces.is_partial |= self.takes_own_address(instruction);
        match instruction.flow_control() {
            FlowControl::Return | FlowControl::Exception => {}
            // A program that handles SIGTRAP goes on behind it; behind a function it fills up.
            FlowControl::Interrupt if self.pieces.containing(next).is_none() => {}
            FlowControl::IndirectBranch => {
                // A jump by a table in the function, or to other functions, is told apart when it is made.
                self.pieces.is_partial |= !is_by_pointer(instruction);
            }
            FlowControl::UnconditionalBranch => self.jump(instruction, frame)?,
            FlowControl::ConditionalBranch => {
                self.jump(instruction, frame)?;
                self.go_on(instruction, next, behind)?;
            }
            FlowControl::Call if self.is_inner(instruction) => {
                let pushed = behind.stack.and_then(|bytes| bytes.checked_add(8));
                self.inner_calls.push(instruction.ip());
                self.work
                    .push((instruction.near_branch_target(), Frame { stack: pushed, ..behind }));
                // `call` of the next instruction only pushes its address.
                if instruction.near_branch_target() != next
                    && self.pieces.containing(next).is_some()
                {
                    self.work.push((next, behind));
                }
            }
            // Behind the call of a function that does not return may be anything, or nothing.
            FlowControl::Call | FlowControl::IndirectCall
                if self.pieces.containing(next).is_none() => {}
            _ if instruction.mnemonic() == Mnemonic::Hlt => {}
            _ => self.go_on(instruction, next, behind)?,
        }
        Ok(())
    }

    /// Returns whether the instruction takes the address of a place within the function, other than its begin: of a
    /// handler of exceptions that no table names (OCaml), or of the place to which `__builtin_longjmp` jumps.
    fn takes_own_address(&self, instruction: &Instruction) -> bool {
        let is_number = |kind| matches!(kind, OpKind::Immediate32 | OpKind::Immediate32to64);
        let address = match instruction.mnemonic() {
            Mnemonic::Lea if instruction.is_ip_rel_memory_operand() => {
                instruction.ip_rel_memory_address()
            }
            Mnemonic::Push if is_number(instruction.op0_kind()) => instruction.immediate(0),
            Mnemonic::Mov if is_number(instruction.op1_kind()) => instruction.immediate(1),
            _ => return false,
        };
        address != self.pieces.start && self.pieces.containing(address).is_some()
    }

    /// Returns whether the instruction calls a place within the function, other than its begin.
    fn is_inner(&self, instruction: &Instruction) -> bool {
        let to = instruction.near_branch_target();
        to != self.pieces.start
            && instruction.is_call_near()
            && self.pieces.containing(to).is_some()
    }

    fn go_on(
        &mut self,
        instruction: &Instruction,
        next: u64,
        frame: Frame,
    ) -> Result<(), ExitProblem> {
        if self.pieces.containing(next).is_some() {
            self.work.push((next, frame));
            return Ok(());
        }
        // Compilers fill up with these behind what does not return.
        if instruction.mnemonic() == Mnemonic::Nop {
            return Ok(());
        }
        Err(ExitProblem::RunsOn)
    }

    fn jump(&mut self, instruction: &Instruction, frame: Frame) -> Result<(), ExitProblem> {
        let (at, to) = (instruction.ip(), instruction.near_branch_target());
        if self.pieces.containing(to).is_none() {
            match self.destination(frame, to) {
                Some(Destination::Piece(piece)) => self.add_piece(piece)?,
                Some(Destination::Other) => {
                    self.leaving.insert(at, *instruction);
                    return Ok(());
                }
                // It never comes back, and never returns.
                Some(Destination::End) => return Ok(()),
                None => return Err(ExitProblem::Unclear { at: self.pieces.place(at), to }),
            }
        }
        self.work.push((to, frame));
        Ok(())
    }

    fn destination(&mut self, frame: Frame, to: u64) -> Option<Destination> {
        let map = self.pieces.map;
        if map.is_stub(to) {
            return Some(Destination::Other);
        }
        let named = map.function_of(to);
        let unwound = map.frame_of(to).map(|frame| frame.range.clone());
        if named.is_some_and(|named| self.is_cold_part(named.name)) {
            return named.map(|named| Destination::Piece(named.start..named.end));
        }
        let thunks: [&[u8]; 2] = [b"__x86_indirect_thunk", b"__llvm_retpoline"];
        if named.is_some_and(|named| thunks.iter().any(|thunk| named.name.starts_with(thunk))) {
            return None;
        }
        // With something of its own on the stack, a function goes on elsewhere and does not end. Between functions
        // there is no such jump.
        let is_amidst = frame.stack.is_some_and(|bytes| bytes != 0);
        let is_begin = !map.beginning_at(to).is_empty();
        let range = named.map(|named| named.start..named.end).or_else(|| unwound.clone());
        if is_amidst {
            let is_part = |name: &[u8]| name.windows(5).any(|part| part == b".cold");
            if is_begin && !named.is_some_and(|named| is_part(named.name)) {
                return None;
            }
            let range = unwound.or(range).filter(|range| range.contains(&to))?;
            return map.beginning_within(&range).is_none().then_some(Destination::Piece(range));
        }
        if is_begin {
            return Some(Destination::Other);
        }
        if named.is_some() {
            return None;
        }
        // A file without symbols: what the code there does tells what it is.
        let range = unwound?;
        match self.outside_code(&range, to) {
            OutsideCode::ComesBack => Some(Destination::Piece(range)),
            OutsideCode::Ends => Some(Destination::End),
            OutsideCode::Leaves => Some(Destination::Other),
        }
    }

    fn outside_code(&mut self, range: &Range<u64>, to: u64) -> OutsideCode {
        if let Some(known) = self.outside.get(&to) {
            return *known;
        }
        let own = OwnCode { start: self.pieces.start, pieces: &self.pieces.ranges };
        let found = tail_jumps::look(self.pieces.map, range, to, &own);
        self.outside.insert(to, found);
        found
    }

    /// Returns whether the name is that of this function's rarely used part, which compilers call `f.cold` or
    /// `f.cold.1`.
    fn is_cold_part(&self, name: &[u8]) -> bool {
        self.pieces.map.beginning_at(self.pieces.start).iter().any(|own| {
            let rest = name.strip_prefix(own.name).and_then(|rest| rest.strip_prefix(b".cold"));
            rest.is_some_and(|rest| {
                let digits = rest.strip_prefix(b".").unwrap_or(rest);
                digits.iter().all(u8::is_ascii_digit)
            })
        })
    }

    /// Returns the frame after an instruction.
    fn behind(&mut self, instruction: &Instruction, frame: Frame) -> Frame {
        let mut after = frame;
        let is_own = |register: Register| register == Register::RSP || register == Register::RBP;
        if matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
            return after;
        }
        let (to, immediate) = (instruction.op0_register(), instruction.op1_kind());
        let is_constant = matches!(
            immediate,
            OpKind::Immediate8to64 | OpKind::Immediate32to64 | OpKind::Immediate8
        );
        let base = instruction.memory_base();
        let value_of = |register: Register| match register {
            Register::RSP => frame.stack,
            Register::RBP => frame.base,
            _ => None,
        };
        let value = match instruction.mnemonic() {
            Mnemonic::Leave => {
                after.stack = frame.base.and_then(|base| base.checked_sub(8));
                after.base = None;
                return after;
            }
            Mnemonic::Sub if is_own(to) && is_constant => {
                value_of(to).and_then(|now| now.checked_add_unsigned(instruction.immediate(1)))
            }
            Mnemonic::Add if is_own(to) && is_constant => {
                value_of(to).and_then(|now| now.checked_sub(instruction.immediate(1) as i64))
            }
            Mnemonic::Lea if is_own(to) && instruction.memory_index() == Register::None => {
                let moved = instruction.memory_displacement64() as i64;
                value_of(base).and_then(|now| now.checked_sub(moved))
            }
            Mnemonic::Mov if is_own(to) && instruction.op1_kind() == OpKind::Register => {
                value_of(instruction.op1_register())
            }
            _ => {
                let pushed = -i64::from(instruction.stack_pointer_increment());
                after.stack = frame.stack.and_then(|now| now.checked_add(pushed));
                for used in self.info.info(instruction).used_registers() {
                    let writes = !matches!(
                        used.access(),
                        OpAccess::None
                            | OpAccess::Read
                            | OpAccess::CondRead
                            | OpAccess::NoMemAccess
                    );
                    match used.register().full_register() {
                        Register::RSP if writes && pushed == 0 => after.stack = None,
                        Register::RBP if writes => after.base = None,
                        _ => {}
                    }
                }
                return after;
            }
        };
        match to {
            Register::RSP => after.stack = value,
            _ => after.base = value,
        }
        after
    }

    /// Decodes all code of the function's piece `number`, including code that no followed jump reaches.
    fn sweep(&mut self, number: usize) -> Result<(), ExitProblem> {
        let Some(piece) = self.pieces.ranges.get(number).cloned() else { return Ok(()) };
        let mut at = piece.start;
        while at < piece.end {
            let known = self.code.get(&at).map(|(instruction, _)| *instruction);
            let instruction = match known {
                Some(instruction) => instruction,
                None => {
                    let instruction = self.decode(at)?;
                    // Nothing is meant to get to what fills up.
                    if !is_padding(&instruction) {
                        self.work.push((at, ANYWHERE));
                        self.explore()?;
                    }
                    instruction
                }
            };
            at = instruction.next_ip();
        }
        Ok(())
    }

    /// Returns the exits, sorted.
    fn exits(&self) -> Result<Exits, ExitProblem> {
        let mut exits = Exits::default();
        let (mut end, mut locked) = (0, 0);
        // The allocator of a split stack calls the function's body, which has its own return.
        let mut expects_allocator = self.has_split_stack();
        let mut is_behind_call = false;
        for (&at, (instruction, frame)) in &self.code {
            // Programs of one thread jump over the prefix `lock`.
            if at < end && at != locked {
                return Err(ExitProblem::Data(self.pieces.place(at)));
            }
            end = instruction.next_ip();
            locked = if instruction.has_lock_prefix() { at + 1 } else { 0 };
            let is_allocator = expects_allocator && is_behind_call;
            is_behind_call = instruction.flow_control() == FlowControl::Call;
            match instruction.flow_control() {
                FlowControl::Return if is_allocator => expects_allocator = false,
                FlowControl::Return => match self.kind_of_return(instruction, *frame) {
                    Some(true) => exits.returns.push(at),
                    Some(false) => continue,
                    None => return Err(ExitProblem::Stack(self.pieces.place(at))),
                },
                // The return address is no longer on the stack.
                FlowControl::IndirectBranch if frame.stack.is_some_and(|bytes| bytes < 0) => {
                    return Err(ExitProblem::Stack(self.pieces.place(at)));
                }
                FlowControl::IndirectBranch => match self.indirect(instruction, *frame) {
                    None => continue,
                    Some(None) => exits.tail_calls.push(at),
                    Some(Some(target)) => {
                        let ranges = self.pieces.relative_to(at);
                        exits.guarded.push((at, Guard::Target { target, ranges }));
                    }
                },
                FlowControl::UnconditionalBranch if self.leaving.contains_key(&at) => {
                    match self.is_return_thunk(instruction.near_branch_target()) {
                        true => exits.returns.push(at),
                        false => exits.tail_calls.push(at),
                    }
                }
                FlowControl::ConditionalBranch if self.leaving.contains_key(&at) => {
                    let Some(condition) = condition(instruction) else {
                        return Err(ExitProblem::Unclear {
                            at: self.pieces.place(at),
                            to: instruction.near_branch_target(),
                        });
                    };
                    exits.guarded.push((at, Guard::Condition(condition)));
                }
                _ => continue,
            }
            let is_odd = instruction.has_lock_prefix() || has_segment(instruction);
            if is_odd {
                return Err(ExitProblem::Prefix(self.pieces.place(at)));
            }
        }
        exits.checked()
    }

    /// Returns whether a `ret` returns from the function, rather than from an inner part that the function calls.
    /// `None` if that is not known.
    fn kind_of_return(&self, instruction: &Instruction, frame: Frame) -> Option<bool> {
        match frame.stack {
            Some(0) => return Some(true),
            None if self.inner_calls.is_empty() => return Some(true),
            _ => {}
        }
        let is_called = self.inner_calls.iter().any(|call| {
            let before = self.code.get(call).and_then(|(_, frame)| frame.stack);
            before.is_some() && before.and_then(|bytes| bytes.checked_add(8)) == frame.stack
        });
        // Another address may have been written over the one that the call had pushed: then it is a jump.
        let before = self.code.range(..instruction.ip()).next_back();
        let is_overwritten = before.is_some_and(|(_, (before, _))| {
            before.op0_kind() == OpKind::Memory
                && before.memory_base() == Register::RSP
                && before.memory_displacement64() == 0
        });
        (is_called && !is_overwritten).then_some(false)
    }

    /// Returns whether a jump to `address` is a return. With a compiler option (return thunks), functions jump to a
    /// common `ret`.
    fn is_return_thunk(&self, address: u64) -> bool {
        self.pieces.map.beginning_at(address).iter().any(|one| one.name == b"__x86_return_thunk")
    }

    /// Examines an indirect jump. Returns `None` if it stays in the function, `Some(None)` if it leaves the
    /// function to an unknown target, else the place that holds the target.
    #[allow(clippy::option_option)]
    fn indirect(&self, instruction: &Instruction, frame: Frame) -> Option<Option<JumpTarget>> {
        // Without an ENDBR at its target it leads to a `switch` of its own: `notrack`. So does one with something of the
        // function on the stack.
        let is_own = instruction.segment_prefix() == Register::DS
            || frame.stack.is_some_and(|bytes| bytes != 0);
        let by_pointer = is_by_pointer(instruction);
        if is_own && (by_pointer || !self.leaves_by_table) {
            return None;
        }
        if by_pointer {
            return Some(None);
        }
        if instruction.op0_kind() == OpKind::Register {
            return Some(offset_of(instruction.op0_register()).map(JumpTarget::Register));
        }
        let scale = instruction.memory_index_scale() as u8;
        Some(Some(JumpTarget::Memory {
            base: offset_of(instruction.memory_base()),
            index: offset_of(instruction.memory_index()).map(|index| (index, scale)),
            addend: instruction.memory_displacement64() as i64,
        }))
    }

    /// Returns whether the function begins with a check for the end of a segmented stack (-fsplit-stack).
    fn has_split_stack(&self) -> bool {
        self.code.values().take(6).any(|(instruction, _)| {
            instruction.segment_prefix() == Register::FS
                && instruction.memory_base() == Register::None
                && instruction.memory_displacement64() == 0x70
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::uprobe::{function_pieces, register};
    use crate::discover::code_map::BUDGET;
    use crate::discover::elf::tests::Folder;
    use crate::discover::elf::Elf;

    /// Compiles the source and finds the exits of its function `probed`, with addresses relative to its begin.
    fn found(name: &str, source: &str, flags: &[&str]) -> Option<Result<Exits, ExitProblem>> {
        let folder = Folder::new(name);
        let flags = [&["-O1", "-shared", "-fPIC", "-w"], flags].concat();
        let path = folder.compile_text("code.so", source, &flags)?;
        let elf = Elf::open(&path).unwrap();
        let map = CodeMap::new(&elf).unwrap();
        let start = elf.symbol("probed", 0).unwrap().address;
        Some(find(&map, start).map(|mut exits| {
            exits.returns.iter_mut().for_each(|at| *at = at.wrapping_sub(start));
            exits.tail_calls.iter_mut().for_each(|at| *at = at.wrapping_sub(start));
            exits.guarded.iter_mut().for_each(|(at, _)| *at = at.wrapping_sub(start));
            exits
        }))
    }

    /// Code of this text in assembly.
    fn assembled(name: &str, code: &str) -> Option<Result<Exits, ExitProblem>> {
        found(name, &assembly(code), &[])
    }

    /// Returns a C file with a function of this text in assembly.
    fn assembly(code: &str) -> String {
        let lines: Vec<String> =
            code.split(';').map(|line| format!("\"{}\\n\"", line.trim())).collect();
        format!(
            "asm(\".text\\n.globl probed\\n.type probed,@function\\nprobed:\\n\" {} \".size probed,.-probed\\n\"\
             \".globl other\\n.type other,@function\\nother:\\nmov $1,%eax\\nret\\n.size other,.-other\\n\");",
            lines.join(" ")
        )
    }

    #[test]
    fn find_of_all_forms_of_returns_has_their_first_bytes() {
        let code =
            "test %edi,%edi; je 1f; repz ret; 1: jp 2f; bnd ret; 2: jl 3f; ret $16; 3: nop; ret";
        let Some(exits) = assembled("exits-forms", code) else { return };
        let exits = exits.unwrap();
        assert_eq!((exits.returns, exits.tail_calls), (vec![4, 8, 12, 16], vec![]));
    }

    #[test]
    fn find_of_jumps_out_of_a_function_tells_which_are_always_taken() {
        let Some(exits) =
            assembled("exits-out", "test %edi,%edi; jg other; js 1f; ret; 1: jmp other")
        else {
            return;
        };
        let exits = exits.unwrap();
        assert_eq!(exits.guarded, [(2, Guard::Condition(15))]);
        assert_eq!((exits.returns.len(), exits.tail_calls.len()), (1, 1));
    }

    #[test]
    fn find_of_indirect_jumps_compares_their_target_only_where_it_may_be_outside() {
        let Some(exits) = assembled("exits-bare", "mov %rdi,%rax; jmp *%rax; ret") else { return };
        let exits = exits.unwrap();
        let [(3, Guard::Target { target, ranges })] = &exits.guarded[..] else {
            panic!("{exits:?}")
        };
        assert_eq!(
            (*target, &ranges[..]),
            (JumpTarget::Register(register::here().results[0]), &[(-3, 3)][..])
        );
        let framed = "push %rbx; mov %rdi,%rax; jmp *%rax; pop %rbx; ret";
        let exits = assembled("exits-framed", framed).unwrap().unwrap();
        assert_eq!((exits.returns.len(), exits.guarded.len()), (1, 0));
        let exits = assembled("exits-notrack", "notrack jmp *%rax; ret").unwrap().unwrap();
        assert_eq!((exits.returns.len(), exits.guarded.len()), (1, 0));
        let exits = assembled("exits-table", "jmp *8(%rdi,%rsi,8)").unwrap().unwrap();
        let [(0, Guard::Target { target, .. })] = &exits.guarded[..] else { panic!("{exits:?}") };
        let memory = JumpTarget::Memory { base: Some(112), index: Some((104, 8)), addend: 8 };
        assert_eq!(*target, memory);
    }

    #[test]
    fn find_takes_a_byte_of_data_for_no_return() {
        // Nothing leads there.
        let Some(exits) = assembled("exits-data", "mov $1,%eax; ret; .byte 0xc3,0xc3") else {
            return;
        };
        assert_eq!(exits.unwrap().returns, [5]);
        // With an indirect jump, something may: what is no instruction is refused.
        let exits = assembled("exits-data-jump", "jmp *%rax; .byte 0,0,0,0xc3,0x06").unwrap();
        assert!(matches!(exits, Err(ExitProblem::Data(2))), "{exits:?}");
    }

    #[test]
    fn find_of_functions_that_cannot_be_known_says_why() {
        let cases = [
            ("nop; 1: jmp 1b", ExitProblem::Never),
            ("mov $1,%eax", ExitProblem::RunsOn),
            (
                "ret; .globl inner; .type inner,@function; inner: ret",
                ExitProblem::Shared { name: "inner".into() },
            ),
        ];
        for (number, (code, wanted)) in cases.into_iter().enumerate() {
            let Some(exits) = assembled(&format!("exits-none-{number}"), code) else { return };
            assert_eq!(exits.unwrap_err(), wanted, "{code}");
        }
        let exits = assembled("exits-amidst", "test %edi,%edi; je other+5; ret").unwrap();
        assert!(matches!(exits, Err(ExitProblem::Unclear { at: 2, .. })), "{exits:?}");
    }

    #[test]
    fn find_of_code_whose_address_is_taken_has_its_returns() {
        // An exception of OCaml returns to what was pushed.
        let pushed =
            "lea 1f(%rip),%r11; push %r11; call other; add $8,%rsp; ret; 1: mov $2,%eax; ret";
        let Some(exits) = assembled("exits-pushed", pushed) else { return };
        assert_eq!(exits.unwrap().returns, [18, 24]);
        // Without that, it nothing leads there.
        let other =
            "lea 1f+99(%rip),%r11; push %r11; call other; add $8,%rsp; ret; 1: mov $2,%eax; ret";
        assert_eq!(assembled("exits-not-taken", other).unwrap().unwrap().returns, [18]);
    }

    #[test]
    fn find_of_a_segmented_stack_leaves_out_the_return_of_its_allocator_only() {
        let code = "cmp %fs:0x70,%rsp; jae 1f; mov $8,%r10d; call other; ret; 1: test %edi,%edi; je 2f; call other; 2: ret";
        let Some(exits) = assembled("exits-segmented", code) else { return };
        assert_eq!(exits.unwrap().returns, [32]);
    }

    #[test]
    fn find_follows_a_function_into_its_cold_part() {
        let source = "void __attribute__((cold)) rare(int *); int probed(int *a) { \
                      if (__builtin_expect(a[0] > 7, 0)) { rare(a); return a[1] * 3; } return a[2]; }";
        let Some(exits) = found("exits-cold", source, &["-O2"]) else { return };
        let exits = exits.unwrap();
        assert_eq!((exits.returns.len(), exits.tail_calls.len(), exits.guarded.len()), (2, 0, 0));
    }

    #[test]
    fn find_follows_a_table_into_a_cold_part_that_no_jump_of_the_function_leads_to() {
        // One case leaves by a jump, one returns, one comes back, and one never ends.
        let source = "int __attribute__((cold, noinline)) rare(int n) { asm(\"\"); return n ^ 1; } \
            void __attribute__((cold, noreturn)) never(void); extern int other; \
            int probed(int n) { int found = 0; switch (n) { CASES \
            case 1: return 11; case 3: return 31 * n; case 4: other++; return 4; case 5: return n / 3; \
            case 6: return -n; case 7: return other; default: return 1; } return found + other * 3; }";
        let cases = [
            "case 2: return rare(n);",
            "case 2: return rare(n) + rare(7);",
            "case 2: found = rare(n); other = found; break; case 8: found = 9; break;",
            "case 2: never();",
        ];
        // Exits in the cold part, which is in front of the function, or behind it: returns, and jumps.
        let outside = |exits: &Exits| {
            let count =
                |all: &[u64]| all.iter().filter(|&&at| at > function_pieces::BYTES_MAX).count();
            (count(&exits.returns), count(&exits.tail_calls))
        };
        for (number, case) in cases.into_iter().enumerate() {
            let source = source.replace("CASES", case);
            for more in ["-g0", "-fcf-protection", "-fstack-protector-all"] {
                let of = |tables| {
                    let flags = ["-O2", more, tables];
                    Some(found(&format!("exits-table-{number}"), &source, &flags)?.unwrap())
                };
                let Some(without) = of("-fno-jump-tables") else { return };
                let with = of("-fjump-tables").unwrap();
                assert_eq!(outside(&with), outside(&without), "{case} {more}: {with:?}");
                assert!(number > 0 || outside(&with).1 == 1, "{case} {more}: {with:?}");
            }
        }
    }

    #[test]
    fn malicious_tables_of_many_entries_take_from_the_budget_of_the_file() {
        let code = "lea table(%rip),%rax; cmp $4000,%edi; ja own; jmp *%rax; own: ret; \
            .section .rodata; table: .rept 4001; .long own - table; .endr; .text";
        let folder = Folder::new("exits-budget");
        let flags = ["-shared", "-fPIC", "-w"];
        let Some(path) = folder.compile_text("code.so", &assembly(code), &flags) else { return };
        let elf = Elf::open(&path).unwrap();
        let start = elf.symbol("probed", 0).unwrap().address;
        let map = CodeMap::new(&elf).unwrap();
        assert_eq!(find(&map, start).unwrap().returns.len(), 1);
        // The table is read as that of the jump, and as one that names may be in.
        assert!(!map.take_budget(BUDGET - 2 * 4001 * jump_tables::ENTRY_COST));
        let map = CodeMap::new(&elf).unwrap();
        assert!(map.take_budget(BUDGET - 10_000));
        assert_eq!(find(&map, start), Err(ExitProblem::Budget));
    }

    #[test]
    fn find_in_a_stripped_file_finds_what_it_finds_by_names() {
        // The rare part comes back, returns, or never ends.
        let sources = [
            "if (__builtin_expect(a[0] > 7, 0)) { rare(a); a[1]++; } return a[2] + a[1];",
            "if (__builtin_expect(a[0] > 7, 0)) { rare(a); return a[1] * 3; } return a[2];",
            "if (__builtin_expect(a[0] > 7, 0)) never(a); return a[2];",
        ];
        for (number, body) in sources.into_iter().enumerate() {
            let source = format!(
                "void __attribute__((cold)) rare(int *); void __attribute__((cold, noreturn)) never(int *); \
                 int probed(int *a) {{ {body} }}"
            );
            let name = format!("exits-stripped-{number}");
            let Some(named) = found(&name, &source, &["-O2"]) else { return };
            let stripped = found(&name, &source, &["-O2", "-s"]).unwrap().unwrap();
            let counts =
                |exits: &Exits| (exits.returns.len(), exits.tail_calls.len() + exits.guarded.len());
            let (named, stripped) = (counts(&named.unwrap()), counts(&stripped));
            // Of a return in the rare part no value is known, but that the function is left.
            assert!(
                stripped == named || stripped == (named.0 - 1, 1),
                "{number}: {stripped:?} {named:?}"
            );
            assert_eq!(stripped.0 + stripped.1, named.0 + named.1, "{number}");
        }
    }

    #[test]
    fn find_tells_the_function_s_own_return_from_others() {
        let Some(exits) = assembled("exits-inner", "call 1f; inc %eax; ret; 1: mov $1,%eax; ret")
        else {
            return;
        };
        assert_eq!(exits.unwrap().returns, [7]);
        // The next instruction's address is pushed, and is taken off again.
        let exits = assembled("exits-next", "call 1f; 1: pop %rax; ret").unwrap();
        assert_eq!(exits.unwrap().returns, [6]);
        // As compilers write a return that is not predicted.
        let code = "call 2f; 1: pause; jmp 1b; 2: lea 8(%rsp),%rsp; ret";
        assert_eq!(assembled("exits-thunk", code).unwrap().unwrap().returns, [14]);
        let cases = [
            ("push %rdi; ret", 1),
            ("pop %rcx; jmp *%rcx", 1),
            ("call 2f; 1: pause; jmp 1b; 2: mov %rdi,(%rsp); ret", 13),
        ];
        for (number, (code, at)) in cases.into_iter().enumerate() {
            let exits = assembled(&format!("exits-stack-{number}"), code).unwrap();
            assert_eq!(exits.unwrap_err(), ExitProblem::Stack(at), "{code}");
        }
    }

    #[test]
    fn find_goes_on_behind_a_breakpoint_of_the_program() {
        let Some(exits) = assembled("exits-int3", "int3; mov $1,%eax; ret; int3; int3") else {
            return;
        };
        assert_eq!(exits.unwrap().returns, [6]);
    }

    #[test]
    fn find_takes_a_jump_to_the_place_of_all_returns_for_one() {
        let source =
            "asm(\".text\\n.globl probed\\n.type probed,@function\\nprobed: test %edi,%edi\\n\
                      jmp __x86_return_thunk\\n.size probed,.-probed\\n\
                      .type __x86_return_thunk,@function\\n__x86_return_thunk: ret\\n\
                      .size __x86_return_thunk,.-__x86_return_thunk\");";
        let Some(exits) = found("exits-all-returns", source, &[]) else { return };
        let exits = exits.unwrap();
        assert_eq!((exits.returns, exits.tail_calls), (vec![2], vec![]));
    }
}
