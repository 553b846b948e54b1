//! Requests of a tracer to processes that are about to start, as text (`strata/abi/user.h`): to a command in its
//! environment variable, to all others in a file with the name of the tracer's socket.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use strata_abi::user;

use crate::attach::clock::Clock;
use crate::decide::filter::Program;
use crate::decide::session_spec::SessionSpec;

/// Formats the request to make a session, without its version and socket.
pub(crate) fn text(generation: u64, spec: &SessionSpec, clock: &Clock) -> String {
    let mode = spec.loss_mode.name();
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write!(text, "generation={generation};subbuf={};", spec.subbuf_bytes);
    let _ = write!(text, "subbufs={};mode={mode};", spec.nr_subbufs);
    let _ = write!(text, "vtid={};", u8::from(spec.vtid));
    // The longer ago the first measurement is, the more exact is the rate.
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
    if spec.filter.as_ref().is_some_and(Program::asks_duration) {
        text.push_str("spans=1;");
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

/// Returns the path of the request file, which lies beside the socket.
pub(crate) fn beside(socket: &Path) -> PathBuf {
    let name = socket.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(user::SOCKET_END).unwrap_or(&name);
    socket.with_file_name(format!("{name}{}", user::REQUEST))
}

/// Replaces the socket's request file, atomically. Only our user may write to the folder.
///
/// # Errors
/// The file could not be written.
pub(crate) fn leave(socket: &Path, text: &str) -> io::Result<()> {
    let path = beside(socket);
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file.write_all(format!("{}:{text}", user::VERSION).as_bytes()).and_then(|()| {
        // Root's request is for all users, whatever the umask is.
        let mode = if geteuid().is_root() { 0o644 } else { 0o600 };
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        fs::rename(&new, &path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// Removes the socket's request file.
pub(crate) fn withdraw(socket: &Path) {
    // There may be no request.
    let _ = fs::remove_file(beside(socket));
}
