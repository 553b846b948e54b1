//! Escapes text of a trace, which may be any bytes, for use in quotes and on a terminal.

use strata_text::controls_display;

use super::format::Format;
use super::line::TextSink;

/// The escape of each byte in quoted text: 0 for the byte itself, `x` for `\x` and two digits, else `\` and this
/// letter.
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

/// Writes a text as a C string. Bytes of 0x80 and above are not escaped.
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

/// Writes bytes as hexadecimal digits.
pub fn hex(out: &mut impl TextSink, bytes: &[u8]) {
    for &byte in bytes {
        out.put(&hex_digits(byte), 2);
    }
}

/// Writes text without ASCII's control characters, for use without quotes on a terminal.
pub fn tame(out: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        match is_control(byte) {
            true => backslash_x(out, &[byte]),
            false => out.push(byte),
        }
    }
}

/// Writes any text without control sequences for a terminal. Bytes that are not UTF-8 are shown as numbers.
pub fn tame_text(out: &mut Vec<u8>, text: &[u8]) {
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut bytes = [0; 4];
            let bytes = character.encode_utf8(&mut bytes).as_bytes();
            match controls_display(character) && !character.is_ascii() {
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

/// Removes control sequences for a terminal from the line that begins at `begin`, except colours in text. ASCII
/// characters are already escaped there, and so is all JSON.
pub fn tame_line(out: &mut Vec<u8>, begin: usize, format: Format) {
    if format == Format::Json {
        return;
    }
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
                '\0'..='\u{7f}' if is_csv => tame(&mut tamed, bytes),
                '\0'..='\u{7f}' => tamed.extend_from_slice(bytes),
                // JSON's own way.
                _ if controls_display(character) && is_csv => {
                    tamed.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
                }
                _ if controls_display(character) => backslash_x(&mut tamed, bytes),
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

/// Puts the CSV field that begins at `begin` in quotes if it needs them (RFC 4180).
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
        let (text, csv) = (Format::Text, Format::Csv);
        for (format, hostile, wanted) in [
            (text, "a\u{9b}2Jb ü\n".as_bytes(), "a\\xc2\\x9b2Jb ü\n"),
            (text, b"a\x9b2J\xff\n", "a\\x9b2J\u{fffd}\n"),
            (
                text,
                "\x1b[1mcolour\x1b[0m \u{202e}x\n".as_bytes(),
                "\x1b[1mcolour\x1b[0m \\xe2\\x80\\xaex\n",
            ),
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
