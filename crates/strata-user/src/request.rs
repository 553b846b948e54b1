//! What a tracer wants of a process from its begin, as text (`strata/abi/user.h`): of a command in its environment,
//! of everybody in a file beside the socket on which the tracer listens.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use strata_abi::user;

use crate::clock::Clock;
use crate::spec::SessionSpec;

/// What follows the version, and the socket where there is one.
pub(crate) fn text(generation: u64, spec: &SessionSpec, clock: &Clock) -> String {
    let mode = spec.loss_mode.name();
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write!(text, "generation={generation};subbuf={};", spec.subbuf_bytes);
    let _ = write!(text, "subbufs={};mode={mode};", spec.nr_subbufs);
    let _ = write!(text, "vtid={};", u8::from(spec.vtid));
    // The longer ago the first measurement is, the better is the rate.
    clock.refresh();
    let _ = match clock.multiplier() {
        Some(multiplier) => write!(text, "clock=32.{multiplier};"),
        None => write!(text, "clock=0.0;"),
    };
    if let Some(filter) = &spec.filter {
        hexadecimal(&mut text, "filter", filter.bytes());
    }
    if !spec.contexts.is_empty() {
        hexadecimal(&mut text, "contexts", spec.contexts.bytes());
    }
    let _ = write!(text, "rules={}", spec.rules);
    text
}

fn hexadecimal(text: &mut String, key: &str, bytes: &[u8]) {
    let _ = write!(text, "{key}=");
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text.push(';');
}

/// The file beside this socket.
pub(crate) fn beside(socket: &Path) -> PathBuf {
    let name = socket.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(user::SOCKET_END).unwrap_or(&name);
    socket.with_file_name(format!("{name}{}", user::REQUEST))
}

/// Puts this into the file beside the socket, whose folder is ours alone, in the place of what is there: a process sees
/// the one or the other.
///
/// # Errors
/// What the system says.
pub(crate) fn leave(socket: &Path, text: &str) -> io::Result<()> {
    let path = beside(socket);
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file.write_all(format!("{}:{text}", user::VERSION).as_bytes()).and_then(|()| {
        // Root's is for everybody, whatever the umask says.
        let mode = if geteuid().is_root() { 0o644 } else { 0o600 };
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        fs::rename(&new, &path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// From now on nothing is wanted there.
pub(crate) fn withdraw(socket: &Path) {
    // It may not be there.
    let _ = fs::remove_file(beside(socket));
}
