//! Destinations of a session's traces: a folder for each trace is one output, a snapshot is another.

use strata_model::Counts;

use crate::error::Error;
use crate::sink::Sink;

/// Makes the sinks of a session's traces.
pub trait Output: Send {
    /// Creates the trace of this layer. `process` is the name and number of the process within the layer to which the
    /// trace belongs, if it belongs to one.
    ///
    /// # Errors
    /// A system call failed.
    fn trace(&mut self, layer: &str, process: Option<(&[u8], u32)>)
        -> Result<Box<dyn Sink>, Error>;

    /// Removes an empty trace of a layer.
    fn remove(&mut self, layer: &str, sink: Box<dyn Sink>);

    /// Returns whether this trace is still written to. After a rotation, earlier traces are not.
    fn is_present(&self, _sink: &dyn Sink) -> bool {
        true
    }

    /// Notes that this trace is complete, with the counts of its channel and of its other records.
    fn ended(&mut self, _sink: &dyn Sink, _counts: &Counts, _besides: &Counts) {}
}
