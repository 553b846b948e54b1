//! Filter expressions.

use strata_filter::{Fields, Filter, Path, Pattern, Value};

/// A record whose fields have values of every kind, by their name's length.
struct Record<'i>(&'i [u8]);

impl Fields for Record<'_> {
    fn name(&self) -> &[u8] {
        b"sched_switch"
    }

    fn cpu(&self) -> Option<u64> {
        Some(self.0.len() as u64)
    }

    fn loglevel(&self) -> Option<i64> {
        (self.0.len() % 2 == 0).then_some(-1)
    }

    fn field(&self, path: &Path) -> Option<Value<'_>> {
        let number = || i64::from_le_bytes(*self.0.first_chunk().unwrap_or(&[7; 8]));
        match path.to_string().len() % 6 {
            0 => Some(Value::Integer(number().into())),
            1 => Some(Value::Integer((number() as u64).into())),
            2 => Some(Value::Real(f64::from_bits(number() as u64))),
            3 => Some(Value::Text(self.0)),
            4 => Some(Value::Other),
            _ => None,
        }
    }

    fn label(&self, _: &Path, value: i128, pattern: &Pattern) -> Option<bool> {
        (value % 2 == 0).then(|| pattern.matches(self.0))
    }
}

/// A filter that is read is printed, read again as the same, and has the same value. An error is a message with
/// a caret below the text.
pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let filter = match Filter::parse(text) {
        Ok(filter) => filter,
        Err(error) => {
            assert!(error.to_string().len() < 2000, "{error}");
            assert!(error.caret().len() < 4000, "{}", error.caret());
            return;
        }
    };
    let value = filter.evaluate(&Record(input));
    let printed = filter.to_string();
    // Printed it may be longer than a filter may be.
    if printed.len() <= strata_filter::MAX_LENGTH {
        let again = Filter::parse(&printed);
        let again = again.unwrap_or_else(|error| panic!("printed: {printed}\n{error}"));
        assert_eq!(again, filter, "printed: {printed}");
        assert_eq!(again.evaluate(&Record(input)), value, "printed: {printed}");
    }
}
