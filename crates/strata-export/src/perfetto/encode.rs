//! Encodes messages directly into one buffer. This is the form of nearly every exported record.
//!
//! [`proto`](super::proto) describes the same messages, for rare ones and for readers. Fields are written in the order
//! that they have there.

use strata_analyze::render::line::{Lines, TextSink};

/// The wire type of a number of variable length.
const VARINT: u32 = 0;
const EIGHT_BYTES: u32 = 1;
/// The wire type of a length with that many bytes after it.
const LENGTH: u32 = 2;
/// The bound below which a length takes one byte.
const SHORT: usize = 1 << 7;

/// The begin of a message's content, kept until its length is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct LengthMark(usize);

/// Writes a number, seven bits to a byte, the lowest first.
#[inline]
pub(super) fn varint(out: &mut Lines, mut value: u64) {
    let mut bytes = [0; 10];
    let mut len = 0;
    for byte in &mut bytes {
        *byte = value as u8 | 0x80;
        value >>= 7;
        len += 1;
        if value == 0 {
            *byte &= 0x7f;
            break;
        }
    }
    out.put(&bytes, len);
}

#[inline(always)]
fn tag(out: &mut Lines, field: u32, kind: u32) {
    let tag = field << 3 | kind;
    if tag < 1 << 7 {
        out.push(tag as u8);
    } else {
        out.put(&[tag as u8 | 0x80, (tag >> 7) as u8], 2);
    }
}

/// Writes a field that is a number. A negative one is written as its two's complement of 64 bits.
#[inline]
pub(super) fn number(out: &mut Lines, field: u32, value: u64) {
    tag(out, field, VARINT);
    varint(out, value);
}

/// Writes a field that is a number and may be negative.
#[inline]
pub(super) fn signed(out: &mut Lines, field: u32, value: i64) {
    number(out, field, value as u64);
}

/// Writes a field that is a floating-point number.
#[inline]
pub(super) fn real(out: &mut Lines, field: u32, value: f64) {
    tag(out, field, EIGHT_BYTES);
    out.put(&value.to_le_bytes(), 8);
}

/// Writes a field that is a text, or a message that is already encoded.
#[inline]
pub(super) fn bytes(out: &mut Lines, field: u32, bytes: &[u8]) {
    tag(out, field, LENGTH);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Begins a field that is a message or a text.
#[inline]
pub(super) fn begin(out: &mut Lines, field: u32) -> LengthMark {
    tag(out, field, LENGTH);
    out.push(0);
    LengthMark(out.len())
}

/// Ends a message, and writes its length.
#[inline]
pub(super) fn end(out: &mut Lines, mark: LengthMark) {
    let length = out.len().saturating_sub(mark.0);
    if length < SHORT {
        out.patch(mark.0 - 1, &[length as u8]);
    } else {
        end_of_long(out, mark, length);
    }
}

/// Ends a message whose length takes several bytes, and moves its content. Lengths are not padded, since most messages
/// are short and few have to be moved.
#[inline(never)]
fn end_of_long(out: &mut Lines, mark: LengthMark, length: usize) {
    let more = (length.ilog2() / 7) as usize;
    out.widen(mark.0, more);
    for at in 0..=more {
        let last = at == more;
        let byte = (length >> (7 * at)) as u8 & 0x7f | if last { 0 } else { 0x80 };
        out.patch(mark.0 - 1 + at, &[byte]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::proto::{AnnotationValue, DebugAnnotation};
    use super::*;
    use prost::Message as _;

    #[test]
    fn numbers_and_texts_are_what_a_protobuf_library_writes() {
        let mut values: Vec<u64> = (0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1]).collect();
        values.push(u64::MAX);
        for value in values {
            let wanted = [
                AnnotationValue::Unsigned(value),
                AnnotationValue::Signed(value as i64),
                AnnotationValue::Real(f64::from_bits(value)),
                AnnotationValue::Text("x".repeat(value.min(40_000) as usize)),
            ]
            .map(|it| {
                let value = Some(it);
                DebugAnnotation { value, name_iid: Some(7), ..DebugAnnotation::default() }
                    .encode_to_vec()
            });
            let mut out = Lines::default();
            let put: [&dyn Fn(&mut Lines); 4] = [
                &|out| number(out, 3, value),
                &|out| signed(out, 4, value as i64),
                &|out| real(out, 5, f64::from_bits(value)),
                &|out| bytes(out, 6, "x".repeat(value.min(40_000) as usize).as_bytes()),
            ];
            for (put, wanted) in put.iter().zip(&wanted) {
                out.clear();
                number(&mut out, 1, 7);
                put(&mut out);
                assert_eq!(out.as_bytes(), wanted, "{value}");
            }
        }
    }

    #[test]
    fn messages_in_messages_have_the_shortest_length() {
        for size in [0, 1, 100, 120, 123, 124, 125, 126, 127, 128, 129, 16_383, 16_384, 3_000_000] {
            let text = "y".repeat(size);
            let inner = DebugAnnotation {
                value: Some(AnnotationValue::Text(text.clone())),
                ..DebugAnnotation::default()
            };
            let value = Some(AnnotationValue::Unsigned(1));
            let last = DebugAnnotation { value, ..DebugAnnotation::default() };
            let dict_entries = vec![inner, last];
            let wanted = DebugAnnotation { dict_entries, ..DebugAnnotation::default() };
            let mut out = Lines::default();
            let outer = begin(&mut out, 11);
            let text_of = begin(&mut out, 6);
            out.extend_from_slice(text.as_bytes());
            end(&mut out, text_of);
            end(&mut out, outer);
            let second = begin(&mut out, 11);
            number(&mut out, 3, 1);
            end(&mut out, second);
            assert_eq!(out.as_bytes(), wanted.encode_to_vec(), "{size}");
        }
    }
}
