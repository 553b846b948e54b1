//! Evaluates constant expressions of C, as far as tables of names contain them.

use super::declaration::{base_type, type_bytes};
use super::Enumerators;

/// The most levels of nested expressions: the text is not trusted, and each level takes stack.
const DEPTH: u32 = 64;

/// Returns the value of an expression of numbers, enumerators, casts and operators; `None` if the text is no such
/// expression, or has a name whose value is not known.
pub(super) fn value(text: &str, enumerator: Enumerators<'_>) -> Option<i128> {
    let mut parser = ExpressionParser { rest: text.trim(), depth: 0, enumerator };
    let value = parser.binary(0)?;
    parser.rest.is_empty().then_some(value)
}

struct ExpressionParser<'a> {
    rest: &'a str,
    depth: u32,
    enumerator: Enumerators<'a>,
}

/// The operators of C by precedence, the weakest first. In one row, longer operators precede shorter ones.
const OPERATORS: [&[&str]; 6] =
    [&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "/", "%"]];

impl<'a> ExpressionParser<'a> {
    fn take(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn binary(&mut self, level: usize) -> Option<i128> {
        let Some(row) = OPERATORS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        'more: loop {
            // `||`, `&&` and comparisons occur in no table.
            for operator in *row {
                if self.take(operator) {
                    left = apply(operator, left, self.binary(level + 1)?)?;
                    continue 'more;
                }
            }
            return Some(left);
        }
    }

    fn unary(&mut self) -> Option<i128> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let value = if self.take("-") {
            self.unary().and_then(i128::checked_neg)
        } else if self.take("~") {
            self.unary().map(|value| !value)
        } else if self.take("+") {
            self.unary()
        } else if self.take("(") {
            self.parenthesis()
        } else {
            self.number()
        };
        self.depth -= 1;
        value
    }

    /// Parses what follows an opening parenthesis: a cast and its operand, or an expression.
    fn parenthesis(&mut self) -> Option<i128> {
        if let Some((words, behind)) = self.rest.split_once(')') {
            let is_type = words
                .starts_with(|first: char| first == '_' || first.is_ascii_alphabetic())
                && words.chars().all(|c| c.is_ascii_alphanumeric() || "_ ".contains(c));
            if is_type && (self.enumerator)(words.trim()).is_none() {
                self.rest = behind.trim_start();
                let value = self.unary()?;
                return Some(cast(value, words));
            }
        }
        let value = self.binary(0)?;
        self.take(")").then_some(value)
    }

    fn number(&mut self) -> Option<i128> {
        let is_end = |c: char| c != '_' && !c.is_ascii_alphanumeric();
        let (word, behind) = self.rest.split_at(self.rest.find(is_end).unwrap_or(self.rest.len()));
        if word.starts_with(|first: char| first == '_' || first.is_ascii_alphabetic()) {
            self.rest = behind.trim_start();
            return (self.enumerator)(word);
        }
        let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
        let value = if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
            u64::from_str_radix(hex, 16).ok()?
        } else if digits.len() > 1 && digits.starts_with('0') {
            u64::from_str_radix(digits, 8).ok()?
        } else {
            digits.parse().ok()?
        };
        self.rest = behind.trim_start();
        Some(value.into())
    }
}

fn apply(operator: &str, left: i128, right: i128) -> Option<i128> {
    let shift = || u32::try_from(right).ok().filter(|bits| *bits < 64);
    let value = match operator {
        "|" => left | right,
        "^" => left ^ right,
        "&" => left & right,
        "<<" => left.checked_mul(1i128 << shift()?)?,
        ">>" => left >> shift()?,
        "+" => left.checked_add(right)?,
        "-" => left.checked_sub(right)?,
        "*" => left.checked_mul(right)?,
        "/" => left.checked_div(right)?,
        "%" => left.checked_rem(right)?,
        _ => return None,
    };
    // No more than any integer of C holds.
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value).then_some(value)
}

/// Converts a value to a type in C; leaves it as it is for an unknown type.
fn cast(value: i128, words: &str) -> i128 {
    let base = base_type(words);
    let is_unsigned = base.starts_with('u') || base.starts_with("__u") || base == "size_t";
    match type_bytes(&base) {
        Some(1) if is_unsigned => i128::from(value as u8),
        Some(2) if is_unsigned => i128::from(value as u16),
        Some(4) if is_unsigned => i128::from(value as u32),
        Some(8) if is_unsigned => i128::from(value as u64),
        Some(1) => i128::from(value as i8),
        Some(2) => i128::from(value as i16),
        Some(4) => i128::from(value as i32),
        Some(8) => i128::from(value as i64),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    fn value(text: &str) -> Option<i128> {
        super::value(text, &|name| (name == "KNOWN_2").then_some(5))
    }

    #[test]
    fn value_of_an_enumerator_is_asked_for() {
        for (text, expected) in
            [("KNOWN_2", 5), ("(KNOWN_2)", 5), ("(KNOWN_2) - 1", 4), ("1 << KNOWN_2", 32)]
        {
            assert_eq!(value(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn value_of_what_tables_have_is_as_in_c() {
        for (text, expected) in [
            ("0", 0),
            ("0x1F", 31),
            ("010", 8),
            (" -9ULL ", -9),
            ("(1 << 3)", 8),
            ("(1UL << (10))|((1UL) << (11))", 0xc00),
            ("1 + 2 * 3 - 4 / 2 % 3", 5),
            ("~0x0F & 0xFF", 0xf0),
            ("(u8)-1", 255),
            ("( unsigned long)(( unsigned int)((((1UL))) << (24)))", 1 << 24),
            ("1 << 2 | 1 ^ 1", 4),
            ("0xffffffffffffffffULL", u64::MAX.into()),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn value_of_what_only_the_compiler_knows_is_none() {
        for text in [
            "TCP_CLOSE",
            "1 << BIT",
            "REC->x",
            "(FOO)",
            "sizeof(int)",
            "1 ? 2 : 3",
            "1 << 64",
            "1 << -1",
            "1 / 0",
            "1 %",
            "",
            "(",
            ")",
            "08",
            "0x",
            "1 2",
            "1 || 2",
            "-",
        ] {
            assert_eq!(value(text), None, "{text}");
        }
    }

    #[test]
    fn value_when_nested_too_deep_is_none() {
        for open in ["(", "-", "~", "(int)"] {
            assert_eq!(value(&open.repeat(100_000)), None, "{open}");
        }
    }
}
