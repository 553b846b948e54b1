//! The command `strata doctor`: reports what this machine can record of the kernel and of programs, and why it cannot
//! record more.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use serde_json::{json, Value};
use strata_control::{ControlError, Folder, LeftSession};
use strata_kernel::doctor::{examine, Finding, Readiness};
use strata_session::report::{KERNEL, USER};

use crate::flags::DoctorFlags;
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::stdout;
use crate::units::{clean, counted};

/// Limit on the sessions that are named; further ones are counted.
const NAMES_MAX: usize = 10;

/// Runs `strata doctor`. Returns the exit status: 1 if something is missing.
pub fn run(flags: &DoctorFlags) -> Result<u8> {
    let mut findings = examine();
    findings.extend(strata_session::doctor::examine());
    if flags.clean {
        for text in clean_up()? {
            stderr::message(&Message { weight: Weight::Talk, text });
        }
    }
    findings.push(sessions());
    findings.push(kept());
    match flags.answer.is_json() {
        true => stdout::json_lines("doctor", &to_json(&findings)),
        false => {
            let room = stdout::terminal_columns().filter(|_| stdout::is_terminal());
            stdout::text("doctor", &to_text(&findings, stdout::is_terminal(), room))
        }
    }?;
    Ok(u8::from(findings.iter().any(|finding| matches!(finding.state, Readiness::Missing))))
}

/// Reports files of sessions that no longer run.
fn sessions() -> Finding {
    let left = match Folder::open().and_then(|folder| folder.left()) {
        Ok(left) => left,
        Err(ControlError::NoRuntimeFolder) => return finding(
            Readiness::Limited,
            "XDG_RUNTIME_DIR is not set, so there is no folder for them: sessions cannot be made",
            Some("Log in by a session manager, or set it to a folder that only you can enter"),
        ),
        Err(error) => {
            let remedy = "Make that folder your own, readable and writable by you alone";
            return finding(Readiness::Limited, &error.to_string(), Some(remedy));
        }
    };
    of_left(&left)
}

fn finding(state: Readiness, detail: &str, remedy: Option<&str>) -> Finding {
    let what = "user: sessions".to_owned();
    Finding { what, state, detail: detail.to_owned(), remedy: remedy.map(str::to_owned) }
}

fn of_left(left: &[LeftSession]) -> Finding {
    let names = |all: &[&LeftSession]| {
        let mut names: Vec<&str> =
            all.iter().take(NAMES_MAX).map(|one| one.name.as_str()).collect();
        if all.len() > NAMES_MAX {
            names.push("…");
        }
        names.join(", ")
    };
    let killed: Vec<&LeftSession> = left.iter().filter(|one| one.is_killed()).collect();
    let ended: Vec<&LeftSession> = left.iter().filter(|one| one.is_ended()).collect();
    let rest: Vec<&LeftSession> =
        left.iter().filter(|one| !one.is_killed() && !one.is_ended()).collect();
    let files = |one: &&LeftSession| {
        let name = &one.name;
        one.kinds.iter().map(|kind| format!("{name}.{kind}")).collect::<Vec<_>>().join(", ")
    };
    let mut parts = Vec::new();
    if !killed.is_empty() {
        let count = counted(killed.len() as u64, "session");
        parts.push(format!("{count} killed, whose plan is left: {}", names(&killed)));
    }
    if !rest.is_empty() {
        let all: Vec<String> = rest.iter().take(NAMES_MAX).map(files).collect();
        let more = if rest.len() > NAMES_MAX { ", …" } else { "" };
        parts.push(format!("files of sessions that do not run: {}{more}", all.join(", ")));
    }
    if !ended.is_empty() {
        let count = counted(ended.len() as u64, "session");
        parts.push(format!("what {count} said before the end: {}", names(&ended)));
    }
    match (parts.is_empty(), killed.is_empty() && rest.is_empty()) {
        (true, _) => finding(Readiness::Good, "nothing is left of sessions that do not run", None),
        (false, true) => finding(Readiness::Good, &parts.join("; "), None),
        (false, false) => finding(
            Readiness::Limited,
            &parts.join("; "),
            Some("`strata start NAME` makes a killed one again; `strata doctor --clean` removes all of this"),
        ),
    }
}

/// Reports objects that sessions which no longer run have pinned in the kernel.
fn kept() -> Finding {
    let what = "kept in the kernel".to_owned();
    let (state, detail, remedy) = match unowned() {
        Ok(names) if names.is_empty() => {
            (Readiness::Good, "nothing of sessions that do not run".to_owned(), None)
        }
        Ok(names) => {
            let all = names.iter().take(NAMES_MAX).map(String::as_str).collect::<Vec<_>>();
            let more = if names.len() > NAMES_MAX { ", …" } else { "" };
            let remedy = "`strata start NAME` goes on with a session that was killed; `strata doctor --clean` removes \
                          all of this";
            (
                Readiness::Limited,
                format!("still recorded, of sessions that do not run: {}{more}", all.join(", ")),
                Some(remedy.to_owned()),
            )
        }
        Err(error) => (Readiness::Limited, format!("{error:#}"), None),
    };
    Finding { what, state, detail, remedy }
}

/// Returns the sessions that have something pinned in the kernel and do not run.
fn unowned() -> Result<Vec<String>> {
    let mut names = strata_session::pinned()?;
    if !names.is_empty() {
        let run: Vec<String> =
            Folder::open()?.entries()?.into_iter().map(|entry| entry.name).collect();
        names.retain(|name| !run.contains(name));
    }
    Ok(names)
}

/// Removes the files and pins of sessions that do not run. Returns a message for each.
fn clean_up() -> Result<Vec<String>> {
    let folder = match Folder::open() {
        Err(ControlError::NoRuntimeFolder) => return Ok(Vec::new()),
        folder => folder?,
    };
    let mut said = Vec::new();
    for left in folder.left()? {
        let name = &left.name;
        match folder.remove(name) {
            Ok(_) => said.push(format!(
                "removed of session '{name}', which does not run: {}",
                left.kinds.join(", ")
            )),
            // The session has begun again in between.
            Err(ControlError::Exists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    for name in unowned()? {
        let number = strata_session::remove_pinned(&name)?;
        let things = counted(number as u64, "thing");
        said.push(format!(
            "removed of session '{name}', which does not run: {things} in the kernel"
        ));
    }
    Ok(said)
}

fn word(state: &Readiness) -> (&'static str, Style) {
    match state {
        Readiness::Good => ("good", AnsiColor::Green.on_default()),
        Readiness::Limited => ("limited", AnsiColor::Yellow.on_default()),
        Readiness::Missing => ("missing", AnsiColor::Red.on_default().bold()),
    }
}

/// Formats a line for each finding, with its remedy below it.
/// Formats the findings in lines of at most `room` characters; `None` means of any length.
fn to_text(findings: &[Finding], coloured: bool, room: Option<usize>) -> String {
    let width = findings.iter().map(|one| one.what.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let (state, style) = word(&finding.state);
        let style = if coloured { style } else { Style::new() };
        let what = clean(&finding.what);
        let detail = clean(&finding.detail);
        let room = room.map(|room| room.saturating_sub(width + 11).max(30));
        for (at, line) in wrapped(&detail, room).into_iter().enumerate() {
            let _ = match at {
                0 => writeln!(text, "{style}{state:7}{style:#}  {what:width$}  {line}"),
                _ => writeln!(text, "{:7}  {:width$}  {line}", "", ""),
            };
        }
        let remedy = finding.remedy.as_ref().map(|remedy| clean(remedy));
        let room = room.map(|room| room - 3);
        let remedy = remedy.iter().flat_map(|remedy| wrapped(remedy, room));
        for (at, line) in remedy.enumerate() {
            let arrow = if at == 0 { "->" } else { "" };
            let _ = writeln!(text, "{:7}  {:width$}  {arrow:2} {line}", "", "");
        }
    }
    text
}

/// Breaks a text at spaces into lines of at most `room` characters. A longer word has a line of its own.
fn wrapped(text: &str, room: Option<usize>) -> Vec<String> {
    let Some(room) = room else { return vec![text.to_owned()] };
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(last) = lines.last_mut() else { break };
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > room {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

fn to_json(findings: &[Finding]) -> Value {
    let finding = |one: &Finding| {
        json!({
            "layer": if one.what.starts_with("user: ") { USER } else { KERNEL },
            "what": one.what,
            "state": word(&one.state).0,
            "detail": one.detail,
            "remedy": one.remedy,
        })
    };
    json!({ "findings": findings.iter().map(finding).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Finding> {
        let finding = |what: &str, state, remedy: Option<&str>| Finding {
            what: what.into(),
            state,
            detail: "as it is".into(),
            remedy: remedy.map(str::to_owned),
        };
        vec![
            finding("BTF", Readiness::Good, None),
            finding("ke\x1bys", Readiness::Missing, Some("Do that")),
        ]
    }

    #[test]
    fn findings_as_text_are_lines_with_the_remedy_below() {
        assert_eq!(
            to_text(&findings(), false, None),
            "good     BTF    as it is\n\
             missing  ke\\u{1b}ys  as it is\n\
             \x20               -> Do that\n"
        );
    }

    #[test]
    fn findings_on_a_terminal_are_broken_at_spaces_below_their_column() {
        let mut all = findings();
        all[1].remedy = Some("Do that, and then do something else as root, or do nothing".into());
        let text = to_text(&all, false, Some(50));
        assert!(text.lines().all(|line| line.chars().count() <= 50), "{text}");
        assert!(text.contains("-> Do that, and then do something\n"), "{text}");
        assert!(text.contains(&format!("\n{:19}else as root, or do nothing\n", "")), "{text}");
    }

    #[test]
    fn what_sessions_have_left_is_a_fault_if_one_was_killed() {
        let left = |name: &str, kinds: &[&'static str]| LeftSession {
            name: name.into(),
            kinds: kinds.to_vec(),
        };
        let good = of_left(&[]);
        assert!(good.state == Readiness::Good && good.remedy.is_none());
        let good = of_left(&[left("a", &["log"])]);
        assert!(
            good.state == Readiness::Good && good.detail.contains("1 session said"),
            "{good:?}"
        );
        let many: Vec<LeftSession> =
            (0..11).map(|number| left(&format!("k{number}"), &["plan", "log"])).collect();
        let bad = of_left(&[&many[..], &[left("r", &["sock", "lock"])]].concat());
        assert_eq!(bad.state, Readiness::Limited);
        for part in ["11 sessions killed", "k0, ", "k9, …", "r.sock, r.lock"] {
            assert!(bad.detail.contains(part), "{part}: {}", bad.detail);
        }
        assert!(bad.remedy.unwrap().contains("--clean"));
    }

    #[test]
    fn findings_as_json_have_everything_under_its_name() {
        let value = to_json(&findings());
        assert_eq!(value["findings"][1]["state"], "missing");
        assert_eq!(value["findings"][1]["remedy"], "Do that");
        assert_eq!(value["findings"][0]["remedy"], Value::Null);
        assert_eq!(value["findings"][0]["layer"], "kernel");
        let user = Finding { what: "user: clock".into(), ..findings()[0].clone() };
        assert_eq!(to_json(&[user])["findings"][0]["layer"], "user");
    }
}
