//! Certificates for TLS: the files of one host, their use, and a certificate authority for first experiments.
//!
//! ```text
//! DIR/ca.pem            certificate of the authority that both sides trust
//! DIR/certificate.pem   certificate of this host, signed by that authority; a chain may follow
//! DIR/key.pem           its private key, which only its user may read
//! ```
//!
//! Both sides present a certificate. A recorder may write below the host names in its certificate.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

const AUTHORITY: &str = "ca.pem";
const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";
/// File name of the authority's private key, next to the folders of the hosts.
const AUTHORITY_KEY: &str = "ca.key.pem";
/// Time for which a certificate that is made here is valid.
const VALID: time::Duration = time::Duration::days(825);
/// Time for which the authority's certificate is valid.
const AUTHORITY_VALID: time::Duration = time::Duration::days(3650);

/// Why certificates cannot be used or made.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The content of a file is not a certificate or key, as its name demands.
    #[error("{}: {why}", .path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Reason for the refusal or failure, in words for people.
        why: String,
    },
    /// Other users can read the private key.
    #[error("{}: every user can read this private key (mode {mode:o}). Type: chmod 600 {}", .path.display(), .path.display())]
    OpenKey {
        /// Path of the key.
        path: PathBuf,
        /// Access mode of the file.
        mode: u32,
    },
    /// TLS refuses the certificate or the key.
    #[error("the certificates in {}: {why}", .folder.display())]
    Tls {
        /// Folder of the certificates.
        folder: PathBuf,
        /// Reason for the refusal or failure, in words for people.
        why: String,
    },
}

/// Certificates and key of one host.
#[derive(Debug)]
pub struct Certificates {
    folder: PathBuf,
    authorities: RootCertStore,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Certificates {
    /// Reads the three files in a folder.
    ///
    /// # Errors
    /// A file cannot be read, or is not what its name says.
    pub fn read(folder: &Path) -> Result<Certificates, CertificateError> {
        let mut authorities = RootCertStore::empty();
        let path = folder.join(AUTHORITY);
        for one in certificates(&path)? {
            let added = authorities.add(one);
            added.map_err(|error| content(&path, error.to_string()))?;
        }
        let chain = certificates(&folder.join(CERTIFICATE))?;
        let path = folder.join(KEY);
        let about = std::fs::metadata(&path).map_err(|source| file(&path, source))?;
        let mode = about.mode() & 0o7777;
        if mode & 0o007 != 0 {
            return Err(CertificateError::OpenKey { path, mode });
        }
        let bytes = std::fs::read(&path).map_err(|source| file(&path, source))?;
        let key = PrivateKeyDer::from_pem_slice(&bytes);
        let key = key.map_err(|error| content(&path, format!("no private key: {error}")))?;
        Ok(Certificates { folder: folder.to_owned(), authorities, chain, key })
    }

    /// Makes the TLS configuration of a recorder.
    ///
    /// # Errors
    /// TLS does not take the certificate or the key.
    pub fn client(self) -> Result<Arc<ClientConfig>, CertificateError> {
        let folder = self.folder;
        let tls = |error: rustls::Error| CertificateError::Tls {
            folder: folder.clone(),
            why: error.to_string(),
        };
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(tls)?
            .with_root_certificates(self.authorities)
            .with_client_auth_cert(self.chain, self.key)
            .map_err(tls)?;
        Ok(Arc::new(config))
    }

    /// Makes the TLS configuration of a relay, which accepts only clients with a certificate of the authority.
    ///
    /// # Errors
    /// TLS does not take the certificate or the key.
    pub fn server(self) -> Result<Arc<ServerConfig>, CertificateError> {
        let folder = self.folder;
        let tls = |why: String| CertificateError::Tls { folder: folder.clone(), why };
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(self.authorities), provider())
                .build()
                .map_err(|error| tls(error.to_string()))?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| tls(error.to_string()))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain, self.key)
            .map_err(|error| tls(error.to_string()))?;
        Ok(Arc::new(config))
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Returns true if the certificate, which the handshake has verified, is for the host `host`.
pub(crate) fn is_for(certificate: &CertificateDer<'_>, host: &str) -> bool {
    let (Ok(parsed), Ok(name)) =
        (ParsedCertificate::try_from(certificate), ServerName::try_from(host))
    else {
        return false;
    };
    verify_server_name(&parsed, &name).is_ok()
}

/// Makes a certificate authority in `folder`, unless there is one, and a folder with certificate and key for each host
/// that has none. Returns the new folders.
///
/// # Errors
/// A file cannot be written, or no certificate can contain one of the names.
pub fn make(folder: &Path, hosts: &[String]) -> Result<Vec<PathBuf>, CertificateError> {
    let mut folders = std::fs::DirBuilder::new();
    folders.recursive(true).mode(0o700);
    folders.create(folder).map_err(|source| file(folder, source))?;
    let (key_path, path) = (folder.join(AUTHORITY_KEY), folder.join(AUTHORITY));
    let made = |path: &Path| {
        let path = path.to_owned();
        move |error: rcgen::Error| content(&path, error.to_string())
    };
    let is_there = key_path.exists();
    let authority_key = match is_there {
        true => {
            let text = std::fs::read_to_string(&key_path);
            let text = text.map_err(|source| file(&key_path, source))?;
            KeyPair::from_pem(&text).map_err(made(&key_path))?
        }
        false => KeyPair::generate().map_err(made(&key_path))?,
    };
    // A certificate refers to its authority by name and key, which are the same whenever this runs.
    let mut params = CertificateParams::default();
    params.distinguished_name = named("Strata relay authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let now = time::OffsetDateTime::now_utc();
    // The clocks of hosts may differ.
    params.not_before = now - time::Duration::DAY;
    params.not_after = now + AUTHORITY_VALID;
    let authority = params.self_signed(&authority_key).map_err(made(&path))?;
    if !is_there {
        write_new(&path, authority.pem().as_bytes(), 0o644)?;
        write_new(&key_path, authority_key.serialize_pem().as_bytes(), 0o600)?;
    }
    let text = std::fs::read(&path).map_err(|source| file(&path, source))?;
    let mut made_folders = Vec::new();
    for host in hosts {
        let below = folder.join(host);
        if below.join(KEY).exists() {
            continue;
        }
        let mut params = CertificateParams::new(vec![host.clone()]).map_err(made(&below))?;
        params.distinguished_name = named(host);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        params.not_before = now - time::Duration::DAY;
        params.not_after = now + VALID;
        let key = KeyPair::generate().map_err(made(&below))?;
        let signed = params.signed_by(&key, &authority, &authority_key).map_err(made(&below))?;
        folders.create(&below).map_err(|source| file(&below, source))?;
        write_new(&below.join(AUTHORITY), &text, 0o644)?;
        write_new(&below.join(CERTIFICATE), signed.pem().as_bytes(), 0o644)?;
        write_new(&below.join(KEY), key.serialize_pem().as_bytes(), 0o600)?;
        made_folders.push(below);
    }
    Ok(made_folders)
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let bytes = std::fs::read(path).map_err(|source| file(path, source))?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let all = all.map_err(|error| content(path, format!("no certificate: {error}")))?;
    match all.is_empty() {
        true => Err(content(path, "there is no certificate in it".to_owned())),
        false => Ok(all),
    }
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<(), CertificateError> {
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let written = made.and_then(|mut made| io::Write::write_all(&mut made, bytes));
    written.map_err(|source| file(path, source))
}

fn file(path: &Path, source: io::Error) -> CertificateError {
    CertificateError::File { path: path.to_owned(), source }
}

fn content(path: &Path, why: String) -> CertificateError {
    CertificateError::Content { path: path.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn certificates_that_were_made_are_for_their_hosts_and_the_authority_stays() {
        let scratch = Scratch::new("certificates");
        let names = ["relay.example".to_owned(), "127.0.0.1".to_owned()];
        let made = make(&scratch.0, &names).unwrap();
        assert_eq!(made, [scratch.0.join("relay.example"), scratch.0.join("127.0.0.1")]);
        let authority = std::fs::read(scratch.0.join(AUTHORITY)).unwrap();
        assert!(make(&scratch.0, &names).unwrap().is_empty());
        let more = make(&scratch.0, &["web1".to_owned()]).unwrap();
        assert_eq!(more, [scratch.0.join("web1")]);
        assert_eq!(std::fs::read(scratch.0.join("web1").join(AUTHORITY)).unwrap(), authority);
        for (folder, name) in
            [("relay.example", "relay.example"), ("127.0.0.1", "127.0.0.1"), ("web1", "web1")]
        {
            let read = Certificates::read(&scratch.0.join(folder)).unwrap();
            assert!(is_for(&read.chain[0], name) && !is_for(&read.chain[0], "other"), "{name}");
            read.server().unwrap();
            Certificates::read(&scratch.0.join(folder)).unwrap().client().unwrap();
        }
    }

    #[test]
    fn files_that_are_none_and_keys_that_everybody_can_read_are_refused() {
        let scratch = Scratch::new("certificates-bad");
        let made = make(&scratch.0, &["web1".to_owned()]).unwrap();
        let key = made[0].join(KEY);
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).unwrap();
        let error = Certificates::read(&made[0]).unwrap_err();
        assert!(error.to_string().contains("chmod 600"), "{error}");
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::write(&key, "nothing").unwrap();
        let error = Certificates::read(&made[0]).unwrap_err();
        assert!(error.to_string().contains("no private key"), "{error}");
        std::fs::write(made[0].join(AUTHORITY), "nothing").unwrap();
        let error = Certificates::read(&made[0]).unwrap_err();
        assert!(error.to_string().contains("no certificate"), "{error}");
        std::fs::remove_file(made[0].join(AUTHORITY)).unwrap();
        let error = Certificates::read(&made[0]).unwrap_err();
        assert!(error.to_string().contains("ca.pem"), "{error}");
        assert!(make(&scratch.0, &["bad name\u{fc}".to_owned()]).is_err());
    }
}
