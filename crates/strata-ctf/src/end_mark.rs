//! The end mark says how a recording ended and what could not be written. It is a small file of fixed size in the
//! folder of each trace, and in the folder of the recording.
//!
//! Packets count what was discarded between them. They cannot say that the disk was full or that the recorder was
//! killed. So this file is written with [`Ending::Recording`] when the recording begins, and is overwritten in place at
//! the end, which needs no further disk space. Each state is written with one write within one page: after a kill, the
//! file has the old state or the new one. The trace's environment announces the file ([`IN_ENVIRONMENT`]).
//!
//! The file is text, so that people can read it without Strata:
//!
//! ```text
//! strata end mark 1
//! state no-space
//! unwritten 43839
//! discarded 0
//! unread 0
//! files 2
//! bytes 1044480
//! session 0123456789abcdef
//! check 0123456789abcdef
//! ```
//!
//! The rest of the file, up to [`BYTES`], is newlines. Only a folder that was made by a session, which may remove it,
//! has the line `session`. The recording's mark at a relay has the line `quota` if the relay has discarded records, since the
//! host had as many bytes there as it may have. The check is a checksum of the lines before it: it detects damage, not forgery.

use std::fmt;

use strata_model::{stable_hash, Counts, STABLE_HASH_OF_NOTHING};

/// Name of the file. It is hidden, since readers of a trace take every other file for a stream.
pub const FILE: &str = ".strata-end";

/// Size of the file \[byte\].
pub const BYTES: usize = 512;

/// The entry of a trace's environment which announces that its folder has an end mark; its value is [`VERSION`].
pub const IN_ENVIRONMENT: &str = "strata_end_mark";

/// Version of the file's layout.
pub const VERSION: i64 = 1;

const TITLE: &str = "strata end mark 1";

/// Ways in which a recording can end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// The recording has not ended, or its recorder was killed.
    #[default]
    Recording,
    /// The recorded process or command has ended.
    Ended,
    /// A user has stopped the recording.
    Stopped,
    /// The recording had reached its requested duration.
    Duration,
    /// The trace had reached its requested size.
    Size,
    /// The file system was full.
    NoSpace,
    /// Writing failed, or another error ended the recording.
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
    /// Returns the name of the ending, a single word.
    #[must_use]
    pub fn word(self) -> &'static str {
        ENDINGS.iter().find(|(ending, _)| *ending == self).map_or("", |(_, word)| word)
    }

    /// Returns whether the recording ended early because of an error.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Ending::NoSpace | Ending::Failed)
    }
}

/// Numbers of event records that are missing in the trace and that none of its packets counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Records that the buffers still held when writing failed.
    pub unwritten: u64,
    /// Records that were discarded and that no packet counts, because none followed or packets of the trace do not
    /// count.
    pub discarded: u64,
    /// Records after a record that was never committed, so that their begin is unknown.
    pub unread: u64,
}

impl Losses {
    /// Computes the losses of `counts` that no packet of the trace accounts for.
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

    /// Returns the sum of all losses.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.unwritten.saturating_add(self.discarded).saturating_add(self.unread)
    }
}

/// Contents of an end mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndMark {
    /// The reason for which the recording ended.
    pub ending: Ending,
    /// Records that are missing.
    pub losses: Losses,
    /// The number of the trace's stream files at the end.
    pub files: u64,
    /// Size of the stream files at the end \[byte\].
    pub bytes: u64,
    /// Number that identifies the session that created the folder, together with the folder's name. That session may
    /// remove the folder.
    pub session: Option<u64>,
    /// Number of records that a relay has discarded because the host's share of its space was used up. They are also
    /// in `losses`.
    pub quota: u64,
}

/// Reasons why bytes are not a valid end mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadMark {
    /// The file has another size.
    Size {
        /// Size that was found \[byte\]. One byte more than [`BYTES`] stands for any greater size.
        found: usize,
    },
    /// The file does not begin with the title of this version.
    Title,
    /// The checksum is wrong: the file was changed, or written in part.
    Check,
    /// A required line is missing, occurs twice, or has an invalid value.
    Line {
        /// First word of the line.
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
    /// The mark of a trace that is being recorded.
    pub const RECORDING: EndMark = EndMark {
        ending: Ending::Recording,
        losses: Losses { unwritten: 0, discarded: 0, unread: 0 },
        files: 0,
        bytes: 0,
        session: None,
        quota: 0,
    };

    /// Encodes the file's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; BYTES] {
        let EndMark { ending, losses, files, bytes, session, quota } = self;
        let Losses { unwritten, discarded, unread } = losses;
        let session = session.map_or_else(String::new, |id| format!("session {id:016x}\n"));
        let quota = if *quota > 0 { format!("quota {quota}\n") } else { String::new() };
        let lines = format!(
            "{TITLE}\nstate {}\nunwritten {unwritten}\ndiscarded {discarded}\nunread {unread}\n\
             files {files}\nbytes {bytes}\n{session}{quota}",
            ending.word()
        );
        let text = format!("{lines}check {:016x}\n", check(lines.as_bytes()));
        let mut block = [b'\n'; BYTES];
        // The text always fits: seven numbers of at most 20 digits, and two of 16.
        for (to, from) in block.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        block
    }

    /// Decodes the file's bytes.
    ///
    /// # Errors
    /// The reason why the bytes are not a valid end mark.
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
            session: match lines.contains("\nsession ") {
                true => Some(hexadecimal(value(lines, "session")?, "session")?),
                false => None,
            },
            quota: if lines.contains("\nquota ") { number("quota")? } else { 0 },
        })
    }
}

/// Returns the text after the first word of the only line that begins with `key`.
fn value<'t>(lines: &'t str, key: &'static str) -> Result<&'t str, BadMark> {
    let mut found = lines.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    match (found.next(), found.next()) {
        (Some(value), None) => Ok(value),
        _ => Err(BadMark::Line { key }),
    }
}

/// Parses a decimal number that consists of digits only.
fn number(text: &str, key: &'static str) -> Result<u64, BadMark> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if is_number { text.parse().ok() } else { None };
    number.ok_or(BadMark::Line { key })
}

/// Parses a hexadecimal number of exactly sixteen digits.
fn hexadecimal(text: &str, key: &'static str) -> Result<u64, BadMark> {
    let is_number = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = if is_number { u64::from_str_radix(text, 16).ok() } else { None };
    number.ok_or(BadMark::Line { key })
}

/// Computes the checksum.
fn check(bytes: &[u8]) -> u64 {
    stable_hash(STABLE_HASH_OF_NOTHING, bytes)
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
        session: Some(u64::MAX),
        quota: 0,
    };

    /// Returns the encoded mark with a part of its text replaced, and with a valid checksum.
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
        let at_relay = EndMark { quota: u64::MAX, ..FULL };
        assert_eq!(EndMark::decode(&at_relay.encode()), Ok(at_relay));
        let of_session = EndMark { session: Some(7), ..EndMark::RECORDING };
        assert_eq!(EndMark::decode(&of_session.encode()), Ok(of_session));
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
        for wrong in ["", "1", "+123456789abcdef", "0123456789abcdefg"] {
            let block = with("session ffffffffffffffff", &format!("session {wrong}"));
            assert_eq!(EndMark::decode(&block), line("session"), "{wrong}");
        }
        assert_eq!(EndMark::decode(&with("discarded", "unread")), line("discarded"));
        assert_eq!(EndMark::decode(&with("mark 1", "mark 2")), Err(BadMark::Title));
        // Lines of a later version are ignored.
        assert_eq!(EndMark::decode(&with("files", "more 7\nfiles")), Ok(FULL));
    }

    #[test]
    fn losses_are_what_packets_do_not_count() {
        let discarded = Discarded { full: 10, unmapped: 4, unwritten: 100, ..Discarded::default() };
        let counts =
            Counts { discarded, overwritten: 5, told: 12, unread_records: 3, ..Counts::default() };
        assert_eq!(Losses::of(&counts), Losses { unwritten: 100, discarded: 7, unread: 3 });
        // A process may report a lower count than before.
        let counts = Counts { told: u64::MAX, ..counts };
        assert_eq!(Losses::of(&counts).discarded, 0);
    }
}
