//! The progress line on a terminal.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::process::getpgrp;
use rustix::termios::{tcgetattr, tcgetpgrp, LocalModes};
use strata_session::report::Progress;

use crate::messages;

/// Events per second are those of this long.
const RATE_WINDOW: Duration = Duration::from_secs(2);

/// The line, drawn only while nothing else uses the terminal in its own way.
pub struct ProgressLine {
    bar: ProgressBar,
    begin: Duration,
    recent: VecDeque<(Duration, u64)>,
}

impl ProgressLine {
    /// A line that is first drawn when `begin` has passed.
    pub fn new(begin: Duration) -> ProgressLine {
        // The session says when there is something new; a limit of its own would only swallow that.
        let target = ProgressDrawTarget::stderr_with_hz(20);
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("{wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        ProgressLine { bar, begin, recent: VecDeque::new() }
    }

    /// Draw how the session does.
    pub fn show(&mut self, progress: &Progress) {
        let per_second = self.rate(progress);
        if progress.elapsed < self.begin || !terminal_is_ours() {
            return;
        }
        self.bar.set_message(messages::progress(progress, per_second));
    }

    /// Remove it.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Event records per second, lately.
    fn rate(&mut self, progress: &Progress) -> f64 {
        self.recent.push_back((progress.elapsed, progress.records));
        while self.recent.len() > 2 && progress.elapsed - self.recent[0].0 > RATE_WINDOW {
            self.recent.pop_front();
        }
        match self.recent.front() {
            Some(&(begin, records)) if progress.elapsed > begin => {
                let seconds = (progress.elapsed - begin).as_secs_f64();
                progress.records.saturating_sub(records) as f64 / seconds
            }
            _ => 0.0,
        }
    }
}

/// Is this program in the foreground, and no program that draws its own screen?
fn terminal_is_ours() -> bool {
    let terminal = io::stderr();
    let foreground = tcgetpgrp(&terminal).map_or(true, |group| group == getpgrp());
    let cooked =
        tcgetattr(&terminal).map_or(true, |modes| modes.local_modes.contains(LocalModes::ICANON));
    foreground && cooked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_that_of_the_last_seconds() {
        let mut line = ProgressLine::new(Duration::ZERO);
        let mut rate = |seconds, records| {
            let elapsed = Duration::from_secs_f64(seconds);
            line.rate(&Progress { elapsed, records, ..Progress::default() })
        };
        assert_eq!(rate(0.0, 0), 0.0);
        assert_eq!(rate(1.0, 1000), 1000.0);
        assert_eq!(rate(2.0, 1000), 500.0);
        assert_eq!(rate(4.0, 1000), 0.0);
        assert_eq!(rate(5.0, 3000), 2000.0);
    }
}
