//! What each run of the tests tries: every target, on its seeds and on inputs that are made of them by chance.
//!
//! libFuzzer is told by the program what an input reaches, and finds more; but it needs all crates once more, marked, which
//! takes longer than all that it then does. So it runs by night (`tests/fuzz/run`), and these inputs by day, with the
//! crates as every test has them. The numbers are those of a fixed seed, so each run is the same; `STRATA_SEED=N` makes another
//! one, and `STRATA_INPUTS=N` a longer one. What fails is kept in build/fuzz/found, for `tests/fuzz/run TARGET FILE`.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::Path;
use std::process::Command;
use strata_random::Random;

use crate::{memory, run, Target, TARGETS};

/// Inputs for each target, beside its seeds. `make nightly` has libFuzzer try many more.
const INPUTS: u64 = 400;
/// Most that a mutated input has \[byte\]: as libFuzzer's for the largest.
const LENGTH: usize = 8192;
/// Numbers at which sizes, signs and widths end.
const EDGES: [u64; 12] = [
    0,
    1,
    7,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    i64::MAX as u64,
    u64::MAX,
];

/// One to eight changes of a seed; `others` are what is taken over from.
fn mutated(seed: &[u8], others: &[Vec<u8>], words: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(8) {
        let at = random.below(bytes.len() + 1);
        let length = 1 + random.below(16);
        let end = bytes.len().min(at + length);
        match random.below(9) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.next() as u8,
            2 | 3 => {
                let width = [1, 2, 4, 8][random.below(4)];
                let edge = EDGES[random.below(EDGES.len())]
                    .wrapping_add(random.below(3_u64))
                    .wrapping_sub(1);
                let number = if random.below(4) == 0 {
                    edge.to_be_bytes()[8 - width..].to_vec()
                } else {
                    edge.to_le_bytes()[..width].to_vec()
                };
                let over = bytes.len().min(at + width);
                bytes.splice(at..over, number);
            }
            4 => drop(bytes.drain(at..end)),
            5 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            6 => bytes.truncate(at),
            7 if !words.is_empty() => {
                let word = &words[random.below(words.len())];
                let over = if random.below(2) == 0 { at } else { bytes.len().min(at + word.len()) };
                bytes.splice(at..over, word.iter().copied());
            }
            _ => {
                let other = &others[random.below(others.len())];
                let from = random.below(other.len() + 1);
                bytes.splice(at.., other[from..].iter().copied());
            }
        }
    }
    bytes.truncate(LENGTH);
    bytes
}

/// The words of a libFuzzer dictionary: `"…"` in each line, with `\xHH`, `\\` and `\"`.
fn words(path: &Path) -> Vec<Vec<u8>> {
    let Ok(text) = std::fs::read_to_string(path) else { return Vec::new() };
    let quoted = text.lines().filter_map(|line| line.split_once('"')?.1.strip_suffix('"'));
    quoted.map(unescaped).collect()
}

fn unescaped(word: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = word.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'\\', [b'x', digits @ ..]) if digits.len() >= 2 => {
                let digits = std::str::from_utf8(&digits[..2]).expect("hexadecimal digits");
                out.push(u8::from_str_radix(digits, 16).expect("hexadecimal digits"));
                rest = &after[3..];
            }
            (b'\\', [escaped, ..]) => {
                out.push(*escaped);
                rest = &after[1..];
            }
            _ => out.push(first),
        }
    }
    out
}

/// The dictionary that fits a target, as in `tests/fuzz/run`.
fn dictionary(target: &str) -> Option<&'static str> {
    match target {
        "metadata" | "trace" | "view" | "perfetto" | "otlp" | "sql" | "queries" => {
            Some("tsdl.dict")
        }
        "ctf2" => Some("ctf2.dict"),
        "filter" => Some("filter.dict"),
        "format" => Some("format.dict"),
        _ => None,
    }
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = std::env::temp_dir().join(format!("strata-seeds-{}-{target}", std::process::id()));
    // What a run that was broken off has left, whose number this process has now.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).expect("a folder");
    let made = Command::new("python3")
        .arg("seeds.py")
        .args([target.as_ref(), folder.as_os_str()])
        .status();
    assert!(made.is_ok_and(|status| status.success()), "seeds.py {target}");
    let mut paths: Vec<_> = folder
        .read_dir()
        .expect("its folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{target}: there are no seeds");
    let seeds = paths.iter().map(|path| std::fs::read(path).expect("a seed")).collect();
    std::fs::remove_dir_all(&folder).expect("its folder");
    seeds
}

/// Runs one input; what fails is kept, and named.
fn attempt(target: &Target, input: &[u8]) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(target, input))) else { return };
    let found = Path::new("../../build/fuzz/found");
    let kept = found.join(format!("{}-mutated", target.name));
    std::fs::create_dir_all(found)
        .and_then(|()| std::fs::write(&kept, input))
        .expect("build/fuzz/found");
    eprintln!("again: tests/fuzz/run {} build/fuzz/found/{0}-mutated", target.name);
    resume_unwind(panic);
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn all_targets_hold_on_mutated_seeds() {
    let _alone = memory::alone();
    for target in TARGETS.iter().filter(|target| target.name != "planted") {
        let mut random = Random::from_seed(number("STRATA_SEED", 0x5_7a7a));
        let seeds = seeds(target.name);
        let words = dictionary(target.name).map_or_else(Vec::new, |name| words(Path::new(name)));
        assert_eq!(dictionary(target.name).is_some(), !words.is_empty(), "{}: words", target.name);
        let begin = std::time::Instant::now();
        seeds.iter().for_each(|seed| attempt(target, seed));
        for _ in 0..number("STRATA_INPUTS", INPUTS) {
            let seed = &seeds[random.below(seeds.len())];
            attempt(target, &mutated(seed, &seeds, &words, &mut random));
        }
        println!("{}: {} seeds, {:?}", target.name, seeds.len(), begin.elapsed());
    }
}

/// The mutations are no idle ones: a mistake that eight bytes in a row bring about is found among so many.
#[test]
fn a_mistake_behind_an_edge_is_found() {
    let _alone = memory::alone();
    let mut random = Random::from_seed(1);
    let seed = vec![vec![0_u8; 40]];
    let reaches = |bytes: &[u8]| bytes.get(12..16) == Some(&[0xff; 4]) && bytes.len() > 30;
    assert!((0..2000).any(|_| reaches(&mutated(&seed[0], &seed, &[], &mut random))));
}

#[test]
fn dictionaries_are_read() {
    let _alone = memory::alone();
    assert_eq!(unescaped(r#"a\x00\\\"z"#), b"a\0\\\"z");
}
