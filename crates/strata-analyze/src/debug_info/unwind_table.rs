//! The unwind table of a file (`.eh_frame`): how the registers of a function's caller are found, for each instruction.
//! Compilers write it for exceptions, also for functions that keep no frame pointer.
//!
//! The table is in a file that a trace names, and may be anything. What one look-up may cost is bounded, and a table that
//! makes no sense gives no rules.

use std::sync::{Arc, OnceLock};

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameHdr, EhFrameOffset, Encoding, EndianSlice,
    Format, FrameDescriptionEntry, LittleEndian, RegisterRule, UnwindContext, UnwindExpression,
    UnwindSection as _,
};

use super::elf::{ElfFile, Section, Segment};
use super::lookup_limits::{size, Budget, Charge};

/// The largest table that is read, and the largest index \[byte\].
const TABLE_MAX: u64 = 256 << 20;
/// The most bytes of instructions of one function.
const ENTRY_MAX: usize = 64 << 10;
/// The memory of an entry of an index that is made here \[byte\].
const ENTRY_BYTES: u64 = 16;

/// Number of the register with the return address, and of all registers (DWARF's numbers for x86-64).
pub(super) const RETURN: usize = 16;
pub(super) const REGISTERS: usize = 17;
/// Number of the stack pointer and of the frame pointer.
pub(super) const STACK_POINTER: usize = 7;
pub(super) const FRAME_POINTER: usize = 6;

type Slice<'t> = EndianSlice<'t, LittleEndian>;

/// What expressions of the tables are encoded in.
pub(super) const ENCODING: Encoding =
    Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };

/// The address of a frame, from which the rules of its registers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameAddress {
    /// The value of a register and a distance.
    Register(u8, i64),
    Expression(UnwindExpression<usize>),
}

/// The caller's value of a register. `frame` is the frame's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallersValue {
    /// Memory at `frame` plus a distance.
    At(i64),
    /// `frame` plus a distance.
    Value(i64),
    /// Another register's value.
    Register(u8),
    /// Memory at an expression's value.
    AtExpression(UnwindExpression<usize>),
    Expression(UnwindExpression<usize>),
}

/// How the caller's registers are found at one instruction. Registers that are not listed are unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrameRule {
    pub frame: FrameAddress,
    pub registers: Box<[(u8, CallersValue)]>,
    /// True if the function has no caller.
    pub is_outermost: bool,
    /// True if the function is the kernel's return from a signal: the caller was interrupted, and has not called.
    pub is_signal: bool,
}

/// A part of a file, and its address in memory relative to the object's.
#[derive(Debug, Default)]
struct Part {
    bytes: Vec<u8>,
    address: u64,
}

/// The unwind table of a file.
#[derive(Debug)]
pub(super) struct UnwindTable {
    table: Part,
    /// The file's own index of the table; empty if it has none.
    index: Part,
    /// The begins of all functions and the places of their entries, if the file has no index.
    made: OnceLock<Vec<(u64, usize)>>,
    segments: Vec<Segment>,
    budget: Arc<Budget>,
    _charge: Charge,
}

impl UnwindTable {
    /// Reads the table of a file; `None` if it has none, or one that is too large.
    pub fn read(file: &ElfFile, budget: &Arc<Budget>) -> Option<UnwindTable> {
        if !file.is_64_little() {
            return None;
        }
        let mut charge = Charge::new(budget);
        let mut read = |address: u64, offset: u64, bytes: u64| {
            if bytes > TABLE_MAX || file.check(offset, bytes).is_err() || !charge.add(bytes) {
                let path = file.path.display();
                budget.remark(format!(
                    "{path}: its unwind table has {}, and there is no room for it: calls in it are not unwound",
                    size(bytes)
                ));
                return None;
            }
            Some(Part { bytes: file.read(offset, bytes, TABLE_MAX).ok()?, address })
        };
        let segment = file.unwind_index;
        let index = segment.and_then(|it| read(it.address, it.offset, it.bytes));
        let index = index.unwrap_or_default();
        let of_section = |it: &Section| (it.address, it.offset, it.bytes);
        let (address, offset, bytes) = match file.section(".eh_frame") {
            Some(section) => of_section(section),
            // A file without sections: up to the end of the segment.
            None => {
                let at = header(&index).and_then(|it| it.eh_frame_ptr().direct().ok())?;
                let mut segments = file.segments.iter();
                let around = segments.find(|it| it.address <= at && at - it.address < it.bytes)?;
                let behind = at - around.address;
                (at, around.offset.checked_add(behind)?, around.bytes - behind)
            }
        };
        let table = read(address, offset, bytes)?;
        Some(UnwindTable {
            table,
            index,
            made: OnceLock::new(),
            segments: file.segments.clone(),
            budget: Arc::clone(budget),
            _charge: charge,
        })
    }

    /// Returns the address in the file of an offset in it.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let has = |it: &&Segment| it.offset <= offset && offset - it.offset < it.bytes;
        let code = self.segments.iter().filter(|it| it.is_code).find(has);
        code.or_else(|| self.segments.iter().find(has)).map(|it| it.address + (offset - it.offset))
    }

    fn section(&self) -> EhFrame<Slice<'_>> {
        let mut section = EhFrame::new(&self.table.bytes, LittleEndian);
        section.set_address_size(8);
        section
    }

    fn bases(&self) -> BaseAddresses {
        BaseAddresses::default()
            .set_eh_frame(self.table.address)
            .set_eh_frame_hdr(self.index.address)
    }

    /// Returns an expression of a rule.
    pub fn expression(&self, of: &UnwindExpression<usize>) -> Option<gimli::Expression<Slice<'_>>> {
        of.get(&self.section()).ok()
    }

    fn entry<'t>(
        &self,
        section: &EhFrame<Slice<'t>>,
        address: u64,
    ) -> Option<FrameDescriptionEntry<Slice<'t>>> {
        let bases = self.bases();
        let cie = |section: &EhFrame<Slice<'t>>, bases: &BaseAddresses, offset: EhFrameOffset| {
            section.cie_from_offset(bases, offset)
        };
        if let Some(header) = header(&self.index) {
            if let Some(table) = header.table() {
                // A pointer of an index counts from the table in the same file, or the index is wrong.
                let found = table.lookup(address, &bases).ok()?;
                let at = found.direct().ok()?.checked_sub(self.table.address)?;
                let at = EhFrameOffset(usize::try_from(at).ok()?);
                let found = section.fde_from_offset(&bases, at, cie).ok()?;
                return Some(found).filter(|it| it.contains(address));
            }
        }
        let made = self.made.get_or_init(|| self.make_index(section));
        let behind = made.partition_point(|(begin, _)| *begin <= address);
        let (_, at) = made.get(behind.checked_sub(1)?)?;
        let found = section.fde_from_offset(&bases, EhFrameOffset(*at), cie).ok()?;
        Some(found).filter(|it| it.contains(address))
    }

    /// Lists all entries by the begins of their functions. Entries after the first damaged one are not among them.
    fn make_index(&self, section: &EhFrame<Slice<'_>>) -> Vec<(u64, usize)> {
        let (bases, mut all) = (self.bases(), Vec::new());
        let mut entries = section.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            if !self.budget.steps(1 + ENTRY_BYTES) {
                break;
            }
            let Ok(entry) = partial.parse(EhFrame::cie_from_offset) else { continue };
            all.push((entry.initial_address(), entry.offset()));
        }
        all.sort_unstable();
        all
    }

    /// Returns the rule at an address in the file; `None` if the table has none.
    pub fn rule(&self, address: u64, context: &mut UnwindContext<usize>) -> Option<FrameRule> {
        let section = self.section();
        let entry = self.entry(&section, address)?;
        let bytes = entry.entry_len().saturating_add(entry.cie().entry_len());
        let is_known = entry.cie().return_address_register().0 == RETURN as u16;
        if bytes > ENTRY_MAX || !is_known || !self.budget.steps(1 + bytes as u64) {
            return None;
        }
        let bases = self.bases();
        let row = entry.unwind_info_for_address(&section, &bases, context, address).ok()?;
        let frame = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                FrameAddress::Register(number(register.0)?, *offset)
            }
            CfaRule::Expression(expression) => FrameAddress::Expression(*expression),
        };
        let mut registers = Vec::new();
        let mut has_caller = false;
        for (register, rule) in row.registers() {
            let Some(register) = number(register.0) else { continue };
            let value = match rule {
                RegisterRule::Offset(distance) => CallersValue::At(*distance),
                RegisterRule::ValOffset(distance) => CallersValue::Value(*distance),
                RegisterRule::Register(other) => CallersValue::Register(number(other.0)?),
                RegisterRule::Expression(it) => CallersValue::AtExpression(*it),
                RegisterRule::ValExpression(it) => CallersValue::Expression(*it),
                _ => continue,
            };
            has_caller |= usize::from(register) == RETURN;
            registers.push((register, value));
        }
        Some(FrameRule {
            frame,
            registers: registers.into(),
            is_outermost: !has_caller,
            is_signal: entry.is_signal_trampoline(),
        })
    }
}

/// Returns a register that is followed.
fn number(register: u16) -> Option<u8> {
    u8::try_from(register).ok().filter(|it| usize::from(*it) < REGISTERS)
}

fn header(index: &Part) -> Option<gimli::ParsedEhFrameHdr<Slice<'_>>> {
    if index.bytes.is_empty() {
        return None;
    }
    let bases = BaseAddresses::default().set_eh_frame_hdr(index.address);
    EhFrameHdr::new(&index.bytes, LittleEndian).parse(&bases, 8).ok()
}

#[cfg(test)]
impl UnwindTable {
    /// Returns the same table without the file's own index.
    pub fn without_index(&self) -> UnwindTable {
        self.copied(
            &self.budget,
            Part { bytes: self.table.bytes.clone(), ..self.table },
            Part::default(),
        )
    }

    /// Returns the table with a few bytes of it and of its index replaced by those of `next`.
    pub fn damaged(&self, next: &mut dyn FnMut() -> u64, budget: &Arc<Budget>) -> UnwindTable {
        let mut parts = [&self.table, &self.index].map(|part| {
            // The begin of a table is enough, and cheap to copy.
            let end = part.bytes.len().min(256 << 10);
            Part { bytes: part.bytes[..end].to_vec(), address: part.address }
        });
        for part in &mut parts {
            let share = 1 << (next() % 12);
            for _ in 0..part.bytes.len() / share / 8 {
                let at = next() as usize % part.bytes.len();
                part.bytes[at] = next() as u8;
            }
        }
        let [table, index] = parts;
        let index = if next() % 2 == 0 { index } else { Part::default() };
        self.copied(budget, table, index)
    }

    fn copied(&self, budget: &Arc<Budget>, table: Part, index: Part) -> UnwindTable {
        UnwindTable {
            table,
            index,
            made: OnceLock::new(),
            segments: self.segments.clone(),
            budget: Arc::clone(budget),
            _charge: Charge::new(budget),
        }
    }
}
