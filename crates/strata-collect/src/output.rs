//! Where the traces of a session go: a folder for each is one output, a snapshot is another.

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
}
