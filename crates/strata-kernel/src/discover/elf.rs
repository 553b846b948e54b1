//! Reads ELF files: finds where in the file the code of a symbol or an address lies.
//!
//! Probes of programs are attached to offsets in files, and users name functions. [`Elf`] leads from one to the other:
//!
//! ```text
//! path or name ── find.rs ── Elf::open ──┬─ symbol("handle", 0) ─▶ CodePlace { address, offset }
//!                                        ├─ address(0x4011d0)   ─▶ CodePlace
//!                                        ├─ matching("tcp_*")   ─▶ several
//!                                        └─ functions(), notes() (of USDT probes), named_code() (functions and their ends)
//! ```
//!
//! Addresses are those that `nm` and `objdump` print, before the file is loaded anywhere. If the file is stripped, its
//! separate debug file is used for names, found by build id in /usr/lib/debug. A Go program has a table of its functions
//! even when it is stripped (`go.rs`).
//!
//! # Hostile files
//! Files come from anybody, while the reader may be root. `binary.rs` opens regular files only, and never waits for a
//! lease or a pipe. `bounded_reader.rs` reads each piece once and a limited number of bytes in all. Nothing in a file is
//! believed: sizes, counts and offsets are compared with limits, and contradictions are [`ElfError::Damaged`], which
//! names the file and what is wrong. `tests.rs` compares the result with `nm` and `readelf`, and opens files that claim
//! to be huge.
//!
//! An [`Elf`] keeps its file open: the kernel attaches a probe by path, and [`Binary`] makes sure that this is still the
//! same file.

mod binary;
mod bounded_reader;
mod error;
mod find;
mod go;
#[cfg(test)]
pub(crate) mod tests;

pub use binary::Binary;
pub(crate) use error::similar_list;
pub use error::{ElfError, ListedAddresses};
pub use find::{find, find_name};
pub(crate) use go::GoFunctions;

use crate::arch;
use bounded_reader::Bounded;
use go::GoPlaces;
use object::elf::{self, FileHeader64, ProgramHeader64, Sym64};
use object::read::elf::{
    FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym, VersionTable,
};
use object::read::{ReadRef, SymbolIndex};
use object::LittleEndian;
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

const LITTLE: LittleEndian = LittleEndian;

type ElfHeader = FileHeader64<LittleEndian>;
type ElfData<'data> = &'data Bounded;

/// The most entries of symbol tables that are read: a browser with all of its symbols has some 2 million.
const SYMBOLS_MAX: usize = 4 << 20;
/// Types of sections that have the names of functions.
const SYMBOL_TABLES: [u32; 2] = [elf::SHT_SYMTAB, elf::SHT_DYNSYM];
/// The most notes that are read.
const NOTES_MAX: usize = 1 << 20;
/// The most segments of a program: linkers make some ten.
const SEGMENTS_MAX: usize = 1024;
/// The most sections whose names have the same prefix.
const NAMED_ALIKE_MAX: usize = 64;
/// The most bytes of the names of all sections with the same prefix \[byte\].
const NAMES_MAX: usize = 256 << 20;

/// An ELF program or library for this machine. Only the parts that are needed are read, each once.
pub struct Elf {
    binary: Binary,
    data: Bounded,
    /// The separate debug file with the symbols, if there is one.
    debug: Option<Box<Elf>>,
    /// The address of each name, or `None` for a name with several addresses. Filled when it is first needed.
    addresses: OnceCell<HashMap<Box<[u8]>, Option<u64>>>,
}

/// The place of a byte of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodePlace {
    /// The address that `nm` and `objdump` print, before the file is loaded anywhere.
    pub address: u64,
    /// Offset in the file \[byte\].
    pub offset: u64,
}

/// A function with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedCode<'data> {
    pub(crate) start: u64,
    /// The address after the last byte; `start` if the file does not have the function's size.
    pub(crate) end: u64,
    pub(crate) name: &'data [u8],
}

/// A symbol that the file defines.
struct Symbol<'data> {
    name: &'data [u8],
    version: Option<&'data [u8]>,
    /// True for the version that a program linked today gets; false for `name@version`, which only old programs get.
    is_default: bool,
    kind: u8,
    is_local: bool,
    address: u64,
    size: u64,
}

/// The content of a symbol table.
#[derive(Default)]
struct ElfSymbols<'data> {
    defined: Vec<Symbol<'data>>,
    /// Names of symbols that the file uses and another file defines.
    imported: Vec<&'data [u8]>,
    /// Total size of the names \[byte\].
    name_bytes: usize,
    /// Number of read entries of all tables, also of those that are left out.
    looked_at: usize,
    /// True if there is a `.symtab`, here or in the debug file, so that functions that are not exported have names.
    is_full: bool,
}

impl std::fmt::Debug for Elf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Elf").field("binary", &self.binary).finish_non_exhaustive()
    }
}

impl Elf {
    /// Opens a program or library.
    ///
    /// # Errors
    /// The file cannot be read, or is no ELF program or library for this machine.
    pub fn open(path: &Path) -> Result<Elf, ElfError> {
        let mut elf = Elf::open_any(path)?;
        let header = elf.header()?;
        if !matches!(header.e_type(LITTLE), elf::ET_EXEC | elf::ET_DYN) {
            let kind = header.e_type(LITTLE);
            return Err(ElfError::Kind { path: elf.path().into(), kind: kind_name(kind) });
        }
        if !elf.has_symtab()? {
            elf.debug = elf.open_debug().map(Box::new);
        }
        Ok(elf)
    }

    /// Opens a file that may have nothing but debug information.
    fn open_any(path: &Path) -> Result<Elf, ElfError> {
        let binary = Binary::open(path)?;
        let elf = Elf {
            data: Bounded::new(binary.reader()),
            binary,
            debug: None,
            addresses: OnceCell::new(),
        };
        elf.check_ident()?;
        Ok(elf)
    }

    fn check_ident(&self) -> Result<(), ElfError> {
        let path = || self.path().to_owned();
        let begins = (&self.data).read_bytes_at(0, 20).unwrap_or_default();
        if begins.get(..4) != Some(&elf::ELFMAG) {
            let all = (&self.data).read_bytes_at(0, 2).unwrap_or_default();
            return Err(ElfError::NotElf { path: path(), is_script: all == b"#!" });
        }
        let machine = match begins.get(18..20) {
            Some(&[low, high]) => u16::from_le_bytes([low, high]),
            _ => return Err(ElfError::NotElf { path: path(), is_script: false }),
        };
        let is_64 = begins.get(4..6) == Some(&[elf::ELFCLASS64, elf::ELFDATA2LSB]);
        if !is_64 || arch::here_or_any().elf != machine {
            return Err(ElfError::Machine { path: path(), machine: machine_name(machine, is_64) });
        }
        self.header().map(|_| ())
    }

    /// Opens the separate debug file, where the distribution's packages install it; `None` if there is none.
    fn open_debug(&self) -> Option<Elf> {
        let id = self.build_id()?;
        let (first, rest) = id.split_first()?;
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = format!("/usr/lib/debug/.build-id/{first:02x}/{rest}.debug");
        Elf::open_any(Path::new(&path)).ok()
    }

    fn build_id(&self) -> Option<Vec<u8>> {
        let sections = self.sections().ok()?;
        let mut left = NOTES_MAX;
        for section in sections.iter() {
            let Ok(Some(mut notes)) = section.notes(LITTLE, &self.data) else {
                continue;
            };
            while let Ok(Some(note)) = notes.next() {
                left = left.checked_sub(1)?;
                let is_id =
                    note.name() == elf::ELF_NOTE_GNU && note.n_type(LITTLE) == elf::NT_GNU_BUILD_ID;
                if is_id && (2..=64).contains(&note.desc().len()) {
                    return Some(note.desc().to_vec());
                }
            }
        }
        None
    }

    /// Returns the file, which stays open as long as a copy of the result exists.
    pub fn binary(&self) -> &Binary {
        &self.binary
    }

    pub fn path(&self) -> &Path {
        self.binary.path()
    }

    fn damaged(&self, what: impl std::fmt::Display) -> ElfError {
        let path = self.path().into();
        if self.data.is_exhausted() {
            return ElfError::Large {
                path,
                what: "bytes of tables",
                limit: bounded_reader::BYTES_MAX,
            };
        }
        ElfError::Damaged { path, what: what.to_string() }
    }

    fn large(&self, what: &'static str, limit: usize) -> ElfError {
        ElfError::Large { path: self.path().into(), what, limit: limit as u64 }
    }

    fn header(&self) -> Result<&ElfHeader, ElfError> {
        ElfHeader::parse(&self.data).map_err(|error| self.damaged(error))
    }

    fn segments(&self) -> Result<&[ProgramHeader64<LittleEndian>], ElfError> {
        let all = self.header()?.program_headers(LITTLE, &self.data);
        let all = all.map_err(|error| self.damaged(error))?;
        match all.len() > SEGMENTS_MAX {
            true => Err(self.large("program headers", SEGMENTS_MAX)),
            false => Ok(all),
        }
    }

    fn sections(&self) -> Result<SectionTable<'_, ElfHeader, ElfData<'_>>, ElfError> {
        self.header()?.sections(LITTLE, &self.data).map_err(|error| self.damaged(error))
    }

    fn has_symtab(&self) -> Result<bool, ElfError> {
        Ok(self.sections()?.iter().any(|section| section.sh_type(LITTLE) == elf::SHT_SYMTAB))
    }

    /// Returns whether the file is always loaded at the addresses that it has itself.
    pub(crate) fn is_fixed(&self) -> bool {
        self.header().is_ok_and(|header| header.e_type(LITTLE) == elf::ET_EXEC)
    }

    /// Returns address and bytes of the section with this name.
    pub(crate) fn section(&self, name: &str) -> Result<Option<(u64, &[u8])>, ElfError> {
        let sections = self.sections()?;
        let Some((_, section)) = sections.section_by_name(LITTLE, name.as_bytes()) else {
            return Ok(None);
        };
        let bytes = section.data(LITTLE, &self.data).map_err(|error| self.damaged(error))?;
        Ok(Some((section.sh_addr(LITTLE), bytes)))
    }

    /// Returns all notes of this name and kind.
    pub(crate) fn notes(&self, name: &[u8], kind: u32) -> Result<Vec<&[u8]>, ElfError> {
        let (mut all, mut looked_at) = (Vec::new(), 0);
        for section in self.sections()?.iter() {
            let notes = section.notes(LITTLE, &self.data).map_err(|error| self.damaged(error))?;
            let Some(mut notes) = notes else { continue };
            while let Some(note) = notes.next().map_err(|error| self.damaged(error))? {
                // Several sections may have the same bytes.
                looked_at += 1;
                if looked_at > NOTES_MAX {
                    return Err(self.large("notes", NOTES_MAX));
                }
                if note.name() == name && note.n_type(LITTLE) == kind {
                    all.push(note.desc());
                }
            }
        }
        Ok(all)
    }

    /// Returns the offset in the file of the byte at this address, if it is in a segment with all of these flags.
    pub(crate) fn file_offset(&self, address: u64, flags: u32) -> Result<Option<u64>, ElfError> {
        Ok(self.segments()?.iter().find_map(|segment| {
            let inside = address.checked_sub(segment.p_vaddr(LITTLE))?;
            let is_it = segment.p_type(LITTLE) == elf::PT_LOAD
                && segment.p_flags(LITTLE) & flags == flags
                && inside < segment.p_filesz(LITTLE);
            is_it.then(|| segment.p_offset(LITTLE).checked_add(inside)).flatten()
        }))
    }

    /// Returns whether the Go compiler made some of the code.
    pub fn is_go(&self) -> bool {
        self.go_functions(None).is_some()
    }

    /// Returns the functions of Go; `None` if the file is no Go program. `text` is the address of the symbol
    /// `runtime.text`.
    fn go_functions(&self, text: Option<u64>) -> Option<GoFunctions<'_>> {
        let section = |name| self.section(name).ok().flatten();
        let read = |(at, table): (u64, _)| {
            let places = GoPlaces {
                text: text.or_else(|| self.relocated(at.checked_add(go::TEXT_AT)?)),
                section: section(".text").map(|(address, _)| address),
                entry: self.entry_address(),
                module: section(".go.module").and_then(|(at, bytes)| self.go_module(at, bytes)),
            };
            GoFunctions::read(table, &places)
        };
        let table = section(".gopclntab").or_else(|| section(".data.rel.ro.gopclntab"));
        if let Some(table) = table {
            return Some(read(table));
        }
        section(".go.buildinfo")?;
        // A linker of C puts it among others.
        let (at, bytes) = section(".data.rel.ro").unwrap_or_default();
        let tables =
            go::tables_within(bytes).map(|(behind, table)| (at.wrapping_add(behind), table));
        let read = tables.map(read).find(GoFunctions::is_known);
        Some(read.unwrap_or_default())
    }

    /// Returns the address that a relocation writes to `at`, in a file that may be loaded anywhere.
    fn relocated(&self, at: u64) -> Option<u64> {
        const BYTES: usize = size_of::<u64>();
        let (_, all) = self.section(".rela.dyn").ok().flatten()?;
        let wanted = [at, elf::R_X86_64_RELATIVE.into()];
        all.chunks_exact(3 * BYTES).find_map(|one| {
            let mut words = one.chunks_exact(BYTES).filter_map(|word| word.first_chunk());
            let mut word = || words.next().map(|word| u64::from_le_bytes(*word));
            let found = [word()?, word()?];
            (found == wanted).then(word).flatten()
        })
    }

    /// Reads the addresses of Go's code and tables from the section `.go.module`.
    fn go_module(&self, address: u64, bytes: &[u8]) -> Option<(u64, u64)> {
        go::module(|index| {
            let at = usize::try_from(8 * index).ok()?;
            let written = u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
            match written {
                0 => self.relocated(address.checked_add(8 * index)?),
                written => Some(written),
            }
        })
    }

    /// Returns all functions that have names, sorted by address, and the functions of a Go program.
    ///
    /// # Errors
    /// [`ElfError::Damaged`], [`ElfError::Large`].
    pub(crate) fn named_code(
        &self,
    ) -> Result<(Vec<NamedCode<'_>>, Option<GoFunctions<'_>>), ElfError> {
        let symbols = self.symbols()?.defined;
        let text = symbols.iter().find(|one| one.name == b"runtime.text").map(|one| one.address);
        let is_function =
            |symbol: &&Symbol<'_>| matches!(symbol.kind, elf::STT_FUNC | elf::STT_GNU_IFUNC);
        let mut functions: Vec<_> = symbols
            .iter()
            .filter(is_function)
            .map(|symbol| NamedCode {
                start: symbol.address,
                end: symbol.address.saturating_add(symbol.size),
                name: symbol.name,
            })
            .collect();
        functions.sort_unstable_by_key(|one| (one.start, one.end, one.name));
        functions.dedup();
        Ok((functions, self.go_functions(text)))
    }

    /// Returns the entry address of the program.
    fn entry_address(&self) -> Option<u64> {
        self.header().ok().map(|header| header.e_entry(LITTLE))
    }

    /// Returns the address ranges of sections whose names begin with `prefix`.
    pub(crate) fn sections_with_prefix(
        &self,
        prefix: &str,
    ) -> Result<Vec<std::ops::Range<u64>>, ElfError> {
        let sections = self.sections()?;
        let named = sections.iter().filter(|section| {
            sections
                .section_name(LITTLE, section)
                .is_ok_and(|name| name.starts_with(prefix.as_bytes()))
        });
        let ranges = named.map(|section| {
            let start = section.sh_addr(LITTLE);
            start..start.saturating_add(section.sh_size(LITTLE))
        });
        Ok(ranges.take(NAMED_ALIKE_MAX).collect())
    }

    /// Returns bytes of the program's memory that are all in one segment of the file.
    pub(crate) fn data_at(&self, address: u64, bytes: u64) -> Option<&[u8]> {
        let last = address.checked_add(bytes.checked_sub(1)?)?;
        let first = self.file_offset(address, 0).ok()??;
        let last = self.file_offset(last, 0).ok()??;
        let is_whole = last.checked_sub(first) == Some(bytes - 1);
        (&self.data).read_bytes_at(first, bytes).ok().filter(|_| is_whole)
    }

    /// Returns the bytes in this range of addresses; `None` if they are not all in one segment of code.
    pub(crate) fn code(&self, range: &std::ops::Range<u64>) -> Result<Option<&[u8]>, ElfError> {
        let Some(bytes) = range.end.checked_sub(range.start).filter(|bytes| *bytes > 0) else {
            return Ok(None);
        };
        let first = self.file_offset(range.start, elf::PF_X)?;
        let last = self.file_offset(range.end - 1, elf::PF_X)?;
        match (first, last) {
            (Some(first), Some(last)) if last.checked_sub(first) == Some(bytes - 1) => {
                let read = (&self.data).read_bytes_at(first, bytes);
                read.map(Some).map_err(|()| self.damaged("its code cannot be read"))
            }
            _ => Ok(None),
        }
    }

    /// Returns the place of the code at this address.
    ///
    /// # Errors
    /// There is no code at that address.
    pub fn address(&self, address: u64) -> Result<CodePlace, ElfError> {
        match self.file_offset(address, elf::PF_X)? {
            Some(offset) => Ok(CodePlace { address, offset }),
            None => Err(ElfError::NoCode { path: self.path().into(), address }),
        }
    }

    /// Returns the place of a function, or of the byte at offset `behind` in it. `wanted` may end with `@VERSION`.
    ///
    /// # Errors
    /// No symbol has the name, or it is no function, or several functions have it, or the function ends before the
    /// offset.
    pub fn symbol(&self, wanted: &str, behind: u64) -> Result<CodePlace, ElfError> {
        let symbols = self.symbols()?;
        let symbol = symbols.function(self.path(), wanted)?;
        if behind > 0 && behind >= symbol.size {
            let (path, symbol, size) = (self.path().to_owned(), wanted.to_owned(), symbol.size);
            return Err(ElfError::Beyond { path, symbol, size, behind });
        }
        self.address(symbol.address.wrapping_add(behind))
    }

    /// Returns the address of the variable or function with this name, if only one has it.
    pub(crate) fn any_symbol(&self, name: &str) -> Result<Option<u64>, ElfError> {
        if self.addresses.get().is_none() {
            let mut addresses: HashMap<Box<[u8]>, Option<u64>> = HashMap::new();
            for symbol in self.symbols()?.defined {
                let found = addresses.entry(symbol.name.into()).or_insert(Some(symbol.address));
                *found = found.filter(|address| *address == symbol.address);
            }
            let _ = self.addresses.set(addresses);
        }
        Ok(self.addresses.get().and_then(|all| all.get(name.as_bytes()).copied()).flatten())
    }

    /// Returns the names of all functions that can be probed, sorted.
    ///
    /// # Errors
    /// [`ElfError::Damaged`].
    pub fn functions(&self) -> Result<Vec<String>, ElfError> {
        let symbols = self.symbols()?;
        let names: BTreeSet<String> = symbols.functions().map(String::from).collect();
        Ok(names.into_iter().collect())
    }

    /// Returns the functions that this file defines for all files of a process. A loader uses those of the program
    /// before those of preloaded libraries.
    ///
    /// # Errors
    /// [`ElfError::Damaged`], [`ElfError::Large`].
    pub fn exported_functions(&self) -> Result<BTreeSet<String>, ElfError> {
        let mut all = ElfSymbols::default();
        self.add_symbols(&mut all, &[elf::SHT_DYNSYM])?;
        let is_function =
            |kind| matches!(kind, elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_NOTYPE);
        let exported = all.defined.iter().filter(|one| !one.is_local && is_function(one.kind));
        let names = exported.filter_map(|one| std::str::from_utf8(one.name).ok());
        Ok(names.map(String::from).collect())
    }

    /// Returns whether a function has exactly this name.
    pub(crate) fn has_function(&self, name: &str) -> bool {
        self.symbols().is_ok_and(|symbols| symbols.functions().any(|known| known == name))
    }

    /// Returns the functions with the wanted names, also those that cannot be probed.
    ///
    /// # Errors
    /// [`ElfError::Damaged`].
    pub(crate) fn matching(
        &self,
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Matching<'_>, ElfError> {
        let mut symbols = self.symbols()?;
        symbols.defined.retain(|symbol| is_wanted(symbol.name));
        let is_function =
            |symbol: &&Symbol<'_>| matches!(symbol.kind, elf::STT_FUNC | elf::STT_GNU_IFUNC);
        let functions = symbols.defined.iter().filter(is_function);
        let names = functions.filter_map(|symbol| std::str::from_utf8(symbol.name).ok());
        let names = names.map(str::to_owned).collect();
        Ok(Matching { elf: self, symbols, names })
    }

    fn symbols(&self) -> Result<ElfSymbols<'_>, ElfError> {
        let mut all = ElfSymbols::default();
        self.add_symbols(&mut all, &SYMBOL_TABLES)?;
        if let Some(debug) = &self.debug {
            // It is none of the program: what is wrong with it takes no more away than its names.
            let _ = debug.add_symbols(&mut all, &SYMBOL_TABLES);
        }
        if !all.is_full {
            self.add_go_functions(&mut all);
        }
        Ok(all)
    }

    /// Adds the functions of a Go program, whose table has their names even when the file is stripped.
    fn add_go_functions<'data>(&'data self, all: &mut ElfSymbols<'data>) {
        let Some(go) = self.go_functions(None) else { return };
        all.is_full |= go.is_known();
        all.defined.extend(go.all().iter().map(|one| Symbol {
            name: one.name,
            version: None,
            is_default: true,
            kind: elf::STT_FUNC,
            is_local: true,
            address: one.start,
            size: one.end - one.start,
        }));
    }

    /// Adds the symbols of all tables whose section has one of these types.
    fn add_symbols<'data>(
        &'data self,
        all: &mut ElfSymbols<'data>,
        kinds: &[u32],
    ) -> Result<(), ElfError> {
        let damaged = |error| self.damaged(error);
        let sections = self.sections()?;
        let versions = sections.versions(LITTLE, &self.data).map_err(damaged)?;
        for section in sections.iter() {
            let kind = section.sh_type(LITTLE);
            if !kinds.contains(&kind) {
                continue;
            }
            all.is_full |= kind == elf::SHT_SYMTAB;
            let symbols = section.data_as_array(LITTLE, &self.data).map_err(damaged)?;
            let strings = sections.section(section.link(LITTLE)).map_err(damaged)?;
            let strings = strings.data(LITTLE, &self.data).map_err(damaged)?;
            let versions = versions.as_ref().filter(|_| kind == elf::SHT_DYNSYM);
            let what = add_table(all, symbols, strings, versions);
            what.map_err(|(what, limit)| {
                let (path, limit) = (self.path().into(), limit as u64);
                ElfError::Large { path, what, limit }
            })?;
        }
        Ok(())
    }
}

/// The functions of a file whose names match.
pub(crate) struct Matching<'data> {
    elf: &'data Elf,
    /// A view of a symbol table that has only the matching symbols.
    symbols: ElfSymbols<'data>,
    names: BTreeSet<String>,
}

impl Matching<'_> {
    /// Returns the matching names, sorted.
    pub(crate) fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// Returns the place of one of the matching functions.
    ///
    /// # Errors
    /// The reason why the function cannot be probed.
    pub(crate) fn place(&self, name: &str) -> Result<CodePlace, ElfError> {
        let symbol = self.symbols.function(self.elf.path(), name)?;
        self.elf.address(symbol.address)
    }
}

fn add_table<'data>(
    all: &mut ElfSymbols<'data>,
    symbols: &'data [Sym64<LittleEndian>],
    strings: &'data [u8],
    versions: Option<&VersionTable<'data, ElfHeader>>,
) -> Result<(), (&'static str, usize)> {
    // Several tables may have the same bytes.
    all.looked_at = all.looked_at.saturating_add(symbols.len());
    if all.looked_at > SYMBOLS_MAX {
        return Err(("symbols", SYMBOLS_MAX));
    }
    for (index, symbol) in symbols.iter().enumerate() {
        let Some(text) = strings.get(symbol.st_name(LITTLE) as usize..) else {
            continue;
        };
        let Some(text) = text.split(|byte| *byte == 0).next().filter(|text| !text.is_empty())
        else {
            continue;
        };
        all.name_bytes += text.len();
        if all.name_bytes > NAMES_MAX {
            return Err(("bytes of symbols' names", NAMES_MAX));
        }
        let (name, mut version, mut is_default) = split_version(text);
        if symbol.st_shndx(LITTLE) == elf::SHN_UNDEF {
            all.imported.push(name);
            continue;
        }
        let kind = symbol.st_type();
        if matches!(kind, elf::STT_SECTION | elf::STT_FILE | elf::STT_TLS) {
            continue;
        }
        if let Some(versions) = versions {
            let index = versions.version_index(LITTLE, SymbolIndex(index));
            is_default = !index.is_hidden();
            version = versions.version(index).ok().flatten().map(|version| version.name());
        }
        all.defined.push(Symbol {
            name,
            version,
            is_default,
            kind,
            is_local: symbol.st_bind() == elf::STB_LOCAL,
            address: symbol.st_value(LITTLE),
            size: symbol.st_size(LITTLE),
        });
    }
    Ok(())
}

/// Splits a name and its version; the result is true for the default version. `name@@version` is the default one,
/// `name@version` is not.
fn split_version(text: &[u8]) -> (&[u8], Option<&[u8]>, bool) {
    let Some(at) = text.iter().position(|byte| *byte == b'@').filter(|at| *at > 0) else {
        return (text, None, true);
    };
    let (name, version) = text.split_at(at);
    match version.strip_prefix(b"@@") {
        Some(version) => (name, Some(version), true),
        None => (name, version.get(1..), false),
    }
}

impl<'data> ElfSymbols<'data> {
    /// Returns the names of functions, in no order.
    fn functions(&self) -> impl Iterator<Item = &'data str> + '_ {
        let functions = self.defined.iter().filter(|symbol| symbol.kind == elf::STT_FUNC);
        functions.filter_map(|symbol| std::str::from_utf8(symbol.name).ok())
    }

    fn function(&self, path: &Path, wanted: &str) -> Result<&Symbol<'data>, ElfError> {
        let (name, version, _) = split_version(wanted.as_bytes());
        let mut found: Vec<&Symbol<'_>> = self
            .defined
            .iter()
            .filter(|symbol| symbol.name == name)
            .filter(|symbol| version.is_none() || symbol.version == version)
            .collect();
        let (path, symbol) = (path.to_owned(), wanted.to_owned());
        if found.is_empty() {
            return Err(self.missing(path, symbol));
        }
        if found.iter().any(|symbol| symbol.kind == elf::STT_GNU_IFUNC) {
            let similar = self.like(&symbol, false);
            return Err(ElfError::Indirect { path, symbol, similar });
        }
        found.retain(|symbol| matches!(symbol.kind, elf::STT_FUNC | elf::STT_NOTYPE));
        if found.is_empty() {
            return Err(ElfError::Variable { path, symbol });
        }
        prefer(&mut found, |symbol| symbol.kind == elf::STT_FUNC);
        prefer(&mut found, |symbol| symbol.is_default);
        prefer(&mut found, |symbol| !symbol.is_local);
        let addresses: BTreeSet<u64> = found.iter().map(|symbol| symbol.address).collect();
        if addresses.len() > 1 {
            let addresses = ListedAddresses(addresses.into_iter().collect());
            return Err(ElfError::Ambiguous { path, symbol, addresses });
        }
        // The tables may disagree on the size of one.
        let largest = found.into_iter().max_by_key(|symbol| symbol.size);
        largest.ok_or(ElfError::Variable { path, symbol })
    }

    fn missing(&self, path: PathBuf, symbol: String) -> ElfError {
        let (name, version, _) = split_version(symbol.as_bytes());
        if version.is_some() && self.defined.iter().any(|symbol| symbol.name == name) {
            let same = self.defined.iter().filter(|symbol| symbol.name == name);
            let versions: BTreeSet<&[u8]> = same.filter_map(|symbol| symbol.version).collect();
            let versions = versions.into_iter().map(|one| String::from_utf8_lossy(one).into());
            return ElfError::NoVersion { path, symbol, versions: versions.collect() };
        }
        if self.imported.contains(&name) {
            return ElfError::Imported { path, symbol };
        }
        let similar = self.like(&symbol, true);
        ElfError::NoSymbol { path, symbol, similar, is_full: self.is_full }
    }

    /// Returns functions whose names contain `wanted`, and with `with_slips` also similar names.
    fn like(&self, wanted: &str, with_slips: bool) -> Vec<String> {
        let (name, _, _) = split_version(wanted.as_bytes());
        let name = String::from_utf8_lossy(name);
        strata_filter::similar_or_longer(&name, self.functions(), with_slips)
    }
}

/// Keeps only the symbols that meet the condition, if there are any.
fn prefer<'a, 'data>(
    found: &mut Vec<&'a Symbol<'data>>,
    is_preferred: impl Fn(&Symbol<'data>) -> bool,
) {
    if found.iter().any(|symbol| is_preferred(symbol)) {
        found.retain(|symbol| is_preferred(symbol));
    }
}

fn kind_name(kind: u16) -> String {
    match kind {
        elf::ET_REL => "an object file, not linked yet".into(),
        elf::ET_CORE => "a core dump".into(),
        other => format!("an ELF file of type {other}"),
    }
}

fn machine_name(machine: u16, is_64: bool) -> String {
    match machine {
        elf::EM_386 => "32-bit x86".into(),
        elf::EM_X86_64 if !is_64 => "x32".into(),
        elf::EM_AARCH64 => "arm64".into(),
        elf::EM_ARM => "32-bit ARM".into(),
        elf::EM_RISCV => "RISC-V".into(),
        elf::EM_S390 => "s390".into(),
        elf::EM_PPC64 => "POWER".into(),
        elf::EM_BPF => "BPF".into(),
        other => format!("machine {other}"),
    }
}
