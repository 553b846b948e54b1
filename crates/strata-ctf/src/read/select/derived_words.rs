//! Words of filters whose values come from other records, and the trait that supplies the values.
//!
//! A kernel record has its thread's number; other records have that thread's name and process. An implementation of
//! [`DerivedValues`] that has read them gives the values of such words to a [`Selection`](super::Selection).

use std::fmt;

use strata_filter::lower::IntegerSpan;
use strata_filter::{Path, PathStep, Root};

use super::super::Event;

/// A word of a filter whose value is derived from other records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DerivedWord {
    /// The number of the process in the kernel's numbering.
    Pid,
    /// The number of the thread in the kernel's numbering.
    Tid,
    /// The name of the thread.
    Comm,
    /// The path of the process' control group.
    Cgroup,
    /// The container of the process.
    Container,
    /// The name of the machine on which the record was made.
    Host,
    /// The duration of the system call or the span that the record begins or ends \[ns\].
    Duration,
}

/// Spellings of the words in filters. LTTng calls a thread's name `procname`.
const SPELLINGS: [(&str, DerivedWord); 8] = [
    ("pid", DerivedWord::Pid),
    ("tid", DerivedWord::Tid),
    ("comm", DerivedWord::Comm),
    ("procname", DerivedWord::Comm),
    ("cgroup", DerivedWord::Cgroup),
    ("container", DerivedWord::Container),
    ("host", DerivedWord::Host),
    ("duration", DerivedWord::Duration),
];

impl DerivedWord {
    /// Returns every spelling of every word.
    pub fn spellings() -> impl Iterator<Item = (&'static str, DerivedWord)> {
        SPELLINGS.into_iter()
    }

    /// Returns the word that a field's name spells, for records without such a field.
    pub(super) fn of(path: &Path) -> Option<DerivedWord> {
        let ([PathStep::Member(name)], Root::Any | Root::Context) = (&*path.steps, path.root)
        else {
            return None;
        };
        SPELLINGS.iter().find(|(spelling, _)| spelling == name).map(|(_, word)| *word)
    }

    /// Returns whether the word's values are texts. Values of other words are integers.
    #[must_use]
    pub fn is_text(self) -> bool {
        matches!(
            self,
            DerivedWord::Comm | DerivedWord::Cgroup | DerivedWord::Container | DerivedWord::Host
        )
    }
}

/// The value of a [`DerivedWord`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DerivedValue<'d> {
    /// An integer value.
    Integer(i64),
    /// A text value, as bytes.
    Text(&'d [u8]),
}

/// Supplies values that records do not have themselves.
pub trait DerivedValues: fmt::Debug + Send + Sync {
    /// Returns the value of a word for a record, or `None` if it is unknown.
    fn value<'d>(&'d self, word: DerivedWord, event: &Event<'_>) -> Option<DerivedValue<'d>>;

    /// Returns whether the record belongs to the processes that the user asked for, independently of the filter.
    fn is_wanted(&self, event: &Event<'_>) -> bool;
}

/// The words that a filter uses for some class of records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedWords {
    words: Vec<DerivedWord>,
    durations: Vec<(Vec<IntegerSpan>, bool)>,
    any_duration: bool,
}

impl AskedWords {
    /// Returns whether the filter uses fields of records only.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns whether the filter uses this word.
    #[must_use]
    pub fn has(&self, word: DerivedWord) -> bool {
        self.words.contains(&word)
    }

    /// Returns whether the filter uses words of which each trace says the value once, and no others.
    #[must_use]
    pub fn are_of_traces(&self) -> bool {
        !self.is_empty() && self.words.iter().all(|word| *word == DerivedWord::Host)
    }

    /// Returns whether a filter may select by a duration of `nanos`. If not, the record can be passed on before its
    /// duration is known.
    #[must_use]
    pub fn wants_duration(&self, nanos: u64) -> bool {
        let nanos = i128::from(nanos);
        self.any_duration
            || self.durations.iter().any(|(spans, outside)| {
                spans.iter().any(|(from, to)| (*from..=*to).contains(&nanos)) != *outside
            })
    }

    pub(super) fn add(&mut self, word: DerivedWord) {
        if !self.has(word) {
            self.words.push(word);
        }
    }

    /// Adds a word that the filter compares only with these integers.
    pub(super) fn add_spans(&mut self, word: DerivedWord, spans: &[IntegerSpan], outside: bool) {
        self.add(word);
        if word == DerivedWord::Duration {
            self.durations.push((spans.to_vec(), outside));
        }
    }

    /// Adds a word whose every value the filter may select.
    pub(super) fn add_any(&mut self, word: DerivedWord) {
        self.add(word);
        self.any_duration |= word == DerivedWord::Duration;
    }
}
