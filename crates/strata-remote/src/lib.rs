//! Recording to another host.
//!
//! ```text
//! address.rs       where a relay is
//! destination.rs   the same as text, with what is needed to talk to it
//! certificates.rs  who may talk to whom: TLS by rustls, both sides show a certificate
//! connection.rs    a TCP connection, plain or by TLS, that never blocks
//!
//! backlog.rs       messages that the relay has not acknowledged                      the recorder's side
//! spool.rs         those that do not fit into memory, on the disk
//! relay_link.rs          the backlog, between the threads that record and the one that sends
//! sender.rs        the thread that sends, and connects again
//! output.rs        traces as sinks whose packets go into the backlog
//!
//! folder_names.rs         which names may become folders                                    the relay's side
//! recording_state.rs         what is remembered of a recording beside its traces
//! host_clock.rs    the clock of a recorder's host, in the relay's time
//! recording_writer.rs      one recording: messages to files
//! memory.rs        memory for messages, of all connections together
//! disk_sync.rs       forcing files to the disk, for all recordings at once
//! server.rs        listening, a thread for each recorder, limits
//! server/ended_recordings.rs   what becomes of recordings that have ended
//! server/shared_state.rs   what its threads share: who is connected, limits, figures
//! server/metrics.rs  its figures
//! event.rs           what it reports
//! log_limit.rs       what of that is logged, and what is only counted
//!
//! live_view.rs     a recording as a viewer sees it, while it grows                    for viewers
//! viewers.rs       LTTng's live protocol
//! folder_messages.rs  a recording's folder as the messages with which it came
//! server/viewer.rs    viewers on other hosts, who are sent these
//! remote_view.rs      the viewer's side: a copy that grows
//!
//! prometheus.rs    figures as text                                                   for monitors
//! http.rs          a server of a few pages
//! ```
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod address;
mod backlog;
mod certificates;
mod connection;
mod destination;
mod disk_sync;
mod event;
mod folder_messages;
mod folder_names;
mod host_clock;
mod http;
mod live_view;
mod log_limit;
mod memory;
mod output;
mod prometheus;
mod recording_state;
mod recording_writer;
mod relay_link;
mod remote_view;
mod sender;
mod server;
mod spool;
#[cfg(test)]
mod testing;
mod viewers;

pub use address::{Address, AddressProblem, PORT};
pub use certificates::{make as make_certificates, CertificateError, Certificates};
pub use destination::{Destination, DestinationError};
pub use disk_sync::SyncFigures;
pub use event::{Log, RelayEvent};
pub use folder_names::{host_name, recording_name};
pub use http::{Page, PageServer};
pub use log_limit::LogLimit;
pub use output::{Recording, RemoteOutput};
pub use prometheus::{MetricKind, MetricsText, CONTENT_TYPE as METRICS_CONTENT_TYPE};
pub use relay_link::{IsOver, Link, LinkLook, BACKLOG_BYTES, PATIENCE};
pub use remote_view::{RemoteView, ViewAddress};
pub use sender::Target;
pub use server::{KeepRules, Limits, Relayd, ViewRights};
pub use strata_relay::{CounterPair, FromRecorder};
pub use viewers::{live_answers, ViewerServer};
