//! Units of times and sizes after a number, such as `50ms` and `4KiB`.
//!
//! A filter only has plain numbers: a time becomes nanoseconds and a size bytes, as in the fields of records.

use crate::number::{Number, GREATEST, LEAST};
use crate::similar_names::distance;

/// Quantities that have units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Time, measured in nanoseconds.
    Time,
    /// Sizes, measured in bytes.
    Size,
}

/// A unit with its factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Quantity that the unit measures.
    pub measure: Measure,
    factor: u64,
}

/// Units of time and their factors \[ns\], spelled as in `--from` and `--last`. Case matters: `m` is a minute, `M` a
/// mebibyte.
const TIMES: [(&str, u64); 10] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("sec", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("min", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
    ("d", 86_400 * 1_000_000_000),
];

/// Units of size and their factors \[byte\], powers of 1024, spelled as in `--max-size`.
const SIZES: [(&str, u64); 5] =
    [("b", 1), ("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30), ("t", 1 << 40)];

impl Unit {
    /// Returns the unit with this name.
    pub(crate) fn find(name: &str) -> Option<Unit> {
        if let Some((_, factor)) = TIMES.iter().find(|(time, _)| *time == name) {
            return Some(Unit { measure: Measure::Time, factor: *factor });
        }
        let lower = name.to_ascii_lowercase();
        let letter = match lower.strip_suffix("ib").or_else(|| lower.strip_suffix('b')) {
            Some("") | None => &lower,
            Some(letter) => letter,
        };
        let (_, factor) = SIZES.iter().find(|(size, _)| *size == letter)?;
        // `ib`, `bb` and `bib` are not units.
        let is_byte = letter == "b" && lower != "b";
        (!is_byte).then_some(Unit { measure: Measure::Size, factor: *factor })
    }

    /// Converts `digits`, with or without a point, from this unit to a number. The number is an integer if possible.
    ///
    /// # Errors
    /// `true` if the number exceeds all integers of 64 bits, `false` if `digits` is not a number.
    pub(crate) fn number(self, is_negative: bool, digits: &str) -> Result<Number, bool> {
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let is_decimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_point_alone = digits.ends_with('.') || whole.is_empty();
        if is_point_alone || !is_decimal(whole) || !is_decimal(part) {
            return Err(false);
        }
        // A number with more digits is out of range, and the product of fewer digits fits into 128 bits.
        let part = part.trim_end_matches('0');
        let whole = whole.trim_start_matches('0');
        if whole.len() > 20 {
            return Err(true);
        }
        let factor = i128::from(self.factor);
        let wholes = if whole.is_empty() { 0 } else { whole.parse::<i128>().map_err(|_| true)? };
        let wholes = wholes.checked_mul(factor).ok_or(true)?;
        let sign = if is_negative { -1 } else { 1 };
        let fits = |value: i128| (LEAST..=GREATEST).contains(&(sign * value));
        if !fits(wholes) {
            return Err(true);
        }
        // 10 to the 18th fits into 64 bits.
        if part.len() <= 18 {
            let scale = 10_i128.pow(part.len() as u32);
            let parts = if part.is_empty() { 0 } else { part.parse().unwrap_or(0) } * factor;
            if parts % scale == 0 {
                let value = wholes + parts / scale;
                return fits(value).then_some(Number::Integer(sign * value)).ok_or(true);
            }
        }
        let value = digits.parse::<f64>().map_err(|_| false)? * self.factor as f64;
        Ok(Number::Real(if is_negative { -value } else { value }))
    }
}

/// Returns the unit that was perhaps meant.
pub(crate) fn similar_unit(name: &str) -> Option<&'static str> {
    const OTHERS: [(&str, &str); 12] = [
        ("sec", "s"),
        ("secs", "s"),
        ("second", "s"),
        ("seconds", "s"),
        ("msec", "ms"),
        ("millis", "ms"),
        ("usec", "us"),
        ("micros", "us"),
        ("nsec", "ns"),
        ("mins", "min"),
        ("hour", "h"),
        ("hours", "h"),
    ];
    let lower = name.to_lowercase();
    if let Some((_, unit)) = OTHERS.iter().find(|(other, _)| *other == lower) {
        return Some(unit);
    }
    if let Some((unit, _)) = TIMES.iter().find(|(unit, _)| *unit == lower) {
        return Some(unit);
    }
    let names = ["KiB", "MiB", "GiB", "TiB", "min"];
    names.into_iter().find(|unit| distance(&unit.to_lowercase(), &lower) == 1 && lower.len() > 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(unit: &str, digits: &str) -> Result<Number, bool> {
        Unit::find(unit).unwrap().number(false, digits)
    }

    #[test]
    fn units_of_time_are_nanoseconds_and_those_of_sizes_bytes() {
        for (unit, wanted) in [
            ("ns", 1),
            ("us", 1_000),
            ("µs", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
            ("m", 60_000_000_000),
            ("min", 60_000_000_000),
            ("h", 3_600_000_000_000),
            ("d", 86_400_000_000_000),
            ("B", 1),
            ("b", 1),
            ("k", 1 << 10),
            ("K", 1 << 10),
            ("KB", 1 << 10),
            ("KiB", 1 << 10),
            ("M", 1 << 20),
            ("MiB", 1 << 20),
            ("mib", 1 << 20),
            ("G", 1 << 30),
            ("TiB", 1 << 40),
        ] {
            assert_eq!(number(unit, "1"), Ok(Number::Integer(wanted)), "{unit}");
        }
        for unit in ["", "x", "mss", "MS", "ib", "bb", "bib", "kk", "KiBs", "e"] {
            assert_eq!(Unit::find(unit), None, "{unit}");
        }
    }

    #[test]
    fn unit_of_a_number_with_a_fraction_is_an_integer_wherever_it_is_one() {
        assert_eq!(number("ms", "1.5"), Ok(Number::Integer(1_500_000)));
        assert_eq!(number("KiB", "1.5"), Ok(Number::Integer(1536)));
        assert_eq!(number("us", "0.250"), Ok(Number::Integer(250)));
        assert_eq!(number("ns", "0.5"), Ok(Number::Real(0.5)));
        assert_eq!(number("s", "00001.000000001"), Ok(Number::Integer(1_000_000_001)));
        assert_eq!(Unit::find("ms").unwrap().number(true, "2"), Ok(Number::Integer(-2_000_000)));
    }

    #[test]
    fn unit_that_makes_a_number_beyond_64_bits_is_out_of_range() {
        assert_eq!(number("TiB", "16777215"), Ok(Number::Integer(16_777_215 << 40)));
        assert_eq!(number("TiB", "16777216"), Err(true));
        assert_eq!(number("d", &"9".repeat(21)), Err(true));
        assert_eq!(number("d", &"9".repeat(20)), Err(true));
        assert_eq!(Unit::find("TiB").unwrap().number(true, "8388609"), Err(true));
        for text in ["1.", ".5", "1.2.3", ""] {
            assert_eq!(number("s", text), Err(false), "{text}");
        }
    }

    #[test]
    fn unit_that_is_none_has_a_similar_one() {
        for (name, wanted) in [
            ("msec", Some("ms")),
            ("MS", Some("ms")),
            ("seconds", Some("s")),
            ("KiBs", Some("KiB")),
            ("parsec", None),
        ] {
            assert_eq!(similar_unit(name), wanted, "{name}");
        }
    }
}
