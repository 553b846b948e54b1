//! Starts a pager for output on a terminal.
#![allow(clippy::disallowed_methods)]

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::process::{Child, Command, Stdio};

/// The value of `$STRATA_PAGER` or `$PAGER`.
#[derive(Debug, PartialEq, Eq)]
enum PagerCommand {
    /// The user wants no pager.
    Nothing,
    /// A program and its arguments.
    Words(Vec<String>),
    /// A command line for a shell.
    Shell(OsString),
}

/// Characters that have a meaning in a shell.
const SHELL: &str = "|&;<>()$`\\\"'*?[#~=%!{}\n";

fn wanted(pager: Option<OsString>) -> PagerCommand {
    let Some(text) = pager else { return PagerCommand::Words(vec!["less".to_owned()]) };
    match text.to_str() {
        Some(words) if !words.contains(|c| SHELL.contains(c)) => {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            if words.is_empty() || words == ["cat"] {
                PagerCommand::Nothing
            } else {
                PagerCommand::Words(words)
            }
        }
        _ => PagerCommand::Shell(text),
    }
}

/// Returns true if the terminal can only show lines.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term == "dumb")
}

/// Starts `$STRATA_PAGER`, `$PAGER`, or less. Returns `None` if stdout is no terminal, no pager is wanted, or none can
/// be started.
pub fn start() -> Option<Child> {
    if !std::io::stdout().is_terminal() || is_dumb() {
        return None;
    }
    let asked = std::env::var_os("STRATA_PAGER").or_else(|| std::env::var_os("PAGER"));
    let mut command = match wanted(asked) {
        PagerCommand::Nothing => return None,
        PagerCommand::Words(words) => {
            let (program, arguments) = words.split_first()?;
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        PagerCommand::Shell(text) => {
            let mut command = Command::new("sh");
            command.arg("-c").arg(text);
            command
        }
    };
    // less passes colours, ends at once after a short text, leaves the text on the screen, and cuts long lines, whose
    // ends the arrow keys show.
    for (name, value) in [("LESS", "FRSX"), ("LV", "-c")] {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    // A user whom sudo lets run only this program must not get a root shell by the commands of less.
    if std::env::var_os("SUDO_UID").is_some() {
        command.env("LESSSECURE", "1");
    }
    // The output is shown without a pager that cannot be started.
    command.stdin(Stdio::piped()).spawn().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pager_is_less_unless_something_else_is_wanted() {
        let words =
            |words: &[&str]| PagerCommand::Words(words.iter().map(|w| (*w).to_owned()).collect());
        assert_eq!(wanted(None), words(&["less"]));
        assert_eq!(wanted(Some("more -s".into())), words(&["more", "-s"]));
        assert_eq!(wanted(Some("".into())), PagerCommand::Nothing);
        assert_eq!(wanted(Some("  ".into())), PagerCommand::Nothing);
        assert_eq!(wanted(Some("cat".into())), PagerCommand::Nothing);
        assert_eq!(wanted(Some("X=1 less".into())), PagerCommand::Shell("X=1 less".into()));
        assert_eq!(
            wanted(Some("grep x | less".into())),
            PagerCommand::Shell("grep x | less".into())
        );
    }
}
