//! Derives the offset between the clocks of host and guest from KVM: the guest's counter is the host's plus a number,
//! which the kernel shows in debugfs. With a pair of counter and clock readings on each side, the offset is known up to
//! the time that such a reading takes, however slow the channel is.
//!
//! The data may be wrong, since a machine may run within another one, and a guest may send anything: an offset outside
//! of the bounds from question and answer is not used.

use std::path::{Path, PathBuf};

use strata_relay::{CounterPair, Exchange};

use super::kvm;

/// The least time between two [`CounterPair`]s of the host from which the rate of the host's counter is computed
/// \[ns\]. Over a shorter time the rate would be inaccurate.
const RATE_NS: u64 = 100_000_000;
/// The greatest difference between the rate of the host's counter over a short time and its average [parts per
/// million].
const RATE_PPM: u128 = 1000;
/// The greatest age of a guest's [`CounterPair`] (its counter and its clock, read together) with which an offset is
/// computed \[ns\].
const OLD_NS: u128 = 10_000_000_000;

/// Computes the exact clock offset of one guest.
#[derive(Debug)]
pub(super) struct Exact {
    /// The machine's folder in KVM's debugfs.
    folder: PathBuf,
    /// The first pair of counter and clock that was read on the host.
    first: CounterPair,
    /// Number of offsets computed so far.
    pub(super) taken: u64,
}

impl Exact {
    /// Finds the machine that this process runs; `None` if KVM does not show it.
    pub(super) fn of(pid: u32, first: CounterPair) -> Option<Exact> {
        Exact::below(Path::new(kvm::DEBUGFS), pid, first)
    }

    fn below(debugfs: &Path, pid: u32, first: CounterPair) -> Option<Exact> {
        let exact = Exact { folder: kvm::machine(debugfs, pid)?, first, taken: 0 };
        exact.offset().is_some().then_some(exact)
    }

    /// Returns the guest's counter minus the host's; `None` unless it is the same for all virtual CPUs, with the same
    /// rate as the host's.
    fn offset(&self) -> Option<i64> {
        let mut found = None;
        for (_, cpu) in kvm::virtual_cpus(&self.folder) {
            let number = |name| kvm::number(&cpu, name);
            let scaled = number("tsc-scaling-ratio").zip(number("tsc-scaling-ratio-frac-bits"));
            let is_plain = scaled.is_none_or(|(ratio, bits)| {
                u32::try_from(bits).ok().and_then(|bits| 1_i64.checked_shl(bits)) == Some(ratio)
            });
            let offset = number("tsc-offset").filter(|_| is_plain)?;
            if found.is_some_and(|found| found != offset) {
                return None;
            }
            found = Some(offset);
        }
        found
    }

    /// Returns a refined version of an answer about the guest's time: computed from the guest's pair of counter and
    /// clock, and from the host's pair, which was read when the answer arrived. `None` if that is not possible.
    pub(super) fn exchange(
        &mut self,
        asked: &Exchange,
        guest: CounterPair,
        host: CounterPair,
    ) -> Option<Exchange> {
        let exact = self.exchange_by(self.offset()?, asked, guest, host)?;
        self.taken += 1;
        Some(exact)
    }

    fn exchange_by(
        &self,
        offset: i64,
        asked: &Exchange,
        guest: CounterPair,
        host: CounterPair,
    ) -> Option<Exchange> {
        if guest == CounterPair::default() || !(asked.received..=asked.sent).contains(&guest.at_ns)
        {
            return None;
        }
        // The number of ticks of the host's counter from reading the guest's clock to reading the host's.
        let begin = guest.before.wrapping_sub(offset as u64);
        let end = guest.behind.wrapping_sub(offset as u64);
        let least = host.before.checked_sub(end)?;
        let most = host.behind.checked_sub(begin).filter(|most| *most >= least)?;
        let since_ns = host.at_ns.checked_sub(self.first.at_ns).filter(|ns| *ns >= RATE_NS)?;
        let ticks = host.before.checked_sub(self.first.behind).filter(|ticks| *ticks > 0)?;
        let ns = |ticks_of: u64| u128::from(ticks_of) * u128::from(since_ns) / u128::from(ticks);
        let (least, most) = (ns(least), ns(most));
        if most > OLD_NS {
            return None;
        }
        let (least, most) =
            (least - least * RATE_PPM / 1_000_000, most + most * RATE_PPM / 1_000_000 + 1);
        let back = |by: u128| u64::try_from(by).ok().and_then(|by| host.at_ns.checked_sub(by));
        let (low, high) = (back(most)?, back(least)?);
        // The result must lie between question and answer; otherwise it is wrong.
        if high < asked.asked || low > asked.answered {
            return None;
        }
        Some(Exchange {
            asked: low.max(asked.asked),
            received: guest.at_ns,
            sent: guest.at_ns,
            answered: high.min(asked.answered),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::scratch_tests::Scratch;

    const FIRST: CounterPair = CounterPair { before: 1_000, at_ns: 500, behind: 1_060 };
    /// Rate of the counters \[ticks per ns\].
    const RATE: u64 = 3;
    const OFFSET: i64 = -7_000_000_000;
    /// Delay of the guest's clock behind the host's \[ns\].
    const BEHIND: u64 = 40_000;

    fn debugfs(scratch: &Scratch, pid: u32, cpus: &[&[(&str, &str)]]) -> PathBuf {
        let folder = scratch.0.join(format!("{pid}-11"));
        for (at, files) in cpus.iter().enumerate() {
            let cpu = folder.join(format!("vcpu{at}"));
            fs::create_dir_all(&cpu).unwrap();
            files.iter().for_each(|(name, text)| fs::write(cpu.join(name), text).unwrap());
        }
        scratch.0.clone()
    }

    fn pair(ns: u64, offset: i64, behind: u64) -> CounterPair {
        let before = (1_000 + (ns - 500) * RATE).wrapping_add(offset as u64);
        CounterPair { before, at_ns: ns + 10 - behind, behind: before.wrapping_add(60) }
    }

    /// Returns a question asked at 1 s, with the guest's pair from 40 us later and the host's pair; the answer took 5
    /// ms.
    fn asked() -> (Exchange, CounterPair, CounterPair) {
        let at = 1_000_040_000;
        let guest = pair(at, OFFSET, BEHIND);
        let exchange = Exchange {
            asked: 1_000_000_000,
            received: guest.at_ns - 100,
            sent: guest.at_ns + 100,
            answered: at + 5_000_000,
        };
        (exchange, guest, pair(at + 5_000_000, 0, 0))
    }

    #[test]
    fn offset_that_kvm_tells_bounds_an_answer_however_long_it_took() {
        let scratch = Scratch::new("exact");
        let one = [
            ("tsc-offset", "-7000000000\n"),
            ("tsc-scaling-ratio", "281474976710656\n"),
            ("tsc-scaling-ratio-frac-bits", "48\n"),
        ];
        let root = debugfs(&scratch, 42, &[&one, &one]);
        let mut exact = Exact::below(&root, 42, FIRST).unwrap();
        let (question, guest, host) = asked();
        let found = exact.exchange(&question, guest, host).unwrap();
        let truth = 1_000_040_010;
        assert!(found.asked <= truth && truth <= found.answered, "{found:?}");
        assert_eq!((found.received, found.sent), (guest.at_ns, guest.at_ns));
        // 5 ms at a rate that is known to 1000 ppm, which is a tenth of a percent of the question's.
        assert!(found.answered - found.asked < 11_000, "{found:?}");
        assert_eq!(exact.taken, 1);
        // Another machine's process, and one that has two.
        assert!(Exact::below(&root, 4, FIRST).is_none());
        fs::create_dir(root.join("42-12")).unwrap();
        assert!(Exact::below(&root, 42, FIRST).is_none());
    }

    #[test]
    fn what_kvm_does_not_tell_of_all_virtual_cpus_alike_is_not_taken() {
        let plain = [("tsc-offset", "-7000000000")];
        let other = [("tsc-offset", "-6999999999")];
        let scaled = [
            ("tsc-offset", "-7000000000"),
            ("tsc-scaling-ratio", "281474976710657"),
            ("tsc-scaling-ratio-frac-bits", "48"),
        ];
        let odd = [
            ("tsc-offset", "1"),
            ("tsc-scaling-ratio", "0"),
            ("tsc-scaling-ratio-frac-bits", "9999999999"),
        ];
        let none: [(&str, &str); 0] = [];
        let cases: [&[&[(&str, &str)]]; 5] =
            [&[], &[&plain, &other], &[&scaled], &[&odd], &[&plain, &none]];
        for (at, cpus) in cases.into_iter().enumerate() {
            let scratch = Scratch::new(&format!("exact-{at}"));
            let root = debugfs(&scratch, 7, cpus);
            assert!(Exact::below(&root, 7, FIRST).is_none(), "{cpus:?}");
        }
        assert!(Exact::below(Path::new("/nonexistent"), 7, FIRST).is_none());
    }

    #[test]
    fn malicious_pairs_are_no_exchange() {
        let exact = Exact { folder: PathBuf::new(), first: FIRST, taken: 0 };
        let (question, guest, host) = asked();
        let by = |offset, guest, host| exact.exchange_by(offset, &question, guest, host);
        assert!(by(OFFSET, guest, host).is_some());
        let all = u64::MAX;
        for (offset, guest, host) in [
            (OFFSET, CounterPair::default(), host),
            (OFFSET, CounterPair { at_ns: question.sent + 1, ..guest }, host),
            (OFFSET, CounterPair { before: all, behind: all, ..guest }, host),
            (
                OFFSET,
                CounterPair {
                    before: guest.behind,
                    behind: guest.before.wrapping_sub(1 << 40),
                    ..guest
                },
                host,
            ),
            // Ten seconds, and a second, beside the question.
            (OFFSET + 30_000_000_000, guest, host),
            (OFFSET + 3_000_000_000, guest, host),
            (i64::MIN, guest, host),
            (i64::MAX, guest, host),
            // The host's own are too close to say a rate.
            (OFFSET, guest, FIRST),
        ] {
            assert_eq!(by(offset, guest, host), None, "{offset} {guest:?} {host:?}");
        }
    }
}
