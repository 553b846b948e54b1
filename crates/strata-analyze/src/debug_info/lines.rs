//! Looks up functions and lines by address in debug information (DWARF).
//!
//! ```text
//! Lines::read()   once for a file: the offsets of its units, and the ranges of their code
//! Lines::find(address)
//!   ranges ─▶ unit ─▶ UnitCode, read when its unit is first asked for
//!                       functions and inlined calls: one pass over the unit's entries
//!                       rows: its line program, in sequences sorted by address
//!            ─▶ KnownAddress: function, line, and the inlined calls around, innermost first
//! ```
//!
//! What is read stays: a stack is looked up address by address, and most addresses are of few units. Names and paths
//! are read only when an address needs them. With a file that several share (`dwz`), names may be in that one:
//! `shared`.
//!
//! Nothing here is recursive, and sizes are checked before memory is used: depth, tables, rows and ranges come from a
//! file that is not trusted. All memory is charged to one budget ([`Charge`]), and so are steps, since a few bytes of
//! a file can be made to be read again and again. What is beyond a limit has no names and lines, and a remark says
//! why.
//!
//! A `Lines` is used by one thread at a time; it holds no reference to the file after `read`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use gimli::{
    constants as dw, Abbreviations, AttributeValue, DebugAddrBase, DebugInfoOffset, DebugLine,
    DebugLineOffset, DebugLocListsBase, DebugRngListsBase, DebugStrOffsetsBase, Dwarf,
    DwarfFileType, EndianSlice, IncompleteLineProgram, LineInstruction, LineRow, Reader as _,
    RunTimeEndian, Section as _, SectionId, Unit, UnitHeader, UnitOffset, UnitType,
};

use super::compressed_sections;
use super::dwarf_entries::{
    abbreviations_bytes, charge_text, read_attribute, skip_attributes, Bytes, Not, TABLE_MAX,
};
use super::elf::ElfFile;
use super::lookup_limits::{size, Budget, Charge, BYTES_MAX};
use super::split_units::{SplitFiles, SplitLink, SplitPart, UnitBases};
use super::unit_code::{
    around, push, sorted, FunctionEntry, InlinedCall, LineAt, RangeOf, Sequence, UnitCode,
};

/// The deepest nesting of entries in a unit. Compilers write some 30 levels.
pub(super) const DEPTH_MAX: usize = 256;
/// The number of tables of abbreviations of a file that are kept.
const TABLES: usize = 4;
const TABLE_MEMORY: u64 = 24;
/// The most bytes of a name, and of a path.
pub(super) const NAME_MAX: usize = 4096;
/// The size of names and paths at one address after which no further inlined calls are named \[byte\].
const INLINED_BYTES: usize = 16 << 10;
/// The number of source files whose paths are read at once.
const PATHS_AT_ONCE: u32 = 64;
/// The most attributes by which a unit may say where its code is.
const OF_CODE: usize = 8;
/// The longest chain of entries, each referring to the next one, in which a function's name is searched.
const ORIGINS: usize = 16;

/// The sections of DWARF debug information that are read.
const SECTIONS: [SectionId; 9] = [
    SectionId::DebugInfo,
    SectionId::DebugAbbrev,
    SectionId::DebugStr,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugAddr,
    SectionId::DebugStrOffsets,
];

/// The path of a source file, and a line in it.
pub(super) type SourceLine = (Vec<u8>, u32);

/// The function and line that debug information has for an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownAddress {
    pub function: Option<(Vec<u8>, u64)>,
    /// The line at the address; for inlined code, the line of the call.
    pub line: Option<SourceLine>,
    /// The functions whose code was inlined there, the innermost first, each with the line in it.
    pub inlined: Vec<(Vec<u8>, Option<SourceLine>)>,
}

/// The debug information of a file.
#[derive(Debug)]
pub(super) struct Lines {
    name: String,
    endian: RunTimeEndian,
    sections: Vec<Arc<Vec<u8>>>,
    /// The offsets of the units.
    units: Vec<usize>,
    /// The ranges of units, by their ends.
    ranges: Vec<RangeOf>,
    codes: HashMap<u32, UnitCode>,
    /// The tables of abbreviations that were used last, each with its offset.
    tables: RefCell<Vec<(usize, Arc<Abbreviations>, Charge)>>,
    /// The debug information that this file shares with others, from a separate file.
    shared: Option<Box<Lines>>,
    /// The files (`.dwo`, `.dwp`) with the split-off parts of units. Also has the parts that were read, by unit;
    /// `None` for a part that does not exist.
    split_files: Option<SplitFiles>,
    split: HashMap<u32, Option<Box<Lines>>>,
    /// If this is the split-off part of a unit: the places in the program to which the part refers.
    bases: Option<UnitBases>,
    /// True once the search took too long, so that nothing more is read.
    is_over: bool,
    charge: Charge,
    budget: Arc<Budget>,
}

/// The factor for the cost of data that a few bytes of a file can cause to be read again and again.
const AGAIN: u64 = 4;

fn text(bytes: Bytes<'_>) -> Vec<u8> {
    let bytes = bytes.slice();
    bytes[..bytes.len().min(NAME_MAX)].to_vec()
}

/// The attributes of a DWARF entry that say where its code is.
#[derive(Clone, Copy, Default)]
struct CodePlace<'l> {
    low: Option<u64>,
    high: Option<u64>,
    bytes: Option<u64>,
    list: Option<AttributeValue<Bytes<'l>>>,
}

impl<'l> CodePlace<'l> {
    fn attribute(
        &mut self,
        dwarf: &Dwarf<Bytes<'l>>,
        unit: &Unit<Bytes<'l>>,
        name: gimli::DwAt,
        value: AttributeValue<Bytes<'l>>,
    ) {
        let address = |value| dwarf.attr_address(unit, value).ok().flatten();
        match (name, value) {
            (dw::DW_AT_low_pc, value) => self.low = address(value),
            (dw::DW_AT_high_pc, AttributeValue::Udata(bytes)) => self.bytes = Some(bytes),
            (dw::DW_AT_high_pc, value) => self.high = address(value),
            (dw::DW_AT_ranges, value) => self.list = Some(value),
            _ => {}
        }
    }

    /// Calls `call` for each range of code that is not empty.
    fn each(
        &self,
        dwarf: &Dwarf<Bytes<'l>>,
        unit: &Unit<Bytes<'l>>,
        budget: &Budget,
        call: &mut dyn FnMut(u64, u64) -> Result<(), Not>,
    ) -> Result<(), Not> {
        let offset = match self.list {
            Some(value) => dwarf.attr_ranges_offset(unit, value)?,
            None => None,
        };
        if let Some(offset) = offset {
            let mut list = dwarf.ranges(unit, offset)?;
            // Entries that are no ranges, such as bases of addresses, take as long.
            while let Some(raw) = list.next_raw()? {
                if !budget.steps(AGAIN) {
                    return Err(Not::Time);
                }
                match list.convert_raw(raw)? {
                    Some(range) if range.begin < range.end => call(range.begin, range.end)?,
                    _ => {}
                }
            }
            return Ok(());
        }
        let Some(begin) = self.low else { return Ok(()) };
        let end = self.high.or_else(|| begin.checked_add(self.bytes?));
        match end.filter(|end| begin < *end) {
            Some(end) => call(begin, end),
            None => Ok(()),
        }
    }
}

/// The kind of a DWARF entry that encloses others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Around {
    Function(Option<u32>),
    Inlined(Option<(u32, u16)>),
}

impl Lines {
    /// Reads the debug information of a file. Returns `None` if the file has none, or too much.
    pub fn read(file: &ElfFile, budget: &Arc<Budget>) -> Option<Lines> {
        if !compressed_sections::has(file, SectionId::DebugInfo.name()) {
            return None;
        }
        let mut charge = Charge::new(budget);
        let mut sections = Vec::new();
        let name = file.path.display().to_string();
        for id in SECTIONS {
            match compressed_sections::read(file, id.name(), &mut charge) {
                Ok(section) => sections.push(Arc::new(section)),
                Err(why) => {
                    budget.remark(format!(
                        "{name}: {why}: its functions have the names of the table of symbols, and no lines"
                    ));
                    return None;
                }
            }
        }
        let endian = match file.is_little {
            true => RunTimeEndian::Little,
            false => RunTimeEndian::Big,
        };
        let mut lines = Lines::of(name, endian, sections, None, charge);
        if let Err(not) = lines.read_units() {
            lines.say(not);
        }
        Some(lines).filter(|lines| !lines.is_over)
    }

    /// Creates the debug information of a file, before any unit is read.
    fn of(
        name: String,
        endian: RunTimeEndian,
        sections: Vec<Arc<Vec<u8>>>,
        bases: Option<UnitBases>,
        charge: Charge,
    ) -> Lines {
        Lines {
            name,
            endian,
            sections,
            units: Vec::new(),
            ranges: Vec::new(),
            codes: HashMap::new(),
            tables: RefCell::default(),
            shared: None,
            split_files: None,
            split: HashMap::new(),
            bases,
            is_over: false,
            budget: Arc::clone(charge.budget()),
            charge,
        }
    }

    /// Sets the debug information that the file shares with others, to which its entries refer.
    pub fn set_shared(&mut self, shared: Lines) {
        self.shared = Some(Box::new(shared));
    }

    /// Sets the folders in which split-off parts of units are searched; see [`SplitFiles::new`].
    pub fn set_split_files(
        &mut self,
        program: &Path,
        prefix: Option<&Path>,
        folder: Option<&Path>,
    ) {
        let files = SplitFiles::new(program, prefix, folder, self.endian, &self.budget);
        self.split_files = Some(files);
    }

    /// Reads the split-off part of a unit, which is in another file (`.dwo`).
    fn read_split(&self, link: &SplitLink) -> Option<Lines> {
        self.split_files.as_ref()?.find(link, &|part| self.read_part(link, part))
    }

    fn read_part(&self, link: &SplitLink, part: &SplitPart) -> Result<Lines, String> {
        let mut charge = Charge::new(&self.budget);
        let mut sections = Vec::new();
        for (id, own) in SECTIONS.into_iter().zip(&self.sections) {
            sections.push(match id {
                SectionId::DebugAddr | SectionId::DebugRanges => Arc::clone(own),
                id => part.section(id, &mut charge)?,
            });
        }
        let mut lines = Lines::of(part.path(), self.endian, sections, Some(link.bases), charge);
        let unit = lines.unit_of_number(link.id);
        lines.units.push(unit.ok_or_else(|| "it is damaged, or of another build".to_owned())?);
        Ok(lines)
    }

    /// Returns the offset of the split-off part of the unit with this number.
    fn unit_of_number(&self, id: u64) -> Option<usize> {
        let dwarf = self.dwarf();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            if !self.budget.steps(8) {
                return None;
            }
            let offset = header.offset().as_debug_info_offset()?.0;
            let found = match header.type_() {
                UnitType::SplitCompilation(number) => Some(number.0),
                UnitType::Compilation => self.unit(&dwarf, offset).ok()?.split_id,
                _ => continue,
            };
            if found == Some(id) {
                return Some(offset);
            }
        }
        None
    }

    /// Keeps a remark on the reason why a lookup has no result, if the file is the cause.
    fn say(&mut self, not: Not) {
        let why = match not {
            Not::Said => return,
            Not::Shallow => {
                format!("a unit of its debug information is more than {DEPTH_MAX} entries deep")
            }
            Not::Small => format!(
                "a table in its debug information is larger than {}",
                size(TABLE_MAX)
            ),
            Not::Room => format!(
                "its debug information takes more than what is left of the {} for all files and processes",
                size(BYTES_MAX)
            ),
            Not::Long => format!(
                "the names of calls that are inlined in each other have {} and more",
                size(INLINED_BYTES as u64)
            ),
            Not::Time => "its debug information takes too long to be read".to_owned(),
        };
        self.is_over |= matches!(not, Not::Time);
        let less = match not {
            Not::Long => "the outer ones are not named",
            _ => "some of its functions have the names of the table of symbols, and no lines",
        };
        self.budget.remark(format!("{}: {why}: {less}", self.name));
    }

    fn dwarf(&self) -> Dwarf<Bytes<'_>> {
        let section = |id: SectionId| Ok::<_, gimli::Error>(self.section(id));
        // Nothing in it fails.
        let mut dwarf = Dwarf::load(section).unwrap_or_default();
        dwarf.file_type = self.file_type();
        dwarf
    }

    fn file_type(&self) -> DwarfFileType {
        if self.bases.is_some() {
            DwarfFileType::Dwo
        } else {
            DwarfFileType::Main
        }
    }

    /// Returns the table of abbreviations of a unit. The tables used last are kept, since names are looked up in few
    /// units.
    fn abbreviations<'l>(
        &'l self,
        dwarf: &Dwarf<Bytes<'l>>,
        header: &UnitHeader<Bytes<'l>>,
    ) -> Result<Arc<Abbreviations>, Not> {
        let at = header.debug_abbrev_offset().0;
        if let Some((_, table, _)) = self.tables.borrow().iter().find(|known| known.0 == at) {
            return Ok(Arc::clone(table));
        }
        // A table that is damaged or too large is not kept: each unit that has it searches for its end again.
        let (bytes, found) = abbreviations_bytes(dwarf.debug_abbrev.reader(), at);
        if !self.budget.steps(1 + AGAIN * bytes) {
            return Err(Not::Time);
        }
        found?;
        let table = Arc::new(header.abbreviations(&dwarf.debug_abbrev)?);
        let mut charge = Charge::new(&self.budget);
        if charge.add(bytes.saturating_mul(TABLE_MEMORY)) {
            let mut tables = self.tables.borrow_mut();
            if tables.len() >= TABLES {
                tables.remove(0);
            }
            tables.push((at, Arc::clone(&table), charge));
        }
        Ok(table)
    }

    /// Returns the head of the unit at this offset of the debug information.
    fn unit<'l>(&'l self, dwarf: &Dwarf<Bytes<'l>>, offset: usize) -> Result<UnitHead<'l>, Not> {
        let header = dwarf.debug_info.header_from_offset(DebugInfoOffset(offset))?;
        let abbreviations = self.abbreviations(dwarf, &header)?;
        let (encoding, kind) = (header.encoding(), self.file_type());
        let ranges_base = DebugRngListsBase::default_for_encoding_and_file(encoding, kind);
        let of_program = self.bases.filter(|_| encoding.version < 5);
        let mut unit = Unit {
            abbreviations: Arc::clone(&abbreviations),
            name: None,
            comp_dir: None,
            low_pc: 0,
            str_offsets_base: DebugStrOffsetsBase::default_for_encoding_and_file(encoding, kind),
            addr_base: self.bases.map_or(DebugAddrBase(0), |bases| bases.addresses),
            loclists_base: DebugLocListsBase(0),
            rnglists_base: of_program.map_or(ranges_base, |bases| bases.ranges),
            line_program: None,
            dwo_id: None,
            header,
        };
        let (mut name, mut folder, mut low, mut line_at) = (None, None, None, None);
        let (mut split_name, mut split_id) = (None, None);
        if let UnitType::Skeleton(id) | UnitType::SplitCompilation(id) = unit.header.type_() {
            split_id = Some(id.0);
        }
        let mut of_code = Vec::new();
        let header = unit.header;
        let mut entries = header.entries_raw(&abbreviations, None)?;
        let first = entries.read_abbreviation()?.ok_or(Not::Said)?;
        // A table that is kept costs nothing, and its attributes do: many units may share one of a million bytes.
        if !self.budget.steps(1 + AGAIN * first.attributes().len() as u64) {
            return Err(Not::Time);
        }
        for spec in first.attributes() {
            let attribute = read_attribute(&mut entries, *spec, &unit.header, &self.budget)?;
            match (attribute.name(), attribute.value()) {
                (dw::DW_AT_name, value) => name = Some(value),
                (dw::DW_AT_comp_dir, value) => folder = Some(value),
                (dw::DW_AT_stmt_list, AttributeValue::DebugLineRef(at)) => line_at = Some(at.0),
                (dw::DW_AT_dwo_name | dw::DW_AT_GNU_dwo_name, value) => split_name = Some(value),
                (dw::DW_AT_GNU_dwo_id, AttributeValue::DwoId(id)) => split_id = Some(id.0),
                (_, AttributeValue::DebugStrOffsetsBase(base)) => unit.str_offsets_base = base,
                (_, AttributeValue::DebugAddrBase(base)) => unit.addr_base = base,
                (_, AttributeValue::DebugRngListsBase(base)) => unit.rnglists_base = base,
                (at @ (dw::DW_AT_low_pc | dw::DW_AT_high_pc | dw::DW_AT_ranges), value) => {
                    low = low.or(Some(value).filter(|_| at == dw::DW_AT_low_pc));
                    if of_code.len() < OF_CODE {
                        of_code.push((at, value));
                    }
                }
                _ => {}
            }
        }
        // Those that are behind a table are found when it is known where that is.
        let string = |value| self.string(dwarf, &unit, value);
        let (name, folder) = (name.and_then(string), folder.and_then(string));
        let low = low.and_then(|value| dwarf.attr_address(&unit, value).ok().flatten());
        let split_name = split_name.and_then(string);
        let low = low.or_else(|| self.bases.map(|bases| bases.low));
        (unit.name, unit.comp_dir, unit.low_pc) = (name, folder, low.unwrap_or(0));
        let mut place = CodePlace::default();
        for (at, value) in of_code {
            place.attribute(dwarf, &unit, at, value);
        }
        Ok(UnitHead { unit, line_at, place, split_name, split_id })
    }

    /// Reads the offsets of units, and their ranges of code.
    fn read_units(&mut self) -> Result<(), Not> {
        let budget = Arc::clone(&self.budget);
        let mut charge = Charge::new(&budget);
        let (mut units, mut ranges): (Vec<usize>, Vec<RangeOf>) = (Vec::new(), Vec::new());
        let mut read = || -> Result<(), Not> {
            let dwarf = self.dwarf();
            let mut headers = dwarf.units();
            while let Ok(Some(header)) = headers.next() {
                let Some(offset) = header.offset().as_debug_info_offset() else { continue };
                let index = u32::try_from(units.len()).map_err(|_| Not::Room)?;
                push(&mut units, offset.0, &mut charge)?;
                if !budget.steps(8) {
                    return Err(Not::Time);
                }
                let has_code = matches!(
                    header.type_(),
                    UnitType::Compilation | UnitType::Skeleton(_) | UnitType::SplitCompilation(_)
                );
                let head = match self.unit(&dwarf, offset.0) {
                    Ok(head) if has_code => head,
                    Err(Not::Time) => return Err(Not::Time),
                    Ok(_) | Err(_) => continue,
                };
                let mut add = |begin, end| {
                    push(&mut ranges, RangeOf { begin, end, index, least: 0 }, &mut charge)
                };
                match head.place.each(&dwarf, &head.unit, &budget, &mut add) {
                    Ok(()) | Err(Not::Said) => {}
                    Err(not) => return Err(not),
                }
            }
            Ok(())
        };
        let found = read();
        (self.units, self.ranges) = (units, sorted(ranges));
        self.charge.join(charge);
        found
    }

    /// Returns the function and line at an address. Returns the function that was compiled there, and separately
    /// those that were inlined into it.
    pub fn find(&mut self, address: u64) -> KnownAddress {
        // What is behind the address is looked at, too.
        if self.is_over || address == u64::MAX {
            return KnownAddress::default();
        }
        let mut steps = 0;
        let units = around(&self.ranges, address, &mut steps);
        if !self.budget.steps(steps) {
            self.say(Not::Time);
        }
        for unit in units {
            if !self.codes.contains_key(&unit.index) {
                let code = self.read_code(unit.index);
                self.codes.insert(unit.index, code);
            }
            match self.find_in(unit.index, address) {
                Ok(known) if known != KnownAddress::default() => return known,
                Ok(_) => {}
                Err(not) => self.say(not),
            }
        }
        KnownAddress::default()
    }

    /// Reads the code of a unit. Parts that are too large are left out with a remark.
    fn read_code(&mut self, index: u32) -> UnitCode {
        let mut code = UnitCode::new(&self.budget);
        let offset = self.units.get(index as usize).copied().unwrap_or(usize::MAX);
        let link = match self.split_files {
            Some(_) => self.unit(&self.dwarf(), offset).ok().and_then(|head| head.split_link()),
            None => None,
        };
        if let Some(link) = link {
            self.split.insert(index, self.read_split(&link).map(Box::new));
        }
        let (functions, rows) = {
            let dwarf = self.dwarf();
            match self.unit(&dwarf, offset) {
                Ok(head) => {
                    let functions = match self.split.get(&index) {
                        Some(Some(part)) => part.read_functions_of_part(&mut code),
                        _ => self.read_functions(&dwarf, &head.unit, &mut code),
                    };
                    if functions.is_err() {
                        code.clear_functions();
                    }
                    let rows = self.read_rows(&head, &mut code);
                    if rows.is_err() {
                        (code.rows, code.sequences) = (Vec::new(), Vec::new());
                    }
                    (functions, rows)
                }
                Err(not) => (Err(not), Ok(())),
            }
        };
        [functions, rows].into_iter().filter_map(Result::err).for_each(|not| self.say(not));
        code.ranges = sorted(std::mem::take(&mut code.ranges));
        code.inlined.sort_unstable_by_key(|it| (it.function, it.begin, it.end));
        code.nested.sort_unstable_by_key(|it| (it.function, it.begin, it.end));
        code.sequences.sort_unstable_by_key(|it| it.begin);
        code
    }

    /// Reads the functions of a unit from its split-off part, which this is.
    fn read_functions_of_part(&self, code: &mut UnitCode) -> Result<(), Not> {
        let dwarf = self.dwarf();
        let head = self.unit(&dwarf, self.units.first().copied().ok_or(Not::Said)?)?;
        self.read_functions(&dwarf, &head.unit, code)
    }

    /// Reads the functions of a unit, in one pass through its entries.
    fn read_functions<'l>(
        &self,
        dwarf: &Dwarf<Bytes<'l>>,
        unit: &Unit<Bytes<'l>>,
        code: &mut UnitCode,
    ) -> Result<(), Not> {
        let UnitCode { ranges, functions, inlined, nested, charge, .. } = code;
        let mut entries = unit.entries_raw(None)?;
        let mut around: Vec<(isize, Around)> = Vec::new();
        while !entries.is_empty() {
            let (offset, depth) = (entries.next_offset(), entries.next_depth());
            if depth < 0 || depth > DEPTH_MAX as isize {
                return Err(if depth < 0 { Not::Said } else { Not::Shallow });
            }
            let abbreviation = entries.read_abbreviation()?;
            let attributes = abbreviation.map_or(&[][..], |it| it.attributes());
            if !self.budget.steps(1 + attributes.len() as u64) {
                return Err(Not::Time);
            }
            let Some(abbreviation) = abbreviation else { continue };
            while around.last().is_some_and(|(at, _)| *at >= depth) {
                around.pop();
            }
            let within = around.last().map(|(_, what)| *what);
            let is_function = abbreviation.tag() == dw::DW_TAG_subprogram;
            let caller = match (abbreviation.tag(), within) {
                (dw::DW_TAG_inlined_subroutine, Some(Around::Function(Some(caller)))) => {
                    Some((caller, 0))
                }
                (dw::DW_TAG_inlined_subroutine, Some(Around::Inlined(Some((caller, depth))))) => {
                    Some((caller, depth.saturating_add(1)))
                }
                _ => None,
            };
            if !is_function && caller.is_none() {
                if abbreviation.tag() == dw::DW_TAG_inlined_subroutine {
                    around.push((depth, Around::Inlined(None)));
                }
                skip_attributes(&mut entries, attributes, &unit.header, &self.budget)?;
                continue;
            }
            let (mut place, mut file, mut line) = (CodePlace::default(), None, 0);
            for spec in attributes {
                let attribute = read_attribute(&mut entries, *spec, &unit.header, &self.budget)?;
                match (attribute.name(), attribute.value()) {
                    (dw::DW_AT_call_file, AttributeValue::FileIndex(index)) => {
                        let is_one = index > 0 || unit.header.version() >= 5;
                        file = u32::try_from(index).ok().filter(|_| is_one);
                    }
                    (dw::DW_AT_call_line, _) => line = attribute.udata_value().unwrap_or(0),
                    (name, value) => place.attribute(dwarf, unit, name, value),
                }
            }
            if let Some((function, of_calls)) = caller {
                let (file, line) = (file.unwrap_or(u32::MAX), u32::try_from(line).unwrap_or(0));
                let (entry, list) =
                    (offset.0, if of_calls == 0 { &mut *inlined } else { &mut *nested });
                place.each(dwarf, unit, &self.budget, &mut |begin, end| {
                    let call =
                        InlinedCall { begin, end, file, line, function, depth: of_calls, entry };
                    push(list, call, charge)
                })?;
                around.push((depth, Around::Inlined(caller)));
                continue;
            }
            let index = u32::try_from(functions.len()).map_err(|_| Not::Room)?;
            let mut first = None;
            place.each(dwarf, unit, &self.budget, &mut |begin, end| {
                first = first.or(Some(begin));
                push(ranges, RangeOf { begin, end, index, least: 0 }, charge)
            })?;
            if let Some(begin) = first {
                push(functions, FunctionEntry { entry: offset.0, begin }, charge)?;
            }
            around.push((depth, Around::Function(first.map(|_| index))));
        }
        Ok(())
    }

    /// Returns the header of a unit's line program, after checking that it has the size that it declares and is not too
    /// large.
    fn line_header<'l>(
        &'l self,
        head: &UnitHead<'l>,
    ) -> Result<IncompleteLineProgram<Bytes<'l>>, Not> {
        let at = head.line_at.ok_or(Not::Said)?;
        let all = self.section(SectionId::DebugLine);
        let mut rest = all;
        rest.skip(at)?;
        let (unit_bytes, format) = rest.read_initial_length()?;
        let mut rest = rest.split(unit_bytes)?;
        if rest.read_u16()? >= 5 {
            rest.skip(2)?;
        }
        let bytes = rest.read_length(format)? as u64;
        if bytes > TABLE_MAX {
            return Err(Not::Small);
        }
        if !self.budget.steps(bytes) {
            return Err(Not::Time);
        }
        let unit = &head.unit;
        let program = DebugLine::from(all).program(
            DebugLineOffset(at),
            unit.header.address_size(),
            unit.comp_dir,
            unit.name,
        )?;
        Ok(program)
    }

    /// Reads the rows of a unit's line program.
    fn read_rows<'l>(&'l self, head: &UnitHead<'l>, code: &mut UnitCode) -> Result<(), Not> {
        let mut program = match self.line_header(head) {
            Ok(program) => program,
            Err(Not::Said) => return Ok(()),
            Err(not) => return Err(not),
        };
        let UnitCode { rows, sequences, charge, .. } = code;
        let mut instructions = program.header().instructions();
        let mut row = LineRow::new(program.header());
        let mut first = 0;
        while let Ok(Some(instruction)) = instructions.next_instruction(program.header()) {
            if !self.budget.steps(1) {
                return Err(Not::Time);
            }
            // More files than in the header are kept nowhere. Their paths are read as often as the program is.
            if let LineInstruction::DefineFile(file) = &instruction {
                if let AttributeValue::String(path) = file.path_name() {
                    charge_text(path.len() as u64, &self.budget)?;
                }
                continue;
            }
            let Ok(is_row) = row.execute(instruction, &mut program) else { break };
            if !is_row {
                continue;
            }
            let (address, is_end) = (row.address(), row.end_sequence());
            if is_end {
                if let Some(begin) = rows.get(first).map(|row| row.address) {
                    let of = rows.len() - first;
                    let sequence = Sequence { begin, end: address, first, rows: of };
                    push(sequences, sequence, charge)?;
                }
                first = rows.len();
            } else {
                let file = u32::try_from(row.file_index()).unwrap_or(u32::MAX);
                let line = row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0));
                match rows.get_mut(first..).and_then(<[LineAt]>::last_mut) {
                    Some(last) if last.address == address => (last.file, last.line) = (file, line),
                    _ => push(rows, LineAt { address, file, line }, charge)?,
                }
            }
            row.reset(program.header());
        }
        Ok(())
    }

    /// Returns the string of an attribute, cut to [`NAME_MAX`] bytes, since many attributes may refer to one very
    /// long string.
    fn string<'l>(
        &'l self,
        dwarf: &Dwarf<Bytes<'l>>,
        unit: &Unit<Bytes<'l>>,
        value: AttributeValue<Bytes<'l>>,
    ) -> Option<Bytes<'l>> {
        let strings = |lines: &'l Lines, id| lines.section(id).slice();
        let (strings, at) = match value {
            AttributeValue::String(string) => return Some(string),
            AttributeValue::DebugStrRef(at) => (strings(self, SectionId::DebugStr), at.0),
            AttributeValue::DebugStrRefSup(at) => {
                (strings(self.shared.as_deref()?, SectionId::DebugStr), at.0)
            }
            AttributeValue::DebugLineStrRef(at) => (strings(self, SectionId::DebugLineStr), at.0),
            AttributeValue::DebugStrOffsetsIndex(index) => {
                let at = dwarf.string_offset(unit, index).ok()?;
                (strings(self, SectionId::DebugStr), at.0)
            }
            _ => return None,
        };
        let rest = strings.get(at..)?;
        let part = &rest[..rest.len().min(NAME_MAX)];
        let end = part.iter().position(|byte| *byte == 0);
        // A string that the section cuts off is none.
        let end = end.or((part.len() == NAME_MAX).then_some(NAME_MAX))?;
        Some(EndianSlice::new(&part[..end], self.endian))
    }

    fn section(&self, id: SectionId) -> Bytes<'_> {
        let at = SECTIONS.iter().position(|one| *one == id);
        let bytes = at.and_then(|at| self.sections.get(at)).map_or(&[][..], |it| &it[..]);
        EndianSlice::new(bytes, self.endian)
    }

    fn find_in(&mut self, index: u32, address: u64) -> Result<KnownAddress, Not> {
        let mut known = KnownAddress::default();
        let Some(code) = self.codes.get(&index) else { return Ok(known) };
        let mut steps = 1;
        // Of several, the shortest.
        let functions = around(&code.ranges, address, &mut steps);
        let function = functions.iter().min_by_key(|it| it.end - it.begin);
        let mut place = code.line_at(address);
        let (mut entry, mut calls) = (None, Vec::new());
        if let Some(function) = function {
            entry = code.functions.get(function.index as usize).copied();
            calls = code.calls_at(function.index, address, &mut steps);
        }
        if !self.budget.steps(steps) {
            return Err(Not::Time);
        }
        if let Some(FunctionEntry { entry, begin }) = entry {
            let name = self.name(index, entry)?;
            known.function = name.map(|name| (name, address.saturating_sub(begin)));
        }
        // The innermost call has the line of the address, and what is around a call has the line of that call.
        let mut bytes = 0;
        for call in calls {
            if bytes <= INLINED_BYTES {
                let line = self.line(index, place)?;
                if let Some(name) = self.name(index, call.entry)? {
                    bytes += name.len() + line.as_ref().map_or(0, |(path, _)| path.len());
                    known.inlined.push((name, line));
                }
                if bytes > INLINED_BYTES {
                    self.say(Not::Long);
                }
            }
            place = Some((call.file, call.line));
        }
        known.line = self.line(index, place)?;
        Ok(known)
    }

    /// Returns the source file's path and the line. `place`: the number of the file in the unit, and the line.
    fn line(&mut self, index: u32, place: Option<(u32, u32)>) -> Result<Option<SourceLine>, Not> {
        let Some((file, line)) = place.filter(|(_, line)| *line > 0) else { return Ok(None) };
        let path = self.path(index, file)?;
        Ok(path.map(|path| (path.to_vec(), line)))
    }

    /// Returns the name in a function's entry, or in an entry that it refers to, which may be in the shared debug
    /// information.
    fn name(&self, index: u32, entry: usize) -> Result<Option<Vec<u8>>, Not> {
        if let Some(Some(part)) = self.split.get(&index) {
            return part.name(0, entry);
        }
        let mut lines = self;
        let mut dwarf = lines.dwarf();
        let offset = self.units.get(index as usize).copied().ok_or(Not::Said)?;
        let mut unit = self.unit(&dwarf, offset)?.unit;
        let mut entry = UnitOffset(entry);
        for _ in 0..ORIGINS {
            let (mut name, mut next) = (None, None);
            let mut entries = unit.entries_raw(Some(entry))?;
            let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(None) };
            if !self.budget.steps(1 + abbreviation.attributes().len() as u64) {
                return Err(Not::Time);
            }
            for spec in abbreviation.attributes() {
                let attribute = read_attribute(&mut entries, *spec, &unit.header, &self.budget)?;
                let value = attribute.value();
                match attribute.name() {
                    dw::DW_AT_linkage_name | dw::DW_AT_MIPS_linkage_name => {
                        if let Some(name) = lines.string(&dwarf, &unit, value) {
                            return Ok(Some(text(name)));
                        }
                    }
                    dw::DW_AT_name => name = lines.string(&dwarf, &unit, value).map(text),
                    dw::DW_AT_abstract_origin | dw::DW_AT_specification => next = Some(value),
                    _ => {}
                }
            }
            let (of, at) = match (name, next) {
                (Some(name), _) => return Ok(Some(name)),
                (None, Some(AttributeValue::UnitRef(offset))) => {
                    entry = offset;
                    continue;
                }
                (None, Some(AttributeValue::DebugInfoRef(DebugInfoOffset(at)))) => (lines, at),
                (None, Some(AttributeValue::DebugInfoRefSup(DebugInfoOffset(at)))) => {
                    let Some(shared) = lines.shared.as_deref() else { return Ok(None) };
                    (shared, at)
                }
                _ => return Ok(None),
            };
            let behind = of.units.partition_point(|begin| *begin <= at);
            let begin = behind.checked_sub(1).and_then(|index| of.units.get(index));
            let begin = *begin.ok_or(Not::Said)?;
            (lines, dwarf) = (of, of.dwarf());
            unit = lines.unit(&dwarf, begin)?.unit;
            entry = UnitOffset(at - begin);
        }
        Ok(None)
    }

    /// Returns the path of the file with this number in a unit.
    fn path(&mut self, index: u32, file: u32) -> Result<Option<Arc<[u8]>>, Not> {
        if let Some(known) = self.codes.get(&index).and_then(|code| code.paths.get(&file)) {
            return Ok(known.clone());
        }
        // To find one file, all that are before it in the table are read.
        let first = file - file % PATHS_AT_ONCE;
        let (found, failed) = match self.read_paths(index, first) {
            Ok(found) => (found, None),
            Err(Not::Said) => (Vec::new(), None),
            Err(not) => (Vec::new(), Some(not)),
        };
        let mut paths = (first..).zip(found).map(|(file, path)| (file, path.map(Arc::from)));
        let mut asked = None;
        let Some(code) = self.codes.get_mut(&index) else { return Ok(None) };
        let mut keep = |file, path: Option<Arc<[u8]>>| {
            if code.charge.add(128 + path.as_ref().map_or(0, |path| path.len() as u64)) {
                code.paths.insert(file, path);
            }
        };
        for (number, path) in &mut paths {
            match number == file {
                true => asked = path,
                false => keep(number, path),
            }
        }
        keep(file, asked.clone());
        failed.map_or(Ok(asked), Err)
    }

    /// Returns the paths of up to [`PATHS_AT_ONCE`] files of a unit, from the one with this number on; `None` for a file
    /// that is not in the unit's table.
    fn read_paths(&self, index: u32, first: u32) -> Result<Vec<Option<Vec<u8>>>, Not> {
        let dwarf = self.dwarf();
        let offset = self.units.get(index as usize).copied().ok_or(Not::Said)?;
        let head = self.unit(&dwarf, offset)?;
        let program = self.line_header(&head)?;
        let header = program.header();
        let path = |number: u32| {
            let file = header.file(number.into())?;
            let mut path = head.unit.comp_dir.map_or_else(Vec::new, text);
            let mut add = |value| {
                let part = text(self.string(&dwarf, &head.unit, value)?);
                if part.first() == Some(&b'/') {
                    path.clear();
                } else if !path.is_empty() && path.last() != Some(&b'/') {
                    path.push(b'/');
                }
                path.extend_from_slice(&part);
                path.truncate(NAME_MAX);
                Some(())
            };
            // The folder of number 0 is the unit's.
            if file.directory_index() != 0 {
                if let Some(folder) = file.directory(header) {
                    add(folder)?;
                }
            }
            add(file.path_name())?;
            Some(path)
        };
        Ok((first..first.saturating_add(PATHS_AT_ONCE)).map(path).collect())
    }
}

/// The head of a unit, with what is needed to read its entries and lines.
struct UnitHead<'l> {
    unit: Unit<Bytes<'l>>,
    line_at: Option<usize>,
    place: CodePlace<'l>,
    /// The name of the file with the unit's split-off part; `None` if the unit is not split.
    split_name: Option<Bytes<'l>>,
    split_id: Option<u64>,
}

impl UnitHead<'_> {
    /// Returns the unit's reference to its split-off part; `None` if the unit is not split.
    fn split_link(&self) -> Option<SplitLink> {
        Some(SplitLink {
            name: text(self.split_name?),
            folder: self.unit.comp_dir.map_or_else(Vec::new, text),
            id: self.split_id?,
            bases: UnitBases {
                low: self.unit.low_pc,
                addresses: self.unit.addr_base,
                ranges: self.unit.rnglists_base,
            },
        })
    }
}

#[cfg(test)]
mod tests;
