//! Memory that the tracer and its programs have in common: switches and counters of a session, tables of system calls.

use crate::error::Reason;
use crate::load::bytes_of;
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use strata_abi::kernel::{Control, Syscall, ON, ON_TRACKED, SWITCHES, SYSCALLS, TRACK_GENERATION};

/// A map's value, mapped.
#[derive(Debug)]
pub(crate) struct Mapped<T>(NonNull<T>);

// SAFETY: the mapping belongs to the process; what is behind it is plain memory.
unsafe impl<T: Send> Send for Mapped<T> {}
// SAFETY: references give what T gives.
unsafe impl<T: Sync> Sync for Mapped<T> {}

impl<T> Mapped<T> {
    /// # Safety
    /// The map's value has a T, valid whatever its bytes are, and who changes it meanwhile does so only in what is
    /// atomic of it.
    unsafe fn new(fd: BorrowedFd<'_>, name: &str) -> Result<Mapped<T>, Reason> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: at a free address; the map has so many bytes, and cannot be truncated.
        let memory =
            unsafe { mmap(ptr::null_mut(), size_of::<T>(), prot, MapFlags::SHARED, fd, 0) };
        let memory =
            memory.map_err(|error| Reason(format!("the map {name} cannot be mapped: {error}")))?;
        let memory = NonNull::new(memory.cast()).map(Mapped);
        memory.ok_or_else(|| Reason(format!("the map {name} was mapped at address 0")))
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: what was mapped in new(), and nobody has a reference any more.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), size_of::<T>()) };
    }
}

/// The map `control`, and who has which of its switches.
#[derive(Debug)]
pub(crate) struct Shared {
    memory: Mapped<Control>,
    taken: Mutex<Vec<bool>>,
    /// What is stored to switch something on.
    on: AtomicU8,
}

/// The switch of those that none was left for.
pub(crate) const OF_ALL: u32 = 0;

impl Shared {
    /// # Errors
    /// What the system says.
    pub(crate) fn new(fd: BorrowedFd<'_>) -> Result<Arc<Shared>, Reason> {
        // SAFETY: it is what .data.control is declared as, of integers; all that changes is atomic.
        let memory = unsafe { Mapped::new(fd, "control") }?;
        let mut taken = vec![false; SWITCHES];
        taken[OF_ALL as usize] = true;
        let shared = Shared { memory, taken: Mutex::new(taken), on: AtomicU8::new(ON) };
        // Where another process had begun.
        if shared.get().tracked.load(Ordering::Relaxed) & !(1 << TRACK_GENERATION) != 0 {
            shared.on.store(ON | ON_TRACKED, Ordering::Relaxed);
        }
        Ok(Arc::new(shared))
    }

    /// Is anything recorded?
    pub(crate) fn records(&self) -> bool {
        self.get().on[OF_ALL as usize].load(Ordering::Relaxed) != 0
    }

    /// What the programs see.
    pub(crate) fn get(&self) -> &Control {
        // SAFETY: mapped, aligned to a page, and as long as self; what changes in it is atomic.
        unsafe { self.memory.0.as_ref() }
    }

    pub(crate) fn set(&self, at: u32, on: bool) {
        if let Some(switch) = self.get().on.get(at as usize) {
            let value = if on { self.on.load(Ordering::Relaxed) } else { 0 };
            switch.store(value, Ordering::SeqCst);
        }
    }

    /// Whether what is on asks for those who are tracked, from now on.
    pub(crate) fn set_tracking(&self, tracking: bool) {
        let value = if tracking { ON | ON_TRACKED } else { ON };
        self.on.store(value, Ordering::Relaxed);
        for switch in self.get().on.iter().filter(|switch| switch.load(Ordering::Relaxed) != 0) {
            switch.store(value, Ordering::SeqCst);
        }
    }
}

/// A switch of one program or one pair of them. It is another one's when this one goes: after the programs.
#[derive(Debug)]
pub(crate) struct Switch {
    shared: Arc<Shared>,
    at: u32,
}

impl Switch {
    /// One that is off; that of all others if there are no more.
    pub(crate) fn take(shared: &Arc<Shared>) -> Switch {
        let mut taken = shared.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let at = taken.iter().position(|taken| !taken).unwrap_or(OF_ALL as usize);
        taken[at] = true;
        Switch { shared: Arc::clone(shared), at: at as u32 }
    }

    /// That of a program which another process has attached, as it is; `None`: somebody has it.
    pub(crate) fn retake(shared: &Arc<Shared>, at: u32) -> Option<Switch> {
        let mut taken = shared.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_taken = taken.get_mut(at as usize).filter(|taken| !**taken)?;
        *is_taken = true;
        Some(Switch { shared: Arc::clone(shared), at })
    }

    /// In [`Control::on`].
    pub(crate) fn at(&self) -> u32 {
        self.at
    }

    /// From now on. `others_go_on`: those that share it, if they do, record.
    pub(crate) fn set(&self, on: bool, others_go_on: bool) {
        self.shared.set(self.at, on || others_go_on && self.at == OF_ALL);
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if self.at != OF_ALL {
            self.shared.set(self.at, false);
            let mut taken = self.shared.taken.lock().unwrap_or_else(PoisonError::into_inner);
            taken[self.at as usize] = false;
        }
    }
}

/// All places of system calls.
pub(crate) type Table = [Syscall; SYSCALLS as usize];

/// A call's words; the last one has its flags.
const WORDS: usize = size_of::<Syscall>() / 4;

/// The table of a pair of programs that runs.
#[derive(Debug)]
pub(crate) struct Calls(Mapped<[[AtomicU32; WORDS]; SYSCALLS as usize]>);

impl Calls {
    /// # Errors
    /// What the system says.
    pub(crate) fn new(fd: BorrowedFd<'_>) -> Result<Calls, Reason> {
        // SAFETY: .data.syscalls is a table of structures of so many words.
        unsafe { Mapped::new(fd, "syscalls") }.map(Calls)
    }

    /// What is in it.
    pub(crate) fn table(&self) -> Box<Table> {
        let mut table = Box::new([Syscall::default(); SYSCALLS as usize]);
        // SAFETY: mapped, aligned to a page, and as long as self; all of it is atomic.
        let memory = unsafe { self.0 .0.as_ref() };
        for (to, words) in table.iter_mut().zip(memory) {
            let words = words.each_ref().map(|word| word.load(Ordering::SeqCst));
            // SAFETY: both are integers without padding, of the same size.
            *to = unsafe { std::mem::transmute::<[u32; WORDS], Syscall>(words) };
        }
        table
    }

    /// Makes what differs between the two what `to` says. What is known of a call is there before its flags say
    /// that it is recorded, and stays: programs that run look at it.
    pub(crate) fn change(&mut self, from: &Table, to: &Table) {
        // SAFETY: mapped, aligned to a page, and as long as self; all of it is atomic.
        let memory = unsafe { self.0 .0.as_ref() };
        let differs = from.iter().zip(to).map(|(from, to)| from != to);
        for ((words, to), _) in memory.iter().zip(to).zip(differs).filter(|(_, differs)| *differs) {
            // SAFETY: integers without padding.
            let bytes = unsafe { bytes_of(to) };
            for (word, bytes) in words.iter().zip(bytes.chunks_exact(4)) {
                if let Ok(bytes) = bytes.try_into() {
                    word.store(u32::from_ne_bytes(bytes), Ordering::SeqCst);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn flags_of_a_call_are_written_last() {
        assert_eq!(offset_of!(Syscall, flags), (WORDS - 1) * 4);
        assert_eq!(size_of::<Control>() % 4096, 0);
    }
}
