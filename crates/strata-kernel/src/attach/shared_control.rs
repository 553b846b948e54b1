//! Memory that the tracer shares with its programs: switches and counters of a session, tables of system calls.

use crate::attach::loader::bytes_of;
use crate::error::Refusal;
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use strata_abi::kernel::{
    Control, Syscall, CALL_ENTRY, CALL_EXIT, CALL_MOVES, ON, ON_ASKS, ON_TELLS, ON_TRACKED,
    SWITCHES, SYSCALLS, TRACK_GENERATION,
};

/// The value of a BPF map, mapped into this process.
#[derive(Debug)]
pub(crate) struct MappedValue<T>(NonNull<T>);

// SAFETY: the mapping belongs to the process; what is behind it is plain memory.
unsafe impl<T: Send> Send for MappedValue<T> {}
// SAFETY: references give what T gives.
unsafe impl<T: Sync> Sync for MappedValue<T> {}

impl<T> MappedValue<T> {
    /// Maps the value of the map `fd`, which messages call `name`.
    ///
    /// # Safety The map's value must be a T that is valid with any bytes, and others may change only its atomic
    /// parts meanwhile.
    unsafe fn new(fd: BorrowedFd<'_>, name: &str) -> Result<MappedValue<T>, Refusal> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: at a free address; the map has so many bytes, and cannot be truncated.
        let memory =
            unsafe { mmap(ptr::null_mut(), size_of::<T>(), prot, MapFlags::SHARED, fd, 0) };
        let memory =
            memory.map_err(|error| Refusal(format!("the map {name} cannot be mapped: {error}")))?;
        let memory = NonNull::new(memory.cast()).map(MappedValue);
        memory.ok_or_else(|| Refusal(format!("the map {name} was mapped at address 0")))
    }
}

impl<T> Drop for MappedValue<T> {
    fn drop(&mut self) {
        // SAFETY: what was mapped in new(), and nobody has a reference any more.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), size_of::<T>()) };
    }
}

/// The mapped value of the map `control`, by which programs are switched on and off, and the switches that are in
/// use.
#[derive(Debug)]
pub(crate) struct SharedControl {
    memory: MappedValue<Control>,
    taken: Mutex<Vec<bool>>,
    /// The value that is stored in a switch to turn it on.
    on: AtomicU8,
    /// Number of the last change that replaced programs. Locked while the roles of programs in a change are set.
    turns: Mutex<u64>,
}

/// Index of the switch that programs share if no switch is free for them.
pub(crate) const OF_ALL: u32 = 0;

impl SharedControl {
    /// Maps the map `fd`.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn new(fd: BorrowedFd<'_>) -> Result<Arc<SharedControl>, Refusal> {
        // SAFETY: it is what .data.control is declared as, of integers; all that changes is atomic.
        let memory = unsafe { MappedValue::new(fd, "control") }?;
        let mut taken = vec![false; SWITCHES];
        taken[OF_ALL as usize] = true;
        let shared = SharedControl {
            memory,
            taken: Mutex::new(taken),
            on: AtomicU8::new(ON),
            turns: Mutex::new(0),
        };
        // Where another process had begun.
        if shared.get().tracked.load(Ordering::Relaxed) & !(1 << TRACK_GENERATION) != 0 {
            shared.on.store(ON | ON_TRACKED, Ordering::Relaxed);
        }
        Ok(Arc::new(shared))
    }

    /// Returns whether anything is recorded.
    pub(crate) fn records(&self) -> bool {
        self.get().on[OF_ALL as usize].load(Ordering::Relaxed) != 0
    }

    /// Returns the memory that the programs see.
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

    /// Sets the role of a running program while it replaces another program or is replaced.
    fn set_role(&self, at: u32, role: u8) {
        if let Some(switch) = self.get().on.get(at as usize) {
            let others = switch.load(Ordering::SeqCst) & !(ON_TELLS | ON_ASKS);
            switch.store(others | role, Ordering::SeqCst);
        }
    }

    /// Begins a change in which new programs, not attached yet, replace running ones. Returns the number of the change.
    pub(crate) fn begin_turns(&self) -> u64 {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        *turns += 1;
        self.get().turn.store(0, Ordering::SeqCst);
        self.get().changing.store(1, Ordering::SeqCst);
        *turns
    }

    /// Switches from the replaced programs of a change to the new ones, by one store.
    pub(crate) fn turn(&self) {
        self.get().turn.store(1, Ordering::SeqCst);
    }

    /// Ends the change `number` after the replaced programs were detached. Does nothing if a later change has begun.
    pub(crate) fn end_turns(&self, number: u64) {
        let turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if *turns != number {
            return;
        }
        for (at, switch) in (0..).zip(&self.get().on) {
            if switch.load(Ordering::SeqCst) & (ON_TELLS | ON_ASKS) != 0 {
                self.set_role(at, 0);
            }
        }
        self.get().changing.store(0, Ordering::SeqCst);
    }

    /// Sets whether switched-on programs record tracked processes only, from now on.
    pub(crate) fn set_tracking(&self, tracking: bool) {
        let value = if tracking { ON | ON_TRACKED } else { ON };
        self.on.store(value, Ordering::Relaxed);
        let _turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        for switch in &self.get().on {
            let now = switch.load(Ordering::SeqCst);
            if now & ON != 0 {
                switch.store(value | now & (ON_TELLS | ON_ASKS), Ordering::SeqCst);
            }
        }
    }
}

/// The switch of one program, or of one pair of programs. Dropping this value frees the switch for other programs, so
/// the value must outlive its programs.
#[derive(Debug)]
pub(crate) struct Switch {
    shared: Arc<SharedControl>,
    at: u32,
}

impl Switch {
    /// Takes a free switch, which is off. If none is free, returns the shared switch.
    pub(crate) fn take(shared: &Arc<SharedControl>) -> Switch {
        let mut taken = shared.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let at = taken.iter().position(|taken| !taken).unwrap_or(OF_ALL as usize);
        taken[at] = true;
        Switch { shared: Arc::clone(shared), at: at as u32 }
    }

    /// Takes the switch with index `at`, of a program that another process has attached, without changing its
    /// state. Returns `None` if the switch is taken already.
    pub(crate) fn retake(shared: &Arc<SharedControl>, at: u32) -> Option<Switch> {
        let mut taken = shared.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_taken = taken.get_mut(at as usize).filter(|taken| !**taken)?;
        *is_taken = true;
        Some(Switch { shared: Arc::clone(shared), at })
    }

    /// Returns the index of the switch in [`Control::on`].
    pub(crate) fn at(&self) -> u32 {
        self.at
    }

    /// Turns the programs on or off. With `others_go_on`, a shared switch stays on, since other programs still record.
    pub(crate) fn set(&self, on: bool, others_go_on: bool) {
        self.shared.set(self.at, on || others_go_on && self.at == OF_ALL);
    }
}

impl Switch {
    /// Makes a program that is to be replaced mark the events that it has recorded, so that its replacement, which runs
    /// after it, does not record them again.
    pub(crate) fn tell(&self) {
        self.shared.set_role(self.at, ON_TELLS);
    }

    /// Makes the program read the marks that [`Switch::tell`] causes while it is still off, so that no old mark is
    /// left when it is turned on.
    pub(crate) fn wait_to_ask(&self) {
        self.shared.set_role(self.at, ON_ASKS);
    }

    /// Turns the program on as a replacement, which records only events that the replaced program has not marked.
    pub(crate) fn ask(&self) {
        let on = self.shared.on.load(Ordering::Relaxed) | ON_ASKS;
        if let Some(switch) = self.shared.get().on.get(self.at as usize) {
            switch.store(on, Ordering::SeqCst);
        }
    }

    /// Returns the role of the programs in a change that was broken off.
    pub(crate) fn role(&self) -> u8 {
        let on = self.shared.get().on.get(self.at as usize);
        on.map_or(0, |on| on.load(Ordering::SeqCst) & (ON_TELLS | ON_ASKS))
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

/// The table of all system calls that a pair of programs uses.
pub(crate) type SyscallTable = [Syscall; SYSCALLS as usize];

/// Number of words in a call's table entry; the last word has the call's flags.
const WORDS: usize = size_of::<Syscall>() / 4;

/// The table of system calls that a running pair of programs uses, mapped into this process.
#[derive(Debug)]
pub(crate) struct LiveTable(MappedValue<[[AtomicU32; WORDS]; SYSCALLS as usize]>);

impl LiveTable {
    /// Maps the map `fd`.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn new(fd: BorrowedFd<'_>) -> Result<LiveTable, Refusal> {
        // SAFETY: .data.syscalls is a table of structures of so many words.
        unsafe { MappedValue::new(fd, "syscalls") }.map(LiveTable)
    }

    /// Returns a copy of the table.
    pub(crate) fn table(&self) -> Box<SyscallTable> {
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

    /// Marks the calls for which `moves` is true as moving to another pair of programs, and unmarks all others.
    pub(crate) fn set_moves(&self, moves: impl Fn(usize) -> bool) {
        // SAFETY: mapped, aligned to a page, and as long as self; all of it is atomic.
        let memory = unsafe { self.0 .0.as_ref() };
        for (place, words) in memory.iter().enumerate() {
            let flags = &words[WORDS - 1];
            match moves(place) {
                true => flags.fetch_or(CALL_MOVES, Ordering::SeqCst),
                false => flags.fetch_and(!CALL_MOVES, Ordering::SeqCst),
            };
        }
    }

    /// Clears the entries of calls that are marked as moved to other programs.
    pub(crate) fn drop_moved(&self) {
        // SAFETY: as above.
        for words in unsafe { self.0 .0.as_ref() } {
            let flags = &words[WORDS - 1];
            if flags.load(Ordering::SeqCst) & CALL_MOVES != 0 {
                flags.fetch_and(!(CALL_MOVES | CALL_ENTRY | CALL_EXIT), Ordering::SeqCst);
            }
        }
    }

    /// Writes the entries in which `to` differs from `from`. Programs read the table meanwhile, so a call's flags
    /// are written last, and its other words stay when it is no longer recorded.
    pub(crate) fn change(&mut self, from: &SyscallTable, to: &SyscallTable) {
        // SAFETY: mapped, aligned to a page, and as long as self; all of it is atomic.
        let memory = unsafe { self.0 .0.as_ref() };
        let differs = from.iter().zip(to).map(|(from, to)| from != to);
        for ((words, to), _) in memory.iter().zip(to).zip(differs).filter(|(_, differs)| *differs) {
            // SAFETY: integers without padding.
            let bytes = unsafe { bytes_of(to) };
            for (at, (word, bytes)) in words.iter().zip(bytes.chunks_exact(4)).enumerate() {
                if let Ok(bytes) = bytes.try_into() {
                    // Whether it moves is no part of the table.
                    let kept = match at == WORDS - 1 {
                        true => word.load(Ordering::SeqCst) & CALL_MOVES,
                        false => 0,
                    };
                    word.store(u32::from_ne_bytes(bytes) | kept, Ordering::SeqCst);
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
