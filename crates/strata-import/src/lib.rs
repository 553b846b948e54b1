//! Files of other tracers, rewritten as a trace in the Common Trace Format, which all readers take.
//!
//! ```text
//! perf/              perf.data of perf
//!   head.rs              events, and what perf says of the machine
//!   record.rs            records: samples, names of threads, mappings
//!   classes.rs           event classes of the trace, and how a record of perf becomes one of theirs
//!   ordered.rs           records in the order of time: perf writes them by CPU, in rounds
//! trace_dat/         trace.dat of trace-cmd
//!   head.rs              events, names of threads, and places of the pages
//!   pages.rs             the kernel's pages, and the events in them
//! formats.rs         the kernel's descriptions of tracepoints, which such files have in them
//! tracepoints.rs     the class of a tracepoint, and its records
//! trace_writer.rs    packets and metadata
//! ```
//!
//! The names of events and fields are those that readers know from recordings of our own:
//!
//! | perf | trace |
//! |---|---|
//! | sample of `cpu-clock` | `cpu_clock`, with `callstack_kernel` and `callstack_user` |
//! | sample of a tracepoint | the kernel's name and its fields |
//! | sample of another event | the event's name |
//! | `COMM`, `FORK` | `lttng_statedump_process_state`, `lttng_statedump_vm_exec`, `lttng_statedump_vm_fork` |
//! | `MMAP`, `MMAP2` of code | `lttng_statedump_vm_map` |
//! | records about what perf had no room for | the number of discarded records of packets |
//! | event of trace-cmd | the kernel's name and its fields, with thread and its name |
//! | its pages' and CPUs' counts of overwritten events | the number of discarded records of packets |
//!
//! # Hostile input
//! Every byte of a file may be wrong. Nothing is taken by a number that the file gives, without a limit. Memory is that of two
//! rounds of records, with a limit; a record becomes at most some times its size on the disk. Where a file is cut off or damaged, what
//! is in front of that place is in the trace, and [`Imported::remarks`] says what is not.
#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc)]

mod bytes;
mod error;
mod formats;
mod imported;
mod perf;
mod trace_dat;
mod trace_writer;
mod tracepoints;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use strata_model::Uuid;

pub use error::ImportError;
pub use imported::Imported;

/// The tracer that has written a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The file was written by `perf record`.
    Perf,
    /// The file was written by `trace-cmd record`.
    TraceCmd,
}

impl Origin {
    /// Returns which tracer has written the file, by its first bytes; `None` if it is no file of a known tracer.
    #[must_use]
    pub fn of(path: &Path) -> Option<Origin> {
        // A pipe would wait for a writer.
        path.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let mut begin = [0; 8];
        File::open(path).and_then(|mut file| file.read_exact(&mut begin)).ok()?;
        match begin {
            _ if perf::is_one(&begin) => Some(Origin::Perf),
            _ if trace_dat::is_one(&begin) => Some(Origin::TraceCmd),
            _ => None,
        }
    }
}

/// Converts a file of `origin` to a trace with this UUID, unless `is_stopped` returns true before. `folder`: the
/// trace's folder, which exists and is empty.
///
/// # Errors
/// The file cannot be read, the trace cannot be written, or it was asked to stop.
pub fn convert(
    origin: Origin,
    path: &Path,
    folder: &Path,
    uuid: Uuid,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Imported, ImportError> {
    match origin {
        Origin::Perf => perf::convert(path, folder, uuid, is_stopped),
        Origin::TraceCmd => trace_dat::convert(path, folder, uuid, is_stopped),
    }
}
