//! Who has which CPU, as the switches tell it that were exported, and who stands for those that no record tells.

use super::tracks::MachineNumber;

/// Numbers of threads that are not known begin here, one for each CPU; those of Linux end below.
const UNKNOWN: i32 = 1 << 22;
/// What they are called, and their process.
pub(super) const NAME: &str = "unknown";
/// The state of a thread of which no record says why it has left a CPU: bits that no kernel has, which readers show as
/// unknown. Those that do not know the kernel's release take the lowest bit for a sleep.
pub(super) const NO_STATE: i64 = 0x8001;

/// The process of the threads that are not known.
pub(super) const UNKNOWN_PROCESS: i32 = UNKNOWN;

/// The thread that stands for whoever has a CPU, by the number of that as it is exported.
pub(super) fn unknown(cpu: u32) -> i32 {
    i32::try_from(cpu).ok().and_then(|cpu| (UNKNOWN + 1).checked_add(cpu)).unwrap_or(i32::MAX)
}

/// A CPU that was given to somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GivenCpu {
    /// The machine, and the CPU there.
    pub place: (MachineNumber, u32),
    /// The thread's number as it is exported; 0: it is idle.
    pub pid: i32,
    /// Since when it has the CPU \[ns, as exported\].
    pub since: u64,
}

/// All CPUs.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// By their numbers as they are exported, of which the format has few.
    cpus: Vec<Option<GivenCpu>>,
    /// Those that nobody knows who has.
    unknown: usize,
    /// The same: that its thread that is not known has been described.
    described: Vec<bool>,
}

impl Runs {
    /// Who has it; `None`: no switch of it was exported, or one was left out since.
    #[inline]
    pub(super) fn get(&self, cpu: u32) -> Option<GivenCpu> {
        self.cpus.get(usize::try_from(cpu).ok()?).copied().flatten()
    }

    /// From now on that is known, or not any more.
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

    /// Whether there is a CPU that nobody knows who has.
    #[inline]
    pub(super) fn has_unknown(&self) -> bool {
        self.unknown > 0
    }

    /// Whether the CPU's thread that is not known is still to be described, which is so once.
    pub(super) fn describe(&mut self, cpu: u32) -> bool {
        let Ok(at) = usize::try_from(cpu) else { return false };
        if self.described.len() <= at {
            self.described.resize(at + 1, false);
        }
        self.described.get_mut(at).is_some_and(|it| !std::mem::replace(it, true))
    }

    /// All CPUs of which that is known, with their numbers.
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
