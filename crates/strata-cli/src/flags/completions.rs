//! Makes completions of shells and man pages from the definition of the flags, so that neither is written by hand.
//!
//! ```text
//! Flags ── shown(): without hidden commands ─┬─ clap_complete ── without_hidden ── with_values ──▶ script of a shell
//!                                            └─ clap_mangen ── EXAMPLES, SEE ALSO of examples.rs ▶ strata-record(1), ...
//! ```
//!
//! clap writes hidden flags into scripts, too; they are removed from the text. For values that only this machine knows (events of the
//! kernel, sessions, tracepoints, traces in a folder) the scripts get functions of ours, which ask `strata` when the user presses TAB.
//!
//! `strata completions SHELL` prints a script. Man pages are written by a command that only packagers need
//! (`Man`). Functions in a script call `strata list --names` and the like, which print one name a line.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::iter;
use std::path::Path;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::examples::{examples_of, page_name};
use crate::flags::Flags;
use crate::stdout;

/// Writes a completion script to stdout.
pub fn completions(shell: Shell) -> Result<()> {
    let script = script(shell);
    stdout::raw().write_all(script.as_bytes()).context("completions: cannot write to stdout")
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown(), "strata", &mut script);
    with_values(shell, &without_hidden(shell, &String::from_utf8_lossy(&script)))
}

/// Returns the command line without hidden commands, which scripts would offer otherwise.
fn shown() -> Command {
    let all = Flags::command();
    let commands = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new("strata").version(env!("CARGO_PKG_VERSION")).subcommands(commands)
}

/// Collects the long flags of a command and its subcommands: those that help shows, and the hidden ones.
fn long_flags<'c>(
    command: &'c Command,
    shown: &mut HashSet<&'c str>,
    hidden: &mut HashSet<&'c str>,
) {
    for arg in command.get_arguments() {
        let to = if arg.is_hide_set() { &mut *hidden } else { &mut *shown };
        to.extend(arg.get_long());
    }
    command.get_subcommands().for_each(|command| long_flags(command, shown, hidden));
}

/// Returns the script without hidden flags, which clap writes as well.
fn without_hidden(shell: Shell, script: &str) -> String {
    let all = shown();
    let (mut shown, mut hidden) = (HashSet::new(), HashSet::new());
    long_flags(&all, &mut shown, &mut hidden);
    let is_of = |line: &str, flag: &str| match shell {
        Shell::Zsh => line.contains(&format!("--{flag}[")) || line.contains(&format!("--{flag}=[")),
        Shell::Fish => line.contains(&format!(" -l {flag} ")),
        _ => false,
    };
    let hidden: Vec<&str> = hidden.difference(&shown).copied().collect();
    let lines = script.lines().filter(|line| !hidden.iter().any(|flag| is_of(line, flag)));
    let without = |line: &str| match shell {
        Shell::Bash if line.trim_start().starts_with("opts=") => {
            let words = line
                .split(' ')
                .filter(|word| !word.strip_prefix("--").is_some_and(|flag| hidden.contains(&flag)));
            words.collect::<Vec<_>>().join(" ")
        }
        _ => line.to_owned(),
    };
    lines.map(|line| without(line) + "\n").collect()
}

/// Returns the script with completions of values that `strata` itself lists when they are needed: names of sessions, of
/// the kernel's events and of tracepoints, and folders that are traces.
fn with_values(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => format!("{script}\n{}", include_str!("completions/strata.bash")),
        Shell::Fish => format!("{script}\n{}", include_str!("completions/strata.fish")),
        Shell::Zsh => {
            let lines: Vec<String> = script.lines().map(zsh_line).collect();
            let functions = include_str!("completions/strata.zsh");
            let script = lines.join("\n") + "\n";
            script.replacen("\n_strata() {", &format!("\n{functions}\n_strata() {{"), 1)
        }
        _ => script.to_owned(),
    }
}

/// Returns a line of zsh's script with our completion of its value, if clap has only a general one.
fn zsh_line(line: &str) -> String {
    let is_kernel = line.contains("-k+[") || line.contains("--kernel=[");
    let (general, values) = match line {
        _ if line.contains(":RULES:_default") => ("_default", "_strata_events"),
        _ if line.contains(":RULE:_default") && is_kernel => ("_default", "_strata_events"),
        _ if line.contains(":RULE:_default") => ("_default", "_strata_tracepoints"),
        _ if line.contains(":SESSION:_default") => ("_default", "_strata_sessions"),
        _ if line.starts_with("'::name -- The session") => ("_default", "_strata_sessions"),
        _ if line.starts_with("'*::rules -- ") => ("_default", "_strata_rules"),
        _ if line.starts_with("'*::traces -- ") => ("_files", "_strata_traces"),
        _ if line.starts_with("'*::named -- ") => ("_files -/", "_strata_named"),
        _ => return line.to_owned(),
    };
    match line.rsplit_once(&format!(":{general}'")) {
        Some((before, after)) => format!("{before}:{values}'{after}"),
        None => line.to_owned(),
    }
}

/// Writes strata(1) to stdout, or a page for each subcommand into `folder`.
pub fn man(folder: Option<&Path>) -> Result<()> {
    let mut command = Flags::command().disable_help_subcommand(true);
    // Makes clap set names such as `strata-view`.
    command.build();
    let Some(folder) = folder else {
        let (_, page) = page(&command)?;
        return stdout::raw()
            .write_all(page.as_bytes())
            .context("man page: cannot write to stdout");
    };
    fs::create_dir_all(folder)
        .with_context(|| format!("man pages: cannot make folder '{}'", folder.display()))?;
    for command in iter::once(&command).chain(with_pages(&command)) {
        let (name, page) = page(command)?;
        fs::write(folder.join(name), page)
            .with_context(|| format!("man pages: cannot write to '{}'", folder.display()))?;
    }
    Ok(())
}

/// Returns all commands that have a man page: those in the help, and their own subcommands.
fn with_pages(command: &Command) -> Vec<&Command> {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.flat_map(|command| iter::once(command).chain(with_pages(command))).collect()
}

/// Returns a man page and its file name.
fn page(command: &Command) -> Result<(String, String)> {
    let source = concat!("strata ", env!("CARGO_PKG_VERSION"));
    let page = clap_mangen::Man::new(command.clone()).source(source);
    let mut text = Vec::new();
    page.render(&mut text).context("man page: cannot be made")?;
    let text = String::from_utf8_lossy(&text);
    // The text after the flags has its layout already.
    let mut text = text.replace(".SH EXTRA\n", ".SH NOTES\n.nf\n");
    let name = command.get_display_name().unwrap_or(command.get_name());
    text.push_str(&examples_sections(name));
    Ok((page.get_filename(), text))
}

/// Commands whose first examples are those of strata(1).
const FIRST: [&str; 6] = ["record", "analyze summary", "view", "ui", "create", "doctor"];

/// Returns the sections EXAMPLES and SEE ALSO of the man page `name`; empty if it has no examples.
fn examples_sections(name: &str) -> String {
    let path = name.trim_start_matches("strata-");
    let path = path.replacen("analyze-", "analyze ", 1);
    let first = || FIRST.iter().filter_map(|path| examples_of(path)?.lines.first());
    let (lines, related): (Vec<_>, &[&str]) = match examples_of(&path) {
        Some(examples) => (examples.lines.iter().collect(), examples.related),
        None if name == "strata" => (first().collect(), &FIRST),
        None => return String::new(),
    };
    let mut text = ".SH EXAMPLES\n".to_owned();
    for (line, what) in lines {
        text.push_str(&format!(".TP\n.B {}\n{}\n", roff(line), roff(what)));
    }
    let own = (name != "strata").then(|| "strata".to_owned());
    let pages = own.into_iter().chain(related.iter().map(|path| page_name(path)));
    let pages: Vec<String> = pages.map(|page| format!(".BR {} (1)", roff(&page))).collect();
    text.push_str(&format!(".SH SEE ALSO\n{}\n", pages.join(",\n")));
    text
}

/// Escapes the characters that have a meaning in troff.
fn roff(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('"', "\\(dq")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_of_each_shell_ask_for_events_sessions_tracepoints_and_traces() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for asked in ["list -k --names", "list --sessions --names", "list -u --names"] {
                assert!(script.contains(asked), "{shell}: {asked}");
            }
            assert!(script.matches("strata_traces").count() >= 2, "{shell}");
        }
        let zsh = script(Shell::Zsh);
        let used = |name: &str| {
            zsh.lines()
                .filter(|line| line.starts_with('\'') && line.contains(&format!(":{name}'")))
                .count()
        };
        assert_eq!(used("_strata_events"), 8);
        assert_eq!(used("_strata_named"), 1);
        assert_eq!(used("_strata_rules"), 2);
        assert!(used("_strata_sessions") > 20 && used("_strata_traces") > 10);
        assert!(!script(Shell::Elvish).contains("strata_events"));
    }

    #[test]
    fn completions_offer_what_the_help_shows_and_nothing_else() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for flag in ["lttng-env", "probes", "no-delta", "version"] {
                assert!(script.contains(flag), "{shell}: {flag}");
            }
            for hidden in ["man pages", "of-session"] {
                assert!(!script.contains(hidden), "{shell}: {hidden}");
            }
        }
        assert!(!script(Shell::Bash).contains("strata__man"));
    }

    #[test]
    fn man_pages_and_help_fit_a_terminal_of_80_columns() {
        let mut command = Flags::command().disable_help_subcommand(true);
        command.build();
        let (_, all) = page(&command).unwrap();
        assert!(all.contains(".SH EXAMPLES\n.TP\n.B strata record "), "{all}");
        assert!(all.contains(".SH SEE ALSO\n.BR strata\\-record (1),\n"), "{all}");
        let (mut nr_pages, mut nr_lines) = (0, 0);
        for command in with_pages(&command) {
            let (name, text) = page(command).unwrap();
            assert_eq!(name, format!("{}.1", command.get_display_name().unwrap()));
            assert!(text.contains("\"strata 0.1.0\""), "{name}: {text}");
            assert!(!text.contains(".SH EXTRA"), "{name}");
            assert!(text.contains(".SH EXAMPLES\n.TP\n.B strata "), "{name}");
            assert!(text.contains(".SH SEE ALSO\n.BR strata (1)"), "{name}");
            for line in command.get_after_long_help().iter().flat_map(|help| {
                help.to_string().lines().map(str::to_owned).collect::<Vec<String>>()
            }) {
                assert!(line.chars().count() <= 72, "{name}: {line}");
                nr_lines += 1;
            }
            // The reports of analyze are counted by themselves.
            nr_pages += u32::from(!name.starts_with("strata-analyze-"));
        }
        assert_eq!(nr_pages, 38);
        for report in [
            "cpu", "files", "irq", "locks", "memory", "spans", "summary", "syscalls", "threads",
            "wait",
        ] {
            let of = with_pages(&command);
            let found = of.iter().find(|command| {
                command.get_display_name() == Some(format!("strata-analyze-{report}").as_str())
            });
            let (_, text) = page(found.unwrap()).unwrap();
            assert!(text.contains(r"\-\-from") && text.contains(r"\-\-format"), "{report}: {text}");
        }
        assert!(nr_lines > 100, "{nr_lines}");
    }
}
