//! What one process may take of the mover's time for its metadata, and how much is said of it.

use std::time::{Duration, Instant};

/// Metadata are made anew for at most one part in so many of the time: a process that has new kinds of event
/// records all the time has its packets wait, and those of others do not.
const SHARE: u32 = 16;

/// Warnings that are kept of a process.
const WARNINGS_MAX: usize = 16;

/// When something may be done again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    due: Instant,
}

impl Pace {
    /// At once.
    pub(crate) fn new() -> Pace {
        Pace { due: Instant::now() }
    }

    /// It was done, from `begin` on, for so long.
    pub(crate) fn done(&mut self, begin: Instant, took: Duration) {
        self.due = begin + took * SHARE;
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }
}

/// Keeps a text once; where there are too many, says that as the last one.
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
        let (mut pace, begin) = (Pace::new(), Instant::now());
        assert!(pace.is_due(begin));
        pace.done(begin, Duration::from_millis(30));
        assert!(!pace.is_due(begin + Duration::from_millis(479)));
        assert!(pace.is_due(begin + Duration::from_millis(480)));
    }

    #[test]
    fn warnings_beyond_the_limit_are_said_to_be_there() {
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
        let (mut pace, begin) = (Pace::new(), Instant::now());
        pace.done(begin, Duration::ZERO);
        assert!(pace.is_due(begin));
        let mut texts = Vec::new();
        for text in ["a", "b", "a", "a"] {
            keep(&mut texts, text.to_owned());
        }
        assert_eq!(texts, ["a", "b"]);
    }
}
