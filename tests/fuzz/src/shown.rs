//! Is text what it claims to be: JSON by a parser that is not ours, CSV by RFC 4180, harmless on a terminal?

use serde_json::Value;
use strata_analyze::render::{ClockStyle, Format, Options};

/// `text` is all of these event records, name and time of each, in their order.
pub fn check(options: &Options, text: &[u8], events: &[(String, Option<i64>)]) {
    match options.format {
        // As babeltrace2 has it: names are as they are, but for a terminal.
        Format::Text if options.tame => lines(text, events.len()),
        Format::Text => (),
        Format::Short => assert!(text.is_empty() || text.ends_with(b"\n")),
        Format::Json => json(options, text, events),
        Format::Csv => csv(options, text, events),
    }
    harmless(options, text);
}

fn lines(text: &[u8], expected: usize) {
    let found = text.iter().filter(|&&byte| byte == b'\n').count();
    assert_eq!(found, expected, "lines of {}", String::from_utf8_lossy(text));
    assert!(text.is_empty() || text.ends_with(b"\n"));
}

fn parsed(text: &[u8]) -> Value {
    serde_json::from_slice(text)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)))
}

fn json(options: &Options, text: &[u8], events: &[(String, Option<i64>)]) {
    lines(text, events.len());
    for (line, (name, time)) in text.split(|&byte| byte == b'\n').zip(events) {
        let value = parsed(line);
        assert_eq!(value["name"], **name, "{value}");
        let time = time.filter(|_| options.clock != Some(ClockStyle::None));
        assert_eq!(value.get("time").and_then(Value::as_i64), time, "{value}");
    }
}

fn csv(options: &Options, text: &[u8], events: &[(String, Option<i64>)]) {
    let mut at = 0;
    let head = row(text, &mut at).expect("a header");
    let name = head.iter().position(|column| column == b"name").expect("a column of names");
    let mut found = 0;
    // Row by row: all of them take twenty times the text's memory.
    while let Some(row) = row(text, &mut at) {
        let expected = events.get(found).map(|(name, _)| name);
        let expected = expected.unwrap_or_else(|| panic!("more than {found} rows"));
        found += 1;
        assert_eq!(row.len(), head.len(), "columns of {:?}", lossy(&row));
        // Control characters in it are shown, for a terminal.
        if !options.tame {
            assert_eq!(row[name], expected.as_bytes(), "a name");
        }
        if options.fields.is_none() {
            parsed(row.last().expect("a column of fields"));
        }
    }
    assert_eq!(found, events.len(), "rows");
}

fn lossy(row: &[Vec<u8>]) -> String {
    String::from_utf8_lossy(&row.join(&b',')).into_owned()
}

/// The fields of the row that begins at `at`, without their quotes, and `at` behind it; `None`: there is no more.
fn row(text: &[u8], at: &mut usize) -> Option<Vec<Vec<u8>>> {
    let mut row = Vec::new();
    while *at < text.len() {
        let (field, end) = field(text, *at);
        row.push(field);
        *at = match &text[end..] {
            [b',', ..] => end + 1,
            [b'\r', b'\n', ..] => {
                *at = end + 2;
                return Some(row);
            }
            rest => panic!("behind a field: {:?}", String::from_utf8_lossy(rest)),
        };
    }
    assert!(row.is_empty(), "the last row has no end");
    None
}

/// The field that begins at `at`, and where it ends.
fn field(text: &[u8], at: usize) -> (Vec<u8>, usize) {
    let mut field = Vec::new();
    let rest = &text[at..];
    let Some(quoted) = rest.strip_prefix(b"\"") else {
        let special = |byte: &u8| matches!(byte, b'"' | b',' | b'\r' | b'\n');
        let end = rest.iter().position(special).unwrap_or(rest.len());
        return (rest[..end].to_vec(), at + end);
    };
    let mut index = 0;
    loop {
        match &quoted[index..] {
            [b'"', b'"', ..] => {
                field.push(b'"');
                index += 2;
            }
            [b'"', ..] => return (field, at + 1 + index + 1),
            [byte, ..] => {
                field.push(*byte);
                index += 1;
            }
            [] => panic!("a quoted field has no end"),
        }
    }
}

/// Nothing in what is for a terminal commands it but our own colours. JSON never has ASCII's control characters.
fn harmless(options: &Options, text: &[u8]) {
    let is_always = matches!(options.format, Format::Json | Format::Short);
    if !is_always && !options.tame {
        return;
    }
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'\n' => (),
            b'\r' if options.format == Format::Csv && rest.starts_with(b"\n") => (),
            0x1b if options.colours => {
                let end = rest.iter().position(|&byte| byte == b'm').expect("a colour");
                let colour = rest[..end].strip_prefix(b"[").expect("a colour");
                assert!(colour.iter().all(|byte| byte.is_ascii_digit() || *byte == b';'));
                rest = &rest[end + 1..];
            }
            byte => assert!(!byte.is_ascii_control(), "{}", text.escape_ascii()),
        }
    }
    if !options.tame && options.format != Format::Short {
        return;
    }
    for chunk in text.utf8_chunks() {
        // Those that turn the order of what follows, too.
        let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let bad = |c: char| turns(c) || c.is_control() && !c.is_ascii();
        assert!(!chunk.valid().contains(bad), "{}", chunk.valid().escape_debug());
        let bad = chunk.invalid().iter().any(|byte| (0x80..=0x9f).contains(byte));
        assert!(!bad, "{}", chunk.invalid().escape_ascii());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory;

    #[test]
    fn csv_of_many_rows_is_checked_in_the_memory_of_one() {
        const ROWS: usize = 50_000;
        let _alone = memory::alone();
        let text = ["name,a,b,c\r\n", &"x,1,\"2\"\"3\",\r\n".repeat(ROWS)].concat();
        let events = vec![("x".to_owned(), None); ROWS];
        let options = Options {
            format: Format::Csv,
            fields: Some(strata_analyze::render::FieldList::new(&["a"])),
            ..Options::default()
        };
        memory::begin();
        check(&options, text.as_bytes(), &events);
        let most = memory::most();
        assert!(most < 64 << 10, "{most} bytes of memory for {} of text", text.len());
    }
}
