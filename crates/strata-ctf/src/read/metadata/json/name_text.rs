//! Formats names of metadata for messages.

/// Returns a name, which may be any text, with control characters escaped.
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
