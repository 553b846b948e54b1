//! The result of rewriting a file.

/// The result of rewriting a file as a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Samples, or events, in the trace.
    pub samples: u64,
    /// The number of records that the tracer has discarded, according to the file.
    pub discarded: u64,
    /// Remarks for the user on data of the file that the trace lacks or represents in another way.
    pub remarks: Vec<String>,
    /// The address of a symbol of the kernel while it was recorded. A running kernel of the same release that has it at the same
    /// address has the same functions at the same addresses. The release is needed: kernels that do not choose an address by
    /// chance all have one address.
    pub kernel_symbol: Option<(String, u64)>,
    /// The release of the kernel, as `uname -r` shows it.
    pub kernel_release: Option<String>,
}
