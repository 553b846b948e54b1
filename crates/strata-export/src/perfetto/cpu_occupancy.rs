//! The thread that has each CPU, according to the exported switches, and stand-ins for unknown threads.

use super::tracks::MachineNumber;

/// The number of the process to which placeholder threads belong. A placeholder stands for the unknown thread of one
/// CPU, and has a number after this one; Linux only uses lower numbers.
const UNKNOWN: i32 = 1 << 22;
/// The name of the placeholder threads, and of their process.
pub(super) const NAME: &str = "unknown";
/// The state of a thread of which it is not known why it left its CPU. No kernel uses these bits, so readers
/// show it as unknown. Readers that do not know the kernel's release take the lowest bit for a sleep.
pub(super) const NO_STATE: i64 = 0x8001;

/// The process to which the placeholder threads belong.
pub(super) const UNKNOWN_PROCESS: i32 = UNKNOWN;

/// Returns the number of a CPU's placeholder thread, which stands for the unknown thread that the CPU runs. The CPU
/// is given by its exported number.
pub(super) fn unknown(cpu: u32) -> i32 {
    i32::try_from(cpu).ok().and_then(|cpu| (UNKNOWN + 1).checked_add(cpu)).unwrap_or(i32::MAX)
}

/// The thread that has a CPU, and the time since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GivenCpu {
    /// The machine and the CPU's number there.
    pub place: (MachineNumber, u32),
    /// The exported number of the thread; 0: the CPU is idle.
    pub pid: i32,
    /// The exported time from which the thread has the CPU \[ns\].
    pub since: u64,
}

/// The state of all CPUs.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// The CPUs, by their exported numbers; the format has few.
    cpus: Vec<Option<GivenCpu>>,
    /// The number of CPUs whose thread is unknown now, so that a placeholder thread has them.
    unknown: usize,
    /// True for each CPU whose placeholder thread already has a name in the output.
    described: Vec<bool>,
}

impl Runs {
    /// Returns the thread that has a CPU; `None` if no switch was exported, or one was left out later.
    #[inline]
    pub(super) fn get(&self, cpu: u32) -> Option<GivenCpu> {
        self.cpus.get(usize::try_from(cpu).ok()?).copied().flatten()
    }

    /// Sets the thread that has a CPU; `None` if it is unknown.
    #[inline]
    pub(super) fn set(&mut self, cpu: u32, given: Option<GivenCpu>) {
        let Ok(at) = usize::try_from(cpu) else { return };
        if self.cpus.len() <= at {
            self.cpus.resize(at + 1, None);
        }
        let Some(slot) = self.cpus.get_mut(at) else { return };
        let is_unknown = |given: &Option<GivenCpu>| given.is_some_and(|it| it.pid == unknown(cpu));
        self.unknown += usize::from(is_unknown(&given));
        self.unknown -= usize::from(is_unknown(slot));
        *slot = given;
    }

    /// Returns true if the thread of any CPU is unknown now.
    #[inline]
    pub(super) fn has_unknown(&self) -> bool {
        self.unknown > 0
    }

    /// Returns true at the first call for a CPU. The caller must then write the name of its placeholder thread.
    pub(super) fn describe(&mut self, cpu: u32) -> bool {
        let Ok(at) = usize::try_from(cpu) else { return false };
        if self.described.len() <= at {
            self.described.resize(at + 1, false);
        }
        self.described.get_mut(at).is_some_and(|it| !std::mem::replace(it, true))
    }

    /// Returns the CPUs whose thread is known, by their exported numbers.
    pub(super) fn all(&self) -> Vec<(u32, GivenCpu)> {
        let given = (0..).zip(&self.cpus);
        given.filter_map(|(cpu, given)| Some((cpu, (*given)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_nobody_knows_who_has_are_counted_until_somebody_has_them() {
        let mut runs = Runs::default();
        let given = |pid| Some(GivenCpu { place: (0, 1), pid, since: 5 });
        assert_eq!((runs.get(1), runs.has_unknown()), (None, false));
        runs.set(1, given(7));
        runs.set(3, given(unknown(1)));
        assert!(!runs.has_unknown(), "that of another CPU is a thread like any other");
        runs.set(1, given(unknown(1)));
        runs.set(1, given(unknown(1)));
        runs.set(0, given(unknown(0)));
        assert_eq!((runs.has_unknown(), runs.all().len()), (true, 3));
        runs.set(1, given(0));
        assert!(runs.has_unknown());
        runs.set(0, None);
        assert_eq!((runs.has_unknown(), runs.get(0), runs.get(1)), (false, None, given(0)));
        assert_eq!(runs.all().iter().map(|(cpu, _)| *cpu).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn threads_that_are_not_known_have_numbers_that_no_thread_of_linux_has() {
        let numbers: Vec<i32> = (0..1024).map(unknown).collect();
        // A second machine's begin at 2^23.
        assert!(numbers.iter().all(|&pid| pid > UNKNOWN_PROCESS && pid < 1 << 23));
        assert!(numbers.is_sorted() && numbers.windows(2).all(|two| two[0] != two[1]));
        assert_eq!(unknown(u32::MAX), i32::MAX);
        let mut runs = Runs::default();
        assert_eq!([3, 3, 0, 3].map(|cpu| runs.describe(cpu)), [true, false, true, false]);
    }
}
