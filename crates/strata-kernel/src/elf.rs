//! ELF files: where in the file the code of a symbol or an address lies.
//!
//! Files come from anybody: nothing in one is believed, and what does not fit together is
//! [`ElfError::Damaged`].

mod binary;
mod bounded;
mod error;
mod find;
#[cfg(test)]
pub(crate) mod tests;

pub use binary::Binary;
pub(crate) use error::similar_list;
pub use error::{ElfError, ListedAddresses};
pub use find::find;

use bounded::Bounded;
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

/// Symbols with a name that are looked at: a browser with all of its symbols has some 2 million.
const SYMBOLS_MAX: usize = 8 << 20;
/// All of their names \[byte\].
const NAMES_MAX: usize = 256 << 20;

/// An ELF program or library for x86-64. Only what is needed of it is read, and once.
pub struct Elf {
    binary: Binary,
    data: Bounded,
    /// Its symbols, where they are in a file of their own.
    debug: Option<Box<Elf>>,
    /// Of each name, where it has but one: made when one is asked for.
    addresses: OnceCell<HashMap<Box<[u8]>, Option<u64>>>,
}

/// Where code lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodePlace {
    /// As `nm` and `objdump` print it, before the file is loaded anywhere.
    pub address: u64,
    /// In the file \[byte\].
    pub offset: u64,
}

/// One symbol that has a definition.
struct Symbol<'data> {
    name: &'data [u8],
    version: Option<&'data [u8]>,
    /// What a program that is linked today gets; false: `name@version`, for programs of old.
    is_default: bool,
    kind: u8,
    is_local: bool,
    address: u64,
    size: u64,
}

/// What a symbol table holds.
struct ElfSymbols<'data> {
    defined: Vec<Symbol<'data>>,
    /// Names that another file defines.
    imported: Vec<&'data [u8]>,
    /// Of the names \[byte\].
    name_bytes: usize,
    /// There is a `.symtab`, here or in the debug file: functions that are not exported have names.
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
    /// It cannot be read, or is no ELF program or library for x86-64.
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

    /// Also one that holds nothing but debug information.
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
        if !is_64 || machine != elf::EM_X86_64 {
            return Err(ElfError::Machine { path: path(), machine: machine_name(machine, is_64) });
        }
        self.header().map(|_| ())
    }

    /// The separate debug information that the distribution's packages install.
    fn open_debug(&self) -> Option<Elf> {
        let id = self.build_id()?;
        let (first, rest) = id.split_first()?;
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = format!("/usr/lib/debug/.build-id/{first:02x}/{rest}.debug");
        Elf::open_any(Path::new(&path)).ok()
    }

    fn build_id(&self) -> Option<Vec<u8>> {
        let sections = self.sections().ok()?;
        for section in sections.iter() {
            let Ok(Some(mut notes)) = section.notes(LITTLE, &self.data) else {
                continue;
            };
            while let Ok(Some(note)) = notes.next() {
                let is_id =
                    note.name() == elf::ELF_NOTE_GNU && note.n_type(LITTLE) == elf::NT_GNU_BUILD_ID;
                if is_id && (2..=64).contains(&note.desc().len()) {
                    return Some(note.desc().to_vec());
                }
            }
        }
        None
    }

    /// The file, as long as somebody holds it.
    pub fn binary(&self) -> &Binary {
        &self.binary
    }

    /// The file's name.
    pub fn path(&self) -> &Path {
        self.binary.path()
    }

    fn damaged(&self, what: impl std::fmt::Display) -> ElfError {
        let path = self.path().into();
        if self.data.is_exhausted() {
            return ElfError::Large { path, what: "bytes of tables", limit: bounded::BYTES_MAX };
        }
        ElfError::Damaged { path, what: what.to_string() }
    }

    fn header(&self) -> Result<&ElfHeader, ElfError> {
        ElfHeader::parse(&self.data).map_err(|error| self.damaged(error))
    }

    fn segments(&self) -> Result<&[ProgramHeader64<LittleEndian>], ElfError> {
        self.header()?.program_headers(LITTLE, &self.data).map_err(|error| self.damaged(error))
    }

    fn sections(&self) -> Result<SectionTable<'_, ElfHeader, ElfData<'_>>, ElfError> {
        self.header()?.sections(LITTLE, &self.data).map_err(|error| self.damaged(error))
    }

    fn has_symtab(&self) -> Result<bool, ElfError> {
        Ok(self.sections()?.iter().any(|section| section.sh_type(LITTLE) == elf::SHT_SYMTAB))
    }

    /// Whether addresses are those of the running program: it is loaded nowhere else.
    pub(crate) fn is_fixed(&self) -> bool {
        self.header().is_ok_and(|header| header.e_type(LITTLE) == elf::ET_EXEC)
    }

    /// The section of that name: its address and its bytes.
    pub(crate) fn section(&self, name: &str) -> Result<Option<(u64, &[u8])>, ElfError> {
        let sections = self.sections()?;
        let Some((_, section)) = sections.section_by_name(LITTLE, name.as_bytes()) else {
            return Ok(None);
        };
        let bytes = section.data(LITTLE, &self.data).map_err(|error| self.damaged(error))?;
        Ok(Some((section.sh_addr(LITTLE), bytes)))
    }

    /// All notes of this name and kind.
    pub(crate) fn notes(&self, name: &[u8], kind: u32) -> Result<Vec<&[u8]>, ElfError> {
        let mut all = Vec::new();
        for section in self.sections()?.iter() {
            let notes = section.notes(LITTLE, &self.data).map_err(|error| self.damaged(error))?;
            let Some(mut notes) = notes else { continue };
            while let Some(note) = notes.next().map_err(|error| self.damaged(error))? {
                if note.name() == name && note.n_type(LITTLE) == kind {
                    all.push(note.desc());
                }
            }
        }
        Ok(all)
    }

    /// Where in the file the byte of that address lies, in a segment with all of these flags.
    pub(crate) fn file_offset(&self, address: u64, flags: u32) -> Result<Option<u64>, ElfError> {
        Ok(self.segments()?.iter().find_map(|segment| {
            let inside = address.checked_sub(segment.p_vaddr(LITTLE))?;
            let is_it = segment.p_type(LITTLE) == elf::PT_LOAD
                && segment.p_flags(LITTLE) & flags == flags
                && inside < segment.p_filesz(LITTLE);
            is_it.then(|| segment.p_offset(LITTLE).checked_add(inside)).flatten()
        }))
    }

    /// Where the code of that address is.
    ///
    /// # Errors
    /// There is no code at that address.
    pub fn address(&self, address: u64) -> Result<CodePlace, ElfError> {
        match self.file_offset(address, elf::PF_X)? {
            Some(offset) => Ok(CodePlace { address, offset }),
            None => Err(ElfError::NoCode { path: self.path().into(), address }),
        }
    }

    /// Where a function is, or a byte so many behind its first. `wanted` may end with `@VERSION`.
    ///
    /// # Errors
    /// There is no such symbol, or it is no function, or several, or ends before.
    pub fn symbol(&self, wanted: &str, behind: u64) -> Result<CodePlace, ElfError> {
        let symbols = self.symbols()?;
        let symbol = symbols.function(self.path(), wanted)?;
        if behind > 0 && behind >= symbol.size {
            let (path, symbol, size) = (self.path().to_owned(), wanted.to_owned(), symbol.size);
            return Err(ElfError::Beyond { path, symbol, size, behind });
        }
        self.address(symbol.address.wrapping_add(behind))
    }

    /// The address of a variable or function of that name, where there is just one.
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

    /// The names of all functions that can be probed, sorted.
    ///
    /// # Errors
    /// [`ElfError::Damaged`].
    pub fn functions(&self) -> Result<Vec<String>, ElfError> {
        let symbols = self.symbols()?;
        let names: BTreeSet<String> = symbols.functions().map(String::from).collect();
        Ok(names.into_iter().collect())
    }

    /// The functions whose names are wanted, also those that cannot be probed.
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
        let mut all =
            ElfSymbols { defined: vec![], imported: vec![], name_bytes: 0, is_full: false };
        self.add_symbols(&mut all)?;
        if let Some(debug) = &self.debug {
            // It is none of the program: what is wrong with it takes no more away than its names.
            let _ = debug.add_symbols(&mut all);
        }
        Ok(all)
    }

    fn add_symbols<'data>(&'data self, all: &mut ElfSymbols<'data>) -> Result<(), ElfError> {
        let damaged = |error| self.damaged(error);
        let sections = self.sections()?;
        let versions = sections.versions(LITTLE, &self.data).map_err(damaged)?;
        for section in sections.iter() {
            let kind = section.sh_type(LITTLE);
            if !matches!(kind, elf::SHT_SYMTAB | elf::SHT_DYNSYM) {
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

/// Some functions of a file.
pub(crate) struct Matching<'data> {
    elf: &'data Elf,
    /// These and no others.
    symbols: ElfSymbols<'data>,
    names: BTreeSet<String>,
}

impl Matching<'_> {
    /// Their names, sorted.
    pub(crate) fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// Where one of them is.
    ///
    /// # Errors
    /// Why it cannot be probed.
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
        if all.defined.len() + all.imported.len() >= SYMBOLS_MAX {
            return Err(("symbols", SYMBOLS_MAX));
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

/// `name@@version` is the default one, `name@version` is not.
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
    /// Names of functions, in no order.
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

    /// Functions whose names are much the same, or contain it.
    fn like(&self, wanted: &str, with_slips: bool) -> Vec<String> {
        let (name, _, _) = split_version(wanted.as_bytes());
        let name = String::from_utf8_lossy(name);
        crate::uprobe::similar(&name, self.functions(), with_slips)
    }
}

/// Only these, if there are any.
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
