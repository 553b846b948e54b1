//! The part of a trace that an export writes.

use std::fmt::Write as _;

use strata_ctf::read::TimeRange;
use strata_model::{stable_hash, STABLE_HASH_OF_NOTHING};
use strata_sql::Options;

/// Description of the selected records, if these are not all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Text that is equal for equal selections, for the metadata of files.
    pub text: String,
    /// Time range of the part.
    pub range: TimeRange,
}

impl Part {
    /// Describes the selection of `options`; `None` for all records.
    #[must_use]
    pub fn of(options: &Options, stream_intersection: bool) -> Option<Part> {
        if !options.is_part() && !stream_intersection {
            return None;
        }
        let TimeRange { from, to } = options.range;
        let mut text = String::new();
        let mut add = |name: &str, value: &str| {
            let separator = if text.is_empty() { "" } else { "\n" };
            let _ = write!(text, "{separator}{name}={value}");
        };
        if from > i64::MIN {
            add("from_ns", &from.to_string());
        }
        if to < i64::MAX {
            add("until_ns", &to.to_string());
        }
        if let Some(filter) = &options.filter {
            add("filter", filter.text());
        }
        if let Some(of) = &options.of {
            add("of", of);
        }
        if stream_intersection {
            add("stream_intersection", "true");
        }
        Some(Part { text, range: options.range })
    }

    /// Returns the end of the partition's name: the same for the same selection, so that an export that is repeated
    /// meets its own files.
    pub(crate) fn suffix(&self) -> String {
        let hash = stable_hash(STABLE_HASH_OF_NOTHING, self.text.as_bytes());
        format!("-part-{hash:016x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_a_name_of_its_own_and_all_records_have_none() {
        assert_eq!(Part::of(&Options::default(), false), None);
        let of_time = |from| {
            let options = Options { range: TimeRange { from, to: i64::MAX }, ..Options::default() };
            Part::of(&options, false).unwrap()
        };
        assert_eq!(of_time(5).text, "from_ns=5");
        assert_eq!(of_time(5).suffix(), of_time(5).suffix());
        assert_ne!(of_time(5).suffix(), of_time(6).suffix());
        let filter = Some("a == \"x\" && b > 3".parse().unwrap());
        let of = Some("nginx".to_owned());
        let options = Options { filter, of, ..Options::default() };
        let part = Part::of(&options, true).unwrap();
        assert!(part.text.ends_with("\nof=nginx\nstream_intersection=true"), "{}", part.text);
        assert!(part.text.starts_with("filter="), "{}", part.text);
    }
}
