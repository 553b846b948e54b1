//! Random filters and records: the tests say what the filter's own evaluation says.

use strata_filter::Filter;
use strata_random::Random;

use super::super::{cgroup, compile, Compiled, FilterError, SyscallEnd};
use super::world::{
    event, event_of_call, event_without_early, passes, Record, Task, NUMBERS, RECORD_BYTES, TEXTS,
};
use crate::decide::event::{KernelEvent, Probe};

/// Texts that are like each other.
const WORDS: [&str; 9] =
    ["", "a", "ab", "abc", "abcdefg", "abcdefgh", "abcdefghi", "abcdefghijklmno", "b"];

/// Integers at which something changes.
fn edge(random: &mut Random) -> i128 {
    let powers = [0, 7, 8, 15, 16, 31, 32, 63, 64];
    let power = 1_i128 << powers[random.below(powers.len())];
    let near = random.below(5) as i128 - 2;
    let value = match random.below(4) {
        0 => near,
        1 => random.below(12) as i128,
        2 => power + near,
        _ => near - power,
    };
    value.clamp(i64::MIN.into(), u64::MAX.into())
}

/// A record whose fields are often as they are in [`filter`].
pub fn record(random: &mut Random, task: Task) -> Record {
    let mut bytes = [0; RECORD_BYTES];
    bytes.fill_with(|| random.next() as u8);
    let mut put = |at: u16, value: &[u8]| {
        let at = usize::from(at);
        bytes[at..at + value.len()].copy_from_slice(value);
    };
    for (_, at, size, _) in NUMBERS {
        let value = (edge(random) as u64).to_ne_bytes();
        put(at, &value[..size.into()]);
    }
    // In another order each time: the last one is whole.
    let first = random.below(TEXTS.len());
    for (_, at, count) in TEXTS.into_iter().cycle().skip(first).take(TEXTS.len()) {
        if random.below(5) != 0 {
            let word = random.pick(&WORDS).as_bytes();
            let text: Vec<u8> = word.iter().copied().chain([0]).take(count as usize).collect();
            put(at, &text);
        }
    }
    Record { bytes, task }
}

/// A task whose ids are small.
fn task(random: &mut Random, root_cgroup: Option<u64>) -> Task {
    let mut comm = [0; 16];
    let word = random.pick(&WORDS).as_bytes();
    comm[..word.len()].copy_from_slice(word);
    Task {
        pid: random.below(12) as u32,
        tid: random.below(12) as u32,
        cpu: random.below(3) as u32,
        cgroup: root_cgroup.filter(|_| random.below(2) == 0).unwrap_or(4000),
        root_cgroup,
        comm,
    }
}

/// Writes random filters.
pub struct Writer<'r> {
    pub random: &'r mut Random,
    /// Numbers that occur in the task.
    pub ids: Vec<u64>,
    pub has_cgroups: bool,
    /// True to write also filters that cannot be compiled.
    pub anything: bool,
}

impl Writer<'_> {
    pub fn filter(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.below(4) == 0 {
            return self.leaf();
        }
        let join = |parts: Vec<String>, between| format!("({})", parts.join(between));
        match self.random.below(5) {
            0 => format!("!({})", self.filter(depth - 1)),
            1 | 2 => join(
                (0..2 + self.random.below(2)).map(|_| self.filter(depth - 1)).collect(),
                " && ",
            ),
            _ => join(
                (0..2 + self.random.below(2)).map(|_| self.filter(depth - 1)).collect(),
                " || ",
            ),
        }
    }

    fn leaf(&mut self) -> String {
        match self.random.below(if self.anything { 12 } else { 10 }) {
            0..4 => self.number(),
            4 => self.set(),
            5 | 6 => self.text(),
            7 => self.label(),
            8 => self.context(),
            9 => self.certain(),
            _ => {
                let unsupported = [
                    "len == port",
                    "next_comm == prev_comm",
                    "len == next_comm",
                    "next_comm == \"a*c\"",
                    "filename == \"a\"",
                    "device != \"b*\"",
                    "mask[2] == 0",
                    "mask[4] == 0",
                    "mask == 0",
                    "far < 1",
                    "net_port == 0",
                    "short == \"abcdefgh\"",
                    "comm != \"abcdefghijklmnop\"",
                    "has(mask[1])",
                    "has(mask[4])",
                    "mask == len",
                    "name == next_comm",
                ];
                self.random.pick(&unsupported).to_string()
            }
        }
    }

    fn field(&mut self) -> String {
        let (name, ..) = NUMBERS[self.random.below(NUMBERS.len())];
        let root = self.random.pick(&["", "", "payload."]);
        match self.random.below(4) {
            0 => {
                let mask = match self.random.below(3) {
                    0 => 1 << self.random.below(64),
                    1 => 1 + self.random.below(300) as u64,
                    _ => self.random.next() | 1,
                };
                format!("{root}{name} & {mask:#x}")
            }
            _ => format!("{root}{name}"),
        }
    }

    fn constant(&mut self) -> String {
        let value = edge(self.random);
        match self.random.below(8) {
            0 => format!("{:?}", value as f64 + 0.5),
            1 => format!("{:?}", value as f64),
            2 => self.random.pick(&["-1e300", "1e300", "-0.0", "0.5", "-0.5"]).to_string(),
            _ => value.to_string(),
        }
    }

    fn op(&mut self) -> &'static str {
        self.random.pick(&["==", "!=", "<", "<=", ">", ">="])
    }

    fn number(&mut self) -> String {
        let field = self.field();
        format!("{field} {} {}", self.op(), self.constant())
    }

    fn set(&mut self) -> String {
        let field = self.field();
        let items: Vec<String> = (0..1 + self.random.below(4))
            .map(|_| match self.random.below(3) {
                0 => {
                    let (a, b) = (edge(self.random), edge(self.random));
                    format!("{} ... {}", a.min(b), a.max(b))
                }
                _ => self.constant(),
            })
            .collect();
        format!("{field} in {{{}}}", items.join(", "))
    }

    fn word(&mut self) -> String {
        let star = self.random.pick(&["", "", "*"]);
        format!("\"{}{star}\"", self.random.pick(&WORDS))
    }

    fn text(&mut self) -> String {
        let names = ["next_comm", "prev_comm", "half", "comm", "procname", "context.comm"];
        let name = self.random.pick(&names);
        match self.random.below(3) {
            0 => format!("{name} in {{{}, {}}}", self.word(), self.word()),
            1 => format!("{name} == {}", self.word()),
            _ => format!("{name} != {}", self.word()),
        }
    }

    fn label(&mut self) -> String {
        let field = self.random.pick(&["state", "prio", "flags", "mode", "bits"]);
        let op = self.random.pick(&["==", "!="]);
        let labels = ["RUNNING", "SLEEPING", "BUSY", "BUSY*", "*E*", "IDLE", "*"];
        match self.random.below(3) {
            0 => format!("{field} in {{\"{}\", {}}}", self.random.pick(&labels), self.constant()),
            _ => format!("{field} {op} \"{}\"", self.random.pick(&labels)),
        }
    }

    fn context(&mut self) -> String {
        if self.has_cgroups && self.random.below(6) == 0 {
            return self.random.pick(&["cgroup == \"/\"", "cgroup != \"/\""]).to_string();
        }
        let names = ["pid", "tid", "cpu", "context.pid", "context.tid", "context.cpu", "cgroup"];
        let name = self.random.pick(&names);
        let id = self.ids[self.random.below(self.ids.len())];
        let id = i128::from(id) + self.random.below(3) as i128 - 1;
        format!("{name} {} {id}", self.op())
    }

    /// Writes a condition that is the same for all records.
    fn certain(&mut self) -> String {
        let certain = [
            "sched_*",
            "name == \"other\"",
            "name in {\"sched_test\", \"x\"}",
            "has(len)",
            "has(filename)",
            "has(pid)",
            "has(nothing)",
            "nothing == 3",
            "nothing == len",
            "len.x == 3",
            "payload.pid == 3",
            "loglevel < 3",
            "len == \"text\"",
            "next_comm == 3",
            "next_comm & 1 == 1",
            "next_comm == len",
            "len in {1, \"text\"}",
            "mask == 0",
            "mask[4] == 0",
            "mask == \"x\"",
        ];
        self.random.pick(&certain).to_string()
    }
}

/// Counts of the cases that a run is for.
#[derive(Default, Debug)]
struct Seen {
    never: usize,
    always: usize,
    tests: usize,
    early: usize,
    too_many: usize,
    unsupported: usize,
    passed: usize,
    rejected: usize,
}

fn compare(nr_filters: usize, anything: bool, event: &KernelEvent) -> Seen {
    let random = &mut Random::new();
    let root_cgroup = cgroup::id(b"/", String::new).ok();
    let is_of_call = matches!(event.probe, Probe::Syscall { .. });
    let mut seen = Seen::default();
    for _ in 0..nr_filters {
        let ids = (0..12).chain([4000]).chain(root_cgroup).collect();
        let depth = random.below(4);
        let has_cgroups = root_cgroup.is_some();
        let text = Writer { random, ids, has_cgroups, anything }.filter(depth);
        if is_of_call && (text.contains("sched_") || text.contains("name == \"other\"")) {
            continue; // calls have other names than the record
        }
        let filter = Filter::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let compiled = match compile(&filter, event, SyscallEnd::Entry) {
            Ok(compiled) => compiled,
            Err(FilterError::TooManyTests { .. }) => {
                seen.too_many += 1;
                continue;
            }
            Err(error) => {
                assert!(anything, "{text}: {error}");
                seen.unsupported += 1;
                continue;
            }
        };
        match compiled {
            Compiled::Never => seen.never += 1,
            Compiled::Always => seen.always += 1,
            Compiled::Tests(filter) => {
                seen.tests += 1;
                seen.early += usize::from(filter.nr_early > 0);
            }
        }
        for _ in 0..10 {
            let task = task(random, root_cgroup);
            let record = record(random, task);
            let found = match &compiled {
                Compiled::Never => false,
                Compiled::Always => true,
                Compiled::Tests(filter) => passes(filter, &record),
            };
            let wanted = filter.evaluate(&record) == Some(true);
            assert_eq!(found, wanted, "{text}\n{record:?}\n{compiled:?}");
            *(if wanted { &mut seen.passed } else { &mut seen.rejected }) += 1;
        }
    }
    seen
}

#[test]
fn tests_of_random_filters_select_what_evaluate_does() {
    let seen = compare(10_000, false, &event());
    println!("{seen:?}");
    assert!(seen.tests > 4_000 && seen.never > 100 && seen.always > 100, "{seen:?}");
    assert!(seen.passed > 15_000 && seen.rejected > 15_000, "{seen:?}");
}

#[test]
fn tests_of_random_filters_with_what_is_unsupported_are_right_if_there_are_any() {
    let seen = compare(5_000, true, &event());
    println!("{seen:?}");
    assert!(seen.unsupported > 200 && seen.tests > 500, "{seen:?}");
}

#[test]
fn early_tests_of_random_filters_change_nothing_of_what_is_selected() {
    let seen = [event(), event_of_call(), event_without_early()]
        .map(|event| compare(5_000, false, &event));
    println!("{seen:?}");
    let [tracepoint, call, without] = seen.map(|seen| seen.early);
    assert!(tracepoint > 300 && call > tracepoint && without == 0, "{tracepoint} {call} {without}");
}
