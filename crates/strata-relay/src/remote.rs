//! Messages between a recorder and a relay, `strata relayd`.
//!
//! The frames and most messages are those of a guest. A relay differs in two points: the connection may break and be
//! made again, and the relay may serve many recorders. So the first message names the recording, and the relay answers
//! with the number of the message that it wants next:
//!
//! ```text
//! recorder                                  relay
//! Open { recording, first: 17, … }    ─▶
//!                                     ◀─    Resume { next: 19 }      has 17 and 18 already
//! message 19, 20, 21                  ─▶
//!                                     ◀─    Ack { next: 22 }         these are in its files
//! Close                               ─▶    ◀─ Ack
//! ```
//!
//! The messages that change the trace are numbered ([`FromRecorder::is_numbered`]). A recorder keeps each of them until
//! the relay acknowledges it.

use strata_ctf::end_mark::{Ending, Losses};
use strata_ctf::progress_mark::ProgressMark;
use strata_model::Uuid;

use crate::message::{FromGuest, MessageProblem, Out, Taken, ENDINGS, NAME_BYTES_MAX, ORDER};

/// Version of the messages between recorder and relay. Since 2, packets have the number of their event records, and recorders
/// know [`ToRecorder::Discarded`].
pub const REMOTE_VERSION: u32 = 2;

/// Earliest version of a recorder that a relay still serves.
pub const REMOTE_VERSION_MIN: u32 = 1;

/// Longest reason with which a relay refuses a recorder \[byte\].
pub const TEXT_BYTES_MAX: usize = 1024;

/// First message of a recorder on each connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Version of the recorder's protocol, which the relay then speaks.
    pub version: u32,
    /// True if the recorder's packets are in the relay's byte order.
    pub is_of_our_order: bool,
    /// UUID of the recording, the same on each of its connections.
    pub recording: Uuid,
    /// UUID of the recorder's boot, which stands for its clock; 0 if there is none.
    pub boot: Uuid,
    /// Number of the first message that the recorder still has.
    pub first: u64,
    /// Name of the recorder's host.
    pub host: String,
    /// Name that the recording's folder should have.
    pub session: String,
}

impl Open {
    /// Returns whether the recorder knows [`ToRecorder::Discarded`].
    #[must_use]
    pub fn knows_discarded(&self) -> bool {
        self.version >= 2
    }
}

/// Message from a recorder to a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromRecorder<'b> {
    /// Names the recording, and asks for the number of the next message.
    Open(Open),
    /// Begins a trace of the recording.
    Begin {
        /// Number that later messages use for this trace.
        id: u32,
        /// Folder of the layer, such as `kernel`, or `channel/user`.
        layer: String,
        /// Process id and name, if the trace is of one process.
        process: Option<(u32, String)>,
    },
    /// Reports up to which time all records of a trace were sent.
    Progress {
        /// Number of the trace.
        id: u32,
        /// The time, and the period of such reports.
        mark: ProgressMark,
    },
    /// Changes the end time of the last packet of a stream.
    SetEnd {
        /// Number of the trace.
        id: u32,
        /// Number of the stream.
        stream: u32,
        /// Number of the packet in its stream.
        sequence: u64,
        /// New end time by the recorder's clock \[ns\].
        end_ns: u64,
    },
    /// Carries a message about a trace as a guest sends it.
    Data(FromGuest<'b>),
    /// Ends the whole recording.
    Close {
        /// Reason why the recording ended.
        ending: Ending,
        /// Records that are in none of the traces.
        losses: Losses,
    },
}

/// Message from a relay to a recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToRecorder {
    /// Accepts the recording, and requests the next message.
    Resume {
        /// Version of the relay's protocol.
        version: u32,
        /// UUID from [`Open::recording`].
        recording: Uuid,
        /// Number of the message that the relay wants first.
        next: u64,
    },
    /// Confirms that all messages before this number are in the relay's files.
    Ack {
        /// Number of the first message that is not in the files.
        next: u64,
    },
    /// Requests the recorder's time.
    Ping {
        /// Number of the request, which the answer repeats.
        number: u64,
    },
    /// Reports event records that the relay discards because the host's share of its space is used up. Comes before
    /// the acknowledgement of their messages.
    Discarded {
        /// Number of records of the recording that were discarded so far.
        records: u64,
        /// True if the relay discards the packets that are sent now, too.
        is_full: bool,
    },
    /// Refuses the recording, for good.
    Refuse {
        /// Reason, as a text for people.
        why: String,
    },
    /// Ends the connection, since the relay cannot take messages now: the recorder connects again.
    Later {
        /// Reason, as a text for people.
        why: String,
    },
}

const OPEN: u16 = 20;
const BEGIN: u16 = 21;
const PROGRESS: u16 = 22;
const CLOSE: u16 = 23;
const SET_END: u16 = 24;
const RESUME: u16 = 120;
const ACK: u16 = 121;
const PING: u16 = 122;
const REFUSE: u16 = 123;
const LATER: u16 = 124;
const DISCARDED: u16 = 125;

/// Returns whether only guests send this kind of message, and recorders do not send it to a relay.
fn is_only_of_guests(said: &FromGuest<'_>) -> bool {
    matches!(
        said,
        FromGuest::Hello(_)
            | FromGuest::Trace { .. }
            | FromGuest::SetEnd { .. }
            | FromGuest::Memory { .. }
            | FromGuest::End
    )
}

/// Reads a name that is preceded by its length.
fn counted_name(from: &mut Taken<'_>) -> Option<String> {
    let bytes = usize::from(from.u8()?);
    let (name, rest) = from.0.split_at_checked(bytes)?;
    from.0 = rest;
    std::str::from_utf8(name).ok().map(str::to_owned)
}

fn put_name(out: &mut Out, name: &str) {
    let most = NAME_BYTES_MAX.min(name.len());
    let end = (0..=most).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    let name = name.get(..end).unwrap_or_default();
    out.number(&[u8::try_from(name.len()).unwrap_or(0)]).number(name.as_bytes());
}

/// Reads a reason, which is the rest of its message.
fn reason(from: &mut Taken<'_>) -> Option<String> {
    let why = std::str::from_utf8(from.rest()).ok()?;
    (why.len() <= TEXT_BYTES_MAX).then(|| why.to_owned())
}

fn put_reason(out: &mut Out, why: &str) {
    let most = TEXT_BYTES_MAX.min(why.len());
    let end = (0..=most).rev().find(|at| why.is_char_boundary(*at)).unwrap_or(0);
    out.number(why.get(..end).unwrap_or_default().as_bytes());
}

impl<'b> FromRecorder<'b> {
    /// Decodes a frame that a recorder has sent.
    ///
    /// # Errors
    /// The frame is no message of a recorder.
    pub fn decode(kind: u16, payload: &'b [u8]) -> Result<FromRecorder<'b>, MessageProblem> {
        let mut from = Taken(payload);
        let said = match kind {
            OPEN => (|| {
                Some(FromRecorder::Open(Open {
                    version: from.u32()?,
                    is_of_our_order: from.u8()? == ORDER,
                    recording: from.uuid()?,
                    boot: from.uuid()?,
                    first: from.u64()?,
                    host: counted_name(&mut from)?,
                    session: counted_name(&mut from)?,
                }))
            })(),
            BEGIN => (|| {
                let (id, layer) = (from.u32()?, counted_name(&mut from)?);
                let process = match from.u8()? {
                    0 => None,
                    1 => Some((from.u32()?, counted_name(&mut from)?)),
                    _ => return None,
                };
                Some(FromRecorder::Begin { id, layer, process })
            })(),
            PROGRESS => (|| {
                let (id, upto, flush_ns) = (from.u32()?, from.u64()?, from.u64()?);
                Some(FromRecorder::Progress { id, mark: ProgressMark { upto, flush_ns } })
            })(),
            SET_END => (|| {
                let (id, stream) = (from.u32()?, from.u32()?);
                let (sequence, end_ns) = (from.u64()?, from.u64()?);
                Some(FromRecorder::SetEnd { id, stream, sequence, end_ns })
            })(),
            CLOSE => (|| {
                let ending = *ENDINGS.get(usize::from(from.u8()?))?;
                let (unwritten, discarded, unread) = (from.u64()?, from.u64()?, from.u64()?);
                let losses = Losses { unwritten, discarded, unread };
                Some(FromRecorder::Close { ending, losses })
            })(),
            _ => {
                let said = FromGuest::decode(kind, payload)?;
                return match is_only_of_guests(&said) {
                    true => Err(MessageProblem::Kind(kind)),
                    false => Ok(FromRecorder::Data(said)),
                };
            }
        };
        said.filter(|_| from.0.is_empty()).ok_or(MessageProblem::Payload(kind))
    }

    /// Encodes the message as a frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        let kind = match self {
            FromRecorder::Open(open) => {
                out.number(&open.version.to_le_bytes()).number(&[ORDER]);
                out.number(&open.recording.0).number(&open.boot.0);
                out.number(&open.first.to_le_bytes());
                put_name(&mut out, &open.host);
                put_name(&mut out, &open.session);
                OPEN
            }
            FromRecorder::Begin { id, layer, process } => {
                out.number(&id.to_le_bytes());
                put_name(&mut out, layer);
                match process {
                    None => drop(out.number(&[0])),
                    Some((pid, name)) => {
                        out.number(&[1]).number(&pid.to_le_bytes());
                        put_name(&mut out, name);
                    }
                }
                BEGIN
            }
            FromRecorder::Progress { id, mark } => {
                out.number(&id.to_le_bytes()).number(&mark.upto.to_le_bytes());
                out.number(&mark.flush_ns.to_le_bytes());
                PROGRESS
            }
            FromRecorder::SetEnd { id, stream, sequence, end_ns } => {
                out.number(&id.to_le_bytes()).number(&stream.to_le_bytes());
                out.number(&sequence.to_le_bytes()).number(&end_ns.to_le_bytes());
                SET_END
            }
            FromRecorder::Close { ending, losses } => {
                let ending = ENDINGS.iter().position(|one| one == ending).unwrap_or(0);
                out.number(&[ending as u8]);
                for number in [losses.unwritten, losses.discarded, losses.unread] {
                    out.number(&number.to_le_bytes());
                }
                CLOSE
            }
            FromRecorder::Data(said) => return said.encode(),
        };
        out.framed(kind)
    }

    /// Returns whether the message changes the trace: then it is numbered, and kept until it is acknowledged.
    #[must_use]
    pub fn is_numbered(&self) -> bool {
        !matches!(self, FromRecorder::Open(_) | FromRecorder::Data(FromGuest::Pong { .. }))
    }
}

impl ToRecorder {
    /// Decodes a frame that a relay has sent.
    ///
    /// # Errors
    /// The frame is no message of a relay.
    pub fn decode(kind: u16, payload: &[u8]) -> Result<ToRecorder, MessageProblem> {
        let mut from = Taken(payload);
        let said = match kind {
            RESUME => (|| {
                let (version, recording, next) = (from.u32()?, from.uuid()?, from.u64()?);
                Some(ToRecorder::Resume { version, recording, next })
            })(),
            ACK => from.u64().map(|next| ToRecorder::Ack { next }),
            PING => from.u64().map(|number| ToRecorder::Ping { number }),
            DISCARDED => (|| {
                let records = from.u64()?;
                let is_full = match from.u8()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                Some(ToRecorder::Discarded { records, is_full })
            })(),
            REFUSE => reason(&mut from).map(|why| ToRecorder::Refuse { why }),
            LATER => reason(&mut from).map(|why| ToRecorder::Later { why }),
            other => return Err(MessageProblem::Kind(other)),
        };
        said.filter(|_| from.0.is_empty()).ok_or(MessageProblem::Payload(kind))
    }

    /// Encodes the message as a frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        let kind = match self {
            ToRecorder::Resume { version, recording, next } => {
                out.number(&version.to_le_bytes()).number(&recording.0);
                out.number(&next.to_le_bytes());
                RESUME
            }
            ToRecorder::Ack { next } => {
                out.number(&next.to_le_bytes());
                ACK
            }
            ToRecorder::Ping { number } => {
                out.number(&number.to_le_bytes());
                PING
            }
            ToRecorder::Discarded { records, is_full } => {
                out.number(&records.to_le_bytes()).number(&[u8::from(*is_full)]);
                DISCARDED
            }
            ToRecorder::Refuse { why } => {
                put_reason(&mut out, why);
                REFUSE
            }
            ToRecorder::Later { why } => {
                put_reason(&mut out, why);
                LATER
            }
        };
        out.framed(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frames;
    use crate::message::{Hello, VERSION};

    fn all() -> Vec<FromRecorder<'static>> {
        let open = Open {
            version: REMOTE_VERSION,
            is_of_our_order: true,
            recording: Uuid([1; 16]),
            boot: Uuid([2; 16]),
            first: 17,
            host: "box".into(),
            session: "strata-trace-1".into(),
        };
        let losses = Losses { unwritten: 1, discarded: 2, unread: 3 };
        vec![
            FromRecorder::Open(open),
            FromRecorder::Begin { id: 1, layer: "big/kernel".into(), process: None },
            FromRecorder::Begin { id: 2, layer: "user".into(), process: Some((42, "app".into())) },
            FromRecorder::Progress { id: 1, mark: ProgressMark { upto: 4, flush_ns: 5 } },
            FromRecorder::SetEnd { id: 1, stream: 0, sequence: 7, end_ns: 9 },
            FromRecorder::Close { ending: Ending::Stopped, losses },
        ]
    }

    #[test]
    fn messages_are_what_was_sent() {
        let mut frames = Frames::default();
        for sent in all() {
            frames.push(&sent.encode());
            let (kind, payload) = frames.next_frame().unwrap().unwrap();
            assert_eq!(FromRecorder::decode(kind, payload), Ok(sent));
        }
        for sent in [
            ToRecorder::Resume { version: 1, recording: Uuid([9; 16]), next: 8 },
            ToRecorder::Ack { next: u64::MAX },
            ToRecorder::Ping { number: 7 },
            ToRecorder::Discarded { records: u64::MAX, is_full: true },
            ToRecorder::Discarded { records: 0, is_full: false },
            ToRecorder::Refuse { why: "full".into() },
            ToRecorder::Later { why: "full now".into() },
        ] {
            frames.push(&sent.encode());
            let (kind, payload) = frames.next_frame().unwrap().unwrap();
            assert_eq!(ToRecorder::decode(kind, payload), Ok(sent));
        }
    }

    #[test]
    fn malicious_messages_that_are_cut_longer_or_of_guests_are_refused() {
        for message in all() {
            let bytes = message.encode();
            let (kind, payload) = (u16::from_le_bytes([bytes[4], bytes[5]]), &bytes[12..]);
            for end in 0..payload.len() {
                assert!(FromRecorder::decode(kind, &payload[..end]).is_err(), "{message:?} {end}");
            }
            assert!(FromRecorder::decode(kind, &[payload, &[0]].concat()).is_err(), "{message:?}");
        }
        let hello = Hello {
            version: VERSION,
            is_of_our_order: true,
            recording: Uuid([1; 16]),
            boot: Uuid([2; 16]),
            hostname: "box".into(),
        };
        let set_end = FromGuest::SetEnd { id: 1, stream: 0, end_ns: 9 };
        for of_guests in [FromGuest::Hello(hello), set_end, FromGuest::End] {
            let bytes = of_guests.encode();
            let kind = u16::from_le_bytes([bytes[4], bytes[5]]);
            let found = FromRecorder::decode(kind, &bytes[12..]);
            assert_eq!(found, Err(MessageProblem::Kind(kind)));
        }
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        assert!(ToRecorder::decode(REFUSE, long.as_bytes()).is_err());
        assert!(ToRecorder::decode(LATER, long.as_bytes()).is_err());
        assert!(ToRecorder::decode(OPEN, &[]).is_err());
        for bad in [&[0; 8][..], &[0, 0, 0, 0, 0, 0, 0, 0, 2], &[0; 10]] {
            assert!(ToRecorder::decode(DISCARDED, bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn answers_to_questions_for_the_time_are_not_numbered() {
        let pair = crate::message::CounterPair::default();
        let pong = FromGuest::Pong { number: 1, received_ns: 2, sent_ns: 3, pair };
        assert!(!FromRecorder::Data(pong).is_numbered());
        assert_eq!(all().iter().filter(|message| message.is_numbered()).count(), 5);
    }
}
