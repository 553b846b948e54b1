//! Parses points in time as people write them.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::Timestamp;
use strata_ctf::read::TimeRange;

use crate::duration_text::{decimal, parse_length, LengthError};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

/// A point in time, which may be relative to the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// A time since 1970 \[ns\], written `@1700000000.5`.
    Absolute(i64),
    /// A date and a time of day, as `2026-11-22 12:00:01.5`.
    Date(DateTime),
    /// A time of day, as `12:00:01.5`: on the day on which the trace begins, or on the next day.
    Time(Time),
    /// A time since the trace's begin \[ns\], written `+1.5s`.
    Begin(i64),
    /// A time before the last event of the trace \[ns\], written `-1.5s`.
    End(i64),
}

/// The error for a text that is not a point in time, or that does not fit the trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhenError {
    /// The text is in none of the known forms.
    #[error(
        "'{0}' is no time; write 12:00:01.5, '2026-11-22 12:00:01.5', @1700000000.5 (seconds since \
         1970), +1.5s (since the trace begins) or -1.5s (before its last event)"
    )]
    Unknown(String),
    /// The time is too far away.
    #[error("'{0}' is outside of the years 1678 to 2261, which 64 bits of nanoseconds hold")]
    Outside(String),
    /// The text after the sign is no duration.
    #[error(transparent)]
    Length(#[from] LengthError),
    /// The time is relative to the begin or end of the trace, which is not known.
    #[error("no event of the trace has a time. Write a time with its date, or @SECONDS")]
    NoSpan,
}

impl When {
    /// Parses a point in time.
    ///
    /// # Errors
    /// The text is no point in time.
    pub fn parse(text: &str) -> Result<When, WhenError> {
        let unknown = || WhenError::Unknown(text.to_owned());
        let text = text.trim();
        if let Some(seconds) = text.strip_prefix('@') {
            let (negative, digits) = match seconds.strip_prefix('-') {
                Some(digits) => (true, digits),
                None => (false, seconds),
            };
            let ns = decimal(digits, 9).ok_or_else(unknown)?;
            let ns = i64::try_from(if negative { -ns } else { ns });
            return ns.map(When::Absolute).map_err(|_| WhenError::Outside(text.to_owned()));
        }
        if let Some(length) = text.strip_prefix('+') {
            return Ok(When::Begin(parse_length(length)?));
        }
        if let Some(length) = text.strip_prefix('-') {
            return Ok(When::End(parse_length(length)?));
        }
        if let Some(time) = parse_time(text) {
            return Ok(When::Time(time));
        }
        let (date, time) = match text.split_once([' ', 'T']) {
            Some((date, time)) => (date, parse_time(time.trim()).ok_or_else(unknown)?),
            None => (text, Time::midnight()),
        };
        let date = parse_date(date).ok_or_else(unknown)?;
        Ok(When::Date(date.to_datetime(time)))
    }

    /// Returns the time \[ns since 1970\], for a trace that has this span.
    ///
    /// # Errors
    /// Returns an error if the time depends on the trace's span and that is unknown, or if it is too far away.
    pub fn resolve(&self, span: Option<TimeRange>, zone: &TimeZone) -> Result<i64, WhenError> {
        let span = || span.ok_or(WhenError::NoSpan);
        match *self {
            When::Absolute(ns) => Ok(ns),
            When::Begin(ns) => Ok(span()?.from.saturating_add(ns)),
            When::End(ns) => Ok(span()?.to.saturating_sub(ns)),
            When::Date(date) => absolute(date, zone),
            When::Time(time) => {
                let span = span()?;
                let begin = Timestamp::from_nanosecond(i128::from(span.from))
                    .map_err(|_| WhenError::NoSpan)?;
                let day = zone.to_datetime(begin).date();
                let same = absolute(day.to_datetime(time), zone)?;
                // The trace goes past midnight, and the time is of the day that begins there.
                match day.tomorrow() {
                    Ok(next) if same < span.from && same.saturating_add(DAY) <= span.to => {
                        absolute(next.to_datetime(time), zone)
                    }
                    _ => Ok(same),
                }
            }
        }
    }
}

fn absolute(date: DateTime, zone: &TimeZone) -> Result<i64, WhenError> {
    let outside = || WhenError::Outside(date.to_string());
    let timestamp = zone.to_ambiguous_timestamp(date).compatible().map_err(|_| outside())?;
    i64::try_from(timestamp.as_nanosecond()).map_err(|_| outside())
}

/// Parses `HH:MM`, `HH:MM:SS` or `HH:MM:SS.nnnnnnnnn`.
fn parse_time(text: &str) -> Option<Time> {
    let mut parts = text.split(':');
    let hour = small(parts.next()?)?;
    let minute = small(parts.next()?)?;
    let (second, ns) = match parts.next() {
        None => (0, 0),
        Some(seconds) => {
            let (second, part) = seconds.split_once('.').unwrap_or((seconds, "0"));
            let ns = decimal(&format!("0.{part}"), 9)?;
            (small(second)?, i32::try_from(ns).ok()?)
        }
    };
    if parts.next().is_some() {
        return None;
    }
    Time::new(hour, minute, second, ns).ok()
}

/// Parses `YYYY-MM-DD`.
fn parse_date(text: &str) -> Option<Date> {
    let mut parts = text.split('-');
    let year = parts.next().filter(|year| year.len() == 4 && decimal(year, 0).is_some())?;
    let (month, day) = (small(parts.next()?)?, small(parts.next()?)?);
    if parts.next().is_some() {
        return None;
    }
    Date::new(year.parse().ok()?, month, day).ok()
}

/// Parses one or two digits.
fn small(text: &str) -> Option<i8> {
    let digits = matches!(text.len(), 1 | 2) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_BEGIN: i64 = 1_700_006_400 * SECOND; // 2023-11-15 00:00 UTC

    fn resolve(text: &str, from: i64, to: i64, zone: &str) -> Result<i64, String> {
        let zone = TimeZone::posix(zone).unwrap();
        let when = When::parse(text).map_err(|error| error.to_string())?;
        when.resolve(Some(TimeRange { from, to }), &zone).map_err(|error| error.to_string())
    }

    #[test]
    fn time_in_every_form_is_nanoseconds_since_1970() {
        let (from, to) = (DAY_BEGIN + 10 * 3600 * SECOND, DAY_BEGIN + 11 * 3600 * SECOND);
        let at = |text| resolve(text, from, to, "UTC0").unwrap();
        assert_eq!(at("@1700000000.5"), 1_700_000_000_500_000_000);
        assert_eq!(at("@-1.25"), -1_250_000_000);
        assert_eq!(at("@7"), 7 * SECOND);
        assert_eq!(at("10:00"), from);
        assert_eq!(at("10:00:01.5"), from + 1_500_000_000);
        assert_eq!(at("10:00:01.123456789"), from + 1_123_456_789);
        assert_eq!(at("2023-11-15"), DAY_BEGIN);
        assert_eq!(at("2023-11-15 10:00:00.000000001"), from + 1);
        assert_eq!(at("2023-11-15T10:00"), from);
        assert_eq!(at("+1.5s"), from + 1_500_000_000);
        assert_eq!(at("+250ms"), from + 250_000_000);
        assert_eq!(at("-2m"), to - 120 * SECOND);
        assert_eq!(resolve("2023-11-15 10:00", from, to, "CET-1"), Ok(from - 3600 * SECOND));
        assert_eq!(resolve("11:00", from, to, "CET-1"), Ok(from));
    }

    #[test]
    fn time_of_day_in_a_trace_over_midnight_is_of_the_next_day() {
        let (from, to) = (DAY_BEGIN - 60 * SECOND, DAY_BEGIN + 600 * SECOND);
        assert_eq!(resolve("00:05", from, to, "UTC0"), Ok(DAY_BEGIN + 300 * SECOND));
        assert_eq!(resolve("23:59:30", from, to, "UTC0"), Ok(DAY_BEGIN - 30 * SECOND));
        // Neither in the trace: of its first day.
        assert_eq!(resolve("12:00", from, to, "UTC0"), Ok(DAY_BEGIN - DAY / 2));
    }

    #[test]
    fn time_that_is_none_says_how_to_write_it() {
        for text in [
            "",
            "now",
            "@",
            "@x",
            "@1.5.5",
            "25:00",
            "12:60",
            "12",
            "1:2:3:4",
            "2023-13-01",
            "2023-02-30",
            "23-01-01",
            "2023-11-15 25:00",
            "2023-11-15 x",
            "12:00:-1",
        ] {
            let error = resolve(text, 0, 1, "UTC0").unwrap_err();
            assert!(error.contains("+1.5s"), "{text}: {error}");
        }
        for text in ["+", "+5x", "-", "-1.2.3", "+99999999999d"] {
            // As every flag says it that takes a length.
            let length = parse_length(&text[1..]).unwrap_err().to_string();
            assert_eq!(resolve(text, 0, 1, "UTC0"), Err(length), "{text}");
        }
        assert!(resolve("@99999999999", 0, 1, "UTC0").unwrap_err().contains("1678"));
        assert!(resolve("9999-01-01", 0, 1, "UTC0").unwrap_err().contains("2261"));
    }

    #[test]
    fn time_of_day_without_a_span_says_what_to_write() {
        let when = When::parse("12:00").unwrap();
        assert_eq!(when.resolve(None, &TimeZone::UTC), Err(WhenError::NoSpan));
        assert_eq!(When::parse("@1").unwrap().resolve(None, &TimeZone::UTC), Ok(SECOND));
    }
}
