//! Lengths of time as people write them, parsed in one way for all flags of all commands.

use std::time::Duration;

/// The error for a text that is not a length of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LengthError {
    /// The text is not a number with a unit.
    #[error(
        "'{0}' is no length of time; write a number with ns, us, ms, s, m or h behind it, such as 500ms, \
         1.5s, 2m; without a unit it is seconds"
    )]
    Unknown(String),
    /// The length is beyond the greatest one that is supported.
    #[error("'{0}' is longer than 292 years, which 64 bits of nanoseconds hold")]
    TooLong(String),
}

/// Parses a length of time such as `500ms`, `1.5s`, `2m` or `1h`, in seconds if it has no unit. Returns it in \[ns\];
/// fractions of a nanosecond are cut off.
///
/// # Errors
/// The text is no length of time, or longer than 64 bits of nanoseconds.
pub fn parse_length(text: &str) -> Result<i64, LengthError> {
    let unknown = || LengthError::Unknown(text.to_owned());
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (places, factor) = match unit.trim() {
        "ns" => (0, 1),
        "us" | "µs" => (3, 1),
        "ms" => (6, 1),
        "" | "s" | "sec" => (9, 1),
        "m" | "min" => (9, 60),
        "h" => (9, 3_600),
        "d" => (9, 86_400),
        _ => return Err(unknown()),
    };
    if !is_decimal(number) {
        return Err(unknown());
    }
    let ns = decimal(number, places).and_then(|ns| ns.checked_mul(factor));
    let ns = ns.and_then(|ns| i64::try_from(ns).ok());
    ns.ok_or_else(|| LengthError::TooLong(text.to_owned()))
}

/// Parses a length without a sign.
///
/// # Errors
/// The errors are those of [`parse_length`].
pub fn parse_duration(text: &str) -> Result<Duration, LengthError> {
    // A length has no sign.
    parse_length(text).map(|ns| Duration::from_nanos(ns.unsigned_abs()))
}

/// Returns true for a text of digits with at most one point.
fn is_decimal(text: &str) -> bool {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole) && digits(part) && !(whole.is_empty() && part.is_empty())
}

/// Returns a decimal number times 10^`places`: `1.5` with 9 places is 1,500,000,000. Further digits are cut off.
/// Returns `None` if the text is no number, or the number is very large.
pub(crate) fn decimal(text: &str, places: u32) -> Option<i128> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if !is_decimal(text) || whole.len() > 25 {
        return None;
    }
    let mut value: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut part = part.bytes();
    for _ in 0..places {
        let digit = part.next().map_or(0, |byte| i128::from(byte - b'0'));
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn length_in_every_unit_is_nanoseconds() {
        for (text, ns) in [
            ("0", 0),
            ("5", 5 * SECOND),
            ("0.5", SECOND / 2),
            (".5s", SECOND / 2),
            ("7ns", 7),
            ("7us", 7_000),
            ("1.5ms", 1_500_000),
            ("1.0000000019", SECOND + 1),
            ("2m", 120 * SECOND),
            ("1h", 3600 * SECOND),
            ("1d", 86_400 * SECOND),
        ] {
            assert_eq!(parse_length(text), Ok(ns), "{text}");
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(ns as u64)), "{text}");
        }
    }

    #[test]
    fn length_that_is_none_names_every_unit() {
        for text in ["", "s", "-1s", "+1s", "1x", "1.2.3", ".", "inf", "nan", "1e3", "1 2s"] {
            let error = parse_length(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{text}' is no length of time")), "{error}");
            assert!(error.contains("ns, us, ms, s, m or h") && error.contains("500ms"), "{error}");
        }
    }

    #[test]
    fn length_that_is_too_long_says_so() {
        for text in ["99999999999d", "9223372037", &"9".repeat(40)] {
            assert_eq!(parse_length(text), Err(LengthError::TooLong(text.into())), "{text}");
        }
        assert_eq!(parse_length("9223372036"), Ok(9_223_372_036 * SECOND));
    }
}
