//! What workers hand over: parts of a slice's text, and what was found beside it.

use std::collections::HashSet;

use strata_ctf::read::{Damage, Discarded, DiscardedKind, NoteKey};

use crate::render::{DeltaGap, Lines, Stamp};
use crate::short::Unit;

/// Text that is handed over at once \[byte\]: less than a CPU's cache holds.
pub const CHUNK: usize = 256 << 10;
/// Text of a slice that may be rendered before it is its turn \[byte\].
pub const WAITING: usize = 8 << 20;
/// The same of a share: a CPU's cache has it until it is written.
pub const SHARE_WAITING: usize = 1 << 20;
/// Chunks of a slice or share that wait, however little text they have.
pub const CHUNKS_WAITING: usize = 2 * WAITING / CHUNK;
/// Remarks of a slice that are kept; the others are counted.
pub const REMARKS: usize = 20;

/// What a trace says besides its event records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// Something is damaged.
    Damage(Damage),
    /// Event records or packets were discarded.
    Discarded {
        /// The trace's folder.
        trace: String,
        /// The stream's file.
        stream: String,
        /// Event records or packets, as `kind` says.
        count: u64,
        /// Whether `count` is of records or of packets.
        kind: DiscardedKind,
        /// The stream began with them: what they were counted from is not known.
        at_begin: bool,
        /// Between these times \[ns since 1970\].
        between: (Option<i64>, Option<i64>),
    },
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelineSummary {
    /// Event records that were written.
    pub events: u64,
    /// Places that are damaged.
    pub damage: u64,
    /// Damage that was not handed over, because there was too much of it.
    pub damage_untold: u64,
    /// Discarded event records, over all remarks.
    pub discarded: u64,
    /// Lines that are not shown as they are of what was there when recording began.
    pub hidden: u64,
    /// Event records of which it is not known whether they were before one of another machine in front of them.
    pub unsure: u64,
    /// Somebody stopped it.
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
    /// Of the short format: what is not known in the text.
    pub unit: Option<Unit>,
    pub remarks: Vec<Remark>,
    pub summary: PipelineSummary,
    pub end: ChunkEnd,
}

impl Chunk {
    /// Counts what was discarded, and tells of it.
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

/// What ends with a chunk.
#[derive(Default)]
pub enum ChunkEnd {
    #[default]
    Nothing,
    /// A block: another share goes on.
    Block { next: usize },
    /// The share, and if it is its turn the slice.
    Slice(SliceFindings),
}

/// What one who went through a slice found in it: the same as the others, unless files were changed.
#[derive(Clone, Debug, Default)]
pub struct SliceFindings {
    pub blocks: u64,
    /// Event records that the last block was short of.
    pub left: u64,
    pub damage: u64,
    /// Streams of which a note was handed over.
    pub noted: HashSet<NoteKey>,
    /// Damage in blocks of others, who have told it if they found it too.
    pub elsewhere: Vec<Damage>,
}

impl SliceFindings {
    pub fn is_like(&self, other: &SliceFindings) -> bool {
        (self.blocks, self.left, self.damage) == (other.blocks, other.left, other.damage)
    }

    /// Takes note of damage: it is told with the chunk where the share has its turn.
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
