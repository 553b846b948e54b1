//! Who still holds the command's end of the socket has outlived the command.

use strata_user::{Announcements, Application, Received};

/// Who still holds the command's socket at the end: so many are named, and so many messages are looked at.
pub(super) const HOLDERS_MAX: usize = 64;

/// Who still has the other end of a command's socket, by what they have sent.
pub(super) fn holders_of(socket: &mut Announcements) -> Vec<String> {
    let mut holders = Vec::new();
    // Whoever holds it may go on sending for ever.
    for _ in 0..HOLDERS_MAX {
        match socket.receive() {
            Ok(Received::Process { fd, sender, .. }) => match Application::announced(fd, &sender) {
                Ok(late) if late.is_alive() => {
                    holders.push(format!("{} ({})", late.name(), late.pid()));
                }
                _ => {}
            },
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
