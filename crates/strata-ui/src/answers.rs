//! Answers to the page's requests: JSON and tiles that are made from the model of a trace.
//!
//! ```text
//! server: route, token ──▶ answers ──▶ body            Model: tracks, names, gaps, counts over time, sums
//!   tile, tiles   ── items of a lane at a level          ── lane.items(): from memory, or blocks of a file
//!   tracks, names ── rows from a number on, up to a limit   the page asks again until it has all
//!   slice         ── one slice, as facts in words; SliceFound has the range in which its records are searched
//!   path, sums    ── critical path, and time in states, of a range
//!   meta, overview ── the trace, how much of it was read, gaps
//! ```
//!
//! # Times
//! The page's times are nanoseconds since [`Base`], so that a browser's numbers hold them exactly. Base is a
//! multiple of the widest tile's width. So a tile's index and level say its time, and tiles that were fetched
//! stay valid while a trace grows.
//!
//! # A trace that is still being read
//! Every function takes a [`Model`] that the caller has locked for reading; the pass waits for that lock between
//! two portions of records. An answer is true of that moment: sums and counts grow, and a tile whose time was not
//! read yet must be fetched again, which bit 0 of its flags says. The slice that is open at the end (a thread's
//! state, its call) is in no lane yet, and is added to a tile by `open_slice`.
//!
//! # Cost
//! What an answer costs depends on the width of the picture and not on the length of the trace: a tile has at
//! most some two items for each of its [`CELLS`] cells, and lists have limits (`TRACKS`, `NAMES`, `GAPS`). The
//! functions read files of stored slices, and so the server calls them in a blocking thread of tokio.
//!
//! The layout of tiles is in docs/design/ui-api.md. If it changes, or the meaning of an answer does, [`VERSION`]
//! changes.

pub(crate) mod critical_path;
pub(crate) mod who_had_cpu;

use std::io;

use serde::Serialize;
use serde_json::{json, Value};
use strata_timeline::{CounterPlace, ThreadId, World};

use crate::answers::who_had_cpu::who_had_cpu;
use crate::model::counter_coding::value;
use crate::model::guests::as_json;
use crate::model::item::{Item, Kind, KINDS};
use crate::model::item_coding::put_item;
use crate::model::lane::Lane;
use crate::model::lane_builder::{Track, TrackKind, SOFTIRQS};
use crate::model::Model;

/// Version of the layout of tiles and of all other answers; a page with another version sends requests that do not
/// exist.
pub const VERSION: u32 = 3;
/// Number of cells of a tile.
pub const CELLS: i64 = 512;
/// The highest level of a tile; a cell at a level is 2^level ns wide.
pub const LEVEL_MAX: u8 = 43;
/// The most tracks in one answer.
const TRACKS: usize = 5000;
/// The most names in one answer.
const NAMES: usize = 5000;
/// The most gaps in one answer.
const GAPS: usize = 10_000;
const MAGIC: [u8; 4] = *b"STL1";

/// Time from which the page's times count: a multiple of the widest tile, so that tiles also begin at multiples of
/// their width relative to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base(pub i64);

impl Base {
    /// Chooses the base for a trace that begins at `begin`.
    #[must_use]
    pub fn of(begin: i64) -> Base {
        let bits = u32::from(LEVEL_MAX) + CELLS.ilog2();
        Base(begin >> bits << bits)
    }

    fn since(self, time: i64) -> i64 {
        time.saturating_sub(self.0)
    }

    /// Converts a time of the page, which counts from the base, to nanoseconds since 1970.
    #[must_use]
    pub fn time(self, since: i64) -> i64 {
        self.0.saturating_add(since)
    }
}

/// Encodes one tile: all items of a track that overlap the tile's time. Returns `None` if there is no such track or
/// level.
///
/// # Errors
/// The stored slices cannot be read.
pub fn tile(
    model: &Model,
    base: Base,
    (track, level, index): (u32, u8, i64),
) -> io::Result<Option<Vec<u8>>> {
    let found = usize::try_from(track).ok().and_then(|at| model.maker.tracks.get(at));
    let Some(track_of) = found.filter(|_| level <= LEVEL_MAX) else { return Ok(None) };
    let Some(begin) = index.checked_mul(CELLS << level).map(|since| base.time(since)) else {
        return Ok(None);
    };
    let range = (begin, begin.saturating_add(CELLS << level));
    let mut items = track_of.lane.items(&model.maker.store, level, range)?;
    items.extend(open_slice(model, track_of).filter(|it| it.from < range.1 && it.to >= range.0));
    let flags = u8::from(model.is_done) | u8::from(track_of.lane.is_counter) << 1;
    Ok(Some(tile_of(&items, (track, level, flags), (begin, base.since(begin)))))
}

/// Returns the slice that is open at the end of a trace that is still being read: the state of a thread, its call, or
/// the thread of a CPU.
fn open_slice(model: &Model, track: &Track) -> Option<Item> {
    let world = model.timeline.world();
    let open = match track.kind {
        _ if model.is_done => None,
        TrackKind::States(thread) => model.maker.open_state(world, thread),
        TrackKind::Calls(thread) => model.maker.open_call(world, thread),
        TrackKind::Cpu(machine, cpu) => {
            let runs = model.timeline.runs_on(machine, cpu);
            model.maker.open_run(world, track.lane.to, runs)
        }
        _ => None,
    };
    // After a gap it is unknown.
    open.filter(|it| it.to > it.from && model.gaps.end().is_none_or(|end| end <= it.from))
}

/// Encodes a tile: its head, and its items. The time `begin` of the tile is given in ns since 1970, and as `since`
/// relative to the base.
#[must_use]
pub fn tile_of(
    items: &[Item],
    (track, level, flags): (u32, u8, u8),
    (begin, since): (i64, i64),
) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend([level, flags, 0, 0]);
    out.extend(track.to_le_bytes());
    out.extend(u32::try_from(items.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(since.to_le_bytes());
    let mut before = begin;
    for item in items {
        put_item(&mut out, item, before);
        before = item.to;
    }
    out
}

/// Returns the description of the trace, and the progress of reading it.
#[must_use]
pub fn meta(
    model: &Model,
    base: Base,
    (id, title, typed): (&str, &str, &str),
    (span, bytes): ((i64, i64), u64),
) -> Value {
    let world = model.timeline.world();
    let (from, to) = (
        world.begin.unwrap_or(span.0),
        if model.is_done || model.is_live { world.now } else { span.1 },
    );
    let damage: Vec<&String> = model.damage.iter().take(20).collect();
    json!({
        "version": VERSION,
        "id": id,
        "title": title,
        "typed": typed,
        "base": base.0.to_string(),
        "from": base.since(from),
        "to": base.since(to.max(from)),
        "done": model.is_done,
        "live": model.is_live,
        "read": model.bytes,
        "bytes": bytes,
        "records": model.records,
        "reading_ms": u64::try_from(model.reading.as_millis()).unwrap_or(u64::MAX),
        "discarded": model.discarded,
        "packets": model.packets,
        "damage": damage,
        "damages": model.damages,
        "left_out": model.maker.left_out,
        "failure": model.maker.failure.as_ref().map(ToString::to_string),
        "machines": world.machines,
        "guests": as_json(&model.guests),
        "tracks": model.maker.tracks.len(),
        "names": model.maker.names.after(0, usize::MAX).count(),
    })
}

/// Row of a track in the list that the page requests.
#[derive(Debug, Serialize)]
pub struct TrackRow {
    id: usize,
    kind: &'static str,
    /// Name of the group in which the page shows the track: a machine's CPUs, or a process.
    group: String,
    /// Heading of the track.
    title: String,
    label: String,
    pid: Option<i32>,
    tid: Option<i32>,
    /// Number of the machine.
    machine: u8,
    /// True if only the recorded command and its descendants are shown.
    mine: bool,
    depth: u32,
    count: u64,
    from: i64,
    to: i64,
    /// Time in slices by their kind \[ns\].
    sums: [u64; KINDS],
}

fn machine_of(world: &World, machine: u8) -> &str {
    let is_only = world.machines.len() < 2;
    let name = world.machines.get(usize::from(machine)).filter(|_| !is_only);
    name.map_or("", String::as_str)
}

/// Returns the row of a track: its group, the group's heading, and its own label.
fn row(model: &Model, at: usize, track: &Track, base: Base) -> TrackRow {
    let world = model.timeline.world();
    let Lane { sums, count, from, to, .. } = &track.lane;
    let mut row = TrackRow {
        id: at,
        kind: "",
        group: String::new(),
        title: String::new(),
        label: String::new(),
        pid: None,
        tid: None,
        machine: 0,
        mine: false,
        depth: 0,
        count: *count,
        from: base.since(*from),
        to: base.since((*to).max(*from)),
        sums: *sums,
    };
    let on_machine = |text: &str, machine| match machine_of(world, machine) {
        "" => text.to_owned(),
        name => format!("{text} · {name}"),
    };
    match track.kind {
        TrackKind::Cpu(machine, cpu)
        | TrackKind::Interrupts(machine, cpu)
        | TrackKind::Softirqs(machine, cpu) => {
            (row.kind, row.label) = match track.kind {
                TrackKind::Cpu(..) => ("cpu", format!("CPU {cpu}")),
                TrackKind::Interrupts(..) => ("irq", "interrupts".to_owned()),
                _ => ("softirq", "softirqs".to_owned()),
            };
            (row.depth, row.machine) = (cpu, machine);
            row.group = format!("cpus-{machine}");
            row.title = on_machine("CPUs", machine);
        }
        TrackKind::Disk(machine, device, depth) => {
            row.kind = "disk";
            row.label = world.disk_name(machine, device);
            (row.depth, row.machine) = (depth, machine);
            row.group = format!("disks-{machine}");
            row.title = on_machine("Disks", machine);
        }
        TrackKind::States(thread) => of_thread(world, &mut row, thread, "thread"),
        TrackKind::Calls(thread) => of_thread(world, &mut row, thread, "calls"),
        TrackKind::Spans(thread, depth) => {
            of_thread(world, &mut row, thread, "span");
            row.depth = depth;
        }
        TrackKind::Samples(thread) => of_thread(world, &mut row, thread, "samples"),
        TrackKind::Counter(name, place) => {
            match place {
                CounterPlace::Process(process) => of_thread(world, &mut row, process, "counter"),
                CounterPlace::Cpu { machine, cpu } => {
                    row.group = format!("counters-{machine}");
                    row.title = on_machine("Counters of CPUs", machine);
                    row.depth = cpu;
                }
                CounterPlace::Stream(_) => {
                    (row.group, row.title) = ("counters".into(), "Counters".into());
                }
            }
            row.kind = "counter";
            row.tid = None;
            row.label = world.names.text(name);
            if let CounterPlace::Cpu { cpu, .. } = place {
                row.label = format!("{} · CPU {cpu}", row.label);
            }
        }
        TrackKind::Keyed(name, process, depth) => {
            match process {
                Some(process) => of_thread(world, &mut row, process, "keyed"),
                None => {
                    (row.kind, row.group, row.title) = ("keyed", "spans".into(), "Spans".into())
                }
            }
            row.tid = None;
            row.label = world.names.text(name);
            row.depth = depth;
        }
    }
    let thread = match track.kind {
        TrackKind::States(thread)
        | TrackKind::Calls(thread)
        | TrackKind::Spans(thread, _)
        | TrackKind::Samples(thread)
        | TrackKind::Keyed(_, Some(thread), _)
        | TrackKind::Counter(_, CounterPlace::Process(thread)) => Some(thread),
        _ => None,
    };
    row.mine = thread.is_some_and(|thread| model.recorders.have_started(world, thread));
    row
}

fn of_thread(world: &World, row: &mut TrackRow, thread: ThreadId, kind: &'static str) {
    let process = world.process_of(thread);
    row.kind = kind;
    row.tid = world.threads.get(thread).map(|it| it.tid);
    let name = world.thread_name(thread);
    row.label = if name.is_empty() { "thread".to_owned() } else { name };
    let main = world.threads.get(process);
    let is_of_kernel = main.is_some_and(|main| world.is_of_kernel(main));
    let machine = main.map_or(0, |main| main.machine);
    row.machine = machine;
    if is_of_kernel {
        row.group = format!("kernel-{machine}");
        row.title = "Kernel threads".to_owned();
    } else {
        row.group = format!("process-{}", process.index());
        row.pid = main.map(|main| main.tid);
        let name = world.process_name(thread);
        row.title = if name.is_empty() { "process".to_owned() } else { name };
    }
    let name = machine_of(world, machine);
    if !name.is_empty() {
        row.title = format!("{} · {name}", row.title);
    }
}

/// Returns the rows of the tracks whose numbers `is_wanted` accepts.
#[must_use]
pub fn rows(model: &Model, base: Base, is_wanted: impl Fn(usize) -> bool) -> Vec<TrackRow> {
    let all = model.maker.tracks.iter().enumerate().filter(|(at, _)| is_wanted(*at));
    all.map(|(at, track)| row(model, at, track, base)).collect()
}

/// Returns tracks from number `after` on, up to a limit.
#[must_use]
pub fn tracks(model: &Model, base: Base, after: usize) -> Value {
    let all = model.maker.tracks.iter().enumerate().skip(after).take(TRACKS);
    let rows: Vec<TrackRow> = all.map(|(at, track)| row(model, at, track, base)).collect();
    json!({ "tracks": rows, "all": model.maker.tracks.len() })
}

/// Returns names from number `from` on, up to a limit.
#[must_use]
pub fn names(model: &Model, from: usize) -> Value {
    let names: Vec<&str> = model.maker.names.after(from, NAMES).collect();
    json!({ "from": from, "names": names })
}

/// Returns the number of records over time, and the gaps.
#[must_use]
pub fn overview(model: &Model, base: Base) -> Value {
    let (from, width, counts) = model.overview.columns();
    let gaps = model.gaps.all().iter().take(GAPS).map(|gap| {
        let source = model.streams.get(gap.stream);
        let process = source.filter(|source| !source.is_kernel).and_then(|source| source.process);
        json!({
            "from": base.since(gap.from),
            "to": base.since(gap.to),
            "count": gap.count,
            "packets": gap.is_packets,
            "cpu": gap.cpu,
            "kernel": source.is_some_and(|source| source.is_kernel),
            "machine": source.map_or(0, |source| source.machine),
            "pid": process,
        })
    });
    let gaps: Vec<Value> = gaps.collect();
    let stretches = model.overview.stretches().iter();
    let stretches: Vec<Value> = stretches
        .map(|&(from, to)| json!({ "from": base.since(from), "to": base.since(to) }))
        .collect();
    json!({
        "stretches": stretches,
        "from": base.since(from),
        "width": width,
        "counts": counts,
        "gaps": gaps,
        "all_gaps": model.gaps.all().len(),
    })
}

/// Sums up how long each thread was in each state within a range of time; threads that did nothing are left out.
///
/// # Errors
/// The stored slices cannot be read.
pub fn sums(model: &Model, base: Base, (from, to): (i64, i64)) -> io::Result<Value> {
    let world = model.timeline.world();
    let range = (base.time(from), base.time(to));
    let mut rows = Vec::new();
    for (at, track) in model.maker.tracks.iter().enumerate() {
        let TrackKind::States(thread) = track.kind else { continue };
        let sums = track.lane.sums_in(&model.maker.store, range)?;
        if sums.iter().any(|&sum| sum > 0) {
            let row = row(model, at, track, base);
            let process = world.process_name(thread);
            rows.push(json!({
                "track": at, "thread": row.label, "tid": row.tid, "process": process, "pid": row.pid,
                "machine": machine_of(world, row.machine), "sums": sums,
            }));
        }
    }
    Ok(json!({ "from": from, "to": to, "threads": rows }))
}

/// The softirq that finishes requests to disks.
const DISK_SOFTIRQ: u64 = 4;
/// Advice for a wait that a disk has ended, in a trace without requests to disks.
const DISK_HINT: &str = "is not recorded: strata record -a -k 'default,block_rq_*' shows the requests, and whose they are";

/// Returns the name of a softirq, and the work that it does.
fn softirq(number: u64) -> String {
    let name = usize::try_from(number).ok().and_then(|at| SOFTIRQS.get(at));
    let of = match number {
        1 | 8 => "a timer: ",
        2 | 3 => "the network: ",
        DISK_SOFTIRQ => "a disk: ",
        _ => "",
    };
    match name {
        Some(name) => format!("{of}softirq {number} ({name})"),
        None => format!("softirq {number}"),
    }
}

/// Returns the slice of a track at a time, with its times since 1970 to search for its records.
///
/// # Errors
/// The stored slices cannot be read.
pub fn slice(model: &Model, base: Base, track: u32, time: i64) -> io::Result<Option<SliceFound>> {
    let found = usize::try_from(track).ok().and_then(|at| model.maker.tracks.get(at));
    let Some(track_of) = found else { return Ok(None) };
    let Some(item) = track_of.lane.slice_at(&model.maker.store, base.time(time))? else {
        return Ok(None);
    };
    let (world, maker) = (model.timeline.world(), &model.maker);
    let row = row(model, track as usize, track_of, base);
    let mut facts: Vec<(&str, String)> = Vec::new();
    let who = |thread: usize| {
        let found = world.threads.iter().find(|(id, _)| id.index() == thread);
        let (id, thread_of) = found?;
        let states = maker.find(TrackKind::States(id));
        let process = world.process_name(id);
        let text = format!("{} {} of {process}", world.thread_name(id), thread_of.tid);
        Some((text, states))
    };
    let mut had_cpu = None;
    let mut to_track = None;
    let mut link = |number: u64| {
        let found = usize::try_from(number).ok().and_then(who);
        to_track = found.as_ref().and_then(|(_, track)| *track);
        found.map(|(text, _)| text)
    };
    match track_of.kind {
        TrackKind::Cpu(..) => {
            if let Some(text) = item.extra.checked_sub(1).and_then(&mut link) {
                facts.push(("thread", text));
            }
        }
        TrackKind::Interrupts(..) | TrackKind::Softirqs(..) => {
            if let Some(text) = item.extra.checked_sub(1).and_then(&mut link) {
                facts.push(("interrupted", text));
            }
        }
        TrackKind::Calls(_) => {
            if let Some(result) = item.extra.checked_sub(1) {
                facts.push((
                    "returned",
                    ((result >> 1) as i64 ^ -((result & 1) as i64)).to_string(),
                ));
            }
        }
        TrackKind::Disk(..) => facts.push(("bytes", item.extra.to_string())),
        TrackKind::States(thread) => match item.kind {
            Kind::Running | Kind::Woken | Kind::Preempted => {
                let cpu = item.extra.checked_sub(1);
                if item.kind != Kind::Running {
                    let machine = world.threads.get(thread).map_or(0, |it| it.machine);
                    let cpu = cpu.and_then(|cpu| u32::try_from(cpu).ok());
                    had_cpu = who_had_cpu(model, machine, cpu, (item.from, item.to))?;
                }
                if let Some(cpu) = cpu {
                    let what = if item.kind == Kind::Running { "on CPU" } else { "got CPU" };
                    facts.push((what, cpu.to_string()));
                }
            }
            Kind::Blocked | Kind::Uninterruptible => {
                let number = item.extra >> 3;
                let timer = maker.has_timed_out(thread, item.from);
                let text = match item.extra & 7 {
                    _ if timer => "a timer".to_owned(),
                    kind @ (1 | 2) => {
                        let text = link(number).unwrap_or_default();
                        if kind == 2 {
                            text
                        } else {
                            format!("{text}, or an interrupt while it ran")
                        }
                    }
                    3 => {
                        let machine = world.threads.get(thread).map_or(0, |it| it.machine);
                        let name = world.interrupt_name(machine, number.try_into().unwrap_or(-1));
                        match name.is_empty() {
                            true => format!("device, interrupt {number}"),
                            false => format!("device {name}, interrupt {number}"),
                        }
                    }
                    4 => softirq(number),
                    5 => "a timer".to_owned(),
                    6 => "an interrupt".to_owned(),
                    _ => "the trace does not say".to_owned(),
                };
                facts.push(("ended by", text));
                let is_of_disk = item.extra & 7 == 4 && number == DISK_SOFTIRQ && !timer;
                let mut tracks = maker.tracks.iter();
                if is_of_disk && !tracks.any(|track| matches!(track.kind, TrackKind::Disk(..))) {
                    facts.push(("what the disk did", DISK_HINT.to_owned()));
                }
            }
            _ => {}
        },
        TrackKind::Counter(..) => facts.push(("value", value(item.extra).to_string())),
        TrackKind::Spans(..) | TrackKind::Keyed(..) | TrackKind::Samples(_) => {}
    }
    let thread = match track_of.kind {
        TrackKind::States(thread)
        | TrackKind::Calls(thread)
        | TrackKind::Spans(thread, _)
        | TrackKind::Samples(thread) => Some(thread),
        _ => None,
    };
    let tid = thread.and_then(|thread| world.threads.get(thread)).map(|it| it.tid);
    let said = json!({
        "track": track,
        "title": row.title,
        "label": row.label,
        "track_kind": row.kind,
        "tid": row.tid,
        "pid": row.pid,
        "from": base.since(item.from),
        "to": base.since(item.to),
        "kind": item.kind.number(),
        "name": maker.names.text(item.name),
        "facts": facts,
        "to_track": to_track,
        "had_cpu": had_cpu,
    });
    Ok(Some(SliceFound { said, from: item.from, to: item.to, tid }))
}

/// Returns the critical path of a track's thread between two times. `None` if there is no such track, or it has no
/// thread.
///
/// # Errors
/// The stored slices cannot be read.
pub fn path(
    model: &Model,
    base: Base,
    track: u32,
    (from, to): (i64, i64),
) -> io::Result<Option<Value>> {
    let found = usize::try_from(track).ok().and_then(|at| model.maker.tracks.get(at));
    let Some(TrackKind::States(thread) | TrackKind::Calls(thread) | TrackKind::Spans(thread, _)) =
        found.map(|track| track.kind)
    else {
        return Ok(None);
    };
    let (world, maker) = (model.timeline.world(), &model.maker);
    let range = (base.time(from), base.time(to));
    let found = crate::answers::critical_path::path(maker, world, thread, range)?;
    let steps = found.steps.iter().map(|step| {
        let (from, to) = (base.since(step.from), base.since(step.to));
        json!({
            "track": step.track, "from": from, "to": to, "kind": step.kind.number(),
            "name": maker.names.text(step.name), "depth": step.depth,
        })
    });
    let steps: Vec<Value> = steps.collect();
    Ok(Some(json!({ "from": from, "to": to, "cut": found.is_cut, "steps": steps })))
}

/// A slice, and the range in which its records are searched.
#[derive(Debug)]
pub struct SliceFound {
    /// Description of the slice for the page.
    pub said: Value,
    /// Begin of the slice \[ns since 1970\].
    pub from: i64,
    /// End of the slice \[ns since 1970\].
    pub to: i64,
    /// Id of the thread that the slice belongs to.
    pub tid: Option<i32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tile_has_the_bytes_that_the_page_s_test_reads() {
        // ui/test/tile.test.ts
        let wanted = include_str!("../../../ui/test/tile.hex").trim();
        let base = Base::of(1_795_963_306_215_185_171);
        let slice = |from, to, kind, name, extra| {
            Item::slice(base.time(from), base.time(to), kind, name, extra)
        };
        let mut cell = slice(5000, 5450, Kind::Busy, 7, 0);
        (cell.count, cell.longest, cell.sums) = (3, 200, [50, 0, 0, 0, 0, 0, 0, 300]);
        let items = [
            slice(100, 3100, Kind::Blocked, 300, 42),
            cell,
            slice(2_000_000, 3_000_000, Kind::Running, 2, 0),
        ];
        let tile = tile_of(&items, (1, 10, 1), (base.time(0), 0));
        let hex: String = tile.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, wanted);
    }

    #[test]
    fn times_since_the_base_are_numbers_of_a_browser_and_tiles_begin_at_multiples_of_their_width() {
        for begin in [0, 1, -1, i64::MIN + 5, 1_795_963_306_215_185_171, i64::MAX] {
            let base = Base::of(begin);
            let since = base.since(begin);
            assert!((0..1 << 53).contains(&since), "{begin}");
            for level in [0, 10, LEVEL_MAX] {
                assert_eq!(base.0.rem_euclid(CELLS << level), 0, "{begin}, level {level}");
            }
            assert_eq!(base.time(since), begin);
        }
    }
}
