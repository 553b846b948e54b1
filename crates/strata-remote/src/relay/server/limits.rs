//! Limits of a relay.

use std::time::Duration;

/// Limits on what one host, and all hosts, may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of all recordings of one host \[byte\].
    pub host_bytes: u64,
    /// The most recordings of one host, including those that have ended.
    pub host_sessions: u64,
    /// The most connections of one host at the same time.
    pub host_connections: u64,
    /// The most connections of all hosts at the same time.
    pub connections: u64,
    /// Period at which received data are forced to the disk, and then acknowledged; `None`: data are acknowledged when
    /// they are written.
    pub sync: Option<Duration>,
    /// The most memory for messages that are being received, of all connections together \[byte\].
    pub memory: u64,
    /// The right to read recordings of other hosts. Each host may read its own.
    pub viewers: ViewRights,
}

/// The right to read all recordings at the relay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ViewRights {
    /// No host: each one only reads its own recordings.
    #[default]
    Own,
    /// Hosts that present a certificate for one of these names.
    Names(Vec<String>),
    /// All hosts that may connect.
    All,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            host_bytes: 64 << 30,
            host_sessions: 10_000,
            host_connections: 64,
            connections: 4096,
            sync: Some(Duration::from_secs(1)),
            memory: 256 << 20,
            viewers: ViewRights::Own,
        }
    }
}
