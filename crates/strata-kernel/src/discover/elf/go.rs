//! Programs made by the Go compiler, and the table of their functions, `.gopclntab`.

/// Magic numbers of the tables that Go 1.18 and Go 1.20 have introduced.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// The most functions of a table; the largest programs have some 300,000.
const FUNCTIONS_MAX: u64 = 2 << 20;
/// Size of the longest name; a table with a longer one is not understood \[byte\].
const NAME_MAX: usize = 64 << 10;
/// The most bytes of all names together \[byte\].
const NAMES_MAX: usize = 256 << 20;
/// Offset of the address of Go's code in the table \[byte\].
pub(crate) const TEXT_AT: u64 = 8 + 2 * 8;
/// Bit in a function's flags: the function is implemented in assembly.
const ASSEMBLY: u8 = 4;

/// A Go function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GoFunction<'data> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) name: &'data [u8],
    /// True if the function is written in assembly.
    pub(crate) is_assembly: bool,
}

/// The functions of a Go program.
#[derive(Debug, Default)]
pub(crate) struct GoFunctions<'data> {
    /// All functions, sorted by address. Empty if the version of the table is not understood.
    all: Vec<GoFunction<'data>>,
}

impl<'data> GoFunctions<'data> {
    /// Reads the section `.gopclntab`.
    pub(crate) fn read(table: &'data [u8], places: &GoPlaces) -> GoFunctions<'data> {
        GoFunctions { all: read(table, places).unwrap_or_default() }
    }

    /// Returns the function whose code contains `address`.
    pub(crate) fn at(&self, address: u64) -> Option<&GoFunction<'data>> {
        let behind = self.all.partition_point(|one| one.start <= address);
        self.all.get(behind.checked_sub(1)?).filter(|one| address < one.end)
    }

    /// Returns all functions, sorted by address.
    pub(crate) fn all(&self) -> &[GoFunction<'data>] {
        &self.all
    }

    /// Returns whether the table of functions was understood.
    pub(crate) fn is_known(&self) -> bool {
        !self.all.is_empty()
    }
}

fn number(table: &[u8], at: u64, bytes: usize) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let mut value = [0u8; 8];
    value.get_mut(..bytes)?.copy_from_slice(table.get(at..at.checked_add(bytes)?)?);
    Some(u64::from_le_bytes(value))
}

/// Addresses in a Go program's file that help to read the table of functions.
pub(crate) struct GoPlaces {
    /// Address of the symbol `runtime.text`, or the target of a relocation of the table, if one of them exists.
    pub(crate) text: Option<u64>,
    /// Address of the section `.text`.
    pub(crate) section: Option<u64>,
    /// Entry address of the program.
    pub(crate) entry: Option<u64>,
    /// Addresses of the first function and of Go's code, from the section `.go.module`, which Go 1.26 and later write.
    pub(crate) module: Option<(u64, u64)>,
}

/// Reads the two addresses of [`GoPlaces::module`]. `word` returns the word with that index in the section.
pub(crate) fn module(word: impl Fn(u64) -> Option<u64>) -> Option<(u64, u64)> {
    // Go's runtime.moduledata: a pointer, six slices, a pointer, minpc, maxpc, text.
    const MINPC: u64 = 1 + 6 * 3 + 1;
    Some((word(MINPC)?, word(MINPC + 2)?))
}

/// Returns the offsets at which a table of Go functions may begin, each with the bytes from there on.
pub(crate) fn tables_within(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    const ALIGNED: usize = 8;
    const TABLES: usize = 8;
    let is_begin = |word: &[u8]| {
        word.get(4..) == Some(&[0, 0, 1, 8])
            && number(word, 0, 4).is_some_and(|magic| MAGICS.contains(&(magic as u32)))
    };
    let words = bytes.chunks_exact(ALIGNED).enumerate();
    let begins = words.filter(move |(_, word)| is_begin(word)).take(TABLES);
    begins.filter_map(move |(index, _)| {
        let at = index * ALIGNED;
        bytes.get(at..).map(|table| (at as u64, table))
    })
}

fn read<'data>(table: &'data [u8], places: &GoPlaces) -> Option<Vec<GoFunction<'data>>> {
    let magic = number(table, 0, 4)? as u32;
    let pointer_bytes = number(table, 7, 1)?;
    if !MAGICS.contains(&magic) || pointer_bytes != 8 {
        return None;
    }
    let word = |index: u64| number(table, 8 + 8 * index, 8);
    let count = word(0).filter(|count| (1..=FUNCTIONS_MAX).contains(count))?;
    let (names, functions) = (word(3)?, word(7)?);
    let flag_at = if magic == 0xffff_fff1 { 41 } else { 37 };
    let word_at = |index: u64, behind: u64| {
        number(table, functions.checked_add(8 * index)?.checked_add(behind)?, 4)
    };
    let entry = |index: u64| word_at(index, 0);
    // The header's is 0 from Go 1.26 on. Then `.text` begins with Go's, unless a C compiler's linker made the file.
    let stated = word(2).filter(|start| *start != 0);
    let module = places
        .module
        .filter(|(first, text)| entry(0).and_then(|entry| text.checked_add(entry)) == Some(*first));
    let known = places.text.or(stated).or(module.map(|(_, text)| text));
    let start = match known {
        Some(start) => start,
        None => places.section?,
    };
    let mut all = Vec::new();
    let mut names_left = NAMES_MAX;
    for index in 0..count {
        let at = functions.checked_add(word_at(index, 4)?)?;
        let name = names.checked_add(number(table, at.checked_add(4)?, 4)?)?;
        let name = table.get(usize::try_from(name).ok()?..)?;
        let name = name.get(..name.iter().take(NAME_MAX).position(|byte| *byte == 0)?)?;
        names_left = names_left.checked_sub(name.len())?;
        let function = GoFunction {
            start: start.checked_add(entry(index)?)?,
            end: start.checked_add(entry(index + 1)?)?,
            name,
            is_assembly: number(table, at.checked_add(flag_at)?, 1)? as u8 & ASSEMBLY != 0,
        };
        if function.start < function.end {
            all.push(function);
        }
    }
    if !all.is_sorted_by_key(|one| one.start) {
        return None;
    }
    let begins =
        |one: &GoFunction<'_>| one.name == b"_rt0_amd64_linux" && Some(one.start) == places.entry;
    (known.is_some() || all.iter().any(begins)).then_some(all)
}
