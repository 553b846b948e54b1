//! What is to be said of processes of which nobody knows whether the command has started them.

use super::KEEP;

/// Processes that are named.
const NAMED_MAX: usize = 5;

/// Processes that announced themselves, and ended before their parents could be seen. They may be anybody's: what is
/// recorded is not incomplete for them, unless something else says so.
#[derive(Debug, Default)]
pub(crate) struct Unseen {
    processes: usize,
    /// The first ones: number and name.
    named: Vec<String>,
    last: Option<u32>,
}

impl Unseen {
    /// One more; the same again is none.
    pub(crate) fn add(&mut self, pid: u32, name: &str) {
        if self.last.replace(pid) == Some(pid) {
            return;
        }
        self.processes = self.processes.saturating_add(1);
        if self.named.len() < NAMED_MAX {
            self.named.push(format!("{pid} ({name})"));
        }
    }

    /// What is to be said of them at the end.
    pub(crate) fn remark(&self) -> Option<String> {
        let (what, of) = match self.processes {
            0 => return None,
            1 => ("process", "it"),
            _ => ("processes", "them"),
        };
        let named = self.named.join(", ");
        let more = match self.processes - self.named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "{what} {named}{more}: announced, and ended before the parents could be seen. What of {of} the command has \
             started is not recorded, as STRATA_SESSION was not in its environment (env -i, sudo and su clear it). {KEEP}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remark_names_the_first_ones_and_counts_the_others() {
        let mut unseen = Unseen::default();
        assert_eq!(unseen.remark(), None);
        unseen.add(7, "a");
        unseen.add(7, "a");
        let said = unseen.remark().unwrap();
        assert!(said.starts_with("process 7 (a): announced, and ended"), "{said}");
        (8..=12).for_each(|pid| unseen.add(pid, "b"));
        let said = unseen.remark().unwrap();
        assert!(said.starts_with("processes 7 (a), 8 (b), "), "{said}");
        assert!(said.contains("11 (b) and 1 more: announced"), "{said}");
    }
}
