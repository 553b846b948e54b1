//! Tests that compare the decisions of programs, made by libstrata's own code, with the reader's filter on the same
//! records, and that filter hostile bytes.

mod event;

use std::path::PathBuf;

use strata_abi::filter as abi;
use strata_ctf::read::{Message, Reader, Selection, TimeRange};
use strata_filter::{Filter, Pattern};

use super::*;
use event::{text, Event};
use strata_random::Random;

extern "C" {
    fn strata_user_filter_check(filter: *const u64, bytes: u32) -> i32;
    fn strata_user_filter_program_bytes(filter: *const u64) -> u64;
    fn strata_user_filter_ask(
        filter: *const u64,
        tracepoint: *const event::Tracepoint,
        payload: *const u8,
        bytes: u64,
        contexts: u32,
        program: *mut u64,
        is_whole: i32,
    ) -> i32;
    fn strata_user_glob(
        pattern: *const u8,
        bytes: usize,
        text: *const u8,
        text_bytes: usize,
    ) -> i32;
}

/// A filter in a program's memory.
struct Copy {
    /// Words with as many bytes as the filter, in a mapping of its own length, so that sanitizers find reads beyond the
    /// end.
    words: Vec<u64>,
    bytes: u32,
}

impl Copy {
    fn new(bytes: &[u8]) -> Copy {
        let mut words = vec![0_u64; bytes.len().div_ceil(8)];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_ne_bytes(whole);
        }
        Copy { words, bytes: bytes.len() as u32 }
    }

    fn is_good(&self) -> bool {
        // SAFETY: `bytes` can be read there.
        unsafe { strata_user_filter_check(self.words.as_ptr(), self.bytes) != 0 }
    }

    /// What all ways of asking say.
    fn ask(&self, event: &Event, payload: &[u8], has_vtid: bool, is_whole: bool) -> bool {
        assert!(self.is_good());
        // SAFETY: a filter that was checked.
        let bytes = unsafe { strata_user_filter_program_bytes(self.words.as_ptr()) };
        let mut program = vec![0_u64; bytes.div_ceil(8) as usize];
        // STRATA_USER_TAILROOM.
        let whole = [payload, &[0xa5; 8]].concat();
        // SAFETY: a filter that was checked, a tracepoint whose memory lives, a payload with room behind it, and
        // room for the program.
        let answer = unsafe {
            strata_user_filter_ask(
                self.words.as_ptr(),
                event.tracepoint(),
                whole.as_ptr(),
                payload.len() as u64,
                if has_vtid { event::CONTEXTS } else { 0 },
                program.as_mut_ptr(),
                is_whole.into(),
            )
        };
        assert!(answer >= 0, "bound and unbound filters differ");
        answer == 1
    }
}

struct TestTrace(PathBuf);

impl TestTrace {
    fn new(
        test: &str,
        events: &[Event],
        records: &[(usize, Vec<u8>)],
        has_vtid: bool,
    ) -> TestTrace {
        let folder = std::env::temp_dir().join(format!("strata-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (metadata, packet) = event::trace(events, records, has_vtid);
        std::fs::write(folder.join("metadata"), metadata).expect("the metadata");
        std::fs::write(folder.join("stream"), packet).expect("a stream");
        TestTrace(folder)
    }
}

impl Drop for TestTrace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A condition about fields of these events, or of none.
fn condition(random: &mut Random, events: &[Event]) -> String {
    let field = |random: &mut Random| match random.below(13) {
        0 => "nothing".to_owned(),
        1 => random.pick(&["vtid", "context.vtid", "payload.vtid", "cpu", "loglevel"]).to_string(),
        2 => random
            .pick(&["vpid", "vuid", "context.procname", "procname", "veuid", "context.vpi"])
            .to_string(),
        _ => {
            let event = &events[random.below(events.len())];
            let name = event.name_of(random);
            match random.below(8) {
                0 => format!("payload.{name}"),
                1 => format!("{name}[{}]", random.below(4)),
                2 => format!("({name} & {})", random.pick(&["1", "0xff", "0xffff0000", "6"])),
                _ => name,
            }
        }
    };
    let number = |random: &mut Random| {
        random
            .pick(&[
                "0",
                "1",
                "2",
                "-1",
                "-2",
                "77",
                "3",
                "255",
                "-128",
                "2.5",
                "-0.5",
                "1e300",
                "0.0",
                "18446744073709551615",
                "-9223372036854775808",
                "9007199254740993",
                "4294967295",
                "65536",
                "-1e300",
            ])
            .to_string()
    };
    let op = |random: &mut Random| random.pick(&["==", "!=", "<", "<=", ">", ">="]);
    let pattern = |random: &mut Random| {
        let mut wanted = text(random, 10);
        for _ in 0..random.below(3) {
            let at = random.below(wanted.chars().count() + 1);
            let at = wanted.char_indices().nth(at).map_or(wanted.len(), |(at, _)| at);
            wanted.insert_str(at, random.pick::<&str>(&["*", "?", "*a", "\\\\"]));
        }
        format!("\"{wanted}\"")
    };
    let left = field(random);
    match random.below(10) {
        0..=2 => format!("{left} {} {}", op(random), number(random)),
        3 | 4 => format!("{left} {} {}", random.pick(&["==", "!="]), pattern(random)),
        5 => format!("{left} in {{{}, 1 ... 3, {}}}", number(random), pattern(random)),
        6 => format!("{left} {} {}", op(random), field(random)),
        7 if !left.starts_with('(') && left != "cpu" && left != "loglevel" => {
            format!("has({left})")
        }
        8 => random.pick(&["app:*", "app:e0", "name != \"app:e1\"", "*:e?"]).to_string(),
        _ => {
            format!("{left} == {}", random.pick(&["\"idle\"", "\"b*\"", "\"ALL\"", "1", "0", "-2"]))
        }
    }
}

fn expression(random: &mut Random, events: &[Event]) -> String {
    let mut text = condition(random, events);
    for _ in 0..random.below(4) {
        let right = condition(random, events);
        text = match random.below(3) {
            0 => format!("({text}) && {right}"),
            1 => format!("({text}) || {right}"),
            _ => format!("!({text}) || !({right})"),
        };
    }
    text
}

#[test]
fn programs_select_the_records_that_the_reader_does() {
    let mut random = Random::new();
    let (mut asked, mut selected, mut refused) = (0, 0, 0);
    for round in 0..60 {
        let events: Vec<Event> = (0..2).map(|id| Event::random(id, &mut random)).collect();
        let records: Vec<(usize, Vec<u8>)> = (0..16)
            .map(|_| {
                let id = random.below(2);
                (id, events[id].payload(&mut random))
            })
            .collect();
        let has_vtid = round % 4 != 0;
        let trace = TestTrace::new("filter-property", &events, &records, has_vtid);
        let reader = Reader::open(&[&trace.0]).expect("a trace");
        for _ in 0..60 {
            let text = expression(&mut random, &events);
            let Ok(filter) = Filter::parse(&text) else {
                refused += 1;
                continue;
            };
            let compiled = Program::compile(&filter).expect("nothing of packets is in it");
            let mut selection = Selection::new(&filter);
            let mut seen = reader.events(TimeRange::ALL);
            let mut number = 0;
            while let Some(message) = seen.next() {
                let Message::Event(event) = message else { continue };
                let wanted = selection.accepts(&event);
                let (id, payload) = &records[number];
                let found = match &compiled {
                    Compiled::Always => true,
                    Compiled::Never => false,
                    Compiled::Tests(program) => {
                        Copy::new(program.bytes()).ask(&events[*id], payload, has_vtid, true)
                    }
                };
                assert_eq!(found, wanted, "{text}\nof {}: {payload:?}", events[*id]);
                number += 1;
                asked += 1;
                selected += usize::from(wanted);
            }
            assert_eq!(number, records.len(), "records were not read");
        }
    }
    assert!(refused < 1000, "{refused} expressions are none");
    assert!(selected > asked / 20 && selected < asked * 19 / 20, "{selected} of {asked}");
}

#[test]
fn pattern_matches_what_the_c_glob_does() {
    let mut random = Random::new();
    let mut hits = 0;
    for _ in 0..50_000 {
        let mut pattern = Pattern::default();
        for _ in 0..random.below(6) {
            pattern.push(match random.below(5) {
                0 => PatternPart::Any,
                1 => PatternPart::One,
                2 => PatternPart::Text(vec![random.pick(b"*?\\")]),
                _ => PatternPart::Text(vec![random.pick(&[b'a', b'b', 0xc3, 0xa9])]),
            });
        }
        let letters = [b'a', b'b', 0xc3, 0xa9, b'*', b'?', b'\\'];
        let text: Vec<u8> = (0..random.below(7)).map(|_| random.pick(&letters)).collect();
        let escaped = escaped(&pattern);
        // SAFETY: so many bytes are there.
        let found = unsafe {
            strata_user_glob(escaped.as_ptr(), escaped.len(), text.as_ptr(), text.len()) != 0
        };
        assert_eq!(found, pattern.matches(&text), "{pattern} {text:?}");
        hits += usize::from(found);
    }
    assert!(hits > 1000, "{hits}");
}

/// A filter that asks all there is to ask.
fn everything() -> Vec<u8> {
    let text = "(app:* && f0 == \"a*b\") || f1 < 3 || f2[2] in {1 ... 5, \"x\"} || has(f3) || f0 == f1 || cpu == 1";
    match Program::compile(&Filter::parse(text).unwrap()).unwrap() {
        Compiled::Tests(program) => program.bytes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn malicious_filters_are_refused_or_harmless() {
    let mut random = Random::new();
    let events: Vec<Event> = (0..4).map(|id| Event::random(id, &mut random)).collect();
    let good = everything();
    assert!(Copy::new(&good).is_good());
    let (mut accepted, tests) = (0, size_of::<abi::Filter>());
    for _ in 0..200_000 {
        let mut bytes = good.clone();
        for _ in 0..=random.below(3) {
            // Mostly what says where and how much.
            let at = match random.below(3) {
                0 => random.below(good.len()),
                _ => {
                    let test = random.below(7) * size_of::<abi::Test>();
                    (tests + test + random.below(32)).min(good.len() - 1)
                }
            };
            bytes[at] = random.pick(&[0, 1, 2, 3, 4, 5, 6, 0x7f, 0x80, 0xfe, 0xff]);
        }
        if random.below(8) == 0 {
            let cut = random.below(bytes.len());
            bytes.truncate(cut);
        }
        let copy = Copy::new(&bytes);
        if copy.is_good() {
            accepted += 1;
            let event = &events[random.below(4)];
            let mut payload = event.payload(&mut random);
            let is_whole = random.below(4) != 0;
            if !is_whole {
                payload.truncate(random.below(payload.len() + 1));
            }
            copy.ask(event, &payload, random.below(2) == 0, is_whole);
        }
    }
    assert!(accepted > 5_000 && accepted < 195_000, "{accepted} of 200,000 were accepted");
}

#[test]
fn malicious_jumps_and_places_are_refused() {
    let good = everything();
    let test = |nr: usize| size_of::<abi::Filter>() + nr * size_of::<abi::Test>();
    let patched = |at: usize, bytes: &[u8]| {
        let mut copy = good.clone();
        copy[at..at + bytes.len()].copy_from_slice(bytes);
        Copy::new(&copy).is_good()
    };
    let half = |value: u16| value.to_ne_bytes();
    let yes = std::mem::offset_of!(abi::Test, yes);
    assert!(!patched(test(1) + yes, &half(1)), "to itself");
    assert!(!patched(test(1) + yes, &half(0)), "backwards");
    assert!(!patched(test(1) + yes, &half(100)), "behind the last");
    assert!(patched(test(1) + yes, &half(abi::PASS)));
    let left = std::mem::offset_of!(abi::Test, left);
    assert!(!patched(test(1) + left + 4, &u32::MAX.to_ne_bytes()), "a name elsewhere");
    assert!(!patched(test(1) + left + 2, &half(4096)), "a name that goes on behind the end");
    assert!(!patched(8, &(good.len() as u32 + 1).to_ne_bytes()), "another size");
    assert!(!patched(12, &0_u32.to_ne_bytes()), "no tests");
    assert!(!patched(12, &158_u32.to_ne_bytes()), "too many tests");
    assert!(!patched(4, &2_u32.to_ne_bytes()), "another version");
    for bytes in 0..good.len() {
        assert!(!Copy::new(&good[..bytes]).is_good(), "cut to {bytes}");
    }
}

#[test]
fn compile_says_what_cannot_be_asked_in_programs() {
    let error = |text: &str| Program::compile(&Filter::parse(text).unwrap()).unwrap_err();
    for text in ["packet.cpu_id == 1", "a == 1 && has(header.id)"] {
        assert!(matches!(error(text), FilterError::NotYet { .. }), "{text}");
    }
    let long = format!("a == \"{}\"", "x".repeat(5000));
    assert!(matches!(error(&long), FilterError::TooLong { found: 5000, .. }));
    let many: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    let many = format!("a in {{{}}}", many.join(", "));
    assert!(matches!(error(&many), FilterError::TooLarge { nr_tests: 200, .. }));
    let compiled = |text: &str| Program::compile(&Filter::parse(text).unwrap()).unwrap();
    // The rest decides.
    assert_eq!(compiled("packet.cpu_id == 1 && a.b == 1"), Compiled::Never);
    assert_eq!(compiled("!has(a.b)"), Compiled::Always);
    assert!(Copy::new(Program::nothing().bytes()).is_good());
}
