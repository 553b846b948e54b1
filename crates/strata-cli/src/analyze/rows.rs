//! Formats the data of reports: keys of JSON, rows of tables, durations, pictures.

use std::fmt::Write as _;
use std::time::Duration;

use clap::ValueEnum;
use strata_analyze::reports::{Histogram, Label, QUANTILE_ERROR};

use crate::stats::is_utf8;
use crate::stats::table::{Align, Table, DIM, HEAD};
use crate::units::{clean, count, counted, time};

/// Number of columns of a row's picture: below 1 µs, 10 µs and so on.
const DECADES: usize = 8;
/// Limit on the numbers in a cell.
const FEW: usize = 4;
/// Width of the longest bar of a histogram, and of the longest bar in a table \[character\].
const WIDTH: u64 = 40;
const BAR_WIDTH: f64 = 20.0;

/// Formats a JSON object with indentation.
pub fn document(object: serde_json::Map<String, serde_json::Value>) -> String {
    strata_text::json::indented(&object) + "\n"
}

/// Formats a duration for people: `1234567` nanoseconds as `1.235 ms`.
pub fn length(nanos: u64) -> String {
    time(Duration::from_nanos(nanos))
}

/// Formats a process or thread: `redis-server (812)`, `redis-server (812) bio_lazy_free/814`, or for all processes of a
/// name `git ×512`.
pub fn name(label: &Label) -> String {
    let number = |number: Option<i32>| number.map_or("?".to_owned(), |number| number.to_string());
    let mut text = match (&label.process, label.pid) {
        (name, None) if label.tid.is_some() => name.clone(),
        (name, None) if label.processes > 1 => {
            format!("{name} {}{}", multiplied(), count(label.processes as u64))
        }
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

/// Returns the sign before a count: "×", or "x" if the terminal has no UTF-8.
fn multiplied() -> &'static str {
    if is_utf8() {
        "×"
    } else {
        "x"
    }
}

/// Returns the name of the thread or process of a row, if it is about one.
pub fn subject(label: &Label) -> Option<&str> {
    let process = Some(label.process.as_str()).filter(|name| !name.is_empty());
    label.thread.as_deref().filter(|name| !name.is_empty()).or(process)
}

/// Returns a value of `--by` as the user types it.
pub fn by(flag: &impl ValueEnum) -> String {
    flag.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Formats the first few of some numbers, such as those of CPUs.
pub fn few<'n>(mut numbers: impl Iterator<Item = &'n u32>) -> String {
    let first: Vec<String> = numbers.by_ref().take(FEW).map(u32::to_string).collect();
    let dots = if numbers.next().is_some() { "…" } else { "" };
    format!("{}{dots}", first.join(","))
}

/// Writes a table below a title, if it has rows.
pub fn section(out: &mut String, title: &str, table: &Table) {
    if !table.is_empty() {
        let _ = writeln!(out, "\n{HEAD}{title}{HEAD:#}");
        table.write(out);
    }
}

/// Adds a line on the accuracy of percentiles.
pub fn exactness(out: &mut String) {
    let percent = QUANTILE_ERROR * 100.0;
    let _ = writeln!(out, "\n{DIM}percentiles are within {percent:.1} %, all else is exact{DIM:#}");
}

/// Adds a line that says how many rows are left out, and how to see all.
pub fn more(out: &mut String, all: usize, shown: usize) {
    if let Some(more) = all.checked_sub(shown).filter(|&more| more > 0) {
        let more = counted(more as u64, "more row");
        out.push_str(&format!("  {DIM}{more}: --top {all} shows all{DIM:#}\n"));
    }
}

/// Characters for bars of eight heights that any terminal can show.
const ASCII: [char; 9] = [' ', '.', ':', '-', '=', '+', '*', '#', '@'];
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns a bar for each count: the highest for the greatest count, an empty one only for 0.
pub fn bars(counts: &[u64], ascii: bool) -> String {
    let most = counts.iter().copied().max().unwrap_or(0);
    counts.iter().map(|&count| bar(count as f64 / most.max(1) as f64, ascii)).collect()
}

/// Returns an upright bar: the highest for a share of 1 or more, an empty one only for 0.
pub fn bar(share: f64, ascii: bool) -> char {
    let set = if ascii { ASCII } else { BLOCKS };
    let height = (share * 8.0).ceil() as usize;
    set.get(height.min(8)).copied().unwrap_or(' ')
}

/// Returns a horizontal bar: the longest for a share of 1 or more, an empty one only for 0.
pub fn long_bar(share: f64) -> String {
    let length = (share.min(1.0) * BAR_WIDTH).ceil() as usize;
    if is_utf8() { "█" } else { "#" }.repeat(length)
}

/// Counts the values below 1 µs, below 10 µs and so on.
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

/// Returns the picture of a row's distribution of durations.
pub fn spread(times: &Histogram) -> String {
    bars(&decades(times), !is_utf8()).trim_end().to_owned()
}

/// Writes the histogram of all durations: a line for each power of two, from the first that has values to the last.
pub fn histogram(
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
    let mut table = Table::new(&[("from", Align::Right), (what, Align::Right), ("", Align::Bar)]);
    for (power, &number) in counts.iter().enumerate().take(to + 1).skip(from) {
        let bar = (number as f64 * WIDTH as f64 / most as f64).ceil() as usize;
        let bar = if ascii { "#" } else { "█" }.repeat(bar);
        table.row([length(1 << power).into(), count(number).into(), bar.into()]);
    }
    let _ = writeln!(out, "\n{HEAD}{title}{HEAD:#}");
    table.write(out);
}
