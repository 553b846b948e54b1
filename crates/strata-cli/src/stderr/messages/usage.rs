//! Formats errors of clap and panics of Rust with the prefix of all other errors.

use std::panic::PanicHookInfo;

use anstyle::{AnsiColor, Style};
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::{lttng, mistakes};
use crate::export;

const PREFIX: Style = AnsiColor::Red.on_default().bold();

/// Returns the coloured message on what is wrong with the command line `words`, with the prefix `strata: `.
pub fn usage(error: &clap::Error, words: &[String]) -> String {
    if is_without_format(error) {
        return format!("{PREFIX}strata:{PREFIX:#} {}", export::without_format());
    }
    if let Some(text) = lttng::hint(error) {
        return format!("{PREFIX}strata:{PREFIX:#} {text}. `strata --help` shows all commands");
    }
    if let Some(text) = mistakes::hint(error, words) {
        return format!("{PREFIX}strata:{PREFIX:#} {text}. `strata --help` shows all commands");
    }
    let text = error.render().ansi().to_string().replacen("error:", "strata:", 1);
    without_wrong_tips(&text, error).trim_end().to_owned()
}

/// Removes misleading tips: to pass a flag as a value if the command takes no values, and commands whose names are too
/// different to be meant.
fn without_wrong_tips(text: &str, error: &clap::Error) -> String {
    let word = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => word.as_str(),
        _ => "",
    };
    let near: Vec<&str> = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(all)) => {
            all.iter().map(String::as_str).filter(|one| is_slip(word, one)).collect()
        }
        _ => Vec::new(),
    };
    let is_wrong = |line: &str| {
        let line = anstream::adapter::strip_str(line).to_string();
        line.trim_start().starts_with("tip:")
            && (line.contains("as a value, use '")
                || line.contains("subcommand") && near.is_empty())
    };
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().filter(|line| !is_wrong(line)) {
        // Keep one of the two empty lines around a removed tip.
        if !line.is_empty() || lines.last().is_none_or(|last| !last.is_empty()) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// Returns true if `word` may be a typing error for `name`: at most a third of its characters are changed, missing,
/// added or swapped.
fn is_slip(word: &str, name: &str) -> bool {
    let (word, name): (Vec<char>, Vec<char>) = (word.chars().collect(), name.chars().collect());
    if word.len() > 64 {
        return false;
    }
    let is_begin = word.len() >= 3 && name.starts_with(&word);
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (at, one) in word.iter().enumerate() {
        let mut before = std::mem::replace(&mut row[0], at + 1);
        for (behind, other) in name.iter().enumerate() {
            let replaced = before + usize::from(one != other);
            before = row[behind + 1];
            row[behind + 1] = replaced.min(before + 1).min(row[behind] + 1);
        }
    }
    is_begin || row.last().is_some_and(|changes| changes * 3 <= name.len())
}

/// Returns true if the error is `strata export` without `--to`.
fn is_without_format(error: &clap::Error) -> bool {
    let missing = error.get(ContextKind::InvalidArg);
    error.kind() == ErrorKind::MissingRequiredArgument
        && matches!(missing, Some(ContextValue::Strings(all)) if all.iter().any(|one| one == "--to <FORMAT>"))
}

/// Returns the message on a bug of this program.
pub fn broken(panic: &PanicHookInfo<'_>) -> String {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or(payload.downcast_ref::<String>().map(String::as_str));
    let why = text.unwrap_or("of unknown cause");
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    format!("internal error{place}: {why}. Please report this")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::flags::Flags;

    fn said(words: &[&str]) -> String {
        let error = Flags::try_parse_from(["strata"].iter().chain(words)).unwrap_err();
        anstream::adapter::strip_str(&usage(&error, &[])).to_string()
    }

    #[test]
    fn tips_are_about_slips_and_never_about_passing_a_flag_as_a_value() {
        for (words, is_tip) in [
            (&["recrod"][..], true),
            (&["lst"], true),
            (&["snap"], true),
            (&["lttng"], false),
            (&["list", "--nosuch"], false),
            (&["destroy", "--everything"], false),
            (&["view", "--fomat", "json"], true),
        ] {
            let text = said(words);
            assert_eq!(text.contains("tip:"), is_tip, "{text}");
            assert!(!text.contains("as a value, use") && !text.contains("\n\n\n"), "{text}");
        }
    }

    #[test]
    fn slip_is_a_third_of_a_name_or_its_begin() {
        for (word, name, is) in [
            ("recrod", "record", true),
            ("analyse", "analyze", true),
            ("rec", "record", true),
            ("crash", "create", false),
            ("report", "record", true),
            ("lttng", "list", false),
            ("", "top", false),
        ] {
            assert_eq!(is_slip(word, name), is, "{word} {name}");
        }
    }
}
