//! Tests of what is known while records of one CPU are missing and those of others are there.

use super::*;

#[test]
fn thread_that_leaves_a_whole_cpu_within_a_gap_of_another_is_unknown_until_after_it() {
    let mut machine = Machine::new();
    machine.switch(10, 0, 0, 0, 7).switch(10, 1, 0, 0, 5);
    machine.engine.gap_between(0, Some(0), (20, 60));
    // 5 may be woken and sleep again on CPU 0, and 6 may have run there since.
    machine.switch(30, 1, 5, S, 6).waking(40, 1, 6, 5);
    let (parent, process, name) = (Some(6), Some(8), RecordText::None);
    machine.tell(45, 1, 6, Fact::Fork { parent, child: 8, process, name }).switch(50, 1, 6, 0, 9);
    machine.waking(70, 1, 9, 5).switch(80, 1, 9, S, 5).switch(90, 1, 5, S, 0);
    let told = machine.finish();
    let of_5 = ["running on 1 10..30", "unknown 30..70", "runnable 70..80", "running on 1 80..90"];
    assert_eq!(told.of(5), of_5, "{:?}", told.lines);
    assert_eq!(told.of(6), ["unknown 10..30", "running on 1 30..50", "unknown 50..90"]);
    assert_eq!(told.of(7), ["running on 0 10..20", "unknown 20..90"]);
    assert!(told.of(8).iter().all(|line| line.starts_with("unknown")), "{:?}", told.lines);
    assert!(told.of(9).contains(&"running on 1 50..80"), "{:?}", told.lines);
}

#[test]
fn record_of_a_cpu_within_its_own_gap_says_who_had_it_for_an_instant() {
    let mut machine = Machine::new();
    machine.switch(10, 0, 0, 0, 7);
    machine.engine.gap_between(0, Some(0), (20, 60));
    machine.switch(30, 0, 7, S, 5).switch(40, 0, 5, S, 6).enter(70, 0, 6, "read", Object::None);
    machine.switch(80, 0, 6, S, 0);
    let told = machine.finish();
    assert_eq!(
        told.of(6)[..],
        ["unknown 10..70", "running on 0 70..80", "NoEnd read 70"],
        "{:?}",
        told.lines
    );
    let known = |run: &&Run| run.thread.is_some() && run.from < run.to;
    let runs: Vec<_> = told.runs.iter().filter(known).map(|run| (run.from, run.to)).collect();
    assert_eq!(runs, [(10, 20), (70, 80)]);
}

#[test]
fn call_that_is_open_at_the_end_of_a_gap_is_not_joined_with_a_later_end() {
    let mut machine = Machine::new();
    machine.switch(10, 1, 0, 0, 5);
    machine.engine.gap_between(0, None, (20, 60));
    machine.enter(30, 1, 5, "read", Object::None).switch(40, 1, 5, S, 0);
    machine.switch(70, 1, 0, 0, 5).leave(80, 1, 5, "read", 1);
    let told = machine.finish();
    assert!(!told.lines.iter().any(|line| line.contains("call read")), "{:?}", told.lines);
    assert!(told.of(5).contains(&"Gap read 30"), "{:?}", told.lines);
}

/// A record of the model.
#[derive(Clone, Copy)]
enum Did {
    Switch(i64, i64, i64),
    Wake(i64, i64),
}

/// What a thread does at each time: running on a CPU, runnable, blocked, or nothing that is known.
type States = std::collections::HashMap<i32, Vec<Option<(u8, u32)>>>;

const TIMES: usize = 120;
const CPUS: u64 = 3;

/// Lets threads run on CPUs as a scheduler does. Returns the records, each with its time and CPU, and what is true.
fn schedule(random: &mut dyn FnMut(u64) -> u64) -> (Vec<(i64, u32, Did)>, States) {
    const RUNNABLE: (u8, u32) = (1, 0);
    const BLOCKED: (u8, u32) = (2, 0);
    let mut now: Vec<(u8, u32)> = vec![BLOCKED; 7];
    let mut runs = [0usize; CPUS as usize];
    let mut truth: States = (1..7).map(|tid| (tid, Vec::new())).collect();
    let mut records = Vec::new();
    for time in 1..TIMES as i64 {
        let cpu = random(CPUS) as usize;
        let other = random(6) as usize + 1;
        let prev = runs[cpu];
        if now[other] == BLOCKED && random(2) == 0 {
            now[other] = RUNNABLE;
            records.push((time, cpu as u32, Did::Wake(prev as i64, other as i64)));
        } else if prev != other && (prev != 0 || now[other] == RUNNABLE) {
            let next = if now[other] == RUNNABLE { other } else { 0 };
            let state = random(2) as i64;
            now[prev] = if state == 0 { RUNNABLE } else { BLOCKED };
            now[next] = (0, cpu as u32);
            runs[cpu] = next;
            records.push((time, cpu as u32, Did::Switch(prev as i64, state, next as i64)));
        }
        for (&tid, states) in &mut truth {
            states.push(Some(now[tid as usize]));
        }
    }
    (records, truth)
}

/// Returns what the timeline says of each time from 1 on.
fn states(machine: &mut Machine) -> States {
    machine.finish();
    let mut all = States::new();
    for (id, interval) in &machine.told.intervals {
        let state = match interval.state {
            State::Running { cpu } => Some((0, cpu)),
            State::Runnable { .. } => Some((1, 0)),
            State::Blocked(_) => Some((2, 0)),
            State::Unknown | State::Gone => None,
        };
        let of = all.entry(tid(&machine.engine.world, *id)).or_insert(vec![None; TIMES]);
        for time in interval.from..interval.to {
            of[time as usize - 1] = state;
        }
    }
    all
}

#[test]
fn no_state_beside_a_gap_contradicts_the_same_trace_without_it() {
    let mut random = Random::new();
    let mut random = move |below: u64| random.below(below);
    let (mut known, mut all) = (0usize, 0usize);
    for round in 0..400 {
        let (records, truth) = schedule(&mut random);
        let mut gaps: Vec<(Option<u32>, i64, i64)> = (0..=random(2))
            .map(|_| {
                let from = random(TIMES as u64 - 10) as i64 + 1;
                let cpu = Some(random(CPUS) as u32).filter(|_| round % 8 != 0);
                (cpu, from, from + random(40) as i64 + 1)
            })
            .collect();
        gaps.sort_by_key(|gap| gap.1);
        let mut machine = Machine::new();
        let mut told = 0;
        for &(time, cpu, did) in &records {
            while let Some(&(of, from, to)) = gaps.get(told).filter(|gap| gap.1 <= time) {
                machine.engine.gap_between(0, of, (from, to));
                told += 1;
            }
            // Some records of the CPU are there within its gap.
            let is_missing = gaps
                .iter()
                .any(|&(of, from, to)| of.is_none_or(|of| of == cpu) && (from..to).contains(&time));
            if is_missing && random(4) != 0 {
                continue;
            }
            match did {
                Did::Switch(prev, state, next) => machine.switch(time, cpu, prev, state, next),
                Did::Wake(by, who) => machine.waking(time, cpu, by, who),
            };
        }
        for (tid, said) in states(&mut machine) {
            let Some(truth) = truth.get(&tid) else { continue };
            for (time, (said, truth)) in said.iter().zip(truth).enumerate() {
                all += 1;
                known += usize::from(said.is_some());
                assert!(
                    said.is_none() || said == truth,
                    "round {round}, thread {tid} at {}: {said:?}, is {truth:?}; {gaps:?}",
                    time + 1
                );
            }
        }
    }
    // What is said of nothing is not wrong either.
    assert!(known > all / 4, "{known} of {all}");
}
