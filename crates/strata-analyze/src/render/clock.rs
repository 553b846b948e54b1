//! Times as text. The text of a second is made once, and nanoseconds are put into it.

use jiff::tz::TimeZone;
use jiff::Timestamp;

use super::line::{Lines, TextSink};
use super::number::{four_digits_of_two, nine_digits, pair, signed, unsigned};

const SECOND: i64 = 1_000_000_000;

/// The format of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockStyle {
    /// A time of day, as `22:13:20.000000012`.
    #[default]
    Time,
    /// A date and a time of day, as `2023-11-14 22:13:20.000000012`.
    Date,
    /// A date and a time with its offset, as `2023-11-14T22:13:20.000000012+01:00` (RFC 3339).
    Iso,
    /// Seconds since 1970, as `1700000000.000000012`.
    Seconds,
    /// The clock's value as it was recorded, as `00000000000000000012`.
    Cycles,
    /// No time is shown.
    None,
}

/// The time of an event record, in the forms in which it may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The time of the record \[ns since 1970\].
    pub ns: i64,
    /// The clock's value as it was recorded.
    pub cycles: u64,
}

#[derive(Clone, Debug)]
pub struct ClockText {
    style: ClockStyle,
    zone: TimeZone,
    /// The second of the time that `text` shows, if `text` is not empty.
    second: i64,
    /// The text of a time: its second, nine digits for the nanoseconds, and then a delta of less than a second.
    text: Vec<u8>,
    /// A copy of `text` for times from `fine` on, whose last four digits are to be replaced. It is valid if `is_fine`
    /// is set.
    block: [u8; BLOCK],
    fine: i64,
    is_fine: bool,
    /// The place of the nine digits in `text`.
    digits: usize,
    /// The place of the delta in `text`.
    delta: usize,
    /// The fixed bytes to write before and after every time.
    around: (&'static [u8], &'static [u8]),
}

/// The size of the block that holds a time and a delta, and is copied at once \[byte\].
const BLOCK: usize = 64;

/// The number of values that four digits of nanoseconds can have.
const FINE: u64 = 10_000;

/// A delta of less than a second, with room for its digits.
const SHORT_DELTA: [u8; 15] = *b"(+0.000000000) ";

impl ClockText {
    /// Makes a writer of times in this style.
    pub fn new(style: ClockStyle, zone: TimeZone) -> ClockText {
        ClockText::around(style, zone, (b"", b""))
    }

    /// Makes a writer of times that puts fixed bytes before and after every time.
    pub fn around(
        style: ClockStyle,
        zone: TimeZone,
        around: (&'static [u8], &'static [u8]),
    ) -> ClockText {
        ClockText {
            style,
            zone,
            second: 0,
            text: Vec::new(),
            block: [0; BLOCK],
            fine: 0,
            is_fine: false,
            digits: 0,
            delta: 0,
            around,
        }
    }

    pub fn style(&self) -> ClockStyle {
        self.style
    }

    #[inline]
    pub fn write(&mut self, out: &mut impl TextSink, stamp: Stamp) {
        if self.set(stamp) {
            out.extend_from_slice(self.text.get(..self.delta).unwrap_or_default());
        } else {
            self.write_other(out, stamp);
        }
    }

    /// Writes a time, and the time since `before`.
    #[inline]
    pub fn write_with_delta(&mut self, out: &mut Lines, before: Option<Stamp>, stamp: Stamp) {
        let since = before.map_or(u64::MAX, |before| stamp.ns.wrapping_sub(before.ns) as u64);
        let ns = stamp.ns.wrapping_sub(self.fine) as u64;
        if ns.max(since) >= FINE || !self.is_fine {
            return self.write_coarsely(out, before, stamp);
        }
        let (ns, since) = four_digits_of_two(ns as u32, since as u32);
        let at = out.len();
        out.put(&self.block, self.text.len());
        out.patch(at + self.digits + 5, &ns);
        out.patch(at + self.delta + 9, &since);
    }

    /// Writes any time and delta, and prepares the block for the next times if these are near.
    #[inline(never)]
    fn write_coarsely(&mut self, out: &mut Lines, before: Option<Stamp>, stamp: Stamp) {
        self.is_fine = self.set(stamp);
        if !self.is_fine {
            self.write_other(out, stamp);
            return delta(out, self.style, before, stamp);
        }
        match self.block.get_mut(..self.text.len()) {
            Some(block) => {
                block.copy_from_slice(&self.text);
                // It may be before all times: differences wrap too.
                self.fine = stamp.ns.wrapping_sub(stamp.ns.rem_euclid(FINE as i64));
            }
            None => self.is_fine = false,
        }
        out.extend_from_slice(self.text.get(..self.delta).unwrap_or_default());
        delta(out, self.style, before, stamp);
    }

    /// Makes `text` show this time. Returns false for times that are written in another way.
    #[inline]
    fn set(&mut self, stamp: Stamp) -> bool {
        let has_second = match self.style {
            ClockStyle::None | ClockStyle::Cycles => false,
            ClockStyle::Iso => true,
            _ => stamp.ns >= 0,
        };
        if !has_second {
            return false;
        }
        let (second, ns) = (stamp.ns.div_euclid(SECOND), stamp.ns.rem_euclid(SECOND));
        if self.second != second || self.text.is_empty() {
            self.begin(second);
        }
        let (from, to) = (self.digits, self.digits + 9);
        if let Some(digits) = self.text.get_mut(from..to) {
            digits.copy_from_slice(&nine_digits(ns as u32));
        }
        true
    }

    fn write_other(&self, out: &mut impl TextSink, stamp: Stamp) {
        if self.style == ClockStyle::None {
            return;
        }
        out.extend_from_slice(self.around.0);
        if self.style == ClockStyle::Cycles {
            padded(out, stamp.cycles, 20);
        } else {
            negative(out, stamp.ns);
        }
        out.extend_from_slice(self.around.1);
    }

    /// Writes the clock's value, for a time without a known date.
    pub fn write_cycles(&self, out: &mut impl TextSink, cycles: u64) {
        out.extend_from_slice(self.around.0);
        padded(out, cycles, 20);
        out.extend_from_slice(self.around.1);
    }

    /// Rebuilds the text for a new second.
    fn begin(&mut self, second: i64) {
        self.second = second;
        self.text.clear();
        self.text.extend_from_slice(self.around.0);
        if self.style == ClockStyle::Seconds {
            signed(&mut self.text, second);
            self.text.push(b'.');
            self.finish(b"");
            return;
        }
        // i64 nanoseconds are far inside what a Timestamp can be.
        let Ok(timestamp) = Timestamp::from_second(second) else { return };
        let offset = self.zone.to_offset(timestamp);
        let local = offset.to_datetime(timestamp);
        if matches!(self.style, ClockStyle::Date | ClockStyle::Iso) {
            signed(&mut self.text, i64::from(local.year()));
            for part in [local.month(), local.day()] {
                self.text.push(b'-');
                self.text.extend_from_slice(&pair(part as u32));
            }
            self.text.push(if self.style == ClockStyle::Iso { b'T' } else { b' ' });
        }
        for (part, behind) in [(local.hour(), b':'), (local.minute(), b':'), (local.second(), b'.')]
        {
            self.text.extend_from_slice(&pair(part as u32));
            self.text.push(behind);
        }
        let seconds = offset.seconds();
        match self.style {
            ClockStyle::Iso if seconds == 0 => self.finish(b"Z"),
            ClockStyle::Iso => {
                let minutes = seconds.unsigned_abs() / 60;
                let ([a, b], [c, d]) = (pair(minutes / 60), pair(minutes % 60));
                self.finish(&[if seconds < 0 { b'-' } else { b'+' }, a, b, b':', c, d]);
            }
            _ => self.finish(b""),
        }
    }

    /// Adds room for the nanoseconds, and the text after them.
    fn finish(&mut self, behind: &[u8]) {
        self.digits = self.text.len();
        self.text.extend_from_slice(&[b'0'; 9]);
        self.text.extend_from_slice(behind);
        self.text.extend_from_slice(self.around.1);
        self.delta = self.text.len();
        self.text.extend_from_slice(&SHORT_DELTA);
    }
}

/// Writes a time before 1970, in seconds.
fn negative(out: &mut impl TextSink, ns: i64) {
    out.push(b'-');
    seconds(out, ns.unsigned_abs());
}

/// Writes a time as seconds with nine decimals.
fn seconds(out: &mut impl TextSink, ns: u64) {
    const SECOND: u64 = 1_000_000_000;
    unsigned(out, ns / SECOND);
    out.push(b'.');
    out.extend_from_slice(&nine_digits((ns % SECOND) as u32));
}

fn padded(out: &mut impl TextSink, value: u64, width: usize) {
    let digits = value.checked_ilog10().map_or(1, |log| log as usize + 1);
    for _ in digits..width {
        out.push(b'0');
    }
    unsigned(out, value);
}

/// Writes the time since the last event record, as `(+0.000000012) `; `before` is `None` for the first.
#[inline]
pub fn delta(out: &mut impl TextSink, style: ClockStyle, before: Option<Stamp>, now: Stamp) {
    if style == ClockStyle::Cycles {
        match before
            .map(|before| (now.cycles.wrapping_sub(before.cycles), now.cycles < before.cycles))
        {
            None => out.extend_from_slice(b"(+????????????) "),
            Some((cycles, back)) => {
                out.extend_from_slice(if back { b"(-" } else { b"(+" });
                padded(out, if back { cycles.wrapping_neg() } else { cycles }, 12);
                out.extend_from_slice(b") ");
            }
        }
        return;
    }
    let Some(before) = before else {
        out.extend_from_slice(b"(+?.?????????) ");
        return;
    };
    let ns = now.ns.abs_diff(before.ns);
    if now.ns >= before.ns && ns < SECOND as u64 {
        let mut text = SHORT_DELTA;
        if let Some(digits) = text.get_mut(4..13) {
            digits.copy_from_slice(&nine_digits(ns as u32));
        }
        out.put(&text, text.len());
        return;
    }
    out.extend_from_slice(if now.ns < before.ns { b"(-" } else { b"(+" });
    seconds(out, ns);
    out.extend_from_slice(b") ");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(style: ClockStyle, zone: &str, times: &[i64]) -> Vec<String> {
        let zone = if zone == "UTC" { TimeZone::UTC } else { TimeZone::posix(zone).unwrap() };
        let mut clock = ClockText::new(style, zone);
        let write = |&ns: &i64| {
            let mut out = Vec::new();
            clock.write(&mut out, Stamp { ns, cycles: 12 });
            String::from_utf8(out).unwrap()
        };
        times.iter().map(write).collect()
    }

    const TIME: i64 = 1_700_000_000_000_000_012;

    #[test]
    fn time_in_each_style_has_its_layout() {
        let one = |style, zone| at(style, zone, &[TIME]).remove(0);
        assert_eq!(one(ClockStyle::Time, "UTC"), "22:13:20.000000012");
        assert_eq!(one(ClockStyle::Time, "IST-5:30"), "03:43:20.000000012");
        assert_eq!(one(ClockStyle::Date, "EST5"), "2023-11-14 17:13:20.000000012");
        assert_eq!(one(ClockStyle::Iso, "UTC"), "2023-11-14T22:13:20.000000012Z");
        assert_eq!(one(ClockStyle::Iso, "IST-5:30"), "2023-11-15T03:43:20.000000012+05:30");
        assert_eq!(one(ClockStyle::Iso, "EST5"), "2023-11-14T17:13:20.000000012-05:00");
        assert_eq!(one(ClockStyle::Seconds, "EST5"), "1700000000.000000012");
        assert_eq!(one(ClockStyle::Cycles, "EST5"), "00000000000000000012");
        assert_eq!(one(ClockStyle::None, "EST5"), "");
    }

    #[test]
    fn time_in_the_next_second_and_back_has_the_right_second() {
        let second = SECOND;
        assert_eq!(
            at(ClockStyle::Time, "UTC", &[0, 1, second + 2, 3, 86_400 * second * 3 - 1]),
            [
                "00:00:00.000000000",
                "00:00:00.000000001",
                "00:00:01.000000002",
                "00:00:00.000000003",
                "23:59:59.999999999"
            ]
        );
    }

    #[test]
    fn time_where_the_zone_changes_has_the_offset_of_its_second() {
        // 2023-11-05 06:00 UTC: New York goes from 02:00 EDT to 01:00 EST.
        let change = 1_699_164_000 * SECOND;
        assert_eq!(
            at(ClockStyle::Time, "EST5EDT,M3.2.0,M11.1.0", &[change - 1, change]),
            ["01:59:59.999999999", "01:00:00.000000000"]
        );
    }

    #[test]
    fn time_before_1970_is_in_negative_seconds() {
        let times = [-5 * SECOND, -SECOND - 5, -7, i64::MIN];
        let wanted = ["-5.000000000", "-1.000000005", "-0.000000007", "-9223372036.854775808"];
        assert_eq!(at(ClockStyle::Time, "UTC", &times), wanted);
        assert_eq!(at(ClockStyle::Seconds, "UTC", &times), wanted);
        assert_eq!(at(ClockStyle::Iso, "UTC", &[-1]), ["1969-12-31T23:59:59.999999999Z"]);
        assert_eq!(at(ClockStyle::Date, "UTC", &[i64::MAX]), ["2262-04-11 23:47:16.854775807"]);
    }

    #[test]
    fn time_near_the_one_before_is_that_of_a_new_writer() {
        let (mut time, mut step) = (TIME - 3, 1_i64);
        let mut times = vec![i64::MIN, i64::MIN + 7, -10_001, -10_000, -9_999, -1, 0, 3, 9_999];
        times.extend([10_000, SECOND - 1, SECOND, i64::MAX - 1, i64::MAX]);
        for number in 0..4_000 {
            step = step * 7 % 65_537;
            time += if number % 100 == 0 { step * 40_000 } else { step % 4_000 - 9 };
            times.push(time);
        }
        let zone = TimeZone::posix("IST-5:30").unwrap();
        let styles = [ClockStyle::Time, ClockStyle::Date, ClockStyle::Iso, ClockStyle::Seconds];
        for style in styles.into_iter().chain([ClockStyle::Cycles, ClockStyle::None]) {
            for around in
                [(&b"["[..], &b"] "[..]), (b"[\x1b[1;33m", b"\x1b[0m] "), (&[b'<'; 40], b">")]
            {
                let mut clock = ClockText::around(style, zone.clone(), around);
                let mut before = None;
                for &ns in &times {
                    let stamp = Stamp { ns, cycles: ns as u64 };
                    let mut lines = Lines::default();
                    clock.write_with_delta(&mut lines, before, stamp);
                    let mut wanted = Vec::new();
                    ClockText::around(style, zone.clone(), around).write(&mut wanted, stamp);
                    delta(&mut wanted, style, before, stamp);
                    assert!(lines.as_bytes() == wanted, "{style:?} {ns}");
                    before = Some(stamp);
                }
            }
        }
    }

    #[test]
    fn delta_has_seconds_without_limit_and_a_sign() {
        let text = |style, before: Option<i64>, now: i64| {
            let stamp = |ns| Stamp { ns, cycles: ns as u64 };
            let mut out = Vec::new();
            delta(&mut out, style, before.map(stamp), stamp(now));
            String::from_utf8(out).unwrap()
        };
        let time = ClockStyle::Time;
        assert_eq!(text(time, None, 5), "(+?.?????????) ");
        assert_eq!(text(time, Some(5), 17), "(+0.000000012) ");
        assert_eq!(text(time, Some(0), 259_198_999_999_987), "(+259198.999999987) ");
        assert_eq!(text(time, Some(0), SECOND), "(+1.000000000) ");
        assert_eq!(text(time, Some(5), 4), "(-0.000000001) ");
        assert_eq!(text(time, Some(i64::MIN), i64::MAX), "(+18446744073.709551615) ");
        assert_eq!(text(ClockStyle::Cycles, None, 5), "(+????????????) ");
        assert_eq!(text(ClockStyle::Cycles, Some(5), 17), "(+000000000012) ");
        assert_eq!(text(ClockStyle::Cycles, Some(17), 5), "(-000000000012) ");
    }
}
