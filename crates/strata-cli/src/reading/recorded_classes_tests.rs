//! Compares the table of classes and readers in docs/design/reading.md with the recorders' names and the readers' sources.

use std::fs;
use std::path::{Path, PathBuf};

const GUIDE: &str = "docs/design/reading.md";
const HEADING: &str = "## What recorders write, and who reads it";
/// The table's word for a class that no reader joins to anything; the reason follows it.
const SHOWN: &str = "shown only";

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn source(path: &str) -> String {
    fs::read_to_string(top().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A row of the table: the classes, and who reads them.
struct ClassRow {
    classes: Vec<String>,
    readers: Vec<String>,
    is_shown_only: bool,
}

/// Returns the texts between backquotes.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn rows() -> Vec<ClassRow> {
    let guide = source(GUIDE);
    let (_, section) = guide.split_once(HEADING).expect("the table's section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter(|line| line.starts_with("| `"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [classes, _, readers] = cells.as_slice() else { panic!("three cells: {line}") };
        ClassRow {
            classes: quoted(classes),
            readers: quoted(readers).into_iter().filter(|it| it.ends_with(".rs")).collect(),
            is_shown_only: readers.starts_with(SHOWN),
        }
    };
    lines.map(row).collect()
}

fn fits(pattern: &str, class: &str) -> bool {
    match pattern.split_once('*') {
        Some((front, end)) => class.starts_with(front) && class.ends_with(end),
        None => pattern == class,
    }
}

/// Texts behind `begin`, up to a character that ends them.
fn behind<'s>(text: &'s str, begin: &'s str) -> impl Iterator<Item = &'s str> {
    let end = |rest: &'s str| rest.split([')', '\n']).next().unwrap_or_default();
    text.split(begin).skip(1).map(end)
}

/// Returns all classes that a recorder writes by itself, besides tracepoints of the kernel and of programs.
fn recorded() -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let dump = strata_kernel::statedump::event_classes(0);
    all.extend(dump.into_iter().map(|class| class.name));
    let again = strata_kernel::syscalls::again_classes();
    all.extend(again.iter().map(|(name, _)| (*name).to_owned()));
    all.extend(strata_kernel::syscalls::recorded_names("openat"));
    all.extend(strata_kernel::syscalls::recorded_names("compat_openat"));
    all.extend(strata_kernel::syscalls::recorded_names(&strata_kernel::syscalls::unknown().name));
    all.push(strata_kernel::cpu_samples::NAME.to_owned());
    // ("lttng_ust_lib", "load", …)
    let objects = source("crates/strata-session/src/applications/loaded_objects.rs");
    for call in behind(&objects, "(\"lttng_ust_") {
        let mut words = call.split('"');
        if let (Some(provider), Some(name)) = (words.next(), words.nth(1)) {
            all.push(format!("lttng_ust_{provider}:{name}"));
        }
    }
    // STRATA_EVENT(libc, malloc, …)
    for file in
        ["events.h", "malloc.h", "io.h", "address.h", "dlopen_paths.h", "replaced_function.h"]
    {
        let file = source(&format!("probe/libc/{file}"));
        for event in behind(&file, "\nSTRATA_EVENT(") {
            let mut words = event.split(',').map(str::trim);
            if let (Some(provider), Some(name)) = (words.next(), words.next()) {
                all.push(format!("{provider}:{name}"));
            }
        }
    }
    // .provider = "strata", .name = "thread_name"
    for entry in fs::read_dir(top().join("probe/user/runtime")).expect("the runtime") {
        let path = entry.expect("a file").path();
        let text = fs::read_to_string(&path).expect("a source");
        for tracepoint in text.split("struct strata_tracepoint ").skip(1) {
            let of = |key: &'static str| {
                behind(tracepoint, key).next().and_then(|it| it.split('"').nth(1))
            };
            if let (Some(provider), Some(name)) = (of(".provider = "), of(".name = ")) {
                all.push(format!("{provider}:{name}"));
            }
        }
    }
    all
}

#[test]
fn each_class_that_a_recorder_writes_has_a_reader_or_a_reason() {
    let (rows, recorded) = (rows(), recorded());
    for wanted in
        ["syscall_memory", "lttng_statedump_mount", "strata:thread_name", "lttng_ust_lib:load"]
    {
        assert!(recorded.iter().any(|class| class == wanted), "{wanted} not in {recorded:?}");
    }
    assert!(recorded.iter().filter(|class| class.starts_with("io:")).count() > 40);
    for class in &recorded {
        let of = |row: &&ClassRow| row.classes.iter().any(|pattern| fits(pattern, class));
        let found: Vec<&ClassRow> = rows.iter().filter(of).collect();
        assert!(!found.is_empty(), "{GUIDE}, '{HEADING}': no row of {class}. Who reads it?");
    }
    for row in &rows {
        for pattern in &row.classes {
            let is_recorded = recorded.iter().any(|class| fits(pattern, class));
            assert!(is_recorded, "{GUIDE}: no recorder writes {pattern}");
        }
        assert!(row.is_shown_only || !row.readers.is_empty(), "{:?}", row.classes);
    }
}

#[test]
fn each_reader_in_the_table_knows_its_class() {
    for row in rows().iter().filter(|row| !row.is_shown_only) {
        for reader in &row.readers {
            let text = source(&format!("crates/{reader}"));
            for class in &row.classes {
                let provider = class.split_once(':').map(|(provider, _)| format!("\"{provider}:"));
                // Of these the ends of the names are known, whatever they are of.
                let ends = class.ends_with("_begin") || class.ends_with("_end");
                let needles = [
                    Some(format!("\"{}", class.split('*').next().unwrap_or_default())),
                    provider,
                    ends.then(|| "\"_begin\"".to_owned()),
                ];
                let knows = needles.iter().flatten().any(|needle| text.contains(needle.as_str()));
                assert!(knows, "{reader} does not know {class}");
            }
        }
    }
}
