//! The HTTP server: routes requests to answers.
//!
//! | path | answer |
//! |---|---|
//! | `/`, `/app.js`, `/app.css` | the page |
//! | `/v1/meta` | what the trace is, how far it is read; while there is none, what is waited for |
//! | `/v1/ID/tracks?after=N` | tracks, with their sums |
//! | `/v1/ID/names?from=N` | names by number |
//! | `/v1/ID/overview` | records over time, gaps |
//! | `/v1/ID/tiles/LEVEL/INDEX?tracks=N,N` | tiles of up to 64 tracks, each behind its length in 4 bytes |
//! | `/v1/ID/tile/TRACK/LEVEL/INDEX` | one tile |
//! | `/v1/ID/slice/TRACK/TIME` | a slice, with its records |
//! | `/v1/ID/path/TRACK?from=T&to=T` | the critical path of the track's thread, as parts of other tracks |
//! | `/v1/ID/sums?from=T&to=T` | how long threads were in which state |
//! | `/v1/ID/slices?from=T&to=T&tracks=N,N` | system calls, spans, interrupts and disk requests by name, with their lengths; of these tracks or of all |
//! | `/v1/ID/events?from=T&to=T&limit=N&q=FILTER&nth=N` | records as `strata view --format json` has them, without the first N |
//! | `/v1/ID/events?…&last=1&nth=N` | the last ones before the N-th one of the time `to`, and the first one's number among those of its time |
//! | `/v1/ID/report/NAME?from=T&to=T` | what `strata analyze NAME` prints |
//! | `/v1/ID/diff?from=T&to=T&shift=N` | what `strata analyze diff` says of two traces that are compared |
//! | `/v1/snapshot` (POST) | takes a snapshot of the flight recorder, which is shown from then on |
//!
//! ID is the trace's: what is kept in a browser is of the same trace. All below `/v1` needs the token, as
//! `Authorization: Bearer TOKEN`.

pub(crate) mod connections;
pub(crate) mod query;
pub(crate) mod request_guard;

use std::collections::HashSet;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{json, Value};
use strata_analyze::counters::CounterRule;
use strata_analyze::reports::flame::has_stacks;
use strata_ctf::read::TimeRange;

use crate::answers;
use crate::records::{last_records, records, Wanted};
use crate::report::{compare, compare_command, report};
use crate::server::connections::{Connections, Standing};
use crate::server::query::Query;
use crate::server::request_guard::{check_source, check_token, Token};
use crate::shown_trace::{now, pass, Shown, Traces};
use crate::slice_sums::slice_sums;
use crate::snapshots::Snapshots;

/// Limit on the size of a request's head \[byte\].
const HEAD_BYTES: usize = 16 << 10;
/// The time limit for receiving a request's headers.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// The most answers that are worked on at the same time.
const WORKERS: usize = 4;
/// The most tiles in one answer.
const TILES_MAX: usize = 64;
/// The most records in one answer.
const RECORDS_MAX: u64 = 2000;
/// The most records that are shown for one slice.
const SLICE_RECORDS: u64 = 64;
/// Path that takes a snapshot.
const SNAPSHOT: &str = "/v1/snapshot";

const POLICY: &str =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const PAGE: &[u8] = include_bytes!("../page/index.html");
/// Script of the page.
pub const SCRIPT: &[u8] = include_bytes!("../page/app.js");
/// Style sheet of the page.
pub const STYLE: &[u8] = include_bytes!("../page/app.css");

/// The state that all requests share.
#[derive(Debug)]
pub struct App {
    /// What is shown: one trace, or two that are compared. A snapshot of a flight recorder replaces the one before.
    shown: RwLock<Vec<Arc<Shown>>>,
    /// Secret that each request must carry.
    token: Token,
    /// Fields that are drawn as counters.
    counters: Vec<CounterRule>,
    /// The flight recorder, if the page may take snapshots of one.
    snapshots: Option<Mutex<Snapshots>>,
    /// The title of the page, and what it waits for, while there is no trace.
    awaited: RwLock<(String, String)>,
}

impl App {
    /// Makes the state of a server for these traces.
    #[must_use]
    pub fn new(
        shown: Vec<Arc<Shown>>,
        token: Token,
        counters: Vec<CounterRule>,
        snapshots: Option<Snapshots>,
    ) -> App {
        let snapshots = snapshots.map(Mutex::new);
        let (shown, awaited) = (RwLock::new(shown), RwLock::default());
        App { shown, token, counters, snapshots, awaited }
    }

    /// Fields that are drawn as counters.
    #[must_use]
    pub fn counters(&self) -> &[CounterRule] {
        &self.counters
    }

    /// Returns true while there is no trace.
    #[must_use]
    pub fn is_awaiting(&self) -> bool {
        self.shown().is_empty()
    }

    /// Sets the title of the page, and the text that says what it waits for.
    pub fn awaits_as(&self, title: &str, text: &str) {
        let mut awaited = self.awaited.write().unwrap_or_else(PoisonError::into_inner);
        *awaited = (title.to_owned(), text.to_owned());
    }

    /// Sets the text that says what the page waits for.
    pub fn awaits(&self, text: &str) {
        let mut awaited = self.awaited.write().unwrap_or_else(PoisonError::into_inner);
        text.clone_into(&mut awaited.1);
    }

    /// Shows these traces from now on.
    pub fn show(&self, traces: Vec<Arc<Shown>>) {
        let mut all = self.shown.write().unwrap_or_else(PoisonError::into_inner);
        for before in std::mem::replace(&mut *all, traces) {
            before.model.fail(io::Error::other("another snapshot is shown"));
        }
    }

    /// Takes a snapshot of the flight recorder; `None` if there is none, or somebody else takes one now.
    ///
    /// # Errors
    /// There is no snapshot; the text says why.
    pub fn first_snapshot(&self) -> Result<Option<Vec<Traces>>, String> {
        let snapshots = self.snapshots.as_ref().and_then(|it| it.try_lock().ok());
        snapshots.map(|mut snapshots| snapshots.take().map(|traces| vec![traces])).transpose()
    }

    /// Secret that each request must carry.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    fn shown(&self) -> Vec<Arc<Shown>> {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// An answer to a request.
struct Answer {
    status: StatusCode,
    kind: &'static str,
    body: Vec<u8>,
    /// True if the same request will always get this answer, so that it can be cached.
    is_final: bool,
}

impl Answer {
    fn text(status: StatusCode, text: &str) -> Answer {
        let body = text.as_bytes().to_vec();
        Answer { status, kind: "text/plain; charset=utf-8", body, is_final: false }
    }

    fn json(value: &Value) -> Answer {
        let body = strata_text::json::compact(value).into_bytes();
        Answer { status: StatusCode::OK, kind: "application/json", body, is_final: false }
    }

    fn page(kind: &'static str, body: &[u8]) -> Answer {
        Answer { status: StatusCode::OK, kind, body: body.to_vec(), is_final: false }
    }

    fn absent() -> Answer {
        Answer::text(StatusCode::NOT_FOUND, "there is nothing of this name")
    }

    fn failed(error: &io::Error) -> Answer {
        Answer::text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
    }

    fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.body)));
        *response.status_mut() = self.status;
        let cache = if self.is_final { "private, max-age=31536000, immutable" } else { "no-store" };
        for (name, value) in [
            (header::CONTENT_TYPE, self.kind),
            (header::CACHE_CONTROL, cache),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ] {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

/// Serves requests until the process ends.
///
/// # Errors
/// The system gives no more threads or sockets.
pub fn serve(listener: TcpListener, app: Arc<App>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(WORKERS)
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let connections = Connections::default();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // No descriptor is free; one will be when a connection ends.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let app = Arc::clone(&app);
            connections.begin(|standing| async move {
                let service =
                    service_fn(|request| respond(Arc::clone(&app), Arc::clone(&standing), request));
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_PATIENCE)
                    .max_buf_size(HEAD_BYTES)
                    .serve_connection(TokioIo::new(stream), service);
                // A client that disconnects, or sends something other than requests, gets no answer.
                let _ = connection.await;
            });
            // Let each connection read its first request before many others are accepted, for which it might have to
            // end.
            tokio::task::yield_now().await;
        }
    })
}

async fn respond(
    app: Arc<App>,
    standing: Arc<Standing>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, _) = request.into_parts();
    if let Err(refused) = check_source(&head.headers) {
        return Ok(Answer::text(refused.status, refused.text).into_response());
    }
    let path = head.uri.path().to_owned();
    // What changes something is no GET, which a browser may send on its own account.
    let wanted = if path == SNAPSHOT { Method::POST } else { Method::GET };
    if head.method != wanted {
        let text = format!("only {wanted} is answered");
        return Ok(Answer::text(StatusCode::METHOD_NOT_ALLOWED, &text).into_response());
    }
    let page = match path.as_str() {
        "/" => Some(Answer::page("text/html; charset=utf-8", PAGE)),
        "/app.js" => Some(Answer::page("text/javascript; charset=utf-8", SCRIPT)),
        "/app.css" => Some(Answer::page("text/css; charset=utf-8", STYLE)),
        "/favicon.ico" => Some(Answer { status: StatusCode::NO_CONTENT, ..Answer::absent() }),
        _ => None,
    };
    if let Some(page) = page {
        return Ok(page.into_response());
    }
    if let Err(refused) = check_token(&head.headers, &app.token) {
        return Ok(Answer::text(refused.status, refused.text).into_response());
    }
    standing.has_token();
    let query = Query::new(head.uri.query().unwrap_or_default());
    let answered = tokio::task::spawn_blocking(move || answer(&app, &path, &query)).await;
    let broken = |_| Answer::text(StatusCode::INTERNAL_SERVER_ERROR, "this cannot be answered");
    Ok(answered.unwrap_or_else(broken).into_response())
}

/// Answers a request below `/v1`.
fn answer(app: &App, path: &str, query: &Query) -> Answer {
    let words: Vec<&str> = path.split('/').skip(1).collect();
    let all = app.shown();
    match words.as_slice() {
        ["v1", "meta"] => meta(app, &all),
        ["v1", "snapshot"] => snapshot(app),
        ["v1", id, rest @ ..] if !rest.is_empty() => {
            match all.iter().find(|shown| shown.id == *id) {
                Some(shown) if rest == ["diff"] => diff(&all, shown, query),
                Some(shown) => answer_of(shown, rest, query),
                None => {
                    let text = "this is of another trace or version: load the page again";
                    Answer::text(StatusCode::CONFLICT, text)
                }
            }
        }
        _ => Answer::absent(),
    }
}

/// Answers what the traces are: the first one, with the one that it is compared with, if there is one.
fn meta(app: &App, all: &[Arc<Shown>]) -> Answer {
    if all.is_empty() {
        let (title, text) = &*app.awaited.read().unwrap_or_else(PoisonError::into_inner);
        let can_take = app.snapshots.is_some();
        return Answer::json(&json!({
            "version": answers::VERSION, "id": "", "title": title, "awaits": text, "snapshots": can_take,
        }));
    }
    let mut metas = all.iter().map(|shown| {
        let model = shown.model.look();
        let span = match (model.timeline.world().begin, model.is_live) {
            (Some(begin), true) => (begin, begin),
            // The first record of a recording without one will be of about now.
            (None, true) => (now(), now()),
            (_, false) => {
                let begin = shown.base.time(0);
                shown.outline.span().unwrap_or((begin, begin))
            }
        };
        let of = (shown.id.as_str(), shown.title.as_str(), shown.typed.as_str());
        let mut meta = answers::meta(&model, shown.base, of, (span, shown.bytes));
        let is_outlining = !(model.is_live || model.is_done || shown.outline.is_whole());
        if let Some(meta) = meta.as_object_mut() {
            meta.insert("outlining".into(), is_outlining.into());
            meta.insert("kept".into(), shown.is_kept().into());
        }
        meta
    });
    let mut first = metas.next().unwrap_or_default();
    if let Some(meta) = first.as_object_mut() {
        meta.insert("other".into(), metas.next().unwrap_or_default());
        meta.insert("snapshots".into(), app.snapshots.is_some().into());
    }
    Answer::json(&first)
}

/// Takes a snapshot of the flight recorder, and shows it from now on.
fn snapshot(app: &App) -> Answer {
    let Some(snapshots) = &app.snapshots else {
        return Answer::text(StatusCode::NOT_FOUND, "what is shown is no flight recorder");
    };
    let Ok(mut snapshots) = snapshots.try_lock() else {
        let text = "another snapshot is being taken: it will be shown";
        return Answer::text(StatusCode::CONFLICT, text);
    };
    let refused = |text: String| Answer::text(StatusCode::UNPROCESSABLE_ENTITY, &text);
    let taken = match snapshots.take() {
        Ok(traces) => traces,
        Err(text) => return refused(text),
    };
    let begun = Shown::new(taken, &app.counters, 0, None).and_then(|(shown, follow)| {
        let shown = Arc::new(shown);
        pass(Arc::clone(&shown), follow)?;
        Ok(shown)
    });
    let shown = match begun {
        Ok(shown) => shown,
        Err(error) => return refused(format!("the snapshot cannot be shown: {error}")),
    };
    let said = json!({ "id": shown.id, "title": shown.title, "typed": shown.typed });
    app.show(vec![shown]);
    Answer::json(&said)
}

/// Compares a time of the first trace with the same time of the second one.
fn diff(all: &[Arc<Shown>], shown: &Shown, query: &Query) -> Answer {
    let [before, after] = all else {
        return Answer::text(StatusCode::NOT_FOUND, "there are no two traces to compare");
    };
    if before.id != shown.id {
        return Answer::text(
            StatusCode::NOT_FOUND,
            "the first of the two traces is asked for this",
        );
    }
    let (from, to) = range(query);
    // The page's times of the second trace, plus this, are those of the first one.
    let moved = query.number("shift").unwrap_or(0);
    let shift = after.base.time(0).saturating_sub(before.base.time(0)).saturating_sub(moved);
    let range = (before.base.time(from), before.base.time(to));
    let typed = [before.typed.as_str(), after.typed.as_str()];
    let paths = [before.readers.paths(), after.readers.paths()].concat();
    let command = compare_command(range, shift, typed);
    match compare(&paths, range, shift) {
        Ok(report) => Answer::json(&json!({ "command": command, "report": report })),
        Err(text) => Answer::text(StatusCode::UNPROCESSABLE_ENTITY, &text),
    }
}

/// Answers a request about one of the traces.
fn answer_of(app: &Shown, rest: &[&str], query: &Query) -> Answer {
    match rest {
        ["tracks"] => {
            Answer::json(&answers::tracks(&app.model.look(), app.base, query.index("after")))
        }
        ["names"] => Answer::json(&answers::names(&app.model.look(), query.index("from"))),
        ["overview"] => overview(app),
        ["tile", track, level, index] => match (track.parse(), level.parse(), index.parse()) {
            (Ok(track), Ok(level), Ok(index)) => tiles(app, &[track], level, index, false),
            _ => Answer::absent(),
        },
        ["tiles", level, index] => match (level.parse(), index.parse()) {
            (Ok(level), Ok(index)) => tiles(app, &query.numbers("tracks"), level, index, true),
            _ => Answer::absent(),
        },
        ["slice", track, time] => match (track.parse(), time.parse()) {
            (Ok(track), Ok(time)) => slice(app, track, time),
            _ => Answer::absent(),
        },
        ["path", track] => match track.parse() {
            Ok(track) => path_of(app, track, range(query)),
            Err(_) => Answer::absent(),
        },
        ["sums"] => match answers::sums(&app.model.look(), app.base, range(query)) {
            Ok(sums) => Answer::json(&sums),
            Err(error) => Answer::failed(&error),
        },
        ["slices"] => match slice_sums(&app.model.look(), app.base, range(query), &wanted(query)) {
            Ok(sums) => Answer::json(&sums),
            Err(error) => Answer::failed(&error),
        },
        ["events"] => events(app, query),
        ["report", name] => {
            let (from, to) = range(query);
            let range = (app.base.time(from), app.base.time(to));
            match report(name, app.readers.paths(), range) {
                Ok(text) => Answer::text(StatusCode::OK, &text),
                Err(text) => Answer::text(StatusCode::UNPROCESSABLE_ENTITY, &text),
            }
        }
        _ => Answer::absent(),
    }
}

/// Answers with the records over time; while the trace is read, also with its outline.
fn overview(app: &Shown) -> Answer {
    let (mut said, is_done) = {
        let model = app.model.look();
        (answers::overview(&model, app.base), model.is_done || model.is_live)
    };
    let outline = app.outline.look();
    if let (Some(said), false) = (said.as_object_mut(), is_done) {
        let (from, width, bytes) = outline.columns();
        let from = from.saturating_sub(app.base.time(0));
        said.insert("outline".into(), json!({ "from": from, "width": width, "bytes": bytes }));
    }
    Answer::json(&said)
}

/// Returns a set of the tracks that the query names; empty if it is about all.
fn wanted(query: &Query) -> HashSet<usize> {
    query.numbers("tracks").into_iter().filter_map(|track| usize::try_from(track).ok()).collect()
}

fn range(query: &Query) -> (i64, i64) {
    (query.number("from").unwrap_or(0), query.number("to").unwrap_or(i64::MAX))
}

fn tiles(app: &Shown, tracks: &[u32], level: u8, index: i64, is_many: bool) -> Answer {
    if tracks.len() > TILES_MAX {
        return Answer::text(StatusCode::PAYLOAD_TOO_LARGE, "at most 64 tracks at once");
    }
    let model = app.model.look();
    let mut body = Vec::new();
    for &track in tracks {
        match answers::tile(&model, app.base, (track, level, index)) {
            Ok(Some(tile)) => {
                if is_many {
                    let len = u32::try_from(tile.len()).unwrap_or(u32::MAX);
                    body.extend(len.to_le_bytes());
                }
                body.extend(tile);
            }
            Ok(None) => return Answer::absent(),
            Err(error) => return Answer::failed(&error),
        }
    }
    let is_final = model.is_done;
    Answer { status: StatusCode::OK, kind: "application/octet-stream", body, is_final }
}

/// Answers with a slice, and the records at its ends that its thread made, or that are about the thread.
fn slice(app: &Shown, track: u32, time: i64) -> Answer {
    let found = answers::slice(&app.model.look(), app.base, track, time);
    let mut found = match found {
        Ok(Some(found)) => found,
        Ok(None) => return Answer::absent(),
        Err(error) => return Answer::failed(&error),
    };
    let reader = app.reader();
    let code = has_stacks(&reader).then(|| app.code.clone());
    let filter = found.tid.map_or_else(String::new, |tid| {
        format!("tid == {tid} || next_tid == {tid} || prev_tid == {tid} || payload.tid == {tid}")
    });
    let at = |time| {
        let range = TimeRange { from: time, to: time };
        let of = |filter| Wanted { range, filter, limit: SLICE_RECORDS };
        let found = records(&reader, of(&filter), 0, code.clone());
        let found = found.or_else(|_| records(&reader, of(""), 0, code.clone()));
        found.map_or_else(|_| String::new(), |it| String::from_utf8_lossy(&it.lines).into_owned())
    };
    let (begin, end) =
        (at(found.from), if found.to > found.from { at(found.to) } else { String::new() });
    if let Some(said) = found.said.as_object_mut() {
        said.insert("records".into(), json!([begin, end]));
    }
    Answer::json(&found.said)
}

fn path_of(app: &Shown, track: u32, range: (i64, i64)) -> Answer {
    match answers::path(&app.model.look(), app.base, track, range) {
        Ok(Some(path)) => Answer::json(&path),
        Ok(None) => Answer::absent(),
        Err(error) => Answer::failed(&error),
    }
}

fn events(app: &Shown, query: &Query) -> Answer {
    let (from, to) = range(query);
    let range = TimeRange { from: app.base.time(from), to: app.base.time(to) };
    let number = |name| query.number(name).and_then(|number| u64::try_from(number).ok());
    let limit = number("limit").unwrap_or(RECORDS_MAX).clamp(1, RECORDS_MAX);
    let wanted = Wanted { range, filter: query.text("q"), limit };
    let nth = number("nth").unwrap_or(0);
    let found = match query.text("last") {
        "" => records(&app.reader(), wanted, nth, None),
        _ => last_records(&app.reader(), wanted, nth),
    };
    match found {
        Ok(found) => {
            let lines = String::from_utf8_lossy(&found.lines);
            Answer::json(&json!({ "lines": lines, "cut": found.is_cut, "nth": found.nth }))
        }
        Err(text) => Answer::text(StatusCode::BAD_REQUEST, &text),
    }
}
