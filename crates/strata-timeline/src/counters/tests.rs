use super::*;

const PROCESS: CounterPlace = CounterPlace::Process(ThreadId(7));

fn cpu(cpu: u32) -> CounterPlace {
    CounterPlace::Cpu { machine: 0, cpu }
}

/// Sets counters, and collects what has ended, as `number from..to`.
struct Set {
    counters: OpenCounters,
    names: Names,
    over: Vec<String>,
}

impl Set {
    fn new() -> Set {
        Set { counters: OpenCounters::default(), names: Names::default(), over: Vec::new() }
    }

    fn value(&mut self, name: &str, place: CounterPlace, from: i64, number: i64) -> CounterValue {
        let number = CounterNumber::Signed(number);
        CounterValue { name: self.names.of(name.as_bytes()), place, number, from, selected: true }
    }

    fn tell(&mut self, (value, to): (CounterValue, i64)) {
        let CounterNumber::Signed(number) = value.number else { panic!("{value:?}") };
        self.over.push(format!("{number} {}..{to}", value.from));
    }

    fn set(&mut self, name: &str, place: CounterPlace, from: i64, number: i64, trace: u32) {
        let value = self.value(name, place, from, number);
        let before = self.counters.set(value, trace).unwrap();
        before.into_iter().for_each(|before| self.tell(before));
    }

    fn finish(mut self, now: i64) -> Vec<String> {
        let left = self.counters.finish(now);
        left.into_iter().for_each(|left| self.tell(left));
        self.over
    }
}

#[test]
fn value_is_that_up_to_the_next_one_of_the_same_name_and_place() {
    let mut set = Set::new();
    set.set("a", PROCESS, 10, 1, 0);
    set.set("b", PROCESS, 11, 2, 0);
    set.set("a", cpu(0), 12, 3, 0);
    set.set("a", PROCESS, 20, 4, 0);
    // Of another trace of the same process: a later part of the recording.
    set.set("a", PROCESS, 30, 5, 1);
    assert_eq!(set.finish(40), ["1 10..20", "4 20..30", "2 11..40", "3 12..40", "5 30..40"]);
}

#[test]
fn value_is_known_up_to_the_first_records_that_were_discarded_since() {
    let mut set = Set::new();
    set.set("a", PROCESS, 10, 1, 0);
    // Of another trace.
    set.counters.gap(1, None, (11, 11));
    set.counters.gap(0, Some(3), (12, 12));
    set.counters.gap(0, Some(3), (15, 15));
    set.set("a", PROCESS, 20, 2, 0);
    set.set("a", PROCESS, 30, 3, 0);
    set.counters.gap(0, None, (32, 32));
    assert_eq!(set.finish(40), ["1 10..12", "2 20..30", "3 30..32"]);
}

#[test]
fn value_of_a_cpu_is_known_up_to_a_gap_of_that_cpu() {
    let mut set = Set::new();
    set.set("a", cpu(0), 10, 1, 0);
    set.set("a", cpu(1), 10, 2, 0);
    set.counters.gap(0, Some(1), (12, 12));
    set.set("a", cpu(0), 20, 3, 0);
    set.set("a", cpu(1), 20, 4, 0);
    // Nobody knows of which CPU.
    set.counters.gap(0, None, (22, 22));
    set.set("a", cpu(0), 30, 5, 0);
    assert_eq!(set.finish(40), ["1 10..20", "2 10..12", "3 20..22", "4 20..22", "5 30..40"]);
}

#[test]
fn value_that_records_of_two_traces_say_is_known_up_to_a_gap_of_either() {
    let mut set = Set::new();
    for (from, trace) in [(10, 0), (20, 1), (30, 0), (40, 1)] {
        set.set("a", PROCESS, from, from, trace);
    }
    set.counters.gap(0, Some(0), (45, 45));
    // Later than that no record can say when it was.
    set.counters.gap(1, Some(0), (50, 50));
    set.set("a", PROCESS, 60, 60, 1);
    set.counters.gap(1, Some(0), (65, 65));
    assert_eq!(set.finish(70), ["10 10..20", "20 20..30", "30 30..40", "40 40..45", "60 60..65"]);
}

#[test]
fn gap_before_a_value_does_not_end_it_before_it_begins() {
    let mut set = Set::new();
    set.set("a", PROCESS, 10, 1, 0);
    // Of records from before, which is known only now.
    set.counters.gap(0, None, (5, 5));
    assert_eq!(set.finish(40), ["1 10..10"]);
}

#[test]
fn counter_that_is_one_too_many_is_counted_and_has_no_value() {
    let mut set = Set::new();
    for number in 0..COUNTERS_MAX {
        let place = cpu(u32::try_from(number).unwrap());
        set.set("a", place, 10, 1, 0);
    }
    let value = set.value("a", PROCESS, 20, 2);
    assert_eq!(set.counters.set(value, 0), Err(TooMany));
    assert_eq!(set.counters.set(value, 0), Err(TooMany));
    // Those that are there go on.
    set.set("a", cpu(5), 30, 3, 0);
    assert_eq!(set.over, ["1 10..30"]);
    assert_eq!(set.counters.left_out(), 2);
    assert_eq!(set.finish(40).len(), COUNTERS_MAX + 1);
}

#[test]
fn value_that_is_reported_while_records_are_absent_is_known_for_no_time() {
    let mut set = Set::new();
    set.set("a", PROCESS, 10, 1, 0);
    set.set("a", cpu(0), 10, 2, 0);
    set.counters.gap(0, Some(1), (12, 40));
    // Another stream goes on.
    set.set("a", PROCESS, 20, 3, 0);
    set.set("a", PROCESS, 30, 4, 0);
    set.set("a", PROCESS, 40, 5, 0);
    // Records of its CPU are all there.
    set.set("a", cpu(0), 30, 6, 0);
    // Behind it, they are absent anywhere.
    set.counters.gap(0, None, (50, 70));
    set.set("a", cpu(0), 60, 7, 0);
    set.set("a", cpu(0), 70, 8, 0);
    assert_eq!(
        set.finish(80),
        [
            "1 10..12", "3 20..20", "4 30..30", "2 10..30", "6 30..50", "7 60..60", "5 40..50",
            "8 70..80"
        ]
    );
}

#[test]
fn value_of_a_process_is_over_when_that_ends() {
    let mut set = Set::new();
    set.set("a", PROCESS, 10, 1, 0);
    set.set("b", PROCESS, 10, 2, 0);
    set.set("a", CounterPlace::Process(ThreadId(8)), 10, 3, 0);
    set.counters.exit(ThreadId(7), 20);
    // Other threads of it went on.
    set.set("b", PROCESS, 30, 4, 0);
    assert_eq!(set.finish(40), ["2 10..20", "1 10..20", "3 10..40", "4 30..40"]);
}
