//! The files of programs and of their debug information, each read once and shared by all lookups.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strata_text::demangled;

use super::elf::ElfFile;
use super::lines::KnownAddress;
use super::lookup_limits::Budget;
use super::stack_fields::{CodeFile, BUILD_ID};
use super::symbols::Symbols;
use super::traced_path;
use super::unwind::{StackCopy, TableAt, Unwinder};
use super::unwind_table::UnwindTable;

/// The most files of programs and libraries that are opened.
const FILES: usize = 1 << 12;
/// The folder in which Linux systems have the debug information of their packages.
const SYSTEM: &str = "/usr/lib/debug";

/// Options that say where program files and debug information are searched, and how places in the source code are
/// shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceOptions {
    /// The folder of separate debug information; `/usr/lib/debug` by default.
    pub folder: Option<PathBuf>,
    /// The root folder of the traced system on this machine.
    pub prefix: Option<PathBuf>,
    /// True to show whole paths instead of file names.
    pub full_path: bool,
    /// True to open none of the files that traces name. Places are then offsets in objects, without functions and
    /// lines.
    pub no_symbols: bool,
    /// True to show function names of C++ and Rust in the mangled form.
    pub mangled: bool,
    /// The files that were read so far, shared by all sources with these options.
    pub files: SymbolFiles,
}

/// The files whose symbols were read, with limits on time and memory for all of them. Clones share the files and the
/// limits.
#[derive(Clone, Default)]
pub struct SymbolFiles {
    found: Arc<Mutex<HashMap<CodeFile, Vec<Symbols>>>>,
    unwind: Arc<Mutex<HashMap<CodeFile, Option<Arc<UnwindTable>>>>>,
    pub(super) budget: Arc<Budget>,
}

impl std::fmt::Debug for SymbolFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SymbolFiles").finish_non_exhaustive()
    }
}

/// All values compare equal, so that options do not differ by the files that were read.
impl PartialEq for SymbolFiles {
    fn eq(&self, _: &SymbolFiles) -> bool {
        true
    }
}

impl Eq for SymbolFiles {}

impl SymbolFiles {
    /// Returns remarks on symbols that were left out because of the limits.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        self.budget.remarks()
    }

    /// Returns the function at an address of a file, and the path of its source file.
    #[must_use]
    pub fn at(&self, options: &SourceOptions, path: &Path, address: u64) -> (Vec<u8>, Vec<u8>) {
        let path = path.as_os_str().as_bytes().into();
        let file = CodeFile { path, ..CodeFile::default() };
        let (_, known) = self.find(options, &file, address, false);
        let function = known.function.map(|(name, _)| name).unwrap_or_default();
        (function, known.line.map(|(path, _)| path).unwrap_or_default())
    }

    /// Unwinds the recorded registers and words of a stack, as if all code were that of one file, loaded at the
    /// addresses in the file. Returns the addresses of the frames.
    #[must_use]
    pub fn unwound(
        &self,
        options: &SourceOptions,
        path: &Path,
        registers: &[u64],
        words: Vec<u64>,
    ) -> Vec<u64> {
        let path = path.as_os_str().as_bytes().into();
        let table = self.unwind_table(options, &CodeFile { path, ..CodeFile::default() });
        let Some(copy) = StackCopy::new(registers, words) else { return Vec::new() };
        let mut table_at = |address| match &table {
            Some(table) => TableAt::Table(Arc::clone(table), 1, address),
            None => TableAt::NoTable,
        };
        Unwinder::default().unwind(&copy, &mut table_at).addresses
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CodeFile, Vec<Symbols>>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the address of a place in a file, and its function and line. `is_offset`: true if `address` is an
    /// offset in the file.
    pub(super) fn find(
        &self,
        options: &SourceOptions,
        file: &CodeFile,
        place: u64,
        is_offset: bool,
    ) -> (u64, KnownAddress) {
        let mut known = KnownAddress::default();
        if options.no_symbols || file.path.is_empty() {
            return (place, known);
        }
        let mut all = self.lock();
        if !all.contains_key(file) && all.len() >= FILES {
            self.budget.remark(format!("{FILES} files were looked at, and no more are"));
            return (place, known);
        }
        let files = all.entry(file.clone()).or_insert_with(|| self.open(options, file));
        // What is separate from a file has its addresses, and not its content.
        let address = match is_offset {
            true => files.first().and_then(|file| file.address_of(place)).unwrap_or(place),
            false => place,
        };
        for file in files.iter_mut() {
            let found = file.find(address);
            known.function = found.function.or(known.function);
            known.line = found.line.or(known.line);
            if !found.inlined.is_empty() {
                known.inlined = found.inlined;
            }
        }
        if !options.mangled {
            let function = known.function.iter_mut().map(|(name, _)| name);
            for name in function.chain(known.inlined.iter_mut().map(|(name, _)| name)) {
                *name = demangled(name).unwrap_or_else(|| std::mem::take(name));
            }
        }
        (address, known)
    }

    /// Returns the unwind table of a file, which is read at the first request. The table is in the file itself, never
    /// in the separate file with debug information.
    pub(super) fn unwind_table(
        &self,
        options: &SourceOptions,
        file: &CodeFile,
    ) -> Option<Arc<UnwindTable>> {
        let mut all = self.unwind.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(file) {
            return known.clone();
        }
        if options.no_symbols || file.path.is_empty() || all.len() >= FILES {
            return None;
        }
        let open = || {
            let elf =
                ElfFile::open(&here(options, Path::new(OsStr::from_bytes(&file.path)))?).ok()?;
            let own = elf.build_id(BUILD_ID);
            let is_it = file.build_id.is_empty() || own.is_empty() || own[..] == file.build_id[..];
            if !is_it {
                return None;
            }
            UnwindTable::read(&elf, &self.budget).map(Arc::new)
        };
        let table = open();
        all.insert(file.clone(), table.clone());
        table
    }

    /// Opens the program's or library's own file. If that has no line numbers, also opens the file with its debug
    /// information.
    fn open(&self, options: &SourceOptions, file: &CodeFile) -> Vec<Symbols> {
        let path = Path::new(OsStr::from_bytes(&file.path));
        let is_it = |found: &Symbols| {
            file.build_id.is_empty()
                || found.build_id.is_empty()
                || found.build_id[..] == file.build_id[..]
        };
        let Some(here) = here(options, path) else { return Vec::new() };
        let own = Symbols::open(&here, &self.budget).ok().filter(is_it);
        if own.as_ref().is_some_and(Symbols::has_lines) {
            let mut own = own;
            own.iter_mut().for_each(|own| self.add_other_files(options, own));
            return own.into_iter().collect();
        }
        let separate = by_build_id(options, own.as_ref(), file)
            .and_then(|path| Symbols::open(&path, &self.budget).ok().filter(is_it));
        let separate = separate.or_else(|| {
            let linked = own.as_ref().and_then(|own| own.debug_link.clone());
            let recorded =
                Some((file.debug_link.to_vec(), None)).filter(|(name, _)| !name.is_empty());
            let (name, sum) = linked.map(|(name, sum)| (name, Some(sum))).or(recorded)?;
            let mut places =
                by_link(options, path, Path::new(OsStr::from_bytes(&name))).into_iter();
            places.find_map(|path| {
                let elf = ElfFile::open(&path).ok()?;
                let is_own = own.as_ref().is_some_and(|own| own.identity == elf.identity);
                if is_own || !self.has_sum(&elf, sum, &here) {
                    return None;
                }
                Some(Symbols::read(&elf, &self.budget)).filter(is_it)
            })
        });
        // What is in the file itself is used where nothing says more.
        let packed = match (&own, &separate) {
            (Some(own), None) => ElfFile::open(&here).ok().filter(|it| it.identity == own.identity),
            _ => None,
        };
        let packed = packed.and_then(|file| Symbols::read_packed(&file, &self.budget));
        let mut all: Vec<Symbols> = own.into_iter().chain(packed).chain(separate).collect();
        all.iter_mut().for_each(|symbols| self.add_other_files(options, symbols));
        all
    }

    /// Adds to the symbols of a file the debug information that is in other files.
    fn add_other_files(&self, options: &SourceOptions, symbols: &mut Symbols) {
        symbols.set_split_files(options.prefix.as_deref(), options.folder.as_deref());
        self.add_shared(options, symbols);
    }

    /// Adds to the symbols of a file the debug information that it shares with other files, as made by `dwz`.
    fn add_shared(&self, options: &SourceOptions, symbols: &mut Symbols) {
        let Some((path, id)) = symbols.shared_link.clone().filter(|_| symbols.has_lines()) else {
            return;
        };
        let link = Path::new(OsStr::from_bytes(&path));
        let mut places = by_shared_link(options, &symbols.path, link, &id).into_iter();
        let found = places.find_map(|path| {
            ElfFile::open(&path).ok().filter(|file| file.build_id(BUILD_ID) == id)
        });
        match found {
            Some(file) => symbols.set_shared(&file),
            None => self.budget.remark(format!(
                "{}: the file {} with debug information that it shares with others is not there, or has another build id: some \
                 inlined functions have no names",
                symbols.path.display(),
                link.display()
            )),
        }
    }

    /// Returns whether a file has the checksum `wanted`, which the program's debug link demands; true if that is
    /// `None`.
    fn has_sum(&self, elf: &ElfFile, wanted: Option<u32>, program: &Path) -> bool {
        let Some(wanted) = wanted else { return true };
        let (path, program) = (elf.path.display(), program.display());
        if elf.check(0, elf.bytes()).is_err() || !self.budget.sum(elf.bytes()) {
            self.budget.remark(format!(
                "{path}: not used, as it is too large for the checksum that {program} demands"
            ));
            return false;
        }
        let is_it = elf.checksum().is_ok_and(|sum| sum == wanted);
        if !is_it {
            self.budget.remark(format!(
                "{path}: its checksum is not {wanted:#010x}, as {program} says of its debug information: not used"
            ));
        }
        is_it
    }
}

/// Converts a path of the traced system to one on this machine. The options have the root folder of the traced
/// system.
pub(super) fn here(options: &SourceOptions, path: &Path) -> Option<PathBuf> {
    traced_path::here(options.prefix.as_deref(), path)
}

/// Returns the folder of separate debug information.
fn folder(options: &SourceOptions) -> PathBuf {
    let given = options.folder.clone();
    given.unwrap_or_else(|| here(options, Path::new(SYSTEM)).unwrap_or_default())
}

fn by_build_id(options: &SourceOptions, own: Option<&Symbols>, file: &CodeFile) -> Option<PathBuf> {
    separate(options, own.map(|own| &own.build_id[..]).unwrap_or_default(), file)
}

/// Returns the path of a file's debug information. It is found by the recorded build id, or else by that in the file.
pub(super) fn separate(
    options: &SourceOptions,
    of_file: &[u8],
    file: &CodeFile,
) -> Option<PathBuf> {
    of_id(options, if file.build_id.is_empty() { of_file } else { &file.build_id })
}

/// Returns the path of the debug information with a build id.
fn of_id(options: &SourceOptions, id: &[u8]) -> Option<PathBuf> {
    let [first, rest @ ..] = id else { return None };
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(folder(options).join(format!(".build-id/{first:02x}/{rest}.debug")))
}

/// Returns the paths at which the file of a debug link may be: beside the program, in `.debug` below it, and in the
/// folder of debug information under the program's path. If the user has named a folder, that folder itself is searched
/// as well.
fn by_link(options: &SourceOptions, path: &Path, link: &Path) -> Vec<PathBuf> {
    let is_name = link.file_name() == Some(link.as_os_str());
    let Some(beside) = path.parent().filter(|_| is_name) else { return Vec::new() };
    let near = [beside.join(link), beside.join(".debug").join(link)];
    let mut found: Vec<PathBuf> = near.iter().filter_map(|path| here(options, path)).collect();
    found.push(folder(options).join(beside.strip_prefix("/").unwrap_or(beside)).join(link));
    found.extend(options.folder.iter().map(|folder| folder.join(link)));
    found
}

/// Returns the paths at which a file with shared debug information may be: the path in the link, taken from the
/// linking file's folder or from the root, and the path for its build id.
fn by_shared_link(options: &SourceOptions, of: &Path, link: &Path, id: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if link.is_absolute() {
        let of_system = link.strip_prefix(SYSTEM).ok();
        found.extend(of_system.map(|rest| folder(options).join(rest)));
        found.extend(here(options, link));
    } else if let Some(beside) = of.parent() {
        let whole = beside.join(link).components().fold(PathBuf::new(), |mut whole, part| {
            match part {
                Component::ParentDir => {
                    whole.pop();
                }
                part => whole.push(part),
            }
            whole
        });
        // Nothing outside of the traced system and the folder of debug information is opened.
        let root = options.prefix.as_deref().unwrap_or(Path::new("/"));
        found.extend(
            Some(whole).filter(|it| it.starts_with(root) || it.starts_with(folder(options))),
        );
    }
    found.extend(of_id(options, id));
    found
}
