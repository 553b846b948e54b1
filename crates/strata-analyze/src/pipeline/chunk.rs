//! The chunks that workers pass on: parts of a slice's text, with remarks.

use std::collections::HashSet;

use strata_ctf::read::{Damage, Discarded, DiscardedKind, NoteKey};

use crate::render::{DeltaGap, Lines, Stamp};
use crate::short::Unit;

/// The size of text that is passed on at once \[byte\]. A CPU's cache holds it.
pub const CHUNK: usize = 256 << 10;
/// The most text of a slice that may wait for the slice's turn \[byte\].
pub const WAITING: usize = 8 << 20;
/// The most text of a share that may wait for the share's turn \[byte\]. A CPU's cache still holds it.
pub const SHARE_WAITING: usize = 1 << 20;
/// The most chunks of a slice or share that may wait, even if they have little text.
pub const CHUNKS_WAITING: usize = 2 * WAITING / CHUNK;
/// The most remarks of a slice that are kept; further ones are only counted.
pub const REMARKS: usize = 20;

/// A remark about a trace, such as damage, that is shown in addition to its event records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// A place in the trace that could not be read.
    Damage(Damage),
    /// Event records or packets were discarded.
    Discarded {
        trace: String,
        stream: String,
        /// The number of records or packets that were discarded.
        count: u64,
        /// The unit of `count`: event records or packets.
        kind: DiscardedKind,
        /// True if the stream begins with the gap, so that the begin of the count is unknown.
        at_begin: bool,
        /// The times of the last record before the gap and the first one after it \[ns since 1970\].
        between: (Option<i64>, Option<i64>),
    },
}

/// A piece of output. Pieces are in the order of the output.
#[derive(Debug)]
pub enum PipelineOutput<'o> {
    /// Text of whole lines, in which a line may be split into three pieces.
    Text(&'o [u8]),
    Remark(&'o Remark),
    /// The total number of bytes of the trace that were read so far.
    Read(u64),
}

/// The sums of all output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelineSummary {
    /// The number of event records that were written.
    pub events: u64,
    /// The number of damaged places.
    pub damage: u64,
    /// The number of damaged places that were not reported, because of the limit on remarks.
    pub damage_untold: u64,
    /// The number of discarded event records, over all remarks.
    pub discarded: u64,
    /// The number of records of the state dump that are not shown as separate lines.
    pub hidden: u64,
    /// The number of event records of uncertain order: they may have been before a record of another machine that
    /// precedes them.
    pub unsure: u64,
    /// True if rendering was stopped from outside.
    pub stopped: bool,
}

impl PipelineSummary {
    pub(super) fn add(&mut self, other: &PipelineSummary) {
        self.events += other.events;
        self.damage += other.damage;
        self.damage_untold += other.damage_untold;
        self.discarded = self.discarded.saturating_add(other.discarded);
        self.unsure += other.unsure;
        self.stopped |= other.stopped;
    }
}

/// A part of a slice's text.
#[derive(Default)]
pub struct Chunk {
    pub text: Lines,
    pub gap: Option<DeltaGap>,
    pub last: Option<Stamp>,
    /// The unit of the short format to which the text belongs.
    pub unit: Option<Unit>,
    pub remarks: Vec<Remark>,
    pub summary: PipelineSummary,
    pub end: ChunkEnd,
}

impl Chunk {
    /// Counts discarded records or packets, and adds a remark on them.
    pub fn discarded(&mut self, discarded: &Discarded<'_>) {
        if discarded.kind == DiscardedKind::Records {
            // A trace may say any number.
            self.summary.discarded = self.summary.discarded.saturating_add(discarded.count);
        }
        if self.remarks.len() < 2 * REMARKS {
            self.remarks.push(discarded_remark(discarded));
        }
    }
}

/// The end of a chunk, which says what comes after it.
#[derive(Default)]
pub enum ChunkEnd {
    #[default]
    Nothing,
    /// A block ends, and the share `next` has its turn.
    Block { next: usize },
    /// The share ends, and with it the slice if it is the share's turn.
    Slice(SliceFindings),
}

/// The findings of a worker in a slice. All workers find the same, unless files were changed.
#[derive(Clone, Debug, Default)]
pub struct SliceFindings {
    pub blocks: u64,
    /// The number of event records by which the last block is incomplete.
    pub left: u64,
    pub damage: u64,
    /// The streams and kinds of notes that were reported already.
    pub noted: HashSet<NoteKey>,
    /// The damage in blocks that belong to other shares of the slice. The workers of those shares report it.
    pub elsewhere: Vec<Damage>,
}

impl SliceFindings {
    pub fn is_like(&self, other: &SliceFindings) -> bool {
        (self.blocks, self.left, self.damage) == (other.blocks, other.left, other.damage)
    }

    /// Counts damage. It is reported with the chunk of the share that has the damaged block.
    pub fn damage(&mut self, damage: &Damage, is_mine: bool, chunk: &mut Chunk) {
        if damage.is_note() {
            // One of each stream is said; none may keep a damage from being told.
            if is_mine && self.noted.insert(damage.note_key()) {
                chunk.remarks.push(Remark::Damage(damage.clone()));
            }
            return;
        }
        self.damage += 1;
        if !is_mine {
            if self.elsewhere.len() < REMARKS {
                self.elsewhere.push(damage.clone());
            }
            return;
        }
        chunk.summary.damage += u64::from(!damage.is_remark());
        if self.damage <= REMARKS as u64 {
            chunk.remarks.push(Remark::Damage(damage.clone()));
        } else {
            chunk.summary.damage_untold += 1;
        }
    }
}

fn discarded_remark(discarded: &Discarded<'_>) -> Remark {
    Remark::Discarded {
        trace: discarded.stream.trace().path().display().to_string(),
        stream: discarded.stream.name().to_owned(),
        count: discarded.count,
        kind: discarded.kind,
        at_begin: discarded.at_begin,
        between: (discarded.from, discarded.to),
    }
}
