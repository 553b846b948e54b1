//! Texts that want more memory than they may have.

use std::process::Command;

use strata_ctf::read::metadata::{limits, parse_tolerant};

const HEAD: &str = "trace { major = 1; minor = 8; byte_order = le; };\n\
                    typealias integer { size = 8; } := u8;\n";

/// Memory besides what [`limits::MEMORY`] allows: the text, the syntax of one block, the list of blocks, lists that
/// grow, the program itself \[byte\].
const BESIDES: u64 = 24 << 20;

fn repeated(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).map(text).collect()
}

/// Structures of twice as many fields each, and events with the greatest of them.
fn doubling(length: &str) -> String {
    let declared = repeated(13, |level| match level {
        0 => format!("struct s0 {{ u8 a{length}; u8 b{length}; }};"),
        _ => format!("struct s{level} {{ struct s{} a; struct s{0} b; }};", level - 1),
    });
    declared + &events("struct s12 x;")
}

fn events(fields: &str) -> String {
    repeated(200, |id| format!("event {{ id = {id}; fields := struct {{ {fields} }}; }};"))
}

fn ranges() -> String {
    let labels = repeated(10_000, |_| "l,".to_owned());
    let used = repeated(2_000, |number| format!("variant v <t> o{number};"));
    let declared = format!("enum e : u8 {{ {labels} }}; variant v {{ u8 l; }};");
    format!("{declared} struct s {{ enum e t; {used} }}; {}", events("struct s x;"))
}

fn labels() -> String {
    let labels = repeated(30_000, |number| format!("l{number},"));
    repeated(12, |number| format!("enum e{number} : u8 {{ {labels} }};"))
}

fn tags() -> String {
    let labels = repeated(20_000, |number| format!("l{number},"));
    let each = |number| format!("enum e{number} : u8 {{ {labels} }};");
    let fields = |number| format!("enum e{number} t{number}; variant v <t{number}> v{number};");
    let used = events(&repeated(12, fields));
    format!("{} variant v {{ u8 l0; u8 l1; }}; {used}", repeated(12, each))
}

fn members() -> String {
    let members = repeated(20_000, |number| format!("u8 f{number};"));
    repeated(20, |number| format!("struct t{number} {{ {members} }};"))
}

fn entries() -> String {
    let entries = |block| repeated(20_000, |number| format!("e{block}_{number} = 1;"));
    repeated(12, |block| format!("env {{ {} }};", entries(block)))
}

/// The name of a generated text, and the function that writes it.
type Text = (&'static str, fn() -> String);

/// Short texts that are read only in part. Without optimisation the last ones take long.
const TEXTS: [Text; 13] = [
    ("fields", || doubling("")),
    ("arrays", || doubling("[1]")),
    ("ranges", ranges),
    ("labels", labels),
    ("tags", tags),
    ("bytes that are no text", || format!("env {{ a = \"{}\"; }};", "\u{1}".repeat(8 << 20))),
    ("declarations", || "x;".repeat(400_000)),
    ("braces", || "};".repeat(400_000)),
    ("types", || repeated(200_000, |number| format!("struct t{number}{{}};"))),
    ("members", members),
    ("streams", || repeated(100_000, |number| format!("stream{{id={number};}};"))),
    ("events", || repeated(150_000, |number| format!("event{{id={number};}};"))),
    ("entries", entries),
];
const TEXTS_WITHOUT_OPTIMISATION: usize = 8;

/// The most memory that this process had at once since it began \[byte\].
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

const VARIABLE: &str = "STRATA_MEMORY_TEXT";

/// Each text is read in a process of its own.
#[test]
fn malicious_texts_of_all_kinds_stay_within_the_memory() {
    if let Ok(number) = std::env::var(VARIABLE) {
        return check(number.parse().expect("a text's number"));
    }
    let texts = if cfg!(debug_assertions) { TEXTS_WITHOUT_OPTIMISATION } else { TEXTS.len() };
    for (number, (name, _)) in TEXTS.iter().enumerate().take(texts) {
        let this = std::env::current_exe().expect("this program");
        let status = Command::new(this).env(VARIABLE, number.to_string()).status();
        assert!(status.expect("it runs").success(), "{name}");
    }
}

fn check(number: usize) {
    let (name, text) = TEXTS[number];
    let mut text = format!("{HEAD}{}", text()).into_bytes();
    for byte in text.iter_mut().filter(|byte| **byte == 1) {
        *byte = 0xff; // each becomes a character of three bytes
    }
    let parsed = parse_tolerant(&text).expect("a trace block");
    assert!(!parsed.problems.is_empty());
    let (peak, most) = (peak(), limits::MEMORY + BESIDES);
    println!("{name}: {peak}");
    assert!(peak <= most, "{peak} bytes, at most {most}");
}
