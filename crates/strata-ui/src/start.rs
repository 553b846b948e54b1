//! Starts a server for traces.

use std::hash::{Hash, Hasher};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use strata_analyze::counters::CounterRule;
use strata_analyze::debug_info::SourceOptions;
use strata_ctf::read::{Follow, Reader, Stream, TimeRange};

use crate::answers::{Base, VERSION};
use crate::guard::Token;
use crate::model::SharedModel;
use crate::readers::Readers;
use crate::rights;
use crate::saved::{page, SavedPage, SavedTrace};
use crate::server::{serve, App};

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

/// The traces to show.
#[derive(Debug)]
pub enum Source {
    /// Complete traces, or traces that are shown as they are now.
    Whole(Box<Reader>),
    /// Traces that are being recorded.
    Growing(Box<Follow>),
}

impl Source {
    fn reader(&self) -> &Reader {
        match self {
            Source::Whole(reader) => reader,
            Source::Growing(follow) => follow.reader(),
        }
    }
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct Server {
    source: Source,
    paths: Vec<PathBuf>,
    typed: String,
    listener: TcpListener,
    port: u16,
    counters: Vec<CounterRule>,
}

/// A server that is ready to answer, and has no rights except to read files.
#[derive(Debug)]
pub struct Ready {
    app: Arc<App>,
    follow: Option<Follow>,
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
    /// Makes a server for these traces. `typed` is how they were typed on the command line, `counters` the fields that
    /// are shown as counters. With port 0, the system chooses the port.
    ///
    /// # Errors
    /// The server cannot listen on the port.
    pub fn new(
        source: Source,
        paths: Vec<PathBuf>,
        typed: String,
        port: u16,
        counters: Vec<CounterRule>,
    ) -> Result<Server, StartError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = listener.map_err(|error| StartError::Port(port, error))?;
        let port = listener.local_addr().map_err(StartError::Other)?.port();
        Ok(Server { source, paths, typed, listener, port, counters })
    }

    /// Gives up root's rights. This process must not have other threads yet.
    ///
    /// # Errors
    /// The rights cannot be given up.
    pub fn ready(self) -> Result<Ready, StartError> {
        let Server { source, paths, typed, listener, port, counters } = self;
        let reader = source.reader();
        let has_given_up_root = rights::give_up_root().map_err(StartError::Rights)?;
        let id = id_of(&source, &counters).map_err(StartError::Other)?;
        let names = paths.iter().filter_map(|path| path.file_name());
        let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
        // A recording that has just begun has no record; its first one will be of about now.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let bytes = reader.streams().iter().map(Stream::bytes).sum();
        let (base, model) =
            (reader.span().map_or(now, |span| span.from), SharedModel::new(reader, &counters));
        let (reader, follow) = match source {
            Source::Whole(reader) => (*reader, None),
            Source::Growing(follow) => {
                let reader = Reader::open(&paths).map_err(io::Error::other);
                (reader.map_err(StartError::Other)?, Some(*follow))
            }
        };
        let app = App {
            base: Base::of(base),
            id,
            title: names.join(", "),
            token: Token::random().map_err(StartError::Other)?,
            code: SourceOptions::default(),
            bytes,
            model,
            readers: Readers::new(Arc::new(reader), paths),
            typed,
        };
        Ok(Ready { app: Arc::new(app), follow, listener, port, has_given_up_root })
    }
}

/// Returns the name that answers are kept under in a browser's cache: what is drawn otherwise has another one.
///
/// # Errors
/// The system has no random numbers.
fn id_of(source: &Source, counters: &[CounterRule]) -> io::Result<String> {
    let reader = match source {
        Source::Whole(reader) => reader,
        // What it will have is not known yet.
        Source::Growing(_) => return Ok(Token::random()?.text().chars().take(16).collect()),
    };
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    VERSION.hash(&mut hasher);
    for stream in reader.streams() {
        (stream.trace().path(), stream.name(), stream.bytes()).hash(&mut hasher);
    }
    reader.span().map(|span| (span.from, span.to)).hash(&mut hasher);
    for counter in counters {
        format!("{counter:?}").hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

impl Ready {
    /// Returns the address to open in a browser, with the token.
    #[must_use]
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.app.token.text())
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
        let app = Arc::clone(&self.app);
        let mut follow = self.follow;
        let pass = move || {
            let read = AssertUnwindSafe(|| match &mut follow {
                None => app.model.read(&app.readers.get(false)),
                Some(follow) => {
                    app.model.follow(follow);
                    app.readers.renew();
                    app.model.finish();
                }
            });
            if catch_unwind(read).is_err() {
                // The server shows what was read so far, with a message that it is not all.
                app.model.fail(io::Error::other("reading the traces ended by a fault of strata"));
            }
        };
        thread::Builder::new().name("pass".into()).spawn(pass).map_err(StartError::Other)?;
        serve(self.listener, self.app).map_err(StartError::Other)
    }
}
