//! Addresses of relays on the network: `HOST`, `HOST:PORT`, `[ADDRESS]:PORT`.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// Port of a relay unless another one is given.
pub const PORT: u16 = 5345;

/// Address of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Name or IP address of the host, as in the relay's certificate.
    pub host: String,
    /// TCP port that the relay listens at.
    pub port: u16,
}

/// The text is not the address of a relay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no address of a relay; write HOST, HOST:PORT, or [ADDRESS]:PORT")]
pub struct AddressProblem(String);

impl Address {
    /// Parses the address of a relay.
    ///
    /// # Errors
    /// The text is no address.
    pub fn parse(text: &str) -> Result<Address, AddressProblem> {
        let address = Address::parse_local(text)?;
        match address.port {
            0 => Err(AddressProblem(text.escape_debug().take(100).collect())),
            _ => Ok(address),
        }
    }

    /// Parses an address to listen at. Port 0 stands for any free port.
    ///
    /// # Errors
    /// The text is no address.
    pub fn parse_local(text: &str) -> Result<Address, AddressProblem> {
        let problem = || AddressProblem(text.escape_debug().take(100).collect());
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or_else(problem)?;
                host.parse::<IpAddr>().map_err(|_| problem())?;
                (host, rest.strip_prefix(':').or(rest.is_empty().then_some("")))
            }
            // An IPv6 address without brackets has more than one colon, and no port.
            None if text.parse::<IpAddr>().is_ok() => (text, Some("")),
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port).filter(|port| !port.is_empty())),
                None => (text, Some("")),
            },
        };
        let port = match port.ok_or_else(problem)? {
            "" => PORT,
            port => port.parse().map_err(|_| problem())?,
        };
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
        match !host.is_empty() && host.len() <= 253 && host.bytes().all(is_allowed) {
            true => Ok(Address { host: host.to_owned(), port }),
            false => Err(problem()),
        }
    }

    /// Returns the socket addresses of the host.
    ///
    /// # Errors
    /// The name cannot be resolved.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }

    /// Returns true if the text of the address shows that the host is this machine: `localhost`, or an address of the
    /// loopback interface.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let number = self.host.parse::<IpAddr>();
        self.host == "localhost" || number.is_ok_and(|number| number.is_loopback())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_the_usual_port_unless_it_says_another_one() {
        for (text, host, port, shown) in [
            ("box", "box", PORT, "box:5345"),
            ("box.example:77", "box.example", 77, "box.example:77"),
            ("10.0.0.1:1", "10.0.0.1", 1, "10.0.0.1:1"),
            ("::1", "::1", PORT, "[::1]:5345"),
            ("[fe80::1]:9", "fe80::1", 9, "[fe80::1]:9"),
            ("[::1]", "::1", PORT, "[::1]:5345"),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!((&*address.host, address.port, &*address.to_string()), (host, port, shown));
        }
        for bad in
            ["", ":77", "box:", "box:0", "box:x", "box:70000", "[box]:1", "[::1]x", "a b", "a/b"]
        {
            assert!(Address::parse(bad).unwrap_err().to_string().contains("HOST:PORT"), "{bad}");
        }
        assert_eq!(Address::parse_local("::1").unwrap().port, PORT);
        assert_eq!(Address::parse_local("[::1]:0").unwrap().port, 0);
        assert!(Address::parse("[::1]").unwrap().is_loopback());
        assert!(Address::parse("localhost:1").unwrap().is_loopback());
        assert!(!Address::parse("localhost.example").unwrap().is_loopback());
    }
}
