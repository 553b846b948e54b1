//! Answers the user while the session is busy, with a line on its progress, and on what Ctrl-C waits for. The kernel, a
//! disk or a process may block the session's threads for seconds; nothing blocks this one.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use strata_session::report::Notice;
use strata_session::stop::Stop;

use crate::stderr;
use crate::stderr::messages::{self, Message, Weight};
use crate::stderr::progress::ProgressLine;

/// Time that preparation may take after a signal without a message: if it ends sooner, that is the answer.
const PATIENCE: Duration = Duration::from_millis(50);
/// As [`PATIENCE`], while the rest of the buffers is read.
const PATIENCE_AT_END: Duration = Duration::from_millis(100);
/// Period at which the progress line is drawn before anything is recorded.
const REDRAW: Duration = Duration::from_millis(250);

/// Phase of the session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Phase {
    /// The session has sent no notice yet.
    #[default]
    Preparing,
    /// The session has sent this notice, and records nothing yet.
    Beginning(Notice),
    Recording,
    /// The session reads the rest of the buffers.
    Stopping,
}

/// State that the session's thread and the answering thread share.
pub struct Answer {
    state: Mutex<AnswerState>,
    stop: Stop,
}

struct AnswerState {
    line: Option<ProgressLine>,
    is_quiet: bool,
    begin: Instant,
    phase: Phase,
    /// Time at which a request to stop was noticed.
    asked: Option<Instant>,
    has_answered: bool,
    is_over: bool,
}

impl Answer {
    /// Makes the answer to signals. `line` is given if there is a terminal.
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

    /// Receives a notice of the session.
    pub fn hear(&self, notice: &Notice) {
        self.lock().hear(notice);
        if *notice == Notice::Stopping {
            self.stop.wake();
        }
    }

    /// Prints a message in the place of the line.
    pub fn say(&self, message: &Message) {
        self.lock().say(message);
    }

    /// Removes the line, since the session is over.
    pub fn end(&self) {
        let mut state = self.lock();
        state.is_over = true;
        if let Some(line) = &state.line {
            line.clear();
        }
        drop(state);
        self.stop.wake();
    }

    /// Draws progress and answers signals until the session is over.
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

    /// Answers requests that are due. Returns when to call this again if nothing happens before.
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
            // While it records, the session draws by itself, and notices the request.
            return None;
        }
        self.draw();
        self.line.as_ref().map(|_| REDRAW)
    }

    /// Returns what the session is doing before it records, or after it was stopped.
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
            None => stderr::message(message),
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
