//! Parts of units of debug information that compilers put into files of their own (`-gsplit-dwarf`): one file for each
//! unit (`NAME.dwo`), or one for all units of a program (`PROGRAM.dwp`). The program has the unit's addresses and lines;
//! such a file has its functions and inlined calls.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gimli::{
    DebugAddrBase, DebugCuIndex, DebugRngListsBase, IndexSectionId, RunTimeEndian, SectionId,
};

use super::compressed_sections;
use super::elf::ElfFile;
use super::lookup_limits::{Budget, Charge, BYTES_MAX};
use super::traced_path::here;

/// The most files of units that are opened for one program.
const FILES: usize = 1 << 12;
/// The steps for opening a file.
const OPEN_STEPS: u64 = 1 << 12;

/// The addresses and ranges in a program that the other part of a unit refers to.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnitBases {
    pub low: u64,
    pub addresses: DebugAddrBase<usize>,
    pub ranges: DebugRngListsBase<usize>,
}

/// A unit's reference to its other part.
#[derive(Clone, Debug)]
pub(super) struct SplitLink {
    /// The name of the file, and the folder in which the compiler ran.
    pub name: Vec<u8>,
    pub folder: Vec<u8>,
    /// The number that both parts have.
    pub id: u64,
    pub bases: UnitBases,
}

/// A unit's other part: a file, and where its sections have the part.
#[derive(Debug)]
pub(super) struct SplitPart {
    file: Arc<ElfFile>,
    /// The offset and size of the part in each section; `None` if the file has no other unit.
    places: Option<Vec<(IndexSectionId, u32, u32)>>,
    /// The texts that all parts in the file share.
    strings: Option<Arc<Vec<u8>>>,
}

/// A file with the parts of many units.
#[derive(Debug)]
struct Package {
    file: Arc<ElfFile>,
    index: Vec<u8>,
    strings: Arc<Vec<u8>>,
    _charge: Charge,
}

/// The files with the other parts of a program's units.
#[derive(Debug)]
pub(super) struct SplitFiles {
    program: PathBuf,
    prefix: Option<PathBuf>,
    folder: Option<PathBuf>,
    endian: RunTimeEndian,
    budget: Arc<Budget>,
    /// The package, once it was looked for, and the number of other files that were.
    found: Mutex<(Option<Option<Package>>, usize)>,
}

impl SplitFiles {
    /// Returns the files of the program at `program`, a path of this machine. `prefix` is the root folder of the traced
    /// system, and `folder` that of debug information, if the user has named them.
    pub fn new(
        program: &Path,
        prefix: Option<&Path>,
        folder: Option<&Path>,
        endian: RunTimeEndian,
        budget: &Arc<Budget>,
    ) -> SplitFiles {
        SplitFiles {
            program: program.to_owned(),
            prefix: prefix.map(Path::to_owned),
            folder: folder.map(Path::to_owned),
            endian,
            budget: Arc::clone(budget),
            found: Mutex::default(),
        }
    }

    /// Finds the other part of a unit: in the package beside the program, or else in the file that the unit names.
    pub fn find(&self, link: &SplitLink) -> Option<SplitPart> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let (package, others) = &mut *found;
        let package = package.get_or_insert_with(|| self.open_package());
        if let Some(part) = package.as_ref().and_then(|package| self.in_package(package, link.id)) {
            return Some(part);
        }
        if *others >= FILES || !self.budget.steps(OPEN_STEPS) {
            self.remark(link, "too many such files were looked for");
            return None;
        }
        *others += 1;
        let file = self.places(link).into_iter().find_map(|path| ElfFile::open(&path).ok());
        if file.is_none() {
            self.remark(link, "the file is not there");
        }
        Some(SplitPart { file: Arc::new(file?), places: None, strings: None })
    }

    /// Keeps a remark on a part that cannot be read.
    pub fn remark(&self, link: &SplitLink, why: &str) {
        self.budget.remark(format!(
            "{}: a part of its debug information is in {}, and is not used: {why}. Inlined functions have no names there",
            self.program.display(),
            String::from_utf8_lossy(&link.name)
        ));
    }

    /// Returns the paths at which a unit's file may be: where the compiler has written it, beside the program, and in the
    /// folder of debug information.
    fn places(&self, link: &SplitLink) -> Vec<PathBuf> {
        let [name, folder] = [&link.name, &link.folder].map(|it| Path::new(OsStr::from_bytes(it)));
        let written = here(self.prefix.as_deref(), &folder.join(name));
        let mut places: Vec<PathBuf> = written.into_iter().collect();
        if let Some(name) = name.file_name() {
            places.extend(self.program.parent().map(|beside| beside.join(name)));
            places.extend(self.folder.as_ref().map(|folder| folder.join(name)));
        }
        places
    }

    fn open_package(&self) -> Option<Package> {
        let mut path = self.program.clone().into_os_string();
        path.push(".dwp");
        let name = Path::new(&path).file_name().map(PathBuf::from)?;
        let mut places = vec![PathBuf::from(path)];
        places.extend(self.folder.as_ref().map(|folder| folder.join(name)));
        let file = places.into_iter().find_map(|path| ElfFile::open(&path).ok())?;
        let mut charge = Charge::new(&self.budget);
        let mut read = |name: &str| match compressed_sections::read(&file, name, &mut charge) {
            Ok(section) => Some(section),
            Err(why) => {
                self.budget.remark(format!("{}: {why}: not used", file.path.display()));
                None
            }
        };
        let index = read(SectionId::DebugCuIndex.dwo_name()?)?;
        let strings = Arc::new(read(SectionId::DebugStr.dwo_name()?)?);
        Some(Package { file: Arc::new(file), index, strings, _charge: charge })
    }

    fn in_package(&self, package: &Package, id: u64) -> Option<SplitPart> {
        // Its table is searched from the place on that the number gives.
        if !self.budget.steps(package.index.len() as u64 / 64 + 1) {
            return None;
        }
        let index = DebugCuIndex::new(&package.index, self.endian).index().ok()?;
        let row = index.find(id)?;
        let places = index.sections(row).ok()?;
        let places = places.map(|it| (it.section, it.offset, it.size)).collect();
        let (file, strings) = (Arc::clone(&package.file), Arc::clone(&package.strings));
        Some(SplitPart { file, places: Some(places), strings: Some(strings) })
    }
}

impl SplitPart {
    /// Returns the path of the file.
    pub fn path(&self) -> String {
        self.file.path.display().to_string()
    }

    /// Reads what the part has of a section. The memory is added to `charge`.
    ///
    /// # Errors
    /// Why it cannot be read, for a person.
    pub fn section(&self, id: SectionId, charge: &mut Charge) -> Result<Arc<Vec<u8>>, String> {
        let Some(name) = id.dwo_name() else { return Ok(Arc::default()) };
        if let (SectionId::DebugStr, Some(strings)) = (id, &self.strings) {
            return Ok(Arc::clone(strings));
        }
        let Some(places) = &self.places else {
            return compressed_sections::read(&self.file, name, charge).map(Arc::new);
        };
        let place = places.iter().find(|(of, ..)| of.section_id() == id);
        let Some((_, offset, bytes)) = place else { return Ok(Arc::default()) };
        let (offset, bytes) = (u64::from(*offset), u64::from(*bytes));
        let section = self.file.section(name).filter(|it| !it.is_compressed);
        let Some(section) = section.filter(|it| offset.checked_add(bytes) <= Some(it.bytes)) else {
            return Err(format!(
                "its section {name} has no part that its index says, or is compressed"
            ));
        };
        if !charge.add(bytes) {
            return Err("there is no room for its debug information".to_owned());
        }
        let found = self.file.read(section.offset.saturating_add(offset), bytes, BYTES_MAX);
        found.map(Arc::new).map_err(|error| format!("its section {name} cannot be read: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malicious_names_lead_to_no_file_but_in_the_traced_system_and_beside_the_program() {
        let (program, prefix, folder) =
            (Path::new("/usr/bin/shop"), Path::new("/traced"), Path::new("/debug"));
        let endian = RunTimeEndian::Little;
        let files = SplitFiles::new(program, Some(prefix), Some(folder), endian, &Arc::default());
        let bases = UnitBases { low: 0, addresses: DebugAddrBase(0), ranges: DebugRngListsBase(0) };
        for (name, folder, wanted) in [
            ("a.dwo", "/build", &["/traced/build/a.dwo", "/usr/bin/a.dwo", "/debug/a.dwo"][..]),
            ("/x/a.dwo", "/build", &["/traced/x/a.dwo", "/usr/bin/a.dwo", "/debug/a.dwo"]),
            ("a.dwo", "build", &["/usr/bin/a.dwo", "/debug/a.dwo"]),
            ("../../etc/shadow", "/build", &["/usr/bin/shadow", "/debug/shadow"]),
            ("a.dwo", "/build/..", &["/usr/bin/a.dwo", "/debug/a.dwo"]),
            ("..", "/build", &[]),
            ("", "", &[]),
        ] {
            let [name, folder] = [name, folder].map(|it| it.as_bytes().to_vec());
            let link = SplitLink { name, folder, id: 1, bases };
            let wanted: Vec<PathBuf> = wanted.iter().map(PathBuf::from).collect();
            assert_eq!(files.places(&link), wanted, "{link:?}");
        }
    }
}
