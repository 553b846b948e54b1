//! Finds which threads had the CPU while another one wanted it.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;

use serde_json::{json, Value};

use crate::model::item::{Item, Kind};
use crate::model::lane_builder::TrackKind;
use crate::model::Model;

/// The most runs of one CPU that are summed up, which are the last ones.
const RUNS_MAX: u32 = 1 << 16;
/// The number of threads that are named: those that had the CPU longest.
const NAMED: usize = 5;

/// Sums up which threads ran within a range of time on a CPU; if it is `None`, on all CPUs of the machine. `None` if the
/// trace does not say what any of them did.
///
/// # Errors
/// The stored slices cannot be read.
pub fn who_had_cpu(
    model: &Model,
    machine: u8,
    cpu: Option<u32>,
    (from, to): (i64, i64),
) -> io::Result<Option<Value>> {
    let mut of_threads: HashMap<u64, (u64, u32)> = HashMap::new();
    let mut is_cut = false;
    for track in &model.maker.tracks {
        let TrackKind::Cpu(on, number) = track.kind else { continue };
        if on != machine || cpu.is_some_and(|cpu| cpu != number) {
            continue;
        }
        let mut left = RUNS_MAX;
        let mut tell = |run: Item| {
            if left == 0 {
                is_cut = true;
                return ControlFlow::Break(());
            }
            left -= 1;
            let nanos = run.to.min(to).saturating_sub(run.from.max(from)).max(0).unsigned_abs();
            if run.kind == Kind::Running && nanos > 0 {
                of_threads.entry(run.extra).or_insert((0, run.name)).0 += nanos;
            }
            ControlFlow::Continue(())
        };
        track.lane.back(&model.maker.store, (from, to), &mut tell)?;
    }
    if of_threads.is_empty() {
        return Ok(None);
    }
    let mut all: Vec<(u64, (u64, u32))> = of_threads.into_iter().collect();
    all.sort_unstable_by_key(|&(thread, (nanos, _))| (std::cmp::Reverse(nanos), thread));
    let threads = || model.timeline.world().threads.iter();
    let named = all.iter().take(NAMED).map(|&(thread, (nanos, name))| {
        let mut found = threads().map(|(id, _)| id).filter(|id| id.index() as u64 + 1 == thread);
        let track = found.next().and_then(|id| model.maker.find(TrackKind::States(id)));
        json!({ "name": model.maker.names.text(name), "nanos": nanos, "track": track })
    });
    let named: Vec<Value> = named.collect();
    let others = all.get(NAMED..).unwrap_or_default();
    Ok(Some(json!({
        "cpu": cpu,
        "threads": named,
        "others": others.len(),
        "others_nanos": others.iter().map(|&(_, (nanos, _))| nanos).sum::<u64>(),
        "cut": is_cut,
    })))
}
