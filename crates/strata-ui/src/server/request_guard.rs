//! Admits only requests from a page of this server whose user knows the token.
//!
//! Any page of the Internet can make a browser send requests to 127.0.0.1, and can even read the answers if its own
//! host name leads there (DNS rebinding). So the requested host name must be one of this machine itself, a request with
//! an origin must have that of this server, and all data of a trace need the token.

use hyper::header::{HeaderMap, HeaderValue, AUTHORIZATION, HOST, ORIGIN};
use hyper::StatusCode;

/// Size of the token \[byte\].
const TOKEN_BYTES: usize = 24;
/// Host names by which a machine refers to itself.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// Secret that a client must send with each request for trace data.
#[derive(Clone, Debug)]
pub struct Token(String);

impl Token {
    /// Makes a token that cannot be guessed.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn random() -> std::io::Result<Token> {
        use std::io::Read;
        let mut bytes = [0; TOKEN_BYTES];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Returns the token with this text; `None` if no token has it.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Token> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (text.len() == 2 * TOKEN_BYTES && text.bytes().all(is_digit)).then(|| Token(text.into()))
    }

    /// Token as it is written in the address.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Compares a token with this one in constant time, so that the duration does not reveal how much of it is right.
    #[must_use]
    pub fn is(&self, other: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let differs =
            own.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other));
        own.len() == other.len() && differs == 0
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status of the answer.
    pub status: StatusCode,
    /// Message for the client.
    pub text: &'static str,
}

const fn refusal(status: StatusCode, text: &'static str) -> Refusal {
    Refusal { status, text }
}

/// Checks that the headers name this machine as host, and do not name another page as origin.
///
/// # Errors
/// The request is refused.
pub fn check_source(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let (host, other) = (hosts.next().and_then(text), hosts.next());
    let host = host.filter(|host| other.is_none() && LOOPBACK.contains(&name_of(host)));
    let Some(host) = host else {
        return Err(refusal(
            StatusCode::FORBIDDEN,
            "Host is not 127.0.0.1, localhost or [::1]: use the address that strata ui has printed",
        ));
    };
    let from_here = |origin: &HeaderValue| {
        text(origin).and_then(|origin| origin.strip_prefix("http://")) == Some(host)
    };
    if !headers.get_all(ORIGIN).iter().all(from_here) {
        return Err(refusal(StatusCode::FORBIDDEN, "Origin is another page's"));
    }
    // A browser that follows a link, or opens a file with an address of this server, reports another origin. It only
    // shows the page, which contains nothing of the trace, and sends no token in a header.
    let says = |name: &str, word: &str| headers.get(name).and_then(text) == Some(word);
    let is_visit = says("sec-fetch-mode", "navigate") && says("sec-fetch-dest", "document");
    let sites = headers.get_all("sec-fetch-site").iter();
    if !is_visit && !sites.map(text).all(|site| matches!(site, Some("same-origin" | "none"))) {
        return Err(refusal(StatusCode::FORBIDDEN, "the request comes from another page"));
    }
    Ok(())
}

/// Checks that the request carries the token.
///
/// # Errors
/// The token is missing or wrong.
pub fn check_token(headers: &HeaderMap, token: &Token) -> Result<(), Refusal> {
    let said = headers.get(AUTHORIZATION).and_then(|it| it.as_bytes().strip_prefix(b"Bearer "));
    match said.is_some_and(|said| token.is(said)) {
        true => Ok(()),
        false => Err(refusal(
            StatusCode::UNAUTHORIZED,
            "the token is not there or wrong: use the whole address that strata ui has printed",
        )),
    }
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

/// Returns the host name without the port, which may be another one if it is forwarded (ssh -L).
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for &(name, value) in all {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn requests_of_this_machine_s_own_page_are_answered_whatever_its_port() {
        for host in ["127.0.0.1:8080", "localhost:1", "localhost", "[::1]:9000"] {
            assert_eq!(check_source(&headers(&[("host", host)])), Ok(()), "{host}");
            let origin = format!("http://{host}");
            let all = [("host", host), ("origin", &origin), ("sec-fetch-site", "same-origin")];
            assert_eq!(check_source(&headers(&all)), Ok(()), "{host}");
        }
    }

    #[test]
    fn page_is_shown_to_who_follows_a_link_but_in_no_frame_of_another_page() {
        let visit = |dest: &'static str| {
            check_source(&headers(&[
                ("host", "127.0.0.1:80"),
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", dest),
            ]))
        };
        assert_eq!(visit("document"), Ok(()));
        assert!(visit("iframe").is_err() && visit("script").is_err());
    }

    #[test]
    fn requests_of_other_names_and_pages_are_refused() {
        let host = ("host", "127.0.0.1:80");
        for all in [
            &[][..],
            &[("host", "evil.example:80")],
            &[("host", "127.0.0.1.evil.example")],
            &[("host", "127.0.0.1:80:80")],
            &[("host", "127.0.0.1@evil.example:80")],
            &[("host", "")],
            &[host, ("host", "evil.example")],
            &[host, ("origin", "http://evil.example")],
            &[host, ("origin", "null")],
            &[host, ("origin", "https://127.0.0.1:80")],
            &[host, ("origin", "http://127.0.0.1:81")],
            &[host, ("origin", "http://127.0.0.1:80"), ("origin", "http://evil.example")],
            &[host, ("sec-fetch-site", "cross-site")],
            &[host, ("sec-fetch-site", "same-site")],
        ] {
            let refused = check_source(&headers(all)).unwrap_err();
            assert_eq!(refused.status, StatusCode::FORBIDDEN, "{all:?}");
        }
    }

    #[test]
    fn token_is_right_as_a_whole_only() {
        let token = Token::random().unwrap();
        let text = token.text().to_owned();
        assert!(text.len() == 2 * TOKEN_BYTES && text != Token::random().unwrap().text());
        let check = |value: &str| check_token(&headers(&[("authorization", value)]), &token);
        assert_eq!(check(&format!("Bearer {text}")), Ok(()));
        for wrong in
            ["", "Bearer ", &text, &format!("Bearer {}", &text[1..]), &format!("Bearer {text}0")]
        {
            assert_eq!(check(wrong).unwrap_err().status, StatusCode::UNAUTHORIZED, "{wrong}");
        }
        assert!(check_token(&HeaderMap::new(), &token).is_err());
    }
}
