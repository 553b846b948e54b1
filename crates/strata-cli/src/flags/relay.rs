//! Flags that send traces to another machine while they are recorded.

use anyhow::Context as _;
use clap::Args;
use strata_remote::Destination;
use strata_session::options::{Place, PlaceProblem};

/// Flags that choose the machine that writes the trace.
#[derive(Debug, Clone, Default, Args)]
pub struct RelayFlags {
    /// Let the host's recorder (--guest) write the trace of the virtual machine that this is
    ///
    /// CHANNEL is a device such as /dev/virtio-ports/NAME, a unix socket, tcp:HOST:PORT, or vsock:2:PORT. Recording begins when the host's recorder is there, and
    /// ends when that one ends.
    #[arg(long, value_name = "CHANNEL", value_parser = parse_place, conflicts_with_all = ["output", "guest"])]
    pub relay: Option<Place>,

    /// Send the trace to `strata relayd` on HOST
    ///
    /// While the relay is not reachable, records stay in memory, up to 64 MiB, then in the buffers; they are discarded and
    /// counted when these are full. NAME@HOST: the name of this host at the relay [default: its host name];
    /// certificates=DIR: the folder with ca.pem, certificate.pem and key.pem for this name [default:
    /// ~/.config/strata/relay, /etc/strata/relay]. Without certificates only to this machine itself.
    #[arg(long, value_name = "HOST[:PORT][,certificates=DIR]", value_parser = Destination::parse, conflicts_with_all = ["output", "relay"])]
    pub to: Option<Destination>,
}

/// Makes the path of the certificates absolute, and checks that the certificates can be read.
///
/// # Errors
/// The certificates cannot be used.
pub fn absolute_to(to: Destination) -> anyhow::Result<Destination> {
    let to = to.absolute().context("find the working directory")?;
    to.target()?;
    Ok(to)
}

/// Parses the value of `--relay`.
fn parse_place(text: &str) -> Result<Place, PlaceProblem> {
    Place::parse(text)
}
