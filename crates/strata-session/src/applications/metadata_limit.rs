//! Limits the share of the writer's time that one process's metadata may take, and the number of remarks on a process.

use std::time::{Duration, Instant};

/// The reciprocal of the share of time that writing one process's metadata may take. While a process must wait for
/// that, its own packets wait, and those of others do not.
const SHARE: u32 = 16;

/// The most warnings that are kept about one process.
const WARNINGS_MAX: usize = 16;

/// A schedule that limits how often something is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    due: Instant,
}

impl Pace {
    /// Creates a schedule by which the first metadata are due at once.
    pub(crate) fn new(now: Instant) -> Pace {
        Pace { due: now }
    }

    /// Notes that metadata were written, from the time `begin` and for the time `took`. The next due time follows
    /// from that.
    pub(crate) fn done(&mut self, begin: Instant, took: Duration) {
        self.due = begin + took * SHARE;
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }
}

/// Adds a text unless it is in the list already. When the list is full, the last text says that others were left out.
pub(crate) fn keep(texts: &mut Vec<String>, text: String) {
    if texts.len() >= WARNINGS_MAX || texts.contains(&text) {
        return;
    }
    texts.push(match texts.len() + 1 {
        WARNINGS_MAX => format!("there is more to say; {WARNINGS_MAX} messages are the limit"),
        _ => text,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_leaves_the_rest_of_the_time_to_others() {
        let begin = Instant::now();
        let mut pace = Pace::new(begin);
        assert!(pace.is_due(begin));
        pace.done(begin, Duration::from_millis(30));
        assert!(!pace.is_due(begin + Duration::from_millis(479)));
        assert!(pace.is_due(begin + Duration::from_millis(480)));
    }

    #[test]
    fn warnings_beyond_the_limit_are_reported_to_be_there() {
        let mut texts = Vec::new();
        for number in 0..100 {
            keep(&mut texts, format!("{}", number / 2));
        }
        assert_eq!(texts.len(), WARNINGS_MAX);
        assert_eq!((texts[0].as_str(), texts[14].as_str()), ("0", "14"));
        assert_eq!(texts[15], "there is more to say; 16 messages are the limit");
    }

    #[test]
    fn pace_of_what_took_no_time_is_due_at_once_and_a_text_is_kept_once() {
        let begin = Instant::now();
        let mut pace = Pace::new(begin);
        pace.done(begin, Duration::ZERO);
        assert!(pace.is_due(begin));
        let mut texts = Vec::new();
        for text in ["a", "b", "a", "a"] {
            keep(&mut texts, text.to_owned());
        }
        assert_eq!(texts, ["a", "b"]);
    }
}
