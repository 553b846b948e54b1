//! `strata top`: how the sessions that run by themselves do, again and again: rates since the last look, what they
//! hold, what is missing. Each look is one request to each session; nothing is asked of whom they record.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{json, Map, Value};

use crate::sessions::facts::{objects, text};
use crate::sessions::statuses;
use crate::talk::units::{clean, count, rate, size, time};

/// Shorter than this, the rates are those of single packets.
const PERIOD_MIN: Duration = Duration::from_millis(100);

/// What is looked at, and how.
pub struct Look<'a> {
    /// `None`: all of this user.
    pub name: Option<&'a str>,
    /// Between two looks.
    pub period: Duration,
    /// How often; `None`: until somebody ends it.
    pub times: Option<u64>,
    pub is_json: bool,
}

/// A session or a channel of it, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
struct TopFigures {
    records: u64,
    bytes: u64,
    discarded: u64,
    overwritten: u64,
}

/// What became of [`TopFigures`] within a time, per second.
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

    /// A flight recorder holds fewer records now and then: what was overwritten was recorded, too.
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

/// A session's, or a channel's: the session's name, its process, and of a channel its layer and name.
type TopKey = (String, u64, String);

/// Sessions and their channels as they were at the last look.
#[derive(Default)]
struct LastLook {
    at: Option<Instant>,
    all: BTreeMap<TopKey, TopFigures>,
}

/// Of one session.
#[derive(Clone, Debug, Default, PartialEq)]
struct SessionRates {
    session: Option<Rates>,
    channels: Vec<Option<Rates>>,
}

impl LastLook {
    /// The rates since the last look, which this one takes the place of; at the first look none.
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
            // Another session of the same name has another process.
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

/// `user channel0`.
fn channel_name(channel: &Map<String, Value>) -> String {
    format!("{} {}", text(channel, "layer"), text(channel, "channel"))
}

/// `strata top`. Status 1: there was no session at the end.
pub fn run(look: &Look<'_>) -> Result<u8> {
    let is_drawn = io::stdout().is_terminal() && !look.is_json;
    let period = look.period.max(PERIOD_MIN);
    let mut seen = LastLook::default();
    let mut left = look.times;
    loop {
        let all = statuses(look.name)?;
        let rates = seen.rates(&all, Instant::now());
        let is_first = left == look.times;
        let out = match look.is_json {
            true => format!("{}\n", as_json(&all, &rates)),
            false => table(&all, &rates),
        };
        show(&out, is_drawn, is_first)?;
        left = left.map(|left| left.saturating_sub(1));
        if left == Some(0) {
            return Ok(u8::from(all.is_empty()));
        }
        thread::sleep(period);
    }
}

/// On a terminal in the place of the last one, else one behind the other.
fn show(text: &str, is_drawn: bool, is_first: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if is_drawn {
        out.write_all(if is_first { b"\x1b[2J\x1b[H" } else { b"\x1b[H" })?;
        for line in text.lines() {
            write!(out, "{line}\x1b[K\r\n")?;
        }
        out.write_all(b"\x1b[J")?;
    } else {
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

fn table(all: &[Map<String, Value>], grown: &[SessionRates]) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = writeln!(
        out,
        "{:<24} {:<10} {:>10} {:>9} {:>9} {:>10} {:>5} {:>11} {:>12} {:>12}",
        "session, channel",
        "state",
        "for",
        "processes",
        "records/s",
        "bytes/s",
        "fill",
        "discarded/s",
        "discarded",
        "overwritten"
    );
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
        row(&mut out, (&clean(text(facts, "name")), &about), facts, (fill, &grown.session));
        for (channel, rates) in objects(facts, "channels").zip(&grown.channels) {
            let state = match channel.get("enabled").and_then(Value::as_bool) {
                Some(false) => "disabled",
                _ if channel.get("is_made").and_then(Value::as_bool) == Some(false) => "planned",
                _ => "",
            };
            let about = [state.to_owned(), String::new(), String::new()];
            let name = format!("  {}", clean(&channel_name(channel)));
            row(&mut out, (&name, &about), channel, (fill_of(channel), rates));
        }
    }
    if all.is_empty() {
        out.push_str("no session runs. `strata create NAME` makes one\n");
    }
    out
}

/// How full its fullest buffer is \[%\].
fn fill_of(channel: &Map<String, Value>) -> Option<u64> {
    channel.get("fill").and_then(Value::as_u64)
}

/// What is said of a session alone is blank of a channel.
fn row(
    out: &mut String,
    (name, [state, seconds, processes]): (&str, &[String; 3]),
    facts: &Map<String, Value>,
    (fill, rates): (Option<u64>, &Option<Rates>),
) {
    let none = || "-".to_owned();
    let per_second = |of: fn(&Rates) -> f64| rates.as_ref().map_or_else(none, |it| rate(of(it)));
    let bytes = rates.as_ref().map_or_else(none, |it| size(it.bytes as u64));
    let fill = fill.map_or_else(none, |percent| format!("{percent} %"));
    let figures = TopFigures::of(facts);
    let _ = writeln!(
        out,
        "{name:<24} {state:<10} {seconds:>10} {processes:>9} {:>9} {bytes:>10} {fill:>5} {:>11} {:>12} {:>12}",
        per_second(|it| it.records),
        per_second(|it| it.discarded),
        count(figures.discarded),
        count(figures.overwritten),
    );
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
                { "layer": "user", "channel": "channel0", "enabled": true, "is_made": true, "fill": 37,
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
        let mut seen = LastLook::default();
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
    fn table_has_a_row_for_each_session_and_json_its_facts_and_rates() {
        let all = [session("a\x1b[2J", 1, 1_234_567, 0)];
        let rates = Some(Rates { records: 12_345.0, ..Rates::default() });
        let rates = [SessionRates { session: rates.clone(), channels: vec![rates, None] }];
        let text = table(&all, &rates);
        assert!(
            text.contains("a\\u{1b}[2J") && text.contains("12.3 k") && text.contains("1 min 01 s"),
            "{text}"
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        for (line, words) in [
            (lines[1], ["recording", "37 %"]),
            (lines[2], ["  user channel0", "37 %"]),
            (lines[3], ["  kernel big\\u{1b}", "disabled"]),
        ] {
            assert!(words.iter().all(|word| line.contains(word)), "{line}");
        }
        assert!(table(&[], &[]).contains("no session"));
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
