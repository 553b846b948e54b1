//! Sockets between a guest and its host without a network (`AF_VSOCK`). This module adds the address, which rustix
//! lacks.

#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};
use rustix::net::{socket_with, AddressFamily, SocketAddrAny, SocketFlags, SocketType};

/// Address by which a socket listens for every machine (`VMADDR_CID_ANY`).
const ANY: u32 = u32::MAX;
/// The address of this machine itself (`VMADDR_CID_LOCAL`).
const ITSELF: u32 = 1;

/// `struct sockaddr_vm` of the kernel's vm_sockets.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct VsockAddress {
    family: u16,
    reserved: u16,
    port: u32,
    cid: u32,
    flags: u8,
    zero: [u8; 3],
}

const _: () = assert!(size_of::<VsockAddress>() == 16);

impl VsockAddress {
    fn new(cid: u32, port: u32) -> VsockAddress {
        VsockAddress { family: AddressFamily::VSOCK.as_raw(), cid, port, ..VsockAddress::default() }
    }
}

// SAFETY: it is called with a pointer to all of an address, which stays as it is meanwhile.
unsafe impl SocketAddrArg for VsockAddress {
    unsafe fn with_sockaddr<R>(
        &self,
        f: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R,
    ) -> R {
        f(std::ptr::from_ref(self).cast(), size_of::<VsockAddress>() as SocketAddrLen)
    }
}

fn socket(more: SocketFlags) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | more;
    let socket = socket_with(AddressFamily::VSOCK, SocketType::STREAM, flags, None);
    socket.map_err(|error| match error {
        Errno::AFNOSUPPORT => io::Error::other(
            "this kernel has no vsock. Load vsock and vmw_vsock_virtio_transport in the guest, vhost_vsock on the host",
        ),
        error => error.into(),
    })
}

/// Connects to the machine with this id: 2 is the host, 1 this machine itself. The kernel waits for at most 2 s.
///
/// # Errors
/// A system call failed; `ConnectionRefused` if nobody listens.
pub(crate) fn connect(cid: u32, port: u32) -> io::Result<OwnedFd> {
    let socket = socket(SocketFlags::empty())?;
    match rustix::net::connect(&socket, &VsockAddress::new(cid, port)) {
        Ok(()) => Ok(socket),
        Err(Errno::NODEV | Errno::TIMEDOUT) if cid == ITSELF => {
            Err(io::Error::other("this kernel has no vsock to itself. Load vsock_loopback"))
        }
        Err(Errno::NODEV) => Err(io::Error::other(
            "no vsock leads there. Give the machine a device: -device vhost-vsock-pci,guest-cid=NUMBER",
        )),
        // Nobody listens there, yet.
        Err(Errno::CONNRESET | Errno::CONNREFUSED | Errno::TIMEDOUT) => {
            Err(io::ErrorKind::ConnectionRefused.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Listens at this port.
///
/// # Errors
/// A system call failed.
pub(crate) fn listen(port: u32) -> io::Result<OwnedFd> {
    let socket = socket(SocketFlags::NONBLOCK)?;
    rustix::net::bind(&socket, &VsockAddress::new(ANY, port))?;
    rustix::net::listen(&socket, 1)?;
    Ok(socket)
}

/// Returns the next connection and the id of the connected machine; `None` if there is none.
///
/// # Errors
/// A system call failed.
pub(crate) fn accept(socket: &OwnedFd) -> io::Result<Option<(OwnedFd, u32)>> {
    match rustix::net::acceptfrom_with(socket, SocketFlags::CLOEXEC) {
        Ok((peer, Some(address))) => Ok(cid_of(&address).map(|cid| (peer, cid))),
        Ok((_, None)) | Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn cid_of(address: &SocketAddrAny) -> Option<u32> {
    let is_whole = address.addr_len() as usize >= size_of::<VsockAddress>();
    if address.address_family() != AddressFamily::VSOCK || !is_whole {
        return None;
    }
    // SAFETY: as many bytes are there, and any of them are an address.
    let address = unsafe { address.as_ptr().cast::<VsockAddress>().read_unaligned() };
    Some(address.cid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_that_of_the_kernel() {
        let any = VsockAddress::new(2, 77).as_any();
        assert_eq!((any.address_family(), cid_of(&any)), (AddressFamily::VSOCK, Some(2)));
        let other = rustix::net::SocketAddrUnix::new("/x").unwrap().as_any();
        assert_eq!(cid_of(&other), None);
    }

    /// The test connects this machine with itself, if the kernel has vsock and an address for it.
    #[test]
    fn vsock_leads_to_who_listens_or_says_what_is_missing() {
        let port = 0x5374_0000 + std::process::id();
        let listening = match listen(port) {
            Ok(listening) => listening,
            Err(error) => {
                assert!(error.to_string().contains("vsock"), "{error}");
                return;
            }
        };
        assert!(accept(&listening).unwrap().is_none());
        match connect(ITSELF, port) {
            Ok(_one) => {
                let (_, cid) = accept(&listening).unwrap().unwrap();
                assert_eq!(cid, ITSELF);
                assert_eq!(
                    connect(ITSELF, port + 1).unwrap_err().kind(),
                    io::ErrorKind::ConnectionRefused
                );
            }
            Err(error) => assert!(error.to_string().contains("vsock_loopback"), "{error}"),
        }
    }
}
