//! Notifies the service manager, if it has started this process: see sd_notify(3).

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Notifies the service manager that the session is ready. A manager that does not listen need not know.
pub fn is_ready() {
    if let Some(path) = env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) {
        let _ = tell(path.as_bytes(), b"READY=1");
    }
}

fn tell(path: &[u8], text: &[u8]) -> io::Result<()> {
    let address = match path {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(text, &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manager_is_told_at_a_path_and_at_an_abstract_name() {
        let path = env::temp_dir().join(format!("strata-notify-{}", std::process::id()));
        let name = format!("strata-notify-{}", std::process::id());
        let at_name = SocketAddr::from_abstract_name(&name).unwrap();
        for (socket, address) in [
            (UnixDatagram::bind(&path).unwrap(), path.as_os_str().as_bytes().to_vec()),
            (UnixDatagram::bind_addr(&at_name).unwrap(), format!("@{name}").into_bytes()),
        ] {
            tell(&address, b"READY=1").unwrap();
            let mut buffer = [0; 16];
            let read = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..read], b"READY=1");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(tell(path.as_os_str().as_bytes(), b"x").is_err());
    }
}
