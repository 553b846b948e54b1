//! Threads by number: what is told of them need not know what is kept of them.

/// A thread, by its number in [`Threads`](crate::Threads). One that comes later under the same number of the system is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub(crate) u32);

impl ThreadId {
    /// What a CPU runs that has nothing to do.
    pub const IDLE: ThreadId = ThreadId(0);

    /// Its number, for tables.
    #[must_use]
    #[inline]
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}
