//! Bounds a guest's clock by causality, in addition to questions and answers: a virtual CPU does nothing while its
//! thread has no CPU of the host. A record of the guest that cannot be from after such a time is from before it, and
//! vice versa. Each case gives a bound of the offset, which is combined with all others.
//!
//! ```text
//! host    ──── thread runs ────┤ c        d ├──── thread runs ────
//! guest      records:   .  .  a                b  .  .
//!                       offset ≤ c - a         offset ≥ d - b
//! ```
//!
//! If records of the host were discarded, it is not known when a thread ran, and no bounds follow.

use std::collections::BTreeMap;
use std::path::Path;

use strata_ctf::read::{Event, FieldRef, Message, Reader, TimeRange};
use strata_relay::{Bound, Known};

/// The largest trace of the host that is read again \[byte\].
const HOST_BYTES_MAX: u64 = 2 << 30;
/// The most times that are used for each virtual CPU: times of records, and intervals without a host CPU.
const TIMES_MAX: usize = 1 << 21;

/// The number of time slots into which the recording is divided. At most two bounds on the clock are used in each
/// slot.
const SLOTS: u64 = 2048;

/// Times of one virtual CPU: of its records, and of intervals without a host CPU.
#[derive(Debug, Default)]
struct VirtualCpuRuns {
    /// Times of the CPU's records, on the guest's clock \[ns\].
    records: Vec<u64>,
    /// Intervals without a host CPU, on the host's clock \[ns\].
    off: Vec<(u64, u64)>,
    /// Time since which the virtual CPU's thread has had no host CPU; `None` while it has one.
    since: Option<u64>,
}

/// The fields of a `sched_switch` record that name the threads.
struct SwitchThreads {
    prev: FieldRef,
    next: FieldRef,
}

/// For each virtual CPU, the times when it ran and the times of its records.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeMap<u32, VirtualCpuRuns>);

impl Seen {
    /// Reads the traces of the host's kernel and the guest's kernel, for these virtual CPUs and their threads. Returns
    /// `None` if the traces lack necessary data.
    pub(super) fn read(host: &Path, guest: &Path, cpus: &[(u32, i64)]) -> Option<Seen> {
        let bytes = |folder: &Path| -> u64 {
            let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
            files.filter_map(|file| file.metadata().ok()).map(|about| about.len()).sum()
        };
        if cpus.is_empty() || bytes(host) > HOST_BYTES_MAX || bytes(guest) > HOST_BYTES_MAX {
            return None;
        }
        let mut all: BTreeMap<u32, VirtualCpuRuns> = BTreeMap::new();
        cpus.iter().for_each(|(cpu, _)| drop(all.insert(*cpu, VirtualCpuRuns::default())));
        read_host(host, cpus, &mut all)?;
        read_guest(guest, &mut all)?;
        all.values_mut().for_each(|cpu| cpu.records.sort_unstable());
        Some(Seen(all))
    }

    /// Returns the bounds on the guest's clock that follow from the recorded times and from what is known of the
    /// clock.
    pub(super) fn bounds(&self, known: &Known) -> Vec<Bound> {
        thinned(self.0.values().flat_map(|cpu| cpu.bounds(known)).collect())
    }
}

/// Returns the tightest bounds of each time slot.
fn thinned(all: Vec<Bound>) -> Vec<Bound> {
    let first = all.iter().map(|bound| bound.at).min().unwrap_or(0);
    let last = all.iter().map(|bound| bound.at).max().unwrap_or(0);
    let width = (last - first) / SLOTS + 1;
    let mut best: BTreeMap<(u64, bool), Bound> = BTreeMap::new();
    for bound in all {
        let of = best.entry(((bound.at - first) / width, bound.low.is_some())).or_insert(bound);
        let is_better = match (bound.low, bound.high) {
            (Some(low), _) => of.low.is_none_or(|known| low > known),
            (None, high) => high.is_some_and(|high| of.high.is_none_or(|known| high < known)),
        };
        if is_better {
            *of = bound;
        }
    }
    best.into_values().collect()
}

/// Reads from the host's trace when the threads of virtual CPUs ran; `None` if the trace does not show it.
fn read_host(
    folder: &Path,
    cpus: &[(u32, i64)],
    all: &mut BTreeMap<u32, VirtualCpuRuns>,
) -> Option<()> {
    let reader = Reader::open(&[folder]).ok()?;
    let mut switches: BTreeMap<usize, Option<SwitchThreads>> = BTreeMap::new();
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        let event = match message {
            Message::Event(event) => event,
            Message::Discarded(_) => return None,
            Message::Damage(damage) if !damage.is_remark() => return None,
            Message::Damage(_) | Message::Packet(_) => continue,
        };
        let class = switches.entry(event.class().index()).or_insert_with(|| switch(&event));
        let (Some(class), Some(at)) = (class, event.cycles()) else { continue };
        let (prev, next) = (event.integer(&class.prev), event.integer(&class.next));
        for (cpu, tid) in cpus {
            let Some(cpu) = all.get_mut(cpu) else { continue };
            if prev == Some(*tid) {
                cpu.since = Some(at);
            } else if next == Some(*tid) {
                let since = cpu.since.take().filter(|_| cpu.off.len() < TIMES_MAX);
                cpu.off.extend(since.map(|since| (since, at)));
            }
        }
    }
    Some(())
}

fn switch(event: &Event<'_>) -> Option<SwitchThreads> {
    let class = event.class();
    if class.name() != "sched_switch" {
        return None;
    }
    Some(SwitchThreads { prev: class.find("prev_tid")?, next: class.find("next_tid")? })
}

fn read_guest(folder: &Path, all: &mut BTreeMap<u32, VirtualCpuRuns>) -> Option<()> {
    let reader = Reader::open(&[folder]).ok()?;
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        let Message::Event(event) = message else { continue };
        // A stream that belongs to no CPU has another stream id than any CPU, although its packets name CPU 0.
        let cpu = event.packet().cpu.filter(|cpu| event.stream().id() == Some(*cpu));
        let cpu = cpu.and_then(|cpu| u32::try_from(cpu).ok());
        let cpu = cpu.and_then(|cpu| all.get_mut(&cpu));
        if let (Some(cpu), Some(at)) = (cpu, event.cycles()) {
            if cpu.records.len() < TIMES_MAX {
                cpu.records.push(at);
            }
        }
    }
    Some(())
}

impl VirtualCpuRuns {
    fn bounds(&self, known: &Known) -> Vec<Bound> {
        let host_ns = |at: u64| known.host_ns(at).unwrap_or((i128::MIN, i128::MAX));
        let mut found = Vec::new();
        for &(begin, end) in &self.off {
            // Records that were surely not after the interval were before it. The last of them gives the tightest
            // bound.
            let before = self.records.partition_point(|at| host_ns(*at).1 < i128::from(end));
            if let Some(&at) = before.checked_sub(1).and_then(|at| self.records.get(at)) {
                if i128::from(begin) < host_ns(at).1 {
                    found.push(Bound { at, low: None, high: difference(begin, at) });
                }
            }
            let behind = self.records.partition_point(|at| host_ns(*at).0 <= i128::from(begin));
            if let Some(&at) = self.records.get(behind) {
                if i128::from(end) > host_ns(at).0 {
                    found.push(Bound { at, low: difference(end, at), high: None });
                }
            }
        }
        found
    }
}

fn difference(host: u64, guest: u64) -> Option<i64> {
    i64::try_from(i128::from(host) - i128::from(guest)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_relay::{Bounds, Exchange};

    use crate::output::describe::{new_uuid, of_kernel, stream_class, Machine};
    use crate::scratch_tests::Scratch;
    use strata_collect::{Body, Directory, Files, Sink};
    use strata_ctf::environment::Whole;
    use strata_ctf::metadata::{self, Version};
    use strata_ctf::packet::Header;
    use strata_model::{EventClass, LossMode};

    const BEHIND: i64 = 5_000_000;

    /// Returns the knowledge of a clock after one question: a bound of 300 us that is 200 us off.
    fn known() -> Known {
        let mut bounds = Bounds::default();
        let (asked, answered) = (11_900_000, 12_500_000);
        let received = 12_000_000 - BEHIND as u64;
        bounds.add(&Exchange { asked, received, sent: received, answered });
        Known::of(&bounds.epochs()[0])
    }

    fn cpu(records: &[u64], off: &[(u64, u64)]) -> VirtualCpuRuns {
        // By the host's clock, as they were.
        let records = records.iter().map(|at| at - BEHIND as u64).collect();
        VirtualCpuRuns { records, off: off.to_vec(), since: None }
    }

    #[test]
    fn records_around_a_time_without_a_cpu_bound_the_offset_to_both_sides() {
        let records = [10_000_000, 10_990_000, 13_020_000, 14_000_000];
        let found = cpu(&records, &[(11_000_000, 13_000_000)]).bounds(&known());
        let (before, behind) = (10_990_000 - BEHIND as u64, 13_020_000 - BEHIND as u64);
        let expected = [
            Bound { at: before, low: None, high: Some(BEHIND + 10_000) },
            Bound { at: behind, low: Some(BEHIND - 20_000), high: None },
        ];
        assert_eq!(found, expected);
        // The truth is in both.
        let (low, high) = (found[1].low.unwrap(), found[0].high.unwrap());
        assert!(low <= BEHIND && BEHIND <= high);
    }

    #[test]
    fn stream_that_is_no_cpu_s_does_not_say_when_a_virtual_cpu_ran() {
        let scratch = Scratch::new("guest-no-cpu");
        let path = scratch.0.join("kernel");
        let mut files = Files::new(Directory::create(&path).unwrap(), "channel0");
        let event = EventClass { id: 1, name: "there".into(), ..EventClass::default() };
        let machine = Machine::new(LossMode::Discard, Version::One);
        let class = stream_class(of_kernel(), vec![event]);
        let uuid = new_uuid().unwrap();
        let trace = machine.kernel_trace(uuid, "", false, Whole::default(), class);
        files.set_metadata(&metadata::write(&trace)).unwrap();
        // The header of a record that has its whole time.
        let body = |at: u64| [&[255, 255, 1, 0, 0, 0][..], &at.to_ne_bytes()].concat();
        let packet = |cpu_id, stream_instance: u32, at| {
            let header = Header {
                uuid,
                cpu_id,
                stream_instance: stream_instance.into(),
                timestamp_begin: at,
                timestamp_end: at,
                ..Header::default()
            };
            (stream_instance, header.with_content_bytes(14), body(at))
        };
        for (stream, header, body) in [packet(0, 0, 1000), packet(1, 1, 2000), packet(0, 5, 3000)] {
            files.append(stream, header, &Body::Bytes(&body)).unwrap();
        }
        let (_, header, body) = packet(0, 4, 4000);
        files.set_stream("statedump_0", &header.encode(), &body).unwrap();
        let mut all: BTreeMap<u32, VirtualCpuRuns> = BTreeMap::new();
        for cpu in [0, 1, 5] {
            all.insert(cpu, VirtualCpuRuns::default());
        }
        read_guest(&path, &mut all).unwrap();
        let found: Vec<_> = all.iter().map(|(cpu, one)| (*cpu, one.records.clone())).collect();
        assert_eq!(found, [(0, vec![1000]), (1, vec![2000]), (5, vec![])]);
    }

    #[test]
    fn of_many_bounds_those_stay_that_say_most_wherever_they_are() {
        let bounds = |at: u64| {
            let wide = i64::try_from(at % 7).unwrap();
            [Bound { at, low: None, high: Some(wide) }, Bound { at, low: Some(-wide), high: None }]
        };
        let all: Vec<Bound> = (0..100_000).flat_map(bounds).collect();
        let found = thinned(all);
        assert!((4000..=4096).contains(&found.len()), "{}", found.len());
        assert!(found.iter().all(|one| one.low.or(one.high) == Some(0)), "{found:?}");
        assert!(found.iter().any(|one| one.at > 99_900) && found.iter().any(|one| one.at < 100));
        assert_eq!(thinned(Vec::new()), []);
    }

    #[test]
    fn time_that_is_shorter_than_the_clock_is_known_says_nothing() {
        let records = [10_900_000, 11_520_000];
        assert_eq!(cpu(&records, &[(11_000_000, 11_080_000)]).bounds(&known()), []);
        assert_eq!(cpu(&[], &[(11_000_000, 13_000_000)]).bounds(&known()), []);
        let none: [(u64, u64); 0] = [];
        assert_eq!(cpu(&records, &none).bounds(&known()), []);
    }
}
