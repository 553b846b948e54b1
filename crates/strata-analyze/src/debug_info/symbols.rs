//! What a file says of an address: function, file and line.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use gimli::{EndianArcSlice, RunTimeEndian};
use object::read::ReadCache;
use object::{Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol, SymbolKind};

/// Sections of a file are read up to this size, all together \[byte\].
const SECTIONS: u64 = 512 << 20;
const SEGMENTS: usize = 1 << 10;
/// Symbols of a file.
const SYMBOLS: usize = 1 << 22;

/// Its sections are copied, so that a file that changes is read as it was.
type SectionBytes = EndianArcSlice<RunTimeEndian>;

/// A file.
pub(super) struct Symbols {
    pub build_id: Vec<u8>,
    /// Begin, bytes, name; sorted.
    functions: Vec<(u64, u64, Vec<u8>)>,
    /// Offset in the file, bytes there, address.
    segments: Vec<(u64, u64, u64)>,
    lines: Option<addr2line::Context<SectionBytes>>,
    has_lines: bool,
}

/// What is known of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownAddress {
    pub function: Option<(Vec<u8>, u64)>,
    pub line: Option<(Vec<u8>, u32)>,
}

fn functions<'f>(symbols: impl Iterator<Item: ObjectSymbol<'f>>) -> Vec<(u64, u64, Vec<u8>)> {
    let all = symbols.take(SYMBOLS);
    all.filter(|it| it.kind() == SymbolKind::Text && it.is_definition())
        .filter_map(|it| Some((it.address(), it.size(), it.name_bytes().ok()?.to_vec())))
        .collect()
}

impl Symbols {
    /// Of an ELF file; nothing else is opened.
    pub fn open(path: &Path) -> io::Result<Symbols> {
        // A pipe would be waited for, and to open a device may mean something.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let cache = ReadCache::new(File::open(path)?);
        let file = object::File::parse(&cache).map_err(io::Error::other)?;
        let build_id = file.build_id().ok().flatten().unwrap_or_default().to_vec();
        let mut functions = functions(file.symbols());
        if functions.is_empty() {
            // A file that was stripped has those that it exports. What has no size may be anything's begin.
            functions = self::functions(file.dynamic_symbols());
            functions.retain(|it| it.1 > 0);
        }
        // Of several names of a function, the first one in the file is the last one here.
        functions.reverse();
        functions.sort_by_key(|it| it.0);
        let segments = file.segments().take(SEGMENTS);
        let segments = segments.map(|it| (it.file_range().0, it.file_range().1, it.address()));
        let segments = segments.collect();
        let endian = match file.is_little_endian() {
            true => RunTimeEndian::Little,
            false => RunTimeEndian::Big,
        };
        let mut left = SECTIONS;
        let load = |id: gimli::SectionId| -> Result<SectionBytes, gimli::Error> {
            let section = file.section_by_name(id.name());
            let data = section.and_then(|section| {
                left = left.checked_sub(section.size())?;
                section.data().ok().filter(|_| {
                    // What is compressed is not what it seems.
                    section
                        .compressed_file_range()
                        .is_ok_and(|it| it.format == object::CompressionFormat::None)
                })
            });
            Ok(EndianArcSlice::new(Arc::from(data.unwrap_or_default()), endian))
        };
        let lines = gimli::Dwarf::load(load).ok();
        let lines = lines.and_then(|dwarf| addr2line::Context::from_dwarf(dwarf).ok());
        let has_lines = file.section_by_name(".debug_info").is_some_and(|it| it.size() > 0);
        Ok(Symbols { build_id, functions, segments, lines, has_lines })
    }

    /// Whether it says more than names of functions.
    pub fn has_lines(&self) -> bool {
        self.lines.is_some() && self.has_lines
    }

    /// The address of what is there in the file.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let is_it = |it: &&(u64, u64, u64)| offset.checked_sub(it.0).is_some_and(|at| at < it.1);
        let (begin, _, address) = self.segments.iter().find(is_it)?;
        address.checked_add(offset - begin)
    }

    /// What is at an address of the file.
    pub fn find(&self, address: u64) -> KnownAddress {
        let mut known = self.by_lines(address).unwrap_or_default();
        if known.function.is_none() {
            let behind = self.functions.partition_point(|it| it.0 <= address);
            let function = behind.checked_sub(1).and_then(|index| self.functions.get(index));
            known.function = function
                .filter(|it| it.1 == 0 || address - it.0 < it.1)
                .map(|(begin, _, name)| (name.clone(), address - begin));
        }
        known
    }

    fn by_lines(&self, address: u64) -> Option<KnownAddress> {
        // addr2line looks at what is behind the address, too.
        let lines = self.lines.as_ref().filter(|_| address < u64::MAX)?;
        let mut frames = lines.find_frames(address).skip_all_loads().ok()?;
        let mut known = KnownAddress::default();
        // The last one is the function that is there; those before it were inlined into it.
        while let Ok(Some(frame)) = frames.next() {
            known = KnownAddress::default();
            if let Some(location) = frame.location {
                known.line = location
                    .file
                    .zip(location.line)
                    .map(|(file, line)| (file.as_bytes().to_vec(), line));
            }
            let name = frame.function.and_then(|it| Some(it.raw_name().ok()?.as_bytes().to_vec()));
            let begin = frame.dw_die_offset.and_then(|offset| {
                let unit = lines.find_dwarf_and_unit(address).skip_all_loads()?;
                let entry = unit.entry(offset).ok()?;
                let mut ranges = unit.die_ranges(&entry).ok()?;
                ranges.next().ok()?.map(|range| range.begin)
            });
            known.function =
                name.zip(begin).map(|(name, begin)| (name, address.saturating_sub(begin)));
        }
        Some(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function whose place is known.
    #[inline(never)]
    fn landmark() -> u32 {
        line!()
    }

    /// This program, and the address of [`landmark`] in its file.
    fn here() -> (std::path::PathBuf, u64) {
        let path = std::env::current_exe().unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let name = path.to_str().unwrap();
        let first = maps.lines().find(|line| line.ends_with(name)).unwrap();
        let base = u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap();
        (path, landmark as fn() -> u32 as usize as u64 - base)
    }

    #[test]
    fn find_of_a_function_of_this_program_is_its_name_and_line() {
        let (path, address) = here();
        let found = Symbols::open(&path).unwrap().find(address);
        let (name, offset) = found.function.unwrap();
        assert!(String::from_utf8_lossy(&name).contains("landmark"), "{name:?}");
        assert_eq!(offset, 0);
        let (file, line) = found.line.unwrap();
        assert!(file.ends_with(b"debug_info/symbols.rs"), "{:?}", String::from_utf8_lossy(&file));
        // Where the function begins, or ends: there is one line in it.
        assert!(line.abs_diff(landmark()) <= 1, "{line}");
    }

    #[test]
    fn find_in_damaged_files_finds_anything_and_ends() {
        let (path, address) = here();
        let bytes = std::fs::read(path).unwrap();
        let folder = std::env::temp_dir().join(format!("strata-symbols-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let damaged = folder.join("damaged");
        let mut random = 1u64;
        for turn in 0..12 {
            let mut bytes = bytes.clone();
            for _ in 0..=turn {
                random =
                    random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                // The header, the table of sections, or anything between.
                let last = bytes.len() as u64 - 1;
                let at = match turn % 3 {
                    0 => (random >> 33) % 64,
                    1 => last - (random >> 33) % 2048,
                    _ => (random >> 33) % last,
                };
                bytes[at as usize] = (random >> 13) as u8;
            }
            bytes.truncate(if turn % 4 == 3 { bytes.len() / 2 } else { bytes.len() });
            std::fs::write(&damaged, &bytes).unwrap();
            if let Ok(symbols) = Symbols::open(&damaged) {
                for address in [address, 0, u64::MAX, address * 2] {
                    let _ = symbols.find(address);
                }
            }
        }
        assert!(Symbols::open(&folder).is_err());
        assert!(Symbols::open(Path::new("/dev/zero")).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
