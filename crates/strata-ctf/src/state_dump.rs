//! Streams of a kernel trace that describe the state when recording began, and its changes since.

/// Name of the stream with the state when recording began. Its records have the time at which the recorder began to
/// read the state. In a snapshot, the stream has the state at the snapshot's end.
pub const FILE: &str = "statedump_0";

/// Name of a snapshot's stream with changes of the state, such as code that programs map. In other traces, the stream has a
/// name like those of the CPUs, with the number after the first dump's. A trace has the stream, possibly without records,
/// if the recorder watched for changes; it did so from the begin of the stream's first packet on.
pub const CHANGES_FILE: &str = "statedump_1";

/// Name of the stream with a second state dump, which has more than the dump at the begin. In a snapshot, the stream has
/// the state before all changes.
pub const AGAIN_FILE: &str = "statedump_2";

/// Distance of the stream number of the changes from that of the first dump.
pub const CHANGES_BEHIND: u64 = 1;
/// Distance of the stream number of the second dump from that of the first dump.
pub const AGAIN_BEHIND: u64 = 2;
/// Distance of the number of the stream with the names of generated code from that of the first dump. The stream exists if
/// there are such names, and is in snapshots, too, a stream with a name like those of the CPUs.
pub const NAMES_BEHIND: u64 = 3;
