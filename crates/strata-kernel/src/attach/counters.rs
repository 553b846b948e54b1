//! Counters of a session: one perf event for each counter and CPU, which counts everything that runs there. Programs
//! read them through a map.
//!
//! If a persistent session's process is killed, its counters stay in the map and continue. The adopting process
//! replaces them by its own, since it cannot read the values of others; so these begin at 0.

use crate::attach::resource_limits::Limits;
use crate::decide::contexts::Contexts;
use crate::discover::counter_names::{everywhere, Counter};
use crate::discover::cpus::{self, online, CpuWatch, OfCpus};
use crate::error::{Error, Refusal};
use crate::persist::pins::info;
use libbpf_sys::{self as sys, perf_event_attr, PERF_FORMAT_TOTAL_TIME_ENABLED};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strata_abi::kernel::COUNTERS;

/// The hardware and software counters (perf) that a session records, each at its place in the programs' map.
#[derive(Debug, Default)]
pub(crate) struct PlacedCounters {
    places: Vec<Counter>,
    counting: Arc<Mutex<OpenedCounters>>,
    /// Thread that opens the counters on new CPUs.
    watch: Option<CpuWatch>,
}

#[derive(Debug, Default)]
struct OpenedCounters {
    map: Option<OwnedFd>,
    /// Counters at their places; the last ones may not be opened yet.
    all: Vec<OpenedCounter>,
    /// Index of the counter for which the next call of `look` checks whether it has stopped.
    asked: usize,
}

#[derive(Debug)]
struct OpenedCounter {
    counter: Counter,
    of_cpus: OfCpus<OwnedFd>,
    is_put: bool,
}

impl PlacedCounters {
    /// Gives each counter a place, unless it has one. Returns the contexts with their counters at these places.
    ///
    /// # Errors
    /// [`Error::TooManyCounters`].
    pub(crate) fn place(&mut self, contexts: &Contexts) -> Result<Contexts, Error> {
        for counter in contexts.counters() {
            if !self.places.contains(counter) {
                self.places.push(counter.clone());
            }
        }
        match self.places.len() {
            found if found > COUNTERS as usize => Err(Error::TooManyCounters { found }),
            _ => Ok(contexts.placed(&self.places)),
        }
    }

    /// Returns the counters by their places.
    pub(crate) fn places(&self) -> &[Counter] {
        &self.places
    }

    /// Returns the number of open files that the counters need: one for each counter and CPU, also CPUs on which this
    /// process may not run.
    pub(crate) fn files(&self) -> usize {
        self.places.len() * online().map_or(1, |cpus| cpus.len())
    }

    /// Opens all counters that have a place; they count from now on.
    ///
    /// # Errors
    /// [`Error::Counter`] if this machine does not have the counter, or cannot count it at present.
    pub(crate) fn open(&mut self, limits: &Limits) -> Result<(), Error> {
        self.open_all(limits, true)
    }

    /// Opens the counters that replace those of a killed session. The processor may not have enough counters until the
    /// old ones are closed, so a counter that cannot count yet is retried.
    ///
    /// # Errors
    /// As for [`PlacedCounters::open`].
    pub(crate) fn open_instead(
        &mut self,
        map: BorrowedFd<'_>,
        limits: &Limits,
    ) -> Result<(), Error> {
        let found: io::Result<sys::bpf_map_info> = info(map);
        let found = found.map_err(|error| failed(&error))?;
        (0..found.max_entries).for_each(|at| remove(map, at));
        self.open_all(limits, false)
    }

    fn open_all(&mut self, limits: &Limits, must_count: bool) -> Result<(), Error> {
        let mut counting = lock(&self.counting);
        for counter in &self.places[counting.all.len()..] {
            let mut last = 0;
            let of_cpus = OfCpus::make(|cpu| {
                last = cpu;
                let event = open(counter, cpu)?;
                match !must_count || counts(&event)? {
                    true => Ok(event),
                    false => Err(io::Error::from_raw_os_error(libc::EBUSY)),
                }
            });
            let of_cpus = of_cpus.map_err(|error| Error::Counter {
                name: counter.name().to_owned(),
                reason: limits.explain(why(last, &error)),
            })?;
            counting.all.push(OpenedCounter { counter: counter.clone(), of_cpus, is_put: false });
        }
        Ok(())
    }

    /// Puts the counters into the programs' map. Without a map, no program needs counters.
    ///
    /// # Errors
    /// [`Error::Load`].
    pub(crate) fn put(&mut self, map: Option<BorrowedFd<'_>>) -> Result<(), Error> {
        let Some(map) = map.filter(|_| !self.places.is_empty()) else { return Ok(()) };
        let mut counting = lock(&self.counting);
        if counting.map.is_none() {
            counting.map = Some(map.try_clone_to_owned().map_err(|error| failed(&error))?);
        }
        for (place, one) in counting.all.iter_mut().enumerate().filter(|(_, one)| !one.is_put) {
            for (cpu, event) in one.of_cpus.each() {
                put(map, at(cpu, place), event).map_err(|error| failed(&error))?;
            }
            one.is_put = true;
        }
        drop(counting);
        if self.watch.is_none() {
            let counting = Arc::clone(&self.counting);
            let look = move || lock(&counting).look();
            self.watch = Some(CpuWatch::begin(look).map_err(|error| failed(&error))?);
        }
        Ok(())
    }

    /// Closes all counters: other users may need the processor's counters, and detaching programs takes long.
    pub(crate) fn end(&mut self) {
        self.watch = None;
        self.truncate(0);
    }

    /// Keeps only the counters at the first `left` places, since no program reads the others.
    pub(crate) fn truncate(&mut self, left: usize) {
        self.places.truncate(left);
        let mut counting = lock(&self.counting);
        let OpenedCounters { map, all, .. } = &mut *counting;
        for (place, one) in (left..).zip(all.drain(left.min(all.len())..)) {
            // Also of one that was not put: a look may have put those of CPUs that have come.
            let Some(map) = map.as_ref() else { continue };
            one.of_cpus.each().for_each(|(cpu, _)| remove(map.as_fd(), at(cpu, place)));
        }
    }
}

impl OpenedCounters {
    /// Opens the counters of new CPUs, and closes those of removed ones. Each call also checks for one of the
    /// counters whether it has stopped; checking all would interrupt CPUs too often.
    fn look(&mut self) {
        let Some(map) = &self.map else { return };
        self.asked = (self.asked + 1) % self.all.len().max(1);
        for (place, one) in self.all.iter_mut().enumerate() {
            let counter = &one.counter;
            one.of_cpus.look_and_ask(place == self.asked, |cpu| {
                let event = open(counter, cpu)?;
                put(map.as_fd(), at(cpu, place), &event).map(|()| event)
            });
        }
    }
}

fn lock(counting: &Mutex<OpenedCounters>) -> MutexGuard<'_, OpenedCounters> {
    counting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the index of a CPU's counter in the map.
fn at(cpu: u32, place: usize) -> u32 {
    cpu * COUNTERS + place as u32
}

fn failed(error: &io::Error) -> Error {
    Error::Load { what: "the session's counters", reason: Refusal(error.to_string()) }
}

fn put(map: BorrowedFd<'_>, at: u32, event: &OwnedFd) -> io::Result<()> {
    let event = event.as_raw_fd();
    // SAFETY: a key and a value of the map's sizes, which live longer than the call.
    let code = unsafe {
        sys::bpf_map_update_elem(
            map.as_raw_fd(),
            std::ptr::from_ref(&at).cast(),
            std::ptr::from_ref(&event).cast(),
            u64::from(sys::BPF_ANY),
        )
    };
    match code {
        0 => Ok(()),
        _ => Err(io::Error::from_raw_os_error(code.abs())),
    }
}

/// Removes an entry of the map, if it exists.
fn remove(map: BorrowedFd<'_>, at: u32) {
    // SAFETY: a key of the map's size, which lives longer than the call.
    let _ = unsafe { sys::bpf_map_delete_elem(map.as_raw_fd(), std::ptr::from_ref(&at).cast()) };
}

/// Opens a counter of a CPU, which counts from now on. The counter is pinned: either it counts all the time, or it has
/// no value.
fn open(counter: &Counter, cpu: u32) -> io::Result<OwnedFd> {
    let mut attr = perf_event_attr {
        type_: counter.kind,
        size: size_of::<perf_event_attr>() as u32,
        config: counter.config,
        // It tells a look whether it still counts.
        read_format: PERF_FORMAT_TOTAL_TIME_ENABLED.into(),
        ..Default::default()
    };
    attr.set_pinned(1);
    cpus::open_event(&attr, cpu)
}

/// Returns whether the counter counts: if the processor has no room for it, the kernel returns no value.
fn counts(event: &OwnedFd) -> io::Result<bool> {
    Ok(rustix::io::read(event, &mut [0u8; 16])? > 0)
}

/// Returns why a counter cannot be opened on a CPU, with advice.
fn why(cpu: u32, error: &io::Error) -> Refusal {
    Refusal(match error.raw_os_error() {
        Some(libc::EBUSY) => format!(
            "CPU {cpu} counts as much as it can. Ask for fewer of the processor's counters, or end what else uses them, such \
             as `perf stat`"
        ),
        Some(libc::EACCES | libc::EPERM) => format!(
            "this process may not count on CPU {cpu}: {error}. Run as root, or give it CAP_PERFMON"
        ),
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL) => format!(
            "CPU {cpu} does not have it ({error}), as on most virtual machines, where the processor's counters are the \
             host's. `perf list` shows what this machine counts; each has {}",
            everywhere()
        ),
        _ => format!("CPU {cpu} does not count it: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::check;
    use std::os::fd::FromRawFd;

    fn placed(names: &[&str]) -> PlacedCounters {
        let mut counters = PlacedCounters::default();
        counters.place(&Contexts::parse(names).unwrap()).unwrap();
        counters
    }

    fn removed(map: &OwnedFd, at: u32) -> bool {
        // SAFETY: a key of the map's size, which lives longer than the call.
        unsafe { sys::bpf_map_delete_elem(map.as_raw_fd(), std::ptr::from_ref(&at).cast()) == 0 }
    }

    #[test]
    fn files_are_those_of_all_cpus_and_not_of_those_of_this_thread() {
        use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};
        let own = std::thread::spawn(|| {
            let all = sched_getaffinity(None).unwrap();
            let mut first = CpuSet::new();
            first.set((0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap());
            sched_setaffinity(None, &first).unwrap();
            placed(&["perf:cpu:cs,perf:cpu:faults"]).files()
        });
        assert_eq!(own.join().unwrap(), 2 * online().unwrap().len());
    }

    #[test]
    fn place_that_is_given_up_has_nothing_in_the_map_whoever_has_put_it_there() {
        if check().is_err() {
            return eprintln!("skip: this process may not record the kernel");
        }
        let options = sys::bpf_map_create_opts {
            sz: size_of::<sys::bpf_map_create_opts>() as sys::size_t,
            ..Default::default()
        };
        let kind = sys::BPF_MAP_TYPE_PERF_EVENT_ARRAY;
        let entries = (online().unwrap().into_iter().max().unwrap() + 1) * COUNTERS;
        // SAFETY: all of it lives longer than the call.
        let map = unsafe { sys::bpf_map_create(kind, c"t".as_ptr(), 4, 4, entries, &options) };
        assert!(map >= 0, "{map}");
        // SAFETY: it was made just now.
        let map = unsafe { OwnedFd::from_raw_fd(map) };
        let limits = Limits::raise(0);
        let mut counters = placed(&["perf:cpu:cs"]);
        counters.open(&limits).unwrap();
        counters.put(Some(map.as_fd())).unwrap();
        counters.place(&Contexts::parse(&["perf:cpu:faults"]).unwrap()).unwrap();
        counters.open(&limits).unwrap();
        // As a look does of a CPU that comes before they are put.
        let cpu = {
            let counting = lock(&counters.counting);
            let (cpu, event) = counting.all[1].of_cpus.each().next().unwrap();
            put(map.as_fd(), at(cpu, 1), event).unwrap();
            cpu
        };
        counters.truncate(1);
        assert!(!removed(&map, at(cpu, 1)));
        assert!(removed(&map, at(cpu, 0)));
    }
}
