//! Finds the blocks on the top level of a text.

use super::lexer::{Edge, Lexer};
use crate::read::metadata::error::{too_many, Fault, Faults, MetadataProblem};
use crate::read::metadata::limits;

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    Trace,
    Environment,
    Clock,
    Stream,
    Event,
    /// The source lines of events, which are not read.
    Callsite,
    /// A declaration of a named type.
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

/// The blocks of a text, and what is known about parts that are broken or not closed. Such parts may describe anything,
/// which is not the same as nothing.
pub(super) struct Blocks {
    pub list: Vec<Block>,
    pub unread: UnreadStreams,
}

/// Stream blocks that the text has, or may have, and that could not be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnreadStreams {
    /// True if a block that is certainly a stream block could not be read.
    pub is_certain: bool,
    /// Begin of the first unreadable block of unknown kind; `u32::MAX` if there is none. Writers of metadata put a
    /// stream before its events.
    pub possible_from: u32,
}

impl UnreadStreams {
    pub const NONE: UnreadStreams = UnreadStreams { is_certain: false, possible_from: u32::MAX };

    /// Records a block of this kind that could not be read. It begins at `begin` with `text`.
    pub fn note(&mut self, kind: BlockKind, begin: u32, text: &[u8]) {
        match kind {
            BlockKind::Stream => self.is_certain = true,
            BlockKind::Declaration if !declares_type(text) => {
                self.possible_from = self.possible_from.min(begin);
            }
            _ => (),
        }
    }
}

/// The first words of type declarations. Any other first word that is not one of [`BlockKind::of`] is misspelled, and
/// may begin any kind of block.
const DECLARES: [&str; 16] = [
    "typealias",
    "typedef",
    "struct",
    "variant",
    "enum",
    "integer",
    "floating_point",
    "string",
    "const",
    "unsigned",
    "signed",
    "char",
    "short",
    "int",
    "long",
    "float",
];

/// Returns whether the block that begins with this text declares a type.
fn declares_type(text: &[u8]) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let end = text.iter().position(|byte| !is_word(byte)).unwrap_or(text.len());
    let word = text.get(..end).unwrap_or_default();
    DECLARES.iter().any(|declares| declares.as_bytes() == word)
}

/// Splits the text into blocks. A block without an end ends where the next one certainly begins: at `event {` and
/// similar text, which occurs only on the top level.
pub(super) fn split(text: &[u8], faults: &mut Faults) -> Blocks {
    let lexer = Lexer::new(text, 0, text.len());
    let blocks = Blocks { list: Vec::new(), unread: UnreadStreams::NONE };
    let mut splitter = Splitter { text, lexer, open: None, blocks, opened: 0, faults };
    while splitter.step() {}
    splitter.blocks
}

struct OpenBlock {
    kind: BlockKind,
    begin: u32,
    depth: u32,
    /// True if the block has a character that is no token, or exceeds the number of blocks.
    broken: bool,
}

struct Splitter<'t, 'f> {
    text: &'t [u8],
    lexer: Lexer<'t>,
    open: Option<OpenBlock>,
    blocks: Blocks,
    /// The number of blocks that were opened so far, including broken ones.
    opened: u64,
    faults: &'f mut Faults,
}

impl Splitter<'_, '_> {
    /// Moves to the next edge; returns false after the last one that is read.
    fn step(&mut self) -> bool {
        if self.opened > limits::BLOCKS {
            // Only the begin of the block that exceeds the limit is known.
            let at = self.open.take().map_or(self.lexer.position(), |open| open.begin);
            self.blocks.unread.note(BlockKind::Declaration, at, &[]);
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

    /// Opens a block, unless one is open already.
    fn begin(&mut self, kind: BlockKind, begin: u32) {
        self.open(kind, begin);
    }

    fn open(&mut self, kind: BlockKind, begin: u32) -> &mut OpenBlock {
        self.opened += u64::from(self.open.is_none());
        let broken = self.opened > limits::BLOCKS;
        self.open.get_or_insert(OpenBlock { kind, begin, depth: 0, broken })
    }

    /// Records a fault of a block. Only the first fault of each block is kept.
    fn broken(&mut self, fault: Fault) {
        let open = self.open(BlockKind::Declaration, fault.at);
        if !std::mem::replace(&mut open.broken, true) {
            self.faults.push(fault);
        }
    }

    /// Closes the open block at a semicolon.
    fn close(&mut self) {
        match self.open.take() {
            Some(open) if open.depth > 0 => self.open = Some(open),
            Some(OpenBlock { kind, begin, broken: false, .. }) => {
                let end = self.lexer.position();
                self.blocks.list.push(Block { kind, begin, end });
            }
            Some(OpenBlock { kind, begin, .. }) => self.unread(kind, begin),
            None => (),
        }
    }

    /// Records a block that cannot be read.
    fn unread(&mut self, kind: BlockKind, begin: u32) {
        let rest = self.text.get(begin as usize..).unwrap_or_default();
        self.blocks.unread.note(kind, begin, rest);
    }

    fn unclosed(&mut self) {
        let Some(open) = self.open.take() else { return };
        self.unread(open.kind, open.begin);
        if !open.broken {
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
