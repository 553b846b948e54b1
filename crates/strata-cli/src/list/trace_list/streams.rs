//! Finds the streams of a class.

use strata_ctf::model::schema::StreamClass;
use strata_ctf::read::{Reader, Stream, Trace};

/// Returns the streams of a class that the trace has.
pub fn streams_of<'r>(
    reader: &'r Reader,
    trace: &'r Trace,
    class: &'r StreamClass,
) -> impl Iterator<Item = &'r Stream> {
    let of_trace = |stream: &&Stream| stream.trace().index() == trace.index();
    reader.streams().iter().filter(of_trace).filter(|stream| std::ptr::eq(stream.class(), class))
}
