//! `strata analyze flame` as a table of functions and stacks, and as JSON.

use std::fmt::Write as _;
use std::num::NonZeroUsize;

use serde_json::{json, Map, Value};
use strata_analyze::reports::flame::{Flame, Weigh};
use strata_analyze::reports::functions::{functions, heaviest, Function, Stack};

use super::common::{Made, ROWS};
use super::rows::{document, keys, length, more, name, put_sums, section};
use crate::stats::is_utf8;
use crate::stats::table::{Align, Table, HEAD};
use crate::talk::units::{clean, count, counted};

/// Stacks of a text, if nobody says how many.
const STACKS: usize = 5;
/// Characters of the longest bar.
const WIDTH: u64 = 20;

/// One object.
pub fn json(flame: &Flame, weigh: Weigh, made: &Made, top: Option<NonZeroUsize>) -> String {
    let all = functions(flame);
    let most = top.map_or(usize::MAX, NonZeroUsize::get);
    // What weighs time has no count.
    let is_time = weigh != Weigh::Records;
    let (own_key, weight_key) =
        if is_time { ("own_ns", "total_ns") } else { ("own_count", "count") };
    let row = |row: &Function| {
        let mut map = keys(&row.label);
        match is_time {
            true => map.extend(Map::from_iter([("name".into(), json!(row.name))])),
            false => put_sums(&mut map, Some(&row.name), row.total, None),
        }
        map.insert(weight_key.into(), json!(row.total));
        map.insert(own_key.into(), json!(row.own));
        map.insert("share".into(), json!(share(row.own, flame.total)));
        Value::Object(map)
    };
    let stack = |stack: &Stack| {
        let mut map = keys(&stack.label);
        map.insert("name".into(), json!(stack.name));
        map.insert(weight_key.into(), json!(stack.weight));
        map.insert("frames".into(), json!(stack.frames));
        Value::Object(map)
    };
    let mut object = made.object("flame");
    object.insert("by".into(), json!(by(weigh)));
    object.insert(weight_key.into(), json!(flame.total));
    object.insert("rows_count".into(), json!(all.len()));
    object.insert("rows".into(), all.iter().take(most).map(row).collect());
    object.insert("stacks".into(), heaviest(flame, most).iter().map(stack).collect());
    object.insert("empty_stacks".into(), json!(flame.empty));
    object.insert("spans_elsewhere".into(), json!(flame.elsewhere));
    object.insert("stacks_left_out".into(), json!(flame.left_out));
    document(object)
}

/// As it is typed.
fn by(weigh: Weigh) -> &'static str {
    match weigh {
        Weigh::Records => "records",
        Weigh::OffCpu => "offcpu",
        Weigh::Spans => "spans",
    }
}

fn share(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

/// A table of functions, and one of stacks.
pub fn text(flame: &Flame, weigh: Weigh, made: &Made, top: Option<NonZeroUsize>) -> String {
    let mut out = String::new();
    let (all, time) = (functions(flame), length(made.nanos()));
    let what = match weigh {
        Weigh::Records => format!("{} with call stacks", counted(flame.total, "record")),
        Weigh::OffCpu => format!("{} of waits with call stacks", length(flame.total)),
        Weigh::Spans => format!("{} in spans", length(flame.total)),
    };
    let _ =
        writeln!(out, "{HEAD}{what} in {time}, {}{HEAD:#}", counted(all.len() as u64, "function"));
    if all.is_empty() {
        return out;
    }
    let weight = |weight: u64| match weigh {
        Weigh::Records => count(weight),
        _ => length(weight),
    };
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("itself", right),
        ("share", right),
        ("", left),
        ("with calls", right),
        ("function", left),
        ("process", left),
    ]);
    let rows = top.map_or(ROWS, NonZeroUsize::get);
    let most = all.first().map_or(0, |row| row.own);
    for row in all.iter().take(rows) {
        table.row([
            weight(row.own).into(),
            percent(row.own, flame.total).into(),
            bar(row.own, most).into(),
            weight(row.total).into(),
            clean(&row.name).into(),
            name(&row.label).into(),
        ]);
    }
    out.push('\n');
    table.write(&mut out);
    more(&mut out, all.len(), rows);
    let mut stacks = Table::new(&[
        ("weight", right),
        ("share", right),
        ("process", left),
        ("stack, the innermost first", left),
    ]);
    for stack in heaviest(flame, top.map_or(STACKS, NonZeroUsize::get)) {
        stacks.row([
            weight(stack.weight).into(),
            percent(stack.weight, flame.total).into(),
            name(&stack.label).into(),
            clean(&stack.name).into(),
        ]);
    }
    section(&mut out, "The heaviest stacks", &stacks);
    out
}

fn percent(part: u64, all: u64) -> String {
    format!("{:.1} %", share(part, all) * 100.0)
}

fn bar(part: u64, most: u64) -> String {
    let length = (share(part, most) * WIDTH as f64).ceil() as usize;
    if is_utf8() { "█" } else { "#" }.repeat(length)
}
