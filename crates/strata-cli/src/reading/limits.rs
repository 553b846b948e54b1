//! Reports a trace that has more threads, names or counters than a timeline distinguishes.

use strata_timeline::{ACTIVE_MAX, COUNTERS_MAX, NAMES_MAX, THREADS_MAX};

use crate::units::{count, counted};

/// Returns all messages on threads and names that were left out.
pub fn texts(threads_left_out: u64, names_left_out: u64) -> Vec<String> {
    let mut texts = Vec::new();
    if threads_left_out > 0 {
        texts.push(format!(
            "more than {} threads in the traces, or {} of them at one time, which is the limit: {} a \
             record was of another one, and is of no thread in the report. Choose an earlier end: --until",
            count(THREADS_MAX as u64),
            count(ACTIVE_MAX as u64),
            counted(threads_left_out, "time"),
        ));
    }
    if names_left_out > 0 {
        texts.push(format!(
            "more than {} names of threads and files in the traces, which is the limit: {} a record had \
             another one, and its thread or file has no name. Choose an earlier end: --until",
            count(NAMES_MAX as u64),
            counted(names_left_out, "time"),
        ));
    }
    texts
}

/// Returns a message on counters that were left out, if there are any.
pub fn counters(left_out: u64) -> Option<String> {
    (left_out > 0).then(|| {
        format!(
            "more than {} counters in the traces, which is the limit: {} a field, or a record, was of another \
             one, of which no value is exported. Name fewer fields: --counter EVENT.FIELD",
            count(COUNTERS_MAX as u64),
            counted(left_out, "time"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_is_reported_with_how_often_and_the_limit() {
        assert!(texts(0, 0).is_empty());
        let one = texts(1, 0);
        assert_eq!(one.len(), 1);
        assert!(
            one[0].starts_with("more than 4,194,304 threads")
                && one[0].contains("262,144 of them at one time")
                && one[0].contains("1 time a"),
            "{one:?}"
        );
        assert_eq!(counters(0), None);
        let text = counters(2).unwrap();
        assert!(text.contains("65,536 counters") && text.contains("2 times a"), "{text}");
        let both = texts(12_345, 2);
        assert!(both[0].contains("12,345 times a"), "{both:?}");
        assert!(
            both[1].starts_with("more than 262,144 names") && both[1].contains("2 times a"),
            "{both:?}"
        );
    }
}
