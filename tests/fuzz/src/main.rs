//! Fuzz targets: each takes any bytes, gives them to what reads such bytes, and panics if something does not hold.
//!
//! Built with the feature `libfuzzer` and linked with libFuzzer, which has `main`; STRATA_FUZZ names the target.
//! Built without, the program runs a target on files: `strata-fuzz TARGET FILE...`. `tests/fuzz/run` does both.
#![cfg_attr(feature = "libfuzzer", no_main)]

mod application;
mod control;
mod cut;
mod elf;
mod files;
mod filter;
mod format;
mod guest;
mod import;
mod live;
mod memory;
mod metadata;
#[cfg(test)]
mod mutated;
mod otlp;
mod packets;
mod perfetto;
mod protobuf;
mod queries;
mod remote;
mod ring;
mod seen;
mod selects;
mod shapes;
mod shown;
mod sql;
mod symbols;
mod tail;
mod timeline;
mod unwind;
mod view;

use std::process::abort;
use std::sync::OnceLock;

#[global_allocator]
static COUNTING: memory::Counting = memory::Counting;

/// Something that reads hostile bytes.
struct Target {
    name: &'static str,
    run: fn(&[u8]),
    /// Memory that one input may take at any moment \[byte\].
    memory: usize,
}

const TARGETS: [Target; 26] = [
    Target { name: "metadata", run: metadata::run, memory: 100 << 20 },
    Target { name: "packets", run: packets::run, memory: 8 << 20 },
    Target { name: "trace", run: packets::run_with_metadata, memory: 100 << 20 },
    Target { name: "ctf2", run: metadata::run_with_stream, memory: 100 << 20 },
    Target { name: "filter", run: filter::run, memory: 16 << 20 },
    Target { name: "application", run: application::run, memory: 16 << 20 },
    Target { name: "format", run: format::run, memory: 16 << 20 },
    Target { name: "elf", run: elf::run, memory: 16 << 20 },
    Target { name: "symbols", run: symbols::run, memory: 16 << 20 },
    Target { name: "unwind", run: unwind::run, memory: 16 << 20 },
    Target { name: "ring", run: ring::run, memory: 16 << 20 },
    Target { name: "view", run: view::run, memory: 100 << 20 },
    Target { name: "perfetto", run: perfetto::run, memory: 100 << 20 },
    Target { name: "otlp", run: otlp::run, memory: 100 << 20 },
    Target { name: "answer", run: otlp::run_answer, memory: 1 << 20 },
    Target { name: "sql", run: sql::run, memory: 100 << 20 },
    Target { name: "queries", run: queries::run, memory: 100 << 20 },
    Target { name: "timeline", run: timeline::run, memory: 100 << 20 },
    Target { name: "control", run: control::run, memory: 1 << 20 },
    Target { name: "selects", run: selects::run, memory: 1 << 20 },
    Target { name: "guest", run: guest::run, memory: 100 << 20 },
    Target { name: "remote", run: remote::run, memory: 100 << 20 },
    Target { name: "live", run: live::run, memory: 16 << 20 },
    Target { name: "tail", run: tail::run, memory: 16 << 20 },
    Target { name: "import", run: import::run, memory: 96 << 20 },
    Target { name: "planted", run: planted, memory: 1 << 20 },
];

/// Fails for one input in 2^64: it is found only if the fuzzer is told what comparisons want.
fn planted(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first_chunk::<4>() else { return };
    if u32::from_le_bytes(*first) != 0x7374_7261 {
        return;
    }
    let second = rest.first_chunk::<4>().map(|second| u32::from_be_bytes(*second));
    assert_ne!(second, Some(0x7461_6221), "the planted mistake was found");
}

fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Runs it on one input, and looks at the memory that it took.
fn run(target: &Target, input: &[u8]) {
    memory::begin();
    (target.run)(input);
    let most = memory::most();
    let limit = target.memory;
    assert!(most <= limit, "{}: memory: {most} bytes at once, limit {limit}", target.name);
}

/// What libFuzzer calls with each input.
///
/// # Safety
/// `size` bytes at `data` can be read until this returns.
#[no_mangle]
pub unsafe extern "C" fn LLVMFuzzerTestOneInput(data: *const u8, size: usize) -> std::ffi::c_int {
    static TARGET: OnceLock<&Target> = OnceLock::new();
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("STRATA_FUZZ").unwrap_or_default();
        target(&name).unwrap_or_else(|| {
            eprintln!("STRATA_FUZZ is '{name}', which is no target.");
            abort()
        })
    });
    let input = match size {
        0 => &[],
        // SAFETY: the caller's promise.
        _ => unsafe { std::slice::from_raw_parts(data, size) },
    };
    run(target, input);
    0
}

#[cfg(not(feature = "libfuzzer"))]
fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments.next().unwrap_or_default();
    let Some(target) = target(&name.to_string_lossy()) else {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("strata-fuzz TARGET FILE...: a target is one of {}.", names.join(" "));
        return 2.into();
    };
    for path in arguments {
        match std::fs::read(&path) {
            Ok(input) => run(target, &input),
            Err(error) => {
                eprintln!("strata-fuzz: {}: {error}", path.to_string_lossy());
                return 2.into();
            }
        }
    }
    0.into()
}
