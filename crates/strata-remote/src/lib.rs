//! Recording to another host.
//!
//! The way of the data: a recorder's packets become numbered messages (`recorder`), go over a connection (`transport`) to
//! the relay (`relay`), which writes them to the folder of their recording (`recording_folder`), from which viewers here and
//! on other hosts take them (`viewer`), while monitors ask for figures (`monitor`).
//!
//! ```text
//! recorder/                   the recorder's side
//!   output.rs                 traces as sinks whose packets go into the backlog
//!   backlog.rs                messages that the relay has not acknowledged
//!   spool.rs                  those that do not fit into memory, on the disk
//!   relay_link.rs             the backlog, between the threads that record and the one that sends
//!   sender.rs                 the thread that sends, and connects again
//!
//! transport/                  what both ends of a connection share
//!   address.rs                where a relay is
//!   certificates.rs           who may talk to whom: TLS by rustls, both sides show a certificate
//!   connection.rs             a TCP connection, plain or by TLS, that never blocks
//!   target.rs                 a relay to connect to
//!   destination.rs            the same as text, with what is needed to talk to it
//!   accept_pause.rs           what a server does when it cannot accept
//!
//! relay/                      the relay's side
//!   server.rs                 listening, a thread for each recorder, limits
//!   server/ended_recordings.rs  what becomes of recordings that have ended
//!   server/shared_state.rs    what its threads share: who is connected, limits, figures
//!   server/viewer.rs          viewers on other hosts, who are sent a recording's messages
//!   server/metrics.rs         its figures
//!   memory.rs                 memory for messages, of all connections together
//!   disk_sync.rs              forcing files to the disk, for all recordings at once
//!   event.rs                  what it reports
//!   log_limit.rs              what of that is logged, and what is only counted
//!
//! recording_folder/           the folder of a recording, at a relay and at a viewer
//!   folder_names.rs           which names may become folders
//!   recording_writer.rs       one recording: messages to files
//!   problem.rs                why it cannot be written
//!   recording_state.rs        what is remembered of a recording beside its traces
//!   host_clock.rs             the clock of a recorder's host, in the relay's time
//!   folder_messages.rs        a recording's folder as the messages with which it came
//!
//! viewer/                     the viewer's side
//!   live_view.rs              a recording as a viewer sees it, while it grows
//!   lttng_live.rs             LTTng's live protocol
//!   private_copy.rs           a folder for the copy of a trace, which goes with the command
//!   remote_view.rs            a copy of a recording at a relay, which grows with it
//!
//! monitor/                    figures for monitors
//!   prometheus.rs             figures as text
//!   http.rs                   a server of a few pages
//! ```
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod monitor;
mod recorder;
mod recording_folder;
mod relay;
#[cfg(test)]
mod testing;
mod transport;
mod viewer;

pub use monitor::http::{Page, PageServer};
pub use monitor::prometheus::{MetricKind, MetricsText, CONTENT_TYPE as METRICS_CONTENT_TYPE};
pub use recorder::output::{Recording, RemoteOutput};
pub use recorder::relay_link::{IsOver, Link, LinkLook, QuotaLook, BACKLOG_BYTES, PATIENCE};
pub use recording_folder::folder_names::{host_name, recording_name};
pub use relay::disk_sync::SyncFigures;
pub use relay::event::{Log, RelayEvent};
pub use relay::log_limit::LogLimit;
pub use relay::server::{KeepRules, Limits, Relayd, ViewRights};
pub use strata_relay::{CounterPair, FromRecorder};
pub use transport::address::{Address, AddressProblem, PORT};
pub use transport::certificates::{make as make_certificates, CertificateError, Certificates};
pub use transport::destination::{Destination, DestinationError};
pub use transport::target::Target;
pub use viewer::lttng_live::{live_answers, ViewerServer};
pub use viewer::private_copy::PrivateCopy;
pub use viewer::remote_view::{RemoteView, ViewAddress};
