//! A trace that the page shows, or several that are merged by time, with all that answers about it need.

use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use strata_analyze::counters::CounterRule;
use strata_analyze::debug_info::SourceOptions;
use strata_ctf::read::{Follow, Reader, Stream};

use crate::answers::{Base, VERSION};
use crate::kept_model::{keep, kept, FORMAT};
use crate::model::outline::{begin_of, SharedOutline};
use crate::model::{Model, SharedModel};
use crate::readers::Readers;
use crate::server::request_guard::Token;
use crate::tile_cache::TileCache;

/// The number of records from which on a trace's model is stored in the cache. With fewer records, reading the trace
/// again takes no longer than loading the page.
const KEPT_RECORDS: u64 = 100_000;
/// File in the folder of a recording at a relay.
const RELAY_FILE: &str = ".strata-relay";

/// How the traces are read.
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

/// Traces to show as one.
#[derive(Debug)]
pub struct Traces {
    /// How they are read.
    pub source: Source,
    /// Absolute paths of the traces.
    pub paths: Vec<PathBuf>,
    /// Paths of the traces as they are typed in a shell.
    pub typed: String,
}

/// Traces that are shown, and the state of the pass over them.
#[derive(Debug)]
pub struct Shown {
    /// Readers of the traces.
    pub readers: Readers,
    /// Paths of the traces as they are typed in a shell.
    pub typed: String,
    /// State of the pass over the traces.
    pub model: SharedModel,
    /// What the headers of packets say of traces that are not read yet.
    pub outline: SharedOutline,
    /// Time from which the page's times count.
    pub base: Base,
    /// Identifier of these traces, by which a browser's cache distinguishes them from others.
    pub id: String,
    /// Title of the page.
    pub title: String,
    /// Options for finding the functions of call stacks, with the files that were read so far.
    pub code: SourceOptions,
    /// Size of all streams \[byte\].
    pub bytes: u64,
    /// Where the model is kept, and as what; `None` if it is not.
    kept_in: Option<(Arc<TileCache>, String)>,
    /// True if the model is the one that was kept.
    is_kept: bool,
    counters: Vec<CounterRule>,
}

/// Returns the title of these traces: their folders' names. A recording at a relay begins with the folder of its host, since
/// recordings of several hosts have one name.
#[must_use]
pub fn title_of(paths: &[PathBuf]) -> String {
    let name = |path: &PathBuf| {
        let own = path.file_name()?.to_string_lossy().into_owned();
        let host = path.parent().and_then(Path::file_name);
        let host = host.filter(|_| path.join(RELAY_FILE).exists());
        Some(host.map_or(own.clone(), |host| format!("{}/{own}", host.to_string_lossy())))
    };
    paths.iter().filter_map(name).collect::<Vec<_>>().join(", ")
}

impl Shown {
    /// Prepares traces to be shown. `counters` are the fields that are drawn as counters; `place` distinguishes traces
    /// that are shown side by side, since they may be the same ones. `cache` has models of complete traces. The second part of the result is for [`pass`].
    ///
    /// # Errors
    /// The traces cannot be opened again, or the system has no random numbers.
    pub fn new(
        traces: Traces,
        counters: &[CounterRule],
        place: usize,
        cache: Option<&Arc<TileCache>>,
    ) -> io::Result<(Shown, Option<Follow>)> {
        let Traces { source, paths, typed } = traces;
        let reader = source.reader();
        let id = id_of(&source, counters, place)?;
        let title = title_of(&paths);
        let bytes = reader.streams().iter().map(Stream::bytes).sum();
        // A recording that has just begun has no record; its first one will be of about now.
        let base = Base::of(begin_of(reader).unwrap_or_else(now));
        let identity = match &source {
            Source::Whole(reader) => identity_of(reader, counters),
            Source::Growing(_) => None,
        };
        let kept_in = cache.map(Arc::clone).zip(identity);
        let before = kept_in.as_ref().and_then(|(cache, identity)| {
            let file = cache.find(&key_of(identity))?;
            kept(file, identity).ok().flatten()
        });
        let is_kept = before.is_some();
        let model = match before {
            Some(before) => SharedModel::of(Model::read_before(reader, counters, before)),
            None => SharedModel::new(reader, counters),
        };
        let counters = counters.to_vec();
        let (reader, follow) = match source {
            Source::Whole(reader) => (*reader, None),
            Source::Growing(follow) => {
                (Reader::open(&paths).map_err(io::Error::other)?, Some(*follow))
            }
        };
        let readers = Readers::new(Arc::new(reader), paths);
        let code = SourceOptions::default();
        let outline = SharedOutline::default();
        let shown = Shown {
            readers,
            typed,
            model,
            outline,
            base,
            id,
            title,
            code,
            bytes,
            kept_in,
            is_kept,
            counters,
        };
        Ok((shown, follow))
    }

    /// Returns true if the trace was read by an earlier server, whose model was kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Keeps the model of a trace that was just read to its end, and has not changed meanwhile. Where that fails, the
    /// trace is read again the next time.
    fn keep_model(&self) {
        let Some((cache, identity)) = &self.kept_in else { return };
        let is_worth_it = {
            let model = self.model.look();
            let is_whole = model.is_done && model.maker.failure.is_none() && !model.is_refused;
            is_whole && model.records >= KEPT_RECORDS
        };
        let is_same =
            || identity_of(&self.readers.get(false), &self.counters).as_ref() == Some(identity);
        if is_worth_it && is_same() && self.model.settle().is_ok() {
            let _ = cache.store(&key_of(identity), |file, may_grow| {
                keep(&self.model.look(), identity, file, may_grow)
            });
        }
    }

    /// Returns the reader for an answer.
    pub fn reader(&self) -> Arc<Reader> {
        let is_growing = self.model.look().is_live;
        self.readers.get(is_growing)
    }
}

/// Returns the present time \[ns since 1970\].
#[must_use]
pub fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    i64::try_from(now).unwrap_or(i64::MAX)
}

/// Begins to read the traces, in a thread of its own.
///
/// # Errors
/// No thread can be made.
pub fn pass(shown: Arc<Shown>, mut follow: Option<Follow>) -> io::Result<()> {
    if shown.is_kept {
        return Ok(());
    }
    if follow.is_none() {
        let shown = Arc::clone(&shown);
        let outline = move || shown.outline.read(&shown.readers.get(false));
        thread::Builder::new().name("outline".into()).spawn(outline)?;
    }
    let pass = move || {
        let read = AssertUnwindSafe(|| match &mut follow {
            None => {
                shown.model.read(&shown.readers.get(false));
                shown.keep_model();
            }
            Some(follow) => {
                shown.model.follow(follow);
                shown.readers.renew();
                shown.model.finish();
            }
        });
        if catch_unwind(read).is_err() {
            // The server shows what was read so far, with a message that it is not all.
            shown.model.fail(io::Error::other("reading the traces ended by a fault of strata"));
        }
    };
    thread::Builder::new().name("pass".into()).spawn(pass).map(drop)
}

/// Says which traces these are, and by which program and with which counters they are read. `None` if a file cannot be
/// looked at.
fn identity_of(reader: &Reader, counters: &[CounterRule]) -> Option<String> {
    let mut text = format!("{FORMAT} {VERSION} {counters:?}\n");
    let mut add = |path: &std::path::Path| {
        let status = std::fs::metadata(path).ok()?;
        let (size, inode, device) = (status.len(), status.ino(), status.dev());
        let (changed, nanos) = (status.ctime(), status.ctime_nsec());
        let modified = (status.mtime(), status.mtime_nsec());
        writeln!(text, "{path:?} {size} {inode} {device} {changed}.{nanos} {modified:?}").ok()
    };
    // Another build may make something else of the same trace.
    add(&std::env::current_exe().ok()?)?;
    for trace in reader.traces() {
        add(trace.metadata())?;
    }
    for stream in reader.streams() {
        stream.files().iter().try_for_each(|path| add(path))?;
    }
    // A file may have grown since the reader was opened, which reads no more than it had then.
    let bytes = reader.streams().iter().map(|stream| stream.bytes().to_string());
    text.extend(bytes.map(|bytes| bytes + " "));
    Some(text)
}

/// Returns the name of a model's file. Two identities may have one; the file itself says of which it is.
fn key_of(identity: &str) -> String {
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    identity.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Returns the name that answers are kept under in a browser's cache: what is drawn otherwise has another one.
///
/// # Errors
/// The system has no random numbers.
fn id_of(source: &Source, counters: &[CounterRule], place: usize) -> io::Result<String> {
    let reader = match source {
        Source::Whole(reader) => reader,
        // What it will have is not known yet.
        Source::Growing(_) => return Ok(Token::random()?.text().chars().take(16).collect()),
    };
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    (VERSION, place).hash(&mut hasher);
    for stream in reader.streams() {
        (stream.trace().path(), stream.name(), stream.bytes()).hash(&mut hasher);
    }
    begin_of(reader).hash(&mut hasher);
    for counter in counters {
        format!("{counter:?}").hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}
