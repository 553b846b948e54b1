//! Tests of integers of all widths at all bits, compared with a reader of single bits.

use super::super::bits::{extend, find_nul, leb128, read, Bits, Leb};
use strata_random::Random;

fn slowly(bytes: &[u8], at: u64, width: u8, big: bool) -> u64 {
    (0..u64::from(width)).fold(0, |value, index| {
        let bit = at + index;
        let byte = bytes[(bit / 8) as usize];
        match big {
            true => value << 1 | u64::from(byte >> (7 - bit % 8) & 1),
            false => value | u64::from(byte >> (bit % 8) & 1) << index,
        }
    })
}

/// Reverses the lowest `width` bits, one by one.
fn slowly_reversed(value: u64, width: u8) -> u64 {
    (0..width).fold(0, |out, bit| out << 1 | value >> bit & 1)
}

#[test]
fn integer_of_any_width_at_any_bit_in_both_orders_is_read_as_bit_by_bit() {
    let seed = strata_random::seed();
    let mut random = Random::from_seed(seed);
    for big in [false, true] {
        for width in 1..=64 {
            for at in 0..80 {
                // With exactly as many bytes as needed, and with more.
                for more in [0, 1, 9] {
                    let count = (at + u64::from(width)).div_ceil(8) + more;
                    let bytes: Vec<u8> = (0..count).map(|_| random.next() as u8).collect();
                    let expected = slowly(&bytes, at, width, big);
                    assert_eq!(read(&bytes, at, width, big), Some(expected), "{width} {at} {big}");
                    for signed in [false, true] {
                        let bits = Bits { offset: at, width, big, signed, reversed: false };
                        let negative = signed && expected >> (width - 1) == 1;
                        let above = if width == 64 { 0 } else { u64::MAX << width };
                        let value = if negative { expected | above } else { expected };
                        assert_eq!(bits.read(&bytes, 0), Some(value));
                        let reversed = slowly_reversed(expected, width);
                        let negative = signed && reversed >> (width - 1) == 1;
                        let value = if negative { reversed | above } else { reversed };
                        let bits = Bits { reversed: true, ..bits };
                        assert_eq!(bits.read(&bytes, 0), Some(value));
                    }
                    let short = &bytes[..bytes.len() - 1 - more as usize];
                    assert_eq!(read(short, at, width, big), None);
                }
            }
        }
    }
}

#[test]
fn sign_of_each_width_is_extended() {
    for width in 1..=64 {
        let low = 1u64 << (width - 1);
        assert_eq!(extend(low, width) as i64, i64::MIN >> (64 - width));
        assert_eq!(extend(low - 1, width), low - 1);
    }
}

#[test]
fn leb128_of_each_length_is_its_value() {
    assert_eq!(leb128(&[0], false), Leb::Is(0, 1));
    assert_eq!(leb128(&[0x7f], false), Leb::Is(127, 1));
    assert_eq!(leb128(&[0x7f], true), Leb::Is(u64::MAX, 1));
    assert_eq!(leb128(&[0xe5, 0x8e, 0x26], false), Leb::Is(624_485, 3));
    assert_eq!(leb128(&[0xc0, 0xbb, 0x78], true), Leb::Is(-123_456i64 as u64, 3));
    let max = [255, 255, 255, 255, 255, 255, 255, 255, 255, 1];
    assert_eq!(leb128(&max, false), Leb::Is(u64::MAX, 10));
    let min = [128, 128, 128, 128, 128, 128, 128, 128, 128, 0x7f];
    assert_eq!(leb128(&min, true), Leb::Is(i64::MIN as u64, 10));
    assert_eq!(leb128(&[0x81, 0x80, 0], false), Leb::Is(1, 3), "padded");
}

#[test]
fn malicious_leb128_of_more_than_64_bits_is_too_big_and_one_without_end_is_short() {
    let over = [255, 255, 255, 255, 255, 255, 255, 255, 255, 2];
    assert_eq!(leb128(&over, false), Leb::TooBig);
    assert_eq!(leb128(&[255, 255, 255, 255, 255, 255, 255, 255, 255, 1], true), Leb::TooBig);
    assert_eq!(leb128(&[255; 100], false), Leb::TooBig);
    assert_eq!(leb128(&[255; 15], false), Leb::Short);
    assert_eq!(leb128(&[], true), Leb::Short);
}

#[test]
fn nul_at_each_place_is_found() {
    for count in 0..60 {
        for place in 0..count {
            // A search by words could take 1 and 0x80 for a NUL.
            let mut bytes: Vec<u8> = (0..count).map(|at| [1, 0x80, 0xff][at % 3]).collect();
            assert_eq!(find_nul(&bytes), None);
            bytes[place] = 0;
            assert_eq!(find_nul(&bytes), Some(place));
            bytes[count - 1] = 0;
            assert_eq!(find_nul(&bytes), Some(place));
        }
    }
}
