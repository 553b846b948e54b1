//! The command `strata emit`: one event of a shell script, recorded by the sessions that run.

use std::time::{Duration, Instant};

use anyhow::{anyhow, Context as _, Result};
use clap::Args;
use strata_analyze::duration_text::parse_duration;
use strata_events::{availability, load_library, Class, Event, FieldType, Level, Provider, Words};
use strata_session::preload;

use crate::stderr;

/// Provider of an event whose name has none.
const PROVIDER: &str = "shell";

/// Exit status if nobody records the event.
const NOT_RECORDED: u8 = 1;

/// Time between two looks whether somebody records the event.
const LOOK: Duration = Duration::from_millis(1);

/// Names of the levels, in the order of [`Level`].
const LEVELS: [(&str, Level); 9] = [
    ("emerg", Level::Emerg),
    ("alert", Level::Alert),
    ("crit", Level::Crit),
    ("err", Level::Err),
    ("warning", Level::Warning),
    ("notice", Level::Notice),
    ("info", Level::Info),
    ("debug-line", Level::DebugLine),
    ("debug", Level::Debug),
];

/// `strata emit`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 at least one session was handed the event, 1 nobody records it, 2 it could not be made."
)]
pub struct EmitFlags {
    /// Name of the event; without a provider it is shell:EVENT
    #[arg(value_name = "[PROVIDER:]EVENT")]
    name: String,

    /// Fields of the event: integers, numbers with a point, and texts
    #[arg(value_name = "FIELD=VALUE", value_parser = parse_field)]
    fields: Vec<(String, FieldValue)>,

    /// Severity: emerg, alert, crit, err, warning, notice, info, debug-line, debug
    #[arg(long, value_name = "LEVEL", value_parser = parse_level, default_value = "info")]
    level: Level,

    /// How long to wait for a session that has to look at this process first
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "300ms")]
    wait: Duration,
}

/// The value of a field, with the type that its text has.
#[derive(Debug, Clone, PartialEq)]
enum FieldValue {
    Integer(i64),
    Number(f64),
    Text(String),
}

impl FieldValue {
    /// Parses a value. Only numbers in their usual form are numbers: `007` and `1e3` are texts.
    fn parse(text: &str) -> FieldValue {
        if let Some(number) = text.parse::<i64>().ok().filter(|number| number.to_string() == text) {
            return FieldValue::Integer(number);
        }
        let is_plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-');
        match text.parse::<f64>() {
            Ok(number) if text.contains('.') && text.chars().all(is_plain) => {
                FieldValue::Number(number)
            }
            _ => FieldValue::Text(text.to_owned()),
        }
    }

    fn field_type(&self) -> FieldType {
        match self {
            FieldValue::Integer(_) => FieldType::I64,
            FieldValue::Number(_) => FieldType::F64,
            FieldValue::Text(_) => FieldType::TEXT,
        }
    }
}

fn parse_field(text: &str) -> Result<(String, FieldValue), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), FieldValue::parse(value))),
        _ => Err("write FIELD=VALUE, such as 'stage=build'".to_owned()),
    }
}

fn parse_level(text: &str) -> Result<Level, String> {
    let found = LEVELS.iter().find(|(name, _)| *name == text);
    found.map(|(_, level)| *level).ok_or_else(|| {
        let names: Vec<&str> = LEVELS.iter().map(|(name, _)| *name).collect();
        format!("there is no such level; take one of {}", names.join(", "))
    })
}

/// Runs `strata emit`. Returns the exit status.
pub fn run(flags: &EmitFlags) -> Result<u8> {
    let (provider, name) = flags.name.split_once(':').unwrap_or((PROVIDER, &flags.name));
    // The installation's own library, or else the one that the loader finds.
    if let Ok(file) = preload::runtime() {
        load_library(&file)?;
    }
    availability().context("load libstrata, which records events of programs")?;
    let types = flags.fields.iter().map(|(name, value)| (name.as_str(), value.field_type()));
    let fields: Vec<(&str, FieldType)> = types.collect();
    let class = Class { name, level: flags.level, fields: &fields, place: ("", 0) };
    let event = Provider::new(provider).and_then(|provider| provider.event(&class));
    let event = event.map_err(|error| anyhow!("'{}': {error}", flags.name))?;
    if !is_recorded(&event, flags.wait) {
        stderr::failure(&format!(
            "nobody records {provider}:{name}. Start a session that does, such as: strata record --background NAME -u '{provider}:*'"
        ));
        return Ok(NOT_RECORDED);
    }
    let mut words = Words::new();
    for (_, value) in &flags.fields {
        match value {
            FieldValue::Integer(number) => words.push_scalar(*number),
            FieldValue::Number(number) => words.push_scalar(*number),
            FieldValue::Text(text) => words.push(text.as_str()),
        }
    }
    event.record(&words);
    Ok(0)
}

/// Waits until a session records the event, at most for `wait`.
fn is_recorded(event: &Event, wait: Duration) -> bool {
    let begin = Instant::now();
    while !event.is_on() {
        if begin.elapsed() >= wait {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_has_the_type_that_its_text_has() {
        let value = |text: &str| parse_field(text).map(|(_, value)| value);
        assert_eq!(value("a=-5"), Ok(FieldValue::Integer(-5)));
        assert_eq!(value("a=1.50"), Ok(FieldValue::Number(1.5)));
        for text in ["007", "", "1e3", "nan", "0x10", "9223372036854775808", "1.2.3", "a=b"] {
            assert_eq!(value(&format!("a={text}")), Ok(FieldValue::Text(text.into())), "{text}");
        }
        assert!(value("=1").is_err() && value("a").is_err());
    }

    #[test]
    fn level_is_one_of_those_that_there_are() {
        assert_eq!(parse_level("warning"), Ok(Level::Warning));
        assert!(parse_level("loud").unwrap_err().contains("emerg"));
    }
}
