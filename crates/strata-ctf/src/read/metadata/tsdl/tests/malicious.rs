//! Tests of texts that would take too much time or memory.

use super::*;
use crate::read::metadata::limits;
use rustix::time::{clock_gettime, ClockId};
use std::time::Duration;

/// Returns the CPU time of this thread, which the load of the machine does not change.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().expect("a time")
}

/// A limit far above the time of any of these texts, and far below the time that they would take without limits.
const TIME: Duration = Duration::from_secs(20);

/// Returns the first problem of a text, which must be found within [`TIME`].
fn first_problem(text: &str) -> MetadataProblem {
    let begin = cpu_time();
    let parsed = tolerant(&with_head("le", text));
    let took = cpu_time() - begin;
    assert!(took < TIME, "{took:?}");
    parsed.problems.into_iter().next().expect("a problem").what
}

fn limit(text: &str, what: &str, limit: u64) {
    match first_problem(text) {
        MetadataProblem::TooMany { what: found, limit: stated, found: number } => {
            assert_eq!((found, stated), (what, limit));
            assert!(number > limit);
        }
        other => panic!("{other}"),
    }
}

fn repeated(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).map(text).collect()
}

const MEMORY: &str = "bytes of memory for all that is described";
const LEVELS: &str = "levels of types within each other";

#[test]
fn malicious_names_that_are_too_long_are_refused() {
    let what = "bytes of a name";
    let most = limits::NAME_BYTES;
    let longest = "x".repeat(most);
    let used = format!("u8 {longest}; u8 a[event.fields.\"{longest}\"];");
    assert_eq!(payload(&used).members[0].name, longest);
    limit(&event(&format!("u8 {longest}x;")), what, most as u64);
    limit(&event(&format!("u8 a[b.\"{longest}x\"];")), what, most as u64);
    limit(&format!("typealias u8 := {};", "long ".repeat(most)), what, most as u64);
}

#[test]
fn malicious_number_of_blocks_is_refused() {
    let blocks = limits::BLOCKS as usize;
    limit(&"callsite{};".repeat(blocks), "blocks", limits::BLOCKS);
    for block in ["x;", "};"] {
        let problems = tolerant(&with_head("le", &block.repeat(2 * blocks))).problems;
        assert_eq!(problems.len(), limits::PROBLEMS + 1);
        // The blocks of the head have no problems; the block that exceeds the limit has one.
        let further = (blocks - 3 + 1 - limits::PROBLEMS) as u64;
        assert_eq!(
            problems.last().map(|last| &last.what),
            Some(&MetadataProblem::Further(further))
        );
    }
}

#[test]
fn malicious_text_that_is_too_long_is_refused() {
    let text = vec![b' '; limits::TEXT_BYTES as usize + 1];
    let error = parse(&text).unwrap_err();
    let expected = "metadata: bytes of metadata: 25165825, at most 25165824 can be read";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn malicious_doubling_structures_are_refused() {
    let declared = repeated(60, |level| match level {
        0 => "struct s0 { u8 a; u8 b; };".to_owned(),
        _ => format!("struct s{level} {{ struct s{} a; struct s{0} b; }};", level - 1),
    });
    let what = "fields of one event or packet, with those of named types,";
    for level in [16, 40, 59] {
        let used = repeated(50, |id| {
            format!("event {{ id = {id}; fields := struct {{ struct s{level} x; }}; }};")
        });
        limit(&format!("{declared}{used}"), what, limits::FIELDS.into());
    }
    // Each event is within its limit, but all of them together are not.
    let used = repeated(1000, |id| {
        format!("event {{ id = {id}; fields := struct {{ struct s12 x; }}; }};")
    });
    limit(&format!("{declared}{used}"), MEMORY, limits::MEMORY);
}

#[test]
fn malicious_types_within_each_other_are_refused() {
    let structures =
        |levels: usize| format!("{}u8 x; {}", "struct { ".repeat(levels), "} x; ".repeat(levels));
    limit(&event(&structures(100_000)), LEVELS, limits::DEPTH.into());
    let variants =
        |levels| format!("{}u8 x; {}", "variant <t> { ".repeat(levels), "} x; ".repeat(levels));
    limit(&event(&variants(100_000)), LEVELS, limits::DEPTH.into());
    limit(&event(&format!("u8 x{};", "[1]".repeat(100_000))), LEVELS, limits::DEPTH.into());
    limit(&event(&format!("u8 {}x;", "*".repeat(100_000))), LEVELS, limits::DEPTH.into());
    limit(&format!("event {{ id = {}1; }};", "-".repeat(100_000)), LEVELS, limits::DEPTH.into());
    limit(
        &format!("event {{ id = {}1{}; }};", "(".repeat(100_000), ")".repeat(100_000)),
        LEVELS,
        limits::DEPTH.into(),
    );
    limit(&event(&format!("{} u8 x;", "enum : ".repeat(100_000))), LEVELS, limits::DEPTH.into());
    let by_name = repeated(100, |level| match level {
        0 => "typealias u8 := t0;".to_owned(),
        _ => format!("typealias t{} [1] := t{level};", level - 1),
    });
    limit(&by_name, LEVELS, limits::DEPTH.into());
}

#[test]
fn deepest_allowed_types_are_read() {
    let structures =
        |levels: usize| format!("{}u8 x; {}", "struct { ".repeat(levels), "} x; ".repeat(levels));
    let payload = payload(&structures(62));
    assert_eq!(payload.members.len(), 1);
}

#[test]
fn malicious_blocks_with_too_many_parts_are_refused() {
    let what = "parts of a block";
    let parts = limits::BLOCK_PARTS as usize;
    limit(&event(&"u8 x;".repeat(parts)), what, parts as u64);
    limit(&format!("typedef u8 {} z;", "a, ".repeat(parts)), what, parts as u64);
    limit(&format!("enum e : u8 {{ {} }};", "a, ".repeat(parts)), what, parts as u64);
    limit(&event(&format!("u8 a[x{}];", ".x".repeat(60)).repeat(parts / 50)), what, parts as u64);
    limit(&format!("env {{ a = \"{}\"; }};", "x".repeat(64 * parts + 64)), what, parts as u64);
    limit(&format!("env {{ {} }};", "a = 1;".repeat(parts + 1)), what, parts as u64);
    limit(&event(&format!("integer {{ {} }} a;", "x = 1;".repeat(parts + 1))), what, parts as u64);
}

#[test]
fn malicious_references_are_bounded() {
    let path = "a.".repeat(100_000);
    limit(&event(&format!("u8 x[{path}a];")), "names of a reference", limits::PATH_PARTS as u64);
    limit(&format!("event {{ {path}a = 1; }};"), "names of a reference", limits::PATH_PARTS as u64);
    // Each use searches all levels, and finds the name only on the last one.
    let chain = |inside: &str| format!("{}{inside}{}", "struct { ".repeat(30), "} a; ".repeat(30));
    let levels = (0..30).fold(String::from("struct use u;"), |inside, level| {
        let found = if level == 29 { "u8 c;" } else { "u8 b;" };
        format!("{} struct {{ {inside} }} z;", chain(found))
    });
    let reference = "a.".repeat(30) + "c";
    let text = format!(
        "typedef u8 t[{reference}]; struct use {{ {} }}; {}",
        repeated(10_000, |number| format!("t f{number};")),
        event(&levels)
    );
    limit(&text, "names looked up for references", limits::LOOKUPS);
}

#[test]
fn malicious_ranges_and_names_that_are_copied_count() {
    let labels = "l,".repeat(40_000);
    let used = repeated(1000, |id| {
        format!("event {{ id = {id}; fields := struct {{ enum e t; variant v <t> v; }}; }};")
    });
    let text = format!("enum e : u8 {{ {labels} }}; variant v {{ u8 l; }}; {used}");
    limit(&text, MEMORY, limits::MEMORY);
    let name = "x".repeat(limits::NAME_BYTES);
    let used = repeated(10_000, |number| format!("struct s f{number};"));
    let used = repeated(6, |id| format!("event {{ id = {id}; fields := struct {{ {used} }}; }};"));
    limit(&format!("struct s {{ u8 {name}; }}; {used}"), MEMORY, limits::MEMORY);
}

/// Checks that a text of eight times the size takes about eight times as long; with quadratic time it would be 64
/// times. Other work on the same core may disturb one measurement, but not five.
fn linear(text: impl Fn(usize) -> String) {
    let time = |count| {
        let text = with_head("le", &text(count));
        let begin = cpu_time();
        let parsed = tolerant(&text);
        drop(parsed);
        cpu_time() - begin
    };
    let long_enough = || time(4000 * 8) < 24 * time(4000) + Duration::from_millis(20);
    assert!((0..5).any(|_| long_enough()), "{}...", text(3));
}

#[test]
fn malicious_repetition_takes_linear_time() {
    for unit in [
        "\"\n",
        "\"\nevent {",
        "/*",
        "event {",
        "}",
        "{",
        "'",
        "\\",
        "event { } ;",
        "é",
        "((",
        "typealias ",
    ] {
        linear(|count| unit.repeat(count));
        assert!(!tolerant(&with_head("le", &unit.repeat(9))).problems.is_empty());
    }
}

#[test]
fn malicious_number_of_names_takes_linear_time() {
    let texts: [fn(usize) -> String; 7] = [
        |count| repeated(count, |number| format!("clock {{ name = c{number}; }};")),
        |count| repeated(count, |number| format!("stream {{ id = {number}; }};")),
        |count| repeated(count, |number| format!("event {{ id = {number}; }};")),
        |count| repeated(count, |number| format!("typealias u8 := t{number};")),
        |count| format!("env {{ {} }};", repeated(count, |number| format!("e{number} = 1;"))),
        |count| {
            let pair = |number| format!("u8 n{number}; u8 a{number}[n{number}];");
            event(&repeated(count / 4, pair))
        },
        |count| {
            event(&format!(
                "enum : u8 {{ {} }} t;",
                repeated(count, |number| format!("l{number},"))
            ))
        },
    ];
    for text in texts {
        linear(text);
        schema(&text(4000));
    }
}

#[test]
fn large_honest_metadata_is_read() {
    let fields = repeated(10, |number| {
        format!("\t\tinteger {{ size = 32; align = 8; signed = 1; encoding = none; base = 10; }} _f{number};\n")
    });
    // A realistic number of events; fewer without optimisation.
    let events = if cfg!(debug_assertions) { 2_000 } else { 20_000 };
    let text = repeated(events, |id| {
        format!("event {{\n\tname = \"p:e{id}\";\n\tid = {id};\n\tfields := struct {{\n{fields}\t}};\n}};\n\n")
    });
    let begin = cpu_time();
    let schema = schema(&text);
    let took = cpu_time() - begin;
    assert!(took < TIME, "{took:?}");
    assert_eq!(schema.streams[0].events.len(), events);
    assert_eq!(schema.streams[0].events[events - 1].payload.as_ref().unwrap().members.len(), 10);
}
