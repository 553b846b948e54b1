//! The unwind table of a file (`.eh_frame`): how the registers of a function's caller are found, for each instruction.
//! Compilers write it for exceptions, also for functions that keep no frame pointer.
//!
//! The table is in a file that a trace names, and may be anything. What one look-up may cost is bounded, and a table that
//! makes no sense gives no rules.

use std::sync::{Arc, OnceLock};

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, CommonInformationEntry, EhFrame, EhFrameHdr, EhFrameOffset,
    Encoding, EndianSlice, Format, FrameDescriptionEntry, LittleEndian, ParsedEhFrameHdr,
    RegisterRule, UnwindContext, UnwindExpression, UnwindSection as _,
};

use super::elf::{ElfFile, Section, Segment};
use super::lookup_limits::{size, Budget, Charge};

/// The largest unwind table that is read \[byte\].
const TABLE_MAX: u64 = 256 << 20;
/// The most bytes of instructions of one function.
const ENTRY_MAX: usize = 64 << 10;
/// The memory of one entry in an index of functions, which is built if the file has none \[byte\].
const ENTRY_BYTES: u64 = 16;
/// The least number of entries by which the built index grows.
const AT_ONCE: usize = 4096;

/// DWARF's number of the return address, in the numbering of registers for x86-64.
pub(super) const RETURN: usize = 16;
pub(super) const REGISTERS: usize = 17;
/// DWARF's number of the stack pointer.
pub(super) const STACK_POINTER: usize = 7;
pub(super) const FRAME_POINTER: usize = 6;

type Slice<'t> = EndianSlice<'t, LittleEndian>;

/// The encoding of expressions in unwind tables.
pub(super) const ENCODING: Encoding =
    Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };

/// The rule for a frame's address (the CFA), to which the rules for registers refer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameAddress {
    /// The value of a register and a distance.
    Register(u8, i64),
    Expression(UnwindExpression<usize>),
}

/// The rule for the caller's value of a register. `frame`: the frame's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallersValue {
    /// The value in memory at `frame` plus this distance.
    At(i64),
    /// The value of `frame` plus this distance.
    Value(i64),
    /// The value of another register.
    Register(u8),
    /// The value in memory at the address that an expression computes.
    AtExpression(UnwindExpression<usize>),
    Expression(UnwindExpression<usize>),
}

/// The rule by which the caller's registers are found at one instruction. Registers that are not listed are
/// unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrameRule {
    pub frame: FrameAddress,
    pub registers: Box<[(u8, CallersValue)]>,
    /// True if the function has no caller.
    pub is_outermost: bool,
    /// True if the function is the kernel's return from a signal: the caller was interrupted, and its address is not
    /// a return address.
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
    /// An index that is built if the file has none: the begin of each function, and the place of its entry.
    made: OnceLock<(Vec<(u64, usize)>, Charge)>,
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
        let segment = code.or_else(|| self.segments.iter().find(has))?;
        segment.address.checked_add(offset - segment.offset)
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

    /// Takes steps from the time budget. If none are left, keeps a remark that stacks are not unwound.
    fn steps(&self, steps: u64) -> bool {
        let is_there = self.budget.steps(steps);
        if !is_there {
            self.budget.remark(
                "the unwind tables of all files take too long: further calls are not unwound"
                    .to_owned(),
            );
        }
        is_there
    }

    /// Charges the steps of reading the entry at an offset of the table, and fails if it is too long. Call this
    /// before the entry is read, since reading searches the end of texts in it.
    fn charge(&self, at: usize) -> gimli::Result<()> {
        let head = self.table.bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
        let bytes = u32::from_le_bytes(*head.ok_or(gimli::Error::OffsetOutOfBounds)?);
        match bytes as usize <= ENTRY_MAX && self.steps(1 + u64::from(bytes)) {
            true => Ok(()),
            false => Err(gimli::Error::NoEntryAtGivenOffset),
        }
    }

    /// Reads the part (CIE) that several entries share. It is read again for each of them.
    fn shared<'t>(
        &self,
        section: &EhFrame<Slice<'t>>,
        bases: &BaseAddresses,
        at: EhFrameOffset,
    ) -> gimli::Result<CommonInformationEntry<Slice<'t>>> {
        self.charge(at.0)?;
        section.cie_from_offset(bases, at)
    }

    fn entry<'t>(
        &self,
        section: &EhFrame<Slice<'t>>,
        address: u64,
    ) -> Option<FrameDescriptionEntry<Slice<'t>>> {
        let bases = self.bases();
        let at = match header(&self.index).as_ref().and_then(ParsedEhFrameHdr::table) {
            Some(index) => {
                // A pointer of an index counts from the table in the same file, or the index is wrong.
                let found = index.lookup(address, &bases).ok()?.direct().ok()?;
                usize::try_from(found.checked_sub(self.table.address)?).ok()?
            }
            None => {
                let (made, _) = self.made.get_or_init(|| self.make_index(section));
                let behind = made.partition_point(|(begin, _)| *begin <= address);
                made.get(behind.checked_sub(1)?)?.1
            }
        };
        self.charge(at).ok()?;
        let shared = |section: &EhFrame<Slice<'t>>, bases: &BaseAddresses, at: EhFrameOffset| {
            self.shared(section, bases, at)
        };
        let found = section.fde_from_offset(&bases, EhFrameOffset(at), shared).ok()?;
        Some(found).filter(|it| it.contains(address))
    }

    /// Lists all entries by the begins of their functions. Entries after the first damaged one, or beyond the limit
    /// on memory, are missing.
    fn make_index(&self, section: &EhFrame<Slice<'_>>) -> (Vec<(u64, usize)>, Charge) {
        let (bases, mut all) = (self.bases(), Vec::new());
        let mut charge = Charge::new(&self.budget);
        let mut entries = section.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            if !self.steps(1 + ENTRY_BYTES) {
                break;
            }
            let shared = |section: &_, bases: &_, at| self.shared(section, bases, at);
            let Ok(entry) = partial.parse(shared) else { continue };
            if all.len() == all.capacity() {
                let more = (all.len() / 2).max(AT_ONCE);
                if !charge.add(more as u64 * ENTRY_BYTES) {
                    self.budget.remark(
                        "there is no room for the unwind tables of all files: some calls are not unwound"
                            .to_owned(),
                    );
                    break;
                }
                all.reserve_exact(more);
            }
            all.push((entry.initial_address(), entry.offset()));
        }
        all.sort_unstable();
        (all, charge)
    }

    /// Returns the rule at an address in the file; `None` if the table has none.
    pub fn rule(&self, address: u64, context: &mut UnwindContext<usize>) -> Option<FrameRule> {
        let section = self.section();
        let entry = self.entry(&section, address)?;
        let bytes = entry.entry_len().saturating_add(entry.cie().entry_len());
        let is_known = entry.cie().return_address_register().0 == RETURN as u16;
        if bytes > ENTRY_MAX || !is_known || !self.steps(1 + bytes as u64) {
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

/// Returns the number of a register if its value is tracked during unwinding; otherwise `None`.
fn number(register: u16) -> Option<u8> {
    u8::try_from(register).ok().filter(|it| usize::from(*it) < REGISTERS)
}

fn header(index: &Part) -> Option<ParsedEhFrameHdr<Slice<'_>>> {
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

    /// Makes a table of one function, which has all addresses up to 2^62, with these instructions.
    pub fn of_rule(instructions: &[u8], is_signal: bool) -> UnwindTable {
        let augmentation: &[u8] = if is_signal { b"zS\0" } else { b"z\0" };
        let shared = [&[0, 0, 0, 0, 1], augmentation, &[1, 0x78, RETURN as u8, 0]].concat();
        let mut all = [&(shared.len() as u32).to_le_bytes()[..], &shared].concat();
        let back = all.len() as u32 + 4;
        let range = [0, 1u64 << 62].map(u64::to_le_bytes).concat();
        let entry = [&back.to_le_bytes()[..], &range, &[0], instructions].concat();
        all.extend([&(entry.len() as u32).to_le_bytes()[..], &entry].concat());
        let budget = Arc::new(Budget::default());
        UnwindTable {
            table: Part { bytes: all, address: 0 },
            index: Part::default(),
            made: OnceLock::new(),
            segments: Vec::new(),
            _charge: Charge::new(&budget),
            budget,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a table of `entries` functions of 16 bytes, which share an entry with a text of `bytes` bytes.
    fn sharing(bytes: usize, entries: u64, steps: u64) -> UnwindTable {
        let text = [b"z".to_vec(), vec![b'S'; bytes], b"\0".to_vec()].concat();
        let shared = [&[0, 0, 0, 0, 1][..], &text, &[1, 0x78, 16, 0, 0x0c, 7, 8, 0x90, 1]].concat();
        let mut all = [&(shared.len() as u32).to_le_bytes()[..], &shared].concat();
        for at in 0..entries {
            let back = all.len() as u32 + 4;
            let words = [at * 16, 16].map(u64::to_le_bytes).concat();
            all.extend([&21u32.to_le_bytes()[..], &back.to_le_bytes(), &words, &[0]].concat());
        }
        let budget = Arc::new(Budget::of(1 << 20, steps));
        UnwindTable {
            table: Part { bytes: all, address: 0 },
            index: Part::default(),
            made: OnceLock::new(),
            segments: Vec::new(),
            _charge: Charge::new(&budget),
            budget,
        }
    }

    #[test]
    fn malicious_text_that_entries_share_costs_steps_for_each_of_them_and_is_bounded() {
        let listed = |table: &UnwindTable| table.make_index(&table.section()).0.len();
        let rule = |table: &UnwindTable| table.rule(1600, &mut UnwindContext::new());
        let table = sharing(6_000, 1000, 1 << 27);
        assert_eq!(listed(&table), 1000);
        assert!(rule(&table).is_some_and(|rule| rule.is_signal && !rule.is_outermost));
        assert!(table.budget.remarks().is_empty());
        let table = sharing(60_000, 1000, 1 << 20);
        assert!((1..20).contains(&listed(&table)));
        assert!(table.budget.remarks()[0].contains("take too long"));
        let table = sharing(ENTRY_MAX, 1000, 1 << 27);
        assert_eq!((listed(&table), rule(&table)), (0, None));
    }

    #[test]
    fn index_that_is_made_takes_no_more_memory_than_there_is() {
        let table = sharing(1, 100_000, 1 << 27);
        let (listed, charge) = table.make_index(&table.section());
        let room = listed.capacity() as u64 * ENTRY_BYTES;
        assert!((AT_ONCE..100_000).contains(&listed.len()), "{}", listed.len());
        assert!(charge.bytes() == room && room <= 1 << 20, "{} of {room}", charge.bytes());
        assert!(table.budget.remarks()[0].contains("no room"));
        drop(charge);
        assert!(Charge::new(&table.budget).add(1 << 20));
    }
}
