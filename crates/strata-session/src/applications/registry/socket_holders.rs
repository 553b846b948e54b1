//! Finds processes that still hold the command's end of the socket, and so have outlived it.

use strata_user::{Announcements, Application, Received};

/// The most processes that are named as holders of the socket, and the most messages that are read to find them.
pub(super) const HOLDERS_MAX: usize = 64;

/// Returns the names of the processes that still hold the other end of a command's socket, found from the messages in
/// it.
pub(super) fn holders_of(socket: &mut Announcements) -> Vec<String> {
    let mut holders = Vec::new();
    // A process that holds the other end may go on sending for ever.
    for _ in 0..HOLDERS_MAX {
        match socket.receive() {
            Ok(Received::Process { fd, sender, .. }) => match Application::announced(fd, &sender) {
                Ok(late) if late.is_alive() => {
                    holders.push(format!("{} ({})", late.name(), late.pid()));
                }
                _ => {}
            },
            // The message does not say whether its sender lives.
            Ok(Received::Absent { .. }) => {}
            Ok(Received::End) => break,
            Ok(Received::Nothing) | Err(_) => {
                if holders.is_empty() {
                    holders.push("a descendant of the command".to_owned());
                }
                break;
            }
        }
    }
    holders
}
