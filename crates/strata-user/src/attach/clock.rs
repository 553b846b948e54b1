//! The cycle counter as `CLOCK_MONOTONIC`: measured by one estimator per tracer, and published to each process in
//! slots, each of which continues where its predecessor stood (`strata/abi/user.h`).
//!
//! A traced program stamps an event with one read of the counter, and needs a multiplier and an offset for that. It has
//! no thread that could measure them, so the tracer does:
//!
//! ```text
//! measure() ─▶ Estimator: rate and offset of the last second ─▶ Clock (one per tracer)
//!                                                                 │ publish(), every 10 … 250 ms
//!                                                                 ▼
//!             Publisher (one per process) ─▶ ConversionSlot in the process' memory ─▶ read by libstrata at each event
//! ```
//!
//! # What must hold
//! - Times never go back: a new slot begins exactly where the old one stands at the moment of the change, and differs
//!   from the true time by a slew that is at most [`SLEW_SHARE`] of its rate, about what the kernel does to its own
//!   clock.
//! - A slot is right for longer than the time to the next refresh, so that a tracer that gets no CPU for 100 ms does no
//!   harm.
//! - Slots are published in a ring, with release and acquire: a program reads a slot that is complete, or the one before.
//! - If the counter cannot be used ([`WhyNot`]), all of them read `CLOCK_MONOTONIC` through the vdso, at a higher cost.
//!
//! Several tracers may publish to one process; the one with the lowest session slot does, and another continues from its
//! last slot if it dies. A slot that is off by more than a second is replaced instead of slewed.
//!
//! [`Clock`] is shared by all threads of a tracer; its estimator is behind a lock. docs/design/user.md, "The counter of each
//! machine", has the measured errors.

use std::collections::VecDeque;
use std::fmt;
use std::mem::offset_of;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{clock_gettime, ClockId};
use strata_abi::user;
use strata_model::{time_namespace_adds_ns, TimeSource};

use crate::attach::shared_memory::ProgramMemory;

/// Number of fraction bits of a multiplier \[bit\].
const POINT: u32 = 32;

/// Length of the window of measurements \[ns\]: long enough to average out their errors, short enough to follow
/// corrections by NTP.
const WINDOW_NS: u64 = 1_000_000_000;

/// Deviation of a measurement from its expected value beyond which the rate has changed \[ns\].
const SURPRISE_NS: u64 = 150;

/// Shortest time between two measurements \[ns\].
const MEASURE_EVERY_NS: u64 = 5_000_000;

/// Time between the first two refreshes of a process's clock slot. The interval grows up to [`REFRESH_LAST`].
const REFRESH_FIRST: Duration = Duration::from_millis(10);
const REFRESH_LAST: Duration = Duration::from_millis(250);

/// Shortest time for which a clock slot must be right. A refresh may be tens of milliseconds late on a busy
/// machine.
const HORIZON_MIN: Duration = Duration::from_millis(100);

/// Error of a clock slot beyond which the refresh intervals start again with the shortest \[ns\].
const REFRESH_ANEW_NS: i64 = 300;

/// Divisor of a clock's rate: a slot is sped up or slowed down by at most this part of the rate (488 ppm, about as
/// the kernel does with its own clock). A refresh that is late then finds an error of at most that part of the delay.
const SLEW_SHARE: u64 = 2048;

/// Time in which a large deviation is corrected, such as one that another tracer left \[ns\].
const SLEW_NS: u64 = 64_000_000_000;

/// Deviation beyond which a clock slot is replaced instead of being corrected gradually \[ns\].
const IMPLAUSIBLE_NS: i64 = 1_000_000_000;

/// Name of the kernel's clock source that is the CPU's counter, and of the instruction that reads the counter.
#[cfg(target_arch = "x86_64")]
pub const COUNTER: (&str, &str) = ("tsc", "rdtsc");
/// Name and register of AArch64's counter.
#[cfg(target_arch = "aarch64")]
pub const COUNTER: (&str, &str) = ("arch_sys_counter", "cntvct_el0");
/// Texts for machines whose counter this program cannot read.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub const COUNTER: (&str, &str) = ("a counter that is known here", "");

/// The reason why the cycle counter is not used for timestamps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyNot {
    /// The kernel does not use the counter as its clock source; this is the source that it uses.
    Clocksource(String),
    /// The CPU's counter changes its rate, or stops.
    NotInvariant,
    /// The counter's rate cannot be measured, because it jumps.
    Unsteady,
    /// Strata cannot read the counter of this architecture.
    Architecture,
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhyNot::Clocksource(name) if name.is_empty() => {
                f.write_str("the kernel's clock source is not known")
            }
            WhyNot::Clocksource(name) => {
                let name = strata_model::printable(name);
                write!(f, "the kernel's clock source is {name}, not {}", COUNTER.0)
            }
            WhyNot::NotInvariant => f.write_str("the CPU's time stamp counter is not invariant"),
            WhyNot::Unsteady => f.write_str("the CPU's time stamp counter is unsteady"),
            WhyNot::Architecture => f.write_str("it is not used on this architecture"),
        }
    }
}

/// The way in which timestamps of `CLOCK_MONOTONIC` are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClockKind {
    /// From the cycle counter, converted to nanoseconds.
    Tsc,
    /// By `clock_gettime()`, which costs more. Has the reason why the counter is not used.
    Vdso(WhyNot),
}

/// A value of the cycle counter and the time, read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    cycles: u64,
    ns: u64,
}

/// Estimate of the counter's rate and offset from recent measurements.
#[derive(Debug)]
struct Estimator {
    pairs: VecDeque<Pair>,
    multiplier: u64,
}

/// Converts a number of cycles to nanoseconds.
fn convert(cycles: u64, multiplier: u64) -> u64 {
    ((u128::from(cycles) * u128::from(multiplier)) >> POINT) as u64
}

/// Returns the rate between two measurements, as a multiplier; `None` if the counter or the clock did not advance.
fn rate(from: Pair, to: Pair) -> Option<u64> {
    let cycles = to.cycles.checked_sub(from.cycles).filter(|cycles| *cycles > 0)?;
    let ns = to.ns.checked_sub(from.ns).filter(|ns| *ns > 0)?;
    u64::try_from((u128::from(ns) << POINT) / u128::from(cycles)).ok().filter(|rate| *rate > 0)
}

impl Estimator {
    fn new(first: Pair, second: Pair) -> Option<Estimator> {
        let multiplier = rate(first, second)?;
        Some(Estimator { pairs: VecDeque::from([first, second]), multiplier })
    }

    fn newest(&self) -> Pair {
        // Never empty: add() keeps one.
        *self.pairs.back().unwrap_or(&Pair { cycles: 0, ns: 0 })
    }

    /// Returns the time at a reading of the counter, which may lie before the newest measurement \[ns\].
    fn ns_at(&self, cycles: u64) -> u64 {
        let newest = self.newest();
        match cycles.checked_sub(newest.cycles) {
            Some(passed) => newest.ns.saturating_add(convert(passed, self.multiplier)),
            None => newest.ns.saturating_sub(convert(newest.cycles - cycles, self.multiplier)),
        }
    }

    fn add(&mut self, pair: Pair) {
        let newest = self.newest();
        let surprise = self.ns_at(pair.cycles).abs_diff(pair.ns);
        let passed = pair.ns.saturating_sub(newest.ns);
        // More than the errors of the two measurements and of the rate can explain.
        if surprise > SURPRISE_NS + passed / 2_000_000 {
            self.pairs.clear();
            self.pairs.push_back(newest);
        }
        while self.pairs.len() > 1
            && self.pairs.get(1).is_some_and(|second| pair.ns.saturating_sub(second.ns) > WINDOW_NS)
        {
            self.pairs.pop_front();
        }
        if let Some(multiplier) = self.pairs.front().and_then(|first| rate(*first, pair)) {
            self.multiplier = multiplier;
        } else {
            self.pairs.clear();
        }
        self.pairs.push_back(pair);
    }
}

/// The clock of one tracer.
#[derive(Debug)]
pub struct Clock {
    kind: ClockKind,
    estimator: Option<Mutex<Estimator>>,
    time: TimeSource,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// Creates the clock: decides how timestamps are taken, and measures the counter's rate. Takes some milliseconds.
    #[must_use]
    pub fn new() -> Clock {
        let estimator = usable().and_then(|()| {
            let first = measure().ok_or(WhyNot::Unsteady)?;
            std::thread::sleep(Duration::from_nanos(MEASURE_EVERY_NS));
            let second = measure().ok_or(WhyNot::Unsteady)?;
            Estimator::new(first, second).ok_or(WhyNot::Unsteady)
        });
        match estimator {
            Ok(estimator) => Clock {
                kind: ClockKind::Tsc,
                estimator: Some(Mutex::new(estimator)),
                time: TimeSource::machine(),
            },
            Err(why) => Clock::without_counter(why),
        }
    }

    pub(crate) fn without_counter(why: WhyNot) -> Clock {
        Clock { kind: ClockKind::Vdso(why), estimator: None, time: TimeSource::machine() }
    }

    /// Returns a clock without a counter, for tests. Sessions with this clock take the time from `time`, which a test
    /// advances.
    #[must_use]
    pub fn by_hand(time: TimeSource) -> Clock {
        let why = WhyNot::Clocksource("time by hand".to_owned());
        Clock { time, ..Clock::without_counter(why) }
    }

    /// Returns the time source for the periodic work of sessions with this clock.
    pub(crate) fn time(&self) -> SessionTime {
        SessionTime(self.time.clone())
    }

    /// Source of timestamps.
    #[must_use]
    pub fn kind(&self) -> &ClockKind {
        &self.kind
    }

    /// Returns `CLOCK_MONOTONIC` of the machine, as in the kernel's own records: without the offset of our time
    /// namespace \[ns\].
    #[must_use]
    pub fn monotonic_ns() -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        let now = u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000
            + u64::try_from(now.tv_nsec).unwrap_or(0);
        now.saturating_add_signed(time_namespace_adds_ns().0.saturating_neg())
    }

    /// Measures again, if the last measurement was some milliseconds ago.
    pub fn refresh(&self) {
        let Some(estimator) = &self.estimator else { return };
        let mut estimator = estimator.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = Clock::monotonic_ns().saturating_sub(estimator.newest().ns);
        if passed >= MEASURE_EVERY_NS {
            if let Some(pair) = measure() {
                estimator.add(pair);
            }
        }
    }

    /// Nanoseconds per cycle, times 2^32; `None` if the counter is not used.
    #[must_use]
    pub fn multiplier(&self) -> Option<u64> {
        self.with(|estimator| estimator.multiplier)
    }

    /// Returns the time at a reading of the cycle counter \[ns\]; `None` if the counter is not used.
    #[must_use]
    pub fn convert(&self, cycles: u64) -> Option<u64> {
        self.with(|estimator| estimator.ns_at(cycles))
    }

    fn with<T>(&self, f: impl FnOnce(&Estimator) -> T) -> Option<T> {
        let estimator = self.estimator.as_ref()?;
        Some(f(&estimator.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// The time source of a session, for its periodic work and for the times that it writes into shared memory.
#[derive(Clone, Debug)]
pub(crate) struct SessionTime(TimeSource);

impl SessionTime {
    pub fn now(&self) -> Instant {
        self.0.now()
    }

    /// `CLOCK_MONOTONIC` \[ns\]; see [`Clock::monotonic_ns`].
    pub fn now_ns(&self) -> u64 {
        self.0.manual_ns().unwrap_or_else(Clock::monotonic_ns)
    }
}

/// Checks that the kernel itself uses the counter as its clock source, which it does only with reliable
/// counters.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn is_the_kernels() -> Result<(), WhyNot> {
    const PATH: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let name = std::fs::read_to_string(PATH).unwrap_or_default();
    (name.trim() == COUNTER.0)
        .then_some(())
        .ok_or_else(|| WhyNot::Clocksource(name.trim().to_owned()))
}

/// Checks whether the cycle counter may be used on this machine.
#[cfg(target_arch = "x86_64")]
fn usable() -> Result<(), WhyNot> {
    use core::arch::x86_64::__cpuid;
    is_the_kernels()?;
    let leaf = |number| {
        #[allow(unused_unsafe)] // safe since Rust 1.94
        // SAFETY: every x86-64 CPU has the instruction; a leaf is asked for only if it is there.
        unsafe {
            __cpuid(number)
        }
    };
    // Leaf 0x80000007, bit 8 of EDX: constant and nonstop.
    let has_leaf = leaf(0x8000_0000).eax >= 0x8000_0007;
    let invariant = has_leaf && leaf(0x8000_0007).edx & 1 << 8 != 0;
    invariant.then_some(()).ok_or(WhyNot::NotInvariant)
}

/// Checks whether the counter may be used. The architecture demands one counter of a constant rate for all CPUs.
#[cfg(target_arch = "aarch64")]
fn usable() -> Result<(), WhyNot> {
    is_the_kernels()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn usable() -> Result<(), WhyNot> {
    Err(WhyNot::Architecture)
}

/// Returns the cycle counter, `CLOCK_MONOTONIC` \[ns\], and the counter again; `None` if the counter cannot be read
/// here.
#[must_use]
pub fn counter_pair() -> Option<(u64, u64, u64)> {
    if COUNTER.1.is_empty() {
        return None;
    }
    let before = cycles();
    let now = Clock::monotonic_ns();
    Some((before, now, cycles()))
}

/// Reads the cycle counter in program order: after everything before it, and before everything after it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn cycles() -> u64 {
    use core::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 CPU has the instruction.
    unsafe { _mm_lfence() };
    // SAFETY: every x86-64 CPU has the instruction, and Linux allows it.
    let cycles = unsafe { _rdtsc() };
    // SAFETY: every x86-64 CPU has the instruction.
    unsafe { _mm_lfence() };
    cycles
}

/// Reads AArch64's counter.
#[cfg(target_arch = "aarch64")]
pub(crate) fn cycles() -> u64 {
    let cycles: u64;
    // SAFETY: it reads a register, which Linux allows, and touches no memory.
    unsafe {
        core::arch::asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) cycles, options(nostack));
    }
    cycles
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn cycles() -> u64 {
    0
}

/// Measures counter and clock at one moment: takes the pair with the shortest interruption of several tries. If a
/// slow counter has the same value before and after, the pair is exact, because the kernel computes its clock from
/// that counter.
fn measure() -> Option<Pair> {
    const TRIES: u32 = 24;
    let mut best: Option<(u64, Pair)> = None;
    for _ in 0..TRIES {
        let before = cycles();
        let ns = Clock::monotonic_ns();
        let width = cycles().checked_sub(before)?;
        if best.is_none_or(|(narrowest, _)| width < narrowest) {
            best = Some((width, Pair { cycles: before + width / 2, ns }));
        }
    }
    best.map(|(_, pair)| pair)
}

/// Conversion from cycles to nanoseconds that a process uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ConversionSlot {
    base_cycles: u64,
    multiplier: u64,
    base_ns: u64,
}

impl ConversionSlot {
    /// Converts cycles to nanoseconds as the process does, but rounds up. A following conversion that begins at the
    /// result then never goes back in time.
    fn ns_at_or_above(&self, cycles: u64) -> Option<u64> {
        let passed = cycles.checked_sub(self.base_cycles)?;
        let fixed = u128::from(passed) * u128::from(self.multiplier) + ((1 << POINT) - 1);
        self.base_ns.checked_add(u64::try_from(fixed >> POINT).ok()?)
    }
}

/// Returns the slot that follows `old` from `now` on: the new slot begins with the time of `old` and reaches the true
/// time after `horizon_ns`, if the deviation is small. Also returns the deviation of `old` \[ns\]; `None` without a
/// usable `old`.
fn slew(
    old: ConversionSlot,
    now: u64,
    true_ns: u64,
    multiplier: u64,
    horizon_ns: u64,
) -> (ConversionSlot, Option<i64>) {
    let anew = ConversionSlot { base_cycles: now, multiplier, base_ns: true_ns };
    let plausible = old.multiplier / 4 <= multiplier && multiplier / 4 <= old.multiplier;
    let stands = old.ns_at_or_above(now).filter(|_| old.multiplier > 0 && plausible);
    let off =
        stands.and_then(|stands| i64::try_from(i128::from(stands) - i128::from(true_ns)).ok());
    let (Some(stands), Some(off)) = (stands, off.filter(|off| off.abs() < IMPLAUSIBLE_NS)) else {
        return (anew, None);
    };
    // Slower by off / horizon while the slot is ahead, faster while it lags.
    let change_in = |ns: u64| i128::from(multiplier) * i128::from(off) / i128::from(ns.max(1));
    let most = change_in(SLEW_NS).abs().max(i128::from(multiplier / SLEW_SHARE));
    let change = change_in(horizon_ns).clamp(-most, most);
    let slewed = u64::try_from(i128::from(multiplier) - change).unwrap_or(multiplier);
    (ConversionSlot { base_cycles: now, multiplier: slewed, base_ns: stands }, Some(off))
}

/// Keeps the clock slots of one process up to date.
#[derive(Debug)]
pub(crate) struct Publisher {
    slot: u32,
    /// The conversion that was written last, with its index.
    last: Option<(u64, ConversionSlot)>,
    interval: Duration,
}

impl Publisher {
    /// Makes the publisher for the session in `slot` of the process.
    pub fn new(slot: u32) -> Publisher {
        Publisher { slot, last: None, interval: REFRESH_FIRST }
    }

    /// Writes the next clock slot, unless another tracer's session does. Returns the time until the next call.
    pub fn publish(&mut self, memory: &ProgramMemory, clock: &Clock) -> Duration {
        // Two writers would mix their slots, so take the lock if there may be another one.
        let now_ns = clock.time().now_ns();
        if (0..self.slot).any(|slot| memory.slot_is_alive(slot, now_ns)) {
            self.last = None;
            return REFRESH_LAST;
        }
        let lock = memory.try_lock();
        if lock.is_none() && self.last.is_none() {
            return REFRESH_FIRST;
        }
        let Some(off) = self.publish_now(memory, clock) else { return REFRESH_LAST };
        let next = self.interval;
        self.interval = match off {
            Some(off) if off.abs() <= REFRESH_ANEW_NS => (self.interval * 2).min(REFRESH_LAST),
            _ => REFRESH_FIRST,
        };
        next
    }

    /// Publishes a conversion. Returns the deviation of the slot before \[ns\], if there was one. The outer `None`
    /// means that there is no counter, so that the process must use `clock_gettime()`.
    fn publish_now(&mut self, memory: &ProgramMemory, clock: &Clock) -> Option<Option<i64>> {
        let index_at = memory.u64(offset_of!(user::Control, clock_index));
        let index = index_at.load(Ordering::Acquire);
        let kind = memory.u32(offset_of!(user::Control, clock_kind));
        if clock.kind != ClockKind::Tsc {
            if self.read(memory, index).multiplier != 0 {
                let next = self.next(memory, index);
                self.write(memory, next, ConversionSlot::default());
                index_at.store(next, Ordering::Release);
            }
            kind.store(user::CLOCK_VDSO, Ordering::Release);
            return None;
        }
        clock.refresh();
        let old = match self.last {
            Some((last, slot)) if last == index => slot,
            _ => self.read(memory, index),
        };
        let next = self.next(memory, index);
        let horizon_ns = (2 * self.interval).max(HORIZON_MIN).as_nanos() as u64;
        // If the write was interrupted, the moment from which the slot continues has passed: try again.
        let mut tries = 8;
        let (slot, off) = loop {
            let now = cycles();
            let (true_ns, multiplier) = clock.with(|e| (e.ns_at(now), e.multiplier))?;
            let (slot, off) = slew(old, now, true_ns, multiplier, horizon_ns);
            self.write(memory, next, slot);
            tries -= 1;
            if convert(cycles().saturating_sub(now), multiplier) < 2_000 || tries == 0 {
                break (slot, off);
            }
        };
        self.finish(memory, next);
        index_at.store(next, Ordering::Release);
        kind.store(user::CLOCK_TSC, Ordering::Release);
        self.last = Some((next, slot));
        Some(off)
    }

    /// Returns the index of the next slot to write. If a tracer has finished that slot and died before it published
    /// it, the slot is skipped, since a process that has loaded its index would take our data for the dead tracer's.
    fn next(&self, memory: &ProgramMemory, index: u64) -> u64 {
        let next = index.wrapping_add(1);
        let said = memory.u64(Self::at(next) + offset_of!(user::ClockSlot, index));
        match said.load(Ordering::Relaxed) == next {
            true => next.wrapping_add(1),
            false => next,
        }
    }

    fn at(index: u64) -> usize {
        let number = (index % u64::from(user::NR_CLOCK_SLOTS)) as usize;
        offset_of!(user::Control, clock) + number * size_of::<user::ClockSlot>()
    }

    fn read(&self, memory: &ProgramMemory, index: u64) -> ConversionSlot {
        let load = |field| memory.u64(Self::at(index) + field).load(Ordering::Relaxed);
        ConversionSlot {
            base_cycles: load(offset_of!(user::ClockSlot, base_cycles)),
            multiplier: load(offset_of!(user::ClockSlot, multiplier)),
            base_ns: load(offset_of!(user::ClockSlot, base_ns)),
        }
    }

    fn write(&self, memory: &ProgramMemory, index: u64, slot: ConversionSlot) {
        let store =
            |field, value| memory.u64(Self::at(index) + field).store(value, Ordering::Relaxed);
        store(offset_of!(user::ClockSlot, base_cycles), slot.base_cycles);
        store(offset_of!(user::ClockSlot, multiplier), slot.multiplier);
        store(offset_of!(user::ClockSlot, base_ns), slot.base_ns);
    }

    /// Marks the slot as complete.
    fn finish(&self, memory: &ProgramMemory, index: u64) {
        let at = Self::at(index) + offset_of!(user::ClockSlot, index);
        memory.u64(at).store(index, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fake;
    use std::sync::atomic::{AtomicBool, AtomicU64};
    use std::time::Instant;

    /// A machine whose clock runs at `ns_per_cycle`, which may change.
    struct Machine {
        cycles: u64,
        /// Elapsed fraction of the next cycle.
        part: f64,
        ns: f64,
        ns_per_cycle: f64,
    }

    impl Machine {
        fn pass(&mut self, ns: f64) -> Pair {
            self.part += ns / self.ns_per_cycle;
            self.cycles += self.part as u64;
            self.part = self.part.fract();
            self.ns += ns;
            self.pair(0.0)
        }

        fn pair(&self, error_ns: f64) -> Pair {
            Pair { cycles: self.cycles, ns: (self.ns + error_ns) as u64 }
        }
    }

    fn machine() -> (Machine, Estimator) {
        machine_of(0.4)
    }

    fn machine_of(ns_per_cycle: f64) -> (Machine, Estimator) {
        let mut machine = Machine { cycles: 1 << 40, part: 0.0, ns: 1e12, ns_per_cycle };
        let first = machine.pair(10.0);
        let second = machine.pass(5e6);
        (machine, Estimator::new(first, second).unwrap())
    }

    /// Follows the machine for so many refreshes of 10, 20, 40 ... 250 ms. Returns the largest error.
    fn follow(
        machine: &mut Machine,
        estimator: &mut Estimator,
        slot: &mut ConversionSlot,
        steps: u32,
    ) -> i64 {
        let mut interval_ns = 10e6;
        let mut worst = 0i64;
        for step in 0..steps {
            let mut last = slot.ns_at_or_above(machine.cycles).unwrap();
            for _ in 0..10 {
                let pair = machine.pass(interval_ns / 10.0);
                let now = slot.base_ns + convert(pair.cycles - slot.base_cycles, slot.multiplier);
                assert!(now + 1 >= last, "went back from {last} to {now}");
                last = now;
                worst = worst.max((now as i64 - pair.ns as i64).abs());
            }
            // Measured with an error of up to 20 ns.
            estimator.add(machine.pair(f64::from(step % 5) * 10.0 - 20.0));
            let now = machine.cycles;
            let (next, off) = slew(
                *slot,
                now,
                estimator.ns_at(now),
                estimator.multiplier,
                2 * interval_ns as u64,
            );
            assert!(next.base_ns + 1 >= last, "stepped back from {last} to {}", next.base_ns);
            *slot = next;
            let calm = off.is_some_and(|off| off.abs() <= REFRESH_ANEW_NS);
            interval_ns = if calm { (interval_ns * 2.0f64).min(250e6) } else { 10e6 };
        }
        worst
    }

    #[test]
    fn slew_of_a_clock_that_is_100_ppm_off_never_goes_back_and_comes_right() {
        let (mut machine, mut estimator) = machine();
        let wrong = estimator.multiplier + estimator.multiplier / 10_000;
        let mut slot = ConversionSlot {
            base_cycles: machine.cycles,
            multiplier: wrong,
            base_ns: machine.ns as u64,
        };
        follow(&mut machine, &mut estimator, &mut slot, 6);
        let worst = follow(&mut machine, &mut estimator, &mut slot, 200);
        assert!(worst < 200, "{worst} ns");
    }

    /// Frequencies of AArch64 counters, one of them of a telephone.
    const FREQUENCIES: [u64; 4] = [1_920_000, 24_000_000, 62_500_000, 1_000_000_000];

    #[test]
    fn slew_of_a_slow_counter_is_off_by_its_ticks_at_most() {
        for frequency in FREQUENCIES {
            let (mut machine, mut estimator) = machine_of(1e9 / frequency as f64);
            let wrong = estimator.multiplier + estimator.multiplier / 10_000;
            let mut slot = ConversionSlot {
                base_cycles: machine.cycles,
                multiplier: wrong,
                base_ns: machine.ns as u64,
            };
            follow(&mut machine, &mut estimator, &mut slot, 30);
            // Not whole ticks: each look at the clock is at another part of one.
            machine.pass(12.3);
            let worst = follow(&mut machine, &mut estimator, &mut slot, 200);
            let tick = (1_000_000_000 / frequency) as i64;
            assert!(worst < 200 + 2 * tick, "{frequency} Hz: {worst} ns");
        }
    }

    #[test]
    fn convert_of_each_frequency_is_exact_for_seconds_and_fits_for_centuries() {
        for frequency in FREQUENCIES {
            let begin = Pair { cycles: 7, ns: 9 };
            let second = Pair { cycles: 7 + frequency, ns: 9 + 1_000_000_000 };
            let multiplier = rate(begin, second).unwrap();
            assert!(multiplier >> 42 == 0, "{frequency} Hz: {multiplier}");
            // Each tick is as long as the one before, or a nanosecond more.
            let tick = 1_000_000_000 / frequency;
            for cycles in 0..10_000 {
                let step = convert(cycles + 1, multiplier) - convert(cycles, multiplier);
                assert!(step == tick || step == tick + 1, "{frequency} Hz: {step} ns");
            }
            let exact = |cycles: u64| u128::from(cycles) * 1_000_000_000 / u128::from(frequency);
            for seconds in [1, 60, 86_400, 86_400 * 365 * 300] {
                let cycles = frequency * seconds + 3;
                let off = exact(cycles) - u128::from(convert(cycles, multiplier));
                // The last bit of a multiplier.
                let most = 1 + (u128::from(cycles) >> POINT);
                assert!(off <= most, "{frequency} Hz, {seconds} s: {off} ns off, at most {most}");
            }
        }
    }

    #[test]
    fn slew_follows_a_rate_that_changes_by_100_ppm_without_going_back() {
        let (mut machine, mut estimator) = machine();
        let mut slot = ConversionSlot {
            base_cycles: machine.cycles,
            multiplier: estimator.multiplier,
            base_ns: machine.ns as u64,
        };
        follow(&mut machine, &mut estimator, &mut slot, 50);
        for change in [1.0001, 1.0 / 1.0001, 1.0 / 1.0001, 1.0001] {
            machine.ns_per_cycle *= change;
            // 250 ms until it is noticed: 25 us.
            let worst = follow(&mut machine, &mut estimator, &mut slot, 1);
            assert!(worst < 30_000, "{worst} ns");
            follow(&mut machine, &mut estimator, &mut slot, 12);
            let worst = follow(&mut machine, &mut estimator, &mut slot, 50);
            assert!(worst < 200, "{worst} ns");
        }
    }

    #[test]
    fn slew_of_a_slow_drift_stays_under_a_microsecond() {
        let (mut machine, mut estimator) = machine();
        let mut slot = ConversionSlot {
            base_cycles: machine.cycles,
            multiplier: estimator.multiplier,
            base_ns: machine.ns as u64,
        };
        follow(&mut machine, &mut estimator, &mut slot, 20);
        // 100 ppm in 100 steps of 1 ppm, each after half a second: as fast as NTP may.
        for _ in 0..100 {
            machine.ns_per_cycle *= 1.000_001;
            let worst = follow(&mut machine, &mut estimator, &mut slot, 3);
            assert!(worst < 1000, "{worst} ns");
        }
    }

    /// Gone on from with a horizon of 0.1 s, a slot that is 0.1 ms off would be 30 ms off after half a minute, and the
    /// next one 9 s.
    #[test]
    fn slew_of_a_tracer_without_a_cpu_goes_wrong_by_a_share_of_that_time_only() {
        let (mut machine, mut estimator) = machine();
        for begin in [-1e5, 1e5] {
            let mut slot = ConversionSlot {
                base_cycles: machine.cycles,
                multiplier: estimator.multiplier,
                base_ns: (machine.ns + begin) as u64,
            };
            let mut longest_ns = 0.0f64;
            for late_ns in [1e8, 3e10, 3e10, 1e8, 1e10, 3e10, 2.5e8, 6e10, 6e10, 1e8, 6e10] {
                let stood = slot.ns_at_or_above(machine.cycles).unwrap();
                let pair = machine.pass(late_ns);
                let stands = slot.ns_at_or_above(pair.cycles).unwrap();
                assert!(stands > stood, "went back from {stood} to {stands}");
                let off = (stands as f64 - pair.ns as f64).abs();
                longest_ns = longest_ns.max(late_ns);
                assert!(off < 2e5 + longest_ns / SLEW_SHARE as f64, "{off} ns after {late_ns}");
                estimator.add(machine.pair(0.0));
                let (next, seen) =
                    slew(slot, pair.cycles, pair.ns, estimator.multiplier, 100_000_000);
                assert!(seen.is_some());
                slot = next;
            }
        }
    }

    #[test]
    fn slew_of_a_slot_that_cannot_be_is_begun_anew() {
        let good = ConversionSlot { base_cycles: 1000, multiplier: 1 << 31, base_ns: 500 };
        let anew = ConversionSlot { base_cycles: 3000, multiplier: 1 << 31, base_ns: 1_000_000 };
        for bad in [
            ConversionSlot { multiplier: 0, ..good },
            ConversionSlot { multiplier: u64::MAX, ..good },
            ConversionSlot { multiplier: 1 << 20, ..good },
            ConversionSlot { base_cycles: 3001, ..good },
            ConversionSlot { base_ns: u64::MAX, ..good },
            ConversionSlot { base_ns: 1 << 60, ..good },
        ] {
            assert_eq!(slew(bad, 3000, 1_000_000, 1 << 31, 10_000_000), (anew, None), "{bad:?}");
        }
        let (slot, off) = slew(good, 3000, 1600, 1 << 31, 10_000_000);
        assert_eq!((slot.base_ns, off), (1500, Some(-100)));
        assert!(slot.multiplier > 1 << 31);
    }

    #[test]
    fn estimator_of_a_counter_that_stands_still_gives_nothing() {
        let pair = Pair { cycles: 5, ns: 5 };
        assert!(Estimator::new(pair, pair).is_none());
        assert!(Estimator::new(pair, Pair { cycles: 4, ns: 9 }).is_none());
        let mut estimator = Estimator::new(pair, Pair { cycles: 105, ns: 55 }).unwrap();
        let before = estimator.multiplier;
        // Restarted with the machine's suspend: goes on from there.
        estimator.add(Pair { cycles: 3, ns: 1000 });
        assert_eq!((estimator.multiplier, estimator.newest().ns), (before, 1000));
        estimator.add(Pair { cycles: 103, ns: 1050 });
        assert_eq!(estimator.multiplier, before);
    }

    #[test]
    fn why_not_says_what_was_found() {
        let text = WhyNot::Clocksource("hpet\n".into()).to_string();
        assert!(text.contains("hpet") && !text.contains('\n'), "{text}");
    }

    #[test]
    fn publish_without_a_counter_makes_processes_use_the_system_call() {
        let fake = Fake::new();
        let slot = offset_of!(user::Control, clock);
        fake.put_u64(slot + 8, 1 << 31);
        fake.put_u32(offset_of!(user::Control, clock_kind), user::CLOCK_TSC);
        let clock = Clock::without_counter(WhyNot::NotInvariant);
        assert_eq!(clock.kind(), &ClockKind::Vdso(WhyNot::NotInvariant));
        assert_eq!((clock.multiplier(), clock.convert(7)), (None, None));
        let app = fake.open();
        assert_eq!(Publisher::new(0).publish(app.memory(), &clock), REFRESH_LAST);
        assert_eq!(fake.u32(offset_of!(user::Control, clock_kind)), user::CLOCK_VDSO);
        assert_eq!(fake.u64(offset_of!(user::Control, clock_index)), 1);
        assert_eq!(fake.u64(slot + 32 + 8), 0);
        // Nobody takes it for the slot of this index.
        assert_ne!(fake.u64(slot + 32 + 24), 1);
    }

    #[test]
    fn publish_leaves_out_a_slot_that_somebody_has_finished_and_not_published() {
        let clock = Clock::new();
        if clock.kind() != &ClockKind::Tsc {
            return;
        }
        let fake = Fake::new();
        let slot = |index| Publisher::at(index) + offset_of!(user::ClockSlot, index);
        let index = || fake.u64(offset_of!(user::Control, clock_index));
        fake.put_u64(slot(1), 1);
        let app = fake.open();
        let mut publisher = Publisher::new(0);
        publisher.publish(app.memory(), &clock);
        assert_eq!((index(), fake.u64(slot(2))), (2, 2));
        publisher.publish(app.memory(), &clock);
        assert_eq!((index(), fake.u64(slot(3))), (3, 3));
    }

    #[test]
    fn publish_of_a_higher_session_leaves_it_to_the_lowest_one_alive() {
        let clock = Clock::new();
        if clock.kind() != &ClockKind::Tsc {
            return;
        }
        let fake = Fake::new();
        let app = fake.open();
        let slot = crate::attach::shared_memory::session(0);
        fake.put_u32(slot + offset_of!(user::Session, status), user::SESSION_ACTIVE);
        fake.put_u64(slot + offset_of!(user::Session, heartbeat_ns), Clock::monotonic_ns());
        let mut second = Publisher::new(1);
        assert_eq!(second.publish(app.memory(), &clock), REFRESH_LAST);
        assert_eq!(fake.u64(offset_of!(user::Control, clock_index)), 0);
        fake.put_u64(slot + offset_of!(user::Session, heartbeat_ns), 1);
        assert_eq!(second.publish(app.memory(), &clock), REFRESH_FIRST);
        assert_eq!(fake.u64(offset_of!(user::Control, clock_index)), 1);
    }

    /// Reads the clock as the runtime does.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn read(memory: &ProgramMemory) -> u64 {
        loop {
            let index = memory.u64(offset_of!(user::Control, clock_index));
            let before = index.load(Ordering::Acquire);
            let at = Publisher::at(before);
            let base = memory.u64(at).load(Ordering::Relaxed);
            let multiplier = memory.u64(at + 8).load(Ordering::Relaxed);
            let ns = memory.u64(at + 16).load(Ordering::Relaxed);
            let passed = cycles().saturating_sub(base);
            std::sync::atomic::fence(Ordering::Acquire);
            if index.load(Ordering::Relaxed) == before {
                return ns + convert(passed, multiplier);
            }
        }
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn published_clock_stays_within_a_microsecond_and_never_goes_back() {
        let clock = Clock::new();
        if clock.kind() != &ClockKind::Tsc {
            return;
        }
        let fake = Fake::new();
        let app = fake.open();
        let mut publisher = Publisher::new(0);
        let mut due = Instant::now();
        let mut wait = publisher.publish(app.memory(), &clock);
        due += wait;
        let mut late = Duration::ZERO;
        let (done, readings) = (AtomicBool::new(false), AtomicU64::new(0));
        let reader = || {
            let (mut last, mut errors) = (0, Vec::new());
            while !done.load(Ordering::Relaxed) {
                let before = Clock::monotonic_ns();
                let now = read(app.memory());
                let after = Clock::monotonic_ns();
                assert!(now >= last, "went back from {last} to {now}");
                last = now;
                readings.fetch_add(1, Ordering::Relaxed);
                // What lies between the two looks at the clock is right.
                errors.push(now.saturating_sub(after).max(before.saturating_sub(now)));
            }
            errors
        };
        let mut errors = std::thread::scope(|scope| {
            let reader = scope.spawn(reader);
            let begun = Instant::now();
            let are_few = || readings.load(Ordering::Relaxed) <= 1000 && !reader.is_finished();
            while begun.elapsed() < Duration::from_secs(4) || are_few() {
                std::thread::sleep(wait);
                let now = Instant::now();
                wait = publisher.publish(app.memory(), &clock);
                late = late.max(due.elapsed());
                due = now + wait;
                let index = fake.u64(offset_of!(user::Control, clock_index));
                assert_eq!(
                    fake.u64(Publisher::at(index) + offset_of!(user::ClockSlot, index)),
                    index
                );
            }
            done.store(true, Ordering::Relaxed);
            let errors = reader.join().unwrap();
            // Up to here it may have read the time, of what was published last.
            late = late.max(due.elapsed());
            errors
        });
        let read_count = readings.into_inner();
        errors.sort_unstable();
        let worst = errors.last().copied().unwrap();
        let median = errors[errors.len() / 2];
        eprintln!("{read_count} readings, beside the clock by at most {worst} ns, median {median}");
        // For each 100 ms that we came too late two microseconds more, twice what it is about: docs/design/user.md, U9.
        let limit = 1000 + u64::try_from(late.as_nanos()).unwrap() / 50_000;
        assert!(read_count > 1000 && worst < limit, "{worst} ns, {late:?} late");
    }
}
