//! Messages between a viewer and a relay, `strata relayd`: a recording is shown while it grows.
//!
//! The relay shows a recording by the messages with which it came, [`FromRecorder`](crate::FromRecorder), as if the relay
//! recorded it now. Only the begin, and the end of each look at the files, are messages of their own:
//!
//! ```text
//! viewer                                     relay
//! Watch { host, session } ─────────────▶
//!                         ◀───────────── Shown { recording, session }     or Refuse, with the reason
//! Have { trace, stream, sequence } ────▶                                  what an earlier connection has brought
//! Ready ───────────────────────────────▶
//!                         ◀───────────── Begin, Metadata, Packet, Progress, …
//!                         ◀───────────── Looked { now_ns, is_recorded }   and so on, until the recording ends
//! ```

use strata_model::Uuid;

use crate::message::{MessageProblem, Out, Taken, NAME_BYTES_MAX, ORDER};

/// Version of the messages between viewer and relay.
pub const VIEW_VERSION: u32 = 1;

const WATCH: u16 = 30;
const HAVE: u16 = 31;
const READY: u16 = 32;
const SHOWN: u16 = 130;
const LOOKED: u16 = 131;

/// First message of a viewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Version of the viewer's protocol.
    pub version: u32,
    /// True if the viewer's byte order is the relay's: packets have that of the machine that wrote them.
    pub is_of_our_order: bool,
    /// Name of the host at the relay.
    pub host: String,
    /// Name of the recording, or the begin of it; empty for the host's newest recording.
    pub session: String,
}

/// Message from a viewer to a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromViewer {
    /// Asks the relay to send a recording.
    Watch(Watch),
    /// Says up to which packet the viewer has a stream.
    Have {
        /// Number of the trace.
        id: u32,
        /// Number of the stream.
        stream: u32,
        /// Number of the last packet.
        sequence: u64,
    },
    /// Asks the relay to begin.
    Ready,
}

/// A message from a relay to a viewer, other than the recording's own messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToViewer {
    /// Names the recording that is shown.
    Shown {
        /// Version of the relay's protocol.
        version: u32,
        /// UUID of the recording.
        recording: Uuid,
        /// Name of the recording's folder.
        session: String,
    },
    /// Reports that the relay has sent everything that the recording's files had when it last began to look for new
    /// data.
    Looked {
        /// Wall-clock time of the relay when the look began \[ns since 1970\].
        now_ns: i64,
        /// False if nothing more will come: the recording has ended, or its recorder was killed.
        is_recorded: bool,
    },
}

/// Reads a name that is the rest of its message. Unlike [`Taken::name`], which replaces bytes that are no text.
fn last_name(from: &mut Taken<'_>) -> Option<String> {
    let bytes = from.rest();
    let name = std::str::from_utf8(bytes).ok()?;
    (name.len() <= NAME_BYTES_MAX).then(|| name.to_owned())
}

fn counted_name(from: &mut Taken<'_>) -> Option<String> {
    let bytes = usize::from(from.u8()?);
    let (name, rest) = from.0.split_at_checked(bytes)?;
    from.0 = rest;
    std::str::from_utf8(name).ok().map(str::to_owned)
}

impl FromViewer {
    /// Decodes a frame that a viewer has sent.
    ///
    /// # Errors
    /// The frame is no message of a viewer.
    pub fn decode(kind: u16, payload: &[u8]) -> Result<FromViewer, MessageProblem> {
        let mut from = Taken(payload);
        let said = match kind {
            WATCH => (|| {
                Some(FromViewer::Watch(Watch {
                    version: from.u32()?,
                    is_of_our_order: from.u8()? == ORDER,
                    host: counted_name(&mut from)?,
                    session: last_name(&mut from)?,
                }))
            })(),
            HAVE => (|| {
                let (id, stream, sequence) = (from.u32()?, from.u32()?, from.u64()?);
                Some(FromViewer::Have { id, stream, sequence })
            })(),
            READY => Some(FromViewer::Ready),
            other => return Err(MessageProblem::Kind(other)),
        };
        said.filter(|_| from.0.is_empty()).ok_or(MessageProblem::Payload(kind))
    }

    /// Returns true if frames of this kind begin the connection of a viewer.
    #[must_use]
    pub fn begins_with(kind: u16) -> bool {
        kind == WATCH
    }

    /// Encodes the message as a frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        let kind = match self {
            FromViewer::Watch(watch) => {
                out.number(&watch.version.to_le_bytes()).number(&[ORDER]);
                let host = watch.host.get(..NAME_BYTES_MAX).unwrap_or(&watch.host).as_bytes();
                out.number(&[host.len() as u8]).number(host);
                out.number(watch.session.as_bytes());
                WATCH
            }
            FromViewer::Have { id, stream, sequence } => {
                out.number(&id.to_le_bytes()).number(&stream.to_le_bytes());
                out.number(&sequence.to_le_bytes());
                HAVE
            }
            FromViewer::Ready => READY,
        };
        out.framed(kind)
    }
}

impl ToViewer {
    /// Decodes a frame that a relay has sent. Returns `None` if it is a message of the recording.
    ///
    /// # Errors
    /// The frame is damaged.
    pub fn decode(kind: u16, payload: &[u8]) -> Result<Option<ToViewer>, MessageProblem> {
        let mut from = Taken(payload);
        let said = match kind {
            SHOWN => (|| {
                let (version, recording) = (from.u32()?, from.uuid()?);
                Some(ToViewer::Shown { version, recording, session: last_name(&mut from)? })
            })(),
            LOOKED => (|| {
                let now_ns = i64::from_le_bytes(from.bytes()?);
                let is_recorded = match from.u8()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                Some(ToViewer::Looked { now_ns, is_recorded })
            })(),
            _ => return Ok(None),
        };
        let said = said.filter(|_| from.0.is_empty());
        said.map(Some).ok_or(MessageProblem::Payload(kind))
    }

    /// Encodes the message as a frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        let kind = match self {
            ToViewer::Shown { version, recording, session } => {
                out.number(&version.to_le_bytes()).number(&recording.0);
                out.number(session.as_bytes());
                SHOWN
            }
            ToViewer::Looked { now_ns, is_recorded } => {
                out.number(&now_ns.to_le_bytes()).number(&[u8::from(*is_recorded)]);
                LOOKED
            }
        };
        out.framed(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(frame: &[u8]) -> (u16, &[u8]) {
        (u16::from_le_bytes([frame[4], frame[5]]), &frame[12..])
    }

    #[test]
    fn malicious_messages_of_viewers_that_are_cut_or_longer_are_refused() {
        let (host, session) = ("web1".to_owned(), String::new());
        let watch = Watch { version: 1, is_of_our_order: true, host, session };
        let have = FromViewer::Have { id: 1, stream: 2, sequence: 3 };
        for (said, is_text_last) in
            [(FromViewer::Watch(watch), true), (have, false), (FromViewer::Ready, false)]
        {
            let frame = said.encode();
            let (kind, payload) = parts(&frame);
            assert_eq!(FromViewer::decode(kind, payload), Ok(said.clone()));
            for end in 0..payload.len() {
                assert!(FromViewer::decode(kind, &payload[..end]).is_err(), "{said:?} {end}");
            }
            let longer = [payload, &[0xff]].concat();
            assert!(FromViewer::decode(kind, &longer).is_err(), "{said:?} {is_text_last}");
            assert!(matches!(ToViewer::decode(kind, payload), Ok(None)));
        }
        let shown =
            ToViewer::Shown { version: 1, recording: Uuid([7; 16]), session: "shop-1".into() };
        let looked = ToViewer::Looked { now_ns: -5, is_recorded: true };
        for said in [shown, looked] {
            let frame = said.encode();
            let (kind, payload) = parts(&frame);
            assert_eq!(ToViewer::decode(kind, payload), Ok(Some(said.clone())));
            assert!(ToViewer::decode(kind, &payload[..5]).is_err(), "{said:?}");
            assert!(ToViewer::decode(kind, &[payload, &[0xff]].concat()).is_err(), "{said:?}");
        }
        assert!(FromViewer::decode(20, &[]).is_err());
    }
}
