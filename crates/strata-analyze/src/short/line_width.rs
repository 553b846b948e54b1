//! Cuts lines to the width of a terminal.

/// The text that replaces the cut end of a line.
const CUT: &str = "…";

/// Returns the number of columns that a character takes on a terminal.
fn columns(character: char) -> usize {
    match u32::from(character) {
        0x300..=0x36f | 0x200b..=0x200d | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// Adds lines, each cut to `width` columns. Control sequences for colours take no columns.
pub(super) fn cut(out: &mut Vec<u8>, lines: &[u8], width: usize) {
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        // Bytes are at least as many as columns.
        if line.len() <= width {
            out.extend_from_slice(line);
            continue;
        }
        one(out, line, width);
    }
}

fn one(out: &mut Vec<u8>, line: &[u8], width: usize) {
    let end = line.ends_with(b"\n");
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    let (mut used, mut has_colour, mut escape) = (0, false, false);
    // Where it is cut if it is too long.
    let (mut at, mut at_colour) = (0, false);
    let mut position = 0;
    let mut is_long = false;
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            if escape {
                escape = character != 'm';
            } else if character == '\x1b' {
                escape = true;
                has_colour = true;
            } else {
                used += columns(character);
            }
            if used > width {
                is_long = true;
                break;
            }
            position += character.len_utf8();
            if used < width {
                (at, at_colour) = (position, has_colour);
            }
        }
        if is_long {
            break;
        }
        used += chunk.invalid().len();
        position += chunk.invalid().len();
        if used < width {
            (at, at_colour) = (position, has_colour);
        }
    }
    if !is_long && used <= width {
        return out.extend_from_slice(line);
    }
    out.extend_from_slice(text.get(..at).unwrap_or(text));
    out.extend_from_slice(CUT.as_bytes());
    if at_colour {
        out.extend_from_slice(b"\x1b[0m");
    }
    if end {
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(lines: &str, width: usize) -> String {
        let mut out = Vec::new();
        cut(&mut out, lines.as_bytes(), width);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn line_that_is_longer_than_the_terminal_is_cut() {
        assert_eq!(done("12345\n1234\n", 5), "12345\n1234\n");
        assert_eq!(done("123456\n", 5), "1234…\n");
        assert_eq!(done("123456", 5), "1234…");
        assert_eq!(done("äöüßé\näöüßéa\n", 5), "äöüßé\näöüß…\n");
        assert_eq!(done("漢字漢字\n", 8), "漢字漢字\n");
        assert_eq!(done("漢字漢字\n", 7), "漢字漢…\n");
        assert_eq!(done("漢字漢字\n", 6), "漢字…\n");
        assert_eq!(done("e\u{301}e\u{301}e\u{301}\n", 3), "e\u{301}e\u{301}e\u{301}\n");
    }

    #[test]
    fn colours_take_no_columns_and_end_where_a_line_is_cut() {
        assert_eq!(done("\x1b[1;33mab\x1b[0mcde\n", 5), "\x1b[1;33mab\x1b[0mcde\n");
        assert_eq!(done("\x1b[1;33mabcdef\x1b[0m\n", 4), "\x1b[1;33mabc…\x1b[0m\n");
    }
}
