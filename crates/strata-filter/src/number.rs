//! Numbers and their comparison by value, whatever their types.

use std::cmp::Ordering;
use std::fmt;

/// The least integer of a field or a filter.
pub const LEAST: i128 = i64::MIN as i128;
/// The greatest integer of a field or a filter.
pub const GREATEST: i128 = u64::MAX as i128;

/// A number of a filter or a field. Comparisons are exact: no integer is wrapped or rounded first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer from [`LEAST`] to [`GREATEST`]: any signed or unsigned integer of up to 64 bits.
    Integer(i128),
    /// A floating-point number of IEEE 754. In a parsed filter it is never NaN or infinite.
    Real(f64),
}

impl Number {
    /// Orders two numbers. `None` if one of them is NaN.
    pub fn order(self, other: Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Integer(left), Number::Integer(right)) => Some(left.cmp(&right)),
            (Number::Real(left), Number::Real(right)) => left.partial_cmp(&right),
            (Number::Integer(left), Number::Real(right)) => order_with_real(left, right),
            (Number::Real(left), Number::Integer(right)) => {
                order_with_real(right, left).map(Ordering::reverse)
            }
        }
    }
}

fn order_with_real(integer: i128, real: f64) -> Option<Ordering> {
    if real.is_nan() {
        return None;
    }
    // A cast to i128 saturates. A saturated value is beyond all integers of 64 bits; any other whole real is exact as
    // i128.
    let whole = real.trunc();
    let by_whole = integer.cmp(&(whole as i128));
    // An infinity is its own whole part, and saturates to the right side of any integer.
    let fraction = if real.is_finite() { real - whole } else { 0.0 };
    Some(by_whole.then_with(|| 0.0_f64.partial_cmp(&fraction).unwrap_or(Ordering::Equal)))
}

impl fmt::Display for Number {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(value) => write!(out, "{value}"),
            // The text has a point or an exponent, so that it is parsed as a real number again.
            Number::Real(value) => write!(out, "{value:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Number::{Integer, Real};

    #[test]
    fn order_of_unsigned_and_signed_is_by_value() {
        assert_eq!(Integer(-1).order(Integer(GREATEST)), Some(Ordering::Less));
        assert_eq!(Integer(GREATEST).order(Integer(LEAST)), Some(Ordering::Greater));
    }

    #[test]
    fn order_of_integer_and_real_is_exact_where_a_cast_would_round() {
        let odd = (1_i128 << 53) + 1;
        assert_eq!(odd as f64, (1_i128 << 53) as f64, "the case that needs care");
        assert_eq!(Integer(odd).order(Real((1_i128 << 53) as f64)), Some(Ordering::Greater));
        assert_eq!(Integer(GREATEST).order(Real(18446744073709551616.0)), Some(Ordering::Less));
        assert_eq!(Real(18446744073709551616.0).order(Integer(GREATEST)), Some(Ordering::Greater));
        assert_eq!(Integer(LEAST).order(Real(-9223372036854775808.0)), Some(Ordering::Equal));
    }

    #[test]
    fn order_of_integer_and_real_looks_at_the_fraction() {
        assert_eq!(Integer(2).order(Real(2.5)), Some(Ordering::Less));
        assert_eq!(Integer(-2).order(Real(-2.5)), Some(Ordering::Greater));
        assert_eq!(Integer(-3).order(Real(-2.5)), Some(Ordering::Less));
        assert_eq!(Integer(0).order(Real(-0.0)), Some(Ordering::Equal));
        assert_eq!(Integer(0).order(Real(-5e-324)), Some(Ordering::Greater));
        assert_eq!(Real(2.5).order(Integer(2)), Some(Ordering::Greater));
    }

    #[test]
    fn order_with_infinity_and_nan() {
        assert_eq!(Integer(GREATEST).order(Real(f64::INFINITY)), Some(Ordering::Less));
        assert_eq!(Integer(LEAST).order(Real(f64::NEG_INFINITY)), Some(Ordering::Greater));
        assert_eq!(Integer(0).order(Real(f64::NAN)), None);
        assert_eq!(Real(f64::NAN).order(Real(f64::NAN)), None);
    }
}
