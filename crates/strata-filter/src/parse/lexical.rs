//! Reads characters, words, numbers and quoted text.

use crate::error::{quoted, Problem};
use crate::expr::Op;
use crate::number::{Number, GREATEST, LEAST};
use crate::pattern::{Pattern, PatternPart};
use crate::unit::{self, Unit};
use crate::word_classes::{begins_word, continues_word};

use super::parse_result::{Result, TextSpan};

/// A place in the text.
pub(crate) struct TextCursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> TextCursor<'t> {
    pub(crate) fn new(text: &'t str) -> TextCursor<'t> {
        TextCursor { text, at: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Moves back to an earlier place.
    pub(crate) fn back(&mut self, at: usize) {
        self.at = at;
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn text(&self, span: &TextSpan) -> &'t str {
        self.text.get(span.clone()).unwrap_or_default()
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(crate) fn at_end(&self) -> bool {
        self.rest().is_empty()
    }

    pub(crate) fn skip_blanks(&mut self) -> &mut Self {
        self.at = self.text.len() - self.rest().trim_start().len();
        self
    }

    pub(crate) fn take(&mut self, what: &str) -> bool {
        let found = self.rest().starts_with(what);
        self.at += if found { what.len() } else { 0 };
        found
    }

    /// Consumes `word` if it stands here as a whole word.
    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        let start = self.at;
        let span = self.word();
        let found = self.text(&span) == word;
        self.at = if found { span.end } else { start };
        found
    }

    /// Takes an operator in one of two spellings, with blanks before it.
    pub(crate) fn take_operator(&mut self, sign: &str, word: &str) -> bool {
        self.skip_blanks();
        self.take(sign) || self.take_word(word)
    }

    pub(crate) fn take_not(&mut self) -> bool {
        let other = self.rest().starts_with("!=") || self.rest().starts_with("!~");
        (!other && self.take("!")) || self.take_word("not")
    }

    /// Takes a comparison operator, if there is one here.
    pub(crate) fn take_comparison(&mut self) -> Result<Option<Op>> {
        let start = self.at;
        let foreign = |found: &str, instead| {
            let problem = Problem::Foreign { found: found.to_string(), instead };
            Err((problem, start..start + found.len()))
        };
        for (found, instead) in
            [("===", "=="), ("!==", "!="), ("=>", ">="), ("=<", "<="), ("<>", "!=")]
        {
            if self.rest().starts_with(found) {
                return foreign(found, instead);
            }
        }
        for sign in ["=~", "!~"] {
            if self.rest().starts_with(sign) {
                return Err((Problem::Regex(sign), start..start + 2));
            }
        }
        for (sign, char) in [("<<", '<'), (">>", '>')] {
            if self.rest().starts_with(sign) {
                return Err((Problem::Arithmetic(char), start..start + 2));
            }
        }
        for (sign, op) in [
            ("==", Op::Equal),
            ("!=", Op::NotEqual),
            ("<=", Op::LessOrEqual),
            (">=", Op::GreaterOrEqual),
            ("<", Op::Less),
            (">", Op::Greater),
        ] {
            if self.take(sign) {
                return Ok(Some(op));
            }
        }
        if self.peek() == Some('=') {
            return foreign("=", "==");
        }
        Ok(None)
    }

    /// Takes a single `&`, the bit test.
    pub(crate) fn take_single_and(&mut self) -> bool {
        !self.rest().starts_with("&&") && self.take("&")
    }

    /// Describes the error if an operator of other languages, or half of one of ours, stands here.
    pub(crate) fn not_an_operator(&self) -> Option<(Problem, TextSpan)> {
        let span = self.at..self.at + 1;
        let problem = match self.peek()? {
            '&' if !self.rest().starts_with("&&") => Problem::SingleAnd,
            '|' if !self.rest().starts_with("||") => {
                Problem::Foreign { found: "|".to_string(), instead: "||" }
            }
            '-' => self.dashed_word().map_or(Problem::Arithmetic('-'), Problem::Dash),
            sign @ ('+' | '/' | '%' | '^' | '~') => Problem::Arithmetic(sign),
            _ => return None,
        };
        Some((problem, span))
    }

    /// Returns the word with a `-` in it that the text seems to mean.
    fn dashed_word(&self) -> Option<String> {
        let part = |char: char| continues_word(char) || char == '-';
        let before = self.text.get(..self.at)?;
        let start = before.trim_end_matches(part).len();
        let behind = self.rest().trim_start_matches(part).len();
        let attached = start < self.at && self.rest().chars().nth(1).is_some_and(continues_word);
        let word = self.text.get(start..self.text.len() - behind)?;
        attached.then(|| quoted(word))
    }

    /// Takes a word with its elements `[…]`. Returns an empty range if there is none.
    pub(crate) fn word(&mut self) -> TextSpan {
        let start = self.at;
        if !self.peek().is_some_and(begins_word) {
            return start..start;
        }
        self.at += self.peek().map_or(0, char::len_utf8);
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start_matches(continues_word).len();
            let Some(inner) = self.rest().strip_prefix('[') else { break };
            match inner.find(']') {
                Some(length) => self.at += length + 2,
                None => {
                    // The bracket is not closed: the word includes it, so that the message can point to it.
                    self.at += 1;
                    break;
                }
            }
        }
        start..self.at
    }

    /// Returns whether a digit precedes this place, with at least one blank between them.
    pub(crate) fn is_behind_digit(&self, at: usize) -> bool {
        let before = self.text.get(..at).unwrap_or_default();
        let number = before.trim_end();
        number.len() < before.len() && number.ends_with(|char: char| char.is_ascii_digit())
    }

    /// Returns the token that stands here, for a message: a word, a number, an operator or one character.
    pub(crate) fn token(&mut self) -> TextSpan {
        let start = self.at;
        let mut end = self.word().end;
        self.at = start;
        let rest = self.rest();
        if end == start {
            end += rest.len() - rest.trim_start_matches(char::is_alphanumeric).len();
        }
        if end == start {
            let signs = ["&&", "||", "==", "!=", "<=", ">=", "..."];
            let sign = signs.into_iter().find(|sign| rest.starts_with(sign)).map(str::len);
            end += sign.or(self.peek().map(char::len_utf8)).unwrap_or(0);
        }
        start..end
    }

    /// Makes the error that `expected` is missing here.
    pub(crate) fn missing(&mut self, expected: &'static str) -> (Problem, TextSpan) {
        let span = self.token();
        let found = match self.text(&span) {
            "" => "the end".to_string(),
            text => format!("'{}'", quoted(text)),
        };
        (Problem::Missing { found, expected }, span)
    }

    /// Takes the points that stand here.
    pub(crate) fn dots(&mut self) -> TextSpan {
        let start = self.at;
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches('.').len();
        start..self.at
    }

    pub(crate) fn at_number(&self) -> bool {
        let rest = self.rest();
        rest.strip_prefix('-').unwrap_or(rest).starts_with(|char: char| char.is_ascii_digit())
    }

    pub(crate) fn number(&mut self) -> Result<(Number, TextSpan)> {
        let start = self.at;
        self.take("-");
        let digits = self.rest();
        let radix = digits.get(..2).is_some_and(|two| matches!(two, "0x" | "0X" | "0b" | "0o"));
        while let Some(char) = self.peek() {
            let behind = self.rest().get(char.len_utf8()..).unwrap_or_default();
            let sign = matches!(char, '+' | '-') && !radix && self.behind_exponent(start);
            let point = char == '.' && !behind.starts_with('.');
            if !(char.is_alphanumeric() || char == '_' || point || sign) {
                break;
            }
            self.at += char.len_utf8();
        }
        let span = start..self.at;
        let number = number(self.text(&span)).map_err(|problem| (problem, span.clone()))?;
        Ok((number, span))
    }

    /// Returns whether the cursor is directly after the `e` of the number that began at `start`.
    fn behind_exponent(&self, start: usize) -> bool {
        let number = self.text(&(start..self.at));
        let mantissa = number.strip_suffix(['e', 'E']).unwrap_or_default();
        let mantissa = mantissa.strip_prefix('-').unwrap_or(mantissa);
        !mantissa.is_empty() && mantissa.chars().all(|char| char.is_ascii_digit() || char == '.')
    }

    /// Takes a text in double quotes.
    pub(crate) fn quoted_text(&mut self) -> Result<(Pattern, TextSpan)> {
        let start = self.at;
        self.take("\"");
        let mut pattern = Pattern::default();
        loop {
            let at = self.at;
            let Some(char) = self.peek() else {
                return Err((Problem::OpenText, start..start + 1));
            };
            self.at += char.len_utf8();
            match char {
                '"' => return Ok((pattern, start..self.at)),
                '*' => pattern.push(PatternPart::Any),
                '?' => pattern.push(PatternPart::One),
                '\\' if self.at_end() => return Err((Problem::OpenText, start..start + 1)),
                '\\' => pattern.push(PatternPart::Text(vec![self.escape(at)?])),
                '\0' => return Err((Problem::ZeroByte("\\0".to_string()), at..self.at)),
                _ => pattern.push(PatternPart::Text(self.text(&(at..self.at)).as_bytes().to_vec())),
            }
        }
    }

    /// Takes an escape sequence whose backslash is at `start`. Returns its byte.
    fn escape(&mut self, start: usize) -> Result<u8> {
        let char = self.peek().unwrap_or(' ');
        let (digits, radix) = match char {
            'x' => (self.rest().get(1..3), 16),
            '0'..='7' => {
                let rest = self.rest();
                let other = |char: char| !matches!(char, '0'..='7');
                let count = rest.find(other).unwrap_or(rest.len()).min(3);
                (rest.get(..count), 8)
            }
            _ => (None, 10),
        };
        let digits = digits.filter(|digits| digits.chars().all(|char| char.is_digit(radix)));
        let code = match (char, digits) {
            ('x' | '0'..='7', Some(digits)) => {
                self.at += digits.len() + usize::from(char == 'x');
                u8::from_str_radix(digits, radix).ok()
            }
            _ => {
                self.at += char.len_utf8();
                simple_escape(char)
            }
        };
        let span = start..self.at;
        let text = || quoted(self.text(&span));
        match code {
            Some(0) => Err((Problem::ZeroByte(text()), span)),
            Some(code) => Ok(code),
            None => Err((Problem::BadEscape(text()), span)),
        }
    }
}

fn simple_escape(char: char) -> Option<u8> {
    Some(match char {
        'n' => b'\n',
        't' => b'\t',
        'r' => b'\r',
        'a' => 7,
        'b' => 8,
        'v' => 11,
        'f' => 12,
        '\\' | '"' | '\'' | '*' | '?' => char as u8,
        _ => return None,
    })
}

/// Parses a number without blanks that begins with a digit, or with `-` and a digit.
fn number(text: &str) -> std::result::Result<Number, Problem> {
    let bad = |why| Err(Problem::BadNumber { text: quoted(text), why });
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        _ => (10, digits),
    };
    if radix == 10 {
        if let Some((digits, unit)) = split_unit(digits) {
            let Some(unit) = Unit::find(unit) else {
                return Err(unknown_unit(text, unit));
            };
            return unit.number(negative, digits).map_err(|out_of_range| match out_of_range {
                true => {
                    let limit = if negative { LEAST } else { GREATEST }.to_string();
                    Problem::NumberRange { text: quoted(text), limit }
                }
                false => Problem::BadNumber { text: quoted(text), why: NOT_DECIMAL },
            });
        }
    }
    let wrong = |char: char| !char.is_digit(radix);
    if radix != 10 && (digits.is_empty() || digits.contains(wrong)) {
        return bad(match radix {
            16 => "behind '0x' are only 0 to 9 and a to f",
            8 => "behind '0o' are only 0 to 7",
            _ => "behind '0b' are only 0 and 1",
        });
    }
    if radix == 10 && digits.contains(wrong) {
        return real(text, digits);
    }
    if radix == 10 && digits.len() > 1 && digits.starts_with('0') {
        return bad("a 0 in front is octal elsewhere: write 0o17, or leave it out");
    }
    // A number with more digits than i128 can hold is out of range as well.
    let value = i128::from_str_radix(digits, radix).ok().and_then(|value| match negative {
        true => value.checked_neg(),
        false => Some(value),
    });
    match value.filter(|value| (LEAST..=GREATEST).contains(value)) {
        Some(value) => Ok(Number::Integer(value)),
        None => {
            let limit = if negative { LEAST } else { GREATEST }.to_string();
            Err(Problem::NumberRange { text: quoted(text), limit })
        }
    }
}

/// The message for a unit after something that is not a decimal number.
const NOT_DECIMAL: &str = "a unit stands behind digits, with one point among them or none: 1.5ms";

/// Splits a number from the letters after it; `None` if there are none. An exponent is part of the number.
fn split_unit(digits: &str) -> Option<(&str, &str)> {
    let is_part = |char: char| char.is_ascii_digit() || char == '.';
    let end = digits.find(|char| !is_part(char))?;
    let (number, unit) = digits.split_at(end);
    let exponent = unit.strip_prefix(['e', 'E']);
    let exponent = exponent.map(|power| power.strip_prefix(['+', '-']).unwrap_or(power));
    // Errors in `1e` and `1ex` are reported as those of a real number.
    let is_exponent = exponent.is_some_and(|power| !power.starts_with(char::is_alphabetic));
    let is_unit = unit.starts_with(|char: char| char.is_alphabetic());
    (is_unit && !is_exponent).then_some((number, unit))
}

fn unknown_unit(text: &str, unit: &str) -> Problem {
    let similar = unit::similar_unit(unit).map(str::to_owned);
    Problem::Unit { text: quoted(text), unit: quoted(unit), similar }
}

/// Parses a real number. `digits` is `text` without its sign, and does not consist of digits alone.
fn real(text: &str, digits: &str) -> std::result::Result<Number, Problem> {
    let bad = |why| Err(Problem::BadNumber { text: quoted(text), why });
    let number = |part: &str| !part.is_empty() && part.chars().all(|char| char.is_ascii_digit());
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (digits, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    if !number(whole)
        || fraction.is_some_and(|fraction| fraction.contains(|c: char| c.is_alphabetic()))
    {
        return bad("it has no '_' in it, and names that begin with a digit are quoted");
    }
    if fraction.is_some_and(|fraction| !number(fraction)) {
        return bad("digits follow the point");
    }
    if exponent.is_some_and(|power| !number(power.strip_prefix(['+', '-']).unwrap_or(power))) {
        return bad("a whole number follows the 'e'");
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Number::Real(value)),
        _ => {
            let limit = if text.starts_with('-') { f64::MIN } else { f64::MAX };
            Err(Problem::NumberRange { text: quoted(text), limit: format!("{limit:e}") })
        }
    }
}
