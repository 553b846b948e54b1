//! Tests of states and calls that follow from facts.

mod deferred;
mod edges;
mod folders;
mod gaps;
mod hidden;
mod many;
mod older;
mod requests;
mod softirqs;

use crate::engine::Engine;
use crate::ids::thread_id::ThreadId;
use crate::observer::{Call, DiskRequest, Interrupt, Observer, Run, UnpairedCall};
use crate::records::facts::{DiskPlace, Fact, More, Part, RecordText, SpanMark, Spot};
use crate::spans::{Home, KeyRef, Paired, Span, Spent, UnpairedSpan};
use crate::world::hidden_threads::Unfollowed;
use crate::world::state::{Interval, Object, Reason, Sleep, State, Waker};
use crate::world::World;
use strata_random::Random;

/// The results of a timeline, as lines of text.
#[derive(Default)]
struct Told {
    lines: Vec<String>,
    intervals: Vec<(ThreadId, Interval)>,
    runs: Vec<Run>,
    unfollowed: Vec<Unfollowed>,
    spent: Vec<Spent>,
}

impl Told {
    /// The lines about one thread.
    fn of(&self, tid: i32) -> Vec<&str> {
        let begin = format!("{tid}: ");
        self.lines.iter().filter_map(|line| line.strip_prefix(&begin)).collect()
    }
}

fn tid(world: &World, thread: ThreadId) -> i32 {
    world.threads.get(thread).map_or(-1, |thread| thread.tid)
}

impl Observer for Told {
    fn call(&mut self, world: &World, call: &Call) {
        let name = world.calls.name(call.call);
        let (tid, begin, end) = (tid(world, call.thread), call.begin, call.end);
        let result = call.result.unwrap_or_default();
        self.lines.push(format!("{tid}: call {name} {begin}..{end} = {result}"));
    }

    fn unpaired(&mut self, world: &World, call: &UnpairedCall) {
        let (tid, why, time) = (tid(world, call.thread), call.why, call.time);
        self.lines.push(format!("{tid}: {why:?} {} {time}", world.calls.name(call.call)));
    }

    fn state(&mut self, world: &World, id: ThreadId, interval: &Interval) {
        self.intervals.push((id, *interval));
        let what = match interval.state {
            State::Running { cpu } => format!("running on {cpu}"),
            State::Runnable { woken: true } => "runnable".to_owned(),
            State::Runnable { woken: false } => "preempted".to_owned(),
            State::Unknown => "unknown".to_owned(),
            State::Gone => "gone".to_owned(),
            State::Blocked(reason) => {
                let call = reason.call.map_or("-", |call| world.calls.name(call));
                let object = match reason.object {
                    Object::None => String::new(),
                    Object::File(name) => format!(" {}", world.names.text(name)),
                    other => format!(" {other:?}"),
                };
                let waker = match interval.waker {
                    Waker::Thread { thread, is_sure } => {
                        format!("{}{}", tid(world, thread), if is_sure { "" } else { "?" })
                    }
                    other => format!("{other:?}"),
                };
                format!("blocked {call}{object} by {waker}")
            }
        };
        let (from, to) = (interval.from, interval.to);
        self.lines.push(format!("{}: {what} {from}..{to}", tid(world, id)));
    }

    fn timed_out(&mut self, world: &World, id: ThreadId, interval: &Interval) {
        let (from, to) = (interval.from, interval.to);
        assert!(self.intervals.contains(&(id, *interval)), "{interval:?}");
        self.lines.push(format!("{}: timed out {from}..{to}", tid(world, id)));
    }

    fn interrupt(
        &mut self,
        world: &World,
        cpu: u32,
        thread: Option<ThreadId>,
        which: Interrupt,
        from: i64,
        to: i64,
    ) {
        let tid = thread.map_or(-1, |thread| tid(world, thread));
        let selected = if world.told.selected { "" } else { " not selected" };
        self.lines.push(format!("{tid}: {which:?} on {cpu} {from}..{to}{selected}"));
    }

    fn softirq_begins(&mut self, _: &World, cpu: u32, number: u8, delay: u64) {
        self.lines.push(format!("softirq {number} on {cpu} after {delay}"));
    }

    fn ran(&mut self, _: &World, run: &Run) {
        self.runs.push(*run);
    }

    fn unfollowed(&mut self, _: &World, of: &Unfollowed) {
        self.unfollowed.push(*of);
    }

    fn request(&mut self, world: &World, request: &DiskRequest) {
        let disk = world.disk_name(0, request.device);
        let DiskRequest { kind, bytes, begin, end, .. } = request;
        self.lines.push(format!("{disk}: {kind:?} {bytes} {begin}..{end}"));
    }

    fn waited_for(&mut self, world: &World, id: ThreadId, interval: &Interval, of: &DiskRequest) {
        assert_eq!(self.intervals.last(), Some(&(id, *interval)));
        self.lines.push(format!("{}: for {}", tid(world, id), of.sector));
    }

    fn span(&mut self, world: &World, span: &Span) {
        let Span { begin, end, disagrees, paired, .. } = span;
        let of = |thread: Option<ThreadId>| thread.map_or(-1, |thread| tid(world, thread));
        let (name, begun_by) = (world.names.text(span.name), of(span.begun_by));
        let mut line = format!("{}: span {name} {begin}..{end}", of(span.thread));
        if span.begun_by != span.thread {
            line += &format!(" begun by {begun_by}");
        }
        if *paired != Paired::Thread {
            line += &format!(" {paired:?}");
        }
        if *disagrees {
            line += " disagrees";
        }
        self.lines.push(line);
        if let Some(spent) = span.spent {
            let sum = spent.running + spent.runnable + spent.blocked + spent.unknown;
            assert_eq!(sum, span.nanos(), "{span:?}");
            self.spent.push(spent);
        }
    }

    fn unpaired_span(&mut self, world: &World, span: &UnpairedSpan) {
        let id = span.thread.map_or(-1, |thread| tid(world, thread));
        let name = world.names.text(span.name);
        self.lines.push(format!("{id}: unpaired {name} {} {:?}", span.time, span.why));
    }
}

struct Machine {
    engine: Engine,
    told: Told,
}

const S: i64 = 1;

impl Machine {
    fn new() -> Machine {
        Machine { engine: Engine::new(vec!["box".into()]), told: Told::default() }
    }

    fn tell(&mut self, time: i64, cpu: u32, tid: i64, fact: Fact<'_>) -> &mut Machine {
        self.engine.moves_to(time);
        let (machine, pid, selected) = (0, None, true);
        let (cpu, tid, own_tid) = (Some(cpu), Some(tid), Some(tid));
        let home = Home { trace: 0, pid: None };
        let spot = Spot { time, machine, cpu, tid, pid, own_tid, home, selected };
        self.engine.apply(&spot, fact, &mut self.told);
        self
    }

    /// Makes a begin or an end of a span, with its thread if there is one.
    fn span(
        &mut self,
        time: i64,
        (trace, cpu, tid): (u32, u32, Option<i64>),
        mark: SpanMark<'_>,
    ) -> &mut Machine {
        self.engine.world.now = self.engine.world.now.max(time);
        let (machine, pid, selected, cpu) = (0, None, true, Some(cpu));
        let home = Home { trace, pid: None };
        let spot = Spot { time, machine, cpu, tid, pid, own_tid: tid, home, selected };
        self.engine.apply(&spot, Fact::Span(mark), &mut self.told);
        self
    }

    fn mark(&mut self, name: &str, begins: bool) -> SpanMark<'static> {
        let name = self.engine.world.names.of(name.as_bytes());
        let (event, pair) = (name, name.number());
        SpanMark {
            pair,
            name,
            event,
            begins,
            is_keyed: false,
            key: None,
            check: None,
            address: None,
            owner: None,
            result: None,
            elapsed: 0,
        }
    }

    fn switch(&mut self, time: i64, cpu: u32, prev: i64, state: i64, next: i64) -> &mut Machine {
        let (prev_name, next_name) = (RecordText::None, RecordText::None);
        let fact = Fact::Switch { prev, prev_state: Some(state), next, prev_name, next_name };
        self.tell(time, cpu, prev, fact)
    }

    fn enter(&mut self, time: i64, cpu: u32, tid: i64, name: &str, object: Object) -> &mut Machine {
        self.enter_with(time, cpu, tid, (name, object), &[])
    }

    fn enter_with(
        &mut self,
        time: i64,
        cpu: u32,
        tid: i64,
        (name, object): (&str, Object),
        parts: &[(Part, i64)],
    ) -> &mut Machine {
        let call = self.engine.world.calls.of(name).unwrap();
        self.tell(
            time,
            cpu,
            tid,
            Fact::Enter { call, elapsed: 0, object, more: More::Is("/etc/file", parts) },
        )
    }

    /// Adds a call of thread 5 with these parts, which returns at once.
    fn call(&mut self, name: &str, fd: i32, parts: &[(Part, i64)], result: i64) -> &mut Machine {
        let time = self.engine.world.now + 1;
        self.enter_with(time, 0, 5, (name, Object::Descriptor(fd)), parts);
        self.leave(time + 1, 0, 5, name, result)
    }

    /// Returns the files of a thread's known descriptors, of those from 0 to 15.
    fn files(&self, tid: i64) -> String {
        let world = &self.engine.world;
        let thread = world.threads.find(0, tid).unwrap();
        let known = (0..16).filter_map(|number| {
            let name = world.names.text(world.file(thread, number)?);
            Some(format!("{number}:{}", name.trim_start_matches("/etc/")))
        });
        known.collect::<Vec<_>>().join(" ")
    }

    fn leave(&mut self, time: i64, cpu: u32, tid: i64, name: &str, result: i64) -> &mut Machine {
        let call = self.engine.world.calls.of(name).unwrap();
        let pair = [(Part::First, 7), (Part::Second, 8)];
        let more = if name.starts_with("pipe") { More::Is("", &pair) } else { More::None };
        self.tell(time, cpu, tid, Fact::Leave { call, result: Some(result), more })
    }

    fn waking(&mut self, time: i64, cpu: u32, by: i64, tid: i64) -> &mut Machine {
        self.tell(time, cpu, by, Fact::Waking { tid, name: RecordText::None })
    }

    fn wakeup(&mut self, time: i64, cpu: u32, by: i64, tid: i64) -> &mut Machine {
        self.tell(time, cpu, by, Fact::Wakeup { tid, name: RecordText::None })
    }

    fn fork(&mut self, time: i64, by: i64, child: i64, process: i64) -> &mut Machine {
        let (parent, process) = (Some(by), Some(process));
        self.tell(time, 0, by, Fact::Fork { parent, child, process, name: RecordText::Is("child") })
    }

    fn finish(&mut self) -> &Told {
        self.engine.finish(&[], &mut self.told);
        &self.told
    }
}

#[test]
fn states_of_a_machine_end_with_its_own_last_record() {
    let mut machine = Machine::new();
    // Another machine, whose recording ends first, and has the same numbers of threads.
    for (time, prev, next) in [(5, 0, 5), (10, 5, 9)] {
        machine.engine.world.now = machine.engine.world.now.max(time);
        let (prev_name, next_name) = (RecordText::None, RecordText::None);
        let fact = Fact::Switch { prev, prev_state: Some(S), next, prev_name, next_name };
        let home = Home { trace: 1, pid: None };
        let (tid, selected) = (Some(prev), true);
        let spot =
            Spot { time, machine: 1, cpu: Some(0), tid, pid: None, own_tid: tid, home, selected };
        machine.engine.apply(&spot, fact, &mut machine.told);
    }
    machine.switch(20, 0, 0, 0, 5).switch(90, 0, 5, S, 9);
    let ends = [90, 10];
    machine.engine.finish(&ends, &mut machine.told);
    let all = &machine.told.lines;
    let late: Vec<_> = all.iter().filter(|line| line.contains("..90")).collect();
    assert_eq!(late, ["5: running on 0 20..90", "9: unknown 20..90"], "{all:?}");
}

#[test]
fn thread_that_sleeps_is_woken_by_the_timer_whoever_ran_then() {
    let mut machine = Machine::new();
    machine.enter(10, 0, 5, "clock_nanosleep", Object::None);
    machine.switch(20, 0, 5, S, 9);
    // In the interrupt of a timer that no record tells: it seems to be 9, whose calls are not recorded.
    machine.waking(50, 0, 9, 5).switch(60, 0, 9, 0, 5).leave(70, 0, 5, "clock_nanosleep", 0);
    let told = machine.finish();
    let (sleep, call) = ("blocked clock_nanosleep by 9? 20..50", "call clock_nanosleep 10..70 = 0");
    // Only its result says that its time was over.
    let wanted = ["running on 0 10..20", sleep, "runnable 50..60", "timed out 20..50", call];
    assert_eq!(told.of(5)[..5], wanted, "{:?}", told.lines);
    assert_eq!(told.of(9), ["unknown 10..20", "running on 0 20..60", "preempted 60..70"]);
}

#[test]
fn sleep_is_ended_by_a_thread_only_with_a_signal() {
    let mut machine = Machine::new();
    machine.enter(5, 0, 9, "read", Object::None).enter(10, 1, 5, "nanosleep", Object::None);
    // The timer's interrupt comes while 9 is in a system call.
    machine.switch(20, 1, 5, S, 0).waking(50, 0, 9, 5).switch(60, 1, 0, 0, 5);
    // As the kernel has it: the signal is told behind the wake, and one that is ignored wakes nobody.
    let generated = Fact::Signal { signal: Some(17), code: Some(1), target: Some(5) };
    machine.tell(61, 0, 9, generated).leave(65, 1, 5, "nanosleep", 0);
    machine.enter(68, 1, 5, "nanosleep", Object::None).switch(70, 1, 5, S, 0);
    machine.waking(80, 0, 9, 5).tell(
        81,
        0,
        9,
        Fact::Signal { signal: Some(10), code: Some(-6), target: Some(5) },
    );
    machine.switch(90, 1, 0, 0, 5).leave(92, 1, 5, "nanosleep", -516);
    // What goes on is the sleep; it is ended by its timer.
    machine.enter(95, 1, 5, "restart_syscall", Object::None).switch(100, 1, 5, S, 0);
    machine.waking(120, 0, 9, 5).switch(130, 1, 0, 0, 5).leave(135, 1, 5, "restart_syscall", 0);
    let told = machine.finish();
    let wanted = [
        "blocked nanosleep by 9 20..50",
        "timed out 20..50",
        "blocked nanosleep by 9 70..80",
        "blocked nanosleep by 9 100..120",
        "timed out 100..120",
    ];
    let is_wait = |line: &&str| line.starts_with("blocked") || line.starts_with("timed out");
    let waits: Vec<_> = told.of(5).into_iter().filter(is_wait).collect();
    assert_eq!(waits, wanted);
    assert!(told.of(5).contains(&"call restart_syscall 95..135 = 0"), "{:?}", told.lines);
}

/// Returns true if a wait of 5 in this call, of which a record says that 9 ended it, is reported as timed out.
fn is_timed_out(name: &str, object: Object, parts: &[(Part, i64)], result: i64) -> bool {
    let mut machine = Machine::new();
    machine.enter(1, 0, 9, "read", Object::None);
    machine.enter_with(5, 1, 5, (name, object), parts).switch(10, 1, 5, S, 0);
    machine.waking(30, 0, 9, 5).switch(40, 1, 0, 0, 5).leave(50, 1, 5, name, result);
    let told = machine.finish();
    assert!(told.of(5).iter().any(|line| line.starts_with("blocked") && line.ends_with("10..30")));
    told.of(5).contains(&"timed out 10..30")
}

#[test]
fn what_a_call_returns_says_whether_its_time_was_over() {
    let some = [(Part::Timeout, 1)];
    for name in ["nanosleep", "clock_nanosleep", "compat_nanosleep"] {
        assert!(is_timed_out(name, Object::None, &[], 0), "{name}");
        for interrupted in [-4, -512, -513, -514, -516] {
            assert!(!is_timed_out(name, Object::None, &[], interrupted), "{name} {interrupted}");
        }
    }
    for name in
        ["poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait2", "io_getevents"]
    {
        assert!(is_timed_out(name, Object::None, &some, 0), "{name}");
        assert!(!is_timed_out(name, Object::None, &some, 1), "{name}");
        assert!(!is_timed_out(name, Object::None, &some, -514), "{name}");
    }
    // -EAGAIN or -ETIMEDOUT of a call that has waited.
    for (name, result) in [
        ("futex", -110),
        ("mq_timedreceive", -110),
        ("rt_sigtimedwait", -11),
        ("semtimedop", -11),
        ("recvfrom", -11),
        ("futex_waitv", -110),
        ("io_uring_enter", -62),
    ] {
        assert!(is_timed_out(name, Object::None, &[], result), "{name}");
        for other in [0, 1, -4, -512] {
            assert!(!is_timed_out(name, Object::None, &[], other), "{name} {other}");
        }
    }
    for name in ["pause", "rt_sigsuspend", "wait4"] {
        assert!(!is_timed_out(name, Object::None, &[], -514), "{name}");
    }
}

#[test]
fn read_of_a_timer_s_descriptor_is_ended_by_the_timer() {
    let mut machine = Machine::new();
    machine.fork(1, 1, 5, 5).enter(2, 0, 9, "read", Object::None);
    machine.call("timerfd_create", -1, &[CLOEXEC], 3);
    let now = machine.engine.world.now;
    machine.enter(now + 1, 0, 5, "read", Object::Descriptor(3)).switch(now + 2, 0, 5, S, 9);
    machine.waking(now + 9, 0, 9, 5).switch(now + 10, 0, 9, 0, 5).leave(now + 11, 0, 5, "read", 8);
    let line = format!("timed out {}..{}", now + 2, now + 9);
    assert!(machine.finish().of(5).contains(&line.as_str()), "{:?}", machine.told.lines);
}

#[test]
fn child_that_stops_wakes_its_parent_though_it_is_in_no_call() {
    let mut machine = Machine::new();
    machine.enter(5, 0, 5, "wait4", Object::None).switch(10, 0, 5, S, 0);
    machine.enter(12, 1, 9, "read", Object::None).leave(14, 1, 9, "read", -512);
    let generated =
        |signal, code| Fact::Signal { signal: Some(signal), code: Some(code), target: Some(5) };
    machine.tell(20, 1, 9, generated(17, 5)).waking(21, 1, 9, 5);
    machine.switch(30, 0, 0, 0, 5).leave(40, 0, 5, "wait4", 9);
    assert!(machine.told.of(5).contains(&"blocked wait4 by 9 10..21"), "{:?}", machine.told.lines);
    // A timer's signal is not of the thread that it finds.
    machine.enter(45, 0, 5, "pause", Object::None).switch(50, 0, 5, S, 0);
    machine.tell(90_000, 1, 9, generated(14, 0x80)).waking(90_001, 1, 9, 5);
    let wanted = "blocked pause by Interrupt 50..90001";
    assert!(machine.told.of(5).contains(&wanted), "{:?}", machine.told.lines);
}

#[test]
fn thread_that_runs_another_program_goes_on_as_its_process_s_first_one() {
    let mut machine = Machine::new();
    machine.fork(1, 1, 5, 5).switch(2, 0, 1, 0, 5).enter(3, 0, 5, "pause", Object::None);
    machine.fork(4, 5, 6, 5).switch(5, 0, 5, S, 6).enter(10, 0, 6, "execve", Object::None);
    machine.switch(20, 0, 6, 2, 5).tell(21, 0, 5, Fact::Exit { tid: 5, name: RecordText::None });
    machine.switch(25, 0, 5, 32, 6);
    machine.tell(40, 0, 5, Fact::Exec { program: RecordText::Is("/bin/sleep"), old: Some(6) });
    machine.leave(50, 0, 5, "execve", 0).switch(60, 0, 5, S, 0);
    let told = machine.finish();
    assert_eq!(told.of(6).last(), Some(&"running on 0 25..40"), "{:?}", told.lines);
    let of: Vec<_> = told.of(5).into_iter().filter(|line| !line.starts_with("blocked")).collect();
    assert_eq!(of[of.len() - 2..], ["call execve 10..50 = 0", "running on 0 40..60"], "{of:?}");
    let world = &machine.engine.world;
    assert_eq!(world.threads.get(world.threads.find(0, 6).unwrap()).unwrap().state, State::Gone);
}

#[test]
fn threads_are_not_runnable_where_no_record_says_who_runs() {
    let blind = |machine: &mut Machine| {
        let fact = Fact::Switch {
            prev: 5,
            prev_state: Some(S),
            next: 9,
            prev_name: RecordText::None,
            next_name: RecordText::None,
        };
        let home = Home { trace: 0, pid: None };
        let (cpu, tid, pid, own_tid) = (None, None, None, None);
        let spot = Spot { time: 5, machine: 0, cpu, tid, pid, own_tid, home, selected: true };
        machine.engine.apply(&spot, fact, &mut machine.told);
    };
    let mut machine = Machine::new();
    machine.wakeup(2, 0, 7, 8);
    blind(&mut machine);
    machine.wakeup(10, 0, 7, 5).fork(20, 7, 6, 6).wakeup(21, 0, 7, 6).wakeup(30, 0, 7, 7);
    let told = machine.finish();
    assert!(!told.lines.iter().any(|line| line.contains("runnable")), "{:?}", told.lines);
    assert!(told.of(6).contains(&"unknown 20..30"), "{:?}", told.lines);
}

#[test]
fn waker_is_a_thread_if_it_was_in_a_call_and_an_interrupt_if_it_was_not() {
    let lock = Object::Address(0x1000);
    let mut machine = Machine::new();
    machine.enter(10, 0, 5, "futex", lock).switch(20, 0, 5, S, 0);
    machine.enter(30, 1, 6, "futex", lock).waking(40, 1, 6, 5).leave(45, 1, 6, "futex", 1);
    machine.switch(50, 0, 0, 0, 5).switch(60, 0, 5, S, 0);
    // It runs, and has left the kernel.
    machine.waking(70, 1, 6, 5);
    machine.switch(80, 0, 0, 0, 5).switch(90, 0, 5, S, 0);
    // Nobody runs: some interrupt.
    machine.waking(95, 0, 0, 5);
    let told = machine.finish();
    let blocked: Vec<_> = told.of(5).into_iter().filter(|line| line.contains("blocked")).collect();
    assert_eq!(
        blocked,
        [
            "blocked futex Address(4096) by 6 20..40",
            "blocked futex Address(4096) by Interrupt 60..70",
            "blocked futex Address(4096) by Interrupt 90..95",
        ]
    );
}

#[test]
fn waker_in_an_interrupt_that_is_recorded_is_that_interrupt() {
    let mut machine = Machine::new();
    machine.enter(10, 0, 5, "read", Object::Descriptor(3)).switch(20, 0, 5, 2, 9);
    machine.tell(30, 0, 9, Fact::InterruptEnter(36, RecordText::Is("disk"))).waking(31, 0, 9, 5);
    machine.tell(32, 0, 9, Fact::InterruptLeave).switch(40, 0, 9, 0, 5).switch(50, 0, 5, S, 9);
    machine.tell(60, 0, 9, Fact::SoftirqEnter(8)).waking(61, 0, 9, 5);
    let told = machine.finish();
    let blocked: Vec<_> = told.of(5).into_iter().filter(|line| line.contains("blocked")).collect();
    let wanted = [
        "blocked read Descriptor(3) by Device(36) 20..31",
        "blocked read Descriptor(3) by Timer 50..61",
    ];
    assert_eq!(blocked, wanted);
}

#[test]
fn wake_of_a_thread_on_its_way_to_sleep_is_reported_when_it_can_run() {
    let mut machine = Machine::new();
    machine.enter(5, 1, 6, "write", Object::None).enter(10, 0, 5, "read", Object::None);
    // The switch is told behind the begin of the wake.
    machine.waking(20, 1, 6, 5).switch(22, 0, 5, S, 9).wakeup(25, 0, 9, 5).switch(30, 0, 9, 0, 5);
    // Here it did not sleep after all; what wakes it later is another one.
    machine.waking(40, 1, 6, 5).wakeup(41, 1, 6, 5).switch(50, 0, 5, S, 9);
    machine.tell(60, 0, 9, Fact::SoftirqEnter(3)).waking(61, 0, 9, 5);
    let told = machine.finish();
    let blocked: Vec<_> = told.of(5).into_iter().filter(|line| line.contains("blocked")).collect();
    assert_eq!(blocked, ["blocked read by 6 22..25", "blocked read by Softirq(3) 50..61"]);
}

#[test]
fn gap_makes_all_unknown_but_what_runs_on_another_cpu() {
    let mut machine = Machine::new();
    machine.enter(10, 0, 5, "read", Object::None).switch(20, 0, 5, S, 9);
    machine.enter(20, 1, 6, "write", Object::None);
    machine.engine.gap(0, Some(0), 30);
    machine.leave(50, 1, 6, "write", 1).leave(60, 0, 5, "read", 1).switch(70, 0, 5, S, 9);
    let told = machine.finish();
    let of_5 =
        ["running on 0 10..20", "blocked read by Unknown 20..30", "Gap read 10", "unknown 30..60"];
    assert_eq!(told.of(5)[..4], of_5, "{:?}", told.lines);
    // Its end is there, and nobody knows to which begin it belongs.
    assert_eq!(told.of(5)[4..], ["NoBegin read 60", "running on 0 60..70"]);
    assert!(told.of(6).contains(&"call write 20..50 = 1"), "{:?}", told.lines);
}

#[test]
fn late_attach_has_no_begin_and_a_child_returns_from_no_call() {
    let mut machine = Machine::new();
    machine.leave(10, 0, 5, "read", 1).enter(20, 0, 5, "clone", Object::None);
    machine.fork(25, 5, 6, 5).leave(30, 0, 5, "clone", 6).leave(40, 1, 6, "clone", 0);
    machine.enter(50, 1, 6, "exit", Object::None).enter(60, 0, 5, "read", Object::None);
    let told = machine.finish();
    let calls = |tid| -> Vec<&str> {
        told.of(tid).into_iter().filter(|line| !line.contains("running")).collect()
    };
    assert_eq!(calls(5), ["NoBegin read 10", "call clone 20..30 = 6", "NoEnd read 60"]);
    assert_eq!(calls(6), ["unknown 25..40"]);
}

#[test]
fn number_that_is_given_again_is_another_thread() {
    let mut machine = Machine::new();
    machine.fork(10, 5, 6, 6).tell(20, 1, 6, Fact::Exit { tid: 6, name: RecordText::Is("old") });
    machine.switch(30, 1, 6, 32, 0).fork(40, 5, 6, 6).tell(50, 1, 6, Fact::Fault);
    let world = &machine.engine.world;
    let of_6: Vec<_> = world.threads.iter().filter(|(_, thread)| thread.tid == 6).collect();
    assert_eq!(of_6.len(), 2);
    assert_eq!(of_6[0].1.state, State::Gone);
    assert_eq!(world.thread_name(of_6[0].0), "child");
    assert_eq!(world.process_of(of_6[1].0), of_6[1].0);
    assert_eq!(machine.finish().of(6), ["unknown 10..20", "running on 1 20..30", "unknown 40..50"]);
}

const CLOEXEC: (Part, i64) = (Part::Flags, 0o2_000_000);

#[test]
fn descriptors_are_what_they_were_opened_for_in_the_process_and_its_children() {
    let fd = Object::Descriptor;
    let mut machine = Machine::new();
    machine.enter(10, 0, 5, "openat", Object::None).leave(11, 0, 5, "openat", 3);
    machine.enter(12, 0, 5, "dup", fd(3)).leave(13, 0, 5, "dup", 4);
    machine.enter(14, 0, 5, "pipe2", Object::None).leave(15, 0, 5, "pipe2", 0);
    machine.enter(18, 0, 5, "vfork", Object::None).fork(20, 5, 6, 6).leave(21, 0, 5, "vfork", 6);
    // It is gone at once, whatever the call returns.
    machine.enter(30, 0, 5, "close", fd(3));
    assert_eq!(machine.files(5), "4:file 7:pipe 8:pipe");
    machine.leave(31, 0, 5, "close", -4);
    assert_eq!(machine.files(6), "3:file 4:file 7:pipe 8:pipe");
    machine.enter(40, 1, 6, "read", fd(8)).switch(50, 1, 6, S, 0).waking(60, 1, 0, 6);
    assert!(machine.told.of(6).contains(&"blocked read pipe by Interrupt 50..60"));
    machine.engine.gap(0, Some(1), 70);
    assert_eq!((machine.files(5), machine.files(6)), (String::new(), String::new()));
}

#[test]
fn program_that_is_run_has_the_descriptors_that_exec_leaves() {
    let mut machine = Machine::new();
    machine.call("openat", -100, &[CLOEXEC], 3).call("openat", -100, &[(Part::Flags, 0)], 4);
    // Of this one, nobody knows.
    machine.call("openat", -100, &[], 5);
    machine.call("dup3", 4, &[CLOEXEC], 6).call("dup2", 3, &[], 7);
    let command = |cmd, arg| [(Part::Control, cmd), (Part::Argument, arg)];
    machine.call("fcntl", 4, &command(1030, 0), 8).call("fcntl", 3, &command(0, 0), 9);
    machine.call("fcntl", 4, &command(3, 0), 2).call("fcntl", 9, &command(2, 1), 0);
    machine.call("ioctl", 6, &command(0x5450, 0), 0);
    machine.call("epoll_create1", -1, &[CLOEXEC], 10).call("eventfd2", -1, &[(Part::Flags, 0)], 11);
    let all = "3:file 4:file 5:file 6:file 7:file 8:file 9:file 10:epoll 11:eventfd";
    assert_eq!(machine.files(5), all);
    let now = machine.engine.world.now;
    machine.tell(now + 1, 0, 5, Fact::Exec { program: RecordText::None, old: None });
    assert_eq!(machine.files(5), "4:file 6:file 7:file 11:eventfd");
}

#[test]
fn descriptors_that_are_closed_by_others_and_by_ranges_are_not_known_any_more() {
    let mut machine = Machine::new();
    for number in 3..9 {
        machine.call("open", -1, &[CLOEXEC], number);
    }
    machine.call("dup2", 15, &[], 4).call("dup2", 5, &[], 5);
    assert_eq!(machine.files(5), "3:file 5:file 6:file 7:file 8:file");
    let range = |last, flags| [(Part::Argument, last), (Part::Flags, flags)];
    machine.call("close_range", 6, &range(7, 0), 0);
    assert_eq!(machine.files(5), "3:file 5:file 8:file");
    machine.call("close_range", 5, &range(0xffff_ffff, 4), 0);
    assert_eq!(machine.files(5), "3:file 5:file 8:file");
}

#[test]
fn processes_share_descriptors_only_if_they_were_made_so() {
    let clone = |machine: &mut Machine, flags: &[(Part, i64)], child, process| {
        let time = machine.engine.world.now + 1;
        machine.enter_with(time, 0, 5, ("clone", Object::None), flags);
        machine.fork(time + 1, 5, child, process).leave(time + 2, 0, 5, "clone", child);
    };
    let mut machine = Machine::new();
    machine.fork(1, 1, 5, 5).call("open", -1, &[CLOEXEC], 3);
    clone(&mut machine, &[(Part::Flags, 0x400)], 6, 6);
    clone(&mut machine, &[(Part::Flags, 0x10400)], 7, 5);
    clone(&mut machine, &[(Part::Flags, 0)], 8, 8);
    clone(&mut machine, &[], 9, 9);
    machine.call("open", -1, &[CLOEXEC], 4);
    let of = |machine: &Machine| [5, 6, 7, 8, 9].map(|tid| machine.files(tid));
    assert_eq!(of(&machine), ["3:file 4:file", "3:file 4:file", "3:file 4:file", "3:file", ""]);
    let time = machine.engine.world.now + 1;
    machine.enter_with(time, 1, 6, ("unshare", Object::None), &[(Part::Flags, 0x400)]);
    machine.leave(time + 1, 1, 6, "unshare", 0).call("close", 3, &[], 0);
    assert_eq!(of(&machine), ["4:file", "3:file 4:file", "4:file", "3:file", ""]);
    machine.tell(time + 9, 1, 6, Fact::Exit { tid: 6, name: RecordText::None });
    machine.switch(time + 10, 1, 6, 32, 0).call("open", -1, &[CLOEXEC], 3);
    assert_eq!(of(&machine), ["3:file 4:file", "", "3:file 4:file", "3:file", ""]);
}

#[test]
fn first_thread_that_unshares_leaves_its_descriptors_to_the_others() {
    let mut machine = Machine::new();
    machine.fork(1, 1, 5, 5).call("open", -1, &[CLOEXEC], 3);
    machine.enter_with(20, 0, 5, ("clone", Object::None), &[(Part::Flags, 0x10400)]);
    machine.fork(21, 5, 6, 5).leave(22, 0, 5, "clone", 6);
    machine.call("unshare", -1, &[(Part::Flags, 0x400)], 0).call("open", -1, &[CLOEXEC], 4);
    assert_eq!((machine.files(5), machine.files(6)), ("3:file 4:file".into(), "3:file".into()));
}

#[test]
fn paths_begin_in_the_folder_of_their_process() {
    let path = |machine: &mut Machine, call: &str, path: &'static str, result, tid| {
        let time = machine.engine.world.now + 1;
        let id = machine.engine.world.calls.of(call).unwrap();
        let more = More::Is(path, &[CLOEXEC]);
        machine.tell(
            time,
            0,
            tid,
            Fact::Enter { call: id, elapsed: 0, object: Object::None, more },
        );
        machine.leave(time + 1, 0, tid, call, result);
    };
    let mut machine = Machine::new();
    machine.fork(1, 1, 5, 5);
    path(&mut machine, "open", "before", 3, 5);
    path(&mut machine, "chdir", "/etc/a", 0, 5);
    path(&mut machine, "chdir", "b", 0, 5);
    path(&mut machine, "chdir", "nowhere", -2, 5);
    path(&mut machine, "open", "c", 4, 5);
    let time = machine.engine.world.now + 1;
    machine.enter(time, 0, 5, "vfork", Object::None).fork(time + 1, 5, 6, 6);
    path(&mut machine, "chdir", "/etc/other", 0, 6);
    path(&mut machine, "open", "d", 5, 6);
    path(&mut machine, "open", "e", 6, 5);
    assert_eq!(machine.files(5), "3:before 4:a/b/c 6:a/b/e");
    assert_eq!(machine.files(6), "3:before 4:a/b/c 5:other/d");
    machine.engine.gap(0, None, machine.engine.world.now);
    path(&mut machine, "open", "late", 7, 5);
    assert_eq!(machine.files(5), "7:late");
}

#[test]
fn paths_begin_in_the_folder_that_a_dump_tells_of() {
    let mut machine = Machine::new();
    let dump = |machine: &mut Machine, path: &'static str| {
        let time = machine.engine.world.now + 1;
        let path = RecordText::Copied(path.as_bytes());
        let fact = Fact::Opened { process: 5, descriptor: -100, flags: Some(0x10000), path };
        machine.tell(time, 0, 1, fact);
    };
    let open = |machine: &mut Machine, path: &'static str, result| {
        let time = machine.engine.world.now + 1;
        let id = machine.engine.world.calls.of("open").unwrap();
        let more = More::Is(path, &[CLOEXEC]);
        machine.tell(time, 0, 5, Fact::Enter { call: id, elapsed: 0, object: Object::None, more });
        machine.leave(time + 1, 0, 5, "open", result);
    };
    machine.fork(1, 1, 5, 5);
    open(&mut machine, "before", 3);
    dump(&mut machine, "/srv");
    open(&mut machine, "a", 4);
    // What is known already is no less right.
    dump(&mut machine, "/late");
    open(&mut machine, "b", 5);
    assert_eq!(machine.files(5), "3:before 4:/srv/a 5:/srv/b");
}

#[test]
fn cpus_ran_somebody_nobody_or_what_the_trace_does_not_say() {
    let mut machine = Machine::new();
    machine.tell(10, 0, 5, Fact::Fault).switch(20, 0, 5, S, 0).switch(30, 0, 0, 0, 6);
    // Nobody has said that 6 went.
    machine.switch(50, 0, 7, 0, 5);
    machine.engine.gap(0, Some(0), 60);
    machine.switch(80, 0, 8, 0, 0).tell(90, 1, 9, Fact::Fault);
    machine.finish();
    let shown = machine.told.runs.iter().filter(|run| run.from < run.to).map(|run| {
        let who = run.thread.map(|thread| tid(&machine.engine.world, thread));
        (run.cpu, who, run.from, run.to)
    });
    let wanted = [
        (0, Some(5), 10, 20),
        (0, Some(0), 20, 30),
        (0, None, 30, 50),
        (0, Some(5), 50, 60),
        (0, None, 60, 80),
        (1, None, 10, 90),
        (0, Some(0), 80, 90),
    ];
    assert_eq!(shown.collect::<Vec<_>>(), wanted);
    assert_eq!(machine.told.runs.iter().filter(|run| run.is_switch).count(), 4);
}

#[test]
fn interrupts_are_reported_with_whom_they_interrupt_and_how_late_they_are() {
    let mut machine = Machine::new();
    machine.switch(10, 0, 0, 0, 5).tell(20, 0, 5, Fact::InterruptEnter(36, RecordText::Is("disk")));
    machine.tell(22, 0, 5, Fact::SoftirqRaise(4)).tell(23, 0, 5, Fact::SoftirqRaise(4));
    machine.tell(25, 0, 5, Fact::InterruptLeave).tell(30, 0, 5, Fact::SoftirqEnter(4));
    let place = DiskPlace { device: 254 << 20, sector: 8, sectors: 2 };
    machine.tell(5, 1, 9, Fact::Issue { place, kind: RecordText::Is("R"), bits: None });
    machine.tell(35, 0, 5, Fact::Complete { place, error: None }).tell(
        40,
        0,
        5,
        Fact::SoftirqLeave,
    );
    let told = machine.finish();
    assert_eq!(told.of(5)[..2], ["Device(36) on 0 20..25", "Softirq(4) on 0 30..40"]);
    assert!(told.lines.contains(&"softirq 4 on 0 after 8".to_owned()), "{:?}", told.lines);
    assert!(told.lines.contains(&"254:0: Read 1024 5..35".to_owned()), "{:?}", told.lines);
    assert_eq!(machine.engine.world.interrupt_name(0, 36), "disk");
}

#[test]
fn spans_of_threads_that_interleave_are_each_in_its_own() {
    let mut machine = Machine::new();
    let (begin, end) = (machine.mark("pool:job", true), machine.mark("pool:job", false));
    machine.span(10, (0, 0, Some(5)), begin).span(20, (0, 0, Some(6)), begin);
    machine.span(30, (0, 0, Some(5)), end).span(50, (0, 0, Some(6)), end);
    machine.span(60, (0, 0, Some(6)), end);
    let told = machine.finish();
    assert_eq!(told.of(5)[0], "span pool:job 10..30");
    assert_eq!(told.of(6)[..2], ["span pool:job 20..50", "unpaired pool:job 60 NoBegin"]);
}

#[test]
fn spans_with_keys_end_in_any_thread_and_one_begun_again_is_unpaired() {
    let mut machine = Machine::new();
    let of = |machine: &mut Machine, begins, key| {
        let mark = machine.mark("shop:order", begins);
        SpanMark { is_keyed: true, key: Some(KeyRef::Number(key)), ..mark }
    };
    let [begin_1, end_1] = [true, false].map(|begins| of(&mut machine, begins, 1));
    let [begin_2, end_2] = [true, false].map(|begins| of(&mut machine, begins, 2));
    machine.span(10, (0, 0, Some(5)), begin_1).span(20, (0, 1, Some(6)), begin_2);
    machine.span(30, (0, 0, Some(5)), end_2).span(40, (0, 1, Some(6)), end_1);
    machine.span(50, (0, 0, Some(5)), begin_1).span(60, (0, 0, Some(5)), begin_1);
    machine.span(70, (0, 0, Some(5)), end_1).span(80, (0, 0, Some(5)), end_2);
    // Of another process, whose keys are its own; and one that ends where no other has begun.
    machine.span(90, (0, 0, Some(5)), begin_1).span(91, (1, 0, Some(7)), begin_1);
    machine.span(92, (0, 0, Some(5)), end_1).span(93, (2, 0, Some(8)), end_1);
    let told = machine.finish();
    let wanted = [
        "span shop:order 20..30 begun by 6 Key",
        "unpaired shop:order 50 Again",
        "span shop:order 60..70 Key",
        "unpaired shop:order 80 NoBegin",
        "span shop:order 90..92 Key",
    ];
    assert_eq!(told.of(5)[..5], wanted, "{:?}", told.lines);
    assert_eq!(told.of(6)[0], "span shop:order 10..40 begun by 5 Key");
    assert_eq!(told.of(8)[0], "span shop:order 91..93 begun by 7 Key");
}

#[test]
fn spans_of_nobody_are_guesses_and_those_without_their_key_say_so() {
    let mut machine = Machine::new();
    let (begin, end) = (machine.mark("a:b", true), machine.mark("a:b", false));
    machine.span(10, (0, 0, None), begin).span(20, (0, 1, None), begin).span(30, (0, 0, None), end);
    machine.span(40, (0, 3, None), end);
    let [begin, end] = [begin, end].map(|mark| SpanMark { is_keyed: true, ..mark });
    machine.span(50, (0, 0, Some(5)), begin).span(60, (0, 0, Some(5)), end);
    let [begin, end] = [begin, end].map(|mark| SpanMark { is_keyed: false, ..mark });
    let begin = SpanMark { check: Some(1), ..begin };
    machine.span(70, (0, 0, Some(5)), begin);
    machine.span(80, (0, 0, Some(5)), SpanMark { check: Some(2), ..end });
    let told = machine.finish();
    assert_eq!(told.of(-1), ["span a:b 10..30 Guess", "span a:b 20..40 Guess"]);
    assert_eq!(told.of(5)[..2], ["span a:b 50..60 NoKey", "span a:b 70..80 disagrees"]);
}

#[test]
fn spans_left_by_a_jump_and_spans_around_discarded_records_have_no_length() {
    let mut machine = Machine::new();
    let (outer, inner) = (machine.mark("a:outer", true), machine.mark("a:inner", true));
    let outer_end = SpanMark { begins: false, ..outer };
    let here = (0, 0, Some(5));
    machine.span(10, here, outer).span(20, here, inner).span(30, here, outer_end);
    machine.span(40, here, outer).engine.span_gap(0);
    machine.span(50, here, outer_end).span(60, here, outer).span(70, here, outer_end);
    machine.span(80, here, inner);
    let told = machine.finish();
    let spans: Vec<_> = told.of(5).into_iter().filter(|line| !line.contains("unknown")).collect();
    let wanted = [
        "unpaired a:inner 20 NoEnd",
        "span a:outer 10..30",
        "unpaired a:outer 40 Gap",
        "span a:outer 60..70",
        "unpaired a:inner 80 NoEnd",
    ];
    assert_eq!(spans, wanted);
}

#[test]
fn spans_of_functions_end_by_their_addresses() {
    let mut machine = Machine::new();
    let begin = machine.mark("functions", true);
    let of = |address| SpanMark { address: Some(address), ..begin };
    let end = |address| SpanMark { begins: false, ..of(address) };
    let here = (0, 0, Some(5));
    machine.span(10, here, of(1)).span(20, here, of(2)).span(30, here, of(3));
    // Of 3 there is no end: it was left by a jump.
    machine.span(40, here, end(2)).span(50, here, end(9)).span(60, here, end(1));
    let told = machine.finish();
    let wanted = [
        "unpaired functions 30 NoEnd",
        "span functions 20..40",
        "unpaired functions 50 NoBegin",
        "span functions 10..60",
    ];
    assert_eq!(told.of(5)[..4], wanted, "{:?}", told.lines);
}

#[test]
fn span_says_what_its_thread_did_meanwhile() {
    let mut machine = Machine::new();
    let (begin, end) = (machine.mark("a:b", true), machine.mark("a:b", false));
    machine.switch(10, 0, 9, 0, 5).span(15, (0, 0, Some(5)), begin);
    machine.enter(20, 0, 5, "read", Object::None).switch(30, 0, 5, S, 9).waking(70, 0, 9, 5);
    machine.switch(80, 0, 9, 0, 5).span(100, (0, 0, Some(5)), end);
    let wanted = Spent { running: 15 + 20, runnable: 10, blocked: 40, unknown: 0 };
    assert_eq!(machine.finish().spent, [wanted]);
    machine.told.spent.clear();
    // What was so before records were discarded is not so behind them.
    machine.span(110, (0, 0, Some(5)), begin);
    machine.engine.gap(0, Some(0), 105);
    machine.span(130, (0, 0, Some(5)), end);
    assert_eq!(machine.told.spent, [Spent { unknown: 20, ..Spent::default() }]);
}

#[test]
fn hostile_facts_leave_each_thread_with_states_one_behind_the_other() {
    let mut numbers = Random::from_seed(1);
    let mut random = move |below: u64| numbers.below(below);
    for _ in 0..200 {
        let mut machine = Machine::new();
        let mut time = 1_000_i64;
        for _ in 0..300 {
            // Times that go back, too.
            time += random(20) as i64 - 2;
            let (cpu, tid, other) = (random(3) as u32, random(6) as i64, random(6) as i64 - 1);
            let calls = [
                "read",
                "openat",
                "close",
                "dup",
                "pipe2",
                "exit",
                "clone",
                "nanosleep",
                "fcntl",
                "close_range",
                "unshare",
                "execve",
            ];
            let name = calls[random(12) as usize];
            let flags = [(Part::Flags, random(0x800) as i64), (Part::Control, random(3) as i64)];
            let object = Object::Descriptor(random(5) as i32 - 1);
            let mark = machine.mark(["a:x", "a:y"][random(2) as usize], random(2) == 0);
            let key = Some(KeyRef::Number(random(3).into())).filter(|_| random(2) == 0);
            let mark = SpanMark { key, is_keyed: key.is_some(), ..mark };
            let place = (random(2) as u32, cpu, Some(tid).filter(|&tid| tid < 4));
            match random(15) {
                0..=2 => machine.switch(time, cpu, tid, random(300) as i64, other),
                3 => machine.waking(time, cpu, tid, other),
                4 => machine.wakeup(time, cpu, tid, other),
                5 | 6 => machine.enter_with(time, cpu, tid, (name, object), &flags),
                7 | 8 => machine.leave(time, cpu, tid, name, random(5) as i64 - 1),
                9 => machine.fork(time, tid, other, random(6) as i64),
                10 => machine.tell(time, cpu, tid, Fact::SoftirqEnter(random(12) as i64)),
                11 => machine.tell(time, cpu, tid, Fact::SoftirqLeave),
                12 | 13 => machine.span(time, place, mark),
                _ => {
                    machine.engine.gap(0, Some(cpu).filter(|cpu| *cpu < 2), time - 5);
                    &mut machine
                }
            };
        }
        let told = machine.finish();
        let mut last = std::collections::HashMap::new();
        for (id, interval) in &told.intervals {
            assert!(interval.from < interval.to, "{interval:?}");
            let before = last.insert(id, interval.to);
            assert!(before.is_none_or(|before| before == interval.from), "{id:?} {interval:?}");
        }
        let mut last = std::collections::HashMap::new();
        for run in &told.runs {
            let before = last.insert(run.cpu, run.to);
            assert!(
                run.from <= run.to && before.is_none_or(|before| before == run.from),
                "{run:?}"
            );
        }
    }
}
