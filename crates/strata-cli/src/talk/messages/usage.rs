//! What clap and the language itself would say in their own way: with the prefix of all other errors.

use std::panic::PanicHookInfo;

use anstyle::{AnsiColor, Style};
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::lttng;
use crate::export;

const PREFIX: Style = AnsiColor::Red.on_default().bold();

/// A command line that is none; with colours, and `strata: ` in front.
pub fn usage(error: &clap::Error) -> String {
    if is_without_format(error) {
        return format!("{PREFIX}strata:{PREFIX:#} {}", export::without_format());
    }
    if let Some(text) = lttng::hint(error) {
        return format!("{PREFIX}strata:{PREFIX:#} {text}. `strata --help` shows all commands");
    }
    error.render().ansi().to_string().replacen("error:", "strata:", 1).trim_end().to_owned()
}

/// `strata export`, and nobody said for which tool.
fn is_without_format(error: &clap::Error) -> bool {
    let missing = error.get(ContextKind::InvalidArg);
    error.kind() == ErrorKind::MissingRequiredArgument
        && matches!(missing, Some(ContextValue::Strings(all)) if all.iter().any(|one| one == "--to <FORMAT>"))
}

/// This program is wrong.
pub fn broken(panic: &PanicHookInfo<'_>) -> String {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or(payload.downcast_ref::<String>().map(String::as_str));
    let why = text.unwrap_or("of unknown cause");
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    format!("internal error{place}: {why}. Please report this")
}
