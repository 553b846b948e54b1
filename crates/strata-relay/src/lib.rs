//! How the recorder in a guest hands its traces to the recorder of the host, over any channel of bytes: a
//! virtio-serial port, a unix socket, TCP.
//!
//! ```text
//! wire.rs      the channel: bytes, in both directions, with a time after which nobody listens
//! frame.rs     bytes to frames: a kind, a length, a payload
//! message.rs   frames to what they say
//! bounds.rs    exchanges of clock readings to bounds of the offset between two clocks
//! line.rs      bounds to a clock's offset and rate, with an uncertainty
//! describe.rs  the metadata of a guest's trace, in the host's time
//! check.rs     packets: what of them can be in a trace
//! ```
//!
//! A guest is as hostile as an application: whatever comes from there is checked here or taken as bytes, and costs no
//! more memory than the limits in these files say.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

mod bounds;
mod check;
mod describe;
mod frame;
mod line;
mod message;
mod vsock;
mod wire;

pub use bounds::{Bound, Bounds, Epoch, Exchange, DRIFT_PPM, EPOCHS_MAX};
pub use check::{Last, PacketProblem, Streams, CPUS_MAX, STREAMS_MAX};
pub use describe::{in_host_time, uuid_of, DescribeProblem, Entry, METADATA_BYTES_MAX};
pub use frame::{FrameProblem, Frames, FRAME_BYTES_MAX};
pub use line::{Known, Line};
pub use message::{
    CounterPair, FromGuest, Hello, MessageProblem, PacketBytes, ToGuest, TraceOf, NAME_BYTES_MAX,
    PAGE_BYTES, VERSION,
};
pub use wire::{connect, Place, PlaceProblem, Waiting, Wire};
