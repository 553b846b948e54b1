//! `strata analyze threads --by stack`.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{json, Map, Value};
use strata_analyze::reports::offcpu::{Long, OffCpuCounter, OffCpuReport, Row};
use strata_analyze::reports::threads::Wait;
use strata_analyze::reports::{Label, QUANTILE_ERROR};
use strata_analyze::stats::time_of_day;
use strata_session::stop::Stop;

use super::common::Made;
use super::hidden;
use super::rows::{
    by, document, figures, histogram, keys, length, more, name, put_rows, section, spread,
};
use super::threads::{wait_json, wait_text, ThreadsFlags, DELAYS_MAX};
use crate::stats::is_utf8;
use crate::stats::table::{Align, Table, DIM, HEAD};
use crate::talk::units::{clean, count, counted};

/// Do it, and give the exit status.
pub fn run(flags: &ThreadsFlags, stop: &Stop) -> Result<u8> {
    flags.refuse_filter()?;
    let (reader, range) = flags.common.open()?;
    let whose = flags.whose(&reader, stop)?;
    let kept = whose.kept(flags.shown(), DELAYS_MAX);
    let mut counter = OffCpuCounter::new(range, kept, flags.names.source(&reader));
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::talk::exit::stopped(stop));
    };
    hidden::say(&made);
    let world = made.passed.timeline.world();
    let wanted = whose.of(world);
    let mut report = counter.finish(world, &|label| wanted.has(label));
    report.longest.truncate(flags.shown());
    let (found, all) = (report.longest.len(), report.all.count);
    whose.say_fewer(found, flags.shown(), DELAYS_MAX, all, "longest waits");
    flags.common.show(|| json(&report, &made, flags), || text(&report, &made, flags))?;
    let is_asked = whose.is_any() || flags.common.selection.is_any();
    Ok(made.end(
        report.rows.is_empty(),
        is_asked && report.has_stacks,
        "no thread that fits what was asked for was blocked",
        "no thread that was blocked left its CPU with a call stack. Record them: strata record \
         --stack -k sched_switch,sched_waking -- COMMAND",
    ))
}

fn json(report: &OffCpuReport, made: &Made, flags: &ThreadsFlags) -> String {
    let row = |row: &Row| {
        let mut map = keys(&row.label);
        map.insert("name".into(), json!(row.name));
        map.extend(figures(&row.times));
        map.insert("frames".into(), json!(row.frames));
        map.insert("waits".into(), row.waits.iter().map(wait_json).collect());
        let thread = |(label, count, total): &(Label, u64, u64)| {
            let mut map = keys(label);
            map.insert("count".into(), json!(count));
            map.insert("total_ns".into(), json!(total));
            Value::Object(map)
        };
        map.insert("threads".into(), row.threads.iter().map(thread).collect());
        Value::Object(map)
    };
    let long = |long: &Long| {
        let mut map = keys(&long.label);
        let wait = what(&long.wait);
        map.insert("name".into(), json!(long.name));
        map.insert("time_ns".into(), json!(long.from));
        map.insert("duration_ns".into(), json!(long.nanos));
        map.extend(wait);
        map.insert("frames".into(), json!(long.frames));
        Value::Object(map)
    };
    let mut object = made.object("threads");
    object.insert("hidden_threads".into(), hidden::json(made));
    object.insert("by".into(), by(&flags.by));
    object.insert("quantile_error".into(), json!(QUANTILE_ERROR));
    object.insert("all".into(), Value::Object(figures(&report.all)));
    object.insert("without_stack".into(), Value::Object(figures(&report.without_stack)));
    object.insert("waits_left_out".into(), json!(report.left_out.count));
    object.insert("left_out_ns".into(), json!(report.left_out.total));
    put_rows(&mut object, &report.rows, &flags.common, row);
    object.insert("longest".into(), report.longest.iter().map(long).collect());
    document(object)
}

/// What a wait was for, of a wait's keys.
fn what(wait: &Wait) -> Map<String, Value> {
    let keys = ["call", "object", "sleep"];
    let Value::Object(map) = wait_json(wait) else { return Map::new() };
    map.into_iter().filter(|(key, _)| keys.contains(&key.as_str())).collect()
}

/// Whose the waits of a row are.
fn who(row: &Row) -> String {
    match (row.threads.len(), &row.label) {
        (1, label) => name(label),
        (threads, label) if *label == Label::default() => counted(threads as u64, "thread"),
        (threads, label) => format!("{}, {}", name(label), counted(threads as u64, "thread")),
    }
}

/// What all of its waits were for, or how many different things.
fn reason(row: &Row) -> String {
    match row.waits.as_slice() {
        [wait] => wait_text(wait),
        waits => counted(waits.len() as u64, "reason"),
    }
}

fn text(report: &OffCpuReport, made: &Made, flags: &ThreadsFlags) -> String {
    let mut out = String::new();
    let all = &report.all;
    let _ = writeln!(
        out,
        "{HEAD}{} with {} in {}, {} all together{HEAD:#}\n",
        counted(all.count, "wait"),
        counted(report.rows.len() as u64, "stack"),
        length(made.nanos()),
        length(all.total),
    );
    if report.rows.is_empty() {
        return out;
    }
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("thread", left),
        ("blocked", right),
        ("count", right),
        ("avg", right),
        ("p50", right),
        ("p99", right),
        ("longest", right),
        ("1µs..1s", left),
        ("in", left),
        ("stack, the innermost first", left),
    ]);
    let rows = flags.common.rows();
    for row in report.rows.iter().take(rows) {
        table.row([
            who(row).into(),
            length(row.times.total).into(),
            count(row.times.count).into(),
            length(row.times.mean()).into(),
            length(row.times.quantile(0.5)).into(),
            length(row.times.quantile(0.99)).into(),
            length(row.times.max).into(),
            spread(&row.times.spread).into(),
            reason(row).into(),
            clean(&row.name).into(),
        ]);
    }
    table.write(&mut out);
    more(&mut out, report.rows.len(), rows);
    histogram(&mut out, &all.spread, "waits", !is_utf8());
    for (times, what) in [
        (&report.without_stack, "without a call stack, in a row of their own"),
        (&report.left_out, "of stacks for which there was no room, in no row"),
    ] {
        if times.count > 0 {
            let waits = counted(times.count, "wait");
            let _ = writeln!(out, "{DIM}{waits}, {}, {what}{DIM:#}", length(times.total));
        }
    }
    let mut longest = Table::new(&[
        ("from", left),
        ("blocked", right),
        ("thread", left),
        ("in", left),
        ("stack, the innermost first", left),
    ]);
    for long in &report.longest {
        longest.row([
            time_of_day(long.from, flags.common.selection.zone()).into(),
            length(long.nanos).into(),
            name(&long.label).into(),
            wait_text(&long.wait).into(),
            clean(&long.name).into(),
        ]);
    }
    section(&mut out, "The longest", &longest);
    out
}
