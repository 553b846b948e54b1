//! Parses numbers on the command lines of commands that read traces, within limits.

use std::num::NonZeroUsize;

/// The most threads: further ones read no faster anywhere, and each takes memory.
const THREADS_MAX: usize = 1024;
/// The most rows that a report keeps while it reads, since each takes memory for its texts.
const KEPT_MAX: usize = 1_000_000;

/// Parses a number of threads.
///
/// # Errors
/// The text is no number, or the number is beyond the limit.
pub fn nr_threads(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse().ok().filter(|number: &NonZeroUsize| number.get() <= THREADS_MAX);
    number.ok_or_else(|| format!("not a number from 1 to {THREADS_MAX}"))
}

/// Parses the number of rows to keep while traces are read.
///
/// # Errors
/// The text is no number, or the number is beyond the limit.
pub fn nr_kept(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number <= KEPT_MAX);
    number.ok_or_else(|| {
        format!(
            "not a number from 0 to {KEPT_MAX}. `strata view` and `strata export` show all records"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_their_limits_are_refused_with_the_limit() {
        for text in ["0", "-1", "1025", "4294967296", "18446744073709551615", "1e308", ""] {
            assert!(nr_threads(text).unwrap_err().contains("1 to 1024"), "{text}");
        }
        assert_eq!(nr_threads("1024").unwrap().get(), 1024);
        for text in ["-1", "1000001", "18446744073709551615", "99999999999999999999", "nan"] {
            assert!(nr_kept(text).unwrap_err().contains("0 to 1000000"), "{text}");
        }
        assert_eq!((nr_kept("0"), nr_kept("1000000")), (Ok(0), Ok(KEPT_MAX)));
    }
}
