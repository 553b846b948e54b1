//! Where programs hold what a session records: it is noted outside of the session, so that whoever makes a session again
//! that was killed finds its slots, which are still in the programs' memory.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};

use strata_user::Application;

use crate::session::lock::lock;
use crate::standing::trust::{Estate, Trusted};

/// Lines that are noted; beyond, those of processes that have ended are let go, then the oldest. But for those of programs
/// that the trustee holds: it lets go of what nobody has noted.
const LINES_MAX: usize = 8192;

/// Keeps a text outside of the session, in the place of the one before, and gives the file that has it: lines are appended.
pub type WriteSlots = Box<dyn Fn(&str) -> io::Result<File> + Send + Sync>;

/// One session in one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    channel: String,
    pub(crate) generation: u64,
    pub(crate) pid: u32,
    pub(crate) inode: u64,
}

impl Slot {
    fn line(&self) -> String {
        let Slot { channel, generation, pid, inode } = self;
        format!("{channel} {generation:016x} {pid} {inode}\n")
    }

    /// `None`: it is none, or was not written to its end.
    fn parse(line: &str) -> Option<Slot> {
        let mut words = line.split(' ');
        let channel = words.next().filter(|name| !name.is_empty())?.to_owned();
        let generation = words.next().filter(|word| word.len() == 16)?;
        let generation = u64::from_str_radix(generation, 16).ok().filter(|one| *one != 0)?;
        let (pid, inode) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        words.next().is_none().then_some(Slot { channel, generation, pid, inode })
    }
}

/// What is noted, and where.
struct NotedSlots {
    write: WriteSlots,
    file: File,
    all: Vec<Slot>,
    /// With so many it is looked at who is still of interest.
    limit: usize,
}

impl fmt::Debug for NotedSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Noted").field("all", &self.all).finish_non_exhaustive()
    }
}

fn text_of(all: &[Slot]) -> String {
    all.iter().map(Slot::line).collect()
}

/// Of a session: those that it has, and those that the one before has left.
#[derive(Debug)]
pub struct Slots {
    noted: Mutex<NotedSlots>,
    left: Vec<Slot>,
    trusted: Option<Arc<Trusted>>,
}

/// Of one of its channels.
#[derive(Clone, Debug)]
pub(crate) struct ChannelSlots {
    pub(crate) all: Arc<Slots>,
    pub(crate) channel: String,
}

impl Slots {
    /// Noted by this. `before`: what the session has noted that was killed.
    ///
    /// # Errors
    /// Nothing can be noted; what is there stays.
    pub fn new(write: WriteSlots, before: &str) -> io::Result<Slots> {
        // What follows the last end of a line was not written to its end.
        let whole = before.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let left: Vec<Slot> = whole.lines().filter_map(Slot::parse).collect();
        // Should this one be killed before it has found them, the next one does.
        let all = left.clone();
        let file = write(&text_of(&all))?;
        let noted = NotedSlots { write, file, limit: LINES_MAX.max(2 * all.len()), all };
        Ok(Slots { noted: Mutex::new(noted), left, trusted: None })
    }

    /// The same; the memory of programs is held by this trustee, should the session be killed.
    #[must_use]
    pub fn entrusted(self, trusted: &Arc<Trusted>) -> Slots {
        let channels: HashSet<(u64, &str)> =
            self.left.iter().map(|slot| (slot.inode, &*slot.channel)).collect();
        let mut needed: HashMap<u64, u32> = HashMap::new();
        channels.iter().for_each(|(inode, _)| *needed.entry(*inode).or_default() += 1);
        trusted.expect(&needed);
        Slots { trusted: Some(Arc::clone(trusted)), ..self }
    }

    /// Who holds memory, should the session be killed.
    pub(super) fn trusted(&self) -> Option<&Trusted> {
        self.trusted.as_deref()
    }

    /// Of programs of the session before that have ended, and that the trustee still holds since no channel has taken
    /// them: what there is to say.
    pub(crate) fn untaken(&self) -> Option<String> {
        let number = self.trusted.as_ref()?.untaken();
        (number > 0).then(|| {
            format!(
                "the session before this one was killed: what {number} of its programs had recorded that have ended is in no \
                 trace, or not all of it: no channel of this session has taken it over"
            )
        })
    }

    /// A line that cannot be written is missing after a kill only.
    fn note(&self, slot: Slot) {
        let is_held = |inode: u64| self.trusted.as_ref().is_some_and(|one| one.holds(inode));
        let mut noted = lock(&self.noted);
        let noted = &mut *noted;
        if noted.all.len() < noted.limit {
            let written = noted.file.write_all(slot.line().as_bytes());
            noted.all.push(slot);
            if written.is_err() {
                // A part of it may be there: next time, all of them are written.
                noted.limit = 0;
            }
            return;
        }
        let kept = |one: &Slot| {
            is_held(one.inode) || Path::new("/proc").join(one.pid.to_string()).exists()
        };
        noted.all.retain(kept);
        let mut too_many = noted.all.len().saturating_sub(LINES_MAX / 2);
        noted.all.retain(|one| {
            let goes = too_many > 0 && !is_held(one.inode);
            too_many -= usize::from(goes);
            !goes
        });
        noted.all.push(slot);
        match (noted.write)(&text_of(&noted.all)) {
            Ok(file) => {
                noted.file = file;
                noted.limit = LINES_MAX.max(2 * noted.all.len());
            }
            // Those before are still there.
            Err(_) => noted.limit = 0,
        }
    }
}

impl ChannelSlots {
    /// Those that the session has left that was killed.
    pub(crate) fn left(&self) -> impl Iterator<Item = &Slot> {
        self.all.left.iter().filter(|slot| slot.channel == self.channel)
    }

    /// This process has a session of this channel. Its memory is held until [`let_go`](Self::let_go).
    pub(crate) fn hold(&self, generation: u64, application: &Application) {
        if let Some(trusted) = &self.all.trusted {
            trusted.hold(application);
        }
        // What is noted is held.
        self.note(generation, application.pid(), application.inode());
    }

    fn note(&self, generation: u64, pid: u32, inode: u64) {
        self.all.note(Slot { channel: self.channel.clone(), generation, pid, inode });
    }

    /// What this channel had in a process of this memory is written, or nothing is to be had of it.
    pub(crate) fn let_go(&self, inode: u64) {
        if let Some(trusted) = &self.all.trusted {
            trusted.let_go(inode);
        }
    }

    /// What this channel had, by the session that was killed, in a process of this memory is taken over, or will not be.
    pub(crate) fn took(&self, inode: u64) {
        if let Some(trusted) = &self.all.trusted {
            trusted.took(inode);
        }
    }

    /// Of the programs that the session has left that was killed, those whose memory its trustee holds.
    pub(crate) fn estates(&self) -> Vec<Estate> {
        let Some(trusted) = &self.all.trusted else { return Vec::new() };
        let left: HashSet<u64> = self.left().map(|slot| slot.inode).collect();
        trusted.estates().into_iter().filter(|one| left.contains(&one.inode)).collect()
    }

    /// Has the trustee of the session that was killed held this memory?
    pub(crate) fn has_held(&self, inode: u64) -> bool {
        self.all.trusted.as_ref().is_some_and(|trusted| trusted.has_held(inode))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_that_were_noted_are_left_and_those_of_nobody_are_not() {
        let path = std::env::temp_dir().join(format!("strata-slots-{}", std::process::id()));
        let write = || -> WriteSlots {
            let path = path.clone();
            Box::new(move |text| {
                let new = path.with_extension("new");
                let mut file = File::create(&new)?;
                file.write_all(text.as_bytes())?;
                std::fs::rename(new, &path)?;
                Ok(file)
            })
        };
        let new = |before: &str| Slots::new(write(), before).unwrap();
        let of = |slots: Slots, channel: &str| ChannelSlots {
            all: Arc::new(slots),
            channel: channel.to_owned(),
        };
        let big = of(new(""), "big");
        big.note(u64::MAX, 7, 9);
        let text =
            std::fs::read_to_string(&path).unwrap() + "odd\nbig 1 2 3\nbig 0000000000000001 2";
        let again = of(new(&text), "big");
        let left: Vec<&Slot> = again.left().collect();
        assert_eq!(left.len(), 1);
        assert_eq!((left[0].generation, left[0].pid, left[0].inode), (u64::MAX, 7, 9));
        // It is there at once.
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "big ffffffffffffffff 7 9\n");
        assert_eq!(of(new(&text), "small").left().count(), 0);
        // No process has this number: only our own is kept, and who is held.
        let again = of(new(&text).entrusted(&Arc::new(Trusted::holding(0))), "big");
        let own = std::process::id();
        again.note(5, own, 5);
        (0..2 * LINES_MAX as u64).for_each(|number| again.note(number + 10, u32::MAX, number));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.lines().count() <= LINES_MAX);
        assert!(text.lines().any(|line| line == format!("big 0000000000000005 {own} 5")));
        let held = format!("big 000000000000000a {} 0", u32::MAX);
        assert!(text.lines().any(|line| line == held));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn line_that_found_no_room_is_there_when_there_is_room_again() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let texts = Arc::clone(&written);
        let write: WriteSlots = Box::new(move |text: &str| {
            lock(&texts).push(text.to_owned());
            // Whatever is appended: there is no room.
            File::options().write(true).open("/dev/full")
        });
        let slots = Slots::new(write, "").unwrap();
        let slot = |pid| Slot { channel: "big".into(), generation: 1, pid, inode: 7 };
        let own = std::process::id();
        slots.note(slot(own));
        slots.note(slot(own));
        let line = slot(own).line();
        assert_eq!(*lock(&written), [String::new(), line.clone() + &line]);
    }
}
