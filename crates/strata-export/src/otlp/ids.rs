//! The ids of spans: those of OpenTelemetry if the records have them, otherwise numbers that are made of what a span is, so
//! that a trace has the same ids whenever it is exported.

use strata_model::{stable_hash, STABLE_HASH_OF_NOTHING};

/// The id of a trace, which is never 0.
pub(super) type TraceId = [u8; 16];
/// The id of a span, which is never 0.
pub(super) type SpanId = [u8; 8];

/// Returns the id that a text has as hexadecimal digits; `None` if it is no valid id.
pub(super) fn parsed<const BYTES: usize>(text: &[u8]) -> Option<[u8; BYTES]> {
    if text.len() != 2 * BYTES {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut id = [0; BYTES];
    for (byte, digits) in id.iter_mut().zip(text.chunks_exact(2)) {
        let &[high, low] = digits else { return None };
        *byte = digit(high)? << 4 | digit(low)?;
    }
    (id != [0; BYTES]).then_some(id)
}

/// Collects the values that distinguish a span from all others, and computes its ids from them.
#[derive(Clone, Debug)]
pub(super) struct IdMaker([u64; 3]);

impl IdMaker {
    pub(super) fn new() -> IdMaker {
        // Three states that differ, so that the numbers made of them have nothing in common.
        IdMaker([STABLE_HASH_OF_NOTHING, 0x9ae1_6a3b_2f90_404f, 0xc949_d7c7_509e_6557])
    }

    /// Adds a value, preceded by its length, so that "a", "bc" differs from "ab", "c".
    pub(super) fn add(mut self, part: &[u8]) -> IdMaker {
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes();
        for state in &mut self.0 {
            *state = stable_hash(stable_hash(*state, &length), part);
        }
        self
    }

    /// Returns the ids of a trace and of a span.
    pub(super) fn finish(&self) -> (TraceId, SpanId) {
        let [first, second, third] = self.0.map(mixed);
        let (mut trace, first, second) = ([0; 16], first.to_be_bytes(), second.to_be_bytes());
        for (byte, from) in trace.iter_mut().zip(first.iter().chain(&second)) {
            *byte = *from;
        }
        (trace, third.to_be_bytes())
    }
}

/// Spreads each bit of a number over all bits. Of all numbers only 0 becomes 0, which is no id.
fn mixed(mut number: u64) -> u64 {
    number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (number ^ number >> 31).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_of_the_right_number_of_digits_and_not_0() {
        assert_eq!(parsed(b"00000000000000fF"), Some([0, 0, 0, 0, 0, 0, 0, 255]));
        let wrong = [
            &b"0000000000000000"[..],
            b"00000000000000f",
            b"00000000000000f ",
            b"",
            b"+0000000000000ff",
        ];
        for text in wrong {
            assert_eq!(parsed::<8>(text), None, "{text:?}");
        }
        assert_eq!(parsed::<16>(&[b'9'; 32]), Some([0x99; 16]));
    }

    #[test]
    fn made_ids_are_always_the_same_and_differ_by_every_part() {
        let made = |parts: &[&[u8]]| {
            parts.iter().fold(IdMaker::new(), |maker, part| maker.add(part)).finish()
        };
        let (trace, span) = made(&[b"box", b"5", b"app:job"]);
        // Files that were exported earlier have these.
        assert_eq!(
            (u128::from_be_bytes(trace), u64::from_be_bytes(span)),
            (201566758715567731688375188996153361320, 12076409766331692387)
        );
        for other in [&[&b"box"[..], b"5", b"app:joc"][..], &[b"box5", b"", b"app:job"], &[b"box"]]
        {
            let (of_trace, of_span) = made(other);
            assert!(of_trace != trace && of_span != span, "{other:?}");
            assert_ne!(of_trace[..8], of_trace[8..]);
        }
    }
}
