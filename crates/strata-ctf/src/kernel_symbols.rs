//! Names of a kernel's functions, in a file of a trace's folder: what was recorded on another machine, or before the last
//! boot, still has names. A hidden file: readers of a trace take every other one for a stream.
//!
//! ```text
//! strata kernel symbols 1\n
//! for each function, by address: how far behind the one before (LEB128), u8 length of its name, the name
//! ```

/// The file's name.
pub const FILE: &str = ".strata-kernel-symbols";

const TITLE: &[u8] = b"strata kernel symbols 1\n";

/// More are not read: a kernel has some 100,000.
const FUNCTIONS_MAX: usize = 1 << 21;

/// Largest file that is read \[byte\].
pub const BYTES_MAX: u64 = 64 << 20;

/// Of the text of /proc/kallsyms: code that has an address. `None`: the kernel shows none.
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

/// `ffffffff81000000 T _stext`, and `[module]` behind it.
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

/// The next function of a file: how far its address is behind the one before, its name, and what follows.
fn next_function(rest: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (more, behind) = unleb128(rest)?;
    let (&length, behind) = behind.split_first()?;
    let (name, behind) = behind.split_at_checked(usize::from(length))?;
    Some((more, name, behind))
}

/// Whether these are the bytes of a file as [`of_kallsyms`] makes it, from begin to end: for who takes it from somebody
/// else. Names have no bytes that a terminal would take for more than letters.
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
    /// Begin, and where its name lies in `names`.
    functions: Vec<(u64, usize, u8)>,
    names: Vec<u8>,
}

impl KernelSymbols {
    /// What a file says, as far as it can be read.
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

    /// The function that an address is in, as far as is known, and how far behind its begin.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<(&[u8], u64)> {
        let behind = self.functions.partition_point(|(begin, ..)| *begin <= address);
        let (begin, at, length) = *self.functions.get(behind.checked_sub(1)?)?;
        Some((self.names.get(at..at + usize::from(length))?, address - begin))
    }

    /// Whether there are none.
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
        // Behind each function it could end.
        assert_eq!(cut, 2);
        let with = |entry: &[u8]| [TITLE, b"\x10\x01f", entry].concat();
        assert!(are_symbols(&with(b"\x10\x03g h")));
        for entry in [
            // The same address again, a name that is none, colours for a terminal, and what is no number.
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
