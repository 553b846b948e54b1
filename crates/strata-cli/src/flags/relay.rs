//! Flags that send traces to another machine while they are recorded.

use anyhow::Context as _;
use clap::Args;
use strata_remote::Destination;
use strata_session::options::{Place, PlaceProblem};

use crate::units::parse_size;

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
    to: Option<Destination>,

    #[command(flatten)]
    spool: SpoolFlag,
}

/// The flag that lets what waits for a relay be on this machine's disk.
#[derive(Debug, Clone, Default, Args)]
pub struct SpoolFlag {
    /// With --to, let up to SIZE wait on this disk
    ///
    /// While the relay is not reachable or too slow, what does not fit into memory waits in $TMPDIR, or else /var/tmp, before
    /// records stay in the buffers. It is freed when the relay has it, and with the end of this recorder.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "to")]
    spool: Option<u64>,
}

impl SpoolFlag {
    /// Returns the destination with the spool.
    ///
    /// # Errors
    /// The spool is too small.
    pub fn on(&self, to: Option<&Destination>) -> anyhow::Result<Option<Destination>> {
        let mut to = to.cloned();
        if let (Some(to), Some(bytes)) = (&mut to, self.spool) {
            to.set_spool(bytes).map_err(|why| anyhow::anyhow!("--spool: {why}"))?;
        }
        Ok(to)
    }
}

impl RelayFlags {
    /// Returns the relay to which the trace is sent.
    ///
    /// # Errors
    /// The spool is too small.
    pub fn to(&self) -> anyhow::Result<Option<Destination>> {
        self.spool.on(self.to.as_ref())
    }
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
