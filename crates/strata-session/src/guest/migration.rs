//! Follows a guest whose machine is taken over by another hypervisor: finds the next channel, and holds the messages
//! that arrive on it before the guest's clock is known again.

use std::time::{Duration, Instant};

use strata_relay::{Waiting, Wire};

/// The period of checking for another channel.
const PERIOD: Duration = Duration::from_millis(100);
/// The most migrations of a guest that are followed.
const MOVES_MAX: u64 = 64;
/// The most bytes of messages that are held until the clock is known again \[byte\].
const HELD_MAX: usize = 64 << 20;

/// The migration of one guest to another hypervisor: its new channel, and messages that wait meanwhile.
#[derive(Debug)]
pub(super) struct Elsewhere {
    /// The socket that replaces the present one once the guest has migrated.
    next: Option<Wire>,
    /// The first bytes from `next`. Of two hypervisors during a migration, only the one that runs the machine sends
    /// any.
    first: Vec<u8>,
    looked: Instant,
    /// The number of migrations so far.
    moves: u64,
    /// Time since which this channel has been silent. `None` for the first channel, and once bytes have arrived.
    unheard: Option<Instant>,
    /// Messages that wait for the clock, by kind and payload; `None` if messages need not wait.
    held: Option<Vec<(u16, Vec<u8>)>>,
    held_bytes: usize,
}

impl Elsewhere {
    pub(super) fn new() -> Elsewhere {
        Elsewhere {
            next: None,
            first: Vec::new(),
            looked: Instant::now(),
            moves: 0,
            unheard: None,
            held: None,
            held_bytes: 0,
        }
    }

    pub(super) fn moves(&self) -> u64 {
        self.moves
    }

    /// Looks for the socket of another hypervisor to which the guest has migrated, and for bytes on that socket.
    /// Call this before the present socket is read, on which nothing more arrives once the other socket has bytes.
    pub(super) fn look(&mut self, waiting: &Waiting, wire: &Wire, buffer: &mut [u8]) {
        if self.moves < MOVES_MAX && self.looked.elapsed() > PERIOD {
            self.looked = Instant::now();
            let newer = waiting.newer(self.next.as_ref().unwrap_or(wire));
            if let Some(newer) = newer.filter(|newer| is_of_same_user(wire, newer)) {
                (self.next, self.first) = (Some(newer), Vec::new());
            }
        }
        let Some(next) = self.next.as_ref().filter(|_| self.first.is_empty()) else { return };
        match next.read(buffer, Duration::ZERO) {
            Ok(None) => {}
            Ok(Some(bytes)) if bytes > 0 => {
                self.first.extend_from_slice(buffer.get(..bytes).unwrap_or_default());
            }
            // A migration that has failed closes its socket.
            Ok(Some(_)) | Err(_) => self.next = None,
        }
    }

    /// Takes the next channel with its first bytes; `None` if no bytes have arrived on it.
    pub(super) fn spoken(&mut self) -> Option<(Wire, Vec<u8>)> {
        if self.first.is_empty() {
            return None;
        }
        let next = self.next.take()?;
        Some((next, std::mem::take(&mut self.first)))
    }

    /// Takes the next channel, even if no bytes have arrived.
    pub(super) fn take(&mut self) -> Option<Wire> {
        self.next.take()
    }

    /// Waits for the next channel; `None` if the recording ends.
    pub(super) fn wait(
        &mut self,
        waiting: &Waiting,
        wire: &Wire,
        is_over: &dyn Fn() -> bool,
    ) -> Option<Wire> {
        while !is_over() && self.moves < MOVES_MAX {
            std::thread::sleep(PERIOD); // Time: between two looks.
            let newer = waiting.newer(wire);
            if let Some(newer) = newer.filter(|newer| is_of_same_user(wire, newer)) {
                return Some(newer);
            }
        }
        None
    }

    /// Notes that the guest uses its next channel from now on.
    pub(super) fn begin(&mut self) {
        self.unheard = Some(Instant::now());
    }

    /// Notes that bytes arrived on the channel. Returns whether they are the first ones since the guest changed to
    /// it.
    pub(super) fn hear(&mut self) -> bool {
        self.unheard.take().is_some()
    }

    /// Returns how long the channel has been silent, if nothing was ever received on it.
    pub(super) fn unheard(&self) -> Option<Duration> {
        self.unheard.map(|since| since.elapsed())
    }

    /// Notes that the guest's machine has moved. Messages are kept from now on until its clock is known again.
    pub(super) fn moved(&mut self) {
        self.moves += 1;
        self.held.get_or_insert_with(Vec::new);
    }

    /// Keeps a message if messages are being kept and there is room. Returns whether it was kept.
    pub(super) fn hold(&mut self, kind: u16, payload: &[u8]) -> bool {
        let Some(held) = &mut self.held else { return false };
        if self.held_bytes + payload.len() > HELD_MAX {
            return false;
        }
        self.held_bytes += payload.len();
        held.push((kind, payload.to_vec()));
        true
    }

    /// Returns the messages that were kept, in order.
    pub(super) fn release(&mut self) -> Vec<(u16, Vec<u8>)> {
        self.held_bytes = 0;
        self.held.take().unwrap_or_default()
    }
}

/// Returns whether the next channel belongs to the same user as the present one. A channel of another user cannot
/// belong to the same machine.
fn is_of_same_user(wire: &Wire, next: &Wire) -> bool {
    wire.peer_user() == next.peer_user()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    use strata_relay::Place;

    use super::*;
    use crate::scratch_tests::Scratch;

    #[test]
    fn next_channel_is_the_last_one_that_took_the_place_and_is_gone_over_to_when_it_speaks() {
        let scratch = Scratch::new("elsewhere");
        let path = scratch.0.join("port");
        let _first = UnixListener::bind(&path).unwrap();
        let waiting = Waiting::at(&Place::Path(path.clone())).unwrap();
        let wire = waiting.opened().unwrap().unwrap();
        let again = || {
            std::fs::remove_file(&path).unwrap();
            UnixListener::bind(&path).unwrap()
        };
        let (mut elsewhere, mut buffer) = (Elsewhere::new(), [0; 16]);
        let mut look = |elsewhere: &mut Elsewhere| {
            elsewhere.looked = Instant::now() - 2 * PERIOD;
            elsewhere.look(&waiting, &wire, &mut buffer);
        };
        look(&mut elsewhere);
        assert!(elsewhere.next.is_none());
        // One that has gone again, and the one after it.
        let second = again();
        look(&mut elsewhere);
        assert!(elsewhere.next.is_some());
        drop(second.accept().unwrap());
        let third = again();
        look(&mut elsewhere);
        let (mut there, _) = third.accept().unwrap();
        assert!(elsewhere.spoken().is_none());
        there.write_all(b"abc").unwrap();
        look(&mut elsewhere);
        let (next, said) = elsewhere.spoken().unwrap();
        assert_eq!((said.as_slice(), elsewhere.spoken().is_none()), (&b"abc"[..], true));
        there.write_all(b"d").unwrap();
        assert_eq!(next.read(&mut [0; 4], Duration::from_secs(60)).unwrap(), Some(1));
        // Who has accepted and gone is none.
        elsewhere.next = Some(next);
        drop((there, third));
        std::fs::remove_file(&path).unwrap();
        // Children of other tests have it until they execute something.
        let until = Instant::now() + Duration::from_secs(60);
        while elsewhere.next.is_some() {
            assert!(Instant::now() < until, "somebody has it still");
            look(&mut elsewhere);
        }
        assert!(elsewhere.take().is_none());
    }

    #[test]
    fn malicious_machine_that_moves_and_says_much_is_bounded() {
        let mut elsewhere = Elsewhere::new();
        assert!(!elsewhere.hold(1, b"at once"));
        elsewhere.begin();
        assert!(elsewhere.unheard().is_some() && elsewhere.hear() && !elsewhere.hear());
        elsewhere.moved();
        assert!(elsewhere.hold(1, b"a") && elsewhere.hold(2, &vec![0; HELD_MAX - 1]));
        assert!(!elsewhere.hold(3, b"b"));
        let kinds: Vec<u16> = elsewhere.release().iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [1, 2]);
        assert!(!elsewhere.hold(4, b"c") && elsewhere.release().is_empty());
        for _ in 1..MOVES_MAX {
            elsewhere.moved();
        }
        let scratch = Scratch::new("elsewhere-often");
        let path = scratch.0.join("port");
        let first = UnixListener::bind(&path).unwrap();
        let waiting = Waiting::at(&Place::Path(path.clone())).unwrap();
        let wire = waiting.opened().unwrap().unwrap();
        std::fs::remove_file(&path).unwrap();
        let _second = UnixListener::bind(&path).unwrap();
        elsewhere.looked = Instant::now() - 2 * PERIOD;
        elsewhere.look(&waiting, &wire, &mut [0; 4]);
        assert!(elsewhere.next.is_none());
        assert!(elsewhere.wait(&waiting, &wire, &|| false).is_none());
        drop(first);
    }
}
