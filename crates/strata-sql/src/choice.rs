//! The event records and the rules with which a database is made.

use strata_analyze::counters::CounterRule;
use strata_analyze::debug_info::SourceOptions;
use strata_analyze::derived_facts::{BoundSelection, WantedOf};
use strata_ctf::read::{Reader, Selection, TimeRange};
use strata_filter::Filter;
use strata_timeline::PairRule;

use crate::error::SqlError;

/// Options of a database.
#[derive(Clone, Debug)]
pub struct Options {
    /// Options for finding the names of functions.
    pub names: SourceOptions,
    /// Time range of the rows. States are cut at its ends.
    pub range: TimeRange,
    /// Filter of the event records; `None` for all.
    pub filter: Option<Filter>,
    /// Name or number of the processes and threads whose records are rows; `None` for all.
    pub of: Option<String>,
    /// Pairs of events that are the ends of a span, besides those that their names tell.
    pub pairs: Vec<PairRule>,
    /// Fields whose values are rows of the table `counter`.
    pub counters: Vec<CounterRule>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            names: SourceOptions::default(),
            range: TimeRange::ALL,
            filter: None,
            of: None,
            pairs: Vec::new(),
            counters: Vec::new(),
        }
    }
}

impl Options {
    /// Returns whether the database has only a part of the records.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.range != TimeRange::ALL || self.filter.is_some() || self.of.is_some()
    }

    /// Compiles the choice of records.
    ///
    /// # Errors
    /// It was stopped, or no process or thread has the name.
    pub(crate) fn compile(
        self,
        reader: &Reader,
        stop: &dyn Fn() -> bool,
    ) -> Result<Choice, SqlError> {
        let Options { names: _, range, filter, of, pairs, counters } = self;
        let mut left_out = Vec::new();
        let wanted = of.as_deref().map(|words| WantedOf { words, also_about: true });
        let selection = match filter.is_some() || of.is_some() {
            false => None,
            true => {
                let bound = BoundSelection::read(reader, filter.as_ref(), wanted, range, stop);
                let bound = bound.ok_or(SqlError::Stopped)?;
                if let Some(name) = &of {
                    if bound.facts.as_ref().is_some_and(|facts| !facts.has_wanted()) {
                        return Err(SqlError::Query(format!(
                            "no process and no thread of the traces has the name or number '{name}'"
                        )));
                    }
                }
                left_out.extend(remark(
                    bound.selection.deferred_left_out(),
                    "an argument of a system call came in a record behind the entry, of which more are there than are kept: \
                     the filter has not seen it",
                ));
                left_out.extend(remark(
                    bound.facts.as_ref().map_or(0, |facts| facts.left_out()),
                    "there are more facts of who made records, and how long calls and spans took, than are kept: the filter \
                     does not select those records",
                ));
                Some(bound.selection)
            }
        };
        Ok(Choice { range, selection, pairs, counters, left_out })
    }
}

fn remark(count: u64, text: &str) -> Option<String> {
    (count > 0).then(|| format!("{count}×, {text}"))
}

/// The records and rules of a database.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub range: TimeRange,
    /// Compiled filter; `None` for all records.
    pub selection: Option<Selection>,
    pub pairs: Vec<PairRule>,
    pub counters: Vec<CounterRule>,
    /// Remarks on records that the filter could not judge.
    pub left_out: Vec<String>,
}
