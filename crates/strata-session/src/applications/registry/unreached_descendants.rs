//! Descendants of the command that got no session through their environment: the reasons, with advice.

use strata_user::Application;

/// The names are `NO_SESSION_*` in `strata/abi/announce.h`.
use strata_abi::user::{
    NO_SESSION_NO_REQUEST, NO_SESSION_SECURE, NO_SESSION_SOCKET, NO_SESSION_UNKNOWN,
};

/// Advice for programs that clear the environment.
pub(super) const KEEP: &str =
    "Let it keep that variable, as `sudo --preserve-env=STRATA_SESSION` does";

/// Advice to use a recorder of all processes, as root.
const OF_ALL: &str = "`strata record -a` as root has such programs from their begin";

/// Returns the reason and advice, according to the process's own report. The text is the same for all processes with
/// the same reason.
pub(super) fn why(application: &Application) -> (String, &'static str) {
    of(application.no_session())
}

fn of((no_session, code): (u32, i32)) -> (String, &'static str) {
    let known = |text: &str, advice| (text.to_owned(), advice);
    match no_session {
        NO_SESSION_NO_REQUEST => known(
            "STRATA_SESSION was not in its environment (env -i, sudo and su clear it)",
            KEEP,
        ),
        NO_SESSION_SECURE => known(
            "it has other rights than who started it (set-user-ID, set-group-ID, capabilities of its file), and heeds no \
             environment such as STRATA_SESSION",
            OF_ALL,
        ),
        NO_SESSION_UNKNOWN => known(
            "its STRATA_SESSION is of another version, or was changed",
            "Link it with the libstrata that came with this command, and leave that variable as it is",
        ),
        NO_SESSION_SOCKET => of_socket(code),
        _ => known(
            "it was begun without STRATA_SESSION, or with that of another recorder",
            "Let it keep the variable that the command was started with",
        ),
    }
}

/// Returns the reason and advice for a process that has STRATA_SESSION and could not reach the socket named there.
fn of_socket(code: i32) -> (String, &'static str) {
    let said = std::io::Error::from_raw_os_error(code);
    let (what, advice) = match code {
        libc::ENOENT | libc::ECONNREFUSED | libc::ENOTDIR => (
            "it is in another mount namespace or root folder, and in another network namespace",
            "Let its starter leave it the descriptor that STRATA_SESSION names",
        ),
        libc::EACCES | libc::EPERM => (
            "it may not connect to the recorder, as another user or in a sandbox",
            "Record as root, or let its starter leave it the descriptor that STRATA_SESSION names",
        ),
        libc::EAGAIN => (
            "too many others waited to be heard",
            "Leave the recorder more of the CPUs, or begin fewer programs at once",
        ),
        libc::EMFILE | libc::ENFILE => {
            ("it could have no descriptor more", "Raise its limit of open files (ulimit -n)")
        }
        _ => ("the kernel refuses", OF_ALL),
    };
    let text = format!(
        "it was started without the recorder's socket, and could not connect to it by the names in STRATA_SESSION: \
         {what} ({said})"
    );
    (text, advice)
}

/// Returns a time as text, rounded up so that many programs share one message.
pub(super) fn at_most(ns: u64) -> String {
    let text = [(1_000_000, "1 ms"), (10_000_000, "10 ms"), (100_000_000, "100 ms")];
    let found = text.into_iter().find(|(limit, _)| ns <= *limit);
    match found {
        Some((_, text)) => format!("less than {text}"),
        None => format!("less than {} s", ns / 1_000_000_000 + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_names_what_the_process_says_and_another_advice_for_each() {
        let (text, advice) = of((NO_SESSION_NO_REQUEST, 0));
        assert!(text.contains("env -i") && advice == KEEP, "{text}");
        let (text, advice) = of((NO_SESSION_SECURE, 0));
        assert!(text.contains("set-user-ID") && advice != KEEP, "{text}");
        for (code, word) in [
            (libc::ENOENT, "mount namespace"),
            (libc::EACCES, "another user"),
            (libc::EAGAIN, "too many"),
            (libc::EMFILE, "descriptor more"),
            (libc::ENOMEM, "refuses"),
        ] {
            let (text, advice) = of((NO_SESSION_SOCKET, code));
            assert!(text.contains(word) && !text.contains("env -i"), "{text}");
            assert_ne!(advice, KEEP);
        }
        assert!(of((77, -1)).0.contains("another recorder"));
    }

    #[test]
    fn at_most_rounds_up_to_what_many_share() {
        let said = [900_000, 1_000_001, 99_000_000, 300_000_000].map(at_most);
        assert_eq!(
            said,
            ["less than 1 ms", "less than 10 ms", "less than 100 ms", "less than 1 s"]
        );
    }
}
