//! The report `strata analyze memory`.

use anyhow::{bail, Result};
use clap::Args;
use strata_analyze::reports::malloc_sums::AllocationSum;
use strata_analyze::reports::memory::{
    Allocated, AllocationSite, FaultSite, MemoryCounter, MemoryReport, Row,
};
use strata_analyze::reports::Label;
use strata_report::{Columns, Document, Part, Record, Table, Unit, Value};
use strata_session::stop::Stop;

use super::process_selection::{WantedProcesses, WhoseFlags, OF_PROCESSES};
use super::report_command::{CommonFlags, Made, NamesFlags, EXIT_STATUS};
use super::report_text::show;
use super::rows::{length, name, subject};
use crate::reading::selection::{refused, TIMES};
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::units::{count, counted, size};

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

/// Flags of `strata analyze memory`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{SOURCES}\n{TIMES}\n{EXIT_STATUS}"))]
#[command(mut_arg("filter", refused))]
#[command(mut_arg("of", |of| of.help(OF_PROCESSES)))]
pub struct MemoryFlags {
    #[command(flatten)]
    common: CommonFlags,

    #[command(flatten)]
    whose: WhoseFlags,

    #[command(flatten)]
    names: NamesFlags,
}

/// Makes the report, and returns the exit status.
pub fn run(flags: &MemoryFlags, stop: &Stop) -> Result<u8> {
    if flags.common.selection.filter().is_some() {
        bail!(
            "analyze memory: what is left depends on all records, so --filter selects none. Use --of \
             NAME|NUMBER, --from and --until"
        );
    }
    let (reader, range) = flags.common.open()?;
    let whose = flags.whose.read(&reader, "memory", stop)?;
    let mut counter = MemoryCounter::new(range, flags.names.source(&reader));
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::exit_status::stopped(stop));
    };
    flags.names.say_left_out();
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
        stderr::message(&Message { weight: Weight::Warning, text });
    }
    show(&flags.common, "memory", &made, &document(&memory, &made, flags))?;
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

/// Keeps only the rows of the wanted processes. The kernel's own memory belongs to no process.
fn select(memory: &mut MemoryReport, wanted: &WantedProcesses<'_>) {
    let is_of = |label: &Label| wanted.has(label);
    memory.rows.retain(|row| is_of(&row.label));
    memory.sites.retain(|site| site.label.as_ref().is_some_and(is_of));
    memory.faults.retain(|fault| is_of(&fault.label));
    memory.sums.retain(|sum| is_of(&sum.label));
    (memory.kernel, memory.pages) = (Allocated::default(), (0, 0));
}

fn allocated(of: &Allocated) -> Record {
    vec![
        ("count", of.count.into()),
        ("bytes", of.bytes.into()),
        ("live_count", of.live.into()),
        ("live_bytes", of.live_bytes.into()),
        ("peak_bytes", of.peak_bytes.into()),
    ]
}

fn document(memory: &MemoryReport, made: &Made, flags: &MemoryFlags) -> Document {
    let mut document = Document::new(format!(
        "{} in {}",
        counted(memory.rows.len() as u64, "process"),
        length(made.nanos())
    ));
    let (kernel, (given, back)) = (&memory.kernel, memory.pages);
    document.fact("kernel", Value::Record(allocated(kernel)));
    document.fact("pages_given", given);
    document.fact("pages_taken_back", back);
    document.fact("not_followed", memory.left_out);
    let most = flags.common.rows();
    let shown = first(&memory.rows, most);
    document.rows(rows(shown), memory.rows.len());
    document.push(sites(first(&memory.sites, most)).of(memory.sites.len()));
    document.push(sums(first(&memory.sums, most)).of(memory.sums.len()));
    document.push(faults(first(&memory.faults, most)).of(memory.faults.len()));
    if !memory.faults.is_empty() {
        document.push(regions(shown));
    }
    if kernel.count > 0 {
        document.push(Part::Blank);
        document.push(Part::Line(format!(
            "the kernel: {}, {}; {} left in {}",
            counted(kernel.count, "allocation"),
            size(kernel.bytes),
            size(kernel.live_bytes),
            counted(kernel.live, "allocation")
        )));
    }
    if given + back > 0 {
        document.push(Part::Blank);
        let (given, back) = (count(given), count(back));
        document.push(Part::Line(format!("pages: {given} given out, {back} taken back")));
    }
    for row in memory.rows.iter().filter(|row| row.unknown_frees + row.failed > 0).take(most) {
        document.push(Part::Note(format!(
            "{}: {} of what the trace does not know, {} failed",
            name(&row.label),
            counted(row.unknown_frees, "free"),
            counted(row.failed, "allocation")
        )));
    }
    document
}

fn first<T>(all: &[T], most: usize) -> &[T] {
    all.get(..most).unwrap_or(all)
}

fn rows(rows: &[Row]) -> Table {
    let faults = |row: &Row| row.faults + row.kernel_faults;
    let columns = Columns::new()
        .both("process", "", Unit::Label, |row: &Row| Value::label(&row.label))
        .shown("faults", Unit::SomeCount, |row| faults(row).into())
        .both("heap", "heap_growth_bytes", Unit::Growth, |row| row.heap_growth.into())
        .both("mapped", "mapped_bytes", Unit::Bytes, |row| row.mapped.into())
        .both("unmapped", "unmapped_bytes", Unit::Bytes, |row| row.unmapped.into())
        .shown("allocations", Unit::SomeCount, |row| row.allocated.count.into())
        .shown("allocated", Unit::Bytes, |row| row.allocated.bytes.into())
        .shown("peak", Unit::Bytes, |row| row.allocated.peak_bytes.into())
        .shown("left", Unit::Bytes, |row| row.allocated.live_bytes.into())
        .key("name", |row| subject(&row.label).into())
        .key("count", |row| (faults(row) + row.allocated.count).into())
        .key("errors", |row| row.failed.into())
        .key("faults", |row| row.faults.into())
        .key("kernel_faults", |row| row.kernel_faults.into())
        .nested("fault_regions", |row| {
            let regions = row.regions.iter();
            Value::Record(regions.map(|(it, count)| (it.name(), (*count).into())).collect())
        })
        .nested("allocated", |row| Value::Record(allocated(&row.allocated)))
        .key("failed", |row| row.failed.into())
        .key("unknown_frees", |row| row.unknown_frees.into());
    columns.rows(rows)
}

fn sites(sites: &[AllocationSite]) -> Part {
    let columns = Columns::new()
        .both("left", "live_bytes", Unit::Size, |site: &AllocationSite| {
            site.allocated.live_bytes.into()
        })
        .both("in", "live_count", Unit::Count, |site| site.allocated.live.into())
        .both("allocated", "bytes", Unit::Size, |site| site.allocated.bytes.into())
        .both("allocations", "count", Unit::Count, |site| site.allocated.count.into())
        .both("peak", "peak_bytes", Unit::Size, |site| site.allocated.peak_bytes.into())
        .shown("by", Unit::Label, |site| match &site.label {
            Some(label) => Value::label(label),
            None => Value::text("the kernel"),
        })
        .both("at", "site", Unit::Text, |site| Value::text(&site.site))
        .label_keys(|site| site.label.as_ref().into());
    Part::section("What is left at the end, by who asked for it", "sites", columns.rows(sites))
}

fn sums(sums: &[AllocationSum]) -> Part {
    let columns = Columns::new()
        .both("calls", "count", Unit::Count, |sum: &AllocationSum| sum.count.into())
        .both("bytes", "bytes", Unit::Size, |sum| sum.bytes.into())
        .both("failed", "failed", Unit::Count, |sum| sum.failed.into())
        .both("of", "function", Unit::Text, |sum| sum.function.into())
        .shown("sizes", Unit::RightText, |sum| sizes(sum).into())
        .both("by", "", Unit::Label, |sum| Value::label(&sum.label))
        .both("at", "site", Unit::Text, |sum| Value::text(&sum.site))
        .key("size_min", |sum| sum.sizes.map(|sizes| sizes.0).into())
        .key("size_max", |sum| sum.sizes.map(|sizes| sizes.1).into());
    Part::section("Calls that were counted in the program", "sums", columns.rows(sums))
}

/// Formats the sizes that were requested by calls that are added up: `1 to 64`.
fn sizes(sum: &AllocationSum) -> String {
    match sum.sizes {
        Some((0, 0)) if sum.function == "free" => String::new(),
        Some((from, to)) if from == to => count(from),
        Some((from, u64::MAX)) => format!("{} and more", count(from)),
        Some((from, to)) => format!("{} to {}", count(from), count(to)),
        None => "others".to_owned(),
    }
}

fn faults(faults: &[FaultSite]) -> Part {
    let columns = Columns::new()
        .both("faults", "count", Unit::Count, |fault: &FaultSite| fault.count.into())
        .both("process", "", Unit::Label, |fault| Value::label(&fault.label))
        .both("in", "site", Unit::Text, |fault| Value::text(&fault.site));
    let title = "Page faults of programs, by where they ran";
    Part::section(title, "fault_sites", columns.rows(faults))
}

fn regions(rows: &[Row]) -> Part {
    let regions = rows.iter().flat_map(|row| {
        row.regions.iter().map(move |(region, count)| (&row.label, region.name(), *count))
    });
    let columns = Columns::new()
        .shown("faults", Unit::Count, |(_, _, count): &(&Label, &str, u64)| (*count).into())
        .shown("process", Unit::Label, |(label, _, _)| Value::label(label))
        .shown("of memory", Unit::Text, |(_, region, _)| match *region {
            "unknown" => "that was mapped before, or is the stack".into(),
            "file" => "of a file".into(),
            other => other.into(),
        });
    let regions: Vec<_> = regions.collect();
    Part::shown("Page faults of programs, by what they touched", columns.rows(&regions))
}
