//! A relay that a recorder or a viewer connects to.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::ClientConfig;

use super::address::Address;
use super::connection::Connection;

/// Longest time for the connection, its handshake and the first answer, each.
pub(crate) const CONNECT: Duration = Duration::from_secs(5);

/// A relay, with the configuration to talk to it.
#[derive(Clone, Debug)]
pub struct Target {
    /// Address of the relay.
    pub address: Address,
    /// Configuration of TLS; `None` for plain text, which is allowed to this machine only.
    pub tls: Option<Arc<ClientConfig>>,
    /// Name of this host at the relay; `None` for its own host name.
    pub host: Option<String>,
    /// The most bytes that wait on the disk while the relay does not take them \[byte\]; `None`: only in memory.
    pub spool: Option<u64>,
}

impl Target {
    /// Connects to the first of the relay's addresses that answers.
    ///
    /// # Errors
    /// None does, or it is another machine and there is no TLS.
    pub(crate) fn connect(&self) -> io::Result<Connection> {
        let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
        for one in self.address.resolve()? {
            let is_allowed = self.tls.is_some() || one.ip().is_loopback();
            if !is_allowed {
                last = io::Error::other(format!(
                    "{} is another machine, and nothing is sent to other machines without TLS",
                    one.ip()
                ));
                continue;
            }
            match self.connect_to(&one) {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn connect_to(&self, address: &SocketAddr) -> io::Result<Connection> {
        let socket = TcpStream::connect_timeout(address, CONNECT)?;
        match &self.tls {
            None => Connection::plain(socket),
            Some(config) => {
                let name = ServerName::try_from(self.address.host.clone());
                let name = name.map_err(io::Error::other)?;
                Connection::client(socket, Arc::clone(config), name)
            }
        }
    }
}

/// Replaces control characters in a text of the relay, so that it is safe to print.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { '?' } else { one }).collect()
}
