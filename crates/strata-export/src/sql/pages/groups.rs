//! The entries of an index, collected in their order without sorting.
//!
//! ```text
//! row ── group by the columns that repeat ── in each group: increasing values and row numbers, as differences
//! at the end: groups in the order of SQLite ── IndexTree
//! ```
//!
//! Rows are added in the order of their numbers, and the times of one thread, CPU or name increase. So each group is
//! in order by itself, and only the groups are sorted. Where that does not hold, or there are too many groups, the
//! index is left to SQLite, which sorts.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use super::file::PageFile;
use super::index::IndexTree;
use super::record::{put_integer, put_varint, type_of, Record};
use crate::sql::batch::SqlCell;

/// The most groups of an index.
const GROUPS_MAX: usize = 2048;
/// The size of a group's entries above which they go to the temporary file \[byte\].
const CHUNK_BYTES: usize = if cfg!(test) { 64 } else { 8 << 10 };
/// The approximate limit on memory for entries of one index, over all groups \[byte\].
const MEMORY_BYTES: usize = if cfg!(test) { 64 << 10 } else { 4 << 20 };
/// The number of entries after which `stopped` is called again.
const LOOK_INTERVAL: u64 = 1 << 16;

/// A value by which rows are grouped, in SQLite's order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KeyValue {
    Null,
    Integer(i64),
    Text(Box<[u8]>),
}

/// The columns of an index.
#[derive(Clone, Debug)]
pub(in crate::sql) struct IndexColumns {
    /// The cells of a row with the columns that repeat, which come first.
    pub repeated: Vec<usize>,
    /// The cell with the last column if that increases.
    pub increasing: Option<usize>,
}

/// A temporary file without a name, for entries that are not in memory.
#[derive(Debug)]
pub(in crate::sql) struct EntryFile {
    path: PathBuf,
    file: Option<File>,
    end: u64,
}

impl EntryFile {
    /// Makes the file when it is needed, at `path`, where no file may be.
    pub(in crate::sql) fn new(path: PathBuf) -> EntryFile {
        EntryFile { path, file: None, end: 0 }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let file =
                    OpenOptions::new().read(true).write(true).create_new(true).open(&self.path)?;
                fs::remove_file(&self.path)?;
                none.insert(file)
            }
        };
        file.write_all_at(bytes, self.end)?;
        let begin = self.end;
        self.end += bytes.len() as u64;
        Ok(begin)
    }

    fn read(&self, from: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| file.read_exact_at(bytes, from))
    }
}

/// The entries with the same repeated columns.
#[derive(Debug)]
struct Group {
    key: Vec<KeyValue>,
    /// The increasing column and the row number of the last entry.
    value: i64,
    row: i64,
    /// Differences to the entry before, seven bits in a byte.
    entries: Vec<u8>,
    /// Earlier entries, in the temporary file: from where, and how many bytes.
    chunks: Vec<(u64, usize)>,
}

/// The entries of an index.
#[derive(Debug)]
pub(in crate::sql) struct IndexGroups {
    columns: IndexColumns,
    known: HashMap<Vec<u8>, usize>,
    groups: Vec<Group>,
    /// The size of a group's entries above which they go to the temporary file, with so many groups \[byte\].
    chunk_bytes: usize,
    key: Vec<u8>,
    /// The group of the last row, and its key.
    last: Option<usize>,
    last_key: Vec<u8>,
    is_left: bool,
}

fn put_difference(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a difference from the begin of `bytes`.
#[inline]
fn take_difference(bytes: &mut &[u8]) -> Option<u64> {
    let (mut value, mut shift) = (0_u64, 0);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
        shift = (shift + 7).min(63);
    }
}

impl IndexGroups {
    pub(in crate::sql) fn new(columns: IndexColumns) -> IndexGroups {
        IndexGroups {
            columns,
            known: HashMap::new(),
            groups: Vec::new(),
            chunk_bytes: CHUNK_BYTES,
            key: Vec::new(),
            last: None,
            last_key: Vec::new(),
            is_left: false,
        }
    }

    /// Adds the entry of a row, whose number is higher than that of all rows before.
    ///
    /// # Errors
    /// Returns an error if the temporary file cannot be written.
    #[inline]
    pub(in crate::sql) fn add(
        &mut self,
        cells: &[SqlCell],
        text: &[u8],
        row: i64,
        to: &mut EntryFile,
    ) -> io::Result<()> {
        if self.is_left {
            return Ok(());
        }
        let IndexColumns { repeated, increasing } = &self.columns;
        let value = match increasing.and_then(|cell| cells.get(cell)) {
            None => 0,
            Some(SqlCell::Integer(value)) => *value,
            Some(_) => return self.leave(),
        };
        self.key.clear();
        for cell in repeated.iter().filter_map(|&cell| cells.get(cell)) {
            match *cell {
                SqlCell::Null => self.key.push(0),
                SqlCell::Integer(value) => {
                    self.key.push(1);
                    self.key.extend_from_slice(&value.to_ne_bytes());
                }
                SqlCell::Word(word) => put_text(&mut self.key, word.as_bytes()),
                SqlCell::Text { from, to } => {
                    put_text(&mut self.key, text.get(from..to).unwrap_or_default());
                }
                SqlCell::Real(_) => return self.leave(),
            }
        }
        let known = match self.last {
            Some(last) if self.last_key == self.key => Some(last),
            _ => self.known.get(&self.key).copied(),
        };
        let index = match known {
            Some(index) => index,
            None if self.groups.len() >= GROUPS_MAX => return self.leave(),
            None => self.begin_group(cells, text),
        };
        if self.last != Some(index) {
            self.last = Some(index);
            self.last_key.clone_from(&self.key);
        }
        let Some(group) = self.groups.get_mut(index) else { return Ok(()) };
        if value < group.value {
            return self.leave();
        }
        if self.columns.increasing.is_some() {
            put_difference(&mut group.entries, value.wrapping_sub(group.value) as u64);
        }
        put_difference(&mut group.entries, row.wrapping_sub(group.row) as u64);
        (group.value, group.row) = (value, row);
        if group.entries.len() >= self.chunk_bytes {
            group.chunks.push((to.append(&group.entries)?, group.entries.len()));
            group.entries.clear();
        }
        Ok(())
    }

    fn begin_group(&mut self, cells: &[SqlCell], text: &[u8]) -> usize {
        let repeated = self.columns.repeated.iter();
        let value = |cell: &SqlCell| match *cell {
            SqlCell::Integer(value) => KeyValue::Integer(value),
            SqlCell::Word(word) => KeyValue::Text(word.as_bytes().into()),
            SqlCell::Text { from, to } => {
                KeyValue::Text(text.get(from..to).unwrap_or_default().into())
            }
            SqlCell::Null | SqlCell::Real(_) => KeyValue::Null,
        };
        let key = repeated.filter_map(|&cell| cells.get(cell)).map(value).collect();
        let group = Group { key, value: i64::MIN, row: 0, entries: Vec::new(), chunks: Vec::new() };
        self.groups.push(group);
        self.known.insert(self.key.clone(), self.groups.len() - 1);
        self.chunk_bytes = CHUNK_BYTES.min(MEMORY_BYTES / self.groups.len());
        self.groups.len() - 1
    }

    /// Leaves the index to SQLite.
    #[cold]
    fn leave(&mut self) -> io::Result<()> {
        self.is_left = true;
        self.groups = Vec::new();
        self.known = HashMap::new();
        Ok(())
    }

    /// Writes the index. The highest page replaces the page `root`. Returns false if the index is left to SQLite.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, or [`io::ErrorKind::Interrupted`] if it was stopped.
    pub(in crate::sql) fn write(
        mut self,
        from: &EntryFile,
        file: &mut PageFile,
        root: u32,
        stopped: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool> {
        if self.is_left {
            return Ok(false);
        }
        self.groups.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let mut tree = IndexTree::new();
        let has_increasing = self.columns.increasing.is_some();
        let mut entry = Vec::new();
        let mut bytes = Vec::new();
        let mut count = 0;
        for group in &self.groups {
            let mut key = Record::default();
            for value in &group.key {
                match value {
                    KeyValue::Null => key.null(),
                    KeyValue::Integer(value) => key.integer(*value),
                    KeyValue::Text(text) => key.text(text),
                }
            }
            let (types, values) = key.parts();
            // The size of the types includes itself and the types of the last two columns.
            let size = types.len() + 2 + usize::from(has_increasing);
            let mut head = Vec::new();
            put_varint(&mut head, if size > 0x7f { size + 1 } else { size } as u64);
            head.extend_from_slice(types);
            let (mut value, mut row) = (i64::MIN, 0_i64);
            let all = group.chunks.iter().map(Some).chain([None]);
            for chunk in all {
                let mut rest = match chunk {
                    Some(&(at, size)) => {
                        bytes.resize(size, 0);
                        from.read(at, &mut bytes)?;
                        &*bytes
                    }
                    None => &*group.entries,
                };
                while !rest.is_empty() {
                    if has_increasing {
                        let more = take_difference(&mut rest).unwrap_or_default();
                        value = value.wrapping_add(more as i64);
                    }
                    let more = take_difference(&mut rest).unwrap_or_default();
                    row = row.wrapping_add(more as i64);
                    entry.clear();
                    entry.extend_from_slice(&head);
                    let (of_row, row_size) = type_of(row);
                    if has_increasing {
                        let (of_value, value_size) = type_of(value);
                        entry.extend_from_slice(&[of_value, of_row]);
                        entry.extend_from_slice(values);
                        put_integer(&mut entry, value, value_size);
                    } else {
                        entry.push(of_row);
                        entry.extend_from_slice(values);
                    }
                    put_integer(&mut entry, row, row_size);
                    tree.add(file, &entry)?;
                    count += 1;
                    if count % LOOK_INTERVAL == 0 && stopped() {
                        return Err(io::Error::from(io::ErrorKind::Interrupted));
                    }
                }
            }
        }
        tree.finish(file, root)?;
        Ok(true)
    }
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(2);
    out.extend_from_slice(&text.len().to_ne_bytes());
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hand_tests::Hand;

    #[test]
    fn memory_of_many_groups_is_bounded() {
        let hand = Hand::new();
        let mut file = EntryFile::new(hand.0.join("entries"));
        let columns = IndexColumns { repeated: vec![0], increasing: Some(1) };
        let mut index = IndexGroups::new(columns);
        let mut most = 0;
        // Of as many groups as there may be, each gets its entries in turn: none is ever full before the others.
        for row in 0..GROUPS_MAX as i64 * 40 {
            let cells = [SqlCell::Integer(row % GROUPS_MAX as i64), SqlCell::Integer(row)];
            index.add(&cells, b"", row, &mut file).unwrap();
            if row % GROUPS_MAX as i64 == 0 {
                most = most.max(index.groups.iter().map(|group| group.entries.len()).sum());
            }
        }
        assert!(!index.is_left && index.groups.len() == GROUPS_MAX);
        assert!(most > MEMORY_BYTES / 4 && most < MEMORY_BYTES * 5 / 4, "{most}");
    }
}
