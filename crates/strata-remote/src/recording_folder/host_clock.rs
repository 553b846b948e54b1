//! The clock of a recorder's host in the time of the relay, by exchanges over the connection.
//!
//! The relay asks for the time right with its first answer, some times in a row, and then now and then; each exchange bounds the
//! offset (`strata_relay::Bounds`). Traces get the offset in their metadata, with its greatest error. While they are
//! recorded, the error includes what the clocks may drift until the metadata are written again.

use std::fs::File;
use std::io::{self, Read as _};

use rustix::fs::{self, Mode, OFlags};
use strata_collect::Directory;
use strata_ctf::read::metadata;
use strata_model::{ClockClass, Uuid};
use strata_relay::{in_host_time_again, Bounds, Entry, Epoch, Exchange, Line, DRIFT_PPM};

/// Name of the file in which a relay keeps clock exchanges of a recording, for when it is started again.
const FILE: &str = ".strata-relay-clock";
/// Largest file of clock exchanges that is read \[byte\].
const BYTES_MAX: u64 = 1 << 20;
/// Number of questions for the host's time that are asked without a pause at first.
const QUICK: u64 = 8;
/// Time after which metadata are written again at first; it doubles each time \[ns\].
const REWRITE_NS: u64 = 10_000_000_000;
const SECOND: i64 = 1_000_000_000;

/// The relation between the clock of a recorder's host and that of the relay, as far as it is known.
#[derive(Debug)]
pub(crate) struct HostClock {
    /// UUID of the host's boot, which its clock has in metadata.
    boot: Uuid,
    /// Wall-clock time at 0 of the relay's clock \[ns since 1970\].
    wall_ns: i64,
    bounds: Bounds,
    /// Number of the last question and the time at which it was sent, until it is answered.
    asked: Option<(u64, u64)>,
    questions: u64,
    /// First and last time of packets, by the host's clock \[ns\].
    packets: Option<(u64, u64)>,
    /// Time of the last exchange, by the host's clock \[ns\].
    last: u64,
    /// Time by the host's clock at which metadata are written again \[ns\].
    rewrite: u64,
    period: u64,
    /// The most exact exchange since exchanges were last saved.
    best: Option<Exchange>,
}

impl HostClock {
    /// Creates the clock of a host. `boot`: UUID of the host's boot. `wall_ns`: wall-clock time at 0 of the relay's
    /// clock.
    pub(crate) fn new(boot: Uuid, wall_ns: i64) -> HostClock {
        HostClock {
            boot,
            wall_ns,
            bounds: Bounds::default(),
            asked: None,
            questions: 0,
            packets: None,
            last: 0,
            rewrite: 0,
            period: REWRITE_NS,
            best: None,
        }
    }

    /// Notes a question for the host's time, sent at this time of the relay's clock. Returns its number.
    pub(crate) fn ask(&mut self, now_ns: u64) -> u64 {
        self.questions += 1;
        self.asked = Some((self.questions, now_ns));
        self.questions
    }

    /// Takes an answer that came at `now_ns`. Returns true if the next question should follow at once.
    pub(crate) fn take(&mut self, number: u64, (received, sent): (u64, u64), now_ns: u64) -> bool {
        let asked = self.asked.take_if(|(asked, _)| *asked == number);
        let Some((_, asked)) = asked else { return false };
        self.add(Exchange { asked, received, sent, answered: now_ns });
        self.questions < QUICK
    }

    fn add(&mut self, exchange: Exchange) {
        self.bounds.add(&exchange);
        let is_first = self.last == 0;
        self.last = self.last.max(exchange.sent);
        if is_first {
            self.rewrite = self.last.saturating_add(self.period);
        }
        let width = |it: &Exchange| it.answered.saturating_sub(it.asked);
        if self.best.as_ref().is_none_or(|best| width(&exchange) < width(best)) {
            self.best = Some(exchange);
        }
    }

    /// Notes the first and the last time of a packet.
    pub(crate) fn see(&mut self, begin_ns: u64, end_ns: u64) {
        let (first, last) = self.packets.unwrap_or((begin_ns, end_ns));
        self.packets = Some((first.min(begin_ns), last.max(end_ns)));
    }

    /// Returns true if it is time to write the metadata again.
    pub(crate) fn is_due(&self) -> bool {
        self.last >= self.rewrite && self.last > 0
    }

    /// Begins the next period after which the metadata are written again.
    pub(crate) fn begin_period(&mut self) {
        self.period = self.period.saturating_mul(2);
        self.rewrite = self.last.saturating_add(self.period);
    }

    /// Returns the linear relation between both clocks that is known now. `is_final`: true if no later packets
    /// follow.
    fn line(&self, is_final: bool) -> Option<Line> {
        let (first_packet, last_packet) = self.packets.unzip();
        let known = self.last.max(last_packet.unwrap_or(0));
        let end = if is_final { known } else { self.rewrite.max(known) };
        let span_of = |(at, epoch): (usize, &Epoch)| {
            let (first, last) = epoch.span();
            let is_last = at + 1 == self.bounds.epochs().len();
            let begin = first_packet.filter(|_| at == 0).map_or(first, |begin| begin.min(first));
            (begin, if is_last { end.max(last) } else { last })
        };
        let epochs = self.bounds.epochs();
        if let [one] = epochs {
            return Line::through(one, Some(span_of((0, one))));
        }
        // The clocks jumped, as when one of the machines slept: the bounds of all times.
        let all = epochs.iter().enumerate().filter_map(|(at, epoch)| {
            let span = span_of((at, epoch));
            let line = Line::through(epoch, Some(span))?;
            let error = i128::from(line.uncertainty_ns);
            let offset = |at: u64| line.host_ns(at) - i128::from(at);
            let (one, other) = (offset(span.0), offset(span.1));
            Some((one.min(other) - error, one.max(other) + error))
        });
        let (low, high) = all.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
        let offset = (low + high).div_euclid(2);
        Some(Line {
            frequency: SECOND as u64,
            offset_ns: i64::try_from(offset).ok()?,
            uncertainty_ns: u64::try_from(high - offset + 2).ok()?,
        })
    }

    /// Rewrites the metadata of a trace with this clock. `None` if the trace has another clock, or the relation
    /// between both is not known.
    pub(crate) fn describe(&self, text: &str, is_final: bool) -> Option<String> {
        let line = self.line(is_final)?;
        let schema = metadata::parse(text.as_bytes()).ok()?;
        let [clock] = &schema.clocks[..] else { return None };
        if clock.name != "monotonic" || clock.uuid != Some(self.boot) {
            return None;
        }
        let description = "CLOCK_MONOTONIC of another host, in the time of the relay".to_owned();
        let here = ClockClass::monotonic(Some(self.boot), 0);
        let clock = ClockClass { description, ..line.clock(&here, self.wall_ns) };
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let exchanges = self.bounds.epochs().iter().map(Epoch::exchanges).sum();
        let entries: [Entry; 3] = [
            ("clock_uncertainty".to_owned(), number(line.uncertainty_ns)),
            ("clock_drift_ppm".to_owned(), number(DRIFT_PPM)),
            ("clock_exchanges".to_owned(), number(exchanges)),
        ];
        in_host_time_again(text, &clock, &entries).ok()
    }

    /// Appends the best exchange since the last call to the file in the recording's folder.
    ///
    /// # Errors
    /// A system call failed.
    pub(crate) fn save(&mut self, folder: &Directory, boot: Uuid) -> io::Result<()> {
        let Some(Exchange { asked, received, sent, answered }) = self.best.take() else {
            return Ok(());
        };
        let first = self.packets.map_or(received, |(first, _)| first);
        let line = format!("{boot} {} {first} {asked} {received} {sent} {answered}\n", self.boot);
        let flags =
            OFlags::CREATE | OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP;
        let file = fs::openat(folder, FILE, flags | OFlags::NONBLOCK, mode)?;
        rustix::io::write(&file, line.as_bytes())?;
        Ok(())
    }

    /// Reads the exchanges that a relay has saved since this machine was started with the UUID `boot`.
    pub(crate) fn load(&mut self, folder: &Directory, boot: Uuid) {
        let mut text = String::new();
        let opened = folder.read(FILE.as_ref()).map(|file: File| file.take(BYTES_MAX));
        if opened.and_then(|mut file| file.read_to_string(&mut text)).is_err() {
            return;
        }
        let prefix = format!("{boot} {} ", self.boot);
        for line in text.lines().filter_map(|line| line.strip_prefix(&prefix)) {
            let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            let [first, asked, received, sent, answered] = numbers[..] else { continue };
            self.see(first, first);
            self.add(Exchange { asked, received, sent, answered });
        }
        self.best = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;
    use strata_ctf::metadata::write;
    use strata_model::{ByteOrder, EnvValue, RecordHeader, StreamClass, Trace};

    const BOOT: Uuid = Uuid([3; 16]);
    /// The host was started this much later than the relay \[ns\].
    const LATER: u64 = 5_000_000_000_000;
    const WALL: i64 = 1_700_000_000_000_000_000;

    fn text(boot: Uuid) -> String {
        write(&Trace {
            uuid: Uuid([1; 16]),
            byte_order: ByteOrder::NATIVE,
            environment: vec![("hostname".into(), "web1".into())],
            // The wall clock of the host is wrong by a day.
            clock: ClockClass::monotonic(Some(boot), WALL + LATER as i64 - 86_400 * SECOND),
            streams: vec![StreamClass {
                id: 0,
                name: "s".into(),
                header: RecordHeader::Compact,
                context: Vec::new(),
                events: Vec::new(),
            }],
        })
    }

    /// Asks at this time of the relay's clock; each way takes `way`, and the host's clock is fast by 20 ppm.
    fn ask(clock: &mut HostClock, now: u64, way: u64) -> bool {
        let host = |relay: u64| (relay - LATER) + (relay - LATER) / 50_000;
        let number = clock.ask(now);
        clock.take(number, (host(now + way), host(now + way)), now + 2 * way)
    }

    /// Returns the wall-clock time of a time of the host by the metadata, and its uncertainty \[ns\].
    fn wall(text: &str, host_ns: u64) -> (i128, i64) {
        let schema = metadata::parse(text.as_bytes()).unwrap();
        let ClockClass { frequency, offset_s, offset_cycles, .. } = schema.clocks[0].clone();
        let Some(EnvValue::Integer(uncertainty)) = schema.environment("clock_uncertainty") else {
            panic!("{text}")
        };
        let second = i128::from(SECOND);
        let cycles = i128::from(offset_cycles) + i128::from(host_ns);
        (i128::from(offset_s) * second + cycles * second / i128::from(frequency), *uncertainty)
    }

    #[test]
    fn times_of_a_host_are_those_of_the_relay_within_what_is_reported() {
        let mut clock = HostClock::new(BOOT, WALL);
        let begin = LATER + 1_000_000_000_000;
        assert!(clock.describe(&text(BOOT), false).is_none(), "nothing is known yet");
        assert!(ask(&mut clock, begin, 100_000));
        clock.see(999_000_000_000, 999_000_000_001);
        let first = clock.describe(&text(BOOT), false).unwrap();
        assert!(!clock.is_due());
        for second in 1..=3600 {
            ask(&mut clock, begin + second * 1_000_000_000, 100_000 + second);
            if clock.is_due() {
                clock.begin_period();
            }
        }
        // After 10 s, 30 s, 70 s and so on.
        assert_eq!(clock.period, REWRITE_NS << 8);
        let last = clock.describe(&first, true).unwrap();
        assert_eq!(first.len(), last.len());
        // An event at the begin, and one at the end of the hour.
        let host = |relay: u64| (relay - LATER) + (relay - LATER) / 50_000;
        for (text, second) in [(&first, 0), (&first, 9), (&last, 0), (&last, 1800), (&last, 3600)] {
            let at = begin + second * 1_000_000_000;
            let (found, uncertainty) = wall(text, host(at));
            let error = found - (i128::from(WALL) + i128::from(at));
            assert!(error.abs() <= i128::from(uncertainty), "{second}: {error} {uncertainty}");
        }
        assert!(
            wall(&first, 0).1 < 10_000_000 && wall(&last, 0).1 < 1_000_000,
            "{:?}",
            wall(&last, 0)
        );
        // Another clock, and answers that were not asked for.
        assert!(clock.describe(&text(Uuid([4; 16])), true).is_none());
        assert!(!clock.take(1, (5, 5), 5) && !clock.take(99_999, (5, 5), 5));
    }

    #[test]
    fn exchanges_are_known_to_a_relay_that_is_started_again() {
        let scratch = Scratch::new("host-clock");
        let folder = Directory::create(&scratch.0.join("s")).unwrap();
        let (mut clock, begin) = (HostClock::new(BOOT, WALL), LATER + 1_000_000_000_000);
        ask(&mut clock, begin, 100_000);
        clock.see(begin - LATER, begin - LATER);
        clock.save(&folder, Uuid([8; 16])).unwrap();
        clock.save(&folder, Uuid([8; 16])).unwrap();
        let mut again = HostClock::new(BOOT, WALL);
        again.load(&folder, Uuid([8; 16]));
        ask(&mut again, begin + 10_000_000_000, 100_000);
        assert_eq!(again.bounds.epochs()[0].exchanges(), 2);
        // Of another boot of the relay, or of the host.
        let mut other = HostClock::new(BOOT, WALL);
        other.load(&folder, Uuid([9; 16]));
        assert!(other.line(true).is_none());
        let mut other = HostClock::new(Uuid([4; 16]), WALL);
        other.load(&folder, Uuid([8; 16]));
        assert!(other.line(true).is_none());
    }

    #[test]
    fn clock_that_jumped_is_as_uncertain_as_the_jump() {
        let (mut clock, begin) = (HostClock::new(BOOT, WALL), LATER + 1_000_000_000_000);
        ask(&mut clock, begin, 100_000);
        let number = clock.ask(begin + 60_000_000_000);
        // The host slept for 50 s.
        let host = begin + 10_000_000_000 - LATER;
        clock.take(number, (host, host), begin + 60_000_200_000);
        let line = clock.line(true).unwrap();
        assert!((20_000_000_000..30_000_000_000).contains(&line.uncertainty_ns), "{line:?}");
    }
}
