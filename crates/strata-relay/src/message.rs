//! What frames say, in both directions. Each number has a fixed width and place; texts and bytes come last.

use std::fmt;

use strata_ctf::end_mark::{Ending, Losses};
use strata_ctf::kernel_symbols;
use strata_ctf::packet::{Header, HEADER_BYTES};
use strata_model::Uuid;

use crate::frame::header;

/// Of this protocol.
pub const VERSION: u32 = 5;

/// A page of a guest's memory \[byte\].
pub const PAGE_BYTES: usize = 4096;

/// Longest name of a host, a process, or a file [byte].
pub const NAME_BYTES_MAX: usize = 255;

/// Texts are packed as bytes: 1 for little-endian machines, 2 for others.
const ORDER: u8 = if cfg!(target_endian = "little") { 1 } else { 2 };

/// What a guest's recorder says first, again and again until it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Of its protocol.
    pub version: u32,
    /// The byte order of its packets is the host's.
    pub is_of_our_order: bool,
    /// Of this recording: what the answer repeats.
    pub recording: Uuid,
    /// Of the guest's clock; 0: it has none.
    pub boot: Uuid,
    /// What the guest calls itself.
    pub hostname: String,
}

/// A CPU's counter and the clock, read at one moment; all zeros: there is no counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterPair {
    /// The counter, read before the clock.
    pub before: u64,
    /// `CLOCK_MONOTONIC` [ns].
    pub at_ns: u64,
    /// The counter, read behind the clock.
    pub behind: u64,
}

/// What a trace is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceOf {
    /// The guest's kernel.
    Kernel,
    /// A process of the guest.
    Process {
        /// Its number there.
        pid: u32,
        /// Any text.
        name: String,
    },
}

/// A packet as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketBytes<'b> {
    /// What it says of itself; not checked.
    pub header: Header,
    /// Its records.
    pub body: &'b [u8],
}

/// What a guest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromGuest<'b> {
    /// See there.
    Hello(Hello),
    /// A trace, by a number.
    Trace {
        /// Its number from now on.
        id: u32,
        /// What it is of.
        of: TraceOf,
    },
    /// The trace's metadata, or how they go on.
    Metadata {
        /// The trace.
        id: u32,
        /// So much of the text from before stays [byte].
        keep: u64,
        /// What comes behind it.
        text: &'b str,
    },
    /// Names of the functions of the guest's kernel, for its trace: see [`strata_ctf::kernel_symbols`].
    Symbols {
        /// The trace.
        id: u32,
        /// As the file has them.
        bytes: &'b [u8],
    },
    /// The next packet of a stream.
    Packet {
        /// The trace.
        id: u32,
        /// Its number: that of the CPU, or one behind all of them, where it is of none.
        stream: u32,
        /// What is before that place of the stream's ring has been handed over with it [byte since its creation].
        upto: u64,
        /// It.
        packet: PacketBytes<'b>,
    },
    /// A stream of one packet.
    Stream {
        /// The trace.
        id: u32,
        /// Of its file.
        name: &'b str,
        /// All of it.
        packet: PacketBytes<'b>,
    },
    /// The last packet of a stream ends at another time.
    SetEnd {
        /// The trace.
        id: u32,
        /// Its number.
        stream: u32,
        /// By the guest's clock [ns].
        end_ns: u64,
    },
    /// The trace is complete.
    Ended {
        /// The trace.
        id: u32,
        /// How its recording ended.
        ending: Ending,
        /// What is not in it.
        losses: Losses,
    },
    /// So much was recorded into a trace, as the guest says.
    Counted {
        /// The trace.
        id: u32,
        /// Event records.
        records: u64,
        /// Never written.
        discarded: u64,
        /// Overwritten before they were read.
        overwritten: u64,
    },
    /// Nothing is in the trace.
    Gone {
        /// The trace.
        id: u32,
    },
    /// The answer to [`ToGuest::Ping`].
    Pong {
        /// The ping's number, as it was asked.
        number: u64,
        /// When the ping was taken, by the guest's clock [ns].
        received_ns: u64,
        /// When this was sent, by the guest's clock [ns].
        sent_ns: u64,
        /// The guest's counter at one of its times in between.
        pair: CounterPair,
    },
    /// Where the buffers of a trace lie in the guest's memory, for a host that can read that when the guest cannot say
    /// anything any more.
    Memory {
        /// The trace.
        id: u32,
        /// The physical address of a page that holds [`Hello::recording`], again and again.
        marker: u64,
        /// The first page of the channel.
        first: &'b [u8],
        /// The physical addresses of the others, in their order [8 bytes each].
        pages: &'b [u8],
    },
    /// All of it was sent.
    End,
}

/// What the host says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToGuest {
    /// Record.
    Welcome {
        /// Of the host's protocol.
        version: u32,
        /// See [`Hello::recording`].
        recording: Uuid,
        /// The host can read the guest's memory: where the buffers lie is worth telling.
        reads_memory: bool,
    },
    /// What time is it?
    Ping {
        /// The answer repeats it.
        number: u64,
    },
    /// The host's recording ends: so is the guest's to.
    Stop,
    /// Nothing of the guest is taken any more.
    Refused,
}

/// Why a frame says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageProblem {
    /// There is no such kind.
    Kind(u16),
    /// It has too few or too many bytes, or a number that cannot be, for its kind.
    Payload(u16),
}

impl fmt::Display for MessageProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageProblem::Kind(kind) => {
                write!(f, "a frame is of kind {kind}, which there is not")
            }
            MessageProblem::Payload(kind) => {
                write!(f, "a frame of kind {kind} has a payload that cannot be")
            }
        }
    }
}

const HELLO: u16 = 1;
const TRACE: u16 = 2;
const METADATA: u16 = 3;
const PACKET: u16 = 4;
const STREAM: u16 = 5;
const SET_END: u16 = 6;
const ENDED: u16 = 7;
const COUNTED: u16 = 8;
const GONE: u16 = 9;
const PONG: u16 = 10;
const END: u16 = 11;
const MEMORY: u16 = 12;
const SYMBOLS: u16 = 13;
const WELCOME: u16 = 101;
const PING: u16 = 102;
const STOP: u16 = 103;
const REFUSED: u16 = 104;

const ENDINGS: [Ending; 7] = [
    Ending::Recording,
    Ending::Ended,
    Ending::Stopped,
    Ending::Duration,
    Ending::Size,
    Ending::NoSpace,
    Ending::Failed,
];

/// A payload that is read from its begin on.
struct Taken<'b>(&'b [u8]);

impl<'b> Taken<'b> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn u8(&mut self) -> Option<u8> {
        self.bytes::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn uuid(&mut self) -> Option<Uuid> {
        self.bytes().map(Uuid)
    }

    /// Up to the end.
    fn rest(&mut self) -> &'b [u8] {
        std::mem::take(&mut self.0)
    }

    fn name(&mut self) -> Option<String> {
        let bytes = self.rest();
        (bytes.len() <= NAME_BYTES_MAX).then(|| String::from_utf8_lossy(bytes).into_owned())
    }

    fn packet(&mut self) -> Option<PacketBytes<'b>> {
        let header = Header::decode(&self.bytes::<HEADER_BYTES>()?)?;
        Some(PacketBytes { header, body: self.rest() })
    }
}

impl<'b> FromGuest<'b> {
    /// What a frame says.
    ///
    /// # Errors
    /// It says nothing.
    pub fn decode(kind: u16, payload: &'b [u8]) -> Result<FromGuest<'b>, MessageProblem> {
        let mut taken = Taken(payload);
        let said = Self::decoded(kind, &mut taken)?;
        said.filter(|_| taken.0.is_empty()).ok_or(MessageProblem::Payload(kind))
    }

    fn decoded(kind: u16, from: &mut Taken<'b>) -> Result<Option<FromGuest<'b>>, MessageProblem> {
        Ok(match kind {
            HELLO => hello(from).map(FromGuest::Hello),
            TRACE => trace(from),
            METADATA => (|| {
                let (id, keep) = (from.u32()?, from.u64()?);
                let text = std::str::from_utf8(from.rest()).ok()?;
                Some(FromGuest::Metadata { id, keep, text })
            })(),
            SYMBOLS => (|| {
                let (id, bytes) = (from.u32()?, from.rest());
                kernel_symbols::are_symbols(bytes).then_some(FromGuest::Symbols { id, bytes })
            })(),
            PACKET => (|| {
                let (id, stream, upto) = (from.u32()?, from.u32()?, from.u64()?);
                Some(FromGuest::Packet { id, stream, upto, packet: from.packet()? })
            })(),
            STREAM => (|| {
                let (id, bytes) = (from.u32()?, usize::from(from.u8()?));
                let (name, rest) = from.0.split_at_checked(bytes)?;
                from.0 = rest;
                let name = std::str::from_utf8(name).ok().filter(|name| is_stream(name))?;
                Some(FromGuest::Stream { id, name, packet: from.packet()? })
            })(),
            SET_END => (|| {
                let (id, stream) = (from.u32()?, from.u32()?);
                Some(FromGuest::SetEnd { id, stream, end_ns: from.u64()? })
            })(),
            ENDED => (|| {
                let (id, ending) = (from.u32()?, *ENDINGS.get(usize::from(from.u8()?))?);
                let (unwritten, discarded, unread) = (from.u64()?, from.u64()?, from.u64()?);
                let losses = Losses { unwritten, discarded, unread };
                Some(FromGuest::Ended { id, ending, losses })
            })(),
            COUNTED => (|| {
                Some(FromGuest::Counted {
                    id: from.u32()?,
                    records: from.u64()?,
                    discarded: from.u64()?,
                    overwritten: from.u64()?,
                })
            })(),
            GONE => from.u32().map(|id| FromGuest::Gone { id }),
            PONG => (|| {
                Some(FromGuest::Pong {
                    number: from.u64()?,
                    received_ns: from.u64()?,
                    sent_ns: from.u64()?,
                    pair: CounterPair {
                        before: from.u64()?,
                        at_ns: from.u64()?,
                        behind: from.u64()?,
                    },
                })
            })(),
            END => Some(FromGuest::End),
            MEMORY => (|| {
                let (id, marker) = (from.u32()?, from.u64()?);
                let (first, pages) = from.rest().split_at_checked(PAGE_BYTES)?;
                (pages.len() % 8 == 0).then_some(FromGuest::Memory { id, marker, first, pages })
            })(),
            other => return Err(MessageProblem::Kind(other)),
        })
    }

    /// As bytes of the channel.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        let kind = match self {
            FromGuest::Hello(hello) => {
                out.number(&hello.version.to_le_bytes()).number(&[ORDER]);
                out.number(&hello.recording.0).number(&hello.boot.0).name(&hello.hostname);
                HELLO
            }
            FromGuest::Trace { id, of } => {
                let (layer, pid, name) = match of {
                    TraceOf::Kernel => (0, 0, ""),
                    TraceOf::Process { pid, name } => (1, *pid, name.as_str()),
                };
                out.number(&id.to_le_bytes()).number(&[layer]).number(&pid.to_le_bytes());
                out.name(name);
                TRACE
            }
            FromGuest::Metadata { id, keep, text } => {
                out.number(&id.to_le_bytes()).number(&keep.to_le_bytes()).number(text.as_bytes());
                METADATA
            }
            FromGuest::Symbols { id, bytes } => {
                out.number(&id.to_le_bytes()).number(bytes);
                SYMBOLS
            }
            FromGuest::Packet { id, stream, upto, packet } => {
                out.number(&id.to_le_bytes()).number(&stream.to_le_bytes());
                out.number(&upto.to_le_bytes()).packet(packet);
                PACKET
            }
            FromGuest::Stream { id, name, packet } => {
                // As long as a file's name.
                let bytes = u8::try_from(name.len()).unwrap_or(0);
                out.number(&id.to_le_bytes()).number(&[bytes]).number(name.as_bytes());
                out.packet(packet);
                STREAM
            }
            FromGuest::SetEnd { id, stream, end_ns } => {
                out.number(&id.to_le_bytes()).number(&stream.to_le_bytes());
                out.number(&end_ns.to_le_bytes());
                SET_END
            }
            FromGuest::Ended { id, ending, losses } => {
                let ending = ENDINGS.iter().position(|one| one == ending).unwrap_or(0);
                out.number(&id.to_le_bytes()).number(&[ending as u8]);
                for number in [losses.unwritten, losses.discarded, losses.unread] {
                    out.number(&number.to_le_bytes());
                }
                ENDED
            }
            FromGuest::Counted { id, records, discarded, overwritten } => {
                out.number(&id.to_le_bytes());
                for number in [records, discarded, overwritten] {
                    out.number(&number.to_le_bytes());
                }
                COUNTED
            }
            FromGuest::Gone { id } => {
                out.number(&id.to_le_bytes());
                GONE
            }
            FromGuest::Pong { number, received_ns, sent_ns, pair } => {
                let CounterPair { before, at_ns, behind } = pair;
                for number in [number, received_ns, sent_ns, before, at_ns, behind] {
                    out.number(&number.to_le_bytes());
                }
                PONG
            }
            FromGuest::Memory { id, marker, first, pages } => {
                out.number(&id.to_le_bytes()).number(&marker.to_le_bytes());
                out.number(first).number(pages);
                MEMORY
            }
            FromGuest::End => END,
        };
        out.framed(kind)
    }
}

fn hello(from: &mut Taken<'_>) -> Option<Hello> {
    Some(Hello {
        version: from.u32()?,
        is_of_our_order: from.u8()? == ORDER,
        recording: from.uuid()?,
        boot: from.uuid()?,
        hostname: from.name()?,
    })
}

fn trace<'b>(from: &mut Taken<'b>) -> Option<FromGuest<'b>> {
    let (id, layer, pid) = (from.u32()?, from.u8()?, from.u32()?);
    let name = from.name()?;
    let of = match layer {
        0 if pid == 0 && name.is_empty() => TraceOf::Kernel,
        1 => TraceOf::Process { pid, name },
        _ => return None,
    };
    Some(FromGuest::Trace { id, of })
}

/// May a stream's file be called so? No hidden one, not the metadata, in no other folder.
fn is_stream(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let is_own = name.contains('_') && !name.starts_with("channel");
    is_own && name.len() <= 64 && name.bytes().all(is_allowed)
}

/// A payload that is written.
#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn number(&mut self, bytes: &[u8]) -> &mut Out {
        self.0.extend_from_slice(bytes);
        self
    }

    fn name(&mut self, name: &str) {
        let most = NAME_BYTES_MAX.min(name.len());
        let end = (0..=most).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
        self.0.extend_from_slice(&name.as_bytes()[..end]);
    }

    fn packet(&mut self, packet: &PacketBytes<'_>) {
        self.0.reserve(HEADER_BYTES + packet.body.len());
        self.0.extend_from_slice(&packet.header.encode());
        self.0.extend_from_slice(packet.body);
    }

    fn framed(self, kind: u16) -> Vec<u8> {
        [&header(kind, self.0.len())[..], &self.0].concat()
    }
}

impl ToGuest {
    /// What a frame says.
    ///
    /// # Errors
    /// It says nothing.
    pub fn decode(kind: u16, payload: &[u8]) -> Result<ToGuest, MessageProblem> {
        let mut from = Taken(payload);
        let said = match kind {
            WELCOME => (|| {
                let (version, recording) = (from.u32()?, from.uuid()?);
                let reads_memory = match from.u8()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                Some(ToGuest::Welcome { version, recording, reads_memory })
            })(),
            PING => from.u64().map(|number| ToGuest::Ping { number }),
            STOP => Some(ToGuest::Stop),
            REFUSED => Some(ToGuest::Refused),
            other => return Err(MessageProblem::Kind(other)),
        };
        said.filter(|_| from.0.is_empty()).ok_or(MessageProblem::Payload(kind))
    }

    /// As bytes of the channel.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        let kind = match self {
            ToGuest::Welcome { version, recording, reads_memory } => {
                out.number(&version.to_le_bytes()).number(&recording.0);
                out.number(&[u8::from(*reads_memory)]);
                WELCOME
            }
            ToGuest::Ping { number } => {
                out.number(&number.to_le_bytes());
                PING
            }
            ToGuest::Stop => STOP,
            ToGuest::Refused => REFUSED,
        };
        out.framed(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frames;

    fn packet(body: &[u8]) -> PacketBytes<'_> {
        let header =
            Header { sequence: 7, timestamp_begin: 5, timestamp_end: 9, ..Header::default() };
        PacketBytes { header: header.with_content_bytes(body.len() as u64), body }
    }

    fn all() -> Vec<FromGuest<'static>> {
        let hello = Hello {
            version: VERSION,
            is_of_our_order: true,
            recording: Uuid([1; 16]),
            boot: Uuid([2; 16]),
            hostname: "box".into(),
        };
        let losses = Losses { unwritten: 1, discarded: 2, unread: 3 };
        vec![
            FromGuest::Hello(hello),
            FromGuest::Trace { id: 1, of: TraceOf::Kernel },
            FromGuest::Trace { id: 2, of: TraceOf::Process { pid: 42, name: "app".into() } },
            FromGuest::Metadata { id: 1, keep: 10, text: "trace {}" },
            FromGuest::Symbols { id: 1, bytes: b"strata kernel symbols 1\n\x10\x01f" },
            FromGuest::Packet { id: 1, stream: 3, upto: 8192, packet: packet(b"records") },
            FromGuest::Stream { id: 1, name: "statedump_0", packet: packet(b"") },
            FromGuest::SetEnd { id: 1, stream: 3, end_ns: 77 },
            FromGuest::Ended { id: 1, ending: Ending::Stopped, losses },
            FromGuest::Counted { id: 1, records: 4, discarded: 5, overwritten: 6 },
            FromGuest::Gone { id: 2 },
            FromGuest::Pong {
                number: 1,
                received_ns: 2,
                sent_ns: 3,
                pair: CounterPair { before: 4, at_ns: 5, behind: 6 },
            },
            FromGuest::Memory { id: 1, marker: 4096, first: &[7; PAGE_BYTES], pages: &[9; 24] },
            FromGuest::End,
        ]
    }

    #[test]
    fn messages_are_what_was_sent() {
        let mut frames = Frames::default();
        all().iter().for_each(|message| frames.push(&message.encode()));
        for sent in all() {
            let (kind, payload) = frames.next_frame().unwrap().unwrap();
            assert_eq!(FromGuest::decode(kind, payload), Ok(sent));
        }
        let recording = Uuid([9; 16]);
        for sent in [
            ToGuest::Welcome { version: 1, recording, reads_memory: true },
            ToGuest::Ping { number: 8 },
            ToGuest::Stop,
            ToGuest::Refused,
        ] {
            frames.push(&sent.encode());
            let (kind, payload) = frames.next_frame().unwrap().unwrap();
            assert_eq!(ToGuest::decode(kind, payload), Ok(sent));
        }
    }

    #[test]
    fn messages_that_are_cut_or_too_long_say_nothing() {
        for message in all() {
            let bytes = message.encode();
            let (kind, payload) = (u16::from_le_bytes([bytes[4], bytes[5]]), &bytes[12..]);
            for end in 0..payload.len() {
                // Texts and records may be shorter; what is in front of them may not.
                if let Ok(found) = FromGuest::decode(kind, &payload[..end]) {
                    assert_ne!(found, message);
                }
            }
            let longer = [payload, &[0; 300]].concat();
            assert_ne!(FromGuest::decode(kind, &longer), Ok(message));
        }
        assert_eq!(FromGuest::decode(999, &[]), Err(MessageProblem::Kind(999)));
        assert_eq!(ToGuest::decode(HELLO, &[]), Err(MessageProblem::Kind(HELLO)));
    }

    #[test]
    fn malicious_symbols_are_refused() {
        for bytes in [
            &b""[..],
            b"#!/bin/sh\n",
            b"strata kernel symbols 1\n\x10\x02f",
            b"strata kernel symbols 1\n",
        ] {
            let said = FromGuest::Symbols { id: 1, bytes }.encode();
            assert_eq!(
                FromGuest::decode(SYMBOLS, &said[12..]),
                Err(MessageProblem::Payload(SYMBOLS)),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn malicious_names_of_streams_are_refused() {
        for name in
            ["metadata", "channel0_0", ".strata-end", "../x_0", "a/b_0", "", "x_0\0", "STATE_0"]
        {
            let bytes = FromGuest::Stream { id: 1, name, packet: packet(b"") }.encode();
            assert_eq!(
                FromGuest::decode(STREAM, &bytes[12..]),
                Err(MessageProblem::Payload(STREAM)),
                "{name}"
            );
        }
    }
}
