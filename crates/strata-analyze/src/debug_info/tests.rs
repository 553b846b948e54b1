//! Tests of the object that has an instruction pointer and of the places of its file, with traces written by hand.

use std::process::Command;
use std::sync::OnceLock;

use object::{Object as _, ObjectSymbol as _};
use strata_ctf::read::{Message, TimeRange};

use super::{ResolvedPlace, Source, SourceOptions};
use crate::hand_tests::V::{Text, I64, U64, U8};
use crate::hand_tests::{metadata, Hand, Packets, Record};

const START: u8 = 0;
const BIN_INFO: u8 = 1;
const LOAD: u8 = 2;
const UNLOAD: u8 = 3;
const HIT: u8 = 4;
const BUILD_ID: u8 = 5;
const LINK: u8 = 6;

fn text() -> String {
    let object = "u64 baddr; u64 memsz; string path;";
    metadata(
        "",
        "i64 vpid; u64 ip;",
        &[
            ("lttng_ust_statedump:start", ""),
            ("lttng_ust_statedump:bin_info", &format!("{object} u8 is_pic;")),
            ("lttng_ust_lib:load", object),
            ("lttng_ust_lib:unload", "u64 baddr;"),
            ("a:hit", ""),
            ("lttng_ust_lib:build_id", "u64 baddr; u8 build_id[3];"),
            ("lttng_ust_lib:debug_link", "u64 baddr; string filename;"),
        ],
    )
}

/// Returns the places of all hits.
fn places(options: &SourceOptions, records: &[Record<'_>]) -> Vec<ResolvedPlace> {
    let hand = Hand::new();
    let reader = hand.trace("t", &text(), &[Packets::new(0).packet(records)]).reader();
    let mut source = Source::new(&reader, options);
    let mut places = Vec::new();
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        match message {
            Message::Event(event) if event.class().name() == "a:hit" => {
                places.push((*source.place(&event).unwrap()).clone());
            }
            Message::Event(event) => source.learn(&event),
            Message::Damage(damage) => panic!("{damage}"),
            _ => {}
        }
    }
    places
}

fn binaries(records: &[Record<'_>]) -> Vec<String> {
    let places = places(&SourceOptions::default(), records);
    let text = |place: ResolvedPlace| String::from_utf8(place.binary).unwrap();
    places.into_iter().map(text).collect()
}

#[test]
fn address_is_of_the_object_that_has_it_and_of_none_beside() {
    let found = binaries(&[
        (BIN_INFO, 1, &[I64(7), U64(0), U64(0x1000), U64(0x100), Text("/no/liba.so"), U8(1)]),
        (BIN_INFO, 2, &[I64(7), U64(0), U64(0x4000), U64(0x10), Text("/no/app"), U8(0)]),
        (HIT, 3, &[I64(7), U64(0xfff)]),
        (HIT, 4, &[I64(7), U64(0x1000)]),
        (HIT, 5, &[I64(7), U64(0x10ff)]),
        (HIT, 6, &[I64(7), U64(0x1100)]),
        // One that is always at the same addresses.
        (HIT, 7, &[I64(7), U64(0x4001)]),
        // Another process has loaded nothing.
        (HIT, 8, &[I64(8), U64(0x1000)]),
        (HIT, 9, &[I64(7), U64(u64::MAX)]),
    ]);
    assert_eq!(found, ["", "liba.so+0x0", "liba.so+0xff", "", "app@0x4001", "", ""]);
}

#[test]
fn object_that_goes_is_gone_and_a_new_start_forgets_all_of_its_process() {
    let found = binaries(&[
        (LOAD, 1, &[I64(7), U64(0), U64(0x1000), U64(0x100), Text("/no/one")]),
        (LOAD, 2, &[I64(8), U64(0), U64(0x1000), U64(0x100), Text("/no/two")]),
        (UNLOAD, 3, &[I64(7), U64(0), U64(0x1001)]),
        (HIT, 4, &[I64(7), U64(0x1004)]),
        (UNLOAD, 5, &[I64(7), U64(0), U64(0x1000)]),
        (HIT, 6, &[I64(7), U64(0x1004)]),
        (LOAD, 7, &[I64(7), U64(0), U64(0x1000), U64(0x100), Text("/no/three")]),
        // What is there is not loaded again.
        (LOAD, 8, &[I64(7), U64(0), U64(0x1000), U64(0x100), Text("/no/four")]),
        (HIT, 9, &[I64(7), U64(0x1004)]),
        (START, 10, &[I64(7), U64(0)]),
        (HIT, 11, &[I64(7), U64(0x1004)]),
        (HIT, 12, &[I64(8), U64(0x1004)]),
    ]);
    assert_eq!(found, ["one+0x4", "", "three+0x4", "", "two+0x4"]);
}

#[test]
fn malicious_objects_of_no_size_and_of_all_memory_are_looked_up_without_an_overflow() {
    let found = binaries(&[
        (LOAD, 1, &[I64(7), U64(0), U64(0x500), U64(0), Text("/no/empty")]),
        (HIT, 2, &[I64(7), U64(0x500)]),
        (LOAD, 3, &[I64(7), U64(0), U64(1), U64(u64::MAX), Text("/no/all")]),
        (HIT, 4, &[I64(7), U64(0)]),
        (HIT, 5, &[I64(7), U64(1)]),
        (HIT, 6, &[I64(7), U64(u64::MAX)]),
        (LOAD, 7, &[I64(7), U64(0), U64(u64::MAX), U64(u64::MAX), Text("/no/last")]),
        (HIT, 8, &[I64(7), U64(u64::MAX)]),
        (LOAD, 9, &[I64(-1), U64(0), U64(0x10), U64(1), Text("")]),
        (HIT, 10, &[I64(-1), U64(0x10)]),
    ]);
    let wanted = ["", "", "all+0x0", "all+0xfffffffffffffffe", "last+0x0", "+0x0"];
    assert_eq!(found, wanted);
}

#[test]
fn malicious_number_of_objects_and_processes_is_kept_up_to_the_limit() {
    let values: Vec<[crate::hand_tests::V; 5]> =
        (0..5000).map(|at| [I64(7), U64(0), U64(at * 0x10), U64(0x10), Text("/no/x")]).collect();
    let mut records: Vec<Record<'_>> = values.iter().map(|one| (LOAD, 1, &one[..])).collect();
    let (kept, beyond) = ([I64(7), U64(0xffff)], [I64(7), U64(0x10000)]);
    records.push((HIT, 2, &kept));
    records.push((HIT, 3, &beyond));
    assert_eq!(binaries(&records), ["x+0xf", ""]);
    let starts: Vec<[crate::hand_tests::V; 2]> =
        (0..(1 << 14) + 1).map(|vpid| [I64(vpid), U64(0)]).collect();
    let mut records: Vec<Record<'_>> = starts.iter().map(|one| (START, 1, &one[..])).collect();
    let load = |vpid| [I64(vpid), U64(0), U64(0x10), U64(0x10), Text("/no/x")];
    let (first, last) = (load(0), load(1 << 14));
    records.extend([(LOAD, 2, &first[..]), (LOAD, 3, &last[..])]);
    let (first, last) = ([I64(0), U64(0x10)], [I64(1 << 14), U64(0x10)]);
    records.extend([(HIT, 4, &first[..]), (HIT, 5, &last[..])]);
    assert_eq!(binaries(&records), ["x+0x0", ""]);
}

#[test]
fn event_without_an_instruction_pointer_has_no_place() {
    let hand = Hand::new();
    let text = metadata("", "i64 vpid;", &[("a:hit", "u64 ip;")]);
    let stream = Packets::new(0).packet(&[(0, 1, &[I64(7), U64(5)])]);
    let reader = hand.trace("t", &text, &[stream]).reader();
    let mut source = Source::new(&reader, &SourceOptions::default());
    let mut events = reader.events(TimeRange::ALL);
    let mut found = 0;
    while let Some(message) = events.next() {
        if let Message::Event(event) = message {
            assert_eq!(source.place(&event), None);
            found += 1;
        }
    }
    assert_eq!(found, 1);
}

/// Returns this program, which has lines and a known build id, and the address of its function `landmark`.
fn program() -> &'static (Vec<u8>, u64) {
    static PROGRAM: OnceLock<(Vec<u8>, u64)> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let hand = Hand::new();
        let source =
            "int landmark(int x) { return x + 1; }\nint main(void) { return landmark(-1); }\n";
        std::fs::write(hand.0.join("landmark.c"), source).unwrap();
        let mut command = Command::new("cc");
        command.args(["-g", "-O0", "-Wl,--build-id=0x0a0bff", "-o", "program", "landmark.c"]);
        assert!(command.current_dir(&hand.0).status().unwrap().success());
        let bytes = std::fs::read(hand.0.join("program")).unwrap();
        let file = object::File::parse(&bytes[..]).unwrap();
        let address = file.symbols().find(|one| one.name() == Ok("landmark")).unwrap().address();
        (bytes, address)
    })
}

/// Copies the program to this path below the folder.
fn copy(hand: &Hand, path: &str) {
    let to = hand.0.join(path);
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::write(to, &program().0).unwrap();
}

/// Returns the places of a hit in an object with this path, build id and debug link.
fn place_in(
    options: &SourceOptions,
    path: &'static str,
    link: Option<&'static str>,
    id: Option<[u8; 3]>,
    at: u64,
) -> ResolvedPlace {
    let load = [I64(7), U64(0), U64(0x1000), U64(1 << 40), Text(path)];
    let hit = [I64(7), U64(0x1000 + at)];
    let link = link.map(|link| [I64(7), U64(0), U64(0x1000), Text(link)]);
    let id = id.map(|id| [I64(7), U64(0), U64(0x1000), U8(id[0]), U8(id[1]), U8(id[2])]);
    let mut records: Vec<Record<'_>> = vec![(LOAD, 1, &load)];
    records.extend(link.as_ref().map(|link| (LINK, 2, &link[..])));
    records.extend(id.as_ref().map(|id| (BUILD_ID, 3, &id[..])));
    records.push((HIT, 4, &hit));
    places(options, &records).remove(0)
}

#[test]
fn function_in_a_stripped_file_is_known_if_it_is_exported() {
    let hand = Hand::new();
    let source =
        "int landmark(int x) { return x + 1; }\nstatic int hidden(int x) { return x + 2; }\n\
                  int caller(int x) { return hidden(x); }\n";
    std::fs::write(hand.0.join("lib.c"), source).unwrap();
    let mut command = Command::new("cc");
    command.args(["-O0", "-s", "-shared", "-fPIC", "-o", "lib.so", "lib.c"]);
    assert!(command.current_dir(&hand.0).status().unwrap().success());
    let bytes = std::fs::read(hand.0.join("lib.so")).unwrap();
    let file = object::File::parse(&bytes[..]).unwrap();
    assert_eq!(file.symbols().count(), 0);
    let landmark = file.dynamic_symbols().find(|one| one.name() == Ok("landmark")).unwrap();
    let (at, behind) = (landmark.address(), landmark.address() + landmark.size());
    let options = SourceOptions { prefix: Some(hand.0.clone()), ..SourceOptions::default() };
    for (at, name) in [(at, "landmark+0"), (behind - 1, "landmark+"), (behind, "")] {
        let place = place_in(&options, "/lib.so", None, None, at);
        let function = String::from_utf8_lossy(&place.function).into_owned();
        assert!(function.starts_with(name) && function.is_empty() == name.is_empty(), "{function}");
    }
}

#[test]
fn function_and_line_are_of_the_file_below_the_prefix() {
    let hand = Hand::new();
    copy(&hand, "root/opt/prog");
    let at = program().1;
    let prefix = Some(hand.0.join("root"));
    let options = SourceOptions { prefix, ..SourceOptions::default() };
    let place = place_in(&options, "/opt/prog", None, None, at);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&place.binary), format!("prog+{at:#x}"));
    assert_eq!(
        (text(&place.function), text(&place.source)),
        ("landmark+0".into(), "landmark.c:1".into())
    );
    // Whole paths are those of the traced system.
    let options = SourceOptions { full_path: true, ..options };
    let place = place_in(&options, "/opt/prog", None, None, at + 1);
    assert_eq!(text(&place.binary), format!("/opt/prog+{:#x}", at + 1));
    assert_eq!(text(&place.function), "landmark+0x1");
    let source = text(&place.source);
    assert!(source.starts_with('/') && source.ends_with("/landmark.c:1"), "{source}");
}

#[test]
fn malicious_path_leads_out_of_no_prefix_and_a_file_of_another_build_is_none() {
    let hand = Hand::new();
    copy(&hand, "root/opt/prog");
    copy(&hand, "outside");
    let at = program().1;
    let prefix = Some(hand.0.join("root"));
    let options = SourceOptions { prefix, ..SourceOptions::default() };
    for path in ["/../outside", "/opt/../opt/prog", "opt/prog", "prog", "", "/opt"] {
        let place = place_in(&options, path, None, None, at);
        assert!(place.function.is_empty() && place.source.is_empty(), "{path}: {place:?}");
    }
    for (id, is_it) in [([0x0a, 0x0b, 0xff], true), ([0x0a, 0x0b, 0xfe], false), ([0; 3], false)] {
        let place = place_in(&options, "/opt/prog", None, Some(id), at);
        assert_eq!(!place.function.is_empty(), is_it, "{id:?}: {place:?}");
    }
}

#[test]
fn separate_debug_information_is_found_by_build_id_and_by_link_and_a_link_is_a_name() {
    let hand = Hand::new();
    let at = program().1;
    copy(&hand, "root/lib/.debug/near.debug");
    copy(&hand, "root/lib/beside.debug");
    copy(&hand, "dbg/lib/far.debug");
    let prefix = Some(hand.0.join("root"));
    let folder = Some(hand.0.join("dbg"));
    let options = SourceOptions { prefix, folder, ..SourceOptions::default() };
    for (link, is_found) in [
        ("near.debug", true),
        ("beside.debug", true),
        ("far.debug", true),
        ("none.debug", false),
        ("../lib/beside.debug", false),
        ("/lib/beside.debug", false),
        ("..", false),
        ("", false),
    ] {
        let place = place_in(&options, "/lib/gone.so", Some(link), None, at);
        assert_eq!(!place.function.is_empty(), is_found, "{link}: {place:?}");
    }
    // By its build id, of which the first byte is the folder's name; unless the file there has another one.
    copy(&hand, "dbg/.build-id/0a/0bff.debug");
    copy(&hand, "dbg/.build-id/0a/0bfe.debug");
    for (last, is_found) in [(0xff, true), (0xfe, false), (0xfd, false)] {
        let place = place_in(&options, "/lib/gone.so", None, Some([0x0a, 0x0b, last]), at);
        assert_eq!(!place.function.is_empty(), is_found, "{last}: {place:?}");
    }
}

/// A program of a function that other functions were put into, and of lines; made so, stripped, and what was taken from it.
fn separated(hand: &Hand) -> u64 {
    let at = program().1;
    copy(hand, "root/opt/prog");
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        assert!(command
            .args(arguments)
            .current_dir(hand.0.join("root/opt"))
            .status()
            .unwrap()
            .success());
    };
    run("objcopy", &["--only-keep-debug", "prog", "prog.debug"]);
    run("objcopy", &["--strip-all", "--remove-section=.note.gnu.build-id", "prog"]);
    run("objcopy", &["--add-gnu-debuglink=prog.debug", "prog"]);
    at
}

#[test]
fn debug_information_is_in_the_file_that_the_program_names_if_it_has_the_checksum() {
    let hand = Hand::new();
    let at = separated(&hand);
    let (root, folder) = (hand.0.join("root"), hand.0.join("dbg"));
    let options = |folder: Option<&std::path::Path>| SourceOptions {
        prefix: Some(root.clone()),
        folder: folder.map(Into::into),
        ..SourceOptions::default()
    };
    let mut place = root.join("opt/prog.debug");
    for (folder, to) in [
        (None, root.join("opt/prog.debug")),
        (None, root.join("opt/.debug/prog.debug")),
        (None, root.join("usr/lib/debug/opt/prog.debug")),
        (Some(&*folder), folder.join("opt/prog.debug")),
        (Some(&*folder), folder.join("prog.debug")),
    ] {
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::rename(&place, &to).unwrap();
        place = to;
        let found = place_in(&options(folder), "/opt/prog", None, None, at);
        assert_eq!(found.source, b"landmark.c:1", "{place:?}");
        assert_eq!(found.function, b"landmark+0");
    }
    // A byte more, and it is another one.
    let bytes = std::fs::read(&place).unwrap();
    std::fs::write(&place, [&bytes[..], b"x"].concat()).unwrap();
    let options = options(Some(&folder));
    let found = place_in(&options, "/opt/prog", None, None, at);
    assert!(found.source.is_empty() && !found.function.starts_with(b"landmark"), "{found:?}");
    let remarks = options.files.remarks();
    assert!(remarks.len() == 1 && remarks[0].contains("checksum"), "{remarks:?}");
}

#[test]
fn functions_that_a_stripped_file_keeps_compressed_have_their_names() {
    let hand = Hand::new();
    let at = separated(&hand);
    let opt = hand.0.join("root/opt");
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        assert!(command.args(arguments).current_dir(&opt).status().unwrap().success());
    };
    let options = SourceOptions { prefix: Some(hand.0.join("root")), ..SourceOptions::default() };
    std::fs::rename(opt.join("prog.debug"), opt.join("elsewhere")).unwrap();
    let without = place_in(&options, "/opt/prog", None, None, at);
    assert!(!without.function.starts_with(b"landmark"), "{without:?}");
    // As Fedora's packages are made: a file of symbols alone.
    run("objcopy", &["--strip-debug", "elsewhere", "symbols"]);
    run("xz", &["--keep", "symbols"]);
    run("objcopy", &["--add-section", ".gnu_debugdata=symbols.xz", "prog", "packed"]);
    let found = place_in(&options, "/opt/packed", None, None, at);
    assert_eq!((&found.function[..], &found.source[..]), (&b"landmark+0"[..], &b""[..]));
    assert!(options.files.remarks().is_empty(), "{:?}", options.files.remarks());
    // Lines are where the file with all of it is there.
    std::fs::rename(opt.join("elsewhere"), opt.join("prog.debug")).unwrap();
    let options = SourceOptions { prefix: Some(hand.0.join("root")), ..SourceOptions::default() };
    let found = place_in(&options, "/opt/packed", None, None, at);
    assert_eq!(
        (&found.function[..], &found.source[..]),
        (&b"landmark+0"[..], &b"landmark.c:1"[..])
    );
    // What is no such file is said, and costs names only.
    std::fs::write(opt.join("symbols.xz"), "no stream").unwrap();
    run("objcopy", &["--add-section", ".gnu_debugdata=symbols.xz", "prog", "odd"]);
    std::fs::remove_file(opt.join("prog.debug")).unwrap();
    let options = SourceOptions { prefix: Some(hand.0.join("root")), ..SourceOptions::default() };
    let found = place_in(&options, "/opt/odd", None, None, at);
    assert_eq!(found.function, without.function);
    let remarks = options.files.remarks();
    assert!(remarks.len() == 1 && remarks[0].contains("no stream of xz"), "{remarks:?}");
}

#[test]
fn malicious_debug_link_to_the_program_itself_a_pipe_and_another_folder_is_none() {
    let hand = Hand::new();
    let at = separated(&hand);
    let opt = hand.0.join("root/opt");
    std::fs::remove_file(opt.join("prog.debug")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let pipe = opt.join("prog.debug");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let options = SourceOptions { prefix: Some(hand.0.join("root")), ..SourceOptions::default() };
    let found = place_in(&options, "/opt/prog", None, None, at);
    assert!(found.source.is_empty(), "{found:?}");
}

#[test]
fn no_file_of_a_trace_is_opened_where_that_is_not_wanted() {
    let hand = Hand::new();
    copy(&hand, "root/opt/prog");
    let at = program().1;
    let options = SourceOptions {
        prefix: Some(hand.0.join("root")),
        no_symbols: true,
        ..SourceOptions::default()
    };
    let found = place_in(&options, "/opt/prog", None, None, at);
    let binary = format!("prog+{at:#x}").into_bytes();
    assert_eq!(found, ResolvedPlace { binary, ..ResolvedPlace::default() });
}

#[test]
fn line_of_a_call_that_was_put_into_a_function_is_that_of_the_call() {
    let hand = Hand::new();
    let source = "static inline __attribute__((always_inline)) int inner(int x) {\n\
                  \tfor (int i = 0; i < x; i++) x ^= i * x;\n\treturn x;\n}\n\
                  int outer(int x) {\n\tx = x + 2;\n\treturn inner(x) + 1;\n}\n";
    std::fs::write(hand.0.join("lib.c"), source).unwrap();
    for format in ["-gdwarf-4", "-gdwarf-5"] {
        let mut command = Command::new("cc");
        command.args(["-O2", "-fPIC", "-shared", format, "-o", "lib.so", "lib.c"]);
        assert!(command.current_dir(&hand.0).status().unwrap().success());
        let bytes = std::fs::read(hand.0.join("lib.so")).unwrap();
        let file = object::File::parse(&bytes[..]).unwrap();
        let outer = file.symbols().find(|one| one.name() == Ok("outer")).unwrap();
        let options = SourceOptions { prefix: Some(hand.0.clone()), ..SourceOptions::default() };
        let at = |at| place_in(&options, "/lib.so", None, None, at);
        let places: Vec<ResolvedPlace> =
            (0..outer.size()).map(|behind| at(outer.address() + behind)).collect();
        assert!(places.iter().all(|place| place.function.starts_with(b"outer+")), "{places:?}");
        let lines: Vec<String> =
            places.iter().map(|place| String::from_utf8_lossy(&place.source).into()).collect();
        assert!(lines.iter().any(|line| line == "lib.c:7"), "{lines:?}");
        assert!(lines.iter().all(|line| !["lib.c:2", "lib.c:3"].contains(&&**line)), "{lines:?}");
    }
}
