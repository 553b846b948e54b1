//! The text's top level: which blocks it has, and where.

use super::error::{too_many, Fault, Faults, MetadataProblem};
use super::lexer::{Edge, Lexer};
use super::limits;

/// What a block describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    Trace,
    Environment,
    Clock,
    Stream,
    Event,
    /// Source lines of events: not read.
    Callsite,
    /// A named type.
    Declaration,
}

impl BlockKind {
    fn of(word: &str) -> Option<BlockKind> {
        Some(match word {
            "trace" => BlockKind::Trace,
            "env" => BlockKind::Environment,
            "clock" => BlockKind::Clock,
            "stream" => BlockKind::Stream,
            "event" => BlockKind::Event,
            "callsite" => BlockKind::Callsite,
            _ => return None,
        })
    }
}

/// A block, from its first word up to its semicolon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub kind: BlockKind,
    pub begin: u32,
    pub end: u32,
}

/// Finds the blocks. One that has no end ends where the next one certainly begins: at `event {` and the
/// like, which stand on the top level only.
pub(super) fn split(text: &[u8], faults: &mut Faults) -> Vec<Block> {
    let lexer = Lexer::new(text, 0, text.len());
    let mut splitter = Splitter { lexer, open: None, blocks: Vec::new(), opened: 0, faults };
    while splitter.step() {}
    splitter.blocks
}

struct OpenBlock {
    kind: BlockKind,
    begin: u32,
    depth: u32,
    /// It has something that is no token, or is one too many.
    broken: bool,
}

struct Splitter<'t, 'f> {
    lexer: Lexer<'t>,
    open: Option<OpenBlock>,
    blocks: Vec<Block>,
    /// Those of `blocks` and the broken ones.
    opened: u64,
    faults: &'f mut Faults,
}

impl Splitter<'_, '_> {
    /// One edge further; false behind the last one that is read.
    fn step(&mut self) -> bool {
        if self.opened > limits::BLOCKS {
            // The one too many is known by its begin only.
            let at = self.open.take().map_or(self.lexer.position(), |open| open.begin);
            self.faults.push(too_many(at, "blocks", self.opened, limits::BLOCKS));
            return false;
        }
        let begin = match (&self.open, self.lexer.begin_of_token()) {
            (_, Err(fault)) => {
                self.broken(fault);
                return true;
            }
            (Some(open), _) => open.begin,
            (None, Ok(begin)) => begin,
        };
        let (edge, at) = match self.lexer.next_of_block() {
            Ok(found) => found,
            Err(fault) => {
                self.begin(BlockKind::Declaration, begin);
                self.broken(fault);
                return true;
            }
        };
        match edge {
            Edge::Open(word, word_at) => {
                match BlockKind::of(word) {
                    Some(kind) => {
                        if self.open.is_none() && begin < word_at {
                            self.begin(BlockKind::Declaration, begin);
                        }
                        self.unclosed();
                        self.begin(kind, word_at);
                    }
                    None => self.begin(BlockKind::Declaration, begin),
                }
                if let Some(open) = &mut self.open {
                    open.depth = open.depth.saturating_add(1);
                }
            }
            Edge::Close => match &mut self.open {
                Some(open) if open.depth > 0 => open.depth -= 1,
                _ => {
                    let (expected, found) = ("a block", "'}'".to_owned());
                    self.begin(BlockKind::Declaration, begin);
                    self.broken(Fault::new(at, MetadataProblem::Expected { expected, found }));
                }
            },
            Edge::Semicolon if begin == at => (),
            Edge::Semicolon => {
                self.begin(BlockKind::Declaration, begin);
                self.close();
            }
            Edge::End => {
                if begin < at {
                    self.begin(BlockKind::Declaration, begin);
                }
                self.unclosed();
                return false;
            }
        }
        true
    }

    /// Unless there is one that goes on.
    fn begin(&mut self, kind: BlockKind, begin: u32) {
        self.open(kind, begin);
    }

    fn open(&mut self, kind: BlockKind, begin: u32) -> &mut OpenBlock {
        self.opened += u64::from(self.open.is_none());
        let broken = self.opened > limits::BLOCKS;
        self.open.get_or_insert(OpenBlock { kind, begin, depth: 0, broken })
    }

    /// One fault for a block is enough.
    fn broken(&mut self, fault: Fault) {
        let open = self.open(BlockKind::Declaration, fault.at);
        if !std::mem::replace(&mut open.broken, true) {
            self.faults.push(fault);
        }
    }

    /// At a semicolon.
    fn close(&mut self) {
        match self.open.take() {
            Some(open) if open.depth > 0 => self.open = Some(open),
            Some(OpenBlock { kind, begin, broken: false, .. }) => {
                let end = self.lexer.position();
                self.blocks.push(Block { kind, begin, end });
            }
            _ => (),
        }
    }

    fn unclosed(&mut self) {
        if let Some(open) = self.open.take().filter(|open| !open.broken) {
            let what = match open.kind {
                BlockKind::Trace => "block 'trace'",
                BlockKind::Environment => "block 'env'",
                BlockKind::Clock => "block 'clock'",
                BlockKind::Stream => "block 'stream'",
                BlockKind::Event => "block 'event'",
                BlockKind::Callsite => "block 'callsite'",
                BlockKind::Declaration => "a declaration",
            };
            self.faults.push(Fault::new(open.begin, MetadataProblem::NotClosed { what }));
        }
    }
}
