//! Processes that have announced themselves before they made their memory, and when each is looked at.
//!
//! Looking into a process may take long: its user chooses how many descriptors it has. So one is looked at at a time,
//! with a pause that rises for each process, and that is a multiple of the time that its person has taken. A person can
//! therefore hold up its own processes only.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use strata_user::Sender as Announcer;

use super::arrival::Came;

/// The first pause before a process is looked at again; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(5);
/// The longest pause before a process is looked at again.
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// Bound on the time for looking for the memory of one user's processes: the pause is this many times as long as the
/// look.
const LOOK_SHARE: u32 = 20;
/// The most processes of one user whose memory is looked for.
pub(super) const EXPECTED_OF_PERSON: usize = 16;
/// The most processes whose memory is looked for, each of which takes a descriptor. A process beyond that is found by a
/// search.
pub(super) const EXPECTED_MAX: usize = 256;
/// The most processes of one user that are reported by name in quick succession because they could not create memory.
pub(super) const ERRORS_OF_PERSON: u32 = 32;
/// The time after which one more such process may be reported by name.
const ERROR_PERIOD: Duration = Duration::from_millis(100);
/// The time for which the processes of one user are examined when the recording ends.
const LAST_OF_PERSON: Duration = Duration::from_millis(200);

/// A process that announced itself before it had created its memory.
pub(super) struct ExpectedProcess {
    pub(super) sender: Announcer,
    pub(super) name: String,
    pub(super) came: Came,
    /// Time of the process's announcement.
    pub(super) since: Instant,
    next: Instant,
    pause: Duration,
}

impl ExpectedProcess {
    pub(super) fn new(
        sender: Announcer,
        name: String,
        came: Came,
        now: Instant,
    ) -> ExpectedProcess {
        ExpectedProcess { sender, name, came, since: now, next: now + PAUSE_MIN, pause: PAUSE_MIN }
    }
}

/// The time that looking for the memory of one user's processes has taken.
struct PersonTime {
    /// Time before which no process of this user is examined.
    next: Instant,
    /// Time that examining this user's processes has taken at the end of the recording.
    last: Duration,
}

/// What [`ExpectedProcesses::add`] did with a process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Addition {
    Added,
    /// The process is waiting already.
    Known,
    /// Too many processes of the same user are waiting.
    OfPersonFull,
    /// Too many processes of all users are waiting.
    Full,
}

/// The processes that announced themselves before they had created their memory.
#[derive(Default)]
pub(super) struct ExpectedProcesses {
    waiting: Vec<ExpectedProcess>,
    persons: HashMap<u32, PersonTime>,
    /// For each user whose processes were reported by name lately, the time after which the full number of reports is
    /// allowed again.
    errors: HashMap<u32, Instant>,
}

impl ExpectedProcesses {
    /// Adds a process, if there is room for it.
    pub(super) fn add(&mut self, one: ExpectedProcess) -> Addition {
        let is_it = |known: &ExpectedProcess| {
            known.sender.pid() == one.sender.pid() && known.sender.has_its_number()
        };
        if self.waiting.iter().any(is_it) {
            return Addition::Known;
        }
        let person = one.sender.person();
        let of_person = self.waiting.iter().filter(|known| known.sender.person() == person);
        if of_person.count() >= EXPECTED_OF_PERSON {
            return Addition::OfPersonFull;
        }
        if self.waiting.len() >= EXPECTED_MAX {
            return Addition::Full;
        }
        self.waiting.push(one);
        Addition::Added
    }

    /// Returns when the next process is due; `None` if there is none.
    pub(super) fn next(&self) -> Option<Instant> {
        self.waiting.iter().map(|one| self.due(one)).min()
    }

    fn due(&self, one: &ExpectedProcess) -> Instant {
        let person = self.persons.get(&one.sender.person());
        person.map_or(one.next, |person| one.next.max(person.next))
    }

    /// Takes the process that has been due for longest.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<ExpectedProcess> {
        self.persons.retain(|_, person| now < person.next || !person.last.is_zero());
        let due = self.waiting.iter().enumerate().map(|(at, one)| (self.due(one), at)).min()?;
        (due.0 <= now).then(|| self.waiting.remove(due.1))
    }

    /// Takes any process, at the end of the recording. The other value is false if the process is not to be examined,
    /// because its user's processes have used up their time.
    pub(super) fn take_last(&mut self) -> Option<(ExpectedProcess, bool)> {
        let one = self.waiting.pop()?;
        let person = self.persons.get(&one.sender.person());
        let has_time = person.is_none_or(|person| person.last < LAST_OF_PERSON);
        Some((one, has_time))
    }

    /// Counts the time `taken` for examining a process of the user `person`. `last`: true at the end of the
    /// recording.
    pub(super) fn took(&mut self, person: u32, taken: Duration, now: Instant, last: bool) {
        let of =
            self.persons.entry(person).or_insert(PersonTime { next: now, last: Duration::ZERO });
        of.next = now + taken * LOOK_SHARE;
        if last {
            of.last += taken;
        }
    }

    /// Puts a process back, to be examined again after a pause.
    pub(super) fn retry(&mut self, mut one: ExpectedProcess, now: Instant) {
        one.pause = (one.pause * 2).min(PAUSE_MAX);
        one.next = now + one.pause;
        self.waiting.push(one);
    }

    /// Returns whether one more process of the user `person` may be reported by name because it could not create
    /// memory.
    pub(super) fn may_name_error(&mut self, person: u32, now: Instant) -> bool {
        self.errors.retain(|_, until| *until > now);
        let until = self.errors.get(&person).map_or(now, |until| *until) + ERROR_PERIOD;
        let may = until <= now + ERROR_PERIOD * ERRORS_OF_PERSON;
        if may {
            self.errors.insert(person, until);
        }
        may
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}
