//! The table function `span_join(LEFT, RIGHT, KEY)`: the overlaps of the intervals in two tables of the timeline.
//!
//! A join by comparing begins and ends compares each row with each other one of its key. Here both tables come sorted by their begins,
//! and each row meets those alone that are open when it begins.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{c_int, CStr};

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConnection, VTabCursor,
};
use rusqlite::{ffi, Connection, Error, Result};

/// Name of the function.
pub(crate) const NAME: &str = "span_join";
const MODULE: &CStr = c"span_join";
/// Columns of the result; the last three are the function's arguments.
const COLUMNS: &CStr =
    c"CREATE TABLE x(begin_ns INTEGER, end_ns INTEGER, duration_ns INTEGER, key, \
    left_id INTEGER, right_id INTEGER, left_table HIDDEN, right_table HIDDEN, key_column HIDDEN)";
const FIRST_ARGUMENT: c_int = 6;
/// Intervals of a table, and overlaps, that are kept: 3 GiB at most.
const ROWS_MAX: usize = 1 << 25;

/// Adds the function to a connection.
///
/// # Errors
/// SQLite refuses the function, which is a mistake of this crate.
pub(crate) fn add(connection: &Connection) -> Result<()> {
    const SPAN_JOIN: Module<'_, SpanJoinVTab> = Module::eponymous_only_module();
    connection.create_module(MODULE, &SPAN_JOIN, None::<()>)
}

#[repr(C)]
struct SpanJoinVTab {
    /// SQLite's own part, which must be the first.
    base: ffi::sqlite3_vtab,
    /// Connection of the table, which outlives the table.
    connection: *mut ffi::sqlite3,
}

fn failed(text: String) -> Error {
    Error::ModuleError(text)
}

// SAFETY: `SpanJoinVTab` is `repr(C)`, and its first member is SQLite's part.
unsafe impl VTab<'_> for SpanJoinVTab {
    type Aux = ();
    type Cursor = SpanJoinCursor;

    fn connect(
        connection: &mut VTabConnection,
        _: Option<&()>,
        _module: &[u8],
        _database: &[u8],
        _table: &[u8],
        _: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Self)> {
        // SAFETY: The handle is used only in `filter`, which SQLite calls while the connection is open, in the thread
        // that uses it.
        let connection = unsafe { connection.handle() };
        let table = SpanJoinVTab { base: ffi::sqlite3_vtab::default(), connection };
        Ok((Cow::Borrowed(COLUMNS), table))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        let mut arguments = [None; 3];
        for (index, constraint) in info.constraints().enumerate() {
            let Ok(argument) = usize::try_from(constraint.column() - FIRST_ARGUMENT) else {
                continue;
            };
            if constraint.operator() != IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ {
                continue;
            }
            // With another order of the tables, the value is available.
            if !constraint.is_usable() {
                return Ok(false);
            }
            if let Some(place) = arguments.get_mut(argument) {
                *place = Some(index);
            }
        }
        let given = arguments.iter().take_while(|place| place.is_some()).count();
        for (number, index) in arguments.into_iter().take(given).flatten().enumerate() {
            let mut usage = info.constraint_usage(index);
            usage.set_argv_index(c_int::try_from(number + 1).unwrap_or(c_int::MAX));
            usage.set_omit(true);
        }
        info.set_idx_num(c_int::try_from(given).unwrap_or(0));
        info.set_estimated_cost(1e6);
        info.set_estimated_rows(100_000);
        Ok(true)
    }

    fn open(&mut self) -> Result<SpanJoinCursor> {
        Ok(SpanJoinCursor {
            base: ffi::sqlite3_vtab_cursor::default(),
            connection: self.connection,
            keys: Vec::new(),
            overlaps: Vec::new(),
            row: 0,
        })
    }
}

/// An interval of a table.
#[derive(Clone, Copy, Debug)]
struct Interval {
    begin: i64,
    end: i64,
    id: i64,
}

/// The common part of two intervals.
#[derive(Clone, Copy, Debug)]
struct Overlap {
    begin: i64,
    end: i64,
    key: usize,
    left: i64,
    right: i64,
}

#[repr(C)]
struct SpanJoinCursor {
    /// SQLite's own part, which must be the first.
    base: ffi::sqlite3_vtab_cursor,
    connection: *mut ffi::sqlite3,
    keys: Vec<Value>,
    overlaps: Vec<Overlap>,
    row: usize,
}

/// A key in a form that a map can have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Integer(i64),
    Real(u64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl Key {
    /// Converts a value to a key; `None` for NULL, which equals nothing.
    fn of(value: ValueRef<'_>) -> Option<Key> {
        Some(match value {
            ValueRef::Null => return None,
            ValueRef::Integer(value) => Key::Integer(value),
            ValueRef::Real(value) => match value as i64 {
                // SQL's 1.0 is equal to 1, and -0.0 to 0. The largest number is none of the real ones.
                whole if whole as f64 == value && whole != i64::MAX => Key::Integer(whole),
                _ => Key::Real(value.to_bits()),
            },
            ValueRef::Text(bytes) => Key::Text(bytes.to_vec()),
            ValueRef::Blob(bytes) => Key::Blob(bytes.to_vec()),
        })
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Passes on the intervals of a table, sorted by key and begin. Intervals that end before they begin are left out.
fn read(
    connection: &Connection,
    table: &str,
    key: Option<&str>,
    take: &mut dyn FnMut(Key, ValueRef<'_>, Interval) -> Result<()>,
) -> Result<()> {
    let by = key.map_or("0".to_owned(), |key| format!("t.{}", quoted(key)));
    let query = format!(
        "SELECT {by}, t.begin_ns, t.end_ns, t.id FROM main.{} AS t ORDER BY 1, 2",
        quoted(table)
    );
    let mut statement = connection.prepare(&query).map_err(|error| {
        failed(format!(
            "span_join: '{table}' is no table with the columns id, begin_ns, end_ns{}{}: {error}. Use state, syscall, cpu_run, \
             interrupt, request, span, counter or lock_wait",
            if key.is_some() { " and " } else { "" },
            key.unwrap_or_default()
        ))
    })?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let value = row.get_ref(0)?;
        let time = |column| row.get_ref(column).map(|value| value.as_i64().ok());
        if let (Some(key), Some(begin), Some(end), Some(id)) =
            (Key::of(value), time(1)?, time(2)?, time(3)?)
        {
            if begin <= end {
                take(key, value, Interval { begin, end, id })?;
            }
        }
    }
    Ok(())
}

/// Intervals of one table that have begun, by their begins; those that have ended are removed now and then.
#[derive(Default)]
struct Open {
    intervals: Vec<Interval>,
    /// The time at which the ended ones were removed last.
    removed_at: Option<i64>,
    /// How many were left then.
    left: usize,
}

impl Open {
    fn remove_ended(&mut self, now: i64) {
        if self.removed_at != Some(now) {
            self.intervals.retain(|interval| interval.end > now);
            (self.removed_at, self.left) = (Some(now), self.intervals.len());
        }
    }

    /// Returns the intervals that are open when `other` begins and that overlap it.
    fn overlapping(&mut self, other: Interval) -> impl Iterator<Item = Interval> + '_ {
        self.remove_ended(other.begin);
        self.intervals.iter().copied().take_while(move |interval| interval.begin < other.end)
    }

    fn push(&mut self, interval: Interval) {
        // One without length is over at once.
        if interval.begin < interval.end {
            if self.intervals.len() > 2 * self.left + 64 {
                self.remove_ended(interval.begin);
            }
            self.intervals.push(interval);
        }
    }
}

/// The intervals of one key.
#[derive(Default)]
struct Sides {
    /// All of the right table, by their begins.
    right: Vec<Interval>,
    /// The number of the key's intervals that have begun.
    begun: usize,
    open_right: Open,
    open_left: Open,
}

impl Sides {
    /// Advances to the begin of the next interval of the left table, or to the end, and returns the pairs that
    /// overlap.
    ///
    /// An interval that begins meets the open ones of the other table, each of which overlaps it: there are no more steps than pairs
    /// and intervals.
    fn go_on(
        &mut self,
        to: Option<Interval>,
        pair: &mut dyn FnMut(Interval, Interval) -> Result<()>,
    ) -> Result<()> {
        let begins = |other: &&Interval| to.is_none_or(|to| other.begin < to.begin);
        while let Some(&right) = self.right.get(self.begun).filter(begins) {
            self.begun += 1;
            self.open_left.overlapping(right).try_for_each(|left| pair(left, right))?;
            self.open_right.push(right);
        }
        if let Some(left) = to {
            self.open_right.overlapping(left).try_for_each(|right| pair(left, right))?;
            self.open_left.push(left);
        }
        Ok(())
    }
}

impl SpanJoinCursor {
    fn join(&mut self, left: &str, right: &str, key: Option<&str>) -> Result<()> {
        // SAFETY: SQLite calls this through the connection, which is open and used by this thread; the value does not
        // own it.
        let connection = unsafe { Connection::from_handle(self.connection)? };
        let too_many =
            || failed(format!("span_join: more than {ROWS_MAX} rows. Choose smaller tables"));
        let mut sides: HashMap<Key, Sides> = HashMap::new();
        let mut count = 0_usize;
        read(&connection, right, key, &mut |key, _, interval| {
            count += 1;
            if count > ROWS_MAX {
                return Err(too_many());
            }
            sides.entry(key).or_default().right.push(interval);
            Ok(())
        })?;
        let mut last: Option<(Key, Sides)> = None;
        let (keys, overlaps) = (&mut self.keys, &mut self.overlaps);
        let mut add = |key: usize, left: Interval, right: Interval| {
            let (begin, end) = (left.begin.max(right.begin), left.end.min(right.end));
            if overlaps.len() >= ROWS_MAX {
                return Err(too_many());
            }
            overlaps.push(Overlap { begin, end, key, left: left.id, right: right.id });
            Ok(())
        };
        read(&connection, left, key, &mut |key, value, of| {
            if last.as_ref().is_none_or(|(known, _)| *known != key) {
                if let Some((_, mut sides)) = last.take() {
                    sides.go_on(None, &mut |left, right| add(keys.len() - 1, left, right))?;
                }
                let Some(sides) = sides.remove(&key) else { return Ok(()) };
                keys.push(Value::try_from(value)?);
                last = Some((key, sides));
            }
            let Some((_, sides)) = &mut last else { return Ok(()) };
            sides.go_on(Some(of), &mut |left, right| add(keys.len() - 1, left, right))
        })?;
        match last {
            Some((_, mut sides)) => {
                sides.go_on(None, &mut |left, right| add(keys.len() - 1, left, right))
            }
            None => Ok(()),
        }
    }
}

// SAFETY: `SpanJoinCursor` is `repr(C)`, and its first member is SQLite's part.
unsafe impl VTabCursor for SpanJoinCursor {
    fn filter(&mut self, given: c_int, _: Option<&str>, args: &Filters<'_>) -> Result<()> {
        self.keys.clear();
        self.overlaps.clear();
        self.row = 0;
        if given < 2 {
            return Err(failed(
                "span_join takes two tables, and the column that is equal in both: span_join('state', 'syscall', 'thread')"
                    .to_owned(),
            ));
        }
        let left: String = args.get(0)?;
        let right: String = args.get(1)?;
        let key: Option<String> = if given > 2 { args.get(2)? } else { None };
        self.join(&left, &right, key.as_deref())
    }

    fn next(&mut self) -> Result<()> {
        self.row += 1;
        Ok(())
    }

    fn eof(&self) -> bool {
        self.row >= self.overlaps.len()
    }

    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        let Some(overlap) = self.overlaps.get(self.row) else { return Ok(()) };
        let key = self.keys.get(overlap.key);
        let value = match column {
            0 => Value::Integer(overlap.begin),
            1 => Value::Integer(overlap.end),
            2 => Value::Integer(overlap.end.saturating_sub(overlap.begin)),
            3 => key.cloned().unwrap_or(Value::Null),
            4 => Value::Integer(overlap.left),
            5 => Value::Integer(overlap.right),
            _ => Value::Null,
        };
        context.set_result(&ToSqlOutput::Owned(value))
    }

    fn rowid(&self) -> Result<i64> {
        Ok(i64::try_from(self.row).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_random::Random;

    fn pairs(left: &[Interval], right: &[Interval]) -> (Vec<(i64, i64)>, usize) {
        let mut sides = Sides { right: right.to_vec(), ..Sides::default() };
        let (mut found, mut most) = (Vec::new(), 0);
        for to in left.iter().copied().map(Some).chain([None]) {
            sides
                .go_on(to, &mut |left, right| {
                    found.push((left.id, right.id));
                    Ok(())
                })
                .unwrap();
            most = most.max(sides.open_left.intervals.len() + sides.open_right.intervals.len());
        }
        found.sort_unstable();
        (found, most)
    }

    fn intervals(all: &[(i64, i64)]) -> Vec<Interval> {
        let mut all: Vec<Interval> = all
            .iter()
            .zip(0..)
            .map(|(&(begin, length), id)| Interval { begin, end: begin + length, id })
            .collect();
        all.sort_by_key(|interval| interval.begin);
        all
    }

    #[test]
    fn pairs_are_those_that_a_comparison_finds() {
        let mut random = Random::from_seed(1);
        let mut next = |below: i64| random.below(below);
        for _ in 0..500 {
            let mut side =
                || intervals(&(0..next(8)).map(|_| (next(9), next(5))).collect::<Vec<_>>());
            let (left, right) = (side(), side());
            let mut wanted: Vec<_> = left
                .iter()
                .flat_map(|left| right.iter().map(move |right| (left, right)))
                .filter(|(left, right)| left.begin < right.end && left.end > right.begin)
                .map(|(left, right)| (left.id, right.id))
                .collect();
            wanted.sort_unstable();
            assert_eq!(pairs(&left, &right).0, wanted, "{left:?} {right:?}");
        }
    }

    #[test]
    fn one_row_as_long_as_the_trace_leaves_no_ended_ones_open() {
        let short = |from: i64| (0..10_000).map(|at| (from + at * 10, 3)).collect::<Vec<_>>();
        let left = intervals(&[vec![(0, 1_000_000)], short(0)].concat());
        let (found, most) = pairs(&left, &intervals(&short(5)));
        assert_eq!(found.len(), 10_000);
        assert!(most < 300, "{most}");
    }

    #[test]
    fn keys_are_equal_where_they_are_in_sql() {
        let key = |value: f64| Key::of(ValueRef::Real(value)).unwrap();
        assert_eq!(key(1.0), Key::Integer(1));
        assert_eq!(key(-0.0), Key::Integer(0));
        for other in [1.5, 9_223_372_036_854_775_808.0, f64::INFINITY] {
            assert!(matches!(key(other), Key::Real(_)), "{other}");
        }
        assert_ne!(Key::of(ValueRef::Text(b"a")), Key::of(ValueRef::Blob(b"a")));
    }
}
