//! Collects the results of a `--probe` with a pattern: names that fit are recorded, and others are reported.

use crate::decide::uprobe::error::ProbeProblem;

/// The most reasons that are reported for one pattern.
const REASONS: usize = 6;
/// The most names that are listed for one reason.
const NAMES: usize = 3;

/// The result of trying to probe all functions whose names match a pattern.
#[derive(Debug, Default)]
pub(crate) struct Fit {
    /// Number of names whose functions are recorded.
    fitting: u64,
    /// The names whose functions cannot be recorded, by reason.
    left_out: Vec<(String, Vec<String>)>,
}

impl Fit {
    /// Counts a name whose function is recorded.
    pub(crate) fn fits(&mut self) {
        self.fitting += 1;
    }

    /// Adds a name whose function cannot be recorded, with the reason.
    pub(crate) fn leave_out(&mut self, name: &str, why: &str) {
        match self.left_out.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => names.push(name.to_owned()),
            None => self.left_out.push((why.to_owned(), vec![name.to_owned()])),
        }
    }

    /// Returns a remark on the names whose functions cannot be recorded; `None` if there are none.
    ///
    /// # Errors
    /// No name can be recorded.
    pub(crate) fn remark(&self, spec: &str) -> Result<Option<String>, ProbeProblem> {
        let others: usize = self.left_out.iter().map(|(_, names)| names.len()).sum();
        let mut parts: Vec<String> = self
            .left_out
            .iter()
            .take(REASONS)
            .map(|(why, names)| format!("{}: {why}", listed(names)))
            .collect();
        let untold: usize = self.left_out.iter().skip(REASONS).map(|(_, names)| names.len()).sum();
        if untold > 0 {
            parts.push(format!("{untold} more for other reasons"));
        }
        let parts = parts.join("; ");
        match (self.fitting, others) {
            (_, 0) => Ok(None),
            (0, others) => Err(ProbeProblem::NoneFits { found: others, why: parts }),
            (fitting, others) => Ok(Some(format!(
                "probe {spec}: of {} that match, {fitting} can be recorded. Left out: {parts}",
                fitting + others as u64
            ))),
        }
    }
}

/// Returns a text such as `a, b, c and 5 more`.
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fit_tells_what_is_left_out_by_reason_and_counts_what_is_much() {
        let mut fit = Fit::default();
        fit.fits();
        assert_eq!(fit.remark("x").unwrap(), None);
        for number in 0..8 {
            fit.leave_out(&format!("f{number}"), "so it is");
        }
        fit.leave_out("g", "no code");
        assert_eq!(
            fit.remark("uprobe:x:*").unwrap().unwrap(),
            "probe uprobe:x:*: of 10 that match, 1 can be recorded. Left out: f0, f1, f2 and 5 more: so it \
             is; g: no code"
        );
        (0..20).for_each(|number| fit.leave_out("h", &format!("reason {number}")));
        let text = fit.remark("x").unwrap().unwrap();
        assert!(text.ends_with("h: reason 3; 16 more for other reasons"), "{text}");
    }

    #[test]
    fn fit_of_nothing_is_an_error_with_the_reasons() {
        let mut fit = Fit::default();
        fit.leave_out("a", "no");
        fit.leave_out("b", "no");
        let error = fit.remark("x").unwrap_err().to_string();
        assert_eq!(error, "2 match, and none of them can be recorded: a, b: no");
    }
}
