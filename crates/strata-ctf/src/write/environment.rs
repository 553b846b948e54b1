//! A trace's environment in LTTng's terms, by which readers choose their analyses.

use strata_model::{text_from_bytes, EnvValue};

/// The entry that says what happened when all sub-buffers were full: `discard` or `overwrite`. Without it
/// a reader cannot know which of both the packets' `events_discarded` counts.
pub const LOSS_MODE: &str = "strata_loss_mode";

/// What the environment of one process' trace says.
#[derive(Clone, Copy, Debug)]
pub struct UserProcess<'a> {
    /// The machine's name, as the kernel gives it.
    pub hostname: &'a [u8],
    /// The process' id as it sees itself.
    pub vpid: u32,
    /// Its short name, as it says; hostile.
    pub procname: &'a [u8],
    /// When the trace was begun, ISO 8601; empty: not said.
    pub created: &'a str,
    /// Whether the oldest packets were overwritten when all sub-buffers were full.
    pub overwrites: bool,
}

/// The environment of one process' trace. Readers take it for one of LTTng-UST 2.13, which it is
/// like in all they look at; `strata_version` tells the truth.
///
/// Names and values are made such that [`strata_model::Trace::validate`] accepts them.
pub fn user_environment(process: &UserProcess<'_>) -> Vec<(String, EnvValue)> {
    let mut entries: Vec<(&str, EnvValue)> = vec![
        ("hostname", text(process.hostname).into()),
        ("domain", "ust".into()),
        ("tracer_name", "lttng-ust".into()),
        ("tracer_major", 2.into()),
        ("tracer_minor", 13.into()),
        ("tracer_buffering_scheme", "pid".into()),
        ("tracer_buffering_id", i64::from(process.vpid).into()),
        ("architecture_bit_width", i64::from(usize::BITS).into()),
        ("vpid", i64::from(process.vpid).into()),
        ("procname", text(process.procname).into()),
    ];
    if !process.created.is_empty() {
        entries.push(("trace_creation_datetime", text(process.created.as_bytes()).into()));
    }
    entries.push(("strata_version", env!("CARGO_PKG_VERSION").into()));
    entries.push((LOSS_MODE, if process.overwrites { "overwrite" } else { "discard" }.into()));
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// At most 255 bytes, up to a NUL.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().take(255).position(|&byte| byte == 0).unwrap_or(bytes.len().min(255));
    text_from_bytes(&bytes[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(process: &UserProcess<'_>, name: &str) -> Option<EnvValue> {
        user_environment(process).into_iter().find(|(found, _)| found == name).map(|(_, v)| v)
    }

    const PROCESS: UserProcess<'static> = UserProcess {
        hostname: b"box",
        vpid: 42,
        procname: b"app\0garbage",
        created: "2024-05-06T07:08:09+00:00",
        overwrites: false,
    };

    #[test]
    fn user_environment_says_what_readers_look_for() {
        assert_eq!(value(&PROCESS, "domain"), Some("ust".into()));
        assert_eq!(value(&PROCESS, "tracer_name"), Some("lttng-ust".into()));
        assert_eq!(value(&PROCESS, "tracer_major"), Some(2.into()));
        assert_eq!(value(&PROCESS, "tracer_minor"), Some(13.into()));
        assert_eq!(value(&PROCESS, "tracer_buffering_scheme"), Some("pid".into()));
        assert_eq!(value(&PROCESS, "hostname"), Some("box".into()));
        assert_eq!(value(&PROCESS, "vpid"), Some(42.into()));
        assert_eq!(value(&PROCESS, "strata_version"), Some(env!("CARGO_PKG_VERSION").into()));
    }

    #[test]
    fn user_environment_says_what_the_count_of_discarded_records_means() {
        assert_eq!(value(&PROCESS, "strata_loss_mode"), Some("discard".into()));
        let process = UserProcess { overwrites: true, ..PROCESS };
        assert_eq!(value(&process, "strata_loss_mode"), Some("overwrite".into()));
    }

    #[test]
    fn user_environment_with_nul_in_a_name_ends_it_there() {
        assert_eq!(value(&PROCESS, "procname"), Some("app".into()));
    }

    #[test]
    fn user_environment_with_a_long_name_cuts_it() {
        let process = UserProcess { procname: &[b'x'; 9000], ..PROCESS };
        assert_eq!(value(&process, "procname"), Some("x".repeat(255).into()));
    }

    #[test]
    fn user_environment_without_a_date_has_no_entry() {
        let process = UserProcess { created: "", ..PROCESS };
        assert_eq!(value(&process, "trace_creation_datetime"), None);
    }
}
