//! `strata doctor`: what this machine can record, of the kernel and of programs, and why not.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result};
use serde_json::{json, Value};
use strata_kernel::doctor::{examine, Finding, State};
use strata_session::report::{KERNEL, USER};

use crate::flags::DoctorFlags;
use crate::units::clean;

/// Examine, and give the exit status: 1 if something is missing.
pub fn run(flags: &DoctorFlags) -> Result<u8> {
    let mut findings = examine();
    findings.extend(strata_session::doctor::examine());
    let text = match flags.json {
        true => format!("{:#}\n", to_json(&findings)),
        false => to_text(&findings, io::stdout().is_terminal()),
    };
    anstream::stdout().write_all(text.as_bytes()).context("doctor: cannot write to stdout")?;
    Ok(u8::from(findings.iter().any(|finding| matches!(finding.state, State::Missing))))
}

fn word(state: &State) -> (&'static str, Style) {
    match state {
        State::Good => ("good", AnsiColor::Green.on_default()),
        State::Limited => ("limited", AnsiColor::Yellow.on_default()),
        State::Missing => ("missing", AnsiColor::Red.on_default().bold()),
    }
}

/// One line each: state, what, and how it is; below it what can be done.
fn to_text(findings: &[Finding], coloured: bool) -> String {
    let width = findings.iter().map(|one| one.what.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let (state, style) = word(&finding.state);
        let style = if coloured { style } else { Style::new() };
        let what = clean(&finding.what);
        let detail = clean(&finding.detail);
        let _ = writeln!(text, "{style}{state:7}{style:#}  {what:width$}  {detail}");
        if let Some(remedy) = &finding.remedy {
            let _ = writeln!(text, "{:7}  {:width$}  -> {}", "", "", clean(remedy));
        }
    }
    text
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
            finding("BTF", State::Good, None),
            finding("ke\x1bys", State::Missing, Some("Do that")),
        ]
    }

    #[test]
    fn findings_as_text_are_lines_with_the_remedy_below() {
        assert_eq!(
            to_text(&findings(), false),
            "good     BTF    as it is\n\
             missing  ke\\u{1b}ys  as it is\n\
             \x20               -> Do that\n"
        );
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
