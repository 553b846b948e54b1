//! Aggregates: what is counted in the kernel by which keys, as constants of programs, and the counts that are
//! read back.
//!
//! ```text
//! CountSpec: keys, value ── resolve: for each selected event, the place of each key and of the value ──▶ constants of its program
//! filter of the event    ── ends: of a system call, what its entry tests and what its exit tests      ──▶ its two filters
//! table in the kernel, rows by CPU ── table: sums, extremes, powers of two, over all CPUs               ──▶ CountRow
//! ```
//!
//! `strata count -k openat --by procname,ret --sum duration` makes a spec of two keys and one value. A row of the
//! table is a combination of keys that occurred, with the number of events, the sum, least and greatest value,
//! and if asked for a histogram.
//!
//! A key is the event's name, a fact about the thread or CPU, or a field. A name means the same as in a filter: a
//! field of the event first, then a fact about where it happens. What a filter can test has a fixed place, so a
//! key or a value can be read from there, too; what has none is refused with its reason ([`CountError`]).
//!
//! A system call has two ends, and both may have keys: the file of `openat`, and its result. Then the program at
//! the entry keeps what belongs to it until the exit ([`strata_abi::count::PAIRED`]).
//!
//! All events are counted in one table. An event without a key has rows in which that key is absent; an event
//! without the value is not counted. A name must be a text in all events or a number in all of them.
//!
//! Programs on all CPUs add to the table at once, each in its own CPU's part of a row. The tracer may read at any
//! time: a row that it reads while it changes is one event behind. When the table is full, events of further
//! combinations are counted as such.

mod ends;
mod resolve;
mod table;

use crate::decide::filter::Unsupported;
use strata_filter::Path;
use thiserror::Error;

pub use table::{CountRow, CountTable, CountValues, KeyValue};

pub(crate) use ends::{split_ends, SplitFilter};
pub(crate) use resolve::{CountKinds, Counted, KeyKinds};
pub(crate) use table::TableShape;

/// Number of keys that a row has at most.
pub const KEYS_MAX: usize = strata_abi::count::KEYS_MAX;

/// A value of an event by which the table of counts has its rows, or which is added up in a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// The name of the event, or of the system call.
    Name,
    /// The real user id of the thread.
    Uid,
    /// The real group id of the thread.
    Gid,
    /// The time from the entry of a system call to its exit \[ns\].
    Duration,
    /// A field of the event, or the process, thread, CPU, control group or name of the thread.
    Field(Path),
}

/// The request to count the selected events: the keys of rows, and the value to add up.
#[derive(Clone, Debug, PartialEq)]
pub struct CountSpec {
    /// The keys, with the names under which the user asked for them; at most [`KEYS_MAX`].
    pub keys: Vec<(String, Operand)>,
    /// The value whose sum and extremes are kept.
    pub value: Option<(String, Operand)>,
    /// True to keep a histogram of the values by powers of two, too.
    pub spread: bool,
    /// Number of rows for which the kernel reserves memory.
    pub rows_max: u32,
}

/// Reason why the selected events cannot be counted as requested.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum CountError {
    /// None of the selected events has a field of this name.
    #[error(
        "'{name}': none of the selected events has it. `strata list -k EVENT` shows the fields of an event; of the thread \
         there are pid, tid, procname, uid, gid, cgroup and cpu, of the event its name, and of system calls the duration"
    )]
    Absent {
        /// The name of the key or value.
        name: String,
    },
    /// A field is in a place that BPF programs cannot read.
    #[error("'{name}' of event '{event}' is no key or value: {why}. Record the event, and count with `strata sql`")]
    Unsupported {
        /// The name of the key or value.
        name: String,
        /// The name of the event.
        event: String,
        /// The reason.
        why: Unsupported,
    },
    /// The value is a text.
    #[error("'{name}' of event '{event}' is a text, which cannot be added up. Use it in --by")]
    Text {
        /// The name of the value.
        name: String,
        /// The name of the event.
        event: String,
    },
    /// A key is a text in some events and a number in others.
    #[error("'{name}' is a text in event '{text}' and a number in event '{number}'. Count these events one by one")]
    Mixed {
        /// The name of the key.
        name: String,
        /// The name of an event in which it is a text.
        text: String,
        /// The name of an event in which it is a number.
        number: String,
    },
    /// No program counts events of this kind.
    #[error("'{event}' cannot be counted. Record it, and count with `strata sql`")]
    NoProgram {
        /// The name of the event.
        event: String,
    },
    /// The conditions on one end of a system call, its entry or exit, cannot be evaluated separately.
    #[error(
        "filter: its conditions for one end of '{event}' are no filter of their own: {reason}. Use a shorter filter"
    )]
    End {
        /// The name of the system call.
        event: String,
        /// The reason, from parsing them.
        reason: String,
    },
    /// A condition needs fields of a system call's entry and of its exit at once.
    #[error(
        "filter: '{part}' asks for fields of the entry and of the exit of '{event}' at once. Join such conditions by '&&' \
         only, or record the calls"
    )]
    BothEnds {
        /// The condition in the filter.
        part: String,
        /// The name of the system call.
        event: String,
    },
}

impl CountSpec {
    /// Returns the name of the operand that `text` is.
    ///
    /// # Errors
    /// The text is not a field's path.
    pub fn operand(text: &str) -> Result<Operand, strata_filter::ParseError> {
        Ok(match text {
            "name" => Operand::Name,
            "duration" => Operand::Duration,
            "uid" | "context.uid" => Operand::Uid,
            "gid" | "context.gid" => Operand::Gid,
            "cpu" => Operand::Field(path("context.cpu")?),
            _ => Operand::Field(path(text)?),
        })
    }
}

/// Parses the path of a field in the syntax of filters.
fn path(text: &str) -> Result<Path, strata_filter::ParseError> {
    let filter = strata_filter::Filter::parse(&format!("has({text})"))?;
    match filter.expr() {
        strata_filter::Expr::Has(path) => Ok(path.clone()),
        // Text that closes the parenthesis itself, such as `a) || has(b`.
        _ => Err(match strata_filter::Filter::parse("has()") {
            Err(error) => error,
            Ok(_) => return path("name"),
        }),
    }
}

/// Returns the least value that the bucket with this index counts in [`CountValues::buckets`]; `None` for the bucket
/// of negative values.
#[must_use]
pub fn bucket_begin(bucket: usize) -> Option<u64> {
    match bucket {
        0 => None,
        1 => Some(0),
        power => 1u64.checked_shl(u32::try_from(power - 2).ok()?),
    }
}

/// Returns the paths of all existing control groups, by the number that stands for each in keys.
#[must_use]
pub fn group_paths() -> std::collections::HashMap<u64, String> {
    crate::decide::filter::cgroup::paths()
}
