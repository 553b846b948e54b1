//! Names of the variables at addresses of programs, such as the names of locks.
//!
//! A trace says where the code of a program's files is mapped. Their variables have the same distance from the code as
//! in the file, so no mappings of data have to be recorded.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use strata_ctf::read::{Message, Reader, Stream, TimeRange};
use strata_ctf::state_dump;
use strata_text::demangled;

use super::elf::{ElfFile, Section, DYNSYM, SYMTAB};
use super::files::{here, separate, SourceOptions};
use super::objects::Objects;
use super::stack_fields::{CodeFile, FileNumber, MappedObject, BUILD_ID};

/// The most messages of state dumps that are read.
const MESSAGES: usize = 1 << 20;
/// The most bytes of a symbol table that are read.
const TABLE_MAX: u64 = 512 << 20;
const AT_ONCE: usize = 4096;
/// The most bytes of a name that are read.
const NAME_MAX: u64 = 256;
/// The most open files: fewer than a process may have by default.
const FILES: usize = 1 << 7;

/// Finds the names of variables, for traces that say what processes had mapped.
pub struct Variables {
    options: SourceOptions,
    objects: Objects,
    /// For each file, the open file itself and its debug information, if they exist.
    files: HashMap<FileNumber, Vec<ElfFile>>,
}

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Variables").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Variables {
    /// Reads the state dumps of these traces, and later changes if there is a stream for them.
    #[must_use]
    pub fn read(reader: &Reader, options: &SourceOptions) -> Variables {
        let mut objects = Objects::new(&options.files.budget);
        let dumps = [state_dump::FILE, state_dump::AGAIN_FILE, state_dump::CHANGES_FILE];
        let first = |stream: &Stream| {
            let mut own = reader.streams().iter();
            let trace = stream.trace().index();
            let dump = own.find(|it| it.trace().index() == trace && it.name() == state_dump::FILE);
            dump.and_then(Stream::id)
        };
        let is_change = |stream: &Stream| {
            let number = stream.id().zip(first(stream)).and_then(|(id, at)| id.checked_sub(at));
            number == Some(state_dump::CHANGES_BEHIND)
        };
        let is_of = |stream: &Stream| dumps.contains(&stream.name()) || is_change(stream);
        let mut events = reader.events_of_streams(TimeRange::ALL, &is_of);
        for _ in 0..MESSAGES {
            match events.next() {
                Some(Message::Event(event)) => {
                    let _ = objects.event(&event);
                }
                Some(_) => {}
                None => break,
            }
        }
        Variables { options: options.clone(), objects, files: HashMap::new() }
    }

    /// Returns the name of the variable at an address of a process, such as `cache_lock` or `pool+0x28`.
    pub fn name(&mut self, pid: i64, address: u64) -> Option<String> {
        if self.options.no_symbols {
            return None;
        }
        let objects: Vec<MappedObject> = self.objects.of_process(pid).copied().collect();
        objects.iter().find_map(|object| {
            let file = self.objects.files.get(object.file).clone();
            if !self.files.contains_key(&object.file) {
                if self.files.len() >= FILES {
                    return None;
                }
                let files = open(&self.options, &file);
                self.files.insert(object.file, files);
            }
            let files = self.files.get(&object.file)?;
            let in_file = address_in_file(files.first()?, object, address)?;
            let (name, offset) = files.iter().find_map(|file| self.variable(file, in_file))?;
            let of_source = if self.options.mangled { None } else { demangled(&name) };
            let name = String::from_utf8_lossy(&of_source.unwrap_or(name)).into_owned();
            Some(match offset {
                0 => name,
                offset => format!("{name}+{offset:#x}"),
            })
        })
    }

    /// Returns the name of the variable at an address of a file, and the distance of the address from the variable's
    /// begin.
    fn variable(&self, file: &ElfFile, address: u64) -> Option<(Vec<u8>, u64)> {
        [SYMTAB, DYNSYM].into_iter().find_map(|kind| {
            let (table, names) = file.symbols(kind)?;
            let (begin, name) = self.find(file, &table, address)?;
            let at = names.offset.checked_add(name.into())?;
            let most = names.bytes.checked_sub(name.into())?.min(NAME_MAX);
            let mut name = file.read(at, most, NAME_MAX).ok()?;
            name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
            (!name.is_empty()).then_some((name, address - begin))
        })
    }

    /// Returns the begin of the variable at this address, and the place of its name.
    fn find(&self, file: &ElfFile, table: &Section, address: u64) -> Option<(u64, u32)> {
        if table.bytes > TABLE_MAX || file.check(table.offset, table.bytes).is_err() {
            return None;
        }
        let one = file.symbol_bytes();
        let mut buffer = vec![0; one * AT_ONCE];
        let mut at = 0;
        while at + one as u64 <= table.bytes {
            let bytes = (table.bytes - at).min(buffer.len() as u64) as usize;
            let part = buffer.get_mut(..bytes / one * one)?;
            file.read_into(part, table.offset.checked_add(at)?).ok()?;
            if !self.options.files.budget.steps((part.len() / one) as u64) {
                return None;
            }
            at += part.len() as u64;
            let variables = part.chunks_exact(one).filter_map(|symbol| file.variable(symbol));
            let mut at_address = variables.filter(|(begin, bytes, _)| {
                address.checked_sub(*begin).is_some_and(|it| it < *bytes)
            });
            if let Some((begin, _, name)) = at_address.next() {
                return Some((begin, name));
            }
        }
        None
    }
}

/// Opens a file of the traced system, unless its build id differs from the recorded one, and the file with its debug
/// information.
fn open(options: &SourceOptions, file: &CodeFile) -> Vec<ElfFile> {
    let is_it = |found: &ElfFile| {
        let id = found.build_id(BUILD_ID);
        file.build_id.is_empty() || id.is_empty() || id[..] == file.build_id[..]
    };
    let path = here(options, Path::new(OsStr::from_bytes(&file.path)));
    let own = path.and_then(|path| ElfFile::open(&path).ok()).filter(is_it);
    let Some(own) = own else { return Vec::new() };
    let id = own.build_id(BUILD_ID);
    let debug = separate(options, &id, file).and_then(|path| ElfFile::open(&path).ok());
    std::iter::once(own).chain(debug.filter(is_it)).collect()
}

/// Converts an address of a process to an address of an object's file. Returns `None` if it is not in memory of that
/// file.
fn address_in_file(file: &ElfFile, object: &MappedObject, address: u64) -> Option<u64> {
    let offset = object.offset?;
    let segments = || file.segments.iter();
    // A mapping begins at a page, and the segment somewhere in it, which may be where another one ends.
    let begin = |it: &super::elf::Segment| it.offset & !0xfff;
    let has_it = |it: &&super::elf::Segment| {
        offset >= begin(it) && offset < it.offset.saturating_add(it.bytes)
    };
    let code = segments().filter(|it| it.is_code).find(has_it)?;
    let code_address = code.address.wrapping_add(offset).wrapping_sub(code.offset);
    let bias = object.begin.wrapping_sub(code_address);
    let in_file = address.wrapping_sub(bias);
    let is_in =
        |it: &super::elf::Segment| in_file.checked_sub(it.address).is_some_and(|at| at < it.memory);
    segments().any(is_in).then_some(in_file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_random::Random;

    static LANDMARK: std::sync::Mutex<[u64; 4]> = std::sync::Mutex::new([7; 4]);

    /// Returns this program's mapping: an object of its code, and its path.
    fn here_mapped() -> (MappedObject, std::path::PathBuf) {
        let path = std::env::current_exe().unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let is_code = |line: &&str| line.contains("r-xp") && line.ends_with(path.to_str().unwrap());
        let line = maps.lines().find(is_code).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let (begin, end) = words[0].split_once('-').unwrap();
        let (begin, end, offset) = (number(begin), number(end), number(words[2]));
        let object =
            MappedObject { begin, bytes: end - begin, file: 0, is_pic: true, offset: Some(offset) };
        (object, path)
    }

    #[test]
    fn variable_of_this_program_has_its_name_and_what_is_behind_it_has_none() {
        let (object, path) = here_mapped();
        let file = ElfFile::open(&path).unwrap();
        let address = (&raw const LANDMARK).addr() as u64;
        let variables = Variables {
            options: SourceOptions::default(),
            objects: Objects::new(&std::sync::Arc::default()),
            files: HashMap::new(),
        };
        let in_file = address_in_file(&file, &object, address + 8).unwrap();
        let (name, offset) = variables.variable(&file, in_file).unwrap();
        assert!(String::from_utf8_lossy(&name).contains("LANDMARK"), "{name:?}");
        assert_eq!((offset, *LANDMARK.lock().unwrap()), (8, [7; 4]));
        // A stack, and what is in front of all.
        let local = 0_u64;
        assert_eq!(address_in_file(&file, &object, (&raw const local).addr() as u64), None);
        assert_eq!(address_in_file(&file, &object, 16), None);
        assert_eq!(address_in_file(&file, &MappedObject { offset: None, ..object }, address), None);
    }

    #[test]
    fn malicious_files_have_any_variables_or_none() {
        let hand = crate::hand_tests::Hand::new();
        let whole = std::fs::read("/bin/sh").unwrap();
        let (damaged, mut random) = (hand.0.join("damaged"), Random::from_seed(1));
        let variables = Variables {
            options: SourceOptions::default(),
            objects: Objects::new(&std::sync::Arc::default()),
            files: HashMap::new(),
        };
        let object =
            MappedObject { begin: 0x7000_0000, offset: Some(0x4000), ..MappedObject::default() };
        for turn in 0..150 {
            let mut bytes = whole.clone();
            for _ in 0..=turn % 8 {
                let last = bytes.len() as u64 - 1;
                // The header, the segments, the table of sections, or anything between.
                let at = match turn % 3 {
                    0 => random.below(1024),
                    1 => last - random.below(2048),
                    _ => random.below(last),
                };
                bytes[at as usize] = random.next() as u8;
            }
            bytes.truncate(if turn % 5 == 4 { bytes.len() / 2 } else { bytes.len() });
            std::fs::write(&damaged, &bytes).unwrap();
            let Ok(file) = ElfFile::open(&damaged) else { continue };
            for address in [0, 1, 0x7000_0000, 0x7002_0000, u64::MAX] {
                let in_file = address_in_file(&file, &object, address);
                let found = variables.variable(&file, in_file.unwrap_or(address));
                assert!(found.is_none_or(|(name, _)| name.len() <= NAME_MAX as usize));
            }
        }
    }
}
