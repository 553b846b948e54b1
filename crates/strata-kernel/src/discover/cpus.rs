//! CPUs that are online, and those that come online during a recording. A CPU's perf events stop when the CPU goes
//! offline, and do not continue when it comes back.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use libbpf_sys::{perf_event_attr, PERF_FLAG_FD_CLOEXEC};

use crate::discover::capability::give_up_reserve;

/// The most CPUs for which events are opened.
const CPUS_MAX: u32 = 1 << 16;
/// Period of checking for new CPUs, since the kernel sends no notification.
const PERIOD: Duration = Duration::from_millis(100);

/// Parses a list of CPUs as the kernel writes it, such as `0-3,5`.
pub fn cpus(list: &str) -> impl Iterator<Item = u32> + '_ {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let last: u32 = last.parse().ok()?;
        Some(first.parse::<u32>().ok()?..=last.min(CPUS_MAX))
    });
    ranges.flatten()
}

/// Lists the online CPUs.
///
/// # Errors
/// What the system says.
pub(crate) fn online() -> io::Result<Vec<u32>> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    Ok(cpus(&list).collect())
}

/// Opens a perf event for everything that runs on a CPU.
///
/// # Errors
/// The error of the kernel.
pub(crate) fn open_event(attr: &perf_event_attr, cpu: u32) -> io::Result<OwnedFd> {
    open_event_of(attr, -1, cpu)
}

/// Opens a perf event for a thread while it runs on this CPU. `tid` 0 is the calling thread, -1 all threads.
pub(crate) fn open_event_of(attr: &perf_event_attr, tid: i32, cpu: u32) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads the structure, which says how long it is, and gives a new descriptor or an error.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attr),
            tid,
            cpu,
            -1,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    match i32::try_from(fd) {
        // SAFETY: nobody else has it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A perf event for each online CPU. The event of a CPU that goes offline stops for good; a new event is opened when
/// the CPU is back.
#[derive(Debug)]
pub(crate) struct OfCpus<T> {
    all: Vec<CpuEvent<T>>,
    next_look: Instant,
}

#[derive(Debug)]
struct CpuEvent<T> {
    cpu: u32,
    event: T,
    /// Value of the counter at the last look; it grows as long as the event runs.
    counted: u64,
}

impl<T: AsFd> OfCpus<T> {
    /// Calls `make` to open an event for each online CPU.
    ///
    /// # Errors
    /// An event cannot be made.
    pub(crate) fn make(mut make: impl FnMut(u32) -> io::Result<T>) -> io::Result<OfCpus<T>> {
        let one = |cpu| Ok(CpuEvent { cpu, event: make(cpu)?, counted: 0 });
        let all = online()?.into_iter().map(one).collect::<io::Result<_>>()?;
        Ok(OfCpus { all, next_look: Instant::now() + PERIOD })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.all.iter().map(|one| &one.event)
    }

    /// Returns the events with the numbers of their CPUs.
    pub(crate) fn each(&self) -> impl Iterator<Item = (u32, &T)> {
        self.all.iter().map(|one| (one.cpu, &one.event))
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.all.iter_mut().map(|one| &mut one.event)
    }

    /// Opens events for CPUs that have none, if the last check is some time ago. Events that cannot be opened are
    /// tried again later.
    pub(crate) fn look(&mut self, make: impl FnMut(u32) -> io::Result<T>) {
        self.look_and_ask(true, make);
    }

    /// Opens missing events like [`OfCpus::look`]. With `asks`, also replaces events that have stopped on CPUs
    /// that are online; that check interrupts each CPU.
    pub(crate) fn look_and_ask(&mut self, asks: bool, mut make: impl FnMut(u32) -> io::Result<T>) {
        let now = Instant::now();
        let online = if now < self.next_look { None } else { online().ok() };
        let Some(online) = online else { return };
        self.next_look = now + PERIOD;
        self.all.retain_mut(|one| online.contains(&one.cpu) && (!asks || one.runs()));
        for cpu in online {
            if self.all.iter().all(|one| one.cpu != cpu) {
                self.all.extend(make(cpu).map(|event| CpuEvent { cpu, event, counted: 0 }));
            }
        }
    }
}

impl<T: AsFd> CpuEvent<T> {
    /// Returns whether the event has counted since the last look.
    fn runs(&mut self) -> bool {
        let mut words = [0u8; 16];
        // The last word: the time that it was enabled, or all that it says.
        let now = match rustix::io::read(&self.event, &mut words) {
            Ok(16) => u64::from_ne_bytes(words[8..].try_into().unwrap_or_default()),
            Ok(8) => u64::from_ne_bytes(words[..8].try_into().unwrap_or_default()),
            _ => self.counted,
        };
        now != std::mem::replace(&mut self.counted, now)
    }
}

/// A thread that checks for new CPUs until this value goes out of scope.
#[derive(Debug)]
pub(crate) struct CpuWatch {
    is_over: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl CpuWatch {
    /// Starts a thread that calls `look` again and again.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn begin(mut look: impl FnMut() + Send + 'static) -> io::Result<CpuWatch> {
        let is_over = Arc::new((Mutex::new(false), Condvar::new()));
        let told = Arc::clone(&is_over);
        let work = move || {
            give_up_reserve();
            let (over, changed) = &*told;
            let mut over = over.lock().unwrap_or_else(PoisonError::into_inner);
            while !*over {
                look();
                let waited = changed.wait_timeout_while(over, PERIOD, |over| !*over);
                over = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        };
        let thread = std::thread::Builder::new().name("strata-cpus".into()).spawn(work)?;
        Ok(CpuWatch { is_over, thread: Some(thread) })
    }
}

impl Drop for CpuWatch {
    fn drop(&mut self) {
        *self.is_over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.is_over.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // One that panicked has nothing left.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_of_the_kernel_s_lists_are_all_of_their_ranges() {
        let all = |list| cpus(list).collect::<Vec<u32>>();
        assert_eq!(all("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(all("0\n"), [0]);
        assert_eq!(all("x,1-,3"), [3]);
        assert_eq!(all(""), [0u32; 0]);
    }

    #[test]
    fn thread_that_looks_has_nothing_in_reserve() {
        use rustix::thread::{capabilities, set_capabilities, CapabilitySet, CapabilitySets};
        let (sender, receiver) = std::sync::mpsc::channel();
        let own = std::thread::spawn(move || {
            let before = capabilities(None).unwrap();
            let own = CapabilitySets { effective: CapabilitySet::empty(), ..before };
            set_capabilities(None, own).unwrap();
            let look = move || {
                // Nobody listens any more.
                let _ = sender.send(capabilities(None).unwrap());
            };
            let _watch = CpuWatch::begin(look).unwrap();
            (capabilities(None).unwrap(), receiver.recv().unwrap())
        });
        let (own, found) = own.join().unwrap();
        assert_eq!((found.permitted, found.effective), (own.effective, own.effective));
    }

    #[test]
    fn what_has_stopped_is_made_anew_and_what_runs_stays() {
        let pipe = |byte: u64| {
            let (reader, writer) = rustix::pipe::pipe().unwrap();
            rustix::io::write(&writer, &byte.to_ne_bytes()).unwrap();
            (reader, writer)
        };
        // What it counts is what is in the pipe: the first look finds something, the second one, a closed pipe, nothing.
        let mut made = Vec::new();
        let mut make = |cpu| {
            made.push(cpu);
            Ok(pipe(7).0)
        };
        let mut all = OfCpus::make(&mut make).unwrap();
        let nr_online = online().unwrap().len();
        all.look(&mut make);
        for asks in [true, false, true] {
            all.next_look = Instant::now();
            all.look_and_ask(asks, &mut make);
            assert_eq!(all.all().count(), nr_online);
        }
        assert_eq!(made.len(), 2 * nr_online, "{made:?}");
    }
}
