//! Names of a kernel's functions, in a file of the trace's folder. With it, functions have names on another machine and
//! after a reboot. The file is hidden, since readers of a trace take every other file for a stream.
//!
//! ```text
//! strata kernel symbols 1\n
//! for each function, by address: distance from the previous one (LEB128), length of its name (u8), the name
//! ```

/// Name of the file.
pub const FILE: &str = ".strata-kernel-symbols";

const TITLE: &[u8] = b"strata kernel symbols 1\n";

/// The greatest distance of an address from the begin of its function \[byte\]. Higher addresses belong to other code,
/// such as a BPF program.
pub const FUNCTION_BYTES_MAX: u64 = 1 << 20;

/// The most functions that are read; a kernel has some 100,000.
const FUNCTIONS_MAX: usize = 1 << 21;

/// The greatest size of a file that is read \[byte\].
pub const BYTES_MAX: u64 = 64 << 20;

/// Names of fields of kernel events that hold the address of a kernel function, or of code in one: in events about
/// timers, queued work, allocated memory, freed packets. The kernel prints these fields with `%pS` or `%ps`.
const FUNCTION_FIELDS: [&str; 15] = [
    "function",
    "func",
    "fun",
    "fn",
    "handler",
    "shrink",
    "ip",
    "parent_ip",
    "location",
    "call_site",
    "callsite",
    "caller",
    "caller_ip",
    "callback",
    "cb",
];

/// Returns whether a field of this name may hold the address of a kernel function.
#[must_use]
fn is_function_field(name: &str) -> bool {
    FUNCTION_FIELDS.contains(&name)
}

/// Returns whether records of an event of the kernel may have an address of a kernel function in a field of this name.
/// Page faults of programs and samples have addresses of programs in `ip`.
#[must_use]
pub fn has_function(event: &str, field: &str) -> bool {
    let is_of_program = event.ends_with("page_fault_user") || event == "cpu_clock";
    is_function_field(field) && !is_of_program
}

/// Converts the text of /proc/kallsyms to a file of its functions. Returns `None` if the kernel shows no addresses.
#[must_use]
pub fn of_kallsyms(text: &str) -> Option<Vec<u8>> {
    let mut all: Vec<(u64, &str, Option<&str>)> = text.lines().filter_map(function).collect();
    all.sort_unstable_by_key(|(address, ..)| *address);
    all.dedup_by_key(|(address, ..)| *address);
    all.truncate(FUNCTIONS_MAX);
    let mut out = TITLE.to_vec();
    let mut before = 0;
    for (address, name, module) in &all {
        leb128(&mut out, address - before);
        before = *address;
        let module = module.map(|module| format!(" {module}")).unwrap_or_default();
        let name = [name.as_bytes(), module.as_bytes()].concat();
        let bytes = name.len().min(usize::from(u8::MAX));
        out.push(bytes as u8);
        out.extend_from_slice(&name[..bytes]);
    }
    (!all.is_empty()).then_some(out)
}

/// Parses a line such as `ffffffff81000000 T _stext`, with an optional `[module]` at the end. Returns address, name and
/// module.
fn function(line: &str) -> Option<(u64, &str, Option<&str>)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok().filter(|address| *address != 0)?;
    let kind = words.next()?;
    let (name, module) = (words.next()?, words.next());
    let is_text = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    let is_shown = is_text(name) && module.is_none_or(is_text);
    (matches!(kind, "t" | "T" | "w" | "W") && is_shown).then_some((address, name, module))
}

fn leb128(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads the next function of a file. Returns the distance of its address from the previous one, its name, and the
/// bytes after it.
fn next_function(rest: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (more, behind) = unleb128(rest)?;
    let (&length, behind) = behind.split_first()?;
    let (name, behind) = behind.split_at_checked(usize::from(length))?;
    Some((more, name, behind))
}

/// Returns whether the bytes are a valid file as [`of_kallsyms`] makes it, for checking files from other machines.
/// Names must not have bytes that control a terminal.
#[must_use]
pub fn are_symbols(bytes: &[u8]) -> bool {
    let Some(mut rest) = bytes.strip_prefix(TITLE) else { return false };
    let (mut address, mut functions) = (0u64, 0);
    while !rest.is_empty() {
        let Some((more, name, behind)) = next_function(rest) else { return false };
        let next = address.checked_add(more).filter(|next| *next > address);
        let is_text = !name.is_empty() && name.iter().all(|byte| matches!(byte, b' '..=b'~'));
        functions += 1;
        let (Some(next), true) = (next, is_text && functions <= FUNCTIONS_MAX) else {
            return false;
        };
        (address, rest) = (next, behind);
    }
    functions > 0
}

/// Functions of a kernel, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelSymbols {
    /// For each function its begin, and offset and length of its name in `names`.
    functions: Vec<(u64, usize, u8)>,
    names: Vec<u8>,
}

impl KernelSymbols {
    /// Reads a file up to the first invalid entry.
    #[must_use]
    pub fn read(bytes: &[u8]) -> KernelSymbols {
        let mut symbols = KernelSymbols::default();
        let Some(mut rest) = bytes.strip_prefix(TITLE) else { return symbols };
        let mut address = 0u64;
        while symbols.functions.len() < FUNCTIONS_MAX {
            let Some((more, name, behind)) = next_function(rest) else { break };
            let Some(next) = address.checked_add(more) else { break };
            address = next;
            let length = u8::try_from(name.len()).unwrap_or(u8::MAX);
            symbols.functions.push((address, symbols.names.len(), length));
            symbols.names.extend_from_slice(name);
            rest = behind;
        }
        symbols
    }

    /// Finds the function that contains an address; `None` if it is not known. Returns its name, and the address's
    /// distance from its begin \[byte\].
    #[must_use]
    pub fn find(&self, address: u64) -> Option<(&[u8], u64)> {
        let behind = self.functions.partition_point(|(begin, ..)| *begin <= address);
        let (begin, at, length) = *self.functions.get(behind.checked_sub(1)?)?;
        Some((self.names.get(at..at + usize::from(length))?, address - begin))
    }

    /// Returns the name of the function at an address: `process_one_work` at its begin, `process_one_work+0x1a` inside.
    /// Returns `None` if no function contains the address.
    #[must_use]
    pub fn text(&self, address: u64) -> Option<Vec<u8>> {
        let (name, offset) = self.find(address)?;
        let mut text = name.to_vec();
        if offset > 0 {
            text.extend_from_slice(format!("+{offset:#x}").as_bytes());
        }
        (offset < FUNCTION_BYTES_MAX).then_some(text)
    }

    /// Returns whether there are no functions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }
}

fn unleb128(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f).checked_shl(7 * at as u32)?;
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(at + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "ffffffff81000100 T second\nffffffff81000000 T _stext\n\
                        ffffffff81000100 t also_second\nffffffff82000000 D data\n\
                        ffffffffc0000010 t init_module\t[ext4]\n0000000000000000 T hidden\n";

    #[test]
    fn text_of_an_address_is_its_function_unless_that_is_too_far_in_front() {
        let file = of_kallsyms("1000 T begin\n1100 t middle [module]\n").unwrap();
        let symbols = KernelSymbols::read(&file);
        for (address, wanted) in [
            (0xfff, None),
            (0x1000, Some("begin")),
            (0x10ff, Some("begin+0xff")),
            (0x1101, Some("middle [module]+0x1")),
            (0x1100 + FUNCTION_BYTES_MAX - 1, Some("middle [module]+0xfffff")),
            (0x1100 + FUNCTION_BYTES_MAX, None),
        ] {
            let found = symbols.text(address).map(|text| String::from_utf8(text).unwrap());
            assert_eq!(found.as_deref(), wanted, "{address:#x}");
        }
        assert!(is_function_field("function") && !is_function_field("ptr"));
        assert!(has_function("page_fault_kernel", "ip") && has_function("kmalloc", "call_site"));
        assert!(!has_function("page_fault_user", "ip") && !has_function("kmalloc", "ptr"));
    }

    #[test]
    fn symbols_of_kallsyms_are_read_back_by_address() {
        let bytes = of_kallsyms(TEXT).unwrap();
        let symbols = KernelSymbols::read(&bytes);
        let name = |address| {
            symbols
                .find(address)
                .map(|(name, offset)| (String::from_utf8_lossy(name).into_owned(), offset))
        };
        assert_eq!(name(0xffff_ffff_8100_0010), Some(("_stext".into(), 0x10)));
        assert_eq!(name(0xffff_ffff_8100_0100), Some(("second".into(), 0)));
        assert_eq!(name(0xffff_ffff_c000_0020), Some(("init_module [ext4]".into(), 0x10)));
        assert_eq!(name(0x1000), None);
        assert_eq!(symbols.functions.len(), 3);
        assert_eq!(of_kallsyms("0000000000000000 T hidden\n"), None);
        assert_eq!(of_kallsyms("ffffffff81000000 T caf\u{e9}\n"), None);
    }

    #[test]
    fn malicious_symbols_of_somebody_else_are_none() {
        let bytes = of_kallsyms(TEXT).unwrap();
        assert!(are_symbols(&bytes));
        let cut = (0..bytes.len()).filter(|end| are_symbols(&bytes[..*end])).count();
        // A cut is valid only after a whole function.
        assert_eq!(cut, 2);
        let with = |entry: &[u8]| [TITLE, b"\x10\x01f", entry].concat();
        assert!(are_symbols(&with(b"\x10\x03g h")));
        for entry in [
            // Invalid entries: a repeated address, an incomplete name, colours for a terminal, an incomplete number.
            &b"\x00\x01g"[..],
            b"\x10\x00",
            b"\x10\x05\x1b[31m",
            b"\x10\x01\n",
            b"\x10\x02\xc3\xa4",
            &[0xff; 12],
        ] {
            assert!(!are_symbols(&with(entry)), "{entry:?}");
        }
        assert!(!are_symbols(b"") && !are_symbols(TITLE));
    }

    #[test]
    fn symbols_of_any_bytes_are_those_in_front_of_the_damage() {
        let bytes = of_kallsyms(TEXT).unwrap();
        for end in 0..bytes.len() {
            assert!(KernelSymbols::read(&bytes[..end]).functions.len() < 3, "{end}");
        }
        let mut damaged = TITLE.to_vec();
        damaged.extend([0xff; 40]);
        assert!(KernelSymbols::read(&damaged).is_empty());
    }
}
