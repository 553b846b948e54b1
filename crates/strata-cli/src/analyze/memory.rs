//! `strata analyze memory`.

use std::fmt::Write as _;

use anyhow::{bail, Result};
use clap::Args;
use serde_json::{json, Value};
use strata_analyze::reports::memory::{
    Allocated, AllocationSite, FaultSite, MemoryCounter, MemoryReport, Row,
};
use strata_analyze::reports::sums::AllocationSum;
use strata_analyze::reports::Label;
use strata_session::stop::Stop;

use super::common::{CommonFlags, Made, NamesFlags, EXIT_STATUS};
use super::rows::{document, keys, length, more, name, put_sums, section, subject};
use super::whose::{MineFlags, WantedProcesses, Whose, BY_OF};
use crate::reading::selection::{refused, TIMES};
use crate::stats::table::{Align, Table, DIM, HEAD};
use crate::talk;
use crate::talk::messages::{Message, Weight};
use crate::talk::units::{clean, count, counted, size};

const SOURCES: &str = "\
What it is made of:
  page faults   the kernel's page_fault_user and page_fault_kernel:
                memory that was touched for the first time, or that
                was not in RAM
  heap, mapped  the system calls brk, mmap, mremap, munmap
  allocations   of `strata record --libc malloc`, or of LTTng's
                liblttng-ust-libc-wrapper.so: libc:malloc, libc:free…;
                counted ones of `--libc malloc:sum`: libc_sum:calls
  kernel        kmem_kmalloc, kmem_cache_alloc and their frees,
                kmem_mm_page_alloc, kmem_mm_page_free
  What is not recorded is not in the report. What was there before the
  recording began is not known to it: a free of that is counted as one
  of something unknown.
";

/// `strata analyze memory`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{SOURCES}\n{TIMES}\n{EXIT_STATUS}"))]
#[command(mut_arg("filter", refused))]
pub struct MemoryFlags {
    #[command(flatten)]
    common: CommonFlags,

    /// Only processes of this name or number
    #[arg(long, value_name = "NAME|NUMBER")]
    of: Option<String>,

    #[command(flatten)]
    mine: MineFlags,

    #[command(flatten)]
    names: NamesFlags,
}

/// Do it, and give the exit status.
pub fn run(flags: &MemoryFlags, stop: &Stop) -> Result<u8> {
    if flags.common.selection.filter().is_some() {
        bail!(
            "analyze memory: what is left depends on all records, so --filter selects none. Use --of \
             NAME|NUMBER, --from and --until"
        );
    }
    let (reader, range) = flags.common.open()?;
    let whose = Whose::read(flags.of.as_deref(), &flags.mine, &reader, ("memory", BY_OF), stop)?;
    let mut counter = MemoryCounter::new(range, flags.names.source(&reader));
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::talk::exit::stopped(stop));
    };
    let world = made.passed.timeline.world();
    let mut memory = counter.finish(world);
    if whose.is_any() {
        select(&mut memory, &whose.of(world));
    }
    if memory.left_out > 0 {
        let text = format!(
            "{} not followed: too many were there at once",
            counted(memory.left_out, "allocation")
        );
        talk::message(&Message { weight: Weight::Warning, text });
    }
    flags.common.show(|| json(&memory, &made, flags), || text(&memory, &made, flags))?;
    let is_empty = memory.rows.is_empty() && memory.kernel.count == 0 && memory.pages == (0, 0);
    let is_asked = whose.is_any() || flags.common.selection.is_any();
    Ok(made.end(
        is_empty,
        is_asked,
        "nothing about memory fits what was asked for",
        "the traces say nothing about memory. Record that: strata record -k \
                 page_fault_user,syscalls -- COMMAND",
    ))
}

/// What is of these processes; the kernel's own is nobody's.
fn select(memory: &mut MemoryReport, wanted: &WantedProcesses<'_>) {
    let is_of = |label: &Label| wanted.has(label);
    memory.rows.retain(|row| is_of(&row.label));
    memory.sites.retain(|site| site.label.as_ref().is_some_and(is_of));
    memory.faults.retain(|fault| is_of(&fault.label));
    memory.sums.retain(|sum| is_of(&sum.label));
    (memory.kernel, memory.pages) = (Allocated::default(), (0, 0));
}

fn allocated(of: &Allocated) -> Value {
    json!({
        "count": of.count,
        "bytes": of.bytes,
        "live_count": of.live,
        "live_bytes": of.live_bytes,
        "peak_bytes": of.peak_bytes,
    })
}

fn json(memory: &MemoryReport, made: &Made, flags: &MemoryFlags) -> String {
    let row = |row: &Row| {
        let mut map = keys(&row.label);
        let regions: serde_json::Map<String, Value> =
            row.regions.iter().map(|(it, count)| (it.name().to_owned(), json!(count))).collect();
        let count = row.faults + row.kernel_faults + row.allocated.count;
        put_sums(&mut map, subject(&row.label), count, None);
        for (key, value) in [
            ("errors", json!(row.failed)),
            ("faults", json!(row.faults)),
            ("kernel_faults", json!(row.kernel_faults)),
            ("fault_regions", Value::Object(regions)),
            ("heap_growth_bytes", json!(row.heap_growth)),
            ("mapped_bytes", json!(row.mapped)),
            ("unmapped_bytes", json!(row.unmapped)),
            ("allocated", allocated(&row.allocated)),
            ("failed", json!(row.failed)),
            ("unknown_frees", json!(row.unknown_frees)),
        ] {
            map.insert(key.into(), value);
        }
        Value::Object(map)
    };
    let site = |site: &AllocationSite| {
        let mut map = site.label.as_ref().map(keys).unwrap_or_default();
        map.insert("site".into(), json!(site.site));
        if let Value::Object(of) = allocated(&site.allocated) {
            map.extend(of);
        }
        Value::Object(map)
    };
    let fault = |fault: &FaultSite| {
        let mut map = keys(&fault.label);
        map.insert("site".into(), json!(fault.site));
        map.insert("count".into(), json!(fault.count));
        Value::Object(map)
    };
    let sum = |sum: &AllocationSum| {
        let mut map = keys(&sum.label);
        for (key, value) in [
            ("site", json!(sum.site)),
            ("function", json!(sum.function)),
            ("size_min", json!(sum.sizes.map(|sizes| sizes.0))),
            ("size_max", json!(sum.sizes.map(|sizes| sizes.1))),
            ("count", json!(sum.count)),
            ("bytes", json!(sum.bytes)),
            ("failed", json!(sum.failed)),
        ] {
            map.insert(key.into(), value);
        }
        Value::Object(map)
    };
    let rows = flags.common.rows();
    let mut object = made.object("memory");
    object.insert("kernel".into(), allocated(&memory.kernel));
    object.insert("pages_given".into(), json!(memory.pages.0));
    object.insert("pages_taken_back".into(), json!(memory.pages.1));
    object.insert("not_followed".into(), json!(memory.left_out));
    object.insert("rows_count".into(), json!(memory.rows.len()));
    object.insert("rows".into(), memory.rows.iter().take(rows).map(row).collect());
    object.insert("sites_count".into(), json!(memory.sites.len()));
    object.insert("sites".into(), memory.sites.iter().take(rows).map(site).collect());
    object.insert("fault_sites_count".into(), json!(memory.faults.len()));
    object.insert("fault_sites".into(), memory.faults.iter().take(rows).map(fault).collect());
    object.insert("sums_count".into(), json!(memory.sums.len()));
    object.insert("sums".into(), memory.sums.iter().take(rows).map(sum).collect());
    document(object)
}

fn text(memory: &MemoryReport, made: &Made, flags: &MemoryFlags) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{HEAD}{} in {}{HEAD:#}\n",
        counted(memory.rows.len() as u64, "process"),
        length(made.nanos())
    );
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("process", left),
        ("faults", right),
        ("heap", right),
        ("mapped", right),
        ("unmapped", right),
        ("allocations", right),
        ("allocated", right),
        ("peak", right),
        ("left", right),
    ]);
    let rows = flags.common.rows();
    let some = |number: u64| if number > 0 { count(number) } else { String::new() };
    let bytes = |number: u64| if number > 0 { size(number) } else { String::new() };
    for row in memory.rows.iter().take(rows) {
        let sign = if row.heap_growth < 0 { "-" } else { "+" };
        let heap = row.heap_growth.unsigned_abs();
        table.row([
            name(&row.label).into(),
            some(row.faults + row.kernel_faults).into(),
            if heap > 0 { format!("{sign}{}", size(heap)) } else { String::new() }.into(),
            bytes(row.mapped).into(),
            bytes(row.unmapped).into(),
            some(row.allocated.count).into(),
            bytes(row.allocated.bytes).into(),
            bytes(row.allocated.peak_bytes).into(),
            bytes(row.allocated.live_bytes).into(),
        ]);
    }
    table.write(&mut out);
    more(&mut out, memory.rows.len(), rows);
    sites(&mut out, memory, rows);
    sums(&mut out, memory, rows);
    faults(&mut out, memory, rows);
    if memory.kernel.count > 0 {
        let _ = writeln!(
            out,
            "\nthe kernel: {}, {}; {} left in {}",
            counted(memory.kernel.count, "allocation"),
            size(memory.kernel.bytes),
            size(memory.kernel.live_bytes),
            counted(memory.kernel.live, "allocation")
        );
    }
    let (given, back) = memory.pages;
    if given + back > 0 {
        let _ = writeln!(out, "\npages: {} given out, {} taken back", count(given), count(back));
    }
    for row in memory.rows.iter().filter(|row| row.unknown_frees + row.failed > 0).take(rows) {
        let _ = writeln!(
            out,
            "{DIM}{}: {} of what the trace does not know, {} failed{DIM:#}",
            name(&row.label),
            counted(row.unknown_frees, "free"),
            counted(row.failed, "allocation")
        );
    }
    out
}

fn sites(out: &mut String, memory: &MemoryReport, rows: usize) {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("left", right),
        ("in", right),
        ("allocated", right),
        ("allocations", right),
        ("peak", right),
        ("by", left),
        ("at", left),
    ]);
    for site in memory.sites.iter().take(rows) {
        let of = &site.allocated;
        table.row([
            size(of.live_bytes).into(),
            count(of.live).into(),
            size(of.bytes).into(),
            count(of.count).into(),
            size(of.peak_bytes).into(),
            site.label.as_ref().map_or("the kernel".to_owned(), name).into(),
            clean(&site.site).into(),
        ]);
    }
    section(out, "What is left at the end, by who asked for it", &table);
    more(out, memory.sites.len(), rows);
}

fn sums(out: &mut String, memory: &MemoryReport, rows: usize) {
    if memory.sums.is_empty() {
        return;
    }
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("calls", right),
        ("bytes", right),
        ("failed", right),
        ("of", left),
        ("sizes", right),
        ("by", left),
        ("at", left),
    ]);
    for sum in memory.sums.iter().take(rows) {
        table.row([
            count(sum.count).into(),
            size(sum.bytes).into(),
            count(sum.failed).into(),
            sum.function.to_owned().into(),
            match sum.sizes {
                Some((from, to)) if sum.function == "free" && to == 0 && from == 0 => String::new(),
                Some((from, to)) if from == to => count(from),
                Some((from, u64::MAX)) => format!("{} and more", count(from)),
                Some((from, to)) => format!("{} to {}", count(from), count(to)),
                None => "others".to_owned(),
            }
            .into(),
            name(&sum.label).into(),
            clean(&sum.site).into(),
        ]);
    }
    section(out, "Calls that were counted in the program", &table);
    more(out, memory.sums.len(), rows);
}

fn faults(out: &mut String, memory: &MemoryReport, rows: usize) {
    if memory.faults.is_empty() {
        return;
    }
    let mut table =
        Table::new(&[("faults", Align::Right), ("process", Align::Left), ("in", Align::Left)]);
    for fault in memory.faults.iter().take(rows) {
        table.row([
            count(fault.count).into(),
            name(&fault.label).into(),
            clean(&fault.site).into(),
        ]);
    }
    section(out, "Page faults of programs, by where they ran", &table);
    more(out, memory.faults.len(), rows);
    let mut table = Table::new(&[
        ("faults", Align::Right),
        ("process", Align::Left),
        ("of memory", Align::Left),
    ]);
    for row in memory.rows.iter().take(rows) {
        for (region, number) in &row.regions {
            let what = match region.name() {
                "unknown" => "that was mapped before, or is the stack",
                "file" => "of a file",
                other => other,
            };
            table.row([count(*number).into(), name(&row.label).into(), what.to_owned().into()]);
        }
    }
    section(out, "Page faults of programs, by what they touched", &table);
}
