//! Parses the line of one field in a `format` file: its declaration in C, offset and size.

use super::{FieldShape, FormatField};
use strata_model::Base;

/// Parses a line such as `field:char comm[16];  offset:8;  size:16;  signed:0;`.
pub(super) fn field(line: &str) -> Option<FormatField> {
    let mut declaration = None;
    let (mut offset, mut bytes, mut is_signed) = (None, None, false);
    for item in line.split(';').map(str::trim) {
        match item.split_once(':') {
            Some(("field", value)) => declaration = Some(value.trim()),
            Some(("offset", value)) => offset = Some(value.trim().parse().ok()?),
            Some(("size", value)) => bytes = Some(value.trim().parse().ok()?),
            Some(("signed", value)) => is_signed = value.trim() == "1",
            _ => (),
        }
    }
    let (offset, bytes): (u16, u16) = (offset?, bytes?);
    offset.checked_add(bytes)?;
    let declared = Declared::parse(declaration?)?;
    let shape = declared.shape(bytes)?;
    let base = if declared.is_pointer() { Base::Sixteen } else { Base::Ten };
    // Bytes of something unknown have no sign.
    let is_signed = is_signed
        && !matches!(shape, FieldShape::Bool | FieldShape::Text | FieldShape::Dynamic { .. });
    Some(FormatField {
        name: declared.name.to_owned(),
        c_type: declared.c_type,
        offset,
        bytes,
        is_signed,
        shape,
        base,
        labels: Vec::new(),
        flags: None,
    })
}

/// The parts of a field's C declaration.
struct Declared<'a> {
    name: &'a str,
    /// The type in C: the declaration without `__data_loc`, the name and the text in brackets.
    c_type: String,
    /// The text between the first brackets.
    count: Option<&'a str>,
    /// `Some(true)` for a field declared with `__rel_loc`, `Some(false)` for `__data_loc`, `None` for any other.
    dynamic: Option<bool>,
}

impl<'a> Declared<'a> {
    fn parse(text: &'a str) -> Option<Declared<'a>> {
        let (text, dynamic) = match text.split_once(char::is_whitespace) {
            Some(("__data_loc", rest)) => (rest.trim(), Some(false)),
            Some(("__rel_loc", rest)) => (rest.trim(), Some(true)),
            _ => (text, None),
        };
        if let Some(pointer) = function_pointer(text) {
            return Some(Declared { name: pointer, c_type: "void *".into(), count: None, dynamic });
        }
        let (plain, count) = match (text.find('['), text.find(']')) {
            (Some(open), Some(close)) if open < close => (
                format!("{}{}", &text[..open], &text[text.rfind(']')? + 1..]),
                Some(&text[open + 1..close]),
            ),
            _ => (text.to_owned(), None),
        };
        // Behind the brackets (`char[] name`) or in front of them (`char name[16]`).
        let length = plain.trim_end().bytes().rev().take_while(|byte| is_word(*byte)).count();
        let plain = plain.trim_end();
        let (c_type, name) = plain.split_at(plain.len() - length);
        let at = text.rfind(name).filter(|_| !name.is_empty())?;
        if name.starts_with(|first: char| first.is_ascii_digit()) || c_type.trim().is_empty() {
            return None;
        }
        let name = &text[at..at + name.len()];
        Some(Declared { name, c_type: c_type.trim().to_owned(), count, dynamic })
    }

    fn is_pointer(&self) -> bool {
        self.c_type.contains('*')
    }

    fn shape(&self, bytes: u16) -> Option<FieldShape> {
        let base = base_type(&self.c_type);
        if let Some(is_relative) = self.dynamic {
            let is_text = base == "char" && !self.is_pointer();
            // Else it is not the word that the kernel's headers describe.
            return (bytes == 4).then_some(FieldShape::Dynamic { is_relative, is_text });
        }
        if let Some(count) = self.count {
            if base == "char" && !self.is_pointer() {
                return Some(FieldShape::Text);
            }
            return Some(FieldShape::Array {
                element_bytes: self.element_bytes(&base, count, bytes),
            });
        }
        let is_aggregate = ["struct ", "union "].iter().any(|word| base.starts_with(word));
        Some(match bytes {
            1 if matches!(base.as_str(), "bool" | "_Bool") => FieldShape::Bool,
            1 | 2 | 4 | 8 if !is_aggregate || self.is_pointer() => FieldShape::Integer,
            _ => FieldShape::Array { element_bytes: 1 },
        })
    }

    /// Returns the size of one element of an array \[byte\]; 1 if that is not known. `bytes`: size of the whole
    /// array.
    fn element_bytes(&self, base: &str, count: &str, bytes: u16) -> u8 {
        let is_aggregate = ["struct ", "union "].iter().any(|word| base.starts_with(word));
        let known = match () {
            () if self.is_pointer() => Some(8),
            () if is_aggregate => Some(1),
            () => type_bytes(base),
        };
        // A typedef: from how many there are, if that is a plain number.
        let counted = || match count.trim().parse::<u16>() {
            Ok(count) if count > 0 && bytes % count == 0 => u8::try_from(bytes / count).ok(),
            _ => None,
        };
        let found = known.or_else(counted).filter(|found| matches!(found, 1 | 2 | 4 | 8));
        found.filter(|found| bytes % u16::from(*found) == 0).unwrap_or(1)
    }
}

/// Returns the name in `void (*name)(int)`.
fn function_pointer(text: &str) -> Option<&str> {
    let (front, rest) = text.split_once("(*")?;
    if front.contains('[') {
        return None;
    }
    let (name, _) = rest.split_once(')')?;
    let name = name.trim();
    (!name.is_empty() && name.bytes().all(is_word)).then_some(name)
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

/// Returns the type without qualifiers and stars, with one space between its words.
pub(super) fn base_type(c_type: &str) -> String {
    let words = c_type.split(|found: char| found.is_whitespace() || found == '*');
    let words: Vec<&str> = words
        .filter(|word| !matches!(*word, "" | "const" | "volatile" | "__user" | "__rcu" | "__iomem"))
        .collect();
    words.join(" ")
}

/// Returns the size of a type of C or of the kernel on 64-bit machines \[byte\]; `None` if it is not known.
pub(super) fn type_bytes(base: &str) -> Option<u8> {
    Some(match base {
        "char" | "signed char" | "unsigned char" | "bool" | "_Bool" | "u8" | "__u8" | "s8"
        | "__s8" | "uint8_t" | "int8_t" | "u_char" => 1,
        "short" | "short int" | "unsigned short" | "unsigned short int" | "u16" | "__u16"
        | "s16" | "__s16" | "uint16_t" | "int16_t" | "__be16" | "__le16" | "umode_t" | "ushort" => {
            2
        }
        "int" | "signed int" | "unsigned" | "unsigned int" | "u32" | "__u32" | "s32" | "__s32"
        | "uint32_t" | "int32_t" | "__be32" | "__le32" | "uint" | "pid_t" | "dev_t" | "uid_t"
        | "gid_t" | "gfp_t" => 4,
        "long"
        | "long int"
        | "unsigned long"
        | "unsigned long int"
        | "long unsigned int"
        | "long long"
        | "long long int"
        | "unsigned long long"
        | "long long unsigned int"
        | "u64"
        | "__u64"
        | "s64"
        | "__s64"
        | "uint64_t"
        | "int64_t"
        | "__be64"
        | "__le64"
        | "size_t"
        | "ssize_t"
        | "loff_t"
        | "ulong"
        | "sector_t"
        | "phys_addr_t"
        | "dma_addr_t" => 8,
        _ => return None,
    })
}
