//! Shows a line of a filter with carets below it.

use std::ops::Range;

use strata_text::controls_display;

/// The most columns of a filter that are shown; of a longer filter, a part is shown.
const COLUMNS: usize = 96;
/// The most of these columns before the marked place.
const COLUMNS_BEFORE: usize = 64;

/// Formats the line of the text in which `span` begins, and below it `^^^ note` under the bytes `span`. Characters on
/// which a terminal would act are shown as blanks.
pub(crate) fn excerpt(text: &str, span: Range<usize>, note: &str) -> String {
    let start = floor(text, span.start);
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let end = floor(text, span.end).clamp(start, line_end);

    let from = window_start(text, line_start, start);
    let (mut shown, mut columns) = (String::new(), 0);
    let mut carets = (0, 0);
    if from > line_start {
        (shown, columns) = ("…".to_string(), 1);
    }
    for (at, char) in text[from..line_end].char_indices().map(|(at, char)| (from + at, char)) {
        if at < start {
            carets.0 += width(char);
        } else if at < end {
            carets.1 += width(char);
        }
        if columns + width(char) > COLUMNS {
            shown.push('…');
            break;
        }
        columns += width(char);
        shown.push(if controls_display(char) { ' ' } else { char });
    }
    let before = carets.0 + usize::from(from > line_start);
    let marks = carets.1.clamp(1, COLUMNS.saturating_sub(before).max(1));
    format!("{shown}\n{}{} {note}", " ".repeat(before), "^".repeat(marks))
}

/// Returns the terminal column of a byte in its line, from 1.
pub(crate) fn column(text: &str, at: usize) -> usize {
    let at = floor(text, at);
    let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    1 + text[line_start..at].chars().map(width).sum::<usize>()
}

/// Returns a short form of any text, safe for a message of one line.
pub(crate) fn tame(text: &str) -> String {
    const CHARACTERS: usize = 60;
    let mut tame: String = text
        .chars()
        .take(CHARACTERS)
        .map(|char| if controls_display(char) { '\u{fffd}' } else { char })
        .collect();
    if text.chars().nth(CHARACTERS).is_some() {
        tame.push('…');
    }
    tame
}

fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// Returns the begin of the part that is shown, so that `start` is within it.
fn window_start(text: &str, line_start: usize, start: usize) -> usize {
    let mut columns = 0;
    for (at, char) in text[line_start..start].char_indices().rev() {
        columns += width(char);
        if columns > COLUMNS_BEFORE {
            return line_start + at + char.len_utf8();
        }
    }
    line_start
}

/// Returns the number of terminal columns of a character: 2 for wide scripts and pictures of Unicode, 0 for combining
/// marks, 1 for all others, including rare wide ones.
fn width(char: char) -> usize {
    // Such a character is shown as a space.
    if controls_display(char) {
        return 1;
    }
    match char as u32 {
        0x0300..=0x036f | 0x20d0..=0x20ff | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpt_marks_the_span() {
        assert_eq!(excerpt("a = 1", 2..3, "here"), "a = 1\n  ^ here");
        assert_eq!(excerpt("a + bcd", 4..7, "here"), "a + bcd\n    ^^^ here");
    }

    #[test]
    fn excerpt_at_the_end_has_a_caret_behind_the_text() {
        assert_eq!(excerpt("a &&", 4..4, "here"), "a &&\n    ^ here");
    }

    #[test]
    fn excerpt_of_wide_and_combining_characters_has_the_columns_of_a_terminal() {
        assert_eq!(excerpt("磁気 = 1", 7..8, "x"), "磁気 = 1\n     ^ x");
        assert_eq!(excerpt("é = 1", 3..4, "x"), "é = 1\n  ^ x");
        assert_eq!(excerpt("e\u{301} = 1", 4..5, "x"), "e\u{301} = 1\n  ^ x");
        assert_eq!(column("磁気 = 1", 7), 6);
    }

    #[test]
    fn excerpt_of_several_lines_shows_the_one_that_matters() {
        assert_eq!(excerpt("a &&\n b = 1", 8..9, "x"), " b = 1\n   ^ x");
        assert_eq!(excerpt("a\n\"b\nc", 2..6, "x"), "\"b\n^^ x");
    }

    #[test]
    fn malicious_excerpt_shows_no_control_characters() {
        assert_eq!(excerpt("\x1b[2J\t= 1", 5..6, "x"), " [2J = 1\n     ^ x");
        assert_eq!(tame("a\x1b[2J\n"), "a\u{fffd}[2J\u{fffd}");
        assert_eq!(tame("a\u{202e}b\u{2066}"), "a\u{fffd}b\u{fffd}", "the other way round");
        assert_eq!(tame(&"x".repeat(70)).chars().count(), 61);
    }

    #[test]
    fn excerpt_of_a_long_text_is_cut_on_both_sides() {
        let text = format!("{} = {}", "a".repeat(200), "b".repeat(200));
        let shown = excerpt(&text, 201..202, "x");
        let (line, carets) = shown.split_once('\n').unwrap();
        assert!(line.starts_with('…') && line.ends_with('…'), "{line}");
        assert_eq!(line.chars().position(|char| char == '='), carets.find('^'));
        assert!(line.chars().count() <= COLUMNS + 2);
    }

    #[test]
    fn malicious_span_outside_the_text_is_cut() {
        assert_eq!(excerpt("é", 1..9, "x"), "é\n^ x");
        assert_eq!(excerpt("", 5..9, "x"), "\n^ x");
    }
}
