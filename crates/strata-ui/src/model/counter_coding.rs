//! Encodes values of counters as integers in the same order.

use strata_timeline::CounterNumber;

/// Encodes a value as an integer; greater values become greater integers.
#[must_use]
pub fn ordered(number: CounterNumber) -> u64 {
    let value = match number {
        CounterNumber::Signed(number) => number as f64,
        CounterNumber::Unsigned(number) => number as f64,
        CounterNumber::Real(number) => number,
    };
    let bits = value.to_bits();
    if bits >> 63 == 0 {
        bits | 1 << 63
    } else {
        !bits
    }
}

/// Decodes a value that [`ordered`] has encoded.
#[must_use]
pub fn value(ordered: u64) -> f64 {
    f64::from_bits(if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_values_have_their_order_and_lead_back_to_them() {
        let values =
            [f64::NEG_INFINITY, -1e300, -2.5, -0.0, 0.0, 1e-300, 7.0, 1e300, f64::INFINITY];
        let numbers: Vec<u64> = values.iter().map(|&it| ordered(CounterNumber::Real(it))).collect();
        assert!(numbers.windows(2).all(|two| two[0] < two[1]), "{numbers:?}");
        for (number, wanted) in numbers.into_iter().zip(values) {
            assert_eq!(value(number).to_bits(), wanted.to_bits());
        }
        assert_eq!(value(ordered(CounterNumber::Signed(-7))), -7.0);
        assert_eq!(value(ordered(CounterNumber::Unsigned(1 << 40))), (1u64 << 40) as f64);
    }
}
