//! Flags that select event records, shared by view, stats and export.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{bail, Result};
use clap::builder::NonEmptyStringValueParser;
use clap::{Arg, Args};
use strata_analyze::derived_facts::{may_have, BoundSelection, DerivedFacts, WantedOf};
use strata_analyze::duration_text::parse_length;
use strata_analyze::pipeline;
use strata_analyze::render::{TimeZone, When, WhenError};
use strata_ctf::read::{ClockOffset, OpenError, OpenOptions, Reader, Selection, TimeRange};
use strata_filter::{distance, Filter};

use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::units::{clean, counted};

macro_rules! times {
    () => {
        "\
Times (--from, --until):
  12:00:01.5                on the day of the trace, of --timezone
  '2026-11-22 12:00:01.5'   of --timezone
  @1700000000.5             seconds since 1970
  +1.5s                     since the trace begins
  -1.5s                     before the last event
"
    };
}

/// The part of long help on times, for commands without a filter.
pub const TIMES: &str = times!();

/// The part of long help on times and filters.
pub const SYNTAX: &str = concat!(
    "\
Filter (-f):
  An event's name, or a comparison of a field, joined with '&&', '||',
  '!' and parentheses:
    -f 'sched_switch && next_comm == \"nginx\" || len > 4096'
  A system call by its bare name, and what every record has: comm, pid,
  tid, container, cgroup, cpu, and the duration of calls and spans:
    -f 'comm == \"nginx\" && poll && duration > 50ms'

",
    times!()
);

/// Adds the alias `--to` to `--until`, for commands whose `--to` has no other meaning, unlike that of `strata export`.
pub fn until_or_to(until: Arg) -> Arg {
    until.alias("to").help("Only events up to TIME, as in --from; --to is the same")
}

/// Hides `--filter` from the help of a command that refuses the flag.
pub fn refused(filter: Arg) -> Arg {
    filter.hide(true)
}

/// Flags that select the process or thread.
#[derive(Debug, Args)]
pub struct OfFlags {
    /// Only of this process or thread, by name or number, as record -p has it
    #[arg(long, value_name = "NAME|NUMBER", value_parser = NonEmptyStringValueParser::new())]
    of: Option<String>,
}

impl OfFlags {
    /// Returns the value of `--of`.
    pub fn words(&self) -> Option<&str> {
        self.of.as_deref()
    }

    /// Returns the wanted processes and threads, for the records that they made themselves.
    pub fn made_by(&self) -> Option<WantedOf<'_>> {
        self.words().map(|words| WantedOf { words, also_about: false })
    }

    /// Returns the wanted processes and threads, including records about them that others made.
    pub fn made_by_or_about(&self) -> Option<WantedOf<'_>> {
        self.words().map(|words| WantedOf { words, also_about: true })
    }

    /// Returns the message for an empty result; `otherwise` is the message if `--of` was not given.
    pub fn nothing<'n>(&self, selection: &SelectionFlags, otherwise: &'n str) -> &'n str {
        match (self.of.is_some(), selection.is_any()) {
            (false, _) => otherwise,
            (true, false) => "no event belongs to what --of names",
            (true, true) => "no event of what --of names matches the other flags",
        }
    }
}

/// Limit on the names of processes that are suggested.
const NAMES_SHOWN: usize = 8;

/// Returns the error for a value of `--of` that no process or thread has, with similar names.
fn of_nobody(words: &str, facts: &DerivedFacts) -> String {
    let all = facts.processes();
    let words = clean(words);
    let mut near: Vec<(usize, &String)> = all
        .iter()
        .map(|name| (distance(&words.to_lowercase(), &name.to_lowercase()), name))
        .collect();
    near.sort();
    let near: Vec<String> =
        near.iter().take(NAMES_SHOWN).map(|(_, name)| format!("'{}'", clean(name))).collect();
    let there = match (near.is_empty(), all.len().saturating_sub(NAMES_SHOWN)) {
        (true, _) => "The traces name no process".to_owned(),
        (false, 0) => format!("The processes there are {}", near.join(", ")),
        (false, others) => format!(
            "Of the processes there, the most similar are {}; `strata analyze threads --by process` has all {}",
            near.join(", "),
            others + NAMES_SHOWN
        ),
    };
    format!(
        "--of '{words}': no process and no thread of the traces has this name or number. {there}"
    )
}

/// Flags that select event records.
#[derive(Debug, Args)]
pub struct SelectionFlags {
    /// Only events that EXPRESSION selects, such as 'sched_switch && next_comm == "nginx"'
    #[arg(short, long, value_name = "EXPRESSION", value_parser = parse_filter)]
    filter: Option<Filter>,

    /// Only events from TIME on: 12:00:01.5, '2026-11-22 12:00', @SECONDS since 1970, +1.5s since
    /// the trace begins, -1.5s before the last event
    #[arg(long, value_name = "TIME", value_parser = When::parse, allow_hyphen_values = true)]
    from: Option<When>,

    /// Only events up to TIME, as in --from
    #[arg(long, value_name = "TIME", value_parser = When::parse, allow_hyphen_values = true)]
    until: Option<When>,

    /// Only events of the last LENGTH of time up to the last event, such as 500ms, 10s, 2m
    #[arg(long, value_name = "LENGTH", value_parser = parse_length, conflicts_with = "from")]
    last: Option<i64>,

    /// Time zone of all times of day, shown and given: local ($TZ), utc, or a name such as Europe/Berlin
    #[arg(long, value_name = "ZONE", value_parser = parse_zone, default_value = "local")]
    timezone: TimeZone,

    /// Read packets whose UUID is not that of the trace's metadata, too
    #[arg(long)]
    ignore_uuid: bool,

    /// Of each trace, only what is in the time in which all of its streams are active
    #[arg(long)]
    stream_intersection: bool,

    /// Add TIME to all times, or to those of one TRACE (its name or folder): -1.5 (seconds), 20ms; may
    /// be repeated
    #[arg(long, value_name = "[TRACE=]TIME", value_parser = parse_offset, allow_hyphen_values = true)]
    clock_offset: Vec<ClockOffset>,

    /// The same in nanoseconds
    #[arg(long, value_name = "[TRACE=]NS", value_parser = parse_offset_ns, allow_hyphen_values = true)]
    clock_offset_ns: Vec<ClockOffset>,
}

impl SelectionFlags {
    /// Opens the traces as the flags demand.
    pub fn open(&self, traces: &[PathBuf]) -> Result<Reader, OpenError> {
        let mut reader = Reader::open_with(traces, self.open_options())?;
        if self.stream_intersection {
            reader.intersect_streams()?;
        }
        Ok(reader)
    }

    /// Returns the options for opening the traces.
    pub fn open_options(&self) -> OpenOptions {
        let clock_offsets =
            self.clock_offset.iter().chain(&self.clock_offset_ns).cloned().collect();
        OpenOptions { ignore_uuid: self.ignore_uuid, clock_offsets }
    }

    pub fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    /// Compiles the selection of records within `range`. If the filter uses arguments that follow their call's entry,
    /// or facts that records do not have themselves, the traces are first read for these. `of` restricts the selection
    /// to processes and threads. Returns `None` if all records are selected.
    pub fn bound(
        &self,
        reader: &Reader,
        range: TimeRange,
        of: Option<WantedOf<'_>>,
        stop: &dyn Fn() -> bool,
    ) -> Option<Selection> {
        if self.filter().is_none() && of.is_none() {
            return None;
        }
        let bound = BoundSelection::read(reader, self.filter(), of, range, stop);
        let Some(BoundSelection { selection, facts }) = bound else {
            // The reading was stopped: no result will be shown.
            let nothing = Arc::new(DerivedFacts::default());
            return Some(Selection::all().with_derived(nothing, true));
        };
        let left_out = selection.deferred_left_out();
        if left_out > 0 {
            let text = format!(
                "filter: {} came in a record behind the entry, and there are more such records than are \
                 kept: the filter has not seen these. Give a shorter time with --from and --until",
                counted(left_out, "argument of a system call")
            );
            stderr::message(&Message { weight: Weight::Warning, text });
        }
        let Some(facts) = facts else { return Some(selection) };
        if facts.left_out() > 0 {
            let text = format!(
                "filter: {} could not be kept of who made records and how long calls and spans took: there are too many, \
                 and the filter does not select those records. Give a shorter time, or a longer duration",
                counted(facts.left_out(), "fact")
            );
            stderr::message(&Message { weight: Weight::Warning, text });
        }
        if let Some(of) = of.filter(|_| !facts.has_wanted()) {
            let text = of_nobody(of.words, &facts);
            stderr::message(&Message { weight: Weight::Warning, text });
        }
        Some(selection)
    }

    /// Returns true if times are shifted from those in the trace.
    pub fn has_clock_offset(&self) -> bool {
        !self.clock_offset.is_empty() || !self.clock_offset_ns.is_empty()
    }

    /// Returns true if the flags exclude any records.
    pub fn is_any(&self) -> bool {
        self.filter.is_some() || self.has_time()
    }

    fn has_time(&self) -> bool {
        self.has_range() || self.stream_intersection
    }

    /// Returns true if only the time in which all streams of a trace are active is selected.
    pub fn has_stream_intersection(&self) -> bool {
        self.stream_intersection
    }

    fn has_range(&self) -> bool {
        self.from.is_some() || self.until.is_some() || self.last.is_some()
    }

    /// Time zone of all times of day, both in flags and in the output.
    pub fn zone(&self) -> &TimeZone {
        &self.timezone
    }

    /// Returns the time range that the flags select.
    pub fn range(&self, reader: &Reader) -> Result<TimeRange> {
        if !self.has_range() {
            return Ok(TimeRange::ALL);
        }
        let is_from_end = |when: &Option<When>| matches!(when, Some(When::End(_)));
        if self.last.is_some() || is_from_end(&self.from) || is_from_end(&self.until) {
            return self.range_in(pipeline::span_of_records(reader));
        }
        self.range_in(pipeline::span(reader))
    }

    fn range_in(&self, span: Option<TimeRange>) -> Result<TimeRange> {
        let (mut range, zone) = (TimeRange::ALL, &self.timezone);
        if let Some(until) = &self.until {
            range.to = until.resolve(span, zone)?;
        }
        if let Some(from) = &self.from {
            range.from = from.resolve(span, zone)?;
        }
        if let Some(length) = self.last {
            let end = span.ok_or(WhenError::NoSpan)?.to.min(range.to);
            range.from = end.saturating_sub(length);
        }
        if range.from > range.to {
            bail!("--from is later than --until, so no event can be between them. Exchange them");
        }
        Ok(range)
    }

    /// Returns hints on parts of the filter that can match nothing in these traces, each with its position in the text.
    pub fn hints(&self, reader: &Reader) -> Vec<String> {
        let check = |filter| Selection::check(filter, reader, &may_have);
        let hints = self.filter.as_ref().map(check);
        hints.into_iter().flatten().map(|hint| format!("{hint}\n{}", hint.caret())).collect()
    }

    /// Returns the message for an empty result.
    pub fn nothing(&self) -> &'static str {
        match (self.filter.is_some(), self.has_time()) {
            (false, false) => "there is no event in it",
            (true, false) => "no event matches the filter",
            (false, true) => {
                "no event in this time. `strata stats` without a time says from when to when there \
                 are"
            }
            (true, true) => "no event in this time matches the filter",
        }
    }
}

/// Parses a filter; the error shows the position in the text.
pub fn parse_filter(text: &str) -> Result<Filter, String> {
    Filter::parse(text).map_err(|error| format!("{error}\n{}", error.caret()))
}

/// Parses a time zone: `local`, `utc`, or a name in the time zone database.
fn parse_zone(text: &str) -> Result<TimeZone, String> {
    match text.to_ascii_lowercase().as_str() {
        "local" => Ok(crate::time_zone::local()),
        "utc" => Ok(TimeZone::UTC),
        _ => TimeZone::get(text).map_err(|_| {
            format!(
                "'{text}' is no time zone; write local, utc, or a name that this machine's time zone \
                 database (tzdata) has, such as Europe/Berlin"
            )
        }),
    }
}

/// Parses `[TRACE=]TIME`; the time may have a sign.
fn parse_offset(text: &str) -> Result<ClockOffset, String> {
    offset(text, &|time| parse_length(time).map(i128::from).map_err(|error| error.to_string()))
}

/// Parses `[TRACE=]NS`.
fn parse_offset_ns(text: &str) -> Result<ClockOffset, String> {
    let nanoseconds = |time: &str| {
        let ns = time.parse::<u64>().map(i128::from);
        ns.map_err(|_| {
            format!("'{time}' is no number of nanoseconds; write it such as -1500 or TRACE=20")
        })
    };
    offset(text, &nanoseconds)
}

fn offset(
    text: &str,
    length: &dyn Fn(&str) -> Result<i128, String>,
) -> Result<ClockOffset, String> {
    let (trace, time) = match text.rsplit_once('=') {
        Some((trace, time)) => (Some(trace.to_owned()).filter(|trace| !trace.is_empty()), time),
        None => (None, text),
    };
    let (sign, time) = match time.strip_prefix('-') {
        Some(time) => (-1, time),
        None => (1, time.strip_prefix('+').unwrap_or(time)),
    };
    Ok(ClockOffset { trace, nanoseconds: sign * length(time)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Flags;
    use clap::{FromArgMatches as _, Parser as _};

    const SECOND: i64 = 1_000_000_000;

    fn selection(command: &str, arguments: &[&str]) -> Result<SelectionFlags, String> {
        let format: &[&str] = if command == "export" { &["--to", "csv"] } else { &[] };
        let all = [&["strata", command], format, arguments, &["trace"]].concat();
        Flags::try_parse_from(&all).map_err(|error| error.to_string())?;
        let matches = <Flags as clap::CommandFactory>::command().get_matches_from(&all);
        let (_, matches) = matches.subcommand().ok_or("no command")?;
        SelectionFlags::from_arg_matches(matches).map_err(|error| error.to_string())
    }

    fn range(arguments: &[&str]) -> Result<(i64, i64), String> {
        let span = Some(TimeRange { from: 100 * SECOND, to: 200 * SECOND });
        let flags = selection("view", arguments)?;
        let range = flags.range_in(span).map_err(|error| error.to_string())?;
        Ok((range.from / SECOND, range.to / SECOND))
    }

    #[test]
    fn selection_flags_are_the_same_in_view_stats_and_export() {
        for command in ["view", "stats", "export"] {
            let flags = selection(command, &["-f", "a", "--from", "-1.5s", "--until", "-500ms"]);
            let flags = flags.unwrap();
            assert_eq!(flags.from, Some(When::End(3 * SECOND / 2)), "{command}");
            assert_eq!(flags.until, Some(When::End(SECOND / 2)), "{command}");
            assert!(flags.filter.is_some());
            assert_eq!(selection(command, &["--last", "2m"]).unwrap().last, Some(120 * SECOND));
            for (arguments, part) in [
                (&["-f", "a =="][..], "^"),
                (&["--from", "noon"], "+1.5s"),
                (&["--until", "noon"], "+1.5s"),
                (&["--last", "soon"], "500ms"),
                (&["--last", "5s", "--from", "+1s"], "--from"),
            ] {
                let text = selection(command, arguments).unwrap_err();
                assert!(text.contains(part), "{command} {arguments:?}: {text}");
            }
        }
        for command in ["view", "stats"] {
            let flags = selection(command, &["--to", "+1s"]).unwrap();
            assert_eq!(flags.until, Some(When::Begin(SECOND)), "{command}");
        }
    }

    #[test]
    fn range_is_of_the_flags_and_of_the_trace_s_time() {
        assert_eq!(range(&["--from=+10s", "--until=-10s"]), Ok((110, 190)));
        assert_eq!(range(&["--last=10s"]), Ok((190, i64::MAX / SECOND)));
        assert_eq!(range(&["--last=10s", "--until=+50s"]), Ok((140, 150)));
        assert_eq!(range(&["--until=@120"]), Ok((i64::MIN / SECOND, 120)));
    }

    #[test]
    fn time_zone_is_that_of_times_given_and_none_that_is_not_known() {
        for command in ["view", "stats", "export"] {
            assert_eq!(selection(command, &[]).unwrap().zone(), &TimeZone::system());
            assert_eq!(selection(command, &["--timezone=UTC"]).unwrap().zone(), &TimeZone::UTC);
            for text in ["moon", "", "../../etc/passwd", "/etc/localtime"] {
                let zone = format!("--timezone={text}");
                let error = selection(command, &[&zone]).unwrap_err();
                assert!(error.contains("Europe/Berlin") && error.contains("utc"), "{error}");
            }
        }
        let until = |zone: &str| range(&["--timezone", zone, "--until=1970-01-01 00:03"]);
        assert_eq!(until("utc"), Ok((i64::MIN / SECOND, 180)));
        // Where there is no database, there are no names.
        if TimeZone::get("Asia/Kolkata").is_ok() {
            assert_eq!(until("Asia/Kolkata"), Ok((i64::MIN / SECOND, 180 - 19_800)));
        }
    }

    #[test]
    fn clock_offsets_are_of_one_trace_or_of_all() {
        let offset = |text: &str| parse_offset(text).map(|it| (it.trace, it.nanoseconds));
        assert_eq!(offset("10"), Ok((None, 10_000_000_000)));
        assert_eq!(offset("-1.5"), Ok((None, -1_500_000_000)));
        assert_eq!(offset("+20ms"), Ok((None, 20_000_000)));
        assert_eq!(offset("a=b/c=-3"), Ok((Some("a=b/c".into()), -3_000_000_000)));
        assert_eq!(parse_offset_ns("t=-7").unwrap().nanoseconds, -7);
        for text in ["", "x", "t=", "1.5.5", "--1", "-"] {
            assert!(offset(text).is_err() && parse_offset_ns(text).is_err(), "{text}");
        }
        assert!(parse_offset_ns("1.5").is_err());
    }

    #[test]
    fn range_that_ends_before_it_begins_is_refused() {
        let text = range(&["--from=+10s", "--until=+5s"]).unwrap_err();
        assert!(text.contains("--from") && text.contains("--until"), "{text}");
    }

    #[test]
    fn last_of_a_trace_without_times_says_what_is_missing() {
        let flags = selection("view", &["--last", "5s"]).unwrap();
        let text = flags.range_in(None).unwrap_err().to_string();
        assert!(text.contains("no event of the trace has a time"), "{text}");
    }
}
