//! Separates a filter's conditions on a duration from the rest. A recorder knows the duration of a call or span at its
//! end, but not at its begin.

use crate::number::Number;
use crate::{Comparison, Expr, Filter, Literal, Op, Operand, Path, PathStep, Root, Subject, Term};

/// Name of the derived field with the duration.
const DURATION: &str = "duration";

/// A filter in two parts, both of which must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct DurationSplit {
    /// The shortest duration that the filter selects \[ns\]; 0 if it has no condition on the duration.
    pub at_least: u64,
    /// The filter without its conditions on the duration; `None` if it has no other conditions.
    pub rest: Option<Filter>,
}

/// The error that a condition on the duration cannot be separated from the rest of its filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "filter: '{condition}': a recorder knows a duration only as a lower bound beside all other conditions, as in \
     'poll && duration > 50ms'. Record by such a bound, and select the rest from the trace: strata view -f"
)]
pub struct DurationError {
    /// The condition, as [`Filter`] prints it.
    pub condition: String,
}

impl Filter {
    /// Separates conditions such as `duration > 50ms` from the other conditions, to which `&&` joins them.
    ///
    /// # Errors
    /// The duration is used in another way: inside `||` or `!`, or not as a lower bound.
    pub fn split_duration(&self) -> Result<DurationSplit, DurationError> {
        let parts = match self.expr() {
            Expr::And(parts) => parts.as_slice(),
            one => std::slice::from_ref(one),
        };
        let (mut at_least, mut rest) = (0u64, Vec::new());
        for part in parts {
            match lower_bound(part) {
                Some(bound) => at_least = at_least.max(bound),
                None if asks_for_duration(part) => {
                    return Err(DurationError { condition: part.to_string() });
                }
                None => rest.push(part.clone()),
            }
        }
        if at_least == 0 {
            return Ok(DurationSplit { at_least, rest: Some(self.clone()) });
        }
        let rest = match rest.len() {
            0 => None,
            1 => rest.pop(),
            _ => Some(Expr::And(rest)),
        };
        // A parsed filter is printed so that it can be parsed again, and the rest is shorter than the whole.
        let rest = rest.and_then(|rest| Filter::parse(&rest.to_string()).ok());
        Ok(DurationSplit { at_least, rest })
    }
}

impl Filter {
    /// Returns true if the filter uses the duration in some way, which is not that of a field of the payload.
    #[must_use]
    pub fn asks_for_duration(&self) -> bool {
        asks_for_duration(self.expr())
    }
}

/// Returns the shortest duration that a condition admits, if the condition is a lower bound \[ns\].
fn lower_bound(condition: &Expr) -> Option<u64> {
    let Expr::Compare(Comparison { left, op, right }) = condition else { return None };
    let Operand::Literal(Literal::Number(number)) = right else { return None };
    if left.mask.is_some() || !is_duration(left) {
        return None;
    }
    let above = match op {
        Op::Greater => 1,
        Op::GreaterOrEqual => 0,
        _ => return None,
    };
    let nanos = match number {
        Number::Integer(nanos) => u64::try_from(*nanos).ok()?,
        Number::Real(nanos) if (0.0..9e18).contains(nanos) => nanos.trunc() as u64,
        Number::Real(_) => return None,
    };
    // A bound of 0 would be no condition, since every call has a duration.
    Some(nanos.saturating_add(above).max(1))
}

fn is_duration(term: &Term) -> bool {
    matches!(&term.subject, Subject::Field(path) if is_path_of_duration(path))
}

fn is_path_of_duration(path: &Path) -> bool {
    matches!(path.root, Root::Any | Root::Context)
        && matches!(path.steps.as_slice(), [PathStep::Member(name)] if name == DURATION)
}

fn asks_for_duration(condition: &Expr) -> bool {
    match condition {
        Expr::And(parts) | Expr::Or(parts) => parts.iter().any(asks_for_duration),
        Expr::Not(inner) => asks_for_duration(inner),
        Expr::Compare(Comparison { left, right, .. }) => {
            is_duration(left) || matches!(right, Operand::Term(term) if is_duration(term))
        }
        Expr::In(term, _) => is_duration(term),
        Expr::Has(path) => is_path_of_duration(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Result<(u64, Option<String>), String> {
        let found = Filter::parse(text).unwrap().split_duration();
        found
            .map(|found| (found.at_least, found.rest.map(|rest| rest.to_string())))
            .map_err(|error| error.condition)
    }

    #[test]
    fn duration_that_is_a_lower_bound_is_split_from_the_rest() {
        for (text, at_least, rest) in [
            ("duration > 50ms", 50_000_001, None),
            ("duration >= 50ms", 50_000_000, None),
            ("50ms < duration", 50_000_001, None),
            ("poll && duration > 1us", 1001, Some("poll")),
            (
                "duration >= 1 && (fd == 3 || fd == 4) && duration > 2ms",
                2_000_001,
                Some("fd == 3 || fd == 4"),
            ),
            ("duration >= 0 && !close", 1, Some("!close")),
            ("context.duration > 1.5", 2, None),
            ("a && b && duration > 7", 8, Some("a && b")),
        ] {
            assert_eq!(split(text), Ok((at_least, rest.map(str::to_owned))), "{text}");
        }
    }

    #[test]
    fn filter_that_does_not_ask_for_the_duration_stays_as_it_was_written() {
        let filter = Filter::parse("fd==3||payload.duration > 5").unwrap();
        let split = filter.split_duration().unwrap();
        assert_eq!((split.at_least, split.rest.unwrap().text()), (0, filter.text()));
    }

    #[test]
    fn duration_that_is_asked_for_otherwise_is_refused_with_the_condition() {
        for (text, condition) in [
            ("poll || duration > 5", "poll || duration > 5"),
            ("poll && !(duration > 5)", "!(duration > 5)"),
            ("duration < 5ms", "duration < 5000000"),
            ("poll && duration == 5", "duration == 5"),
            ("duration in {1 ... 5}", "duration in {1 ... 5}"),
            ("duration > fd", "duration > fd"),
            ("duration > -1", "duration > -1"),
            ("poll && has(duration)", "has(duration)"),
        ] {
            assert_eq!(split(text), Err(condition.to_owned()), "{text}");
        }
    }
}
