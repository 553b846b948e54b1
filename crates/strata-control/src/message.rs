//! What is said: a request, and its reply. One JSON object each; `strata` is the version, and what it does not know
//! a receiver refuses.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{json, Map, Value};

/// The version of this protocol.
const VERSION: u64 = 1;

/// What a session is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// How it is.
    Status,
    /// Write what the buffers hold into this folder, which is new or empty.
    Snapshot {
        /// An absolute path.
        output: PathBuf,
        /// Of so much time only, up to now.
        last: Option<Duration>,
    },
    /// Write to a new part of the trace from now on.
    Rotate,
    /// Write what is held in memory to the disk, and go on there.
    Settle {
        /// Where its folder is made, an absolute path; `None`: where its plan says.
        folder: Option<PathBuf>,
    },
    /// Record, from now on or again.
    Start,
    /// Record nothing until [`Request::Start`]; a session of `strata record` ends.
    Stop,
    /// End.
    Destroy,
    /// Say what is recorded.
    Plan,
    /// Record something else.
    Change {
        /// What, in the words of the session.
        change: Map<String, Value>,
    },
}

/// What a session answers: facts by name, or why not.
pub type Reply = Result<Map<String, Value>, String>;

impl Request {
    /// As bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut object = Map::new();
        object.insert("strata".into(), VERSION.into());
        object.insert("do".into(), self.word().into());
        match self {
            Request::Snapshot { output, last } => {
                object.insert("output".into(), output.to_string_lossy().into());
                if let Some(last) = last {
                    let nanos = u64::try_from(last.as_nanos()).unwrap_or(u64::MAX);
                    object.insert("last_ns".into(), nanos.into());
                }
            }
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
            | Request::Start
            | Request::Stop
            | Request::Destroy
            | Request::Plan => {}
        }
        Value::Object(object).to_string().into_bytes()
    }

    fn word(&self) -> &'static str {
        match self {
            Request::Status => "status",
            Request::Snapshot { .. } => "snapshot",
            Request::Rotate => "rotate",
            Request::Settle { .. } => "settle",
            Request::Start => "start",
            Request::Stop => "stop",
            Request::Destroy => "destroy",
            Request::Plan => "plan",
            Request::Change { .. } => "change",
        }
    }

    /// May it be asked by who is only of the group that the session is open to? It changes nothing, and nothing is
    /// written with the session's rights.
    pub(crate) fn is_for_members(&self) -> bool {
        matches!(self, Request::Status)
    }

    /// From bytes on the wire, which may be anything.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Request, String> {
        let object = object(bytes)?;
        let request = match object.get("do").and_then(Value::as_str) {
            Some("status") => Request::Status,
            Some("rotate") => Request::Rotate,
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
                let last = match object.get("last_ns") {
                    None => None,
                    Some(nanos) => {
                        let nanos =
                            nanos.as_u64().ok_or("'last_ns' is no number of nanoseconds")?;
                        Some(Duration::from_nanos(nanos))
                    }
                };
                Request::Snapshot { output, last }
            }
            Some(other) => return Err(format!("'{}' is nothing to do", clean(other))),
            None => return Err("there is no 'do'".to_owned()),
        };
        let known: &[&str] = match &request {
            Request::Snapshot { .. } => &["output", "last_ns"],
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

/// A reply as bytes on the wire.
pub(crate) fn encode_reply(reply: &Reply) -> Vec<u8> {
    let object = match reply {
        Ok(facts) => json!({ "strata": VERSION, "ok": facts }),
        Err(why) => json!({ "strata": VERSION, "error": why }),
    };
    object.to_string().into_bytes()
}

/// A reply from bytes on the wire, which may be anything.
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

/// Text for a terminal.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).take(1000).collect()
}
