//! Answers whoever records while the session is busy: a line that says how far it is, and what Ctrl-C waits for.
//! The session's threads may be held by the kernel, by a disk or by a process for seconds; this one is held by nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use strata_session::report::Notice;
use strata_session::stop::Stop;

use crate::talk;
use crate::talk::messages::{self, Message, Weight};
use crate::talk::progress::ProgressLine;

/// What ends sooner needs no answer: before anything is recorded.
const PATIENCE: Duration = Duration::from_millis(50);
/// The same, of what is in the buffers.
const PATIENCE_AT_END: Duration = Duration::from_millis(100);
/// How often the line is drawn before anything is recorded.
const REDRAW: Duration = Duration::from_millis(250);

/// What the session does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Phase {
    /// It has said nothing yet.
    #[default]
    Preparing,
    /// It has said this, and records nothing yet.
    Beginning(Notice),
    Recording,
    /// It takes what is in the buffers.
    Stopping,
}

/// Shared by the session's thread, which tells it, and the one that answers.
pub struct Answer {
    state: Mutex<AnswerState>,
    stop: Stop,
}

struct AnswerState {
    line: Option<ProgressLine>,
    is_quiet: bool,
    begin: Instant,
    phase: Phase,
    /// When it was seen that somebody waits for the end.
    asked: Option<Instant>,
    has_answered: bool,
    is_over: bool,
}

impl Answer {
    /// `line`: there is somebody who looks at it.
    pub fn new(line: Option<ProgressLine>, is_quiet: bool, stop: &Stop) -> Answer {
        let state = AnswerState {
            line,
            is_quiet,
            begin: Instant::now(),
            phase: Phase::default(),
            asked: None,
            has_answered: false,
            is_over: false,
        };
        Answer { state: Mutex::new(state), stop: stop.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, AnswerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the session says.
    pub fn hear(&self, notice: &Notice) {
        self.lock().hear(notice);
        if *notice == Notice::Stopping {
            self.stop.wake();
        }
    }

    /// Say something where the line is.
    pub fn say(&self, message: &Message) {
        self.lock().say(message);
    }

    /// The session is over; the line goes.
    pub fn end(&self) {
        let mut state = self.lock();
        state.is_over = true;
        if let Some(line) = &state.line {
            line.clear();
        }
        drop(state);
        self.stop.wake();
    }

    /// Until the session is over.
    pub fn run(&self) {
        loop {
            let mut state = self.lock();
            if state.is_over {
                return;
            }
            if let Some(signal) = self.stop.take_unheeded() {
                state.say_talk(messages::unheeded(signal));
            }
            let next = state.look(self.stop.requests() > 0, Instant::now());
            drop(state);
            self.stop.wait(next);
        }
    }
}

impl AnswerState {
    fn hear(&mut self, notice: &Notice) {
        match notice {
            Notice::Describing { .. }
            | Notice::Attaching { .. }
            | Notice::Searching { .. }
            | Notice::Admitting { .. } => self.phase = Phase::Beginning(notice.clone()),
            Notice::Started { .. } => {
                self.phase = Phase::Recording;
                if let Some(line) = &mut self.line {
                    line.start();
                }
            }
            Notice::Progress(progress) => {
                if let Some(line) = &mut self.line {
                    line.show(progress);
                }
            }
            Notice::Stopping => {
                self.phase = Phase::Stopping;
                self.draw();
            }
            _ => {}
        }
    }

    /// Answers what is to be answered by now. Returns when to look again, if nothing happens before.
    fn look(&mut self, is_asked: bool, now: Instant) -> Option<Duration> {
        let is_waiting = is_asked && self.phase != Phase::Recording;
        if is_waiting && !self.has_answered {
            let waited = now - *self.asked.get_or_insert(now);
            let patience = match self.phase {
                Phase::Stopping => PATIENCE_AT_END,
                _ => PATIENCE,
            };
            if waited < patience {
                return Some(patience - waited);
            }
            self.has_answered = true;
            self.say_talk(messages::stopping(self.notice()));
        }
        if matches!(self.phase, Phase::Recording) {
            // The session draws, and notices by itself.
            return None;
        }
        self.draw();
        self.line.as_ref().map(|_| REDRAW)
    }

    /// What the session does before it records; else it takes what is in the buffers.
    fn notice(&self) -> messages::Doing<'_> {
        match &self.phase {
            Phase::Preparing => messages::Doing::Preparing,
            Phase::Beginning(notice) => messages::Doing::Beginning(notice),
            Phase::Recording | Phase::Stopping => messages::Doing::Writing,
        }
    }

    fn draw(&mut self) {
        let text = messages::doing(self.notice(), self.begin.elapsed());
        if let Some(line) = &mut self.line {
            line.doing(text);
        }
    }

    fn say_talk(&mut self, text: String) {
        if !self.is_quiet {
            self.say(&Message { weight: Weight::Talk, text });
        }
    }

    fn say(&mut self, message: &Message) {
        match &self.line {
            Some(line) => line.say(message),
            None => talk::message(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> AnswerState {
        Answer::new(None, true, &Stop::new()).state.into_inner().unwrap()
    }

    #[test]
    fn who_asks_to_stop_is_answered_whatever_the_session_does() {
        let begun = Instant::now();
        let attaching = Notice::Attaching { attached: 1, total: 2 };
        for (notice, patience) in [
            (None, PATIENCE),
            (Some(attaching), PATIENCE),
            (Some(Notice::Stopping), PATIENCE_AT_END),
        ] {
            let mut state = state();
            notice.iter().for_each(|notice| state.hear(notice));
            assert_eq!(state.look(false, begun), None);
            assert_eq!(state.look(true, begun), Some(patience));
            assert!(!state.has_answered);
            state.look(true, begun + patience);
            assert!(state.has_answered, "{notice:?}");
        }
    }

    #[test]
    fn who_asks_while_it_records_is_answered_when_it_stops_and_is_slow() {
        let begun = Instant::now();
        let mut state = state();
        state.phase = Phase::Recording;
        assert_eq!(state.look(false, begun), None);
        // It may wait for its command.
        let later = begun + Duration::from_secs(9);
        assert_eq!(state.look(true, later), None);
        assert!(!state.has_answered);
        state.hear(&Notice::Stopping);
        assert_eq!(state.look(true, later), Some(PATIENCE_AT_END));
        state.look(true, later + PATIENCE_AT_END);
        assert!(state.has_answered);
    }
}
