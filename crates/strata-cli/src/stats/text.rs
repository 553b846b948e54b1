//! Formats counts for people.

use std::fmt::Write as _;
use std::time::Duration;

use strata_analyze::render::TimeZone;
use strata_analyze::stats::{
    date_time, rate, time_of_day, AbsentKind, AbsentRange, EventStats, RecordCount, Stats,
    StreamStats, Sum, TimeColumns, TraceSpan, TraceStats,
};

use super::table::{bad, Align, Cell, Table, BAD, DIM, HEAD};
use crate::units::{self, clean, count, counted, size};

/// Limit on the rows of a table unless all are requested.
const ROWS: usize = 40;
/// Limit on the traces that are listed unless all are requested.
const TRACES: usize = 20;
/// Default limit on the times of missing records that are shown.
const RANGES: usize = 10;

/// Order of the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    /// The most frequent first
    #[default]
    Records,
    /// The largest in bytes first
    Bytes,
    /// In the order of names
    Name,
}

/// Style of the text.
#[derive(Clone, Copy, Debug)]
pub struct StatsStyle<'z> {
    /// Order of the events.
    pub sort: Sort,
    /// True if every trace, every stream and every time is listed.
    pub details: bool,
    /// True if the terminal shows only ASCII characters.
    pub ascii: bool,
    /// True if only some of the records were counted.
    pub selected: bool,
    /// Time zone for times of day.
    pub zone: &'z TimeZone,
}

/// Formats all counts, with colours.
pub fn render(stats: &Stats, style: StatsStyle<'_>) -> String {
    let mut out = String::new();
    let sum = stats.sum();
    match stats.traces.as_slice() {
        [trace] => headline(&mut out, trace),
        traces => {
            let _ = writeln!(out, "{HEAD}{}{HEAD:#}", counted(traces.len() as u64, "trace"));
        }
    }
    summary(&mut out, &sum, stats.may_be_overwritten(), stats.span, style);
    uncertainty(&mut out, stats);
    if let Some(timeline) = &stats.timeline {
        picture(&mut out, stats, timeline, style);
    }
    if stats.traces.len() > 1 {
        traces(&mut out, stats, style);
    }
    events(&mut out, &stats.events, stats.span, style);
    match stats.traces.len() {
        1 => streams(&mut out, &stats.streams.iter().collect::<Vec<_>>(), style),
        _ if style.details => details(&mut out, stats, style),
        _ => (),
    }
    absent(&mut out, stats, style);
    out
}

/// Adds a line on how accurately the times of different machines can be compared.
fn uncertainty(out: &mut String, stats: &Stats) {
    let known: Vec<u64> = stats.traces.iter().filter_map(|trace| trace.uncertainty_ns).collect();
    let Some(most) = known.iter().max() else { return };
    let _ = writeln!(
        out,
        "  {HEAD}{:9}{HEAD:#} of {} of guests: within {} of the host's; which of two closer events came first is not known",
        "clocks",
        counted(known.len() as u64, "trace"),
        nanos(*most),
    );
}

/// Returns a trace's name for people.
fn name(trace: &TraceStats) -> String {
    let name = match (&trace.process, trace.pid, &trace.domain) {
        (Some(process), Some(pid), _) => format!("{process} ({pid})"),
        (Some(process), None, _) => process.clone(),
        (None, Some(pid), _) => format!("process {pid}"),
        (None, None, Some(domain)) => domain.clone(),
        (None, None, None) => trace.path.display().to_string(),
    };
    clean(&name)
}

/// Writes the line of a trace: `demo (42) on box, by lttng-ust 2.13: PATH`.
fn headline(out: &mut String, trace: &TraceStats) {
    let _ = write!(out, "{HEAD}{}{HEAD:#}", name(trace));
    if let Some(host) = &trace.host {
        let _ = write!(out, " on {}", clean(host));
    }
    if let Some(tracer) = &trace.tracer {
        let _ = write!(out, ", by {}", clean(tracer));
    }
    let _ = writeln!(out, ": {}", clean(&trace.path.display().to_string()));
}

fn summary(
    out: &mut String,
    sum: &Sum,
    overwritten: bool,
    span: Option<TraceSpan>,
    style: StatsStyle<'_>,
) {
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "  {HEAD}{name:9}{HEAD:#} {text}");
    };
    if let Some(span) = span {
        line("from", date_time(span.from, style.zone));
        line("to", format!("{}, {}", date_time(span.to, style.zone), nanos(span.nanos())));
    }
    let per_second = rate(sum.count.records, span)
        .map_or_else(String::new, |rate| format!(", {}/s", units::rate(rate)));
    let selected = if style.selected { " selected" } else { "" };
    line("records", format!("{}{selected}{per_second}", count(sum.count.records)));
    let parts = if style.selected {
        String::new()
    } else {
        format!(
            ": records {}, packet headers {}, padding {}",
            share(sum.count.bytes, sum.bytes),
            share(sum.header_bytes, sum.bytes),
            share(sum.padding_bytes, sum.bytes)
        )
    };
    line(
        "size",
        format!(
            "{} in {} of {}{parts}",
            size(sum.bytes),
            counted(sum.packets, "packet"),
            counted(sum.streams, "stream")
        ),
    );
    if sum.absent_records == 0 && sum.packets > 0 {
        line("discarded", none_discarded(sum));
    }
    for (name, text) in absences(sum, overwritten, style) {
        let _ = writeln!(out, "  {BAD}{name:9}{BAD:#} {text}");
    }
}

/// Returns the text for no losses: `0` if the packets count them, otherwise that they are unknown.
fn none_discarded(sum: &Sum) -> String {
    match sum.telling_packets {
        0 => "unknown: its packets do not count it".to_owned(),
        told if told < sum.packets => {
            format!("0, as {} of {} say", count(told), counted(sum.packets, "packet"))
        }
        _ => "0".to_owned(),
    }
}

/// Returns lines on missing records and packets. `overwritten` is true if some records may have been overwritten.
fn absences(sum: &Sum, overwritten: bool, style: StatsStyle<'_>) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if sum.absent_records > 0 {
        let all = sum.count.records.saturating_add(sum.absent_records);
        let share = match style.selected {
            true => String::new(),
            false => format!(", {} of all", share(sum.absent_records, all)),
        };
        let records = counted(sum.absent_records, "record");
        lines.push(("discarded", format!("{records} {}{share}", gone(overwritten))));
    }
    if sum.untold_records > 0 {
        let all = sum.count.records.saturating_add(sum.absent_records);
        let all = all.saturating_add(sum.untold_records);
        let share = match style.selected {
            true => String::new(),
            false => format!(", {} of all", share(sum.untold_records, all)),
        };
        let records = counted(sum.untold_records, "record");
        lines.push((
            "untold",
            format!("{records}{share}, as the end mark says: no packet counts them"),
        ));
    }
    if sum.absent_packets > 0 {
        let packets = counted(sum.absent_packets, "packet");
        lines.push(("gaps", format!("{packets} not there: overwritten, or never written")));
    }
    if sum.damage > 0 {
        lines
            .push(("damaged", format!("in {}; all else is counted", counted(sum.damage, "place"))));
    }
    lines
}

/// Returns the words for what happened to missing records.
fn gone(overwritten: bool) -> &'static str {
    match overwritten {
        true => "discarded or overwritten",
        false => "discarded",
    }
}

/// Formats a share such as `98.4 %`. Shows 0 and 100 only for exactly these shares.
fn share(part: u64, all: u64) -> String {
    let percent = part as f64 * 100.0 / all.max(1) as f64;
    match percent {
        _ if part == 0 => "0 %".to_owned(),
        percent if percent < 0.05 => "< 0.1 %".to_owned(),
        percent if percent >= 99.95 && part < all => "> 99.9 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

fn nanos(nanos: u64) -> String {
    units::time(Duration::from_nanos(nanos))
}

/// Draws the number of records over time, and marks the times at which some were discarded.
fn picture(out: &mut String, stats: &Stats, timeline: &TimeColumns, style: StatsStyle<'_>) {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const ASCII: [char; 9] = [' ', '.', ':', '-', '=', '+', '*', '%', '#'];
    let highest = timeline.records.iter().copied().max().unwrap_or(0);
    if timeline.records.len() < 2 || highest == 0 {
        return;
    }
    let signs = if style.ascii { ASCII } else { BLOCKS };
    let bar = |records: &u64| {
        // A single record must be visible.
        let height = (u128::from(*records) * 8).div_ceil(u128::from(highest));
        signs.get(height as usize).copied().unwrap_or(' ')
    };
    let bars: String = timeline.records.iter().map(bar).collect();
    let _ = writeln!(
        out,
        "\n  {HEAD}records over time{HEAD:#}, a column is {}, the highest {}",
        nanos(timeline.width),
        counted(highest, "record"),
    );
    let _ = writeln!(out, "  {}", bars.trim_end());
    let marks = marks(stats, timeline);
    if marks.contains('!') {
        let _ = writeln!(out, "  {BAD}{}{BAD:#}  {DIM}! discarded{DIM:#}", marks);
    }
    let text = |time| shortened(time_of_day(time, style.zone), timeline.width);
    let (from, to) = (text(timeline.from), text(timeline.to()));
    let between = timeline.records.len().saturating_sub(from.len() + to.len());
    if between > 0 {
        let _ = writeln!(out, "  {DIM}{from}{:between$}{to}{DIM:#}", "");
    }
}

/// Shortens a time that is a multiple of `unit` \[ns\] by the digits that are 0 in all such times.
fn shortened(mut time: String, unit: u64) -> String {
    let unused = [1_000, 1_000_000].into_iter().filter(|more| unit % more == 0).count() * 3;
    if time.contains('.') {
        time.truncate(time.len().saturating_sub(unused));
    }
    time
}

/// Returns a `!` for each column in whose time something is missing, and spaces for the others.
fn marks(stats: &Stats, timeline: &TimeColumns) -> String {
    let mut marks = vec![' '; timeline.records.len()];
    let ranges = stats.streams.iter().flat_map(|stream| &stream.absent.ranges);
    for span in ranges.filter_map(|range| range.span) {
        let (from, to) = (timeline.column(span.from), timeline.column(span.to));
        if let Some(marked) = marks.get_mut(from..=to) {
            marked.fill('!');
        }
    }
    marks.into_iter().collect()
}

/// Writes a row for each trace.
fn traces(out: &mut String, stats: &Stats, style: StatsStyle<'_>) {
    let mut traces: Vec<&TraceStats> = stats.traces.iter().collect();
    traces.sort_by(|a, b| match style.sort {
        Sort::Records => b.sum.count.records.cmp(&a.sum.count.records),
        Sort::Bytes => b.sum.bytes.cmp(&a.sum.bytes),
        Sort::Name => name(a).cmp(&name(b)),
    });
    let hosts: std::collections::BTreeSet<_> = traces.iter().map(|trace| &trace.host).collect();
    let mut table = Table::new(&[
        ("trace", Align::Left),
        (if hosts.len() > 1 { "host" } else { "" }, Align::Left),
        ("records", Align::Right),
        ("records/s", Align::Right),
        ("size", Align::Right),
        ("packets", Align::Right),
        ("span", Align::Right),
        ("discarded", Align::Right),
    ]);
    let row = |label: String, host: &str, sum: &Sum| -> Vec<Cell> {
        vec![
            label.into(),
            clean(host).into(),
            count(sum.count.records).into(),
            per_second(sum.count.records, sum.span),
            size(sum.bytes).into(),
            count(sum.packets).into(),
            sum.span.map_or_else(String::new, |span| nanos(span.nanos())).into(),
            discarded(sum),
        ]
    };
    let shown = if style.details { traces.len() } else { TRACES };
    for trace in traces.iter().take(shown) {
        let host = if hosts.len() > 1 { trace.host.as_deref().unwrap_or("") } else { "" };
        table.row_of(row(name(trace), host, &trace.sum));
    }
    if traces.len() > shown {
        let mut rest = Sum::default();
        traces.iter().skip(shown).for_each(|trace| rest.add(&trace.sum));
        table.row_of(row(
            format!("{} others (-v)", count((traces.len() - shown) as u64)),
            "",
            &rest,
        ));
    }
    out.push('\n');
    table.write(out);
}

/// Makes the cell with the numbers of missing records and packets.
fn discarded(sum: &Sum) -> Cell {
    let text = match (sum.absent_records, sum.absent_packets) {
        (records, 0) => count(records),
        (0, packets) => counted(packets, "packet"),
        (records, packets) => format!("{} + {}", count(records), counted(packets, "packet")),
    };
    bad(text, sum.absent_records > 0 || sum.absent_packets > 0)
}

fn per_second(records: u64, span: Option<TraceSpan>) -> Cell {
    rate(records, span).map_or_else(String::new, units::rate).into()
}

/// Writes a row for each event.
fn events(out: &mut String, events: &[EventStats], span: Option<TraceSpan>, style: StatsStyle<'_>) {
    if events.is_empty() {
        return;
    }
    let mut sorted: Vec<&EventStats> = events.iter().collect();
    match style.sort {
        Sort::Records => (),
        Sort::Bytes => sorted.sort_by_key(|event| std::cmp::Reverse(event.count.bytes)),
        Sort::Name => sorted.sort_by(|a, b| a.name.cmp(&b.name)),
    }
    let mut all = RecordCount::default();
    events.iter().for_each(|event| all.add(&event.count));
    let mut table = Table::new(&[
        ("event", Align::Left),
        ("records", Align::Right),
        ("share", Align::Right),
        ("records/s", Align::Right),
        ("size", Align::Right),
        ("share", Align::Right),
        ("B/record", Align::Right),
        ("min", Align::Right),
        ("max", Align::Right),
    ]);
    let mut row = |name: String, count_of: &RecordCount| {
        table.row([
            name.into(),
            count(count_of.records).into(),
            share(count_of.records, all.records).into(),
            per_second(count_of.records, span),
            size(count_of.bytes).into(),
            share(count_of.bytes, all.bytes).into(),
            format!("{:.1}", count_of.mean()).into(),
            count(count_of.smallest).into(),
            count(count_of.largest).into(),
        ]);
    };
    // Showing one more row takes no more lines than the row that counts the rest.
    let shown = if style.details || sorted.len() <= ROWS + 1 { sorted.len() } else { ROWS };
    for event in sorted.iter().take(shown) {
        row(event_name(event), &event.count);
    }
    if sorted.len() > shown {
        let mut rest = RecordCount::default();
        sorted.iter().skip(shown).for_each(|event| rest.add(&event.count));
        row(format!("{} others (-v)", count((sorted.len() - shown) as u64)), &rest);
    }
    if sorted.len() > 1 {
        row(counted(sorted.len() as u64, "event"), &all);
    }
    out.push('\n');
    table.write(out);
}

fn event_name(event: &EventStats) -> String {
    if event.name.is_empty() {
        return "(no name)".to_owned();
    }
    clean(&event.name)
}

/// Writes a row for each stream.
fn streams(out: &mut String, streams: &[&StreamStats], style: StatsStyle<'_>) {
    if streams.is_empty() {
        return;
    }
    let is_damaged = streams.iter().any(|stream| stream.sum.damage > 0);
    let mut table = Table::new(&[
        ("stream", Align::Left),
        ("cpu", Align::Right),
        ("records", Align::Right),
        ("size", Align::Right),
        ("packets", Align::Right),
        ("overhead", Align::Right),
        ("discarded", Align::Right),
        (if is_damaged { "damaged" } else { "" }, Align::Right),
        ("longest silence", Align::Left),
    ]);
    let row =
        |label: String, cpu: Option<u64>, sum: &Sum, silence: Option<TraceSpan>| -> Vec<Cell> {
            let overhead = share(sum.overhead_bytes(), sum.bytes);
            vec![
                label.into(),
                cpu.map_or_else(String::new, |cpu| cpu.to_string()).into(),
                count(sum.count.records).into(),
                size(sum.bytes).into(),
                count(sum.packets).into(),
                (if style.selected { String::new() } else { overhead }).into(),
                discarded(sum),
                bad(if is_damaged { count(sum.damage) } else { String::new() }, sum.damage > 0),
                silence
                    .map_or_else(String::new, |silence| silence_text(silence, style.zone))
                    .into(),
            ]
        };
    let shown = if style.details || streams.len() <= ROWS + 1 { streams.len() } else { ROWS };
    for stream in streams.iter().take(shown) {
        table.row_of(row(clean(&stream.name), stream.cpu, &stream.sum, stream.silence));
    }
    if streams.len() > shown {
        let mut rest = Sum::default();
        streams.iter().skip(shown).for_each(|stream| rest.add(&stream.sum));
        let label = format!("{} others (-v)", count((streams.len() - shown) as u64));
        table.row_of(row(label, None, &rest, None));
    }
    out.push('\n');
    table.write(out);
}

fn silence_text(silence: TraceSpan, zone: &TimeZone) -> String {
    format!("{} from {}", nanos(silence.nanos()), time_of_day(silence.from, zone))
}

/// Adds each trace with its events and streams.
fn details(out: &mut String, stats: &Stats, style: StatsStyle<'_>) {
    for (number, trace) in stats.traces.iter().enumerate() {
        out.push('\n');
        headline(out, trace);
        summary(out, &trace.sum, trace.may_be_overwritten(), trace.sum.span, style);
        events(out, &trace.events, trace.sum.span, style);
        let of_trace = stats.streams.iter().filter(|stream| stream.trace == number);
        streams(out, &of_trace.collect::<Vec<_>>(), style);
    }
}

/// Adds the times at which records were discarded or are missing.
fn absent(out: &mut String, stats: &Stats, style: StatsStyle<'_>) {
    let mut ranges: Vec<(&StreamStats, &AbsentRange)> = stats
        .streams
        .iter()
        .flat_map(|stream| stream.absent.ranges.iter().map(move |range| (stream, range)))
        .collect();
    let cut: u64 = stats.streams.iter().map(|stream| stream.absent.more).sum();
    let all = (ranges.len() as u64).saturating_add(cut);
    if ranges.is_empty() {
        return;
    }
    let records = ranges.iter().any(|(_, range)| range.kind == AbsentKind::Records);
    let packets = ranges.iter().any(|(_, range)| range.kind == AbsentKind::Packets);
    if !style.details {
        ranges.sort_by_key(|(_, range)| std::cmp::Reverse((range.kind as u8, range.count)));
        ranges.truncate(RANGES);
    }
    ranges.sort_by_key(|(_, range)| range.span.map(|span| (span.from, span.to)));
    let title = match all > ranges.len() as u64 {
        true => format!(", the {} largest of {} (-v)", ranges.len(), count(all)),
        false => String::new(),
    };
    let what = match (records, packets) {
        (true, true) => format!("{}, or not there", gone(stats.may_be_overwritten())),
        (true, false) => gone(stats.may_be_overwritten()).to_owned(),
        _ => "not there".to_owned(),
    };
    let _ = writeln!(out, "\n{HEAD}{what}{HEAD:#}{title}");
    let mut table = Table::new(&[
        ("how many", Align::Right),
        ("from", Align::Left),
        ("to", Align::Left),
        ("in", Align::Right),
        ("stream", Align::Left),
    ]);
    for (stream, range) in ranges {
        let what = match range.kind {
            AbsentKind::Records => "record",
            AbsentKind::Packets => "packet",
        };
        let time = |time: Option<i64>| -> Cell {
            time.map_or_else(|| "(no time)".to_owned(), |time| time_of_day(time, style.zone)).into()
        };
        table.row([
            counted(range.count, what).into(),
            time(range.span.map(|span| span.from)),
            time(range.span.map(|span| span.to)),
            range.span.map_or_else(String::new, |span| nanos(span.nanos())).into(),
            stream_of(stats, stream).into(),
        ]);
    }
    table.write(out);
}

/// Returns the stream's name, with its trace if there are several.
fn stream_of(stats: &Stats, stream: &StreamStats) -> String {
    match stats.traces.get(stream.trace) {
        Some(trace) if stats.traces.len() > 1 => {
            format!("{}: {}", name(trace), clean(&stream.name))
        }
        _ => clean(&stream.name),
    }
}
