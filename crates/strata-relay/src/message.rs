//! Messages between a guest's recorder and its host, which frames carry. Each number has a fixed width and place; texts
//! and bytes come last.
//!
//! ```text
//! guest                                          host
//! Hello ─────────────────────────────────────▶        repeated until it is answered
//!       ◀──────────────────────────────── Welcome     or Refused, with the reason
//!       ◀─────────────────────────────────── Ping     ┐ several times, then every 50 ms: two clocks are
//! Pong  ─────────────────────────────────────▶        ┘ compared (`offset_bounds.rs`)
//! Trace, Metadata, Symbols, Memory ──────────▶        a trace begins, and is described
//! Packet, Stream ────────────────────────────▶        bytes of a stream; or a file by itself
//! Counted, SetEnd, Ended ────────────────────▶        counts so far; the last time; the end of a trace
//!       ◀─────────────────────────────────── Stop     the host's recording ends
//! End   ─────────────────────────────────────▶        everything was sent
//! ```
//!
//! [`FromGuest`] and [`ToGuest`] are decoded from a frame's payload and borrow its bytes. Decoding checks the form: all
//! numbers are present, names are short and harmless, a stream's file has a possible name. Whether a message makes
//! sense (a trace that was never announced, a packet of the wrong size) is checked by the receiver,
//! `strata-session/src/guest/receive.rs`.
//!
//! [`VERSION`] changes with every change of a message; a host refuses a guest with another version, with a text that
//! has both versions.

use std::fmt;

use strata_ctf::end_mark::{Ending, Losses};
use strata_ctf::kernel_symbols;
use strata_ctf::packet::{Header, HEADER_BYTES};
use strata_model::Uuid;

use crate::frame::{header, HEADER_BYTES as FRAME_HEADER_BYTES};

/// Version of this protocol.
pub const VERSION: u32 = 5;

/// Size of a page of a guest's memory \[byte\].
pub const PAGE_BYTES: usize = 4096;

/// Longest name of a host, a process, or a file \[byte\].
pub const NAME_BYTES_MAX: usize = 255;

/// Byte order of this machine: 1 for little-endian, 2 for others. Packets are in the sender's byte order.
pub(crate) const ORDER: u8 = if cfg!(target_endian = "little") { 1 } else { 2 };

/// First message of a guest's recorder, repeated until it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Version of the guest's protocol.
    pub version: u32,
    /// True if the guest's packets are in the host's byte order.
    pub is_of_our_order: bool,
    /// UUID of this recording, which the host's answer repeats.
    pub recording: Uuid,
    /// UUID of the guest's clock; 0 if the guest has none.
    pub boot: Uuid,
    /// The guest's own host name.
    pub hostname: String,
}

/// A CPU's counter and the clock, read at one moment; all are 0 if there is no counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterPair {
    /// Value of the counter, read before the clock.
    pub before: u64,
    /// Time by `CLOCK_MONOTONIC` \[ns\].
    pub at_ns: u64,
    /// Value of the counter, read after the clock.
    pub behind: u64,
}

/// The kernel or process of which a trace is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceOf {
    /// The trace of the guest's kernel.
    Kernel,
    /// The trace of a process in the guest.
    Process {
        /// Process id in the guest.
        pid: u32,
        /// Name of the process; any text.
        name: String,
    },
}

/// A packet as it arrived, not checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketBytes<'b> {
    /// Header of the packet, unchecked.
    pub header: Header,
    pub body: &'b [u8],
}

/// Message from a guest to its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromGuest<'b> {
    Hello(Hello),
    /// Announces a trace and its number.
    Trace {
        /// Number that later messages use for this trace.
        id: u32,
        of: TraceOf,
    },
    /// Sets or extends the metadata of the trace.
    Metadata {
        id: u32,
        /// Size of the earlier text that stays before the new text \[byte\].
        keep: u64,
        text: &'b str,
    },
    /// Sets the names of the kernel's functions, for the trace of the guest's kernel; see
    /// [`strata_ctf::kernel_symbols`].
    Symbols {
        id: u32,
        /// Content of the symbols file.
        bytes: &'b [u8],
    },
    /// Appends the next packet of a stream.
    Packet {
        id: u32,
        /// Number of the stream: that of its CPU, or a number after all CPUs' for a stream without a CPU.
        stream: u32,
        /// Of a guest: position up to which the stream's ring has been handed over with this packet \[byte since its
        /// creation\]. Of a recorder: number of the packet's event records; 0 if it is not known, as before version 2.
        upto: u64,
        packet: PacketBytes<'b>,
    },
    /// Adds a stream of one packet.
    Stream {
        id: u32,
        /// Name of the stream's file.
        name: &'b str,
        packet: PacketBytes<'b>,
    },
    /// Changes the end time of a stream's last packet.
    SetEnd {
        id: u32,
        /// Number of the stream.
        stream: u32,
        /// New end time by the guest's clock \[ns\].
        end_ns: u64,
    },
    /// Reports that the trace is complete.
    Ended {
        id: u32,
        /// Reason why the recording ended.
        ending: Ending,
        /// Records that are discarded, and thus missing from the trace.
        losses: Losses,
    },
    /// Reports the counts of a trace so far.
    Counted {
        /// Number of the trace.
        id: u32,
        /// Number of written event records.
        records: u64,
        /// Number of discarded event records.
        discarded: u64,
        /// Number of event records that were overwritten before they were read.
        overwritten: u64,
    },
    Gone {
        id: u32,
    },
    /// Answers a [`ToGuest::Ping`].
    Pong {
        /// Number of the ping, repeated.
        number: u64,
        /// Time at which the ping arrived, by the guest's clock \[ns\].
        received_ns: u64,
        /// Time at which this answer was sent, by the guest's clock \[ns\].
        sent_ns: u64,
        /// The guest's counter and clock at a moment between these two times.
        pair: CounterPair,
    },
    /// Reports the addresses of a trace's buffers in the guest's memory. A host that can read that memory finds the
    /// last records there when the guest cannot send any more.
    Memory {
        id: u32,
        /// Physical address of a page that is filled with copies of [`Hello::recording`].
        marker: u64,
        /// Content of the channel's first page.
        first: &'b [u8],
        /// Physical addresses of the other pages, in order \[8 bytes each\].
        pages: &'b [u8],
    },
    /// Reports that everything was sent.
    End,
}

/// Message from a host to its guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToGuest {
    /// Accepts the guest, which may now record.
    Welcome {
        /// Version of the host's protocol.
        version: u32,
        /// UUID from [`Hello::recording`].
        recording: Uuid,
        /// True if the host can read the guest's memory, so that the guest should send [`FromGuest::Memory`].
        reads_memory: bool,
    },
    /// Requests the guest's time.
    Ping {
        /// Number of the request, which the answer repeats.
        number: u64,
    },
    /// Reports that the host's recording ends, so that the guest ends its own.
    Stop,
    /// Refuses the guest: the host accepts nothing from it any more.
    Refused,
}

/// Reason why a frame is no valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageProblem {
    /// The kind of message does not exist.
    Kind(u16),
    /// The payload does not fit the kind of message: it has too few or too many bytes, or an impossible number.
    Payload(u16),
}

impl fmt::Display for MessageProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageProblem::Kind(kind) => {
                write!(f, "a frame has the unknown kind {kind}")
            }
            MessageProblem::Payload(kind) => {
                write!(f, "a frame of kind {kind} has a payload that cannot be")
            }
        }
    }
}

impl std::error::Error for MessageProblem {}

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

pub(crate) const ENDINGS: [Ending; 7] = [
    Ending::Recording,
    Ending::Ended,
    Ending::Stopped,
    Ending::Duration,
    Ending::Size,
    Ending::NoSpace,
    Ending::Failed,
];

/// The rest of a payload, which is read from its begin on.
pub(crate) struct Taken<'b>(pub(crate) &'b [u8]);

impl<'b> Taken<'b> {
    pub(crate) fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.bytes::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    pub(crate) fn uuid(&mut self) -> Option<Uuid> {
        self.bytes().map(Uuid)
    }

    /// Takes all remaining bytes.
    pub(crate) fn rest(&mut self) -> &'b [u8] {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn name(&mut self) -> Option<String> {
        let bytes = self.rest();
        (bytes.len() <= NAME_BYTES_MAX).then(|| String::from_utf8_lossy(bytes).into_owned())
    }

    fn packet(&mut self) -> Option<PacketBytes<'b>> {
        let header = Header::decode(&self.bytes::<HEADER_BYTES>()?)?;
        Some(PacketBytes { header, body: self.rest() })
    }
}

impl<'b> FromGuest<'b> {
    /// Decodes a frame that a guest has sent.
    ///
    /// # Errors
    /// The frame is no valid message.
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

    /// Encodes the message as a frame.
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

/// Returns whether a stream's file may have this name: not hidden, not the metadata, and in no other folder.
fn is_stream(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let is_own = name.contains('_') && !name.starts_with("channel");
    is_own && name.len() <= 64 && name.bytes().all(is_allowed)
}

/// A frame that is being written: space for its header, and the payload so far.
pub(crate) struct Out(Vec<u8>);

impl Default for Out {
    fn default() -> Out {
        Out::within(Vec::new())
    }
}

impl Out {
    /// Begins a frame in the memory of `buffer`, whose content is overwritten.
    fn within(mut buffer: Vec<u8>) -> Out {
        buffer.clear();
        buffer.extend_from_slice(&header(0, 0));
        Out(buffer)
    }

    pub(crate) fn number(&mut self, bytes: &[u8]) -> &mut Out {
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

    pub(crate) fn framed(mut self, kind: u16) -> Vec<u8> {
        let header = header(kind, self.0.len() - FRAME_HEADER_BYTES);
        self.0[..FRAME_HEADER_BYTES].copy_from_slice(&header);
        self.0
    }
}

/// Encodes [`FromGuest::Packet`] as a frame in the memory of `buffer`, whose content is overwritten. `body` appends the records, which
/// are copied only once this way; `header` gets their size.
///
/// # Errors
/// What `body` returns.
pub fn packet_frame<E>(
    buffer: Vec<u8>,
    (id, stream, upto): (u32, u32, u64),
    header: Header,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    let mut out = Out::within(buffer);
    out.number(&id.to_le_bytes()).number(&stream.to_le_bytes()).number(&upto.to_le_bytes());
    let at = out.0.len();
    out.number(&[0; HEADER_BYTES]);
    body(&mut out.0)?;
    let bytes = (out.0.len() - at - HEADER_BYTES) as u64;
    out.0[at..at + HEADER_BYTES].copy_from_slice(&header.with_content_bytes(bytes).encode());
    Ok(out.framed(PACKET))
}

impl ToGuest {
    /// Decodes a frame that a host has sent.
    ///
    /// # Errors
    /// The frame is no valid message.
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

    /// Encodes the message as a frame.
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
    fn packet_that_is_copied_into_its_frame_is_the_same_message() {
        let PacketBytes { header, body } = packet(b"records");
        let sent = FromGuest::Packet { id: 1, stream: 3, upto: 8, packet: packet(body) };
        let copy = |out: &mut Vec<u8>| -> Result<(), ()> {
            out.extend_from_slice(body);
            Ok(())
        };
        let header = header.with_content_bytes(0);
        let frame = packet_frame(vec![9; 500], (1, 3, 8), header, copy);
        assert_eq!(frame, Ok(sent.encode()));
        assert_eq!(packet_frame(Vec::new(), (1, 3, 8), header, |_| Err("gone")), Err("gone"));
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
