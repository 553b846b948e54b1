//! Requests and replies. Each is one JSON object whose key `strata` has the version. A receiver refuses unknown keys.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{json, Map, Value};
use strata_text::{controls_display, json};

/// Version of this protocol.
const VERSION: u64 = 1;

/// Request to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Asks for the session's state.
    Status,
    /// Asks for a snapshot in a folder, which must be new or empty.
    Snapshot {
        /// Absolute path of the folder for the snapshot.
        output: PathBuf,
        /// Relay that the snapshot is sent to, as in `--to`; the last part of `output` is then its name there.
        to: Option<String>,
        /// Length of the time up to now that the snapshot covers; `None` for everything in the buffers.
        last: Option<Duration>,
    },
    /// Asks for a snapshot in a new folder, in the place where the plan allows members of the session's group to save
    /// snapshots.
    MemberSnapshot {
        /// Length of the time up to now that the snapshot covers; `None` for everything in the buffers.
        last: Option<Duration>,
    },
    /// Asks for a new part of the trace.
    Rotate,
    /// Asks to remove what was recorded so far: the present part of a trace, or what the buffers of a flight recorder hold.
    Clear,
    /// Asks to copy the trace from memory to the disk, and to continue there.
    Settle {
        /// Absolute path of the new folder's parent; `None` for that of the plan.
        folder: Option<PathBuf>,
    },
    /// Asks to start recording, or to resume it.
    Start,
    /// Asks to pause until [`Request::Start`]; a session of `strata record` ends.
    Stop,
    /// Asks to end the session.
    Destroy,
    /// Asks for the session's plan.
    Plan,
    /// Asks to change the selection of events, or another part of the plan.
    Change {
        /// Description of the change; its keys are defined by the session.
        change: Map<String, Value>,
    },
}

/// Answer of a session: facts by name, or a reason for refusal.
pub type Reply = Result<Map<String, Value>, String>;

impl Request {
    /// Encodes the request for the socket.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut object = Map::new();
        object.insert("strata".into(), VERSION.into());
        object.insert("do".into(), self.word().into());
        match self {
            Request::Snapshot { output, to, last } => {
                object.insert("output".into(), output.to_string_lossy().into());
                if let Some(to) = to {
                    object.insert("to".into(), to.as_str().into());
                }
                insert_last(&mut object, *last);
            }
            Request::MemberSnapshot { last } => insert_last(&mut object, *last),
            Request::Settle { folder } => {
                if let Some(folder) = folder {
                    object.insert("folder".into(), folder.to_string_lossy().into());
                }
            }
            Request::Change { change } => {
                object.insert("change".into(), Value::Object(change.clone()));
            }
            Request::Status
            | Request::Rotate
            | Request::Clear
            | Request::Start
            | Request::Stop
            | Request::Destroy
            | Request::Plan => {}
        }
        json::compact(&object).into_bytes()
    }

    fn word(&self) -> &'static str {
        match self {
            Request::Status => "status",
            Request::Snapshot { .. } => "snapshot",
            Request::MemberSnapshot { .. } => "member-snapshot",
            Request::Rotate => "rotate",
            Request::Clear => "clear",
            Request::Settle { .. } => "settle",
            Request::Start => "start",
            Request::Stop => "stop",
            Request::Destroy => "destroy",
            Request::Plan => "plan",
            Request::Change { .. } => "change",
        }
    }

    /// Returns true if members of the session's group may send the request: it changes nothing, and writes only where
    /// root has allowed it.
    pub(crate) fn is_for_members(&self) -> bool {
        matches!(self, Request::Status | Request::MemberSnapshot { .. })
    }

    /// Decodes a request from bytes that may be anything.
    ///
    /// # Errors
    /// The bytes are no valid request.
    pub fn decode(bytes: &[u8]) -> Result<Request, String> {
        let object = object(bytes)?;
        let request = match object.get("do").and_then(Value::as_str) {
            Some("status") => Request::Status,
            Some("rotate") => Request::Rotate,
            Some("clear") => Request::Clear,
            Some("start") => Request::Start,
            Some("stop") => Request::Stop,
            Some("destroy") => Request::Destroy,
            Some("plan") => Request::Plan,
            Some("settle") => {
                let folder = match object.get("folder") {
                    None => None,
                    Some(path) => {
                        let path = path.as_str().map(PathBuf::from);
                        let path = path.filter(|path| path.is_absolute());
                        Some(path.ok_or("'folder' is no absolute path")?)
                    }
                };
                Request::Settle { folder }
            }
            Some("change") => match object.get("change") {
                Some(Value::Object(change)) => Request::Change { change: change.clone() },
                _ => return Err("'change' is no object".to_owned()),
            },
            Some("snapshot") => {
                let output = object.get("output").and_then(Value::as_str).map(PathBuf::from);
                let output = output.filter(|path| path.is_absolute());
                let output = output.ok_or("'output' is no absolute path")?;
                let to = match object.get("to") {
                    None => None,
                    Some(to) => Some(to.as_str().ok_or("'to' is no text")?.to_owned()),
                };
                Request::Snapshot { output, to, last: last_of(&object)? }
            }
            Some("member-snapshot") => Request::MemberSnapshot { last: last_of(&object)? },
            Some(other) => return Err(format!("'{}' is nothing to do", clean(other))),
            None => return Err("there is no 'do'".to_owned()),
        };
        let known: &[&str] = match &request {
            Request::Snapshot { .. } => &["output", "to", "last_ns"],
            Request::MemberSnapshot { .. } => &["last_ns"],
            Request::Change { .. } => &["change"],
            Request::Settle { .. } => &["folder"],
            _ => &[],
        };
        let is_known = |key: &str| known.contains(&key) || ["strata", "do"].contains(&key);
        match object.keys().find(|key| !is_known(key)) {
            Some(key) => Err(format!("'{}' is not known", clean(key))),
            None => Ok(request),
        }
    }
}

fn insert_last(object: &mut Map<String, Value>, last: Option<Duration>) {
    if let Some(last) = last {
        let nanos = u64::try_from(last.as_nanos()).unwrap_or(u64::MAX);
        object.insert("last_ns".into(), nanos.into());
    }
}

fn last_of(object: &Map<String, Value>) -> Result<Option<Duration>, String> {
    let Some(nanos) = object.get("last_ns") else { return Ok(None) };
    let nanos = nanos.as_u64().ok_or("'last_ns' is no number of nanoseconds")?;
    Ok(Some(Duration::from_nanos(nanos)))
}

/// Encodes a reply for the socket.
pub(crate) fn encode_reply(reply: &Reply) -> Vec<u8> {
    let object = match reply {
        Ok(facts) => json!({ "strata": VERSION, "ok": facts }),
        Err(why) => json!({ "strata": VERSION, "error": why }),
    };
    json::compact(&object).into_bytes()
}

/// Decodes a reply from bytes that may be anything.
pub(crate) fn decode_reply(bytes: &[u8]) -> Result<Reply, String> {
    let mut object = object(bytes)?;
    match (object.remove("ok"), object.remove("error")) {
        (Some(Value::Object(facts)), None) => Ok(Ok(facts)),
        (None, Some(Value::String(why))) => Ok(Err(clean(&why))),
        _ => Err("it has neither 'ok' nor 'error'".to_owned()),
    }
}

fn object(bytes: &[u8]) -> Result<Map<String, Value>, String> {
    let value = serde_json::from_slice(bytes).map_err(|error| format!("not JSON: {error}"))?;
    let Value::Object(object) = value else { return Err("not an object".to_owned()) };
    match object.get("strata").and_then(Value::as_u64) {
        Some(VERSION) => Ok(object),
        Some(other) => Err(format!("version {other}, and this is {VERSION}")),
        None => Err("there is no 'strata' with a version".to_owned()),
    }
}

/// Replaces control characters and cuts a long text, for a terminal.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if controls_display(c) { '?' } else { c }).take(1000).collect()
}
