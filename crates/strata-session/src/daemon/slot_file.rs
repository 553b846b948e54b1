//! Notes the slots that a session has in programs. The notes are kept outside of the session's process, so that a
//! killed session that is restored finds its slots, which are still in the programs' memory.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};

use strata_user::Application;

use crate::daemon::fdstore::{FdStore, StoredProgram};
use crate::session::lock::lock;

/// The most slots that are noted. Above that, slots of processes that have ended are forgotten, then the oldest. Slots
/// of programs in the fdstore are kept, since the fdstore releases memory that nobody has noted.
const LINES_MAX: usize = 8192;

/// Function that replaces a text kept outside of the session's process, and returns its file for appending lines.
pub type WriteSlots = Box<dyn Fn(&str) -> io::Result<File> + Send + Sync>;

/// A session's slot in a process.
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

    /// Parses a line. Returns `None` if it is not a slot or is incomplete.
    fn parse(line: &str) -> Option<Slot> {
        let mut words = line.split(' ');
        let channel = words.next().filter(|name| !name.is_empty())?.to_owned();
        let generation = words.next().filter(|word| word.len() == 16)?;
        let generation = u64::from_str_radix(generation, 16).ok().filter(|one| *one != 0)?;
        let (pid, inode) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        words.next().is_none().then_some(Slot { channel, generation, pid, inode })
    }
}

/// The noted slots and their file.
struct NotedSlots {
    write: WriteSlots,
    file: File,
    all: Vec<Slot>,
    /// The number of slots at which outdated slots are removed.
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

/// The slots of a session: its own, and those of the killed session before it.
#[derive(Debug)]
pub struct Slots {
    noted: Mutex<NotedSlots>,
    left: Vec<Slot>,
    fdstore: Option<Arc<FdStore>>,
}

/// The slots of one channel.
#[derive(Clone, Debug)]
pub(crate) struct ChannelSlots {
    pub(crate) all: Arc<Slots>,
    pub(crate) channel: String,
}

impl Slots {
    /// Creates the slots. `write` stores them, and `before` is the text that the killed session stored.
    ///
    /// # Errors
    /// The text cannot be stored; the earlier one stays.
    pub fn new(write: WriteSlots, before: &str) -> io::Result<Slots> {
        // Text after the last end of a line is an incomplete line.
        let whole = before.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let left: Vec<Slot> = whole.lines().filter_map(Slot::parse).collect();
        // The slots are noted again, in case this session is killed before it has found them.
        let all = left.clone();
        let file = write(&text_of(&all))?;
        let noted = NotedSlots { write, file, limit: LINES_MAX.max(2 * all.len()), all };
        Ok(Slots { noted: Mutex::new(noted), left, fdstore: None })
    }

    /// Adds the fdstore that holds the memory of programs.
    #[must_use]
    pub fn with_fdstore(self, fdstore: &Arc<FdStore>) -> Slots {
        let channels: HashSet<(u64, &str)> =
            self.left.iter().map(|slot| (slot.inode, &*slot.channel)).collect();
        let mut needed: HashMap<u64, u32> = HashMap::new();
        channels.iter().for_each(|(inode, _)| *needed.entry(*inode).or_default() += 1);
        fdstore.expect(&needed);
        Slots { fdstore: Some(Arc::clone(fdstore)), ..self }
    }

    /// Returns the fdstore, if there is one.
    pub(crate) fn fdstore(&self) -> Option<&FdStore> {
        self.fdstore.as_deref()
    }

    /// Returns a remark if the fdstore still holds the memory of ended programs of the killed session that no channel
    /// has taken over.
    pub(crate) fn untaken(&self) -> Option<String> {
        let number = self.fdstore.as_ref()?.untaken();
        (number > 0).then(|| {
            format!(
                "the session before this one was killed: what {number} of its programs had recorded that have ended is in no \
                 trace, or not all of it: no channel of this session has taken it over"
            )
        })
    }

    /// Notes a slot. A line that cannot be written only matters after a kill.
    fn note(&self, slot: Slot) {
        let is_held = |inode: u64| self.fdstore.as_ref().is_some_and(|one| one.holds(inode));
        let mut noted = lock(&self.noted);
        let noted = &mut *noted;
        if noted.all.len() < noted.limit {
            let written = noted.file.write_all(slot.line().as_bytes());
            noted.all.push(slot);
            if written.is_err() {
                // The line may be incomplete, so all lines are written anew next time.
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
            // The earlier lines are still in the file.
            Err(_) => noted.limit = 0,
        }
    }
}

impl ChannelSlots {
    /// Returns the slots of this channel that the killed session has left.
    pub(crate) fn left(&self) -> impl Iterator<Item = &Slot> {
        self.all.left.iter().filter(|slot| slot.channel == self.channel)
    }

    /// Notes that the process has a session of this channel, and holds its memory until [`let_go`](Self::let_go).
    pub(crate) fn hold(&self, generation: u64, application: &Application) {
        if let Some(fdstore) = &self.all.fdstore {
            fdstore.hold(application);
        }
        // A noted slot is always held first.
        self.note(generation, application.pid(), application.inode());
    }

    fn note(&self, generation: u64, pid: u32, inode: u64) {
        self.all.note(Slot { channel: self.channel.clone(), generation, pid, inode });
    }

    /// Releases a process's memory, after this channel has written everything or has nothing to write.
    pub(crate) fn let_go(&self, inode: u64) {
        if let Some(fdstore) = &self.all.fdstore {
            fdstore.let_go(inode);
        }
    }

    /// Notes that this channel has taken over the killed session's slot in a process, or will not.
    pub(crate) fn took(&self, inode: u64) {
        if let Some(fdstore) = &self.all.fdstore {
            fdstore.took(inode);
        }
    }

    /// Returns the memory of programs in the killed session's slots of this channel that the fdstore holds.
    pub(crate) fn stored_programs(&self) -> Vec<StoredProgram> {
        let Some(fdstore) = &self.all.fdstore else { return Vec::new() };
        let left: HashSet<u64> = self.left().map(|slot| slot.inode).collect();
        fdstore.stored_programs().into_iter().filter(|one| left.contains(&one.inode)).collect()
    }

    /// Returns whether the killed session's fdstore held this memory.
    pub(crate) fn has_held(&self, inode: u64) -> bool {
        self.all.fdstore.as_ref().is_some_and(|fdstore| fdstore.has_held(inode))
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
        let again = of(new(&text).with_fdstore(&Arc::new(FdStore::holding(0))), "big");
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
