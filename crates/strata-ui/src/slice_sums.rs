//! Sums up what was done in a time: system calls, spans, interrupts and disk requests by name, each with its count, and
//! the average, the least and the greatest length.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;

use serde_json::{json, Value};

use crate::answers::Base;
use crate::model::item::{Item, Kind};
use crate::model::lane_builder::TrackKind;
use crate::model::Model;

/// The most slices that are read for one answer.
const SLICES_MAX: u64 = 1 << 22;
/// The most rows of an answer.
const ROWS_MAX: usize = 1000;

/// The sum of slices of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sum {
    count: u64,
    total: u64,
    min: u64,
    max: u64,
    /// Track and begin of the longest one.
    longest: (usize, i64),
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        self.min = self.min.min(other.min);
        if other.max > self.max {
            (self.max, self.longest) = (other.max, other.longest);
        }
    }
}

/// Returns what slices of a track are; `None` if they are states, values or moments, whose lengths are no durations.
fn what_of(kind: TrackKind) -> Option<&'static str> {
    match kind {
        TrackKind::Calls(_) => Some("system call"),
        TrackKind::Spans(..) | TrackKind::Keyed(..) => Some("span"),
        TrackKind::Interrupts(..) => Some("interrupt"),
        TrackKind::Softirqs(..) => Some("softirq"),
        TrackKind::Disk(..) => Some("disk request"),
        TrackKind::Cpu(..)
        | TrackKind::States(_)
        | TrackKind::Samples(_)
        | TrackKind::Counter(..) => None,
    }
}

/// What a slice of a CPU is that is asked for: a thread that had it. Of all tracks, the sums of threads say that.
const RAN: &str = "thread";

/// Returns from when on, and for how long, a slice counts in a range: in its whole length if it ends there. The time of a
/// CPU is shared out, so of a thread's run the part in the range counts.
fn counted(item: &Item, what: &str, range: (i64, i64)) -> Option<(i64, u64)> {
    if what == RAN {
        let (from, to) = (item.from.max(range.0), item.to.min(range.1));
        return (item.kind == Kind::Running && from < to).then(|| (from, to.abs_diff(from)));
    }
    (range.0 <= item.to && item.to <= range.1).then(|| (item.from, item.extent()))
}

/// Sums up the slices that end in a range of time, as `strata analyze` counts them, by what they are and by name. Of a
/// system call the name is without its object. Unless `tracks` is empty, only slices of these tracks are summed up; of
/// a CPU among them, the threads that had it.
///
/// # Errors
/// The stored slices cannot be read.
pub fn slice_sums(
    model: &Model,
    base: Base,
    (from, to): (i64, i64),
    tracks: &HashSet<usize>,
) -> io::Result<Value> {
    let range = (base.time(from), base.time(to));
    let mut by_number: HashMap<(&'static str, u32), Sum> = HashMap::new();
    let mut left = SLICES_MAX;
    for (at, track) in model.maker.tracks.iter().enumerate() {
        let what = match track.kind {
            TrackKind::Cpu(..) if !tracks.is_empty() => RAN,
            kind => match what_of(kind) {
                Some(what) => what,
                None => continue,
            },
        };
        if !tracks.is_empty() && !tracks.contains(&at) {
            continue;
        }
        let mut tell = |item: Item| {
            let Some((from, length)) = counted(&item, what, range) else {
                return ControlFlow::Continue(());
            };
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            let (min, max, longest) = (length, length, (at, from));
            let sum = Sum { count: 1, total: length, min, max, longest };
            by_number.entry((what, item.name)).and_modify(|all| all.add(&sum)).or_insert(sum);
            ControlFlow::Continue(())
        };
        // What ends at the last moment counts, and may begin then.
        let overlaps = (range.0, range.1.saturating_add(1));
        track.lane.back(&model.maker.store, overlaps, &mut tell)?;
    }
    let mut by_name: BTreeMap<(&str, &str), Sum> = BTreeMap::new();
    for ((what, number), sum) in by_number {
        let text = model.maker.names.text(number);
        let name = match what {
            "system call" => text.split(' ').next().unwrap_or_default(),
            _ => text,
        };
        by_name.entry((what, name)).and_modify(|all| all.add(&sum)).or_insert(sum);
    }
    let mut rows: Vec<_> = by_name.into_iter().collect();
    rows.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.total));
    let is_cut = left == 0 || rows.len() > ROWS_MAX;
    rows.truncate(ROWS_MAX);
    let rows = rows.into_iter().map(|((what, name), sum)| {
        let Sum { count, total, min, max, longest: (track, time) } = sum;
        let time = time.saturating_sub(base.time(0));
        json!({
            "what": what, "name": name, "count": count, "total": total, "min": min, "max": max,
            "track": track, "time": time,
        })
    });
    let rows: Vec<Value> = rows.collect();
    Ok(json!({ "rows": rows, "cut": is_cut }))
}
