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
    /// End.
    Stop,
}

/// What a session answers: facts by name, or why not.
pub type Reply = Result<Map<String, Value>, String>;

impl Request {
    /// As bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut object = json!({ "strata": VERSION, "do": self.word() });
        if let (Request::Snapshot { output, last }, Some(object)) = (self, object.as_object_mut()) {
            object.insert("output".into(), output.to_string_lossy().into());
            if let Some(last) = last {
                let nanos = u64::try_from(last.as_nanos()).unwrap_or(u64::MAX);
                object.insert("last_ns".into(), nanos.into());
            }
        }
        object.to_string().into_bytes()
    }

    fn word(&self) -> &'static str {
        match self {
            Request::Status => "status",
            Request::Snapshot { .. } => "snapshot",
            Request::Stop => "stop",
        }
    }

    /// From bytes on the wire, which may be anything.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Request, String> {
        let object = object(bytes)?;
        let request = match object.get("do").and_then(Value::as_str) {
            Some("status") => Request::Status,
            Some("stop") => Request::Stop,
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
        let known = ["strata", "do", "output", "last_ns"];
        match object.keys().find(|key| !known.contains(&key.as_str())) {
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
