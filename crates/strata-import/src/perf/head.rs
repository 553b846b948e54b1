//! The head of a file of perf: where its records are, its events, and what perf says of the machine.
//!
//! ```text
//! offset  size  field
//!      0     8  "PERFILE2"
//!      8     8  size of this head: 104; 16 in what perf writes to a pipe
//!     16     8  size of an event's description
//!     24    16  place of the descriptions: offset and size
//!     40    16  place of the records
//!     72    32  which features the file has, a bit for each: their places follow the records, in this order
//! ```

use std::collections::HashMap;
use std::fs::File;

use super::records::{Next, Records, HEADER_ATTR, HEADER_FEATURE, HEADER_TRACING_DATA, SAMPLE};
use crate::bytes::{read_at, until_nul, Bytes};
use crate::error::Problem;
use crate::formats::{self, TracepointFormat};

/// The first bytes of a file, in the byte order of the machine that wrote it.
pub(crate) const MAGIC: &[u8; 8] = b"PERFILE2";

/// Kind of the events that are tracepoints.
pub(crate) const TRACEPOINT: u32 = 2;

const HEAD_BYTES: usize = 104;
/// The size of the head of perf's output to a pipe \[byte\].
const PIPE_HEAD_BYTES: u64 = 16;
/// The most events in a file.
const EVENTS_MAX: u64 = 4096;
const IDS_MAX: u64 = 1 << 20;
/// The possible sizes of an event's description, from that of the first version on \[byte\].
const ATTR_BYTES: std::ops::RangeInclusive<u64> = 64 + 16..=4096;
/// The largest feature that is read: descriptions of all tracepoints are some MiB \[byte\].
const FEATURE_BYTES_MAX: u64 = 64 << 20;

const TRACING_DATA: u32 = 1;
const HOSTNAME: u32 = 3;
const OS_RELEASE: u32 = 4;
const ARCHITECTURE: u32 = 6;
const EVENT_DESC: u32 = 12;
const CLOCK_DATA: u32 = 29;

/// Bits of an event's description.
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCK: u64 = 1 << 25;

/// Parts of a sample, as bits of [`PerfEvent::parts`].
pub(crate) mod part {
    pub const IP: u64 = 1;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDRESS: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const IDENTIFIER: u64 = 1 << 16;
}

/// An event that perf has recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerfEvent {
    /// Kind and number of the event: 2 is a tracepoint, whose number is that of its format.
    pub kind: u32,
    pub config: u64,
    /// Parts of its samples.
    pub parts: u64,
    /// Parts of a counter's values.
    pub read_format: u64,
    /// True if other records have time, thread and CPU behind them.
    pub has_ids: bool,
    /// Number of the clock; `None`: the scheduler's.
    pub clock: Option<i32>,
    /// The event's name, as perf was given it; may be empty.
    pub name: String,
}

impl PerfEvent {
    pub fn has(&self, part: u64) -> bool {
        self.parts & part != 0
    }
}

/// The head of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct PerfFile {
    pub events: Vec<PerfEvent>,
    /// Indices of the events, by the numbers with which samples name them.
    pub ids: HashMap<u64, usize>,
    /// Offset and size of the records \[byte\].
    pub data: (u64, u64),
    pub hostname: Option<String>,
    pub release: Option<String>,
    pub machine: Option<String>,
    pub formats: Vec<TracepointFormat>,
    /// Time from 1970 to 0 of the clock \[ns\], if perf has noted it.
    pub offset_ns: Option<i64>,
    /// True if perf has not ended the file properly.
    pub is_unfinished: bool,
}

impl PerfFile {
    /// Reads the head of a file. The file's position is anywhere behind that.
    pub fn read(file: &mut File) -> Result<PerfFile, Problem> {
        let begin = read_at(file, 0, 16)?;
        let mut from = Bytes(&begin);
        if from.array::<8>() != Some(*MAGIC) {
            return Err(
                "it was recorded by a machine with another byte order. Read it there, or by `perf data convert --to-ctf`".into()
            );
        }
        match from.u64() {
            Some(size) if size == HEAD_BYTES as u64 => {}
            Some(16) => return PerfFile::of_pipe(file),
            size => {
                return Err(Problem::Bad(format!(
                    "its head has {} bytes, and {HEAD_BYTES} in files of perf since Linux 3.0",
                    size.unwrap_or(0)
                )));
            }
        }
        let head = read_at(file, 0, HEAD_BYTES as u64)?;
        let mut from = Bytes(head.get(16..).unwrap_or_default());
        let mut next = || from.u64().unwrap_or(0);
        let (attr_bytes, attrs, data) = (next(), (next(), next()), (next(), next()));
        let (_, flags) = ((next(), next()), [next(), next(), next(), next()]);
        let file_bytes = file.metadata()?.len();
        // perf that was killed has not written the size of what it has recorded.
        let is_unfinished = data.1 == 0;
        let data = match is_unfinished {
            true => (data.0, file_bytes.saturating_sub(data.0)),
            false => data,
        };
        let mut about = PerfFile { data, is_unfinished, ..PerfFile::default() };
        about.read_events(file, attr_bytes, attrs)?;
        about.read_features(file, flags);
        Ok(about)
    }

    /// Reads perf's output to a pipe, which has the contents of a file's head as records before the first sample.
    fn of_pipe(file: &mut File) -> Result<PerfFile, Problem> {
        let data = (PIPE_HEAD_BYTES, file.metadata()?.len().saturating_sub(PIPE_HEAD_BYTES));
        let mut about = PerfFile { data, ..PerfFile::default() };
        let mut records = Records::new(file, data)?;
        let (mut tracing, mut ids, mut descriptions) = (Vec::new(), 0, None);
        loop {
            // The first descriptions count.
            let kept = if tracing.is_empty() { FEATURE_BYTES_MAX } else { 0 };
            let Next::Record(kind, _) = records.next(kept)? else { break };
            match kind {
                SAMPLE => break,
                HEADER_TRACING_DATA if kept > 0 => tracing = std::mem::take(&mut records.behind),
                HEADER_ATTR => about.add_event(&records.body, &mut ids)?,
                HEADER_FEATURE => {
                    let mut from = Bytes(&records.body);
                    match from.u64().and_then(|bit| u32::try_from(bit).ok()) {
                        Some(EVENT_DESC) => descriptions = Some(from.0.to_vec()),
                        // It is a record of its own.
                        Some(TRACING_DATA) => {}
                        Some(bit) => about.read_feature(bit, from.0),
                        None => {}
                    }
                }
                _ => {}
            }
        }
        if about.events.is_empty() {
            return Err("it describes no event".into());
        }
        // Both are about all events.
        about.formats = formats::read(&tracing, &about.tracepoints());
        if let Some(descriptions) = descriptions {
            about.name_events(&descriptions);
        }
        Ok(about)
    }

    /// Adds an event: its description, whose size is in it, and its numbers.
    fn add_event(&mut self, body: &[u8], ids: &mut u64) -> Result<(), Problem> {
        let bytes = body.get(4..).and_then(|rest| Bytes(rest).u32()).unwrap_or(0) as usize;
        let attr = body.get(..bytes).filter(|attr| attr.len() as u64 >= *ATTR_BYTES.start() - 16);
        let event = attr.and_then(event_of).ok_or("an event's description is too short")?;
        let mut numbers = Bytes(body.get(bytes..).unwrap_or_default());
        while let Some(id) = numbers.u64() {
            *ids += 1;
            self.ids.entry(id).or_insert(self.events.len());
        }
        self.events.push(event);
        if self.events.len() as u64 > EVENTS_MAX || *ids > IDS_MAX {
            return Err(Problem::Bad(format!(
                "it has more than {EVENTS_MAX} events, or {IDS_MAX} numbers of events"
            )));
        }
        Ok(())
    }

    fn read_events(
        &mut self,
        file: &mut File,
        attr_bytes: u64,
        (at, bytes): (u64, u64),
    ) -> Result<(), Problem> {
        if !ATTR_BYTES.contains(&attr_bytes) {
            return Err(Problem::Bad(format!(
                "an event's description has {attr_bytes} bytes, and {} to {} are possible",
                ATTR_BYTES.start(),
                ATTR_BYTES.end()
            )));
        }
        let count = bytes / attr_bytes;
        if count == 0 || count > EVENTS_MAX {
            return Err(Problem::Bad(format!(
                "it has {count} events, and 1 to {EVENTS_MAX} are possible"
            )));
        }
        let attrs = read_at(file, at, count * attr_bytes)?;
        let mut ids = 0u64;
        for attr in attrs.chunks_exact(usize::try_from(attr_bytes).unwrap_or(usize::MAX)) {
            let (attr, place) = attr.split_at(attr.len() - 16);
            let event = event_of(attr).ok_or("an event's description is too short")?;
            let mut place = Bytes(place);
            let (at, bytes) = (place.u64().unwrap_or(0), place.u64().unwrap_or(0));
            ids = ids.saturating_add(bytes / 8);
            if ids > IDS_MAX {
                return Err(Problem::Bad(format!("its events have more than {IDS_MAX} numbers")));
            }
            let numbers = read_at(file, at, bytes / 8 * 8)?;
            let mut numbers = Bytes(&numbers);
            while let Some(id) = numbers.u64() {
                self.ids.entry(id).or_insert(self.events.len());
            }
            self.events.push(event);
        }
        Ok(())
    }

    fn read_features(&mut self, file: &mut File, flags: [u64; 4]) {
        let bits = (0..256u32).filter(|bit| bit_of(&flags, *bit));
        let bits: Vec<u32> = bits.collect();
        let places = self.data.0.saturating_add(self.data.1);
        let Ok(table) = read_at(file, places, bits.len() as u64 * 16) else {
            // Of a perf that was killed; the records are there.
            return;
        };
        let mut table = Bytes(&table);
        for bit in bits {
            let (at, bytes) = (table.u64().unwrap_or(0), table.u64().unwrap_or(0));
            let is_wanted = matches!(
                bit,
                TRACING_DATA | HOSTNAME | OS_RELEASE | ARCHITECTURE | EVENT_DESC | CLOCK_DATA
            );
            if !is_wanted || bytes > FEATURE_BYTES_MAX {
                continue;
            }
            // Without it less is known, and no record is missing.
            let Ok(found) = read_at(file, at, bytes) else { continue };
            self.read_feature(bit, &found);
        }
    }

    fn read_feature(&mut self, bit: u32, found: &[u8]) {
        match bit {
            TRACING_DATA => self.formats = formats::read(found, &self.tracepoints()),
            HOSTNAME => self.hostname = text(found),
            OS_RELEASE => self.release = text(found),
            ARCHITECTURE => self.machine = text(found),
            EVENT_DESC => self.name_events(found),
            CLOCK_DATA => self.offset_ns = clock_offset(found),
            _ => {}
        }
    }

    /// Returns the numbers of the tracepoints among the events.
    fn tracepoints(&self) -> Vec<u64> {
        let all = self.events.iter().filter(|event| event.kind == TRACEPOINT);
        all.map(|event| event.config).collect()
    }

    /// Takes the names of events, which stand in the order of the events.
    fn name_events(&mut self, bytes: &[u8]) {
        let mut from = Bytes(bytes);
        let (count, attr_bytes) = (from.u32(), from.u32().unwrap_or(0));
        if count != u32::try_from(self.events.len()).ok() {
            return;
        }
        for event in &mut self.events {
            let name = (|| {
                from.take(attr_bytes as usize)?;
                let ids = from.u32()?;
                let bytes = from.u32()?;
                let name = from.take(bytes as usize)?;
                from.take((ids as usize).checked_mul(8)?)?;
                Some(String::from_utf8_lossy(until_nul(name)).into_owned())
            })();
            let Some(name) = name else { return };
            event.name = name;
        }
    }
}

/// Returns true if a bit of the flags is set.
fn bit_of(flags: &[u64; 4], bit: u32) -> bool {
    flags.get(bit as usize / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
}

/// Reads a `struct perf_event_attr`.
fn event_of(bytes: &[u8]) -> Option<PerfEvent> {
    let at = |offset: usize| Some(Bytes(bytes.get(offset..)?));
    let flags = at(40)?.u64()?;
    let clock = at(92).and_then(|mut from| from.i32()).filter(|_| flags & USE_CLOCK != 0);
    Some(PerfEvent {
        kind: at(0)?.u32()?,
        config: at(8)?.u64()?,
        parts: at(24)?.u64()?,
        read_format: at(32)?.u64()?,
        has_ids: flags & SAMPLE_ID_ALL != 0,
        clock,
        name: String::new(),
    })
}

/// Reads a text, whose size stands in front of it.
fn text(bytes: &[u8]) -> Option<String> {
    let mut from = Bytes(bytes);
    let size = from.u32()? as usize;
    let text = until_nul(from.take(size)?);
    let text = String::from_utf8_lossy(text).into_owned();
    (!text.is_empty() && text.len() <= 256).then_some(text)
}

/// Reads when the clock was what, by the wall clock: version, number of the clock, time since 1970, time of the clock.
fn clock_offset(bytes: &[u8]) -> Option<i64> {
    let mut from = Bytes(bytes);
    let (version, _) = (from.u32()?, from.u32()?);
    let (wall, own) = (i64::try_from(from.u64()?).ok()?, i64::try_from(from.u64()?).ok()?);
    let offset = wall.checked_sub(own).filter(|_| version == 1)?;
    (0..=i64::MAX / 2).contains(&offset).then_some(offset)
}
