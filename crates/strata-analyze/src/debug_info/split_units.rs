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
/// The steps of the time budget that opening a file costs.
const OPEN_STEPS: u64 = 1 << 14;
const SECTION_STEPS: u64 = 64;
/// The number of bytes of a section that can be read for one step of the time budget.
const STEP_BYTES: u64 = 16;
/// The most reasons that are reported for one program.
const REASONS: usize = 4;

const LONG: &str = "reading all files takes too long";

/// The addresses and ranges in a program to which the split-off part of a unit refers.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnitBases {
    pub low: u64,
    pub addresses: DebugAddrBase<usize>,
    pub ranges: DebugRngListsBase<usize>,
}

/// The reference of a unit of debug information to its split-off part.
#[derive(Clone, Debug)]
pub(super) struct SplitLink {
    /// The name of the file with the split-off part.
    pub name: Vec<u8>,
    pub folder: Vec<u8>,
    /// The number that both parts have.
    pub id: u64,
    pub bases: UnitBases,
}

/// The part of a unit that is in another file (`.dwo`): the file, and its ranges in the sections there.
#[derive(Debug)]
pub(super) struct SplitPart {
    file: Arc<ElfFile>,
    /// The offset and size of the part in each section; `None` if the file has no other unit.
    places: Option<Vec<(IndexSectionId, u32, u32)>>,
    /// The texts that all parts in the file share.
    strings: Option<Arc<Vec<u8>>>,
}

/// A file with the parts of many units. There may be one for each program, so it is not kept open.
#[derive(Debug)]
struct Package {
    file: Arc<ElfFile>,
    index: Vec<u8>,
    strings: Arc<Vec<u8>>,
    _charge: Charge,
}

/// The files with the split-off parts of a program's units.
#[derive(Debug)]
pub(super) struct SplitFiles {
    program: PathBuf,
    prefix: Option<PathBuf>,
    folder: Option<PathBuf>,
    endian: RunTimeEndian,
    budget: Arc<Budget>,
    /// The package file, once it was searched, and the number of other files that were opened.
    found: Mutex<(Option<Option<Package>>, usize)>,
    /// The reasons that were reported for parts that cannot be read.
    told: Mutex<Vec<String>>,
}

impl SplitFiles {
    /// Prepares the search for a program's files. `program`: its path on this machine. `prefix`: root folder of the
    /// traced system; `folder`: that of debug information; both as the user has named them.
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
            told: Mutex::default(),
        }
    }

    /// Finds the other part of a unit: in the package beside the program, or else in the file that the unit names.
    /// Returns the result of `read` for the first file that it can read.
    pub fn find<T>(
        &self,
        link: &SplitLink,
        read: &dyn Fn(&SplitPart) -> Result<T, String>,
    ) -> Option<T> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let (package, others) = &mut *found;
        let package = package.get_or_insert_with(|| self.open_package());
        if let Some(part) = package.as_ref().and_then(|package| self.in_package(package, link.id)) {
            return read(&part).map_err(|why| self.remark(link, &why)).ok();
        }
        if *others >= FILES || !self.budget.steps(OPEN_STEPS) {
            self.remark(link, "too many such files were looked for");
            return None;
        }
        *others += 1;
        let mut why = "the file is not there".to_owned();
        for file in self.places(link).into_iter().filter_map(|path| ElfFile::open(&path).ok()) {
            if !self.budget.steps(file.sections.len() as u64 * SECTION_STEPS) {
                why = LONG.to_owned();
                break;
            }
            // One of another build may be in front of it.
            match read(&SplitPart { file: Arc::new(file), places: None, strings: None }) {
                Ok(found) => return Some(found),
                Err(not) => why = not,
            }
        }
        self.remark(link, &why);
        None
    }

    /// Keeps a remark on a part that cannot be read. A program may have thousands of such parts, so only the first
    /// one is reported for each reason.
    fn remark(&self, link: &SplitLink, why: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= REASONS || told.iter().any(|one| one == why) {
            return;
        }
        told.push(why.to_owned());
        self.budget.remark(format!(
            "{}: parts of its debug information, such as {}, are not used: {why}. Inlined functions have no names there",
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
        let mut file = places.into_iter().find_map(|path| ElfFile::open(&path).ok())?;
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
        file.close();
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

    /// Reads the bytes of a section that belong to this part. Their memory is added to `charge`.
    ///
    /// # Errors
    /// Why it cannot be read, for a person.
    pub fn section(&self, id: SectionId, charge: &mut Charge) -> Result<Arc<Vec<u8>>, String> {
        let Some(name) = id.dwo_name() else { return Ok(Arc::default()) };
        if let (SectionId::DebugStr, Some(strings)) = (id, &self.strings) {
            return Ok(Arc::clone(strings));
        }
        let take_time =
            |bytes: u64, charge: &Charge| match charge.budget().steps(bytes / STEP_BYTES) {
                true => Ok(()),
                false => Err(LONG.to_owned()),
            };
        let Some(places) = &self.places else {
            let found = compressed_sections::read(&self.file, name, charge)?;
            take_time(found.len() as u64, charge)?;
            return Ok(Arc::new(found));
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
        take_time(bytes, charge)?;
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
    use crate::hand_tests::Hand;
    use std::process::Command;

    #[test]
    fn malicious_names_lead_to_no_file_but_in_the_traced_system_and_beside_the_program() {
        let (program, prefix, folder) =
            (Path::new("/usr/bin/shop"), Path::new("/traced"), Path::new("/debug"));
        let endian = RunTimeEndian::Little;
        let files = SplitFiles::new(program, Some(prefix), Some(folder), endian, &Arc::default());
        for (name, folder, wanted) in [
            ("a.dwo", "/build", &["/traced/build/a.dwo", "/usr/bin/a.dwo", "/debug/a.dwo"][..]),
            ("/x/a.dwo", "/build", &["/traced/x/a.dwo", "/usr/bin/a.dwo", "/debug/a.dwo"]),
            ("a.dwo", "build", &["/usr/bin/a.dwo", "/debug/a.dwo"]),
            ("../../etc/shadow", "/build", &["/usr/bin/shadow", "/debug/shadow"]),
            ("a.dwo", "/build/..", &["/usr/bin/a.dwo", "/debug/a.dwo"]),
            ("..", "/build", &[]),
            ("", "", &[]),
        ] {
            let link = SplitLink { folder: folder.as_bytes().to_vec(), ..link(name) };
            let wanted: Vec<PathBuf> = wanted.iter().map(PathBuf::from).collect();
            assert_eq!(files.places(&link), wanted, "{link:?}");
        }
    }

    fn link(name: &str) -> SplitLink {
        let bases = UnitBases { low: 0, addresses: DebugAddrBase(0), ranges: DebugRngListsBase(0) };
        SplitLink { name: name.as_bytes().to_vec(), folder: Vec::new(), id: 1, bases }
    }

    #[test]
    fn reason_of_many_parts_is_reported_once_and_leaves_room_for_other_remarks() {
        let budget = Arc::default();
        let program = Path::new("/nothing/shop");
        let files = SplitFiles::new(program, None, None, RunTimeEndian::Little, &budget);
        for number in 0..100 {
            let read = |part: &SplitPart| Ok(part.path());
            assert_eq!(files.find(&link(&format!("{number}.dwo")), &read), None);
        }
        let remarks = budget.remarks();
        assert_eq!(remarks.len(), 1, "{remarks:?}");
        assert!(
            remarks[0].contains("such as 0.dwo, are not used: the file is not there"),
            "{remarks:?}"
        );
        (0..100).for_each(|number| files.remark(&link("a.dwo"), &number.to_string()));
        assert_eq!(budget.remarks().len(), REASONS);
    }

    #[test]
    fn malicious_parts_that_are_each_a_whole_section_cost_steps_in_proportion_to_it() {
        let hand = Hand::new();
        let [text, object] = ["unit.c", "unit.o"].map(|name| hand.0.join(name));
        std::fs::write(&text, "int twice(int number) { return 2 * number; }").unwrap();
        let options = ["-g", "-gsplit-dwarf", "-c", "-o"];
        let made = Command::new("gcc").args(options).args([&object, &text]).status();
        assert!(made.unwrap().success());
        let file = Arc::new(ElfFile::open(&hand.0.join("unit.dwo")).unwrap());
        let bytes = file.section(".debug_info.dwo").unwrap().bytes;
        let steps = bytes / STEP_BYTES;
        assert!(steps > 1, "{bytes} bytes");
        for places in [None, Some(vec![(IndexSectionId::DebugInfo, 0, bytes as u32)])] {
            let part = SplitPart { file: Arc::clone(&file), places, strings: None };
            let budget = Arc::new(Budget::of(1 << 20, 3 * steps - 1));
            let read = || part.section(SectionId::DebugInfo, &mut Charge::new(&budget));
            assert!([read(), read()].iter().all(Result::is_ok), "{part:?}");
            assert_eq!(read().unwrap_err(), LONG, "{part:?}");
        }
    }

    #[test]
    fn file_of_another_build_does_not_hide_the_one_in_the_folder_that_the_user_names() {
        let hand = Hand::new();
        // The head of a file without segments and sections.
        let head = [&b"\x7fELF\x02\x01"[..], &[0; 58]].concat();
        let [beside, folder] = ["beside", "folder"].map(|name| hand.0.join(name));
        for folder in [&beside, &folder] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("a.dwo"), &head).unwrap();
        }
        let budget = Arc::default();
        let (shop, endian) = (beside.join("shop"), RunTimeEndian::Little);
        let files = SplitFiles::new(&shop, None, Some(&folder), endian, &budget);
        let read = |of: &'static str| {
            let found = move |part: &SplitPart| match part.path() {
                path if path.contains(of) => Ok(path),
                _ => Err("of another build".to_owned()),
            };
            files.find(&link("a.dwo"), &found)
        };
        assert!(read("/beside/").is_some() && read("/folder/").is_some());
        assert!(budget.remarks().is_empty());
        assert_eq!(read("/nowhere/"), None);
        assert!(budget.remarks()[0].contains("of another build"));
    }
}
