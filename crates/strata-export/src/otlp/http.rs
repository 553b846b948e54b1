//! What a receiver of spans answers: HTTP, within limits, and what it says of the spans that it refuses.
//!
//! This only reads bytes; who opens the connection passes them on, and says when there are no more.

use std::time::Duration;

use prost::Message as _;

use super::proto::{Refusal, ServiceResponse};

/// The most bytes of an answer's head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The most headers of an answer.
const HEADERS_MAX: usize = 64;
/// The most interim answers (status 1xx) before the final one.
const INTERIM_MAX: usize = 16;
/// The most bytes of an answer's body that are read. A receiver's messages are shorter.
const BODY_BYTES_MAX: usize = 64 << 10;
/// The most bytes of a receiver's message that are shown.
const SHOWN_BYTES_MAX: usize = 400;
/// The longest time that a receiver can ask to wait.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// An answer to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status, such as 200.
    pub status: u16,
    /// The time after which to repeat the request, if the receiver has sent one.
    pub retry_after: Option<Duration>,
    /// The receiver's message, as text of a limited size; empty if there is none.
    pub text: String,
    /// The number of spans that the receiver has refused in an accepted request.
    pub rejected: u64,
}

impl Answer {
    /// Returns true if the request was accepted, at least in part.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns true if the same request may be accepted later.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self.status, 429 | 502 | 503 | 504)
    }

    /// Reads an answer. Returns `None` if the answer is not complete. `is_end`: true if no more bytes
    /// will come.
    ///
    /// # Errors
    /// Returns what is wrong with the bytes.
    pub fn read(bytes: &[u8], is_end: bool) -> Result<Option<Answer>, String> {
        let mut rest = bytes;
        // Those that only say that another one follows.
        for _ in 0..INTERIM_MAX {
            match Answer::read_one(rest, is_end)? {
                Found::Answer(answer) => return Ok(Some(answer)),
                Found::Interim(next) => rest = next,
                Found::Incomplete => return Ok(None),
            }
        }
        Err(format!("{INTERIM_MAX} answers say that another one follows, and none is the last"))
    }

    fn read_one(bytes: &[u8], is_end: bool) -> Result<Found<'_>, String> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Response::new(&mut headers);
        let length = match head.parse(bytes) {
            Err(error) => return Err(format!("what answers does not speak HTTP: {error}")),
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if bytes.len() > HEAD_BYTES_MAX => {
                return Err(format!("the head of the answer has more than {HEAD_BYTES_MAX} bytes"));
            }
            Ok(httparse::Status::Partial) if is_end => {
                return Err(match bytes.len() {
                    0 => "the connection was closed without an answer".to_owned(),
                    some => format!("the answer ends after {some} bytes, within its head"),
                });
            }
            Ok(httparse::Status::Partial) => return Ok(Found::Incomplete),
        };
        let status = head.code.unwrap_or(0);
        let rest = bytes.get(length..).unwrap_or_default();
        if (100..200).contains(&status) && status != 101 {
            return Ok(Found::Interim(rest));
        }
        let header = |name: &str| {
            let found = head.headers.iter().find(|it| it.name.eq_ignore_ascii_case(name));
            found.and_then(|it| std::str::from_utf8(it.value).ok()).map(str::trim)
        };
        let is_chunked = header("transfer-encoding")
            .is_some_and(|value| value.to_ascii_lowercase().ends_with("chunked"));
        let declared = header("content-length").and_then(|value| value.parse::<usize>().ok());
        let is_empty = matches!(status, 204 | 304);
        let whole = match declared {
            _ if is_empty => Some(&[][..]),
            _ if is_chunked => None,
            Some(length) => rest.get(..length.min(BODY_BYTES_MAX)),
            None => None,
        };
        let body = match (whole, is_chunked) {
            (Some(body), _) => body.to_vec(),
            (None, true) => match joined(rest) {
                Chunks::Complete(body) => body,
                Chunks::Incomplete(body) if is_end || rest.len() > BODY_BYTES_MAX => body,
                Chunks::Incomplete(_) => return Ok(Found::Incomplete),
            },
            // What is there is what it says, even if the connection broke.
            (None, false) if is_end || rest.len() >= BODY_BYTES_MAX => {
                rest.get(..BODY_BYTES_MAX).unwrap_or(rest).to_vec()
            }
            (None, false) => return Ok(Found::Incomplete),
        };
        let retry_after = header("retry-after").and_then(|value| value.parse().ok());
        let retry_after = retry_after.map(|seconds| Duration::from_secs(seconds).min(RETRY_MAX));
        let media = header("content-type").unwrap_or_default().to_ascii_lowercase();
        let (text, rejected) = match (200..300).contains(&status) {
            true => partial(&media, &body),
            false => (refusal(&media, &body), 0),
        };
        Ok(Found::Answer(Answer { status, retry_after, text: shown(&text), rejected }))
    }
}

/// The kind of answer with which some bytes begin.
enum Found<'b> {
    Answer(Answer),
    /// An interim answer. The bytes after it begin the next answer.
    Interim(&'b [u8]),
    Incomplete,
}

/// The parts of a body whose length is not known in advance.
enum Chunks {
    Complete(Vec<u8>),
    Incomplete(Vec<u8>),
}

/// Joins the chunks of a body. A chunk without a valid size ends the body.
fn joined(mut bytes: &[u8]) -> Chunks {
    let mut body = Vec::new();
    loop {
        let (begin, size) = match httparse::parse_chunk_size(bytes) {
            Ok(httparse::Status::Complete(found)) => found,
            Ok(httparse::Status::Partial) => return Chunks::Incomplete(body),
            Err(_) => return Chunks::Complete(body),
        };
        let Ok(size) = usize::try_from(size) else { return Chunks::Complete(body) };
        let rest = bytes.get(begin..).unwrap_or_default();
        if size == 0 {
            return Chunks::Complete(body);
        }
        let room = BODY_BYTES_MAX.saturating_sub(body.len());
        let part = rest.get(..size.min(rest.len())).unwrap_or(rest);
        body.extend_from_slice(part.get(..room).unwrap_or(part));
        if part.len() >= room {
            return Chunks::Complete(body);
        }
        // A line end follows each part.
        match size.checked_add(2).and_then(|end| rest.get(end..)) {
            Some(next) => bytes = next,
            None => return Chunks::Incomplete(body),
        }
    }
}

/// Returns a receiver's message about an accepted request: a text, and the number of refused spans. A body in another
/// form is returned as text.
fn partial(media: &str, body: &[u8]) -> (String, u64) {
    let as_it_is = || (String::from_utf8_lossy(body).into_owned(), 0);
    if media.contains("protobuf") {
        let Ok(response) = ServiceResponse::decode(body) else { return as_it_is() };
        let partial = response.partial_success.unwrap_or_default();
        return (partial.error_message, u64::try_from(partial.rejected_spans).unwrap_or(0));
    }
    let Ok(response) = serde_json::from_slice::<serde_json::Value>(body) else {
        return as_it_is();
    };
    let partial = response.get("partialSuccess").cloned().unwrap_or_default();
    let text = partial.get("errorMessage").and_then(|it| it.as_str()).unwrap_or_default();
    let rejected = partial.get("rejectedSpans");
    // A number of 64 bits is a text.
    let rejected = rejected
        .and_then(|it| it.as_u64().or_else(|| it.as_str().and_then(|text| text.parse().ok())));
    (text.to_owned(), rejected.unwrap_or(0))
}

/// Returns a receiver's message about a refused request.
fn refusal(media: &str, body: &[u8]) -> String {
    if media.contains("protobuf") {
        return Refusal::decode(body).map(|refusal| refusal.message).unwrap_or_default();
    }
    let json: Option<serde_json::Value> =
        serde_json::from_slice(body).ok().filter(|_| media.contains("json"));
    let message = json.as_ref().and_then(|json| json.get("message")).and_then(|it| it.as_str());
    match message {
        Some(message) => message.to_owned(),
        None => String::from_utf8_lossy(body).into_owned(),
    }
}

/// Returns the begin of a text as a single line, for a message.
fn shown(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(SHOWN_BYTES_MAX).collect();
    let mut text = words.join(" ");
    if let Some((end, _)) = text.char_indices().find(|&(at, _)| at >= SHOWN_BYTES_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Answer {
        let answer = Answer::read(bytes, true).unwrap().unwrap();
        // Whichever way it comes in pieces, it is the same answer, and is not taken for one before it is complete.
        let first = (0..=bytes.len()).find_map(|length| {
            Answer::read(bytes.get(..length)?, false).unwrap().map(|answer| (length, answer))
        });
        if let Some((_, early)) = first {
            assert_eq!(early, answer);
        }
        answer
    }

    #[test]
    fn answer_says_which_spans_it_refuses() {
        let json = br#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too\nlong"}}"#;
        let head = |of: &str, length: usize| {
            format!("HTTP/1.1 200 OK\r\nContent-Type: {of}\r\nContent-Length: {length}\r\n\r\n")
        };
        let whole = [head("application/json", json.len()).as_bytes(), json].concat();
        let wanted =
            Answer { status: 200, text: "too long".into(), rejected: 3, ..Answer::default() };
        assert_eq!(read(&whole), wanted);
        // partial_success, a message of 12 bytes: rejected_spans = 3; error_message, a text of 8.
        let protobuf = b"\x0a\x0c\x08\x03\x12\x08too long";
        let whole = [head("application/x-protobuf", protobuf.len()).as_bytes(), protobuf].concat();
        assert_eq!(read(&whole), wanted);
        assert_eq!(read(head("application/json", 0).as_bytes()).rejected, 0);
        assert_eq!(read(b"HTTP/1.1 204 No Content\r\n\r\n").status, 204);
        // What accepts everything is no receiver, and its own words say so.
        let page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<p>Hi!";
        assert_eq!((&*read(page).text, read(page).rejected), ("<p>Hi!", 0));
    }

    #[test]
    fn refusal_says_why_and_when_to_ask_again() {
        let busy = read(b"HTTP/1.1 503 x\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy");
        assert!(busy.is_temporary() && !busy.is_accepted());
        assert_eq!((busy.retry_after, &*busy.text), (Some(Duration::from_secs(7)), "busy"));
        let ages = read(b"HTTP/1.1 429 x\r\nRetry-After: 99999999999\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(ages.retry_after, Some(RETRY_MAX));
        let chunks = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nno su\r\n3;a=b\r\nch \r\n0\r\n\r\n";
        assert_eq!((read(chunks).status, &*read(chunks).text), (404, "no such"));
        let json = b"HTTP/1.0 400 x\r\ncontent-type: application/json; charset=x\r\n\r\n{\"code\":3,\"message\":\"bad id\"}";
        assert_eq!(read(json).text, "bad id");
        let protobuf =
            b"HTTP/1.1 400 x\r\nContent-Type: application/x-protobuf\r\n\r\n\x08\x03\x12\x06bad id";
        assert_eq!(read(protobuf).text, "bad id");
    }

    #[test]
    fn answer_that_is_none_or_has_no_end_is_refused() {
        let failed = |bytes: &[u8]| Answer::read(bytes, true).unwrap_err();
        assert!(failed(b"").contains("without an answer"));
        assert!(failed(b"HTTP/1.1 200").contains("after 12 bytes"));
        assert!(failed(b"220 smtp ready\r\n").contains("does not speak HTTP"));
        let long = [b"HTTP/1.1 200 OK\r\nx: ", &[b'a'; 20 << 10][..]].concat();
        assert!(Answer::read(&long, false).unwrap_err().contains("more than 16384 bytes"));
        let endless = b"HTTP/1.1 100 x\r\n\r\n".repeat(2000);
        assert!(Answer::read(&endless, false).unwrap_err().contains("none is the last"));
        let large = [b"HTTP/1.1 500 x\r\n\r\n", &[b'a'; 100 << 10][..]].concat();
        assert_eq!(read(&large).text.len(), SHOWN_BYTES_MAX + '…'.len_utf8());
        let chunked = "HTTP/1.1 500 x\r\nTransfer-Encoding: chunked\r\n\r\n";
        for size in ["ffffffffffffffff", "-1", "", "7fffffffffffffff"] {
            let bytes = format!("{chunked}{size}\r\nabc");
            assert!(matches!(Answer::read(bytes.as_bytes(), true), Ok(Some(_))), "{size}");
        }
    }
}
