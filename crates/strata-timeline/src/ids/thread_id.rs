//! The id of a thread, separate from the table of threads, since results need only the id.

/// The id of a thread, which is its index in [`Threads`](crate::Threads). A later thread with the same number in the
/// system has another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub(crate) u32);

impl ThreadId {
    /// The idle thread of every CPU, which runs when no other thread can.
    pub const IDLE: ThreadId = ThreadId(0);

    /// Returns the index, for tables.
    #[must_use]
    #[inline]
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}
