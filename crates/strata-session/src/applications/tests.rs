//! Tests of applications.rs: the layer with a real program. tests/e2e/change runs the test, and reads the traces.

use super::*;
use crate::output::folder::TraceFolder;
use crate::plan::tracked::Tracked;
use crate::report::EndReason;
use crate::scratch_tests::{context_of, Nowhere};
use crate::session::layer::LayerRule;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use strata_collect::{Keep, Output, SnapshotSpan};
use strata_filter::Filter;
use strata_model::LossMode;

#[test]
fn spec_of_a_process_is_what_the_options_say() {
    for mode in [LossMode::Discard, LossMode::Overwrite] {
        let options =
            Options { mode, subbuf_bytes: 8192, nr_subbufs: 4, vtid: false, ..Options::default() };
        let spec = spec(&options, Rules::parse(&["a:b"]).unwrap(), None);
        assert_eq!(spec.loss_mode, mode);
        assert_eq!((spec.subbuf_bytes, spec.nr_subbufs), (8192, 4));
        assert!(!spec.vtid && spec.inherit);
        assert_eq!(spec.rules.rules().len(), 1);
    }
}

fn rule(text: &str, filter: Option<&str>) -> LayerRule {
    let filter = filter.map(|filter| Filter::parse(filter).unwrap());
    LayerRule { text: text.to_owned(), filter, ..LayerRule::default() }
}

fn wanted(others: Option<LayerRule>) -> Wanted {
    let mut rules = vec![rule("numbered:count", None)];
    rules.extend(others);
    Wanted { rules, ..Wanted::default() }
}

/// Returns a value that tests/e2e/change passes in the environment: `NAME=VALUE`.
fn told(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name}: run by tests/e2e/change"))
}

/// Waits until each thread of the program except the first has run, and so emitted events, since this call.
fn all_have_run(pid: u32) {
    let ran = || -> Vec<u64> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let others =
            tasks.map(|task| task.unwrap()).filter(|task| *task.file_name() != *pid.to_string());
        let text = |task: std::fs::DirEntry| {
            std::fs::read_to_string(task.path().join("schedstat")).unwrap()
        };
        others.map(|task| text(task).split(' ').next().unwrap().parse().unwrap()).collect()
    };
    let before = ran();
    while before.iter().zip(ran()).any(|(before, now)| now < before + 2_000_000) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
#[ignore = "run by tests/e2e/change"]
fn alone_rules_and_filters_change_while_a_program_records() {
    let pid: u32 = told("CHANGE_PID").parse().unwrap();
    let changes: u32 = told("CHANGE_TIMES").parse().unwrap();
    let folder = TraceFolder::create(&PathBuf::from(told("CHANGE_OUTPUT"))).unwrap();
    folder.begin().unwrap();
    let options = Options {
        pids: vec![pid],
        rules: Some(Rules::parse(&["numbered:count"]).unwrap()),
        subbuf_bytes: 1 << 20,
        nr_subbufs: 8,
        ..Options::default()
    };
    let context = context_of(folder, Keep::Write { flush: Duration::ZERO });
    let clock = Arc::new(Clock::new());
    let mut layer = Applications::new(&options, &context, clock, None, false).unwrap();
    layer.start();
    layer.begun(None);
    layer.run();
    layer.admit(&mut |_| ControlFlow::Continue(()));
    let begin = Instant::now();
    let mut longest = Duration::ZERO;
    for nr in 0..changes {
        let others = match nr % 4 {
            0 => Some(rule("numbered:other", None)),
            1 => Some(rule("numbered:other", Some(&format!("number < {nr}")))),
            2 => Some(rule("numbered:oth*", Some(&format!("number < {nr} && thread == 0")))),
            _ => None,
        };
        let change = Instant::now();
        layer.change(&wanted(others)).unwrap();
        longest = longest.max(change.elapsed());
        // Each way has records of each thread: one that gets no CPU before the pause has none that come before it.
        if nr < 4 {
            all_have_run(pid);
        }
    }
    layer.set_paused(true);
    all_have_run(pid);
    layer.set_paused(false);
    all_have_run(pid);
    for names in ["nobody*", "numb?red"] {
        let tracked = Tracked { names: Some(vec![names.to_owned()]), ..Tracked::default() };
        layer.change(&Wanted { tracked, ..wanted(None) }).unwrap();
        all_have_run(pid);
    }
    println!(
        "changes {changes} longest_us {} all_us {}",
        longest.as_micros(),
        begin.elapsed().as_micros()
    );
    std::fs::write(told("CHANGE_DONE"), "").unwrap();
    // The program ends: its numbers are complete.
    while !context.shared.is_nobody_left() {
        std::thread::sleep(Duration::from_millis(5));
    }
    layer.stop();
    context.shared.stop(EndReason::Processes);
    layer.join();
    assert_eq!(context.shared.failure(), None);
    let end = Box::new(layer).end();
    for rule in &end.rules {
        println!("rule {} {}", rule.rule, rule.matched);
    }
    for process in &end.report.processes {
        println!(
            "process records {} discarded {} problem {:?} warnings {:?}",
            process.counts.records,
            process.counts.discarded.total(),
            process.problem,
            process.warnings
        );
        assert_eq!((&process.problem, &process.set_aside), (&None, &None));
    }
    assert!(end.not_reached.is_empty(), "{:?}", end.not_reached);
}

#[test]
#[ignore = "run by tests/e2e/change"]
fn alone_who_is_tracked_later_is_found() {
    let pid: u32 = told("CHANGE_PID").parse().unwrap();
    let folder = TraceFolder::create(&PathBuf::from(told("CHANGE_OUTPUT"))).unwrap();
    folder.begin().unwrap();
    let options = Options { everyone: true, ..Options::default() };
    let context = context_of(folder, Keep::Write { flush: Duration::from_millis(1) });
    let clock = Arc::new(Clock::new());
    let mut layer = Applications::new(&options, &context, clock, None, false).unwrap();
    let tracked = |uid: u32| {
        let tracked =
            Tracked { pids: Some(vec![pid]), uids: Some(vec![uid]), ..Tracked::default() };
        Wanted { tracked, ..wanted(None) }
    };
    let uid = rustix::process::getuid().as_raw();
    layer.change(&tracked(uid + 1)).unwrap();
    layer.start();
    layer.begun(None);
    layer.run();
    layer.admit(&mut |_| ControlFlow::Continue(()));
    assert_eq!(context.shared.processes(), 0);
    layer.change(&tracked(uid)).unwrap();
    while context.shared.counts().0 == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    layer.change(&tracked(uid + 1)).unwrap();
    layer.stop();
    context.shared.stop(EndReason::Duration);
    layer.join();
    let end = Box::new(layer).end();
    let found: Vec<u32> = end.report.processes.iter().map(|one| one.pid).collect();
    assert_eq!(found, [pid]);
    assert!(end.report.processes[0].counts.records > 0);
}

#[test]
fn snapshot_rotation_and_pause_wait_for_who_announced_itself_before() {
    let options = Options { pids: vec![std::process::id()], ..Options::default() };
    let context = context_of(Nowhere, Keep::Hold);
    let clock = Arc::new(Clock::new());
    let mut layer = Applications::new(&options, &context, clock, None, false).unwrap();
    let (orders, ordered) = channel();
    let (tell, told) = channel();
    let hearing = layer.hearing.take().unwrap();
    layer.orders = Some(orders);
    // In the place of a registry: says what it is asked for, and how many orders the pump has by then.
    layer.keeping = Some(std::thread::spawn(move || {
        let mut asks = 0;
        while asks < 4 {
            let Some(asked) = hearing.next() else {
                // Time: between two looks.
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            asks += 1;
            let what =
                if format!("{asked:?}").contains("Arrivals") { "arrivals" } else { "change" };
            tell.send((what, ordered.try_iter().count())).unwrap();
        }
    }));
    let output: Arc<Mutex<dyn Output>> = Arc::new(Mutex::new(Nowhere));
    // They are asked when they are called, and not before.
    let (snapshot, rotate) = (layer.snapshot(), layer.rotate());
    let span = SnapshotSpan::until_now(None);
    let _ = snapshot(&output, span);
    let _ = rotate(&output);
    layer.set_paused(true);
    let told: Vec<_> = told.iter().collect();
    assert_eq!(told, [("arrivals", 0), ("arrivals", 1), ("arrivals", 1), ("change", 0)]);
    layer.keeping.take().unwrap().join().unwrap();
}
