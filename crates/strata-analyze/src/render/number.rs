//! Numbers as text: the layouts of C's `%d`, `%X`, `%o` and `%g`, pushed to bytes.

use std::io::{Cursor, Write};

use strata_ctf::model::Base;

/// `00` to `99`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

/// A number of one digit or more.
#[inline]
pub fn unsigned(out: &mut Vec<u8>, value: u64) {
    if value < 10 {
        out.push(b'0' + value as u8);
    } else {
        out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }
}

/// A number, with `-` in front of a negative one.
#[inline]
pub fn signed(out: &mut Vec<u8>, value: i64) {
    if (0..10).contains(&value) {
        out.push(b'0' + value as u8);
    } else {
        out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }
}

/// The two digits of a number below 100.
pub fn pair(value: u32) -> [u8; 2] {
    PAIRS.get(value as usize).copied().unwrap_or(*b"??")
}

/// The nine digits of a number below 1,000,000,000.
#[inline]
pub fn nine_digits(value: u32) -> [u8; 9] {
    let (high, low) = (value / 10_000, value % 10_000);
    let (first, high) = (high / 10_000 % 10, high % 10_000);
    let ([b, c], [d, e]) = (pair(high / 100), pair(high % 100));
    let ([f, g], [h, i]) = (pair(low / 100), pair(low % 100));
    [b'0' + first as u8, b, c, d, e, f, g, h, i]
}

/// The bits of an integer in a base that is not ten. A negative value is the two's complement of `bits`
/// bits, rounded up to whole digits; `bits` 0 is 64.
pub fn in_base(out: &mut Vec<u8>, base: Base, value: u64, bits: u8, is_signed: bool) {
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
    out.extend((0..digits).rev().map(digit));
}

/// Six significant digits, as `%g` has them.
pub fn general(out: &mut Vec<u8>, value: f64) {
    const DIGITS: i32 = 6;
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
    // d.ddddde±N: never more than 24 bytes.
    let mut buffer = Cursor::new([0; 32]);
    if write!(buffer, "{value:.5e}").is_err() {
        return;
    }
    let length = buffer.position() as usize;
    let text = buffer.get_ref().get(..length).unwrap_or_default();
    let at = text.iter().position(|&byte| byte == b'e').unwrap_or(length);
    let (mantissa, exponent) = text.split_at(at);
    let exponent: i32 = std::str::from_utf8(exponent)
        .ok()
        .and_then(|text| text.get(1..)?.parse().ok())
        .unwrap_or(0);
    let all = mantissa.iter().filter(|&&byte| byte != b'.').copied();
    let zeros = all.clone().rev().take_while(|&byte| byte == b'0').count();
    let digits = all.take((DIGITS as usize).saturating_sub(zeros));
    if (-4..DIGITS).contains(&exponent) {
        fixed(out, digits, exponent);
        return;
    }
    for (index, digit) in digits.enumerate() {
        if index == 1 {
            out.push(b'.');
        }
        out.push(digit);
    }
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    if exponent.unsigned_abs() < 10 {
        out.push(b'0');
    }
    unsigned(out, u64::from(exponent.unsigned_abs()));
}

/// Digits, the first of which is worth 10^`exponent`, with the point where it belongs.
fn fixed(out: &mut Vec<u8>, digits: impl Iterator<Item = u8>, exponent: i32) {
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend((1..-exponent).map(|_| b'0'));
        out.extend(digits);
        return;
    }
    let mut written = 0;
    for digit in digits {
        if written == exponent + 1 {
            out.push(b'.');
        }
        out.push(digit);
        written += 1;
    }
    out.extend((written..=exponent).map(|_| b'0'));
}

#[cfg(test)]
mod tests {
    use super::*;

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
