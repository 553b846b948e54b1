//! Starts a server for traces.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use strata_analyze::counters::CounterRule;
use strata_ctf::read::{Follow, Reader, TimeRange};

use crate::model::SharedModel;
use crate::rights;
use crate::saved_page::{page, SavedPage, SavedTrace};
use crate::server::request_guard::Token;
use crate::server::{serve, App};
use crate::shown_trace::{pass, Shown, Traces};
use crate::snapshots::Snapshots;
use crate::tile_cache::TileCache;
use crate::waiting_page::{await_in_thread, Awaited};

/// Why the server cannot start.
#[derive(Debug)]
pub enum StartError {
    /// The port is taken, or this user may not use it.
    Port(u16, io::Error),
    /// Root's rights cannot be given up.
    Rights(io::Error),
    /// Another system call failed.
    Other(io::Error),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartError::Port(port, error) => write!(
                f,
                "ui: cannot listen on 127.0.0.1:{port}: {error}. Give another --port, or none: then one is found"
            ),
            StartError::Rights(error) => {
                write!(f, "ui: cannot give up root's rights: {error}. Run it as the user who may read the trace")
            }
            StartError::Other(error) => write!(f, "ui: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct Server {
    traces: Vec<Traces>,
    listener: TcpListener,
    port: u16,
    counters: Vec<CounterRule>,
    snapshots: Option<Snapshots>,
    awaited: Option<Awaited>,
    token: Option<Token>,
    cache: Option<Arc<TileCache>>,
}

/// A server that is ready to answer, and has no rights except to read files.
#[derive(Debug)]
pub struct Ready {
    app: Arc<App>,
    follows: Vec<(Arc<Shown>, Option<Follow>)>,
    awaited: Option<Awaited>,
    listener: TcpListener,
    port: u16,
    /// True if the server was started by root and has given up root's rights.
    pub has_given_up_root: bool,
}

/// Makes one page of a range of time, with at most `bytes_max` bytes of slices. Returns `None` if even the coarsest
/// level has more.
///
/// # Errors
/// The traces have too many slices to be stored, or the system has no random numbers.
pub fn save(
    reader: &Reader,
    (title, typed): (&str, &str),
    range: TimeRange,
    bytes_max: usize,
    counters: &[CounterRule],
) -> io::Result<Option<SavedPage>> {
    let shared = SharedModel::new(reader, counters);
    shared.read(reader);
    let model = shared.look();
    if let Some(failure) = &model.maker.failure {
        return Err(io::Error::new(failure.kind(), failure.to_string()));
    }
    let world = model.timeline.world();
    let from = range.from.max(world.begin.unwrap_or(world.now));
    let range = (from, range.to.min(world.now).max(from));
    page(&model, SavedTrace { title, typed, range, bytes_max })
}

impl Server {
    /// Makes a server for these traces: one, or two to compare side by side. `counters` are the fields that are shown
    /// as counters. With port 0, the system chooses the port.
    ///
    /// # Errors
    /// The server cannot listen on the port.
    pub fn new(
        traces: Vec<Traces>,
        port: u16,
        counters: Vec<CounterRule>,
    ) -> Result<Server, StartError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = listener.map_err(|error| StartError::Port(port, error))?;
        let port = listener.local_addr().map_err(StartError::Other)?.port();
        let (snapshots, awaited, token) = (None, None, None);
        Ok(Server { traces, listener, port, counters, snapshots, awaited, token, cache: None })
    }

    /// Lets the page wait for traces that do not exist yet.
    #[must_use]
    pub fn with_awaited(self, awaited: Awaited) -> Server {
        Server { awaited: Some(awaited), ..self }
    }

    /// Uses this token instead of a new one.
    #[must_use]
    pub fn with_token(self, token: Token) -> Server {
        Server { token: Some(token), ..self }
    }

    /// Keeps what is made of complete traces in a folder, for the next server.
    #[must_use]
    pub fn with_cache(self, cache: TileCache) -> Server {
        Server { cache: Some(Arc::new(cache)), ..self }
    }

    /// Lets the page take snapshots of a flight recorder, each of which is shown instead of the one before.
    #[must_use]
    pub fn with_snapshots(self, snapshots: Snapshots) -> Server {
        Server { snapshots: Some(snapshots), ..self }
    }

    /// Gives up root's rights. This process must not have other threads yet.
    ///
    /// # Errors
    /// The rights cannot be given up.
    pub fn ready(self) -> Result<Ready, StartError> {
        let Server { traces, listener, port, counters, snapshots, awaited, token, cache } = self;
        let has_given_up_root = rights::give_up_root().map_err(StartError::Rights)?;
        let mut follows = Vec::new();
        for (place, traces) in traces.into_iter().enumerate() {
            let (shown, follow) =
                Shown::new(traces, &counters, place, cache.as_ref()).map_err(StartError::Other)?;
            follows.push((Arc::new(shown), follow));
        }
        let shown = follows.iter().map(|(shown, _)| Arc::clone(shown)).collect();
        let token = token.map_or_else(Token::random, Ok).map_err(StartError::Other)?;
        let app = App::new(shown, token, counters, snapshots);
        if let Some(Awaited { title, text, .. }) = &awaited {
            app.awaits_as(title, text);
        }
        Ok(Ready { app: Arc::new(app), follows, awaited, listener, port, has_given_up_root })
    }
}

impl Ready {
    /// Returns the address to open in a browser, with the token.
    #[must_use]
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.app.token().text())
    }

    /// Returns the port that the server listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reads the traces, and serves requests until the process ends.
    ///
    /// # Errors
    /// No thread can be made, or rights cannot be given up.
    pub fn serve(self) -> Result<(), StartError> {
        rights::get_no_more().map_err(StartError::Rights)?;
        for (shown, follow) in self.follows {
            pass(shown, follow).map_err(StartError::Other)?;
        }
        if let Some(awaited) = self.awaited {
            await_in_thread(Arc::clone(&self.app), awaited).map_err(StartError::Other)?;
        }
        serve(self.listener, self.app).map_err(StartError::Other)
    }
}
