//! The result of rewriting a file.

/// The result of rewriting a file as a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Samples, or events, in the trace.
    pub samples: u64,
    /// Records that the tracer has discarded, as it says itself.
    pub discarded: u64,
    /// The remarks say to people what is not in the trace, or is there in another way.
    pub remarks: Vec<String>,
    /// The address of a symbol of the kernel while it was recorded. A running kernel with the same address has the same
    /// functions at the same addresses.
    pub kernel_symbol: Option<(String, u64)>,
}
