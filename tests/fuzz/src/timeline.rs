//! What a timeline makes of records of any kind, in any order and of any content, and the reports of it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::sync::OnceLock;

use strata_analyze::debug_info::{Source, SourceOptions};
use strata_analyze::reports::flame::{FlameMaker, Weigh};
use strata_analyze::reports::memory::MemoryCounter;
use strata_analyze::reports::offcpu::{OffCpuCounter, StackOf};
use strata_analyze::reports::spans::{By, SlowestWaits, SpanCounter};
use strata_analyze::reports::syscalls;
use strata_analyze::reports::threads::ThreadCounter;
use strata_analyze::reports::wait::{History, PathPart};
use strata_ctf::read::{Event, Reader, TimeRange};
use strata_timeline::span_roles;
use strata_timeline::PairRule;
use strata_timeline::{pass_on, Asked, Passed};
use strata_timeline::{
    Call, Interval, Observer, Span, SpanRoles, ThreadId, Timeline, UnpairedReason, UnpairedSpan,
    World,
};

use crate::files::{root, Files};

/// Event ids have five bits: each is there, so that any bytes are records.
const IDS: usize = 32;

const KERNEL: [(&str, &str); 26] = [
    ("sched_switch", "u8 prev_tid; u8 prev_state; u8 next_tid;"),
    ("sched_waking", "u8 tid;"),
    ("sched_wakeup", "u8 tid;"),
    ("sched_process_fork", "u8 parent_tid; u8 child_tid; u8 child_pid;"),
    ("sched_process_exit", "u8 tid;"),
    ("sched_process_exec", ""),
    ("signal_generate", "u8 pid;"),
    ("irq_handler_entry", "u8 irq;"),
    ("irq_handler_exit", ""),
    ("irq_softirq_entry", "u8 vec;"),
    ("irq_softirq_exit", ""),
    ("lttng_statedump_process_state", "u8 tid; u8 pid; u8 ppid; short name;"),
    ("lttng_statedump_file_descriptor", "u8 pid; u8 fd; u8 flags; short filename;"),
    ("syscall_entry_close", "u8 fd;"),
    ("syscall_entry_openat", "short filename;"),
    ("syscall_exit_openat", "i8 ret;"),
    ("syscall_entry_read", "u8 fd;"),
    ("syscall_exit_read", "i8 ret;"),
    ("syscall_entry_mmap", "u8 len; u8 fd; u8 flags;"),
    ("syscall_exit_mmap", "high ret;"),
    ("syscall_entry_munmap", "high addr; u8 len;"),
    ("syscall_exit_munmap", "i8 ret;"),
    ("syscall_entry_brk", ""),
    ("syscall_exit_brk", "high ret;"),
    ("x86_exceptions_page_fault_user", "high address; u8 ip;"),
    ("kmem_kmalloc", "u8 ptr; u8 bytes_alloc; u8 call_site;"),
];

const PROGRAM: [(&str, &str); 14] = [
    ("a:x_begin", "u8 id;"),
    ("a:x_end", "u8 id;"),
    ("a:y_begin", "short id;"),
    ("a:y_end", "short id;"),
    ("a:z_begin", ""),
    ("a:z_end", ""),
    ("functions:entry", "u8 function;"),
    ("functions:exit", "u8 function;"),
    ("libc:malloc", "u8 size; u8 ptr; u8 caller;"),
    ("libc:realloc_begin", "u8 in_ptr; u8 size;"),
    ("libc:realloc_end", "u8 in_ptr; u8 size; u8 ptr; u8 caller;"),
    ("libc:free", "u8 ptr;"),
    ("lttng_ust_lib:load", "u8 baddr; u8 memsz; short path;"),
    ("strata:thread_name", "u8 tid; short name;"),
];

fn metadata(environment: &str, context: &str, events: &[(&str, &str)]) -> String {
    let mut text = format!(
        "/* CTF 1.8 */
        typealias integer {{ size = 8; align = 8; }} := u8;
        typealias integer {{ size = 8; align = 8; signed = true; }} := i8;
        typealias integer {{ size = 16; align = 8; signed = true; }} := high;
        typealias integer {{ size = 32; align = 8; }} := u32;
        typealias integer {{ size = 8; align = 8; encoding = UTF8; }} := letter;
        trace {{ major = 1; minor = 8; byte_order = le; }};
        env {{ hostname = \"h\"; {environment} }};
        clock {{ name = c; }};
        typealias integer {{ size = 11; align = 1; map = clock.c.value; }} := ts;
        stream {{
            packet.context := struct {{ u32 content_size; u32 packet_size; u8 events_discarded; u8 cpu_id; }};
            event.header := struct {{ integer {{ size = 5; align = 8; }} id; ts timestamp; }};
            event.context := struct {{ {context} }};
        }};"
    );
    for id in 0..IDS {
        let (name, fields) = events[id % events.len()];
        let fields = fields.split(';').map(str::trim).filter(|field| !field.is_empty());
        let fields = fields.map(|field| match field.strip_prefix("short ") {
            Some(name) => format!("letter _{name}[2];"),
            None => field.replacen(' ', " _", 1) + ";",
        });
        let fields: String = fields.collect();
        let _ = writeln!(
            text,
            "event {{ id = {id}; name = \"{name}\"; fields := struct {{ {fields} }}; }};"
        );
    }
    text
}

fn texts() -> &'static [String; 2] {
    static TEXTS: OnceLock<[String; 2]> = OnceLock::new();
    TEXTS.get_or_init(|| {
        fs::create_dir_all(root().join("k")).expect("a folder");
        fs::create_dir_all(root().join("p")).expect("a folder");
        let stacks = "u8 _tid; u8 _callstack_kernel[1]; u8 _callstack_user[2];";
        [
            metadata("domain = \"kernel\";", stacks, &KERNEL),
            metadata("domain = \"ust\"; vpid = 3;", "u8 _vtid;", &PROGRAM),
        ]
    })
}

/// Packets of so many bytes of records each.
fn packets(bytes: &[u8], each: usize, discards: bool) -> Vec<u8> {
    let mut all = Vec::new();
    for (number, body) in bytes.chunks(each.max(1)).enumerate() {
        let bits = (10 + body.len() as u32) * 8;
        all.extend_from_slice(&bits.to_le_bytes());
        all.extend_from_slice(&bits.to_le_bytes());
        all.push(if discards { number as u8 / 2 } else { 0 });
        all.push(number as u8 % 2);
        all.extend_from_slice(body);
    }
    all
}

/// Flags, how long a packet is, how many of the bytes are the kernel's, bytes.
pub fn run(input: &[u8]) {
    let [flags, each, part, bytes @ ..] = input else { return };
    let [kernel, program] = texts();
    let (of_kernel, of_program) = bytes.split_at(bytes.len() * usize::from(*part) / 255);
    let mut files = Files::new();
    for (folder, text, bytes) in [("k", kernel, of_kernel), ("p", program, of_program)] {
        files.add(&format!("{folder}/metadata"), text.as_bytes());
        let bytes = packets(bytes, usize::from(*each) + 4, flags & 1 != 0);
        files.add(&format!("{folder}/s"), &bytes);
    }
    let reader = Reader::open(&[files.folder().join("k"), files.folder().join("p")]);
    check(&reader.expect("metadata that is right"), *flags);
}

fn pass<O: Observer>(reader: &Reader, roles: &SpanRoles, seen: &mut O) -> Passed {
    let timeline = Timeline::with_spans(reader, roles.clone());
    let asked = Asked { range: TimeRange::ALL, selection: None };
    pass_on(timeline, reader, &asked, seen, &|_| true, &mut |_| {}).expect("an end")
}

fn check(reader: &Reader, flags: u8) {
    let rules: &[&str] = match flags & 6 {
        0 => &[],
        2 => &["a:*_begin=a:*_end:id"],
        4 => &["a:x_begin=a:z_end", "sched_waking=sched_wakeup:tid"],
        _ => &["a:y_begin=a:y_end:id", "libc:malloc=libc:free:ptr"],
    };
    let rules: Vec<PairRule> = rules.iter().map(|rule| rule.parse().expect("a pair")).collect();
    let roles = span_roles(reader, &rules);
    let weigh = match flags >> 3 & 3 {
        0 => Weigh::Records,
        1 => Weigh::OffCpu,
        2 => Weigh::OffWake,
        _ => Weigh::Spans,
    };
    let all = TimeRange::ALL;
    let truth = Truth { roles: roles.clone(), ..Truth::default() };
    let history = History::new(all, Some("a:x")).with_longest(3);
    let source = || Source::new(reader, &SourceOptions::default());
    let memory = MemoryCounter::new(all, source());
    let flame = FlameMaker::new(all, weigh, source());
    let calls = syscalls::SyscallCounter::new(all, 3);
    let of = if flags & 64 == 0 { StackOf::Waiter } else { StackOf::Waker };
    let stacks = OffCpuCounter::new(all, 3, source()).by(of);
    let mut seen = (
        (truth, (ThreadCounter::new(all, 3), stacks)),
        ((SpanCounter::new(all, None, 5), memory), ((flame, calls), history)),
    );
    let passed = pass(reader, &roles, &mut seen);
    let world = passed.timeline.world();
    let ((truth, (threads, stacks)), ((spans, memory), ((flame, calls), history))) = seen;

    assert_eq!(truth.begins, truth.spans + truth.unpaired_begins, "each begin is told once");
    let calls = calls.finish(world, syscalls::By::Thread);
    let counted: u64 = calls.rows.iter().map(|row| row.times.count).sum();
    assert_eq!((counted, calls.all.times.count), (truth.calls, truth.calls));
    for row in threads.finish(world, flags & 32 != 0).rows {
        let waits: u64 = row.waits.iter().map(|wait| wait.total).sum();
        assert_eq!(waits, row.blocked, "{row:?}");
        let rivals: u64 = row.rivals.iter().map(|(_, nanos)| *nanos).sum();
        assert_eq!(rivals, row.runnable(), "{row:?}");
        assert_eq!((row.delays.total, row.delays.max), (row.runnable(), row.delay), "{row:?}");
    }
    let stacks = stacks.finish(world, &|_| true);
    let blocked: u64 = stacks.rows.iter().map(|row| row.times.total).sum();
    let wanted = if stacks.has_stacks { truth.blocked } else { 0 };
    assert_eq!((blocked, stacks.left_out.count), (wanted, 0), "each wait in one row");

    let mut spans = spans.finish(world, By::Thread);
    let counted: u64 = spans.rows.iter().map(|row| row.times.count).sum();
    assert_eq!((counted, spans.all.times.count), (truth.spans, truth.spans));
    let mut waiting = SlowestWaits::new(&spans.slowest);
    let again = pass(reader, &roles, &mut waiting);
    waiting.tell(again.timeline.world(), &mut spans.slowest);
    for slow in &spans.slowest {
        let Some(spent) = slow.spent else { continue };
        let sum = spent.running + spent.runnable + spent.blocked + spent.unknown;
        assert_eq!(sum, slow.nanos, "{slow:?}");
        assert_eq!(slow.waits.iter().map(|wait| wait.total).sum::<u64>(), spent.blocked);
    }

    let flame = flame.finish(world, &|_| true);
    let stacks = flame.profiles.iter().flat_map(|profile| &profile.stacks);
    assert_eq!(stacks.map(|(_, weight)| weight).sum::<u64>(), flame.total);
    match weigh {
        Weigh::Records => assert_eq!(flame.total, truth.of_kernel, "each record once"),
        Weigh::OffCpu | Weigh::OffWake => assert!(flame.total <= truth.blocked),
        Weigh::Spans => assert!(flame.total <= truth.span_nanos),
    }

    let memory = memory.finish(world);
    let of_rows: u64 = memory.rows.iter().map(|row| row.allocated.live_bytes).sum();
    let of_sites: u64 = memory.sites.iter().map(|site| site.allocated.live_bytes).sum();
    assert_eq!(of_rows + memory.kernel.live_bytes, of_sites);
    for row in &memory.rows {
        let touched: u64 = row.regions.iter().map(|(_, count)| count).sum();
        assert_eq!(touched, row.faults, "{row:?}");
        assert!(row.unmapped <= row.mapped && row.allocated.live <= row.allocated.count);
    }

    for number in 1..=3 {
        let Some((span, _)) = history.longest(number) else { continue };
        let path = history.path(world, span.thread, span.from, span.to);
        add_up(&path);
    }
}

fn add_up(node: &PathPart) {
    if !node.parts.is_empty() {
        assert_eq!(node.parts.iter().map(|part| part.nanos).sum::<u64>(), node.nanos, "{node:?}");
    }
    node.parts.iter().for_each(add_up);
}

/// What must hold of all that is told.
#[derive(Default)]
struct Truth {
    roles: SpanRoles,
    last: HashMap<ThreadId, i64>,
    begins: u64,
    spans: u64,
    span_nanos: u64,
    unpaired_begins: u64,
    calls: u64,
    blocked: u64,
    /// Records of the kernel, which have stacks, but those that describe.
    of_kernel: u64,
}

impl Observer for Truth {
    const RECORDS: bool = true;

    fn record(&mut self, _: &World, event: &Event<'_>, who: Option<ThreadId>, _: bool) {
        let name = event.class().name();
        self.begins += u64::from(self.roles.get(name).is_some_and(|role| role.begins));
        let is_kernel = event.stream().trace().path().ends_with("k");
        self.of_kernel += u64::from(is_kernel && !name.starts_with("lttng_statedump_"));
        assert_ne!(who, Some(ThreadId::IDLE));
    }

    fn call(&mut self, _: &World, call: &Call) {
        assert!(call.begin <= call.end, "{call:?}");
        self.calls += 1;
    }

    fn state(&mut self, _: &World, thread: ThreadId, interval: &Interval) {
        assert!(interval.from < interval.to, "{interval:?}");
        let before = self.last.insert(thread, interval.to);
        assert!(before.is_none_or(|before| before == interval.from), "{thread:?} {interval:?}");
        if matches!(interval.state, strata_timeline::State::Blocked(_)) {
            self.blocked += interval.nanos();
        }
    }

    fn span(&mut self, _: &World, span: &Span) {
        assert!(span.begin <= span.end, "{span:?}");
        self.spans += 1;
        self.span_nanos += span.nanos();
        if let Some(spent) = span.spent {
            let sum = spent.running + spent.runnable + spent.blocked + spent.unknown;
            assert_eq!(sum, span.nanos(), "{span:?}");
        }
    }

    fn unpaired_span(&mut self, _: &World, span: &UnpairedSpan) {
        self.unpaired_begins += u64::from(span.why != UnpairedReason::NoBegin);
    }
}
