//! The command line of `strata enable-rotation`, `disable-rotation` and `clear`.

use std::time::Duration;

use clap::{ArgGroup, Args};
use strata_analyze::duration_text::parse_duration;
use strata_session::options::Rotation;
use strata_session::plan::{Change, RotationBy};

use super::output_format::AnswerFlags;
use super::sessions::OfSession;
use crate::units::parse_size;

/// `strata enable-rotation`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("schedule").required(true).multiple(true).args(["size", "time", "count"])))]
pub struct EnableRotationFlags {
    #[command(flatten)]
    pub of: OfSession,

    /// Start a new part when the present part has SIZE bytes, such as 500M
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: Option<u64>,

    /// Start a new part after this time, such as 1h, if anything was recorded
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    time: Option<Duration>,

    /// Keep only the last N complete parts; remove others
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

impl EnableRotationFlags {
    /// Returns the change that the flags ask for.
    pub fn change(&self) -> Change {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Change::EnableRotation(Rotation {
            size: self.size,
            time_ms: self.time.map(ms),
            count: self.count,
        })
    }
}

/// `strata disable-rotation`.
#[derive(Debug, Args)]
pub struct DisableRotationFlags {
    #[command(flatten)]
    pub of: OfSession,

    /// Start no new part by size [default: neither by size nor by time]
    #[arg(long)]
    size: bool,

    /// Start no new part by time
    #[arg(long)]
    time: bool,

    /// Keep all parts
    #[arg(long)]
    count: bool,
}

impl DisableRotationFlags {
    /// Returns the change that the flags ask for.
    pub fn change(&self) -> Change {
        let is_none = !self.size && !self.time && !self.count;
        let all = [
            (RotationBy::Size, self.size || is_none),
            (RotationBy::Time, self.time || is_none),
            (RotationBy::Count, self.count),
        ];
        let asked = all.into_iter().filter(|(_, is_asked)| *is_asked);
        Change::DisableRotation(asked.map(|(condition, _)| condition).collect())
    }
}

/// `strata clear`.
#[derive(Debug, Args)]
pub struct ClearFlags {
    /// Name of the session [default: the only one there is]
    pub name: Option<String>,

    /// Clear all sessions of this user
    #[arg(short, long, conflicts_with = "name")]
    pub all: bool,

    #[command(flatten)]
    pub answer: AnswerFlags,
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::flags::{Action, Flags};

    /// Returns the change of a command line.
    fn change(line: &str) -> Result<Change, String> {
        let words = ["strata"].into_iter().chain(line.split(' '));
        match Flags::try_parse_from(words).map_err(|error| error.to_string())?.action {
            Action::EnableRotation(flags) => Ok(flags.change()),
            Action::DisableRotation(flags) => Ok(flags.change()),
            _ => Err("another one".to_owned()),
        }
    }

    #[test]
    fn schedule_has_what_is_named_and_nothing_else() {
        let schedule =
            |size, time_ms, count| Ok(Change::EnableRotation(Rotation { size, time_ms, count }));
        assert_eq!(change("enable-rotation --size 500M"), schedule(Some(500 << 20), None, None));
        assert_eq!(
            change("enable-rotation --time=1h --count 3 -s web"),
            schedule(None, Some(3_600_000), Some(3))
        );
        for (line, said) in [
            ("enable-rotation", "required"),
            ("enable-rotation --size", "SIZE"),
            // LTTng's numbers without a unit are microseconds.
            ("enable-rotation --timer 5000000", "unexpected"),
            ("disable-rotation --everything", "unexpected"),
        ] {
            let text = change(line).unwrap_err();
            assert!(text.contains(said), "{line}: {text}");
        }
        use RotationBy::{Count, Size, Time};
        let none = |all: &[RotationBy]| Ok(Change::DisableRotation(all.to_vec()));
        assert_eq!(change("disable-rotation"), none(&[Size, Time]));
        assert_eq!(change("disable-rotation --time"), none(&[Time]));
        assert_eq!(change("disable-rotation --size --count"), none(&[Size, Count]));
    }
}
