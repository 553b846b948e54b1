//! Progress lines on a terminal, for recordings and for reading traces.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::process::getpgrp;
use rustix::termios::{tcgetattr, tcgetpgrp, LocalModes};
use strata_ctf::read::{Reader, Stream};
use strata_session::report::Progress;

use crate::stderr;
use crate::stderr::messages::{self, Message};
use crate::units::size;

/// Time over which the rate of event records is averaged.
const RATE_WINDOW: Duration = Duration::from_secs(2);
/// Time that reading must take before its progress is shown.
const PATIENCE: Duration = Duration::from_millis(500);
/// Period at which the progress of reading is drawn.
const REDRAW: Duration = Duration::from_millis(100);

/// Makes a line that is drawn whenever its text is set or changes.
fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(20));
    let style = ProgressStyle::with_template("{wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}

/// The progress line of reading traces, drawn only on a live terminal and once reading takes a while.
pub struct ReadingLine(Option<Mutex<Reading>>);

struct Reading {
    bar: ProgressBar,
    what: &'static str,
    begin: Instant,
    drawn: Duration,
    bytes: u64,
    /// Number of bytes to read; `None` if only an unknown part is read.
    total: Option<u64>,
}

impl ReadingLine {
    /// Makes the line. `what` is a word such as `counting` or `exporting`; `all` is true if all streams are read
    /// completely.
    pub fn new(what: &'static str, reader: &Reader, all: bool) -> ReadingLine {
        if !stderr::is_live() {
            return ReadingLine::none();
        }
        let bytes = reader.streams().iter().map(Stream::bytes);
        let total = all.then(|| bytes.fold(0, u64::saturating_add));
        let (begin, drawn) = (Instant::now(), Duration::ZERO);
        ReadingLine(Some(Mutex::new(Reading { bar: bar(), what, begin, drawn, bytes: 0, total })))
    }

    /// Makes a line that is never drawn.
    pub fn none() -> ReadingLine {
        ReadingLine(None)
    }

    fn lock(&self) -> Option<MutexGuard<'_, Reading>> {
        self.0.as_ref().map(|line| line.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the total number of bytes that were read.
    pub fn set(&self, bytes: u64) {
        if let Some(mut line) = self.lock() {
            line.bytes = bytes;
            line.draw();
        }
    }

    /// Counts further bytes that were read.
    pub fn add(&self, bytes: u64) {
        if let Some(mut line) = self.lock() {
            line.bytes = line.bytes.saturating_add(bytes);
            line.draw();
        }
    }

    /// Prints a message in the place of the line.
    pub fn say(&self, message: &Message) {
        match self.lock() {
            Some(line) => line.bar.suspend(|| stderr::message(message)),
            None => stderr::message(message),
        }
    }

    /// Removes the line from the terminal.
    pub fn clear(&self) {
        if let Some(line) = self.lock() {
            line.bar.finish_and_clear();
        }
    }
}

impl Reading {
    fn draw(&mut self) {
        let now = self.begin.elapsed();
        if now >= PATIENCE && now.saturating_sub(self.drawn) >= REDRAW && terminal_is_ours() {
            self.drawn = now;
            self.bar.set_message(reading(self.what, self.bytes, self.total, now));
        }
    }
}

/// Formats the line: `counting: 37 % of 9.8 GiB, 1.2 GiB/s, 5 s left`, or for a part `counting: 3.6 GiB, 1.2 GiB/s`.
fn reading(what: &str, bytes: u64, total: Option<u64>, elapsed: Duration) -> String {
    let per_second = bytes as f64 / elapsed.as_secs_f64().max(1e-3);
    let rate = size(per_second as u64);
    let Some(total) = total else { return format!("{what}: {}, {rate}/s", size(bytes)) };
    let done = (bytes as f64 / total.max(1) as f64 * 100.0).min(100.0);
    let left = total.saturating_sub(bytes) as f64 / per_second.max(1.0);
    format!("{what}: {done:.0} % of {}, {rate}/s, {left:.0} s left", size(total))
}

/// Progress line of a recording, drawn only while no other program draws on the terminal.
pub struct ProgressLine {
    bar: ProgressBar,
    made: Instant,
    begin: Duration,
    recent: VecDeque<(Duration, u64)>,
}

impl ProgressLine {
    /// Makes a line that is first drawn after `begin`.
    pub fn new(begin: Duration) -> ProgressLine {
        ProgressLine { bar: bar(), made: Instant::now(), begin, recent: VecDeque::new() }
    }

    /// Draws what the session is doing before it records, once that takes a while.
    pub fn doing(&mut self, text: String) {
        if self.made.elapsed() >= PATIENCE && terminal_is_ours() {
            self.bar.set_message(text);
        }
    }

    /// Prints a message in the place of the line.
    pub fn say(&self, message: &Message) {
        self.bar.suspend(|| stderr::message(message));
    }

    /// Removes the text about preparations when the recording begins.
    pub fn start(&mut self) {
        self.bar.set_message("");
    }

    /// Draws the progress of the recording.
    pub fn show(&mut self, progress: &Progress) {
        let per_second = self.rate(progress);
        if progress.elapsed < self.begin || !terminal_is_ours() {
            return;
        }
        self.bar.set_message(messages::progress(progress, per_second));
    }

    /// Removes the line from the terminal.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Returns the number of event records per second, over the last [`RATE_WINDOW`].
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

/// Returns true if this program is in the foreground, and no other program draws on the screen.
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
    fn reading_says_how_much_is_left_where_it_is_known() {
        let five = Duration::from_secs(5);
        assert_eq!(
            reading("exporting", 50 << 20, Some(200 << 20), five),
            "exporting: 25 % of 200.0 MiB, 10.0 MiB/s, 15 s left"
        );
        assert_eq!(reading("reading", 50 << 20, None, five), "reading: 50.0 MiB, 10.0 MiB/s");
        let more = reading("counting", 9, Some(5), Duration::ZERO);
        assert!(
            more.starts_with("counting: 100 % of 5 B, ") && more.ends_with(" 0 s left"),
            "{more}"
        );
    }

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
