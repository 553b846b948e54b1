//! Text of a trace, which may be any bytes: inside quotes, and on a terminal.

use super::format::Format;
use super::line::TextSink;

/// What stands for a byte in quoted text; 0: the byte itself, `x`: `\x` and two digits, else `\` and this.
const ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        escapes[byte] = b'x';
        byte += 1;
    }
    escapes[0x7f] = b'x';
    escapes[0x07] = b'a';
    escapes[0x08] = b'b';
    escapes[b'\t' as usize] = b't';
    escapes[b'\n' as usize] = b'n';
    escapes[0x0b] = b'v';
    escapes[0x0c] = b'f';
    escapes[b'\r' as usize] = b'r';
    escapes[0x1b] = b'e';
    escapes[b'"' as usize] = b'"';
    escapes[b'\'' as usize] = b'\'';
    escapes[b'?' as usize] = b'?';
    escapes[b'\\' as usize] = b'\\';
    escapes
};

const HEX: &[u8; 16] = b"0123456789abcdef";

fn hex_digits(byte: u8) -> [u8; 2] {
    [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]
}

/// As a C string has it; bytes from 0x80 on stay as they are.
#[inline]
pub fn c_quoted(out: &mut impl TextSink, text: &[u8]) {
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| ESCAPES[usize::from(byte)] != 0) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((&byte, behind)) = special.split_first() else { break };
        out.push(b'\\');
        match ESCAPES[usize::from(byte)] {
            b'x' => {
                out.push(b'x');
                out.extend_from_slice(&hex_digits(byte));
            }
            escape => out.push(escape),
        }
        rest = behind;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// As JSON has it. What is no UTF-8 becomes U+FFFD.
pub fn json_quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for chunk in text.utf8_chunks() {
        json_plain(out, chunk.valid().as_bytes());
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out.push(b'"');
}

fn json_plain(out: &mut Vec<u8>, text: &[u8]) {
    let special = |byte: &u8| *byte < 0x20 || matches!(*byte, b'"' | b'\\' | 0x7f);
    let mut rest = text;
    while let Some(at) = rest.iter().position(special) {
        let (plain, behind) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((&byte, behind)) = behind.split_first() else { break };
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&hex_digits(byte));
            }
        }
        rest = behind;
    }
    out.extend_from_slice(rest);
}

/// Bytes as hexadecimal digits.
pub fn hex(out: &mut impl TextSink, bytes: &[u8]) {
    for &byte in bytes {
        out.put(&hex_digits(byte), 2);
    }
}

/// Text without ASCII's control characters, for where it stands without quotes on a terminal.
pub fn tame(out: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        match is_control(byte) {
            true => backslash_x(out, &[byte]),
            false => out.push(byte),
        }
    }
}

/// The same for any text: without all that would command a terminal. What is not UTF-8 is shown as its bytes.
pub fn tame_text(out: &mut Vec<u8>, text: &[u8]) {
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut bytes = [0; 4];
            let bytes = character.encode_utf8(&mut bytes).as_bytes();
            match commands(character) {
                true => backslash_x(out, bytes),
                false => tame(out, bytes),
            }
        }
        backslash_x(out, chunk.invalid());
    }
}

fn is_control(byte: u8) -> bool {
    byte < 0x20 || byte == 0x7f
}

fn backslash_x(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        out.extend_from_slice(b"\\x");
        out.extend_from_slice(&hex_digits(byte));
    }
}

/// Control characters beyond ASCII, of which U+009B begins a command as ESC [ does, and those that change
/// the order in which a terminal shows what follows.
fn commands(character: char) -> bool {
    matches!(character, '\u{80}'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}')
}

/// Make the line that begins at `begin` one that commands no terminal, but for colours in text: its ASCII
/// is harmless already, as is that of JSON.
pub fn tame_line(out: &mut Vec<u8>, begin: usize, format: Format) {
    let line = out.get(begin..).unwrap_or_default();
    let end: &[u8] = if line.ends_with(b"\r\n") { b"\r\n" } else { b"\n" };
    let Some(line) = line.strip_suffix(end) else { return };
    let is_csv = format == Format::Csv;
    if line.is_ascii() && !(is_csv && line.iter().any(|&byte| is_control(byte))) {
        return;
    }
    let mut tamed = Vec::with_capacity(line.len() + 64);
    for chunk in line.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut bytes = [0; 4];
            let bytes = character.encode_utf8(&mut bytes).as_bytes();
            match character {
                _ if commands(character) && format == Format::Text => {
                    backslash_x(&mut tamed, bytes);
                }
                // JSON's own way; all of them have four digits.
                _ if commands(character) => {
                    tamed.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
                }
                '\0'..='\u{7f}' if is_csv => tame(&mut tamed, bytes),
                _ => tamed.extend_from_slice(bytes),
            }
        }
        for &byte in chunk.invalid() {
            match byte {
                // The same control characters, where a terminal's characters have 8 bits.
                0x80..=0x9f => backslash_x(&mut tamed, &[byte]),
                _ => tamed.push(byte),
            }
        }
    }
    tamed.extend_from_slice(end);
    out.truncate(begin);
    out.extend_from_slice(&tamed);
}

/// Make the field that begins at `begin` one of CSV: quoted where it must be (RFC 4180).
pub fn csv_quote(out: &mut Vec<u8>, begin: usize) {
    let field = out.get(begin..).unwrap_or_default();
    if !field.iter().any(|byte| matches!(byte, b'"' | b',' | b'\n' | b'\r')) {
        return;
    }
    let mut quoted = Vec::with_capacity(field.len() + field.len() / 4 + 2);
    quoted.push(b'"');
    for piece in field.split_inclusive(|&byte| byte == b'"') {
        quoted.extend_from_slice(piece);
        if piece.ends_with(b"\"") {
            quoted.push(b'"');
        }
    }
    quoted.push(b'"');
    out.truncate(begin);
    out.extend_from_slice(&quoted);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    #[test]
    fn c_quoted_escapes_what_c_escapes() {
        let all: Vec<u8> = (1..=255).collect();
        let wanted = concat!(
            r#""\x01\x02\x03\x04\x05\x06\a\b\t\n\v\f\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\e"#,
            r##"\x1c\x1d\x1e\x1f !\"#$%&\'()*+,-./0123456789:;<=>\?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"##,
            r#"abcdefghijklmnopqrstuvwxyz{|}~\x7f"#
        );
        let mut wanted = wanted.as_bytes().to_vec();
        wanted.extend(0x80..=0xff_u8);
        wanted.push(b'"');
        assert_eq!(done(|out| c_quoted(out, &all)), wanted);
        assert_eq!(done(|out| c_quoted(out, b"")), b"\"\"");
    }

    #[test]
    fn malicious_text_in_json_is_valid_utf_8() {
        let text = done(|out| json_quoted(out, b"a\"b\\\n\x01\x7f\xff\xfe\xc3\xbc\xe2\x82"));
        let wanted = "\"a\\\"b\\\\\\n\\u0001\\u007f\u{fffd}\u{fffd}ü\u{fffd}\"";
        assert_eq!(String::from_utf8(text).unwrap(), wanted);
    }

    #[test]
    fn csv_field_is_quoted_only_where_it_must_be() {
        for (field, wanted) in [
            ("plain x", "plain x"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("two\nlines", "\"two\nlines\""),
        ] {
            let text = done(|out| {
                out.extend_from_slice(b"x,");
                out.extend_from_slice(field.as_bytes());
                csv_quote(out, 2);
            });
            assert_eq!(String::from_utf8(text).unwrap(), format!("x,{wanted}"));
        }
    }

    #[test]
    fn malicious_line_on_a_terminal_commands_nothing() {
        let line = |format, line: &[u8]| {
            done(|out| {
                out.extend_from_slice("before\u{9b}".as_bytes());
                let begin = out.len();
                out.extend_from_slice(line);
                tame_line(out, begin, format);
                assert_eq!(out.drain(..begin).count(), begin);
            })
        };
        let (text, json, csv) = (Format::Text, Format::Json, Format::Csv);
        for (format, hostile, wanted) in [
            (text, "a\u{9b}2Jb ü\n".as_bytes(), "a\\xc2\\x9b2Jb ü\n"),
            (text, b"a\x9b2J\xff\n", "a\\x9b2J\u{fffd}\n"),
            (
                text,
                "\x1b[1mcolour\x1b[0m \u{202e}x\n".as_bytes(),
                "\x1b[1mcolour\x1b[0m \\xe2\\x80\\xaex\n",
            ),
            (json, "{\"a\":\"\u{9b}\u{202e}ü\"}\n".as_bytes(), "{\"a\":\"\\u009b\\u202eü\"}\n"),
            (
                csv,
                "\x1b]0;x\x07,\"a\r\nb\",\u{9b}ü\r\n".as_bytes(),
                "\\x1b]0;x\\x07,\"a\\x0d\\x0ab\",\\u009bü\r\n",
            ),
            (csv, b"plain,1\r\n", "plain,1\r\n"),
        ] {
            assert_eq!(String::from_utf8_lossy(&line(format, hostile)), wanted);
        }
    }

    #[test]
    fn blob_is_two_digits_for_each_byte() {
        assert_eq!(done(|out| hex(out, &[0, 0x1f, 0xff])), b"001fff");
    }
}
