//! Texts of call stack frames, and texts that are written once and then referred to by number.

use std::collections::HashMap;

use super::proto::InternedString;
use super::samples::in_object;
use strata_analyze::debug_info::StackFrame;

/// The most texts that get numbers. Others are written in full each time.
const TEXTS_MAX: usize = if cfg!(test) { 6 } else { 1 << 18 };
/// The greatest size of all texts \[byte\].
const BYTES_MAX: usize = 64 << 20;
/// The most bytes of the text of one frame. Names of templates may be longer.
const FRAME_BYTES_MAX: usize = 1024;

/// Returns the text of a frame, `pay+0x7e (shop.c:18)`. If its line is unknown, it has the object, `write+0x1d
/// (libc.so.6)`.
pub(super) fn text_of(frame: &StackFrame) -> String {
    let (place, mut text) = (&frame.place, frame.text());
    if place.source.is_empty() && !place.function.is_empty() && !place.binary.is_empty() {
        text = [&text[..], b" (", in_object(&place.binary).0, b")"].concat();
    }
    let mut text = String::from_utf8_lossy(&text).into_owned();
    if text.len() > FRAME_BYTES_MAX {
        let end = (0..=FRAME_BYTES_MAX).rev().find(|&at| text.is_char_boundary(at));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}

/// A table of numbered texts. Shares of the work that write one sequence in turns use different numbers, since no
/// share knows the texts of the others.
#[derive(Debug)]
pub(super) struct InternedTexts {
    numbers: HashMap<Box<str>, u64>,
    /// The next number; `step` is the distance to the one after it.
    next: u64,
    step: u64,
    bytes: usize,
    /// Texts that no packet has contained yet.
    pub fresh: Vec<InternedString>,
}

impl InternedTexts {
    /// Returns an empty table for share `number` of `of`. Its numbers are different from those of all other shares.
    pub(super) fn of_share(number: usize, of: usize) -> InternedTexts {
        InternedTexts {
            numbers: HashMap::new(),
            next: number as u64 + 1,
            step: of.max(1) as u64,
            bytes: 0,
            fresh: Vec::new(),
        }
    }

    /// Returns the number of a text; `None` if there are too many texts.
    pub(super) fn number(&mut self, text: &str) -> Option<u64> {
        if let Some(&number) = self.numbers.get(text) {
            return Some(number);
        }
        let bytes = self.bytes.saturating_add(text.len());
        if self.numbers.len() >= TEXTS_MAX || bytes > BYTES_MAX {
            return None;
        }
        let number = self.next;
        (self.bytes, self.next) = (bytes, number.saturating_add(self.step));
        self.numbers.insert(text.into(), number);
        let str = Some(text.as_bytes().to_vec());
        self.fresh.push(InternedString { iid: Some(number), str });
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use strata_analyze::debug_info::ResolvedPlace;

    fn text(function: &str, binary: &str, source: &str) -> String {
        let [function, binary, source] =
            [function, binary, source].map(|it| it.as_bytes().to_vec());
        text_of(&StackFrame {
            address: 0x1450,
            place: Rc::new(ResolvedPlace { binary, function, source, ..ResolvedPlace::default() }),
        })
    }

    #[test]
    fn frame_is_a_function_with_its_line_or_object_or_what_else_is_known() {
        assert_eq!(text("pay+0x7e", "shop+0x1450", "shop.c:18"), "pay+0x7e (shop.c:18)");
        assert_eq!(text("write+0x1d", "libc.so.6+0x1e", ""), "write+0x1d (libc.so.6)");
        assert_eq!(text("do_exit+0x2", "", ""), "do_exit+0x2");
        assert_eq!(text("", "shop+0x1450", ""), "shop+0x1450");
        assert_eq!(text("", "", ""), "0x1450");
    }

    #[test]
    fn malicious_name_of_a_frame_is_cut_between_characters() {
        let long = text(&"é".repeat(5000), "", "");
        assert_eq!(long.len(), FRAME_BYTES_MAX + '…'.len_utf8(), "{long}");
        assert!(long.ends_with("é…"), "{long}");
        let odd = text(&format!("x{}", "é".repeat(5000)), "", "");
        assert!(odd.len() < FRAME_BYTES_MAX + '…'.len_utf8() && odd.ends_with("é…"), "{odd}");
    }

    #[test]
    fn texts_of_two_shares_have_no_number_in_common_and_those_beyond_the_limit_have_none() {
        let numbers = |share| {
            let mut texts = InternedTexts::of_share(share, 2);
            let found: Vec<Option<u64>> =
                (0..TEXTS_MAX + 2).map(|at| texts.number(&at.to_string())).collect();
            assert_eq!(texts.number("0"), found[0], "it keeps its number");
            assert_eq!(texts.fresh.len(), TEXTS_MAX);
            found
        };
        let (first, second) = (numbers(0), numbers(1));
        assert_eq!(first[..3], [Some(1), Some(3), Some(5)]);
        assert_eq!(second[..3], [Some(2), Some(4), Some(6)]);
        assert_eq!(first[TEXTS_MAX - 1..], [Some(TEXTS_MAX as u64 * 2 - 1), None, None]);
    }
}
