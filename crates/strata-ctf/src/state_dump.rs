//! Where a kernel's trace says what was there when recording began, and what of it has changed since: streams of their own.

/// The stream with what was there; its records have the time at which the recorder has begun to look. Of a snapshot it is
/// what was there at its end.
pub const FILE: &str = "statedump_0";

/// In a snapshot, the stream with what has changed. Elsewhere it is called as those of the CPUs, behind which it is, and is
/// there, perhaps without records, where that is watched: since its first packet begins.
pub const CHANGES_FILE: &str = "statedump_1";

/// A second stream with what was there, where more is said than at the begin; in a snapshot, with what was before all
/// changes.
pub const AGAIN_FILE: &str = "statedump_2";

/// The numbers that packets have of the stream of changes, and of the second one, are so much higher than that of the first.
pub const CHANGES_BEHIND: u64 = 1;
/// Likewise.
pub const AGAIN_BEHIND: u64 = 2;
