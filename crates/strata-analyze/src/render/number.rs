//! Numbers as text, in the formats of C's `%d`, `%X`, `%o` and `%g`.

use std::cmp::Ordering;
use std::io::{Cursor, Write};

use strata_model::Base;

use super::line::TextSink;

/// The pairs of digits from `00` to `99`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

const EIGHT_DIGITS: u64 = 100_000_000;

/// Returns the digits of two numbers below 10,000, four digits each, one in each byte. The first digit is in the lowest
/// byte.
///
/// All parts of a step are in one number, too far from each other to meet: two numbers of four digits,
/// four of two, eight of one. Quotients are products with reciprocals, exact for numbers of four digits
/// (10486 / 2^20) and of two (103 / 2^10).
#[inline]
fn digits_of_two(first: u32, second: u32) -> u64 {
    let fours = u64::from(first) | u64::from(second) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | (fours - 100 * hundreds) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (twos - 10 * tens) << 8
}

/// Returns the eight digits of a number below 100,000,000; the first digit is in the lowest byte.
#[inline]
fn digits(value: u32) -> u64 {
    digits_of_two(value / 10_000, value % 10_000)
}

/// Returns the four digits of each of two numbers below 10,000, as text.
#[inline]
pub fn four_digits_of_two(first: u32, second: u32) -> ([u8; 4], [u8; 4]) {
    let text = digits_of_two(first, second) | ZEROS;
    ((text as u32).to_le_bytes(), ((text >> 32) as u32).to_le_bytes())
}

const ZEROS: u64 = 0x3030_3030_3030_3030;

/// Returns the eight digits of a number below 100,000,000, as text.
#[inline]
fn eight_digits(value: u32) -> [u8; 8] {
    (digits(value) | ZEROS).to_le_bytes()
}

/// Writes a number without leading zeros.
#[inline]
pub fn unsigned(out: &mut impl TextSink, value: u64) {
    if value < EIGHT_DIGITS {
        few(out, value as u32);
    } else {
        many(out, value);
    }
}

/// Writes a number below 100,000,000 without leading zeros.
#[inline]
fn few(out: &mut impl TextSink, value: u32) {
    let digits = digits(value);
    let zeros = digits.trailing_zeros().min(56) / 8;
    out.put(&((digits | ZEROS) >> (8 * zeros)).to_le_bytes(), 8 - zeros as usize);
}

fn many(out: &mut impl TextSink, value: u64) {
    let (high, low) = (value / EIGHT_DIGITS, (value % EIGHT_DIGITS) as u32);
    if high < EIGHT_DIGITS {
        few(out, high as u32);
    } else {
        few(out, (high / EIGHT_DIGITS) as u32);
        out.put(&eight_digits((high % EIGHT_DIGITS) as u32), 8);
    }
    out.put(&eight_digits(low), 8);
}

/// Writes a number, with `-` before a negative one.
#[inline]
pub fn signed(out: &mut impl TextSink, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    unsigned(out, value.unsigned_abs());
}

/// Returns the two digits of a number below 100, as text.
pub fn pair(value: u32) -> [u8; 2] {
    PAIRS.get(value as usize).copied().unwrap_or(*b"??")
}

/// Returns the nine digits of a number below 1,000,000,000, as text.
#[inline]
pub fn nine_digits(value: u32) -> [u8; 9] {
    let first = value / EIGHT_DIGITS as u32 % 10;
    let [a, b, c, d, e, f, g, h] = eight_digits(value % EIGHT_DIGITS as u32);
    [b'0' + first as u8, a, b, c, d, e, f, g, h]
}

/// Writes an integer in a base other than ten. A negative value is shown in two's complement with `bits` bits,
/// rounded up to whole digits. `bits` 0 stands for 64.
pub fn in_base(out: &mut impl TextSink, base: Base, value: u64, bits: u8, is_signed: bool) {
    let bits = if bits == 0 || bits > 64 { 64 } else { u32::from(bits) };
    let (digit_bits, lead): (u32, &[u8]) = match base {
        Base::Two => (1, b"0b"),
        Base::Eight => (3, b"0"),
        _ => (4, b"0x"),
    };
    let kept = bits.div_ceil(digit_bits) * digit_bits;
    let value = if is_signed && kept < 64 { value & ((1 << kept) - 1) } else { value };
    // Base two shows all bits, the others as many digits as the value has.
    let digits = match base {
        Base::Two => bits,
        _ => (64 - value.leading_zeros()).div_ceil(digit_bits).max(1),
    };
    let digit = |at: u32| match (value >> (at * digit_bits)) & ((1 << digit_bits) - 1) {
        digit @ 0..=9 => b'0' + digit as u8,
        digit => b'A' + (digit - 10) as u8,
    };
    out.extend_from_slice(lead);
    let mut text = [0; 64];
    for (place, at) in text.iter_mut().zip((0..digits).rev()) {
        *place = digit(at);
    }
    out.extend_from_slice(text.get(..digits as usize).unwrap_or_default());
}

/// The number of significant digits of a floating-point number.
const DIGITS: usize = 6;

/// Writes a floating-point number with six significant digits, as `%g` does.
pub fn general(out: &mut impl TextSink, value: f64) {
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let value = value.abs();
    if !value.is_finite() {
        out.extend_from_slice(if value.is_nan() { b"nan" } else { b"inf" });
        return;
    }
    if value < 1e6 && value.fract() == 0.0 {
        unsigned(out, value as u64);
        return;
    }
    let Some((digits, exponent)) = rounded(value).or_else(|| rounded_slowly(value)) else { return };
    let text = eight_digits(digits);
    let [_, _, text @ ..] = text;
    let zeros = text.iter().rev().take_while(|&&byte| byte == b'0').count();
    let digits = text.get(..DIGITS - zeros).unwrap_or(&text);
    if (-4..DIGITS as i32).contains(&exponent) {
        fixed(out, digits, exponent);
        return;
    }
    let (first, others) = digits.split_at_checked(1).unwrap_or((digits, &[]));
    out.extend_from_slice(first);
    if !others.is_empty() {
        out.push(b'.');
        out.extend_from_slice(others);
    }
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    if exponent.unsigned_abs() < 10 {
        out.push(b'0');
    }
    unsigned(out, u64::from(exponent.unsigned_abs()));
}

/// Returns a value's six significant digits as an integer, and the exponent of the first digit. The result is exact,
/// and halves are rounded to even. Returns `None` if that would need too large integers.
fn rounded(value: f64) -> Option<(u32, i32)> {
    const MANTISSA: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = value.to_bits();
    let biased = (bits >> MANTISSA) as i32;
    if biased == 0 {
        return None;
    }
    // The value is whole * 2^two.
    let whole = bits & ((1 << MANTISSA) - 1) | 1 << MANTISSA;
    let two = biased - 1023 - MANTISSA as i32;
    // log10(2) is a little more than 1233 / 4096: this is the exponent, or 1 less.
    let exponent = ((biased - 1023) * 1233) >> 12;
    let (digits, exponent) = match scaled(whole, two, exponent)? {
        (digits, _) if digits >= 1_000_000 => (scaled(whole, two, exponent + 1)?, exponent + 1),
        scaled => (scaled, exponent),
    };
    let (digits, rest) = digits;
    let up = match rest {
        Rest::Less => 0,
        Rest::Half => digits & 1,
        Rest::More => 1,
    };
    match digits + up {
        1_000_000 => Some((100_000, exponent + 1)),
        digits @ 100_000..=999_999 => Some((digits as u32, exponent)),
        _ => None,
    }
}

/// The part of a number that rounding cuts off, compared with a half.
#[derive(Clone, Copy)]
enum Rest {
    Less,
    Half,
    More,
}

/// Returns `whole` * 2^`two` / 10^(`exponent` - 5) without its fraction, and how the fraction compares with a half.
fn scaled(whole: u64, two: i32, exponent: i32) -> Option<(u64, Rest)> {
    let ten = exponent - (DIGITS as i32 - 1);
    let power = 10_u128.checked_pow(ten.unsigned_abs())?;
    let shift = two.unsigned_abs();
    let (mut above, mut below) = (u128::from(whole), 1);
    for (factor, is_above) in [(power, ten < 0), (1_u128.checked_shl(shift)?, two >= 0)] {
        let side = if is_above { &mut above } else { &mut below };
        *side = side.checked_mul(factor)?;
    }
    // Twice the rest is compared.
    let (digits, rest) = match (u64::try_from(above), u64::try_from(below)) {
        (Ok(above), Ok(below)) => (above / below, u128::from(above % below)),
        _ => (u64::try_from(above / below).ok()?, above % below),
    };
    Some(match rest.cmp(&(below - rest)) {
        Ordering::Less => (digits, Rest::Less),
        Ordering::Equal => (digits, Rest::Half),
        Ordering::Greater => (digits, Rest::More),
    })
}

/// Returns the same as [`rounded`] for any value, more slowly.
fn rounded_slowly(value: f64) -> Option<(u32, i32)> {
    // d.ddddde±N: never more than 24 bytes.
    let mut buffer = Cursor::new([0; 32]);
    write!(buffer, "{value:.5e}").ok()?;
    let length = buffer.position() as usize;
    let text = std::str::from_utf8(buffer.get_ref().get(..length)?).ok()?;
    let (mantissa, exponent) = text.split_once('e')?;
    let digits = mantissa.bytes().filter(u8::is_ascii_digit);
    let digits = digits.fold(0, |digits, byte| digits * 10 + u32::from(byte - b'0'));
    Some((digits, exponent.parse().ok()?))
}

/// Writes digits with the decimal point at its place. The first digit has the value 10^`exponent`.
fn fixed(out: &mut impl TextSink, digits: &[u8], exponent: i32) {
    let zeros = b"000000";
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend_from_slice(zeros.get(..(-1 - exponent) as usize).unwrap_or_default());
        out.extend_from_slice(digits);
        return;
    }
    let whole = exponent as usize + 1;
    match digits.split_at_checked(whole) {
        Some((whole, part)) => {
            out.extend_from_slice(whole);
            if !part.is_empty() {
                out.push(b'.');
                out.extend_from_slice(part);
            }
        }
        None => {
            out.extend_from_slice(digits);
            out.extend_from_slice(zeros.get(..whole - digits.len()).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_random::Random;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integer_of_any_size_is_in_decimal() {
        for value in [0, 9, 10, 99, 100, 12_345, u64::MAX] {
            assert_eq!(text(|out| unsigned(out, value)), value.to_string());
        }
        for value in [0, 9, 10, -1, -10, i64::MIN, i64::MAX] {
            assert_eq!(text(|out| signed(out, value)), value.to_string());
        }
    }

    /// Returns random numbers that are the same in each run.
    fn random() -> impl Iterator<Item = u64> {
        let mut random = Random::from_seed(0x5eed);
        std::iter::repeat_with(move || random.next())
    }

    #[test]
    fn digits_of_all_groups_of_four_are_those_of_the_number() {
        for group in 0..10_000 {
            for value in [group, group * 10_000, group * 10_001, 99_990_000 + group] {
                assert_eq!(eight_digits(value), *format!("{value:08}").as_bytes());
                assert_eq!(text(|out| unsigned(out, u64::from(value))), value.to_string());
            }
            let (first, second) = four_digits_of_two(group, 9_999 - group);
            assert_eq!(first, *format!("{group:04}").as_bytes());
            assert_eq!(second, *format!("{:04}", 9_999 - group).as_bytes());
        }
        for value in random().take(20_000) {
            for value in (0..64).step_by(7).map(|shift| value >> shift) {
                assert_eq!(text(|out| unsigned(out, value)), value.to_string());
            }
        }
    }

    #[test]
    fn real_that_is_rounded_fast_is_as_it_would_be_slowly() {
        let mut fast = 0;
        let mut compare = |value: f64| {
            let Some(found) = rounded(value) else { return };
            fast += 1;
            assert_eq!(Some(found), rounded_slowly(value), "{value:e}");
        };
        for bits in random().take(50_000) {
            let any = f64::from_bits(bits).abs();
            if any.is_finite() && any > 0.0 {
                compare(any);
            }
            for shift in [0, 11, 24, 40, 44] {
                let whole = (bits >> shift) as f64;
                // With quarters and tenths: some of them are halves of the last digit.
                for value in [whole, whole / 4.0, whole / 10.0, whole / 1e6, whole * 1e-12] {
                    if value > 0.0 {
                        compare(value);
                    }
                }
            }
        }
        for exponent in -330..310 {
            for digits in ["1", "9.99999", "9.999995", "9.9999949", "1.000005", "1.000015", "4.5"] {
                compare(format!("{digits}e{exponent}").parse::<f64>().unwrap().max(5e-324));
            }
        }
        assert!(fast > 500_000, "{fast}");
    }

    #[test]
    fn nanoseconds_have_nine_digits() {
        for value in [0, 1, 12, 999, 10_000, 123_456_789, 999_999_999] {
            assert_eq!(nine_digits(value), *format!("{value:09}").as_bytes());
        }
    }

    #[test]
    fn integer_in_base_has_the_digits_of_its_bits() {
        for (base, value, bits, is_signed, wanted) in [
            (Base::Sixteen, 0, 8, false, "0x0"),
            (Base::Sixteen, 255, 8, false, "0xFF"),
            (Base::Sixteen, u64::MAX, 8, true, "0xFF"),
            (Base::Sixteen, u64::MAX, 5, true, "0xFF"),
            (Base::Sixteen, u64::MAX, 1, true, "0xF"),
            (Base::Sixteen, -9_i64 as u64, 5, true, "0xF7"),
            (Base::Sixteen, u64::MAX, 64, true, "0xFFFFFFFFFFFFFFFF"),
            (Base::Sixteen, u64::MAX, 0, true, "0xFFFFFFFFFFFFFFFF"),
            (Base::Eight, 0, 8, false, "00"),
            (Base::Eight, 255, 8, false, "0377"),
            (Base::Eight, u64::MAX, 8, true, "0777"),
            (Base::Eight, u64::MAX, 32, true, "077777777777"),
            (Base::Eight, u64::MAX, 64, true, "01777777777777777777777"),
            (Base::Eight, u64::MAX, 63, true, "0777777777777777777777"),
            (Base::Two, 0, 3, false, "0b000"),
            (Base::Two, 0xBB, 8, false, "0b10111011"),
            (Base::Two, -9_i64 as u64, 5, true, "0b10111"),
        ] {
            assert_eq!(text(|out| in_base(out, base, value, bits, is_signed)), wanted);
        }
    }

    #[test]
    fn real_has_six_significant_digits() {
        for (value, wanted) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (0.1, "0.1"),
            (f64::from(0.1_f32), "0.1"),
            (1e10, "1e+10"),
            (123_456_789.0, "1.23457e+08"),
            (1e-5, "1e-05"),
            (1e-4, "0.0001"),
            (0.000_123_456_789, "0.000123457"),
            (std::f64::consts::PI, "3.14159"),
            (1e38, "1e+38"),
            (999_999.5, "1e+06"),
            (99_999.96, "100000"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (1.5e-10, "1.5e-10"),
            (1e100, "1e+100"),
            (f64::MIN_POSITIVE, "2.22507e-308"),
            (5e-324, "4.94066e-324"),
            (100.5, "100.5"),
            (2.000_005, "2"),
            (2.000_015, "2.00001"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN.copysign(1.0), "nan"),
            (f64::NAN.copysign(-1.0), "-nan"),
        ] {
            assert_eq!(text(|out| general(out, value)), wanted, "{value:e}");
        }
    }
}
