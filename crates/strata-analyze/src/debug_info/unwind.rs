//! Unwinds a recorded copy of a program's stack: finds who called whom, without frame pointers.
//!
//! Registers and stack are in the record, the rules in the files that the process had mapped then. Where there is no rule,
//! such as in generated code, the frame pointer is followed for that one frame.

use std::collections::HashMap;
use std::sync::Arc;

use gimli::{Evaluation, EvaluationResult, Location, UnwindContext, UnwindExpression, Value};

use super::stack_fields::FileNumber;
use super::unwind_table::{
    CallersValue, FrameAddress, FrameRule, UnwindTable, ENCODING, FRAME_POINTER, REGISTERS, RETURN,
    STACK_POINTER,
};

/// The most frames of a stack.
const FRAMES_MAX: usize = 1 << 10;
/// The most frames of a stack without any copied word. Each copied word allows one more, since a return address takes
/// a word.
const FRAMES_MIN: usize = 64;
/// The most steps that evaluating one expression may take.
const STEPS_MAX: u32 = 256;
/// The steps that all expressions of one stack may take, and those for each recorded word in addition.
const STACK_STEPS: u32 = 4096;
const WORD_STEPS: u32 = 8;
/// The most unwind rules that are remembered.
const RULES_MAX: usize = 1 << 17;
/// The number of registers that the kernel saves in a record.
const SAVED: usize = 21;
const PLACES: [usize; REGISTERS] = [10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16];

/// The name of a stack's last frame if the copy ends before its caller.
pub(crate) const CUT: &str = "[stack cut]";
/// The name of a stack's last frame if there is neither an unwind table nor a frame pointer for its callee.
pub(crate) const NO_UNWIND_TABLE: &str = "[no unwind table]";

/// The registers of a thread and the memory at its stack pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StackCopy {
    registers: [u64; REGISTERS],
    begin: u64,
    memory: Vec<u64>,
}

/// How a stack ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StackEnd {
    /// At its outermost function.
    Whole,
    /// Where the copy ends.
    Cut,
    /// At a function whose caller is unknown.
    Unknown,
}

/// An unwound stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnwoundStack {
    /// The addresses of the frames, the innermost first.
    pub addresses: Vec<u64>,
    /// For each frame, true if it has called the frame before it, so that its address is a return address.
    pub are_callers: Vec<bool>,
    pub end: StackEnd,
}

impl UnwoundStack {
    /// Returns the name of a frame to add at the outer end of the stack, if the stack does not end with its outermost
    /// function.
    pub fn mark(&self) -> Option<&'static str> {
        match self.end {
            StackEnd::Whole => None,
            StackEnd::Cut => Some(CUT),
            StackEnd::Unknown => Some(NO_UNWIND_TABLE),
        }
    }
}

/// The unwind table at an address of a process.
#[derive(Clone, Debug)]
pub(super) enum TableAt {
    /// The process has no code at the address.
    NoCode,
    /// There may be code at the address, and no table is known for it.
    NoTable,
    /// The unwind table, the number of its file, and the address in that file.
    Table(Arc<UnwindTable>, FileNumber, u64),
}

impl StackCopy {
    /// Returns the copy in a record's fields; `None` if the record has no registers.
    pub fn new(registers: &[u64], memory: Vec<u64>) -> Option<StackCopy> {
        let registers: &[u64; SAVED] = registers.try_into().ok()?;
        let registers = PLACES.map(|place| registers[place]);
        Some(StackCopy { registers, begin: registers[STACK_POINTER] & !7, memory })
    }

    /// Reads a number of eight bytes of the stack.
    fn read(&self, address: u64) -> Option<u64> {
        let behind = address.checked_sub(self.begin)?;
        let at = usize::try_from(behind / 8).ok()?;
        let word = *self.memory.get(at)?;
        match (behind % 8) as u32 * 8 {
            0 => Some(word),
            bits => Some(word >> bits | self.memory.get(at + 1)? << (64 - bits)),
        }
    }

    /// Returns true if a stack pointer is at the begin of the whole stack: the program's arguments are there, where
    /// the copy ends. A copy whose size is a power of two was cut instead.
    fn is_outermost(&self, stack_pointer: u64) -> bool {
        let bytes = self.memory.len() as u64 * 8;
        !bytes.is_power_of_two()
            && bytes > 0
            && stack_pointer.checked_sub(self.begin) == Some(bytes)
    }

    /// Returns the most frames of the stack.
    fn frames(&self) -> usize {
        FRAMES_MAX.min(FRAMES_MIN + self.memory.len())
    }

    /// Returns the most steps of expressions, so that a record takes time in proportion to its size.
    fn steps(&self) -> u32 {
        let words = u32::try_from(self.memory.len()).unwrap_or(u32::MAX);
        STACK_STEPS.saturating_add(words.saturating_mul(WORD_STEPS))
    }

    /// Returns true if an address is in memory above the copied part.
    fn is_above(&self, address: u64) -> bool {
        address.checked_sub(self.begin).is_some_and(|it| it / 8 >= self.memory.len() as u64)
    }
}

/// Unwinds stacks, and remembers the rules that were used.
#[derive(Default)]
pub(super) struct Unwinder {
    rules: HashMap<(FileNumber, u64), Option<Arc<FrameRule>>>,
    context: UnwindContext<usize>,
    /// The steps that expressions may still take for the current stack.
    steps_left: u32,
}

/// The result of one step up a stack, from a frame to its caller.
enum Step {
    Caller,
    Outermost,
    /// A value lies above the copy, or its place is unknown.
    Missing(StackEnd),
}

impl Unwinder {
    /// Unwinds a stack. `table_at`: function that returns the unwind table for an address of the process.
    pub fn unwind(
        &mut self,
        copy: &StackCopy,
        table_at: &mut dyn FnMut(u64) -> TableAt,
    ) -> UnwoundStack {
        let mut registers = copy.registers;
        let (mut addresses, mut are_callers) = (vec![registers[RETURN]], vec![false]);
        self.steps_left = copy.steps();
        // An interrupted instruction is looked up by its own address, a call by that of its last byte.
        let mut is_exact = true;
        let end = loop {
            let at = registers[RETURN].wrapping_sub(u64::from(!is_exact));
            let before = registers[STACK_POINTER];
            let (step, was_signal) = match self.rule_at(at, table_at) {
                Some((table, rule)) => {
                    let steps_left = &mut self.steps_left;
                    let expressions = Expressions { copy, table: &table, steps_left };
                    (by_rule(expressions, &mut registers, &rule), rule.is_signal)
                }
                // The first instructions of a program, or of its loader, have no caller.
                None if copy.is_outermost(before) => break StackEnd::Whole,
                None => (by_frame_pointer(copy, &mut registers), false),
            };
            // The kernel's return from a signal was not called from anywhere, and begins at its address.
            if let (true, Some(last)) = (was_signal, are_callers.last_mut()) {
                *last = false;
            }
            match step {
                Step::Caller => {}
                Step::Outermost => break StackEnd::Whole,
                Step::Missing(end) => break end,
            }
            is_exact = was_signal;
            let ip = registers[RETURN];
            // A stack grows down, so that callers are above; a signal may have a stack of its own.
            if !was_signal && registers[STACK_POINTER] <= before {
                break StackEnd::Unknown;
            }
            if ip == 0 {
                break StackEnd::Whole;
            }
            let inside = ip.wrapping_sub(u64::from(!is_exact));
            if matches!(table_at(inside), TableAt::NoCode) {
                break StackEnd::Unknown;
            }
            if addresses.len() >= copy.frames() {
                break StackEnd::Cut;
            }
            addresses.push(ip);
            are_callers.push(!is_exact);
        };
        UnwoundStack { addresses, are_callers, end }
    }

    fn rule_at(
        &mut self,
        address: u64,
        table_at: &mut dyn FnMut(u64) -> TableAt,
    ) -> Option<(Arc<UnwindTable>, Arc<FrameRule>)> {
        let TableAt::Table(table, file, place) = table_at(address) else { return None };
        if let Some(known) = self.rules.get(&(file, place)) {
            return known.clone().map(|rule| (table, rule));
        }
        let rule = table.rule(place, &mut self.context).map(Arc::new);
        if self.rules.len() >= RULES_MAX {
            self.rules.clear();
        }
        self.rules.insert((file, place), rule.clone());
        rule.map(|rule| (table, rule))
    }
}

/// Returns why memory cannot be read.
fn missing(copy: &StackCopy, address: u64) -> Step {
    Step::Missing(if copy.is_above(address) { StackEnd::Cut } else { StackEnd::Unknown })
}

/// Replaces the registers by those of the caller, as an unwind rule says.
fn by_rule(
    mut expressions: Expressions<'_>,
    registers: &mut [u64; REGISTERS],
    rule: &FrameRule,
) -> Step {
    let copy = expressions.copy;
    if rule.is_outermost {
        return Step::Outermost;
    }
    let frame = match rule.frame {
        FrameAddress::Register(register, distance) => {
            Ok(registers[usize::from(register)].wrapping_add_signed(distance))
        }
        FrameAddress::Expression(it) => expressions.value(&it, registers, None),
    };
    let frame = match frame {
        Ok(frame) => frame,
        Err(step) => return step,
    };
    let mut callers = *registers;
    callers[STACK_POINTER] = frame;
    for (register, value) in &rule.registers {
        let read = |address: u64| copy.read(address).ok_or_else(|| missing(copy, address));
        let mut expression = |it| expressions.value(it, registers, Some(frame));
        let value = match value {
            CallersValue::At(distance) => read(frame.wrapping_add_signed(*distance)),
            CallersValue::Value(distance) => Ok(frame.wrapping_add_signed(*distance)),
            CallersValue::Register(other) => Ok(registers[usize::from(*other)]),
            CallersValue::AtExpression(it) => expression(it).and_then(read),
            CallersValue::Expression(it) => expression(it),
        };
        match (value, usize::from(*register)) {
            (Ok(value), register) => callers[register] = value,
            (Err(step), RETURN) => return step,
            // What cannot be read is wrong only for those who use it.
            (Err(_), register) => callers[register] = 0,
        }
    }
    *registers = callers;
    Step::Caller
}

/// Replaces the registers by those of the caller, found by the frame pointer.
fn by_frame_pointer(copy: &StackCopy, registers: &mut [u64; REGISTERS]) -> Step {
    let frame = registers[FRAME_POINTER];
    if frame < registers[STACK_POINTER] || frame % 8 != 0 {
        return Step::Missing(StackEnd::Unknown);
    }
    match (copy.read(frame), copy.read(frame.wrapping_add(8))) {
        (Some(before), Some(ip)) => {
            registers[FRAME_POINTER] = before;
            registers[RETURN] = ip;
            registers[STACK_POINTER] = frame.wrapping_add(16);
            Step::Caller
        }
        // It may be any value.
        _ => Step::Missing(StackEnd::Unknown),
    }
}

/// The evaluation of expressions in a rule: the memory and registers that they read, and the steps that they may
/// take.
struct Expressions<'u> {
    copy: &'u StackCopy,
    table: &'u UnwindTable,
    steps_left: &'u mut u32,
}

impl Expressions<'_> {
    /// Returns the value of an expression.
    fn value(
        &mut self,
        expression: &UnwindExpression<usize>,
        registers: &[u64; REGISTERS],
        frame: Option<u64>,
    ) -> Result<u64, Step> {
        let copy = self.copy;
        let unknown = || Step::Missing(StackEnd::Unknown);
        let bytes = self.table.expression(expression).ok_or_else(unknown)?;
        // One that jumps back, which none has to, may take no more steps than one that does not.
        let steps = u32::try_from(bytes.0.len()).unwrap_or(u32::MAX).min(STEPS_MAX);
        *self.steps_left = self.steps_left.checked_sub(steps).ok_or_else(unknown)?;
        let mut evaluation: Evaluation<_> = bytes.evaluation(ENCODING);
        evaluation.set_max_iterations(steps);
        if let Some(frame) = frame {
            evaluation.set_initial_value(frame);
        }
        let mut state = evaluation.evaluate().map_err(|_| unknown())?;
        loop {
            let next = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresMemory { address, size: 8, space: None, .. } => {
                    let word = copy.read(address).ok_or_else(|| missing(copy, address))?;
                    evaluation.resume_with_memory(Value::Generic(word))
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = registers.get(usize::from(register.0)).ok_or_else(unknown)?;
                    evaluation.resume_with_register(Value::Generic(*value))
                }
                _ => return Err(unknown()),
            };
            state = next.map_err(|_| unknown())?;
        }
        match evaluation.result()[..] {
            [gimli::Piece { location: Location::Address { address }, .. }] => Ok(address),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::elf::ElfFile;
    use super::super::lookup_limits::Budget;
    use super::*;
    use std::path::Path;
    use strata_random::Random;

    const BEGIN: u64 = 0x7fff_0000_1000;

    /// Makes a copy of a stack at `BEGIN`, with a frame pointer.
    fn copy(frame: u64, memory: Vec<u64>) -> StackCopy {
        let mut registers = [0; SAVED];
        registers[PLACES[STACK_POINTER]] = BEGIN;
        registers[PLACES[FRAME_POINTER]] = frame;
        registers[PLACES[RETURN]] = 0x1000;
        StackCopy::new(&registers, memory).unwrap()
    }

    fn unwound(copy: &StackCopy) -> UnwoundStack {
        Unwinder::default().unwind(copy, &mut |address| match address {
            0x1000..0x9000 => TableAt::NoTable,
            _ => TableAt::NoCode,
        })
    }

    #[test]
    fn code_without_a_table_is_followed_by_its_frame_pointer_to_the_end() {
        let memory = vec![7, 8, BEGIN + 48, 0x2000, 9, 9, 0, 0x3000, 0, 0];
        let found = unwound(&copy(BEGIN + 16, memory.clone()));
        assert_eq!(found.addresses, [0x1000, 0x2000, 0x3000]);
        assert_eq!(found.are_callers, [false, true, true]);
        assert_eq!((found.end, found.mark()), (StackEnd::Unknown, Some(NO_UNWIND_TABLE)));
        // The outermost function has no caller.
        let mut whole = memory.clone();
        whole[7] = 0;
        assert_eq!(unwound(&copy(BEGIN + 16, whole)).end, StackEnd::Whole);
        // Nothing is on the stack of a program's first instructions.
        let memory_of_first = vec![0, 0, 0x2000];
        let first = unwound(&copy(BEGIN + 8, memory_of_first));
        assert_eq!((first.addresses.len(), first.end), (2, StackEnd::Whole));
        // What is no code is no caller.
        let mut data = memory;
        data[3] = 0x9001;
        let found = unwound(&copy(BEGIN + 16, data));
        assert_eq!((found.addresses, found.end), (vec![0x1000], StackEnd::Unknown));
    }

    #[test]
    fn malicious_frame_pointers_neither_go_back_nor_leave_the_copy() {
        for (frame, first) in [
            (BEGIN - 8, BEGIN),
            (BEGIN + 4, BEGIN),
            (BEGIN + 16, BEGIN + 16),
            (u64::MAX - 7, BEGIN),
            (BEGIN + 800, BEGIN),
            (BEGIN, BEGIN),
        ] {
            let memory = vec![first, 0x2000, first, 0x2000];
            let found = unwound(&copy(frame, memory));
            assert!(found.addresses.len() <= 2, "{frame:#x}: {found:?}");
            assert_eq!(found.end, StackEnd::Unknown, "{frame:#x}");
        }
        assert!(StackCopy::new(&[0; SAVED - 1], Vec::new()).is_none());
        // A stack that has no end.
        let memory: Vec<u64> = (0..8192).flat_map(|at| [BEGIN + 16 * (at + 1), 0x2000]).collect();
        let found = unwound(&copy(BEGIN, memory));
        assert_eq!((found.addresses.len(), found.end), (FRAMES_MAX, StackEnd::Cut));
    }

    #[test]
    fn numbers_of_the_stack_are_read_at_any_address_of_the_copy_and_no_other() {
        let copy = copy(0, vec![0x0807_0605_0403_0201, 0x100f_0e0d_0c0b_0a09]);
        assert_eq!(copy.read(BEGIN), Some(0x0807_0605_0403_0201));
        assert_eq!(copy.read(BEGIN + 3), Some(0x0b0a_0908_0706_0504));
        assert_eq!(copy.read(BEGIN + 8), Some(0x100f_0e0d_0c0b_0a09));
        for address in [BEGIN - 1, BEGIN + 9, BEGIN + 16, 0, u64::MAX] {
            assert_eq!(copy.read(address), None, "{address:#x}");
        }
        assert!(copy.is_above(BEGIN + 16) && !copy.is_above(BEGIN - 8) && !copy.is_above(BEGIN));
    }

    /// Returns the code of this program's unwind table: the table, and the addresses of the program.
    fn own() -> (UnwindTable, std::ops::Range<u64>) {
        let file = ElfFile::open(Path::new("/proc/self/exe")).unwrap();
        let code = file.segments.iter().find(|it| it.is_code).unwrap();
        let range = code.address..code.address + code.bytes;
        (UnwindTable::read(&file, &Arc::default()).unwrap(), range)
    }

    #[test]
    fn instructions_of_this_program_have_rules_with_and_without_the_index_of_its_table() {
        let (table, range) = own();
        let mut context = UnwindContext::new();
        let without = table.without_index();
        let (mut found, all) = (0, 2000);
        for at in 0..all {
            let address = range.start + (range.end - range.start) / all * at;
            let rule = table.rule(address, &mut context);
            assert_eq!(rule, without.rule(address, &mut context), "{address:#x}");
            found += u64::from(rule.is_some_and(|rule| !rule.registers.is_empty()));
        }
        assert!(found > all * 8 / 10, "{found} of {all} addresses have rules");
    }

    /// Unwinds a stack whose code all has one rule. Returns what was found, and the steps that expressions took.
    fn by_table(copy: &StackCopy, table: UnwindTable) -> (UnwoundStack, u32) {
        let (table, mut unwinder) = (Arc::new(table), Unwinder::default());
        let found = unwinder.unwind(copy, &mut |_| TableAt::Table(Arc::clone(&table), 1, 0x1000));
        (found, copy.steps() - unwinder.steps_left)
    }

    /// Returns the instructions of a rule whose frame's address is the value of an expression, as is the caller's code.
    fn rule_of(frame: &[u8], code: &[u8]) -> Vec<u8> {
        let expression = |begin: &[u8], it: &[u8]| {
            [begin, &[it.len() as u8 & 0x7f | 0x80, (it.len() >> 7) as u8], it].concat()
        };
        [expression(&[0x0f], frame), expression(&[0x16, RETURN as u8], code)].concat()
    }

    #[test]
    fn malicious_expressions_take_steps_in_proportion_to_the_recorded_words() {
        const NOP: u8 = 0x96;
        // Register 7 and 8, which is above; and 0x2000.
        let (up, code) = (&[0x77, 8][..], &[0x0b, 0, 0x20][..]);
        let (found, steps) =
            by_table(&copy(0, vec![0; 8]), UnwindTable::of_rule(&rule_of(up, code), false));
        assert_eq!(found.addresses.len(), FRAMES_MIN + 8);
        assert_eq!((found.end, steps), (StackEnd::Cut, 72 * 5));
        // As many steps as it has bytes, whichever way it jumps; more are none.
        let back = [0x2f, 0xfd, 0xff];
        let (found, steps) =
            by_table(&copy(0, vec![0; 8]), UnwindTable::of_rule(&rule_of(&back, code), false));
        assert_eq!((found.addresses.len(), found.end, steps), (1, StackEnd::Unknown, 3));
        let long = [up, &[NOP; 300]].concat();
        let (found, steps) =
            by_table(&copy(0, vec![0; 8]), UnwindTable::of_rule(&rule_of(&long, code), false));
        assert_eq!((found.addresses.len(), found.end, steps), (1, StackEnd::Unknown, STEPS_MAX));
        // All of a stack take a number that its words give, also where a signal may have a stack of its own.
        let long = [up, &[NOP; 250]].concat();
        for (words, is_signal) in [(0, false), (1, true), (100, false), (1000, true), (8192, true)]
        {
            let stack = copy(0, vec![0; words]);
            let table = UnwindTable::of_rule(&rule_of(&long, code), is_signal);
            let (found, steps) = by_table(&stack, table);
            let most = STACK_STEPS + words as u32 * WORD_STEPS;
            assert!(steps <= most && steps > most - 300, "{words} words: {steps} of {most} steps");
            assert!(found.addresses.len() <= FRAMES_MIN + words, "{words} words");
            assert_eq!(found.end, StackEnd::Unknown, "{words} words");
        }
    }

    #[test]
    fn malicious_tables_give_no_rule_or_any_but_end() {
        let (table, range) = own();
        let mut random = Random::from_seed(0x5eed);
        let mut next = move || random.next();
        let budget = Arc::new(Budget::default());
        let memory: Vec<u64> = (0..256).map(|at| range.start + at * 16).collect();
        let stack = copy(BEGIN + 64, memory);
        for turn in 0..40 {
            let damaged = Arc::new(table.damaged(&mut next, &budget));
            let mut unwinder = Unwinder::default();
            for _ in 0..20 {
                let place = range.start + next() % (range.end - range.start);
                let mut at = |_| TableAt::Table(Arc::clone(&damaged), 1, place);
                let found = unwinder.unwind(&stack, &mut at);
                assert!(found.addresses.len() <= FRAMES_MAX, "turn {turn}");
            }
        }
    }
}
