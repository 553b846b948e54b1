//! The clock that all recorders in one guest share. Several recorders may run in a guest, each with a channel of its
//! own: their traces belong to one machine, and each measurement of its clock is valid for all of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use strata_model::Uuid;
use strata_relay::{Bounds, Epoch, Exchange, Known, Line};

use super::causality::Seen;
use crate::session::lock::lock;

/// Number of rounds in which a guest's clock is refined after the recording.
const REFINED: usize = 3;

/// The other end of a channel, as the host's kernel identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The hypervisor's process, which listens at the channel.
    Process(u32),
    /// The guest with this context id, for vsock.
    Guest(u32),
}

/// The guests of a recording that have sent the id of their boot. Two channels count as the same guest only if their peer
/// is the same too: with the boot id alone, a guest could claim to be another one and disturb its clock.
#[derive(Debug, Default)]
pub(crate) struct Machines(Mutex<Vec<Machine>>);

#[derive(Debug)]
struct Machine {
    peer: Peer,
    boot: Uuid,
    clock: Arc<Mutex<GuestClock>>,
}

/// The clock of a guest.
#[derive(Debug, Default)]
pub(crate) struct GuestClock {
    /// The clock's UUID in traces.
    uuid: Option<Uuid>,
    bounds: Bounds,
    /// For each epoch, the recorded time span on the guest's clock, over all traces of the guest \[ns\].
    spans: BTreeMap<usize, (u64, u64)>,
    /// Names of the guests that use this clock, in the order of their arrival.
    names: Vec<String>,
    /// Traces of the guest's kernel that are complete.
    kernels: Vec<KernelTrace>,
    refined: Option<usize>,
}

/// A trace of a guest's kernel, from which the guest's clock can be refined.
#[derive(Debug)]
pub(crate) struct KernelTrace {
    pub(crate) epoch: usize,
    pub(crate) guest: PathBuf,
    /// Folder of the trace of the host's kernel.
    pub(crate) host: PathBuf,
    /// Virtual CPUs, each with the id of its thread.
    pub(crate) cpus: Vec<(u32, i64)>,
}

impl Machines {
    /// Returns the clock of the guest with this peer and boot, if it is recorded already; otherwise registers `own` for
    /// later channels of the guest and returns it.
    pub(crate) fn clock(
        &self,
        peer: Option<Peer>,
        boot: Uuid,
        name: &str,
        own: &Arc<Mutex<GuestClock>>,
    ) -> Arc<Mutex<GuestClock>> {
        let mut all = lock(&self.0);
        // A guest need not reveal its boot id, and then has no peer.
        let peer = peer.filter(|_| boot != Uuid([0; 16]));
        let known = all.iter().find(|one| Some(one.peer) == peer && one.boot == boot);
        let clock = Arc::clone(known.map_or(own, |one| &one.clock));
        if let (None, Some(peer)) = (known, peer) {
            all.push(Machine { peer, boot, clock: Arc::clone(&clock) });
        }
        lock(&clock).names.push(name.to_owned());
        clock
    }

    /// Notes that the process `peer` runs the machine with this clock from now on; `None` if it is not known which
    /// process does.
    pub(crate) fn moves(&self, clock: &Arc<Mutex<GuestClock>>, peer: Option<Peer>) {
        let mut all = lock(&self.0);
        let known = all.iter_mut().find(|one| Arc::ptr_eq(&one.clock, clock));
        match (known, peer) {
            // Another channel of the machine has reported the move already.
            (Some(known), Some(peer)) if known.peer == peer => return,
            (Some(known), Some(peer)) => known.peer = peer,
            _ => {}
        }
        lock(clock).moves();
    }
}

impl GuestClock {
    /// Begins a new epoch of the clock, since another process runs the machine.
    fn moves(&mut self) {
        self.bounds.cut();
    }

    pub(crate) fn new(uuid: Option<Uuid>) -> GuestClock {
        GuestClock { uuid, ..GuestClock::default() }
    }

    pub(crate) fn uuid(&self) -> Option<Uuid> {
        self.uuid
    }

    /// Returns the epochs of the clock in order of time.
    pub(crate) fn epochs(&self) -> &[Epoch] {
        self.bounds.epochs()
    }

    /// Returns the number of impossible answers.
    pub(crate) fn impossible(&self) -> u64 {
        self.bounds.impossible()
    }

    /// Returns the name of the first guest with this clock; `None` if that is `name` itself.
    pub(crate) fn same_as(&self, name: &str) -> Option<&str> {
        self.names.first().filter(|first| *first != name).map(String::as_str)
    }

    /// Learns from a question for the guest's time and its answer. Returns whether the clock has jumped.
    pub(crate) fn learn(&mut self, exchange: &Exchange) -> bool {
        self.bounds.add(exchange)
    }

    /// Returns the epoch of a packet that begins at `begin` on the guest's clock.
    pub(crate) fn epoch_of(&self, begin: u64) -> usize {
        let epochs = self.epochs();
        let later = epochs.iter().rposition(|epoch| epoch.span().0 <= begin);
        // A packet between two epochs belongs to the one that began later, since knowledge of the earlier one ends
        // before it.
        let between = epochs.iter().position(|epoch| epoch.span().1 >= begin);
        between.or(later).unwrap_or(0)
    }

    /// Extends the recorded time of an epoch by a time span.
    pub(crate) fn record(&mut self, epoch: usize, span: (u64, u64)) {
        let known = self.spans.entry(epoch).or_insert(span);
        *known = (known.0.min(span.0), known.1.max(span.1));
    }

    /// Extends the recorded time of an epoch to `end`.
    pub(crate) fn extend(&mut self, epoch: usize, end: u64) {
        self.spans.entry(epoch).and_modify(|span| span.1 = span.1.max(end));
    }

    /// Returns the linear relation between the guest's clock and the host's in this epoch.
    pub(crate) fn line(&self, epoch: usize) -> Option<Line> {
        let span = self.spans.get(&epoch).copied();
        self.epochs().get(epoch).and_then(|epoch| Line::through(epoch, span))
    }

    /// Returns the number of exchanges that measured the clock in this epoch.
    pub(crate) fn exchanges(&self, epoch: usize) -> u64 {
        self.epochs().get(epoch).map_or(0, Epoch::exchanges)
    }

    /// Adds a trace of the guest's kernel that is complete, or will not grow any more.
    pub(crate) fn add_kernel(&mut self, trace: KernelTrace) {
        self.kernels.push(trace);
    }

    /// Refines the clock by the times when virtual CPUs ran, after all traces are complete. Returns the number of
    /// bounds used, and whether metadata must be written again; later calls return the same.
    pub(crate) fn refine(&mut self) -> (usize, bool) {
        let is_shared = self.names.len() > 1;
        let taken = match self.refined {
            Some(taken) => taken,
            None => self.refine_once(),
        };
        self.refined = Some(taken);
        (taken, taken > 0 || is_shared)
    }

    fn refine_once(&mut self) -> usize {
        let mut taken = 0;
        for trace in std::mem::take(&mut self.kernels) {
            let Some(seen) = Seen::read(&trace.host, &trace.guest, &trace.cpus) else { continue };
            // With better knowledge, more records can be placed before or after each run of a CPU.
            for _ in 0..REFINED {
                let Some(epoch) = self.epochs().get(trace.epoch) else { break };
                let found = seen.bounds(&Known::of(epoch));
                taken += self.bounds.refine(trace.epoch, &found);
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_of_a_machine_that_moves_has_one_more_epoch_however_many_channels_say_so() {
        let machines = Machines::default();
        let own = Arc::new(Mutex::new(GuestClock::new(None)));
        let (from, to) = (Some(Peer::Process(7)), Some(Peer::Process(9)));
        let clock = machines.clock(from, Uuid([1; 16]), "a", &own);
        let exchange =
            |at| Exchange { asked: at, received: at + 10, sent: at + 20, answered: at + 30 };
        assert!(!lock(&clock).learn(&exchange(1000)));
        machines.moves(&clock, to);
        assert!(lock(&clock).learn(&exchange(2000)));
        machines.moves(&clock, to);
        assert!(!lock(&clock).learn(&exchange(3000)));
        // Who comes later is of the machine where it is now.
        assert!(Arc::ptr_eq(&clock, &machines.clock(to, Uuid([1; 16]), "ab", &own)));
        let other = Arc::new(Mutex::new(GuestClock::new(None)));
        assert!(Arc::ptr_eq(&other, &machines.clock(from, Uuid([1; 16]), "abc", &other)));
        // Nobody knows where it is.
        machines.moves(&clock, None);
        assert!(lock(&clock).learn(&exchange(4000)));
    }

    #[test]
    fn clock_is_shared_by_recorders_of_one_boot_behind_one_process_only() {
        let machines = Machines::default();
        let of = |peer, boot: u8, name: &str| {
            let own = Arc::new(Mutex::new(GuestClock::new(Some(Uuid([name.len() as u8; 16])))));
            machines.clock(peer, Uuid([boot; 16]), name, &own)
        };
        let first = of(Some(Peer::Process(7)), 1, "a");
        let same = of(Some(Peer::Process(7)), 1, "ab");
        assert!(Arc::ptr_eq(&first, &same));
        assert_eq!(lock(&first).uuid(), Some(Uuid([1; 16])));
        let clock = lock(&first);
        assert_eq!((clock.same_as("a"), clock.same_as("ab")), (None, Some("a")));
        drop(clock);
        // Another boot; another process, whatever it says; nobody knows who it is; no boot is told.
        for (peer, boot) in [
            (Some(Peer::Process(7)), 2),
            (Some(Peer::Process(8)), 1),
            (Some(Peer::Guest(7)), 1),
            (None, 1),
            (None, 1),
            (Some(Peer::Process(7)), 0),
            (Some(Peer::Process(7)), 0),
        ] {
            let other = of(peer, boot, "other");
            assert!(lock(&other).same_as("other").is_none(), "{peer:?} {boot}");
        }
        assert!(Arc::ptr_eq(&of(Some(Peer::Guest(7)), 1, "x"), &of(Some(Peer::Guest(7)), 1, "y")));
    }
}
