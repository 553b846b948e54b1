//! Where a guest goes on when another hypervisor takes its machine over: the channel that is there next, and what came by it
//! before its clock was known again.

use std::time::{Duration, Instant};

use strata_relay::{Waiting, Wire};

/// How often it is looked whether another one is there.
const PERIOD: Duration = Duration::from_millis(100);
/// A machine that has moved more often is not followed any more.
const MOVES_MAX: u64 = 64;
/// Of what comes before the clock is known again \[byte\].
const HELD_MAX: usize = 64 << 20;

/// Of one guest.
#[derive(Debug)]
pub(super) struct Elsewhere {
    /// A socket that has the place of the one that is listened to.
    next: Option<Wire>,
    /// What has come by it already: only who runs the machine says anything.
    first: Vec<u8>,
    looked: Instant,
    /// How often another process took its machine over.
    moves: u64,
    /// Since when nothing has been heard by this channel, which is not the first one.
    unheard: Option<Instant>,
    /// Messages that wait for the clock: kind and payload.
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

    /// Looks whether another socket is there, and whether it says anything. Before the one that ends is read: what is not there
    /// then, it does not say any more once the other one speaks.
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
            // A migration that has failed.
            Ok(Some(_)) | Err(_) => self.next = None,
        }
    }

    /// The next one, and what it has said, if it has.
    pub(super) fn spoken(&mut self) -> Option<(Wire, Vec<u8>)> {
        if self.first.is_empty() {
            return None;
        }
        let next = self.next.take()?;
        Some((next, std::mem::take(&mut self.first)))
    }

    /// The next one, though it has not said anything yet.
    pub(super) fn take(&mut self) -> Option<Wire> {
        self.next.take()
    }

    /// Waits for the next one. `None`: nobody wants to wait any more.
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

    /// This channel is another one from now on.
    pub(super) fn begin(&mut self) {
        self.unheard = Some(Instant::now());
    }

    /// It has said something. Returns whether that is the first.
    pub(super) fn hear(&mut self) -> bool {
        self.unheard.take().is_some()
    }

    /// For how long it has said nothing, if it never has.
    pub(super) fn unheard(&self) -> Option<Duration> {
        self.unheard.map(|since| since.elapsed())
    }

    /// The machine has moved: until its clock is known again, what it says waits.
    pub(super) fn moved(&mut self) {
        self.moves += 1;
        self.held.get_or_insert_with(Vec::new);
    }

    /// Keeps a message, if they wait and there is room. Returns whether it did.
    pub(super) fn hold(&mut self, kind: u16, payload: &[u8]) -> bool {
        let Some(held) = &mut self.held else { return false };
        if self.held_bytes + payload.len() > HELD_MAX {
            return false;
        }
        self.held_bytes += payload.len();
        held.push((kind, payload.to_vec()));
        true
    }

    /// What has waited, in its order.
    pub(super) fn release(&mut self) -> Vec<(u16, Vec<u8>)> {
        self.held_bytes = 0;
        self.held.take().unwrap_or_default()
    }
}

/// Who has another user's place now is not taken for the machine that was there.
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
