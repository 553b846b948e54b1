//! Writes the result of a call after the call: `= 3 <4.125us>`, `= -1 ENOENT`, `<unfinished ...>`.

use strata_model::Base;

use super::errors;
use super::values::lower_hex;
use crate::render::line::TextSink;
use crate::render::number;

/// The lowest return value that is an error; the highest is -1.
const ERRORS_FROM: i64 = -4095;

/// System calls that return an address, although the metadata declares a number.
const ADDRESSES: [&[u8]; 5] = [b"mmap", b"mmap2", b"brk", b"mremap", b"shmat"];

/// Writes the return value of a call.
pub(super) fn write(
    out: &mut impl TextSink,
    call: &[u8],
    ret: Option<i64>,
    base: Base,
    colours: bool,
) {
    out.extend_from_slice(b" = ");
    let Some(ret) = ret else { return out.extend_from_slice(b"?") };
    let is_error = (ERRORS_FROM..0).contains(&ret);
    if !is_error {
        return match base {
            Base::Ten if !ADDRESSES.contains(&call) => number::signed(out, ret),
            _ => lower_hex(out, ret as u64),
        };
    }
    if colours {
        out.extend_from_slice(b"\x1b[1;31m");
    }
    if let Some(name) = errors::restarted(ret) {
        out.extend_from_slice(b"? ");
        out.extend_from_slice(name.as_bytes());
    } else if let Some(name) = errors::name(ret) {
        out.extend_from_slice(b"-1 ");
        out.extend_from_slice(name.as_bytes());
    } else {
        number::signed(out, ret);
    }
    if colours {
        out.extend_from_slice(b"\x1b[0m");
    }
}

/// Returns the result without sign and colours: `3`, `0x7f0000001000`, `-1 ENOENT`.
#[must_use]
pub fn result_text(call: &str, ret: Option<i64>) -> String {
    let mut out = Vec::new();
    write(&mut out, call.as_bytes(), ret, Base::Ten, false);
    String::from_utf8_lossy(&out).trim_start_matches(" = ").to_owned()
}

/// Writes the length of a call, such as ` <4.125us>`. Writes nothing if its end is before its begin.
pub(super) fn duration(out: &mut impl TextSink, begin: Option<i64>, end: Option<i64>) {
    let (Some(begin), Some(end)) = (begin, end) else { return };
    let Ok(ns) = u64::try_from(i128::from(end) - i128::from(begin)) else { return };
    out.extend_from_slice(b" <");
    let (unit, name): (u64, &[u8]) = match ns {
        0..1_000 => (1, b"ns"),
        1_000..1_000_000 => (1_000, b"us"),
        1_000_000..1_000_000_000 => (1_000_000, b"ms"),
        _ => (1_000_000_000, b"s"),
    };
    number::unsigned(out, ns / unit);
    if unit > 1 {
        let thousandths = (ns % unit / (unit / 1_000)) as u32;
        let [hundreds, tens, ones] = [thousandths / 100, thousandths / 10 % 10, thousandths % 10];
        out.put(&[b'.', b'0' + hundreds as u8, b'0' + tens as u8, b'0' + ones as u8], 4);
    }
    out.extend_from_slice(name);
    out.push(b'>');
}

/// Writes that the end of the call is missing.
pub(super) fn unfinished(out: &mut impl TextSink, colours: bool) {
    let text: &[u8] = match colours {
        true => b" \x1b[1;31m<unfinished ...>\x1b[0m",
        false => b" <unfinished ...>",
    };
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_is_a_number_an_address_or_an_error() {
        let text = |call: &str, ret, base| {
            let mut out = Vec::new();
            write(&mut out, call.as_bytes(), ret, base, false);
            String::from_utf8(out).unwrap()
        };
        for (call, ret, base, wanted) in [
            ("read", Some(3), Base::Ten, " = 3"),
            ("read", Some(-11), Base::Ten, " = -1 EAGAIN"),
            ("read", Some(-512), Base::Ten, " = ? ERESTARTSYS"),
            ("read", Some(-600), Base::Ten, " = -600"),
            ("read", Some(-4096), Base::Ten, " = -4096"),
            ("read", None, Base::Ten, " = ?"),
            ("mmap", Some(0x7f00_0000_1000), Base::Sixteen, " = 0x7f0000001000"),
            ("brk", Some(0x5000), Base::Ten, " = 0x5000"),
            ("mmap", Some(-12), Base::Sixteen, " = -1 ENOMEM"),
        ] {
            assert_eq!(text(call, ret, base), wanted);
        }
    }

    #[test]
    fn result_as_a_text_of_its_own_is_what_stands_in_a_line() {
        assert_eq!(result_text("openat", Some(-2)), "-1 ENOENT");
        assert_eq!(result_text("mmap", Some(0x7f00_0000_1000)), "0x7f0000001000");
        assert_eq!(result_text("read", None), "?");
    }

    #[test]
    fn duration_has_the_unit_that_fits() {
        let text = |begin, end| {
            let mut out = Vec::new();
            duration(&mut out, Some(begin), Some(end));
            String::from_utf8(out).unwrap()
        };
        for (ns, wanted) in [
            (0, " <0ns>"),
            (999, " <999ns>"),
            (1_000, " <1.000us>"),
            (12_345_678, " <12.345ms>"),
            (999_999_999, " <999.999ms>"),
            (61_050_000_000, " <61.050s>"),
        ] {
            assert_eq!(text(7, 7 + ns), wanted);
        }
        assert_eq!(text(5, 4), "");
        assert_eq!(text(i64::MIN, i64::MAX), " <18446744073.709s>");
    }
}
