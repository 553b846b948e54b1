//! The command `strata top`: shows the state of sessions repeatedly, with rates since the last look. Each look is one
//! request to each session; recorded programs are not involved.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{json, Map, Value};

use crate::sessions::status_fields::{history, objects, text};
use crate::sessions::statuses;
use crate::stdout;
use crate::units::{clean, count, rate, size, time};

/// Shortest time between two looks: in a shorter time, rates would be those of single packets.
const PERIOD_MIN: Duration = Duration::from_millis(100);

/// Options of `strata top`.
pub struct TopOptions<'a> {
    /// Name of the session; `None` for all sessions of this user.
    pub name: Option<&'a str>,
    /// Time between two looks.
    pub period: Duration,
    /// Number of looks; `None` to continue until a signal arrives.
    pub times: Option<u64>,
    pub is_json: bool,
}

/// Counters of a session, or of one of its channels, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
struct TopFigures {
    records: u64,
    bytes: u64,
    discarded: u64,
    overwritten: u64,
}

/// Changes of [`TopFigures`] per second.
#[derive(Clone, Debug, Default, PartialEq)]
struct Rates {
    records: f64,
    bytes: f64,
    discarded: f64,
    overwritten: f64,
}

impl TopFigures {
    fn of(facts: &Map<String, Value>) -> TopFigures {
        let number = |key| facts.get(key).and_then(Value::as_u64).unwrap_or(0);
        TopFigures {
            records: number("records"),
            bytes: number("bytes"),
            discarded: number("discarded"),
            overwritten: number("overwritten"),
        }
    }

    /// Returns the rates between two looks. Overwritten records count as recorded, since a flight recorder can hold
    /// fewer records than before.
    fn since(&self, before: &TopFigures, elapsed: Duration) -> Rates {
        let seconds = elapsed.as_secs_f64().max(1e-3);
        let grown = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        let recorded = |one: &TopFigures| one.records.saturating_add(one.overwritten);
        Rates {
            records: grown(recorded(self), recorded(before)),
            bytes: grown(self.bytes, before.bytes),
            discarded: grown(self.discarded, before.discarded),
            overwritten: grown(self.overwritten, before.overwritten),
        }
    }
}

/// Identifies a session or a channel: the session's name, its process id, and the layer and name of the channel.
type TopKey = (String, u64, String);

/// Counters of sessions and their channels at the last look.
#[derive(Default)]
struct LastStatus {
    at: Option<Instant>,
    all: BTreeMap<TopKey, TopFigures>,
}

/// Rates of one session and of its channels.
#[derive(Clone, Debug, Default, PartialEq)]
struct SessionRates {
    session: Option<Rates>,
    channels: Vec<Option<Rates>>,
}

impl LastStatus {
    /// Returns the rates since the last look, and keeps the present counters for the next one. There are no rates at
    /// the first look.
    fn rates(&mut self, all: &[Map<String, Value>], now: Instant) -> Vec<SessionRates> {
        let elapsed = self.at.map(|before| now.saturating_duration_since(before));
        let mut seen = BTreeMap::new();
        let mut since = |key: TopKey, facts: &Map<String, Value>| {
            let figures = TopFigures::of(facts);
            let before = elapsed.zip(self.all.get(&key));
            let rates = before.map(|(elapsed, before)| figures.since(before, elapsed));
            seen.insert(key, figures);
            rates
        };
        let mut rates = Vec::with_capacity(all.len());
        for facts in all {
            // Another session of the same name has another process id.
            let pid = facts.get("pid").and_then(Value::as_u64).unwrap_or(0);
            let name = text(facts, "name");
            let session = since((name.to_owned(), pid, String::new()), facts);
            let of_channel = |one| since((name.to_owned(), pid, channel_name(one)), one);
            rates.push(SessionRates {
                session,
                channels: objects(facts, "channels").map(of_channel).collect(),
            });
        }
        (self.at, self.all) = (Some(now), seen);
        rates
    }
}

/// Returns a channel's name with its layer: `user channel0`.
fn channel_name(channel: &Map<String, Value>) -> String {
    format!("{} {}", text(channel, "layer"), text(channel, "channel"))
}

/// Runs `strata top`. Returns 1 if there was no session at the last look.
pub fn run(options: &TopOptions<'_>) -> Result<u8> {
    let is_drawn = stdout::is_terminal() && !options.is_json;
    let period = options.period.max(PERIOD_MIN);
    let mut seen = LastStatus::default();
    let mut left = options.times;
    loop {
        let all = statuses(options.name)?;
        let rates = seen.rates(&all, Instant::now());
        let is_first = left == options.times;
        match options.is_json {
            true => stdout::json("top", &as_json(&all, &rates))?,
            false => {
                let columns = stdout::terminal_columns().filter(|_| stdout::is_terminal());
                show(&table(&all, &rates, columns.unwrap_or(usize::MAX - 1)), is_drawn, is_first)?;
            }
        }
        left = left.map(|left| left.saturating_sub(1));
        if left == Some(0) {
            return Ok(u8::from(all.is_empty()));
        }
        thread::sleep(period);
    }
}

/// Writes a table: on a terminal in the place of the last one, otherwise after it.
fn show(text: &str, is_drawn: bool, is_first: bool) -> io::Result<()> {
    let text = strata_text::clean_lines(text);
    let mut out = stdout::raw();
    if is_drawn {
        out.write_all(if is_first { b"\x1b[2J\x1b[H" } else { b"\x1b[H" })?;
        // A wrapped line would push the others off the screen.
        let columns = stdout::terminal_columns().unwrap_or(usize::MAX);
        for line in text.lines() {
            let line: String = line.chars().take(columns).collect();
            write!(out, "{line}\x1b[K\r\n")?;
        }
        out.write_all(b"\x1b[J")?;
    } else {
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Columns of the table: header, width, and rank. A narrow terminal leaves out rank 1 first; rank 0 is never left out.
const COLUMNS: [(&str, usize, u8); 11] = [
    ("session, channel", 22, 0),
    ("state", 9, 0),
    ("for", 10, 3),
    ("programs", 8, 4),
    ("records/s", 9, 0),
    ("bytes/s", 9, 0),
    ("fill", 5, 0),
    ("history", 9, 0),
    ("discarded/s", 11, 2),
    ("discarded", 10, 0),
    ("overwritten", 12, 1),
];

/// Number of columns that are aligned to the left; numbers are aligned to the right.
const LEFT: usize = 2;

/// Returns which columns fit a terminal of this width.
fn fitting(columns: usize) -> [bool; COLUMNS.len()] {
    let mut is_shown = [true; COLUMNS.len()];
    for rank in 1..=4 {
        let shown = COLUMNS.iter().zip(is_shown).filter(|(_, is_shown)| *is_shown);
        if shown.map(|((_, width, _), _)| width + 1).sum::<usize>() <= columns + 1 {
            break;
        }
        for ((_, _, of), is_shown) in COLUMNS.iter().zip(&mut is_shown) {
            *is_shown &= *of != rank;
        }
    }
    is_shown
}

/// One line of the table.
type Row = [String; COLUMNS.len()];

fn line(out: &mut String, row: &Row, is_shown: &[bool; COLUMNS.len()]) {
    let mut between = "";
    for (index, ((text, (_, width, _)), _)) in
        row.iter().zip(&COLUMNS).zip(is_shown).enumerate().filter(|(_, (_, is_shown))| **is_shown)
    {
        // Writing to a String cannot fail.
        let _ = match index < LEFT {
            true => write!(out, "{between}{text:<width$}"),
            false => write!(out, "{between}{text:>width$}"),
        };
        between = " ";
    }
    out.push('\n');
}

fn table(all: &[Map<String, Value>], grown: &[SessionRates], columns: usize) -> String {
    let mut out = String::new();
    let is_shown = fitting(columns);
    line(&mut out, &COLUMNS.map(|(header, ..)| header.to_owned()), &is_shown);
    let none = || "-".to_owned();
    for (facts, grown) in all.iter().zip(grown) {
        let seconds = facts.get("seconds").and_then(Value::as_f64).unwrap_or(0.0);
        let processes = facts.get("processes").and_then(Value::as_u64);
        let about = [
            clean(text(facts, "state")),
            time(Duration::from_secs_f64(seconds.clamp(0.0, 1e9))),
            processes.map_or_else(none, count),
        ];
        let fill = objects(facts, "channels").filter_map(fill_of).max();
        let of_session = row(clean(text(facts, "name")), about, facts, (fill, &grown.session));
        line(&mut out, &of_session, &is_shown);
        for (channel, rates) in objects(facts, "channels").zip(&grown.channels) {
            let state = match channel.get("enabled").and_then(Value::as_bool) {
                Some(false) => "disabled",
                _ if channel.get("is_made").and_then(Value::as_bool) == Some(false) => "planned",
                _ => "",
            };
            let about = [state.to_owned(), String::new(), String::new()];
            let name = format!("  {}", clean(&channel_name(channel)));
            line(&mut out, &row(name, about, channel, (fill_of(channel), rates)), &is_shown);
        }
    }
    if all.is_empty() {
        out.push_str("no session runs. `strata create NAME` makes one\n");
    }
    out
}

/// Returns how full the channel's fullest buffer is \[%\].
fn fill_of(channel: &Map<String, Value>) -> Option<u64> {
    channel.get("fill").and_then(Value::as_u64)
}

/// Writes a row. Columns that only a session has are blank for a channel.
fn row(
    name: String,
    [state, seconds, processes]: [String; 3],
    facts: &Map<String, Value>,
    (fill, rates): (Option<u64>, &Option<Rates>),
) -> Row {
    let none = || "-".to_owned();
    let per_second = |of: fn(&Rates) -> f64| rates.as_ref().map_or_else(none, |it| rate(of(it)));
    let figures = TopFigures::of(facts);
    [
        name,
        state,
        seconds,
        processes,
        per_second(|it| it.records),
        rates.as_ref().map_or_else(none, |it| size(it.bytes as u64)),
        fill.map_or_else(none, |percent| format!("{percent} %")),
        history(facts).unwrap_or_else(none),
        per_second(|it| it.discarded),
        count(figures.discarded),
        count(figures.overwritten),
    ]
}

fn as_json(all: &[Map<String, Value>], grown: &[SessionRates]) -> Value {
    let per_second = |rates: &Option<Rates>| {
        let of = |it: &Rates| {
            json!({
                "records": it.records, "bytes": it.bytes,
                "discarded": it.discarded, "overwritten": it.overwritten,
            })
        };
        rates.as_ref().map_or(Value::Null, of)
    };
    let sessions = all.iter().zip(grown).map(|(facts, grown)| {
        let mut facts = facts.clone();
        facts.insert("per_second".into(), per_second(&grown.session));
        let channels = facts.get_mut("channels").and_then(Value::as_array_mut);
        let objects = channels.into_iter().flatten().filter_map(Value::as_object_mut);
        for (channel, rates) in objects.zip(&grown.channels) {
            channel.insert("per_second".into(), per_second(rates));
        }
        Value::Object(facts)
    });
    json!({ "sessions": sessions.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(name: &str, pid: u64, records: u64, overwritten: u64) -> Map<String, Value> {
        let facts = json!({
            "name": name, "pid": pid, "state": "recording", "seconds": 61.0, "processes": 2,
            "records": records, "bytes": records * 16, "discarded": 0, "overwritten": overwritten,
            "channels": [
                { "layer": "user", "channel": "channel0", "enabled": true, "is_made": true, "fill": 37, "history_seconds": 12.34,
                    "records": records / 2, "bytes": records * 8, "discarded": 0, "overwritten": overwritten },
                { "layer": "kernel", "channel": "big\u{1b}", "enabled": false, "is_made": false, "fill": null },
                7,
            ],
        });
        let Value::Object(facts) = facts else { unreachable!() };
        facts
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks_at_the_same_process() {
        let mut seen = LastStatus::default();
        let begin = Instant::now();
        let none = SessionRates { session: None, channels: vec![None, None] };
        assert_eq!(seen.rates(&[session("a", 1, 100, 0)], begin)[0], none);
        let two = [session("a", 1, 300, 0), session("b", 2, 7, 0)];
        let rates = seen.rates(&two, begin + Duration::from_secs(2));
        let of = |rates: &Option<Rates>| rates.as_ref().map(|it| (it.records, it.bytes));
        assert_eq!(of(&rates[0].session), Some((100.0, 1600.0)));
        let channels: Vec<_> = rates[0].channels.iter().map(of).collect();
        assert_eq!(channels, [Some((50.0, 800.0)), Some((0.0, 0.0))]);
        assert_eq!(rates[1], none);
        // The same name, and another process: nothing is known of its past.
        let rates = seen.rates(&[session("a", 3, 400, 0)], begin + Duration::from_secs(3));
        assert_eq!(rates[0], none);
    }

    #[test]
    fn rate_of_a_flight_recorder_is_what_was_recorded_not_what_is_held() {
        let (before, now) = (
            TopFigures::of(&session("a", 1, 500, 1000)),
            TopFigures::of(&session("a", 1, 400, 2100)),
        );
        let rates = now.since(&before, Duration::from_secs(1));
        assert_eq!((rates.records, rates.overwritten), (1000.0, 1100.0));
    }

    #[test]
    fn table_fits_a_terminal_of_80_columns_by_leaving_columns_out() {
        let all = [session("a", 1, 1_234_567, 12_345_678)];
        let rates = [SessionRates { session: Some(Rates::default()), channels: vec![None, None] }];
        for columns in [80, 100, 120, 200] {
            let text = table(&all, &rates, columns);
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= columns, "{columns}: {longest}\n{text}");
            assert!(text.contains("history") && text.contains("records/s"), "{text}");
            assert_eq!(text.contains("12,345,678"), columns >= 130, "{columns}\n{text}");
        }
    }

    #[test]
    fn table_has_a_row_for_each_session_and_json_its_facts_and_rates() {
        let all = [session("a\x1b[2J", 1, 1_234_567, 0)];
        let rates = Some(Rates { records: 12_345.0, ..Rates::default() });
        let rates = [SessionRates { session: rates.clone(), channels: vec![rates, None] }];
        let text = table(&all, &rates, 200);
        assert!(
            text.contains("a\\u{1b}[2J") && text.contains("12.3 k") && text.contains("1 min 01 s"),
            "{text}"
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        for (line, words) in [
            (lines[1], ["recording", "37 %"]),
            (lines[2], ["  user channel0", "12 s"]),
            (lines[3], ["  kernel big\\u{1b}", "disabled"]),
        ] {
            assert!(words.iter().all(|word| line.contains(word)), "{line}");
        }
        assert!(table(&[], &[], 80).contains("no session"));
        let json = as_json(&all, &rates);
        assert_eq!(json["sessions"][0]["per_second"]["records"], 12_345.0);
        assert_eq!(json["sessions"][0]["records"], 1_234_567);
        let channels = &json["sessions"][0]["channels"];
        assert_eq!(channels[0]["per_second"]["records"], 12_345.0);
        assert_eq!((&channels[1]["per_second"], &channels[2]), (&Value::Null, &json!(7)));
        let none = as_json(&all, &[SessionRates::default()]);
        assert_eq!(none["sessions"][0]["per_second"], Value::Null);
    }
}
