//! The kernel's descriptions of tracepoints, as perf copies them from tracefs.
//!
//! ```text
//! 0x17 0x08 'D' "tracing", version, byte order, sizes
//! header_page, header_event       descriptions of the ring buffer
//! number of formats of ftrace     each: size, text
//! number of systems               each: name, number of formats, each: size, text
//! ```

use std::collections::HashSet;

use strata_model::limits;

use crate::bytes::Bytes;

const MAGIC: &[u8; 10] = b"\x17\x08Dtracing";
/// The most formats of a file; a kernel has some 3,000.
const FORMATS_MAX: usize = 1 << 14;
/// The most elements of an array.
const ELEMENTS_MAX: u32 = 4096;
/// The greatest offset of a field's end \[byte\]. A record of perf has less than that.
const END_MAX: usize = 1 << 16;

/// The description of a tracepoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TracepointFormat {
    pub system: String,
    pub name: String,
    /// Number of the tracepoint in that boot.
    pub id: u64,
    /// Fields without those that all tracepoints have.
    pub fields: Vec<FormatField>,
}

/// A field of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FormatField {
    pub name: String,
    /// Offset in a sample's raw bytes \[byte\].
    pub offset: usize,
    pub class: FormatClass,
}

/// The class of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormatClass {
    Integer {
        bytes: u8,
        signed: bool,
    },
    /// An array of integers.
    Array {
        bytes: u8,
        signed: bool,
        count: u32,
    },
    /// Characters, padded by NULs.
    Characters {
        bytes: u32,
    },
    /// Text elsewhere in the record: 16 bits size, 16 bits offset, from the begin or from behind the field.
    Text {
        is_relative: bool,
    },
    /// Anything else that lies elsewhere in the record.
    Bytes {
        is_relative: bool,
    },
}

impl FormatClass {
    /// Returns the size of the field \[byte\].
    pub fn bytes(self) -> usize {
        match self {
            FormatClass::Integer { bytes, .. } => usize::from(bytes),
            FormatClass::Array { bytes, count, .. } => usize::from(bytes) * count as usize,
            FormatClass::Characters { bytes } => bytes as usize,
            FormatClass::Text { .. } | FormatClass::Bytes { .. } => 4,
        }
    }
}

/// Reads the formats of the tracepoints with these numbers. What cannot be read is left out.
pub(crate) fn read(bytes: &[u8], wanted: &[u64]) -> Vec<TracepointFormat> {
    let mut found = Vec::new();
    let mut wanted: HashSet<u64> = wanted.iter().copied().collect();
    let mut from = Bytes(bytes);
    // None is what ends early.
    let _ = (|| {
        (from.array::<10>()? == *MAGIC).then_some(())?;
        from.line()?;
        from.take(6)?;
        for _ in ["header_page", "header_event"] {
            from.line()?;
            sized(&mut from)?;
        }
        for _ in 0..from.u32()? {
            sized(&mut from)?;
        }
        systems(&mut from, &mut |format| {
            found.extend(Some(format).filter(|format| wanted.remove(&format.id)));
        })
    })();
    found
}

/// Reads the formats of all tracepoints of all systems, those with the same number once. Returns `None` if they are cut off.
pub(crate) fn all(from: &mut Bytes<'_>) -> Option<Vec<TracepointFormat>> {
    let (mut found, mut ids) = (Vec::new(), HashSet::new());
    systems(from, &mut |format: TracepointFormat| {
        if found.len() < FORMATS_MAX && ids.insert(format.id) {
            found.push(format);
        }
    })?;
    Some(found)
}

/// Reads the systems with their formats. Returns `None` if they are cut off.
fn systems(from: &mut Bytes<'_>, take: &mut dyn FnMut(TracepointFormat)) -> Option<()> {
    for _ in 0..from.u32()? {
        // Each of its formats has a copy of it.
        let system = from.line()?;
        let system = system.get(..limits::NAME_BYTES).unwrap_or(system);
        let system = String::from_utf8_lossy(system);
        for _ in 0..from.u32()? {
            let text = String::from_utf8_lossy(sized(from)?);
            parse(&system, &text).into_iter().for_each(&mut *take);
        }
    }
    Some(())
}

fn sized<'b>(from: &mut Bytes<'b>) -> Option<&'b [u8]> {
    let bytes = usize::try_from(from.u64()?).ok()?;
    from.take(bytes)
}

/// Parses the text of a file `format` of tracefs. A field that overlaps an earlier one, or has the same name, is left
/// out.
pub(crate) fn parse(system: &str, text: &str) -> Option<TracepointFormat> {
    let after = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let mut format = TracepointFormat {
        system: system.to_owned(),
        name: after("name: ")?.trim().to_owned(),
        id: after("ID: ")?.trim().parse().ok()?,
        fields: Vec::new(),
    };
    let (mut end, mut names) = (0, HashSet::new());
    for field in text.lines().filter_map(field) {
        if format.fields.len() == limits::FIELDS {
            break;
        }
        let field_end = field.offset + field.class.bytes();
        if field.offset >= end && field_end <= END_MAX && names.insert(field.name.clone()) {
            end = field_end;
            format.fields.push(field);
        }
    }
    (!fitting(&format.name).is_empty()).then_some(format)
}

/// Returns `name` without the characters that names in a trace's metadata cannot have.
pub(crate) fn fitting(name: &str) -> String {
    let mut out: String = name.chars().filter(|one| !one.is_control()).collect();
    while out.len() > limits::NAME_BYTES {
        out.pop();
    }
    out
}

/// Parses a line such as `field:char prev_comm[16]; offset:8; size:16; signed:0;`.
fn field(line: &str) -> Option<FormatField> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declared = parts.next()?.strip_prefix("field:")?;
    let mut number = |name: &str| parts.next()?.strip_prefix(name)?.parse::<u32>().ok();
    let (offset, size) = (number("offset:")?, number("size:")?);
    let signed = number("signed:").is_some_and(|signed| signed != 0);
    let (class, name) = declared.rsplit_once([' ', '\t'])?;
    let (name, count) = match name.split_once('[') {
        Some((name, count)) => (name, Some(count.strip_suffix(']')?)),
        None => (name, None),
    };
    let name = fitting(name.trim_start_matches('*'));
    if name.is_empty() || name.starts_with("common_") {
        return None;
    }
    let offset = usize::try_from(offset).ok()?;
    let words = class
        .split_whitespace()
        .filter(|word| !matches!(*word, "const" | "__data_loc" | "__rel_loc"));
    let words: Vec<&str> = words.collect();
    let is_text = matches!(words[..], ["char" | "char[]"]);
    let integer =
        |size: u32| u8::try_from(size).ok().filter(|bytes| matches!(bytes, 1 | 2 | 4 | 8));
    let is_relative = class.starts_with("__rel_loc");
    let class = if class.starts_with("__data_loc") || is_relative {
        (size == 4).then_some(())?;
        match is_text {
            true => FormatClass::Text { is_relative },
            false => FormatClass::Bytes { is_relative },
        }
    } else if let Some(bytes) = integer(size).filter(|_| count.is_none()) {
        FormatClass::Integer { bytes, signed }
    } else if is_text && count.is_some() {
        FormatClass::Characters { bytes: (1..=ELEMENTS_MAX).contains(&size).then_some(size)? }
    } else {
        // What has no number of elements is shown as bytes.
        let count = count.and_then(|count| count.parse().ok()).filter(|count| *count > 0);
        let elements = count.filter(|count| size % count == 0).unwrap_or(size);
        let bytes = integer(size.checked_div(elements)?)?;
        (1..=ELEMENTS_MAX).contains(&elements).then_some(())?;
        FormatClass::Array { bytes, signed, count: elements }
    };
    Some(FormatField { name, offset, class })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 316\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:unsigned long args[6];\toffset:40;\tsize:48;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:88;\tsize:4;\tsigned:0;\n\
        \tfield:const char * file;\toffset:96;\tsize:8;\tsigned:0;\n\
        \tfield:struct odd thing;\toffset:104;\tsize:12;\tsigned:0;\n\n\
        print fmt: \"x\"\n";

    #[test]
    fn format_of_the_kernel_has_its_fields() {
        let format = parse("sched", SWITCH).unwrap();
        assert_eq!((&*format.name, format.id), ("sched_switch", 316));
        let fields: Vec<_> =
            format.fields.iter().map(|it| (&*it.name, it.offset, it.class)).collect();
        let wanted = [
            ("prev_comm", 8, FormatClass::Characters { bytes: 16 }),
            ("prev_pid", 24, FormatClass::Integer { bytes: 4, signed: true }),
            ("prev_state", 32, FormatClass::Integer { bytes: 8, signed: true }),
            ("args", 40, FormatClass::Array { bytes: 8, signed: false, count: 6 }),
            ("name", 88, FormatClass::Text { is_relative: false }),
            ("file", 96, FormatClass::Integer { bytes: 8, signed: false }),
            ("thing", 104, FormatClass::Array { bytes: 1, signed: false, count: 12 }),
        ];
        assert_eq!(fields, wanted);
    }

    #[test]
    fn malicious_formats_are_left_out() {
        for line in [
            "field:char x[0];\toffset:8;\tsize:0;\tsigned:0;",
            "field:char x[9999999];\toffset:8;\tsize:9999999;\tsigned:0;",
            "field:int x[0];\toffset:8;\tsize:0;\tsigned:0;",
            "field:int x;\toffset:-8;\tsize:4;\tsigned:0;",
            "field:int ;\toffset:8;\tsize:4;\tsigned:0;",
            "field:x;\toffset:8;\tsize:4;\tsigned:0;",
        ] {
            assert_eq!(field(line), None, "{line}");
        }
        // One that lies in another one, one with the name of another one, and one that no record has.
        let more = "name: x\nID: 1\nformat:\n\
            \tfield:long a;\toffset:8;\tsize:8;\tsigned:0;\n\
            \tfield:int b;\toffset:12;\tsize:4;\tsigned:0;\n\
            \tfield:int a;\toffset:16;\tsize:4;\tsigned:0;\n\
            \tfield:int c;\toffset:65534;\tsize:4;\tsigned:0;\n";
        assert_eq!(parse("a", more).unwrap().fields.len(), 1);
        assert_eq!(parse("a", "name: \nID: 1\n"), None);
        assert_eq!(parse("a", "name: x\nID: y\n"), None);
        // Numbers of formats that are not there.
        let mut bytes = [&MAGIC[..], b"0.6\0", &[0; 6]].concat();
        for name in ["header_page\0", "header_event\0"] {
            bytes.extend([name.as_bytes(), &0u64.to_ne_bytes()].concat());
        }
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend(u32::MAX.to_ne_bytes());
        bytes.extend(b"sched\0");
        bytes.extend(u32::MAX.to_ne_bytes());
        bytes.extend((SWITCH.len() as u64).to_ne_bytes());
        bytes.extend(SWITCH.as_bytes());
        bytes.extend(u64::MAX.to_ne_bytes());
        assert_eq!(read(&bytes, &[316]).len(), 1);
        assert!(read(&bytes, &[317]).is_empty());
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end], &[316]).len() <= 1);
        }
    }

    #[test]
    fn long_name_of_a_system_is_not_copied_for_each_format() {
        let mut bytes = [&MAGIC[..], b"0.6\0", &[0; 6]].concat();
        for name in ["header_page\0", "header_event\0"] {
            bytes.extend([name.as_bytes(), &0u64.to_ne_bytes()].concat());
        }
        bytes.extend([0u32, 1].map(u32::to_ne_bytes).concat());
        bytes.resize(bytes.len() + (1 << 20), b'x');
        bytes.push(0);
        bytes.extend(3000u32.to_ne_bytes());
        for id in 0..3000 {
            let text = format!("name: x\nID: {id}\n");
            bytes.extend((text.len() as u64).to_ne_bytes());
            bytes.extend(text.bytes());
        }
        let wanted: Vec<u64> = (0..3000).collect();
        let formats = read(&bytes, &wanted);
        let names: usize = formats.iter().map(|format| format.system.len()).sum();
        assert_eq!((formats.len(), names), (3000, 3000 * limits::NAME_BYTES));
    }

    #[test]
    fn format_has_no_more_fields_than_a_trace_can_have() {
        let fields =
            (0..200).map(|at| format!("\tfield:u8 f{at};\toffset:{at};\tsize:1;\tsigned:0;\n"));
        let text = format!("name: x\nID: 1\nformat:\n{}", fields.collect::<String>());
        assert_eq!(parse("a", &text).unwrap().fields.len(), limits::FIELDS);
    }
}
