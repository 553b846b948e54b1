//! How the reports show what they have: keys of JSON, rows of tables, lengths, pictures.

use std::fmt::Write as _;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::{json, Map, Value};
use strata_analyze::reports::{Histogram, Label, Times, QUANTILE_ERROR};

use super::common::CommonFlags;
use crate::stats::is_utf8;
use crate::stats::table::{Align, Table, DIM, HEAD};
use crate::talk::units::{clean, count, counted, time};

/// Columns of a row's picture: below 1 µs, 10 µs and so on.
const DECADES: usize = 8;
/// Characters of the longest bar.
const WIDTH: u64 = 40;

/// One object, on lines.
pub fn document(object: Map<String, Value>) -> String {
    format!("{:#}\n", Value::Object(object))
}

/// `1234567` nanoseconds as `1.235 ms`; nothing for none.
pub fn length(nanos: u64) -> String {
    time(Duration::from_nanos(nanos))
}

/// `redis-server (812)`, `redis-server (812) bio_lazy_free/814`.
pub fn name(label: &Label) -> String {
    let number = |number: Option<i32>| number.map_or("?".to_owned(), |number| number.to_string());
    let mut text = match (&label.process, label.pid) {
        (name, None) if label.tid.is_some() => name.clone(),
        (name, pid) if name.is_empty() => number(pid),
        (name, pid) => format!("{name} ({})", number(pid)),
    };
    match &label.thread {
        Some(_) if label.tid == label.pid => {}
        Some(thread) if *thread == label.process || thread.is_empty() => {
            text = format!("{text}/{}", number(label.tid));
        }
        Some(thread) => text = format!("{text} {thread}/{}", number(label.tid)),
        None => {}
    }
    if let Some(machine) = &label.machine {
        text = format!("{machine}: {text}");
    }
    clean(&text)
}

/// The keys of a row that say whose it is.
pub fn keys(label: &Label) -> Map<String, Value> {
    let mut map = Map::new();
    let process = Some(&label.process).filter(|name| !name.is_empty());
    map.insert("process".into(), json!(process));
    map.insert("pid".into(), json!(label.pid));
    map.insert("thread".into(), json!(label.thread));
    map.insert("tid".into(), json!(label.tid));
    if let Some(machine) = &label.machine {
        map.insert("machine".into(), json!(machine));
    }
    map
}

/// What a row is about, where that is a thread or a process.
pub fn subject(label: &Label) -> Option<&str> {
    let process = Some(label.process.as_str()).filter(|name| !name.is_empty());
    label.thread.as_deref().filter(|name| !name.is_empty()).or(process)
}

/// What rows of all reports have: what it is about, how many, and how long, where rows are about time.
pub fn put_sums(map: &mut Map<String, Value>, name: Option<&str>, count: u64, total: Option<u64>) {
    map.insert("name".into(), json!(name));
    map.insert("count".into(), json!(count));
    if let Some(total) = total {
        map.insert("total_ns".into(), json!(total));
    }
}

/// What all rows of lengths have.
pub fn figures(times: &Times) -> Map<String, Value> {
    let value = json!({
        "count": times.count,
        "total_ns": times.total,
        "avg_ns": times.mean(),
        "min_ns": times.min,
        "p50_ns": times.quantile(0.5),
        "p99_ns": times.quantile(0.99),
        "max_ns": times.max,
        "histogram": buckets(&times.spread),
    });
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// What `--by` says, as it is typed.
pub fn by(flag: &impl ValueEnum) -> Value {
    json!(flag.to_possible_value().as_ref().map(|value| value.get_name()))
}

/// The rows that are shown, and how many there are.
pub fn put_rows<T>(
    object: &mut Map<String, Value>,
    all: &[T],
    flags: &CommonFlags,
    row: impl FnMut(&T) -> Value,
) {
    object.insert("rows_count".into(), json!(all.len()));
    object.insert("rows".into(), all.iter().take(flags.rows()).map(row).collect());
}

/// How lengths are spread: the first value of each bucket, how many values it has, and how many were counted.
pub fn buckets(times: &Histogram) -> Value {
    times.buckets().map(|(first, width, count)| json!([first, width, count])).collect()
}

/// A table below a title, if it has rows.
pub fn section(out: &mut String, title: &str, table: &Table) {
    if !table.is_empty() {
        let _ = writeln!(out, "\n{HEAD}{title}{HEAD:#}");
        table.write(out);
    }
}

/// Say how exact percentiles are.
pub fn exactness(out: &mut String) {
    let percent = QUANTILE_ERROR * 100.0;
    let _ = writeln!(out, "\n{DIM}percentiles are within {percent:.1} %, all else is exact{DIM:#}");
}

/// Say how many rows a text leaves out.
pub fn more(out: &mut String, all: usize, shown: usize) {
    if let Some(more) = all.checked_sub(shown).filter(|&more| more > 0) {
        let more = counted(more as u64, "row");
        out.push_str(&format!("  {DIM}and {more}; --top N shows N{DIM:#}\n"));
    }
}

/// A length, or nothing for none.
pub fn some(nanos: u64) -> String {
    if nanos > 0 {
        length(nanos)
    } else {
        String::new()
    }
}

/// A number, or nothing for none.
pub fn some_count(number: u64) -> String {
    if number > 0 {
        count(number)
    } else {
        String::new()
    }
}

/// What stands for a bar of eight heights, on any terminal.
const ASCII: [char; 9] = [' ', '.', ':', '-', '=', '+', '*', '#', '@'];
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar for each count: the highest for the greatest, none only for 0.
pub fn bars(counts: &[u64], ascii: bool) -> String {
    let most = counts.iter().copied().max().unwrap_or(0);
    counts.iter().map(|&count| bar(count, most, ascii)).collect()
}

/// A bar: the highest for `most` and more, none only for 0.
pub fn bar(count: u64, most: u64, ascii: bool) -> char {
    let set = if ascii { ASCII } else { BLOCKS };
    let height = (count as f64 / most.max(1) as f64 * 8.0).ceil() as usize;
    set.get(height.min(8)).copied().unwrap_or(' ')
}

/// How many are below 1 µs, 10 µs and so on.
pub fn decades(times: &Histogram) -> [u64; DECADES] {
    let mut counts = [0; DECADES];
    for (first, _, count) in times.buckets() {
        let at = (first / 1000).checked_ilog10().map_or(0, |power| power as usize + 1);
        if let Some(slot) = counts.get_mut(at.min(DECADES - 1)) {
            *slot += count;
        }
    }
    counts
}

/// A row's picture.
pub fn spread(times: &Histogram) -> String {
    bars(&decades(times), !is_utf8()).trim_end().to_owned()
}

/// Of all, a line for each power of two, from the first that has some to the last.
pub fn histogram(out: &mut String, times: &Histogram, what: &'static str, ascii: bool) {
    histogram_of(out, "How long they took", times, what, ascii);
}

/// The same below another title.
pub fn histogram_of(
    out: &mut String,
    title: &str,
    times: &Histogram,
    what: &'static str,
    ascii: bool,
) {
    let mut counts = [0_u64; 64];
    for (first, _, count) in times.buckets() {
        let at = first.checked_ilog2().unwrap_or(0) as usize;
        if let Some(slot) = counts.get_mut(at) {
            *slot += count;
        }
    }
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let from = counts.iter().position(|&count| count > 0).unwrap_or(0);
    let to = counts.iter().rposition(|&count| count > 0).unwrap_or(0);
    let mut table = Table::new(&[("from", Align::Right), (what, Align::Right), ("", Align::Left)]);
    for (power, &number) in counts.iter().enumerate().take(to + 1).skip(from) {
        let bar = (number as f64 * WIDTH as f64 / most as f64).ceil() as usize;
        let bar = if ascii { "#" } else { "█" }.repeat(bar);
        table.row([length(1 << power).into(), count(number).into(), bar.into()]);
    }
    let _ = writeln!(out, "\n{HEAD}{title}{HEAD:#}");
    table.write(out);
}
