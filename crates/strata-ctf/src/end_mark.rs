//! How a recording ended, and what of it could not be written: a small file of fixed size in the folder of each
//! trace, and in that of the recording.
//!
//! Packets tell of what was discarded between them. Of a disk that is full, or of a recorder that was killed,
//! they cannot tell: so there is a file that is written when the recording begins, with [`Ending::Recording`],
//! and is written over in place at its end, which takes no new space. One write within one page does both: a
//! kill leaves the one or the other. The trace's environment says that there is such a file ([`IN_ENVIRONMENT`]).
//!
//! It is text, so that people can read it without Strata:
//!
//! ```text
//! strata end mark 1
//! state no-space
//! unwritten 43839
//! discarded 0
//! unread 0
//! files 2
//! bytes 1044480
//! check 0123456789abcdef
//! ```
//!
//! and newlines up to [`BYTES`]. The check is of the lines before it: against a file that is damaged, not
//! against somebody who wants to lie.

use std::fmt;

use strata_model::Counts;

/// The file's name. Readers of a trace take every file for a stream, but not a hidden one.
pub const FILE: &str = ".strata-end";

/// The file's size.
pub const BYTES: usize = 512;

/// The entry of a trace's environment that says that its folder has an end mark; its value is [`VERSION`].
pub const IN_ENVIRONMENT: &str = "strata_end_mark";

/// Of the file's layout.
pub const VERSION: i64 = 1;

const TITLE: &str = "strata end mark 1";

/// How a recording ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// Not yet; or whoever recorded could not say any more.
    #[default]
    Recording,
    /// What was recorded has ended: the process, the command.
    Ended,
    /// Somebody asked for it.
    Stopped,
    /// The time that was asked for was over.
    Duration,
    /// The trace had the size that was asked for.
    Size,
    /// There was no room on the file system.
    NoSpace,
    /// Nothing could be written any more, or something else went wrong.
    Failed,
}

const ENDINGS: [(Ending, &str); 7] = [
    (Ending::Recording, "recording"),
    (Ending::Ended, "ended"),
    (Ending::Stopped, "stopped"),
    (Ending::Duration, "duration"),
    (Ending::Size, "size"),
    (Ending::NoSpace, "no-space"),
    (Ending::Failed, "failed"),
];

impl Ending {
    /// One word.
    #[must_use]
    pub fn word(self) -> &'static str {
        ENDINGS.iter().find(|(ending, _)| *ending == self).map_or("", |(_, word)| word)
    }

    /// Whether the recording ended before it was to.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Ending::NoSpace | Ending::Failed)
    }
}

/// Event records that are not in the trace, and that none of its packets counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Nothing could be written any more: what the buffers held.
    pub unwritten: u64,
    /// Discarded where no packet came behind, or where packets do not count.
    pub discarded: u64,
    /// Behind a record that was never finished, so that nothing says where they begin.
    pub unread: u64,
}

impl Losses {
    /// What of `counts` is not in the trace, and no packet of it counts.
    #[must_use]
    pub fn of(counts: &Counts) -> Losses {
        let discarded = &counts.discarded;
        let counted = discarded.total().saturating_sub(discarded.unwritten);
        Losses {
            unwritten: discarded.unwritten,
            discarded: counted.saturating_add(counts.overwritten).saturating_sub(counts.told),
            unread: counts.unread_records,
        }
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.unwritten.saturating_add(self.discarded).saturating_add(self.unread)
    }
}

/// What the file says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndMark {
    /// How the recording ended.
    pub ending: Ending,
    /// What is not there.
    pub losses: Losses,
    /// The trace's stream files when it ended.
    pub files: u64,
    /// Their size \[byte\].
    pub bytes: u64,
}

/// Why bytes are no end mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadMark {
    /// It has another size.
    Size {
        /// What there is \[byte\]; one more than it should have: at least.
        found: usize,
    },
    /// It begins with something else.
    Title,
    /// Its check does not fit: it was changed, or written in part.
    Check,
    /// A line that should be there is not, is there twice, or has a value that it cannot have.
    Line {
        /// Its first word.
        key: &'static str,
    },
}

impl fmt::Display for BadMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadMark::Size { found } if *found > BYTES => {
                write!(f, "it has more than {BYTES} bytes")
            }
            BadMark::Size { found } => write!(f, "it has {found} bytes instead of {BYTES}"),
            BadMark::Title => write!(f, "it does not begin with '{TITLE}'"),
            BadMark::Check => f.write_str("its check does not fit"),
            BadMark::Line { key } => write!(f, "its line '{key}' is not one"),
        }
    }
}

impl EndMark {
    /// While it is recorded.
    pub const RECORDING: EndMark = EndMark {
        ending: Ending::Recording,
        losses: Losses { unwritten: 0, discarded: 0, unread: 0 },
        files: 0,
        bytes: 0,
    };

    /// The file's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; BYTES] {
        let EndMark { ending, losses, files, bytes } = self;
        let Losses { unwritten, discarded, unread } = losses;
        let lines = format!(
            "{TITLE}\nstate {}\nunwritten {unwritten}\ndiscarded {discarded}\nunread {unread}\n\
             files {files}\nbytes {bytes}\n",
            ending.word()
        );
        let text = format!("{lines}check {:016x}\n", check(lines.as_bytes()));
        let mut block = [b'\n'; BYTES];
        // Six numbers of 20 digits at most: it always fits.
        for (to, from) in block.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        block
    }

    /// What the file's bytes say.
    ///
    /// # Errors
    /// Why they are no end mark.
    pub fn decode(bytes: &[u8]) -> Result<EndMark, BadMark> {
        if bytes.len() != BYTES {
            return Err(BadMark::Size { found: bytes.len() });
        }
        let text = std::str::from_utf8(bytes).map_err(|_| BadMark::Title)?;
        let (lines, rest) = text.split_once("check ").ok_or(BadMark::Check)?;
        if lines.lines().next() != Some(TITLE) {
            return Err(BadMark::Title);
        }
        let (found, padding) = rest.split_once('\n').ok_or(BadMark::Check)?;
        let is_padded = padding.bytes().all(|byte| byte == b'\n');
        if found != format!("{:016x}", check(lines.as_bytes())) || !is_padded {
            return Err(BadMark::Check);
        }
        let number = |key| value(lines, key).and_then(|text| number(text, key));
        let state = value(lines, "state")?;
        let ending = ENDINGS.iter().find(|(_, word)| *word == state);
        Ok(EndMark {
            ending: ending.map(|(ending, _)| *ending).ok_or(BadMark::Line { key: "state" })?,
            losses: Losses {
                unwritten: number("unwritten")?,
                discarded: number("discarded")?,
                unread: number("unread")?,
            },
            files: number("files")?,
            bytes: number("bytes")?,
        })
    }
}

/// What is behind the only line's first word.
fn value<'t>(lines: &'t str, key: &'static str) -> Result<&'t str, BadMark> {
    let mut found = lines.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    match (found.next(), found.next()) {
        (Some(value), None) => Ok(value),
        _ => Err(BadMark::Line { key }),
    }
}

/// Digits and nothing else.
fn number(text: &str, key: &'static str) -> Result<u64, BadMark> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if is_number { text.parse().ok() } else { None };
    number.ok_or(BadMark::Line { key })
}

/// FNV-1a.
fn check(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_model::Discarded;

    const FULL: EndMark = EndMark {
        ending: Ending::NoSpace,
        losses: Losses { unwritten: u64::MAX, discarded: u64::MAX, unread: u64::MAX },
        files: u64::MAX,
        bytes: u64::MAX,
    };

    /// The block with another text in place of a part, and a check that fits.
    fn with(from: &str, to: &str) -> Vec<u8> {
        let text = String::from_utf8(FULL.encode().to_vec()).unwrap();
        let lines = text.split("check ").next().unwrap().replace(from, to);
        let text = format!("{lines}check {:016x}\n", check(lines.as_bytes()));
        let mut block = text.into_bytes();
        block.resize(BYTES, b'\n');
        block
    }

    #[test]
    fn mark_of_every_ending_is_read_as_it_was_written() {
        for (ending, word) in ENDINGS {
            let mark = EndMark { ending, ..FULL };
            assert_eq!(EndMark::decode(&mark.encode()), Ok(mark));
            assert!(String::from_utf8(mark.encode().to_vec()).unwrap().contains(word));
        }
        assert_eq!(EndMark::decode(&EndMark::RECORDING.encode()), Ok(EndMark::RECORDING));
        assert_eq!(FULL.losses.total(), u64::MAX);
    }

    #[test]
    fn mark_with_any_byte_changed_or_cut_is_refused() {
        let block = FULL.encode();
        for at in 0..BYTES {
            let mut changed = block;
            changed[at] ^= 0x11;
            assert!(EndMark::decode(&changed).is_err(), "byte {at}");
        }
        for bytes in [0, 1, BYTES - 1] {
            assert_eq!(EndMark::decode(&block[..bytes]), Err(BadMark::Size { found: bytes }));
        }
        assert!(EndMark::decode(&[0; BYTES]).is_err());
        assert!(EndMark::decode(&[0xff; BYTES + 1]).is_err());
    }

    #[test]
    fn malicious_mark_with_a_check_that_fits_is_refused_by_its_lines() {
        let line = |key| Err(BadMark::Line { key });
        assert_eq!(EndMark::decode(&with("state no-space", "state asleep")), line("state"));
        assert_eq!(EndMark::decode(&with("state no-space\n", "")), line("state"));
        let most = u64::MAX.to_string();
        for wrong in ["", "-1", "+1", " 1", "1x", "18446744073709551616"] {
            let block = with(&format!("files {most}"), &format!("files {wrong}"));
            assert_eq!(EndMark::decode(&block), line("files"), "{wrong}");
        }
        assert_eq!(EndMark::decode(&with("discarded", "unread")), line("discarded"));
        assert_eq!(EndMark::decode(&with("mark 1", "mark 2")), Err(BadMark::Title));
        // What a later version adds is passed over.
        assert_eq!(EndMark::decode(&with("files", "more 7\nfiles")), Ok(FULL));
    }

    #[test]
    fn losses_are_what_packets_do_not_count() {
        let discarded = Discarded { full: 10, unmapped: 4, unwritten: 100, ..Discarded::default() };
        let counts =
            Counts { discarded, overwritten: 5, told: 12, unread_records: 3, ..Counts::default() };
        assert_eq!(Losses::of(&counts), Losses { unwritten: 100, discarded: 7, unread: 3 });
        // A process that says less than before.
        let counts = Counts { told: u64::MAX, ..counts };
        assert_eq!(Losses::of(&counts).discarded, 0);
    }
}
