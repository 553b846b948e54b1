//! Documents hold whole reports in the order in which they are read.

use std::borrow::Cow;

use crate::histogram::Histogram;
use crate::table::Table;
use crate::value::{Record, Value};

/// A whole report: facts about all of it, and its parts from the first to the last.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// The first line, for people.
    pub head: String,
    /// Facts for programs, at the top level of the JSON object.
    pub facts: Record,
    /// Tables, pictures and notes.
    pub parts: Vec<Part>,
}

/// A part of a report.
#[derive(Clone, Debug)]
pub enum Part {
    /// The main table of the report. A report has only one.
    Rows {
        table: Table,
        /// The number of rows, shown or not.
        all: usize,
    },
    /// A further table. People do not see it if it is empty.
    Section {
        /// The table's title for people, empty if it needs none; `None`: the table is for programs only.
        title: Option<Cow<'static, str>>,
        /// The table's key for programs; `None`: the table is for people only.
        key: Option<&'static str>,
        table: Table,
        /// The number of rows, shown or not; `None`: all rows are shown.
        all: Option<usize>,
    },
    /// A histogram for people, with a line for each power of two.
    Histogram {
        title: &'static str,
        /// The title of the column of counts.
        what: &'static str,
        values: Histogram,
    },
    /// An empty line for people.
    Blank,
    /// A line of text for people.
    Line(String),
    /// A less important remark for people.
    Note(String),
    /// A remark for people on how exact quantiles are.
    Exactness,
}

impl Part {
    /// Returns a table for people and programs.
    #[must_use]
    pub fn section(title: impl Into<Cow<'static, str>>, key: &'static str, table: Table) -> Part {
        Part::Section { title: Some(title.into()), key: Some(key), table, all: None }
    }

    /// Returns a table that only people see.
    #[must_use]
    pub fn shown(title: impl Into<Cow<'static, str>>, table: Table) -> Part {
        Part::Section { title: Some(title.into()), key: None, table, all: None }
    }

    /// Returns a table that only programs see.
    #[must_use]
    pub fn hidden(key: &'static str, table: Table) -> Part {
        Part::Section { title: None, key: Some(key), table, all: None }
    }

    /// Sets the number of rows of a table of which only the first ones are shown.
    #[must_use]
    pub fn of(self, rows: usize) -> Part {
        match self {
            Part::Section { title, key, table, .. } => {
                Part::Section { title, key, table, all: Some(rows) }
            }
            other => other,
        }
    }

    /// Returns a histogram of lengths of time, with `what` as the title of the column of counts.
    #[must_use]
    pub fn lengths(what: &'static str, values: &Histogram) -> Part {
        Part::Histogram { title: "How long they took", what, values: values.clone() }
    }
}

impl Document {
    /// Returns a report that has only a first line.
    #[must_use]
    pub fn new(head: impl Into<String>) -> Document {
        Document { head: head.into(), ..Document::default() }
    }

    /// Adds a fact for programs.
    pub fn fact(&mut self, key: &'static str, value: impl Into<Value>) {
        self.facts.push((key, value.into()));
    }

    /// Adds the main table, after an empty line if people see any of its rows. `all` is the number of rows, shown or
    /// not.
    pub fn rows(&mut self, table: Table, all: usize) {
        if !table.rows.is_empty() && table.is_shown() {
            self.push(Part::Blank);
        }
        self.push(Part::Rows { table, all });
    }

    /// Adds a part after all others.
    pub fn push(&mut self, part: Part) {
        self.parts.push(part);
    }
}
