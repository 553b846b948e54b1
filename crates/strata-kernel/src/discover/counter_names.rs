//! Counters of a CPU that records may have as contexts: their names, and the kernel's numbers for them.

use libbpf_sys::{
    PERF_TYPE_HARDWARE as HARDWARE, PERF_TYPE_HW_CACHE as CACHE, PERF_TYPE_RAW as RAW,
    PERF_TYPE_SOFTWARE as SOFTWARE,
};
use strata_filter::distance_within;

/// Prefix of contexts that are counters.
const PREFIX: &str = "perf:cpu:";
/// Prefix, after [`PREFIX`], of counters that the user gives by a number from the processor's manual.
const RAW_PREFIX: &str = "raw:r";
/// The most characters of the name that a user gives such a counter.
const RAW_NAME_MAX: usize = 64;

/// A counter with fixed names: these names, as LTTng and perf have them, its number (PERF_COUNT_SW_* or
/// PERF_COUNT_HW_*), and a description.
type KnownCounter = (&'static [&'static str], u64, &'static str);

/// Counters of the kernel itself, which every machine has.
const OF_KERNEL: [KnownCounter; 10] = [
    (&["page-faults", "page-fault", "faults"], 2, "page faults"),
    (&["minor-faults"], 5, "those without input"),
    (&["major-faults"], 6, "those with input"),
    (&["context-switches", "cs"], 3, "switches to another thread"),
    (&["cgroup-switches"], 11, "those to another control group"),
    (&["cpu-migrations", "migrations"], 4, "threads that came from another CPU"),
    (&["alignment-faults"], 7, "accesses that the kernel has aligned"),
    (&["emulation-faults"], 8, "instructions that the kernel has emulated"),
    (&["cpu-clock"], 0, "time [ns]"),
    (&["task-clock"], 1, "time in which it was counted [ns]"),
];

/// Counters of the processor, of which a machine has all, some or none.
const OF_PROCESSOR: [KnownCounter; 10] = [
    (&["cycles", "cpu-cycles"], 0, "cycles"),
    (&["ref-cycles"], 9, "cycles of a clock that keeps its pace"),
    (&["bus-cycles"], 6, "cycles of the bus"),
    (&["instructions"], 1, "instructions"),
    (&["branches", "branch-instructions"], 4, "branches"),
    (&["branch-misses"], 5, "branches that were predicted wrongly"),
    (&["cache-references"], 2, "accesses to the last cache"),
    (&["cache-misses"], 3, "those that it did not have"),
    (
        &["stalled-cycles-frontend", "idle-cycles-frontend"],
        7,
        "cycles that waited for instructions",
    ),
    (&["stalled-cycles-backend", "idle-cycles-backend"], 8, "cycles that waited for their results"),
];

/// Caches of the processor: name, PERF_COUNT_HW_CACHE_*, and whether only loads are counted.
const CACHES: [(&str, u64, bool); 6] = [
    ("L1-dcache", 0, false),
    ("L1-icache", 1, false),
    ("LLC", 2, false),
    ("dTLB", 3, false),
    ("iTLB", 4, true),
    ("branch", 5, true),
];

/// Operations on a cache: name, PERF_COUNT_HW_CACHE_OP_* and PERF_COUNT_HW_CACHE_RESULT_* in the kernel's encoding, and
/// a description. The first two are loads.
const CACHE_USES: [(&str, u64, &str); 6] = [
    ("loads", 0, "loads"),
    ("load-misses", 0x1_0000, "loads that it did not have"),
    ("stores", 0x100, "stores"),
    ("store-misses", 0x1_0100, "stores that it did not have"),
    ("prefetches", 0x200, "prefetches"),
    ("prefetch-misses", 0x1_0200, "prefetches that it did not have"),
];

/// A counter of the kernel or the processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    /// The name that the user has given for the counter.
    name: String,
    /// The counter's PERF_TYPE_*.
    pub(crate) kind: u32,
    pub(crate) config: u64,
}

impl Counter {
    /// Parses a counter's name; `None` if there is no such counter.
    pub(crate) fn parse(name: &str) -> Option<Counter> {
        let counter = |(kind, config)| Counter { name: name.to_owned(), kind, config };
        let short = name.strip_prefix(PREFIX)?;
        match short.strip_prefix(RAW_PREFIX) {
            Some(raw) => raw_config(raw).map(|config| counter((RAW, config))),
            None => {
                let found = all().find(|one| one.name == short)?;
                Some(counter((found.kind, found.config)))
            }
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the counter's field in records, which is LTTng's.
    pub(crate) fn field(&self) -> String {
        self.name.replace([':', '-'], "_")
    }
}

/// Parses the part `0110:name` of `perf:cpu:raw:r0110:name`, and returns the number. Only the kernel can tell
/// whether the processor has that counter.
fn raw_config(text: &str) -> Option<u64> {
    let (number, name) = text.split_once(':')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let has_name = (1..=RAW_NAME_MAX).contains(&name.len()) && name.bytes().all(is_name);
    let is_number =
        (1..=16).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_hexdigit());
    (has_name && is_number).then(|| u64::from_str_radix(number, 16).ok())?
}

/// A counter with a name and a description.
struct NamedCounter {
    name: String,
    kind: u32,
    config: u64,
    about: String,
}

fn all() -> impl Iterator<Item = NamedCounter> {
    let of = |kind| {
        move |(names, config, about): KnownCounter| {
            names.iter().enumerate().map(move |(number, name)| NamedCounter {
                name: (*name).to_owned(),
                kind,
                config,
                about: match number {
                    0 => about.to_owned(),
                    _ => format!("as {}", names[0]),
                },
            })
        }
    };
    let caches = CACHES.into_iter().flat_map(|(cache, number, is_loaded_only)| {
        let uses = if is_loaded_only { 2 } else { CACHE_USES.len() };
        CACHE_USES.into_iter().take(uses).map(move |(usage, config, about)| NamedCounter {
            name: format!("{cache}-{usage}"),
            kind: CACHE,
            config: config | number,
            about: format!("{about}; a cache of the processor"),
        })
    });
    let of_kernel = OF_KERNEL.into_iter().flat_map(of(SOFTWARE));
    of_kernel.chain(OF_PROCESSOR.into_iter().flat_map(of(HARDWARE))).chain(caches)
}

/// Returns the names and descriptions of all counters that have a name.
pub(crate) fn names() -> impl Iterator<Item = (String, String)> {
    all().map(|one| (format!("{PREFIX}{}", one.name), one.about))
}

/// Returns the names of the counters that every machine has, as a text.
pub(crate) fn everywhere() -> String {
    let names = OF_KERNEL.map(|(names, ..)| format!("{PREFIX}{}", names[0]));
    names.join(", ")
}

/// Returns a suggestion for a name that begins with `perf:` and is no counter.
pub(crate) fn hint(name: &str) -> String {
    let short = name.strip_prefix("perf:").unwrap_or(name);
    let (scope, short) = short.split_once(':').unwrap_or(("", short));
    if short.starts_with("r") && scope == "raw" || name.starts_with("perf:cpu:raw:") {
        return format!(
            "a number of the processor's manual is 'perf:cpu:raw:rN:NAME': N hexadecimal, of 16 digits at most, NAME of \
             letters, digits, '_' and '-', {RAW_NAME_MAX} at most"
        );
    }
    let is_near = |one: &NamedCounter| distance_within(&one.name, short, 2).is_some();
    let near = all().find(|one| one.name == short).or_else(|| all().find(is_near));
    match (scope, near) {
        ("thread", Some(near)) => format!(
            "the kernel's events have the counters of their CPU, not of a thread: '{PREFIX}{}'",
            near.name
        ),
        (_, Some(near)) => format!("there is none. Do you mean '{PREFIX}{}'?", near.name),
        (_, None) => format!(
            "there is none. `strata add-context -k --list` shows those that have a name; each machine has {}",
            everywhere()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_the_kernel_s_numbers_and_lttng_s_fields() {
        for (name, kind, config, field) in [
            ("perf:cpu:page-faults", 1, 2, "perf_cpu_page_faults"),
            ("perf:cpu:faults", 1, 2, "perf_cpu_faults"),
            ("perf:cpu:cs", 1, 3, "perf_cpu_cs"),
            ("perf:cpu:cpu-clock", 1, 0, "perf_cpu_cpu_clock"),
            ("perf:cpu:instructions", 0, 1, "perf_cpu_instructions"),
            ("perf:cpu:ref-cycles", 0, 9, "perf_cpu_ref_cycles"),
            ("perf:cpu:L1-dcache-load-misses", 3, 0x1_0000, "perf_cpu_L1_dcache_load_misses"),
            ("perf:cpu:dTLB-store-misses", 3, 0x1_0103, "perf_cpu_dTLB_store_misses"),
            ("perf:cpu:raw:r013c:x86unhalted", 4, 0x13c, "perf_cpu_raw_r013c_x86unhalted"),
            (
                "perf:cpu:raw:rffffffffffffffff:a-b",
                4,
                u64::MAX,
                "perf_cpu_raw_rffffffffffffffff_a_b",
            ),
        ] {
            let counter = Counter::parse(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!((counter.kind, counter.config), (kind, config), "{name}");
            assert_eq!((counter.name(), counter.field()), (name, field.to_owned()));
        }
    }

    #[test]
    fn no_two_counters_have_one_name_and_each_that_is_listed_can_be_asked_for() {
        let mut names: Vec<String> = names().map(|(name, _)| name).collect();
        assert!(names.iter().all(|name| Counter::parse(name).is_some()));
        let found = names.len();
        names.sort();
        names.dedup();
        assert_eq!((found, names.len()), (56, 56));
    }

    #[test]
    fn what_is_no_counter_is_refused_with_what_helps() {
        let long = format!("perf:cpu:raw:r1:{}", "x".repeat(65));
        for (name, part) in [
            ("perf:cpu:instrutions", "'perf:cpu:instructions'"),
            ("perf:cpu:", "strata add-context -k --list"),
            ("perf:", "perf:cpu:page-faults"),
            ("perf:instructions", "'perf:cpu:instructions'"),
            ("perf:thread:cycles", "not of a thread: 'perf:cpu:cycles'"),
            ("perf:cpu:iTLB-stores", "perf:cpu:"),
            ("perf:cpu:raw:r:name", "perf:cpu:raw:rN:NAME"),
            ("perf:cpu:raw:r1", "perf:cpu:raw:rN:NAME"),
            ("perf:cpu:raw:r1:", "perf:cpu:raw:rN:NAME"),
            ("perf:cpu:raw:r+1:a", "perf:cpu:raw:rN:NAME"),
            ("perf:cpu:raw:r1:a b", "perf:cpu:raw:rN:NAME"),
            ("perf:cpu:raw:r1:a:b", "perf:cpu:raw:rN:NAME"),
            ("perf:cpu:raw:r10000000000000000:a", "perf:cpu:raw:rN:NAME"),
            (&long, "perf:cpu:raw:rN:NAME"),
        ] {
            assert_eq!(Counter::parse(name), None, "{name}");
            assert!(hint(name).contains(part), "{name}: {}", hint(name));
        }
    }
}
