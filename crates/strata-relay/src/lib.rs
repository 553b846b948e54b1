//! The protocol by which a recorder sends its traces to another machine, over any channel of bytes: from a guest to the
//! recorder of its host by a virtio-serial port, a unix socket, or TCP; from any host to `strata relayd` by TLS.
//!
//! ```text
//! wire.rs      the channel: bytes, in both directions, with a time after which nobody listens
//! frame.rs     bytes to frames: a kind, a length, a payload
//! message.rs   frames to what they say
//! remote.rs    the same between a recorder and `strata relayd`: data is numbered and acknowledged
//! bounds.rs    exchanges of clock readings to bounds of the offset between two clocks
//! line.rs      bounds to a clock's offset and rate, with an uncertainty
//! describe.rs  the metadata of a guest's trace, in the host's time
//! check.rs     packets: what of them can be in a trace
//! ```
//!
//! A guest is as hostile as an application: all its messages are checked here or kept as plain bytes, and take no more
//! memory than the limits in these files allow.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

mod bounds;
mod check;
mod describe;
mod frame;
mod line;
mod message;
mod remote;
mod vsock;
mod wire;

pub use bounds::{Bound, Bounds, Epoch, Exchange, DRIFT_PPM, EPOCHS_MAX};
pub use check::{Last, PacketProblem, Streams, CPUS_MAX, STREAMS_MAX};
pub use describe::{
    in_host_time, in_host_time_again, uuid_of, DescribeProblem, Entry, METADATA_BYTES_MAX,
};
pub use frame::{FrameProblem, Frames, FRAME_BYTES_MAX};
pub use line::{Known, Line};
pub use message::{
    CounterPair, FromGuest, Hello, MessageProblem, PacketBytes, ToGuest, TraceOf, NAME_BYTES_MAX,
    PAGE_BYTES, VERSION,
};
pub use remote::{FromRecorder, Open, ToRecorder, REMOTE_VERSION, TEXT_BYTES_MAX};
pub use wire::{connect, Place, PlaceProblem, Waiting, Wire};
