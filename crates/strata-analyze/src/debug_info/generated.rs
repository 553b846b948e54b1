//! Names of code that programs have generated, by process, address and time.
//!
//! A recorder reads the files in which runtimes name such code, again and again. A name therefore has the time at which
//! it was found, and a greatest age, which is the time since the reading before. An address at a time has the last of
//! the names that may be as old as that. If there is none, it has the earliest later name, since a runtime may write
//! its file late.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use strata_ctf::read::{Event, FieldRef, Message, Reader, Scope, Stream, TimeRange, Trace, Value};
use strata_ctf::state_dump;

use super::lookup_limits::{size, Budget, Charge, BYTES_MAX};
use super::stack_fields::number;

/// The event whose records name pieces of generated code.
pub(super) const CODE_NAME: &str = "lttng_statedump_code_name";
/// The most names of generated code that are read from one trace.
const PIECES_MAX: usize = 1 << 21;
/// The most bytes of a name.
const NAME_MAX: usize = 1 << 10;
/// The memory of a piece in addition to its name, in all tables \[byte\].
const PIECE_BYTES: u64 = 176;
/// The most ancestors of a process whose generated code is searched.
const PARENTS_MAX: usize = 8;
/// The most processes whose parents are kept.
const PROCESSES_MAX: usize = 1 << 14;

/// A piece of generated code. Its name is a range of [`GeneratedCode::names`].
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: u64,
    bytes: u64,
    name: usize,
    name_bytes: u16,
    /// The time at which the recorder read the name from the process's file.
    time: i64,
    /// The time after which the name is valid; `i64::MIN` if the recorder's first reading found the name.
    due: i64,
}

/// The names that one reading of the recorder found in the file of a process.
#[derive(Debug)]
struct Reading {
    pid: i64,
    time: i64,
    /// The time after which the names are valid.
    due: i64,
    pieces: Range<usize>,
}

/// Indexes of pieces of code by the first address. The pieces do not overlap.
type ByAddress = BTreeMap<u64, usize>;

#[derive(Debug, Default)]
struct Process {
    /// The pieces at the present time.
    current: ByAddress,
    /// The piece of code that was named first at each address.
    earliest: ByAddress,
    /// The time at which the process last began, or executed another program. Names from before that time belong to
    /// another program.
    since: Option<i64>,
}

impl Process {
    /// Notes that the process begins, or executes another program, and has none of its former code.
    fn begins(&mut self, now: i64) {
        self.current.clear();
        self.since = Some(now);
    }

    /// Returns whether a name may belong to the program that the process executes now, rather than to an earlier one
    /// with the same process id.
    fn may_have(&self, piece: &Piece) -> bool {
        self.since
            .is_none_or(|since| piece.time > since && (piece.due == i64::MIN || piece.due >= since))
    }
}

/// The generated code of a trace's processes.
#[derive(Debug)]
pub(super) struct GeneratedCode {
    pieces: Vec<Piece>,
    names: Vec<u8>,
    processes: HashMap<i64, Process>,
    /// The parent of each forked process, whose generated code it shares.
    parents: HashMap<i64, i64>,
    /// Readings of the processes' lists of generated code, in the order in which their names take effect.
    due: Vec<Reading>,
    /// The number of readings whose names are in effect.
    applied: usize,
    /// The present time.
    now: i64,
    charge: Charge,
}

impl GeneratedCode {
    /// Returns a table without names.
    fn new(budget: &Arc<Budget>) -> GeneratedCode {
        GeneratedCode {
            pieces: Vec::new(),
            names: Vec::new(),
            processes: HashMap::new(),
            parents: HashMap::new(),
            due: Vec::new(),
            applied: 0,
            now: i64::MIN,
            charge: Charge::new(budget),
        }
    }

    /// Reads the names of generated code in a trace. Damaged parts are ignored.
    pub fn read(reader: &Reader, trace: &Trace, budget: &Arc<Budget>) -> GeneratedCode {
        let mut code = GeneratedCode::new(budget);
        let is_of = |stream: &Stream| stream.trace().index() == trace.index();
        let mut own = reader.streams().iter().filter(|stream| is_of(stream));
        let Some(first) = own.find(|it| it.name() == state_dump::FILE).and_then(Stream::id) else {
            return code;
        };
        let is_names = |stream: &Stream| {
            let behind = stream.id().and_then(|id| id.checked_sub(first));
            is_of(stream) && behind == Some(state_dump::NAMES_BEHIND)
        };
        if !reader.streams().iter().any(is_names) {
            return code;
        }
        let mut readings: Vec<Reading> = Vec::new();
        let mut fields: Option<[FieldRef; 5]> = None;
        let mut events = reader.events_of_streams(TimeRange::ALL, &is_names);
        while let Some(message) = events.next() {
            let Message::Event(event) = message else { continue };
            let Some(time) = event.time().filter(|_| event.class().name() == CODE_NAME) else {
                continue;
            };
            if fields.is_none() {
                fields = name_fields(&event);
            }
            let piece = fields.as_ref().and_then(|it| code.piece(&event, time, it));
            let Some((pid, piece)) = piece else { continue };
            let due = piece.due;
            let at = code.pieces.len();
            code.pieces.push(piece);
            let is_same = |it: &&mut Reading| it.pid == pid && it.time == time && it.due == due;
            match readings.last_mut().filter(is_same) {
                Some(last) => last.pieces.end = at + 1,
                None => readings.push(Reading { pid, time, due, pieces: at..at + 1 }),
            }
        }
        code.sort(readings);
        code
    }

    /// Reads the piece of code that a record names, and its process; `None` if the record is not valid, or there is
    /// no room.
    fn piece(
        &mut self,
        event: &Event<'_>,
        time: i64,
        fields: &[FieldRef; 5],
    ) -> Option<(i64, Piece)> {
        let [pid, start, bytes, age, name] = fields;
        let ask = |field: &FieldRef| number(event.value(field));
        let (pid, start, bytes) = (ask(pid)? as i64, ask(start)?, ask(bytes)?);
        let due = i64::try_from(ask(age)?).map_or(i64::MIN, |age| time.saturating_sub(age));
        let Value::Text(name) = event.value(name)? else { return None };
        let name = name.get(..NAME_MAX).unwrap_or(name);
        start.checked_add(bytes).filter(|end| *end > start)?;
        let memory = PIECE_BYTES + name.len() as u64;
        if self.pieces.len() >= PIECES_MAX || !self.charge.add(memory) {
            self.charge.budget().remark(format!(
                "{} names of generated code were read, and no more, as they take what is left of the {} for all files and \
                 processes: other generated code has no names",
                self.pieces.len(),
                size(BYTES_MAX)
            ));
            return None;
        }
        let at = self.names.len();
        self.names.extend_from_slice(name);
        let name_bytes = u16::try_from(name.len()).ok()?;
        Some((pid, Piece { start, bytes, name: at, name_bytes, time, due }))
    }

    /// Sorts readings by the times after which their names are valid.
    fn sort(&mut self, mut readings: Vec<Reading>) {
        readings.sort_by_key(|reading| reading.time);
        for reading in readings.iter().rev() {
            let process = self.processes.entry(reading.pid).or_default();
            reading.pieces.clone().for_each(|at| put(&mut process.earliest, &self.pieces, at));
        }
        readings.sort_by_key(|reading| reading.due);
        self.due = readings;
    }

    /// Sets the present time, which must not go back. Returns true if the name of any address changes.
    pub fn advance(&mut self, time: i64) -> bool {
        self.now = time;
        let before = self.applied;
        while let Some(reading) = self.due.get(self.applied).filter(|it| it.due < time) {
            let process = self.processes.entry(reading.pid).or_default();
            reading.pieces.clone().for_each(|at| put(&mut process.current, &self.pieces, at));
            self.applied += 1;
        }
        self.applied > before
    }

    /// Returns true if there are no names.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Notes that a process was forked, and has the code of its parent. Forgets an earlier process with the same id.
    pub fn forked(&mut self, parent: i64, pid: i64) {
        self.executed(pid);
        let has_code = self.processes.contains_key(&parent) || self.parents.contains_key(&parent);
        if has_code && self.parents.len() < PROCESSES_MAX {
            self.parents.insert(pid, parent);
        }
    }

    /// Notes that a process executes another program, and has none of its former code.
    pub fn executed(&mut self, pid: i64) {
        self.parents.remove(&pid);
        if let Some(process) = self.processes.get_mut(&pid) {
            process.begins(self.now);
        }
    }

    /// Returns the name of the code at an address of a process, and the distance from the code's begin.
    pub fn find(&self, pid: i64, address: u64) -> Option<(&[u8], u64)> {
        let mut pid = pid;
        for _ in 0..=PARENTS_MAX {
            let process = self.processes.get(&pid);
            let found = process.and_then(|process| {
                let current = self.at(&process.current, address);
                current.or_else(|| {
                    self.at(&process.earliest, address).filter(|(piece, _)| process.may_have(piece))
                })
            });
            if let Some((piece, offset)) = found {
                let name = piece.name..piece.name + usize::from(piece.name_bytes);
                return Some((self.names.get(name)?, offset));
            }
            pid = *self.parents.get(&pid)?;
        }
        None
    }

    fn at(&self, by_address: &ByAddress, address: u64) -> Option<(&Piece, u64)> {
        let (_, &at) = by_address.range(..=address).next_back()?;
        let piece = self.pieces.get(at)?;
        let offset = address.checked_sub(piece.start).filter(|offset| *offset < piece.bytes)?;
        Some((piece, offset))
    }
}

/// Returns the fields of a name: process, begin, size, greatest age, and the name itself.
fn name_fields(event: &Event<'_>) -> Option<[FieldRef; 5]> {
    let of = |name: &str| event.class().find_in(Scope::Payload, name);
    Some([of("pid")?, of("start")?, of("size")?, of("age_max")?, of("name")?])
}

/// Adds a piece of code, and removes all pieces that it overlaps.
fn put(by_address: &mut ByAddress, pieces: &[Piece], at: usize) {
    let Some(piece) = pieces.get(at) else { return };
    let end = piece.start.saturating_add(piece.bytes);
    let overlaps = |at: &usize| {
        pieces.get(*at).is_some_and(|it| it.start.saturating_add(it.bytes) > piece.start)
    };
    while let Some((&start, _)) = by_address.range(..end).next_back().filter(|it| overlaps(it.1)) {
        by_address.remove(&start);
    }
    by_address.insert(piece.start, at);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The begin, size and name of a piece.
    type Named = (u64, u64, &'static str);

    /// A table with these readings, each of a process, with the times of it and of the one before, and its pieces.
    fn table(readings: &[(i64, i64, i64, &[Named])]) -> GeneratedCode {
        let mut code = GeneratedCode::new(&Arc::default());
        let mut all = Vec::new();
        for (pid, time, due, pieces) in readings {
            let begin = code.pieces.len();
            for (start, bytes, name) in *pieces {
                let at = code.names.len();
                code.names.extend(name.bytes());
                let name_bytes = name.len() as u16;
                let (start, bytes, time, due) = (*start, *bytes, *time, *due);
                code.pieces.push(Piece { start, bytes, name: at, name_bytes, time, due });
            }
            all.push(Reading {
                pid: *pid,
                time: *time,
                due: *due,
                pieces: begin..code.pieces.len(),
            });
        }
        code.sort(all);
        code
    }

    fn name(code: &GeneratedCode, pid: i64, address: u64) -> String {
        let found = code.find(pid, address);
        let text = |(name, offset)| format!("{}+{offset}", String::from_utf8_lossy(name));
        found.map(text).unwrap_or_default()
    }

    #[test]
    fn name_of_an_address_is_that_of_the_time() {
        let mut code = table(&[
            (1, 10, i64::MIN, &[(100, 10, "old"), (200, 10, "other")]),
            (1, 20, 10, &[(105, 10, "new")]),
            (1, 30, 20, &[(200, 10, "late"), (300, 5, "last")]),
            (2, 15, i64::MIN, &[(100, 10, "of two")]),
        ]);
        assert!(code.advance(5));
        assert_eq!([name(&code, 1, 102), name(&code, 1, 106)], ["old+2", "old+6"]);
        assert_eq!(name(&code, 2, 100), "of two+0");
        // Nothing names it up to then, so it is named by what comes later; but not by what an earlier piece overlaps.
        assert_eq!([name(&code, 1, 300), name(&code, 1, 112)], ["last+0", ""]);
        assert!(!code.advance(10));
        assert!(code.advance(11));
        assert_eq!([name(&code, 1, 102), name(&code, 1, 106)], ["old+2", "new+1"]);
        assert_eq!(name(&code, 1, 201), "other+1");
        assert!(code.advance(25));
        assert_eq!([name(&code, 1, 201), name(&code, 1, 305)], ["late+1", ""]);
        assert_eq!(name(&code, 3, 100), "");
    }

    #[test]
    fn later_lines_of_one_reading_are_in_the_place_of_earlier_ones() {
        let mut code = table(&[(1, 10, 0, &[(100, 100, "a"), (110, 5, "b"), (90, 15, "c")])]);
        assert!(code.advance(1));
        let names = [95, 104, 112, 150].map(|address| name(&code, 1, address));
        assert_eq!(names, ["c+5", "c+14", "b+2", ""]);
    }

    #[test]
    fn child_has_the_names_of_its_parent_until_it_executes_a_program() {
        let mut code =
            table(&[(1, 10, 0, &[(100, 10, "a")]), (2, 10, i64::MIN, &[(200, 10, "b")])]);
        code.advance(1);
        code.forked(1, 2);
        code.forked(2, 3);
        code.forked(8, 9);
        assert_eq!(
            [name(&code, 2, 100), name(&code, 3, 100), name(&code, 3, 200)],
            ["a+0", "a+0", "b+0"]
        );
        code.executed(2);
        assert_eq!([name(&code, 2, 100), name(&code, 9, 100)], ["", ""]);
        // Forged, in a circle.
        code.forked(2, 1);
        code.forked(1, 2);
        assert_eq!(name(&code, 1, 999), "");
    }

    #[test]
    fn process_has_no_names_of_an_earlier_one_with_its_number_or_of_its_earlier_program() {
        let mut code = table(&[
            (1, 10, i64::MIN, &[(100, 10, "a")]),
            // The last reading of what was executed before is after the next one began.
            (1, 30, 10, &[(200, 10, "b")]),
            (1, 40, i64::MIN, &[(300, 10, "c")]),
            (5, 10, i64::MIN, &[(500, 10, "e")]),
        ]);
        let names = |code: &GeneratedCode| [100, 200, 300].map(|at| name(code, 1, at));
        code.advance(15);
        assert_eq!(names(&code), ["a+0", "b+0", "c+0"]);
        code.forked(5, 1);
        code.advance(20);
        // A later one inherits from its own parent, which has no code.
        code.forked(8, 1);
        assert_eq!(names(&code), ["", "", "c+0"]);
        assert_eq!(name(&code, 1, 500), "");
        code.advance(50);
        code.executed(1);
        assert_eq!(names(&code), ["", "", ""]);
    }
}
