//! A pager in front of a terminal.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};

/// What `$PAGER` asks for.
#[derive(Debug, PartialEq, Eq)]
enum PagerCommand {
    /// None.
    Nothing,
    /// A program and its arguments.
    Words(Vec<String>),
    /// Something for a shell.
    Shell(OsString),
}

/// Characters that mean something to a shell.
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

/// Start `$PAGER`, or less; `None`: none is wanted, or there is none.
pub fn start() -> Option<Child> {
    let mut command = match wanted(std::env::var_os("PAGER")) {
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
    // Colours pass, a short text needs no pager, what was read stays on the screen, and long lines are cut: the
    // arrow keys lead to their ends.
    for (name, value) in [("LESS", "FRSX"), ("LV", "-c")] {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    // One that is not there, or cannot be started, is not needed.
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
