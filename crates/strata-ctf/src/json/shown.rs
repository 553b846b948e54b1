//! Names of metadata in messages.

/// A name, which may be any text, as it can be shown: it commands no terminal, and begins no new line.
pub(super) fn shown(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            control if control.is_control() => out.extend(control.escape_default()),
            other => out.push(other),
        }
    }
    out
}
