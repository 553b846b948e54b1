//! Where the traces of a session go: a folder for each is one output, a snapshot is another.

use strata_model::Counts;

use crate::error::Error;
use crate::sink::Sink;

/// Makes the sinks of a session's traces.
pub trait Output: Send {
    /// A trace of this layer, and within it of the process with this name and number, if it is of one.
    ///
    /// # Errors
    /// What the system says.
    fn trace(&mut self, layer: &str, process: Option<(&[u8], u32)>)
        -> Result<Box<dyn Sink>, Error>;

    /// Takes a layer's trace away, in which is nothing.
    fn remove(&mut self, layer: &str, sink: Box<dyn Sink>);

    /// Is this trace among those that are written to now? Where an output is rotated, traces of before are not.
    fn is_present(&self, _sink: &dyn Sink) -> bool {
        true
    }

    /// This trace is complete, and so much is in it: of its channel, and besides.
    fn ended(&mut self, _sink: &dyn Sink, _counts: &Counts, _besides: &Counts) {}
}
