use super::perfetto_remarks::OVERLAPS_SHOWN;
use super::*;
use crate::flags::{Action, Flags};
use clap::Parser as _;
use std::fs;
use strata_export::perfetto::{Overlap, Summary};

fn parse(arguments: &[&str]) -> Result<ExportFlags, String> {
    let all = ["strata", "export"].iter().chain(arguments);
    match Flags::try_parse_from(all).map_err(|error| error.to_string())?.action {
        Action::Export(flags) => Ok(flags),
        other => Err(format!("{other:?}")),
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("strata-export-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn flags_without_a_format_or_with_a_wrong_rule_say_what_is_right() {
    for arguments in [&["trace"][..], &[]] {
        let all = ["strata", "export"].iter().chain(arguments);
        let said = crate::stderr::messages::usage(&Flags::try_parse_from(all).unwrap_err(), &[]);
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("  --to ")).collect();
        assert_eq!(lines.len(), ExportFormat::value_variants().len(), "{said}");
        assert!(lines[0].starts_with("  --to perfetto  ") && lines[0].contains("ui.perfetto.dev"));
        assert!(said.contains("strata:") && lines.iter().all(|line| line.len() > 30), "{said}");
    }
    // That is not what is wrong here.
    let all = ["strata", "export", "--to", "csv"];
    let said = crate::stderr::messages::usage(&Flags::try_parse_from(all).unwrap_err(), &[]);
    assert!(said.contains("<TRACE>") && !said.contains("perfetto"), "{said}");
    assert!(parse(&["--to", "xml", "trace"]).unwrap_err().contains("perfetto"));
    let pair = parse(&["--to", "perfetto", "--pair", "a", "trace"]).unwrap_err();
    assert!(pair.contains("BEGIN=END"), "{pair}");
    let counter = parse(&["--to", "perfetto", "--counter", "", "trace"]).unwrap_err();
    assert!(counter.contains("EVENT.FIELD"), "{counter}");
}

#[test]
fn flags_for_perfetto_with_another_format_are_refused() {
    for flag in [&["--no-pairs"][..], &["--pair", "a=b"], &["--counter", "x"]] {
        let flags = parse(&[&["--to", "json"], flag, &["trace"]].concat()).unwrap();
        assert!(run(&flags).unwrap_err().to_string().contains("--to perfetto"));
    }
    let flags = parse(&["--to", "csv", "--no-events", "trace"]).unwrap();
    assert!(run(&flags).unwrap_err().to_string().contains("--to sqlite"));
    let flags = parse(&["--to", "json", "--protobuf", "trace"]).unwrap();
    assert!(run(&flags).unwrap_err().to_string().contains("--to otlp"));
    let flags = parse(&["--to", "otlp", "--limit", "1", "trace"]).unwrap();
    assert!(run(&flags).unwrap_err().to_string().contains("--limit counts events"));
    let flags = parse(&["--to", "csv", "-o", "http://localhost:4318", "trace"]).unwrap();
    assert!(run(&flags).unwrap_err().to_string().contains("is for --to otlp"));
    for format in ["perfetto", "sqlite", "ctf", "otlp"] {
        let flags = parse(&["--to", format, "--thread-names", "trace"]).unwrap();
        assert!(run(&flags).unwrap_err().to_string().contains("--to json"));
    }
}

#[test]
fn database_goes_to_a_plain_file_only() {
    let flags = parse(&["--to", "sqlite", "-o", "-", "trace"]).unwrap();
    let said = run(&flags).unwrap_err().to_string();
    assert!(said.contains("front to back") && said.contains("-o FILE"), "{said}");
    let folder = folder("database");
    let output = sqlite::create(&folder.join("x.sqlite"), false).unwrap();
    assert_eq!(names(&folder), [output.path().file_name().unwrap().to_str().unwrap()]);
    drop(output);
    // Nobody opens the pipe's other end.
    let pipe = folder.join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for special in [pipe.as_path(), Path::new("/dev/null")] {
        let said = sqlite::create(special, true).unwrap_err().to_string();
        assert!(said.contains(&format!("{} is no plain file", special.display())), "{said}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// SQLite would do to the new database what the journal of an old one says.
#[test]
fn database_beside_the_journal_of_another_one_is_refused() {
    let folder = folder("journal");
    let (path, link) = (folder.join("x.sqlite"), folder.join("link"));
    fs::write(&path, b"old").unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for suffix in ["-journal", "-wal"] {
        let journal = folder.join(format!("x.sqlite{suffix}"));
        let output = sqlite::create(&path, true).unwrap();
        fs::write(&journal, b"").unwrap();
        let open = |name| sqlite::create(name, true).unwrap_err().to_string();
        for said in [sqlite::finish(output).unwrap_err().to_string(), open(&path), open(&link)] {
            assert!(said.contains(&journal.display().to_string()), "{said}");
        }
        fs::remove_file(&journal).unwrap();
    }
    assert_eq!((fs::read(&path).unwrap(), names(&folder).len()), (b"old".to_vec(), 2));
    sqlite::finish(sqlite::create(&link, true).unwrap()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn remarks_of_a_database_say_what_it_lacks_and_where_that_is_reported() {
    let summary = sql::Summary { events: 5, bytes: 8192, ..sql::Summary::default() };
    assert!(sqlite::remarks(&summary).is_empty());
    let summary = sql::Summary { discarded: 1200, packets: 1, cut: 1, ..summary };
    let said = sqlite::remarks(&summary);
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].contains("1,200 event records") && said[0].contains("'discarded'"), "{said:?}");
    assert!(said[1].starts_with("1 packet discarded"), "{said:?}");
    assert!(said[2].contains("16 MiB"), "{said:?}");
}

#[test]
fn question_to_a_database_of_any_name_is_one_that_sqlite3_asks_this_file() {
    for (name, typed) in [
        ("x.sqlite", "x.sqlite"),
        ("a b/x", "'a b/x'"),
        (":memory:", "./:memory:"),
        ("file:x", "./file:x"),
        ("-x", "./-x"),
    ] {
        let said = sqlite::how_to_ask(Path::new(name));
        assert!(said.starts_with(&format!("ask it: sqlite3 -box {typed} 'SELECT")), "{said}");
    }
}

#[test]
fn default_name_is_that_of_the_traces_folder() {
    let name = |path: &str, format| default_name(Path::new(path), format).into_string().unwrap();
    assert_eq!(name("a/my-trace", ExportFormat::Perfetto), "my-trace.perfetto-trace");
    assert_eq!(name("a/my-trace/", ExportFormat::Json), "my-trace.json");
    assert_eq!(name("/", ExportFormat::Csv), "trace.csv");
    assert_eq!(name("a/my-trace", ExportFormat::Sqlite), "my-trace.sqlite");
    let here = std::env::current_dir().unwrap();
    let here = here.file_name().unwrap().to_str().unwrap();
    assert_eq!(name(".", ExportFormat::Csv), format!("{here}.csv"));
}

#[test]
fn output_that_is_not_finished_leaves_nothing() {
    let folder = folder("unfinished");
    let path = folder.join("x.json");
    let output = OutputFile::create(&path, false).unwrap();
    output.writer().unwrap().write_all(b"half").unwrap();
    let [hidden] = &names(&folder)[..] else { panic!("{:?}", names(&folder)) };
    assert!(hidden.starts_with('.'), "{hidden}");
    drop(output);
    assert!(names(&folder).is_empty());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn output_that_is_finished_has_its_name_only() {
    let folder = folder("finished");
    let path = folder.join("x.json");
    let output = OutputFile::create(&path, false).unwrap();
    output.writer().unwrap().write_all(b"all").unwrap();
    output.finish().unwrap();
    assert_eq!(names(&folder), ["x.json"]);
    assert_eq!(fs::read(&path).unwrap(), b"all");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn output_over_a_file_needs_force() {
    let folder = folder("force");
    let path = folder.join("x.json");
    // One that appears while the export runs is left alone too.
    let output = OutputFile::create(&path, false).unwrap();
    fs::write(&path, b"old").unwrap();
    assert!(output.finish().unwrap_err().to_string().contains("--force"));
    assert!(OutputFile::create(&path, false).unwrap_err().to_string().contains("--force"));
    assert_eq!(fs::read(&path).unwrap(), b"old");
    let link = folder.join("link");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    assert!(OutputFile::create(&link, false).unwrap_err().to_string().contains("--force"));
    fs::remove_file(&link).unwrap();
    let output = OutputFile::create(&path, true).unwrap();
    output.writer().unwrap().write_all(b"new").unwrap();
    output.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(names(&folder), ["x.json"]);
    fs::remove_dir_all(&folder).unwrap();
}

/// A name that appears between a look and the renaming is not replaced: of two who make it, one has it.
#[test]
fn output_and_another_file_of_its_name_are_never_both_made() {
    let folder = folder("race");
    let mut theirs = 0;
    for round in 0..3000 {
        let path = folder.join(format!("x{round}.json"));
        let output = OutputFile::create(&path, false).unwrap();
        let begin = std::sync::Barrier::new(2);
        let is_theirs = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                begin.wait();
                // Another moment in each round.
                (0..round % 100 * 20).for_each(|_| std::hint::spin_loop());
                fs::OpenOptions::new().write(true).create_new(true).open(&path).is_ok()
            });
            begin.wait();
            let is_ours = output.finish().is_ok();
            let is_theirs = other.join().unwrap();
            assert!(is_ours != is_theirs, "round {round}: both {is_ours}");
            is_theirs
        });
        theirs += u32::from(is_theirs);
        fs::remove_file(&path).unwrap();
        assert!(names(&folder).is_empty());
    }
    eprintln!("the other one was first in {theirs} of 3000 rounds");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn output_where_renaming_has_no_flags_is_linked_to_a_new_name_only() {
    let folder = folder("link");
    let [hidden, name] = [".hidden", "name"].map(|name| folder.join(name));
    fs::write(&hidden, b"new").unwrap();
    output::link_new(&hidden, &name).unwrap();
    assert_eq!((names(&folder), fs::read(&name).unwrap()), (vec!["name".into()], b"new".into()));
    fs::write(&hidden, b"newer").unwrap();
    assert_eq!(output::link_new(&hidden, &name), Err(rustix::io::Errno::EXIST));
    assert_eq!(fs::read(&name).unwrap(), b"new");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn output_to_a_device_is_written_as_it_is() {
    let output = OutputFile::create(Path::new("/dev/null"), false).unwrap();
    output.writer().unwrap().write_all(b"x").unwrap();
    output.finish().unwrap();
    assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
}

#[test]
fn output_to_a_folder_or_into_none_is_refused() {
    let folder = folder("none");
    assert!(OutputFile::create(&folder, true).unwrap_err().to_string().contains("folder"));
    let slash = OutputFile::create(&folder.join("x/"), true).unwrap_err().to_string();
    assert!(slash.contains("x/ is a folder's name"), "{slash}");
    let none = OutputFile::create(&folder.join("none/x"), true).unwrap_err().to_string();
    assert!(none.contains("no such folder"), "{none}");
    assert!(names(&folder).is_empty());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn output_with_the_longest_name_has_a_hidden_one() {
    let folder = folder("long");
    let path = folder.join("x".repeat(255));
    OutputFile::create(&path, false).unwrap().finish().unwrap();
    assert!(path.is_file());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn remarks_name_all_that_is_not_whole() {
    let summary = Summary {
        discarded: 1,
        ends_without_begin: 2,
        unfinished: 3,
        too_many_open: 4,
        threads_left_out: 5,
        names_left_out: 6,
        ..Summary::default()
    };
    let texts = remarks(&summary);
    let wanted =
        ["1 event record ", "2 slices", "3 slices", "4 events", "more than 4,194,304 threads"];
    for (text, start) in texts.iter().zip(wanted.iter().chain(&["more than 262,144 names"])) {
        assert!(text.starts_with(start), "{text}");
    }
    assert_eq!(texts.len(), 6);
    assert!(remarks(&Summary::default()).is_empty());
    // Those of every command: its threads return from a clone() that they have not called, and from no exit().
    let summary = Summary {
        ends_without_begin: 5,
        ends_of_births: 5,
        unfinished: 4,
        exits: 4,
        ..Summary::default()
    };
    assert!(remarks(&summary).is_empty());
    let others = Summary { ends_without_begin: 6, unfinished: 6, ..summary };
    let texts = remarks(&others);
    assert!(texts[0].starts_with("1 slice ") && texts[1].starts_with("2 slices "), "{texts:?}");
}

#[test]
fn remarks_on_slices_that_overlap_name_the_rule_as_it_is_typed() {
    let overlap = |rule: &str, disagree, ends_alone| Overlap {
        rule: rule.to_owned(),
        disagree,
        ends_alone,
        ..Overlap::default()
    };
    let mut overlaps = vec![overlap("a:x_begin=a:x_end:id", 2, 0), overlap("a b=\x1bc:id", 0, 3)];
    let texts = remarks(&Summary { overlaps: overlaps.clone(), ..Summary::default() });
    assert!(texts[0].starts_with("2 slices of a:x_begin with another id"), "{texts:?}");
    assert!(texts[0].ends_with(": --pair a:x_begin=a:x_end:id"), "{texts:?}");
    assert!(texts[1].starts_with("3 ends of a b without a begin in its thread"), "{texts:?}");
    assert!(texts[1].contains(" --pair 'a b=") && !texts[1].contains('\x1b'), "{texts:?}");
    overlaps.extend((0..9).map(|_| overlap("a=b:id", 1, 0)));
    let texts = remarks(&Summary { overlaps, ..Summary::default() });
    assert_eq!(texts.len(), OVERLAPS_SHOWN + 1);
    assert!(texts[OVERLAPS_SHOWN].starts_with("6 other pairs"), "{texts:?}");
}

#[test]
fn file_that_is_more_than_browsers_hold_is_reported_to_be_and_no_smaller_one() {
    for bytes in [0, 1, 2 << 30] {
        assert_eq!(too_large(bytes), None, "{bytes}");
    }
    for (bytes, text) in [((2 << 30) + 1, "2.0 GiB is more"), (7 << 30, "7.0 GiB is more")] {
        let said = too_large(bytes).unwrap();
        assert!(said.starts_with(text) && said.contains("about 2.0 GiB"), "{said}");
        assert!(said.contains("--from, --until or --filter"), "{said}");
    }
}
