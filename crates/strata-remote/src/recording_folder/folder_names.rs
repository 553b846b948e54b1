//! Names from the network that become names of folders.

/// Longest name of a host, and of a recording's folder \[byte\].
const NAME_BYTES_MAX: usize = 64;

/// Checks whether a host or a recording's folder may have this name: lower-case letters, digits, `.`, `_` and `-`, for
/// a recording also upper-case letters; the first character is a letter or a digit.
fn is_name(name: &str, with_upper: bool) -> bool {
    let is_allowed = |byte: u8| {
        byte.is_ascii_lowercase()
            || byte.is_ascii_digit()
            || b"._-".contains(&byte)
            || (with_upper && byte.is_ascii_uppercase())
    };
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    first && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_allowed)
}

/// Returns true if a host may have this name.
pub(crate) fn is_host(name: &str) -> bool {
    is_name(name, false)
}

/// Returns true if the folder of a recording may have this name.
pub(crate) fn is_session(name: &str) -> bool {
    is_name(name, true)
}

/// Returns true if a layer's folder may have this name: one or two parts that are names of channels.
pub(crate) fn is_layer(name: &str) -> bool {
    let mut parts = name.split('/');
    let are_names = parts.by_ref().take(2).all(|part| is_name(part, true));
    are_names && parts.next().is_none()
}

/// Returns the folder name for a process: its name with all characters except letters, digits, `.`, `_`, `+` and `-`
/// replaced by `_`, and its process id.
pub(crate) fn process_folder(name: &str, pid: u32) -> String {
    let clean: String = name
        .bytes()
        .take(NAME_BYTES_MAX)
        .map(|byte| match byte {
            b'.' | b'_' | b'+' | b'-' => byte.into(),
            _ if byte.is_ascii_alphanumeric() => byte.into(),
            _ => '_',
        })
        .collect();
    let clean = match clean.strip_prefix(['.', '-']) {
        Some(rest) => format!("_{rest}"),
        None if clean.is_empty() => "unnamed".to_owned(),
        None => clean,
    };
    format!("{clean}-{pid}")
}

/// Returns the name of a host at a relay, made from the host's own name.
#[must_use]
pub fn host_name(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let clean: String = lower
        .chars()
        .map(|one| if one.is_ascii_alphanumeric() || ".-".contains(one) { one } else { '-' })
        .take(NAME_BYTES_MAX)
        .collect();
    let clean = clean.trim_start_matches(['.', '-']);
    if clean.is_empty() { "unnamed" } else { clean }.to_owned()
}

/// Returns the folder name for a recording. A name that is too long is cut at its begin, since its end has the time.
#[must_use]
pub fn recording_name(name: &str) -> String {
    let clean: String = name
        .chars()
        .map(|one| if one.is_ascii_alphanumeric() || "._-".contains(one) { one } else { '-' })
        .collect();
    let from = clean.len().saturating_sub(NAME_BYTES_MAX);
    let clean = clean.get(from..).unwrap_or_default().trim_start_matches(['.', '_', '-']);
    if clean.is_empty() { "unnamed" } else { clean }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malicious_names_are_refused_or_made_harmless() {
        for bad in
            ["", ".", "..", "a/b", "../x", ".x", "-x", "a\0", "a b", "\u{e9}", &"x".repeat(65)]
        {
            assert!(!is_host(bad) && !is_session(bad), "{bad:?}");
        }
        assert!(is_host("web-1.example_2") && !is_host("WEB") && is_session("S-2026.1"));
        for bad in ["", "/", "a/", "/a", "a/b/c", "a/..", "a//b", "../a"] {
            assert!(!is_layer(bad), "{bad:?}");
        }
        assert!(is_layer("kernel") && is_layer("big/user"));
        for (name, folder) in [
            ("app", "app-7"),
            ("", "unnamed-7"),
            ("../../x", "_._.._x-7"),
            ("a b/c", "a_b_c-7"),
            ("-rf", "_rf-7"),
        ] {
            assert_eq!(process_folder(name, 7), folder);
        }
        for (name, host) in [("Web_1", "web-1"), (".-", "unnamed"), ("box.example", "box.example")]
        {
            assert_eq!(host_name(name), host);
            assert!(is_host(&host_name(name)));
        }
        let long = format!("{}-20261129-120000", "n".repeat(64));
        for (name, folder) in [
            ("web-20261129-120000", "web-20261129-120000"),
            ("../a b", "a-b"),
            ("", "unnamed"),
            (&long, &long[16..]),
        ] {
            assert_eq!(recording_name(name), folder);
            assert!(is_session(&recording_name(name)));
        }
    }
}
