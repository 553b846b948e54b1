//! Parses the records of perf.

use super::head::{part, PerfFile};
use super::records::SAMPLE;
use crate::bytes::{until_nul, Bytes};

const MMAP: u32 = 1;
const DISCARDED: u32 = 2;
const COMM: u32 = 3;
const FORK: u32 = 7;
const MMAP2: u32 = 10;
const DISCARDED_SAMPLES: u32 = 13;
const FINISHED_ROUND: u32 = 68;

/// Flags of records, whose meaning depends on the kind.
const MMAP_DATA: u16 = 1 << 13;
const COMM_EXEC: u16 = 1 << 13;
const MMAP_BUILD_ID: u16 = 1 << 14;
const CPU_MODE: u16 = 7;
const MODE_USER: u16 = 2;
/// A filter of perf has left these samples out; they are not discarded.
const LEFT_OUT_BY_FILTER: u16 = 1 << 15;

/// `PROT_EXEC`.
const EXECUTABLE: u32 = 4;
/// The most bytes of a path, and of a build id.
const PATH_MAX: usize = 4096;
const BUILD_ID_MAX: usize = 20;

/// Begin of the name of the kernel's own code; a symbol follows.
const KERNEL: &[u8] = b"[kernel.kallsyms]";

/// The least of the values in a callchain that are markers: they say whether addresses of the kernel or of the
/// program follow.
const CONTEXT_MAX: u64 = -4095i64 as u64;
const CONTEXT_KERNEL: u64 = -128i64 as u64;
const CONTEXT_USER: u64 = -512i64 as u64;
/// The most addresses of a stack.
const FRAMES_MAX: usize = 1024;

/// Bits of [`PerfEvent::read_format`].
const READ_ENABLED: u64 = 1;
const READ_RUNNING: u64 = 1 << 1;
const READ_ID: u64 = 1 << 2;
const READ_GROUP: u64 = 1 << 3;
const READ_DISCARDED: u64 = 1 << 4;

/// When and where a record was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct At {
    /// Time \[ns\]; 0 for records about the state before the recording.
    pub time: u64,
    pub cpu: Option<u32>,
    pub pid: i32,
    pub tid: i32,
}

/// A sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample<'b> {
    /// Index of the event.
    pub event: usize,
    pub ip: u64,
    pub address: u64,
    pub period: u64,
    /// The stacks of the kernel and of the program, the innermost address first.
    pub stacks: [Vec<u64>; 2],
    /// The bytes of a tracepoint.
    pub raw: &'b [u8],
}

/// A process has mapped code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mapped<'b> {
    pub begin: u64,
    pub bytes: u64,
    pub offset: u64,
    pub path: &'b [u8],
    pub build_id: &'b [u8],
}

/// The statement of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said<'b> {
    Sample(Sample<'b>),
    Mapped(Mapped<'b>),
    /// A thread has a new name; `is_program`: since it executes another program.
    Named {
        name: &'b [u8],
        is_program: bool,
    },
    /// The parent thread has made a thread.
    Forked {
        parent_pid: i32,
        parent_tid: i32,
    },
    /// So many records were discarded, since the buffer was full.
    Discarded(u64),
    /// So many samples were discarded, as the kernel says.
    DiscardedSamples(u64),
    /// The number of all discarded samples, which perf has read at the end.
    DiscardedInAll(u64),
    /// The address of a symbol of the kernel.
    Kernel {
        symbol: &'b [u8],
        address: u64,
    },
    /// Everything from before the round before has come.
    RoundIsOver,
    /// A sample that is too short, or of no event of the file.
    Unread,
    /// The record says nothing that a trace has.
    Other,
}

/// A record of perf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PerfRecord<'b> {
    pub at: At,
    pub said: Said<'b>,
}

impl<'b> PerfRecord<'b> {
    /// Parses the body of a record. What is too short for its kind says nothing.
    pub fn parse((kind, misc): (u32, u16), body: &'b [u8], about: &PerfFile) -> PerfRecord<'b> {
        let mut from = Bytes(body);
        let mut at = at_behind(body, about).unwrap_or_default();
        let said = match kind {
            SAMPLE => {
                let found =
                    event_of(body, about).and_then(|event| sample(event, misc, body, about));
                Some(match found {
                    Some((sampled, sample)) => {
                        at = sampled;
                        Said::Sample(sample)
                    }
                    None => {
                        // What stands at its end are no times.
                        at = At::default();
                        Said::Unread
                    }
                })
            }
            MMAP | MMAP2 => (|| {
                (at.pid, at.tid) = (from.i32()?, from.i32()?);
                let mut mapped = Mapped {
                    begin: from.u64()?,
                    bytes: from.u64()?,
                    offset: from.u64()?,
                    ..Mapped::default()
                };
                let mut is_code = misc & MMAP_DATA == 0;
                if kind == MMAP2 {
                    let place = from.take(24)?;
                    if misc & MMAP_BUILD_ID != 0 {
                        let bytes = usize::from(*place.first()?).min(BUILD_ID_MAX);
                        mapped.build_id = place.get(4..4 + bytes)?;
                    }
                    is_code = from.u32()? & EXECUTABLE != 0;
                    from.u32()?;
                }
                let path = until_nul(from.0);
                // `//anon` is code that the program has generated; data and stacks have brackets.
                let is_file = path.starts_with(b"/") || path == b"[vdso]";
                let is_known = is_file && path.len() <= PATH_MAX;
                mapped.path = path;
                // The address of a symbol stands where a mapping has its offset in the file.
                if let (-1, Some(symbol)) = (at.pid, path.strip_prefix(KERNEL)) {
                    return Some(Said::Kernel { symbol, address: mapped.offset });
                }
                Some(match is_code && is_known && at.pid >= 0 {
                    true => Said::Mapped(mapped),
                    false => Said::Other,
                })
            })(),
            COMM => (|| {
                (at.pid, at.tid) = (from.i32()?, from.i32()?);
                let name = until_nul(from.0);
                let name = name.get(..name.len().min(15))?;
                Some(Said::Named { name, is_program: misc & COMM_EXEC != 0 })
            })(),
            FORK => (|| {
                let (pid, parent_pid) = (from.i32()?, from.i32()?);
                let (tid, parent_tid) = (from.i32()?, from.i32()?);
                at.time = from.u64()?;
                (at.pid, at.tid) = (pid, tid);
                Some(Said::Forked { parent_pid, parent_tid })
            })(),
            DISCARDED => (|| {
                from.u64()?;
                from.u64().map(Said::Discarded)
            })(),
            DISCARDED_SAMPLES if misc & LEFT_OUT_BY_FILTER != 0 => None,
            DISCARDED_SAMPLES if at.time == 0 => from.u64().map(Said::DiscardedInAll),
            DISCARDED_SAMPLES => from.u64().map(Said::DiscardedSamples),
            FINISHED_ROUND => Some(Said::RoundIsOver),
            _ => None,
        };
        PerfRecord { at, said: said.unwrap_or(Said::Other) }
    }
}

/// Finds the event of a sample by the number in it. The parts in front of that number are the same for all events of a file.
fn event_of(body: &[u8], about: &PerfFile) -> Option<usize> {
    let first = about.events.first()?;
    if about.events.len() == 1 {
        return Some(0);
    }
    let words = [part::IP, part::TID, part::TIME, part::ADDRESS];
    let place = if first.has(part::IDENTIFIER) {
        0
    } else if first.has(part::ID) {
        8 * words.iter().filter(|one| first.has(**one)).count()
    } else {
        return None;
    };
    let id = Bytes(body.get(place..)?).u64()?;
    about.ids.get(&id).copied()
}

fn sample<'b>(
    event: usize,
    misc: u16,
    body: &'b [u8],
    about: &PerfFile,
) -> Option<(At, Sample<'b>)> {
    let of = about.events.get(event)?;
    let (mut from, mut at) = (Bytes(body), At { pid: -1, tid: -1, ..At::default() });
    let mut sample = Sample { event, ..Sample::default() };
    if of.has(part::IDENTIFIER) {
        from.u64()?;
    }
    if of.has(part::IP) {
        sample.ip = from.u64()?;
    }
    if of.has(part::TID) {
        (at.pid, at.tid) = (from.i32()?, from.i32()?);
    }
    if of.has(part::TIME) {
        at.time = from.u64()?;
    }
    if of.has(part::ADDRESS) {
        sample.address = from.u64()?;
    }
    for one in [part::ID, part::STREAM] {
        if of.has(one) {
            from.u64()?;
        }
    }
    if of.has(part::CPU) {
        at.cpu = Some(from.u32()?);
        from.u32()?;
    }
    if of.has(part::PERIOD) {
        sample.period = from.u64()?;
    }
    if of.has(part::READ) {
        pass_values(&mut from, of.read_format)?;
    }
    if of.has(part::CALLCHAIN) {
        let count = from.u64()?;
        let addresses = from.take(usize::try_from(count).ok()?.checked_mul(8)?)?;
        // 0: the kernel's, 1: the program's.
        let mut of_whom = Some(usize::from(misc & CPU_MODE == MODE_USER));
        let mut addresses = Bytes(addresses);
        while let Some(address) = addresses.u64() {
            match address {
                CONTEXT_KERNEL => of_whom = Some(0),
                CONTEXT_USER => of_whom = Some(1),
                CONTEXT_MAX.. => of_whom = None,
                _ => {
                    let stack = of_whom.and_then(|whose| sample.stacks.get_mut(whose));
                    if let Some(stack) = stack.filter(|stack| stack.len() < FRAMES_MAX) {
                        stack.push(address);
                    }
                }
            }
        }
    }
    if of.has(part::RAW) {
        let bytes = from.u32()?;
        sample.raw = from.take(bytes as usize)?;
    }
    Some((at, sample))
}

/// Passes the values of counters.
fn pass_values(from: &mut Bytes<'_>, format: u64) -> Option<()> {
    let has = |bit: u64| usize::from(format & bit != 0);
    let times = has(READ_ENABLED) + has(READ_RUNNING);
    let each = 1 + has(READ_ID) + has(READ_DISCARDED);
    let words = match has(READ_GROUP) {
        0 => times + each,
        _ => usize::try_from(from.u64()?).ok()?.checked_mul(each)?.checked_add(times)?,
    };
    from.take(words.checked_mul(8)?).map(drop)
}

/// Reads the fields at the end of records that are no samples: thread, time, ids and CPU.
fn at_behind(body: &[u8], about: &PerfFile) -> Option<At> {
    let mut event = about.events.first()?;
    if event.has(part::IDENTIFIER) {
        // The number of the event is the last.
        let id = body.last_chunk().map(|id| u64::from_ne_bytes(*id))?;
        event = about.ids.get(&id).and_then(|at| about.events.get(*at)).unwrap_or(event);
    }
    if !event.has_ids {
        return None;
    }
    let parts = [part::TID, part::TIME, part::ID, part::STREAM, part::CPU, part::IDENTIFIER];
    let bytes = 8 * parts.iter().filter(|one| event.has(**one)).count();
    let mut from = Bytes(body.get(body.len().checked_sub(bytes)?..)?);
    let mut at = At::default();
    if event.has(part::TID) {
        (at.pid, at.tid) = (from.i32()?, from.i32()?);
    }
    if event.has(part::TIME) {
        at.time = from.u64()?;
    }
    for one in [part::ID, part::STREAM] {
        if event.has(one) {
            from.u64()?;
        }
    }
    if event.has(part::CPU) {
        at.cpu = Some(from.u32()?);
    }
    Some(at)
}
