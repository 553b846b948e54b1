//! What all recorders of one guest have in common: its clock. Several may run in a guest, each with a channel of its own:
//! their traces are of one machine, and what any of them tells of its clock holds for all.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use strata_model::Uuid;
use strata_relay::{Bounds, Epoch, Exchange, Known, Line};

use super::causality::Seen;
use crate::session::lock::lock;

/// Rounds in which a clock is refined at the end.
const REFINED: usize = 3;

/// Who is at the other end of a channel, by the word of the host's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The process that listens there: the hypervisor.
    Process(u32),
    /// The guest with this number, by vsock.
    Guest(u32),
}

/// The guests of a recording that have told which boot they are. That alone would be a guest's word, by which it could meddle
/// with the clock of another one: whoever is at the other end must be the same, too.
#[derive(Debug, Default)]
pub(crate) struct Machines(Mutex<Vec<Machine>>);

#[derive(Debug)]
struct Machine {
    peer: Peer,
    boot: Uuid,
    clock: Arc<Mutex<GuestClock>>,
}

/// A guest's clock.
#[derive(Debug, Default)]
pub(crate) struct GuestClock {
    /// Its number in the traces.
    uuid: Option<Uuid>,
    bounds: Bounds,
    /// From when to when something was recorded in each epoch, by the guest's clock: all traces of one have one clock
    /// \[ns\].
    spans: BTreeMap<usize, (u64, u64)>,
    /// Those whose traces have it, in the order in which they came.
    names: Vec<String>,
    /// Complete traces of its kernel.
    kernels: Vec<KernelTrace>,
    refined: Option<usize>,
}

/// A trace of a guest's kernel, by which its clock becomes better known.
#[derive(Debug)]
pub(crate) struct KernelTrace {
    pub(crate) epoch: usize,
    pub(crate) guest: PathBuf,
    /// Of the host's kernel.
    pub(crate) host: PathBuf,
    /// Virtual CPUs, and the thread of each.
    pub(crate) cpus: Vec<(u32, i64)>,
}

impl Machines {
    /// The clock of the guest that this one turns out to be, if that is recorded already; else this one's, by which others
    /// find it.
    pub(crate) fn clock(
        &self,
        peer: Option<Peer>,
        boot: Uuid,
        name: &str,
        own: &Arc<Mutex<GuestClock>>,
    ) -> Arc<Mutex<GuestClock>> {
        let mut all = lock(&self.0);
        // A guest may not tell its boot.
        let peer = peer.filter(|_| boot != Uuid([0; 16]));
        let known = all.iter().find(|one| Some(one.peer) == peer && one.boot == boot);
        let clock = Arc::clone(known.map_or(own, |one| &one.clock));
        if let (None, Some(peer)) = (known, peer) {
            all.push(Machine { peer, boot, clock: Arc::clone(&clock) });
        }
        lock(&clock).names.push(name.to_owned());
        clock
    }

    /// The machine with this clock is at this process from now on, or somewhere that is not known.
    pub(crate) fn moves(&self, clock: &Arc<Mutex<GuestClock>>, peer: Option<Peer>) {
        let mut all = lock(&self.0);
        let known = all.iter_mut().find(|one| Arc::ptr_eq(&one.clock, clock));
        match (known, peer) {
            // Another of its channels has said so already.
            (Some(known), Some(peer)) if known.peer == peer => return,
            (Some(known), Some(peer)) => known.peer = peer,
            _ => {}
        }
        lock(clock).moves();
    }
}

impl GuestClock {
    /// Another process runs the machine from now on: what follows is of another epoch.
    fn moves(&mut self) {
        self.bounds.cut();
    }

    pub(crate) fn new(uuid: Option<Uuid>) -> GuestClock {
        GuestClock { uuid, ..GuestClock::default() }
    }

    pub(crate) fn uuid(&self) -> Option<Uuid> {
        self.uuid
    }

    /// In the order of time.
    pub(crate) fn epochs(&self) -> &[Epoch] {
        self.bounds.epochs()
    }

    /// Answers that cannot be true.
    pub(crate) fn impossible(&self) -> u64 {
        self.bounds.impossible()
    }

    /// Who was there before this one, of the same machine.
    pub(crate) fn same_as(&self, name: &str) -> Option<&str> {
        self.names.first().filter(|first| *first != name).map(String::as_str)
    }

    /// Takes note of an exchange. Returns whether the clock has jumped.
    pub(crate) fn learn(&mut self, exchange: &Exchange) -> bool {
        self.bounds.add(exchange)
    }

    /// In which epoch a packet that begins then lies.
    pub(crate) fn epoch_of(&self, begin: u64) -> usize {
        let epochs = self.epochs();
        let later = epochs.iter().rposition(|epoch| epoch.span().0 <= begin);
        // Between two, it is of the one that was begun last: what is known of the one before ends before it.
        let between = epochs.iter().position(|epoch| epoch.span().1 >= begin);
        between.or(later).unwrap_or(0)
    }

    /// Something was recorded in this epoch, from then to then.
    pub(crate) fn record(&mut self, epoch: usize, span: (u64, u64)) {
        let known = self.spans.entry(epoch).or_insert(span);
        *known = (known.0.min(span.0), known.1.max(span.1));
    }

    /// What was recorded last in this epoch ends then.
    pub(crate) fn extend(&mut self, epoch: usize, end: u64) {
        self.spans.entry(epoch).and_modify(|span| span.1 = span.1.max(end));
    }

    /// The clock as traces of this epoch have it.
    pub(crate) fn line(&self, epoch: usize) -> Option<Line> {
        let span = self.spans.get(&epoch).copied();
        self.epochs().get(epoch).and_then(|epoch| Line::through(epoch, span))
    }

    /// By how many exchanges it is known in this epoch.
    pub(crate) fn exchanges(&self, epoch: usize) -> u64 {
        self.epochs().get(epoch).map_or(0, Epoch::exchanges)
    }

    /// A trace of its kernel is complete, or as far as it will be.
    pub(crate) fn add_kernel(&mut self, trace: KernelTrace) {
        self.kernels.push(trace);
    }

    /// What follows from when its virtual CPUs ran, once all traces are complete. Returns how much that was, to whoever asks;
    /// and whether traces that were described are to be so again.
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
            // What is known better says of more times on which side of them a record was.
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
