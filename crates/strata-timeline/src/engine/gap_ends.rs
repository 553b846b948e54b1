//! The times at which gaps end, as the state of the engine holds them; `open_gaps` has the rule.

/// The end of a gap where there is none.
pub(super) const NONE: i64 = i64::MIN;

/// The ends of a machine's gaps \[ns since 1970\].
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    /// The last end of all.
    pub of_any: i64,
    /// The last end of those of which the CPU is not known.
    pub of_all: i64,
}

impl Default for Missing {
    fn default() -> Missing {
        Missing { of_any: NONE, of_all: NONE }
    }
}

/// The time of the first record at which a gap may have ended \[ns since 1970\].
#[derive(Clone, Copy, Debug)]
pub(super) struct NextEnd(pub i64);

impl Default for NextEnd {
    fn default() -> NextEnd {
        NextEnd(i64::MAX)
    }
}
