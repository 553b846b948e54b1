//! The table `files`: system calls by process and object, summed while the calls are made.
//!
//! Sums are by thread and object in memory, and go to a sorted file when there are many. The process of each thread is known
//! at the end: the sums of one object are then next to each other in that file, and are added up by process.

use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use strata_sql::{Cell, RowSink, TakenTable};

use crate::kept_values::{next, put};
use crate::sorted_rows::SortedRows;
use crate::threads::Threads;

/// The most sums in memory, and the most bytes of their keys.
const SUMS_MAX: usize = if cfg!(test) { 5 } else { 1 << 16 };
const KEY_BYTES: usize = 16 << 20;

/// Sums of calls.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: i64,
    errors: i64,
    total: i64,
    longest: i64,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.count = self.count.saturating_add(other.count);
        self.errors = self.errors.saturating_add(other.errors);
        self.total = self.total.saturating_add(other.total);
        self.longest = self.longest.max(other.longest);
    }

    fn cells(&self) -> [Cell<'static>; 4] {
        [self.count, self.errors, self.total, self.longest].map(Cell::Integer)
    }
}

/// Places of values in a row of system calls.
#[derive(Clone, Copy, Debug)]
struct CallPlaces {
    thread: usize,
    begin: usize,
    end: usize,
    error: usize,
    kind: usize,
    object: usize,
}

/// Sums calls by thread and object.
#[derive(Debug)]
pub(crate) struct FileSums {
    places: CallPlaces,
    folder: PathBuf,
    /// By thread, kind and object, as bytes.
    sums: HashMap<Vec<u8>, Sums>,
    key_bytes: usize,
    key: Vec<u8>,
    hash: RandomState,
    /// The sums that had no room, by a hash of the object.
    others: SortedRows,
}

impl FileSums {
    pub(crate) fn new(folder: &Path) -> Option<FileSums> {
        let column = |name| TakenTable::Syscall.column(name);
        Some(FileSums {
            places: CallPlaces {
                thread: column("thread")?,
                begin: column("begin_ns")?,
                end: column("end_ns")?,
                error: column("error")?,
                kind: column("object_kind")?,
                object: column("object")?,
            },
            folder: folder.to_owned(),
            sums: HashMap::new(),
            key_bytes: 0,
            key: Vec::new(),
            hash: RandomState::new(),
            others: SortedRows::new(folder),
        })
    }

    /// Adds a call, if it has an object that is no address.
    ///
    /// # Errors
    /// A file cannot be written.
    #[inline]
    pub(crate) fn add(&mut self, values: &[Cell<'_>]) -> io::Result<()> {
        let value = |place: usize| values.get(place).copied().unwrap_or(Cell::Null);
        let CallPlaces { thread, begin, end, error, kind, object } = self.places;
        if [Cell::Null, Cell::Text(b"address")].contains(&value(kind)) {
            return Ok(());
        }
        let (Cell::Integer(begin), Cell::Integer(end)) = (value(begin), value(end)) else {
            return Ok(());
        };
        let nanos = end.wrapping_sub(begin);
        let one = Sums {
            count: 1,
            errors: i64::from(value(error) != Cell::Null),
            total: nanos,
            longest: nanos,
        };
        self.key.clear();
        [thread, kind, object].iter().for_each(|place| put(&mut self.key, value(*place)));
        if let Some(sums) = self.sums.get_mut(&self.key) {
            sums.add(&one);
            return Ok(());
        }
        if self.sums.len() >= SUMS_MAX || self.key_bytes >= KEY_BYTES {
            self.make_room()?;
        }
        self.key_bytes += self.key.len();
        self.sums.insert(self.key.clone(), one);
        Ok(())
    }

    #[cold]
    fn make_room(&mut self) -> io::Result<()> {
        self.key_bytes = 0;
        for (key, sums) in self.sums.drain() {
            let mut object = &*key;
            next(&mut object);
            // Any bits do, as the order of objects does not matter.
            let hash = self.hash.hash_one(object) as i64;
            self.others.push(hash, |out| {
                out.extend_from_slice(&key);
                sums.cells().iter().for_each(|cell| put(out, *cell));
            })?;
        }
        Ok(())
    }

    /// Passes the rows to `sink`, those with the most time first.
    ///
    /// # Errors
    /// A file cannot be written or read, `stop` has returned true, or an error of `sink`.
    pub(crate) fn write(
        mut self,
        threads: &Threads,
        stop: &dyn Fn() -> bool,
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        self.make_room()?;
        let FileSums { folder, others, .. } = self;
        let mut rows = SortedRows::new(&folder);
        let mut objects = Objects { threads, sums: HashMap::new(), rows: &mut rows };
        let mut hash = None;
        others.drain(stop, |of, mut bytes| {
            if hash.replace(of).is_some_and(|before| before != of) {
                objects.end()?;
            }
            objects.add(&mut bytes);
            Ok(())
        })?;
        objects.end()?;
        rows.drain(stop, |_, mut bytes| {
            let cells: [Cell<'_>; 8] = std::array::from_fn(|_| next(&mut bytes));
            sink.row(&cells).map(drop)
        })
    }
}

/// The sums of the objects that have one hash, by process and object.
struct Objects<'o> {
    threads: &'o Threads,
    /// With the number of the thread that has made the longest call, whose names the row has.
    sums: HashMap<Vec<u8>, (i64, Sums)>,
    rows: &'o mut SortedRows,
}

impl Objects<'_> {
    fn add(&mut self, bytes: &mut &[u8]) {
        let thread = next(bytes);
        let (kind, object) = (next(bytes), next(bytes));
        let [count, errors, total, longest] = std::array::from_fn(|_| match next(bytes) {
            Cell::Integer(number) => number,
            _ => 0,
        });
        let sums = Sums { count, errors, total, longest };
        let (Some(of), Cell::Integer(number)) = (self.threads.of(thread), thread) else { return };
        let mut key = Vec::new();
        put(&mut key, of.home().map_or(Cell::Null, Cell::Integer));
        put(&mut key, kind);
        put(&mut key, object);
        match self.sums.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert((number, sums));
            }
            Entry::Occupied(mut entry) => {
                let (longest_of, all) = entry.get_mut();
                if sums.longest > all.longest {
                    *longest_of = number;
                }
                all.add(&sums);
            }
        }
    }

    fn end(&mut self) -> io::Result<()> {
        for (key, (thread, sums)) in self.sums.drain() {
            let mut object = &*key;
            next(&mut object);
            let Some(of) = self.threads.of(Cell::Integer(thread)) else { continue };
            // The greatest total comes first.
            self.rows.push(!sums.total, |out| {
                put(out, of.process());
                put(out, of.pid());
                out.extend_from_slice(object);
                sums.cells().iter().for_each(|cell| put(out, *cell));
            })?;
        }
        Ok(())
    }
}
