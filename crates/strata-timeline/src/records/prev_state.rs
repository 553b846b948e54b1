//! Decodes `prev_state` of `sched_switch`: the state in which a thread leaves a CPU. Its bits differ in older kernels.
//!
//! | bit | before Linux 4.14 | since |
//! |---|---|---|
//! | 0x1, 0x2 | sleeps; sleeps uninterruptibly | the same |
//! | 0x4, 0x8 | stopped; traced | the same |
//! | 0x10, 0x20 | dead and zombie, in either order (3.14 has swapped them) | the same |
//! | 0x40 | dead: the last switch of each thread | parked |
//! | 0x80 | a fatal signal wakes it, too | idle |
//! | 0x100 | on its way to be woken | runnable: another thread took its CPU |
//! | 0x200 | parked | |
//! | 0x400 | does not count as load, with 0x2: idle (since 4.2) | |
//! | the highest | runnable: another thread took its CPU | |
//!
//! Since 4.14 the kernel computes the number for its readers (`task_state_index`, `TASK_REPORT_MAX`); before, it is the
//! thread's own state. LTTng, perf and trace-cmd record it unchanged.

use crate::world::state::Sleep;

const INTERRUPTIBLE: i64 = 1;
const UNINTERRUPTIBLE: i64 = 2;
const STOPPED: i64 = 4 | 8;
const DEAD: i64 = 16 | 32;
const DEAD_OR_PARKED: i64 = 64;
const IDLE: i64 = 128;
/// The bits of `prev_state` that mean that the thread no longer wants the CPU. A thread with only higher bits is
/// runnable.
const LEAVES: i64 = 255;
const OLD_PARKED: i64 = 0x200;
const OLD_NO_LOAD: i64 = 0x400;
/// The first kernel version with the present state numbers.
const TODAY: (u32, u32) = (4, 14);

/// The meaning of the bits of `prev_state` in a trace, which depends on its kernel's version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StateNumbers {
    /// The version of the trace's kernel is not known.
    #[default]
    NotSaid,
    /// A kernel before 4.14.
    Old,
    /// Linux 4.14 or later.
    New,
}

impl StateNumbers {
    /// Returns the meaning for a kernel's release, such as `4.4.3-1-ARCH`.
    pub(crate) fn of_release(release: &str) -> StateNumbers {
        let mut numbers =
            release.split(|digit: char| !digit.is_ascii_digit()).map(str::parse::<u32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < TODAY => StateNumbers::Old,
            (Some(Ok(_)), Some(Ok(_))) => StateNumbers::New,
            _ => StateNumbers::NotSaid,
        }
    }
}

/// The state in which a thread leaves a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// The thread could have continued, but another one got its CPU.
    Runnable,
    /// The thread waits for something.
    Asleep(Sleep),
    /// The thread has ended.
    Gone,
}

impl Departure {
    /// Decodes the bits of `prev_state`. `is_exiting` says that a record has reported the thread's end, which
    /// distinguishes dead from parked.
    pub(crate) fn of(bits: i64, numbers: StateNumbers, is_exiting: bool) -> Departure {
        let is_old = numbers == StateNumbers::Old;
        // A thread that ends is never parked.
        let is_dead = bits & DEAD != 0 || bits & DEAD_OR_PARKED != 0 && (is_old || is_exiting);
        let is_idle = match is_old {
            true => bits & UNINTERRUPTIBLE != 0 && bits & OLD_NO_LOAD != 0,
            false => bits & IDLE != 0,
        };
        match bits {
            _ if is_old && bits & OLD_PARKED != 0 => Departure::Asleep(Sleep::Other),
            _ if bits & LEAVES == 0 => Departure::Runnable,
            _ if is_dead => Departure::Gone,
            _ if is_idle => Departure::Asleep(Sleep::Idle),
            _ if bits & UNINTERRUPTIBLE != 0 => Departure::Asleep(Sleep::Uninterruptible),
            _ if bits & INTERRUPTIBLE != 0 => Departure::Asleep(Sleep::Interruptible),
            _ if bits & STOPPED != 0 => Departure::Asleep(Sleep::Stopped),
            _ => Departure::Asleep(Sleep::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_64_is_the_end_of_a_thread_before_4_14_and_parked_since() {
        let of = |bits, release: &str, exiting| {
            Departure::of(bits, StateNumbers::of_release(release), exiting)
        };
        for release in ["2.6.38", "3.6.11-1-ARCH", "3.10.31-ltsi", "4.4.3-1-ARCH", "4.13.0"] {
            assert_eq!(of(64, release, false), Departure::Gone, "{release}");
            assert_eq!(of(0x402, release, false), Departure::Asleep(Sleep::Idle), "{release}");
            assert_eq!(of(0x82, release, false), Departure::Asleep(Sleep::Uninterruptible));
            assert_eq!(of(0x200, release, false), Departure::Asleep(Sleep::Other));
            assert_eq!(of(0x800, release, false), Departure::Runnable);
        }
        for release in ["4.14.0", "5.4.0-42-generic", "6.18.44", "10.0", "", "custom"] {
            assert_eq!(of(64, release, false), Departure::Asleep(Sleep::Other), "{release}");
            assert_eq!(of(64, release, true), Departure::Gone, "{release}");
            assert_eq!(of(128, release, false), Departure::Asleep(Sleep::Idle), "{release}");
            assert_eq!(of(0x100, release, true), Departure::Runnable, "{release}");
        }
        // One that ends may still wait, and be stopped by its debugger.
        for (bits, sleep) in
            [(1, Sleep::Interruptible), (2, Sleep::Uninterruptible), (8, Sleep::Stopped)]
        {
            assert_eq!(of(bits, "4.4.0", true), Departure::Asleep(sleep));
        }
    }
}
