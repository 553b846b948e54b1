//! The protocol by which a recorder sends its traces to another machine, over any channel of bytes: from a guest to the
//! recorder of its host by a virtio-serial port, a unix socket, or TCP; from any host to `strata relayd` by TLS.
//!
//! ```text
//! byte_channel.rs    the channel: bytes, in both directions, with a time after which nobody listens
//! frame.rs           bytes to frames: a kind, a length, a payload
//! message.rs         frames to what they say
//! remote.rs          the same between a recorder and `strata relayd`: data is numbered and acknowledged
//! remote_view.rs     between a viewer and `strata relayd`: a recording while it grows
//! offset_bounds.rs   exchanges of clock readings to bounds of the offset between two clocks
//! offset_line.rs     bounds to a clock's offset and rate, with an uncertainty
//! guest_metadata.rs  the metadata of a guest's trace, in the host's time
//! packet_check.rs    packets: what of them can be in a trace
//! ```
//!
//! A guest is as hostile as an application: all its messages are checked here or kept as plain bytes, and take no more
//! memory than the limits in these files allow.
//!
//! # Layers of a message
//! ```text
//! bytes ── Frames: kind, length, payload; longer than FRAME_BYTES_MAX is an error ── FromGuest / FromRecorder::decode ── checked values
//! ```
//! Encoding is the same in reverse. There is no version for a message: the first one of each side carries
//! [`VERSION`] or [`REMOTE_VERSION`], and other versions are refused with a text that says so. A relay serves recorders from
//! [`REMOTE_VERSION_MIN`] on.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

mod byte_channel;
mod frame;
mod guest_metadata;
mod message;
mod offset_bounds;
mod offset_line;
mod packet_check;
mod remote;
mod remote_view;
mod vsock;

pub use byte_channel::{connect, Place, PlaceProblem, Waiting, Wire};
pub use frame::{FrameProblem, Frames, FRAME_BYTES_MAX};
pub use guest_metadata::{
    in_host_time, in_host_time_again, uuid_of, DescribeProblem, Entry, METADATA_BYTES_MAX,
};
pub use message::{
    packet_frame, CounterPair, FromGuest, Hello, MessageProblem, PacketBytes, ToGuest, TraceOf,
    NAME_BYTES_MAX, PAGE_BYTES, VERSION,
};
pub use offset_bounds::{Bound, Bounds, Epoch, Exchange, DRIFT_PPM, EPOCHS_MAX};
pub use offset_line::{Known, Line};
pub use packet_check::{Last, PacketProblem, Streams, CPUS_MAX, STREAMS_MAX};
pub use remote::{
    FromRecorder, Open, ToRecorder, REMOTE_VERSION, REMOTE_VERSION_MIN, TEXT_BYTES_MAX,
};
pub use remote_view::{FromViewer, ToViewer, Watch, VIEW_VERSION};
