//! Counts processes that began with rules that were no longer in effect, for a remark.

use std::time::Duration;

/// Processes that began to record with rules that had been replaced meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Outdated {
    pub(crate) processes: u64,
    /// The longest time until one of these processes got the new rules \[ns\].
    pub(crate) longest_ns: u64,
}

impl Outdated {
    /// Returns the remark for the final report; `None` if there were no such processes.
    pub(crate) fn remark(&self) -> Option<String> {
        let ms = Duration::from_nanos(self.longest_ns).as_secs_f64() * 1e3;
        (self.processes > 0).then(|| {
            format!(
                "{} processes began with rules, contexts or a filter that were changed since: each recorded by these \
                 until it was found, up to {ms:.1} ms after its start",
                self.processes
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remark_says_how_many_began_by_old_rules_and_for_how_long() {
        assert_eq!(Outdated { processes: 0, longest_ns: 5 }.remark(), None);
        let said = Outdated { processes: 3, longest_ns: 12_345_678 }.remark().unwrap();
        assert!(said.starts_with("3 processes began with rules"), "{said}");
        assert!(said.ends_with("up to 12.3 ms after its start"), "{said}");
    }
}
