//! The value of `--to`, as text: a relay, and how to talk to it.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::recording_folder::folder_names::host_name;
use crate::transport::address::Address;
use crate::transport::certificates::{CertificateError, Certificates};
use crate::transport::target::Target;

/// Default folders of this host's certificate: for all users, and for one user, below the home folder.
const OF_ALL: &str = "/etc/strata/relay";
const OF_USER: &str = ".config/strata/relay";

/// Smallest spool: it holds the largest message, and some more \[byte\].
const SPOOL_MIN: u64 = 64 << 20;

/// A relay, and how to talk to it: `[NAME@]HOST[:PORT][,certificates=DIR][,spool=BYTES]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Destination {
    /// Name of this host at the relay; `None` for its own host name.
    pub name: Option<String>,
    /// Address of the relay.
    pub address: Address,
    /// Folder with this host's certificate; `None` for the default folder.
    pub certificates: Option<PathBuf>,
    /// The most bytes that wait on the disk while the relay does not take them \[byte\]; `None`: only in memory.
    pub spool: Option<u64>,
}

/// Why nothing can be sent to a destination.
#[derive(Debug, thiserror::Error)]
pub enum DestinationError {
    /// The certificates cannot be used.
    #[error("--to: {0}")]
    Certificates(#[from] CertificateError),
    /// There is no certificate, and the relay is another machine.
    #[error(
        "--to {0}: to another machine traces go by TLS, and there is no certificate of this host in {OF_ALL} \
         or ~/{OF_USER}. Make some on the relay (strata relayd --make-certificates DIR HOST...), copy this \
         host's folder here, and name it: --to {0},certificates=DIR"
    )]
    NoCertificate(Address),
}

impl Destination {
    /// Parses the value of `--to`.
    ///
    /// # Errors
    /// Why the text is not valid, for people.
    pub fn parse(text: &str) -> Result<Destination, String> {
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let (name, address) = match first.split_once('@') {
            Some((name, address)) => (Some(name), address),
            None => (None, first),
        };
        if name.is_some_and(|name| host_name(name) != name) {
            return Err(
                "NAME in front of '@' is lower-case letters, digits, '.' and '-'".to_owned()
            );
        }
        let address = Address::parse(address).map_err(|problem| problem.to_string())?;
        let mut to =
            Destination { name: name.map(str::to_owned), address, certificates: None, spool: None };
        for part in parts {
            match part.split_once('=') {
                Some(("certificates", folder)) if !folder.is_empty() => {
                    to.certificates = Some(PathBuf::from(folder));
                }
                Some(("spool", bytes)) => {
                    let bytes =
                        bytes.parse().map_err(|_| format!("'{part}' is no number of bytes"))?;
                    to.set_spool(bytes)?;
                }
                _ => {
                    return Err(format!(
                        "'{part}' is nothing of a relay; behind the address may be certificates=DIR"
                    ))
                }
            }
        }
        Ok(to)
    }

    /// Sets the most bytes that wait on the disk.
    ///
    /// # Errors
    /// They are too few for the largest message; the text is for people.
    pub fn set_spool(&mut self, bytes: u64) -> Result<(), String> {
        match bytes >= SPOOL_MIN {
            true => self.spool = Some(bytes),
            false => {
                return Err(format!(
                    "a spool of {bytes} bytes is too small: at least {} MiB",
                    SPOOL_MIN >> 20
                ))
            }
        }
        Ok(())
    }

    /// Makes the path of the certificates absolute, for use by another process.
    ///
    /// # Errors
    /// The working directory is unknown.
    pub fn absolute(mut self) -> std::io::Result<Destination> {
        self.certificates = self.certificates.as_deref().map(std::path::absolute).transpose()?;
        Ok(self)
    }

    /// Reads the certificates that are needed to talk to the relay.
    ///
    /// # Errors
    /// The certificates cannot be used, or are missing although the relay is another machine.
    pub fn target(&self) -> Result<Target, DestinationError> {
        let address = &self.address;
        let tls = match self.certificates.clone().or_else(|| usual_folder(address)) {
            Some(folder) => Some(Certificates::read(&folder)?.client()?),
            None if address.is_loopback() => None,
            None => return Err(DestinationError::NoCertificate(address.clone())),
        };
        Ok(Target { address: address.clone(), tls, host: self.name.clone(), spool: self.spool })
    }
}

/// Returns the default folder with this host's certificate. Returns `None` if the relay is this machine, which needs
/// none.
fn usual_folder(address: &Address) -> Option<PathBuf> {
    if address.is_loopback() {
        return None;
    }
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(OF_USER));
    let all = home.into_iter().chain([PathBuf::from(OF_ALL)]);
    let mut there = all.filter(|folder| folder.join("key.pem").exists());
    there.next()
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}@")?;
        }
        write!(f, "{}", self.address)?;
        if let Some(folder) = &self.certificates {
            write!(f, ",certificates={}", folder.display())?;
        }
        match self.spool {
            Some(bytes) => write!(f, ",spool={bytes}"),
            None => Ok(()),
        }
    }
}

impl TryFrom<String> for Destination {
    type Error = String;

    fn try_from(text: String) -> Result<Destination, String> {
        Destination::parse(&text)
    }
}

impl From<Destination> for String {
    fn from(to: Destination) -> String {
        to.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relay_is_named_with_what_is_needed_to_talk_to_it() {
        let text = "web1@relay.example:77,certificates=c/web1,spool=1073741824";
        let to = Destination::parse(text).unwrap();
        assert_eq!(
            (to.name.as_deref(), &*to.address.to_string()),
            (Some("web1"), "relay.example:77")
        );
        assert_eq!(to.certificates, Some(PathBuf::from("c/web1")));
        assert_eq!(to.to_string(), text);
        let plain = Destination::parse("localhost").unwrap();
        assert!(plain.name.is_none() && plain.target().unwrap().tls.is_none());
        assert_eq!(plain.to_string(), "localhost:5345");
        let bad = ["", "@", "a@", "A@b", "../x@b", "b,", "b,x=1", "b,certificates=", "b:0"];
        for bad in bad.into_iter().chain(["b,spool=", "b,spool=1", "b,spool=-1"]) {
            assert!(Destination::parse(bad).is_err(), "{bad}");
        }
        let missing = Destination::parse("relay.example,certificates=/nonexistent").unwrap();
        assert!(missing.target().unwrap_err().to_string().contains("/nonexistent/ca.pem"));
    }
}
