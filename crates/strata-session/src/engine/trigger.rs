//! Decides when a trigger fires, from the facts at one moment alone. `engine/triggers.rs` collects the facts and
//! performs the actions.
//!
//! Each event, end or signal that a condition admits is an occurrence, and so is each silence. Occurrences are answered
//! by one firing, or are counted as suppressed; none is forgotten.

use std::time::{Duration, Instant};

use strata_user::Outcome;

use crate::plan::{Condition, Trigger};

/// The facts with which a trigger is checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TriggerFacts<'f> {
    pub(crate) now: Instant,
    /// Number of events that the trigger's watcher has seen; it wraps around.
    pub(crate) events: u64,
    /// Number of signals to the session since its start.
    pub(crate) signals: u64,
    /// Ends of programs since the last check; `None` for a program whose end is unknown.
    pub(crate) ends: &'f [Option<Outcome>],
    /// Fill of the fullest buffer \[%\].
    pub(crate) fill: u8,
    /// Size of all packets written so far \[byte\].
    pub(crate) written: u64,
    /// Number of the last complete chunk; 0 if there is none.
    pub(crate) part: u64,
    /// True if the actions of the last firing are still in progress.
    pub(crate) is_busy: bool,
}

/// The state of a trigger: what was observed and done so far, which decides whether it fires.
#[derive(Clone, Debug)]
pub(crate) struct TriggerProgress {
    events: u64,
    signals: u64,
    /// Time of the last event, or time when the trigger began to wait for events.
    heard: Instant,
    /// True if the trigger has already fired for the present silence.
    is_silent: bool,
    /// True if the trigger has already fired for buffers that are as full as now.
    is_full: bool,
    /// The bytes that were written when the condition was met last.
    written: u64,
    /// Number of the last complete chunk.
    part: u64,
    /// Number of times that the condition was met when the trigger fired last: one firing stands for all of them.
    pub(crate) occurrences: u64,
    last: Option<Instant>,
    /// Number of times that the trigger fired.
    pub(crate) fired: u64,
    /// Number of times that the condition was met without a firing of its own: because of the pause or the limit, or
    /// since one firing stood for several.
    pub(crate) suppressed: u64,
}

impl TriggerProgress {
    /// Creates the state at the time `now`, after `signals` signals.
    pub(crate) fn new(now: Instant, signals: u64) -> TriggerProgress {
        TriggerProgress {
            events: 0,
            signals,
            heard: now,
            is_silent: false,
            is_full: false,
            written: 0,
            part: 0,
            occurrences: 0,
            last: None,
            fired: 0,
            suppressed: 0,
        }
    }

    /// Leaves out what was written before, and the chunks that were complete.
    pub(crate) fn after(self, written: u64, part: u64) -> TriggerProgress {
        TriggerProgress { written, part, ..self }
    }

    /// Returns whether the trigger fires now, and updates its state.
    pub(crate) fn look(&mut self, trigger: &Trigger, facts: &TriggerFacts<'_>) -> bool {
        let events = facts.events.wrapping_sub(std::mem::replace(&mut self.events, facts.events));
        let signals =
            facts.signals.saturating_sub(std::mem::replace(&mut self.signals, facts.signals));
        let occurrences = match &trigger.when {
            Condition::Event { .. } => events,
            Condition::Silence { ms, .. } => self.silences(events, facts.now, *ms),
            Condition::Ended { how } => {
                facts.ends.iter().filter(|outcome| how.admits(**outcome)).count() as u64
            }
            Condition::Signal => signals,
            Condition::Fill { percent } => {
                let was_full = std::mem::replace(&mut self.is_full, facts.fill >= *percent);
                u64::from(self.is_full && !was_full)
            }
            Condition::Written { bytes } => {
                let times = facts.written.saturating_sub(self.written) / (*bytes).max(1);
                self.written = self.written.saturating_add(times.saturating_mul(*bytes));
                times
            }
            Condition::Part => {
                u64::from(facts.part > std::mem::replace(&mut self.part, facts.part))
            }
        };
        if occurrences == 0 {
            return false;
        }
        let pause = Duration::from_millis(trigger.pause_ms);
        let fires = !facts.is_busy
            && trigger.times.is_none_or(|times| self.fired < times)
            && self.last.is_none_or(|last| facts.now.saturating_duration_since(last) >= pause);
        if fires {
            self.last = Some(facts.now);
            self.occurrences = occurrences;
            self.fired += 1;
        }
        self.suppressed = self.suppressed.saturating_add(occurrences - u64::from(fires));
        fires
    }

    fn silences(&mut self, events: u64, now: Instant, ms: u64) -> u64 {
        if events > 0 {
            (self.heard, self.is_silent) = (now, false);
        }
        let since = now.saturating_duration_since(self.heard);
        let begins = !self.is_silent && since >= Duration::from_millis(ms);
        self.is_silent |= begins;
        u64::from(begins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Action, How, LayerOf, Selection};

    fn trigger(when: Condition) -> Trigger {
        let (name, actions) = ("t".to_owned(), vec![Action::Start]);
        Trigger { name, when, actions, pause_ms: 1000, times: None }
    }

    fn selection() -> Selection {
        Selection { layer: LayerOf::User, rule: "a:*".into(), filter: None }
    }

    /// Tests one trigger at chosen moments \[ms\].
    struct Bench {
        trigger: Trigger,
        progress: TriggerProgress,
        begin: Instant,
        /// Fill of the buffers, bytes written, number of the last chunk.
        of_session: (u8, u64, u64),
        is_busy: bool,
    }

    impl Bench {
        fn new(when: Condition) -> Bench {
            let begin = Instant::now();
            let progress = TriggerProgress::new(begin, 3);
            Bench { trigger: trigger(when), progress, begin, of_session: (0, 0, 0), is_busy: false }
        }

        fn look(
            &mut self,
            ms: u64,
            events: u64,
            signals: u64,
            ends: &[Option<Outcome>],
        ) -> (bool, u64, u64) {
            let now = self.begin + Duration::from_millis(ms);
            let (fill, written, part) = self.of_session;
            let is_busy = self.is_busy;
            let facts = TriggerFacts { now, events, signals, ends, fill, written, part, is_busy };
            let fires = self.progress.look(&self.trigger, &facts);
            (fires, self.progress.fired, self.progress.suppressed)
        }
    }

    #[test]
    fn events_fire_once_and_the_others_are_suppressed_until_the_pause_is_over() {
        let mut bench = Bench::new(Condition::Event { selection: selection() });
        assert_eq!(bench.look(0, 0, 9, &[None]), (false, 0, 0));
        assert_eq!(bench.look(50, 3, 9, &[]), (true, 1, 2));
        assert_eq!(bench.look(100, 3, 9, &[]), (false, 1, 2));
        assert_eq!(bench.look(1049, 5, 9, &[]), (false, 1, 4));
        // An event in the pause fires nothing when that is over.
        assert_eq!(bench.look(1050, 5, 9, &[]), (false, 1, 4));
        assert_eq!(bench.look(1051, 6, 9, &[]), (true, 2, 4));
        bench.is_busy = true;
        assert_eq!(bench.look(9000, 7, 9, &[]), (false, 2, 5));
    }

    #[test]
    fn events_that_wrap_around_are_counted_like_others() {
        let mut bench = Bench::new(Condition::Event { selection: selection() });
        bench.trigger.pause_ms = 0;
        assert_eq!(bench.look(0, u64::MAX, 9, &[]), (true, 1, u64::MAX - 1));
        assert_eq!(bench.look(1, u64::MAX, 9, &[]), (false, 1, u64::MAX - 1));
        assert_eq!(bench.look(2, 2, 9, &[]), (true, 2, u64::MAX));
    }

    #[test]
    fn times_are_the_most_that_it_fires() {
        let mut bench = Bench::new(Condition::Event { selection: selection() });
        bench.trigger.times = Some(1);
        bench.trigger.pause_ms = 0;
        assert_eq!(bench.look(0, 1, 0, &[]), (true, 1, 0));
        assert_eq!(bench.look(9000, 3, 0, &[]), (false, 1, 2));
    }

    #[test]
    fn silence_fires_once_and_again_after_an_event() {
        let mut bench = Bench::new(Condition::Silence { selection: selection(), ms: 2000 });
        assert_eq!(bench.look(1999, 0, 0, &[]), (false, 0, 0));
        assert_eq!(bench.look(2000, 0, 0, &[]), (true, 1, 0));
        assert_eq!(bench.look(9000, 0, 0, &[]), (false, 1, 0));
        assert_eq!(bench.look(9500, 1, 0, &[]), (false, 1, 0));
        assert_eq!(bench.look(11_499, 1, 0, &[]), (false, 1, 0));
        assert_eq!(bench.look(11_500, 1, 0, &[]), (true, 2, 0));
        // One in the pause is suppressed, once.
        bench.trigger.pause_ms = 60_000;
        assert_eq!(bench.look(12_000, 2, 0, &[]), (false, 2, 0));
        assert_eq!(bench.look(14_000, 2, 0, &[]), (false, 2, 1));
        assert_eq!(bench.look(90_000, 2, 0, &[]), (false, 2, 1));
    }

    #[test]
    fn ends_are_those_that_are_asked_for() {
        let all =
            [None, Some(Outcome::Exited(0)), Some(Outcome::Exited(1)), Some(Outcome::Killed(11))];
        for (how, expected) in [(How::Any, 4), (How::Failure, 2), (How::Signal, 1)] {
            let mut bench = Bench::new(Condition::Ended { how });
            assert_eq!(bench.look(0, 7, 9, &all), (true, 1, expected - 1), "{how:?}");
            assert!(!bench.look(1, 7, 9, &all[..2]).0, "{how:?}");
        }
    }

    #[test]
    fn full_buffers_fire_once_until_they_are_not_full_any_more() {
        let mut bench = Bench::new(Condition::Fill { percent: 80 });
        bench.trigger.pause_ms = 0;
        for (ms, (fill, fires)) in
            (0..).zip([(79, false), (80, true), (100, false), (80, false), (79, false), (81, true)])
        {
            bench.of_session.0 = fill;
            assert_eq!(bench.look(ms, 7, 9, &[None]).0, fires, "{fill} at {ms}");
        }
    }

    #[test]
    fn each_size_and_each_part_fires_once() {
        let mut bench = Bench::new(Condition::Written { bytes: 1000 });
        bench.trigger.pause_ms = 0;
        for (ms, (written, wanted)) in (0..).zip([
            (999, (false, 0, 0)),
            (1000, (true, 1, 0)),
            (1999, (false, 1, 0)),
            // What one look finds is one firing.
            (4100, (true, 2, 2)),
            (4999, (false, 2, 2)),
            (5000, (true, 3, 2)),
        ]) {
            bench.of_session.1 = written;
            assert_eq!(bench.look(ms, 7, 9, &[None]), wanted, "{written}");
        }
        let mut bench = Bench::new(Condition::Part);
        bench.trigger.pause_ms = 0;
        for (ms, (part, fires)) in (0..).zip([(0, false), (1, true), (1, false), (3, true)]) {
            bench.of_session.2 = part;
            assert_eq!(bench.look(ms, 7, 9, &[None]).0, fires, "{part}");
        }
    }

    #[test]
    fn what_was_there_before_the_trigger_is_none_of_its_occurrences() {
        for (when, before, later) in [
            (Condition::Written { bytes: 1000 }, (0, 5999, 7), (0, 6000, 7)),
            (Condition::Part, (0, 5000, 7), (0, 5000, 8)),
        ] {
            let mut bench = Bench::new(when);
            bench.progress = bench.progress.after(5000, 7);
            bench.of_session = before;
            assert_eq!(bench.look(0, 0, 3, &[]), (false, 0, 0), "{before:?}");
            bench.of_session = later;
            assert_eq!(bench.look(1, 0, 3, &[]), (true, 1, 0), "{later:?}");
        }
    }

    #[test]
    fn signals_are_those_that_came_since_it_is_there() {
        let mut bench = Bench::new(Condition::Signal);
        assert_eq!(bench.look(0, 1, 3, &[None]), (false, 0, 0));
        assert_eq!(bench.look(1, 2, 5, &[]), (true, 1, 1));
    }
}
