//! Finds the function and line of an address in a file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_text::demangled;

use super::compressed_symbols::unpack;
use super::elf::{identity, open_plain, ElfFile, FunctionSymbol, Segment, DYNSYM, SYMTAB};
use super::lines::{KnownAddress, Lines, NAME_MAX};
use super::lookup_limits::{size, Budget, Charge, BYTES_MAX};
use super::stack_fields::BUILD_ID;

/// The most bytes of a symbol table that are read.
const TABLE_MAX: u64 = 512 << 20;
/// The number of symbols that are read at once.
const AT_ONCE: usize = 4096;
/// The memory that a function takes, including that for sorting \[byte\].
const FUNCTION_BYTES: u64 = 40;

/// The most functions before an address that are examined for containing it.
const NEAR_MAX: usize = 64;

/// A function. Its name stays in the file, and is read when it is needed.
#[derive(Clone, Copy, Debug)]
struct Function {
    begin: u64,
    bytes: u64,
    name: u32,
    /// The rank among functions with the same begin: of several names, the one with the highest rank is shown.
    rank: u8,
}

impl From<FunctionSymbol> for Function {
    fn from(symbol: FunctionSymbol) -> Function {
        let FunctionSymbol { begin, bytes, name, is_in_code, is_visible } = symbol;
        let ranks = [(is_in_code, 4), (bytes > 0, 2), (is_visible, 1)];
        let rank = ranks.into_iter().map(|(has, rank)| if has { rank } else { 0 }).sum();
        Function { begin, bytes, name, rank }
    }
}

/// The place of the functions' names.
#[derive(Debug)]
enum Names {
    /// The names are in the file: `bytes` bytes from `begin` on.
    InFile { begin: u64, bytes: u64 },
    /// The names are in memory, since the file has them compressed.
    Here(Vec<u8>),
}

/// The symbols of a file.
#[derive(Debug)]
pub(super) struct Symbols {
    pub build_id: Vec<u8>,
    /// The name and checksum of the file with the debug information, if the file has a link to it.
    pub debug_link: Option<(Vec<u8>, u32)>,
    /// The path and build id of the file with debug information that several files share, if the file has a link to one.
    pub shared_link: Option<(Vec<u8>, Vec<u8>)>,
    pub path: PathBuf,
    pub identity: [u64; 5],
    /// The functions, by begin.
    functions: Vec<Function>,
    names: Names,
    segments: Vec<Segment>,
    lines: Option<Lines>,
    charge: Charge,
}

impl Symbols {
    /// Opens an ELF file and reads its symbols.
    pub fn open(path: &Path, budget: &Arc<Budget>) -> io::Result<Symbols> {
        Ok(Symbols::read(&ElfFile::open(path)?, budget))
    }

    /// Reads the symbols of an open file.
    pub fn read(file: &ElfFile, budget: &Arc<Budget>) -> Symbols {
        let mut symbols = Symbols {
            build_id: file.build_id(BUILD_ID),
            debug_link: file.debug_link(),
            shared_link: file.shared_link(),
            path: file.path.clone(),
            identity: file.identity,
            functions: Vec::new(),
            names: Names::InFile { begin: 0, bytes: 0 },
            segments: file.segments.clone(),
            lines: None,
            charge: Charge::new(budget),
        };
        for kind in [SYMTAB, DYNSYM] {
            symbols.read_functions(file, kind);
            if !symbols.functions.is_empty() {
                break;
            }
        }
        symbols.lines = Lines::read(file, budget);
        symbols
    }

    /// Reads the symbols that a stripped file keeps compressed; `None` if it has none. Such symbols have no line
    /// numbers.
    pub fn read_packed(file: &ElfFile, budget: &Arc<Budget>) -> Option<Symbols> {
        let mut memory = Charge::new(budget);
        let packed = unpack(file, &mut memory)?;
        let mut symbols = Symbols {
            build_id: file.build_id(BUILD_ID),
            debug_link: None,
            shared_link: None,
            path: file.path.clone(),
            identity: file.identity,
            functions: Vec::new(),
            names: Names::InFile { begin: 0, bytes: 0 },
            segments: Vec::new(),
            lines: None,
            charge: Charge::new(budget),
        };
        symbols.read_functions(&packed, SYMTAB);
        let Names::InFile { begin, bytes } = symbols.names else { return None };
        let names = packed.read(begin, bytes, bytes).ok()?;
        if symbols.functions.is_empty() || !symbols.charge.add(bytes) {
            return None;
        }
        symbols.names = Names::Here(names);
        Some(symbols)
    }

    /// Reads the functions of a symbol table. `kind`: the ELF type of the table. A stripped file only has the table
    /// of exported symbols.
    fn read_functions(&mut self, file: &ElfFile, kind: u32) {
        let Some((table, names)) = file.symbols(kind) else { return };
        let name = self.path.display();
        let budget = Arc::clone(self.charge.budget());
        let is_read = table.bytes <= TABLE_MAX && file.check(table.offset, table.bytes).is_ok();
        if !is_read || file.check(names.offset, names.bytes).is_err() {
            budget.remark(format!(
                "{name}: it says that its symbols have {}, of a file of {}, and at most {} are read: its functions have no names",
                size(table.bytes),
                size(file.bytes()),
                size(TABLE_MAX)
            ));
            return;
        }
        let one = file.symbol_bytes();
        let mut buffer = vec![0; one * AT_ONCE];
        let mut functions: Vec<Function> = Vec::new();
        let mut at = 0;
        while at + one as u64 <= table.bytes {
            let bytes = (table.bytes - at).min(buffer.len() as u64) as usize;
            let part = &mut buffer[..bytes / one * one];
            if file.read_into(part, table.offset + at).is_err() {
                break;
            }
            at += part.len() as u64;
            if !budget.steps((part.len() / one) as u64) {
                break;
            }
            let found = part.chunks_exact(one).filter_map(|symbol| file.function(symbol));
            // What is exported and has no size may be anything's begin.
            let found = found.filter(|symbol| kind == SYMTAB || symbol.bytes > 0);
            for symbol in found {
                if functions.len() == functions.capacity() {
                    let more = (functions.len() / 2).max(AT_ONCE);
                    if !self.charge.add(more as u64 * FUNCTION_BYTES) {
                        budget.remark(format!(
                            "{name}: its {} and more functions take more than what is left of the {} for all files and \
                             processes: they have no names",
                            functions.len(),
                            size(BYTES_MAX),
                            name = self.path.display(),
                        ));
                        self.charge.give(u64::MAX);
                        return;
                    }
                    functions.reserve_exact(more);
                }
                functions.push(symbol.into());
            }
        }
        // Of several names of a function, the best one is the last one here; of equal ones, the first one in the file.
        functions.reverse();
        functions.sort_by_key(|it| (it.begin, it.rank));
        self.functions = functions;
        self.names = Names::InFile { begin: names.offset, bytes: names.bytes };
    }

    /// Returns true if the file has debug information, and not only names of functions.
    pub fn has_lines(&self) -> bool {
        self.lines.is_some()
    }

    /// Sets the folders in which files with parts of the debug information (`.dwo`, `.dwp`) are searched.
    pub fn set_split_files(&mut self, prefix: Option<&Path>, folder: Option<&Path>) {
        if let Some(lines) = &mut self.lines {
            lines.set_split_files(&self.path, prefix, folder);
        }
    }

    /// Sets the debug information that the file shares with others.
    pub fn set_shared(&mut self, shared: &ElfFile) {
        let Some(lines) = &mut self.lines else { return };
        if let Some(shared) = Lines::read(shared, self.charge.budget()) {
            lines.set_shared(shared);
        }
    }

    /// Returns the address of the code at this offset in the file.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let is_it = |it: &&Segment| offset.checked_sub(it.offset).is_some_and(|at| at < it.bytes);
        let segment = self.segments.iter().find(is_it)?;
        segment.address.checked_add(offset - segment.offset)
    }

    /// Returns the function and line at an address of the file.
    pub fn find(&mut self, address: u64) -> KnownAddress {
        let mut known = self.lines.as_mut().map(|lines| lines.find(address)).unwrap_or_default();
        known.function = match known.function.take() {
            None => self
                .at(address)
                .next()
                .and_then(|function| Some((self.name(function.name)?, address - function.begin))),
            Some(function) if is_mangled(&function.0) => Some(function),
            // Without its mangled name, a function has no namespace and no type: a lambda is `operator()`.
            Some((name, offset)) => {
                let mangled = address.checked_sub(offset).and_then(|at| self.mangled(&name, at));
                Some((mangled.unwrap_or(name), offset))
            }
        };
        known
    }

    /// Returns the functions whose code contains an address, the best one first.
    fn at(&self, address: u64) -> impl Iterator<Item = &Function> {
        let behind = self.functions.partition_point(|it| it.begin <= address);
        let before = self.functions.get(..behind).unwrap_or_default();
        let last = before.last().map(|it| it.begin);
        let found = before.iter().rev().take(NEAR_MAX);
        // A function without a size goes on up to the next one. Others may be in each other.
        found.filter(move |it| match it.bytes {
            0 => last == Some(it.begin),
            bytes => address - it.begin < bytes,
        })
    }

    /// Returns the mangled name of the function that begins at an address and has this name in the source code. Other
    /// functions may begin there too: aliases, and equal functions that the linker has merged.
    fn mangled(&self, name: &[u8], begin: u64) -> Option<Vec<u8>> {
        let here = self.at(begin).filter(|it| it.begin == begin);
        let names = here.filter_map(|it| self.name(it.name)).filter(|it| is_mangled(it));
        let mut of_source = names.filter_map(|mangled| {
            let whole = demangled(&mangled).filter(|whole| is_last_part(name, whole))?;
            Some((mangled, whole))
        });
        let (found, whole) = of_source.next()?;
        // If it may be one of several, it is none.
        of_source.all(|(_, other)| other == whole).then_some(found)
    }

    /// Reads a name from the file, unless the file has changed since.
    fn name(&self, at: u32) -> Option<Vec<u8>> {
        let (begin, bytes) = match &self.names {
            Names::InFile { begin, bytes } => (*begin, *bytes),
            Names::Here(names) => {
                let name = names.get(usize::try_from(at).ok()?..)?.iter().take(NAME_MAX);
                return Some(name.copied().take_while(|byte| *byte != 0).collect());
            }
        };
        let most = bytes.checked_sub(at.into())?.min(NAME_MAX as u64);
        let (file, metadata) = open_plain(&self.path).ok()?;
        if identity(&metadata) != self.identity {
            return None;
        }
        let mut name = vec![0; most as usize];
        let at = begin.checked_add(at.into())?;
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut name, at).ok()?;
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        name.truncate(end);
        Some(name)
    }
}

/// Returns true for the name of a function of C++ or Rust that tells its namespace and types.
fn is_mangled(name: &[u8]) -> bool {
    name.starts_with(b"_Z") || name.starts_with(b"_R")
}

/// Returns true if `name`, as debug information has it, is the last part of a demangled name, such as `total` of
/// `shop::Order<int>::total`.
fn is_last_part(name: &[u8], whole: &[u8]) -> bool {
    let is_operator = name.starts_with(OPERATOR);
    let mut depth = 0i32;
    let mut begin = 0;
    for (at, byte) in whole.iter().enumerate() {
        match byte {
            b'(' | b'<' | b'{' | b'[' => depth += 1,
            b')' | b'>' | b'}' | b']' => depth -= 1,
            b':' if depth == 0 => begin = at + 1,
            _ => {}
        }
        // The brackets of an operator are its name.
        let rest = whole.get(begin..).unwrap_or_default();
        if is_operator && depth == 0 && rest.starts_with(OPERATOR) {
            break;
        }
    }
    let last = whole.get(begin..).unwrap_or_default();
    let without_types = |name: &[u8]| {
        let end = name.iter().position(|byte| *byte == b'<').unwrap_or(name.len());
        name.get(..end).unwrap_or_default().to_vec()
    };
    match is_operator {
        true => last.starts_with(name) || name.starts_with(last) && last.len() > OPERATOR.len(),
        false => without_types(last) == without_types(name),
    }
}

/// The word with which the names of C++ operators begin.
const OPERATOR: &[u8] = b"operator";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hand_tests::Hand;
    use std::process::Command;
    use strata_random::Random;

    fn open(path: &Path) -> io::Result<Symbols> {
        Symbols::open(path, &Arc::default())
    }

    /// A function whose address the tests look up.
    #[inline(never)]
    fn landmark() -> u32 {
        line!()
    }

    #[inline(always)]
    fn inlined_inner(number: u32) -> u32 {
        std::hint::black_box(number).wrapping_mul(3)
    }

    #[inline(always)]
    fn inlined_middle(number: u32) -> u32 {
        inlined_inner(number).wrapping_add(1)
    }

    /// A function with the code of two others.
    #[inline(never)]
    fn outer(number: u32) -> u32 {
        inlined_middle(number).wrapping_add(2)
    }

    /// Returns this program, and the address of [`landmark`] in its file.
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
        let found = open(&path).unwrap().find(address);
        let (name, offset) = found.function.unwrap();
        assert!(String::from_utf8_lossy(&name).contains("landmark"), "{name:?}");
        assert_eq!(offset, 0);
        let (file, line) = found.line.unwrap();
        assert!(file.ends_with(b"debug_info/symbols.rs"), "{:?}", String::from_utf8_lossy(&file));
        // Where the function begins, or ends: there is one line in it.
        assert!(line.abs_diff(landmark()) <= 1, "{line}");
    }

    #[test]
    fn find_of_inlined_code_is_the_function_around_it_and_the_inlined_ones_from_the_inside() {
        let (path, of_landmark) = here();
        let landmark = landmark as fn() -> u32 as usize as u64;
        let begin = (outer as fn(u32) -> u32 as usize as u64).wrapping_sub(landmark);
        let begin = begin.wrapping_add(of_landmark);
        let mut symbols = open(&path).unwrap();
        let mut is_found = false;
        for address in begin..begin + 256 {
            let found = symbols.find(address);
            let names = found.inlined.iter().map(|(name, _)| String::from_utf8_lossy(name));
            let names: Vec<_> = names.collect();
            let Some(at) = names.iter().position(|name| name.contains("inlined_inner")) else {
                continue;
            };
            let (function, _) = found.function.unwrap();
            assert!(String::from_utf8_lossy(&function).contains("outer"), "{function:?}");
            assert!(at + 2 == names.len() && names[at + 1].contains("inlined_middle"), "{names:?}");
            // Each has its own line: that of the next inner call.
            let line = |at: usize| found.inlined[at].1.as_ref().map_or(0, |(_, line)| *line);
            let around = found.line.map_or(0, |(_, line)| line);
            assert!(0 < line(at) && line(at) < line(at + 1) && line(at + 1) < around, "{around}");
            is_found = true;
        }
        assert!(is_found && outer(1) == 6);
    }

    #[test]
    fn find_in_damaged_files_finds_anything_and_ends() {
        let (path, address) = here();
        let bytes = std::fs::read(path).unwrap();
        let folder = std::env::temp_dir().join(format!("strata-symbols-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let damaged = folder.join("damaged");
        let mut random = Random::from_seed(1);
        for turn in 0..12 {
            let mut bytes = bytes.clone();
            for _ in 0..=turn {
                // The header, the table of sections, or anything between.
                let last = bytes.len() as u64 - 1;
                let at = match turn % 3 {
                    0 => random.below(64),
                    1 => last - random.below(2048),
                    _ => random.below(last),
                };
                bytes[at as usize] = random.next() as u8;
            }
            bytes.truncate(if turn % 4 == 3 { bytes.len() / 2 } else { bytes.len() });
            std::fs::write(&damaged, &bytes).unwrap();
            if let Ok(mut symbols) = open(&damaged) {
                for address in [address, 0, u64::MAX, address * 2] {
                    let _ = symbols.find(address);
                }
            }
        }
        assert!(open(&folder).is_err());
        assert!(open(Path::new("/dev/zero")).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn last_part_of_a_demangled_name_is_what_debug_information_calls_the_function() {
        for (mangled, name, is_it) in [
            ("_ZN4shop5OrderIiE5totalEv", "total", true),
            ("_ZN4shop5OrderIiE5totalEv", "Order", false),
            ("_ZN4shop5OrderIiE5totalEv", "shop", false),
            ("_ZN4shop5OrderIiEC1Ev", "Order", true),
            ("_ZN4shop5OrderIiED2Ev", "~Order", true),
            ("_ZN4shop5OrderIiED2Ev", "Order", false),
            ("_ZN4shop3sumIiEET_S1_", "sum<int>", true),
            ("_ZZ9of_lambdaiENKUliE_clEi", "operator()", true),
            ("_ZN1AltERKS_", "operator<", true),
            ("_ZN1AltERKS_", "operator()", false),
            ("_ZN1AcviEv", "operator int", true),
            ("_ZN12_GLOBAL__N_14hereEv", "here", true),
            ("_RNvCs1234_4shop5total", "total", true),
        ] {
            let whole = demangled(mangled.as_bytes()).unwrap();
            let text = String::from_utf8_lossy(&whole);
            assert_eq!(is_last_part(name.as_bytes(), &whole), is_it, "{name} of {text}");
        }
    }

    /// Compiles a program, and returns for each of these symbols the name of the function at its address, with the
    /// program's lines and without them.
    fn names_at(source: &str, symbols: &[&str]) -> Vec<[String; 2]> {
        let hand = Hand::new();
        let (text, program) = (hand.0.join("text.cc"), hand.0.join("program"));
        std::fs::write(&text, source).unwrap();
        let run = |command: &mut Command| assert!(command.status().unwrap().success());
        let make = ["-O1", "-g", "-w", "-shared", "-nostdlib", "-fPIC", "-o"];
        run(Command::new("g++").args(make).args([&program, &text]));
        let listed = Command::new("nm").arg(&program).output().unwrap().stdout;
        let listed = String::from_utf8(listed).unwrap();
        let names = || {
            let mut file = open(&program).unwrap();
            let mut name = |symbol: &&str| {
                let is_it = |line: &&str| line.ends_with(&format!(" {symbol}"));
                let line = listed.lines().find(is_it).unwrap();
                let address = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
                String::from_utf8(file.find(address).function.unwrap().0).unwrap()
            };
            symbols.iter().map(&mut name).collect::<Vec<_>>()
        };
        let with_lines = names();
        run(Command::new("objcopy").arg("--strip-debug").arg(&program));
        with_lines.into_iter().zip(names()).map(|(with, without)| [with, without]).collect()
    }

    #[test]
    fn of_several_symbols_the_function_s_own_one_is_taken() {
        // A function of C with an alias whose name is that of another function of C++, and one of C++ with two.
        let source = "extern \"C\" int plain(int n) { return n * 7; }
            extern \"C\" int _ZN3two4yearEi(int) __attribute__((alias(\"plain\")));
            namespace one { struct S { int month(int) const; }; int S::month(int n) const { return n + 3; } }
            extern \"C\" int _ZN3two5monthEi(int) __attribute__((alias(\"_ZNK3one1S5monthEi\")));
            extern \"C\" int hidden(int) __attribute__((alias(\"plain\"), visibility(\"hidden\")));
            int call(int n) { auto twice = [&](int m) __attribute__((noinline)) { return m * n; }; return twice(n) + twice(3); }
            extern \"C\" int _ZN5other3sumEi(int) __attribute__((alias(\"_Z4calli\")));";
        let own = ["plain", "_ZNK3one1S5monthEi", "_Z4calli", "_ZZ4calliENKUliE_clEi"];
        let names = names_at(source, &own);
        assert_eq!(names.iter().map(|names| names[0].as_str()).collect::<Vec<_>>(), own);
        // Without lines, what other files can see comes first, and what has one symbol has that.
        assert!(names[0][1] != "hidden" && names[3][1] == own[3], "{names:?}");
    }

    #[test]
    fn function_around_an_address_is_found_behind_functions_within_it() {
        let source =
            "asm(\".globl outer, inner; .type outer, @function; .type inner, @function\\n\"
            \"outer: nop; inner: nop; .size inner, 1\\n\"
            \"behind: .globl behind; nop; nop; .size outer, 4\\n\");";
        let names = names_at(source, &["inner", "behind"]);
        assert_eq!([&names[0][0], &names[1][0]], ["inner", "outer"]);
    }
}
