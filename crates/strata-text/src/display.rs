//! Characters that control a display instead of being shown, and how to escape them.

use std::borrow::Cow;

/// Returns whether a terminal, an editor or a script acts on `character` instead of showing it.
///
/// | characters | what they do |
/// |---|---|
/// | U+0000..U+001F, U+007F..U+009F | control a terminal: U+009B begins a command as ESC `[` does, U+0085 ends a line |
/// | U+061C, U+200E, U+200F, U+202A..U+202E, U+2066..U+2069 | change the order in which what follows is shown |
/// | U+2028, U+2029 | end a line of JavaScript, and of many editors |
/// | U+FEFF, U+FFFE, U+FFFF | are marks of byte order, or no characters |
/// | the others | show nothing, so that two different names look the same, or join characters |
#[must_use]
pub const fn controls_display(character: char) -> bool {
    matches!(character,
        '\0'..='\u{1f}'
        | '\u{7f}'..='\u{9f}'
        | '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{fffe}'..='\u{ffff}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e00ff}')
}

/// Returns a text of one line for people: each character that [`controls_display`] becomes an escape such as `\u{9b}`
/// or `\n`.
#[must_use]
pub fn clean(text: &str) -> String {
    match text.chars().any(controls_display) {
        true => escaped(text, controls_display),
        false => text.to_owned(),
    }
}

/// Returns a text of several lines for people. It keeps line ends and colours: sequences of ESC `[`, digits and `;`,
/// and `m`. Other characters that [`controls_display`] become escapes, as [`clean`] makes them.
///
/// Each part of an answer already goes through [`clean`] where the answer is made. This is the final check before it is
/// printed.
#[must_use]
pub fn clean_lines(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| matches!(byte, b'\n' | 0x20..=0x7e);
    if text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let length = match character {
            '\x1b' => colour(rest).unwrap_or(0),
            '\n' => 1,
            other if controls_display(other) => 0,
            other => other.len_utf8(),
        };
        if let (1.., Some((kept, behind))) = (length, rest.split_at_checked(length)) {
            out.push_str(kept);
            rest = behind;
        } else {
            out.extend(character.escape_default());
            rest = rest.get(character.len_utf8()..).unwrap_or_default();
        }
    }
    Cow::Owned(out)
}

/// Returns the size of the sequence at the begin of `text`, if it only sets a colour \[byte\].
fn colour(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\x1b[")?;
    let end = parameters.find(|character: char| !matches!(character, '0'..='9' | ';'))?;
    parameters.get(end..)?.starts_with('m').then_some(end + 3)
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_escaped(character) {
            true => out.extend(character.escape_default()),
            false => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malicious_characters_of_each_kind_control_the_display() {
        let ranges = [
            ('\0', '\u{1f}'),
            ('\u{7f}', '\u{9f}'),
            ('\u{61c}', '\u{61c}'),
            ('\u{200e}', '\u{200f}'),
            ('\u{202a}', '\u{202e}'),
            ('\u{2066}', '\u{2069}'),
            ('\u{2028}', '\u{2029}'),
            ('\u{feff}', '\u{feff}'),
            ('\u{e0020}', '\u{e007f}'),
        ];
        for (from, to) in ranges {
            for character in from..=to {
                assert!(controls_display(character), "{character:?}");
                assert!(!clean(&format!("a{character}b")).contains(character), "{character:?}");
            }
        }
        for plain in " aZ~\u{a0}äßЖ中文🦀é\u{300}\u{fe0f}\u{fffd}−…█".chars() {
            assert!(!controls_display(plain), "{plain:?}");
        }
    }

    #[test]
    fn clean_of_a_plain_text_is_the_same() {
        assert_eq!(clean("größe 中文"), "größe 中文");
        assert_eq!(clean("a\x1b[2J\n\u{9b}\u{202e}b"), "a\\u{1b}[2J\\n\\u{9b}\\u{202e}b");
    }

    #[test]
    fn clean_lines_keep_line_ends_and_colours_only() {
        for same in ["", "plain\nlines\n", "\x1b[1;31mred\x1b[0m ü\n", "\x1b[m"] {
            assert_eq!(clean_lines(same), same);
        }
        for (text, wanted) in [
            ("\x1b[2J", "\\u{1b}[2J"),
            ("\x1b[31", "\\u{1b}[31"),
            ("\x1b", "\\u{1b}"),
            ("\x1b]0;x\x07", "\\u{1b}]0;x\\u{7}"),
            ("\x1b[1ümx", "\\u{1b}[1ümx"),
            ("a\r\tb\u{9b}31m\u{2028}", "a\\r\\tb\\u{9b}31m\\u{2028}"),
        ] {
            assert_eq!(clean_lines(text), wanted);
        }
    }
}
