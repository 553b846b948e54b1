//! Names of attributes by which tracers add their own properties to the classes of CTF 2, for the reader and the writer of
//! metadata.

/// The namespace of Strata's attributes.
pub(crate) const OWN: &str = "strata";

/// Names of LTTng's log levels, indexed by level.
const LEVELS: [&str; 15] = [
    "emergency",
    "alert",
    "critical",
    "error",
    "warning",
    "notice",
    "info",
    "debug-system",
    "debug-program",
    "debug-process",
    "debug-module",
    "debug-unit",
    "debug-function",
    "debug-line",
    "debug",
];

/// Returns the name of a level, if it is one of LTTng's.
pub(crate) fn level_name(level: u8) -> Option<&'static str> {
    LEVELS.get(usize::from(level)).copied()
}

/// Returns the level with this name, in the spelling of babeltrace2 or of LTTng.
pub(crate) fn level(name: &str) -> Option<i64> {
    // LTTng has a colon where babeltrace2 has a hyphen.
    let name = name.replace(':', "-");
    LEVELS.iter().position(|level| *level == name).map(|level| level as i64)
}
